//! See fuzz/entries/cluster.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hive_fuzz::cluster::lane_peer(data));
