//! Lost power: what returned `Ok` is there, what did not is there whole or not at all.

use super::model::{batch, durable, put, Model, Random};
use super::EngineFactory;
use crate::{BatchOperation, Engine};
use base_types::SpaceId;

const SPACES: [SpaceId; 3] = [SpaceId(1), SpaceId(2), SpaceId(300)];
const CRASH_SEEDS: u64 = 3;
const CRASH_ROUNDS: u64 = 8;

/// Crashes between and during writes; the histories continue from the images too.
pub fn a_crash_keeps_what_was_acknowledged<F: EngineFactory>(factory: &F) {
    for seed in 0..CRASH_SEEDS {
        let mut random = Random::new(seed);
        let mut engine = factory.open();
        let mut model = Model::default();
        let mut index = 0;
        for round in 0..CRASH_ROUNDS {
            let when = format!("seed {seed}, round {round}");
            let one = random.batch(&SPACES, 120, &mut index);
            let mut after = model.clone();
            after.apply(&one);
            for image in factory.crash_during(&engine, &one, random.draw()) {
                let whole = after.matches(&image, &SPACES);
                assert!(whole || model.matches(&image, &SPACES), "{when}: a crash left part of a batch");
                goes_on(&image, if whole { &after } else { &model }, &when);
            }
            model = after;
            model.assert_shown_by(&engine, &SPACES, &when);
            let crashed = factory.crash(&engine);
            model.assert_shown_by(&crashed, &SPACES, &when);
            if random.below(3) == 0 {
                engine = crashed;
            }
        }
    }
}

/// What a crash left is a working engine.
fn goes_on(engine: &dyn Engine, model: &Model, when: &str) {
    let more = batch([put(SPACES[0], "after the crash", vec![1; 5000]), durable(SPACES[1], 1 << 50)]);
    engine.write(&more).unwrap();
    let mut model = model.clone();
    model.apply(&more);
    model.assert_shown_by(engine, &SPACES, when);
}

/// An error from `write` means that nothing of the batch is there, now or after a crash.
pub fn a_failed_write_leaves_nothing<F: EngineFactory>(factory: &F) {
    let engine = factory.open();
    let first = batch([put(SPACES[0], "kept", "1"), durable(SPACES[0], 1)]);
    engine.write(&first).unwrap();
    if !factory.fail_next_write(&engine) {
        return;
    }
    let mut model = Model::default();
    model.apply(&first);
    let many: Vec<BatchOperation> = (0..2000).map(|i| put(SPACES[1], format!("{i}"), vec![2; 4000])).collect();
    let failing = batch([vec![put(SPACES[0], "kept", "2"), durable(SPACES[0], 2)], many].concat());
    assert!(engine.write(&failing).is_err());
    model.assert_shown_by(&engine, &SPACES, "after the failed write");
    model.assert_shown_by(&factory.crash(&engine), &SPACES, "after the write and a crash");
    model.assert_shown_by(&factory.reopen(engine), &SPACES, "after the write and reopening");
}
