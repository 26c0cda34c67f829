use super::super::tests::{run, run_words, show};
use super::super::{apply, Reply};
use super::*;
use crate::contract::ApplyContext;
use crate::reply::decode_reply;
use crate::testing::MapSpace;
use base_types::codec::Encode;
use base_types::redis::{RedisAnswer, RedisAsk, RedisCall, RedisCommand};
use base_types::{Generation, LogIndex};

/// A key of each kind, and a command that shows it.
const KEYS: &[(&str, &[&str])] = &[
    ("set s some~text", &["get s"]),
    ("set s ''", &["get s", "strlen s"]),
    ("rpush s a b '' a", &["lrange s 0 -1"]),
    ("sadd s a b c 1", &["smembers s", "scard s"]),
    ("hset s f v g '' '' w", &["hgetall s", "hlen s"]),
    ("zadd s 1 a -inf b inf c 0 d -0 e 1.5 f", &["zrange s 0 -1 withscores", "zrangebyscore s -1 1", "zcard s"]),
    ("xadd s 5-1 a 1 b 2", &["xrange s - +", "xinfo stream s"]),
];

const GROUPS: &[&str] = &[
    "xadd s 1-1 a 1",
    "xadd s 2-0 a 2 b 3",
    "xadd s 3-0 a 4",
    "xadd s 9-9 a 5",
    "xgroup create s g 0",
    "xgroup create s h 2 entriesread 1",
    "xgroup create s empty $",
    "xgroup createconsumer s g idle",
    "xreadgroup group g c count 2 streams s >",
    "xreadgroup group g d count 1 streams s >",
    "xreadgroup group h c count 1 streams s >",
    "xdel s 2-0 9-9",
];

const SHOW_GROUPS: &[&str] = &[
    "xinfo stream s full",
    "xpending s g",
    "xpending s g - + 9",
    "xpending s h - + 9 c",
    "xinfo groups s",
    "xreadgroup group g c streams s 0",
    "xadd s * a 1",
];

fn dump_of(space: &mut MapSpace, key: &str) -> Bytes {
    match run_words(space, 1000, words(&["dump", key])) {
        Ok(Reply::Bulk(payload)) => payload,
        other => panic!("{other:?}"),
    }
}

fn words(words: &[&str]) -> Vec<Bytes> {
    words.iter().map(|word| Bytes::copy_from_slice(word.as_bytes())).collect()
}

fn restore_as(space: &mut MapSpace, key: &str, payload: &[u8], more: &[&str]) -> String {
    let mut argv = words(&["restore", key, "0"]);
    argv.push(Bytes::copy_from_slice(payload));
    argv.extend(words(more));
    show(&run_words(space, 1000, argv).unwrap())
}

/// The key `s` of one space becomes `other` of another that has a key already, so its rows are elsewhere.
fn check_same(made: &[&str], shown: &[&str]) {
    let (mut one, mut other) = (MapSpace::default(), MapSpace::default());
    for command in made {
        run(&mut one, 1000, command);
    }
    run(&mut other, 1000, "xadd before 1-1 a 1");
    run(&mut other, 1000, "xgroup create before g 0");
    let payload = dump_of(&mut one, "s");
    assert_eq!(restore_as(&mut other, "s", &payload, &[]), "OK");
    assert_eq!(dump_of(&mut other, "s"), payload, "{made:?}");
    for command in shown {
        assert_eq!(run(&mut other, 1000, command), run(&mut one, 1000, command), "{command}");
    }
    assert_eq!(run(&mut other, 1000, "del s before"), "2");
}

#[test]
fn a_dump_restores_the_same_key() {
    for (made, shown) in KEYS {
        check_same(&[made], shown);
    }
    check_same(GROUPS, SHOW_GROUPS);
}

#[test]
fn restore_takes_options_as_redis_does() {
    let mut space = MapSpace::default();
    run(&mut space, 1000, "set s v");
    run(&mut space, 1000, "rpush l a");
    let payload = dump_of(&mut space, "s");
    let mut restore = |ttl: &str, more: &[&str]| {
        let mut argv = words(&["restore", "l", ttl]);
        argv.push(payload.clone());
        argv.extend(words(more));
        show(&run_words(&mut space, 1000, argv).unwrap())
    };
    assert_eq!(restore("0", &[]), "BUSYKEY Target key name already exists.");
    assert_eq!(restore("-1", &[]), "BUSYKEY Target key name already exists.");
    assert_eq!(restore("-1", &["replace"]), "ERR Invalid TTL value, must be >= 0");
    assert_eq!(restore("x", &["replace"]), "ERR value is not an integer or out of range");
    assert_eq!(restore("9223372036854775807", &["replace"]), "ERR invalid expire time in 'restore' command");
    assert_eq!(restore("0", &["replace", "sometimes"]), "ERR syntax error");
    assert_eq!(restore("0", &["replace", "idletime"]), "ERR syntax error");
    assert_eq!(restore("0", &["idletime", "1", "freq", "1"]), "ERR syntax error");
    assert_eq!(restore("0", &["idletime", "-1"]), "ERR Invalid IDLETIME value, must be >= 0");
    assert_eq!(restore("0", &["freq", "256"]), "ERR Invalid FREQ value, must be >= 0 and <= 255");
    assert_eq!(restore("5000", &["REPLACE", "FREQ", "255"]), "OK");
    assert_eq!(run(&mut space, 2000, "get l"), "'v'");
    assert_eq!(run(&mut space, 2000, "pttl l"), "4000");
    assert_eq!(run(&mut space, 6000, "get l"), "nil");
    assert_eq!(run(&mut space, 1000, "dump none"), "nil");
}

/// A date is by the clock of the door that is asked.
#[test]
fn restore_takes_a_date() {
    let mut space = MapSpace::default();
    run(&mut space, 1000, "set s v");
    let payload = dump_of(&mut space, "s");
    let mut restore = |ttl: &str| {
        let mut argv = words(&["restore", "d", ttl]);
        argv.push(payload.clone());
        argv.extend(words(&["absttl", "replace"]));
        let commands =
            vec![RedisCommand { database: 0, words: argv }, RedisCommand { database: 0, words: words(&["pttl", "d"]) }];
        let call = RedisCall { unix_ms: 1_700_000_000_000, seed: 1, ask: RedisAsk::Commands { commands } };
        let at = ApplyContext { life: Generation(1), index: LogIndex(7), position: 0, cluster_time_ms: 1000 };
        let reply = apply(at, &mut space, &call.to_bytes()).unwrap();
        match decode_reply::<RedisAnswer>(reply) {
            Ok(RedisAnswer::Replies { replies }) => replies.iter().map(show).collect::<Vec<_>>().join(" "),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(restore("1700000002500"), "OK 2500");
    assert_eq!(restore("0"), "OK -1");
    assert_eq!(restore("1699999999999"), "OK -2");
}

fn sealed(kind: Kind, write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut out = Writer::new();
    out.raw(MARK).u8(FORM).u8(kind as u8);
    write(&mut out);
    reseal(out.into_vec())
}

fn reseal(mut body: Vec<u8>) -> Vec<u8> {
    let sum = xxhash_rust::xxh3::xxh3_64(&body);
    body.extend_from_slice(&sum.to_le_bytes());
    body
}

fn refuses(space: &mut MapSpace, payload: &[u8], expected: &str) {
    let before = space.rows.clone();
    for key in ["fresh", "there"] {
        assert_eq!(restore_as(space, key, payload, &["replace"]), expected, "{payload:?}");
        assert!(space.rows == before, "{payload:?}");
    }
}

#[test]
fn a_damaged_dump_is_refused() {
    let mut space = MapSpace::default();
    run(&mut space, 1000, "set there v");
    run(&mut space, 1000, "zadd z 1 a 2 b");
    let payload = dump_of(&mut space, "z");
    for at in 0..payload.len() {
        let mut damaged = payload.to_vec();
        damaged[at] ^= 1;
        refuses(&mut space, &damaged, WRONG_PAYLOAD);
        refuses(&mut space, &payload[..at], WRONG_PAYLOAD);
    }
    // What Redis 7.0 gives for `set x y`.
    refuses(&mut space, b"\x00\x01y\x0a\x00\xf3\x4d\x9d\x6e\xa1\xbc\x10\x11", WRONG_PAYLOAD);
    refuses(&mut space, b"", WRONG_PAYLOAD);
    let mut longer = payload[..payload.len() - TAIL_BYTES].to_vec();
    longer.push(0);
    refuses(&mut space, &reseal(longer), BAD_CONTENTS);
}

#[test]
fn contents_that_no_key_can_have_are_refused() {
    let mut space = MapSpace::default();
    run(&mut space, 1000, "set there v");
    let long = vec![b'x'; base_types::KEY_BYTES_MAX + 1];
    for kind in [Kind::List, Kind::Set, Kind::Hash, Kind::Sorted, Kind::Stream] {
        let empty = sealed(kind, |out| put(out.varint(0), &[]));
        refuses(&mut space, &empty, BAD_CONTENTS);
    }
    let twice = sealed(Kind::Set, |out| put(out.varint(2), &[b"a", b"a"]));
    let too_long = sealed(Kind::Set, |out| put(out.varint(1), &[&long]));
    let fewer = sealed(Kind::Set, |out| put(out.varint(3), &[b"a", b"b"]));
    let field_twice = sealed(Kind::Hash, |out| put(out.varint(2), &[b"f", b"1", b"f", b"2"]));
    for payload in [twice, too_long, fewer, field_twice] {
        refuses(&mut space, &payload, BAD_CONTENTS);
    }
    for score in [f64::NAN, -f64::NAN, -0.0] {
        let number = super::super::numbers::sortable(score);
        let payload = sealed(Kind::Sorted, |out| put(out.varint(1).bytes(b"m").u64(number), &[]));
        refuses(&mut space, &payload, BAD_CONTENTS);
    }
    let mut unknown = MARK.to_vec();
    unknown.extend_from_slice(&[FORM, 99, 1]);
    refuses(&mut space, &reseal(unknown), BAD_CONTENTS);
}

fn put(out: &mut Writer, words: &[&[u8]]) {
    for word in words {
        out.bytes(word);
    }
}

/// A stream of one entry, one group with one consumer and what is pending with it.
fn stream(last: u64, ids: &[u64], words: usize, pending: &[(u64, u64)]) -> Vec<u8> {
    sealed(Kind::Stream, |out| {
        out.u64(last).u64(0).u64(0).u64(0).u64(ids.len() as u64).varint(ids.len() as u64);
        for id in ids {
            out.u64(*id).u64(0).varint(words as u64);
            (0..words).for_each(|_| put(out, &[b"w"]));
        }
        out.varint(1).bytes(b"g").u64(0).u64(0).u64(u64::MAX).varint(1);
        out.bytes(b"c").u64(5).varint(pending.len() as u64);
        for (id, count) in pending {
            out.u64(*id).u64(0).u64(7).u64(*count);
        }
    })
}

#[test]
fn streams_that_cannot_be_are_refused() {
    let mut space = MapSpace::default();
    run(&mut space, 1000, "set there v");
    let right = stream(3, &[1, 3], 2, &[(1, 1), (2, 4)]);
    assert_eq!(restore_as(&mut space, "right", &right, &[]), "OK");
    assert_eq!(run(&mut space, 1000, "xpending right g - + 9"), "[['1-0' 'c' 993 1] ['2-0' 'c' 993 4]]");
    let wrong = [
        stream(2, &[1, 3], 2, &[]),
        stream(3, &[3, 1], 2, &[]),
        stream(3, &[3, 3], 2, &[]),
        stream(3, &[0], 2, &[]),
        stream(3, &[3], 0, &[]),
        stream(3, &[3], 3, &[]),
        stream(3, &[3], 2, &[(1, 1), (1, 1)]),
        stream(3, &[3], 2, &[(1, u64::MAX)]),
    ];
    for payload in wrong {
        refuses(&mut space, &payload, BAD_CONTENTS);
    }
}

/// Every change of one byte, sealed again: refused, or a key that reads and goes away as others do.
#[test]
fn forged_dumps_make_sound_keys_or_none() {
    let mut space = MapSpace::default();
    let commands: Vec<&str> = KEYS.iter().map(|(made, _)| *made).collect();
    let all = commands.iter().map(std::slice::from_ref).chain([GROUPS]);
    for made in all {
        run(&mut space, 1000, "del s");
        made.iter().for_each(|command| drop(run(&mut space, 1000, command)));
        let payload = dump_of(&mut space, "s");
        let body = &payload[..payload.len() - TAIL_BYTES];
        for at in MARK.len() + 1..body.len() {
            for change in [1, 0x80, 0xff] {
                let mut forged = body.to_vec();
                forged[at] ^= change;
                let said = restore_as(&mut space, "f", &reseal(forged), &["replace"]);
                assert!(matches!(&said[..], "OK" | BAD_CONTENTS), "{said}");
                if said == "OK" {
                    dump_of(&mut space, "f");
                    run(&mut space, 1000, "copy f g replace");
                    run(&mut space, 1000, "xinfo stream f full");
                }
            }
        }
        run(&mut space, 1000, "del f g s");
    }
    for _ in 0..64 {
        run(&mut space, 1000, "set last 1");
    }
    assert_eq!(run(&mut space, 1000, "dbsize"), "1");
}

#[test]
fn a_key_too_large_for_a_dump_is_not_dumped() {
    let mut space = MapSpace::default();
    let refused =
        format!("ERR the key is too large for a dump, which has at most {VALUE_BYTES_MAX} bytes; copy it in parts");
    let large = "x".repeat(VALUE_BYTES_MAX);
    run(&mut space, 1000, &format!("set s {large}"));
    run(&mut space, 1000, &format!("rpush l {large} {large} {large}"));
    assert_eq!(run(&mut space, 1000, "dump s"), refused);
    assert_eq!(run(&mut space, 1000, "dump l"), refused);
    let fits = VALUE_BYTES_MAX - HEAD_BYTES - TAIL_BYTES;
    run(&mut space, 1000, &format!("set s {}", &large[..fits]));
    let payload = dump_of(&mut space, "s");
    assert_eq!((payload.len(), restore_as(&mut space, "t", &payload, &[])), (VALUE_BYTES_MAX, "OK".into()));
}
