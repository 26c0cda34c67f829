//! Every kept fuzz seed of this crate, and mutations of it, through the entries of fuzz/entries.
//!
//! Always: no panic, memory within bounds. Held by: `node_config`, `topology_text`, `peer_message`, `oidc_token`. Not here: coverage-guided runs (`make fuzz`).

#[path = "../../../fuzz/common/corpus.rs"]
mod corpus;
#[allow(dead_code)] // The seeds program uses the rest.
#[path = "../../../fuzz/entries/edge.rs"]
mod edge;
#[allow(dead_code)] // The seeds program uses the rest.
#[path = "../../../fuzz/entries/peer_wire.rs"]
mod peer_wire;

#[test]
fn node_config() {
    corpus::run("node_config", corpus::Bounds { base: 1 << 20, per_byte: 2048 }, edge::node_config);
}

#[test]
fn topology_text() {
    corpus::run("topology_text", corpus::Bounds { base: 4 << 20, per_byte: 4096 }, edge::topology_text);
}

#[test]
fn peer_message() {
    corpus::run("peer_message", corpus::DECODER, peer_wire::peer_message);
}

#[test]
fn oidc_token() {
    corpus::run("oidc_token", corpus::DECODER, edge::oidc_token);
}
