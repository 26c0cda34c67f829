//! The `allocator` backend: the nodes of the world, and elections of members among them (Hive
//! paper, 2.4). It allocates nothing itself: an election is a read.
//!
//! Rows (numbers in keys are 8 bytes, big-endian, so that they order):
//!
//! ```text
//! n node     version u64 | NodeRecord (core-placement)
//! v version  node u64 | forgotten u8        the latest change of each node
//! d node     empty                          the nodes being decommissioned, as their records say
//! V          last version, 8 bytes big-endian
//! N          how many nodes, 8 bytes big-endian
//! L          the world's format level, 8 bytes big-endian; absent: level 1 (decision 0070)
//! ```
//!
//! Always: every change of a node gets a new version, and `v` holds exactly its latest one (`invariants.rs`). So `NodesSince`
//! returns each changed node once (`tests.rs`).
//! Not here: who is up right now (`core_placement::NodeMap`, soft state that is reported here).

use crate::contract::{corrupt_row, decode, ApplyContext, Backend, SpaceRead, SpaceWrite};
use crate::invariants::Checked;
use crate::reply::encode_reply;
use crate::rows::{key, key_number, number, page, prefix_end, set_number};
use base_engine::{Direction, EngineError};
use base_types::codec::{DecodeError, Encode, Reader, Writer};
use base_types::mutant::{planted, Mutant};
use base_types::{ErrorCode, FormatLevel, NodeId, Refusal};
use bytes::Bytes;
use core_placement::{elect_spread, NodeRecord, Rule, MAP_NODES_MAX, SCORE_MAX};

/// The most reports one command carries.
pub const REPORTS_MAX: usize = MAP_NODES_MAX;
/// The most nodes one reply lists.
pub const NODES_PAGE_MAX: u32 = 1_000;
/// The most nodes a caller may bar from an election.
pub const EXCLUDE_MAX: usize = 1_000;

/// What changes often about a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Report {
    pub node: NodeId,
    pub up: bool,
    pub score: u32,
    pub clusters: u32,
    pub leaders: u32,
}

/// What changes the state.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(clippy::large_enum_variant)] // Lives for one call; a box would only make its maker's code longer.
pub enum Command {
    /// A node's record as the node reports it. A node that registers is up.
    Register { record: NodeRecord },
    /// The latest of some nodes; unknown nodes are passed over.
    Report { updates: Vec<Report> },
    /// The node is gone for good.
    Forget { node: NodeId },
    /// The node is being decommissioned (nothing is put there any more), or is taken back. It may be down.
    Drain { node: NodeId, draining: bool },
    /// The world's formats rise to this level, if every node is up and serves it.
    RaiseLevel { level: FormatLevel },
}

/// What reads it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Query {
    /// Elects members by a rule. `spread`: `core_placement::elect_spread`; zero for strictly lowest score.
    Elect { rule: String, exclude: Vec<NodeId>, spread: u64 },
    /// Elects one node in the place of `lost`.
    ElectReplacement { rule: String, members: Vec<NodeId>, lost: NodeId, spread: u64 },
    /// What changed behind `version`, oldest change first.
    NodesSince { version: u64, limit: u32 },
    /// One node.
    Node { node: NodeId },
    /// The nodes being decommissioned.
    Draining,
}

/// What either comes to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// Done; the version the state now has.
    Done { version: u64 },
    /// The members, best first, with what is known of them.
    Elected { nodes: Vec<NodeRecord> },
    /// Up to `limit` changes. While there are `more`, ask for those after `version`. `level`: the world's.
    Nodes { records: Vec<NodeRecord>, forgotten: Vec<NodeId>, version: u64, more: bool, level: FormatLevel },
    /// A node, if it is known.
    Node { record: Option<Box<NodeRecord>> },
    /// Nodes, by id.
    Draining { nodes: Vec<NodeId> },
}

const NODE: u8 = b'n';
const CHANGE: u8 = b'v';
const DRAINING: u8 = b'd';
const VERSION: u8 = b'V';
const COUNT: u8 = b'N';
const LEVEL: u8 = b'L';

/// The backend, as the table has it.
pub(crate) struct Allocator;

impl Backend for Allocator {
    fn validate(&self, command: &Bytes) -> Result<(), Refusal> {
        validate(command)
    }

    fn apply(&self, at: ApplyContext, space: &mut dyn SpaceWrite, command: &Bytes) -> Result<Bytes, EngineError> {
        apply(at, space, command)
    }

    fn query(&self, cluster_time_ms: u64, space: &dyn SpaceRead, bytes: &Bytes) -> Result<Bytes, EngineError> {
        query(cluster_time_ms, space, bytes)
    }

    fn check_invariants(&self, space: &dyn SpaceRead) -> Checked {
        invariants::check(space)
    }
}

/// Refuses a command that could not be applied, before it reaches the log.
pub fn validate(command: &Bytes) -> Result<(), Refusal> {
    check(&decode("allocator command", command)?)
}

fn check(command: &Command) -> Result<(), Refusal> {
    if let Command::Register { record } = command {
        record.labels.check().map_err(|error| {
            Refusal::new(ErrorCode::InvalidRequest, format!("node {} cannot be registered: {error}", record.node))
        })?;
        if record.lanes == 0 || record.peer_address.is_empty() {
            let message = format!("node {} cannot be registered without lanes and a peer address", record.node);
            return Err(Refusal::new(ErrorCode::InvalidRequest, message));
        }
    }
    Ok(())
}

/// Applies a command; the reply is `encode_reply` of a [`Reply`] or refusal.
pub fn apply(_at: ApplyContext, space: &mut dyn SpaceWrite, command: &Bytes) -> Result<Bytes, EngineError> {
    let checked = decode::<Command>("allocator command", command).and_then(|command| check(&command).map(|()| command));
    let reply = match checked {
        Err(refusal) => Err(refusal),
        Ok(Command::Register { record }) => register(space, record)?,
        Ok(Command::Report { updates }) => report(space, &updates)?,
        Ok(Command::Forget { node }) => forget(space, node)?,
        Ok(Command::Drain { node, draining }) => drain(space, node, draining)?,
        Ok(Command::RaiseLevel { level: to }) => level::raise(space, to)?,
    };
    Ok(encode_reply(&reply))
}

/// Answers a query; the reply is `encode_reply` of a [`Reply`] or refusal.
pub fn query(_cluster_time_ms: u64, space: &dyn SpaceRead, query: &Bytes) -> Result<Bytes, EngineError> {
    let reply = match decode::<Query>("allocator query", query) {
        Err(refusal) => Err(refusal),
        Ok(Query::Elect { rule, exclude, spread }) => run_election(space, &rule, &exclude, spread)?,
        Ok(Query::ElectReplacement { rule, members, lost, spread }) => {
            run_replacement(space, &rule, &members, lost, spread)?
        }
        Ok(Query::NodesSince { version, limit }) => Ok(nodes_since(space, version, limit)?),
        Ok(Query::Node { node }) => Ok(Reply::Node { record: read(space, node)?.map(|(_, record)| Box::new(record)) }),
        Ok(Query::Draining) => Ok(Reply::Draining { nodes: draining(space)? }),
    };
    Ok(encode_reply(&reply))
}

type Outcome = Result<Result<Reply, Refusal>, EngineError>;

fn register(space: &mut dyn SpaceWrite, mut record: NodeRecord) -> Outcome {
    record.up = true;
    record.score = record.score.min(SCORE_MAX);
    let old = read(space, record.node)?;
    if let Some(refusal) = level::refuses(space, &record)? {
        return Ok(Err(refusal));
    }
    record.draining = old.as_ref().is_some_and(|(_, old)| old.draining) && !planted(Mutant::DrainForgottenAtRegister);
    if let Some((_, old)) = &old {
        // The same address cannot be two live processes, and a node that is down cannot object.
        if old.up && old.disk != record.disk && old.peer_address != record.peer_address {
            return Ok(Err(duplicate(old, &record)));
        }
        if *old == record {
            return Ok(Ok(Reply::Done { version: number(space, &[VERSION])? }));
        }
    } else {
        let count = number(space, &[COUNT])?;
        if count >= MAP_NODES_MAX as u64 {
            let message =
                format!("the world has {count} nodes, the most it may have; forget nodes that are gone for good");
            return Ok(Err(Refusal::new(ErrorCode::WorldFull, message)));
        }
        set_number(space, key(COUNT, &[]), count + 1);
    }
    let version = write(space, old.map(|(version, _)| version), &record)?;
    Ok(Ok(Reply::Done { version }))
}

fn duplicate(old: &NodeRecord, new: &NodeRecord) -> Refusal {
    let message = format!(
        "node id {} is taken by a live node at {} with disk {}; the one at {} with disk {} needs an id of its own",
        old.node, old.peer_address, old.disk, new.peer_address, new.disk
    );
    Refusal::new(ErrorCode::DuplicateNode, message)
}

fn report(space: &mut dyn SpaceWrite, updates: &[Report]) -> Outcome {
    for update in updates {
        let Some((version, mut record)) = read(space, update.node)? else { continue };
        let before = record.clone();
        record.up = update.up;
        record.score = update.score.min(SCORE_MAX);
        (record.clusters, record.leaders) = (update.clusters, update.leaders);
        if record != before {
            write(space, Some(version), &record)?;
        }
    }
    Ok(Ok(Reply::Done { version: number(space, &[VERSION])? }))
}

fn unknown(node: NodeId) -> Refusal {
    let message = format!("node {node} is not known; `hive ctl nodes` lists those that are");
    Refusal::new(ErrorCode::UnknownNode, message)
}

fn drain(space: &mut dyn SpaceWrite, node: NodeId, draining: bool) -> Outcome {
    let Some((version, mut record)) = read(space, node)? else { return Ok(Err(unknown(node))) };
    if record.draining == draining {
        return Ok(Ok(Reply::Done { version: number(space, &[VERSION])? }));
    }
    record.draining = draining;
    let mark = key(DRAINING, &[&node.0.to_be_bytes()]);
    if draining {
        space.put(mark, Bytes::new());
    } else {
        space.delete(mark);
    }
    let version = write(space, Some(version), &record)?;
    Ok(Ok(Reply::Done { version }))
}

fn draining(space: &dyn SpaceRead) -> Result<Vec<NodeId>, EngineError> {
    let (rows, _) = page(space, &[DRAINING], prefix_end(&[DRAINING]).as_deref(), Direction::Forward, MAP_NODES_MAX)?;
    rows.into_iter().map(|(mark, _)| key_number(&mark, 1).map(NodeId)).collect()
}

fn forget(space: &mut dyn SpaceWrite, node: NodeId) -> Outcome {
    let Some((version, _)) = read(space, node)? else { return Ok(Err(unknown(node))) };
    space.delete(key(NODE, &[&node.0.to_be_bytes()]));
    space.delete(key(DRAINING, &[&node.0.to_be_bytes()]));
    space.delete(key(CHANGE, &[&version.to_be_bytes()]));
    let version = next_version(space)?;
    let mut row = Writer::new();
    row.u64(node.0).bool(true);
    space.put(key(CHANGE, &[&version.to_be_bytes()]), row.finish());
    let count = number(space, &[COUNT])?;
    set_number(space, key(COUNT, &[]), count.saturating_sub(1));
    Ok(Ok(Reply::Done { version }))
}

fn next_version(space: &mut dyn SpaceWrite) -> Result<u64, EngineError> {
    let version = number(space, &[VERSION])? + 1;
    set_number(space, key(VERSION, &[]), version);
    Ok(version)
}

fn write(space: &mut dyn SpaceWrite, old: Option<u64>, record: &NodeRecord) -> Result<u64, EngineError> {
    if let Some(old) = old {
        space.delete(key(CHANGE, &[&old.to_be_bytes()]));
    }
    let version = next_version(space)?;
    let mut row = Writer::new();
    row.u64(version);
    record.encode(&mut row);
    space.put(key(NODE, &[&record.node.0.to_be_bytes()]), row.finish());
    let mut row = Writer::new();
    row.u64(record.node.0).bool(false);
    space.put(key(CHANGE, &[&version.to_be_bytes()]), row.finish());
    Ok(version)
}

fn read(space: &dyn SpaceRead, node: NodeId) -> Result<Option<(u64, NodeRecord)>, EngineError> {
    match space.get(&key(NODE, &[&node.0.to_be_bytes()]))? {
        None => Ok(None),
        Some(row) => read_row(row).map(Some),
    }
}

fn read_row(row: Bytes) -> Result<(u64, NodeRecord), EngineError> {
    let mut input = Reader::new(row);
    let decoded = input.u64("version").and_then(|version| Ok((version, NodeRecord::decode(&mut input)?)));
    decoded.map_err(|error| corrupt_row("node record", error))
}

fn all(space: &dyn SpaceRead) -> Result<Vec<NodeRecord>, EngineError> {
    let (rows, _) = page(space, &[NODE], prefix_end(&[NODE]).as_deref(), Direction::Forward, MAP_NODES_MAX)?;
    rows.into_iter().map(|(_, row)| read_row(row).map(|(_, record)| record)).collect()
}

fn run_election(space: &dyn SpaceRead, rule: &str, exclude: &[NodeId], spread: u64) -> Outcome {
    let rule: Rule = match rule.parse() {
        Ok(rule) => rule,
        Err(error) => return Ok(Err(Refusal::from(error))),
    };
    let nodes = all(space)?;
    Ok(match elect_spread(&rule, &nodes, exclude, spread) {
        Ok(members) => Ok(elected(&nodes, &members)),
        Err(refusal) => Err(refusal.into()),
    })
}

fn run_replacement(space: &dyn SpaceRead, rule: &str, members: &[NodeId], lost: NodeId, spread: u64) -> Outcome {
    let rule: Rule = match rule.parse() {
        Ok(rule) => rule,
        Err(error) => return Ok(Err(Refusal::from(error))),
    };
    let nodes = all(space)?;
    Ok(match core_placement::elect_replacement(&rule, members, lost, &nodes, spread) {
        Ok(member) => Ok(elected(&nodes, &[member])),
        Err(refusal) => Err(refusal.into()),
    })
}

fn elected(nodes: &[NodeRecord], members: &[NodeId]) -> Reply {
    let find = |member: &NodeId| nodes.iter().find(|record| record.node == *member).cloned();
    Reply::Elected { nodes: members.iter().filter_map(find).collect() }
}

fn nodes_since(space: &dyn SpaceRead, since: u64, limit: u32) -> Result<Reply, EngineError> {
    let limit = limit.clamp(1, NODES_PAGE_MAX) as usize;
    let last = number(space, &[VERSION])?;
    let start = key(CHANGE, &[&since.saturating_add(1).to_be_bytes()]);
    let (rows, more) = page(space, &start, prefix_end(&[CHANGE]).as_deref(), Direction::Forward, limit)?;
    let (mut records, mut forgotten, mut reached) = (Vec::new(), Vec::new(), since);
    for (change, row) in rows {
        reached = key_number(&change, 1)?;
        let mut input = Reader::new(row);
        let decoded = input.u64("node").and_then(|node| Ok((NodeId(node), input.bool("forgotten")?)));
        let (node, is_forgotten) = decoded.map_err(|error| corrupt_row("node change", error))?;
        match read(space, node)? {
            // Forgotten once, but registered again since: its record comes under a later version.
            Some(_) if is_forgotten => {}
            None => forgotten.push(node),
            Some((_, record)) => records.push(record),
        }
    }
    let version = if more { reached } else { last.max(since) };
    Ok(Reply::Nodes { records, forgotten, version, more, level: level::of(space)? })
}

mod invariants;
mod level;
pub use level::blocks;
#[cfg(test)]
mod tests;
mod wire;
