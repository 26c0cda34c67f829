//! A request's body, whole, within its bounds.
//!
//! Always: no more than the limit is ever kept, whatever length was declared, and of bodies that are not whole yet no more than the
//! node's bound for all of them. What is a little too long is read to its end
//! and dropped, within bounds: most clients read no answer before they have sent all. What is far too long is
//! refused before a byte of it is read.
//! Held by: `bodies_are_bounded_before_they_are_read`, `unfinished_requests_are_bounded_together`.

use crate::clients::HeldBytes;
use base_types::{ErrorCode, Refusal};
use bytes::{Bytes, BytesMut};
use door_http::HttpError;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use std::time::Duration;

/// Room taken for a body of several pieces before its bytes have come.
const ROOM_AT_FIRST: usize = 16 << 10;

/// So much of a body that is refused is read and dropped…
const DROPPED_BYTES_MAX: u64 = 16 << 20;
/// …for so long.
const DROPPED_TIME: Duration = Duration::from_secs(2);

/// Reads it; after an error the connection must be closed, for there may be more to come.
pub async fn read(
    mut body: Incoming,
    bytes_max: usize,
    time: Duration,
    held: Option<HeldBytes>,
) -> Result<Bytes, HttpError> {
    let declared = body.size_hint().lower();
    if declared > bytes_max as u64 {
        if declared <= DROPPED_BYTES_MAX {
            drop_rest(&mut body).await;
        }
        return Err(too_large(bytes_max));
    }
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    match tokio::time::timeout(time, collect(body, bytes_max, held)).await {
        Ok(result) => result,
        Err(_) => {
            let message = format!("the body did not come within {} ms; send it faster, or in parts", time.as_millis());
            Err(HttpError::with_status(408, Refusal::new(ErrorCode::Malformed, message)))
        }
    }
}

async fn collect(mut body: Incoming, bytes_max: usize, mut held: Option<HeldBytes>) -> Result<Bytes, HttpError> {
    let mut first: Option<Bytes> = None;
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            HttpError::new(Refusal::new(
                ErrorCode::Malformed,
                format!("the body cannot be read ({error}); send the request again"),
            ))
        })?;
        let Ok(data) = frame.into_data() else { continue };
        let so_far = first.as_ref().map_or(whole.len(), Bytes::len);
        if so_far + data.len() > bytes_max {
            drop((first, whole));
            drop_rest(&mut body).await;
            return Err(too_large(bytes_max));
        }
        // What the last piece completes is not unfinished any more.
        if !body.is_end_stream() && held.as_mut().is_some_and(|held| !held.grow(data.len())) {
            drop((first, whole, held));
            drop_rest(&mut body).await;
            return Err(no_room());
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

/// Reads what comes of the body of a request that is refused, within bounds, and keeps none of it.
pub async fn discard(mut body: Incoming) {
    if body.size_hint().lower() <= DROPPED_BYTES_MAX {
        drop_rest(&mut body).await;
    }
}

/// Reads what is still to come, and keeps none of it.
async fn drop_rest(body: &mut Incoming) {
    let mut dropped = 0;
    let rest = async {
        while let Some(Ok(frame)) = body.frame().await {
            dropped += frame.data_ref().map_or(0, |data| data.len() as u64);
            if dropped > DROPPED_BYTES_MAX {
                break;
            }
        }
    };
    let _at_its_end_or_not = tokio::time::timeout(DROPPED_TIME, rest).await;
}

fn no_room() -> HttpError {
    let message = "unfinished requests take all of limits.unfinished_bytes_max, or one address its three quarters; retry later, or raise it";
    HttpError::new(Refusal::new(ErrorCode::Overloaded, message))
}

fn too_large(bytes_max: usize) -> HttpError {
    let message = format!("the body is longer than {bytes_max} bytes; send less, or raise limits.body_bytes_max");
    HttpError::new(Refusal::new(ErrorCode::BodyTooLarge, message))
}
