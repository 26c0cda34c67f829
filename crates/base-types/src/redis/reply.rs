//! A reply of Redis, in the kinds of RESP3. The door flattens them for clients that speak RESP2.
//!
//! By design: arrays nest at most [`REDIS_REPLY_DEPTH_MAX`] deep, which the decoder checks before it descends.

use crate::codec::{DecodeError, Encode, Reader, Writer};
use crate::wire_encode;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;

/// How deep arrays lie in each other at most (`XINFO STREAM FULL`).
pub const REDIS_REPLY_DEPTH_MAX: usize = 12;

/// A reply.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum RedisReply {
    Ok,
    /// RESP2: a null bulk string. RESP3: null.
    Nil,
    Integer(i64),
    Bulk(Bytes),
    Array(Vec<RedisReply>),
    /// An error of Redis's own kind, for example `WRONGTYPE …`; the command had no effect.
    Error(String),
    /// A simple string other than OK, for example the answer of TYPE.
    Status(String),
    /// RESP2: a null array (`*-1`). RESP3: null.
    NilArray,
    /// A score or a distance, in the text that RESP2 gives as a bulk string. RESP3: a double.
    Double(Bytes),
    /// RESP2: one flat array. RESP3: a map.
    Map(Vec<(RedisReply, RedisReply)>),
    /// RESP2: an array. RESP3: a set.
    Set(Vec<RedisReply>),
    /// Members with scores, fields with values. RESP2: one flat array. RESP3: an array of arrays of two.
    Pairs(Vec<(RedisReply, RedisReply)>),
    /// What XREAD gives. RESP2: an array of arrays of two. RESP3: a map.
    Streams(Vec<(RedisReply, RedisReply)>),
}

impl RedisReply {
    /// What stands for it where a script's commands are compared with what the script saw.
    pub fn digest(&self) -> u64 {
        xxhash_rust::xxh3::xxh3_64(&self.to_bytes())
    }
}

fn pairs(out: &mut Writer, tag: u8, pairs: &[(RedisReply, RedisReply)]) {
    out.u8(tag).varint(pairs.len() as u64);
    for (left, right) in pairs {
        left.encode(out);
        right.encode(out);
    }
}

impl Encode for RedisReply {
    fn encode(&self, out: &mut Writer) {
        let list = |out: &mut Writer, tag, items: &[RedisReply]| {
            out.u8(tag).varint(items.len() as u64);
            items.iter().for_each(|item| item.encode(out));
        };
        match self {
            RedisReply::Ok => drop(out.u8(1)),
            RedisReply::Nil => drop(out.u8(2)),
            RedisReply::Integer(value) => drop(out.u8(3).u64(*value as u64)),
            RedisReply::Bulk(value) => drop(out.u8(4).bytes(value)),
            RedisReply::Array(items) => list(out, 5, items),
            RedisReply::Error(text) => drop(out.u8(6).string(text)),
            RedisReply::Status(text) => drop(out.u8(7).string(text)),
            RedisReply::NilArray => drop(out.u8(8)),
            RedisReply::Double(text) => drop(out.u8(9).bytes(text)),
            RedisReply::Map(items) => pairs(out, 10, items),
            RedisReply::Set(items) => list(out, 11, items),
            RedisReply::Pairs(items) => pairs(out, 12, items),
            RedisReply::Streams(items) => pairs(out, 13, items),
        }
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        decode_at(input, REDIS_REPLY_DEPTH_MAX)
    }
}

wire_encode!(RedisReply);

fn decode_at(input: &mut Reader, depth: usize) -> Result<RedisReply, DecodeError> {
    let tag = input.u8("redis reply")?;
    if depth == 0 && matches!(tag, 5 | 10..=13) {
        return Err(DecodeError::TooLarge("depth of a redis reply"));
    }
    Ok(match tag {
        1 => RedisReply::Ok,
        2 => RedisReply::Nil,
        3 => RedisReply::Integer(input.u64("redis integer")? as i64),
        4 => RedisReply::Bulk(input.bytes("redis bulk")?),
        5 => RedisReply::Array(decode_list(input, depth)?),
        6 => RedisReply::Error(input.string("redis error")?),
        7 => RedisReply::Status(input.string("redis status")?),
        8 => RedisReply::NilArray,
        9 => RedisReply::Double(input.bytes("redis double")?),
        10 => RedisReply::Map(decode_pairs(input, depth)?),
        11 => RedisReply::Set(decode_list(input, depth)?),
        12 => RedisReply::Pairs(decode_pairs(input, depth)?),
        13 => RedisReply::Streams(decode_pairs(input, depth)?),
        _ => return Err(DecodeError::Unknown("redis reply")),
    })
}

fn decode_list(input: &mut Reader, depth: usize) -> Result<Vec<RedisReply>, DecodeError> {
    let count = input.count("redis array")?;
    (0..count).map(|_| decode_at(input, depth - 1)).collect()
}

fn decode_pairs(input: &mut Reader, depth: usize) -> Result<Vec<(RedisReply, RedisReply)>, DecodeError> {
    let count = input.count("redis pairs")?;
    (0..count).map(|_| Ok((decode_at(input, depth - 1)?, decode_at(input, depth - 1)?))).collect()
}
