//! Power cuts: the cores' real journals on disks that lose, tear and reorder what is not synced, under a
//! schedule drawn from a seed, with engines that keep what they wrote.

use super::*;
use crate::flusher::SPACE;
use crate::mailbox::Letter;
use base_types::Tick;
use core_log::testing::{DiskEvent, TestDisk};
use core_log::LogConfig;
use engine_memory::MemoryEngine;

const CORES: usize = 3;
const KEYS: u64 = 24;
/// More by HIVE_SEEDS=n.
const SEEDS: u64 = 120;
const STEPS: u64 = 160;

fn config() -> LogConfig {
    LogConfig { segment_bytes: 128 << 10, ..LogConfig::default() }
}

/// splitmix64.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

type Changes = Vec<(Bytes, Option<Bytes>)>;

/// What is given to a core's engine: by key the newest change.
type Memory = BTreeMap<Bytes, Option<Bytes>>;

struct Machine {
    disks: Vec<TestDisk>,
    engines: Vec<Arc<dyn Engine>>,
    journals: Vec<Journal>,
    memories: Vec<Memory>,
    durable: Vec<u64>,
    /// The core whose journal holds each write, its number and its changes.
    writes: Vec<(usize, u64, Changes)>,
    /// Writes that are synced for sure: all of a core's that were recorded before a write-out that ended.
    synced: Vec<u64>,
    /// Writes that the logs held when they were last read, and up to which all are in the engines.
    found: std::collections::BTreeSet<u64>,
    held: u64,
    last: u64,
    now: u64,
}

impl Machine {
    fn new() -> Machine {
        let engines = (0..CORES).map(|_| Arc::new(MemoryEngine::new()) as Arc<dyn Engine>).collect();
        let disks = vec![TestDisk::new(config().segment_bytes); CORES];
        let mut machine = Machine {
            disks,
            engines,
            journals: Vec::new(),
            memories: vec![Memory::new(); CORES],
            durable: vec![0; CORES],
            writes: Vec::new(),
            synced: vec![0; CORES],
            found: Default::default(),
            held: 0,
            last: 0,
            now: 1_000_000,
        };
        machine.open();
        machine
    }

    /// As `open.rs` does it.
    fn open(&mut self) {
        self.journals = (self.disks.iter_mut().enumerate())
            .map(|(core, disk)| {
                let (journal, report) = Journal::recover(disk, config(), core as u64).unwrap();
                assert!(report.damage.is_empty(), "{report:?}");
                journal
            })
            .collect();
        let durable: Vec<u64> = self.engines.iter().map(|engine| engine.durable_index(SPACE).unwrap().0).collect();
        // An engine's write waits for all logs: what it holds was synced in every one.
        self.held = durable.iter().copied().max().unwrap();
        let records = self.journals.iter().flat_map(Journal::entries).flat_map(|entry| record::read(entry).unwrap());
        self.found = records.map(|(number, _)| number).collect();
        let replay = replay(&self.journals, &durable).unwrap();
        self.last = finish(replay, &mut self.journals, &self.engines).unwrap();
        self.durable = self.engines.iter().map(|engine| engine.durable_index(SPACE).unwrap().0).collect();
        self.memories = vec![Memory::new(); CORES];
    }

    fn write(&mut self, draw: &mut Draw) {
        self.last += 1;
        let mut changes = Memory::new();
        for _ in 0..1 + draw.below(4) {
            let key = Bytes::from(format!("key {}", draw.below(KEYS)));
            let value = (draw.below(5) > 0).then(|| Bytes::from(format!("{}", self.last)));
            changes.insert(key, value);
        }
        let owner = |key: &Bytes| usize::from(owner_of(key, CORES as u16));
        let cores: std::collections::BTreeSet<usize> = changes.keys().map(owner).collect();
        let first = *cores.first().unwrap();
        let others = cores.iter().skip(1).map(|core| *core as u16).collect();
        let body = record::body(changes.iter().map(|(key, value)| (&key[..], value.as_deref()))).bytes;
        self.journals[first].record(Letter { number: self.last, body, others, waiter: None });
        for (key, value) in &changes {
            self.memories[owner(key)].insert(key.clone(), value.clone());
        }
        self.writes.push((first, self.last, changes.into_iter().collect()));
    }

    /// Lets a core's log do some of its work; with `all` it is synced at the end.
    fn work(&mut self, core: usize, all: bool, draw: &mut Draw) {
        let recorded = self.last;
        loop {
            self.now += 1_000;
            let actions = self.journals[core].poll(Tick(self.now));
            let idle = actions.is_empty();
            actions.into_iter().for_each(|action| self.disks[core].start(action));
            if !all && draw.below(3) == 0 {
                return;
            }
            let finished = self.disks[core].finish();
            match finished {
                Some(DiskEvent::Written(batch)) => self.journals[core].on_written(batch),
                Some(DiskEvent::Ready(segment)) => self.journals[core].on_segment(segment, true),
                Some(other) => panic!("{other:?}"),
                None if idle && !self.journals[core].has_unwritten() => break,
                None => {}
            }
        }
        self.synced[core] = recorded;
    }

    /// As `owner.rs` and `flusher.rs` do it: logs first, then the engine, then the log is cut.
    fn feed(&mut self, core: usize, draw: &mut Draw) {
        let index = self.journals[core].mark();
        (0..CORES).for_each(|core| self.work(core, true, draw));
        let memory = std::mem::take(&mut self.memories[core]);
        flusher::write(self.engines[core].as_ref(), memory.into_iter(), self.last).unwrap();
        self.durable[core] = self.last;
        let durable = self.durable.clone();
        self.journals[core].trim(index, |core| durable[usize::from(core)]);
    }

    fn value(&self, key: &Bytes) -> Option<Bytes> {
        self.engines[usize::from(owner_of(key, CORES as u16))].get(SPACE, key).unwrap()
    }

    /// The power goes, and comes back; perhaps goes again while the engines are brought up to date.
    fn crash(&mut self, draw: &mut Draw) {
        for disk in &mut self.disks {
            disk.crash(&mut |bound| draw.below(bound));
        }
        if draw.below(3) == 0 {
            self.half_open(draw);
        }
        // What was held before the power went once more counts too.
        let held = self.held;
        self.open();
        self.held = self.held.max(held);
        let (found, held) = (&self.found, self.held);
        let lost_synced = self
            .writes
            .iter()
            .find(|(core, number, _)| *number <= self.synced[*core] && *number > held && !found.contains(number));
        assert!(lost_synced.is_none(), "a synced write is lost: {lost_synced:?}");
        self.writes.retain(|(core, number, _)| *number <= self.synced[*core] || found.contains(number));
        self.check();
        self.synced = vec![self.last; CORES];
    }

    /// Some engines are written, and then the power goes once more.
    fn half_open(&mut self, draw: &mut Draw) {
        let journals: Vec<Journal> = (self.disks.iter_mut().enumerate())
            .map(|(core, disk)| Journal::recover(disk, config(), core as u64).unwrap().0)
            .collect();
        let durable: Vec<u64> = self.engines.iter().map(|engine| engine.durable_index(SPACE).unwrap().0).collect();
        let replay = replay(&journals, &durable).unwrap();
        let written = draw.below(CORES as u64) as usize;
        for (core, changes) in replay.cores.into_iter().enumerate().take(written) {
            if !changes.is_empty() {
                let changes = changes.into_iter().map(|(key, (_, value))| (key, value));
                flusher::write(self.engines[core].as_ref(), changes, replay.last).unwrap();
            }
        }
    }

    /// What is there is what whole writes left: those synced, and those the logs were found to hold.
    fn check(&self) {
        let mut model = Memory::new();
        for write in &self.writes {
            model.extend(write.2.iter().cloned());
        }
        for number in 0..KEYS {
            let key = Bytes::from(format!("key {number}"));
            assert_eq!(self.value(&key), model.get(&key).cloned().flatten(), "{key:?}");
        }
    }
}

#[test]
fn power_cuts_take_nothing_that_was_synced_and_no_part_of_a_batch() {
    let seeds = std::env::var("HIVE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS);
    for seed in 0..seeds {
        let mut draw = Draw(seed);
        let mut machine = Machine::new();
        for _ in 0..STEPS {
            let core = draw.below(CORES as u64) as usize;
            match draw.below(20) {
                0..=11 => machine.write(&mut draw),
                12..=15 => machine.work(core, false, &mut draw),
                16..=17 => machine.work(core, true, &mut draw),
                18 => machine.feed(core, &mut draw),
                _ => machine.crash(&mut draw),
            }
        }
        machine.crash(&mut draw);
    }
}

/// A log that was cut for good gives its segments back.
#[test]
fn cut_logs_do_not_grow() {
    let mut draw = Draw(7);
    let mut machine = Machine::new();
    for _ in 0..400 {
        for _ in 0..40 {
            machine.write(&mut draw);
        }
        (0..CORES).for_each(|core| machine.feed(core, &mut draw));
        // What was kept for the others' sake goes the second time round.
    }
    for disk in &machine.disks {
        assert!(disk.files().len() <= 8, "{} segments", disk.files().len());
    }
}
