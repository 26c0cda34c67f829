//! Format levels of nodes (decision 0070): what each program serves, what each node has kept, and the command that raises the world.
//!
//! ```text
//!   install ─▶ another program from the next start on ─▶ finalize: refused, or the world is raised ─▶ every node keeps the level
//! ```
//!
//! Always: a node keeps a level only after an operator asked for it, and only when every program of the world serves it. Nodes that
//! were put back to an older program are exempt: they end. No frame, and no entry in one, is of a level that its sender has not kept.
//! A program never starts with a kept level that it does not serve.
//! Not here: who upgrades nodes, and when (faults).

use super::{Answered, World};
use crate::excuses::Excuse;
use crate::plan::{FaultKind, Hazard, Plan};
use base_types::action::{Action, ActionResult, Answer, Request};
use base_types::{ErrorCode, FormatLevel, Ticket};
use bytes::Bytes;
use core_cluster::level_of_payload;
use core_node::frame::{self, Item};
use proof_check::Violation;
use std::collections::BTreeMap;
use std::time::Duration;

/// An operator who raises the world waits so long.
const FINALIZE_DEADLINE: Duration = Duration::from_secs(10);
/// A node that ended for its program is started with another one this much later.
const REINSTALL_US: u64 = 500_000;

/// What operators have asked of the world's level.
#[derive(Default)]
pub struct Levels {
    /// Some node is upgraded in this run: frames are looked into.
    watched: bool,
    /// The greatest level that was asked for.
    asked: FormatLevel,
    open: BTreeMap<Ticket, FormatLevel>,
}

impl Levels {
    pub(super) fn new(plan: &Plan) -> Levels {
        Levels { watched: newest(plan) > FormatLevel::FIRST, ..Levels::default() }
    }

    /// The level that this command asked for, if it was one.
    pub fn take(&mut self, ticket: &Ticket) -> Option<FormatLevel> {
        self.open.remove(ticket)
    }
}

/// What the newest program that is installed in a plan serves.
pub fn newest(plan: &Plan) -> FormatLevel {
    let installs = plan.hazards.iter().filter(|hazard| hazard.kind == FaultKind::Install);
    installs.map(served).max().unwrap_or(FormatLevel::FIRST)
}

/// What the program of an `install` serves.
fn served(hazard: &Hazard) -> FormatLevel {
    FormatLevel(u16::try_from(hazard.amount).unwrap_or(u16::MAX).max(FormatLevel::FIRST.0))
}

/// A node stops, and comes back with another program.
pub fn install(world: &mut World, hazard: &Hazard, node: usize) -> bool {
    set_program(world, node, served(hazard));
    world.kill(node, Some(hazard.for_ms * 1_000), true);
    true
}

/// Every node that still has an older program than others gets theirs.
pub fn install_newest(world: &mut World) {
    let newest = newest(&world.plan);
    for node in 0..world.nodes.len() {
        if world.nodes[node].level_max < newest {
            set_program(world, node, newest);
            world.kill(node, None, true);
        }
    }
}

/// An operator raises the world to what the program of this node serves.
pub fn finalize(world: &mut World, node: usize) -> bool {
    let request = Request {
        action: Action::FinalizeUpgrade,
        consistency: None,
        read_consistency: None,
        deadline: FINALIZE_DEADLINE,
        request_id: None,
        after: None,
        expected_bucket_owner: None,
        caller: base_types::access::Caller::Anyone,
    };
    let level = note_finalize(world, node);
    let ticket = world.ask(node, request);
    world.levels.open.extend(ticket.map(|ticket| (ticket, level)));
    ticket.is_some()
}

/// Somebody raises the world through this node; the level that it asks for.
pub fn note_finalize(world: &mut World, node: usize) -> FormatLevel {
    let level = world.nodes[node].level_max;
    world.levels.asked = world.levels.asked.max(level);
    level
}

/// An operator's command was answered.
pub fn on_finalized(world: &mut World, level: FormatLevel, answered: &Answered) {
    let Answered::Response(response) = answered else { return };
    match response.as_ref() {
        Ok(Answer { result: ActionResult::Upgrade(info), .. }) if info.level >= level => {
            world.probe(if level > FormatLevel::FIRST { "level_raised" } else { "level_as_it_was" });
            check_programs(world, level, "the world was raised");
        }
        Ok(answer) => {
            let message = format!("an operator raised the world to format level {level}, and was answered {answer:?}");
            world.violate(Violation::new("level", message, vec![]));
        }
        Err(failure) if failure.refusal.code == ErrorCode::Conflict => world.probe("finalize_refused"),
        Err(_) => {}
    }
}

/// A node ended, or refused to start. True: its program does not serve the level that it has kept, and it is given one that does.
pub(super) fn is_too_old(world: &mut World, node: usize) -> bool {
    let (life, level) = (world.nodes[node].life, world.nodes[node].level);
    if world.nodes[node].level_max >= level {
        return false;
    }
    world.excuses.used(Excuse::OldProgram, (node as u64, life));
    world.probe("old_program_ended");
    set_program(world, node, level);
    world.kill(node, Some(REINSTALL_US), false);
    true
}

/// A node has come up.
pub(super) fn check_level_at_start(world: &mut World, node: usize) {
    let host = &world.nodes[node];
    if host.level > host.level_max {
        let message = format!(
            "node {} has kept format level {}, and started with a program that serves up to {}",
            host.id, host.level, host.level_max
        );
        world.violate(Violation::new("level", message, vec![]));
    }
}

/// What a node sends is of no level that it has not kept.
pub(super) fn check_sent_level(world: &mut World, node: usize, frame: &Bytes) {
    if !world.levels.watched {
        return;
    }
    let Ok(frame) = frame::decode(frame.clone()) else { return };
    let (id, kept) = (world.nodes[node].id, world.nodes[node].level);
    let of_item = |item: &Item| match item {
        Item::Peer { cluster, payload, .. } => {
            level_of_payload(payload).map(|level| (level, format!("an entry of {cluster:?}")))
        }
        _ => None,
    };
    let of_items = frame.items.iter().filter_map(of_item);
    let early = of_items.chain([(frame.from.level, "a frame".to_string())]).find(|(level, _)| *level > kept);
    if let Some((level, what)) = early {
        let message = format!("node {id} sent {what} of format level {level}, and has kept level {kept}");
        world.violate(Violation::new("level", message, vec![]));
    }
}

/// The program of a node is this one from its next start on.
fn set_program(world: &mut World, node: usize, level_max: FormatLevel) {
    let host = &mut world.nodes[node];
    if level_max != host.level_max {
        host.rolled_back = level_max < host.level_max;
    }
    host.level_max = level_max;
}

/// Every program serves a level; those that were put back since are exempt.
fn check_programs(world: &mut World, level: FormatLevel, what: &str) {
    let old = world.nodes.iter().find(|host| host.level_max < level && !host.rolled_back);
    if let Some(old) = old {
        let message = format!(
            "{what} to format level {level}, and the program of node {}, which was never a newer one, serves up to {}",
            old.id, old.level_max
        );
        world.violate(Violation::new("level", message, vec![]));
    }
}

/// A lane has its node keep a level.
pub(super) fn keep(world: &mut World, node: usize, level: FormatLevel) {
    let host = &mut world.nodes[node];
    host.level = host.level.max(level);
    let id = host.id;
    if level > world.levels.asked {
        let message = format!("node {id} keeps format level {level}, which no operator has asked for");
        world.violate(Violation::new("level", message, vec![]));
    }
    check_programs(world, level, &format!("node {id} heard that the world was raised"));
    world.probe("level_kept");
}
