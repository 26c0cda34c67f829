//! Clocks that stand still, and disks that end no write: who may read, who leads, who is blamed.

use super::harness::*;
use crate::api::*;
use crate::Lane;
use base_types::{Generation, NodeId, ReadConsistency, Tick, Ticket, WriteConsistency};
use std::time::Duration;

/// One election timeout of the harness's lanes.
const ELECTION_MS: u64 = 100;

fn world_with(read_leases: bool) -> World {
    let mut world = World::empty(0, 1 << 20);
    world.read_leases = read_leases;
    (1..=3).for_each(|id| world.start_blank(NodeId(id), base_types::DiskId(id)));
    for id in 1..=3 {
        let now = world.now;
        assert!(world.lane(id).create_replica(now, spec(id, 3)).unwrap());
    }
    world.run(1_000);
    world
}

/// What a member promises begins when it hears the question: a lease that ran from the answer would outlive it by the way back.
#[test]
pub fn a_lease_runs_from_when_its_round_was_asked_for() {
    // Eight ticks of which 85 % count, and each way takes a millisecond.
    const LEASE_MS: u64 = 68;
    const THERE_AND_BACK_MS: u64 = 2;
    let mut world = world_with(true);
    world.put("k", "v");
    let leader = world.leader();
    let (mut before, mut renewed) = (Tick(0), 0);
    for step in 0..500 {
        if step % 5 == 0 {
            world.submit(leader, 1_000, read("k", ReadConsistency::Strong));
        }
        world.run(1);
        let until = world.lane(leader).glances().iter().find(|glance| glance.cluster == CLUSTER).unwrap().lease_until;
        if until > before {
            let most = world.now + Duration::from_millis(LEASE_MS - THERE_AND_BACK_MS);
            assert!(until <= most, "at {:?} it lasts until {until:?}", world.now);
            (before, renewed) = (until, renewed + 1);
        }
    }
    assert!(renewed > 5, "{renewed} leases: the test shows nothing");
}

/// The leader's machine is held, and its clock with it, while others elect and write. What it says to a strong read
/// five milliseconds of its own time later, cut off, in the turn in which it is asked or the ten turns after.
fn read_after_hold(world: &mut World) -> Option<LocalOutcome> {
    world.put("k", "old");
    let leader = world.leader();
    for _ in 0..2 {
        assert_eq!(world.get(leader, "k", ReadConsistency::Strong).as_deref(), Some("old"));
    }
    let held_at = world.now;
    let mut lane = world.node(leader).lane.take().unwrap();
    for other in (1..=3).filter(|node| *node != leader) {
        let now = world.now;
        world.lane(other).on_peer_down(now, NodeId(leader));
    }
    world.cut.insert(NodeId(leader));
    world.run(2_000);
    world.put("k", "new");
    ask_after(&mut lane, held_at + Duration::from_millis(5))
}

fn ask_after(lane: &mut Lane, at: Tick) -> Option<LocalOutcome> {
    let ticket = Ticket(999_999);
    let (deadline, kind) = (at + Duration::from_secs(1), read("k", ReadConsistency::Strong));
    lane.submit(at, LocalOperation { ticket, cluster: CLUSTER, generation: Generation(1), deadline, kind });
    let mut answers = (0..10).flat_map(|turn| lane.finish_turn(at + Duration::from_millis(turn)).completions);
    answers.find(|completion| completion.ticket == ticket).map(|completion| completion.outcome)
}

#[test]
pub fn a_leader_without_leases_reads_nothing_old_after_a_hold() {
    let answered = read_after_hold(&mut world_with(false));
    assert_eq!(answered, None, "cut off, no round of it comes back");
}

/// What leases do not survive, and the guide says so (docs/guides/clocks.md). This test is here to notice the day that
/// it is no longer true.
#[test]
fn a_leader_with_leases_is_deceived_by_a_hold() {
    let answered = read_after_hold(&mut world_with(true));
    assert!(matches!(answered, Some(LocalOutcome::Read { .. })), "{answered:?}");
}

/// A suspend, as the boot clock shows it: the process stops, the clock does not.
#[test]
fn a_leader_with_leases_reads_nothing_old_after_a_suspend() {
    let mut world = world_with(true);
    world.put("k", "old");
    let leader = world.leader();
    assert_eq!(world.get(leader, "k", ReadConsistency::Strong).as_deref(), Some("old"));
    let mut lane = world.node(leader).lane.take().unwrap();
    for other in (1..=3).filter(|node| *node != leader) {
        let now = world.now;
        world.lane(other).on_peer_down(now, NodeId(leader));
    }
    world.cut.insert(NodeId(leader));
    world.run(2_000);
    world.put("k", "new");
    let answered = ask_after(&mut lane, world.now);
    assert!(!matches!(answered, Some(LocalOutcome::Read { .. })), "{answered:?}");
}

#[test]
fn strong_reads_without_leases_share_a_round() {
    let mut world = world_with(false);
    world.put("k", "v");
    let leader = world.leader();
    let tickets: Vec<_> = (0..50).map(|_| world.submit(leader, 2_000, read("k", ReadConsistency::Strong))).collect();
    world.run(10);
    for ticket in tickets {
        assert!(matches!(world.completions.remove(&ticket), Some(LocalOutcome::Read { .. })));
    }
    let counted = world.lane(leader).statistics();
    assert_eq!((counted.reads_lease, counted.reads_index), (0, 50));
    // Each round is a heartbeat to each of two followers: fifty reads do not take fifty.
    let sent = counted.messages_sent;
    for _ in 0..50 {
        world.submit(leader, 2_000, read("k", ReadConsistency::Strong));
    }
    world.run(5);
    assert!(world.lane(leader).statistics().messages_sent - sent <= 8);
}

/// A write through the leader is under way and the leader's disk ends nothing.
fn stall_the_leader(world: &mut World) -> u64 {
    world.put("k", "v");
    let leader = world.leader();
    world.node(leader).disk_stalled = true;
    let time = world.view(leader).unwrap().cluster_time_ms;
    world.submit(leader, 10_000, write(77, &put("k", "w"), WriteConsistency::Strong, time));
    leader
}

#[test]
pub fn a_leader_with_a_stalled_disk_hands_over_within_two_elections() {
    let mut world = World::new(3, 3, 1 << 20);
    let stalled = stall_the_leader(&mut world);
    world.run(2 * ELECTION_MS);
    let now = world.leader();
    assert_ne!(now, stalled);
    world.put("after", "x");
    assert_eq!(world.lane(stalled).statistics().log_stalls, 1);
    world.node(stalled).disk_stalled = false;
    world.run(1_000);
    world.assert_equal(3);
    assert_eq!(world.leader(), now, "it does not come back by itself");
}

/// Members that miss the hand-over's request are not waited for.
#[test]
fn a_leader_with_a_stalled_disk_steps_down_where_nobody_takes_over() {
    let mut world = World::new(3, 3, 1 << 20);
    world.lost = |payload| matches!(payload, crate::wire::Payload::Raft(message) if message.kind() == core_raft::MessageKind::TimeoutNow);
    let stalled = stall_the_leader(&mut world);
    world.run(6 * ELECTION_MS);
    assert_ne!(world.leader(), stalled);
    world.put("after", "x");
}

#[test]
fn a_stalled_leader_stays_where_the_others_are_no_majority() {
    let mut world = World::new(3, 3, 1 << 20);
    world.put("k", "v");
    let leader = world.leader();
    world.kill(leader % 3 + 1);
    world.run(500);
    let stalled = stall_the_leader(&mut world);
    world.run(20 * ELECTION_MS);
    assert_eq!((stalled, world.leader()), (leader, leader));
    assert_eq!(world.get(leader, "k", ReadConsistency::Strong).as_deref(), Some("v"));
    world.node(stalled).disk_stalled = false;
    world.run(500);
    assert_eq!(world.get(leader, "k", ReadConsistency::Strong).as_deref(), Some("w"));
}

/// The writes of each leader take one and a half election timeouts: leadership must not go round with each. (Where all
/// disks are so slow, followers' answers come as late and the library's quorum check takes the lead away, as it always did.)
#[test]
fn slow_disks_do_not_pass_leadership_round() {
    let mut world = World::new(3, 3, 1 << 20);
    world.put("k", "v");
    let mut terms = Vec::new();
    for round in 0..40_u64 {
        let leader = world.leader();
        world.node(leader).disk_stalled = true;
        let time = world.view(leader).unwrap().cluster_time_ms;
        let key = format!("k{round}");
        world.submit(leader, 5_000, write(u128::from(1_000 + round), &put(&key, "v"), WriteConsistency::Strong, time));
        world.run(ELECTION_MS * 3 / 2);
        world.node(leader).disk_stalled = false;
        world.run(5 * ELECTION_MS);
        let leader = world.leader();
        terms.push(world.view(leader).unwrap().term.0);
    }
    let changes = terms.last().unwrap() - terms.first().unwrap();
    assert!(changes <= 6, "terms {terms:?}");
    let later = &terms[terms.len() / 2..];
    assert!(later.windows(2).all(|pair| pair[0] == pair[1]), "leadership has come to rest: {terms:?}");
}

#[test]
fn a_stalled_disk_fails_the_log_at_its_time() {
    let mut world = World::new(3, 1, 1 << 20);
    let stalled = stall_the_leader(&mut world);
    world.run(4_900);
    assert!(!world.notices.iter().any(|(_, notice)| matches!(notice, Notice::LogFailed { .. })));
    world.run(200);
    let failed =
        |(node, notice): &(NodeId, Notice)| *node == NodeId(stalled) && matches!(notice, Notice::LogFailed { .. });
    assert!(world.notices.iter().any(failed));
}

/// A6: a stopped process blamed its disk for the time in which it did not run.
#[test]
pub fn a_process_that_was_stopped_does_not_blame_its_disk() {
    let mut world = World::new(3, 3, 1 << 20);
    let stopped = stall_the_leader(&mut world);
    world.run(1);
    let lane = world.node(stopped).lane.take().unwrap();
    world.run(20_000);
    world.node(stopped).lane = Some(lane);
    world.run(1);
    world.node(stopped).disk_stalled = false;
    world.run(2_000);
    assert!(!world.notices.iter().any(|(_, notice)| matches!(notice, Notice::LogFailed { .. })));
    world.put("after", "x");
    world.run(1_000);
    world.assert_equal(3);
}
