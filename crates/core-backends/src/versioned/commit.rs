//! One transaction: its conditions, then the operations of the branch that they choose.
//!
//! ```text
//!   conditions of all levels ─▶ which branches ─▶ operations in order ─▶ written at one stamp
//!        (before any operation)                   (each sees those before)
//! ```
//!
//! Always: nothing is written before all has been done in memory, so a refusal on the way leaves nothing.
//! Not here: what a change writes (`stage.rs`).

use super::history::{check_since, readable_at};
use super::page::{self, Room, When};
use super::read::{is_changed, newest, walk_newest, Over};
use super::rows::{Bounds, LeaseRow, Meta, RowRef};
use super::stage::Stage;
use super::{refuse, Fail};
use super::{
    Check, Committed, Condition, Operation, Outcome, Pair, Put, Read, Reply, Row, Span, Transaction, COMMIT_VISITS_MAX,
    PAGE_BYTES_MAX,
};
use crate::contract::{SpaceRead, SpaceWrite};
use base_types::ErrorCode;
use core::ops::ControlFlow;

/// Which branch each transaction takes: the outermost first, then those in its branch, as they are met.
type Path = std::collections::VecDeque<bool>;

/// Applies a transaction.
pub(super) fn apply(
    space: &mut dyn SpaceWrite,
    meta: Meta,
    now_ms: u64,
    transaction: Transaction,
) -> Result<Reply, Fail> {
    let mut room = Room { visits: COMMIT_VISITS_MAX, bytes: PAGE_BYTES_MAX };
    let mut path = Path::new();
    choose(&*space, &meta, &transaction, &mut room, &mut path)?;
    let mut commit = Commit { stage: Stage::open(space, meta, now_ms)?, room, path };
    let committed = commit.run(transaction)?;
    let (meta, changes) = commit.stage.finish()?;
    Ok(Reply::Committed { stamp: meta.stamp, changes, committed })
}

fn choose(
    space: &dyn SpaceRead,
    meta: &Meta,
    transaction: &Transaction,
    room: &mut Room,
    path: &mut Path,
) -> Result<(), Fail> {
    let mut all = true;
    for condition in &transaction.conditions {
        if !holds(space, meta, condition, room)? {
            all = false;
            break;
        }
    }
    path.push_back(all);
    let branch = if all { &transaction.then } else { &transaction.otherwise };
    for operation in branch {
        if let Operation::Nested(nested) = operation {
            choose(space, meta, nested, room, path)?;
        }
    }
    Ok(())
}

/// Whether a condition holds of what is there before the commit.
fn holds(space: &dyn SpaceRead, meta: &Meta, condition: &Condition, room: &mut Room) -> Result<bool, Fail> {
    let bounds = Bounds::of(&condition.span);
    if let Check::UnchangedSince { stamp } = condition.check {
        // Deletes are known since the last compaction, no further back.
        check_since(space, meta, 0, stamp, 0)?;
        readable_at(space, meta, 0, stamp, 0)?;
        return match is_changed(space, &bounds, stamp, &mut room.visits)? {
            Some(changed) => Ok(!changed),
            None => too_much(),
        };
    }
    if let Span::One { key } = &condition.span {
        room.visits = room.visits.saturating_sub(1);
        let row = newest(space, key)?;
        return Ok(fits(&condition.check, row.as_ref().map(RowRef::of)));
    }
    let (mut any, mut all) = (false, true);
    let stopped = walk_newest(space, &bounds, Over::new(), &mut room.visits, &mut |_, row| {
        any = true;
        all = fits(&condition.check, Some(row));
        if all {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })?;
    if stopped.is_some() && all {
        return too_much();
    }
    Ok(if any { all } else { fits(&condition.check, None) })
}

/// Whether a key fits; an absent one counts as zeros, and has no value to compare.
fn fits(check: &Check, row: Option<RowRef<'_>>) -> bool {
    let number = |of: fn(&RowRef<'_>) -> u64| row.as_ref().map_or(0, of);
    match check {
        Check::Version { relation, number: wanted } => relation.holds(&number(|row| row.version), wanted),
        Check::Created { relation, stamp } => relation.holds(&number(|row| row.created), stamp),
        Check::Modified { relation, stamp } => relation.holds(&number(|row| row.modified), stamp),
        Check::Lease { relation, lease } => relation.holds(&number(|row| row.lease), lease),
        Check::Value { relation, value } => row.is_some_and(|row| relation.holds(row.value, &value[..])),
        Check::UnchangedSince { .. } => false,
    }
}

struct Commit<'s> {
    stage: Stage<'s>,
    room: Room,
    path: Path,
}

impl Commit<'_> {
    fn run(&mut self, transaction: Transaction) -> Result<Committed, Fail> {
        let succeeded = self.path.pop_front().unwrap_or(false);
        let branch = if succeeded { transaction.then } else { transaction.otherwise };
        let mut results = Vec::with_capacity(branch.len());
        for operation in branch {
            results.push(match operation {
                Operation::Put(put) => self.put(put)?,
                Operation::Delete { span, previous } => self.delete(&span, previous)?,
                Operation::Read(read) => self.read(&read)?,
                Operation::Nested(nested) => Outcome::Nested(self.run(nested)?),
            });
        }
        Ok(Committed { succeeded, results })
    }

    fn put(&mut self, put: Put) -> Result<Outcome, Fail> {
        let Put { key, mut value, mut lease, previous, keep_value, keep_lease } = put;
        self.visit(1)?;
        if keep_value || keep_lease {
            let Some(row) = self.stage.get(&key)? else {
                let message = "the key is not there, so there is no value or lease to keep; put it with both";
                return refuse(ErrorCode::KeyNotFound, message);
            };
            value = if keep_value { row.value } else { value };
            lease = if keep_lease { row.lease } else { lease };
        }
        if lease != 0 && !keep_lease {
            let row = LeaseRow::read(&*self.stage.space, lease)?;
            if !row.is_some_and(|row| row.lives(self.stage.now_ms)) {
                return refuse(
                    ErrorCode::NoSuchLease,
                    format!("there is no lease {lease}, or it has ended; grant one"),
                );
            }
        }
        let before = self.stage.put(&key, value, lease)?;
        let before = before.filter(|_| previous);
        self.spend(before.as_ref().map_or(0, |row| row.value.len()))?;
        Ok(Outcome::Put { previous: before })
    }

    fn delete(&mut self, span: &Span, previous: bool) -> Result<Outcome, Fail> {
        let found = self.found(span)?;
        let count = found.len() as u64;
        for Pair { key, row } in &found {
            self.stage.delete(key, row.clone())?;
            self.spend(if previous { key.len() + row.value.len() } else { 0 })?;
        }
        Ok(Outcome::Deleted { count, previous: if previous { found } else { Vec::new() } })
    }

    /// Every key of a span that is there.
    fn found(&mut self, span: &Span) -> Result<Vec<Pair>, Fail> {
        if let Span::One { key } = span {
            self.visit(1)?;
            let row = self.stage.get(key)?;
            return Ok(row.map(|row| Pair { key: key.clone(), row }).into_iter().collect());
        }
        let bounds = Bounds::of(span);
        let (mut found, mut bytes) = (Vec::new(), 0);
        let over = self.stage.over(&bounds);
        let space = &*self.stage.space;
        let stopped = walk_newest(space, &bounds, over, &mut self.room.visits, &mut |key, row| {
            bytes += row.value.len();
            if bytes > super::COMMIT_BYTES_MAX {
                return ControlFlow::Break(());
            }
            let row: Row = row.to_row(true);
            found.push(Pair { key: bytes::Bytes::copy_from_slice(key), row });
            ControlFlow::Continue(())
        })?;
        if stopped.is_some() {
            return too_much();
        }
        Ok(found)
    }

    fn read(&mut self, read: &Read) -> Result<Outcome, Fail> {
        let meta = *self.stage.meta();
        let space = &*self.stage.space;
        let at = readable_at(space, &meta, self.stage.now_ms, read.at, 0)?;
        let when = if read.at == 0 { When::Newest(self.stage.over(&Bounds::of(&read.span))) } else { When::At(at) };
        let page = page::read(space, read, when, &mut self.room)?;
        // A page of a commit has no next: it ends at the limit that was asked for, or is refused.
        let full = read.limit != 0 && page.rows.len() >= read.limit as usize;
        let cut = !read.count_only && page.next.is_some() && !full;
        let uncounted = (read.count || read.count_only) && page.counted_to.is_some();
        if cut || uncounted {
            return too_much();
        }
        Ok(Outcome::Page(page))
    }

    fn visit(&mut self, rows: u32) -> Result<(), Fail> {
        match self.room.visits.checked_sub(rows) {
            Some(left) => self.room.visits = left,
            None => return too_much(),
        }
        Ok(())
    }

    fn spend(&mut self, bytes: usize) -> Result<(), Fail> {
        match self.room.bytes.checked_sub(bytes) {
            Some(left) => self.room.bytes = left,
            None => return too_much(),
        }
        Ok(())
    }
}

fn too_much<T>() -> Result<T, Fail> {
    refuse(
        ErrorCode::TransactionTooLarge,
        format!(
            "the transaction looks at more than {COMMIT_VISITS_MAX} rows, or answers with more than {PAGE_BYTES_MAX} bytes; \
             read ranges before it, and name their stamp in its conditions"
        ),
    )
}
