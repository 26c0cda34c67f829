//! All calls of one cluster in one order, that of stamps, which agrees with real time, whichever door they came by.
//!
//! ```text
//!   calls by their beginning ──▶ the least stamp that each may have, above all that had ended before it ──▶ none: a violation
//! ```
//!
//! Commits have the order of their stamps, so only calls without a stamp are free. The least stamp that fits is the best choice for all
//! that follow. So a violation is found if and only if no choice explains what was answered.
//!
//! By design: a call that can lie beyond what was seen counts as explained.

use super::plain::{Place, Plain};
use super::{stamp_of, violation, Book, Call, Seen};
use crate::{Ending, Violation};
use base_types::action::Action;
use bytes::Bytes;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// A call, or something that a watcher was given.
enum Event<'a> {
    Versioned(&'a Call, u64, bool),
    Plain(&'a Plain),
}

impl Event<'_> {
    fn name(&self) -> String {
        match self {
            Event::Versioned(call, _, _) => format!("call {}", call.id),
            Event::Plain(call) => format!("plain call {}", call.id),
        }
    }

    fn invoked(&self) -> u64 {
        match self {
            Event::Versioned(call, _, _) => call.invoked,
            Event::Plain(call) => call.invoked,
        }
    }

    fn returned(&self) -> Option<u64> {
        match self {
            Event::Versioned(call, _, _) => call.returned,
            Event::Plain(call) => call.returned,
        }
    }
}

/// A key that a plain call may have deleted, and between which stamps (the first is too low, the last is not too high).
pub(super) struct Deleting {
    pub key: Bytes,
    pub after: u64,
    pub until: u64,
}

/// The violations, and what plain calls may have deleted.
pub(super) fn check(book: &Book, seen: &Seen) -> (Vec<Violation>, Vec<Deleting>) {
    let (mut found, mut events, mut owners) = (Vec::new(), Vec::new(), BTreeMap::<u64, u64>::new());
    for call in book.calls.iter().filter(|call| call.ending == Ending::Ok) {
        let Some((stamp, own)) = stamp_of(call) else { continue };
        if let Some(other) = own.then(|| owners.insert(stamp, call.id)).flatten() {
            found.push(violation(format!("calls {other} and {} both committed at stamp {stamp}", call.id)));
        }
        events.push(Event::Versioned(call, stamp, own));
    }
    let most_known =
        events.iter().map(|event| if let Event::Versioned(_, stamp, _) = event { *stamp } else { 0 }).max();
    events.extend(book.plain.iter().map(Event::Plain));
    events.sort_by_key(Event::invoked);
    let latest = latest_stamps(&events);
    let puts = puts(seen);
    let order = Order { seen, puts: &puts, owners: &owners, end: most_known.unwrap_or(u64::MAX) };
    let mut ended: BinaryHeap<Reverse<(u64, u64, String)>> = BinaryHeap::new();
    for (at, (_, when)) in &seen.changes {
        ended.push(Reverse((*when, at.stamp, "a watcher".to_string())));
    }
    let (mut most, mut deleting) = ((0, String::new()), Vec::new());
    for event in &events {
        while ended.peek().is_some_and(|Reverse((returned, _, _))| *returned < event.invoked()) {
            let Some(Reverse((_, stamp, name))) = ended.pop() else { break };
            if stamp > most.0 {
                most = (stamp, name);
            }
        }
        if let Event::Plain(call) = event {
            let until = match call.returned {
                Some(returned) if call.ending == Ending::Ok => {
                    latest.range(returned + 1..).next().map_or(u64::MAX, |(_, stamp)| *stamp)
                }
                _ => u64::MAX,
            };
            let keys = if call.did_nothing() { Vec::new() } else { call.deletes() };
            deleting.extend(keys.into_iter().map(|key| Deleting { key: key.clone(), after: most.0, until }));
        }
        match order.least(event, most.0) {
            Ok(Some(stamp)) => ended.extend(event.returned().map(|returned| Reverse((returned, stamp, event.name())))),
            Ok(None) => {}
            Err(why) => {
                let text = format!("{} began after {} had ended at stamp {}: {why}", event.name(), most.1, most.0);
                found.push(violation(text));
            }
        }
    }
    (found, deleting)
}

/// The greatest stamp of what was before everything that began at a time or later.
fn latest_stamps(events: &[Event<'_>]) -> BTreeMap<u64, u64> {
    let (mut latest, mut least) = (BTreeMap::new(), u64::MAX);
    for event in events.iter().rev() {
        if let Event::Versioned(_, stamp, own) = event {
            least = least.min(stamp.saturating_sub(u64::from(*own)));
            latest.insert(event.invoked(), least);
        }
    }
    latest
}

/// At which stamp each value was put.
fn puts(seen: &Seen) -> BTreeMap<&Bytes, u64> {
    let changes = seen.changes.iter().filter(|(at, _)| at.stamp <= seen.whole);
    changes.filter_map(|(at, (change, _))| Some((&change.after.as_ref()?.value, at.stamp))).collect()
}

struct Order<'a> {
    seen: &'a Seen,
    puts: &'a BTreeMap<&'a Bytes, u64>,
    /// Stamps of commits that were acknowledged with them.
    owners: &'a BTreeMap<u64, u64>,
    /// No call knows of a later stamp.
    end: u64,
}

impl Order<'_> {
    /// The least stamp of a call that is not below this one. None: it says nothing of stamps.
    fn least(&self, event: &Event<'_>, low: u64) -> Result<Option<u64>, String> {
        let call = match event {
            Event::Versioned(_, stamp, own) if stamp + u64::from(!own) <= low => {
                return Err(format!("it is at stamp {stamp}"));
            }
            Event::Versioned(_, stamp, _) => return Ok(Some(*stamp)),
            Event::Plain(call) => call,
        };
        // What any member had applied may be old, and binds nobody.
        let low = if call.strong { low } else { 0 };
        let place = call.place(self.seen, self.puts);
        let stamp = match place {
            Place::Open => return Ok(None),
            Place::Nowhere(why) => return Err(why),
            Place::Own(stamp) if stamp <= low => return Err(format!("its put is at stamp {stamp}")),
            Place::Own(stamp) if self.owners.contains_key(&stamp) => {
                return Err(format!("its put is at stamp {stamp}, where call {} committed", self.owners[&stamp]));
            }
            Place::Own(stamp) => stamp,
            Place::Where(holds) => self.first(low, holds).ok_or_else(|| self.no_stamp(call))?,
            Place::Deleted(holds) => {
                let own = |stamp: u64| !self.owners.contains_key(&stamp) && holds(stamp);
                self.first(low + 1, own).ok_or_else(|| self.no_stamp(call))?
            }
        };
        Ok(call.strong.then_some(stamp))
    }

    fn no_stamp(&self, call: &Plain) -> String {
        let shown = match (&call.asked, &call.told) {
            (Action::KvGet { key, .. }, told) => format!("the get of {key:?}: {told:?}"),
            (asked, told) => format!("{asked:?}: {told:?}"),
        };
        format!("no stamp since explains {shown}")
    }

    fn first(&self, low: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
        if low > self.seen.whole {
            return Some(low);
        }
        let later = self.seen.stamps.range(low + 1..=self.seen.whole.max(low + 1)).copied();
        let mut stamps = std::iter::once(low).chain(later).filter(|stamp| *stamp <= self.seen.whole);
        let beyond = (self.end > self.seen.whole).then_some(self.seen.whole + 1);
        stamps.find(|stamp| holds(*stamp)).or(beyond)
    }
}
