//! Seeds of the log: segments a real log wrote, in the entries' short form, and records out of them; and the embedded
//! store's entries, byte by byte as docs/formats/embedded.md draws them.

use crate::Seeds;
use base_types::codec::Writer;
use base_types::{ClusterId, LogIndex, Term, Tick};
use bytes::Bytes;
use core_log::testing::{DiskEvent, TestDisk};
use core_log::{Log, LogConfig, LogDisk, LogEntry, SegmentId, SEGMENT_BYTES_MIN};
use hive_fuzz::log::{shorten, IDENTITY};

/// The most turns a log is given to write what is staged.
const TURNS_MAX: usize = 16;

fn entry(term: u64, index: u64, data: &'static str) -> LogEntry {
    LogEntry {
        term: Term(term),
        index: LogIndex(index),
        kind: 0,
        data: Bytes::from_static(data.as_bytes()),
        context: Bytes::new(),
    }
}

fn settle(log: &mut Log, disk: &mut TestDisk) {
    for _ in 0..TURNS_MAX {
        log.poll(Tick(0)).into_iter().for_each(|action| disk.start(action));
        while let Some(event) = disk.finish() {
            match event {
                DiskEvent::Written(batch) => log.on_written(batch),
                DiskEvent::Ready(segment) => log.on_segment_ready(segment),
                DiskEvent::NoRoom(segment) => log.on_segment_failed(segment),
                DiskEvent::Failed => log.on_failed(),
            }
        }
    }
}

type Turn = fn(&mut Log);

/// What a log wrote over these turns: its segments.
fn written(turns: &[Turn]) -> Vec<Vec<u8>> {
    let config = LogConfig { segment_bytes: SEGMENT_BYTES_MIN, ..LogConfig::default() };
    let mut disk = TestDisk::new(SEGMENT_BYTES_MIN);
    let (mut log, _) = Log::recover(&mut disk, config, IDENTITY).expect("an empty disk is a log");
    settle(&mut log, &mut disk);
    for turn in turns {
        turn(&mut log);
        settle(&mut log, &mut disk);
    }
    let segments = disk.segments().expect("a test disk lists");
    let read = |(id, bytes): &(SegmentId, u64)| {
        disk.clone().read(*id, 0, *bytes as usize).expect("a test disk reads").to_vec()
    };
    segments.iter().map(read).filter(|image| image.iter().any(|byte| *byte != 0)).collect()
}

const TURNS: &[Turn] = &[
    |log| log.append(ClusterId(1), &[entry(1, 1, "one"), entry(1, 2, "two")]),
    |log| log.put_state(ClusterId(1), 1, Bytes::from_static(b"\x01\x02\x00")),
    |log| log.append(ClusterId(1), &[entry(2, 2, "another two")]),
    |log| {
        log.append(ClusterId(7), &[entry(1, 1, "seven")]);
        log.put_state(ClusterId(7), 2, Bytes::from_static(b"state of seven"));
    },
    |log| log.compact(ClusterId(1), LogIndex(1), Term(1)),
    |log| log.forget(ClusterId(7)),
    |log| log.compact(ClusterId(1), LogIndex(9), Term(3)),
];

/// One record: its number, and keys with their values (`None`: a delete).
type Record<'r> = (u64, &'r [(&'r [u8], Option<&'r [u8]>)]);

fn embedded_entry(records: &[Record<'_>]) -> Bytes {
    let mut out = Writer::new();
    for (number, changes) in records {
        out.u64(*number).varint(changes.len() as u64);
        for (key, value) in *changes {
            out.u8(u8::from(value.is_some())).bytes(key);
            value.iter().for_each(|value| drop(out.bytes(value)));
        }
    }
    out.finish()
}

fn add_embedded(seeds: &mut Seeds) {
    let one: Record<'_> = (1, &[(b"key", Some(b"value"))]);
    let batch: Record<'_> = (u64::MAX, &[(b"a", Some(b"")), (b"", Some(b"\0\x01")), (b"\xff\xff", None), (b"a", None)]);
    let long = [b'k'; 1024];
    let large: Record<'_> = (1 << 40, &[(&long, Some(&[b'v'; 2000]))]);
    for records in [&[one][..], &[(7, &[])], &[one, batch, (3, &[(b"key", None)])], &[large, one]] {
        seeds.add("embedded_entry", embedded_entry(records));
    }
}

pub fn add(seeds: &mut Seeds) {
    add_embedded(seeds);
    for length in 1..=TURNS.len() {
        let images = written(&TURNS[..length]);
        // Everything mended, so that what mutations change is believed; then each kind alone; then nothing.
        for flags in if length == 4 { vec![0, 1, 3, 7, 15, 31] } else { vec![31] } {
            let mut seed = vec![flags];
            images.iter().for_each(|image| shorten(image, &mut seed));
            if seed.len() <= 4 << 10 {
                seeds.add("log_segment", &seed);
            }
        }
        let first = images.first().expect("something was written");
        let batch = first
            .chunks(core_log::BLOCK_BYTES)
            .rfind(|block| block.starts_with(b"HiveLog\n"))
            .expect("a batch was written");
        let used = batch.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        seeds.add("log_record", &batch[104.min(used)..used]);
    }
}
