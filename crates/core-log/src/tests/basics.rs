//! What each call does, and when it counts.

use super::*;
use crate::{fuzz_record, fuzz_recover, BatchNumber, LogAction, LogError, SegmentId, BLOCK_BYTES};

const C: ClusterId = ClusterId(7);

fn fresh() -> (TestDisk, Log) {
    let mut disk = TestDisk::new(config().segment_bytes);
    let (log, _) = open(&mut disk);
    (disk, log)
}

#[test]
fn entries_states_and_bounds() {
    let (_, mut log) = fresh();
    assert_eq!((log.first_index(C).0, log.last_index(C).0, log.term(C, LogIndex(0))), (1, 0, Some(Term(0))));
    log.append(C, &[entry(1, 1, b"a"), entry(2, 1, b"bb"), entry(3, 2, b"ccc")]);
    assert_eq!(log.bytes(C), 6);
    log.append(C, &[entry(3, 3, b"d")]);
    assert_eq!((log.last_index(C).0, log.term(C, LogIndex(3)), log.bytes(C)), (3, Some(Term(3)), 4));
    log.append(C, &[entry(2, 4, b"e")]);
    assert_eq!((log.last_index(C).0, log.term(C, LogIndex(3))), (2, None));
    log.put_state(C, 1, Bytes::from_static(b"one"));
    log.put_state(C, 1, Bytes::from_static(b"two"));
    assert_eq!((log.state(C, 1), log.state(C, 2)), (Some(Bytes::from_static(b"two")), None));
    log.compact(C, LogIndex(1), Term(1));
    assert_eq!((log.first_index(C).0, log.term(C, LogIndex(1)), log.entry(C, LogIndex(1))), (2, Some(Term(1)), None));
    log.compact(C, LogIndex(10), Term(5));
    assert_eq!((log.first_index(C).0, log.last_index(C).0, log.term(C, LogIndex(10))), (11, 10, Some(Term(5))));
    log.append(C, &[entry(11, 5, b"")]);
    log.forget(C);
    assert_eq!((log.clusters(), log.state(C, 1), log.last_index(C).0), (vec![], None, 0));
}

#[test]
fn a_snapshot_that_contradicts_the_log_replaces_all_of_it() {
    let (mut disk, mut log) = fresh();
    log.append(C, &[entry(1, 1, b"a"), entry(2, 1, b"b"), entry(3, 1, b"c")]);
    log.compact(C, LogIndex(2), Term(2));
    assert_eq!((log.first_index(C).0, log.last_index(C).0, log.term(C, LogIndex(2))), (3, 2, Some(Term(2))));
    idle(&mut disk, &mut log);
    let (log, _) = open(&mut disk);
    assert_eq!((log.first_index(C).0, log.last_index(C).0), (3, 2));
}

#[test]
fn reads_end_at_their_bound_and_never_skip() {
    let (_, mut log) = fresh();
    log.append(C, &(1..=4).map(|index| entry(index, 1, &[0; 10])).collect::<Vec<_>>());
    let count = |low, high, most| log.entries(C, LogIndex(low), LogIndex(high), most).map(|entries| entries.len());
    assert_eq!(
        (count(1, 5, 1000), count(1, 5, 25), count(1, 5, 0), count(2, 2, 0)),
        (Some(4), Some(2), Some(1), Some(0))
    );
    assert_eq!((count(1, 6, 1000), count(0, 2, 1000)), (None, None));
}

#[test]
fn one_write_at_a_time_and_the_rest_leaves_with_the_next() {
    let (mut disk, mut log) = fresh();
    disk.drive(&mut log, Tick(0));
    log.append(C, &[entry(1, 1, b"a")]);
    assert_eq!((log.staged(), log.synced(), log.has_staged()), (BatchNumber(1), BatchNumber(0), true));
    let [LogAction::Write { batch, segment, offset, blocks }, LogAction::Prepare { .. }] = &log.poll(Tick(0))[..]
    else {
        panic!()
    };
    assert_eq!((*batch, *segment, *offset, blocks.len()), (BatchNumber(1), SegmentId(1), 0, BLOCK_BYTES));
    log.append(C, &[entry(2, 1, b"b")]);
    log.append(C, &[entry(3, 1, b"c")]);
    assert_eq!((log.staged(), log.poll(Tick(0))), (BatchNumber(2), vec![]));
    log.on_written(BatchNumber(1));
    assert_eq!(log.synced(), BatchNumber(1));
    let [LogAction::Write { batch, offset, .. }] = &log.poll(Tick(0))[..] else { panic!() };
    assert_eq!((*batch, *offset), (BatchNumber(2), BLOCK_BYTES as u64));
    log.on_written(BatchNumber(2));
    assert_eq!((log.has_staged(), log.staged(), log.synced()), (false, BatchNumber(2), BatchNumber(2)));
}

#[test]
fn more_than_a_batch_takes_several_and_staged_names_the_last() {
    let (mut disk, mut log) = fresh();
    log.append(C, &(1..=10).map(|index| entry(index, 1, &[1; 1000])).collect::<Vec<_>>());
    let staged = log.staged();
    assert!(staged >= BatchNumber(3));
    disk.drive(&mut log, Tick(0));
    assert_eq!(log.synced(), staged);
    let (log, _) = open(&mut disk);
    assert_eq!(log.last_index(C).0, 10);
}

#[test]
fn the_largest_entry_and_state_fit_and_come_back() {
    let (mut disk, mut log) = fresh();
    let (data, state) = (vec![5; log.entry_bytes_max()], vec![6; log.state_bytes_max()]);
    for index in 1..4 {
        log.put_state(C, index as u8, Bytes::from(state.clone()));
        log.append(C, &[entry(index, 1, &data)]);
    }
    disk.drive(&mut log, Tick(0));
    let (log, report) = open(&mut disk);
    assert_eq!((report.damage, log.bytes(C)), (vec![], 3 * data.len() as u64));
    assert_eq!(log.state(C, 3).unwrap(), state);
}

#[test]
fn an_idle_log_is_sealed_once() {
    let (mut disk, mut log) = fresh();
    assert_eq!(log.next_wake(), Tick::NEVER, "an empty log has nothing to seal");
    log.append(C, &[entry(1, 1, b"a")]);
    disk.drive(&mut log, Tick::from_millis(1000));
    assert_eq!((log.synced(), log.next_wake()), (BatchNumber(1), Tick::from_millis(1200)));
    assert_eq!(log.poll(Tick::from_millis(1199)), vec![]);
    disk.drive(&mut log, Tick::from_millis(1200));
    assert_eq!((log.synced(), log.next_wake()), (BatchNumber(2), Tick::NEVER));
    let (log, _) = open(&mut disk);
    assert_eq!((log.synced(), log.next_wake()), (BatchNumber(2), Tick::NEVER));
}

#[test]
pub fn a_failed_write_ends_everything() {
    let (mut disk, mut log) = fresh();
    disk.drive(&mut log, Tick(0));
    log.append(C, &[entry(1, 1, b"a")]);
    log.poll(Tick(0)).into_iter().for_each(|action| disk.start(action));
    disk.fail_next = true;
    finish_one(&mut disk, &mut log);
    assert!(log.failed());
    log.append(C, &[entry(2, 1, b"b")]);
    assert_eq!((log.poll(Tick(9)), log.synced(), log.next_wake()), (vec![], BatchNumber(0), Tick::NEVER));
    log.on_written(BatchNumber(1));
    assert_eq!(log.synced(), BatchNumber(0), "nothing is acknowledged any more");
}

#[test]
fn a_full_disk_starves_the_log_until_there_is_room() {
    let (mut disk, mut log) = fresh();
    disk.files_max = 1;
    let mut index = 0;
    while !log.is_starved() {
        index += 1;
        log.append(C, &[entry(index, 1, &[3; 2000])]);
        disk.drive(&mut log, Tick(0));
        assert!(index < 100);
    }
    assert!(log.prepare_failed() && log.staged_bytes() > 2000 && log.synced() < log.staged());
    assert_eq!(log.poll(Tick(0)), vec![], "tried again only after a while");
    disk.files_max = 0;
    let wake = log.next_wake();
    disk.drive(&mut log, wake);
    assert!(!log.is_starved() && !log.prepare_failed());
    assert_eq!(log.synced(), log.staged());
}

#[test]
fn another_logs_segments_are_refused_and_a_newer_formats() {
    let (mut disk, mut log) = fresh();
    log.append(C, &[entry(1, 1, b"a")]);
    disk.drive(&mut log, Tick(0));
    let refused = Log::recover(&mut disk.clone(), config(), IDENTITY + 1).err().unwrap();
    assert!(matches!(refused, LogError::WrongFormat(text) if text.contains("belongs to another log")));
    let mut newer = TestDisk::new(config().segment_bytes);
    newer.start(LogAction::Prepare { segment: SegmentId(1), recycle: None });
    newer.finish();
    let header =
        crate::format::BatchHeader { version: 2, identity: IDENTITY, segment: 1, log_start: 1, ..Default::default() };
    let mut block = vec![0; BLOCK_BYTES];
    header.encode(&mut block);
    newer.start(LogAction::Write {
        batch: BatchNumber(1),
        segment: SegmentId(1),
        offset: 0,
        blocks: Bytes::from(block),
    });
    newer.finish();
    let refused = Log::recover(&mut newer, config(), IDENTITY).err().unwrap();
    assert!(
        matches!(refused, LogError::WrongFormat(text) if text.contains("format 2, this build reads format 1: start the build that wrote it"))
    );
    let tiny = LogConfig { segment_bytes: 100, ..config() };
    assert!(matches!(Log::recover(&mut disk, tiny, IDENTITY), Err(LogError::WrongFormat(_))));
}

#[test]
fn what_a_newer_build_wrote_after_ours_is_refused_and_not_cut_off() {
    let (mut disk, mut log) = fresh();
    log.append(C, &[entry(1, 1, b"a")]);
    disk.drive(&mut log, Tick(0));
    let refused = |disk: &TestDisk| Log::recover(&mut disk.clone(), config(), IDENTITY).err();
    assert_eq!(refused(&disk), None);
    for (identity, is_refused) in [(IDENTITY, true), (IDENTITY + 1, false)] {
        let offset = 3 * BLOCK_BYTES as u64;
        let header =
            crate::format::BatchHeader { version: 2, identity, segment: 1, offset, log_start: 1, ..Default::default() };
        let mut block = vec![0; BLOCK_BYTES];
        header.encode(&mut block);
        let mut changed = disk.clone();
        changed.start(LogAction::Write {
            batch: BatchNumber(9),
            segment: SegmentId(1),
            offset,
            blocks: Bytes::from(block),
        });
        changed.finish();
        let error = refused(&changed);
        assert_eq!(error.is_some(), is_refused, "{error:?}");
        let says_where = |text: &str| text.contains("offset 12288: format 2");
        assert!(error.is_none_or(|error| matches!(&error, LogError::WrongFormat(text) if says_where(text))));
    }
}

#[test]
fn segments_of_another_size_are_read_and_replaced() {
    let (mut disk, mut log) = fresh();
    log.append(C, &(1..=9).map(|index| entry(index, 1, &[1; 3000])).collect::<Vec<_>>());
    disk.drive(&mut log, Tick(0));
    let half = LogConfig { segment_bytes: config().segment_bytes * 2, ..config() };
    let (mut log, report) = Log::recover(&mut disk, half, IDENTITY).unwrap();
    assert_eq!((report.damage, log.last_index(C).0), (vec![], 9));
    assert!(
        log.poll(Tick(0)).iter().any(|action| matches!(action, LogAction::Remove { .. })),
        "the spare is too small"
    );
}

#[test]
fn any_bytes_are_survived() {
    let (mut disk, mut log) = fresh();
    log.append(C, &(1..=9).map(|index| entry(index, 1, &[1; 300])).collect::<Vec<_>>());
    idle(&mut disk, &mut log);
    let image = disk.image(SegmentId(1)).unwrap().to_vec();
    let mut random = Random(1);
    for _ in 0..200 {
        let mut bytes = image.clone();
        for _ in 0..random.below(20) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.next() as u8;
        }
        bytes.truncate(random.below(bytes.len() as u64) as usize);
        fuzz_recover(&bytes);
        fuzz_record(&bytes[..bytes.len().min(300)]);
    }
}

#[test]
fn headers_with_sound_checksums_and_absurd_fields_are_survived() {
    let extremes = [0, 1, 2, 4095, 4096, u64::MAX, u64::MAX - 1, 1 << 62, (1 << 62) - 1, u64::from(u32::MAX)];
    let mut random = Random(3);
    for _ in 0..20_000 {
        let mut draw = || extremes[random.below(extremes.len() as u64) as usize];
        let header = crate::format::BatchHeader {
            version: 1,
            flags: draw() as u16,
            records: draw() as u32,
            identity: 0,
            segment: 1,
            offset: 0,
            number: draw(),
            previous: draw(),
            log_start: draw() & 1,
            log_start_number: draw(),
            records_bytes: draw() as u32,
            echo_bytes: draw() as u32,
            directory_checksum: draw(),
            echo_checksum: draw(),
            checksum: 0,
        };
        let mut image = vec![0; 8 * BLOCK_BYTES];
        header.encode(&mut image);
        let record = crate::format::RecordHeader {
            kind: crate::format::RecordKind::Reset,
            detail: 0,
            cluster: ClusterId(draw()),
            index: LogIndex(draw()),
            term: Term(draw()),
            payload_checksum: draw(),
            data_bytes: draw() as u32,
            context_bytes: draw() as u32,
        };
        image[104..160].copy_from_slice(&record.encode(crate::format::place(0, 1, 104)));
        fuzz_recover(&image);
        fuzz_record(&image[104..]);
    }
}

#[test]
fn hints_go_with_the_next_batch_and_make_none() {
    let (mut disk, mut log) = fresh();
    const D: ClusterId = ClusterId(8);
    log.append(C, &[entry(1, 1, b"a")]);
    log.put_state(C, 1, Bytes::from_static(b"old"));
    disk.drive(&mut log, Tick(0));
    let batches = log.synced();
    log.hint_state(C, 1, Bytes::from_static(b"new"));
    assert_eq!((log.has_staged(), log.poll(Tick(0))), (false, vec![]), "a hint alone is no reason to write");
    assert_eq!(open(&mut disk).0.state(C, 1).unwrap(), &b"old"[..]);
    // Another cluster's entry takes it along. A hint of a cluster that is gone makes none of it.
    log.hint_state(ClusterId(9), 1, Bytes::from_static(b"gone"));
    log.append(D, &[entry(1, 1, b"b")]);
    disk.drive(&mut log, Tick(0));
    assert_eq!(log.synced().0, batches.0 + 1);
    let (found, _) = open(&mut disk);
    assert_eq!((found.state(C, 1).unwrap(), found.clusters()), (Bytes::from_static(b"new"), vec![C, D]));
    // What is put later counts, and nothing of a cluster that was forgotten comes back.
    log.hint_state(C, 1, Bytes::from_static(b"hint"));
    log.put_state(C, 1, Bytes::from_static(b"put"));
    log.hint_state(D, 1, Bytes::from_static(b"hint"));
    log.forget(D);
    disk.drive(&mut log, Tick(0));
    let (found, _) = open(&mut disk);
    assert_eq!((found.state(C, 1).unwrap(), found.clusters()), (Bytes::from_static(b"put"), vec![C]));
    log.check_invariants().unwrap();
}
