//! Headers are the bytes of docs/formats/golden. That a newer format is refused: basics.rs.

#[path = "../../../../fuzz/common/golden.rs"]
mod golden;

use crate::format::{
    place, BatchHeader, Record, RecordHeader, RecordKind, BATCH_HEADER_BYTES, FLAG_SEAL, FORMAT_VERSION,
};
use alloc::format;
use base_types::{ClusterId, LogIndex, Term};
use bytes::Bytes;

#[test]
fn headers_are_those_of_the_first_release() {
    let header = BatchHeader {
        version: FORMAT_VERSION,
        flags: FLAG_SEAL,
        records: 3,
        identity: 9,
        segment: 4,
        offset: 8192,
        number: 77,
        previous: 5,
        log_start: 2,
        log_start_number: 50,
        records_bytes: 100,
        echo_bytes: 5000,
        directory_checksum: 1,
        echo_checksum: 2,
        checksum: 0,
    };
    let mut bytes = [0; BATCH_HEADER_BYTES];
    header.encode(&mut bytes);
    golden::check("log", "batch header", &bytes);
    assert_eq!(BatchHeader::decode(&golden::line("log", "batch header")).map(|read| read.number), Some(77));
    let kinds = [RecordKind::Entry, RecordKind::State, RecordKind::Compact, RecordKind::Reset, RecordKind::Forget];
    for kind in kinds {
        let (data, context) = (Bytes::from_static(b"data"), Bytes::from_static(b"context"));
        let (cluster, index, term) = (ClusterId(1_000), LogIndex(12), Term(3));
        let record = Record { kind, detail: 2, cluster, index, term, data, context };
        let written = RecordHeader::of(&record, 9, b"datacontext").encode(place(9, 4, 8192));
        golden::check("log", &format!("record header, kind {}", kind as u8), &written);
        assert_eq!(RecordHeader::decode(&written, place(9, 4, 8192)).map(|read| read.kind), Some(kind));
    }
}
