//! The etcd door's host: threads of its own beside the cores.
//!
//! ```text
//!  socket ─▶ hive-etcd-i: hyper (HTTP/2 and HTTP/1.1) ─▶ door-etcd ─▶ NodeStore ─letter─▶ a core's thread
//! ```
//! Always: connections are bounded apart from the other doors', and what they have under way; requests before authentication cost a
//! bounded number of bytes and one hash.
//! Not here: etcd itself (door-etcd), what a call does (core-node).

pub mod compaction;
mod store;
pub mod thread;
mod tokens;

pub use store::NodeStore;
pub use tokens::Tokens;

/// What the node map calls the door whose clients are in a namespace: this, and the namespace.
pub const DOOR_PREFIX: &str = "etcd/";

/// For who speaks HTTP to a port with TLS.
fn no_tls() -> String {
    let body = "this port speaks TLS: write https:// instead of http://\n";
    format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}
