//! The thin module around the Raft library (tikv/raft-rs 0.7): nothing else in Hive names it.
//!
//!   submit ─▶ Group::propose ─▶ Group::make_ready ─▶ log (staged) ─▶ synced ─▶ Group::on_persisted
//!   peers  ─▶ Group::step    ─▘         └─▶ messages, committed entries, read states
//!
//! Always: when to campaign comes from ranks and a seed, never from the library's thread generator; what a peer
//! sends is checked before the library sees it (its `fatal!`s are out of a peer's reach); bytes from
//! peers and disk meet our codec, never the library's protobuf parser.
//! Not here: sending, storing, applying, leases (core-cluster).
//! Why this library, and its traps: docs/decisions/0002-raft-by-library.md.
#![deny(missing_docs)]

mod group;
mod invariants;
mod membership;
mod message;
mod patience;
mod sleep;
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
