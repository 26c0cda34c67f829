//! What the world knows of one node: durable facts and the latest report.
//!
//! Always: the decoder takes only records within the bounds below, so a peer cannot make one grow. What is decoded is encoded to the same
//! bytes, by builds that know no doors, too: a door is written after the engines, as the text of one (`tests`, docs/decisions/0088).
//! Held by: `records_and_deltas_are_those_of_the_first_release`, `node_record`.

use crate::Labels;
use alloc::string::String;
use alloc::vec::Vec;
use base_types::codec::{DecodeError, Encode, Reader, Writer};
use base_types::{BootId, DiskId, FormatLevel, NodeId};

/// The longest address or version of a node, in bytes.
pub const NODE_TEXT_BYTES_MAX: usize = 256;
/// The most engines a node may offer, and doors it may name, together.
pub const NODE_ENGINES_MAX: usize = 16;

/// A door of a node beside the HTTP door, and where its clients reach it. Written `name=url`: no engine's name has `=` in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Door {
    /// `etcd/` and the namespace of clients that name none.
    pub name: String,
    /// `http://host:port` or `https://host:port`.
    pub url: String,
}

/// What parts a door's name from its url.
const DOOR_MARK: char = '=';

impl Door {
    fn text(&self) -> String {
        [self.name.as_str(), self.url.as_str()].join("=")
    }

    fn parse(text: &str) -> Option<Door> {
        let (name, url) = text.split_once(DOOR_MARK)?;
        Some(Door { name: name.into(), url: url.into() })
    }

    /// The doors that a record has room for beside so many engines, in their order.
    pub fn fitting(doors: &[Door], engines: usize) -> Vec<Door> {
        let fits = |door: &&Door| door.text().len() <= NODE_TEXT_BYTES_MAX && !door.name.contains(DOOR_MARK);
        doors.iter().filter(fits).take(NODE_ENGINES_MAX.saturating_sub(engines)).cloned().collect()
    }
}

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
    /// Its doors beside the HTTP door, as far as there is room for them ([`Door::fitting`]).
    pub doors: Vec<Door>,
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
            && self.doors == other.doors
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
        out.varint((self.engines.len() + self.doors.len()) as u64);
        for engine in &self.engines {
            out.string(engine);
        }
        for door in &self.doors {
            out.string(&door.text());
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
            ..NodeRecord::default()
        };
        (record.engines, record.doors) = engines_and_doors(input)?;
        record = NodeRecord {
            score: number(input, "score")?,
            clusters: number(input, "clusters")?,
            leaders: number(input, "leaders")?,
            ..record
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

fn engines_and_doors(input: &mut Reader) -> Result<(Vec<String>, Vec<Door>), DecodeError> {
    let count = input.count("engines")?;
    if count > NODE_ENGINES_MAX {
        return Err(DecodeError::TooLarge("engines"));
    }
    let (mut engines, mut doors) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let text = text(input, "engine")?;
        match Door::parse(&text) {
            Some(door) => doors.push(door),
            // In another order the bytes would change when they are written again.
            None if !doors.is_empty() => return Err(DecodeError::Unknown("engine after a door")),
            None => engines.push(text),
        }
    }
    Ok((engines, doors))
}

fn number(input: &mut Reader, what: &'static str) -> Result<u32, DecodeError> {
    u32::try_from(input.varint(what)?).map_err(|_| DecodeError::TooLarge(what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn door(name: &str, url: &str) -> Door {
        Door { name: name.into(), url: url.into() }
    }

    #[test]
    fn doors_are_read_back_and_old_builds_see_engines() {
        let doors = vec![door("etcd/etcd", "http://10.0.0.1:7301"), door("etcd/team", "http://10.0.0.1:7391")];
        let engines = vec![String::from("lmdb"), String::from("memory")];
        let record = NodeRecord { engines, doors, up: true, ..NodeRecord::default() };
        assert_eq!(NodeRecord::from_bytes(record.to_bytes()), Ok(record.clone()));
        // To 0.2.0 they are texts in the list of engines, which it keeps and gives back as they are.
        let texts = ["lmdb", "memory", "etcd/etcd=http://10.0.0.1:7301", "etcd/team=http://10.0.0.1:7391"];
        let as_engines = NodeRecord { engines: texts.map(String::from).to_vec(), doors: vec![], ..record.clone() };
        assert_eq!(as_engines.to_bytes(), record.to_bytes());
        assert!(record.offers(Some("memory")) && !record.offers(Some("etcd/etcd=http://10.0.0.1:7301")));
        assert!(!record.same_facts(&NodeRecord { doors: vec![], ..record.clone() }));
        let mixed = ["lmdb", "a=b", "memory"].map(String::from).to_vec();
        let mixed = NodeRecord { engines: mixed, doors: vec![], ..record };
        assert_eq!(NodeRecord::from_bytes(mixed.to_bytes()), Err(DecodeError::Unknown("engine after a door")));
    }

    #[test]
    fn only_so_many_doors_fit() {
        let long = "x".repeat(NODE_TEXT_BYTES_MAX);
        let mut doors = vec![door("etcd/long", &long), door("a=b", "u")];
        doors.extend((0..20).map(|n| door(&alloc::format!("etcd/{n}"), "http://h:1")));
        let fitting = Door::fitting(&doors, 3);
        assert_eq!((fitting.len(), &fitting[0].name[..]), (13, "etcd/0"));
        let record = NodeRecord { engines: vec!["lmdb".into(); 3], doors: fitting, ..NodeRecord::default() };
        assert_eq!(NodeRecord::from_bytes(record.to_bytes()), Ok(record));
        assert_eq!(Door::fitting(&doors, 40), []);
    }
}
