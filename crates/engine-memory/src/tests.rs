//! The contract, and what only the memory engine has: images and faults.

use crate::MemoryEngine;
use base_engine::conformance::{EngineFactory, Random};
use base_engine::{BatchOperation, Engine, EngineError, EngineRead, WriteBatch};
use base_types::SpaceId;
use bytes::Bytes;

struct MemoryFactory;

impl EngineFactory for MemoryFactory {
    type Engine = MemoryEngine;

    fn open(&self) -> MemoryEngine {
        MemoryEngine::new()
    }

    fn reopen(&self, engine: MemoryEngine) -> MemoryEngine {
        MemoryEngine::from_image(engine.image())
    }

    fn crash(&self, engine: &MemoryEngine) -> MemoryEngine {
        MemoryEngine::from_image(engine.image())
    }

    fn crash_during(&self, engine: &MemoryEngine, batch: &WriteBatch, _seed: u64) -> Vec<MemoryEngine> {
        let before = engine.image();
        engine.write(batch).unwrap();
        vec![MemoryEngine::from_image(before), MemoryEngine::from_image(engine.image())]
    }

    fn flip_key(
        &self,
        engine: MemoryEngine,
        _: &[u8],
        random: &mut Random,
    ) -> Option<Result<MemoryEngine, EngineError>> {
        let spaces = engine.spaces().unwrap();
        let space = spaces[random.below(spaces.len() as u64) as usize];
        engine.flip_key_any(space, random.below(1 << 20) as usize, random.below(1 << 20) as usize).map(|_| Ok(engine))
    }

    fn fail_next_write(&self, engine: &MemoryEngine) -> bool {
        engine.fail_next_write(EngineError::Io("asked for".into()));
        true
    }
}

mod contract {
    base_engine::conformance_tests!(super::MemoryFactory);
}

const A: SpaceId = SpaceId(1);

fn put(key: &'static str, value: &'static str) -> WriteBatch {
    WriteBatch { operations: vec![BatchOperation::Put { space: A, key: key.into(), value: value.into() }] }
}

#[test]
fn an_image_stays_as_it_was() {
    let engine = MemoryEngine::new();
    engine.write(&put("k", "1")).unwrap();
    let image = engine.image();
    engine.write(&put("k", "2")).unwrap();
    let reopened = MemoryEngine::from_image(image.clone());
    reopened.write(&put("k", "3")).unwrap();
    for (engine, expected) in [(&engine, "2"), (&reopened, "3"), (&MemoryEngine::from_image(image), "1")] {
        assert_eq!(engine.get(A, b"k"), Ok(Some(expected.into())));
    }
}

#[test]
fn values_are_shared_not_copied() {
    let engine = MemoryEngine::new();
    let value = Bytes::from(vec![7; 1000]);
    engine
        .write(&WriteBatch {
            operations: vec![BatchOperation::Put { space: A, key: "k".into(), value: value.clone() }],
        })
        .unwrap();
    assert_eq!(engine.get(A, b"k").unwrap().unwrap().as_ptr(), value.as_ptr());
}

#[test]
fn faults_come_once_and_change_nothing() {
    let engine = MemoryEngine::new();
    engine.fail_next_write(EngineError::Full("asked for".into()));
    assert_eq!(engine.write(&put("k", "1")), Err(EngineError::Full("asked for".into())));
    assert_eq!(engine.get(A, b"k"), Ok(None));
    assert_eq!(engine.write(&put("k", "1")), Ok(()));
}

#[test]
fn the_limit_refuses_puts_only() {
    let engine = MemoryEngine::new();
    engine.set_bytes_limit(100);
    engine.write(&put("k", "v")).unwrap();
    assert!(matches!(engine.write(&put("l", "v")), Err(EngineError::Full(_))));
    let delete = WriteBatch { operations: vec![BatchOperation::Delete { space: A, key: "k".into() }] };
    engine.write(&delete).unwrap();
    assert_eq!(engine.statistics().bytes_used, 0);
    engine.write(&put("l", "v")).unwrap();
}

#[test]
fn damage_is_found_until_it_is_overwritten() {
    let engine = MemoryEngine::new();
    assert!(!engine.damage(A, b"k"));
    engine.write(&put("k", "v")).unwrap();
    assert!(engine.damage(A, b"k"));
    assert!(matches!(engine.get(A, b"k"), Err(EngineError::Corrupt(_))));
    let all = base_engine::KeyRange::ALL;
    let walked = engine.range(A, all, base_engine::Direction::Forward, &mut |_, _| std::ops::ControlFlow::Continue(()));
    assert!(matches!(walked, Err(EngineError::Corrupt(_))));
    engine.write(&put("k", "w")).unwrap();
    assert_eq!(engine.get(A, b"k"), Ok(Some("w".into())));
}

#[test]
fn a_flipped_bit_is_not_found() {
    let engine = MemoryEngine::new();
    engine.write(&put("k", "a")).unwrap();
    let snapshot = engine.snapshot().unwrap();
    assert!(engine.flip_bit(A, b"k", 1));
    assert_eq!(engine.get(A, b"k"), Ok(Some("c".into())));
    assert_eq!(snapshot.get(A, b"k"), Ok(Some("a".into())), "the snapshot is another instant");
    assert!(!engine.flip_bit(A, b"none", 1));
}

#[test]
fn snapshots_expire_when_asked() {
    let engine = MemoryEngine::new();
    let old = engine.snapshot().unwrap();
    engine.expire_snapshots();
    assert_eq!(old.get(A, b"k"), Err(EngineError::SnapshotExpired));
    assert_eq!(engine.snapshot().unwrap().get(A, b"k"), Ok(None));
}
