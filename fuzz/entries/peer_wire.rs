//! Ways in to edge-node's messages between nodes. The module is private there, so it is taken by its
//! file: it stands on base-types and bytes alone.

#[path = "../../crates/edge-node/src/peers/wire.rs"]
#[allow(dead_code)]
mod wire;

use bytes::BytesMut;

/// A stream of messages, in two pieces; both bounds.
pub fn peer_message(data: &[u8]) {
    for bound in [wire::HELLO_BYTES_MAX, wire::MESSAGE_BYTES_MAX] {
        let (first, second) = data.split_at(data.len() / 2);
        let mut buffer = BytesMut::from(first);
        let mut pieces = [second].into_iter();
        loop {
            match wire::take(&mut buffer, bound) {
                Ok(Some(message)) => {
                    let bytes = wire::encode(&message);
                    assert_eq!(wire::take(&mut BytesMut::from(&bytes[..]), usize::MAX), Ok(Some(message)));
                }
                Ok(None) => match pieces.next() {
                    Some(piece) => buffer.extend_from_slice(piece),
                    None => break,
                },
                Err(_) => break,
            }
        }
    }
}
