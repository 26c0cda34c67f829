//! Ways in to core-node: frames of peers, keyspace documents, replies of the metadata backend.

use super::codec::round_trip;
use bytes::Bytes;
use core_keyspace::{read_reply, validate_name, Document};
use core_node::frame::{self, FrameBuilder, Item};

/// A frame: what decodes is built again and must be the same; what it carries goes one layer on.
pub fn peer_frame(data: &[u8]) {
    frame::fuzz(data);
    let Ok(decoded) = frame::decode(Bytes::copy_from_slice(data)) else { return };
    assert_eq!(frame::peek_lane(data), Some(decoded.to));
    let mut builder = FrameBuilder::new(decoded.to, decoded.from);
    for item in &decoded.items {
        builder.push(item);
        if let Item::Peer { payload, .. } = item {
            core_cluster::fuzz_decode(payload);
        }
    }
    assert_eq!(frame::decode(builder.finish()).as_ref(), Ok(&decoded));
}

/// A keyspace's document as the world cluster gives it back.
pub fn keyspace_document(data: &[u8]) {
    let bytes = Bytes::copy_from_slice(data);
    let _ = read_reply(bytes.clone());
    let _ = core::str::from_utf8(data).map(validate_name);
    let Some(document) = round_trip::<Document>(&bytes) else { return };
    assert!(validate_name(&document.name).is_ok());
    let _ = Document::decode_body(bytes.clone());
    let news = core_keyspace::DocumentNews { keyspace: document.name, version: 1, body: Some(bytes) };
    let _ = core_keyspace::work_left(&news);
}
