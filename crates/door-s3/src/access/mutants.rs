//! The bug planted in decisions makes a test fail. It is switched on for the whole process, so:
//! cargo test -p door-s3 --features mutants --lib -- --ignored

use super::tests;
use base_types::mutant::{plant, Mutant};
use std::panic::catch_unwind;

#[test]
#[ignore = "plants bugs for the whole process"]
fn every_planted_bug_is_noticed() {
    let test: fn() = tests::a_sessions_policy_bounds_every_reason;
    assert!(catch_unwind(test).is_ok(), "the test fails without a bug");
    plant(Mutant::SessionPolicyDropped);
    let killed = catch_unwind(test).is_err();
    plant(Mutant::None);
    assert!(killed, "SessionPolicyDropped goes unnoticed");
}
