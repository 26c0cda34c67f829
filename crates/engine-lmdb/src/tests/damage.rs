//! Directories that are not ours, and files that are not what was written.

use super::{batch, images, put, LmdbFactory, A};
use crate::directory::{DATA_FILE, ENGINE_FILE, LOCK_FILE};
use crate::format::{sealed, ROLL_KEY, SPACES_DATABASE, VERSION_KEY};
use crate::{LmdbConfig, LmdbEngine};
use base_engine::conformance::EngineFactory;
use base_engine::{Direction, Engine, EngineError, EngineRead, KeyRange};
use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

fn contents(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let name = |entry: &fs::DirEntry| entry.file_name().into_string().unwrap();
    let all = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    all.filter(|entry| name(entry) != LOCK_FILE).map(|entry| (name(&entry), fs::read(entry.path()).unwrap())).collect()
}

fn open_error(directory: &Path, factory: &LmdbFactory) -> EngineError {
    LmdbEngine::open(directory, factory.config()).err().expect("it must be refused")
}

/// Refused with `WrongFormat`, with a word that helps, and not one byte changed.
fn refused_untouched(directory: &Path, factory: &LmdbFactory, word: &str) {
    let before = contents(directory);
    let error = open_error(directory, factory);
    assert!(matches!(error, EngineError::WrongFormat(_)), "{error:?}");
    assert!(error.to_string().contains(word), "'{error}' should say '{word}'");
    assert_eq!(contents(directory), before, "untouched");
}

fn filled(factory: &LmdbFactory) -> LmdbEngine {
    let engine = factory.open();
    let pairs: Vec<_> = (0..500).map(|i| put(A, format!("key {i:04}"), vec![i as u8; 100 + i * 7])).collect();
    engine.write(&batch(pairs)).unwrap();
    engine
}

/// Makes it a directory of format 1: the third database, the roll and both markers' version go.
pub fn take_fences_away(engine: &LmdbEngine) {
    let environment = &engine.environment;
    let mut writer = environment.env.write_txn().unwrap();
    environment.fences.clear(&mut writer).unwrap();
    environment.meta.delete(&mut writer, ROLL_KEY).unwrap();
    environment.meta.put(&mut writer, VERSION_KEY, &sealed(VERSION_KEY, &1u32.to_le_bytes())).unwrap();
    writer.commit().unwrap();
    fs::write(engine.directory().join(ENGINE_FILE), "hive engine lmdb format 1\n").unwrap();
}

#[test]
fn directories_of_others_are_refused_untouched() {
    let factory = LmdbFactory::new(1 << 30);
    let foreign = factory.new_directory();
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("IDENTITY"), "rocks").unwrap();
    refused_untouched(&foreign, &factory, "IDENTITY");

    let other_engine = factory.new_directory();
    fs::create_dir(&other_engine).unwrap();
    fs::write(other_engine.join(ENGINE_FILE), "hive engine redb format 1\n").unwrap();
    refused_untouched(&other_engine, &factory, "redb");

    let no_lmdb = factory.new_directory();
    fs::create_dir(&no_lmdb).unwrap();
    fs::write(no_lmdb.join(DATA_FILE), vec![b'x'; 20_000]).unwrap();
    refused_untouched(&no_lmdb, &factory, "magic");
    fs::write(no_lmdb.join(DATA_FILE), b"short").unwrap();
    refused_untouched(&no_lmdb, &factory, "ends inside");
}

#[test]
fn another_programs_lmdb_is_refused_untouched() {
    let factory = LmdbFactory::new(1 << 30);
    let directory = factory.new_directory();
    fs::create_dir(&directory).unwrap();
    {
        // SAFETY: a fresh directory of this test's own.
        let env = unsafe { heed::EnvOpenOptions::new().max_dbs(4).open(&directory).unwrap() };
        let writer = env.write_txn().unwrap();
        env.create_databases_and_commit(writer, |opener, writer| -> Result<_, heed::Error> {
            let database =
                opener.create_database::<heed::types::Str, heed::types::Str>(writer, Some(SPACES_DATABASE))?;
            database.put(writer, "theirs", "value")?;
            Ok(heed::CommitOrAbort::<_, ()>::Commit(database))
        })
        .unwrap();
    }
    refused_untouched(&directory, &factory, "another program");
}

#[test]
fn newer_formats_and_other_identities_are_refused_untouched() {
    let factory = LmdbFactory::new(1 << 30);
    let engine = filled(&factory);
    let directory = engine.directory().to_path_buf();
    assert!(LmdbEngine::open(&directory, factory.config()).is_err(), "open already");
    drop(engine);

    fs::write(directory.join(ENGINE_FILE), "hive engine lmdb format 3\n").unwrap();
    refused_untouched(&directory, &factory, "format 3, this program reads up to 2; start it with the newer release");
    fs::write(directory.join(ENGINE_FILE), "hive engine lmdb format 2\n").unwrap();

    let before = contents(&directory);
    let other = LmdbConfig { identity: "node 7".into(), ..factory.config() };
    let error = LmdbEngine::open(&directory, other).err().unwrap();
    assert!(
        matches!(&error, EngineError::WrongFormat(text) if text.contains("\"test\"") && text.contains("node 7")),
        "{error}"
    );
    assert_eq!(contents(&directory), before);

    let engine = factory.open_at(&directory);
    let mut writer = engine.environment.env.write_txn().unwrap();
    engine.environment.meta.put(&mut writer, VERSION_KEY, &sealed(VERSION_KEY, &9u32.to_le_bytes())).unwrap();
    writer.commit().unwrap();
    drop(engine);
    refused_untouched(&directory, &factory, "format 9, this program reads up to 2; start it with the newer release");
}

#[test]
fn a_making_cut_short_is_made_again() {
    let factory = LmdbFactory::new(1 << 30);
    let directory = filled(&factory).directory().to_path_buf();
    fs::remove_file(directory.join(ENGINE_FILE)).unwrap();
    assert_eq!(factory.open_at(&directory).verify(), Ok(500), "the marker inside is enough");
    assert!(directory.join(ENGINE_FILE).exists());

    for zeroes in [0, 8192] {
        let directory = factory.new_directory();
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join(DATA_FILE), vec![0; zeroes]).unwrap();
        assert_eq!(factory.open_at(&directory).spaces(), Ok(vec![]));
    }
    let directory = factory.new_directory();
    fs::create_dir(&directory).unwrap();
    // SAFETY: a fresh directory of this test's own.
    drop(unsafe { heed::EnvOpenOptions::new().open(&directory).unwrap() });
    assert_eq!(factory.open_at(&directory).spaces(), Ok(vec![]), "LMDB's own making was done, ours was not");
}

#[test]
fn a_missing_or_cut_file_is_damage() {
    let factory = LmdbFactory::new(1 << 30);
    let engine = filled(&factory);
    let data = images::read(engine.directory());
    let mut refused = 0;
    for length in (0..data.len()).step_by(4096 * 7).chain([1, 100, 4096, 4097, data.len() - 4096, data.len() - 1]) {
        let directory = factory.new_directory();
        images::write(&directory, &data[..length]);
        match LmdbEngine::open(&directory, factory.config()) {
            Err(error) => {
                refused += 1;
                assert!(matches!(error, EngineError::Corrupt(_)), "cut at {length}: {error:?}");
            }
            // Only a free page, or zeroes, were cut off.
            Ok(engine) => assert_eq!(engine.verify(), Ok(500), "cut at {length}"),
        }
    }
    assert!(refused > 20, "nearly every cut loses something: {refused}");
    let directory = factory.new_directory();
    images::write(&directory, &data);
    fs::remove_file(directory.join(DATA_FILE)).unwrap();
    assert!(matches!(open_error(&directory, &factory), EngineError::Corrupt(_)));
}

#[test]
fn damaged_heads_are_damage() {
    let factory = LmdbFactory::new(1 << 30);
    let data = images::read(filled(&factory).directory());
    // Magic, version, page size, roots, last page, in both meta pages.
    for field in [16, 20, 40, 87, 135, 143] {
        let mut image = data.clone();
        for page in [0, 4096] {
            image[page + field] ^= 0x40;
        }
        let directory = factory.new_directory();
        images::write(&directory, &image);
        let error = open_error(&directory, &factory);
        assert!(matches!(error, EngineError::Corrupt(_)), "field at {field}: {error:?}");
    }
}

#[test]
fn a_flipped_bit_in_a_value_is_found_by_its_readers_only() {
    let factory = LmdbFactory::new(1 << 30);
    let engine = factory.open();
    let value: Vec<u8> = (0..5000u32).map(|i| (i * i % 251) as u8).collect();
    engine.write(&batch([put(A, "a", "small"), put(A, "large", &value), put(A, "z", "small too")])).unwrap();
    let mut data = images::read(engine.directory());
    let at = data.windows(64).rposition(|window| window == &value[100..164]).unwrap();
    data[at] ^= 4;
    let directory = factory.new_directory();
    images::write(&directory, &data);
    let damaged = factory.open_at(&directory);
    assert!(matches!(damaged.get(A, b"large"), Err(EngineError::Corrupt(_))));
    assert_eq!(damaged.get(A, b"z"), Ok(Some("small too".into())));
    let mut seen = 0;
    let walked = damaged.range(A, KeyRange::ALL, Direction::Forward, &mut |_, _| {
        seen += 1;
        ControlFlow::Continue(())
    });
    assert!(matches!(walked, Err(EngineError::Corrupt(_))));
    assert_eq!(seen, 1, "what stands before the damage is given");
    assert!(matches!(damaged.verify(), Err(EngineError::Corrupt(_))));
    damaged.write(&batch([put(A, "large", "mended")])).unwrap();
    assert_eq!(damaged.verify(), Ok(3));
}
