//! See fuzz/entries/engine.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hive_fuzz::engine::engine_chunk(data));
