//! One run of one plan, through its phases:
//!
//!   set-up ──▶ load and hazards ──▶ heal ──▶ all operations end ──▶ formats raised ──▶ replicas equal ──▶ audit ──▶ queues empty ──▶ checkers
//!
//! Always: a phase that does not end in its time is a violation; a panic of the core is one too.
//! Not here: which seeds are run (`main`), what is done about a failure (`shrink`).

mod buckets;
mod histories;
mod outage;
mod redis;
mod upgrade;
mod users;
mod weak;

use crate::excuses::{Excuse, Uses};
use crate::faults;
use crate::histories::Histories;
use crate::load::{observe, Load, Targets};
use crate::machine::Opener;
use crate::marks::{Marks, Walked};
use crate::plan::{FaultKind, Layer, Plan};
use crate::redis::Databases;
use crate::trace::line::{Kind, Line};
use crate::trace::recorder::{Judged, SharedRecorder};
use crate::world::levels;
use crate::world::lost_majority::{forgive_lost, unfenced};
use crate::world::{Answered, Due, World};
use crate::{s3_groups, s3_load, s3_quota};
use base_types::action::{Action, ActionResult, KvTarget, Level, Partitioning, Request, Response};
use base_types::{ClusterId, ErrorCode, NodeId, ReadConsistency, RequestId, Ticket};
use bytes::Bytes;
use core_cluster::api::ReplicaView;
use proof_check::invariants::named_twice;
use proof_check::ledger::Ledger;
use proof_check::{Ending, Observed, Operation, Place, Record, Violation};
use std::collections::BTreeMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::Duration;

/// A healthy world is ready within this time.
const READY_US: u64 = 120_000_000;
/// A cluster or keyspace is made within this time.
const MAKE_US: u64 = 60_000_000;
/// After healing, every operation ends within this time.
const DRAIN_US: u64 = 60_000_000;
/// After healing, a quiet cluster with a member behind has this long to wake.
const QUIET_US: u64 = 20_000_000;
/// After healing, everything serves within this time.
const SERVE_US: u64 = 60_000_000;
/// After healing, replicas are equal within this time.
const EQUAL_US: u64 = 180_000_000;
/// After the audit, every queue of work under way is seen empty within this time.
const EMPTY_US: u64 = 180_000_000;
/// One read of the audit.
const AUDIT_US: u64 = 30_000_000;
/// Steps of the black-box search of one key.
pub const SEARCH_STEPS_MAX: u64 = 50_000;
/// Events of one run. Ordinary ones have some 200,000: who needs so many more goes round and round.
const EVENTS_MAX: u64 = 4_000_000;
/// Damaged replicas of a node that its status must name: it names so many of a lane at least.
const TOLD_MAX: usize = 4;
/// Partitions of a keyspace.
const PARTITIONS: u16 = 8;
/// How often a keyspace is listed until all of them are served where it is counted, too.
const COUNTS_MAX: u32 = 100;
/// Between two looks at something that is waited for.
const LOOK_US: u64 = 100_000;
/// Images of disks are kept this far apart.
const IMAGE_US: u64 = 500_000;
/// The client number of the audit.
const AUDITOR: u32 = u32::MAX;

/// What a run came to.
#[derive(Clone, Default, Debug)]
pub struct Report {
    pub seed: u64,
    pub violations: Vec<Violation>,
    pub trace_hash: u64,
    pub trace_points: Vec<u64>,
    pub events: u64,
    /// Simulated microseconds.
    pub simulated_us: u64,
    pub probes: BTreeMap<&'static str, u64>,
    /// What checks let pass, and how often.
    pub excuses: Uses,
    pub operations: u64,
    pub acknowledged: u64,
    pub unknown: u64,
    pub ledger: Ledger,
    pub gave_up: u64,
    pub keys_searched: u64,
    pub terms: u64,
    pub state_points: u64,
    pub marks: Marks,
    pub walked: Walked,
}

struct Run {
    world: World,
    load: Load,
    histories: Histories,
    databases: Databases,
    control: BTreeMap<Ticket, Option<Answered>>,
    request_ids: u64,
    hazards_from: Option<u64>,
}

/// Runs a plan. A panic of the core ends it as a violation.
pub fn run(plan: &Plan, opener: Box<dyn Opener>) -> Report {
    run_recorded(plan, opener, None)
}

/// The same; a recorder keeps what happens for a reader.
pub fn run_recorded(plan: &Plan, opener: Box<dyn Opener>, recorder: Option<SharedRecorder>) -> Report {
    let seed = plan.seed;
    let shared = recorder.clone();
    let outcome = catch_unwind(AssertUnwindSafe(|| run_inner(plan.clone(), opener, shared)));
    outcome.unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()))
            .unwrap_or_else(|| "a panic without a message".to_string());
        let message = format!("{text} at {}", crate::panics::last_place());
        if let Some(recorder) = recorder {
            recorder.borrow_mut().judge_now("panic", &message);
        }
        Report { seed, violations: vec![Violation::new("panic", message, vec![])], ..Report::default() }
    })
}

fn run_inner(plan: Plan, opener: Box<dyn Opener>, recorder: Option<SharedRecorder>) -> Report {
    let targets = targets(&plan);
    let (histories, databases) = (Histories::new(&plan, &targets), Databases::new(&plan, &targets));
    let load = Load::new(plan.seed, plan.load.clone(), targets, plan.tuning.request_id_window_ms);
    let mut run = Run {
        world: World::recorded(plan, opener, recorder),
        load,
        histories,
        databases,
        control: BTreeMap::new(),
        request_ids: 0,
        hazards_from: None,
    };
    type Phase = (&'static str, fn(&mut Run));
    let phases: [Phase; 13] = [
        ("set-up", Run::set_up),
        ("load", Run::load_phase),
        ("outage", Run::outage),
        ("heal", Run::drain),
        ("users", Run::users_are_known),
        ("quiet", Run::quiet_is_whole),
        ("serve", Run::all_serve),
        ("histories", histories::histories_end),
        ("databases", redis::databases_end),
        ("raise", Run::level_rises),
        ("equal", Run::replicas_equal),
        ("audit", Run::audit),
        ("empty", Run::emptied),
    ];
    for (name, phase) in phases {
        run.world.trace.phase(run.world.now, name);
        phase(&mut run);
        if !run.world.violations.is_empty() {
            break;
        }
    }
    run.report()
}

/// A cluster that was given another engine, and still has replicas of the earlier one.
fn not_moved<'a>(mut views: impl Iterator<Item = &'a ReplicaView>) -> Option<String> {
    let stale = |view: &ReplicaView| view.members.iter().any(|member| member.replica < view.engine_since);
    let view = views.find(|view| view.is_leader && stale(view))?;
    Some(format!("{:?} has members of before {:?}: {:?}", view.name, view.engine_since, view.members))
}

fn targets(plan: &Plan) -> Targets {
    // Numbered one after the other, plain ones first: a lane finds a cluster by its number.
    let versioned = plan.shape.clusters + plan.shape.histories;
    Targets {
        clusters: (0..plan.shape.clusters)
            .filter_map(|number| format!("metadata/redis@t{number}").parse().ok())
            .collect(),
        keyspaces: (0..plan.shape.keyspaces).map(|number| format!("ks{number}")).collect(),
        buckets: (0..plan.shape.buckets).map(|number| format!("bucket{number}")).collect(),
        limited: plan.shape.limited().map(|(bucket, _)| bucket),
        histories: (plan.shape.clusters..versioned)
            .filter_map(|number| crate::histories::name_of(number, plan.shape.both_doors).parse().ok())
            .collect(),
        databases: (versioned..versioned + plan.shape.databases)
            .filter_map(|number| crate::redis::name_of(number, plan.shape.database_keyspaces).parse().ok())
            .collect(),
    }
}

impl Run {
    /// Lets things happen up to a moment, or until something is violated or `done`.
    fn pump(&mut self, until: u64, mut done: impl FnMut(&Run) -> bool) {
        while self.world.violations.is_empty() && !done(self) {
            if self.world.trace.events >= EVENTS_MAX {
                let seconds = self.world.now / 1_000_000;
                let message =
                    format!("{EVENTS_MAX} events in {seconds} simulated seconds: something goes round and round");
                return self.violate("liveness", message);
            }
            match self.world.advance(until) {
                None => return,
                Some(None) => {}
                Some(Some(due)) => self.drive(due),
            }
            while let Some((ticket, answered)) = self.world.answers.pop_front() {
                if let Some(wish) = self.world.wishes.remove(&ticket) {
                    faults::on_wish_answered(&mut self.world, &wish, &answered);
                } else if let Some(level) = self.world.levels.take(&ticket) {
                    levels::on_finalized(&mut self.world, level, &answered);
                } else if self.load.on_administered(&mut self.world, ticket, &answered)
                    || self.histories.on_answer(&mut self.world, ticket, &answered)
                    || self.databases.on_answer(&mut self.world, ticket, &answered)
                {
                } else if let Some(slot) = self.control.get_mut(&ticket) {
                    *slot = Some(answered);
                } else {
                    self.load.on_answer(&mut self.world, ticket, answered);
                }
            }
        }
    }

    fn drive(&mut self, due: Due) {
        match due {
            Due::Client(client) => self.load.on_wake(&mut self.world, client),
            Due::Hurry { client, ticket } => self.load.on_hurry(&mut self.world, client, ticket),
            Due::Timeout { client, ticket } => self.load.on_timeout(&mut self.world, client, ticket),
            Due::Hazard(number) if self.hazards_from.is_some() => {
                faults::begin(&mut self.world, number, &self.load.targets)
            }
            Due::Administrator => self.load.administer(&mut self.world),
            Due::History(client) => self.histories.on_wake(&mut self.world, client),
            Due::Database(client) => self.databases.on_wake(&mut self.world, client),
            Due::HazardEnd(number) if self.hazards_from.is_some() => faults::end(&mut self.world, number),
            _ => {}
        }
    }

    fn violate(&mut self, check: &'static str, message: String) {
        self.world.violate(Violation::new(check, message, vec![]));
    }

    /// Asks one node and waits for its answer. `None`: none came, or the node is down.
    fn call(&mut self, node: usize, action: Action, read: Option<ReadConsistency>, wait_us: u64) -> Option<Response> {
        self.request_ids += 1;
        let request = Request {
            action,
            consistency: None,
            read_consistency: read,
            deadline: Duration::from_micros(wait_us),
            request_id: Some(RequestId(u128::from(self.request_ids) | 1 << 100)),
            after: None,
            expected_bucket_owner: None,
            caller: base_types::access::Caller::Anyone,
        };
        let ticket = self.world.ask(node, request)?;
        self.control.insert(ticket, None);
        let until = self.world.now + wait_us + 1_000_000;
        self.pump(until, |run| run.control.get(&ticket).is_some_and(|slot| slot.is_some()));
        match self.control.remove(&ticket)?? {
            Answered::Response(response) => Some(*response),
            Answered::Lost => None,
        }
    }

    /// Asks node after node until an answer pleases. The last answer comes back where none did.
    fn insist(
        &mut self,
        action: Action,
        read: Option<ReadConsistency>,
        limit_us: u64,
        mut pleases: impl FnMut(&Response) -> bool,
    ) -> Result<Response, String> {
        let until = self.world.now + limit_us;
        let mut last = "no node answered".to_string();
        for attempt in 0.. {
            if self.world.now >= until || !self.world.violations.is_empty() {
                break;
            }
            let node = attempt % self.world.nodes.len();
            if let Some(response) = self.call(node, action.clone(), read, 5_000_000) {
                if pleases(&response) {
                    return Ok(response);
                }
                last = format!("node {} says {response:?}", node + 1);
            }
            let pause = self.world.now + LOOK_US;
            self.pump(pause, |_| false);
        }
        Err(last)
    }

    fn set_up(&mut self) {
        for node in 0..self.world.nodes.len() {
            let until = self.world.now + READY_US;
            let mut last = String::new();
            loop {
                let answer = self.call(node, Action::Status, None, 2_000_000);
                if let Some(Ok(base_types::action::Answer { result: ActionResult::Status(status), .. })) = &answer {
                    if status.ready {
                        break;
                    }
                }
                last = answer.map_or(last, |answer| format!("{answer:?}"));
                if self.world.now >= until {
                    return self.violate("set-up", format!("node {} is not ready in time; it says {last}", node + 1));
                }
                if !self.world.violations.is_empty() {
                    return;
                }
                let pause = self.world.now + LOOK_US;
                self.pump(pause, |_| false);
            }
        }
        self.make_targets();
    }

    fn make_targets(&mut self) {
        let rule = format!("size={} location=world failure_domain=chassis", self.world.plan.shape.cluster_size);
        for name in self.load.targets.clusters.clone() {
            if let Err(last) = self.make_cluster(&name, &rule) {
                return self.violate("set-up", format!("cluster {name:?} is not made in time: {last}"));
            }
        }
        for (number, keyspace) in self.load.targets.keyspaces.clone().into_iter().enumerate() {
            let partitioning = if number % 2 == (self.world.plan.seed % 2) as usize {
                Partitioning::Range
            } else {
                Partitioning::Hash
            };
            let action = Action::CreateKeyspace {
                kind: base_types::action::KeyspaceKind::Plain,
                keyspace: keyspace.clone(),
                partitioning,
                partitions: PARTITIONS,
                clusters: 1 + (self.world.plan.seed / 2 % 2) as u16,
                split_keys: Vec::new(),
                rule: rule.clone(),
                engine: None,
            };
            let made = self.insist(action, None, MAKE_US, |response| match response {
                Ok(_) => true,
                Err(failure) => failure.refusal.code == ErrorCode::KeyspaceExists,
            });
            if let Err(last) = made {
                return self.violate("set-up", format!("keyspace {keyspace} is not made in time: {last}"));
            }
        }
        histories::make_histories(self);
        redis::make_databases(self);
        self.make_buckets();
        if self.world.violations.is_empty() {
            self.make_users();
        }
    }

    /// Makes a cluster and waits until it serves. A flow that was rolled back is begun again.
    fn make_cluster(&mut self, name: &base_types::ClusterName, rule: &str) -> Result<(), String> {
        let until = self.world.now + MAKE_US;
        loop {
            let make = Action::CreateCluster { name: name.clone(), rule: rule.to_string() };
            let made = self.call(0, make, None, 5_000_000);
            let key = Bytes::from_static(b"\xffnobody");
            let read = Action::KvGet { target: KvTarget::Cluster(name.clone()), key };
            let served = match self.insist(read, Some(ReadConsistency::Strong), 2_000_000, |response| response.is_ok())
            {
                Ok(_) => return Ok(()),
                Err(last) => last,
            };
            if self.world.now >= until || !self.world.violations.is_empty() {
                return Err(format!("{made:?}; then {served}"));
            }
        }
    }

    fn load_phase(&mut self) {
        let from = self.world.now;
        self.hazards_from = Some(from);
        for number in 0..self.world.plan.hazards.len() {
            let at = from + self.world.plan.hazards[number].at_ms * 1_000;
            self.world.schedule(at, Due::Hazard(number));
        }
        self.load.begin(&mut self.world);
        self.histories.begin(&mut self.world);
        self.databases.begin(&mut self.world);
        let until = from + self.world.plan.load.run_ms * 1_000;
        self.world.load_ends_at = until;
        let images = self.world.plan.hazards.iter().any(|hazard| hazard.kind == FaultKind::OldImage);
        while images && self.world.now < until && self.world.violations.is_empty() {
            let now = self.world.now;
            self.world.nodes.iter_mut().for_each(|node| node.take_image(now));
            self.pump((now + IMAGE_US).min(until), |_| false);
        }
        self.pump(until, |_| false);
    }

    fn drain(&mut self) {
        self.load.drain();
        self.histories.drain();
        self.databases.drain();
        self.hazards_from = None;
        faults::heal(&mut self.world);
        let until = self.world.now + DRAIN_US;
        let idle = |run: &Run| run.load.idle() && run.histories.is_idle() && run.databases.is_idle();
        self.pump(until, idle);
        if self.world.violations.is_empty() && !idle(self) {
            self.violate("liveness", format!("operations are still open {} s after healing", DRAIN_US / 1_000_000));
        }
    }

    /// A cluster that has fallen quiet has left nobody behind: nothing would wake it to send the rest.
    fn quiet_is_whole(&mut self) {
        let until = self.world.now + QUIET_US;
        while let Some(message) = self.left_behind() {
            if self.world.now >= until {
                return self.violate("quiet", message);
            }
            if !self.world.violations.is_empty() {
                return;
            }
            let pause = self.world.now + LOOK_US;
            self.pump(pause, |_| false);
        }
    }

    /// A member behind its quiet leader.
    fn left_behind(&self) -> Option<String> {
        let hosts = self.world.nodes.iter().flat_map(|node| node.lanes.iter().map(move |lane| (node.id, lane)));
        let machines = hosts.filter_map(|(node, lane)| Some((node, lane.machine.as_ref()?)));
        let views: Vec<_> =
            machines.flat_map(|(node, machine)| machine.views().into_iter().map(move |view| (node, view))).collect();
        for (_, leader) in views.iter().filter(|(_, view)| view.is_leader && view.quiesced) {
            let behind = views.iter().find(|(node, view)| {
                view.cluster == leader.cluster
                    && leader.members.iter().any(|member| member.node == *node && member.replica == view.replica)
                    && !(view.blank || view.damaged)
                    && view.applied < leader.applied
            });
            if let Some((node, view)) = behind {
                let (name, applied) = (&leader.name, leader.applied);
                return Some(format!(
                    "{name:?} is quiet at {applied:?}, although {node:?} is only at {:?}",
                    view.applied
                ));
            }
        }
        None
    }

    /// Every place answers a strong read through every node.
    fn all_serve(&mut self) {
        let places = self.load.targets.clusters.len() + self.load.targets.keyspaces.len();
        let until = self.world.now + SERVE_US;
        for place in 0..places as u32 {
            let Some(target) = self.load.address(Place(place)) else { continue };
            if self.world.plan.layer == Layer::Lane {
                // Nobody routes: some node serves.
                let action = Action::KvGet { target, key: Bytes::from_static(b"\xffnobody") };
                if let Err(last) =
                    self.insist(action, Some(ReadConsistency::Strong), SERVE_US, |response| response.is_ok())
                {
                    return self.violate("liveness", format!("{place} does not serve after healing: {last}"));
                }
                continue;
            }
            for node in 0..self.world.nodes.len() {
                let mut last = "nothing".to_string();
                loop {
                    let action = Action::KvGet { target: target.clone(), key: Bytes::from_static(b"\xffnobody") };
                    match self.call(node, action, Some(ReadConsistency::Strong), 5_000_000) {
                        Some(Ok(_)) => break,
                        other => last = other.map_or(last, |answer| format!("{answer:?}")),
                    }
                    if !self.world.violations.is_empty() {
                        return;
                    }
                    if self.has_rotted(&target) {
                        break;
                    }
                    if self.world.now >= until {
                        let name = match &target {
                            KvTarget::Cluster(name) => name.as_str().to_string(),
                            KvTarget::Keyspace(name) => name.clone(),
                        };
                        let held: Vec<_> = self
                            .world
                            .nodes
                            .iter()
                            .flat_map(|node| node.lanes.iter().filter_map(|lane| lane.machine.as_ref()))
                            .flat_map(|machine| machine.views())
                            .filter(|view| view.name.as_str().contains(&name))
                            .collect();
                        let node = node + 1;
                        return self.violate(
                            "liveness",
                            format!("{target:?} does not serve through node {node} after healing: {last}; replicas {held:?}"),
                        );
                    }
                    let pause = self.world.now + LOOK_US;
                    self.pump(pause, |_| false);
                }
            }
        }
    }

    fn replicas_equal(&mut self) {
        self.world.note_all_owners();
        self.damage_is_told();
        let until = self.world.now + EQUAL_US;
        loop {
            let unequal = self.unequal();
            let Some(message) = unequal else { return };
            if self.world.now >= until {
                return self.violate(
                    "liveness",
                    format!("replicas are not equal {} s after healing: {message}", EQUAL_US / 1_000_000),
                );
            }
            if !self.world.violations.is_empty() {
                return;
            }
            let pause = self.world.now + LOOK_US * 5;
            self.pump(pause, |_| false);
        }
    }

    /// What keeps the replicas of some cluster from being equal; states are compared on the way.
    fn unequal(&mut self) -> Option<String> {
        type Held = (base_types::NodeId, ReplicaView, Option<(base_types::LogIndex, u64)>);
        let mut clusters: BTreeMap<ClusterId, Vec<Held>> = BTreeMap::new();
        let mut not_mended = BTreeMap::new();
        for node in &self.world.nodes {
            for (lane, machine) in node.lanes.iter().filter_map(|lane| Some((lane, lane.machine.as_ref()?))) {
                let damaged = lane.engine.damaged();
                for view in machine.views() {
                    // Damage that nothing has read is damage all the same: the scrub must have come by.
                    if let Some((_, key)) = damaged.iter().find(|(space, _)| *space == view.space) {
                        let of = (node.id, &view.name, key);
                        let members: Vec<u64> = view.members.iter().map(|member| member.node.0).collect();
                        let state = (members, view.leader, view.term, view.applied, view.mending, view.quiesced);
                        not_mended.entry(view.cluster).or_insert_with(|| {
                            format!("a pair is still damaged: {of:?}; members, leader, term, applied, mends, quiet: {state:?}")
                        });
                    }
                    let index = self.world.index_of(node.id).unwrap_or_default();
                    let diverged = self.world.has_diverged(index, &view);
                    if diverged && !view.damaged {
                        let of = (node.id, &view.name, view.replica);
                        let what = || format!("a replica still holds what it never wrote: {of:?}");
                        not_mended.entry(view.cluster).or_insert_with(what);
                    }
                    let hash = machine.state_hash(view.cluster).filter(|_| !diverged);
                    clusters.entry(view.cluster).or_default().push((node.id, view, hash));
                }
            }
        }
        let led = clusters.values().flatten().filter(|(_, view, _)| view.is_leader);
        let twice = named_twice(led.map(|(_, view, _)| (view.name.as_str(), view.cluster)));
        let moved = not_moved(clusters.values().flatten().map(|(_, view, _)| view));
        let mut unequal = twice.or(moved).or(unfenced(&self.world));
        for (cluster, mut held) in clusters {
            let damaged = not_mended.remove(&cluster);
            // Data of a life that ended is kept, and is no member's.
            held.retain(|(_, view, _)| view.ended == base_types::Generation(0));
            if held.is_empty() {
                continue;
            }
            // A configuration cluster need not survive its majority (it is recreated): what is left of it is not compared.
            let config = held.iter().any(|(_, view, _)| view.name.as_str().starts_with("metadata@config-"));
            let members = held.iter().map(|(_, view, _)| view.members.len()).max().unwrap_or(0);
            let whole = held.iter().filter(|(_, view, _)| !view.damaged && !view.blank).count();
            // Nor does any of a single node survive rot of its only copy: it halts and says so.
            let promised = !config && members > 1;
            if !promised && whole <= members / 2 {
                self.world.excuses.used(Excuse::MajorityGone, (cluster.0, 0));
                unequal = unequal.or(damaged);
                continue;
            }
            if self.rots_on_several() && whole <= members / 2 {
                self.world.excuses.used(Excuse::MajorityRotted, (cluster.0, 0));
                continue;
            }
            unequal = unequal.or(damaged);
            for (node, view, hash) in &held {
                if let Some((applied, hash)) = hash {
                    let found = self.world.states.note(cluster, view.generation, *applied, *node, *hash);
                    found.into_iter().for_each(|violation| self.world.violate(violation));
                }
            }
            let Some((_, leader, _)) =
                held.iter().filter(|(_, view, _)| view.is_leader).max_by_key(|(_, view, _)| view.term)
            else {
                unequal.get_or_insert(format!(
                    "{cluster:?} has no leader; replicas {:?}",
                    held.iter().map(|(node, view, _)| (node, view.term, view.damaged, view.blank)).collect::<Vec<_>>()
                ));
                continue;
            };
            for member in leader.members.iter() {
                let state = held
                    .iter()
                    .find(|(node, _, _)| *node == member.node)
                    .map(|(_, view, _)| (view.applied, view.damaged, view.blank));
                if state != Some((leader.applied, false, false)) {
                    let view = held.iter().find(|(node, _, _)| *node == member.node).map(|(_, view, _)| view);
                    unequal.get_or_insert(format!(
                        "{:?} ({:?}): member {member:?} is at {state:?}, the leader at {:?}; it sees {view:?}",
                        leader.name, cluster, leader.applied
                    ));
                }
            }
            let is_member = |node: NodeId, view: &ReplicaView| {
                leader.members.iter().any(|member| (member.node, member.replica) == (node, view.replica))
            };
            if let Some((node, view, _)) = held.iter().find(|(node, view, _)| !is_member(*node, view)) {
                let (name, replica) = (&leader.name, view.replica);
                unequal.get_or_insert(format!(
                    "{node} still has {replica} of {name:?} ({cluster:?}), which is no member of it"
                ));
            }
            unequal = unequal.or_else(|| self.crowded(leader));
        }
        unequal
    }

    /// Logs rot on more than one node: a majority may lose what nobody else has.
    fn rots_on_several(&self) -> bool {
        let rots = self.world.plan.hazards.iter().filter(|one| one.kind == FaultKind::BitRot);
        rots.map(|one| one.node).collect::<std::collections::BTreeSet<_>>().len() > 1
    }

    /// Half or more of the replicas of a cluster are damaged or blank, of these rots; of the world's, and nothing else is promised either.
    fn has_rotted(&self, target: &KvTarget) -> bool {
        let KvTarget::Cluster(name) = target else { return false };
        let lost = |is: &dyn Fn(&ReplicaView) -> bool| {
            let views: Vec<_> = self.world.views().into_iter().filter(|view| is(view)).collect();
            let members = views.iter().map(|view| view.members.len()).max().unwrap_or(0);
            views.iter().filter(|view| !view.damaged && !view.blank).count() <= members / 2
        };
        self.rots_on_several()
            && (lost(&|view| view.name == *name) || lost(&|view| view.cluster == faults::WORLD_CLUSTER))
    }

    /// A node with a damaged replica says so where an operator looks: nothing is lost in silence.
    fn damage_is_told(&mut self) {
        if self.world.plan.layer == Layer::Lane {
            return;
        }
        for node in 0..self.world.nodes.len() {
            let of_node = |run: &Run| -> Vec<base_types::ClusterName> {
                let machines = run.world.nodes[node].lanes.iter().filter_map(|lane| lane.machine.as_ref());
                let damaged = machines.flat_map(|machine| machine.views()).filter(|view| view.damaged);
                damaged.map(|view| view.name).take(TOLD_MAX).collect()
            };
            let damaged = of_node(self);
            if damaged.is_empty() {
                continue;
            }
            let Some(Ok(answer)) = self.call(node, Action::Status, None, 5_000_000) else { continue };
            let ActionResult::Status(status) = answer.result else { continue };
            let told = |name: &base_types::ClusterName| status.warnings.iter().any(|line| line.contains(name.as_str()));
            let still = of_node(self);
            if let Some(name) = damaged.iter().find(|name| still.contains(name) && !told(name)) {
                let message = format!(
                    "node {} has a damaged replica of {name} and does not say so: {:?}",
                    node + 1,
                    status.warnings
                );
                return self.violate("silent", message);
            }
        }
    }

    /// Two members of a cluster in one chassis, where no operator put them there: rules want each in its own.
    fn crowded(&self, leader: &ReplicaView) -> Option<String> {
        let by_hand = [FaultKind::AddMember, FaultKind::MoveMember, FaultKind::WorldMember];
        if !leader.name.tail().starts_with('t') || self.world.plan.hazards.iter().any(|one| by_hand.contains(&one.kind))
        {
            return None;
        }
        let mut seen = BTreeMap::new();
        leader.members.iter().find_map(|member| {
            let chassis = &self.world.nodes[self.world.index_of(member.node)?].labels.chassis;
            let other = seen.insert(chassis, member.node)?;
            Some(format!("{:?} has members on {other} and {} in chassis {chassis}", leader.name, member.node))
        })
    }

    /// Reads every key once more, strongly, into the history.
    fn audit(&mut self) {
        if self.rots_on_several()
            && self.load.targets.clusters.iter().any(|name| self.has_rotted(&KvTarget::Cluster(name.clone())))
        {
            return;
        }
        let committed = self.world.now + weak::COMMIT_US;
        self.pump(committed, weak::are_applied);
        self.audit_buckets();
        self.audit_uploads_and_versions();
        self.audit_places();
        self.audit_names();
        for (place, key, counter) in self.load.keys() {
            let Some(target) = self.load.address(place) else { continue };
            let (operation, action) = match (&target, counter) {
                (KvTarget::Cluster(cluster), true) => {
                    let command = vec![Bytes::from_static(b"GET"), key.clone()];
                    (
                        Operation::ReadCounter { key },
                        Action::Redis { target: KvTarget::Cluster(cluster.clone()), command },
                    )
                }
                _ => (Operation::Get { key: key.clone() }, Action::KvGet { target, key }),
            };
            self.audit_one(place, operation, action);
        }
        for place in 0..(self.load.targets.clusters.len() + self.load.targets.keyspaces.len()) as u32 {
            let Some(target) = self.load.address(Place(place)) else { continue };
            let operation = Operation::Scan {
                prefix: Bytes::new(),
                start_after: None,
                end: None,
                limit: 10_000,
                reverse: false,
                keys_only: false,
            };
            let action = Action::KvScan {
                target,
                prefix: Bytes::new(),
                start_after: None,
                end: None,
                limit: 10_000,
                reverse: false,
                keys_only: false,
            };
            // A partition that is handed over in this moment is served, and counted, by nobody.
            for _ in 0..COUNTS_MAX {
                self.audit_one(Place(place), operation.clone(), action.clone());
                if self.audit_count_of_keys(Place(place)) {
                    break;
                }
                let pause = self.world.now + LOOK_US;
                self.pump(pause, |_| false);
            }
        }
    }

    /// What a keyspace's partitions count is what was just listed: counters that nothing else looks at.
    /// False: not all are served right now.
    fn audit_count_of_keys(&mut self, place: Place) -> bool {
        let (Some(KvTarget::Keyspace(name)), true) = (self.load.address(place), self.world.violations.is_empty())
        else {
            return true;
        };
        let last = self.load.history.records.last().filter(|record| record.place == place);
        let Some(Observed::Page { entries, next: None }) = last.and_then(|record| record.observed.as_ref()) else {
            return true;
        };
        let Some(counted) = self.world.counted_keys(&name, PARTITIONS) else { return false };
        let listed = entries.len() as u64;
        if listed != counted {
            self.violate("count", format!("keyspace {name} lists {listed} keys, and its partitions count {counted}"));
        }
        true
    }

    fn audit_one(&mut self, place: Place, operation: Operation, action: Action) {
        if !self.world.violations.is_empty() {
            return;
        }
        let invoked = self.world.now;
        let absent = |response: &Response| matches!(response, Err(failure) if s3_load::observe_refusal(&operation, failure.refusal.code).is_some());
        let pleases = |response: &Response| response.is_ok() || absent(response);
        match self.insist(action, Some(ReadConsistency::Strong), AUDIT_US, pleases) {
            Ok(Err(failure)) if s3_load::observe_refusal(&operation, failure.refusal.code).is_some() => {
                let observed = s3_load::observe_refusal(&operation, failure.refusal.code);
                self.audited(place, operation, invoked, observed, failure.at);
            }
            Ok(Ok(answer)) => {
                let level = Level::Read(ReadConsistency::Strong);
                let observed: Option<Observed> = observe(&answer.result, level);
                self.audited(place, operation, invoked, observed, answer.at);
            }
            Ok(Err(_)) | Err(_) if !self.world.violations.is_empty() => {}
            other => self.violate("liveness", format!("the audit cannot read {operation:?}: {other:?}")),
        }
    }

    fn audited(
        &mut self,
        place: Place,
        operation: Operation,
        invoked: u64,
        observed: Option<Observed>,
        at: Option<base_types::OrderedAt>,
    ) {
        let level = Level::Read(ReadConsistency::Strong);
        self.recorded((place, operation, level), invoked, observed, at);
    }

    fn recorded(
        &mut self,
        (place, operation, level): (Place, Operation, Level),
        invoked: u64,
        observed: Option<Observed>,
        at: Option<base_types::OrderedAt>,
    ) {
        let id = self.load.history.records.len() as u64;
        self.world.trace.say(self.world.now, || {
            let text = format!("audit: {operation:?} {observed:?} at {at:?}");
            let line = Line::new(Kind::Client, text).about(self.load.about(place)).record(id);
            line.lasted(self.world.now - invoked)
        });
        self.load.history.records.push(Record {
            id,
            client: AUDITOR,
            place,
            operation,
            request_id: RequestId(0),
            level,
            invoked,
            returned: Some(self.world.now),
            ending: Ending::Ok,
            observed,
            at,
        });
    }

    /// Everything that is work under way is seen to be empty at least once.
    fn emptied(&mut self) {
        let until = self.world.now + EMPTY_US;
        let mut full = self.world.under_way();
        while !full.is_empty() && self.world.violations.is_empty() {
            if self.world.now >= until {
                let seconds = EMPTY_US / 1_000_000;
                return self.violate("bounds", format!("never empty in {seconds} s without load: {full:?}"));
            }
            let pause = self.world.now + LOOK_US;
            self.pump(pause, |_| false);
            let now = self.world.under_way();
            let still = |node, lane, name| now.iter().any(|(n, l, other, _)| (*n, *l, *other) == (node, lane, name));
            full.retain(|(node, lane, name, _)| still(*node, *lane, *name));
        }
    }

    /// Who wrote to a bucket was seen to: otherwise the check of its shards is dead.
    fn shards_unseen(&self) -> Option<Violation> {
        let first = s3_load::place_of(0);
        let wrote = |record: &Record| record.place >= first && record.is_settled_write();
        let unseen = self.world.shards.taken() == 0 && self.load.history.records.iter().any(wrote);
        unseen.then(|| {
            Violation::new("epochs", "clients wrote to buckets, and no shard was seen to take a write", vec![])
        })
    }

    /// Shows a recorder when what was found happened: the span of the operations that show it.
    fn judge(&self, violations: &[Violation]) {
        for Violation { check, message, records } in violations {
            let shown = records.iter().filter_map(|id| self.load.history.records.get(*id as usize));
            let spans = shown.map(|record| (record.invoked, record.returned.unwrap_or(self.world.now)));
            let span = spans.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
            let (from_us, to_us) = span.unwrap_or((self.world.now, self.world.now));
            let first = records.iter().find_map(|id| self.load.history.records.get(*id as usize));
            let about = first.and_then(|record| self.load.about(record.place));
            let (message, records) = (message.clone(), records.clone());
            self.world.trace.with(self.world.now, |recorder| {
                recorder.judge(Judged { check, message, from_us, to_us, records, about });
            });
        }
    }

    fn report(mut self) -> Report {
        self.world.count_lives();
        let late = forgive_lost(&mut self.world, &mut self.load.history);
        let verdict = proof_check::check_all(&self.load.history, SEARCH_STEPS_MAX);
        let mut violations = std::mem::take(&mut self.world.violations);
        violations.extend(verdict.violations);
        violations.extend(late);
        violations.extend(self.shards_unseen());
        violations.extend(self.histories.books.iter().flat_map(proof_check::versions::check));
        violations.extend(self.databases.books.iter().flat_map(proof_check::redis::check));
        violations.extend(s3_load::check_instants(&self.load.history, &self.load.instants));
        violations.extend(s3_groups::check_groups(&self.load.history, &self.load.grouped));
        if let Some((bucket, keys_max)) = self.world.plan.shape.limited() {
            let place = s3_load::place_of(bucket);
            violations.extend(s3_quota::check(&self.load.history, place, keys_max, &self.load.quota));
        }
        let (world, history) = (&self.world, &self.load.history);
        let harmed = |node: &NodeId| {
            world.index_of(*node).is_none_or(|node| world.nodes[node].disk_lied || world.nodes[node].wiped)
        };
        let unmoved = |is_harmed: bool| {
            proof_check::ledger::check_unmoved(history, |cluster, generation, from, to| {
                let sole = world.leaders.sole_leader(cluster, generation, from, to);
                sole.filter(|node| harmed(node) == is_harmed)
            })
        };
        violations.extend(unmoved(false));
        let mut excuses = world.excuses.clone();
        for lost in unmoved(true) {
            excuses.used(Excuse::LossByHarmedLeader, (lost.records.first().copied().unwrap_or_default(), 0));
        }
        let records = &self.load.history.records;
        let count = |ending| records.iter().filter(|record| record.ending == ending).count() as u64;
        // Without a router a client may miss the leader until its time is over: only the whole core promises calm.
        let calm = self.world.plan.hazards.is_empty() && self.world.plan.layer == Layer::Core;
        if calm && violations.is_empty() && self.world.plan.load.lifecycle == 0 {
            for record in records.iter().filter(|record| record.ending != Ending::Ok) {
                let id = record.id as usize;
                if self.load.tailless.contains(&id) {
                    excuses.used(Excuse::NoTail, (record.id, 0));
                } else if self.load.expired.contains(&id) {
                    excuses.used(Excuse::IdOfAnotherCluster, (record.id, 0));
                } else if self.load.quota.refused.contains_key(&id) {
                    excuses.used(Excuse::QuotaFull, (record.id, 0));
                } else if self.load.denied.contains(&id) {
                    excuses.used(Excuse::MayNot, (record.id, 0));
                } else {
                    let message = format!("nothing was wrong, and yet {record:?}");
                    violations.push(Violation::new("calm", message, vec![record.id]));
                    break;
                }
            }
        }
        self.judge(&violations);
        Report {
            seed: self.world.plan.seed,
            violations,
            trace_hash: self.world.trace.digest(),
            trace_points: self.world.trace.points.clone(),
            events: self.world.trace.events,
            simulated_us: self.world.now,
            probes: self.world.probes.clone(),
            excuses: excuses.uses().clone(),
            operations: records.len() as u64,
            acknowledged: count(Ending::Ok),
            unknown: count(Ending::Unknown),
            ledger: verdict.ledger,
            gave_up: verdict.gave_up,
            keys_searched: verdict.keys_searched,
            terms: self.world.leaders.terms() as u64,
            state_points: self.world.states.points() as u64,
            marks: std::mem::take(&mut self.world.marks),
            walked: std::mem::take(&mut self.world.walked),
        }
    }
}
