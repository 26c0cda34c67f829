//! Tests of the log as a whole: against a model, under crashes, rot and small segments.

extern crate std;

mod basics;
mod damage;
mod formats;
mod model;
#[cfg(feature = "mutants")]
mod mutants;
mod tails;

use crate::testing::{tell, TestDisk};
use crate::{Log, LogConfig, LogEntry, RecoveryReport};
use base_types::{ClusterId, LogIndex, Term, Tick};
use bytes::Bytes;
use core::time::Duration;
use std::vec;
use std::vec::Vec;

pub(crate) const IDENTITY: u64 = 0x5eed;

pub(crate) fn config() -> LogConfig {
    LogConfig {
        segment_bytes: 32 << 10,
        spare_segments: 1,
        batch_bytes_max: 4096,
        segments_soft_max: 3,
        seal_after: Duration::from_millis(200),
    }
}

pub(crate) fn open(disk: &mut TestDisk) -> (Log, RecoveryReport) {
    Log::recover(disk, config(), IDENTITY).unwrap()
}

pub(crate) fn entry(index: u64, term: u64, data: &[u8]) -> LogEntry {
    LogEntry {
        term: Term(term),
        index: LogIndex(index),
        kind: 0,
        data: Bytes::copy_from_slice(data),
        context: Bytes::new(),
    }
}

/// Long enough after `now` that a seal is written.
pub(crate) fn idle(disk: &mut TestDisk, log: &mut Log) {
    disk.drive(log, Tick(0));
    disk.drive(log, Tick::from_millis(1_000_000));
}

/// Everything the log says about a cluster's entries.
pub(crate) fn entries(log: &Log, cluster: ClusterId) -> Vec<(u64, Option<LogEntry>)> {
    let range = log.first_index(cluster).0..=log.last_index(cluster).0;
    range.map(|index| (index, log.entry(cluster, LogIndex(index)))).collect()
}

/// A small generator (splitmix64).
pub(crate) struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
}

/// Finishes one pending action of the disk.
pub(crate) fn finish_one(disk: &mut TestDisk, log: &mut Log) {
    if let Some(event) = disk.finish() {
        tell(log, event);
    }
}

pub(crate) fn bytes_of(random: &mut Random, most: u64) -> Vec<u8> {
    let count = random.below(most + 1);
    let seed = random.next() as u8;
    let mut bytes = vec![seed; count as usize];
    bytes.iter_mut().enumerate().for_each(|(at, byte)| *byte = byte.wrapping_add(at as u8));
    bytes
}
