//! This node's configuration cluster: on other chassis of its region, it lists what the node has
//! joined; with it a node that lost its disk comes back by itself (Hive paper, 2.6).
//!
//!   Waiting ──map knows this node──▶ Seeking ──found or made──▶ Ready ──▶ list kept, missing ones nudged
//!                                      └──no other chassis──▶ Impossible (retried every minute)
//!
//! One that answers nothing for a minute although most of its members are up and in reach (its only copy rotted, or most of three
//! did) is recreated, as one is whose members lost their disks.
//!
//! Always: eventually the list is what is here; what is listed and not here is asked back before this
//! node calls itself ready. Lane zero only. Held by: `a_node_that_lost_its_disk_comes_back_with_all_it_had`, `a_node_without_configuration_cluster_is_healed_by_the_leaders`. Not here: the flow (flows/config.rs), healing (replica_repair.rs).

use crate::context::{CoreContext, Turn};
use crate::flows::config::{is_silence, ConfigFlow, Fit, Lost};
use crate::plan_runner::{AnyPlanner, PlanOwner, PlanRunner};
use crate::routing::operation::{Operation, Owner};
use crate::routing::Routing;
use crate::timers::TimerKey;
use base_types::action::{ActionResult, BatchStep, Response, StatusInfo};
use base_types::codec::{DecodeError, Encode, Reader, Writer};
use base_types::{BackendKind, ClusterId, ClusterName, ErrorCode, Generation, NodeId, ReplicaId, Tick};
use bytes::Bytes;
use core::time::Duration;
use core_backends::metadata::{Command, Reply, ScopedStep};
use core_cluster::api::{AdminCommand, LocalKind};
use core_flow::{decode_call, CallReply, CallResult};
use core_placement::FailureDomain;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const TICK: Duration = Duration::from_secs(1);
/// While no other chassis exists.
const IMPOSSIBLE_RETRY: Duration = Duration::from_secs(60);
/// The longest one attempt to find or make it may take.
const SEEK_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest one write of the list, or one nudge, may take.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Steps in one write of the list.
const STEPS_MAX: usize = 256;
/// Leaders nudged at a time, and how long before one is nudged again.
const NUDGES_MAX: usize = 16;
const NUDGE_AGAIN: Duration = Duration::from_secs(5);
/// How often one is looked at whose size may not fit the region: it grows once there are chassis enough, and shrinks when
/// nodes leave.
const FIT_EVERY: Duration = Duration::from_secs(10);
/// One that answers nothing for this long is asked once more, and then recreated: longer than elections, restarts and most
/// outages of a network take.
const SILENT_MAX: Duration = Duration::from_secs(60);
/// And where what it lists has not been read since the start: leaders may not have taken all of it back by themselves.
const SILENT_UNREAD_MAX: Duration = Duration::from_secs(120);
/// Failures further apart tell of no silence: something may have been answered between, had it been asked.
const SILENT_GAP_MAX: Duration = Duration::from_secs(30);
/// Members wanted.
const SIZE: usize = 3;
/// A node waits so long for its configuration cluster before it calls itself ready without: longer than finding or making one
/// takes, and than one question that is left without an answer.
const SETTLE_MAX: Duration = Duration::from_secs(10);
/// A silence this long is reported.
const SILENCE_TOLD: Duration = Duration::from_secs(10);

/// What is kept of a cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Joined {
    cluster: ClusterId,
    generation: Generation,
    replica: ReplicaId,
}

impl Encode for Joined {
    fn encode(&self, out: &mut Writer) {
        out.u64(self.cluster.0).u32(self.generation.0).u64(self.replica.0);
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Joined {
            cluster: ClusterId(input.u64("cluster")?),
            generation: Generation(input.u32("generation")?),
            replica: ReplicaId(input.u64("replica")?),
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    #[default]
    Waiting,
    Seeking,
    Impossible,
    Ready,
}

/// What is known of it.
#[derive(Debug, Default)]
pub struct ConfigCluster {
    state: State,
    timer: Tick,
    retry_at: Tick,
    fit_at: Tick,
    name: Option<ClusterName>,
    listed: BTreeMap<ClusterName, Joined>,
    /// Since when it has been sought for the first time.
    sought: Option<Tick>,
    /// Listed at start, not here: asked back.
    missing: BTreeMap<ClusterName, Tick>,
    /// Those of the missing that did not answer when they were last asked.
    unanswered: BTreeSet<ClusterName>,
    left: BTreeSet<ClusterName>,
    /// Something may differ from the list.
    dirty: bool,
    /// A node lost its disk: the cluster may have lost its majority.
    recheck: bool,
    /// Has been ready with nothing missing; looking again later does not take that back.
    complete: bool,
    /// Since when it has answered nothing that it was asked, one question soon after the other; and the last of them.
    silent: Option<(Tick, Tick)>,
    writing: Option<Vec<(ClusterName, Option<Joined>)>>,
    nudged: BTreeSet<ClusterName>,
    last_failure: Option<String>,
}

impl ConfigCluster {
    /// A node is gone, or lost its disk: this cluster may have lost its majority with it.
    pub fn recheck(&mut self) {
        self.recheck = true;
    }

    /// A replica of this node is new, or has changed.
    pub fn note_changed(&mut self) {
        self.dirty = true;
    }

    /// Its name, once it is there.
    pub fn name(&self) -> Option<ClusterName> {
        self.name.clone().filter(|_| self.state == State::Ready)
    }

    /// A replica was removed from this node for good.
    pub fn note_left(&mut self, name: &ClusterName) {
        self.dirty = true;
        self.left.insert(name.clone());
        self.missing.remove(name);
        self.unanswered.remove(name);
    }

    /// It was asked, and did or did not answer.
    fn on_answered(&mut self, now: Tick, answered: bool) {
        let since = self.silent.filter(|(_, last)| now.since(*last) <= SILENT_GAP_MAX).map_or(now, |(since, _)| since);
        self.silent = (!answered).then_some((since, now));
    }

    /// Whether it may be recreated for its silence. Not while something is missing: what has been read of it is then not all here.
    fn is_silent(&self, now: Tick) -> bool {
        let most = if self.complete { SILENT_MAX } else { SILENT_UNREAD_MAX };
        // A write under way may yet be told done of the one that is gone.
        let free = self.missing.is_empty() && self.writing.is_none();
        free && self.silent.is_some_and(|(since, _)| now.since(since) >= most)
    }

    /// What it means for this node's status: what is still awaited keeps the node from being ready, what does not answer does
    /// not, for the node serves all the same.
    pub fn judge(&self, now: Tick, region: &str, status: &mut StatusInfo) {
        if self.state == State::Impossible {
            status.warnings.push(format!(
                "no other chassis in region {region}: this node has no configuration cluster yet; retried every minute"
            ));
        }
        let name = self.name.as_ref().map_or("", ClusterName::as_str);
        if let Some(since) = self.silent.map(|(since, _)| since).filter(|since| now.since(*since) >= SILENCE_TOLD) {
            status.degraded.push(format!(
                "this node's configuration cluster {name} has not answered for {} s; start its members (`hive ctl cluster show {name}`); else it is recreated after about {} s, and nothing is lost unless this node loses its disk before",
                now.since(since).as_secs(),
                SILENT_UNREAD_MAX.as_secs()
            ));
        }
        let unsettled = !self.complete && matches!(self.state, State::Waiting | State::Seeking);
        if unsettled {
            let failure = self.last_failure.as_deref().unwrap_or("it is being sought");
            let overdue = self.sought.is_some_and(|since| now.since(since) >= SETTLE_MAX);
            let text = format!(
                "this node's configuration cluster {name} is not there yet ({failure}), so it is not known whether this node lacks replicas; wait"
            );
            if overdue { &mut status.degraded } else { &mut status.not_ready }.push(text);
        }
        let (unanswered, awaited): (Vec<&ClusterName>, Vec<&ClusterName>) =
            self.missing.keys().partition(|name| self.unanswered.contains(*name));
        let told = |names: &[&ClusterName]| {
            let shown: Vec<&str> = names.iter().take(5).map(|name| name.as_str()).collect();
            format!("{} clusters this node had joined are not back yet: {}", names.len(), shown.join(", "))
        };
        if !awaited.is_empty() && !self.complete {
            status.not_ready.push(format!("{}; their leaders send them, wait", told(&awaited)));
        }
        if !unanswered.is_empty() {
            status.degraded.push(format!("{}; they have no leader, start their members", told(&unanswered)));
        }
    }

    /// Time to look.
    pub fn on_timer(&mut self, turn: &mut Turn<'_>, runner: &mut PlanRunner) {
        if !turn.core.is_lane_zero() {
            return;
        }
        let at = turn.now + TICK;
        let old = core::mem::replace(&mut self.timer, at);
        turn.core.set_timer(TimerKey::Config, old, at);
        let misfits = self.state == State::Ready && self.config_may_misfit(turn.core, runner.routing(), turn.now);
        match self.state {
            State::Waiting => self.seek_config(turn, runner),
            State::Impossible if turn.now >= self.retry_at || self.other_chassis(turn.core) > 0 => {
                self.seek_config(turn, runner)
            }
            State::Ready if core::mem::take(&mut self.recheck) => self.seek_config(turn, runner),
            State::Ready if misfits || self.is_silent(turn.now) => self.seek_config(turn, runner),
            State::Ready => self.keep_config(turn, runner),
            State::Impossible | State::Seeking => {}
        }
    }

    /// How many other chassis of this region have a node that is up.
    fn other_chassis(&self, core: &CoreContext) -> usize {
        let own = core.config().labels.domain(FailureDomain::Chassis);
        let region = &core.config().labels.region;
        let usable = |record: &&core_placement::NodeRecord| record.up && !record.draining;
        let here = core.map().records().filter(usable).filter(|record| record.labels.region == *region);
        here.map(|record| record.labels.domain(FailureDomain::Chassis))
            .filter(|chassis| *chassis != own)
            .collect::<BTreeSet<String>>()
            .len()
    }

    /// How many members it should have. Never two: they would need both of them for a majority, and gain nothing over one.
    fn config_size(&self, core: &CoreContext) -> usize {
        match self.other_chassis(core) {
            0 => 0,
            others if others < SIZE => 1,
            _ => SIZE,
        }
    }

    /// The nodes of this region that are being decommissioned.
    fn leaving_here(&self, core: &CoreContext) -> BTreeSet<NodeId> {
        let region = &core.config().labels.region;
        let leaves = |record: &&core_placement::NodeRecord| record.draining && record.labels.region == *region;
        core.map().records().filter(leaves).map(|record| record.node).collect()
    }

    /// Whether its record is to be looked at: it was made while there were fewer chassis, or more, than there are now. What it
    /// lists must all be here, for it is then recreated.
    fn config_may_misfit(&mut self, core: &CoreContext, routing: &Routing, now: Tick) -> bool {
        let config = &*self;
        if now < config.fit_at || !config.missing.is_empty() || config.writing.is_some() {
            return false;
        }
        let route = config.name.as_ref().and_then(|name| routing.route(name));
        let voters = route.map_or(SIZE, |route| route.members.iter().filter(|member| !member.learner).count());
        self.fit_at = now + FIT_EVERY;
        // The route here is a guess, so while a node leaves, the record itself is asked.
        voters == 2 || voters < SIZE && self.config_size(core) == SIZE || !self.leaving_here(core).is_empty()
    }

    fn seek_config(&mut self, turn: &mut Turn<'_>, runner: &mut PlanRunner) {
        let known = turn.core.map().get(turn.core.node()).is_some_and(|record| record.disk == turn.core.config().disk);
        let Ok(name) = format!("metadata@config-{}", turn.core.node()).parse::<ClusterName>() else { return };
        if !known || turn.now < self.retry_at && self.state == State::Waiting {
            return;
        }
        let size = self.config_size(turn.core);
        let chassis = turn.core.config().labels.domain(FailureDomain::Chassis);
        let region = &turn.core.config().labels.region;
        let rule =
            (size > 0).then(|| format!("size={size} location={region} failure_domain=chassis exclude={chassis}"));
        let regional = turn.core.level_zero().get(1).map(|zero| (*zero.name).clone());
        self.name = Some(name.clone());
        self.state = State::Seeking;
        self.sought.get_or_insert(turn.now);
        let disks =
            turn.core.map().records().filter(|record| record.up).map(|record| (record.node, record.disk)).collect();
        let whole = self.complete && self.missing.is_empty();
        let fit = whole.then(|| Fit { size, leaving: self.leaving_here(turn.core) });
        let silent = self.is_silent(turn.now).then(|| {
            // What is made in its place begins with no silence.
            self.silent = None;
            turn.core.map().records().map(|record| record.node).filter(|node| turn.core.is_up(*node)).collect()
        });
        let lost = Lost { disks, gone: turn.core.gone_nodes(turn.now), fit, silent };
        let flow = ConfigFlow::new(name, turn.core.node(), rule, regional, lost);
        runner.start_plan(turn, AnyPlanner::flow(flow), PlanOwner::Config, turn.now + SEEK_TIMEOUT);
    }

    /// The flow ended.
    pub fn on_plan(&mut self, turn: &mut Turn<'_>, runner: &mut PlanRunner, response: Response) {
        match response {
            Ok(answer) => {
                let ActionResult::Page { entries, .. } = answer.result else { return };
                self.on_answered(turn.now, true);
                self.state = State::Ready;
                self.dirty = true;
                self.listed = entries.into_iter().filter_map(read_entry).collect();
                let missing = self.listed.iter().filter(|(_, joined)| !turn.core.replicas().contains(joined.cluster));
                self.missing = missing.map(|(name, _)| (name.clone(), turn.now)).collect();
                self.keep_config(turn, runner);
            }
            Err(failure) if failure.refusal.code.is_placement() => {
                self.state = State::Impossible;
                self.retry_at = turn.now + IMPOSSIBLE_RETRY;
            }
            Err(failure) => {
                if failure.refusal.code == ErrorCode::ConfigClusterSilent {
                    self.on_answered(turn.now, false);
                }
                self.state = State::Waiting;
                self.last_failure = Some(failure.refusal.message);
                self.retry_at = turn.now + TICK;
            }
        }
    }

    fn keep_config(&mut self, turn: &mut Turn<'_>, runner: &mut PlanRunner) {
        self.complete |= self.missing.is_empty();
        if self.writing.is_some() || !core::mem::take(&mut self.dirty) {
            return self.nudge_missing(turn, runner);
        }
        let here: BTreeSet<ClusterName> = turn.core.replicas().iter().map(|(_, known)| known.name.clone()).collect();
        self.missing.retain(|name, _| !here.contains(name));
        self.unanswered.retain(|name| !here.contains(name));
        self.nudge_missing(turn, runner);
        let mut changes: Vec<(ClusterName, Option<Joined>)> = Vec::new();
        for (cluster, known) in turn.core.replicas().iter() {
            let joined = Joined { cluster: *cluster, generation: known.generation, replica: known.replica };
            if self.listed.get(&known.name) != Some(&joined) && changes.len() < STEPS_MAX {
                changes.push((known.name.clone(), Some(joined)));
            }
        }
        self.left.retain(|name| !here.contains(name));
        let left = self.left.iter().filter(|name| self.listed.contains_key(*name));
        changes.extend(left.take(STEPS_MAX - changes.len()).map(|name| (name.clone(), None)));
        if !changes.is_empty() {
            self.write_config(turn, runner, changes);
        }
    }

    fn write_config(
        &mut self,
        turn: &mut Turn<'_>,
        runner: &mut PlanRunner,
        changes: Vec<(ClusterName, Option<Joined>)>,
    ) {
        let Some(name) = self.name.clone() else { return };
        let steps = changes.iter().map(|(cluster, joined)| {
            let key = Bytes::from(cluster.as_str().as_bytes().to_vec());
            let step = match joined {
                Some(joined) => BatchStep::Put { key, value: joined.to_bytes() },
                None => BatchStep::Delete { key },
            };
            ScopedStep { scope: None, step }
        });
        let command = Command::Batch { steps: steps.collect() }.to_bytes();
        let request_id = turn.core.random().request_id();
        let kind = LocalKind::Write {
            backend: BackendKind::Metadata,
            command,
            consistency: None,
            request_id,
            cluster_time_ms: 0,
        };
        self.writing = Some(changes);
        let operation = Operation::new(Owner::ConfigWrite, Arc::new(name), kind, turn.now, turn.now + WRITE_TIMEOUT);
        runner.routing_mut().start_operation(turn, operation);
    }

    /// The list was written, or not: what is not listed is tried again with the next tick.
    pub fn on_written(&mut self, turn: &mut Turn<'_>, result: CallResult) {
        let changes = self.writing.take().unwrap_or_default();
        // There may be more than one write holds, or this one must be made again.
        self.dirty = true;
        match decode_call::<Reply>(result) {
            Ok(_) => {
                self.on_answered(turn.now, true);
                for (name, joined) in changes {
                    self.left.remove(&name);
                    match joined {
                        Some(joined) => self.listed.insert(name, joined),
                        None => self.listed.remove(&name),
                    };
                }
            }
            // Deleted and recreated, or by hand: it is sought again.
            Err(failure) if failure.refusal.code == ErrorCode::UnknownCluster => self.state = State::Waiting,
            Err(failure) => {
                if is_silence(&failure.refusal) {
                    self.on_answered(turn.now, false);
                }
                turn.note(
                    crate::api::NoteLevel::Info,
                    format!("the configuration cluster was not written: {}", failure.refusal),
                );
            }
        }
    }

    /// Asks the leaders of what is missing to take this node back. They may know already; it does no harm.
    fn nudge_missing(&mut self, turn: &mut Turn<'_>, runner: &mut PlanRunner) {
        let config = &*self;
        let free = NUDGES_MAX.saturating_sub(config.nudged.len());
        let due: Vec<ClusterName> = config
            .missing
            .iter()
            .filter(|(name, at)| **at <= turn.now && !config.nudged.contains(*name))
            .take(free)
            .map(|(name, _)| name.clone())
            .collect();
        for name in due {
            self.nudged.insert(name.clone());
            let name = Arc::new(name);
            self.nudge(turn, runner, name, AdminCommand::Describe);
        }
    }

    fn nudge(&mut self, turn: &mut Turn<'_>, runner: &mut PlanRunner, name: Arc<ClusterName>, command: AdminCommand) {
        let owner = Owner::ConfigNudge(name.clone());
        let operation = Operation::new(owner, name, LocalKind::Admin(command), turn.now, turn.now + WRITE_TIMEOUT);
        runner.routing_mut().start_operation(turn, operation);
    }

    /// A nudged leader answered: it counts this node on its old disk (it must replace it), on its new one
    /// (the replica is on its way), or not at all.
    pub fn on_nudged(
        &mut self,
        turn: &mut Turn<'_>,
        runner: &mut PlanRunner,
        name: &Arc<ClusterName>,
        result: CallResult,
    ) {
        let own = turn.core.node();
        let mut over = false;
        self.unanswered.remove(&**name);
        match result {
            Ok(CallReply::Described(description)) => {
                match description.members.iter().find(|(member, _)| member.node == own) {
                    None => over = true,
                    Some((member, _)) if member.disk != turn.core.config().disk => {
                        let command = AdminCommand::ReplaceDisk { node: own, disk: turn.core.config().disk };
                        return self.nudge(turn, runner, name.clone(), command);
                    }
                    Some(_) => {}
                }
            }
            Ok(_) => {}
            Err(failure) => {
                over = failure.refusal.code == ErrorCode::UnknownCluster;
                self.unanswered.insert((**name).clone());
            }
        }
        self.nudged.remove(&**name);
        if over {
            // The cluster is gone, or has gone on without this node: nothing to come back to.
            self.missing.remove(&**name);
            self.unanswered.remove(&**name);
            self.left.insert((**name).clone());
            self.dirty = true;
        } else if let Some(at) = self.missing.get_mut(&**name) {
            *at = turn.now + NUDGE_AGAIN;
        }
    }
}

fn read_entry((key, value): (Bytes, Bytes)) -> Option<(ClusterName, Joined)> {
    let name = core::str::from_utf8(&key).ok()?.parse().ok()?;
    Some((name, Joined::from_bytes(value).ok()?))
}
