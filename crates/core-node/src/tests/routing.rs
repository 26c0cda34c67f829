//! Any node serves any request.

use super::*;
use base_types::action::Partitioning;
use base_types::ErrorKind;

#[test]
fn a_world_forms_and_every_node_serves_it() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par", "nl-ams", "pl-waw"], 5, 1);
    world.ready();
    let status = world.status(1);
    assert_eq!((status.nodes_up, status.nodes_total), (5, 5));
    let name = world.create(4, "metadata@users", "size=3 location=fr-par");
    let target = KvTarget::Cluster(name);
    for node in 1..=5 {
        world.put(node, &target, &format!("k{node}"), "v").unwrap();
    }
    for node in 1..=5 {
        for key in 1..=5 {
            assert_eq!(world.get(node, &target, &format!("k{key}")).as_deref(), Some("v"));
        }
    }
}

#[test]
fn lanes_of_a_node_pass_requests_on() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par"], 3, 2);
    world.ready();
    for number in 0..4 {
        let name = world.create(1, &format!("metadata@c{number}"), "size=3");
        let target = KvTarget::Cluster(name);
        for node in 1..=3 {
            world.put(node, &target, "k", &format!("v{node}")).unwrap();
            assert_eq!(world.get(node, &target, "k"), Some(format!("v{node}")));
        }
    }
}

/// A core that is behind by seconds does not work for clients that have given up: what waited for less than its deadline
/// is done, with what is left of it.
#[test]
pub fn what_expired_before_its_turn_is_not_done() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par"], 3, 1);
    world.ready();
    let name = world.create(1, "metadata@users", "size=3");
    let target = KvTarget::Cluster(name);
    world.put(1, &target, "k", "before").unwrap();
    // The world is old enough for somebody to have waited for so long.
    world.run(70_000);
    for (waited_ms, done) in [(5_000, false), (4_000, true), (60_000, false)] {
        let value = Bytes::from(format!("waited {waited_ms} ms"));
        let put = Action::KvPut { target: target.clone(), key: Bytes::from_static(b"k"), value: value.clone() };
        let (ticket, asked) = (Ticket(1 << 40 | waited_ms), world.now - Duration::from_millis(waited_ms));
        let slot = &mut world.nodes.get_mut(&NodeId(2)).unwrap().lanes[0];
        slot.inbox.push(Event::Request { ticket, asked, request: request(put) });
        world.until("an answer", 5_000, |world| world.replies.contains_key(&ticket));
        match world.replies.remove(&ticket).unwrap() {
            Ok(_) => assert!(done, "{value:?} was done"),
            Err(failure) => {
                assert!(!done, "{failure:?}");
                assert_eq!(failure.refusal.code.as_str(), "DeadlineExceeded");
                assert_eq!(failure.refusal.outcome(), base_types::error::Outcome::NotApplied);
            }
        }
    }
    assert_eq!(world.get(1, &target, "k").as_deref(), Some("waited 4000 ms"));
}

#[test]
fn leader_loss_costs_a_slow_answer_not_an_error() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par", "fr-par"], 3, 1);
    world.ready();
    let name = world.create(1, "metadata@users", "size=3");
    let target = KvTarget::Cluster(name.clone());
    world.put(1, &target, "k", "1").unwrap();
    let leader = world.leader(&name);
    let other = (1..=4).find(|node| *node != leader).unwrap();
    world.put(other, &target, "k", "2").unwrap();
    let begun = world.now;
    world.kill(leader);
    world.put(other, &target, "k", "3").unwrap();
    assert!(world.now.since(begun) < Duration::from_secs(1), "{:?}", world.now.since(begun));
    assert_eq!(world.get(other, &target, "k").as_deref(), Some("3"));
}

#[test]
fn a_silent_leader_is_left_for_the_next() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par", "fr-par"], 3, 1);
    world.ready();
    let name = world.create(1, "metadata@users", "size=3");
    let target = KvTarget::Cluster(name.clone());
    let leader = world.leader(&name);
    let other = (1..=4).find(|node| *node != leader).unwrap();
    world.put(other, &target, "k", "1").unwrap();
    // No PeerDown: frames vanish.
    world.cut.insert(NodeId(leader));
    world.put(other, &target, "k", "2").unwrap();
    assert_eq!(world.get(other, &target, "k").as_deref(), Some("2"));
    // The one that is cut off cannot answer strongly; it says so by the deadline.
    let mut slow = request(Action::KvGet { target: target.clone(), key: bytes("k") });
    slow.deadline = Duration::from_secs(2);
    let failure = world.request(leader, slow).unwrap_err();
    assert_eq!((failure.refusal.kind(), failure.refusal.code.as_str()), (ErrorKind::Unavailable, "DeadlineExceeded"));
    let mut lost = level(Action::KvPut { target, key: bytes("k"), value: bytes("x") }, WriteConsistency::Strong, 5);
    lost.deadline = Duration::from_secs(2);
    let failure = world.request(leader, lost).unwrap_err();
    assert!(matches!(failure.refusal.kind(), ErrorKind::Unknown | ErrorKind::Unavailable), "{failure:?}");
}

#[test]
fn a_request_id_applies_once() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par"], 3, 1);
    world.ready();
    let name = world.create(1, "redis@counters", "size=3");
    let incr = |id| {
        level(
            Action::Redis { target: KvTarget::Cluster(name.clone()), command: vec![bytes("INCR"), bytes("n")] },
            WriteConsistency::Strong,
            id,
        )
    };
    let first = world.request(1, incr(1)).unwrap();
    let again = world.request(2, incr(1)).unwrap();
    assert_eq!(first.result, again.result);
    assert_eq!(first.at, again.at, "the retry says where the first one was ordered");
    let next = world.request(3, incr(2)).unwrap();
    assert_eq!(next.result, ActionResult::Redis { reply: base_types::action::RedisReply::Integer(2) });
}

#[test]
fn the_levels_are_told_as_reached() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par"], 3, 1);
    world.ready();
    let target = KvTarget::Cluster(world.create(1, "metadata@users", "size=3"));
    // A leader that has only just begun answers weak writes when they are strong.
    world.run(1_000);
    let here = WriteConsistency::ALL.into_iter().filter(|level| *level != WriteConsistency::S3);
    for (number, wanted) in here.enumerate() {
        let put = Action::KvPut { target: target.clone(), key: bytes("k"), value: bytes("v") };
        let answer = world.request(2, level(put, wanted, number as u128 + 1)).unwrap();
        assert_eq!(answer.level, Some(base_types::action::Level::Write(wanted)));
        assert!(answer.at.is_some());
    }
    // No bucket anywhere: once every member had its time to say so, that is for the client to mend.
    let put = Action::KvPut { target: target.clone(), key: bytes("k"), value: bytes("x") };
    let refused = world.request(2, level(put, WriteConsistency::S3, 66)).unwrap_err().refusal;
    assert_eq!(refused.code, base_types::ErrorCode::NoArchiveReplica);
    assert_eq!(world.get(1, &target, "k").as_deref(), Some("v"));
    world.kill(3);
    let put = Action::KvPut { target, key: bytes("k"), value: bytes("w") };
    let mut absolute = level(put, WriteConsistency::Absolute, 77);
    absolute.deadline = Duration::from_secs(1);
    let failure = world.request(1, absolute).unwrap_err();
    assert_eq!(failure.refusal.code.as_str(), "CommittedNotAbsolute");
    assert!(failure.at.is_some());
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par"], 3, 1);
    world.ready();
    let nowhere = KvTarget::Cluster("metadata@nowhere".parse().unwrap());
    assert_eq!(code(world.put(1, &nowhere, "k", "v")), "UnknownCluster");
    assert_eq!(code(world.put(1, &KvTarget::Keyspace("nowhere".into()), "k", "v")), "UnknownKeyspace");
    assert_eq!(code(world.put(1, &KvTarget::Cluster("redis@x".parse().unwrap()), "k", "v")), "UnknownBackend");
    let name: ClusterName = "metadata@x".parse().unwrap();
    let create = |rule: &str| Action::CreateCluster { name: name.clone(), rule: rule.into() };
    assert_eq!(code(world.act(1, create("size=nine"))), "InvalidRule");
    assert_eq!(code(world.act(1, create("size=5 failure_domain=az"))), "PlacementRefused");
    let own = Action::CreateCluster { name: "metadata@config-1".parse().unwrap(), rule: "size=1".into() };
    assert_eq!(code(world.act(1, own)), "InvalidClusterName");
    let target = KvTarget::Cluster(world.create(1, "metadata@y", "size=3"));
    assert_eq!(code(world.put(1, &target, "", "v")), "EmptyKey");
    assert_eq!(code(world.put(1, &target, &"k".repeat(1025), "v")), "KeyTooLarge");
    let redis = Action::Redis { target: KvTarget::Cluster("redis@x".parse().unwrap()), command: vec![bytes("NOSUCH")] };
    assert_eq!(code(world.act(1, redis)), "UnknownCommand");
    let add = Action::AddMember { name: "metadata@y".parse().unwrap(), node: NodeId(99) };
    assert_eq!(code(world.act(1, add)), "UnknownNode");
}

/// An engine that nobody offers: named, with those there are, and nothing is made.
#[test]
fn an_unknown_engine_is_refused_with_those_there_are() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par"], 3, 1);
    world.ready();
    let create = |rule: &str, engine: Option<&str>| Action::CreateKeyspace {
        kind: base_types::action::KeyspaceKind::Plain,
        keyspace: "k".into(),
        partitioning: Partitioning::Hash,
        partitions: 1,
        clusters: 1,
        split_keys: Vec::new(),
        rule: rule.into(),
        engine: engine.map(String::from),
    };
    let name: ClusterName = "metadata@x".parse().unwrap();
    let in_a_rule = Action::CreateCluster { name: name.clone(), rule: "size=3 engine=btrieve".into() };
    let wrong = [create("size=3", Some("btrieve")), create("size=3 engine=btrieve", None), in_a_rule];
    for action in wrong {
        let failure = world.act(1, action).unwrap_err();
        assert_eq!(failure.refusal.code.as_str(), "UnknownEngine");
        assert!(failure.refusal.message.contains("'btrieve'; choose one of memory"), "{}", failure.refusal.message);
    }
    assert_eq!(code(world.put(1, &KvTarget::Keyspace("k".into()), "k", "v")), "UnknownKeyspace");
    assert_eq!(code(world.put(1, &KvTarget::Cluster(name), "k", "v")), "UnknownCluster");
    world.done(1, create("size=3", Some("memory")));
    world.put(1, &KvTarget::Keyspace("k".into()), "k", "v").unwrap();
}

#[test]
fn a_client_that_went_away_is_not_answered() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par"], 3, 1);
    world.ready();
    let target = KvTarget::Cluster(world.create(1, "metadata@users", "size=3"));
    let ticket = world.ask(1, request(Action::KvPut { target, key: bytes("k"), value: bytes("v") }));
    world.nodes.get_mut(&NodeId(1)).unwrap().lanes[0].inbox.push(Event::Cancel { ticket });
    world.run(500);
    assert!(!world.replies.contains_key(&ticket));
}

#[test]
fn equal_worlds_do_equal_things() {
    let trace = || {
        let mut world = World::new(&["fr-par", "fr-par", "nl-ams"], 3, 2);
        world.ready();
        let target = KvTarget::Cluster(world.create(1, "metadata@users", "size=3"));
        let at = world.put(2, &target, "k", "v").unwrap().at;
        (world.now, world.sequence, at, world.notes.clone())
    };
    assert_eq!(trace(), trace());
}

#[test]
fn every_lane_tells_the_same_status() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par"], 3, 3);
    world.ready();
    (0..6).for_each(|number| drop(world.create(1, &format!("metadata@s{number}"), "size=3")));
    world.run(500);
    let told: Vec<StatusInfo> = (0..6)
        .map(|_| match world.done(1, Action::Status).result {
            ActionResult::Status(status) => status,
            other => panic!("{other:?}"),
        })
        .collect();
    // Six of its own, the world, the region, and the other two nodes' configuration clusters at most.
    assert!(told[0].ready && told[0].clusters >= 8, "{:?}", told[0]);
    assert!(told.iter().all(|status| *status == told[0]), "{told:#?}");
}

#[test]
fn whoever_is_connected_hears_what_disk_this_is_at_once() {
    let mut world = World::new(&["fr-par", "nl-ams"], 1, 2);
    world.ready();
    // Lane one holds nothing that it would tell another node of.
    world.wires.clear();
    world.nodes.get_mut(&NodeId(1)).unwrap().lanes[1].inbox = vec![Event::PeerUp { node: NodeId(2) }];
    world.turn(NodeId(1), 1);
    let told = world.wires.values().filter(|(to, _, event)| *to == NodeId(2) && matches!(event, Event::Frame { .. }));
    assert_eq!(told.map(|(_, lane, _)| *lane).collect::<Vec<_>>(), [LaneId(0), LaneId(1)]);
}

/// Forty operations through a node take less than a second of virtual time.
fn serves_at_once(world: &mut World, asked: u64, target: &KvTarget) {
    let begun = world.now;
    for number in 0..20 {
        world.put(asked, target, "k", &format!("w{number}")).unwrap();
        assert_eq!(world.get(asked, target, "k").as_deref(), Some(format!("w{number}").as_str()));
    }
    let took = world.now.since(begun);
    assert!(took < Duration::from_secs(1), "40 operations took {took:?} of virtual time");
}

/// The world's leader does not hear the leader of a cluster, and calls its node down. Everybody else has a connection to it, and
/// uses the cluster all the same.
#[test]
pub fn a_leader_that_only_the_map_calls_down_is_asked() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par", "nl-ams", "nl-ams", "nl-ams"], 3, 1);
    world.ready();
    let of_world = world.leader(&"allocator/reference@world".parse().unwrap());
    let name = world.create(4, "metadata@users", "size=3 location=nl-ams");
    let target = KvTarget::Cluster(name.clone());
    world.put(1, &target, "k", "v").unwrap();
    let leader = world.leader(&name);
    world.cut_pairs.insert((NodeId(leader.min(of_world)), NodeId(leader.max(of_world))));
    // Busy, so that its followers hear it: those of a quiet leader would elect another.
    for number in 0..80 {
        world.put(leader, &target, "busy", &number.to_string()).unwrap();
        world.run(50);
    }
    let asked = (1..=3).find(|node| *node != of_world).unwrap();
    let ActionResult::Nodes { nodes } = world.done(asked, Action::ListNodes).result else { panic!() };
    let down = nodes.iter().any(|node| node.node == NodeId(leader) && !node.up);
    assert!(
        down && world.leader(&name) == leader,
        "the map calls node {leader} down, and it still leads: {:?}, led by {}",
        nodes.iter().map(|node| (node.node.0, node.up)).collect::<Vec<_>>(),
        world.leader(&name)
    );
    serves_at_once(&mut world, asked, &target);
}

/// The same where the world's leader is a member of the cluster itself: it knows no leader of it and says so. The third member hears
/// the leader, and its clients are served.
#[test]
pub fn a_leader_that_one_member_does_not_hear_is_asked() {
    let mut world = World::new(&["fr-par"; 3], 3, 1);
    world.ready();
    let of_world = world.leader(&"allocator/reference@world".parse().unwrap());
    let (leader, asked) = (of_world % 3 + 1, (of_world + 1) % 3 + 1);
    let name = world.create(asked, "metadata@users", "size=3");
    let target = KvTarget::Cluster(name.clone());
    world.put(asked, &target, "k", "v").unwrap();
    if world.leader(&name) != leader {
        world.done(asked, Action::TransferLeader { name: name.clone(), node: NodeId(leader) });
    }
    world.cut_pairs.insert((NodeId(leader.min(of_world)), NodeId(leader.max(of_world))));
    for number in 0..120 {
        world.put(leader, &target, "busy", &number.to_string()).unwrap();
        world.run(50);
    }
    let ActionResult::Nodes { nodes } = world.done(asked, Action::ListNodes).result else { panic!() };
    assert!(nodes.iter().any(|node| node.node == NodeId(leader) && !node.up) && world.leader(&name) == leader);
    serves_at_once(&mut world, asked, &target);
}

/// Reads that any member may answer, from a region that has none: equally near members share them, and one that is cut off
/// costs the first of them its patience, and no more.
#[test]
fn eventual_reads_are_spread_over_the_nearest_members() {
    let mut world = World::new(&["fr-par", "nl-ams", "nl-ams", "nl-ams", "fr-par"], 3, 1);
    world.ready();
    let target = KvTarget::Cluster(world.create(2, "metadata@users", "size=3 location=nl-ams"));
    world.put(1, &target, "k", "v").unwrap();
    world.run(2_000);
    let served = |world: &World, node: u64| {
        let core = world.nodes[&NodeId(node)].lanes[0].core.as_ref().unwrap();
        core.metrics().router.forwards_served
    };
    let read = |world: &mut World| {
        let get = Action::KvGet { target: target.clone(), key: bytes("k") };
        let level = Some(base_types::ReadConsistency::Eventual);
        world.request(5, Request { read_consistency: level, ..request(get) }).unwrap()
    };
    let before: Vec<u64> = (2..=4).map(|node| served(&world, node)).collect();
    for _ in 0..300 {
        read(&mut world);
    }
    let shares: Vec<u64> = (2..=4).map(|node| served(&world, node) - before[node as usize - 2]).collect();
    assert!(shares.iter().all(|share| (90..=130).contains(share)), "300 reads went to three members as {shares:?}");
    world.cut_pairs.insert((NodeId(2), NodeId(5)));
    world.cut_pairs.insert((NodeId(5), NodeId(2)));
    let begun = world.now;
    for _ in 0..300 {
        read(&mut world);
    }
    let took = world.now.since(begun);
    assert!(took < Duration::from_secs(3), "300 reads beside a silent member took {took:?} of virtual time");
}
