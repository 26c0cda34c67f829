//! The store as its users see it.

use crate::{Batch, Durability, OpenError, Options, Range, Snapshot, Store, StoreError};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

mod formats;
mod kill;

fn options(cores: u16) -> Options {
    Options { cores: Some(cores), pin: false, durability: Durability::Weak, ..Options::default() }
}

/// Memory goes to the engines all the time.
fn restless(cores: u16) -> Options {
    Options { engine_every: Duration::from_millis(1), ..options(cores) }
}

fn pairs(scan: impl Iterator<Item = Result<(bytes::Bytes, bytes::Bytes), StoreError>>) -> Vec<(Vec<u8>, Vec<u8>)> {
    scan.map(|pair| pair.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect()
}

#[test]
fn what_is_put_is_there_and_stays() {
    let home = tempfile::tempdir().unwrap();
    for durability in [Durability::Weak, Durability::Strong] {
        let options = Options { durability, ..options(3) };
        let path = home.path().join(format!("{durability:?}"));
        let store = Store::open(&path, options.clone()).unwrap();
        assert_eq!(store.get(b"k").unwrap(), None);
        store.put(b"k", b"1").unwrap();
        store.put_with(b"k", b"2", Durability::Weak).unwrap();
        store.put(b"gone", b"x").unwrap();
        store.delete(b"gone").unwrap();
        store.delete(b"never").unwrap();
        store.put(b"empty", b"").unwrap();
        store.write(Batch::new().put("a", "1").put("b", "2").delete("empty").put("a", "3")).unwrap();
        store.flush().unwrap();
        let expected: Vec<(Vec<u8>, Vec<u8>)> =
            [("a", "3"), ("b", "2"), ("k", "2")].map(|(key, value)| (key.into(), value.into())).to_vec();
        assert_eq!(pairs(store.scan(Range::all()).unwrap()), expected);
        store.close().unwrap();
        let store = Store::open(&path, options).unwrap();
        assert_eq!(pairs(store.scan(Range::all()).unwrap()), expected);
        assert_eq!(store.get(b"k").unwrap().as_deref(), Some(&b"2"[..]));
        assert_eq!(store.get(b"gone").unwrap(), None);
        assert!(store.notes().is_empty(), "{:?}", store.notes());
    }
}

#[test]
fn what_no_store_takes_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path(), options(1)).unwrap();
    for error in [
        store.put(b"", b"v"),
        store.put(&[0; crate::KEY_BYTES_MAX + 1], b"v"),
        store.put(b"k", &vec![0; crate::VALUE_BYTES_MAX + 1]),
        store.delete(b""),
        store.write(Batch::new().put("a", "1").put("", "2")),
    ] {
        assert!(matches!(error, Err(StoreError::Invalid(_))), "{error:?}");
    }
    let mut large = Batch::new();
    for key in 0..5u8 {
        large.put([key], vec![0; crate::VALUE_BYTES_MAX]);
    }
    assert!(matches!(store.write(&large), Err(StoreError::Invalid(_))));
    store.write(&Batch::new()).unwrap();
    assert_eq!(pairs(store.scan(Range::all()).unwrap()), []);
    // The largest that are taken.
    store.put(&[7; crate::KEY_BYTES_MAX], &vec![1; crate::VALUE_BYTES_MAX]).unwrap();
    let mut largest = Batch::new();
    for key in 0..3u8 {
        largest.put([key], vec![0; crate::VALUE_BYTES_MAX]);
    }
    store.write_with(&largest, Durability::Strong).unwrap();
    assert_eq!(pairs(store.scan(Range::all()).unwrap()).len(), 4);
    let after = store.shared_for_tests();
    store.close().unwrap();
    assert!(matches!(after.check_open(), Err(StoreError::Closed)));
}

/// A dumb twin, through flushes and reopenings, in both directions and over any range.
#[test]
fn it_is_an_ordered_map() {
    let home = tempfile::tempdir().unwrap();
    let mut twin: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut draw = draws(3);
    for round in 0..6 {
        let store = Store::open(home.path(), restless(3)).unwrap();
        for step in 0..400u64 {
            let key = format!("{:03}", draw() % 300).into_bytes();
            match draw() % 10 {
                0..=5 => {
                    let value = format!("{round}.{step}").into_bytes();
                    store.put(&key, &value).unwrap();
                    twin.insert(key, value);
                }
                6 => {
                    store.delete(&key).unwrap();
                    twin.remove(&key);
                }
                7 => {
                    let mut batch = Batch::new();
                    for _ in 0..draw() % 6 {
                        let key = format!("{:03}", draw() % 300).into_bytes();
                        batch.put(key.clone(), "batch");
                        twin.insert(key, b"batch".to_vec());
                    }
                    store.write(&batch).unwrap();
                }
                8 => assert_eq!(store.get(&key).unwrap().as_deref(), twin.get(&key).map(Vec::as_slice)),
                _ => {
                    let end = format!("{:03}", draw() % 300).into_bytes();
                    let range = Range::between(key.clone(), end.clone());
                    let mut expected: Vec<_> = twin.iter().filter(|(k, _)| **k >= key && **k < end).collect();
                    let found = pairs(store.scan(range.clone()).unwrap());
                    assert!(found.iter().map(|(key, value)| (key, value)).eq(expected.iter().copied()));
                    expected.reverse();
                    let found = pairs(store.scan(range.reversed()).unwrap());
                    assert!(found.iter().map(|(key, value)| (key, value)).eq(expected));
                }
            }
        }
        let all = pairs(store.scan(Range::all()).unwrap());
        assert!(all.iter().map(|(key, value)| (key, value)).eq(twin.iter()));
        let back = pairs(store.scan(Range::all().reversed()).unwrap());
        assert!(back.iter().map(|(key, value)| (key, value)).eq(twin.iter().rev()));
        let some = pairs(store.scan(Range::prefix("12")).unwrap());
        assert!(some.iter().map(|pair| &pair.0).eq(twin.keys().filter(|key| key.starts_with(b"12"))));
        // Half of the times without closing it in order.
        match round % 2 {
            0 => store.close().unwrap(),
            _ => drop(store),
        }
    }
}

/// More pairs than a page of an engine, so that scans read several.
#[test]
fn long_scans_turn_pages() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path(), options(2)).unwrap();
    for key in 0..2_000u32 {
        store.put(&key.to_be_bytes(), &[0; 300]).unwrap();
    }
    store.close().unwrap();
    let store = Store::open(home.path(), options(2)).unwrap();
    let snapshot = store.snapshot().unwrap();
    assert!(pairs(snapshot.scan(Range::all()))
        .iter()
        .map(|pair| pair.0.clone())
        .eq((0..2_000u32).map(|key| key.to_be_bytes().to_vec())));
    let back: Vec<_> = pairs(snapshot.scan(Range::all().reversed())).into_iter().rev().collect();
    assert_eq!(back, pairs(snapshot.scan(Range::all())));
}

#[test]
fn prefixes_end_where_they_should() {
    assert_eq!(Range::prefix("ab"), Range::between("ab", "ac"));
    assert_eq!(Range::prefix([1, 255]), Range::between([1, 255], [2]));
    assert_eq!(Range::prefix([255, 255]).end, None);
    assert_eq!(Range::prefix(""), Range::all());
}

/// Writers, snapshots, flushes and reads of one's own writes, all at once.
#[test]
fn a_snapshot_is_one_instant_of_all_cores() {
    const KEYS: u64 = 8;
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path(), restless(3)).unwrap();
    let (stop, taken) = (AtomicBool::new(false), AtomicU64::new(0));
    let write = |round: u64| {
        let mut batch = Batch::new();
        for key in 0..KEYS {
            batch.put(format!("same {key}"), round.to_be_bytes());
        }
        store.write(&batch).unwrap();
    };
    write(0);
    let look = |snapshot: &Snapshot| -> u64 {
        let values: Vec<u64> = pairs(snapshot.scan(Range::prefix("same ")))
            .iter()
            .map(|(_, value)| u64::from_be_bytes(value[..].try_into().unwrap()))
            .collect();
        assert_eq!(values.len() as u64, KEYS);
        assert!(values.iter().all(|value| *value == values[0]), "a part of a batch: {values:?}");
        for key in 0..KEYS {
            let value = snapshot.get(format!("same {key}").as_bytes()).unwrap();
            assert_eq!(value.as_deref(), Some(&values[0].to_be_bytes()[..]));
        }
        values[0]
    };
    std::thread::scope(|scope| {
        for thread in 0..2u64 {
            let (store, stop) = (&store, &stop);
            scope.spawn(move || {
                for round in 0.. {
                    let key = format!("own {thread}");
                    store.put(key.as_bytes(), &u64::to_be_bytes(round)).unwrap();
                    // Nobody else writes it: it is read back at once, whatever is being flushed.
                    assert_eq!(store.get(key.as_bytes()).unwrap().as_deref(), Some(&u64::to_be_bytes(round)[..]));
                    let seen = store.snapshot().unwrap().get(key.as_bytes()).unwrap();
                    assert_eq!(seen.as_deref(), Some(&u64::to_be_bytes(round)[..]));
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                }
            });
        }
        scope.spawn(|| {
            let mut newest = 0;
            while !stop.load(Ordering::Relaxed) {
                let snapshot = store.snapshot().unwrap();
                let value = look(&snapshot);
                assert!(value >= newest, "snapshots go forward");
                newest = value;
                assert_eq!(look(&snapshot), value, "a snapshot does not change");
                taken.fetch_add(1, Ordering::Relaxed);
            }
        });
        for round in 1..=3_000 {
            write(round);
        }
        while taken.load(Ordering::Relaxed) < 20 {
            std::thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(look(&store.snapshot().unwrap()), 3_000);
}

/// Strong writes of many threads; what returned is there although the store is never closed in order.
#[test]
fn strong_writes_share_syncs_and_survive() {
    let home = tempfile::tempdir().unwrap();
    let copy = tempfile::tempdir().unwrap();
    let store = Store::open(home.path(), options(2)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let store = &store;
            scope.spawn(move || {
                for key in 0..20u8 {
                    store.put_with(&[thread, key], b"v", Durability::Strong).unwrap();
                }
            });
        }
    });
    // As a power cut would leave it: files as they are now. (LMDB's lock file is not copied: its owner lives.)
    copy_tree(home.path(), copy.path());
    let restored = Store::open(copy.path(), options(2)).unwrap();
    assert_eq!(pairs(restored.scan(Range::all()).unwrap()).len(), 80);
}

fn copy_tree(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => {
                std::fs::create_dir_all(&target).unwrap();
                copy_tree(&entry.path(), &target);
            }
            // A segment that is being made ready has its name only then; nothing durable is in it.
            false => match std::fs::copy(entry.path(), target) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                copied => drop(copied.unwrap()),
            },
        }
    }
}

fn bytes_below(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(path).unwrap();
    let size = |entry: std::fs::DirEntry| match entry.path().is_dir() {
        true => bytes_below(&entry.path()),
        false => entry.metadata().unwrap().blocks() * 512,
    };
    entries.map(|entry| size(entry.unwrap())).sum()
}

/// Dead entries go: the files stay small however often the same keys are written.
#[test]
fn files_do_not_balloon() {
    let home = tempfile::tempdir().unwrap();
    let options = Options { engine_every: Duration::from_millis(20), ..options(1) };
    let store = Store::open(home.path(), options).unwrap();
    let value = vec![7; 64 << 10];
    let mut written = 0u64;
    for round in 0..2_000u64 {
        store.put(&[(round % 10) as u8], &value).unwrap();
        written += value.len() as u64;
    }
    store.close().unwrap();
    let bytes = bytes_below(home.path());
    assert!(bytes < written / 2, "{bytes} bytes on disk for {written} written");
    let store = Store::open(home.path(), Options::default()).unwrap();
    assert_eq!(pairs(store.scan(Range::all()).unwrap()).len(), 10);
}

/// A full engine refuses puts and loses nothing; with more room it continues.
#[test]
fn a_full_engine_refuses_and_recovers() {
    let home = tempfile::tempdir().unwrap();
    let small = Options {
        engine_bytes_max: 4 << 20,
        engine_every: Duration::from_millis(1),
        wait_max: Duration::from_secs(5),
        ..options(1)
    };
    let store = Store::open(home.path(), small).unwrap();
    let value = vec![1; 64 << 10];
    let mut taken = 0u32;
    let refusal = loop {
        match store.put(&taken.to_be_bytes(), &value) {
            Ok(()) => taken += 1,
            Err(error) => break error,
        }
        assert!(taken < 10_000, "the engine is never full");
    };
    assert!(matches!(refusal, StoreError::Full { .. } | StoreError::Overloaded { .. }), "{refusal}");
    assert!(store.get(&0u32.to_be_bytes()).unwrap().is_some());
    store.close().unwrap();
    let store = Store::open(home.path(), options(1)).unwrap();
    assert_eq!(pairs(store.scan(Range::all()).unwrap()).len(), taken as usize);
    store.put(b"more", &value).unwrap();
}

/// A disk that fails ends writing for good, not reading, and says what is known.
#[test]
fn a_failed_disk_latches_the_store() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path(), options(1)).unwrap();
    store.put_with(b"before", b"1", Durability::Strong).unwrap();
    // The segments after the one that is open cannot be opened any more.
    std::fs::rename(home.path().join("core-0/log"), home.path().join("core-0/away")).unwrap();
    let value = vec![1; 1 << 20];
    let failure = (0..40u8).find_map(|key| store.put_with(&[key], &value, Durability::Strong).err());
    // Unknown: the write was under way. Failed: the making of a segment had failed before it.
    assert!(matches!(failure, Some(StoreError::Unknown { .. } | StoreError::Failed { .. })), "{failure:?}");
    assert!(matches!(store.put(b"after", b"1"), Err(StoreError::Failed { .. })));
    assert!(store.flush().is_err());
    assert_eq!(store.get(b"before").unwrap().as_deref(), Some(&b"1"[..]));
    assert!(matches!(store.close(), Err(StoreError::Failed { .. })));
}

/// A snapshot that outlives its store keeps the directory: one engine is never open twice.
#[test]
fn a_snapshot_keeps_the_directory_locked() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path(), options(2)).unwrap();
    store.put(b"k", b"v").unwrap();
    let snapshot = store.snapshot().unwrap();
    store.close().unwrap();
    assert!(matches!(Store::open(home.path(), options(2)), Err(OpenError::InUse { .. })));
    assert_eq!(snapshot.get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
    drop(snapshot);
    assert!(Store::open(home.path(), options(2)).unwrap().get(b"k").unwrap().is_some());
}

/// What `Options::weak` promises: read at once, on the disk within a second or so without being asked, all of it after a
/// strong write to the same core.
#[test]
fn weak_options_wait_for_memory_only() {
    let (home, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let weak = Options { engine_every: Duration::from_secs(3600), cores: Some(1), pin: false, ..Options::weak() };
    assert_eq!(weak.flush_every, Duration::from_secs(1));
    // As a crash at this moment would leave it.
    let mut copied = 0;
    let mut crashed = |weak: &Options| {
        copied += 1;
        let copy = copies.path().join(copied.to_string());
        std::fs::create_dir(&copy).unwrap();
        copy_tree(home.path(), &copy);
        pairs(Store::open(&copy, weak.clone()).unwrap().scan(Range::all()).unwrap()).len()
    };
    let unhurried = Options { flush_every: Duration::from_secs(3600), ..weak.clone() };
    let store = Store::open(home.path(), unhurried).unwrap();
    assert_eq!(store.durability(), Durability::Weak);
    store.put(b"a", b"1").unwrap();
    store.write(Batch::new().put("b", "2").put("c", "3")).unwrap();
    assert_eq!(pairs(store.scan(Range::all()).unwrap()).len(), 3);
    assert_eq!(crashed(&weak), 0, "nothing has waited for the disk");
    store.put_with(b"d", b"4", Durability::Strong).unwrap();
    assert_eq!(crashed(&weak), 4);
    store.close().unwrap();
    let store = Store::open(home.path(), weak.clone()).unwrap();
    store.put(b"e", b"5").unwrap();
    let begun = std::time::Instant::now();
    while crashed(&weak) < 5 {
        assert!(begun.elapsed() < Duration::from_secs(30), "nothing is flushed by itself");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A flipped bit in the log is found, told, and on request lived with.
#[test]
fn rot_in_the_log_is_refused_or_accepted() {
    let home = tempfile::tempdir().unwrap();
    let copy = tempfile::tempdir().unwrap();
    let store = Store::open(home.path(), Options { engine_every: Duration::from_secs(3600), ..options(1) }).unwrap();
    for key in 0..20u8 {
        store.put_with(&[key], &[key; 3000], Durability::Strong).unwrap();
    }
    copy_tree(home.path(), copy.path());
    let mut rotted = 0;
    for entry in std::fs::read_dir(copy.path().join("core-0/log")).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        // In the middle of the value of key 4, which is followed by others.
        if let Some(at) = bytes.windows(100).position(|window| window == [4; 100]) {
            bytes[at + 50] ^= 4;
            std::fs::write(&path, bytes).unwrap();
            rotted += 1;
        }
    }
    assert_eq!(rotted, 1);
    let error = Store::open(copy.path(), options(1)).map(|_| ()).unwrap_err();
    assert!(matches!(&error, OpenError::Corrupt { reason, .. } if reason.contains("accept_damage")), "{error}");
    let store = Store::open(copy.path(), Options { accept_damage: true, ..options(1) }).unwrap();
    assert_eq!(pairs(store.scan(Range::all()).unwrap()).len(), 19);
    assert_eq!(store.get(&[4]).unwrap(), None);
    assert!(!store.notes().is_empty());
    store.close().unwrap();
    // What was given up is not missed again.
    let store = Store::open(copy.path(), options(1)).unwrap();
    assert_eq!(pairs(store.scan(Range::all()).unwrap()).len(), 19);
}

/// Every engine of the build.
#[test]
fn every_engine_serves() {
    for engine in crate::ENGINES {
        let home = tempfile::tempdir().unwrap();
        let options = Options { engine: Some((*engine).into()), ..restless(2) };
        let store = Store::open(home.path(), options.clone()).unwrap();
        for key in 0..300u32 {
            store.put(&key.to_be_bytes(), b"value").unwrap();
        }
        store.delete(&7u32.to_be_bytes()).unwrap();
        store.close().unwrap();
        let store = Store::open(home.path(), options).unwrap();
        assert_eq!(store.engine(), *engine);
        assert_eq!(pairs(store.scan(Range::all()).unwrap()).len(), 299);
        assert_eq!(store.statistics().cores, 2);
    }
}

/// splitmix64.
fn draws(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
