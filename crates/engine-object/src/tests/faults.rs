//! A store that is slow, fails, loses answers or stalls makes writes wait, and loses nothing.

use super::{ObjectFactory, A};
use base_engine::conformance::{batch, durable, put, Model};
use base_engine::Engine;
use base_objects::faults::Faulty;
use base_objects::object_store::memory::InMemory;
use base_objects::Limits;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

/// Tries come quickly here: it is the store that is at fault, not the clock.
fn config(factory: &ObjectFactory) -> crate::ObjectConfig {
    let limits =
        Limits { pause_min: Duration::from_millis(1), pause_max: Duration::from_millis(4), ..Limits::default() };
    crate::ObjectConfig { limits, ..factory.config() }
}

fn write_rounds(engine: &dyn Engine, model: &mut Model, rounds: std::ops::Range<u64>) {
    for round in rounds {
        let one = batch([put(A, format!("{}", round % 7), vec![round as u8; 2000]), durable(A, round + 1)]);
        engine.write(&one).unwrap();
        model.apply(&one);
    }
}

#[test]
fn failing_requests_and_lost_answers_lose_nothing() {
    let factory = ObjectFactory::new(8 << 10, false);
    let memory = Arc::new(InMemory::new());
    let faulty = Faulty::new(memory.clone());
    let engine = crate::open_over(&factory.new_directory(), &config(&factory), Arc::new(faulty.clone())).unwrap();
    let mut model = Model::default();
    faulty.faults().fail_every.store(5, Ordering::SeqCst);
    faulty.faults().lose_answers.store(7, Ordering::SeqCst);
    write_rounds(&engine, &mut model, 0..20);
    assert!(engine.store().meter().summary().contains("put"));
    faulty.faults().fail_every.store(0, Ordering::SeqCst);
    faulty.faults().lose_answers.store(0, Ordering::SeqCst);
    model.assert_shown_by(&engine, &[A], "after faults");
    let crashed = super::Recorder::new(memory.fork());
    model.assert_shown_by(&factory.open_on(crashed).unwrap(), &[A], "after faults and a crash");
}

#[test]
fn a_stalled_store_makes_a_write_wait() {
    let factory = ObjectFactory::new(16 << 20, false);
    let faulty = Faulty::new(Arc::new(InMemory::new()));
    let engine = crate::open_over(&factory.new_directory(), &config(&factory), Arc::new(faulty.clone())).unwrap();
    let mut model = Model::default();
    write_rounds(&engine, &mut model, 0..2);
    let before = faulty.faults().writes();
    faulty.faults().stalled.store(true, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let one = batch([put(A, "late", "but there"), durable(A, 9)]);
            engine.write(&one).unwrap();
            one
        });
        // Readers are not held up by it: what they see was there before.
        model.assert_shown_by(&engine, &[A], "while the store stalls");
        assert_eq!(faulty.faults().writes(), before);
        assert!(!writing.is_finished());
        faulty.faults().stalled.store(false, Ordering::SeqCst);
        model.apply(&writing.join().unwrap());
    });
    model.assert_shown_by(&engine, &[A], "when it answers again");
}
