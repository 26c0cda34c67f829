//! What replicas say to each other in one line, for traces, and the formats that it is of.
//!
//! Not here: its bytes (`wire`).

use crate::entry;
use crate::wire::{Payload, RepairAnswer};
use base_types::codec::Encode;
use base_types::FormatLevel;
use bytes::Bytes;

/// A replica's payload in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Described {
    /// One line.
    pub text: String,
    /// It says nothing that a reader of a trace looks for: a heartbeat, or an answer that agrees.
    pub routine: bool,
}

/// Describes a payload (`core_node::frame::Item::Peer`). Bytes that are none are said to be so.
pub fn describe_payload(payload: &Bytes) -> Described {
    let told = |text: String| Described { text, routine: false };
    match Payload::from_bytes(payload.clone()) {
        Ok(Payload::Raft(message)) => Described { text: message.to_string(), routine: message.is_routine() },
        Ok(Payload::Sampled { message, .. }) => Described { text: message.to_string(), routine: message.is_routine() },
        Ok(Payload::Quiesce { term, commit, .. }) => told(format!("Quiesce {term:?} commit {commit:?}")),
        Ok(Payload::SnapshotChunk { snapshot, sequence, data, last, .. }) => {
            let last = if last.is_some() { ", the last" } else { "" };
            told(format!("SnapshotChunk {sequence} of snapshot {snapshot}, {} bytes{last}", data.len()))
        }
        Ok(Payload::SnapshotAck { snapshot, next, done, .. }) => {
            let done = if done { ", done" } else { "" };
            told(format!("SnapshotAck of snapshot {snapshot}, next chunk {next}{done}"))
        }
        Ok(kept @ Payload::Kept { .. }) => Described { text: format!("{kept:?}"), routine: true },
        Ok(other) => told(format!("{other:?}")),
        Err(error) => told(format!("{} bytes that are no payload: {error}", payload.len())),
    }
}

/// The greatest format level of the entries that a payload carries; `None`: it carries none.
pub fn level_of_payload(payload: &Bytes) -> Option<FormatLevel> {
    match Payload::from_bytes(payload.clone()).ok()? {
        Payload::Raft(message) | Payload::Sampled { message, .. } => message.batches().filter_map(entry::level).max(),
        Payload::RepairReply { answers, .. } => {
            let carried = answers.iter().filter_map(|(_, answer)| match answer {
                RepairAnswer::Have { entry, .. } => entry::level(&entry.data),
                _ => None,
            });
            carried.max()
        }
        _ => None,
    }
}
