//! Lanes of several nodes in one process.
//!
//! Not here: real disks and sockets (edge-node), whole nodes under faults (proof-sim).

mod archive_ack;
mod basics;
mod clocks;
mod commit_time;
mod contradiction;
mod crashes;
mod ends;
mod engines;
mod formats;
mod golden;
mod harness;
mod leader_handoff;
mod members;
#[cfg(feature = "mutants")]
mod mutants;
mod quarantine;
mod recovery;
mod request_ids;
mod restore;
mod value_repair;
mod verifying;
mod versioned;
mod walk;
