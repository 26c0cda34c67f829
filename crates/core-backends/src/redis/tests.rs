use super::*;
use crate::reply::decode_reply;
use crate::testing::MapSpace;
use base_types::LogIndex;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) fn words(line: &str) -> Vec<Bytes> {
    line.split(' ').map(|word| Bytes::from(word.replace('~', " ").replace("''", ""))).collect()
}

pub(super) fn run_words(space: &mut MapSpace, now: u64, argv: Vec<Bytes>) -> Result<Reply, Refusal> {
    let bytes = Command(argv.clone()).to_bytes();
    if is_read(&argv) == Some(true) {
        return decode_reply(query(now, space, &bytes).unwrap());
    }
    validate(&bytes)?;
    let at = ApplyContext { life: base_types::Generation(1), index: LogIndex(1), position: 0, cluster_time_ms: now };
    let reply = apply(at, space, &bytes).unwrap();
    crate::testing::check(base_types::BackendKind::Redis, space);
    decode_reply(reply)
}

pub(super) fn show(reply: &Reply) -> String {
    let shown = |items: &[Reply]| items.iter().map(show).collect::<Vec<_>>().join(" ");
    let shown_pairs = |pairs: &[(Reply, Reply)], between: &str| {
        pairs
            .iter()
            .map(|(left, right)| format!("{}{between}{}", show(left), show(right)))
            .collect::<Vec<_>>()
            .join(" ")
    };
    // Sets and maps have no order.
    let sorted = |mut all: Vec<String>| {
        all.sort();
        format!("[{}]", all.join(" "))
    };
    match reply {
        Reply::Ok => "OK".into(),
        Reply::Nil => "nil".into(),
        Reply::NilArray => "nil[]".into(),
        Reply::Status(text) => text.clone(),
        Reply::Double(text) => String::from_utf8_lossy(text).into_owned(),
        Reply::Map(pairs) | Reply::Streams(pairs) => format!("{{{}}}", shown_pairs(pairs, ": ")),
        Reply::Pairs(pairs) => format!("[{}]", shown_pairs(pairs, "=")),
        Reply::Set(items) => sorted(items.iter().map(show).collect()),
        Reply::Integer(value) => value.to_string(),
        Reply::Bulk(value) => format!("'{}'", String::from_utf8_lossy(value)),
        Reply::Array(items) => format!("[{}]", shown(items)),
        Reply::Error(text) => text.clone(),
    }
}

pub(super) fn run(space: &mut MapSpace, now: u64, line: &str) -> String {
    match run_words(space, now, words(line)) {
        // Fields have no order.
        Ok(Reply::Map(pairs)) if line.starts_with("hgetall") => {
            let mut pairs: Vec<String> =
                pairs.iter().map(|(name, value)| format!("{} {}", show(name), show(value))).collect();
            pairs.sort();
            format!("[{}]", pairs.join(" "))
        }
        Ok(reply) => show(&reply),
        Err(refusal) => format!("refused {}", refusal.message),
    }
}

/// `@n`: cluster time from here on. `command -> reply`.
fn script(text: &str) {
    let mut space = MapSpace::default();
    let mut now = 1000;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(time) = line.strip_prefix('@') {
            now = time.parse().unwrap();
            continue;
        }
        let (command, expected) = line.split_once(" -> ").unwrap();
        assert_eq!(run(&mut space, now, command), expected, "at {now}: {command}");
    }
}

/// Each command is followed by a walk of all that is counted.
#[test]
pub(crate) fn a_key_that_stays_is_not_among_those_that_expire() {
    script(
        "set a 1 px 100 -> OK
        set b 2 px 100 -> OK
        persist a -> 1
        del b -> 1
        set a 3 px 100 -> OK
        set a 4 -> OK
        @5000
        get a -> '4'",
    );
}

#[test]
fn strings() {
    script(
        "get a -> nil
        set a 1 -> OK
        GET a -> '1'
        set a 2 NX -> nil
        set b 2 XX -> nil
        set a 2 xx get -> '1'
        set a 3 NX GET -> '2'
        set a 3 NX XX -> ERR syntax error
        set a 3 EX -> ERR syntax error
        set a 3 EX 0 -> ERR invalid expire time in 'set' command
        set a 3 EX 9223372036854775807 -> ERR invalid expire time in 'set' command
        set a 3 EX 1 KEEPTTL -> ERR syntax error
        set a 4 IFEQ 2 -> OK
        set a 5 ifeq 3 -> nil
        set none 5 IFEQ 3 -> nil
        set a 5 IFEQ -> ERR syntax error
        set a 5 NX IFEQ 4 -> ERR syntax error
        set t 1 -> OK
        delex t IFEQ 2 -> 0
        delex t IFNE 2 -> ERR syntax error
        delex t ifeq 1 -> 1
        delex t IFEQ 1 -> 0
        set t 1 -> OK
        delex t -> 1
        set a 2 -> OK
        setnx a 9 -> 0
        setnx c 9 -> 1
        getset c 10 -> '9'
        getdel c -> '10'
        getdel c -> nil
        mset x 1 y 2 x 3 -> OK
        mset x 1 y -> ERR wrong number of arguments for 'mset' command
        mget x y z -> ['3' '2' nil]
        msetnx q 1 x 2 -> 0
        msetnx q 1 r 2 q 3 -> 1
        mget q r -> ['3' '2']
        append a bc -> 3
        strlen a -> 3
        strlen none -> 0
        getrange a 0 -1 -> '2bc'
        getrange a -2 9 -> 'bc'
        getrange a 2 1 -> ''
        getrange a 0 -9 -> '2'
        setrange a 5 zz -> 7
        getrange a 3 4 -> '\0\0'
        setrange none 5 '' -> 0
        exists none -> 0
        setrange a -1 x -> ERR offset is out of range
        setrange a 9999999 x -> ERR string exceeds maximum allowed size (proto-max-bulk-len)"
            .replace("\\0", "\0")
            .as_str(),
    );
}

#[test]
fn counters() {
    script(
        "incr n -> 1
        incrby n 41 -> 42
        decr n -> 41
        decrby n 42 -> -1
        set n 9223372036854775807 -> OK
        incr n -> ERR increment or decrement would overflow
        decrby n -9223372036854775808 -> ERR decrement would overflow
        set n 010 -> OK
        incr n -> ERR value is not an integer or out of range
        incrby n 1.5 -> ERR value is not an integer or out of range
        set f 10.5 -> OK
        incrbyfloat f 0.1 -> '10.6'
        incrbyfloat f -5 -> '5.6'
        set f 5.0e3 -> OK
        incrbyfloat f 2.0e2 -> '5200'
        incrbyfloat f x -> ERR value is not a valid float
        incrbyfloat f inf -> ERR increment would produce NaN or Infinity
        get f -> '5200'",
    );
}

#[test]
fn expiry() {
    script(
        "set a 1 PX 500 -> OK
        pttl a -> 500
        ttl a -> 1
        @1499
        get a -> '1'
        @1500
        get a -> nil
        ttl a -> -2
        exists a -> 0
        set a 2 NX -> OK
        pttl a -> -1
        expire a 10 -> 1
        set a 3 KEEPTTL -> OK
        ttl a -> 10
        append a x -> 2
        ttl a -> 10
        persist a -> 1
        persist a -> 0
        expire a 10 XX -> 0
        expire a 10 NX -> 1
        expire a 5 GT -> 0
        expire a 5 LT -> 1
        ttl a -> 5
        expire a 5 GT LT -> ERR GT and LT options at the same time are not compatible
        expire a 5 ZZ -> ERR Unsupported option ZZ
        set a 4 -> OK
        ttl a -> -1
        pexpire a -1 -> 1
        exists a -> 0
        expire a 5 -> 0
        setex a 5 v -> OK
        psetex b 0 v -> ERR invalid expire time in 'psetex' command
        hset h f v -> 1
        expire h 1 -> 1
        @9000
        hset h g w -> 1
        hgetall h -> ['g' 'w']
        type h -> hash
        type none -> none
        dbsize -> 1",
    );
}

#[test]
fn hashes() {
    script(
        "hset h b 2 a 1 -> 2
        hset h b 3 c 4 -> 1
        hset h b -> refused ERR wrong number of arguments for 'hset' command
        hset h b 1 c -> ERR wrong number of arguments for 'hset' command
        hmset h d 5 -> OK
        hgetall h -> ['a' '1' 'b' '3' 'c' '4' 'd' '5']
        hsetnx h a 9 -> 0
        hsetnx h e 9 -> 1
        hget h e -> '9'
        hget h zz -> nil
        hmget h a zz c -> ['1' nil '4']
        hmget none a -> [nil]
        hexists h a -> 1
        hlen h -> 5
        hincrby h a 5 -> 6
        hincrby h n -5 -> -5
        hset h t x -> 1
        hincrby h t 1 -> ERR hash value is not an integer
        hdel h a b c d e n t zz -> 7
        exists h -> 0
        dbsize -> 0
        set s 1 -> OK
        hset s a 1 -> WRONGTYPE Operation against a key holding the wrong kind of value
        hget s a -> WRONGTYPE Operation against a key holding the wrong kind of value
        hincrby none f x -> ERR value is not an integer or out of range
        exists none -> 0
        dbsize -> 1",
    );
}

#[test]
fn lists_and_sets() {
    script(
        "lpush l a b -> 2
        rpush l c -> 3
        lrange l 0 -1 -> ['b' 'a' 'c']
        lrange l -2 -1 -> ['a' 'c']
        lrange l 5 9 -> []
        lindex l 0 -> 'b'
        lindex l -1 -> 'c'
        lindex l 3 -> nil
        lpop l -> 'b'
        rpop l 5 -> ['c' 'a']
        lpop l -> nil
        lpop l 2 -> nil[]
        lpop l -1 -> ERR value is out of range, must be positive
        lpop l 1 1 -> ERR wrong number of arguments for 'lpop' command
        exists l -> 0
        llen l -> 0
        sadd s b a b -> 2
        sadd s a -> 0
        smembers s -> ['a' 'b']
        sismember s a -> 1
        sismember s z -> 0
        scard s -> 2
        smismember s a z b -> [1 0 1]
        lpush s x -> WRONGTYPE Operation against a key holding the wrong kind of value
        srem s a z -> 1
        srem s b -> 1
        exists s -> 0
        srem s b -> 0
        dbsize -> 0",
    );
}

#[test]
fn keys_move_and_are_copied() {
    script(
        "rpush l a b c -> 3
        expire l 100 -> 1
        rename l m -> OK
        exists l -> 0
        lrange m 0 -1 -> ['a' 'b' 'c']
        ttl m -> 100
        rename none x -> ERR no such key
        set s v -> OK
        renamenx s m -> 0
        renamenx s t -> 1
        copy m n -> 1
        copy m n -> 0
        lpop n -> 'a'
        llen m -> 3
        ttl n -> 100
        copy t n REPLACE -> 1
        get n -> 'v'
        copy t t -> ERR source and destination objects are the same
        copy t t DB 5 -> 1
        copy t t DB 5 -> 0
        copy t t DB 16 -> ERR DB index is out of range
        move n 5 -> 1
        move n 5 -> 0
        move t 0 -> ERR source and destination objects are the same
        rename m t -> OK
        lrange t 0 -1 -> ['a' 'b' 'c']
        dbsize -> 1
        keys * -> ['t']
        keys x* -> []
        randomkey -> 't'
        zadd z 1 a 2 b -> 2
        copy z y -> 1
        zrem z a b -> 2
        zrange y 0 -1 WITHSCORES -> ['a'=1 'b'=2]
        touch t y none -> 2
        object encoding t -> 'quicklist'
        object encoding y -> 'listpack'
        object encoding none -> nil
        set i 12 -> OK
        object encoding i -> 'int'
        sadd q 1 2 -> 2
        object encoding q -> 'intset'
        sadd q x -> 1
        object encoding q -> 'hashtable'
        flushall -> OK
        dbsize -> 0
        randomkey -> nil",
    );
}

#[test]
fn values_with_an_end_and_what_two_have_in_common() {
    script(
        "set a v -> OK
        getex a EX 10 -> 'v'
        ttl a -> 10
        getex a -> 'v'
        ttl a -> 10
        getex a PERSIST -> 'v'
        ttl a -> -1
        getex a EX 0 -> ERR invalid expire time in 'getex' command
        getex a NX -> ERR syntax error
        getex none EX 10 -> nil
        substr a 0 0 -> 'v'
        set b v EXAT 100 -> ERR dates are taken from clients of the Redis door, whose clock they are of; give a duration
        set x ohmytext -> OK
        set y mynewtext -> OK
        lcs x y -> 'mytext'
        lcs x y LEN -> 6
        lcs x y IDX -> {'matches': [[[4 7] [5 8]] [[2 3] [0 1]]] 'len': 6}
        lcs x y IDX MINMATCHLEN 4 WITHMATCHLEN -> {'matches': [[[4 7] [5 8] 4]] 'len': 6}
        lcs x y IDX LEN -> ERR If you want both the length and indexes, please just use IDX.
        lcs x none -> ''",
    );
}

#[test]
fn lists_in_the_middle() {
    script(
        "rpush l a b c d e f -> 6
        linsert l before b x -> 7
        linsert l AFTER e y -> 8
        lrange l 0 -1 -> ['a' 'x' 'b' 'c' 'd' 'e' 'y' 'f']
        linsert l before none z -> -1
        linsert none before a z -> 0
        linsert l beside a z -> ERR syntax error
        lset l 0 q -> OK
        lset l -1 r -> OK
        lset l 8 r -> ERR index out of range
        lset none 0 r -> ERR no such key
        lrange l 0 -1 -> ['q' 'x' 'b' 'c' 'd' 'e' 'y' 'r']
        ltrim l 1 -2 -> OK
        lrange l 0 -1 -> ['x' 'b' 'c' 'd' 'e' 'y']
        rpush l b c b -> 9
        lrem l 1 b -> 1
        lrem l -1 b -> 1
        lrange l 0 -1 -> ['x' 'c' 'd' 'e' 'y' 'b' 'c']
        lrem l 0 c -> 2
        lrem l 0 none -> 0
        lrange l 0 -1 -> ['x' 'd' 'e' 'y' 'b']
        lpos l e -> 2
        lpos l none -> nil
        rpush l e e -> 7
        lpos l e RANK 2 -> 5
        lpos l e RANK -1 -> 6
        lpos l e COUNT 0 -> [2 5 6]
        lpos l e COUNT 2 RANK -1 -> [6 5]
        lpos l e COUNT 0 MAXLEN 4 -> [2]
        lpos l e RANK 0 -> ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list
        lmove l m LEFT RIGHT -> 'x'
        lmove l l LEFT RIGHT -> 'd'
        rpoplpush l m -> 'd'
        lrange m 0 -1 -> ['d' 'x']
        lmpop 2 none m RIGHT COUNT 5 -> ['m' ['x' 'd']]
        lmpop 1 m LEFT -> nil[]
        lmpop 0 m LEFT -> ERR numkeys should be greater than 0
        blpop none l 0 -> ['l' 'e']
        brpop l -1 -> ERR timeout is negative
        brpop l x -> ERR timeout is not a float or out of range
        blmpop 0 1 none LEFT -> nil[]
        blmove none l LEFT LEFT 0 -> nil
        lpushx none a -> 0
        rpushx l z -> 5
        ltrim l 9 10 -> OK
        exists l m -> 0
        dbsize -> 0",
    );
}

#[test]
fn sets_together() {
    script(
        "sadd a 1 2 3 4 -> 4
        sadd b 3 4 5 -> 3
        sinter a b -> ['3' '4']
        sunion a b none -> ['1' '2' '3' '4' '5']
        sdiff a b -> ['1' '2']
        sdiff none a -> []
        sinter a none -> []
        sintercard 2 a b -> 2
        sintercard 2 a b LIMIT 1 -> 1
        sintercard 0 a -> ERR numkeys should be greater than 0
        sintercard 3 a b -> ERR Number of keys can't be greater than number of args
        sinterstore c a b -> 2
        smembers c -> ['3' '4']
        sunionstore a a b -> 5
        scard a -> 5
        sdiffstore c a a -> 0
        exists c -> 0
        smove a b 1 -> 1
        smove a b 1 -> 0
        sismember b 1 -> 1
        set s x -> OK
        smove a s 2 -> WRONGTYPE Operation against a key holding the wrong kind of value
        sinter a s -> WRONGTYPE Operation against a key holding the wrong kind of value
        sunionstore s a -> 4
        spop s 10 -> ['2' '3' '4' '5']
        exists s -> 0
        spop none -> nil
        spop none 3 -> []
        spop a -1 -> ERR value is out of range, must be positive
        srandmember none -> nil
        srandmember none 3 -> []
        sscan a 0 MATCH [45] -> ['0' ['5' '4']]
        sscan a x -> ERR invalid cursor",
    );
}

/// Random picks, scans and pops against a plain set, small and large.
#[test]
fn a_scan_gives_all_that_stays() {
    for size in [5usize, 500, 3_000] {
        let mut space = MapSpace::default();
        let members: Vec<String> = (0..size).map(|n| format!("member:{n}")).collect();
        for part in members.chunks(100) {
            run(&mut space, 0, &format!("sadd s {}", part.join(" ")));
        }
        let (mut cursor, mut seen, mut rounds) = ("0".to_owned(), BTreeSet::new(), 0);
        loop {
            let reply = run_words(&mut space, 0, words(&format!("sscan s {cursor} COUNT 50"))).unwrap();
            let Reply::Array(parts) = reply else { panic!() };
            let [Reply::Bulk(next), Reply::Array(found)] = &parts[..] else { panic!("{parts:?}") };
            seen.extend(found.iter().map(show));
            cursor = String::from_utf8(next.to_vec()).unwrap();
            rounds += 1;
            // What comes and goes meanwhile hides nothing.
            run(&mut space, 0, &format!("sadd s other:{rounds}"));
            run(&mut space, 0, &format!("srem s other:{}", rounds - 1));
            if cursor == "0" {
                break;
            }
        }
        assert!(members.iter().all(|member| seen.contains(&format!("'{member}'"))), "{size}");
        assert!(rounds <= size / 50 + 2);
        let picked = run(&mut space, 0, "srandmember s 4");
        assert_eq!(picked.split(' ').collect::<BTreeSet<_>>().len(), 4);
        assert_eq!(run(&mut space, 0, "srandmember s -40").split(' ').count(), 40);
        assert_eq!(run(&mut space, 0, "spop s 3").split(' ').count(), 3);
        assert_eq!(run(&mut space, 0, "scard s"), (size + 1 - 3).to_string());
    }
}

#[test]
fn hashes_at_random_and_by_pages() {
    script(
        "hset h a 1 -> 1
        hrandfield h -> 'a'
        hrandfield h 5 -> ['a']
        hrandfield h -3 -> ['a' 'a' 'a']
        hrandfield h 1 WITHVALUES -> ['a'='1']
        hrandfield h 1 NOVALUES -> ERR syntax error
        hrandfield none -> nil
        hscan h 0 -> ['0' ['a' '1']]
        hscan h 0 MATCH b* -> ['0' []]
        hstrlen h a -> 1
        hstrlen h none -> 0
        hincrbyfloat h a 1.5 -> '2.5'
        hincrbyfloat h n -0.5 -> '-0.5'
        hincrbyfloat h a x -> ERR value is not a valid float
        hset h t x -> 1
        hincrbyfloat h t 1 -> ERR hash value is not a float
        hkeys none -> []
        hgetall none -> []",
    );
}

#[test]
fn sorted_sets() {
    script(
        "zadd z 2 b 1 a 3 c -> 3
        zadd z CH 5 a 3 c -> 1
        zrange z 0 -1 WITHSCORES -> ['b'=2 'c'=3 'a'=5]
        zrange z 0 1 REV WITHSCORES -> ['a'=5 'c'=3]
        zrange z 2 2 WITHSCORES -> ['a'=5]
        zrange z 1 2 -> ['c' 'a']
        zrange z 1 9 REV -> ['c' 'b']
        zrangebyscore z (2 +inf -> ['c' 'a']
        zrangebyscore z -inf (5 WITHSCORES -> ['b'=2 'c'=3]
        zrangebyscore z 2 5 LIMIT 1 1 -> ['c']
        zrangebyscore z 2 5 LIMIT 1 -1 -> ['c' 'a']
        zrangebyscore z (5 2 -> []
        zrangebyscore z x 2 -> ERR min or max is not a float
        zrange z 5 (2 BYSCORE REV -> ['a' 'c']
        zrange z 0 1 LIMIT 0 1 -> ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX
        zadd z NX 9 a -> 0
        zadd z XX 9 new -> 0
        zadd none XX 9 new -> 0
        zadd z NX XX 1 a -> ERR XX and NX options at the same time are not compatible
        zadd z GT LT 1 a -> ERR GT, LT, and/or NX options at the same time are not compatible
        zadd z INCR 1 a 2 b -> ERR INCR option supports a single increment-element pair
        zadd z 1 -> refused ERR wrong number of arguments for 'zadd' command
        zadd z 1 a 2 -> ERR syntax error
        zadd z nan a -> ERR value is not a valid float
        zadd z GT CH 1 a -> 0
        zadd z LT CH 1.5 a -> 1
        zscore z a -> 1.5
        zadd z INCR XX 1 a -> 2.5
        zadd z NX INCR 1 a -> nil
        zincrby z -2.5 a -> 0
        zadd z -0 a -> 0
        zscore z a -> 0
        zadd z inf i -> 1
        zincrby z -inf i -> ERR resulting score is not a number (NaN)
        zscore z none -> nil
        zcard z -> 4
        zrem z a i q -> 2
        zrem z b c -> 2
        exists z none -> 0
        dbsize -> 0",
    );
}

#[test]
fn ranges_of_sorted_sets() {
    script(
        "zadd z 1 a 2 b 3 c 4 d 5 e -> 5
        zrevrange z 0 1 WITHSCORES -> ['e'=5 'd'=4]
        zrevrangebyscore z 4 (2 -> ['d' 'c']
        zcount z (1 4 -> 3
        zcount z 5 1 -> 0
        zcount z x 1 -> ERR min or max is not a float
        zrank z c -> 2
        zrevrank z c -> 2
        zrank z none -> nil
        zmscore z a none e -> [1 nil 5]
        zrangestore t z 2 4 BYSCORE -> 3
        zrange t 0 -1 -> ['b' 'c' 'd']
        zrangestore t z 9 10 -> 0
        exists t -> 0
        zremrangebyrank z 0 0 -> 1
        zremrangebyscore z (4 +inf -> 1
        zrange z 0 -1 -> ['b' 'c' 'd']
        zpopmin z -> ['b' 2]
        zpopmax z 5 -> ['d'=4 'c'=3]
        exists z -> 0
        zpopmin z -> []
        zpopmin z -1 -> ERR value is out of range, must be positive
        zadd x 0 a 0 b 0 c 0 d -> 4
        zrangebylex x [b (d -> ['b' 'c']
        zrevrangebylex x + [c -> ['d' 'c']
        zrangebylex x - + LIMIT 1 2 -> ['b' 'c']
        zrange x (a + BYLEX -> ['b' 'c' 'd']
        zrange x - + BYLEX WITHSCORES -> ERR syntax error, WITHSCORES not supported in combination with BYLEX
        zrangebylex x b + -> ERR min or max not valid string range item
        zlexcount x - (c -> 2
        zremrangebylex x [a (b -> 1
        zmpop 2 none x MAX COUNT 2 -> ['x' [['d' 0] ['c' 0]]]
        zmpop 1 none MIN -> nil[]
        bzpopmin none x 0 -> ['x' 'b' 0]
        bzpopmax x 1 -> nil[]
        bzmpop 0 1 x MIN -> nil[]",
    );
}

#[test]
fn sorted_sets_together() {
    script(
        "zadd a 1 x 2 y -> 2
        zadd b 10 y 20 z -> 2
        sadd s y w -> 2
        zunion 2 a b WITHSCORES -> ['x'=1 'y'=12 'z'=20]
        zinter 2 a b WITHSCORES -> ['y'=12]
        zinter 3 a b s WITHSCORES -> ['y'=13]
        zdiff 2 a b WITHSCORES -> ['x'=1]
        zunion 2 a b -> ['x' 'y' 'z']
        zunion 2 a b WEIGHTS 2 -1 AGGREGATE MIN WITHSCORES -> ['z'=-20 'y'=-10 'x'=2]
        zunion 2 a b AGGREGATE MAX WITHSCORES -> ['x'=1 'y'=10 'z'=20]
        zunion 0 a -> ERR at least 1 input key is needed for 'zunion' command
        zunion 2 a b WEIGHTS 1 -> ERR syntax error
        zunion 2 a b WEIGHTS 1 x -> ERR weight value is not a float
        zintercard 2 a b -> 1
        zintercard 2 a b LIMIT 5 -> 1
        zunionstore d 2 a b -> 3
        zrange d 0 -1 WITHSCORES -> ['x'=1 'y'=12 'z'=20]
        zinterstore d 2 a none -> 0
        exists d -> 0
        zdiffstore d 1 b -> 2
        zunionstore a 1 a WITHSCORES -> ERR syntax error
        set str v -> OK
        zunion 2 a str -> WRONGTYPE Operation against a key holding the wrong kind of value
        zrandmember a 0 WITHSCORES -> []
        zrandmember none -> nil
        zrandmember none 2 -> []
        zscan b 0 MATCH z -> ['0' ['z' 20]]",
    );
}

#[test]
fn what_is_no_command_is_refused() {
    let mut space = MapSpace::default();
    assert_eq!(
        run(&mut space, 0, "EVIL a b"),
        "refused ERR unknown command 'EVIL', with args beginning with: 'a' 'b' "
    );
    assert_eq!(run(&mut space, 0, "set a"), "refused ERR wrong number of arguments for 'set' command");
    assert_eq!(run(&mut space, 0, "GET"), "refused ERR wrong number of arguments for 'get' command");
    assert!(validate(&Command(vec![]).to_bytes()).unwrap_err().message.starts_with("ERR unknown command ''"));
    let long = "x".repeat(base_types::KEY_BYTES_MAX + 1);
    for command in [
        format!("set {long} 1"),
        format!("sadd s {long}"),
        format!("hset h {long} 1"),
        format!("mset a 1 {long} 2"),
        format!("del {long}"),
        format!("zadd z 1 {long}"),
    ] {
        assert!(run(&mut space, 0, &command).contains("is 1025 bytes long; at most 1024 are taken"), "{command:.20}");
    }
    assert_eq!(
        run_words(&mut space, 0, vec!["set".into(), "a".into(), vec![0; VALUE_BYTES_MAX + 1].into()])
            .unwrap_err()
            .code
            .as_str(),
        "ValueTooLarge"
    );
    assert_eq!(space, MapSpace::default(), "nothing of all that left a trace");
    let read_as_write = Command(words("get a")).to_bytes();
    assert_eq!(validate(&read_as_write).unwrap_err().code.as_str(), "InvalidRequest");
    let write_as_read = query(0, &space, &Command(words("set a 1")).to_bytes()).unwrap();
    assert_eq!(decode_reply::<Reply>(write_as_read).unwrap_err().code.as_str(), "InvalidRequest");
    assert_eq!(
        (is_read(&words("Get a")), is_read(&words("SET")), is_read(&words("x")), is_read(&[])),
        (Some(true), Some(false), None, None)
    );
}

#[test]
fn scan_tells_each_key_once_whatever_happens_meanwhile() {
    let mut space = MapSpace::default();
    for n in 0..100 {
        run(&mut space, 0, &format!("set key:{n} v"));
    }
    run(&mut space, 0, "sadd set:1 m");
    let (mut cursor, mut told) = ("0".to_string(), Vec::new());
    for round in 0.. {
        assert!(round < 100);
        match run_words(&mut space, 0, words(&format!("scan {cursor} MATCH key:* COUNT 7"))).unwrap() {
            Reply::Array(parts) => match &parts[..] {
                [Reply::Bulk(next), Reply::Array(keys)] => {
                    cursor = String::from_utf8(next.to_vec()).unwrap();
                    told.extend(keys.iter().map(show));
                }
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
        if cursor == "0" {
            break;
        }
        run(&mut space, 0, &format!("set other:{round} v"));
        run(&mut space, 0, &format!("del key:{}", 99 - round / 4));
        run(&mut space, 0, &format!("set key:{} w", round * 5));
    }
    let distinct: BTreeSet<&String> = told.iter().collect();
    assert_eq!(distinct.len(), told.len());
    assert!((0..80).all(|n| distinct.contains(&format!("'key:{n}'"))), "{told:?}");
    assert_eq!(run(&mut space, 0, "scan 0 TYPE set COUNT 1000"), "['0' ['set:1']]");
    assert_eq!(run(&mut space, 0, "scan x"), "ERR invalid cursor");
    assert_eq!(run(&mut space, 0, "scan 0 COUNT 0"), "ERR syntax error");
}

#[test]
fn what_is_deleted_is_swept_in_the_end() {
    let mut space = MapSpace::default();
    let members: Vec<String> = (0..500).map(|n| format!("{n} m{n}")).collect();
    for key in ["z1", "z2", "z3"] {
        run(&mut space, 0, &format!("zadd {key} {}", members.join(" ")));
        run(&mut space, 0, &format!("rpush l{key} {}", members.join(" ")));
    }
    run(&mut space, 0, "pexpire z2 10");
    run(&mut space, 0, "set z1 string");
    assert_eq!(run(&mut space, 0, "get z1"), "'string'");
    run(&mut space, 0, "flushdb");
    assert_eq!((run(&mut space, 0, "dbsize"), run(&mut space, 0, "exists z1 z2 z3 lz1")), ("0".into(), "0".into()));
    run(&mut space, 0, "sadd z2 a b");
    run(&mut space, 0, "pexpire z2 10");
    let mut writes = 0;
    while space.rows.len() > 1 {
        run(&mut space, 20, "del nothing");
        writes += 1;
        assert!(writes < 400, "{} rows are left", space.rows.len());
    }
    assert!(writes > 50, "a write sweeps only a little");
    assert_eq!(run(&mut space, 20, "dbsize"), "0");
}

#[derive(Clone, PartialEq, Debug)]
enum Thing {
    Text(String),
    Hash(BTreeMap<String, String>),
    List(Vec<String>),
    Set(BTreeSet<String>),
    Sorted(BTreeMap<String, i64>),
}

/// The dumb twin: the same commands on plain collections, expiry looked at before each.
#[derive(Default)]
struct Twin {
    keys: BTreeMap<String, (Thing, Option<u64>)>,
}

const WRONG: &str = WRONG_TYPE;

impl Twin {
    fn run(&mut self, now: u64, line: &str) -> String {
        self.keys.retain(|_, (_, expires)| expires.is_none_or(|at| at > now));
        let argv: Vec<&str> = line.split(' ').collect();
        let key = argv[1].to_string();
        let quoted = |text: &String| format!("'{text}'");
        let list = |items: Vec<String>| format!("[{}]", items.join(" "));
        let number = |yes: bool| usize::from(yes).to_string();
        let kind = |keys: &BTreeMap<String, (Thing, Option<u64>)>, wanted: fn(&Thing) -> bool| {
            keys.get(&key).is_none_or(|(thing, _)| wanted(thing))
        };
        let reply = match argv[0] {
            "set" => {
                let expires = (argv.len() > 3).then(|| now + argv[4].parse::<u64>().unwrap());
                self.keys.insert(key.clone(), (Thing::Text(argv[2].into()), expires));
                "OK".into()
            }
            "get" => match self.keys.get(&key) {
                None => "nil".into(),
                Some((Thing::Text(text), _)) => quoted(text),
                Some(_) => WRONG.into(),
            },
            "del" => number(self.keys.remove(&key).is_some()),
            "pexpire" => number(
                self.keys
                    .get_mut(&key)
                    .map(|(_, expires)| *expires = Some(now + argv[2].parse::<u64>().unwrap()))
                    .is_some(),
            ),
            "pttl" => {
                self.keys.get(&key).map_or(-2, |(_, expires)| expires.map_or(-1, |at| (at - now) as i64)).to_string()
            }
            "hset" | "hdel" | "hgetall" if !kind(&self.keys, |thing| matches!(thing, Thing::Hash(_))) => WRONG.into(),
            "rpush" | "lpush" | "lpop" | "lrange" if !kind(&self.keys, |thing| matches!(thing, Thing::List(_))) => {
                WRONG.into()
            }
            "sadd" | "srem" | "smembers" if !kind(&self.keys, |thing| matches!(thing, Thing::Set(_))) => WRONG.into(),
            "zadd" | "zrem" | "zrange" if !kind(&self.keys, |thing| matches!(thing, Thing::Sorted(_))) => WRONG.into(),
            _ => {
                let empty = match argv[0].as_bytes()[0] {
                    b'h' => Thing::Hash(BTreeMap::new()),
                    b's' => Thing::Set(BTreeSet::new()),
                    b'z' => Thing::Sorted(BTreeMap::new()),
                    _ => Thing::List(Vec::new()),
                };
                let (thing, _) = self.keys.entry(key.clone()).or_insert((empty, None));
                match (argv[0], thing) {
                    ("hset", Thing::Hash(hash)) => number(hash.insert(argv[2].into(), argv[3].into()).is_none()),
                    ("hdel", Thing::Hash(hash)) => number(hash.remove(argv[2]).is_some()),
                    ("hgetall", Thing::Hash(hash)) => {
                        list(hash.iter().flat_map(|(name, value)| [quoted(name), quoted(value)]).collect())
                    }
                    ("rpush", Thing::List(items)) => {
                        items.push(argv[2].into());
                        items.len().to_string()
                    }
                    ("lpush", Thing::List(items)) => {
                        items.insert(0, argv[2].into());
                        items.len().to_string()
                    }
                    ("lpop", Thing::List(items)) => {
                        if items.is_empty() {
                            "nil".into()
                        } else {
                            quoted(&items.remove(0))
                        }
                    }
                    ("lrange", Thing::List(items)) => list(items.iter().map(quoted).collect()),
                    ("sadd", Thing::Set(set)) => number(set.insert(argv[2].into())),
                    ("srem", Thing::Set(set)) => number(set.remove(argv[2])),
                    ("smembers", Thing::Set(set)) => list(set.iter().map(quoted).collect()),
                    ("zadd", Thing::Sorted(set)) => {
                        number(set.insert(argv[3].into(), argv[2].parse().unwrap()).is_none())
                    }
                    ("zrem", Thing::Sorted(set)) => number(set.remove(argv[2]).is_some()),
                    ("zrange", Thing::Sorted(set)) => {
                        let mut order: Vec<(i64, &String)> = set.iter().map(|(name, score)| (*score, name)).collect();
                        order.sort();
                        list(order.iter().map(|(score, name)| format!("{}={score}", quoted(name))).collect())
                    }
                    other => panic!("{other:?}"),
                }
            }
        };
        self.keys.retain(|_, (thing, _)| match thing {
            Thing::Text(_) => true,
            Thing::Hash(hash) => !hash.is_empty(),
            Thing::List(items) => !items.is_empty(),
            Thing::Set(set) => !set.is_empty(),
            Thing::Sorted(set) => !set.is_empty(),
        });
        reply
    }
}

#[test]
fn random_commands_do_what_the_twin_does_on_every_member() {
    let mut state = 42u64;
    let mut draw = move |bound: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % bound
    };
    let (mut space, mut member, mut twin) = (MapSpace::default(), MapSpace::default(), Twin::default());
    let mut now = 0;
    let mut errors = 0;
    for _ in 0..30_000 {
        now += draw(4);
        let (key, name, value) = (format!("k{}", draw(6)), format!("n{}", draw(5)), draw(7));
        let line = match draw(18) {
            0 => format!("set {key} {value}"),
            1 => format!("set {key} {value} px {}", 1 + draw(30)),
            2 => format!("get {key}"),
            3 => format!("del {key}"),
            4 => format!("pexpire {key} {}", 1 + draw(20)),
            5 => format!("pttl {key}"),
            6 => format!("hset {key} {name} {value}"),
            7 => format!("hdel {key} {name}"),
            8 => format!("hgetall {key}"),
            9 => format!("rpush {key} {value}"),
            10 => format!("lpush {key} {value}"),
            11 => format!("lpop {key}"),
            12 => format!("lrange {key} 0 -1"),
            13 => format!("sadd {key} {name}"),
            14 => format!("srem {key} {name}"),
            15 => format!("smembers {key}"),
            16 => format!("zadd {key} {} {name}", value as i64 - 3),
            _ if draw(2) == 0 => format!("zrem {key} {name}"),
            _ => format!("zrange {key} 0 -1 withscores"),
        };
        let reply = run(&mut space, now, &line);
        assert_eq!(reply, twin.run(now, &line), "at {now}: {line}");
        assert_eq!(reply, run(&mut member, now, &line));
        errors += usize::from(reply.starts_with("WRONG"));
    }
    assert_eq!(space, member, "the same commands give the same bytes");
    assert!(errors > 1000, "{errors}");
    run(&mut space, now, "flushdb");
    for _ in 0..50 {
        run(&mut space, now, "del nothing");
    }
    assert_eq!(space.rows.len(), 1, "only the state is left: counts and rows agree");
}

#[test]
fn replies_are_bounded() {
    let mut space = MapSpace::default();
    let big = "v".repeat(1 << 20);
    for n in 0..5 {
        run(&mut space, 0, &format!("hset h f{n} {big}"));
        run(&mut space, 0, &format!("rpush l {big}"));
        run(&mut space, 0, &format!("set s{n} {big}"));
    }
    for line in ["hgetall h", "hmget h f0 f1 f2 f3 f4", "lrange l 0 -1", "mget s0 s1 s2 s3 s4"] {
        assert!(run(&mut space, 0, line).starts_with("ERR reply is larger than"), "{line}");
    }
    let popped = run(&mut space, 0, "lpop l 100");
    assert!(popped.len() < 5 << 20);
    assert_eq!(run(&mut space, 0, "llen l"), "1", "what does not fit stays");
}
