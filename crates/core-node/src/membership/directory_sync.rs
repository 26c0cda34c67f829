//! Keeps this node's copy of the directory of users up to date: lane zero reads its head twice a second, the host keeps what it
//! finds, and every lane decides by what is kept.
//!
//! Always: one sync at a time; a copy is decided by only once the host has it on disk (the host sends [`Event::Directory`]);
//! nothing runs in a world that asks nobody who they are.
//! Not here: what a sync reads (core-access), the file (edge-node).
//!
//! [`Event::Directory`]: crate::api::Event::Directory

use crate::api::Effect;
use crate::context::Turn;
use crate::frame::Item;
use crate::plan_runner::{AnyPlanner, PlanOwner, PlanRunner};
use crate::timers::TimerKey;
use base_access::Directory;
use base_types::action::Response;
use base_types::Tick;
use core::time::Duration;
use std::sync::Arc;

/// The longest one sync may take; the next begins again.
const SYNC_TIMEOUT: Duration = Duration::from_secs(5);

/// What a core keeps for the directory, beside the copy itself.
#[derive(Debug, Default)]
pub struct DirectorySync {
    timer: Tick,
    under_way: bool,
    /// Somebody waits for a newer copy than the sync under way may find.
    again: bool,
}

impl DirectorySync {
    /// Time to see whether the directory has changed.
    pub fn on_timer(&mut self, turn: &mut Turn<'_>, runner: &mut PlanRunner) {
        if !turn.core.access().required() || !turn.core.is_lane_zero() {
            return;
        }
        let every = Duration::from_millis(turn.core.config().access.sync_ms.max(1));
        let at = turn.now + turn.core.random().jitter(every);
        let old = core::mem::replace(&mut self.timer, at);
        turn.core.set_timer(TimerKey::Directory, old, at);
        self.sync(turn, runner);
    }

    /// Begins a sync, or has the one under way followed by another.
    fn sync(&mut self, turn: &mut Turn<'_>, runner: &mut PlanRunner) {
        if core::mem::replace(&mut self.under_way, true) {
            self.again = true;
            return;
        }
        let planner = AnyPlanner::from(core_access::sync());
        runner.start_plan(turn, planner, PlanOwner::DirectorySync, turn.now + SYNC_TIMEOUT);
    }

    /// A lane waits for a newer copy.
    pub fn on_wanted(&mut self, turn: &mut Turn<'_>, runner: &mut PlanRunner) {
        if !turn.core.access().required() {
            return;
        }
        if turn.core.is_lane_zero() {
            return self.sync(turn, runner);
        }
        turn.core.send_to_lane_zero(&Item::DirectoryWanted);
    }

    /// A sync ended.
    pub fn on_synced(&mut self, turn: &mut Turn<'_>, runner: &mut PlanRunner, response: &Response) {
        self.under_way = false;
        let found = runner.access_mut().found.take();
        if let (Some(directory), Ok(_)) = (found, response) {
            turn.effects.list.push(Effect::Directory { directory });
        }
        if core::mem::take(&mut self.again) {
            self.sync(turn, runner);
        }
    }
}

/// The host keeps this copy: it is what counts from now on.
pub fn on_kept(turn: &mut Turn<'_>, runner: &mut PlanRunner, directory: Arc<Directory>) {
    for finding in directory.findings() {
        turn.note(crate::api::NoteLevel::Warning, format!("access directory: {finding}"));
    }
    runner.access_mut().directory = directory.clone();
    turn.core.access_mut().learn(directory);
}
