use super::*;
use crate::reply::decode_reply;
use crate::testing::MapSpace;
use base_types::LogIndex;
use std::collections::{BTreeMap, BTreeSet};

mod bits;
mod geo;
mod hyperloglog;
mod keys;
mod lists;
mod sorted;

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
