//! Lost disks, lost flows, blank starts.

use super::*;
use base_engine::{Direction, EngineRead, KeyRange};
use core::ops::ControlFlow;
use core_cluster::api::ReplicaView;
use core_log::testing::SECTOR_BYTES;

fn lose_disk(world: &mut World, id: u64) {
    world.kill(id);
    let lanes = world.nodes[&NodeId(id)].lanes.len() as u16;
    world.new_disk(id, lanes);
    world.run(200);
    world.start(id);
}

#[test]
fn a_node_that_lost_its_disk_comes_back_with_all_it_had() {
    comes_back(1);
}

#[test]
fn a_node_of_two_lanes_that_lost_its_disk_comes_back_too() {
    comes_back(2);
}

fn comes_back(lanes: u16) {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par", "fr-par"], 3, lanes);
    world.ready();
    let names: Vec<ClusterName> = (0..3).map(|n| world.create(1, &format!("metadata@c{n}"), "size=3")).collect();
    for name in &names {
        world.put(1, &KvTarget::Cluster(name.clone()), "k", "v").unwrap();
    }
    let before: Vec<Vec<u64>> = names.iter().map(|name| world.holders(name)).collect();
    // Long enough that clusters are quiet.
    world.run(3_000);
    lose_disk(&mut world, 2);
    world.until("all replicas are back", 30_000, |world| {
        names.iter().zip(&before).all(|(name, holders)| world.holders(name) == *holders)
            && world.holders(&ClusterName::world()) == vec![1, 2, 3]
    });
    world.until("ready again", 20_000, |world| world.status(2).ready);
    for name in &names {
        assert_eq!(world.get(2, &KvTarget::Cluster(name.clone()), "k").as_deref(), Some("v"));
    }
}

#[test]
fn every_node_has_its_configuration_cluster_on_another_chassis() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par", "nl-ams"], 3, 1);
    world.ready();
    for id in 1..=3 {
        let name = world.status(id).config_cluster.expect("another chassis is in the region");
        assert_eq!(name.as_str(), format!("metadata@config-{id}"));
        assert!(!world.holders(&name).contains(&id));
        world.until("the list is kept", 10_000, |world| {
            world.get(1, &KvTarget::Cluster(name.clone()), "allocator/reference@world").is_some()
        });
    }
    let lonely = world.status(4);
    assert!(lonely.config_cluster.is_none());
    assert!(
        lonely.warnings.iter().any(|warning| warning.starts_with("no other chassis in region nl-ams")),
        "{:?}",
        lonely.warnings
    );
}

#[test]
fn a_configuration_cluster_grows_with_its_region() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par", "fr-par"], 3, 1);
    world.kill(4);
    world.until("ready", 20_000, |world| (1..=3).all(|id| world.status(id).ready));
    let name = world.status(1).config_cluster.unwrap();
    assert_eq!(world.holders(&name).len(), 1, "never two: both would be needed for a majority");
    world.start(4);
    world.until("three", 60_000, |world| world.holders(&name) == vec![2, 3, 4]);
    world.until("the list is whole", 20_000, |world| {
        world.get(1, &KvTarget::Cluster(name.clone()), "allocator/reference@world").is_some()
    });
    assert!(world.status(1).ready);
}

#[test]
fn a_configuration_cluster_whose_only_member_is_gone_is_made_anew() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par"], 3, 1);
    world.ready();
    let id = 1;
    let name = world.status(id).config_cluster.unwrap();
    let lost = world.holders(&name)[0];
    let third = (1..=3).find(|other| *other != id && *other != lost).unwrap();
    world.kill(lost);
    world.until("recreated", 90_000, |world| world.holders(&name) == vec![third]);
    world.start(lost);
    world.until("ready", 20_000, |world| world.status(lost).ready);
}

/// No node map shows it, for the disk is not lost: the only copy rotted and calls itself damaged, and nobody can write to it
/// (simulator, 6638).
#[test]
fn a_configuration_cluster_whose_only_copy_rotted_is_made_anew() {
    let found = made_anew_once_rotten(52 << 10..60 << 10);
    assert!(found.is_some_and(|view| view.damaged));
}

#[test]
fn a_configuration_cluster_whose_only_record_rotted_is_made_anew() {
    assert!(made_anew_once_rotten(4 << 10..60 << 10).is_none());
}

/// Ready, with nothing left to tell.
fn is_well(world: &mut World, node: u64) -> bool {
    let status = world.status(node);
    status.ready && status.degraded.is_empty()
}

/// It cannot read what it had joined, and waits for that no longer than for a cluster it writes to.
#[test]
fn a_node_that_starts_beside_a_rotten_configuration_cluster_is_ready_in_the_end() {
    let (mut world, name, rotten) = listed_elsewhere();
    rot_log(&mut world, rotten, 52 << 10..60 << 10);
    world.kill(1);
    world.start(1);
    world.run(30_000);
    let status = world.status(1);
    assert!(status.ready && status.degraded.iter().any(|reason| reason.contains(name.as_str())), "{status:?}");
    world.until("well", 180_000, |world| is_well(world, 1));
    assert_eq!(world.status(1).config_cluster, Some(name));
}

/// It takes writes, and the one pair of its list that rotted has no other copy.
#[test]
fn a_node_whose_list_has_a_rotten_pair_is_ready_in_the_end() {
    let (mut world, name, holder) = listed_elsewhere();
    // Its engine has it, and no overlay.
    world.run(2_000);
    let space = view_on(&world, holder, &name).unwrap().space;
    let engine = world.nodes[&NodeId(holder)].lanes[0].engine.clone();
    let mut keys = Vec::new();
    engine
        .range(space, KeyRange::ALL, Direction::Forward, &mut |key, _| {
            keys.extend(key.ends_with(b"allocator/reference@world").then(|| key.to_vec()));
            ControlFlow::Continue(())
        })
        .unwrap();
    assert!(keys.len() == 1 && engine.damage(space, &keys[0]));
    world.kill(1);
    world.start(1);
    world.run(30_000);
    let status = world.status(1);
    assert!(status.ready && status.degraded.iter().any(|reason| reason.contains(name.as_str())), "{status:?}");
    world.until("well", 180_000, |world| is_well(world, 1));
    world.until("the list is whole", 20_000, |world| lists(world, &name, "allocator/reference@world"));
}

#[test]
fn a_configuration_cluster_that_answers_again_after_minutes_is_kept() {
    let (mut world, name, holder) = listed_elsewhere();
    let before = view_on(&world, holder, &name).unwrap().cluster;
    let joined = world.create(2, "metadata@later", "size=3");
    world.cut.insert(NodeId(1));
    world.run(150_000);
    let failed = |note: &&String| note.contains("node 1: the configuration cluster was not written");
    assert!(world.notes.iter().filter(failed).count() >= 2, "{:#?}", world.notes);
    world.cut.clear();
    world.until("the list is whole", 20_000, |world| lists(world, &name, joined.as_str()));
    assert_eq!(view_on(&world, holder, &name).unwrap().cluster, before);
}

/// The node map says that its holder is up, and so it is; only this node does not reach it.
#[test]
fn a_configuration_cluster_out_of_reach_of_its_node_alone_is_kept() {
    for told in [true, false] {
        let (mut world, name, holder) = listed_elsewhere();
        let life = |world: &World| {
            (2..=3).filter_map(|id| view_on(world, id, &name)).map(|view| view.generation.0).max().unwrap()
        };
        let before = life(&world);
        world.cut_pairs.insert((NodeId(1), NodeId(holder)));
        if told {
            world.tell_all(NodeId(1), || Event::PeerDown { node: NodeId(holder) });
            world.tell_all(NodeId(holder), || Event::PeerDown { node: NodeId(1) });
        }
        let _something_to_write_down = world.create(2, "metadata@later", "size=3");
        world.run(300_000);
        // Where no connection shows it, it is recreated where it may be reached, and not without a minute of silence between.
        let lives = life(&world) - before;
        assert!(if told { lives == 0 } else { lives <= 5 }, "{lives} lives more in five minutes, told: {told}");
    }
}

/// These bytes of the log rot where a configuration cluster has its only copy; what was left of it.
fn made_anew_once_rotten(bytes: core::ops::Range<u64>) -> Option<ReplicaView> {
    let (mut world, name, rotten) = listed_elsewhere();
    rot_log(&mut world, rotten, bytes);
    let found = view_on(&world, rotten, &name);
    // Something to write down, and nowhere to write it.
    let joined = world.create(2, "metadata@later", "size=3");
    assert!(world.holders(&joined).contains(&1));
    let led = |world: &World| (1..=3).any(|id| view_on(world, id, &name).is_some_and(|view| view.is_leader));
    world.until("recreated", 120_000, |world| led(world));
    for listed in ["allocator/reference@world", joined.as_str()] {
        world.until("the list is whole", 20_000, |world| lists(world, &name, listed));
    }
    world.until("known", 2_000, |world| world.status(1).config_cluster.is_some());
    assert!(!view_on(&world, rotten, &name).is_some_and(|view| view.damaged), "the old copy is gone");
    found
}

/// A world of three, the first node's configuration cluster, and who has its only copy.
fn listed_elsewhere() -> (World, ClusterName, u64) {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par"], 3, 1);
    world.ready();
    let name = world.status(1).config_cluster.unwrap();
    let [holder] = world.holders(&name)[..] else { panic!("one member") };
    world.until("the list is kept", 10_000, |world| lists(world, &name, "allocator/reference@world"));
    (world, name, holder)
}

/// A piece of what the node's log has written becomes garbage.
fn rot_log(world: &mut World, id: u64, bytes: core::ops::Range<u64>) {
    world.kill(id);
    let disk = &mut world.nodes.get_mut(&NodeId(id)).unwrap().lanes[0].disk;
    let segment = disk.files()[0];
    assert!(disk.written(segment) > bytes.end, "what a batch after it proves durable");
    bytes.step_by(SECTOR_BYTES).for_each(|offset| disk.rot_sector(segment, offset));
    world.start(id);
}

fn lists(world: &mut World, config: &ClusterName, listed: &str) -> bool {
    let target = KvTarget::Cluster(config.clone());
    let answer = world.act(2, Action::KvGet { target, key: bytes(listed) });
    answer.is_ok_and(|answer| matches!(answer.result, ActionResult::Value { value: Some(_) }))
}

fn view_on(world: &World, id: u64, name: &ClusterName) -> Option<ReplicaView> {
    let lanes = world.nodes[&NodeId(id)].lanes.iter().filter_map(|lane| lane.core.as_ref());
    lanes.flat_map(|core| core.lane().views()).find(|view| view.name == *name)
}

#[test]
fn a_region_of_two_members_is_warned_of() {
    let mut world = World::new(&["fr-par", "fr-par", "nl-ams"], 3, 1);
    world.ready();
    let warned = |world: &mut World, id| {
        world
            .status(id)
            .warnings
            .iter()
            .any(|warning| warning.contains("two members") && warning.contains("1, 3 or 5 members"))
    };
    assert!(warned(&mut world, 1) && !warned(&mut world, 3));
    assert!(world.notes.iter().any(|note| note.contains("reference@region-fr-par has two configured members")));
}

#[test]
fn a_node_without_configuration_cluster_is_healed_by_the_leaders() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par", "nl-ams"], 3, 1);
    world.ready();
    let name = world.create(1, "metadata@wide", "size=2 failure_domain=region");
    let target = KvTarget::Cluster(name.clone());
    world.put(1, &target, "k", "v").unwrap();
    let third = world.create(1, "metadata@three", "size=4");
    world.put(1, &KvTarget::Cluster(third.clone()), "k", "v").unwrap();
    world.run(3_000);
    lose_disk(&mut world, 4);
    world.until("healed", 30_000, |world| world.holders(&third) == vec![1, 2, 3, 4]);
    // One of two voters was lost for good: no majority, no silent vote from a blank disk.
    world.run(5_000);
    assert!(!world.holders(&name).contains(&4));
    let mut read = request(Action::KvGet { target, key: bytes("k") });
    read.deadline = Duration::from_secs(1);
    assert_eq!(code(world.request(1, read)), "DeadlineExceeded");
}

#[test]
fn nodes_with_other_numbers_of_lanes_find_each_other() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par"], 3, 1);
    world.kill(2);
    world.new_disk(2, 3);
    world.start(2);
    world.ready();
    for number in 0..6 {
        let target = KvTarget::Cluster(world.create(1 + number % 3, &format!("metadata@c{number}"), "size=3"));
        world.put(2, &target, "k", "v").unwrap();
        assert_eq!(world.get(3, &target, "k").as_deref(), Some("v"));
    }
}

#[test]
fn a_world_waits_for_all_its_members_and_forms_once() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par"], 3, 1);
    world.kill(3);
    world.run(5_000);
    assert!(world.holders(&ClusterName::world()).is_empty(), "a member has not been heard yet");
    assert!(!world.status(1).warnings.is_empty());
    world.start(3);
    world.ready();
    // The coordinator comes back blank: it is healed, it does not form another world.
    lose_disk(&mut world, 1);
    world.until("healed", 30_000, |world| world.holders(&ClusterName::world()) == vec![1, 2, 3]);
    let views: BTreeSet<u64> = world.nodes[&NodeId(2)].lanes[0]
        .core
        .as_ref()
        .unwrap()
        .lane()
        .view(base_types::ClusterId(1))
        .unwrap()
        .members
        .iter()
        .map(|member| member.replica.0)
        .collect();
    assert!(!views.contains(&1), "the lost replica's id is never used again: {views:?}");
}

#[test]
fn a_flow_whose_runner_died_is_finished_by_another() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par", "fr-par"], 3, 1);
    world.ready();
    let name: ClusterName = "metadata@left".parse().unwrap();
    world.ask(4, request(Action::CreateCluster { name: name.clone(), rule: "size=3".into() }));
    // The record is there, the replicas are not all.
    world.run(12);
    world.kill(4);
    world.until("made or unmade", 60_000, |world| {
        match world.act(1, Action::ResolveCluster { name: name.clone() }) {
            Ok(answer) => matches!(answer.result, ActionResult::Cluster(info) if !info.warnings.iter().any(|warning| warning.contains("not active"))),
            Err(failure) => failure.refusal.code.as_str() == "UnknownCluster",
        }
    });
}

#[test]
fn a_member_that_was_down_while_its_cluster_was_deleted_finds_out() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par", "fr-par"], 3, 1);
    world.ready();
    let name = world.create(1, "metadata@gone", "size=3");
    let victim = world.holders(&name).into_iter().find(|id| *id != world.leader(&ClusterName::world())).unwrap();
    let other = (1..=4).find(|id| *id != victim).unwrap();
    world.kill(victim);
    world.run(500);
    world.done(other, Action::DeleteCluster { name: name.clone() });
    world.start(victim);
    assert_eq!(world.holders(&name), vec![victim]);
    world.until("the orphan is removed", 60_000, |world| world.holders(&name).is_empty());
}

#[test]
fn everything_comes_back_after_all_nodes_are_killed() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par"], 3, 2);
    world.ready();
    let target = KvTarget::Cluster(world.create(1, "metadata@users", "size=3"));
    world.put(1, &target, "k", "v").unwrap();
    (1..=3).for_each(|id| world.kill(id));
    world.run(100);
    (1..=3).for_each(|id| world.start(id));
    assert_eq!(world.get(2, &target, "k").as_deref(), Some("v"));
    world.ready();
}
