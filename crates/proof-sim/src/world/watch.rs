//! Looks at nodes, links and leaders for the reader of a trace.
//!
//! Always: it only looks. Nothing is drawn, and nothing that a run does depends on it.
//! Not here: what is made of it (`trace`).

use super::World;
use crate::machine::Machine;
use crate::trace::line::About;
use crate::trace::recorder::NodeState;

/// What the last thing that happened did to nodes and links.
pub(super) fn watch_nodes(world: &World) {
    if !world.trace.is_recorded() {
        return;
    }
    for node in 0..world.nodes.len() {
        let peers = (0..world.nodes.len()).filter(|peer| *peer != node);
        let cut_from: Vec<usize> =
            peers.filter(|peer| world.network.is_cut(node, *peer) || world.network.is_cut(*peer, node)).collect();
        let state = match cut_from.len() {
            _ if !world.nodes[node].running => NodeState::Down,
            _ if world.is_paused(node) => NodeState::Paused,
            0 => NodeState::Up,
            some if some + 1 < world.nodes.len() => NodeState::Partly,
            _ => NodeState::CutOff,
        };
        world.trace.with(world.now, |recorder| recorder.look_at_node(world.now, node, state, cut_from));
    }
}

/// What a turn did to the replicas of a core.
pub(super) fn watch_replicas(world: &World, node: usize, lane: usize, machine: &dyn Machine) {
    if !world.trace.is_recorded() {
        return;
    }
    let glances = machine.glances();
    world.trace.with(world.now, |recorder| {
        if glances.iter().any(|glance| !recorder.names.contains_key(&glance.cluster.0)) {
            let views = machine.views().into_iter();
            let named =
                views.map(|view| (view.cluster.0, About { name: view.name.as_str().into(), id: Some(view.cluster.0) }));
            recorder.names.extend(named);
        }
        recorder.look_at_replicas(world.now, (node, lane), &glances);
    });
}
