//! Nodes that leave, to the end: emptied, reported empty, stopped, forgotten; in any weather.

use super::*;
use base_types::action::DecommissionInfo;
use core_flow::Random;

/// How long a node may take to leave.
const LEAVING_MS_MAX: u64 = 180_000;

fn progress(world: &mut World, asked: u64, node: u64) -> Option<DecommissionInfo> {
    match world.act(asked, Action::DecommissionNode { node: NodeId(node) }) {
        Ok(Answer { result: ActionResult::Decommission(info), .. }) => Some(info),
        Ok(other) => panic!("{other:?}"),
        Err(failure) => {
            assert!(failure.refusal.kind().retryable(), "{failure:?}");
            None
        }
    }
}

/// Takes a node out of service as an operator does: until the flow says that it is done, and then all that it said must hold.
fn leaves(world: &mut World, asked: u64, node: u64) {
    let begun = world.now;
    loop {
        let info = progress(world, asked, node);
        if info.as_ref().is_some_and(|info| info.replicas == 0) {
            break;
        }
        let late = world.now.since(begun) > Duration::from_millis(LEAVING_MS_MAX);
        assert!(!late, "node {node} never leaves: {info:?}; held by {:#?}", listed(world, asked, node));
        world.run(500);
    }
    world.weather = None;
    let held = listed(world, asked, node);
    assert!(held.is_empty(), "decommission said done: {held:#?}");
    world.kill(node);
    let mut told = String::new();
    for _ in 0..60 {
        match world.act(asked, Action::ForgetNode { node: NodeId(node) }) {
            Ok(_) => return,
            Err(failure) => told = failure.refusal.message,
        }
        assert!(told.contains("it is up") || told.contains("did not answer"), "decommission said done: {told}");
        world.run(500);
    }
    panic!("node {node} is never forgotten: {told}");
}

/// The clusters that `reference` lists a node as a member of, with all their members; but for those that are being removed.
fn listed(world: &mut World, asked: u64, node: u64) -> Vec<(String, Vec<u64>)> {
    let list = Action::ListClusters { prefix: String::new(), start_after: None, limit: 1_000 };
    match world.act(asked, list).map(|answer| answer.result) {
        Ok(ActionResult::Clusters { clusters, .. }) => {
            let removed = |warning: &String| warning.starts_with("the cluster is not active: Deleting");
            let all = clusters.into_iter().filter(|info| !info.warnings.iter().any(removed)).map(|info| {
                (info.name.as_str().to_string(), info.members.iter().map(|member| member.node.0).collect::<Vec<u64>>())
            });
            all.filter(|(_, members)| members.contains(&node)).collect()
        }
        other => vec![(format!("{other:?}"), Vec::new())],
    }
}

#[test]
pub(super) fn four_nodes_shrink_to_three() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par", "fr-par"], 3, 1);
    world.ready();
    for id in 1..=4 {
        let name = world.status(id).config_cluster.unwrap();
        world.until("three copies", 60_000, |world| world.holders(&name).len() == 3);
    }
    let name = world.create(1, "metadata@users", "size=3");
    world.put(1, &KvTarget::Cluster(name), "k", "v").unwrap();
    leaves(&mut world, 1, 4);
    for id in 1..=3 {
        world.until("one copy, listing what is there", 60_000, |world| {
            let name = world.status(id).config_cluster;
            name.is_some_and(|name| {
                world.holders(&name).len() == 1
                    && world.get(1, &KvTarget::Cluster(name), "allocator/reference@world").is_some()
            })
        });
    }
}

#[test]
fn two_nodes_shrink_to_one() {
    let mut world = World::new(&["fr-par", "fr-par"], 1, 1);
    // The region has a cluster of both by its configuration; here it is to have one of the first.
    world.regions.insert("fr-par".into(), vec![1]);
    (1..=2).for_each(|id| world.kill(id));
    (1..=2).for_each(|id| world.new_disk(id, 1));
    (1..=2).for_each(|id| world.start(id));
    world.ready();
    leaves(&mut world, 1, 2);
    world.until("none is left to want", 60_000, |world| world.status(1).config_cluster.is_none());
    assert!(world.status(1).ready);
}

/// The owner of a configuration cluster is down for good, and another node leaves that has a copy of it.
#[test]
fn a_node_leaves_though_the_owner_of_its_last_replica_is_dead() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par", "fr-par", "fr-par"], 3, 1);
    world.ready();
    world.run(15_000);
    world.kill(4);
    leaves(&mut world, 1, 5);
    leaves_dead(&mut world, 1, 4);
}

/// A node that died is decommissioned and forgotten.
fn leaves_dead(world: &mut World, asked: u64, node: u64) {
    let mut left = None;
    for _ in 0..LEAVING_MS_MAX / 500 {
        left = progress(world, asked, node).map(|info| info.replicas);
        if left == Some(0) {
            world.done(asked, Action::ForgetNode { node: NodeId(node) });
            return;
        }
        world.run(500);
    }
    panic!("node {node} never leaves: {left:?}; {:#?}", listed(world, asked, node));
}

/// The only copies of other nodes' configuration clusters were on a node that died with its disk. Once it is removed from the world
/// nobody waits for it, and they are made elsewhere (scripts/operators-day.sh met it).
#[test]
pub(super) fn lone_copies_of_a_removed_node_are_made_elsewhere() {
    let mut world = World::new(&["fr-par"; 5], 3, 1);
    (4..=5).for_each(|id| world.kill(id));
    let wanted = |world: &mut World, id: u64| world.status(id).config_cluster;
    (1..=3).for_each(|id| world.until("ready", 60_000, |world| world.status(id).ready));
    let lone = |world: &mut World, id: u64| wanted(world, id).map_or(vec![], |name| world.holders(&name));
    // With three chassis each has one copy, on another node.
    let dead = (1..=3).flat_map(|id| lone(&mut world, id)).next().expect("a copy");
    let owners: Vec<u64> = (1..=3).filter(|id| *id != dead && lone(&mut world, *id) == [dead]).collect();
    assert!(!owners.is_empty());
    world.kill(dead);
    (4..=5).for_each(|id| world.start(id));
    (4..=5).for_each(|id| world.until("ready", 20_000, |world| world.status(id).ready));
    leaves_dead(&mut world, owners[0], dead);
    assert!(owners.iter().all(|id| lone(&mut world, *id).is_empty()), "a copy is made before the node is removed");
    for id in owners {
        world.until("a configuration cluster again", 180_000, |world| {
            let status = world.status(id);
            let holders = status.config_cluster.map_or(vec![], |name| world.holders(&name));
            status.degraded.is_empty() && !holders.is_empty()
        });
    }
}

fn pick<'a, T>(random: &mut Random, from: &'a [T]) -> &'a T {
    &from[random.below(from.len() as u64) as usize]
}

/// One world: some clusters, frames lost, doubled and late, members moved about, and a node leaves.
fn leaves_in_weather(seed: u64) {
    let mut random = Random::new(seed);
    let nodes = 4 + random.below(2) as usize;
    let mut world = World::new(&vec!["fr-par"; nodes], 3, 1 + random.below(2) as u16);
    world.ready();
    let count = 1 + random.below(4);
    for number in 0..count {
        let name = format!("metadata@c{number}");
        let size = 1 + random.below(3);
        world.create(1, &name, &format!("size={size}"));
    }
    world.weather = Some(Weather {
        random: Random::new(seed ^ 0x77ea),
        lost: *pick(&mut random, &[0, 10, 50, 150]),
        doubled: *pick(&mut random, &[0, 50, 300]),
        late: *pick(&mut random, &[0, 50, 300]),
        late_ms_max: *pick(&mut random, &[20, 300, 3_000]),
    });
    let leaving = 4 + random.below(nodes as u64 - 3);
    if random.below(3) == 0 {
        let victim = 1 + random.below(3);
        world.kill(victim);
        world.start(victim);
    }
    leaves(&mut world, 1 + random.below(3), leaving);
}

/// `DECOMMISSION_SEEDS=2000 cargo test --release -p core-node --lib leaves_in_any` for thousands.
#[test]
fn a_node_leaves_in_any_weather() {
    let seeds = std::env::var("DECOMMISSION_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(4u64);
    let first = std::env::var("DECOMMISSION_FIRST").ok().and_then(|text| text.parse().ok()).unwrap_or(1u64);
    for seed in first..first + seeds {
        println!("seed {seed}");
        leaves_in_weather(seed);
    }
}

/// A world of four, a cluster of three on the first, led by another node than the world, between which nothing gets through.
fn cut_off_from_the_world() -> (World, ClusterName, u64) {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par", "fr-par"], 3, 1);
    world.ready();
    let name = world.create(1, "metadata@users", "size=3");
    let of_world = world.leader(&ClusterName::world());
    let others: Vec<u64> = world.holders(&name).into_iter().filter(|id| *id != of_world).collect();
    if !others.contains(&world.leader(&name)) {
        world.done(1, Action::TransferLeader { name: name.clone(), node: NodeId(others[0]) });
    }
    world.run(1_000);
    let leader = world.leader(&name);
    // Its route is known there, so that the world need not be asked.
    world.put(leader, &KvTarget::Cluster(name.clone()), "k", "v").unwrap();
    world.cut_pairs.insert((NodeId(leader.min(of_world)), NodeId(leader.max(of_world))));
    (world, name, leader)
}

/// The nodes that `reference` lists as members.
fn members_listed(world: &mut World, asked: u64, name: &ClusterName) -> BTreeSet<u64> {
    match world.act(asked, Action::ResolveCluster { name: name.clone() }).map(|answer| answer.result) {
        Ok(ActionResult::Cluster(info)) => info.members.iter().map(|member| member.node.0).collect(),
        _ => BTreeSet::new(),
    }
}

#[test]
pub(super) fn members_that_change_while_they_are_told_are_told_again() {
    let (mut world, name, leader) = cut_off_from_the_world();
    let before = world.holders(&name);
    let fourth = (1..=4).find(|id| !before.contains(id)).unwrap();
    world.done(leader, Action::AddMember { name: name.clone(), node: NodeId(fourth) });
    let gone = *before.iter().find(|id| **id != leader).unwrap();
    world.done(leader, Action::RemoveMember { name: name.clone(), node: NodeId(gone) });
    world.cut_pairs.clear();
    let wanted: BTreeSet<u64> = (1..=4).filter(|id| *id != gone).collect();
    let healed = world.now;
    while members_listed(&mut world, 1, &name) != wanted {
        let late = world.now.since(healed) > Duration::from_secs(2);
        assert!(!late, "{:?} are listed of {wanted:?}", members_listed(&mut world, 1, &name));
    }
}

#[test]
pub(super) fn members_that_changed_before_all_died_are_told() {
    let (mut world, name, leader) = cut_off_from_the_world();
    // Who stays must answer the leader: the member that is cut off from it goes, where there is one.
    let cut = |id: u64| (NodeId(leader.min(id)), NodeId(leader.max(id)));
    let others: Vec<u64> = world.holders(&name).into_iter().filter(|id| *id != leader).collect();
    let gone = *others.iter().find(|id| world.cut_pairs.contains(&cut(**id))).unwrap_or(&others[0]);
    world.done(leader, Action::RemoveMember { name: name.clone(), node: NodeId(gone) });
    (1..=4).for_each(|id| world.kill(id));
    world.cut_pairs.clear();
    (1..=4).for_each(|id| world.start(id));
    world.until("told", 60_000, |world| {
        let listed = members_listed(world, 1, &name);
        listed.len() == 2 && !listed.contains(&gone)
    });
}
