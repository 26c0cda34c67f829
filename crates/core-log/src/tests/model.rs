//! The dumb twin: maps that are replayed up to a batch, and must equal what recovery finds.

use super::*;
use crate::Damage;
use std::collections::{BTreeMap, BTreeSet};
use std::format;

#[derive(Clone, Default, PartialEq, Debug)]
struct Cluster {
    compacted: (u64, u64),
    entries: BTreeMap<u64, LogEntry>,
    states: BTreeMap<u8, Bytes>,
}

#[derive(Clone, Debug)]
enum Op {
    Append(u64, LogEntry),
    State(u64, u8, Bytes),
    Compact(u64, u64, u64),
    Forget(u64),
}

#[derive(Clone, Default, PartialEq, Debug)]
struct Model(BTreeMap<u64, Cluster>);

impl Model {
    fn apply(&mut self, op: &Op) {
        match op {
            Op::Append(cluster, entry) => {
                let entries = &mut self.0.entry(*cluster).or_default().entries;
                entries.split_off(&entry.index.0);
                entries.insert(entry.index.0, entry.clone());
            }
            Op::State(cluster, kind, bytes) => {
                self.0.entry(*cluster).or_default().states.insert(*kind, bytes.clone());
            }
            Op::Compact(cluster, index, term) => {
                if *index > self.0.get(cluster).map_or(0, |held| held.compacted.0) {
                    let cluster = self.0.entry(*cluster).or_default();
                    let same = cluster.entries.get(index).is_some_and(|entry| entry.term.0 == *term);
                    cluster.entries = if same { cluster.entries.split_off(&(index + 1)) } else { BTreeMap::new() };
                    cluster.compacted = (*index, *term);
                }
            }
            Op::Forget(cluster) => {
                self.0.remove(cluster);
            }
        }
    }

    fn last(&self, cluster: u64) -> u64 {
        self.0.get(&cluster).map_or(0, |held| held.entries.keys().next_back().copied().unwrap_or(held.compacted.0))
    }
}

fn apply(log: &mut Log, op: &Op) {
    match op {
        Op::Append(cluster, entry) => log.append(ClusterId(*cluster), core::slice::from_ref(entry)),
        Op::State(cluster, kind, bytes) => log.put_state(ClusterId(*cluster), *kind, bytes.clone()),
        Op::Compact(cluster, index, term) => log.compact(ClusterId(*cluster), LogIndex(*index), Term(*term)),
        Op::Forget(cluster) => log.forget(ClusterId(*cluster)),
    }
}

/// A world of one log, its disk and its model.
struct World {
    random: Random,
    disk: TestDisk,
    log: Log,
    now: u64,
    term: u64,
    model: Model,
    /// What the model was at the last recovery, and everything done since with its batch.
    base: Model,
    history: Vec<(u64, Op)>,
    trace: std::string::String,
}

impl World {
    fn new(seed: u64) -> World {
        let mut disk = TestDisk::new(config().segment_bytes);
        let (log, report) = open(&mut disk);
        assert_eq!(report, RecoveryReport::default());
        World {
            random: Random(seed),
            disk,
            log,
            now: 0,
            term: 1,
            model: Model::default(),
            base: Model::default(),
            history: Vec::new(),
            trace: format!("seed {seed}"),
        }
    }

    fn draw_op(&mut self) -> Op {
        // Clusters 0 to 3 are busy; 4 to 9 are touched now and then, so their tails get old.
        let cluster = if self.random.below(10) < 9 { self.random.below(4) } else { 4 + self.random.below(6) };
        let last = self.model.last(cluster);
        let held = self.model.0.get(&cluster).cloned().unwrap_or_default();
        let first = held.compacted.0 + 1;
        match self.random.below(100) {
            0..=64 => {
                let back = if self.random.below(6) == 0 { self.random.below(4) } else { 0 };
                let index = (last + 1).saturating_sub(back).max(first);
                self.term += u64::from(back > 0);
                let most = if self.random.below(12) == 0 { 9_000 } else { 700 };
                let mut made = entry(index, self.term, &bytes_of(&mut self.random, most));
                made.kind = self.random.below(3) as u8;
                made.context = Bytes::from(bytes_of(&mut self.random, 9));
                Op::Append(cluster, made)
            }
            65..=79 => Op::State(cluster, self.random.below(3) as u8, Bytes::from(bytes_of(&mut self.random, 60))),
            80..=94 if last >= first => {
                let index = first + self.random.below(last - first + 1);
                Op::Compact(cluster, index, held.entries[&index].term.0)
            }
            95..=96 => Op::Compact(cluster, last + self.random.below(5), self.term),
            97 => Op::Forget(cluster),
            _ => Op::State(cluster, 0, Bytes::from_static(b"x")),
        }
    }

    fn act(&mut self) {
        let op = self.draw_op();
        apply(&mut self.log, &op);
        self.model.apply(&op);
        self.history.push((self.log.staged().0, op));
    }

    fn poll(&mut self) {
        self.now += self.random.below(100_000);
        for action in self.log.poll(Tick(self.now)) {
            self.disk.start(action);
        }
        for cluster in self.log.wants_compaction() {
            let index = self.model.last(cluster.0);
            if let Some(entry) = self.model.0.get(&cluster.0).and_then(|held| held.entries.get(&index)) {
                let op = Op::Compact(cluster.0, index, entry.term.0);
                apply(&mut self.log, &op);
                self.model.apply(&op);
                self.history.push((self.log.staged().0, op));
            }
        }
    }

    fn step(&mut self) {
        match self.random.below(10) {
            0..=5 => self.act(),
            6..=7 => self.poll(),
            _ => finish_one(&mut self.disk, &mut self.log),
        }
    }

    /// What the log should hold once batch `number` is its last.
    fn expected(&self, number: u64) -> Model {
        let mut model = self.base.clone();
        self.history.iter().filter(|(batch, _)| *batch <= number).for_each(|(_, op)| model.apply(op));
        model
    }

    fn crash(&mut self) {
        let random = &mut self.random;
        self.disk.crash(&mut |bound| random.below(bound));
    }

    /// Reopens; what was lost is forgotten by the model too.
    fn reopen(&mut self) -> RecoveryReport {
        let synced = self.log.synced().0;
        self.reopen_at(synced)
    }

    fn reopen_at(&mut self, synced: u64) -> RecoveryReport {
        let (log, report) = open(&mut self.disk);
        assert!(log.synced().0 >= synced, "{}: batch {synced} was synced, {} came back", self.trace, log.synced().0);
        self.log = log;
        self.model = self.expected(self.log.synced().0);
        self.base = self.model.clone();
        self.history.clear();
        report
    }

    fn check(&self, report: &RecoveryReport) {
        check(&self.log, &self.model, report, &self.trace);
    }
}

/// The log holds what the model holds, but for what is named as damaged.
fn check(log: &Log, model: &Model, report: &RecoveryReport, trace: &str) {
    let lost: BTreeSet<(u64, u64)> = report
        .damage
        .iter()
        .filter_map(|damage| match damage {
            Damage::Entry { cluster, index, .. } => Some((cluster.0, index.0)),
            _ => None,
        })
        .collect();
    let clusters: Vec<ClusterId> = model.0.keys().map(|id| ClusterId(*id)).collect();
    assert_eq!(log.clusters(), clusters, "{}", trace);
    for (&id, held) in &model.0 {
        let cluster = ClusterId(id);
        assert_eq!(log.first_index(cluster).0, held.compacted.0 + 1, "{}: {cluster:?}", trace);
        assert_eq!(log.last_index(cluster).0, model.last(id), "{}: {cluster:?}", trace);
        assert_eq!(log.term(cluster, LogIndex(held.compacted.0)), Some(Term(held.compacted.1)));
        for (&index, entry) in &held.entries {
            let found = log.entry(cluster, LogIndex(index));
            if lost.contains(&(id, index)) {
                assert_eq!(found, None);
            } else {
                assert_eq!(found.as_ref(), Some(entry), "{}: {cluster:?} {index}", trace);
            }
        }
        for kind in 0..3 {
            assert_eq!(log.state(cluster, kind).as_ref(), held.states.get(&kind), "{}: {cluster:?}", trace);
        }
        let bytes: usize = held
            .entries
            .iter()
            .filter(|(index, _)| !lost.contains(&(id, **index)))
            .map(|(_, entry)| entry.data.len() + entry.context.len())
            .sum();
        assert_eq!(log.bytes(cluster), bytes as u64);
    }
}

#[test]
pub fn what_comes_back_is_the_model_at_some_batch_not_before_the_last_synced() {
    for seed in 0..150 {
        let mut world = World::new(seed);
        for life in 0..6 {
            world.trace = format!("seed {seed} life {life}");
            for _ in 0..world.random.below(250) {
                world.step();
            }
            world.crash();
            let report = world.reopen();
            assert_eq!(report.damage, [], "{}: {:?}", world.trace, report.notes);
            world.check(&report);
        }
    }
}

#[test]
fn a_crash_after_every_action_loses_nothing_acknowledged() {
    for seed in 1000..1004 {
        let mut world = World::new(seed);
        for step in 0..400 {
            world.trace = format!("seed {seed} step {step}");
            world.step();
            // A look at what a crash here would leave; the world itself stays unharmed.
            let mut disk = world.disk.clone();
            disk.crash(&mut |bound| world.random.below(bound));
            let (log, report) = open(&mut disk);
            assert_eq!(report.damage, [], "{}: {:?}", world.trace, report.notes);
            assert!(log.synced() >= world.log.synced());
            let model = world.expected(log.synced().0);
            check(&log, &model, &report, &world.trace);
        }
    }
}

#[test]
fn one_rotted_sector_never_loses_a_state_and_names_every_entry_it_takes() {
    let (mut holes, mut unknown) = (0, 0);
    for seed in 0..250 {
        let mut world = World::new(seed);
        world.trace = format!("rot seed {seed}");
        for _ in 0..world.random.below(400) {
            world.step();
        }
        world.disk.drive(&mut world.log, Tick(world.now));
        world.disk.drive(&mut world.log, Tick(world.now + 1_000_000));
        let files = world.disk.files();
        let file = files[world.random.below(files.len() as u64) as usize];
        let at = world.random.below(world.disk.written(file));
        world.disk.rot_sector(file, at);
        // The seal itself may be what rots: it holds nothing.
        let before_seal = world.log.synced().0.saturating_sub(1);
        let mut report = world.reopen_at(before_seal);
        world.trace += &format!(" {file:?} {at}");
        // Record headers of the last batch have no second copy yet: then everybody is named, and nothing cut in silence.
        if let [Damage::Unknown { clusters }] = &report.damage[..] {
            assert!(report.notes[0].contains("the last one"), "{}: {report:?}", world.trace);
            let known: Vec<ClusterId> = world.model.0.keys().map(|id| ClusterId(*id)).collect();
            assert_eq!(*clusters, known, "{}", world.trace);
            unknown += 1;
            continue;
        }
        let named = report.damage.iter().all(|damage| matches!(damage, Damage::Entry { term: Some(_), .. }));
        assert!(named, "{}: {:?}", world.trace, report);
        world.check(&report);
        holes += report.damage.len();
        // Holes stay holes until they are filled, however often the log is opened…
        for _ in 0..2 {
            world.disk.drive(&mut world.log, Tick(0));
            let again = world.reopen();
            assert_eq!(again.damage, report.damage, "{}", world.trace);
            report = again;
        }
        // …and the entries that fill them are there for good.
        for damage in core::mem::take(&mut report.damage) {
            let Damage::Entry { cluster, index, .. } = damage else { unreachable!() };
            let entry = world.model.0[&cluster.0].entries[&index.0].clone();
            assert!(!world.log.fill(cluster, LogEntry { term: Term(entry.term.0 + 1), ..entry.clone() }));
            assert!(world.log.fill(cluster, entry));
        }
        world.disk.drive(&mut world.log, Tick(0));
        let again = world.reopen();
        assert_eq!(again.damage, []);
        world.check(&again);
    }
    assert!(unknown < 10, "{unknown}");
    assert!(holes > 20, "the test rotted nothing that mattered: {holes}");
}

#[test]
fn whatever_rots_nothing_is_missing_in_silence() {
    let mut judged = 0;
    for seed in 0..150 {
        let mut world = World::new(seed);
        for _ in 0..world.random.below(300) {
            world.step();
        }
        world.disk.drive(&mut world.log, Tick(world.now));
        world.disk.drive(&mut world.log, Tick(world.now + 1_000_000));
        let sectors = 1 + world.random.below(6);
        for _ in 0..sectors {
            let files = world.disk.files();
            let file = files[world.random.below(files.len() as u64) as usize];
            let at = world.random.below(world.disk.written(file));
            world.disk.rot_sector(file, at);
        }
        let sealed = world.log.synced();
        let (log, report) = open(&mut world.disk);
        let unknown = report.damage.iter().any(|damage| matches!(damage, Damage::Unknown { .. }));
        // Rot of the very last batches cannot be told from a torn tail; beyond that, all is named.
        assert!(log.synced().0 + sectors >= sealed.0, "seed {seed}: a sound header was passed over");
        if unknown || log.synced() < sealed {
            continue;
        }
        judged += 1;
        for (id, held) in &world.model.0 {
            for (index, entry) in &held.entries {
                let found = log.entry(ClusterId(*id), LogIndex(*index));
                let named = report.damage.iter().any(|damage| {
                    matches!(damage,
                    Damage::Entry { cluster, index: at, .. } if cluster.0 == *id && at.0 == *index)
                });
                assert!(named != (found.as_ref() == Some(entry)), "seed {seed}: cluster {id} entry {index}");
            }
            for (kind, bytes) in &held.states {
                let named = report.damage.contains(&Damage::State { cluster: ClusterId(*id), kind: *kind });
                assert!(
                    named || log.state(ClusterId(*id), *kind).as_ref() == Some(bytes),
                    "seed {seed}: cluster {id} state {kind}"
                );
            }
        }
    }
    assert!(judged > 60, "only {judged} runs were judged");
}
