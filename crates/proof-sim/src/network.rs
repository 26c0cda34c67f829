//! Links between nodes: latency by region, cuts in one or both ways, noise, and the connections on top
//! of them, which come up and go down as TCP's would: reset at once, or found dead by a timeout.
//!
//! Always: frames keep their order on a link unless reordering is on.
//! Held by: `keeps_order_cuts_one_way_and_mends_what_was_cut_twice`.
//! Not here: queues of events (`world`).

use crate::plan::FaultKind;
use crate::random::Random;
use std::collections::{BTreeMap, BTreeSet};

/// A peer that does not answer pings for this long is taken for dead.
pub const PING_TIMEOUT_US: u64 = 3_000_000;
/// The latest a frame comes.
pub const DELAY_US_MAX: u64 = 60_000_000;

/// A connection between two nodes (lower number first).
#[derive(Clone, Copy, Default, Debug)]
pub struct Connection {
    pub up: bool,
    /// Since when it could not carry anything.
    pub dead_since: Option<u64>,
}

/// All links of the world. Nodes are numbered from 0.
#[derive(Default, Debug)]
pub struct Network {
    /// Region of each node.
    pub regions: Vec<u64>,
    /// Cut links, with how many hazards cut them.
    cuts: BTreeMap<(usize, usize), u32>,
    /// Noise that is on: kind and amount, by the hazard that made it.
    noise: BTreeMap<usize, (FaultKind, u64)>,
    /// Nodes that hear late (0: not at all), in milliseconds, by the hazard that made them so.
    deaf: BTreeMap<usize, (usize, u64)>,
    pub connections: BTreeMap<(usize, usize), Connection>,
    /// When the last frame of a link arrives.
    last_arrival: BTreeMap<(usize, usize, u16), u64>,
    /// Who knows whose address.
    pub known: BTreeSet<(usize, usize)>,
    /// Pairs (lower number first) whose link or connection changed since somebody looked; and whether noise did.
    pub shaken: BTreeSet<(usize, usize)>,
    pub noise_changed: bool,
}

/// What became of a frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Route {
    /// Arrival times; none: lost; two: duplicated.
    pub arrivals: Vec<u64>,
    /// Noise that fired.
    pub fired: Vec<FaultKind>,
}

impl Network {
    pub fn cut(&mut self, from: usize, to: usize) {
        self.shake(from, to);
        *self.cuts.entry((from, to)).or_default() += 1;
    }

    pub fn mend(&mut self, from: usize, to: usize) {
        self.shake(from, to);
        if let Some(count) = self.cuts.get_mut(&(from, to)) {
            *count -= 1;
            if *count == 0 {
                self.cuts.remove(&(from, to));
            }
        }
    }

    /// Something about the link of a pair has changed.
    pub fn shake(&mut self, one: usize, other: usize) {
        self.shaken.insert((one.min(other), one.max(other)));
    }

    /// Some frames are lost or late.
    pub fn is_noisy(&self) -> bool {
        !self.noise.is_empty() || !self.deaf.is_empty()
    }

    pub fn is_cut(&self, from: usize, to: usize) -> bool {
        self.cuts.contains_key(&(from, to))
    }

    pub fn set_noise(&mut self, hazard: usize, kind: FaultKind, amount: u64) {
        self.noise_changed = true;
        self.noise.insert(hazard, (kind, amount));
    }

    pub fn clear_noise(&mut self, hazard: usize) {
        self.noise_changed = true;
        self.noise.remove(&hazard);
        self.deaf.remove(&hazard);
    }

    /// What a node hears comes up to so many milliseconds late, from each peer another time; 0: never.
    pub fn deafen(&mut self, hazard: usize, node: usize, late_ms: u64) {
        self.noise_changed = true;
        self.deaf.insert(hazard, (node, late_ms));
    }

    /// How late a frame comes for the ears of its receiver; `None`: never.
    fn lateness(&self, from: usize, to: usize) -> Option<u64> {
        let mut late = 0;
        for (hazard, (_, amount)) in self.deaf.iter().filter(|(_, (node, _))| *node == to) {
            if *amount == 0 {
                return None;
            }
            late = late.max((from as u64 * 7_919 + *hazard as u64 * 104_729) % (amount + 1));
        }
        Some(late * 1_000)
    }

    /// Everything works again.
    pub fn heal(&mut self) {
        self.noise_changed = true;
        self.cuts.clear();
        self.deaf.clear();
        self.noise.clear();
    }

    fn amount(&self, kind: FaultKind) -> u64 {
        self.noise.values().filter(|(of, _)| *of == kind).map(|(_, amount)| *amount).max().unwrap_or(0)
    }

    fn is_on(&self, kind: FaultKind) -> bool {
        self.noise.values().any(|(of, _)| *of == kind)
    }

    /// One way between two nodes.
    pub fn latency(&self, from: usize, to: usize, random: &mut Random) -> u64 {
        let base = match (self.regions[from], self.regions[to]) {
            (one, other) if one == other => 150,
            (one, other) => 4_000 + 3_000 * one.abs_diff(other),
        };
        base + random.below(base / 2 + 100) + self.amount(FaultKind::SlowLinks) * 1_000
    }

    /// Sends a frame on a link whose connection is up.
    pub fn route(&mut self, now: u64, from: usize, to: usize, lane: u16, random: &mut Random) -> Route {
        let mut route = Route { arrivals: Vec::new(), fired: Vec::new() };
        if self.is_cut(from, to) {
            return route;
        }
        if random.per_mille(self.amount(FaultKind::Loss)) {
            route.fired.push(FaultKind::Loss);
            return route;
        }
        if self.is_on(FaultKind::SlowLinks) {
            route.fired.push(FaultKind::SlowLinks);
        }
        let Some(late) = self.lateness(from, to) else {
            route.fired.push(FaultKind::Deaf);
            return route;
        };
        if late > 0 {
            route.fired.push(FaultKind::Deaf);
        }
        let mut arrival = now + late + self.latency(from, to, random);
        if random.per_mille(self.amount(FaultKind::Delay)) {
            route.fired.push(FaultKind::Delay);
            route.arrivals.push(now + random.below(DELAY_US_MAX));
            return route;
        }
        if self.is_on(FaultKind::Reorder) {
            arrival += random.below(20_000);
            route.fired.push(FaultKind::Reorder);
        } else {
            let last = self.last_arrival.entry((from, to, lane)).or_default();
            arrival = arrival.max(*last + 1);
            *last = arrival;
        }
        route.arrivals.push(arrival);
        if random.per_mille(self.amount(FaultKind::Duplicate)) {
            route.fired.push(FaultKind::Duplicate);
            route.arrivals.push(arrival + random.below(50_000));
        }
        route
    }

    /// The connection of a pair.
    pub fn connection(&mut self, one: usize, other: usize) -> &mut Connection {
        self.connections.entry((one.min(other), one.max(other))).or_default()
    }

    pub fn is_connected(&self, one: usize, other: usize) -> bool {
        self.connections.get(&(one.min(other), one.max(other))).is_some_and(|connection| connection.up)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_order_cuts_one_way_and_mends_what_was_cut_twice() {
        let mut network = Network { regions: vec![1, 1, 2], ..Network::default() };
        let mut random = Random::stream(1, "network");
        let arrivals: Vec<u64> = (0..100).map(|now| network.route(now, 0, 2, 0, &mut random).arrivals[0]).collect();
        assert!(arrivals.windows(2).all(|pair| pair[0] < pair[1]));
        network.cut(0, 1);
        network.cut(0, 1);
        network.mend(0, 1);
        assert!(network.is_cut(0, 1) && !network.is_cut(1, 0));
        assert!(network.route(0, 0, 1, 0, &mut random).arrivals.is_empty());
        network.set_noise(0, FaultKind::Duplicate, 1000);
        assert_eq!(network.route(0, 1, 0, 0, &mut random).arrivals.len(), 2);
    }
}
