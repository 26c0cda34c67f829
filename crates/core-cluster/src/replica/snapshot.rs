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
//! A staging space has no owner until the log holds the record that names it. One that a crash leaves is dropped at the next
//! start (`snapshot-resumed-after-crashes.txt`).

use crate::context::{LaneContext, SENDERS_MAX};
use crate::meta::{ClusterMeta, LABEL_KEY, META_KEY};
use crate::replica::request_ids::ROW_PREFIX;
use crate::replica::Replica;
use crate::storage::engine_jobs::JobTarget;
use crate::wire::Payload;
use base_engine::{export, BatchOperation, Chunk, EngineError, EngineSnapshot};
use base_types::codec::Encode;
use base_types::mutant::{planted, Mutant};
use base_types::sizes::Sizes;
use base_types::{NodeId, ReplicaId, SpaceId, Tick};
use bytes::Bytes;
use core_raft::{Message, SnapshotPoint};
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
pub struct Sender {
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
pub struct Incoming {
    pub id: u64,
    pub node: NodeId,
    pub staging: SpaceId,
    next: u64,
    writing: bool,
    /// Pieces that came before their turn, at most a window of them.
    held: BTreeMap<u64, (Chunk, Option<Message>)>,
    last: Option<Message>,
    heard: Tick,
}

impl Sender {
    pub fn sizes(&self, sizes: &mut Sizes) {
        sizes.passing("snapshot pieces under way, a sender", self.unacknowledged.len(), WINDOW_CHUNKS);
    }
}

impl Incoming {
    pub fn sizes(&self, sizes: &mut Sizes) {
        sizes.passing("snapshot pieces before their turn, a receiver", self.held.len(), WINDOW_CHUNKS);
    }
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

impl Replica {
    /// Raft wants a member to have a snapshot.
    pub fn start_sender(&mut self, lane: &mut LaneContext, now: Tick, mut message: Message) {
        let to = message.to();
        if self.senders.contains_key(&to) {
            return;
        }
        let node = self.meta.node_of(to).filter(|_| lane.snapshot_senders < SENDERS_MAX);
        let opened = node.ok_or(EngineError::SnapshotExpired).and_then(|node| {
            let reader = self.engine.snapshot()?;
            let meta = reader.get(self.space, META_KEY)?.ok_or(EngineError::SnapshotExpired)?;
            let meta = ClusterMeta::from_bytes(meta).map_err(|error| EngineError::Corrupt(error.to_string()))?;
            if !meta.membership.contains(to) || self.is_of_life_before(meta.applied) {
                // It joined behind what is durable, and Raft refuses a snapshot that does not name it.
                lane.flush_soon = true;
                return Err(EngineError::SnapshotExpired);
            }
            Ok((node, reader, meta))
        });
        let Ok((node, reader, meta)) = opened else {
            if matches!(opened, Err(EngineError::Corrupt(_))) {
                self.overlay.see_damage(META_KEY);
            }
            if let Some(group) = self.group.as_mut() {
                group.report_snapshot(to, false);
            }
            return;
        };
        let index = if planted(Mutant::SnapshotWrongIndex) { self.meta.applied } else { meta.applied };
        message.set_snapshot(index, meta.applied_term, &meta.membership);
        lane.next_snapshot += 1;
        lane.snapshot_senders += 1;
        lane.statistics.snapshots_sent += 1;
        let id = (lane.config.seed ^ now.0.rotate_left(20)).wrapping_add(lane.next_snapshot);
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
        self.pump_sender(lane, now, to);
    }

    fn pump_sender(&mut self, lane: &mut LaneContext, now: Tick, to: ReplicaId) {
        let Some(sender) = self.senders.get_mut(&to) else { return };
        let node = sender.node;
        let mut fresh = Vec::new();
        let (mut failed, mut damaged) = (false, None);
        while !sender.exhausted && sender.unacknowledged.len() < WINDOW_CHUNKS {
            match sender.next_chunk(to, lane.config.snapshot_chunk_bytes) {
                Ok(chunk) => {
                    sender.unacknowledged.push_back((sender.next_sequence - 1, chunk.clone()));
                    sender.sent = now;
                    fresh.push(chunk);
                }
                Err(error) => {
                    // Expired, or a damaged pair: then it is mended before the next try.
                    let start = sender.after.as_ref().map(|key| [key, &[0][..]].concat()).unwrap_or_default();
                    damaged = matches!(error, EngineError::Corrupt(_)).then_some(start);
                    failed = true;
                    break;
                }
            }
        }
        if let Some(start) = damaged {
            self.view().look_for_damage(&start, None);
        }
        for chunk in fresh {
            self.send(lane, node, &chunk);
        }
        if failed {
            self.end_sender(lane, to, false);
        }
    }

    fn end_sender(&mut self, lane: &mut LaneContext, to: ReplicaId, delivered: bool) {
        if self.senders.remove(&to).is_some() {
            lane.snapshot_senders -= 1;
            if let Some(group) = self.group.as_mut() {
                group.report_snapshot(to, delivered);
            }
        }
    }

    pub fn on_snapshot_ack(
        &mut self,
        lane: &mut LaneContext,
        now: Tick,
        from: ReplicaId,
        id: u64,
        next: u64,
        done: bool,
    ) {
        let Some(sender) = self.senders.get_mut(&from).filter(|sender| sender.id == id) else { return };
        if done {
            return self.end_sender(lane, from, true);
        }
        let first = sender.unacknowledged.front().map_or(sender.next_sequence, |(sequence, _)| *sequence);
        if next < first {
            // The follower has lost what it had acknowledged (it restarted): start over.
            return self.end_sender(lane, from, false);
        }
        while sender.unacknowledged.front().is_some_and(|(sequence, _)| *sequence < next) {
            sender.unacknowledged.pop_front();
            sender.progressed = now;
        }
        self.pump_sender(lane, now, from);
    }

    /// Sends again what was not acknowledged, gives up what does not move.
    pub fn tick_snapshots(&mut self, lane: &mut LaneContext, now: Tick) {
        let stalled: Vec<ReplicaId> = self
            .senders
            .iter()
            .filter(|(_, sender)| now.since(sender.progressed) > STALLED_AFTER)
            .map(|(to, _)| *to)
            .collect();
        for to in stalled {
            self.end_sender(lane, to, false);
        }
        let mut again = Vec::new();
        for sender in self.senders.values_mut() {
            if now.since(sender.sent) > RESEND_AFTER {
                sender.sent = now;
                again.extend(sender.unacknowledged.front().map(|(_, chunk)| (sender.node, chunk.clone())));
            }
        }
        for (node, chunk) in again {
            self.send(lane, node, &chunk);
        }
        let forgotten = self
            .incoming
            .as_ref()
            .is_some_and(|incoming| !incoming.writing && now.since(incoming.heard) > SILENT_AFTER);
        if forgotten {
            self.drop_incoming(lane);
        }
    }

    pub fn drop_incoming(&mut self, lane: &mut LaneContext) {
        if let Some(incoming) = self.incoming.take() {
            lane.jobs.drop_space(&self.spec.engine, incoming.staging);
        }
    }

    pub fn on_snapshot_chunk(&mut self, lane: &mut LaneContext, now: Tick, from: NodeId, piece: Piece) {
        if !self.expects_snapshot(lane, now, from, &piece) {
            return;
        }
        let Some(incoming) = self.incoming.as_mut() else { return };
        incoming.heard = now;
        let (replica, snapshot, next) = (self.spec.replica, piece.snapshot, incoming.next);
        if piece.sequence < next {
            let ack = Payload::SnapshotAck { from: replica, snapshot, next, done: false };
            return self.send(lane, from, &ack);
        }
        let is_being_written = piece.sequence == next && incoming.writing;
        if is_being_written || piece.sequence - next >= WINDOW_CHUNKS as u64 {
            return;
        }
        if let Ok(chunk) = Chunk::from_bytes(piece.data) {
            incoming.held.insert(piece.sequence, (chunk, piece.last));
            self.write_next_chunk(lane);
        }
    }

    /// Whether the piece belongs to the snapshot that is coming in; a first piece begins a new one.
    fn expects_snapshot(&mut self, lane: &mut LaneContext, now: Tick, from: NodeId, piece: &Piece) -> bool {
        let current = self.incoming.as_ref();
        if current.is_some_and(|incoming| incoming.id == piece.snapshot && incoming.node == from) {
            return true;
        }
        if piece.sequence != 0 {
            let ack = Payload::SnapshotAck { from: self.spec.replica, snapshot: piece.snapshot, next: 0, done: false };
            self.send(lane, from, &ack);
            return false;
        }
        if current.is_some_and(|incoming| incoming.writing) {
            // The earlier one is in the engine's hands; the sender repeats its first chunk.
            return false;
        }
        if lane.is_crowded() {
            // It would make a space, and an earlier try leaves one to drop: the sender tries again.
            return false;
        }
        self.drop_incoming(lane);
        let staging = lane.new_space();
        self.incoming = Some(Box::new(Incoming {
            id: piece.snapshot,
            node: from,
            staging,
            next: 0,
            writing: false,
            held: BTreeMap::new(),
            last: None,
            heard: now,
        }));
        true
    }

    fn write_next_chunk(&mut self, lane: &mut LaneContext) {
        let Some(incoming) = self.incoming.as_mut().filter(|incoming| !incoming.writing) else { return };
        let Some((mut chunk, last)) = incoming.held.remove(&incoming.next) else { return };
        let space = incoming.staging;
        // It names the replica it comes from; a member that labels nothing would keep it, and could not mend it.
        chunk.pairs.retain(|(key, _)| key != LABEL_KEY);
        let mut batch = chunk.batch(space);
        let label = lane.config.label_spaces.then(|| crate::storage::restore::label(&self.spec, space));
        if planted(Mutant::SnapshotTorn) && last.is_some() {
            let is_meta = |key: &Bytes| key.as_ref() == META_KEY;
            batch.operations.retain(|operation| matches!(operation, BatchOperation::Put { key, .. } if is_meta(key)));
        }
        if let Some(message) = &last {
            batch.operations.push(BatchOperation::Durable { space, index: message.snapshot_index() });
            batch.operations.extend(label);
        }
        incoming.writing = true;
        incoming.last = last;
        let target = JobTarget::Staging { cluster: self.spec.cluster, snapshot: incoming.id };
        lane.jobs.write(&self.spec.engine, target, batch);
    }

    /// A chunk is durable in the staging space.
    pub fn on_staged(&mut self, lane: &mut LaneContext, now: Tick, id: u64, written: bool) {
        let Some(incoming) = self.incoming.as_mut().filter(|incoming| incoming.id == id) else { return };
        incoming.writing = false;
        if !written {
            return self.drop_incoming(lane);
        }
        incoming.next += 1;
        incoming.heard = now;
        let (node, next) = (incoming.node, incoming.next);
        let last = incoming.last.take();
        let done = last.is_some();
        let ack = Payload::SnapshotAck { from: self.spec.replica, snapshot: id, next, done };
        self.send(lane, node, &ack);
        if let (Some(message), Some(group)) = (last, self.group.as_mut()) {
            group.step(message);
            self.process(lane, now);
            // Installed: `incoming` is gone. Not wanted any more: so is the staging space.
            self.drop_incoming(lane);
        } else {
            self.write_next_chunk(lane);
        }
    }

    /// Raft takes the snapshot that lies in the staging space: the spaces are swapped. The record that
    /// names the new space is in the log already (`next_ready`), in front of the reset; the old space
    /// goes once both are durable, for until then a crash comes back to it.
    pub fn install(&mut self, lane: &mut LaneContext, point: SnapshotPoint) -> Result<(), EngineError> {
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
        lane.drop_space_later(&self.spec.engine, self.space);
        self.on_space_changed(lane);
        self.space = incoming.staging;
        self.blank = false;
        self.meta = meta;
        lane.interner.share_meta(&mut self.meta);
        self.meta.applied = point.index;
        self.membership_at = point.index;
        if !planted(Mutant::SnapshotKeepsOld) {
            self.overlay.clear();
        }
        // What was committed and held back lies behind the snapshot, and the space is another one.
        self.late.clear();
        self.mending = None;
        self.end_quarantine(lane);
        self.chain.forget_samples();
        self.walk = None;
        self.lost_pairs.clear();
        self.dirty_since = None;
        self.durable = point.clone();
        self.load_request_ids()?;
        lane.statistics.snapshots_installed += 1;
        if let Some(group) = self.group.as_mut() {
            group.set_snapshot_point(point);
        }
        Ok(())
    }
}
