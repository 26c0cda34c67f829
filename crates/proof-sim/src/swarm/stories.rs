//! Worlds of one story each, among those that lean to nothing: the world's cluster gone for minutes, its members changed, a replica that
//! holds what it never wrote, nodes upgraded one after the other, nodes that share a chassis.
//!
//! Always: each has a stream of its own, so that all other worlds stay what they were; a world has one of the first four.
//! Not here: what the stories do (`faults`, `run/outage.rs`, `world/diverged.rs`, `world/levels.rs`).

use super::damages;
use crate::plan::{FaultKind, Hazard, Plan};
use crate::random::Random;

/// Of a thousand worlds that lean to nothing, in so many the world's cluster loses its majority for minutes,
const OF_OUTAGES: u64 = 30;
/// in so many its members change,
const OF_WORLD_MEMBERS: u64 = 60;
/// in so many a replica holds what it never wrote,
const OF_DIVERGED: u64 = 30;
/// in so many nodes are upgraded,
const OF_UPGRADES: u64 = 30;
/// and in so many of one region some nodes share a chassis.
const OF_SHARED_CHASSIS: u64 = 300;
/// The world's members are changed so far apart.
const CHANGE_EVERY_MS: u64 = 4_000;

/// Draws one of them, perhaps.
pub(super) fn draw(seed: u64, plan: &mut Plan) {
    let one = |name: &str, per_mille| Random::stream(seed, name).per_mille(per_mille);
    if one("outage", OF_OUTAGES) {
        outage(Random::stream(seed, "outage, drawn"), plan);
    } else if one("world members", OF_WORLD_MEMBERS) {
        world_members(Random::stream(seed, "world members, drawn"), plan);
    } else if one("diverged", OF_DIVERGED) {
        diverged(Random::stream(seed, "diverged, drawn"), plan);
    } else if one("upgrade", OF_UPGRADES) {
        upgrade(Random::stream(seed, "upgrade, drawn"), plan);
    }
    if one("chassis", OF_SHARED_CHASSIS) {
        share_a_chassis(plan);
    }
}

fn hazard(at_ms: u64, kind: FaultKind, (node, peer): (u64, u64), for_ms: u64, amount: u64) -> Hazard {
    Hazard { at_ms, kind, node, peer, for_ms, amount }
}

/// Plain clusters only, and few clients: who needs new names needs the world.
fn plain(plan: &mut Plan) {
    let Plan { shape, load, hazards, tuning, .. } = plan;
    hazards.clear();
    (shape.keyspaces, shape.buckets, shape.tails, shape.versioned, shape.suspended, shape.quota_keys) =
        (0, 0, 0, 0, 0, 0);
    (shape.cluster_size, shape.world_members) = (3, 3);
    (load.s3, load.s3_growing, load.uploaders, load.owners, load.lifecycle, load.kept) = (0, 0, 0, 0, 0, 0);
    tuning.replace_after_ms = 0;
}

/// Most members of the world's cluster are down for a minute and more, or all, and all others start anew.
fn outage(mut random: Random, plan: &mut Plan) {
    plain(plan);
    plan.shape.nodes = *random.pick(&[5, 5, 7]);
    plan.shape.clusters = random.between(2, 6);
    plan.load.think_ms = plan.load.think_ms.max(100);
    plan.load.run_ms = 4_000;
    let (for_ms, all) = (random.between(60_000, 120_000), random.below(2));
    plan.hazards.push(hazard(0, FaultKind::WorldDown, (0, 0), for_ms, all));
}

/// Members of the world's cluster give way to others, one after the other, perhaps while one is away; all of the first ones, perhaps,
/// and then everybody starts anew.
fn world_members(mut random: Random, plan: &mut Plan) {
    plain(plan);
    plan.shape.nodes = *random.pick(&[5, 7, 7]);
    let nodes = plan.shape.nodes;
    let all = nodes == 7 && random.per_mille(500);
    let changes = if all { 3 } else { random.between(1, 4) };
    for change in 0..changes {
        // The first of a list by replica id: the oldest.
        let (node, peer) = if all { (0, 4 + change) } else { (random.below(3), random.between(1, nodes)) };
        let at_ms = 500 + change * CHANGE_EVERY_MS;
        plan.hazards.push(hazard(at_ms, FaultKind::WorldMember, (node, peer), 0, 0));
        if !all && random.per_mille(300) {
            let (away, down_ms) = (random.between(1, 3), random.between(1_000, 6_000));
            plan.hazards.push(hazard(at_ms.saturating_sub(300), FaultKind::Crash, (away, 0), down_ms, 0));
        }
    }
    plan.load.run_ms = changes * CHANGE_EVERY_MS + 6_000;
    plan.load.think_ms = plan.load.think_ms.max(20);
    if all && random.per_mille(500) {
        plan.hazards.push(hazard(0, FaultKind::WorldDown, (0, 0), 90_000, 2));
    } else if random.per_mille(700) {
        plan.hazards.push(hazard(plan.load.run_ms - 2_000, FaultKind::CrashAll, (1, 0), 500, 0));
    }
    plan.hazards.sort_by_key(|hazard| hazard.at_ms);
}

/// Values of keys that are read at the end only become others, seals and all. Scrubs are frequent: after 24 rounds of one, members
/// are compared.
fn diverged(mut random: Random, plan: &mut Plan) {
    if plan.shape.nodes < 3 {
        return;
    }
    plain(plan);
    let nodes = plan.shape.nodes;
    let load = &mut plan.load;
    (load.mixed, load.ledger, load.readers, load.writers, load.swappers) = (0, 2, nodes, 2, 0);
    load.run_ms = load.run_ms.max(8_000);
    load.think_ms = load.think_ms.clamp(10, 50);
    plan.tuning.scrub_round_ms = 300;
    plan.tuning.flush_after_ms = plan.tuning.flush_after_ms.min(500);
    let node = random.between(1, nodes);
    for _ in 0..random.between(1, 2) {
        let at_ms = random.between(load.run_ms / 3, load.run_ms - 1);
        plan.hazards.push(hazard(at_ms, FaultKind::Diverge, (node, 0), 0, random.between(1, 3)));
    }
    plan.hazards.sort_by_key(|hazard| hazard.at_ms);
}

/// The level of the newer program.
const NEW: u64 = 2;

/// Node after node gets a program of one format level more, some are put back for a while. An operator tries to raise the world all
/// the time; some node may be put back just then, or after.
fn upgrade(mut random: Random, plan: &mut Plan) {
    plain(plan);
    plan.shape.nodes = *random.pick(&[3, 3, 5]);
    plan.shape.clusters = random.between(1, 3);
    let nodes = plan.shape.nodes;
    let load = &mut plan.load;
    (load.think_ms, load.mixed) = (load.think_ms.clamp(10, 100), load.mixed.max(2));
    let mut at = 500;
    for node in random.shuffled(nodes as usize) {
        let node = node as u64 + 1;
        let (down_ms, mut wait_ms) = (random.between(50, 2_000), random.between(1_000, 4_000));
        plan.hazards.push(hazard(at, FaultKind::Install, (node, 0), down_ms, NEW));
        if random.per_mille(250) {
            let (back, again) = (at + wait_ms, at + wait_ms + random.between(1_000, 4_000));
            plan.hazards.push(hazard(back, FaultKind::Install, (node, 0), random.between(50, 1_000), 1));
            plan.hazards.push(hazard(again, FaultKind::Install, (node, 0), random.between(50, 1_000), NEW));
            wait_ms += again - at;
        }
        if random.per_mille(500) {
            let asked = at + random.between(0, wait_ms);
            plan.hazards.push(hazard(asked, FaultKind::Finalize, (node, 0), 0, 0));
        }
        at += wait_ms;
    }
    at += random.between(0, 4_000);
    for _ in 0..random.between(1, 2) {
        plan.hazards.push(hazard(at, FaultKind::Finalize, (random.between(1, nodes), 0), 0, 0));
        at += random.between(0, 1_000);
    }
    if random.per_mille(400) {
        let (put_back, node) = (at + random.between(0, 2_000) - 500, random.between(1, nodes));
        plan.hazards.push(hazard(put_back, FaultKind::Install, (node, 0), random.between(50, 2_000), 1));
    }
    plan.load.run_ms = at + 5_000;
    for _ in 0..random.below(4) {
        let kind = *random.pick(&[FaultKind::Crash, FaultKind::Isolate, FaultKind::PowerLoss, FaultKind::Pause]);
        let (moment, node, for_ms) =
            (random.below(plan.load.run_ms), random.between(1, nodes), random.between(100, 3_000));
        plan.hazards.push(hazard(moment, kind, (node, 0), for_ms, 0));
    }
    plan.hazards.sort_by_key(|hazard| hazard.at_ms);
}

/// The last two nodes stand in one chassis, where clusters fit all the same.
fn share_a_chassis(plan: &mut Plan) {
    let shape = &mut plan.shape;
    let fits = shape.regions == 1
        && shape.nodes >= 4
        && shape.cluster_size < shape.nodes
        && shape.world_members < shape.nodes - 1;
    if fits && !plan.hazards.iter().any(|hazard| damages(hazard.kind)) {
        shape.shared_chassis = 2;
    }
}
