//! Every kept fuzz seed of this crate, and mutations of it, through the entries of fuzz/entries.
//!
//! Always: no panic, memory within bounds. Held by: `log_record`, `log_segment`. Not here: coverage-guided runs (`make fuzz`).

#[path = "../../../fuzz/common/corpus.rs"]
mod corpus;
#[allow(dead_code)] // The seeds program uses the rest.
#[path = "../../../fuzz/entries/log.rs"]
mod log;

#[test]
fn log_record() {
    corpus::run("log_record", corpus::DECODER, log::log_record);
}

#[test]
fn log_segment() {
    corpus::run("log_segment", corpus::Bounds { base: 8 << 20, per_byte: 512 }, log::log_segment);
}
