//! Snapshots: streamed in bounded chunks, resumed where an acknowledgement stopped, installed whole.
//!
//!   leader                                    follower
//!   engine snapshot at its durable index ──chunk 0──▶ staging space (engine job, durable)
//!            ▲                          ◀──ack 1────┘
//!            └── … last chunk carries Raft's message ─▶ stepped into Raft ─▶ `install` swaps the spaces
//!
//! What is sent is what the engine holds durably: the index, term and configuration are read from the
//! snapshot itself, so data and claim cannot differ. The overlay is not involved; the log is cut only
//! behind the durable index, so the follower goes on from there.
//!
//! Always: a staging space is nobody's until the log holds the record that names it; one that is left
//! over by a crash is dropped at start.

use crate::flush::JobTarget;
use crate::meta::{ClusterMeta, META_KEY};
use crate::replica::{Replica, Shared};
use crate::request_ids::ROW_PREFIX;
use crate::wire::Payload;
use base_engine::{BatchOperation, Direction, EngineError, EngineSnapshot, KeyRange, WriteBatch};
use base_types::codec::{DecodeError, Encode, Reader, Writer};
use base_types::mutant::{planted, Mutant};
use base_types::{NodeId, ReplicaId, SpaceId, Tick};
use bytes::Bytes;
use core_raft::{Message, SnapshotPoint};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::time::Duration;

/// Snapshots a lane sends at once.
const SENDERS_MAX: usize = 8;
/// Chunks under way to one follower.
const WINDOW_CHUNKS: usize = 4;
/// An unacknowledged chunk is sent again after this long.
const RESEND_AFTER: Duration = Duration::from_millis(500);
/// A snapshot without progress for this long is given up.
const STALLED_AFTER: Duration = Duration::from_secs(10);

/// A snapshot on its way out.
pub struct Sender {
    id: u64,
    node: NodeId,
    message: Message,
    reader: Box<dyn EngineSnapshot>,
    space: SpaceId,
    after: Option<Vec<u8>>,
    exhausted: bool,
    next_sequence: u64,
    unacknowledged: VecDeque<(u64, Payload)>,
    progressed: Tick,
    sent: Tick,
}

/// A snapshot on its way in.
pub struct Incoming {
    pub id: u64,
    pub node: NodeId,
    pub staging: SpaceId,
    next: u64,
    writing: bool,
    last: Option<Message>,
    heard: Tick,
}

fn encode_pairs(pairs: &[(Bytes, Bytes)]) -> Bytes {
    let mut out = Writer::new();
    out.varint(pairs.len() as u64);
    for (key, value) in pairs {
        out.bytes(key).bytes(value);
    }
    out.finish()
}

fn decode_pairs(data: Bytes) -> Result<Vec<(Bytes, Bytes)>, DecodeError> {
    let mut input = Reader::new(data);
    let count = input.count("pairs")?;
    let mut pairs = Vec::new();
    for _ in 0..count {
        pairs.push((input.bytes("key")?, input.bytes("value")?));
    }
    input.end()?;
    Ok(pairs)
}

impl Sender {
    fn next_chunk(&mut self, to: ReplicaId, bytes_max: usize) -> Result<Payload, EngineError> {
        let mut pairs = Vec::new();
        let mut bytes = 0;
        let mut more = false;
        let start = self.after.clone().unwrap_or_default();
        let skip_first = self.after.is_some();
        self.reader.range(
            self.space,
            KeyRange { start: &start, end: None },
            Direction::Forward,
            &mut |key, value| {
                if skip_first && key == start {
                    return ControlFlow::Continue(());
                }
                if !pairs.is_empty() && bytes + key.len() + value.len() > bytes_max {
                    more = true;
                    return ControlFlow::Break(());
                }
                bytes += key.len() + value.len();
                if !(planted(Mutant::RequestIdsNotInSnapshot) && key.starts_with(ROW_PREFIX)) {
                    pairs.push((Bytes::copy_from_slice(key), Bytes::copy_from_slice(value)));
                }
                ControlFlow::Continue(())
            },
        )?;
        self.after = pairs.last().map(|(key, _)| key.to_vec()).or(self.after.take());
        self.exhausted = !more;
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let last = self.exhausted.then(|| self.message.clone());
        Ok(Payload::SnapshotChunk { to, snapshot: self.id, sequence, data: encode_pairs(&pairs), last })
    }
}

impl Replica {
    /// Raft wants a member to have a snapshot.
    pub fn start_sender(&mut self, shared: &mut Shared, now: Tick, mut message: Message) {
        let to = message.to();
        if self.senders.contains_key(&to) {
            return;
        }
        let node = self.meta.node_of(to).filter(|_| shared.snapshot_senders < SENDERS_MAX);
        let opened = node.ok_or(EngineError::SnapshotExpired).and_then(|node| {
            let reader = self.engine.snapshot()?;
            let meta = reader.get(self.space, META_KEY)?.ok_or(EngineError::SnapshotExpired)?;
            let meta = ClusterMeta::from_bytes(meta).map_err(|error| EngineError::Corrupt(error.to_string()))?;
            if !meta.membership.contains(to) {
                // It joined behind what is durable, and Raft refuses a snapshot that does not name it.
                shared.flush_soon = true;
                return Err(EngineError::SnapshotExpired);
            }
            Ok((node, reader, meta))
        });
        let Ok((node, reader, meta)) = opened else {
            if let Some(group) = self.group.as_mut() {
                group.report_snapshot(to, false);
            }
            return;
        };
        let index = if planted(Mutant::SnapshotWrongIndex) { self.meta.applied } else { meta.applied };
        message.set_snapshot(index, meta.applied_term, &meta.membership);
        shared.next_snapshot += 1;
        shared.snapshot_senders += 1;
        shared.statistics.snapshots_sent += 1;
        let id = (shared.config.seed ^ now.0.rotate_left(20)).wrapping_add(shared.next_snapshot);
        let sender = Sender {
            id,
            node,
            message,
            reader,
            space: self.space,
            after: None,
            exhausted: false,
            next_sequence: 0,
            unacknowledged: VecDeque::new(),
            progressed: now,
            sent: now,
        };
        self.senders.insert(to, sender);
        self.pump_sender(shared, now, to);
    }

    fn pump_sender(&mut self, shared: &mut Shared, now: Tick, to: ReplicaId) {
        let Some(sender) = self.senders.get_mut(&to) else { return };
        let node = sender.node;
        let mut fresh = Vec::new();
        let mut failed = false;
        while !sender.exhausted && sender.unacknowledged.len() < WINDOW_CHUNKS {
            match sender.next_chunk(to, shared.config.snapshot_chunk_bytes) {
                Ok(chunk) => {
                    sender.unacknowledged.push_back((sender.next_sequence - 1, chunk.clone()));
                    sender.sent = now;
                    fresh.push(chunk);
                }
                Err(_expired) => {
                    failed = true;
                    break;
                }
            }
        }
        for chunk in fresh {
            self.send(shared, node, &chunk);
        }
        if failed {
            self.end_sender(shared, to, false);
        }
    }

    fn end_sender(&mut self, shared: &mut Shared, to: ReplicaId, delivered: bool) {
        if self.senders.remove(&to).is_some() {
            shared.snapshot_senders -= 1;
            if let Some(group) = self.group.as_mut() {
                group.report_snapshot(to, delivered);
            }
        }
    }

    pub fn on_snapshot_ack(&mut self, shared: &mut Shared, now: Tick, from: ReplicaId, id: u64, next: u64, done: bool) {
        let Some(sender) = self.senders.get_mut(&from).filter(|sender| sender.id == id) else { return };
        if done {
            return self.end_sender(shared, from, true);
        }
        let first = sender.unacknowledged.front().map_or(sender.next_sequence, |(sequence, _)| *sequence);
        if next < first {
            // The follower has lost what it had acknowledged (it restarted): start over.
            return self.end_sender(shared, from, false);
        }
        while sender.unacknowledged.front().is_some_and(|(sequence, _)| *sequence < next) {
            sender.unacknowledged.pop_front();
            sender.progressed = now;
        }
        self.pump_sender(shared, now, from);
    }

    /// Sends again what was not acknowledged, gives up what does not move.
    pub fn tick_snapshots(&mut self, shared: &mut Shared, now: Tick) {
        let stalled: Vec<ReplicaId> = self
            .senders
            .iter()
            .filter(|(_, sender)| now.since(sender.progressed) > STALLED_AFTER)
            .map(|(to, _)| *to)
            .collect();
        for to in stalled {
            self.end_sender(shared, to, false);
        }
        let mut again = Vec::new();
        for sender in self.senders.values_mut() {
            if now.since(sender.sent) > RESEND_AFTER {
                sender.sent = now;
                again.extend(sender.unacknowledged.front().map(|(_, chunk)| (sender.node, chunk.clone())));
            }
        }
        for (node, chunk) in again {
            self.send(shared, node, &chunk);
        }
        let forgotten = self
            .incoming
            .as_ref()
            .is_some_and(|incoming| !incoming.writing && now.since(incoming.heard) > STALLED_AFTER * 2);
        if forgotten {
            self.drop_incoming(shared);
        }
    }

    pub fn drop_incoming(&mut self, shared: &mut Shared) {
        if let Some(incoming) = self.incoming.take() {
            shared.jobs.drop_space(&self.spec.engine, incoming.staging);
        }
    }

    pub fn on_snapshot_chunk(
        &mut self,
        shared: &mut Shared,
        now: Tick,
        from: NodeId,
        chunk: (u64, u64, Bytes, Option<Message>),
    ) {
        let (id, sequence, data, last) = chunk;
        if self.incoming.as_ref().is_none_or(|incoming| incoming.id != id) {
            if sequence != 0 {
                let ack = Payload::SnapshotAck { from: self.spec.replica, snapshot: id, next: 0, done: false };
                return self.send(shared, from, &ack);
            }
            if self.incoming.as_ref().is_some_and(|incoming| incoming.writing) {
                // The earlier one is in the engine's hands; the sender repeats its first chunk.
                return;
            }
            self.drop_incoming(shared);
            let staging = shared.new_space();
            self.incoming = Some(Incoming { id, node: from, staging, next: 0, writing: false, last: None, heard: now });
        }
        let replica = self.spec.replica;
        let incoming = self.incoming.as_mut().expect("made above");
        incoming.heard = now;
        if sequence != incoming.next || incoming.writing {
            if sequence < incoming.next {
                let ack = Payload::SnapshotAck { from: replica, snapshot: id, next: incoming.next, done: false };
                self.send(shared, from, &ack);
            }
            return;
        }
        let Ok(pairs) = decode_pairs(data) else { return };
        let space = incoming.staging;
        let mut operations: Vec<BatchOperation> =
            pairs.into_iter().map(|(key, value)| BatchOperation::Put { space, key, value }).collect();
        if let Some(message) = &last {
            operations.push(BatchOperation::Durable { space, index: message.snapshot_index() });
        }
        incoming.writing = true;
        incoming.last = last;
        let target = JobTarget::Staging { cluster: self.spec.cluster, snapshot: id };
        shared.jobs.write(&self.spec.engine, target, WriteBatch { operations });
    }

    /// A chunk is durable in the staging space.
    pub fn on_staged(&mut self, shared: &mut Shared, now: Tick, id: u64, written: bool) {
        let Some(incoming) = self.incoming.as_mut().filter(|incoming| incoming.id == id) else { return };
        incoming.writing = false;
        if !written {
            return self.drop_incoming(shared);
        }
        incoming.next += 1;
        incoming.heard = now;
        let (node, next) = (incoming.node, incoming.next);
        let last = incoming.last.take();
        let done = last.is_some();
        let ack = Payload::SnapshotAck { from: self.spec.replica, snapshot: id, next, done };
        self.send(shared, node, &ack);
        if let (Some(message), Some(group)) = (last, self.group.as_mut()) {
            group.step(message);
            self.process(shared, now);
            // Installed: `incoming` is gone. Not wanted any more: so is the staging space.
            self.drop_incoming(shared);
        }
    }

    /// Raft takes the snapshot that lies in the staging space: the spaces are swapped. The log's record
    /// of it goes into the batch that resets the log, so both become durable together.
    pub fn install(&mut self, shared: &mut Shared, point: SnapshotPoint) -> Result<(), EngineError> {
        let incoming = self.incoming.take().ok_or_else(|| EngineError::Corrupt("no data came with it".into()))?;
        let meta = self
            .engine
            .get(incoming.staging, META_KEY)?
            .ok_or_else(|| EngineError::Corrupt("it has no meta record".into()))
            .and_then(|bytes| {
                ClusterMeta::from_bytes(bytes).map_err(|error| EngineError::Corrupt(error.to_string()))
            })?;
        if meta.applied != point.index && !planted(Mutant::SnapshotWrongIndex) {
            let text = format!("it claims index {} and holds {}", point.index, meta.applied);
            return Err(EngineError::Corrupt(text));
        }
        shared.jobs.drop_space(&self.spec.engine, self.space);
        self.space = incoming.staging;
        self.blank = false;
        self.meta = meta;
        self.meta.applied = point.index;
        if !planted(Mutant::SnapshotKeepsOld) {
            self.overlay.clear();
        }
        self.dirty_since = None;
        self.durable = point.clone();
        self.load_request_ids()?;
        self.stage_record(shared);
        shared.statistics.snapshots_installed += 1;
        if let Some(group) = self.group.as_mut() {
            group.set_snapshot_point(point);
        }
        Ok(())
    }
}
