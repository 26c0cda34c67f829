//! Splits and merges of shards, run in the background: the runner of one flow.
//!
//! ```text
//!   flow ─▶ shards described ─▶ decide_all ─▶ a round of calls ─▶ what they answered is what is known now ─┐
//!    ▲                              ▲───────────────────────────────────────────────────────────────────────┘
//!    └── anything refused or unsure: a pause, and all is read again
//! ```
//!
//! Before the sources are frozen, while they stand still, and before the targets serve, what the sources remember of
//! requests is carried over (carry.rs).
//!
//! Always: nothing is kept but what the bucket's map and the shards tell, so a runner that dies, or two at
//! once, come to the same (core-backends, shard_reference/flow.rs); while rows are copied the runner rests a
//! third of the time, so that clients have the larger part of the shard; the cut-over never rests.
//! Not here: when to split or merge (upkeep.rs), who runs it (keeper.rs).

use super::carry::Carry;
use super::clusters;
use super::record::{read_record, BucketRecord};
use super::request::{map_read, map_write, reply};
use crate::keyspace::rounds::{one, only, pause, InRounds, Rounds};
use crate::planner::{Call, CallResult, PlanContext, Planner, Step as PlanStep};
use base_types::action::{ActionResult, Answer, Failure};
use base_types::codec::Encode;
use base_types::s3::S3ErrorCode;
use base_types::{BackendKind, ErrorKind, ReadConsistency, Refusal, Tick, WriteConsistency};
use core_backends::metadata;
use core_backends::shard::{self, ShardInfo, ShardState};
use core_backends::shard_reference::flow::{copy_query, decide_all, import_of, Seen, Step};
use core_backends::shard_reference::{Flow, Phase, Query, Reply};

/// Troubles after which a run ends; the keeper begins another one later.
const TROUBLES_MAX: u32 = 200;
/// Of the time a round of copying took, so many hundredths are rested behind it.
const REST_PERCENT: u32 = 50;
/// A writer that waits longer than this for a switch is counted: the figure to reach (docs/figures.md).
const FROZEN_LONG_MS: u64 = 50;

/// What splits and merges came to on this core since it started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReshardCounters {
    /// Flows that came to their end, and those of them that narrowed a shard: nothing was copied.
    pub finished: u64,
    pub narrowed: u64,
    /// Rows copied to new shards, those of the feed included.
    pub rows_copied: u64,
    /// Milliseconds that rows were being copied (rests between them included), of all flows together.
    pub copying_ms: u64,
    /// Milliseconds from a freeze to the switch of the map: what a writer may wait.
    pub frozen_ms: u64,
    pub frozen_ms_max: u64,
    /// Such switches, and those of them that took longer than a writer should wait.
    pub switches: u64,
    pub frozen_long: u64,
    /// Remembered requests that were carried over, and those of them that were while nobody served; milliseconds that
    /// this took behind the last freeze.
    pub carried: u64,
    pub carried_late: u64,
    pub carried_late_ms: u64,
}

/// The runner of a bucket's flow; done when the flow is no more.
pub(crate) fn run_flow(id: u128, flow: u64) -> Box<dyn Planner> {
    Box::new(InRounds::new(FlowRun {
        id,
        flow,
        rule: None,
        view: None,
        asked: Asked::Nothing,
        troubles: 0,
        copying_since: None,
        frozen_since: None,
        round_begun: Tick(0),
        carry: Carry::default(),
    }))
}

/// A strong question to a shard.
pub(crate) fn shard_ask(id: u128, number: u64, query: &shard::Query) -> Result<Call, Refusal> {
    Ok(Call::Read {
        cluster: clusters::shard(id, number)?,
        backend: BackendKind::Shard,
        query: query.to_bytes(),
        consistency: Some(ReadConsistency::Strong),
    })
}

/// A strong command of a flow to a shard. It may come twice: each is a compare-and-set, or changes nothing twice.
pub(crate) fn shard_tell(id: u128, number: u64, command: &shard::Command) -> Result<Call, Refusal> {
    Ok(Call::Write {
        cluster: clusters::shard(id, number)?,
        backend: BackendKind::Shard,
        command: command.to_bytes(),
        consistency: Some(WriteConsistency::Strong),
        request_id: None,
    })
}

/// What a shard tells of itself, or that there is none.
pub(crate) fn seen(result: CallResult) -> Result<Seen, Failure> {
    match reply(result) {
        Ok((shard::Reply::Shard { info }, _)) => Ok(Seen::Shard(Box::new(info))),
        Ok(_) => Err(odd("a shard")),
        Err(failure) if failure.refusal.code == "UnknownCluster" => Ok(Seen::NoCluster),
        Err(failure) if failure.refusal.code == "WrongShard" => Ok(Seen::Empty),
        Err(failure) => Err(failure),
    }
}

/// Somebody answered another question.
pub(crate) fn odd(who: &str) -> Failure {
    S3ErrorCode::InternalError.because(format!("{who} answered another question than it was asked")).into()
}

/// The end of work nobody waits for.
pub(crate) fn ended() -> PlanStep {
    PlanStep::Done(Ok(Answer { result: ActionResult::Done, at: None, level: None, cluster: None }))
}

/// What a flow and its shards last told.
struct View {
    flow: Flow,
    sources: Vec<Seen>,
    targets: Vec<Seen>,
}

impl View {
    fn target(&self, target: usize) -> Option<&ShardInfo> {
        match self.targets.get(target) {
            Some(Seen::Shard(info)) => Some(info),
            _ => None,
        }
    }
}

enum Asked {
    Nothing,
    Rule,
    Flow,
    Shards(Flow),
    /// These steps, one call each.
    Steps(Vec<Step>),
    /// Imports to these targets, then what these sources are now, then (or not) the targets to remember requests.
    Imports(Vec<usize>, Vec<usize>, bool),
    /// What the sources remember of requests.
    Memory,
    /// The targets to remember it.
    Bring,
}

struct FlowRun {
    id: u128,
    flow: u64,
    /// What clusters of the bucket are made by.
    rule: Option<String>,
    view: Option<View>,
    asked: Asked,
    troubles: u32,
    copying_since: Option<Tick>,
    frozen_since: Option<Tick>,
    round_begun: Tick,
    carry: Carry,
}

impl Rounds for FlowRun {
    fn name(&self) -> &'static str {
        "reshard of a bucket"
    }

    fn next(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> PlanStep {
        let asked = core::mem::replace(&mut self.asked, Asked::Nothing);
        let step = match (asked, answers.is_empty()) {
            (_, true) | (Asked::Nothing, _) => self.go(context),
            (Asked::Rule, _) => self.on_rule(context, only(answers)),
            (Asked::Flow, _) => self.on_flow(context, only(answers)),
            (Asked::Shards(flow), _) => self.on_shards(context, flow, answers),
            (Asked::Steps(steps), _) => self.on_steps(context, steps, answers),
            (Asked::Imports(targets, sources, memory), _) => {
                self.on_imports(context, (&targets, &sources, memory), answers)
            }
            (Asked::Memory, _) => self.on_memory(context, answers),
            (Asked::Bring, _) => self.on_brought(context, answers),
        };
        step.unwrap_or_else(|failure| self.trouble(context, failure))
    }
}

impl FlowRun {
    /// Goes on from what is known, or reads it.
    fn go(&mut self, context: &mut PlanContext<'_>) -> Result<PlanStep, Failure> {
        if self.rule.is_none() {
            self.asked = Asked::Rule;
            return Ok(one(read_record(self.id)?));
        }
        if self.view.is_some() {
            return self.act(context);
        }
        self.asked = Asked::Flow;
        Ok(one(map_read(self.id, &Query::Flow { flow: self.flow })?))
    }

    fn trouble(&mut self, context: &mut PlanContext<'_>, failure: Failure) -> PlanStep {
        self.view = None;
        self.troubles += 1;
        match failure.refusal.code {
            // Of the bucket's own cluster: the bucket is gone. (A shard's is seen as `NoCluster`.)
            "UnknownCluster" if self.rule.is_none() => return ended(),
            "NotEqual" => return PlanStep::Done(Err(failure)),
            _ if self.troubles > TROUBLES_MAX => return PlanStep::Done(Err(failure)),
            _ => {}
        }
        pause(context, self.troubles.min(4))
    }

    fn on_rule(&mut self, context: &mut PlanContext<'_>, result: CallResult) -> Result<PlanStep, Failure> {
        let (metadata::Reply::Value { value }, _) = reply(result)? else { return Err(odd("a bucket's record")) };
        let Some(body) = value else { return Ok(ended()) };
        self.rule = Some(BucketRecord::from_body(&body)?.rule);
        self.go(context)
    }

    fn on_flow(&mut self, context: &mut PlanContext<'_>, result: CallResult) -> Result<PlanStep, Failure> {
        let flow = match reply(result) {
            Ok((Reply::Flow { flow }, _)) => flow,
            Ok(_) => return Err(odd("a bucket's map")),
            // The flow has ended, or the bucket is gone.
            Err(failure) if failure.refusal.kind == ErrorKind::NotFound => return Ok(self.end(context)),
            Err(failure) => return Err(failure),
        };
        let peers = flow.sources.iter().chain(&flow.targets);
        let calls: Result<Vec<Call>, Refusal> =
            peers.map(|peer| shard_ask(self.id, peer.shard, &shard::Query::Describe)).collect();
        self.asked = Asked::Shards(flow);
        Ok(PlanStep::Calls(calls?))
    }

    fn end(&mut self, context: &mut PlanContext<'_>) -> PlanStep {
        context.s3.counters.finished += 1;
        ended()
    }

    fn on_shards(
        &mut self,
        context: &mut PlanContext<'_>,
        flow: Flow,
        answers: Vec<CallResult>,
    ) -> Result<PlanStep, Failure> {
        let mut sources: Vec<Seen> = answers.into_iter().map(seen).collect::<Result<_, _>>()?;
        let targets = sources.split_off(flow.sources.len().min(sources.len()));
        self.view = Some(View { flow, sources, targets });
        self.act(context)
    }

    /// The next round: one call for each step.
    fn act(&mut self, context: &mut PlanContext<'_>) -> Result<PlanStep, Failure> {
        let Some(view) = &self.view else { return self.go(context) };
        let steps = decide_all(&view.flow, &view.sources, &view.targets);
        if !steps.iter().any(|step| matches!(step, Step::Copy { .. })) {
            let copied = self.copying_since.take();
            context.s3.counters.copying_ms += copied.map_or(0, |since| context.now.since(since).as_millis() as u64);
        }
        if self.carry.is_due(&steps) {
            self.round_begun = context.now;
            self.asked = Asked::Memory;
            return Ok(PlanStep::Calls(self.carry.ask(self.id, &view.flow)?));
        }
        let mut calls = Vec::new();
        // What the sources remember goes along with the last rows, else it would follow them while writers wait.
        let late = self.frozen_since.is_some() || self.carry.is_early();
        let beside = late && self.carry.goes_beside(&steps);
        let memory = if beside { self.carry.ask(self.id, &view.flow)? } else { Vec::new() };
        for step in &steps {
            match step {
                Step::Stuck { why } => {
                    let message = format!("flow {} of bucket {:032x} is stuck: {why}", self.flow, self.id);
                    return Err(Refusal::new(ErrorKind::Conflict, "Conflict", message).into());
                }
                Step::Done => return Ok(self.end(context)),
                step => calls.push(self.call_of(view, step)?),
            }
        }
        let freezes = |step: &Step| {
            use shard::Command::{Freeze, Narrow};
            matches!(step, Step::Source { command: Freeze { .. } | Narrow { .. }, .. })
        };
        if steps.iter().any(freezes) {
            self.frozen_since.get_or_insert(context.now);
            self.carry.on_freeze();
        }
        calls.extend(memory);
        self.round_begun = context.now;
        if steps.iter().any(|step| matches!(step, Step::Copy { .. })) {
            self.copying_since.get_or_insert(context.now);
        }
        self.asked = Asked::Steps(steps);
        Ok(PlanStep::Calls(calls))
    }

    fn call_of(&self, view: &View, step: &Step) -> Result<Call, Failure> {
        let flow = &view.flow;
        Ok(match step {
            Step::Map(command) => map_write(self.id, command)?,
            Step::MakeCluster { target } => Call::CreateCluster {
                cluster: clusters::shard(self.id, flow.targets[*target].shard)?,
                rule: self.rule.clone().unwrap_or_default(),
            },
            Step::Source { source, command } => shard_tell(self.id, flow.sources[*source].shard, command)?,
            Step::Target { target, command } => shard_tell(self.id, flow.targets[*target].shard, command)?,
            Step::Copy { source, target } => {
                let info = view.target(*target).ok_or_else(|| odd("a flow"))?;
                let query = copy_query(flow, *source, *target, info).ok_or_else(|| odd("a flow"))?;
                shard_ask(self.id, flow.sources[*source].shard, &query)?
            }
            Step::Done | Step::Stuck { .. } => return Err(odd("a flow")),
        })
    }

    /// What each step came to is what is known now. Rows that were read are handed to their targets.
    fn on_steps(
        &mut self,
        context: &mut PlanContext<'_>,
        steps: Vec<Step>,
        mut answers: Vec<CallResult>,
    ) -> Result<PlanStep, Failure> {
        let Some(mut view) = self.view.take() else { return self.go(context) };
        let memory = answers.split_off(steps.len().min(answers.len()));
        let (mut imports, mut targets, mut sources) = (Vec::new(), Vec::new(), Vec::new());
        for (step, answer) in steps.into_iter().zip(answers) {
            match step {
                Step::Map(_) => return self.on_map(context, answer),
                Step::MakeCluster { target } => {
                    made(answer)?;
                    view.targets[target] = Seen::Empty;
                }
                Step::Source { source, .. } => match reply(answer)? {
                    (shard::Reply::Shard { info }, _) => view.sources[source] = Seen::Shard(Box::new(info)),
                    // A sweep, which tells only whether more is left.
                    _ => return self.go(context),
                },
                Step::Target { target, .. } => view.targets[target] = seen(answer)?,
                Step::Copy { source, target } => {
                    let (rows, _): (shard::Reply, _) = reply(answer)?;
                    context.s3.counters.rows_copied += rows_of(&rows);
                    let info = view.target(target).ok_or_else(|| odd("a flow"))?;
                    let import = import_of(&view.flow, source, target, info, rows).ok_or_else(|| odd("a shard"))?;
                    imports.push(shard_tell(self.id, view.flow.targets[target].shard, &import)?);
                    targets.push(target);
                    sources.push(source);
                }
                Step::Done | Step::Stuck { .. } => {}
            }
        }
        if imports.is_empty() {
            self.view = Some(view);
            return self.act(context);
        }
        sources.sort_unstable();
        sources.dedup();
        for source in &sources {
            imports.push(shard_ask(self.id, view.flow.sources[*source].shard, &shard::Query::Describe)?);
        }
        let remember = !memory.is_empty();
        if remember {
            imports.extend(self.carry.bring(self.id, &view.flow, &view.targets, memory)?);
        }
        self.view = Some(view);
        self.asked = Asked::Imports(targets, sources, remember);
        Ok(PlanStep::Calls(imports))
    }

    fn on_memory(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Result<PlanStep, Failure> {
        let Some(view) = &self.view else { return self.go(context) };
        let calls = self.carry.bring(self.id, &view.flow, &view.targets, answers)?;
        if calls.is_empty() {
            return self.on_brought(context, Vec::new());
        }
        self.asked = Asked::Bring;
        Ok(PlanStep::Calls(calls))
    }

    fn on_brought(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Result<PlanStep, Failure> {
        let Some(view) = &self.view else { return self.go(context) };
        let is_retired = |seen: &Seen| matches!(seen, Seen::Shard(info) if info.state == ShardState::Retired);
        let retired = view.sources.iter().all(is_retired);
        let all = self.carry.brought(answers, retired)?;
        let (ids, counters) = (self.carry.ids(), &mut context.s3.counters);
        counters.carried += ids;
        if retired {
            counters.carried_late += ids;
            counters.carried_late_ms += context.now.since(self.round_begun).as_millis() as u64;
        }
        if all && !retired {
            // That may have taken a while: how far is the feed now?
            self.view = None;
        }
        self.act(context)
    }

    fn on_map(&mut self, context: &mut PlanContext<'_>, answer: CallResult) -> Result<PlanStep, Failure> {
        let told = reply(answer)?;
        if let (Reply::Flow { flow: switched @ Flow { phase: Phase::Switched, .. } }, _) = &told {
            let since = self.frozen_since.take();
            let frozen_ms = since.map_or(0, |since| context.now.since(since).as_millis() as u64);
            let counters = &mut context.s3.counters;
            counters.narrowed += u64::from(switched.narrows());
            counters.switches += u64::from(since.is_some());
            counters.frozen_long += u64::from(frozen_ms > FROZEN_LONG_MS);
            counters.frozen_ms += frozen_ms;
            counters.frozen_ms_max = counters.frozen_ms_max.max(frozen_ms);
            context.s3.forget_map(self.id);
        }
        // The flow's phase is another: all is looked at anew.
        self.go(context)
    }

    fn on_imports(
        &mut self,
        context: &mut PlanContext<'_>,
        (targets, sources, memory): (&[usize], &[usize], bool),
        answers: Vec<CallResult>,
    ) -> Result<PlanStep, Failure> {
        let Some(mut view) = self.view.take() else { return self.go(context) };
        let mut answers = answers.into_iter();
        for (target, answer) in targets.iter().zip(answers.by_ref()) {
            view.targets[*target] = seen(answer)?;
        }
        for (source, answer) in sources.iter().zip(answers.by_ref()) {
            view.sources[*source] = seen(answer)?;
        }
        if memory {
            self.carry.brought(answers.collect(), false)?;
            context.s3.counters.carried += self.carry.ids();
        }
        let copying = view.flow.phase == Phase::Copying;
        self.view = Some(view);
        self.troubles = 0;
        let took = context.now.since(self.round_begun);
        let rest = took * REST_PERCENT / 100;
        if copying && !rest.is_zero() {
            return Ok(PlanStep::Wait(rest));
        }
        self.act(context)
    }
}

fn made(answer: CallResult) -> Result<(), Failure> {
    match answer {
        Ok(_) => Ok(()),
        Err(failure) if failure.refusal.code == "ClusterExists" => Ok(()),
        Err(failure) => Err(failure),
    }
}

fn rows_of(answer: &shard::Reply) -> u64 {
    match answer {
        shard::Reply::Rows { rows, .. } => rows.len() as u64,
        shard::Reply::Feed { rows, .. } => rows.len() as u64,
        _ => 0,
    }
}
