//! The world: nodes, network and the one queue of everything that will happen, in virtual time.
//!
//!   queue ──pop──▶ turn of a core ──effects──▶ network, disks, engines, replies ──▶ queue
//!
//! Always: one thread, one queue ordered by (time, number), every choice from a seeded stream: the
//! same plan gives the same trace.
//! Not here: clients (`load`), faults (`faults`), phases (`run`).

use crate::clock::Clock;
use crate::disk::{Finished, SimDisk};
use crate::host::{Armed, LaneHost, Node, INBOX_EVENTS_MAX};
use crate::machine::Opener;
use crate::network::{Network, PING_TIMEOUT_US};
use crate::plan::{FaultKind, Plan, SimTuning};
use crate::random::Random;
use crate::trace::Trace;
use base_engine::EngineError;
use base_types::action::{Request, Response};
use base_types::{BootId, DiskId, LaneId, NodeId, Ticket};
use bytes::Bytes;
use core_cluster::api::EngineWork;
use core_log::LogAction;
use core_node::api::{Effect, Effects, Event, Mail, NodeConfig, Tuning};
use core_placement::Labels;
use proof_check::invariants::{LeaderBook, StateBook};
use proof_check::Violation;
use std::collections::{BTreeMap, VecDeque};

/// How often connections are looked after.
const KEEPER_US: u64 = 100_000;
/// A disk that ends nothing for this long is treated as failed.
const STALL_US_MAX: u64 = 5_000_000;
/// How many violations are kept; a run stops at the first turn behind it.
const VIOLATIONS_MAX: usize = 20;

/// What will happen.
pub enum Due {
    Turn {
        node: usize,
        lane: usize,
        life: u64,
    },
    Wake {
        node: usize,
        lane: usize,
        life: u64,
    },
    Deliver {
        from: usize,
        to: usize,
        lane: usize,
        life: u64,
        frame: Bytes,
    },
    Mail {
        node: usize,
        lane: usize,
        life: u64,
        from: LaneId,
        mail: Mail,
    },
    PeerUp {
        node: usize,
        peer: usize,
        life: u64,
    },
    PeerDown {
        node: usize,
        peer: usize,
        life: u64,
    },
    DiskDone {
        node: usize,
        lane: usize,
        life: u64,
    },
    DiskStalled {
        node: usize,
        lane: usize,
        life: u64,
        finish_at: u64,
    },
    JobDone {
        node: usize,
        lane: usize,
        life: u64,
    },
    Die {
        node: usize,
        life: u64,
        down_us: u64,
    },
    Start {
        node: usize,
        life: u64,
    },
    Resume {
        node: usize,
    },
    Keeper,
    /// For the driver above: a client's turn, a hazard's beginning or end.
    Client(usize),
    Timeout {
        client: usize,
        ticket: Ticket,
    },
    Hazard(usize),
    HazardEnd(usize),
}

/// What a request came to.
#[derive(Debug)]
pub enum Answered {
    Response(Box<Response>),
    /// The connection broke: nobody knows.
    Lost,
}

/// The world.
pub struct World {
    pub now: u64,
    pub plan: Plan,
    pub nodes: Vec<Node>,
    pub network: Network,
    pub trace: Trace,
    pub probes: BTreeMap<&'static str, u64>,
    pub violations: Vec<Violation>,
    pub leaders: LeaderBook,
    pub states: StateBook,
    /// Answers not yet taken by the driver.
    pub answers: VecDeque<(Ticket, Answered)>,
    queue: BTreeMap<(u64, u64), Due>,
    sequence: u64,
    next_ticket: u64,
    waiting: BTreeMap<Ticket, (usize, u64)>,
    opener: Box<dyn Opener>,
    pub random: Streams,
}

/// One stream for each purpose.
pub struct Streams {
    pub network: Random,
    pub disk: Random,
    pub host: Random,
    pub fault: Random,
    /// When to look inside: changes nothing of what happens.
    pub sample: Random,
}

impl World {
    /// A world of stopped nodes that start within the first 200 ms.
    pub fn new(plan: Plan, opener: Box<dyn Opener>, loud: bool) -> World {
        let stream = |name| Random::stream(plan.seed, name);
        let random = Streams {
            network: stream("network"),
            disk: stream("disk"),
            host: stream("host"),
            fault: stream("fault"),
            sample: stream("sample"),
        };
        let mut world = World {
            now: 0,
            nodes: Vec::new(),
            network: Network::default(),
            trace: Trace::new(loud),
            probes: BTreeMap::new(),
            violations: Vec::new(),
            leaders: LeaderBook::default(),
            states: StateBook::default(),
            answers: VecDeque::new(),
            queue: BTreeMap::new(),
            sequence: 0,
            next_ticket: 1,
            waiting: BTreeMap::new(),
            opener,
            random,
            plan,
        };
        for number in 0..world.plan.shape.nodes {
            let region = number % world.plan.shape.regions;
            world.network.regions.push(region);
            world.nodes.push(new_node(number, region, world.plan.shape.lanes, &mut world.random.host));
            let at = world.random.host.below(200_000);
            world.schedule(at, Due::Start { node: number as usize, life: 0 });
        }
        world.schedule(KEEPER_US, Due::Keeper);
        world
    }

    pub fn schedule(&mut self, at: u64, due: Due) {
        self.sequence += 1;
        self.queue.insert((at.max(self.now), self.sequence), due);
    }

    pub fn probe(&mut self, name: &'static str) {
        *self.probes.entry(name).or_default() += 1;
    }

    pub fn violate(&mut self, violation: Violation) {
        self.trace.say(self.now, || format!("VIOLATION {}: {}", violation.check, violation.message));
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(violation);
        }
    }

    /// Takes the next thing. Those for the driver are handed back; `None` where `until` comes first.
    pub fn advance(&mut self, until: u64) -> Option<Option<Due>> {
        let key = *self.queue.keys().next()?;
        if key.0 > until {
            self.now = until;
            return None;
        }
        let due = self.queue.remove(&key)?;
        self.now = key.0;
        Some(self.happen(due))
    }

    fn happen(&mut self, due: Due) -> Option<Due> {
        match due {
            Due::Turn { node, lane, life } => self.turn(node, lane, life),
            Due::Wake { node, lane, life } => {
                if self.is_alive(node, life) && self.nodes[node].lanes[lane].wake_at == self.now {
                    self.nodes[node].lanes[lane].wake_at = u64::MAX;
                    self.post(node, lane, Event::Timer);
                }
            }
            Due::Deliver { from, to, lane, life, frame } => {
                if self.is_alive(to, life) && lane < self.nodes[to].lanes.len() {
                    let from = self.nodes[from].id;
                    self.post(to, lane, Event::Frame { from, frame });
                }
            }
            Due::Mail { node, lane, life, from, mail } => {
                if self.is_alive(node, life) {
                    self.post(node, lane, Event::Mail { from, mail });
                }
            }
            Due::PeerUp { node, peer, life } => self.post_peer(node, peer, life, true),
            Due::PeerDown { node, peer, life } => self.post_peer(node, peer, life, false),
            Due::DiskDone { node, lane, life } => self.disk_done(node, lane, life),
            Due::DiskStalled { node, lane, life, finish_at } => {
                if self.is_alive(node, life) && self.nodes[node].stalled_until >= finish_at {
                    self.post(node, lane, Event::LogFailed { message: "the disk stalled (injected)".to_string() });
                }
            }
            Due::JobDone { node, lane, life } => self.job_done(node, lane, life),
            Due::Die { node, life, down_us } => {
                if self.is_alive(node, life) {
                    self.kill(node, Some(down_us), true);
                }
            }
            Due::Start { node, life } => self.start(node, life),
            Due::Resume { node } => self.resume(node),
            Due::Keeper => self.keep_connections(),
            other => return Some(other),
        }
        None
    }

    pub fn is_alive(&self, node: usize, life: u64) -> bool {
        self.nodes[node].running && self.nodes[node].life == life
    }

    pub fn is_paused(&self, node: usize) -> bool {
        self.nodes[node].paused_until > self.now
    }

    /// Puts an event into a core's inbox.
    pub fn post(&mut self, node: usize, lane: usize, event: Event) {
        let now = self.now;
        let delay = self.random.host.between(5, 40);
        let host = &mut self.nodes[node];
        let life = host.life;
        let inbox = &mut host.lanes[lane].inbox;
        inbox.push_back(event);
        if inbox.len() > INBOX_EVENTS_MAX {
            let message = format!("the inbox of node {} lane {lane} passed {INBOX_EVENTS_MAX} events", host.id);
            self.violate(Violation::new("bounds", message, vec![]));
            return;
        }
        if !host.lanes[lane].turn_due {
            host.lanes[lane].turn_due = true;
            let at = (now + delay).max(host.paused_until);
            self.schedule(at, Due::Turn { node, lane, life });
        }
    }

    fn turn(&mut self, node: usize, lane: usize, life: u64) {
        if !self.is_alive(node, life) {
            return;
        }
        if self.is_paused(node) {
            let at = self.nodes[node].paused_until;
            return self.schedule(at, Due::Turn { node, lane, life });
        }
        let local = self.nodes[node].clock.local_at(self.now);
        let watch_terms = matches!(self.nodes[node].armed, Some(Armed::AtVote { .. }));
        let events_max = self.plan.tuning.turn_events_max;
        let host = &mut self.nodes[node].lanes[lane];
        host.turn_due = false;
        let Some(mut machine) = host.machine.take() else { return };
        let terms_before = if watch_terms { term_sum(machine.as_ref()) } else { 0 };
        let mut effects = Effects::default();
        for _ in 0..events_max {
            let Some(event) = host.inbox.pop_front() else { break };
            self.trace.note(self.now, event_name(&event), &[node as u64, lane as u64, event_number(&event)]);
            self.trace.say(self.now, || format!("n{} l{lane} <- {}", node + 1, event_line(&event)));
            machine.step(local, event, &mut effects);
        }
        machine.finish_turn(local, &mut effects);
        let voted = watch_terms && term_sum(machine.as_ref()) != terms_before;
        let wake = machine.next_wake();
        if self.random.sample.per_mille(60) {
            self.sample(node, machine.as_ref());
        }
        let host = &mut self.nodes[node].lanes[lane];
        host.machine = Some(machine);
        if !host.inbox.is_empty() {
            host.turn_due = true;
            let at = self.now + self.random.host.between(5, 40);
            self.schedule(at, Due::Turn { node, lane, life });
        }
        self.carry_out(node, lane, effects, voted);
        if self.is_alive(node, life) {
            self.schedule_wake(node, lane, wake);
        }
    }

    fn schedule_wake(&mut self, node: usize, lane: usize, wake: base_types::Tick) {
        let at = self.nodes[node].clock.true_at(wake, self.now);
        let host = &mut self.nodes[node];
        // Never at once: a core that always wants to be woken must not stop time.
        let at = at.max(self.now + 20);
        if at < host.lanes[lane].wake_at && at != u64::MAX {
            host.lanes[lane].wake_at = at;
            let life = host.life;
            self.schedule(at, Due::Wake { node, lane, life });
        }
    }

    /// Its clock changed: what it waits for comes at another time.
    pub fn clock_changed(&mut self, node: usize) {
        let now = self.now;
        self.nodes[node].disturbed_at = now;
        for lane in 0..self.nodes[node].lanes.len() {
            self.nodes[node].lanes[lane].wake_at = u64::MAX;
            if let Some(wake) = self.nodes[node].lanes[lane].machine.as_ref().map(|machine| machine.next_wake()) {
                self.schedule_wake(node, lane, wake);
            }
        }
    }

    fn sample(&mut self, node: usize, machine: &dyn crate::machine::Machine) {
        let id = self.nodes[node].id;
        // A state is hashed by walking it: one now and then, all at the end of the run.
        let views = machine.views();
        let hashed = self.random.sample.per_mille(100).then(|| self.random.sample.below(views.len() as u64));
        for (number, view) in views.into_iter().enumerate() {
            if view.is_leader {
                let found = self.leaders.note(view.cluster, view.generation, view.term, id);
                found.into_iter().for_each(|violation| self.violate(violation));
            }
            let hash = (hashed == Some(number as u64)).then(|| machine.state_hash(view.cluster)).flatten();
            if let Some((applied, hash)) = hash {
                let found = self.states.note(view.cluster, view.generation, applied, id, hash);
                found.into_iter().for_each(|violation| self.violate(violation));
            }
        }
    }

    fn carry_out(&mut self, node: usize, lane: usize, effects: Effects, voted: bool) {
        let mut left = usize::MAX;
        match self.nodes[node].armed {
            Some(Armed::InTurn { effects: count, down_us }) if !effects.list.is_empty() => {
                self.nodes[node].armed = None;
                self.probe(FaultKind::CrashInTurn.name());
                left = count;
                let life = self.nodes[node].life;
                self.schedule(self.now, Due::Die { node, life, down_us });
            }
            Some(Armed::AtVote { after_us, down_us }) if voted => {
                self.nodes[node].armed = None;
                self.probe(FaultKind::CrashAtVote.name());
                let (life, at) = (self.nodes[node].life, self.now + self.random.fault.below(after_us + 1));
                self.schedule(at, Due::Die { node, life, down_us });
            }
            _ => {}
        }
        let life = self.nodes[node].life;
        for effect in effects.list {
            if left == 0 || !self.is_alive(node, life) {
                break;
            }
            left -= 1;
            self.carry_out_one(node, lane, effect);
        }
    }

    fn carry_out_one(&mut self, node: usize, lane: usize, effect: Effect) {
        match effect {
            Effect::Send { to, lane: to_lane, frame } => self.send(node, to, to_lane, frame),
            Effect::Mail { to, mail } => {
                let (life, at) = (self.nodes[node].life, self.now + self.random.host.between(1, 20));
                let due = Due::Mail { node, lane: usize::from(to.0), life, from: LaneId(lane as u16), mail };
                if usize::from(to.0) < self.nodes[node].lanes.len() {
                    self.schedule(at, due);
                }
            }
            Effect::Reply { ticket, response } => self.reply(node, ticket, response),
            Effect::Log(action) => {
                self.nodes[node].lanes[lane].disk.queue.push_back(action);
                self.kick_disk(node, lane);
            }
            Effect::Engine(job) => {
                self.nodes[node].lanes[lane].jobs.push_back(job);
                self.kick_engine(node, lane);
            }
            Effect::Address { node: peer, .. } => {
                if let Some(peer) = self.index_of(peer).filter(|peer| *peer != node) {
                    self.network.known.insert((node, peer));
                }
            }
            Effect::Forget { node: peer } => {
                if let Some(peer) = self.index_of(peer) {
                    self.network.known.remove(&(node, peer));
                }
            }
            Effect::Note { level, text } => {
                self.trace.say(self.now, || format!("n{} l{lane} {level:?}: {text}", node + 1))
            }
            Effect::Halt { reason } => self.halt(node, &reason),
        }
    }

    fn halt(&mut self, node: usize, reason: &str) {
        self.probe("halted");
        self.trace.say(self.now, || format!("n{} halts: {reason}", node + 1));
        if !self.nodes[node].disk_suspect {
            let message = format!("node {} halted although its disk was well: {reason}", self.nodes[node].id);
            self.violate(Violation::new("halt", message, vec![]));
        }
        let down = self.random.fault.between(100_000, 1_000_000);
        self.kill(node, Some(down), false);
    }

    pub fn index_of(&self, id: NodeId) -> Option<usize> {
        (id.0 as usize).checked_sub(1).filter(|index| *index < self.nodes.len())
    }

    /// A voter of the cluster that has been down since before this time.
    pub fn member_away_since(&self, cluster: base_types::ClusterId, since: u64) -> Option<NodeId> {
        let machines = self.nodes.iter().flat_map(|node| &node.lanes).filter_map(|lane| lane.machine.as_ref());
        let views = machines.flat_map(|machine| machine.views());
        let leader = views.filter(|view| view.cluster == cluster && view.is_leader).max_by_key(|view| view.term)?;
        let voters = leader.members.iter().filter(|member| !member.learner);
        voters.map(|member| member.node).find(|id| {
            self.index_of(*id)
                .map(|index| &self.nodes[index])
                .is_some_and(|node| !node.running && node.down_since < since)
        })
    }

    fn send(&mut self, from: usize, to: NodeId, lane: LaneId, frame: Bytes) {
        let Some(to) = self.index_of(to) else { return };
        if to == from || !self.nodes[to].running || !self.network.is_connected(from, to) {
            return self.probe("frame_without_connection");
        }
        let route = self.network.route(self.now, from, to, lane.0, &mut self.random.network);
        for kind in route.fired {
            self.probe(kind.name());
        }
        let life = self.nodes[to].life;
        for at in route.arrivals {
            let frame = frame.clone();
            self.schedule(at, Due::Deliver { from, to, lane: usize::from(lane.0), life, frame });
        }
    }

    fn reply(&mut self, node: usize, ticket: Ticket, response: Response) {
        match self.waiting.remove(&ticket) {
            Some((asked, _)) if asked == node => {
                self.answers.push_back((ticket, Answered::Response(Box::new(response))));
            }
            _ if ticket.0 >= self.next_ticket => {
                let message = format!("node {} answered {ticket:?}, which nobody asked", self.nodes[node].id);
                self.violate(Violation::new("replies", message, vec![]));
            }
            // Answered twice, or after a cancel.
            _ => self.probe("answer_nobody_waits_for"),
        }
    }

    /// A client asks a node. `None`: nobody listens there.
    pub fn ask(&mut self, node: usize, request: Request) -> Option<Ticket> {
        if !self.nodes[node].running {
            return None;
        }
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.waiting.insert(ticket, (node, self.nodes[node].life));
        let lane = self.random.host.below(self.nodes[node].lanes.len() as u64) as usize;
        self.post(node, lane, Event::Request { ticket, request });
        Some(ticket)
    }

    /// The client goes away. True if it was still waited for.
    pub fn cancel(&mut self, ticket: Ticket) -> bool {
        let Some((node, life)) = self.waiting.remove(&ticket) else { return false };
        if self.is_alive(node, life) {
            // The door knows which core has the ticket; to the others it means nothing.
            for lane in 0..self.nodes[node].lanes.len() {
                self.post(node, lane, Event::Cancel { ticket });
            }
        }
        true
    }

    fn kick_disk(&mut self, node: usize, lane: usize) {
        let (now, life) = (self.now, self.nodes[node].life);
        let stalled = self.nodes[node].stalled_until;
        let Some(action) = self.nodes[node].lanes[lane].disk.begin() else { return };
        let takes = match action {
            LogAction::Write { .. } => self.random.disk.between(60, 400),
            LogAction::Prepare { .. } => self.random.disk.between(500, 4_000),
            LogAction::Remove { .. } => 50,
        };
        let at = (now + takes).max(stalled);
        self.schedule(at, Due::DiskDone { node, lane, life });
        if stalled > now + STALL_US_MAX {
            self.schedule(now + STALL_US_MAX, Due::DiskStalled { node, lane, life, finish_at: stalled });
        }
    }

    /// A fault on a disk ended: what waited for it goes on.
    pub fn kick_disks(&mut self, node: usize) {
        for lane in 0..self.nodes[node].lanes.len() {
            if self.nodes[node].running {
                self.kick_disk(node, lane);
            }
        }
    }

    fn disk_done(&mut self, node: usize, lane: usize, life: u64) {
        if !self.is_alive(node, life) {
            return;
        }
        let segment_bytes = self.plan.tuning.segment_bytes;
        let disk = &mut self.nodes[node].lanes[lane].disk;
        let finished = disk.finish(segment_bytes, &mut self.random.disk);
        if matches!(finished, Some(Finished::Failed(_))) {
            disk.queue.clear();
        }
        let event = match finished {
            Some(Finished::Written(batch)) => Some(Event::LogWritten { batch }),
            Some(Finished::Ready(segment)) => Some(Event::LogSegmentReady { segment }),
            Some(Finished::NoRoom(segment)) => {
                self.probe("segment_without_room");
                Some(Event::LogSegmentFailed { segment })
            }
            Some(Finished::Failed(message)) => Some(Event::LogFailed { message }),
            Some(Finished::Removed) | None => None,
        };
        if let Some(event) = event {
            if let (Event::LogFailed { message }, false) = (&event, self.nodes[node].disk_suspect) {
                let message = format!("node {}: {message}", self.nodes[node].id);
                self.violate(Violation::new("disk", message, vec![]));
            }
            self.post(node, lane, event);
        }
        self.kick_disk(node, lane);
    }

    fn kick_engine(&mut self, node: usize, lane: usize) {
        let life = self.nodes[node].life;
        let host = &mut self.nodes[node].lanes[lane];
        if host.job_running.is_none() {
            host.job_running = host.jobs.pop_front();
            if host.job_running.is_some() {
                let at = self.now + self.random.disk.between(100, 5_000);
                self.schedule(at, Due::JobDone { node, lane, life });
            }
        }
    }

    fn job_done(&mut self, node: usize, lane: usize, life: u64) {
        if !self.is_alive(node, life) {
            return;
        }
        let host = &mut self.nodes[node].lanes[lane];
        let Some(job) = host.job_running.take() else { return };
        let result = run_job(host, &job.work);
        self.post(node, lane, Event::EngineDone { job: job.job, result });
        self.kick_engine(node, lane);
    }

    fn post_peer(&mut self, node: usize, peer: usize, life: u64, up: bool) {
        if !self.is_alive(node, life) {
            return;
        }
        let id = self.nodes[peer].id;
        for lane in 0..self.nodes[node].lanes.len() {
            let event = if up { Event::PeerUp { node: id } } else { Event::PeerDown { node: id } };
            self.post(node, lane, event);
        }
    }

    /// Brings connections up where they can be, and finds the dead ones.
    fn keep_connections(&mut self) {
        self.schedule(self.now + KEEPER_US, Due::Keeper);
        for one in 0..self.nodes.len() {
            for other in one + 1..self.nodes.len() {
                let reachable = !self.network.is_cut(one, other) && !self.network.is_cut(other, one);
                let running = self.nodes[one].running && self.nodes[other].running;
                let well = reachable && running && !self.is_paused(one) && !self.is_paused(other);
                let known = self.network.known.contains(&(one, other)) || self.network.known.contains(&(other, one));
                let now = self.now;
                let connection = self.network.connection(one, other);
                if well {
                    connection.dead_since = None;
                    if !connection.up && known {
                        self.connect(one, other);
                    }
                } else if connection.up {
                    let since = *connection.dead_since.get_or_insert(now);
                    if now - since >= PING_TIMEOUT_US {
                        self.disconnect(one, other);
                    }
                }
            }
        }
    }

    fn connect(&mut self, one: usize, other: usize) {
        self.network.connection(one, other).up = true;
        for (node, peer) in [(one, other), (other, one)] {
            let at = self.now + self.network.latency(peer, node, &mut self.random.network);
            let life = self.nodes[node].life;
            self.schedule(at, Due::PeerUp { node, peer, life });
        }
    }

    /// Ends a connection; both sides hear of it, if they live.
    pub fn disconnect(&mut self, one: usize, other: usize) {
        let connection = self.network.connection(one, other);
        connection.dead_since = None;
        if std::mem::take(&mut connection.up) {
            for (node, peer) in [(one, other), (other, one)] {
                let at = self.now + self.random.network.between(50, 500);
                let life = self.nodes[node].life;
                self.schedule(at, Due::PeerDown { node, peer, life });
            }
        }
    }

    /// The process ends. With `down_us` it comes back by itself. `told`: its connections are reset.
    pub fn kill(&mut self, node: usize, down_us: Option<u64>, told: bool) {
        if self.nodes[node].running {
            self.trace.say(self.now, || format!("n{} dies", node + 1));
            self.trace.note(self.now, "die", &[node as u64]);
            self.bury(node);
            for peer in 0..self.nodes.len() {
                let cut = self.network.is_cut(node, peer);
                if peer != node && told && !cut {
                    self.disconnect(node, peer);
                }
            }
        }
        if let Some(down_us) = down_us {
            let life = self.nodes[node].life;
            self.schedule(self.now + down_us, Due::Start { node, life });
        }
    }

    fn bury(&mut self, node: usize) {
        let now = self.now;
        let host = &mut self.nodes[node];
        host.running = false;
        host.down_since = now;
        host.life += 1;
        host.armed = None;
        host.paused_until = 0;
        for lane in &mut host.lanes {
            lane.machine = None;
            lane.inbox.clear();
            lane.turn_due = false;
            lane.wake_at = u64::MAX;
            lane.disk.crash(&mut self.random.disk);
            // What the engine was writing is there or it is not.
            if let Some(job) = lane.job_running.take().filter(|_| self.random.disk.per_mille(500)) {
                drop(run_job(lane, &job.work));
            }
            lane.jobs.clear();
        }
        let lost: Vec<Ticket> =
            self.waiting.iter().filter(|(_, (asked, _))| *asked == node).map(|(ticket, _)| *ticket).collect();
        for ticket in lost {
            self.waiting.remove(&ticket);
            self.answers.push_back((ticket, Answered::Lost));
        }
    }

    fn start(&mut self, node: usize, life: u64) {
        let host = &self.nodes[node];
        if host.running || host.life != life || host.held_down > 0 {
            return;
        }
        // Nobody's old connection survives a start.
        for peer in 0..self.nodes.len() {
            if peer != node {
                self.disconnect(node, peer);
            }
        }
        let boot = BootId(self.random.host.draw());
        let seed = self.random.host.draw();
        let host = &mut self.nodes[node];
        host.life += 1;
        host.running = true;
        host.clock = Clock::new(self.now, host.clock.local_at(self.now).0);
        self.trace.note(self.now, "start", &[node as u64]);
        self.trace.say(self.now, || format!("n{} starts", node + 1));
        for lane in 0..self.nodes[node].lanes.len() {
            let config = self.config(node, lane, boot, seed);
            if !self.open_lane(node, lane, config) {
                return;
            }
        }
    }

    fn open_lane(&mut self, node: usize, lane: usize, config: NodeConfig) -> bool {
        let local = self.nodes[node].clock.local_at(self.now);
        let host = &mut self.nodes[node].lanes[lane];
        let engine: std::sync::Arc<dyn base_engine::Engine> = host.engine.clone();
        match self.opener.open(config, vec![engine], &mut host.disk, local) {
            Ok((machine, effects)) => {
                let wake = machine.next_wake();
                host.machine = Some(machine);
                let life = self.nodes[node].life;
                self.carry_out(node, lane, effects, false);
                if self.is_alive(node, life) {
                    self.schedule_wake(node, lane, wake);
                    self.post(node, lane, Event::Timer);
                }
                self.is_alive(node, life)
            }
            Err(message) => {
                self.refuse_start(node, &message);
                false
            }
        }
    }

    /// A node whose disk was damaged may refuse to start: its operator gives it an empty one.
    fn refuse_start(&mut self, node: usize, message: &str) {
        self.trace.say(self.now, || format!("n{} refuses to start: {message}", node + 1));
        self.probe("start_refused");
        if !self.nodes[node].disk_suspect {
            let message = format!("node {} refuses to start although its disk was well: {message}", node + 1);
            self.violate(Violation::new("start", message, vec![]));
        }
        self.kill(node, Some(500_000), false);
        self.wipe(node);
    }

    /// An empty disk under a new name.
    pub fn wipe(&mut self, node: usize) {
        self.nodes[node].disk_id = DiskId(self.random.host.draw());
        for lane in &mut self.nodes[node].lanes {
            lane.disk = SimDisk::default();
            lane.engine = std::sync::Arc::new(engine_memory::MemoryEngine::new());
        }
        self.nodes[node].images.clear();
    }

    fn resume(&mut self, node: usize) {
        if self.nodes[node].paused_until <= self.now {
            self.nodes[node].paused_until = 0;
            self.nodes[node].disturbed_at = self.now;
        }
    }

    fn config(&self, node: usize, lane: usize, boot: BootId, seed: u64) -> NodeConfig {
        let host = &self.nodes[node];
        let address = |number: u64| (NodeId(number + 1), format!("n{}:7601", number + 1));
        NodeConfig {
            world: "sim".to_string(),
            node: host.id,
            disk: host.disk_id,
            boot,
            lane: LaneId(lane as u16),
            lane_count: host.lanes.len() as u16,
            labels: host.labels.clone(),
            peer_address: format!("n{}:7601", host.id),
            http_address: format!("n{}:7101", host.id),
            world_members: (0..self.plan.shape.world_members).map(address).collect(),
            region_members: Vec::new(),
            default_engine: "memory".to_string(),
            engines: vec!["memory".to_string()],
            version: "sim".to_string(),
            tuning: core_tuning(&self.plan.tuning),
            seed: seed ^ (lane as u64).wrapping_mul(0x9e37_79b9),
        }
    }
}

fn new_node(number: u64, region: u64, lanes: u16, random: &mut Random) -> Node {
    Node {
        id: NodeId(number + 1),
        labels: Labels {
            region: format!("region-{}", region + 1),
            az: format!("{}", number + 1),
            rack: "1".to_string(),
            chassis: format!("c{}", number + 1),
        },
        disk_id: DiskId(random.draw()),
        life: 0,
        running: false,
        down_since: 0,
        paused_until: 0,
        disturbed_at: 0,
        clock: Clock::new(0, 1_000_000 + random.below(1 << 40)),
        lanes: (0..lanes).map(|_| LaneHost::new()).collect(),
        armed: None,
        stalled_until: 0,
        disk_suspect: false,
        images: VecDeque::new(),
        held_down: 0,
    }
}

fn core_tuning(tuning: &SimTuning) -> Tuning {
    Tuning {
        tick_ms: tuning.tick_ms,
        heartbeat_ticks: tuning.heartbeat_ticks,
        election_ticks: tuning.election_ticks,
        quiesce_after_ticks: tuning.quiesce_after_ticks,
        flush_bytes: tuning.flush_bytes,
        flush_after_ms: tuning.flush_after_ms,
        log_keep_bytes: tuning.log_keep_bytes,
        snapshot_chunk_bytes: tuning.snapshot_chunk_bytes,
        node_heartbeat_ms: tuning.node_heartbeat_ms,
        node_down_ms: tuning.node_down_ms,
        log: core_log::LogConfig {
            segment_bytes: tuning.segment_bytes,
            spare_segments: tuning.spare_segments,
            batch_bytes_max: tuning.batch_bytes_max,
            segments_soft_max: tuning.segments_soft_max,
            seal_after: std::time::Duration::from_millis(tuning.seal_after_ms),
        },
    }
}

fn run_job(host: &LaneHost, work: &EngineWork) -> Result<bool, EngineError> {
    use base_engine::Engine;
    match work {
        EngineWork::Write(batch) => host.engine.write(batch).map(|()| false),
        EngineWork::DropSpace { space, limit } => host.engine.drop_space(*space, *limit),
    }
}

fn term_sum(machine: &dyn crate::machine::Machine) -> u64 {
    machine.views().iter().map(|view| view.term.0).sum()
}

fn event_name(event: &Event) -> &'static str {
    match event {
        Event::Timer => "timer",
        Event::Request { .. } => "request",
        Event::Cancel { .. } => "cancel",
        Event::Frame { .. } => "frame",
        Event::PeerUp { .. } => "peer_up",
        Event::PeerDown { .. } => "peer_down",
        Event::Mail { .. } => "mail",
        Event::LogWritten { .. } => "log_written",
        Event::LogSegmentReady { .. } => "segment_ready",
        Event::LogSegmentFailed { .. } => "segment_failed",
        Event::LogFailed { .. } => "log_failed",
        Event::EngineDone { .. } => "engine_done",
        Event::Machine { .. } => "machine",
        Event::DiskFull { .. } => "disk_full",
    }
}

fn event_number(event: &Event) -> u64 {
    match event {
        Event::Frame { from, frame } => xxhash_rust::xxh3::xxh3_64_with_seed(frame, from.0),
        Event::Mail { from, mail } => xxhash_rust::xxh3::xxh3_64_with_seed(&mail.frame, u64::from(from.0)),
        Event::Request { ticket, .. } | Event::Cancel { ticket } => ticket.0,
        Event::PeerUp { node } | Event::PeerDown { node } => node.0,
        Event::LogWritten { batch } => batch.0,
        Event::LogSegmentReady { segment } | Event::LogSegmentFailed { segment } => segment.0,
        Event::EngineDone { job, .. } => *job,
        _ => 0,
    }
}

fn event_line(event: &Event) -> String {
    match event {
        Event::Frame { from, frame } => format!("frame of {from:?}, {} bytes", frame.len()),
        Event::Mail { from, mail } => format!("mail of {from:?}, {} bytes", mail.frame.len()),
        Event::Request { ticket, request } => format!("{ticket:?} {:?}", request.action),
        other => format!("{other:?}"),
    }
}
