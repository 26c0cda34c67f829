//! The durability ledger: of what each level acknowledged, how much was there at the end.
//!
//! Only keys that were written once and never removed count (`workloads` keep some for this): for
//! them the last strong read of the history says whether the write survived.
//!
//! Always: strong and absolute writes lose nothing. A hopeful or eventual write may be lost only where
//! leadership moved after it was acknowledged: the cluster later answered at a higher term.
//! Held by: `counts_losses_and_rejects_those_not_allowed`.
//! Not here: which fault made leadership move (proof-sim counts faults).

use crate::history::{Ending, History, Observed, Operation, Place, Record};
use crate::Violation;
use base_types::action::Level;
use base_types::{ClusterId, Generation, NodeId, Term, WriteConsistency};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// Acknowledged and lost, by level.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Ledger {
    /// By `WriteConsistency as usize`.
    pub levels: [Account; WriteConsistency::ALL.len()],
}

/// One level's account.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Account {
    /// Writes acknowledged to keys that were written once.
    pub acknowledged: u64,
    /// Of these, gone at the end.
    pub lost: u64,
}

impl Ledger {
    /// Adds another run's ledger.
    pub fn add(&mut self, other: &Ledger) {
        for (mine, theirs) in self.levels.iter_mut().zip(&other.levels) {
            mine.acknowledged += theirs.acknowledged;
            mine.lost += theirs.lost;
        }
    }
}

/// Makes the ledger and says which losses were not allowed.
pub fn check(history: &History) -> (Ledger, Vec<Violation>) {
    let mut ledger = Ledger::default();
    let mut violations = Vec::new();
    let last_reads = last_reads(history);
    let terms = last_terms(history);
    for (key, record) in written_once(history) {
        let (Level::Write(level), Ending::Ok) = (record.level, record.ending) else { continue };
        let Some(read) = last_reads.get(&key).filter(|read| read.invoked > record.returned_or_never()) else {
            continue;
        };
        let account = &mut ledger.levels[level as usize];
        account.acknowledged += 1;
        if read.observed != Some(Observed::Value(None)) {
            continue;
        }
        account.lost += 1;
        let moved = record
            .at
            .is_none_or(|at| terms.get(&(at.cluster.0, at.generation.0)).is_some_and(|last| *last > at.term.0));
        let weak = matches!(level, WriteConsistency::Hopeful | WriteConsistency::Eventual);
        if !(weak && moved) {
            let message = format!(
                "{level} write of {:?} at {:?} was acknowledged and is lost{}",
                key.1,
                record.at,
                if weak { ", although leadership never moved" } else { "" }
            );
            violations.push(Violation::new("ledger", message, vec![record.id, read.id]));
        }
    }
    (ledger, violations)
}

/// Eventual writes that were lost although leadership never left the node that acknowledged them, as far
/// as `sole_leader` (cluster, generation, from term, to term) knows: its log was synced, so a restart keeps them.
pub fn check_unmoved(
    history: &History,
    sole_leader: impl Fn(ClusterId, Generation, Term, Term) -> Option<NodeId>,
) -> Vec<Violation> {
    let last_reads = last_reads(history);
    let mut violations = Vec::new();
    for (key, record) in written_once(history) {
        if (record.level, record.ending) != (Level::Write(WriteConsistency::Eventual), Ending::Ok) {
            continue;
        }
        let read = last_reads.get(&key).filter(|read| read.invoked > record.returned_or_never());
        let (Some(read), Some(at)) = (read, record.at) else { continue };
        let (true, Some(until)) = (read.observed == Some(Observed::Value(None)), read.at) else { continue };
        if let Some(node) = sole_leader(at.cluster, at.generation, at.term, until.term) {
            let message = format!(
                "eventual write of {:?} at {at:?} was acknowledged and is lost, although {node:?} has led all the while",
                key.1
            );
            violations.push(Violation::new("ledger", message, vec![record.id, read.id]));
        }
    }
    violations
}

/// Puts to keys that nothing else in the history changes.
fn written_once(history: &History) -> BTreeMap<(Place, &Bytes), &Record> {
    let mut writers: BTreeMap<(Place, &Bytes), Vec<&Record>> = BTreeMap::new();
    for record in &history.records {
        for (key, _) in record.effects() {
            writers.entry((record.place, key)).or_default().push(record);
        }
    }
    let clears = history.records.iter().filter(|record| matches!(record.operation, Operation::Clear));
    let cleared: BTreeSet<Place> = clears.map(|record| record.place).collect();
    writers
        .into_iter()
        .filter(|((place, _), by)| {
            by.len() == 1 && matches!(by[0].operation, Operation::Put { .. }) && !cleared.contains(place)
        })
        .map(|(key, by)| (key, by[0]))
        .collect()
}

fn last_reads(history: &History) -> BTreeMap<(Place, &Bytes), &Record> {
    let mut reads: BTreeMap<(Place, &Bytes), &Record> = BTreeMap::new();
    for record in history.records.iter().filter(|record| record.is_strong() && record.ending == Ending::Ok) {
        if let Operation::Get { key } = &record.operation {
            let last = reads.entry((record.place, key)).or_insert(record);
            if last.invoked < record.invoked {
                *last = record;
            }
        }
    }
    reads
}

fn last_terms(history: &History) -> BTreeMap<(u64, u32), u64> {
    let mut terms: BTreeMap<(u64, u32), u64> = BTreeMap::new();
    for at in history.records.iter().filter_map(|record| record.at) {
        let last = terms.entry((at.cluster.0, at.generation.0)).or_default();
        *last = (*last).max(at.term.0);
    }
    terms
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::testing::*;

    #[test]
    fn counts_losses_and_rejects_those_not_allowed() {
        let lost = at(2, 9, u32::MAX, get(5, 6, "k", None));
        let (ledger, violations) =
            check(&history(vec![weak(WriteConsistency::Hopeful, at(1, 1, 0, put(0, 1, "k", "a"))), lost.clone()]));
        assert_eq!((ledger.levels[0], violations.len()), (Account { acknowledged: 1, lost: 1 }, 0));
        let unmoved = at(1, 9, u32::MAX, get(5, 6, "k", None));
        let (_, violations) =
            check(&history(vec![weak(WriteConsistency::Eventual, at(1, 1, 0, put(0, 1, "k", "a"))), unmoved]));
        assert_eq!(violations.len(), 1);
        let (ledger, violations) = check(&history(vec![at(1, 1, 0, put(0, 1, "k", "a")), lost]));
        assert_eq!((ledger.levels[2].lost, violations.len()), (1, 1));
        let (ledger, violations) =
            check(&history(vec![at(1, 1, 0, put(0, 1, "k", "a")), at(2, 9, u32::MAX, get(5, 6, "k", Some("a")))]));
        assert_eq!((ledger.levels[2], violations.len()), (Account { acknowledged: 1, lost: 0 }, 0));
    }
}
