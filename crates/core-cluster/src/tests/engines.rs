//! Replicas of one cluster on different engines, and a cluster that moves from one engine to another.
//!
//! Not here: what an engine promises (each engine's own contract tests).

use super::harness::*;
use crate::api::*;
use base_engine::Engine;
use base_types::{DiskId, NodeId, ReadConsistency, ReplicaId};
use core_placement::Rule;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

/// The engines of a node, in directories of its own.
fn engines(root: &Path, node: u64) -> OpenEngines {
    let home = root.join(node.to_string());
    Box::new(move || {
        let lmdb = engine_lmdb::LmdbConfig { map_bytes_max: 16 << 20, ..Default::default() };
        vec![
            Arc::new(engine_lmdb::LmdbEngine::open(home.join("lmdb"), lmdb).unwrap()) as Arc<dyn Engine>,
            Arc::new(engine_redb::open(home.join("redb"), engine_redb::RedbConfig::default()).unwrap()),
            Arc::new(engine_fjall::open(home.join("fjall"), engine_fjall::FjallConfig::default()).unwrap()),
            Arc::new(engine_sqlite::open(home.join("sqlite"), engine_sqlite::SqliteConfig::default()).unwrap()),
        ]
    })
}

/// A world whose nodes have every engine; node n's replica is in `names[n - 1]`.
fn world(root: &TempDir, nodes: u64, names: &[&str], log_keep_bytes: u64) -> World {
    let mut world = World::empty(nodes, log_keep_bytes);
    for node in 1..=nodes {
        world.node(node).open_others = Some(engines(root.path(), node));
        world.start(NodeId(node));
    }
    for (node, name) in (1..).zip(names) {
        let mut spec = spec(node, names.len() as u64);
        spec.engine = (*name).into();
        let now = world.now;
        assert!(world.lane(node).create_replica(now, spec).unwrap());
    }
    world.run(1_000);
    world
}

fn scratch() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn fill(world: &mut World, prefix: &str, count: usize) {
    for number in 0..count {
        world.put(&format!("{prefix}-{number}"), &"some value that takes its place".repeat(10));
    }
}

#[test]
fn three_replicas_on_three_engines_hold_the_same() {
    let root = scratch();
    let mut world = world(&root, 3, &["redb", "fjall", "sqlite"], 1 << 20);
    fill(&mut world, "first", 60);
    world.run(500); // Past a flush.
    world.assert_equal(3);
    for node in 1..=3 {
        restarted(&mut world, node, Some("while-one-restarts"));
        world.assert_equal(3);
    }
    for node in 1..=3 {
        assert_eq!(world.get(node, "first-7", ReadConsistency::Eventual).map(|value| value.len()), Some(310));
    }
}

/// One step of a move: a new replica in `engine` on a node of its own by snapshot, then the old one goes.
fn replace(world: &mut World, old: u64, new: u64, engine: &str) {
    let leader = world.leader();
    let add = AdminCommand::AddMember { node: NodeId(new), disk: DiskId(new) };
    let ticket = world.submit(leader, 10_000, LocalKind::Admin(add));
    world.run(50);
    let mut joining = spec(new, 0);
    joining.engine = engine.into();
    joining.replica = ReplicaId(new);
    let now = world.now;
    assert!(world.lane(new).create_replica(now, joining).unwrap());
    wait(world, ticket).unwrap();
    remove(world, old);
    let now = world.now;
    world.lane(old).destroy_replica(now, CLUSTER, spec(old, 0).generation);
    world.run(500);
}

/// A leader that is removed may hand the question to the next one.
fn remove(world: &mut World, old: u64) {
    for _ in 0..5 {
        let leader = world.leader();
        let remove = AdminCommand::RemoveMember { node: NodeId(old) };
        let ticket = world.submit(leader, 10_000, LocalKind::Admin(remove));
        match wait(world, ticket) {
            Ok(()) => return,
            Err(LocalOutcome::NotLeader { .. }) => world.run(500),
            Err(other) => panic!("{other:?}"),
        }
    }
    panic!("node {old} stays a member");
}

#[allow(clippy::result_large_err)] // A test's own helper: one outcome at a time.
fn wait(world: &mut World, ticket: base_types::Ticket) -> Result<(), LocalOutcome> {
    for _ in 0..12_000 {
        world.run(1);
        match world.completions.remove(&ticket) {
            None => {}
            Some(LocalOutcome::AdminDone { .. }) => return Ok(()),
            Some(other) => return Err(other),
        }
    }
    panic!("the members' change was never answered");
}

#[test]
fn a_cluster_moves_from_one_engine_to_another_replica_by_replica() {
    let root = scratch();
    let mut world = world(&root, 6, &["lmdb", "lmdb", "lmdb"], 0);
    fill(&mut world, "before", 60);
    world.run(500);
    for (old, new, engine) in [(1, 4, "redb"), (2, 5, "sqlite"), (3, 6, "fjall")] {
        replace(&mut world, old, new, engine);
        world.put(&format!("behind-{old}"), "v"); // Served all the while.
        assert!(world.lane(new).statistics().snapshots_installed >= 1, "{engine} began from a snapshot");
    }
    world.run(500);
    world.assert_equal(3);
    for node in 4..=6 {
        restarted(&mut world, node, None);
        assert!(world.get(node, "before-59", ReadConsistency::Eventual).is_some(), "node {node}");
        assert!(world.get(node, "behind-3", ReadConsistency::Eventual).is_some(), "node {node}");
    }
    world.assert_equal(3);
    let lmdb = engines(root.path(), 1);
    world.kill(1);
    assert_eq!(lmdb()[0].spaces(), Ok(vec![]), "what was left is empty");
}

/// What the leader says to a command of members, soon.
fn asked(world: &mut World, command: AdminCommand) -> Option<LocalOutcome> {
    let leader = world.leader();
    let ticket = world.submit(leader, 5_000, LocalKind::Admin(command));
    world.run(200);
    world.completions.remove(&ticket)
}

/// A node dies, comes back, and is given time to catch up.
fn restarted(world: &mut World, node: u64, put: Option<&str>) {
    world.kill(node);
    world.start(NodeId(node));
    if let Some(key) = put {
        world.put(key, "v");
    }
    world.run(1_500);
}

fn described(world: &mut World) -> ClusterDescription {
    match asked(world, AdminCommand::Describe) {
        Some(LocalOutcome::Described(described)) => described,
        other => panic!("{other:?}"),
    }
}

fn set_engine(world: &mut World, engine: &str) {
    let set = AdminCommand::SetEngine { engine: engine.into() };
    assert!(matches!(asked(world, set), Some(LocalOutcome::Written { .. })));
}

/// What a leader that is asked hands on, and a node makes of an order: the rule's engine as it is now.
fn order(world: &mut World, node: u64) -> Option<ReplicaSpec> {
    let described = described(world);
    let (member, _) = described.members.iter().find(|(member, _)| member.node == NodeId(node))?;
    let rule: Rule = described.rule.parse().unwrap();
    let spec = spec(node, 0);
    Some(ReplicaSpec { rule: described.rule.into(), engine: rule.engine?.into(), replica: member.replica, ..spec })
}

/// A member is recreated where it is, as its leader's own notice asks of the node.
fn renew(world: &mut World, node: u64) {
    let old = described(world).members.iter().find(|(member, _)| member.node == NodeId(node)).unwrap().0.replica;
    for _ in 0..20 {
        let leader = world.leader();
        let renew = AdminCommand::RenewMember { node: NodeId(node), replica: old };
        let ticket = world.submit(leader, 10_000, LocalKind::Admin(renew));
        for _ in 0..100 {
            world.run(50);
            match world.completions.remove(&ticket) {
                Some(LocalOutcome::AdminDone { .. }) => return,
                Some(_) => break, // It handed over, or a change is under way: retried.
                None => {}
            }
            if let Some(spec) = order(world, node).filter(|spec| spec.replica > old) {
                let now = world.now;
                let _there_already = world.lane(node).create_replica(now, spec);
            }
        }
    }
    panic!("node {node} keeps replica {old}");
}

#[test]
fn a_cluster_whose_rule_names_an_engine_moves_where_it_stands() {
    let root = scratch();
    let mut world = world(&root, 3, &["lmdb", "lmdb", "lmdb"], 0);
    fill(&mut world, "before", 60);
    world.run(500);
    assert_eq!(described(&mut world).engine_since, ReplicaId(0));
    set_engine(&mut world, "redb");
    let first = described(&mut world);
    assert_eq!((first.engine_since, first.rule.contains("engine=redb")), (ReplicaId(4), true), "{first:?}");
    for node in 1..=3 {
        renew(&mut world, node);
        // Retried, as by a client that never got the answer: what was moved stays where it is.
        set_engine(&mut world, "redb");
        world.put(&format!("behind-{node}"), "v");
    }
    world.run(500);
    world.assert_equal(3);
    let last = described(&mut world);
    assert!(last.members.iter().all(|(member, _)| member.replica >= ReplicaId(4) && !member.learner), "{last:?}");
    assert_eq!((last.engine.as_str(), last.engine_since), ("redb", ReplicaId(4)));
    // What was chosen is in every engine, and outlives all of them.
    (1..=3).for_each(|node| world.kill(node));
    for node in 1..=3 {
        world.start(NodeId(node));
    }
    world.run(3_000);
    assert_eq!(described(&mut world).rule, last.rule);
    for node in 1..=3 {
        assert!(world.get(node, "before-59", ReadConsistency::Eventual).is_some(), "node {node}");
        world.kill(node);
        assert_eq!(engines(root.path(), node)()[0].spaces(), Ok(vec![]), "what was in lmdb is gone");
        world.start(NodeId(node));
    }
}

#[test]
fn of_two_voters_none_is_made_anew_where_it_stands() {
    let root = scratch();
    let mut world = world(&root, 2, &["lmdb", "lmdb"], 0);
    let leader = world.leader();
    let renew = AdminCommand::RenewMember { node: NodeId(3 - leader), replica: ReplicaId(3 - leader) };
    match asked(&mut world, renew) {
        Some(LocalOutcome::Refused(refusal)) => assert!(refusal.message.contains("add a node"), "{refusal}"),
        other => panic!("{other:?}"),
    }
}
