//! The marker and the entries of a store are the bytes of docs/formats/golden. That a newer format is refused: directory/tests.rs.

#[path = "../../../../fuzz/common/golden.rs"]
mod golden;

use crate::directory::{Marker, FORMAT};
use crate::record;
use bytes::BytesMut;

#[test]
fn marker_and_entries_are_those_of_the_first_release() {
    let marker = Marker { format: FORMAT, store: 77, cores: 2, engine: "lmdb".into() };
    golden::check("embedded", "hive-store.json", &serde_json::to_vec(&marker).unwrap());
    let mut entry = BytesMut::new();
    let changes: [(&[u8], Option<&[u8]>); 2] = [(b"key", Some(b"value")), (b"gone", None)];
    record::push(&mut entry, 7, &record::body(changes.into_iter()).bytes);
    golden::check("embedded", "entry", &entry);
    let read = record::read(golden::line("embedded", "entry").into()).unwrap();
    assert_eq!((read.len(), read[0].0, read[0].1.len()), (1, 7, 2));
}
