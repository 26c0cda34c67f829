//! The Redis protocol (RESP2, RESP3), translated to calls of the `redis` backend.
//!
//! ```text
//!   redis-cli, any Redis client ─▶ a stream (edge-node) ─▶ Parser ─▶ Conversation ─▶ Gatherer ─▶ Database ─▶ the node's cores (edge-node)
//! ```
//! By design: commands of the database are passed on as they came; what they do is the backend's to say. The door has what belongs to a
//! connection: who it is, its database, MULTI, waiting, subscriptions.
//! Not here: sockets, TLS (edge-node); what a command does (core-backends, redis/).

pub mod blocked;
pub mod clients;
mod commands;
mod connection;
mod conversation;
pub mod database;
mod door;
mod error;
pub mod gather;
pub mod limits;
#[cfg(feature = "scripts")]
mod lua;
pub mod metrics;
mod pubsub;
mod reply;
mod request;
#[cfg(feature = "scripts")]
mod script;
#[cfg(feature = "testing")]
pub mod testing;

/// The version of Redis whose commands these are.
const REDIS_VERSION: &str = "7.0.15";

pub use conversation::{serve, Settles};
pub use database::{About, Database, Levels, Server, Session};
pub use door::Door;
pub use error::of_refusal;
pub use metrics::Metrics;
