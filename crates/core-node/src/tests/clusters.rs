//! Clusters come and go; keyspaces over them.

use super::*;
use base_types::action::{BatchStep, Partitioning};

fn describe(world: &mut World, node: u64, name: &ClusterName) -> base_types::action::ClusterInfo {
    match world.done(node, Action::DescribeCluster { name: name.clone() }).result {
        ActionResult::Cluster(info) => info,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_cluster_made_again_is_another_one() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par", "fr-par"], 3, 1);
    world.ready();
    let name = world.create(1, "metadata@users", "size=3");
    let target = KvTarget::Cluster(name.clone());
    world.put(1, &target, "k", "old").unwrap();
    assert_eq!(world.get(4, &target, "k").as_deref(), Some("old"));
    let first = describe(&mut world, 1, &name);
    assert_eq!(
        code(world.act(2, Action::CreateCluster { name: name.clone(), rule: "size=3".into() })),
        "ClusterExists"
    );
    world.done(2, Action::DeleteCluster { name: name.clone() });
    assert!(world.holders(&name).is_empty());
    // Node 4 still has the old life in its cache.
    assert_eq!(code(world.act(4, Action::KvGet { target: target.clone(), key: bytes("k") })), "UnknownCluster");
    world.create(3, "metadata@users", "size=3");
    assert_eq!(world.get(4, &target, "k"), None);
    let second = describe(&mut world, 4, &name);
    assert_eq!(second.generation.0, first.generation.0 + 1);
    assert_ne!(second.cluster, first.cluster);
}

#[test]
pub fn members_are_added_removed_and_told() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par", "fr-par"], 3, 1);
    world.ready();
    let name = world.create(1, "metadata@users", "size=3");
    let target = KvTarget::Cluster(name.clone());
    world.put(1, &target, "k", "v").unwrap();
    let members = world.holders(&name);
    let fourth = (1..=4).find(|node| !members.contains(node)).unwrap();
    world.done(1, Action::AddMember { name: name.clone(), node: NodeId(fourth) });
    world.until("the new member knows it is one", 1_000, |world| world.holders(&name).len() == 4);
    let gone = members[0];
    world.done(2, Action::RemoveMember { name: name.clone(), node: NodeId(gone) });
    world.until("the removed replica is gone", 15_000, |world| !world.holders(&name).contains(&gone));
    world.until("reference has the members", 15_000, |world| {
        match world.done(fourth, Action::ResolveCluster { name: name.clone() }).result {
            ActionResult::Cluster(info) => {
                let nodes: Vec<u64> = info.members.iter().map(|member| member.node.0).collect();
                nodes.len() == 3 && !nodes.contains(&gone) && nodes.contains(&fourth)
            }
            other => panic!("{other:?}"),
        }
    });
    assert_eq!(world.get(gone, &target, "k").as_deref(), Some("v"));
    let to = describe(&mut world, 1, &name)
        .members
        .iter()
        .map(|member| member.node)
        .find(|node| Some(*node) != Some(NodeId(world.leader(&name))))
        .unwrap();
    world.done(1, Action::TransferLeader { name: name.clone(), node: to });
    world.until("leadership moved", 5_000, |world| world.leader(&name) == to.0);
}

/// Fifty-one members: it is made, written to and read, loses 25 of them, its leader first, and serves on; one more dead and
/// it would not.
#[test]
fn fifty_one_members_bear_the_loss_of_twenty_five() {
    const MEMBERS: u64 = 51;
    let mut world = World::new(&["fr-par"; MEMBERS as usize], 3, 1);
    world.ready();
    let refused =
        world.act(1, Action::CreateCluster { name: "metadata@crowd".parse().unwrap(), rule: "size=64".into() });
    assert_eq!(code(refused), "InvalidRule");
    let name = world.create(1, "metadata@crowd", &format!("size={MEMBERS}"));
    assert_eq!(world.holders(&name).len(), MEMBERS as usize);
    let target = KvTarget::Cluster(name.clone());
    world.put(7, &target, "k", "v").unwrap();
    let leader = world.leader(&name);
    let last = (4..=MEMBERS).rev().filter(|node| *node != leader).take(if leader > 3 { 24 } else { 25 });
    let gone: Vec<u64> = last.chain((leader > 3).then_some(leader)).collect();
    world.cut.extend(gone.iter().copied().map(NodeId));
    world.put(2, &target, "k", "w").unwrap();
    assert_eq!(world.get(3, &target, "k").as_deref(), Some("w"));
    let one_more = (4..=MEMBERS).find(|node| !gone.contains(node)).unwrap();
    world.cut.insert(NodeId(one_more));
    world.put(2, &target, "k", "x").expect_err("25 of 51 are no majority");
    world.cut.clear();
    world.until("those that were cut off have it", 20_000, |world| {
        gone.iter().all(|node| {
            let get = Action::KvGet { target: target.clone(), key: bytes("k") };
            let level = Some(base_types::ReadConsistency::Eventual);
            let read = world.request(*node, Request { read_consistency: level, ..request(get) });
            read.is_ok_and(|reply| format!("{:?}", reply.result).contains("\"x\""))
        })
    });
}

#[test]
fn clusters_are_listed_resolved_and_their_levels_changed() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par"], 3, 1);
    world.ready();
    for number in 0..3 {
        world.create(1, &format!("metadata@list-{number}"), "size=1");
    }
    let list = Action::ListClusters { prefix: "metadata@list-".into(), start_after: None, limit: 2 };
    match world.done(2, list).result {
        ActionResult::Clusters { clusters, next } => {
            assert_eq!(clusters.len(), 2);
            assert_eq!(next.as_deref(), Some("metadata@list-1"));
        }
        other => panic!("{other:?}"),
    }
    let name: ClusterName = "metadata@list-0".parse().unwrap();
    let set = Action::SetDefaultConsistency {
        name: name.clone(),
        consistency: Some(WriteConsistency::Eventual),
        read_consistency: None,
    };
    world.done(3, set);
    assert_eq!(describe(&mut world, 1, &name).consistency, WriteConsistency::Eventual);
    let answer = world.put(2, &KvTarget::Cluster(name), "k", "v").unwrap();
    assert_eq!(answer.level, Some(base_types::action::Level::Write(WriteConsistency::Eventual)));
    match world.done(2, Action::ResolveCluster { name: ClusterName::world() }).result {
        ActionResult::Cluster(info) => assert_eq!(info.members.len(), 3),
        other => panic!("{other:?}"),
    }
}

#[test]
fn another_regions_cluster_is_found_through_the_world() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par", "nl-ams"], 3, 1);
    world.ready();
    let name = ClusterName::regional("nl-ams").unwrap();
    world.run(3_000);
    assert_eq!(describe(&mut world, 1, &name).leader, Some(NodeId(4)));
    let nowhere = ClusterName::regional("pl-waw").unwrap();
    assert_eq!(code(world.act(1, Action::DescribeCluster { name: nowhere })), "UnknownCluster");
    let list = Action::ListClusters { prefix: String::new(), start_after: None, limit: 100 };
    match world.done(1, list).result {
        ActionResult::Clusters { clusters, .. } => {
            let names: Vec<&str> = clusters.iter().map(|info| info.name.as_str()).collect();
            assert!(
                names.is_sorted()
                    && names.contains(&"allocator/reference@world")
                    && names.contains(&"reference@region-fr-par"),
                "{names:?}"
            );
        }
        other => panic!("{other:?}"),
    }
}

fn create_keyspace(world: &mut World, partitioning: Partitioning) -> KvTarget {
    world.done(
        1,
        Action::CreateKeyspace {
            kind: base_types::action::KeyspaceKind::Plain,
            keyspace: "default".into(),
            partitioning,
            partitions: 8,
            clusters: 2,
            split_keys: Vec::new(),
            rule: "size=3".into(),
            engine: None,
        },
    );
    KvTarget::Keyspace("default".into())
}

#[test]
fn a_keyspace_serves_through_every_node_and_while_it_moves() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par"], 3, 2);
    world.ready();
    let target = create_keyspace(&mut world, Partitioning::Hash);
    for key in 0..40 {
        world.put(1 + key % 3, &target, &format!("k{key:03}"), &format!("{key}")).unwrap();
    }
    world.done(2, Action::Reshard { keyspace: "default".into(), clusters: 4 });
    for key in 0..40 {
        world.put(1 + key % 3, &target, &format!("k{key:03}"), &format!("{}", key + 100)).unwrap();
    }
    world.until("the reshard ends", 60_000, |world| {
        match world.done(3, Action::DescribeKeyspace { keyspace: "default".into() }).result {
            ActionResult::Keyspace(info) => {
                info.reshard.is_none() && info.owners.iter().collect::<BTreeSet<_>>().len() == 4
            }
            other => panic!("{other:?}"),
        }
    });
    for key in 0..40 {
        assert_eq!(world.get(1 + key % 3, &target, &format!("k{key:03}")), Some(format!("{}", key + 100)));
    }
    let scan = Action::KvScan {
        target,
        prefix: bytes("k"),
        start_after: None,
        end: None,
        limit: 100,
        reverse: false,
        keys_only: true,
    };
    match world.done(2, scan).result {
        ActionResult::Page { entries, next } => assert_eq!((entries.len(), next), (40, None)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_batch_asked_again_after_its_keys_have_parted_is_found_done() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par"], 3, 2);
    world.ready();
    world.done(
        1,
        Action::CreateKeyspace {
            kind: base_types::action::KeyspaceKind::Plain,
            keyspace: "default".into(),
            partitions: 8,
            clusters: 1,
            partitioning: Partitioning::Hash,
            split_keys: Vec::new(),
            rule: "size=3".into(),
            engine: None,
        },
    );
    let target = KvTarget::Keyspace("default".into());
    let steps = |value: &str| {
        let put = |key: usize| BatchStep::Put { key: bytes(&format!("k{key:03}")), value: bytes(value) };
        (0..40).map(put).collect::<Vec<_>>()
    };
    let batch = |value: &str, id| {
        level(Action::KvBatch { target: target.clone(), steps: steps(value) }, WriteConsistency::Strong, id)
    };
    let first = world.request(1, batch("1", 7)).unwrap();
    world.done(2, Action::Reshard { keyspace: "default".into(), clusters: 4 });
    world.until("the reshard ends", 60_000, |world| {
        match world.done(3, Action::DescribeKeyspace { keyspace: "default".into() }).result {
            ActionResult::Keyspace(info) => {
                info.reshard.is_none() && info.owners.iter().collect::<BTreeSet<_>>().len() == 4
            }
            other => panic!("{other:?}"),
        }
    });
    world.put(1, &target, "k000", "2").unwrap();
    for node in 1..=3 {
        assert_eq!(world.request(node, batch("1", 7)).unwrap().result, first.result);
        let refused = world.request(node, batch("3", 8)).unwrap_err();
        assert_eq!(refused.refusal.code.as_str(), "BatchCrossesClusters");
    }
    assert_eq!(world.get(2, &target, "k000").as_deref(), Some("2"), "it was not carried out once more");
}
