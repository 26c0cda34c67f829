//! Watches: one follower for each namespace that is watched, and its changes fanned out to any number of watchers.
//!
//! ```text
//!   Store ─ Changes, all keys, in order ─▶ follower ─▶ board: ring of recent changes ─ by key or range ─▶ queues ─▶ streams ─▶ clients
//!   Store ◀── a watcher's own span, from its own position; pages of all keys where many are late ── watchers that are behind
//! ```
//! Always: a watcher gets each change that it wants once, in order, and all of one revision in one message (or in its fragments).
//! One that does not take is taken off the fan-out and costs its position until it takes again; it holds up nobody.
//! Everything is bounded: see the constants here and in the files. Why one follower: decision 0083.
//! Not here: what a change is (core-backends, `versioned/feed.rs`).

pub(crate) mod admission;
mod board;
mod catch_up;
mod follower;
mod hub;
mod mailbox;
mod pages;
mod revision;
mod service;
mod shared;
mod single;
mod spans;
mod stream;
#[cfg(test)]
mod tests;
mod wire;

pub use hub::{Figures, Hubs};
pub use service::{WatchService, Watching};
pub(crate) use single::Single;

use std::time::Duration;

/// The most watches of one stream. The next one is refused with etcd's "too many requests".
pub const WATCHES_A_STREAM_MAX: usize = 10_000;
/// The most watch streams, of all namespaces of the node.
pub const STREAMS_MAX: usize = 20_000;
/// About as many bytes of events go into one message; a revision that has more goes into one all the same.
const BATCH_BYTES: usize = 256 << 10;
/// Where a client takes fragments, a message with more bytes is split: as etcd with its default limits.
const FRAGMENT_BYTES: usize = 2 << 20;
/// Reads of watchers that catch up, at a time.
const CATCH_UPS_MAX: usize = 16;
/// Looks whether a session may watch, at a time.
const CHECKS_MAX: usize = 16;

/// Times of watches, and what a hub keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// How often a watch that wants it and had no events learns how far it is. Up to a tenth is added, drawn for each stream.
    pub progress_every: Duration,
    /// How often it is looked whether sessions may still watch what they watch. A revocation takes 2 s in all; a node hears of it in one.
    pub recheck_every: Duration,
    /// How often it is looked up whether there is a leader, for streams that end where there is none.
    pub leader_every: Duration,
    /// The most bytes of recent changes that a hub keeps, references to them from queues included. The last revision is kept
    /// whatever its size.
    pub recent_bytes_max: usize,
    /// The most revisions that wait for one watcher. Then it is taken off the fan-out.
    pub queue_revisions_max: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            progress_every: Duration::from_secs(600), // As etcd.
            recheck_every: Duration::from_millis(750),
            leader_every: Duration::from_secs(3),
            recent_bytes_max: 32 << 20,
            queue_revisions_max: 256,
        }
    }
}
