//! The end of an upload without an object.
//!
//! ```text
//!   Look ──open──▶ Abort ──▶ answer
//!    │ ▲             └─is being completed─▶ Look
//!    │ └───────────────────────────── Reopen ◀──refused──┐
//!    └──completing──▶ Put (under a condition that never holds) ──put──▶ Finish ──▶ NoSuchUpload
//! ```
//!
//! Always: an upload whose parts an object has, or may yet have, is not aborted. So who left one completing for
//! ever cannot keep it so: the next abort (a client's, or a lifecycle rule's) ends it one way or the other.
//! Held by: `an_upload_left_completing_can_be_aborted_and_then_nothing_puts_it`, `completions_and_aborts_race_under_lost_and_late_answers`.
//! Not here: what an abort frees (core-backends, multipart).

use crate::buckets::with_bucket::{with_bucket, BucketWork, Place, Trouble};
use crate::clusters;
use crate::objects::key_bytes;
use crate::objects::single_shard::{self, shard_of, shard_trouble};
use crate::request::{done, multipart_read, multipart_write, other_reply_of_uploads, reply, RequestIds, Terms};
use crate::state::{PlanContext, S3Planner};
use crate::uploads::complete::{never, put, step_of};
use crate::uploads::{upload_of, uploads_trouble};
use base_types::s3::{AbortMultipartUpload, Document, S3Answer, S3ErrorCode};
use base_types::{ErrorCode, Refusal};
use core_backends::multipart::{Command, Completed, Query, Reply, Upload, UploadState};
use core_backends::shard;
use core_flow::rounds::{one, only};
use core_flow::{CallResult, Step};

/// The planner of an abort.
pub(crate) fn planner(call: Box<AbortMultipartUpload>, terms: &Terms) -> Box<S3Planner> {
    with_bucket(Abort { call, terms: *terms, ids: RequestIds::new(terms), stage: Stage::Look, step: 0 })
}

enum Stage {
    Look,
    Abort,
    Put(Box<Upload>),
    Finish(Completed),
    Reopen(u32),
}

struct Abort {
    call: Box<AbortMultipartUpload>,
    terms: Terms,
    ids: RequestIds,
    stage: Stage,
    /// Writes so far.
    step: u32,
}

impl BucketWork for Abort {
    fn name(&self) -> &'static str {
        "AbortMultipartUpload"
    }

    fn bucket(&self) -> &str {
        &self.call.bucket
    }

    fn next(&mut self, context: &mut PlanContext<'_>, at: &Place, answers: Vec<CallResult>) -> Result<Step, Trouble> {
        if !answers.is_empty() {
            if let Some(step) = self.take(at, only(answers))? {
                return Ok(step);
            }
        }
        self.ask(context, at)
    }
}

fn is_over() -> Refusal {
    S3ErrorCode::NoSuchUpload.because("the upload was completed; delete its object if it is not wanted")
}

impl Abort {
    fn ask(&mut self, context: &mut PlanContext<'_>, at: &Place) -> Result<Step, Trouble> {
        let id = at.bucket.id;
        let (key, upload) = (key_bytes(&self.call.key), upload_of(id, &self.call.upload_id)?);
        let command = match &self.stage {
            Stage::Look => return Ok(one(multipart_read(id, &Query::Upload { key, upload })?)),
            Stage::Put(found) => {
                let request_id = self.ids.id(context, self.step);
                let step = step_of(context, at, found, Document::new().encode(), never())?;
                return Ok(one(put(at, shard::Command::Put { step }, &self.terms, request_id)?));
            }
            Stage::Abort => Command::Abort { key, upload },
            Stage::Finish(outcome) => Command::Finish { key, upload, outcome: *outcome },
            Stage::Reopen(attempt) => Command::Reopen { key, upload, attempt: *attempt },
        };
        let request_id = self.ids.id(context, self.step);
        Ok(one(multipart_write(id, &command, request_id)?))
    }

    /// Goes to the next stage; a step: it is the end.
    fn take(&mut self, at: &Place, result: CallResult) -> Result<Option<Step>, Trouble> {
        if let Stage::Put(found) = &self.stage {
            let attempt = found.attempts;
            let cluster = clusters::shard(at.bucket.id, shard_of(at, &self.call.key)?.shard)?;
            let told = reply::<shard::Reply>(result);
            let told = told.map_err(|failure| shard_trouble(Some(&cluster), failure))?;
            self.step += 1;
            self.stage = match told.0 {
                shard::Reply::Put { stamp, null, modified_ms } => {
                    Stage::Finish(Completed { stamp: stamp.0, null, modified_ms })
                }
                shard::Reply::PutRefused { .. } => Stage::Reopen(attempt),
                _ => return Err(single_shard::other_reply().into()),
            };
            return Ok(None);
        }
        let (told, ordered) = match reply::<Reply>(result) {
            Ok(told) => told,
            // Somebody began to complete it.
            Err(failure) if failure.refusal.code == ErrorCode::Conflict && matches!(self.stage, Stage::Abort) => {
                (self.stage, self.step) = (Stage::Look, self.step + 1);
                return Err(Trouble::Again(failure));
            }
            Err(failure) => return Err(uploads_trouble(at.bucket.id, failure)),
        };
        self.step += 1;
        match (core::mem::replace(&mut self.stage, Stage::Look), told) {
            (Stage::Look, Reply::Upload { upload }) => {
                self.stage = self.looked(upload)?;
                Ok(None)
            }
            (Stage::Abort, Reply::Done) => Ok(Some(done(S3Answer::Done, Some(ordered)))),
            (Stage::Finish(..), Reply::Upload { .. }) => Err(is_over().into()),
            (Stage::Reopen(_), Reply::Upload { .. }) => Ok(None),
            _ => Err(other_reply_of_uploads().into()),
        }
    }

    fn looked(&self, upload: Upload) -> Result<Stage, Refusal> {
        let begun = upload.at_unix_ms / 1000;
        if self.call.if_match_initiated_time_ms.is_some_and(|wanted| wanted / 1000 != begun) {
            return Err(S3ErrorCode::PreconditionFailed.because("the upload was begun at another time"));
        }
        match upload.state {
            UploadState::Open | UploadState::Aborted => Ok(Stage::Abort),
            UploadState::Completing => Ok(Stage::Put(Box::new(upload))),
            UploadState::Completed => Err(is_over()),
        }
    }
}
