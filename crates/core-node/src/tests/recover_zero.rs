//! The world's and a region's cluster without their majority, for good: a new life on the survivor, members of the old one
//! that come back, and what only the lost entries of `reference` knew.

use super::recover::{has_ended, recover, recoveries};
use super::*;
use base_types::action::RecoveryState;
use base_types::{ClusterId, Generation};

const GONE: [u64; 2] = [2, 3];

fn world_name() -> ClusterName {
    ClusterName::world()
}

/// Nodes 1, 2 and 3 form the world and their region; a cluster of three on the four nodes of another region.
fn seven() -> (World, ClusterName, KvTarget) {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par", "nl-ams", "nl-ams", "nl-ams", "nl-ams"], 3, 2);
    world.ready();
    let name = world.create(1, "metadata@kept", "size=3 location=nl-ams");
    let target = KvTarget::Cluster(name.clone());
    world.put(1, &target, "k", "acknowledged").unwrap();
    world.run(2_000);
    (world, name, target)
}

fn cut(world: &mut World, one: u64, others: &[u64]) {
    for (one, other) in others.iter().map(|other| (NodeId(one), NodeId(*other))) {
        world.cut_pairs.insert((one, other));
        world.cut_pairs.insert((other, one));
        world.tell_all(one, || Event::PeerDown { node: other });
        world.tell_all(other, || Event::PeerDown { node: one });
    }
}

fn heal(world: &mut World) {
    for (one, other) in std::mem::take(&mut world.cut_pairs) {
        world.dialled.remove(&(one, other));
        world.dial(one, other);
    }
}

fn id_of(world: &mut World, node: u64, name: &ClusterName) -> (ClusterId, Generation) {
    match world.done(node, Action::ResolveCluster { name: name.clone() }).result {
        ActionResult::Cluster(info) => (info.cluster, info.generation),
        other => panic!("{other:?}"),
    }
}

/// All nodes that lead the world's cluster.
fn world_leaders(world: &World) -> Vec<u64> {
    let leads = |node: &Node| {
        let cores = node.lanes.iter().filter_map(|lane| lane.core.as_ref());
        cores
            .flat_map(|core| core.lane().views())
            .any(|view| view.name.as_str() == world_name().as_str() && view.is_leader)
    };
    world.nodes.iter().filter(|(_, node)| leads(node)).map(|(id, _)| id.0).collect()
}

pub(super) fn a_world_is_recovered_and_its_old_members_end() {
    let (mut world, _, target) = seven();
    assert!(matches!(
        recover(&mut world, &world_name(), Some(world_name().as_str())),
        Err("LeaderLives" | "MajorityLives")
    ));
    GONE.iter().for_each(|node| world.kill(*node));
    world.run(3_000);
    assert_eq!(world.get(5, &target, "k").as_deref(), Some("acknowledged"), "other clusters serve all the while");
    let info = recover(&mut world, &world_name(), None).unwrap();
    assert_eq!(
        (info.state, info.survivor, info.silent.clone()),
        (RecoveryState::Surveyed, Some(NodeId(1)), GONE.map(NodeId).to_vec())
    );
    assert!(info.findings.iter().any(|finding| finding.contains("they are the ones that end")), "{:?}", info.findings);
    let info = recover(&mut world, &world_name(), Some(world_name().as_str())).unwrap();
    assert_eq!((info.state, info.survivor), (RecoveryState::Open, Some(NodeId(1))));
    assert_eq!(world.leader(&world_name()), 1);
    let region = ClusterName::regional("fr-par").unwrap();
    assert_eq!(recover(&mut world, &region, Some(region.as_str())).unwrap().survivor, Some(NodeId(1)));
    // Every node finds the new life, and new names are given.
    for node in [1, 4, 5, 6, 7] {
        world.until("a node that finds the world", 15_000, |world| {
            let listed = world.act(node, Action::ListClusters { prefix: String::new(), start_after: None, limit: 10 });
            listed.is_ok()
        });
    }
    let fresh = world.create(6, "metadata@fresh", "size=3 location=nl-ams");
    world.put(4, &KvTarget::Cluster(fresh), "k", "v").unwrap();
    world.until("the status says what is missing", 30_000, |world| {
        world.status(1).warnings.iter().any(|warning| warning.contains("hive ctl world members add"))
    });
    // The old members, a majority, come back where the survivor cannot be reached, but a node that has heard of it can.
    cut(&mut world, 1, &GONE);
    GONE.iter().for_each(|node| world.start(*node));
    world.until("the life before ends", 20_000, |world| GONE.iter().all(|node| has_ended(world, *node, &world_name())));
    assert_eq!(world_leaders(&world), [1]);
    heal(&mut world);
    world.run(3_000);
    assert_eq!(world_leaders(&world), [1]);
    assert!(GONE.iter().all(|node| has_ended(&world, *node, &world_name())), "and stays so");
    let warned = world.status(2).warnings;
    assert!(warned.iter().any(|warning| warning.contains("it serves nothing")), "{warned:?}");
    // By an operator's word one of them becomes a member again.
    let listed = recoveries(&mut world);
    assert!(listed.iter().any(|one| one.name == world_name() && one.held == GONE.map(NodeId)), "{listed:?}");
    let add = |world: &mut World, node: u64| {
        let action = Action::AddMember { name: world_name(), node: NodeId(node) };
        world.request(1, Request { deadline: Duration::from_secs(20), ..request(action) })
    };
    assert!(add(&mut world, 2).is_err(), "its data of the ended life stands in the way");
    world.done(1, Action::DiscardEnded { name: world_name(), node: NodeId(2) });
    add(&mut world, 2).unwrap();
    world.until("it is a member", 30_000, |world| world.holders(&world_name()).contains(&2));
    assert_eq!(world.get(2, &target, "k").as_deref(), Some("acknowledged"));
}

#[test]
fn recovered_world_serves_and_old_members_end() {
    a_world_is_recovered_and_its_old_members_end();
}

pub(super) fn what_lost_entries_made_is_kept_and_never_given_again() {
    let (mut world, _, _) = seven();
    // The survivor hears no more; a cluster is made that it never learns of.
    cut(&mut world, 1, &[2, 3, 4, 5, 6, 7]);
    world.run(3_000);
    let lost = world.create(2, "metadata@lost", "size=3 location=nl-ams");
    let target = KvTarget::Cluster(lost.clone());
    world.put(4, &target, "k", "of a cluster without a name").unwrap();
    let (id, _) = id_of(&mut world, 2, &lost);
    let holders = world.holders(&lost);
    GONE.iter().for_each(|node| world.kill(*node));
    heal(&mut world);
    world.run(3_000);
    recover(&mut world, &world_name(), Some(world_name().as_str())).unwrap();
    // Nobody takes it for deleted: not unknown, not under a name given again, not when that is deleted.
    world.run(30_000);
    assert_eq!(world.holders(&lost), holders);
    let again = world.create(5, "metadata@lost", "size=1 location=fr-par");
    let (fresh, _) = id_of(&mut world, 5, &again);
    assert!(fresh.0 > id.0 + 1_000, "{fresh} after {id}");
    world.run(15_000);
    world.done(5, Action::DeleteCluster { name: again });
    world.run(30_000);
    assert_eq!(world.holders(&lost), holders);
}

#[test]
fn clusters_of_lost_entries_keep_their_data() {
    what_lost_entries_made_is_kept_and_never_given_again();
}

/// Two operators who do not see each other's survivor: the later life ends the earlier where they meet.
#[test]
fn of_two_lives_the_later_goes_on() {
    let mut world = World::new(&["fr-par"; 6], 5, 1);
    world.ready();
    [3, 4, 5].iter().for_each(|node| world.kill(*node));
    cut(&mut world, 1, &[2, 6]);
    world.run(4_000);
    let recovered = |world: &mut World, node: u64, unix_ms: u64| {
        world.tell_all(NodeId(node), || Event::Clock { unix_ms });
        let confirm = Some(world_name().to_string());
        let action = Action::RecoverCluster { name: world_name(), confirm, survivor: Some(NodeId(node)) };
        world.request(node, Request { deadline: Duration::from_secs(20), ..request(action) }).unwrap();
    };
    recovered(&mut world, 1, 1_795_000_000_000);
    recovered(&mut world, 2, 1_795_000_007_000);
    assert_eq!(world_leaders(&world), [1, 2], "they have not met");
    heal(&mut world);
    world.until("one is left", 20_000, |world| world_leaders(world) == [2]);
    assert!(has_ended(&world, 1, &world_name()));
    world.until("node 1 finds the other life", 20_000, |world| {
        world.act(1, Action::ListRecoveries { name: None }).is_ok()
    });
    // The record of the first was lost with it; what it left is discarded all the same.
    let discard = Action::DiscardEnded { name: world_name(), node: NodeId(1) };
    world.request(2, Request { deadline: Duration::from_secs(20), ..request(discard) }).unwrap();
    assert!(!has_ended(&world, 1, &world_name()));
    world.run(5_000);
    assert_eq!(world_leaders(&world), [2]);
}

/// Whom a node with the later life's news can reach has ended: no third life beside a second that is silent.
#[test]
fn beside_a_silent_later_life_none_is_begun() {
    let mut world = World::new(&["fr-par"; 5], 3, 1);
    world.ready();
    world.kill(2);
    cut(&mut world, 3, &[1, 4, 5]);
    world.run(4_000);
    recover(&mut world, &world_name(), Some(world_name().as_str())).unwrap();
    world.until("node 4 has heard", 15_000, |world| world.act(4, Action::ListRecoveries { name: None }).is_ok());
    world.kill(1);
    heal(&mut world);
    world.run(2_000);
    let confirm = Some(world_name().to_string());
    let action = Action::RecoverCluster { name: world_name(), confirm, survivor: None };
    let refused = world.request(3, Request { deadline: Duration::from_secs(20), ..request(action) }).unwrap_err();
    assert_eq!(refused.refusal.code.as_str(), "NoSurvivor");
    assert!(refused.refusal.message.contains("a later life began on another node"), "{}", refused.refusal.message);
}

/// The world decided on a life and lost that with its majority: the cluster is found by its name again.
#[test]
fn a_life_that_the_world_forgot_is_taken_up() {
    let (mut world, name, target) = seven();
    cut(&mut world, 1, &[2, 3, 4, 5, 6, 7]);
    let holders = world.holders(&name);
    holders[1..].iter().for_each(|node| world.kill(*node));
    world.run(4_000);
    let confirmed = |name: &ClusterName| {
        let confirm = Some(name.to_string());
        let action = Action::RecoverCluster { name: name.clone(), confirm, survivor: None };
        Request { deadline: Duration::from_secs(20), ..request(action) }
    };
    world.request(2, confirmed(&name)).unwrap();
    world.put(2, &target, "k", "of the next life").unwrap();
    GONE.iter().for_each(|node| world.kill(*node));
    heal(&mut world);
    world.run(3_000);
    world.request(1, confirmed(&world_name())).unwrap();
    world.run(15_000);
    assert_eq!(id_of(&mut world, 1, &name).1, Generation(1), "the word is lost");
    world.request(1, confirmed(&name)).unwrap();
    assert_eq!(id_of(&mut world, 1, &name).1, Generation(2));
    assert_eq!(world.get(1, &target, "k").as_deref(), Some("of the next life"));
}
