//! What a normal log entry carries: the commands of one turn, stamped with the cluster's time.
//!
//! ```text
//! u8 format (2; 3 from format level 2 on) | varint cluster_time_ms | varint id_time_ms | varint count | count × command
//! command: u8 backend (0: the cluster itself) | u128 request id | varint keep_ms | varint length | bytes
//! ```
//! Format 1, of earlier builds, has the same bytes: its request ids do not say who made them, and are kept in one queue.
//! Format 3 has the bytes of format 2, too: it tries the gates of decision 0070 (`Feature::TrialEntry`).
//! By design: commands are slices of the entry's memory. Drawn in docs/formats/entry.md.

use base_types::codec::{DecodeError, Reader, Writer};
use base_types::{Feature, FormatLevel, RequestId};
use bytes::Bytes;

const FORMAT: u8 = 2;
/// From level 2 on.
const FORMAT_TRIAL: u8 = 3;
/// Of builds whose request ids did not say who made them.
const FORMAT_WITHOUT_KINDS: u8 = 1;
/// The most commands one entry carries; the rest of a turn waits for the next entry.
pub const COMMANDS_PER_ENTRY_MAX: usize = 1024;
/// An entry is closed at this size, so that appending and applying stay in bounded steps.
pub const ENTRY_BYTES_MAX: usize = 1 << 20;
/// What an entry holds beside the bytes of a single command, at most.
pub const OVERHEAD_BYTES_MAX: usize = 64;
/// What a command takes beside its bytes, at most: backend, id, and two varints.
pub const COMMAND_OVERHEAD_BYTES_MAX: usize = 1 + 16 + 10 + 10;
/// The backend byte of commands to the cluster itself (default levels).
pub const BACKEND_CLUSTER: u8 = 0;

/// One command in an entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EntryCommand {
    /// `BackendKind` as a byte, or [`BACKEND_CLUSTER`].
    pub backend: u8,
    /// Equal ids apply once.
    pub request_id: RequestId,
    /// How long (cluster time) the id must be remembered.
    pub keep_ms: u64,
    /// The backend's own bytes.
    pub command: Bytes,
}

/// A decoded entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EntryPayload {
    /// The format level that its format belongs to.
    pub level: FormatLevel,
    /// Its request ids say who made them.
    pub kinds: bool,
    /// The cluster's time when the leader proposed it.
    pub cluster_time_ms: u64,
    /// What request ids expire by: as the cluster's time, but a leap of the leader's clock counts little.
    pub id_time_ms: u64,
    /// In order.
    pub commands: Vec<EntryCommand>,
}

/// `level`: the world's, which decides the format.
pub fn encode(level: FormatLevel, cluster_time_ms: u64, id_time_ms: u64, commands: &[EntryCommand]) -> Bytes {
    let bytes: usize = commands.iter().map(|command| command.command.len() + 32).sum();
    let mut out = Writer::with_capacity(bytes + 16);
    let format = if level.allows(Feature::TrialEntry) { FORMAT_TRIAL } else { FORMAT };
    out.u8(format).varint(cluster_time_ms).varint(id_time_ms).varint(commands.len() as u64);
    for command in commands {
        out.u8(command.backend).u128(command.request_id.0).varint(command.keep_ms).bytes(&command.command);
    }
    out.finish()
}

pub fn decode(data: Bytes) -> Result<EntryPayload, DecodeError> {
    let mut input = Reader::new(data);
    let (level, kinds) = format(&mut input)?;
    let cluster_time_ms = input.varint("cluster time")?;
    let id_time_ms = input.varint("id time")?;
    let count = input.count("commands")?;
    if count > COMMANDS_PER_ENTRY_MAX {
        return Err(DecodeError::TooLarge("commands"));
    }
    let mut commands = Vec::with_capacity(count);
    for _ in 0..count {
        commands.push(EntryCommand {
            backend: input.u8("backend")?,
            request_id: RequestId(input.u128("request id")?),
            keep_ms: input.varint("keep")?,
            command: input.bytes("command")?,
        });
    }
    input.end()?;
    Ok(EntryPayload { level, kinds, cluster_time_ms, id_time_ms, commands })
}

/// The level of an entry's format, and whether its request ids say who made them.
fn format(input: &mut Reader) -> Result<(FormatLevel, bool), DecodeError> {
    match input.u8("entry format")? {
        FORMAT_TRIAL => Ok((Feature::TrialEntry.level(), true)),
        FORMAT => Ok((FormatLevel::FIRST, true)),
        FORMAT_WITHOUT_KINDS => Ok((FormatLevel::FIRST, false)),
        other => Err(DecodeError::version("entry", other, FORMAT_TRIAL)),
    }
}

/// The level of an entry's format: a look, without decoding the entry. `None`: an empty entry, or none at all.
pub fn level(data: &Bytes) -> Option<FormatLevel> {
    format(&mut Reader::new(data.clone())).ok().map(|(level, _)| level)
}

/// Whether the first command is for this backend: a look, without decoding the entry.
pub fn begins_with(data: &Bytes, backend: u8) -> bool {
    let first = || {
        let mut input = Reader::new(data.clone());
        input.u8("entry format")?;
        input.varint("cluster time")?;
        input.varint("id time")?;
        input.varint("commands")?;
        input.u8("backend")
    };
    first() == Ok(backend)
}

/// The two stamps alone: the cluster's time and the ids' time.
pub fn stamps(data: &Bytes) -> Option<(u64, u64)> {
    let mut input = Reader::new(data.clone());
    format(&mut input).ok()?;
    Some((input.varint("cluster time").ok()?, input.varint("id time").ok()?))
}
