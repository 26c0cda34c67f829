//! Each bug planted in a flow makes some test fail. The bugs are switched on for the whole process,
//! so: cargo test -p core-node --features mutants --lib -- --ignored

use super::*;
use base_types::mutant::{plant, Mutant};
use std::panic::catch_unwind;

#[test]
#[ignore = "plants bugs for the whole process"]
fn every_planted_bug_of_a_flow_is_noticed() {
    let here: [(Mutant, fn()); 29] = [
        (Mutant::RemovedRouteKept, decommission::lone_copies_of_a_removed_node_are_made_elsewhere),
        (Mutant::LeaderForgottenByOthers, routing::a_leader_that_one_member_does_not_hear_is_asked),
        (Mutant::RemovedNodeAwaited, decommission::lone_copies_of_a_removed_node_are_made_elsewhere),
        (Mutant::MapNeverDoubted, routing::a_leader_that_only_the_map_calls_down_is_asked),
        (Mutant::ExpiredIsDone, routing::what_expired_before_its_turn_is_not_done),
        (Mutant::HealthIgnoresQuorum, health::world_without_majority_degrades_every_node),
        (Mutant::OwnReplicaIgnored, alone::own_replica_is_a_route_without_asking),
        (Mutant::StaleRouteIsError, alone::stale_route_costs_a_redirect_without_the_world),
        (Mutant::OldIncarnationServes, incarnation::nodes_of_an_earlier_life_stop_serving),
        (Mutant::NewsOfMembersDropped, decommission::members_that_change_while_they_are_told_are_told_again),
        (Mutant::SessionReadsOlder, sessions::a_session_never_reads_older),
        (Mutant::StrongEndsSession, sessions::a_position_that_is_not_committed_yet_is_waited_for),
        (Mutant::MembersNotCompared, decommission::members_that_changed_before_all_died_are_told),
        (Mutant::MembersForgotten, level_zero::the_first_members_go_one_by_one),
        (Mutant::RemovedMemberStays, level_zero::a_member_that_was_away_while_all_were_replaced_learns_it),
        (Mutant::ShrunkTooLate, decommission::four_nodes_shrink_to_three),
        (Mutant::EndedLifeServes, recover::a_recovered_cluster_serves_and_its_old_members_end),
        (Mutant::LivingMembersOverruled, recover::members_that_are_cut_off_are_not_overruled),
        (Mutant::LaterLifeUnheard, recover_zero::a_world_is_recovered_and_its_old_members_end),
        (Mutant::LostIdsGivenAgain, recover_zero::what_lost_entries_made_is_kept_and_never_given_again),
        (Mutant::WorstSurvivorChosen, recover::the_survivor_with_the_longest_log_is_chosen),
        (Mutant::LostLogIsBlank, lost_logs::a_voter_without_its_log_cannot_undo_an_acknowledged_write),
        (Mutant::OwnerSkipsAccess, access::an_owner_knows_better_than_a_stale_entry),
        (Mutant::StaleDecisionAccepted, access::a_decision_does_not_outlive_a_change),
        (Mutant::GatewayAsksAsNode, access::an_owner_looks_again_at_what_the_gateway_decided),
        (Mutant::ScanBeyondGrant, access::a_scan_ends_where_the_grant_ends),
        (Mutant::RawClusterAllowed, access::a_raw_cluster_is_no_keyspace),
        (Mutant::GiftUnbounded, access::a_security_admin_gives_only_what_it_has),
        (Mutant::VoterMadeBlank, lost_logs::a_voter_that_holds_nothing_is_replaced_under_a_new_id),
    ];
    for (mutant, test) in here {
        assert!(catch_unwind(test).is_ok(), "the test of {mutant:?} fails without a bug");
        plant(mutant);
        let killed = catch_unwind(test).is_err();
        plant(Mutant::None);
        assert!(killed, "{mutant:?} goes unnoticed");
    }
}

/// Bugs that change no answer: what a core keeps of its plans is not what is under way.
#[test]
#[ignore = "plants bugs for the whole process"]
fn planted_bugs_of_plans_break_an_invariant() {
    for mutant in [Mutant::AnsweredCallsOut, Mutant::EndedOrdersKept] {
        let test: fn() = clusters::members_are_added_removed_and_told;
        assert!(catch_unwind(test).is_ok(), "the test of {mutant:?} fails without a bug");
        plant(mutant);
        let found = catch_unwind(test).err();
        plant(Mutant::None);
        let text = found.as_ref().and_then(|payload| payload.downcast_ref::<String>());
        assert!(text.is_some_and(|text| text.starts_with("broken invariant")), "{mutant:?} breaks none: {text:?}");
    }
}
