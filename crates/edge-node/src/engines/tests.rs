//! What a lane offers, and what is made of it on the disk.

use super::*;
use base_engine::{BatchOperation, EngineError, WriteBatch};
use base_types::{LogIndex, SpaceId};

fn section() -> EngineSection {
    let mut section = EngineSection::default();
    section.lmdb.map_bytes_max = 16 << 20;
    section
}

fn put() -> WriteBatch {
    let space = SpaceId(1);
    let put = BatchOperation::Put { space, key: "k".into(), value: "v".into() };
    WriteBatch { operations: vec![put, BatchOperation::Durable { space, index: LogIndex(7) }] }
}

#[test]
fn every_name_is_an_engine_that_keeps_what_is_written() {
    let home = tempfile::tempdir().unwrap();
    let opened = open(home.path(), "test", "", &section()).unwrap();
    assert_eq!(opened.iter().map(|engine| engine.name()).collect::<Vec<_>>(), NAMES);
    let made = |name: &str| home.path().join(name).exists();
    assert!(NAMES.iter().all(|name| made(name) == (*name == "lmdb")), "nothing is made before it is used");
    for engine in &opened {
        assert_eq!(engine.get(SpaceId(1), b"k"), Ok(None));
        assert_eq!((engine.spaces(), engine.drop_space(SpaceId(1), 5)), (Ok(vec![]), Ok(false)));
        let before = engine.snapshot().unwrap();
        engine.write(&put()).unwrap();
        assert_eq!(before.get(SpaceId(1), b"k"), Ok(None));
        assert_eq!(engine.snapshot().unwrap().get(SpaceId(1), b"k"), Ok(Some("v".into())));
    }
    drop(opened);
    for engine in open(home.path(), "test", "", &section()).unwrap() {
        let kept = if engine.name() == "memory" { 0 } else { 7 };
        assert_eq!(engine.durable_index(SpaceId(1)), Ok(LogIndex(kept)), "{}", engine.name());
    }
}

#[test]
fn a_foreign_directory_stops_the_start_with_its_name() {
    for name in NAMES.iter().filter(|name| !["lmdb", "memory"].contains(name)) {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join(name)).unwrap();
        std::fs::write(home.path().join(name).join("somebody"), "else").unwrap();
        let error = open(home.path(), "test", "", &section()).err().unwrap();
        assert!(error.contains("somebody") && error.contains(&format!("engine {name}")), "{error}");
    }
}

#[test]
fn an_unknown_name_comes_with_those_that_are_there() {
    assert_eq!(remedy("btrieve"), format!("use one of {}", NAMES.join(", ")));
    assert!(remedy("redb").contains("cargo feature engine-redb"));
    let lazy = Lazy::new("x", "/proc/no/such".into(), Arc::new(|_| Err(EngineError::Io("never".into())))).unwrap();
    assert!(lazy.write(&put()).unwrap_err().to_string().contains("/proc/no/such"));
}

#[test]
fn providers_are_known_by_name_or_refused_with_what_to_do() {
    assert_eq!(check_providers(&[]), Ok(()));
    let known = cfg!(feature = "engine-rocksdb");
    assert_eq!(check_providers(&["size_and_age".into()]).is_ok(), known);
    let (found, remedy) = check_providers(&["colour".into()]).unwrap_err();
    assert_eq!(found, r#""colour""#);
    assert!(remedy.contains(if known { "size_and_age" } else { "engine-rocksdb" }), "{remedy}");
}

/// As a node has it whose node.toml says so: what is beside a key is read from its files.
#[cfg(feature = "engine-rocksdb")]
#[test]
fn what_a_node_is_told_to_keep_beside_keys_is_there() {
    use base_engine::stored::format::pair_key;
    use engine_rocksdb::{RocksConfig, SizeAndAge};
    let home = tempfile::tempdir().unwrap();
    let beside = |section: &EngineSection, key: &str| {
        let space = SpaceId(1);
        let put = |key: &str| BatchOperation::Put { space, key: key.to_owned().into(), value: "value".into() };
        let rocks = |section: &EngineSection| {
            open(home.path(), "", "", section).unwrap().into_iter().find(|engine| engine.name() == "rocksdb").unwrap()
        };
        // The last key of a table has its metadata elsewhere.
        let operations = vec![put(key), put("last"), BatchOperation::Durable { space, index: LogIndex(7) }];
        rocks(section).write(&WriteBatch { operations }).unwrap();
        // Opened again, what is in the journal reaches a table.
        drop(rocks(section));
        let engine = engine_rocksdb::open(home.path().join("rocksdb"), RocksConfig::default()).unwrap();
        let kept = engine.store().metadata(&pair_key(space, key.as_bytes())).unwrap();
        kept.first().and_then(|kept| kept.of(SizeAndAge::TAG)).and_then(SizeAndAge::read)
    };
    assert_eq!(beside(&section(), "before"), None);
    let mut told = section();
    told.metahive_providers = vec![SizeAndAge::NAME.into()];
    let (bytes, since) = beside(&told, "k").unwrap();
    assert!(bytes >= 5 && since > 1_700_000_000, "{bytes} bytes since {since}");
}

#[test]
fn a_damaged_engine_is_set_aside_and_made_anew() {
    let home = tempfile::tempdir().unwrap();
    let lmdb = |engines: Vec<Arc<dyn Engine>>| engines.into_iter().find(|engine| engine.name() == "lmdb").unwrap();
    lmdb(open(home.path(), "test", "", &section()).unwrap()).write(&put()).unwrap();
    let aside = || {
        let names =
            std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name.starts_with("lmdb.damaged")).collect();
        names.sort();
        names
    };
    // A write met the damage: the next start knows.
    aside::mark(&home.path().join("lmdb"), "MDB_PAGE_FULL");
    assert_eq!(aside(), ["lmdb.damaged"]);
    let opened = lmdb(open(home.path(), "test", "", &section()).unwrap());
    assert_eq!(opened.get(SpaceId(1), b"k"), Ok(None));
    opened.write(&put()).unwrap();
    drop(opened);
    assert_eq!(aside().len(), 1);
    assert!(home.path().join(&aside()[0]).join("data.mdb").exists(), "nothing is deleted");
    // Nothing is set aside twice.
    assert_eq!(lmdb(open(home.path(), "test", "", &section()).unwrap()).get(SpaceId(1), b"k"), Ok(Some("v".into())));
    // Opening meets it.
    std::fs::write(home.path().join("lmdb/data.mdb"), vec![7; 1 << 16]).unwrap();
    assert_eq!(lmdb(open(home.path(), "test", "", &section()).unwrap()).get(SpaceId(1), b"k"), Ok(None));
    assert_eq!(aside().len(), 2);
    // Another lane's is refused as it is.
    assert!(open(home.path(), "another", "", &section()).is_err());
    assert_eq!(aside().len(), 2);
}
