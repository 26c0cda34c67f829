//! Commands on a plain keyspace that is a map.

use super::*;
use base_types::codec::Encode;
use std::collections::BTreeMap;

#[derive(Default)]
struct Keyspace(BTreeMap<Bytes, Bytes>);

fn text(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

impl Keyspace {
    fn answer(&mut self, ask: PlainAsk) -> Result<PlainAnswer, Reply> {
        Ok(match ask {
            PlainAsk::Done(reply) => return Err(reply),
            PlainAsk::Get(keys) => PlainAnswer::Values(keys.iter().map(|key| self.0.get(key).cloned()).collect()),
            PlainAsk::Put { key, value } => {
                self.0.insert(key, value);
                PlainAnswer::Done
            }
            PlainAsk::PutAll(pairs) if pairs.iter().any(|(key, _)| key.starts_with(b"elsewhere")) => {
                PlainAnswer::Crosses
            }
            PlainAsk::PutAll(pairs) => {
                self.0.extend(pairs);
                PlainAnswer::Done
            }
            PlainAsk::Delete(key) => PlainAnswer::Deleted(self.0.remove(&key).is_some()),
            PlainAsk::Swap { key, expected, value } => {
                let same = self.0.get(&key) == expected.as_ref();
                match value {
                    Some(value) if same => drop(self.0.insert(key, value)),
                    None if same => drop(self.0.remove(&key)),
                    _ => {}
                }
                PlainAnswer::Swapped(same)
            }
            PlainAsk::Keys { after } => {
                // Pages of two.
                let behind = |key: &&Bytes| after.as_ref().is_none_or(|after| *key > after);
                let keys: Vec<Bytes> = self.0.keys().filter(behind).take(3).cloned().collect();
                PlainAnswer::Keys { more: keys.len() > 2, keys: keys.into_iter().take(2).collect() }
            }
        })
    }

    /// Carries a command out; `between`: what others do before each ask is answered.
    fn run_with(&mut self, line: &str, mut between: impl FnMut(&mut Keyspace, &PlainAsk)) -> Reply {
        let words = line.split_whitespace().map(text).collect();
        let (mut command, mut ask) = PlainCommand::begin(RedisCommand { database: 0, words }, 1_000, 1);
        loop {
            between(self, &ask);
            match self.answer(ask) {
                Ok(answer) => ask = command.next(answer),
                Err(reply) => return reply,
            }
        }
    }

    fn run(&mut self, line: &str) -> Reply {
        self.run_with(line, |_, _| {})
    }
}

#[test]
fn strings_are_read_and_changed() {
    let mut keyspace = Keyspace::default();
    let bulk = |value: &str| Reply::Bulk(text(value));
    for (line, reply) in [
        ("GET a", Reply::Nil),
        ("DBSIZE", Reply::Integer(0)),
        ("RANDOMKEY", Reply::Nil),
        ("SET a 1", Reply::Ok),
        ("INCR a", Reply::Integer(2)),
        ("APPEND a 0", Reply::Integer(2)),
        ("GET a", bulk("20")),
        ("SET a 5 NX", Reply::Nil),
        ("SET b 5 NX", Reply::Ok),
        ("SET b 6 XX GET", bulk("5")),
        ("SETBIT bits 7 1", Reply::Integer(0)),
        ("MSET c 1 d 2", Reply::Ok),
        ("MGET a d nosuch", Reply::Array(vec![bulk("20"), bulk("2"), Reply::Nil])),
        ("EXISTS a b nosuch a", Reply::Integer(3)),
        ("TYPE a", Reply::Status("string".into())),
        ("TTL a", Reply::Integer(-1)),
        ("TTL nosuch", Reply::Integer(-2)),
        ("GETDEL d", bulk("2")),
        ("KEYS *", Reply::Array(["a", "b", "bits", "c"].map(bulk).to_vec())),
        ("KEYS b*", Reply::Array(["b", "bits"].map(bulk).to_vec())),
        ("DBSIZE", Reply::Integer(4)),
        // The seed of these tests is 1.
        ("RANDOMKEY", bulk("b")),
        ("DEL a b nosuch", Reply::Integer(2)),
        ("STRLEN c", Reply::Integer(1)),
    ] {
        // Bitmaps come with commands of their own.
        if line.starts_with("SETBIT") && super::super::is_read(&[text("setbit")]).is_none() {
            keyspace.0.insert(text("bits"), text("\u{1}"));
            continue;
        }
        assert_eq!(keyspace.run(line), reply, "{line}");
    }
    assert_eq!(keyspace.0.keys().cloned().collect::<Vec<_>>(), [text("bits"), text("c")]);
}

#[test]
fn what_a_plain_keyspace_cannot_hold_changes_nothing() {
    let mut keyspace = Keyspace::default();
    keyspace.run("SET a 1");
    let before = keyspace.0.clone();
    for line in [
        "LPUSH l 1",
        "HSET h f v",
        "SET a 2 EX 5",
        "EXPIRE a 5",
        "SETEX a 5 v",
        "RENAME a b",
        "MSETNX b 1 c 2",
        "COPY a b",
        "FLUSHDB",
        "SCAN 0",
        "MSET b 1 elsewhere 2",
        "INCR",
        "NOSUCH a",
        "SELECT 1",
        "XADD s * f v",
        "PUBLISH c m",
        "SET a",
        "SETRANGE a 536870912 x",
        "LCS a b IDX LEN",
    ] {
        let reply = keyspace.run(line);
        assert!(matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
        assert_eq!(keyspace.0, before, "{line}");
    }
    let words = vec![text("GET"), text("a")];
    let (_, ask) = PlainCommand::begin(RedisCommand { database: 1, words }, 0, 0);
    assert!(matches!(ask, PlainAsk::Done(Reply::Error(_))));
}

#[test]
fn a_change_by_somebody_else_is_seen() {
    let mut keyspace = Keyspace::default();
    let mut others = 3;
    let reply = keyspace.run_with("INCR n", |keyspace, ask| {
        if matches!(ask, PlainAsk::Swap { .. }) && others > 0 {
            others -= 1;
            keyspace.run("INCR n");
        }
    });
    assert_eq!((reply, keyspace.run("GET n")), (Reply::Integer(4), Reply::Bulk(text("4"))));
    // One that never comes first gives up.
    let reply = keyspace.run_with("INCR n", |keyspace, ask| {
        if matches!(ask, PlainAsk::Swap { .. }) {
            keyspace.run("INCR n");
        }
    });
    assert!(matches!(reply, Reply::Error(_)));
    assert_eq!(keyspace.run("GET n"), Reply::Bulk(text(&(4 + PLAIN_TRIES_MAX).to_string())));
}

/// Every command of strings comes to the same in a plain keyspace and in a redis database.
#[test]
fn strings_are_those_of_a_redis_database() {
    use crate::contract::ApplyContext;
    use crate::testing::MapSpace;
    use base_types::redis::{RedisAnswer, RedisAsk, RedisCall};
    let (mut keyspace, mut space) = (Keyspace::default(), MapSpace::default());
    let mut draw = Moment::new(1, 1, 7);
    draw.unix_ms = 1_000;
    let commands = [
        "SET k v",
        "SET k 12",
        "GET k",
        "INCRBY k 5",
        "DECR k",
        "INCRBYFLOAT k 0.5",
        "APPEND k x",
        "GETRANGE k 0 -2",
        "SETRANGE k 2 yy",
        "STRLEN k",
        "GETSET k 3",
        "SETNX k 9",
        "GETDEL k",
        "DEL k",
        "EXISTS k",
        "SET k w XX",
        "SET k 7 NX GET",
        "TYPE k",
        "MSET k 1 j 2",
        "MGET k j",
    ];
    for index in 1..=2_000 {
        let line =
            commands[draw.below(commands.len() as u64) as usize].replace('k', ["a", "b", "c"][draw.below(3) as usize]);
        let words = line.split_whitespace().map(text).collect();
        let ask = RedisAsk::Commands { commands: vec![RedisCommand { database: 0, words }] };
        let call = RedisCall { unix_ms: 1_000, seed: 1, ask };
        let life = base_types::Generation(1);
        let at = ApplyContext { life, index: base_types::LogIndex(index), position: 0, cluster_time_ms: 1 };
        let reply = if call.read_only() {
            super::super::query(1, &space, &call.to_bytes()).unwrap()
        } else {
            super::super::apply(at, &mut space, &call.to_bytes()).unwrap()
        };
        let Ok(RedisAnswer::Replies { replies }) = crate::reply::decode_reply(reply) else { panic!("{line}") };
        assert_eq!(vec![keyspace.run(&line)], replies, "{line}");
    }
}
