//! Threads, sockets, disks, TLS: the host of the core.
//!
//!   node.toml ─▶ config ─▶ node (start) ─▶ one thread a core: runtime, lanes, http, peers
//!                                        └▶ one thread a lane and disk: log writer, segments, engine
//!
//! Always: the core is only ever called as "some events, then finish_turn, then the effects in order";
//! nothing is acknowledged that the log writer has not reported; a failed disk, a panic or a core that
//! asks for it ends the process (the world is built to lose one node).
//! Not here: what a request means (core-node), how it is written in JSON (door-http).

pub mod chance;
pub mod clock;
pub mod config;
pub mod data;
pub mod disk;
pub mod ca;
pub mod tls;
