//! What a node says of its own health, and how soon it is true.

use super::*;

/// Two election timeouts of `tuning()`.
const TWO_ELECTIONS_MS: u64 = 200;

fn told(reasons: &[String], parts: &[&str]) -> bool {
    reasons.iter().any(|reason| parts.iter().all(|part| reason.contains(part)))
}

/// The world's members are in one region, a cluster of three in the other.
fn two_regions(lanes: u16) -> (World, ClusterName) {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par", "nl-ams", "nl-ams", "nl-ams"], 3, lanes);
    world.ready();
    let name = world.create(4, "metadata@users", "size=3 location=nl-ams failure_domain=chassis");
    world.put(4, &KvTarget::Cluster(name.clone()), "k", "v").unwrap();
    world.run(1_500);
    (world, name)
}

#[test]
fn a_healthy_world_gives_no_reasons() {
    let (mut world, _) = two_regions(2);
    for node in 1..=6 {
        let status = world.status(node);
        assert!(status.ready && status.degraded.is_empty() && status.not_ready.is_empty(), "{status:?}");
        assert!(status.quorum.iter().all(|quorum| quorum.answers) && status.quorum.len() == 2, "{status:?}");
    }
}

#[test]
pub fn world_without_majority_degrades_every_node() {
    let (mut world, _) = two_regions(1);
    world.kill(1);
    world.kill(2);
    let lost = world.now;
    for node in [4, 3] {
        let status = world.status(node);
        assert!(status.ready, "node {node} does what it can: {status:?}");
        assert!(told(&status.degraded, &["@world does not answer", "node 1 down", "node 2 down"]), "{status:?}");
        assert!(!status.quorum[0].answers, "{status:?}");
        assert_eq!((status.nodes_up, status.nodes_total), (4, 6));
        assert!(told(&status.warnings, &["node 1 (node-1:7000) is down"]), "{status:?}");
    }
    // One after the other, and each within two election timeouts.
    assert!(world.now.since(lost) <= Duration::from_millis(2 * TWO_ELECTIONS_MS), "{:?}", world.now.since(lost));
    assert!(told(&world.status(3).degraded, &["@region-fr-par does not answer"]));
    world.start(1);
    world.until("well again", 20_000, |world| world.status(4).degraded.is_empty());
}

#[test]
fn silent_loss_of_the_world_is_seen_as_soon() {
    let (mut world, _) = two_regions(1);
    // No connection breaks: frames vanish.
    world.cut.extend([NodeId(1), NodeId(2)]);
    world.run(TWO_ELECTIONS_MS);
    let status = world.status(4);
    assert!(status.ready && told(&status.degraded, &["@world does not answer"]), "{status:?}");
}

#[test]
fn node_that_can_serve_nothing_is_not_ready() {
    let (mut world, name) = two_regions(2);
    for node in 1..=5 {
        world.kill(node);
    }
    let status = world.status(6);
    assert!(!status.ready, "{status:?}");
    assert!(told(&status.not_ready, &["node 6 can do none of its work", "none of the 1 clusters"]), "{status:?}");
    assert!(told(&status.degraded, &["1 of 1 clusters", name.as_str()]), "{status:?}");
}

#[test]
fn cluster_without_majority_is_named() {
    let (mut world, name) = two_regions(2);
    world.kill(4);
    world.kill(5);
    world.run(TWO_ELECTIONS_MS);
    let status = world.status(6);
    assert!(status.ready && told(&status.degraded, &["no leader that can be reached", name.as_str()]), "{status:?}");
}

#[test]
fn stalled_disk_is_told_by_its_node() {
    let (mut world, name) = two_regions(2);
    world.stalled.insert(NodeId(4));
    let target = KvTarget::Cluster(name);
    let puts: Vec<Ticket> = (0..3)
        .map(|n| {
            world.ask(
                5,
                request(Action::KvPut { target: target.clone(), key: bytes(&format!("{n}")), value: bytes("x") }),
            )
        })
        .collect();
    world.run(TWO_ELECTIONS_MS);
    let status = world.status(4);
    assert!(told(&status.degraded, &["a log write of lane", "node 4"]), "{puts:?} {status:?}");
    assert!(status.log_write_ms >= 100, "{status:?}");
}

#[test]
fn expiring_certificate_is_told() {
    let (mut world, _) = two_regions(1);
    let day = 24 * 3_600_000;
    let tell = |world: &mut World, unix_ms, expires_ms| {
        world.tell_all(NodeId(4), || Event::Clock { unix_ms });
        world.tell_all(NodeId(4), || Event::Certificate { issued_ms: 100 * day, expires_ms });
        world.status(4)
    };
    let status = tell(&mut world, 101 * day, 400 * day);
    assert!(status.degraded.is_empty() && status.certificate_expires_ms == 400 * day, "{status:?}");
    let status = tell(&mut world, 390 * day, 400 * day);
    assert!(status.ready && told(&status.degraded, &["node 4 expires in 23", "hive ca issue"]), "{status:?}");
    let status = tell(&mut world, 401 * day, 400 * day);
    assert!(told(&status.degraded, &["node 4 expired 2", "hive ca issue"]), "{status:?}");
}

#[test]
fn silent_configuration_cluster_does_not_hold_a_node_back() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par", "nl-ams", "nl-ams"], 3, 1);
    world.ready();
    let config: ClusterName = "metadata@config-4".parse().unwrap();
    world.until("made", 10_000, |world| world.status(4).config_cluster.is_some());
    assert_eq!(world.holders(&config), [5]);
    // Up, as the map says, and out of reach for the node whose list it holds.
    world.cut_pairs.insert((NodeId(4), NodeId(5)));
    world.kill(4);
    world.start(4);
    world.until("a reason is given", 5_000, |world| told(&world.status(4).not_ready, &["metadata@config-4"]));
    world.until("ready all the same", 15_000, |world| world.status(4).ready);
    let status = world.status(4);
    assert!(told(&status.degraded, &["metadata@config-4"]), "{status:?}");
}
