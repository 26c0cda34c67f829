//! See fuzz/entries/peer_wire.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hive_fuzz::peer_wire::peer_message(data));
