//! What ended uploads leave behind, removed: the tokens of their puts at the shards, then their rows.
//!
//! ```text
//!   Due ──one──▶ Forget at its shard ──▶ Collect ──▶ Due … ──none──▶ end
//! ```
//!
//! Always: an upload is taken an hour after its end at the earliest, when no completion of it can be under way; a sweep
//! that dies leaves what the next one takes (a token at most stays: a few bytes). Begun behind each upload
//! that ends, and now and then by the bucket's scheduler (core-node, s3_scheduler.rs).
//! Held by: `what_an_upload_leaves_is_swept_in_time_and_not_before`.
//! Not here: the bytes freed (garbage.rs).

use crate::buckets::with_bucket::{with_bucket, BucketWork, Place, Trouble};
use crate::request::{multipart_read, multipart_write, other_reply_of_uploads, reply, shard_write, Terms};
use crate::state::{PlanContext, S3Planner};
use crate::uploads::uploads_trouble;
use base_types::action::ActionResult;
use base_types::s3::S3Action;
use base_types::Refusal;
use core_backends::multipart::{token, Command, Due, Query, Reply};
use core_backends::shard;
use core_flow::rounds::{answer, one, only};
use core_flow::{Call, CallResult, Step};

/// The most tokens forgotten of one upload: of as many attempts, the last.
const TOKENS_MAX: u32 = 16;
/// Rows removed by one command, and the most such commands of one sweep.
const ROWS: u32 = 1_000;
const ROUNDS_MAX: u32 = 64;

/// What is begun behind a call that went well.
pub fn follow_up(call: &S3Action) -> Option<Box<S3Planner>> {
    let bucket = match call {
        S3Action::CompleteMultipartUpload(call) => &call.bucket,
        S3Action::AbortMultipartUpload(call) => &call.bucket,
        _ => return None,
    };
    Some(sweep(bucket.clone()))
}

/// One sweep of a bucket's uploads.
pub fn sweep(bucket: String) -> Box<S3Planner> {
    with_bucket(Sweep { bucket, stage: Stage::Due, due: Vec::new(), rounds: 0 })
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Due,
    Forget,
    Collect,
}

struct Sweep {
    bucket: String,
    stage: Stage,
    due: Vec<Due>,
    rounds: u32,
}

impl BucketWork for Sweep {
    fn name(&self) -> &'static str {
        "sweep of uploads"
    }

    fn bucket(&self) -> &str {
        &self.bucket
    }

    fn next(&mut self, context: &mut PlanContext<'_>, at: &Place, answers: Vec<CallResult>) -> Result<Step, Trouble> {
        let id = at.bucket.id;
        if !answers.is_empty() && self.take(id, answers)? {
            return Ok(answer(ActionResult::Done, None));
        }
        if self.stage == Stage::Forget {
            let calls = self.forget(context, at)?;
            if !calls.is_empty() {
                return Ok(Step::Calls(calls));
            }
            self.stage = Stage::Collect;
        }
        let fresh = context.random.request_id();
        Ok(one(match self.stage {
            Stage::Due => multipart_read(id, &Query::Due { limit: 1 })?,
            Stage::Forget | Stage::Collect => multipart_write(id, &Command::Collect { limit: ROWS }, fresh)?,
        }))
    }
}

impl Sweep {
    /// Goes to the next stage; whether nothing is left to do.
    fn take(&mut self, id: u128, answers: Vec<CallResult>) -> Result<bool, Trouble> {
        if self.stage == Stage::Forget {
            for result in answers {
                // A shard that was split since is asked once more with all others: to forget twice does no harm.
                reply::<shard::Reply>(result).map_err(crate::objects::single_shard::read_trouble)?;
            }
            self.stage = Stage::Collect;
            return Ok(false);
        }
        let told = reply::<Reply>(only(answers));
        let told = told.map_err(|failure| uploads_trouble(id, failure))?;
        match told.0 {
            Reply::Due { uploads } => {
                self.stage = Stage::Forget;
                self.due = uploads;
                Ok(self.due.is_empty())
            }
            Reply::Removed { more } => {
                self.stage = Stage::Due;
                self.rounds += 1;
                Ok(!more || self.rounds >= ROUNDS_MAX)
            }
            _ => Err(other_reply_of_uploads().into()),
        }
    }

    fn forget(&self, context: &mut PlanContext<'_>, at: &Place) -> Result<Vec<Call>, Refusal> {
        let mut calls = Vec::new();
        for due in &self.due {
            let Some(entry) = at.map.shard_of(&due.key) else { continue };
            for attempt in due.attempts.saturating_sub(TOKENS_MAX) + 1..=due.attempts {
                let (epoch, key, token) = (entry.epoch, due.key.clone(), token(due.upload, attempt));
                let command = shard::Command::Forget { epoch, key, token };
                let fresh = context.random.request_id();
                calls.push(shard_write(at.bucket.id, entry.shard, &command, &Terms::default(), fresh)?);
            }
        }
        Ok(calls)
    }
}
