//! The S3 gateway: S3's REST API over a metadata service and a data store.
//!
//!   HTTP ──s3s (XML, signatures)──▶ gateway ──access──▶ MetadataService   (typed actions, base_types::s3)
//!                                      └────────────▶ DataStore          (bytes over 64 KiB)
//!
//! Always: a request is authorised before anything of it is done; bytes are durable before a version can
//! name them, and removed only when none does (`sweep`). Errors carry S3's own codes.
//! Not here: sockets and TLS (edge), what a call does (core; `testing` holds a model of it).
#![deny(missing_docs)]

pub mod access;
mod access_log;
pub mod auth;
pub mod checksum;
mod convert;
mod cors;
mod document;
mod error;
pub mod form;
#[doc(hidden)]
pub mod fuzz;
mod gateway;
pub mod lifecycle;
pub mod metadata;
pub mod metrics;
mod noted;
mod service;
pub mod signed;
mod stamp;
pub mod store;
pub mod sts;
pub mod sweep;
#[cfg(feature = "testing")]
pub mod testing;
mod times;
mod upload;
pub mod validate;
mod website;

pub use access_log::{Flushed, PENDING_BYTES_MAX};
pub use auth::{DirectoryUser, KnownKeys, Signer};
pub use gateway::{Gateway, Peer, CALLS, INTENT_MS};
pub use metrics::Metrics;
pub use s3s::Body;
pub use service::{Service, ServiceConfig};
