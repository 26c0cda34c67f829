//! `hive ctl upgrade`: the world's formats, for people.
//!
//! By design: what stands in the way is shown as the world says it, with what to do. Not here: who decides (the allocator).

use crate::output::{cell, items, table};
use serde_json::Value;

/// The levels, node by node.
pub fn show(answer: &Value) {
    let (level, target) = (&answer["format_level"], &answer["target"]);
    println!("the world is at format level {level}; the node that answers serves up to {target}\n");
    let mut out = table(["NODE", "UP", "VERSION", "SERVES UP TO LEVEL"]);
    for node in items(answer, "nodes") {
        out.add_row(["id", "up", "version", "format_level_max"].map(|name| cell(&node[name])));
    }
    println!("{out}");
    let blockers = items(answer, "blockers");
    for blocker in blockers {
        println!("! {}", cell(blocker));
    }
    match (target.as_u64() > level.as_u64(), blockers.is_empty()) {
        (false, _) => println!("nothing is left to finalize"),
        (true, true) => println!("every node is ready: `hive ctl upgrade finalize` raises the world to level {target}; until then every node may go back"),
        (true, false) => println!("{} nodes stand in the way of level {target}; until it is finalized every node may go back", blockers.len()),
    }
}

/// The world is raised, or was before.
pub fn finalized(answer: &Value) {
    println!("the world is at format level {}; versions that do not serve it are refused", answer["format_level"]);
}
