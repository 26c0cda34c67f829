//! Each level stands alone: without the world's majority everything that exists is served, from cold caches too.

use super::*;
use base_types::action::{KvTarget, Partitioning};
use base_types::s3::*;
use base_types::{ReadConsistency, Refusal};

const FIVE_MINUTES_MS: u64 = 300_000;

pub fn keyspace(name: &str, partitioning: Partitioning) -> Action {
    Action::CreateKeyspace {
        kind: base_types::action::KeyspaceKind::Plain,
        keyspace: name.into(),
        partitioning,
        partitions: 4,
        clusters: 2,
        split_keys: match partitioning {
            Partitioning::Hash => Vec::new(),
            Partitioning::Range => ["g", "n", "t"].map(bytes).to_vec(),
        },
        rule: "size=3 location=nl-ams failure_domain=chassis".into(),
        engine: None,
    }
}

/// Three members of the world in one region, four nodes in another, with a cluster and two keyspaces there.
fn two_regions(lanes: u16) -> (World, Vec<KvTarget>) {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par", "nl-ams", "nl-ams", "nl-ams", "nl-ams"], 3, lanes);
    world.ready();
    let name = world.create(4, "metadata@users", "size=3 location=nl-ams failure_domain=chassis");
    world.done(4, keyspace("hashed", Partitioning::Hash));
    world.done(5, keyspace("ranged", Partitioning::Range));
    let targets =
        vec![KvTarget::Cluster(name), KvTarget::Keyspace("hashed".into()), KvTarget::Keyspace("ranged".into())];
    for target in &targets {
        for key in ["a", "h", "p", "z"] {
            world.put(6, target, key, "first").unwrap();
        }
    }
    // What a region's cluster is to hold is there, and engines hold what is applied.
    world.run(4_000);
    (world, targets)
}

fn restart(world: &mut World, nodes: &[u64]) {
    nodes.iter().for_each(|node| world.kill(*node));
    nodes.iter().for_each(|node| world.start(*node));
}

fn serves(world: &mut World, node: u64, targets: &[KvTarget], value: &str) {
    for target in targets {
        for key in ["a", "h", "p", "z"] {
            world.put(node, target, key, value).unwrap_or_else(|failure| panic!("node {node} {target:?}: {failure:?}"));
            assert_eq!(world.get(node, target, key).as_deref(), Some(value), "node {node} {target:?}");
        }
        let scan = Action::KvScan {
            target: target.clone(),
            prefix: Bytes::new(),
            start_after: None,
            end: None,
            limit: 100,
            reverse: false,
            keys_only: false,
        };
        match world.done(node, scan).result {
            ActionResult::Page { entries, .. } => assert_eq!(entries.len(), 4, "node {node} {target:?}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn all_is_served_without_the_world_for_five_minutes() {
    for lanes in [1, 2] {
        let (mut world, targets) = two_regions(lanes);
        world.kill(1);
        world.kill(2);
        let rest = [3, 4, 5, 6, 7];
        restart(&mut world, &rest);
        let begun = world.now;
        let mut round = 0;
        while world.now.since(begun) < Duration::from_millis(FIVE_MINUTES_MS / u64::from(lanes)) {
            round += 1;
            for node in rest {
                serves(&mut world, node, &targets, &format!("{round}.{node}"));
            }
            world.run(20_000);
        }
        let status = world.status(5);
        assert!(status.ready && !status.degraded.is_empty(), "{status:?}");
    }
}

/// A member shows after a restart what was committed before it, though its engine does not hold it yet and its cluster has no leader:
/// the name of a bucket that was just made is found by it.
#[test]
fn late_write_is_read_from_one_restarted_member() {
    let mut world = World::new(&["r", "r", "r"], 3, 1);
    world.ready();
    let rule = "size=3 location=world failure_domain=chassis";
    let [late, other] = ["metadata@late", "metadata@other"].map(|name| KvTarget::Cluster(world.create(1, name, rule)));
    world.put(1, &late, "k", "v").unwrap();
    // Followers hear that it is committed; then something else is written. Nothing of it is in an engine.
    world.run(100);
    world.put(1, &other, "k", "v").unwrap();
    (1..=3).for_each(|node| world.kill(node));
    world.start(3);
    let get = Action::KvGet { target: late, key: bytes("k") };
    let read = Request { read_consistency: Some(ReadConsistency::Eventual), ..request(get) };
    match world.request(3, read).unwrap().result {
        ActionResult::Value { value } => assert_eq!(value, Some(bytes("v"))),
        other => panic!("{other:?}"),
    }
}

/// No member of the world can be reached: the region alone has what is needed.
#[test]
fn region_cut_off_from_the_world_serves_its_own() {
    let (mut world, targets) = two_regions(1);
    (1..=3).for_each(|node| world.kill(node));
    restart(&mut world, &[4, 5, 6, 7]);
    for node in 4..=7 {
        serves(&mut world, node, &targets, &format!("cut.{node}"));
    }
}

#[test]
fn nothing_is_denied_while_the_world_is_silent() {
    let (mut world, targets) = two_regions(1);
    world.kill(1);
    world.kill(2);
    restart(&mut world, &[3, 4, 5, 6, 7]);
    for node in [3, 5] {
        let nowhere = KvTarget::Cluster("metadata@nowhere".parse().unwrap());
        for target in [nowhere, KvTarget::Keyspace("nowhere".into())] {
            let failure = world.put(node, &target, "k", "v").unwrap_err();
            assert_eq!(failure.refusal.kind(), base_types::ErrorKind::Unavailable, "{failure:?}");
            assert!(failure.refusal.message.contains("start its members"), "{failure:?}");
        }
    }
    serves(&mut world, 7, &targets, "after");
    world.start(1);
    world.start(2);
    world.ready();
    let nowhere = KvTarget::Keyspace("nowhere".into());
    assert_eq!(code(world.put(5, &nowhere, "k", "v")), "UnknownKeyspace");
}

/// A member moved while a node kept its old route, and the world is silent: that is a redirect.
#[test]
pub fn stale_route_costs_a_redirect_without_the_world() {
    let (mut world, targets) = two_regions(1);
    let KvTarget::Cluster(name) = targets[0].clone() else { panic!() };
    let members = world.holders(&name);
    let outside = (4..=7).find(|node| !members.contains(node)).unwrap();
    assert_eq!(world.get(3, &targets[0], "a").as_deref(), Some("first"));
    // Node 3 remembers this member, which goes.
    let leader = world.leader(&name);
    let gone = *members.iter().find(|node| **node != leader).unwrap();
    world.cut.insert(NodeId(3));
    world.done(4, Action::MoveMember { name: name.clone(), from: NodeId(gone), to: Some(NodeId(outside)) });
    world.run(2_000);
    world.done(4, Action::TransferLeader { name: name.clone(), node: NodeId(outside) });
    world.run(2_000);
    world.cut.clear();
    world.kill(1);
    world.kill(2);
    // The others of the cluster do not reach it: only the one that has left does, and the new one.
    for node in &members {
        if *node != gone {
            world.cut_pairs.insert((NodeId(3), NodeId(*node)));
        }
    }
    assert_eq!(world.get(3, &targets[0], "a").as_deref(), Some("first"));
    world.put(3, &targets[0], "a", "second").unwrap();
}

#[test]
pub fn own_replica_is_a_route_without_asking() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par"], 3, 1);
    world.ready();
    let target = KvTarget::Cluster(world.create(1, "metadata@users", "size=3"));
    world.put(1, &target, "k", "v").unwrap();
    world.kill(2);
    world.start(2);
    world.ready();
    world.run(1_000);
    let resolves = |world: &World| world.nodes[&NodeId(2)].lanes[0].core.as_ref().unwrap().metrics().router.resolves;
    let before = resolves(&world);
    assert_eq!(world.get(2, &target, "k").as_deref(), Some("v"));
    assert_eq!(resolves(&world), before);
}

fn s3(world: &mut World, node: u64, call: S3Action) -> Result<S3Answer, Refusal> {
    match world.act(node, Action::S3(call)) {
        Ok(answer) => match answer.result {
            ActionResult::S3(answer) => Ok(answer),
            other => panic!("{other:?}"),
        },
        Err(failure) => Err(failure.refusal),
    }
}

fn put_object(key: &str) -> S3Action {
    PutObject {
        bucket: "photos".into(),
        key: key.into(),
        data: Data::Inline(Bytes::from_static(b"bytes")),
        size: 5,
        etag: "e".into(),
        ..PutObject::default()
    }
    .into()
}

fn head_absent() -> S3Action {
    HeadBucket { bucket: "absent".into() }.into()
}

/// Five nodes, three of them the world's, with a bucket; its clusters stand on nodes 3, 4 and 5, and the other clusters of S3
/// on `others`.
fn bucket_on_the_last_three(others: [u64; 3]) -> World {
    let mut world = World::new(&["fr-par", "nl-ams", "pl-waw", "nl-ams", "nl-ams"], 3, 1);
    world.ready();
    s3(&mut world, 1, CreateAccount { account: "ann".into(), ..CreateAccount::default() }.into()).unwrap();
    let create = CreateBucket { bucket: "photos".into(), account: "ann".into(), ..CreateBucket::default() };
    s3(&mut world, 1, create.into()).unwrap();
    s3(&mut world, 2, put_object("one")).unwrap();
    world.run(4_000);
    let mut names: BTreeSet<ClusterName> = BTreeSet::new();
    for node in world.nodes.values() {
        for core in node.lanes.iter().filter_map(|lane| lane.core.as_ref()) {
            names.extend(core.lane().views().into_iter().map(|view| view.name));
        }
    }
    names.retain(|name| !name.is_level_zero() && !name.tail().starts_with("config-"));
    assert!(names.len() >= 5, "{names:?}");
    for name in &names {
        let of_bucket = name.tail().starts_with("bucket-") || name.to_string().starts_with("shard@");
        let wanted = if of_bucket && !name.tail().starts_with("bucket-names") { [3, 4, 5] } else { others };
        let mut members = world.holders(name);
        for to in wanted {
            if !members.contains(&to) {
                let from = *members.iter().find(|node| !wanted.contains(node)).unwrap();
                let action = Action::MoveMember { name: name.clone(), from: NodeId(from), to: Some(NodeId(to)) };
                world.done(3, action);
                world.run(1_000);
                members = world.holders(name);
            }
        }
    }
    world
}

fn bucket_is_served(world: &mut World) {
    for node in 3..=5 {
        let key = format!("from-{node}");
        s3(world, node, put_object(&key)).unwrap_or_else(|refusal| panic!("node {node}: {refusal:?}"));
        let get = GetObject { bucket: "photos".into(), key: "one".into(), ..GetObject::default() };
        ObjectVersion::try_from(s3(world, node, get.into()).unwrap()).unwrap();
    }
}

#[test]
fn bucket_is_served_without_the_world() {
    let mut world = bucket_on_the_last_three([3, 4, 5]);
    world.kill(1);
    world.kill(2);
    restart(&mut world, &[3, 4, 5]);
    bucket_is_served(&mut world);
    for node in 3..=5 {
        let absent = s3(&mut world, node, head_absent()).unwrap_err();
        assert_eq!(absent.code.as_str(), "NoSuchBucket", "the cluster of names says so, and it has a majority");
    }
}

/// The cluster of names loses its majority as well: the member that is left says where the bucket is, and never that there is none.
#[test]
fn bucket_is_served_without_the_majority_of_names() {
    let mut world = bucket_on_the_last_three([1, 2, 3]);
    world.kill(1);
    world.kill(2);
    restart(&mut world, &[3, 4, 5]);
    bucket_is_served(&mut world);
    let absent = s3(&mut world, 4, head_absent()).unwrap_err();
    assert_ne!(absent.code.as_str(), "NoSuchBucket", "{absent:?}");
    assert!(absent.kind().retryable(), "{absent:?}");
}
