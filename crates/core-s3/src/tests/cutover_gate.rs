//! What it costs while hundreds of calls wait for a frozen shard or a new map.

use super::bed::{self, body, get, put, put_call, Old};
use super::world::{Running, World};
use crate::clusters;
use crate::reshard::runner;
use base_types::action::Response;
use base_types::codec::Encode;
use base_types::s3::Version;
use base_types::BackendKind;
use bytes::Bytes;
use core_backends::shard::{DeleteStep, DeleteTerms};
use core_backends::{shard, shard_reference};

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

/// Runs a flow to its end, while a client puts one object after the other. Its turns come as those of a busy flow's clients
/// do: mostly the flow's own.
fn beside_a_writer(world: &mut World, runner: Running) -> Response {
    let mut all = [runner, world.begin(1, put_call("key 1", "again")).unwrap()];
    for turn in 0..20_000 {
        if let Some(response) = all[0].response.clone() {
            return response;
        }
        if all[1].response.is_some() {
            all[1] = world.begin(1, put_call("key 1", &turn.to_string())).unwrap();
        }
        let ready: Vec<usize> = (0..2).filter(|at| all[*at].is_ready(world.now_ms)).collect();
        match ready[..] {
            [] => world.now_ms = all.iter().filter_map(|one| one.wake_ms).min().unwrap().max(world.now_ms + 1),
            [at] => world.step(&mut all[at]),
            _ => world.step(&mut all[usize::from(turn % 4 == 0)]),
        }
    }
    panic!("at {} ms a call the flow does not end", world.call_ms)
}

/// Where more writes come in during each round than a source is mostly frozen with, its rounds leave as many each time.
#[test]
fn a_shard_is_split_however_much_is_written_in_a_round() {
    for writes in [10, 100] {
        let mut world = bed::world(writes);
        for at in 0..30 {
            put(&mut world, &format!("key {at}"), "body");
        }
        let source = bed::map(&mut world).remove(0);
        let cuts = vec![Bytes::from_static(b"key 2")];
        let plan = shard_reference::Command::Plan { sources: vec![(source.shard, source.epoch)], cuts };
        let shard_reference::Reply::Flow { flow } = bed::tell_map(&mut world, &plan) else { panic!("no flow") };
        world.call_ms = 40;
        let mut runner = Running::new(0, runner::run_flow(bed::id(&mut world), flow.flow));
        let cluster = clusters::shard(bed::id(&mut world), source.shard).unwrap();
        let ended = (0..20_000).find_map(|_| {
            if !runner.is_ready(world.now_ms) {
                world.now_ms += 1;
                return None;
            }
            for at in 0..writes {
                let _refused_once_it_stands_still =
                    world.write(&cluster, BackendKind::Shard, &marker(source.epoch, at).to_bytes(), None);
            }
            world.step(&mut runner);
            runner.response.clone()
        });
        assert!(matches!(ended, Some(Ok(_))), "{writes} writes: {ended:?}");
        assert_eq!(bed::map(&mut world).len(), 2);
    }
}

/// A write that takes no room but a row.
fn marker(epoch: u64, at: u64) -> shard::Command {
    let versioning = shard::Versioning::Enabled;
    let terms =
        DeleteTerms { epoch, versioning, at_unix_ms: 1, bypass_governance: false, mfa_missing: false, owner: None };
    let condition = shard::Condition::default();
    shard::Command::Delete {
        terms,
        step: DeleteStep { key: format!("key {at}").into(), version: Version::Current, condition },
    }
}

/// A shard is frozen for some round trips until its cut-over. Over long distances, or with busy nodes, they take longer
/// than the second in which they are mostly done.
#[test]
fn shards_are_split_however_slow_their_rounds_are() {
    for call_ms in [1, 40, 150, 300] {
        let mut world = bed::world(call_ms);
        for at in 0..30 {
            put(&mut world, &format!("key {at}"), "body");
        }
        let source = bed::map(&mut world).remove(0);
        let cuts = ["key 15", "key 22"].map(|cut| Bytes::copy_from_slice(cut.as_bytes())).to_vec();
        let plan = shard_reference::Command::Plan { sources: vec![(source.shard, source.epoch)], cuts };
        let shard_reference::Reply::Flow { flow } = bed::tell_map(&mut world, &plan) else { panic!("no flow") };
        world.call_ms = call_ms;
        let id = bed::id(&mut world);
        let runner = Running::new(0, runner::run_flow(id, flow.flow));
        let ended = beside_a_writer(&mut world, runner);
        assert!(ended.is_ok(), "{call_ms} ms a call: {ended:?}");
        let map = bed::map(&mut world);
        assert!(map.len() == 3 && map.iter().all(|entry| entry.flow.is_none()), "{call_ms} ms a call: {map:?}");
    }
}
