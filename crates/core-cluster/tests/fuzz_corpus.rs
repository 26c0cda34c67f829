//! Every kept fuzz seed of this crate, and mutations of it, through the entries of fuzz/entries.
//!
//! Always: no panic, memory within bounds. Held by: `cluster_payload`, `lane_peer`. Not here: coverage-guided runs (`make fuzz`).

#[allow(dead_code)] // The seeds program uses the rest.
#[path = "../../../fuzz/entries/cluster.rs"]
mod cluster;
#[path = "../../../fuzz/common/corpus.rs"]
mod corpus;

#[test]
fn cluster_payload() {
    corpus::run("cluster_payload", corpus::DECODER, cluster::cluster_payload);
}

#[test]
fn lane_peer() {
    corpus::run("lane_peer", corpus::Bounds { base: 16 << 20, per_byte: 4096 }, cluster::lane_peer);
}
