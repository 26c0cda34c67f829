//! Each bug planted in this backend makes some test fail. The bugs are switched on for the whole process,
//! so: cargo test -p core-backends --features mutants --lib -- --ignored --test-threads 1

use super::{history, leases, model, transactions};
use base_types::mutant::{plant, Mutant};
use std::panic::catch_unwind;

/// Each bug with the test that was written for it. The model must notice all of them, too.
const BUGS: [(Mutant, fn()); 10] = [
    (Mutant::HorizonIgnored, history::compaction_refuses_below_and_keeps_its_own_stamp),
    (Mutant::CompactionDropsLive, history::compaction_refuses_below_and_keeps_its_own_stamp),
    (Mutant::PinIgnored, history::pin_keeps_history_until_its_time_is_over),
    (Mutant::HistoryRowTooNew, history::hot_key_does_not_end_a_page_early),
    (Mutant::DeleteNotInHistory, history::deleted_key_is_read_at_earlier_stamps),
    (Mutant::SubRevisionLost, history::changes_come_in_order_whatever_the_page),
    (Mutant::RefreshMissesDelete, transactions::unchanged_range_notices_puts_and_deletes),
    (Mutant::LeaseKeyDeletedTwice, leases::key_of_an_ending_lease_is_deleted_once),
    (Mutant::LeaseKeepsDetached, leases::key_put_without_its_lease_outlives_it),
    (Mutant::RenewalForgotten, leases::renewed_lease_lives_its_time_from_then),
];

#[test]
#[ignore = "plants bugs for the whole process"]
fn every_planted_bug_is_noticed() {
    let tests = BUGS.map(|(_, test)| test);
    assert!(tests.iter().all(|test| catch_unwind(test).is_ok()), "the tests pass without a bug");
    assert!(catch_unwind(model::cluster_does_what_the_model_does).is_ok(), "the model agrees without a bug");
    for (mutant, test) in BUGS {
        plant(mutant);
        let (killed, by_model) =
            (catch_unwind(test).is_err(), catch_unwind(model::cluster_does_what_the_model_does).is_err());
        plant(Mutant::None);
        assert!(killed, "{mutant:?} goes unnoticed by its test");
        assert!(by_model, "{mutant:?} goes unnoticed by the model");
    }
}
