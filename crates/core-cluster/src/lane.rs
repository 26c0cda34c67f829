//! The lane: all replicas of one core, their log, their engines, their clock.
//!
//! Always: what the lane counts of its replicas is their sum (`lane/checks.rs`). Each event passes time on as ticks before it
//! does anything else: a follower's promise is counted in ticks, and must not start late and end early. Only replicas that an
//! event touched are looked at; a quiescent replica costs nothing.
//! Held by: `broken_counts_break_an_invariant`, `a_leader_that_is_cut_off_serves_no_strong_read`.
//! Not here: how it starts (lane/opening.rs), what it reports (lane/views.rs), which clusters were destroyed
//! (tombstones.rs).

mod checks;
mod dirty_set;
mod lost_replicas;
mod opening;
mod recovery;
mod scrub;
mod views;

pub use opening::LaneError;

use crate::api::*;
use crate::context::{LaneContext, HAND_OVERS_A_TICK};
use crate::lane::dirty_set::DirtySet;
use crate::lane::lost_replicas::LostReplicas;
use crate::lane::scrub::Scrub;
use crate::meta::STATE_TOMBSTONES;
use crate::meta::{ReplicaRecord, FIRST_INDEX, FIRST_TERM, MEMBERS_MAX, STATE_REPLICA};
use crate::replica::apply::flush_engine;
use crate::replica::invariants;
use crate::replica::parked;
use crate::replica::reads::{Asker, WaitingRead};
use crate::replica::snapshot::Piece;
use crate::replica::upkeep;
use crate::replica::writes::Write;
use crate::replica::Replica;
use crate::storage::engine_jobs::ENGINE_JOBS_MAX;
use crate::storage::engine_jobs::{Ended, JobTarget};
use crate::storage::log_stall::Looked;
use crate::storage::tombstones::Tombstones;
use crate::wire::Payload;
use base_engine::EngineError;
use base_types::codec::Encode;
use base_types::mutant::{planted, Mutant};
use base_types::{ClusterId, ErrorCode, FormatLevel, Generation, LogIndex, NodeId, Refusal, SpaceId, Tick};
use bytes::Bytes;
use core_log::{BatchNumber, LogAction, SegmentId};
use core_raft::{HardState, MessageKind, Role, STATE_HARD};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What a gap between two turns counts at most for the time that request ids expire by.
const STEADY_GAP_MAX: Duration = Duration::from_millis(500);
/// Ticks handed on at once after a pause; the rest of the pause is skipped.
const TICKS_AT_ONCE_MAX: u64 = 64;

/// All clusters of one core.
pub struct Lane {
    pub(crate) context: LaneContext,
    /// Boxed: the map's nodes are half empty, and a replica is large.
    replicas: BTreeMap<ClusterId, Box<Replica>>,
    pub(crate) tombstones: Tombstones,
    /// Clusters whose replica's record rotted.
    pub(crate) lost: LostReplicas,
    /// To be looked at when the turn ends.
    dirty_set: DirtySet,
    /// Not quiet: these are ticked.
    awake: BTreeSet<ClusterId>,
    /// With something to write out.
    dirty: BTreeSet<ClusterId>,
    /// The same by age. An entry whose replica is dirty since another time counts no more.
    dirty_order: BTreeSet<(Tick, ClusterId)>,
    /// When replicas are to be looked at, awake or not (`Replica::alarm`).
    alarms: BTreeSet<(Tick, ClusterId)>,
    next_tick: Tick,
    /// Ticks so far.
    ticks: usize,
    /// Turns so far.
    turns: u64,
    /// The replica whose invariants were walked last.
    walked: ClusterId,
    /// The same of its backends' rows.
    walked_rows: ClusterId,
    pub(crate) scrub: Scrub,
}

impl Lane {
    fn add(&mut self, now: Tick, replica: Replica) {
        let cluster = replica.spec.cluster;
        if let Some(since) = replica.flushes.dirty_since() {
            self.dirty.insert(cluster);
            self.dirty_order.insert((since, cluster));
        }
        self.replicas.insert(cluster, Box::new(replica));
        self.wake(now, cluster);
    }

    /// Makes a replica; `Ok(false)`: it is already there. Durable with the next log batch.
    pub fn create_replica(&mut self, now: Tick, spec: ReplicaSpec) -> Result<bool, Refusal> {
        let here = self.replicas.get(&spec.cluster).map(|replica| (replica.spec.generation, replica.spec.replica));
        if here == Some((spec.generation, spec.replica)) {
            return Ok(false);
        }
        self.check_spec(&spec)?;
        if self.context.is_crowded() {
            let message = format!(
                "node {} still drops {ENGINE_JOBS_MAX} removed replicas and makes no new ones until then; retry later",
                self.context.config.node
            );
            return Err(Refusal::new(ErrorCode::Overloaded, message));
        }
        if !self.give_way(&spec) {
            let message = format!(
                "the records of an earlier replica of cluster {} rotted on this node; replica {} cannot take its place",
                spec.name, spec.replica
            );
            return Err(Refusal::new(ErrorCode::ReplicaRotted, message));
        }
        if let Some((_, replica)) = here {
            self.check_not_ended(&spec)?;
            if replica >= spec.replica {
                let message = format!("node holds replica {replica} of cluster {} already", spec.name);
                return Err(Refusal::new(ErrorCode::AlreadyAMember, message));
            }
            // A damaged or removed replica gives way to the new one that replaces it.
            self.remove(now, spec.cluster);
        } else if self.tombstones.holds(spec.cluster, spec.replica, spec.initial_members.is_empty()) {
            let message = format!("replica {} of cluster {} was destroyed on this node", spec.replica, spec.name);
            return Err(Refusal::new(ErrorCode::WrongGeneration, message));
        }
        let blank = spec.initial_members.is_empty();
        let record = ReplicaRecord::new(spec, self.context.new_space(), blank);
        self.stage_new(&record);
        let refused = |error: EngineError| Refusal::new(ErrorCode::ReplicaDamaged, error.to_string());
        let replica = Replica::open(&mut self.context, record, now).map_err(refused)?;
        self.add(now, replica);
        Ok(true)
    }

    /// The world's format level: what is written from now on.
    pub fn set_level(&mut self, level: FormatLevel) {
        self.context.config.level = level;
    }

    /// What could not be written down or read back is refused before anything is touched.
    fn check_spec(&self, spec: &ReplicaSpec) -> Result<(), Refusal> {
        let members: BTreeSet<_> = spec.initial_members.iter().map(|member| member.replica).collect();
        let sound = members.len() == spec.initial_members.len()
            && members.len() <= MEMBERS_MAX
            && (members.is_empty() || members.contains(&spec.replica));
        let record = ReplicaRecord::new(spec.clone(), SpaceId(0), false);
        let bytes = record.to_bytes().len();
        if !sound || bytes > self.context.log.borrow().state_bytes_max() {
            let message = format!(
                "cluster {} names {} members in {bytes} bytes; at most {MEMBERS_MAX}, each once and this one among them",
                spec.name,
                spec.initial_members.len()
            );
            return Err(Refusal::new(ErrorCode::InvalidRequest, message));
        }
        if !self.context.engines.contains_key(&*spec.engine) {
            let known: Vec<&str> = self.context.engines.keys().map(String::as_str).collect();
            let message = format!("engine '{}' is not in this node; it has {}", spec.engine, known.join(", "));
            return Err(Refusal::new(ErrorCode::UnknownEngine, message));
        }
        Ok(())
    }

    fn stage_new(&self, record: &ReplicaRecord) {
        let mut log = self.context.log.borrow_mut();
        let cluster = record.spec.cluster;
        log.put_state(cluster, STATE_REPLICA, record.kept_bytes());
        if !record.blank {
            let replica = record.spec.replica;
            let hard_state = HardState { term: FIRST_TERM, commit: FIRST_INDEX, replica, ..HardState::default() };
            log.compact(cluster, FIRST_INDEX, FIRST_TERM);
            log.put_state(cluster, STATE_HARD, hard_state.to_bytes());
        }
    }

    /// Removes a replica and its data (the space is dropped in the background). False: not here.
    pub fn destroy_replica(&mut self, now: Tick, cluster: ClusterId, generation: Generation) -> bool {
        let here = self.replicas.get(&cluster).is_some_and(|replica| replica.spec.generation == generation);
        if here {
            self.remove(now, cluster);
        }
        let lost = self.lost.get(&cluster).copied().flatten();
        if let Some(replica) = lost {
            self.forget_lost(cluster, replica);
        }
        here || lost.is_some()
    }

    fn remove(&mut self, _now: Tick, cluster: ClusterId) {
        let Some(mut replica) = self.replicas.remove(&cluster) else { return };
        replica.lose_leadership(&mut self.context);
        parked::fail(&mut replica, &mut self.context);
        self.alarms.remove(&(replica.alarm, cluster));
        replica.drop_admin(&mut self.context);
        replica.drop_incoming(&mut self.context);
        if !planted(Mutant::RemovedOverlayCounted) {
            self.context.statistics.overlay_bytes -= replica.counted_bytes;
        }
        self.context.awaiting_sync.retain(|wait| wait.cluster != cluster);
        self.dirty_set.remove(cluster);
        for set in [&mut self.awake, &mut self.dirty] {
            set.remove(&cluster);
        }
        let mut log = self.context.log.borrow_mut();
        self.tombstones.bury(cluster, replica.spec.replica, log.state_bytes_max());
        // In this order: between the two a crash leaves a replica that is there and buried, which is harmless.
        log.put_state(ClusterId(0), STATE_TOMBSTONES, self.tombstones.to_bytes());
        log.forget(cluster);
        drop(log);
        self.context.drop_space_later(&replica.spec.engine, replica.space);
        self.context.output.notices.push(Notice::Gone {
            cluster,
            name: replica.spec.name,
            replica: replica.spec.replica,
        });
    }

    /// Replicas that are so, each with its space.
    pub(crate) fn replicas_where(&self, is: &dyn Fn(&Replica) -> bool) -> Vec<(ClusterId, SpaceId)> {
        let found = self.replicas.iter().filter(|(_, replica)| is(replica));
        found.map(|(cluster, replica)| (*cluster, replica.space)).collect()
    }

    pub(crate) fn replica(&self, cluster: ClusterId) -> Option<&Replica> {
        self.replicas.get(&cluster).map(|replica| &**replica)
    }

    pub(crate) fn with_replica(&mut self, cluster: ClusterId, work: impl FnOnce(&mut LaneContext, &mut Replica)) {
        if let Some(replica) = self.replicas.get_mut(&cluster) {
            work(&mut self.context, replica);
        }
    }

    pub(crate) fn wake(&mut self, now: Tick, cluster: ClusterId) {
        self.dirty_set.insert(cluster);
        let Some(replica) = self.replicas.get_mut(&cluster) else { return };
        if self.awake.insert(cluster) {
            replica.idle_ticks = 0;
            if self.next_tick == Tick::NEVER {
                self.next_tick = now + Duration::from_millis(self.context.config.tick_ms);
            }
            if std::mem::take(&mut replica.quiesced) && replica.is_leader() {
                // In the quiet nobody had to answer: who is there says so now.
                replica.group.as_mut().expect("a leader has a group").ping();
            }
        }
    }

    /// One operation; its completion comes out of a later `finish_turn`.
    pub fn submit(&mut self, now: Tick, operation: LocalOperation) {
        self.run_ticks(now);
        let LocalOperation { ticket, cluster, generation, deadline, kind } = operation;
        if self.context.storage_failed {
            let node = self.context.config.node;
            let message = format!("node {node} has lost its log's disk and answers nothing more");
            let refusal = Refusal::new(ErrorCode::DiskFailed, message);
            return self.context.complete(ticket, LocalOutcome::Refused(refusal));
        }
        let here = self.replicas.get(&cluster).is_some_and(|replica| replica.is_of_life(generation));
        if !here {
            return self.context.complete(ticket, LocalOutcome::NoSuchCluster);
        }
        let default = self.replicas.get(&cluster).map(|replica| replica.meta.read_consistency);
        let level = match &kind {
            LocalKind::Read { consistency, .. } => consistency.or(default),
            _ => None,
        };
        if level == Some(base_types::ReadConsistency::Eventual) {
            // Served from what is applied: a quiet cluster stays quiet.
            self.dirty_set.insert(cluster);
        } else {
            self.wake(now, cluster);
            self.replicas.get_mut(&cluster).into_iter().for_each(|replica| replica.idle_ticks = 0);
        }
        let replica = self.replicas.get_mut(&cluster).expect("looked up above");
        let context = &mut self.context;
        match kind {
            LocalKind::Write { backend, command, consistency, request_id, cluster_time_ms } => {
                let write = Write { backend: backend as u8, command, consistency, request_id, cluster_time_ms };
                replica.submit_write(context, now, ticket, deadline, write);
            }
            LocalKind::Read { backend, query, consistency } => {
                replica.submit_read(
                    context,
                    now,
                    WaitingRead { asker: Asker::Client(ticket), deadline, backend, query },
                    consistency,
                );
            }
            LocalKind::Admin(command) => replica.submit_admin(context, now, ticket, deadline, command),
        }
    }

    /// A payload from a peer's replica.
    pub fn on_peer_message(
        &mut self,
        now: Tick,
        from: NodeId,
        cluster: ClusterId,
        generation: Generation,
        payload: Bytes,
    ) {
        self.run_ticks(now);
        if self.context.storage_failed {
            return;
        }
        if self.on_message_for_lost(from, cluster, generation, &payload) {
            return;
        }
        let known = self.replicas.get(&cluster).is_some_and(|replica| replica.is_of_life(generation));
        if !known {
            if self.on_message_of_another_life(now, from, cluster, generation, &payload) {
                return;
            }
            self.context.output.notices.push(Notice::UnknownCluster { from, cluster, generation });
            return;
        }
        // What does not decode is dropped: the sender repeats it or is at fault.
        if let Ok(payload) = Payload::from_bytes(payload) {
            self.on_payload(now, from, cluster, payload);
        }
    }

    fn on_payload(&mut self, now: Tick, from: NodeId, cluster: ClusterId, payload: Payload) {
        if let Payload::Quiesce { from: leader, to, term, commit } = payload {
            return self.on_quiesce(now, cluster, leader, to, term, commit);
        }
        if let Payload::LifeOver { by } = payload {
            self.end_life(now, cluster, by);
            return;
        }
        if let Payload::Kept { from, index, order } = payload {
            // Wakes nobody: where a write waits for it, the leader is awake.
            let replica = self.replicas.get_mut(&cluster).expect("known");
            return replica.on_kept(&mut self.context, now, from, index, order);
        }
        if self.is_late_answer(cluster, &payload) {
            self.dirty_set.insert(cluster);
        } else {
            self.wake(now, cluster);
        }
        let replica = self.replicas.get_mut(&cluster).expect("known");
        let context = &mut self.context;
        let payload = match payload {
            Payload::Sampled { samples, message } => {
                replica.on_samples(context, now, message.from(), samples);
                Payload::Raft(message)
            }
            payload => payload,
        };
        match payload {
            Payload::Raft(message) => Lane::on_raft(context, replica, now, from, message),
            Payload::SnapshotChunk { to, snapshot, sequence, data, last } => {
                if to == replica.spec.replica && replica.group.is_some() {
                    replica.on_snapshot_chunk(context, now, from, Piece { snapshot, sequence, data, last });
                }
            }
            Payload::SnapshotAck { from: follower, snapshot, next, done } => {
                replica.on_snapshot_ack(context, now, follower, snapshot, next, done);
            }
            Payload::RepairRequest { from: asking, holes } => replica.on_repair_request(context, from, asking, holes),
            Payload::RepairReply { from: member, answers } => replica.on_repair_reply(context, member, answers),
            Payload::Lost { from: lost } => replica.replace_lost(context, now, from, lost),
            Payload::FloorAsk { life } => replica.on_floor_ask(context, now, from, life),
            // The replica it was asked for has come in the meantime.
            Payload::FloorTold { .. } => {}
            Payload::Contradicts { to, term, index } => replica.on_contradicts(context, to, term, index),
            Payload::Stuck { from: member, index } => replica.on_stuck(context, now, from, member, index),
            Payload::Passed { from: member, index } => replica.on_passed(now, member, index),
            Payload::Removed { replica: removed } => {
                if removed == replica.spec.replica && !replica.is_leader() {
                    replica.removed = true;
                }
            }
            Payload::PairsRequest { from: asking, keys } => replica.on_pairs_request(context, from, asking, keys),
            Payload::VerifyAsk { mark } => replica.on_verify_ask(context, from, mark),
            Payload::VerifyTold { from: member, mark, told } => {
                replica.verification.on_told(now, member, mark, told);
            }
            Payload::PairsReply { from: member, pairs } => replica.on_pairs_reply(context, now, member, pairs),
            Payload::Verdict { to, term, about, value } => replica.on_verdict(context, to, term, about, value),
            Payload::Quiesce { .. } | Payload::Kept { .. } | Payload::Sampled { .. } | Payload::LifeOver { .. } => {
                unreachable!("handled above")
            }
        }
    }

    /// Answers to a quiet leader's last heartbeats do not wake it.
    fn is_late_answer(&self, cluster: ClusterId, payload: &Payload) -> bool {
        let (Payload::Raft(message) | Payload::Sampled { message, .. }) = payload else { return false };
        let answer = matches!(message.kind(), MessageKind::HeartbeatResponse | MessageKind::AppendResponse);
        answer
            && !message.is_reject()
            && self
                .replicas
                .get(&cluster)
                .is_some_and(|replica| replica.quiesced && replica.is_leader() && replica.term() == message.term())
    }

    fn on_raft(context: &mut LaneContext, replica: &mut Replica, now: Tick, from: NodeId, message: core_raft::Message) {
        let to = message.to();
        if to != replica.spec.replica {
            // Meant for the replica that was here before, or will be: it does not exist.
            if to > replica.spec.replica {
                let (cluster, generation) = (replica.spec.cluster, replica.spec.generation);
                context.output.notices.push(Notice::UnknownCluster { from, cluster, generation });
            }
            return;
        }
        let sender = message.from();
        let votes = matches!(message.kind(), MessageKind::RequestVote | MessageKind::RequestPreVote);
        if votes {
            // It knows no term, no vote and no entry of its cluster until a snapshot has told it.
            if replica.blank && !planted(Mutant::BlankReplicaVotes) {
                return;
            }
            if replica.is_stranger(sender) {
                // It was removed and has not noticed; its elections would disturb for ever.
                return replica.send(context, from, &Payload::Removed { replica: sender });
            }
            if now < context.no_vote_until && !message.is_forced_campaign() {
                return;
            }
        }
        if replica.ignores_hand_over(context, message.kind()) {
            return;
        }
        if message.kind() == MessageKind::Snapshot {
            // Snapshots come in chunks; a bare one would install nothing.
            return;
        }
        if replica.meta.node_of(sender).is_none() {
            replica.heard_from.insert(sender, from);
            while replica.heard_from.len() > crate::meta::MEMBERS_MAX {
                replica.heard_from.pop_first();
            }
        }
        if matches!(message.kind(), MessageKind::Append | MessageKind::Heartbeat) {
            replica.silent_ticks = 0;
        }
        if replica.leading.is_some() && replica.meta.node_of(sender).is_some() {
            replica.answered.insert(sender, now);
        }
        if replica.has_lost_what_it_acknowledged(&message) {
            let text = format!(
                "its leader counts on its log up to {}, but it ends at {}: acknowledged entries rotted at its end",
                message.commit(),
                replica.group.as_ref().map_or(LogIndex(0), |group| group.last_index())
            );
            return replica.damage(context, text);
        }
        if replica.gives_way_to_its_leader(context, &message) {
            return;
        }
        replica.send_contradiction(context, from, &message);
        let takes_more = message.kind() != MessageKind::Append || !context.is_pressed(8);
        if takes_more {
            replica.step_group(context, message);
        }
    }

    fn on_quiesce(
        &mut self,
        now: Tick,
        cluster: ClusterId,
        leader: base_types::ReplicaId,
        to: base_types::ReplicaId,
        term: base_types::Term,
        commit: LogIndex,
    ) {
        let Some(replica) = self.replicas.get_mut(&cluster) else { return };
        let Some(group) = replica.group.as_ref() else { return };
        let agrees = to == replica.spec.replica
            && group.role() == Role::Follower
            && group.term() == term
            && group.leader() == Some(leader)
            && ((group.commit() == commit && group.last_index() == commit) || planted(Mutant::QuiesceWhileBehind))
            && !replica.is_busy();
        let leader_up = replica.leader_node().is_some_and(|node| !self.context.down.contains(&node));
        if agrees && leader_up {
            replica.quiet_since = now;
            replica.fall_quiet(&self.context);
            self.awake.remove(&cluster);
        }
    }

    /// The node cannot be reached: quiet clusters it leads wake up and elect.
    pub fn on_peer_down(&mut self, now: Tick, node: NodeId) {
        self.run_ticks(now);
        if !self.context.down.insert(node) {
            return;
        }
        let led: Vec<ClusterId> = self
            .replicas
            .iter()
            .filter(|(_, replica)| replica.quiesced && replica.leader_node() == Some(node))
            .map(|(cluster, _)| *cluster)
            .collect();
        // By time their promise to the leader is over; their ticks were not counted meanwhile.
        let promise =
            Duration::from_millis(self.context.config.tick_ms * (self.context.config.election_ticks as u64 + 1));
        for cluster in led {
            let replica = self.replicas.get_mut(&cluster).expect("found above");
            if now.since(replica.quiet_since) >= promise {
                replica.group.as_mut().into_iter().for_each(core_raft::Group::end_promise);
            }
            self.wake(now, cluster);
        }
    }

    /// The node answers again: clusters that fell quiet without it have it catch up.
    pub fn on_peer_up(&mut self, now: Tick, node: NodeId) {
        self.run_ticks(now);
        self.context.down.remove(&node);
        let with_it: Vec<ClusterId> = self
            .replicas
            .iter()
            .filter(|(_, replica)| replica.quiesced && replica.is_leader() && replica.meta.member_on(node).is_some())
            .map(|(cluster, _)| *cluster)
            .collect();
        for cluster in with_it {
            self.wake(now, cluster);
        }
        self.tell_of_new_lives(node);
    }

    /// A log batch is durable.
    pub fn on_log_written(&mut self, now: Tick, batch: BatchNumber) {
        self.run_ticks(now);
        self.context.stall.end();
        self.context.log.borrow_mut().on_written(batch);
        self.on_synced(now);
    }

    /// Continues what waited for the log.
    fn on_synced(&mut self, now: Tick) {
        self.context.drop_spaces();
        let synced = self.context.log.borrow().synced();
        while self.context.awaiting_sync.front().is_some_and(|wait| wait.batch <= synced) {
            let wait = self.context.awaiting_sync.pop_front().expect("a front was seen");
            let Some(replica) = self.replicas.get_mut(&wait.cluster).filter(|r| r.life == wait.life) else { continue };
            replica.on_synced(&mut self.context, now, wait.number, wait.messages);
            self.dirty_set.insert(wait.cluster);
        }
    }

    /// A segment is prewritten.
    pub fn on_log_segment_ready(&mut self, now: Tick, segment: SegmentId) {
        self.run_ticks(now);
        self.context.log.borrow_mut().on_segment_ready(segment);
    }

    /// A segment could not be made for want of room: the log waits, new writes are refused meanwhile.
    pub fn on_log_segment_failed(&mut self, now: Tick, segment: SegmentId) {
        self.run_ticks(now);
        self.context.log.borrow_mut().on_segment_failed(segment);
    }

    /// A log write failed: nothing is acknowledged any more.
    pub fn on_log_failed(&mut self, now: Tick, message: &str) {
        self.run_ticks(now);
        self.fail_log(now, message);
    }

    fn fail_log(&mut self, now: Tick, message: &str) {
        self.context.stall.end();
        self.context.log.borrow_mut().on_failed();
        if planted(Mutant::FailedSyncRetried) {
            return self.on_synced(now);
        }
        self.context.fail_storage(format!("log: {message}"));
        for replica in self.replicas.values_mut() {
            replica.lose_leadership(&mut self.context);
            parked::fail(replica, &mut self.context);
        }
    }

    /// An engine job ended.
    pub fn on_engine_done(&mut self, now: Tick, job: u64, result: Result<EngineAnswer, EngineError>) {
        self.run_ticks(now);
        let ended = match self.context.jobs.on_done(now, job, result) {
            Ok(ended) => ended,
            Err((engine, error)) => return self.context.fail_engine(&engine, error.to_string()),
        };
        match ended {
            None | Some(Ended { target: JobTarget::Drop | JobTarget::Forget, .. }) => {}
            Some(Ended { target: JobTarget::Verify, verified, .. }) => {
                if let Some((engine, found)) = verified {
                    self.on_verified(now, &engine, found);
                }
            }
            Some(Ended { target: JobTarget::Flush(points), .. }) => {
                let (mut written, mut engine) = (Vec::new(), None);
                for (cluster, space, point) in points {
                    if let Some(replica) = self.replicas.get_mut(&cluster) {
                        written.extend(replica.on_flushed(&mut self.context, space, point));
                        engine.get_or_insert_with(|| replica.spec.engine.clone());
                        replica.on_kept_here(&mut self.context, now);
                        self.dirty_set.insert(cluster);
                    }
                }
                if let Some(engine) = engine {
                    self.context.jobs.forget(&engine, written);
                }
            }
            Some(Ended { target: JobTarget::Staging { cluster, snapshot }, written, .. }) => {
                if let Some(replica) = self.replicas.get_mut(&cluster) {
                    replica.on_staged(&mut self.context, now, snapshot, written);
                    self.dirty_set.insert(cluster);
                }
            }
        }
    }

    /// The disk is (no longer) too full for writes.
    pub fn set_disk_full(&mut self, full: bool) {
        self.context.disk_full = full;
    }

    /// The node is (no longer) drained, or about to stop: its leaders hand over to members that can lead, and it takes no
    /// leadership over. It leads on where nobody else can. Not kept: a restarted node is not drained.
    pub fn set_leads_nothing(&mut self, now: Tick, leads_nothing: bool) {
        self.run_ticks(now);
        self.context.leads_nothing = leads_nothing;
        let led = self.replicas.iter().filter(|(_, replica)| leads_nothing && replica.leads_others());
        let led: Vec<ClusterId> = led.map(|(cluster, _)| *cluster).collect();
        // Quiet ones have no ticks to hand over in.
        led.into_iter().for_each(|cluster| self.wake(now, cluster));
    }

    /// Time has passed.
    pub fn on_timer(&mut self, now: Tick) {
        self.run_ticks(now);
    }

    fn run_ticks(&mut self, now: Tick) {
        self.context.buggify.on_time(now);
        let gap = now.since(self.context.last_turn).min(STEADY_GAP_MAX);
        self.context.steady += gap;
        self.context.last_turn = now;
        self.look_at_log(now);
        let tick = Duration::from_millis(self.context.config.tick_ms);
        let mut handed_on = 0;
        while self.next_tick <= now {
            if handed_on >= TICKS_AT_ONCE_MAX {
                self.next_tick = now + tick;
                break;
            }
            let at = self.next_tick;
            self.next_tick = at + tick;
            handed_on += 1;
            self.tick_all(now);
        }
        if self.awake.is_empty() {
            self.next_tick = Tick::NEVER;
        }
        self.ring_alarms(now);
    }

    /// Looks at replicas whose alarm has come; a quiet leader with something to propose wakes up.
    fn ring_alarms(&mut self, now: Tick) {
        while let Some((_, cluster)) = self.alarms.first().copied().filter(|(at, _)| *at <= now) {
            self.alarms.pop_first();
            let Some(replica) = self.replicas.get_mut(&cluster) else { continue };
            replica.alarm = Tick::NEVER;
            self.dirty_set.insert(cluster);
            if upkeep::is_due(replica, now) {
                self.wake(now, cluster);
            }
        }
    }

    fn set_alarm(&mut self, cluster: ClusterId, at: Tick) {
        let Some(replica) = self.replicas.get_mut(&cluster).filter(|replica| replica.alarm != at) else { return };
        let before = std::mem::replace(&mut replica.alarm, at);
        self.alarms.remove(&(before, cluster));
        if at != Tick::NEVER {
            self.alarms.insert((at, cluster));
        }
    }

    /// Looks at the log's write that is under way, if one is.
    fn look_at_log(&mut self, now: Tick) {
        let times = self.context.stall_times();
        match self.context.stall.look(now, times) {
            Looked::Well | Looked::StillStalls => {}
            Looked::Stalls => self.context.statistics.log_stalls += 1,
            Looked::Failed(after) => {
                let ms = after.as_millis();
                self.fail_log(
                    now,
                    &format!("a log write has been under way for {ms} ms without an answer from the disk"),
                );
            }
        }
    }

    fn tick_all(&mut self, now: Tick) {
        let awake: Vec<ClusterId> = self.awake.iter().copied().collect();
        let phase = self.ticks % self.context.config.heartbeat_ticks.max(1);
        self.ticks = self.ticks.wrapping_add(1);
        self.context.hand_overs_left = HAND_OVERS_A_TICK;
        self.check_the_next(now);
        for cluster in awake {
            let Some(replica) = self.replicas.get_mut(&cluster) else { continue };
            let context = &mut self.context;
            replica.expire(context, now);
            if context.storage_failed {
                continue;
            }
            if let Some(group) = replica.group.as_mut() {
                group.align_heartbeats(phase);
                group.tick();
            }
            replica.silent_ticks = replica.silent_ticks.saturating_add(1);
            replica.ask_whether_member(context);
            replica.hand_over_if_unfit(context, now);
            replica.promote_learners(context, now);
            replica.maybe_stray_transfer(context);
            replica.holds_back = false;
            replica.tick_snapshots(context, now);
            replica.tick_repair(context, now);
            replica.tick_mending(context, now);
            replica.tick_quarantine(context, now);
            replica.judge(context, now);
            replica.begin_missing_chain(context, now);
            replica.tick_walk(context);
            replica.tick_verification(context, now);
            replica.forget_before_quiet(context, now);
            replica.tick_tail(context, self.ticks);
            let due = upkeep::is_due(replica, now);
            let busy = due || replica.is_busy();
            replica.idle_ticks = if busy { 0 } else { replica.idle_ticks.saturating_add(1) };
            // What a tick has made dirty would miss the flush that it asks for.
            let news = replica.flushes.dirty_since().is_some_and(|since| !self.dirty_order.contains(&(since, cluster)));
            // A tick alone gives most replicas nothing to do.
            if news || busy || replica.wants_a_look() || replica.idle_ticks >= context.config.quiesce_after_ticks {
                self.dirty_set.insert(cluster);
            }
        }
    }

    /// A leader whose members all have everything becomes quiescent and says so.
    fn maybe_quiesce(context: &mut LaneContext, now: Tick, replica: &mut Replica, awake: &mut BTreeSet<ClusterId>) {
        if replica.quiesced || replica.leading.is_none() || replica.idle_ticks < context.config.quiesce_after_ticks {
            return;
        }
        // What it waits for may have begun since the last tick counted it as idle, and without ticks nothing of it ends
        // (a snapshot whose last acknowledgement was lost: simulator, 6086).
        if replica.is_busy() || upkeep::is_due(replica, now) {
            return;
        }
        let Some(group) = replica.group.as_ref() else { return };
        let commit = group.commit();
        let whole = replica.meta.membership.learners.is_empty()
            && !replica.meta.membership.is_joint()
            && !group.change_pending()
            && !group.is_transferring()
            && group.last_index() == commit
            && replica.meta.applied == commit
            && group.committed_in_own_term();
        let down = &context.down;
        let caught_up = replica.meta.members.iter().all(|member| {
            down.contains(&member.node)
                || planted(Mutant::QuiesceWhileBehind)
                || group.matched_on_all(&[member.replica]) >= commit
        });
        if !whole || !caught_up || replica.remembers_much(context) {
            return;
        }
        let (own, term) = (replica.spec.replica, group.term());
        replica.tell_commit(context, now);
        let others: Vec<Member> = replica.meta.members.iter().copied().filter(|m| m.replica != own).collect();
        for member in others {
            let payload = Payload::Quiesce { from: own, to: member.replica, term, commit };
            replica.send(context, member.node, &payload);
        }
        replica.fall_quiet(context);
        awake.remove(&replica.spec.cluster);
    }

    /// Ends a turn: proposals become entries, Raft is made ready, log and engine get their work.
    pub fn finish_turn(&mut self, now: Tick) -> LaneOutput {
        self.run_ticks(now);
        let mut taken = self.dirty_set.take();
        for cluster in taken.drain(..) {
            self.finish_replica(now, cluster);
        }
        self.dirty_set.give_back(taken);
        self.flush_if_due(now);
        checks::walk_a_part(self);
        let mut output = std::mem::take(&mut self.context.output);
        output.log = self.context.log.borrow_mut().poll(now);
        if output.log.iter().any(|action| matches!(action, LogAction::Write { .. })) {
            self.context.stall.begin(now);
        }
        self.scrub.poll(now, &mut self.context.jobs);
        self.context.jobs.poll(now, &mut output.engine);
        output
    }

    fn finish_replica(&mut self, now: Tick, cluster: ClusterId) {
        let Some(replica) = self.replicas.get_mut(&cluster) else { return };
        let processed = !self.context.storage_failed;
        if processed {
            replica.process(&mut self.context, now);
        }
        // Behind the turn's heartbeats, or these would wake whom it has put to sleep.
        Lane::maybe_quiesce(&mut self.context, now, replica, &mut self.awake);
        replica.hibernate(&self.context);
        let alarm = if processed { replica.next_alarm(now) } else { Tick::NEVER };
        let bytes = replica.overlay.bytes();
        let total = &mut self.context.statistics.overlay_bytes;
        *total = *total + bytes - replica.counted_bytes;
        replica.counted_bytes = bytes;
        if let Some(since) = replica.flushes.dirty_since() {
            self.dirty.insert(cluster);
            self.dirty_order.insert((since, cluster));
        }
        if (processed && replica.has_more_behind()) || (!processed && replica.has_more()) {
            self.dirty_set.insert(cluster);
        }
        if replica.removed {
            return self.remove(now, cluster);
        }
        invariants::after_turn(replica, &mut self.context);
        let undecided = replica.mending.is_some() || replica.is_undecided();
        self.set_alarm(cluster, alarm);
        // What an eventual read of a quiet one has met: it is mended by ticks.
        if undecided && !self.awake.contains(&cluster) {
            self.wake(now, cluster);
        }
    }

    fn flush_if_due(&mut self, now: Tick) {
        let soon = std::mem::take(&mut self.context.flush_soon);
        let pressed = self.context.log.borrow().wants_compaction();
        for cluster in &pressed {
            if let Some(replica) = self.replicas.get_mut(cluster) {
                replica.compact_log(&mut self.context, true);
            }
        }
        let (bytes, age) = self.context.flush_at();
        let due = soon
            || self.context.statistics.overlay_bytes >= bytes
            || pressed.iter().any(|cluster| self.dirty.contains(cluster))
            || self.oldest_dirty().is_some_and(|since| now.since(since) >= age);
        if !due {
            return;
        }
        let engines: Vec<String> = self.context.engines.keys().cloned().collect();
        for engine in engines {
            if self.context.jobs.is_flushing(&engine) {
                continue;
            }
            let mut replicas: Vec<&mut Replica> = self
                .replicas
                .iter_mut()
                .filter(|(cluster, replica)| {
                    self.dirty.contains(cluster) && *replica.spec.engine == *engine && replica.is_dirty()
                })
                .map(|(_, replica)| &mut **replica)
                .collect();
            if replicas.is_empty() {
                continue;
            }
            flush_engine(&mut self.context, &engine, &mut replicas);
        }
        let replicas = &self.replicas;
        let since = |cluster: &ClusterId| replicas.get(cluster).and_then(|replica| replica.flushes.dirty_since());
        self.dirty.retain(|cluster| since(cluster).is_some() && !planted(Mutant::DirtyForgotten));
        self.dirty_order.retain(|(at, cluster)| since(cluster) == Some(*at));
    }

    /// Asked twice a turn: it must not walk all that is dirty.
    fn oldest_dirty(&self) -> Option<Tick> {
        let counts =
            |at: Tick, cluster| self.replicas.get(cluster).is_some_and(|held| held.flushes.dirty_since() == Some(at));
        self.dirty_order.iter().find(|(at, cluster)| counts(*at, cluster)).map(|(at, _)| *at)
    }

    /// When `on_timer` should be called at the latest.
    pub fn next_wake(&self) -> Tick {
        if !self.dirty_set.is_empty() {
            return Tick(0);
        }
        let (_, age) = self.context.flush_at();
        let flush = self.oldest_dirty().map_or(Tick::NEVER, |since| since + age);
        // A flush that is out already is not waited for by the clock.
        let flush = if self.context.jobs.is_any_flushing() { Tick::NEVER } else { flush };
        let log = self.context.log.borrow().next_wake();
        let log = log.min(self.context.stall.next_look(Duration::from_millis(self.context.config.tick_ms)));
        let alarm = self.alarms.first().map_or(Tick::NEVER, |(at, _)| *at);
        self.next_tick.min(flush).min(log).min(alarm).min(self.context.jobs.next_wake()).min(self.scrub.next_wake())
    }

    /// Whether an engine found no room for a flush.
    pub fn is_starved(&self) -> bool {
        self.context.jobs.is_starved()
    }

    /// The last batch of the log that is durable: never less in a later life on the same disk.
    pub fn durable_batch(&self) -> BatchNumber {
        self.context.log.borrow().synced()
    }

    /// The batch of the log that holds the record staged last.
    pub fn staged_batch(&self) -> BatchNumber {
        self.context.log.borrow().staged()
    }
}
