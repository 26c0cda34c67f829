//! Commits an edit: one conditional batch on the head row, then a wait for the node's own copy.
//!
//! Always: an edit is computed from a copy of exactly the epoch that the batch expects; who changed something finds it in effect
//! on the node that answered (`tests::an_answer_waits_for_the_copy`).
//! Not here: what changes (edit.rs).

use crate::edit::{self, Edited};
use crate::family::{AccessState, PlanContext};
use crate::store::{self, Head, HeadRow};
use base_types::access::{AccessAction, AccessAnswer, Caller};
use base_types::action::{ActionResult, Failure};
use base_types::{ErrorCode, Refusal};
use core::time::Duration;
use core_flow::rounds::{answer, is_passing, one, only, pause, Rounds};
use core_flow::{Call, CallResult, Step};

/// How often an edit begins again before it is given up.
const TRIES_MAX: u32 = 100;
/// The pause while the node's copy catches up.
const COPY_PAUSE: Duration = Duration::from_millis(10);
/// How often that is waited for: half the time in which every node has the change.
const COPY_WAITS_MAX: u32 = 100;

#[derive(Default)]
enum Stage {
    #[default]
    Begin,
    Head,
    MakeCluster,
    Commit {
        epoch: u64,
        answer: AccessAnswer,
    },
    /// Committed; the node's copy is to have it, too.
    Copy {
        epoch: u64,
        answer: AccessAnswer,
        waits: u32,
    },
}

pub(crate) struct Change {
    call: AccessAction,
    by: Caller,
    rule: String,
    stage: Stage,
    tries: u32,
}

impl Change {
    pub fn new(call: AccessAction, by: Caller, rule: String) -> Change {
        Change { call, by, rule, stage: Stage::Begin, tries: 0 }
    }

    /// The copy is not the head's, or something passes.
    fn again(&mut self, context: &mut PlanContext<'_>, why: impl FnOnce() -> Failure) -> Step {
        self.tries += 1;
        self.stage = Stage::Begin;
        context.state.wanted = true;
        if self.tries > TRIES_MAX {
            return Step::Done(Err(why()));
        }
        pause(context, self.tries.min(3))
    }

    fn head(&mut self, context: &mut PlanContext<'_>, result: CallResult) -> Result<Step, Failure> {
        let Some(found) = store::head(result)? else {
            self.stage = Stage::MakeCluster;
            return Ok(one(Call::CreateCluster { cluster: store::cluster()?, rule: self.rule.clone() }));
        };
        let directory = context.state.directory.clone();
        if directory.epoch() != found.head.epoch {
            return Ok(self.again(context, || busy("this node's copy of the directory does not catch up").into()));
        }
        self.edit(context, found)
    }

    fn edit(&mut self, context: &mut PlanContext<'_>, found: HeadRow) -> Result<Step, Failure> {
        let directory = context.state.directory.clone();
        let Edited { changes, answer, floor } =
            edit::edit(&self.call, &directory, &self.by, context.unix_ms, context.random)?;
        let epoch = found.head.epoch + 1;
        if changes.is_empty() {
            return Ok(done(answer));
        }
        let next = Head { epoch, floor: found.head.floor.max(floor) };
        let call = store::commit(&found, next, &changes)?;
        self.stage = Stage::Commit { epoch, answer };
        Ok(one(call))
    }

    fn wait_for_copy(&mut self, context: &mut PlanContext<'_>, epoch: u64, answer: AccessAnswer, waits: u32) -> Step {
        if context.state.directory.epoch() >= epoch || waits >= COPY_WAITS_MAX {
            return done(answer);
        }
        context.state.wanted = true;
        self.stage = Stage::Copy { epoch, answer, waits: waits + 1 };
        Step::Wait(COPY_PAUSE)
    }

    fn turn(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Result<Step, Failure> {
        match core::mem::take(&mut self.stage) {
            Stage::Begin => {
                self.stage = Stage::Head;
                Ok(one(store::read_head()?))
            }
            Stage::Head => self.head(context, only(answers)),
            Stage::MakeCluster => match only(answers) {
                Err(failure) if failure.refusal.code != ErrorCode::ClusterExists && !is_passing(&failure) => {
                    Err(failure)
                }
                Err(failure) => Ok(self.again(context, || failure)),
                Ok(_) => {
                    self.stage = Stage::Head;
                    Ok(one(store::read_head()?))
                }
            },
            Stage::Commit { epoch, answer } => match store::committed(only(answers))? {
                true => Ok(self.wait_for_copy(context, epoch, answer, 0)),
                false => Ok(self.again(context, || busy("others change the directory all the time").into())),
            },
            Stage::Copy { epoch, answer, waits } => Ok(self.wait_for_copy(context, epoch, answer, waits)),
        }
    }
}

fn busy(why: &str) -> Refusal {
    Refusal::new(ErrorCode::Conflict, format!("{why}: nothing was changed; retry"))
}

fn done(found: AccessAnswer) -> Step {
    answer(ActionResult::Access(found), None)
}

impl Rounds<AccessState> for Change {
    fn name(&self) -> &'static str {
        self.call.name()
    }

    fn next(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Step {
        self.turn(context, answers).unwrap_or_else(|failure| Step::Done(Err(failure)))
    }
}
