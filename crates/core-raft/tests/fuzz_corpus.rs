//! Every kept fuzz seed of this crate, and mutations of it, through the entries of fuzz/entries.
//!
//! Always: no panic, memory within bounds. Held by: `raft_message`. Not here: coverage-guided runs (`make fuzz`).

#[path = "../../../fuzz/entries/codec.rs"]
mod codec;
#[path = "../../../fuzz/common/corpus.rs"]
mod corpus;
#[allow(dead_code)] // The seeds program uses the rest.
#[path = "../../../fuzz/entries/raft.rs"]
mod raft;

#[test]
fn raft_message() {
    corpus::run("raft_message", corpus::DECODER, raft::raft_message);
}
