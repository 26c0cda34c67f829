//! The Redis door's host: threads of its own beside the cores.
//!
//! ```text
//!  socket ─▶ hive-redis-i: door-redis (RESP, MULTI, waiting, scripts) ─▶ NodeDatabase ─letter─▶ a core's thread
//! ```
//! By design: as the etcd door's (`etcd.rs`): connections are bounded apart from the other doors'. A thread gathers the commands of all
//! its connections into few calls, so one thread is the default.
//! Not here: the protocol (door-redis), what a command does (core-backends), what a call does on its way (core-node).

mod database;
mod kinds;
mod plain;
pub mod thread;

pub use database::NodeDatabase;
pub use kinds::Kinds;

/// What the node map calls the door whose clients are in a database: this, and the database's keyspace.
pub const DOOR_PREFIX: &str = "redis/";

/// For who speaks plain text to a port with TLS: an error as Redis' clients read it.
fn no_tls() -> String {
    "-ERR this port speaks TLS: connect with it (redis-cli --tls --cacert FILE)\r\n".into()
}
