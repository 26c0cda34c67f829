//! Which backend has which kind, and every question the cluster asks of one.
//!
//! By design: this is the only place that knows all backends; none of them knows another but by name of what it stores.
//! Not here: what a backend answers (its own room), what the answers mean (`contract.rs`).

use crate::contract::{ApplyContext, Backend, Known, SpaceRead, SpaceWrite, Takeover, Upkeep};
use crate::memory::{About, Carried, MemoryAsked, MemoryPage};
use crate::{allocator, metadata, multipart, redis, reference, shard, shard_reference, versioned};
use base_engine::EngineError;
use base_types::invariant::Broken;
use base_types::{BackendKind, Refusal};
use bytes::Bytes;

fn backend(kind: BackendKind) -> &'static dyn Backend {
    match kind {
        BackendKind::Allocator => &allocator::Allocator,
        BackendKind::Metadata => &metadata::Metadata,
        BackendKind::Redis => &redis::Redis,
        BackendKind::Reference => &reference::Reference,
        BackendKind::Shard => &shard::Objects,
        BackendKind::Multipart => &multipart::Uploads,
        BackendKind::ShardReference => &shard_reference::Shards,
        BackendKind::Versioned => &versioned::Versioned,
    }
}

/// A command that a leader has decoded, and checked, before it takes it into the log. It answers what else the leader asks.
pub enum Parsed {
    Metadata(metadata::Command),
    Shard(shard::Command),
    /// Nothing refuses it when it is applied, and its client may be answered before.
    Plain,
    /// Its reply says what came of it (a version, a part replaced), so its client waits until it is applied.
    Answered,
}

impl Parsed {
    /// Whether the write may be acknowledged before it is applied: nothing that is applied already would refuse it.
    pub fn can_ack_early(&self, space: &dyn SpaceRead) -> Result<bool, EngineError> {
        match self {
            Parsed::Metadata(command) => metadata::can_ack_early(space, command),
            Parsed::Plain => Ok(true),
            Parsed::Shard(_) | Parsed::Answered => Ok(false),
        }
    }

    /// Whether commands after this one may be refused because of it: none is acknowledged early before it is applied.
    pub fn blocks_early_ack(&self) -> bool {
        match self {
            Parsed::Metadata(command) => metadata::changes_partitions(command),
            Parsed::Shard(_) | Parsed::Plain | Parsed::Answered => false,
        }
    }

    /// The refusal that the command would earn now, by what is applied here: a leader need not put it into the log to say so.
    /// Only refusals that are no answer ([`crate::is_redirect`]): the router retries, or goes elsewhere.
    pub fn precheck(&self, space: &dyn SpaceRead, cluster_time_ms: u64) -> Result<Option<Refusal>, EngineError> {
        match self {
            Parsed::Shard(command) => shard::precheck(space, cluster_time_ms, command),
            Parsed::Metadata(_) | Parsed::Plain | Parsed::Answered => Ok(None),
        }
    }
}

/// Decodes a command, and refuses one that could not be applied, before it reaches the log. Bad bytes are a refusal, never a
/// panic.
pub fn parse(kind: BackendKind, command: &Bytes) -> Result<Parsed, Refusal> {
    match kind {
        BackendKind::Metadata => metadata::parse(command).map(Parsed::Metadata),
        BackendKind::Shard => shard::parse(command).map(Parsed::Shard),
        BackendKind::Multipart | BackendKind::ShardReference | BackendKind::Versioned => {
            validate(kind, command).map(|()| Parsed::Answered)
        }
        BackendKind::Allocator | BackendKind::Reference | BackendKind::Redis => {
            validate(kind, command).map(|()| Parsed::Plain)
        }
    }
}

/// Refuses a command that could not be applied, before it reaches the log. Bad bytes are a refusal, never a panic.
pub fn validate(kind: BackendKind, command: &Bytes) -> Result<(), Refusal> {
    backend(kind).validate(command)
}

/// Applies a command. The reply is `encode_reply` of the backend's own reply or refusal.
/// `Err` only for the engine's damage: the replica then stops.
pub fn apply(
    kind: BackendKind,
    at: ApplyContext,
    space: &mut dyn SpaceWrite,
    command: &Bytes,
) -> Result<Bytes, EngineError> {
    backend(kind).apply(at, space, command)
}

/// As [`apply`], but what a command asks beside other things, and what the cluster remembers (`known`), is not
/// done once more. (A command that is remembered as a whole does not come here.)
pub fn apply_once(
    kind: BackendKind,
    at: ApplyContext,
    space: &mut dyn SpaceWrite,
    command: &Bytes,
    known: Known<'_>,
) -> Result<Bytes, EngineError> {
    backend(kind).apply_once(at, space, command, known)
}

/// Answers a read. The reply is `encode_reply` of the backend's own reply or refusal.
pub fn query(
    kind: BackendKind,
    cluster_time_ms: u64,
    space: &dyn SpaceRead,
    query: &Bytes,
) -> Result<Bytes, EngineError> {
    backend(kind).query(cluster_time_ms, space, query)
}

/// Whether a query may wait until there is something to give.
pub fn waits(kind: BackendKind, query: &Bytes) -> bool {
    backend(kind).waits(query)
}

/// Whether a backend has queries that may wait.
pub fn has_waiting_queries(kind: BackendKind) -> bool {
    backend(kind).has_waiting_queries()
}

/// Of a query that waits, and its reply: what is asked after the next change. `None`: the reply is its answer.
pub fn next_query(kind: BackendKind, query: &Bytes, reply: &Bytes) -> Option<Bytes> {
    backend(kind).next_query(query, reply)
}

/// What a leader is to propose next, without a client.
///
/// # Errors
/// The engine's damage.
pub fn upkeep(kind: BackendKind, space: &dyn SpaceRead) -> Result<Option<Upkeep>, EngineError> {
    backend(kind).upkeep(space)
}

/// Whether something that a query may show ends after the first of these times and not after the second, without an entry.
///
/// # Errors
/// The engine's damage.
pub fn ends_between(
    kind: BackendKind,
    space: &dyn SpaceRead,
    query: &Bytes,
    times: (u64, u64),
) -> Result<bool, EngineError> {
    backend(kind).ends_between(space, query, times)
}

/// What a new leader is to propose before anything else of its own, part by part.
///
/// # Errors
/// The engine's damage.
pub fn takeover(
    kind: BackendKind,
    space: &dyn SpaceRead,
    began_ms: u64,
    now_ms: u64,
    after: &[u8],
) -> Result<Option<Takeover>, EngineError> {
    backend(kind).takeover(space, began_ms, now_ms, after)
}

/// Checks what always holds of the rows in the space of a backend: between commands, and where a few thousand rows can be read.
///
/// # Errors
/// The engine's damage; within, the first invariant that does not hold.
pub fn check_invariants(kind: BackendKind, space: &dyn SpaceRead) -> Result<Result<(), Broken>, EngineError> {
    backend(kind).check_invariants(space)
}

/// What a command is about.
pub fn about_of(kind: BackendKind, command: &Bytes) -> About {
    backend(kind).about_of(command)
}

/// Whether a query asks the cluster for its memory of requests.
pub fn memory_asked(kind: BackendKind, query: &Bytes) -> Option<MemoryAsked> {
    backend(kind).memory_asked(query)
}

/// The reply to such a query.
pub fn tell_memory(kind: BackendKind, page: MemoryPage) -> Bytes {
    backend(kind).tell_memory(page)
}

/// What a command that was carried out brings for the cluster's memory; of requests of its own, for `keep_ms`.
pub fn memory_brought(kind: BackendKind, command: &Bytes, reply: &Bytes, keep_ms: u64) -> Vec<Carried> {
    backend(kind).memory_brought(command, reply, keep_ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::MapSpace;
    use base_types::LogIndex;

    #[test]
    fn bytes_that_do_not_decode_are_refusals_everywhere() {
        let at = ApplyContext { life: base_types::Generation(1), index: LogIndex(1), position: 0, cluster_time_ms: 0 };
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
                let valid = parse(backend, &bytes).is_ok();
                let reply = apply(backend, at, &mut space, &bytes).unwrap();
                assert!(valid || reply[0] == 1, "{backend}: {bytes:?} is refused by validate, but applied");
                let _ = query(backend, 0, &space, &bytes).unwrap();
            }
        }
    }
}
