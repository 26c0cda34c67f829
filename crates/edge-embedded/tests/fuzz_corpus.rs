//! Every kept fuzz seed of this crate, and mutations of it, through the entries of fuzz/entries.
//!
//! Always: no panic, memory within bounds. Held by: `embedded_entry`. Not here: coverage-guided runs (`make fuzz`).

#[path = "../../../fuzz/common/corpus.rs"]
mod corpus;
#[path = "../../../fuzz/entries/embedded.rs"]
mod embedded;

#[test]
fn embedded_entry() {
    corpus::run("embedded_entry", corpus::DECODER, embedded::embedded_entry);
}
