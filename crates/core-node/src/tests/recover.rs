//! A cluster whose majority is gone for good: surveyed, recovered by its name, grown again; members that come back end.

use super::*;
use base_types::action::{RecoveryInfo, RecoveryState};
use base_types::{Generation, ReadConsistency};

/// A world of three, and four nodes of another region with a cluster of three on them; one of its members lives on.
struct Bereft {
    world: World,
    name: ClusterName,
    target: KvTarget,
    alone: u64,
    gone: [u64; 2],
}

pub(super) fn recover(
    world: &mut World,
    name: &ClusterName,
    confirm: Option<&str>,
) -> Result<RecoveryInfo, &'static str> {
    let action = Action::RecoverCluster { name: name.clone(), confirm: confirm.map(String::from), survivor: None };
    let asked = Request { deadline: Duration::from_secs(20), ..request(action) };
    match world.request(1, asked) {
        Ok(Answer { result: ActionResult::Recovery(info), .. }) => Ok(info),
        Ok(other) => panic!("{other:?}"),
        Err(failure) => Err(failure.refusal.code.as_str()),
    }
}

pub(super) fn recoveries(world: &mut World) -> Vec<RecoveryInfo> {
    match world.done(1, Action::ListRecoveries { name: None }).result {
        ActionResult::Recoveries { recoveries } => recoveries,
        other => panic!("{other:?}"),
    }
}

pub(super) fn has_ended(world: &World, node: u64, name: &ClusterName) -> bool {
    let cores = world.nodes[&NodeId(node)].lanes.iter().filter_map(|lane| lane.core.as_ref());
    let mut views = cores.flat_map(|core| core.lane().views());
    views.any(|view| view.name == *name && view.ended > Generation(0))
}

fn placed() -> (World, ClusterName, KvTarget, Vec<u64>) {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par", "nl-ams", "nl-ams", "nl-ams", "nl-ams"], 3, 2);
    world.ready();
    let name = world.create(1, "metadata@kept", "size=3 location=nl-ams");
    let target = KvTarget::Cluster(name.clone());
    for number in 0..10 {
        world.put(1, &target, &format!("k{number}"), "acknowledged").unwrap();
    }
    world.run(2_000);
    let holders = world.holders(&name);
    assert_eq!(holders.len(), 3, "{holders:?}");
    (world, name, target, holders)
}

fn bereft() -> Bereft {
    let (mut world, name, target, holders) = placed();
    let alone = holders[0];
    let gone = [holders[1], holders[2]];
    assert_eq!(recover(&mut world, &name, Some(name.as_str())), Err("LeaderLives"));
    gone.iter().for_each(|node| world.kill(*node));
    world.run(3_000);
    Bereft { world, name, target, alone, gone }
}

fn get_level(world: &mut World, node: u64, target: &KvTarget, key: &str, level: ReadConsistency) -> Option<String> {
    let action = Action::KvGet { target: target.clone(), key: bytes(key) };
    match world.request(node, Request { read_consistency: Some(level), ..request(action) }).unwrap().result {
        ActionResult::Value { value } => value.map(|value| String::from_utf8(value.to_vec()).unwrap()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_survey_changes_nothing() {
    let Bereft { mut world, name, alone, gone, .. } = bereft();
    let info = recover(&mut world, &name, None).unwrap();
    assert_eq!((info.state, info.survivor, info.ended), (RecoveryState::Surveyed, Some(NodeId(alone)), Generation(1)));
    assert_eq!(info.silent, gone.map(NodeId).to_vec());
    assert_eq!(info.survivors.len(), 1);
    assert!(info.findings[0].contains("did not answer"), "{:?}", info.findings);
    assert_eq!(recover(&mut world, &name, Some("metadata@other")), Err("NotConfirmed"));
    assert!(recoveries(&mut world).is_empty());
    // They come back: nothing has happened to the cluster.
    gone.iter().for_each(|node| world.start(*node));
    world.until("a leader of all three", 10_000, |world| world.holders(&name).len() == 3);
    let refused = recover(&mut world, &name, Some(name.as_str()));
    assert!(matches!(refused, Err("LeaderLives" | "MajorityLives")), "{refused:?}");
}

/// Whom the survey does not reach, and somebody else does, is not gone.
pub(super) fn members_that_are_cut_off_are_not_overruled() {
    let (mut world, name, target, holders) = placed();
    let of_world = world.leader(&ClusterName::world());
    let asked = (1..=3).find(|node| *node != of_world).unwrap();
    let confirmed = |world: &mut World| {
        let action = Action::RecoverCluster { name: name.clone(), confirm: Some(name.to_string()), survivor: None };
        let asked_for = Request { deadline: Duration::from_secs(20), ..request(action) };
        world.request(asked, asked_for).map(|_| ()).map_err(|failure| failure.refusal.code.as_str())
    };
    let (alone, others) = (holders[0], [holders[1], holders[2]]);
    let cut = |world: &mut World, one: u64| {
        for other in others {
            world.cut_pairs.insert((NodeId(one), NodeId(other)));
            world.cut_pairs.insert((NodeId(other), NodeId(one)));
            world.tell_all(NodeId(one), || Event::PeerDown { node: NodeId(other) });
            world.tell_all(NodeId(other), || Event::PeerDown { node: NodeId(one) });
        }
    };
    cut(&mut world, asked);
    world.run(5_000);
    assert_eq!(confirmed(&mut world), Err("LeaderLives"), "one that answers is led by one that does not");
    cut(&mut world, alone);
    world.run(5_000);
    assert_eq!(confirmed(&mut world), Err("MemberUp"), "the world hears of them");
    assert!(recoveries(&mut world).is_empty());
    world.put(of_world, &target, "k", "they serve").unwrap();
}

#[test]
fn members_that_live_are_not_overruled() {
    members_that_are_cut_off_are_not_overruled();
}

#[test]
fn another_survivor_than_the_one_shown_is_not_taken() {
    let Bereft { mut world, name, target, alone, gone } = bereft();
    let confirm = |survivor: u64| Action::RecoverCluster {
        name: name.clone(),
        confirm: Some(name.to_string()),
        survivor: Some(NodeId(survivor)),
    };
    assert_eq!(code(world.act(1, confirm(gone[0]))), "SurvivorChanged");
    assert!(recoveries(&mut world).is_empty());
    // The world decides, and the survivor dies: what the others keep may be all there is.
    world.done(1, confirm(alone));
    world.put(1, &target, "after", "the loss").unwrap();
    world.kill(alone);
    gone.iter().for_each(|node| world.start(*node));
    world.until("the life before ends", 20_000, |world| gone.iter().all(|node| has_ended(world, *node, &name)));
    let discard = Action::DiscardEnded { name: name.clone(), node: NodeId(gone[0]) };
    let asked = Request { deadline: Duration::from_secs(20), ..request(discard.clone()) };
    assert_eq!(code(world.request(1, asked)), "NewLifeSilent");
    world.start(alone);
    world.until("it serves", 20_000, |world| world.get(1, &target, "after").as_deref() == Some("the loss"));
    world.done(1, discard);
}

pub(super) fn a_recovered_cluster_serves_and_its_old_members_end() {
    let Bereft { mut world, name, target, alone, gone } = bereft();
    let info = recover(&mut world, &name, Some(name.as_str())).unwrap();
    assert_eq!((info.state, info.survivor), (RecoveryState::Open, Some(NodeId(alone))));
    assert_eq!(world.get(2, &target, "k9").as_deref(), Some("acknowledged"));
    world.put(3, &target, "after", "the loss").unwrap();
    // The fourth node of the region takes a place; for the third there is none.
    world.until("it grows to two", 30_000, |world| world.holders(&name).len() == 2);
    world.until("the status says what it waits for", 30_000, |world| {
        (1..=3).any(|node| {
            let warnings = world.status(node).warnings;
            warnings.iter().any(|warning| warning.contains("was recovered and has 2 of 3 members"))
        })
    });
    // Who was a majority comes back at once, cut off from the world and from the new life at first.
    let others: Vec<u64> = (1..=7).filter(|node| !gone.contains(node)).collect();
    for (old, other) in gone.iter().flat_map(|old| others.iter().map(move |other| (*old, *other))) {
        world.cut_pairs.insert((NodeId(old), NodeId(other)));
        world.cut_pairs.insert((NodeId(other), NodeId(old)));
    }
    gone.iter().for_each(|node| world.start(*node));
    world.run(3_000);
    world.cut_pairs.clear();
    for (old, other) in gone.iter().flat_map(|old| others.iter().map(move |other| (*old, *other))) {
        world.dial(NodeId(old), NodeId(other));
        world.dial(NodeId(other), NodeId(old));
    }
    world.until("the life before ends", 20_000, |world| gone.iter().all(|node| has_ended(world, *node, &name)));
    for node in gone {
        for level in [ReadConsistency::Strong, ReadConsistency::Eventual] {
            let read = get_level(&mut world, node, &target, "after", level);
            assert_eq!(read.as_deref(), Some("the loss"), "node {node} answers with the new life's data, {level:?}");
        }
        let degraded = world.status(node).warnings;
        assert!(degraded.iter().any(|warning| warning.contains("it serves nothing")), "{degraded:?}");
    }
    // Nothing of theirs is made over, whatever the cluster lacks; a restart changes nothing.
    world.kill(gone[0]);
    world.run(500);
    world.start(gone[0]);
    world.run(15_000);
    assert!(gone.iter().all(|node| has_ended(&world, *node, &name)));
    let held = recoveries(&mut world).remove(0).held;
    assert_eq!(held, gone.map(NodeId).to_vec());
    // By an operator's word one of them becomes a member again.
    world.done(2, Action::DiscardEnded { name: name.clone(), node: NodeId(gone[0]) });
    assert_eq!(code(world.act(2, Action::DiscardEnded { name: name.clone(), node: NodeId(gone[0]) })), "NothingKept");
    world.until("it has three members", 40_000, |world| {
        recoveries(world)[0].state == RecoveryState::Whole && world.holders(&name).contains(&gone[0])
    });
    assert_eq!(world.get(gone[0], &target, "k3").as_deref(), Some("acknowledged"));
    assert!(has_ended(&world, gone[1], &name) && recoveries(&mut world)[0].held == [NodeId(gone[1])]);
}

#[test]
fn recovered_cluster_serves_and_old_members_end() {
    a_recovered_cluster_serves_and_its_old_members_end();
}

/// Of five members three are gone for good; the survivors differ.
pub(super) fn the_survivor_with_the_longest_log_is_chosen() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par", "nl-ams", "nl-ams", "nl-ams", "nl-ams", "nl-ams"], 3, 1);
    world.ready();
    let name = world.create(1, "metadata@kept", "size=5 location=nl-ams");
    let target = KvTarget::Cluster(name.clone());
    world.put(1, &target, "k", "first").unwrap();
    world.run(1_000);
    let leader = world.leader(&name);
    let others: Vec<u64> = (4..=8).filter(|node| *node != leader).collect();
    let (behind, ahead) = (others[0], others[3]);
    // One lies down before the last writes.
    world.kill(behind);
    world.run(1_500);
    for number in 0..5 {
        world.put(1, &target, "k", &format!("last {number}")).unwrap();
    }
    world.run(500);
    [leader, others[1], others[2], ahead].iter().for_each(|node| world.kill(*node));
    world.start(behind);
    world.start(ahead);
    world.run(3_000);
    let info = recover(&mut world, &name, Some(name.as_str())).unwrap();
    assert_eq!(info.survivor, Some(NodeId(ahead)));
    assert_eq!(world.get(1, &target, "k").as_deref(), Some("last 4"), "what a survivor holds is not lost");
    // The other survivor held nothing more: it was cleared, and is a member again without anybody's word.
    assert!(!info.held.contains(&NodeId(behind)), "{:?}", info.held);
    world.until("it is a member again", 30_000, |world| world.holders(&name).contains(&behind));
    assert_eq!(world.get(behind, &target, "k").as_deref(), Some("last 4"));
}

#[test]
fn survivor_with_the_longest_log_is_chosen() {
    the_survivor_with_the_longest_log_is_chosen();
}

#[test]
fn a_recovery_cut_short_is_finished_by_the_world() {
    let Bereft { mut world, name, target, alone, .. } = bereft();
    // The word is given, and the survivor dies before it hears of it: its node is cut from all others.
    let action = Action::RecoverCluster { name: name.clone(), confirm: Some(name.to_string()), survivor: None };
    let ticket = world.ask(1, Request { deadline: Duration::from_secs(8), ..request(action) });
    world.until("the world has decided", 8_000, |world| !recoveries(world).is_empty());
    if !world.replies.contains_key(&ticket) {
        world.kill(alone);
        world.run(10_000);
        world.start(alone);
    }
    world.until("it serves", 60_000, |world| {
        let action = Action::KvGet { target: target.clone(), key: bytes("k1") };
        world.act(2, action).is_ok()
    });
}
