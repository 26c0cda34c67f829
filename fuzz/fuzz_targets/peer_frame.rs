//! See fuzz/entries/node.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hive_fuzz::node::peer_frame(data));
