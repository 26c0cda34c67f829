//! The replicated state machines. A backend is three pure functions over the space it is handed:
//! `validate` (before the log), `apply` (after commit, on every member alike), `query` (reads).
//!
//! Always: all state is in the space; the same commands give the same bytes on every member; `apply`
//! cannot fail but for the engine's own damage: a refusal (a condition that does not hold) is a reply.
//! A read within `apply` sees what the same command has written.
//! Not here: Raft, overlays and engines (core-cluster), which cluster to ask (core-node).

pub mod allocator;
pub mod bucket_names;
pub mod freed;
pub mod memory;
pub mod metadata;
pub mod multipart;
pub mod redis;
pub mod reference;
mod rows;
mod s3_key;
pub mod shard;
pub mod shard_reference;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod wire;

pub use s3_key::fuzz as fuzz_key_codec;

use base_engine::{Direction, EngineError, KeyRange, Visit};
use base_types::codec::{DecodeError, Encode};
use base_types::{BackendKind, ErrorKind, LogIndex, Refusal, COMMAND_BYTES_MAX};
use bytes::Bytes;

/// Where an apply stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApplyContext {
    pub index: LogIndex,
    pub position: u32,
    /// The cluster's own clock, stamped by its leader: milliseconds that only advance.
    pub cluster_time_ms: u64,
}

/// How long state machines keep what may still be asked for, in cluster time. Part of the state machine: alike on all nodes
/// of a world. Real nodes have `Keep::default()`; the simulator draws less, so that what comes of the end is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Completed uploads, and the tokens of their puts. Longer than a request can be repeated.
    pub closed_ms: u64,
    /// A shard that took over rows is not narrowed for so long. Longer than a request can be repeated.
    pub narrow_after_ms: u64,
}

impl Default for Keep {
    fn default() -> Self {
        Keep { closed_ms: multipart::CLOSED_KEEP_MS, narrow_after_ms: shard::NARROW_AFTER_MS }
    }
}

/// What a backend sees of its space. Keys are the backend's own; no neighbour's.
pub trait SpaceRead {
    /// How long what is kept in it is kept.
    fn keep(&self) -> Keep {
        Keep::default()
    }
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, EngineError>;
    fn range(&self, range: KeyRange<'_>, direction: Direction, visit: Visit<'_>) -> Result<(), EngineError>;
}

/// What a backend may change.
pub trait SpaceWrite: SpaceRead {
    fn put(&mut self, key: Bytes, value: Bytes);
    fn delete(&mut self, key: Bytes);
}

/// Refuses a command that could not be applied, before it reaches the log. Bad bytes are a refusal, never a panic.
pub fn validate(backend: BackendKind, command: &Bytes) -> Result<(), Refusal> {
    match backend {
        BackendKind::Allocator => allocator::validate(command),
        BackendKind::Metadata => metadata::validate(command),
        BackendKind::Redis => redis::validate(command),
        BackendKind::Reference => reference::validate(command),
        BackendKind::Shard => shard::validate(command),
        BackendKind::Multipart => multipart::validate(command),
        BackendKind::ShardReference => shard_reference::validate(command),
    }
}

/// Applies a command. The reply is `encode_reply` of the backend's own reply or refusal.
/// `Err` only for the engine's damage: the replica then stops.
pub fn apply(
    backend: BackendKind,
    at: ApplyContext,
    space: &mut dyn SpaceWrite,
    command: &Bytes,
) -> Result<Bytes, EngineError> {
    match backend {
        BackendKind::Allocator => allocator::apply(at, space, command),
        BackendKind::Metadata => metadata::apply(at, space, command),
        BackendKind::Redis => redis::apply(at, space, command),
        BackendKind::Reference => reference::apply(at, space, command),
        BackendKind::Multipart => multipart::apply(at, space, command),
        BackendKind::ShardReference => shard_reference::apply(at, space, command),
        BackendKind::Shard => shard::apply(at, space, command),
    }
}

/// Answers a read. The reply is `encode_reply` of the backend's own reply or refusal.
pub fn query(
    backend: BackendKind,
    cluster_time_ms: u64,
    space: &dyn SpaceRead,
    query: &Bytes,
) -> Result<Bytes, EngineError> {
    match backend {
        BackendKind::Allocator => allocator::query(cluster_time_ms, space, query),
        BackendKind::Metadata => metadata::query(cluster_time_ms, space, query),
        BackendKind::Redis => redis::query(cluster_time_ms, space, query),
        BackendKind::Reference => reference::query(cluster_time_ms, space, query),
        BackendKind::Multipart => multipart::query(cluster_time_ms, space, query),
        BackendKind::ShardReference => shard_reference::query(cluster_time_ms, space, query),
        BackendKind::Shard => shard::query(cluster_time_ms, space, query),
    }
}

/// Decodes a command or query whole, within its bound.
pub(crate) fn decode<T: Encode>(what: &'static str, bytes: &Bytes) -> Result<T, Refusal> {
    if bytes.len() > COMMAND_BYTES_MAX {
        let message = format!("{what} is {} bytes long; at most {COMMAND_BYTES_MAX} are taken", bytes.len());
        return Err(Refusal::new(ErrorKind::TooLarge, "BodyTooLarge", message));
    }
    T::from_bytes(bytes.clone()).map_err(|error| {
        Refusal::invalid(
            "CorruptCommand",
            format!("{what} does not decode: {error}; sender and receiver may differ in version"),
        )
    })
}

/// What a row that does not decode means: the engine gave back what was never written.
pub(crate) fn corrupt_row(what: &'static str, error: DecodeError) -> EngineError {
    EngineError::Corrupt(format!("{what} does not decode: {error}"))
}

/// A reply's byte form: 0 and the payload, or 1 and the refusal.
pub fn encode_reply<T: Encode>(reply: &Result<T, Refusal>) -> Bytes {
    use base_types::codec::Writer;
    let mut out = Writer::new();
    match reply {
        Ok(payload) => payload.encode(out.u8(0)),
        Err(refusal) => refusal.encode(out.u8(1)),
    }
    out.finish()
}

/// Whether a reply is a refusal: the command changed nothing.
pub fn is_refusal(reply: &[u8]) -> bool {
    reply.first() == Some(&1)
}

/// Whether a refusal is no answer to a request but a way on: what it is told is "later", or "not here (any more)". It is not
/// remembered, for the retry with the same id must be able to succeed, here or where the key has gone.
pub fn is_no_answer(reply: &[u8]) -> bool {
    is_retryable_refusal(reply) || [metadata::ELSEWHERE, shard::ELSEWHERE].iter().any(|code| is_code(reply, code))
}

/// Whether a reply is a refusal with this code: kind, then the code with its length before it.
fn is_code(reply: &[u8], code: &str) -> bool {
    let found = reply.get(3..3 + code.len());
    is_refusal(reply) && reply.get(2) == Some(&(code.len() as u8)) && found == Some(code.as_bytes())
}

/// Whether a write may be acknowledged before it is applied: nothing that is applied already would refuse it.
pub fn is_sure(backend: BackendKind, space: &dyn SpaceRead, command: &Bytes) -> Result<bool, EngineError> {
    match backend {
        BackendKind::Metadata => metadata::is_sure(space, command),
        // Their replies tell what came of it (a version, a part replaced), so they wait for it.
        BackendKind::Shard | BackendKind::ShardReference | BackendKind::Multipart => Ok(false),
        _ => Ok(true),
    }
}

/// The refusal that a command is sure to earn for now, by what is applied here: a leader need not put it into the log
/// to say so. Only refusals that are no answer ([`is_no_answer`]): whoever is told comes again, or goes elsewhere.
pub fn refused_at_once(
    backend: BackendKind,
    space: &dyn SpaceRead,
    cluster_time_ms: u64,
    command: &Bytes,
) -> Result<Option<Refusal>, EngineError> {
    match backend {
        BackendKind::Shard => shard::refused_at_once(space, cluster_time_ms, command),
        _ => Ok(None),
    }
}

/// Whether commands behind this one may be refused because of it, so that they are not sure before it is applied.
pub fn makes_unsure(backend: BackendKind, command: &Bytes) -> bool {
    backend == BackendKind::Metadata && metadata::changes_partitions(command)
}

/// Whether a reply is a refusal that the same request may get past later: it changed nothing.
pub fn is_retryable_refusal(reply: &[u8]) -> bool {
    let kind = reply.get(1).copied().and_then(base_types::ErrorKind::from_byte);
    is_refusal(reply) && kind.is_some_and(base_types::ErrorKind::retryable)
}

/// The counterpart of [`encode_reply`]; bytes that do not decode are an `Internal` refusal.
pub fn decode_reply<T: Encode>(reply: Bytes) -> Result<T, Refusal> {
    use base_types::codec::Reader;
    let mut input = Reader::new(reply);
    let decoded: Result<Result<T, Refusal>, DecodeError> = (|| {
        Ok(match input.u8("reply kind")? {
            0 => Ok(T::decode(&mut input)?),
            1 => Err(Refusal::decode(&mut input)?),
            _ => return Err(DecodeError::Unknown("reply kind")),
        })
    })();
    decoded.unwrap_or_else(|error| {
        Err(Refusal::new(ErrorKind::Internal, "Internal", format!("a backend's reply does not decode: {error}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::MapSpace;

    #[test]
    fn bytes_that_do_not_decode_are_refusals_everywhere() {
        let at = ApplyContext { index: LogIndex(1), position: 0, cluster_time_ms: 0 };
        let mut state = 1u64;
        for round in 0..4000u32 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let length = (state >> 33) % 24;
            let bytes: Vec<u8> = (0..length).map(|place| (state >> (place % 8)) as u8 ^ place as u8).collect();
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() {
                *first = (round % 24) as u8;
            }
            let bytes = Bytes::from(bytes);
            for backend in BackendKind::ALL {
                let mut space = MapSpace::default();
                let valid = validate(backend, &bytes).is_ok();
                let reply = apply(backend, at, &mut space, &bytes).unwrap();
                assert!(valid || reply[0] == 1, "{backend}: {bytes:?} is refused by validate, but applied");
                let _ = query(backend, 0, &space, &bytes).unwrap();
            }
        }
    }
}
