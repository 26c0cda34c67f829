//! Verifying a cluster on request: every member checks every pair it holds at one index, and the leader
//! compares.
//!
//! ```text
//!   leader: mark in the log ─▶ applied at index i by every member: its overlay is frozen there and written out
//!                                └─▶ engine holds i, durably ─▶ snapshot ─▶ walked a step a tick ─▶ digest
//!           VerifyAsk … VerifyTold (walking, digest, missed) ◀── each member, until all have told
//!   missed (a flush was under way there at i): another mark, a bounded number of times
//! ```
//!
//! What is compared is what engines hold, not what memory does: that is what may rot. A pair that reads as
//! damaged is counted, left out of the digest, and mended (value_repair.rs).
//!
//! Digests are compared at one index only. A step is bounded (`STEP_PAIRS`, `STEP_BYTES`), so that the lane's other clusters
//! do not wait. A run ends: members that do not answer are reported as silent.
//! Not here: what to do about a member that differs (core-node says it), damage that nobody asked for (scrub.rs).

use crate::api::{ClusterVerification, LocalOutcome, MemberVerification, Verified};
use crate::context::LaneContext;
use crate::entry::{EntryCommand, BACKEND_CLUSTER};
use crate::meta::{LABEL_KEY, META_KEY};
use crate::replica::chain::judge_digests;
use crate::replica::flush::flush_engine;
use crate::replica::writes::{StagedWrite, WaitingWrite};
use crate::replica::Replica;
use crate::wire::Payload;
use base_engine::{Digest, EngineError, EngineSnapshot, KeyRange};
use base_types::codec::{DecodeError, Encode, Reader, Writer};
use base_types::sizes::Sizes;
use base_types::{ErrorCode, LogIndex, NodeId, Refusal, ReplicaId, RequestId, SpaceId, Tick, Ticket, WriteConsistency};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

/// Pairs, and bytes, of one step: about a millisecond.
const STEP_PAIRS: u64 = 2_000;
const STEP_BYTES: u64 = 2 << 20;
/// Members are asked so often.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// A member that says nothing for so long is reported as silent.
const SILENT_AFTER: Duration = Duration::from_secs(10);
/// Between two marks of one run.
const MARK_EVERY: Duration = Duration::from_millis(500);
/// Marks of one run: members that missed the last one are reported so.
const MARKS_MAX: u32 = 20;
/// Asks that wait for one run.
const WAITS_MAX: usize = 64;
/// The mark of a walk that nobody asked for: no run has it.
const OWN_MARK: u64 = 0;
/// The first byte of the command to the cluster itself that marks an index.
pub const MARK_COMMAND: u8 = 2;

/// The command: members check what they hold at this entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    pub run: u64,
}

impl Encode for Mark {
    fn encode(&self, out: &mut Writer) {
        out.u8(MARK_COMMAND).u64(self.run);
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        if input.u8("cluster command")? != MARK_COMMAND {
            return Err(DecodeError::Unknown("cluster command"));
        }
        Ok(Mark { run: input.u64("run")? })
    }
}

enum State {
    /// The overlay, as it was at the mark, is being written out.
    Flushing,
    Walking {
        reader: Box<dyn EngineSnapshot>,
        space: SpaceId,
        start: Vec<u8>,
    },
    Ended(Verified),
}

/// What this member checks, or has checked last.
pub struct Walk {
    mark: u64,
    index: LogIndex,
    state: State,
    digest: Digest,
    damaged: u64,
}

/// What a leader has heard.
struct Told {
    what: Verified,
    heard: Tick,
}

/// A run, as its leader sees it.
pub struct Verification {
    run: u64,
    mark: u64,
    marks: u32,
    marked: Tick,
    asked: Tick,
    index: LogIndex,
    told: BTreeMap<ReplicaId, Told>,
    waits: Vec<(Ticket, Tick)>,
    done: bool,
}

impl Verification {
    pub fn sizes(&self, sizes: &mut Sizes) {
        sizes.passing("asks that wait for a verification, a replica", self.waits.len(), WAITS_MAX);
    }
}

impl Walk {
    fn told(&self) -> Verified {
        match &self.state {
            State::Flushing => Verified::Unknown,
            State::Walking { .. } => Verified::Walking { pairs: self.digest.pairs },
            State::Ended(told) => told.clone(),
        }
    }
}

impl Replica {
    /// Whether it checks pairs now, or leads a run.
    pub fn is_verifying(&self) -> bool {
        self.verification.as_ref().is_some_and(|run| !run.done)
            || self.walk.as_ref().is_some_and(|walk| !matches!(walk.state, State::Ended(_)))
    }

    /// Begins a run, or waits for the one under way; `run`: that one and no other.
    pub fn submit_verify(
        &mut self,
        lane: &mut LaneContext,
        now: Tick,
        ticket: Ticket,
        deadline: Tick,
        run: Option<u64>,
    ) {
        let known = self.verification.as_ref().is_some_and(|known| run == Some(known.run));
        if run.is_some() && !known {
            let message = format!(
                "cluster {} has no such verification: its leader has changed or another was begun; begin a new one",
                self.spec.name
            );
            return lane.complete(ticket, LocalOutcome::Refused(Refusal::new(ErrorCode::NotFound, message)));
        }
        if run.is_none() && self.verification.as_ref().is_none_or(|known| known.done) {
            self.begin_verification(lane, now);
        }
        let Some(verification) = self.verification.as_mut() else { return };
        if verification.waits.len() >= WAITS_MAX {
            let message = format!("{WAITS_MAX} callers wait for the verification of cluster {}", self.spec.name);
            let refusal = Refusal::new(ErrorCode::Overloaded, message);
            return lane.complete(ticket, LocalOutcome::Refused(refusal));
        }
        verification.waits.push((ticket, deadline));
        self.answer_verify(lane, now);
    }

    fn begin_verification(&mut self, lane: &mut LaneContext, now: Tick) {
        let run = now.0 ^ lane.config.node.0.rotate_right(16);
        self.verification = Some(Box::new(Verification {
            run,
            mark: run,
            marks: 0,
            marked: Tick(0),
            asked: Tick(0),
            index: LogIndex(0),
            told: BTreeMap::new(),
            waits: Vec::new(),
            done: false,
        }));
        self.set_mark(lane, now);
    }

    /// A mark goes into the log, like any write that nobody waits for.
    fn set_mark(&mut self, lane: &LaneContext, now: Tick) {
        let members = self.meta.members.clone();
        let Some(run) = self.verification.as_mut() else { return };
        run.marks += 1;
        run.mark = run.run.wrapping_add(u64::from(run.marks)).max(OWN_MARK + 1);
        run.marked = now;
        let told = |what| Told { what, heard: now };
        run.told = members.iter().map(|member| (member.replica, told(Verified::Unknown))).collect();
        let id = (u128::from(run.mark) << 64) | u128::from(lane.config.node.0);
        let command = EntryCommand {
            backend: BACKEND_CLUSTER,
            request_id: RequestId::own(id),
            keep_ms: 1_000,
            command: Mark { run: run.mark }.to_bytes(),
        };
        self.pending_writes += 1;
        self.staged.push(StagedWrite {
            waiting: WaitingWrite {
                ticket: Ticket(0),
                deadline: Tick::NEVER,
                level: WriteConsistency::Strong,
                answered: true,
            },
            command,
        });
    }

    /// The entry with a mark has been applied, and nothing after it.
    pub fn on_mark(&mut self, lane: &mut LaneContext, mark: u64) {
        let index = self.meta.applied;
        let engine = self.spec.engine.to_string();
        let busy = self.overlay.is_frozen() || lane.jobs.is_flushing(&engine);
        let state = if busy { State::Ended(Verified::Missed) } else { State::Flushing };
        self.walk = Some(Box::new(Walk { mark, index, state, digest: Digest::default(), damaged: 0 }));
        if !busy {
            flush_engine(lane, &engine, &mut [&mut *self]);
        }
    }

    /// The engine holds what was applied at this index, and nothing later: the next flush has not gone out yet.
    pub fn walk_what_is_flushed(&mut self, index: LogIndex) {
        let space = self.space;
        let Some(walk) = self.walk.as_mut().filter(|walk| matches!(walk.state, State::Flushing)) else { return };
        walk.state = match self.engine.snapshot() {
            Ok(reader) if walk.index == index => State::Walking { reader, space, start: Vec::new() },
            _ => State::Ended(Verified::Missed),
        };
    }

    /// The engine cannot be scrubbed, and does not say which pairs it is about: this replica's are read one by one, and
    /// if it is about them, it is rebuilt. False: not now.
    pub fn check_own(&mut self) -> bool {
        let settled = self.group.is_some() && !self.blank && self.meta.members.len() > 1 && !self.is_verifying();
        let Some(reader) = settled.then(|| self.engine.snapshot().ok()).flatten() else { return false };
        let state = State::Walking { reader, space: self.space, start: Vec::new() };
        let (index, digest) = (self.durable.index, Digest::default());
        self.walk = Some(Box::new(Walk { mark: OWN_MARK, index, state, digest, damaged: 0 }));
        true
    }

    /// The next step of a walk.
    pub fn tick_walk(&mut self, lane: &mut LaneContext) {
        self.step_walk();
        let unreadable = self.walk.as_ref().filter(|walk| walk.mark == OWN_MARK).and_then(|walk| match &walk.state {
            State::Ended(Verified::Unreadable { message }) => Some(message.clone()),
            _ => None,
        });
        if let Some(message) = unreadable {
            self.rebuild(lane, format!("its engine cannot be read: {message}"));
        }
    }

    fn step_walk(&mut self) {
        let Some(walk) = self.walk.as_mut() else { return };
        let State::Walking { reader, space, start } = &mut walk.state else { return };
        let (overlay, digest, damaged) = (&self.overlay, &mut walk.digest, &mut walk.damaged);
        let (mut pairs, mut bytes, mut next) = (0, 0, None);
        let walked = reader.walk(*space, KeyRange { start, end: None }, &mut |key, value| {
            match value {
                // Beside the state: one has who the members are, the other whose the space is.
                _ if [META_KEY, LABEL_KEY].contains(&key) => {}
                Some(value) => digest.add(key, value),
                None => {
                    *damaged += 1;
                    overlay.see_damage(key);
                }
            }
            pairs += 1;
            bytes += (key.len() + value.map_or(0, <[u8]>::len)) as u64;
            if pairs < STEP_PAIRS && bytes < STEP_BYTES {
                return ControlFlow::Continue(());
            }
            next = Some([key, &[0]].concat());
            ControlFlow::Break(())
        });
        match (walked, next) {
            (Ok(()), Some(next)) => *start = next,
            (Ok(()), None) => {
                let Digest { pairs, bytes, hash } = walk.digest;
                walk.state =
                    State::Ended(Verified::Checked { index: walk.index, pairs, bytes, hash, damaged: walk.damaged });
            }
            (Err(EngineError::SnapshotExpired), _) => walk.state = State::Ended(Verified::Missed),
            (Err(error), _) => walk.state = State::Ended(Verified::Unreadable { message: error.to_string() }),
        }
    }

    /// A leader asks how far this member is.
    pub fn on_verify_ask(&mut self, lane: &mut LaneContext, from: NodeId, mark: u64) {
        let told = self.walk.as_ref().filter(|walk| walk.mark == mark).map_or(Verified::Unknown, |walk| walk.told());
        self.send(lane, from, &Payload::VerifyTold { from: self.spec.replica, mark, told });
    }

    pub fn on_verify_told(&mut self, now: Tick, from: ReplicaId, mark: u64, told: Verified) {
        let Some(run) = self.verification.as_mut().filter(|run| run.mark == mark) else { return };
        if let Some(known) = run.told.get_mut(&from) {
            *known = Told { what: told, heard: now };
        }
    }

    /// Asks the members, sets another mark where one was missed, ends the run, answers who waits.
    pub fn tick_verification(&mut self, lane: &mut LaneContext, now: Tick) {
        let own = self.spec.replica;
        let told = self.walk.as_ref().map(|walk| (walk.mark, walk.index, walk.told()));
        let mut judged = None;
        let Some(run) = self.verification.as_mut() else { return };
        if !run.done {
            if let Some((mark, index, what)) = told.filter(|(mark, ..)| *mark == run.mark) {
                run.index = index;
                run.told.insert(own, Told { what, heard: now });
                debug_assert_eq!(mark, run.mark);
            }
            let waited = now.since(run.marked) > SILENT_AFTER;
            for told in run.told.values_mut() {
                match told.what {
                    Verified::Unknown | Verified::Walking { .. } if now.since(told.heard) > SILENT_AFTER => {
                        told.what = Verified::Silent;
                    }
                    // It restarted after the mark, or lags far before it.
                    Verified::Unknown if waited => told.what = Verified::Missed,
                    _ => {}
                }
            }
            let missed = run.told.values().any(|told| told.what == Verified::Missed);
            if missed && run.marks < MARKS_MAX {
                if now.since(run.marked) >= MARK_EVERY {
                    self.set_mark(lane, now);
                }
            } else {
                run.done = run.told.values().all(|told| told.what.is_final());
                judged = run.done.then(|| {
                    let told = run.told.iter().map(|(replica, told)| (*replica, told.what.clone()));
                    (run.mark, told.collect::<Vec<_>>())
                });
            }
        }
        self.ask_members(lane, now);
        self.answer_verify(lane, now);
        if let Some((mark, told)) = judged {
            let judged = judge_digests(&self.meta, self.spec.replica, mark, &told);
            judged.into_iter().for_each(|judgement| self.follow(lane, judgement));
        }
    }

    /// The digest of all pairs at this mark, where it was walked to its end.
    pub fn digest_at(&self, mark: u64) -> Option<u64> {
        match self.walk.as_ref().filter(|walk| walk.mark == mark)?.state {
            State::Ended(Verified::Checked { hash, damaged: 0, .. }) => Some(hash),
            _ => None,
        }
    }

    /// Begins a run that nobody waits for. False: not now.
    pub fn verify_unasked(&mut self, lane: &mut LaneContext, now: Tick) -> bool {
        let settled = self.leading.is_some() && self.meta.members.len() > 1 && !self.meta.membership.is_joint();
        if !settled || self.is_quarantined() || self.verification.as_ref().is_some_and(|run| !run.done) {
            return false;
        }
        self.begin_verification(lane, now);
        true
    }

    fn ask_members(&mut self, lane: &mut LaneContext, now: Tick) {
        let Some(run) = self.verification.as_mut() else { return };
        if run.done || now.since(run.asked) < ASK_EVERY {
            return;
        }
        run.asked = now;
        let mark = run.mark;
        let open = |replica: &ReplicaId| run.told.get(replica).is_some_and(|told| !told.what.is_final());
        let asked: Vec<NodeId> = self
            .meta
            .members
            .iter()
            .filter(|member| member.replica != self.spec.replica && open(&member.replica))
            .map(|member| member.node)
            .collect();
        for node in asked {
            self.send(lane, node, &Payload::VerifyAsk { mark });
        }
    }

    fn answer_verify(&mut self, lane: &mut LaneContext, now: Tick) {
        let Some(mut run) = self.verification.take() else { return };
        let done = run.done;
        let over: Vec<_> = run.waits.extract_if(.., |(_, deadline)| done || *deadline <= now).collect();
        for (ticket, _) in over {
            let report = self.report(&run);
            lane.complete(ticket, LocalOutcome::Verified(Box::new(report)));
        }
        self.verification = Some(run);
    }

    fn report(&self, run: &Verification) -> ClusterVerification {
        let members = self.meta.members.iter().map(|member| MemberVerification {
            member: *member,
            told: run.told.get(&member.replica).map_or(Verified::Unknown, |told| told.what.clone()),
        });
        ClusterVerification {
            cluster: self.spec.cluster,
            generation: self.spec.generation,
            name: self.spec.name.clone(),
            run: run.run,
            done: run.done,
            index: run.index,
            members: members.collect(),
        }
    }

    /// Leadership is gone: waiting clients ask the new leader.
    pub fn fail_verification(&mut self, lane: &mut LaneContext) {
        for (ticket, _) in self.verification.take().into_iter().flat_map(|run| run.waits) {
            lane.complete(ticket, self.not_leader());
        }
    }
}
