//! See fuzz/entries/raft.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hive_fuzz::raft::raft_message(data));
