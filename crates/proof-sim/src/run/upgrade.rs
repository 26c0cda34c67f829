//! After healing, in a world of several programs (`world/levels.rs`): every node has the newest, so the world's formats can be raised.
//!
//! Not here: what may be written and kept before (`world/levels.rs`).

use super::{Run, LOOK_US};
use crate::world::levels::{newest, note_finalize};
use base_types::action::{Action, ActionResult, Answer};
use base_types::FormatLevel;

/// After healing, the world is raised within this time,
const RAISED_US: u64 = 60_000_000;
/// and every node has kept the level within this time.
const KEPT_US: u64 = 30_000_000;

impl Run {
    /// The world is raised, and every node hears of it. Without programs of several levels there is nothing to do.
    pub(super) fn level_rises(&mut self) {
        let level = newest(&self.world.plan);
        if level == FormatLevel::FIRST {
            return;
        }
        for node in 0..self.world.nodes.len() {
            note_finalize(&mut self.world, node);
        }
        let raised = self.insist(Action::FinalizeUpgrade, None, RAISED_US, |response| match response {
            Ok(Answer { result: ActionResult::Upgrade(info), .. }) => info.level == level,
            _ => false,
        });
        if let Err(last) = raised {
            return self.violate(
                "level",
                format!("every node serves format level {level}, and the world is not raised: {last}"),
            );
        }
        let until = self.world.now + KEPT_US;
        while let Some(host) = self.world.nodes.iter().find(|host| host.level != level) {
            if self.world.now >= until || !self.world.violations.is_empty() {
                let message =
                    format!("the world is at format level {level}, and node {} still at {}", host.id, host.level);
                return self.violate("level", message);
            }
            let pause = self.world.now + LOOK_US;
            self.pump(pause, |_| false);
        }
    }
}
