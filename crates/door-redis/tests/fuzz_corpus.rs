//! Every kept fuzz seed of this crate, and mutations of it, through the entries of fuzz/entries.
//!
//! Always: no panic, memory within bounds. Held by: `redis_request`. Not here: coverage-guided runs (`make fuzz`).

#[path = "../../../fuzz/common/corpus.rs"]
mod corpus;
#[path = "../../../fuzz/entries/redis.rs"]
mod redis;

#[test]
fn redis_request() {
    corpus::run("redis_request", corpus::DECODER, redis::redis_request);
}
