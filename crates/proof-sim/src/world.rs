//! The world: nodes, network and the one queue of everything that will happen, in virtual time.
//!
//!   queue ──pop──▶ turn of a core ──effects──▶ network, disks, engines, replies ──▶ queue
//!
//! Always: one thread, one queue ordered by (time, number), every choice from a seeded stream: the
//! same plan gives the same trace.
//! Held by: `goes_by_time_and_then_by_who_came_first`.
//! Not here: turns, disks, links, clients and lives (the modules below), load (`load`), faults
//! (`faults`), phases (`run`).

pub mod access;
mod clients;
mod describe;
mod disks;
mod diverged;
mod holds;
mod lease_end;
pub mod levels;
mod links;
mod lives;
mod lost_logs;
pub mod lost_majority;
mod queue;
mod see_saw;
mod shards;
mod sizes;
mod stalls;
mod tails;
mod turns;
mod watch;

use crate::excuses::Excuses;
use crate::faults::Wish;
use crate::host::Node;
use crate::machine::Opener;
use crate::marks::{Marks, Walked};
use crate::network::Network;
use crate::plan::{FaultKind, Plan};
use crate::random::Random;
use crate::trace::recorder::{Judged, SharedRecorder};
use crate::trace::Trace;
use base_types::action::{Request, Response};
use base_types::{LaneId, NodeId, Ticket};
use bytes::Bytes;
use core_cluster::api::ReplicaView;
use core_node::api::{Effect, Event, Mail};
use links::KEEPER_US;
use lives::new_node;
use proof_check::invariants::{LeaderBook, OwnerBook, StateBook, TimeBook};
use proof_check::shards::ShardBook;
use proof_check::Violation;
use queue::Queue;
use see_saw::SeeSaw;
use std::collections::{BTreeMap, VecDeque};

/// How many violations are kept; a run stops at the first turn after that many.
const VIOLATIONS_MAX: usize = 20;

/// How long it is taken to be until a world is set up.
const SET_UP_US: u64 = 4_000_000;

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
    StallJudged {
        node: usize,
        lane: usize,
        life: u64,
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
    /// Who is in touch with the directory of users (worlds that have one).
    Look,
    /// A client's request arrives.
    Asked {
        node: usize,
        life: u64,
        ticket: Ticket,
        request: Box<Request>,
    },
    /// An answer arrives at its client.
    Told {
        ticket: Ticket,
        response: Box<Response>,
    },
    /// For the driver above: a client's turn, a hazard's beginning or end.
    Client(usize),
    /// A client has waited for so long that it asks another node, too.
    Hurry {
        client: usize,
        ticket: Ticket,
    },
    Timeout {
        client: usize,
        ticket: Ticket,
    },
    Hazard(usize),
    HazardEnd(usize),
    /// For the driver: who gives and takes back roles and tokens.
    Administrator,
    /// For the driver: a client of a cluster that keeps versions.
    History(usize),
    /// For the driver: a client of Redis databases.
    Database(usize),
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
    pub excuses: Excuses,
    pub leaders: LeaderBook,
    pub states: StateBook,
    pub owners: OwnerBook,
    pub shards: ShardBook,
    /// How long queues became, and which paths were walked.
    pub marks: Marks,
    pub walked: Walked,
    turns: u64,
    pub times: TimeBook,
    /// What was ever in the buckets of durable tails.
    kept: tails::Kept,
    /// What operators wish of members, until they are answered.
    pub wishes: BTreeMap<Ticket, Wish>,
    /// A cluster whose majority is gone for good.
    lost_majority: lost_majority::LostMajority,
    /// Who leads is cut off, in turns, while there is one.
    see_saw: Option<SeeSaw>,
    /// A cut that waits for a lease, or has been made.
    lease_end: Option<lease_end::LeaseEnd>,
    stalls: stalls::Stalls,
    /// What operators have asked of the world's format level.
    pub levels: levels::Levels,
    /// Who is in touch with the directory of users.
    pub touch: access::Touch,
    /// Replicas whose engine holds other values than they wrote.
    diverged: diverged::Diverged,
    /// When the load ends; before it has begun, a guess.
    pub load_ends_at: u64,
    /// Turns in a thousand behind which somebody looks inside.
    sample_per_mille: u64,
    /// Answers not yet taken by the driver.
    pub answers: VecDeque<(Ticket, Answered)>,
    queue: Queue,
    /// The list of effects of one turn, kept for the next.
    effects: Vec<Effect>,
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

/// Who leads is looked for oftener where leaders die of being elected.
fn sample_per_mille(plan: &Plan) -> u64 {
    let deadly =
        |kind| matches!(kind, FaultKind::CrashAtVote | FaultKind::CrashAll | FaultKind::Deaf | FaultKind::SeeSaw);
    match plan.shape.clusters <= 2 && plan.hazards.iter().any(|hazard| deadly(hazard.kind)) {
        true => 400,
        false => 60,
    }
}

impl World {
    /// A world of stopped nodes that start within the first 200 ms.
    pub fn new(plan: Plan, opener: Box<dyn Opener>) -> World {
        World::recorded(plan, opener, None)
    }

    /// The same; a recorder keeps what happens for a reader.
    pub fn recorded(plan: Plan, opener: Box<dyn Opener>, recorder: Option<SharedRecorder>) -> World {
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
            trace: Trace::new(recorder),
            probes: BTreeMap::new(),
            violations: Vec::new(),
            excuses: Excuses::default(),
            leaders: LeaderBook::default(),
            states: StateBook::default(),
            owners: OwnerBook::default(),
            shards: ShardBook::default(),
            marks: Marks::default(),
            walked: Walked::default(),
            turns: 0,
            times: TimeBook::default(),
            kept: tails::Kept::default(),
            wishes: BTreeMap::new(),
            lost_majority: lost_majority::LostMajority::default(),
            see_saw: None,
            lease_end: None,
            stalls: stalls::Stalls::default(),
            levels: levels::Levels::new(&plan),
            touch: access::Touch::default(),
            diverged: diverged::Diverged::default(),
            load_ends_at: SET_UP_US + plan.load.run_ms * 1_000,
            sample_per_mille: sample_per_mille(&plan),
            answers: VecDeque::new(),
            queue: Queue::default(),
            effects: Vec::new(),
            next_ticket: 1,
            waiting: BTreeMap::new(),
            opener,
            random,
            plan,
        };
        for number in 0..world.plan.shape.nodes {
            let region = number % world.plan.shape.regions;
            world.network.regions.push(region);
            let chassis = number.min(world.plan.shape.nodes - world.plan.shape.shared_chassis.max(1));
            world.nodes.push(new_node((number, chassis), region, &world.plan, &mut world.random.host));
            let at = world.random.host.below(200_000);
            world.schedule(at, Due::Start { node: number as usize, life: 0 });
        }
        world.schedule(KEEPER_US, Due::Keeper);
        access::begin(&mut world);
        world
    }

    pub fn schedule(&mut self, at: u64, due: Due) {
        self.queue.push(at.max(self.now), due);
    }

    pub fn probe(&mut self, name: &'static str) {
        *self.probes.entry(name).or_default() += 1;
    }

    pub fn violate(&mut self, violation: Violation) {
        self.trace.with(self.now, |recorder| {
            let Violation { check, message, records } = violation.clone();
            recorder.judge(Judged { check, message, from_us: self.now, to_us: self.now, records, about: None });
        });
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(violation);
        }
    }

    /// Takes the next thing. Those for the driver are handed back; `None` where `until` comes first.
    pub fn advance(&mut self, until: u64) -> Option<Option<Due>> {
        watch::watch_nodes(self);
        let at = self.queue.next_at()?;
        if at > until {
            // A moment that has passed already turns no clock back (seed 836: its audit began late).
            self.now = self.now.max(until);
            return None;
        }
        let due = self.queue.pop()?;
        self.now = at;
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
            Due::StallJudged { node, lane, life } => self.judge_stall(node, lane, life),
            Due::JobDone { node, lane, life } => self.job_done(node, lane, life),
            Due::Die { node, life, down_us } => {
                if self.is_alive(node, life) {
                    self.kill(node, Some(down_us), true);
                }
            }
            Due::Start { node, life } => self.start(node, life),
            Due::Asked { node, life, ticket, request } => self.arrive(node, life, ticket, *request),
            Due::Told { ticket, response } => self.answers.push_back((ticket, Answered::Response(response))),
            Due::Resume { node } => self.resume(node),
            Due::Keeper => self.keep_connections(),
            Due::Look => access::look(self),
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

    pub fn index_of(&self, id: NodeId) -> Option<usize> {
        (id.0 as usize).checked_sub(1).filter(|index| *index < self.nodes.len())
    }

    /// Every replica that is open.
    pub fn views(&self) -> Vec<ReplicaView> {
        let machines = self.nodes.iter().flat_map(|node| &node.lanes).filter_map(|lane| lane.machine.as_ref());
        machines.flat_map(|machine| machine.views()).collect()
    }

    /// A cluster as its latest leader has it.
    pub fn leader_view(&self, cluster: base_types::ClusterId) -> Option<ReplicaView> {
        self.views().into_iter().filter(|view| view.cluster == cluster && view.is_leader).max_by_key(|view| view.term)
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
}
