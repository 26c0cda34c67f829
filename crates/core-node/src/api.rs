//! Events into a core and effects out of it. The host (edge-node, or the simulator) gathers the
//! events of one turn, calls `Core::step` for each, then `Core::finish_turn` once, then carries out
//! the effects in order.

pub use crate::frame::Announcement;
pub use base_access::Directory;
use base_types::action::{Request, Response};
use base_types::{BackendKind, BootId, ClusterName, DiskId, FormatLevel, LaneId, NodeId, Term, Tick, Ticket};
use bytes::Bytes;
use core::time::Duration;
pub use core_backends::Keep;
use core_cluster::api::{EngineJob, Leadership, RequestIdTerms};
use core_log::{BatchNumber, LogAction, SegmentId};
pub use core_s3::{S3Config, FREED_AGE_MS, SPLIT_KEYS, SPLIT_LOAD_PERCENT, SPLIT_WRITES};
use std::sync::Arc;

/// Who this node is and what its configuration says.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// The world's name; nodes of other worlds are refused.
    pub world: String,
    /// Which life of the world this node's data belongs to (decision 0036); zero: the first, or a blank node's.
    pub incarnation: u64,
    /// The later life that this node has heard of, if it has: it serves nothing.
    pub superseded_by: u64,
    /// The world's format level, as this node has kept it (decision 0070); of a blank node the lowest that its program serves.
    pub level: FormatLevel,
    /// The greatest that its program serves.
    pub level_max: FormatLevel,
    pub node: NodeId,
    pub disk: DiskId,
    /// The batch that this lane's log is known to have reached, by a mark kept outside its files. 0: it may be new.
    pub log_reached: u64,
    pub boot: BootId,
    pub lane: LaneId,
    pub lane_count: u16,
    pub labels: core_placement::Labels,
    /// Where peers reach this node.
    pub peer_address: String,
    /// Where clients reach this node's HTTP door (told in the node map).
    pub http_address: String,
    /// Its doors beside that, and where clients reach them (told in the node map).
    pub doors: Vec<core_placement::Door>,
    /// Who forms the world cluster, and where it is looked for first: (node, peer address).
    pub world_members: Vec<(NodeId, String)>,
    /// The same for this region's cluster. Empty: the region has none, as far as this node knows.
    pub region_members: Vec<(NodeId, String)>,
    /// The members of the level 0 clusters as the host was last told (`Effect::Remember`) by this node on this disk.
    pub remembered: Vec<Announcement>,
    /// Engine where a rule names none.
    pub default_engine: String,
    pub engines: Vec<String>,
    pub version: String,
    /// Sizes and times; the simulator shrinks them.
    pub tuning: Tuning,
    /// Seeds every random choice (ids drawn, election timeouts).
    pub seed: u64,
    /// How S3 metadata is laid out.
    pub s3: S3Config,
    /// Who is asked who they are.
    pub access: AccessConfig,
}

/// Who is asked who they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AccessConfig {
    /// Every request needs a credential, and every forwarded one what was decided for it. Alike on all nodes of a world.
    pub required: bool,
    /// How often it is seen whether the directory has changed. A change counts on every node after two of these.
    pub sync_ms: u64,
}

/// How often it is seen whether the directory has changed: four times in the time that a revoked token may still count.
pub const DIRECTORY_SYNC_MS: u64 = 500;

impl Default for AccessConfig {
    fn default() -> AccessConfig {
        AccessConfig { required: false, sync_ms: DIRECTORY_SYNC_MS }
    }
}

/// How long a node may be down before its replicas are recreated on other nodes: longer than a reboot or a
/// change of a part, short enough that a second loss seldom falls into it.
pub const REPLACE_AFTER_MS: u64 = 600_000;

/// A log write that takes longer counts as failed.
pub const LOG_STALL_MS: u64 = 5_000;

/// What a scrub reads of each engine of a lane in a second: 86 GB a day, below a hundredth of what a disk gives.
pub const SCRUB_BYTES_PER_SECOND: u64 = 1 << 20;
/// A round of a scrub begins no sooner than so long behind the one before: a small engine is not read all the time.
pub const SCRUB_ROUND_MS: u64 = 3_600_000;

/// What the checksums of a lane's log cover besides its bytes.
pub fn log_identity(world: &str, disk: DiskId, lane: LaneId) -> u64 {
    xxhash_rust::xxh3::xxh3_64(format!("{world}\0{disk}\0{lane}").as_bytes())
}

/// Times and bounds that tests and the simulator shrink.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// One Raft tick.
    pub tick_ms: u64,
    pub heartbeat_ticks: usize,
    /// What a follower promises its leader; after it members ask to lead in turn, two ticks apart.
    pub election_ticks: usize,
    /// An idle cluster quiesces after this many ticks.
    pub quiesce_after_ticks: u32,
    /// Whether leaders answer strong reads by themselves while their lease lasts (decision 0033).
    pub read_leases: bool,
    /// A leader whose log write takes so many election timeouts hands leadership over; zero: never (decision 0034).
    pub log_stall_elections: u32,
    /// A log write that takes longer counts as failed, in time in which the process runs.
    pub log_stall_ms: u64,
    /// Requests that take longer are reported with where their time went; zero: none.
    pub slow_request_ms: u64,
    /// The overlay is written out at this size…
    pub flush_bytes: u64,
    /// …or this age.
    pub flush_after_ms: u64,
    /// Entries kept behind the durable index for followers that lag, in bytes per cluster.
    pub log_keep_bytes: u64,
    pub snapshot_chunk_bytes: usize,
    pub node_heartbeat_ms: u64,
    /// A node not heard of for this long is down.
    pub node_down_ms: u64,
    /// A node that is down for this long is gone for good: its replicas are recreated on others. Zero: never.
    pub replace_after_ms: u64,
    /// How much a scrub reads of each engine of a lane in a second; zero: there is none.
    pub scrub_bytes_per_second: u64,
    /// A round of a scrub begins no sooner than so long behind the one before.
    pub scrub_round_ms: u64,
    /// Each space says in itself whose it is: for engines that outlive the node (core-cluster's `restore.rs`).
    pub label_spaces: bool,
    /// Replicas in this engine are durable tails (core-cluster's `archive_ack.rs`): it outlives the machine.
    pub tail_engine: Option<Arc<str>>,
    /// Until then the lanes make rare orders common: simulator only, else `Tick(0)`.
    pub buggify_until: Tick,
    /// Commands of this kind are kept when they were applied (core-cluster's `Witnessed`): simulator only, else `None`.
    pub witness: Option<BackendKind>,
    /// How long state machines keep what may still be asked for: alike on all nodes, and the default but in simulations.
    pub keep: Keep,
    /// How long and how many request ids are remembered: other than the default in the simulator only.
    pub request_ids: RequestIdTerms,
    pub log: core_log::LogConfig,
}

impl Default for Tuning {
    fn default() -> Self {
        Tuning {
            tick_ms: 30,
            heartbeat_ticks: 3,
            election_ticks: 10,
            quiesce_after_ticks: 33,
            read_leases: true,
            log_stall_elections: 1,
            log_stall_ms: LOG_STALL_MS,
            slow_request_ms: 1_000,
            flush_bytes: 32 << 20,
            flush_after_ms: 10_000,
            log_keep_bytes: 8 << 20,
            snapshot_chunk_bytes: 256 << 10,
            node_heartbeat_ms: 1_000,
            node_down_ms: 4_000,
            replace_after_ms: REPLACE_AFTER_MS,
            scrub_bytes_per_second: SCRUB_BYTES_PER_SECOND,
            scrub_round_ms: SCRUB_ROUND_MS,
            label_spaces: false,
            tail_engine: None,
            buggify_until: Tick(0),
            witness: None,
            keep: core_backends::Keep::default(),
            request_ids: RequestIdTerms::default(),
            log: core_log::LogConfig::default(),
        }
    }
}

/// Something that happened.
#[derive(Debug)]
pub enum Event {
    /// Time may have passed (`Core::next_wake` was reached).
    Timer,
    /// A client's request from a door on this core. Answered by exactly one `Effect::Reply` with this ticket.
    /// Its deadline counts from `asked`: when the door had the whole of it, on this node's clock.
    Request {
        ticket: Ticket,
        asked: Tick,
        request: Request,
    },
    /// The client went away: no reply is wanted (a write may still happen).
    Cancel {
        ticket: Ticket,
    },
    /// A frame from a peer, its certificate already checked to be `from`.
    Frame {
        from: NodeId,
        frame: Bytes,
    },
    /// A connection to a peer came up: the first one, and then the one this node dialled; or all of them went down.
    PeerUp {
        node: NodeId,
    },
    PeerDown {
        node: NodeId,
    },
    /// From another core of this node.
    Mail {
        from: LaneId,
        mail: Mail,
    },
    /// Log write done, durable.
    LogWritten {
        batch: BatchNumber,
    },
    LogSegmentReady {
        segment: SegmentId,
    },
    /// A segment could not be made (no room): the log waits, and retries.
    LogSegmentFailed {
        segment: SegmentId,
    },
    LogFailed {
        message: String,
    },
    EngineDone {
        job: u64,
        result: Result<core_cluster::api::EngineAnswer, base_engine::EngineError>,
    },
    /// What the host knows of the machine: load 0…1000, disk fill 0…1000.
    Machine {
        load: u32,
        disk: u32,
    },
    /// What the wall clock says; told at the start and then often. It may jump.
    Clock {
        unix_ms: u64,
    },
    /// From when until when this node's certificate is valid, Unix milliseconds; told at the start and then often.
    Certificate {
        issued_ms: u64,
        expires_ms: u64,
    },
    /// A peer refused this node's connection, for its world is of a later life.
    WorldReborn {
        heard: u64,
        from: NodeId,
    },
    /// A peer said in its handshake, or with its refusal, that the world's formats are of this level.
    FormatLevel {
        level: FormatLevel,
        from: NodeId,
    },
    /// The host is setting something up, and the node is not ready until it says that it is done: `None`. To lane zero.
    Hold {
        reason: Option<String>,
    },
    /// The host keeps this copy of the directory of users, or had it at start: every lane decides by it from now on.
    Directory {
        directory: Arc<Directory>,
    },
    /// A door waits for a newer copy of the directory of users. To lane zero.
    DirectoryWanted,
    /// The disk below the data directory is (no longer) too full for writes.
    DiskFull {
        full: bool,
    },
    /// The node is (no longer) drained, or about to stop: it leads nothing that others can lead. To every lane.
    Drained {
        drained: bool,
    },
}

/// A message between cores of one node: an encoded frame, as a peer's would be.
#[derive(Clone, Debug)]
pub struct Mail {
    pub frame: Bytes,
}

/// Something to do.
#[derive(Debug)]
pub enum Effect {
    /// To a lane of a peer. The host may drop it if there is no connection or its queue is full.
    Send {
        to: NodeId,
        lane: LaneId,
        frame: Bytes,
    },
    /// To another core of this node, behind what was sent there before. The host may drop it only when stopping.
    Mail {
        to: LaneId,
        mail: Mail,
    },
    Reply {
        ticket: Ticket,
        response: Response,
    },
    Log(LogAction),
    Engine(EngineJob),
    /// Where a node's peers' port is (learned from configuration or node map): connect to it, keep connected.
    Address {
        node: NodeId,
        address: String,
    },
    /// Not to be talked to any more.
    Forget {
        node: NodeId,
    },
    /// To be kept durably, in place of what was there before, and handed to the next life on this disk
    /// (`NodeConfig::remembered`). What cannot be kept is found out anew, as long as a configured node can be asked.
    Remember {
        announcements: Vec<Announcement>,
    },
    /// What is to be kept beside the node's identity before anything that follows: which life of the world its data belongs
    /// to, and the later one it has heard of (zero: none).
    Incarnation {
        own: u64,
        superseded_by: u64,
    },
    /// The world's format level, to be kept beside the node's identity before anything that follows. It only rises, whichever lane
    /// says so.
    FormatLevel {
        level: FormatLevel,
    },
    /// The newest copy of the directory of users, confirmed now: to be kept durably, in place of the one before, and then given
    /// to every lane (`Event::Directory`). Often it is the one that is kept already.
    Directory {
        directory: Arc<Directory>,
    },
    /// An operator drains the node, or ends that: to be given to every lane (`Event::Drained`).
    Drained {
        drained: bool,
    },
    /// A reply that follows took longer than `Tuning::slow_request_ms`: where the time went.
    Spent {
        ticket: Ticket,
        spent: Box<Spent>,
    },
    /// For the log file and the operator, beside the notes: what changed, one event each.
    Change(Change),
    /// For the log file and the operator.
    Note {
        level: NoteLevel,
        text: String,
    },
    /// This process must end: the log failed, or the core found its own state impossible.
    Halt {
        reason: String,
    },
}

/// A change of leader, members, node or flow, as this node sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// A replica here leads, hands over, or stopped.
    Leadership { cluster: ClusterName, term: Term, event: Leadership },
    /// Told by the leader.
    Members { cluster: ClusterName, before: Vec<NodeId>, now: Vec<NodeId> },
    /// Told by every node.
    Node { node: NodeId, news: NodeNews },
    /// A flow that an operator should know of (`Planner::subject`) begins here.
    FlowBegun { flow: &'static str, subject: String },
    /// It ended; `failed`: without success, and why.
    FlowEnded { flow: &'static str, subject: String, took: Duration, failed: Option<String> },
    /// A call of a plan took longer than `Tuning::slow_request_ms`.
    SlowCall(Spent),
}

/// Where the time of a request went, or of one of a plan's calls.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Spent {
    /// The cluster that was asked, if it was one.
    pub cluster: Option<Arc<ClusterName>>,
    /// Who was asked last.
    pub node: Option<NodeId>,
    /// Since the core took it up.
    pub took: Duration,
    /// Of that, until the last node was asked: looking the cluster up, asking others, pauses.
    pub before: Duration,
    /// How often a node was asked, and how often none answered in time.
    pub attempts: u32,
    pub timeouts: u32,
    /// Of a plan: its name.
    pub plan: Option<&'static str>,
}

/// What became of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeNews {
    Joined,
    Up,
    /// The world's leader has not heard from it for `node_down_ms`.
    Down,
    /// It came back with another disk: what it held is lost.
    DiskLost,
    Forgotten,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoteLevel {
    Info,
    Warning,
    Error,
}

#[derive(Debug, Default)]
pub struct Effects {
    pub list: Vec<Effect>,
}
