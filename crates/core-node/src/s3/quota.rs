//! What a bucket may hold, checked before something is put into it.
//!
//! ```text
//!   no quota, or leave to put ────────────────────────▶ put
//!   else ──▶ open uploads ──▶ counts of all shards ──fits─▶ put   (keys: and whether the key is there already)
//!                                    └──▶ QuotaExceeded
//! ```
//!
//! Always: parts of open uploads count by their bytes; what is compared are exact counts, never sums kept beside them, so nothing drifts. A count gives this core
//! leave to put a [`SHARE`]th of what is left, for [`USAGE_AGE_MAX`], without another: so far from its end a quota costs
//! nothing, and as many cores as that together do not pass it. Near its end every put is counted for; then as
//! much may be too much as is put at the very same time.
//! Not here: delete markers.

use super::counts::Counted;
use super::multipart;
use super::on_bucket::{Place, Trouble};
use super::one_shard::{read_trouble, shard_of};
use super::request::{multipart_read, reply, shard_read, Terms};
use crate::keyspace::rounds::{one, only};
use crate::planner::{CallResult, PlanContext, Step};
use base_types::s3::{Quota, S3ErrorCode, Version};
use base_types::{Refusal, Tick};
use bytes::Bytes;
use core::time::Duration;
use core_backends::multipart as uploads;
use core_backends::shard::{Condition, Query, Range, Reply};

/// How old a count may be when it is used again.
const USAGE_AGE_MAX: Duration = Duration::from_millis(1_000);
/// Of what is left, one core puts this part by one count.
const SHARE: u64 = 64;

/// What this core may put by its last count of a bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Leave {
    keys: u64,
    bytes: u64,
    counted_at: Tick,
}

impl Leave {
    fn new(quota: &Quota, (keys, bytes): (u64, u64), counted_at: Tick) -> Leave {
        let share = |max: Option<u64>, used| max.map_or(u64::MAX, |max: u64| max.saturating_sub(used) / SHARE);
        Leave { keys: share(quota.keys_max, keys), bytes: share(quota.bytes_max, bytes), counted_at }
    }

    /// What is left of it behind one more; `None`: that is too much.
    fn without(self, adds: &Adds<'_>) -> Option<Leave> {
        let keys = self.keys.checked_sub(u64::from(adds.key.is_some()))?;
        Some(Leave { keys, bytes: self.bytes.checked_sub(adds.bytes)?, ..self })
    }
}

/// What is about to be put.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Adds<'a> {
    /// The object's key; a part of an upload makes no key.
    pub key: Option<&'a str>,
    pub bytes: u64,
    /// Bytes of parts that it takes the place of.
    pub instead_of: u64,
}

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
}

impl Guard {
    /// The next round of the check; `None`: it is passed, and `answers` are not its own.
    pub(crate) fn next(
        &mut self,
        context: &mut PlanContext<'_>,
        at: &Place,
        adds: Adds<'_>,
        answers: &mut Vec<CallResult>,
    ) -> Result<Option<Step>, Trouble> {
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
        if first && is_far(context, at.bucket.id, &adds) {
            self.stage = Stage::Passed;
            return Ok(None);
        }
        if first && quota.bytes_max.is_some() {
            self.stage = Stage::Uploads;
            return Ok(Some(one(multipart_read(at.bucket.id, &uploads::Query::Open)?)));
        }
        let answers = match self.stage {
            Stage::Uploads => {
                let (uploads::Reply::Open { bytes, .. }, _) = reply(only(answers))? else {
                    return Err(multipart::other_reply().into());
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
        let totals = self.counted.sum();
        let held = totals.bytes.saturating_add(self.held);
        let bytes = held.saturating_sub(adds.instead_of).saturating_add(adds.bytes);
        if quota.bytes_max.is_some_and(|max| bytes > max) {
            return Err(exceeded(&quota, held).into());
        }
        let keys = totals.keys.saturating_add(u64::from(adds.key.is_some()));
        context.s3.give_leave(at.bucket.id, Leave::new(&quota, (keys, bytes), context.now));
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

/// Whether an earlier count gives leave for this put.
fn is_far(context: &mut PlanContext<'_>, id: u128, adds: &Adds<'_>) -> bool {
    let leave = context.s3.leave(id).filter(|leave| context.now.since(leave.counted_at) <= USAGE_AGE_MAX);
    let left = leave.and_then(|leave| leave.without(adds));
    if let Some(left) = left {
        context.s3.give_leave(id, left);
    }
    left.is_some()
}

/// A key that is there already makes no more of them.
fn is_there(result: CallResult) -> Result<(), Trouble> {
    match reply::<Reply>(result) {
        Ok((Reply::Object { .. }, _)) => Ok(()),
        Ok(_) => Err(too_many_keys().into()),
        Err(failure) if failure.refusal.code == S3ErrorCode::NoSuchKey.name() => Err(too_many_keys().into()),
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
