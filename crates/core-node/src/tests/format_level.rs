//! Nodes of two builds in one world (decision 0070).

use super::*;
use base_types::action::UpgradeInfo;

const OLD: FormatLevel = FormatLevel(1);
const NEW: FormatLevel = FormatLevel(2);

fn world() -> World {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par"], 3, 2);
    world.ready();
    world
}

/// Restarts a node with another program.
fn install(world: &mut World, node: u64, level_max: FormatLevel) {
    world.kill(node);
    world.nodes.get_mut(&NodeId(node)).unwrap().level.1 = level_max;
    world.start(node);
    world.until("back", 20_000, |world| world.status(node).ready);
    // Its record has reached the allocator.
    world.run(1_000);
}

fn status(world: &mut World, node: u64) -> UpgradeInfo {
    match world.done(node, Action::UpgradeStatus).result {
        ActionResult::Upgrade(info) => info,
        other => panic!("{other:?}"),
    }
}

fn kept(world: &World) -> Vec<FormatLevel> {
    world.nodes.values().map(|node| node.level.0).collect()
}

fn refusal(world: &mut World) -> String {
    world.act(1, Action::FinalizeUpgrade).unwrap_err().refusal.message
}

#[test]
pub fn level_rises_only_when_every_node_serves_it() {
    let mut world = world();
    let target = KvTarget::Cluster(world.create(1, "metadata@users", "size=3"));
    world.put(2, &target, "k", "1").unwrap();
    install(&mut world, 1, NEW);
    let info = status(&mut world, 1);
    assert_eq!((info.level, info.target, info.nodes.len(), info.blockers.len()), (OLD, NEW, 3, 2), "{info:?}");
    let refused = refusal(&mut world);
    assert!(refused.contains("node 2 runs hive test, which serves up to level 1"), "{refused}");
    install(&mut world, 2, NEW);
    install(&mut world, 3, NEW);
    // Back and forth again: nobody has written anything of the new level.
    install(&mut world, 2, OLD);
    assert!(refusal(&mut world).contains("node 2"));
    install(&mut world, 2, NEW);
    world.kill(3);
    world.run(3_000);
    let refused = refusal(&mut world);
    assert!(refused.contains("node 3 is not reachable") && refused.contains("hive ctl"), "{refused}");
    world.start(3);
    world.until("back", 20_000, |world| world.status(3).ready);
    world.run(1_000);
    assert_eq!(kept(&world), [OLD, OLD, OLD]);
    world.put(2, &target, "k", "2").unwrap();
    world.done(1, Action::FinalizeUpgrade);
    world.until("heard", 5_000, |world| kept(world) == [NEW, NEW, NEW]);
    assert_eq!(status(&mut world, 2).level, NEW);
    world.put(2, &target, "k", "3").unwrap();
    for node in 1..=3 {
        world.kill(node);
    }
    // With what it has kept, an older program does not even start.
    world.nodes.get_mut(&NodeId(3)).unwrap().level.1 = OLD;
    let refused = world.try_start(3).unwrap_err();
    assert!(refused.contains("world test is at format level 2") && refused.contains("install hive"), "{refused}");
    world.nodes.get_mut(&NodeId(3)).unwrap().level.1 = NEW;
    for node in 1..=3 {
        world.start(node);
    }
    world.until("ready", 20_000, |world| (1..=3).all(|node| world.status(node).ready));
    assert_eq!(world.get(1, &target, "k").as_deref(), Some("3"));
}

#[test]
fn old_build_that_hears_of_a_newer_level_ends_and_remembers() {
    let mut world = world();
    for node in 1..=3 {
        install(&mut world, node, NEW);
    }
    // Node 3 is put back, and cut off before anybody hears of that.
    world.cut.insert(NodeId(3));
    world.kill(3);
    world.nodes.get_mut(&NodeId(3)).unwrap().level.1 = OLD;
    world.start(3);
    world.done(1, Action::FinalizeUpgrade);
    world.cut.clear();
    let heard = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.run(10_000)));
    let reason = *heard.unwrap_err().downcast::<String>().unwrap();
    assert!(reason.contains("node 3 halts: world test is at format level 2"), "{reason}");
    assert_eq!(world.nodes[&NodeId(3)].level.0, NEW);
}
