//! Each bug planted in this crate makes some test fail. The bugs are switched on for the whole process,
//! so: cargo test -p core-log --features mutants -- --ignored

use super::*;
use base_types::mutant::{plant, Mutant};
use std::panic::catch_unwind;

/// Whether one of the tests fails.
fn noticed(tests: &[fn()]) -> bool {
    tests.iter().any(|test| catch_unwind(test).is_err())
}

#[test]
#[ignore = "plants bugs for the whole process"]
fn every_planted_bug_is_noticed() {
    let tests: [fn(); 9] = [
        damage::a_rotted_payload_is_a_hole_with_its_term_and_can_be_filled,
        damage::a_misdirected_write_is_seen_at_both_ends,
        damage::rot_of_the_last_batch_is_no_torn_tail,
        damage::a_torn_tail_is_cut_and_the_log_goes_on_after_it,
        damage::what_was_cut_off_never_comes_back,
        basics::a_failed_write_ends_everything,
        tails::an_earlier_life_of_a_segment_is_never_read,
        tails::idle_clusters_do_not_keep_old_segments,
        model::what_comes_back_is_the_model_at_some_batch_not_before_the_last_synced,
    ];
    assert!(!noticed(&tests), "the tests pass without a bug");
    let here = [
        Mutant::TornIsRot,
        Mutant::RotIsTorn,
        Mutant::LastRotIsTorn,
        Mutant::TornPlaceReused,
        Mutant::SkipChecksum,
        Mutant::IdentityNotChecked,
        Mutant::RecycledSegmentTrusted,
        Mutant::FailedSyncRetried,
        Mutant::LiveTailLost,
        Mutant::TruncateKeepsSuffix,
    ];
    for mutant in here {
        plant(mutant);
        let killed = noticed(&tests);
        plant(Mutant::None);
        assert!(killed, "{mutant:?} goes unnoticed");
    }
}
