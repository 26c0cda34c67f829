//! Two writers of one place never both succeed.

use super::{ObjectFactory, A};
use base_engine::conformance::{batch, durable, put, EngineFactory};
use base_engine::{Engine, EngineError, EngineRead};

#[test]
fn whoever_opened_first_is_refused_for_good() {
    let factory = ObjectFactory::new(16 << 20, false);
    let old = factory.open();
    old.write(&batch([put(A, "k", "1"), durable(A, 1)])).unwrap();
    let new = factory.open_on(factory.store_of(&old)).unwrap();
    let error = old.write(&batch([put(A, "k", "of the old one"), durable(A, 2)])).unwrap_err();
    assert!(matches!(&error, EngineError::Io(text) if text.contains("another process")), "{error}");
    assert!(old.write(&batch([put(A, "k", "again")])).is_err(), "and stays so");
    assert_eq!(new.get(A, b"k").unwrap().unwrap(), "1");
    new.write(&batch([put(A, "k", "2"), durable(A, 2)])).unwrap();
    drop(old);
    let third = factory.reopen(new);
    assert_eq!((third.get(A, b"k").unwrap().unwrap(), third.durable_index(A).unwrap().0), ("2".into(), 2));
}

/// Both write at once, again and again: each round has one that succeeds at most, and what it wrote is there.
#[test]
fn of_two_that_write_at_once_one_succeeds_at_most() {
    let factory = ObjectFactory::new(16 << 20, false);
    let mut one = factory.open();
    for round in 0..10u64 {
        let other = factory.open_on(factory.store_of(&one)).unwrap();
        let write = |engine: &dyn Engine, name: &str| {
            engine.write(&batch([put(A, format!("{round}"), name), durable(A, round + 1)]))
        };
        let (first, second) = std::thread::scope(|scope| {
            let first = scope.spawn(|| write(&one, "one"));
            let second = scope.spawn(|| write(&other, "other"));
            (first.join().unwrap(), second.join().unwrap())
        });
        assert!(first.is_err() && second.is_ok(), "{first:?} {second:?}");
        assert_eq!(other.get(A, round.to_string().as_bytes()).unwrap().unwrap(), "other");
        one = other;
    }
    let last = factory.reopen(one);
    assert_eq!(last.verify().unwrap(), 10);
}

/// A directory says where its data is.
#[test]
fn another_identity_is_refused_and_the_data_stays() {
    let factory = ObjectFactory::new(16 << 20, false);
    let engine = factory.open();
    engine.write(&batch([put(A, "k", "v")])).unwrap();
    let store = factory.store_of(&engine);
    let config = crate::ObjectConfig { identity: "somebody else".into(), ..factory.config() };
    let refused = crate::open_over(&factory.new_directory(), &config, std::sync::Arc::new(store.copy()));
    let error = refused.map(|_| ()).unwrap_err();
    assert!(matches!(&error, EngineError::WrongFormat(text) if text.contains("belongs to \"test\"")), "{error}");
    assert_eq!(factory.crash(&engine).get(A, b"k").unwrap().unwrap(), "v");
}
