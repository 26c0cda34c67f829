//! Planners that work in rounds: all calls of a round are answered before the next is thought of.
//!
//! Always: `next` gets the answers in the order of the calls; after a wait it gets none (`tests` below; `check_invariants`: no
//! round is over and the next not begun).
//! Not here: what is asked (each planner), retries within a call (the router).

use crate::{Call, CallResult, PlanContext, Planner, Step};
use base_types::action::{ActionResult, Answer, Failure, Response};
use base_types::invariant::Broken;
use base_types::{holds, ErrorCode, OrderedAt, Refusal};
use core::time::Duration;

/// The first pause after a failed round; doubled for each further one up to the second.
const PAUSE_MS_MIN: u64 = 20;
const PAUSE_MS_MAX: u64 = 2_000;

/// Work in rounds, of the family with state `S`.
pub trait Rounds<S = ()>: Send {
    /// For notes and metrics.
    fn name(&self) -> &'static str;
    /// As of a [`Planner`].
    fn subject(&self) -> Option<String> {
        None
    }
    /// The next round, given the answers of the last (none at the start and after a wait).
    fn next(&mut self, context: &mut PlanContext<'_, S>, answers: Vec<CallResult>) -> Step;
    /// As of a [`Planner`].
    ///
    /// # Errors
    /// The first invariant that does not hold.
    fn check_invariants(&self) -> Result<(), Broken> {
        Ok(())
    }
    /// As of a [`Planner`].
    fn cleanup(&mut self) -> Option<Box<dyn Planner<S>>> {
        None
    }
}

/// Makes a planner of work in rounds.
pub struct InRounds<R> {
    pub rounds: R,
    /// The number of the round's first call.
    first: usize,
    answers: Vec<Option<CallResult>>,
}

impl<R> InRounds<R> {
    pub fn new(rounds: R) -> InRounds<R> {
        InRounds { rounds, first: 0, answers: Vec::new() }
    }

    fn turn<S>(&mut self, context: &mut PlanContext<'_, S>, answers: Vec<CallResult>) -> Step
    where
        R: Rounds<S>,
    {
        let step = self.rounds.next(context, answers);
        if let Step::Calls(calls) = &step {
            assert!(!calls.is_empty(), "a round of {} asks nothing and would never end", self.rounds.name());
            self.answers = calls.iter().map(|_| None).collect();
        }
        step
    }
}

impl<S, R: Rounds<S>> Planner<S> for InRounds<R> {
    fn name(&self) -> &'static str {
        self.rounds.name()
    }

    fn subject(&self) -> Option<String> {
        self.rounds.subject()
    }

    fn start(&mut self, context: &mut PlanContext<'_, S>) -> Step {
        self.turn(context, Vec::new())
    }

    fn on_result(&mut self, context: &mut PlanContext<'_, S>, index: usize, result: CallResult) -> Step {
        if let Some(place) = index.checked_sub(self.first).and_then(|at| self.answers.get_mut(at)) {
            *place = Some(result);
        }
        if self.answers.iter().any(Option::is_none) {
            return Step::Calls(Vec::new());
        }
        self.first += self.answers.len();
        let answers = self.answers.drain(..).flatten().collect();
        self.turn(context, answers)
    }

    fn on_wake(&mut self, context: &mut PlanContext<'_, S>) -> Step {
        self.turn(context, Vec::new())
    }

    fn check_invariants(&self) -> Result<(), Broken> {
        let over = !self.answers.is_empty() && self.answers.iter().all(Option::is_some);
        holds!(!over, "all calls of a round of {} are answered, and the next has not begun", self.rounds.name());
        self.rounds.check_invariants()
    }

    fn cleanup(&mut self) -> Option<Box<dyn Planner<S>>> {
        self.rounds.cleanup()
    }
}

/// A jittered pause before try number `tries` (from 1).
pub fn pause<S>(context: &mut PlanContext<'_, S>, tries: u32) -> Step {
    let most = PAUSE_MS_MIN.saturating_mul(1 << tries.min(7)).min(PAUSE_MS_MAX);
    Step::Wait(Duration::from_millis(most / 2 + context.random.below(most / 2 + 1)))
}

/// A round of one call.
pub fn one(call: Call) -> Step {
    Step::Calls(vec![call])
}

/// The end of work that is refused.
pub fn refuse(refusal: Refusal) -> Step {
    Step::Done(Err(Failure::from(refusal)))
}

/// The end of work that went well.
pub fn answer(result: ActionResult, at: Option<OrderedAt>) -> Step {
    Step::Done(respond(result, at))
}

/// The response of work that went well.
pub fn respond(result: ActionResult, at: Option<OrderedAt>) -> Response {
    Ok(Answer { result, at, level: None, cluster: None })
}

/// Whether asking again, unchanged, may help; `Conflict` is not, for it asks to read first.
pub fn is_passing(failure: &Failure) -> bool {
    failure.refusal.kind().retryable()
}

/// The first answer of a round that asked one thing; a round without answers is a bug of the executor.
pub fn only(answers: Vec<CallResult>) -> CallResult {
    answers.into_iter().next().unwrap_or_else(|| {
        Err(Failure::from(Refusal::new(ErrorCode::Internal, "a plan's round ended without an answer")))
    })
}
