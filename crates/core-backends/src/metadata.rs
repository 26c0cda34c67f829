//! The `metadata` backend: plain ordered key-value pairs (Hive paper, 2.7), either of the cluster as a
//! whole or of virtual partitions that can be moved between clusters while they serve.
//!
//! Always: plain pairs and partitions' pairs live under tags of their own and never meet (`tests.rs`); a command
//! or query for a partition that is not owned at its epoch is refused `WrongPartition` and changes
//! nothing, now and (an epoch never comes back) for ever (mutant `StaleEpochAccepted`); values are slices of the command's bytes.
//! Requires: a read of the space within `apply` sees what the same command has already written.
//! Not here: which cluster owns which partition, and the order of a move (core-keyspace).
//! Why a move is a compare-and-set on the dirty sequence: docs/decisions/0007-keyspaces-and-resharding.md.

mod command;
mod invariants;
mod keys;
mod partition;
mod scan;
#[cfg(test)]
pub(crate) mod tests;
mod write;

pub use command::{
    Command, Expected, ImportCursor, PartitionInfo, PartitionState, Query, Reply, ScanScopes, Scope, ScopedStep,
    FREEZE_LEASE_MS_MAX, KEYSPACE_PARTITIONS_MAX, MOVE_PAGE_BYTES_MAX, MOVE_PAIRS_MAX,
};

use crate::contract::{ApplyContext, Backend, SpaceRead, SpaceWrite};
use crate::invariants::Checked;
use crate::memory::{About, Carried, MemoryAsked, MemoryPage, Part, PARTITION_NUMBER_END};
use crate::reply::{encode_reply, is_refusal};
use base_engine::EngineError;
use base_types::action::BatchStep;
use base_types::codec::Encode;
use base_types::{ErrorCode, PartitionId, Refusal, COMMAND_BYTES_MAX, KEY_BYTES_MAX, SCAN_LIMIT_MAX, VALUE_BYTES_MAX};
use bytes::Bytes;

const _: () = assert!(KEYSPACE_PARTITIONS_MAX < PARTITION_NUMBER_END);

/// The backend, as the table has it.
pub(crate) struct Metadata;

impl Backend for Metadata {
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

    fn about_of(&self, command: &Bytes) -> About {
        part_of(command).into()
    }

    fn memory_asked(&self, query: &Bytes) -> Option<MemoryAsked> {
        memory_asked(query)
    }

    fn tell_memory(&self, page: MemoryPage) -> Bytes {
        encode_reply(&Ok(Reply::Remembered(page)))
    }

    fn memory_brought(&self, command: &Bytes, reply: &Bytes, _keep_ms: u64) -> Vec<Carried> {
        if is_refusal(reply) {
            return Vec::new();
        }
        memory_brought(command)
    }
}

/// Refuses a command that could not be applied, before it reaches the log.
pub fn validate(command: &Bytes) -> Result<(), Refusal> {
    parse(command).map(drop)
}

/// Applies a command; the reply is `encode_reply` of a [`Reply`] or refusal.
pub fn apply(at: ApplyContext, space: &mut dyn SpaceWrite, command: &Bytes) -> Result<Bytes, EngineError> {
    let reply = match parse(command) {
        Ok(command) => write::apply(at.cluster_time_ms, space, command)?,
        Err(refusal) => Err(refusal),
    };
    Ok(encode_reply(&reply))
}

/// Answers a query; the reply is `encode_reply` of a [`Reply`] or refusal.
pub fn query(_cluster_time_ms: u64, space: &dyn SpaceRead, query: &Bytes) -> Result<Bytes, EngineError> {
    let reply = match decode_query(query) {
        Ok(query) => scan::query(space, query)?,
        Err(refusal) => Err(refusal),
    };
    Ok(encode_reply(&reply))
}

/// Whether a write can be acknowledged before it is applied: every partition it touches is owned, at its epoch,
/// and not moving, so that only a partition command ordered before it could still refuse it.
pub(crate) fn can_ack_early(space: &dyn SpaceRead, command: &Command) -> Result<bool, EngineError> {
    match command {
        Command::Put { scope, .. } | Command::Delete { scope, .. } | Command::CompareAndSet { scope, .. } => {
            takes_writes(space, *scope)
        }
        Command::Batch { steps } => {
            for step in steps {
                if !takes_writes(space, step.scope)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        _ => Ok(false),
    }
}

fn takes_writes(space: &dyn SpaceRead, scope: Option<Scope>) -> Result<bool, EngineError> {
    let Some(scope) = scope else { return Ok(true) };
    let record = partition::Record::load(space, scope.partition)?;
    let info = record.map(|record| record.info(scope.partition));
    Ok(info.is_some_and(|info| info.scope == scope && info.state == PartitionState::Owned))
}

/// Whether a command changes who takes writes for a partition.
pub(crate) fn changes_partitions(command: &Command) -> bool {
    !matches!(
        command,
        Command::Put { .. }
            | Command::Delete { .. }
            | Command::CompareAndSet { .. }
            | Command::Batch { .. }
            | Command::BatchIf { .. }
    )
}

/// Which partition a command writes to.
fn part_of(command: &Bytes) -> Part {
    let scope = |at: usize| match command.get(at..at + 3) {
        Some([1, low, high]) => Part::one(PartitionId(u16::from_le_bytes([*low, *high]))),
        _ => Part::WHOLE,
    };
    match command.first() {
        Some(1 | 2 | 4) => scope(1),
        // Its steps are behind their number, a varint.
        Some(3) => {
            let digits = command.iter().skip(1).take_while(|byte| **byte >= 0x80).count();
            match scope(2 + digits) {
                Part::WHOLE => Part::WHOLE,
                _ => Part::SEVERAL,
            }
        }
        _ => Part::WHOLE,
    }
}

/// The memory a query asks for.
fn memory_asked(query: &Bytes) -> Option<MemoryAsked> {
    match query.first().filter(|tag| **tag == command::REMEMBERED).and_then(|_| decode_query(query).ok()) {
        Some(Query::Remembered { partition, after }) => Some(MemoryAsked { part: Part::one(partition), after }),
        _ => None,
    }
}

/// The memory a command brings.
fn memory_brought(command: &Bytes) -> Vec<Carried> {
    match command.first().filter(|tag| **tag == command::REMEMBER).and_then(|_| parse(command).ok()) {
        Some(Command::Remember { ids, .. }) => ids,
        _ => Vec::new(),
    }
}

/// Decodes a command and refuses what could not be applied.
pub(crate) fn parse(bytes: &Bytes) -> Result<Command, Refusal> {
    if bytes.len() > COMMAND_BYTES_MAX {
        return Err(too_large(ErrorCode::BodyTooLarge, "command", bytes.len(), COMMAND_BYTES_MAX));
    }
    let command = Command::from_bytes(bytes.clone()).map_err(|error| corrupt("command", &error))?;
    match &command {
        Command::Put { key, value, .. } => check_pair(key, Some(value))?,
        Command::Delete { key, .. } => check_pair(key, None)?,
        Command::CompareAndSet { key, value, .. } => check_pair(key, value.as_ref())?,
        Command::Batch { steps } => check_steps(steps)?,
        Command::BatchIf { expected, steps } => {
            expected.iter().try_for_each(|one| check_pair(&one.key, None))?;
            check_steps(steps)?;
        }
        Command::Import { pairs, .. } => {
            for (key, value) in pairs {
                check_pair(key, value.as_ref())?;
            }
        }
        Command::Freeze { lease_ms, .. } => {
            check_limit("freeze lease in milliseconds", *lease_ms, FREEZE_LEASE_MS_MAX)?
        }
        Command::Release { limit, .. } => check_limit("release limit", *limit, MOVE_PAIRS_MAX as u32)?,
        _ => {}
    }
    Ok(command)
}

fn check_steps(steps: &[ScopedStep]) -> Result<(), Refusal> {
    steps.iter().try_for_each(|step| match &step.step {
        BatchStep::Put { key, value } => check_pair(key, Some(value)),
        BatchStep::Delete { key } => check_pair(key, None),
    })
}

fn decode_query(bytes: &Bytes) -> Result<Query, Refusal> {
    let query = Query::from_bytes(bytes.clone()).map_err(|error| corrupt("query", &error))?;
    match &query {
        Query::Get { key, .. } => check_pair(key, None)?,
        Query::Scan { limit, .. } => check_limit("scan limit", *limit, SCAN_LIMIT_MAX)?,
        _ => {}
    }
    Ok(query)
}

/// Refuses a key or value beyond its limit. Routers call it too, before they look for a cluster.
pub fn check_pair(key: &Bytes, value: Option<&Bytes>) -> Result<(), Refusal> {
    if key.is_empty() {
        return Err(Refusal::new(ErrorCode::EmptyKey, "the key is empty; a key has at least one byte"));
    }
    if key.len() > KEY_BYTES_MAX {
        return Err(too_large(ErrorCode::KeyTooLarge, "key", key.len(), KEY_BYTES_MAX));
    }
    match value {
        Some(value) if value.len() > VALUE_BYTES_MAX => {
            Err(too_large(ErrorCode::ValueTooLarge, "value", value.len(), VALUE_BYTES_MAX))
        }
        _ => Ok(()),
    }
}

fn check_limit(what: &str, value: u32, most: u32) -> Result<(), Refusal> {
    if value == 0 || value > most {
        return Err(Refusal::new(ErrorCode::LimitOutOfRange, format!("{what} is {value}; give 1 to {most}")));
    }
    Ok(())
}

fn too_large(code: ErrorCode, what: &str, bytes: usize, most: usize) -> Refusal {
    Refusal::new(code, format!("{what} is {bytes} bytes long; at most {most} are taken"))
}

fn corrupt(what: &str, error: &base_types::codec::DecodeError) -> Refusal {
    Refusal::new(ErrorCode::CorruptCommand, format!("metadata {what} does not decode: {error}"))
}
