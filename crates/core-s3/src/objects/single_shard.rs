//! Calls that are one question or command to the shard that has their key: one round trip where record and map
//! are known.
//!
//! Always: every try carries the same request id, whichever shard has the key by then: what was applied is
//! remembered where the key is (dedup_transfer.rs), and a refusal that sends the call elsewhere is remembered nowhere.
//! Held by: `a_put_asked_again_after_splits_and_merges_is_found_done`.
//! Not here: what is asked (objects.rs, versions.rs).

use crate::buckets::with_bucket::{with_bucket, BucketWork, Place, Trouble};
use crate::clusters;
use crate::objects::quota::{put_within, Guard};
use crate::request::{done_at, level_of, reply, shard_read_at, shard_write_at, RequestIds, Terms};
use crate::state::cache::Bucket;
use crate::state::leave::Adds;
use crate::state::{PlanContext, S3Planner};
use base_types::action::Failure;
use base_types::s3::{S3Answer, S3ErrorCode};
use base_types::{ClusterName, ErrorCode, Refusal};
use core_backends::shard::{Command, Query, Reply};
use core_backends::shard_reference::Entry;
use core_flow::rounds::{one, only};
use core_flow::{CallResult, Step};
use std::sync::Arc;

/// What a shard is asked.
pub(crate) enum Ask {
    Read(Query),
    Write(Command),
}

/// One call.
pub(crate) trait ShardCall: Send {
    fn name(&self) -> &'static str;
    fn bucket(&self) -> &str;
    fn key(&self) -> &str;
    /// What the shard of this epoch is asked.
    fn ask(&mut self, context: &mut PlanContext<'_>, bucket: &Bucket, epoch: u64) -> Result<Ask, Refusal>;
    /// How many bytes it adds; `None`: it puts nothing.
    fn adds(&self) -> Option<u64> {
        None
    }
    /// What its reply means.
    fn answer(&mut self, bucket: &Bucket, reply: Reply) -> Result<S3Answer, Refusal>;
}

/// The planner of a call.
pub(crate) fn single_shard<C: ShardCall + 'static>(call: C, terms: &Terms) -> Box<S3Planner> {
    with_bucket(SingleShard { call, terms: *terms, ids: RequestIds::new(terms), asked: None, guard: Guard::default() })
}

struct SingleShard<C> {
    call: C,
    terms: Terms,
    ids: RequestIds,
    asked: Option<ClusterName>,
    guard: Guard,
}

impl<C: ShardCall> BucketWork for SingleShard<C> {
    fn name(&self) -> &'static str {
        self.call.name()
    }

    fn bucket(&self) -> &str {
        self.call.bucket()
    }

    fn next(
        &mut self,
        context: &mut PlanContext<'_>,
        at: &Place,
        mut answers: Vec<CallResult>,
    ) -> Result<Step, Trouble> {
        if let Some(size) = self.call.adds() {
            let adds = Adds { key: Some(self.call.key()), bytes: size, instead_of: 0 };
            if let Some(step) = self.guard.next(context, at, adds, &mut answers)? {
                return Ok(step);
            }
        }
        if answers.is_empty() {
            return self.ask(context, at);
        }
        let result = only(answers);
        let level = level_of(&result);
        match reply::<Reply>(result) {
            Ok((reply, ordered)) => {
                Ok(done_at(self.call.answer(&at.bucket, reply)?, ordered, level, self.asked.take()))
            }
            Err(failure) => Err(shard_trouble(self.asked.as_ref(), failure)),
        }
    }
}

impl<C: ShardCall> SingleShard<C> {
    fn ask(&mut self, context: &mut PlanContext<'_>, at: &Place) -> Result<Step, Trouble> {
        let entry = shard_of(at, self.call.key())?;
        let cluster = clusters::shard(at.bucket.id, entry.shard)?;
        self.asked = Some(cluster.clone());
        Ok(one(match self.call.ask(context, &at.bucket, entry.epoch)? {
            Ask::Read(query) => shard_read_at(cluster, &query, &self.terms),
            Ask::Write(command) => {
                let command = match command {
                    Command::Put { step } => put_within(step, self.guard.bounds(at, self.call.key(), 0)),
                    other => other,
                };
                let request_id = self.ids.id(context, 0);
                shard_write_at(cluster, &command, &self.terms, request_id)
            }
        }))
    }
}

/// The shard that has a key.
pub(crate) fn shard_of<'m>(at: &'m Place, key: &str) -> Result<&'m Entry, Refusal> {
    at.map.shard_of(key.as_bytes()).ok_or_else(|| S3ErrorCode::InternalError.because("the bucket's map names no shard"))
}

/// What a shard's failure means.
pub(crate) fn shard_trouble(cluster: Option<&ClusterName>, mut failure: Failure) -> Trouble {
    if failure.at.is_some() {
        failure.cluster = cluster.cloned().map(Arc::new);
    }
    // It was split, merged or dropped with its bucket: the map, and the record, say which.
    if failure.refusal.code == ErrorCode::UnknownCluster {
        return Trouble::Map(failure);
    }
    Trouble::from(failure)
}

/// As [`shard_trouble`], where the refusal does not name the cluster.
pub(crate) fn read_trouble(failure: Failure) -> Trouble {
    shard_trouble(None, failure)
}

/// A shard answered something else than what was asked.
pub(crate) fn other_reply() -> Refusal {
    S3ErrorCode::InternalError.because("a shard answered something else than what it was asked")
}
