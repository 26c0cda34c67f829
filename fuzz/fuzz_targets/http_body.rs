//! See fuzz/entries/door.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hive_fuzz::door::http_body(data));
