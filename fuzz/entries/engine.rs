//! Ways in to base-engine: a snapshot's chunk.

use super::codec::round_trip;
use base_engine::Chunk;
use base_types::SpaceId;
use bytes::Bytes;

/// A chunk that decodes makes a batch every engine takes.
pub fn engine_chunk(data: &[u8]) {
    if let Some(chunk) = round_trip::<Chunk>(&Bytes::copy_from_slice(data)) {
        chunk.batch(SpaceId(1)).check().expect("a decoded chunk is within an engine's limits");
    }
}
