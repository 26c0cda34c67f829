//! What this core knows of clusters elsewhere: where they are, who led them last, what their clock
//! said. The Hive paper's resolve cache (2.1).
//!
//! Always: an entry is a guess; a wrong one costs a redirect, never a wrong answer. At most
//! `ROUTES_MAX` entries; level 0 clusters are pinned. Held by: `the_cache_is_bounded_and_keeps_what_is_used`, `stale_route_costs_a_redirect_without_the_world`. Not here: asking `reference` (router.rs).

use base_types::{ClusterId, ClusterName, Generation, NodeId, ReadConsistency, Term, Tick, WriteConsistency};
use core_cluster::api::{Member, ReplicaView};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most clusters remembered: about 300 bytes each.
pub const ROUTES_MAX: usize = 100_000;
/// How many entries are looked at to find one to drop.
const EVICTION_STEPS_MAX: usize = 64;

/// A cluster as last seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Route {
    pub cluster: ClusterId,
    pub generation: Generation,
    /// Shared, since every attempt takes it along.
    pub members: Arc<[Member]>,
    pub leader: Option<NodeId>,
    /// The term in which `leader` was reported.
    pub term: Term,
    pub rule: String,
    pub consistency: WriteConsistency,
    pub read_consistency: ReadConsistency,
    /// The cluster's clock in milliseconds, and when it said so.
    pub clock: Option<(u64, Tick)>,
    /// Known by configuration: never dropped, never asked for.
    pub pinned: bool,
    /// Looked up since the hand passed.
    pub used: bool,
}

/// The rules of the two level 0 clusters: their members are an operator's choice, the rule only names levels.
const LEVEL_ZERO_RULE: &str = "location=world";

impl Route {
    /// To a level 0 cluster with these members.
    pub fn of_level_zero(cluster: ClusterId, generation: Generation, members: Arc<[Member]>) -> Route {
        Route {
            cluster,
            generation,
            members,
            leader: None,
            term: Term(0),
            rule: LEVEL_ZERO_RULE.into(),
            consistency: WriteConsistency::Strong,
            read_consistency: ReadConsistency::Strong,
            clock: None,
            pinned: true,
            used: true,
        }
    }

    /// To a cluster of this lane.
    pub fn of_replica(view: &ReplicaView) -> Route {
        Route {
            cluster: view.cluster,
            generation: view.generation,
            members: view.members.clone(),
            leader: view.leader.filter(|_| view.is_leader),
            term: view.term,
            rule: String::new(),
            consistency: Default::default(),
            read_consistency: Default::default(),
            clock: None,
            pinned: false,
            used: true,
        }
    }

    /// The cluster's clock now, as far as can be told; 0 where it never spoke.
    pub fn clock_now(&self, now: Tick) -> u64 {
        self.clock.map_or(0, |(ms, at)| ms.saturating_add(now.since(at).as_millis() as u64))
    }

    /// Notes what the cluster's clock says. It only advances.
    pub fn note_clock(&mut self, now: Tick, cluster_time_ms: u64) {
        if cluster_time_ms >= self.clock_now(now) || self.clock.is_none() {
            self.clock = Some((cluster_time_ms, now));
        }
    }
}

/// The cache.
#[derive(Debug, Default)]
pub struct RouteCache {
    routes: BTreeMap<Arc<ClusterName>, Route>,
    /// Where the search for something to drop continues (a clock's hand).
    hand: Option<Arc<ClusterName>>,
}

impl RouteCache {
    /// How many entries there are.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// An entry, with the shared form of its name.
    pub fn find(&mut self, name: &ClusterName) -> Option<(&Arc<ClusterName>, &mut Route)> {
        // `get_key_value_mut` does not exist; a range of one key does the same.
        let (key, route) = self.routes.range_mut::<ClusterName, _>(name..=name).next()?;
        route.used = true;
        Some((key, route))
    }

    /// An entry.
    pub fn get(&self, name: &ClusterName) -> Option<&Route> {
        self.routes.get(name)
    }

    /// An entry, to be changed.
    pub fn get_mut(&mut self, name: &ClusterName) -> Option<&mut Route> {
        self.routes.get_mut(name)
    }

    /// Puts an entry in. The clock of an entry for the same life of the cluster is kept.
    pub fn put(&mut self, name: Arc<ClusterName>, mut route: Route) {
        if let Some(old) = self.routes.get(&*name) {
            if old.cluster == route.cluster && old.generation == route.generation {
                route.clock = route.clock.or(old.clock);
                if route.leader.is_none() && old.term >= route.term {
                    (route.leader, route.term) = (old.leader, old.term);
                }
            }
        } else if self.routes.len() >= ROUTES_MAX {
            self.evict();
        }
        self.routes.insert(name, route);
    }

    /// Drops an entry that proved wrong, if it is (still) of that life.
    pub fn flush(&mut self, name: &ClusterName, cluster: ClusterId, generation: Generation) -> bool {
        let same = |route: &Route| !route.pinned && route.cluster == cluster && route.generation == generation;
        let wrong = self.routes.get(name).is_some_and(same);
        if wrong {
            self.routes.remove(name);
        }
        wrong
    }

    fn evict(&mut self) {
        for _ in 0..EVICTION_STEPS_MAX {
            let next = match &self.hand {
                Some(hand) => self
                    .routes
                    .range_mut::<Arc<ClusterName>, _>((
                        core::ops::Bound::Excluded(hand.clone()),
                        core::ops::Bound::Unbounded,
                    ))
                    .next(),
                None => self.routes.iter_mut().next(),
            };
            let Some((name, route)) = next else {
                self.hand = None;
                continue;
            };
            let name = name.clone();
            if !route.pinned && !core::mem::take(&mut route.used) {
                self.routes.remove(&*name);
                self.hand = Some(name);
                return;
            }
            self.hand = Some(name);
        }
        // Everything near the hand is in use: the first that is not pinned goes.
        let victim = self.routes.iter().find(|(_, route)| !route.pinned).map(|(name, _)| name.clone());
        if let Some(name) = victim {
            self.routes.remove(&*name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(cluster: u64, generation: u32) -> Route {
        Route {
            cluster: ClusterId(cluster),
            generation: Generation(generation),
            members: Arc::from([]),
            leader: None,
            term: Term(0),
            rule: String::new(),
            consistency: WriteConsistency::Strong,
            read_consistency: ReadConsistency::Strong,
            clock: None,
            pinned: false,
            used: false,
        }
    }

    fn name(number: usize) -> Arc<ClusterName> {
        Arc::new(format!("metadata@c{number}").parse().unwrap())
    }

    #[test]
    fn a_flush_meets_only_its_own_generation() {
        let mut cache = RouteCache::default();
        cache.put(name(1), route(7, 2));
        assert!(!cache.flush(&name(1), ClusterId(7), Generation(1)));
        assert!(cache.find(&name(1)).is_some());
        assert!(cache.flush(&name(1), ClusterId(7), Generation(2)));
        assert!(cache.find(&name(1)).is_none());
        cache.put(name(2), Route { pinned: true, ..route(1, 1) });
        assert!(!cache.flush(&name(2), ClusterId(1), Generation(1)));
    }

    #[test]
    fn the_clock_advances_and_outlives_a_refresh() {
        let mut cache = RouteCache::default();
        cache.put(name(1), route(7, 1));
        cache.get_mut(&name(1)).unwrap().note_clock(Tick::from_millis(100), 5_000);
        cache.put(name(1), route(7, 1));
        let known = cache.get_mut(&name(1)).unwrap();
        assert_eq!(known.clock_now(Tick::from_millis(150)), 5_050);
        known.note_clock(Tick::from_millis(150), 5_010);
        assert_eq!(known.clock_now(Tick::from_millis(150)), 5_050, "an old answer does not set it back");
        cache.put(name(1), route(8, 2));
        assert_eq!(cache.get(&name(1)).unwrap().clock_now(Tick::from_millis(150)), 0, "another life, another clock");
    }

    #[test]
    fn the_cache_is_bounded_and_keeps_what_is_used() {
        let mut cache = RouteCache::default();
        cache.put(name(0), Route { pinned: true, ..route(1, 1) });
        for number in 1..ROUTES_MAX + 50 {
            cache.put(name(number), route(number as u64, 1));
            cache.find(&name(1));
        }
        assert_eq!(cache.len(), ROUTES_MAX);
        assert!(cache.get(&name(0)).is_some() && cache.get(&name(1)).is_some());
    }
}
