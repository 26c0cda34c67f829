//! Small things about directories: names that are durable, and a lock that one process holds.
//!
//! By design: what returned `Ok` is durable; a lock ends with its process, however it ends.
//! Not here: what a directory holds (edge-node's data directory, the embedded store's).

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Makes a directory if it is not there, and its name durable.
pub fn make_directory(path: &Path) -> std::io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    std::fs::DirBuilder::new().mode(0o700).create(path)?;
    match path.parent() {
        Some(parent) => sync_directory(parent),
        None => Ok(()),
    }
}

/// Makes the names in a directory durable.
pub fn sync_directory(path: &Path) -> std::io::Result<()> {
    File::open(path)?.sync_all()
}

/// Takes the lock on a file, which is made if need be; `None`: another process has it.
pub fn lock(path: &Path) -> std::io::Result<Option<File>> {
    let file = File::options().create(true).truncate(false).write(true).open(path)?;
    // SAFETY: flock on a descriptor we own; it has no memory effects.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
        let error = std::io::Error::last_os_error();
        return match error.kind() {
            std::io::ErrorKind::WouldBlock => Ok(None),
            _ => Err(error),
        };
    }
    Ok(Some(file))
}

/// Writes a small file whole or not at all, by way of `<name>.new`; its name and its directory's are durable.
pub fn write_whole(directory: &Path, name: &str, text: &[u8]) -> std::io::Result<()> {
    let new = directory.join(format!("{name}.new"));
    let mut file = File::create(&new)?;
    file.write_all(text)?;
    file.sync_all()?;
    std::fs::rename(&new, directory.join(name))?;
    sync_directory(directory)?;
    match directory.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_directory(parent),
        _ => Ok(()),
    }
}
