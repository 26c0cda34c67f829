//! The Unix socket in the data directory: the way in when all tokens are lost.
//!
//! Always: mode 0600 below a directory of mode 0700, so that only the node's own user (and root) reaches it; what comes by it may do
//! everything.
//! Held by: `only_its_owner_reaches_it`.
//! Not here: requests (http.rs).

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tokio::net::UnixListener;

/// The socket's file.
pub const FILE: &str = "admin.sock";

/// Listens in a data directory; a node whose directory has too long a name for a socket works without, and says so.
pub fn listen(data: &Path) -> Option<UnixListener> {
    let path = data.join(FILE);
    // The directory is locked: a socket in it is an earlier process's.
    let _ = std::fs::remove_file(&path);
    let bound = UnixListener::bind(&path).and_then(|listener| {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        Ok(listener)
    });
    match bound {
        Ok(listener) => Some(listener),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "the Unix socket for administration cannot be made: if its path is too long, use a data directory with a shorter path");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_its_owner_reaches_it() {
        let home = tempfile::tempdir().unwrap();
        let listener = listen(home.path()).unwrap();
        let mode = std::fs::metadata(home.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(listener);
        assert!(listen(home.path()).is_some(), "one of an earlier process is replaced");
        assert!(listen(&home.path().join("x".repeat(200))).is_none());
    }
}
