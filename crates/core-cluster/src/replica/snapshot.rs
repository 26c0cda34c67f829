//! Snapshots: streamed in bounded chunks, resumed where an acknowledgement stopped, installed whole.
//!
//!   leader                                    follower
//!   engine snapshot at its durable index ──chunk 0──▶ staging space (engine job, durable)
//!            ▲                          ◀──ack 1────┘
//!            └── … last chunk carries Raft's message ─▶ stepped into Raft ─▶ `install` swaps the spaces
//!
//! What is sent is what the engine holds durably: the index, term and configuration are read from the
//! snapshot itself, so data and claim cannot differ. The overlay is not involved; the log is cut only
//! up to the durable index, so the follower continues from there.
//!
//! Not here: who sends and answers the messages (exchange.rs), the swap of the spaces (apply.rs).
//!
//! A staging space has no owner until the log holds the record that names it. One that a crash leaves is dropped at the next
//! start (`snapshot-resumed-after-crashes.txt`).

use crate::meta::{LABEL_KEY, META_KEY};
use crate::replica::request_ids::ROW_PREFIX;
use crate::wire::Payload;
use base_engine::{export, BatchOperation, Chunk, EngineError, EngineSnapshot, WriteBatch};
use base_types::codec::Encode;
use base_types::mutant::{planted, Mutant};
use base_types::sizes::Sizes;
use base_types::{NodeId, ReplicaId, SpaceId, Tick};
use bytes::Bytes;
use core_raft::{Membership, Message};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Chunks under way to one follower.
const WINDOW_CHUNKS: usize = 4;
/// An unacknowledged chunk is sent again after this long.
const RESEND_AFTER: Duration = Duration::from_millis(200);
/// A snapshot without progress for this long is given up.
const STALLED_AFTER: Duration = Duration::from_secs(10);
/// A sender that says nothing for this long has given up: it repeats itself far more often.
const SILENT_AFTER: Duration = Duration::from_secs(4);

/// A snapshot on its way out.
struct Sender {
    id: u64,
    node: NodeId,
    message: Message,
    reader: Box<dyn EngineSnapshot>,
    space: SpaceId,
    after: Option<Bytes>,
    exhausted: bool,
    next_sequence: u64,
    unacknowledged: VecDeque<(u64, Payload)>,
    progressed: Tick,
    sent: Tick,
}

/// A snapshot on its way in.
struct Incoming {
    id: u64,
    node: NodeId,
    staging: SpaceId,
    next: u64,
    writing: bool,
    /// Pieces that came before their turn, at most a window of them.
    held: BTreeMap<u64, (Chunk, Option<Message>)>,
    last: Option<Message>,
    heard: Tick,
}

/// One piece as it came in.
pub struct Piece {
    pub snapshot: u64,
    pub sequence: u64,
    pub data: Bytes,
    pub last: Option<Message>,
}

impl Sender {
    fn next_chunk(&mut self, to: ReplicaId, bytes_max: usize) -> Result<Payload, EngineError> {
        let mut chunk = export(&*self.reader, self.space, self.after.as_deref(), bytes_max)?;
        self.after = chunk.last_key().cloned().or(self.after.take());
        self.exhausted = chunk.done;
        if planted(Mutant::RequestIdsNotInSnapshot) {
            chunk.pairs.retain(|(key, _)| !key.starts_with(ROW_PREFIX));
        }
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let last = self.exhausted.then(|| self.message.clone());
        Ok(Payload::SnapshotChunk { to, snapshot: self.id, sequence, data: chunk.to_bytes(), last })
    }
}

/// The snapshots of a replica that are on their way.
#[derive(Default)]
pub struct Snapshots {
    out: BTreeMap<ReplicaId, Sender>,
    incoming: Option<Box<Incoming>>,
}

/// A snapshot of the engine, to be sent to a member.
pub struct Outgoing {
    pub id: u64,
    pub node: NodeId,
    /// Raft's message; it goes with the last piece.
    pub message: Message,
    pub reader: Box<dyn EngineSnapshot>,
    pub space: SpaceId,
}

/// The next pieces for a member.
#[derive(Default)]
pub struct Pieces {
    pub node: NodeId,
    pub chunks: Vec<Payload>,
    /// The engine's snapshot cannot be read any more.
    pub failed: bool,
    /// From this key on, for a pair is damaged: it is mended before the next try.
    pub damaged_from: Option<Vec<u8>>,
}

/// What an acknowledgement means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acknowledged {
    /// Nothing: it is of another snapshot.
    Stale,
    /// The next pieces may go.
    Next,
    /// The member has all of it (or, `false`, has lost what it had: it starts over).
    Ended(bool),
}

/// What becomes of a piece that came in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Came {
    /// Nothing: it comes again.
    Nothing,
    /// It is known: the sender is to send from this one on.
    SendFrom(u64),
    /// The next piece in order may be there.
    Kept,
}

/// A piece for the staging space.
pub struct Staged {
    pub snapshot: u64,
    pub batch: WriteBatch,
}

/// A piece is in the staging space.
pub struct Held {
    pub node: NodeId,
    /// The piece that is wanted next.
    pub next: u64,
    /// Raft's message, with the last piece.
    pub last: Option<Message>,
}

/// Going out.
impl Snapshots {
    /// How many go out.
    pub fn sending(&self) -> usize {
        self.out.len()
    }

    /// Whether one goes to this member.
    pub fn is_sending_to(&self, to: ReplicaId) -> bool {
        self.out.contains_key(&to)
    }

    /// One more goes out.
    pub fn begin(&mut self, now: Tick, to: ReplicaId, outgoing: Outgoing) {
        let Outgoing { id, node, message, reader, space } = outgoing;
        let sender = Sender {
            id,
            node,
            message,
            reader,
            space,
            after: None,
            exhausted: false,
            next_sequence: 0,
            unacknowledged: VecDeque::new(),
            progressed: now,
            sent: now,
        };
        self.out.insert(to, sender);
    }

    /// The pieces that may be sent now.
    pub fn next_pieces(&mut self, now: Tick, to: ReplicaId, bytes_max: usize) -> Option<Pieces> {
        let sender = self.out.get_mut(&to)?;
        let mut pieces = Pieces { node: sender.node, ..Pieces::default() };
        while !sender.exhausted && sender.unacknowledged.len() < WINDOW_CHUNKS {
            match sender.next_chunk(to, bytes_max) {
                Ok(chunk) => {
                    sender.unacknowledged.push_back((sender.next_sequence - 1, chunk.clone()));
                    sender.sent = now;
                    pieces.chunks.push(chunk);
                }
                Err(error) => {
                    // Expired, or a damaged pair: then it is mended before the next try.
                    let start = sender.after.as_ref().map(|key| [key, &[0][..]].concat()).unwrap_or_default();
                    pieces.damaged_from = matches!(error, EngineError::Corrupt(_)).then_some(start);
                    pieces.failed = true;
                    break;
                }
            }
        }
        Some(pieces)
    }

    /// A member acknowledged pieces up to `next`.
    pub fn on_ack(&mut self, now: Tick, from: ReplicaId, id: u64, next: u64, done: bool) -> Acknowledged {
        let Some(sender) = self.out.get_mut(&from).filter(|sender| sender.id == id) else { return Acknowledged::Stale };
        if done {
            return Acknowledged::Ended(true);
        }
        let first = sender.unacknowledged.front().map_or(sender.next_sequence, |(sequence, _)| *sequence);
        if next < first {
            // The follower has lost what it had acknowledged (it restarted): start over.
            return Acknowledged::Ended(false);
        }
        while sender.unacknowledged.front().is_some_and(|(sequence, _)| *sequence < next) {
            sender.unacknowledged.pop_front();
            sender.progressed = now;
        }
        Acknowledged::Next
    }

    /// Members whose snapshot does not move.
    pub fn stalled(&self, now: Tick) -> Vec<ReplicaId> {
        let stalled = self.out.iter().filter(|(_, sender)| now.since(sender.progressed) > STALLED_AFTER);
        stalled.map(|(to, _)| *to).collect()
    }

    /// Pieces that were not acknowledged for a while.
    pub fn take_repeats(&mut self, now: Tick) -> Vec<(NodeId, Payload)> {
        let mut again = Vec::new();
        for sender in self.out.values_mut().filter(|sender| now.since(sender.sent) > RESEND_AFTER) {
            sender.sent = now;
            again.extend(sender.unacknowledged.front().map(|(_, chunk)| (sender.node, chunk.clone())));
        }
        again
    }

    /// One goes out no more. Whether it did.
    pub fn end(&mut self, to: ReplicaId) -> bool {
        self.out.remove(&to).is_some()
    }

    /// None goes to members that are gone. How many did.
    pub fn end_to_strangers(&mut self, members: &Membership) -> usize {
        self.out.extract_if(.., |to, _| !members.contains(*to)).count()
    }

    /// None goes out any more: to whom they went.
    pub fn end_all(&mut self) -> Vec<ReplicaId> {
        std::mem::take(&mut self.out).into_keys().collect()
    }
}

/// Coming in.
impl Snapshots {
    /// Whether one comes in.
    pub fn is_receiving(&self) -> bool {
        self.incoming.is_some()
    }

    /// The space that it is put into.
    pub fn staging(&self) -> Option<SpaceId> {
        self.incoming.as_ref().map(|incoming| incoming.staging)
    }

    /// The same, and it is the snapshots' no more.
    pub fn take_staging(&mut self) -> Option<SpaceId> {
        self.incoming.take().map(|incoming| incoming.staging)
    }

    /// Whether its sender has given up.
    pub fn is_silent(&self, now: Tick) -> bool {
        self.incoming.as_ref().is_some_and(|incoming| !incoming.writing && now.since(incoming.heard) > SILENT_AFTER)
    }

    /// Whether the piece is of the snapshot that comes in.
    pub fn expects(&self, from: NodeId, piece: &Piece) -> bool {
        self.incoming.as_ref().is_some_and(|incoming| incoming.id == piece.snapshot && incoming.node == from)
    }

    /// Whether a piece is in the engine's hands: its space cannot be dropped.
    pub fn is_writing(&self) -> bool {
        self.incoming.as_ref().is_some_and(|incoming| incoming.writing)
    }

    /// This one comes in, into that space.
    pub fn expect(&mut self, now: Tick, from: NodeId, id: u64, staging: SpaceId) {
        self.incoming = Some(Box::new(Incoming {
            id,
            node: from,
            staging,
            next: 0,
            writing: false,
            held: BTreeMap::new(),
            last: None,
            heard: now,
        }));
    }

    /// A piece of it came.
    pub fn on_piece(&mut self, now: Tick, piece: Piece) -> Came {
        let Some(incoming) = self.incoming.as_mut() else { return Came::Nothing };
        incoming.heard = now;
        let next = incoming.next;
        if piece.sequence < next {
            return Came::SendFrom(next);
        }
        let is_being_written = piece.sequence == next && incoming.writing;
        if is_being_written || piece.sequence - next >= WINDOW_CHUNKS as u64 {
            return Came::Nothing;
        }
        let Ok(chunk) = Chunk::from_bytes(piece.data) else { return Came::Nothing };
        incoming.held.insert(piece.sequence, (chunk, piece.last));
        Came::Kept
    }

    /// The next piece in order, unless one is being written. `label`: of the space, where spaces have labels.
    pub fn next_write(&mut self, label: impl FnOnce(SpaceId) -> Option<BatchOperation>) -> Option<Staged> {
        let incoming = self.incoming.as_mut().filter(|incoming| !incoming.writing)?;
        let (mut chunk, last) = incoming.held.remove(&incoming.next)?;
        let space = incoming.staging;
        // It names the replica it comes from; a member that labels nothing would keep it, and could not mend it.
        chunk.pairs.retain(|(key, _)| key != LABEL_KEY);
        let mut batch = chunk.batch(space);
        if planted(Mutant::SnapshotTorn) && last.is_some() {
            let is_meta = |key: &Bytes| key.as_ref() == META_KEY;
            batch.operations.retain(|operation| matches!(operation, BatchOperation::Put { key, .. } if is_meta(key)));
        }
        if let Some(message) = &last {
            batch.operations.push(BatchOperation::Durable { space, index: message.snapshot_index() });
            batch.operations.extend(label(space));
        }
        incoming.writing = true;
        incoming.last = last;
        Some(Staged { snapshot: incoming.id, batch })
    }

    /// The engine is done with a piece of this snapshot. `None`: it is not the one that comes in.
    pub fn on_written(&mut self, now: Tick, id: u64, written: bool) -> Option<Held> {
        let incoming = self.incoming.as_mut().filter(|incoming| incoming.id == id)?;
        incoming.writing = false;
        if written {
            incoming.next += 1;
            incoming.heard = now;
        }
        let last = incoming.last.take_if(|_| written);
        Some(Held { node: incoming.node, next: incoming.next, last })
    }
}

impl Snapshots {
    /// How long its lists are.
    pub fn sizes(&self, sizes: &mut Sizes) {
        for sender in self.out.values() {
            sizes.passing("snapshot pieces under way, a sender", sender.unacknowledged.len(), WINDOW_CHUNKS);
        }
        if let Some(incoming) = &self.incoming {
            sizes.passing("snapshot pieces before their turn, a receiver", incoming.held.len(), WINDOW_CHUNKS);
        }
    }
}
