//! Brings the node's copy up to date.
//!
//! Always: what is found is complete up to its epoch: the head is read first, and every row that changed up to it after
//! (`tests::a_copy_catches_up`). A row that changed while others were read is newer than that epoch, and what is decided by it would
//! not hold at its own epoch: the sync continues from what it has, [`ROUNDS_MAX`] times at most (`tests::a_copy_is_no_older_than_its_rows`).
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

/// How often a sync reads on because rows changed meanwhile. More changes in a row than that are the next sync's.
const ROUNDS_MAX: u32 = 4;

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
    /// What earlier rounds have found.
    base: Option<Arc<Directory>>,
    rounds: u32,
}

impl Sync {
    /// Reads the head alone.
    pub fn look() -> Sync {
        Sync { head_only: true, ..Sync::default() }
    }

    fn found(context: &mut PlanContext<'_>, directory: Arc<Directory>) -> Step {
        context.state.found = Some(directory);
        answer(ActionResult::Done, None)
    }

    fn own(&self, context: &PlanContext<'_>) -> Arc<Directory> {
        self.base.as_ref().unwrap_or(&context.state.directory).clone()
    }

    /// All rows of an epoch are there; ones of later epochs may be, too, without what else changed then.
    fn read(&mut self, context: &mut PlanContext<'_>, directory: Directory) -> Result<Step, Failure> {
        let epoch = directory.epoch();
        self.rounds += 1;
        if self.rounds >= ROUNDS_MAX || directory.rows().values().all(|row| row.epoch <= epoch) {
            return Ok(Self::found(context, Arc::new(directory)));
        }
        self.base = Some(Arc::new(directory));
        self.stage = Stage::Head;
        Ok(one(store::read_head()?))
    }

    fn head(&mut self, context: &mut PlanContext<'_>, found: Option<HeadRow>) -> Result<Step, Failure> {
        let own = self.own(context);
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
                    let own = self.own(context).with(epoch, Vec::new());
                    return self.read(context, own);
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
                let own = self.own(context).with(epoch, changes);
                self.read(context, own)
            }
            Stage::All { epoch, mut rows } => {
                let (page, more) = store::rows(only(answers))?;
                let grew = !page.is_empty();
                rows.extend(page);
                if more && grew {
                    return self.all(epoch, rows);
                }
                self.read(context, Directory::new(epoch, rows))
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
