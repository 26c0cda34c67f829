//! See fuzz/entries/types.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hive_fuzz::types::base_codec(data));
