//! A group that cannot apply an entry: it stops alone, survives restarts, and continues by an operator's command.

use super::harness::*;
use crate::api::*;
use base_types::{ClusterId, Generation, LogIndex, NodeId, ReadConsistency, WriteConsistency};

const OTHER: ClusterId = ClusterId(2000);

/// Three nodes with the cluster of the harness, and another one beside it.
fn two_clusters() -> World {
    let mut world = World::new(3, 3, 1 << 20);
    for node in 1..=3 {
        let now = world.now;
        let other = ReplicaSpec { cluster: OTHER, name: "metadata@other".parse().unwrap(), ..spec(node, 3) };
        assert!(world.lane(node).create_replica(now, other).unwrap());
    }
    world.run(1_000);
    world
}

fn other_takes_a_write(world: &mut World, request: u128) {
    other_takes_a_write_at(world, request, 0);
}

fn other_takes_a_write_at(world: &mut World, request: u128, time: u64) {
    let leader = (1..=3).find(|node| world.lane(*node).view(OTHER).is_some_and(|view| view.is_leader)).unwrap();
    world.next_ticket += 1;
    let (ticket, now) = (base_types::Ticket(world.next_ticket), world.now);
    let kind = write(request, &put("k", "v"), WriteConsistency::Absolute, time);
    let deadline = now + std::time::Duration::from_secs(2);
    let operation = LocalOperation { ticket, cluster: OTHER, generation: Generation(1), deadline, kind };
    world.lane(leader).submit(now, operation);
    world.run(300);
    match world.completions.remove(&ticket) {
        Some(LocalOutcome::Written { .. }) => {}
        // As a router would: with the cluster's own time.
        Some(LocalOutcome::StaleRoute { cluster_time_ms }) if time == 0 => {
            other_takes_a_write_at(world, request, cluster_time_ms);
        }
        other => panic!("{other:?}"),
    }
}

fn poison(world: &mut World, text: &str) -> LogIndex {
    world.put("before", "1");
    world.run(300);
    let leader = world.leader();
    let index = LogIndex(world.view(leader).unwrap().commit.0 + 1);
    let outcome = world.write(leader, 99, put("poisoned", text), WriteConsistency::Strong);
    assert!(matches!(outcome, LocalOutcome::Unknown { .. }), "{outcome:?}");
    world.run(1_500);
    index
}

fn quarantined(world: &World) -> Vec<u64> {
    (1..=3).filter(|node| world.view(*node).is_some_and(|view| view.quarantined.is_some())).collect()
}

fn refused(world: &mut World, node: u64, level: ReadConsistency) -> bool {
    match world.call(node, read("before", level)) {
        LocalOutcome::Refused(refusal) => {
            refusal.code.as_str() == "Quarantined" && refusal.message.contains("hive ctl cluster skip")
        }
        LocalOutcome::NotLeader { leader, .. } => leader.is_some(),
        _ => false,
    }
}

fn skip(world: &mut World, index: LogIndex) -> LocalOutcome {
    let leader = world.leader();
    world.call(leader, LocalKind::Admin(AdminCommand::SkipEntry { index }))
}

#[test]
pub fn a_poisoned_entry_stops_its_own_group_only() {
    for text in ["poison: panic", "poison: corrupt"] {
        let mut world = two_clusters();
        let index = poison(&mut world, text);
        assert_eq!(quarantined(&world), [1, 2, 3], "{text}");
        let told = |notice: &Notice| matches!(notice, Notice::Quarantined { message, .. } if message.contains(&format!("entry {index}")) && message.contains("poisoned"));
        assert_eq!(world.notices.iter().filter(|(_, notice)| told(notice)).count(), 3, "{:?}", world.notices);
        for node in 1..=3 {
            assert!(
                refused(&mut world, node, ReadConsistency::Eventual)
                    && refused(&mut world, node, ReadConsistency::Strong)
            );
            assert_eq!(world.lane(node).statistics().replicas_quarantined, 1);
        }
        let leader = world.leader();
        let outcome = world.call(leader, write(100, &put("after", "1"), WriteConsistency::Hopeful, 0));
        assert!(
            matches!(&outcome, LocalOutcome::Refused(refusal) if refusal.code.as_str() == "Quarantined"),
            "{outcome:?}"
        );
        other_takes_a_write(&mut world, 1);
    }
}

#[test]
pub fn a_quarantine_outlives_restarts_and_ends_by_a_skip() {
    let mut world = two_clusters();
    let index = poison(&mut world, "poison: panic");
    for node in [1, 2, 3, 1] {
        world.kill(node);
        world.run(50);
        world.start(NodeId(node));
        world.run(500);
    }
    world.run(2_500);
    assert_eq!(quarantined(&world), [1, 2, 3]);
    other_takes_a_write(&mut world, 1);
    assert!(matches!(skip(&mut world, LogIndex(index.0 - 1)), LocalOutcome::Refused(_)));
    let outcome = skip(&mut world, index);
    assert!(matches!(outcome, LocalOutcome::AdminDone { .. }), "{outcome:?}");
    world.run(500);
    assert!(quarantined(&world).is_empty());
    world.put("after", "1");
    assert_eq!(world.get(1, "poisoned", ReadConsistency::Eventual), None);
    assert_eq!(world.get(2, "before", ReadConsistency::Eventual).as_deref(), Some("1"));
    world.run(500);
    world.assert_equal(3);
    // Nobody waits there again.
    world.kill(2);
    world.start(NodeId(2));
    world.run(1_000);
    assert!(quarantined(&world).is_empty());
    world.assert_equal(3);
}

#[test]
fn a_member_that_was_away_skips_what_the_others_skipped() {
    let mut world = two_clusters();
    let away = world.leader() % 3 + 1;
    world.kill(away);
    let index = poison(&mut world, "poison: corrupt");
    let outcome = skip(&mut world, index);
    assert!(matches!(outcome, LocalOutcome::AdminDone { .. }), "{outcome:?}");
    (0..40).for_each(|number| world.put(&format!("k{number}"), "v"));
    world.start(NodeId(away));
    world.run(3_000);
    assert!(quarantined(&world).is_empty());
    world.assert_equal(3);
    assert_eq!((1..=3).map(|node| world.lane(node).statistics().entries_skipped).sum::<u64>(), 3);
}

#[test]
fn nobody_skips_an_entry_without_a_majority_that_waits_at_it() {
    let mut world = two_clusters();
    let leader = world.leader();
    assert!(
        matches!(skip(&mut world, LogIndex(5)), LocalOutcome::Refused(refusal) if refusal.code.as_str() == "NotQuarantined")
    );
    let index = poison(&mut world, "poison: panic");
    // The others are not heard of for longer than a report counts.
    world.lost = |payload| matches!(payload, crate::wire::Payload::Stuck { .. });
    world.run(6_000);
    let outcome = skip(&mut world, index);
    assert!(
        matches!(&outcome, LocalOutcome::Refused(refusal) if refusal.code.as_str() == "QuorumAtRisk"),
        "{outcome:?}"
    );
    assert!(quarantined(&world).contains(&leader));
}
