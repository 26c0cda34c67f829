//! The entries of every fuzz target, one module a crate; shared with the `fuzz_corpus` tests of the crates.
//!
//! Not here: the targets (fuzz_targets), the harness of the plain tests (common/corpus.rs).

#[path = "../entries/backends.rs"]
pub mod backends;
#[path = "../entries/cluster.rs"]
pub mod cluster;
#[path = "../entries/codec.rs"]
pub mod codec;
#[path = "../entries/door.rs"]
pub mod door;
#[path = "../entries/edge.rs"]
pub mod edge;
#[path = "../entries/embedded.rs"]
pub mod embedded;
#[path = "../entries/engine.rs"]
pub mod engine;
#[path = "../entries/log.rs"]
pub mod log;
#[path = "../entries/node.rs"]
pub mod node;
#[path = "../entries/peer_wire.rs"]
pub mod peer_wire;
#[path = "../entries/placement.rs"]
pub mod placement;
#[path = "../entries/raft.rs"]
pub mod raft;
#[path = "../entries/redis.rs"]
pub mod redis;
#[path = "../entries/s3.rs"]
pub mod s3;
#[path = "../entries/types.rs"]
pub mod types;
