//! Who only reads along sees what is durable, writes nothing, and disturbs nobody.

use super::{ObjectFactory, A};
use base_engine::conformance::{batch, durable, put, EngineFactory, Model};
use base_engine::{Direction, Engine, EngineError, EngineRead, KeyRange};
use base_objects::faults::Faulty;
use base_objects::object_store::memory::InMemory;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant};

const FOLLOW: Duration = Duration::from_millis(50);
const CACHE: u64 = 1 << 20;
/// How long what was written may take to be seen.
const SEEN_WITHIN: Duration = Duration::from_secs(20);

fn attach(factory: &ObjectFactory, engine: &crate::ObjectEngine) -> crate::Attached {
    crate::attach_over(Arc::new(factory.store_of(engine)), "memory:", CACHE, FOLLOW).unwrap()
}

#[test]
fn it_sees_what_is_durable_and_what_comes() {
    // Tables so small that some are written out while it looks.
    let factory = ObjectFactory::new(16 << 10, false);
    let engine = factory.open();
    let mut model = Model::default();
    let mut write = |round: u64| {
        let one = batch([put(A, format!("{:03}", round), vec![round as u8; 700]), durable(A, round + 1)]);
        engine.write(&one).unwrap();
        model.apply(&one);
    };
    (0..40).for_each(&mut write);
    let attached = attach(&factory, &engine);
    assert_eq!(attached.spaces().unwrap(), vec![A]);
    assert_eq!(attached.durable_index(A).unwrap().0, 40);
    assert_eq!(attached.get(A, b"039").unwrap().unwrap(), vec![39u8; 700]);
    (40..80).for_each(&mut write);
    let begun = Instant::now();
    while attached.durable_index(A).unwrap().0 < 80 {
        assert!(begun.elapsed() < SEEN_WITHIN, "it does not follow");
        std::thread::sleep(FOLLOW);
    }
    for direction in [Direction::Forward, Direction::Backward] {
        let mut seen = Vec::new();
        let mut visit = |key: &[u8], _: &[u8]| {
            seen.push(String::from_utf8(key.to_vec()).unwrap());
            ControlFlow::Continue(())
        };
        attached.range(A, KeyRange::ALL, direction, &mut visit).unwrap();
        let mut expected: Vec<String> = (0..80).map(|round| format!("{round:03}")).collect();
        if direction == Direction::Backward {
            expected.reverse();
        }
        assert_eq!(seen, expected);
    }
    // The owner was not disturbed.
    write(80);
    model.assert_shown_by(&engine, &[A], "beside a reader");
}

/// The store it reads takes no write and no removal at all.
#[test]
fn it_writes_nothing() {
    let factory = ObjectFactory::new(16 << 20, false);
    let memory = Arc::new(InMemory::new());
    let engine = crate::open_over(&factory.new_directory(), &factory.config(), memory.clone()).unwrap();
    engine.write(&batch([put(A, "k", "v"), durable(A, 1)])).unwrap();
    let faulty = Faulty::new(memory);
    faulty.faults().writes_left.store(0, Ordering::SeqCst);
    let attached = crate::attach_over(Arc::new(faulty.clone()), "memory:", CACHE, FOLLOW).unwrap();
    assert_eq!(attached.get(A, b"k").unwrap().unwrap(), "v");
    std::thread::sleep(FOLLOW * 4);
    assert_eq!(attached.get(A, b"k").unwrap().unwrap(), "v");
    drop(attached);
    assert_eq!(faulty.faults().writes(), 0);
    engine.write(&batch([put(A, "k", "w"), durable(A, 2)])).unwrap();
}

#[test]
fn nothing_there_is_told() {
    let empty = crate::attach_over(Arc::new(InMemory::new()), "memory:", CACHE, FOLLOW);
    let error = empty.map(|_| ()).unwrap_err();
    assert!(matches!(&error, EngineError::Io(text) if text.contains("nothing is kept there")), "{error}");
}
