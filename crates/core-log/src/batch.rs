//! Turns the records of a batch into blocks.
//!
//!   header │ record header, payload │ … │ directory of the batch before │ zeros to the block's end
//!
//! Always: the blocks are one buffer, used again once the host has let go of it; a payload is copied
//! once, into it.
//! Held by: `one_write_at_a_time_and_the_rest_leaves_with_the_next`.
//! Not here: the layout of headers (`format.rs`).

use crate::format::{
    align_up, directory_checksum, place, push_directory, BatchHeader, Record, RecordHeader, BATCH_HEADER_BYTES,
    RECORD_ALIGN, RECORD_HEADER_BYTES,
};
use crate::BLOCK_BYTES;
use alloc::vec::Vec;
use bytes::{Bytes, BytesMut};

/// Writes one batch.
pub(crate) struct BatchWriter {
    out: BytesMut,
    header: BatchHeader,
    directory: Vec<u8>,
}

impl BatchWriter {
    /// Begins a batch; `header` lacks only its counts, lengths and checksums. The buffers' contents are dropped.
    pub fn new(mut out: BytesMut, mut directory: Vec<u8>, header: BatchHeader, bytes: usize) -> BatchWriter {
        out.clear();
        out.reserve(bytes);
        out.resize(BATCH_HEADER_BYTES, 0);
        directory.clear();
        BatchWriter { out, header, directory }
    }

    pub fn push(&mut self, record: &Record) {
        let at = self.out.len();
        self.out.resize(at + RECORD_HEADER_BYTES, 0);
        self.out.extend_from_slice(&record.data);
        self.out.extend_from_slice(&record.context);
        let end = self.out.len();
        let payload = &self.out[at + RECORD_HEADER_BYTES..];
        let header = RecordHeader::of(record, self.header.identity, payload).encode(place(
            self.header.identity,
            self.header.segment,
            self.header.offset + at as u64,
        ));
        push_directory(&mut self.directory, &header, record.kind, payload);
        self.out[at..at + RECORD_HEADER_BYTES].copy_from_slice(&header);
        self.out.resize(align_up(end, RECORD_ALIGN), 0);
        self.header.records += 1;
    }

    /// Ends the batch: its blocks, its checksum, its directory.
    pub fn finish(mut self, echo: &[u8]) -> (Bytes, u64, Vec<u8>) {
        self.header.records_bytes = (self.out.len() - BATCH_HEADER_BYTES) as u32;
        self.header.echo_bytes = echo.len() as u32;
        self.header.directory_checksum = directory_checksum(self.header.identity, &self.directory);
        self.header.echo_checksum = directory_checksum(self.header.identity, echo);
        self.out.extend_from_slice(echo);
        let end = align_up(self.out.len(), BLOCK_BYTES);
        self.out.resize(end, 0);
        let checksum = self.header.encode(&mut self.out[..BATCH_HEADER_BYTES]);
        (self.out.freeze(), checksum, self.directory)
    }
}
