//! The embedded store: the node's log and engines in a process of one's own, without Raft.
//!
//! ```text
//!  any thread ──put──▶ core's memory + mailbox (bounded) ──▶ owner thread ──▶ core-log, synced (edge-disk)
//!             ──get──▶ memory, frozen memory, engine            └─ frozen memory ─▶ engine ─▶ log cut
//!             ──scan─▶ one instant of all cores, merged
//! ```
//!
//! A process's cores each own a part of the keys, by hash: a log, an engine, a pinned thread. Writes are
//! weak (in memory, flushed every second) or strong (synced before they return); reads take no locks of ours.
//! Crate `hive-client` offers this as `hive_client::embedded` (feature `embedded`).
//!
//! Always: one order for the whole store; a batch is there whole or not at all, over any cores; the log is
//! cut only behind what the engines hold; every queue has a bound.
//! Held by: `a_snapshot_is_one_instant_of_all_cores`, `files_do_not_balloon`.
//! Not here: replication (that is Hive), the C interface (edge-embedded-c). Bytes: docs/formats/embedded.md;
//! why it is as it is: docs/decisions/0020.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // The edge is where clocks, files and threads are.
#![deny(missing_docs)]

mod bell;
mod core;
mod directory;
mod engines;
mod error;
mod flusher;
mod journal;
mod mailbox;
mod memory;
mod open;
mod options;
mod order;
mod owner;
mod record;
mod recovery;
mod snapshot;
mod store;
#[cfg(test)]
mod tests;

pub use engines::NAMES as ENGINES;
pub use error::{OpenError, StoreError};
pub use options::{Durability, Options, BATCH_BYTES_MAX, CORES_MAX, KEY_BYTES_MAX, VALUE_BYTES_MAX};
#[doc(hidden)]
pub use record::fuzz_entry;
pub use snapshot::{Range, Scan, Snapshot};
pub use store::{Batch, Statistics, Store};
