//! Each bug planted in this backend, and in `versioned`, makes some test fail. The bugs are switched on for the whole process,
//! so: cargo test -p core-backends --features mutants -- --ignored

use super::{listing, model, narrow, objects, snapshot, split};
use crate::{metadata::tests as metadata, redis::tests as redis, shard_reference::tests as shard_reference};
use base_types::mutant::{plant, Mutant};
use std::panic::catch_unwind;
use std::sync::Mutex;

/// One bug at a time.
static PLANTED: Mutex<()> = Mutex::new(());

/// Whether one of the tests fails.
fn noticed(tests: &[fn()]) -> bool {
    tests.iter().any(|test| catch_unwind(test).is_err())
}

#[test]
#[ignore = "plants bugs for the whole process"]
fn every_planted_bug_is_noticed() {
    let _alone = PLANTED.lock().unwrap_or_else(|held| held.into_inner());
    let tests: [fn(); 22] = [
        split::stale_epochs_and_foreign_keys_are_redirected,
        split::a_cut_over_before_all_is_equal_is_refused,
        objects::a_marker_is_told_apart_from_nothing,
        objects::each_of_many_deletes_is_done_once_in_any_company,
        snapshot::each_kind_of_change_is_undone,
        crate::memory::tests::whoever_has_the_key_hears_of_the_request,
        objects::a_put_is_held_to_its_bounds_by_what_is_there_at_that_command,
        objects::what_nothing_names_any_more_is_queued_by_what_frees_it,
        listing::pages_with_a_delimiter_go_on_where_they_ended,
        split::a_split_at_any_point_loses_and_doubles_nothing,
        split::a_write_of_many_rows_is_doubled_whole,
        model::a_bucket_that_never_had_versions,
        model::a_bucket_with_versions_on_and_off,
        split::tokens_stamps_and_freed_data_outlive_a_split,
        split::an_import_that_comes_late_brings_nothing_back,
        snapshot::writes_wait_between_the_halves_and_a_late_one_ends_the_snapshot,
        objects::only_an_empty_shard_closes_and_it_can_open_again,
        narrow::a_narrowed_shard_keeps_its_keys_and_takes_none_behind,
        narrow::snapshots_outlive_a_narrowing_and_half_made_ones_do_not,
        crate::shard_reference::tests::a_narrowed_shard_and_its_tail_are_what_it_was,
        crate::shard_reference::tests::flows_come_to_their_end_whatever_their_runners_do,
        crate::bucket_names::tests::no_name_is_owned_twice_or_stuck,
    ];
    assert!(!noticed(&tests), "the tests pass without a bug");
    let here = [
        Mutant::DoubledWriteLost,
        Mutant::FeedForgetsRows,
        Mutant::SumKeepsOldRow,
        Mutant::DeletesOfManyForgotten,
        Mutant::CutOverBeforeEqual,
        Mutant::ShardStaleEpochAccepted,
        Mutant::GivenAwayTaken,
        Mutant::CountIgnoresOverwrite,
        Mutant::QuotaPassedAtOnce,
        Mutant::LongKeysTakenForWhole,
        Mutant::PrefixSkipEatsKey,
        Mutant::MarkerHidesWrongVersion,
        Mutant::SnapshotSeesLater,
        Mutant::FreedDataLost,
        Mutant::PinCommitsPastWrite,
        Mutant::OnceTokenLeftBehind,
        Mutant::ListSkipsBoundary,
        Mutant::StampFloorForgotten,
        Mutant::CloseIgnoresVersions,
        Mutant::FreedDroppedWithShard,
        Mutant::ReservationNeverReleased,
        Mutant::ImportNotCompared,
        Mutant::NarrowForgetsImported,
        Mutant::NarrowCutsGreatestKey,
        Mutant::NarrowKeepsHalfPins,
    ];
    for mutant in here {
        plant(mutant);
        let killed = noticed(&tests);
        plant(Mutant::None);
        assert!(killed, "{mutant:?} goes unnoticed");
    }
    crate::versioned::tests::mutants::hunt();
}

/// Bugs that change no answer for a long while: what a backend counts is not what it has. Each breaks an invariant.
#[test]
#[ignore = "plants bugs for the whole process"]
fn broken_counts_break_an_invariant() {
    let _alone = PLANTED.lock().unwrap_or_else(|held| held.into_inner());
    let here: [(Mutant, fn()); 6] = [
        (Mutant::MissingKeyCounted, metadata::counts_are_exact_whatever_a_moving_partition_takes),
        (Mutant::ChangeListedTwice, metadata::counts_are_exact_whatever_a_moving_partition_takes),
        (Mutant::ExpiringCounted, redis::a_key_that_stays_is_not_among_those_that_expire),
        (Mutant::SweptHistoryCounted, snapshot::an_idle_shard_is_swept_by_command),
        (Mutant::TopNodesCounted, model::a_bucket_that_never_had_versions),
        (Mutant::FlowsCounted, shard_reference::flows_come_to_their_end_whatever_their_runners_do),
    ];
    for (mutant, test) in here {
        assert!(catch_unwind(test).is_ok(), "the test of {mutant:?} fails without a bug");
        plant(mutant);
        let found = catch_unwind(test).err();
        plant(Mutant::None);
        let text = found.as_ref().and_then(|payload| payload.downcast_ref::<String>());
        assert!(text.is_some_and(|text| text.starts_with("broken invariant")), "{mutant:?} breaks none: {text:?}");
    }
}
