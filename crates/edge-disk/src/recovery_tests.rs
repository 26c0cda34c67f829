//! The real log over real files: what was reported written is there after a restart.

use crate::segments::Segments;
use crate::writer::Writer;
use crate::{DiskEvent, LogDirectory};
use base_types::{ClusterId, LogIndex, Term, Tick};
use bytes::Bytes;
use core_log::{Log, LogAction, LogConfig, LogEntry};

use std::path::Path;

const IDENTITY: u64 = 42;

fn config() -> LogConfig {
    LogConfig { segment_bytes: 1 << 20, ..LogConfig::default() }
}

/// Carries out what the log wants until it wants nothing; `torn` leaves the last write half done.
fn settle(log: &mut Log, path: &Path, torn: bool) {
    let mut writer = Writer::new(path, true);
    let mut segments = Segments::new(path, config().segment_bytes);
    for turn in 0..1_000 {
        let actions = log.poll(Tick::from_millis(1_000 + turn));
        if actions.is_empty() && !log.has_staged() {
            return;
        }
        for action in actions {
            let events = match action {
                LogAction::Write { batch, segment, offset, blocks } if torn => {
                    let half = blocks.slice(..blocks.len() / 2 / core_log::BLOCK_BYTES * core_log::BLOCK_BYTES);
                    writer.carry_out(LogAction::Write { batch, segment, offset, blocks: half });
                    return;
                }
                action @ LogAction::Write { .. } => writer.carry_out(action).into_iter().collect(),
                action => segments.carry_out(action),
            };
            for event in events {
                match event {
                    DiskEvent::Written { batch } => log.on_written(batch),
                    DiskEvent::SegmentReady { segment } => log.on_segment_ready(segment),
                    other => panic!("{other:?}"),
                }
            }
        }
    }
    panic!("the log does not come to rest");
}

fn entry(index: u64, bytes: usize) -> LogEntry {
    LogEntry {
        term: Term(1),
        index: LogIndex(index),
        kind: 0,
        data: Bytes::from(vec![index as u8; bytes]),
        context: Bytes::new(),
    }
}

#[test]
fn what_was_written_survives_and_a_torn_tail_is_cut() {
    let home = tempfile::tempdir().unwrap();
    let cluster = ClusterId(7);
    let (mut log, _) = Log::recover(&mut LogDirectory::new(home.path()), config(), IDENTITY).unwrap();
    for index in 1..=300 {
        log.append(cluster, &[entry(index, 5_000)]);
        if index % 20 == 0 {
            settle(&mut log, home.path(), false);
        }
    }
    log.append(cluster, &[entry(301, 9_000), entry(302, 9_000)]);
    settle(&mut log, home.path(), true);
    drop(log);
    let (log, report) = Log::recover(&mut LogDirectory::new(home.path()), config(), IDENTITY).unwrap();
    assert_eq!(log.last_index(cluster), LogIndex(300), "{report:?}");
    assert!(report.torn_tail && report.damage.is_empty(), "{report:?}");
    for index in [1, 150, 300] {
        assert_eq!(log.entry(cluster, LogIndex(index)), Some(entry(index, 5_000)));
    }
}
