//! Members that move: nodes that are gone for good, nodes taken out of service, an operator's wish.

use super::*;
use base_types::action::DecommissionInfo;

fn decommission(world: &mut World, asked: u64, node: u64) -> Result<DecommissionInfo, String> {
    match world.act(asked, Action::DecommissionNode { node: NodeId(node) }) {
        Ok(Answer { result: ActionResult::Decommission(info), .. }) => Ok(info),
        Ok(other) => panic!("{other:?}"),
        Err(failure) => Err(failure.refusal.message),
    }
}

/// Nodes 1, 2, 3 are the world; clusters of three on nodes that any of five may hold.
fn five() -> (World, Vec<ClusterName>) {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par", "fr-par", "fr-par"], 3, 1);
    world.ready();
    let names: Vec<ClusterName> = (0..4).map(|n| world.create(1, &format!("metadata@c{n}"), "size=3")).collect();
    for name in &names {
        world.put(1, &KvTarget::Cluster(name.clone()), "k", "v").unwrap();
    }
    (world, names)
}

/// Makes sure that node `id` has a replica of each.
fn settle_on(world: &mut World, names: &[ClusterName], id: u64) {
    for name in names {
        let holders = world.holders(name);
        if !holders.contains(&id) {
            let leader = world.leader(name);
            let from = *holders.iter().find(|holder| **holder != leader).unwrap();
            let to = Some(NodeId(id));
            world.done(1, Action::MoveMember { name: name.clone(), from: NodeId(from), to });
        }
        world.until("settled", 20_000, |world| world.holders(name).contains(&id) && world.holders(name).len() == 3);
    }
}

fn left(world: &World, names: &[ClusterName], id: u64) -> bool {
    names.iter().all(|name| !world.holders(name).contains(&id) && world.holders(name).len() == 3)
}

#[test]
fn a_node_that_is_gone_for_good_is_replaced_and_finds_out_when_it_returns() {
    let (mut world, names) = five();
    settle_on(&mut world, &names, 4);
    world.run(1_000);
    world.kill(4);
    world.until("replaced", 60_000, |world| {
        names.iter().all(|name| world.holders(name).iter().filter(|id| **id != 4).count() == 3)
    });
    for name in &names {
        assert_eq!(world.get(5, &KvTarget::Cluster(name.clone()), "k").as_deref(), Some("v"));
    }
    world.start(4);
    world.until("the old replicas are dropped", 60_000, |world| left(world, &names, 4));
    world.until("ready again", 20_000, |world| world.status(4).ready);
}

#[test]
fn a_node_that_is_down_for_a_moment_keeps_its_place() {
    let (mut world, names) = five();
    settle_on(&mut world, &names, 4);
    world.kill(4);
    world.run(2_500);
    world.start(4);
    world.run(8_000);
    assert!(names.iter().all(|name| world.holders(name).contains(&4)));
}

#[test]
fn where_no_other_node_fits_the_status_says_so() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par"], 3, 1);
    world.ready();
    let name = world.create(1, "metadata@full", "size=3");
    let leader = world.leader(&name);
    let lost = (1..=3).find(|id| *id != leader && *id != world.leader(&ClusterName::world())).unwrap();
    world.kill(lost);
    world.until("it is reported", 30_000, |world| {
        let told = format!("a replica of node {lost} cannot be moved: rule wants 1 chassis");
        world.status(leader).warnings.iter().any(|warning| warning.starts_with(&told))
    });
    world.start(lost);
    world.until("it is forgotten", 30_000, |world| {
        !world.status(leader).warnings.iter().any(|warning| warning.contains("cannot be moved"))
    });
    assert_eq!(world.holders(&name), vec![1, 2, 3]);
}

#[test]
fn a_decommissioned_node_is_emptied_and_elected_no_more() {
    let (mut world, names) = five();
    settle_on(&mut world, &names, 5);
    let info = decommission(&mut world, 2, 5).unwrap();
    assert!(info.draining && info.replicas >= 4 && info.obstacles.is_empty(), "{info:?}");
    world.until("emptied", 60_000, |world| left(world, &names, 5));
    world.until("and told", 20_000, |world| decommission(world, 3, 5).unwrap().replicas == 0);
    for number in 0..4 {
        let fresh = world.create(1, &format!("metadata@fresh{number}"), "size=3");
        assert!(!world.holders(&fresh).contains(&5));
    }
    let nodes = world.done(1, Action::ListNodes).result;
    let ActionResult::Nodes { nodes } = nodes else { panic!() };
    assert_eq!(nodes.iter().filter(|node| node.draining).map(|node| node.node.0).collect::<Vec<_>>(), vec![5]);
    world.done(1, Action::RecommissionNode { node: NodeId(5) });
    world.done(1, Action::CreateCluster { name: "metadata@all".parse().unwrap(), rule: "size=5".into() });
    for name in &names {
        assert_eq!(world.get(5, &KvTarget::Cluster(name.clone()), "k").as_deref(), Some("v"));
    }
}

#[test]
fn a_decommissioning_outlives_the_death_of_whoever_works_at_it() {
    let (mut world, names) = five();
    settle_on(&mut world, &names, 4);
    decommission(&mut world, 5, 4).unwrap();
    for id in [1, 2, 3] {
        world.run(150);
        world.kill(id);
        world.run(400);
        world.start(id);
    }
    world.until("emptied", 90_000, |world| left(world, &names, 4));
}

#[test]
fn a_decommissioning_that_breaks_a_rule_is_refused_and_leaves_no_mark() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par", "fr-par"], 3, 1);
    world.ready();
    let all = world.create(1, "metadata@all", "size=4");
    let message = decommission(&mut world, 2, 4).unwrap_err();
    assert!(message.contains("cluster metadata@all: rule wants 1 chassis"), "{message}");
    let message = decommission(&mut world, 2, 1).unwrap_err();
    assert!(message.contains("cluster metadata@all: rule wants 1 chassis"), "{message}");
    assert!(decommission(&mut world, 2, 9).unwrap_err().contains("node 9 is not known"));
    let ActionResult::Nodes { nodes } = world.done(1, Action::ListNodes).result else { panic!() };
    assert!(nodes.iter().all(|node| !node.draining));
    assert_eq!(world.holders(&all), vec![1, 2, 3, 4]);
}

#[test]
fn an_only_member_moves_with_what_it_holds() {
    let (mut world, _) = five();
    let name = world.create(1, "metadata@one", "size=1");
    let target = KvTarget::Cluster(name.clone());
    world.put(1, &target, "k", "v").unwrap();
    let from = world.holders(&name)[0];
    let answer = world.done(1, Action::MoveMember { name: name.clone(), from: NodeId(from), to: None });
    assert_eq!(answer.cluster.as_deref(), Some(&name));
    world.until("the old one is dropped", 20_000, |world| !world.holders(&name).contains(&from));
    assert_eq!(world.holders(&name).len(), 1);
    assert_eq!(world.get(2, &target, "k").as_deref(), Some("v"));
}

#[test]
fn a_move_that_breaks_the_rule_is_refused() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par", "nl-ams"], 3, 1);
    world.ready();
    let name = world.create(1, "metadata@here", "size=2 location=fr-par");
    let holders = world.holders(&name);
    let other = (1..=3).find(|id| !holders.contains(id)).unwrap();
    let mut moved = |from: u64, to: u64| {
        let action = Action::MoveMember { name: name.clone(), from: NodeId(from), to: Some(NodeId(to)) };
        world.act(1, action).map(|_| ()).map_err(|failure| (failure.refusal.code.as_str(), failure.refusal.message))
    };
    let (code, message) = moved(holders[0], 4).unwrap_err();
    assert!(code == "PlacementRefused" && message.contains("node 4 cannot take the place"), "{message}");
    assert_eq!(moved(holders[0], holders[1]).unwrap_err().0, "AlreadyAMember");
    moved(holders[0], other).unwrap();
    // Done already: nobody is there to be moved, and that is what was asked for.
    moved(holders[0], other).unwrap();
}

#[test]
fn configured_members_move_where_another_node_is() {
    let (mut world, _) = five();
    for name in [ClusterName::world(), ClusterName::regional("fr-par").unwrap()] {
        world.done(1, Action::MoveMember { name: name.clone(), from: NodeId(1), to: None });
        world.until("moved", 20_000, |world| !world.holders(&name).contains(&1) && world.holders(&name).len() == 3);
    }
    let mut world = World::new(&["fr-par", "fr-par", "fr-par"], 3, 1);
    world.ready();
    for name in [ClusterName::world(), ClusterName::regional("fr-par").unwrap()] {
        let action = Action::MoveMember { name, from: NodeId(1), to: None };
        let refusal = world.act(1, action).unwrap_err().refusal;
        assert_eq!(refusal.code.as_str(), "PlacementRefused", "{refusal:?}");
    }
    let message = decommission(&mut world, 2, 1).unwrap_err();
    assert!(message.contains("cluster allocator/reference@world: rule wants 1 chassis in world"), "{message}");
}

#[test]
fn a_node_is_forgotten_once_it_is_down_and_nobodys_member() {
    let (mut world, names) = five();
    settle_on(&mut world, &names, 5);
    let forget = |world: &mut World, node: u64| {
        let answer = world.act(1, Action::ForgetNode { node: NodeId(node) });
        answer.map(|_| ()).map_err(|failure| failure.refusal.message)
    };
    let known = |world: &mut World, asked: u64| {
        let ActionResult::Nodes { nodes } = world.done(asked, Action::ListNodes).result else { panic!() };
        nodes.iter().map(|node| node.node.0).collect::<Vec<u64>>()
    };
    assert!(forget(&mut world, 9).unwrap_err().contains("node 9 is not known"));
    assert!(forget(&mut world, 5).unwrap_err().contains("node 5 cannot be forgotten: it is up"));
    decommission(&mut world, 2, 5).unwrap();
    world.until("emptied", 60_000, |world| left(world, &names, 5));
    world.until("and told", 20_000, |world| decommission(world, 3, 5).unwrap().replicas == 0);
    world.kill(5);
    world.until("forgotten", 30_000, |world| match forget(world, 5) {
        Ok(()) => true,
        Err(why) => {
            assert!(why.contains("it is up"), "{why}");
            false
        }
    });
    for asked in 1..=4 {
        world.until("everywhere", 20_000, |world| known(world, asked) == [1, 2, 3, 4]);
    }
    // The others of the world's leader know it, too; and a node of that number is a new one.
    world.start(5);
    world.until("new", 30_000, |world| known(world, 2).contains(&5));
    let ActionResult::Nodes { nodes } = world.done(1, Action::ListNodes).result else { panic!() };
    assert!(nodes.iter().all(|node| !node.draining));
}

#[test]
fn a_member_that_is_down_is_not_forgotten() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par", "fr-par"], 3, 1);
    world.ready();
    world.create(1, "metadata@all", "size=4");
    for (node, why) in [(4, "it is a member of metadata@"), (3, "it is a member of allocator/reference@")] {
        world.kill(node);
        let mut told = String::new();
        world.until("down", 30_000, |world| {
            let answer = world.act(1, Action::ForgetNode { node: NodeId(node) });
            told = answer.map_or_else(|failure| failure.refusal.message, |_| panic!("forgotten"));
            !told.contains("it is up")
        });
        assert!(told.contains(why), "{told}");
        world.start(node);
        world.run(2_000);
    }
}

#[test]
fn every_node_knows_the_doors_of_all() {
    let mut world = World::new(&["fr-par", "fr-par", "nl-ams"], 3, 1);
    world.ready();
    for asked in 1..=3 {
        world.until("everywhere", 20_000, |world| {
            let ActionResult::Nodes { nodes } = world.done(asked, Action::ListNodes).result else { panic!() };
            let doors = nodes
                .iter()
                .flat_map(|node| node.doors.iter().map(|(name, url)| (node.node.0, name.clone(), url.clone())));
            doors.eq([1, 2, 3].map(|id| (id, "etcd/etcd".to_string(), format!("http://node-{id}:2379"))))
        });
    }
}
