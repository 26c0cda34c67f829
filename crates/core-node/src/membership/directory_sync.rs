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
use crate::node_state::NodeState;
use crate::plan_runner::{AnyPlanner, PlanOwner};
use crate::timers::TimerKey;
use base_access::Directory;
use base_types::action::Response;
use base_types::Tick;
use core::time::Duration;
use core_access::AccessState;
use std::sync::Arc;

/// The longest one sync may take; the next begins again.
const SYNC_TIMEOUT: Duration = Duration::from_secs(5);

/// What a core keeps for the directory.
#[derive(Debug, Default)]
pub struct DirectorySync {
    state: AccessState,
    timer: Tick,
    under_way: bool,
    /// Somebody waits for a newer copy than the sync under way may find.
    again: bool,
}

impl DirectorySync {
    /// What planners of the directory may know and use.
    pub fn state_mut(&mut self) -> &mut AccessState {
        &mut self.state
    }
}

/// Time to see whether the directory has changed.
pub fn on_timer(state: &mut NodeState, turn: &mut Turn<'_>) {
    if !turn.core.access().required() || !turn.core.is_lane_zero() {
        return;
    }
    let every = Duration::from_millis(turn.core.config().access.sync_ms.max(1));
    let at = turn.now + turn.core.random().jitter(every);
    let old = core::mem::replace(&mut state.directory_sync.timer, at);
    turn.core.set_timer(TimerKey::Directory, old, at);
    sync(state, turn);
}

/// Begins a sync, or has the one under way followed by another.
fn sync(state: &mut NodeState, turn: &mut Turn<'_>) {
    if core::mem::replace(&mut state.directory_sync.under_way, true) {
        state.directory_sync.again = true;
        return;
    }
    let planner = AnyPlanner::from(core_access::sync());
    state.start_plan(turn, planner, PlanOwner::DirectorySync, turn.now + SYNC_TIMEOUT);
}

/// A lane waits for a newer copy.
pub fn on_wanted(state: &mut NodeState, turn: &mut Turn<'_>) {
    if !turn.core.access().required() {
        return;
    }
    if turn.core.is_lane_zero() {
        return sync(state, turn);
    }
    turn.core.send_to_lane_zero(&Item::DirectoryWanted);
}

/// After a step of a planner of the directory: whether it waits for a newer copy.
pub fn after_step(state: &mut NodeState, turn: &mut Turn<'_>) {
    if core::mem::take(&mut state.directory_sync.state.wanted) {
        on_wanted(state, turn);
    }
}

/// A sync ended.
pub fn on_synced(state: &mut NodeState, turn: &mut Turn<'_>, response: &Response) {
    state.directory_sync.under_way = false;
    let found = state.directory_sync.state.found.take();
    if let (Some(directory), Ok(_)) = (found, response) {
        turn.effects.list.push(Effect::Directory { directory });
    }
    if core::mem::take(&mut state.directory_sync.again) {
        sync(state, turn);
    }
}

/// The host keeps this copy: it is what counts from now on.
pub fn on_kept(state: &mut NodeState, turn: &mut Turn<'_>, directory: Arc<Directory>) {
    for finding in directory.findings() {
        turn.note(crate::api::NoteLevel::Warning, format!("access directory: {finding}"));
    }
    state.directory_sync.state.directory = directory.clone();
    turn.core.access_mut().learn(directory);
}
