//! Moving partitions of a keyspace between clusters while they serve.
//!
//! ```text
//!   start.rs   StartReshard: writes the plan of moves into the document
//!   run.rs     ReshardRun: carries it out, a partition after the other; may be taken up anywhere
//! ```
//!
//! Not here: the document (`document.rs`), bytes of pairs (core-backends, metadata).

mod run;
mod start;

#[cfg(test)]
pub(crate) use start::plan_moves;

pub use run::ReshardRun;
pub use start::StartReshard;
