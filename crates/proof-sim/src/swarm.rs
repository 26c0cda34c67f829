//! Draws a plan from a seed: its own size, its own subset of faults, its own tiny constants. Few kinds
//! of fault at a time, so that one does not hide another.
//!
//! Always: what a plan breaks is within what was promised: disks that lie or rot are a minority's, so
//! that a correct world always recovers.

mod stories;

use crate::clock_faults;
use crate::emphasis::{self, Emphasis};
use crate::plan::{FaultKind, Hazard, Layer, Load, Plan, Shape, SimTuning, PLAN_VERSION};
use crate::random::Random;

/// Draws the plan of a seed.
pub fn draw(seed: u64, layer: Layer) -> Plan {
    let mut random = Random::stream(seed, "swarm");
    let mut shape = draw_shape(&mut random);
    let mut load = draw_load(&mut random);
    if layer == Layer::Lane {
        shape.keyspaces = 0;
        load.lifecycle = 0;
    }
    let mut tuning = draw_tuning(&mut random);
    let calm = random.per_mille(50);
    let mut hazards = if calm { Vec::new() } else { draw_hazards(&mut random, layer, &shape, &load) };
    if !calm && layer == Layer::Core {
        draw_moves(seed, &shape, &load, &mut tuning, &mut hazards);
    }
    if !calm {
        draw_more(seed, &mut shape, &load, &mut hazards);
        if layer == Layer::Core {
            draw_old_image(seed, &shape, &load, &mut tuning, &mut hazards);
        }
    }
    if layer == Layer::Core {
        draw_buckets(seed, &mut shape, &mut load, &mut tuning);
        draw_wall_clock(seed, &mut shape, &load, &mut hazards, calm);
        shape.regional = shape.regions > 1 && Random::stream(seed, "regional").per_mille(250);
    }
    draw_tails(seed, &mut shape, &mut load);
    let mut plan = Plan { version: PLAN_VERSION, seed, title: String::new(), layer, shape, tuning, load, hazards };
    let lean = emphasis::of(seed, layer);
    lean.bend(&mut plan);
    draw_late(&mut plan);
    // What it leans to may take fewer nodes.
    plan.shape.tails = plan.shape.tails.min(plan.shape.nodes);
    let mut random = Random::stream(seed, "pair rot");
    if layer == Layer::Core && lean == Emphasis::Plain && !calm && random.per_mille(OF_PLAIN_TO_PAIR_ROT) {
        let Plan { shape, load, tuning, hazards, .. } = &mut plan;
        draw_pair_rot(&mut random, shape, load, tuning, hazards);
    }
    if layer == Layer::Core && lean == Emphasis::Plain && !calm {
        let Plan { shape, load, hazards, .. } = &mut plan;
        draw_engines(seed, shape, load, hazards);
    }
    clock_faults::draw(&mut plan, lean);
    if layer == Layer::Core && !calm {
        draw_lost_beside(seed, &mut plan);
    }
    if lean == Emphasis::Plain {
        draw_dozens(seed, &mut plan);
    }
    draw_clients(seed, layer, &mut plan.load);
    if layer == Layer::Core && !calm {
        draw_tail_rot(seed, lean, &mut plan);
    }
    if layer == Layer::Core && lean == Emphasis::Plain && !calm {
        stories::draw(seed, &mut plan);
    }
    draw_access(seed, layer, lean, &mut plan);
    draw_histories(seed, lean, &mut plan);
    draw_databases(seed, lean, &mut plan);
    // A region of one node or two has one member, and nobody else has what its disk lies about or loses (seed 136).
    if plan.shape.nodes / plan.shape.regions < 3 && plan.hazards.iter().any(|hazard| damages(hazard.kind)) {
        plan.shape.regional = false;
    }
    lose_only_logs(seed, &mut plan.hazards);
    if plan.shape.buckets > 0 {
        plan.shape.quota_keys = draw_quota(seed);
        draw_short(seed, &mut plan);
        fit_shards(&mut plan);
    }
    plan
}

/// In some worlds nodes want to know who asks, and some clients are users. Not where the world's cluster, and so perhaps the
/// directory's, loses its majority, and not where there is no keyspace. Its own stream: the others stay as they were.
fn draw_access(seed: u64, layer: Layer, lean: Emphasis, plan: &mut Plan) {
    let mut random = Random::stream(seed, "access");
    let unfit = |hazard: &Hazard| matches!(hazard.kind, FaultKind::WorldDown | FaultKind::Install);
    if layer == Layer::Lane
        || lean != Emphasis::Plain
        || plan.shape.keyspaces == 0
        || plan.hazards.iter().any(unfit)
        || !random.per_mille(OF_PLAIN_TO_ACCESS)
    {
        return;
    }
    plan.shape.access = true;
    plan.load.users = random.between(1, 3);
}

/// In some worlds a cluster keeps versions. Not where a cluster may lose what it acknowledged. Its own stream: the others stay as they
/// were.
fn draw_histories(seed: u64, lean: Emphasis, plan: &mut Plan) {
    let mut random = Random::stream(seed, "histories");
    if may_lose(lean, plan) || !random.per_mille(OF_ALL_TO_HISTORIES) {
        return;
    }
    plan.shape.histories = 1;
    (plan.load.committers, plan.load.watchers) = (random.between(2, 4), random.between(1, 3));
    plan.shape.both_doors =
        plan.layer == Layer::Core && Random::stream(seed, "both doors").per_mille(OF_HISTORIES_TO_BOTH_DOORS);
}

/// In some worlds a cluster has Redis databases. Where, as above. Its own stream: the others stay as they were.
fn draw_databases(seed: u64, lean: Emphasis, plan: &mut Plan) {
    let mut random = Random::stream(seed, "databases");
    if may_lose(lean, plan) || !random.per_mille(OF_ALL_TO_DATABASES) {
        return;
    }
    plan.shape.databases = 1;
    plan.load.redis = random.between(2, 5);
    plan.shape.database_keyspaces = plan.layer == Layer::Core && random.per_mille(OF_DATABASES_TO_KEYSPACES);
}

/// Whether a cluster of the world may lose what it acknowledged, or more than its clients' history is needed to judge it.
fn may_lose(lean: Emphasis, plan: &Plan) -> bool {
    let spoils = |hazard: &Hazard| {
        let members =
            matches!(hazard.kind, FaultKind::RemoveMember | FaultKind::Decommission | FaultKind::MajorityLost);
        members || damages(hazard.kind) && hazard.kind != FaultKind::DiskLost
    };
    let small = plan.shape.cluster_size < 3 || plan.shape.world_members < 3;
    // Shards that are idle while leases end forget all their request ids at once, which is more than a small overlay may hold (seed 12).
    let other = plan.shape.buckets > 0 || matches!(lean, Emphasis::Recovery | Emphasis::Rot);
    small || other || plan.hazards.iter().any(spoils)
}

/// Some of the disks that are lost keep their id and all but the log. Its own stream: the others stay as they were.
fn lose_only_logs(seed: u64, hazards: &mut [Hazard]) {
    let mut random = Random::stream(seed, "lost logs");
    for hazard in hazards.iter_mut().filter(|hazard| hazard.kind == FaultKind::DiskLost) {
        if random.per_mille(OF_LOST_DISKS_ONLY_LOGS) {
            hazard.kind = *random.pick(&[FaultKind::LogLost, FaultKind::LogSwapped]);
        }
    }
}

/// In some worlds a bucket has a quota: of fewer keys than a shard splits at, or of so many that there are several shards.
/// Its own stream: the others stay as they were.
fn draw_quota(seed: u64) -> u64 {
    let mut random = Random::stream(seed, "quota");
    match random.per_mille(OF_BUCKETS_TO_QUOTAS) {
        true => *random.pick(&[3, 4, 6, 12, 20, 30]),
        false => 0,
    }
}

/// What is kept for a while is kept for as short as promises to clients allow, so that its end comes while there is load; and
/// some buckets have kept versions once. Its own stream.
fn draw_short(seed: u64, plan: &mut Plan) {
    let mut random = Random::stream(seed, "short");
    if random.per_mille(OF_BUCKETS_TO_SHORT) {
        plan.tuning.keep_ms = plan.load.deadline_ms * REPEATED_DEADLINES + REPEATED_LATE_MS;
        plan.tuning.freed_age_ms = *random.pick(&[200, 2_000]);
    }
    if plan.shape.versioned < plan.shape.buckets && random.per_mille(OF_BUCKETS_TO_SUSPENDED) {
        plan.shape.suspended = 1;
    }
}

/// Where members move or engines change, a disk is lost, too: one, once, and none that lies. Its own stream.
fn draw_lost_beside(seed: u64, plan: &mut Plan) {
    let mut random = Random::stream(seed, "lost beside");
    let moves =
        |hazard: &Hazard| matches!(hazard.kind, FaultKind::MoveMember | FaultKind::Decommission | FaultKind::SetEngine);
    let spoils = |hazard: &Hazard| damages(hazard.kind) || hazard.kind == FaultKind::RemoveMember;
    let Plan { shape, load, hazards, .. } = plan;
    let small = shape.world_members < 3 || shape.cluster_size < 3;
    if small || !hazards.iter().any(moves) || hazards.iter().any(spoils) || !random.per_mille(OF_MOVES_TO_LOST_DISKS) {
        return;
    }
    let (at_ms, node, for_ms) = (random.below(load.run_ms), random.between(1, shape.nodes), random.between(100, 2_000));
    hazards.push(Hazard { at_ms, kind: FaultKind::DiskLost, node, peer: 0, for_ms, amount: 0 });
    hazards.sort_by_key(|hazard| hazard.at_ms);
}

/// Dozens of clusters, most of them idle at any moment. Its own stream.
fn draw_dozens(seed: u64, plan: &mut Plan) {
    let mut random = Random::stream(seed, "dozens");
    if random.per_mille(OF_PLAIN_TO_DOZENS) {
        plan.shape.clusters = random.between(12, 36);
        plan.load.think_ms = plan.load.think_ms.max(10);
    }
}

/// Clients that speak JSON, that are far from their nodes, and that ask another node before the first has answered. Its own
/// stream.
fn draw_clients(seed: u64, layer: Layer, load: &mut Load) {
    let mut random = Random::stream(seed, "clients");
    if layer == Layer::Core && random.per_mille(OF_HTTP) {
        load.http = *random.pick(&[300, 1_000]);
    }
    if random.per_mille(OF_LATE_CLIENTS) {
        load.late_ms = *random.pick(&[5, 50, 400]);
    }
    if random.per_mille(OF_HURRIED_CLIENTS) {
        load.hurry_ms = *random.pick(&[20, 100, 400]);
    }
    if layer == Layer::Core && Random::stream(seed, "sessions").per_mille(OF_SESSIONS) {
        load.sessions = *Random::stream(seed, "sessions, how many").pick(&[300, 1_000]);
    }
}

/// The last write to the log of the one node whose disk rots, rots, too. Its own stream.
fn draw_tail_rot(seed: u64, lean: Emphasis, plan: &mut Plan) {
    use FaultKind::*;
    let mut random = Random::stream(seed, "tail rot");
    let Plan { shape, load, hazards, .. } = plan;
    let other = |hazard: &Hazard| {
        let moves = matches!(hazard.kind, RemoveMember | MoveMember | Decommission | SetEngine);
        moves
            || damages(hazard.kind) && !matches!(hazard.kind, BitRot | PairRot | KeyRot)
            || hazard.peer != 0 && hazard.kind == PairRot
    };
    let share = if lean == Emphasis::Rot { OF_ROT_TO_TAILS } else { OF_OTHERS_TO_TAILS };
    if shape.world_members < 3 || shape.cluster_size < 3 || hazards.iter().any(other) || !random.per_mille(share) {
        return;
    }
    let node = hazards
        .iter()
        .find(|hazard| damages(hazard.kind))
        .map_or_else(|| random.between(1, shape.nodes), |one| one.node);
    for _ in 0..random.between(1, 3) {
        let (at_ms, for_ms, amount) = (random.below(load.run_ms), *random.pick(&[1, 50, 1_000]), random.between(1, 2));
        hazards.push(Hazard { at_ms, kind: TailRot, node, peer: 0, for_ms, amount });
    }
    hazards.sort_by_key(|hazard| hazard.at_ms);
}

/// In some worlds clients come again late, and rely on their ids' being remembered for as long: mostly not for long, so that
/// ids are forgotten within the world's life, too. Its own stream: the others stay as they were.
fn draw_late(plan: &mut Plan) {
    let mut random = Random::stream(plan.seed, "late");
    if random.per_mille(400) {
        plan.tuning.request_id_window_ms = *random.pick(&[LATE_WINDOW_MIN_MS, 12_000, 20_000, 60_000]);
        plan.load.late = *random.pick(&[100, 300]);
        if plan.tuning.request_id_window_ms == LATE_WINDOW_MIN_MS && plan.load.deadline_ms < LATE_WINDOW_MIN_MS {
            // So that ids are forgotten while there is load.
            plan.load.run_ms = plan.load.run_ms.max(LATE_RUN_MS);
        }
    }
}

/// What shards do not fit into. Nothing is drawn: the worlds without them stay as they were.
fn fit_shards(plan: &mut Plan) {
    let tuning = &mut plan.tuning;
    // What is remembered of six thousand requests, sixty-four bytes at a time, takes minutes (seed 1003 at 4f87679).
    tuning.snapshot_chunk_bytes = tuning.snapshot_chunk_bytes.max(512);
    // A command of a split is up to some 50 KB here; real segments have at least 8 MiB (seed 1427).
    tuning.segment_bytes = tuning.segment_bytes.max(128 << 10);
    tuning.batch_bytes_max = (tuning.segment_bytes / 4) as usize;
    // A snapshot is several commits at all shards, one behind the other: over regions more than half a second, though
    // nothing be wrong (seed 3427).
    if plan.hazards.is_empty() && plan.shape.regions > 1 {
        plan.load.deadline_ms = plan.load.deadline_ms.max(2_000);
    }
}

/// Some worlds have a bucket, whose shards split at few keys. Its own stream: the others stay as they were.
fn draw_buckets(seed: u64, shape: &mut Shape, load: &mut Load, tuning: &mut SimTuning) {
    let mut random = Random::stream(seed, "buckets");
    if random.per_mille(150) {
        shape.buckets = random.between(1, 2);
        load.s3 = random.between(2, 6);
        tuning.split_keys = *random.pick(&[8, 8, 16]);
        load.s3_growing = random.below(load.s3);
        tuning.split_writes = *random.pick(&[0, 0, 2]);
        shape.versioned = *random.pick(&[0, 1]);
        load.uploaders = random.below(3);
        load.owners = *random.pick(&[0, 0, 2, 3]);
    }
}

/// Nodes that keep objects receive the time of day in half of the worlds, now and then a wrong one: a version's time
/// never steps back for it. Its own stream.
fn draw_wall_clock(seed: u64, shape: &mut Shape, load: &Load, hazards: &mut Vec<Hazard>, calm: bool) {
    let mut random = Random::stream(seed, "wall clock");
    shape.wall_clock = shape.buckets > 0 && random.per_mille(500);
    if !shape.wall_clock || calm {
        return;
    }
    for _ in 0..random.below(4) {
        let (at_ms, node) = (random.below(load.run_ms), random.between(1, shape.nodes));
        let amount = *random.pick(&[2_000, 60_001, 3_599_998, 3_599_999]);
        hazards.push(Hazard { at_ms, kind: FaultKind::WallJump, node, peer: 0, for_ms: 0, amount });
    }
    hazards.sort_by_key(|hazard| hazard.at_ms);
}

/// Some worlds keep clusters in buckets, and clients wait for it. Its own stream: the others stay as they were.
fn draw_tails(seed: u64, shape: &mut Shape, load: &mut Load) {
    let mut random = Random::stream(seed, "tails");
    if random.per_mille(250) {
        shape.tails = random.between(1, shape.nodes.min(3));
        load.kept = *random.pick(&[50, 200, 500]);
    }
}

fn draw_shape(random: &mut Random) -> Shape {
    let nodes = *random.pick(&[1, 3, 3, 3, 5, 5, 5, 7, 4]);
    let sizes: Vec<u64> = [1, 2, 3, 3, 3, 5, 5, 7].into_iter().filter(|size| *size <= nodes).collect();
    let world: Vec<u64> = [1, 3, 3, 5].into_iter().filter(|size| *size <= nodes && (*size > 1 || nodes == 1)).collect();
    Shape {
        nodes,
        lanes: *random.pick(&[1, 1, 1, 2]),
        regions: random.between(1, 3.min(nodes)),
        world_members: *random.pick(&world),
        clusters: random.between(1, 3),
        cluster_size: *random.pick(&sizes),
        keyspaces: random.below(2),
        buckets: 0,
        versioned: 0,
        suspended: 0,
        quota_keys: 0,
        regional: false,
        wall_clock: false,
        tails: 0,
        shared_chassis: 0,
        access: false,
        histories: 0,
        both_doors: false,
        databases: 0,
        database_keyspaces: false,
    }
}

fn draw_load(random: &mut Random) -> Load {
    Load {
        run_ms: random.between(5_000, 20_000),
        mixed: random.between(2, 6),
        ledger: random.between(0, 2),
        counters: random.between(0, 2),
        lifecycle: u64::from(random.per_mille(250)),
        think_ms: *random.pick(&[1, 10, 50, 200]),
        deadline_ms: *random.pick(&[500, 2_000, 5_000]),
        keys: random.between(1, 8),
        value_bytes: *random.pick(&[16, 16, 16, 200, 3_000]),
        hopeful: *random.pick(&[0, 50, 200]),
        eventual: *random.pick(&[0, 50, 200]),
        absolute: *random.pick(&[0, 20, 100]),
        kept: 0,
        late: 0,
        readers: 0,
        writers: 0,
        s3: 0,
        s3_growing: 0,
        uploaders: 0,
        owners: 0,
        swappers: 0,
        users: 0,
        committers: 0,
        watchers: 0,
        redis: 0,
        writers_rest: 1,
        http: 0,
        late_ms: 0,
        hurry_ms: 0,
        sessions: 0,
    }
}

fn draw_tuning(random: &mut Random) -> SimTuning {
    let segment_bytes = *random.pick(&[64 << 10, 128 << 10, 256 << 10, 1 << 20]);
    SimTuning {
        tick_ms: *random.pick(&[10, 30, 30]),
        heartbeat_ticks: random.between(1, 3) as usize,
        election_ticks: random.between(8, 12) as usize,
        quiesce_after_ticks: *random.pick(&[15, 30, 100]),
        read_leases: true,
        flush_bytes: *random.pick(&[64, 1 << 10, 64 << 10]),
        flush_after_ms: *random.pick(&[20, 200, 2_000]),
        log_keep_bytes: *random.pick(&[0, 100, 2_000, 1 << 20]),
        snapshot_chunk_bytes: *random.pick(&[64, 512, 64 << 10]),
        node_heartbeat_ms: *random.pick(&[200, 500, 1_000]),
        node_down_ms: *random.pick(&[2_000, 4_000]),
        replace_after_ms: 0,
        scrub_round_ms: 0,
        segment_bytes,
        spare_segments: random.between(1, 2) as usize,
        batch_bytes_max: (segment_bytes / 4) as usize,
        segments_soft_max: *random.pick(&[3, 4, 8]),
        seal_after_ms: *random.pick(&[20, 200]),
        turn_events_max: *random.pick(&[1, 1, 4, 64]),
        event_us: 0,
        buggify: random.per_mille(400),
        split_keys: SimTuning::default().split_keys,
        split_writes: SimTuning::default().split_writes,
        keep_ms: 0,
        freed_age_ms: 0,
        request_id_window_ms: SimTuning::default().request_id_window_ms,
    }
}

/// Kinds that only a majority of healthy disks survives.
pub(crate) fn damages(kind: FaultKind) -> bool {
    use FaultKind::*;
    matches!(
        kind,
        BitRot
            | TailRot
            | PairRot
            | KeyRot
            | Diverge
            | MisdirectedWrite
            | LostWrite
            | DiskLost
            | LogLost
            | LogSwapped
            | OldImage
    )
}

/// Kinds drawn for the whole core only: nobody heals a replica or moves one where there is no router.
fn needs_router(kind: FaultKind) -> bool {
    use FaultKind::*;
    matches!(
        kind,
        DiskLost
            | MajorityLost
            | Recover
            | LogLost
            | LogSwapped
            | BitRot
            | TailRot
            | PairRot
            | KeyRot
            | Diverge
            | MisdirectedWrite
            | LostWrite
            | OldImage
            | WorldMember
            | WorldDown
            | Install
            | Finalize
            | AddMember
            | RemoveMember
            | MoveMember
            | Decommission
            | SetEngine
            | Reshard
            | WallJump
            | Unheard
    )
}

/// Kinds that make no sense with one node.
fn needs_peers(kind: FaultKind) -> bool {
    use FaultKind::*;
    matches!(
        kind,
        Loss | Duplicate
            | Reorder
            | Delay
            | SlowLinks
            | CutOneWay
            | Cut
            | Isolate
            | BlackHole
            | Reset
            | Deaf
            | Partition
            | SwizzleClog
            | SeeSaw
            | Transfer
            | AddMember
            | RemoveMember
            | MoveMember
            | Decommission
            | SetEngine
    )
}

/// Kinds drawn for a seed with the others (moves come by `draw_moves`, some by `draw_more`).
fn eligible(kind: FaultKind, layer: Layer, shape: &Shape) -> bool {
    if layer == Layer::Lane && needs_router(kind) {
        return false;
    }
    let damage_ok = shape.world_members >= 3 && shape.cluster_size >= 3;
    !matches!(kind, FaultKind::MoveMember | FaultKind::Decommission | FaultKind::WallJump)
        && !MORE.contains(&kind)
        && (damage_ok || !damages(kind))
        && (shape.nodes >= 3 || !needs_peers(kind))
        && (shape.keyspaces > 0 || kind != FaultKind::Reshard)
}

/// Whether any seed of a layer draws the kind: then a large run in which it never fired is a hole.
pub fn draws(kind: FaultKind, layer: Layer) -> bool {
    let widest = Shape {
        nodes: 7,
        lanes: 2,
        regions: 3,
        world_members: 5,
        clusters: 3,
        cluster_size: 7,
        keyspaces: 1,
        buckets: 0,
        versioned: 0,
        suspended: 0,
        quota_keys: 0,
        regional: false,
        wall_clock: false,
        tails: 0,
        shared_chassis: 0,
        access: false,
        histories: 0,
        both_doors: false,
        databases: 0,
        database_keyspaces: false,
    };
    let moves = matches!(kind, FaultKind::MoveMember | FaultKind::Decommission) && layer == Layer::Core;
    let more = MORE.contains(&kind) && (layer == Layer::Core || !needs_router(kind));
    let told = kind == FaultKind::WallJump && layer == Layer::Core;
    moves || more || told || eligible(kind, layer, &widest)
}

/// Kinds with a stream of their own (`draw_more`), so that the other draws stay what they were.
const MORE: &[FaultKind] = &[
    FaultKind::SeeSaw,
    FaultKind::FewerCores,
    FaultKind::Drain,
    FaultKind::OldImage,
    FaultKind::PairRot,
    FaultKind::KeyRot,
    FaultKind::SetEngine,
    FaultKind::LogLost,
    FaultKind::LogSwapped,
    FaultKind::Hold,
    FaultKind::LeaseEnd,
    FaultKind::TailRot,
    FaultKind::Diverge,
    FaultKind::WorldMember,
    FaultKind::WorldDown,
    FaultKind::Install,
    FaultKind::Finalize,
    // By seeds that lean to it (`emphasis`).
    FaultKind::MajorityLost,
    FaultKind::Recover,
    FaultKind::Unheard,
];

/// Of a thousand seeds that lean to nothing and have room for it, in so many clusters are given another engine.
const OF_ENGINES: u64 = 150;
/// Of a thousand seeds in which none may lose what it acknowledged, so many have a cluster that keeps versions.
const OF_ALL_TO_HISTORIES: u64 = 120;
/// Of a thousand of these with the whole core, so many have it as a keyspace, to which clients come by both doors.
const OF_HISTORIES_TO_BOTH_DOORS: u64 = 600;
/// Of a thousand seeds in which none may lose what it acknowledged, so many have a cluster with Redis databases.
const OF_ALL_TO_DATABASES: u64 = 120;
/// Of a thousand of these with the whole core, so many have it as a keyspace.
const OF_DATABASES_TO_KEYSPACES: u64 = 600;
/// Of a thousand seeds of the whole core that lean to nothing and have a keyspace, in so many nodes want to know who asks.
const OF_PLAIN_TO_ACCESS: u64 = 80;
/// Of a thousand disks that are lost, of so many only the log is.
const OF_LOST_DISKS_ONLY_LOGS: u64 = 400;
/// Of a thousand seeds with buckets, in so many one has a quota.
const OF_BUCKETS_TO_QUOTAS: u64 = 250;
/// Of a thousand seeds with an old image, in so many another node has troubles too.
const OF_IMAGES_TO_OTHERS: u64 = 500;
/// Of a thousand seeds whose pairs rot and whose disks have no other fault, in so many they rot on every node.
const OF_PAIR_ROT_TO_ALL: u64 = 400;
/// Of a thousand seeds in which members move or engines change, in so many a disk is lost besides.
const OF_MOVES_TO_LOST_DISKS: u64 = 250;
/// Of a thousand seeds that lean to nothing, so many have dozens of clusters.
const OF_PLAIN_TO_DOZENS: u64 = 500;
/// The shortest window of request ids, and how long clients then load the world.
const LATE_WINDOW_MIN_MS: u64 = 2_000;
const LATE_RUN_MS: u64 = 22_000;
/// Of a thousand seeds of the whole core, in so many some clients speak JSON; are far from their nodes; ask two at once.
const OF_HTTP: u64 = 250;
const OF_LATE_CLIENTS: u64 = 150;
const OF_HURRIED_CLIENTS: u64 = 100;
const OF_SESSIONS: u64 = 300;
/// Of a thousand seeds that have room for it, in so many the last write to a log rots.
const OF_ROT_TO_TAILS: u64 = 300;
const OF_OTHERS_TO_TAILS: u64 = 40;
/// Of a thousand seeds with buckets, in so many what is kept is kept for as short as promises allow.
const OF_BUCKETS_TO_SHORT: u64 = 500;
/// Of a thousand seeds with a bucket that keeps no versions, in so many it kept them once.
const OF_BUCKETS_TO_SUSPENDED: u64 = 300;
/// A request may be repeated for so long, in deadlines, and so much longer come late (`Keep`).
const REPEATED_DEADLINES: u64 = 4;
const REPEATED_LATE_MS: u64 = 8_000;
/// Of a thousand seeds that lean to nothing, in so many pairs rot.
const OF_PLAIN_TO_PAIR_ROT: u64 = 80;

/// One in so many of them is a bit that flips in keys: by the moment, so that no draw is another for it.
const PAIR_ROT_TO_KEYS: u64 = 3;

/// Pairs that rot in the engine of one node, or on every node others, where there are two more to mend them from, and a scrub
/// that finds them.
/// A disk that forgets or lies in the same world is that node's, too.
pub(crate) fn draw_pair_rot(
    random: &mut Random,
    shape: &Shape,
    load: &mut Load,
    tuning: &mut SimTuning,
    hazards: &mut Vec<Hazard>,
) {
    let other = hazards.iter().find(|hazard| damages(hazard.kind)).map(|hazard| hazard.node);
    let spoils = |hazard: &Hazard| matches!(hazard.kind, FaultKind::OldImage | FaultKind::RemoveMember);
    if shape.world_members < 3 || shape.cluster_size < 3 || hazards.iter().any(spoils) {
        return;
    }
    tuning.scrub_round_ms = *random.pick(&[300, 1_000, 3_000]);
    // Some keys are written once and read at the end only: what rots of them is the scrub's to find. And some rot so
    // late that nobody writes them anew.
    load.ledger = load.ledger.max(1);
    let first = other.unwrap_or_else(|| random.between(1, shape.nodes));
    let everywhere = other.is_none() && random.per_mille(OF_PAIR_ROT_TO_ALL);
    for _ in 0..random.between(1, 12) {
        // On every node another class of keys: no pair rots on two.
        let (node, peer) = if everywhere { (random.between(1, shape.nodes), shape.nodes) } else { (first, 0) };
        let within = if random.per_mille(500) { load.run_ms } else { load.run_ms / 10 };
        let before_the_end = random.below(within.max(1));
        let (at_ms, amount) = (load.run_ms - 1 - before_the_end, *random.pick(&[1, 1, 3, 20]));
        // A key that is lost is of no class: only where one node's keys rot.
        let of_keys = !everywhere && at_ms.is_multiple_of(PAIR_ROT_TO_KEYS);
        let kind = if of_keys { FaultKind::KeyRot } else { FaultKind::PairRot };
        hazards.push(Hazard { at_ms, kind, node, peer, for_ms: 0, amount });
    }
    hazards.sort_by_key(|hazard| hazard.at_ms);
}

/// Leaders that are cut off one after the other, and nodes that come back with fewer cores than lanes.
fn draw_more(seed: u64, shape: &mut Shape, load: &Load, hazards: &mut Vec<Hazard>) {
    let mut random = Random::stream(seed, "more");
    let add = |random: &mut Random, hazards: &mut Vec<Hazard>, kind, node, for_ms, amount| {
        hazards.push(Hazard { at_ms: random.below(load.run_ms), kind, node, peer: 0, for_ms, amount });
    };
    if shape.nodes >= 3 && random.per_mille(60) {
        for _ in 0..random.between(1, 3) {
            let for_ms = *random.pick(&[500, 2_000, 5_000]);
            add(&mut random, hazards, FaultKind::SeeSaw, 0, for_ms, 0);
        }
    }
    if random.per_mille(50) {
        shape.lanes = random.between(2, 4) as u16;
        for _ in 0..random.between(1, 3) {
            let (node, for_ms) = (random.between(1, shape.nodes), *random.pick(&[500, 2_000, 8_000]));
            let amount = random.between(1, u64::from(shape.lanes) - 1);
            add(&mut random, hazards, FaultKind::FewerCores, node, for_ms, amount);
        }
    }
    if random.per_mille(150) {
        for _ in 0..random.between(1, shape.nodes) {
            let (node, for_ms) = (random.between(1, shape.nodes), *random.pick(&[300, 2_000, 8_000]));
            add(&mut random, hazards, FaultKind::Drain, node, for_ms, 0);
        }
    }
    leave_liars_alone(hazards);
    hazards.sort_by_key(|hazard| hazard.at_ms);
}

/// Members that move, in some seeds with room for it: by an operator's wish, because a node is taken out of
/// service, or because it is down for long. A stream of its own, so that other draws stay what they were. Not
/// beside disks that lie: what they lost must be with a majority that stays.
fn draw_moves(seed: u64, shape: &Shape, load: &Load, tuning: &mut SimTuning, hazards: &mut Vec<Hazard>) {
    let mut random = Random::stream(seed, "moves");
    let damaged = hazards.iter().any(|hazard| damages(hazard.kind) || hazard.kind == FaultKind::RemoveMember);
    if damaged
        || shape.nodes < 4
        || shape.world_members < 3
        || shape.cluster_size >= shape.nodes
        || random.per_mille(500)
    {
        return;
    }
    for _ in 0..random.between(1, 4) {
        let node = random.between(1, shape.nodes);
        let peer = 1 + (node - 1 + random.between(1, shape.nodes - 1)) % shape.nodes;
        let at_ms = random.below(load.run_ms);
        let (kind, for_ms) = match random.below(4) {
            0 | 1 => (FaultKind::MoveMember, 0),
            2 => (FaultKind::Decommission, *random.pick(&[0, 500, 3_000])),
            _ => {
                tuning.replace_after_ms = *random.pick(&[1_000, 3_000]);
                (FaultKind::Crash, *random.pick(&[6_000, 10_000]))
            }
        };
        hazards.push(Hazard { at_ms, kind, node, peer, for_ms, amount: random.below(2) });
    }
    hazards.sort_by_key(|hazard| hazard.at_ms);
}

/// Clusters that are given another engine while they serve. Not beside disks that are lost or lie: where no node is to
/// spare, a cluster of three holds its data twice until the new replica has it.
fn draw_engines(seed: u64, shape: &Shape, load: &Load, hazards: &mut Vec<Hazard>) {
    let mut random = Random::stream(seed, "engines");
    let damaged = hazards.iter().any(|hazard| damages(hazard.kind) || hazard.kind == FaultKind::RemoveMember);
    if damaged || shape.world_members < 3 || shape.cluster_size < 3 || !random.per_mille(OF_ENGINES) {
        return;
    }
    for _ in 0..random.between(1, 3) {
        let at_ms = random.below(load.run_ms * 2 / 3);
        hazards.push(Hazard { at_ms, kind: FaultKind::SetEngine, node: 1, peer: 0, for_ms: 0, amount: 0 });
    }
    hazards.sort_by_key(|hazard| hazard.at_ms);
}

/// A node comes back with its disk as it was. Its peers can tell where they have heard of what it has
/// forgotten and are there to say so: nothing else befalls such a world but what slows it.
fn draw_old_image(seed: u64, shape: &Shape, load: &Load, tuning: &mut SimTuning, hazards: &mut Vec<Hazard>) {
    use FaultKind::*;
    let mut random = Random::stream(seed, "old image");
    if shape.world_members < 3 || shape.cluster_size < 3 || !random.per_mille(100) {
        return;
    }
    let (node, other) = (random.between(1, shape.nodes), random.between(1, shape.nodes));
    // One other node may have any trouble: the rest have heard of what the old image forgot, and say so.
    let of_other = |hazard: &Hazard| {
        hazard.node == other
            && matches!(
                hazard.kind,
                Crash | CrashInTurn | CrashAtVote | PowerLoss | Pause | Isolate | BlackHole | SyncError
            )
    };
    let others = other != node && random.per_mille(OF_IMAGES_TO_OTHERS);
    if others && !hazards.iter().any(of_other) {
        let kind = *random.pick(&[Crash, PowerLoss, Pause, Isolate, BlackHole, SyncError]);
        for _ in 0..random.between(1, 4) {
            let (at_ms, for_ms) = (random.below(load.run_ms), *random.pick(&[200, 1_000, 3_000]));
            hazards.push(Hazard { at_ms, kind, node: other, peer: 0, for_ms, amount: 0 });
        }
    }
    hazards.retain(|hazard| {
        matches!(hazard.kind, SlowDisk | Duplicate | Reorder | Reshard | EngineError) || others && of_other(hazard)
    });
    (tuning.buggify, tuning.replace_after_ms) = (false, 0);
    // Older than what its peers hear at the latest, and not so old that there is no image of it.
    let amount = random.between(2_500, 3_500);
    let at_ms = random.between(amount.min(load.run_ms), load.run_ms);
    let for_ms = random.between(100, 2_000);
    hazards.push(Hazard { at_ms, kind: OldImage, node, peer: 0, for_ms, amount });
    hazards.sort_by_key(|hazard| hazard.at_ms);
}

fn draw_hazards(random: &mut Random, layer: Layer, shape: &Shape, load: &Load) -> Vec<Hazard> {
    let mut kinds: Vec<FaultKind> =
        FaultKind::ALL.iter().copied().filter(|kind| eligible(*kind, layer, shape)).collect();
    let order = random.shuffled(kinds.len());
    let chosen = random.between(1, 6) as usize;
    kinds = order.into_iter().take(chosen).map(|number| kinds[number]).collect();
    keep_promisable(&mut kinds);
    // Lying disks belong to one node of the plan.
    let damaged = random.between(1, shape.nodes);
    let mut hazards = Vec::new();
    for kind in kinds {
        let times = if damages(kind) { random.between(1, 2) } else { random.between(1, 6) };
        for _ in 0..times {
            hazards.push(draw_hazard(random, kind, shape, load, damaged));
        }
    }
    leave_liars_alone(&mut hazards);
    hazards.sort_by_key(|hazard| hazard.at_ms);
    hazards
}

/// A disk that lies must not die of something else: what it lost could not be told from what it never got. Others may.
fn leave_liars_alone(hazards: &mut Vec<Hazard>) {
    use FaultKind::*;
    let lies = |hazard: &&Hazard| matches!(hazard.kind, LostWrite | MisdirectedWrite);
    let Some(liar) = hazards.iter().find(lies).map(|hazard| hazard.node) else { return };
    let kills = |kind| {
        matches!(kind, Crash | CrashInTurn | CrashAtVote | PowerLoss | SyncError | ReadOnly | DiskStall | FewerCores)
    };
    hazards.retain(|hazard| hazard.kind != CrashAll && !(hazard.node == liar && kills(hazard.kind)));
}

/// Leaves out what together breaks more than was promised: a disk that lied and lost more besides could not be mended, and a
/// member removed is a majority less.
fn keep_promisable(kinds: &mut Vec<FaultKind>) {
    use FaultKind::*;
    if kinds.iter().any(|kind| matches!(kind, LostWrite | MisdirectedWrite)) {
        kinds.retain(|kind| !matches!(kind, CrashAll | BitRot | DiskLost | LogLost | LogSwapped));
    }
    if kinds.contains(&RemoveMember) {
        kinds.retain(|kind| !damages(*kind));
    }
}

fn draw_hazard(random: &mut Random, kind: FaultKind, shape: &Shape, load: &Load, damaged: u64) -> Hazard {
    use FaultKind::*;
    let node = if damages(kind) { damaged } else { random.between(1, shape.nodes) };
    let peer = 1 + (node - 1 + random.between(1, shape.nodes.max(2) - 1)) % shape.nodes;
    let for_ms = match kind {
        Crash | CrashInTurn | CrashAtVote | PowerLoss | CrashAll | LostWrite | BitRot | MisdirectedWrite => {
            *random.pick(&[1, 20, 200, 1_000, 5_000])
        }
        Pause => *random.pick(&[100, 700, 2_000, 6_000]),
        DiskLost | OldImage => random.between(100, 2_000),
        _ => *random.pick(&[50, 500, 1_000, 3_000, 8_000]),
    };
    let amount = match kind {
        Loss | Duplicate => *random.pick(&[10, 100, 300]),
        Delay => *random.pick(&[5, 50]),
        SlowLinks => *random.pick(&[20, 100, 250]),
        SlowDisk => *random.pick(&[5, 30, 100]),
        Deaf => *random.pick(&[0, 20, 300]),
        Partition => random.between(1, (1 << shape.nodes) - 2),
        CrashInTurn => random.below(6),
        CrashAtVote => *random.pick(&[0, 100, 500, 2_000]),
        BitRot => random.between(1, 4),
        OldImage => random.between(500, 3_000),
        Drift => random.below(50_000),
        ClockJump => *random.pick(&[50, 500, 5_000, 60_000]),
        Reshard => random.between(1, 3),
        _ => 0,
    };
    Hazard { at_ms: random.below(load.run_ms), kind, node, peer, for_ms, amount }
}
