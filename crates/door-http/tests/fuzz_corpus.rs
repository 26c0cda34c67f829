//! Every kept fuzz seed of this crate, and mutations of it, through the entries of fuzz/entries.
//!
//! Always: no panic, memory within bounds. Held by: `http_body`. Not here: coverage-guided runs (`make fuzz`).

#[path = "../../../fuzz/common/corpus.rs"]
mod corpus;
#[allow(dead_code)] // The seeds program uses the rest.
#[path = "../../../fuzz/entries/door.rs"]
mod door;

#[test]
fn http_body() {
    corpus::run("http_body", corpus::Bounds { base: 1 << 20, per_byte: 1024 }, door::http_body);
}
