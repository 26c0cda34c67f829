//! A key in which a bit flipped: what is missing by it is never told as absence.

use super::model::{batch, durable, put, Model, Random};
use super::EngineFactory;
use crate::fences::FENCE_KEYS_MAX;
use crate::stored::{format, Changes, RawStore, RawView};
use crate::{Direction, Engine, EngineError, EngineRead, KeyRange};
use base_types::SpaceId;
use bytes::Bytes;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

const SPACES: [SpaceId; 3] = [SpaceId(3), SpaceId(4), SpaceId(u64::MAX)];
const KEYS: u64 = 300;
/// Flips tried, each on an engine of its own; more with this variable in the environment: `800..1000` are two hundred. All engines of one
/// run stay on the disk until its end ([`super::scratch`] may be memory), so there are at most so many.
const FLIPS: u64 = 24;
const FLIPS_MAX: u64 = 250;
const FLIPS_VARIABLE: &str = "HIVE_KEY_FLIPS";
/// The same of an engine of a format without fences, after it got them.
const FLIPS_IN_OLD_ENGINES: u64 = 6;

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

/// An engine with some keys in each space, what it holds, and all keys.
fn filled<F: EngineFactory>(factory: &F) -> (F::Engine, Model, Vec<Vec<u8>>) {
    let (engine, mut model) = (factory.open(), Model::default());
    // Keys that begin alike and such that do not; no two so alike that a flip makes one of the other.
    let named = |i: u64| format!("{:04x} of the user {:020}", i * 40_503 % 65_536, i * 7_919).into_bytes();
    for space in SPACES {
        let operations: Vec<_> = (0..KEYS).map(|i| put(space, named(i), vec![i as u8; 30])).collect();
        for (at, part) in operations.chunks(100).enumerate() {
            let one = batch([part.to_vec(), vec![durable(space, at as u64 + 1)]].concat());
            engine.write(&one).unwrap();
            model.apply(&one);
        }
    }
    (engine, model, (0..KEYS).map(named).collect())
}

/// Flips a bit in a key, and asks for everything: whether anything said so. `None`: no key lies on a disk.
fn check_flip<F: EngineFactory>(
    factory: &F,
    (engine, model, keys): (F::Engine, Model, Vec<Vec<u8>>),
    random: &mut Random,
) -> Option<bool> {
    let key = &keys[random.below(keys.len() as u64) as usize];
    let engine = match factory.flip_key(engine, key, random)? {
        Ok(engine) => engine,
        Err(error) => {
            let may_refuse =
                matches!(error, EngineError::Corrupt(_) | EngineError::Io(_) | EngineError::WrongFormat(_));
            assert!(may_refuse, "{error}");
            return Some(true);
        }
    };
    let went_back = |space: &SpaceId| engine.durable_index(*space).is_ok_and(|index| index < model.durable[space]);
    if SPACES.iter().any(went_back) {
        return Some(true);
    }
    let refused = answers_are_right_or_errors(&engine, &model);
    if refused > 0 {
        the_damage_stays(&engine, &model);
    }
    Some(refused > 0)
}

/// Flips bits in keys as they lie on the disk. An engine may also refuse to open, or go back as a whole (its durable index
/// says so).
pub fn a_flipped_key_is_never_absence<F: EngineFactory>(factory: &F) {
    let flips = std::env::var(FLIPS_VARIABLE).map_or(0..FLIPS, |text| {
        let (from, to) = text.split_once("..").expect("HIVE_KEY_FLIPS=FROM..TO");
        from.parse().expect("a number")..to.parse().expect("a number")
    });
    assert!(flips.end - flips.start <= FLIPS_MAX, "at most {FLIPS_MAX} flips a run");
    let told = |seed| check_flip(factory, filled(factory), &mut Random::new(1_000 + seed));
    let told: Vec<bool> = flips.filter_map(told).collect();
    let found = told.iter().filter(|told| **told).count();
    println!("{} keys flipped, {found} told of, no wrong answer", told.len());
    assert!(told.is_empty() || found > 0, "none of {} flips touched anything that is read", told.len());
}

/// An engine of a format without fences answers as before, and proves absence from then on.
pub fn an_engine_without_fences_gets_them<F: EngineFactory>(factory: &F) {
    let mut found = 0;
    for seed in 0..FLIPS_IN_OLD_ENGINES {
        let (engine, mut model, keys) = filled(factory);
        if !factory.take_fences_away(&engine) {
            return;
        }
        assert!(engine.get(SPACES[0], b"absent").is_err(), "nothing proves a miss now");
        let engine = factory.reopen(engine);
        assert_eq!(answers_are_right_or_errors(&engine, &model), 0);
        let more = batch([put(SPACES[1], "of the new format", "new")]);
        engine.write(&more).unwrap();
        model.apply(&more);
        let engine = factory.reopen(engine);
        assert_eq!(answers_are_right_or_errors(&engine, &model), 0, "its fences are of the newest format");
        let told = check_flip(factory, (engine, model, keys), &mut Random::new(2_000 + seed));
        found += usize::from(told == Some(true));
    }
    assert!(found > 0, "no flip was reported: it has no fences");
}

fn walk(engine: &dyn Engine, space: SpaceId) -> Result<Vec<Bytes>, EngineError> {
    let mut keys = Vec::new();
    engine.range(space, KeyRange::ALL, Direction::Forward, &mut |key, _| {
        keys.push(Bytes::copy_from_slice(key));
        ControlFlow::Continue(())
    })?;
    Ok(keys)
}

/// Makes a store one of the version before fences: they, their roll and the marker's version go.
pub fn take_fences_of_a_store_away<S: RawStore>(store: &S) {
    let view = store.view().unwrap();
    let mut keys = vec![format::ROLL_KEY.to_vec()];
    view.range(&[format::FENCE_TAG], &[format::FENCE_TAG + 1], Direction::Forward, &mut |key, _| {
        keys.push(key.to_vec());
        Ok(ControlFlow::Continue(()))
    })
    .unwrap();
    drop(view);
    assert!(keys.len() > SPACES.len(), "it has fences");
    store.commit(&Changes::version(format::FORMAT_VERSION).without_fences(keys, None)).unwrap();
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
        // What a damaged branch hides from every walk cannot be dropped: then the space stays refused, and a replica made in its
        // place gets another.
        let all = walk(engine, SPACES[0]);
        assert!(all.is_err() || all == Ok(vec![]), "{all:?}");
        if engine.write(&batch([put(SPACES[0], "k", "v")])).is_ok() {
            let (there, absent) = (engine.get(SPACES[0], b"k"), engine.get(SPACES[0], b"l"));
            assert!(there.is_err() || there == Ok(Some("v".into())), "{there:?}");
            assert!(absent.is_err() || absent == Ok(None), "{absent:?}");
        }
    }
}
