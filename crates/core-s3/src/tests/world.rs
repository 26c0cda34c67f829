//! Clusters in memory, and planners run on them: every call is carried out by the backends themselves, the
//! records of clusters and the node map included; answers are lost, writes arrive late, runners stop for good,
//! several take turns in any order, each on a core with a cache of its own.
//!
//! By design: a request id applies once at a cluster; time passes only by what is done and waited for.

use crate::config::S3Config;
use crate::planner_for;
use crate::request::Terms;
use crate::state::{PlanContext, S3Planner, S3State};
use base_types::action::{ActionResult, Failure, Level, Response};
use base_types::codec::Encode;
use base_types::s3::{S3Action, S3Answer};
use base_types::{
    BackendKind, BootId, ClusterName, DiskId, ErrorCode, LogIndex, NodeId, OrderedAt, ReadConsistency, Refusal,
    ReplicaId, RequestId, Tick, WriteConsistency,
};
use bytes::Bytes;
use core_backends::memory::{About, Carried, MemoryAsked, MemoryPage};
use core_backends::reference::{self, ClusterMember, ClusterRecord, ClusterState};
use core_backends::testing::MapSpace;
use core_backends::{allocator, decode_reply, ApplyContext};
use core_flow::{Call, CallReply, CallResult, Random, Step};
use core_placement::{Labels, NodeRecord};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Cores, each with a cache.
pub(crate) const CORES: usize = 3;
/// The regions of the nodes.
pub(crate) const REGIONS: [&str; 4] = ["fr-par", "fr-par", "fr-par", "nl-ams"];
/// Steps after which a planner that has not ended never will.
const STEPS_MAX: usize = 200_000;
/// Requests after which a page of what a cluster remembers ends.
const MEMORY_PAGE: usize = 3;
/// What the wall clock said at the beginning.
const UNIX_MS: u64 = 1_700_000_000_000;

/// See the file's header.
pub(crate) struct World {
    pub spaces: BTreeMap<(ClusterName, BackendKind), MapSpace>,
    pub now_ms: u64,
    pub random: Random,
    pub states: Vec<S3State>,
    pub config: S3Config,
    pub machine_load: u32,
    /// In a thousand calls, so many are done and their answers lost…
    pub lost: u64,
    /// …and so many are answered `Unknown` and done later.
    pub late: u64,
    /// Clusters that do not answer.
    pub dead: BTreeSet<ClusterName>,
    underway: Vec<(ClusterName, BackendKind, Bytes, Option<RequestId>)>,
    applied: BTreeMap<(ClusterName, RequestId), Applied>,
    pub calls: u64,
    /// How long each takes, one after the other.
    pub call_ms: u64,
    index: u64,
}

/// A request that a cluster remembers.
struct Applied {
    index: u64,
    about: About,
    reply: Bytes,
}

/// A planner under way.
pub(crate) struct Running {
    planner: Box<S3Planner>,
    core: usize,
    pub queue: VecDeque<(usize, Call)>,
    asked: usize,
    pub wake_ms: Option<u64>,
    started: bool,
    pub response: Option<Response>,
}

pub(crate) fn failure(code: ErrorCode) -> Failure {
    Failure::from(Refusal::new(code, "in the test"))
}

fn unknown_cluster() -> Failure {
    failure(ErrorCode::UnknownCluster)
}

impl World {
    pub fn new(seed: u64) -> World {
        let mut world = World {
            spaces: BTreeMap::new(),
            now_ms: 1_000,
            random: Random::new(seed),
            states: (0..CORES).map(|_| S3State::new(S3Config::for_world(3))).collect(),
            config: S3Config::for_world(3),
            machine_load: 0,
            lost: 0,
            late: 0,
            dead: BTreeSet::new(),
            underway: Vec::new(),
            applied: BTreeMap::new(),
            calls: 0,
            call_ms: 1,
            index: 0,
        };
        world.make_spaces(&ClusterName::world());
        for (at, region) in REGIONS.iter().enumerate() {
            let record = node(at as u64 + 1, region);
            let command = allocator::Command::Register { record }.to_bytes();
            world.write(&ClusterName::world(), BackendKind::Allocator, &command, None).unwrap();
        }
        world
    }

    /// Runs a call to its end on a core.
    pub fn call_on(&mut self, core: usize, call: impl Into<S3Action>) -> Result<S3Answer, Refusal> {
        let mut running = self.begin(core, call)?;
        self.finish(&mut running)
    }

    /// Runs a call to its end on the first core.
    pub fn call(&mut self, call: impl Into<S3Action>) -> Result<S3Answer, Refusal> {
        self.call_on(0, call)
    }

    /// As `call`, where only one kind of answer will do.
    pub fn ask<T: TryFrom<S3Answer>>(&mut self, call: impl Into<S3Action>) -> Result<T, Refusal> {
        let answer = self.call(call)?;
        Ok(T::try_from(answer).map_err(|_| "an answer of another kind").unwrap())
    }

    /// A call that has not begun to run.
    pub fn begin(&mut self, core: usize, call: impl Into<S3Action>) -> Result<Running, Refusal> {
        let terms = Terms { request_id: Some(self.random.request_id()), ..Terms::default() };
        Ok(Running::new(core, planner_for(call.into(), &terms)?))
    }

    /// Runs until the end.
    pub fn finish(&mut self, running: &mut Running) -> Result<S3Answer, Refusal> {
        self.run(running);
        match running.response.clone().expect("it ended").map_err(|failure| failure.refusal)?.result {
            ActionResult::S3(answer) => Ok(answer),
            other => panic!("{other:?}"),
        }
    }

    /// Runs until the end, whatever it answers.
    pub fn run(&mut self, running: &mut Running) {
        for _ in 0..STEPS_MAX {
            if running.response.is_some() {
                return;
            }
            if running.queue.is_empty() {
                if let Some(wake) = running.wake_ms {
                    self.now_ms = self.now_ms.max(wake);
                }
            }
            self.step(running);
        }
        panic!("{} does not end", running.planner.name());
    }

    /// Runs work that nobody waits for to its end.
    pub fn finish_background(&mut self, running: &mut Running) -> Response {
        for _ in 0..STEPS_MAX {
            if let Some(response) = running.response.clone() {
                return response;
            }
            if running.queue.is_empty() {
                self.now_ms = self.now_ms.max(running.wake_ms.unwrap_or(self.now_ms));
            }
            self.step(running);
        }
        panic!("{} does not end", running.planner.name());
    }

    /// Lets planners take turns in any order until all have ended, or none makes progress.
    pub fn race(&mut self, all: &mut [Running]) {
        for _ in 0..STEPS_MAX {
            let ready: Vec<usize> = (0..all.len()).filter(|at| all[*at].is_ready(self.now_ms)).collect();
            if ready.is_empty() {
                let wakes = all.iter().filter(|one| one.response.is_none()).filter_map(|one| one.wake_ms);
                let Some(next) = wakes.min() else { return };
                self.now_ms = self.now_ms.max(next);
                continue;
            }
            let at = ready[self.random.below(ready.len() as u64) as usize];
            self.step(&mut all[at]);
        }
        panic!("a race does not end");
    }

    /// One call or wake of a planner; nothing where it waits.
    pub fn step(&mut self, running: &mut Running) {
        let step = if !running.started {
            running.started = true;
            self.enter(running, |planner, context| planner.start(context))
        } else if !running.queue.is_empty() {
            let at = self.random.below(running.queue.len() as u64) as usize;
            let Some((index, call)) = running.queue.remove(at) else { return };
            let result = self.carry_out(call);
            self.enter(running, |planner, context| planner.on_result(context, index, result))
        } else if running.wake_ms.is_some_and(|wake| wake <= self.now_ms) {
            running.wake_ms = None;
            self.enter(running, |planner, context| planner.on_wake(context))
        } else {
            return;
        };
        match step {
            Step::Calls(calls) => {
                for call in calls {
                    running.queue.push_back((running.asked, call));
                    running.asked += 1;
                }
            }
            Step::Wait(pause) => running.wake_ms = Some(self.now_ms + (pause.as_millis() as u64).max(1)),
            Step::Done(response) => running.response = Some(response),
        }
    }

    fn enter(
        &mut self,
        running: &mut Running,
        enter: impl FnOnce(&mut S3Planner, &mut PlanContext<'_>) -> Step,
    ) -> Step {
        let mut context = self.context(running.core);
        enter(running.planner.as_mut(), &mut context)
    }

    /// What a planner on a core may know and use.
    pub fn context(&mut self, core: usize) -> PlanContext<'_> {
        self.states[core].config = self.config.clone();
        PlanContext {
            now: Tick::from_millis(self.now_ms),
            deadline: Tick::NEVER,
            node: NodeId(core as u64 + 1),
            region: REGIONS[core],
            random: &mut self.random,
            unix_ms: UNIX_MS + self.now_ms,
            machine_load: self.machine_load,
            state: &mut self.states[core],
        }
    }

    fn chance(&mut self, per_mille: u64) -> bool {
        self.random.below(1000) < per_mille
    }

    /// What a call comes to.
    pub fn carry_out(&mut self, call: Call) -> CallResult {
        self.calls += 1;
        self.now_ms += self.call_ms;
        if !self.underway.is_empty() && self.chance(300) {
            self.arrive();
        }
        let (is_late, is_lost) = (self.chance(self.late), self.chance(self.lost));
        let result = match call {
            Call::Write { cluster, .. } | Call::Read { cluster, .. } if self.dead.contains(&cluster) => {
                Err(failure(ErrorCode::DeadlineExceeded))
            }
            Call::Write { cluster, backend, command, request_id, .. } => {
                if is_late {
                    self.underway.push((cluster, backend, command, request_id));
                    return Err(failure(ErrorCode::OutcomeUnknown));
                }
                self.write(&cluster, backend, &command, request_id)
            }
            Call::Read { cluster, backend, query, .. } => return self.read(&cluster, backend, &query),
            Call::CreateCluster { cluster, rule } => self.create_cluster(&cluster, &rule),
            Call::DeleteCluster { cluster, life } => match self.record(&cluster) {
                Some(record) if life.is_none_or(|life| life == record.generation) => self.delete_cluster(record),
                _ => Err(unknown_cluster()),
            },
            other => panic!("unexpected {other:?}"),
        };
        if is_lost {
            return Err(failure(ErrorCode::OutcomeUnknown));
        }
        result
    }

    /// One of the writes that are late arrives.
    fn arrive(&mut self) {
        let at = self.random.below(self.underway.len() as u64) as usize;
        let (cluster, backend, command, request_id) = self.underway.swap_remove(at);
        let _ = self.write(&cluster, backend, &command, request_id);
    }

    /// How many writes are late.
    pub fn late_writes(&self) -> usize {
        self.underway.len()
    }

    /// All writes that are late arrive.
    pub fn settle(&mut self) {
        while !self.underway.is_empty() {
            self.arrive();
        }
    }

    /// A command of a backend.
    pub fn write(
        &mut self,
        cluster: &ClusterName,
        backend: BackendKind,
        command: &Bytes,
        request_id: Option<RequestId>,
    ) -> CallResult {
        core_backends::validate(backend, command)?;
        self.index += 1;
        let at = ApplyContext {
            life: base_types::Generation(1),
            index: LogIndex(self.index),
            position: 0,
            cluster_time_ms: self.now_ms,
        };
        let space = self.spaces.get_mut(&(cluster.clone(), backend)).ok_or_else(unknown_cluster)?;
        let before =
            request_id.and_then(|id| self.applied.get(&(cluster.clone(), id)).map(|applied| applied.reply.clone()));
        let reply = match before {
            Some(reply) => reply,
            None => {
                let applied = &self.applied;
                let known = |id| applied.get(&(cluster.clone(), id)).map(|applied| applied.reply.clone());
                core_backends::apply_once(backend, at, space, command, &known).expect("whole space")
            }
        };
        for brought in core_backends::memory_brought(backend, command, &reply, 0) {
            let applied = Applied { index: self.index, about: brought.about, reply: brought.reply };
            self.applied.entry((cluster.clone(), brought.id)).or_insert(applied);
        }
        // As a cluster does: what is no answer is not remembered.
        if let Some(id) = request_id.filter(|_| !core_backends::is_redirect(&reply)) {
            let applied =
                Applied { index: self.index, about: core_backends::about_of(backend, command), reply: reply.clone() };
            self.applied.entry((cluster.clone(), id)).or_insert(applied);
        }
        let at = OrderedAt { index: LogIndex(self.index), ..OrderedAt::default() };
        Ok(CallReply::Backend { reply, at, level: Level::Write(WriteConsistency::Strong) })
    }

    /// A question to a backend.
    pub fn read(&self, cluster: &ClusterName, backend: BackendKind, query: &Bytes) -> CallResult {
        let space = self.spaces.get(&(cluster.clone(), backend)).ok_or_else(unknown_cluster)?;
        let reply = match core_backends::memory_asked(backend, query) {
            Some(asked) => core_backends::tell_memory(backend, self.remembered(cluster, asked)),
            None => core_backends::query(backend, self.now_ms, space, query).expect("whole space"),
        };
        let at = OrderedAt { index: LogIndex(self.index), ..OrderedAt::default() };
        Ok(CallReply::Backend { reply, at, level: Level::Read(ReadConsistency::Strong) })
    }

    /// Whether a cluster remembers a request.
    pub fn remembers(&self, cluster: &ClusterName, id: RequestId) -> bool {
        self.applied.contains_key(&(cluster.clone(), id))
    }

    /// What a cluster remembers of requests, some of it.
    fn remembered(&self, cluster: &ClusterName, asked: MemoryAsked) -> MemoryPage {
        let of_cluster = self.applied.iter().filter(|((name, _), _)| name == cluster);
        let mut found: Vec<(u64, Carried)> = of_cluster
            .filter(|(_, applied)| applied.index > asked.after && applied.about.part.goes_with(asked.part))
            .map(|((_, id), applied)| {
                let (about, reply) = (applied.about.clone(), applied.reply.clone());
                (applied.index, Carried { id: *id, keep_ms: 60_000, about, reply })
            })
            .collect();
        found.sort_by_key(|(index, _)| *index);
        // Whole entries only: those of a command that brought several share an index.
        let end = found.get(MEMORY_PAGE).map_or(self.index, |(index, _)| *index);
        let more = found.len() > MEMORY_PAGE;
        found.retain(|(index, _)| *index <= end);
        MemoryPage { ids: found.into_iter().map(|(_, carried)| carried).collect(), reached: end, more }
    }

    /// What a backend answers, decoded.
    pub fn look<T: Encode>(
        &self,
        cluster: &ClusterName,
        backend: BackendKind,
        query: &impl Encode,
    ) -> Result<T, Refusal> {
        let (reply, _) = self.read(cluster, backend, &query.to_bytes()).map_err(|failure| failure.refusal)?.backend();
        decode_reply(reply)
    }

    /// The record of a cluster.
    pub fn record(&self, cluster: &ClusterName) -> Option<ClusterRecord> {
        let query = reference::Query::Resolve { name: cluster.clone() };
        match self.look(&ClusterName::world(), BackendKind::Reference, &query).unwrap() {
            reference::Reply::Resolved { record, .. } => record,
            other => panic!("{other:?}"),
        }
    }

    /// The clusters there are, the world's own left out.
    pub fn clusters(&self) -> Vec<String> {
        let query = reference::Query::List { prefix: String::new(), start_after: None, limit: 1_000 };
        match self.look(&ClusterName::world(), BackendKind::Reference, &query).unwrap() {
            reference::Reply::Records { records, .. } => {
                records.into_iter().map(|record| record.name.as_str().to_string()).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    fn refer(&mut self, command: &reference::Command) -> Result<reference::Reply, Failure> {
        let result = self.write(&ClusterName::world(), BackendKind::Reference, &command.to_bytes(), None)?;
        Ok(decode_reply(result.backend().0)?)
    }

    fn make_spaces(&mut self, cluster: &ClusterName) {
        for backend in cluster.backends() {
            self.spaces.insert((cluster.clone(), *backend), MapSpace::default());
        }
    }

    fn create_cluster(&mut self, cluster: &ClusterName, rule: &str) -> CallResult {
        let query = allocator::Query::Elect { rule: rule.to_string(), exclude: Vec::new(), spread: 0 };
        let _: allocator::Reply = self.look(&ClusterName::world(), BackendKind::Allocator, &query)?;
        let member = ClusterMember { replica: ReplicaId(1), node: NodeId(1), disk: DiskId(1), learner: false };
        let made = self.refer(&reference::Command::Create {
            name: cluster.clone(),
            rule: rule.to_string(),
            engine: "memory".into(),
            consistency: WriteConsistency::Strong,
            read_consistency: ReadConsistency::Strong,
            members: vec![member],
        })?;
        let reference::Reply::Record { record } = made else { panic!("{made:?}") };
        let (name, generation) = (cluster.clone(), record.generation);
        self.refer(&reference::Command::SetState { name, generation, state: ClusterState::Active })?;
        self.make_spaces(cluster);
        Ok(CallReply::Done { at: None })
    }

    fn delete_cluster(&mut self, record: ClusterRecord) -> CallResult {
        let (name, generation) = (record.name.clone(), record.generation);
        self.refer(&reference::Command::Delete { name: name.clone(), generation })?;
        self.refer(&reference::Command::Purge { name: name.clone(), generation })?;
        self.spaces.retain(|(cluster, _), _| *cluster != name);
        self.applied.retain(|(cluster, _), _| *cluster != name);
        Ok(CallReply::Done { at: None })
    }
}

impl Running {
    pub fn new(core: usize, planner: Box<S3Planner>) -> Running {
        Running { planner, core, queue: VecDeque::new(), asked: 0, wake_ms: None, started: false, response: None }
    }

    pub fn is_ready(&self, now_ms: u64) -> bool {
        self.response.is_none()
            && (!self.started || !self.queue.is_empty() || self.wake_ms.is_some_and(|wake| wake <= now_ms))
    }

    /// When it wakes, where it only waits.
    pub fn waits_until(&self) -> Option<u64> {
        self.wake_ms.filter(|_| self.queue.is_empty())
    }

    /// What takes back what it leaves: it ends here, as at its deadline.
    pub fn end(mut self) -> Option<Running> {
        self.planner.cleanup().map(|planner| Running::new(self.core, planner))
    }

    /// The code of the refusal it ended with; empty where it went well.
    pub fn code(&self) -> &'static str {
        match &self.response {
            Some(Ok(_)) => "",
            Some(Err(failure)) => failure.refusal.code.as_str(),
            None => "(not ended)",
        }
    }
}

fn node(id: u64, region: &str) -> NodeRecord {
    let word = |prefix: &str| format!("{prefix}{id}");
    NodeRecord {
        node: NodeId(id),
        disk: DiskId(id),
        boot: BootId(1),
        labels: Labels { region: region.into(), az: word("az"), rack: "r".into(), chassis: word("c") },
        peer_address: format!("10.0.0.{id}:7601"),
        http_address: format!("10.0.0.{id}:7101"),
        lanes: 1,
        version: "0.1.0".into(),
        engines: vec!["memory".into()],
        up: true,
        ..NodeRecord::default()
    }
}
