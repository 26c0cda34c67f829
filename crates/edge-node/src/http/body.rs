//! A request's body, whole, within its bounds.
//!
//! Always: a length that is declared too long is refused before a byte of it is read; without one, or
//! with a false one, no more than the limit is ever kept.

use base_types::{ErrorKind, Refusal};
use bytes::{Bytes, BytesMut};
use door_http::HttpError;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use std::time::Duration;

/// Room taken for a body of several pieces before its bytes have come.
const ROOM_AT_FIRST: usize = 16 << 10;

/// Reads it; after an error the connection must be closed, for there may be more to come.
pub async fn read(body: Incoming, bytes_max: usize, time: Duration) -> Result<Bytes, HttpError> {
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(too_large(bytes_max));
    }
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    match tokio::time::timeout(time, collect(body, bytes_max)).await {
        Ok(result) => result,
        Err(_) => {
            let message = format!("the body did not come within {} ms", time.as_millis());
            Err(HttpError::with_status(408, Refusal::invalid("Malformed", message)))
        }
    }
}

async fn collect(mut body: Incoming, bytes_max: usize) -> Result<Bytes, HttpError> {
    let mut first: Option<Bytes> = None;
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            HttpError::new(Refusal::invalid("Malformed", format!("the body cannot be read: {error}")))
        })?;
        let Ok(data) = frame.into_data() else { continue };
        let so_far = first.as_ref().map_or(whole.len(), Bytes::len);
        if so_far + data.len() > bytes_max {
            return Err(too_large(bytes_max));
        }
        // A body that comes in one piece, as most do, is not copied.
        match first.take() {
            None if whole.is_empty() => first = Some(data),
            None => whole.extend_from_slice(&data),
            Some(piece) => {
                whole.reserve(ROOM_AT_FIRST.max(piece.len() + data.len()));
                whole.extend_from_slice(&piece);
                whole.extend_from_slice(&data);
            }
        }
    }
    Ok(first.unwrap_or_else(|| whole.freeze()))
}

fn too_large(bytes_max: usize) -> HttpError {
    let message = format!("the body is longer than {bytes_max} bytes; send less, or raise limits.body_bytes_max");
    HttpError::new(Refusal::new(ErrorKind::TooLarge, "BodyTooLarge", message))
}
