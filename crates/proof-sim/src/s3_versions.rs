//! Whether a bucket that keeps versions has every one of them: once, if its put was acknowledged; never, if its put
//! failed or it was removed; and a marker for every delete.
//!
//! Not here: which version a key shows (the checkers of keys), asking for the pages (`run`).

use crate::s3_removal::Removals;
use base_types::s3::{ListObjectVersions, S3Action, VersionEntry, VersionPage};
use bytes::Bytes;
use proof_check::{Ending, History, Observed, Operation, Place, Record, Violation};
use std::collections::{BTreeMap, BTreeSet};

/// The call for the page of versions behind another.
pub fn list_versions(bucket: &str, behind: Option<&VersionPage>, max_keys: u32) -> S3Action {
    ListObjectVersions {
        bucket: bucket.to_string(),
        key_marker: behind.and_then(|page| page.next_key_marker.clone()),
        version_id_marker: behind.and_then(|page| page.next_version_id_marker.clone()),
        max_keys: Some(max_keys),
        ..ListObjectVersions::default()
    }
    .into()
}

/// What the history says of one key's versions.
#[derive(Default)]
struct Expected<'a> {
    /// By value: the put, and whether it surely was.
    puts: BTreeMap<&'a [u8], (&'a Record, bool)>,
    deletes_done: usize,
    deletes_unknown: usize,
}

fn expected(history: &History, place: Place) -> BTreeMap<&[u8], Expected<'_>> {
    let mut keys: BTreeMap<&[u8], Expected<'_>> = BTreeMap::new();
    for record in history.records.iter().filter(|record| record.place == place && record.ending != Ending::Failed) {
        let done = record.ending == Ending::Ok;
        match &record.operation {
            Operation::Put { key, value } | Operation::CompareAndSet { key, value: Some(value), .. }
                if record.observed != Some(Observed::ConditionFailed) =>
            {
                keys.entry(key).or_default().puts.insert(value, (record, done));
            }
            Operation::Delete { key } => {
                let key = keys.entry(key).or_default();
                *(if done { &mut key.deletes_done } else { &mut key.deletes_unknown }) += 1;
            }
            _ => {}
        }
    }
    keys
}

/// Compares all versions of a bucket, as its pages listed them, with the history.
pub fn check_versions(history: &History, place: Place, removals: &Removals, listed: &[VersionEntry]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut fail = |message: String, ids: Vec<u64>| violations.push(Violation::new("versions", message, ids));
    let keys = expected(history, place);
    let mut shown: BTreeMap<&[u8], Vec<&VersionEntry>> = BTreeMap::new();
    listed.iter().for_each(|entry| shown.entry(entry.key.as_bytes()).or_default().push(entry));
    for (key, versions) in &shown {
        let ids: BTreeSet<&str> = versions.iter().map(|version| version.version_id.as_str()).collect();
        let latest = versions.iter().filter(|version| version.is_latest).count();
        if ids.len() < versions.len() || latest != 1 || !versions[0].is_latest {
            fail(format!("{} has a version twice, or not one latest: {versions:?}", text(key)), vec![]);
        }
        let of_key = keys.get(key);
        for version in versions.iter().filter(|version| !version.delete_marker) {
            if of_key.is_none_or(|of_key| !of_key.puts.contains_key(version.etag.as_bytes())) {
                fail(format!("{} has a version that nobody put: {version:?}", text(key)), vec![]);
            }
        }
    }
    for (key, expected) in &keys {
        let versions = shown.get(key).map_or(&[][..], Vec::as_slice);
        for (value, (put, done)) in &expected.puts {
            let times = versions.iter().filter(|version| version.etag.as_bytes() == *value).count();
            let removed = removals.get(&(place, Bytes::copy_from_slice(value)));
            if times > 1 || times == 0 && *done && removed.is_none() || times > 0 && removed == Some(&true) {
                fail(
                    format!("the version of operation {} of {} is there {times} times", put.id, text(key)),
                    vec![put.id],
                );
            }
        }
        let markers = versions.iter().filter(|version| version.delete_marker).count();
        let most = expected.deletes_done + expected.deletes_unknown;
        if markers < expected.deletes_done || markers > most {
            let done = expected.deletes_done;
            fail(format!("{} has {markers} markers of {done} deletes done and {most} tried", text(key)), vec![]);
        }
    }
    violations
}

fn text(key: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(key)
}

/// A page's entries, in the form that the request for the next one needs.
pub fn take_page(listed: &mut Vec<VersionEntry>, page: &VersionPage) -> bool {
    listed.extend(page.versions.iter().cloned());
    page.is_truncated
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::s3_load::place_of;
    use base_types::action::Level;
    use base_types::{RequestId, WriteConsistency};

    fn record(id: u64, operation: Operation, ending: Ending) -> Record {
        Record {
            id,
            client: 0,
            place: place_of(0),
            operation,
            request_id: RequestId(1),
            level: Level::Write(WriteConsistency::Strong),
            invoked: id,
            returned: Some(id),
            ending,
            observed: None,
            at: None,
        }
    }

    fn entry(version_id: &str, etag: &str, is_latest: bool) -> VersionEntry {
        let (key, etag, delete_marker) = ("a".to_string(), etag.to_string(), etag.is_empty());
        VersionEntry { key, version_id: version_id.into(), is_latest, delete_marker, etag, ..VersionEntry::default() }
    }

    #[test]
    fn a_version_lost_doubled_or_invented_is_noticed() {
        let key = Bytes::from_static(b"a");
        let put = |value: &'static [u8]| Operation::Put { key: key.clone(), value: Bytes::from_static(value) };
        let records = vec![
            record(0, put(b"1"), Ending::Ok),
            record(1, put(b"2"), Ending::Unknown),
            record(2, Operation::Delete { key: key.clone() }, Ending::Ok),
            record(3, put(b"4"), Ending::Failed),
        ];
        let history = History { records, moving: vec![] };
        let cases: [(&[(&str, &str)], bool); 7] = [
            (&[("v3", ""), ("v1", "1")], false),
            (&[("v3", ""), ("v2", "2"), ("v1", "1")], false),
            (&[("v3", "")], true),
            (&[("v1", "1")], true),
            (&[("v3", ""), ("v2", "1"), ("v1", "1")], true),
            (&[("v4", "4"), ("v3", ""), ("v1", "1")], true),
            (&[("v4", ""), ("v3", ""), ("v1", "1")], true),
        ];
        for (listed, broken) in cases {
            let listed: Vec<_> = listed.iter().enumerate().map(|(at, (id, etag))| entry(id, etag, at == 0)).collect();
            let violations = check_versions(&history, place_of(0), &Removals::new(), &listed);
            assert_eq!(!violations.is_empty(), broken, "{listed:?}: {violations:?}");
            let removed_first = Removals::from([((place_of(0), Bytes::from_static(b"1")), true)]);
            let alone = listed.len() == 1 && listed[0].delete_marker;
            let found = check_versions(&history, place_of(0), &removed_first, &listed);
            assert_eq!(found.is_empty(), alone, "{listed:?} where version 1 was removed: {found:?}");
        }
    }
}
