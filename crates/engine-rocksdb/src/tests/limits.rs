//! Room, and snapshots.

use super::{RocksFactory, A};
use crate::RocksConfig;
use base_engine::conformance::{batch, delete, put, EngineFactory};
use base_engine::stored::SnapshotLimits;
use base_engine::{Engine, EngineError, EngineRead};
use std::time::Duration;

#[test]
fn a_disk_without_room_refuses_puts_only() {
    let factory = RocksFactory::new(1 << 20, false);
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
fn a_snapshot_expires() {
    let factory = RocksFactory::new(1 << 20, false);
    let snapshots = SnapshotLimits { age_max: Duration::from_secs(600), bytes_behind_max: 1000 };
    let engine = crate::open(factory.new_directory(), RocksConfig { snapshots, ..factory.config() }).unwrap();
    engine.write(&batch([put(A, "k", "1")])).unwrap();
    let snapshot = engine.snapshot().unwrap();
    engine.write(&batch([put(A, "k", "2")])).unwrap();
    assert_eq!(snapshot.get(A, b"k"), Ok(Some("1".into())));
    engine.write(&batch([put(A, "large", vec![0; 2000])])).unwrap();
    assert_eq!(snapshot.get(A, b"k"), Err(EngineError::SnapshotExpired));
}

/// Old versions go once no snapshot needs them: the disk does not grow with every overwriting.
#[test]
fn overwriting_gives_the_room_back() {
    let factory = RocksFactory::new(1 << 20, false);
    let engine = factory.open();
    let tables = |engine: &crate::RocksEngine| {
        let image = super::images::read(engine.directory());
        image.iter().filter(|(path, _)| path.extension().is_none()).map(|(_, file)| file.1).sum::<u64>()
    };
    for round in 0..12u64 {
        // Not compressible: each byte from the round's own sequence.
        let value =
            |i: u64| (0..2000u64).map(|at| (at * at * 31 + i * 7 + round * 13 + (at >> 3)) as u8).collect::<Vec<u8>>();
        engine.write(&batch((0..200).map(|i| put(A, format!("{i:03}"), value(i))).collect::<Vec<_>>())).unwrap();
        engine.store().write_out().unwrap();
    }
    assert!(tables(&engine) < 12 * 400_000, "{}", tables(&engine));
    assert_eq!(engine.verify(), Ok(200));
}
