//! Checkers: given what clients asked and were told, did the store keep its word?
//!
//!   history ─┬─▶ values     nothing invented, no definite failure ever seen
//!            ├─▶ fast       replay in the order the replies name, O(n log n), everything
//!            ├─▶ blackbox   Wing & Gong search per key, ignores that order, bounded
//!            ├─▶ listing    pages sorted, complete, without duplicates
//!            ├─▶ counters   a request id applies at most once
//!            └─▶ ledger     what each level lost, and whether it was allowed to
//!   world ─┬─▶ invariants   one leader a term, equal state at equal index
//!          └─▶ shards       one owner for a key of a bucket at every moment, and in every epoch
//!   what an administrator gave and took back ──▶ access   nothing done that nobody might do, nothing denied that was allowed
//!   calls and watches of keys with versions ──▶ versions   one history, seen whole by each watcher; leases end in time
//!   calls, transactions and messages of Redis databases ──▶ redis   replayed in the order that the database itself wrote down
//!   records under the standard schedule of faults ──▶ availability   shares of failed operations, gaps
//!
//! Always: pure functions of their input; a checker that gives up says so and never counts as passed.
//! Held by: `gives_up_at_its_bound_and_says_so`.
//! Not here: making histories (proof-sim), what a reply means (base-types).
#![deny(missing_docs)]

pub mod access;
pub mod availability;
pub mod blackbox;
pub mod counters;
pub mod fast;
pub mod history;
pub mod invariants;
mod keys;
pub mod ledger;
pub mod listing;
pub mod redis;
pub mod shards;
pub mod values;
pub mod versions;

pub use history::{Ending, History, Observed, Operation, Place, Record, Time};

/// A promise that was broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Which checker found it.
    pub check: &'static str,
    /// What happened, for people.
    pub message: String,
    /// The records that show it.
    pub records: Vec<u64>,
}

impl Violation {
    /// A violation shown by these records.
    pub fn new(check: &'static str, message: impl Into<String>, records: Vec<u64>) -> Violation {
        Violation { check, message: message.into(), records }
    }
}

/// What all checks of a history came to.
#[derive(Clone, Default, Debug)]
pub struct Verdict {
    /// Broken promises, in the order the checkers ran.
    pub violations: Vec<Violation>,
    /// Keys whose black-box search ended without an answer.
    pub gave_up: u64,
    /// Keys the black-box search decided.
    pub keys_searched: u64,
    /// Operations replayed by the fast checker.
    pub replayed: u64,
    /// What each level acknowledged and lost.
    pub ledger: ledger::Ledger,
}

/// Runs every history checker. `steps_max` bounds the black-box search of one key.
pub fn check_all(history: &History, steps_max: u64) -> Verdict {
    let mut verdict = Verdict::default();
    verdict.violations.extend(values::check(history));
    let fast = fast::check(history);
    verdict.replayed = fast.replayed;
    verdict.violations.extend(fast.violations);
    let blackbox = blackbox::check(history, steps_max);
    verdict.gave_up = blackbox.gave_up;
    verdict.keys_searched = blackbox.keys_searched;
    verdict.violations.extend(blackbox.violations);
    verdict.violations.extend(listing::check(history));
    verdict.violations.extend(counters::check(history));
    let (ledger, violations) = ledger::check(history);
    verdict.ledger = ledger;
    verdict.violations.extend(violations);
    verdict
}
