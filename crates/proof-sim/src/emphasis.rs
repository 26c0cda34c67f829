//! What a seed leans to. Half of all seeds draw every fault alike; each of the others is bent towards
//! one kind of story in which protocols break: leases under isolated leaders, elections with crashes at
//! the vote, power loss with slow disks, snapshots, lost requests, moves, members, buckets.
//!
//! Always: a bent plan promises no less than another: what it breaks a correct world survives.
//! Held by: `every_kind_is_drawn_and_every_bent_plan_is_one_this_simulator_runs`.
//! Not here: the unbent plan (`swarm`).

use crate::plan::{FaultKind, Hazard, Layer, Plan};
use crate::random::Random;
use crate::swarm::{damages, draw_pair_rot};

/// The kinds of story.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Emphasis {
    /// Not bent.
    Plain,
    /// Leaders that cannot hear, are paused, cut off or handing over, while others write.
    Leases,
    /// Isolation goes round, and nodes die of votes.
    Elections,
    /// Disks are slow and the power goes.
    Power,
    /// Followers need snapshots and die of them.
    Snapshots,
    /// Clusters fall quiet under loss.
    Quiet,
    /// Frames are up to a minute late, and clients retry (core).
    Retries,
    /// Keyspaces move under load (core).
    Moves,
    /// Members come, go and lose their disks while isolation goes round (core).
    Members,
    /// One node's log rots while isolation goes round (core).
    Rot,
    /// Buckets whose shards split and merge, uploads, names that are raced for (core).
    Buckets,
    /// A majority of a cluster is gone for good, the cluster is recovered, and the dead come back (core).
    Recovery,
    /// Nodes want to know who asks; users, tokens and roles come and go while some node does not hear of it (core).
    Access,
}

use Emphasis::*;

/// Every kind, with its name on command lines and in tables.
pub const ALL: &[(Emphasis, &str)] = &[
    (Plain, "plain"),
    (Leases, "leases"),
    (Elections, "elections"),
    (Power, "power"),
    (Snapshots, "snapshots"),
    (Quiet, "quiet"),
    (Retries, "retries"),
    (Moves, "moves"),
    (Members, "members"),
    (Rot, "rot"),
    (Buckets, "buckets"),
    (Recovery, "recovery"),
    (Access, "access"),
];

/// The stories of a lane alone.
const LANE: &[Emphasis] = &[Leases, Elections, Power, Snapshots, Quiet];
/// The stories of a whole core.
const CORE: &[Emphasis] = &[Leases, Elections, Power, Snapshots, Quiet, Retries, Moves, Members, Rot];

/// Of a thousand seeds of the whole core that would not be bent, so many lean to buckets.
const OF_PLAIN_TO_BUCKETS: u64 = 100;

/// And so many to a majority that is gone for good.
const OF_PLAIN_TO_RECOVERY: u64 = 40;
/// And so many to users that come and go.
const OF_PLAIN_TO_ACCESS: u64 = 50;
/// Of a thousand that lean to rot, so many have it on two nodes.
const OF_ROT_TO_SEVERAL: u64 = 200;

/// What a seed leans to.
pub fn of(seed: u64, layer: Layer) -> Emphasis {
    let mut random = Random::stream(seed, "emphasis");
    if random.per_mille(500) {
        // A stream of its own: the others lean to what they leant to before there were buckets.
        let to_buckets =
            layer == Layer::Core && Random::stream(seed, "emphasis on buckets").per_mille(OF_PLAIN_TO_BUCKETS);
        let to_recovery =
            layer == Layer::Core && Random::stream(seed, "emphasis on recovery").per_mille(OF_PLAIN_TO_RECOVERY);
        let to_access =
            layer == Layer::Core && Random::stream(seed, "emphasis on access").per_mille(OF_PLAIN_TO_ACCESS);
        return match (to_buckets, to_recovery, to_access) {
            (true, _, _) => Buckets,
            (false, true, _) => Recovery,
            (false, false, true) => Access,
            (false, false, false) => Plain,
        };
    }
    *random.pick(if layer == Layer::Lane { LANE } else { CORE })
}

impl Emphasis {
    /// Its name.
    pub fn name(self) -> &'static str {
        ALL.iter().find(|(of, _)| *of == self).map_or("", |(_, name)| name)
    }

    /// Bends a plan.
    pub fn bend(self, plan: &mut Plan) {
        if self != Plain {
            // Nodes go for good in plans that are not bent: here they only seem to.
            plan.tuning.replace_after_ms = 0;
            plan.hazards.retain(|hazard| !matches!(hazard.kind, FaultKind::MoveMember | FaultKind::Decommission));
        }
        let mut bend = Bend { random: Random::stream(plan.seed, "bend"), plan };
        match self {
            Plain => {}
            Leases => bend.leases(),
            Elections => bend.elections(),
            Power => bend.power(),
            Snapshots => bend.snapshots(),
            Quiet => bend.quiet(),
            Retries => bend.retries(),
            Moves => bend.moves(),
            Members => bend.members(),
            Rot => bend.rot(),
            Buckets => bend.buckets(),
            Recovery => bend.recovery(),
            Access => bend.access(),
        }
        if self != Plain {
            plan.hazards.sort_by_key(|hazard| hazard.at_ms);
        }
    }
}

struct Bend<'a> {
    random: Random,
    plan: &'a mut Plan,
}

impl Bend<'_> {
    /// One cluster or two over all of three or five nodes, and one thing at a time.
    fn small_world(&mut self, sizes: &[u64]) {
        let size = *self.random.pick(sizes);
        let shape = &mut self.plan.shape;
        (shape.nodes, shape.cluster_size, shape.world_members) = (size, size, size.min(3));
        (shape.lanes, shape.keyspaces) = (1, 0);
        shape.regions = shape.regions.min(size);
        shape.clusters = self.random.between(1, 2);
        self.plan.load.lifecycle = 0;
        self.plan.hazards.clear();
    }

    fn election_ms(&self) -> u64 {
        self.plan.tuning.tick_ms * self.plan.tuning.election_ticks as u64
    }

    fn node(&mut self) -> u64 {
        self.random.between(1, self.plan.shape.nodes)
    }

    fn add(&mut self, at_ms: u64, kind: FaultKind, node: u64, for_ms: u64, amount: u64) {
        let peer = 1 + (node - 1 + self.random.between(1, self.plan.shape.nodes.max(2) - 1)) % self.plan.shape.nodes;
        if at_ms <= self.plan.load.run_ms {
            self.plan.hazards.push(Hazard { at_ms, kind, node, peer, for_ms, amount });
        }
    }

    fn add_between(&mut self, at_ms: u64, kind: FaultKind, (node, peer): (u64, u64), for_ms: u64) {
        if at_ms <= self.plan.load.run_ms {
            self.plan.hazards.push(Hazard { at_ms, kind, node, peer, for_ms, amount: 0 });
        }
    }

    /// A moment of the run.
    fn moment(&mut self) -> u64 {
        self.random.below(self.plan.load.run_ms)
    }

    /// Isolates one node after another, each for one to two and a half election timeouts.
    fn rotate(&mut self) {
        let least = self.election_ms();
        let mut at = self.random.below(500);
        let mut last = 0;
        let kind = *self.random.pick(&[FaultKind::BlackHole, FaultKind::BlackHole, FaultKind::Isolate]);
        while at < self.plan.load.run_ms {
            let node = self.node();
            let for_ms = self.random.between(least, least * 5 / 2);
            if node != last || self.plan.shape.nodes == 1 {
                self.add(at, kind, node, for_ms, 0);
                at += for_ms + self.random.below(30);
                last = node;
            }
            if self.random.per_mille(100) {
                at += least * 2;
            }
        }
    }

    /// Clients that read and write through nodes of their own, besides a few of the others.
    fn homed_load(&mut self, think_ms: &[u64]) {
        let think_ms = *self.random.pick(think_ms);
        let nodes = self.plan.shape.nodes;
        let load = &mut self.plan.load;
        // Readers of three speeds at each node.
        (load.readers, load.writers, load.mixed) = (3 * nodes, nodes, 1);
        (load.think_ms, load.value_bytes) = (think_ms, 16);
        load.keys = load.keys.min(2);
        load.run_ms = load.run_ms.min(10_000);
    }

    fn leases(&mut self) {
        self.small_world(&[3, 3, 5]);
        self.plan.shape.clusters = 1;
        self.plan.tuning.tick_ms = *self.random.pick(&[30, 100]);
        self.plan.tuning.buggify = self.random.per_mille(700);
        self.homed_load(&[3, 10]);
        (self.plan.load.hopeful, self.plan.load.eventual, self.plan.load.absolute) = (0, 0, 0);
        self.plan.load.deadline_ms = *self.random.pick(&[500, 2_000]);
        let election = self.election_ms();
        let story = self.random.below(5);
        if story == 1 {
            return self.forgetful_voters();
        }
        if story == 0 || self.random.per_mille(200) {
            self.rotate();
        }
        if story == 2 || self.random.per_mille(200) {
            self.deaf_leaders(election);
        }
        if story == 3 {
            for _ in 0..self.random.between(3, 10) {
                let (at, node, for_ms) = (self.moment(), self.node(), self.random.between(election / 2, election * 3));
                self.add(at, FaultKind::Pause, node, for_ms, 0);
            }
        }
        if story == 4 || self.random.per_mille(300) {
            for node in 1..=self.plan.shape.nodes {
                // The bounds of what is trusted: clocks within 5 % of each other, so 2.4 % either way.
                let amount = 24_000 - self.random.below(2);
                self.add(0, FaultKind::Drift, node, self.plan.load.run_ms, amount);
            }
            self.rotate();
        }
    }

    /// A member that has not heard its leader for long asks for the vote of one that has just been
    /// restarted, while that leader is cut off with a fresh lease.
    fn forgetful_voters(&mut self) {
        // Long leases: a restart and what comes of it fit into one.
        self.plan.tuning.tick_ms = 100;
        self.plan.load.run_ms = 12_000;
        let (run_ms, election) = (self.plan.load.run_ms, self.election_ms());
        // Writes are rare: a member that missed one is not elected.
        let load = &mut self.plan.load;
        (load.mixed, load.counters, load.ledger, load.writers_rest) = (0, 0, 0, 100);
        let mut at = self.random.below(election);
        while at < run_ms {
            let order = self.random.shuffled(self.plan.shape.nodes as usize);
            let (leader, waiting) = (order[0] as u64 + 1, order[1] as u64 + 1);
            self.add(at, FaultKind::Transfer, leader, 0, 0);
            at += election / 2;
            self.add_between(at, FaultKind::Cut, (leader, waiting), election * 3);
            at += election * 5 / 4 + self.random.below(election);
            for voter in order.iter().skip(2).map(|voter| *voter as u64 + 1) {
                self.add(at, FaultKind::Crash, voter, 1, 0);
                self.add_between(at, FaultKind::Cut, (leader, voter), election);
            }
            at += election * 3 / 2;
        }
    }

    /// Nodes hear late or nothing, while leadership is handed over.
    fn deaf_leaders(&mut self, election: u64) {
        let mut at = 0;
        while at < self.plan.load.run_ms {
            at += self.random.between(50, election);
            let (node, to) = (self.node(), self.node());
            let late = *self.random.pick(&[0, election / 4, election / 2]);
            let for_ms = self.random.between(50, election);
            self.add(at, FaultKind::Deaf, node, for_ms, late);
            let behind = self.random.below(for_ms);
            self.add(at + behind, FaultKind::Transfer, to, 0, 0);
            at += for_ms;
        }
    }

    fn elections(&mut self) {
        self.small_world(&[3, 3, 5]);
        self.plan.tuning.buggify = self.random.per_mille(700);
        self.homed_load(&[3, 20]);
        let tuning = &mut self.plan.tuning;
        tuning.tick_ms = *self.random.pick(&[10, 30]);
        tuning.flush_after_ms = *self.random.pick(&[20, 2_000]);
        tuning.flush_bytes = *self.random.pick(&[64, 64 << 10]);
        if self.random.per_mille(500) {
            self.plan.load.mixed = 4;
        }
        if self.random.per_mille(350) {
            return self.figure_eight();
        }
        let run_ms = self.plan.load.run_ms;
        self.rotate();
        if self.random.per_mille(400) {
            for node in 1..=self.plan.shape.nodes {
                let amount = *self.random.pick(&[2, 10, 30]);
                self.add(0, FaultKind::SlowDisk, node, run_ms, amount);
            }
        }
        let deadly = *self.random.pick(&[
            FaultKind::CrashAtVote,
            FaultKind::CrashAtVote,
            FaultKind::Crash,
            FaultKind::CrashAll,
            FaultKind::PowerLoss,
        ]);
        let mut at = 0;
        while at < run_ms {
            at += self.random.between(self.election_ms() / 4, self.election_ms() * 2);
            let (node, after_us) = (self.node(), *self.random.pick(&[0, 100, 500]));
            let drawn = *self.random.pick(&[1, 1, 50]);
            self.add(at, deadly, node, drawn, after_us);
        }
    }

    /// Each new leader is cut off, half-way through its first messages or with the first entry it commits. The one that
    /// was cut off before comes back with entries that no other member has (Raft paper, figure 8).
    fn figure_eight(&mut self) {
        self.plan.tuning.buggify = true;
        let (run_ms, election) = (self.plan.load.run_ms, self.election_ms());
        let mut at = self.random.below(election);
        while at < run_ms {
            let for_ms = self.random.between(election * 6, election * 30);
            self.add(at, FaultKind::SeeSaw, 1, for_ms, 0);
            // Now and then all is well for a while.
            at += for_ms + self.random.between(1, election * 3);
        }
    }

    fn power(&mut self) {
        self.small_world(&[1, 1, 3, 3, 5]);
        let run_ms = self.plan.load.run_ms.min(8_000);
        let load = &mut self.plan.load;
        (load.run_ms, load.ledger, load.mixed) = (run_ms, 3, 3);
        load.think_ms = *self.random.pick(&[3, 10]);
        load.value_bytes = *self.random.pick(&[16, 1_000]);
        load.eventual = 300;
        let tuning = &mut self.plan.tuning;
        tuning.flush_after_ms = *self.random.pick(&[20, 2_000]);
        tuning.flush_bytes = *self.random.pick(&[64, 64 << 10, 1 << 20]);
        tuning.tick_ms = 10;
        let slow = *self.random.pick(&[0, 5, 30]);
        for node in 1..=self.plan.shape.nodes {
            self.add(0, FaultKind::SlowDisk, node, run_ms, slow);
        }
        for _ in 0..self.random.between(4, 10) {
            let kind = *self.random.pick(&[
                FaultKind::CrashAll,
                FaultKind::CrashAll,
                FaultKind::PowerLoss,
                FaultKind::SyncError,
                FaultKind::SyncError,
            ]);
            let (at, node, for_ms) = (self.moment(), self.node(), *self.random.pick(&[1, 20, 200]));
            self.add(at, kind, node, for_ms, 0);
        }
    }

    fn snapshots(&mut self) {
        self.small_world(&[3, 3, 5]);
        self.plan.tuning.buggify = self.random.per_mille(600);
        let run_ms = self.plan.load.run_ms.min(10_000);
        let load = &mut self.plan.load;
        (load.run_ms, load.mixed, load.counters) = (run_ms, 4, 1);
        (load.think_ms, load.value_bytes, load.keys) = (5, 200, 8);
        let tuning = &mut self.plan.tuning;
        (tuning.flush_bytes, tuning.flush_after_ms, tuning.log_keep_bytes) = (64, 20, 0);
        tuning.snapshot_chunk_bytes = *self.random.pick(&[64, 512]);
        tuning.tick_ms = 10;
        if self.random.per_mille(500) {
            for node in 1..=self.plan.shape.nodes {
                let drawn = *self.random.pick(&[5, 20]);
                self.add(0, FaultKind::SlowDisk, node, run_ms, drawn);
            }
        }
        let mut at = 0;
        while at < run_ms {
            let (node, for_ms) = (self.node(), self.random.between(100, 800));
            self.add(at, FaultKind::BlackHole, node, for_ms, 0);
            at += for_ms;
            // It dies while a snapshot comes in, most of the time.
            for _ in 0..self.random.below(4) {
                let at = at + self.random.below(150);
                let drawn = *self.random.pick(&[1, 20]);
                self.add(at, FaultKind::PowerLoss, node, drawn, 0);
            }
            at += self.random.between(200, 600);
        }
    }

    fn quiet(&mut self) {
        self.plan.hazards.clear();
        let shape = &mut self.plan.shape;
        shape.nodes = shape.nodes.max(3);
        shape.cluster_size = *self.random.pick(&[3, 3, shape.nodes]);
        (shape.clusters, shape.keyspaces) = (3, 0);
        let load = &mut self.plan.load;
        (load.mixed, load.ledger, load.counters, load.lifecycle) = (2, 0, 0, 0);
        load.think_ms = *self.random.pick(&[200, 500]);
        self.plan.tuning.quiesce_after_ticks = *self.random.pick(&[2, 5, 15]);
        self.plan.tuning.tick_ms = 10;
        let run_ms = self.plan.load.run_ms;
        let drawn = *self.random.pick(&[100, 300, 500]);
        self.add(0, FaultKind::Loss, 1, run_ms, drawn);
        for _ in 0..self.random.below(3) {
            let (at, node, for_ms) = (self.moment(), self.node(), self.random.between(100, 2_000));
            let drawn = *self.random.pick(&[FaultKind::Deaf, FaultKind::Pause, FaultKind::BlackHole]);
            self.add(at, drawn, node, for_ms, 0);
        }
    }

    fn retries(&mut self) {
        self.plan.hazards.clear();
        let shape = &mut self.plan.shape;
        shape.nodes = shape.nodes.max(3);
        shape.cluster_size = *self.random.pick(&[1, 3, 3]);
        (shape.clusters, shape.keyspaces) = (2, 0);
        let load = &mut self.plan.load;
        (load.run_ms, load.deadline_ms, load.think_ms) = (40_000, 500, 100);
        (load.mixed, load.counters, load.ledger, load.lifecycle) = (1, 4, 0, 0);
        let drawn = *self.random.pick(&[10, 50]);
        self.add(0, FaultKind::Delay, 1, 40_000, drawn);
        if self.random.per_mille(300) {
            self.add(0, FaultKind::Duplicate, 1, 40_000, 100);
        }
    }

    fn moves(&mut self) {
        let shape = &mut self.plan.shape;
        shape.keyspaces = 1;
        shape.nodes = shape.nodes.max(3);
        shape.cluster_size = *self.random.pick(&[1, 3, 3]);
        shape.clusters = 1;
        let load = &mut self.plan.load;
        (load.mixed, load.ledger, load.counters, load.lifecycle) = (6, 2, 0, 0);
        load.keys = *self.random.pick(&[8, 64]);
        (load.think_ms, load.run_ms) = (*self.random.pick(&[1, 5]), 8_000);
        // Clusters of one are among them: their only copy is left alone.
        self.plan.hazards.retain(|hazard| !damages(hazard.kind));
        let kept = self.random.below(4) as usize;
        self.plan.hazards.truncate(kept);
        for hazard in &mut self.plan.hazards {
            hazard.at_ms %= 8_000;
        }
        let mut at = 100;
        while at < 8_000 {
            let drawn = self.random.between(1, 4);
            self.add(at, FaultKind::Reshard, 1, 0, drawn);
            at += self.random.between(300, 2_500);
        }
        if self.random.per_mille(500) {
            self.hasty_clients();
        }
    }

    /// Shards of few rows split and merge all the time, while answers are lost, who runs a split is stopped, or else.
    fn buckets(&mut self) {
        self.small_world(&[3, 3, 5]);
        let shape = &mut self.plan.shape;
        (shape.clusters, shape.buckets, shape.versioned) = (1, 1, self.random.below(2));
        let load = &mut self.plan.load;
        (load.mixed, load.ledger, load.counters, load.readers, load.writers) = (1, 0, 0, 0, 0);
        (load.s3, load.uploaders, load.owners) =
            (self.random.between(4, 8), self.random.below(3), self.random.below(3));
        load.s3_growing = *self.random.pick(&[0, 0, 2]);
        (load.think_ms, load.run_ms) = (*self.random.pick(&[2, 10]), 15_000);
        load.deadline_ms = *self.random.pick(&[500, 2_000]);
        (self.plan.tuning.split_keys, self.plan.tuning.split_writes) = (8, 0);
        match self.random.below(4) {
            0 => self.some_faults(),
            1 => self.stop_runners(),
            _ => self.lose_answers(),
        }
    }

    /// Seven nodes, three of them the world's: so a majority of a cluster of three or five can go without the world's.
    fn recovery(&mut self) {
        self.plan.hazards.clear();
        let shape = &mut self.plan.shape;
        (shape.nodes, shape.world_members, shape.regions) = (7, 3, 1);
        // What an object store holds is another way back; and shards have stories of their own.
        (shape.tails, shape.buckets, shape.versioned, shape.suspended, shape.quota_keys) = (0, 0, 0, 0, 0);
        (shape.cluster_size, shape.clusters, shape.keyspaces) = (*self.random.pick(&[3, 3, 5]), 2, 0);
        shape.lanes = *self.random.pick(&[1, 2]);
        let load = &mut self.plan.load;
        (load.mixed, load.ledger, load.counters, load.lifecycle) = (4, 2, 2, 0);
        (load.s3, load.s3_growing, load.uploaders, load.owners) = (0, 0, 0, 0);
        (load.think_ms, load.run_ms) = (*self.random.pick(&[5, 20]), 45_000);
        let at = self.random.between(2_000, 8_000);
        let away = self.random.between(14_000, 24_000);
        self.add(at, FaultKind::MajorityLost, 1, away, 0);
        // Somebody is slow or dies beside it, before or after; nothing keeps the returned from hearing of their end for long.
        for _ in 0..self.random.below(3) {
            let kinds = [FaultKind::Crash, FaultKind::Pause, FaultKind::SlowDisk, FaultKind::Isolate];
            let (kind, at, node) = (*self.random.pick(&kinds), self.random.between(0, 44_000), self.node());
            let for_ms = self.random.between(100, 2_000);
            self.add(at, kind, node, for_ms, 50);
        }
        if self.random.per_mille(300) {
            let at = self.random.between(0, 30_000);
            self.add(at, FaultKind::Loss, 1, 10_000, 50);
        }
    }

    /// Users, tokens and roles come and go. One node at a time does not hear the directory's leader, is cut off, stopped or killed,
    /// for so long that it misses changes; and in between all is well for long enough that everybody must know them.
    fn access(&mut self) {
        self.small_world(&[3, 5, 5]);
        let shape = &mut self.plan.shape;
        (shape.access, shape.keyspaces, shape.clusters, shape.cluster_size) = (true, 1, 2, 3);
        (shape.tails, shape.buckets, shape.versioned, shape.suspended, shape.quota_keys) = (0, 0, 0, 0, 0);
        shape.lanes = *self.random.pick(&[1, 1, 2]);
        let load = &mut self.plan.load;
        (load.mixed, load.ledger, load.counters) = (1, 0, 1);
        (load.s3, load.s3_growing, load.uploaders, load.owners, load.kept) = (0, 0, 0, 0, 0);
        (load.users, load.keys) = (self.random.between(3, 6), load.keys.min(4));
        (load.think_ms, load.run_ms) = (*self.random.pick(&[5, 20]), 25_000);
        load.deadline_ms = *self.random.pick(&[500, 2_000]);
        self.plan.tuning.buggify = self.random.per_mille(300);
        // One disk is lost at most: of three members nobody promised that two come back.
        let mut disks = 1;
        let mut at = self.random.between(500, 3_000);
        while at < self.plan.load.run_ms {
            let mut kind = *self.random.pick(&[
                FaultKind::Unheard,
                FaultKind::Unheard,
                FaultKind::Unheard,
                FaultKind::BlackHole,
                FaultKind::Isolate,
                FaultKind::Partition,
                FaultKind::Pause,
                FaultKind::Crash,
                FaultKind::DiskLost,
            ]);
            let (node, for_ms) = (self.node(), self.random.between(1_000, 8_000));
            if kind == FaultKind::DiskLost {
                kind = if disks > 0 { kind } else { FaultKind::Crash };
                disks = 0;
            }
            let amount = if kind == FaultKind::Partition { 1 << (node - 1) } else { 0 };
            self.add(at, kind, node, for_ms, amount);
            at += for_ms + self.random.between(0, 4_000);
        }
    }

    fn some_faults(&mut self) {
        for _ in 0..self.random.below(8) {
            let kinds = [FaultKind::Crash, FaultKind::Isolate, FaultKind::Delay, FaultKind::Loss, FaultKind::Pause];
            let (kind, at, node) = (*self.random.pick(&kinds), self.moment(), self.node());
            let for_ms = self.random.between(100, 3_000);
            self.add(at, kind, node, for_ms, 100);
        }
    }

    /// One node after the other is stopped for so long that another takes over its work, and then resumes.
    fn stop_runners(&mut self) {
        let mut at = 0;
        while at < self.plan.load.run_ms {
            at += self.random.between(200, 1_000);
            let kind = *self.random.pick(&[FaultKind::Pause, FaultKind::Pause, FaultKind::Isolate]);
            let (node, for_ms) = (self.node(), self.random.between(300, 2_500));
            self.add(at, kind, node, for_ms, 0);
            at += for_ms;
        }
    }

    /// What is under way between two nodes is lost, again and again, and clients in haste ask another node: what was done
    /// is asked for once more, and where shards were split meanwhile, of those that took over.
    fn lose_answers(&mut self) {
        let load = &mut self.plan.load;
        (load.s3, load.s3_growing, load.think_ms) = (8, 0, 2);
        load.deadline_ms = *self.random.pick(&[60, 120, 250]);
        let mut at = 0;
        while at < self.plan.load.run_ms {
            let kind = *self.random.pick(&[FaultKind::BlackHole, FaultKind::Loss, FaultKind::Deaf, FaultKind::Reset]);
            let (node, for_ms) = (self.node(), self.random.between(50, 400));
            let amount = if kind == FaultKind::Loss { 300 } else { 0 };
            self.add(at, kind, node, for_ms, amount);
            at += for_ms + self.random.below(400);
        }
    }

    /// Clients that give up waiting and ask another node, with the same request id, while the key moves: answers are late.
    fn hasty_clients(&mut self) {
        let load = &mut self.plan.load;
        (load.mixed, load.ledger, load.swappers) = (1, 0, 8);
        load.deadline_ms = *self.random.pick(&[20, 40, 80]);
        load.think_ms = 1;
        for at in (0..8_000).step_by(500) {
            let (node, late) = (self.node(), *self.random.pick(&[5, 20, 50]));
            self.add(at, FaultKind::Delay, node, 300, late);
        }
    }

    fn members(&mut self) {
        self.small_world(&[5, 5, 4]);
        let shape = &mut self.plan.shape;
        (shape.cluster_size, shape.world_members) = (3, 3);
        self.homed_load(&[20, 50]);
        self.plan.load.readers = 0;
        self.plan.load.run_ms = 8_000;
        self.plan.load.lifecycle = 1;
        self.plan.tuning.tick_ms = 10;
        self.plan.tuning.buggify = self.random.per_mille(500);
        let lost = self.node();
        if self.random.per_mille(600) {
            self.rotate();
        }
        for _ in 0..self.random.between(1, 3) {
            let (at, for_ms) = (self.moment(), *self.random.pick(&[1, 50, 500]));
            self.add(at, FaultKind::DiskLost, lost, for_ms, 0);
        }
        let change = *self.random.pick(&[FaultKind::AddMember, FaultKind::AddMember, FaultKind::Transfer]);
        for _ in 0..self.random.between(2, 6) {
            let (at, node) = (self.moment(), self.node());
            self.add(at, change, node, 0, 0);
        }
    }

    fn rot(&mut self) {
        self.small_world(&[3, 3, 5]);
        self.homed_load(&[5, 20]);
        self.plan.load.value_bytes = *self.random.pick(&[16, 200, 3_000]);
        let tuning = &mut self.plan.tuning;
        tuning.tick_ms = 10;
        tuning.flush_bytes = *self.random.pick(&[64 << 10, 1 << 20]);
        tuning.flush_after_ms = 2_000;
        tuning.log_keep_bytes = 1 << 20;
        tuning.seal_after_ms = 20;
        let rotten = self.node();
        self.rotate();
        for _ in 0..self.random.between(2, 6) {
            let (at, for_ms) = (self.moment(), *self.random.pick(&[1, 1, 50]));
            let drawn = *self.random.pick(&[1, 4, 30]);
            self.add(at, FaultKind::BitRot, rotten, for_ms, drawn);
        }
        // And on a second node, in some: what then is lost of a majority is not mended, but told (fault catalogue, row 14).
        let mut random = Random::stream(self.plan.seed, "bend to several");
        if random.per_mille(OF_ROT_TO_SEVERAL) {
            let other = 1 + rotten % self.plan.shape.nodes;
            for hazard in self.plan.hazards.iter_mut().filter(|hazard| hazard.kind == FaultKind::BitRot) {
                hazard.node = *random.pick(&[rotten, other]);
            }
        }
        // A stream of its own: the others rot as they did before pairs of engines could.
        let mut random = Random::stream(self.plan.seed, "bend to pairs");
        if random.per_mille(500) {
            let Plan { shape, load, tuning, hazards, .. } = &mut *self.plan;
            draw_pair_rot(&mut random, shape, load, tuning, hazards);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swarm;

    #[test]
    fn every_kind_is_drawn_and_every_bent_plan_is_one_this_simulator_runs() {
        for layer in [Layer::Lane, Layer::Core] {
            let mut seen = Vec::new();
            for seed in 0..400 {
                let plan = swarm::draw(seed, layer);
                assert_eq!(plan.check(), Ok(()), "seed {seed}");
                seen.push(of(seed, layer));
            }
            let kinds = if layer == Layer::Lane { LANE } else { CORE };
            assert!(kinds.iter().all(|kind| seen.contains(kind)) && seen.contains(&Plain));
            assert_eq!(seen.contains(&Buckets), layer == Layer::Core);
            assert!(layer == Layer::Core || !seen.contains(&Moves));
        }
    }
}
