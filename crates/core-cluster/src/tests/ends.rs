//! What ends by the cluster's time without an entry: a key of a Redis database that expires. Strong reads around a change of leaders.

use super::harness::*;
use crate::api::*;
use base_types::codec::Encode;
use base_types::{BackendKind, ReadConsistency, RequestId, WriteConsistency};
use bytes::Bytes;
use core_backends::decode_reply;
use core_backends::redis::{Command, Reply};

const LIFE_MS: u64 = 2_000;

fn words(text: &str) -> Bytes {
    Command(text.split(' ').map(|word| Bytes::copy_from_slice(word.as_bytes())).collect()).to_bytes()
}

/// A world with a key that expires.
fn world() -> World {
    let mut world = World::named(3, "redis@test");
    let (leader, mut time) = (world.leader(), 0);
    loop {
        let write = LocalKind::Write {
            backend: BackendKind::Redis,
            command: words(&format!("SET k v PX {LIFE_MS}")),
            consistency: Some(WriteConsistency::Strong),
            request_id: RequestId(7),
            cluster_time_ms: time,
        };
        match world.call(leader, write) {
            LocalOutcome::StaleRoute { cluster_time_ms } if cluster_time_ms != time => time = cluster_time_ms,
            LocalOutcome::Written { .. } => return world,
            other => panic!("{other:?}"),
        }
    }
}

/// A strong read of the leader.
fn is_there(world: &mut World) -> bool {
    let leader = world.leader();
    let (backend, consistency) = (BackendKind::Redis, Some(ReadConsistency::Strong));
    match world.call(leader, LocalKind::Read { backend, query: words("GET k"), consistency }) {
        LocalOutcome::Read { reply, .. } => decode_reply::<Reply>(reply).unwrap() != Reply::Nil,
        other => panic!("{other:?}"),
    }
}

#[test]
pub fn key_that_was_seen_to_expire_stays_gone() {
    let mut world = world();
    let (set, mut reads) = (world.now, 0);
    while is_there(&mut world) {
        reads += 1;
        world.run(5);
        assert!(world.now.since(set).as_millis() < u128::from(LIFE_MS) + 60, "it is there after its end");
    }
    assert!(reads > 10 && world.now.since(set).as_millis() >= u128::from(LIFE_MS) - 60, "it is gone before its end");
    let dead = world.leader();
    world.kill(dead);
    for _ in 0..20 {
        assert!(!is_there(&mut world), "it is there again under a new leader");
        world.run(5);
    }
}

#[test]
fn full_leader_answers_as_of_its_last_entry() {
    let mut world = world();
    world.run(1_000);
    (1..=3).for_each(|node| world.lane(node).set_disk_full(true));
    world.run(LIFE_MS);
    assert!(is_there(&mut world), "what ends late does no harm");
    (1..=3).for_each(|node| world.lane(node).set_disk_full(false));
    assert!(!is_there(&mut world));
}
