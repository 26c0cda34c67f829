//! See fuzz/entries/backends.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hive_fuzz::backends::backend_versioned(data));
