//! The changes of one commit, and those of them that a watcher wants.
//!
//! Always: a [`Revision`] is whole; it owns its bytes, so that a change that waits keeps no page of a read alive.
//! Not here: where pages come from (`pages.rs`).

use super::spans::holds;
use base_types::versioned::{Change, Row, Span};
use bytes::Bytes;
use std::sync::Arc;

/// What a change takes beside its key and values, about.
const CHANGE_BYTES: usize = 160;

/// What somebody watches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    pub span: Span,
    pub puts: bool,
    pub deletes: bool,
    /// Whether events hold what the key was.
    pub before: bool,
}

impl Wanted {
    pub(super) fn takes(&self, deleted: bool) -> bool {
        if deleted {
            self.deletes
        } else {
            self.puts
        }
    }
}

/// All changes of one commit.
#[derive(Debug)]
pub(crate) struct Revision {
    pub stamp: u64,
    /// By number.
    pub changes: Vec<Change>,
    pub bytes: usize,
    /// Whether the changes have their former values.
    pub with_before: bool,
}

impl Revision {
    pub(super) fn new(stamp: u64, changes: Vec<Change>, with_before: bool) -> Revision {
        let changes: Vec<_> = changes.into_iter().map(owned).collect();
        let bytes = changes.iter().map(bytes_of).sum();
        Revision { stamp, changes, bytes, with_before }
    }
}

fn owned(change: Change) -> Change {
    let copy = |bytes: &Bytes| Bytes::copy_from_slice(bytes);
    let row = |row: Option<Row>| row.map(|row| Row { value: copy(&row.value), ..row });
    Change { key: copy(&change.key), after: row(change.after), before: row(change.before), ..change }
}

fn bytes_of(change: &Change) -> usize {
    let value = |row: &Option<Row>| row.as_ref().map_or(0, |row| row.value.len());
    CHANGE_BYTES + change.key.len() + value(&change.after) + value(&change.before)
}

/// Which changes of a revision a watcher looks at.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pick {
    /// This one: it watches one key, and a commit changes a key once.
    One(u32),
    /// From this one on, those in its range.
    From(u32),
}

/// Events for one watcher, in order, whole revisions.
#[derive(Clone, Default, Debug)]
pub(crate) struct Batch {
    pub events: Vec<(Arc<Revision>, u32)>,
    /// The watcher has been given all up to this stamp when this batch is sent.
    pub up_to: u64,
    pub bytes: usize,
}

impl Batch {
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        self.events.iter().filter_map(|(revision, index)| revision.changes.get(*index as usize))
    }
}

/// Adds to a batch what a watcher wants of a revision.
pub(super) fn pick(wanted: &Wanted, revision: &Arc<Revision>, at: Pick, batch: &mut Batch) {
    let (first, last) = match at {
        Pick::One(index) => (index as usize, index as usize + 1),
        Pick::From(index) => (index as usize, revision.changes.len()),
    };
    for (index, change) in revision.changes.iter().enumerate().take(last).skip(first) {
        if wanted.takes(change.after.is_none()) && holds(&wanted.span, &change.key) {
            batch.bytes += bytes_of(change);
            batch.events.push((revision.clone(), index as u32));
        }
    }
}
