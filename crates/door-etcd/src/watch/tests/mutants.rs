//! Each bug planted in watches makes a test fail. The bugs are switched on for the whole process, so:
//! cargo test -p door-etcd --features mutants --lib -- --ignored
//!
//! Not here: bugs of what is watched (core-backends, core-cluster).

use super::{catch_up, messages, model};
use crate::watch::shared;
use base_types::mutant::{plant, Mutant};
use std::panic::catch_unwind;

/// Each bug with the tests of which one must notice it.
const BUGS: [(Mutant, fn()); 9] = [
    (Mutant::WatchStartSkipped, messages::start_below_what_was_compacted_is_created_and_cancelled),
    (Mutant::WatchStallForgets, catch_up::stalled_watcher_is_taken_off_and_misses_nothing),
    (Mutant::WatchRevisionSplit, messages::events_of_one_revision_come_in_one_message),
    (Mutant::WatchProgressEarly, messages::progress_covers_all_watches_and_all_sent_before),
    (Mutant::WatchNowAtReplica, messages::watch_from_now_waits_for_a_lagging_replica),
    (Mutant::WatchCompactionUnheard, catch_up::stalled_watcher_whose_history_was_compacted_is_cancelled),
    (Mutant::WatchFormerValuesMissing, messages::filters_and_previous_values_are_the_watchs_own),
    (Mutant::WatchSharedPageSkips, shared::tests::page_serves_positions_between_its_ends),
    (Mutant::WatchDeniedStays, messages::sessions_without_the_right_are_refused_and_later_ended),
];

#[test]
#[ignore = "plants bugs for the whole process"]
fn every_planted_bug_is_noticed() {
    for (mutant, test) in BUGS {
        assert!(catch_unwind(test).is_ok(), "the test fails without {mutant:?}");
        plant(mutant);
        let (by_test, by_model) = (catch_unwind(test).is_err(), catch_unwind(model::agrees).is_err());
        plant(Mutant::None);
        println!("{mutant:?}: by its test {by_test}, by the model {by_model}");
        assert!(by_test, "{mutant:?} goes unnoticed");
    }
}
