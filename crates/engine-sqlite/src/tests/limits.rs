//! Room, snapshots, and the WAL that is copied.

use super::{images, SqliteFactory, A};
use crate::SqliteConfig;
use base_engine::conformance::{batch, delete, put, EngineFactory};
use base_engine::stored::SnapshotLimits;
use base_engine::{Engine, EngineError, EngineRead, WriteBatch};
use base_types::SpaceId;
use std::time::Duration;

pub const SMALL_BYTES: u64 = 4 << 20;
const B: SpaceId = SpaceId(2);

fn megabyte(space: SpaceId, round: u64) -> WriteBatch {
    batch((0..250u64).map(|i| put(space, format!("{round}-{i}"), vec![round as u8; 3000])).collect::<Vec<_>>())
}

#[test]
fn a_full_engine_reads_deletes_and_recovers() {
    let factory = SqliteFactory::new(SMALL_BYTES, 1 << 20);
    let engine = factory.open();
    engine.write(&batch([put(A, "kept", "v")])).unwrap();
    let refused = (0..20).find_map(|round| engine.write(&megabyte(B, round)).err()).expect("20 MB do not fit 4");
    assert!(matches!(&refused, EngineError::Full(text) if text.contains("bytes_max")), "{refused}");
    assert_eq!(engine.get(A, b"kept"), Ok(Some("v".into())));
    assert_eq!(engine.statistics().bytes_limit, SMALL_BYTES);
    let mut calls = 0;
    while engine.drop_space(B, 20).expect("deleting needs no further page") {
        calls += 1;
    }
    assert!(calls > 10);
    engine.store().checkpoint().unwrap();
    assert!(engine.statistics().bytes_used < 200_000, "{:?}", engine.statistics());
    engine.write(&megabyte(B, 0)).unwrap();
    assert_eq!(engine.verify(), Ok(251));
}

#[test]
fn a_disk_without_room_refuses_puts_only() {
    let factory = SqliteFactory::new(0, 1 << 20);
    let mut engine = factory.open();
    engine.write(&batch([put(A, "k", "1")])).unwrap();
    engine.set_free_bytes(|_| Ok(1 << 20));
    let refused = engine.write(&batch([put(A, "k", "2")])).unwrap_err();
    assert!(matches!(&refused, EngineError::Full(text) if text.contains("free room")), "{refused}");
    assert_eq!(engine.get(A, b"k"), Ok(Some("1".into())));
    engine.write(&batch([delete(A, "k")])).unwrap();
    engine.set_free_bytes(|_| Ok(1 << 40));
    engine.write(&batch([put(A, "k", "2")])).unwrap();
}

#[test]
fn the_wal_is_copied_and_stays_small() {
    let factory = SqliteFactory::new(0, 1 << 20);
    let engine = factory.open();
    for round in 0..8 {
        engine.write(&megabyte(B, round % 2)).unwrap();
    }
    let image = images::read(engine.directory());
    assert!(image.wal.len() < 4 << 20, "{}", image.wal.len());
    assert!(image.data.len() > 1 << 20, "{}", image.data.len());
}

#[test]
fn a_snapshot_expires() {
    let factory = SqliteFactory::new(0, 1 << 20);
    let snapshots = SnapshotLimits { age_max: Duration::from_secs(600), bytes_behind_max: 1000 };
    let engine = crate::open(factory.new_directory(), SqliteConfig { snapshots, ..factory.config() }).unwrap();
    engine.write(&batch([put(A, "k", "1")])).unwrap();
    let snapshot = engine.snapshot().unwrap();
    engine.write(&batch([put(A, "k", "2")])).unwrap();
    assert_eq!(snapshot.get(A, b"k"), Ok(Some("1".into())));
    engine.write(&batch([put(A, "large", vec![0; 2000])])).unwrap();
    assert_eq!(snapshot.get(A, b"k"), Err(EngineError::SnapshotExpired));
}
