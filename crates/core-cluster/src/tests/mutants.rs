//! Planted bugs that the simulator has no story for: each makes a test of this crate fail. They are switched on for the
//! whole process, so: cargo test -p core-cluster --features mutants --lib -- --ignored
//!
//! Not here: the other bugs of this crate (proof-sim hunts them).

use base_types::mutant::{plant, Mutant};
use std::panic::catch_unwind;
use std::sync::Mutex;

/// One bug at a time.
static PLANTED: Mutex<()> = Mutex::new(());

#[test]
#[ignore = "plants bugs for the whole process"]
fn every_planted_bug_is_noticed() {
    let _alone = PLANTED.lock().unwrap_or_else(|held| held.into_inner());
    use super::{
        basics, clocks, contradiction, crashes, ends, leader_handoff, members, quarantine, recovery, request_ids,
        value_repair, versioned,
    };
    use crate::storage::engine_jobs::tests as flush;
    let here: [(Mutant, fn()); 35] = [
        (Mutant::HashNeverCompared, contradiction::a_follower_that_applies_otherwise_gives_way),
        (Mutant::HashNeverCompared, contradiction::a_row_that_rots_under_its_seal_is_found_unasked),
        (Mutant::ContradictionIgnored, contradiction::a_member_with_more_than_its_leader_gives_way),
        (Mutant::SnapshotAfterLeading, crashes::a_snapshot_due_when_leadership_goes_is_not_begun),
        (Mutant::AbsenceUnsealed, value_repair::a_key_that_a_flipped_bit_took_is_never_told_absent),
        (Mutant::LeaseFromAnswer, clocks::a_lease_runs_from_when_its_round_was_asked_for),
        (Mutant::LeaseTrustedOverHold, clocks::a_leader_without_leases_reads_nothing_old_after_a_hold),
        (Mutant::StalledLeaderStays, clocks::a_leader_with_a_stalled_disk_hands_over_within_two_elections),
        (Mutant::StallCountsPauses, clocks::a_process_that_was_stopped_does_not_blame_its_disk),
        (Mutant::QuarantineServes, quarantine::a_poisoned_entry_stops_its_own_group_only),
        (Mutant::SkipNotReplicated, quarantine::a_quarantine_outlives_restarts_and_ends_by_a_skip),
        (Mutant::FlushWaitsForDrops, flush::a_flush_passes_spaces_being_dropped),
        (Mutant::RequestIdForgottenEarly, request_ids::a_clients_id_outlives_the_deadline),
        (Mutant::ExpiredIdApplied, request_ids::an_issued_id_is_applied_once_or_refused),
        (Mutant::QuorumGuardAssumes, members::a_removal_beside_a_silent_death_is_refused),
        (Mutant::LostHeardOnce, members::a_damaged_member_of_a_quiet_trio_gives_way),
        (Mutant::DropsOvertakeWrites, flush::a_drop_never_overtakes_an_older_write),
        (Mutant::EndedLifeServes, recovery::a_survivor_goes_on_alone_and_old_members_end),
        (Mutant::LifeNotRaised, recovery::a_survivor_goes_on_alone_and_old_members_end),
        (Mutant::WorstSurvivorChosen, recovery::nothing_a_survivor_of_the_majority_holds_is_lost),
        (Mutant::RottenSurvivorTrusted, recovery::sound_rows_outlive_a_rotten_survivor),
        (Mutant::LifeOfEntriesForgotten, recovery::ids_of_the_life_before_hold_for_its_entries),
        (Mutant::OldMembersComeBack, recovery::members_of_the_log_s_end_stay_outside),
        (Mutant::EndedDataGivesWay, recovery::ended_data_is_kept_until_it_is_discarded),
        (Mutant::ParkedReadForgotten, versioned::change_answers_reads_kept_by_every_member),
        (Mutant::ParkedReadSkipsChange, versioned::first_commit_after_a_read_was_kept_is_given),
        (Mutant::LeaderNeverExpires, versioned::lease_ends_by_itself_and_not_before_its_time),
        (Mutant::LeaseEndsEarly, versioned::lease_ends_by_itself_and_not_before_its_time),
        (Mutant::TakeoverRenewsNothing, versioned::new_leader_gives_a_short_lease_its_time_again),
        (Mutant::UpkeepSleeps, versioned::lease_of_a_quiet_cluster_ends_in_time),
        (Mutant::JoiningNotCounted, basics::a_members_place_goes_to_another_node_beside_a_dead_member),
        (Mutant::GarbageStays, versioned::garbage_goes_without_commits_and_the_cluster_falls_quiet),
        (Mutant::RedisEndUnstamped, ends::key_that_was_seen_to_expire_stays_gone),
        (Mutant::DrainIgnored, leader_handoff::a_drained_node_leads_nothing_where_others_can),
        (Mutant::BlankReplicaVotes, basics::a_blank_replica_of_a_voters_id_elects_nobody),
    ];
    for (mutant, test) in here {
        assert!(catch_unwind(test).is_ok(), "the test for {mutant:?} passes without a bug");
        plant(mutant);
        let noticed = catch_unwind(test).is_err();
        plant(Mutant::None);
        assert!(noticed, "{mutant:?} goes unnoticed");
    }
}

/// Seeds of the random walk that a broken count may live through.
const WALKS: u64 = 200;

#[test]
#[ignore = "plants bugs for the whole process"]
fn broken_counts_break_an_invariant() {
    let _alone = PLANTED.lock().unwrap_or_else(|held| held.into_inner());
    let here = [
        Mutant::TruncatedBytesCounted,
        Mutant::StagedDeadCounted,
        Mutant::FlushedCounted,
        Mutant::RemovedOverlayCounted,
        Mutant::DirtyForgotten,
        Mutant::SendersCounted,
        Mutant::AnsweredWritesCounted,
        Mutant::RepliesCounted,
        Mutant::ExpiredIdsCounted,
        Mutant::AbsoluteWaitsKept,
    ];
    let mut unnoticed = Vec::new();
    for mutant in here {
        plant(mutant);
        let found = (0..WALKS).find_map(|seed| catch_unwind(|| super::walk::walk_once(seed)).err());
        plant(Mutant::None);
        let text = found.as_ref().and_then(|payload| payload.downcast_ref::<String>());
        match text.filter(|text| text.starts_with("broken invariant")) {
            Some(text) => eprintln!("{mutant:?}: {text}"),
            None => unnoticed.push((mutant, text.cloned())),
        }
    }
    assert!(unnoticed.is_empty(), "no invariant notices {unnoticed:?}");
}
