//! Eventual reads of a session never go back behind what it has seen.

use super::*;
use base_types::action::{Level, ReadAfter};
use base_types::ReadConsistency;

/// A strong or eventual read through a node, of a session that has seen this.
fn read(world: &mut World, node: u64, target: &KvTarget, after: Option<ReadAfter>) -> (Option<String>, Answer) {
    let action = Action::KvGet { target: target.clone(), key: bytes("k") };
    let level = Some(ReadConsistency::Eventual);
    let answer = world.request(node, Request { read_consistency: level, after, ..request(action) }).unwrap();
    match answer.result.clone() {
        ActionResult::Value { value } => (value.map(|value| String::from_utf8(value.to_vec()).unwrap()), answer),
        other => panic!("{other:?}"),
    }
}

fn seen(answer: &Answer) -> ReadAfter {
    let at = answer.at.expect("an answer of a cluster says where");
    ReadAfter { cluster: at.cluster, generation: at.generation, index: at.index }
}

pub(crate) fn a_session_never_reads_older() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par"], 3, 1);
    world.ready();
    let name: ClusterName = "metadata@session".parse().unwrap();
    world.done(1, Action::CreateCluster { name: name.clone(), rule: "size=3".into() });
    let target = KvTarget::Cluster(name);
    world.put(1, &target, "k", "old").unwrap();
    world.run(2_000);
    let members: Vec<u64> = (1..=3).filter(|node| read(&mut world, *node, &target, None).0.is_some()).collect();
    assert_eq!(members.len(), 3);
    // Right after a write is acknowledged, a member may not have applied it.
    let mut stale = 0;
    for round in 0..40 {
        let answer = world.put(1, &target, "k", &format!("new {round}")).unwrap();
        let wanted = Some(format!("new {round}"));
        for node in 1..=3 {
            // Each without a position first: then it may be older.
            stale += usize::from(read(&mut world, node, &target, None).0 != wanted);
            let (value, told) = read(&mut world, node, &target, Some(seen(&answer)));
            assert_eq!(value, wanted, "round {round}, node {node}");
            assert!(seen(&told).index >= seen(&answer).index);
        }
    }
    assert!(stale > 0, "no read was ever older: the test shows nothing");
    // A position of a cluster that is no more says nothing: the answer is strong.
    let other = ReadAfter {
        cluster: base_types::ClusterId(1),
        generation: base_types::Generation(9),
        ..seen(&world.put(1, &target, "k", "last").unwrap())
    };
    let (value, told) = read(&mut world, 2, &target, Some(other));
    assert_eq!((value.as_deref(), told.level), (Some("last"), Some(Level::Read(ReadConsistency::Strong))));
}

/// A member may show an entry that is not committed yet. A leader that has committed less answers only once it has that.
pub(crate) fn a_position_that_is_not_committed_yet_is_waited_for() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par"], 3, 1);
    world.ready();
    let name = world.create(1, "metadata@session", "size=3");
    let target = KvTarget::Cluster(name);
    let last = seen(&world.put(1, &target, "k", "old").unwrap());
    let ahead = ReadAfter { index: base_types::LogIndex(last.index.0 + 1), ..last };
    let get = |after| Request {
        read_consistency: Some(ReadConsistency::Eventual),
        after: Some(after),
        ..request(Action::KvGet { target: target.clone(), key: bytes("k") })
    };
    for node in 1..=3 {
        let ticket = world.ask(node, get(ReadAfter { index: base_types::LogIndex(ahead.index.0 + node - 1), ..last }));
        world.run(300);
        assert!(!world.replies.contains_key(&ticket), "node {node} answered from before the position");
        let answer = world.put(1, &target, "k", &format!("new {node}")).unwrap();
        world.until("the position is reached", 3_000, |world| world.replies.contains_key(&ticket));
        let told = world.replies.remove(&ticket).unwrap().unwrap();
        assert!(seen(&told).index >= seen(&answer).index, "{told:?}");
    }
    // What was lost before it was committed is never reached: that is said, and nothing older.
    let never = ReadAfter { index: base_types::LogIndex(u64::MAX >> 1), ..last };
    let refused = world.request(2, get(never)).unwrap_err();
    assert_eq!(refused.refusal.code.as_str(), "DeadlineExceeded");
    assert!(refused.refusal.message.contains("what the session has seen"), "{refused:?}");
}

#[test]
fn positions_ahead_are_waited_for() {
    a_position_that_is_not_committed_yet_is_waited_for();
}

#[test]
fn a_session_reads_nothing_older() {
    a_session_never_reads_older();
}
