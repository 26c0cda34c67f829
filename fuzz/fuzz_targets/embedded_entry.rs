//! See fuzz/entries/embedded.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hive_fuzz::embedded::embedded_entry(data));
