//! Brings the node's copy up to date.
//!
//! Always: what is found is complete up to its epoch: the head is read first, and every row that changed up to it after
//! (`tests::a_copy_catches_up`). A row that changed while others were read may be newer than that epoch, and what is decided by it
//! would not hold at the copy's own: the copy counts all the same, for it is newer than the one before, and another sync follows at once
//! ([`AccessState::overtaken`]; `tests::a_copy_that_rows_overtook_is_followed_by_another`).
//! Not here: when this runs (core-node).

use crate::family::{AccessState, PlanContext};
use crate::store::{self, HeadRow};
use base_access::{Directory, Row, RowName};
use base_types::action::{ActionResult, Failure};
use core_flow::rounds::{answer, one, only, Rounds};
use core_flow::{CallResult, Step};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Changed rows that are read one by one; with more, all rows are read.
const CHANGES_MAX: usize = 256;

#[derive(Default)]
enum Stage {
    #[default]
    Begin,
    Head,
    Changes {
        epoch: u64,
    },
    Rows {
        epoch: u64,
        names: Vec<RowName>,
    },
    All {
        epoch: u64,
        rows: BTreeMap<RowName, Row>,
    },
}

#[derive(Default)]
pub(crate) struct Sync {
    stage: Stage,
    /// It ends with the head, and only says whether the copy is behind.
    head_only: bool,
}

impl Sync {
    /// Reads the head alone.
    pub fn look() -> Sync {
        Sync { stage: Stage::Begin, head_only: true }
    }

    fn found(context: &mut PlanContext<'_>, directory: Arc<Directory>) -> Step {
        context.state.found = Some(directory);
        answer(ActionResult::Done, None)
    }

    /// All rows up to its epoch are there; some may be of later ones.
    fn read(context: &mut PlanContext<'_>, directory: Directory) -> Step {
        let epoch = directory.epoch();
        context.state.overtaken = directory.rows().values().any(|row| row.epoch > epoch);
        Self::found(context, Arc::new(directory))
    }

    fn head(&mut self, context: &mut PlanContext<'_>, found: Option<HeadRow>) -> Result<Step, Failure> {
        let own = context.state.directory.clone();
        // Without a cluster there is no directory: nobody has ever been let in.
        let head = found.unwrap_or_default().head;
        if head.epoch == own.epoch() {
            return Ok(Self::found(context, own));
        }
        if self.head_only {
            context.state.behind = true;
            return Ok(answer(ActionResult::Done, None));
        }
        // An epoch that is gone back is another world's, reborn: nothing of the copy counts.
        let catches_up = own.epoch() > 0 && own.epoch() >= head.floor && head.epoch > own.epoch();
        if catches_up {
            self.stage = Stage::Changes { epoch: head.epoch };
            return Ok(one(store::scan_changes(own.epoch())?));
        }
        self.all(head.epoch, BTreeMap::new())
    }

    fn all(&mut self, epoch: u64, rows: BTreeMap<RowName, Row>) -> Result<Step, Failure> {
        let call = store::scan_rows(rows.last_key_value().map(|(name, _)| name.as_str()))?;
        self.stage = Stage::All { epoch, rows };
        Ok(one(call))
    }

    fn turn(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Result<Step, Failure> {
        match core::mem::take(&mut self.stage) {
            Stage::Begin => {
                self.stage = Stage::Head;
                Ok(one(store::read_head()?))
            }
            Stage::Head => self.head(context, store::head(only(answers))?),
            Stage::Changes { epoch } => {
                let (names, more) = store::changes(only(answers))?;
                if more || names.len() > CHANGES_MAX {
                    return self.all(epoch, BTreeMap::new());
                }
                if names.is_empty() {
                    let own = context.state.directory.with(epoch, Vec::new());
                    return Ok(Self::read(context, own));
                }
                let calls = names.iter().map(|name| store::read_row(name)).collect::<Result<_, _>>()?;
                self.stage = Stage::Rows { epoch, names };
                Ok(Step::Calls(calls))
            }
            Stage::Rows { epoch, names } => {
                let mut changes = Vec::with_capacity(names.len());
                for (name, answer) in names.into_iter().zip(answers) {
                    changes.extend(store::row(answer)?.map(|row| (name, row)));
                }
                let own = context.state.directory.with(epoch, changes);
                Ok(Self::read(context, own))
            }
            Stage::All { epoch, mut rows } => {
                let (page, more) = store::rows(only(answers))?;
                let grew = !page.is_empty();
                rows.extend(page);
                if more && grew {
                    return self.all(epoch, rows);
                }
                Ok(Self::read(context, Directory::new(epoch, rows)))
            }
        }
    }
}

impl Rounds<AccessState> for Sync {
    fn name(&self) -> &'static str {
        "SyncDirectory"
    }

    fn next(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Step {
        self.turn(context, answers).unwrap_or_else(|failure| Step::Done(Err(failure)))
    }
}
