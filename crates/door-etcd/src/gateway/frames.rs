//! Messages of gRPC in a body: a flag, a length, the bytes.
//!
//! By design: bodies come from this crate's own services, so their lengths are bounded where they were encoded.
//! Not here: what messages are.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http_body_util::{BodyExt, StreamBody};
use std::convert::Infallible;
use tonic::body::Body;
use tonic::{Code, Status};

/// The flag and length before a message.
const HEAD_BYTES: usize = 5;

/// A request's body of messages; `open`: it does not end.
pub(super) fn framed(messages: Vec<Bytes>, open: bool) -> Body {
    use futures::StreamExt;
    let frames = futures::stream::iter(messages).map(|message| {
        let mut frame = BytesMut::with_capacity(HEAD_BYTES + message.len());
        frame.put_u8(0);
        // A request's message is far below 4 GiB: its JSON was bounded.
        frame.put_u32(message.len() as u32);
        frame.put(message);
        Ok::<_, Infallible>(http_body::Frame::data(frame.freeze()))
    });
    if open {
        Body::new(StreamBody::new(frames.chain(futures::stream::pending())))
    } else {
        Body::new(StreamBody::new(frames))
    }
}

/// The messages of an answer's body, one after the other.
pub(super) struct Frames {
    body: Body,
    read: BytesMut,
}

impl Frames {
    pub fn new(body: Body) -> Frames {
        Frames { body, read: BytesMut::new() }
    }

    /// The next message; none at the end; the status, where it is not good.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        loop {
            if let Some(message) = self.take() {
                return Ok(Some(message));
            }
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            match frame?.into_data() {
                Ok(data) => self.read.extend_from_slice(&data),
                Err(frame) => {
                    let status = frame.trailers_ref().and_then(Status::from_header_map);
                    if let Some(status) = status.filter(|status| status.code() != Code::Ok) {
                        return Err(status);
                    }
                }
            }
        }
    }

    fn take(&mut self) -> Option<Bytes> {
        let length = self.read.get(1..HEAD_BYTES)?.get_u32() as usize;
        if self.read.len() < HEAD_BYTES + length {
            return None;
        }
        self.read.advance(HEAD_BYTES);
        Some(self.read.split_to(length).freeze())
    }
}
