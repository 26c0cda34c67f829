//! Logs that are gone, older or another's under a kept disk id: refused, and nothing beside them touched.

use super::*;

/// What became of the logs of a node that is down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mishap {
    /// A mount is missing.
    Gone,
    /// A copy of an earlier time was put back, without what lies beside it.
    Older,
    /// Those of another node.
    OfAnotherNode,
    /// Its two lanes changed places.
    Swapped,
    /// One lane has the log of the other, which kept its own.
    OfAnotherLane,
}

const ALL: [Mishap; 5] = [Mishap::Gone, Mishap::Older, Mishap::OfAnotherNode, Mishap::Swapped, Mishap::OfAnotherLane];

fn lanes(world: &mut World, id: u64) -> &mut Vec<Lane> {
    &mut world.nodes.get_mut(&NodeId(id)).unwrap().lanes
}

fn spaces(world: &mut World, id: u64) -> Vec<usize> {
    lanes(world, id).iter().map(|lane| lane.engine.spaces().unwrap().len()).collect()
}

/// A world of three whose nodes were restarted once since `older` was copied.
fn prepared() -> (World, ClusterName, BTreeMap<u64, Vec<TestDisk>>) {
    prepared_of(3)
}

fn prepared_of(nodes: u64) -> (World, ClusterName, BTreeMap<u64, Vec<TestDisk>>) {
    let mut world = World::new(&vec!["fr-par"; nodes as usize], 3, 2);
    world.ready();
    let name = world.create(1, "metadata@kept", &format!("size={nodes}"));
    world.put(1, &KvTarget::Cluster(name.clone()), "k", "old").unwrap();
    world.run(1_000);
    let older =
        (1..=nodes).map(|id| (id, lanes(&mut world, id).iter().map(|lane| lane.disk.clone()).collect())).collect();
    world.put(1, &KvTarget::Cluster(name.clone()), "k", "new").unwrap();
    world.run(1_000);
    (1..=nodes).for_each(|id| world.kill(id));
    (1..=nodes).for_each(|id| world.start(id));
    world.ready();
    (1..=nodes).for_each(|id| world.kill(id));
    (world, name, older)
}

fn befall(world: &mut World, id: u64, mishap: Mishap, older: &BTreeMap<u64, Vec<TestDisk>>) {
    let nodes = world.nodes.len() as u64;
    let other: Vec<TestDisk> = lanes(world, id % nodes + 1).iter().map(|lane| lane.disk.clone()).collect();
    let lanes = lanes(world, id);
    match mishap {
        Mishap::Gone => lanes.iter_mut().for_each(|lane| lane.disk = TestDisk::new(SEGMENT_BYTES)),
        Mishap::Older => lanes.iter_mut().zip(&older[&id]).for_each(|(lane, old)| lane.disk = old.clone()),
        Mishap::OfAnotherNode => lanes.iter_mut().zip(other).for_each(|(lane, other)| lane.disk = other),
        Mishap::Swapped => {
            let first = lanes[0].disk.clone();
            lanes[0].disk = std::mem::replace(&mut lanes[1].disk, first);
        }
        Mishap::OfAnotherLane => lanes[1].disk = lanes[0].disk.clone(),
    }
}

fn refused(world: &mut World, id: u64, mishap: Mishap) {
    let before = spaces(world, id);
    let reason = world.try_start(id).expect_err("it starts without its log");
    let expected = match mishap {
        Mishap::Gone => "the log has no batch, and it had reached batch",
        Mishap::Older => "the log ends at batch",
        _ => "belongs to another log",
    };
    // A lane of these worlds that has no replica yet has no batch; a host's has.
    let of_empty_lane = expected.starts_with("belongs") && reason.contains("the log has no batch, and it had reached");
    assert!(reason.contains(expected) || of_empty_lane, "{mishap:?}: {reason}");
    // It may have opened one lane before it met the other's.
    world.kill(id);
    assert_eq!(spaces(world, id), before, "{mishap:?}: nothing of it was dropped");
}

fn wiped(world: &mut World, id: u64) {
    world.new_disk(id, 2);
    world.run(200);
    world.start(id);
}

#[test]
fn a_lost_log_on_one_node_is_refused_then_healed() {
    for mishap in ALL {
        let (mut world, name, older) = prepared();
        befall(&mut world, 2, mishap, &older);
        world.start(1);
        refused(&mut world, 2, mishap);
        world.start(3);
        let target = KvTarget::Cluster(name.clone());
        world.until("the others serve", 20_000, |world| world.get(1, &target, "k").as_deref() == Some("new"));
        wiped(&mut world, 2);
        world.until("healed", 60_000, |world| world.holders(&name) == vec![1, 2, 3]);
        world.until("ready", 20_000, |world| world.status(2).ready);
        assert_eq!(world.get(2, &target, "k").as_deref(), Some("new"));
    }
}

#[test]
fn lost_logs_on_a_minority_are_refused_then_healed() {
    for mishap in ALL {
        let (mut world, name, older) = prepared_of(5);
        [3, 5].iter().for_each(|id| befall(&mut world, *id, mishap, &older));
        [3, 5].iter().for_each(|id| refused(&mut world, *id, mishap));
        [1, 2, 4].iter().for_each(|id| world.start(*id));
        let target = KvTarget::Cluster(name.clone());
        world.until("the majority serves", 20_000, |world| world.get(1, &target, "k").as_deref() == Some("new"));
        [3, 5].iter().for_each(|id| wiped(&mut world, *id));
        world.until("healed", 120_000, |world| world.holders(&name) == vec![1, 2, 3, 4, 5]);
        for id in 1..=5 {
            assert_eq!(world.get(id, &target, "k").as_deref(), Some("new"), "{mishap:?}: through node {id}");
        }
    }
}

#[test]
fn lost_logs_on_all_but_one_node_elect_nobody() {
    for mishap in ALL {
        let (mut world, name, older) = prepared();
        for id in [1, 2] {
            befall(&mut world, id, mishap, &older);
        }
        // What befell node 1 last took nothing from node 3.
        for id in [1, 2] {
            refused(&mut world, id, mishap);
        }
        world.start(3);
        world.run(10_000);
        let core = world.nodes[&NodeId(3)].lanes.iter().filter_map(|lane| lane.core.as_ref());
        let views: Vec<_> = core.flat_map(|core| core.lane().views()).collect();
        assert!(views.iter().any(|view| view.name == name), "{mishap:?}: the last copy is kept");
        assert!(views.iter().all(|view| view.members.len() < 3 || view.leader.is_none()), "{mishap:?}");
        // Nor does it once the two came back with new disks: they have no vote.
        for id in [1, 2] {
            wiped(&mut world, id);
        }
        world.run(10_000);
        let core = world.nodes[&NodeId(3)].lanes.iter().filter_map(|lane| lane.core.as_ref());
        let leads = core.flat_map(|core| core.lane().views()).any(|view| view.name == name && view.is_leader);
        assert!(!leads, "{mishap:?}: a majority lost its disks");
    }
}

/// The acknowledged write was known to nodes 1 and 2; node 2 forgot, node 3 had missed it.
#[test]
pub fn a_voter_without_its_log_cannot_undo_an_acknowledged_write() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par"], 3, 1);
    world.ready();
    world.run(3_000);
    world.cut.insert(NodeId(3));
    for other in [1, 2] {
        world.tell_all(NodeId(other), || Event::PeerDown { node: NodeId(3) });
        world.tell_all(NodeId(3), || Event::PeerDown { node: NodeId(other) });
    }
    world.run(2_000);
    let name: ClusterName = "metadata@acknowledged".parse().unwrap();
    world.done(1, Action::CreateCluster { name: name.clone(), rule: "size=1".into() });
    world.run(2_000);
    (1..=3).for_each(|id| world.kill(id));
    world.cut.clear();
    befall(&mut world, 2, Mishap::Gone, &BTreeMap::new());
    refused(&mut world, 2, Mishap::Gone);
    world.start(3);
    world.run(5_000);
    wiped(&mut world, 2);
    world.run(5_000);
    let mut resolve = request(Action::ResolveCluster { name: name.clone() });
    resolve.deadline = Duration::from_secs(1);
    assert_eq!(code(world.request(3, resolve.clone())), "DeadlineExceeded");
    world.start(1);
    world.until("the write is there", 30_000, |world| world.request(3, resolve.clone()).is_ok());
}

/// A host without a mark: what its leader hears must not make it the voter that it was.
#[test]
pub fn a_voter_that_holds_nothing_is_replaced_under_a_new_id() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par", "fr-par"], 3, 1);
    world.ready();
    let name = world.create(1, "metadata@kept", "size=4");
    world.put(1, &KvTarget::Cluster(name.clone()), "k", "v").unwrap();
    world.run(1_000);
    let ids = |world: &World, id: u64| -> Vec<(u64, u64)> {
        let core = world.nodes[&NodeId(id)].lanes[0].core.as_ref().unwrap();
        let view = core.lane().views().into_iter().find(|view| view.name == name).unwrap();
        view.members.iter().map(|member| (member.node.0, member.replica.0)).collect()
    };
    let before = ids(&world, 1);
    // All of them: who has heard of the log that is gone would say so (disk_rollback.rs).
    (1..=4).for_each(|id| world.kill(id));
    let slot = &mut lanes(&mut world, 4)[0];
    (slot.disk, slot.reached) = (TestDisk::new(SEGMENT_BYTES), 0);
    let kept = spaces(&mut world, 4);
    (1..=4).for_each(|id| world.start(id));
    world.run(2_000);
    assert_eq!(ids(&world, 1), before, "nothing is recreated under an old id");
    assert!(world.notes.iter().any(|note| note.contains("the log is new and")), "{:#?}", world.notes);
    assert!(spaces(&mut world, 4) >= kept, "nothing is dropped after a log that is gone");
    world.until("healed", 30_000, |world| world.holders(&name) == vec![1, 2, 3, 4]);
    let of = |ids: Vec<(u64, u64)>| ids.into_iter().find(|(node, _)| *node == 4).unwrap().1;
    assert!(of(ids(&world, 1)) > of(before), "its replica is another one");
    world.until("equal", 20_000, |world| world.get(4, &KvTarget::Cluster(name.clone()), "k").as_deref() == Some("v"));
}
