//! Each bug planted in this backend makes its own test fail, and the model.
//!
//! Not here: who runs it (shard/tests/mutants.rs).

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

/// Plants each. Part of the one hunt of this crate, because bugs are planted for the whole process.
pub fn hunt() {
    let fails = |test: &dyn Fn()| catch_unwind(std::panic::AssertUnwindSafe(test)).is_err();
    let by_model = || model::agrees(0);
    assert!(BUGS.iter().all(|(_, test)| !fails(test)), "the tests pass without a bug");
    assert!(!fails(&by_model), "the model agrees without a bug");
    for (mutant, test) in BUGS {
        plant(mutant);
        let (by_test, by_model) = (fails(&test), fails(&by_model));
        plant(Mutant::None);
        assert!(by_test, "{mutant:?} goes unnoticed by its test");
        assert!(by_model, "{mutant:?} goes unnoticed by the model");
    }
}
