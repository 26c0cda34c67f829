//! Durable indexes, the list of spaces, dropping, export and import.

use super::model::{batch, collect, delete, durable, put, Model, Random};
use super::EngineFactory;
use crate::{export, import, BatchOperation, Chunk, Direction, Engine, EngineRead, KeyRange};
use base_types::codec::Encode;
use base_types::{LogIndex, SpaceId};

const A: SpaceId = SpaceId(5);
const B: SpaceId = SpaceId(6);
const C: SpaceId = SpaceId(u64::MAX);

/// Zero before the first, the last one written after, kept over a reopening, gone with the space.
pub fn the_durable_index_is_kept<F: EngineFactory>(factory: &F) {
    let mut engine = factory.open();
    assert_eq!(engine.durable_index(A), Ok(LogIndex(0)));
    for index in [1, 2, 300, 1 << 40] {
        engine.write(&batch([put(A, format!("{index}"), "v"), durable(A, index)])).unwrap();
        assert_eq!(engine.durable_index(A), Ok(LogIndex(index)));
        engine = factory.reopen(engine);
        assert_eq!(engine.durable_index(A), Ok(LogIndex(index)), "after reopening");
        assert_eq!(engine.durable_index(B), Ok(LogIndex(0)));
    }
    engine.write(&batch([durable(B, 7)])).unwrap();
    while engine.drop_space(A, 2).unwrap() {}
    assert_eq!(engine.durable_index(A), Ok(LogIndex(0)), "gone with its space");
    let engine = factory.reopen(engine);
    assert_eq!(engine.durable_index(A), Ok(LogIndex(0)));
    assert_eq!(engine.durable_index(B), Ok(LogIndex(7)));
}

/// A space is listed while it holds a pair or a durable index.
pub fn spaces_are_listed<F: EngineFactory>(factory: &F) {
    let engine = factory.open();
    assert_eq!(engine.spaces(), Ok(vec![]));
    engine.write(&batch([put(C, "", ""), put(A, "k", "v"), durable(B, 1)])).unwrap();
    assert_eq!(engine.spaces(), Ok(vec![A, B, C]), "in order");
    engine.write(&batch([delete(A, "k")])).unwrap();
    assert_eq!(engine.spaces(), Ok(vec![B, C]));
    assert_eq!(engine.drop_space(B, 10), Ok(false));
    engine.write(&batch([durable(A, 0)])).unwrap();
    assert_eq!(engine.spaces(), Ok(vec![C]), "an index of zero is none");
    let engine = factory.reopen(engine);
    assert_eq!(engine.spaces(), Ok(vec![C]));
    let many: Vec<BatchOperation> = (0..300).map(|i| put(SpaceId(i * 3), "k", "v")).collect();
    engine.write(&batch(many)).unwrap();
    assert_eq!(engine.spaces().unwrap().len(), 301);
}

/// Each call removes no more than its limit, the durable index stays until the end, others stay.
pub fn dropping_a_space_is_bounded<F: EngineFactory>(factory: &F) {
    let mut engine = factory.open();
    let mut operations = vec![durable(A, 9), durable(B, 8)];
    for i in 0..25 {
        operations.extend([SpaceId(4), A, B].map(|space| put(space, format!("{i:02}"), vec![i as u8; 3000])));
    }
    let all = batch(operations);
    engine.write(&all).unwrap();
    let mut model = Model::default();
    model.apply(&all);
    for (calls, left) in [(1, 15), (2, 5)] {
        assert_eq!(engine.drop_space(A, 10), Ok(true), "call {calls}");
        assert_eq!(collect(&engine, A, KeyRange::ALL, Direction::Forward).len(), left);
        assert_eq!(engine.durable_index(A), Ok(LogIndex(9)), "until the last pair is gone");
        engine = factory.reopen(engine);
    }
    assert_eq!(engine.drop_space(A, 10), Ok(false));
    model.pairs.remove(&A);
    model.durable.remove(&A);
    model.assert_shown_by(&engine, &[SpaceId(4), A, B, C], "after the drop");
    assert_eq!(engine.spaces().unwrap(), model.spaces());
    assert_eq!(engine.drop_space(A, 10), Ok(false), "nothing to drop is no error");
    assert_eq!(engine.drop_space(B, 25), Ok(false), "exactly the limit");
    engine.write(&batch([put(A, "again", "1")])).unwrap();
    assert_eq!(engine.drop_space(A, 0), Ok(false), "a limit of zero still makes progress");
}

/// A snapshot of one engine, carried over chunk by chunk, is equal in another.
pub fn export_and_import_carry_a_space<F: EngineFactory>(factory: &F) {
    let (from, to) = (factory.open(), factory.open());
    let mut random = Random::new(77);
    let mut operations: Vec<BatchOperation> = (0..400).map(|_| put(A, random.key(), random.value(3000))).collect();
    operations.push(put(A, "large", vec![7; 50_000]));
    operations.push(put(SpaceId(A.0 + 1), "", "a neighbour"));
    from.write(&batch(operations)).unwrap();
    for bytes_max in [0, 1, 1000, 1 << 20] {
        let snapshot = from.snapshot().unwrap();
        from.write(&batch([put(A, format!("late {bytes_max}"), "v")])).unwrap();
        let target = SpaceId(100 + bytes_max as u64);
        let (mut after, mut chunks) = (None, 0);
        loop {
            let chunk = export(&*snapshot, A, after.as_deref(), bytes_max).unwrap();
            let size: usize = chunk.pairs.iter().map(|(key, value)| key.len() + value.len()).sum();
            assert!(size <= bytes_max || chunk.pairs.len() == 1, "a chunk keeps its bound");
            let carried = Chunk::from_bytes(chunk.to_bytes()).unwrap();
            import(&to, target, &carried).unwrap();
            import(&to, target, &carried).unwrap();
            chunks += 1;
            if carried.done {
                break;
            }
            after = Some(carried.last_key().expect("not done, so not empty").clone());
        }
        assert!(bytes_max != 1 << 20 || chunks == 1, "large chunks are few: {chunks}");
        let expected = collect(&*snapshot, A, KeyRange::ALL, Direction::Forward);
        assert_eq!(collect(&to, target, KeyRange::ALL, Direction::Forward), expected);
    }
    assert_eq!(export(&to, SpaceId(1), None, 10), Ok(Chunk { pairs: vec![], done: true }));
}
