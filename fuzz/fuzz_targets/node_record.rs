//! See fuzz/entries/placement.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hive_fuzz::placement::node_record(data));
