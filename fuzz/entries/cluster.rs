//! Ways in to core-cluster: payloads and entries alone, and a lane that a hostile member talks to.
//!
//!   lane_peer input: steps of  kind u8 | length u16 | bytes     kind & 3: 0, 1 a payload, 2 time goes
//!   on by `length` ms, 3 a client's write of these bytes; kind >> 4: the node that speaks (1 to 3)
//!
//! Always: whatever a member says, the lane continues; everything it asks of its disk and engine is done
//! at once. A member is behind TLS, so this is damage and bugs of another version, not the open network.

use base_engine::Engine;
use base_types::codec::Encode;
use base_types::{
    BackendKind, ClusterId, DiskId, Generation, LaneId, NodeId, ReadConsistency, ReplicaId, RequestId, Tick, Ticket,
    WriteConsistency,
};
use bytes::Bytes;
use core_backends::metadata::Command;
use core_cluster::api::{LaneConfig, LaneOutput, LocalKind, LocalOperation, Member, ReplicaSpec};
use core_cluster::Lane;
use core_log::testing::{DiskEvent, TestDisk};
use core_log::LogConfig;
use engine_memory::MemoryEngine;
use std::sync::Arc;
use std::time::Duration;

const SEGMENT_BYTES: u64 = 256 << 10;
/// The cluster of the seeds.
pub const CLUSTER: ClusterId = ClusterId(1000);
/// The node that is fuzzed; 1 and 3 speak to it.
pub const NODE: u64 = 2;
const STEPS_MAX: usize = 64;
/// Turns until what one step set off has come to rest.
const TURNS_MAX: usize = 8;

/// Any bytes as a payload and as an entry.
pub fn cluster_payload(data: &[u8]) {
    core_cluster::fuzz_decode(data);
}

/// A node's lane with its disk and engine.
pub struct Host {
    pub lane: Lane,
    pub now: Tick,
    disk: TestDisk,
    engine: Arc<MemoryEngine>,
    tickets: u64,
}

fn member(node: u64) -> Member {
    Member { replica: ReplicaId(node), node: NodeId(node), disk: DiskId(node), learner: false }
}

fn config(node: u64) -> LaneConfig {
    LaneConfig {
        node: NodeId(node),
        disk: DiskId(node),
        lane: LaneId(0),
        log_identity: node,
        log_reached: 0,
        seed: node,
        tick_ms: 10,
        heartbeat_ticks: 3,
        election_ticks: 10,
        quiesce_after_ticks: 20,
        read_leases: true,
        log_stall_elections: 1,
        log_stall_ms: 5_000,
        flush_bytes: 64 << 10,
        flush_after_ms: 200,
        log_keep_bytes: 4 << 10,
        snapshot_chunk_bytes: 1024,
        scrub_bytes_per_second: 0,
        scrub_round_ms: 0,
        label_spaces: false,
        tail_engine: None,
        buggify_until: Tick(0),
        witness: None,
        keep: core_backends::Keep::default(),
        request_ids: Default::default(),
        level: base_types::FormatLevel(1),
        level_max: base_types::FormatLevel(1),
        log: LogConfig { segment_bytes: SEGMENT_BYTES, ..LogConfig::default() },
    }
}

impl Host {
    /// A member of a cluster of three.
    pub fn new(node: u64) -> Host {
        let (mut disk, engine, now) = (TestDisk::new(SEGMENT_BYTES), Arc::new(MemoryEngine::new()), Tick(1_000_000));
        let engines: Vec<Arc<dyn Engine>> = vec![engine.clone()];
        let (mut lane, _) = Lane::open(config(node), engines, &mut disk, now).expect("an empty disk opens");
        let spec = ReplicaSpec {
            cluster: CLUSTER,
            generation: Generation(1),
            name: "metadata@test".parse().expect("a name"),
            rule: "size=3".into(),
            engine: "memory".into(),
            consistency: WriteConsistency::Strong,
            read_consistency: ReadConsistency::Strong,
            replica: ReplicaId(node),
            initial_members: (1..=3).map(member).collect(),
        };
        lane.create_replica(now, spec).expect("a blank lane takes a replica");
        Host { lane, now, disk, engine, tickets: 0 }
    }

    /// Ends the turn and does what it asks until it asks no more; what it says to peers is returned.
    pub fn settle(&mut self) -> LaneOutput {
        let mut all = LaneOutput::default();
        for _ in 0..TURNS_MAX {
            let output = self.lane.finish_turn(self.now);
            let busy = !output.log.is_empty() || !output.engine.is_empty();
            all.messages.extend(output.messages);
            output.log.into_iter().for_each(|action| self.disk.start(action));
            while let Some(event) = self.disk.finish() {
                match event {
                    DiskEvent::Written(batch) => self.lane.on_log_written(self.now, batch),
                    DiskEvent::Ready(segment) => self.lane.on_log_segment_ready(self.now, segment),
                    DiskEvent::NoRoom(segment) => self.lane.on_log_segment_failed(self.now, segment),
                    DiskEvent::Failed => self.lane.on_log_failed(self.now, "failed"),
                }
            }
            for job in output.engine {
                let result = job.work.carry_out(&*self.engine);
                self.lane.on_engine_done(self.now, job.job, result);
            }
            if !busy {
                break;
            }
        }
        all
    }

    /// A client's write.
    pub fn write(&mut self, value: Bytes) {
        self.tickets += 1;
        let command = Command::Put { scope: None, key: Bytes::from_static(b"key"), value }.to_bytes();
        self.lane.submit(
            self.now,
            LocalOperation {
                ticket: Ticket(self.tickets),
                cluster: CLUSTER,
                generation: Generation(1),
                deadline: self.now + Duration::from_secs(1),
                kind: LocalKind::Write {
                    backend: BackendKind::Metadata,
                    command,
                    consistency: None,
                    request_id: RequestId(u128::from(self.tickets)),
                    cluster_time_ms: 0,
                },
            },
        );
    }

    /// What a member says.
    pub fn hear(&mut self, from: u64, payload: Bytes) {
        self.lane.on_peer_message(self.now, NodeId(from), CLUSTER, Generation(1), payload);
    }
}

/// A lane and what is said to it.
pub fn lane_peer(mut data: &[u8]) {
    let mut host = Host::new(NODE);
    host.settle();
    for _ in 0..STEPS_MAX {
        let Some(([kind, low, high], rest)) = data.split_first_chunk::<3>() else { break };
        let length = u16::from_le_bytes([*low, *high]);
        let taken = if kind & 3 == 2 { 0 } else { usize::from(length).min(rest.len()) };
        let bytes = Bytes::copy_from_slice(&rest[..taken]);
        data = &rest[taken..];
        match kind & 3 {
            2 => {
                host.now = host.now + Duration::from_millis(length.into());
                host.lane.on_timer(host.now);
            }
            3 => host.write(bytes),
            _ => host.hear(u64::from(kind >> 4) % 3 + 1, bytes),
        }
        host.settle();
    }
    host.lane.view(CLUSTER);
}
