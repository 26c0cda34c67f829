//! What every operation of several steps stands on.
//!
//! ```text
//!   planner.rs    a planner as a pure machine, what it may know, the calls it may make
//!   rounds.rs     planners that work in rounds: all calls of a round are answered before the next begins
//!   replies.rs    what a call's reply says; calls to the world's `reference` backend
//!   failures.rs   the failures that a core itself gives
//!   random.rs     a core's only source of chance
//! ```
//!
//! A family of planners (of clusters, of keyspaces, of buckets) has a state of its own in each core, its type the
//! parameter of [`Planner`] and [`PlanContext`]; a planner of one family cannot touch another's.
//!
//! By design: nothing here knows a family; planners see no time and no chance but what the context holds.
//! Not here: who carries out calls (core-node), what families do (core-keyspace, core-s3, core-node's flows).
//! Why: docs/decisions/0055-families-of-planners.md.

pub mod failures;
mod planner;
mod random;
mod replies;
pub mod rounds;

pub use planner::{Call, CallReply, CallResult, PlanContext, Planner, ReplicaOrder, Step, CALLS_OUT_MAX};
pub use random::Random;
pub use replies::{decode_call, members_of, reference_query, reference_write};
