//! The directory of users on simulated nodes: what a host keeps of it, and hands to its cores.
//!
//! Always: a copy is kept (it survives a crash) before any core decides by it.
//! Not here: users that come and go, and what must be refused (load).

use super::World;
use core_node::api::{Directory, Event};
use std::sync::Arc;

/// A core has found the newest copy.
pub(super) fn keep(world: &mut World, node: usize, directory: Arc<Directory>) {
    let host = &mut world.nodes[node];
    if host.directory.epoch() == directory.epoch() {
        return;
    }
    host.directory = directory;
    deliver(world, node);
}

/// Every core of a node is given what the host keeps.
pub(super) fn deliver(world: &mut World, node: usize) {
    let directory = world.nodes[node].directory.clone();
    if directory.epoch() == 0 {
        return;
    }
    for lane in 0..world.nodes[node].lanes.len() {
        world.post(node, lane, Event::Directory { directory: directory.clone() });
    }
}
