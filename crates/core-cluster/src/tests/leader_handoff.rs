//! Disks without room, and records that rotted: who leads, what is dropped, who is replaced.

use super::harness::*;
use crate::api::*;
use crate::wire::Payload;
use base_engine::{Engine, EngineError};
use base_types::codec::Encode;
use base_types::{Generation, NodeId, ReadConsistency, ReplicaId, WriteConsistency};
use core_log::LogDisk;

/// Writes through the leader, as a router would; returns the node that took it.
fn insist(world: &mut World, request: u128, key: &str, bytes: usize) -> u64 {
    for _ in 0..200 {
        let leader = world.leader();
        let outcome = world.write(leader, request, put(key, &"v".repeat(bytes)), WriteConsistency::Strong);
        match outcome {
            LocalOutcome::Written { .. } => return leader,
            LocalOutcome::NotLeader { .. } | LocalOutcome::Unknown { .. } => world.run(20),
            LocalOutcome::Refused(refusal) if refusal.kind().retryable() => world.run(20),
            other => panic!("{other:?}"),
        }
    }
    panic!("request {request} is never taken");
}

#[test]
fn a_leader_without_room_hands_over_to_a_member_that_has_some() {
    let mut world = World::new(3, 3, 1 << 20);
    let full = insist(&mut world, 1, "k", 1);
    world.lane(full).set_disk_full(true);
    // The best follower has none either: it is asked first, without effect, then the other.
    let also_full = full % 3 + 1;
    world.lane(also_full).set_disk_full(true);
    let taken = insist(&mut world, 2, "k", 1);
    assert!(taken != full && taken != also_full, "{taken} took it; {full} and {also_full} are full");
    world.lane(full).set_disk_full(false);
    world.lane(also_full).set_disk_full(false);
    world.run(1_000);
    world.assert_equal(3);
}

#[test]
fn a_leader_refuses_where_nobody_has_room() {
    let mut world = World::new(3, 3, 1 << 20);
    insist(&mut world, 1, "k", 1);
    (1..=3).for_each(|node| world.lane(node).set_disk_full(true));
    world.run(2_000);
    let leader = world.leader();
    let refused = world.write(leader, 2, put("k", "w"), WriteConsistency::Strong);
    assert!(matches!(&refused, LocalOutcome::Refused(refusal) if refusal.code.as_str() == "DiskFull"), "{refused:?}");
    assert_eq!(world.get(leader, "k", ReadConsistency::Strong).as_deref(), Some("v"));
}

#[test]
fn a_log_without_segments_moves_the_lead_and_writes_go_on() {
    let mut world = World::new(3, 3, 1 << 20);
    let full = insist(&mut world, 1, "k", 1);
    let node = world.node(full);
    node.engine_stalled = true;
    node.disk.files_max = node.disk.files().len();
    let takers: Vec<u64> = (2..60).map(|request| insist(&mut world, request, "k", 40_000)).collect();
    assert!(takers.last().is_some_and(|last| *last != full), "{takers:?}");
}

#[test]
fn a_space_is_dropped_while_a_flush_waits_for_room() {
    let mut world = World::new(3, 3, 1 << 20);
    world.put("k", "v");
    world.run(500);
    let now = world.now;
    let other = ReplicaSpec { cluster: base_types::ClusterId(2000), ..spec(1, 1) };
    assert!(world.lane(1).create_replica(now, other).unwrap());
    world.run(1_000);
    assert_eq!(world.node(1).engine.spaces().unwrap().len(), 2);
    for _ in 0..40 {
        world.node(1).engine.fail_next_write(EngineError::Full("test".into()));
    }
    world.put("k", "w");
    world.run(300);
    assert!(world.lane(1).is_starved());
    let now = world.now;
    assert!(world.lane(1).destroy_replica(now, base_types::ClusterId(2000), Generation(1)));
    world.run(200);
    assert!(world.lane(1).is_starved());
    assert_eq!(world.node(1).engine.spaces().unwrap().len(), 1);
}

#[test]
fn a_replica_whose_record_rotted_is_noticed_and_replaced() {
    let mut world = World::new(3, 3, 1 << 20);
    (0..5).for_each(|number| world.put(&format!("k{number}"), "v"));
    world.run(500);
    let lost = world.leader() % 3 + 1;
    world.kill(lost);
    rot_everywhere(&mut world, lost, b"metadata@test");
    let notes = world.start(NodeId(lost));
    assert!(notes.iter().any(|note| note.contains(&format!("its replica {lost} rotted"))), "{notes:?}");
    let now = world.now;
    let again = world.lane(lost).create_replica(now, spec(lost, 3)).unwrap_err();
    assert_eq!(again.code.as_str(), "ReplicaDamaged");
    let blank = |replica| ReplicaSpec { replica, initial_members: Default::default(), ..spec(lost, 3) };
    assert!(world.lane(lost).create_replica(now, blank(ReplicaId(lost))).is_err());
    world.put("k9", "v");
    world.run(1_000);
    let leader = world.leader();
    let members = world.view(leader).unwrap().members;
    let new = members.iter().find(|member| member.node == NodeId(lost)).unwrap().replica;
    assert!(new > ReplicaId(lost), "{members:?}");
    let now = world.now;
    assert!(world.lane(lost).create_replica(now, blank(new)).unwrap());
    world.run(3_000);
    world.assert_equal(3);
    // And nothing of the lost one comes back.
    world.kill(lost);
    let notes = world.start(NodeId(lost));
    assert!(notes.iter().all(|note| !note.contains("rotted beyond repair")), "{notes:?}");
    world.run(1_000);
    world.assert_equal(3);
}

/// No record says which replica it was (simulator, 2693): the leader does, once it is confirmed to lead.
#[test]
fn a_replica_of_which_every_record_rotted_is_replaced_by_one_that_it_cannot_have_been() {
    let mut world = World::new(3, 3, 1 << 20);
    (0..5).for_each(|number| world.put(&format!("k{number}"), "v"));
    world.run(500);
    let lost = world.leader() % 3 + 1;
    let cluster = spec(lost, 3).cluster;
    let hard = world.lane(lost).context.log.borrow().state(cluster, core_raft::STATE_HARD).unwrap();
    world.kill(lost);
    rot_everywhere(&mut world, lost, b"metadata@test");
    rot_everywhere(&mut world, lost, &hard);
    let notes = world.start(NodeId(lost));
    assert!(notes.iter().any(|note| note.contains("and which replica it was")), "{notes:?}");
    let blank = |replica| ReplicaSpec { replica, initial_members: Default::default(), ..spec(lost, 3) };
    let now = world.now;
    // Not known: none is made, and of one life none is taken for another's.
    assert!((1..9).all(|id| world.lane(lost).create_replica(now, blank(ReplicaId(id))).is_err()));
    let told = Payload::FloorTold { replica: ReplicaId(3), life: 77 }.to_bytes();
    world.lane(lost).on_peer_message(now, NodeId(lost % 3 + 1), cluster, Generation(1), told);
    assert!(world.lane(lost).create_replica(now, blank(ReplicaId(4))).is_err(), "an answer to another life");
    world.put("k9", "v");
    world.run(1_000);
    let leader = world.leader();
    let members = world.view(leader).unwrap().members;
    let new = members.iter().find(|member| member.node == NodeId(lost)).unwrap().replica;
    assert!(new > ReplicaId(3), "{members:?}");
    let now = world.now;
    assert!(
        (1..=3).all(|id| world.lane(lost).create_replica(now, blank(ReplicaId(id))).is_err()),
        "it may be that one"
    );
    assert!(world.lane(lost).create_replica(now, blank(new)).unwrap());
    world.run(3_000);
    world.assert_equal(3);
}

fn rot_everywhere(world: &mut World, node: u64, needle: &[u8]) {
    let disk = &mut world.node(node).disk;
    for (segment, bytes) in disk.segments().unwrap() {
        let image = disk.read(segment, 0, bytes as usize).unwrap();
        let hits = (0..image.len() - needle.len()).filter(|at| &image[*at..*at + needle.len()] == needle);
        hits.collect::<Vec<_>>().into_iter().for_each(|at| disk.rot(segment, at as u64, 3));
    }
}

/// Who leads after so many ticks, and that it is one.
fn leads_after(world: &mut World, ms: u64) -> u64 {
    world.run(ms);
    world.leader()
}

#[test]
pub fn a_drained_node_leads_nothing_where_others_can() {
    let mut world = World::new(3, 3, 1 << 20);
    let first = insist(&mut world, 1, "k", 1);
    // Quiet: without ticks nothing would be handed over.
    world.run(20_000);
    world.drain(first, true);
    assert_eq!(world.lane(first).hand_overs_due(), 1);
    let second = leads_after(&mut world, 1_000);
    assert_ne!(second, first, "a drained node leads on");
    assert_eq!(world.lane(first).hand_overs_due(), 0);
    insist(&mut world, 2, "k", 1);
    // The other one without leadership is drained, too: it does not take over.
    let third = 6 - first - second;
    world.drain(third, true);
    world.drain(second, true);
    let alone = leads_after(&mut world, 3_000);
    assert_eq!(alone, second, "nobody may lead, so who led leads on");
    assert_eq!(world.lane(second).hand_overs_due(), 0, "all were asked, and none took over");
    insist(&mut world, 3, "k", 1);
    // Not drained any more, the first one takes over when it is asked next.
    world.drain(first, false);
    assert_eq!(leads_after(&mut world, 40_000), first);
    world.assert_equal(3);
}

#[test]
fn a_drained_node_leads_on_where_nobody_else_can() {
    let mut world = World::new(3, 3, 1 << 20);
    let leader = insist(&mut world, 1, "k", 1);
    let others: Vec<u64> = (1..=3).filter(|node| *node != leader).collect();
    world.kill(others[0]);
    world.drain(leader, true);
    // Two of three are up: the other one takes over.
    let next = leads_after(&mut world, 2_000);
    assert_eq!(next, others[1]);
    world.drain(others[1], true);
    assert_eq!(leads_after(&mut world, 2_000), others[1]);
    insist(&mut world, 2, "k", 1);
}
