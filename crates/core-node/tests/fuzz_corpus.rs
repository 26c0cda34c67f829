//! Every kept fuzz seed of this crate, and mutations of it, through the entries of fuzz/entries.
//!
//! Always: no panic, memory within bounds. Not here: coverage-guided runs (`make fuzz`).

#[path = "../../../fuzz/entries/codec.rs"]
mod codec;
#[path = "../../../fuzz/common/corpus.rs"]
mod corpus;
#[allow(dead_code)] // The seeds program uses the rest.
#[path = "../../../fuzz/entries/node.rs"]
mod node;

#[test]
fn peer_frame() {
    corpus::run("peer_frame", corpus::DECODER, node::peer_frame);
}

#[test]
fn keyspace_document() {
    corpus::run("keyspace_document", corpus::DECODER, node::keyspace_document);
}
