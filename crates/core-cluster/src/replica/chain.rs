//! What a replica has applied, in one number that members compare with every heartbeat.
//!
//! ```text
//!   entry i ─apply─▶ pairs it changes ─▶ chain(i) = hash(chain(i-1), i, term, changes)      kept in the meta record
//!   follower ──HeartbeatResponse + (index, chain) twice──▶ leader: the same at the same index?
//!        differs ─▶ a majority of the voters holds one value: who differs from it gives way and is rebuilt,
//!                   the leader, too; no majority does: everybody is quarantined, an operator decides
//! ```
//!
//! Two applied prefixes that differ once differ for ever, so members need not be compared at every index: each keeps its
//! number at every `SAMPLE_EVERY`th, and reports the last of those and the newest. What rots in an engine afterwards is
//! not seen by it: that is compared by walking all pairs (verify.rs), which ends in the same verdict here.
//!
//! Always: a member gives way only to a majority of the voters (mutant `HashNeverCompared`; `tests/contradiction.rs`).
//! Not here: what a replica that is given up does (`Replica::damage`).
//! What it costs, and what else was thought of: docs/decisions/0028.

use crate::api::Verified;
use crate::context::LaneContext;
use crate::entry::{EntryCommand, BACKEND_CLUSTER};
use crate::replica::quarantine::Cause;
use crate::replica::writes::WaitingWrite;
use crate::replica::Replica;
use crate::wire::{About, Payload, Sample};
use base_types::mutant::{planted, Mutant};
use base_types::{LogIndex, ReplicaId, RequestId, Term, Tick, Ticket, WriteConsistency};
use bytes::Bytes;
use core_log::LogEntry;
use core_raft::MessageKind;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Members keep their numbers at multiples of this.
const SAMPLE_EVERY: u64 = 32;
/// So many of them.
const SAMPLES_KEPT: usize = 32;
/// Members that differ, and no majority among them, are waited for so long: a third may come back and say who is right.
const UNDECIDED_AFTER: Duration = Duration::from_secs(10);
/// A verdict is repeated so often.
const VERDICT_EVERY: Duration = Duration::from_millis(500);
/// The first byte of the command to the cluster itself that begins a chain where an earlier release left none.
pub const CHAIN_COMMAND: u8 = 5;

/// What a leader knows of members' numbers while any differs.
#[derive(Default)]
pub struct Standings {
    reported: BTreeMap<ReplicaId, ([Sample; 2], Sample, bool)>,
    since: Option<Tick>,
    told: Tick,
}

/// The number after one more entry.
fn extended(chain: u64, entry: &LogEntry, changes: u64, skipped: bool) -> u64 {
    let mut bytes = [0; 26];
    bytes[..8].copy_from_slice(&entry.index.0.to_le_bytes());
    bytes[8..16].copy_from_slice(&entry.term.0.to_le_bytes());
    bytes[16..24].copy_from_slice(&changes.to_le_bytes());
    bytes[24] = entry.kind;
    bytes[25] = u8::from(skipped);
    xxh3_64_with_seed(&bytes, chain)
}

impl Replica {
    /// An entry is applied: `changes` is what it did to the pairs.
    pub fn extend_chain(&mut self, entry: &LogEntry, changes: u64, skipped: bool) {
        let Some(chain) = self.meta.chain else { return };
        let context = if entry.context.is_empty() { changes } else { xxh3_64(&entry.context) };
        let chain = extended(chain, entry, context, skipped);
        self.meta.chain = Some(chain);
        if entry.index.0.is_multiple_of(SAMPLE_EVERY) {
            if self.samples.len() == SAMPLES_KEPT {
                self.samples.pop_front();
            }
            self.samples.push_back(Sample { index: entry.index, chain });
        }
    }

    /// A chain begins: at this entry on every member.
    pub fn begin_chain(&mut self, entry: &LogEntry) {
        self.samples = VecDeque::new();
        self.meta.chain = Some(entry.index.0);
    }

    /// What a follower reports with its answer to a heartbeat.
    pub fn samples_to_report(&self, kind: MessageKind) -> Option<[Sample; 2]> {
        let comparable = !self.blank && self.quarantine.as_ref().is_none_or(|own| own.cause == Cause::NoMajority);
        let chain = self.meta.chain.filter(|_| kind == MessageKind::HeartbeatResponse && comparable)?;
        let newest = Sample { index: self.meta.applied, chain };
        Some([self.samples.back().copied().unwrap_or(newest), newest])
    }

    fn chain_at(&self, index: LogIndex) -> Option<u64> {
        if index == self.meta.applied {
            return self.meta.chain;
        }
        self.samples.iter().rev().find(|sample| sample.index == index).map(|sample| sample.chain)
    }

    /// A follower's report: kept only while some member differs.
    pub fn on_samples(&mut self, lane: &mut LaneContext, now: Tick, from: ReplicaId, samples: [Sample; 2]) {
        if self.leading.is_none() || self.meta.chain.is_none() || planted(Mutant::HashNeverCompared) {
            return;
        }
        let comparable = |sample: &&Sample| self.chain_at(sample.index).is_some();
        let Some(sample) = samples.iter().rev().find(comparable).copied() else { return };
        let agrees = self.chain_at(sample.index) == Some(sample.chain);
        if agrees && self.standings.is_none() {
            return;
        }
        let standings = self.standings.get_or_insert_default();
        standings.reported.insert(from, (samples, sample, agrees));
        self.judge(lane, now);
    }

    /// Who is right: a majority of the voters is.
    pub fn judge(&mut self, lane: &mut LaneContext, now: Tick) {
        let membership = self.meta.membership.clone();
        let Some(standings) = self.standings.as_mut() else { return };
        standings.reported.retain(|replica, _| membership.contains(*replica));
        if self.leading.is_none() || standings.reported.values().all(|(.., agrees)| *agrees) {
            self.standings = None;
            self.release_undecided(lane);
            return;
        }
        if membership.is_joint() || now.since(standings.told) < VERDICT_EVERY {
            return;
        }
        let since = *standings.since.get_or_insert(now);
        let voters = &membership.voters;
        let majority = voters.len() / 2 + 1;
        let own = usize::from(voters.contains(&self.spec.replica));
        let votes = |replica: &ReplicaId| voters.contains(replica);
        let reported = &standings.reported;
        let agree = own + reported.iter().filter(|(replica, (.., agrees))| *agrees && votes(replica)).count();
        let others: Vec<[Sample; 2]> = reported
            .iter()
            .filter(|(replica, (.., agrees))| !*agrees && votes(replica))
            .map(|(_, (samples, ..))| *samples)
            .collect();
        let same = |one: &Sample| others.iter().filter(|samples| samples.contains(one)).count();
        let against = others.iter().flatten().copied().find(|sample| same(sample) >= majority);
        if agree >= majority {
            standings.told = now;
            let verdicts: Vec<(ReplicaId, LogIndex)> =
                reported.iter().map(|(replica, (_, sample, _))| (*replica, sample.index)).collect();
            for (replica, index) in verdicts {
                self.send_verdict(lane, replica, About::Index(index), self.chain_at(index));
            }
            self.release_undecided(lane);
        } else if let Some(sample) = against {
            self.give_way(lane, format!("what it has applied up to entry {} is not what a majority has", sample.index));
        } else if voters.len() == 2 || now.since(since) >= UNDECIDED_AFTER {
            standings.told = now;
            // Who has not reported may be the one that makes a majority.
            let differ: Vec<ReplicaId> = standings.reported.keys().copied().collect();
            self.no_majority(lane, About::Index(self.meta.applied), &differ);
        }
    }

    /// Members differ, and none of their states is a majority's.
    fn no_majority(&mut self, lane: &mut LaneContext, about: About, members: &[ReplicaId]) {
        for replica in members.iter().filter(|replica| **replica != self.spec.replica) {
            self.send_verdict(lane, *replica, about, None);
        }
        self.quarantine_all(lane, "its members hold different states, and no majority holds one of them".into());
    }

    fn send_verdict(&self, lane: &mut LaneContext, to: ReplicaId, about: About, value: Option<u64>) {
        if let Some(node) = self.meta.node_of(to) {
            self.send(lane, node, &Payload::Verdict { to, term: self.term(), about, value });
        }
    }

    /// Its leader reports what a majority of the voters holds; `None`: no majority holds the same.
    pub fn on_verdict(&mut self, lane: &mut LaneContext, to: ReplicaId, term: Term, about: About, value: Option<u64>) {
        if to != self.spec.replica || term != self.term() || self.leading.is_some() || self.blank {
            return;
        }
        let Some(value) = value else {
            return self
                .quarantine_all(lane, "its members hold different states, and no majority holds one of them".into());
        };
        let own = match about {
            About::Index(index) => self.chain_at(index),
            About::Mark(mark) => self.digest_at(mark),
        };
        match own {
            Some(own) if own == value => self.release_undecided(lane),
            Some(_) => self.give_way(lane, format!("what it holds is not what a majority holds ({about:?})")),
            None => {}
        }
    }

    /// All members have told what they hold at a mark: who differs from a majority gives way.
    pub fn judge_digests(&mut self, lane: &mut LaneContext, mark: u64, told: &[(ReplicaId, Verified)]) {
        if self.meta.membership.is_joint() || planted(Mutant::HashNeverCompared) {
            return;
        }
        let voters = self.meta.membership.voters.clone();
        let digest = |told: &Verified| match told {
            Verified::Checked { index, pairs, hash, damaged: 0, .. } => Some((*index, *pairs, *hash)),
            _ => None,
        };
        let digests: BTreeMap<ReplicaId, _> =
            told.iter().filter_map(|(replica, told)| Some((*replica, digest(told)?))).collect();
        let count = |of| voters.iter().filter(|voter| digests.get(voter) == Some(&of)).count();
        let Some(first) = digests.values().next().copied().filter(|one| digests.values().any(|other| other != one))
        else {
            return;
        };
        let right = digests.values().copied().find(|one| count(*one) > voters.len() / 2);
        let Some(right) = right else {
            let all_told = voters.iter().all(|voter| digests.contains_key(voter));
            if all_told && first.0 > LogIndex(0) {
                self.no_majority(lane, About::Mark(mark), &voters);
            }
            return;
        };
        // Who gives way has no term any more: what it has to say to the others is said before.
        let differs = |replica: &ReplicaId| digests.get(replica).is_some_and(|digest| *digest != right);
        for replica in digests.keys().filter(|replica| **replica != self.spec.replica && differs(replica)) {
            self.send_verdict(lane, *replica, About::Mark(mark), Some(right.2));
        }
        if differs(&self.spec.replica) {
            self.give_way(lane, format!("its pairs at entry {} are not what a majority has", right.0));
        }
    }

    /// A cluster of an earlier release has no chain: its leader has one begun, at one entry for all.
    pub fn begin_missing_chain(&mut self, lane: &mut LaneContext, now: Tick) {
        let Some(term) = self.leading.filter(|_| self.meta.chain.is_none() && !self.is_quarantined()) else { return };
        if self.chain_asked == Some(term) || !self.group.as_ref().is_some_and(core_raft::Group::committed_in_own_term) {
            return;
        }
        self.chain_asked = Some(term);
        let command = EntryCommand {
            backend: BACKEND_CLUSTER,
            request_id: RequestId::own((u128::from(now.0) << 64) | u128::from(lane.config.node.0)),
            keep_ms: 1_000,
            command: Bytes::from_static(&[CHAIN_COMMAND]),
        };
        let (ticket, deadline, level) = (Ticket(0), Tick::NEVER, WriteConsistency::Strong);
        self.pending_writes += 1;
        self.propose_entry(lane, now, &[command], vec![WaitingWrite { ticket, deadline, level, answered: true }]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_an_entry_counts() {
        let entry = LogEntry { term: Term(2), index: LogIndex(7), kind: 0, data: Bytes::new(), context: Bytes::new() };
        let of = |entry: &LogEntry, changes, skipped| extended(1, entry, changes, skipped);
        let base = of(&entry, 3, false);
        assert_eq!(base, of(&entry, 3, false));
        let other_term = LogEntry { term: Term(3), ..entry.clone() };
        let other_index = LogEntry { index: LogIndex(8), ..entry.clone() };
        let others = [of(&other_term, 3, false), of(&other_index, 3, false), of(&entry, 4, false), of(&entry, 3, true)];
        assert!(others.iter().all(|other| *other != base));
    }
}
