//! See fuzz/entries/log.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hive_fuzz::log::log_record(data));
