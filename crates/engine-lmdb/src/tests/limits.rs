//! Room, snapshots that expire, and the file that does not grow.

use super::{batch, put, LmdbFactory, A};
use crate::{LmdbConfig, LmdbEngine};
use base_engine::conformance::{a_failed_write_leaves_nothing, EngineFactory};
use base_engine::{Direction, Engine, EngineError, EngineRead, KeyRange, WriteBatch};
use base_types::SpaceId;
use std::ops::ControlFlow;
use std::time::Duration;

pub const SMALL_MAP_BYTES: u64 = 4 << 20;
const B: SpaceId = SpaceId(2);

fn megabyte(space: SpaceId, round: u64) -> WriteBatch {
    batch((0..250u64).map(|i| put(space, format!("{round}-{i}"), vec![round as u8; 3000])).collect::<Vec<_>>())
}

#[test]
fn a_batch_beyond_the_map_leaves_nothing() {
    a_failed_write_leaves_nothing(&LmdbFactory::new(SMALL_MAP_BYTES));
}

#[test]
fn a_full_engine_reads_deletes_and_recovers() {
    let engine = LmdbFactory::new(SMALL_MAP_BYTES);
    let engine = engine.open();
    engine
        .write(&batch([
            put(A, "kept", "v"),
            base_engine::BatchOperation::Durable { space: A, index: base_types::LogIndex(1) },
        ]))
        .unwrap();
    let refused = (0..20).find_map(|round| engine.write(&megabyte(B, round)).err()).expect("20 MB do not fit 4");
    assert!(matches!(&refused, EngineError::Full(text) if text.contains("map_bytes_max")), "{refused}");
    assert_eq!(engine.get(A, b"kept"), Ok(Some("v".into())));
    let statistics = engine.statistics();
    assert!(statistics.bytes_used > SMALL_MAP_BYTES / 2 && statistics.bytes_limit == SMALL_MAP_BYTES, "{statistics:?}");
    let mut calls = 0;
    while engine.drop_space(B, 20).expect("deleting needs no more room than the reserve") {
        calls += 1;
    }
    assert!(calls > 10);
    assert!(engine.statistics().bytes_used < 100_000, "{:?}", engine.statistics());
    engine.write(&megabyte(B, 0)).unwrap();
    assert_eq!(engine.verify(), Ok(251));
}

fn with_snapshot_limits(factory: &LmdbFactory, age_max: Duration, bytes_behind_max: u64) -> LmdbEngine {
    let limits =
        LmdbConfig { snapshot_age_max: age_max, snapshot_bytes_behind_max: bytes_behind_max, ..factory.config() };
    LmdbEngine::open(factory.new_directory(), limits).unwrap()
}

#[test]
fn a_snapshot_expires_by_age() {
    let factory = LmdbFactory::new(1 << 30);
    let engine = with_snapshot_limits(&factory, Duration::from_millis(1), u64::MAX);
    let snapshot = engine.snapshot().unwrap();
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(snapshot.get(A, b"k"), Err(EngineError::SnapshotExpired));
    assert_eq!(snapshot.durable_index(A), Err(EngineError::SnapshotExpired));
}

#[test]
fn a_snapshot_expires_by_what_was_written_and_gives_its_pages_back() {
    let factory = LmdbFactory::new(1 << 30);
    let engine = with_snapshot_limits(&factory, Duration::from_secs(600), 1 << 20);
    engine.write(&megabyte(B, 0)).unwrap();
    let snapshot = engine.snapshot().unwrap();
    assert_eq!(snapshot.get(B, b"0-1").unwrap().map(|value| value.len()), Some(3000));
    for _ in 0..3 {
        engine.write(&megabyte(B, 0)).unwrap();
    }
    let file_bytes = || std::fs::metadata(engine.directory().join("data.mdb")).unwrap().len();
    let grown_to = file_bytes();
    assert_eq!(snapshot.get(B, b"0-1"), Err(EngineError::SnapshotExpired));
    for _ in 0..20 {
        engine.write(&megabyte(B, 0)).unwrap();
    }
    assert!(file_bytes() <= grown_to + (2 << 20), "pages are used again: {} after {grown_to}", file_bytes());
}

#[test]
fn a_walk_ends_when_its_snapshot_expires_under_it() {
    let factory = LmdbFactory::new(1 << 30);
    let engine = with_snapshot_limits(&factory, Duration::from_secs(600), 1 << 20);
    engine.write(&megabyte(B, 0)).unwrap();
    let snapshot = engine.snapshot().unwrap();
    let mut seen = 0;
    let walked = snapshot.range(B, KeyRange::ALL, Direction::Forward, &mut |_, _| {
        seen += 1;
        engine.write(&megabyte(A, seen)).unwrap();
        assert!(seen < 10, "expiry must end the walk");
        ControlFlow::Continue(())
    });
    assert_eq!(walked, Err(EngineError::SnapshotExpired));
}

#[test]
fn many_snapshots_at_once_are_bounded_by_an_error() {
    let factory = LmdbFactory::new(1 << 30);
    let engine = factory.open();
    let mut held = Vec::new();
    let refused = (0..2000).find_map(|_| engine.snapshot().map(|snapshot| held.push(snapshot)).err());
    assert!(matches!(refused, Some(EngineError::Io(_))), "{refused:?}");
    held.clear();
    assert!(engine.snapshot().is_ok(), "slots come back");
}
