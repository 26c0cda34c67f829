//! The worked example of docs/contributing/backend.md: a backend that keeps the greatest number that it was offered.
//!
//! Always: the state is one row of the space; the same commands give the same row on every member.
//! Held by: `members_that_apply_alike_hold_alike`.
//! Not here: a place in the table (`table.rs`), so no cluster can have this backend; commands that only some clients may give.

use crate::contract::{corrupt_row, decode, ApplyContext, Backend, SpaceRead, SpaceWrite};
use crate::reply::{decode_reply, encode_reply, is_refusal};
use crate::testing::MapSpace;
use base_engine::EngineError;
use base_types::codec::{DecodeError, Encode, Reader, Writer};
use base_types::{Generation, LogIndex, Refusal};
use bytes::Bytes;

/// The one row.
const ROW: &[u8] = b"greatest";

/// A number: an offer (as a command), what is kept (as a row), the answer (as a reply).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Number(u64);

impl Encode for Number {
    fn encode(&self, out: &mut Writer) {
        out.u64(self.0);
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Number(input.u64("number")?))
    }
}

struct Greatest;

/// The row. A row that does not decode is damage of the engine, not a mistake of the client.
fn kept(space: &dyn SpaceRead) -> Result<Number, EngineError> {
    let Some(row) = space.get(ROW)? else { return Ok(Number(0)) };
    Number::from_bytes(row).map_err(|error| corrupt_row("the greatest number", error))
}

impl Backend for Greatest {
    /// Before the log: what this refuses never becomes an entry.
    fn validate(&self, command: &Bytes) -> Result<(), Refusal> {
        decode::<Number>("offer", command).map(drop)
    }

    /// After commit, on every member: no clock, no randomness, and the same answer to the same bytes.
    fn apply(&self, _at: ApplyContext, space: &mut dyn SpaceWrite, command: &Bytes) -> Result<Bytes, EngineError> {
        let reply = match decode::<Number>("offer", command) {
            Err(refusal) => Err(refusal),
            Ok(offer) => {
                let greatest = Number(offer.0.max(kept(space)?.0));
                space.put(Bytes::from_static(ROW), greatest.to_bytes());
                Ok(greatest)
            }
        };
        Ok(encode_reply(&reply))
    }

    /// A read; an empty query, for there is one thing to ask.
    fn query(&self, _cluster_time_ms: u64, space: &dyn SpaceRead, _query: &Bytes) -> Result<Bytes, EngineError> {
        Ok(encode_reply(&Ok(kept(space)?)))
    }
}

fn at(index: u64) -> ApplyContext {
    ApplyContext { life: Generation(1), index: LogIndex(index), position: 0, cluster_time_ms: 0 }
}

#[test]
fn members_that_apply_alike_hold_alike() {
    let (mut one, mut other) = (MapSpace::default(), MapSpace::default());
    for (index, (offer, greatest)) in [(3, 3), (9, 9), (4, 9)].into_iter().enumerate() {
        let command = Number(offer).to_bytes();
        assert_eq!(Greatest.validate(&command), Ok(()));
        let replies = [&mut one, &mut other].map(|space| Greatest.apply(at(index as u64), space, &command).unwrap());
        assert_eq!(replies.map(decode_reply), [Ok(Number(greatest)), Ok(Number(greatest))]);
    }
    assert_eq!(one, other);
    assert_eq!(decode_reply(Greatest.query(0, &one, &Bytes::new()).unwrap()), Ok(Number(9)));
}

#[test]
fn bad_bytes_are_refused_and_change_nothing() {
    for bytes in [&b""[..], b"short", b"longer than a number"] {
        let command = Bytes::from_static(bytes);
        let mut space = MapSpace::default();
        assert!(Greatest.validate(&command).is_err(), "{command:?}");
        assert!(is_refusal(&Greatest.apply(at(1), &mut space, &command).unwrap()), "{command:?}");
        assert_eq!(space, MapSpace::default());
    }
}
