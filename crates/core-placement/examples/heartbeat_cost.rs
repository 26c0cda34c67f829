//! What the node map costs the world's leader in a world of 1,000 nodes: bytes and CPU a heartbeat.
//!
//!   cargo run --release -p core-placement --example heartbeat_cost
//!
//! One round: every node's record is decoded, noted, and answered with what is new since its last
//! answer. Once in a quiet world, once with one node in twenty changing its score each second. Sockets and
//! TLS are not in it.

use base_types::codec::Encode;
use base_types::{BootId, DiskId, NodeId, Tick};
use core_placement::{Labels, MapVersion, NodeMap, NodeRecord};
use std::time::{Duration, Instant};

const NODES: u64 = 1_000;
const ROUNDS: u64 = 60;

fn record(node: u64, round: u64, restless: bool) -> NodeRecord {
    NodeRecord {
        node: NodeId(node),
        disk: DiskId(node),
        boot: BootId(node),
        labels: Labels {
            region: "fr-par".into(),
            az: format!("fr-par-{}", node % 3),
            rack: format!("rack-{}", node % 40),
            chassis: format!("chassis-{node}"),
        },
        peer_address: format!("10.0.{}.{}:7601", node / 250, node % 250),
        http_address: format!("10.0.{}.{}:7101", node / 250, node % 250),
        lanes: 8,
        level_max: base_types::FormatLevel(1),
        version: "0.1.0".into(),
        engines: vec!["lmdb".into()],
        doors: Vec::new(),
        score: if restless && node % 20 == round % 20 { (round * 40 % 1000) as u32 } else { 300 },
        clusters: 1000,
        leaders: 300,
        up: true,
        draining: false,
    }
}

fn main() {
    measure(false);
    measure(true);
}

fn measure(restless: bool) {
    let mut map = NodeMap::new();
    let mut now = Tick(1);
    map.become_authority(now, 1, &[]);
    let mut wanted = vec![MapVersion::default(); NODES as usize + 1];
    let (mut bytes_in, mut bytes_out) = (0, 0);
    let mut copies = NodeMap::new();
    let mut spent = Duration::ZERO;
    for round in 0..ROUNDS {
        now = now + Duration::from_secs(1);
        let beats: Vec<_> = (1..=NODES).map(|node| record(node, round, restless).to_bytes()).collect();
        let started = Instant::now();
        for (node, beat) in beats.into_iter().enumerate() {
            bytes_in += beat.len();
            let record = NodeRecord::from_bytes(beat).expect("our own record");
            map.note_heartbeat(now, &record).expect("known nodes");
            let delta = map.delta_since(now, wanted[node + 1], 256);
            bytes_out += delta.to_bytes().len();
            wanted[node + 1] = map.version();
            if node == 0 {
                copies.apply_delta(now, &delta);
            }
        }
        map.refresh(now, Duration::from_secs(4));
        spent += started.elapsed();
    }
    let beats = (NODES * ROUNDS) as f64;
    let world = if restless { "one node in 20 changes its score each second" } else { "a quiet world" };
    println!("{NODES} nodes, a heartbeat a second, {world}");
    println!("bytes a heartbeat: {:.0} in, {:.0} out", bytes_in as f64 / beats, bytes_out as f64 / beats);
    println!("leader's CPU a heartbeat, without sockets: {:.2} us", spent.as_secs_f64() * 1e6 / beats);
    println!("leader's CPU a second at {NODES} nodes: {:.2} ms", spent.as_secs_f64() * 1e3 / ROUNDS as f64);
}
