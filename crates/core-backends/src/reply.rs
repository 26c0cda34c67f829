//! The byte form of replies, and what can be read off it without decoding.
//!
//! Always: bytes that do not decode are a refusal, never a panic (`table.rs`, fuzz targets `backend_*`).
//! Held by: `bytes_that_do_not_decode_are_refusals_everywhere`.
//! Not here: what backends reply (their own rooms).

use base_types::codec::{DecodeError, Encode, Reader, Writer};
use base_types::{ErrorCode, Refusal};
use bytes::Bytes;

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

/// Whether a reply is a refusal that is a way on and no answer ([`ErrorCode::is_redirect`]).
pub fn is_redirect(reply: &Bytes) -> bool {
    refusal_code(reply).is_some_and(ErrorCode::is_redirect)
}

/// Why a reply is a refusal; none where it is an answer, or does not decode.
fn refusal_code(reply: &Bytes) -> Option<ErrorCode> {
    // The message follows the code and stays unread.
    is_refusal(reply).then(|| ErrorCode::decode(&mut Reader::new(reply.slice(1..))).ok()).flatten()
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
        Err(Refusal::new(ErrorCode::Internal, format!("a backend's reply does not decode: {error}")))
    })
}
