//! Lanes of several nodes in one process.
//!
//! Not here: real disks and sockets (edge-node), whole nodes under faults (proof-sim).

mod basics;
mod clocks;
mod contradiction;
mod crashes;
mod engines;
mod golden;
mod harness;
mod members;
mod mending;
#[cfg(feature = "mutants")]
mod mutants;
mod quarantine;
mod reborn;
mod recovering;
mod request_ids;
mod room;
mod tail;
mod verifying;
mod walk;
