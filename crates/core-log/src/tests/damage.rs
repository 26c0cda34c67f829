//! Rot, torn tails, lost and misdirected writes, stale lives of segments: each told from the others.

use super::*;
use crate::{BatchNumber, Damage, SegmentId, BLOCK_BYTES};

const A: ClusterId = ClusterId(1);
const B: ClusterId = ClusterId(2);
const FIRST: SegmentId = SegmentId(1);
const BLOCK: u64 = BLOCK_BYTES as u64;

/// Three batches of one block each (A1, then B1 with A's vote, then A2), sealed.
fn three_batches() -> (TestDisk, Log) {
    let mut disk = TestDisk::new(config().segment_bytes);
    let (mut log, _) = open(&mut disk);
    log.append(A, &[entry(1, 1, &[1; 1500])]);
    disk.drive(&mut log, Tick(0));
    log.append(B, &[entry(1, 4, &[2; 1500])]);
    log.put_state(A, 9, Bytes::from_static(b"vote"));
    disk.drive(&mut log, Tick(0));
    log.append(A, &[entry(2, 2, &[3; 1500])]);
    disk.drive(&mut log, Tick(0));
    idle(&mut disk, &mut log);
    assert_eq!(log.synced(), BatchNumber(4));
    (disk, log)
}

fn lost(cluster: ClusterId, index: u64, term: u64) -> Damage {
    Damage::Entry { cluster, index: LogIndex(index), term: Some(Term(term)) }
}

#[test]
pub fn a_rotted_payload_is_a_hole_with_its_term_and_can_be_filled() {
    let (mut disk, _) = three_batches();
    disk.rot(FIRST, BLOCK + 104 + 56 + 700, 3);
    let (mut log, report) = open(&mut disk);
    assert_eq!((&report.damage[..], report.torn_tail), (&[lost(B, 1, 4)][..], false));
    assert_eq!(log.state(A, 9).unwrap(), "vote");
    assert_eq!(entries(&log, B), vec![(1, None)]);
    assert_eq!(log.holes(B), vec![(LogIndex(1), Some(Term(4)))]);
    assert_eq!((log.term(B, LogIndex(1)), log.entries(B, LogIndex(1), LogIndex(2), 99)), (None, None));
    assert!(!log.fill(B, entry(1, 5, b"another term's")) && !log.fill(A, entry(1, 1, b"no hole")));
    assert!(log.fill(B, entry(1, 4, &[2; 1500])));
    assert_eq!(log.holes(B), vec![]);
    idle(&mut disk, &mut log);
    let (log, report) = open(&mut disk);
    assert_eq!((report.damage, log.entry(B, LogIndex(1)).unwrap()), (vec![], entry(1, 4, &[2; 1500])));
}

#[test]
fn a_rotted_batch_header_takes_nothing_with_it() {
    for (batch, at) in [(0, 8), (1, 40), (2, 90)] {
        let (mut disk, _) = three_batches();
        disk.rot(FIRST, batch * BLOCK + at, 1);
        let (log, report) = open(&mut disk);
        assert_eq!((report.damage, report.torn_tail), (vec![], false), "batch {batch}: {:?}", report.notes);
        assert_eq!((log.last_index(A).0, log.last_index(B).0, log.synced()), (2, 1, BatchNumber(4)));
    }
}

#[test]
fn a_rotted_record_header_takes_nothing_with_it() {
    let (mut disk, _) = three_batches();
    disk.rot(FIRST, BLOCK + 104 + 20, 1);
    let (log, report) = open(&mut disk);
    assert_eq!((report.damage, log.entry(B, LogIndex(1))), (vec![], Some(entry(1, 4, &[2; 1500]))));
}

#[test]
fn a_state_outlives_its_sector() {
    let (mut disk, _) = three_batches();
    // The vote stands behind B's entry.
    disk.rot_sector(FIRST, BLOCK + 104 + 56 + 1504 + 56);
    let (mut log, report) = open(&mut disk);
    assert_eq!(log.state(A, 9).unwrap(), "vote");
    assert!(report.damage.iter().all(|damage| *damage == lost(B, 1, 4)));
    // What has one copy left is written again at once: the other may go too.
    idle(&mut disk, &mut log);
    for sector in 0..8 {
        disk.rot_sector(FIRST, 2 * BLOCK + sector * 512);
    }
    assert_eq!(open(&mut disk).0.state(A, 9).unwrap(), "vote");
}

#[test]
fn a_state_lost_in_every_copy_is_named() {
    let (mut disk, _) = three_batches();
    for sector in 0..16 {
        disk.rot_sector(FIRST, BLOCK + sector * 512);
    }
    let (log, report) = open(&mut disk);
    assert_eq!(log.state(A, 9), None);
    // Both batches' headers are gone, so nobody can say what the first of them held.
    assert!(report.damage.contains(&Damage::Unknown { clusters: vec![A] }), "{report:?}");
    assert!(report.damage.contains(&lost(A, 2, 2)));
}

#[test]
fn rot_of_a_whole_batch_and_of_the_last_before_the_seal() {
    for batch in 0..3 {
        let (mut disk, _) = three_batches();
        for sector in 0..8 {
            disk.rot_sector(FIRST, batch * BLOCK + sector * 512);
        }
        let (log, report) = open(&mut disk);
        let expected = [vec![lost(A, 1, 1)], vec![lost(B, 1, 4)], vec![lost(A, 2, 2)]];
        assert_eq!(report.damage, expected[batch as usize], "{:?}", report.notes);
        assert_eq!((log.last_index(A).0, log.last_index(B).0), (2, 1));
        assert_eq!(log.state(A, 9).unwrap(), "vote");
    }
}

#[test]
pub fn a_torn_tail_is_cut_and_the_log_goes_on_after_it() {
    let mut disk = TestDisk::new(config().segment_bytes);
    let (mut log, _) = open(&mut disk);
    log.append(A, &[entry(1, 1, &[1; 100])]);
    disk.drive(&mut log, Tick(0));
    log.append(A, &[entry(2, 1, &[2; 3500])]);
    log.poll(Tick(0)).into_iter().for_each(|action| disk.start(action));
    // Only the first sector arrives.
    let mut sector = 0;
    disk.crash(&mut |bound| {
        sector += 1;
        if sector == 1 {
            2
        } else {
            u64::from(sector != 2) % bound
        }
    });
    let (mut log, report) = open(&mut disk);
    assert_eq!((report.torn_tail, &report.damage[..]), (true, &[][..]));
    assert_eq!((log.last_index(A).0, log.synced()), (1, BatchNumber(1)));
    log.append(A, &[entry(2, 2, b"instead")]);
    idle(&mut disk, &mut log);
    let (log, report) = open(&mut disk);
    assert_eq!(
        (report.torn_tail, report.damage, log.entry(A, LogIndex(2))),
        (false, vec![], Some(entry(2, 2, b"instead")))
    );
}

/// Batch 2 lacks its last sector when the node ends, and is cut off. Another batch 2 brings the same sector, and nothing else,
/// before the node ends again.
#[test]
pub fn what_was_cut_off_never_comes_back() {
    let mut disk = TestDisk::new(config().segment_bytes);
    let (mut log, _) = open(&mut disk);
    log.append(A, &[entry(1, 1, &[1; 100])]);
    disk.drive(&mut log, Tick(0));
    let payload = |first: u8| [&[first][..], &[5; 3_500]].concat();
    let tear = |disk: &mut TestDisk, log: &mut Log, last: bool, first: u8| {
        log.append(A, &[entry(2, 1, &payload(first))]);
        log.poll(Tick(0)).into_iter().for_each(|action| disk.start(action));
        let mut calls = 0;
        // First the kind of tear (of each sector by itself), then each of the eight sectors.
        disk.crash(&mut |_| {
            calls += 1;
            if calls == 1 {
                2
            } else {
                u64::from((calls == 9) != last)
            }
        });
    };
    tear(&mut disk, &mut log, false, 7);
    let (mut log, report) = open(&mut disk);
    assert_eq!((report.torn_tail, log.last_index(A).0), (true, 1), "{:?}", report.notes);
    tear(&mut disk, &mut log, true, 8);
    let (mut log, report) = open(&mut disk);
    assert_eq!((log.last_index(A).0, &report.damage[..]), (1, &[][..]), "{:?}", report.notes);
    log.append(A, &[entry(2, 3, &payload(9))]);
    disk.drive(&mut log, Tick(0));
    let (_, report) = open(&mut disk);
    assert_eq!((report.torn_tail, &report.damage[..]), (false, &[][..]), "{:?}", report.notes);
    // And the batch that counts is distinguished from those that do not where it rots later.
    log.append(A, &[entry(3, 3, b"x")]);
    disk.drive(&mut log, Tick(0));
    idle(&mut disk, &mut log);
    for sector in 0..8 {
        disk.rot_sector(FIRST, 2 * BLOCK + sector * 512);
    }
    let (log, report) = open(&mut disk);
    assert_eq!((&report.damage[..], log.last_index(A).0), (&[lost(A, 2, 3)][..], 3), "{:?}", report.notes);
}

#[test]
fn a_torn_tail_that_was_cut_off_in_a_full_segment_is_no_rot() {
    let mut disk = TestDisk::new(config().segment_bytes);
    let (mut log, _) = open(&mut disk);
    log.append(A, &(1..=14).map(|index| entry(index, 1, &[1; 1800])).collect::<Vec<_>>());
    disk.drive(&mut log, Tick(0));
    assert_eq!(log.segments_in_use(), 1);
    log.append(A, &[entry(15, 1, &[2; 300])]);
    log.poll(Tick(0)).into_iter().for_each(|action| disk.start(action));
    let mut calls = 0;
    disk.crash(&mut |_| {
        calls += 1;
        if calls == 1 {
            2
        } else {
            u64::from(calls != 2)
        }
    });
    let (mut log, report) = open(&mut disk);
    assert!(report.torn_tail);
    log.append(A, &[entry(15, 2, &[3; 9000])]);
    idle(&mut disk, &mut log);
    assert_eq!(log.segments_in_use(), 2, "the batch went to the next segment");
    let (log, report) = open(&mut disk);
    assert_eq!((report.damage, report.torn_tail, log.term(A, LogIndex(15))), (vec![], false, Some(Term(2))));
}

#[test]
fn a_lost_write_is_named_from_the_next_batch() {
    let mut disk = TestDisk::new(config().segment_bytes);
    let (mut log, _) = open(&mut disk);
    log.append(A, &[entry(1, 1, b"a")]);
    disk.drive(&mut log, Tick(0));
    log.append(A, &[entry(2, 1, b"b")]);
    log.append(B, &[entry(1, 3, b"c")]);
    log.put_state(B, 0, Bytes::from_static(b"vote"));
    disk.lose_next = true;
    disk.drive(&mut log, Tick(0));
    idle(&mut disk, &mut log);
    let (log, report) = open(&mut disk);
    assert_eq!(report.damage, vec![lost(A, 2, 1), lost(B, 1, 3)]);
    assert_eq!(log.state(B, 0).unwrap(), "vote");
}

#[test]
pub fn a_misdirected_write_is_seen_at_both_ends() {
    let (mut disk, mut log) = three_batches();
    log.append(A, &[entry(3, 2, b"astray")]);
    disk.misdirect_next = Some((FIRST, BLOCK));
    disk.drive(&mut log, Tick(0));
    disk.drive(&mut log, Tick::from_millis(5_000_000));
    let (log, report) = open(&mut disk);
    assert_eq!(report.damage, vec![lost(A, 3, 2), lost(B, 1, 4)], "{:?}", report.notes);
    assert_eq!(log.state(A, 9).unwrap(), "vote");
}

#[test]
fn unreadable_sectors_are_rot() {
    let (mut disk, _) = three_batches();
    disk.unreadable.insert(FIRST, vec![1]);
    let (log, report) = open(&mut disk);
    assert_eq!((report.damage, log.last_index(A).0), (vec![lost(B, 1, 4)], 2));
    assert!(report.notes.iter().any(|note| note.contains("cannot be read")));
}

#[test]
fn a_lost_segment_file_is_not_passed_over() {
    let mut disk = TestDisk::new(config().segment_bytes);
    let (mut log, _) = open(&mut disk);
    log.append(A, &(1..=40).map(|index| entry(index, 1, &[1; 1800])).collect::<Vec<_>>());
    idle(&mut disk, &mut log);
    assert!(log.segments_in_use() >= 3);
    disk.lose_file(SegmentId(2));
    let (mut log, report) = open(&mut disk);
    assert!(report.damage.contains(&Damage::Unknown { clusters: vec![A] }));
    assert!(!log.holes(A).is_empty() && log.last_index(A).0 == 40);
    assert!(report.notes.iter().any(|note| note.contains("[2] are missing")));
    // The missing file is never handed to the host for recycling.
    log.compact(A, LogIndex(40), Term(1));
    idle(&mut disk, &mut log);
    assert_eq!(open(&mut disk).1.damage, vec![]);
}

/// Three batches, the last not followed by anything.
fn unsealed() -> TestDisk {
    let mut disk = TestDisk::new(config().segment_bytes);
    let (mut log, _) = open(&mut disk);
    log.append(A, &[entry(1, 1, &[1; 1500])]);
    disk.drive(&mut log, Tick(0));
    log.append(B, &[entry(1, 4, &[2; 1500])]);
    disk.drive(&mut log, Tick(0));
    log.append(A, &[entry(2, 2, &[3; 1500])]);
    log.put_state(A, 9, Bytes::from_static(b"vote"));
    disk.drive(&mut log, Tick(0));
    assert_eq!(log.synced(), BatchNumber(3));
    disk
}

#[test]
pub fn rot_of_the_last_batch_is_no_torn_tail() {
    for bit in 0..8 {
        let mut disk = unsealed();
        disk.rot(FIRST, 2 * BLOCK + 104 + 56 + 700, bit);
        let (mut log, report) = open(&mut disk);
        assert_eq!((&report.damage[..], report.torn_tail), (&[lost(A, 2, 2)][..], false), "{:?}", report.notes);
        assert!(report.notes[0].contains("log segment 1, offset 8192: rot in batch 3, the last one"));
        assert_eq!((log.synced(), log.state(A, 9).unwrap()), (BatchNumber(3), Bytes::from_static(b"vote")));
        // What is written next may be torn: the batch is read again as it was.
        log.append(B, &[entry(2, 4, &[4; 3000])]);
        log.poll(Tick(0)).into_iter().for_each(|action| disk.start(action));
        let mut calls = 0;
        disk.crash(&mut |_| {
            calls += 1;
            // A subset: the first sector alone.
            if calls == 1 {
                2
            } else {
                u64::from(calls != 2)
            }
        });
        let (mut log, report) = open(&mut disk);
        assert_eq!((&report.damage[..], report.torn_tail), (&[lost(A, 2, 2)][..], true), "{:?}", report.notes);
        assert_eq!(log.state(A, 9).unwrap(), "vote");
        assert!(log.fill(A, entry(2, 2, &[3; 1500])));
        idle(&mut disk, &mut log);
        let (log, report) = open(&mut disk);
        assert_eq!((report.damage, report.torn_tail, log.last_index(B).0), (vec![], false, 1));
        assert_eq!(log.entry(A, LogIndex(2)), Some(entry(2, 2, &[3; 1500])));
    }
}

#[test]
fn a_rotted_record_header_in_the_last_batch_leaves_nobody_sound() {
    let mut disk = unsealed();
    disk.rot(FIRST, 2 * BLOCK + 104 + 8, 1);
    let (_, report) = open(&mut disk);
    assert!(!report.torn_tail);
    assert!(matches!(&report.damage[..], [Damage::Unknown { clusters }] if *clusters == [A, B]), "{report:?}");
}

#[test]
fn what_is_cut_from_a_used_segment_is_reported_with_the_doubt() {
    let mut disk = unsealed();
    // A life of the segment that nobody remembers: what stood behind the batches is not known.
    let (mut log, _) = open(&mut disk);
    log.append(B, &(2..=30).map(|index| entry(index, 4, &[5; 3000])).collect::<Vec<_>>());
    disk.drive(&mut log, Tick(0));
    let segments = disk.files();
    let (mut log, _) = open(&mut disk);
    log.append(B, &[entry(31, 4, &[6; 1500])]);
    disk.drive(&mut log, Tick(0));
    // Until a batch stands in a segment that was ready before the restart.
    let mut index = 31;
    while disk.files().last() == segments.last() {
        index += 1;
        log.append(B, &[entry(index, 4, &[7; 3000])]);
        disk.drive(&mut log, Tick(0));
    }
    let last = *segments.last().unwrap();
    assert_eq!(disk.written(last), BLOCK);
    disk.rot(last, 104 + 56 + 700, 3);
    let (log, report) = open(&mut disk);
    assert!(report.torn_tail && report.damage.is_empty(), "{report:?}");
    assert_eq!((report.cut_records, report.cut_bytes, log.last_index(B).0), (1, BLOCK, index - 1));
    assert!(report.notes[0].contains("1 records in 4096 bytes are cut off"), "{:?}", report.notes);
    assert!(report.notes[0].contains("that cannot be told"), "{:?}", report.notes);
}
