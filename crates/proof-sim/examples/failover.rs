//! How long a cluster takes no writes after its leader dies, in virtual time, over many seeds.
//!
//!   cargo run --profile sim -p proof-sim --example failover -- [--seeds N] [--clusters N] [--kills N] [--quiet]
//!
//! Five nodes in one region, clusters of five members, the core's own tuning, closed-loop writers asking
//! random nodes. A node that leads is killed; of each cluster it led, the longest time between two
//! acknowledged writes from the kill on is one sample. `--quiet`: nobody writes before the kill, the
//! clusters have fallen quiet; the samples then run from the kill to the first write.
//!
//! Always: a function of the seeds. CPU time is not in it (a turn takes 5 to 40 µs): elections and
//! retries are what is measured, `hive bench failover` measures processes.

use base_types::action::{Action, ActionResult, KvTarget, Request};
use base_types::{ClusterName, ErrorCode, RequestId, Ticket, WriteConsistency};
use bytes::Bytes;
use proof_sim::campaign::opener;
use proof_sim::plan::{Layer, Load, Plan, Shape, SimTuning, PLAN_VERSION};
use proof_sim::random::Random;
use proof_sim::world::{Answered, Due, World};
use std::collections::BTreeMap;
use std::time::Duration;

const NODES: u64 = 5;
const DEADLINE_US: u64 = 10_000_000;
/// Load before a kill, quiet before one, and how long is looked after one.
const SETTLE_US: u64 = 1_000_000;
const QUIET_US: u64 = 20_000_000;
const WATCH_US: u64 = 2_500_000;
const DOWN_US: u64 = 5_000_000;

struct Options {
    seeds: u64,
    clusters: u64,
    kills: u64,
    quiet: bool,
}

struct Client {
    cluster: usize,
    written: u128,
    asked: Option<Ticket>,
}

struct Measure {
    world: World,
    names: Vec<ClusterName>,
    clients: Vec<Client>,
    tickets: BTreeMap<Ticket, usize>,
    control: Option<(Ticket, bool, Option<String>)>,
    /// When the last write of a cluster was acknowledged, and its longest gap since the kill.
    last: Vec<u64>,
    gaps: Vec<u64>,
    killed_at: u64,
    random: Random,
    think_us: u64,
    writing: bool,
    calls: u128,
}

fn plan(seed: u64) -> Plan {
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
        wall_clock: false,
        tails: 0,
        shared_chassis: 0,
        access: false,
        histories: 0,
        both_doors: false,
        databases: 0,
        database_keyspaces: false,
    };
    let tuning =
        SimTuning { segment_bytes: 8 << 20, segments_soft_max: 64, turn_events_max: 256, ..SimTuning::default() };
    Plan {
        version: PLAN_VERSION,
        seed,
        title: "failover".to_string(),
        layer: Layer::Core,
        shape,
        tuning,
        load: Load::default(),
        hazards: Vec::new(),
    }
}

impl Measure {
    fn new(seed: u64, options: &Options) -> Measure {
        let plan = plan(seed);
        let world = World::new(plan.clone(), opener(&plan));
        let names: Vec<ClusterName> =
            (0..options.clusters).map(|n| format!("metadata@f{n}").parse().expect("a name")).collect();
        let writers = if options.clusters == 1 { 8 } else { 1 };
        let clients =
            (0..names.len() * writers).map(|n| Client { cluster: n / writers, written: 0, asked: None }).collect();
        Measure {
            world,
            clients,
            tickets: BTreeMap::new(),
            control: None,
            last: vec![0; names.len()],
            gaps: vec![0; names.len()],
            names,
            killed_at: u64::MAX,
            random: Random::stream(seed, "failover"),
            think_us: if options.clusters == 1 { 2_000 } else { 40_000 },
            writing: false,
            calls: 0,
        }
    }

    fn pump(&mut self, until: u64) {
        loop {
            match self.world.advance(until) {
                None => return,
                Some(Some(Due::Client(client))) => self.ask(client),
                Some(_) => {}
            }
            while let Some((ticket, answered)) = self.world.answers.pop_front() {
                self.on_answer(ticket, answered);
            }
            assert!(self.world.violations.is_empty(), "{:?}", self.world.violations);
        }
    }

    fn ask(&mut self, number: usize) {
        if !self.writing || self.clients[number].asked.is_some() {
            return;
        }
        let client = &self.clients[number];
        let key = Bytes::from(format!("{}", client.written % 8));
        let target = KvTarget::Cluster(self.names[client.cluster].clone());
        let request = Request {
            action: Action::KvPut { target, key, value: Bytes::from(vec![1; 100]) },
            consistency: Some(WriteConsistency::Strong),
            read_consistency: None,
            deadline: Duration::from_micros(DEADLINE_US),
            request_id: Some(RequestId((number as u128) << 64 | client.written)),
            after: None,
            expected_bucket_owner: None,
            caller: base_types::access::Caller::Anyone,
        };
        let node = self.random.below(NODES) as usize;
        match self.world.ask(node, request) {
            Some(ticket) => {
                self.clients[number].asked = Some(ticket);
                self.tickets.insert(ticket, number);
            }
            None => self.again(number, 5_000),
        }
    }

    fn again(&mut self, number: usize, within_us: u64) {
        let at = self.world.now + self.random.between(1, within_us + 1);
        self.world.schedule(at, Due::Client(number));
    }

    fn on_answer(&mut self, ticket: Ticket, answered: Answered) {
        if let Some((_, done, last)) = self.control.as_mut().filter(|(asked, ..)| *asked == ticket) {
            *done = match answered {
                Answered::Response(response) => {
                    *last = Some(format!("{response:?}"));
                    match *response {
                        Ok(answer) => match answer.result {
                            ActionResult::Status(status) => status.ready,
                            _ => true,
                        },
                        Err(failure) => failure.refusal.code == ErrorCode::ClusterExists,
                    }
                }
                Answered::Lost => false,
            };
            return;
        }
        let Some(number) = self.tickets.remove(&ticket) else { return };
        self.clients[number].asked = None;
        match answered {
            Answered::Response(response) if response.is_ok() => {
                self.clients[number].written += 1;
                let (now, cluster) = (self.world.now, self.clients[number].cluster);
                if now >= self.killed_at {
                    self.gaps[cluster] = self.gaps[cluster].max(now - self.last[cluster]);
                }
                self.last[cluster] = now;
                self.again(number, 2 * self.think_us);
            }
            _ => self.again(number, 5_000),
        }
    }

    fn insist(&mut self, node: usize, action: Action) {
        for _ in 0..600 {
            self.calls += 1;
            let request = Request {
                action: action.clone(),
                consistency: None,
                read_consistency: None,
                deadline: Duration::from_micros(DEADLINE_US),
                request_id: Some(RequestId(1 << 120 | self.calls)),
                after: None,
                expected_bucket_owner: None,
                caller: base_types::access::Caller::Anyone,
            };
            if let Some(ticket) = self.world.ask(node, request) {
                self.control = Some((ticket, false, None));
                for _ in 0..2_000 {
                    self.pump(self.world.now + 5_000);
                    if self.control.as_ref().is_some_and(|(_, _, last)| last.is_some()) {
                        break;
                    }
                }
                if self.control.take().is_some_and(|(_, done, _)| done) {
                    return;
                }
            }
            self.pump(self.world.now + 200_000);
        }
        panic!("node {node} does not do {action:?}");
    }

    /// Clusters by the node that leads them.
    fn led(&self) -> BTreeMap<usize, Vec<usize>> {
        let mut led: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, node) in self.world.nodes.iter().enumerate() {
            for view in node.lanes.iter().filter_map(|lane| lane.machine.as_ref()).flat_map(|machine| machine.views()) {
                if let Some(cluster) = self.names.iter().position(|name| *name == view.name).filter(|_| view.is_leader)
                {
                    led.entry(at).or_default().push(cluster);
                }
            }
        }
        led
    }

    fn write(&mut self, writing: bool) {
        self.writing = writing;
        if writing {
            (0..self.clients.len()).for_each(|client| self.again(client, self.think_us));
        }
    }

    fn one_kill(&mut self, quiet: bool, samples: &mut Vec<u64>) {
        self.write(!quiet);
        let wait = if quiet { QUIET_US } else { SETTLE_US } + self.random.below(300_000);
        self.pump(self.world.now + wait);
        let led = self.led();
        let (node, clusters) = led.iter().max_by_key(|(_, clusters)| clusters.len()).expect("somebody leads");
        let (node, clusters) = (*node, clusters.clone());
        self.killed_at = self.world.now;
        self.gaps.fill(0);
        if quiet {
            self.last.fill(self.world.now);
            self.write(true);
        }
        self.world.kill(node, Some(DOWN_US), true);
        self.pump(self.world.now + WATCH_US);
        for cluster in clusters {
            let open = self.world.now - self.last[cluster];
            samples.push(self.gaps[cluster].max(if open > WATCH_US / 2 { open } else { 0 }));
        }
        self.writing = false;
        self.killed_at = u64::MAX;
    }
}

fn options() -> Options {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str, default: u64| {
        let at = words.iter().position(|word| word == name);
        at.and_then(|at| words.get(at + 1)).map_or(default, |word| word.parse().expect("a number"))
    };
    Options {
        seeds: number("--seeds", 300),
        clusters: number("--clusters", 1),
        kills: number("--kills", 1),
        quiet: words.iter().any(|word| word == "--quiet"),
    }
}

fn main() {
    let options = options();
    let mut samples = Vec::new();
    for seed in 1..=options.seeds {
        let mut measure = Measure::new(seed, &options);
        for node in 0..NODES as usize {
            measure.insist(node, Action::Status);
        }
        for name in measure.names.clone() {
            let rule = format!("size={NODES} location=world failure_domain=chassis");
            measure.insist(0, Action::CreateCluster { name, rule });
        }
        for kill in 0..options.kills {
            if kill > 0 {
                // The node killed before comes back, and has what it missed.
                measure.pump(measure.world.now + DOWN_US);
            }
            measure.one_kill(options.quiet, &mut samples);
        }
    }
    samples.sort_unstable();
    let at = |percent: usize| samples[(samples.len() - 1) * percent / 100] as f64 / 1_000.0;
    println!(
        "{} seeds, {} clusters, {} kills a seed{}: {} gaps; ms: min {:.0} p50 {:.0} p90 {:.0} p99 {:.0} max {:.0}",
        options.seeds,
        options.clusters,
        options.kills,
        if options.quiet { ", quiet" } else { "" },
        samples.len(),
        at(0),
        at(50),
        at(90),
        at(99),
        at(100)
    );
}
