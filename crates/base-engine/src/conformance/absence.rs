//! A key in which a bit flipped: what is missing by it is never told as absence.

use super::model::{batch, collect, durable, put, Model, Random};
use super::EngineFactory;
use crate::fences::FENCE_KEYS_MAX;
use crate::{Direction, Engine, EngineError, EngineRead, KeyRange};
use base_types::SpaceId;
use bytes::Bytes;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

const SPACES: [SpaceId; 3] = [SpaceId(3), SpaceId(4), SpaceId(u64::MAX)];
const KEYS: u64 = 300;
/// Flips tried, each on an engine of its own.
const FLIPS: u64 = 24;

/// Flips one bit of one stored copy of a key in the files below a directory; whether there was one.
pub fn flip_key_in_files(directory: &Path, key: &[u8], random: &mut Random) -> bool {
    let mut files = vec![directory.to_path_buf()];
    let mut hits: Vec<(PathBuf, usize)> = Vec::new();
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        hits.extend(
            bytes.windows(key.len()).enumerate().filter(|(_, at)| *at == key).map(|(at, _)| (path.clone(), at)),
        );
    }
    hits.sort();
    let Some((path, at)) = hits.get(random.below(hits.len() as u64) as usize).cloned() else { return false };
    let mut bytes = std::fs::read(&path).unwrap();
    let bit = random.below(key.len() as u64 * 8) as usize;
    bytes[at + bit / 8] ^= 1 << (bit % 8);
    std::fs::write(&path, bytes).unwrap();
    true
}

/// Of everything the engine is asked, each answer is right or an error; how many were errors.
fn answers_are_right_or_errors(engine: &dyn Engine, model: &Model) -> u64 {
    let mut refused = 0;
    let mut right = |is: Result<bool, EngineError>, what: &dyn Fn() -> String| match is {
        Ok(right) => assert!(right, "{}", what()),
        Err(error) => {
            assert!(!matches!(error, EngineError::Full(_) | EngineError::SnapshotExpired), "{error}");
            refused += 1;
        }
    };
    right(engine.spaces().map(|spaces| spaces == model.spaces()), &|| "spaces".into());
    for space in SPACES {
        let expected = model.durable.get(&space).copied().unwrap_or_default();
        right(engine.durable_index(space).map(|index| index == expected), &|| format!("index of {space}"));
        let pairs = &model.pairs[&space];
        for (key, value) in pairs {
            let ask = |key: &[u8], value: Option<&Bytes>| engine.get(space, key).map(|found| found.as_ref() == value);
            right(ask(key, Some(value)), &|| format!("{key:?} of space {space}"));
            let absent = [&key[..], b"!"].concat();
            right(ask(&absent, None), &|| format!("{key:?}! of space {space}"));
        }
        for direction in [Direction::Forward, Direction::Backward] {
            for start in std::iter::once(Bytes::new()).chain(pairs.keys().step_by(41).cloned()) {
                for limit in [1, FENCE_KEYS_MAX as usize + 1, usize::MAX] {
                    let bounds = KeyRange { start: &start, end: None };
                    let mut seen = Vec::new();
                    let walked = engine.range(space, bounds, direction, &mut |key, value| {
                        seen.push((Bytes::copy_from_slice(key), Bytes::copy_from_slice(value)));
                        if seen.len() < limit {
                            ControlFlow::Continue(())
                        } else {
                            ControlFlow::Break(())
                        }
                    });
                    let expected: Vec<_> = model.range(space, bounds, direction).into_iter().take(limit).collect();
                    right(walked.map(|()| seen == expected), &|| {
                        format!("{} of {} pairs from {start:?}, {direction:?}", seen.len(), expected.len())
                    });
                }
            }
        }
    }
    refused
}

/// Flips bits in keys as they lie on the disk. An engine may also refuse to open, or go back as a whole (its durable index
/// says so).
pub fn a_flipped_key_is_never_absence<F: EngineFactory>(factory: &F) {
    let (mut found, mut flipped) = (0, 0);
    for seed in 0..FLIPS {
        let mut random = Random::new(1_000 + seed);
        let (engine, mut model) = (factory.open(), Model::default());
        let mut keys = Vec::new();
        for space in SPACES {
            // Keys that begin alike and such that do not; no two so alike that a flip makes one of the other.
            let named = |i: u64| format!("{:04x} of the user {:020}", i * 40_503 % 65_536, i * 7_919).into_bytes();
            let operations: Vec<_> = (0..KEYS).map(|i| put(space, named(i), vec![i as u8; 30])).collect();
            keys.extend((0..KEYS).map(|i| (space, named(i))));
            for (at, part) in operations.chunks(100).enumerate() {
                let one = batch([part.to_vec(), vec![durable(space, at as u64 + 1)]].concat());
                engine.write(&one).unwrap();
                model.apply(&one);
            }
        }
        let (_, key) = keys[random.below(keys.len() as u64) as usize].clone();
        let Some(opened) = factory.flip_key(engine, &key, &mut random) else { continue };
        flipped += 1;
        let engine = match opened {
            Ok(engine) => engine,
            Err(error) => {
                assert!(
                    matches!(error, EngineError::Corrupt(_) | EngineError::Io(_) | EngineError::WrongFormat(_)),
                    "{error}"
                );
                found += 1;
                continue;
            }
        };
        let index = |space: &SpaceId| engine.durable_index(*space).is_ok_and(|index| index < model.durable[space]);
        if SPACES.iter().any(index) {
            found += 1;
            continue;
        }
        let refused = answers_are_right_or_errors(&engine, &model);
        found += u64::from(refused > 0);
        if refused > 0 {
            the_damage_stays(&engine, &model);
        }
    }
    assert!(flipped == 0 || found > 0, "none of {flipped} flips touched anything that is read");
}

/// Writes do not make what is wrong right: more keys come and go around it, and it is an error or right as before.
fn the_damage_stays(engine: &dyn Engine, model: &Model) {
    let mut model = model.clone();
    for space in SPACES {
        let more: Vec<_> =
            model.pairs[&space].keys().step_by(2).map(|key| put(space, [key, &b"+"[..]].concat(), "new")).collect();
        let one = batch(more);
        if engine.write(&one).is_err() {
            return;
        }
        model.apply(&one);
    }
    answers_are_right_or_errors(engine, &model);
    let dropped = SPACES.iter().all(|space| {
        let mut steps = std::iter::from_fn(|| Some(engine.drop_space(*space, 100))).take(1_000);
        steps.find(|left| *left != Ok(true)).is_some_and(|left| left == Ok(false))
    });
    if dropped {
        assert_eq!(collect(engine, SPACES[0], KeyRange::ALL, Direction::Forward), vec![]);
        engine.write(&batch([put(SPACES[0], "k", "v")])).unwrap();
        assert_eq!((engine.get(SPACES[0], b"k"), engine.get(SPACES[0], b"l")), (Ok(Some("v".into())), Ok(None)));
    }
}
