//! The ordinary life of a cluster: levels, retries, restarts, quiet, members, rot, a failed disk.

use super::harness::*;
use crate::api::*;
use base_types::{DiskId, NodeId, ReadConsistency, ReplicaId, WriteConsistency};
use bytes::Bytes;
use core_backends::metadata::{Command, Reply};

#[test]
fn a_strong_write_is_read_everywhere() {
    let mut world = World::new(3, 3, 1 << 20);
    world.put("k", "v");
    let leader = world.leader();
    assert_eq!(world.get(leader, "k", ReadConsistency::Strong).as_deref(), Some("v"));
    world.run(200);
    for node in 1..=3 {
        assert_eq!(world.get(node, "k", ReadConsistency::Eventual).as_deref(), Some("v"));
    }
    world.assert_equal(3);
}

#[test]
fn each_level_is_acknowledged_as_itself() {
    let mut world = World::with_tail(3, 3, 1 << 20, Some(2));
    let leader = world.leader();
    for (number, level) in WriteConsistency::ALL.into_iter().enumerate() {
        match world.write(leader, number as u128, put("k", level.name()), level) {
            LocalOutcome::Written { level: reached, .. } => assert_eq!(reached, level),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn an_absolute_write_with_a_member_down_is_committed_and_says_so() {
    let mut world = World::new(3, 3, 1 << 20);
    let leader = world.leader();
    let down = (1..=3).find(|node| *node != leader).unwrap();
    world.kill(down);
    match world.write(leader, 1, put("k", "v"), WriteConsistency::Absolute) {
        LocalOutcome::CommittedNotAbsolute { missing, .. } => assert_eq!(missing, vec![NodeId(down)]),
        other => panic!("{other:?}"),
    }
    assert_eq!(world.get(leader, "k", ReadConsistency::Strong).as_deref(), Some("v"));
}

#[test]
fn an_absolute_write_that_is_refused_says_so_and_not_that_it_is_committed() {
    let mut world = World::new(3, 3, 1 << 20);
    let leader = world.leader();
    let down = (1..=3).find(|node| *node != leader).unwrap();
    world.kill(down);
    let (key, expected) = (Bytes::from_static(b"k"), Some(Bytes::from_static(b"never written")));
    let command = Command::CompareAndSet { scope: None, key, expected, value: Some(Bytes::from_static(b"v")) };
    match world.write(leader, 1, command, WriteConsistency::Absolute) {
        LocalOutcome::Written { reply, .. } => {
            assert_eq!(core_backends::decode_reply::<Reply>(reply).unwrap_err().code.as_str(), "ConditionFailed");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_retry_applies_once_also_after_leader_change_and_restart() {
    let mut world = World::new(3, 3, 1 << 20);
    let leader = world.leader();
    let key = Bytes::from_static(b"once");
    let command = Command::CompareAndSet { scope: None, key, expected: None, value: Some(Bytes::from_static(b"1")) };
    let first = world.write(leader, 42, command.clone(), WriteConsistency::Strong);
    let LocalOutcome::Written { reply: first, at: first_at, .. } = first else { panic!("{first:?}") };
    world.run(500);
    world.kill(leader);
    let next = world.leader();
    let again = world.write(next, 42, command.clone(), WriteConsistency::Strong);
    let LocalOutcome::Written { reply, at, .. } = again else { panic!("{again:?}") };
    assert_eq!((reply, at.index, at.position), (first, first_at.index, first_at.position));
    // Another request with the same command is refused: the key is there.
    let other = world.write(next, 43, command, WriteConsistency::Strong);
    let LocalOutcome::Written { reply, .. } = other else { panic!("{other:?}") };
    assert_eq!(core_backends::decode_reply::<Reply>(reply).unwrap_err().code.as_str(), "ConditionFailed");
}

#[test]
fn a_killed_leader_is_replaced_and_catches_up_when_it_is_back() {
    let mut world = World::new(3, 3, 1 << 20);
    world.put("before", "1");
    let old = world.leader();
    world.kill(old);
    world.put("after", "2");
    world.start(NodeId(old));
    world.run(1_500);
    world.assert_equal(3);
    for node in 1..=3 {
        assert_eq!(world.get(node, "after", ReadConsistency::Eventual).as_deref(), Some("2"));
    }
}

#[test]
fn everything_acknowledged_survives_all_nodes_dying_together() {
    let mut world = World::new(3, 3, 1 << 20);
    for number in 0..50 {
        world.put(&format!("key-{number}"), "x");
    }
    (1..=3).for_each(|node| world.kill(node));
    for node in 1..=3 {
        assert!(world.start(NodeId(node)).iter().all(|note| !note.contains("rot")));
    }
    let leader = world.leader();
    for number in 0..50 {
        assert_eq!(world.get(leader, &format!("key-{number}"), ReadConsistency::Strong).as_deref(), Some("x"));
    }
}

#[test]
fn an_idle_cluster_falls_quiet_and_wakes() {
    let mut world = World::new(3, 3, 1 << 20);
    world.put("k", "v");
    world.run(2_000);
    let quiet =
        |world: &World| world.nodes.values().all(|node| node.lane.as_ref().unwrap().view(CLUSTER).unwrap().quiesced);
    assert!(quiet(&world), "{:?}", world.nodes.values().map(|n| n.lane.as_ref().unwrap().views()).collect::<Vec<_>>());
    let sent: u64 = world.nodes.values().map(|node| node.lane.as_ref().unwrap().statistics().messages_sent).sum();
    world.run(5_000);
    let later: u64 = world.nodes.values().map(|node| node.lane.as_ref().unwrap().statistics().messages_sent).sum();
    assert_eq!(sent, later, "a quiet cluster says nothing");
    world.put("k", "w");
    world.run(2_000);
    assert!(quiet(&world));
    // The leader's node dies: the others learn of it and elect.
    let old = world.leader();
    world.kill(old);
    world.put("k", "x");
}

#[test]
fn a_new_member_starts_from_a_snapshot_and_votes() {
    let mut world = World::new(4, 3, 0);
    for number in 0..200 {
        world.put(&format!("key-{number}"), "some value that takes its place");
    }
    world.run(500);
    let leader = world.leader();
    let add = AdminCommand::AddMember { node: NodeId(4), disk: DiskId(4) };
    let ticket = world.submit(leader, 10_000, LocalKind::Admin(add));
    world.run(50);
    let now = world.now;
    let mut joining = spec(4, 0);
    joining.replica = ReplicaId(4);
    assert!(world.lane(4).create_replica(now, joining).unwrap());
    for _ in 0..8_000 {
        world.run(1);
        if world.completions.contains_key(&ticket) {
            break;
        }
    }
    let outcome = world.completions.remove(&ticket);
    assert!(
        matches!(outcome, Some(LocalOutcome::AdminDone { .. })),
        "{outcome:?} {:?} {:?}",
        world.lane(leader).views(),
        world.lane(4).views()
    );
    world.run(500);
    world.assert_equal(4);
    assert!(world.lane(4).statistics().snapshots_installed >= 1);
    // And it survives its own restart.
    world.kill(4);
    world.start(NodeId(4));
    world.put("more", "1");
    world.run(1_500);
    world.assert_equal(4);
}

#[test]
fn a_lost_disk_comes_back_under_a_new_replica_id() {
    let mut world = World::new(3, 3, 0);
    for number in 0..100 {
        world.put(&format!("key-{number}"), "value");
    }
    let leader = world.leader();
    let lost = (1..=3).find(|node| *node != leader).unwrap();
    world.kill(lost);
    world.start_blank(NodeId(lost), DiskId(77));
    let replace = AdminCommand::ReplaceDisk { node: NodeId(lost), disk: DiskId(77) };
    let ticket = world.submit(leader, 10_000, LocalKind::Admin(replace));
    world.run(100);
    let now = world.now;
    let mut joining = spec(lost, 0);
    joining.replica = ReplicaId(4);
    world.lane(lost).create_replica(now, joining).unwrap();
    world.run(5_000);
    assert!(matches!(world.completions.remove(&ticket), Some(LocalOutcome::AdminDone { .. })));
    world.assert_equal(3);
    assert!(world.lane(leader).view(CLUSTER).unwrap().members.iter().all(|m| m.replica != ReplicaId(lost)));
}

/// `from` of 1, 2, 3 goes, node 4 comes.
pub fn replace_member(world: &mut World, from: u64, asked: u64) {
    let replace = AdminCommand::ReplaceMember { from: NodeId(from), node: NodeId(4), disk: DiskId(4) };
    let mut ticket = world.submit(asked, 10_000, LocalKind::Admin(replace.clone()));
    for _ in 0..20_000 {
        world.run(1);
        let Some(leader) = world.leaders().last().copied() else { continue };
        let members = world.view(leader).unwrap().members;
        let joining = members.iter().find(|member| member.node == NodeId(4)).copied();
        if let (Some(joining), None) = (joining, world.view(4)) {
            let now = world.now;
            let replica = ReplicaSpec { replica: joining.replica, ..spec(4, 0) };
            world.lane(4).create_replica(now, replica).unwrap();
        }
        match world.completions.remove(&ticket) {
            Some(LocalOutcome::AdminDone { .. }) => return,
            // The leader has handed over: the next one is asked.
            Some(_) => ticket = world.submit(leader, 10_000, LocalKind::Admin(replace.clone())),
            None => {}
        }
    }
    panic!("never replaced: {:?}", world.leaders().iter().map(|id| world.view(*id)).collect::<Vec<_>>());
}

#[test]
fn a_dead_members_place_goes_to_another_node_in_one_joint_change() {
    let mut world = World::new(4, 3, 0);
    (0..50).for_each(|number| world.put(&format!("key-{number}"), "value"));
    let leader = world.leader();
    let lost = (1..=3).find(|node| *node != leader).unwrap();
    world.kill(lost);
    world.run(500);
    replace_member(&mut world, lost, leader);
    world.put("k", "x");
    let leader = world.leader();
    let nodes: Vec<u64> = world.view(leader).unwrap().members.iter().map(|member| member.node.0).collect();
    assert!(nodes.len() == 3 && nodes.contains(&4) && !nodes.contains(&lost), "{nodes:?}");
}

/// A member is dead, and another one's place is to go to node 4: who comes counts among those who stay (seed 836).
#[test]
pub fn a_members_place_goes_to_another_node_beside_a_dead_member() {
    let mut world = World::new(4, 3, 0);
    (0..50).for_each(|number| world.put(&format!("key-{number}"), "value"));
    let leader = world.leader();
    let others: Vec<u64> = (1..=3).filter(|node| *node != leader).collect();
    world.kill(others[0]);
    world.run(500);
    replace_member(&mut world, others[1], leader);
    world.put("k", "x");
    let leader = world.leader();
    let nodes: Vec<u64> = world.view(leader).unwrap().members.iter().map(|member| member.node.0).collect();
    assert!(nodes.len() == 3 && nodes.contains(&4) && !nodes.contains(&others[1]), "{nodes:?}");
}

#[test]
fn a_leaders_place_goes_to_another_node_after_it_has_handed_over() {
    let mut world = World::new(4, 3, 0);
    world.put("k", "v");
    let leader = world.leader();
    replace_member(&mut world, leader, leader);
    world.run(1_000);
    assert_ne!(world.leader(), leader);
    world.put("k", "x");
    let leader = world.leader();
    assert_eq!(world.view(leader).unwrap().members.len(), 3);
}

#[test]
fn leadership_is_handed_over_without_losing_a_write() {
    let mut world = World::new(3, 3, 1 << 20);
    let leader = world.leader();
    let next = (1..=3).find(|node| *node != leader).unwrap();
    let outcome = world.call(leader, LocalKind::Admin(AdminCommand::TransferLeader { node: NodeId(next) }));
    assert!(matches!(outcome, LocalOutcome::AdminDone { .. }), "{outcome:?}");
    assert_eq!(world.leader(), next);
    world.put("k", "v");
}

#[test]
fn a_leader_that_is_cut_off_serves_no_strong_read() {
    let mut world = World::new(3, 3, 1 << 20);
    world.put("k", "old");
    let old = world.leader();
    assert_eq!(world.get(old, "k", ReadConsistency::Strong).as_deref(), Some("old"));
    world.cut.insert(NodeId(old));
    let next = world.leader();
    assert_ne!(next, old);
    world.put("k", "new");
    match world.call(old, read("k", ReadConsistency::Strong)) {
        LocalOutcome::Read { reply, .. } => panic!("a stale leader answered {:?}", value_of(reply)),
        LocalOutcome::NotLeader { .. } | LocalOutcome::Refused(_) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn rot_in_the_log_is_mended_from_the_others() {
    let mut world = World::new(3, 3, 64 << 20);
    // Nothing is flushed and cut, so the entries live in the logs alone.
    for number in 0..40 {
        world.put(&format!("key-{number}"), &"v".repeat(600));
    }
    let leader = world.leader();
    let rotten = (1..=3).find(|node| *node != leader).unwrap();
    world.kill(rotten);
    let disk = &mut world.nodes.get_mut(&NodeId(rotten)).unwrap().disk;
    let segment = disk.files()[0];
    let middle = disk.written(segment) / 2 / 4096 * 4096;
    disk.rot_sector(segment, middle + 512);
    let notes = world.start(NodeId(rotten));
    world.run(4_000);
    let statistics = world.lane(rotten).statistics();
    assert!(notes.iter().any(|note| note.contains("rot")), "the rot was met: {notes:?}");
    assert!(statistics.entries_repaired > 0, "and mended: {statistics:?}");
    assert!(!world.notices.iter().any(|(_, notice)| matches!(notice, Notice::Damaged { .. })), "nobody was replaced");
    world.assert_equal(3);
}

#[test]
fn a_failed_log_write_ends_acknowledgements() {
    let mut world = World::new(3, 3, 1 << 20);
    let leader = world.leader();
    world.nodes.get_mut(&NodeId(leader)).unwrap().disk.fail_next = true;
    let first = world.call(leader, write(5, &put("k", "v"), WriteConsistency::Eventual, 1));
    assert!(!matches!(first, LocalOutcome::Written { .. }), "{first:?}");
    let second = world.write(leader, 6, put("k", "v"), WriteConsistency::Hopeful);
    assert!(matches!(second, LocalOutcome::Refused(_)), "{second:?}");
    assert!(world.notices.iter().any(|(_, notice)| matches!(notice, Notice::LogFailed { .. })));
    world.cut.insert(NodeId(leader));
    world.put("k", "w");
}

#[test]
fn a_cluster_that_falls_idle_forgets_the_requests_it_need_not_remember() {
    let mut world = World::new(3, 3, 1 << 20);
    for number in 0..200 {
        world.put(&format!("k{number}"), "v");
    }
    let remembered = |world: &mut World| -> Vec<u64> {
        let mut of = |node| {
            let sizes = world.lane(node).sizes();
            let size = sizes.iter().find(|(name, _)| *name == "request ids, a replica");
            size.map_or(0, |(_, size)| size.length)
        };
        (1..=3).map(&mut of).collect()
    };
    assert!(remembered(&mut world).iter().all(|ids| *ids >= 190), "{:?}", remembered(&mut world));
    // Deadlines are two seconds here, and a duplicate may be six seconds late.
    world.run(5_000);
    assert!(remembered(&mut world).iter().all(|ids| *ids >= 190), "a retry could still come");
    world.run(15_000);
    assert_eq!(remembered(&mut world), [0, 0, 0]);
    assert!((1..=3).all(|node| world.view(node).unwrap().quiesced), "and it is quiet");
    world.assert_equal(3);
}

/// A client that retries repeatedly, each time with a new deadline, is remembered from the last time on: its outage may be longer than
/// the id is kept from the first (simulator, 4454).
#[test]
fn a_request_asked_again_is_remembered_anew() {
    let mut world = World::new(3, 3, 1 << 20);
    let leader = world.leader();
    let applied = |outcome: LocalOutcome| match outcome {
        LocalOutcome::Written { reply, at, .. } => {
            core_backends::decode_reply::<Reply>(reply).is_ok().then_some(at.index)
        }
        other => panic!("{other:?}"),
    };
    let mut first = None;
    for round in 0..6 {
        let again = applied(world.write(leader, 1, create("k", "v"), WriteConsistency::Strong));
        assert!(again.is_some(), "applied once more in round {round}");
        assert_eq!(again, *first.get_or_insert(again), "answers tell where it was applied");
        for _ in 0..9 {
            // What expires goes when something is applied.
            world.run(1_000);
            world.put("other", "v");
        }
    }
    for _ in 0..20 {
        world.run(1_000);
        world.put("other", "v");
    }
    let late = applied(world.write(leader, 1, create("k", "v"), WriteConsistency::Strong));
    assert_eq!(late, None, "remembered for ever");
}

/// Such an order is wrong: the blank replica does not know what the voter of its id has promised.
#[test]
pub fn a_blank_replica_of_a_voters_id_elects_nobody() {
    let mut world = World::new(3, 3, 1 << 20);
    world.put("k", "v");
    (1..=3).for_each(|node| world.kill(node));
    world.start_blank(NodeId(3), DiskId(3));
    let blank = ReplicaSpec { initial_members: Vec::new().into(), ..spec(3, 3) };
    let now = world.now;
    assert!(world.lane(3).create_replica(now, blank).unwrap());
    world.start(NodeId(1));
    world.run(5_000);
    let view = world.view(1).expect("it is there");
    assert!(!view.is_leader && view.leader.is_none(), "elected in term {:?}", view.term);
    world.start(NodeId(2));
    world.run(5_000);
    let leader = world.leader();
    assert_eq!(world.get(leader, "k", ReadConsistency::Strong).as_deref(), Some("v"));
}
