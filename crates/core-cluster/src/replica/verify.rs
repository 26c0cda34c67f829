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
//! Not here: who sends and answers the messages (exchange.rs), what to do about a member that differs (chain.rs), damage that
//! nobody asked for (scrub.rs).

use crate::api::{ClusterVerification, Member, MemberVerification, ReplicaSpec, Verified};
use crate::entry::{EntryCommand, BACKEND_CLUSTER};
use crate::meta::{LABEL_KEY, META_KEY};
use crate::storage::overlay::Overlay;
use base_engine::{Digest, Engine, EngineError, EngineSnapshot, KeyRange};
use base_types::codec::{DecodeError, Encode, Reader, Writer};
use base_types::sizes::Sizes;
use base_types::{LogIndex, NodeId, ReplicaId, RequestId, SpaceId, Tick, Ticket};
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
pub const WAITS_MAX: usize = 64;
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
struct Walk {
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
struct Run {
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

/// The pairs that a replica checks, and the run that it leads.
#[derive(Default)]
pub struct Verification {
    /// Because a leader asked for it, or what was checked last.
    walk: Option<Box<Walk>>,
    /// That it leads, or has led last.
    run: Option<Box<Run>>,
}

/// How far a run is.
pub enum Progress {
    /// Members are still to tell what they hold, or there is no run.
    Waits,
    /// A member missed the mark: there is to be another.
    Missed,
    /// All have told what they hold at this mark, or never will.
    Ended { mark: u64, told: Vec<(ReplicaId, Verified)> },
}

impl Walk {
    fn told(&self) -> Verified {
        match &self.state {
            State::Flushing => Verified::Unknown,
            State::Walking { .. } => Verified::Walking { pairs: self.digest.pairs },
            State::Ended(told) => told.clone(),
        }
    }

    fn is_over(&self) -> bool {
        matches!(self.state, State::Ended(_))
    }

    fn step(&mut self, overlay: &Overlay) {
        let State::Walking { reader, space, start } = &mut self.state else { return };
        let (digest, damaged) = (&mut self.digest, &mut self.damaged);
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
                let Digest { pairs, bytes, hash } = self.digest;
                let (index, damaged) = (self.index, self.damaged);
                self.state = State::Ended(Verified::Checked { index, pairs, bytes, hash, damaged });
            }
            (Err(EngineError::SnapshotExpired), _) => self.state = State::Ended(Verified::Missed),
            (Err(error), _) => self.state = State::Ended(Verified::Unreadable { message: error.to_string() }),
        }
    }
}

impl Run {
    /// A member that says nothing is silent; one that does not know the mark after a while has missed it.
    fn note_silence(&mut self, now: Tick) {
        let waited = now.since(self.marked) > SILENT_AFTER;
        for told in self.told.values_mut() {
            match told.what {
                Verified::Unknown | Verified::Walking { .. } if now.since(told.heard) > SILENT_AFTER => {
                    told.what = Verified::Silent;
                }
                // It restarted after the mark, or lags far before it.
                Verified::Unknown if waited => told.what = Verified::Missed,
                _ => {}
            }
        }
    }
}

/// Of a member.
impl Verification {
    /// Whether it checks pairs now, or leads a run.
    pub fn is_busy(&self) -> bool {
        self.is_running() || self.walk.as_ref().is_some_and(|walk| !walk.is_over())
    }

    /// The entry with this mark has been applied, and nothing after it. `missed`: the engine cannot be had at this index.
    pub fn on_mark(&mut self, mark: u64, index: LogIndex, missed: bool) {
        let state = if missed { State::Ended(Verified::Missed) } else { State::Flushing };
        self.walk = Some(Box::new(Walk { mark, index, state, digest: Digest::default(), damaged: 0 }));
    }

    /// The engine holds what was applied at this index, and nothing later: the next flush has not gone out yet.
    pub fn walk_what_is_flushed(&mut self, engine: &dyn Engine, space: SpaceId, index: LogIndex) {
        let Some(walk) = self.walk.as_mut().filter(|walk| matches!(walk.state, State::Flushing)) else { return };
        walk.state = match engine.snapshot() {
            Ok(reader) if walk.index == index => State::Walking { reader, space, start: Vec::new() },
            _ => State::Ended(Verified::Missed),
        };
    }

    /// A walk that no leader asked for: whether the engine can be read at all.
    pub fn walk_own(&mut self, reader: Box<dyn EngineSnapshot>, space: SpaceId, index: LogIndex) {
        let state = State::Walking { reader, space, start: Vec::new() };
        self.walk = Some(Box::new(Walk { mark: OWN_MARK, index, state, digest: Digest::default(), damaged: 0 }));
    }

    /// The next step of a walk. Of one that no leader asked for: why the engine cannot be read.
    pub fn step_walk(&mut self, overlay: &Overlay) -> Option<String> {
        let walk = self.walk.as_mut()?;
        walk.step(overlay);
        match &walk.state {
            State::Ended(Verified::Unreadable { message }) if walk.mark == OWN_MARK => Some(message.clone()),
            _ => None,
        }
    }

    /// The state that it was about is another now.
    pub fn stop_walk(&mut self) {
        self.walk = None;
    }

    /// How far the walk of this mark is.
    pub fn told_at(&self, mark: u64) -> Verified {
        self.walk.as_ref().filter(|walk| walk.mark == mark).map_or(Verified::Unknown, |walk| walk.told())
    }

    /// The digest of all pairs at this mark, where it was walked to its end.
    pub fn digest_at(&self, mark: u64) -> Option<u64> {
        match self.told_at(mark) {
            Verified::Checked { hash, damaged: 0, .. } => Some(hash),
            _ => None,
        }
    }
}

/// Of a leader.
impl Verification {
    /// Whether a run is under way.
    pub fn is_running(&self) -> bool {
        self.run.as_ref().is_some_and(|run| !run.done)
    }

    /// Whether this run is the last one that it led.
    pub fn is_known(&self, run: u64) -> bool {
        self.run.as_ref().is_some_and(|known| known.run == run)
    }

    /// A run begins; what is next is its first mark.
    pub fn begin(&mut self, now: Tick, node: NodeId) {
        let run = now.0 ^ node.0.rotate_right(16);
        self.run = Some(Box::new(Run {
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
    }

    /// The next mark of the run: it goes into the log, like any write that nobody waits for.
    pub fn next_mark(&mut self, now: Tick, node: NodeId, members: &[Member]) -> Option<EntryCommand> {
        let run = self.run.as_mut()?;
        run.marks += 1;
        run.mark = run.run.wrapping_add(u64::from(run.marks)).max(OWN_MARK + 1);
        run.marked = now;
        let told = |what| Told { what, heard: now };
        run.told = members.iter().map(|member| (member.replica, told(Verified::Unknown))).collect();
        let id = (u128::from(run.mark) << 64) | u128::from(node.0);
        Some(EntryCommand {
            backend: BACKEND_CLUSTER,
            request_id: RequestId::own(id),
            keep_ms: 1_000,
            command: Mark { run: run.mark }.to_bytes(),
        })
    }

    /// A client waits for the run. False: too many do.
    pub fn wait(&mut self, ticket: Ticket, deadline: Tick) -> bool {
        let Some(run) = self.run.as_mut().filter(|run| run.waits.len() < WAITS_MAX) else { return false };
        run.waits.push((ticket, deadline));
        true
    }

    /// A member told how far it is.
    pub fn on_told(&mut self, now: Tick, from: ReplicaId, mark: u64, told: Verified) {
        let Some(run) = self.run.as_mut().filter(|run| run.mark == mark) else { return };
        if let Some(known) = run.told.get_mut(&from) {
            *known = Told { what: told, heard: now };
        }
    }

    /// How far the run is by what all have told.
    pub fn advance(&mut self, now: Tick, own: ReplicaId) -> Progress {
        let Some(run) = self.run.as_mut().filter(|run| !run.done) else { return Progress::Waits };
        if let Some(walk) = self.walk.as_ref().filter(|walk| walk.mark == run.mark) {
            run.index = walk.index;
            run.told.insert(own, Told { what: walk.told(), heard: now });
        }
        run.note_silence(now);
        let missed = run.told.values().any(|told| told.what == Verified::Missed);
        if missed && run.marks < MARKS_MAX {
            let again = now.since(run.marked) >= MARK_EVERY;
            return if again { Progress::Missed } else { Progress::Waits };
        }
        run.done = run.told.values().all(|told| told.what.is_final());
        if !run.done {
            return Progress::Waits;
        }
        let told = run.told.iter().map(|(replica, told)| (*replica, told.what.clone())).collect();
        Progress::Ended { mark: run.mark, told }
    }

    /// Who is asked now how far it is with which mark.
    pub fn next_asks(&mut self, now: Tick, own: ReplicaId, members: &[Member]) -> Option<(u64, Vec<NodeId>)> {
        let run = self.run.as_mut().filter(|run| !run.done && now.since(run.asked) >= ASK_EVERY)?;
        run.asked = now;
        let open = |replica: &ReplicaId| run.told.get(replica).is_some_and(|told| !told.what.is_final());
        let others = members.iter().filter(|member| member.replica != own && open(&member.replica));
        Some((run.mark, others.map(|member| member.node).collect()))
    }

    /// Clients that are answered now: their deadline has come, or the run has ended.
    pub fn take_answered(&mut self, now: Tick) -> Vec<Ticket> {
        let Some(run) = self.run.as_mut() else { return Vec::new() };
        let done = run.done;
        let over = run.waits.extract_if(.., |(_, deadline)| done || *deadline <= now);
        over.map(|(ticket, _)| ticket).collect()
    }

    /// What is known of the run.
    pub fn report(&self, spec: &ReplicaSpec, members: &[Member]) -> Option<ClusterVerification> {
        let run = self.run.as_ref()?;
        let members = members.iter().map(|member| MemberVerification {
            member: *member,
            told: run.told.get(&member.replica).map_or(Verified::Unknown, |told| told.what.clone()),
        });
        Some(ClusterVerification {
            cluster: spec.cluster,
            generation: spec.generation,
            name: spec.name.clone(),
            run: run.run,
            done: run.done,
            index: run.index,
            members: members.collect(),
        })
    }

    /// Leadership is gone: who has waited asks the new leader.
    pub fn lose_leadership(&mut self) -> Vec<Ticket> {
        self.run.take().into_iter().flat_map(|run| run.waits).map(|(ticket, _)| ticket).collect()
    }

    /// How long its lists are.
    pub fn sizes(&self, sizes: &mut Sizes) {
        if let Some(run) = &self.run {
            sizes.passing("asks that wait for a verification, a replica", run.waits.len(), WAITS_MAX);
        }
    }
}
