//! A removal is granted when those who stay have answered since it was asked for.

use super::harness::*;
use crate::api::*;
use base_types::{NodeId, ReadConsistency};

/// A trio that has fallen quiet: its leader and the two others.
fn quiet_trio() -> (World, u64, [u64; 2]) {
    let mut world = World::new(3, 3, 1 << 20);
    world.put("k", "v");
    world.run(20_000);
    assert!((1..=3).all(|node| world.view(node).unwrap().quiesced));
    let leader = world.leader();
    let others: Vec<u64> = (1..=3).filter(|node| *node != leader).collect();
    (world, leader, [others[0], others[1]])
}

fn remove(world: &mut World, leader: u64, node: u64) -> LocalOutcome {
    world.call(leader, LocalKind::Admin(AdminCommand::RemoveMember { node: NodeId(node) }))
}

pub(crate) fn a_removal_beside_a_silent_death_is_refused() {
    let (mut world, leader, [silent, leaving]) = quiet_trio();
    // No node learns that its connection is gone.
    world.cut.insert(NodeId(silent));
    match remove(&mut world, leader, leaving) {
        LocalOutcome::Refused(refusal) => assert_eq!(refusal.code.as_str(), "QuorumAtRisk"),
        other => panic!("granted: {other:?}"),
    }
    world.put("k", "still written");
    assert_eq!(world.get(leader, "k", ReadConsistency::Strong).as_deref(), Some("still written"));
}

#[test]
fn a_removal_is_refused_beside_a_silent_death() {
    a_removal_beside_a_silent_death_is_refused();
}

/// Its leader is woken by who asks, and nobody has answered it lately (mutant LostHeardOnce refuses each time).
pub(crate) fn a_damaged_member_of_a_quiet_trio_gives_way() {
    let (mut world, leader, [damaged, _]) = quiet_trio();
    let (cluster, now) = (world.view(damaged).unwrap().cluster, world.now);
    let lane = world.lane(damaged);
    lane.with_replica(cluster, |lane, replica| replica.rebuild(lane, "by this test".to_string()));
    lane.wake(now, cluster);
    world.run(3_000);
    let members = world.view(leader).unwrap().members;
    let of_damaged: Vec<u64> =
        members.iter().filter(|member| member.node == NodeId(damaged)).map(|member| member.replica.0).collect();
    assert_eq!(of_damaged, [4], "a new replica takes its place: {members:?}");
}

#[test]
fn a_damaged_member_of_a_quiet_cluster_gives_way() {
    a_damaged_member_of_a_quiet_trio_gives_way();
}

#[test]
fn a_removal_wakes_a_quiet_trio() {
    let (mut world, leader, [_, leaving]) = quiet_trio();
    let outcome = remove(&mut world, leader, leaving);
    assert!(matches!(outcome, LocalOutcome::AdminDone { .. }), "{outcome:?}");
}
