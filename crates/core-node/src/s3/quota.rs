//! What a bucket may hold, checked before something is put into it.
//!
//! ```text
//!   no quota, or leave to put ────────────────────────▶ put
//!   else ──▶ open uploads ──▶ counts of all shards ──fits─▶ put   (keys: and whether the key is there already)
//!                                    └──▶ QuotaExceeded
//! ```
//!
//! Always: parts of open uploads count by their bytes; what is compared are exact counts, never sums kept beside them, so
//! nothing drifts. A count gives this core leave to put a [`SHARE`]th of what is left, for [`USAGE_AGE_MAX`], without
//! another: so far from its end a quota costs nothing. Near its end every put is counted for.
//!
//! A put carries what its shard may hold with it ([`Guard::bounds`]), and the shard refuses it at the very command that
//! would pass that. Of a bucket of one shard that is the quota itself: of any number of puts at one time none passes it
//! (bytes: but for parts that are uploaded within the same second). Of a bucket of n shards it is what the shard held
//! at the count and all that was left then: puts that were counted for pass it by (n - 1) times what was left at most,
//! and puts by leave by what they put within [`USAGE_AGE_MAX`]. Why not exactly: docs/decisions/0015. A put that was counted
//! for and then met a split or merge is counted for anew, and only the shard may refuse it: it alone knows whether the put
//! was done already, and its answer lost.
//! Not here: delete markers.

use super::counts::Counted;
use super::multipart;
use super::on_bucket::{Place, Trouble};
use super::one_shard::{read_trouble, shard_of};
use super::request::{multipart_read, reply, shard_read, Terms};
use crate::s3::state::PlanContext;
use base_types::mutant::{planted, Mutant};
use base_types::s3::{Quota, S3ErrorCode, Version};
use base_types::{Refusal, Tick};
use bytes::Bytes;
use core::time::Duration;
use core_backends::multipart as uploads;
use core_backends::shard::{Bounds, Command, Condition, PutStep, Query, Range, Reply};
use core_flow::rounds::{one, only};
use core_flow::{CallResult, Step};

/// How old a count may be when it is used again.
const USAGE_AGE_MAX: Duration = Duration::from_millis(1_000);
/// Of what is left, one core puts this part by one count.
const SHARE: u64 = 64;

/// What this core may put by its last count of a bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Leave {
    keys: u64,
    bytes: u64,
    /// What parts of open uploads held then.
    held: u64,
    counted_at: Tick,
}

impl Leave {
    fn new(quota: &Quota, (keys, bytes): (u64, u64), held: u64, counted_at: Tick) -> Leave {
        let share = |max: Option<u64>, used| max.map_or(u64::MAX, |max: u64| max.saturating_sub(used) / SHARE);
        Leave { keys: share(quota.keys_max, keys), bytes: share(quota.bytes_max, bytes), held, counted_at }
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
