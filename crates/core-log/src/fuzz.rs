//! Ways in for fuzzing: any bytes as a segment, any bytes as a record.
//!
//! Always: they return; what they return matters to nobody.
//! Held by: `log_record`, `log_segment`.

use crate::format::{read_directory, RecordHeader};
use crate::{Log, LogConfig, LogDisk, LogError, SegmentId, BLOCK_BYTES};
use alloc::vec;
use alloc::vec::Vec;
use bytes::{Bytes, BytesMut};

/// The log's identity that a fuzzer's segment should name to get past the first check.
pub const FUZZ_IDENTITY: u64 = 0;

struct OneSegment(Bytes);

impl LogDisk for OneSegment {
    fn segments(&mut self) -> Result<Vec<(SegmentId, u64)>, LogError> {
        Ok(vec![(SegmentId(1), self.0.len() as u64)])
    }

    fn read(&mut self, _: SegmentId, offset: u64, bytes: usize) -> Result<Bytes, LogError> {
        let from = (offset as usize).min(self.0.len());
        Ok(self.0.slice(from..(from + bytes).min(self.0.len())))
    }
}

/// Recovers a log from one segment with these bytes.
pub fn fuzz_recover(bytes: &[u8]) {
    let mut image = BytesMut::from(bytes);
    image.resize(bytes.len().next_multiple_of(BLOCK_BYTES), 0);
    let config = LogConfig { segment_bytes: crate::SEGMENT_BYTES_MIN, ..LogConfig::default() };
    if let Ok((mut log, _)) = Log::recover(&mut OneSegment(image.freeze()), config, FUZZ_IDENTITY) {
        for cluster in log.clusters() {
            let _ = (log.first_index(cluster), log.last_index(cluster), log.holes(cluster));
        }
        log.poll(base_types::Tick(0));
    }
}

/// Decodes a record header and a directory.
pub fn fuzz_record(bytes: &[u8]) {
    let _ = RecordHeader::decode(bytes, 0);
    let _ = read_directory(bytes);
}
