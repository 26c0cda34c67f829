//! Every kept fuzz seed of this crate, and mutations of it, through the entries of fuzz/entries.
//!
//! Always: no panic, memory within bounds. Held by: `cluster_name`, `base_codec`. Not here: coverage-guided runs (`make fuzz`).

#[path = "../../../fuzz/entries/codec.rs"]
mod codec;
#[path = "../../../fuzz/common/corpus.rs"]
mod corpus;
#[allow(dead_code)] // The seeds program uses the rest.
#[path = "../../../fuzz/entries/types.rs"]
mod types;

#[test]
fn cluster_name() {
    corpus::run("cluster_name", corpus::DECODER, types::cluster_name);
}

#[test]
fn base_codec() {
    corpus::run("base_codec", corpus::DECODER, types::base_codec);
}
