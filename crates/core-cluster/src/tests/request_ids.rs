//! Which repetitions apply nothing, for how long, and what a client learns after that.

use super::harness::*;
use crate::api::*;
use base_types::{ClusterId, Generation, LogIndex, OrderedAt, Outcome, ReadConsistency, RequestId, WriteConsistency};
use core_backends::metadata::Reply;

/// Kept for (5 + 2 + 6) s and a tenth and one second: 15.3 s.
const BRIEF: RequestIdTerms = RequestIdTerms { window_ms: 5_000, deadline_ms: 2_000, held_max: 100 };

/// How a request that creates a key ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Told {
    /// Done, and where.
    Done(OrderedAt),
    /// The key was there: it was applied once more.
    Twice,
    Expired,
    Overloaded,
}

/// Asks for a key that must not be there, through the leader.
fn ask(world: &mut World, id: RequestId, key: &str) -> Told {
    let leader = world.leader();
    match world.write(leader, id.0, create(key, "v"), WriteConsistency::Strong) {
        LocalOutcome::Written { reply, at, .. } => match core_backends::decode_reply::<Reply>(reply) {
            Ok(_) => Told::Done(at),
            Err(refusal) if refusal.code == base_types::ErrorCode::RequestIdExpired => Told::Expired,
            Err(refusal) => {
                assert_eq!(refusal.code.as_str(), "ConditionFailed");
                Told::Twice
            }
        },
        LocalOutcome::Refused(refusal) if refusal.code == base_types::ErrorCode::RequestIdExpired => {
            assert_eq!(refusal.outcome(), Outcome::Unknown, "its first try may have been applied");
            assert!(!refusal.kind().retryable(), "it stays expired");
            Told::Expired
        }
        LocalOutcome::Refused(refusal) if refusal.code.as_str() == "Overloaded" => Told::Overloaded,
        other => panic!("{other:?}"),
    }
}

/// Ids in the longer queue of each member.
fn ids_held(world: &mut World) -> Vec<usize> {
    let held = |node| {
        let sizes = world.lane(node).sizes();
        let size = sizes.iter().find(|(name, _)| *name == "request ids, a replica");
        size.map_or(0, |(_, size)| size.length)
    };
    (1..=3).map(held).map(|ids| ids as usize).collect()
}

/// Time passes, and others write: what expires goes when something is applied.
fn pass(world: &mut World, seconds: u64) {
    for _ in 0..seconds {
        world.run(1_000);
        let (leader, id) = (world.leader(), RequestId::own(world.next_ticket.into()));
        let outcome = world.write(leader, id.0, put("other", "v"), WriteConsistency::Strong);
        assert!(matches!(outcome, LocalOutcome::Written { .. }), "{outcome:?}");
    }
}

/// An id that was made after the last position that a strong read saw.
fn issued(world: &mut World, text: u128) -> RequestId {
    let leader = world.leader();
    match world.call(leader, read("k", ReadConsistency::Strong)) {
        LocalOutcome::Read { at, .. } => RequestId::issued(at.cluster, at.generation, at.index, text).unwrap(),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn a_clients_id_outlives_the_deadline() {
    let mut world = World::remembering(3, RequestIdTerms::default());
    let first = ask(&mut world, RequestId::opaque(5), "k");
    assert!(matches!(first, Told::Done(_)));
    pass(&mut world, 59);
    // The deadlines of these requests are two seconds.
    assert_eq!(ask(&mut world, RequestId::opaque(5), "k"), first);
}

#[test]
fn a_clients_id_is_kept_a_minute() {
    a_clients_id_outlives_the_deadline();
}

#[test]
fn a_clients_id_is_forgotten_in_the_end() {
    let mut world = World::remembering(3, BRIEF);
    assert!(matches!(ask(&mut world, RequestId::opaque(5), "k"), Told::Done(_)));
    pass(&mut world, 18);
    assert_eq!(ask(&mut world, RequestId::opaque(5), "k"), Told::Twice, "as the guide says");
    world.run(1_000);
    world.assert_equal(3);
}

#[test]
fn a_clients_id_survives_restarts_and_snapshots() {
    let mut world = World::remembering(3, BRIEF);
    let (early, late) = (issued(&mut world, 1), RequestId::opaque(6));
    assert!(matches!(ask(&mut world, early, "early"), Told::Done(_)));
    pass(&mut world, 10);
    let first = ask(&mut world, late, "late");
    pass(&mut world, 8);
    assert_eq!(ask(&mut world, early, "early"), Told::Expired);
    (1..=3).for_each(|node| world.kill(node));
    (1..=3).for_each(|node| _ = world.start(base_types::NodeId(node)));
    assert_eq!(ask(&mut world, late, "late"), first);
    assert_eq!(ask(&mut world, early, "early"), Told::Expired, "what was forgotten is read back");
    world.run(1_000);
    world.assert_equal(3);
}

#[test]
fn a_clients_id_holds_no_nodes_ids_back() {
    let mut world = World::remembering(3, RequestIdTerms::default());
    assert!(matches!(ask(&mut world, RequestId::opaque(5), "k"), Told::Done(_)));
    pass(&mut world, 40);
    // Those of twelve seconds, and the client's.
    let held = ids_held(&mut world);
    assert!(held.iter().all(|ids| (2..=16).contains(ids)), "{held:?}");
}

pub(crate) fn an_issued_id_is_applied_once_or_refused() {
    let mut world = World::remembering(3, BRIEF);
    let id = issued(&mut world, 1);
    let first = ask(&mut world, id, "k");
    assert!(matches!(first, Told::Done(_)));
    for _ in 0..6 {
        pass(&mut world, 4);
        // Each repetition that is answered is remembered anew.
        let told = ask(&mut world, id, "k");
        assert!(told == first || told == Told::Expired, "{told:?}");
    }
    pass(&mut world, 18);
    assert_eq!(ask(&mut world, id, "k"), Told::Expired);
    // One that was issued then, and first comes when others' ids have been forgotten since, may have come before.
    let unused = issued(&mut world, 2);
    assert!(matches!(ask(&mut world, RequestId::opaque(9), "other client"), Told::Done(_)));
    pass(&mut world, 18);
    assert_eq!(ask(&mut world, unused, "unused"), Told::Expired);
    world.run(1_000);
    world.assert_equal(3);
}

#[test]
fn an_issued_id_is_refused_when_forgotten() {
    an_issued_id_is_applied_once_or_refused();
}

#[test]
fn an_issued_id_outlives_a_quiet_hour() {
    let mut world = World::remembering(3, RequestIdTerms::default());
    let id = issued(&mut world, 1);
    world.run(200_000);
    assert!(matches!(ask(&mut world, id, "k"), Told::Done(_)), "nothing was forgotten since it was issued");
}

#[test]
fn an_id_of_another_position_is_refused() {
    let mut world = World::remembering(3, RequestIdTerms::default());
    let id = |cluster, generation, index| {
        RequestId::issued(ClusterId(cluster), Generation(generation), LogIndex(index), 1).unwrap()
    };
    let cluster = CLUSTER.0;
    assert_eq!(ask(&mut world, id(cluster + 1, 1, 1), "k"), Told::Expired);
    assert_eq!(ask(&mut world, id(cluster, 2, 1), "k"), Told::Expired);
    assert_eq!(ask(&mut world, id(cluster, 1, 1_000), "k"), Told::Expired, "that position was never reached");
    assert!(matches!(ask(&mut world, id(cluster, 1, 1), "k"), Told::Done(_)));
}

pub(crate) fn a_full_table_forgets_nothing_early() {
    let mut world = World::remembering(3, RequestIdTerms { held_max: 20, ..BRIEF });
    for id in 0..20 {
        assert!(matches!(ask(&mut world, RequestId::opaque(id), &format!("{id}")), Told::Done(_)));
    }
    assert_eq!(ask(&mut world, RequestId::opaque(20), "k"), Told::Overloaded);
    pass(&mut world, 4);
    assert_eq!(ask(&mut world, RequestId::opaque(20), "k"), Told::Overloaded, "nodes' own have a queue of their own");
    pass(&mut world, 18);
    assert!(matches!(ask(&mut world, RequestId::opaque(20), "k"), Told::Done(_)), "they are forgotten in their time");
}

#[test]
fn a_full_table_refuses_writes() {
    a_full_table_forgets_nothing_early();
}
