//! A bucket of several shards: flows with crashes, late and repeated commands, and two runners at once.

use super::flow::{
    cursor_of, decide, decide_all, export_query, feed_part, feed_query, freezes, gives_up, import_of, Seen, Step,
    FEED_CLOSE,
};
use super::*;
use crate::reply::decode_reply;
use crate::shard::tests::bed::{Bed, Plain, Random};
use crate::shard::tests::model::change;
use crate::shard::{self, ShardInfo, Versioning};
use crate::testing::MapSpace;
use base_types::LogIndex;
use std::collections::BTreeMap;

/// A bucket's map and its shards.
struct Bucket {
    map: MapSpace,
    shards: BTreeMap<u64, Bed>,
    now_ms: u64,
}

impl Bucket {
    fn new() -> Bucket {
        let mut bucket = Bucket { map: MapSpace::default(), shards: BTreeMap::new(), now_ms: 1_000 };
        bucket.tell(Command::Initialize).unwrap();
        bucket.shards.insert(1, Bed::serving());
        bucket
    }

    fn tell(&mut self, command: Command) -> Result<Reply, Refusal> {
        let bytes = command.to_bytes();
        validate(&bytes)?;
        let at = ApplyContext {
            life: base_types::Generation(1),
            index: LogIndex(1),
            position: 0,
            cluster_time_ms: self.now_ms,
        };
        let reply = apply(at, &mut self.map, &bytes).unwrap();
        crate::testing::check(base_types::BackendKind::ShardReference, &self.map);
        assert!(self.map.rows.keys().all(|key| key.last() != Some(&1)));
        self.check_map();
        decode_reply(reply)
    }

    fn ask(&self, question: Query) -> Result<Reply, Refusal> {
        decode_reply(query(self.now_ms, &self.map, &question.to_bytes()).unwrap())
    }

    fn entries(&self) -> Vec<Entry> {
        match self.ask(Query::Map { start: Bytes::new(), limit: 1000 }) {
            Ok(Reply::Entries { entries, more: false, .. }) => entries,
            other => panic!("{other:?}"),
        }
    }

    fn check_map(&self) {
        let entries = self.entries();
        assert_eq!(entries[0].range.start, Bytes::new());
        assert_eq!(entries[entries.len() - 1].range.end, None);
        for pair in entries.windows(2) {
            assert_eq!(pair[0].range.end.as_ref(), Some(&pair[1].range.start), "a gap or an overlap");
        }
    }

    /// One write, routed by the map; refused now and then while a shard is being cut over.
    fn write(&mut self, random: &mut Random, plain_s3: &mut Plain, versioning: Versioning) {
        let key = random.key();
        let Ok(Reply::Entries { entries, .. }) = self.ask(Query::Locate { key: key.clone().into() }) else { panic!() };
        assert!(entries[0].range.holds(key.as_bytes()));
        if let Some(bed) = self.shards.get_mut(&entries[0].shard) {
            (bed.epoch, bed.now_ms) = (entries[0].epoch, self.now_ms);
            change(random, bed, plain_s3, versioning, &key);
        }
    }

    fn seen(&self, peers: &[crate::shard::Peer]) -> Vec<Seen> {
        let see = |peer: &crate::shard::Peer| match self.shards.get(&peer.shard) {
            None => Seen::NoCluster,
            Some(bed) => match bed.ask(shard::Query::Describe) {
                Ok(shard::Reply::Shard { info }) => Seen::Shard(Box::new(info)),
                _ => Seen::Empty,
            },
        };
        peers.iter().map(see).collect()
    }

    fn shard(&mut self, number: u64) -> &mut Bed {
        let now_ms = self.now_ms;
        let bed = self.shards.get_mut(&number).unwrap();
        bed.now_ms = now_ms;
        bed
    }
}

/// A runner's knowledge: what it read, which may be old when it acts.
#[derive(Clone)]
struct View {
    flow: Flow,
    sources: Vec<Seen>,
    targets: Vec<Seen>,
}

fn look(bucket: &Bucket, flow: u64) -> Option<View> {
    let Ok(Reply::Flow { flow }) = bucket.ask(Query::Flow { flow }) else { return None };
    let (sources, targets) = (bucket.seen(&flow.sources), bucket.seen(&flow.targets));
    Some(View { flow, sources, targets })
}

/// Does what a runner with this view does: all steps there are, or any one. Refusals are what an old view earns.
fn act(bucket: &mut Bucket, view: &View) -> Step {
    let steps = decide_all(&view.flow, &view.sources, &view.targets, FEED_CLOSE);
    let (first, many) = match bucket.now_ms.is_multiple_of(2) {
        true => (0, steps.len()),
        false => (bucket.now_ms as usize / 2 % steps.len().max(1), 1),
    };
    steps.iter().skip(first).take(many).for_each(|step| carry_out(bucket, view, step.clone()));
    decide(&view.flow, &view.sources, &view.targets)
}

fn carry_out(bucket: &mut Bucket, view: &View, step: Step) {
    match step {
        Step::Map(command) => drop(bucket.tell(command)),
        Step::MakeCluster { target } => {
            bucket.shards.entry(view.flow.targets[target].shard).or_insert_with(Bed::blank);
        }
        Step::Source { source, command } => drop(bucket.shard(view.flow.sources[source].shard).tell(command)),
        Step::Target { target, command } => drop(bucket.shard(view.flow.targets[target].shard).tell(command)),
        Step::Copy { source, target } => copy(bucket, view, source, target),
        Step::Feed { source, targets } => feed(bucket, view, source, &targets),
        Step::Done | Step::Stuck { .. } => {}
    }
}

fn info_of(view: &View, target: usize) -> &ShardInfo {
    let Seen::Shard(info) = &view.targets[target] else { panic!() };
    info
}

fn copy(bucket: &mut Bucket, view: &View, source: usize, target: usize) {
    let (flow, info) = (&view.flow, info_of(view, target));
    let cursor = cursor_of(flow, source, target, info).unwrap();
    let question = export_query(flow, source, target, cursor, 1).unwrap();
    let Ok(answer) = bucket.shard(flow.sources[source].shard).ask(question) else { return };
    let (command, _) = import_of(flow, source, target, info, answer).unwrap();
    let _ = bucket.shard(flow.targets[target].shard).tell(command);
}

fn feed(bucket: &mut Bucket, view: &View, source: usize, targets: &[usize]) {
    let flow = &view.flow;
    let cursor = |target: usize| cursor_of(flow, source, target, info_of(view, target)).unwrap();
    let cursors: Vec<_> = targets.iter().map(|target| cursor(*target)).collect();
    let question = feed_query(flow, source, &cursors).unwrap();
    let Ok(answer) = bucket.shard(flow.sources[source].shard).ask(question) else { return };
    for target in targets.iter().copied() {
        let Some(part) = feed_part(flow, target, cursor(target), &answer) else { continue };
        let (command, _) = import_of(flow, source, target, info_of(view, target), part).unwrap();
        let _ = bucket.shard(flow.targets[target].shard).tell(command);
    }
}

/// Runs a flow to its end with writes between, by runners that see old states and do steps again.
fn run_flow(bucket: &mut Bucket, random: &mut Random, plain_s3: &mut Plain, flow: u64, versioning: Versioning) {
    let mut old: Vec<View> = Vec::new();
    let mut stuck = 0;
    for _ in 0..5_000 {
        bucket.now_ms += random.below(200);
        for _ in 0..random.below(3) {
            bucket.write(random, plain_s3, versioning);
        }
        if !old.is_empty() && random.below(3) == 0 {
            let view = random.pick(&old).clone();
            act(bucket, &view);
            continue;
        }
        let Some(view) = look(bucket, flow) else { return };
        if random.below(4) == 0 {
            old.push(view.clone());
        }
        stuck += u64::from(matches!(act(bucket, &view), Step::Stuck { .. }));
        assert_eq!(stuck, 0, "the flow is stuck: {view:?}", view = decide(&view.flow, &view.sources, &view.targets));
    }
    panic!("the flow does not end");
}

/// All shards of the map together are the plain S3.
fn check_bucket(bucket: &mut Bucket, plain_s3: &Plain) {
    let mut items = Vec::new();
    let mut totals = crate::shard::Totals::default();
    for entry in bucket.entries() {
        let bed = bucket.shard(entry.shard);
        bed.epoch = entry.epoch;
        items.extend(bed.walk(bed.listing("", ""), true, 50));
        totals = totals.plus(&bed.count("", None));
    }
    let told: Vec<_> = items.into_iter().map(crate::shard::tests::bed::plain).collect();
    assert_eq!(told, plain_s3.list("", "", true));
    assert_eq!(totals, plain_s3.count(""));
}

fn plan(bucket: &mut Bucket, sources: &[&Entry], cuts: &[&str]) -> u64 {
    let sources = sources.iter().map(|entry| (entry.shard, entry.epoch)).collect();
    let cuts = cuts.iter().map(|cut| Bytes::copy_from_slice(cut.as_bytes())).collect();
    match bucket.tell(Command::Plan { sources, cuts }).unwrap() {
        Reply::Flow { flow } => flow.flow,
        other => panic!("{other:?}"),
    }
}

pub fn split_split_and_merge(seed: u64, versioning: Versioning) {
    let mut random = Random(seed);
    let (mut bucket, mut plain_s3) = (Bucket::new(), Plain::default());
    for _ in 0..100 {
        bucket.write(&mut random, &mut plain_s3, versioning);
    }
    let entries = bucket.entries();
    let flow = plan(&mut bucket, &[&entries[0]], &["0", "b"]);
    run_flow(&mut bucket, &mut random, &mut plain_s3, flow, versioning);
    check_bucket(&mut bucket, &plain_s3);
    let entries = bucket.entries();
    assert_eq!(entries.len(), 3);
    let flow = plan(&mut bucket, &[&entries[1]], &["a", "a\0"]);
    run_flow(&mut bucket, &mut random, &mut plain_s3, flow, versioning);
    check_bucket(&mut bucket, &plain_s3);
    // Three become two, cut elsewhere.
    let entries = bucket.entries();
    let flow = plan(&mut bucket, &[&entries[1], &entries[2], &entries[3]], &["a-"]);
    run_flow(&mut bucket, &mut random, &mut plain_s3, flow, versioning);
    check_bucket(&mut bucket, &plain_s3);
    assert_eq!(bucket.entries().len(), 4);
    let Ok(Reply::Retired { shards, more: false }) = bucket.ask(Query::Retired { after: 0, limit: 99 }) else {
        panic!()
    };
    assert_eq!(shards.len(), 1 + 1 + 3);
    for retired in shards {
        let (shard, epoch) = (retired.peer.shard, retired.peer.epoch);
        let drop_it = shard::Command::Drop { epoch, limit: 4096, force: false };
        bucket.shard(shard).tell(drop_it).unwrap();
        bucket.tell(Command::Forget { shard }).unwrap();
    }
    check_bucket(&mut bucket, &plain_s3);
}

#[test]
pub fn flows_come_to_their_end_whatever_their_runners_do() {
    for seed in 0..6 {
        let versioning = [Versioning::Unversioned, Versioning::Enabled, Versioning::Suspended][seed as usize % 3];
        split_split_and_merge(seed, versioning);
    }
}

fn plan_narrow(bucket: &mut Bucket, source: &Entry) -> u64 {
    match bucket.tell(Command::PlanNarrow { source: (source.shard, source.epoch) }).unwrap() {
        Reply::Flow { flow } => flow.flow,
        other => panic!("{other:?}"),
    }
}

/// Narrowed, split, and narrowed where it was split, with keys that come behind all others.
pub fn narrow_split_and_narrow(seed: u64, versioning: Versioning) {
    let mut random = Random(seed);
    let (mut bucket, mut plain_s3) = (Bucket::new(), Plain::default());
    for round in 0..3 {
        for _ in 0..60 {
            bucket.write(&mut random, &mut plain_s3, versioning);
        }
        let entries = bucket.entries();
        let last = &entries[entries.len() - 1];
        let flow = plan_narrow(&mut bucket, last);
        run_flow(&mut bucket, &mut random, &mut plain_s3, flow, versioning);
        check_bucket(&mut bucket, &plain_s3);
        let narrowed = bucket.entries();
        // Of a tail that nobody has written to, nothing is given up.
        assert!(narrowed.len() == entries.len() + 1 || round > 0, "{narrowed:?}");
        assert!(narrowed.iter().any(|entry| entry.shard == last.shard && entry.epoch > last.epoch));
    }
    let first = bucket.entries()[0].clone();
    let flow = plan(&mut bucket, &[&first], &["0", "b"]);
    run_flow(&mut bucket, &mut random, &mut plain_s3, flow, versioning);
    bucket.now_ms += shard::NARROW_AFTER_MS;
    for at in [2, 1, 0] {
        let entry = bucket.entries()[at].clone();
        let flow = plan_narrow(&mut bucket, &entry);
        run_flow(&mut bucket, &mut random, &mut plain_s3, flow, versioning);
        check_bucket(&mut bucket, &plain_s3);
    }
    for _ in 0..60 {
        bucket.write(&mut random, &mut plain_s3, versioning);
    }
    check_bucket(&mut bucket, &plain_s3);
}

#[test]
pub fn a_narrowed_shard_and_its_tail_are_what_it_was() {
    for seed in 0..6 {
        let versioning = [Versioning::Unversioned, Versioning::Enabled, Versioning::Suspended][seed as usize % 3];
        narrow_split_and_narrow(seed, versioning);
    }
}

#[test]
fn a_narrowing_given_up_leaves_the_bucket_as_it_was() {
    let (mut random, mut plain_s3) = (Random(5), Plain::default());
    let mut bucket = Bucket::new();
    bucket.write(&mut random, &mut plain_s3, Versioning::Unversioned);
    let before = bucket.entries();
    let flow = plan_narrow(&mut bucket, &before[0]);
    bucket.tell(Command::Advance { flow, from: Phase::Planned, to: Phase::Aborting }).unwrap();
    run_flow(&mut bucket, &mut random, &mut plain_s3, flow, Versioning::Unversioned);
    assert_eq!(bucket.entries(), before);
    let Ok(Reply::Retired { shards, .. }) = bucket.ask(Query::Retired { after: 0, limit: 9 }) else { panic!() };
    assert_eq!(shards.iter().map(|retired| retired.peer.shard).collect::<Vec<_>>(), [2], "the source stays");
}

#[test]
fn a_flow_that_has_switched_ends_only_when_its_targets_serve() {
    let mut random = Random(78);
    let (mut bucket, mut plain_s3) = (Bucket::new(), Plain::default());
    for _ in 0..60 {
        bucket.write(&mut random, &mut plain_s3, Versioning::Enabled);
    }
    let before = bucket.entries();
    let flow = plan(&mut bucket, &[&before[0]], &["a"]);
    let switch = Step::Map(Command::Switch { flow });
    let view = loop {
        let view = look(&bucket, flow).unwrap();
        let steps = decide_all(&view.flow, &view.sources, &view.targets, FEED_CLOSE);
        if steps.contains(&switch) {
            assert_eq!(steps.len(), 3, "beside the activation of two targets: {steps:?}");
            break view;
        }
        steps.into_iter().for_each(|step| carry_out(&mut bucket, &view, step));
    };
    // The runner dies when it has told the map alone.
    carry_out(&mut bucket, &view, switch);
    let of_targets = bucket.entries();
    assert!(of_targets.iter().all(|entry| entry.flow == Some(flow)), "no other flow may have them yet");
    let Ok(Reply::Retired { shards, .. }) = bucket.ask(Query::Retired { after: 0, limit: 9 }) else { panic!() };
    assert!(shards.is_empty(), "the source has the stamps from which its targets continue");
    let source = bucket.shards.remove(&before[0].shard).unwrap();
    let view = look(&bucket, flow).unwrap();
    assert!(matches!(decide(&view.flow, &view.sources, &view.targets), Step::Stuck { .. }));
    bucket.shards.insert(before[0].shard, source);
    run_flow(&mut bucket, &mut random, &mut plain_s3, flow, Versioning::Enabled);
    assert!(bucket.entries().iter().all(|entry| entry.flow.is_none()));
    let Ok(Reply::Retired { shards, .. }) = bucket.ask(Query::Retired { after: 0, limit: 9 }) else { panic!() };
    assert_eq!(shards.len(), 1);
    check_bucket(&mut bucket, &plain_s3);
}

/// It never should be: a row is taken from a target behind the flow's back.
#[test]
fn a_flow_whose_sides_are_not_equal_is_given_up_before_any_source_is_cut_over() {
    for merges in [false, true] {
        let mut random = Random(23);
        let (mut bucket, mut plain_s3) = (Bucket::new(), Plain::default());
        for _ in 0..80 {
            bucket.write(&mut random, &mut plain_s3, Versioning::Enabled);
        }
        let first = bucket.entries();
        let mut flow = plan(&mut bucket, &[&first[0]], &["a"]);
        if merges {
            run_flow(&mut bucket, &mut random, &mut plain_s3, flow, Versioning::Enabled);
            let halves = bucket.entries();
            flow = plan(&mut bucket, &[&halves[0], &halves[1]], &[]);
        }
        let (before, mut spoilt, mut told) = (bucket.entries(), false, 0);
        for _ in 0..2_000 {
            let Some(view) = look(&bucket, flow) else { break };
            if view.flow.phase == Phase::Cutting && !spoilt {
                spoilt = true;
                spoil(&mut bucket, &view);
                continue;
            }
            for step in decide_all(&view.flow, &view.sources, &view.targets, FEED_CLOSE) {
                let over = matches!(step, Step::Source { command: shard::Command::CutOver { .. }, .. });
                assert!(!over, "one source alone would be gone: {step:?}");
                told += u64::from(view.flow.phase == Phase::Cutting && gives_up(&step));
                carry_out(&mut bucket, &view, step);
            }
        }
        assert!(spoilt && told > 0 && look(&bucket, flow).is_none());
        let after = bucket.entries();
        assert_eq!(after.len(), before.len());
        assert!(after.iter().zip(&before).all(|(now, then)| now.shard == then.shard && now.flow.is_none()));
        for _ in 0..20 {
            bucket.write(&mut random, &mut plain_s3, Versioning::Enabled);
        }
        check_bucket(&mut bucket, &plain_s3);
        // Another flow finds nothing in its way.
        let flow = plan(&mut bucket, &[&after[0]], &["0"]);
        run_flow(&mut bucket, &mut random, &mut plain_s3, flow, Versioning::Enabled);
        check_bucket(&mut bucket, &plain_s3);
    }
}

/// Another runner has gone on since this one has seen the source: that is no difference between the two sides.
#[test]
fn targets_seen_later_than_their_source_are_not_unequal() {
    let mut random = Random(29);
    let (mut bucket, mut plain_s3) = (Bucket::new(), Plain::default());
    for _ in 0..60 {
        bucket.write(&mut random, &mut plain_s3, Versioning::Enabled);
    }
    let first = bucket.entries();
    let flow = plan(&mut bucket, &[&first[0]], &["a"]);
    let (mut old, mut further, mut serving): (Vec<View>, u32, u32) = (Vec::new(), 0, 0);
    while let Some(view) = look(&bucket, flow) {
        for seen in &old {
            let steps = decide_all(&seen.flow, &seen.sources, &view.targets, FEED_CLOSE);
            assert!(!steps.iter().any(gives_up), "{steps:?}");
            // One of them was seen later than the other (seed 2008).
            let mut mixed = seen.targets.clone();
            mixed[0] = view.targets[0].clone();
            let steps = decide_all(&seen.flow, &seen.sources, &mixed, FEED_CLOSE);
            assert!(!steps.iter().any(gives_up), "{steps:?}");
            let Seen::Shard(now) = &view.targets[0] else { panic!() };
            further += u32::from(now.cursors.first().is_some_and(|cursor| cursor.feed > 3));
            serving += u32::from(now.state == shard::ShardState::Serving);
        }
        let Seen::Shard(source) = &view.sources[0] else { panic!() };
        let steps = decide_all(&view.flow, &view.sources, &view.targets, FEED_CLOSE);
        if view.flow.phase == Phase::Cutting && !source.frozen && old.len() < 3 {
            // Seen standing still, and the freeze is over before anything came of it.
            steps.into_iter().for_each(|step| carry_out(&mut bucket, &view, step));
            old.extend(look(&bucket, flow));
            bucket.now_ms += u64::from(super::flow::CUT_FREEZE_MS) + 1;
            bucket.shards.values_mut().for_each(|bed| bed.now_ms = bucket.now_ms);
            for _ in 0..4 {
                bucket.write(&mut random, &mut plain_s3, Versioning::Enabled);
            }
            continue;
        }
        steps.into_iter().for_each(|step| carry_out(&mut bucket, &view, step));
    }
    assert!(old.len() == 3 && further > 0 && serving > 0, "{} {further} {serving}", old.len());
    check_bucket(&mut bucket, &plain_s3);
}

/// Takes a row from the first target that has one.
fn spoil(bucket: &mut Bucket, view: &View) {
    for (target, peer) in view.flow.targets.iter().enumerate() {
        let Seen::Shard(info) = &view.targets[target] else { panic!() };
        let bed = bucket.shard(peer.shard);
        let rows = bed.space.rows.keys().filter(|key| key[0] == b'v').cloned().collect::<Vec<_>>();
        for (source, cursor) in info.cursors.iter().enumerate() {
            let Some(key) = rows.first() else { continue };
            let rows = vec![(Bytes::from(key.to_vec()), None)];
            let (expected, cursor, source) = (cursor.clone(), cursor.clone(), source as u16);
            let import = shard::Command::Import { epoch: peer.epoch, source, expected, cursor, rows };
            if bed.tell(import).is_ok() {
                return;
            }
        }
    }
    panic!("no target has a row");
}

#[test]
fn a_flow_given_up_leaves_the_bucket_as_it_was() {
    let mut random = Random(77);
    let (mut bucket, mut plain_s3) = (Bucket::new(), Plain::default());
    for _ in 0..60 {
        bucket.write(&mut random, &mut plain_s3, Versioning::Enabled);
    }
    let before = bucket.entries();
    let flow = plan(&mut bucket, &[&before[0]], &["a"]);
    // As far as the first copies.
    for _ in 0..5 {
        let view = look(&bucket, flow).unwrap();
        act(&mut bucket, &view);
        bucket.write(&mut random, &mut plain_s3, Versioning::Enabled);
    }
    let late = look(&bucket, flow).unwrap();
    bucket.tell(Command::Advance { flow, from: Phase::Copying, to: Phase::Aborting }).unwrap();
    act(&mut bucket, &late);
    while let Some(view) = look(&bucket, flow) {
        act(&mut bucket, &view);
        act(&mut bucket, &late);
    }
    assert_eq!(bucket.entries(), before);
    check_bucket(&mut bucket, &plain_s3);
    let Ok(Reply::Retired { shards, .. }) = bucket.ask(Query::Retired { after: 0, limit: 99 }) else { panic!() };
    assert_eq!(shards.len(), 2, "its targets are to be dropped");
    // A command of the old flow comes very late; the next flow gets by.
    let late = shard::Command::BeginSplit { epoch: before[0].epoch, targets: late.flow.targets };
    bucket.shard(before[0].shard).tell(late).unwrap();
    bucket.write(&mut random, &mut plain_s3, Versioning::Enabled);
    let flow = plan(&mut bucket, &[&before[0]], &["b"]);
    run_flow(&mut bucket, &mut random, &mut plain_s3, flow, Versioning::Enabled);
    check_bucket(&mut bucket, &plain_s3);
}

/// A shard that lacks more writes holds back the freeze of a flow's other shards, whose feeds continue.
#[test]
fn writers_of_one_source_do_not_wait_for_rows_of_another() {
    let (mut random, mut plain_s3) = (Random(5), Plain::default());
    let mut bucket = Bucket::new();
    for _ in 0..100 {
        bucket.write(&mut random, &mut plain_s3, Versioning::Enabled);
    }
    let entries = bucket.entries();
    let flow = plan(&mut bucket, &[&entries[0]], &["a"]);
    run_flow(&mut bucket, &mut random, &mut plain_s3, flow, Versioning::Enabled);
    let entries = bucket.entries();
    let flow = plan(&mut bucket, &[&entries[0], &entries[1]], &[]);
    let view = loop {
        let view = look(&bucket, flow).unwrap();
        if view.flow.phase == Phase::Cutting {
            break view;
        }
        decide_all(&view.flow, &view.sources, &view.targets, FEED_CLOSE)
            .into_iter()
            .for_each(|step| carry_out(&mut bucket, &view, step));
    };
    let told = |view: &View| decide_all(&view.flow, &view.sources, &view.targets, FEED_CLOSE);
    assert!(told(&view).iter().all(freezes) && told(&view).len() == 2, "all are near: {:?}", told(&view));
    let feed_of = |view: &View, source: usize| match &view.sources[source] {
        Seen::Shard(info) => info.feed,
        other => panic!("{other:?}"),
    };
    let behind =
        |view: &View, source| feed_of(view, source) - cursor_of(&view.flow, source, 0, info_of(view, 0)).unwrap().feed;
    let mut now = look(&bucket, flow).unwrap();
    while behind(&now, 0) <= FEED_CLOSE || behind(&now, 1) == 0 || behind(&now, 1) > FEED_CLOSE {
        // Mostly of the first shard's keys.
        let (low, entry) = (behind(&now, 1) > 0, &entries[0]);
        let key = random.key();
        if !low || entry.range.holds(key.as_bytes()) {
            let holder = entries.iter().find(|entry| entry.range.holds(key.as_bytes())).unwrap();
            let now_ms = bucket.now_ms;
            let bed = bucket.shards.get_mut(&holder.shard).unwrap();
            (bed.epoch, bed.now_ms) = (holder.epoch, now_ms);
            change(&mut random, bed, &mut plain_s3, Versioning::Enabled, &key);
        }
        now = look(&bucket, flow).unwrap();
    }
    let steps = told(&now);
    let feeds = |source| steps.contains(&Step::Feed { source, targets: vec![0] });
    assert!(steps.len() == 2 && feeds(0) && feeds(1), "{steps:?}");
    run_flow(&mut bucket, &mut random, &mut plain_s3, flow, Versioning::Enabled);
    check_bucket(&mut bucket, &plain_s3);
}

#[test]
fn plans_that_do_not_fit_are_refused() {
    let mut bucket = Bucket::new();
    let code = |result: Result<Reply, Refusal>| result.err().map(|refusal| refusal.code.as_str());
    let plan = |sources: &[(u64, u64)], cuts: &[&'static str]| Command::Plan {
        sources: sources.to_vec(),
        cuts: cuts.iter().map(|cut| Bytes::from_static(cut.as_bytes())).collect(),
    };
    assert_eq!(code(bucket.tell(plan(&[], &[]))), Some("LimitOutOfRange"));
    assert_eq!(code(bucket.tell(plan(&[(1, 1)], &["b", "a"]))), Some("Malformed"));
    assert_eq!(code(bucket.tell(plan(&[(1, 2)], &["a"]))), Some("Conflict"));
    assert_eq!(code(bucket.tell(plan(&[(9, 1)], &["a"]))), Some("Conflict"));
    assert_eq!(code(bucket.tell(plan(&[(1, 1)], &["m"]))), None);
    assert_eq!(code(bucket.tell(plan(&[(1, 1)], &["m"]))), Some("ReshardRunning"));
    let skip = Command::Advance { flow: 1, from: Phase::Planned, to: Phase::Switched };
    assert_eq!(code(bucket.tell(skip)), Some("Conflict"));
    assert_eq!(code(bucket.tell(Command::Switch { flow: 1 })), Some("Conflict"));
    assert_eq!(code(bucket.tell(Command::Finish { flow: 1 })), Some("Conflict"));
    assert_eq!(code(bucket.tell(Command::Finish { flow: 5 })), None);
}

#[test]
fn a_bucket_that_goes_begins_no_flow() {
    let mut bucket = Bucket::new();
    let plan = || Command::Plan { sources: vec![(1, 1)], cuts: vec!["m".into()] };
    bucket.tell(Command::Close).unwrap();
    assert_eq!(bucket.tell(plan()).unwrap_err().code.as_str(), "BucketClosing");
    bucket.tell(Command::Reopen).unwrap();
    bucket.tell(plan()).unwrap();
    assert_eq!(bucket.tell(Command::Close).unwrap_err().code.as_str(), "NotReady");
}
