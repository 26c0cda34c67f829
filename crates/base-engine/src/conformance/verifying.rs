//! Verifying part by part, and digests that do not depend on the engine.

use super::model::{batch, delete, durable, put, Model, Random};
use super::EngineFactory;
use crate::verify::{digest, Digest, PART_PAIRS_MAX};
use crate::{BatchOperation, Engine, EngineRead};
use base_types::SpaceId;

const SPACES: [SpaceId; 3] = [SpaceId(0), SpaceId(7), SpaceId(u64::MAX)];

/// All parts together meet every pair, find nothing, and end; a digest shows a change, and no longer shows it once it
/// is undone.
pub fn verifying_meets_everything_and_finds_nothing<F: EngineFactory>(factory: &F) {
    let engine = factory.open();
    assert_eq!(engine.verify(&[]).map(|part| (part.damaged, part.next)), Ok((vec![], None)), "empty");
    let mut random = Random::new(21);
    let mut model = Model::default();
    for (at, space) in SPACES.into_iter().enumerate() {
        let count = PART_PAIRS_MAX * [0, 1, 2][at] + 17;
        let operations: Vec<BatchOperation> = (0..count)
            .map(|i| put(space, [&random.key()[..], i.to_string().as_bytes()].concat(), vec![at as u8; 9]))
            .collect();
        let one = batch([operations, vec![durable(space, 5)]].concat());
        engine.write(&one).unwrap();
        model.apply(&one);
    }
    let engine = factory.reopen(engine);
    let (mut after, mut parts, mut entries) = (Vec::new(), 0, 0);
    loop {
        let part = engine.verify(&after).unwrap();
        assert_eq!(part.damaged, [], "nothing is damaged");
        (parts, entries) = (parts + 1, entries + part.entries);
        assert!(parts < 1000, "it ends");
        let Some(next) = part.next else { break };
        after = next.to_vec();
    }
    let pairs: u64 = model.pairs.values().map(|pairs| pairs.len() as u64).sum();
    // An engine that verifies its files may keep some pairs in memory still.
    assert!(entries >= pairs || entries == 0 || parts == 1, "{entries} of {pairs} in {parts} parts");
    digests_tell_changes(&engine);
}

fn digests_tell_changes(engine: &dyn Engine) {
    let of = |read: &dyn EngineRead| digest(read, SPACES[1]).unwrap();
    let (snapshot, before) = (engine.snapshot().unwrap(), of(engine));
    assert_eq!(before.pairs, PART_PAIRS_MAX + 17);
    engine.write(&batch([put(SPACES[1], "one more", "")])).unwrap();
    assert_eq!(of(engine).pairs, before.pairs + 1);
    assert_ne!(of(engine).hash, before.hash);
    assert_eq!(of(&*snapshot), before, "of a snapshot it stays");
    engine.write(&batch([delete(SPACES[1], "one more")])).unwrap();
    assert_eq!(of(engine), before);
    assert_eq!(digest(engine, SpaceId(99)), Ok(Digest::default()));
}
