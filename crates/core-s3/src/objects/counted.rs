//! Counts of shards that belong together: all of one version of a bucket's map.
//!
//! Always: where the map has changed, what was counted by the one before is dropped.
//! Held by: `puts_that_were_counted_before_a_split_pass_a_quota_by_little`.
//! Not here: who counts (objects/quota.rs, listing/counts.rs), how a shard counts (core-backends, shard/index.rs).

use crate::buckets::with_bucket::{Place, Trouble};
use crate::clusters;
use crate::objects::single_shard::{other_reply, read_trouble};
use crate::request::{done, done_at, reply, shard_read, Terms};
use base_types::s3::S3Answer;
use base_types::{ClusterName, OrderedAt, Refusal};
use bytes::Bytes;
use core_backends::shard::{Query, Range, Reply, Totals};
use core_flow::{Call, CallResult, Step};

/// The most shards asked at once.
pub(crate) const SHARDS_AT_ONCE_MAX: usize = 256;
/// What shards of one version of the map have told, in order.
#[derive(Default)]
pub(crate) struct Counted {
    /// Bucket and version of the map.
    of: Option<(u128, u64)>,
    pub(crate) totals: Vec<Totals>,
    pub(crate) at: Option<OrderedAt>,
    /// The last shard asked.
    last: u64,
}

impl Counted {
    /// Asks the next shards of a range; `None`: all have told.
    pub(crate) fn ask(
        &mut self,
        at: &Place,
        range: &Range,
        prefix: &Bytes,
        terms: &Terms,
        pin: Option<u128>,
    ) -> Result<Option<Step>, Refusal> {
        let of = Some((at.bucket.id, at.map.version));
        if self.of != of {
            *self = Counted { of, ..Counted::default() };
        }
        let (id, left) = (at.bucket.id, at.map.shards_in(range).skip(self.totals.len()).take(SHARDS_AT_ONCE_MAX));
        let calls: Result<Vec<Call>, Refusal> = left
            .map(|entry| {
                let query = Query::Count { epoch: entry.epoch, prefix: prefix.clone(), pin };
                self.last = entry.shard;
                shard_read(id, entry.shard, &query, terms)
            })
            .collect();
        let calls = calls?;
        Ok((!calls.is_empty()).then_some(Step::Calls(calls)))
    }

    /// The answer, with where the last shard stood.
    pub(crate) fn done(&self, id: u128, answer: impl Into<S3Answer>) -> Result<Step, Refusal> {
        let Some(at) = self.at else { return Ok(done(answer, None)) };
        let cluster: ClusterName = clusters::shard(id, self.last)?;
        Ok(done_at(answer, at, None, Some(cluster)))
    }

    /// What all have together.
    pub(crate) fn sum(&self) -> Totals {
        self.totals.iter().fold(Totals::default(), |all, totals| all.plus(totals))
    }

    /// What the shard of a key has, where all shards of this very map were counted.
    pub(crate) fn of_shard(&self, at: &Place, key: &str) -> Option<Totals> {
        let whole = self.of == Some((at.bucket.id, at.map.version)) && self.totals.len() == at.map.entries.len();
        let place = at.map.entries.iter().position(|entry| entry.range.holds(key.as_bytes()))?;
        self.totals.get(place).filter(|_| whole).copied()
    }

    /// Whether what was counted last is of this very map.
    pub(crate) fn is_of(&self, at: &Place) -> bool {
        self.of == Some((at.bucket.id, at.map.version))
    }

    /// Whether shards were counted that are no longer those of the map.
    pub(crate) fn is_outdated(&self, at: &Place) -> bool {
        self.of.is_some_and(|of| of != (at.bucket.id, at.map.version))
    }

    pub(crate) fn take(&mut self, answers: Vec<CallResult>) -> Result<(), Trouble> {
        for result in answers {
            match reply::<Reply>(result) {
                Ok((Reply::Count { totals }, at)) => {
                    self.totals.push(totals);
                    self.at = Some(at);
                }
                Ok(_) => return Err(other_reply().into()),
                Err(failure) => return Err(read_trouble(failure)),
            }
        }
        Ok(())
    }
}
