//! Who leads while a disk ends no write: another, within two election timeouts and what handing over takes.
//!
//! Always: only the first stall of a lane for long is judged (each that moved leaders doubles what the next waits
//! for, core-cluster's `log_stall.rs`), and only in plans in which nothing but disks stalls, one at a time.
//! Not here: the stall (`disks`), when it comes (`plan`).

use super::{Due, World};
use crate::plan::{FaultKind, Plan};
use base_types::ClusterId;
use proof_check::Violation;
use std::collections::{BTreeMap, BTreeSet};

/// A stall is the first for this lane where the last one was so long ago.
const FORGOTTEN_US: u64 = 40_000_000;

/// A log write counts as failed after 5 s (`LOG_STALL_MS`), by a clock that may be 5 % fast.
const FAILED_US: u64 = 4_750_000;

/// Stalls that are no farther apart are one.
const STALLS_APART_US: u64 = 20_000;

/// A write that a stall lets wait: of which life of its node, when it began, when it ends.
#[derive(Clone, Copy)]
struct Waits {
    life: u64,
    begun: u64,
    ends: u64,
}

/// The last write of each lane that a stall let wait.
#[derive(Default)]
pub struct Stalls {
    last: BTreeMap<(usize, usize), Waits>,
    /// What each lane led in its sleep since its stall began, or was last judged: who is woken has its time from then on.
    asleep: BTreeMap<(usize, usize), BTreeSet<ClusterId>>,
}

/// Whether disks that stall, one at a time, are all that happens.
pub fn judges_stalls(plan: &Plan) -> bool {
    let ends = |at: usize| plan.hazards[at].at_ms + plan.hazards[at].for_ms;
    !plan.hazards.is_empty()
        && plan.shape.cluster_size >= 3
        && plan.shape.nodes >= 3
        && plan.hazards.iter().all(|hazard| hazard.kind == FaultKind::DiskStall)
        && (1..plan.hazards.len()).all(|at| ends(at - 1) < plan.hazards[at].at_ms)
}

impl World {
    /// An operation of the log has begun that will not end before the stall does; a write may wait for it.
    pub(super) fn note_stall(&mut self, node: usize, lane: usize, ends: u64, is_write: bool) {
        let (now, life) = (self.now, self.nodes[node].life);
        let last = self.stalls.last.get(&(node, lane)).copied();
        // One stall behind the other: what waits may have waited through both.
        let goes_on = last.filter(|last| last.life == life && last.ends + STALLS_APART_US >= now);
        let begun = goes_on.map_or(now, |last| last.begun);
        self.stalls.last.insert((node, lane), Waits { life, begun, ends });
        let first = last.is_none_or(|last| now - last.begun > FORGOTTEN_US);
        if !first || !is_write || !judges_stalls(&self.plan) {
            return;
        }
        self.judge_later(node, lane, life);
    }

    /// So long after now, two election timeouts and a half.
    fn judge_later(&mut self, node: usize, lane: usize, life: u64) {
        let views = self.nodes[node].lanes[lane].machine.iter().flat_map(|machine| machine.views());
        let asleep = views.filter(|view| view.is_leader && view.quiesced).map(|view| view.cluster).collect();
        self.stalls.asleep.insert((node, lane), asleep);
        let tuning = &self.plan.tuning;
        let election_us = tuning.tick_ms * tuning.election_ticks as u64 * 1_000;
        self.schedule(self.now + election_us * 5 / 2, Due::StallJudged { node, lane, life });
    }

    /// What leads and falls asleep while its lane waits to be judged has its time from when it is woken, too (seed 1087: one was
    /// woken 0.7 ms before the judgement).
    pub(super) fn note_sleep(&mut self, node: usize, lane: usize, machine: &dyn crate::machine::Machine) {
        let Some(asleep) = self.stalls.asleep.get_mut(&(node, lane)) else { return };
        let glances = machine.glances().into_iter();
        asleep.extend(glances.filter(|glance| glance.is_leader && glance.quiesced).map(|glance| glance.cluster));
    }

    /// Whether a write of a node is, or was until just now, under way for so long that its log may count as failed.
    pub(super) fn has_stalled_for_long(&self, node: usize) -> bool {
        let life = self.nodes[node].life;
        let mut waits = self.stalls.last.range((node, 0)..=(node, usize::MAX)).map(|(_, waits)| *waits);
        waits.any(|waits| waits.life == life && self.now.min(waits.ends) - waits.begun >= FAILED_US)
    }

    /// So long after: it leads nothing that others could lead. A leader that slept is judged so long after it was woken, or later
    /// (lane seed 346: one was woken 30 ms before its node was judged).
    pub(super) fn judge_stall(&mut self, node: usize, lane: usize, life: u64) {
        if !self.is_alive(node, life) || self.nodes[node].stalled_until <= self.now {
            return;
        }
        let Some(machine) = self.nodes[node].lanes[lane].machine.as_ref() else { return };
        let views = machine.views().into_iter();
        let slept = self.stalls.asleep.remove(&(node, lane)).unwrap_or_default();
        let led = views.filter(|view| view.is_leader && view.members.len() >= 3);
        let (judged, later): (Vec<_>, Vec<_>) = led.partition(|view| !view.quiesced && !slept.contains(&view.cluster));
        let led: Vec<_> = judged.into_iter().map(|view| (view.cluster, view.term, view.name)).collect();
        self.probe("stall_judged");
        let machines = || self.nodes.iter().flat_map(|node| &node.lanes).filter_map(|lane| lane.machine.as_ref());
        let glances: Vec<_> = machines().flat_map(|machine| machine.glances()).collect();
        for (cluster, term, name) in led {
            let newer = glances.iter().any(|seen| seen.cluster == cluster && seen.is_leader && seen.term > term);
            if !newer {
                let message = format!(
                    "node {} still leads {name} in {term:?} although its log write has been under way for more than two election timeouts",
                    node + 1
                );
                self.violate(Violation::new("stall", message, vec![]));
            }
        }
        if !later.is_empty() {
            self.judge_later(node, lane, life);
        }
    }
}
