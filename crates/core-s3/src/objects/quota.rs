//! What a bucket may hold, checked before something is put into it.
//!
//! ```text
//!   no quota, or leave to put ────────────────────────▶ put
//!   else ──▶ open uploads ──▶ counts of all shards ──fits─▶ put   (keys: and whether the key is there already)
//!                                    └──▶ QuotaExceeded
//! ```
//!
//! Always: parts of open uploads count by their bytes; what is compared are exact counts, never sums kept beside them, so
//! nothing drifts. A count gives this core leave to put a small part (`SHARE`) of what is left, for [`USAGE_AGE_MAX`], without
//! another: so far from its end a quota costs nothing. Near its end every put is counted for.
//! Held by: `a_quota_is_kept_by_exact_counts_over_shards`, `parts_of_open_uploads_count_against_a_quota`.
//!
//! A put carries what its shard may hold with it ([`Guard::bounds`]), and the shard refuses it at the very command that
//! would pass that. Of a bucket of one shard that is the quota itself: of any number of puts at one time none passes it
//! (bytes: but for parts that are uploaded within the same second). Of a bucket of n shards it is what the shard held
//! at the count and all that was left then: puts that were counted for pass it by (n - 1) times what was left at most,
//! and puts by leave by what they put within [`USAGE_AGE_MAX`]. Why not exactly: docs/decisions/0015. A put that was counted
//! for and then met a split or merge is counted for anew, and only the shard may refuse it: it alone knows whether the put
//! was done already, and its answer lost.
//! Not here: delete markers.

use crate::buckets::with_bucket::{Place, Trouble};
use crate::objects::counted::Counted;
use crate::objects::single_shard::{read_trouble, shard_of};
use crate::request::{multipart_read, other_reply_of_uploads, reply, shard_read, Terms};
use crate::state::leave::{Adds, Leave, USAGE_AGE_MAX};
use crate::state::PlanContext;
use base_types::mutant::{planted, Mutant};
use base_types::s3::{Quota, S3ErrorCode, Version};
use base_types::{ErrorCode, Refusal};
use bytes::Bytes;
use core_backends::multipart as uploads;
use core_backends::shard::{Bounds, Command, Condition, PutStep, Query, Range, Reply};
use core_flow::rounds::{one, only};
use core_flow::{CallResult, Step};

#[derive(Debug, Default)]
enum Stage {
    #[default]
    Begin,
    /// What do parts of open uploads hold?
    Uploads,
    Counting,
    /// The keys are as many as may be: is this one of them?
    Looking,
    Passed,
}

/// The check before one put.
#[derive(Default)]
pub(crate) struct Guard {
    stage: Stage,
    counted: Counted,
    /// Bytes of parts.
    held: u64,
    /// It has passed once, by shards that were split or merged since.
    again: bool,
}

impl Guard {
    /// What the shard of a key may hold with the put that has passed; `None`: as much as there comes.
    pub(crate) fn bounds(&self, at: &Place, key: &str, instead_of: u64) -> Option<Bounds> {
        let quota = at.bucket.record.info.quota?;
        let bytes_max = quota.bytes_max.map(|max| max.saturating_sub(self.held).saturating_add(instead_of));
        if at.map.entries.len() == 1 {
            return Some(Bounds { keys_max: quota.keys_max, bytes_max });
        }
        let own = self.counted.of_shard(at, key)?;
        let others = self.counted.sum().minus(&own);
        let without = |max: Option<u64>, others| max.map(|max: u64| max.saturating_sub(others));
        Some(Bounds { keys_max: without(quota.keys_max, others.keys), bytes_max: without(bytes_max, others.bytes) })
    }

    /// The next round of the check; `None`: it is passed, and `answers` are not its own.
    pub(crate) fn next(
        &mut self,
        context: &mut PlanContext<'_>,
        at: &Place,
        adds: Adds<'_>,
        answers: &mut Vec<CallResult>,
    ) -> Result<Option<Step>, Trouble> {
        if matches!(self.stage, Stage::Passed) && answers.is_empty() && self.counted.is_outdated(at) {
            *self = Guard { again: true, ..Guard::default() };
        }
        let Some(quota) = at.bucket.record.info.quota.filter(|_| !matches!(self.stage, Stage::Passed)) else {
            self.stage = Stage::Passed;
            return Ok(None);
        };
        let answers = core::mem::take(answers);
        if let (Stage::Looking, false) = (&self.stage, answers.is_empty()) {
            self.stage = Stage::Passed;
            return is_there(only(answers)).map(|()| None);
        }
        let first = answers.is_empty() && matches!(self.stage, Stage::Begin | Stage::Uploads);
        if let Some(left) = first.then(|| leave(context, at.bucket.id, &adds)).flatten() {
            (self.stage, self.held) = (Stage::Passed, left.held);
            return Ok(None);
        }
        if first && quota.bytes_max.is_some() {
            self.stage = Stage::Uploads;
            return Ok(Some(one(multipart_read(at.bucket.id, &uploads::Query::Open)?)));
        }
        let answers = match self.stage {
            Stage::Uploads => {
                let (uploads::Reply::Open { bytes, .. }, _) = reply(only(answers))? else {
                    return Err(other_reply_of_uploads().into());
                };
                self.held = bytes;
                Vec::new()
            }
            _ => answers,
        };
        self.stage = Stage::Counting;
        self.counted.take(answers)?;
        let terms = Terms::default();
        if let Some(step) = self.counted.ask(at, &Range::default(), &Bytes::new(), &terms, None)? {
            return Ok(Some(step));
        }
        if self.again {
            self.stage = Stage::Passed;
            return Ok(None);
        }
        let totals = self.counted.sum();
        let held = totals.bytes.saturating_add(self.held);
        let bytes = held.saturating_sub(adds.instead_of).saturating_add(adds.bytes);
        if quota.bytes_max.is_some_and(|max| bytes > max) {
            return Err(exceeded(&quota, held).into());
        }
        let keys = totals.keys.saturating_add(u64::from(adds.key.is_some()));
        context.state.cache.give_leave(at.bucket.id, Leave::new(&quota, (keys, bytes), self.held, context.now));
        let Some(key) = adds.key.filter(|_| quota.keys_max.is_some_and(|max| keys > max)) else {
            self.stage = Stage::Passed;
            return Ok(None);
        };
        self.stage = Stage::Looking;
        let entry = shard_of(at, key)?;
        let (key, condition) = (Bytes::copy_from_slice(key.as_bytes()), Condition::default());
        let query = Query::Get { epoch: entry.epoch, key, version: Version::Current, inline: false, condition };
        Ok(Some(one(shard_read(at.bucket.id, entry.shard, &query, &terms)?)))
    }
}

/// What is left of the leave that an earlier count gives for this put, if it does.
fn leave(context: &mut PlanContext<'_>, id: u128, adds: &Adds<'_>) -> Option<Leave> {
    let leave = context.state.cache.leave(id).filter(|leave| context.now.since(leave.counted_at) <= USAGE_AGE_MAX);
    let left = leave?.without(adds)?;
    if !planted(Mutant::LeaveNeverSpent) {
        context.state.cache.give_leave(id, left);
    }
    Some(left)
}

/// The command of a put that the shard checks by these.
pub(crate) fn put_within(step: PutStep, bounds: Option<Bounds>) -> Command {
    match bounds {
        Some(bounds) => Command::PutWithin { step, bounds },
        None => Command::Put { step },
    }
}

/// A key that is there already makes no more of them.
fn is_there(result: CallResult) -> Result<(), Trouble> {
    match reply::<Reply>(result) {
        Ok((Reply::Object { .. }, _)) => Ok(()),
        Ok(_) => Err(too_many_keys().into()),
        Err(failure) if failure.refusal.code == ErrorCode::S3(S3ErrorCode::NoSuchKey) => Err(too_many_keys().into()),
        Err(failure) => Err(read_trouble(failure)),
    }
}

fn too_many_keys() -> Refusal {
    S3ErrorCode::QuotaExceeded.because("the bucket has as many keys as its quota allows; delete some, or raise it")
}

fn exceeded(quota: &Quota, bytes: u64) -> Refusal {
    let max = quota.bytes_max.unwrap_or(u64::MAX);
    let message = format!(
        "the bucket and its open uploads hold {bytes} of {max} bytes; delete or abort some, or raise its quota"
    );
    S3ErrorCode::QuotaExceeded.because(message)
}
