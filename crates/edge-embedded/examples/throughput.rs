//! A first look at rates, without the peers of `hive bench embedded`:
//! `cargo run --release -p edge-embedded --example throughput -- DIRECTORY [CORES [THREADS [OPERATIONS [VALUE_BYTES]]]]`
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // It measures.

use edge_embedded::{Durability, Options, Range, Store};
use std::time::Instant;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, otherwise: u64| arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(otherwise);
    let Some(directory) = arguments.first() else { return eprintln!("usage: throughput DIRECTORY …") };
    let (cores, threads, operations) = (number(1, 1), number(2, 1), number(3, 100_000));
    let value = vec![7u8; number(4, 100) as usize];
    let open = || {
        let options = Options { cores: Some(cores as u16), ..Options::default() };
        Store::open(directory, options).unwrap_or_else(|error| panic!("{error}"))
    };
    let measure = |name: &str, operations: u64, work: &(dyn Fn(u64) + Sync)| {
        let begun = Instant::now();
        std::thread::scope(|scope| {
            for thread in 0..threads {
                scope.spawn(move || (thread..operations).step_by(threads as usize).for_each(work));
            }
        });
        println!("{name:<22} {:>9.1} op/ms", operations as f64 / begun.elapsed().as_secs_f64() / 1e3);
    };
    let key = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    let store = open();
    let put = |number: u64, durability| store.put_with(&key(number), &value, durability).expect("a put");
    measure("weak puts", operations, &|number| put(number, Durability::Weak));
    measure("gets from memory", operations, &|number| assert!(store.get(&key(number)).expect("a get").is_some()));
    measure("strong puts", operations / 100, &|number| put(number, Durability::Strong));
    println!("{:?}", store.statistics());
    store.close().expect("closed");
    let store = open();
    measure("gets from the engine", operations, &|number| assert!(store.get(&key(number)).expect("a get").is_some()));
    let begun = Instant::now();
    let pairs = store.scan(Range::all()).expect("a scan").count();
    println!("{:<22} {:>9.1} pairs/ms", "scan", pairs as f64 / begun.elapsed().as_secs_f64() / 1e3);
    println!("{:?}", store.statistics());
}
