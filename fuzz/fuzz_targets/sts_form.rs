//! See fuzz/entries/s3.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hive_fuzz::s3::sts_form(data));
