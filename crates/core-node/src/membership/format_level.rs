//! The world's format level, as this node knows it (decision 0070).
//!
//! ```text
//!   allocator (world's leader) ──▶ hear_level ──▶ kept in hive-node.json ──▶ this lane writes the level's formats
//!   any frame's header, any handshake ──▶ ┘                              └─▶ every frame has the level: peers, other lanes
//! ```
//!
//! Always: a level is kept before anything that follows from it, and heard before any bytes of it. It only rises. A node whose
//! program does not serve what it has heard takes nothing of that frame, sends nothing more, and ends; it keeps the level, so that
//! the same program refuses the next start by itself.
//! Held by: `level_rises_only_when_every_node_serves_it`, `old_build_that_hears_of_a_newer_level_ends_and_remembers`.
//! Not here: when the world is raised (core-backends' `allocator/level.rs`), the operator's command (flows/upgrade.rs).

use crate::api::{Effect, NodeConfig, NoteLevel};
use crate::context::{CoreContext, Turn};
use base_types::format_level::{remedy, LEVEL_MIN};
use base_types::mutant::{planted, Mutant};
use base_types::{FormatLevel, NodeId};

/// Whether this node's program serves the world's level.
pub(crate) fn serves(core: &CoreContext) -> bool {
    core.config().level <= core.config().level_max
}

/// The world's formats are of this level: so says `from`, or, where that is this node, the allocator.
pub(crate) fn hear(turn: &mut Turn<'_>, level: FormatLevel, from: NodeId) {
    if level <= turn.core.config().level {
        return;
    }
    turn.effects.list.push(Effect::FormatLevel { level });
    turn.core.raise_level(level);
    let NodeConfig { world, node, version, level_max, .. } = turn.core.config();
    if level > *level_max {
        let theirs = turn.core.map().get(from).map(|record| record.version.as_str());
        let reason = format!(
            "world {world} is at format level {level} (says node {from}), and node {node} runs hive {version}, which serves up to {level_max}: {}",
            remedy(level, theirs)
        );
        turn.effects.list.push(Effect::Halt { reason });
        return;
    }
    let note = format!("world {world} is at format level {level} now: older builds cannot come back");
    turn.note(NoteLevel::Info, note);
    turn.lane.set_level(level);
    turn.core.greet_own_lanes();
}

/// Whether a node may start with what it has kept.
pub(crate) fn check(config: &NodeConfig) -> Result<(), String> {
    let NodeConfig { level, level_max, node, world, version, .. } = config;
    if *level < LEVEL_MIN {
        return Err(format!(
            "node {node} has data of format level {level}, and hive {version} serves {LEVEL_MIN} to {level_max}: start a build that serves both, and run `hive ctl upgrade finalize` with it first"
        ));
    }
    if level > level_max {
        let remedy = remedy(*level, None);
        return Err(format!(
            "world {world} is at format level {level}, and node {node} runs hive {version}, which serves up to {level_max}: {remedy}"
        ));
    }
    Ok(())
}

/// The level that a lane writes by.
pub(crate) fn of_lane(config: &NodeConfig) -> FormatLevel {
    if planted(Mutant::LevelWrittenEarly) {
        return config.level_max;
    }
    config.level
}
