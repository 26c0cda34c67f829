//! Engines that are gone, or put back as they were some time ago, beside logs that were kept: on one node, on a minority, on all
//! but one. No read says that a key is not there, nothing that is left is dropped, and a replica that cannot begin says so.
//!
//! Another node's or lane's engine never comes so far: the host refuses it (edge-node, `node/mishaps.rs`).

use super::*;

/// What became of the engines of a node that is down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mishap {
    /// Its directory is gone, or was set aside as damaged.
    Gone,
    /// A copy of an earlier time was put back.
    Older,
}

const ALL: [Mishap; 2] = [Mishap::Gone, Mishap::Older];
/// With so many rows of `FILLER_BYTES` a follower's log is longer than what it keeps for others, and is cut.
const ROWS: usize = 100;
const FILLER_BYTES: usize = 16 << 10;
/// Longer than an election, and than it takes to replace a replica.
const LONG_MS: u64 = 60_000;

type Engines = BTreeMap<u64, Arc<MemoryEngine>>;

/// A world of nodes with one cluster on all; `cut`: of whose logs the engines are needed. And the engines of an earlier time.
fn prepared(nodes: usize, cut: bool) -> (World, ClusterName, Engines) {
    let mut world = World::new(&vec!["fr-par"; nodes], 3, 1);
    world.ready();
    let name = world.create(1, "metadata@kept", &format!("size={nodes}"));
    let target = KvTarget::Cluster(name.clone());
    world.put(1, &target, "k", "old").unwrap();
    world.run(2_000);
    let image = |(id, node): (&NodeId, &Node)| (id.0, Arc::new(MemoryEngine::from_image(node.lanes[0].engine.image())));
    let older = world.nodes.iter().map(image).collect();
    for row in 0..if cut { ROWS } else { 0 } {
        world.put(1, &target, &format!("row-{row}"), &"v".repeat(FILLER_BYTES)).unwrap();
    }
    world.put(1, &target, "k", "new").unwrap();
    world.run(2_000);
    (world, name, older)
}

/// Everybody dies; these come back with other engines.
fn befall(world: &mut World, lost: &[u64], mishap: Mishap, older: &Engines) {
    let ids: Vec<u64> = world.nodes.keys().map(|id| id.0).collect();
    ids.iter().for_each(|id| world.kill(*id));
    for id in lost {
        world.nodes.get_mut(&NodeId(*id)).unwrap().lanes[0].engine = match mishap {
            Mishap::Gone => Arc::new(MemoryEngine::new()),
            Mishap::Older => older[id].clone(),
        };
    }
    ids.iter().for_each(|id| world.start(*id));
}

/// What a strong read through a node says; `None`: it is not served.
fn read(world: &mut World, id: u64, target: &KvTarget) -> Option<String> {
    let mut get = request(Action::KvGet { target: target.clone(), key: bytes("k") });
    get.deadline = Duration::from_millis(500);
    match world.request(id, get).ok()?.result {
        ActionResult::Value { value } => {
            let value = value.map(|value| String::from_utf8(value.to_vec()).unwrap());
            assert_eq!(value.as_deref(), Some("new"), "through node {id}");
            value
        }
        other => panic!("{other:?}"),
    }
}

/// Until every node answers, and all hold the cluster.
fn heals(world: &mut World, name: &ClusterName, what: &str) {
    let target = KvTarget::Cluster(name.clone());
    let ids: Vec<u64> = world.nodes.keys().map(|id| id.0).collect();
    let deadline = world.now + Duration::from_millis(LONG_MS);
    while !ids.iter().all(|id| read(world, *id, &target).is_some()) || world.holders(name) != ids {
        assert!(world.now < deadline, "{what}: not healed; {:#?}", world.notes);
        world.run(50);
    }
}

#[test]
fn engines_lost_beside_whole_logs_come_back_from_them() {
    for mishap in ALL {
        for lost in [&[2][..], &[1, 2], &[1, 2, 3]] {
            let (mut world, name, older) = prepared(3, false);
            befall(&mut world, lost, mishap, &older);
            heals(&mut world, &name, &format!("{mishap:?} on {lost:?}"));
        }
    }
}

#[test]
fn engines_lost_on_a_minority_are_replaced() {
    for mishap in ALL {
        for (nodes, lost) in [(3, &[2][..]), (5, &[1, 2])] {
            let (mut world, name, older) = prepared(nodes, true);
            befall(&mut world, lost, mishap, &older);
            heals(&mut world, &name, &format!("{mishap:?} on {lost:?} of {nodes}"));
            for id in lost {
                let told = |note: &&String| note.contains(&format!(" node {id}: ")) && note.contains("kept");
                assert!(world.notes.iter().any(|note| told(&note)), "node {id} is silent: {:#?}", world.notes);
            }
        }
    }
}

#[test]
fn engines_lost_on_all_but_one_elect_nobody_and_say_so() {
    for mishap in ALL {
        let (mut world, name, older) = prepared(3, true);
        let target = KvTarget::Cluster(name.clone());
        let kept = world.nodes[&NodeId(3)].lanes[0].engine.spaces().unwrap().len();
        befall(&mut world, &[1, 2], mishap, &older);
        for _ in 0..20 {
            world.run(500);
            for id in 1..=3 {
                assert_eq!(read(&mut world, id, &target), None, "{mishap:?}: a majority has lost what it promised");
            }
        }
        let last = world.nodes[&NodeId(3)].lanes[0].core.as_ref().unwrap().lane().views();
        assert!(last.iter().any(|view| view.name == name && !view.blank), "{mishap:?}: the last copy is kept");
        assert!(world.nodes[&NodeId(3)].lanes[0].engine.spaces().unwrap().len() >= kept, "{mishap:?}");
        for id in [1, 2] {
            let warnings = world.status(id).warnings;
            assert!(warnings.iter().any(|warning| warning.contains("kept")), "{mishap:?}: node {id}: {warnings:?}");
        }
    }
}
