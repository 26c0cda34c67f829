//! What a machine that lost power may find in the file: every call redb makes is recorded, and images
//! are made of those before a moment. What was synced is there; of what was not, any sectors may be.

use super::{RedbFactory, A};
use crate::disk::{Bound, Disk};
use crate::store::RedbStore;
use crate::{RedbEngine, DATA_FILE, FILES, NAME};
use base_engine::conformance::{batch, durable, put, EngineFactory, Model, Random};
use base_engine::stored::directory::ENGINE_FILE;
use base_engine::stored::{Directory, StoredEngine};
use base_engine::{Engine, EngineError, EngineRead, WriteBatch};
use redb::StorageBackend;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

const SECTOR_BYTES: usize = 512;
/// Images of one write in the contract's crash test.
const IMAGES: usize = 6;

#[derive(Clone, Debug)]
enum Call {
    Write(usize, Vec<u8>),
    Length(usize),
    Sync,
}

/// A file's bytes when recording began, and the calls since.
#[derive(Default, Debug)]
struct Log {
    base: Vec<u8>,
    calls: Vec<Call>,
    /// Calls to go before every further one fails as on a full disk.
    calls_left: Option<usize>,
}

/// The logs of the engines of a factory.
#[derive(Default)]
pub struct Recorded(Mutex<BTreeMap<PathBuf, Arc<Mutex<Log>>>>);

/// A file that reports each operation on it.
#[derive(Debug)]
struct RecordedDisk {
    disk: Disk,
    log: Arc<Mutex<Log>>,
}

impl RecordedDisk {
    fn record(&self, call: Call) -> Result<(), std::io::Error> {
        let mut log = self.log.lock().unwrap();
        if let Some(left) = &mut log.calls_left {
            *left = left.checked_sub(1).ok_or_else(|| std::io::Error::from(std::io::ErrorKind::StorageFull))?;
        }
        log.calls.push(call);
        Ok(())
    }
}

impl StorageBackend for RecordedDisk {
    fn len(&self) -> Result<u64, std::io::Error> {
        self.disk.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), std::io::Error> {
        self.disk.read(offset, out)
    }

    fn set_len(&self, bytes: u64) -> Result<(), std::io::Error> {
        self.disk.set_len(bytes)?;
        self.record(Call::Length(bytes as usize))
    }

    fn sync_data(&self) -> Result<(), std::io::Error> {
        self.record(Call::Sync) // The test's machine stays up: nothing is gained by really syncing.
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), std::io::Error> {
        self.record(Call::Write(offset as usize, data.to_vec()))?;
        self.disk.write(offset, data)
    }
}

pub fn open(factory: &RedbFactory, path: &Path) -> Result<RedbEngine, EngineError> {
    let config = factory.config();
    let directory = Directory::take(path, NAME, &FILES, &config.identity)?;
    let data = path.join(DATA_FILE);
    let log = Arc::new(Mutex::new(Log { base: fs::read(&data).unwrap_or_default(), ..Log::default() }));
    factory.recorded.0.lock().unwrap().insert(path.to_path_buf(), log.clone());
    let (bound, disk_data) = (Bound::none(), data.clone());
    let disk_bound = bound.clone();
    let open_disk = Box::new(move || -> Result<Box<dyn StorageBackend>, EngineError> {
        let disk = Disk::open(&disk_data, disk_bound.clone()).unwrap();
        log.lock().unwrap().calls_left = None;
        Ok(Box::new(RecordedDisk { disk, log: log.clone() }))
    });
    let store = RedbStore::open_on(open_disk, data, bound, &config)?;
    StoredEngine::attach(store, directory, &config.identity, config.snapshots)
}

fn write_at(image: &mut Vec<u8>, offset: usize, data: &[u8]) {
    if image.len() < offset + data.len() {
        image.resize(offset + data.len(), 0);
    }
    image[offset..offset + data.len()].copy_from_slice(data);
}

/// The file after the first `upto` calls: synced ones whole, of the others each sector with a chance
/// of `share` in ten.
fn image(log: &Log, upto: usize, random: &mut Random, share: u64) -> Vec<u8> {
    let mut image = log.base.clone();
    let synced = log.calls[..upto].iter().rposition(|call| matches!(call, Call::Sync)).unwrap_or(0);
    for (number, call) in log.calls[..upto].iter().enumerate() {
        let whole = number < synced;
        match call {
            Call::Sync => {}
            Call::Length(bytes) if whole || random.below(10) < share => image.resize(*bytes, 0),
            Call::Length(_) => {}
            Call::Write(offset, data) => {
                let mut at = *offset;
                while at < offset + data.len() {
                    let end = ((at / SECTOR_BYTES + 1) * SECTOR_BYTES).min(offset + data.len());
                    if whole || random.below(10) < share {
                        write_at(&mut image, at, &data[at - offset..end - offset]);
                    }
                    at = end;
                }
            }
        }
    }
    image
}

fn log_of(factory: &RedbFactory, engine: &RedbEngine) -> Arc<Mutex<Log>> {
    factory.recorded.0.lock().unwrap()[engine.directory()].clone()
}

/// Recording begins anew with what is there.
fn restart(log: &Mutex<Log>, random: &mut Random) {
    let mut log = log.lock().unwrap();
    log.base = image(&log, log.calls.len(), random, 10);
    log.calls.clear();
}

pub fn open_image(factory: &RedbFactory, from: &Path, data: &[u8]) -> Result<RedbEngine, EngineError> {
    let directory = factory.new_directory();
    fs::create_dir_all(&directory).unwrap();
    fs::copy(from.join(ENGINE_FILE), directory.join(ENGINE_FILE)).unwrap();
    fs::write(directory.join(DATA_FILE), data).unwrap();
    open(factory, &directory)
}

/// Power lost behind a write: what was not synced may be gone.
pub fn after(factory: &RedbFactory, engine: &RedbEngine) -> RedbEngine {
    let log = log_of(factory, engine);
    let mut random = Random::new(log.lock().unwrap().calls.len() as u64);
    let share = random.below(11);
    let image = {
        let log = log.lock().unwrap();
        image(&log, log.calls.len(), &mut random, share)
    };
    open_image(factory, engine.directory(), &image).unwrap()
}

/// Power lost during a write.
pub fn during(factory: &RedbFactory, engine: &RedbEngine, batch: &WriteBatch, seed: u64) -> Vec<RedbEngine> {
    let (log, mut random) = (log_of(factory, engine), Random::new(seed));
    restart(&log, &mut random);
    engine.write(batch).unwrap();
    let log = log.lock().unwrap();
    let mut moments: Vec<usize> = (0..IMAGES - 2).map(|_| random.below(log.calls.len() as u64 + 1) as usize).collect();
    moments.extend([0, log.calls.len()]);
    let images = moments.iter().map(|upto| {
        let share = random.below(11);
        image(&log, *upto, &mut random, share)
    });
    images.map(|image| open_image(factory, engine.directory(), &image).unwrap()).collect()
}

/// Every prefix of the calls of some writes, whole and torn: the state before or the state after.
#[test]
fn every_prefix_of_a_write_leaves_before_or_after() {
    let (factory, mut random, spaces) = (RedbFactory::new(0), Random::new(7), [A]);
    let engine = factory.open();
    let mut model = Model::default();
    let (mut before_seen, mut after_seen) = (0, 0);
    for round in 0..3u64 {
        let one = batch(
            [
                vec![durable(A, round + 1), put(A, "round", round.to_string())],
                (0..40).map(|i| put(A, format!("{i:03}"), vec![round as u8; 400])).collect(),
            ]
            .concat(),
        );
        let log = log_of(&factory, &engine);
        restart(&log, &mut random);
        engine.write(&one).unwrap();
        let mut after = model.clone();
        after.apply(&one);
        let log = log.lock().unwrap();
        for upto in 0..=log.calls.len() {
            for share in [0, 5, 10] {
                let image = image(&log, upto, &mut random, share);
                let opened = open_image(&factory, engine.directory(), &image).unwrap();
                let (is_before, is_after) = (model.matches(&opened, &spaces), after.matches(&opened, &spaces));
                assert!(is_before || is_after, "round {round}, {upto} calls, share {share}");
                assert!(is_after || upto < log.calls.len(), "round {round}: acknowledged, so it is there");
                before_seen += usize::from(is_before);
                after_seen += usize::from(is_after);
            }
        }
        model = after;
    }
    assert!(before_seen > 10 && after_seen > 3, "the images bite: {before_seen} before, {after_seen} after");
}

/// Writes with all calls from some number on refused, as by a full disk.
fn write_with_calls_left(factory: &RedbFactory, engine: &RedbEngine, calls_left: usize) -> Result<(), EngineError> {
    let log = log_of(factory, engine);
    log.lock().unwrap().calls_left = Some(calls_left);
    let written = engine.write(&batch([put(A, "kept", "2"), put(A, "large", vec![7; 30_000]), durable(A, 2)]));
    log.lock().unwrap().calls_left = None;
    written
}

/// The disk fills up at any call of a write. The engine then has the state before and keeps working. If a sync failed,
/// it refuses writes, and after a restart it has the state before or after.
#[test]
fn a_disk_that_fills_up_at_any_call_leaves_no_part_of_a_batch() {
    let factory = RedbFactory::new(0);
    let first = batch([put(A, "kept", "1"), durable(A, 1)]);
    let second = batch([put(A, "kept", "3"), durable(A, 3)]);
    let (mut full, mut closed) = (0, 0);
    for calls_left in 0.. {
        let engine = factory.open();
        let mut model = Model::default();
        engine.write(&first).unwrap();
        model.apply(&first);
        match write_with_calls_left(&factory, &engine, calls_left) {
            Ok(()) => break,
            Err(EngineError::Full(_)) => {
                full += 1;
                model.assert_shown_by(&engine, &[A], &format!("full after {calls_left} calls"));
                engine.write(&second).expect("there is room again");
                model.apply(&second);
                model.assert_shown_by(&engine, &[A], "after the next write");
                model.assert_shown_by(&factory.crash(&engine), &[A], "and after a crash");
            }
            Err(error) => {
                closed += 1;
                assert!(error.to_string().contains("syncing"), "{error}");
                assert!(engine.write(&second).unwrap_err().to_string().contains("restart the node"));
                let engine = factory.reopen(engine);
                let value = engine.get(A, b"large").unwrap();
                assert_eq!(engine.durable_index(A).unwrap().0, if value.is_some() { 2 } else { 1 });
            }
        }
    }
    assert!(full > 5 && closed > 0, "a write makes several calls: {full} full, {closed} closed");
}
