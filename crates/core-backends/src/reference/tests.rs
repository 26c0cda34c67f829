use super::*;
use crate::reply::decode_reply;
use crate::testing::MapSpace;
use std::collections::BTreeMap;

fn run(space: &mut MapSpace, command: Command) -> Result<Reply, Refusal> {
    let bytes = command.to_bytes();
    assert_eq!(Command::from_bytes(bytes.clone()).unwrap(), command);
    validate(&bytes)?;
    let at = ApplyContext { life: base_types::Generation(1), index: LogIndex(1), position: 0, cluster_time_ms: 77 };
    let reply = apply(at, space, &bytes).unwrap();
    crate::testing::check(base_types::BackendKind::Reference, space);
    decode_reply(reply)
}

fn ask(space: &MapSpace, asked: Query) -> Reply {
    let bytes = asked.to_bytes();
    assert_eq!(Query::from_bytes(bytes.clone()).unwrap(), asked);
    decode_reply(query(0, space, &bytes).unwrap()).unwrap()
}

fn name(text: &str) -> ClusterName {
    text.parse().unwrap()
}

fn member(id: u64) -> ClusterMember {
    ClusterMember { replica: ReplicaId(id), node: NodeId(id), disk: DiskId(id * 7), learner: false }
}

fn create(text: &str) -> Command {
    Command::Create {
        name: name(text),
        rule: "size=3 location=world".into(),
        engine: "lmdb".into(),
        consistency: WriteConsistency::Strong,
        read_consistency: ReadConsistency::Eventual,
        members: vec![member(1), member(2), member(3)],
    }
}

fn record(reply: Result<Reply, Refusal>) -> ClusterRecord {
    match reply {
        Ok(Reply::Record { record }) => record,
        other => panic!("{other:?}"),
    }
}

fn resolve(space: &MapSpace, text: &str) -> (Option<ClusterRecord>, u32) {
    match ask(space, Query::Resolve { name: name(text) }) {
        Reply::Resolved { record, last_generation } => (record, last_generation.0),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_cluster_lives_and_lives_again() {
    let mut space = MapSpace::default();
    let made = record(run(&mut space, create("metadata@a")));
    assert_eq!(
        (made.cluster, made.generation, made.state, made.created_ms),
        (ClusterId(1000), Generation(1), ClusterState::Creating, 77)
    );
    assert_eq!(run(&mut space, create("metadata@a")).unwrap_err().code.as_str(), "ClusterExists");
    let unfinished = |space: &MapSpace| match ask(space, Query::Unfinished { limit: 10 }) {
        Reply::Records { records, more: false } => records.len(),
        other => panic!("{other:?}"),
    };
    assert_eq!(unfinished(&space), 1);
    let set =
        |generation, state| Command::SetState { name: name("metadata@a"), generation: Generation(generation), state };
    assert_eq!(run(&mut space, set(2, ClusterState::Active)).unwrap_err().code.as_str(), "WrongGeneration");
    let active = record(run(&mut space, set(1, ClusterState::Active)));
    assert_eq!((active.state, active.version, unfinished(&space)), (ClusterState::Active, 2, 0));
    assert_eq!(run(&mut space, set(1, ClusterState::Creating)).unwrap_err().code.as_str(), "Conflict");
    let purge = Command::Purge { name: name("metadata@a"), generation: Generation(1) };
    assert_eq!(run(&mut space, purge.clone()).unwrap_err().code.as_str(), "Conflict", "not while it serves");
    record(run(&mut space, Command::Delete { name: name("metadata@a"), generation: Generation(1) }));
    assert_eq!(run(&mut space, set(1, ClusterState::Active)).unwrap_err().code.as_str(), "Conflict");
    assert!(run(&mut space, create("metadata@a")).unwrap_err().message.contains("still being deleted"));
    assert_eq!(unfinished(&space), 1);
    assert_eq!(run(&mut space, purge.clone()), Ok(Reply::Done));
    assert_eq!(run(&mut space, purge.clone()), Ok(Reply::Done), "a flow may come twice");
    assert_eq!((resolve(&space, "metadata@a"), unfinished(&space)), ((None, 1), 0));
    let again = record(run(&mut space, create("metadata@a")));
    assert_eq!((again.cluster, again.generation), (ClusterId(1001), Generation(2)));
    assert_eq!(run(&mut space, purge), Ok(Reply::Done), "of the earlier life: nothing happens");
    assert_eq!(resolve(&space, "metadata@a"), (Some(again.clone()), 2));
    assert_eq!(
        ask(&space, Query::ResolveId { cluster: ClusterId(1001) }),
        Reply::Resolved { record: Some(again), last_generation: Generation(2) }
    );
    assert_eq!(
        ask(&space, Query::ResolveId { cluster: ClusterId(1000) }),
        Reply::Resolved { record: None, last_generation: Generation(0) }
    );
    assert_eq!(
        run(&mut space, Command::Delete { name: name("redis@b"), generation: Generation(1) })
            .unwrap_err()
            .code
            .as_str(),
        "UnknownCluster"
    );
}

#[test]
fn members_follow_the_latest_membership_only() {
    let mut space = MapSpace::default();
    run(&mut space, create("redis@m")).unwrap();
    let update = |members: &[u64], term, index| Command::UpdateMembers {
        name: name("redis@m"),
        generation: Generation(1),
        members: members.iter().copied().map(member).collect(),
        term: Term(term),
        index: LogIndex(index),
    };
    assert_eq!(record(run(&mut space, update(&[1, 2, 4], 2, 10))).members.len(), 3);
    let late = record(run(&mut space, update(&[1], 1, 99)));
    assert_eq!((late.members[2].replica, late.version), (ReplicaId(4), 2));
    assert_eq!(record(run(&mut space, update(&[1, 2, 4, 5], 2, 11))).members.len(), 4);
    assert_eq!(run(&mut space, update(&[1, 1], 3, 1)).unwrap_err().code.as_str(), "InvalidRequest");
    assert_eq!(run(&mut space, update(&[], 3, 1)).unwrap_err().code.as_str(), "TooManyMembers");
    let levels = Command::SetLevels {
        name: name("redis@m"),
        generation: Generation(1),
        consistency: Some(WriteConsistency::Absolute),
        read_consistency: None,
    };
    let levels = record(run(&mut space, levels));
    assert_eq!((levels.consistency, levels.read_consistency), (WriteConsistency::Absolute, ReadConsistency::Eventual));
}

#[test]
fn clusters_are_listed_in_pages() {
    let mut space = MapSpace::default();
    let names: Vec<String> = (0..7).map(|n| format!("metadata@ks-{n}")).collect();
    for text in names.iter().rev().chain(&["redis@x".to_string()]) {
        run(&mut space, create(text)).unwrap();
    }
    let (mut listed, mut after) = (Vec::new(), None);
    loop {
        match ask(&space, Query::List { prefix: "metadata@ks-".into(), start_after: after, limit: 3 }) {
            Reply::Records { records, more } => {
                listed.extend(records.iter().map(|record| record.name.to_string()));
                after = listed.last().cloned();
                if !more {
                    break;
                }
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(listed, names);
}

#[test]
fn bad_creations_are_refused() {
    let mut space = MapSpace::default();
    for (spoil, code) in [
        ((|rule, _| *rule = "size=0".into()) as fn(&mut String, &mut String), "InvalidRule"),
        (|_, engine| engine.clear(), "UnknownEngine"),
        (|_, engine| *engine = "x".repeat(65), "UnknownEngine"),
    ] {
        let mut command = create("redis@m");
        if let Command::Create { rule, engine, .. } = &mut command {
            spoil(rule, engine);
        }
        assert_eq!(run(&mut space, command).unwrap_err().code.as_str(), code);
    }
    let put = |key: &[u8], bytes: usize| Command::PutDocument {
        key: Bytes::copy_from_slice(key),
        expected_version: None,
        body: vec![0; bytes].into(),
    };
    assert_eq!(run(&mut space, put(b"", 1)).unwrap_err().code.as_str(), "EmptyKey");
    assert_eq!(run(&mut space, put(&[1; 1025], 1)).unwrap_err().code.as_str(), "KeyTooLarge");
    assert_eq!(run(&mut space, put(b"k", VALUE_BYTES_MAX + 1)).unwrap_err().code.as_str(), "ValueTooLarge");
    assert_eq!(space, MapSpace::default());
}

/// Random documents against a twin that is a map.
#[test]
fn documents_compare_and_set_as_a_map_would() {
    let mut space = MapSpace::default();
    let mut twin: BTreeMap<Bytes, (u64, Bytes)> = BTreeMap::new();
    let (mut last, mut state, mut refused) = (0u64, 9u64, 0);
    for round in 0..3000u64 {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let key = Bytes::from(format!("flow/{}", (state >> 33) % 12));
        let is = twin.get(&key).map_or(0, |(version, _)| *version);
        let expected = [None, Some(0), Some(is), Some(is), Some(is + 1)][(state >> 40) as usize % 5];
        if (state >> 50) % 3 == 0 {
            let reply = run(&mut space, Command::DeleteDocument { key: key.clone(), expected_version: expected });
            if expected.is_none_or(|expected| expected == is) {
                assert_eq!(reply, Ok(Reply::Deleted { existed: twin.remove(&key).is_some() }));
                continue;
            }
            assert_eq!(reply.unwrap_err().code.as_str(), "ConditionFailed");
        } else {
            let body = Bytes::from(round.to_string());
            let reply = run(
                &mut space,
                Command::PutDocument { key: key.clone(), expected_version: expected, body: body.clone() },
            );
            if expected.unwrap_or(0) == is {
                last += 1;
                assert_eq!(reply, Ok(Reply::Version { version: last }));
                twin.insert(key, (last, body));
                continue;
            }
            assert_eq!(reply.unwrap_err().code.as_str(), "ConditionFailed");
        }
        refused += 1;
    }
    assert!(refused > 300);
    let (mut listed, mut after) = (Vec::new(), None);
    loop {
        match ask(&space, Query::ListDocuments { prefix: Bytes::from_static(b"flow/"), start_after: after, limit: 5 }) {
            Reply::Documents { documents, more } => {
                listed.extend(documents);
                after = listed.last().map(|document: &Document| document.key.clone());
                if !more {
                    break;
                }
            }
            other => panic!("{other:?}"),
        }
    }
    let expected: Vec<Document> =
        twin.into_iter().map(|(key, (version, body))| Document { key, version, body }).collect();
    assert_eq!(listed, expected);
    let one = ask(&space, Query::GetDocument { key: expected[0].key.clone() });
    assert_eq!(one, Reply::Document { document: Some(expected[0].clone()) });
}

#[test]
fn lives_that_are_over_are_told_and_a_member_that_is_behind_tells_none() {
    let mut space = MapSpace::default();
    let lives = || {
        let life = |at: &str, generation| {
            (name(&format!("metadata@{at}")), Generation(generation), ClusterId(CLUSTER_ID_FIRST))
        };
        [("a", 1), ("a", 2), ("a", 3), ("b", 1)].map(|(at, generation)| life(at, generation)).into_iter()
    };
    let over = |space: &MapSpace| match ask(space, Query::Buried { lives: lives().collect() }) {
        Reply::Buried { places, ended } if ended.is_empty() => places,
        other => panic!("{other:?}"),
    };
    assert_eq!(over(&space), [0u32; 0], "nothing is known here yet");
    let end = |space: &mut MapSpace, generation| {
        let generation = Generation(generation);
        run(space, Command::Delete { name: name("metadata@a"), generation }).unwrap();
        assert_eq!(
            over(space).iter().filter(|place| **place + 1 == generation.0).count(),
            0,
            "not while it is Deleting"
        );
        run(space, Command::Purge { name: name("metadata@a"), generation }).unwrap();
    };
    run(&mut space, create("metadata@a")).unwrap();
    assert_eq!(over(&space), [0u32; 0]);
    end(&mut space, 1);
    assert_eq!(over(&space), [0]);
    run(&mut space, create("metadata@a")).unwrap();
    assert_eq!(over(&space), [0], "the second life has not ended");
    end(&mut space, 2);
    assert_eq!(over(&space), [0, 1]);
}

#[test]
fn outdated_members_are_found_by_their_digest_in_any_order() {
    let mut space = MapSpace::default();
    run(&mut space, create("metadata@a")).unwrap();
    let Reply::Resolved { record: Some(record), .. } = ask(&space, Query::Resolve { name: name("metadata@a") }) else {
        panic!("it was created")
    };
    let outdated = |members: &[ClusterMember], generation: u32| {
        let told = (name("metadata@a"), Generation(generation), members_digest(members));
        let unknown = (name("metadata@b"), Generation(1), 0);
        let query = Query::Outdated { members: vec![unknown, told] };
        assert_eq!(Query::from_bytes(query.to_bytes()).unwrap(), query);
        let reply = ask(&space, query);
        assert_eq!(Reply::from_bytes(reply.to_bytes()).unwrap(), reply);
        reply
    };
    let mut members = record.members.clone();
    members.reverse();
    assert_eq!(outdated(&members, 1), Reply::Outdated { places: vec![] });
    members[0].learner = !members[0].learner;
    assert_eq!(outdated(&members, 1), Reply::Outdated { places: vec![1] });
    assert_eq!(outdated(&members, 2), Reply::Outdated { places: vec![] }, "another life is not compared");
}

#[test]
fn who_gives_a_creation_up_does_not_end_what_another_has_brought_to_serve() {
    let set = |state| Command::SetState { name: name("metadata@a"), generation: Generation(1), state };
    let mut served = MapSpace::default();
    run(&mut served, create("metadata@a")).unwrap();
    run(&mut served, set(ClusterState::Active)).unwrap();
    assert_eq!(run(&mut served, set(ClusterState::Deleting)).unwrap_err().code.as_str(), "Conflict");
    assert_eq!(resolve(&served, "metadata@a").0.unwrap().state, ClusterState::Active);
    let delete = Command::Delete { name: name("metadata@a"), generation: Generation(1) };
    assert_eq!(record(run(&mut served, delete)).state, ClusterState::Deleting, "that is what Delete is for");
    let mut unmade = MapSpace::default();
    run(&mut unmade, create("metadata@a")).unwrap();
    assert_eq!(record(run(&mut unmade, set(ClusterState::Deleting))).state, ClusterState::Deleting);
}

fn survivor(node: u64) -> base_types::Survivor {
    base_types::Survivor {
        node: NodeId(node),
        disk: DiskId(node),
        replica: ReplicaId(node),
        generation: Generation(1),
        state: base_types::SurvivorState::Whole,
        follows: None,
        term: Term(3),
        last_term: Term(3),
        last: LogIndex(9),
        commit: LogIndex(8),
        applied: LogIndex(8),
        durable: LogIndex(2),
        members: Vec::new(),
    }
}

fn recovery(cluster: ClusterId, ended: u32, node: u64, held: &[u64]) -> Recovery {
    Recovery {
        name: name("metadata@a"),
        cluster,
        ended: Generation(ended),
        survivor: member(node),
        unix_ms: 77,
        by: NodeId(4),
        told: vec![survivor(node)],
        held: held.iter().map(|id| member(*id)).collect(),
        open: true,
    }
}

fn recover(space: &mut MapSpace, recovery: &Recovery) -> Result<Reply, Refusal> {
    run(space, Command::Recover { recovery: Box::new(recovery.clone()) })
}

#[test]
fn a_life_begins_on_one_survivor_only() {
    let mut space = MapSpace::default();
    let made = record(run(&mut space, create("metadata@a")));
    let first = recovery(made.cluster, 1, 1, &[2, 3]);
    assert_eq!(recover(&mut space, &first).unwrap_err().code.as_str(), "NotReady", "it never served");
    let active =
        Command::SetState { name: made.name.clone(), generation: made.generation, state: ClusterState::Active };
    run(&mut space, active).unwrap();
    let begun = record(recover(&mut space, &first));
    assert_eq!((begun.generation, begun.members.clone()), (Generation(2), vec![member(1)]));
    assert_eq!(record(recover(&mut space, &first)), begun, "repeated, it is done");
    let other = recovery(made.cluster, 1, 2, &[1, 3]);
    assert_eq!(
        recover(&mut space, &other).unwrap_err().code.as_str(),
        "WrongGeneration",
        "another survivor is too late"
    );
    assert_eq!(resolve(&space, "metadata@a").1, 2);
    // The life before has ended, not been deleted; nobody of it may be removed.
    let lives = [1, 2].map(|life| (name("metadata@a"), Generation(life), made.cluster)).to_vec();
    let asked = Query::Buried { lives };
    assert_eq!(ask(&space, asked.clone()), Reply::Buried { places: vec![], ended: vec![(0, Generation(2))] });
    // What it found is kept, and settled step by step.
    let listed = Query::Recoveries { name: None, start_after: None, limit: 10 };
    assert_eq!(ask(&space, listed.clone()), Reply::Recoveries { recoveries: vec![first.clone()], more: false });
    let settle = |discarded: Option<u64>, whole| Command::SettleRecovery {
        name: name("metadata@a"),
        ended: Generation(1),
        discarded: discarded.map(NodeId),
        whole,
    };
    run(&mut space, settle(Some(2), false)).unwrap();
    run(&mut space, settle(None, true)).unwrap();
    let settled = Recovery { held: vec![member(3)], open: false, ..first };
    assert_eq!(ask(&space, listed.clone()), Reply::Recoveries { recoveries: vec![settled], more: false });
    // With the cluster all its lives go.
    run(&mut space, Command::Delete { name: name("metadata@a"), generation: Generation(2) }).unwrap();
    run(&mut space, Command::Purge { name: name("metadata@a"), generation: Generation(2) }).unwrap();
    assert_eq!(ask(&space, asked), Reply::Buried { places: vec![0, 1], ended: vec![] });
    assert_eq!(ask(&space, listed), Reply::Recoveries { recoveries: vec![], more: false });
}

#[test]
fn recoveries_whose_data_is_kept_are_not_forgotten() {
    let mut space = MapSpace::default();
    let made = record(run(&mut space, create("metadata@a")));
    let active =
        Command::SetState { name: made.name.clone(), generation: made.generation, state: ClusterState::Active };
    run(&mut space, active).unwrap();
    for ended in 1..=RECOVERIES_MAX as u32 {
        recover(&mut space, &recovery(made.cluster, ended, 1, &[2])).unwrap();
    }
    let next = recovery(made.cluster, RECOVERIES_MAX as u32 + 1, 1, &[2]);
    assert_eq!(recover(&mut space, &next).unwrap_err().code.as_str(), "TooManyRecoveries");
    let discard = Command::SettleRecovery {
        name: name("metadata@a"),
        ended: Generation(3),
        discarded: Some(NodeId(2)),
        whole: false,
    };
    run(&mut space, discard).unwrap();
    recover(&mut space, &next).unwrap();
    let Reply::Recoveries { recoveries, .. } =
        ask(&space, Query::Recoveries { name: None, start_after: None, limit: 99 })
    else {
        panic!()
    };
    let lives: Vec<u32> = recoveries.iter().map(|one| one.ended.0).collect();
    assert_eq!(lives, [1, 2, 4, 5, 6, 7, 8, 9]);
}
