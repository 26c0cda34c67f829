//! A world that lost every node but for what one engine holds.

use super::harness::*;
use crate::api::*;
use crate::storage::restore::{Found, Home, RestoredReplica};
use base_engine::{export, Engine};
use base_types::{DiskId, NodeId, ReadConsistency, ReplicaId, SpaceId, Tick, WriteConsistency};
use core_log::testing::DiskEvent;
use core_log::{Log, LogConfig};

/// Makes node 1 of a new world from one replica's rows; its request ids and its time continue.
fn reborn(old: &mut World, node: u64) -> World {
    let source = old.node(node).engine.clone();
    let spaces = source.spaces().unwrap();
    let home = |space| Home { node: NodeId(1), disk: DiskId(1), engine: "memory".into(), space };
    let whole =
        spaces.iter().filter_map(|space| match RestoredReplica::read(&*source, *space, home(SpaceId(77))).unwrap() {
            Found::Replica(replica) => Some((*space, replica)),
            Found::Unfinished => None,
        });
    let (space, replica) = whole.max_by_key(|(_, replica)| replica.order()).expect("a whole space");
    let mut world = World::empty(1, 1 << 20);
    world.node(1).lane = None;
    let mut batch = export(&*source, space, None, 1 << 30).unwrap().batch(SpaceId(77));
    batch.operations.extend(replica.rows());
    world.node(1).engine.write(&batch).unwrap();
    let config = LogConfig { segment_bytes: SEGMENT_BYTES, ..LogConfig::default() };
    let disk = &mut world.node(1).disk;
    let (mut log, _) = Log::recover(disk, config, 1).unwrap();
    replica.stage(&mut log);
    for round in 0..50 {
        for action in log.poll(Tick(round)) {
            disk.start(action);
        }
        while disk.pending() > 0 {
            match disk.finish() {
                Some(DiskEvent::Written(batch)) => log.on_written(batch),
                Some(DiskEvent::Ready(segment)) => log.on_segment_ready(segment),
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(!log.has_staged());
    world.now = old.now;
    // The harness draws request ids from it, and those of the old world are remembered.
    world.next_ticket = old.next_ticket;
    world.start(NodeId(1));
    world.run(1_000);
    world
}

#[test]
fn a_cluster_goes_on_from_one_members_rows() {
    let mut world = World::labelled(3, 3, 1 << 20);
    for number in 0..50 {
        world.put(&format!("k{number}"), &format!("v{number}"));
    }
    let leader = world.leader();
    let outcome = world.write(leader, 42, create("once", "1"), WriteConsistency::Strong);
    assert!(matches!(outcome, LocalOutcome::Written { .. }), "{outcome:?}");
    world.run(1_000); // Past a flush.
    let time = world.view(leader).unwrap().cluster_time_ms;
    for node in 1..=3 {
        let mut again = reborn(&mut world, node);
        let view = again.view(1).unwrap();
        assert!(view.is_leader && view.members.len() == 1 && view.cluster_time_ms >= time, "{view:?}");
        assert_eq!(again.get(1, "k49", ReadConsistency::Strong).as_deref(), Some("v49"));
        // What was applied is not applied again: a second time it would be refused.
        let repeated = again.write(1, 42, create("once", "1"), WriteConsistency::Strong);
        assert!(matches!(repeated, LocalOutcome::Written { .. }), "{repeated:?}");
        again.put("more", "1");
        again.kill(1);
        again.start(NodeId(1));
        again.run(1_000);
        assert_eq!(again.get(1, "more", ReadConsistency::Strong).as_deref(), Some("1"));
        assert_eq!(again.get(1, "k0", ReadConsistency::Strong).as_deref(), Some("v0"));
    }
}

/// A member that came by snapshot holds a label of its own, before its first flush.
#[test]
fn a_member_that_came_by_snapshot_is_enough_too() {
    let mut world = World::labelled(4, 3, 0);
    for number in 0..200 {
        world.put(&format!("k{number}"), &"v".repeat(100));
    }
    world.run(1_000);
    let leader = world.leader();
    let add = AdminCommand::AddMember { node: NodeId(4), disk: DiskId(4) };
    let ticket = world.submit(leader, 10_000, LocalKind::Admin(add));
    world.run(50);
    let now = world.now;
    let joining = ReplicaSpec { replica: ReplicaId(4), ..spec(4, 0) };
    assert!(world.lane(4).create_replica(now, joining).unwrap());
    world.run(2_000);
    let outcome = world.completions.remove(&ticket);
    assert!(matches!(outcome, Some(LocalOutcome::AdminDone { .. })), "{outcome:?}");
    assert!(world.lane(4).statistics().snapshots_installed >= 1);
    let mut again = reborn(&mut world, 4);
    assert_eq!(again.get(1, "k199", ReadConsistency::Strong), Some("v".repeat(100)));
    assert_eq!(again.view(1).unwrap().members.iter().map(|member| member.node).collect::<Vec<_>>(), [NodeId(1)]);
}
