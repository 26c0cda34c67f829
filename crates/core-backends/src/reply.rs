//! The byte form of replies, and what can be read off it without decoding.
//!
//! Always: bytes that do not decode are a refusal, never a panic.
//! Not here: what backends reply (their own rooms).

use base_types::codec::{DecodeError, Encode, Reader, Writer};
use base_types::{ErrorKind, Refusal};
use bytes::Bytes;

/// The partition is another cluster's, or is at another epoch.
pub(crate) const WRONG_PARTITION: &str = "WrongPartition";
/// The key is another shard's, or the shard is at another epoch.
pub(crate) const WRONG_SHARD: &str = "WrongShard";

/// A reply's byte form: 0 and the payload, or 1 and the refusal.
pub fn encode_reply<T: Encode>(reply: &Result<T, Refusal>) -> Bytes {
    let mut out = Writer::new();
    match reply {
        Ok(payload) => payload.encode(out.u8(0)),
        Err(refusal) => refusal.encode(out.u8(1)),
    }
    out.finish()
}

/// Whether a reply is a refusal: the command changed nothing.
pub fn is_refusal(reply: &[u8]) -> bool {
    reply.first() == Some(&1)
}

/// Whether a refusal is no answer to a request but a way on: what it is told is "later", or "not here (any more)". It is not
/// remembered, for the retry with the same id must be able to succeed, here or where the key has gone.
pub fn is_no_answer(reply: &[u8]) -> bool {
    is_retryable_refusal(reply) || [WRONG_PARTITION, WRONG_SHARD].iter().any(|code| is_code(reply, code))
}

/// Whether a reply is a refusal with this code: kind, then the code with its length before it.
fn is_code(reply: &[u8], code: &str) -> bool {
    let found = reply.get(3..3 + code.len());
    is_refusal(reply) && reply.get(2) == Some(&(code.len() as u8)) && found == Some(code.as_bytes())
}

/// Whether a reply is a refusal that the same request may get past later: it changed nothing.
pub fn is_retryable_refusal(reply: &[u8]) -> bool {
    let kind = reply.get(1).copied().and_then(ErrorKind::from_byte);
    is_refusal(reply) && kind.is_some_and(ErrorKind::retryable)
}

/// The counterpart of [`encode_reply`]; bytes that do not decode are an `Internal` refusal.
pub fn decode_reply<T: Encode>(reply: Bytes) -> Result<T, Refusal> {
    let mut input = Reader::new(reply);
    let decoded: Result<Result<T, Refusal>, DecodeError> = (|| {
        Ok(match input.u8("reply kind")? {
            0 => Ok(T::decode(&mut input)?),
            1 => Err(Refusal::decode(&mut input)?),
            _ => return Err(DecodeError::Unknown("reply kind")),
        })
    })();
    decoded.unwrap_or_else(|error| {
        Err(Refusal::new(ErrorKind::Internal, "Internal", format!("a backend's reply does not decode: {error}")))
    })
}
