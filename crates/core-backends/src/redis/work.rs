//! How much a command, and a call, may look at: a space that counts what is read from it.
//!
//! Always: a read that looks at more than [`COMMAND_WORK_MAX`] ends with an error, and never gives less than was asked for in silence.
//! Held by: `a_read_that_looks_at_too_much_is_an_error`.
//! By design: writes are counted and not cut: each of them has a bound of its own, and half of one would be damage.
//! Not here: when a call ends for the work that it has done (`calls.rs`).

use crate::contract::{Keep, SpaceRead, SpaceWrite};
use base_engine::{Direction, EngineError, KeyRange, Visit};
use bytes::Bytes;
use std::cell::Cell;
use std::ops::ControlFlow;
use std::rc::Rc;

/// Rows that one read looks at, at most.
pub(super) const COMMAND_WORK_MAX: u64 = 1_000_000;

/// What has been looked at, in rows or as much work as one of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Work(Rc<Cell<u64>>);

impl Work {
    pub fn done(&self) -> u64 {
        self.0.get()
    }

    pub fn add(&self, work: u64) {
        self.0.set(self.0.get().saturating_add(work));
    }
}

/// A space that is read, and counted.
pub(super) struct Counted<'s> {
    space: &'s dyn SpaceRead,
    work: Work,
    /// Whether the space below counts by itself.
    counted_below: bool,
    /// Where the command that runs is cut off.
    until: Cell<u64>,
    cut: Cell<bool>,
}

impl<'s> Counted<'s> {
    pub fn new(space: &'s dyn SpaceRead, work: Work) -> Counted<'s> {
        let counted = Counted { space, work, counted_below: false, until: Cell::new(0), cut: Cell::new(false) };
        counted.begin();
        counted
    }

    /// Over a [`CountedWrite`], for a command that reads among others that write.
    pub fn over_counted(space: &'s dyn SpaceRead, work: Work) -> Counted<'s> {
        Counted { counted_below: true, ..Counted::new(space, work) }
    }

    fn count(&self) {
        if !self.counted_below {
            self.work.add(1);
        }
    }

    /// The next command begins.
    pub fn begin(&self) {
        self.until.set(self.work.done().saturating_add(COMMAND_WORK_MAX));
        self.cut.set(false);
    }

    /// Whether the command was cut off: what it gave counts for nothing.
    pub fn was_cut(&self) -> bool {
        self.cut.get()
    }
}

impl SpaceRead for Counted<'_> {
    fn keep(&self) -> Keep {
        self.space.keep()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.count();
        self.space.get(key)
    }

    fn range(&self, range: KeyRange<'_>, direction: Direction, visit: Visit<'_>) -> Result<(), EngineError> {
        self.space.range(range, direction, &mut |key, value| {
            if self.work.done() >= self.until.get() {
                self.cut.set(true);
                return ControlFlow::Break(());
            }
            self.count();
            visit(key, value)
        })
    }
}

/// A space that is read and written, and counted.
pub(super) struct CountedWrite<'s> {
    space: &'s mut dyn SpaceWrite,
    work: Work,
}

impl<'s> CountedWrite<'s> {
    pub fn new(space: &'s mut dyn SpaceWrite, work: Work) -> CountedWrite<'s> {
        CountedWrite { space, work }
    }
}

impl SpaceRead for CountedWrite<'_> {
    fn keep(&self) -> Keep {
        self.space.keep()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.work.add(1);
        self.space.get(key)
    }

    fn range(&self, range: KeyRange<'_>, direction: Direction, visit: Visit<'_>) -> Result<(), EngineError> {
        self.space.range(range, direction, &mut |key, value| {
            self.work.add(1);
            visit(key, value)
        })
    }
}

impl SpaceWrite for CountedWrite<'_> {
    fn put(&mut self, key: Bytes, value: Bytes) {
        self.work.add(1);
        self.space.put(key, value);
    }

    fn delete(&mut self, key: Bytes) {
        self.work.add(1);
        self.space.delete(key);
    }
}
