use super::*;
use alloc::vec;

fn words(text: &str) -> Vec<Bytes> {
    text.split(' ').map(|word| Bytes::copy_from_slice(word.as_bytes())).collect()
}

fn keys(text: &str) -> Vec<Bytes> {
    RedisCommand { database: 0, words: words(text) }.keys().into_iter().cloned().collect()
}

#[test]
fn the_table_is_sorted() {
    assert!(COMMANDS.windows(2).all(|pair| pair[0].name < pair[1].name));
    assert_eq!(find(b"ZRANGEBYSCORE").map(|spec| spec.arity), Some(-4));
    assert!(find(b"nosuch").is_none() && find(b"").is_none());
}

#[test]
fn keys_are_found_among_words() {
    assert_eq!(keys("GET a"), words("a"));
    assert_eq!(keys("MSET a 1 b 2"), words("a b"));
    assert_eq!(keys("BLPOP a b 0"), words("a b"));
    assert_eq!(keys("ZUNIONSTORE d 2 a b WEIGHTS 1 2"), words("d a b"));
    assert_eq!(keys("SINTERCARD 2 a b LIMIT 3"), words("a b"));
    assert_eq!(keys("SORT a BY w_* STORE d"), words("a d"));
    assert_eq!(keys("XREAD COUNT 2 STREAMS a b 0 0"), words("a b"));
    assert_eq!(keys("BITOP AND d a b"), words("d a b"));
    assert_eq!(keys("BLMPOP 0 2 a b LEFT"), words("a b"));
    assert_eq!(keys("DBSIZE"), Vec::<Bytes>::new());
    // What does not fit names no keys.
    for wrong in ["GET", "SINTERCARD 9 a", "SINTERCARD x a", "XREAD", "BLPOP 0"] {
        assert_eq!(keys(wrong), Vec::<Bytes>::new(), "{wrong}");
    }
}

#[test]
fn a_call_is_what_was_written() {
    let command = RedisCommand { database: 3, words: words("SET a b") };
    let watched = KeyVersion { database: 3, key: Bytes::from_static(b"a"), version: 7 };
    let ask = RedisAsk::Transaction { watched: vec![watched], commands: vec![command] };
    let call = RedisCall { unix_ms: 5, seed: 6, ask };
    let bytes = call.to_bytes();
    assert!(RedisCall::is_call(&bytes) && !call.read_only());
    assert_eq!(RedisCall::from_bytes(bytes), Ok(call.clone()));
    assert!(call.check().is_ok());
    let call = RedisCall {
        ask: RedisAsk::Commands { commands: vec![RedisCommand { database: 17, words: words("GET a") }] },
        ..call
    };
    assert!(call.read_only() && call.check().is_err());
}

#[test]
fn replies_nest_within_a_bound() {
    let mut reply = RedisReply::Map(vec![(RedisReply::Nil, RedisReply::Double(Bytes::from_static(b"1.5")))]);
    for _ in 1..REDIS_REPLY_DEPTH_MAX {
        reply = RedisReply::Pairs(vec![(RedisReply::NilArray, reply)]);
    }
    assert_eq!(RedisReply::from_bytes(reply.to_bytes()), Ok(reply.clone()));
    assert!(RedisReply::from_bytes(RedisReply::Set(vec![reply]).to_bytes()).is_err());
}
