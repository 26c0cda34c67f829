//! From a client's request to the member that answers it, and back.
//!
//! ```text
//!   clients.rs ─▶ keyspaces.rs (keys of a keyspace) ─▶ router.rs ─▶ lane here | frame to another node
//!       │                                                 │ no route: resolve.rs ─▶ the world's `reference`
//!       └─▶ a plan (plan_runner.rs)                       └────────── location.rs ─▶ other nodes, where that is silent
//!   operation.rs   one request on its way        cache.rs   routes        verification.rs   answers of VerifyCluster
//! ```
//!
//! Not here: what an operation does (core-cluster, core-backends), who is a member (membership/).

pub(crate) mod cache;
pub(crate) mod clients;
pub(crate) mod keyspaces;
pub(crate) mod location;
pub(crate) mod operation;
pub(crate) mod resolve;
pub(crate) mod router;
pub(crate) mod verification;
