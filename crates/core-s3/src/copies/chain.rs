//! Two planners, one after the other: the second is made of what the first answered.
//!
//! By design: calls are numbered over both; the first has none out when it ends (planners in rounds).

use crate::state::{PlanContext, S3Planner, S3State};
use base_types::action::Failure;
use base_types::s3::S3Answer;
use core_flow::{CallResult, Planner, Step};

/// What is to be done with the first's answer.
pub(crate) type Then = Box<dyn FnOnce(S3Answer) -> Result<Box<S3Planner>, Failure> + Send>;

/// The two.
pub(crate) struct Chain {
    name: &'static str,
    planner: Box<S3Planner>,
    then: Option<Then>,
    /// Calls asked for by both; by the first alone.
    asked: usize,
    before: usize,
}

/// Does one thing and then the next.
pub(crate) fn chain(name: &'static str, first: Box<S3Planner>, then: Then) -> Box<S3Planner> {
    Box::new(Chain { name, planner: first, then: Some(then), asked: 0, before: 0 })
}

impl Chain {
    fn on_step(&mut self, context: &mut PlanContext<'_>, step: Step) -> Step {
        let step = match (step, self.then.take()) {
            (Step::Done(Ok(answer)), Some(then)) => self.start_next(context, answer, then),
            (step @ Step::Done(_), _) => step,
            (step, then) => {
                self.then = then;
                step
            }
        };
        if let Step::Calls(calls) = &step {
            self.asked += calls.len();
        }
        step
    }

    fn start_next(&mut self, context: &mut PlanContext<'_>, answer: base_types::action::Answer, then: Then) -> Step {
        let base_types::action::ActionResult::S3(answer) = answer.result else {
            return Step::Done(Err(core_flow::failures::internal("a call of S3 was answered otherwise")));
        };
        match then(answer) {
            Ok(planner) => {
                self.planner = planner;
                self.before = self.asked;
                self.planner.start(context)
            }
            Err(failure) => Step::Done(Err(failure)),
        }
    }
}

impl Planner<S3State> for Chain {
    fn name(&self) -> &'static str {
        self.name
    }

    fn start(&mut self, context: &mut PlanContext<'_>) -> Step {
        let step = self.planner.start(context);
        self.on_step(context, step)
    }

    fn on_result(&mut self, context: &mut PlanContext<'_>, index: usize, result: CallResult) -> Step {
        let step = self.planner.on_result(context, index.saturating_sub(self.before), result);
        self.on_step(context, step)
    }

    fn on_wake(&mut self, context: &mut PlanContext<'_>) -> Step {
        let step = self.planner.on_wake(context);
        self.on_step(context, step)
    }

    fn check_invariants(&self) -> Result<(), base_types::invariant::Broken> {
        self.planner.check_invariants()
    }

    /// Of the one that ran last: what the first did, the second is made of.
    fn cleanup(&mut self) -> Option<Box<S3Planner>> {
        self.planner.cleanup()
    }
}
