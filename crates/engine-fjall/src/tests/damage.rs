//! Directories that are not ours, and files that are not what was written.

use super::images::{self, Image};
use super::{FjallFactory, A};
use crate::{FjallConfig, FjallEngine, DATA_DIRECTORY};
use base_engine::conformance::{batch, put, EngineFactory};
use base_engine::stored::directory::ENGINE_FILE;
use base_engine::{Engine, EngineError, EngineRead};
use std::fs;
use std::path::Path;

fn open_error(directory: &Path, config: FjallConfig) -> EngineError {
    crate::open(directory, config).err().expect("it must be refused")
}

/// Refused with `WrongFormat`, with a word that helps, and not one byte changed.
fn refused_untouched(directory: &Path, config: FjallConfig, word: &str) {
    let before = images::read(directory);
    let error = open_error(directory, config);
    assert!(matches!(error, EngineError::WrongFormat(_)), "{error:?}");
    assert!(error.to_string().contains(word), "'{error}' should say '{word}'");
    assert_eq!(images::read(directory), before, "untouched");
}

fn filled(factory: &FjallFactory) -> FjallEngine {
    let engine = factory.open();
    let value = |i: u64| (0..100 + i * 7).map(|at| (at * at + i * 31) as u8).collect::<Vec<u8>>();
    engine.write(&batch((0..300).map(|i| put(A, format!("key {i:04}"), value(i))).collect::<Vec<_>>())).unwrap();
    engine.store().write_out().unwrap();
    engine
}

#[test]
fn directories_of_others_are_refused_untouched() {
    let factory = FjallFactory::new(1 << 20, false);
    for (file, text, word) in [
        ("IDENTITY", "rocks", "IDENTITY"),
        (ENGINE_FILE, "hive engine redb format 1\n", "redb"),
        (
            ENGINE_FILE,
            "hive engine fjall format 2\n",
            "format 2, this program reads up to 1; start it with the newer release",
        ),
        (DATA_DIRECTORY, "somebody's", "another program"),
    ] {
        let directory = factory.new_directory();
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join(file), text).unwrap();
        refused_untouched(&directory, factory.config(), word);
    }
}

#[test]
fn an_open_directory_and_another_identity_are_refused() {
    let factory = FjallFactory::new(1 << 20, false);
    let engine = filled(&factory);
    let directory = engine.directory().to_path_buf();
    let error = open_error(&directory, factory.config());
    assert!(error.to_string().contains("is open in another fjall engine"), "{error}");
    drop(engine);
    refused_untouched(&directory, FjallConfig { identity: "node 7".into(), ..factory.config() }, "node 7");
    assert_eq!(factory.open_at(&directory).verify(), Ok(300));
}

#[test]
fn a_making_cut_short_is_made_again() {
    let factory = FjallFactory::new(1 << 20, false);
    let directory = factory.new_directory();
    fs::create_dir_all(directory.join(DATA_DIRECTORY)).unwrap();
    fs::write(directory.join(ENGINE_FILE), "hive engine fjall format 1 being made\nidentity test\n").unwrap();
    fs::write(directory.join(DATA_DIRECTORY).join("version"), "half").unwrap();
    assert_eq!(factory.open_at(&directory).spaces(), Ok(vec![]));
    assert_eq!(factory.open_at(&directory).verify(), Ok(0));
}

fn without(image: &Image, name: &str) -> Image {
    image
        .iter()
        .filter(|(path, _)| !path.to_str().unwrap().contains(name))
        .map(|(p, f)| (p.clone(), f.clone()))
        .collect()
}

/// Any file lost, or any cut short: refused, or found by a whole check.
#[test]
fn lost_and_cut_files_are_damage() {
    let factory = FjallFactory::new(1 << 20, false);
    let engine = filled(&factory);
    let image = images::read(engine.directory());
    drop(engine);
    let names: Vec<String> = image.keys().map(|path| path.to_str().unwrap().to_string()).collect();
    assert!(names.len() > 6, "{names:?}");
    for name in names.iter().filter(|name| !name.ends_with("jnl") && *name != ENGINE_FILE && !name.ends_with("lock")) {
        let mut cut = image.clone();
        let file = cut.get_mut(Path::new(name)).unwrap();
        file.0.truncate(file.0.len() / 2);
        file.1 = file.0.len() as u64;
        for (what, damaged) in [("lost", without(&image, name)), ("cut", cut)] {
            let found = images::open(&factory, &damaged).and_then(|engine| engine.verify());
            let unused = found == Ok(300); // A version of the tree that a later one replaced.
            assert!(
                unused || matches!(found, Err(EngineError::Corrupt(_) | EngineError::WrongFormat(_))),
                "{name} {what}: {found:?}"
            );
        }
    }
    assert!(matches!(images::open(&factory, &without(&image, DATA_DIRECTORY)).err(), Some(EngineError::Corrupt(_))));
}

/// Single flipped bits in tables and files of values: never a wrong answer.
#[test]
fn flipped_bits_never_give_a_wrong_answer() {
    let factory = FjallFactory::new(1 << 20, false);
    let engine = filled(&factory);
    let image = images::read(engine.directory());
    let expected: Vec<_> = (0..300).map(|i| engine.get(A, format!("key {i:04}").as_bytes()).unwrap()).collect();
    drop(engine);
    let tables = image.keys().filter(|path| path.to_str().unwrap().contains("/1/")).cloned().collect::<Vec<_>>();
    let (mut found, mut harmless) = (0, 0);
    for path in tables {
        let length = image[&path].0.len();
        for at in (0..length).step_by((length / 12).max(1)) {
            let mut damaged = image.clone();
            damaged.get_mut(&path).unwrap().0[at] ^= 0x08;
            let Ok(engine) = images::open(&factory, &damaged) else {
                found += 1;
                continue;
            };
            let mut met = false;
            for (i, value) in expected.iter().enumerate() {
                match engine.get(A, format!("key {i:04}").as_bytes()) {
                    Ok(read) => assert_eq!(read, *value, "{path:?} at {at}: key {i}"),
                    Err(error) => {
                        assert!(matches!(error, EngineError::Corrupt(_)), "{path:?} at {at}: {error:?}");
                        met = true;
                    }
                }
            }
            found += usize::from(met);
            harmless += usize::from(!met);
        }
    }
    assert!(found > 5, "{found} found, {harmless} harmless");
}
