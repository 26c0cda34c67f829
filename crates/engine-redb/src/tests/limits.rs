//! Room, and snapshots that expire.

use super::{RedbFactory, A};
use crate::RedbConfig;
use base_engine::conformance::{batch, put, EngineFactory};
use base_engine::stored::SnapshotLimits;
use base_engine::{Direction, Engine, EngineError, EngineRead, KeyRange, WriteBatch};
use base_types::SpaceId;
use std::ops::ControlFlow;
use std::time::Duration;

pub const SMALL_BYTES: u64 = 6 << 20;
const B: SpaceId = SpaceId(2);

fn megabyte(space: SpaceId, round: u64) -> WriteBatch {
    batch((0..250u64).map(|i| put(space, format!("{round}-{i}"), vec![round as u8; 3000])).collect::<Vec<_>>())
}

#[test]
fn a_full_engine_reads_deletes_and_recovers() {
    let factory = RedbFactory::new(SMALL_BYTES);
    let engine = factory.open();
    engine.write(&batch([put(A, "kept", "v")])).unwrap();
    let refused = (0..20).find_map(|round| engine.write(&megabyte(B, round)).err()).expect("20 MB do not fit 6");
    assert!(matches!(&refused, EngineError::Full(text) if text.contains("bytes_max")), "{refused}");
    assert_eq!(engine.get(A, b"kept"), Ok(Some("v".into())));
    assert_eq!(engine.statistics().bytes_limit, SMALL_BYTES);
    let mut calls = 0;
    while engine.drop_space(B, 20).expect("deleting needs no more room than the reserve") {
        calls += 1;
    }
    assert!(calls > 10);
    engine.write(&megabyte(B, 0)).unwrap();
    assert_eq!(engine.verify(), Ok(251));
}

#[test]
fn a_disk_without_room_refuses_puts_only() {
    let factory = RedbFactory::new(0);
    let mut engine = factory.open();
    engine.write(&batch([put(A, "k", "1")])).unwrap();
    engine.set_free_bytes(|_| Ok(1 << 20));
    let refused = engine.write(&batch([put(A, "k", "2")])).unwrap_err();
    assert!(matches!(&refused, EngineError::Full(text) if text.contains("free room")), "{refused}");
    assert_eq!(engine.get(A, b"k"), Ok(Some("1".into())));
    engine.write(&batch([base_engine::conformance::delete(A, "k")])).unwrap();
    engine.set_free_bytes(|_| Ok(1 << 40));
    engine.write(&batch([put(A, "k", "2")])).unwrap();
}

fn with_snapshot_limits(age_max: Duration, bytes_behind_max: u64) -> (RedbFactory, crate::RedbEngine) {
    let factory = RedbFactory::new(0);
    let snapshots = SnapshotLimits { age_max, bytes_behind_max };
    let engine = crate::open(factory.new_directory(), RedbConfig { snapshots, ..factory.config() }).unwrap();
    (factory, engine)
}

#[test]
fn a_snapshot_expires_by_age() {
    let (_factory, engine) = with_snapshot_limits(Duration::ZERO, u64::MAX);
    let snapshot = engine.snapshot().unwrap();
    assert_eq!(snapshot.get(A, b"k"), Err(EngineError::SnapshotExpired));
    assert_eq!(snapshot.durable_index(A), Err(EngineError::SnapshotExpired));
}

#[test]
fn a_walk_ends_when_its_snapshot_expires_under_it() {
    let (_factory, engine) = with_snapshot_limits(Duration::from_secs(600), 1 << 20);
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
