//! Members that contradict each other: who is given up, says so, and is rebuilt from the majority.

use super::harness::*;
use crate::api::*;
use base_types::{NodeId, ReadConsistency, ReplicaId};
use core_log::testing::TestDisk;
use engine_memory::MemoryEngine;
use std::sync::Arc;

/// Nodes come back with the disks and engines they had some time ago.
struct OldImage {
    node: u64,
    disk: TestDisk,
    engine: MemoryEngine,
}

fn image_of(world: &mut World, node: u64) -> OldImage {
    let found = world.node(node);
    OldImage { node, disk: found.disk.clone(), engine: MemoryEngine::from_image(found.engine.image()) }
}

fn bring_back(world: &mut World, image: OldImage) {
    let node = world.node(image.node);
    node.disk = image.disk;
    node.engine = Arc::new(image.engine);
}

/// Two of three come back from before some writes that all three have applied; the third keeps them.
fn cut_majority(flush: bool) -> (World, u64) {
    let mut world = World::new(3, 3, if flush { 1 } else { 1 << 20 });
    (0..10).for_each(|number| world.put(&format!("k{number}"), "old"));
    world.run(500);
    let keeper = world.leader();
    let others: Vec<u64> = (1..=3).filter(|node| *node != keeper).collect();
    let images: Vec<OldImage> = others.iter().map(|node| image_of(&mut world, *node)).collect();
    (0..10).for_each(|number| world.put(&format!("k{number}"), "new"));
    world.run(if flush { 1_500 } else { 100 });
    world.cut.insert(NodeId(keeper));
    others.iter().for_each(|node| world.kill(*node));
    images.into_iter().for_each(|image| bring_back(&mut world, image));
    others.iter().for_each(|node| drop(world.start(NodeId(*node))));
    world.run(2_000);
    let leader = world.leader();
    assert!(leader != keeper);
    (world, keeper)
}

fn is_given_up_and_rebuilt(mut world: World, keeper: u64) {
    assert_eq!(world.get(keeper, "k1", ReadConsistency::Eventual).as_deref(), Some("new"));
    world.cut.remove(&NodeId(keeper));
    world.run(1_000);
    let told = |(node, notice): &(NodeId, Notice)| {
        *node == NodeId(keeper)
            && matches!(notice, Notice::Damaged { message, .. } if message.contains("contradicts the majority"))
    };
    assert!(world.notices.iter().any(told), "{:?}", world.notices);
    assert_eq!(world.lane(keeper).statistics().contradictions, 1);
    assert!(world.view(keeper).unwrap().damaged);
    assert!(matches!(world.call(keeper, read("k1", ReadConsistency::Eventual)), LocalOutcome::NotLeader { .. }));
    world.run(1_000);
    let leader = world.leader();
    let members = world.view(leader).unwrap().members;
    let new = members.iter().find(|member| member.node == NodeId(keeper)).unwrap().replica;
    assert!(new > ReplicaId(3), "{members:?}");
    let (now, joins) = (world.now, ReplicaSpec { replica: new, initial_members: Arc::default(), ..spec(keeper, 3) });
    assert!(world.lane(keeper).create_replica(now, joins).unwrap());
    world.run(3_000);
    world.assert_equal(3);
    assert_eq!(world.get(keeper, "k1", ReadConsistency::Eventual).as_deref(), Some("old"));
}

#[test]
pub fn a_member_with_more_than_its_leader_gives_way() {
    let (world, keeper) = cut_majority(false);
    is_given_up_and_rebuilt(world, keeper);
}

#[test]
fn a_member_gives_way_although_its_log_is_compacted() {
    let (world, keeper) = cut_majority(true);
    is_given_up_and_rebuilt(world, keeper);
}
