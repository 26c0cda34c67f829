//! One replica: its Raft member, its applied state, and what waits on it.
//!
//!   blank ──snapshot──▶ running ──rot──▶ repairing ──mended──▶ running
//!                          │                 └──cannot──▶ damaged (asks to be replaced)
//!                          └──idle──▶ quiesced ──anything──▶ running
//!
//! Always: a proposed write is in `proposed` until its entry is applied or leadership is lost (`invariants.rs`; mutants
//! `AnsweredWritesCounted`, `AbsoluteWaitsKept`). Messages that promise something wait in `LaneContext::awaiting_sync`
//! (mutants `AckBeforeSync`, `VoteNotPersisted`).
//! Not here: clients' writes (writes.rs), applying (apply.rs), reads (reads.rs, parked.rs), a leader's own entries (upkeep.rs), members (admin.rs), snapshots (snapshot.rs),
//! writes that wait for a bucket (archive_ack.rs), what members say to each other (exchange.rs), what the replicas of a lane
//! share (lane.rs).

pub mod admin;
pub mod apply;
pub mod archive_ack;
pub mod chain;
mod commit_time;
mod contradiction;
mod dedup_gc;
mod exchange;
pub mod flush;
pub mod invariants;
mod leader_handoff;
pub mod leadership;
pub mod life;
pub mod log_repair;
pub mod parked;
pub mod quarantine;
pub mod reads;
pub mod request_ids;
pub mod snapshot;
pub mod upkeep;
pub mod value_repair;
pub mod verify;
pub mod writes;

use crate::api::*;
use crate::buggify::Point;
use crate::context::{AwaitingSync, LaneContext};
use crate::meta::{ClusterMeta, Recovered, ReplicaRecord, FIRST_INDEX, MEMBERS_MAX, META_KEY, STATE_REPLICA};
use crate::replica::admin::AdminWaits;
use crate::replica::archive_ack::ArchiveAcks;
use crate::replica::chain::Chain;
use crate::replica::commit_time::CommitTime;
use crate::replica::flush::Flushes;
use crate::replica::leader_handoff::Handoff;
use crate::replica::leadership::LeadershipNews;
use crate::replica::log_repair::LogRepair;
use crate::replica::parked::Parked;
use crate::replica::quarantine::{contained, Quarantine};
use crate::replica::reads::Reads;
use crate::replica::request_ids::RequestIds;
use crate::replica::snapshot::Snapshots;
use crate::replica::upkeep::Upkeep;
use crate::replica::value_repair::ValueRepair;
use crate::replica::verify::Verification;
use crate::replica::writes::{AbsoluteWait, Proposed, StagedWrite, PENDING_WRITES_MAX};
use crate::storage::overlay::{Overlay, View};
use crate::wire::Payload;
use base_engine::{Engine, EngineError};
use base_types::codec::Encode;
use base_types::mutant::{planted, Mutant};
use base_types::sizes::Sizes;
use base_types::{
    ErrorCode, Generation, LogIndex, NodeId, OrderedAt, Refusal, ReplicaId, SpaceId, Term, Tick, WriteConsistency,
};
use bytes::Bytes;
use core_log::{BatchNumber, LogEntry};
use core_raft::{Group, GroupConfig, GroupReady, Message, MessageKind, Role, SnapshotPoint};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Rounds of make-ready in one turn; the rest follows in the next.
const READY_ROUNDS_MAX: usize = 16;

/// Replicas that came to lead, kept for who watches until they are taken (after every turn).
const WON_MAX: usize = 1 << 16;

/// One replica.
pub struct Replica {
    pub spec: ReplicaSpec,
    pub space: SpaceId,
    pub blank: bool,
    pub engine: Arc<dyn Engine>,
    pub group: Option<Group>,
    /// Counts the groups made for this replica.
    pub life: u64,
    /// Readies of this life that wait for the log.
    pub unsynced: u32,
    pub meta: ClusterMeta,
    pub overlay: Overlay,
    pub request_ids: RequestIds,
    pub staged: Vec<StagedWrite>,
    pub proposed: VecDeque<Proposed>,
    commit_time: CommitTime,
    pub pending_writes: usize,
    /// An entry up to here may make later writes be refused; `MAX`: it waits to be proposed.
    pub unsure_until: LogIndex,
    pub absolute: Vec<AbsoluteWait>,
    /// What buckets hold, and writes that wait for them.
    pub tails: ArchiveAcks,
    /// The library had nothing more to hand out, and was asked for nothing since (within a turn).
    drained: bool,
    pub reads: Reads,
    /// Reads that wait for a change.
    pub parked: Parked,
    /// What it proposes by itself, while leading.
    pub upkeep: Upkeep,
    /// Spaces that were changed since the turn last looked, a bit for each backend.
    pub touched: u16,
    /// When its lane is to look at it, whether it is awake or not.
    pub alarm: Tick,
    pub admin: AdminWaits,
    pub snapshots: Snapshots,
    pub repair: Option<Box<LogRepair>>,
    /// Pairs that read as damaged, while they are mended.
    pub mending: Option<Box<ValueRepair>>,
    /// Those that are damaged on every member.
    pub lost_pairs: BTreeSet<Bytes>,
    /// It cannot apply an entry, or is not to be trusted: it serves nothing (quarantine.rs).
    pub quarantine: Option<Box<Quarantine>>,
    /// Which command of the entry is being applied.
    pub applying: usize,
    /// A hash of what the entry that is being applied has changed.
    pub changes: u64,
    /// What is compared with the other members.
    chain: Chain,
    /// A mark in the entry that is being applied.
    pub marked: Option<u64>,
    /// Pairs that are checked, and the verification that it leads.
    pub verification: Verification,
    pub damaged: Option<Box<str>>,
    pub damage_told: Tick,
    /// Leading: who asked to be replaced and could not be yet, and when it last asked.
    pub lost_asks: Option<(NodeId, ReplicaId, Tick)>,
    pub quiesced: bool,
    /// When its leader told it to be quiet.
    pub quiet_since: Tick,
    /// Leadership goes to whose disk has room, if anybody's.
    handoff: Handoff,
    /// What is to be told of who leads.
    leadership: LeadershipNews,
    pub idle_ticks: u32,
    /// The last membership entry applied, as far as this run knows.
    pub membership_at: LogIndex,
    /// Ticks since a leader's message.
    pub silent_ticks: u32,
    /// What the engine holds durably, and what it does not yet.
    pub flushes: Flushes,
    /// The term it leads in, once it has noticed.
    pub leading: Option<Term>,
    /// The cluster's time while leading: this much at that moment.
    pub time_base: (u64, Tick),
    /// The ids' time while leading: this much when the lane had run so long.
    pub id_base: (u64, Duration),
    /// When members last said anything to this leader.
    pub answered: BTreeMap<ReplicaId, Tick>,
    /// Where replicas that are not (yet) in `meta.members` were heard from.
    pub heard_from: BTreeMap<ReplicaId, NodeId>,
    /// Leader, members and whose replicas are to be replaced, as last noticed.
    pub told: Option<(Option<NodeId>, Arc<[Member]>, ReplicaId)>,
    /// Removed from the configuration: to be destroyed by the lane.
    pub removed: bool,
    /// It began this life without a majority (life.rs).
    pub recovered: Option<Recovered>,
    /// A later life has begun without it: it is `damaged` too, and kept until it is discarded. Zero: none.
    pub ended: Generation,
    /// What this replica last added to the lane's overlay total.
    pub counted_bytes: u64,
    /// What it had applied when somebody last asked how busy it is.
    looked_at: Cell<LogIndex>,
    /// Committed and held back (`Point::LateApply`): to be applied in front of what is committed next.
    pub late: Vec<LogEntry>,
    /// Until the next tick it is.
    pub holds_back: bool,
}

impl Replica {
    /// A replica of a record; its state is read from the engine, its group made if the log is whole.
    pub fn open(lane: &mut LaneContext, mut record: ReplicaRecord, now: Tick) -> Result<Replica, EngineError> {
        let engine = lane.engines.get(&*record.spec.engine).cloned().ok_or_else(|| {
            EngineError::WrongFormat(format!(
                "cluster {} is kept in engine {}, which this build does not have; start a build that has it",
                record.spec.name, record.spec.engine
            ))
        })?;
        let stored = engine.get(record.space, META_KEY)?;
        let mut meta = match stored {
            Some(bytes) => ClusterMeta::from_bytes(bytes)
                .map_err(|error| EngineError::Corrupt(format!("meta of cluster {}: {error}", record.spec.name)))?,
            None => ClusterMeta::initial(&record.spec),
        };
        lane.interner.share_spec(&mut record.spec);
        meta.begin_with(&record, lane.own_member(record.spec.replica));
        lane.interner.share_meta(&mut meta);
        let durable = SnapshotPoint {
            index: if engine.durable_index(record.space)? == meta.applied { meta.applied } else { LogIndex(0) },
            term: meta.applied_term,
            membership: meta.membership.clone(),
        };
        let was_damaged = record.damaged;
        let mut replica = Replica::empty(record, engine, meta, durable, now);
        replica.overlay = Overlay::new(lane.config.keep);
        let loaded = replica.load_request_ids();
        if replica.ended > Generation(0) {
            replica.stay_ended(lane);
            return Ok(replica);
        }
        if was_damaged {
            replica.damage(lane, "it was damaged before the restart and has not been replaced yet".into());
            return Ok(replica);
        }
        replica.join_log(lane);
        if let Err(error) = loaded {
            // Nothing is applied before they are mended and read.
            if !replica.waits_for_mending(lane, now, &error) {
                return Err(error);
            }
        }
        if replica.flushes.index().0 == 0 && !replica.blank {
            replica.flushes.mark_dirty(now);
        }
        Ok(replica)
    }

    /// A replica whose engine has lost what it must know to begin: it asks to be replaced.
    pub fn open_damaged(lane: &mut LaneContext, record: ReplicaRecord, now: Tick, message: String) -> Option<Replica> {
        let engine = lane.engines.get(&*record.spec.engine).cloned()?;
        let meta = ClusterMeta::initial(&record.spec);
        let mut replica = Replica::empty(record, engine, meta, SnapshotPoint::default(), now);
        replica.overlay = Overlay::new(lane.config.keep);
        if replica.ended > Generation(0) {
            replica.stay_ended(lane);
        } else {
            replica.damage(lane, message);
        }
        Some(replica)
    }

    /// Fits log and engine to each other, then makes the group, or has holes mended first.
    fn join_log(&mut self, lane: &mut LaneContext) {
        let cluster = self.spec.cluster;
        let (applied, term) = (self.meta.applied, self.meta.applied_term);
        let log = lane.log.borrow();
        let (first, last) = (log.first_index(cluster), log.last_index(cluster));
        let holes = log.holes(cluster);
        let differs = applied >= first && log.term(cluster, applied) != Some(term);
        drop(log);
        if first.0 > applied.0 + 1 {
            let message = format!("its engine holds index {applied} and its log begins at {first}");
            return self.damage(lane, message);
        }
        // The log is behind where a crash came between a replica's record and its reset; holes that the
        // engine has passed are of no use to anybody here.
        let passed = holes.first().is_some_and(|(index, _)| *index <= applied);
        if last < applied || differs || passed {
            lane.log.borrow_mut().compact(cluster, applied, term);
        }
        let holes = lane.log.borrow().holes(cluster);
        if holes.is_empty() {
            self.make_group(lane);
        } else if self.meta.members.iter().all(|member| member.replica == self.spec.replica) {
            self.damage(lane, "entries of its log rotted and there is no other member".into());
        } else {
            self.repair = Some(Box::new(LogRepair::new(holes)));
        }
    }

    fn empty(
        record: ReplicaRecord,
        engine: Arc<dyn Engine>,
        meta: ClusterMeta,
        durable: SnapshotPoint,
        now: Tick,
    ) -> Replica {
        Replica {
            membership_at: meta.applied,
            spec: record.spec,
            space: record.space,
            blank: record.blank,
            engine,
            group: None,
            life: 0,
            unsynced: 0,
            meta,
            overlay: Overlay::default(),
            request_ids: RequestIds::default(),
            staged: Vec::new(),
            proposed: VecDeque::new(),
            commit_time: CommitTime::default(),
            pending_writes: 0,
            unsure_until: LogIndex(0),
            absolute: Vec::new(),
            tails: ArchiveAcks::default(),
            drained: false,
            reads: Reads::default(),
            parked: Parked::default(),
            upkeep: Upkeep::default(),
            touched: 0,
            alarm: Tick::NEVER,
            admin: AdminWaits::default(),
            snapshots: Snapshots::default(),
            repair: None,
            mending: None,
            lost_pairs: BTreeSet::new(),
            quarantine: None,
            applying: 0,
            changes: 0,
            chain: Chain::default(),
            marked: None,
            verification: Verification::default(),
            damaged: None,
            damage_told: Tick(0),
            lost_asks: None,
            quiesced: false,
            quiet_since: now,
            handoff: Handoff::default(),
            leadership: LeadershipNews::default(),
            idle_ticks: 0,
            silent_ticks: 0,
            flushes: Flushes::new(durable),
            leading: None,
            time_base: (0, now),
            id_base: (0, Duration::ZERO),
            answered: BTreeMap::new(),
            heard_from: BTreeMap::new(),
            told: None,
            removed: false,
            recovered: record.recovered,
            ended: record.ended,
            counted_bytes: 0,
            looked_at: Cell::default(),
            late: Vec::new(),
            holds_back: false,
        }
    }

    pub fn load_request_ids(&mut self) -> Result<(), EngineError> {
        self.request_ids = if planted(Mutant::RequestIdsForgottenOnRestart) {
            RequestIds::default()
        } else {
            RequestIds::load(self.view())?
        };
        Ok(())
    }

    pub fn make_group(&mut self, lane: &mut LaneContext) {
        let config = GroupConfig {
            cluster: self.spec.cluster,
            replica: self.spec.replica,
            election_ticks: lane.config.election_ticks,
            heartbeat_ticks: lane.config.heartbeat_ticks,
            seed: lane.config.seed,
            applied: self.meta.applied,
            membership: self.meta.membership.clone(),
            snapshot_point: self.flushes.point().clone(),
        };
        self.life += 1;
        self.unsynced = 0;
        match Group::new(config, lane.log.clone()) {
            Ok(group) => self.group = Some(group),
            Err(message) => self.damage(lane, format!("its Raft state cannot be restored: {message}")),
        }
    }

    /// Nothing will happen for a while: it keeps what it is, and gives back what work has left behind.
    pub fn fall_quiet(&mut self, lane: &LaneContext) {
        self.quiesced = true;
        self.staged.shrink_to_fit();
        self.proposed.shrink_to_fit();
        // Who answered a leader before the quiet counts anew when it wakes.
        self.answered = BTreeMap::new();
        self.chain.forget_samples();
        self.hibernate(lane);
    }

    /// Lets a quiet member's group rest, once nothing of it waits for the log (a sleeping group counts its
    /// readies anew).
    pub fn hibernate(&mut self, lane: &LaneContext) {
        if self.quiesced && self.unsynced == 0 && self.late.is_empty() {
            self.group.as_mut().into_iter().for_each(Group::hibernate);
            lane.log.borrow_mut().rest(self.spec.cluster);
        }
    }

    /// Whether an operation or a message of this life is for it.
    pub fn is_of_life(&self, generation: Generation) -> bool {
        self.spec.generation == generation && self.ended == Generation(0)
    }

    /// Whether what happened at this index belongs to the life before.
    pub fn is_of_life_before(&self, index: LogIndex) -> bool {
        self.recovered.as_ref().is_some_and(|recovered| index <= recovered.at()) && !planted(Mutant::OldMembersComeBack)
    }

    /// The life that an entry belongs to: what it means must not depend on when it is applied.
    pub fn life_of(&self, index: LogIndex) -> Generation {
        let before = self.recovered.iter().flat_map(|recovered| &recovered.lives).find(|(at, _)| index <= *at);
        let now = self.spec.generation;
        before.map_or(now, |(_, life)| if planted(Mutant::LifeOfEntriesForgotten) { now } else { *life })
    }

    /// The latest life of its cluster that it knows.
    pub fn latest_life(&self) -> Generation {
        self.spec.generation.max(self.ended)
    }

    /// It keeps its log and its rows, and does nothing with them.
    pub fn stay_ended(&mut self, lane: &mut LaneContext) {
        parked::fail(self, lane);
        self.group = None;
        (self.repair, self.mending, self.quarantine) = (None, None, None);
        self.verification.stop_walk();
        self.removed = false;
        self.flushes.forget_dirty();
        if !self.overlay.is_frozen() {
            // The log has what is not durable.
            self.overlay = Overlay::new(lane.config.keep);
        }
        let message = format!(
            "it belongs to life {} of cluster {}, and life {} began without it (the cluster was recovered): it serves nothing, \
             and its data is kept; when nobody needs it, run `hive ctl recover {} --discard {}`",
            self.spec.generation, self.spec.name, self.ended, self.spec.name, lane.config.node
        );
        self.damaged = Some(message.as_str().into());
        lane.output.notices.push(Notice::Ended {
            cluster: self.spec.cluster,
            name: self.spec.name.clone(),
            replica: self.spec.replica,
            by: self.ended,
            message,
        });
    }

    /// The `STATE_REPLICA` record as it should be now.
    pub fn record(&self) -> ReplicaRecord {
        ReplicaRecord {
            spec: self.spec.clone(),
            space: self.space,
            blank: self.blank,
            damaged: self.damaged.is_some(),
            recovered: self.recovered.clone(),
            ended: self.ended,
        }
    }

    /// The next of Raft's readies. If it holds a snapshot, the record that names the staging space is
    /// staged before the log's reset: `open` can continue from whatever part of both a crash leaves.
    fn next_ready(&mut self, lane: &LaneContext) -> Option<GroupReady> {
        let (spec, staging) = (&self.spec, self.snapshots.staging());
        self.group.as_mut()?.make_ready(|_point| {
            if let Some(staging) = staging {
                // What was recovered lies below every snapshot of that life.
                let record = ReplicaRecord::new(spec.clone(), staging, false);
                lane.log.borrow_mut().put_state(spec.cluster, STATE_REPLICA, record.kept_bytes());
            }
        })
    }

    pub fn stage_record(&self, lane: &LaneContext) {
        lane.log.borrow_mut().put_state(self.spec.cluster, STATE_REPLICA, self.record().kept_bytes());
    }

    pub fn view(&self) -> View<'_> {
        View { overlay: &self.overlay, engine: &*self.engine, space: self.space }
    }

    /// Entries applied since this was last asked.
    pub fn committed_since_looked(&self) -> u64 {
        let before = self.looked_at.replace(self.meta.applied);
        self.meta.applied.0.saturating_sub(before.0)
    }

    pub fn is_leader(&self) -> bool {
        self.group.as_ref().is_some_and(|group| group.role() == Role::Leader)
    }

    pub fn term(&self) -> Term {
        self.group.as_ref().map_or(Term(0), Group::term)
    }

    pub fn leader_node(&self) -> Option<NodeId> {
        let leader = self.group.as_ref()?.leader()?;
        self.meta.node_of(leader).or_else(|| self.heard_from.get(&leader).copied())
    }

    /// What request ids expire by, while leading.
    pub fn id_time(&self, lane: &LaneContext) -> u64 {
        self.id_base.0 + lane.steady.saturating_sub(self.id_base.1).as_millis() as u64
    }

    /// The cluster's time as this member knows it: a leader lets it run, others know the last stamp.
    pub fn cluster_time(&self, now: Tick) -> u64 {
        if self.leading.is_some() {
            self.time_base.0 + now.since(self.time_base.1).as_millis() as u64
        } else {
            self.meta.cluster_time_ms
        }
    }

    pub fn at(&self, term: Term, index: LogIndex, position: u32) -> OrderedAt {
        OrderedAt { cluster: self.spec.cluster, generation: self.spec.generation, term, index, position }
    }

    pub fn not_leader(&self) -> LocalOutcome {
        let leader = if self.is_leader() { None } else { self.leader_node() };
        LocalOutcome::NotLeader { leader, term: self.term(), members: self.meta.members.to_vec() }
    }

    /// The replica is given up: it stops voting, acknowledging and answering, and asks to be replaced.
    pub fn damage(&mut self, lane: &mut LaneContext, message: String) {
        self.lose_leadership(lane);
        parked::fail(self, lane);
        self.group = None;
        self.late.clear();
        self.holds_back = false;
        self.life += 1;
        self.unsynced = 0;
        self.repair = None;
        self.mending = None;
        self.quarantine = None;
        self.verification.stop_walk();
        self.flushes.forget_dirty();
        lane.output.notices.push(Notice::Damaged {
            cluster: self.spec.cluster,
            name: self.spec.name.clone(),
            message: message.clone(),
        });
        self.damaged = Some(message.into());
        self.stage_record(lane);
    }

    pub fn send(&self, lane: &mut LaneContext, to: NodeId, payload: &Payload) {
        lane.statistics.messages_sent += 1;
        lane.output.messages.push(PeerMessage {
            to,
            cluster: self.spec.cluster,
            generation: self.spec.generation,
            payload: payload.to_bytes(),
        });
    }

    fn send_raft(&mut self, lane: &mut LaneContext, now: Tick, messages: Vec<Message>) {
        for mut message in messages {
            let to = message.to();
            match message.kind() {
                MessageKind::Append if lane.buggify.fires(Point::CutAppend) => message.keep_first_entry(),
                MessageKind::Heartbeat if lane.buggify.fires(Point::LostHeartbeat) => continue,
                _ => {}
            }
            if message.kind() == MessageKind::Snapshot {
                self.start_sender(lane, now, message);
                continue;
            }
            let node = self.meta.node_of(to).or_else(|| self.heard_from.get(&to).copied());
            let Some(node) = node else { continue };
            self.reads.note_told_commit(message.commit());
            let payload = match self.samples_to_report(message.kind()) {
                Some(samples) => Payload::Sampled { samples, message },
                None => Payload::Raft(message),
            };
            self.send(lane, node, &payload);
        }
    }

    /// Whether a member differs from this leader.
    pub fn is_undecided(&self) -> bool {
        self.chain.is_undecided()
    }

    /// Everything this turn led to: ready after ready until there is none.
    pub fn process(&mut self, lane: &mut LaneContext, now: Tick) {
        self.apply_late(lane, now);
        self.take_readies(lane, now);
        let waited_for = self.look_at_changes(lane, now);
        let proposes = !self.staged.is_empty();
        self.propose_staged(lane, now);
        upkeep::on_proposed(self);
        if waited_for {
            self.announce_commit();
        }
        // What reads, proposals and announcements have the library say leaves with this turn.
        if self.advance_reads(lane, now) || proposes || waited_for {
            self.take_readies(lane, now);
            let asked = self.advance_reads(lane, now);
            self.drained &= !asked;
        }
        self.complete_absolute(lane, now);
        if self.look_at_changes(lane, now) {
            self.announce_commit();
            self.drained = false;
        }
        self.advance_admin(lane, now);
        self.mend_what_was_seen(lane, now);
        self.tell_changes(lane);
    }

    fn announce_commit(&mut self) {
        self.group.as_mut().into_iter().for_each(Group::announce_commit);
    }

    /// What this turn has applied: for reads that wait for it, and for what it makes due. Whether reads may wait for it elsewhere.
    fn look_at_changes(&mut self, lane: &mut LaneContext, now: Tick) -> bool {
        let changed = std::mem::take(&mut self.touched);
        parked::wake(self, lane, now, changed);
        self.upkeep.note(changed);
        upkeep::advance(self, lane, now);
        parked::may_wait_for(changed)
    }

    /// When its lane is to look at it again, beside its ticks: a quiet one has none.
    pub fn next_alarm(&self, now: Tick) -> Tick {
        self.parked.first_end().min(upkeep::next_due(self, now))
    }

    /// Heartbeats now: members learn the commit index before the quiet, which they else refuse.
    pub fn tell_commit(&mut self, lane: &mut LaneContext, now: Tick) {
        self.group.as_mut().into_iter().for_each(Group::ping);
        self.take_readies(lane, now);
    }

    fn take_readies(&mut self, lane: &mut LaneContext, now: Tick) {
        for _ in 0..READY_ROUNDS_MAX {
            let ready = self.next_ready(lane);
            self.drained = ready.is_none();
            let Some(ready) = ready else { return };
            self.handle_ready(lane, now, ready);
        }
    }

    /// Whether a tick has left it something: to say, to be destroyed, or members to be told of.
    pub fn wants_a_look(&self) -> bool {
        self.removed || self.has_more() || !self.is_told_durably()
    }

    /// Whether the change that made its members is durable here.
    fn is_told_durably(&self) -> bool {
        self.membership_at <= self.flushes.index().max(FIRST_INDEX) || self.blank
    }

    pub fn has_more(&self) -> bool {
        self.group.as_ref().is_some_and(Group::has_ready) || !self.staged.is_empty()
    }

    /// The same right behind `process`, which mostly knows without asking the library once more.
    pub fn has_more_behind(&self) -> bool {
        !self.staged.is_empty() || (!self.drained && self.has_more())
    }

    fn handle_ready(&mut self, lane: &mut LaneContext, now: Tick, mut ready: GroupReady) {
        let led_anew = self.is_leader() && self.leading != Some(self.term());
        if ready.role_changed || led_anew {
            self.on_role_change(lane, now);
        }
        let with_snapshot = ready.snapshot.is_some();
        if let Some(point) = ready.snapshot.take() {
            if let Err(error) = self.install(lane, point) {
                return self.damage(lane, format!("a snapshot cannot be installed: {error}"));
            }
        }
        let batch = lane.log.borrow().staged();
        for proposed in self.proposed.iter_mut().rev().take_while(|p| p.batch == BatchNumber(u64::MAX)) {
            proposed.batch = batch;
        }
        let early = planted(Mutant::AckBeforeSync)
            || (planted(Mutant::SnapshotSkipsSync) && with_snapshot)
            || (planted(Mutant::VoteNotPersisted)
                && ready.persisted_messages.iter().any(|m| m.kind() == MessageKind::RequestVoteResponse));
        let mut held = std::mem::take(&mut ready.persisted_messages);
        if early {
            ready.messages.append(&mut held);
        }
        self.send_raft(lane, now, std::mem::take(&mut ready.messages));
        let leader_early = planted(Mutant::LeaderAckBeforeSync) && self.is_leader();
        let waits = ready.staged || self.unsynced > 0;
        let (cluster, life, number) = (self.spec.cluster, self.life, ready.number);
        if waits && !leader_early {
            self.unsynced += 1;
            lane.awaiting_sync.push_back(AwaitingSync { batch, cluster, number, messages: held, life });
        } else {
            self.send_raft(lane, now, held);
            if let Some(group) = self.group.as_mut() {
                group.on_persisted(number);
            }
        }
        if !ready.committed.is_empty() {
            let mut committed = self.hold_committed(std::mem::take(&mut ready.committed));
            self.late.append(&mut committed);
            // Who has just been put to sleep in this very turn has no next tick.
            self.holds_back |= lane.buggify.fires(Point::LateApply) && !self.quiesced;
        }
        self.apply_late(lane, now);
        for (context, index) in ready.reads {
            self.on_read_index(lane, now, context, index);
        }
    }

    /// Applies what is committed; where a rare order wants it so, behind the next tick.
    fn apply_late(&mut self, lane: &mut LaneContext, now: Tick) {
        if self.is_quarantined() {
            match self.read_back(lane) {
                Ok(entries) => self.late = entries,
                Err(error) => return self.rebuild(lane, format!("its request ids cannot be read: {error}")),
            }
        }
        if self.late.is_empty() || self.holds_back || self.is_stuck() {
            return;
        }
        let committed = std::mem::take(&mut self.late);
        self.apply_all(lane, now, committed);
        self.end_if_caught_up(lane);
    }

    /// A message for its Raft member. A panic of that stops this group and no other.
    pub fn step_group(&mut self, lane: &mut LaneContext, message: Message) {
        let Some(group) = self.group.as_mut() else { return };
        if let Err(error) = contained(|| {
            group.step(message);
            Ok(())
        }) {
            self.quarantine_group(lane, format!("its Raft member failed: {error}"));
        }
    }

    /// A batch with a ready of this replica is durable.
    pub fn on_synced(&mut self, lane: &mut LaneContext, now: Tick, number: u64, messages: Vec<Message>) {
        self.unsynced -= 1;
        self.send_raft(lane, now, messages);
        if let Some(group) = self.group.as_mut() {
            group.on_persisted(number);
        }
        let synced = lane.log.borrow().synced();
        let mut answers = Vec::new();
        for proposed in self.proposed.iter_mut().take_while(|proposed| proposed.batch <= synced) {
            for (position, write) in proposed.writes.iter_mut().enumerate() {
                if write.level == WriteConsistency::Eventual && !write.answered {
                    write.answered = true;
                    answers.push((
                        write.ticket,
                        proposed.term,
                        proposed.index,
                        position as u32,
                        proposed.cluster_time_ms,
                    ));
                }
            }
        }
        for (ticket, term, index, position, cluster_time_ms) in answers {
            let at = self.at(term, index, position);
            let level = WriteConsistency::Eventual;
            lane.complete(ticket, LocalOutcome::Written { reply: Bytes::new(), at, level, cluster_time_ms });
        }
    }

    fn on_role_change(&mut self, lane: &mut LaneContext, now: Tick) {
        let (role, term) = match self.group.as_ref() {
            Some(group) => (group.role(), group.term()),
            None => return,
        };
        self.leadership.on_role(role, term, self.leading);
        if matches!(role, Role::PreCandidate) {
            lane.statistics.elections_started += 1;
        }
        if role == Role::Leader && self.leading != Some(term) {
            self.lose_leadership(lane);
            lane.statistics.elections_won += 1;
            if lane.config.witness.is_some() && lane.won.len() < WON_MAX {
                let (cluster, generation) = (self.spec.cluster, self.spec.generation);
                lane.won.push(Won { cluster, generation, term });
            }
            let (time, id_time) = self.last_stamps(lane);
            self.time_base = (time, now);
            self.id_base = (id_time, lane.steady);
            self.leading = Some(term);
            self.looked_at.set(self.meta.applied);
            self.upkeep = Upkeep::of_new_leader(time);
            self.reads.begin_leading();
            self.idle_ticks = 0;
        } else if role != Role::Leader && self.leading.is_some() {
            self.lose_leadership(lane);
        }
    }

    /// The latest stamp in the log: the cluster's time must not go back when leadership moves.
    fn last_stamps(&self, lane: &LaneContext) -> (u64, u64) {
        if planted(Mutant::ClockStepsBack) {
            return (0, 0);
        }
        let log = lane.log.borrow();
        let mut index = log.last_index(self.spec.cluster);
        while index > self.meta.applied {
            let stamps = log.entry(self.spec.cluster, index).and_then(|entry| crate::entry::stamps(&entry.data));
            if let Some((time, id_time)) = stamps {
                return (time.max(self.meta.cluster_time_ms), id_time.max(self.meta.id_time_ms));
            }
            index = LogIndex(index.0 - 1);
        }
        (self.meta.cluster_time_ms, self.meta.id_time_ms)
    }

    /// Leadership is gone: what was proposed may still be committed by another leader.
    pub fn lose_leadership(&mut self, lane: &mut LaneContext) {
        self.leading = None;
        self.upkeep = Upkeep::default();
        self.unsure_until = LogIndex(0);
        self.chain.lose_leadership();
        self.answered.clear();
        let hidden = planted(Mutant::UnknownAsRefused);
        for proposed in std::mem::take(&mut self.proposed) {
            for write in proposed.writes.into_iter().filter(|write| !write.answered) {
                let message = format!(
                    "the leader of cluster {} changed before the write was committed; its outcome is unknown",
                    self.spec.name
                );
                let outcome = if hidden {
                    LocalOutcome::Refused(Refusal::new(ErrorCode::NotLeader, message))
                } else {
                    LocalOutcome::Unknown { message }
                };
                lane.complete(write.ticket, outcome);
            }
        }
        let kept = planted(Mutant::AbsoluteWaitsKept);
        for wait in (!kept).then(|| std::mem::take(&mut self.absolute)).into_iter().flatten() {
            let missing = Vec::new();
            lane.complete(
                wait.waiting.ticket,
                LocalOutcome::CommittedNotAbsolute { reply: wait.reply, at: wait.at, missing },
            );
        }
        self.fail_kept(lane);
        for write in std::mem::take(&mut self.staged) {
            lane.complete(write.waiting.ticket, self.not_leader());
        }
        self.pending_writes = 0;
        self.fail_reads(lane);
        self.fail_admin(lane);
        self.fail_verification(lane);
        self.end_senders(lane);
    }

    /// Gives up what is past its deadline.
    pub fn expire(&mut self, lane: &mut LaneContext, now: Tick) {
        for proposed in &mut self.proposed {
            for write in proposed.writes.iter_mut().filter(|write| !write.answered && write.deadline <= now) {
                write.answered = true;
                let message = format!("cluster {} did not commit the write before its deadline", self.spec.name);
                lane.complete(write.ticket, LocalOutcome::Unknown { message });
            }
        }
        self.expire_absolute(lane, now);
        self.expire_kept(lane, now);
        self.expire_reads(lane, now);
        self.expire_admin(lane, now);
    }

    fn tell_changes(&mut self, lane: &mut LaneContext) {
        let leader = self.leader_node();
        self.leadership.on_leader(leader);
        for (term, event) in self.leadership.take() {
            lane.output.notices.push(Notice::Leadership { name: self.spec.name.clone(), term, event });
        }
        // Members are reported once the change that made them is durable here: a node that learns of it may destroy a
        // removed replica, whose vote this one needs if it comes back from before the change (simulator, 414).
        let settled = self.is_told_durably();
        if !settled {
            lane.flush_soon = true;
        }
        let members = match &self.told {
            Some((_, told, _)) if !settled => told,
            None if !settled => return,
            _ => &self.meta.members,
        };
        let since = self.meta.engine_since();
        if self.told.as_ref().is_some_and(|(told, known, of)| *told == leader && known == members && *of == since) {
            return;
        }
        let members = members.clone();
        lane.output.notices.push(Notice::Changed {
            cluster: self.spec.cluster,
            generation: self.spec.generation,
            name: self.spec.name.clone(),
            leader,
            members: members.clone(),
            engine_since: since,
        });
        self.told = Some((leader, members, since));
    }

    /// A leader's heartbeat carries a commit index that this replica has acknowledged to it. A log that
    /// ends before it has lost entries that looked like a torn tail when they were read back.
    pub fn has_lost_what_it_acknowledged(&self, message: &Message) -> bool {
        let Some(group) = self.group.as_ref().filter(|_| !self.blank && !self.snapshots.is_receiving()) else {
            return false;
        };
        message.kind() == MessageKind::Heartbeat
            && message.term() >= group.term()
            && message.commit() > group.last_index()
    }

    /// The lengths of its queues and tables, each with its bound.
    pub fn sizes(&self, sizes: &mut Sizes) {
        let proposed: usize = self.proposed.iter().map(|proposed| proposed.writes.len()).sum();
        // Counted twice: by the counter that guards the bound, and one by one.
        let held = self.staged.len() + proposed + self.absolute.len();
        sizes.passing("writes waiting, a replica", held.max(self.pending_writes), PENDING_WRITES_MAX);
        sizes.lasting("replicas heard from, a replica", self.heard_from.len(), MEMBERS_MAX);
        self.tails.sizes(sizes);
        self.snapshots.sizes(sizes);
        self.mending.iter().for_each(|mending| mending.sizes(sizes));
        self.verification.sizes(sizes);
        self.reads.sizes(sizes);
        self.parked.sizes(sizes);
        self.admin.sizes(sizes);
        self.request_ids.sizes(sizes);
    }

    /// Whether anything waits on this replica (it must then not fall quiet).
    pub fn is_busy(&self) -> bool {
        !self.staged.is_empty()
            || !self.proposed.is_empty()
            || !self.absolute.is_empty()
            || !self.tails.is_idle()
            || !self.reads.is_idle()
            || !self.admin.is_idle()
            || self.snapshots.sending() > 0
            || self.snapshots.is_receiving()
            || self.repair.is_some()
            || self.mending.is_some()
            || self.verification.is_busy()
            || self.damaged.is_some()
            || self.lost_asks.is_some()
            || self.is_quarantined()
            || self.chain.is_undecided()
            || !self.late.is_empty()
    }
}
