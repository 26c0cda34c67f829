//! The keys of a history, numbered in order: a page speaks for a run of numbers, so that checkers need
//! not hold every key against every page.
//!
//! Always: `covered` holds exactly the keys of the place for which `page_covers` is true.

use crate::history::{History, Operation, Place, Record};
use bytes::Bytes;
use std::cmp::Ordering;
use std::ops::Range;

/// Every key a history names, those of one place together, in order.
pub(crate) struct Keys<'a> {
    pub names: Vec<(Place, &'a Bytes)>,
}

impl<'a> Keys<'a> {
    pub fn gather(history: &'a History) -> Keys<'a> {
        let mut names: Vec<(Place, &Bytes)> = Vec::new();
        for record in &history.records {
            names.extend(record.effects().into_iter().map(|(key, _)| (record.place, key)));
            if let Operation::Get { key } | Operation::Increment { key } | Operation::ReadCounter { key } =
                &record.operation
            {
                names.push((record.place, key));
            }
        }
        names.sort_unstable();
        names.dedup();
        Keys { names }
    }

    pub fn number(&self, place: Place, key: &Bytes) -> Option<usize> {
        self.names.binary_search(&(place, key)).ok()
    }

    /// All keys of a place.
    pub fn of(&self, place: Place) -> Range<usize> {
        let end = self.names.partition_point(|name| name.0 <= place);
        self.names[..end].partition_point(|name| name.0 < place)..end
    }

    /// The keys that the page of a scan speaks for (`page_covers`).
    pub fn covered(&self, record: &Record, next: Option<&Bytes>) -> Range<usize> {
        let Operation::Scan { prefix, start_after, end, reverse, .. } = &record.operation else { return 0..0 };
        let mut range = self.of(record.place);
        // Cuts the run where `before` ends to be true: its head (`true`) or its tail stays.
        let mut cut = |keep_head: bool, before: &dyn Fn(&Bytes) -> bool| {
            let at = range.start + self.names[range.clone()].partition_point(|name| before(name.1));
            range = if keep_head { range.start..at } else { at..range.end };
        };
        cut(false, &|key| key < prefix);
        cut(true, &|key| key.starts_with(prefix));
        if let (Some(end), false) = (end, *reverse) {
            cut(true, &|key| key < end);
        }
        if let Some(start) = start_after {
            match *reverse {
                false => cut(false, &|key| key <= start),
                true => cut(true, &|key| key < start),
            }
        }
        if let Some(next) = next {
            match *reverse {
                false => cut(true, &|key| key <= next),
                true => cut(false, &|key| key < next),
            }
        }
        range
    }
}

/// What a page lists, by key, asked for in ascending order.
pub(crate) struct Listed<'a> {
    entries: Vec<&'a (Bytes, Bytes)>,
    at: usize,
}

impl<'a> Listed<'a> {
    pub fn new(entries: &'a [(Bytes, Bytes)]) -> Listed<'a> {
        let mut entries: Vec<&(Bytes, Bytes)> = entries.iter().collect();
        entries.sort_by(|one, other| one.0.cmp(&other.0));
        Listed { entries, at: 0 }
    }

    /// The value listed for a key behind all those asked for before.
    pub fn value(&mut self, key: &Bytes) -> Option<&'a Bytes> {
        let mut found = None;
        while let Some(entry) = self.entries.get(self.at) {
            match entry.0.cmp(key) {
                Ordering::Less => {}
                Ordering::Equal => found = Some(&entry.1),
                Ordering::Greater => break,
            }
            self.at += 1;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::page_covers;
    use crate::history::testing::*;

    #[test]
    fn covered_keys_are_those_a_page_speaks_for() {
        let words = ["", "a", "aa", "ab", "abc", "b", "ba", "c"].map(|word| Bytes::from_static(word.as_bytes()));
        let mut records: Vec<Record> =
            words.iter().map(|word| put(0, 1, std::str::from_utf8(word).unwrap(), "v")).collect();
        records.push(Record { place: Place(1), ..put(0, 1, "ab", "w") });
        let history = history(records);
        let keys = Keys::gather(&history);
        let options = || std::iter::once(None).chain(words.iter().cloned().map(Some));
        for (prefix, reverse) in words.iter().flat_map(|word| [(word, false), (word, true)]) {
            for start_after in options() {
                for (end, next) in options().flat_map(|end| options().map(move |next| (end.clone(), next))) {
                    let mut record = scan(4, 5, &[]);
                    let (prefix, start_after) = (prefix.clone(), start_after.clone());
                    record.operation =
                        Operation::Scan { prefix, start_after, end, limit: 9, reverse, keys_only: false };
                    let found: Vec<&Bytes> = keys.covered(&record, next.as_ref()).map(|at| keys.names[at].1).collect();
                    let expected = words.iter().filter(|key| page_covers(&record.operation, next.as_ref(), key));
                    assert_eq!(found, expected.collect::<Vec<_>>(), "{record:?} {next:?}");
                }
            }
        }
    }

    #[test]
    fn listed_values_are_found_in_any_page() {
        let pair = |key: &'static str| (Bytes::from_static(key.as_bytes()), Bytes::from_static(key.as_bytes()));
        let page = [pair("d"), pair("b"), pair("b"), pair("a")];
        let mut listed = Listed::new(&page);
        let found =
            ["", "a", "b", "c", "d", "e"].map(|key| listed.value(&Bytes::from_static(key.as_bytes())).is_some());
        assert_eq!(found, [false, true, true, false, true, false]);
    }
}
