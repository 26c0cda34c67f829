//! What creators and removers of buckets left behind is finished or taken back, by lane zero of the node that leads
//! the world.
//!
//! ```text
//!   note ─▶ entry ─┬─ Creating, Undoing, Deleting ─▶ the ending (bucket_resolve.rs)
//!                  ├─ Active ─▶ reopened, if it was being removed ─▶ note gone
//!                  └─ none, or another bucket's ─▶ clusters of this id dropped ─▶ note gone
//! ```
//!
//! Always: what may still be somebody's is left alone: an entry must have been the same for [`SWEEP_AFTER_MS`] as
//! seen here, which is longer than any request lives. Where the clock stands does not matter. A note goes only when
//! nothing of its bucket is left that could be found by it.
//! Held by: `what_is_under_way_is_left_alone_by_the_sweep`.
//! Not here: when it runs (core-node, flow_recovery.rs).

use crate::accounts::directory::{self, WorkRow, WORK_PREFIX};
use crate::accounts::entries::{self, EntryDocument};
use crate::buckets::bucket_resolve::{Elapsed, Ending, Progress};
use crate::buckets::delete::Reopening;
use crate::state::{PlanContext, S3Planner, S3State};
use base_types::action::{ActionResult, Failure};
use bytes::Bytes;
use core_backends::bucket_names::{EntryState, SWEEP_AFTER_MS};
use core_flow::rounds::{answer, one, only, InRounds, Rounds};
use core_flow::{CallResult, Step};
use std::collections::VecDeque;

/// Notes that one sweep looks at. The next sweep continues after them.
const NOTES_MAX: u32 = 128;

/// The planner of one sweep.
pub fn sweep_buckets() -> Box<S3Planner> {
    Box::new(InRounds::new(Sweep { notes: VecDeque::new(), stage: Stage::Scan(None) }))
}

enum Stage {
    /// Behind a note.
    Scan(Option<Bytes>),
    Entry,
    Ending(Box<Ending>, u64),
    /// Clusters of a bucket that has no entry are being dropped.
    Drop(Box<Ending>, u64),
    Reopen(Box<Reopening>),
    Remove,
}

struct Sweep {
    notes: VecDeque<(Bytes, WorkRow)>,
    stage: Stage,
}

impl Rounds<S3State> for Sweep {
    fn name(&self) -> &'static str {
        "sweep buckets"
    }

    fn next(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Step {
        if answers.is_empty() {
            let behind = context.state.sweep.behind.take();
            let call = directory::scan_behind(WORK_PREFIX, behind.as_ref(), NOTES_MAX);
            self.stage = Stage::Scan(behind);
            return call.map_or_else(|_| answer(ActionResult::Done, None), one);
        }
        match self.turn(context, answers) {
            Ok(Some(step)) => step,
            // Done with this one, or it cannot be done now: the next sweep looks again.
            Ok(None) | Err(_) => {
                self.notes.pop_front();
                self.begin_note()
            }
        }
    }
}

impl Sweep {
    fn begin_note(&mut self) -> Step {
        while let Some((_, note)) = self.notes.front() {
            self.stage = Stage::Entry;
            match entries::get(&note.account, &note.bucket) {
                Ok(call) => return one(call),
                Err(_) => self.notes.pop_front(),
            };
        }
        answer(ActionResult::Done, None)
    }

    /// The next round on the first note; `None`: there is nothing more to do for it now.
    fn turn(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Result<Option<Step>, Failure> {
        match core::mem::replace(&mut self.stage, Stage::Entry) {
            Stage::Scan(behind) => {
                let (page, more) = directory::scanned(only(answers))?;
                context.state.sweep.keep(behind.as_ref(), &page, more);
                context.state.sweep.behind = page.last().filter(|_| more).map(|(key, _)| key.clone());
                let read = |(key, body): (Bytes, Bytes)| Some((key, directory::row(&body).ok()?));
                self.notes = page.into_iter().filter_map(read).collect();
                Ok(Some(self.begin_note()))
            }
            Stage::Entry => self.found(context, entries::got(only(answers))?),
            Stage::Ending(mut ending, millis) => {
                let progress = ending.next(context, answers)?;
                self.ended(ending, millis, progress)
            }
            Stage::Drop(mut ending, millis) => {
                let calls = ending.view()?;
                self.stage = Stage::Ending(ending, millis);
                Ok(Some(Step::Calls(calls)))
            }
            Stage::Reopen(mut reopening) => match reopening.next(context, answers)? {
                Some(step) => {
                    self.stage = Stage::Reopen(reopening);
                    Ok(Some(step))
                }
                None => self.remove(),
            },
            Stage::Remove => Ok(None),
        }
    }

    fn found(
        &mut self,
        context: &mut PlanContext<'_>,
        found: Option<(u64, EntryDocument)>,
    ) -> Result<Option<Step>, Failure> {
        let Some((key, note)) = self.notes.front() else { return Ok(None) };
        let claim = note.claim();
        let own = found.filter(|(_, entry)| entry.id() == claim.id);
        let version = own.as_ref().map_or(0, |(version, _)| *version);
        let millis = context.state.sweep.since(key, version, context.now);
        let state = own.as_ref().map(|(_, entry)| entry.state());
        match state {
            Some(EntryState::Undoing | EntryState::Deleting) => {}
            _ if millis < SWEEP_AFTER_MS => return Ok(None),
            Some(EntryState::Active) => {
                let closing = context.random.next().max(1);
                let mut reopening = Reopening::new(claim, closing, true);
                let step = reopening.next(context, Vec::new())?;
                self.stage = Stage::Reopen(Box::new(reopening));
                return Ok(step);
            }
            Some(EntryState::Creating) | None => {}
        }
        let mut ending = Ending::new(claim, Elapsed::Seen { version, millis });
        let calls = ending.view()?;
        self.stage = Stage::Ending(Box::new(ending), millis);
        Ok(Some(Step::Calls(calls)))
    }

    fn ended(&mut self, ending: Box<Ending>, millis: u64, progress: Progress) -> Result<Option<Step>, Failure> {
        match progress {
            Progress::Calls(calls) => {
                self.stage = Stage::Ending(ending, millis);
                Ok(Some(Step::Calls(calls)))
            }
            // The entry went, or was another's, for so long that nobody makes anything of this id any more.
            Progress::Over if !ending.has_entry() && millis >= SWEEP_AFTER_MS => match ending.clusters.is_empty() {
                true => self.remove(),
                false => {
                    let calls = ending.drops();
                    self.stage = Stage::Drop(ending, millis);
                    Ok(Some(Step::Calls(calls)))
                }
            },
            Progress::Over | Progress::Wait => Ok(None),
        }
    }

    fn remove(&mut self) -> Result<Option<Step>, Failure> {
        let Some((key, _)) = self.notes.front() else { return Ok(None) };
        self.stage = Stage::Remove;
        Ok(Some(one(directory::remove(vec![key.clone()])?)))
    }
}
