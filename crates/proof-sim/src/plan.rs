//! Everything that decides a run, written out: shape, constants, load, hazards. A seed draws one
//! (`swarm`), a scenario file holds one, the shrinker makes smaller ones.
//!
//! Always: the same plan and commit give the same run. A plan of another version, an unknown field
//! or fault, or a number out of bounds is refused before anything runs.
//! Not here: what a fault does (`faults`).

use crate::s3_quota;
use base_types::format_level::LEVELS;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The version of the plan's form; raised when a plan would mean something else.
pub const PLAN_VERSION: u32 = 1;
/// The most nodes a plan may have.
pub const NODES_MAX: u64 = 7;
/// The most hazards a plan may have.
pub const HAZARDS_MAX: usize = 10_000;
/// The longest a plan may load the world, in milliseconds.
pub const LOAD_MS_MAX: u64 = 3_600_000;
/// The most an event may cost a core: a hundred of them are an election timeout or three.
const EVENT_US_MAX: u64 = 10_000;
/// The most lanes a node may have.
const LANES_MAX: u64 = 4;
/// The longest a client's request or answer may be under way: answers are waited for two seconds behind their deadline.
const LATE_MS_MAX: u64 = 500;
/// The most clients of one kind.
const CLIENTS_MAX: u64 = 1_000;

/// A whole run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub version: u32,
    pub seed: u64,
    #[serde(default)]
    pub title: String,
    #[serde(default)]
    pub layer: Layer,
    pub shape: Shape,
    #[serde(default)]
    pub tuning: SimTuning,
    #[serde(default)]
    pub load: Load,
    #[serde(default, rename = "hazard")]
    pub hazards: Vec<Hazard>,
}

/// How much of the core is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// All of it (`core-node`).
    #[default]
    Core,
    /// Lanes only: Raft, log, backends, without routing and flows.
    Lane,
}

impl Layer {
    /// The word used on command lines.
    pub fn name(self) -> &'static str {
        match self {
            Layer::Core => "core",
            Layer::Lane => "lane",
        }
    }
}

/// The world.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    pub nodes: u64,
    pub lanes: u16,
    pub regions: u64,
    /// Members of the world cluster.
    pub world_members: u64,
    /// Plain clusters (`metadata/redis@…`).
    pub clusters: u64,
    /// Members of each.
    pub cluster_size: u64,
    pub keyspaces: u64,
    /// Buckets of S3 (only with the whole core).
    #[serde(default)]
    pub buckets: u64,
    /// So many of them keep versions.
    #[serde(default)]
    pub versioned: u64,
    /// So many behind those have kept versions, and their versioning is suspended.
    #[serde(default)]
    pub suspended: u64,
    /// The last of them may have so many keys, if it keeps no versions (0: as many as come).
    #[serde(default)]
    pub quota_keys: u64,
    /// Regions have a cluster of their own, of up to three of their nodes (only with the whole core).
    #[serde(default)]
    pub regional: bool,
    /// Nodes receive the wall clock, which may jump. Otherwise they never do.
    #[serde(default)]
    pub wall_clock: bool,
    /// The engines of the first so many nodes outlive them: their replicas are durable tails.
    #[serde(default)]
    pub tails: u64,
    /// So many of the last nodes stand in one chassis.
    #[serde(default)]
    pub shared_chassis: u64,
    /// Nodes want to know who asks (only with the whole core).
    #[serde(default)]
    pub access: bool,
    /// Clusters that keep versions (`versioned@v…`).
    #[serde(default)]
    pub histories: u64,
    /// They are keyspaces, and clients come to the same keys by both doors (only with the whole core).
    #[serde(default)]
    pub both_doors: bool,
    /// Clusters with Redis databases (`redis@r…`).
    #[serde(default)]
    pub databases: u64,
    /// They are keyspaces (only with the whole core).
    #[serde(default)]
    pub database_keyspaces: bool,
}

impl Shape {
    /// The bucket with a quota, and how many keys it may have. Of one that keeps versions a removal may bring a key back,
    /// which no quota hinders.
    pub fn limited(&self) -> Option<(usize, u64)> {
        let last = self
            .buckets
            .checked_sub(1)
            .filter(|last| self.quota_keys > 0 && *last >= self.versioned + self.suspended)?;
        Some((last as usize, self.quota_keys))
    }
}

/// Constants of the core, mostly tiny, so that rare paths are walked often.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SimTuning {
    pub tick_ms: u64,
    pub heartbeat_ticks: usize,
    pub election_ticks: usize,
    pub quiesce_after_ticks: u32,
    /// Leaders answer strong reads under leases.
    pub read_leases: bool,
    pub flush_bytes: u64,
    pub flush_after_ms: u64,
    pub log_keep_bytes: u64,
    pub snapshot_chunk_bytes: usize,
    pub node_heartbeat_ms: u64,
    pub node_down_ms: u64,
    /// Nodes down for so long are replaced; zero: never.
    pub replace_after_ms: u64,
    /// Engines are scrubbed as often; zero: never.
    pub scrub_round_ms: u64,
    pub segment_bytes: u64,
    pub spare_segments: usize,
    pub batch_bytes_max: usize,
    pub segments_soft_max: usize,
    pub seal_after_ms: u64,
    /// Events a core takes in one turn.
    pub turn_events_max: usize,
    /// What an event costs a core in microseconds, during which it takes no other; zero: turns take no time.
    pub event_us: u64,
    /// The core makes rare orders common.
    pub buggify: bool,
    /// Rows of a bucket's shard beyond which it is split.
    pub split_keys: u64,
    /// Writes a second beyond which it is split too; zero: never.
    pub split_writes: u64,
    /// State machines keep what may still be asked for so long; zero: as long as real ones do.
    pub keep_ms: u64,
    /// Freed data is handed on when it is so old; zero: as old as in real worlds.
    pub freed_age_ms: u64,
    /// So long behind its first try a client's request may come again; zero: not behind its deadline.
    pub request_id_window_ms: u64,
}

impl Default for SimTuning {
    fn default() -> Self {
        SimTuning {
            tick_ms: 30,
            heartbeat_ticks: 3,
            election_ticks: 10,
            quiesce_after_ticks: 100,
            read_leases: true,
            flush_bytes: 1 << 20,
            flush_after_ms: 10_000,
            log_keep_bytes: 1 << 20,
            snapshot_chunk_bytes: 64 << 10,
            node_heartbeat_ms: 1_000,
            node_down_ms: 4_000,
            replace_after_ms: 0,
            scrub_round_ms: 0,
            segment_bytes: 1 << 20,
            spare_segments: 1,
            batch_bytes_max: 256 << 10,
            segments_soft_max: 16,
            seal_after_ms: 200,
            turn_events_max: 64,
            event_us: 0,
            buggify: false,
            split_keys: 40_000,
            split_writes: 0,
            keep_ms: 0,
            freed_age_ms: 0,
            request_id_window_ms: 0,
        }
    }
}

/// What clients do.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Load {
    pub run_ms: u64,
    /// Clients that mix every key-value action on few keys.
    pub mixed: u64,
    /// Clients that write keys once, at every level (for the ledger).
    pub ledger: u64,
    /// Clients that count in Redis.
    pub counters: u64,
    /// Clients that delete and re-create their own cluster.
    pub lifecycle: u64,
    /// Clients that read few keys, each through a node of its own.
    pub readers: u64,
    /// Clients that write few keys, each through a node of its own.
    pub writers: u64,
    /// Clients of buckets.
    pub s3: u64,
    /// Of them, so many put keys that only grow.
    pub s3_growing: u64,
    /// Clients that upload in parts, and walk over snapshots page by page.
    pub uploaders: u64,
    /// Clients that race for the names of buckets.
    pub owners: u64,
    /// Clients that swap values of keys nobody else writes, in keyspaces where there are any.
    pub swappers: u64,
    /// Clients that are users, whose tokens and roles come and go (where nodes want to know who asks).
    pub users: u64,
    /// Clients of each cluster that keeps versions: who commit, and who watch.
    pub committers: u64,
    pub watchers: u64,
    /// Clients of each cluster with Redis databases; each node has a subscriber, too.
    pub redis: u64,
    /// These think so many times longer than others.
    pub writers_rest: u64,
    pub think_ms: u64,
    pub deadline_ms: u64,
    pub keys: u64,
    pub value_bytes: u64,
    /// How many writes in a thousand are hopeful, eventual, absolute; the rest is strong.
    pub hopeful: u64,
    pub eventual: u64,
    pub absolute: u64,
    /// The same of level s3.
    pub kept: u64,
    /// So many clients in a thousand speak the HTTP door's JSON (those of keys, only with the whole core).
    pub http: u64,
    /// What clients ask and what they are answered is up to so long under way.
    pub late_ms: u64,
    /// Who has waited so long asks another node too, with the same request id; zero: nobody does.
    pub hurry_ms: u64,
    /// How many requests in a thousand that were done come again later, within the window of their ids.
    pub late: u64,
    /// So many clients of keys in a thousand have their eventual reads hold what they have seen (only with the whole core).
    pub sessions: u64,
}

impl Default for Load {
    fn default() -> Self {
        Load {
            run_ms: 10_000,
            mixed: 4,
            ledger: 1,
            counters: 1,
            lifecycle: 0,
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
            think_ms: 50,
            deadline_ms: 3_000,
            keys: 4,
            value_bytes: 16,
            hopeful: 50,
            eventual: 50,
            absolute: 20,
            kept: 0,
            http: 0,
            late_ms: 0,
            hurry_ms: 0,
            late: 0,
            sessions: 0,
        }
    }
}

macro_rules! faults {
    ($($name:ident = $text:literal: $doc:literal,)*) => {
        /// What goes wrong.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Serialize, Deserialize)]
        pub enum FaultKind { $(#[doc = $doc] #[serde(rename = $text)] $name,)* }
        impl FaultKind {
            /// Every kind.
            pub const ALL: &'static [FaultKind] = &[$(FaultKind::$name,)*];
            /// The word used in plans and ledgers.
            pub fn name(self) -> &'static str {
                match self { $(FaultKind::$name => $text,)* }
            }
            /// What it does, in one line.
            pub fn describe(self) -> &'static str {
                match self { $(FaultKind::$name => $doc,)* }
            }
        }
    };
}

faults! {
    Loss = "loss": "every link loses `amount` frames in a thousand",
    Duplicate = "duplicate": "every link delivers `amount` frames in a thousand twice",
    Reorder = "reorder": "frames overtake each other",
    Delay = "delay": "`amount` frames in a thousand are up to 60 s late",
    SlowLinks = "slow_links": "every link is slower by `amount` ms",
    CutOneWay = "cut_one_way": "frames from `node` to `peer` vanish",
    Cut = "cut": "frames between `node` and `peer` vanish; the connection breaks",
    Isolate = "isolate": "`node` is cut off and its connections are reset",
    BlackHole = "black_hole": "`node` is cut off, and its connections stay open",
    Reset = "reset": "all connections of `node` are reset once",
    Partition = "partition": "the nodes in the bit mask `amount` are cut off from the rest",
    SwizzleClog = "swizzle_clog": "nodes are cut off one by one and restored in another order",
    SeeSaw = "see_saw": "each new leader of some cluster is cut off, at once or as soon as it commits, and the one before is let back",
    Crash = "crash": "the process of `node` is killed, and back `for_ms` later",
    CrashInTurn = "crash_in_turn": "`node` dies after `amount` effects of its next turn",
    CrashAtVote = "crash_at_vote": "`node` dies within `amount` us after its next change of term",
    CrashAll = "crash_all": "all processes are killed together",
    PowerLoss = "power_loss": "as crash, and what was being written is torn",
    Pause = "pause": "`node` is stopped and resumes `for_ms` later",
    Hold = "hold": "the machine of `node` is held by its hypervisor, its clock with it, and resumes `for_ms` later",
    LeaseEnd = "lease_end": "a leader is cut off as soon as its lease is renewed, and clocks run at the bounds against it, for `for_ms`",
    FewerCores = "fewer_cores": "`node` is killed and back with `amount` cores for all its lanes, and again with one each `for_ms` later",
    DiskStall = "disk_stall": "no write of `node` ends",
    SyncError = "sync_error": "the next log write of `node` fails",
    ReadOnly = "read_only": "every log write of `node` fails",
    DiskFull = "disk_full": "`node` gets no new segments",
    BitRot = "bit_rot": "`amount` sectors of the log of `node` rot",
    TailRot = "tail_rot": "`amount` sectors of the last write to the log of `node` rot",
    MisdirectedWrite = "misdirected_write": "the next log write of `node` lands elsewhere",
    PairRot = "pair_rot": "`amount` pairs in the engine of `node` rot (of `peer` classes of keys those of its own; 0: any)",
    KeyRot = "key_rot": "a bit flips in `amount` stored keys in the engine of `node`",
    Diverge = "diverge": "`amount` values in the engine of `node` become others, seals and all",
    LostWrite = "lost_write": "the next log write of `node` is acknowledged and lost, then power fails",
    DiskLost = "disk_lost": "`node` dies and comes back with an empty disk",
    LogLost = "log_lost": "`node` dies and comes back without the log of a lane, with all else: it must refuse",
    LogSwapped = "log_swapped": "`node` dies and comes back with two lanes' logs swapped, or another node's: it must refuse",
    OldImage = "old_image": "`node` dies and comes back with its disk as it was `amount` ms before",
    EngineError = "engine_error": "the next engine write of `node` fails",
    SlowDisk = "slow_disk": "every log write of `node` takes up to `amount` ms longer",
    Deaf = "deaf": "frames to `node` come up to `amount` ms late, from each peer another time (0: never)",
    Drift = "drift": "the clock of `node` runs `amount` in a million off (odd: slow, even: fast)",
    ClockJump = "clock_jump": "the clock of `node` jumps `amount` ms forward",
    WallJump = "wall_jump": "the wall clock of `node` jumps `amount` ms (odd: back, even: forward)",
    Transfer = "transfer": "an operator hands a cluster's leadership to `node`",
    AddMember = "add_member": "an operator adds `node` to a cluster",
    RemoveMember = "remove_member": "an operator removes `node` from a cluster",
    MoveMember = "move_member": "an operator moves a cluster's replica from `node` to `peer`, or (`amount` 1) to the best node",
    SetEngine = "set_engine": "an operator gives a cluster another engine (the same kind): every replica is recreated",
    WorldMember = "world_member": "an operator puts `peer` in the place of the world's member number `node`",
    WorldDown = "world_down": "after the load, most members of the world's cluster (`amount` 1: all; 2: those of the configured lists) are down for `for_ms`, and the rest starts anew",
    Drain = "drain": "an operator drains `node`: it leads nothing that others can lead, until `for_ms` later or its restart",
    Decommission = "decommission": "an operator takes `node` out of service, and back in `for_ms` later (0: never)",
    MajorityLost = "majority_lost": "a majority of some cluster dies for good, an operator recovers it, and the dead come back `for_ms` later",
    Install = "install": "`node` is stopped, and back `for_ms` later with a program that serves format levels up to `amount`",
    Finalize = "finalize": "an operator raises the world to the greatest format level that `node` serves",
    Recover = "recover": "an operator recovers the cluster that lost its majority",
    Reshard = "reshard": "an operator spreads a keyspace over `amount` clusters",
    Unheard = "unheard": "`node` is cut off from the leader of the moment of the directory of users, and from nobody else",
}

/// One thing that goes wrong at one moment. What `amount` means depends on the kind.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hazard {
    /// After the load began.
    pub at_ms: u64,
    pub kind: FaultKind,
    /// 1…nodes; 0 where the kind names none.
    #[serde(default)]
    pub node: u64,
    #[serde(default)]
    pub peer: u64,
    #[serde(default)]
    pub for_ms: u64,
    #[serde(default)]
    pub amount: u64,
}

impl fmt::Display for Hazard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>7} ms  {:<18} node {} peer {} for {} ms amount {}",
            self.at_ms,
            self.kind.name(),
            self.node,
            self.peer,
            self.for_ms,
            self.amount
        )
    }
}

impl Hazard {
    /// For the reader of a trace.
    pub fn in_words(&self) -> String {
        let mut text = self.kind.name().to_string();
        if self.kind == FaultKind::Partition {
            let side = (0..NODES_MAX).filter(|node| self.amount & (1 << node) != 0);
            let side: Vec<String> = side.map(|node| format!("n{}", node + 1)).collect();
            text += &format!(" of {} from the rest", side.join(" "));
        } else {
            let peer = if self.kind.names_a_peer() { self.peer } else { 0 };
            let nodes = [(" n", self.node), (" and n", peer)];
            nodes.iter().filter(|(_, node)| *node > 0).for_each(|(word, node)| text += &format!("{word}{node}"));
            if self.amount > 0 {
                text += &format!(", amount {}", self.amount);
            }
        }
        if self.for_ms > 0 {
            text += &format!(", for {} ms", self.for_ms);
        }
        text
    }
}

impl Plan {
    /// Reads a scenario. The error is one line for a person.
    pub fn parse(text: &str) -> Result<Plan, String> {
        let plan: Plan = toml::from_str(text).map_err(|error| one_line(&error.to_string()))?;
        plan.check()?;
        Ok(plan)
    }

    /// The plan as a scenario file.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).unwrap_or_else(|error| format!("# the plan cannot be written: {error}\n"))
    }

    /// Whether the plan is one this simulator can run.
    pub fn check(&self) -> Result<(), String> {
        let shape = &self.shape;
        within("version", u64::from(self.version), u64::from(PLAN_VERSION), u64::from(PLAN_VERSION))?;
        within("shape.nodes", shape.nodes, 1, NODES_MAX)?;
        within("shape.lanes", u64::from(shape.lanes), 1, LANES_MAX)?;
        within("shape.regions", shape.regions, 1, 3)?;
        within("shape.world_members", shape.world_members, 1, shape.nodes)?;
        within("shape.clusters", shape.clusters, 0, 1_000)?;
        within("shape.cluster_size", shape.cluster_size, 1, shape.nodes)?;
        within("shape.keyspaces", shape.keyspaces, 0, 8)?;
        within("shape.buckets", shape.buckets, 0, 4)?;
        within("shape.versioned", shape.versioned, 0, shape.buckets)?;
        within("shape.suspended", shape.suspended, 0, shape.buckets - shape.versioned)?;
        within("shape.quota_keys", shape.quota_keys, 0, s3_quota::KEYS_MAX)?;
        within("shape.tails", shape.tails, 0, shape.nodes)?;
        within("shape.histories", shape.histories, 0, 8)?;
        within("shape.databases", shape.databases, 0, 8)?;
        if (shape.both_doors || shape.database_keyspaces) && self.layer == Layer::Lane {
            let text =
                "a lane alone has no keyspaces; set layer = \"core\", or leave both_doors and database_keyspaces out";
            return Err(text.to_string());
        }
        within("shape.shared_chassis", shape.shared_chassis, 0, shape.nodes)?;
        self.tuning.check()?;
        self.load.check()?;
        if shape.clusters + shape.keyspaces == 0 && self.load.of_keys() > 0 {
            return Err(
                "shape has neither clusters nor keyspaces for its clients of keys; make one of them 1".to_string()
            );
        }
        within("the number of hazards", self.hazards.len() as u64, 0, HAZARDS_MAX as u64)?;
        if self.tuning.read_leases && self.hazards.iter().any(|hazard| hazard.kind == FaultKind::Hold) {
            return Err("leases do not survive a hold; set read_leases = false in [tuning]".to_string());
        }
        for (number, hazard) in self.hazards.iter().enumerate() {
            within(&format!("hazard {number}: node"), hazard.node, 0, shape.nodes)?;
            within(&format!("hazard {number}: peer"), hazard.peer, 0, shape.nodes)?;
            within(&format!("hazard {number}: for_ms"), hazard.for_ms, 0, LOAD_MS_MAX)?;
            within(&format!("hazard {number}: at_ms"), hazard.at_ms, 0, self.load.run_ms)?;
            within(&format!("hazard {number}: amount"), hazard.amount, 0, hazard.kind.amount_max())?;
        }
        Ok(())
    }
}

impl FaultKind {
    /// Whether `peer` is a node.
    pub fn names_a_peer(self) -> bool {
        matches!(self, FaultKind::Cut | FaultKind::CutOneWay | FaultKind::MoveMember | FaultKind::WorldMember)
    }

    /// The largest amount that means anything.
    fn amount_max(self) -> u64 {
        match self {
            FaultKind::Loss | FaultKind::Duplicate | FaultKind::Delay => 1_000,
            FaultKind::Drift => 999_999,
            FaultKind::FewerCores => LANES_MAX,
            FaultKind::Install => LEVELS.len() as u64,
            // Sectors, effects, nodes, clusters, milliseconds: far beyond what is drawn, and harmless.
            _ => LOAD_MS_MAX,
        }
    }
}

impl SimTuning {
    fn check(&self) -> Result<(), String> {
        let (heartbeat, election) = (self.heartbeat_ticks as u64, self.election_ticks as u64);
        let (batch, chunk) = (self.batch_bytes_max as u64, self.snapshot_chunk_bytes as u64);
        within("tuning.tick_ms", self.tick_ms, 1, 1_000)?;
        within("tuning.heartbeat_ticks", heartbeat, 1, 1_000)?;
        within("tuning.election_ticks", election, heartbeat + 1, 10_000)?;
        within("tuning.quiesce_after_ticks", u64::from(self.quiesce_after_ticks), 1, 1_000_000)?;
        within("tuning.flush_bytes", self.flush_bytes, 1, 1 << 30)?;
        within("tuning.flush_after_ms", self.flush_after_ms, 1, LOAD_MS_MAX)?;
        within("tuning.log_keep_bytes", self.log_keep_bytes, 0, 1 << 40)?;
        within("tuning.snapshot_chunk_bytes", chunk, 1, 4 << 20)?;
        within("tuning.node_heartbeat_ms", self.node_heartbeat_ms, 1, LOAD_MS_MAX)?;
        within("tuning.node_down_ms", self.node_down_ms, 1, LOAD_MS_MAX)?;
        within("tuning.replace_after_ms", self.replace_after_ms, 0, LOAD_MS_MAX)?;
        within("tuning.segment_bytes", self.segment_bytes, 16 << 10, 64 << 20)?;
        within("tuning.spare_segments", self.spare_segments as u64, 0, 16)?;
        within("tuning.batch_bytes_max", batch, 1, self.segment_bytes)?;
        within("tuning.segments_soft_max", self.segments_soft_max as u64, 1, 10_000)?;
        within("tuning.seal_after_ms", self.seal_after_ms, 1, LOAD_MS_MAX)?;
        within("tuning.event_us", self.event_us, 0, EVENT_US_MAX)?;
        within("tuning.turn_events_max", self.turn_events_max as u64, 1, 4_096)?;
        within("tuning.split_keys", self.split_keys, 4, 1 << 40)?;
        within("tuning.request_id_window_ms", self.request_id_window_ms, 0, LOAD_MS_MAX)?;
        within("tuning.split_writes", self.split_writes, 0, 1 << 40)?;
        within("tuning.keep_ms", self.keep_ms, 0, LOAD_MS_MAX)?;
        within("tuning.freed_age_ms", self.freed_age_ms, 0, LOAD_MS_MAX)
    }
}

impl Load {
    /// The clients of each kind.
    fn of_kinds(&self) -> [(&'static str, u64); 15] {
        [
            ("load.mixed", self.mixed),
            ("load.ledger", self.ledger),
            ("load.counters", self.counters),
            ("load.lifecycle", self.lifecycle),
            ("load.readers", self.readers),
            ("load.writers", self.writers),
            ("load.s3", self.s3),
            ("load.s3_growing", self.s3_growing),
            ("load.uploaders", self.uploaders),
            ("load.owners", self.owners),
            ("load.swappers", self.swappers),
            ("load.users", self.users),
            ("load.committers", self.committers),
            ("load.watchers", self.watchers),
            ("load.redis", self.redis),
        ]
    }

    /// How many clients there are (those of keys that grow are among those of buckets).
    pub fn clients(&self) -> u64 {
        self.of_kinds().iter().map(|(_, count)| count).sum::<u64>() - self.s3_growing
    }

    /// Clients that read and write plain keys.
    fn of_keys(&self) -> u64 {
        self.mixed + self.ledger + self.counters + self.readers + self.writers + self.swappers + self.users
    }

    fn check(&self) -> Result<(), String> {
        within("load.run_ms", self.run_ms, 1, LOAD_MS_MAX)?;
        for (name, count) in self.of_kinds() {
            within(name, count, 0, CLIENTS_MAX)?;
        }
        within("load.s3_growing", self.s3_growing, 0, self.s3)?;
        within("load.writers_rest", self.writers_rest, 1, 10_000)?;
        within("load.think_ms", self.think_ms, 1, LOAD_MS_MAX)?;
        within("load.deadline_ms", self.deadline_ms, 1, 30_000)?;
        within("load.keys", self.keys, 1, 1_000)?;
        within("load.late", self.late, 0, 1_000)?;
        within("load.sessions", self.sessions, 0, 1_000)?;
        within("load.value_bytes", self.value_bytes, 12, 65_536)?;
        within("load.http", self.http, 0, 1_000)?;
        within("load.late_ms", self.late_ms, 0, LATE_MS_MAX)?;
        within("load.hurry_ms", self.hurry_ms, 0, LOAD_MS_MAX)?;
        let shares =
            [("hopeful", self.hopeful), ("eventual", self.eventual), ("absolute", self.absolute), ("kept", self.kept)];
        for (name, share) in shares {
            within(&format!("load.{name}"), share, 0, 1_000)?;
        }
        let weak = self.hopeful + self.eventual + self.absolute + self.kept;
        within("load: hopeful, eventual, absolute and kept together", weak, 0, 1_000)
    }
}

fn within(name: &str, value: u64, low: u64, high: u64) -> Result<(), String> {
    match (low..=high).contains(&value) {
        true => Ok(()),
        false => Err(format!("{name} is {value}; it must be {low}…{high}")),
    }
}

fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('|')).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_file_is_a_plan() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
        let mut count = 0;
        for file in std::fs::read_dir(folder).expect("the scenarios are there") {
            let path = file.expect("a file").path();
            let text = std::fs::read_to_string(&path).expect("it can be read");
            let plan = Plan::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert!(!plan.title.is_empty(), "{} has no title", path.display());
            count += 1;
        }
        assert!(count >= 7);
    }

    #[test]
    fn a_plan_survives_its_file_and_bad_files_are_refused_in_one_line() {
        let plan = crate::swarm::draw(7, crate::plan::Layer::Core);
        assert_eq!(Plan::parse(&plan.to_toml()), Ok(plan.clone()));
        let changed = |change: fn(&mut Plan)| {
            let mut plan = plan.clone();
            change(&mut plan);
            plan.to_toml()
        };
        fn put(plan: &mut Plan, kind: FaultKind, amount: u64) {
            plan.hazards.push(Hazard { at_ms: 1, kind, node: 1, peer: 0, for_ms: 1, amount });
        }
        let bad = [
            plan.to_toml().replace("version = 1", "version = 2"),
            plan.to_toml() + "\n[[hazard]]\nat_ms = 1\nkind = \"meteor\"\n",
            plan.to_toml() + "\n[[hazard]]\nat_ms = 1\nkind = \"crash\"\nnode = 99\n",
            plan.to_toml().replace("[shape]", "[shape]\ncolour = 3"),
            changed(|plan| plan.load.mixed = u64::MAX),
            changed(|plan| plan.load.think_ms = 0),
            changed(|plan| (plan.shape.clusters, plan.shape.keyspaces) = (0, 0)),
            changed(|plan| plan.load.hopeful += 999),
            changed(|plan| plan.tuning.snapshot_chunk_bytes = 0),
            changed(|plan| plan.tuning.heartbeat_ticks = plan.tuning.election_ticks),
            changed(|plan| plan.tuning.spare_segments = 1 << 40),
            changed(|plan| put(plan, FaultKind::FewerCores, 1 << 60)),
            changed(|plan| put(plan, FaultKind::Drift, 1_000_001)),
            changed(|plan| put(plan, FaultKind::Loss, 1_001)),
            "not a plan".to_string(),
        ];
        for text in bad {
            let error = Plan::parse(&text).expect_err("a bad plan was taken");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
