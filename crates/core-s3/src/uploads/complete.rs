//! The completion of an upload, and the part of it that a node repeats when it finds an upload half completed.
//!
//! ```text
//!   Begin ──chosen──▶ Put ──put──▶ Finish ──▶ answer
//!    │ ▲               └─refused──▶ Reopen ──▶ refusal
//!    │ └── the refusal was not the call's own: an abort put a stop to the attempt ◀──┘
//!    └──completed──▶ answer                                         (decision 0052)
//! ```
//!
//! Always: each step may be done twice, by any node, at any time: the shard puts once under the token of upload
//! and attempt, and a refusal is as final as a put; so an interrupted completion is gone on with by the next.
//! Held by: `a_completion_left_at_any_step_is_ended_by_the_next`, `completions_and_aborts_race_under_lost_and_late_answers`.
//! Not here: tokens forgotten (sweep.rs).

use crate::buckets::with_bucket::{with_bucket, BucketWork, Place, Trouble};
use crate::clusters;
use crate::objects::conditions::of_write;
use crate::objects::document::{read_checksums, read_retention, set_parts_of, set_retention, version_id};
use crate::objects::quota::{put_within, Guard};
use crate::objects::single_shard::{self, shard_of, shard_trouble};
use crate::objects::{key_bytes, retention};
use crate::request::{done, multipart_write, other_reply_of_uploads, reply, shard_write, RequestIds, Terms};
use crate::state::cache::Bucket;
use crate::state::leave::Adds;
use crate::state::{PlanContext, S3Planner};
use crate::uploads::{upload_of, uploads_trouble};
use base_types::s3::{
    ChecksumAlgorithm, Checksums, CompleteMultipartUpload, Document, PutObjectAnswer, S3ErrorCode, VersionStamp,
};
use base_types::{ErrorCode, Refusal, RequestId};
use bytes::Bytes;
use core_backends::multipart::{token, Command, Completed, Part, PartName, Reply, Upload};
use core_backends::shard::{self, Condition, EtagTest, PutStep};
use core_flow::rounds::{one, only};
use core_flow::{Call, CallResult, Step};

/// How often one call begins; each time more than the first, somebody aborted meanwhile.
const ROUNDS_MAX: u32 = 4;

/// The planner of a completion.
pub(crate) fn planner(call: Box<CompleteMultipartUpload>, terms: &Terms) -> Box<S3Planner> {
    with_bucket(Complete {
        call,
        terms: *terms,
        ids: RequestIds::new(terms),
        stage: Stage::Begin,
        round: 0,
        guard: Guard::default(),
    })
}

/// An upload whose parts are chosen, as its put needs it.
pub(crate) struct Chosen {
    pub upload: Upload,
    pub parts: Vec<Part>,
    pub inline: Option<Bytes>,
}

enum Stage {
    Begin,
    /// To be put; or refused for this reason, which must then be final.
    Put(Box<Chosen>, Option<Refusal>),
    Finish(Completed),
    /// The attempt, and why.
    Reopen(u32, Refusal),
}

/// Steps of one round, for request ids.
const STEPS: u32 = 4;

struct Complete {
    call: Box<CompleteMultipartUpload>,
    terms: Terms,
    ids: RequestIds,
    stage: Stage,
    /// How often it began.
    round: u32,
    /// Of the bucket's quota.
    guard: Guard,
}

impl BucketWork for Complete {
    fn name(&self) -> &'static str {
        "CompleteMultipartUpload"
    }

    fn bucket(&self) -> &str {
        &self.call.bucket
    }

    fn next(
        &mut self,
        context: &mut PlanContext<'_>,
        at: &Place,
        mut answers: Vec<CallResult>,
    ) -> Result<Step, Trouble> {
        if let Stage::Put(chosen, refusal @ None) = &mut self.stage {
            let (bytes, instead_of) = (chosen.upload.size, chosen.upload.bytes);
            let adds = Adds { key: Some(&self.call.key), bytes, instead_of };
            match self.guard.next(context, at, adds, &mut answers) {
                Ok(Some(step)) => return Ok(step),
                Ok(None) => {}
                // Final, as any refusal of a put: the attempt must end by it.
                Err(Trouble::Failed(failure)) if failure.refusal.code == ErrorCode::S3(S3ErrorCode::QuotaExceeded) => {
                    *refusal = Some(failure.refusal);
                }
                Err(trouble) => return Err(trouble),
            }
        }
        if !answers.is_empty() {
            if let Some(step) = self.take(at, only(answers))? {
                return Ok(step);
            }
            // What has just been chosen goes through the quota first.
            if matches!(self.stage, Stage::Put(_, None)) {
                return self.next(context, at, Vec::new());
            }
        }
        self.ask(context, at)
    }
}

impl Complete {
    fn ask(&mut self, context: &mut PlanContext<'_>, at: &Place) -> Result<Step, Trouble> {
        let id = at.bucket.id;
        let (key, upload) = (key_bytes(&self.call.key), upload_of(id, &self.call.upload_id)?);
        let (command, step) = match &self.stage {
            Stage::Begin => {
                let name = |part: &base_types::s3::CompletedPart| PartName {
                    number: part.part_number,
                    etag: part.etag.clone(),
                };
                (Command::BeginComplete { key, upload, parts: self.call.parts.iter().map(name).collect() }, 0)
            }
            Stage::Put(chosen, refusal) => {
                let condition = if refusal.is_some() { never() } else { of_write(&self.call.conditions) };
                let step = put_step(context, at, chosen, &self.call.checksums, condition)?;
                let request_id = self.ids.id(context, self.step(1));
                let bounds = self.guard.bounds(at, &self.call.key, chosen.upload.bytes);
                return Ok(one(put(at, put_within(step, bounds), &self.terms, request_id)?));
            }
            Stage::Finish(outcome) => (Command::Finish { key, upload, outcome: *outcome }, 2),
            Stage::Reopen(attempt, _) => (Command::Reopen { key, upload, attempt: *attempt }, 3),
        };
        let request_id = self.ids.id(context, self.step(step));
        Ok(one(multipart_write(id, &command, request_id)?))
    }

    fn step(&self, step: u32) -> u32 {
        self.round.wrapping_mul(STEPS).wrapping_add(step)
    }

    /// Goes to the next stage; a step: it is the end.
    fn take(&mut self, at: &Place, result: CallResult) -> Result<Option<Step>, Trouble> {
        if let Stage::Put(chosen, own) = &self.stage {
            let (attempt, own) = (chosen.upload.attempts, own.clone());
            let cluster = clusters::shard(at.bucket.id, shard_of(at, &self.call.key)?.shard)?;
            self.stage = match reply::<shard::Reply>(result) {
                Ok((shard::Reply::Put { stamp, null, modified_ms }, _)) => {
                    Stage::Finish(Completed { stamp: stamp.0, null, modified_ms })
                }
                Ok((shard::Reply::PutRefused { refusal }, _)) => Stage::Reopen(attempt, own.unwrap_or(refusal)),
                Ok(_) => return Err(single_shard::other_reply().into()),
                Err(failure) => return Err(shard_trouble(Some(&cluster), failure)),
            };
            return Ok(None);
        }
        let id = at.bucket.id;
        let (told, ordered) = match reply::<Reply>(result) {
            Ok(told) => told,
            Err(failure) => return Err(uploads_trouble(id, failure)),
        };
        match (core::mem::replace(&mut self.stage, Stage::Begin), told) {
            (Stage::Begin, Reply::Completion { upload, parts, inline }) => {
                if let Some(outcome) = upload.outcome {
                    let answer = self.answer(&at.bucket, &upload, outcome);
                    return Ok(Some(done(answer, Some(ordered))));
                }
                let refusal = check(&self.call, &upload, &parts).err();
                self.stage = Stage::Put(Box::new(Chosen { upload, parts, inline }), refusal);
                Ok(None)
            }
            (Stage::Finish(outcome), Reply::Upload { upload }) => {
                let answer = self.answer(&at.bucket, &upload, outcome);
                Ok(Some(done(answer, Some(ordered))))
            }
            (Stage::Reopen(_, refusal), _) if self.is_foreign(&refusal) => {
                self.round += 1;
                Ok(None)
            }
            (Stage::Reopen(_, refusal), _) => Err(refusal.into()),
            _ => Err(other_reply_of_uploads().into()),
        }
    }

    /// Whether the condition that failed is not this call's, but an abort's. The call then reads the upload's outcome
    /// again.
    fn is_foreign(&self, refusal: &Refusal) -> bool {
        let conditional = matches!(refusal.code.s3(), Some(S3ErrorCode::PreconditionFailed | S3ErrorCode::NoSuchKey));
        conditional && self.call.conditions.is_none() && self.round < ROUNDS_MAX
    }

    fn answer(&self, bucket: &Bucket, upload: &Upload, outcome: Completed) -> PutObjectAnswer {
        PutObjectAnswer {
            etag: upload.etag.clone(),
            version_id: version_id(&bucket.record.info, VersionStamp(outcome.stamp), outcome.null),
            last_modified_ms: outcome.modified_ms,
            size: upload.size,
            checksums: self.call.checksums.clone(),
        }
    }
}

/// A condition that no object meets, nor none: under a token it asks what came of it, and ends it if nothing did.
pub(crate) fn never() -> Condition {
    Condition { if_match: Some(EtagTest::OneOf { etags: Vec::new() }), ..Condition::default() }
}

/// Refuses what the client says otherwise of the whole than its parts do.
fn check(call: &CompleteMultipartUpload, upload: &Upload, parts: &[Part]) -> Result<(), Refusal> {
    if call.mpu_object_size.is_some_and(|promised| promised != upload.size) {
        let message = format!("the parts have {} bytes, not as many as x-amz-mp-object-size says", upload.size);
        return Err(S3ErrorCode::InvalidRequest.because(message));
    }
    for (named, part) in call.parts.iter().zip(parts) {
        let known = read_checksums(&part.checksums);
        let differs = |algorithm: &ChecksumAlgorithm| {
            named.checksums.get(*algorithm).is_some_and(|given| known.get(*algorithm) != Some(given))
        };
        if ChecksumAlgorithm::ALL.iter().any(differs) {
            let message = format!("part {} has another checksum than the one named", part.number);
            return Err(S3ErrorCode::InvalidPart.because(message));
        }
    }
    Ok(())
}

/// The put of an upload's object, under its token.
fn put_step(
    context: &PlanContext<'_>,
    at: &Place,
    chosen: &Chosen,
    checksums: &Checksums,
    condition: Condition,
) -> Result<PutStep, Refusal> {
    let Chosen { upload, parts, inline } = chosen;
    let document = Document::decode(upload.document.clone());
    let mut document =
        document.map_err(|_| S3ErrorCode::InternalError.because("the upload's document cannot be read"))?;
    set_parts_of(&mut document, upload, parts, checksums)?;
    let asked = read_retention(&document);
    set_retention(&mut document, retention(&at.bucket.record.info, asked, context.unix_ms));
    let document = document.encode();
    Ok(PutStep { inline: inline.clone(), ..step_of(context, at, upload, document, condition)? })
}

/// A put under an upload's token.
pub(crate) fn step_of(
    context: &PlanContext<'_>,
    at: &Place,
    upload: &Upload,
    document: Bytes,
    condition: Condition,
) -> Result<PutStep, Refusal> {
    Ok(PutStep {
        epoch: at.map.shard_of(&upload.key).map_or(0, |entry| entry.epoch),
        key: upload.key.clone(),
        versioning: at.bucket.record.versioning(),
        at_unix_ms: context.unix_ms,
        document,
        inline: None,
        condition,
        once: Some(token(upload.upload, upload.attempts)),
        data_expires_ms: None,
    })
}

/// Sends a put to the shard of its key.
pub(crate) fn put(at: &Place, put: shard::Command, terms: &Terms, request_id: RequestId) -> Result<Call, Refusal> {
    let number = match &put {
        shard::Command::Put { step } | shard::Command::PutWithin { step, .. } => {
            at.map.shard_of(&step.key).map_or(0, |entry| entry.shard)
        }
        _ => 0,
    };
    shard_write(at.bucket.id, number, &put, terms, request_id)
}
