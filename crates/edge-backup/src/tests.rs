//! Backups of a toy world: what is refused, what continues, what comes back.

mod bad_input;
mod chain;
mod creating;
mod restoring;
mod toy;

use crate::{
    create, restore, verify, BackupError, Chain, CreateOptions, Created, Depot, Place, RestoreOptions, Restored, Signer,
};
use bytes::Bytes;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use toy::Toy;

/// Small, so that a few keys make several parts.
const PART_BYTES: usize = 200;
const KEEP: Duration = Duration::from_secs(60);

/// A world, a signer, and a place for backups.
pub struct Bench {
    pub toy: Toy,
    pub signer: Signer,
    pub folder: TempDir,
}

impl Bench {
    /// A versioned keyspace `k` with keys `key-00` … `key-39`.
    pub fn new() -> Bench {
        let toy = Toy::default();
        toy.make("k", "versioned", 1);
        (0..40).for_each(|n| toy.put("k", &key(n), &format!("value {n}")));
        Bench::of(toy)
    }

    pub fn of(toy: Toy) -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let (signer, made) = Signer::open_or_make(&folder.path().join("keys/backup.key")).unwrap();
        assert!(made);
        Bench { toy, signer, folder }
    }

    pub fn dir(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn depot(&self, name: &str) -> Depot {
        Depot::Directory(self.dir(name))
    }

    pub fn options(&self, name: &str) -> CreateOptions {
        CreateOptions {
            keyspace: "k".into(),
            dir: self.depot(name),
            base: None,
            rate: None,
            keep: KEEP,
            part_bytes: Some(PART_BYTES),
        }
    }

    pub fn create(&self, name: &str) -> Result<Created, BackupError> {
        self.create_as(&self.options(name))
    }

    pub fn create_as(&self, options: &CreateOptions) -> Result<Created, BackupError> {
        run(create(&self.toy, &self.signer, options, &mut |_| {}))
    }

    pub fn verify(&self, name: &str) -> Result<Chain, BackupError> {
        verify_by(&self.depot(name), &[], &self.signer.trusted())
    }

    pub fn restore(&self, name: &str, options: &RestoreOptions) -> Result<Restored, BackupError> {
        let chain = self.verify(name)?;
        run(restore(&self.toy, &chain, options, &mut |_| {}))
    }

    /// The file of a part of a backup.
    pub fn part(&self, name: &str, number: u32) -> PathBuf {
        self.dir(name).join(crate::part::file_name(number))
    }
}

pub fn verify_by(depot: &Depot, bases: &[Depot], trusted: &crate::Trusted) -> Result<Chain, BackupError> {
    run(verify(depot, bases, trusted, &mut |_| {}))
}

pub fn key(number: u32) -> String {
    format!("key-{number:02}")
}

pub fn beside(name: &str) -> RestoreOptions {
    let place = Place::Beside { name: name.into(), rule: None, resume: false };
    RestoreOptions { place, prefix: Bytes::new(), rate: None, leased: false }
}

pub fn in_place() -> RestoreOptions {
    RestoreOptions { place: Place::InPlace { name: "k".into() }, ..beside("k") }
}

pub fn run<T>(operation: impl std::future::Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.unwrap().block_on(operation)
}

/// What an operation was refused with.
pub fn refused<T>(result: Result<T, BackupError>) -> String {
    match result {
        Ok(_) => panic!("it was not refused"),
        Err(error) => error.to_string(),
    }
}

/// Changes a byte of a file.
pub fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 1;
    std::fs::write(path, bytes).unwrap();
}
