//! The default engine: one LMDB environment a lane, spaces apart by key prefix.
//!
//! LMDB is a B+tree in a memory-mapped file, copied on write: readers take no locks and see one
//! instant, one writer at a time, and a commit is pages, sync, then one meta page. So a crash leaves
//! the last finished write, without a log of its own to replay.
//!
//!   core thread   ──get, range──▶ a read transaction       ─┐
//!   stream        ──snapshot────▶ one of its own, expiring ─┼─▶ the map
//!   writer thread ──write───────▶ the one write transaction ┘
//!
//! It opens its own files (LMDB cannot be handed a disk), so it is proved by the contract, crash
//! images and damaged files, not by the simulator.
//!
//! Always: `write` is synced when it returns; every value carries a checksum that covers its key; a key that is
//! not found is proved to be absent (`fenced.rs`); the map is never resized.
//! Not here: the overlay that makes writes large (core-cluster). Bytes: docs/formats/engine-lmdb.md;
//! limits and figures: docs/engines/lmdb.md.
#![deny(missing_docs)]
// An engine that opens its own files; the wall these lints build is around core-*.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod directory;
mod environment;
mod failure;
mod fenced;
mod format;
#[cfg(test)]
mod golden_rows;
mod open;
mod readers;
#[cfg(test)]
mod tests;
mod verify;
mod writer;

use base_engine::fences::{self, FencedView};
use base_engine::{
    Direction, Engine, EngineError, EngineRead, EngineSnapshot, EngineStatistics, KeyRange, Visit, WalkVisit,
    WriteBatch,
};
use base_types::{LogIndex, SpaceId};
use bytes::Bytes;
use environment::Environment;
use failure::lmdb_failure;
use heed::{AnyTls, RoTxn};
use readers::{Readers, SnapshotSlot};
use std::cell::Cell;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;
use writer::Writer;

/// How an engine is opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LmdbConfig {
    /// The most bytes the file may grow to. Address space, not memory or disk, is taken up front.
    pub map_bytes_max: u64,
    /// The age at which a snapshot expires.
    pub snapshot_age_max: Duration,
    /// The bytes written since at which a snapshot expires: what it may make the file grow by.
    pub snapshot_bytes_behind_max: u64,
    /// Whose data it is (for example world, disk and lane): written when the directory is made and
    /// compared when it is opened. Empty: not compared.
    pub identity: String,
}

impl Default for LmdbConfig {
    fn default() -> LmdbConfig {
        LmdbConfig {
            map_bytes_max: 64 << 30,
            snapshot_age_max: Duration::from_secs(600),
            snapshot_bytes_behind_max: 4 << 30,
            identity: String::new(),
        }
    }
}

/// The engine.
pub struct LmdbEngine {
    environment: Environment,
    readers: Readers,
    writer: Writer,
    directory: PathBuf,
    map_bytes_max: u64,
    batches: AtomicU64,
    puts: AtomicU64,
}

impl LmdbEngine {
    /// The name in rules.
    pub const NAME: &'static str = "lmdb";

    /// Opens a directory, or makes it. A directory of something else, of a newer format or of another
    /// identity is refused untouched (`WrongFormat`); a damaged one is `Corrupt`.
    pub fn open(directory: impl AsRef<Path>, config: LmdbConfig) -> Result<LmdbEngine, EngineError> {
        let directory = directory.as_ref();
        let environment = open::open(directory, &config)?;
        let map_bytes_max = environment.env.info().map_size as u64;
        Ok(LmdbEngine {
            readers: Readers::new(environment.env.clone(), config.snapshot_age_max, config.snapshot_bytes_behind_max),
            environment,
            writer: Writer::default(),
            directory: directory.to_path_buf(),
            map_bytes_max,
            batches: AtomicU64::new(0),
            puts: AtomicU64::new(0),
        })
    }

    /// Where its files are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Reads everything and tries every checksum; the number of pairs. Slow: for operators and tests.
    pub fn verify(&self) -> Result<u64, EngineError> {
        verify::whole(&self.environment)
    }
}

/// Reads inside one read transaction.
struct View<'a> {
    environment: &'a Environment,
    reader: &'a RoTxn<'a, AnyTls>,
}

impl View<'_> {
    fn get(&self, space: SpaceId, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        if key.len() > base_engine::ENGINE_KEY_BYTES_MAX {
            return Ok(None); // Never written; LMDB would take it for damage.
        }
        let whole_key = format::LookUpKey::new(space, key);
        let whole_key = whole_key.bytes();
        let stored = self
            .environment
            .spaces
            .get(self.reader, whole_key)
            .map_err(|error| lmdb_failure("reading a key", error))?;
        let Some(stored) = stored else {
            return fences::prove_absent(self, space, key).map(|()| None);
        };
        Ok(Some(Bytes::copy_from_slice(format::unseal(whole_key, stored)?)))
    }

    fn durable_index(&self, space: SpaceId) -> Result<LogIndex, EngineError> {
        let key = format::durable_key(space);
        let stored = self
            .environment
            .meta
            .get(self.reader, &key)
            .map_err(|error| lmdb_failure("reading a durable index", error))?;
        match stored {
            Some(stored) => format::decode_index(&key, stored),
            None => fences::prove_no_index(self, space).map(|()| LogIndex(0)),
        }
    }

    fn range(
        &self,
        space: SpaceId,
        range: KeyRange<'_>,
        direction: Direction,
        visit: Visit<'_>,
        go_on: impl Fn() -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let mut whole_key = Vec::new();
        fences::range(self, space, range, direction, &mut |key, stored| {
            go_on()?;
            format::write_pair_key(&mut whole_key, space, key);
            Ok(visit(key, format::unseal(&whole_key, stored)?))
        })
    }

    /// Past the pairs whose seal does not hold.
    fn walk(
        &self,
        space: SpaceId,
        range: KeyRange<'_>,
        visit: WalkVisit<'_>,
        go_on: impl Fn() -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let mut whole_key = Vec::new();
        fences::range(self, space, range, Direction::Forward, &mut |key, stored| {
            go_on()?;
            format::write_pair_key(&mut whole_key, space, key);
            Ok(visit(key, format::unseal(&whole_key, stored).ok()))
        })
    }
}

impl EngineRead for LmdbEngine {
    fn get(&self, space: SpaceId, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.readers.read(|reader| View { environment: &self.environment, reader }.get(space, key))
    }

    fn range(
        &self,
        space: SpaceId,
        range: KeyRange<'_>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), EngineError> {
        self.readers.read(|reader| {
            View { environment: &self.environment, reader }.range(space, range, direction, visit, || Ok(()))
        })
    }

    fn walk(&self, space: SpaceId, range: KeyRange<'_>, visit: WalkVisit<'_>) -> Result<(), EngineError> {
        self.readers.read(|reader| View { environment: &self.environment, reader }.walk(space, range, visit, || Ok(())))
    }

    fn durable_index(&self, space: SpaceId) -> Result<LogIndex, EngineError> {
        self.readers.read(|reader| View { environment: &self.environment, reader }.durable_index(space))
    }
}

impl Engine for LmdbEngine {
    fn name(&self) -> &'static str {
        LmdbEngine::NAME
    }

    fn write(&self, batch: &WriteBatch) -> Result<(), EngineError> {
        self.readers.expire();
        let written = self.writer.write(&self.environment, batch)?;
        self.readers.on_written(written.bytes);
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.puts.fetch_add(written.puts, Ordering::Relaxed);
        Ok(())
    }

    fn snapshot(&self) -> Result<Box<dyn EngineSnapshot>, EngineError> {
        let slot = self.readers.snapshot()?;
        Ok(Box::new(LmdbSnapshot { environment: self.environment.clone(), slot, not_shared: PhantomData }))
    }

    fn drop_space(&self, space: SpaceId, limit: usize) -> Result<bool, EngineError> {
        self.readers.expire();
        let left = self.writer.drop_space(&self.environment, space, limit.max(1))?;
        Ok(left)
    }

    fn spaces(&self) -> Result<Vec<SpaceId>, EngineError> {
        self.readers.read(|reader| Ok(View { environment: &self.environment, reader }.roll()?.spaces()))
    }

    fn statistics(&self) -> EngineStatistics {
        EngineStatistics {
            bytes_used: self.readers.read(|reader| self.environment.bytes_in_use(reader)).unwrap_or_default(),
            bytes_limit: self.map_bytes_max,
            batches: self.batches.load(Ordering::Relaxed),
            puts: self.puts.load(Ordering::Relaxed),
        }
    }
}

/// One instant of an [`LmdbEngine`], until it expires.
struct LmdbSnapshot {
    environment: Environment,
    slot: Arc<SnapshotSlot>,
    /// Not `Sync`: one thread at a time uses the transaction (`readers.rs` relies on it).
    not_shared: PhantomData<Cell<()>>,
}

impl EngineRead for LmdbSnapshot {
    fn get(&self, space: SpaceId, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.slot.read(|reader| View { environment: &self.environment, reader }.get(space, key))
    }

    fn range(
        &self,
        space: SpaceId,
        range: KeyRange<'_>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), EngineError> {
        let go_on = || if self.slot.is_marked_expired() { Err(EngineError::SnapshotExpired) } else { Ok(()) };
        self.slot
            .read(|reader| View { environment: &self.environment, reader }.range(space, range, direction, visit, go_on))
    }

    fn walk(&self, space: SpaceId, range: KeyRange<'_>, visit: WalkVisit<'_>) -> Result<(), EngineError> {
        let go_on = || if self.slot.is_marked_expired() { Err(EngineError::SnapshotExpired) } else { Ok(()) };
        self.slot.read(|reader| View { environment: &self.environment, reader }.walk(space, range, visit, go_on))
    }

    fn durable_index(&self, space: SpaceId) -> Result<LogIndex, EngineError> {
        self.slot.read(|reader| View { environment: &self.environment, reader }.durable_index(space))
    }
}

impl EngineSnapshot for LmdbSnapshot {}
