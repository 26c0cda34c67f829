//! Splits and merges of shards, run in the background: the runner of one flow.
//!
//! ```text
//!   flow ─▶ shards described ─▶ decide_all ─▶ a round of calls ─▶ what they answered is what is known now ─┐
//!    ▲                              ▲───────────────────────────────────────────────────────────────────────┘
//!    └── anything refused or unsure: a pause, and all is read again
//! ```
//!
//! What the sources remember of requests is carried over before they are frozen, and what came since beside the last rows
//! and the cut-over (dedup_transfer.rs). Rows are read ahead: a page while the one before it is taken over.
//!
//! Always: nothing is kept but what the bucket's map and the shards tell, so a runner that dies, or two at
//! once, come to the same (core-backends, shard_reference/flow.rs); clients come first while rows are copied: a
//! round, and the freeze, wait for a moment when the shards answer at once, for a bounded time (pacing.rs), and while writers
//! wait for one flow the others of its core copy nothing; the cut-over never rests.
//! Held by: `shards_split_and_merge_whatever_becomes_of_answers_and_runners`, `shards_are_split_however_slow_their_rounds_are`.
//! Not here: when to split or merge (maintenance.rs), who runs it (core-node, s3_scheduler.rs).

use crate::clusters;
use crate::record::{read_record, BucketRecord};
use crate::request::{ended, map_read, map_write, odd, reply, shard_ask, shard_tell};
use crate::reshard::dedup_transfer::DedupTransfer;
use crate::reshard::pacing::{CopyPacer, FreezeGate};
use crate::state::{PlanContext, S3Planner, S3State};
use base_types::action::Failure;
use base_types::{ErrorCode, ErrorKind, Refusal, Tick};
use core::time::Duration;
use core_backends::metadata;
use core_backends::shard::{self, ImportCursor, ShardInfo, ShardState, FREEZE_MS_MAX};
use core_backends::shard_reference::flow::{
    copies, cursor_of, decide_all, export_query, feed_part, feed_query, feeds_left, freezes, gives_up, import_of,
    most_behind, sum_beside, Seen, Step, CUT_FREEZE_MS, FEED_WRITES,
};
use core_backends::shard_reference::{Flow, Phase, Query, Reply};
use core_flow::rounds::{one, only, pause, InRounds, Rounds};
use core_flow::{Call, CallResult, Step as PlanStep};

/// Troubles after which a run ends; the scheduler begins another one later.
const TROUBLES_MAX: u32 = 200;
/// After a round of copying the runner rests this share of the time that the round took; then it asks whether the node
/// is idle.
const REST_PERCENT: u32 = 10;
/// While writers wait for another flow of this core, copying looks so often whether they still do.
const STANDS_STILL_PAUSE: Duration = Duration::from_millis(5);
/// Rounds between a freeze and its cut-over: the answer, the rest of the feed, what it brings.
const ROUNDS_FROZEN: u64 = 3;

/// The runner of a bucket's flow; done when the flow is no more.
pub fn run_flow(id: u128, flow: u64) -> Box<S3Planner> {
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
        transfer: DedupTransfer::default(),
        pacer: CopyPacer::default(),
        gate: FreezeGate::default(),
        feed_round: None,
        freeze_ms: u64::from(CUT_FREEZE_MS),
        freezes_expired: 0,
        stood: false,
        ahead: Vec::new(),
    }))
}

/// What a shard reports of itself, or that there is none.
pub(crate) fn seen(result: CallResult) -> Result<Seen, Failure> {
    match reply(result) {
        Ok((shard::Reply::Shard { info }, _)) => Ok(Seen::Shard(Box::new(info))),
        Ok(_) => Err(odd("a shard")),
        Err(failure) if failure.refusal.code == ErrorCode::UnknownCluster => Ok(Seen::NoCluster),
        Err(failure) if failure.refusal.code == ErrorCode::WrongShard => Ok(Seen::Empty),
        Err(failure) => Err(failure),
    }
}

/// What a flow and its shards last told.
struct View {
    flow: Flow,
    sources: Vec<Seen>,
    targets: Vec<Seen>,
}

impl View {
    /// Of the answers of all sources, then all targets.
    fn of(flow: Flow, answers: Vec<CallResult>) -> Result<View, Failure> {
        let mut sources: Vec<Seen> = answers.into_iter().map(seen).collect::<Result<_, _>>()?;
        let targets = sources.split_off(flow.sources.len().min(sources.len()));
        Ok(View { flow, sources, targets })
    }

    /// How far a target is with a source.
    fn cursor(&self, source: usize, target: usize) -> Option<&ImportCursor> {
        cursor_of(&self.flow, source, target, self.target(target)?)
    }

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
    /// The shards, whose answers are timed.
    Calm,
    /// These steps, one call each.
    Steps(Vec<Step>),
    Imports(Imports),
    /// What the sources remember of requests.
    Memory,
    /// The targets to remember it.
    Bring,
}

/// A round that hands rows over: imports to these targets, what these sources are now, the rows that come next of these
/// pairs, then (or not) the targets to remember requests.
struct Imports {
    targets: Vec<usize>,
    sources: Vec<usize>,
    next: Vec<Ahead>,
    memory: bool,
    /// Some of the rows are of a feed.
    fed: bool,
}

/// Rows read ahead of need, while those before them were being taken over.
struct Ahead {
    source: usize,
    target: usize,
    /// Where the target must be for these to be what it needs next.
    cursor: ImportCursor,
    rows: Option<shard::Reply>,
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
    transfer: DedupTransfer,
    pacer: CopyPacer,
    gate: FreezeGate,
    /// How long the last round of the feed took, from the question to the last answer of who took it over.
    feed_round: Option<Duration>,
    /// How long a source is frozen for its cut-over at most, and how many freezes have expired before the cut-over.
    freeze_ms: u64,
    freezes_expired: u64,
    /// A source has been frozen since the last freeze, and every call was answered.
    stood: bool,
    ahead: Vec<Ahead>,
}

impl Rounds<S3State> for FlowRun {
    fn name(&self) -> &'static str {
        "reshard of a bucket"
    }

    fn subject(&self) -> Option<String> {
        Some(format!("bucket {:032x}, flow {}", self.id, self.flow))
    }

    fn next(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> PlanStep {
        let asked = core::mem::replace(&mut self.asked, Asked::Nothing);
        let step = match (asked, answers.is_empty()) {
            (_, true) | (Asked::Nothing, _) => self.go(context),
            (Asked::Rule, _) => self.on_rule(context, only(answers)),
            (Asked::Flow, _) => self.on_flow(context, only(answers)),
            (Asked::Shards(flow), _) => self.on_shards(context, flow, answers),
            (Asked::Calm, _) => self.on_calm(context, answers),
            (Asked::Steps(steps), _) => self.on_steps(context, steps, answers),
            (Asked::Imports(imports), _) => self.on_imports(context, imports, answers),
            (Asked::Memory, _) => self.on_memory(context, answers),
            (Asked::Bring, _) => self.on_brought(context, answers),
        };
        step.unwrap_or_else(|failure| self.trouble(context, failure))
    }
}

impl FlowRun {
    /// Continues from what is known, or reads it.
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
        self.ahead.clear();
        self.troubles += 1;
        // A refusal as too late shows a freeze that was too short; other failures do not.
        self.stood &= failure.refusal.kind() == ErrorKind::Conflict;
        let code = failure.refusal.code;
        // Of the bucket's own cluster: the bucket is gone. (A shard's is seen as `NoCluster`.)
        if code == ErrorCode::UnknownCluster && self.rule.is_none() {
            return ended();
        }
        if code == ErrorCode::NotEqual || self.troubles > TROUBLES_MAX {
            return PlanStep::Done(Err(failure));
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
            Err(failure) if failure.refusal.kind() == ErrorKind::NotFound => return Ok(self.end(context)),
            Err(failure) => return Err(failure),
        };
        let calls = self.describe_all(&flow)?;
        self.asked = Asked::Shards(flow);
        Ok(PlanStep::Calls(calls))
    }

    fn describe_all(&self, flow: &Flow) -> Result<Vec<Call>, Refusal> {
        let peers = flow.sources.iter().chain(&flow.targets);
        peers.map(|peer| shard_ask(self.id, peer.shard, &shard::Query::Describe)).collect()
    }

    fn end(&mut self, context: &mut PlanContext<'_>) -> PlanStep {
        context.state.counters.finished += 1;
        ended()
    }

    fn on_shards(
        &mut self,
        context: &mut PlanContext<'_>,
        flow: Flow,
        answers: Vec<CallResult>,
    ) -> Result<PlanStep, Failure> {
        self.view = Some(View::of(flow, answers)?);
        self.act(context)
    }

    /// They have described themselves. Clients come first: rows are copied when they answer at once.
    fn on_calm(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Result<PlanStep, Failure> {
        let Some(view) = self.view.take() else { return self.go(context) };
        self.view = Some(View::of(view.flow, answers)?);
        let took = context.now.since(self.round_begun);
        match self.pacer.on_answers(context.now, took) {
            Some(pause) => Ok(PlanStep::Wait(pause)),
            None => self.act(context),
        }
    }

    /// These steps, or, where they let writers wait and the last round of the feed was slow, one more such round.
    fn freeze_if_fast(&mut self, now: Tick, steps: Vec<Step>) -> Vec<Step> {
        let (Some(view), Some(took)) = (&self.view, self.feed_round) else { return steps };
        if self.frozen_since.is_some() || !steps.iter().all(freezes) || self.gate.may_freeze(now, took) {
            return steps;
        }
        let rounds = feeds_left(&view.flow, &view.sources, &view.targets);
        // Nobody writes: nothing is left to be looked at.
        if rounds.is_empty() {
            steps
        } else {
            rounds
        }
    }

    /// The next round, or what comes before it.
    fn act(&mut self, context: &mut PlanContext<'_>) -> Result<PlanStep, Failure> {
        let Some(view) = &self.view else { return self.go(context) };
        let steps = decide_all(&view.flow, &view.sources, &view.targets, self.gate.close());
        let steps = self.freeze_if_fast(context.now, steps);
        if !steps.iter().any(copies) {
            let copied = self.copying_since.take();
            context.state.counters.copying_ms += copied.map_or(0, |since| context.now.since(since).as_millis() as u64);
        }
        match self.before(context, &steps)? {
            Some(first) => Ok(first),
            None => self.begin(context, steps),
        }
    }

    /// What must be carried, or waited for, before these steps are done.
    fn before(&mut self, context: &mut PlanContext<'_>, steps: &[Step]) -> Result<Option<PlanStep>, Failure> {
        let Some(view) = &self.view else { return Ok(None) };
        if self.transfer.is_due(steps, &view.sources) {
            self.round_begun = context.now;
            self.asked = Asked::Memory;
            return Ok(Some(PlanStep::Calls(self.transfer.ask(self.id, &view.flow, &view.sources)?)));
        }
        if view.flow.phase == Phase::Copying && context.now < context.state.cutting_over_until {
            return Ok(Some(PlanStep::Wait(STANDS_STILL_PAUSE)));
        }
        if view.flow.phase != Phase::Copying || !steps.iter().any(copies) || self.pacer.take() {
            return Ok(None);
        }
        self.round_begun = context.now;
        let calls = self.describe_all(&view.flow)?;
        self.asked = Asked::Calm;
        Ok(Some(PlanStep::Calls(calls)))
    }

    /// One call for each step, but for rows that are here already.
    fn begin(&mut self, context: &mut PlanContext<'_>, steps: Vec<Step>) -> Result<PlanStep, Failure> {
        let Some(view) = &self.view else { return self.go(context) };
        let share = steps.iter().filter(|step| matches!(step, Step::Copy { .. })).count();
        let (ready, steps): (Vec<Step>, Vec<Step>) = steps.into_iter().partition(|step| self.is_ahead(view, step));
        if steps.iter().any(freezes) {
            self.choose_freeze(context);
        }
        let Some(view) = &self.view else { return self.go(context) };
        let mut calls = Vec::new();
        // What the sources remember goes along with the last rows, else it would follow them while writers wait.
        let late = self.frozen_since.is_some() || self.transfer.is_early();
        let beside = late && self.transfer.goes_beside(&steps, &view.sources);
        let memory = if beside { self.transfer.ask(self.id, &view.flow, &view.sources)? } else { Vec::new() };
        for step in &steps {
            match step {
                Step::Stuck { why } => {
                    let message = format!("flow {} of bucket {:032x} is stuck: {why}", self.flow, self.id);
                    return Err(Refusal::new(ErrorCode::Conflict, message).into());
                }
                Step::Done => return Ok(self.end(context)),
                step => calls.push(self.call_of(view, step, share)?),
            }
        }
        if view.flow.phase == Phase::Cutting && !view.flow.narrows() && steps.iter().any(gives_up) {
            context.state.counters.digest_mismatches += 1;
        }
        calls.extend(memory);
        self.round_begun = context.now;
        if !ready.is_empty() || steps.iter().any(copies) {
            self.copying_since.get_or_insert(context.now);
        }
        self.on_freeze(context, &steps);
        if calls.is_empty() {
            return self.on_steps(context, Vec::new(), Vec::new());
        }
        self.asked = Asked::Steps(steps);
        Ok(PlanStep::Calls(calls))
    }

    /// How long the next freeze is to last.
    fn choose_freeze(&mut self, context: &mut PlanContext<'_>) {
        let again = core::mem::take(&mut self.stood);
        let left = self.view.as_ref().map_or(0, |view| most_behind(&view.flow, &view.sources, &view.targets));
        self.freeze_ms = freeze_ms(self.freeze_ms, self.feed_round, left, again);
        if again {
            self.freezes_expired += 1;
            let counters = &mut context.state.counters;
            counters.freezes_expired += 1;
            counters.freezes_expired_max = counters.freezes_expired_max.max(self.freezes_expired);
        }
    }

    /// Where one of these steps lets writers wait: since when they do.
    fn on_freeze(&mut self, context: &mut PlanContext<'_>, steps: &[Step]) {
        let narrows = |step: &Step| matches!(step, Step::Source { command: shard::Command::Narrow { .. }, .. });
        if steps.iter().any(|step| freezes(step) || narrows(step)) {
            self.frozen_since.get_or_insert(context.now);
            context.state.cutting_over_until = context.now + Duration::from_millis(self.freeze_ms);
            self.transfer.on_freeze();
        }
    }

    /// Whether the rows of this step are here already.
    fn is_ahead(&self, view: &View, step: &Step) -> bool {
        let Step::Copy { source, target } = step else { return false };
        let cursor = view.cursor(*source, *target);
        self.ahead.iter().any(|ahead| {
            (ahead.source, ahead.target) == (*source, *target) && Some(&ahead.cursor) == cursor && ahead.rows.is_some()
        })
    }

    /// `share`: of how many such steps a step of copying is one.
    fn call_of(&self, view: &View, step: &Step, share: usize) -> Result<Call, Failure> {
        let flow = &view.flow;
        Ok(match step {
            Step::Map(command) => map_write(self.id, command)?,
            Step::MakeCluster { target } => Call::CreateCluster {
                cluster: clusters::shard(self.id, flow.targets[*target].shard)?,
                rule: self.rule.clone().unwrap_or_default(),
            },
            Step::Source { source, command: shard::Command::Freeze { epoch, .. } } => {
                let freeze = shard::Command::Freeze { epoch: *epoch, lease_ms: self.freeze_ms as u32 };
                shard_tell(self.id, flow.sources[*source].shard, &freeze)?
            }
            Step::Source { source, command } => shard_tell(self.id, flow.sources[*source].shard, command)?,
            Step::Target { target, command } => shard_tell(self.id, flow.targets[*target].shard, command)?,
            Step::Copy { source, target } => {
                let cursor = view.cursor(*source, *target).ok_or_else(|| odd("a flow"))?;
                let query = export_query(flow, *source, *target, cursor, share).ok_or_else(|| odd("a flow"))?;
                shard_ask(self.id, flow.sources[*source].shard, &query)?
            }
            Step::Feed { source, targets } => {
                let cursors: Vec<_> = targets.iter().filter_map(|target| view.cursor(*source, *target)).collect();
                let query = feed_query(flow, *source, &cursors).ok_or_else(|| odd("a flow"))?;
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
        let fed = steps.iter().any(|step| matches!(step, Step::Feed { .. }));
        let mut copied = Vec::new();
        for (step, answer) in steps.into_iter().zip(answers) {
            match step {
                Step::Map(_) => return self.on_map(context, answer),
                Step::MakeCluster { target } => {
                    made(answer)?;
                    view.targets[target] = Seen::Empty;
                }
                Step::Source { source, ref command } => match reply(answer)? {
                    (shard::Reply::Shard { info }, _) => {
                        self.stood |= info.frozen && matches!(command, shard::Command::Freeze { .. });
                        view.sources[source] = Seen::Shard(Box::new(info));
                    }
                    // A sweep, which reports only whether more is left.
                    _ => return self.go(context),
                },
                Step::Target { target, .. } => view.targets[target] = seen(answer)?,
                Step::Copy { source, target } => copied.push((source, target, reply(answer)?.0)),
                Step::Feed { source, targets } => {
                    let (answer, _) = reply(answer)?;
                    copied.extend(targets.into_iter().filter_map(|target| {
                        let cursor = view.cursor(source, target)?;
                        Some((source, target, feed_part(&view.flow, target, cursor, &answer)?))
                    }));
                }
                Step::Done | Step::Stuck { .. } => {}
            }
        }
        for Ahead { source, target, cursor, rows } in core::mem::take(&mut self.ahead) {
            if view.cursor(source, target) == Some(&cursor) {
                copied.extend(rows.map(|rows| (source, target, rows)));
            }
        }
        if copied.is_empty() && fed {
            // No target lacks any of it: another runner was here, or the split was ended. A pause, and all is read again.
            let message = "what the source's feed told was known already; another runner is at work, so look again";
            return Err(Refusal::new(ErrorCode::Conflict, message).into());
        }
        if copied.is_empty() {
            self.view = Some(view);
            return if memory.is_empty() { self.act(context) } else { self.on_memory(context, memory) };
        }
        self.hand_over(context, view, copied, memory)
    }

    /// Sends the rows to the targets, and reads the next ones meanwhile.
    fn hand_over(
        &mut self,
        context: &mut PlanContext<'_>,
        view: View,
        copied: Vec<(usize, usize, shard::Reply)>,
        memory: Vec<CallResult>,
    ) -> Result<PlanStep, Failure> {
        let (mut calls, mut reads) = (Vec::new(), Vec::new());
        let mut asked = Imports {
            targets: Vec::new(),
            sources: Vec::new(),
            next: Vec::new(),
            memory: !memory.is_empty(),
            fed: false,
        };
        let share = copied.len();
        for (source, target, rows) in copied {
            context.state.counters.rows_copied += rows_of(&rows);
            asked.fed |= matches!(rows, shard::Reply::Feed { .. });
            let info = view.target(target).ok_or_else(|| odd("a flow"))?;
            let (import, cursor) = import_of(&view.flow, source, target, info, rows).ok_or_else(|| odd("a shard"))?;
            calls.push(shard_tell(self.id, view.flow.targets[target].shard, &import)?);
            asked.targets.push(target);
            asked.sources.push(source);
            if !cursor.copied {
                let query = export_query(&view.flow, source, target, &cursor, share).ok_or_else(|| odd("a flow"))?;
                reads.push(shard_ask(self.id, view.flow.sources[source].shard, &query)?);
                asked.next.push(Ahead { source, target, cursor, rows: None });
            }
        }
        if view.flow.phase == Phase::Cutting {
            // Who is near the end of its feed may no longer be so when the others are.
            asked.sources = (0..view.flow.sources.len()).collect();
        }
        asked.sources.sort_unstable();
        asked.sources.dedup();
        for source in &asked.sources {
            let number = view.flow.sources[*source].shard;
            // Either answer shows the source's state.
            calls.push(match sum_beside(&view.flow, *source, &view.sources, &view.targets) {
                Some(sum) => shard_tell(self.id, number, &sum)?,
                None => shard_ask(self.id, number, &shard::Query::Describe)?,
            });
        }
        calls.extend(reads);
        if asked.memory {
            calls.extend(self.transfer.bring(self.id, &view.flow, &view.targets, memory)?);
        }
        self.view = Some(view);
        self.asked = Asked::Imports(asked);
        Ok(PlanStep::Calls(calls))
    }

    fn on_memory(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Result<PlanStep, Failure> {
        let Some(view) = &self.view else { return self.go(context) };
        let calls = self.transfer.bring(self.id, &view.flow, &view.targets, answers)?;
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
        let all = self.transfer.brought(answers)?;
        let (ids, counters) = (self.transfer.ids(), &mut context.state.counters);
        counters.dedup_transferred += ids;
        if retired {
            counters.dedup_transferred_blocked += ids;
            counters.dedup_blocked_ms += context.now.since(self.round_begun).as_millis() as u64;
        }
        if all && self.frozen_since.is_none() {
            // That may have taken a while: how far is the feed now?
            self.view = None;
        }
        self.act(context)
    }

    fn on_map(&mut self, context: &mut PlanContext<'_>, answer: CallResult) -> Result<PlanStep, Failure> {
        let told = reply(answer)?;
        if let (Reply::Flow { flow: switched @ Flow { phase: Phase::Switched, .. } }, _) = &told {
            let since = self.frozen_since.take();
            context.state.cutting_over_until = context.now;
            let counters = &mut context.state.counters;
            counters.tail_splits += u64::from(switched.narrows());
            if let Some(since) = since {
                counters.cutover_blocked.record(context.now.since(since));
            }
            context.state.cache.forget_map(self.id);
        }
        // The flow's phase is another: all is looked at anew.
        self.go(context)
    }

    fn on_imports(
        &mut self,
        context: &mut PlanContext<'_>,
        asked: Imports,
        answers: Vec<CallResult>,
    ) -> Result<PlanStep, Failure> {
        let Some(mut view) = self.view.take() else { return self.go(context) };
        let mut answers = answers.into_iter();
        for (target, answer) in asked.targets.iter().zip(answers.by_ref()) {
            view.targets[*target] = seen(answer)?;
        }
        for (source, answer) in asked.sources.iter().zip(answers.by_ref()) {
            view.sources[*source] = seen(answer)?;
        }
        self.ahead = asked.next;
        for (ahead, answer) in self.ahead.iter_mut().zip(answers.by_ref()) {
            ahead.rows = Some(reply(answer)?.0);
        }
        if asked.memory {
            self.transfer.brought(answers.collect())?;
            context.state.counters.dedup_transferred += self.transfer.ids();
        }
        let copying = view.flow.phase == Phase::Copying;
        if asked.fed {
            self.gate.on_feed(context.now, most_behind(&view.flow, &view.sources, &view.targets));
        }
        self.view = Some(view);
        self.troubles = 0;
        let took = context.now.since(self.round_begun);
        self.feed_round = asked.fed.then_some(took);
        let rest = took * REST_PERCENT / 100;
        if copying && !rest.is_zero() {
            return Ok(PlanStep::Wait(rest));
        }
        self.act(context)
    }
}

/// How long the next freeze lasts at most. Three rounds follow until the cut-over, and one for each page of the feed that is
/// `left` but for the last, each as long as one of the feed. A freeze that was too short (`again`) is doubled. Over long
/// distances, or with busy nodes, a second is not enough.
fn freeze_ms(last: u64, feed_round: Option<Duration>, left: u64, again: bool) -> u64 {
    let rounds = ROUNDS_FROZEN + left / u64::from(FEED_WRITES);
    let rounds = feed_round.map_or(0, |round| round.as_millis() as u64 * rounds);
    let last = if again { last * 2 } else { last };
    last.max(u64::from(CUT_FREEZE_MS) + rounds).min(FREEZE_MS_MAX)
}

fn made(answer: CallResult) -> Result<(), Failure> {
    match answer {
        Ok(_) => Ok(()),
        Err(failure) if failure.refusal.code == ErrorCode::ClusterExists => Ok(()),
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
