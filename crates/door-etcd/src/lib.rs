//! The etcd v3 API: gRPC services and their JSON gateway, translated to commands and queries of the `versioned` backend.
//!
//! ```text
//!   etcdctl, any etcd client ─▶ hyper, tonic (edge-node) ─▶ this crate ─▶ Store ─▶ the node's cores (edge-node)
//! ```
//! By design: nothing is decided here: a transaction is one command, and what it means is the backend's to say.
//! Not here: sockets, TLS, who may come in (edge-node); what a commit does (core-backends, versioned/).

pub mod auth;
pub mod cluster;
pub mod connection;
pub mod door;
pub mod elections;
mod gateway;
mod hash;
pub mod health;
pub mod kv;
pub mod lease;
pub mod limits;
pub mod maintenance;
pub mod methods;
pub mod metrics;
pub mod proto;
pub mod revision;
pub mod service;
mod snapshot;
pub mod status;
pub mod store;
#[cfg(feature = "testing")]
pub mod testing;
pub mod watch;

pub use connection::{refuse, Connection};
pub use door::CertificateUser;
pub use limits::Limits;
pub use metrics::Metrics;
pub use service::{counted_service, service, EtcdService};
pub use tonic::body::Body;
pub use tonic::Status;
