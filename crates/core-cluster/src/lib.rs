//! The clusters of one lane: their replicas (one Raft group each) and all that the replicas of a lane share.
//!
//! ```text
//!   submit ─▶ staged ─▶ one entry a cluster a turn ─▶ log batch ─▶ synced ─▶ committed
//!                                                                              │ apply
//!   completions ◀──────────────── replies of one turn leave together ◀── overlay ─▶ engine (flush)
//!
//!   lane/      the way in: operations, messages, ticks; the end of a turn
//!   replica/   one member of a cluster: writes, applying, reads, members, snapshots, repair
//!   storage/   overlays, the engines' jobs, the log's stalls, restored replicas
//! ```
//!
//! A room uses only rooms below it: `lane`, `replica`, `context`, `storage`, then `api` and what is on the wire and on disk
//! (`wire`, `entry`, `meta`).
//!
//! Always: deterministic, without input or output; the only ways in are the methods of [`Lane`]. A ticket gets exactly one
//! completion (proof-check, `unanswered`). Nothing is acknowledged above what the log has synced (mutants `AckBeforeSync`,
//! `LeaderAckBeforeSync`).
//! Not here: finding a cluster on other nodes, flows, the node map (core-node); the log's bytes (core-log).
//! Reading order: api, lane, replica, replica/writes, replica/apply, replica/reads; then the rest of replica/.

pub mod api;
mod buggify;
mod context;
mod describe;
mod entry;
mod lane;
mod meta;
mod replica;
mod request_id_terms;
mod storage;
mod wire;

pub use describe::{describe_payload, level_of_payload, Described};
pub use entry::COMMANDS_PER_ENTRY_MAX;
pub use lane::{Lane, LaneError};
pub use meta::FIRST_INDEX;
pub use storage::restore;
pub use storage::tombstones::begin_log;
pub use wire::fuzz_decode;

#[cfg(test)]
mod tests;
