//! Calls of the plain door (KvGet, KvPut, KvScan, …) on keys with versions: their answers show no stamp.
//!
//! A put has the stamp at which its value is there, since every value is put once. A get, a scan, a failed comparison and a delete may
//! have any stamp at which the keys were as they say.
//!
//! Not here: whether such a stamp agrees with real time (`order`).

use super::{violation, Seen};
use crate::{Ending, Violation};
use base_types::action::{Action, ActionResult, BatchStep};
use base_types::ErrorCode;
use bytes::Bytes;
use std::collections::BTreeMap;

/// A call of the plain door.
#[derive(Clone, Debug)]
pub struct Plain {
    /// Its number, for people.
    pub id: u64,
    /// What was asked.
    pub asked: Action,
    /// By the leader, or by what any member had applied.
    pub strong: bool,
    /// When it began.
    pub invoked: u64,
    /// When it ended.
    pub returned: Option<u64>,
    /// Whether it happened. What was decided by a comparison that failed, happened.
    pub ending: Ending,
    /// The answer, or why it was refused.
    pub told: Option<Result<ActionResult, ErrorCode>>,
}

/// Where in the history a call may have been.
pub(super) enum Place<'a> {
    /// At this stamp, which is its own.
    Own(u64),
    /// At any stamp at which this holds.
    Where(Box<dyn Fn(u64) -> bool + 'a>),
    /// It deleted at any stamp at which this holds, and no other call did.
    Deleted(Box<dyn Fn(u64) -> bool + 'a>),
    /// Nothing is known.
    Open,
    /// There is no such place.
    Nowhere(String),
}

impl Plain {
    /// The values that it puts.
    pub(super) fn values(&self) -> Vec<(&Bytes, &Bytes)> {
        match &self.asked {
            Action::KvPut { key, value, .. } | Action::KvCompareAndSet { key, value: Some(value), .. } => {
                vec![(key, value)]
            }
            Action::KvBatch { steps, .. } => steps
                .iter()
                .filter_map(|step| match step {
                    BatchStep::Put { key, value } => Some((key, value)),
                    BatchStep::Delete { .. } => None,
                })
                .collect(),
            _ => Vec::new(),
        }
    }

    /// The keys that it may delete.
    pub(super) fn deletes(&self) -> Vec<&Bytes> {
        match &self.asked {
            Action::KvDelete { key, .. } | Action::KvCompareAndSet { key, value: None, .. } => vec![key],
            Action::KvBatch { steps, .. } => steps
                .iter()
                .filter_map(|step| match step {
                    BatchStep::Delete { key } => Some(key),
                    BatchStep::Put { .. } => None,
                })
                .collect(),
            _ => Vec::new(),
        }
    }

    /// It did not change anything: it was refused, or its comparison failed.
    pub(super) fn did_nothing(&self) -> bool {
        self.ending == Ending::Failed || matches!(self.told, Some(Err(_))) && self.ending == Ending::Ok
    }

    /// Where it may have been.
    pub(super) fn place<'a>(&'a self, seen: &'a Seen, puts: &BTreeMap<&'a Bytes, u64>) -> Place<'a> {
        let (Ending::Ok, Some(told)) = (self.ending, &self.told) else { return Place::Open };
        match (&self.asked, told) {
            (Action::KvGet { key, .. }, Ok(ActionResult::Value { value })) => {
                Place::Where(Box::new(move |stamp| value_at(seen, key, stamp) == value.as_ref()))
            }
            (Action::KvScan { .. }, Ok(ActionResult::Page { entries, next })) => {
                Place::Where(Box::new(move |stamp| self.shows(seen, stamp, entries, next.is_some())))
            }
            (Action::KvCompareAndSet { key, expected, .. }, Err(ErrorCode::ConditionFailed)) => {
                Place::Where(Box::new(move |stamp| value_at(seen, key, stamp) != expected.as_ref()))
            }
            (Action::KvDelete { key, .. }, Ok(ActionResult::Deleted { existed: false })) => {
                Place::Where(Box::new(move |stamp| value_at(seen, key, stamp).is_none()))
            }
            (Action::KvDelete { key, .. }, Ok(ActionResult::Deleted { existed: true })) => {
                Place::Deleted(Box::new(move |stamp| deleted_at(seen, key, stamp).is_some()))
            }
            (Action::KvCompareAndSet { key, expected: Some(expected), value: None, .. }, Ok(_)) => {
                Place::Deleted(Box::new(move |stamp| deleted_at(seen, key, stamp) == Some(expected)))
            }
            (Action::KvPut { .. } | Action::KvCompareAndSet { .. } | Action::KvBatch { .. }, Ok(_)) => {
                self.place_of_put(seen, puts)
            }
            (_, Err(_)) => Place::Open,
            (asked, Ok(other)) => Place::Nowhere(format!("{} was answered with {other:?}", asked.name())),
        }
    }

    fn place_of_put<'a>(&'a self, seen: &'a Seen, puts: &BTreeMap<&'a Bytes, u64>) -> Place<'a> {
        let values = self.values();
        let Some((_, first)) = values.first() else { return Place::Open };
        let Some(stamp) = puts.get(first).copied() else {
            // It is after all that was seen, if anywhere.
            return Place::Where(Box::new(|_| false));
        };
        if let Some((key, value)) = values.iter().find(|(_, value)| puts.get(value) != Some(&stamp)) {
            return Place::Nowhere(format!("its first put is at stamp {stamp}, and {value:?} of {key:?} is not"));
        }
        if let Some(key) = self.deletes().into_iter().find(|key| seen.at(key, stamp).is_some()) {
            return Place::Nowhere(format!("it put at stamp {stamp}, where {key:?} is, which it deletes"));
        }
        if let Action::KvCompareAndSet { key, expected, .. } = &self.asked {
            let was = value_at(seen, key, stamp.saturating_sub(1));
            if was != expected.as_ref() {
                return Place::Nowhere(format!("at stamp {stamp} it put over {was:?}, and wanted {expected:?}"));
            }
        }
        Place::Own(stamp)
    }

    /// Whether a scan shows what was there.
    fn shows(&self, seen: &Seen, stamp: u64, entries: &[(Bytes, Bytes)], more: bool) -> bool {
        let Action::KvScan { prefix, start_after, end, limit, .. } = &self.asked else { return false };
        let wanted = |key: &Bytes| {
            key.starts_with(prefix)
                && start_after.as_ref().is_none_or(|after| key > after)
                && end.as_ref().is_none_or(|end| key < end)
        };
        let keys = seen.rows.keys().filter(|key| wanted(key));
        let mut there = keys.filter_map(|key| Some((key, value_at(seen, key, stamp)?)));
        let page = there.by_ref().take(*limit as usize);
        page.eq(entries.iter().map(|(key, value)| (key, value))) && there.next().is_some() == more
    }
}

fn value_at<'a>(seen: &'a Seen, key: &Bytes, stamp: u64) -> Option<&'a Bytes> {
    seen.at(key, stamp).map(|row| &row.value)
}

/// What the key was that was deleted at a stamp.
fn deleted_at<'a>(seen: &'a Seen, key: &Bytes, stamp: u64) -> Option<&'a Bytes> {
    let change = seen.of_stamp(stamp).find(|change| change.key == *key && change.after.is_none())?;
    change.before.as_ref().map(|row| &row.value)
}

/// A key that the plain door puts has no lease, whatever it had before.
pub(super) fn check_leases(plain: &[Plain], seen: &Seen) -> Vec<Violation> {
    let values: BTreeMap<&Bytes, &Plain> =
        plain.iter().flat_map(|call| call.values().into_iter().map(move |(_, value)| (value, call))).collect();
    let rows = seen.changes.values().filter_map(|(change, _)| Some((change, change.after.as_ref()?)));
    let wrong =
        rows.filter(|(_, row)| row.lease != 0).filter_map(|(change, row)| Some((change, values.get(&row.value)?)));
    wrong
        .map(|(change, call)| violation(format!("plain call {} put a key with a lease: {change:?}", call.id)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::{check, Book, Call, Watch};
    use super::*;
    use base_types::action::KvTarget;
    use base_types::versioned::{Change, Page, Pair, Position, Query, Read, Reply, Row, Span, VersionedCall};

    fn target() -> KvTarget {
        KvTarget::Keyspace("v0".into())
    }

    fn row(created: u64, modified: u64, version: u64, value: &'static str) -> Row {
        Row { created, modified, version, lease: 0, value: value.into() }
    }

    fn put(value: &'static str) -> Action {
        Action::KvPut { target: target(), key: "k".into(), value: value.into() }
    }

    fn plain(asked: Action, (invoked, returned): (u64, u64), told: Result<ActionResult, ErrorCode>) -> Plain {
        Plain { id: 0, asked, strong: true, invoked, returned: Some(returned), ending: Ending::Ok, told: Some(told) }
    }

    fn got(value: Option<&'static str>, times: (u64, u64)) -> Plain {
        let get = Action::KvGet { target: target(), key: "k".into() };
        plain(get, times, Ok(ActionResult::Value { value: value.map(Bytes::from) }))
    }

    fn scanned(entries: &[(&'static str, &'static str)], times: (u64, u64)) -> Plain {
        let (prefix, start_after, end) = ("k".into(), None, None);
        let scan =
            Action::KvScan { target: target(), prefix, start_after, end, limit: 9, reverse: false, keys_only: false };
        let entries = entries.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        plain(scan, times, Ok(ActionResult::Page { entries, next: None }))
    }

    fn swap(expected: &'static str, value: &'static str, times: (u64, u64), done: bool) -> Plain {
        let (expected, value) = (Some(expected.into()), Some(value.into()));
        let asked = Action::KvCompareAndSet { target: target(), key: "k".into(), expected, value };
        plain(asked, times, if done { Ok(ActionResult::Done) } else { Err(ErrorCode::ConditionFailed) })
    }

    fn read(stamp: u64, row: Row, (invoked, returned): (u64, u64)) -> Call {
        let page = Page { rows: vec![Pair { key: "k".into(), row }], ..Page::default() };
        let read = Read { span: Span::From { start: Bytes::new() }, ..Read::all() };
        let asked = VersionedCall::Ask(Query::Read { read, pin: 0 });
        let told = Some(Ok(Reply::Page { stamp, page }));
        Call { id: 7, asked, strong: true, invoked, returned: Some(returned), ending: Ending::Ok, told }
    }

    /// A put by the plain door, a swap by it, a delete by it and another put; the other door reads between them.
    fn story() -> Book {
        let (one, two, three) = (row(2, 2, 1, "1"), row(2, 3, 2, "2"), row(5, 5, 1, "3"));
        let change = |stamp, after, before| Change {
            at: Position { stamp, sub: 0 },
            time_ms: 0,
            key: "k".into(),
            after,
            before,
        };
        let seen = vec![
            (change(2, Some(one.clone()), None), 900),
            (change(3, Some(two.clone()), Some(one.clone())), 900),
            (change(4, None, Some(two.clone())), 900),
            (change(5, Some(three.clone()), None), 900),
        ];
        let delete = Action::KvDelete { target: target(), key: "k".into() };
        let plain = vec![
            plain(put("1"), (100, 110), Ok(ActionResult::Done)),
            swap("1", "2", (200, 210), true),
            swap("1", "x", (300, 310), false),
            scanned(&[("k", "2")], (310, 320)),
            plain(delete, (400, 410), Ok(ActionResult::Deleted { existed: true })),
            got(None, (420, 430)),
            plain(put("3"), (500, 510), Ok(ActionResult::Done)),
            got(Some("3"), (600, 610)),
        ];
        let calls = vec![read(2, one, (150, 160)), read(3, two, (350, 360)), read(5, three, (700, 710))];
        let watch = Watch { from: Position::default(), reached: Position::end_of(5), seen, lost: None };
        Book { calls, plain, watches: vec![watch], leaps: false }
    }

    fn broken(bend: impl FnOnce(&mut Book)) -> bool {
        let mut book = story();
        bend(&mut book);
        !check(&book).is_empty()
    }

    #[test]
    fn what_is_right_is_not_reported() {
        assert_eq!(check(&story()), vec![]);
        assert!(!broken(|book| book.plain.push(got(Some("1"), (190, 250)))), "a get beside the swap");
        assert!(!broken(|book| book.plain.push(got(Some("2"), (190, 250)))), "a get beside the swap");
        assert!(!broken(|book| book.plain[4].ending = Ending::Unknown), "a delete of which nothing is known");
        assert!(!broken(|book| book.plain[7].strong = false));
    }

    #[test]
    fn what_one_door_does_the_other_has_to_see() {
        let stale = |value, times| move |book: &mut Book| book.plain.push(got(value, times));
        assert!(broken(stale(None, (120, 130))), "a put of this door");
        assert!(broken(stale(Some("1"), (220, 230))), "a swap of this door");
        assert!(broken(|book| book.calls.push(read(2, row(2, 2, 1, "1"), (220, 230)))), "a swap by the other door");
        assert!(broken(stale(Some("2"), (440, 450))), "a delete");
        assert!(broken(stale(Some("nobody's"), (440, 450))), "what nobody put");
        assert!(broken(|book| book.plain.push(scanned(&[], (350, 390)))), "a scan without a key");
        assert!(broken(|book| book.plain.push(swap("2", "y", (380, 390), false))), "its comparison held");
        assert!(broken(|book| book.plain[1] = swap("0", "2", (200, 210), true)), "it swapped what was not there");
        assert!(broken(|book| book.plain[1] = swap("1", "2", (200, 210), false)), "it was refused, and is there");
        assert!(broken(|book| book.plain[0].asked = put("0")), "a put that is nowhere, and whose value nobody put");
    }

    #[test]
    fn two_gets_do_not_go_back() {
        let both = |first, second| {
            move |book: &mut Book| {
                // Both fall between the beginning of the swap and its end.
                book.plain[1].returned = Some(290);
                book.plain.extend([got(Some(first), (220, 230)), got(Some(second), (240, 250))]);
            }
        };
        assert!(!broken(both("1", "2")));
        assert!(broken(both("2", "1")));
    }

    #[test]
    fn a_plain_put_has_no_lease_and_a_delete_has_its_client() {
        assert!(broken(|book| {
            let rows = book.watches[0].seen.iter_mut();
            rows.for_each(|(change, _)| change.after.iter_mut().for_each(|row| row.lease = 7));
        }));
        assert!(
            broken(|book| {
                book.plain.remove(4);
            }),
            "nobody deleted the key"
        );
        assert!(broken(|book| book.plain[4].invoked = 560), "the key went before its delete began");
    }
}
