//! Publish and subscribe: what was published last, in the order of the log.
//!
//! ```text
//! P            the ring: number of the first message kept, of the last, their bytes
//! p number     a message: on a sharded channel or not, channel, text
//! ```
//!
//! Always: the ring keeps at most `CHANNEL_MESSAGES_MAX` messages and `CHANNEL_BYTES_MAX` bytes of them, the last ones, numbered without a gap.
//! Held by: `channels_keep_the_last_messages`.
//! By design: a message is an entry of the log, so it survives a change of leaders, and each node reads all messages in one order. They are
//! of the whole space, as in Redis, and neither FLUSHALL nor SWAPDB touches them. Who reads too late learns that messages are lost.
//! Not here: who subscribed to what, and how many got a message: the door knows and adds them up.

use super::store::Store;
use super::table::{write, Entry};
use super::{integer, Done};
use crate::contract::{corrupt_row, SpaceRead};
use crate::rows::{key as row_key, key_number};
use base_engine::{Direction, EngineError, KeyRange};
use base_types::codec::{DecodeError, Reader, Writer};
use base_types::redis::{RedisAnswer, RedisMessage};
use bytes::Bytes;
use std::ops::ControlFlow;

/// Messages that are kept at most.
pub const CHANNEL_MESSAGES_MAX: u64 = 4_096;
/// Bytes of channels and texts that are kept at most. Longer than the longest message.
pub const CHANNEL_BYTES_MAX: u64 = 4 << 20;
/// Where an answer with messages ends: the rest is asked for next.
const PAGE_BYTES: usize = 1 << 20;

const RING: u8 = b'P';
const MESSAGE: u8 = b'p';

/// What these commands are.
pub(super) const COMMANDS: &[Entry] = &[write("publish", publish), write("spublish", spublish)];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Ring {
    first: u64,
    last: u64,
    bytes: u64,
}

impl Ring {
    fn read(space: &dyn SpaceRead) -> Result<Ring, EngineError> {
        let Some(row) = space.get(&[RING])? else { return Ok(Ring { first: 1, last: 0, bytes: 0 }) };
        let mut input = Reader::new(row);
        let decoded = (|| {
            let ring = Ring { first: input.u64("first")?, last: input.u64("last")?, bytes: input.u64("bytes")? };
            input.end()?;
            Ok(ring)
        })();
        decoded.map_err(|error: DecodeError| corrupt_row("redis messages", error))
    }

    fn row(&self) -> Bytes {
        let mut out = Writer::with_capacity(24);
        out.u64(self.first).u64(self.last).u64(self.bytes);
        out.finish()
    }

    fn len(&self) -> u64 {
        (self.last + 1).saturating_sub(self.first)
    }
}

fn message_row(number: u64) -> Bytes {
    row_key(MESSAGE, &[&number.to_be_bytes()])
}

pub(super) fn publish(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    append(store, argv, false)
}

pub(super) fn spublish(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    append(store, argv, true)
}

fn append(store: &mut Store<'_>, argv: &[Bytes], sharded: bool) -> Done {
    let (channel, message) = (&argv[1], &argv[2]);
    let mut ring = Ring::read(&*store.space)?;
    // 2^64 messages are out of reach.
    ring.last += 1;
    ring.bytes += size(channel, message);
    let mut out = Writer::with_capacity(8 + channel.len() + message.len());
    out.bool(sharded).bytes(channel).raw(message);
    store.space.put(message_row(ring.last), out.finish());
    while ring.len() > CHANNEL_MESSAGES_MAX || ring.bytes > CHANNEL_BYTES_MAX {
        let row = message_row(ring.first);
        let Some(oldest) = store.space.get(&row)? else {
            return Err(EngineError::Corrupt(format!("redis message {} is not there", ring.first)).into());
        };
        let oldest = decode(ring.first, oldest)?;
        store.space.delete(row);
        ring.first += 1;
        ring.bytes = ring.bytes.saturating_sub(size(&oldest.channel, &oldest.message));
    }
    store.space.put(row_key(RING, &[]), ring.row());
    Ok(integer(0))
}

fn size(channel: &Bytes, message: &Bytes) -> u64 {
    (channel.len() + message.len()) as u64
}

fn decode(number: u64, row: Bytes) -> Result<RedisMessage, EngineError> {
    let mut input = Reader::new(row);
    let decoded = (|| {
        let (sharded, channel) = (input.bool("sharded")?, input.bytes("channel")?);
        Ok(RedisMessage { number, sharded, channel, message: input.rest() })
    })();
    decoded.map_err(|error: DecodeError| corrupt_row("redis message", error))
}

/// The messages after a number, the first that fit; `u64::MAX`: none, but where the end is.
pub(super) fn messages(space: &dyn SpaceRead, after: u64) -> Result<RedisAnswer, EngineError> {
    let ring = Ring::read(space)?;
    let (mut messages, mut bytes, mut damage) = (Vec::new(), 0, None);
    // A member that is behind may be asked about what it does not have yet: it waits.
    if after < ring.last {
        let (from, to) = (message_row(ring.first.max(after + 1)), row_key(MESSAGE + 1, &[]));
        space.range(KeyRange { start: &from, end: Some(&to) }, Direction::Forward, &mut |key, row| {
            let decoded = key_number(key, 1).and_then(|number| decode(number, Bytes::copy_from_slice(row)));
            match decoded {
                Ok(message) => messages.push(message),
                Err(error) => damage = Some(error),
            }
            bytes += row.len();
            if damage.is_none() && bytes < PAGE_BYTES {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
    }
    let lost = after < ring.last && after + 1 < ring.first;
    damage.map_or(Ok(RedisAnswer::Messages { messages, reached: ring.last, lost }), Err)
}

#[cfg(test)]
mod tests;
