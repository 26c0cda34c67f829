//! The systems that the embedded store is measured beside, each called as its own documents say.
//!
//! Not here: what is measured. Another system is one more line of `SYSTEMS` and one more module.

use std::path::Path;

/// What is measured of a system. Errors are texts: they end the measurement.
pub trait Peer: Send + Sync {
    /// Sets a key; synced before it returns where the system was opened strong.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), String>;
    /// Reads a key; whether it is there.
    fn get(&self, key: &[u8]) -> Result<bool, String>;
    /// Brings weak writes to the disk.
    fn sync(&self);
}

/// Opens a system: its directory, cores (of ours alone), whether strong.
type Open = fn(&Path, u16, bool) -> Result<Box<dyn Peer>, String>;

/// A system.
#[derive(Debug)]
pub struct System {
    pub name: &'static str,
    pub open: Open,
}

/// All of the build.
pub const SYSTEMS: &[System] = &[
    System { name: "hive", open: hive::open },
    System { name: "lmdb", open: lmdb::open },
    #[cfg(feature = "engine-redb")]
    System { name: "redb", open: redb::open },
    #[cfg(feature = "engine-fjall")]
    System { name: "fjall", open: fjall::open },
    #[cfg(feature = "engine-rocksdb")]
    System { name: "rocksdb", open: rocksdb::open },
];

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

mod hive {
    use super::{text, Path, Peer};
    use hive_client::embedded::{Durability, Options, Store};

    /// It syncs weak writes itself, once a second.
    impl Peer for Store {
        fn put(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
            Store::put(self, key, value).map_err(text)
        }

        fn get(&self, key: &[u8]) -> Result<bool, String> {
            Store::get(self, key).map(|value| value.is_some()).map_err(text)
        }

        fn sync(&self) {}
    }

    pub fn open(path: &Path, cores: u16, strong: bool) -> Result<Box<dyn Peer>, String> {
        let durability = if strong { Durability::Strong } else { Durability::Weak };
        let store = Store::open(path, Options { cores: Some(cores), durability, ..Options::default() });
        Ok(Box::new(store.map_err(text)?))
    }
}

mod lmdb {
    use super::{text, Path, Peer};
    use heed::types::Bytes;
    use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, WithoutTls};

    struct Lmdb {
        env: Env<WithoutTls>,
        all: Database<'static, Bytes, Bytes>,
    }

    impl Peer for Lmdb {
        fn put(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
            let mut transaction = self.env.write_txn().map_err(text)?;
            self.all.put(&mut transaction, key, value).map_err(text)?;
            transaction.commit().map_err(text)
        }

        fn get(&self, key: &[u8]) -> Result<bool, String> {
            let transaction = self.env.read_txn().map_err(text)?;
            Ok(self
                .all
                .get(&transaction, key)
                .map_err(text)?
                .is_some_and(|value| std::hint::black_box(value).len() < usize::MAX))
        }

        fn sync(&self) {
            let _ = self.env.force_sync();
        }
    }

    impl Drop for Lmdb {
        fn drop(&mut self) {
            let _ = self.env.force_sync();
        }
    }

    pub fn open(path: &Path, _cores: u16, strong: bool) -> Result<Box<dyn Peer>, String> {
        let mut options = EnvOpenOptions::new().read_txn_without_tls();
        options.map_size(16 << 30);
        if !strong {
            // SAFETY: without syncs a power cut may cost the file; this one is removed after the measurement.
            unsafe { options.flags(EnvFlags::NO_SYNC) };
        }
        // SAFETY: nobody else has the file open, or changes it.
        let env = unsafe { options.open(path) }.map_err(text)?;
        let transaction = env.write_txn().map_err(text)?;
        let made = env.create_databases_and_commit(transaction, |opener, transaction| -> Result<_, heed::Error> {
            Ok(CommitOrAbort::<_, ()>::Commit(opener.create_database::<Bytes, Bytes>(transaction, None)?))
        });
        let all = made.map_err(text)?.unwrap_commit();
        Ok(Box::new(Lmdb { env, all }))
    }
}

#[cfg(feature = "engine-redb")]
mod redb {
    use super::{text, Path, Peer};
    use ::redb::{Database, Durability, ReadableDatabase, TableDefinition};

    const ALL: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("all");

    struct Redb {
        database: Database,
        strong: bool,
    }

    impl Redb {
        fn write(&self, pair: Option<(&[u8], &[u8])>, durability: Durability) -> Result<(), String> {
            let mut transaction = self.database.begin_write().map_err(text)?;
            transaction.set_durability(durability).map_err(text)?;
            {
                let mut table = transaction.open_table(ALL).map_err(text)?;
                if let Some((key, value)) = pair {
                    table.insert(key, value).map_err(text)?;
                }
            }
            transaction.commit().map_err(text)
        }
    }

    impl Peer for Redb {
        fn put(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
            self.write(Some((key, value)), if self.strong { Durability::Immediate } else { Durability::None })
        }

        fn get(&self, key: &[u8]) -> Result<bool, String> {
            let transaction = self.database.begin_read().map_err(text)?;
            let table = transaction.open_table(ALL).map_err(text)?;
            Ok(table.get(key).map_err(text)?.is_some())
        }

        fn sync(&self) {
            let _ = self.write(None, Durability::Immediate);
        }
    }

    impl Drop for Redb {
        fn drop(&mut self) {
            self.sync();
        }
    }

    pub fn open(path: &Path, _cores: u16, strong: bool) -> Result<Box<dyn Peer>, String> {
        let redb = Redb { database: Database::create(path.join("redb")).map_err(text)?, strong };
        redb.write(None, Durability::Immediate)?;
        Ok(Box::new(redb))
    }
}

#[cfg(feature = "engine-fjall")]
mod fjall {
    use super::{text, Path, Peer};
    use ::fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

    struct Fjall {
        database: Database,
        all: Keyspace,
        strong: bool,
    }

    impl Peer for Fjall {
        fn put(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
            self.all.insert(key, value).map_err(text)?;
            if self.strong {
                self.database.persist(PersistMode::SyncData).map_err(text)?;
            }
            Ok(())
        }

        fn get(&self, key: &[u8]) -> Result<bool, String> {
            Ok(self.all.get(key).map_err(text)?.is_some())
        }

        fn sync(&self) {
            let _ = self.database.persist(PersistMode::SyncData);
        }
    }

    impl Drop for Fjall {
        fn drop(&mut self) {
            self.sync();
        }
    }

    pub fn open(path: &Path, _cores: u16, strong: bool) -> Result<Box<dyn Peer>, String> {
        let database = Database::builder(path).open().map_err(text)?;
        let all = database.keyspace("all", KeyspaceCreateOptions::default).map_err(text)?;
        Ok(Box::new(Fjall { database, all, strong }))
    }
}

#[cfg(feature = "engine-rocksdb")]
mod rocksdb {
    use super::{Path, Peer};
    use std::ffi::{c_char, c_uchar, c_void, CStr, CString};
    use std::os::unix::ffi::OsStrExt;

    // RocksDB's C interface (rocksdb/c.h), as far as it is used here.
    #[link(name = "rocksdb")]
    extern "C" {
        fn rocksdb_options_create() -> *mut c_void;
        fn rocksdb_options_set_create_if_missing(options: *mut c_void, create: c_uchar);
        fn rocksdb_options_destroy(options: *mut c_void);
        fn rocksdb_open(options: *const c_void, name: *const c_char, error: *mut *mut c_char) -> *mut c_void;
        fn rocksdb_close(database: *mut c_void);
        fn rocksdb_writeoptions_create() -> *mut c_void;
        fn rocksdb_writeoptions_set_sync(options: *mut c_void, sync: c_uchar);
        fn rocksdb_writeoptions_destroy(options: *mut c_void);
        fn rocksdb_readoptions_create() -> *mut c_void;
        fn rocksdb_readoptions_destroy(options: *mut c_void);
        fn rocksdb_put(
            database: *mut c_void,
            options: *const c_void,
            key: *const c_char,
            key_length: usize,
            value: *const c_char,
            value_length: usize,
            error: *mut *mut c_char,
        );
        fn rocksdb_get_pinned(
            database: *mut c_void,
            options: *const c_void,
            key: *const c_char,
            key_length: usize,
            error: *mut *mut c_char,
        ) -> *mut c_void;
        fn rocksdb_pinnableslice_destroy(slice: *mut c_void);
        fn rocksdb_flush_wal(database: *mut c_void, sync: c_uchar, error: *mut *mut c_char);
        fn rocksdb_free(memory: *mut c_void);
    }

    struct Rocks {
        database: *mut c_void,
        write: *mut c_void,
        read: *mut c_void,
    }

    // SAFETY: a database and its options may be used by many threads at once (RocksDB's documents).
    unsafe impl Send for Rocks {}
    // SAFETY: as above.
    unsafe impl Sync for Rocks {}

    /// Calls, and takes the error that was set.
    fn checked<T>(call: impl FnOnce(*mut *mut c_char) -> T) -> Result<T, String> {
        let mut error: *mut c_char = std::ptr::null_mut();
        let answer = call(&mut error);
        if error.is_null() {
            return Ok(answer);
        }
        // SAFETY: RocksDB sets a C string, which is ours to free.
        let message = unsafe { CStr::from_ptr(error) }.to_string_lossy().into_owned();
        // SAFETY: as above; not used again.
        unsafe { rocksdb_free(error.cast()) };
        Err(message)
    }

    impl Peer for Rocks {
        fn put(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
            let (k, v) = (key.as_ptr().cast(), value.as_ptr().cast());
            // SAFETY: the database is open, and the pointers are of live slices.
            checked(|error| unsafe { rocksdb_put(self.database, self.write, k, key.len(), v, value.len(), error) })
        }

        fn get(&self, key: &[u8]) -> Result<bool, String> {
            let k = key.as_ptr().cast();
            // SAFETY: as above.
            let slice = checked(|error| unsafe { rocksdb_get_pinned(self.database, self.read, k, key.len(), error) })?;
            if !slice.is_null() {
                // SAFETY: from rocksdb_get_pinned, not used again.
                unsafe { rocksdb_pinnableslice_destroy(slice) };
            }
            Ok(!slice.is_null())
        }

        fn sync(&self) {
            // SAFETY: the database is open.
            let _ = checked(|error| unsafe { rocksdb_flush_wal(self.database, 1, error) });
        }
    }

    impl Drop for Rocks {
        fn drop(&mut self) {
            self.sync();
            // SAFETY: ours, and nobody uses them any more.
            unsafe {
                rocksdb_close(self.database);
                rocksdb_writeoptions_destroy(self.write);
                rocksdb_readoptions_destroy(self.read);
            }
        }
    }

    pub fn open(path: &Path, _cores: u16, strong: bool) -> Result<Box<dyn Peer>, String> {
        let name = CString::new(path.as_os_str().as_bytes()).map_err(super::text)?;
        // SAFETY: options are made, used and destroyed here; the name outlives the call.
        let database = unsafe {
            let options = rocksdb_options_create();
            rocksdb_options_set_create_if_missing(options, 1);
            let opened = checked(|error| rocksdb_open(options, name.as_ptr(), error));
            rocksdb_options_destroy(options);
            opened?
        };
        // SAFETY: made here, destroyed with the database.
        let (write, read) = unsafe { (rocksdb_writeoptions_create(), rocksdb_readoptions_create()) };
        // SAFETY: made just now.
        unsafe { rocksdb_writeoptions_set_sync(write, c_uchar::from(strong)) };
        Ok(Box::new(Rocks { database, write, read }))
    }
}
