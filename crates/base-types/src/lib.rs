//! The words every layer shares: identities, names, consistency levels, time, refusals,
//! the actions a door may ask for with their answers, and the byte codec.
//!
//! By design: plain data and pure functions; the same input gives the same output.
//! Not here: anything that decides (core-*), stores (engine-*) or speaks a protocol (door-*).
#![no_std]
#![deny(missing_docs)]

extern crate alloc;
// The macros of `wire` name this crate, here and in others.
extern crate self as base_types;

pub mod access;
pub mod action;
pub mod codec;
pub mod consistency;
pub mod error;
pub mod format_level;
pub mod ids;
pub mod invariant;
pub mod lookup;
pub mod mutant;
pub mod names;
pub mod operation;
pub mod redis;
pub mod request_id;
pub mod s3;
pub mod sizes;
pub mod survivor;
pub mod time;
pub mod versioned;
pub mod wire;

pub use consistency::{ReadConsistency, WriteConsistency};
pub use error::{ErrorCode, ErrorKind, Outcome, Refusal, Routing};
pub use format_level::{Feature, FormatLevel};
pub use ids::*;
pub use names::{BackendKind, ClusterName, NameError};
pub use operation::*;
pub use request_id::{RequestIdKind, REQUEST_ID_WINDOW};
pub use survivor::{best_survivor, FormerMember, Survivor, SurvivorState};
pub use time::Tick;
