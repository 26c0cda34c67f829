//! A core without routing: only the lane (Raft, log, backends, snapshots). Clusters exist from the start. A member that
//! does not lead refuses, and the client asks another.
//!
//! Always: what a lane says is passed on unchanged. It finds faults below `core-node` faster and
//! nearer to their cause, and every mutant that lives there.
//! Not here: routing, flows, healing, keyspaces (`real`).

use crate::disk::SimDisk;
use crate::machine::{Machine, Opener};
use crate::plan::Shape;
use base_engine::Engine;
use base_types::action::{
    Action, ActionResult, Answer, BatchStep, Failure, KvTarget, Level, RedisReply, Request, Response, StatusInfo,
};
use base_types::codec::{Encode, Reader, Writer};
use base_types::sizes::Sizes;
use base_types::versioned::VersionedCall;
use base_types::{
    lane_of, BackendKind, ClusterId, ClusterName, ErrorCode, Generation, LogIndex, NodeId, ReadConsistency, Refusal,
    ReplicaId, RequestId, Tick, Ticket, WriteConsistency,
};
use bytes::Bytes;
use core_backends::{decode_reply, metadata, redis};
use core_cluster::api::{
    AdminCommand, Completion, Glance, LaneConfig, LaneStatistics, LocalKind, LocalOperation, LocalOutcome, Member,
    Notice, ReplicaSpec, ReplicaView, Won,
};
use core_cluster::Lane;
use core_node::api::{Effect, Effects, Event, NodeConfig};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The id of the first cluster.
const FIRST_CLUSTER: u64 = 1000;
const GENERATION: Generation = Generation(1);
/// Bytes of a page.
const PAGE_BYTES: u32 = 1 << 20;

/// Opens lanes whose clusters are those of a plan.
pub struct LaneOpener {
    pub shape: Shape,
    /// What its disks once were: a node with another disk must not begin as the voter it was.
    pub first_disks: std::cell::RefCell<BTreeMap<NodeId, base_types::DiskId>>,
}

impl LaneOpener {
    pub fn boxed(shape: &Shape) -> Box<dyn Opener> {
        Box::new(LaneOpener { shape: shape.clone(), first_disks: Default::default() })
    }

    /// The disks' own names are not known before every node has started; a node's number stands for its first.
    fn members(&self, number: u64) -> Vec<Member> {
        (0..self.shape.cluster_size)
            .map(|offset| NodeId((number + offset) % self.shape.nodes + 1))
            .map(|node| Member { replica: ReplicaId(node.0), node, disk: base_types::DiskId(node.0), learner: false })
            .collect()
    }
}

impl Opener for LaneOpener {
    fn open(
        &self,
        config: NodeConfig,
        engines: Vec<Arc<dyn Engine>>,
        disk: &mut SimDisk,
        now: Tick,
    ) -> Result<(Box<dyn Machine>, Effects), String> {
        let lane_config = lane_config(&config);
        let (mut lane, notes) = Lane::open(lane_config, engines, disk, now).map_err(|error| error.to_string())?;
        let mut effects = Effects::default();
        for text in notes {
            effects.list.push(Effect::Note { level: core_node::api::NoteLevel::Info, text });
        }
        for node in (1..=self.shape.nodes).map(NodeId).filter(|node| *node != config.node) {
            effects.list.push(Effect::Address { node, address: String::new() });
        }
        let fresh = *self.first_disks.borrow_mut().entry(config.node).or_insert(config.disk) == config.disk;
        for number in 0..self.shape.clusters + self.shape.histories + self.shape.databases {
            let cluster = ClusterId(FIRST_CLUSTER + number);
            let members = self.members(number);
            let here = members.iter().any(|member| member.node == config.node)
                && lane_of(cluster, config.lane_count) == config.lane;
            if here && fresh && lane.view(cluster).is_none() {
                lane.create_replica(now, spec(&self.shape, number, config.node, members))
                    .map_err(|refusal| refusal.to_string())?;
            }
        }
        let mut machine = LaneMachine {
            node: config.node,
            lane_count: config.lane_count,
            lane,
            asked: BTreeMap::new(),
            told: BTreeMap::new(),
        };
        machine.finish_turn(now, &mut effects);
        Ok((Box::new(machine), effects))
    }
}

fn spec(shape: &Shape, number: u64, node: NodeId, initial_members: Vec<Member>) -> ReplicaSpec {
    ReplicaSpec {
        cluster: ClusterId(FIRST_CLUSTER + number),
        generation: GENERATION,
        name: name_of(shape, number),
        rule: format!("size={}", initial_members.len()).into(),
        engine: "memory".into(),
        consistency: WriteConsistency::Strong,
        read_consistency: ReadConsistency::Strong,
        replica: ReplicaId(node.0),
        initial_members: initial_members.into(),
    }
}

/// Those that keep versions come after the plain ones, those with Redis databases last.
fn name_of(shape: &Shape, number: u64) -> ClusterName {
    let text = match number.checked_sub(shape.clusters) {
        None => format!("metadata/redis@t{number}"),
        Some(after) if after < shape.histories => format!("versioned@v{number}"),
        Some(_) => format!("redis@r{number}"),
    };
    text.parse().unwrap_or_else(|_| unreachable!("a name of ours is valid"))
}

fn lane_config(config: &NodeConfig) -> LaneConfig {
    let tuning = &config.tuning;
    LaneConfig {
        node: config.node,
        disk: base_types::DiskId(config.node.0),
        lane: config.lane,
        log_identity: xxhash_rust::xxh3::xxh3_64_with_seed(&config.disk.0.to_le_bytes(), u64::from(config.lane.0)),
        log_reached: config.log_reached,
        seed: config.seed,
        tick_ms: tuning.tick_ms,
        heartbeat_ticks: tuning.heartbeat_ticks,
        election_ticks: tuning.election_ticks,
        quiesce_after_ticks: tuning.quiesce_after_ticks,
        read_leases: tuning.read_leases,
        log_stall_elections: tuning.log_stall_elections,
        log_stall_ms: tuning.log_stall_ms,
        flush_bytes: tuning.flush_bytes,
        flush_after_ms: tuning.flush_after_ms,
        log_keep_bytes: tuning.log_keep_bytes,
        snapshot_chunk_bytes: tuning.snapshot_chunk_bytes,
        scrub_bytes_per_second: tuning.scrub_bytes_per_second,
        scrub_round_ms: tuning.scrub_round_ms,
        label_spaces: tuning.label_spaces,
        tail_engine: tuning.tail_engine.clone(),
        buggify_until: tuning.buggify_until,
        witness: tuning.witness,
        keep: tuning.keep,
        request_ids: tuning.request_ids,
        level: config.level,
        level_max: config.level_max,
        log: tuning.log.clone(),
    }
}

struct LaneMachine {
    node: NodeId,
    /// Every node has as many: a cluster lives on the same one everywhere.
    lane_count: u16,
    lane: Lane,
    asked: BTreeMap<Ticket, Action>,
    /// What a leader said last of its cluster's time, as a router remembers it.
    told: BTreeMap<ClusterId, u64>,
}

impl Machine for LaneMachine {
    fn step(&mut self, now: Tick, event: Event, effects: &mut Effects) {
        match event {
            Event::Timer => self.lane.on_timer(now),
            Event::Request { ticket, asked, request } => self.ask(now, ticket, (asked, request), effects),
            Event::Frame { from, frame } => self.on_frame(now, from, frame),
            Event::PeerUp { node } => self.lane.on_peer_up(now, node),
            Event::PeerDown { node } => self.lane.on_peer_down(now, node),
            Event::LogWritten { batch } => self.lane.on_log_written(now, batch),
            Event::LogSegmentReady { segment } => self.lane.on_log_segment_ready(now, segment),
            Event::LogSegmentFailed { segment } => self.lane.on_log_segment_failed(now, segment),
            Event::LogFailed { message } => self.lane.on_log_failed(now, &message),
            Event::EngineDone { job, result } => self.lane.on_engine_done(now, job, result),
            Event::DiskFull { full } => self.lane.set_disk_full(full),
            Event::Drained { drained } => self.lane.set_leads_nothing(now, drained),
            Event::Cancel { .. }
            | Event::Mail { .. }
            | Event::Machine { .. }
            | Event::Clock { .. }
            | Event::Certificate { .. }
            | Event::Hold { .. }
            | Event::Directory { .. }
            | Event::DirectoryWanted
            | Event::WorldReborn { .. }
            | Event::FormatLevel { .. } => {}
        }
    }

    fn finish_turn(&mut self, now: Tick, effects: &mut Effects) {
        let output = self.lane.finish_turn(now);
        for action in output.log {
            effects.list.push(Effect::Log(action));
        }
        for message in output.messages {
            let mut frame = Writer::new();
            frame.u64(message.cluster.0).u32(message.generation.0).raw(&message.payload);
            let lane = lane_of(message.cluster, self.lane_count);
            effects.list.push(Effect::Send { to: message.to, lane, frame: frame.finish() });
        }
        for job in output.engine {
            effects.list.push(Effect::Engine(job));
        }
        for Completion { ticket, outcome } in output.completions {
            if let Some(action) = self.asked.remove(&ticket) {
                if let (LocalOutcome::StaleRoute { cluster_time_ms }, Some(cluster)) = (&outcome, cluster_of(&action)) {
                    self.told.insert(cluster, *cluster_time_ms);
                }
                effects.list.push(Effect::Reply { ticket, response: response_of(&action, outcome) });
            }
        }
        for notice in output.notices {
            match notice {
                Notice::LogFailed { message } | Notice::EngineFailed { message, .. } => {
                    effects.list.push(Effect::Halt { reason: message })
                }
                other => effects
                    .list
                    .push(Effect::Note { level: core_node::api::NoteLevel::Info, text: format!("{other:?}") }),
            }
        }
    }

    fn next_wake(&self) -> Tick {
        self.lane.next_wake()
    }

    fn durable_batch(&self) -> u64 {
        self.lane.durable_batch().0
    }

    fn views(&self) -> Vec<ReplicaView> {
        self.lane.views()
    }

    fn take_won(&mut self) -> Vec<Won> {
        self.lane.take_won()
    }

    fn glances(&self) -> Vec<Glance> {
        self.lane.glances()
    }

    fn statistics(&self) -> LaneStatistics {
        self.lane.statistics()
    }

    fn sizes(&self) -> Sizes {
        self.lane.sizes()
    }

    fn state_hash(&self, cluster: ClusterId) -> Option<(LogIndex, u64)> {
        self.lane.state_hash(cluster)
    }
}

impl LaneMachine {
    fn on_frame(&mut self, now: Tick, from: NodeId, frame: Bytes) {
        let mut input = Reader::new(frame);
        if let (Ok(cluster), Ok(generation)) = (input.u64("cluster"), input.u32("generation")) {
            self.lane.on_peer_message(now, from, ClusterId(cluster), Generation(generation), input.rest());
        }
    }

    fn ask(&mut self, now: Tick, ticket: Ticket, (asked, request): (Tick, Request), effects: &mut Effects) {
        let deadline = asked + request.deadline;
        if now >= deadline {
            let refusal = Refusal::new(ErrorCode::DeadlineExceeded, "expired before it was looked at");
            effects.list.push(Effect::Reply { ticket, response: Err(refusal.into()) });
            return;
        }
        let asked = match &request.action {
            Action::Status => Err(Ok(self.status())),
            Action::CreateCluster { .. } => Err(Ok(done(ActionResult::Done))),
            _ => kind_of(&request, self.cluster_time(&request)).ok_or_else(|| {
                Err(Failure::from(Refusal::new(ErrorCode::InvalidRequest, "a lane knows no such action")))
            }),
        };
        match asked {
            Err(response) => effects.list.push(Effect::Reply { ticket, response }),
            Ok((cluster, kind)) => {
                self.asked.insert(ticket, request.action);
                self.lane.submit(now, LocalOperation { ticket, cluster, generation: GENERATION, deadline, kind });
            }
        }
    }

    /// A router would estimate it; here the member asked knows.
    fn cluster_time(&self, request: &Request) -> u64 {
        let Some(cluster) = cluster_of(&request.action) else { return 0 };
        let applied = self.lane.view(cluster).map_or(0, |view| view.cluster_time_ms);
        applied.max(self.told.get(&cluster).copied().unwrap_or(0))
    }

    fn status(&self) -> Answer {
        let views = self.lane.views();
        let ready = views.iter().all(|view| view.leader.is_some());
        done(ActionResult::Status(StatusInfo {
            world: "sim".to_string(),
            node: self.node,
            ready,
            not_ready: Vec::new(),
            degraded: Vec::new(),
            quorum: Vec::new(),
            nodes_up: 0,
            nodes_total: 0,
            clusters: views.len() as u32,
            leaders: 0,
            quiesced: 0,
            config_cluster: None,
            warnings: Vec::new(),
            log_write_ms: 0,
            certificate_expires_ms: 0,
        }))
    }
}

fn done(result: ActionResult) -> Answer {
    Answer { result, at: None, level: None, cluster: None }
}

fn cluster_of(action: &Action) -> Option<ClusterId> {
    let name = match action {
        Action::KvPut { target, .. }
        | Action::KvGet { target, .. }
        | Action::KvDelete { target, .. }
        | Action::KvScan { target, .. }
        | Action::KvBatch { target, .. }
        | Action::KvCompareAndSet { target, .. }
        | Action::Redis { target, .. }
        | Action::RedisCall { target, .. } => match target {
            KvTarget::Cluster(name) => name,
            KvTarget::Keyspace(_) => return None,
        },
        Action::Versioned { target: KvTarget::Cluster(name), .. } => name,
        Action::TransferLeader { name, .. } => name,
        _ => return None,
    };
    name.tail().get(1..)?.parse().ok().map(|number: u64| ClusterId(FIRST_CLUSTER + number))
}

fn kind_of(request: &Request, cluster_time_ms: u64) -> Option<(ClusterId, LocalKind)> {
    let cluster = cluster_of(&request.action)?;
    let write = |backend, command: Bytes| LocalKind::Write {
        backend,
        command,
        consistency: request.consistency,
        request_id: request.request_id.unwrap_or(RequestId(0)),
        cluster_time_ms,
    };
    let read = |backend, query: Bytes| LocalKind::Read { backend, query, consistency: request.read_consistency };
    let metadata_write = |command: metadata::Command| write(BackendKind::Metadata, command.to_bytes());
    let kind = match request.action.clone() {
        Action::KvPut { key, value, .. } => metadata_write(metadata::Command::Put { scope: None, key, value }),
        Action::KvDelete { key, .. } => metadata_write(metadata::Command::Delete { scope: None, key }),
        Action::KvCompareAndSet { key, expected, value, .. } => {
            metadata_write(metadata::Command::CompareAndSet { scope: None, key, expected, value })
        }
        Action::KvBatch { steps, .. } => {
            let scoped = |step: BatchStep| metadata::ScopedStep { scope: None, step };
            metadata_write(metadata::Command::Batch { steps: steps.into_iter().map(scoped).collect() })
        }
        Action::KvGet { key, .. } => read(BackendKind::Metadata, metadata::Query::Get { scope: None, key }.to_bytes()),
        Action::KvScan { start_after, end, limit, reverse, keys_only, .. } => {
            let behind = |key: Bytes| Bytes::from([key.as_ref(), &[0]].concat());
            let (start, end) = match reverse {
                false => (start_after.map(behind).unwrap_or_default(), end),
                true => (Bytes::new(), start_after),
            };
            let scopes = metadata::ScanScopes::Plain;
            let query = metadata::Query::Scan { scopes, start, end, reverse, limit, bytes_max: PAGE_BYTES, keys_only };
            read(BackendKind::Metadata, query.to_bytes())
        }
        Action::Redis { command, .. } => match redis::is_read(&command)? {
            true => read(BackendKind::Redis, redis::Command(command).to_bytes()),
            false => write(BackendKind::Redis, redis::Command(command).to_bytes()),
        },
        Action::RedisCall { call, .. } => match call.read_only() {
            true => read(BackendKind::Redis, call.to_bytes()),
            false => write(BackendKind::Redis, call.to_bytes()),
        },
        Action::Versioned { call, .. } => match *call {
            VersionedCall::Change(command) => write(BackendKind::Versioned, command.to_bytes()),
            VersionedCall::Ask(query) => read(BackendKind::Versioned, query.to_bytes()),
        },
        Action::TransferLeader { node, .. } => LocalKind::Admin(AdminCommand::TransferLeader { node }),
        _ => return None,
    };
    Some((cluster, kind))
}

fn response_of(action: &Action, outcome: LocalOutcome) -> Response {
    let unavailable = |code, text: String| Err(Failure::from(Refusal::new(code, text)));
    match outcome {
        LocalOutcome::Written { reply, at, level, .. } => {
            let applied = level >= WriteConsistency::Strong;
            let result = if applied { decode(action, reply)? } else { ActionResult::Done };
            Ok(Answer { result, at: Some(at), level: Some(Level::Write(level)), cluster: None })
        }
        LocalOutcome::Read { reply, at, level, .. } => {
            Ok(Answer { result: decode(action, reply)?, at: Some(at), level: Some(Level::Read(level)), cluster: None })
        }
        LocalOutcome::CommittedNotAbsolute { reply, at, .. } => {
            decode(action, reply)?;
            let refusal = Refusal::new(ErrorCode::CommittedNotAbsolute, "committed, but not on every member");
            Err(Failure { refusal, at: Some(at), cluster: None })
        }
        LocalOutcome::CommittedNotKept { reply, at, .. } => {
            decode(action, reply)?;
            let refusal = Refusal::new(ErrorCode::CommittedNotInBucket, "committed, but in no bucket");
            Err(Failure { refusal, at: Some(at), cluster: None })
        }
        LocalOutcome::NotLeader { .. } => unavailable(ErrorCode::NotLeader, "ask another member".to_string()),
        LocalOutcome::NoSuchCluster => unavailable(ErrorCode::NoLeader, "not here".to_string()),
        LocalOutcome::StaleRoute { .. } => unavailable(ErrorCode::StaleRoute, "retry".to_string()),
        LocalOutcome::Refused(refusal) => Err(Failure::from(refusal)),
        LocalOutcome::Unknown { message } => Err(Failure::from(Refusal::new(ErrorCode::OutcomeUnknown, message))),
        LocalOutcome::Described(_) | LocalOutcome::Verified(_) | LocalOutcome::AdminDone { .. } => {
            Ok(done(ActionResult::Done))
        }
    }
}

fn decode(action: &Action, reply: Bytes) -> Result<ActionResult, Failure> {
    if matches!(action, Action::Redis { .. }) {
        return Ok(ActionResult::Redis { reply: decode_reply::<RedisReply>(reply)? });
    }
    if matches!(action, Action::RedisCall { .. }) {
        return Ok(ActionResult::RedisCall(decode_reply(reply)?));
    }
    if matches!(action, Action::Versioned { .. }) {
        return Ok(ActionResult::Versioned(Box::new(decode_reply(reply)?)));
    }
    Ok(match decode_reply::<metadata::Reply>(reply)? {
        metadata::Reply::Deleted { existed } => ActionResult::Deleted { existed },
        metadata::Reply::Value { value } => ActionResult::Value { value },
        metadata::Reply::Page { entries, more, .. } => {
            let next = more.then(|| entries.last().map(|(key, _)| key.clone())).flatten();
            ActionResult::Page { entries, next }
        }
        _ => ActionResult::Done,
    })
}
