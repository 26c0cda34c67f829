//! A replica that cannot apply an entry stops alone: its cluster's trouble is not its neighbours'.
//!
//! ```text
//!   applying ──panic, or an error nobody mends──▶ quarantined at i ──skip(i) committed──▶ catches up ──▶ applying
//!                                                     │ └─ a majority has passed i for a while ─▶ rebuilt
//!                                                     └─ restart ─▶ applies i again
//! ```
//!
//! While it is quarantined it serves nothing, at no level; it votes, logs and acknowledges, for its log is sound and
//! the word that frees it is an entry of it. What is committed meanwhile stays in the log and is read back from there.
//!
//! Always: the failed entry has changed nothing (mutant `RollBackForwards`). A member skips an entry only if a committed
//! entry says so (mutant `SkipNotReplicated`).
//! Not here: damaged pairs that other members have (value_repair.rs), members whose states differ (contradiction.rs).
//! Why skipping cannot make members differ: docs/decisions/0027.

use crate::api::{LocalOutcome, Notice};
use crate::context::LaneContext;
use crate::entry::{self, EntryCommand, BACKEND_CLUSTER};
use crate::replica::{parked, Replica};
use crate::wire::Payload;
use base_engine::EngineError;
use base_types::codec::{DecodeError, Encode, Reader, Writer};
use base_types::mutant::{planted, Mutant};
use base_types::{BackendKind, ErrorCode, LogIndex, NodeId, Refusal, ReplicaId, RequestId, Term, Tick, Ticket};
use bytes::Bytes;
use core_log::LogEntry;
use core_raft::entry_kind;
use std::collections::BTreeMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::Duration;

/// A quarantined replica reports so often, and asks for a look at itself.
const REPORT_EVERY: Duration = Duration::from_secs(1);
/// A member's report counts for so long.
const REPORT_LASTS: Duration = Duration::from_secs(5);
/// A majority has passed the entry for so long: the failure was this replica's own.
const PASSED_FOR: Duration = Duration::from_secs(2);
/// Entries read back from the log at a time, when a quarantine ends.
const READ_BACK_MAX: u64 = 1024;
/// Bytes of a panic's text that are kept.
const TEXT_BYTES_MAX: usize = 400;
/// Bytes of a command that are shown.
const COMMAND_SHOWN_MAX: usize = 48;
/// The first byte of the command to the cluster itself that has an entry skipped.
pub const SKIP_COMMAND: u8 = 4;

/// The command: members that wait at this entry pass it without a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SkipEntry {
    pub index: LogIndex,
    pub term: Term,
}

impl Encode for SkipEntry {
    fn encode(&self, out: &mut Writer) {
        out.u8(SKIP_COMMAND).varint(self.index.0).varint(self.term.0);
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        if input.u8("cluster command")? != SKIP_COMMAND {
            return Err(DecodeError::Unknown("cluster command"));
        }
        Ok(SkipEntry { index: LogIndex(input.varint("index")?), term: Term(input.varint("term")?) })
    }
}

impl SkipEntry {
    /// What an entry says to skip: its first command, for the leader proposes it alone.
    pub fn of(entry: &LogEntry) -> Option<SkipEntry> {
        if entry.kind == entry_kind::MEMBERSHIP || !entry::begins_with(&entry.data, BACKEND_CLUSTER) {
            return None;
        }
        let payload = entry::decode(entry.data.clone()).ok()?;
        SkipEntry::from_bytes(payload.commands.first()?.command.clone()).ok()
    }
}

/// Why an entry was not applied.
#[derive(Debug)]
pub enum ApplyError {
    Engine(EngineError),
    /// The text of a panic.
    Panic(String),
}

impl std::fmt::Display for ApplyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ApplyError::Engine(error) => error.fmt(f),
            ApplyError::Panic(text) => write!(f, "it panics: {text}"),
        }
    }
}

impl From<EngineError> for ApplyError {
    fn from(error: EngineError) -> Self {
        ApplyError::Engine(error)
    }
}

/// Runs what belongs to one group; its panic is an error. The caller takes back what was changed.
pub fn contained<T>(work: impl FnOnce() -> Result<T, EngineError>) -> Result<T, ApplyError> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => done.map_err(ApplyError::Engine),
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_string());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            Err(ApplyError::Panic(text.chars().take(TEXT_BYTES_MAX).collect()))
        }
    }
}

/// What stopped a replica.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// This entry cannot be applied.
    Entry { index: LogIndex, term: Term },
    /// Its Raft member failed: there is no group until the next start.
    Group,
    /// No majority of the members holds one and the same state.
    NoMajority,
}

/// A replica that serves nothing.
pub struct Quarantine {
    pub cause: Cause,
    pub why: Box<str>,
    /// A panic did it: never the doing of a disk.
    pub panicked: bool,
    /// The last committed entry that was handed out meanwhile.
    handed: LogIndex,
    /// A committed entry says to skip the one it waits at.
    skips: bool,
    /// What is committed is read back from the log and applied.
    catches_up: bool,
    reported: Tick,
    /// Who cannot apply the same entry, and when it last said so.
    stuck: BTreeMap<ReplicaId, Tick>,
    /// Who has passed it.
    passed: BTreeMap<ReplicaId, Tick>,
    passed_since: Option<Tick>,
}

impl Quarantine {
    fn new(cause: Cause, why: String, handed: LogIndex) -> Quarantine {
        Quarantine {
            cause,
            why: why.into(),
            panicked: false,
            handed,
            skips: false,
            catches_up: false,
            reported: Tick(0),
            stuck: BTreeMap::new(),
            passed: BTreeMap::new(),
            passed_since: None,
        }
    }

    fn entry(&self) -> Option<(LogIndex, Term)> {
        match self.cause {
            Cause::Entry { index, term } => Some((index, term)),
            _ => None,
        }
    }

    /// Entries that are committed: the word that frees it may be among them.
    fn note_committed(&mut self, entries: &[LogEntry]) {
        self.handed = entries.last().map_or(self.handed, |last| self.handed.max(last.index));
        let own = self.entry().map(|(index, term)| SkipEntry { index, term });
        self.skips |= own.is_some() && entries.iter().any(|entry| SkipEntry::of(entry) == own);
    }
}

impl Replica {
    /// Whether it is quarantined, and with that serves nothing.
    pub fn is_quarantined(&self) -> bool {
        self.quarantine.is_some()
    }

    /// An entry cannot be applied, and no member can repair what it needs. Later ones stay in the log.
    pub fn quarantine_at(&mut self, lane: &mut LaneContext, error: &ApplyError, entry: &LogEntry, behind: &[LogEntry]) {
        let (index, term) = (entry.index, entry.term);
        let why = format!("entry {index} of term {term} cannot be applied: {error}; {}", self.failed_command(entry));
        let cause = match entry.kind {
            entry_kind::MEMBERSHIP => Cause::Group,
            _ => Cause::Entry { index, term },
        };
        let handed = self.quarantine.as_ref().map_or(index, |known| known.handed.max(index));
        self.enter_quarantine(lane, cause, why, handed);
        if let Some(quarantine) = self.quarantine.as_mut() {
            quarantine.panicked = matches!(error, ApplyError::Panic(_));
            quarantine.note_committed(behind);
            // What was handed out before, while it waited at another entry.
            let log = lane.log.borrow();
            let known = (index.0 + 1..=handed.0).filter_map(|index| log.entry(self.spec.cluster, LogIndex(index)));
            quarantine.note_committed(&known.collect::<Vec<_>>());
        }
        self.answer_unknown(lane, index);
    }

    /// Its Raft member failed: what is in memory of it is not to be trusted. Its log is.
    pub fn quarantine_group(&mut self, lane: &mut LaneContext, why: String) {
        self.enter_quarantine(lane, Cause::Group, why, self.meta.applied);
        self.quarantine.as_mut().into_iter().for_each(|quarantine| quarantine.panicked = true);
    }

    /// No majority of the members has the same state.
    pub fn quarantine_all(&mut self, lane: &mut LaneContext) {
        if !self.is_quarantined() {
            let why = "its members hold different states, and no majority holds one of them".into();
            self.enter_quarantine(lane, Cause::NoMajority, why, self.meta.applied);
        }
    }

    fn enter_quarantine(&mut self, lane: &mut LaneContext, cause: Cause, why: String, handed: LogIndex) {
        let handed = self.late.last().map_or(handed, |last| last.index.max(handed));
        self.late.clear();
        self.marked = None;
        self.mending = None;
        self.verification.stop_walk();
        self.reads.forget_lease();
        self.fail_reads(lane);
        if cause == Cause::Group {
            self.lose_leadership(lane);
            self.group = None;
            self.life += 1;
            self.unsynced = 0;
        }
        let (cluster, name) = (self.spec.cluster, self.spec.name.clone());
        let message = format!("{why}; {}", self.remedy(cause));
        lane.statistics.quarantines += 1;
        lane.output.notices.push(Notice::Quarantined { cluster, name, message });
        self.quarantine = Some(Box::new(Quarantine::new(cause, why, handed)));
        parked::fail(self, lane);
    }

    fn remedy(&self, cause: Cause) -> String {
        match cause {
            Cause::Entry { index, .. } => format!(
                "stop the client that sends it, then start a build that can apply it, or skip it: hive ctl cluster skip {} {index}",
                self.spec.name
            ),
            Cause::Group => "start this node again; if it fails again, report the bug".into(),
            Cause::NoMajority => {
                format!("compare the members (hive ctl verify {}), keep one, and restore the others from it", self.spec.name)
            }
        }
    }

    /// What the entry wanted, as far as it can be read.
    fn failed_command(&self, entry: &LogEntry) -> String {
        let Ok(payload) = entry::decode(entry.data.clone()) else { return "it holds no readable command".into() };
        let count = payload.commands.len();
        let Some(command) = payload.commands.get(self.applying) else { return format!("it holds {count} commands") };
        let backend =
            BackendKind::from_byte(command.backend).map_or("the cluster itself".into(), |kind| kind.to_string());
        let shown = &command.command[..command.command.len().min(COMMAND_SHOWN_MAX)];
        format!(
            "command {} of {count}, for {backend}, request {:032x}, {} bytes: {}",
            self.applying + 1,
            command.request_id.0,
            command.command.len(),
            shown.escape_ascii()
        )
    }

    /// The writes of the entry: the operator that frees the group decides whether they are ever applied.
    fn answer_unknown(&mut self, lane: &mut LaneContext, index: LogIndex) {
        let name = &self.spec.name;
        for proposed in self.proposed.iter_mut().filter(|proposed| proposed.index >= index) {
            for write in proposed.writes.iter_mut().filter(|write| !write.answered) {
                write.answered = true;
                let message =
                    format!("cluster {name} is quarantined at entry {index}; the write is logged and not applied");
                lane.complete(write.ticket, LocalOutcome::Unknown { message });
            }
        }
    }

    /// Its answer to every request, where no other member can be asked.
    pub fn quarantine_refusal(&self, node: NodeId) -> Option<Refusal> {
        let quarantine = self.quarantine.as_ref().filter(|_| !planted(Mutant::QuarantineServes))?;
        let message = format!(
            "cluster {} is quarantined on node {node}: {}; {}",
            self.spec.name,
            quarantine.why,
            self.remedy(quarantine.cause)
        );
        Some(Refusal::new(ErrorCode::Quarantined, message))
    }

    /// The answer of a quarantined replica: another member, if it leads, may serve.
    pub fn quarantine_outcome(&self, lane: &LaneContext) -> Option<LocalOutcome> {
        let refusal = self.quarantine_refusal(lane.config.node)?;
        let led_elsewhere = !self.is_leader() && self.leader_node().is_some();
        Some(if led_elsewhere { self.not_leader() } else { LocalOutcome::Refused(refusal) })
    }

    /// The same for a write or a change. True: it is answered.
    pub fn refuse_quarantined(&self, lane: &mut LaneContext, ticket: Ticket) -> bool {
        let outcome = self.quarantine_outcome(lane);
        let refused = outcome.is_some();
        outcome.into_iter().for_each(|outcome| lane.complete(ticket, outcome));
        refused
    }

    /// Committed entries of a quarantined replica stay in the log. Gives back what is to be applied now.
    pub fn hold_committed(&mut self, committed: Vec<LogEntry>) -> Vec<LogEntry> {
        let Some(quarantine) = self.quarantine.as_mut() else { return committed };
        quarantine.note_committed(&committed);
        Vec::new()
    }

    /// The next entries to apply of a replica that is free again; none of one that is not.
    pub fn read_back(&mut self, lane: &mut LaneContext) -> Result<Vec<LogEntry>, EngineError> {
        let applied = self.meta.applied;
        let Some(quarantine) = self.quarantine.as_mut() else { return Ok(Vec::new()) };
        if !quarantine.skips && !quarantine.catches_up {
            return Ok(Vec::new());
        }
        let last = quarantine.handed.0.min(applied.0 + READ_BACK_MAX);
        let log = lane.log.borrow();
        let entries = (applied.0 + 1..=last).map_while(|index| log.entry(self.spec.cluster, LogIndex(index))).collect();
        drop(log);
        if !std::mem::replace(&mut quarantine.catches_up, true) {
            // The entry that failed may have made ids expire.
            self.load_request_ids()?;
        }
        Ok(entries)
    }

    /// A majority holds what this replica holds, after all: it continues.
    pub fn release_undecided(&mut self, lane: &mut LaneContext) {
        let applied = self.meta.applied;
        let Some(quarantine) = self.quarantine.as_mut().filter(|own| own.cause == Cause::NoMajority) else { return };
        quarantine.catches_up = true;
        if quarantine.handed <= applied {
            self.end_quarantine(lane);
        }
    }

    /// Everything that was committed meanwhile is applied.
    pub fn end_if_caught_up(&mut self, lane: &mut LaneContext) {
        let applied = self.meta.applied;
        if self.quarantine.as_ref().is_some_and(|quarantine| quarantine.catches_up && quarantine.handed <= applied) {
            self.end_quarantine(lane);
        }
    }

    /// It serves again.
    pub fn end_quarantine(&mut self, lane: &mut LaneContext) {
        if self.quarantine.take().is_some() {
            let (cluster, name) = (self.spec.cluster, self.spec.name.clone());
            lane.output.notices.push(Notice::Released { cluster, name });
        }
    }

    /// Whether this entry is passed without a change: the word is committed.
    pub fn takes_skip(&mut self, lane: &mut LaneContext, entry: &LogEntry) -> bool {
        let Some(quarantine) = self.quarantine.as_mut() else { return false };
        let is_it = quarantine.skips && quarantine.entry() == Some((entry.index, entry.term));
        quarantine.skips &= !is_it;
        lane.statistics.entries_skipped += u64::from(is_it);
        is_it
    }

    /// Reports to the other members, and is rebuilt where they are past the entry.
    pub fn tick_quarantine(&mut self, lane: &mut LaneContext, now: Tick) {
        let voters = self.meta.membership.voters.clone();
        let Some(quarantine) = self.quarantine.as_mut().filter(|_| self.damaged.is_none()) else { return };
        let Some((index, _)) = quarantine.entry().filter(|_| !quarantine.skips && !quarantine.catches_up) else {
            return;
        };
        if quarantine.reported != Tick(0) && now.since(quarantine.reported) < REPORT_EVERY {
            return;
        }
        quarantine.reported = now;
        let recent = |at: &Tick| now.since(*at) <= REPORT_LASTS;
        let passed = voters.iter().filter(|voter| quarantine.passed.get(voter).is_some_and(recent)).count();
        if passed <= voters.len() / 2 {
            quarantine.passed_since = None;
        } else if now.since(*quarantine.passed_since.get_or_insert(now)) >= PASSED_FOR {
            let why = quarantine.why.clone();
            return self.rebuild(lane, format!("{why}; a majority of its members has applied it"));
        }
        self.tell_members(lane, &Payload::Stuck { from: self.spec.replica, index });
    }

    /// Another member cannot apply this entry.
    pub fn on_stuck(&mut self, lane: &mut LaneContext, now: Tick, node: NodeId, from: ReplicaId, index: LogIndex) {
        if self.is_stranger(from) {
            return self.send(lane, node, &Payload::Removed { replica: from });
        }
        if self.meta.applied >= index && self.group.is_some() && !self.blank {
            return self.send(lane, node, &Payload::Passed { from: self.spec.replica, index });
        }
        if let Some(quarantine) = self.quarantine.as_mut().filter(|own| own.entry().is_some_and(|(at, _)| at == index))
        {
            quarantine.passed.remove(&from);
            quarantine.stuck.insert(from, now);
        }
    }

    /// Another member has passed it.
    pub fn on_passed(&mut self, now: Tick, from: ReplicaId, index: LogIndex) {
        if let Some(quarantine) = self.quarantine.as_mut().filter(|own| own.entry().is_some_and(|(at, _)| at == index))
        {
            quarantine.stuck.remove(&from);
            quarantine.passed.insert(from, now);
        }
    }

    /// An operator wants this entry to be skipped, on every member at this index.
    pub fn plan_skip(&mut self, lane: &mut LaneContext, now: Tick, index: LogIndex) -> Result<(), Refusal> {
        let name = &self.spec.name;
        let conflict = |message| Err(Refusal::new(ErrorCode::NotQuarantined, message));
        let Some(quarantine) = self.quarantine.as_ref() else {
            return conflict(format!("cluster {name} is not quarantined; there is nothing to skip"));
        };
        let Some((at, term)) = quarantine.entry() else {
            return conflict(format!("cluster {name} is quarantined for another reason: {}", quarantine.why));
        };
        if at != index {
            return conflict(format!("cluster {name} waits at entry {at}, not at {index}; name that one"));
        }
        let voters = &self.meta.membership.voters;
        let says = |voter: &ReplicaId| {
            *voter == self.spec.replica
                || quarantine.stuck.get(voter).is_some_and(|heard| now.since(*heard) <= REPORT_LASTS)
        };
        let stuck = voters.iter().filter(|voter| says(voter)).count();
        if stuck <= voters.len() / 2 {
            let message = format!(
                "only {stuck} of {} voters of cluster {name} report that they cannot apply entry {index}; \
                 bring the others up, or let this member be rebuilt from them",
                voters.len()
            );
            return Err(Refusal::new(ErrorCode::QuorumAtRisk, message));
        }
        self.propose_skip(lane, now, SkipEntry { index, term });
        Ok(())
    }

    fn propose_skip(&mut self, lane: &mut LaneContext, now: Tick, skip: SkipEntry) {
        if planted(Mutant::SkipNotReplicated) {
            self.quarantine.as_mut().into_iter().for_each(|quarantine| quarantine.skips = true);
            return;
        }
        let id = (u128::from(skip.index.0) << 64) | u128::from(now.0 ^ lane.config.node.0.rotate_right(16));
        let command = EntryCommand {
            backend: BACKEND_CLUSTER,
            request_id: RequestId::own(id),
            keep_ms: 1_000,
            command: skip.to_bytes(),
        };
        self.propose_own(lane, now, command);
    }
}

/// Commands that no replica can apply, for tests and the simulator: what a bug of a state machine would do.
pub fn poison(command: &Bytes) -> Result<(), EngineError> {
    if !cfg!(test) && !planted(Mutant::PoisonedCommand) {
        return Ok(());
    }
    let holds = |text: &[u8]| command.windows(text.len()).any(|found| found == text);
    assert!(!holds(b"poison: panic"), "a poisoned command");
    match holds(b"poison: corrupt") {
        true => Err(EngineError::Corrupt("a poisoned command".into())),
        false => Ok(()),
    }
}
