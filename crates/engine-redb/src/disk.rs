//! The file redb writes, with a bound on its length.
//!
//! Always: a file that would outgrow its bound is refused as a full disk would refuse it.
//! Held by: `a_disk_without_room_refuses_puts_only`.
//! Not here: locking (`base_engine::stored::Directory` holds the directory's lock).

use redb::StorageBackend;
use std::fs::File;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// The bound, which the store moves: puts leave a part of it to deletes.
#[derive(Clone, Debug)]
pub struct Bound(Arc<AtomicU64>);

impl Bound {
    /// None.
    pub fn none() -> Bound {
        Bound(Arc::new(AtomicU64::new(u64::MAX)))
    }

    /// Moves it.
    pub fn set(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Release);
    }
}

/// A bounded file.
#[derive(Debug)]
pub struct Disk {
    file: File,
    bound: Bound,
}

impl Disk {
    /// Opens it; makes it where it is missing.
    pub fn open(path: &Path, bound: Bound) -> std::io::Result<Disk> {
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        Ok(Disk { file, bound })
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> Result<u64, Error> {
        Ok(self.file.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), Error> {
        self.file.read_exact_at(out, offset)
    }

    fn set_len(&self, bytes: u64) -> Result<(), Error> {
        let bound = self.bound.0.load(Ordering::Acquire);
        if bytes > bound && bytes > self.len()? {
            let text = format!("the file would grow to {bytes} bytes, {bound} are allowed; raise bytes_max or delete");
            return Err(Error::new(ErrorKind::StorageFull, text));
        }
        self.file.set_len(bytes)
    }

    fn sync_data(&self) -> Result<(), Error> {
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
        self.file.write_all_at(data, offset)
    }
}
