//! The bytes between two nodes, inside TLS.
//!
//! ```text
//! message   length u32 LE (of what follows) │ kind u8 │ …
//!   1 hello     magic "HIVEPEER" │ version u16 │ world string │ incarnation u64 │ node u64 │ boot u64 │ lane u16 │ lanes u16 │ to u64
//!               │ level u16 │ level max u16
//!   2 welcome   version u16 │ node u64 │ boot u64 │ lanes u16
//!   3 refused   reason string │ incarnation u64 │ level u16
//!   4 frame     lane u16 │ bytes
//!   5 ping      –
//!   6 pong      –
//! ```
//!
//! Always: a length is checked against its bound before anything is kept for it, and memory grows with
//! the bytes that came, not with the length declared; no input panics.
//! Held by: `hostile_bytes_are_errors`, `what_is_sent_is_read_in_any_pieces`.

use base_types::codec::{DecodeError, Reader, Writer};
use base_types::{BootId, FormatLevel, LaneId, NodeId};
use bytes::{Buf, Bytes, BytesMut};

/// The version this build speaks.
pub const VERSION: u16 = 3;
/// The longest frame of the core, with room for the header.
pub const MESSAGE_BYTES_MAX: usize = core_node::frame::FRAME_BYTES_MAX + 16;
/// The longest message before the hello has been answered.
pub const HELLO_BYTES_MAX: usize = 1024;

const MAGIC: &[u8; 8] = b"HIVEPEER";
const KIND_HELLO: u8 = 1;
const KIND_WELCOME: u8 = 2;
const KIND_REFUSED: u8 = 3;
const KIND_FRAME: u8 = 4;
const KIND_PING: u8 = 5;
const KIND_PONG: u8 = 6;

/// Bytes in front of a frame: length, kind, lane.
pub const FRAME_HEADER_BYTES: usize = 7;

/// Who dials, and whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    pub world: String,
    /// Which life of the world its data is of.
    pub incarnation: u64,
    pub node: NodeId,
    pub boot: BootId,
    pub lane: LaneId,
    pub lane_count: u16,
    pub to: NodeId,
    /// The world's format level as this node knows it, and the greatest that its build serves.
    pub level: FormatLevel,
    pub level_max: FormatLevel,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    Hello(Hello),
    Welcome {
        node: NodeId,
        boot: BootId,
        lane_count: u16,
    },
    /// `incarnation`, `level`: the world's life and format level as this node knows them.
    Refused {
        reason: String,
        incarnation: u64,
        level: FormatLevel,
    },
    Frame {
        lane: LaneId,
        frame: Bytes,
    },
    Ping,
    Pong,
}

/// What stands in front of a frame.
pub fn frame_header(lane: LaneId, frame_bytes: usize) -> [u8; FRAME_HEADER_BYTES] {
    let length = (frame_bytes as u32 + 3).to_le_bytes();
    let lane = lane.0.to_le_bytes();
    [length[0], length[1], length[2], length[3], KIND_FRAME, lane[0], lane[1]]
}

/// A message's bytes.
pub fn encode(message: &Message) -> Vec<u8> {
    let mut out = Writer::new();
    match message {
        Message::Hello(hello) => {
            out.u8(KIND_HELLO).raw(MAGIC).u16(VERSION).string(&hello.world).u64(hello.incarnation);
            out.u64(hello.node.0).u64(hello.boot.0).u16(hello.lane.0).u16(hello.lane_count).u64(hello.to.0);
            out.u16(hello.level.0).u16(hello.level_max.0);
        }
        Message::Welcome { node, boot, lane_count } => {
            out.u8(KIND_WELCOME).u16(VERSION).u64(node.0).u64(boot.0).u16(*lane_count);
        }
        Message::Refused { reason, incarnation, level } => {
            out.u8(KIND_REFUSED).string(reason).u64(*incarnation).u16(level.0);
        }
        Message::Frame { lane, frame } => {
            out.u8(KIND_FRAME).u16(lane.0).raw(frame);
        }
        Message::Ping => {
            out.u8(KIND_PING);
        }
        Message::Pong => {
            out.u8(KIND_PONG);
        }
    }
    let body = out.into_vec();
    let mut message = (body.len() as u32).to_le_bytes().to_vec();
    message.extend_from_slice(&body);
    message
}

/// Takes the next whole message off `buffer`; `None` while it is not all there.
pub fn take(buffer: &mut BytesMut, bytes_max: usize) -> Result<Option<Message>, DecodeError> {
    let Some(header) = buffer.first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*header) as usize;
    if length == 0 || length > bytes_max {
        return Err(DecodeError::TooLarge("message length"));
    }
    let Some(body) = buffer.get(4..4 + length) else { return Ok(None) };
    // A copy of exactly this message: what the core keeps of it must not hold the whole buffer.
    let message = decode(body)?;
    buffer.advance(4 + length);
    Ok(Some(message))
}

fn decode(body: &[u8]) -> Result<Message, DecodeError> {
    let (kind, rest) = body.split_first().ok_or(DecodeError::Truncated("message kind"))?;
    if *kind == KIND_FRAME {
        let (lane, frame) = rest.split_first_chunk::<2>().ok_or(DecodeError::Truncated("lane"))?;
        return Ok(Message::Frame { lane: LaneId(u16::from_le_bytes(*lane)), frame: Bytes::copy_from_slice(frame) });
    }
    let mut input = Reader::new(Bytes::copy_from_slice(rest));
    let message = match *kind {
        KIND_HELLO => Message::Hello(decode_hello(&mut input)?),
        KIND_WELCOME => {
            version(&mut input)?;
            Message::Welcome {
                node: NodeId(input.u64("node")?),
                boot: BootId(input.u64("boot")?),
                lane_count: input.u16("lane count")?,
            }
        }
        KIND_REFUSED => Message::Refused {
            reason: input.string("reason")?,
            incarnation: input.u64("incarnation")?,
            level: FormatLevel(input.u16("format level")?),
        },
        KIND_PING => Message::Ping,
        KIND_PONG => Message::Pong,
        _ => return Err(DecodeError::Unknown("message kind")),
    };
    input.end()?;
    Ok(message)
}

fn version(input: &mut Reader) -> Result<(), DecodeError> {
    match input.u16("version")? {
        VERSION => Ok(()),
        other => Err(DecodeError::version("handshake of peers", other, VERSION)),
    }
}

fn decode_hello(input: &mut Reader) -> Result<Hello, DecodeError> {
    for byte in MAGIC {
        if input.u8("magic")? != *byte {
            return Err(DecodeError::Unknown("magic"));
        }
    }
    version(input)?;
    Ok(Hello {
        world: input.string("world")?,
        incarnation: input.u64("incarnation")?,
        node: NodeId(input.u64("node")?),
        boot: BootId(input.u64("boot")?),
        lane: LaneId(input.u16("lane")?),
        lane_count: input.u16("lane count")?,
        to: NodeId(input.u64("to")?),
        level: FormatLevel(input.u16("format level")?),
        level_max: FormatLevel(input.u16("greatest format level")?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_read_in_any_pieces() {
        let hello = Hello {
            world: "dev".into(),
            incarnation: 7,
            node: NodeId(1),
            boot: BootId(9),
            lane: LaneId(2),
            lane_count: 4,
            to: NodeId(3),
            level: FormatLevel(1),
            level_max: FormatLevel(2),
        };
        let messages = [
            Message::Hello(hello),
            Message::Welcome { node: NodeId(3), boot: BootId(8), lane_count: 1 },
            Message::Refused { reason: "no".into(), incarnation: 8, level: FormatLevel(3) },
            Message::Frame { lane: LaneId(513), frame: Bytes::from_static(b"abc") },
            Message::Ping,
            Message::Pong,
        ];
        let all: Vec<u8> = messages.iter().flat_map(encode).collect();
        let mut buffer = BytesMut::new();
        let mut read = Vec::new();
        for byte in all {
            buffer.extend_from_slice(&[byte]);
            while let Some(message) = take(&mut buffer, HELLO_BYTES_MAX).unwrap() {
                read.push(message);
            }
        }
        assert_eq!(read, messages);
        let frame = encode(&messages[3]);
        assert_eq!(frame[..FRAME_HEADER_BYTES], frame_header(LaneId(513), 3));
    }

    #[test]
    fn hostile_bytes_are_errors() {
        for bytes in [
            &[0, 0, 0, 0][..],
            &[255, 255, 255, 255, 4],
            &[1, 0, 0, 0, 4],
            &[1, 0, 0, 0, 99],
            &[2, 0, 0, 0, 5, 5],
            &[9, 0, 0, 0, 1, b'H', b'I', 0, 0, 0, 0, 0, 0],
        ] {
            assert!(take(&mut BytesMut::from(bytes), HELLO_BYTES_MAX).is_err(), "{bytes:?}");
        }
    }
}
