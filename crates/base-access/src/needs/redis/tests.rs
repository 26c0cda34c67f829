//! Every command of the table, and every kind of call.

use super::*;
use base_types::action::Action;
use base_types::redis::{RedisCommand, COMMANDS};

fn target() -> KvTarget {
    KvTarget::Keyspace("d".into())
}

fn needs(action: &Action) -> Vec<String> {
    let mut needs = Vec::new();
    let all: Result<(), ()> = crate::for_each_need(action, &mut |need| {
        needs.push(format!("{} {}", need.verb.as_str(), need.target));
        Ok(())
    });
    all.unwrap();
    needs
}

fn split(text: &str) -> Vec<Bytes> {
    text.split(' ').map(|word| Bytes::copy_from_slice(word.as_bytes())).collect()
}

fn of(text: &str) -> String {
    let plain = needs(&Action::Redis { target: target(), command: split(text) }).join(", ");
    let commands = vec![RedisCommand { database: 3, words: split(text) }];
    assert_eq!(of_ask(RedisAsk::Commands { commands: commands.clone() }), plain, "{text}");
    let (watched, seen) = (Vec::new(), Vec::new());
    let tried = RedisAsk::Try { watched: watched.clone(), seen: seen.clone(), commands: commands.clone() };
    assert_eq!(of_ask(tried), plain, "{text}");
    assert_eq!(of_ask(RedisAsk::Script { watched, seen, commands }), plain, "{text}");
    plain
}

fn of_ask(ask: RedisAsk) -> String {
    let call = RedisCall { unix_ms: 0, seed: 0, ask };
    needs(&Action::RedisCall { target: target(), call: Box::new(call) }).join(", ")
}

#[test]
fn scripts_are_for_who_may_read_a_key() {
    let of = |text: &str| {
        let commands = vec![RedisCommand { database: base_types::redis::SCRIPTS_DATABASE, words: split(text) }];
        of_ask(RedisAsk::Commands { commands })
    };
    let any = of("HGET scripts a");
    assert!(any.starts_with("read ") && any != of("DEL scripts"), "{any}");
    for words in ["HEXISTS scripts a", "HSET scripts a b", "INCRBY bytes 5", "HLEN scripts", "GET bytes"] {
        assert_eq!(of(words), any, "{words}");
    }
    for words in ["DEL scripts bytes", "FLUSHDB", "SET scripts a", "nosuch"] {
        assert_eq!(of(words), "write redis/d", "{words}");
    }
    // Others run what is in a library.
    assert_eq!(of("HGETALL functions"), any);
    for words in ["HSET functions a b", "HDEL functions a", "DEL functions", "INCRBY functions 1", "HSET"] {
        assert_eq!(of(words), "write redis/d", "{words}");
    }
    let key = KeyVersion { database: 16, key: Bytes::from_static(b"functions"), version: 1 };
    let ask = RedisAsk::Script { watched: vec![key], seen: vec![], commands: vec![] };
    assert_eq!(of_ask(ask), any);
    // What a script has read is watched, and must still be allowed.
    let key = KeyVersion { database: 0, key: Bytes::from_static(b"a"), version: 1 };
    let ask = RedisAsk::Script { watched: vec![key], seen: vec![], commands: vec![] };
    assert_eq!(of_ask(ask), "read redis/d/a");
}

#[test]
fn commands_need_their_keys() {
    for (words, wanted) in [
        ("get a", "read redis/d/a"),
        ("MGET a b", "read redis/d/a, read redis/d/b"),
        ("set a v", "write redis/d/a"),
        ("set a v EX 1 get", "read redis/d/a, write redis/d/a"),
        ("zadd a incr 1 m", "read redis/d/a, write redis/d/a"),
        ("zadd a 1 m", "write redis/d/a"),
        ("incr a", "read redis/d/a, write redis/d/a"),
        ("mset a 1 b 2", "write redis/d/a, write redis/d/b"),
        ("del a b", "write redis/d/a, write redis/d/b"),
        ("rename a b", "read redis/d/a, write redis/d/a, read redis/d/b, write redis/d/b"),
        ("copy a b", "read redis/d/a, write redis/d/b"),
        ("sinterstore d a b", "write redis/d/d, read redis/d/a, read redis/d/b"),
        ("bitop AND d a", "write redis/d/d, read redis/d/a"),
        ("zunionstore d 2 a b WEIGHTS 1 2", "write redis/d/d, read redis/d/a, read redis/d/b"),
        ("zunionstore d x a b", "read redis/d, write redis/d"),
        ("zinter 2 a b", "read redis/d/a, read redis/d/b"),
        ("zinter 9 a b", "read redis/d"),
        ("blpop a b 0", "read redis/d/a, write redis/d/a, read redis/d/b, write redis/d/b"),
        ("sort a", "read redis/d/a"),
        ("sort a STORE b", "read redis/d/a, write redis/d/b"),
        ("sort a BY nosort GET #", "read redis/d/a"),
        ("sort_ro a BY w_* GET #", "read redis/d, read redis/d/a"),
        ("georadius a 1 1 1 m", "read redis/d/a"),
        ("xread COUNT 1 STREAMS a b 0 0", "read redis/d/a, read redis/d/b"),
        ("xread COUNT 1 a 0", "read redis/d"),
        ("xreadgroup GROUP STREAMS c STREAMS a >", "read redis/d/a, write redis/d/a"),
        ("dbsize", "read redis/d"),
        ("scan 0", "read redis/d"),
        ("flushall", "write redis/d"),
        ("publish c m", "write redis/d"),
        ("swapdb 0 1", "read redis/d, write redis/d"),
        ("object ENCODING a", "read redis/d/a"),
        ("nosuch a", ""),
        ("config GET x", ""),
    ] {
        assert_eq!(of(words), wanted, "{words}");
    }
}

/// No command that the database carries out goes without a need, and none that writes without the right to write.
#[test]
fn every_command_of_the_table_needs_something() {
    for spec in COMMANDS.iter().filter(|spec| spec.how != Use::Door) {
        let words = spec.arity.unsigned_abs().max(4);
        let text = format!("{}{}", spec.name, " 2".repeat(words as usize));
        let text = if spec.keys == Words::AfterStreams { format!("{} STREAMS 2 2", spec.name) } else { text };
        let asked = of(&text);
        assert!(!asked.is_empty(), "{text} needs nothing");
        let writes = spec.how == Use::Write && spec.keys != Words::FirstAndStore;
        assert!(!writes || asked.contains("write redis/d"), "{text}: {asked}");
        assert!(spec.how != Use::Read || !asked.contains("write"), "{text}: {asked}");
    }
    for list in [SHOW_NOTHING, FIRST_IS_WRITTEN] {
        assert!(list.iter().all(|name| find(name.as_bytes()).is_some_and(|spec| spec.how == Use::Write)));
    }
}

#[test]
fn calls_need_what_they_watch_and_do() {
    let keys = vec![KeyVersion { database: 1, key: "w".into(), version: 7 }];
    let commands = vec![RedisCommand { database: 0, words: split("set a v") }];
    assert_eq!(of_ask(RedisAsk::Versions { keys: keys.clone() }), "read redis/d/w");
    assert_eq!(of_ask(RedisAsk::AwaitKeys { keys: keys.clone() }), "read redis/d/w");
    assert_eq!(of_ask(RedisAsk::Transaction { watched: keys, commands }), "read redis/d/w, write redis/d/a");
    assert_eq!(of_ask(RedisAsk::Messages { after: 0 }), "read redis/d");
    assert_eq!(of_ask(RedisAsk::Sweep), "write redis/d (any key)");
    let raw = KvTarget::Cluster("redis@x".parse().unwrap());
    let both = ["read cluster/redis@x", "write cluster/redis@x"];
    assert_eq!(needs(&Action::Redis { target: raw.clone(), command: split("get a") }), both);
    let call = RedisCall { unix_ms: 0, seed: 0, ask: RedisAsk::Messages { after: 0 } };
    assert_eq!(needs(&Action::RedisCall { target: raw, call: Box::new(call) }), both);
}
