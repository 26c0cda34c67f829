//! Writes whose deadline is nearer than commits take now.

use super::harness::*;
use crate::api::*;
use base_types::{ErrorCode, Outcome, Ticket, WriteConsistency};

/// How long the disks wait: shorter than a stall of the log that moves the lead.
const STALL_MS: u64 = 60;

fn submit(world: &mut World, deadline_ms: u64, request: u128, level: WriteConsistency) -> Ticket {
    let (leader, command) = (world.leader(), put(&format!("k{request}"), "v"));
    let ticket = world.submit(leader, deadline_ms, write(request, &command, level, 0));
    world.run(1);
    match world.completions.get(&ticket) {
        // As a router would.
        Some(LocalOutcome::StaleRoute { cluster_time_ms }) => {
            world.submit(leader, deadline_ms, write(request, &command, level, *cluster_time_ms))
        }
        _ => ticket,
    }
}

fn stall(world: &mut World, stalled: bool) {
    (1..=3).for_each(|node| world.node(node).disk_stalled = stalled);
}

fn refused(world: &mut World, ticket: Ticket) -> bool {
    world.run(1);
    match world.completions.get(&ticket) {
        Some(LocalOutcome::Refused(refusal)) => {
            assert_eq!(refusal.code, ErrorCode::Overloaded, "{refusal:?}");
            assert_eq!(refusal.outcome(), Outcome::NotApplied, "nothing of it is done");
            true
        }
        _ => false,
    }
}

#[test]
fn writes_with_less_time_than_commits_take_are_refused() {
    let mut world = World::new(3, 3, 1 << 20);
    world.put("before", "v");
    stall(&mut world, true);
    let patient = submit(&mut world, 5_000, 1, WriteConsistency::Strong);
    world.run(STALL_MS);
    let (short, long) = (
        submit(&mut world, STALL_MS / 2, 2, WriteConsistency::Strong),
        submit(&mut world, 5_000, 3, WriteConsistency::Strong),
    );
    // It is acknowledged before it is committed.
    let hopeful = submit(&mut world, STALL_MS / 2, 4, WriteConsistency::Hopeful);
    assert!(refused(&mut world, short));
    assert!(!refused(&mut world, long) && !refused(&mut world, hopeful));
    stall(&mut world, false);
    world.run(100);
    for ticket in [patient, long, hopeful] {
        assert!(matches!(world.completions.get(&ticket), Some(LocalOutcome::Written { .. })), "{ticket:?}");
    }
    let leader = world.leader();
    assert_eq!(world.get(leader, "k2", base_types::ReadConsistency::Strong), None, "what was refused is not applied");
}

#[test]
fn writes_are_taken_again_after_a_stall() {
    let mut world = World::new(3, 3, 1 << 20);
    world.put("before", "v");
    stall(&mut world, true);
    submit(&mut world, 5_000, 1, WriteConsistency::Strong);
    world.run(STALL_MS);
    stall(&mut world, false);
    // The slow commit is the last one that is known, until it is old.
    world.run(300);
    let next = submit(&mut world, STALL_MS / 2, 2, WriteConsistency::Strong);
    assert!(!refused(&mut world, next));
    world.run(100);
    assert!(matches!(world.completions.get(&next), Some(LocalOutcome::Written { .. })));
}
