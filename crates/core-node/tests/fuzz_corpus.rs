//! Every kept fuzz seed of this crate, and mutations of it, through the entries of fuzz/entries.
//!
//! Always: no panic, memory within bounds. Held by: `peer_frame`, `keyspace_document`. Not here: coverage-guided runs (`make fuzz`).

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

/// Seeds of another version are refused at the head, and nothing after it is tried.
#[test]
fn seeds_of_frames_are_of_this_version() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/peer_frame");
    let seeds = std::fs::read_dir(folder).unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap());
    let (mut here, mut all) = (0, 0);
    for seed in seeds {
        all += 1;
        here += usize::from(seed.get(4) == Some(&core_node::frame::FRAME_VERSION));
    }
    assert!(here * 2 > all, "{here} of {all}; make them anew: cd fuzz && cargo run --example seeds");
}
