//! Single keys: put, read, delete, every size, batches, reopening.

use super::model::{batch, delete, durable, put, Model};
use super::EngineFactory;
use crate::{BatchOperation, Engine, EngineRead, ENGINE_KEY_BYTES_MAX};
use base_types::SpaceId;
use bytes::Bytes;

const A: SpaceId = SpaceId(1);
const B: SpaceId = SpaceId(2);

/// What is put is read, in its own space only; what is deleted is gone.
pub fn points_are_put_read_and_deleted<F: EngineFactory>(factory: &F) {
    let engine = factory.open();
    assert_eq!(engine.get(A, b"k"), Ok(None));
    engine.write(&batch([put(A, "k", "1")])).unwrap();
    assert_eq!(engine.get(A, b"k"), Ok(Some(Bytes::from_static(b"1"))));
    assert_eq!(engine.get(B, b"k"), Ok(None), "another space is another world");
    assert_eq!(engine.get(A, b""), Ok(None));
    assert_eq!(engine.get(A, b"kk"), Ok(None));
    engine.write(&batch([put(A, "k", "22"), put(B, "k", "b")])).unwrap();
    assert_eq!(engine.get(A, b"k"), Ok(Some(Bytes::from_static(b"22"))));
    engine.write(&batch([delete(A, "k"), delete(A, "never there")])).unwrap();
    assert_eq!(engine.get(A, b"k"), Ok(None));
    assert_eq!(engine.get(B, b"k"), Ok(Some(Bytes::from_static(b"b"))));
    engine.write(&batch([])).unwrap();
    let statistics = engine.statistics();
    assert!(statistics.puts >= 3 && statistics.batches >= 3, "statistics count: {statistics:?}");
    assert!(statistics.bytes_used > 0, "statistics measure: {statistics:?}");
}

/// Keys from empty to the longest, of any bytes; values from empty to 1 MiB.
pub fn keys_and_values_of_every_size<F: EngineFactory>(factory: &F) {
    let engine = factory.open();
    let mut model = Model::default();
    let spaces = [SpaceId(0), SpaceId(0xff), SpaceId(0x100), SpaceId(u64::MAX)];
    for space in spaces {
        let mut operations = Vec::new();
        for length in [0, 1, 2, 7, 8, 255, 503, 504, 511, 512, 1024, ENGINE_KEY_BYTES_MAX] {
            for byte in [0x00, 0x01, b'k', 0xff] {
                operations.push(put(space, vec![byte; length], [byte; 3]));
            }
        }
        operations.push(put(space, "\u{0}\u{ff}", ""));
        let all = batch(operations);
        engine.write(&all).unwrap();
        model.apply(&all);
    }
    for length in [0, 1, 2000, 2044, 4080, 4096, 65_536, 1 << 20] {
        let value = (0..length).map(|i| (i % 251) as u8).collect::<Vec<u8>>();
        let one = batch([put(A, format!("value of {length}"), value)]);
        engine.write(&one).unwrap();
        model.apply(&one);
    }
    let all_spaces = [&spaces[..], &[A]].concat();
    model.assert_shown_by(&engine, &all_spaces, "after writing");
    for (space, pairs) in &model.pairs {
        for (key, value) in pairs {
            assert_eq!(engine.get(*space, key).as_ref(), Ok(&Some(value.clone())));
        }
    }
    model.assert_shown_by(&factory.reopen(engine), &all_spaces, "after reopening");
}

/// A key beyond the limit is an error, and the rest of its batch is not written either.
pub fn a_batch_with_a_key_too_long_writes_nothing<F: EngineFactory>(factory: &F) {
    let engine = factory.open();
    engine.write(&batch([put(A, "kept", "1")])).unwrap();
    let too_long = vec![b'x'; ENGINE_KEY_BYTES_MAX + 1];
    assert!(engine.write(&batch([put(A, "kept", "2"), put(A, &too_long, "")])).is_err());
    assert!(engine.write(&batch([put(A, "kept", "2"), delete(A, &too_long)])).is_err());
    assert_eq!(engine.get(A, b"kept"), Ok(Some(Bytes::from_static(b"1"))));
    assert_eq!(engine.get(A, &too_long), Ok(None), "such a key is just not there");
    engine.write(&batch([put(A, "kept", "3")])).unwrap();
    assert_eq!(engine.get(A, b"kept"), Ok(Some(Bytes::from_static(b"3"))));
}

/// Later operations on a key win, whatever stands between them.
pub fn a_batch_is_atomic_and_its_last_operation_wins<F: EngineFactory>(factory: &F) {
    let engine = factory.open();
    engine.write(&batch([put(A, "old", "0")])).unwrap();
    let steps = [
        put(A, "k", "1"),
        durable(A, 5),
        put(B, "k", "other"),
        delete(A, "k"),
        put(A, "gone", "1"),
        put(A, "k", "2"),
        delete(A, "gone"),
        delete(A, "old"),
        put(A, "old", "new"),
        put(A, "k", "3"),
        durable(A, 9),
        delete(A, "gone"),
    ];
    let mut model = Model::default();
    model.apply(&batch(steps.clone()));
    engine.write(&batch(steps)).unwrap();
    model.assert_shown_by(&engine, &[A, B], "after the batch");
    assert_eq!(engine.get(A, b"k"), Ok(Some(Bytes::from_static(b"3"))));
}

/// Nothing is lost or changed by closing and opening, several times.
pub fn reopening_keeps_everything<F: EngineFactory>(factory: &F) {
    let mut engine = factory.open();
    let mut model = Model::default();
    for round in 0..4u64 {
        let operations: Vec<BatchOperation> = (0..50)
            .map(|i| put(SpaceId(i % 3), format!("{}", (i * 7 + round * 11) % 60), format!("{round}-{i}")))
            .chain([durable(A, round + 1), delete(B, format!("{round}"))])
            .collect();
        let one = batch(operations);
        engine.write(&one).unwrap();
        model.apply(&one);
        engine = factory.reopen(engine);
        model.assert_shown_by(&engine, &[SpaceId(0), A, B], "after reopening");
        assert_eq!(engine.spaces().unwrap(), model.spaces());
    }
}
