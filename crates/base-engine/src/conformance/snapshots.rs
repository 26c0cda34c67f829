//! Snapshots and readers beside a writer.

use super::model::{batch, delete, durable, put, Model};
use super::EngineFactory;
use crate::{Direction, Engine, EngineRead, KeyRange};
use base_types::{LogIndex, SpaceId};
use bytes::Bytes;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

const A: SpaceId = SpaceId(10);
const B: SpaceId = SpaceId(11);
const CONCURRENT_WRITES: u64 = 60;

/// A snapshot shows the moment it was taken, in all spaces, whatever is written or dropped since.
pub fn a_snapshot_is_one_instant<F: EngineFactory>(factory: &F) {
    let engine = factory.open();
    let empty = engine.snapshot().unwrap();
    let first = batch([put(A, "a", "1"), put(A, "b", "1"), put(B, "a", "1"), durable(A, 1)]);
    engine.write(&first).unwrap();
    let snapshot = engine.snapshot().unwrap();
    engine.write(&batch([put(A, "a", "2"), delete(A, "b"), put(A, "c", "2"), durable(A, 2), durable(B, 2)])).unwrap();
    while engine.drop_space(B, 1).unwrap() {}
    let mut model = Model::default();
    model.assert_shown_by(&*empty, &[A, B], "a snapshot of nothing");
    model.apply(&first);
    model.assert_shown_by(&*snapshot, &[A, B], "the old snapshot");
    assert_eq!(snapshot.get(A, b"b"), Ok(Some(Bytes::from_static(b"1"))));
    assert_eq!(snapshot.get(A, b"c"), Ok(None));
    assert_eq!(engine.get(A, b"b"), Ok(None), "the engine itself is at the newest state");
    assert_eq!(engine.durable_index(A), Ok(LogIndex(2)));
    let shown = std::thread::spawn(move || snapshot.get(A, b"a")).join().unwrap();
    assert_eq!(shown, Ok(Some(Bytes::from_static(b"1"))), "a snapshot may be sent to another thread");
}

/// A snapshot needs no reference to the engine that made it.
pub fn a_snapshot_outlives_its_engine_handle<F: EngineFactory>(factory: &F) {
    let engine = factory.open();
    engine.write(&batch([put(A, "a", "1")])).unwrap();
    let snapshot = engine.snapshot().unwrap();
    drop(engine);
    assert_eq!(snapshot.get(A, b"a"), Ok(Some(Bytes::from_static(b"1"))));
}

/// One writer beside readers: a snapshot shows all of a batch or none, and what `write` has
/// returned is read by everyone.
pub fn readers_never_see_half_a_batch<F: EngineFactory>(factory: &F) {
    let engine = factory.open();
    let done = AtomicBool::new(false);
    engine.write(&batch([put(A, "n", "0"), put(B, "n", "0")])).unwrap();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut last = 0u64;
            while !done.load(Ordering::Acquire) {
                let snapshot = engine.snapshot().unwrap();
                let (a, b) = (snapshot.get(A, b"n").unwrap(), snapshot.get(B, b"n").unwrap());
                assert_eq!(a, b, "half a batch");
                let seen = engine.get(A, b"n").unwrap().expect("never deleted");
                let number: u64 = std::str::from_utf8(&seen).unwrap().parse().unwrap();
                assert!(number >= last, "reads go back from {last} to {number}");
                last = number;
            }
        });
        for number in 1..=CONCURRENT_WRITES {
            let value = number.to_string();
            engine.write(&batch([put(A, "n", &value), put(B, "n", &value)])).unwrap();
            assert_eq!(engine.get(B, b"n").unwrap().as_deref(), Some(value.as_bytes()), "a finished write is read");
        }
        done.store(true, Ordering::Release);
        reader.join().unwrap();
    });
}

/// A visit of a snapshot reads the snapshot and writes to the engine, and neither waits for the other.
pub fn a_nested_read_of_a_snapshot_does_not_lock_up<F: EngineFactory>(factory: &F) {
    let engine = factory.open();
    engine.write(&batch([put(A, "a", "1"), put(A, "b", "2")])).unwrap();
    let snapshot = engine.snapshot().unwrap();
    let mut values = Vec::new();
    let walked = snapshot.range(A, KeyRange::ALL, Direction::Backward, &mut |key, _| {
        values.push(snapshot.get(A, key).unwrap().unwrap());
        engine.write(&batch([put(A, "a", "3")])).unwrap();
        ControlFlow::Continue(())
    });
    assert_eq!((walked, values), (Ok(()), vec![Bytes::from("2"), Bytes::from("1")]));
}
