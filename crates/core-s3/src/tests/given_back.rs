//! What becomes of snapshots whose makers stop: for lack of time, or at a deadline between any two rounds. And what
//! happens when the commands that give their pins back are lost, late, doubled, or arrive before the pins.

use super::tended::{Tended, NAME};
use super::world::Running;
use crate::buckets::with_bucket::Trouble;
use crate::clusters;
use crate::listing::snapshot::{self, Instant, Progress, UNTOLD_KEEP_MS};
use base_types::s3::*;
use core::time::Duration;
use core_backends::shard::{self, PinInfo, Reply};
use core_flow::{CallResult, Step};

/// Longer than any maker holds writes.
const FREEZE_OVER_MS: u64 = 3_001;

/// A bucket of several shards.
fn bucket(seed: u64) -> Tended {
    let mut bucket = Tended::new(seed, 8);
    for at in 0..30 {
        bucket.put(&format!("k{at:02}")).unwrap();
    }
    bucket.rest();
    assert!(bucket.map().len() > 2);
    bucket
}

/// Pins that shards hold.
fn pins(bucket: &Tended) -> Vec<PinInfo> {
    let held = bucket.map().into_iter().map(|entry| match bucket.ask(entry.shard, &shard::Query::Describe) {
        Ok(Reply::Shard { info }) => info.pins,
        other => panic!("{other:?}"),
    });
    held.flatten().collect()
}

/// Pins that have rows.
fn rows(bucket: &mut Tended) -> Vec<u128> {
    let answer = bucket.world.carry_out(snapshot::list(bucket.id).unwrap());
    // All are old at the end of time; shards are few, so that all fit into one look.
    snapshot::old(u64::MAX, answer).unwrap().1.into_iter().map(|(pin, _)| pin).collect()
}

/// The first page of a longer walk, or a whole count.
fn making(bucket: &mut Tended, counts: bool) -> Running {
    let name = NAME.to_string();
    let count = CountObjects { bucket: name.clone(), snapshot: true, ..CountObjects::default() };
    let page = ListObjectsV2 { bucket: name, snapshot: true, max_keys: Some(4), ..ListObjectsV2::default() };
    let action: S3Action = if counts { count.into() } else { page.into() };
    bucket.world.begin(0, action).unwrap()
}

#[test]
fn who_surely_has_no_time_for_a_snapshot_is_refused_before_it_pins_anything() {
    // What the row took, the time left after it, and whether two rounds more are too many. Longer than half a second is an
    // accident.
    for (row_ms, left_ms, refused) in [(20, 39, true), (20, 40, false), (2_000, 999, true), (2_000, 1_000, false)] {
        let (mut bucket, mut instant) = (bucket(38), Instant::make());
        let place = bucket.place();
        let begun = instant.next(&mut bucket.world.context(0), &place, Vec::new());
        let Ok(Progress::Step(Step::Calls(calls))) = begun else { panic!("no calls") };
        let noted_ms = bucket.world.now_ms;
        let answers: Vec<CallResult> = calls.into_iter().map(|call| bucket.world.carry_out(call)).collect();
        bucket.world.now_ms = noted_ms + row_ms;
        let mut context = bucket.world.context(0);
        context.deadline = context.now + Duration::from_millis(left_ms);
        match instant.next(&mut context, &place, answers) {
            Ok(Progress::Step(Step::Calls(calls))) if !refused => assert_eq!(calls.len(), place.map.entries.len()),
            Err(Trouble::Failed(failure)) if refused => {
                assert_eq!(failure.refusal.code.as_str(), "DeadlineExceeded");
                let says = |words: &str| failure.refusal.message.contains(words);
                let least = format!("takes {} ms more at least", 2 * row_ms.min(500));
                assert!(says(&least) && says(&format!("leaves {left_ms} ms")), "{}", failure.refusal.message);
            }
            Err(other) => panic!("{row_ms} {left_ms}: {other:?}"),
            Ok(_) => panic!("{row_ms} {left_ms}: it was not refused"),
        }
        // Nothing was pinned, so there is one thing to do: its row goes.
        assert_eq!(rows(&mut bucket).len(), 1);
        let mut left = Running::new(0, instant.cleanup(bucket.id).unwrap());
        let before = bucket.world.calls;
        bucket.world.finish_background(&mut left).unwrap();
        assert_eq!(bucket.world.calls - before, if refused { 1 } else { place.map.entries.len() as u64 + 1 });
        assert_eq!((pins(&bucket).len(), rows(&mut bucket).len()), (0, 0));
    }
}

#[test]
fn what_a_maker_left_at_its_deadline_is_given_back_behind_it() {
    let (mut pinned, mut told, mut whole) = (0, 0, 0);
    for counts in [false, true] {
        for steps in 0..60 {
            let mut bucket = bucket(39);
            let mut running = making(&mut bucket, counts);
            for _ in 0..steps {
                if running.response.is_none() {
                    bucket.world.step(&mut running);
                }
            }
            let ended = running.response.is_some();
            pinned += usize::from(!ended && !pins(&bucket).is_empty());
            let left = running.end();
            if ended {
                assert!(left.is_none(), "the client has the answer, and the pins it needs are kept");
                let standing = pins(&bucket);
                assert_eq!(standing.is_empty(), counts);
                assert!(standing.iter().all(|pin| pin.committed));
                assert_eq!(rows(&mut bucket).is_empty(), counts);
                *(if counts { &mut whole } else { &mut told }) += 1;
                continue;
            }
            if let Some(mut left) = left {
                bucket.world.finish_background(&mut left).unwrap();
            }
            assert_eq!((pins(&bucket).len(), rows(&mut bucket).len()), (0, 0), "{counts} {steps}");
        }
    }
    assert!(pinned > 20 && told > 5 && whole > 5, "{pinned} {told} {whole}");
}

/// No pin stands without a row, by which the upkeep finds it; what is not committed is gone at the next write.
#[test]
fn what_is_given_back_may_be_lost_late_doubled_or_ahead_of_its_pins() {
    let (mut late, mut stood, mut gone) = (0, 0, 0);
    for seed in 0..150 {
        let mut bucket = bucket(40);
        (bucket.world.random, bucket.world.lost, bucket.world.late) = (core_flow::Random::new(seed), 20, 30);
        let mut running = making(&mut bucket, seed % 2 == 0);
        for _ in 0..bucket.world.random.below(60) {
            if running.response.is_none() {
                bucket.world.step(&mut running);
            }
        }
        let told = matches!(&running.response, Some(Ok(_)));
        let Some(mut left) = running.end().filter(|_| !told) else { continue };
        (bucket.world.lost, bucket.world.late) = (100, 200);
        // Some calls never arrive: the upkeep finds those by the row.
        let first = clusters::shard(bucket.id, bucket.map()[0].shard).unwrap();
        bucket.world.dead.extend((seed % 3 == 0).then_some(first));
        let _ = bucket.world.finish_background(&mut left);
        bucket.world.dead.clear();
        late += bucket.world.late_writes();
        bucket.world.settle();
        let named = rows(&mut bucket);
        let standing: Vec<PinInfo> = pins(&bucket).into_iter().filter(|pin| pin.committed).collect();
        assert!(standing.iter().all(|pin| named.contains(&pin.pin)), "seed {seed}: {standing:?}, rows {named:?}");
        stood += standing.len();
        gone += usize::from(named.is_empty());
        (bucket.world.lost, bucket.world.late) = (0, 0);
        // One more unpin than the row names changes nothing.
        for pin in &named {
            let mut again = Running::new(0, snapshot::give_back(bucket.id, *pin, bucket.place().map));
            bucket.world.finish_background(&mut again).unwrap();
            let mut again = Running::new(0, snapshot::give_back(bucket.id, *pin, bucket.place().map));
            bucket.world.finish_background(&mut again).unwrap();
        }
        bucket.world.now_ms += FREEZE_OVER_MS.max(2 * UNTOLD_KEEP_MS);
        for at in 0..30 {
            bucket.put(&format!("k{at:02}")).unwrap();
        }
        assert!(pins(&bucket).is_empty() && rows(&mut bucket).is_empty(), "seed {seed}");
    }
    assert!(late > 20 && stood > 0 && gone > 10, "{late} {stood} {gone}");
}
