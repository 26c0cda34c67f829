//! What nodes (and cores of one node) say to each other: frames of items, with a codec of our own.
//!
//!   magic u32 | version u8 | to lane u16 | from node u64 | from boot u64 | from lane u16 | from lanes u16
//!   from disk u64 | its log at boot u64 | its log now u64 | its world's incarnation u64
//!   its world's format level u16
//!   then, until the end:  kind u8 | length varint | body
//!
//! One frame for a (node, lane) and turn; more where it would grow beyond `FRAME_BYTES_SOFT`.
//!
//! Always: a decoder never panics, never allocates from a length it has not checked, and refuses a
//! frame of another magic or version or with an unknown item as a whole.
//! Held by: `damage_never_panics`, `foreign_frames_are_refused`, `peer_frame`.
//! Not here: the cluster layer's types (`wire.rs`); whether `from` may say what it says (`core.rs`).

mod announcement;
mod news;

pub use announcement::Announcement;
pub use news::{LaneGauges, LaneHealth, Told};

use crate::wire;
use base_types::access::Authority;
use base_types::action::StatusInfo;
use base_types::codec::{DecodeError, Encode, Reader, Writer};
use base_types::{
    BootId, ClusterId, ClusterName, DiskId, FormatLevel, Generation, LaneId, NodeId, Refusal, ReplicaId, Survivor,
    Ticket,
};
use bytes::Bytes;
use core_cluster::api::{LocalKind, LocalOutcome, Member, NewLife, ReplicaSpec};
use core_placement::{MapDelta, MapVersion, NodeRecord};

/// `HIVE` in little-endian.
pub const FRAME_MAGIC: u32 = 0x4556_4948;
/// The version of this format, raised too where replicas of two builds would apply an entry differently. A frame of another is refused.
pub const FRAME_VERSION: u8 = 10;
/// A frame is closed when it has grown to this size.
pub const FRAME_BYTES_SOFT: usize = 1 << 20;
/// The largest frame there is: one item of the largest command or snapshot chunk, and room around it.
pub const FRAME_BYTES_MAX: usize = 16 << 20;
/// The most items one frame may hold.
pub const FRAME_ITEMS_MAX: usize = 65_536;
/// The most clusters a list in an item may name.
pub const LIST_MAX: usize = 65_536;

const HEADER_BYTES: usize = 4 + 1 + 2 + 8 + 8 + 2 + 2 + 8 + 8 + 8 + 8 + 2;

/// Who sends a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sender {
    pub node: NodeId,
    pub boot: BootId,
    pub lane: LaneId,
    /// How many lanes the node has: what `lane_of` needs to address it.
    pub lanes: u16,
    /// Its disk, the last durable batch of the lane's log there when it booted, and a later one by now
    /// (`disk_rollback.rs`).
    pub disk: DiskId,
    pub batch_at_boot: u64,
    pub batch: u64,
    /// Which life of the world its data belongs to (`incarnation.rs`).
    pub incarnation: u64,
    /// The level of the formats it may write (`format_level.rs`).
    pub level: FormatLevel,
}

/// A decoded frame.
#[derive(Clone, PartialEq, Debug)]
pub struct Frame {
    pub to: LaneId,
    pub from: Sender,
    pub items: Vec<Item>,
}

/// The members of a level 0 cluster as its coordinator found them, all blank.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FormationDocument {
    pub cluster: ClusterId,
    /// Each with its disk; the replica id is the node's id.
    pub members: Vec<Member>,
}

/// What a configured member of a level 0 cluster holds of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FormationState {
    /// Nothing, on this disk.
    Blank { disk: DiskId },
    /// A replica that is not yet surely on disk.
    Pending,
    /// A durable replica, made from this document.
    Formed(FormationDocument),
}

/// One thing said.
#[derive(Clone, PartialEq, Debug)]
pub enum Item {
    /// A Raft message (or what else core-cluster says to its peers). `origin` differs from the
    /// frame's sender where another lane of this node passes it on.
    Peer {
        origin: NodeId,
        cluster: ClusterId,
        generation: Generation,
        payload: Bytes,
    },
    /// An operation on a replica of the addressed lane.
    Forward {
        ticket: Ticket,
        cluster: ClusterId,
        generation: Generation,
        deadline_ms: u32,
        kind: LocalKind,
        /// For whom.
        authority: Authority,
    },
    /// Its end. `boot`: the asker's, as its frame told it; an answer to an earlier life is dropped.
    ForwardReply {
        ticket: Ticket,
        boot: BootId,
        outcome: LocalOutcome,
    },
    /// Make a replica, if the disk is this one.
    CreateReplica {
        ticket: Ticket,
        disk: DiskId,
        spec: Box<ReplicaSpec>,
    },
    /// Remove a replica: this one, or (0) whichever is there.
    DestroyReplica {
        ticket: Ticket,
        cluster: ClusterId,
        generation: Generation,
        replica: ReplicaId,
    },
    /// What came of either: `Ok(true)` done, `Ok(false)` was so already.
    ReplicaDone {
        ticket: Ticket,
        boot: BootId,
        result: Result<bool, Refusal>,
    },
    /// What is left here of a cluster whose majority may be gone for good?
    Survey {
        ticket: Ticket,
        cluster: ClusterId,
    },
    /// This replica, or nothing.
    Surveyed {
        ticket: Ticket,
        boot: BootId,
        survivor: Option<Box<Survivor>>,
    },
    /// Begin a new life of a cluster alone; answered by `ReplicaDone`.
    BeginLife {
        ticket: Ticket,
        life: NewLife,
    },
    /// A node reports that it lives. `wanted`: what its copy of the node map asks for.
    Heartbeat {
        record: Box<NodeRecord>,
        wanted: MapVersion,
    },
    /// The answer: who leads the world cluster, and (from the leader) what is new in the node map.
    HeartbeatReply {
        leader: Option<NodeId>,
        delta: Option<Box<MapDelta>>,
    },
    /// Asks a configured member what it holds of a level 0 cluster.
    FormationProbe {
        cluster: ClusterId,
        nonce: u64,
    },
    /// The answer to the probe with this nonce.
    FormationAnswer {
        cluster: ClusterId,
        nonce: u64,
        state: FormationState,
    },
    /// A replica was addressed that is not here; this node's disk shows whether it was lost.
    UnknownCluster {
        cluster: ClusterId,
        generation: Generation,
        disk: DiskId,
    },
    /// The lane of this boot sends from a disk that has forgotten: the sender has seen this batch of it.
    DiskForgot {
        boot: BootId,
        disk: DiskId,
        batch: u64,
    },
    /// Who the members of a level 0 cluster are: by its leader, or by who remembers what a leader said.
    Announce {
        announcement: Box<Announcement>,
    },
    /// Between lanes of one node: the node map, as it changes.
    MapNews {
        delta: Box<MapDelta>,
    },
    /// Between lanes of one node: what is known of replicas here.
    ReplicaNews {
        cluster: ClusterId,
        generation: Generation,
        name: ClusterName,
        replica: ReplicaId,
        leader: Option<NodeId>,
    },
    /// Between lanes of one node: a replica is gone.
    ReplicaGone {
        cluster: ClusterId,
        name: ClusterName,
    },
    /// Between lanes of one node: a lane's gauges and warnings.
    LaneNews {
        gauges: Box<LaneGauges>,
    },
    /// Between lanes of one node: a client wants the status.
    StatusAsked {
        ticket: Ticket,
    },
    /// Lane zero's answer.
    StatusTold {
        ticket: Ticket,
        status: Box<StatusInfo>,
    },
    /// The sender looks for a cluster; `led`: only a replica with a leader is of use. To lane zero.
    WhereIs {
        name: ClusterName,
        led: bool,
    },
    /// The sender has a replica of it.
    Location {
        name: ClusterName,
        told: Told,
    },
    /// No leader of the world is known: nodes that the sender has heard of, and where they are.
    Neighbours {
        nodes: Vec<(NodeId, String)>,
    },
    /// Between lanes of one node: a peer is of a later life of the world; or, from lane zero, what that means for the node.
    WorldReborn {
        heard: u64,
        from: NodeId,
    },
    WorldIs {
        own: u64,
        superseded_by: u64,
    },
    /// Between lanes of one node: how is it with the lane?
    HealthAsked {
        ticket: Ticket,
    },
    /// Its answer.
    HealthTold {
        ticket: Ticket,
        health: Box<LaneHealth>,
    },
    /// Between lanes of one node: somebody waits for a newer copy of the directory of users.
    DirectoryWanted,
}

mod kind {
    pub const PEER: u8 = 1;
    pub const FORWARD: u8 = 2;
    pub const FORWARD_REPLY: u8 = 3;
    pub const CREATE_REPLICA: u8 = 4;
    pub const DESTROY_REPLICA: u8 = 5;
    pub const REPLICA_DONE: u8 = 6;
    pub const HEARTBEAT: u8 = 7;
    pub const HEARTBEAT_REPLY: u8 = 8;
    pub const FORMATION_PROBE: u8 = 9;
    pub const FORMATION_ANSWER: u8 = 10;
    pub const UNKNOWN_CLUSTER: u8 = 11;
    pub const MAP_NEWS: u8 = 12;
    pub const REPLICA_NEWS: u8 = 13;
    pub const REPLICA_GONE: u8 = 14;
    pub const LANE_NEWS: u8 = 15;
    pub const STATUS_ASKED: u8 = 16;
    pub const STATUS_TOLD: u8 = 17;
    pub const DISK_FORGOT: u8 = 18;
    pub const HEALTH_ASKED: u8 = 19;
    pub const HEALTH_TOLD: u8 = 20;
    pub const WHERE_IS: u8 = 21;
    pub const LOCATION: u8 = 22;
    pub const NEIGHBOURS: u8 = 23;
    pub const ANNOUNCE: u8 = 24;
    pub const WORLD_REBORN: u8 = 25;
    pub const WORLD_IS: u8 = 26;
    pub const SURVEY: u8 = 27;
    pub const SURVEYED: u8 = 28;
    pub const BEGIN_LIFE: u8 = 29;
    pub const FORWARD_AS: u8 = 30;
    pub const DIRECTORY_WANTED: u8 = 31;
}

/// A frame being filled.
#[derive(Debug)]
pub struct FrameBuilder {
    out: Writer,
    items: usize,
}

impl FrameBuilder {
    /// An empty frame for a lane.
    pub fn new(to: LaneId, from: Sender) -> FrameBuilder {
        let mut out = Writer::with_capacity(512);
        out.u32(FRAME_MAGIC).u8(FRAME_VERSION).u16(to.0);
        out.u64(from.node.0).u64(from.boot.0).u16(from.lane.0).u16(from.lanes);
        out.u64(from.disk.0).u64(from.batch_at_boot).u64(from.batch).u64(from.incarnation).u16(from.level.0);
        FrameBuilder { out, items: 0 }
    }

    /// Whether the frame should be closed before another item.
    pub fn is_full(&self) -> bool {
        self.out.len() >= FRAME_BYTES_SOFT || self.items >= FRAME_ITEMS_MAX
    }

    /// Adds an item. A peer's message, the most frequent one, is written without a copy between.
    pub fn push(&mut self, item: &Item) {
        self.items += 1;
        if let Item::Peer { origin, cluster, generation, payload } = item {
            let length = 8 + 8 + 4 + payload.len();
            self.out.u8(kind::PEER).varint(length as u64);
            self.out.u64(origin.0).u64(cluster.0).u32(generation.0).raw(payload);
            return;
        }
        let mut body = Writer::new();
        let kind = write_item(&mut body, item);
        self.out.u8(kind).bytes(&body.into_vec());
    }

    /// The frame's bytes.
    pub fn finish(self) -> Bytes {
        self.out.finish()
    }
}

fn write_item(out: &mut Writer, item: &Item) -> u8 {
    match item {
        Item::Peer { origin, cluster, generation, payload } => {
            out.u64(origin.0).u64(cluster.0).u32(generation.0).raw(payload);
            kind::PEER
        }
        Item::Forward { ticket, cluster, generation, deadline_ms, kind: operation, authority } => {
            out.u64(ticket.0).u64(cluster.0).u32(generation.0).u32(*deadline_ms);
            let with_authority = wire::write_authority(out, *authority);
            wire::write_kind(out, operation);
            if with_authority {
                kind::FORWARD_AS
            } else {
                kind::FORWARD
            }
        }
        Item::DirectoryWanted => kind::DIRECTORY_WANTED,
        Item::ForwardReply { ticket, boot, outcome } => {
            out.u64(ticket.0).u64(boot.0);
            wire::write_outcome(out, outcome);
            kind::FORWARD_REPLY
        }
        Item::CreateReplica { ticket, disk, spec } => {
            out.u64(ticket.0).u64(disk.0);
            wire::write_spec(out, spec);
            kind::CREATE_REPLICA
        }
        Item::DestroyReplica { ticket, cluster, generation, replica } => {
            out.u64(ticket.0).u64(cluster.0).u32(generation.0).u64(replica.0);
            kind::DESTROY_REPLICA
        }
        Item::ReplicaDone { ticket, boot, result } => {
            out.u64(ticket.0).u64(boot.0);
            match result {
                Ok(done) => {
                    out.u8(0).bool(*done);
                }
                Err(refusal) => refusal.encode(out.u8(1)),
            }
            kind::REPLICA_DONE
        }
        Item::Survey { ticket, cluster } => {
            out.u64(ticket.0).u64(cluster.0);
            kind::SURVEY
        }
        Item::Surveyed { ticket, boot, survivor } => {
            out.u64(ticket.0).u64(boot.0).option(survivor.as_deref(), |out, survivor| survivor.encode(out));
            kind::SURVEYED
        }
        Item::BeginLife { ticket, life } => {
            out.u64(ticket.0).u64(life.cluster.0).u64(life.replica.0).u32(life.from.0).u32(life.to.0);
            kind::BEGIN_LIFE
        }
        _ => write_node_item(out, item),
    }
}

fn write_node_item(out: &mut Writer, item: &Item) -> u8 {
    match item {
        Item::Heartbeat { record, wanted } => {
            wanted.encode(out);
            record.encode(out);
            kind::HEARTBEAT
        }
        Item::HeartbeatReply { leader, delta } => {
            write_node_option(out, *leader);
            out.option(delta.as_ref(), |out, delta| delta.encode(out));
            kind::HEARTBEAT_REPLY
        }
        Item::FormationProbe { cluster, nonce } => {
            out.u64(cluster.0).u64(*nonce);
            kind::FORMATION_PROBE
        }
        Item::FormationAnswer { cluster, nonce, state } => {
            out.u64(cluster.0).u64(*nonce);
            write_formation_state(out, state);
            kind::FORMATION_ANSWER
        }
        Item::UnknownCluster { cluster, generation, disk } => {
            out.u64(cluster.0).u32(generation.0).u64(disk.0);
            kind::UNKNOWN_CLUSTER
        }
        Item::DiskForgot { boot, disk, batch } => {
            out.u64(boot.0).u64(disk.0).u64(*batch);
            kind::DISK_FORGOT
        }
        Item::Announce { announcement } => {
            announcement.encode(out);
            kind::ANNOUNCE
        }
        Item::MapNews { delta } => {
            delta.encode(out);
            kind::MAP_NEWS
        }
        Item::ReplicaNews { cluster, generation, name, replica, leader } => {
            out.u64(cluster.0).u32(generation.0);
            wire::write_name(out, name);
            out.u64(replica.0);
            write_node_option(out, *leader);
            kind::REPLICA_NEWS
        }
        Item::ReplicaGone { cluster, name } => {
            out.u64(cluster.0);
            wire::write_name(out, name);
            kind::REPLICA_GONE
        }
        Item::LaneNews { gauges } => {
            out.u32(gauges.replicas).u32(gauges.leaders).u32(gauges.quiesced).bool(gauges.formed);
            news::write_texts(out, &gauges.warnings);
            kind::LANE_NEWS
        }
        Item::StatusAsked { ticket } => {
            out.u64(ticket.0);
            kind::STATUS_ASKED
        }
        Item::StatusTold { ticket, status } => {
            news::write_status(out.u64(ticket.0), status);
            kind::STATUS_TOLD
        }
        Item::WhereIs { name, led } => {
            wire::write_name(out, name);
            out.bool(*led);
            kind::WHERE_IS
        }
        Item::Location { name, told } => {
            wire::write_name(out, name);
            out.u64(told.cluster.0).u32(told.generation.0);
            write_node_option(out, told.leader);
            kind::LOCATION
        }
        Item::Neighbours { nodes } => {
            out.varint(nodes.len() as u64);
            for (node, address) in nodes {
                out.u64(node.0).string(address);
            }
            kind::NEIGHBOURS
        }
        Item::WorldReborn { heard, from } => {
            out.u64(*heard).u64(from.0);
            kind::WORLD_REBORN
        }
        Item::WorldIs { own, superseded_by } => {
            out.u64(*own).u64(*superseded_by);
            kind::WORLD_IS
        }
        Item::HealthAsked { ticket } => {
            out.u64(ticket.0);
            kind::HEALTH_ASKED
        }
        Item::HealthTold { ticket, health } => {
            news::write_lane_health(out.u64(ticket.0), health);
            kind::HEALTH_TOLD
        }
        _ => unreachable!("write_item has written the others"),
    }
}

fn write_node_option(out: &mut Writer, node: Option<NodeId>) {
    out.option(node, |out, node| {
        out.u64(node.0);
    });
}

fn read_node_option(input: &mut Reader) -> Result<Option<NodeId>, DecodeError> {
    input.option("node", |input| input.u64("node").map(NodeId))
}

fn write_formation_state(out: &mut Writer, state: &FormationState) {
    match state {
        FormationState::Blank { disk } => {
            out.u8(0).u64(disk.0);
        }
        FormationState::Pending => {
            out.u8(1);
        }
        FormationState::Formed(document) => {
            out.u8(2).u64(document.cluster.0);
            wire::write_members(out, &document.members);
        }
    }
}

fn read_formation_state(input: &mut Reader) -> Result<FormationState, DecodeError> {
    Ok(match input.u8("formation state")? {
        0 => FormationState::Blank { disk: DiskId(input.u64("disk")?) },
        1 => FormationState::Pending,
        2 => FormationState::Formed(FormationDocument {
            cluster: ClusterId(input.u64("cluster")?),
            members: wire::read_members(input)?,
        }),
        _ => return Err(DecodeError::Unknown("formation state")),
    })
}

/// Reads a frame.
pub fn decode(bytes: Bytes) -> Result<Frame, DecodeError> {
    if bytes.len() > FRAME_BYTES_MAX {
        return Err(DecodeError::TooLarge("frame"));
    }
    let mut input = Reader::new(bytes);
    if input.u32("frame magic")? != FRAME_MAGIC {
        return Err(DecodeError::Unknown("frame magic"));
    }
    let version = input.u8("frame version")?;
    if version != FRAME_VERSION {
        return Err(DecodeError::version("frame", version, FRAME_VERSION));
    }
    let to = LaneId(input.u16("lane")?);
    let from = Sender {
        node: NodeId(input.u64("sender")?),
        boot: BootId(input.u64("sender boot")?),
        lane: LaneId(input.u16("sender lane")?),
        lanes: input.u16("sender lanes")?,
        disk: DiskId(input.u64("sender disk")?),
        batch_at_boot: input.u64("sender batch at boot")?,
        batch: input.u64("sender batch")?,
        incarnation: input.u64("sender incarnation")?,
        level: FormatLevel(input.u16("sender format level")?),
    };
    let mut items = Vec::new();
    while input.remaining() > 0 {
        if items.len() == FRAME_ITEMS_MAX {
            return Err(DecodeError::TooLarge("frame items"));
        }
        let kind = input.u8("item kind")?;
        let mut body = Reader::new(input.bytes("item")?);
        items.push(read_item(kind, &mut body)?);
        body.end()?;
    }
    Ok(Frame { to, from, items })
}

/// Reads only what addresses a frame: the lane and the sender (for hosts that sort before they pass on).
pub fn peek_lane(bytes: &[u8]) -> Option<LaneId> {
    if bytes.len() < HEADER_BYTES || bytes[..4] != FRAME_MAGIC.to_le_bytes() || bytes[4] != FRAME_VERSION {
        return None;
    }
    Some(LaneId(u16::from_le_bytes([bytes[5], bytes[6]])))
}

fn read_item(kind: u8, input: &mut Reader) -> Result<Item, DecodeError> {
    Ok(match kind {
        kind::PEER => Item::Peer {
            origin: NodeId(input.u64("origin")?),
            cluster: ClusterId(input.u64("cluster")?),
            generation: Generation(input.u32("generation")?),
            payload: input.rest(),
        },
        kind::FORWARD => Item::Forward {
            ticket: Ticket(input.u64("ticket")?),
            cluster: ClusterId(input.u64("cluster")?),
            generation: Generation(input.u32("generation")?),
            deadline_ms: input.u32("deadline")?,
            authority: Authority::Anyone,
            kind: wire::read_kind(input)?,
        },
        kind::FORWARD_AS => Item::Forward {
            ticket: Ticket(input.u64("ticket")?),
            cluster: ClusterId(input.u64("cluster")?),
            generation: Generation(input.u32("generation")?),
            deadline_ms: input.u32("deadline")?,
            authority: wire::read_authority(input)?,
            kind: wire::read_kind(input)?,
        },
        kind::DIRECTORY_WANTED => Item::DirectoryWanted,
        kind::FORWARD_REPLY => Item::ForwardReply {
            ticket: Ticket(input.u64("ticket")?),
            boot: BootId(input.u64("boot")?),
            outcome: wire::read_outcome(input)?,
        },
        kind::CREATE_REPLICA => Item::CreateReplica {
            ticket: Ticket(input.u64("ticket")?),
            disk: DiskId(input.u64("disk")?),
            spec: Box::new(wire::read_spec(input)?),
        },
        kind::DESTROY_REPLICA => Item::DestroyReplica {
            ticket: Ticket(input.u64("ticket")?),
            cluster: ClusterId(input.u64("cluster")?),
            generation: Generation(input.u32("generation")?),
            replica: ReplicaId(input.u64("replica")?),
        },
        kind::REPLICA_DONE => Item::ReplicaDone {
            ticket: Ticket(input.u64("ticket")?),
            boot: BootId(input.u64("boot")?),
            result: match input.u8("replica result")? {
                0 => Ok(input.bool("replica done")?),
                1 => Err(Refusal::decode(input)?),
                _ => return Err(DecodeError::Unknown("replica result")),
            },
        },
        kind::SURVEY => {
            Item::Survey { ticket: Ticket(input.u64("ticket")?), cluster: ClusterId(input.u64("cluster")?) }
        }
        kind::SURVEYED => Item::Surveyed {
            ticket: Ticket(input.u64("ticket")?),
            boot: BootId(input.u64("boot")?),
            survivor: input.option("survivor", |input| Survivor::decode(input).map(Box::new))?,
        },
        kind::BEGIN_LIFE => Item::BeginLife {
            ticket: Ticket(input.u64("ticket")?),
            life: NewLife {
                cluster: ClusterId(input.u64("cluster")?),
                replica: ReplicaId(input.u64("replica")?),
                from: Generation(input.u32("generation")?),
                to: Generation(input.u32("generation")?),
            },
        },
        _ => return read_node_item(kind, input),
    })
}

fn read_node_item(kind: u8, input: &mut Reader) -> Result<Item, DecodeError> {
    Ok(match kind {
        kind::HEARTBEAT => {
            Item::Heartbeat { wanted: MapVersion::decode(input)?, record: Box::new(NodeRecord::decode(input)?) }
        }
        kind::HEARTBEAT_REPLY => Item::HeartbeatReply {
            leader: read_node_option(input)?,
            delta: input.option("delta", |input| MapDelta::decode(input).map(Box::new))?,
        },
        kind::FORMATION_PROBE => {
            Item::FormationProbe { cluster: ClusterId(input.u64("cluster")?), nonce: input.u64("nonce")? }
        }
        kind::FORMATION_ANSWER => Item::FormationAnswer {
            cluster: ClusterId(input.u64("cluster")?),
            nonce: input.u64("nonce")?,
            state: read_formation_state(input)?,
        },
        kind::UNKNOWN_CLUSTER => Item::UnknownCluster {
            cluster: ClusterId(input.u64("cluster")?),
            generation: Generation(input.u32("generation")?),
            disk: DiskId(input.u64("disk")?),
        },
        kind::DISK_FORGOT => Item::DiskForgot {
            boot: BootId(input.u64("boot")?),
            disk: DiskId(input.u64("disk")?),
            batch: input.u64("batch")?,
        },
        kind::ANNOUNCE => Item::Announce { announcement: Box::new(Announcement::decode(input)?) },
        kind::MAP_NEWS => Item::MapNews { delta: Box::new(MapDelta::decode(input)?) },
        kind::REPLICA_NEWS => Item::ReplicaNews {
            cluster: ClusterId(input.u64("cluster")?),
            generation: Generation(input.u32("generation")?),
            name: wire::read_name(input)?,
            replica: ReplicaId(input.u64("replica")?),
            leader: read_node_option(input)?,
        },
        kind::REPLICA_GONE => {
            Item::ReplicaGone { cluster: ClusterId(input.u64("cluster")?), name: wire::read_name(input)? }
        }
        kind::LANE_NEWS => Item::LaneNews {
            gauges: Box::new(LaneGauges {
                replicas: input.u32("replicas")?,
                leaders: input.u32("leaders")?,
                quiesced: input.u32("quiesced")?,
                formed: input.bool("formed")?,
                warnings: news::read_texts(input)?,
            }),
        },
        kind::STATUS_ASKED => Item::StatusAsked { ticket: Ticket(input.u64("ticket")?) },
        kind::STATUS_TOLD => {
            Item::StatusTold { ticket: Ticket(input.u64("ticket")?), status: Box::new(news::read_status(input)?) }
        }
        kind::WHERE_IS => Item::WhereIs { name: wire::read_name(input)?, led: input.bool("led")? },
        kind::LOCATION => Item::Location {
            name: wire::read_name(input)?,
            told: Told {
                cluster: ClusterId(input.u64("cluster")?),
                generation: Generation(input.u32("generation")?),
                leader: read_node_option(input)?,
            },
        },
        kind::NEIGHBOURS => {
            let count = input.count("neighbours")?;
            if count > LIST_MAX {
                return Err(DecodeError::TooLarge("neighbours"));
            }
            let node = |_| Ok((NodeId(input.u64("node")?), input.string("address")?));
            Item::Neighbours { nodes: (0..count).map(node).collect::<Result<_, DecodeError>>()? }
        }
        kind::WORLD_REBORN => {
            Item::WorldReborn { heard: input.u64("incarnation heard")?, from: NodeId(input.u64("from")?) }
        }
        kind::WORLD_IS => {
            Item::WorldIs { own: input.u64("own incarnation")?, superseded_by: input.u64("later incarnation")? }
        }
        kind::HEALTH_ASKED => Item::HealthAsked { ticket: Ticket(input.u64("ticket")?) },
        kind::HEALTH_TOLD => {
            Item::HealthTold { ticket: Ticket(input.u64("ticket")?), health: Box::new(news::read_lane_health(input)?) }
        }
        _ => return Err(DecodeError::Unknown("item kind")),
    })
}

/// For fuzzing: any bytes, no panic.
pub fn fuzz(bytes: &[u8]) {
    let _ = decode(Bytes::copy_from_slice(bytes));
}

#[cfg(test)]
mod tests;
