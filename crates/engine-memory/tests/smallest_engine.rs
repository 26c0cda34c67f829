//! The worked example of docs/contributing/engine.md: the smallest engine that keeps the whole contract of base-engine.
//!
//! By design: readers see one finished write; a snapshot costs one reference; the suite of base-engine passes.
//! Not here: disks. What a write has done is durable because a "crash" of this engine forgets nothing.

use base_engine::conformance::EngineFactory;
use base_engine::{
    BatchOperation, Direction, Engine, EngineError, EngineRead, EngineSnapshot, EngineStatistics, KeyRange, Visit,
    WriteBatch,
};
use base_types::{LogIndex, SpaceId};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Everything, at one instant. Writers replace it, so who holds one sees no half of a batch.
#[derive(Clone, Default)]
struct View {
    pairs: BTreeMap<(SpaceId, Bytes), Bytes>,
    durable: BTreeMap<SpaceId, LogIndex>,
    batches: u64,
    puts: u64,
}

impl EngineRead for View {
    fn get(&self, space: SpaceId, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        Ok(self.pairs.get(&(space, Bytes::copy_from_slice(key))).cloned())
    }

    fn range(
        &self,
        space: SpaceId,
        range: KeyRange<'_>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), EngineError> {
        let inside = |key: &[u8]| key >= range.start && range.end.is_none_or(|end| key < end);
        let mut pairs: Vec<_> = self.pairs.iter().filter(|((of, key), _)| *of == space && inside(key)).collect();
        if direction == Direction::Backward {
            pairs.reverse();
        }
        for ((_, key), value) in pairs {
            if visit(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn durable_index(&self, space: SpaceId) -> Result<LogIndex, EngineError> {
        Ok(self.durable.get(&space).copied().unwrap_or_default())
    }
}

impl View {
    fn apply(&mut self, batch: &WriteBatch) {
        self.batches += 1;
        for operation in batch.operations.iter().cloned() {
            match operation {
                BatchOperation::Put { space, key, value } => {
                    self.puts += 1;
                    self.pairs.insert((space, key), value);
                }
                BatchOperation::Delete { space, key } => _ = self.pairs.remove(&(space, key)),
                // No index and index zero are the same.
                BatchOperation::Durable { space, index: LogIndex(0) } => _ = self.durable.remove(&space),
                BatchOperation::Durable { space, index } => _ = self.durable.insert(space, index),
            }
        }
    }
}

#[derive(Default)]
struct Smallest {
    view: Mutex<Arc<View>>,
}

impl Smallest {
    fn view(&self) -> Arc<View> {
        self.view.lock().unwrap().clone()
    }
}

impl EngineRead for Smallest {
    fn get(&self, space: SpaceId, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.view().get(space, key)
    }

    fn range(&self, space: SpaceId, range: KeyRange<'_>, way: Direction, visit: Visit<'_>) -> Result<(), EngineError> {
        self.view().range(space, range, way, visit)
    }

    fn durable_index(&self, space: SpaceId) -> Result<LogIndex, EngineError> {
        self.view().durable_index(space)
    }
}

impl Engine for Smallest {
    fn name(&self) -> &'static str {
        "smallest"
    }

    fn write(&self, batch: &WriteBatch) -> Result<(), EngineError> {
        batch.check()?;
        Arc::make_mut(&mut self.view.lock().unwrap()).apply(batch);
        Ok(())
    }

    fn snapshot(&self) -> Result<Box<dyn EngineSnapshot>, EngineError> {
        Ok(Box::new(Snapshot(self.view())))
    }

    fn drop_space(&self, space: SpaceId, limit: usize) -> Result<bool, EngineError> {
        let mut view = self.view.lock().unwrap();
        let view = Arc::make_mut(&mut view);
        let gone: Vec<_> = view.pairs.keys().filter(|(of, _)| *of == space).take(limit.max(1)).cloned().collect();
        gone.iter().for_each(|key| _ = view.pairs.remove(key));
        let more = view.pairs.keys().any(|(of, _)| *of == space);
        if !more {
            view.durable.remove(&space);
        }
        Ok(more)
    }

    fn spaces(&self) -> Result<Vec<SpaceId>, EngineError> {
        let view = self.view();
        let mut spaces: Vec<_> =
            view.pairs.keys().map(|(space, _)| *space).chain(view.durable.keys().copied()).collect();
        spaces.sort();
        spaces.dedup();
        Ok(spaces)
    }

    fn statistics(&self) -> EngineStatistics {
        let view = self.view();
        let bytes_used = view.pairs.iter().map(|((_, key), value)| (key.len() + value.len()) as u64).sum();
        EngineStatistics { bytes_used, bytes_limit: 0, batches: view.batches, puts: view.puts }
    }
}

struct Snapshot(Arc<View>);

impl EngineRead for Snapshot {
    fn get(&self, space: SpaceId, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.0.get(space, key)
    }

    fn range(&self, space: SpaceId, range: KeyRange<'_>, way: Direction, visit: Visit<'_>) -> Result<(), EngineError> {
        self.0.range(space, range, way, visit)
    }

    fn durable_index(&self, space: SpaceId) -> Result<LogIndex, EngineError> {
        self.0.durable_index(space)
    }
}

impl EngineSnapshot for Snapshot {}

/// How the suite opens, reopens and crashes the engine.
struct Factory;

impl EngineFactory for Factory {
    type Engine = Smallest;

    fn open(&self) -> Smallest {
        Smallest::default()
    }

    fn reopen(&self, engine: Smallest) -> Smallest {
        engine
    }

    fn crash(&self, engine: &Smallest) -> Smallest {
        Smallest { view: Mutex::new(engine.view()) }
    }

    fn crash_during(&self, engine: &Smallest, batch: &WriteBatch, _seed: u64) -> Vec<Smallest> {
        let before = self.crash(engine);
        engine.write(batch).unwrap();
        vec![before, self.crash(engine)]
    }
}

base_engine::conformance_tests!(Factory);
