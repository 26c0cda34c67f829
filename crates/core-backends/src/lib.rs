//! The replicated state machines. A backend is three pure functions over the space it is handed:
//! `validate` (before the log), `apply` (after commit, on every member alike), `query` (reads).
//!
//! Always: all state is in the space; the same commands give the same bytes on every member; `apply`
//! cannot fail but for the engine's own damage: a refusal (a condition that does not hold) is a reply.
//! Not here: Raft, overlays and engines (core-cluster), which cluster to ask (core-node).

use base_engine::{Direction, EngineError, KeyRange, Visit};
use base_types::{BackendKind, LogIndex, Refusal};
use bytes::Bytes;

/// Where an apply stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApplyContext {
    pub index: LogIndex,
    pub position: u32,
    /// The cluster's own clock, stamped by its leader: milliseconds that only advance.
    pub cluster_time_ms: u64,
}

/// What a backend sees of its space. Keys are the backend's own; no neighbour's.
pub trait SpaceRead {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, EngineError>;
    fn range(&self, range: KeyRange<'_>, direction: Direction, visit: Visit<'_>) -> Result<(), EngineError>;
}

/// What a backend may change.
pub trait SpaceWrite: SpaceRead {
    fn put(&mut self, key: Bytes, value: Bytes);
    fn delete(&mut self, key: Bytes);
}

/// Refuses a command that could not be applied, before it reaches the log. Bad bytes are a refusal, never a panic.
pub fn validate(_backend: BackendKind, _command: &Bytes) -> Result<(), Refusal> {
    unimplemented!()
}

/// Applies a command. The reply is `encode_reply` of the backend's own reply or refusal.
/// `Err` only for the engine's damage: the replica then stops.
pub fn apply(_backend: BackendKind, _at: ApplyContext, _space: &mut dyn SpaceWrite, _command: &Bytes) -> Result<Bytes, EngineError> {
    unimplemented!()
}

/// Answers a read. The reply is `encode_reply` of the backend's own reply or refusal.
pub fn query(_backend: BackendKind, _cluster_time_ms: u64, _space: &dyn SpaceRead, _query: &Bytes) -> Result<Bytes, EngineError> {
    unimplemented!()
}

/// A reply's byte form: 0 and the payload, or 1 and the refusal.
pub fn encode_reply<T: base_types::codec::Encode>(reply: &Result<T, Refusal>) -> Bytes {
    use base_types::codec::{Encode, Writer};
    let mut out = Writer::new();
    match reply {
        Ok(payload) => payload.encode(out.u8(0)),
        Err(refusal) => refusal.encode(out.u8(1)),
    }
    out.finish()
}

/// The counterpart of [`encode_reply`]; bytes that do not decode are an `Internal` refusal.
pub fn decode_reply<T: base_types::codec::Encode>(reply: Bytes) -> Result<T, Refusal> {
    use base_types::codec::{DecodeError, Encode, Reader};
    let mut input = Reader::new(reply);
    let decoded: Result<Result<T, Refusal>, DecodeError> = (|| {
        Ok(match input.u8("reply kind")? {
            0 => Ok(T::decode(&mut input)?),
            1 => Err(Refusal::decode(&mut input)?),
            _ => return Err(DecodeError::Unknown("reply kind")),
        })
    })();
    decoded.unwrap_or_else(|error| {
        Err(Refusal::new(base_types::ErrorKind::Internal, "Internal", format!("a backend's reply does not decode: {error}")))
    })
}
