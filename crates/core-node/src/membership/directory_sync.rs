//! Keeps this node's copy of the directory of users up to date: lane zero looks at its head twice a second, reads what changed, the
//! host keeps what it finds, and every lane decides by what is kept.
//!
//! ```text
//!   idle ──timer──▶ looking (1 s) ──behind──▶ reading (1 s; 30 s after one that was not done in time) ──▶ the host keeps it
//! ```
//!
//! Always: one sync at a time; one that waits for an answer which a cut has swallowed ends within a second, so that the next begins
//! soon after the cut has healed (scenario a-lost-look-does-not-keep-an-old-copy); a copy is decided by only once the host has it on disk (the host sends [`Event::Directory`]);
//! nothing runs in a world that asks nobody who they are.
//! Held by: `a_copy_that_rows_overtook_is_followed_by_another`, `a_world_that_asks_nobody_has_no_users`.
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

/// How long a look at the head, and a reading of a few rows, may take: half the time in which every node has a change.
const LOOK_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a reading may take if the one before was not done in time: 100,000 rows over a slow link.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// What a sync does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Phase {
    #[default]
    Idle,
    /// It reads the head.
    Looking,
    /// It reads what changed.
    Reading,
}

/// What a core keeps for the directory, beside the copy itself.
#[derive(Debug, Default)]
pub struct DirectorySync {
    timer: Tick,
    phase: Phase,
    /// The last reading was not done in time: the next gets more.
    slow: bool,
    /// Somebody waits for a newer copy than the sync under way may find.
    again: bool,
    /// The sync under way follows one that rows overtook. Were it overtaken, too, the timer's is next: changes without end make no
    /// syncs without end.
    follows: bool,
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
        if self.phase != Phase::Idle {
            self.again = true;
            return;
        }
        self.phase = Phase::Looking;
        runner.access_mut().behind = false;
        let planner = AnyPlanner::from(core_access::look());
        runner.start_plan(turn, planner, PlanOwner::DirectorySync, turn.now + LOOK_TIMEOUT);
    }

    /// The copy is behind a head that has just been read.
    fn read(&mut self, turn: &mut Turn<'_>, runner: &mut PlanRunner) {
        self.phase = Phase::Reading;
        let timeout = if self.slow { READ_TIMEOUT } else { LOOK_TIMEOUT };
        let planner = AnyPlanner::from(core_access::sync());
        runner.start_plan(turn, planner, PlanOwner::DirectorySync, turn.now + timeout);
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

    /// A look or a reading ended.
    pub fn on_synced(&mut self, turn: &mut Turn<'_>, runner: &mut PlanRunner, response: &Response) {
        if core::mem::take(&mut runner.access_mut().behind) && response.is_ok() {
            return self.read(turn, runner);
        }
        if core::mem::take(&mut self.phase) == Phase::Reading {
            self.slow = response.is_err();
        }
        let found = runner.access_mut().found.take();
        if let (Some(directory), Ok(_)) = (found, response) {
            turn.effects.list.push(Effect::Directory { directory });
        }
        let follows = core::mem::take(&mut self.follows);
        if core::mem::take(&mut runner.access_mut().overtaken) && response.is_ok() && !follows {
            (self.again, self.follows) = (true, true);
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
