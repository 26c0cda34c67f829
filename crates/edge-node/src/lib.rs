//! Threads, sockets, disks, TLS: the host of the core.
//!
//! ```text
//!   node.toml ─▶ config ─▶ node (start) ─▶ one thread a core: runtime, lanes, http, peers
//!                                        ├▶ S3 gateway, if configured: threads of its own
//!                                        └▶ threads beside each lane: log writer, segments, engine
//! ```
//!
//! Always: the core is only ever called as "some events, then finish_turn, then the effects in order";
//! nothing is acknowledged that the log writer has not reported; a failed disk, a panic or a core that
//! asks for it ends the process (the world is built to lose one node).
//! Held by: `a_panic_and_a_halt_end_the_node`.
//! Not here: what a request means (core-node), how it is written in JSON (door-http) or S3's XML (door-s3).
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // The edge is where clocks, files and sockets are.

pub mod access;
mod alarms;
#[cfg(feature = "engine-object")]
pub mod attach;
pub mod ca;
mod chance;
mod clients;
mod clock;
pub mod config;
mod core_machine;
pub mod cores;
mod counters;
pub mod data;
pub mod disk;
mod drain;
pub mod engines;
mod establish;
pub mod etcd;
mod history;
mod http;
mod lane;
pub mod logging;
pub mod machine;
mod mailbox;
pub mod memory;
mod metrics;
mod monitor;
mod node;
mod peers;
pub mod private;
mod quiet;
pub mod redis;
mod remembered;
#[cfg(feature = "engine-object")]
pub mod restore;
mod s3;
mod sync;
#[cfg(test)]
mod testing;
mod tls;

pub use config::{Config, ConfigError, NodeFile};
pub use core_machine::CoreFactory;
pub use node::run::{run, run_with, signals};
pub use node::{check, NodeHandle, StartError, DRAIN_MAX};
