//! What the parts of a call have in common: levels, request ids, calls to shards, answers.
//!
//! Not here: finding the bucket (with_bucket.rs).

use crate::clusters;
use crate::state::PlanContext;
use base_types::action::{ActionResult, Answer, Failure, Level};
use base_types::codec::Encode;
use base_types::s3::{S3Answer, S3ErrorCode};
use base_types::{BackendKind, ClusterName, OrderedAt, ReadConsistency, Refusal, RequestId, WriteConsistency};
use core_backends::{multipart, shard, shard_reference};
use core_flow::{decode_call, Call, CallReply, CallResult, Step};
use std::sync::Arc;

/// What a client asks of a call beside the call itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Terms {
    pub consistency: Option<WriteConsistency>,
    pub read_consistency: Option<ReadConsistency>,
    pub request_id: Option<RequestId>,
}

/// The request ids of one call's writes. Each is made of the client's id and the step, so it is the same at every node
/// that the client tries and wherever the key has moved. A call continues after some refusals; clusters do not remember
/// those (`core_backends::is_redirect`).
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestIds {
    base: Option<RequestId>,
}

impl RequestIds {
    pub(crate) fn new(terms: &Terms) -> RequestIds {
        RequestIds { base: terms.request_id }
    }

    /// The id of step `step`.
    pub(crate) fn id(&mut self, context: &mut PlanContext<'_>, step: u32) -> RequestId {
        let base = *self.base.get_or_insert_with(|| context.random.request_id());
        let mut bytes = [0u8; 20];
        bytes[..16].copy_from_slice(&base.0.to_le_bytes());
        bytes[16..].copy_from_slice(&step.to_le_bytes());
        base.step(xxhash_rust::xxh3::xxh3_128(&bytes))
    }

    /// The id of a step that its bytes tell from all others of the call, of which there may be many: they are hashed with
    /// more bits than a step's number has, for two of one id would be one. (Of a call that numbers its steps too, none may
    /// be four bytes long.)
    pub(crate) fn id_of(&mut self, context: &mut PlanContext<'_>, step: &[u8]) -> RequestId {
        let base = *self.base.get_or_insert_with(|| context.random.request_id());
        base.step(xxhash_rust::xxh3::xxh3_128(&[&base.0.to_le_bytes(), step].concat()))
    }
}

/// A command to a shard.
pub(crate) fn shard_write(
    id: u128,
    number: u64,
    command: &shard::Command,
    terms: &Terms,
    request_id: RequestId,
) -> Result<Call, Refusal> {
    Ok(shard_write_at(clusters::shard(id, number)?, command, terms, request_id))
}

/// A command to the shard of a cluster.
pub(crate) fn shard_write_at(
    cluster: ClusterName,
    command: &shard::Command,
    terms: &Terms,
    request_id: RequestId,
) -> Call {
    let (backend, command) = (BackendKind::Shard, command.to_bytes());
    Call::Write { cluster, backend, command, consistency: terms.consistency, request_id: Some(request_id) }
}

/// A question to a shard.
pub(crate) fn shard_read(id: u128, number: u64, query: &shard::Query, terms: &Terms) -> Result<Call, Refusal> {
    Ok(shard_read_at(clusters::shard(id, number)?, query, terms))
}

/// A question to the shard of a cluster.
pub(crate) fn shard_read_at(cluster: ClusterName, query: &shard::Query, terms: &Terms) -> Call {
    let (backend, query) = (BackendKind::Shard, query.to_bytes());
    Call::Read { cluster, backend, query, consistency: terms.read_consistency }
}

/// A command to a bucket's uploads.
pub(crate) fn multipart_write(id: u128, command: &multipart::Command, request_id: RequestId) -> Result<Call, Refusal> {
    Ok(Call::Write {
        cluster: clusters::bucket(id)?,
        backend: BackendKind::Multipart,
        command: command.to_bytes(),
        consistency: Some(WriteConsistency::Strong),
        request_id: Some(request_id),
    })
}

/// A question to a bucket's uploads.
pub(crate) fn multipart_read(id: u128, query: &multipart::Query) -> Result<Call, Refusal> {
    Ok(Call::Read {
        cluster: clusters::bucket(id)?,
        backend: BackendKind::Multipart,
        query: query.to_bytes(),
        consistency: Some(ReadConsistency::Strong),
    })
}

/// A command to a bucket's map.
pub(crate) fn map_write(id: u128, command: &shard_reference::Command) -> Result<Call, Refusal> {
    Ok(Call::Write {
        cluster: clusters::bucket(id)?,
        backend: BackendKind::ShardReference,
        command: command.to_bytes(),
        consistency: Some(WriteConsistency::Strong),
        request_id: None,
    })
}

/// A question to a bucket's map.
pub(crate) fn map_read(id: u128, query: &shard_reference::Query) -> Result<Call, Refusal> {
    Ok(Call::Read {
        cluster: clusters::bucket(id)?,
        backend: BackendKind::ShardReference,
        query: query.to_bytes(),
        consistency: Some(ReadConsistency::Strong),
    })
}

/// A backend's own reply, and where it was ordered.
pub(crate) fn reply<T: Encode>(result: CallResult) -> Result<(T, OrderedAt), Failure> {
    decode_call(result)
}

/// The end of a call that went well.
pub(crate) fn done(answer: impl Into<S3Answer>, at: Option<OrderedAt>) -> Step {
    Step::Done(Ok(Answer { result: ActionResult::S3(answer.into()), at, level: None, cluster: None }))
}

/// The level a backend's reply reached.
pub(crate) fn level_of(result: &CallResult) -> Option<Level> {
    match result {
        Ok(CallReply::Backend { level, .. }) => Some(*level),
        _ => None,
    }
}

/// As [`done`], with the level it reached and the cluster that answered.
pub(crate) fn done_at(
    answer: impl Into<S3Answer>,
    at: OrderedAt,
    level: Option<Level>,
    cluster: Option<ClusterName>,
) -> Step {
    let result = ActionResult::S3(answer.into());
    Step::Done(Ok(Answer { result, at: Some(at), level, cluster: cluster.map(Arc::new) }))
}

/// A strong question to a shard.
pub(crate) fn shard_ask(id: u128, number: u64, query: &shard::Query) -> Result<Call, Refusal> {
    Ok(Call::Read {
        cluster: clusters::shard(id, number)?,
        backend: BackendKind::Shard,
        query: query.to_bytes(),
        consistency: Some(ReadConsistency::Strong),
    })
}

/// A strong command of a flow to a shard. It may come twice: each is a compare-and-set, or changes nothing twice.
pub(crate) fn shard_tell(id: u128, number: u64, command: &shard::Command) -> Result<Call, Refusal> {
    Ok(Call::Write {
        cluster: clusters::shard(id, number)?,
        backend: BackendKind::Shard,
        command: command.to_bytes(),
        consistency: Some(WriteConsistency::Strong),
        request_id: None,
    })
}

/// A reply is of another kind than its question.
pub(crate) fn odd(who: &str) -> Failure {
    S3ErrorCode::InternalError
        .because(format!("{who} gave a reply of another kind; retry, and report it if it repeats"))
        .into()
}

/// The end of work nobody waits for.
pub(crate) fn ended() -> Step {
    Step::Done(Ok(Answer { result: ActionResult::Done, at: None, level: None, cluster: None }))
}

/// Uploads answered something else than what was asked.
pub(crate) fn other_reply_of_uploads() -> Refusal {
    S3ErrorCode::InternalError.because("the bucket's uploads answered something else than what they were asked")
}

/// Nothing is encrypted at rest, so nobody is answered as if it were.
pub(crate) fn no_encryption() -> Refusal {
    let message = "server-side encryption is not offered; put without it, and encrypt before or on the nodes' disks";
    S3ErrorCode::NotImplemented.because(message)
}
