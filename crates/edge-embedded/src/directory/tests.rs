use crate::{OpenError, Options, Store};
use std::path::Path;

fn options() -> Options {
    Options { cores: Some(2), pin: false, ..Options::default() }
}

/// Names and contents of everything below a directory.
fn contents(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut out = Vec::new();
    let mut folders = vec![path.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => out.push((path.display().to_string(), std::fs::read(&path).unwrap())),
            }
        }
    }
    out.sort();
    out
}

fn refused(path: &Path, options: Options) -> OpenError {
    let before = path.exists().then(|| contents(path));
    let error = Store::open(path, options).map(|_| ()).expect_err("must be refused");
    assert_eq!(before, path.exists().then(|| contents(path)), "untouched: {error}");
    error
}

#[test]
fn other_directories_are_refused_untouched() {
    let home = tempfile::tempdir().unwrap();
    let missing = Options { create: false, ..options() };
    let error = refused(&home.path().join("none"), missing);
    assert!(matches!(error, OpenError::Missing { .. }), "{error}");
    assert!(!home.path().join("none").exists());
    std::fs::write(home.path().join("letter.txt"), "dear").unwrap();
    let error = refused(home.path(), options());
    assert!(error.to_string().contains("letter.txt"), "{error}");
    let file = home.path().join("letter.txt");
    assert!(matches!(Store::open(&file, options()), Err(OpenError::Io { .. })));
}

#[test]
fn what_a_store_was_made_with_stays() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("store");
    let store = Store::open(&path, options()).unwrap();
    assert!(matches!(Store::open(&path, options()), Err(OpenError::InUse { .. })));
    store.close().unwrap();
    let error = refused(&path, Options { cores: Some(3), ..options() });
    assert!(error.to_string().contains("cores = 2, not 3"), "{error}");
    let error = refused(&path, Options { engine: Some("redb".into()), ..options() });
    assert!(error.to_string().contains("engine = lmdb, not redb"), "{error}");
    let error = refused(&home.path().join("new"), Options { engine: Some("floppy".into()), ..options() });
    assert!(error.to_string().contains("use one of lmdb"), "{error}");
    assert!(matches!(refused(&path, Options { cores: Some(0), ..options() }), OpenError::Invalid(_)));
    let absent = Options { cores: None, ..options() };
    assert_eq!(Store::open(&path, absent).unwrap().cores(), 2);
}

#[test]
fn damaged_and_newer_markers_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("store");
    Store::open(&path, options()).unwrap().close().unwrap();
    let marker = path.join("hive-store.json");
    let text = std::fs::read_to_string(&marker).unwrap();
    std::fs::write(&marker, text.replace("\"format\":1", "\"format\":2")).unwrap();
    let newer = refused(&path, options()).to_string();
    assert!(newer.contains("has format 2, this build knows up to 1; use a newer build"), "{newer}");
    std::fs::write(&marker, &text[..text.len() / 2]).unwrap();
    assert!(matches!(refused(&path, options()), OpenError::Corrupt { .. }));
    std::fs::write(&marker, text.replace("\"cores\":2", "\"cores\":0")).unwrap();
    assert!(matches!(refused(&path, options()), OpenError::Corrupt { .. }));
}

#[test]
fn lost_files_are_noticed() {
    for (gone, word) in [("core-1/log", "core-1/log is gone"), ("core-1/lmdb", "engine's files are gone")] {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("store");
        let store = Store::open(&path, options()).unwrap();
        for key in 0..50u8 {
            store.put(&[key], b"value").unwrap();
        }
        store.close().unwrap();
        std::fs::remove_dir_all(path.join(gone)).unwrap();
        let error = Store::open(&path, options()).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    }
    // Segments alone.
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("store");
    let store = Store::open(&path, options()).unwrap();
    for key in 0..50u8 {
        store.put(&[key], b"value").unwrap();
    }
    store.close().unwrap();
    for entry in std::fs::read_dir(path.join("core-0/log")).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    let error = Store::open(&path, options()).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("log segments are gone"), "{error}");
}

#[test]
fn a_start_cut_short_is_begun_again() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(home.path().join("core-0/log")).unwrap();
    std::fs::write(home.path().join("hive-store.lock"), "").unwrap();
    Store::open(home.path(), options()).unwrap().close().unwrap();
}
