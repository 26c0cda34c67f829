//! The planners against clusters in memory: clients write and read between any two calls, answers are
//! lost, commands arrive late, and the runner dies at every step.

use super::*;
use crate::document::{Move, MovePhase, Reshard};
use crate::family::{KeyspaceNews, KeyspacePlanner, PlanContext};
use crate::reshard::plan_moves;
use base_types::action::{Action, ActionResult, Failure, KvTarget, Level, Partitioning, Response};
use base_types::codec::Encode;
use base_types::{
    BackendKind, ClusterName, DiskId, ErrorCode, Generation, LogIndex, NodeId, OrderedAt, PartitionId, ReadConsistency,
    Refusal, ReplicaId, Tick, WriteConsistency,
};
use bytes::Bytes;
use core_backends::metadata::{self, PartitionInfo, PartitionState};
use core_backends::testing::MapSpace;
use core_backends::{decode_reply, reference, ApplyContext};
use core_flow::{Call, CallReply, CallResult, Random, Step};
use std::collections::BTreeMap;

/// Clusters in memory, and what becomes of calls to them.
struct World {
    clusters: BTreeMap<ClusterName, MapSpace>,
    now_ms: u64,
    random: Random,
    /// In a thousand calls, so many are applied and their answers lost…
    lost: u64,
    /// …and so many are answered `Unknown` and applied later.
    late: u64,
    underway: Vec<(ClusterName, BackendKind, Bytes)>,
    calls: u64,
}

fn text(value: &str) -> Bytes {
    Bytes::copy_from_slice(value.as_bytes())
}

fn failure(code: ErrorCode) -> Failure {
    Failure::from(Refusal::new(code, "in the test"))
}

impl World {
    fn new(seed: u64) -> World {
        let clusters = BTreeMap::from([(ClusterName::world(), MapSpace::default())]);
        World { clusters, now_ms: 1, random: Random::new(seed), lost: 0, late: 0, underway: Vec::new(), calls: 0 }
    }

    fn chance(&mut self, per_mille: u64) -> bool {
        self.random.below(1000) < per_mille
    }

    fn apply(&mut self, cluster: &ClusterName, backend: BackendKind, command: &Bytes) -> CallResult {
        self.now_ms += 1;
        core_backends::validate(backend, command).expect("planners send valid commands");
        let at = ApplyContext {
            life: base_types::Generation(1),
            index: LogIndex(self.now_ms),
            position: 0,
            cluster_time_ms: self.now_ms,
        };
        let space = self.clusters.get_mut(cluster).ok_or_else(|| failure(ErrorCode::UnknownCluster))?;
        let reply = core_backends::apply(backend, at, space, command).expect("whole space");
        Ok(CallReply::Backend { reply, at: OrderedAt::default(), level: Level::Write(WriteConsistency::Strong) })
    }

    fn query(&self, cluster: &ClusterName, backend: BackendKind, query: &Bytes) -> CallResult {
        let space = self.clusters.get(cluster).ok_or_else(|| failure(ErrorCode::UnknownCluster))?;
        if core_backends::memory_asked(backend, query).is_some() {
            // These clusters remember nothing; the simulator's do.
            let page = core_backends::memory::MemoryPage { ids: Vec::new(), reached: 0, more: false };
            let reply = core_backends::tell_memory(backend, page);
            return Ok(CallReply::Backend {
                reply,
                at: OrderedAt::default(),
                level: Level::Read(ReadConsistency::Strong),
            });
        }
        let reply = core_backends::query(backend, self.now_ms, space, query).expect("whole space");
        Ok(CallReply::Backend { reply, at: OrderedAt::default(), level: Level::Read(ReadConsistency::Strong) })
    }

    fn carry_out(&mut self, call: Call) -> CallResult {
        self.calls += 1;
        if !self.underway.is_empty() && self.chance(300) {
            let at = self.random.below(self.underway.len() as u64) as usize;
            let (cluster, backend, command) = self.underway.swap_remove(at);
            let _ = self.apply(&cluster, backend, &command);
        }
        let is_late = self.chance(self.late);
        let is_lost = self.chance(self.lost);
        let result = match call {
            Call::Write { cluster, backend, command, consistency, .. } => {
                assert_eq!(
                    consistency,
                    Some(WriteConsistency::Strong),
                    "a planner's write must not hang on a cluster's default"
                );
                if is_late {
                    self.underway.push((cluster, backend, command));
                    return Err(failure(ErrorCode::OutcomeUnknown));
                }
                self.apply(&cluster, backend, &command)
            }
            Call::Read { cluster, backend, query, .. } => self.query(&cluster, backend, &query),
            Call::CreateCluster { cluster, rule } => {
                if rule.contains("nowhere") {
                    Err(failure(ErrorCode::PlacementImpossible))
                } else if let std::collections::btree_map::Entry::Vacant(place) = self.clusters.entry(cluster) {
                    let name = place.key().clone();
                    place.insert(MapSpace::default());
                    self.begin_life(name, rule);
                    Ok(CallReply::Done { at: None })
                } else {
                    Err(failure(ErrorCode::ClusterExists))
                }
            }
            Call::DeleteCluster { cluster, life } => {
                assert!(life.is_some(), "a runner that was held up must not remove a later life");
                match self.life_of(&cluster) == life {
                    true => {
                        self.end_life(&cluster);
                        Ok(CallReply::Done { at: None })
                    }
                    false => Err(failure(ErrorCode::UnknownCluster)),
                }
            }
            other => panic!("unexpected {other:?}"),
        };
        if is_lost {
            return Err(failure(ErrorCode::OutcomeUnknown));
        }
        result
    }

    fn reference(&mut self, command: reference::Command) {
        let reply = self.apply(&ClusterName::world(), BackendKind::Reference, &command.to_bytes()).unwrap().backend().0;
        let _: reference::Reply = decode_reply(reply).expect("the reference takes it");
    }

    fn begin_life(&mut self, name: ClusterName, rule: String) {
        let member = |id| reference::ClusterMember {
            replica: ReplicaId(id),
            node: NodeId(id),
            disk: DiskId(id),
            learner: false,
        };
        self.reference(reference::Command::Create {
            name: name.clone(),
            rule,
            engine: "lmdb".into(),
            consistency: WriteConsistency::Strong,
            read_consistency: ReadConsistency::Strong,
            members: vec![member(1)],
        });
        let generation = self.life_of(&name).expect("just made");
        let state = reference::ClusterState::Active;
        self.reference(reference::Command::SetState { name, generation, state });
    }

    fn end_life(&mut self, name: &ClusterName) {
        let generation = self.life_of(name).expect("it is there");
        self.clusters.remove(name);
        self.reference(reference::Command::Delete { name: name.clone(), generation });
        self.reference(reference::Command::Purge { name: name.clone(), generation });
    }

    fn life_of(&self, name: &ClusterName) -> Option<Generation> {
        let query = reference::Query::Resolve { name: name.clone() }.to_bytes();
        let (reply, _) = self.query(&ClusterName::world(), BackendKind::Reference, &query).unwrap().backend();
        match decode_reply(reply).unwrap() {
            reference::Reply::Resolved { record, .. } => record.map(|record| record.generation),
            other => panic!("{other:?}"),
        }
    }

    fn map(&self, keyspace: &str) -> Option<KeyspaceMap> {
        let query = reference::Query::GetDocument { key: document_key(keyspace).into() }.to_bytes();
        let (reply, _) = self.query(&ClusterName::world(), BackendKind::Reference, &query).unwrap().backend();
        match decode_reply(reply).unwrap() {
            reference::Reply::Document { document } => {
                document.map(|d| KeyspaceMap::from_body(d.version, d.body).unwrap())
            }
            other => panic!("{other:?}"),
        }
    }

    fn partitions(&self, cluster: &ClusterName) -> Vec<PartitionInfo> {
        let (reply, _) =
            self.query(cluster, BackendKind::Metadata, &metadata::Query::Partitions.to_bytes()).unwrap().backend();
        match decode_reply(reply).unwrap() {
            metadata::Reply::Partitions(list) => list,
            other => panic!("{other:?}"),
        }
    }

    /// No partition is served by two clusters, and none at an epoch the document has gone beyond.
    fn check_owners(&self) {
        let mut serving: BTreeMap<PartitionId, &ClusterName> = BTreeMap::new();
        for cluster in self.clusters.keys().filter(|name| is_keyspace_cluster(name)) {
            for info in self.partitions(cluster).into_iter().filter(|info| info.state.serves()) {
                let other = serving.insert(info.scope.partition, cluster);
                assert_eq!(other, None, "partition {} is served twice, here and by {cluster}", info.scope.partition);
            }
        }
    }

    /// Runs a planner to its end; `between` runs before each call, and ends the run where it says so.
    fn run(&mut self, planner: &mut KeyspacePlanner, between: &mut dyn FnMut(&mut World) -> bool) -> Option<Response> {
        let mut queue: Vec<(usize, Call)> = Vec::new();
        let mut asked = 0;
        let mut random = Random::new(self.random.next());
        let mut step = with_context(self.now_ms, &mut random, |c| planner.start(c));
        for _ in 0..100_000 {
            match step {
                Step::Calls(calls) => {
                    for call in calls {
                        queue.push((asked, call));
                        asked += 1;
                    }
                    assert!(!queue.is_empty(), "{} waits for nothing", planner.name());
                    if !between(self) {
                        return None;
                    }
                    let at = self.random.below(queue.len() as u64) as usize;
                    let (index, call) = queue.swap_remove(at);
                    let result = self.carry_out(call);
                    self.check_owners();
                    step = with_context(self.now_ms, &mut random, |c| planner.on_result(c, index, result));
                }
                Step::Wait(duration) => {
                    self.now_ms += duration.as_millis() as u64;
                    step = with_context(self.now_ms, &mut random, |c| planner.on_wake(c));
                }
                Step::Done(response) => return Some(response),
            }
        }
        panic!("{} does not end", planner.name());
    }

    fn finish(&mut self, planner: &mut KeyspacePlanner) -> Response {
        self.run(planner, &mut |_| true).expect("not interrupted")
    }

    fn create(&mut self, partitioning: Partitioning, partitions: u16, clusters: u16) -> Response {
        self.finish(&mut CreateKeyspace::new(spec(partitioning, partitions, clusters)))
    }
}

fn with_context(now_ms: u64, random: &mut Random, step: impl FnOnce(&mut PlanContext<'_>) -> Step) -> Step {
    let mut news = KeyspaceNews::default();
    let now = Tick::from_millis(now_ms);
    step(&mut PlanContext {
        now,
        deadline: Tick::NEVER,
        node: NodeId(1),
        region: "here",
        random,
        unix_ms: 0,
        machine_load: 0,
        state: &mut news,
    })
}

fn spec(partitioning: Partitioning, partitions: u16, clusters: u16) -> KeyspaceSpec {
    KeyspaceSpec {
        kind: base_types::action::KeyspaceKind::Plain,
        name: "ks".into(),
        partitioning,
        partitions,
        clusters,
        split_keys: Vec::new(),
        rule: "size=3".into(),
        engine: Some("lmdb".into()),
    }
}

fn target() -> KvTarget {
    KvTarget::Keyspace("ks".into())
}

/// A client with a map of its own, perhaps an old one, and the twin all clients share.
#[derive(Default)]
struct Clients {
    twin: BTreeMap<Bytes, Bytes>,
    maps: [Option<KeyspaceMap>; 2],
    done: u64,
    put_off: u64,
}

impl Clients {
    /// One random operation of one client.
    fn operate(&mut self, world: &mut World) {
        let who = world.random.below(2) as usize;
        let first = Bytes::copy_from_slice(&[world.random.below(256) as u8]);
        let key = Bytes::from([first.as_ref(), &[world.random.below(2) as u8]].concat());
        let value = text(&world.random.below(1 << 40).to_string());
        let action = match world.random.below(4) {
            0 => Action::KvDelete { target: target(), key: key.clone() },
            1 => Action::KvGet { target: target(), key: key.clone() },
            _ => Action::KvPut { target: target(), key: key.clone(), value: value.clone() },
        };
        match self.ask(world, who, &action) {
            None => self.put_off += 1,
            Some(result) => {
                self.done += 1;
                match (&action, result) {
                    (Action::KvPut { .. }, ActionResult::Done) => drop(self.twin.insert(key, value)),
                    (Action::KvDelete { .. }, ActionResult::Deleted { existed }) => {
                        assert_eq!(self.twin.remove(&key).is_some(), existed, "delete of {key:?}")
                    }
                    (Action::KvGet { .. }, ActionResult::Value { value }) => {
                        assert_eq!(self.twin.get(&key), value.as_ref(), "get of {key:?}")
                    }
                    (action, result) => panic!("{action:?} came to {result:?}"),
                }
            }
        }
    }

    /// As the router does it, with few tries; `None`: refused for the moment.
    fn ask(&mut self, world: &mut World, who: usize, action: &Action) -> Option<ActionResult> {
        for _ in 0..2 {
            let map = match &self.maps[who] {
                Some(map) => map.clone(),
                None => world.map("ks")?,
            };
            let routed = map.route(action).expect("routable");
            let result = match &routed.payload {
                Payload::Write(command) => world.apply(routed.cluster, BackendKind::Metadata, command),
                Payload::Read(query) => world.query(routed.cluster, BackendKind::Metadata, query),
            };
            let refusal = match result.map(|reply| read_reply(reply.backend().0)) {
                Ok(Ok(result)) => {
                    self.maps[who] = Some(map);
                    return Some(result);
                }
                Ok(Err(refusal)) => refusal,
                Err(failure) => failure.refusal,
            };
            match retry_of(&refusal) {
                Retry::Later => return None,
                Retry::Relocate => self.maps[who] = None,
                Retry::No => panic!("{refusal}"),
            }
        }
        None
    }

    /// Everything is where it should be, once, and nothing else is.
    fn check_all(&mut self, world: &mut World) {
        let map = world.map("ks").expect("the keyspace is there");
        let document = map.document();
        assert_eq!(document.reshard, None);
        let expected: Vec<(Bytes, Bytes)> = self.twin.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        assert_eq!(scan_all(world, 7, false), expected);
        let mut keys = 0;
        let clusters: Vec<ClusterName> =
            world.clusters.keys().filter(|name| is_keyspace_cluster(name)).cloned().collect();
        assert_eq!(clusters.len(), usize::from(document.clusters), "clusters left over or missing");
        for cluster in clusters {
            for info in world.partitions(&cluster) {
                let (_, owner, scope) = map.owner_of(info.scope.partition).unwrap();
                if info.state == PartitionState::Owned {
                    assert_eq!((owner, scope), (&cluster, info.scope));
                    keys += info.keys;
                } else {
                    assert_eq!((info.state, info.keys), (PartitionState::Released, 0));
                }
            }
        }
        assert_eq!(keys, self.twin.len() as u64, "the counters are exact");
    }
}

fn scan_action(limit: u32, reverse: bool, start_after: Option<Bytes>, prefix: &[u8], end: Option<Bytes>) -> Action {
    let prefix = Bytes::copy_from_slice(prefix);
    Action::KvScan { target: target(), prefix, start_after, end, limit, reverse, keys_only: false }
}

fn scan(world: &mut World, action: &Action, map: Option<KeyspaceMap>) -> (Vec<(Bytes, Bytes)>, Option<Bytes>) {
    let mut planner = planner_for(action, map.as_ref()).expect("a scan has a planner");
    match world.finish(planner.as_mut()).expect("a scan").result {
        ActionResult::Page { entries, next } => (entries, next),
        other => panic!("{other:?}"),
    }
}

fn scan_all(world: &mut World, limit: u32, reverse: bool) -> Vec<(Bytes, Bytes)> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let (entries, next) = scan(world, &scan_action(limit, reverse, after, &[], None), None);
        assert!(entries.len() as u32 <= limit);
        all.extend(entries);
        match next {
            Some(next) => after = Some(next),
            None => return all,
        }
    }
}

fn code(response: Response) -> &'static str {
    response.expect_err("a refusal").refusal.code.as_str()
}

#[test]
fn a_keyspace_is_made_told_listed_and_removed() {
    let mut world = World::new(1);
    let made = world.create(Partitioning::Hash, 16, 3).unwrap();
    let ActionResult::Keyspace(info) = made.result else { panic!("{made:?}") };
    assert_eq!((info.partitions, info.owners.len(), info.owners[4].as_str()), (16, 16, "metadata@ks-ks-1"));
    assert_eq!(code(world.create(Partitioning::Hash, 16, 3)), "KeyspaceExists");
    let told = world.finish(&mut DescribeKeyspace::new("ks".into())).unwrap();
    assert_eq!(told.result, ActionResult::Keyspace(info.clone()));
    let listed = world.finish(&mut ListKeyspaces::new()).unwrap();
    assert_eq!(listed.result, ActionResult::Keyspaces { keyspaces: vec![info] });
    world.finish(&mut DeleteKeyspace::new("ks".into())).unwrap();
    assert_eq!(world.clusters.len(), 1, "only the world cluster is left");
    assert_eq!(code(world.finish(&mut DeleteKeyspace::new("ks".into()))), "UnknownKeyspace");
    assert_eq!(code(world.finish(&mut DescribeKeyspace::new("ks".into()))), "UnknownKeyspace");
    world.create(Partitioning::Range, 4, 2).unwrap();
}

#[test]
fn a_keyspace_that_is_being_removed_does_not_exist_already() {
    let mut world = World::new(1);
    world.create(Partitioning::Hash, 8, 2).unwrap();
    let mut removal = DeleteKeyspace::new("ks".into());
    let deleting = |world: &World| world.map("ks").is_some_and(|map| map.check_serves().is_err());
    world.run(&mut removal, &mut |world| !deleting(world));
    assert!(deleting(&world));
    // Not `KeyspaceExists`, which a client may take for done: it would wait for what is going away.
    assert_eq!(code(world.create(Partitioning::Hash, 8, 2)), "NotReady");
    world.finish(&mut DeleteKeyspace::new("ks".into())).unwrap();
    world.create(Partitioning::Hash, 8, 2).unwrap();
}

#[test]
fn what_cannot_be_made_is_refused_and_leaves_nothing() {
    let mut world = World::new(2);
    let refused = |world: &mut World, spec: KeyspaceSpec| code(world.finish(&mut CreateKeyspace::new(spec)));
    let good = || spec(Partitioning::Range, 4, 2);
    for name in ["", "A", "a/b", "a@b", &"x".repeat(65)] {
        assert_eq!(refused(&mut world, KeyspaceSpec { name: name.into(), ..good() }), "InvalidKeyspace");
    }
    assert_eq!(refused(&mut world, KeyspaceSpec { partitions: 0, ..good() }), "InvalidKeyspace");
    assert_eq!(refused(&mut world, KeyspaceSpec { partitions: 1025, ..good() }), "InvalidKeyspace");
    assert_eq!(refused(&mut world, KeyspaceSpec { clusters: 5, ..good() }), "InvalidKeyspace");
    assert_eq!(refused(&mut world, KeyspaceSpec { split_keys: vec![text("b")], ..good() }), "InvalidKeyspace");
    assert_eq!(
        refused(&mut world, KeyspaceSpec { split_keys: vec![text("b"), text("a"), text("c")], ..good() }),
        "InvalidKeyspace"
    );
    assert_eq!(refused(&mut world, KeyspaceSpec { rule: "location=nowhere".into(), ..good() }), "PlacementRefused");
    assert_eq!((world.clusters.len(), world.map("ks")), (1, None));
}

#[test]
fn creation_and_removal_are_finished_by_others_after_a_crash_at_every_step() {
    for steps in 0..12 {
        let mut world = World::new(steps);
        let mut left = steps;
        let mut until = |_: &mut World| {
            left = left.saturating_sub(1);
            left > 0
        };
        let mut create = CreateKeyspace::new(spec(Partitioning::Hash, 8, 3));
        let ended = world.run(&mut create, &mut until);
        if let Some(map) = world.map("ks") {
            let news =
                DocumentNews { keyspace: "ks".into(), version: map.version, body: Some(map.document().to_bytes()) };
            assert_eq!(work_left(&news).is_some(), ended.is_none());
            if let Some(mut rest) = work_left(&news) {
                world.finish(rest.as_mut()).unwrap();
            }
        } else {
            world.create(Partitioning::Hash, 8, 3).unwrap();
        }
        let mut clients = Clients::default();
        (0..20).for_each(|_| clients.operate(&mut world));
        clients.check_all(&mut world);
        let mut left = steps;
        let mut until = |_: &mut World| {
            left = left.saturating_sub(1);
            left > 0
        };
        let _ = world.run(&mut DeleteKeyspace::new("ks".into()), &mut until);
        if world.map("ks").is_some() {
            world.finish(&mut DeleteKeyspace::new("ks".into())).unwrap();
        }
        assert_eq!(world.clusters.len(), 1);
    }
}

#[test]
fn plans_are_even_and_small() {
    for (partitions, clusters) in [(16u16, 1u16), (16, 3), (64, 5), (7, 7), (1024, 9)] {
        for target in [1, 2, 3, 4, 7] {
            if target > partitions {
                continue;
            }
            let mut document = spec(Partitioning::Hash, partitions, clusters).document().unwrap();
            let moves = plan_moves(&document, target);
            for step in &moves {
                assert_eq!(document.owners[usize::from(step.partition.0)], step.from);
                document.owners[usize::from(step.partition.0)] = step.to;
            }
            let mut counts = vec![0usize; usize::from(target)];
            document.owners.iter().for_each(|owner| counts[usize::from(*owner)] += 1);
            assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1, "{counts:?}");
            let least =
                partitions as usize / usize::from(target.max(clusters)) * usize::from(target.abs_diff(clusters));
            assert!(moves.len() <= least + usize::from(target.max(clusters)), "{} moves", moves.len());
            assert!(plan_moves(&document, target).is_empty(), "an even keyspace needs no moves");
        }
    }
}

/// A reshard with clients between any two calls, while the runner dies again and again.
fn reshard_under_fire(
    seed: u64,
    partitioning: Partitioning,
    crash_after: Option<u64>,
    lost: u64,
    late: u64,
) -> (u64, u64) {
    let mut world = World::new(seed);
    world.create(partitioning, 6, 2).unwrap();
    let mut clients = Clients::default();
    (0..300).for_each(|_| clients.operate(&mut world));
    let (mut longest, mut calls) = (0, 0);
    for clusters in [4, 1, 3] {
        world.finish(&mut StartReshard::new("ks".into(), clusters)).unwrap();
        (world.lost, world.late) = (lost, late);
        let mut in_a_row = 0;
        let before = world.calls;
        for run in 0.. {
            assert!(run < 2_000, "the reshard gets nowhere");
            let mut left = crash_after.unwrap_or(u64::MAX);
            let ended = world.run(&mut ReshardRun::new("ks".into()), &mut |world| {
                for _ in 0..world.random.below(4) {
                    let put_off = clients.put_off;
                    clients.operate(world);
                    in_a_row = if clients.put_off > put_off { in_a_row + 1 } else { 0 };
                    longest = longest.max(in_a_row);
                }
                left -= 1;
                left > 0
            });
            match ended {
                Some(Ok(_)) => break,
                Some(Err(failure)) => assert!(failure.refusal.kind().retryable(), "{}", failure.refusal),
                None => {}
            }
        }
        calls += world.calls - before;
        (world.lost, world.late) = (0, 0);
        let still: Vec<_> = world.underway.drain(..).collect();
        for (cluster, backend, command) in still {
            let _ = world.apply(&cluster, backend, &command);
            world.check_owners();
        }
        clients.check_all(&mut world);
        assert!(world.map("ks").unwrap().document().moved_partitions > 0);
    }
    assert!(
        clients.done > clients.put_off,
        "clients were served: {} of {}",
        clients.done,
        clients.done + clients.put_off
    );
    (longest, calls)
}

#[test]
fn a_quiet_reshard_hardly_shows() {
    for partitioning in [Partitioning::Hash, Partitioning::Range] {
        let (longest, _) = reshard_under_fire(3, partitioning, None, 0, 0);
        assert!(longest < 30, "{longest} operations in a row were put off");
    }
}

#[test]
fn a_reshard_survives_a_crash_at_every_step() {
    // Runs of 10, 11, … calls: between them every call of a move is the last of some run. (The removal of three clusters
    // takes nine, and is begun anew by each.)
    for crash_after in 10..30 {
        reshard_under_fire(100 + crash_after, Partitioning::Hash, Some(crash_after), 0, 0);
    }
}

#[test]
fn a_reshard_survives_lost_answers_and_late_commands() {
    for seed in 0..12 {
        let partitioning = if seed % 2 == 0 { Partitioning::Hash } else { Partitioning::Range };
        let crash_after = (seed % 3 == 0).then_some(25);
        reshard_under_fire(seed, partitioning, crash_after, 60, 60);
    }
}

#[test]
fn two_runners_at_once_do_no_harm() {
    for seed in 0..6 {
        let mut world = World::new(seed);
        world.create(Partitioning::Hash, 6, 1).unwrap();
        let mut clients = Clients::default();
        (0..200).for_each(|_| clients.operate(&mut world));
        world.finish(&mut StartReshard::new("ks".into(), 3)).unwrap();
        let mut other_runs = 0;
        world.finish_with(&mut ReshardRun::new("ks".into()), &mut |world| {
            clients.operate(world);
            if world.random.below(4) == 0 && other_runs < 50 {
                other_runs += 1;
                let mut left = world.random.below(30) + 5;
                let _ = world.run(&mut ReshardRun::new("ks".into()), &mut |world| {
                    clients.operate(world);
                    left -= 1;
                    left > 0
                });
            }
            true
        });
        clients.check_all(&mut world);
    }
}

/// A runner pauses for long, and wakes when others have finished its reshard and the next one. It must not take the
/// clusters that the next one has made under the names it was about to remove.
#[test]
fn a_runner_that_was_held_up_harms_no_later_reshard() {
    for held_at in 1..80 {
        let mut world = World::new(held_at);
        world.create(Partitioning::Hash, 4, 2).unwrap();
        let mut clients = Clients::default();
        (0..20).for_each(|_| clients.operate(&mut world));
        world.finish(&mut StartReshard::new("ks".into(), 1)).unwrap();
        let mut calls = 0;
        let _ = world.run(&mut ReshardRun::new("ks".into()), &mut |world| {
            calls += 1;
            if calls == held_at {
                world.finish(&mut ReshardRun::new("ks".into())).unwrap();
                world.finish(&mut StartReshard::new("ks".into(), 2)).unwrap();
                world.finish(&mut ReshardRun::new("ks".into())).unwrap();
                (0..20).for_each(|_| clients.operate(world));
            }
            true
        });
        clients.check_all(&mut world);
        if calls < held_at {
            return;
        }
    }
    panic!("the runner's calls were not all tried");
}

impl World {
    fn finish_with(&mut self, planner: &mut KeyspacePlanner, between: &mut dyn FnMut(&mut World) -> bool) {
        match self.run(planner, between) {
            Some(Ok(_)) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_reshard_that_cannot_be_placed_is_called_off() {
    let mut world = World::new(5);
    world.create(Partitioning::Hash, 6, 1).unwrap();
    let map = world.map("ks").unwrap();
    let broken = Document { rule: "location=nowhere".into(), ..map.document().clone() };
    let put = store::write_document(&broken, Some(map.version));
    world.carry_out(put).unwrap();
    world.finish(&mut StartReshard::new("ks".into(), 3)).unwrap();
    assert_eq!(code(world.finish(&mut StartReshard::new("ks".into(), 2))), "ReshardRunning");
    assert_eq!(code(world.finish(&mut ReshardRun::new("ks".into()))), "PlacementRefused");
    assert_eq!(world.map("ks").unwrap().document().reshard, None);
}

#[test]
fn scans_page_like_the_twin() {
    for (seed, partitioning) in [(1, Partitioning::Hash), (2, Partitioning::Range), (3, Partitioning::Range)] {
        let mut world = World::new(seed);
        world.create(partitioning, 8, 3).unwrap();
        if seed == 3 {
            // Owners that alternate: every partition is a part of its own.
            world.finish(&mut StartReshard::new("ks".into(), 5)).unwrap();
            world.finish(&mut ReshardRun::new("ks".into())).unwrap();
        }
        let mut clients = Clients::default();
        (0..400).for_each(|_| clients.operate(&mut world));
        for round in 0..200 {
            let (reverse, limit) = (world.random.below(2) == 1, 1 + world.random.below(40) as u32);
            let bound = |world: &mut World| {
                (world.random.below(2) == 1).then(|| Bytes::from(vec![world.random.below(256) as u8]))
            };
            let (after, end) = (bound(&mut world), bound(&mut world));
            let prefix = if round % 4 == 0 { vec![world.random.below(256) as u8] } else { Vec::new() };
            let inside = |key: &Bytes| {
                let behind_start = after.as_ref().is_none_or(|after| if reverse { key < after } else { key > after });
                key.starts_with(&prefix) && behind_start && end.as_ref().is_none_or(|end| key < end)
            };
            let mut expected: Vec<(Bytes, Bytes)> =
                clients.twin.iter().filter(|(k, _)| inside(k)).map(|(k, v)| (k.clone(), v.clone())).collect();
            if reverse {
                expected.reverse();
            }
            let action = scan_action(limit, reverse, after.clone(), &prefix, end.clone());
            let map = world.map("ks");
            let (entries, next) = scan(&mut world, &action, map);
            assert_eq!(entries, expected[..expected.len().min(limit as usize)], "{action:?}");
            if expected.len() > limit as usize {
                assert_eq!(next, entries.last().map(|(key, _)| key.clone()));
            }
        }
        let mut backward = scan_all(&mut world, 3, true);
        backward.reverse();
        assert_eq!(backward, scan_all(&mut world, 50, false));
    }
}

#[test]
fn a_scan_with_an_old_map_finds_what_has_moved() {
    let mut world = World::new(8);
    world.create(Partitioning::Hash, 6, 3).unwrap();
    let mut clients = Clients::default();
    (0..200).for_each(|_| clients.operate(&mut world));
    let old = world.map("ks");
    world.finish(&mut StartReshard::new("ks".into(), 1)).unwrap();
    world.finish(&mut ReshardRun::new("ks".into())).unwrap();
    let (entries, _) = scan(&mut world, &scan_action(10_000, false, None, &[], None), old);
    assert_eq!(entries.len(), clients.twin.len());
    assert_eq!(
        code(world.finish(planner_for(&scan_action(0, false, None, &[], None), None).unwrap().as_mut())),
        "LimitOutOfRange"
    );
}

#[test]
fn a_batch_stays_in_one_cluster() {
    use base_types::action::BatchStep;
    let mut world = World::new(9);
    world.create(Partitioning::Range, 4, 2).unwrap();
    let map = world.map("ks").unwrap();
    let put = |key: &'static [u8]| BatchStep::Put { key: Bytes::from_static(key), value: text("v") };
    let batch = |steps| Action::KvBatch { target: target(), steps };
    let routed = batch(vec![put(b"\x01"), put(b"\x50")]);
    assert_eq!(map.route(&routed).unwrap().cluster.as_str(), "metadata@ks-ks-0");
    let crossing = batch(vec![put(b"\x01"), put(b"\xf0")]);
    let crossing = map.route(&crossing).unwrap();
    assert_eq!(crossing.cluster.as_str(), "metadata@ks-ks-0", "who may remember it");
    let refusal = crossing.crosses.unwrap();
    assert_eq!(refusal.code.as_str(), "BatchCrossesClusters");
    assert!(refusal.message.contains("\\x01") && refusal.message.contains("\\xf0"), "{refusal}");
    assert_eq!(map.route(&batch(vec![])).unwrap_err().code.as_str(), "InvalidRequest");
    assert_eq!(map.route(&batch(vec![put(b"")])).unwrap_err().code.as_str(), "EmptyKey");
    let get = Action::KvGet { target: target(), key: Bytes::new() };
    assert_eq!(map.route(&get).unwrap_err().code.as_str(), "EmptyKey");
}

#[test]
fn a_document_is_read_as_it_was_written_and_damage_is_refused() {
    let mut document = spec(Partitioning::Range, 300, 7).document().unwrap();
    document.reshard = Some(Reshard {
        target: 9,
        prepared: false,
        done: 3,
        total: 5,
        moves: vec![Move { partition: PartitionId(4), from: 0, to: 8, epoch: 1, phase: MovePhase::Copying }],
    });
    let bytes = document.to_bytes();
    assert_eq!(Document::decode_body(bytes.clone()), Ok(document));
    for cut in 0..bytes.len() {
        assert!(Document::decode_body(bytes.slice(..cut)).is_err());
    }
    let mut random = Random::new(1);
    for _ in 0..2_000 {
        let mut broken = bytes.to_vec();
        let at = random.below(broken.len() as u64) as usize;
        broken[at] ^= 1 << random.below(8);
        if let Ok(document) = Document::decode_body(broken.into()) {
            let map = KeyspaceMap::new(1, document).unwrap();
            assert!(map.locate(b"any key").is_some());
            map.document().info().unwrap();
        }
    }
}

fn shard(index: u32, address: &str, replicas: &[&str]) -> StaticShard {
    StaticShard {
        name: format!("shard{index}"),
        index,
        address: address.into(),
        replicas: replicas.iter().map(|r| r.to_string()).collect(),
    }
}

/// Two members have no majority once one of them is dead. The third is another node of the file, and each node gets as many.
#[test]
fn a_shard_with_one_replica_gets_a_third_member() {
    let plan =
        from_static_topology("x", &[shard(0, "a", &["b"]), shard(1, "c", &["d"]), shard(2, "e", &["f"])]).unwrap();
    assert_eq!(plan.members, [["a", "b", "c"], ["c", "d", "e"], ["e", "f", "a"]]);
    assert!(plan.create.rule.starts_with("size=3 ") && plan.warning.is_none());
    let crossed =
        from_static_topology("x", &[shard(0, "a", &["b"]), shard(1, "b", &["c"]), shard(2, "c", &["a"])]).unwrap();
    assert_eq!(crossed.members, [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"]]);
    // Two nodes cannot do it, and the start says so; one even less.
    let two = from_static_topology("x", &[shard(0, "a", &["b"]), shard(1, "b", &["a"])]).unwrap();
    assert_eq!(two.members, [["a", "b"], ["b", "a"]]);
    assert!(two.warning.unwrap().contains("names no third node"));
    assert!(from_static_topology("x", &[shard(0, "a", &[])]).unwrap().warning.unwrap().contains("lost with its node"));
    let three = from_static_topology("x", &[shard(0, "a", &["b", "c"])]).unwrap();
    assert_eq!((three.members[0].len(), three.warning), (3, None));
}

#[test]
fn a_static_topology_becomes_a_keyspace() {
    let shards = [shard(1, "127.0.0.3:8080", &["127.0.0.33:8080"]), shard(0, "127.0.0.2:8080", &["127.0.0.22:8080"])];
    let plan = from_static_topology("default", &shards).unwrap();
    assert_eq!(plan.members[0][..2], ["127.0.0.2:8080", "127.0.0.22:8080"]);
    assert_eq!((plan.create.clusters, plan.create.partitions), (2, 64));
    assert!(plan.create.rule.starts_with("size=3 "));
    let document = plan.create.document().unwrap();
    assert!(document.owners.iter().enumerate().all(|(p, owner)| p % 2 == usize::from(*owner)));
    let gap = [shard(0, "a", &[]), shard(2, "b", &[])];
    assert!(matches!(from_static_topology("x", &gap), Err(TopologyError::Index { index: 2, .. })));
    assert_eq!(from_static_topology("x", &[]), Err(TopologyError::Empty));
    let uneven = [shard(0, "a", &[]), shard(1, "b", &["c"])];
    assert_eq!(from_static_topology("x", &uneven), Err(TopologyError::UnevenReplicas(0, 1)));
    for count in [1u32, 3, 100, 1024] {
        let many: Vec<StaticShard> = (0..count).map(|i| shard(i, &i.to_string(), &[])).collect();
        let plan = from_static_topology("x", &many).unwrap();
        assert_eq!(u32::from(plan.create.partitions) % count, 0);
        plan.create.document().unwrap();
    }
}
