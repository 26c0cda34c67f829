//! Members of the world's and a region's cluster that change, while all configurations name the first ones.

use super::*;

fn world_name() -> ClusterName {
    ClusterName::world()
}

fn region_name() -> ClusterName {
    ClusterName::regional("fr-par").unwrap()
}

/// Nodes 1, 2 and 3 form the world and the region; a cluster of three that clients use.
fn six() -> (World, KvTarget) {
    let mut world = World::new(&["fr-par"; 6], 3, 1);
    world.ready();
    let name = world.create(1, "metadata@users", "size=3");
    let target = KvTarget::Cluster(name);
    world.put(1, &target, "k", "v").unwrap();
    (world, target)
}

fn change(world: &mut World, asked: u64, action: Action) -> Result<(), (&'static str, String)> {
    let mut request = request(action);
    request.deadline = Duration::from_secs(20);
    let answer = world.request(asked, request);
    answer.map(|_| ()).map_err(|failure| (failure.refusal.code.as_str(), failure.refusal.message))
}

fn replace(world: &mut World, asked: u64, name: ClusterName, from: u64, to: u64) -> Result<(), (&'static str, String)> {
    change(world, asked, Action::MoveMember { name, from: NodeId(from), to: Some(NodeId(to)) })
}

fn serves(world: &mut World, ids: &[u64], target: &KvTarget, key: &str) {
    for id in ids {
        world.put(*id, target, key, &format!("{key}-{id}")).unwrap();
        assert_eq!(world.get(*id, target, key), Some(format!("{key}-{id}")));
        world.done(*id, Action::ListClusters { prefix: String::new(), start_after: None, limit: 10 });
    }
}

#[test]
pub(super) fn the_first_members_go_one_by_one() {
    let (mut world, target) = six();
    for (from, to) in [(1, 4), (2, 5), (3, 6)] {
        // Clients continue meanwhile.
        let load: Vec<Ticket> = (0..20)
            .map(|at| {
                let key = bytes(&format!("load-{at}"));
                let put = Action::KvPut { target: target.clone(), key, value: bytes("x") };
                world.ask(4 + at % 3, request(put))
            })
            .collect();
        replace(&mut world, 5, world_name(), from, to).unwrap();
        replace(&mut world, 6, region_name(), from, to).unwrap();
        let all = |world: &mut World| load.iter().all(|ticket| world.replies.contains_key(ticket));
        world.until("the load is answered", 10_000, all);
        assert!(load.iter().all(|ticket| world.replies.remove(ticket).unwrap().is_ok()));
    }
    for name in [world_name(), region_name()] {
        world.until("the old ones are gone", 20_000, |world| world.holders(&name) == [4, 5, 6]);
    }
    // What else they hold goes as with any node.
    for id in [1, 2, 3] {
        world.until("emptied", 120_000, |world| {
            world.done(5, Action::DecommissionNode { node: NodeId(id) }).result
                == ActionResult::Decommission(base_types::action::DecommissionInfo {
                    node: NodeId(id),
                    draining: true,
                    replicas: 0,
                    obstacles: Vec::new(),
                })
        });
    }
    (1..=3).for_each(|id| world.kill(id));
    serves(&mut world, &[4, 5, 6], &target, "after");
    // All that is left restarts, and every configuration still names those that are gone.
    (4..=6).for_each(|id| world.kill(id));
    world.run(500);
    world.by_address = true;
    (4..=6).for_each(|id| world.start(id));
    world.until("ready", 60_000, |world| (4..=6).all(|id| world.status(id).ready));
    serves(&mut world, &[4, 5, 6], &target, "again");
}

#[test]
fn a_new_node_finds_the_world_through_any_node_it_lists() {
    let (mut world, target) = six();
    replace(&mut world, 5, world_name(), 1, 4).unwrap();
    world.kill(6);
    world.new_disk(6, 1);
    world.by_address = true;
    // Node 1 is a member no more, node 5 never was one.
    for hint in [1, 5] {
        world.hints.insert(6, vec![hint]);
        world.start(6);
        world.until("ready", 60_000, |world| world.status(6).ready);
        serves(&mut world, &[6], &target, "new");
        world.kill(6);
        world.new_disk(6, 1);
        world.run(2_000);
    }
    // One that lists itself beside a member of now forms nothing by itself.
    world.hints.insert(6, vec![4, 6]);
    world.start(6);
    world.until("ready", 60_000, |world| world.status(6).ready);
    assert_eq!(world.holders(&world_name()), [2, 3, 4]);
}

#[test]
fn a_member_replaced_while_away_drops_its_replica() {
    let (mut world, target) = six();
    world.kill(1);
    world.run(1_500);
    replace(&mut world, 5, world_name(), 1, 4).unwrap();
    replace(&mut world, 5, region_name(), 1, 4).unwrap();
    world.run(1_000);
    world.start(1);
    for name in [world_name(), region_name()] {
        world.until("dropped", 30_000, |world| world.holders(&name) == [2, 3, 4]);
    }
    world.until("ready", 30_000, |world| world.status(1).ready);
    serves(&mut world, &[1], &target, "back");
    // It may be one again, on the very disk.
    replace(&mut world, 2, world_name(), 2, 1).unwrap();
    world.until("back", 20_000, |world| world.holders(&world_name()) == [1, 3, 4]);
}

#[test]
pub(super) fn a_member_that_was_away_while_all_were_replaced_learns_it() {
    let (mut world, _) = six();
    world.kill(1);
    world.run(1_500);
    for (from, to) in [(1, 4), (2, 5), (3, 6)] {
        replace(&mut world, 5, world_name(), from, to).unwrap();
        replace(&mut world, 5, region_name(), from, to).unwrap();
    }
    world.run(1_000);
    (2..=3).for_each(|id| world.kill(id));
    world.run(1_500);
    // Those it votes with are gone; only those that took their places can say so.
    world.start(1);
    for name in [world_name(), region_name()] {
        world.until("dropped", 30_000, |world| world.holders(&name) == [4, 5, 6]);
    }
    let list = || Action::ListClusters { prefix: String::new(), start_after: None, limit: 10 };
    world.until("it asks the world", 30_000, |world| world.act(1, list()).is_ok());
}

#[test]
fn a_blank_node_that_was_replaced_does_not_wait_for_the_world() {
    let (mut world, target) = six();
    replace(&mut world, 5, world_name(), 1, 4).unwrap();
    replace(&mut world, 5, region_name(), 1, 4).unwrap();
    world.kill(1);
    world.new_disk(1, 1);
    world.run(500);
    world.start(1);
    world.until("ready", 60_000, |world| world.status(1).ready);
    serves(&mut world, &[1], &target, "blank");
    assert_eq!(world.holders(&world_name()), [2, 3, 4]);
}

#[test]
fn a_member_is_added_and_another_removed() {
    let (mut world, _) = six();
    change(&mut world, 1, Action::AddMember { name: world_name(), node: NodeId(4) }).unwrap();
    change(&mut world, 1, Action::AddMember { name: world_name(), node: NodeId(5) }).unwrap();
    world.until("five", 20_000, |world| world.holders(&world_name()) == [1, 2, 3, 4, 5]);
    change(&mut world, 6, Action::RemoveMember { name: world_name(), node: NodeId(1) }).unwrap();
    change(&mut world, 6, Action::RemoveMember { name: world_name(), node: NodeId(2) }).unwrap();
    world.until("three", 20_000, |world| world.holders(&world_name()) == [3, 4, 5]);
    world.until("nobody is missed", 20_000, |world| (1..=6).all(|id| world.status(id).ready));
}

#[test]
fn wrong_changes_of_members_are_refused() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par", "fr-par", "nl-ams"], 3, 1);
    world.ready();
    let refused = |world: &mut World, action: Action| change(world, 2, action).unwrap_err();
    let add = |name: ClusterName, node: u64| Action::AddMember { name, node: NodeId(node) };
    let remove = |name: ClusterName, node: u64| Action::RemoveMember { name, node: NodeId(node) };
    assert_eq!(refused(&mut world, add(world_name(), 9)).0, "UnknownNode");
    assert_eq!(refused(&mut world, remove(world_name(), 9)).0, "NotAMember");
    let (code, message) = refused(&mut world, add(region_name(), 5));
    assert!(code == "PlacementRefused" && message.contains("it is in region nl-ams"), "{message}");
    assert_eq!(replace(&mut world, 2, world_name(), 9, 4).unwrap_err().0, "NotAMember");
    assert_eq!(replace(&mut world, 2, world_name(), 1, 2).unwrap_err().0, "AlreadyAMember");
    world.done(1, Action::DecommissionNode { node: NodeId(4) });
    world.run(1_000);
    let (code, message) = refused(&mut world, add(world_name(), 4));
    assert!(code == "PlacementRefused" && message.contains("being decommissioned"), "{message}");
    world.done(1, Action::RecommissionNode { node: NodeId(4) });
    world.run(1_000);
    // One of three is down: without another, no majority is left.
    world.kill(3);
    world.run(2_000);
    let (code, message) = refused(&mut world, remove(world_name(), 1));
    assert!(code == "QuorumAtRisk", "{code} {message}");
    world.kill(4);
    world.run(3_000);
    let (code, message) = refused(&mut world, add(world_name(), 4));
    assert!(code == "PlacementRefused" && message.contains("it is down"), "{message}");
    world.start(3);
    world.run(2_000);
    assert_eq!(world.holders(&world_name()), [1, 2, 3]);
}

#[test]
fn a_second_change_waits_for_the_first() {
    let (mut world, _) = six();
    // The newcomer hears nothing of its leader, so that it stays a learner.
    let leader = world.leader(&world_name());
    world.cut_pairs.insert((NodeId(leader.min(4)), NodeId(leader.max(4))));
    let first = world.ask(leader, request(Action::AddMember { name: world_name(), node: NodeId(4) }));
    world.run(300);
    let (code, message) =
        change(&mut world, leader, Action::AddMember { name: world_name(), node: NodeId(5) }).unwrap_err();
    assert!(code == "MembershipChangePending" && message.contains("node 4 is joining"), "{message}");
    world.cut_pairs.clear();
    world.until("the first is done", 20_000, |world| world.holders(&world_name()) == [1, 2, 3, 4]);
    world.run(10_000);
    world.replies.remove(&first);
}

#[test]
fn a_decommissioned_member_of_the_world_is_replaced() {
    let (mut world, target) = six();
    for id in [1, 2, 3] {
        let asked = 4 + id % 3;
        let mut left = String::new();
        for _ in 0..240 {
            let answer = world.done(asked, Action::DecommissionNode { node: NodeId(id) });
            let ActionResult::Decommission(info) = answer.result else { panic!() };
            left = format!("{info:?}");
            if info.replicas == 0 {
                break;
            }
            world.run(500);
        }
        assert!(left.contains("replicas: 0"), "{left}; {:#?}", world.notes);
        world.kill(id);
        world.until("forgotten", 30_000, |world| change(world, asked, Action::ForgetNode { node: NodeId(id) }).is_ok());
    }
    assert_eq!(world.holders(&world_name()), [4, 5, 6]);
    assert_eq!(world.holders(&region_name()), [4, 5, 6]);
    serves(&mut world, &[4, 5, 6], &target, "moved");
    (4..=6).for_each(|id| world.kill(id));
    (4..=6).for_each(|id| world.start(id));
    world.until("ready", 60_000, |world| (4..=6).all(|id| world.status(id).ready));
    serves(&mut world, &[4, 5, 6], &target, "again");
}
