//! The thin module around the Raft library (tikv/raft-rs 0.7): nothing else in Hive names it.
//!
//!   submit ─▶ Group::propose ─▶ Group::make_ready ─▶ log (staged) ─▶ synced ─▶ Group::on_persisted
//!   peers  ─▶ Group::step    ─▘         └─▶ messages, committed entries, read states
//!
//! Always: campaign timeouts come from ranks and a seed, never from the library's thread generator
//! (`election_timeout.rs`). A peer's message is checked before the library sees it, so no peer reaches its `fatal!`s
//! (`hostile_numbers_never_reach_the_library`). Bytes from peers and disk meet our codec, never the library's
//! protobuf parser (fuzz target `cluster_payload`).
//! Not here: sending, storing, applying, leases (core-cluster).
//! Why this library, and its traps: docs/decisions/0002-raft-by-library.md.
#![deny(missing_docs)]

mod describe;
mod election_timeout;
mod group;
mod hibernate;
mod invariants;
mod library;
mod membership;
mod message;
mod storage;

pub use group::{ChangeError, Follower, Group, GroupConfig, GroupReady, ProposeError, Role};
pub use membership::{ChangeKind, Membership, MembershipChange};
pub use message::{Message, MessageKind};
pub use storage::{HardState, SnapshotPoint, STATE_HARD};

/// Entry kinds as the log keeps them.
pub mod entry_kind {
    /// A batch of commands, or empty (a new leader's first entry).
    pub const NORMAL: u8 = 0;
    /// A membership change (the library's ConfChangeV2).
    pub const MEMBERSHIP: u8 = 2;
}

#[cfg(test)]
mod tests;
