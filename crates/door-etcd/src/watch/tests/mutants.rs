//! Each bug planted in watches makes a test fail. The bugs are switched on for the whole process, so:
//! cargo test -p door-etcd --features mutants --lib -- --ignored
//!
//! Not here: bugs of what is watched (core-backends, core-cluster).

use super::{catch_up, messages};
use crate::watch::shared;
use base_types::mutant::{plant, Mutant};
use std::panic::catch_unwind;

/// Each bug with the tests of which one must notice it.
const BUGS: [(Mutant, fn()); 8] = [
    (Mutant::WatchStartSkipped, messages::start_below_what_was_compacted_is_created_and_cancelled),
    (Mutant::WatchStallForgets, catch_up::stalled_watcher_is_taken_off_and_misses_nothing),
    (Mutant::WatchRevisionSplit, messages::events_of_one_revision_come_in_one_message),
    (Mutant::WatchStallGoesBack, catch_up::watcher_that_falls_behind_keeps_how_far_it_came),
    (Mutant::WatchNowAtReplica, messages::watch_from_now_waits_for_a_lagging_replica),
    (Mutant::WatchCompactionUnheard, catch_up::stalled_watcher_whose_history_was_compacted_is_cancelled),
    (Mutant::WatchSharedPageSkips, shared::tests::page_serves_positions_between_its_ends),
    (Mutant::WatchDeniedStays, messages::sessions_without_the_right_are_refused_and_later_ended),
];

#[test]
#[ignore = "plants bugs for the whole process"]
fn every_planted_bug_is_noticed() {
    let mut missed = Vec::new();
    for (mutant, test) in BUGS {
        assert!(catch_unwind(test).is_ok(), "the test fails without {mutant:?}");
        plant(mutant);
        let noticed = catch_unwind(test).is_err();
        plant(Mutant::None);
        missed.extend((!noticed).then_some(mutant));
    }
    assert!(missed.is_empty(), "{missed:?} go unnoticed");
}
