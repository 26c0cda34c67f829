//! Writes at level `s3`: acknowledged when the bucket has them, refused where there is none.

use super::harness::*;
use crate::api::*;
use crate::meta::LABEL_KEY;
use crate::wire::Payload;
use base_engine::{EngineRead, KeyRange};
use base_types::codec::Encode;
use base_types::{DiskId, LogIndex, NodeId, ReadConsistency, ReplicaId, SpaceId, WriteConsistency};
use bytes::Bytes;

const S3: WriteConsistency = WriteConsistency::S3;

/// Three members, one of them a tail that does not lead.
fn world_with_tail() -> (World, u64, u64) {
    let mut world = World::with_tail(3, 3, 1 << 20, Some(3));
    world.run(500);
    let leader = lead(&mut world, 1);
    (world, leader, 3)
}

/// Has a node lead.
fn lead(world: &mut World, node: u64) -> u64 {
    let leader = world.leader();
    let command = AdminCommand::TransferLeader { node: NodeId(node) };
    let outcome = world.call(leader, LocalKind::Admin(command));
    assert!(leader == node || matches!(outcome, LocalOutcome::AdminDone { .. }), "{outcome:?}");
    world.run(500);
    assert_eq!(world.leader(), node);
    node
}

fn described(world: &mut World, leader: u64) -> ClusterDescription {
    match world.call(leader, LocalKind::Admin(AdminCommand::Describe)) {
        LocalOutcome::Described(description) => description,
        other => panic!("{other:?}"),
    }
}

#[test]
fn it_is_acknowledged_when_the_bucket_has_it() {
    let (mut world, leader, _) = world_with_tail();
    for number in 0..20 {
        match world.write(leader, number, put(&format!("k{number}"), "v"), S3) {
            LocalOutcome::Written { level, at, .. } => {
                assert_eq!(level, S3);
                assert!(at.index <= world.kept, "{at:?}, and the bucket holds {}", world.kept);
            }
            other => panic!("{other:?}"),
        }
    }
    let kept = described(&mut world, leader).kept;
    assert_eq!(kept, vec![(NodeId(3), world.kept)]);
}

#[test]
fn a_bucket_that_does_not_answer_is_told_at_the_deadline() {
    let (mut world, leader, tail) = world_with_tail();
    world.node(tail).engine_stalled = true;
    let LocalOutcome::CommittedNotKept { at, kept, .. } = world.write(leader, 1, create("k", "v"), S3) else {
        panic!("it was not in the bucket")
    };
    assert!(kept < at.index, "{kept} {at:?}");
    assert_eq!(world.get(leader, "k", ReadConsistency::Strong).as_deref(), Some("v"));
    // Others do not wait for it, and a retry of the same request waits too, and is not applied again.
    world.put("other", "v");
    world.node(tail).engine_stalled = false;
    match world.write(leader, 1, create("k", "v"), S3) {
        LocalOutcome::Written { level, at: again, .. } => assert_eq!((level, again.index), (S3, at.index)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn without_a_tail_it_is_refused_and_nothing_is_written() {
    let mut world = World::labelled(3, 3, 1 << 20);
    let leader = world.leader();
    match world.write(leader, 1, put("k", "v"), S3) {
        LocalOutcome::Refused(refusal) => {
            assert_eq!(refusal.code, base_types::ErrorCode::NoArchiveReplicaYet);
            assert!(refusal.message.contains("engine.object.url"), "{refusal}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(world.get(leader, "k", ReadConsistency::Strong), None);
    assert!(described(&mut world, leader).kept.is_empty());
}

#[test]
fn a_tail_that_leads_is_its_own_witness() {
    let (mut world, ..) = world_with_tail();
    let leader = lead(&mut world, 3);
    match world.write(leader, 1, put("k", "v"), S3) {
        LocalOutcome::Written { level, at, .. } => assert!(level == S3 && at.index <= world.kept),
        other => panic!("{other:?}"),
    }
}

/// Who leads anew has heard of the tail within the time in which its refusals are preliminary, on a lossy net too.
#[test]
fn a_new_leader_hears_of_the_tail() {
    let (mut world, ..) = world_with_tail();
    world.faults.loss = 20;
    // Where frames are lost it may take longer than its deadline: it continues, and the client retries.
    let command = || LocalKind::Admin(AdminCommand::TransferLeader { node: NodeId(2) });
    for _ in 0..5 {
        let leader = world.leader();
        match world.call(leader, command()) {
            _ if leader == 2 => break,
            LocalOutcome::AdminDone { .. } => break,
            outcome => assert!(matches!(outcome, LocalOutcome::Unknown { .. }), "{outcome:?}"),
        }
    }
    world.run(500);
    assert_eq!(world.leader(), 2);
    world.run(100);
    assert_eq!(described(&mut world, 2).kept.len(), 1);
}

/// A client that waits when leadership moves learns that the write is committed.
#[test]
fn when_leadership_goes_the_write_stays_committed() {
    let (mut world, leader, tail) = world_with_tail();
    world.node(tail).engine_stalled = true;
    let time = world.view(leader).unwrap().cluster_time_ms;
    let ticket = world.submit(leader, 5_000, write(1, &put("k", "v"), S3, time));
    world.run(300);
    assert!(!world.completions.contains_key(&ticket), "{:?}", world.completions);
    lead(&mut world, 2);
    assert!(matches!(world.completions.get(&ticket), Some(LocalOutcome::CommittedNotKept { .. })));
    assert_eq!(world.get(2, "k", ReadConsistency::Strong).as_deref(), Some("v"));
}

/// A quiet cluster stays quiet while its tail writes out and reports it; the lag is counted, and goes.
#[test]
fn a_tail_tells_in_the_quiet_and_counts_its_lag() {
    let (mut world, leader, tail) = world_with_tail();
    world.node(tail).engine_stalled = true;
    world.put("k", "v");
    world.run(2_000);
    assert!(world.view(leader).unwrap().quiesced);
    let statistics = world.lane(tail).statistics();
    assert_eq!((statistics.tails, statistics.tail_entries_behind > 0), (1, true));
    assert!(statistics.tail_lag_ms >= 500, "{statistics:?}");
    assert_eq!(world.lane(leader).statistics().tails, 0);
    world.node(tail).engine_stalled = false;
    world.run(1_000);
    assert!(world.view(leader).unwrap().quiesced, "nobody woke it");
    let statistics = world.lane(tail).statistics();
    assert_eq!((statistics.tail_entries_behind, statistics.tail_lag_ms), (0, 0));
    let (applied, kept) = (world.view(tail).unwrap().applied, world.kept);
    assert_eq!(kept, applied);
    assert_eq!(described(&mut world, leader).kept, vec![(NodeId(3), applied)]);
    assert!(applied > LogIndex(0));
}

/// A snapshot's space counts when the record that names it is durable: until then a restart would come back to the
/// space before it, and drop this one.
#[test]
fn a_space_counts_when_its_record_is_durable() {
    let mut world = World::with_tail(3, 3, 0, Some(3));
    let leader = lead(&mut world, 1);
    world.put("first", "v");
    world.run(500);
    world.kill(3);
    let before = world.kept;
    for number in 0..50 {
        world.put(&format!("k{number}"), &"v".repeat(300));
    }
    world.run(500);
    world.start(NodeId(3));
    world.node(3).disk_stalled = true;
    world.run(1_500);
    assert!(world.kept > before, "the snapshot's space is whole: {} {before}", world.kept);
    let told = described(&mut world, leader).kept;
    assert!(told.iter().all(|(_, index)| *index <= before), "{told:?} {before}");
    world.node(3).disk_stalled = false;
    world.run(500);
    assert_eq!(described(&mut world, leader).kept, vec![(NodeId(3), world.kept)]);
}

/// The raw key of a pair in a node's engine.
fn raw(world: &mut World, node: u64, key: &str) -> (SpaceId, Bytes) {
    let space = world.view(node).unwrap().space;
    let mut found = None;
    let engine = world.node(node).engine.clone();
    engine
        .walk(space, KeyRange::ALL, &mut |raw, _| {
            if raw.ends_with(key.as_bytes()) {
                found = Some(Bytes::copy_from_slice(raw));
            }
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    (space, found.unwrap_or_else(|| panic!("node {node} has no {key}")))
}

fn damage(world: &mut World, node: u64, key: &str) {
    let (space, raw) = raw(world, node, key);
    assert!(world.node(node).engine.damage(space, &raw));
}

/// A pair is mended while a flush that lacks it is on its way: that one does not make the bucket whole, so it counts
/// for nothing, and the next one does.
#[test]
fn a_bucket_that_is_being_mended_holds_nothing() {
    let (mut world, leader, tail) = world_with_tail();
    world.put("rotten", "v");
    world.run(1_000);
    world.node(tail).engine_stalled = true;
    let time = world.view(leader).unwrap().cluster_time_ms;
    let ticket = world.submit(leader, 5_000, write(1, &put("k", "v"), S3, time));
    world.run(700);
    damage(&mut world, tail, "rotten");
    let _met = world.call(tail, read("rotten", ReadConsistency::Eventual));
    world.run(200);
    assert_eq!(world.lane(tail).statistics().pairs_repaired, 1, "in the overlay");
    assert_eq!(described(&mut world, leader).kept, vec![(NodeId(tail), LogIndex(0))]);
    assert!(world.lane(tail).statistics().tail_lag_ms >= 200);
    world.node(tail).engine_stalled = false;
    world.run(1);
    world.node(tail).engine_stalled = true;
    world.run(500);
    assert!(!world.node(tail).engine.damaged().is_empty(), "the flush that was under way did not write it");
    assert!(!world.completions.contains_key(&ticket), "{:?}", world.completions);
    world.node(tail).engine_stalled = false;
    world.run(100);
    assert!(world.node(tail).engine.damaged().is_empty());
    let outcome = world.completions.remove(&ticket);
    assert!(matches!(outcome, Some(LocalOutcome::Written { level: S3, .. })), "{outcome:?}");
    assert_eq!(described(&mut world, leader).kept, vec![(NodeId(tail), world.kept)]);
}

/// What is damaged on every member is refused by `hive restore`, whole cluster and all: nothing is kept until it is
/// written anew.
#[test]
fn a_pair_that_is_lost_everywhere_holds_writes_up_until_it_is_written() {
    let (mut world, leader, tail) = world_with_tail();
    world.put("lost", "v");
    world.run(1_000);
    (1..=3).for_each(|node| damage(&mut world, node, "lost"));
    let _met = world.call(tail, read("lost", ReadConsistency::Eventual));
    world.run(3_000);
    assert_eq!(world.lane(tail).statistics().pairs_lost, 1);
    let outcome = world.write(leader, 1, put("k", "v"), S3);
    assert!(matches!(outcome, LocalOutcome::CommittedNotKept { kept: LogIndex(0), .. }), "{outcome:?}");
    match world.write(leader, 2, put("lost", "w"), S3) {
        LocalOutcome::Written { level, at, .. } => assert!(level == S3 && at.index <= world.kept),
        other => panic!("{other:?}"),
    }
    assert!(world.node(tail).engine.damaged().is_empty());
}

/// A tail's label names the tail: a member that had it of a snapshot, and labels nothing, could not mend it (seed 146).
#[test]
fn a_label_stays_where_it_belongs() {
    let mut world = World::with_tail(3, 3, 0, Some(3));
    lead(&mut world, 3);
    world.put("k", "v");
    world.run(1_000);
    world.label_spaces = false;
    world.start_blank(NodeId(4), DiskId(4));
    let add = LocalKind::Admin(AdminCommand::AddMember { node: NodeId(4), disk: DiskId(4) });
    let ticket = world.submit(3, 20_000, add);
    world.run(200);
    let mut joining = spec(4, 0);
    joining.replica = ReplicaId(4);
    let now = world.now;
    world.lane(4).create_replica(now, joining).unwrap();
    world.run(10_000);
    let outcome = world.completions.remove(&ticket);
    assert!(matches!(outcome, Some(LocalOutcome::AdminDone { .. })), "{outcome:?}");
    assert_eq!(world.get(4, "k", ReadConsistency::Eventual).as_deref(), Some("v"));
    let (old, new) = (world.view(3).unwrap().space, world.view(4).unwrap().space);
    assert!(world.node(3).engine.get(old, LABEL_KEY).unwrap().is_some());
    assert_eq!(world.node(4).engine.get(new, LABEL_KEY).unwrap(), None);
}

/// A node that was a tail once and is none any more mends its labels all the same: it takes them away.
#[test]
fn a_label_of_former_times_is_mended() {
    let (mut world, ..) = world_with_tail();
    world.put("k", "v");
    world.run(1_000);
    (world.label_spaces, world.tail, world.scrub_round_ms) = (false, None, 500);
    world.kill(3);
    world.start(NodeId(3));
    world.run(500);
    damage(&mut world, 3, "label");
    world.run(3_000);
    let space = world.view(3).unwrap().space;
    assert!(world.node(3).engine.damaged().is_empty());
    assert_eq!(world.node(3).engine.get(space, LABEL_KEY).unwrap(), None);
    world.assert_equal(3);
}

/// A write overtakes the mending: the bucket counts again without another one.
#[test]
fn a_pair_overwritten_while_it_is_mended_leaves_the_bucket_whole() {
    let (mut world, leader, tail) = world_with_tail();
    world.put("rotten", "v");
    world.run(1_000);
    // Nobody has it for the tail: the leader's is damaged as well, and the third does not answer.
    world.cut.insert(NodeId(2));
    [leader, tail].into_iter().for_each(|node| damage(&mut world, node, "rotten"));
    let _asked = world.submit(tail, 1_000, read("rotten", ReadConsistency::Eventual));
    world.run(300);
    assert_eq!(world.lane(tail).statistics().pairs_damaged, 1);
    world.node(tail).engine_stalled = true;
    world.put("rotten", "w");
    world.run(10_000);
    assert_eq!(world.lane(tail).statistics().pairs_damaged, 0, "it is on its way to the engine");
    world.node(tail).engine_stalled = false;
    world.run(1_000);
    assert!(world.node(tail).engine.damaged().is_empty());
    let applied = world.view(tail).unwrap().applied;
    assert_eq!(described(&mut world, leader).kept, vec![(NodeId(tail), applied)]);
}

/// What a tail told before damage was found arrives behind what it told then, or twice: the later word counts.
#[test]
fn words_of_a_tail_that_overtake_each_other_do_not_undo_the_later_one() {
    let (mut world, leader, tail) = world_with_tail();
    world.put("rotten", "v");
    world.listening = true;
    world.put("k", "v");
    world.run(1_000);
    world.listening = false;
    let says_kept = |(_, message): &(NodeId, PeerMessage)| {
        let payload = Payload::from_bytes(message.payload.clone()).unwrap();
        matches!(payload, Payload::Kept { index, .. } if index > LogIndex(0))
    };
    let late = world.delivered.drain(..).rfind(says_kept).expect("it told what it holds");
    // From now on nothing of the tail's bucket can be repaired: it reports 0, once, and then is cut off.
    (1..=3).for_each(|node| damage(&mut world, node, "rotten"));
    let _met = world.call(tail, read("rotten", ReadConsistency::Eventual));
    world.run(500);
    let nothing = vec![(NodeId(tail), LogIndex(0))];
    assert_eq!(described(&mut world, leader).kept, nothing);
    world.cut.insert(NodeId(tail));
    let (now, (from, message)) = (world.now, late);
    world.lane(leader).on_peer_message(now, from, message.cluster, message.generation, message.payload);
    assert_eq!(described(&mut world, leader).kept, nothing, "the earlier word counts for nothing");
    // Of its next life the first word counts, although numbers begin anew.
    world.cut.clear();
    world.kill(tail);
    world.start(NodeId(tail));
    world.put("rotten", "w");
    world.run(2_000);
    let applied = world.view(tail).unwrap().applied;
    assert_eq!(described(&mut world, leader).kept, vec![(NodeId(tail), applied)]);
}
