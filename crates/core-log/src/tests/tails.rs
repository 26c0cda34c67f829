//! Recycling: live tails move, dead segments go, what they held never comes back.

use super::*;
use crate::{BatchNumber, LogAction, SegmentId};
use std::collections::BTreeSet;

const BUSY: ClusterId = ClusterId(100);

/// Fills about `count` segments with entries of the busy cluster, compacting it all the time.
fn churn(disk: &mut TestDisk, log: &mut Log, count: u64) {
    for _ in 0..count * config().segment_bytes / 1500 {
        let index = log.last_index(BUSY).0 + 1;
        log.append(BUSY, &[entry(index, 1, &[index as u8; 1400])]);
        if index > 5 {
            log.compact(BUSY, LogIndex(index - 5), Term(1));
        }
        disk.drive(log, Tick(0));
    }
}

#[test]
fn segments_stay_bounded_and_are_recycled() {
    let mut disk = TestDisk::new(config().segment_bytes);
    let (mut log, _) = open(&mut disk);
    churn(&mut disk, &mut log, 40);
    assert!(log.segments_in_use() <= 3 && disk.files().len() <= 5, "{:?}", disk.files());
    assert!(disk.files()[0] > SegmentId(30));
    let (log, report) = open(&mut disk);
    assert_eq!((report.damage, entries(&log, BUSY).len()), (vec![], 5));
}

#[test]
pub fn idle_clusters_do_not_keep_old_segments() {
    let mut disk = TestDisk::new(config().segment_bytes);
    let (mut log, _) = open(&mut disk);
    for id in 1..=20 {
        let cluster = ClusterId(id);
        log.put_state(cluster, 0, Bytes::from(vec![id as u8; 40]));
        log.put_state(cluster, 1, Bytes::from_static(b"specification"));
        log.compact(cluster, LogIndex(10 * id), Term(2));
        log.append(cluster, &(1..4).map(|at| entry(10 * id + at, 2 + at, &[at as u8; 50])).collect::<Vec<_>>());
    }
    churn(&mut disk, &mut log, 30);
    assert!(log.segments_in_use() <= 5, "{} segments", log.segments_in_use());
    assert!(log.statistics().bytes_moved > 0);
    let (mut log, report) = open(&mut disk);
    assert_eq!(report.damage, vec![]);
    for id in 1..=20 {
        let cluster = ClusterId(id);
        assert_eq!(log.state(cluster, 0).unwrap(), vec![id as u8; 40]);
        assert_eq!(log.state(cluster, 1).unwrap(), "specification");
        assert_eq!(log.term(cluster, LogIndex(10 * id)), Some(Term(2)));
        let expected =
            (1..4).map(|at| (10 * id + at, Some(entry(10 * id + at, 2 + at, &[at as u8; 50])))).collect::<Vec<_>>();
        assert_eq!(entries(&log, cluster), expected);
    }
    // Moved entries are truncated and compacted like any other.
    log.append(ClusterId(1), &[entry(12, 9, b"new")]);
    log.compact(ClusterId(2), LogIndex(22), Term(4));
    churn(&mut disk, &mut log, 10);
    let (log, _) = open(&mut disk);
    assert_eq!((log.last_index(ClusterId(1)).0, log.term(ClusterId(1), LogIndex(12))), (12, Some(Term(9))));
    assert_eq!((log.first_index(ClusterId(2)).0, log.last_index(ClusterId(2)).0), (23, 23));
}

#[test]
fn a_forgotten_cluster_stays_forgotten() {
    let mut disk = TestDisk::new(config().segment_bytes);
    let (mut log, _) = open(&mut disk);
    let gone = ClusterId(5);
    log.append(gone, &[entry(1, 1, b"x")]);
    log.put_state(gone, 0, Bytes::from_static(b"vote"));
    churn(&mut disk, &mut log, 1);
    log.forget(gone);
    for _ in 0..12 {
        churn(&mut disk, &mut log, 1);
        let (again, report) = open(&mut disk.clone());
        assert_eq!((again.clusters(), report.damage), (vec![BUSY], vec![]));
    }
}

#[test]
fn large_tails_are_named_and_moved_only_when_pressed() {
    let mut disk = TestDisk::new(256 << 10);
    let config = LogConfig { segment_bytes: 256 << 10, batch_bytes_max: 32 << 10, ..config() };
    let (mut log, _) = Log::recover(&mut disk, config.clone(), IDENTITY).unwrap();
    let large = ClusterId(1);
    log.append(large, &(1..=80).map(|index| entry(index, 1, &[9; 2000])).collect::<Vec<_>>());
    disk.drive(&mut log, Tick(0));
    let mut named = BTreeSet::new();
    let mut most = 0;
    for _ in 0..2000 {
        let index = log.last_index(BUSY).0 + 1;
        log.append(BUSY, &[entry(index, 1, &[index as u8; 3000])]);
        if index > 5 {
            log.compact(BUSY, LogIndex(index - 5), Term(1));
        }
        disk.drive(&mut log, Tick(0));
        named.extend(log.wants_compaction());
        most = most.max(log.segments_in_use());
    }
    assert_eq!(named, BTreeSet::from([large]));
    assert!((4..=8).contains(&most), "at most about twice the bound: {most}");
    let (mut log, report) = Log::recover(&mut disk, config, IDENTITY).unwrap();
    assert_eq!((report.damage, entries(&log, large).len(), log.bytes(large)), (vec![], 80, 160_000));
    log.compact(large, LogIndex(80), Term(1));
    assert_eq!(log.wants_compaction(), vec![]);
}

#[test]
fn a_log_full_of_live_records_is_not_moved_round_and_round() {
    let mut disk = TestDisk::new(config().segment_bytes);
    let (mut log, _) = open(&mut disk);
    for id in 1..=200 {
        log.append(ClusterId(id), &[entry(1, 1, &[7; 1800])]);
        disk.drive(&mut log, Tick(0));
    }
    assert!(log.segments_in_use() > 6, "nothing can go");
    let before = log.statistics();
    disk.drive(&mut log, Tick(1));
    assert_eq!(log.statistics(), before, "an idle log writes nothing");
    assert!(!log.wants_compaction().is_empty());
}

#[test]
fn a_segment_goes_only_after_the_batch_that_lets_it_go_is_durable() {
    let mut disk = TestDisk::new(config().segment_bytes);
    let (mut log, _) = open(&mut disk);
    churn(&mut disk, &mut log, 2);
    // The first segment is dead now. Whatever is handed out, no action touches it before a write is done.
    let first = disk.files()[0];
    log.compact(BUSY, log.last_index(BUSY), Term(1));
    let actions = log.poll(Tick(0));
    let touches = |action: &LogAction| match action {
        LogAction::Prepare { recycle, .. } => *recycle == Some(first),
        LogAction::Remove { segment } => *segment == first,
        LogAction::Write { .. } => false,
    };
    assert!(actions.iter().any(|action| matches!(action, LogAction::Write { .. })) && !actions.iter().any(touches));
}

#[test]
pub fn an_earlier_life_of_a_segment_is_never_read() {
    // Every block of the recycled segments is still full of sound batches of their earlier life.
    let mut disk = TestDisk::new(config().segment_bytes);
    let (mut log, _) = open(&mut disk);
    churn(&mut disk, &mut log, 12);
    let mut last = log.last_index(BUSY).0;
    for round in 0..40 {
        let (reopened, report) = open(&mut disk);
        log = reopened;
        assert_eq!((report.damage, report.torn_tail), (vec![], false), "round {round}");
        assert_eq!(log.last_index(BUSY).0, last);
        last += 1;
        log.append(BUSY, &[entry(last, 1, &[last as u8; 1400])]);
        log.compact(BUSY, LogIndex(last - 5), Term(1));
        disk.drive(&mut log, Tick(0));
        let number = log.synced();
        assert!(number > BatchNumber(0));
    }
}
