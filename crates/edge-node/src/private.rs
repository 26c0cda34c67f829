//! Who may read what a node writes: the user it runs as.
//!
//! Always: a program that calls `new_files` at its start makes files of mode 0600 and directories of mode 0700, whichever library
//! makes them (engines, the C ones too); directories of earlier builds are closed when they are opened.
//! Not here: files with a mode of their own, such as keys, which say so where they are made.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// What is taken from the mode of every new file: everything of everybody but its owner.
const UMASK: libc::mode_t = 0o077;

/// From now on this process makes files that only its own user reads.
pub fn new_files() {
    // SAFETY: sets a number of this process; it has no memory effects.
    unsafe { libc::umask(UMASK) };
}

/// Takes these bits from a directory's mode, where it has them.
pub fn close(directory: &Path, bits: u32) {
    let Ok(found) = std::fs::metadata(directory) else { return };
    let mode = found.permissions().mode() & 0o7777;
    if mode & bits == 0 {
        return;
    }
    let path = directory.display();
    match std::fs::set_permissions(directory, Permissions::from_mode(mode & !bits)) {
        Ok(()) => {
            tracing::info!(%path, before = format!("{mode:04o}"), "other users could reach the directory; the node has taken this right away")
        }
        Err(error) => {
            tracing::warn!(%path, mode = format!("{mode:04o}"), %error, "other users can reach the directory: run chmod 0700 on it as its owner")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_directory_is_closed() {
        let home = tempfile::tempdir().unwrap();
        let mode = || std::fs::metadata(home.path()).unwrap().permissions().mode() & 0o777;
        std::fs::set_permissions(home.path(), Permissions::from_mode(0o755)).unwrap();
        close(home.path(), 0o007);
        assert_eq!(mode(), 0o750);
        close(home.path(), 0o077);
        assert_eq!(mode(), 0o700);
        close(&home.path().join("none"), 0o077);
    }
}
