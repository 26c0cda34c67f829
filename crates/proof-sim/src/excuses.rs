//! Excuses: what the checks let pass because of what was done to the world. Each has a name and is counted.
//!
//! Always: a use is counted once for what it is about (a node's life, a replica, an operation), however often it is seen.
//! Held by: `a_use_counts_once_for_what_it_is_about`.
//! Not here: when each is granted (the check that grants it says so).

use std::collections::{BTreeMap, BTreeSet};

/// The most uses in one run that are compared with each other; each further use counts.
const APART_MAX: usize = 1 << 16;

macro_rules! excuses {
    ($($name:ident = $text:literal: $doc:literal,)*) => {
        /// Why a check lets something pass.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Excuse { $(#[doc = $doc] $name,)* }
        impl Excuse {
            /// Every excuse.
            pub const ALL: &'static [Excuse] = &[$(Excuse::$name,)*];
            /// The word used in ledgers.
            pub fn name(self) -> &'static str {
                match self { $(Excuse::$name => $text,)* }
            }
            /// What it lets pass, and when.
            pub fn describe(self) -> &'static str {
                match self { $(Excuse::$name => $doc,)* }
            }
        }
    };
}

excuses! {
    DamagedReplica = "damaged_replica": "`damage`: a replica calls itself damaged on a node whose present disk lost or changed bytes",
    RefusedStart = "refused_start": "`start`: a node refuses to start whose present disk lost or changed bytes; it is given an empty one",
    HaltedOnLostBytes = "halted_on_lost_bytes": "`halt`: a node ends itself whose present disk lost or changed bytes",
    HaltedOnError = "halted_on_error": "`halt`: a node ends itself in the life in which a write failed or stalled",
    OldProgram = "old_program": "`start`, `halt`: a node ends, or does not start, whose program does not serve the format level that it has kept; it is given one that does",
    MembersUnchecked = "members_unchecked": "`members`: an operator's answer is not compared, for somebody died, was paused, lost bytes, or others change members",
    LateAnswer = "late_answer": "`unanswered`: no answer in time from a node that was paused, or whose clock was bent",
    LossByHarmedLeader = "loss_by_harmed_leader": "`ledger`: an eventual write is lost though one node led all the while, whose disk lied or was lost",
    MajorityGone = "majority_gone": "`liveness`: the replicas of a configuration cluster or of a cluster of one, half of which are damaged or blank, are not compared",
    MajorityRotted = "majority_rotted": "`liveness`: a cluster of whose replicas half or more are damaged or blank, in a world in which logs rot on two nodes, does not serve; each node with one says so",
    LostWithItsMajority = "lost_with_its_majority": "an acknowledged operation counts as of unknown outcome, whose entry the survivor of a recovered cluster did not hold",
    AnsweredBeforeContact = "answered_before_contact": "an answer of a life of a cluster that had ended counts as unknown, until its members could have heard of it",
    NoTail = "no_tail": "`calm`: a write of level s3 failed in a cluster that no member keeps in a bucket",
    CompletingStillNames = "completing_still_names": "`places`: an upload whose completion put its object and was not ended names a place that was freed since",
    IdOfAnotherCluster = "id_of_another_cluster": "`calm`: a request was refused whose id was issued by another cluster of its keyspace",
    QuotaFull = "quota_full": "`calm`: a put failed in a bucket whose quota was full",
    MayNot = "may_not": "`calm`: an operation was denied to a user who perhaps might not do it",
}

/// How often each was used.
pub type Uses = BTreeMap<Excuse, u64>;

/// The uses of one run.
#[derive(Clone, Default, Debug)]
pub struct Excuses {
    uses: Uses,
    seen: BTreeSet<(Excuse, u64, u64)>,
}

impl Excuses {
    /// One is used for what the two numbers name.
    pub fn used(&mut self, excuse: Excuse, about: (u64, u64)) {
        let known = self.seen.contains(&(excuse, about.0, about.1));
        if !known && self.seen.len() < APART_MAX {
            self.seen.insert((excuse, about.0, about.1));
        }
        *self.uses.entry(excuse).or_default() += u64::from(!known);
    }

    /// How often each was used.
    pub fn uses(&self) -> &Uses {
        &self.uses
    }
}

/// The uses in one line.
pub fn line(uses: &Uses) -> String {
    match uses.is_empty() {
        true => "none".to_string(),
        false => uses.iter().map(|(excuse, count)| format!("{} {count}", excuse.name())).collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_counts_once_for_what_it_is_about() {
        let mut excuses = Excuses::default();
        assert_eq!(line(excuses.uses()), "none");
        for about in [(1, 1), (1, 1), (1, 2)] {
            excuses.used(Excuse::DamagedReplica, about);
        }
        excuses.used(Excuse::LateAnswer, (1, 1));
        assert_eq!(line(excuses.uses()), "damaged_replica 2, late_answer 1");
    }
}
