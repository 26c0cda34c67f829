//! Every kept fuzz seed of this crate, and mutations of it, through the entries of fuzz/entries.
//!
//! Always: no panic, memory within bounds. Held by: `rule_text`, `node_record`, `map_delta`. Not here: coverage-guided runs (`make fuzz`).

#[path = "../../../fuzz/entries/codec.rs"]
mod codec;
#[path = "../../../fuzz/common/corpus.rs"]
mod corpus;
#[allow(dead_code)] // The seeds program uses the rest.
#[path = "../../../fuzz/entries/placement.rs"]
mod placement;

#[test]
fn rule_text() {
    corpus::run("rule_text", corpus::DECODER, placement::rule_text);
}

#[test]
fn node_record() {
    corpus::run("node_record", corpus::DECODER, placement::node_record);
}

#[test]
fn map_delta() {
    corpus::run("map_delta", corpus::DECODER, placement::map_delta);
}
