//! Pairs a second, requests and their price: `figures PLACE PAIRS BATCH [--latency-ms N]`.
//!
//! Values of 100 random-looking bytes, keys of 20 in random order, one commit a batch, each waited for; then
//! what is written is read back, in random order and in a walk; then somebody reads along, and a machine that has
//! nothing but the place takes it on.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "measures")]

use base_engine::{BatchOperation, Direction, Engine, EngineRead, KeyRange, WriteBatch};
use base_objects::faults::Faulty;
use base_objects::meter::KINDS;
use base_objects::{Kind, Place};
use base_types::SpaceId;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::time::Instant;

const SPACE: SpaceId = SpaceId(1);
/// S3 standard, per million requests.
const WRITE_USD: f64 = 5.0;
const READ_USD: f64 = 0.4;
const GETS: u64 = 2_000;

fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 31)
}

fn key(number: u64) -> Vec<u8> {
    format!("{:020}", mixed(number)).into_bytes()
}

fn value(number: u64) -> Vec<u8> {
    (0..100u64).map(|at| mixed(number ^ (at << 40)) as u8).collect()
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [place, pairs, batch, more @ ..] = &words[..] else {
        eprintln!("figures PLACE PAIRS BATCH [--latency-ms N]");
        std::process::exit(2);
    };
    let (pairs, batch): (u64, u64) = (pairs.parse().expect("a number"), batch.parse().expect("a number"));
    let latency = more.get(1).map_or(0, |text| text.parse().expect("milliseconds"));
    let inner = Place::parse(place).and_then(|place| place.open(&Default::default())).expect("a place");
    let faulty = Faulty::new(inner);
    faulty.faults().latency_ms.store(latency, Ordering::SeqCst);
    let marks = std::env::temp_dir().join(format!("hive-figures-{}", std::process::id()));
    let config = engine_object::ObjectConfig { identity: "figures".into(), ..Default::default() };
    let store = std::sync::Arc::new(faulty);
    let engine = engine_object::open_over(&marks, &config, store.clone()).expect("an engine");
    println!("{place}, {latency} ms added to each request, {pairs} pairs, {batch} a commit");
    let begun = Instant::now();
    for first in (0..pairs).step_by(batch as usize) {
        let put = |number| BatchOperation::Put { space: SPACE, key: key(number).into(), value: value(number).into() };
        let operations = (first..(first + batch).min(pairs)).map(put).collect();
        engine.write(&WriteBatch { operations }).expect("written");
    }
    let took = begun.elapsed().as_secs_f64();
    println!(
        "written   {:10.0} pairs/s   {:8.2} ms a commit",
        pairs as f64 / took,
        took * 1000.0 * batch as f64 / pairs as f64
    );
    let counts = KINDS.map(|kind| (kind, engine.store().meter().counts(kind).requests));
    let million = |requests: u64| requests as f64 * 1e6 / pairs as f64;
    let price = |kind, requests| {
        million(requests) / 1e6 * if matches!(kind, Kind::Put | Kind::List) { WRITE_USD } else { READ_USD }
    };
    for (kind, requests) in counts.iter().filter(|(kind, _)| *kind != Kind::Delete) {
        println!(
            "{:9} {:10.0} requests a million pairs   {:8.4} USD",
            kind.name(),
            million(*requests),
            price(*kind, *requests)
        );
    }
    let begun = Instant::now();
    for number in 0..GETS {
        assert!(engine.get(SPACE, &key(mixed(number) % pairs)).expect("read").is_some());
    }
    println!("read      {:10.0} pairs/s in random order", GETS as f64 / begun.elapsed().as_secs_f64());
    let (begun, mut walked) = (Instant::now(), 0u64);
    let mut count = |_: &[u8], _: &[u8]| {
        walked += 1;
        ControlFlow::Continue(())
    };
    engine.range(SPACE, KeyRange::ALL, Direction::Forward, &mut count).expect("walked");
    println!("walked    {:10.0} pairs/s", walked as f64 / begun.elapsed().as_secs_f64());
    println!("{}", engine.store().meter().summary());
    let begun = Instant::now();
    let follow = std::time::Duration::from_secs(1);
    let attached = engine_object::attach_over(store.clone(), place, config.cache_bytes, follow).expect("attached");
    assert!(attached.get(SPACE, &key(0)).expect("read").is_some());
    println!("attached and read one pair in {:.0} ms", begun.elapsed().as_secs_f64() * 1000.0);
    drop(attached);
    // Not dropped first: what it would still write out while it closes is not there for who comes after a crash.
    let (begun, again) = (Instant::now(), marks.with_extension("again"));
    let second = engine_object::open_over(&again, &config, store).expect("taken over");
    assert!(second.get(SPACE, &key(0)).expect("read").is_some());
    println!("taken over and read one pair in {:.0} ms", begun.elapsed().as_secs_f64() * 1000.0);
    println!("  with {}", second.store().meter().summary());
    let refused = engine.write(&WriteBatch {
        operations: vec![BatchOperation::Put { space: SPACE, key: key(0).into(), value: value(0).into() }],
    });
    assert!(refused.is_err(), "the first one is fenced");
    drop((engine, second));
    let _ = std::fs::remove_dir_all(&marks);
    let _ = std::fs::remove_dir_all(&again);
}
