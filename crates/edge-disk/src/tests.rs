use super::*;
use core_log::BatchNumber;
use segments::Segments;
use std::sync::mpsc::channel;
use std::time::Duration;
use writer::Writer;

const SEGMENT: u64 = 1 << 20;

fn blocks(fill: u8, count: usize) -> Bytes {
    Bytes::from(vec![fill; count * core_log::BLOCK_BYTES])
}

fn write(batch: u64, segment: u64, offset: u64, blocks: Bytes) -> LogAction {
    LogAction::Write { batch: BatchNumber(batch), segment: SegmentId(segment), offset, blocks }
}

fn prepare(segment: u64, recycle: Option<u64>) -> LogAction {
    LogAction::Prepare { segment: SegmentId(segment), recycle: recycle.map(SegmentId) }
}

#[test]
fn what_is_written_is_read_back_direct_and_not() {
    for direct in [true, false] {
        let home = tempfile::tempdir().unwrap();
        let mut segments = Segments::new(home.path(), SEGMENT);
        assert!(matches!(
            segments.carry_out(prepare(7, None))[..],
            [DiskEvent::SegmentReady { segment: SegmentId(7) }]
        ));
        let mut writer = Writer::new(home.path(), direct);
        assert!(matches!(
            writer.carry_out(write(1, 7, 0, blocks(1, 2))),
            Some(DiskEvent::Written { batch: BatchNumber(1) })
        ));
        assert!(matches!(writer.carry_out(write(2, 7, 8192, blocks(2, 600 / 4))), Some(DiskEvent::Written { .. })));
        let mut disk = LogDirectory::new(home.path());
        assert_eq!(disk.segments().unwrap(), [(SegmentId(7), SEGMENT)]);
        assert_eq!(disk.read(SegmentId(7), 4096, 8192).unwrap(), [vec![1; 4096], vec![2; 4096]].concat());
        assert_eq!(disk.read(SegmentId(7), SEGMENT - 10, 10).unwrap().len(), 10);
        assert!(disk.read(SegmentId(7), SEGMENT - 10, 11).is_err());
        assert!(disk.read(SegmentId(8), 0, 10).is_err());
        assert!(disk.read(SegmentId(7), 0, usize::MAX).is_err());
    }
}

#[test]
fn a_segment_of_no_whole_blocks_is_made_through_the_page_cache() {
    let home = tempfile::tempdir().unwrap();
    let odd = SEGMENT + 1234;
    let mut segments = Segments::new(home.path(), odd);
    assert!(matches!(segments.carry_out(prepare(1, None))[..], [DiskEvent::SegmentReady { .. }]));
    let mut disk = LogDirectory::new(home.path());
    assert_eq!(disk.segments().unwrap(), [(SegmentId(1), odd)]);
    assert_eq!(disk.read(SegmentId(1), 0, odd as usize).unwrap(), vec![0; odd as usize]);
}

/// Recovery asks for a segment as a whole.
#[test]
fn a_segment_above_64_mib_is_read_at_once() {
    let home = tempfile::tempdir().unwrap();
    let bytes = (64 << 20) + 4096;
    File::create(segment_path(home.path(), SegmentId(1))).unwrap().set_len(bytes).unwrap();
    let mut disk = LogDirectory::new(home.path());
    assert_eq!(disk.segments().unwrap(), [(SegmentId(1), bytes)]);
    assert_eq!(disk.read(SegmentId(1), 0, bytes as usize).unwrap().len() as u64, bytes);
}

#[test]
fn a_failed_write_is_final() {
    let home = tempfile::tempdir().unwrap();
    let mut segments = Segments::new(home.path(), SEGMENT);
    segments.carry_out(prepare(1, None));
    let mut writer = Writer::new(home.path(), true);
    // Segment 2 was never made: the write must fail and not create it.
    let Some(DiskEvent::Failed { message }) = writer.carry_out(write(1, 2, 0, blocks(1, 1))) else {
        panic!("must fail")
    };
    assert!(message.contains("segment 2 at offset 0"), "{message}");
    // A write that could succeed is not tried any more.
    assert!(matches!(writer.carry_out(write(2, 1, 0, blocks(9, 1))), Some(DiskEvent::Failed { .. })));
    assert_eq!(LogDirectory::new(home.path()).read(SegmentId(1), 0, 1).unwrap()[0], 0);
}

#[test]
fn segments_are_recycled_removed_and_foreign_files_ignored() {
    let home = tempfile::tempdir().unwrap();
    let mut segments = Segments::new(home.path(), SEGMENT);
    segments.carry_out(prepare(1, None));
    assert!(matches!(segments.carry_out(prepare(2, Some(1)))[..], [DiskEvent::SegmentReady { segment: SegmentId(2) }]));
    for stray in ["reserve", "x.seg", "0000000000000009.new", "0000000000000009.seg.bak", "9.seg"] {
        std::fs::write(home.path().join(stray), "x").unwrap();
    }
    let mut disk = LogDirectory::new(home.path());
    assert_eq!(disk.segments().unwrap(), [(SegmentId(2), SEGMENT)]);
    // One of another size is replaced, not taken.
    std::fs::write(segment_path(home.path(), SegmentId(3)), "short").unwrap();
    segments.carry_out(prepare(4, Some(3)));
    segments.carry_out(LogAction::Remove { segment: SegmentId(2) });
    assert_eq!(disk.segments().unwrap(), [(SegmentId(4), SEGMENT)]);
    // Recycling what is not there is a failed log, not silence.
    assert!(matches!(segments.carry_out(prepare(6, Some(5)))[..], [DiskEvent::Failed { .. }]));
}

/// A segment larger than the file system allows stands for a full disk (fallocate: EFBIG or ENOSPC).
#[test]
fn a_full_disk_opens_the_reserve_and_heals() {
    let home = tempfile::tempdir().unwrap();
    let mut good = Segments::new(home.path(), SEGMENT);
    good.retry();
    assert!(home.path().join("reserve").exists());
    // The same directory, of which there is no room for more.
    let mut full = Segments::new(home.path(), SEGMENT);
    full.fill_disk(true);
    let events = full.carry_out(prepare(1, None));
    assert!(
        matches!(events[..], [DiskEvent::Full { full: true }, DiskEvent::SegmentReady { segment: SegmentId(1) }]),
        "{events:?}"
    );
    // The reserve is spent: the next one has to wait; that the disk is full is reported only once.
    assert!(matches!(full.carry_out(prepare(2, None))[..], [DiskEvent::SegmentFailed { segment: SegmentId(2) }]));
    assert!(full.retry().is_empty());
    full.fill_disk(false);
    let events = full.retry();
    assert!(matches!(events[..], [DiskEvent::Full { full: false }]), "{events:?}");
    assert!(home.path().join("reserve").exists());
    assert!(!home.path().join("0000000000000002.new").exists());
}

/// Cut, of another configuration, or somebody's: the log would write past its end, and a start would refuse it as a segment.
#[test]
fn a_reserve_of_another_size_is_made_again_and_never_opened() {
    for size in [0, 4, SEGMENT / 2, 2 * SEGMENT] {
        let home = tempfile::tempdir().unwrap();
        let reserve = home.path().join("reserve");
        std::fs::write(&reserve, vec![7; size as usize]).unwrap();
        let mut segments = Segments::new(home.path(), SEGMENT);
        segments.fill_disk(true);
        let events = segments.carry_out(prepare(1, None));
        assert!(
            matches!(events[..], [DiskEvent::Full { full: true }, DiskEvent::SegmentFailed { segment: SegmentId(1) }]),
            "{size}: {events:?}"
        );
        assert_eq!(LogDirectory::new(home.path()).segments().unwrap(), []);
        segments.fill_disk(false);
        assert!(matches!(segments.retry()[..], [DiskEvent::Full { full: false }]), "{size}");
        assert_eq!(std::fs::metadata(&reserve).unwrap().len(), SEGMENT);
        segments.fill_disk(true);
        assert!(matches!(segments.carry_out(prepare(1, None))[1], DiskEvent::SegmentReady { .. }), "{size}");
    }
}

#[test]
fn the_threads_answer_and_end() {
    let home = tempfile::tempdir().unwrap();
    let (sender, events) = channel();
    let report = || -> Report {
        let sender = sender.clone();
        Box::new(move |event| sender.send(event).unwrap())
    };
    let spawn = |name: String, work: Box<dyn FnOnce() + Send>| std::thread::Builder::new().name(name).spawn(work);
    let options = LogDiskOptions { segment_bytes: SEGMENT, direct: true };
    let mut writer = LogWriter::start("t", home.path(), options, report, spawn).unwrap();
    writer.submit(Tick(1), prepare(1, None)).unwrap();
    assert!(matches!(events.recv_timeout(Duration::from_secs(5)).unwrap(), DiskEvent::SegmentReady { .. }));
    writer.submit(Tick(5), write(1, 1, 0, blocks(1, 1))).unwrap();
    assert_eq!(writer.write_since, Some(Tick(5)));
    assert!(matches!(events.recv_timeout(Duration::from_secs(5)).unwrap(), DiskEvent::Written { .. }));
    writer.stop();
    assert!(writer.submit(Tick(9), write(2, 1, 0, blocks(1, 1))).is_err());
}
