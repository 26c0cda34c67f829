//! Calls that are meant for the bucket of one account, and are refused when another account has its name by then.
//!
//! ```text
//!   door: may this caller touch bucket b of account a? ──▶ body comes, for hours ──▶ core: b, if it is still a's
//! ```
//!
//! Always: checked where the bucket's record is handed to the work (with_bucket.rs), again in every round; a copy's source
//! may be anyone's.
//! Held by: `what_was_meant_for_the_bucket_of_one_account_never_reaches_another_s`.
//! Not here: who may (door-s3); the removal of a bucket, which has a check of its own (delete.rs).

use crate::state::{PlanContext, S3Planner, S3State};
use core_flow::{CallResult, Planner, Step};
use std::sync::Arc;

/// A planner whose buckets must be of one account, or may be of any.
struct OwnerCheck {
    planner: Box<S3Planner>,
    owner: Option<Arc<str>>,
}

/// As the planner, on a bucket of this account alone where one is named.
pub fn check_owner(planner: Box<S3Planner>, owner: Option<String>) -> Box<S3Planner> {
    match owner {
        Some(owner) => Box::new(OwnerCheck { planner, owner: Some(owner.into()) }),
        None => planner,
    }
}

/// As the planner, on anyone's bucket, whatever the call around it expects.
pub(crate) fn of_anyone(planner: Box<S3Planner>) -> Box<S3Planner> {
    Box::new(OwnerCheck { planner, owner: None })
}

impl OwnerCheck {
    fn enter(
        &mut self,
        context: &mut PlanContext<'_>,
        enter: impl FnOnce(&mut S3Planner, &mut PlanContext<'_>) -> Step,
    ) -> Step {
        let around = core::mem::replace(&mut context.state.expected_owner, self.owner.clone());
        let step = enter(self.planner.as_mut(), context);
        context.state.expected_owner = around;
        step
    }
}

impl Planner<S3State> for OwnerCheck {
    fn name(&self) -> &'static str {
        self.planner.name()
    }

    fn start(&mut self, context: &mut PlanContext<'_>) -> Step {
        self.enter(context, |planner, context| planner.start(context))
    }

    fn on_result(&mut self, context: &mut PlanContext<'_>, index: usize, result: CallResult) -> Step {
        self.enter(context, |planner, context| planner.on_result(context, index, result))
    }

    fn on_wake(&mut self, context: &mut PlanContext<'_>) -> Step {
        self.enter(context, |planner, context| planner.on_wake(context))
    }

    fn check_invariants(&self) -> Result<(), base_types::invariant::Broken> {
        self.planner.check_invariants()
    }

    fn cleanup(&mut self) -> Option<Box<S3Planner>> {
        self.planner.cleanup()
    }
}
