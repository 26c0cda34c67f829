//! What planner and state machine cost together, without cluster, network and door, in processor time of the thread
//! (where Linux reports it; else by the clock). For docs/decisions/0014.
//!
//! `cargo test --profile sim -p core-s3 --lib tests::figures -- --ignored --nocapture`

use super::bed::{self, put_call, Old, BUCKET};
use super::world::World;
use base_types::s3::*;
use std::time::Instant;

/// Keys, and how many shards they are in.
const KEYS: usize = 100_000;
const SHARDS: [usize; 3] = [1, 4, 100];

fn key(number: usize) -> String {
    format!("photos/{:03}/{number:08}.jpeg", number % 512)
}

fn filled(shards: usize) -> World {
    let mut world = bed::world(1);
    let mut keys: Vec<String> = (0..KEYS).map(key).collect();
    keys.sort();
    // A flow makes eight at most; so several, from the end on.
    let mut cuts: Vec<&str> = (1..shards).map(|at| &keys[at * KEYS / shards][..]).collect();
    while !cuts.is_empty() {
        let few = cuts.split_off(cuts.len().saturating_sub(7));
        bed::split(&mut world, &few, Old::Gone);
    }
    for key in &keys {
        world.call(put_call(key, "")).unwrap();
    }
    world
}

/// Nanoseconds this thread has had a processor for.
fn processor_ns(since: Instant) -> u64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let told = told.split(' ').next().and_then(|text| text.parse().ok());
    told.unwrap_or_else(|| since.elapsed().as_nanos() as u64)
}

/// What something costs, in nanoseconds.
fn cost(one: impl FnOnce()) -> u64 {
    let start = Instant::now();
    let before = processor_ns(start);
    one();
    processor_ns(start).saturating_sub(before).max(1)
}

fn each(what: &str, times: u64, mut one: impl FnMut()) {
    let all = cost(|| (0..times).for_each(|_| one()));
    println!("  {what}: {} us", all as f64 / times as f64 / 1000.0);
}

#[test]
#[ignore = "figures, not a check"]
fn what_calls_cost() {
    for shards in SHARDS {
        println!("{KEYS} keys in {shards} shards");
        let mut world = filled(shards);
        let mut number = 0;
        each("put over another", 20_000, || {
            number += 7;
            world.call(put_call(&key(number % KEYS), "")).unwrap();
        });
        each("get", 20_000, || {
            number += 7;
            bed::get(&mut world, &key(number % KEYS)).unwrap();
        });
        let list = ListObjectsV2 { bucket: BUCKET.into(), prefix: "photos/1".into(), ..ListObjectsV2::default() };
        each("page of 1,000 keys", 100, || {
            world.call(list.clone()).unwrap();
        });
        let grouped = ListObjectsV2 { prefix: "photos/".into(), delimiter: Some("/".into()), ..list.clone() };
        each("page of 512 groups over all keys", 50, || {
            world.call(grouped.clone()).unwrap();
        });
        each("count", 50, || {
            world.call(CountObjects { bucket: BUCKET.into(), prefix: "photos/2".into(), snapshot: false }).unwrap();
        });
        let walked = cost(|| walk(&mut world));
        println!("  walk: {} entries/s", KEYS as u64 * 1_000_000_000 / walked);
    }
}

fn walk(world: &mut World) {
    let mut call = ListObjectsV2 { bucket: BUCKET.into(), ..ListObjectsV2::default() };
    let mut told = 0;
    loop {
        let page: ObjectPage = world.ask(call.clone()).unwrap();
        told += page.contents.len();
        call.continuation_token = page.next_continuation_token;
        if call.continuation_token.is_none() {
            assert_eq!(told, KEYS);
            return;
        }
    }
}
