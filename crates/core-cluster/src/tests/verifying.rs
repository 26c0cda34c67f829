//! Verifying a cluster on request: members are compared at one index, also under load; members that differ are named.

use super::harness::*;
use crate::api::*;
use base_engine::{EngineRead, KeyRange};
use base_types::{LogIndex, NodeId, ReadConsistency, WriteConsistency};
use bytes::Bytes;
use std::ops::ControlFlow;

fn filled(pairs: usize) -> World {
    let mut world = World::new(3, 3, 1 << 20);
    for number in 0..pairs {
        world.put(&format!("key-{number:03}"), &format!("value {number}"));
    }
    world
}

fn ask(world: &mut World, node: u64, run: Option<u64>, deadline_ms: u64) -> ClusterVerification {
    let ticket = world.submit(node, deadline_ms, LocalKind::Admin(AdminCommand::Verify { run }));
    for _ in 0..60_000 {
        world.run(1);
        match world.completions.remove(&ticket) {
            None => {}
            Some(LocalOutcome::Verified(report)) => return *report,
            Some(other) => panic!("{other:?}"),
        }
    }
    panic!("never answered");
}

fn digests(report: &ClusterVerification) -> Vec<(LogIndex, u64, u64, u64)> {
    let of = |member: &MemberVerification| match member.told {
        Verified::Checked { index, pairs, hash, damaged, .. } => (index, pairs, hash, damaged),
        ref other => panic!("{:?}: {other:?}", member.member),
    };
    report.members.iter().map(of).collect()
}

#[test]
fn equal_members_have_equal_digests_at_one_index() {
    let mut world = filled(60);
    let leader = world.leader();
    let report = ask(&mut world, leader, None, 5_000);
    let found = digests(&report);
    assert!(report.done && report.index.0 > 60);
    assert!(found.windows(2).all(|pair| pair[0] == pair[1]) && found[0].0 == report.index, "{found:?}");
    assert!(found[0].1 > 60 && found[0].3 == 0, "{found:?}");
    // No work is left, and the cluster may become quiescent again.
    world.run(1_000);
    assert!(world.view(leader).unwrap().quiesced);
    world.assert_equal(3);
}

#[test]
fn under_load_they_are_compared_at_one_index_all_the_same() {
    let mut world = filled(20);
    let leader = world.leader();
    let ticket = world.submit(leader, 60_000, LocalKind::Admin(AdminCommand::Verify { run: None }));
    let mut report = None;
    for number in 0..4_000u64 {
        // More than a flush takes in: members are often caught in the middle of one.
        let command = put(&format!("busy-{}", number % 50), &number.to_string().repeat(100));
        world.submit(leader, 5_000, write(u128::from(number), &command, WriteConsistency::Eventual, 1));
        world.run(2);
        if let Some(LocalOutcome::Verified(found)) = world.completions.remove(&ticket) {
            report = Some(found);
            break;
        }
    }
    let report = report.expect("it ends while writes continue");
    let found = digests(&report);
    assert!(found.windows(2).all(|pair| pair[0] == pair[1]), "{found:?}");
}

#[test]
fn one_that_differs_and_one_that_is_damaged_are_told_apart() {
    let mut world = filled(30);
    world.run(1_000);
    let leader = world.leader();
    let others: Vec<u64> = (1..=3).filter(|node| *node != leader).collect();
    let flip = |world: &mut World, node: u64, ending: &str, seal_tells: bool| {
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
        for key in keys {
            assert!(if seal_tells { engine.damage(space, &key) } else { engine.flip_bit(space, &key, 3) });
        }
    };
    flip(&mut world, others[0], "key-011", false);
    flip(&mut world, others[1], "key-012", true);
    let report = ask(&mut world, leader, None, 5_000);
    let found = digests(&report);
    let of = |node: u64| found[report.members.iter().position(|one| one.member.node == NodeId(node)).unwrap()];
    assert!(of(others[0]).2 != of(leader).2 && of(others[0]).3 == 0, "{found:?}");
    assert_eq!((of(others[1]).1 + 1, of(others[1]).3), (of(leader).1, 1), "{found:?}");
    // What it met is mended, though nobody has read it.
    world.run(3_000);
    let again = ask(&mut world, leader, None, 5_000);
    assert!(again.run != report.run);
    let found = digests(&again);
    let of = |node: u64| found[again.members.iter().position(|one| one.member.node == NodeId(node)).unwrap()];
    assert_eq!(of(others[1]), of(leader));
    assert_ne!(of(others[0]).2, of(leader).2, "no checksum shows it, so no member repairs it");
    // Two of three hold the same: the third gives way.
    world.run(100);
    assert_eq!(world.lane(others[0]).statistics().contradictions, 1);
    assert_eq!(world.get(others[1], "key-012", ReadConsistency::Eventual).as_deref(), Some("value 12"));
}

#[test]
fn a_deadline_tells_how_far_it_is_and_the_run_can_be_asked_for_again() {
    let mut world = filled(30);
    let leader = world.leader();
    let down = (1..=3).find(|node| *node != leader).unwrap();
    world.cut.insert(NodeId(down));
    let first = ask(&mut world, leader, None, 2_000);
    assert!(!first.done && first.members.iter().any(|member| !member.told.is_final()));
    let second = ask(&mut world, leader, Some(first.run), 60_000);
    assert!(second.done && second.run == first.run);
    let silent: Vec<NodeId> = second
        .members
        .iter()
        .filter(|member| member.told == Verified::Silent)
        .map(|member| member.member.node)
        .collect();
    assert_eq!(silent, [NodeId(down)]);
    let ticket = world.submit(leader, 2_000, LocalKind::Admin(AdminCommand::Verify { run: Some(1) }));
    world.run(10);
    match world.completions.remove(&ticket) {
        Some(LocalOutcome::Refused(refusal)) => assert_eq!(refusal.code.as_str(), "NotFound"),
        other => panic!("{other:?}"),
    }
}
