//! A cluster whose majority is gone for good begins a new life on a survivor; members of the life before that come back end.

use super::harness::*;
use crate::api::*;
use base_types::{
    best_survivor, Generation, LogIndex, NodeId, ReadConsistency, ReplicaId, Survivor, SurvivorState, WriteConsistency,
};

fn survivor(world: &mut World, node: u64) -> Survivor {
    world.lane(node).survivor(CLUSTER).expect("it holds a replica")
}

/// Has the next life begin on the best of these nodes.
fn recover(world: &mut World, nodes: &[u64]) -> u64 {
    let survivors: Vec<Survivor> = nodes.iter().map(|node| survivor(world, *node)).collect();
    let best = best_survivor(&survivors, Generation(1)).expect("one of them can").clone();
    let life = NewLife { cluster: CLUSTER, replica: best.replica, from: Generation(1), to: Generation(2) };
    let now = world.now;
    assert_eq!(world.lane(best.node.0).begin_life(now, life), Ok(true));
    assert_eq!(world.lane(best.node.0).begin_life(now, life), Ok(false), "it has begun");
    world.generation = Generation(2);
    best.node.0
}

/// Three members; one that has what was acknowledged last, and whose two fellows are gone.
fn bereft() -> (World, u64, [u64; 2]) {
    let mut world = World::new(3, 3, 1 << 20);
    for number in 0..20 {
        world.put(&format!("k{number}"), "v");
    }
    world.run(1_000);
    let leader = world.leader();
    let survivor = (1..=3).find(|node| *node != leader).unwrap();
    let gone: Vec<u64> = (1..=3).filter(|node| *node != survivor).collect();
    gone.iter().for_each(|node| world.kill(*node));
    world.run(3_000);
    assert!(!world.view(survivor).unwrap().is_leader, "one of three leads nothing");
    (world, survivor, [gone[0], gone[1]])
}

fn ended(world: &World, node: u64) -> bool {
    world.view(node).is_some_and(|view| view.ended == Generation(2) && !view.is_leader && view.leader.is_none())
}

pub(crate) fn a_survivor_goes_on_alone_and_old_members_end() {
    let (mut world, alone, gone) = bereft();
    assert_eq!(recover(&mut world, &[alone]), alone);
    world.run(3_000);
    assert_eq!(world.leaders(), [alone]);
    assert_eq!(world.get(alone, "k19", ReadConsistency::Strong).as_deref(), Some("v"));
    world.put("after", "the loss");
    // Both come back at once: they were a majority.
    gone.iter().for_each(|node| drop(world.start(NodeId(*node))));
    world.run(5_000);
    assert!(gone.iter().all(|node| ended(&world, *node)), "the life before has ended on both");
    assert_eq!(world.leaders(), [alone]);
    for (node, level) in gone.iter().zip([ReadConsistency::Strong, ReadConsistency::Eventual]) {
        let outcome = world.call_of_life(*node, Generation(1), read("k1", level));
        assert_eq!(outcome, LocalOutcome::NoSuchCluster, "an ended replica answers nothing");
    }
    // Nor after a restart, met with nobody.
    world.kill(alone);
    gone.iter().for_each(|node| world.kill(*node));
    gone.iter().for_each(|node| drop(world.start(NodeId(*node))));
    world.run(5_000);
    assert!(gone.iter().all(|node| ended(&world, *node)) && world.leaders().is_empty());
    world.start(NodeId(alone));
    world.run(5_000);
    assert_eq!(world.get(alone, "after", ReadConsistency::Strong).as_deref(), Some("the loss"));
}

#[test]
fn a_survivor_begins_alone_and_old_members_end() {
    a_survivor_goes_on_alone_and_old_members_end();
}

pub(crate) fn ended_data_is_kept_until_it_is_discarded() {
    let (mut world, alone, gone) = bereft();
    recover(&mut world, &[alone]);
    world.run(3_000);
    gone.iter().for_each(|node| drop(world.start(NodeId(*node))));
    world.run(3_000);
    let before = survivor(&mut world, gone[0]);
    assert_eq!(before.state, SurvivorState::Ended);
    assert!(before.last >= LogIndex(21), "it has its log: {before:?}");
    // A member of the new life is not made over it.
    let joins = |world: &mut World, node: u64| {
        let (now, replica) = (world.now, ReplicaId(2_000 + node));
        let spec =
            ReplicaSpec { generation: Generation(2), replica, initial_members: Default::default(), ..spec(node, 3) };
        world.lane(node).create_replica(now, spec)
    };
    assert_eq!(joins(&mut world, gone[0]).map_err(|refusal| refusal.code.as_str()), Err("EndedLifeKept"));
    world.run(1_000);
    assert_eq!(survivor(&mut world, gone[0]), before, "nothing of it has changed");
    let now = world.now;
    assert!(world.lane(gone[0]).destroy_replica(now, CLUSTER, Generation(1)));
    assert_eq!(joins(&mut world, gone[0]), Ok(true));
}

#[test]
fn ended_data_stays_until_it_is_discarded() {
    ended_data_is_kept_until_it_is_discarded();
}

/// A change of members that the survivor has in its log and never saw committed, the one that would make others the majority.
pub(crate) fn members_of_the_log_s_end_stay_outside() {
    let mut world = World::new(4, 3, 1 << 20);
    world.put("k", "v");
    world.run(1_000);
    let leader = world.leader();
    let others: Vec<u64> = (1..=3).filter(|node| *node != leader).collect();
    // Its fellows hear no more; the leader logs a member that joins, and dies with them.
    others.iter().for_each(|node| world.kill(*node));
    let change = AdminCommand::AddMember { node: NodeId(4), disk: base_types::DiskId(4) };
    world.submit(leader, 20_000, LocalKind::Admin(change));
    world.submit(leader, 20_000, write(77, &put("tail", "kept"), WriteConsistency::Strong, 0));
    world.run(50);
    let held = survivor(&mut world, leader);
    assert!(held.last > held.commit, "there is a tail: {held:?}");
    recover(&mut world, &[leader]);
    world.run(3_000);
    let view = world.view(leader).unwrap();
    assert!(view.is_leader && view.members.len() == 1, "alone, whatever its log says: {:?}", view.members);
    // Killed before anything was flushed, and after.
    for millis in [0, 3_000] {
        world.run(millis);
        world.kill(leader);
        world.start(NodeId(leader));
        world.run(3_000);
        let view = world.view(leader).unwrap();
        assert!(view.is_leader && view.members.len() == 1, "after a restart too: {:?}", view.members);
        assert_eq!(world.get(leader, "k", ReadConsistency::Strong).as_deref(), Some("v"));
    }
    // The new life grows like any cluster.
    let change = AdminCommand::AddMember { node: NodeId(4), disk: base_types::DiskId(4) };
    let asked = world.submit(leader, 20_000, LocalKind::Admin(change));
    world.run(200);
    let added = world.view(leader).unwrap().members.iter().find(|member| member.node == NodeId(4)).copied();
    let added = added.expect("it joins as a learner");
    assert!(added.replica > ReplicaId(1_000), "ids of the life before are passed over: {added:?}");
    let spec = ReplicaSpec {
        generation: Generation(2),
        replica: added.replica,
        initial_members: Default::default(),
        ..spec(4, 3)
    };
    let now = world.now;
    assert_eq!(world.lane(4).create_replica(now, spec), Ok(true));
    world.run(5_000);
    assert!(matches!(world.completions.remove(&asked), Some(LocalOutcome::AdminDone { .. })));
    let hashes: Vec<_> = [leader, 4].map(|node| world.lane(node).state_hash(CLUSTER)).to_vec();
    assert_eq!(hashes[0], hashes[1], "the newcomer holds the same");
}

#[test]
fn members_of_a_recovered_log_stay_outside() {
    members_of_the_log_s_end_stay_outside();
}

/// A write under an id that the life before gave out, logged there and applied in the next one (simulator, 423).
pub(crate) fn ids_of_the_life_before_hold_for_its_entries() {
    let mut world = World::new(3, 3, 1 << 20);
    world.put("k", "v");
    world.run(1_000);
    let leader = world.leader();
    let applied = world.view(leader).unwrap().applied;
    (1..=3).filter(|node| *node != leader).for_each(|node| world.kill(node));
    let id = base_types::RequestId::issued(CLUSTER, Generation(1), applied, 9).unwrap();
    world.submit(leader, 20_000, write(id.0, &put("tail", "kept"), WriteConsistency::Strong, 0));
    world.run(50);
    recover(&mut world, &[leader]);
    world.run(3_000);
    assert_eq!(world.get(leader, "tail", ReadConsistency::Strong).as_deref(), Some("kept"));
    // Applied again after a restart it means the same.
    world.kill(leader);
    world.start(NodeId(leader));
    world.run(3_000);
    assert_eq!(world.get(leader, "tail", ReadConsistency::Strong).as_deref(), Some("kept"));
}

#[test]
fn ids_of_the_life_before_are_applied() {
    ids_of_the_life_before_hold_for_its_entries();
}

pub(crate) fn nothing_a_survivor_of_the_majority_holds_is_lost() {
    // Five members, the last write on a bare majority; two of five live on, one of them with it.
    let mut world = World::new(5, 5, 1 << 20);
    world.put("k", "v");
    world.run(1_000);
    let leader = world.leader();
    let others: Vec<u64> = (1..=5).filter(|node| *node != leader).collect();
    others[2..].iter().for_each(|node| world.kill(*node));
    world.put("last", "acknowledged by three");
    world.run(500);
    let (with_it, without) = (others[0], others[2]);
    [leader, others[1], with_it].iter().for_each(|node| world.kill(*node));
    world.start(NodeId(with_it));
    world.start(NodeId(without));
    world.run(3_000);
    assert_eq!(recover(&mut world, &[without, with_it]), with_it, "the one with the longer log");
    world.run(3_000);
    assert_eq!(world.get(with_it, "last", ReadConsistency::Strong).as_deref(), Some("acknowledged by three"));
    assert!(ended(&world, without), "a survivor that was not chosen ends as well");
}

#[test]
fn the_best_survivor_keeps_what_was_acknowledged() {
    nothing_a_survivor_of_the_majority_holds_is_lost();
}

#[test]
fn those_who_know_of_the_new_life_are_quiet() {
    let (mut world, alone, gone) = bereft();
    recover(&mut world, &[alone]);
    world.run(3_000);
    gone.iter().for_each(|node| drop(world.start(NodeId(*node))));
    world.run(5_000);
    assert!(gone.iter().all(|node| ended(&world, *node)));
    // Told once more, as when a connection comes back.
    let now = world.now;
    gone.iter().for_each(|node| world.lane(alone).on_peer_up(now, NodeId(*node)));
    let sent = |world: &mut World| (1..=3).map(|node| world.lane(node).statistics().messages_sent).sum::<u64>();
    let before = sent(&mut world);
    world.run(5_000);
    let after = sent(&mut world);
    assert!(after - before < 20, "{} messages where nothing happens", after - before);
}

/// The chosen survivor has the longest log and damaged rows: nobody else's rows are thrown away.
pub(crate) fn sound_rows_outlive_a_rotten_survivor() {
    let (mut world, alone, _) = bereft();
    let mut rotten = survivor(&mut world, alone);
    let sound = Survivor { node: NodeId(9), ..rotten.clone() };
    assert!(sound.adds_nothing_to(&rotten), "the same log and sound rows");
    rotten.state = SurvivorState::Mending;
    assert_eq!(best_survivor(&[rotten.clone(), sound.clone()], Generation(1)), Some(&sound));
    assert!(!sound.adds_nothing_to(&rotten), "it is the only one with sound rows");
}

#[test]
fn sound_rows_of_a_survivor_are_kept() {
    sound_rows_outlive_a_rotten_survivor();
}

#[test]
fn a_replica_that_is_not_whole_begins_nothing() {
    let (mut world, alone, _) = bereft();
    let (now, replica) = (world.now, survivor(&mut world, alone).replica);
    let life = NewLife { cluster: CLUSTER, replica, from: Generation(1), to: Generation(2) };
    let refused =
        |world: &mut World, life| world.lane(alone).begin_life(now, life).map_err(|refusal| refusal.code.as_str());
    assert_eq!(refused(&mut world, NewLife { replica: ReplicaId(9), ..life }), Err("SurvivorGone"));
    assert_eq!(refused(&mut world, NewLife { from: Generation(2), to: Generation(3), ..life }), Err("SurvivorUnfit"));
    world.lane(alone).damage_for_test(CLUSTER);
    assert_eq!(refused(&mut world, life), Err("SurvivorUnfit"));
    assert!(world.lane(alone).end_life(now, CLUSTER, Generation(2)));
    assert_eq!(refused(&mut world, life), Err("SurvivorUnfit"));
    assert!(!world.lane(alone).end_life(now, CLUSTER, Generation(2)), "once");
}
