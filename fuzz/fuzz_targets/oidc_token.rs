//! See fuzz/entries/edge.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hive_fuzz::edge::oidc_token(data));
