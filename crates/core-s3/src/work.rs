//! Work of several rounds that is not on a bucket's objects: what went wrong in passing is tried again, from what
//! the rows then say.
//!
//! By design: at most [`TRIES_MAX`] troubles. Not here: what is done.

use crate::state::{PlanContext, S3Planner, S3State};
use base_types::action::Failure;
use core_flow::rounds::{is_passing, pause, InRounds, Rounds};
use core_flow::{CallResult, Step};

/// Failed rounds after which a call gives up; its deadline usually ends it before.
pub(crate) const TRIES_MAX: u32 = 60;

/// Work on rows that is begun anew, from what they say, where something went wrong in passing.
pub(crate) trait Work: Send {
    /// The next round. No answers: at the start and after a pause.
    fn next(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Result<Step, Failure>;
    /// Forgets how far it came.
    fn begin_again(&mut self);
}

/// Makes a planner of such work.
pub(crate) fn planner<W: Work + 'static>(name: &'static str, work: W) -> Box<S3Planner> {
    Box::new(InRounds::new(Again { name, work, tries: 0 }))
}

struct Again<W> {
    name: &'static str,
    work: W,
    tries: u32,
}

impl<W: Work> Rounds<S3State> for Again<W> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn next(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Step {
        let failure = match self.work.next(context, answers) {
            Ok(step) => return step,
            Err(failure) => failure,
        };
        self.tries += 1;
        if !is_passing(&failure) || self.tries > TRIES_MAX {
            return Step::Done(Err(failure));
        }
        self.work.begin_again();
        pause(context, self.tries)
    }
}
