//! Keyspaces of the kind `redis`: words and calls through every node, and what such a keyspace refuses.

use super::*;
use base_types::action::{KeyspaceKind, Partitioning, RedisReply};
use base_types::redis::{KeyVersion, RedisAnswer, RedisAsk, RedisCall, RedisCommand};
use base_types::ErrorCode;

fn create_of(keyspace: &str, kind: KeyspaceKind, partitions: u16) -> Action {
    Action::CreateKeyspace {
        kind,
        keyspace: keyspace.into(),
        partitioning: Partitioning::Hash,
        partitions,
        clusters: 1,
        split_keys: Vec::new(),
        rule: "size=3".into(),
        engine: None,
    }
}

fn world_with(keyspace: &str) -> (World, KvTarget) {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par", "fr-par"], 3, 1);
    world.ready();
    world.done(1, create_of(keyspace, KeyspaceKind::Redis, 1));
    (world, KvTarget::Keyspace(keyspace.into()))
}

fn split(text: &str) -> Vec<Bytes> {
    text.split(' ').map(bytes).collect()
}

fn say(world: &mut World, node: u64, target: &KvTarget, text: &str) -> Result<RedisReply, ErrorCode> {
    match world.act(node, Action::Redis { target: target.clone(), command: split(text) }) {
        Ok(Answer { result: ActionResult::Redis { reply }, .. }) => Ok(reply),
        Ok(other) => panic!("{other:?}"),
        Err(failure) => Err(failure.refusal.code),
    }
}

fn call(world: &mut World, node: u64, target: &KvTarget, ask: RedisAsk) -> Result<RedisAnswer, ErrorCode> {
    let call = Box::new(RedisCall { unix_ms: 1_000, seed: 1, ask });
    match world.act(node, Action::RedisCall { target: target.clone(), call }) {
        Ok(Answer { result: ActionResult::RedisCall(answer), .. }) => Ok(answer),
        Ok(other) => panic!("{other:?}"),
        Err(failure) => Err(failure.refusal.code),
    }
}

#[test]
fn words_are_served_through_every_node() {
    let (mut world, target) = world_with("r");
    for node in 1..=4 {
        assert_eq!(say(&mut world, node, &target, "INCR n"), Ok(RedisReply::Integer(node as i64)));
    }
    for node in 1..=4 {
        assert_eq!(say(&mut world, node, &target, "GET n"), Ok(RedisReply::Bulk(bytes("4"))));
    }
    assert_eq!(say(&mut world, 2, &target, "NOSUCH n"), Err(ErrorCode::UnknownCommand));
    // The cluster itself has the same words.
    let cluster = KvTarget::Cluster("redis@ks-r-0".parse().unwrap());
    assert_eq!(say(&mut world, 3, &cluster, "GET n"), Ok(RedisReply::Bulk(bytes("4"))));
}

#[test]
fn kinds_do_not_take_each_others_actions() {
    let (mut world, target) = world_with("r");
    let code = |response: Response| response.map(|answer| answer.result).map_err(|failure| failure.refusal.code);
    let invalid = Err(ErrorCode::InvalidKeyspace);
    let get = Action::KvGet { target: target.clone(), key: bytes("k") };
    let scan = Action::KvScan {
        target: target.clone(),
        prefix: Bytes::new(),
        start_after: None,
        end: None,
        limit: 1,
        reverse: false,
        keys_only: true,
    };
    assert_eq!(code(world.act(1, get)), invalid);
    assert_eq!(code(world.act(1, scan)), invalid);
    assert_eq!(code(world.act(1, Action::Reshard { keyspace: "r".into(), clusters: 2 })), invalid);
    assert_eq!(code(world.act(1, create_of("wide", KeyspaceKind::Redis, 2))), invalid);
    for kind in [KeyspaceKind::Plain, KeyspaceKind::Versioned] {
        world.done(1, create_of(kind.as_str(), kind, 1));
        let other = KvTarget::Keyspace(kind.as_str().into());
        assert_eq!(say(&mut world, 2, &other, "GET k"), Err(ErrorCode::InvalidKeyspace));
        assert_eq!(call(&mut world, 2, &other, RedisAsk::Messages { after: 0 }), Err(ErrorCode::InvalidKeyspace));
    }
    let listed = world.act(4, Action::ListKeyspaces).unwrap().result;
    let ActionResult::Keyspaces { keyspaces } = listed else { panic!("{listed:?}") };
    let kinds: Vec<&str> = keyspaces.iter().map(|keyspace| keyspace.kind.as_str()).collect();
    assert_eq!(kinds, ["plain", "redis", "versioned"]);
}

#[test]
fn nobody_but_a_leader_sweeps() {
    let (mut world, target) = world_with("r");
    let cluster = KvTarget::Cluster("redis@ks-r-0".parse().unwrap());
    for target in [target, cluster] {
        assert_eq!(call(&mut world, 1, &target, RedisAsk::Sweep), Err(ErrorCode::UnknownAction));
    }
}

fn commands(texts: &[&str]) -> Vec<RedisCommand> {
    texts.iter().map(|text| RedisCommand { database: 1, words: split(text) }).collect()
}

fn key(name: &str, version: u64) -> KeyVersion {
    KeyVersion { database: 1, key: bytes(name), version }
}

#[test]
fn calls_are_served_through_every_node() {
    let (mut world, target) = world_with("r");
    let ok = RedisReply::Ok;
    for node in 1..=4 {
        let asked = RedisAsk::Commands { commands: commands(&["SET a 1", "INCR a", "NOSUCH a", "GET a"]) };
        let Ok(RedisAnswer::Replies { replies }) = call(&mut world, node, &target, asked) else { panic!() };
        let [set, incr, RedisReply::Error(_), get] = &replies[..] else { panic!("{replies:?}") };
        assert_eq!((set, incr, get), (&ok, &RedisReply::Integer(2), &RedisReply::Bulk(bytes("2"))));
    }
    let Ok(RedisAnswer::Versions { versions }) =
        call(&mut world, 2, &target, RedisAsk::Versions { keys: vec![key("a", 0), key("none", 0)] })
    else {
        panic!()
    };
    assert!(versions[0] > 0 && versions[1] == 0, "{versions:?}");
    let transaction =
        || RedisAsk::Transaction { watched: vec![key("a", versions[0])], commands: commands(&["SET a 9"]) };
    let done = RedisAnswer::Replies { replies: vec![ok.clone()] };
    assert_eq!(call(&mut world, 3, &target, transaction()), Ok(done));
    assert_eq!(call(&mut world, 4, &target, transaction()), Ok(RedisAnswer::Aborted));
    let tried = call(
        &mut world,
        1,
        &target,
        RedisAsk::Try { watched: vec![], seen: vec![], commands: commands(&["SET a 10"]) },
    );
    assert!(matches!(tried, Ok(RedisAnswer::Tried { .. })), "{tried:?}");
    let read = RedisAsk::Commands { commands: commands(&["GET a"]) };
    let unchanged = RedisAnswer::Replies { replies: vec![RedisReply::Bulk(bytes("9"))] };
    assert_eq!(call(&mut world, 2, &target, read), Ok(unchanged));
    let other = RedisAsk::Commands { commands: vec![RedisCommand { database: 17, words: split("GET a") }] };
    assert_eq!(call(&mut world, 2, &target, other), Err(ErrorCode::InvalidRequest));
}

/// A blocked client at one node hears of a push through another one, within its deadline and not by it.
#[test]
fn a_wait_ends_with_a_change_through_another_node() {
    let (mut world, target) = world_with("r");
    for waiting in 1..=4 {
        let name = format!("l{waiting}");
        let ask = RedisAsk::AwaitKeys { keys: vec![key(&name, 0)] };
        let await_keys =
            Action::RedisCall { target: target.clone(), call: Box::new(RedisCall { unix_ms: 1_000, seed: 1, ask }) };
        let waits = Request { deadline: Duration::from_secs(8), ..request(await_keys) };
        let ticket = world.ask(waiting, waits);
        world.run(500);
        assert!(!world.replies.contains_key(&ticket), "the wait through node {waiting} ended before anything changed");
        let push = RedisAsk::Commands { commands: commands(&[&format!("SET {name} v")]) };
        call(&mut world, waiting % 4 + 1, &target, push).unwrap();
        world.run(500);
        match world.replies.get(&ticket) {
            Some(Ok(Answer { result: ActionResult::RedisCall(RedisAnswer::Versions { versions }), .. })) => {
                assert!(versions[0] > 0)
            }
            other => panic!("through node {waiting}: {other:?}"),
        }
    }
}
