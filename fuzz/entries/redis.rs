//! Ways in to door-redis: what a connection sends.

/// The first byte: how the rest is cut into reads, and whether the client has yet to say who it is. Commands are the same however they come.
pub fn redis_request(data: &[u8]) {
    let Some((how, bytes)) = data.split_first() else { return };
    let (strict, piece) = (how & 1 == 1, usize::from(how >> 1) + 1);
    let whole = door_redis::testing::requests(bytes, bytes.len().max(1), strict);
    let pieces = door_redis::testing::requests(bytes, piece, strict);
    assert_eq!(whole, pieces, "the same bytes in pieces of {piece} are other commands");
    let words: usize = whole.0.iter().map(Vec::len).sum();
    assert!(words <= bytes.len(), "{words} words out of {} bytes", bytes.len());
}
