//! Members that contradict each other: who is given up, says so, and is rebuilt from the majority.

use super::harness::*;
use crate::api::*;
use base_engine::{EngineRead, KeyRange};
use base_types::{NodeId, ReadConsistency, ReplicaId, WriteConsistency};
use bytes::Bytes;
use core_backends::metadata::Command;
use core_log::testing::TestDisk;
use engine_memory::MemoryEngine;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Nodes come back with the disks and engines they had some time ago.
struct OldImage {
    node: u64,
    disk: TestDisk,
    engine: MemoryEngine,
}

fn image_of(world: &mut World, node: u64) -> OldImage {
    let found = world.node(node);
    OldImage { node, disk: found.disk.clone(), engine: MemoryEngine::from_image(found.engine.image()) }
}

fn bring_back(world: &mut World, image: OldImage) {
    let node = world.node(image.node);
    node.disk = image.disk;
    node.engine = Arc::new(image.engine);
}

/// Two of three come back from before some writes that all three have applied; the third keeps them.
fn cut_majority(flush: bool) -> (World, u64) {
    let mut world = World::new(3, 3, if flush { 1 } else { 1 << 20 });
    (0..10).for_each(|number| world.put(&format!("k{number}"), "old"));
    world.run(500);
    let keeper = world.leader();
    let others: Vec<u64> = (1..=3).filter(|node| *node != keeper).collect();
    let images: Vec<OldImage> = others.iter().map(|node| image_of(&mut world, *node)).collect();
    (0..10).for_each(|number| world.put(&format!("k{number}"), "new"));
    world.run(if flush { 1_500 } else { 100 });
    world.cut.insert(NodeId(keeper));
    others.iter().for_each(|node| world.kill(*node));
    images.into_iter().for_each(|image| bring_back(&mut world, image));
    others.iter().for_each(|node| drop(world.start(NodeId(*node))));
    world.run(2_000);
    let leader = world.leader();
    assert!(leader != keeper);
    (world, keeper)
}

fn is_given_up_and_rebuilt(mut world: World, keeper: u64) {
    assert_eq!(world.get(keeper, "k1", ReadConsistency::Eventual).as_deref(), Some("new"));
    world.cut.remove(&NodeId(keeper));
    world.run(1_000);
    let told = |(node, notice): &(NodeId, Notice)| {
        *node == NodeId(keeper)
            && matches!(notice, Notice::Damaged { message, .. } if message.contains("contradicts the majority"))
    };
    assert!(world.notices.iter().any(told), "{:?}", world.notices);
    assert_eq!(world.lane(keeper).statistics().contradictions, 1);
    assert!(world.view(keeper).unwrap().damaged);
    assert!(matches!(world.call(keeper, read("k1", ReadConsistency::Eventual)), LocalOutcome::NotLeader { .. }));
    world.run(1_000);
    let leader = world.leader();
    let members = world.view(leader).unwrap().members;
    let new = members.iter().find(|member| member.node == NodeId(keeper)).unwrap().replica;
    assert!(new > ReplicaId(3), "{members:?}");
    let (now, joins) = (world.now, ReplicaSpec { replica: new, initial_members: Arc::default(), ..spec(keeper, 3) });
    assert!(world.lane(keeper).create_replica(now, joins).unwrap());
    world.run(3_000);
    world.assert_equal(3);
    assert_eq!(world.get(keeper, "k1", ReadConsistency::Eventual).as_deref(), Some("old"));
}

#[test]
pub fn a_member_with_more_than_its_leader_gives_way() {
    let (world, keeper) = cut_majority(false);
    is_given_up_and_rebuilt(world, keeper);
}

#[test]
fn a_member_gives_way_although_its_log_is_compacted() {
    let (world, keeper) = cut_majority(true);
    is_given_up_and_rebuilt(world, keeper);
}

/// A row of a node's engine is changed under its seal: nothing but another member can tell.
fn flip(world: &mut World, node: u64, ending: &str) {
    let space = world.view(node).unwrap().space;
    let engine = world.node(node).engine.clone();
    let mut keys = Vec::new();
    let mut note = |key: &[u8], _: Option<&[u8]>| {
        if key.ends_with(ending.as_bytes()) {
            keys.push(Bytes::copy_from_slice(key));
        }
        ControlFlow::Continue(())
    };
    engine.walk(space, KeyRange::ALL, &mut note).unwrap();
    assert!(!keys.is_empty());
    keys.iter().for_each(|key| assert!(engine.flip_bit(space, key, 3)));
}

/// The row is in the engine alone, and a command reads it: what it does differs from then on.
fn diverges(world: &mut World, nodes: &[u64]) {
    world.put("row", "1");
    world.run(1_000);
    nodes.iter().for_each(|node| flip(world, *node, "row"));
    let leader = world.leader();
    let command = Command::CompareAndSet {
        scope: None,
        key: Bytes::from_static(b"row"),
        expected: Some(Bytes::from_static(b"1")),
        value: Some(Bytes::from_static(b"2")),
    };
    let outcome = world.write(leader, 77, command, WriteConsistency::Strong);
    assert!(matches!(outcome, LocalOutcome::Written { .. }), "{outcome:?}");
}

/// Whose replicas were given up because they contradict the majority.
fn given_up(world: &World) -> Vec<u64> {
    let counts = |node: &Node| node.lane.as_ref().is_some_and(|lane| lane.statistics().contradictions > 0);
    world.nodes.iter().filter(|(_, node)| counts(node)).map(|(id, _)| id.0).collect()
}

/// Its leader has another replica made in the place of one that was given up; as the node would, it is made.
fn rebuild(world: &mut World, node: u64) {
    world.run(2_000);
    let leader = world.leader();
    let members = world.view(leader).unwrap().members;
    let new = members.iter().find(|member| member.node == NodeId(node)).unwrap().replica;
    assert!(new > ReplicaId(3), "{members:?}");
    let (now, joins) = (world.now, ReplicaSpec { replica: new, initial_members: Arc::default(), ..spec(node, 3) });
    assert!(world.lane(node).create_replica(now, joins).unwrap());
    world.run(3_000);
    world.assert_equal(3);
}

#[test]
pub fn a_follower_that_applies_otherwise_gives_way() {
    let mut world = World::new(3, 3, 1 << 20);
    let odd = world.leader() % 3 + 1;
    diverges(&mut world, &[odd]);
    world.run(300);
    assert_eq!(given_up(&world), [odd]);
    assert!(matches!(world.call(odd, read("row", ReadConsistency::Eventual)), LocalOutcome::NotLeader { .. }));
    rebuild(&mut world, odd);
    assert_eq!(world.get(odd, "row", ReadConsistency::Eventual).as_deref(), Some("2"));
}

#[test]
fn a_leader_that_applies_otherwise_steps_down() {
    let mut world = World::new(3, 3, 1 << 20);
    let odd = world.leader();
    diverges(&mut world, &[odd]);
    world.run(2_000);
    assert_eq!(given_up(&world), [odd]);
    assert!(world.leader() != odd);
    rebuild(&mut world, odd);
}

#[test]
fn without_a_majority_everybody_is_quarantined() {
    let mut world = World::new(3, 3, 1 << 20);
    let leader = world.leader();
    let (odd, away) = (leader % 3 + 1, (leader + 1) % 3 + 1);
    world.put("row", "0");
    world.kill(away);
    diverges(&mut world, &[odd]);
    world.run(2_000);
    let quarantined = |world: &World| {
        (1..=3).filter(|node| world.view(*node).is_some_and(|view| view.quarantined.is_some())).collect::<Vec<_>>()
    };
    assert!(given_up(&world).is_empty() && quarantined(&world).is_empty());
    world.run(12_000);
    assert_eq!(quarantined(&world).len(), 2);
    assert!(matches!(world.call(leader, read("row", ReadConsistency::Eventual)), LocalOutcome::Refused(_)));
    // The third shows which is right.
    world.start(NodeId(away));
    world.run(3_000);
    assert_eq!((given_up(&world), quarantined(&world)), (vec![odd], vec![]));
    assert_eq!(world.get(away, "row", ReadConsistency::Eventual).as_deref(), Some("2"));
    rebuild(&mut world, odd);
}

#[test]
fn members_that_differ_by_many_kinds_of_work_agree() {
    // No false alarm: restarts, snapshots, expired ids, flushes at other moments.
    let mut world = World::new(3, 3, 1);
    for round in 0..6u64 {
        (0..40).for_each(|number| world.put(&format!("k{}", number % 7), &format!("{round} {number}")));
        let node = round % 3 + 1;
        world.kill(node);
        world.put("meanwhile", "v");
        world.run(800);
        world.start(NodeId(node));
        world.run(3_000);
    }
    world.assert_equal(3);
    assert!(given_up(&world).is_empty());
    assert!((1..=3).all(|node| world.lane(node).statistics().contradictions == 0));
}

#[test]
pub fn a_row_that_rots_under_its_seal_is_found_unasked() {
    let mut world = World::empty(0, 1 << 20);
    world.scrub_round_ms = 100;
    (1..=3).for_each(|id| world.start_blank(NodeId(id), base_types::DiskId(id)));
    for id in 1..=3 {
        let now = world.now;
        assert!(world.lane(id).create_replica(now, spec(id, 3)).unwrap());
    }
    world.run(1_000);
    (0..10).for_each(|number| world.put(&format!("k{number}"), "v"));
    world.run(1_000);
    let odd = world.leader() % 3 + 1;
    flip(&mut world, odd, "k7");
    world.run(10_000);
    assert_eq!(given_up(&world), [odd]);
    rebuild(&mut world, odd);
    assert_eq!(world.get(odd, "k7", ReadConsistency::Eventual).as_deref(), Some("v"));
}

#[test]
fn a_leader_in_the_minority_names_the_others_before_it_gives_way() {
    let mut world = World::new(5, 5, 1 << 20);
    world.put("row", "1");
    world.run(1_000);
    let leader = world.leader();
    // Its verdict would come after the leader's own.
    let odd = (leader + 1..=5).last().expect("a leader that is not the last");
    [leader, odd].iter().for_each(|node| flip(&mut world, *node, "row"));
    let verify = LocalKind::Admin(AdminCommand::Verify { run: None });
    let ticket = world.submit(leader, 5_000, verify);
    world.run(2_000);
    assert!(world.completions.contains_key(&ticket));
    assert_eq!(given_up(&world), [leader, odd]);
}
