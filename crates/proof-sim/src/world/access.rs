//! The directory of users on simulated nodes: what a host keeps of it and hands to its cores, and how new each node's copy must be.
//!
//! ```text
//!   out of touch ──the leader and its majority are in reach──▶ in touch ──two seconds──▶ knows all that was acknowledged two seconds ago
//!        ▲──────cut, stopped, paused, another leader, noise──────┘
//! ```
//!
//! Always: a copy is kept (it survives a crash) before any core decides by it. What `known_since` says never steps back, but for a
//! node whose disk was lost: its copy is empty. It looks at links and nodes, never at copies, so it cannot learn from what it judges.
//! Not here: users that come and go (`users`), what must be refused (proof-check, `access`).

use super::{Due, World};
use crate::plan::FaultKind;
use crate::trace::line::{Kind, Line};
use base_types::{ClusterId, Term};
use core_access::ACCESS_CLUSTER;
use core_node::api::{Directory, Event};
use std::sync::Arc;

/// A change counts so long after its acknowledgement on every node that is in touch (docs/guides/access.md).
pub const WINDOW_US: u64 = 2_000_000;
/// How often links and nodes are looked at.
const LOOK_US: u64 = 50_000;

/// Who is in touch with the directory's leader.
#[derive(Default)]
pub struct Touch {
    /// Since when each node is.
    since: Vec<Option<u64>>,
    /// Each node knows what was acknowledged by then.
    known: Vec<u64>,
    /// When each node's copy was lost.
    emptied: Vec<u64>,
    /// The lives of the nodes when they were last looked at, and when that was.
    lives: Vec<u64>,
    looked_at: u64,
    led: Option<Led>,
    /// Nodes that are kept from the directory's leader, by the number of the hazard, with whom they are cut from.
    unheard: Vec<(usize, usize, Option<usize>)>,
}

/// The directory's leader.
#[derive(Clone, PartialEq, Eq)]
struct Led {
    cluster: ClusterId,
    node: usize,
    term: Term,
    voters: Vec<usize>,
}

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

/// A node's disk is lost, with its copy.
pub(super) fn empty(world: &mut World, node: usize) {
    world.nodes[node].directory = Arc::default();
    let now = world.now;
    let touch = &mut world.touch;
    if let (Some(since), Some(known), Some(emptied)) =
        (touch.since.get_mut(node), touch.known.get_mut(node), touch.emptied.get_mut(node))
    {
        (*since, *known, *emptied) = (None, 0, now);
    }
}

/// Begins to look, in worlds that have users.
pub(super) fn begin(world: &mut World) {
    if !world.plan.shape.access {
        return;
    }
    let nodes = world.nodes.len();
    world.touch = Touch {
        since: vec![None; nodes],
        known: vec![0; nodes],
        emptied: vec![0; nodes],
        lives: vec![0; nodes],
        ..Touch::default()
    };
    world.schedule(world.now + LOOK_US, Due::Look);
}

/// Looks at who is in touch.
pub(super) fn look(world: &mut World) {
    world.schedule(world.now + LOOK_US, Due::Look);
    let led = find_leader(world);
    keep_unheard(world, led.as_ref().map(|led| led.node));
    let (shaken, noisy) = (std::mem::take(&mut world.network.shaken), world.network.is_noisy());
    let noise_began = std::mem::take(&mut world.network.noise_changed);
    let is_shaken = |one: usize, other: usize| shaken.contains(&(one.min(other), one.max(other)));
    let mut touch = std::mem::take(&mut world.touch);
    let undisturbed = |node: usize| {
        let host = &world.nodes[node];
        let same_life = touch.lives[node] == host.life;
        host.running && same_life && !world.is_paused(node) && host.disturbed_at <= touch.looked_at
    };
    let steady = led.as_ref().filter(|led| {
        let of_voters = |voter: &&usize| **voter != led.node && is_shaken(led.node, **voter);
        let reached =
            |voter: &&usize| **voter == led.node || (undisturbed(**voter) && joined(world, led.node, **voter));
        let whole = led.voters.iter().filter(reached).count() * 2 > led.voters.len();
        let same = touch.led.as_ref() == Some(*led) && !led.voters.iter().any(|voter| of_voters(&voter));
        same && whole && !noisy && !noise_began && undisturbed(led.node)
    });
    for node in 0..world.nodes.len() {
        let in_touch = steady.is_some_and(|led| {
            let near = node == led.node || (joined(world, node, led.node) && !is_shaken(node, led.node));
            near && undisturbed(node)
        });
        touch.since[node] = in_touch.then(|| touch.since[node].unwrap_or(world.now));
        if touch.since[node].is_some_and(|since| world.now - since >= WINDOW_US) {
            touch.known[node] = touch.known[node].max(world.now - WINDOW_US);
        }
    }
    touch.lives = world.nodes.iter().map(|host| host.life).collect();
    (touch.led, touch.looked_at) = (led, world.now);
    world.touch = touch;
}

/// Two nodes hear each other.
fn joined(world: &World, one: usize, other: usize) -> bool {
    let network = &world.network;
    !network.is_cut(one, other) && !network.is_cut(other, one) && network.is_connected(one, other)
}

/// The leader of the directory's cluster, of the latest term.
fn find_leader(world: &World) -> Option<Led> {
    let mut found: Option<Led> = None;
    for (node, host) in world.nodes.iter().enumerate() {
        for machine in host.lanes.iter().filter_map(|lane| lane.machine.as_ref()) {
            if !machine.glances().iter().any(|glance| glance.is_leader) {
                continue;
            }
            let views = machine.views().into_iter();
            for view in views.filter(|view| view.is_leader && view.name.as_str() == ACCESS_CLUSTER) {
                let voters = view.members.iter().filter(|member| !member.learner);
                let voters = voters.filter_map(|member| world.index_of(member.node)).collect();
                let newer = found.as_ref().is_none_or(|led| led.term < view.term);
                if newer {
                    found = Some(Led { cluster: view.cluster, node, term: view.term, voters });
                }
            }
        }
    }
    found
}

/// A node is kept from the directory's leader of the moment, and from nobody else.
pub fn begin_unheard(world: &mut World, hazard: usize, node: usize) {
    world.touch.unheard.push((hazard, node, None));
}

/// It hears the leader again.
pub fn end_unheard(world: &mut World, hazard: usize) {
    let Some(place) = world.touch.unheard.iter().position(|(of, ..)| *of == hazard) else { return };
    if let (_, node, Some(from)) = world.touch.unheard.remove(place) {
        for (one, other) in [(node, from), (from, node)] {
            world.network.mend(one, other);
        }
    }
}

/// Everybody hears everybody: the network has been healed.
pub fn heal_unheard(world: &mut World) {
    world.touch.unheard.clear();
}

/// Cuts that follow the leader.
fn keep_unheard(world: &mut World, leader: Option<usize>) {
    for place in 0..world.touch.unheard.len() {
        let (_, node, from) = world.touch.unheard[place];
        let wanted = leader.filter(|leader| *leader != node);
        if from == wanted || wanted.is_none() {
            continue;
        }
        let both_ways = |other: usize| [(node, other), (other, node)];
        from.into_iter().flat_map(both_ways).for_each(|(a, b)| world.network.mend(a, b));
        wanted.into_iter().flat_map(both_ways).for_each(|(a, b)| world.network.cut(a, b));
        world.touch.unheard[place].2 = wanted;
        world.probe(FaultKind::Unheard.name());
        let leader = wanted.unwrap_or_default() + 1;
        world.trace.say(world.now, || {
            Line::new(Kind::Fault, format!("unheard: cut off from the directory's leader n{leader}")).node(node)
        });
    }
}

impl Touch {
    /// This node knows all changes that were acknowledged by then.
    pub fn known_since(&self, node: usize) -> u64 {
        self.known.get(node).copied().unwrap_or_default()
    }

    /// The same of all nodes.
    pub fn all_known(&self) -> Vec<u64> {
        self.known.clone()
    }

    /// When its copy was lost, with its disk.
    pub fn directory_lost_at(&self, node: usize) -> u64 {
        self.emptied.get(node).copied().unwrap_or_default()
    }
}
