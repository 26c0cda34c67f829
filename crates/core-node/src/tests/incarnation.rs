//! Nodes of an earlier life of a world, beside those of a later one.

use super::*;

const LATER: u64 = 5;

fn refused(world: &mut World, node: u64, target: &KvTarget) -> Option<&'static str> {
    let mut put = request(Action::KvPut { target: target.clone(), key: bytes("k"), value: bytes("old") });
    put.deadline = Duration::from_secs(1);
    world.request(node, put).err().map(|failure| failure.refusal.code.as_str())
}

#[test]
pub fn nodes_of_an_earlier_life_stop_serving() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par"], 3, 2);
    world.ready();
    let target = KvTarget::Cluster(world.create(1, "metadata@users", "size=3"));
    world.put(2, &target, "k", "v").unwrap();
    // Node 1 comes back as the world's later life; 2 and 3 are a majority of the earlier one.
    world.kill(1);
    assert_eq!(refused(&mut world, 2, &target), None, "they serve as long as they have not heard");
    world.nodes.get_mut(&NodeId(1)).unwrap().incarnation = (LATER, 0);
    world.start(1);
    world.run(500);
    for node in [2, 3] {
        assert_eq!(refused(&mut world, node, &target), Some("Superseded"));
        let mut get = request(Action::KvGet { target: target.clone(), key: bytes("k") });
        get.read_consistency = Some(base_types::ReadConsistency::Eventual);
        assert_eq!(code(world.request(node, get)), "Superseded");
        let status = world.status(node);
        assert!(!status.ready && status.not_ready.iter().any(|reason| reason.contains("incarnation 5")), "{status:?}");
        assert_eq!(world.nodes[&NodeId(node)].incarnation, (0, LATER));
    }
    let refusal =
        |note: &&String| note.contains("node 1: refused a frame") && note.contains("incarnation 0 of world test");
    assert!(world.notes.iter().any(|note| refusal(&note)), "{:#?}", world.notes);
    // They remember: no restart brings them together again.
    [2, 3].iter().for_each(|node| world.kill(*node));
    world.kill(1);
    [2, 3].iter().for_each(|node| world.start(*node));
    world.run(3_000);
    assert_eq!(refused(&mut world, 2, &target), Some("Superseded"));
}

#[test]
fn blank_node_joins_the_later_life() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par", "fr-par"], 3, 2);
    world.ready();
    let target = KvTarget::Cluster(world.create(1, "metadata@users", "size=3"));
    for node in 1..=4 {
        world.kill(node);
    }
    for node in 1..=3 {
        world.nodes.get_mut(&NodeId(node)).unwrap().incarnation = (LATER, 0);
        world.start(node);
    }
    world.new_disk(4, 2);
    world.start(4);
    world.until("joined", 20_000, |world| world.nodes[&NodeId(4)].incarnation == (LATER, 0) && world.status(4).ready);
    world.put(4, &target, "k", "w").unwrap();
}
