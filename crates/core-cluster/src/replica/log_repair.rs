//! Mending rot: entries that a disk lost are fetched from the other members (CTRL, FAST'18).
//!
//! While it has holes, a replica is no member: it does not vote, acknowledge or answer, because it
//! cannot know what it promised. Entry `i` of term `t` is the same on every member that has it (Raft's
//! log matching), so any copy with the known term mends; where the term rotted too, only a copy that
//! is committed. A hole that a majority surely lacks was never committed: the log may end before it.
//! What the others have compacted comes by snapshot to a new replica: this one asks to be replaced.
//!
//! Not here: telling rot from a torn tail (core-log).

use crate::context::LaneContext;
use crate::replica::Replica;
use crate::wire::{Payload, RepairAnswer, REPAIR_INDEXES_MAX};
use base_types::mutant::{planted, Mutant};
use base_types::{Generation, LogIndex, NodeId, ReplicaId, Term, Tick};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The request to the others is repeated after this long.
const ASK_EVERY: Duration = Duration::from_millis(500);
/// A replica without a vote that heard nobody for so many election timeouts asks whether it is a member.
const ASK_AFTER_ELECTIONS: u32 = 10;
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
}

impl Replica {
    /// Asks, or asks to be replaced.
    pub fn tick_repair(&mut self, lane: &mut LaneContext, now: Tick) {
        if self.damaged.is_some() {
            // One whose life is over asks for nothing.
            if self.ended == Generation(0) && now.since(self.damage_told) >= LOST_EVERY {
                self.damage_told = now;
                self.tell_members(lane, &Payload::Lost { from: self.spec.replica });
            }
            return;
        }
        let Some(repair) = self.repair.as_mut() else { return };
        if now.since(repair.asked) < ASK_EVERY && repair.asked != Tick(0) {
            return;
        }
        repair.asked = now;
        repair.rounds = repair.rounds.saturating_add(1);
        let holes = repair.holes.iter().take(REPAIR_INDEXES_MAX).map(|(index, hole)| (*index, hole.term)).collect();
        self.tell_members(lane, &Payload::RepairRequest { from: self.spec.replica, holes });
    }

    pub fn tell_members(&self, lane: &mut LaneContext, payload: &Payload) {
        for node in self.other_nodes() {
            self.send(lane, node, payload);
        }
    }

    /// Where other members are: by the configuration, and, for one that has none yet, by who has written to it.
    fn other_nodes(&self) -> BTreeSet<NodeId> {
        let known = self.meta.members.iter().filter(|member| member.replica != self.spec.replica);
        known.map(|member| member.node).chain(self.heard_from.values().copied()).collect()
    }

    /// Whether the replica was a member and is none any more, and that is durable here.
    pub fn is_stranger(&self, replica: ReplicaId) -> bool {
        !self.blank
            && self.durable.index >= self.membership_at
            && !self.meta.membership.contains(replica)
            && replica < self.meta.next_replica
    }

    /// A replica that only listens cannot notice by an election that it was removed: it asks now and then.
    pub fn ask_whether_member(&self, lane: &mut LaneContext) {
        let own = self.spec.replica;
        let every = ASK_AFTER_ELECTIONS * lane.config.election_ticks as u32;
        let listens = self.damaged.is_none() && self.repair.is_none() && !self.meta.membership.is_voter(own);
        if !listens || self.silent_ticks % every.max(1) != every.saturating_sub(1) {
            return;
        }
        for node in self.other_nodes() {
            self.send(lane, node, &Payload::RepairRequest { from: own, holes: Vec::new() });
        }
    }

    /// Another member has lost entries, or asks whether it is one.
    pub fn on_repair_request(
        &mut self,
        lane: &mut LaneContext,
        from: NodeId,
        replica: ReplicaId,
        holes: Vec<(LogIndex, Option<Term>)>,
    ) {
        if self.is_stranger(replica) {
            return self.send(lane, from, &Payload::Removed { replica });
        }
        let mut answers = Vec::new();
        let mut bytes = 0;
        for (index, term) in holes {
            let answer = self.repair_answer(lane, index, term);
            if let RepairAnswer::Have { entry, .. } = &answer {
                bytes += entry.data.len();
                if bytes > REPLY_BYTES_MAX && !answers.is_empty() {
                    break;
                }
            }
            answers.push((index, answer));
        }
        let reply = Payload::RepairReply { from: self.spec.replica, answers };
        self.send(lane, from, &reply);
    }

    fn repair_answer(&self, lane: &LaneContext, index: LogIndex, term: Option<Term>) -> RepairAnswer {
        let log = lane.log.borrow();
        let cluster = self.spec.cluster;
        if index < log.first_index(cluster) {
            return if self.blank || self.damaged.is_some() { RepairAnswer::Unknown } else { RepairAnswer::Compacted };
        }
        // A member that is itself being mended knows at least what it has applied.
        let commit = self.group.as_ref().map_or(self.meta.applied, |group| group.commit());
        match log.entry(cluster, index) {
            Some(entry) if term.is_none_or(|term| term == entry.term) => {
                let committed = index <= commit;
                RepairAnswer::Have { entry, committed }
            }
            // A whole log that has another entry there, or none, lacks the one that is asked for.
            _ if self.group.is_some() => RepairAnswer::Lack,
            _ => RepairAnswer::Unknown,
        }
    }

    pub fn on_repair_reply(
        &mut self,
        lane: &mut LaneContext,
        now: Tick,
        from: ReplicaId,
        answers: Vec<(LogIndex, RepairAnswer)>,
    ) {
        let Some(repair) = self.repair.as_mut() else { return };
        let mut mended = false;
        for (index, answer) in answers {
            let Some(hole) = repair.holes.get_mut(&index) else { continue };
            match answer {
                RepairAnswer::Have { entry, committed } => {
                    let same = entry.index == index
                        && hole
                            .term
                            .map_or(committed || planted(Mutant::RepairTakesUncommitted), |term| term == entry.term);
                    let takes = entry.data.len() + entry.context.len() <= lane.log.borrow().entry_bytes_max();
                    if same && takes && lane.log.borrow_mut().fill(self.spec.cluster, entry) {
                        lane.statistics.entries_repaired += 1;
                        repair.holes.remove(&index);
                        mended = true;
                    }
                }
                RepairAnswer::Lack => drop(hole.lacking.insert(from)),
                RepairAnswer::Compacted => drop(hole.compacted.insert(from)),
                RepairAnswer::Unknown => {}
            }
        }
        if mended {
            // More holes than one request names: the next are asked for with the next tick.
            repair.asked = Tick(0);
        }
        self.finish_repair(lane, now);
    }

    fn finish_repair(&mut self, lane: &mut LaneContext, _now: Tick) {
        // What cannot be mended is never cut off under the same replica id: its acknowledgement may still
        // be counted by a leader. A new replica takes its place instead.
        let Some(repair) = self.repair.as_ref() else { return };
        let others = self.meta.members.len().saturating_sub(1);
        let hopeless = |hole: &Hole| {
            let answered = hole.compacted.len() + hole.lacking.len();
            !hole.compacted.is_empty() && (answered >= others || repair.rounds >= ROUNDS_BEFORE_REPLACED)
        };
        if repair.holes.values().any(hopeless) {
            return self.damage(lane, "entries it lost are compacted everywhere else".into());
        }
        let voters = &self.meta.membership.voters;
        // Uncommitted for sure: those that may have it are too few for a majority.
        let never_committed = repair.holes.iter().find(|(_, hole)| {
            let may_have = voters.iter().filter(|voter| !hole.lacking.contains(voter)).count();
            may_have <= voters.len() / 2
        });
        if let Some(index) = never_committed.map(|(index, _)| *index) {
            // The voters' answers say that it was not committed; this replica's promise of it (its
            // acknowledgement) went to a leader that did not reach a majority with it.
            return self.damage(lane, format!("entry {index} rotted and no other member has it"));
        }
        if repair.holes.is_empty() {
            self.repair = None;
            self.make_group(lane);
        }
    }
}
