//! What is held back is released by the batch that holds it, not by an earlier one.

use super::*;
use base_types::{LogIndex, Term, Tick};
use bytes::Bytes;
use core_log::testing::{tell, DiskEvent, TestDisk};
use core_log::{Log, LogConfig, LogEntry};

const SEGMENT_BYTES: u64 = 16 << 20;

fn formed(cluster: u64) -> Deferred {
    Deferred::Formed(ClusterId(cluster))
}

#[test]
fn an_earlier_batch_releases_nothing() {
    let mut queue = DurableQueue::default();
    queue.stage(ClusterId(1), BatchNumber(8));
    assert_eq!(queue.hold(ClusterId(1), formed(1)), None);
    assert!(queue.on_durable(BatchNumber(7)).is_empty(), "that batch left before");
    assert_eq!(queue.on_durable(BatchNumber(8)), vec![formed(1)]);
    assert!(queue.on_durable(BatchNumber(9)).is_empty());
}

#[test]
fn a_repeated_order_waits_for_the_same_batch() {
    let mut queue = DurableQueue::default();
    queue.stage(ClusterId(1), BatchNumber(8));
    assert_eq!(queue.hold(ClusterId(1), formed(1)), None, "it is there, but not durable");
    assert_eq!(queue.hold(ClusterId(2), formed(1)), Some(formed(1)), "nothing is staged for that one");
    assert_eq!(queue.on_durable(BatchNumber(8)), vec![formed(1)]);
    assert_eq!(queue.hold(ClusterId(1), formed(1)), Some(formed(1)));
}

#[test]
fn a_record_behind_a_backlog_is_told_once_durable() {
    let config = LogConfig { segment_bytes: SEGMENT_BYTES, ..LogConfig::default() };
    let mut disk = TestDisk::new(SEGMENT_BYTES);
    let (mut log, _) = Log::recover(&mut disk, config, 7).unwrap();
    let mut queue = DurableQueue::default();
    // Five MiB of another cluster wait for a slow disk.
    for index in 1..=10 {
        let data = vec![0; 512 << 10].into();
        let entry = LogEntry { term: Term(1), index: LogIndex(index), kind: 0, data, context: Bytes::new() };
        log.append(ClusterId(9), &[entry]);
    }
    log.put_state(ClusterId(1), 2, Bytes::from_static(b"a replica is made"));
    let holds = log.staged();
    queue.stage(ClusterId(1), holds);
    assert_eq!(queue.hold(ClusterId(1), formed(1)), None);
    let (mut writes, mut released) = (0, Vec::new());
    for round in 0..40 {
        log.poll(Tick(round)).into_iter().for_each(|action| disk.start(action));
        while let Some(event) = disk.finish() {
            let written = matches!(event, DiskEvent::Written(_));
            tell(&mut log, event);
            if written {
                writes += 1;
                released.extend(queue.on_durable(log.synced()).into_iter().map(|_| log.synced()));
            }
        }
    }
    assert!(writes > 2, "there was a backlog: {writes} writes");
    assert!(released.len() == 1 && released[0] >= holds, "held by {holds:?}, told at {released:?}");
}

/// cargo test -p core-node --features mutants --lib -- --ignored
#[cfg(feature = "mutants")]
#[test]
#[ignore = "plants a bug for the whole process"]
fn the_planted_bug_is_noticed() {
    use base_types::mutant::plant;
    plant(Mutant::DurableToldEarly);
    let noticed = std::panic::catch_unwind(a_record_behind_a_backlog_is_told_once_durable).is_err();
    plant(Mutant::None);
    assert!(noticed, "DurableToldEarly goes unnoticed");
}
