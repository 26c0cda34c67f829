//! See fuzz/entries/redis.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hive_fuzz::redis::redis_request(data));
