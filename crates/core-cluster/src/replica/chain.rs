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
use crate::entry::{EntryCommand, BACKEND_CLUSTER};
use crate::meta::ClusterMeta;
use crate::wire::{About, Sample};
use base_types::mutant::{planted, Mutant};
use base_types::{LogIndex, NodeId, ReplicaId, RequestId, Term, Tick};
use bytes::Bytes;
use core_log::LogEntry;
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

/// The numbers of the last entries, and what a leader knows of the others'. The newest number is in the meta record.
#[derive(Default)]
pub struct Chain {
    /// What was applied up to some of the last indexes.
    samples: VecDeque<Sample>,
    /// What members hold, while any differs from this leader.
    standings: Option<Box<Standings>>,
    /// The term in which it had a chain begun.
    asked: Option<Term>,
}

/// What a member that differs is to be told by its leader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verdict {
    pub to: ReplicaId,
    pub about: About,
    /// What a majority of the voters holds; `None`: no majority holds the same.
    pub value: Option<u64>,
}

/// What a comparison of members has come to.
#[derive(PartialEq, Eq, Debug)]
pub enum Judgement {
    /// A majority holds what this replica holds; these differ.
    Upheld(Vec<Verdict>),
    /// These differ from a majority, and this replica does not.
    Differ(Vec<Verdict>),
    /// This replica is not of the majority, for this reason: it gives way once the others have their verdicts.
    Overruled(Vec<Verdict>, String),
    /// Members differ, and none of their states is a majority's.
    NoMajority(Vec<Verdict>),
}

/// What a leader knows of members' numbers while any differs.
#[derive(Default)]
struct Standings {
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

impl Chain {
    /// An entry is applied: `changes` is what it did to the pairs.
    pub fn extend(&mut self, meta: &mut ClusterMeta, entry: &LogEntry, changes: u64, skipped: bool) {
        let Some(chain) = meta.chain else { return };
        let context = if entry.context.is_empty() { changes } else { xxh3_64(&entry.context) };
        let chain = extended(chain, entry, context, skipped);
        meta.chain = Some(chain);
        if entry.index.0.is_multiple_of(SAMPLE_EVERY) {
            if self.samples.len() == SAMPLES_KEPT {
                self.samples.pop_front();
            }
            self.samples.push_back(Sample { index: entry.index, chain });
        }
    }

    /// A chain begins: at this entry on every member.
    pub fn begin(&mut self, meta: &mut ClusterMeta, entry: &LogEntry) {
        self.samples = VecDeque::new();
        meta.chain = Some(entry.index.0);
    }

    /// Another state takes the place of the one that the samples are of, or nobody will ask for them for a while.
    pub fn forget_samples(&mut self) {
        self.samples = VecDeque::new();
    }

    /// Leadership is gone, and with it what it knew of the others.
    pub fn lose_leadership(&mut self) {
        self.standings = None;
    }

    /// Whether some member differs from this leader.
    pub fn is_undecided(&self) -> bool {
        self.standings.is_some()
    }

    /// What a follower reports with its answer to a heartbeat.
    pub fn to_report(&self, meta: &ClusterMeta) -> Option<[Sample; 2]> {
        let newest = Sample { index: meta.applied, chain: meta.chain? };
        Some([self.samples.back().copied().unwrap_or(newest), newest])
    }

    /// The number at this index, where it is still known.
    pub fn at(&self, meta: &ClusterMeta, index: LogIndex) -> Option<u64> {
        if index == meta.applied {
            return meta.chain;
        }
        self.samples.iter().rev().find(|sample| sample.index == index).map(|sample| sample.chain)
    }

    /// A follower's report to its leader: kept only while some member differs. True: it is to be judged.
    pub fn on_report(&mut self, meta: &ClusterMeta, from: ReplicaId, samples: [Sample; 2]) -> bool {
        let comparable = |sample: &&Sample| self.at(meta, sample.index).is_some();
        let Some(sample) = samples.iter().rev().find(comparable).copied() else { return false };
        let agrees = self.at(meta, sample.index) == Some(sample.chain);
        if agrees && self.standings.is_none() {
            return false;
        }
        let standings = self.standings.get_or_insert_default();
        standings.reported.insert(from, (samples, sample, agrees));
        true
    }

    /// Who is right: a majority of the voters is. `None`: nothing is to be judged, or not now.
    pub fn judge(&mut self, meta: &ClusterMeta, own: ReplicaId, leads: bool, now: Tick) -> Option<Judgement> {
        let membership = &meta.membership;
        let standings = self.standings.as_mut()?;
        standings.reported.retain(|replica, _| membership.contains(*replica));
        if !leads || standings.reported.values().all(|(.., agrees)| *agrees) {
            self.standings = None;
            return Some(Judgement::Upheld(Vec::new()));
        }
        if membership.is_joint() || now.since(standings.told) < VERDICT_EVERY {
            return None;
        }
        let since = *standings.since.get_or_insert(now);
        let voters = &membership.voters;
        let majority = voters.len() / 2 + 1;
        let itself = usize::from(voters.contains(&own));
        let votes = |replica: &ReplicaId| voters.contains(replica);
        let reported = &standings.reported;
        let agree = itself + reported.iter().filter(|(replica, (.., agrees))| *agrees && votes(replica)).count();
        let others: Vec<[Sample; 2]> = reported
            .iter()
            .filter(|(replica, (.., agrees))| !*agrees && votes(replica))
            .map(|(_, (samples, ..))| *samples)
            .collect();
        let same = |one: &Sample| others.iter().filter(|samples| samples.contains(one)).count();
        let against = others.iter().flatten().copied().find(|sample| same(sample) >= majority);
        if agree >= majority {
            standings.told = now;
            let of: Vec<(ReplicaId, LogIndex)> =
                reported.iter().map(|(replica, (_, sample, _))| (*replica, sample.index)).collect();
            let verdict = |(to, index)| Verdict { to, about: About::Index(index), value: self.at(meta, index) };
            Some(Judgement::Upheld(of.into_iter().map(verdict).collect()))
        } else if let Some(sample) = against {
            let why = format!("what it has applied up to entry {} is not what a majority has", sample.index);
            Some(Judgement::Overruled(Vec::new(), why))
        } else if voters.len() == 2 || now.since(since) >= UNDECIDED_AFTER {
            standings.told = now;
            // Who has not reported may be the one that makes a majority.
            Some(Judgement::NoMajority(undecided(About::Index(meta.applied), own, standings.reported.keys())))
        } else {
            None
        }
    }

    /// Whether this leader is to have a chain begun, where an earlier release left none: at one entry for all.
    pub fn is_to_begin(&mut self, meta: &ClusterMeta, leading: Option<Term>, committed_in_own_term: bool) -> bool {
        let Some(term) = leading.filter(|_| meta.chain.is_none()) else { return false };
        if self.asked == Some(term) || !committed_in_own_term {
            return false;
        }
        self.asked = Some(term);
        true
    }
}

/// Verdicts for all of these but `own`: no majority holds what any of them holds.
fn undecided<'a>(about: About, own: ReplicaId, of: impl IntoIterator<Item = &'a ReplicaId>) -> Vec<Verdict> {
    let others = of.into_iter().filter(|replica| **replica != own);
    others.map(|to| Verdict { to: *to, about, value: None }).collect()
}

/// All members have told what they hold at a mark: who differs from a majority gives way.
pub fn judge_digests(
    meta: &ClusterMeta,
    own: ReplicaId,
    mark: u64,
    told: &[(ReplicaId, Verified)],
) -> Option<Judgement> {
    if meta.membership.is_joint() || planted(Mutant::HashNeverCompared) {
        return None;
    }
    let voters = &meta.membership.voters;
    let digest = |told: &Verified| match told {
        Verified::Checked { index, pairs, hash, damaged: 0, .. } => Some((*index, *pairs, *hash)),
        _ => None,
    };
    let digests: BTreeMap<ReplicaId, _> =
        told.iter().filter_map(|(replica, told)| Some((*replica, digest(told)?))).collect();
    let count = |of| voters.iter().filter(|voter| digests.get(voter) == Some(&of)).count();
    let first = digests.values().next().copied().filter(|one| digests.values().any(|other| other != one))?;
    let about = About::Mark(mark);
    let Some(right) = digests.values().copied().find(|one| count(*one) > voters.len() / 2) else {
        let all_told = voters.iter().all(|voter| digests.contains_key(voter));
        return (all_told && first.0 > LogIndex(0)).then(|| Judgement::NoMajority(undecided(about, own, voters)));
    };
    let differ = digests.iter().filter(|(replica, digest)| **replica != own && **digest != right);
    let verdicts = differ.map(|(replica, _)| Verdict { to: *replica, about, value: Some(right.2) }).collect();
    Some(match digests.get(&own) {
        Some(digest) if *digest != right => {
            let why = format!("its pairs at entry {} are not what a majority has", right.0);
            Judgement::Overruled(verdicts, why)
        }
        _ => Judgement::Differ(verdicts),
    })
}

/// The command that has a chain begun.
pub fn begin_command(now: Tick, node: NodeId) -> EntryCommand {
    EntryCommand {
        backend: BACKEND_CLUSTER,
        request_id: RequestId::own((u128::from(now.0) << 64) | u128::from(node.0)),
        keep_ms: 1_000,
        command: Bytes::from_static(&[CHAIN_COMMAND]),
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
