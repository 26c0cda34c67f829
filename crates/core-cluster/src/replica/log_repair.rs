//! Mending rot: entries that a disk lost are fetched from the other members (CTRL, FAST'18).
//!
//! While it has holes, a replica is no member: it does not vote, acknowledge or answer, because it
//! cannot know what it promised. Entry `i` of term `t` is the same on every member that has it (Raft's
//! log matching), so any copy with the known term mends; where the term rotted too, only a copy that
//! is committed. A hole that a majority surely lacks was never committed: the log may end before it.
//! What the others have compacted comes by snapshot to a new replica: this one asks to be replaced.
//!
//! Not here: telling rot from a torn tail (core-log).

use crate::wire::{RepairAnswer, REPAIR_INDEXES_MAX};
use base_types::mutant::{planted, Mutant};
use base_types::{ClusterId, LogIndex, ReplicaId, Term, Tick};
use core_log::Log;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The request to the others is repeated after this long.
const ASK_EVERY: Duration = Duration::from_millis(500);
/// How often a damaged replica asks to be replaced.
pub const LOST_EVERY: Duration = Duration::from_secs(1);
/// Where one member has compacted a hole away, the others get this many rounds to offer it.
const ROUNDS_BEFORE_REPLACED: u32 = 10;
/// Bytes of entries in one reply.
const REPLY_BYTES_MAX: usize = 1 << 20;

/// What is known of the holes.
pub struct LogRepair {
    holes: BTreeMap<LogIndex, Hole>,
    asked: Tick,
    rounds: u32,
}

#[derive(Default)]
struct Hole {
    term: Option<Term>,
    lacking: BTreeSet<ReplicaId>,
    compacted: BTreeSet<ReplicaId>,
}

impl LogRepair {
    pub fn new(holes: Vec<(LogIndex, Option<Term>)>) -> LogRepair {
        let holes = holes.into_iter().map(|(index, term)| (index, Hole { term, ..Hole::default() })).collect();
        LogRepair { holes, asked: Tick(0), rounds: 0 }
    }

    /// What is asked of the others next, if it is time.
    pub fn next_holes(&mut self, now: Tick) -> Option<Vec<(LogIndex, Option<Term>)>> {
        if now.since(self.asked) < ASK_EVERY && self.asked != Tick(0) {
            return None;
        }
        self.asked = now;
        self.rounds = self.rounds.saturating_add(1);
        Some(self.holes.iter().take(REPAIR_INDEXES_MAX).map(|(index, hole)| (*index, hole.term)).collect())
    }

    /// A member's answers: what fits is put into the log. How many entries that were.
    pub fn on_reply(
        &mut self,
        log: &mut Log,
        cluster: ClusterId,
        from: ReplicaId,
        answers: Vec<(LogIndex, RepairAnswer)>,
    ) -> u64 {
        let mut mended = 0;
        for (index, answer) in answers {
            let Some(hole) = self.holes.get_mut(&index) else { continue };
            match answer {
                RepairAnswer::Have { entry, committed } => {
                    let trusted = committed || planted(Mutant::RepairTakesUncommitted);
                    let same = entry.index == index && hole.term.map_or(trusted, |term| term == entry.term);
                    let takes = entry.data.len() + entry.context.len() <= log.entry_bytes_max();
                    if same && takes && log.fill(cluster, entry) {
                        self.holes.remove(&index);
                        mended += 1;
                    }
                }
                RepairAnswer::Lack => drop(hole.lacking.insert(from)),
                RepairAnswer::Compacted => drop(hole.compacted.insert(from)),
                RepairAnswer::Unknown => {}
            }
        }
        if mended > 0 {
            // More holes than one request names: the next are asked for with the next tick.
            self.asked = Tick(0);
        }
        mended
    }

    /// How the log is, by what so many `others` have answered.
    pub fn state(&self, others: usize, voters: &[ReplicaId]) -> LogState {
        // What cannot be mended is never cut off under the same replica id: its acknowledgement may still
        // be counted by a leader. A new replica takes its place instead.
        let hopeless = |hole: &Hole| {
            let answered = hole.compacted.len() + hole.lacking.len();
            !hole.compacted.is_empty() && (answered >= others || self.rounds >= ROUNDS_BEFORE_REPLACED)
        };
        if self.holes.values().any(hopeless) {
            return LogState::Hopeless("entries it lost are compacted everywhere else".into());
        }
        // Uncommitted for sure: those that may have it are too few for a majority.
        let never_committed = self.holes.iter().find(|(_, hole)| {
            let may_have = voters.iter().filter(|voter| !hole.lacking.contains(voter)).count();
            may_have <= voters.len() / 2
        });
        match never_committed {
            // The voters' answers say that it was not committed; this replica's promise of it (its
            // acknowledgement) went to a leader that did not reach a majority with it.
            Some((index, _)) => LogState::Hopeless(format!("entry {index} rotted and no other member has it")),
            None if self.holes.is_empty() => LogState::Whole,
            None => LogState::Waits,
        }
    }
}

/// How a log with holes is.
#[derive(PartialEq, Eq, Debug)]
pub enum LogState {
    /// Answers are still to come.
    Waits,
    Whole,
    /// It cannot be mended, for this reason.
    Hopeless(String),
}

/// The member that is asked for entries.
pub struct Holder {
    pub commit: LogIndex,
    /// Its log has no holes, and it takes part.
    pub is_whole: bool,
    /// It has held its cluster's state, and is not given up.
    pub has_begun: bool,
}

/// What a member answers to one that has lost entries: a bounded part.
pub fn answers(
    log: &Log,
    cluster: ClusterId,
    holder: &Holder,
    holes: Vec<(LogIndex, Option<Term>)>,
) -> Vec<(LogIndex, RepairAnswer)> {
    let mut answers = Vec::new();
    let mut bytes = 0;
    for (index, term) in holes {
        let answer = answer(log, cluster, holder, index, term);
        if let RepairAnswer::Have { entry, .. } = &answer {
            bytes += entry.data.len();
            if bytes > REPLY_BYTES_MAX && !answers.is_empty() {
                break;
            }
        }
        answers.push((index, answer));
    }
    answers
}

fn answer(log: &Log, cluster: ClusterId, holder: &Holder, index: LogIndex, term: Option<Term>) -> RepairAnswer {
    if index < log.first_index(cluster) {
        return if holder.has_begun { RepairAnswer::Compacted } else { RepairAnswer::Unknown };
    }
    match log.entry(cluster, index) {
        Some(entry) if term.is_none_or(|term| term == entry.term) => {
            let committed = index <= holder.commit;
            RepairAnswer::Have { entry, committed }
        }
        // A whole log that has another entry there, or none, lacks the one that is asked for.
        _ if holder.is_whole => RepairAnswer::Lack,
        _ => RepairAnswer::Unknown,
    }
}
