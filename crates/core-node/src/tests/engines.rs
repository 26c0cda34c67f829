//! Clusters that are given another engine. There is one kind of engine here, so what is looked at is that every replica
//! is recreated, where and when; that it is then in the other engine: core-cluster (`tests/engines.rs`), `make real`.

use super::*;
use base_types::action::ClusterInfo;
use base_types::ReplicaId;

fn set(target: KvTarget) -> Action {
    Action::SetEngine { target, engine: "memory".into() }
}

fn describe(world: &mut World, node: u64, name: &ClusterName) -> Option<ClusterInfo> {
    match world.act(node, Action::DescribeCluster { name: name.clone() }).ok()?.result {
        ActionResult::Cluster(info) => Some(info),
        other => panic!("{other:?}"),
    }
}

/// Whether a cluster of `size` has only voters of the engine that was set.
fn moved(world: &mut World, node: u64, name: &ClusterName, size: usize) -> bool {
    let Some(info) = describe(world, node, name) else { return false };
    let all = info.members.iter().all(|member| !member.moves);
    assert_eq!(all, !info.warnings.iter().any(|warning| warning.contains("recreated")), "{info:?}");
    all && info.members.len() == size && info.members.iter().all(|member| !member.learner)
}

fn rule_told(world: &mut World, node: u64, name: &ClusterName) -> String {
    match world.done(node, Action::ResolveCluster { name: name.clone() }).result {
        ActionResult::Cluster(info) => info.rule,
        other => panic!("{other:?}"),
    }
}

fn world_of(nodes: usize) -> World {
    let mut world = World::new(&vec!["fr-par"; nodes], 3, 1);
    world.ready();
    world
}

/// A cluster with a key in it that has just been told to move.
fn moving(nodes: usize, rule: &str) -> (World, ClusterName, KvTarget) {
    let mut world = world_of(nodes);
    let name = world.create(1, "metadata@c", rule);
    let target = KvTarget::Cluster(name.clone());
    world.put(1, &target, "k", "v").unwrap();
    world.done(2, set(target.clone()));
    (world, name, target)
}

#[test]
fn with_no_node_to_spare_every_replica_is_made_anew_where_it_is() {
    let (mut world, name, target) = moving(3, "size=3");
    let begun = describe(&mut world, 1, &name).unwrap();
    assert!(begun.rule.contains("engine=memory"), "{begun:?}");
    assert_eq!(begun.warnings, ["3 of 3 replicas are still to be recreated in engine memory"]);
    assert!(rule_told(&mut world, 3, &name).contains("engine=memory"));
    for number in 0..200 {
        world.put(1 + number % 3, &target, &format!("k{number}"), "v").unwrap();
    }
    world.until("moved", 60_000, |world| moved(world, 1, &name, 3));
    let ended = describe(&mut world, 1, &name).unwrap();
    assert!(ended.members.iter().all(|member| member.replica >= ReplicaId(4)), "{ended:?}");
    // Retried, it is done already, and nothing moves.
    world.done(3, set(target.clone()));
    world.run(10_000);
    assert_eq!(describe(&mut world, 1, &name).unwrap().members.len(), 3);
    assert_eq!(
        describe(&mut world, 1, &name).unwrap().members.iter().map(|member| member.replica).collect::<Vec<_>>(),
        ended.members.iter().map(|member| member.replica).collect::<Vec<_>>()
    );
    assert_eq!(world.get(2, &target, "k199").as_deref(), Some("v"));
}

#[test]
fn a_spare_node_takes_over_so_that_all_votes_are_kept() {
    let (mut world, name, target) = moving(5, "size=3");
    let mut fewest = 3;
    world.until("moved", 60_000, |world| {
        if let Some(info) = describe(world, 4, &name) {
            fewest = fewest.min(info.members.iter().filter(|member| !member.learner).count());
        }
        moved(world, 1, &name, 3)
    });
    assert_eq!(fewest, 3, "there were always three that vote");
    assert_eq!(world.get(2, &target, "k").as_deref(), Some("v"));
}

#[test]
fn an_only_replica_moves_to_a_node_to_spare_or_is_refused() {
    let (mut world, name, target) = moving(3, "size=1");
    world.until("moved", 60_000, |world| moved(world, 1, &name, 1));
    assert_eq!(world.get(3, &target, "k").as_deref(), Some("v"));

    let mut alone = World::new(&["fr-par"], 1, 1);
    alone.ready();
    let name = alone.create(1, "metadata@one", "size=1");
    let refusal = alone.act(1, set(KvTarget::Cluster(name.clone()))).unwrap_err().refusal;
    assert!(
        refusal.code.as_str() == "PlacementRefused" && refusal.message.contains("add nodes that offer it"),
        "{refusal}"
    );
    assert_eq!(rule_told(&mut alone, 1, &name), "size=1", "nothing was changed");
}

#[test]
fn a_move_outlives_the_death_of_whoever_works_at_it() {
    for nodes in [3, 4] {
        let (mut world, name, target) = moving(nodes, "size=3");
        for pause in [2_050, 2_300, 2_600, 500] {
            world.run(pause);
            let leader = world.leader(&name);
            world.kill(leader);
            world.run(400);
            world.start(leader);
        }
        // And of all at once.
        (1..=nodes as u64).for_each(|id| world.kill(id));
        (1..=nodes as u64).for_each(|id| world.start(id));
        world.until("moved", 120_000, |world| moved(world, 1, &name, 3));
        assert_eq!(world.get(2, &target, "k").as_deref(), Some("v"));
    }
}

#[test]
fn a_keyspace_moves_with_all_its_clusters_and_those_to_come() {
    let mut world = world_of(3);
    let create = Action::CreateKeyspace {
        kind: base_types::action::KeyspaceKind::Plain,
        keyspace: "k".into(),
        partitioning: base_types::action::Partitioning::Hash,
        partitions: 8,
        clusters: 2,
        split_keys: Vec::new(),
        rule: "size=3".into(),
        engine: None,
    };
    world.done(1, create);
    world.done(1, set(KvTarget::Keyspace("k".into())));
    let names: Vec<ClusterName> = (0..3).map(|n| format!("metadata@ks-k-{n}").parse().unwrap()).collect();
    for name in &names[..2] {
        world.until("moved", 60_000, |world| moved(world, 1, name, 3));
    }
    match world.done(1, Action::DescribeKeyspace { keyspace: "k".into() }).result {
        ActionResult::Keyspace(info) => assert_eq!(info.engine, "memory"),
        other => panic!("{other:?}"),
    }
    world.done(1, Action::Reshard { keyspace: "k".into(), clusters: 3 });
    world.until("the third is there", 60_000, |world| describe(world, 1, &names[2]).is_some());
    assert!(rule_told(&mut world, 1, &names[2]).contains("engine=memory"));
    let unknown = world.act(1, set(KvTarget::Keyspace("none".into())));
    assert_eq!(code(unknown), "UnknownKeyspace");
}

#[test]
fn what_cannot_be_is_refused_with_what_to_do_and_nothing_is_changed() {
    let mut world = world_of(3);
    let name = world.create(1, "metadata@c", "size=3");
    let target = KvTarget::Cluster(name.clone());
    let refusal = world.act(1, Action::SetEngine { target, engine: "btrieve".into() }).unwrap_err().refusal;
    assert!(refusal.code.as_str() == "UnknownEngine" && refusal.message.contains("choose one of memory"), "{refusal}");
    let refusal = world.act(1, set(KvTarget::Cluster(ClusterName::world()))).unwrap_err().refusal;
    assert!(refusal.message.contains("node.toml"), "{refusal}");
    assert_eq!(code(world.act(1, set(KvTarget::Cluster("metadata@none".parse().unwrap())))), "UnknownCluster");
    assert_eq!(rule_told(&mut world, 1, &name), "size=3");
    assert!(moved(&mut world, 1, &name, 3), "and nothing moves");
}
