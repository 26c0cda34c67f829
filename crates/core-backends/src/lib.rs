//! The replicated state machines. A backend is three pure functions over the space it is handed:
//! `parse` (before the log), `apply` (after commit, on every member alike), `query` (reads).
//!
//! Always: all state is in the space; the same commands give the same bytes on every member (checker `states`); `apply`
//! cannot fail but for the engine's own damage: a refusal (a condition that does not hold) is a reply.
//! A read within `apply` sees what the same command has written. No room uses one above it in this list: `table`,
//! backends, `rows` `freed` `wire` `s3_key` `invariants`, `contract` `reply`, `memory`.
//! Not here: Raft, overlays and engines (core-cluster), which cluster to ask (core-node).

pub mod allocator;
pub mod bucket_names;
mod contract;
#[cfg(test)]
mod example;
pub mod freed;
mod invariants;
pub mod memory;
pub mod metadata;
pub mod multipart;
pub mod redis;
pub mod reference;
mod reply;
mod rows;
mod s3_key;
pub mod shard;
pub mod shard_reference;
mod table;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod versioned;
mod wire;

pub use contract::{ApplyContext, Keep, SpaceRead, SpaceWrite, Takeover, Upkeep};
pub use reply::{decode_reply, encode_reply, is_redirect, is_refusal};
pub use shard::fuzz_keys as fuzz_key_codec;
pub use table::{
    about_of, apply, apply_once, check_invariants, ends_between, has_waiting_queries, memory_asked, memory_brought,
    next_query, parse, query, takeover, tell_memory, upkeep, validate, waits, Parsed,
};
