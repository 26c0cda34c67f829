//! What the world knows of one node: durable facts and the latest report.
//!
//! Always: the decoder takes only records within the bounds below, so a peer cannot make one grow.
//! Held by: `records_and_deltas_are_those_of_the_first_release`, `node_record`.

use crate::Labels;
use alloc::string::String;
use alloc::vec::Vec;
use base_types::codec::{DecodeError, Encode, Reader, Writer};
use base_types::{BootId, DiskId, FormatLevel, NodeId};

/// The longest address or version of a node, in bytes.
pub const NODE_TEXT_BYTES_MAX: usize = 256;
/// The most engines a node may offer.
pub const NODE_ENGINES_MAX: usize = 16;

/// A node as the allocator and the node map know it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodeRecord {
    /// Who.
    pub node: NodeId,
    /// Which data directory; another one means the node lost everything it promised.
    pub disk: DiskId,
    /// Which start of the node.
    pub boot: BootId,
    /// Where it stands.
    pub labels: Labels,
    /// Where peers reach it.
    pub peer_address: String,
    /// Where clients reach its HTTP door.
    pub http_address: String,
    /// How many lanes (cores) it has.
    pub lanes: u16,
    /// Its program's version.
    pub version: String,
    /// The greatest format level its program serves (decision 0070).
    pub level_max: FormatLevel,
    /// The engines it offers, the default one first.
    pub engines: Vec<String>,
    /// Load + disk + occupancy, 0…1000 (`score`); the lowest is elected first.
    pub score: u32,
    /// Replicas it holds.
    pub clusters: u32,
    /// Clusters it leads.
    pub leaders: u32,
    /// Whether it was heard of lately.
    pub up: bool,
    /// Whether it is being decommissioned: nothing new is put there, and what is there moves away. The
    /// allocator's word; what a node says of itself does not count.
    pub draining: bool,
}

/// The bits of a record's last byte.
const UP: u8 = 1;
const DRAINING: u8 = 2;

impl NodeRecord {
    /// Whether everything but the report (score, counts, up) is the same.
    pub fn same_facts(&self, other: &NodeRecord) -> bool {
        self.node == other.node
            && self.disk == other.disk
            && self.boot == other.boot
            && self.labels == other.labels
            && self.peer_address == other.peer_address
            && self.http_address == other.http_address
            && self.lanes == other.lanes
            && self.version == other.version
            && self.level_max == other.level_max
            && self.engines == other.engines
            && self.draining == other.draining
    }

    /// Whether it can hold replicas of this engine; `None`: of its default one.
    pub fn offers(&self, engine: Option<&str>) -> bool {
        engine.is_none_or(|wanted| self.engines.iter().any(|engine| engine == wanted))
    }
}

impl Encode for NodeRecord {
    fn encode(&self, out: &mut Writer) {
        out.u64(self.node.0).u64(self.disk.0).u64(self.boot.0);
        self.labels.encode(out);
        out.string(&self.peer_address).string(&self.http_address).u16(self.lanes).string(&self.version);
        out.u16(self.level_max.0);
        out.varint(self.engines.len() as u64);
        for engine in &self.engines {
            out.string(engine);
        }
        out.varint(self.score.into()).varint(self.clusters.into()).varint(self.leaders.into());
        out.u8(if self.up { UP } else { 0 } | if self.draining { DRAINING } else { 0 });
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let mut record = NodeRecord {
            node: NodeId(input.u64("node")?),
            disk: DiskId(input.u64("disk")?),
            boot: BootId(input.u64("boot")?),
            labels: Labels::decode(input)?,
            peer_address: text(input, "peer address")?,
            http_address: text(input, "http address")?,
            lanes: input.u16("lanes")?,
            version: text(input, "version")?,
            level_max: FormatLevel(input.u16("format level")?),
            engines: engines(input)?,
            score: number(input, "score")?,
            clusters: number(input, "clusters")?,
            leaders: number(input, "leaders")?,
            ..NodeRecord::default()
        };
        let state = input.u8("node state")?;
        if state > UP | DRAINING {
            return Err(DecodeError::Unknown("node state"));
        }
        (record.up, record.draining) = (state & UP != 0, state & DRAINING != 0);
        Ok(record)
    }
}

fn text(input: &mut Reader, what: &'static str) -> Result<String, DecodeError> {
    let text = input.string(what)?;
    if text.len() > NODE_TEXT_BYTES_MAX {
        return Err(DecodeError::TooLarge(what));
    }
    Ok(text)
}

fn engines(input: &mut Reader) -> Result<Vec<String>, DecodeError> {
    let count = input.count("engines")?;
    if count > NODE_ENGINES_MAX {
        return Err(DecodeError::TooLarge("engines"));
    }
    (0..count).map(|_| text(input, "engine")).collect()
}

fn number(input: &mut Reader, what: &'static str) -> Result<u32, DecodeError> {
    u32::try_from(input.varint(what)?).map_err(|_| DecodeError::TooLarge(what))
}
