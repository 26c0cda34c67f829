//! Which shard of a bucket takes the writes of a key: one at every moment, and one in every epoch.
//!
//! ```text
//!   applied commands ─▶ how a shard stands (serving or not, epoch, range) ─▶ no other serves a key of that range
//!                    └▶ a write it took ─▶ its shard serves that key at that epoch
//!                                       └▶ no other shard ever took one of that key and epoch, none of an earlier epoch comes behind
//! ```
//!
//! The checker receives each command once, when the first replica has applied it. Some replica applied a hand-over before
//! anybody could learn of it, and thus before another shard can have begun to serve.
//!
//! Always: a write is judged by the epoch its sender named and by how its shard stood before it.
//! Held by: `a_split_and_what_comes_behind_it_is_well`, `rejects_what_a_shard_does_not_own`.
//! Not here: which replica said what (proof-sim), partitions of keyspaces (`invariants`), what clients see (the history checkers).

use crate::Violation;
use base_types::{ClusterId, Generation, LogIndex};
use bytes::Bytes;
use std::collections::BTreeMap;

/// How a shard stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stand {
    /// Clients' writes are taken.
    pub serves: bool,
    /// Of its range.
    pub epoch: u64,
    /// The first key.
    pub start: Bytes,
    /// The first key after it; `None`: without end.
    pub end: Option<Bytes>,
}

impl Stand {
    fn holds(&self, key: &[u8]) -> bool {
        self.start <= key && self.end.as_ref().is_none_or(|end| key < end)
    }

    fn meets(&self, other: &Stand) -> bool {
        let before = |one: &Stand, two: &Stand| one.end.as_ref().is_some_and(|end| *end <= two.start);
        !before(self, other) && !before(other, self)
    }
}

/// What a shard did by a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Deed {
    /// It stands so since.
    Stands(Stand),
    /// It serves nobody any more.
    Gone,
    /// It took a write of a key, sent for an epoch.
    Took {
        /// The epoch its sender named.
        epoch: u64,
        /// The key.
        key: Bytes,
    },
}

/// A shard: its bucket and its number there.
type Shard = (String, u64);

/// What all shards of all buckets did.
#[derive(Default, Debug)]
pub struct ShardBook {
    stands: BTreeMap<Shard, Stand>,
    /// Entries of each cluster that were told of, as far as this.
    told: BTreeMap<(ClusterId, Generation), LogIndex>,
    /// By bucket and key: at which epoch which shard took writes.
    takers: BTreeMap<(String, Bytes), BTreeMap<u64, u64>>,
    taken: u64,
}

impl ShardBook {
    /// Whether an entry of this cluster is one that no replica has told of. Asked once for all commands of an entry.
    pub fn is_news(&mut self, cluster: ClusterId, generation: Generation, index: LogIndex) -> bool {
        let told = self.told.entry((cluster, generation)).or_insert(LogIndex(0));
        let news = index > *told;
        *told = index.max(*told);
        news
    }

    /// A shard did this.
    pub fn note(&mut self, bucket: &str, shard: u64, deed: Deed) -> Option<Violation> {
        let at = (bucket.to_string(), shard);
        let told = match deed {
            Deed::Gone => {
                self.stands.remove(&at);
                None
            }
            Deed::Stands(stand) => {
                let found = self.other_owner(&at, &stand);
                self.stands.insert(at, stand);
                found
            }
            Deed::Took { epoch, key } => self.took(&at, epoch, key),
        };
        told.map(|message| Violation::new("epochs", message, vec![]))
    }

    /// Another shard of the bucket that serves keys of this one.
    fn other_owner(&self, at: &Shard, stand: &Stand) -> Option<String> {
        let of_bucket = (at.0.clone(), 0)..=(at.0.clone(), u64::MAX);
        let mut others = self.stands.range(of_bucket).filter(|(other, _)| *other != at);
        let (other, theirs) = others.find(|(_, other)| other.serves && stand.serves && other.meets(stand))?;
        Some(format!("shards {} and {} of bucket {} both serve: {stand:?} and {theirs:?}", at.1, other.1, at.0))
    }

    fn took(&mut self, at: &Shard, epoch: u64, key: Bytes) -> Option<String> {
        self.taken += 1;
        let (bucket, shard) = at;
        let stand = self.stands.get(at);
        let fits = stand.is_some_and(|stand| stand.serves && stand.epoch == epoch && stand.holds(&key));
        let takers = self.takers.entry((bucket.clone(), key.clone())).or_default();
        let last = takers.last_key_value().map(|(epoch, _)| *epoch).unwrap_or(epoch);
        let first = *takers.entry(epoch).or_insert(*shard);
        let what = format!("shard {shard} of bucket {bucket} took a write of {key:?} at epoch {epoch}");
        if first != *shard {
            return Some(format!("{what}, and shard {first} took one of that key and epoch, too"));
        }
        if last > epoch {
            return Some(format!("{what} behind one of epoch {last}"));
        }
        (!fits).then(|| format!("{what}, and stood so: {stand:?}"))
    }

    /// How many writes were seen.
    pub fn taken(&self) -> u64 {
        self.taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stand(serves: bool, epoch: u64, start: &str, end: Option<&str>) -> Deed {
        let (start, end) = (Bytes::copy_from_slice(start.as_bytes()), end.map(|end| Bytes::from(end.to_string())));
        Deed::Stands(Stand { serves, epoch, start, end })
    }

    fn took(epoch: u64, key: &str) -> Deed {
        Deed::Took { epoch, key: Bytes::from(key.to_string()) }
    }

    /// A shard that has given its keys to two others.
    fn split() -> ShardBook {
        let mut book = ShardBook::default();
        let story = [
            (1, stand(true, 1, "", None)),
            (1, took(1, "a")),
            (2, stand(false, 2, "", Some("m"))),
            (3, stand(false, 3, "m", None)),
            (1, stand(false, 1, "", None)),
            (2, stand(true, 2, "", Some("m"))),
            (3, stand(true, 3, "m", None)),
            (2, took(2, "a")),
            (3, took(3, "m")),
        ];
        for (shard, deed) in story {
            assert_eq!(book.note("b", shard, deed), None);
        }
        book
    }

    #[test]
    fn a_split_and_what_comes_behind_it_is_well() {
        let mut book = split();
        assert_eq!(book.taken(), 3);
        // Another bucket; narrowed in front of its greatest key, which another shard has from then on; dropped.
        let story = [
            ("c", 1, stand(true, 1, "", None)),
            ("b", 3, stand(true, 4, "m", Some("x"))),
            ("b", 4, stand(true, 5, "x", None)),
            ("b", 4, took(5, "x")),
            ("b", 3, took(4, "m")),
            ("b", 4, Deed::Gone),
            ("b", 5, stand(true, 6, "x", None)),
        ];
        for (bucket, shard, deed) in story {
            assert_eq!(book.note(bucket, shard, deed), None);
        }
    }

    #[test]
    fn rejects_what_a_shard_does_not_own() {
        let bad = [
            // Given away; another one's epoch, key, or both; an epoch that is over; one that never stood.
            (1, took(1, "b")),
            (1, took(2, "a")),
            (2, took(3, "a")),
            (2, took(2, "m")),
            (3, took(1, "n")),
            (2, took(1, "a")),
            (7, took(7, "a")),
            // Two owners.
            (1, stand(true, 1, "", None)),
            (4, stand(true, 9, "l", Some("n"))),
        ];
        for (shard, deed) in bad {
            let mut book = split();
            let found = book.note("b", shard, deed.clone()).map(|violation| violation.check);
            assert_eq!(found, Some("epochs"), "shard {shard}: {deed:?}");
        }
    }

    #[test]
    fn an_entry_is_news_once_for_each_cluster() {
        let mut book = ShardBook::default();
        let asked = [(1, 1, 5), (1, 1, 5), (1, 1, 4), (1, 1, 6), (2, 1, 5), (1, 2, 1)];
        let news =
            asked.map(|(cluster, life, index)| book.is_news(ClusterId(cluster), Generation(life), LogIndex(index)));
        assert_eq!(news, [true, false, false, true, true, true]);
    }
}
