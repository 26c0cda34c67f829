//! A replica's way with clients' writes: taken or refused, made into entries at the turn's end, answered at their level.
//!
//! ```text
//!   write ─▶ refused at once, or found done ─▶ answered
//!     └─▶ staged ─▶ (end of the turn) an entry, `proposed` ─▶ hopeful: answered
//!                        └─▶ applied (apply.rs) ─▶ strong: answered ─▶ on every member ─▶ absolute: answered
//! ```
//!
//! Always: a write that was taken is answered once (checker `unanswered`; `invariants.rs` counts those that wait). A write
//! whose request id was applied is not proposed again (mutant `DoubleApply`).
//! Not here: applying (apply.rs), level `s3` (archive_ack.rs), the loss of leadership with writes under way (replica.rs).

use crate::api::*;
use crate::context::LaneContext;
use crate::entry::{self, EntryCommand, COMMANDS_PER_ENTRY_MAX, ENTRY_BYTES_MAX};
use crate::replica::{archive_ack, dedup_gc, Replica};
use crate::request_id_terms::{KEEP_LESS_MS_MAX, ROUTE_AHEAD_MS_MAX, ROUTE_BEHIND_MS_MAX};
use crate::storage::overlay::BackendView;
use base_types::mutant::{planted, Mutant};
use base_types::{
    BackendKind, ErrorCode, LogIndex, NodeId, OrderedAt, Refusal, ReplicaId, RequestId, RequestIdKind, Term, Tick,
    Ticket, WriteConsistency, DEADLINE_MAX,
};
use bytes::Bytes;
use core_backends::Parsed;
use core_log::BatchNumber;
use core_raft::{Group, ProposeError};

/// Writes waiting in one replica for the end of the turn or for their entry; beyond it: overloaded.
pub const PENDING_WRITES_MAX: usize = 65_536;

/// A write that waits for the turn's entry.
pub struct StagedWrite {
    pub waiting: WaitingWrite,
    pub command: EntryCommand,
}

/// A write's client side.
#[derive(Clone, Debug)]
pub struct WaitingWrite {
    pub ticket: Ticket,
    pub deadline: Tick,
    pub level: WriteConsistency,
    /// Already answered (hopeful, eventual).
    pub answered: bool,
}

/// An entry of ours on its way to being committed.
pub struct Proposed {
    pub index: LogIndex,
    pub term: Term,
    /// Durable here once this batch is.
    pub batch: BatchNumber,
    pub writes: Vec<WaitingWrite>,
    pub cluster_time_ms: u64,
    pub since: Tick,
}

/// An applied write that waits for every member, or for a bucket.
pub struct AbsoluteWait {
    pub waiting: WaitingWrite,
    pub at: OrderedAt,
    pub reply: Bytes,
}

impl Replica {
    /// Takes a write, or completes it at once. The reply comes when its level is reached.
    pub fn submit_write(&mut self, lane: &mut LaneContext, now: Tick, ticket: Ticket, deadline: Tick, write: Write) {
        if planted(Mutant::HopefulUnordered) && write.level(self) == WriteConsistency::Hopeful && !self.is_leader() {
            let at = self.at(self.term(), self.meta.applied, 0);
            let outcome = LocalOutcome::Written {
                reply: Bytes::new(),
                at,
                level: WriteConsistency::Hopeful,
                cluster_time_ms: self.meta.cluster_time_ms,
            };
            return lane.complete(ticket, outcome);
        }
        if !self.is_leader() || self.group.as_ref().is_some_and(Group::is_transferring) {
            return lane.complete(ticket, self.not_leader());
        }
        if self.hand_over_if_unfit(lane, now) {
            return lane.complete(ticket, self.not_leader());
        }
        if self.refuse_quarantined(lane, ticket) {
            return;
        }
        let parsed = match self.parse_write(lane, &write) {
            Ok(parsed) => parsed,
            Err(refused) => return lane.complete(ticket, LocalOutcome::Refused(refused)),
        };
        let time = self.cluster_time(now);
        let hint = write.cluster_time_ms;
        let stale = hint.saturating_add(ROUTE_BEHIND_MS_MAX) < time || hint > time.saturating_add(ROUTE_AHEAD_MS_MAX);
        if stale && !planted(Mutant::StaleRouteAccepted) {
            return lane.complete(ticket, LocalOutcome::StaleRoute { cluster_time_ms: time });
        }
        // Nobody waits longer, and the request id is remembered by it.
        let deadline = deadline.min(now + DEADLINE_MAX);
        let level = self.promised_level(&write, parsed.as_ref());
        let waiting = WaitingWrite { ticket, deadline, level, answered: false };
        let remaining = deadline.since(now).as_millis() as u64;
        let keep_ms = lane.config.request_ids.keep_ms(write.request_id, remaining);
        let known = self.request_ids.get(write.request_id).filter(|_| self.is_kept(lane, write.request_id, keep_ms));
        if let Some(applied) = known.filter(|_| !planted(Mutant::DoubleApply)) {
            let at = self.at(applied.term, applied.index, applied.position);
            lane.statistics.duplicates_suppressed += 1;
            return self.complete_applied(lane, waiting, at, applied.reply, time);
        }
        let last = self.group.as_ref().map_or(LogIndex(0), Group::last_index);
        if let Some(refusal) = self.expired(write.request_id, last) {
            return lane.complete(ticket, LocalOutcome::Refused(refusal));
        }
        if let Some(refusal) = self.precheck(&write, parsed.as_ref(), time) {
            let at = self.at(self.term(), self.meta.applied, 0);
            let reply = core_backends::encode_reply::<crate::replica::apply::Done>(&Err(refusal));
            return self.complete_applied(lane, waiting, at, reply, time);
        }
        if let Some(refused) = self.tail_refusal(lane, level).or_else(|| self.too_late(lane, now, &waiting)) {
            return lane.complete(ticket, LocalOutcome::Refused(refused));
        }
        self.pending_writes += 1;
        self.staged.push(StagedWrite {
            waiting,
            command: EntryCommand {
                backend: write.backend,
                request_id: write.request_id,
                keep_ms,
                command: write.command,
            },
        });
    }

    /// Whether a request that was applied is remembered about long enough. A repetition with a later deadline must be remembered
    /// for longer, and that takes an entry.
    fn is_kept(&self, lane: &LaneContext, id: RequestId, keep_ms: u64) -> bool {
        let enough = self.id_time(lane).saturating_add(keep_ms.saturating_sub(KEEP_LESS_MS_MAX));
        self.request_ids.kept_until(id).is_some_and(|until| until >= enough)
    }

    /// Why a request that is not remembered must not be applied.
    pub fn expired(&self, id: RequestId, last: LogIndex) -> Option<Refusal> {
        let known = self.request_ids.contains(id);
        let life = self.life_of(LogIndex(last.0 + 1));
        let expired = || self.request_ids.expired(id, self.spec.cluster, life, last);
        if known {
            None
        } else {
            expired()
        }
    }

    /// Why a write that would end after its deadline is not begun. One that is acknowledged before it is committed has time.
    fn too_late(&self, lane: &mut LaneContext, now: Tick, write: &WaitingWrite) -> Option<Refusal> {
        let takes = self.commit_time.estimate(self.proposed.front().map(|oldest| oldest.since), now);
        let left = write.deadline.since(now);
        if write.level < WriteConsistency::Strong || left >= takes {
            return None;
        }
        lane.statistics.writes_too_late += 1;
        // Not `DeadlineExceeded`: routers answer this one at once, and do not look for another leader.
        Some(Refusal::new(
            ErrorCode::Overloaded,
            format!(
                "cluster {} takes {} ms for a write now, and this one has {} ms left; back off, or allow more time",
                self.spec.name,
                takes.as_millis(),
                left.as_millis()
            ),
        ))
    }

    /// The level a write will be acknowledged at. One that is acknowledged before it is applied must not be
    /// refused when it is: where that is not sure (a partition is moving), it waits to be applied like a
    /// strong one, and its answer says so.
    fn promised_level(&mut self, write: &Write, parsed: Option<&Parsed>) -> WriteConsistency {
        let level = write.level(self);
        let Some(parsed) = parsed else { return level };
        let early = level < WriteConsistency::Strong;
        let settled = self.unsure_until <= self.meta.applied && self.meta.applied_term == self.term();
        let space = BackendView { view: self.view(), backend: write.backend };
        // An id that was issued may expire until it is applied.
        let issued = matches!(write.request_id.kind(), RequestIdKind::Issued(_));
        let sure = !early || (settled && !issued && parsed.can_ack_early(&space) == Ok(true));
        if parsed.blocks_early_ack() {
            self.unsure_until = LogIndex(u64::MAX);
        }
        if sure {
            level
        } else {
            WriteConsistency::Strong
        }
    }

    /// What applying it would answer, where that is no answer to remember: it needs no entry of the log.
    fn precheck(&self, write: &Write, parsed: Option<&Parsed>, cluster_time_ms: u64) -> Option<Refusal> {
        let space = BackendView { view: self.view(), backend: write.backend };
        parsed?.precheck(&space, cluster_time_ms).ok().flatten()
    }

    /// Decodes a write's command, once, or refuses it. A command of the cluster itself needs no decoding here.
    fn parse_write(&self, lane: &LaneContext, write: &Write) -> Result<Option<Parsed>, Refusal> {
        if let Some(refusal) = self.no_room_for(lane, write) {
            return Err(refusal);
        }
        if write.backend == entry::BACKEND_CLUSTER {
            return Ok(None);
        }
        let Some(backend) = BackendKind::from_byte(write.backend).filter(|kind| self.spec.name.has(*kind)) else {
            return Err(Refusal::new(
                ErrorCode::UnknownBackend,
                format!("cluster {} has no such backend; its name lists the ones it has", self.spec.name),
            ));
        };
        core_backends::parse(backend, &write.command).map(Some)
    }

    fn no_room_for(&self, lane: &LaneContext, write: &Write) -> Option<Refusal> {
        if lane.disk_full {
            return Some(Refusal::new(
                ErrorCode::DiskFull,
                format!("node {} has no room on its disk; free space or add a node", lane.config.node),
            ));
        }
        if self.request_ids.is_full(write.request_id, lane.config.request_ids.held_max) {
            return Some(Refusal::new(
                ErrorCode::Overloaded,
                format!(
                    "cluster {} remembers {} request ids and forgets none early; back off and retry",
                    self.spec.name,
                    self.request_ids.len()
                ),
            ));
        }
        if self.pending_writes >= PENDING_WRITES_MAX || lane.is_pressed(4) {
            return Some(Refusal::new(
                ErrorCode::Overloaded,
                format!(
                    "the write queue of cluster {} is full ({} writes wait, {} bytes wait to be flushed); back off and retry",
                    self.spec.name, self.pending_writes, lane.statistics.overlay_bytes
                ),
            ));
        }
        let room = lane.log.borrow().entry_bytes_max().saturating_sub(entry::OVERHEAD_BYTES_MAX);
        if write.command.len() > room {
            let message =
                format!("a command of {} bytes is longer than the {room} an entry takes", write.command.len());
            return Some(Refusal::new(ErrorCode::BodyTooLarge, message));
        }
        None
    }

    /// Answers a write that is applied, or lets it wait for every member, or for a bucket.
    pub fn complete_applied(
        &mut self,
        lane: &mut LaneContext,
        waiting: WaitingWrite,
        at: OrderedAt,
        reply: Bytes,
        cluster_time_ms: u64,
    ) {
        if waiting.answered {
            return;
        }
        let absolute = waiting.level == WriteConsistency::Absolute && !planted(Mutant::AbsoluteIsStrong);
        // A refusal changed nothing: there is nothing for every member to have, and at the deadline "committed, but
        // not everywhere" would be said of what was never done (seed 985).
        if absolute && !core_backends::is_refusal(&reply) && !self.everywhere(at.index) {
            self.absolute.push(AbsoluteWait { waiting, at, reply });
            return;
        }
        let kept = |replica: &Replica| replica.tails.kept(&replica.holds(lane));
        let to_keep = archive_ack::is_asked(waiting.level) && kept(self) < Some(at.index);
        if to_keep && !core_backends::is_refusal(&reply) {
            let refused = self.tails.wait(AbsoluteWait { waiting, at, reply });
            return self.answer_not_kept(lane, refused);
        }
        // A write that is applied has reached at least `strong`, whatever was asked.
        let level = waiting.level.max(WriteConsistency::Strong);
        lane.complete(waiting.ticket, LocalOutcome::Written { reply, at, level, cluster_time_ms });
    }

    /// Refuses a write that no bucket could keep.
    fn tail_refusal(&self, lane: &LaneContext, level: WriteConsistency) -> Option<Refusal> {
        let asked = archive_ack::is_asked(level);
        asked.then(|| self.tails.refusal(&self.holds(lane), &self.spec.name)).flatten()
    }

    /// Writes that a bucket holds by now.
    pub fn complete_kept(&mut self, lane: &mut LaneContext, now: Tick) {
        let (kept, cluster_time_ms) = (self.tails.kept(&self.holds(lane)), self.cluster_time(now));
        for AbsoluteWait { waiting, at, reply } in self.tails.take_kept(kept) {
            let outcome = LocalOutcome::Written { reply, at, level: WriteConsistency::S3, cluster_time_ms };
            lane.complete(waiting.ticket, outcome);
        }
    }

    /// Gives up what is past its deadline.
    pub fn expire_kept(&mut self, lane: &mut LaneContext, now: Tick) {
        let late = self.tails.take_late(now);
        self.answer_not_kept(lane, late);
    }

    /// Committed, and told so: they are not in a bucket.
    fn answer_not_kept(&self, lane: &mut LaneContext, waits: impl IntoIterator<Item = AbsoluteWait>) {
        for AbsoluteWait { waiting, at, reply } in waits {
            let kept = self.tails.kept(&self.holds(lane)).unwrap_or(LogIndex(0));
            lane.complete(waiting.ticket, LocalOutcome::CommittedNotKept { reply, at, kept });
        }
    }

    /// Leadership is gone: what waits for a bucket is committed.
    pub fn fail_kept(&mut self, lane: &mut LaneContext) {
        let kept = self.tails.kept(&self.holds(lane)).unwrap_or(LogIndex(0));
        for AbsoluteWait { waiting, at, reply } in self.tails.lose_leadership() {
            lane.complete(waiting.ticket, LocalOutcome::CommittedNotKept { reply, at, kept });
        }
    }

    fn everywhere(&self, index: LogIndex) -> bool {
        let replicas: Vec<ReplicaId> = self.meta.members.iter().map(|member| member.replica).collect();
        self.group.as_ref().is_some_and(|group| group.matched_on_all(&replicas) >= index)
    }

    /// Absolute writes that every member has by now.
    pub fn complete_absolute(&mut self, lane: &mut LaneContext, now: Tick) {
        if self.absolute.is_empty() {
            return;
        }
        let time = self.cluster_time(now);
        let (done, waiting): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.absolute).into_iter().partition(|wait| self.everywhere(wait.at.index));
        self.absolute = waiting;
        for wait in done {
            let outcome = LocalOutcome::Written {
                reply: wait.reply,
                at: wait.at,
                level: WriteConsistency::Absolute,
                cluster_time_ms: time,
            };
            lane.complete(wait.waiting.ticket, outcome);
        }
    }

    /// The turn's writes become entries.
    pub fn propose_staged(&mut self, lane: &mut LaneContext, now: Tick) {
        if self.staged.is_empty() {
            return;
        }
        let staged = std::mem::take(&mut self.staged);
        if self.leading.is_none() {
            self.pending_writes -= staged.len();
            for write in staged {
                lane.complete(write.waiting.ticket, self.not_leader());
            }
            return;
        }
        // An entry fits the log's segments too, which may be smaller than what an entry may be.
        let room = lane.log.borrow().entry_bytes_max().saturating_sub(entry::OVERHEAD_BYTES_MAX).min(ENTRY_BYTES_MAX);
        let size = |command: &EntryCommand| command.command.len() + entry::COMMAND_OVERHEAD_BYTES_MAX;
        let mut rest = staged.into_iter().peekable();
        while rest.peek().is_some() {
            let mut bytes = 0;
            let mut commands = Vec::new();
            let mut writes = Vec::new();
            while let Some(write) = rest.next_if(|write| {
                commands.len() < COMMANDS_PER_ENTRY_MAX && (commands.is_empty() || bytes + size(&write.command) <= room)
            }) {
                bytes += size(&write.command);
                commands.push(write.command);
                writes.push(write.waiting);
            }
            self.propose_entry(lane, now, &commands, writes);
        }
    }

    /// Whether it remembers more requests than a quiet member should.
    pub fn remembers_much(&self, lane: &LaneContext) -> bool {
        dedup_gc::remembers_much(&self.request_ids, lane)
    }

    /// Of an idle leader, once a tick: the entry that lets request ids go, as soon as all may.
    pub fn forget_before_quiet(&mut self, lane: &mut LaneContext, now: Tick) {
        let idle = self.leading.is_some() && !self.quiesced && self.idle_ticks >= lane.config.quiesce_after_ticks;
        if idle && dedup_gc::is_due(&self.request_ids, self.id_time(lane), self.spec.cluster, lane, now) {
            self.propose_entry(lane, now, &[], Vec::new());
        }
    }

    /// An entry of its own that no client waits for.
    pub fn propose_own(&mut self, lane: &mut LaneContext, now: Tick, command: EntryCommand) {
        let (ticket, deadline, level) = (Ticket(0), Tick::NEVER, WriteConsistency::Strong);
        self.pending_writes += 1;
        self.propose_entry(lane, now, &[command], vec![WaitingWrite { ticket, deadline, level, answered: true }]);
    }

    /// The same with the turn's entries.
    pub fn stage_own(&mut self, command: EntryCommand) {
        let (ticket, deadline, level) = (Ticket(0), Tick::NEVER, WriteConsistency::Strong);
        self.pending_writes += 1;
        self.staged.push(StagedWrite { waiting: WaitingWrite { ticket, deadline, level, answered: true }, command });
    }

    pub fn propose_entry(
        &mut self,
        lane: &mut LaneContext,
        now: Tick,
        commands: &[EntryCommand],
        mut writes: Vec<WaitingWrite>,
    ) {
        let time = self.cluster_time(now);
        let id_time = self.id_time(lane);
        let group = self.group.as_mut().expect("a leader has a group");
        let leaves = group.is_transferring();
        match group.propose(entry::encode(lane.config.level, time, id_time, commands)) {
            Ok(index) => {
                let term = group.term();
                if self.unsure_until == LogIndex(u64::MAX) {
                    self.unsure_until = index;
                }
                lane.statistics.proposals += 1;
                for (position, write) in writes.iter_mut().enumerate() {
                    let early = write.level == WriteConsistency::Hopeful
                        || (write.level == WriteConsistency::Eventual && planted(Mutant::EventualIsHopeful));
                    if early {
                        write.answered = true;
                        let at = self.at(term, index, position as u32);
                        let level = write.level;
                        let outcome = LocalOutcome::Written { reply: Bytes::new(), at, level, cluster_time_ms: time };
                        lane.complete(write.ticket, outcome);
                    }
                }
                // The batch is known when the ready is made; `stage_ready` fills it in.
                let batch = BatchNumber(u64::MAX);
                self.proposed.push_back(Proposed { index, term, batch, writes, cluster_time_ms: time, since: now });
            }
            Err(error) => {
                self.pending_writes -= writes.len();
                for write in writes {
                    let outcome = match error {
                        _ if leaves => self.not_leader(),
                        ProposeError::NotLeader => self.not_leader(),
                        ProposeError::Dropped => LocalOutcome::Refused(Refusal::new(
                            ErrorCode::Overloaded,
                            format!(
                                "cluster {} hands leadership over, or has too many writes that are not committed; back off and retry",
                                self.spec.name
                            ),
                        )),
                    };
                    lane.complete(write.ticket, outcome);
                }
            }
        }
    }

    pub(crate) fn expire_absolute(&mut self, lane: &mut LaneContext, now: Tick) {
        if self.absolute.is_empty() {
            return;
        }
        let late: Vec<_> = self.absolute.extract_if(.., |wait| wait.waiting.deadline <= now).collect();
        for wait in late {
            let missing = self.lacking(wait.at.index);
            let outcome = LocalOutcome::CommittedNotAbsolute { reply: wait.reply, at: wait.at, missing };
            lane.complete(wait.waiting.ticket, outcome);
        }
    }

    fn lacking(&self, index: LogIndex) -> Vec<NodeId> {
        let Some(group) = self.group.as_ref() else { return Vec::new() };
        let lacks = |member: &&Member| group.matched_on_all(&[member.replica]) < index;
        self.meta.members.iter().filter(lacks).map(|member| member.node).collect()
    }
}

/// What a write brings along.
pub struct Write {
    pub backend: u8,
    pub command: Bytes,
    pub consistency: Option<WriteConsistency>,
    pub request_id: RequestId,
    pub cluster_time_ms: u64,
}

impl Write {
    fn level(&self, replica: &Replica) -> WriteConsistency {
        self.consistency.unwrap_or(replica.meta.consistency)
    }
}
