//! What sweeps over unfinished buckets saw, and since when.
//!
//! By design: what has changed since is seen for the first time again.
//! Not here: the sweep (buckets/bucket_recovery.rs).

use base_types::Tick;
use bytes::Bytes;
use std::collections::BTreeMap;

/// What the sweeps before saw: by the note's key, which version of the entry (zero: none of its own) since when.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Seen {
    notes: BTreeMap<Bytes, (u64, Tick)>,
    /// Where the next sweep continues.
    pub(crate) behind: Option<Bytes>,
}

impl Seen {
    /// How long a note's entry has had this version.
    pub(crate) fn since(&mut self, key: &Bytes, version: u64, now: Tick) -> u64 {
        match self.notes.get(key) {
            Some((same, first)) if *same == version => now.since(*first).as_millis() as u64,
            _ => {
                self.notes.insert(key.clone(), (version, now));
                0
            }
        }
    }

    /// Notes between two keys that are not there any more are forgotten.
    pub(crate) fn keep(&mut self, behind: Option<&Bytes>, page: &[(Bytes, Bytes)], more: bool) {
        let last = page.last().map(|(key, _)| key);
        self.notes.retain(|key, _| {
            let before = behind.is_some_and(|behind| key <= behind);
            let after = more && last.is_some_and(|last| key > last);
            before || after || page.binary_search_by(|(there, _)| there.cmp(key)).is_ok()
        });
    }
}
