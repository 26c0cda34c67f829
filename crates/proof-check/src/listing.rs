//! Pages of scans: in order, without duplicates, inside their bounds, and complete: every key whose
//! strong put was acknowledged before the scan began and that nobody tried to remove before it ended is there.
//!
//! Not here: whether the values are the right ones (`fast`, `blackbox`).

use crate::history::{page_covers, Ending, History, Observed, Operation, Record, Time};
use crate::keys::{Keys, Listed};
use crate::Violation;
use bytes::Bytes;

/// Checks every page of the history.
pub fn check(history: &History) -> Vec<Violation> {
    let keys = Keys::gather(history);
    let lives = lives(history, &keys);
    let mut violations = Vec::new();
    for record in &history.records {
        if let (Operation::Scan { .. }, Some(Observed::Page { entries, next })) = (&record.operation, &record.observed)
        {
            let mut fail = |message: String| violations.push(Violation::new("listing", message, vec![record.id]));
            check_form(record, entries, next.as_ref(), &mut fail);
            if record.is_strong() {
                check_complete((&keys, &lives), record, entries, next.as_ref(), &mut fail);
            }
        }
    }
    violations
}

/// When a key was surely there, and when somebody may have begun to remove it.
#[derive(Default)]
struct Life {
    /// (return of a strong put, its invocation).
    puts: Vec<(Time, Time)>,
    removals: Vec<(Time, Time)>,
}

/// By the numbers of `keys`.
fn lives(history: &History, keys: &Keys<'_>) -> Vec<Life> {
    let mut lives: Vec<Life> = keys.names.iter().map(|_| Life::default()).collect();
    for record in &history.records {
        if record.ending == Ending::Failed || record.observed == Some(Observed::ConditionFailed) {
            continue;
        }
        for (key, value) in record.effects() {
            let Some(life) = keys.number(record.place, key).map(|number| &mut lives[number]) else { continue };
            match value {
                Some(_) if record.is_settled_write() => life.puts.push((record.returned_or_never(), record.invoked)),
                Some(_) => {}
                None => life.removals.push((record.invoked, removal_end(record))),
            }
        }
        if matches!(record.operation, Operation::Clear) {
            let removed = &mut lives[keys.of(record.place)];
            removed.iter_mut().for_each(|life| life.removals.push((record.invoked, removal_end(record))));
        }
    }
    lives
}

/// A ghost may remove at any later moment.
fn removal_end(record: &Record) -> Time {
    if record.is_ghost() {
        Time::MAX
    } else {
        record.returned_or_never()
    }
}

fn check_form(record: &Record, entries: &[(Bytes, Bytes)], next: Option<&Bytes>, fail: &mut dyn FnMut(String)) {
    let Operation::Scan { limit, reverse, .. } = record.operation else { return };
    if entries.len() > limit as usize {
        fail(format!("a page has {} entries, more than its limit {limit}", entries.len()));
    }
    for pair in entries.windows(2) {
        let ascending = pair[0].0 < pair[1].0;
        if pair[0].0 == pair[1].0 || ascending == reverse {
            fail(format!("a page lists {:?} before {:?}", pair[0].0, pair[1].0));
        }
    }
    for (key, _) in entries {
        if !page_covers(&record.operation, next, key) {
            fail(format!("a page lists {key:?}, outside its bounds or behind its own next key {next:?}"));
        }
    }
}

fn check_complete(
    (keys, lives): (&Keys<'_>, &[Life]),
    record: &Record,
    entries: &[(Bytes, Bytes)],
    next: Option<&Bytes>,
    fail: &mut dyn FnMut(String),
) {
    let mut listed = Listed::new(entries);
    for number in keys.covered(record, next) {
        let (key, life) = (keys.names[number].1, &lives[number]);
        if listed.value(key).is_some() {
            continue;
        }
        let acknowledged = life.puts.iter().any(|(returned, invoked)| {
            *returned < record.invoked
                && !life.removals.iter().any(|(began, ended)| *began <= record.returned_or_never() && ended >= invoked)
        });
        if acknowledged {
            fail(format!("a page misses {key:?}, acknowledged before the scan began and not removed before it ended"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::testing::*;

    #[test]
    fn takes_a_complete_page() {
        let removed =
            vec![put(0, 1, "a", "1"), put(0, 1, "b", "2"), delete(3, 9, "b", true), scan(4, 5, &[("a", "1")])];
        assert_eq!(check(&history(removed)), vec![]);
    }

    #[test]
    fn rejects_disorder_duplicates_and_holes() {
        assert_eq!(check(&history(vec![scan(4, 5, &[("b", "2"), ("a", "1")])])).len(), 1);
        assert_eq!(check(&history(vec![scan(4, 5, &[("a", "1"), ("a", "1")])])).len(), 1);
        assert_eq!(check(&history(vec![put(0, 1, "a", "1"), scan(4, 5, &[])])).len(), 1);
        assert_eq!(check(&history(vec![delete(0, 1, "a", false), put(2, 3, "a", "1"), scan(4, 5, &[])])).len(), 1);
        let mut bounded = scan(4, 5, &[("a", "1"), ("b", "2")]);
        if let Operation::Scan { limit, .. } = &mut bounded.operation {
            *limit = 1;
        }
        assert_eq!(check(&history(vec![bounded])).len(), 1);
    }
}
