//! Bytes of heap an idle replica takes: 1,000 clusters of three members on three lanes, settled and quiet.
//!
//!   cargo run --release -p core-cluster --example idle_memory --features core-log/testing
//!
//! Counts what the program has allocated and not freed; the memory engine's copy of the spaces is in it. With the
//! word `sizes` it lists the sizes of blocks that take most.

use base_engine::Engine;
use base_types::{ClusterId, DiskId, Generation, LaneId, NodeId, ReadConsistency, ReplicaId, Tick, WriteConsistency};
use core_cluster::api::*;
use core_cluster::Lane;
use core_log::testing::{DiskEvent, TestDisk};
use core_log::LogConfig;
use engine_memory::MemoryEngine;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

struct Counting;

static LIVE: AtomicU64 = AtomicU64::new(0);
/// Live blocks by size; the last counts all larger ones.
static BLOCKS: [AtomicU64; SIZES] = [const { AtomicU64::new(0) }; SIZES];
const SIZES: usize = 32_768;
/// Lines of the list.
const LINES: usize = 40;

// SAFETY: hands every call on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size() as u64, Ordering::Relaxed);
        BLOCKS[layout.size().min(SIZES - 1)].fetch_add(1, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        BLOCKS[layout.size().min(SIZES - 1)].fetch_sub(1, Ordering::Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const CLUSTERS: u64 = 1_000;
const SEGMENT_BYTES: u64 = 64 << 20;

struct Node {
    lane: Lane,
    disk: TestDisk,
    engine: Arc<MemoryEngine>,
}

fn config(node: u64) -> LaneConfig {
    LaneConfig {
        node: NodeId(node),
        disk: DiskId(node),
        lane: LaneId(0),
        log_identity: node,
        log_reached: 0,
        seed: node,
        tick_ms: 30,
        heartbeat_ticks: 3,
        election_ticks: 10,
        quiesce_after_ticks: 20,
        read_leases: true,
        log_stall_elections: 1,
        log_stall_ms: 5_000,
        flush_bytes: 32 << 20,
        flush_after_ms: 1_000,
        log_keep_bytes: 8 << 20,
        snapshot_chunk_bytes: 256 << 10,
        scrub_bytes_per_second: 0,
        scrub_round_ms: 0,
        label_spaces: false,
        tail_engine: None,
        buggify_until: Tick(0),
        witness: None,
        keep: core_backends::Keep::default(),
        request_ids: core_cluster::api::RequestIdTerms::default(),
        level: base_types::FormatLevel(1),
        level_max: base_types::FormatLevel(1),
        log: LogConfig { segment_bytes: SEGMENT_BYTES, ..LogConfig::default() },
    }
}

fn spec(cluster: u64, node: u64) -> ReplicaSpec {
    let member = |node| Member { replica: ReplicaId(node), node: NodeId(node), disk: DiskId(node), learner: false };
    ReplicaSpec {
        cluster: ClusterId(cluster),
        generation: Generation(1),
        name: format!("metadata@idle-{cluster}").parse().expect("a name"),
        rule: "size=3 location=world failure_domain=chassis".into(),
        engine: "memory".into(),
        consistency: WriteConsistency::Strong,
        read_consistency: ReadConsistency::Strong,
        replica: ReplicaId(node),
        initial_members: (1..=3).map(member).collect(),
    }
}

fn turn(nodes: &mut [Node], at: usize, now: Tick, wires: &mut Vec<(NodeId, PeerMessage)>) {
    let node = &mut nodes[at];
    if node.lane.next_wake() <= now {
        node.lane.on_timer(now);
    }
    let output = node.lane.finish_turn(now);
    output.log.into_iter().for_each(|action| node.disk.start(action));
    while let Some(event) = node.disk.finish() {
        match event {
            DiskEvent::Written(batch) => node.lane.on_log_written(now, batch),
            DiskEvent::Ready(segment) => node.lane.on_log_segment_ready(now, segment),
            DiskEvent::NoRoom(segment) => node.lane.on_log_segment_failed(now, segment),
            DiskEvent::Failed => node.lane.on_log_failed(now, "example"),
        }
    }
    for job in output.engine {
        let result = job.work.carry_out(&*node.engine);
        node.lane.on_engine_done(now, job.job, result);
    }
    wires.extend(output.messages.into_iter().map(|message| (NodeId(at as u64 + 1), message)));
}

fn run(nodes: &mut [Node], now: &mut Tick, millis: u64) {
    for _ in 0..millis / 5 {
        *now = *now + Duration::from_millis(5);
        let mut wires = Vec::new();
        for at in 0..nodes.len() {
            turn(nodes, at, *now, &mut wires);
        }
        for (from, message) in wires {
            let node = &mut nodes[message.to.0 as usize - 1];
            node.lane.on_peer_message(*now, from, message.cluster, message.generation, message.payload);
        }
    }
}

fn main() {
    let mut now = Tick(1_000_000);
    let mut nodes: Vec<Node> = (1..=3)
        .map(|node| {
            let (engine, mut disk) = (Arc::new(MemoryEngine::new()), TestDisk::new(SEGMENT_BYTES));
            let engines: Vec<Arc<dyn Engine>> = vec![engine.clone()];
            let (lane, _) = Lane::open(config(node), engines, &mut disk, now).expect("an empty disk opens");
            Node { lane, disk, engine }
        })
        .collect();
    run(&mut nodes, &mut now, 1_000);
    let disks = |nodes: &[Node]| {
        nodes.iter().map(|n| n.disk.files().iter().map(|f| n.disk.written(*f)).sum::<u64>()).sum::<u64>()
    };
    let before = LIVE.load(Ordering::Relaxed) - disks(&nodes);
    let blocks = || BLOCKS.iter().map(|count| count.load(Ordering::Relaxed)).collect::<Vec<u64>>();
    let blocks_before = blocks();
    for cluster in 1..=CLUSTERS {
        for (at, node) in nodes.iter_mut().enumerate() {
            node.lane.create_replica(now, spec(1000 + cluster, at as u64 + 1)).expect("a new replica");
        }
        if cluster % 100 == 0 {
            run(&mut nodes, &mut now, 1_000);
        }
    }
    run(&mut nodes, &mut now, 20_000);
    let live = LIVE.load(Ordering::Relaxed) - disks(&nodes) - before;
    let quiet: u64 = nodes.iter().map(|node| node.lane.statistics().quiesced).sum();
    println!("{} replicas, {quiet} of them quiet", 3 * CLUSTERS);
    println!("heap a replica: {} bytes", live / (3 * CLUSTERS));
    if std::env::args().any(|word| word == "sizes") {
        let grown = blocks().into_iter().zip(blocks_before).map(|(now, before)| now.saturating_sub(before));
        let mut lines: Vec<(u64, usize, u64)> =
            grown.enumerate().map(|(size, count)| (size as u64 * count, size, count)).collect();
        lines.sort_unstable_by(|one, other| other.cmp(one));
        println!("bytes a replica  size  blocks");
        for (bytes, size, count) in lines.into_iter().take(LINES) {
            println!("{:>15}  {size:>5}  {count}", bytes / (3 * CLUSTERS));
        }
    }
}
