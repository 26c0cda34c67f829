//! The clusters of one lane: their replicas (one Raft group each), the shared log, the overlay in
//! front of the engine, applying, reads, request ids, snapshots, membership, quiescence.
//!
//!   submit ─▶ staged ─▶ one entry a cluster a turn ─▶ log batch ─▶ synced ─▶ committed
//!                                                                              │ apply
//!   completions ◀──────────────── replies of one turn leave together ◀── overlay ─▶ engine (flush)
//!
//! Always: deterministic, no input or output; the only ways in are the methods of [`Lane`]; a
//! ticket gets exactly one completion; nothing is acknowledged above what the log has synced.
//! Not here: finding a cluster on other nodes, flows, the node map (core-node); the log's bytes (core-log).
//! Reading order: api, lane, replica, writes, apply, reads, admin, snapshot, repair, mend, quarantine, contradiction, chain, scrub, verify, flush, tail.

mod admin;
pub mod api;
mod apply;
mod buggify;
mod chain;
mod common;
mod contradiction;
mod entry;
mod flush;
mod forgetting;
mod invariants;
mod lane;
mod lost;
mod mend;
mod meta;
mod overlay;
mod quarantine;
mod reads;
pub mod reborn;
mod recover;
mod repair;
mod replica;
mod request_ids;
mod room;
mod scrub;
mod shared;
mod sizes;
mod snapshot;
mod stall;
mod tail;
mod tombstones;
mod touched;
mod verify;
mod wire;
mod writes;

pub use entry::COMMANDS_PER_ENTRY_MAX;
pub use lane::{Lane, LaneError};
pub use meta::FIRST_INDEX;
pub use tombstones::begin_log;
pub use wire::fuzz_decode;

#[cfg(test)]
mod tests;
