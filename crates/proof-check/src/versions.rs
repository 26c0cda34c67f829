//! Keys with versions: what clients committed, read and watched, compared with one history of all changes.
//!
//! ```text
//!   watchers ──▶ changes by position ──▶ the history, as far as somebody has seen all of it ──replayed──▶ every key at every stamp
//!   commits, reads, leases ──────────────────────────────────────────────────────────────────────▶ compared with it
//! ```
//!
//! What must hold:
//! - two watchers see the same change at one position; each sees all changes from where it began, once and in order, or learns that they
//!   were compacted;
//! - stamps agree with real time, and no two commits share one; a commit decided by what was there at the stamp before it;
//! - calls of the plain door, which show no stamp, have their place in the same order;
//! - a read at a stamp gives what was there then, by whichever member and whenever;
//! - what was refused for good is nowhere, and no put is there twice;
//! - a key goes by a client's delete, or with its lease: not before the lease's time has passed since its last renewal began.
//!
//! Always: a doubt (an unknown outcome, a stamp that nobody has seen all changes up to) counts for the system.
//! Held by: `right_story_passes_and_each_wrong_one_is_noticed`.
//! Not here: asking, and what is found after all has ended (proof-sim).

mod order;
mod plain;

pub use plain::Plain;

use crate::{Ending, Violation};
use base_types::versioned::{
    Change, Check, Command, Committed, Condition, Operation, Outcome, Position, Query, Reply, Row, Span, Transaction,
    VersionedCall,
};
use base_types::ErrorCode;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// What a clock may run apart from real time, in percent, and what an observation may come late by.
const CLOCK_PERCENT: u64 = 5;
const CLOCK_SLACK_US: u64 = 100_000;

/// A call of a client on one cluster.
#[derive(Clone, Debug)]
pub struct Call {
    /// Its number, for people.
    pub id: u64,
    /// What was asked.
    pub asked: VersionedCall,
    /// By the leader, or by what any member had applied.
    pub strong: bool,
    /// When it began.
    pub invoked: u64,
    /// When it ended.
    pub returned: Option<u64>,
    /// Whether it happened.
    pub ending: Ending,
    /// The answer, or why it was refused.
    pub told: Option<Result<Reply, ErrorCode>>,
}

/// What one watcher was given from a position on, without a gap.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// It asked for changes after this.
    pub from: Position,
    /// It was given all up to here.
    pub reached: Position,
    /// Each with when it was given.
    pub seen: Vec<(Change, u64)>,
    /// It learned that its position was compacted, and when.
    pub lost: Option<u64>,
}

/// All of one cluster.
#[derive(Clone, Debug, Default)]
pub struct Book {
    /// Its calls.
    pub calls: Vec<Call>,
    /// Those of the plain door.
    pub plain: Vec<Plain>,
    /// Its watches.
    pub watches: Vec<Watch>,
    /// Clocks leapt, so nothing is said of when leases ended.
    pub leaps: bool,
}

/// The changes that were seen.
struct Seen {
    changes: BTreeMap<Position, (Change, u64)>,
    /// All changes up to this stamp are among them.
    whole: u64,
    /// At which something changed.
    stamps: BTreeSet<u64>,
    /// What each key was from a stamp on.
    rows: BTreeMap<Bytes, BTreeMap<u64, Option<Row>>>,
}

impl Seen {
    fn at(&self, key: &Bytes, stamp: u64) -> Option<&Row> {
        self.rows.get(key)?.range(..=stamp).next_back()?.1.as_ref()
    }

    fn span_at(&self, span: &Span, stamp: u64) -> Vec<(&Bytes, &Row)> {
        let keys = self.rows.keys().filter(|key| holds(span, key));
        keys.filter_map(|key| Some((key, self.at(key, stamp)?))).collect()
    }

    fn of_stamp(&self, stamp: u64) -> impl Iterator<Item = &Change> {
        let range = Position { stamp, sub: 0 }..=Position::end_of(stamp);
        self.changes.range(range).map(|(_, (change, _))| change)
    }
}

fn holds(span: &Span, key: &[u8]) -> bool {
    match span {
        Span::One { key: one } => key == &one[..],
        Span::Range { start, end } => key >= &start[..] && key < &end[..],
        Span::From { start } => key >= &start[..],
    }
}

/// The numbers of its calls are of this book, not of the history of other keys.
fn violation(text: String) -> Violation {
    Violation::new("versions", text, Vec::new())
}

/// Checks a cluster.
pub fn check(book: &Book) -> Vec<Violation> {
    let (seen, mut found) = gather(book);
    found.extend(check_watches(book, &seen));
    let (disordered, deleting) = order::check(book, &seen);
    found.extend(disordered);
    found.extend(check_commits(book, &seen));
    found.extend(check_reads(book, &seen));
    found.extend(check_values(book, &seen));
    found.extend(plain::check_leases(&book.plain, &seen));
    found.extend(check_deletes(book, &seen, &deleting));
    found
}

/// One history of what the watchers saw.
fn gather(book: &Book) -> (Seen, Vec<Violation>) {
    let mut found = Vec::new();
    let mut changes: BTreeMap<Position, (Change, u64)> = BTreeMap::new();
    for watch in &book.watches {
        let mut last = watch.from;
        for (change, at) in &watch.seen {
            if change.at <= last || change.at > watch.reached {
                let text =
                    format!("a watcher was given {:?} after {last:?}, and {:?} as its end", change.at, watch.reached);
                found.push(violation(text));
            }
            last = change.at;
            let known = changes.entry(change.at).or_insert_with(|| (change.clone(), *at));
            known.1 = known.1.min(*at);
            if known.0 != *change {
                let text =
                    format!("two watchers were given different changes at one position: {:?} and {change:?}", known.0);
                found.push(violation(text));
            }
        }
    }
    let mut spans: Vec<(Position, Position)> = book.watches.iter().map(|watch| (watch.from, watch.reached)).collect();
    spans.sort_unstable();
    let mut end = Position::default();
    for (from, reached) in spans {
        if from <= end {
            end = end.max(reached);
        }
    }
    // A page may end within a commit.
    let whole = if end.sub == u32::MAX { end.stamp } else { end.stamp.saturating_sub(1) };
    let stamps = changes.keys().map(|at| at.stamp).collect();
    let mut seen = Seen { changes, whole, stamps, rows: BTreeMap::new() };
    found.extend(replay(&mut seen));
    (seen, found)
}

/// What each key was; every change must fit what was before it.
fn replay(seen: &mut Seen) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut rows: BTreeMap<Bytes, BTreeMap<u64, Option<Row>>> = BTreeMap::new();
    let mut before = Position::default();
    for (at, (change, _)) in seen.changes.range(..=Position::end_of(seen.whole)) {
        let number = if at.stamp == before.stamp { before.sub + 1 } else { 0 };
        if at.sub != number {
            found.push(violation(format!("change {at:?} follows {before:?}: one between them is missing")));
        }
        before = *at;
        let of_key = rows.entry(change.key.clone()).or_default();
        let was = of_key.values().next_back().cloned().flatten();
        if change.before != was {
            let text = format!("{change:?}: before it the key was {was:?}");
            found.push(violation(text));
        }
        let fits = match &change.after {
            None => was.is_some(),
            Some(row) => {
                let (created, version) = was.as_ref().map_or((at.stamp, 0), |was| (was.created, was.version));
                row.modified == at.stamp && row.created == created && row.version == version + 1
            }
        };
        if !fits {
            found.push(violation(format!("{change:?} does not fit what the key was: {was:?}")));
        }
        of_key.insert(at.stamp, change.after.clone());
    }
    seen.rows = rows;
    found
}

/// Nobody missed what another saw.
fn check_watches(book: &Book, seen: &Seen) -> Vec<Violation> {
    let mut found = Vec::new();
    for watch in &book.watches {
        let own: BTreeSet<Position> = watch.seen.iter().map(|(change, _)| change.at).collect();
        let between = seen.changes.range(watch.from..=watch.reached.max(watch.from)).map(|(at, _)| *at);
        if let Some(missed) = between.filter(|at| *at > watch.from).find(|at| !own.contains(at)) {
            let text = format!(
                "a watcher from {:?} learned that it had all up to {:?}, and was not given {missed:?}",
                watch.from, watch.reached
            );
            found.push(violation(text));
        }
        let may_be_lost =
            |at: u64| compactions(book).any(|(stamp, call)| stamp > watch.reached.seen_up_to() && call.invoked <= at);
        if watch.lost.is_some_and(|at| !may_be_lost(at)) {
            let text = format!("a watcher at {:?} learned that it was compacted, and nobody had", watch.reached);
            found.push(violation(text));
        }
    }
    found
}

fn compactions(book: &Book) -> impl Iterator<Item = (u64, &Call)> {
    book.calls.iter().filter_map(|call| match &call.asked {
        VersionedCall::Change(Command::Compact { stamp }) if call.ending != Ending::Failed => Some((*stamp, call)),
        _ => None,
    })
}

/// The stamp that a call shows, and whether it is one of its own.
fn stamp_of(call: &Call) -> Option<(u64, bool)> {
    match (&call.asked, call.told.as_ref()?.as_ref().ok()?) {
        (VersionedCall::Change(_), Reply::Committed { stamp, changes, .. }) => Some((*stamp, *changes > 0)),
        (VersionedCall::Ask(Query::Read { read, .. }), Reply::Page { stamp, .. }) if read.at == 0 && call.strong => {
            Some((*stamp, false))
        }
        _ => None,
    }
}

/// Commits did what they say, by what was there before.
fn check_commits(book: &Book, seen: &Seen) -> Vec<Violation> {
    let mut found = Vec::new();
    for call in book.calls.iter().filter(|call| call.ending == Ending::Ok) {
        let VersionedCall::Change(Command::Commit { transaction }) = &call.asked else { continue };
        let Some(Ok(Reply::Committed { stamp, changes, committed })) = &call.told else { continue };
        if *stamp > seen.whole {
            continue;
        }
        let before = if *changes > 0 { stamp - 1 } else { *stamp };
        let wrong = check_commit(transaction, committed, (before, *stamp, *changes), seen);
        found.extend(wrong.map(|text| violation(format!("call {} at stamp {stamp}: {text}", call.id))));
    }
    found
}

fn check_commit(
    transaction: &Transaction,
    committed: &Committed,
    (before, stamp, changes): (u64, u64, u32),
    seen: &Seen,
) -> Option<String> {
    let held = transaction.conditions.iter().all(|condition| holds_at(condition, seen, before));
    if held != committed.succeeded {
        return Some(format!("its conditions held: {held}, and it says {}", committed.succeeded));
    }
    let done = if held { &transaction.then } else { &transaction.otherwise };
    let there: Vec<&Change> = seen.of_stamp(stamp).collect();
    if changes > 0 && there.len() != changes as usize {
        return Some(format!("it made {changes} changes, and {} were seen", there.len()));
    }
    let change_of = |key: &Bytes| there.iter().find(|change| change.key == *key && changes > 0);
    for (operation, outcome) in done.iter().zip(&committed.results) {
        match (operation, outcome) {
            (Operation::Put(put), Outcome::Put { previous }) => {
                let row = change_of(&put.key).and_then(|change| change.after.as_ref());
                if row.is_none_or(|row| row.value != put.value || row.lease != put.lease) {
                    return Some(format!("it put {put:?}, and what was seen is {row:?}"));
                }
                let was = seen.at(&put.key, before);
                if put.previous && previous.as_ref() != was {
                    return Some(format!("it received {previous:?} as what {:?} was, and that was {was:?}", put.key));
                }
            }
            (Operation::Delete { span, .. }, Outcome::Deleted { count, .. }) => {
                let keys = seen.span_at(span, before);
                let left = keys.iter().find(|(key, _)| change_of(key).is_none_or(|change| change.after.is_some()));
                if keys.len() as u64 != *count || left.is_some() {
                    return Some(format!(
                        "it deleted {count} keys of {span:?}; there were {keys:?}, and {left:?} stayed"
                    ));
                }
            }
            _ => {}
        }
    }
    None
}

fn holds_at(condition: &Condition, seen: &Seen, stamp: u64) -> bool {
    let absent = Row { created: 0, modified: 0, version: 0, lease: 0, value: Bytes::new() };
    let rows = seen.span_at(&condition.span, stamp);
    let one = |row: Option<&Row>| {
        let there = row.is_some();
        let row = row.unwrap_or(&absent);
        match &condition.check {
            Check::Version { relation, number } => relation.holds(&row.version, number),
            Check::Created { relation, stamp } => relation.holds(&row.created, stamp),
            Check::Modified { relation, stamp } => relation.holds(&row.modified, stamp),
            Check::Lease { relation, lease } => relation.holds(&row.lease, lease),
            Check::Value { relation, value } => there && relation.holds(&row.value, value),
            Check::UnchangedSince { stamp: since } => unchanged(&condition.span, seen, *since, stamp),
        }
    };
    if rows.is_empty() {
        return one(None);
    }
    rows.into_iter().all(|(_, row)| one(Some(row)))
}

fn unchanged(span: &Span, seen: &Seen, since: u64, until: u64) -> bool {
    let range =
        Position { stamp: since.saturating_add(1), sub: 0 }..=Position::end_of(until.max(since.saturating_add(1)));
    !seen.changes.range(range).any(|(at, (change, _))| at.stamp <= until && holds(span, &change.key))
}

/// Reads give what was there at their stamp, and are refused only below what was compacted.
fn check_reads(book: &Book, seen: &Seen) -> Vec<Violation> {
    let (mut found, pins) = (Vec::new(), pins(book));
    for call in &book.calls {
        let VersionedCall::Ask(Query::Read { read, pin }) = &call.asked else { continue };
        let returned = call.returned.unwrap_or(u64::MAX);
        let held = pins.get(pin).is_some_and(|(from, until)| *from < call.invoked && returned < *until);
        match call.told.as_ref() {
            Some(Ok(Reply::Page { stamp, page })) => {
                let before =
                    |other: &Call| other.returned.is_some_and(|at| at < call.invoked && other.ending == Ending::Ok);
                let compacted = compactions(book).find(|(other, of)| read.at > 0 && *other > read.at && before(of));
                if let Some((other, _)) = compacted.filter(|_| call.strong && *pin == 0) {
                    let text =
                        format!("call {} read at stamp {}, which had been compacted at {other}", call.id, read.at);
                    found.push(violation(text));
                }
                let there = seen.span_at(&read.span, *stamp);
                let given: Vec<(&Bytes, &Row)> = page.rows.iter().map(|pair| (&pair.key, &pair.row)).collect();
                if *stamp <= seen.whole && page.next.is_none() && there != given {
                    let text = format!("call {} read {given:?} at stamp {stamp}; there was {there:?}", call.id);
                    found.push(violation(text));
                }
            }
            Some(Err(code @ (ErrorCode::StampCompacted | ErrorCode::NoSuchPin))) if held && call.strong => {
                found.push(violation(format!("call {} was refused ({code:?}), and its pin {pin} held", call.id)));
            }
            Some(Err(ErrorCode::StampCompacted))
                if !compactions(book).any(|(stamp, of)| stamp > read.at && of.invoked <= returned) =>
            {
                let text = format!("call {} was refused at stamp {}, and nobody had compacted it", call.id, read.at);
                found.push(violation(text));
            }
            Some(Err(ErrorCode::StampInFuture)) if call.strong => {
                let known = book.calls.iter().filter(|other| other.returned.is_some_and(|at| at < call.invoked));
                let most = known.filter_map(stamp_of).map(|(stamp, _)| stamp).max().unwrap_or(0);
                if most >= read.at {
                    let text =
                        format!("call {} learned that stamp {} is in the future; {most} was known", call.id, read.at);
                    found.push(violation(text));
                }
            }
            _ => {}
        }
    }
    found
}

/// From when and until when a pin certainly held.
fn pins(book: &Book) -> BTreeMap<u64, (u64, u64)> {
    let mut pins = BTreeMap::new();
    for call in &book.calls {
        match (&call.asked, &call.told, call.returned) {
            (
                VersionedCall::Change(Command::Pin { pin, keep_ms, .. }),
                Some(Ok(Reply::Pinned { .. })),
                Some(returned),
            ) => {
                let time = keep_ms * 1_000 * (100 - CLOCK_PERCENT) / 100;
                let until = if book.leaps { 0 } else { (call.invoked + time).saturating_sub(CLOCK_SLACK_US) };
                pins.insert(*pin, (returned, until));
            }
            (VersionedCall::Change(Command::Unpin { pin }), _, _) => {
                pins.entry(*pin).and_modify(|(_, until)| *until = call.invoked.min(*until));
            }
            _ => {}
        }
    }
    pins
}

/// Every put is one client's, is there once, and is none that was refused for good.
fn check_values(book: &Book, seen: &Seen) -> Vec<Violation> {
    let mut found = Vec::new();
    // Who put a value: its name, and why it was refused, if for good.
    let mut made: BTreeMap<&Bytes, (String, Option<String>)> = BTreeMap::new();
    for call in &book.calls {
        let VersionedCall::Change(Command::Commit { transaction }) = &call.asked else { continue };
        for operation in transaction.then.iter().chain(&transaction.otherwise) {
            if let Operation::Put(put) = operation {
                let refused = (call.ending == Ending::Failed).then(|| format!("{:?}", call.told));
                made.insert(&put.value, (format!("call {}", call.id), refused));
            }
        }
    }
    for call in &book.plain {
        let refused = call.did_nothing().then(|| format!("{:?}", call.told));
        let values = call.values().into_iter();
        made.extend(values.map(|(_, value)| (value, (format!("plain call {}", call.id), refused.clone()))));
    }
    let mut there: BTreeMap<&Bytes, Position> = BTreeMap::new();
    for (at, (change, _)) in &seen.changes {
        let Some(row) = &change.after else { continue };
        match made.get(&row.value) {
            None => found.push(violation(format!("{change:?} was put by nobody"))),
            Some((name, Some(told))) => {
                found.push(violation(format!("{name} was refused for good ({told}), and did {change:?}")));
            }
            Some(_) => {}
        }
        if let Some(other) = there.insert(&row.value, *at) {
            found.push(violation(format!("one put is there twice, at {other:?} and {at:?}: {change:?}")));
        }
    }
    found
}

/// A lease, as its clients know it.
#[derive(Default)]
struct Lease {
    /// It lives so long at least from the start of each of these.
    renewed: Vec<u64>,
    ttl_us: u64,
    revoked: bool,
    asked: bool,
}

fn leases(book: &Book) -> BTreeMap<u64, Lease> {
    let mut leases: BTreeMap<u64, Lease> = BTreeMap::new();
    for call in &book.calls {
        let VersionedCall::Change(command) = &call.asked else { continue };
        match (command, call.told.as_ref()) {
            (Command::LeaseGrant { lease, ttl_ms }, told) => {
                let known = leases.entry(*lease).or_default();
                known.asked |= call.ending != Ending::Failed;
                known.ttl_us = ttl_ms * 1_000;
                known.renewed.extend(matches!(told, Some(Ok(_))).then_some(call.invoked));
            }
            (Command::LeaseKeepAlive { leases: asked }, Some(Ok(Reply::Kept { ttls_ms }))) => {
                for (lease, _) in asked.iter().zip(ttls_ms).filter(|(_, ttl_ms)| **ttl_ms > 0) {
                    leases.entry(*lease).or_default().renewed.push(call.invoked);
                }
            }
            (Command::LeaseRevoke { lease, .. }, _) => leases.entry(*lease).or_default().revoked = true,
            _ => {}
        }
    }
    leases
}

impl Lease {
    /// It lives until then at least, whatever clocks do, as far as was acknowledged.
    fn lives_until(&self) -> u64 {
        let time = self.ttl_us * (100 - CLOCK_PERCENT) / 100;
        self.renewed.iter().max().map_or(0, |renewed| (renewed + time).saturating_sub(CLOCK_SLACK_US))
    }
}

/// A key that goes by no client's delete goes with its lease, after its time.
fn check_deletes(book: &Book, seen: &Seen, deleting: &[order::Deleting]) -> Vec<Violation> {
    let mut found = Vec::new();
    let leases = leases(book);
    let mut acknowledged: BTreeSet<u64> = BTreeSet::new();
    let mut doubtful: Vec<&Span> = Vec::new();
    for call in &book.calls {
        let VersionedCall::Change(Command::Commit { transaction }) = &call.asked else { continue };
        acknowledged.extend(stamp_of(call).filter(|(_, own)| *own).map(|(stamp, _)| stamp));
        let deletes = transaction.then.iter().chain(&transaction.otherwise).filter_map(|operation| match operation {
            Operation::Delete { span, .. } => Some(span),
            _ => None,
        });
        doubtful.extend(deletes.filter(|_| call.ending == Ending::Unknown));
    }
    for (at, (change, seen_at)) in &seen.changes {
        if change.after.is_some() {
            continue;
        }
        let by_plain =
            |plain: &order::Deleting| plain.key == change.key && plain.after < at.stamp && at.stamp <= plain.until;
        let by_client = acknowledged.contains(&at.stamp)
            || doubtful.iter().any(|span| holds(span, &change.key))
            || deleting.iter().any(by_plain);
        let (None, Some(before), false) = (&change.after, &change.before, by_client) else { continue };
        match leases.get(&before.lease).filter(|lease| lease.asked && before.lease != 0) {
            None => found.push(violation(format!("nobody deleted what {change:?} deletes, and it has no lease"))),
            Some(lease) if !lease.revoked && !book.leaps && *seen_at < lease.lives_until() => {
                let text = format!(
                    "{change:?} was seen at {seen_at} us, and its lease lives until {} us",
                    lease.lives_until()
                );
                found.push(violation(text));
            }
            Some(_) => {}
        }
    }
    found.extend(check_renewals(book, &leases));
    found
}

/// A lease that lives can be renewed.
fn check_renewals(book: &Book, leases: &BTreeMap<u64, Lease>) -> Vec<Violation> {
    let mut found = Vec::new();
    for call in &book.calls {
        let (VersionedCall::Change(Command::LeaseKeepAlive { leases: asked }), Some(Ok(Reply::Kept { ttls_ms }))) =
            (&call.asked, call.told.as_ref())
        else {
            continue;
        };
        for (lease, _) in asked.iter().zip(ttls_ms).filter(|(_, ttl_ms)| **ttl_ms == 0) {
            let Some(known) = leases.get(lease).filter(|known| known.asked && !known.revoked && !book.leaps) else {
                continue;
            };
            if call.returned.is_some_and(|returned| returned < known.lives_until()) {
                let text = format!(
                    "call {} learned that lease {lease} is gone; it lives until {} us",
                    call.id,
                    known.lives_until()
                );
                found.push(violation(text));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use base_types::versioned::{Page, Pair, Put, Read, Relation};

    fn row(created: u64, modified: u64, version: u64, lease: u64, value: &'static str) -> Row {
        Row { created, modified, version, lease, value: value.into() }
    }

    fn change(stamp: u64, key: &'static str, after: Option<Row>, before: Option<Row>) -> Change {
        Change { at: Position { stamp, sub: 0 }, time_ms: 0, key: key.into(), after, before }
    }

    fn call(id: u64, asked: VersionedCall, (invoked, returned): (u64, u64), told: Result<Reply, ErrorCode>) -> Call {
        let ending = if told.is_ok() { Ending::Ok } else { Ending::Failed };
        Call { id, asked, strong: true, invoked, returned: Some(returned), ending, told: Some(told) }
    }

    fn put(value: &'static str, lease: u64, conditions: Vec<Condition>) -> VersionedCall {
        let (key, value) = ("k".into(), value.into());
        let put = Put { key, value, lease, previous: false, keep_value: false, keep_lease: false };
        let then = vec![Operation::Put(put)];
        VersionedCall::Change(Command::Commit { transaction: Transaction { conditions, then, otherwise: vec![] } })
    }

    fn committed(stamp: u64) -> Result<Reply, ErrorCode> {
        let results = vec![Outcome::Put { previous: None }];
        Ok(Reply::Committed { stamp, changes: 1, committed: Committed { succeeded: true, results } })
    }

    fn read(at: u64) -> VersionedCall {
        let span = Span::From { start: Bytes::new() };
        let filter = Default::default();
        let read = Read { span, at, limit: 0, keys_only: false, count: false, count_only: false, filter };
        VersionedCall::Ask(Query::Read { read, pin: 0 })
    }

    fn page(stamp: u64, row: Row) -> Result<Reply, ErrorCode> {
        let page = Page { rows: vec![Pair { key: "k".into(), row }], ..Page::default() };
        Ok(Reply::Page { stamp, page })
    }

    /// Two puts of one key, the second with a lease, and its end. All of it is right.
    fn story() -> Book {
        let (one, two) = (row(1, 1, 1, 0, "one"), row(1, 2, 2, 7, "two"));
        let seen = vec![
            (change(1, "k", Some(one.clone()), None), 150),
            (change(2, "k", Some(two.clone()), Some(one.clone())), 350),
            (change(3, "k", None, Some(two.clone())), 2_000_000),
        ];
        let granted = Ok(Reply::Granted { lease: 7, ttl_ms: 1_000 });
        let grant = VersionedCall::Change(Command::LeaseGrant { lease: 7, ttl_ms: 1_000 });
        let check = Check::Modified { relation: Relation::Equal, stamp: 1 };
        let condition = Condition { span: Span::One { key: "k".into() }, check };
        let calls = vec![
            call(0, put("one", 0, vec![]), (100, 200), committed(1)),
            call(1, grant, (210, 220), granted),
            call(2, put("two", 7, vec![condition]), (300, 400), committed(2)),
            call(3, read(0), (500, 600), page(2, two)),
            call(4, read(1), (500, 600), page(1, one)),
        ];
        let watch = Watch { from: Position::default(), reached: Position::end_of(3), seen, lost: None };
        Book { calls, watches: vec![watch.clone(), watch], ..Book::default() }
    }

    fn broken(bend: impl FnOnce(&mut Book)) -> bool {
        let mut book = story();
        bend(&mut book);
        !check(&book).is_empty()
    }

    #[test]
    fn right_story_passes_and_each_wrong_one_is_noticed() {
        assert_eq!(check(&story()), vec![]);
        assert!(broken(|book| drop(book.watches[0].seen.remove(1))), "a watcher misses a change");
        assert!(broken(|book| book.watches[0].seen.swap(0, 1)), "a watcher sees them in another order");
        assert!(broken(|book| book.watches[0].lost = Some(900)), "nobody has compacted");
        assert!(
            broken(|book| book.calls[4].told = Some(page(1, row(1, 2, 2, 7, "two")))),
            "a read at 1 gives what came at 2"
        );
        assert!(
            broken(|book| book.calls[3].told = Some(page(1, row(1, 1, 1, 0, "one")))),
            "a read misses what was acknowledged"
        );
        assert!(broken(|book| book.calls[2].told = Some(committed(1))), "two commits have one stamp");
        assert!(broken(|book| book.calls[0].ending = Ending::Failed), "what was refused is there");
        assert!(
            broken(|book| book.watches.iter_mut().for_each(|watch| watch.seen[2].1 = 800_000)),
            "the lease ends early"
        );
        assert!(!broken(|book| book.leaps = true));
        assert!(
            broken(|book| {
                book.calls.remove(1);
            }),
            "nobody granted the lease"
        );
        assert!(
            broken(|book| {
                let VersionedCall::Change(Command::Commit { transaction }) = &mut book.calls[2].asked else { return };
                transaction.conditions[0].check = Check::Version { relation: Relation::Equal, number: 0 };
            }),
            "the condition did not hold"
        );
        let compact = |invoked| {
            call(
                9,
                VersionedCall::Change(Command::Compact { stamp: 2 }),
                (invoked, invoked + 10),
                Ok(Reply::Done { stamp: 2 }),
            )
        };
        assert!(broken(|book| book.calls.push(compact(450))), "a read below what was compacted");
        assert!(!broken(|book| book.calls.push(compact(550))));
    }
}
