//! The systems that the embedded store is measured beside, each called as its own documents say.
//!
//! Not here: what is measured. Another system is one more line of `SYSTEMS` and one more module
//! (engine-rocksdb: under its cargo feature, as redb and fjall are).

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
