//! Worlds without leases and machines that are held, cuts at the end of leases, disks that stall: drawn by streams of
//! their own, so that the other draws stay what they were.
//!
//! Always: machines are held only where leases are off (docs/guides/clocks.md).
//! Not here: what these faults do (`world/holds.rs`, `world/lease_end.rs`, `world/stalls.rs`).

use crate::emphasis::Emphasis;
use crate::plan::{FaultKind, Hazard, Plan};
use crate::random::Random;
use crate::swarm::damages;

/// Of a thousand seeds, so many have no leases. In half of those, machines are held.
const OF_LEASES_OFF: u64 = 250;
/// Of a thousand seeds that lean to leases and have them, in so many leaders are cut off at the end of one.
const OF_LEASE_ENDS: u64 = 250;
/// Of a thousand seeds that lean to nothing, in so many all that happens is that disks stall.
const OF_STALLS: u64 = 30;

/// Bends a plan that is drawn otherwise.
pub fn draw(plan: &mut Plan, lean: Emphasis) {
    draw_stalls(plan, lean);
    let mut random = Random::stream(plan.seed, "leases off");
    if random.per_mille(OF_LEASES_OFF) {
        plan.tuning.read_leases = false;
        if random.per_mille(500) {
            draw_holds(&mut random, plan);
        }
    } else if lean == Emphasis::Leases {
        draw_lease_ends(plan);
    }
    plan.hazards.sort_by_key(|hazard| hazard.at_ms);
}

fn election_ms(plan: &Plan) -> u64 {
    plan.tuning.tick_ms * plan.tuning.election_ticks as u64
}

fn hazard(at_ms: u64, kind: FaultKind, node: u64, for_ms: u64) -> Hazard {
    Hazard { at_ms, kind, node, peer: 0, for_ms, amount: 0 }
}

/// Half of the held nodes are also cut off until a while after their hold ends: no peer can send them what they missed.
fn draw_holds(random: &mut Random, plan: &mut Plan) {
    // A calm world stays calm, and one in which a disk forgot dies of nothing else.
    if plan.hazards.is_empty() || plan.shape.nodes < 3 || plan.hazards.iter().any(|hazard| damages(hazard.kind)) {
        return;
    }
    let election = election_ms(plan);
    for _ in 0..random.between(2, 8) {
        let (at, node) = (random.below(plan.load.run_ms), random.between(1, plan.shape.nodes));
        let for_ms = *random.pick(&[election, election * 3, election * 3, 3_000, 6_000]);
        plan.hazards.push(hazard(at, FaultKind::Hold, node, for_ms));
        if random.per_mille(500) {
            plan.hazards.push(hazard(at, FaultKind::BlackHole, node, for_ms + election * 2));
        }
    }
}

fn draw_lease_ends(plan: &mut Plan) {
    let mut random = Random::stream(plan.seed, "lease ends");
    if !random.per_mille(OF_LEASE_ENDS) {
        return;
    }
    // What is left of a lease beyond its promise is a hundredth of it: long ones.
    plan.tuning.tick_ms = 100;
    plan.load.run_ms = plan.load.run_ms.max(20_000);
    plan.hazards.clear();
    let election = election_ms(plan);
    if random.per_mille(400) {
        return draw_late_answers(&mut random, plan, election);
    }
    let mut at = random.below(election);
    while at < plan.load.run_ms {
        let for_ms = election * 5 / 2;
        plan.hazards.push(hazard(at, FaultKind::LeaseEnd, 0, for_ms));
        at += for_ms + election + random.below(election);
    }
}

/// A leader receives answers late and is then cut off. The answer to its round arrives long after the promise in the
/// answer began.
fn draw_late_answers(random: &mut Random, plan: &mut Plan, election: u64) {
    let mut at = random.below(election);
    while at < plan.load.run_ms {
        let (node, late) = (random.between(1, plan.shape.nodes), election * 3 / 4 + random.below(election));
        let deaf = Hazard { amount: late, ..hazard(at, FaultKind::Deaf, node, election * 4) };
        plan.hazards.push(deaf);
        let cut_at = at + random.between(election / 4, election * 2);
        if cut_at <= plan.load.run_ms {
            plan.hazards.push(hazard(cut_at, FaultKind::BlackHole, node, election * 5 / 2));
        }
        at = cut_at + election * 3;
    }
}

fn draw_stalls(plan: &mut Plan, lean: Emphasis) {
    let mut random = Random::stream(plan.seed, "stalls");
    let room = plan.shape.nodes >= 3 && plan.shape.cluster_size >= 3 && plan.shape.world_members >= 3;
    if lean != Emphasis::Plain || !room || plan.hazards.is_empty() || !random.per_mille(OF_STALLS) {
        return;
    }
    plan.hazards.clear();
    (plan.tuning.replace_after_ms, plan.shape.wall_clock) = (0, false);
    let mut at = random.between(500, 1_500);
    while at < plan.load.run_ms {
        let (node, for_ms) = (random.between(1, plan.shape.nodes), *random.pick(&[300, 1_200, 2_500, 4_000]));
        plan.hazards.push(hazard(at, FaultKind::DiskStall, node, for_ms));
        at += for_ms + random.between(500, 2_000);
    }
}
