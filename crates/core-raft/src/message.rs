//! Raft messages in our own byte form (docs/formats/frames.md, "Raft message").
//!
//! Always: only the kinds that replicas send each other decode; the library's local kinds and forwarded
//! proposals do not exist on the wire. Entries' data is shared with the frame, not copied.
//! Held by: `hostile_numbers_never_reach_the_library`, `raft_message`.

use crate::membership::Membership;
use base_types::codec::{DecodeError, Encode, Reader, Writer};
use base_types::{LogIndex, ReplicaId, Term};
use bytes::Bytes;
use raft::eraftpb::{Entry, EntryType, Message as LibraryMessage, MessageType};

/// The most entries one message may carry.
pub const MESSAGE_ENTRIES_MAX: usize = 4096;

/// Indexes and terms beyond this are nobody's: the library counts on from them without a check.
const NUMBER_MAX: u64 = 1 << 62;

/// The kinds of message replicas exchange (Raft paper; pre-vote and transfer: Ongaro's thesis 9.6, 3.10).
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum MessageKind {
    Append = 1,
    AppendResponse = 2,
    RequestVote = 3,
    RequestVoteResponse = 4,
    Snapshot = 5,
    Heartbeat = 6,
    HeartbeatResponse = 7,
    TimeoutNow = 8,
    RequestPreVote = 9,
    RequestPreVoteResponse = 10,
}

const KINDS: [(MessageKind, MessageType); 10] = [
    (MessageKind::Append, MessageType::MsgAppend),
    (MessageKind::AppendResponse, MessageType::MsgAppendResponse),
    (MessageKind::RequestVote, MessageType::MsgRequestVote),
    (MessageKind::RequestVoteResponse, MessageType::MsgRequestVoteResponse),
    (MessageKind::Snapshot, MessageType::MsgSnapshot),
    (MessageKind::Heartbeat, MessageType::MsgHeartbeat),
    (MessageKind::HeartbeatResponse, MessageType::MsgHeartbeatResponse),
    (MessageKind::TimeoutNow, MessageType::MsgTimeoutNow),
    (MessageKind::RequestPreVote, MessageType::MsgRequestPreVote),
    (MessageKind::RequestPreVoteResponse, MessageType::MsgRequestPreVoteResponse),
];

/// One message from one replica to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub(crate) inner: LibraryMessage,
}

impl Message {
    pub(crate) fn from_library(inner: LibraryMessage) -> Option<Message> {
        let known = KINDS.iter().any(|(_, kind)| *kind == inner.get_msg_type());
        known.then_some(Message { inner })
    }

    /// As many messages as keep within the bounds on bytes and entries; kinds of no replica's vanish.
    pub(crate) fn split_into(mut inner: LibraryMessage, bytes_max: usize, out: &mut Vec<Message>) {
        let bytes = |entry: &Entry| entry.data.len() + entry.context.len();
        loop {
            let mut sum = 0;
            let fits = inner.entries.iter().take(MESSAGE_ENTRIES_MAX).take_while(|entry| {
                sum += bytes(entry);
                sum <= bytes_max
            });
            let count = fits.count().max(1);
            if inner.entries.len() <= count {
                return out.extend(Message::from_library(inner));
            }
            let mut first: Vec<Entry> = inner.take_entries().into();
            let rest = first.split_off(count);
            let mut next = inner.clone();
            let Some(last) = first.last() else { return };
            (next.index, next.log_term) = (last.index, last.term);
            next.set_entries(rest.into());
            inner.set_entries(first.into());
            out.extend(Message::from_library(inner));
            inner = next;
        }
    }

    /// Its kind.
    pub fn kind(&self) -> MessageKind {
        let kind = self.inner.get_msg_type();
        KINDS.iter().find(|(_, library)| *library == kind).expect("checked when it was made").0
    }

    /// The sender.
    pub fn from(&self) -> ReplicaId {
        ReplicaId(self.inner.from)
    }

    /// The receiver.
    pub fn to(&self) -> ReplicaId {
        ReplicaId(self.inner.to)
    }

    /// The sender's term.
    pub fn term(&self) -> Term {
        Term(self.inner.term)
    }

    /// The commit index it carries (appends, heartbeats).
    pub fn commit(&self) -> LogIndex {
        LogIndex(self.inner.commit)
    }

    /// What an answer to an append acknowledges, or the entry before an append.
    pub fn index(&self) -> LogIndex {
        LogIndex(self.inner.index)
    }

    /// Whether it is a vote that was asked for by the leader (leadership transfer), which no lease holds back.
    pub fn is_forced_campaign(&self) -> bool {
        &self.inner.context[..] == raft::CAMPAIGN_TRANSFER
    }

    /// Whether it answers with a refusal.
    pub fn is_reject(&self) -> bool {
        self.inner.reject
    }

    /// Drops every entry behind the first, as if the message had been cut on its way.
    pub fn keep_first_entry(&mut self) {
        if self.inner.entries.len() > 1 {
            let first = self.inner.entries.first().cloned();
            self.inner.set_entries(first.into_iter().collect::<Vec<_>>().into());
        }
    }

    /// What the batches of commands hold that it carries.
    pub fn batches(&self) -> impl Iterator<Item = &Bytes> {
        self.inner
            .entries
            .iter()
            .filter(|entry| entry.get_entry_type() == EntryType::EntryNormal)
            .map(|entry| &entry.data)
    }

    /// A snapshot's point, for kind `Snapshot`.
    pub fn snapshot_index(&self) -> LogIndex {
        LogIndex(self.inner.get_snapshot().get_metadata().index)
    }

    /// Replaces what a snapshot message claims to hold, once the data to be sent has been fixed.
    pub fn set_snapshot(&mut self, index: LogIndex, term: Term, membership: &Membership) {
        let metadata = self.inner.mut_snapshot().mut_metadata();
        metadata.index = index.0;
        metadata.term = term.0;
        metadata.set_conf_state(membership.to_library());
    }
}

impl Encode for Message {
    fn encode(&self, out: &mut Writer) {
        let m = &self.inner;
        out.u8(self.kind() as u8).bool(m.reject);
        out.varint(m.to).varint(m.from).varint(m.term).varint(m.log_term).varint(m.index);
        out.varint(m.commit).varint(m.commit_term).varint(m.reject_hint).varint(m.request_snapshot);
        out.bytes(&m.context);
        out.varint(m.entries.len() as u64);
        for entry in m.entries.iter() {
            out.u8(entry.get_entry_type() as u8).varint(entry.term).varint(entry.index);
            out.bytes(&entry.context).bytes(&entry.data);
        }
        if self.kind() == MessageKind::Snapshot {
            let metadata = m.get_snapshot().get_metadata();
            out.varint(metadata.index).varint(metadata.term);
            Membership::from_library(metadata.get_conf_state()).encode(out);
        }
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let mut m = LibraryMessage::default();
        let byte = input.u8("message kind")?;
        let (kind, library) =
            KINDS.iter().find(|(kind, _)| *kind as u8 == byte).ok_or(DecodeError::Unknown("message kind"))?;
        m.set_msg_type(*library);
        m.reject = input.bool("reject")?;
        m.to = input.varint("to")?;
        m.from = input.varint("from")?;
        m.term = input.varint("term")?;
        m.log_term = input.varint("log term")?;
        m.index = input.varint("index")?;
        m.commit = input.varint("commit")?;
        m.commit_term = input.varint("commit term")?;
        m.reject_hint = input.varint("reject hint")?;
        m.request_snapshot = input.varint("request snapshot")?;
        m.context = input.bytes("context")?;
        m.set_entries(decode_entries(input)?.into());
        if *kind == MessageKind::Snapshot {
            let metadata = m.mut_snapshot().mut_metadata();
            metadata.index = input.varint("snapshot index")?;
            metadata.term = input.varint("snapshot term")?;
            metadata.set_conf_state(Membership::decode(input)?.to_library());
        }
        Ok(Message { inner: m })
    }
}

fn decode_entries(input: &mut Reader) -> Result<Vec<Entry>, DecodeError> {
    let count = input.count("entries")?;
    if count > MESSAGE_ENTRIES_MAX {
        return Err(DecodeError::TooLarge("entries"));
    }
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        let kind = match input.u8("entry kind")? {
            0 => EntryType::EntryNormal,
            2 => EntryType::EntryConfChangeV2,
            _ => return Err(DecodeError::Unknown("entry kind")),
        };
        let term = input.varint("entry term")?;
        let index = input.varint("entry index")?;
        let context = input.bytes("entry context")?;
        let data = input.bytes("entry data")?;
        let mut entry = Entry { term, index, data, context, ..Entry::default() };
        entry.set_entry_type(kind);
        entries.push(entry);
    }
    Ok(entries)
}

/// Whether the message's numbers fit each other: the library trusts that they do.
pub(crate) fn is_well_formed(m: &LibraryMessage) -> bool {
    // The library takes a message without a term for one of its own.
    if m.from == raft::INVALID_ID || m.to == raft::INVALID_ID || m.term == 0 {
        return false;
    }
    let snapshot = m.get_snapshot().get_metadata();
    let numbers = [m.index, m.term, m.log_term, m.commit, m.commit_term, m.reject_hint, snapshot.index, snapshot.term];
    if numbers.iter().any(|number| *number > NUMBER_MAX) {
        return false;
    }
    let mut index = m.index;
    let mut term = m.log_term;
    for entry in m.entries.iter() {
        let Some(next) = index.checked_add(1) else { return false };
        if entry.index != next || entry.term < term || entry.term > m.term {
            return false;
        }
        index = next;
        term = entry.term;
    }
    m.entries.is_empty() || m.get_msg_type() == MessageType::MsgAppend
}

/// An entry for the library.
pub(crate) fn entry_to_library(entry: core_log::LogEntry) -> Entry {
    let mut out = Entry {
        term: entry.term.0,
        index: entry.index.0,
        data: entry.data,
        context: entry.context,
        ..Entry::default()
    };
    out.set_entry_type(if entry.kind == crate::entry_kind::MEMBERSHIP {
        EntryType::EntryConfChangeV2
    } else {
        EntryType::EntryNormal
    });
    out
}

/// An entry for the log.
pub(crate) fn entry_from_library(entry: Entry) -> core_log::LogEntry {
    core_log::LogEntry {
        term: Term(entry.term),
        index: LogIndex(entry.index),
        kind: entry.get_entry_type() as u8,
        data: entry.data,
        context: entry.context,
    }
}

/// The library wants its read contexts as vectors.
pub(crate) fn context_bytes(context: u64) -> Vec<u8> {
    context.to_le_bytes().to_vec()
}

/// The counterpart of [`context_bytes`].
pub(crate) fn context_number(context: &[u8]) -> Option<u64> {
    <[u8; 8]>::try_from(context).ok().map(u64::from_le_bytes)
}
