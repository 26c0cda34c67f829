//! What it costs while hundreds of calls wait for a shard that stands still, or for a new map.

use super::bed::{self, body, get, put, put_call, Old};
use super::world::World;
use core_backends::shard;

/// Puts that wait side by side.
const WAITING: u64 = 60;

/// So many puts at a time on the first core, each of a key of its own; and how many calls they took.
fn puts(world: &mut World) -> u64 {
    let before = world.calls;
    let keys: Vec<String> = (0..WAITING).map(|at| format!("key {at}")).collect();
    let mut all: Vec<_> = keys.iter().map(|key| world.begin(0, put_call(key, key)).unwrap()).collect();
    // All have asked before the first is answered.
    all.iter_mut().for_each(|one| world.step(one));
    world.race(&mut all);
    assert!(all.iter().all(|one| one.response.as_ref().is_some_and(|response| response.is_ok())));
    let calls = world.calls - before;
    for key in &keys {
        assert_eq!(&body(&get(world, key).unwrap()), key);
    }
    calls
}

#[test]
fn of_puts_that_wait_for_a_freeze_one_asks_at_a_time() {
    for seed in 1..8 {
        let mut world = bed::world(seed);
        put(&mut world, "first", "body");
        let entry = bed::map(&mut world).remove(0);
        let freeze = shard::Command::Freeze { epoch: entry.epoch, lease_ms: 1_000 };
        bed::tell_shard(&mut world, entry.shard, &freeze);
        let begun = world.now_ms;
        let calls = puts(&mut world);
        assert!(world.now_ms - begun >= 1_000, "they waited");
        // Each is refused once and put once; a call takes a millisecond here, so all the time is filled with calls if each asks.
        assert!(calls < 2 * WAITING + 200, "seed {seed}: {calls} calls");
    }
}

#[test]
fn of_puts_whose_map_is_stale_one_reads_it() {
    for seed in 1..8 {
        let mut world = bed::world(seed);
        put(&mut world, "first", "body");
        bed::split(&mut world, &["g", "p"], Old::Refuses);
        let calls = puts(&mut world);
        // Each is refused once and put once, and the map is one page; the record may be read anew meanwhile.
        assert!(calls < 2 * WAITING + 5, "seed {seed}: {calls} calls");
    }
}
