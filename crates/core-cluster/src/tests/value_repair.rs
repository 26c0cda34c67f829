//! Pairs that an engine says are damaged: found by reads, by applying, by snapshots and by the scrub, and
//! mended from the other members.

use super::basics::replace_member;
use super::harness::*;
use crate::api::*;
use crate::meta::ClusterMeta;
use crate::replica::admin::ChangeContext;
use crate::wire::Payload;
use base_engine::EngineRead;
use base_types::codec::Encode;
use base_types::{LogIndex, NodeId, ReadConsistency, ReplicaId, Term, WriteConsistency};
use bytes::Bytes;
use core_backends::metadata::{Command, Reply};
use core_log::LogEntry;
use core_raft::{entry_kind, ChangeKind, Membership};

const KEYS: usize = 40;

fn key(number: usize) -> String {
    format!("key-{number:03}")
}

/// Three members with some pairs, all of them in the engines.
fn written_out() -> World {
    let mut world = World::new(3, 3, 1 << 20);
    for number in 0..KEYS {
        world.put(&key(number), &format!("value {number}"));
    }
    world.run(1_000);
    world
}

/// The raw keys of the cluster's space on a node that end in this.
fn raw(world: &mut World, node: u64, ending: &str) -> (base_types::SpaceId, Vec<Bytes>) {
    let space = world.view(node).unwrap().space;
    let mut keys = Vec::new();
    let engine = world.node(node).engine.clone();
    engine
        .walk(space, base_engine::KeyRange::ALL, &mut |key, _| {
            if key.ends_with(ending.as_bytes()) {
                keys.push(Bytes::copy_from_slice(key));
            }
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    (space, keys)
}

fn damage(world: &mut World, node: u64, ending: &str) {
    let (space, keys) = raw(world, node, ending);
    assert!(!keys.is_empty(), "no key ends in {ending}");
    for key in keys {
        assert!(world.node(node).engine.damage(space, &key));
    }
}

fn counted(world: &mut World, node: u64) -> LaneStatistics {
    world.lane(node).statistics()
}

fn is_whole(world: &mut World) -> bool {
    world.nodes.values().all(|node| node.engine.damaged().is_empty())
}

/// A bit flips in a stored key (mutant AbsenceUnsealed answers that there is none).
#[test]
pub fn a_key_that_a_flipped_bit_took_is_never_told_absent() {
    let mut world = written_out();
    let leader = world.leader();
    let (space, keys) = raw(&mut world, leader, &key(7));
    let (_, all) = raw(&mut world, leader, "");
    let place = all.iter().position(|one| *one == keys[0]).unwrap();
    // A bit in the middle of the name: it sorts elsewhere.
    let bit = (keys[0].len() - 6) * 8 + 5;
    assert_eq!(world.node(leader).engine.flip_key_any(space, place, bit), Some(keys[0].clone()));
    for asked in [key(7), "key-007x".into()] {
        let answer = world.call(leader, read(&asked, ReadConsistency::Eventual));
        assert!(matches!(answer, LocalOutcome::NotLeader { .. }), "{asked}: {answer:?}");
    }
}

#[test]
fn a_read_that_meets_damage_is_served_elsewhere_and_the_pair_is_mended() {
    let mut world = written_out();
    let leader = world.leader();
    for node in 1..=3 {
        damage(&mut world, node, &key(node as usize));
        let level = ReadConsistency::Eventual;
        // No client learns that it is corrupt: another member has it.
        let first = world.call(node, read(&key(node as usize), level));
        assert!(matches!(first, LocalOutcome::NotLeader { .. }), "{first:?}");
        world.run(200);
        assert_eq!(world.get(node, &key(node as usize), level), Some(format!("value {node}")));
    }
    assert_eq!(world.get(leader, &key(leader as usize), ReadConsistency::Strong), Some(format!("value {leader}")));
    world.run(2_000);
    assert!(is_whole(&mut world), "the repair reaches the engines");
    for node in 1..=3 {
        let counted = counted(&mut world, node);
        assert_eq!((counted.pairs_found_damaged, counted.pairs_repaired, counted.pairs_damaged), (1, 1, 0));
    }
    world.assert_equal(3);
}

#[test]
fn a_write_waits_for_the_damaged_pair_it_needs_and_is_applied_once() {
    let mut world = written_out();
    let leader = world.leader();
    damage(&mut world, leader, &key(5));
    match world.write(leader, 77, renew(5), WriteConsistency::Strong) {
        LocalOutcome::Written { reply, .. } => {
            assert!(core_backends::decode_reply::<Reply>(reply).is_ok(), "the old value was there");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(world.get(leader, &key(5), ReadConsistency::Strong).as_deref(), Some("new"));
    world.run(1_000);
    world.assert_equal(3);
    assert_eq!(counted(&mut world, leader).replicas_rebuilt, 0);
    assert!(!world.notices.iter().any(|(_, notice)| matches!(notice, Notice::Damaged { .. })));
}

#[test]
fn the_scrub_finds_damage_that_nobody_reads_and_all_members_are_equal_again() {
    let mut world = written_out();
    world.scrub_round_ms = 500;
    for node in 1..=3 {
        world.kill(node);
        world.start(NodeId(node));
    }
    world.run(500);
    for number in 0..KEYS {
        // Every key on some member, and its own records.
        damage(&mut world, 1 + number as u64 % 3, &key(number));
    }
    damage(&mut world, 2, "meta");
    world.run(6_000);
    assert!(is_whole(&mut world), "{:?}", world.node(1).engine.damaged());
    let repaired: u64 = (1..=3).map(|node| counted(&mut world, node).pairs_repaired).sum();
    assert_eq!(repaired, KEYS as u64 + 1);
    assert!(counted(&mut world, 1).scrub_rounds >= 2);
    assert!(counted(&mut world, 1).scrub_entries as usize > 2 * KEYS);
    world.run(500);
    world.assert_equal(3);
}

#[test]
fn what_is_damaged_everywhere_is_refused_and_a_write_mends_it() {
    let mut world = written_out();
    for node in 1..=3 {
        damage(&mut world, node, &key(7));
    }
    let leader = world.leader();
    let _asked = world.call(leader, read(&key(7), ReadConsistency::Strong));
    world.run(3_000);
    match world.call(leader, read(&key(7), ReadConsistency::Strong)) {
        LocalOutcome::Refused(refusal) => assert_eq!(refusal.code.as_str(), "ReplicaDamaged"),
        other => panic!("{other:?}"),
    }
    assert_eq!(counted(&mut world, leader).pairs_lost, 1);
    let lost = |(_, notice): &(NodeId, Notice)| matches!(notice, Notice::Mending { lost: true, .. });
    assert!(world.notices.iter().any(lost), "an operator learns it");
    assert_eq!(
        world.get(leader, &key(8), ReadConsistency::Strong).as_deref(),
        Some("value 8"),
        "the others are served"
    );
}

#[test]
fn without_a_member_that_answers_it_stays_a_voter_and_is_mended_when_one_is_back() {
    let mut world = written_out();
    let leader = world.leader();
    let others: Vec<u64> = (1..=3).filter(|node| *node != leader).collect();
    damage(&mut world, others[0], &key(3));
    world.cut.extend([NodeId(leader), NodeId(others[1])]);
    let _asked = world.call(others[0], read(&key(3), ReadConsistency::Eventual));
    world.run(60_000);
    assert_eq!(counted(&mut world, others[0]).replicas_rebuilt, 0);
    assert!(!world.view(others[0]).unwrap().damaged);
    world.cut.clear();
    world.run(20_000);
    assert_eq!(world.get(others[0], &key(3), ReadConsistency::Eventual).as_deref(), Some("value 3"));
    world.assert_equal(3);
}

#[test]
fn a_snapshot_is_not_made_of_damage_but_behind_its_repair() {
    let mut world = World::new(4, 3, 0);
    for number in 0..KEYS {
        world.put(&key(number), &format!("value {number}"));
    }
    world.run(1_000);
    let leader = world.leader();
    damage(&mut world, leader, &key(9));
    let add = LocalKind::Admin(AdminCommand::AddMember { node: NodeId(4), disk: base_types::DiskId(4) });
    let ticket = world.submit(leader, 20_000, add);
    world.run(200);
    let mut joining = spec(4, 0);
    joining.replica = base_types::ReplicaId(4);
    let now = world.now;
    world.lane(4).create_replica(now, joining).unwrap();
    world.run(10_000);
    let outcome = world.completions.remove(&ticket);
    assert!(matches!(outcome, Some(LocalOutcome::AdminDone { .. })), "{outcome:?}");
    assert_eq!(world.get(4, &key(9), ReadConsistency::Eventual).as_deref(), Some("value 9"));
    world.assert_equal(4);
}

#[test]
fn request_ids_that_rotted_are_mended_before_anything_is_applied() {
    let mut world = written_out();
    let leader = world.leader();
    let victim = (1..=3).find(|node| *node != leader).unwrap();
    let space = world.view(victim).unwrap().space;
    let engine = world.node(victim).engine.clone();
    let mut rows = Vec::new();
    let all = base_engine::KeyRange { start: b"\0r", end: Some(b"\0s") };
    engine
        .walk(space, all, &mut |key, _| {
            rows.push(Bytes::copy_from_slice(key));
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    assert!(rows.len() > 3);
    rows.iter().step_by(2).for_each(|row| assert!(engine.damage(space, row)));
    world.kill(victim);
    world.start(NodeId(victim));
    world.put("more", "v");
    world.run(3_000);
    let counted = counted(&mut world, victim);
    assert_eq!((counted.replicas_rebuilt, counted.pairs_repaired), (0, rows.len().div_ceil(2) as u64));
    world.assert_equal(3);
}

/// Compares with the old value: it must be read to be applied.
fn renew(number: usize) -> Command {
    let expected = Some(Bytes::from(format!("value {number}")));
    Command::CompareAndSet {
        scope: None,
        key: Bytes::from(key(number)),
        expected,
        value: Some(Bytes::from_static(b"new")),
    }
}

#[test]
fn who_waits_for_a_pair_that_all_others_have_passed_is_rebuilt_at_once() {
    let mut world = written_out();
    let leader = world.leader();
    let victim = (1..=3).find(|node| *node != leader).unwrap();
    world.cut.insert(NodeId(victim));
    let written = world.write(leader, 77, renew(5), WriteConsistency::Strong);
    assert!(matches!(written, LocalOutcome::Written { .. }), "{written:?}");
    // Into the engines of the others: their values are of later indexes for good.
    world.run(1_000);
    damage(&mut world, victim, &key(5));
    // Damage that the next entry does not need costs nothing.
    damage(&mut world, victim, &key(6));
    world.cut.clear();
    world.run(1_500);
    assert_eq!(counted(&mut world, victim).replicas_rebuilt, 1);
    assert_eq!(world.get(leader, &key(5), ReadConsistency::Strong).as_deref(), Some("new"));
}

#[test]
fn who_waits_for_a_pair_asks_the_members_of_now_and_not_of_where_it_waits() {
    let mut world = World::new(4, 3, 1 << 20);
    (0..KEYS).for_each(|number| world.put(&key(number), &format!("value {number}")));
    world.run(1_000);
    let leader = world.leader();
    let followers: Vec<u64> = (1..=3).filter(|node| *node != leader).collect();
    let (victim, gone) = (followers[0], followers[1]);
    damage(&mut world, victim, &key(5));
    world.lost = |payload| matches!(payload, Payload::PairsRequest { .. });
    let written = world.write(leader, 77, renew(5), WriteConsistency::Strong);
    assert!(matches!(written, LocalOutcome::Written { .. }), "{written:?}");
    world.run(1_000);
    // The change of members lies behind the entry that waits: it is known here, and not applied.
    replace_member(&mut world, gone, leader);
    world.kill(gone);
    assert!(world.view(victim).unwrap().members.iter().any(|member| member.node == NodeId(gone)));
    assert_eq!(counted(&mut world, victim).replicas_rebuilt, 0);
    world.lost = |_| false;
    // Twice the longest pause between requests, and some.
    world.run(15_000);
    assert_eq!(counted(&mut world, victim).replicas_rebuilt, 1, "both members of now have passed the index");
}

#[test]
fn a_leader_that_waits_for_a_pair_hands_over() {
    let mut world = written_out();
    let leader = world.leader();
    damage(&mut world, leader, &key(5));
    world.lost = |payload| matches!(payload, Payload::PairsRequest { .. });
    let first = world.submit(leader, 5_000, write(77, &renew(5), WriteConsistency::Strong, 0));
    world.run(1_500);
    let next = world.leader();
    assert_ne!(next, leader, "who can apply leads");
    assert!(world.completions.remove(&first).is_some_and(|outcome| !matches!(outcome, LocalOutcome::Written { .. })));
    // A retry there finds it done.
    let again = world.write(next, 77, renew(5), WriteConsistency::Strong);
    assert!(matches!(again, LocalOutcome::Written { .. }), "{again:?}");
    assert_eq!(world.get(next, &key(5), ReadConsistency::Strong).as_deref(), Some("new"));
    assert_eq!(counted(&mut world, leader).replicas_rebuilt, 0);
    world.lost = |_| false;
    world.run(10_000);
    assert!(is_whole(&mut world) || counted(&mut world, leader).replicas_rebuilt == 1);
}

#[test]
fn a_replica_whose_own_record_rotted_is_rebuilt_and_its_node_starts() {
    let mut world = written_out();
    let leader = world.leader();
    let victim = (1..=3).find(|node| *node != leader).unwrap();
    damage(&mut world, victim, "meta");
    world.kill(victim);
    let notes = world.start(NodeId(victim));
    assert!(notes.iter().any(|note| note.contains("replace")), "{notes:?}");
    assert!(world.view(victim).unwrap().damaged);
}

/// A committed change of members behind what is applied; no changes: the joint state is left.
fn change(index: u64, changes: &[(ChangeKind, u64)], added: &[u64]) -> LogEntry {
    let changes: Vec<(ChangeKind, ReplicaId)> = changes.iter().map(|(kind, id)| (*kind, ReplicaId(*id))).collect();
    let leaves = changes.is_empty();
    let context = ChangeContext { changes, added: added.iter().map(|node| member(*node)).collect() };
    let context = if leaves { Bytes::new() } else { context.to_bytes() };
    LogEntry { term: Term(1), index: LogIndex(index), kind: entry_kind::MEMBERSHIP, data: Bytes::new(), context }
}

#[test]
fn who_is_removed_jointly_is_a_member_until_the_joint_state_is_left() {
    let meta = ClusterMeta::initial(&spec(1, 3));
    let entries = [
        change(10, &[(ChangeKind::AddLearner, 4)], &[4]),
        LogEntry { kind: entry_kind::NORMAL, ..change(11, &[(ChangeKind::Remove, 3)], &[]) },
        change(12, &[(ChangeKind::AddVoter, 4), (ChangeKind::Remove, 2)], &[]),
        change(13, &[], &[]),
        change(14, &[(ChangeKind::Remove, 3)], &[]),
    ];
    let behind = |meta: &ClusterMeta, entries: &[LogEntry]| -> Vec<u64> {
        let mut members: Vec<u64> =
            ChangeContext::members_behind(meta, entries).iter().map(|member| member.replica.0).collect();
        members.sort_unstable();
        members
    };
    let told: Vec<Vec<u64>> = (0..=entries.len()).map(|count| behind(&meta, &entries[..count])).collect();
    let (before, joint, after) = (vec![1, 2, 3], vec![1, 2, 3, 4], vec![1, 3, 4]);
    assert_eq!(told, [before, joint.clone(), joint.clone(), joint.clone(), after, vec![1, 4]]);
    // It may stand in the joint state itself.
    let ids = |ids: &[u64]| ids.iter().map(|id| ReplicaId(*id)).collect::<Vec<_>>();
    let membership = Membership {
        voters: ids(&[1, 3, 4]),
        voters_outgoing: ids(&[1, 2, 3]),
        auto_leave: true,
        ..Membership::default()
    };
    let members = (1..=4).map(member).collect();
    let meta = ClusterMeta { membership: membership.into(), members, ..meta };
    assert_eq!((behind(&meta, &[]), behind(&meta, &entries[3..4])), (joint, vec![1, 3, 4]));
}
