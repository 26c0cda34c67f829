//! What an operator reads: changes of leaders, members, nodes and flows, and where the time of slow requests went.

use super::*;
use crate::api::{Change, NodeNews};
use core_cluster::api::Leadership;

fn begun(world: &World, name: &ClusterName) -> Vec<(NodeId, Option<NodeId>, &'static str)> {
    let told = world.changes.iter().filter_map(|(node, change)| match change {
        Change::Leadership { cluster, event: Leadership::Begun { before, reason }, .. } if cluster == name => {
            Some((*node, *before, *reason))
        }
        _ => None,
    });
    told.collect()
}

/// A leader dies: its successor says so once, with whom it follows and why; the others say that the node is down; then the lost
/// member is replaced, which the leader reports, and the flow that does it is reported with its end.
#[test]
fn a_death_is_told_once_by_whom_it_concerns() {
    let mut world = World::new(&["fr-par"; 4], 3, 1);
    world.ready();
    let name = world.create(1, "metadata@users", "size=3");
    let target = KvTarget::Cluster(name.clone());
    world.put(1, &target, "k", "v").unwrap();
    let leader = world.leader(&name);
    assert!(!begun(&world, &name).is_empty(), "somebody told that it leads");
    world.changes.clear();
    world.kill(leader);
    world.run(8_000);
    let asked = (1..=4).find(|node| *node != leader).unwrap();
    world.put(asked, &target, "k", "w").unwrap();
    let now = world.leader(&name);
    let reason = "the leader was silent for the election timeout";
    assert_eq!(begun(&world, &name), [(NodeId(now), Some(NodeId(leader)), reason)]);
    let down = |(node, change): &(NodeId, Change)| {
        (*change == Change::Node { node: NodeId(leader), news: NodeNews::Down }).then_some(node.0)
    };
    let told: BTreeSet<u64> = world.changes.iter().filter_map(down).collect();
    assert_eq!(told, (1..=4).filter(|node| *node != leader).collect(), "every node that lives reports it once");
    assert_eq!(world.changes.iter().filter_map(down).count(), 3);
}

#[test]
fn members_and_flows_are_told() {
    let mut world = World::new(&["fr-par"; 4], 3, 1);
    world.ready();
    world.changes.clear();
    let name = world.create(1, "metadata@users", "size=3");
    let flows = |world: &World, wanted: &str| {
        let is_it = |change: &Change| match change {
            Change::FlowBegun { flow, .. } => *flow == wanted,
            Change::FlowEnded { flow, failed, .. } => *flow == wanted && failed.is_none(),
            _ => false,
        };
        world.changes.iter().filter(|(_, change)| is_it(change)).count()
    };
    assert_eq!(flows(&world, "create-cluster"), 2, "its begin and its end");
    let holders = world.holders(&name);
    let free = (1..=4).find(|node| !holders.contains(node)).unwrap();
    let leader = world.leader(&name);
    let leaving = holders.into_iter().find(|node| *node != leader).unwrap();
    world.changes.clear();
    let (from, to) = (NodeId(leaving), Some(NodeId(free)));
    world.done(1, Action::MoveMember { name: name.clone(), from, to });
    let after = |change: &Change| match change {
        Change::Members { cluster, now, .. } if *cluster == name => Some(now.clone()),
        _ => None,
    };
    world.until("the move is reported", 20_000, |world| {
        let last = world.changes.iter().rev().find_map(|(_, change)| after(change));
        last.is_some_and(|now| now.contains(&NodeId(free)) && !now.contains(&NodeId(leaving)))
    });
    assert_eq!(flows(&world, "move-member"), 2, "{:#?}", world.changes);
}

#[test]
fn a_slow_request_says_where_its_time_went() {
    let mut world = World::new(&["fr-par"; 3], 3, 1);
    world.ready();
    let name = world.create(1, "metadata@users", "size=3");
    let target = KvTarget::Cluster(name.clone());
    world.put(1, &target, "k", "v").unwrap();
    assert_eq!(world.spent, [], "nothing was slow");
    // Nobody can write to a disk for a while: the write waits for a majority's.
    world.stalled.extend([NodeId(1), NodeId(2), NodeId(3)]);
    let ticket = world.ask(1, put_request(&target));
    world.run(1_500);
    world.stalled.clear();
    world.until("it is answered", 10_000, |world| world.replies.contains_key(&ticket));
    let (_, spent) = world.spent.iter().find(|(slow, _)| *slow == ticket).expect("it was slow");
    assert!(spent.took >= Duration::from_millis(1_000) && spent.before <= spent.took, "{spent:?}");
    assert_eq!(spent.cluster.as_deref(), Some(&name));
    assert!(spent.node.is_some() && spent.attempts > 0, "{spent:?}");
}

fn put_request(target: &KvTarget) -> Request {
    request(Action::KvPut { target: target.clone(), key: bytes("k"), value: bytes("slow") })
}

/// A drained node hands over on every lane, at once, also what is quiet; clients' writes continue, and another node refuses to be asked
/// for it. Undrained, it may lead again.
#[test]
fn a_drained_node_hands_over_on_every_lane() {
    let mut world = World::new(&["fr-par"; 3], 3, 2);
    world.ready();
    let names: Vec<ClusterName> = (0..12).map(|n| world.create(1, &format!("metadata@users-{n}"), "size=3")).collect();
    let led = |world: &mut World, node: u64| names.iter().filter(|name| world.leader(name) == node).count();
    world.run(20_000);
    let drained = (1..=3).max_by_key(|node| led(&mut world, *node)).unwrap();
    assert!(led(&mut world, drained) > 1);
    let other = drained % 3 + 1;
    let asked = Action::DrainNode { node: NodeId(drained), drained: true };
    assert_eq!(code(world.act(other, asked.clone())), "OtherNode");
    world.changes.clear();
    world.done(drained, asked);
    for name in &names {
        world.put(other, &KvTarget::Cluster(name.clone()), "k", "v").unwrap();
    }
    world.run(1_000);
    assert_eq!(led(&mut world, drained), 0);
    let handed = world.changes.iter().filter(|(node, change)| {
        let Change::Leadership { event: Leadership::HandingOver { reason, .. }, .. } = change else { return false };
        node.0 == drained && *reason == "its node is drained, or about to stop"
    });
    assert!(handed.count() > 1);
    world.done(drained, Action::DrainNode { node: NodeId(drained), drained: false });
    let back = Action::TransferLeader { name: names[0].clone(), node: NodeId(drained) };
    world.done(other, back);
    assert_eq!(world.leader(&names[0]), drained);
}
