//! Splits and merges of shards: when, how, and what is cleared away after.
//!
//! ```text
//!   maintenance.rs      looks at a shard or a bucket: what is to be split or merged, what is to be cleared away
//!   runner.rs           carries a flow out: copies, freezes, cuts over
//!   pacing.rs           when to copy and when to freeze, so that clients feel little of it
//!   dedup_transfer.rs   what the sources remember of requests goes along
//!   retired_shards.rs   shards that a flow has emptied are removed
//!   describe_shards.rs  what an operator is shown
//! ```
//!
//! Not here: calls that wait for a cut-over (state/cutover_gate.rs), the decision of each step (core-backends,
//! shard_reference/flow.rs), who starts looks and flows (core-node, s3_scheduler.rs).

pub(crate) mod dedup_transfer;
pub(crate) mod describe_shards;
pub(crate) mod maintenance;
pub(crate) mod pacing;
pub(crate) mod retired_shards;
pub(crate) mod runner;
