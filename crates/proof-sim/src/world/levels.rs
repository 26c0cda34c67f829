//! Format levels of nodes (decision 0070): what each program serves, and what each node has kept.
//!
//! Always: a node keeps a level only when every program of the world serves it, but for nodes that were put back to an older program
//! since they were last registered: those may end. Not here: who upgrades nodes, and when (faults).

use super::World;
use base_types::FormatLevel;
use proof_check::Violation;

/// A lane has its node keep a level.
pub(super) fn keep(world: &mut World, node: usize, level: FormatLevel) {
    let host = &mut world.nodes[node];
    host.level = host.level.max(level);
    let old = world.nodes.iter().find(|host| host.level_max < level && !host.rolled_back);
    if let Some(old) = old {
        let message = format!(
            "node {} heard that the world is at format level {level}, and the program of node {} serves up to {}",
            world.nodes[node].id, old.id, old.level_max
        );
        world.violate(Violation::new("level", message, vec![]));
    }
    world.probe("level_kept");
}

/// The program of a node is another one from its next start on.
pub fn install(world: &mut World, node: usize, level_max: FormatLevel) {
    let host = &mut world.nodes[node];
    host.rolled_back = level_max < host.level_max;
    host.level_max = level_max;
}
