//! A cluster of the backend `versioned`: reads that wait for a change, leases that end by themselves, garbage that goes.

use super::harness::*;
use crate::api::*;
use base_types::codec::Encode;
use base_types::{BackendKind, ReadConsistency, RequestId, Ticket, WriteConsistency};
use bytes::Bytes;
use core_backends::decode_reply;
use core_backends::versioned::{
    Change, Command, Info, Operation, Position, Put, Query, Read, Reply, Span, Transaction,
};

const LEASE: u64 = 7;

fn world() -> World {
    World::named(3, "versioned@test")
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn all() -> Span {
    Span::From { start: Bytes::new() }
}

fn commit(then: Vec<Operation>) -> Command {
    Command::Commit { transaction: Transaction { then, ..Transaction::default() } }
}

fn leased(key: &str, lease: u64) -> Operation {
    let (key, value) = (bytes(key), bytes("v"));
    Operation::Put(Put { key, value, lease, previous: false, keep_value: false, keep_lease: false })
}

/// A command as a router sends it; its reply.
fn tell(world: &mut World, command: &Command) -> Reply {
    let (mut time, leader) = (0, world.leader());
    world.next_ticket += 1;
    let request = 9_000_000 + u128::from(world.next_ticket);
    loop {
        let write = LocalKind::Write {
            backend: BackendKind::Versioned,
            command: command.to_bytes(),
            consistency: Some(WriteConsistency::Strong),
            request_id: RequestId(request),
            cluster_time_ms: time,
        };
        match world.call(leader, write) {
            LocalOutcome::StaleRoute { cluster_time_ms } if cluster_time_ms != time => time = cluster_time_ms,
            LocalOutcome::Written { reply, .. } => return decode_reply(reply).unwrap(),
            other => panic!("{other:?}"),
        }
    }
}

fn put(world: &mut World, key: &str) -> u64 {
    match tell(world, &commit(vec![leased(key, 0)])) {
        Reply::Committed { stamp, .. } => stamp,
        other => panic!("{other:?}"),
    }
}

fn read(query: &Query, level: ReadConsistency) -> LocalKind {
    LocalKind::Read { backend: BackendKind::Versioned, query: query.to_bytes(), consistency: Some(level) }
}

fn ask(world: &mut World, query: &Query) -> Reply {
    let leader = world.leader();
    match world.call(leader, read(query, ReadConsistency::Strong)) {
        LocalOutcome::Read { reply, .. } => decode_reply(reply).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn info(world: &mut World) -> Info {
    match ask(world, &Query::Describe) {
        Reply::Info { info } => info,
        other => panic!("{other:?}"),
    }
}

/// What a member has applied. Wakes nobody.
fn keys(world: &mut World, node: u64) -> u64 {
    match world.call(node, read(&Query::Describe, ReadConsistency::Eventual)) {
        LocalOutcome::Read { reply, .. } => match decode_reply(reply).unwrap() {
            Reply::Info { info } => info.keys,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn keys_of_all(world: &mut World) -> [u64; 3] {
    [1, 2, 3].map(|node| keys(world, node))
}

fn await_changes(world: &mut World, node: u64, span: Span, after: u64, deadline_ms: u64) -> Ticket {
    let after = Position::end_of(after);
    let query = Query::Await { span, after, limit: 0, before: false, pin: 0 };
    world.submit(node, deadline_ms, read(&query, ReadConsistency::Eventual))
}

fn changes(world: &mut World, ticket: Ticket) -> Option<(Vec<Change>, Position)> {
    match world.completions.remove(&ticket)? {
        LocalOutcome::Read { reply, .. } => match decode_reply(reply).unwrap() {
            Reply::Changes { changes, reached, more: false } => Some((changes, reached)),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
pub fn change_answers_reads_kept_by_every_member() {
    let mut world = world();
    let before = put(&mut world, "a");
    world.run(100);
    let one = Span::One { key: bytes("b") };
    let kept: Vec<Ticket> = (1..=3).map(|node| await_changes(&mut world, node, one.clone(), before, 20_000)).collect();
    put(&mut world, "other");
    world.run(500);
    assert!(kept.iter().all(|ticket| !world.completions.contains_key(ticket)), "nothing of their span has changed");
    let stamp = put(&mut world, "b");
    world.run(100);
    for ticket in kept {
        let (changes, reached) = changes(&mut world, ticket).expect("the change is applied by every member");
        assert_eq!((changes.len(), changes[0].at.stamp, reached), (1, stamp, Position::end_of(stamp)));
    }
}

/// Followers learn of a commit with heartbeats, 30 ms apart here; what is watched, at once.
#[test]
fn kept_reads_do_not_wait_for_a_heartbeat() {
    let mut world = world();
    let mut before = put(&mut world, "a");
    for round in 0..10 {
        world.run(37 + round);
        let kept: Vec<Ticket> = (1..=3).map(|node| await_changes(&mut world, node, all(), before, 20_000)).collect();
        world.run(5);
        before = put(&mut world, &format!("b{round}"));
        world.run(4);
        let given = kept.into_iter().filter_map(|ticket| changes(&mut world, ticket)).count();
        assert_eq!(given, 3, "members that gave the change within 4 ms of its commit, round {round}");
    }
}

#[test]
pub fn first_commit_after_a_read_was_kept_is_given() {
    let mut world = world();
    let before = put(&mut world, "a");
    world.run(100);
    let kept = await_changes(&mut world, 2, all(), before, 20_000);
    world.run(10);
    let stamp = put(&mut world, "b");
    world.run(100);
    let (changes, _) = changes(&mut world, kept).expect("answered by the change");
    assert_eq!(changes[0].at.stamp, stamp);
}

#[test]
fn kept_read_ends_by_time_and_says_how_far_there_was_nothing() {
    let mut world = world();
    let before = put(&mut world, "a");
    world.run(100);
    let (patient, hasty) =
        (await_changes(&mut world, 1, all(), before, 30_000), await_changes(&mut world, 2, all(), before, 3_000));
    world.run(2_940);
    assert!(!world.completions.contains_key(&hasty));
    world.run(60);
    assert_eq!(changes(&mut world, hasty), Some((vec![], Position::end_of(before))));
    // The cluster is quiet meanwhile, and stays so when it ends.
    assert!((1..=3).all(|node| world.view(node).unwrap().quiesced));
    world.run(PARK_MAX.as_millis() as u64 - 3_010);
    assert!(!world.completions.contains_key(&patient));
    world.run(20);
    assert_eq!(changes(&mut world, patient), Some((vec![], Position::end_of(before))));
    assert!((1..=3).all(|node| world.view(node).unwrap().quiesced));
}

#[test]
fn reads_beyond_the_bound_are_answered_at_once() {
    let mut world = world();
    let before = put(&mut world, "a");
    world.run(100);
    let asked: Vec<Ticket> = (0..300).map(|_| await_changes(&mut world, 3, all(), before, 20_000)).collect();
    world.run(10);
    let answered = asked.iter().filter(|ticket| world.completions.contains_key(ticket)).count();
    assert_eq!(answered, 300 - 256, "none is refused");
    put(&mut world, "b");
    world.run(100);
    assert!(asked.iter().all(|ticket| world.completions.contains_key(ticket)));
}

#[test]
fn kept_reads_of_a_removed_replica_go_elsewhere() {
    let mut world = world();
    let before = put(&mut world, "a");
    world.run(100);
    let kept = await_changes(&mut world, 2, all(), before, 20_000);
    world.run(10);
    let (now, generation) = (world.now, world.generation);
    assert!(world.lane(2).destroy_replica(now, CLUSTER, generation));
    world.run(10);
    assert!(matches!(world.completions.get(&kept), Some(LocalOutcome::NotLeader { .. })));
}

#[test]
fn read_that_waits_learns_that_its_position_was_compacted() {
    let mut world = world();
    for key in ["a", "b", "c"] {
        put(&mut world, key);
    }
    tell(&mut world, &Command::Compact { stamp: 3 });
    world.run(100);
    let late = await_changes(&mut world, 1, all(), 1, 20_000);
    world.run(10);
    let Some(LocalOutcome::Read { reply, .. }) = world.completions.remove(&late) else { panic!("answered at once") };
    assert_eq!(decode_reply::<Reply>(reply).unwrap_err().code.as_str(), "StampCompacted");
}

/// Grants a lease with keys.
fn grant(world: &mut World, ttl_ms: u64, count: usize) {
    tell(world, &Command::LeaseGrant { lease: LEASE, ttl_ms });
    for part in 0..count.div_ceil(1_000) {
        let keys = part * 1_000..count.min((part + 1) * 1_000);
        tell(world, &commit(keys.map(|key| leased(&format!("k{key:05}"), LEASE)).collect()));
        // What is applied is written out, so that more is taken.
        world.run(300);
    }
}

#[test]
pub fn lease_ends_by_itself_and_not_before_its_time() {
    let mut world = world();
    tell(&mut world, &Command::LeaseGrant { lease: LEASE, ttl_ms: 3_000 });
    let granted = world.now;
    tell(&mut world, &commit(vec![leased("k", LEASE), leased("free", 0)]));
    while info(&mut world).leases > 0 {
        world.run(20);
        assert!(world.now.since(granted).as_millis() < 4_000, "it does not end");
    }
    assert!(
        world.now.since(granted).as_millis() >= 2_900,
        "it ends {:?} after it was granted",
        world.now.since(granted)
    );
    world.run(100);
    assert_eq!(keys_of_all(&mut world), [1, 1, 1]);
}

#[test]
pub fn lease_of_a_quiet_cluster_ends_in_time() {
    let mut world = world();
    grant(&mut world, 5_000, 1);
    world.run(2_000);
    assert!((1..=3).all(|node| world.view(node).unwrap().quiesced));
    world.run(2_500);
    assert_eq!(keys(&mut world, 1), 1);
    world.run(1_000);
    assert_eq!(keys_of_all(&mut world), [0, 0, 0]);
    world.run(2_000);
    assert!((1..=3).all(|node| world.view(node).unwrap().quiesced));
}

#[test]
fn lease_of_many_keys_ends_in_steps() {
    let mut world = world();
    grant(&mut world, 3_000, 2_500);
    let before = info(&mut world);
    world.run(4_000);
    let after = info(&mut world);
    assert_eq!((before.keys, after.keys, after.leases), (2_500, 0, 0));
    assert_eq!(after.stamp - before.stamp, 3, "each step deletes 1,024 keys at one stamp");
}

#[test]
pub fn new_leader_ends_a_lease_once_and_not_early() {
    let mut world = world();
    grant(&mut world, 2_000, 3);
    world.run(1_000);
    tell(&mut world, &Command::LeaseKeepAlive { leases: vec![LEASE] });
    let renewed = world.now;
    world.run(500);
    let dead = world.leader();
    world.kill(dead);
    let before = info(&mut world).stamp;
    while info(&mut world).leases > 0 {
        world.run(20);
        assert!(world.now.since(renewed).as_millis() < 6_000, "it does not end");
    }
    assert!(world.now.since(renewed).as_millis() >= 1_900);
    world.start(base_types::NodeId(dead));
    world.run(3_000);
    let end = info(&mut world);
    assert_eq!((end.keys, end.stamp), (0, before + 1), "one commit deletes its keys");
}

#[test]
pub fn garbage_goes_without_commits_and_the_cluster_falls_quiet() {
    let mut world = world();
    let last = (0..60).map(|_| put(&mut world, "a")).last().unwrap();
    tell(&mut world, &Command::Pin { pin: 1, stamp: 20, keep_ms: 3_000 });
    tell(&mut world, &Command::Compact { stamp: last });
    world.run(1_000);
    let held = info(&mut world);
    assert_eq!((held.horizon, held.garbage), (20, false), "a pin holds the rest");
    world.run(4_000);
    let free = info(&mut world);
    assert_eq!((free.horizon, free.garbage, free.pins), (last, false, 0));
    world.run(2_000);
    assert!((1..=3).all(|node| world.view(node).unwrap().quiesced));
}

#[test]
fn fresh_cluster_proposes_nothing() {
    let mut world = world();
    let before = world.view(1).unwrap().applied;
    world.run(3_000);
    assert_eq!(world.view(1).unwrap().applied, before);
    let read = Read {
        span: all(),
        at: 0,
        limit: 0,
        keys_only: true,
        count: false,
        count_only: false,
        filter: Default::default(),
    };
    assert!(matches!(ask(&mut world, &Query::Read { read, pin: 0 }), Reply::Page { stamp: 1, .. }));
}

/// A lease of so long, whose cluster's leader dies when so much of it is left; how long it lives after that.
fn life_after_the_leader(ttl_ms: u64, left_ms: u64) -> u64 {
    let mut world = world();
    grant(&mut world, ttl_ms, 1);
    let granted = world.now;
    let passed = ttl_ms - left_ms;
    while (world.now.since(granted).as_millis() as u64) < passed {
        // Entries carry the cluster's time on.
        world.run(100);
        put(&mut world, "other");
    }
    let dead = world.leader();
    world.kill(dead);
    let killed = world.now;
    while info(&mut world).leases > 0 {
        world.run(20);
        assert!(world.now.since(killed).as_millis() < 60_000, "it does not end");
    }
    world.now.since(killed).as_millis() as u64
}

#[test]
pub fn new_leader_gives_a_short_lease_its_time_again() {
    let lives_ms = life_after_the_leader(4_000, 500);
    assert!((4_000..7_000).contains(&lives_ms), "{lives_ms} ms");
}

#[test]
fn new_leader_does_not_touch_a_lease_with_time_left() {
    let lives_ms = life_after_the_leader(40_000, 15_000);
    assert!((14_000..18_000).contains(&lives_ms), "{lives_ms} ms");
}

#[test]
fn new_leader_gives_a_long_lease_its_time_where_little_is_left() {
    let lives_ms = life_after_the_leader(30_000, 5_000);
    assert!((30_000..33_000).contains(&lives_ms), "{lives_ms} ms");
}
