//! What appending costs: entries of 2 KB through staging and batch building, without a disk.
//! Run: cargo run --release -p core-log --example append_cost --features testing
use base_types::{ClusterId, LogIndex, Term, Tick};
use bytes::Bytes;
use core_log::{testing::TestDisk, Log, LogAction, LogConfig, LogEntry};
use std::time::Instant;

fn main() {
    let mut disk = TestDisk::new(64 << 20);
    let (mut log, _) = Log::recover(&mut disk, LogConfig::default(), 1).expect("an empty disk");
    let data = Bytes::from(vec![7u8; 2048]);
    let (rounds, per_batch, clusters) = (4000u64, 64u64, 16u64);
    let start = Instant::now();
    let mut bytes = 0;
    for round in 1..=rounds {
        for at in 0..per_batch {
            let cluster = ClusterId(at % clusters);
            let index = LogIndex(log.last_index(cluster).0 + 1);
            log.append(
                cluster,
                &[LogEntry { term: Term(1), index, kind: 0, data: data.clone(), context: Bytes::new() }],
            );
        }
        if round % 64 == 0 {
            (0..clusters)
                .for_each(|cluster| log.compact(ClusterId(cluster), log.last_index(ClusterId(cluster)), Term(1)));
        }
        for action in log.poll(Tick(round)) {
            match action {
                LogAction::Write { batch, blocks, .. } => {
                    bytes += blocks.len();
                    drop(blocks);
                    log.on_written(batch);
                }
                LogAction::Prepare { segment, .. } => log.on_segment_ready(segment),
                LogAction::Remove { .. } => {}
            }
        }
    }
    let each = start.elapsed().as_nanos() as u64 / (rounds * per_batch);
    println!("{each} ns an entry of 2 KB; {bytes} bytes in {rounds} batches; {:?}", log.statistics());
}
