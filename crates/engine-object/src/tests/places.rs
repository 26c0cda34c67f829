//! Directories and places: what is refused, with which words, and that nothing is touched.

use crate::{ObjectConfig, ObjectEngine};
use base_engine::conformance::{batch, durable, put};
use base_engine::{Engine, EngineError, EngineRead};
use std::path::Path;

use super::A;

fn config(url: &str) -> ObjectConfig {
    ObjectConfig { url: url.into(), identity: "test".into(), cache_bytes: 1 << 20, ..ObjectConfig::default() }
}

fn refused(directory: &Path, config: &ObjectConfig) -> EngineError {
    crate::open(directory, config).map(|_: ObjectEngine| ()).unwrap_err()
}

#[test]
fn a_directory_of_its_own_and_a_directory_elsewhere() {
    let home = tempfile::tempdir_in(base_engine::conformance::scratch()).unwrap();
    let elsewhere = format!("file://{}", home.path().join("elsewhere").display());
    for (name, url) in [("own", ""), ("other", &elsewhere)] {
        let directory = home.path().join(name);
        let engine = crate::open(&directory, &config(url)).unwrap();
        engine.write(&batch([put(A, "k", "v"), durable(A, 3)])).unwrap();
        drop(engine);
        let engine = crate::open(&directory, &config(url)).unwrap();
        assert_eq!((engine.get(A, b"k").unwrap().unwrap(), engine.durable_index(A).unwrap().0), ("v".into(), 3));
        assert_eq!(engine.verify().unwrap(), 1);
    }
    // A machine that has only the place takes it on.
    let fresh = crate::open(home.path().join("fresh"), &config(&elsewhere)).unwrap();
    assert_eq!(fresh.get(A, b"k").unwrap().unwrap(), "v");
    drop(fresh);
    // With another place, the data would seem to be gone.
    let error = refused(&home.path().join("other"), &config("")).to_string();
    assert!(error.contains("engine.object.url"), "{error}");
    let engine = crate::open(home.path().join("other"), &config(&elsewhere)).unwrap();
    assert_eq!(engine.get(A, b"k").unwrap().unwrap(), "v");
}

#[test]
fn a_second_open_of_a_directory_waits_for_the_first() {
    let home = tempfile::tempdir_in(base_engine::conformance::scratch()).unwrap();
    let engine = crate::open(home.path(), &config("")).unwrap();
    let error = refused(home.path(), &config(""));
    assert!(error.to_string().contains("LOCK") || error.to_string().contains("open"), "{error}");
    engine.write(&batch([put(A, "k", "v")])).unwrap();
}

#[test]
fn places_that_are_none_are_refused() {
    let home = tempfile::tempdir_in(base_engine::conformance::scratch()).unwrap();
    let error = refused(&home.path().join("y"), &config("file:///proc/none")).to_string();
    assert!(error.contains("may write"), "{error}");
    for (url, word) in [("http://x", "s3://"), ("s3://", "bucket")] {
        let error = refused(&home.path().join("x"), &config(url)).to_string();
        assert!(error.contains(word), "{url}: {error}");
        assert!(!home.path().join("x").exists(), "{url}: nothing was made");
    }
}

#[test]
fn another_engines_directory_is_refused() {
    let home = tempfile::tempdir_in(base_engine::conformance::scratch()).unwrap();
    std::fs::write(home.path().join("data.mdb"), b"of lmdb").unwrap();
    let error = refused(home.path(), &config(""));
    assert!(matches!(&error, EngineError::WrongFormat(text) if text.contains("data.mdb")), "{error}");
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1);
}

#[test]
fn a_newer_format_is_refused() {
    let home = tempfile::tempdir_in(base_engine::conformance::scratch()).unwrap();
    drop(crate::open(home.path(), &config("")).unwrap());
    let path = home.path().join("ENGINE");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("format 1", "format 99")).unwrap();
    let error = refused(home.path(), &config("")).to_string();
    assert!(error.contains("format 99") && error.contains("newer"), "{error}");
}

/// A reader that has the objects and nothing else finds their owner and opens them.
#[test]
fn what_a_place_holds_is_found() {
    let home = tempfile::tempdir_in(base_engine::conformance::scratch()).unwrap();
    let url = format!("file://{}", home.path().join("bucket").display());
    for lane in 0..2 {
        let own = ObjectConfig { identity: format!("w lane {lane}"), note: "2 lanes".into(), ..config(&url) };
        let engine = crate::open(home.path().join(format!("{lane}")), &own).unwrap();
        engine.write(&batch([put(A, "lane", format!("{lane}"))])).unwrap();
    }
    let found = crate::held(&url, &Default::default()).unwrap();
    assert_eq!(found.iter().map(|held| &held.owner[..]).collect::<Vec<_>>(), ["w lane 0", "w lane 1"]);
    assert!(found.iter().all(|held| held.note == "2 lanes"));
    let engine = crate::open_held(&home.path().join("again"), &found[1], &config("")).unwrap();
    assert_eq!(engine.get(A, b"lane").unwrap().unwrap(), "1");
    let nothing = crate::held(&format!("file://{}", home.path().join("nothing").display()), &Default::default());
    assert!(nothing.unwrap().is_empty());
}

/// An object that rotted is damage, told by name of what was done; never a wrong value.
#[test]
fn rotten_objects_are_damage() {
    let home = tempfile::tempdir_in(base_engine::conformance::scratch()).unwrap();
    let engine = crate::open(home.path(), &config("")).unwrap();
    for i in 0..50 {
        engine.write(&batch([put(A, format!("{i}"), vec![i as u8; 500])])).unwrap();
    }
    engine.store().write_out().unwrap();
    drop(engine);
    let tables = home.path().join("objects/hive/compacted");
    let table = std::fs::read_dir(tables).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&table).unwrap();
    bytes[2000] ^= 4;
    std::fs::write(&table, bytes).unwrap();
    let judged = crate::open(home.path(), &config("")).and_then(|engine| engine.verify());
    assert!(matches!(judged, Err(EngineError::Corrupt(_))), "{judged:?}");
}

/// Objects of a SlateDB that this release does not know are refused by name, and stay.
#[test]
fn objects_of_a_newer_format_are_refused() {
    let home = tempfile::tempdir_in(base_engine::conformance::scratch()).unwrap();
    let engine = crate::open(home.path(), &config("")).unwrap();
    engine.write(&batch([put(A, "k", "v")])).unwrap();
    drop(engine);
    let manifests = home.path().join("objects/hive/manifest");
    let manifests: Vec<_> = std::fs::read_dir(manifests).unwrap().map(|entry| entry.unwrap().path()).collect();
    for manifest in &manifests {
        let mut bytes = std::fs::read(manifest).unwrap();
        bytes[..2].copy_from_slice(&999u16.to_be_bytes());
        std::fs::write(manifest, bytes).unwrap();
    }
    let error = refused(home.path(), &config(""));
    assert!(matches!(&error, EngineError::WrongFormat(text) if text.contains("999")), "{error}");
    for manifest in &manifests {
        assert!(manifest.exists());
    }
}

/// The refusal of a directory without write permission names the directory and the remedy.
#[test]
fn a_place_that_is_a_file_is_refused() {
    let home = tempfile::tempdir_in(base_engine::conformance::scratch()).unwrap();
    let file = home.path().join("file");
    std::fs::write(&file, b"somebody's").unwrap();
    let error = refused(&home.path().join("marks"), &config(&format!("file://{}", file.display()))).to_string();
    assert!(error.contains("file") && error.contains("give a directory"), "{error}");
    assert_eq!(std::fs::read(&file).unwrap(), b"somebody's");
}
