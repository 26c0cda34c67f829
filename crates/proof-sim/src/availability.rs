//! The standard schedule of faults in virtual time: what clients see of days on five nodes.
//!
//!   proof-check's schedule (one day) ──▶ a world of five nodes, driven here ──▶ proof-check's tally, the same tables as
//!   `hive bench availability` prints of processes
//!
//! Each day is a world of its own, from its seed. Streams of operations, one for each level, ask through every node in turn
//! as hive-client does: another node after a failure, the same request id, two seconds for all tries.
//!
//! Always: a function of the seed; the world's own checks (one leader a term, equal states, …) watch all the time, and
//! a violation ends the day. CPU time is not in it. Not here: whether answers are right beyond that a key that was
//! written is found (run.rs judges histories).

use crate::campaign::opener;
use crate::faults;
use crate::load::Targets;
use crate::plan::{FaultKind, Hazard, Layer, Load, Plan, Shape, SimTuning, PLAN_VERSION};
use crate::random::Random;
use crate::world::{Answered, Due, World};
use base_types::action::{Action, ActionResult, KvTarget, Partitioning, Request};
use base_types::error::Outcome as Applied;
use base_types::{ErrorCode, LogIndex, ReadConsistency, RequestId, Ticket, WriteConsistency};
use bytes::Bytes;
use core_cluster::api::ReplicaView;
use proof_check::availability::schedule::{
    self, cut_length, Kind, DAY, DOWN, JUMPED, KINDS, PAUSE, SLOW_DISK, SYNC_DELAY,
};
use proof_check::availability::tally::{failed_each_second, Availability, Level, Outcome, Record, Window, SETTLE_MS};
use proof_check::Violation;
use std::collections::BTreeMap;
use std::time::Duration;

const NODES: u64 = 5;
/// Nodes of one zone, by their places.
const ZONES: [&[usize]; 3] = [&[0, 1], &[2, 3], &[4]];
/// For all tries of an operation, as in hive-bench.
const DEADLINE_US: u64 = 2_000_000;
/// hive-client's own numbers: one try of a quick operation, and the pauses between tries.
const TRY_LEAST_US: u64 = 1_500_000;
const PAUSE_FIRST_US: u64 = 10_000;
const PAUSE_LONGEST_US: u64 = 500_000;
/// A node that said nothing is asked last for so long.
const SILENT_US: u64 = 2_000_000;
/// A stopped node is back after so long (a rolling restart).
const RESTART_US: u64 = 1_000_000;
/// Full redundancy is waited for so long, and looked for as often.
const WHOLE_TIMEOUT_US: u64 = 120_000_000;
const LOOK_US: u64 = 100_000;
/// A world is ready, and a keyspace made, within this time.
const READY_US: u64 = 120_000_000;
/// Keys of each stream.
const KEYS: u64 = 200;
const VALUE_BYTES: usize = 200;
/// Numbers of clusters that the keyspace is spread over in turn; it begins with one.
const SPREADS: [u64; 4] = [3, 1, 2, 1];
/// Ids of the operator's requests; clients' are far below.
const OPERATOR_IDS: u128 = 1 << 100;

/// What a stream asks.
#[derive(Clone, Copy)]
pub(crate) enum Ask {
    Put(WriteConsistency),
    Get(ReadConsistency),
}

/// Name, operation, whether other nodes are asked after a failure.
pub(crate) const STREAMS: [(&str, Ask, bool); 8] = [
    ("put hopeful", Ask::Put(WriteConsistency::Hopeful), true),
    ("put eventual", Ask::Put(WriteConsistency::Eventual), true),
    ("put strong", Ask::Put(WriteConsistency::Strong), true),
    ("put absolute", Ask::Put(WriteConsistency::Absolute), true),
    ("get eventual", Ask::Get(ReadConsistency::Eventual), true),
    ("get strong", Ask::Get(ReadConsistency::Strong), true),
    ("put strong, one try", Ask::Put(WriteConsistency::Strong), false),
    ("get strong, one try", Ask::Get(ReadConsistency::Strong), false),
];

/// What is run.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// How long each world is; a day holds the whole schedule.
    pub length: Duration,
    /// Operations a second of each level.
    pub rate: u32,
}

/// One world's figures, or what it violated.
pub type Day = Result<(Availability, u64), Vec<Violation>>;

/// Runs one world; beside its figures the number of its events.
pub fn run(seed: u64, order: Order) -> Day {
    let length = order.length;
    let mut day = Run::new(seed, order.rate, 0);
    if day.set_up().is_none() {
        return Err(day.broken("the world was not ready in time"));
    }
    day.begin();
    for planned in schedule::plan(length, DAY, seed, &KINDS) {
        day.pump(day.from + planned.at.as_micros() as u64);
        day.suffer(planned.kind, length);
        if !day.world.violations.is_empty() {
            return Err(day.world.violations);
        }
    }
    day.pump(day.from + length.as_micros() as u64);
    day.over = true;
    day.pump(day.world.now + 2 * DEADLINE_US);
    if !day.world.violations.is_empty() {
        return Err(day.world.violations);
    }
    let levels = STREAMS.iter().zip(&day.records).map(|((name, ..), records)| Level::new(name, records, &day.windows));
    let figures = Availability {
        system: "hive in virtual time".into(),
        seconds: length.as_secs(),
        seed,
        rate: order.rate,
        cut_seconds: cut_length(length).as_secs(),
        levels: levels.collect(),
        failed_each_second: failed_each_second(day.records.iter().flatten()),
        windows: day.windows,
        late_ms: 0,
    };
    Ok((figures, day.world.trace.events))
}

/// Adds a day to those before.
pub fn add(all: &mut Availability, day: Availability) {
    all.seconds += day.seconds;
    for (mine, theirs) in all.levels.iter_mut().zip(&day.levels) {
        mine.merge(theirs);
    }
    all.windows.extend(day.windows);
    // Of days that lie beside each other a line in seconds would say nothing.
    all.failed_each_second = Vec::new();
}

/// An operation under way.
struct Open {
    stream: usize,
    number: u64,
    begun: u64,
    node: usize,
    tries: u32,
    ticket: Option<Ticket>,
    maybe_applied: bool,
}

pub(crate) struct Run {
    pub(crate) world: World,
    open: BTreeMap<usize, Open>,
    tickets: BTreeMap<Ticket, usize>,
    /// Numbers of open operations begin behind those of the streams.
    next: usize,
    begun: Vec<u64>,
    pub(crate) records: Vec<Vec<Record>>,
    windows: Vec<Window>,
    operator: BTreeMap<Ticket, Option<Answered>>,
    operator_ids: u128,
    random: Random,
    /// Between two operations of a stream.
    pub(crate) interval_us: u64,
    /// Until when clients pass over a node.
    silent_until: [u64; NODES as usize],
    pub(crate) from: u64,
    pub(crate) over: bool,
    spread: usize,
    /// Members of each cluster when all was well.
    sizes: BTreeMap<String, usize>,
}

fn plan(seed: u64, event_us: u64) -> Plan {
    let shape = Shape {
        nodes: NODES,
        lanes: 1,
        regions: 1,
        world_members: NODES,
        clusters: 0,
        cluster_size: NODES,
        keyspaces: 0,
        buckets: 0,
        versioned: 0,
        suspended: 0,
        quota_keys: 0,
        regional: false,
        wall_clock: true,
        tails: 0,
        shared_chassis: 0,
        access: false,
        histories: 0,
        both_doors: false,
        databases: 0,
        database_keyspaces: false,
    };
    let tuning = SimTuning {
        segment_bytes: 8 << 20,
        segments_soft_max: 64,
        turn_events_max: if event_us == 0 { 256 } else { 64 },
        event_us,
        ..SimTuning::default()
    };
    let (layer, load) = (Layer::Core, Load::default());
    Plan { version: PLAN_VERSION, seed, title: "availability".into(), layer, shape, tuning, load, hazards: Vec::new() }
}

fn target() -> KvTarget {
    KvTarget::Keyspace("default".into())
}

fn key(stream: &str, number: u64) -> Bytes {
    Bytes::from(format!("{stream}-{:06}", number % KEYS))
}

impl Run {
    /// A world whose cores need so long for an event (0: no time), and streams that have not begun.
    pub(crate) fn new(seed: u64, rate: u32, event_us: u64) -> Run {
        let plan = plan(seed, event_us);
        Run {
            world: World::new(plan.clone(), opener(&plan)),
            open: BTreeMap::new(),
            tickets: BTreeMap::new(),
            next: STREAMS.len(),
            begun: vec![0; STREAMS.len()],
            records: vec![Vec::new(); STREAMS.len()],
            windows: Vec::new(),
            operator: BTreeMap::new(),
            operator_ids: OPERATOR_IDS,
            random: Random::stream(seed, "availability"),
            interval_us: 1_000_000 / u64::from(rate.max(1)),
            silent_until: [0; NODES as usize],
            from: 0,
            over: true,
            spread: 0,
            sizes: BTreeMap::new(),
        }
    }

    pub(crate) fn broken(&self, what: &str) -> Vec<Violation> {
        match self.world.violations.is_empty() {
            true => vec![Violation::new("liveness", what, vec![])],
            false => self.world.violations.clone(),
        }
    }

    // -- the world continues ----------------------------------------------------------------------

    pub(crate) fn pump(&mut self, until: u64) {
        while self.world.violations.is_empty() {
            match self.world.advance(until) {
                None => return,
                Some(Some(due)) => self.drive(due),
                Some(None) => {}
            }
            while let Some((ticket, answered)) = self.world.answers.pop_front() {
                match self.operator.get_mut(&ticket) {
                    Some(slot) => *slot = Some(answered),
                    None => self.on_answer(ticket, answered),
                }
            }
        }
    }

    fn drive(&mut self, due: Due) {
        match due {
            Due::Client(stream) if stream < STREAMS.len() => self.on_turn(stream),
            Due::Client(number) => self.attempt(number),
            Due::Timeout { client, ticket } => self.on_timeout(client, ticket),
            Due::HazardEnd(number) => faults::end(&mut self.world, number),
            _ => {}
        }
    }

    // -- clients ----------------------------------------------------------------------------------

    pub(crate) fn begin(&mut self) {
        (self.from, self.over) = (self.world.now, false);
        for stream in 0..STREAMS.len() {
            let first = self.from + self.interval_us * stream as u64 / STREAMS.len() as u64;
            self.world.schedule(first, Due::Client(stream));
        }
    }

    /// A stream's next operation is due.
    fn on_turn(&mut self, stream: usize) {
        if self.over {
            return;
        }
        self.world.schedule(self.world.now + self.interval_us, Due::Client(stream));
        let (number, id) = (self.begun[stream], self.next);
        self.begun[stream] += 1;
        self.next += 1;
        let node = (number % NODES) as usize;
        let begun = self.world.now;
        self.open.insert(id, Open { stream, number, begun, node, tries: 0, ticket: None, maybe_applied: false });
        self.attempt(id);
    }

    fn attempt(&mut self, id: usize) {
        let Some(open) = self.open.get_mut(&id) else { return };
        let left = (open.begun + DEADLINE_US).saturating_sub(self.world.now) / 1_000 * 1_000;
        if left < 2_000 {
            return self.give_up(id);
        }
        if STREAMS[open.stream].2 {
            let (now, silent) = (self.world.now, &self.silent_until);
            let heard = (0..NODES as usize).find(|step| silent[(open.node + step) % NODES as usize] <= now);
            open.node += heard.unwrap_or(0);
        }
        open.tries += 1;
        let (name, ask, retries) = STREAMS[open.stream];
        let (action, consistency, read_consistency) = match ask {
            Ask::Put(level) => {
                let value = Bytes::from(vec![b'v'; VALUE_BYTES]);
                (Action::KvPut { target: target(), key: key(name, open.number), value }, Some(level), None)
            }
            Ask::Get(level) => (Action::KvGet { target: target(), key: key("read", open.number) }, None, Some(level)),
        };
        let request = Request {
            action,
            consistency,
            read_consistency,
            deadline: Duration::from_micros(left),
            request_id: Some(RequestId::opaque(id as u128)),
            after: None,
            expected_bucket_owner: None,
            caller: base_types::access::Caller::Anyone,
        };
        let node = open.node % NODES as usize;
        let is_patient = !retries || matches!(ask, Ask::Put(WriteConsistency::Absolute));
        let patience = if is_patient { left } else { (left / 2).max(TRY_LEAST_US).min(left) };
        match self.world.ask(node, request) {
            Some(ticket) => {
                open.ticket = Some(ticket);
                self.tickets.insert(ticket, id);
                self.world.schedule(self.world.now + patience, Due::Timeout { client: id, ticket });
            }
            None => self.go_on(id, false),
        }
    }

    /// This try came to nothing; the next asks another node, if there is one.
    fn go_on(&mut self, id: usize, sent: bool) {
        let Some(open) = self.open.get_mut(&id) else { return };
        let (_, ask, retries) = STREAMS[open.stream];
        open.ticket = None;
        open.maybe_applied |= sent && matches!(ask, Ask::Put(_));
        if !retries {
            return self.give_up(id);
        }
        open.node += 1;
        let doubled = (PAUSE_FIRST_US << (open.tries - 1).min(10)).min(PAUSE_LONGEST_US);
        let pause = doubled / 2 + self.random.below(doubled / 2 + 1);
        let end = open.begun + DEADLINE_US;
        self.world.schedule((self.world.now + pause).min(end), Due::Client(id));
    }

    fn give_up(&mut self, id: usize) {
        let maybe = self.open.get(&id).is_some_and(|open| open.maybe_applied);
        self.end(id, if maybe { Outcome::Unknown } else { Outcome::Refused });
    }

    fn end(&mut self, id: usize, outcome: Outcome) {
        let Some(open) = self.open.remove(&id) else { return };
        let late = outcome == Outcome::Answered && self.world.now > open.begun + DEADLINE_US;
        let outcome = if late { Outcome::Late } else { outcome };
        let (begun, ended) = (self.millis(open.begun), self.millis(self.world.now));
        self.records[open.stream].push(Record { begun, ended, outcome });
    }

    fn millis(&self, at: u64) -> u32 {
        (at.saturating_sub(self.from) / 1_000) as u32
    }

    fn on_timeout(&mut self, id: usize, ticket: Ticket) {
        let asked = self.open.get(&id).filter(|open| open.ticket == Some(ticket));
        if let Some((node, stream)) = asked.map(|open| (open.node % NODES as usize, open.stream)) {
            // Who tries once knows nothing of the others.
            if STREAMS[stream].2 {
                self.silent_until[node] = self.world.now + SILENT_US;
            }
            self.tickets.remove(&ticket);
            self.world.cancel(ticket);
            self.go_on(id, true);
        }
    }

    fn on_answer(&mut self, ticket: Ticket, answered: Answered) {
        let Some(id) = self.tickets.remove(&ticket) else { return };
        if self.open.get(&id).is_none_or(|open| open.ticket != Some(ticket)) {
            return;
        }
        if let (Answered::Response(_), Some(open)) = (&answered, self.open.get(&id)) {
            self.silent_until[open.node % NODES as usize] = 0;
        }
        let response = match answered {
            Answered::Lost => return self.go_on(id, true),
            Answered::Response(response) => *response,
        };
        match response {
            Ok(answer) => {
                let absent = matches!(answer.result, ActionResult::Value { value: None });
                self.end(id, if absent { Outcome::Wrong } else { Outcome::Answered });
            }
            Err(failure) => {
                let unknown = failure.refusal.outcome() == Applied::Unknown;
                let committed = failure.at.is_some();
                match failure.refusal.kind().retryable() && !committed {
                    true => self.go_on(id, unknown),
                    false => self.end(id, if unknown || committed { Outcome::Unknown } else { Outcome::Refused }),
                }
            }
        }
    }

    // -- the operator -----------------------------------------------------------------------------

    /// Asks node after node until one has done it.
    fn insist(&mut self, action: Action, level: Option<WriteConsistency>) -> Option<()> {
        let until = self.world.now + READY_US;
        for node in (0..NODES as usize).cycle() {
            if self.world.now >= until || !self.world.violations.is_empty() {
                return None;
            }
            self.operator_ids += 1;
            let request = Request {
                action: action.clone(),
                consistency: level,
                read_consistency: None,
                deadline: Duration::from_secs(5),
                request_id: Some(RequestId(self.operator_ids)),
                after: None,
                expected_bucket_owner: None,
                caller: base_types::access::Caller::Anyone,
            };
            if let Some(ticket) = self.world.ask(node, request) {
                self.operator.insert(ticket, None);
                while self.operator.get(&ticket).is_some_and(Option::is_none) && self.world.now < until {
                    self.pump(self.world.now + LOOK_US / 10);
                }
                match self.operator.remove(&ticket).flatten() {
                    Some(Answered::Response(response)) if is_done(&response) => return Some(()),
                    _ => {}
                }
            }
            self.pump(self.world.now + LOOK_US);
        }
        None
    }

    /// Every node is ready, the keyspace made, the keys written that are read.
    pub(crate) fn set_up(&mut self) -> Option<()> {
        for node in 0..NODES as usize {
            self.ready(node)?;
        }
        let make = Action::CreateKeyspace {
            kind: base_types::action::KeyspaceKind::Plain,
            keyspace: "default".into(),
            partitioning: Partitioning::Hash,
            partitions: 12,
            clusters: 1,
            split_keys: Vec::new(),
            rule: format!("size={NODES} location=world failure_domain=chassis"),
            engine: None,
        };
        self.insist(make, None)?;
        for number in 0..KEYS {
            let value = Bytes::from(vec![b'v'; VALUE_BYTES]);
            let put = Action::KvPut { target: target(), key: key("read", number), value };
            self.insist(put, Some(WriteConsistency::Strong))?;
        }
        self.sizes = self.leaders().into_iter().map(|(name, view)| (name, view.members.len())).collect();
        Some(())
    }

    fn ready(&mut self, node: usize) -> Option<()> {
        let until = self.world.now + READY_US;
        while self.world.now < until && self.world.violations.is_empty() {
            self.operator_ids += 1;
            let request = Request {
                action: Action::Status,
                consistency: None,
                read_consistency: None,
                deadline: Duration::from_secs(2),
                request_id: Some(RequestId(self.operator_ids)),
                after: None,
                expected_bucket_owner: None,
                caller: base_types::access::Caller::Anyone,
            };
            let ticket = self.world.ask(node, request);
            ticket.and_then(|ticket| self.operator.insert(ticket, None));
            self.pump(self.world.now + LOOK_US);
            if let Some(Some(Answered::Response(response))) = ticket.and_then(|ticket| self.operator.remove(&ticket)) {
                if matches!(*response, Ok(answer) if matches!(&answer.result, ActionResult::Status(status) if status.ready))
                {
                    return Some(());
                }
            }
        }
        None
    }

    // -- faults -----------------------------------------------------------------------------------

    /// One fault: broken, mended, and waited until all is whole, or long enough.
    fn suffer(&mut self, kind: Kind, length: Duration) {
        let victim = self.victim(kind);
        let from = self.millis(self.world.now);
        self.fault(kind, victim, length);
        let mended = self.millis(self.world.now);
        let whole = self.wait_whole().then(|| self.millis(self.world.now));
        let to = self.millis(self.world.now);
        let member = if matches!(kind, Kind::Rolling | Kind::Reshard) { 0 } else { victim as u64 + 1 };
        self.windows.push(Window { kind, member, from, mended, to, whole });
        self.pump(self.from + u64::from(mended + SETTLE_MS) * 1_000);
    }

    /// Whom a fault meets: who leads one of the keyspace's clusters, but for what may meet anybody.
    fn victim(&mut self, kind: Kind) -> usize {
        let anybody = self.random.below(NODES) as usize;
        if matches!(kind, Kind::Wipe | Kind::ClockJump | Kind::Rolling | Kind::Reshard) {
            return anybody;
        }
        let leaders = self.leaders().into_iter().filter(|(name, _)| name.contains("ks-default"));
        let leaders: Vec<usize> = leaders.filter_map(|(_, view)| Some(view.leader?.0 as usize - 1)).collect();
        if leaders.is_empty() {
            return anybody;
        }
        *self.random.pick(&leaders)
    }

    fn fault(&mut self, kind: Kind, victim: usize, length: Duration) {
        let node = victim as u64 + 1;
        match kind {
            Kind::Kill => self.hazard(FaultKind::Crash, node, DOWN, 0),
            Kind::Wipe => self.hazard(FaultKind::DiskLost, node, DOWN, 0),
            Kind::Pause => self.hazard(FaultKind::Pause, node, PAUSE, 0),
            Kind::SlowDisk => self.hazard(FaultKind::SlowDisk, node, SLOW_DISK, SYNC_DELAY.as_millis() as u64),
            Kind::Cut => {
                let zone = ZONES.iter().find(|zone| zone.contains(&victim)).copied().unwrap_or_default();
                let mask = zone.iter().map(|node| 1 << node).sum();
                self.hazard(FaultKind::Partition, 0, cut_length(length), mask);
            }
            Kind::ClockJump => {
                // An hour forward, then the same back: even amounts go forward, odd ones back.
                self.hazard(FaultKind::WallJump, node, JUMPED, 3_600_000);
                self.hazard(FaultKind::WallJump, node, Duration::ZERO, 3_600_001);
            }
            Kind::Rolling => {
                for node in 0..NODES as usize {
                    self.world.kill(node, Some(RESTART_US), true);
                    self.pump(self.world.now + RESTART_US);
                    self.wait_whole();
                }
            }
            Kind::Reshard => {
                let clusters = SPREADS[self.spread % SPREADS.len()];
                self.spread += 1;
                self.hazard(FaultKind::Reshard, 0, Duration::from_secs(1), clusters);
            }
        }
    }

    /// Begins a hazard and lets it last.
    fn hazard(&mut self, kind: FaultKind, node: u64, lasts: Duration, amount: u64) {
        let number = self.world.plan.hazards.len();
        let for_ms = lasts.as_millis() as u64;
        self.world.plan.hazards.push(Hazard { at_ms: 0, kind, node, peer: 0, for_ms, amount });
        let targets = Targets { keyspaces: vec!["default".into()], ..Targets::default() };
        faults::begin(&mut self.world, number, &targets);
        self.pump(self.world.now + for_ms * 1_000);
    }

    // -- redundancy -------------------------------------------------------------------------------

    fn views(&self) -> impl Iterator<Item = (usize, ReplicaView)> + '_ {
        let lanes =
            self.world.nodes.iter().enumerate().flat_map(|(at, node)| node.lanes.iter().map(move |lane| (at, lane)));
        lanes
            .filter_map(|(at, lane)| Some((at, lane.machine.as_ref()?)))
            .flat_map(|(at, machine)| machine.views().into_iter().map(move |view| (at, view)))
    }

    /// The leader's view of each cluster, by its name.
    fn leaders(&self) -> BTreeMap<String, ReplicaView> {
        let mut leaders: BTreeMap<String, ReplicaView> = BTreeMap::new();
        for (_, view) in self.views().filter(|(_, view)| view.is_leader) {
            let name = view.name.as_str().to_owned();
            if leaders.get(&name).is_none_or(|other| (other.generation, other.term) < (view.generation, view.term)) {
                leaders.insert(name, view);
            }
        }
        leaders
    }

    /// Until every member holds what is committed now; false: not in time.
    fn wait_whole(&mut self) -> bool {
        let until = self.world.now + WHOLE_TIMEOUT_US;
        let mut committed: BTreeMap<String, LogIndex> = BTreeMap::new();
        while self.world.now < until && self.world.violations.is_empty() {
            let leaders = self.leaders();
            for (name, view) in &leaders {
                committed.entry(name.clone()).or_insert(view.commit);
            }
            if self.is_whole(&leaders, &committed) {
                return true;
            }
            self.pump(self.world.now + LOOK_US);
        }
        false
    }

    fn is_whole(&self, leaders: &BTreeMap<String, ReplicaView>, committed: &BTreeMap<String, LogIndex>) -> bool {
        if self.world.nodes.iter().any(|node| !node.running) {
            return false;
        }
        let held: Vec<(usize, ReplicaView)> = self.views().collect();
        let there = |name: &String| held.iter().any(|(_, view)| view.name.as_str() == name);
        let is_whole = |(name, at): (&String, &LogIndex)| {
            // Who went away meanwhile (a keyspace moved) has nothing left to restore.
            let Some(leader) = leaders.get(name) else { return !there(name) };
            let full = self.sizes.get(name).is_none_or(|size| leader.members.len() == *size);
            let has_all = |node: usize| {
                let mut own = held.iter().filter(|(other, view)| *other == node && view.cluster == leader.cluster);
                own.any(|(_, view)| !view.blank && !view.damaged && view.applied >= *at)
            };
            full && leader.members.iter().all(|member| !member.learner && has_all(member.node.0 as usize - 1))
        };
        committed.iter().all(is_whole)
    }
}

fn is_done(response: &base_types::action::Response) -> bool {
    match response {
        Ok(_) => true,
        Err(failure) => failure.refusal.code == ErrorCode::KeyspaceExists,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A short world holds each kind of fault once and comes back from each; a second run of it is the same.
    #[test]
    fn minutes_of_the_schedule_end_whole_and_are_a_function_of_their_seed() {
        let order = Order { length: Duration::from_secs(240), rate: 1 };
        let (first, events) = run(3, order).expect("no violation");
        assert!(
            KINDS.iter().all(|kind| first.windows.iter().any(|window| window.kind == *kind)),
            "{:?}",
            first.windows
        );
        assert!(first.windows.iter().all(|window| window.whole.is_some()), "{:?}", first.windows);
        for level in &first.levels {
            assert!(level.causes.iter().all(|counts| counts.wrong == 0), "{level:?}");
            assert_eq!(level.causes[0].failed(), 0, "nothing fails where nothing is wrong: {level:?}");
        }
        let (again, events_again) = run(3, order).expect("no violation");
        assert_eq!((first.json(), events), (again.json(), events_again));
        let mut both = first.clone();
        add(&mut both, again);
        assert_eq!(both.seconds, 480);
        assert_eq!(both.windows.len(), 2 * first.windows.len());
    }
}
