//! Listings with a delimiter: whether each common prefix that is shown stands for a key, and none is passed over.
//!
//! The history knows no such listing; it knows every put and delete. A page is asked and answered within a time: what
//! was surely there all the while must be shown, as itself or under its prefix, and what is shown must have been there
//! at some moment.
//!
//! Always: judged by the window of the attempt that was answered; a key's deletes of unknown outcome leave it in doubt.
//! Not here: listings without a delimiter (scans, proof-check), who asks (`load`).

use base_types::action::Action;
use base_types::s3::{ListObjectsV2, ObjectPage, S3Action};
use bytes::Bytes;
use proof_check::{Ending, History, Observed, Operation, Place, Record, Violation};
use std::collections::{BTreeMap, BTreeSet};

const DELIMITER: &str = "/";

/// A page that was answered.
#[derive(Clone, Debug)]
pub struct Grouped {
    place: Place,
    prefix: String,
    start_after: String,
    /// What it shows, in order: keys, and common prefixes.
    shown: Vec<String>,
    /// There are more behind the last.
    more: bool,
    asked: u64,
    answered: u64,
}

impl Grouped {
    /// Whether it shows a common prefix.
    pub fn has_prefixes(&self) -> bool {
        self.shown.iter().any(|shown| shown.ends_with(DELIMITER))
    }
}

/// A scan asked as a listing with a delimiter.
pub fn action_of(scan: &Operation, bucket: &str, prefix: &str) -> Option<Action> {
    let Operation::Scan { start_after, limit, .. } = scan else { return None };
    let call = ListObjectsV2 {
        bucket: bucket.to_string(),
        prefix: prefix.to_string(),
        delimiter: Some(DELIMITER.to_string()),
        start_after: start_after.as_ref().map(|key| String::from_utf8_lossy(key).into_owned()),
        max_keys: Some(*limit),
        ..ListObjectsV2::default()
    };
    Some(Action::S3(call.into()))
}

/// The page of such a listing, asked and answered at these times.
pub fn grouped(action: &Action, place: Place, page: &ObjectPage, (asked, answered): (u64, u64)) -> Option<Grouped> {
    let Action::S3(S3Action::ListObjectsV2(call)) = action else { return None };
    call.delimiter.as_ref()?;
    let mut shown: Vec<String> = page.contents.iter().map(|entry| entry.key.clone()).collect();
    shown.extend(page.common_prefixes.iter().cloned());
    shown.sort();
    let (prefix, start_after) = (call.prefix.clone(), call.start_after.clone().unwrap_or_default());
    Some(Grouped { place, prefix, start_after, shown, more: page.is_truncated, asked, answered })
}

/// The writes of one key.
#[derive(Default)]
struct Writes<'a> {
    puts: Vec<&'a Record>,
    deletes: Vec<&'a Record>,
}

impl Writes<'_> {
    /// It may have been there at some moment of a window.
    fn possible(&self, asked: u64, answered: u64) -> bool {
        let gone_before = |put: &&Record| {
            let behind =
                |delete: &&&Record| delete.ending == Ending::Ok && delete.invoked > ended(put) && ended(delete) < asked;
            self.deletes.iter().any(|delete| behind(&delete))
        };
        self.puts.iter().any(|put| put.invoked < answered && !gone_before(put))
    }

    /// It was there at every moment of a window.
    fn certain(&self, asked: u64, answered: u64) -> bool {
        let stays = |put: &&&Record| {
            let disturbs = |delete: &&Record| delete.invoked < answered && ended(delete) > put.invoked;
            put.is_settled_write() && ended(put) < asked && !self.deletes.iter().any(disturbs)
        };
        self.puts.iter().any(|put| stays(&put))
    }
}

/// When an operation was surely over.
fn ended(record: &Record) -> u64 {
    record.returned.filter(|_| record.ending == Ending::Ok).unwrap_or(u64::MAX)
}

fn writes_of(history: &History, place: Place) -> BTreeMap<&Bytes, Writes<'_>> {
    let mut keys: BTreeMap<&Bytes, Writes<'_>> = BTreeMap::new();
    let happened = |record: &&Record| {
        record.place == place && record.ending != Ending::Failed && record.observed != Some(Observed::ConditionFailed)
    };
    for record in history.records.iter().filter(happened) {
        for (key, value) in record.effects() {
            let writes = keys.entry(key).or_default();
            if value.is_some() { &mut writes.puts } else { &mut writes.deletes }.push(record);
        }
    }
    keys
}

/// What a key is shown as; `None`: not at all.
fn shown_as(key: &str, prefix: &str) -> Option<String> {
    let rest = key.strip_prefix(prefix)?;
    let end = rest.find(DELIMITER).map_or(key.len(), |at| prefix.len() + at + DELIMITER.len());
    Some(key[..end].to_string())
}

/// Judges all pages.
pub fn check_groups(history: &History, pages: &[Grouped]) -> Vec<Violation> {
    let places: BTreeSet<Place> = pages.iter().map(|page| page.place).collect();
    let mut violations = Vec::new();
    for place in places {
        let writes = writes_of(history, place);
        for page in pages.iter().filter(|page| page.place == place) {
            let wrong = check_page(page, &writes);
            violations.extend(wrong.map(|message| Violation::new("groups", format!("{message}: {page:?}"), vec![])));
        }
    }
    violations
}

fn check_page(page: &Grouped, writes: &BTreeMap<&Bytes, Writes<'_>>) -> Option<String> {
    if page.shown.windows(2).any(|pair| pair[0] == pair[1]) {
        return Some("something is shown twice".to_string());
    }
    let mut possible = BTreeSet::new();
    for (key, writes) in writes {
        let key = String::from_utf8_lossy(key).into_owned();
        let Some(group) = shown_as(&key, &page.prefix).filter(|_| key > page.start_after) else { continue };
        let behind = page.more && page.shown.last().is_some_and(|last| group > *last);
        if !behind && !page.shown.contains(&group) && writes.certain(page.asked, page.answered) {
            return Some(format!("{key} was there all the while, and {group} is not shown"));
        }
        if writes.possible(page.asked, page.answered) {
            possible.insert(group);
        }
    }
    let invented = page.shown.iter().find(|shown| !possible.contains(*shown))?;
    Some(format!("{invented} is shown, and no such key was there"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::s3_load::place_of;
    use base_types::action::Level;
    use base_types::{RequestId, WriteConsistency};

    fn write(key: &str, put: bool, (invoked, returned): (u64, Option<u64>)) -> Record {
        let key = Bytes::copy_from_slice(key.as_bytes());
        let value = Bytes::from_static(b"1");
        Record {
            id: 0,
            client: 0,
            place: place_of(0),
            operation: if put { Operation::Put { key, value } } else { Operation::Delete { key } },
            request_id: RequestId(1),
            level: Level::Write(WriteConsistency::Strong),
            invoked,
            returned,
            ending: if returned.is_some() { Ending::Ok } else { Ending::Unknown },
            observed: Some(Observed::Done),
            at: None,
        }
    }

    #[test]
    fn a_prefix_lost_doubled_or_invented_is_noticed() {
        let records = vec![
            write("0/01", true, (1, Some(2))),
            write("1/05", true, (1, Some(2))),
            write("1/05", false, (3, Some(4))),
            write("2/09", true, (1, Some(2))),
            write("2/09", false, (3, None)),
            write("3", true, (15, Some(25))),
        ];
        let history = History { records, moving: vec![] };
        let page = |shown: &[&str], start_after: &str, more| Grouped {
            place: place_of(0),
            prefix: String::new(),
            start_after: start_after.to_string(),
            shown: shown.iter().map(|shown| shown.to_string()).collect(),
            more,
            asked: 10,
            answered: 20,
        };
        let cases = [
            (page(&["0/"], "", false), false),
            (page(&["0/", "2/", "3"], "", false), false),
            (page(&["2/"], "0/01", false), false),
            (page(&["0/"], "", true), false),
            (page(&["2/"], "", false), true),
            (page(&["0/", "1/"], "", false), true),
            (page(&["0/", "0/"], "", false), true),
            (page(&["0/"], "0/01", false), true),
            (page(&["0/01"], "", false), true),
        ];
        for (page, broken) in cases {
            let violations = check_groups(&history, std::slice::from_ref(&page));
            assert_eq!(!violations.is_empty(), broken, "{page:?}: {violations:?}");
        }
    }
}
