//! Applying committed entries to the overlay, answering the writes that waited for them, and writing the overlay out.
//!
//! Always: the same entries give the same bytes on every member (checker `states`, mutant `ApplyOutOfOrder`). A request id
//! applies at most once (checker `counters`, mutant `DoubleApply`). Time is the entries' own stamp.

use crate::api::{Flush, Layer, Witnessed};
use crate::buggify::Point;
use crate::context::LaneContext;
use crate::entry::{self, EntryCommand, BACKEND_CLUSTER};
use crate::meta::{ChosenEngine, ClusterMeta, META_KEY};
use crate::replica::admin::ChangeContext;
use crate::replica::chain::CHAIN_COMMAND;
use crate::replica::quarantine::{contained, poison, ApplyError, SKIP_COMMAND};
use crate::replica::request_ids::{Applied, RowBuilder};
use crate::replica::verify::{Mark, MARK_COMMAND};
use crate::replica::Replica;
use crate::request_id_terms::KEEP_LESS_MS_MAX;
use crate::storage::engine_jobs::JobTarget;
use crate::storage::overlay::BackendSpace;
use crate::storage::restore;
use base_engine::{BatchOperation, EngineError};
use base_types::codec::{DecodeError, Encode, Reader, Writer};
use base_types::mutant::{planted, Mutant};
use base_types::{BackendKind, ErrorCode, LogIndex, ReadConsistency, Refusal, SpaceId, Tick, WriteConsistency};
use bytes::Bytes;
use core_backends::memory::Carried;
use core_backends::{encode_reply, ApplyContext};
use core_log::LogEntry;
use core_raft::{entry_kind, MembershipChange, SnapshotPoint};
use std::rc::Rc;
use std::sync::Arc;

/// Commands kept for who watches, until they are taken (after every turn): more than one turn applies.
const WITNESSED_MAX: usize = 1 << 20;

/// A command to the cluster itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SetDefaults {
    pub consistency: Option<WriteConsistency>,
    pub read_consistency: Option<ReadConsistency>,
}

impl Encode for SetDefaults {
    fn encode(&self, out: &mut Writer) {
        out.u8(1);
        out.option(self.consistency, |w, level| {
            w.u8(level as u8);
        });
        out.option(self.read_consistency, |w, level| {
            w.u8(level as u8);
        });
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        if input.u8("cluster command")? != 1 {
            return Err(DecodeError::Unknown("cluster command"));
        }
        let consistency = input
            .option("level", |r| WriteConsistency::from_byte(r.u8("level")?).ok_or(DecodeError::Unknown("level")))?;
        let read_consistency = input
            .option("level", |r| ReadConsistency::from_byte(r.u8("level")?).ok_or(DecodeError::Unknown("level")))?;
        Ok(SetDefaults { consistency, read_consistency })
    }
}

/// The first byte of a `SetEngine`.
const SET_ENGINE_COMMAND: u8 = 3;

/// New replicas of the cluster are made in this engine, and those there are must be replaced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SetEngine {
    pub engine: String,
}

impl Encode for SetEngine {
    fn encode(&self, out: &mut Writer) {
        out.u8(SET_ENGINE_COMMAND).string(&self.engine);
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        if input.u8("cluster command")? != SET_ENGINE_COMMAND {
            return Err(DecodeError::Unknown("cluster command"));
        }
        Ok(SetEngine { engine: input.string("engine")? })
    }
}

/// Nothing to tell.
pub struct Done;

impl Encode for Done {
    fn encode(&self, _out: &mut Writer) {}
    fn decode(_input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Done)
    }
}

impl Replica {
    /// Applies entries in order and informs Raft. One that needs a damaged pair waits, with all later ones; at one that
    /// cannot be applied the replica is quarantined.
    pub fn apply_all(&mut self, lane: &mut LaneContext, now: Tick, entries: Vec<LogEntry>) {
        let before = self.meta.applied;
        let mut entries = entries.into_iter();
        while let Some(entry) = entries.next() {
            let Err(error) = self.apply_entry(lane, now, &entry) else { continue };
            match &error {
                ApplyError::Engine(error) if self.waits_for_mending(lane, now, error) => {
                    self.late = std::iter::once(entry).chain(entries).collect();
                }
                _ => self.quarantine_at(lane, &error, &entry, entries.as_slice()),
            }
            break;
        }
        if self.meta.applied == before {
            return;
        }
        self.flushes.mark_dirty(now);
        if let Some(group) = self.group.as_mut() {
            group.on_applied(self.meta.applied);
        }
    }

    fn apply_entry(&mut self, lane: &mut LaneContext, now: Tick, entry: &LogEntry) -> Result<(), ApplyError> {
        assert!(
            entry.index.0 == self.meta.applied.0 + 1,
            "cluster {} applies {} behind {}",
            self.spec.name,
            entry.index,
            self.meta.applied
        );
        self.changes = 0;
        let mut skipped = false;
        let replies = if entry.kind == entry_kind::MEMBERSHIP {
            contained(|| self.apply_membership(lane, entry))?;
            Vec::new()
        } else if entry.data.is_empty() {
            Vec::new()
        } else if self.takes_skip(lane, entry) {
            skipped = true;
            Vec::new()
        } else {
            self.apply_commands(lane, entry)?
        };
        self.meta.applied = entry.index;
        self.meta.applied_term = entry.term;
        self.chain.extend(&mut self.meta, entry, self.changes, skipped);
        if let Some(mark) = self.marked.take() {
            self.on_mark(lane, mark);
        }
        lane.statistics.entries_applied += 1;
        self.answer_proposed(lane, now, entry, replies);
        Ok(())
    }

    fn apply_commands(&mut self, lane: &mut LaneContext, entry: &LogEntry) -> Result<Vec<Applied>, ApplyError> {
        let payload = entry::decode(entry.data.clone())
            .map_err(|error| EngineError::Corrupt(format!("entry {} {error}", entry.index)))?;
        let served = lane.config.level_max;
        if payload.level > served {
            let (index, level) = (entry.index, payload.level);
            let remedy = base_types::format_level::remedy(level, None);
            let text = format!("entry {index} is of format level {level}, this build serves up to {served}: {remedy}");
            return Err(EngineError::Corrupt(text).into());
        }
        let before = self.meta.clone();
        let witnessed = lane.witnessed.len();
        self.overlay.begin();
        self.applying = 0;
        let applied = contained(|| self.apply_payload(lane, entry, payload));
        if applied.is_ok() {
            self.changes = self.overlay.commit();
        } else {
            // As if it had not been tried: a damaged pair is mended first, then the request ids are read back, and
            // it is tried again (`value_repair.rs`).
            self.overlay.roll_back();
            lane.witnessed.truncate(witnessed);
            self.meta = before;
            self.marked = None;
        }
        applied
    }

    fn apply_payload(
        &mut self,
        lane: &mut LaneContext,
        entry: &LogEntry,
        payload: entry::EntryPayload,
    ) -> Result<Vec<Applied>, EngineError> {
        let steps_back = planted(Mutant::ClockStepsBack);
        let time = payload.cluster_time_ms.max(if steps_back { 0 } else { self.meta.cluster_time_ms });
        self.meta.cluster_time_ms = time;
        let id_time = payload.id_time_ms.max(self.meta.id_time_ms);
        self.meta.id_time_ms = id_time;
        self.request_ids.expire(id_time, &mut self.overlay);
        let kinds = payload.kinds;
        let mut row = RowBuilder::new(entry, !kinds);
        let mut order: Vec<(usize, EntryCommand)> = payload.commands.into_iter().enumerate().collect();
        let mut answers = vec![Applied::default(); order.len()];
        if planted(Mutant::ApplyOutOfOrder) {
            order.reverse();
        }
        for (position, command) in order {
            self.applying = position;
            let id = command.request_id;
            let seen = self.request_ids.get(id).or_else(|| row.get(id).cloned());
            let again = planted(Mutant::RedisRetryAppliedAgain) && command.backend == BackendKind::Redis as u8;
            if let Some(applied) = seen.filter(|_| !planted(Mutant::DoubleApply) && !again) {
                lane.statistics.duplicates_suppressed += 1;
                // The client may repeat it once more, as long after this time as after the first.
                let until = id_time.saturating_add(command.keep_ms);
                let known = self.request_ids.kept_until(id).filter(|_| row.get(id).is_none());
                if known.is_some_and(|known| known < until) {
                    row.remember_again(id, &applied, until);
                }
                answers[position] = applied;
                continue;
            }
            let before = LogIndex(entry.index.0 - 1);
            if let Some(refusal) = kinds.then(|| self.expired(id, before)).flatten() {
                let reply = encode_reply::<Done>(&Err(refusal));
                answers[position] = Applied {
                    index: entry.index,
                    term: entry.term,
                    position: position as u32,
                    reply,
                    ..Applied::default()
                };
                continue;
            }
            let life = self.life_of(entry.index);
            let own_clock = planted(Mutant::RedisExpiryByOwnClock) && command.backend == BackendKind::Redis as u8;
            let cluster_time_ms = if own_clock { time.max(lane.steady.as_millis() as u64) } else { time };
            let context = ApplyContext { life, index: entry.index, position: position as u32, cluster_time_ms };
            if command.backend == BACKEND_CLUSTER && command.command.first() == Some(&CHAIN_COMMAND) {
                self.chain.begin(&mut self.meta, entry);
                continue;
            }
            let reply = self.apply_command(context, &command, &row)?;
            lane.statistics.commands_applied += 1;
            self.witness(lane, entry, &command, &reply);
            let about =
                BackendKind::from_byte(command.backend).map(|kind| core_backends::about_of(kind, &command.command));
            let about = about.unwrap_or_default();
            let applied = Applied { index: entry.index, term: entry.term, position: position as u32, about, reply };
            self.take_memory(kinds, &mut row, &command, &applied);
            // "Come back later" is no answer to remember: the retry with this id must be able to succeed.
            if !core_backends::is_redirect(&applied.reply) {
                row.remember(command.request_id, &applied, id_time.saturating_add(command.keep_ms));
            }
            answers[position] = applied;
        }
        self.request_ids.remember(entry.index, row.finish(), &mut self.overlay);
        Ok(answers)
    }

    /// Keeps what was applied for who watches (simulator only).
    fn witness(&self, lane: &mut LaneContext, entry: &LogEntry, command: &EntryCommand, reply: &Bytes) {
        let watched = lane.config.witness.is_some_and(|kind| kind as u8 == command.backend);
        if watched && lane.witnessed.len() < WITNESSED_MAX {
            lane.witnessed.push(Witnessed {
                cluster: self.spec.cluster,
                generation: self.spec.generation,
                name: self.spec.name.clone(),
                index: entry.index,
                command: command.command.clone(),
                reply: reply.clone(),
            });
        }
    }

    /// Whether an id that is known would be forgotten clearly before this.
    fn is_kept_less(&self, id: base_types::RequestId, until: u64) -> bool {
        let known = self.request_ids.kept_until(id);
        known.is_some_and(|known| known.saturating_add(KEEP_LESS_MS_MAX) < until)
    }

    /// A part of another cluster's keys comes here: so does what was applied there, as if by this very entry. And what
    /// one command did of many requests is remembered for each.
    fn take_memory(&self, kinds: bool, row: &mut RowBuilder, command: &EntryCommand, applied: &Applied) {
        let Some(backend) = BackendKind::from_byte(command.backend) else { return };
        let brought = core_backends::memory_brought(backend, &command.command, &applied.reply, command.keep_ms);
        for Carried { id, keep_ms, about, reply } in brought {
            let until = self.meta.id_time_ms.saturating_add(keep_ms);
            match self.request_ids.get(id) {
                _ if row.get(id).is_some() => {}
                None => row.remember(id, &Applied { about, reply, ..applied.clone() }, until),
                // It was repeated at its old cluster, after it had come here.
                Some(known) if kinds && self.is_kept_less(id, until) => row.remember_again(id, &known, until),
                Some(_) => {}
            }
        }
    }

    fn apply_command(
        &mut self,
        context: ApplyContext,
        command: &EntryCommand,
        row: &RowBuilder,
    ) -> Result<Bytes, EngineError> {
        if command.backend == BACKEND_CLUSTER && command.command.first() == Some(&MARK_COMMAND) {
            // It changes nothing: an index to stand still at.
            self.marked = Mark::from_bytes(command.command.clone()).ok().map(|mark| mark.run);
            return Ok(encode_reply(&Ok(Done)));
        }
        if command.backend == BACKEND_CLUSTER && command.command.first() == Some(&SET_ENGINE_COMMAND) {
            return Ok(self.apply_engine(&command.command));
        }
        if command.backend == BACKEND_CLUSTER && command.command.first() == Some(&SKIP_COMMAND) {
            // It is for those that wait at the entry it names (quarantine.rs).
            return Ok(encode_reply(&Ok(Done)));
        }
        if command.backend == BACKEND_CLUSTER {
            return Ok(self.apply_defaults(&command.command));
        }
        poison(&command.command)?;
        let Some(backend) = BackendKind::from_byte(command.backend) else {
            let refusal = Refusal::new(ErrorCode::UnknownBackend, "the command names no backend of this version");
            return Ok(encode_reply::<Done>(&Err(refusal)));
        };
        self.touched |= 1 << backend as u8;
        let mut space = BackendSpace {
            overlay: &mut self.overlay,
            engine: &*self.engine,
            space: self.space,
            backend: command.backend,
        };
        let ids = &self.request_ids;
        let known = |id| ids.get(id).or_else(|| row.get(id).cloned()).map(|applied| applied.reply);
        core_backends::apply_once(backend, context, &mut space, &command.command, &known)
    }

    fn apply_defaults(&mut self, command: &Bytes) -> Bytes {
        match SetDefaults::from_bytes(command.clone()) {
            Ok(defaults) => {
                self.meta.consistency = defaults.consistency.unwrap_or(self.meta.consistency);
                self.meta.read_consistency = defaults.read_consistency.unwrap_or(self.meta.read_consistency);
                encode_reply(&Ok(Done))
            }
            Err(error) => encode_reply::<Done>(&Err(Refusal::new(ErrorCode::CorruptCommand, error.to_string()))),
        }
    }

    fn apply_engine(&mut self, command: &Bytes) -> Bytes {
        match SetEngine::from_bytes(command.clone()) {
            // A retry must not move again what was moved already.
            Ok(set) if self.meta.engine.as_ref().is_some_and(|chosen| chosen.engine == set.engine) => {
                encode_reply(&Ok(Done))
            }
            Ok(set) => {
                self.meta.engine = Some(Rc::new(ChosenEngine { engine: set.engine, since: self.meta.next_replica }));
                encode_reply(&Ok(Done))
            }
            Err(error) => encode_reply::<Done>(&Err(Refusal::new(ErrorCode::CorruptCommand, error.to_string()))),
        }
    }

    fn apply_membership(&mut self, lane: &mut LaneContext, entry: &LogEntry) -> Result<(), EngineError> {
        let corrupt = |text: String| EngineError::Corrupt(format!("membership entry {}: {text}", entry.index));
        let context = ChangeContext::of(entry).map_err(|error| corrupt(error.to_string()))?;
        if self.is_of_life_before(entry.index) {
            // Its members are no members of this life (life.rs).
            return Ok(());
        }
        let change = MembershipChange { changes: context.changes.clone() };
        let membership = self.group.as_mut().expect("applies").apply_change(&change).map_err(corrupt)?;
        let mut members = self.meta.members.to_vec();
        for member in &context.added {
            members.retain(|old| old.replica != member.replica);
            members.push(*member);
            self.meta.next_replica = self.meta.next_replica.max(base_types::ReplicaId(member.replica.0 + 1));
        }
        members.retain(|member| membership.contains(member.replica));
        for member in &mut members {
            member.learner = !membership.is_voter(member.replica);
        }
        members.sort_unstable();
        self.meta.members = members.into();
        let was_member = self.meta.membership.contains(self.spec.replica);
        self.meta.membership = membership.into();
        lane.interner.share_meta(&mut self.meta);
        self.reads.forget_lease();
        self.membership_at = entry.index;
        // A member that is removed stays until another has the removal durably and says so: one that had
        // only heard of its commit, and forgets it in a crash, may need this vote to commit it again.
        if was_member && !self.meta.membership.contains(self.spec.replica) {
            self.removed = self.is_leader();
        }
        lane.snapshot_senders -= self.snapshots.end_to_strangers(&self.meta.membership);
        Ok(())
    }

    fn answer_proposed(&mut self, lane: &mut LaneContext, now: Tick, entry: &LogEntry, answers: Vec<Applied>) {
        let mut answers = answers.into_iter();
        while self.proposed.front().is_some_and(|proposed| proposed.index <= entry.index) {
            let Some(proposed) = self.proposed.pop_front() else { return };
            let early = planted(Mutant::AnsweredWritesCounted) && proposed.writes.iter().all(|write| write.answered);
            self.pending_writes = self.pending_writes.saturating_sub(if early { 0 } else { proposed.writes.len() });
            let ours = proposed.index == entry.index && proposed.term == entry.term;
            let time = self.cluster_time(now);
            if ours {
                self.commit_time.on_commit(proposed.since, now);
            }
            for write in proposed.writes {
                match answers.next().filter(|_| ours) {
                    // A repeated request is answered from where it was applied the first time.
                    Some(Applied { index, term, position, reply, .. }) => {
                        let at = self.at(term, index, position);
                        self.complete_applied(lane, write, at, reply, time);
                    }
                    None if write.answered => {}
                    None => {
                        let message =
                            format!("another leader of cluster {} replaced the write's entry", self.spec.name);
                        lane.complete(write.ticket, crate::api::LocalOutcome::Unknown { message });
                    }
                }
            }
        }
    }
}

/// What is applied is written out, or comes whole from another member.
impl Replica {
    /// Raft takes the snapshot that lies in the staging space: the spaces are swapped. The record that
    /// names the new space is in the log already (`next_ready`), in front of the reset; the old space
    /// goes once both are durable, for until then a crash comes back to it.
    pub fn install(&mut self, lane: &mut LaneContext, point: SnapshotPoint) -> Result<(), EngineError> {
        let staging =
            self.snapshots.take_staging().ok_or_else(|| EngineError::Corrupt("no data came with it".into()))?;
        let meta = self
            .engine
            .get(staging, META_KEY)?
            .ok_or_else(|| EngineError::Corrupt("it has no meta record".into()))
            .and_then(|bytes| {
                ClusterMeta::from_bytes(bytes).map_err(|error| EngineError::Corrupt(error.to_string()))
            })?;
        if meta.applied != point.index && !planted(Mutant::SnapshotWrongIndex) {
            let text = format!("it claims index {} and holds {}", point.index, meta.applied);
            return Err(EngineError::Corrupt(text));
        }
        lane.drop_space_later(&self.spec.engine, self.space);
        self.on_space_changed(lane);
        self.space = staging;
        self.touched = u16::MAX;
        self.blank = false;
        self.meta = meta;
        lane.interner.share_meta(&mut self.meta);
        self.meta.applied = point.index;
        self.membership_at = point.index;
        if !planted(Mutant::SnapshotKeepsOld) {
            self.overlay.clear();
        }
        // What was committed and held back lies behind the snapshot, and the space is another one.
        self.late.clear();
        self.mending = None;
        self.end_quarantine(lane);
        self.chain.forget_samples();
        self.verification.stop_walk();
        self.lost_pairs.clear();
        self.flushes.restart(point.clone());
        self.load_request_ids()?;
        lane.statistics.snapshots_installed += 1;
        if let Some(group) = self.group.as_mut() {
            group.set_snapshot_point(point);
        }
        Ok(())
    }

    /// Whether there is anything to write out.
    pub fn is_dirty(&self) -> bool {
        self.flushes.dirty_since().is_some() && !self.overlay.is_frozen() && !self.blank && self.damaged.is_none()
    }

    fn freeze_into(&mut self, flush: &mut Flush, labelled: bool) -> SnapshotPoint {
        let space = self.space;
        flush.layers.push((space, self.overlay.freeze()));
        let (key, value) = (Bytes::from_static(META_KEY), self.meta.to_bytes());
        flush.beside.push(BatchOperation::Put { space, key, value });
        flush.beside.extend(labelled.then(|| restore::label(&self.spec, space)));
        flush.beside.push(BatchOperation::Durable { space, index: self.meta.applied });
        self.flushes.begin(&self.meta)
    }

    /// The engine holds the frozen overlay durably; gives the layer, which is needed no more.
    pub fn on_flushed(&mut self, lane: &mut LaneContext, space: SpaceId, point: SnapshotPoint) -> Option<Arc<Layer>> {
        if space != self.space {
            // A snapshot replaced the space meanwhile; the old one is being dropped.
            return None;
        }
        let layer = self.overlay.thaw();
        self.flushes.end(point.clone());
        self.verification.walk_what_is_flushed(&*self.engine, space, point.index);
        if let Some(group) = self.group.as_mut() {
            group.set_snapshot_point(point);
        }
        let pressed = lane.buggify.fires(Point::EarlyCut);
        self.compact_log(lane, pressed);
        layer
    }

    /// Cuts the log, keeping what lagging members may still need while it is small; `pressed`: the log asks for room.
    pub fn compact_log(&mut self, lane: &mut LaneContext, pressed: bool) {
        let cluster = self.spec.cluster;
        let mut log = lane.log.borrow_mut();
        let keep = log.bytes(cluster) <= lane.config.log_keep_bytes && !pressed;
        let mut slowest = None;
        if keep {
            let Some(group) = self.group.as_ref().filter(|_| self.leading.is_some()) else { return };
            slowest = group.followers().iter().map(|follower| follower.matched).min();
        }
        self.flushes.cut_log(&mut log, cluster, self.meta.applied, slowest);
    }
}

/// Freezes the dirty replicas of one engine and queues the batch.
pub fn flush_engine(lane: &mut LaneContext, engine: &str, replicas: &mut [&mut Replica]) {
    let mut flush = Flush::default();
    let mut points = Vec::with_capacity(replicas.len());
    for replica in replicas.iter_mut() {
        replica.on_flush_begun(lane);
        let point = replica.freeze_into(&mut flush, lane.config.label_spaces);
        points.push((replica.spec.cluster, replica.space, point));
    }
    lane.statistics.flushes += 1;
    lane.draw_flush();
    lane.jobs.flush(engine, JobTarget::Flush(points), flush);
}
