//! An engine that is made when something is first written to it: most nodes use one of those they offer,
//! and the others should cost neither files nor threads nor memory.
//!
//! By design: what lies on the disk already is opened at once, so that what is wrong with it stops the start
//! and not a write; an engine not made yet reads as empty.
//! Not here: which engines there are (`engines.rs`).

use base_engine::{
    Direction, Engine, EngineError, EngineRead, EngineSnapshot, EngineStatistics, KeyRange, VerifiedPart, Visit,
    WalkVisit, WriteBatch,
};
use base_types::{LogIndex, SpaceId};
use bytes::Bytes;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Opens, or makes, the engine of a directory.
pub type Open = Arc<dyn Fn(&Path) -> Result<Box<dyn Engine>, EngineError> + Send + Sync>;

/// The engine, once there is one.
pub struct Lazy {
    name: &'static str,
    path: PathBuf,
    open: Open,
    opened: OnceLock<Box<dyn Engine>>,
    one_at_a_time: Mutex<()>,
}

impl Lazy {
    /// Opens what is there.
    pub fn new(name: &'static str, path: PathBuf, open: Open) -> Result<Lazy, EngineError> {
        let lazy = Lazy { name, path, open, opened: OnceLock::new(), one_at_a_time: Mutex::new(()) };
        if lazy.path.exists() {
            lazy.made()?;
        }
        Ok(lazy)
    }

    /// The engine; made if it is not there.
    fn made(&self) -> Result<&dyn Engine, EngineError> {
        let _one = self.one_at_a_time.lock().unwrap_or_else(PoisonError::into_inner); // It guards no data.
        if self.opened.get().is_none() {
            crate::data::make_directory(&self.path)
                .map_err(|error| EngineError::Io(format!("{}: {error}", self.path.display())))?;
            let engine = (self.open)(&self.path)?;
            let _ = self.opened.set(engine); // Nobody else sets it: the lock is held.
        }
        let engine = self.opened.get().ok_or_else(|| EngineError::Io(format!("engine {} is not open", self.name)))?;
        Ok(&**engine)
    }

    fn opened(&self) -> Option<&dyn Engine> {
        self.opened.get().map(|engine| &**engine)
    }
}

impl EngineRead for Lazy {
    fn get(&self, space: SpaceId, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.opened().map_or(Ok(None), |engine| engine.get(space, key))
    }

    fn range(
        &self,
        space: SpaceId,
        range: KeyRange<'_>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), EngineError> {
        self.opened().map_or(Ok(()), |engine| engine.range(space, range, direction, visit))
    }

    fn walk(&self, space: SpaceId, range: KeyRange<'_>, visit: WalkVisit<'_>) -> Result<(), EngineError> {
        self.opened().map_or(Ok(()), |engine| engine.walk(space, range, visit))
    }

    fn durable_index(&self, space: SpaceId) -> Result<LogIndex, EngineError> {
        self.opened().map_or(Ok(LogIndex(0)), |engine| engine.durable_index(space))
    }
}

impl Engine for Lazy {
    fn name(&self) -> &'static str {
        self.name
    }

    fn write(&self, batch: &WriteBatch) -> Result<(), EngineError> {
        self.made()?.write(batch)
    }

    fn snapshot(&self) -> Result<Box<dyn EngineSnapshot>, EngineError> {
        // Not made here: this is the core's thread, and making syncs.
        self.opened().map_or_else(|| Ok(Box::new(Empty) as Box<dyn EngineSnapshot>), |engine| engine.snapshot())
    }

    fn drop_space(&self, space: SpaceId, limit: usize) -> Result<bool, EngineError> {
        self.opened().map_or(Ok(false), |engine| engine.drop_space(space, limit))
    }

    fn verify(&self, after: &[u8]) -> Result<VerifiedPart, EngineError> {
        self.opened().map_or_else(|| Ok(VerifiedPart::default()), |engine| engine.verify(after))
    }

    fn tells_lost_keys(&self) -> bool {
        self.opened().is_some_and(|engine| engine.tells_lost_keys())
    }

    fn spaces(&self) -> Result<Vec<SpaceId>, EngineError> {
        self.opened().map_or(Ok(Vec::new()), |engine| engine.spaces())
    }

    fn statistics(&self) -> EngineStatistics {
        self.opened().map(|engine| engine.statistics()).unwrap_or_default()
    }
}

/// The instant of an engine that was not made yet.
struct Empty;

impl EngineRead for Empty {
    fn get(&self, _space: SpaceId, _key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        Ok(None)
    }

    fn range(
        &self,
        _space: SpaceId,
        _range: KeyRange<'_>,
        _direction: Direction,
        _visit: Visit<'_>,
    ) -> Result<(), EngineError> {
        Ok(())
    }

    fn durable_index(&self, _space: SpaceId) -> Result<LogIndex, EngineError> {
        Ok(LogIndex(0))
    }
}

impl EngineSnapshot for Empty {}
