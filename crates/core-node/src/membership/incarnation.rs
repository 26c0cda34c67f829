//! Lives of a world: one that was restored, or recovered without its majority, has a greater incarnation than before, and those
//! who belong to the earlier one must not continue beside it (decision 0036).
//!
//! ```text
//!   a frame of an earlier life ──▶ dropped, and a frame sent back: it names the life that is now
//!   a frame of a later life ──▶ blank here: this node joins that life · replicas here: this node serves nothing any more
//! ```
//!
//! Always: what a node concludes is kept beside its identity before anything that follows from it; lane zero, which knows
//! all replicas of the node, concludes. A node that serves nothing sends nothing either: it neither votes nor answers.
//! Held by: `nodes_of_an_earlier_life_stop_serving`, `blank_node_joins_the_later_life`.
//! Not here: where the number comes from (edge-node's restore.rs), the peers' handshake (edge-node).

use crate::api::{Effect, NoteLevel};
use crate::context::{CoreContext, Turn};
use crate::frame::{Item, Sender};
use base_types::mutant::{planted, Mutant};
use base_types::NodeId;

/// Whether a peer's frame is dropped because it is of another life of the world.
pub fn refuses_incarnation(turn: &mut Turn<'_>, from: &Sender) -> bool {
    let own = turn.core.config().incarnation;
    if from.incarnation == own && turn.core.config().superseded_by == 0 || planted(Mutant::OldIncarnationServes) {
        return false;
    }
    if from.incarnation > own.max(turn.core.config().superseded_by) {
        hear_of_reborn(turn, from.incarnation, from.node);
    } else if from.incarnation < own {
        let why = format!(
            "its data is of incarnation {} of world {}, which is {own} now (restored or recovered since); stop it, move its data directory away and start it",
            from.incarnation, turn.core.config().world
        );
        turn.refuse_frame(from.node, &why);
        turn.core.greet(from.node, from.lane);
    }
    true
}

/// This lane has heard of a later life.
pub fn hear_of_reborn(turn: &mut Turn<'_>, heard: u64, from: NodeId) {
    if turn.core.is_lane_zero() {
        on_world_reborn(turn, heard, from);
    } else {
        turn.core.send_to_lane_zero(&Item::WorldReborn { heard, from });
    }
}

/// Lane zero: some lane has heard of a later life.
pub fn on_world_reborn(turn: &mut Turn<'_>, heard: u64, from: NodeId) {
    if !turn.core.is_lane_zero() || heard <= turn.core.config().incarnation.max(turn.core.config().superseded_by) {
        return;
    }
    let blank = turn.core.replicas().is_empty() && turn.lane.views().is_empty();
    let (own, superseded_by) = if blank { (heard, 0) } else { (turn.core.config().incarnation, heard) };
    turn.effects.list.push(Effect::Incarnation { own, superseded_by });
    on_world_is(turn.core, own, superseded_by);
    turn.core.send_to_other_lanes(&Item::WorldIs { own, superseded_by });
    match turn.core.superseded() {
        Some(refusal) => turn.note(NoteLevel::Error, format!("node {from} says: {}", refusal.message)),
        None => turn.note(NoteLevel::Info, format!("joins incarnation {heard} of world {}", turn.core.config().world)),
    }
}

/// What lane zero has concluded.
pub fn on_world_is(core: &mut CoreContext, own: u64, superseded_by: u64) {
    core.set_incarnation(own, superseded_by);
}
