//! Ranges in both directions against the twin, and long random histories.

use super::model::{batch, collect, put, Model, Random};
use super::EngineFactory;
use crate::{Direction, Engine, EngineRead, KeyRange};
use base_types::SpaceId;
use std::ops::ControlFlow;

const SPACES: [SpaceId; 4] = [SpaceId(0), SpaceId(7), SpaceId(8), SpaceId(u64::MAX)];
const HISTORY_SEEDS: u64 = 4;
const HISTORY_STEPS: u64 = 60;

fn compare_ranges(read: &dyn EngineRead, model: &Model, random: &mut Random, rounds: usize) {
    for _ in 0..rounds {
        let space = SPACES[random.below(SPACES.len() as u64) as usize];
        let (start, end) = (random.key(), random.key());
        for end in [None, Some(&end[..])] {
            for start in [&[][..], &start[..]] {
                let range = KeyRange { start, end };
                for direction in [Direction::Forward, Direction::Backward] {
                    let seen = collect(read, space, range, direction);
                    assert_eq!(seen, model.range(space, range, direction), "{range:?} {direction:?}");
                }
            }
        }
    }
}

/// Every combination of bounds, both directions: empty, reversed and open ranges too.
pub fn ranges_match_the_twin<F: EngineFactory>(factory: &F) {
    let mut random = Random::new(42);
    let engine = factory.open();
    let mut model = Model::default();
    compare_ranges(&engine, &model, &mut random, 5);
    for _ in 0..3 {
        let one = random.batch(&SPACES, 200, &mut 0);
        engine.write(&one).unwrap();
        model.apply(&one);
        compare_ranges(&engine, &model, &mut random, 60);
    }
    compare_ranges(&*engine.snapshot().unwrap(), &model, &mut random, 60);
}

/// A visit that breaks is not called again.
pub fn a_broken_visit_stops<F: EngineFactory>(factory: &F) {
    let engine = factory.open();
    let space = SpaceId(3);
    engine.write(&batch((0..100).map(|i| put(space, format!("{i:03}"), "v")).collect::<Vec<_>>())).unwrap();
    for direction in [Direction::Forward, Direction::Backward] {
        for stop_at in [1, 2, 99, 100] {
            let mut calls = 0;
            let visited = engine.range(space, KeyRange::ALL, direction, &mut |_, _| {
                calls += 1;
                if calls == stop_at {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            });
            assert_eq!((visited, calls), (Ok(()), stop_at));
        }
    }
    let mut inner = 0;
    let nested =
        engine.range(space, KeyRange { start: b"050", end: Some(b"060") }, Direction::Forward, &mut |key, _| {
            inner += usize::from(engine.get(space, key) == Ok(Some("v".into())));
            ControlFlow::Continue(())
        });
    assert_eq!((nested, inner), (Ok(()), 10), "a visit may read");
}

/// Random batches, reopenings and drops: always equal to the twin.
pub fn random_histories_match_the_twin<F: EngineFactory>(factory: &F) {
    for seed in 0..HISTORY_SEEDS {
        let mut random = Random::new(1000 + seed);
        let mut engine = factory.open();
        let mut model = Model::default();
        let mut index = 0;
        for step in 0..HISTORY_STEPS {
            match random.below(20) {
                0 => engine = factory.reopen(engine),
                1 => {
                    let space = SPACES[random.below(SPACES.len() as u64) as usize];
                    while engine.drop_space(space, 3).unwrap() {}
                    model.pairs.remove(&space);
                    model.durable.remove(&space);
                }
                _ => {
                    let one = random.batch(&SPACES, 30, &mut index);
                    engine.write(&one).unwrap();
                    model.apply(&one);
                }
            }
            if step % 5 == 0 {
                model.assert_shown_by(&engine, &SPACES, &format!("seed {seed}, step {step}"));
                assert_eq!(engine.spaces().unwrap(), model.spaces(), "seed {seed}, step {step}");
                compare_ranges(&engine, &model, &mut random, 3);
            }
        }
    }
}
