//! Bitmaps: strings of which the bits are numbered, the highest bit of the first byte first.
//!
//! Always: a string grows to [`VALUE_BYTES_MAX`] at most, and BITOP reads [`STRINGS_BYTES_MAX`] at most.
//! Held by: `bitmaps_are_bounded`.
//! By design: a bit that is only read may lie beyond what a string can have, as far as in Redis ([`READ_BYTES_MAX`]): it is 0.
//! Not here: integers of several bits (`bits/field.rs`).

pub(super) mod field;

use super::numbers::{integer_of, parse_integer};
use super::store::{Kind, Store, View};
use super::strings::{count_bytes, edit, put, STRINGS_BYTES_MAX};
use super::table::{read, write, Entry};
use super::{fail, integer, Done, Fail, Reply, SYNTAX};
use base_types::VALUE_BYTES_MAX;
use bytes::Bytes;

/// What this file answers.
pub(super) const COMMANDS: &[Entry] = &[
    write("setbit", setbit),
    read("getbit", getbit),
    read("bitcount", bitcount),
    read("bitpos", bitpos),
    write("bitop", bitop),
];

/// Bits that are read lie within so many bytes: as many as a string of Redis can have.
const READ_BYTES_MAX: usize = 512 << 20;

const BAD_OFFSET: &str = "ERR bit offset is not an integer or out of range";

/// The number of a bit within the first `bytes_max` bytes.
fn offset_of(word: &[u8], bytes_max: usize) -> Result<usize, Fail> {
    let offset = integer_of(word).and_then(|offset| usize::try_from(offset).ok());
    match offset {
        Some(offset) if offset / 8 < bytes_max => Ok(offset),
        _ => fail(BAD_OFFSET),
    }
}

/// The bit with this number alone, in its byte.
const fn mask_of(offset: usize) -> u8 {
    0x80 >> (offset % 8)
}

fn is_set(value: &[u8], offset: usize) -> bool {
    value.get(offset / 8).is_some_and(|byte| byte & mask_of(offset) != 0)
}

fn setbit(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let offset = offset_of(&argv[2], VALUE_BYTES_MAX)?;
    let on = match &argv[3][..] {
        b"0" => false,
        b"1" => true,
        _ => return fail("ERR bit is not an integer or out of range"),
    };
    let old = store.find_kind(&argv[1], Kind::String)?;
    let known = old.as_ref().map_or(Bytes::new(), |meta| meta.value.clone());
    let was = is_set(&known, offset);
    if was != on || offset / 8 >= known.len() {
        let mut value = grown(&known, offset / 8 + 1);
        if let Some(byte) = value.get_mut(offset / 8) {
            *byte = if on { *byte | mask_of(offset) } else { *byte & !mask_of(offset) };
        }
        edit(store, &argv[1], old, value.into());
    }
    count_bytes(&store.moment, known.len().max(offset / 8));
    Ok(integer(was.into()))
}

/// A string of at least so many bytes, the new ones zero.
fn grown(value: &[u8], bytes: usize) -> Vec<u8> {
    let mut grown = Vec::with_capacity(bytes.max(value.len()));
    grown.extend_from_slice(value);
    if grown.len() < bytes {
        grown.resize(bytes, 0);
    }
    grown
}

fn getbit(view: &View<'_>, argv: &[Bytes]) -> Done {
    let offset = offset_of(&argv[2], READ_BYTES_MAX)?;
    let value = view.find_kind(&argv[1], Kind::String)?.map_or(Bytes::new(), |meta| meta.value);
    Ok(integer(is_set(&value, offset).into()))
}

/// Bits from one to another, both included.
#[derive(Clone, Copy)]
struct Bits {
    first: usize,
    last: usize,
}

impl Bits {
    /// All of a string that has some.
    fn all(value: &[u8]) -> Option<Bits> {
        Some(Bits { first: 0, last: (value.len() * 8).checked_sub(1)? })
    }

    /// As words say it: negative counts from the end, and an end before the first byte or bit is that one. `None`: empty.
    fn of(value: &[u8], start: i64, end: i64, by_bit: bool) -> Option<Bits> {
        let unit = if by_bit { 1 } else { 8 };
        let total = i64::try_from(value.len() * 8 / unit).ok()?;
        let from_end = |at: i64| if at < 0 { at.saturating_add(total).max(0) } else { at };
        let (start, end) = (from_end(start), from_end(end).min(total - 1));
        let (start, end) = (usize::try_from(start).ok()?, usize::try_from(end).ok()?);
        (start <= end).then_some(Bits { first: start * unit, last: end * unit + unit - 1 })
    }

    /// Each byte that has some of the bits: its number, the byte, and a mask of those bits.
    fn bytes<'v>(self, value: &'v [u8]) -> impl Iterator<Item = (usize, u8, u8)> + use<'v> {
        let (first, last) = (self.first / 8, self.last / 8);
        let (head, tail) = (0xff >> (self.first % 8), 0xff << (7 - self.last % 8));
        value.iter().enumerate().take(last + 1).skip(first).map(move |(at, byte)| {
            let mask = if at == first { head } else { 0xff } & if at == last { tail } else { 0xff };
            (at, *byte, mask)
        })
    }

    fn count(self, value: &[u8]) -> usize {
        self.bytes(value).map(|(_, byte, mask)| (byte & mask).count_ones() as usize).sum()
    }

    /// The number of the first bit that is as wanted.
    fn find(self, value: &[u8], wanted: bool) -> Option<usize> {
        let flip = if wanted { 0 } else { 0xff };
        let first = |(at, byte, mask): (usize, u8, u8)| {
            let sought = (byte ^ flip) & mask;
            (sought != 0).then(|| at * 8 + sought.leading_zeros() as usize)
        };
        self.bytes(value).find_map(first)
    }
}

/// BYTE or BIT.
fn is_by_bit(word: &[u8]) -> Result<bool, Fail> {
    match &word.to_ascii_uppercase()[..] {
        b"BIT" => Ok(true),
        b"BYTE" => Ok(false),
        _ => fail(SYNTAX),
    }
}

fn bitcount(view: &View<'_>, argv: &[Bytes]) -> Done {
    // As in Redis: of a key that is not there no word is looked at.
    let Some(meta) = view.find_kind(&argv[1], Kind::String)? else { return Ok(integer(0)) };
    let bits = match &argv[2..] {
        [] => Bits::all(&meta.value),
        [start, end, unit @ ..] if unit.len() < 2 => {
            let (start, end) = (parse_integer(start)?, parse_integer(end)?);
            if start < 0 && end < 0 && start > end {
                return Ok(integer(0));
            }
            let by_bit = unit.first().map_or(Ok(false), |unit| is_by_bit(unit))?;
            Bits::of(&meta.value, start, end, by_bit)
        }
        _ => return fail(SYNTAX),
    };
    count_bytes(&view.moment, meta.value.len());
    Ok(integer(bits.map_or(0, |bits| bits.count(&meta.value))))
}

fn bitpos(view: &View<'_>, argv: &[Bytes]) -> Done {
    let wanted = match parse_integer(&argv[2])? {
        0 => false,
        1 => true,
        _ => return fail("ERR The bit argument must be 1 or 0."),
    };
    // As in Redis: a key that is not there is zeros without an end, whatever the other words say.
    let Some(meta) = view.find_kind(&argv[1], Kind::String)? else {
        return Ok(Reply::Integer(if wanted { -1 } else { 0 }));
    };
    let (bits, ended) = match &argv[3..] {
        [] => (Bits::all(&meta.value), false),
        [start] => (Bits::of(&meta.value, parse_integer(start)?, -1, false), false),
        [start, end, unit @ ..] if unit.len() < 2 => {
            let start = parse_integer(start)?;
            let by_bit = unit.first().map_or(Ok(false), |unit| is_by_bit(unit))?;
            (Bits::of(&meta.value, start, parse_integer(end)?, by_bit), true)
        }
        _ => return fail(SYNTAX),
    };
    count_bytes(&view.moment, meta.value.len());
    let Some(bits) = bits else { return Ok(Reply::Integer(-1)) };
    Ok(match bits.find(&meta.value, wanted) {
        Some(at) => integer(at),
        // Without an end, what follows a string is zeros.
        None if !wanted && !ended => integer(meta.value.len() * 8),
        None => Reply::Integer(-1),
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    And,
    Or,
    Xor,
    Not,
}

fn bitop(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let how = match &argv[1].to_ascii_uppercase()[..] {
        b"AND" => How::And,
        b"OR" => How::Or,
        b"XOR" => How::Xor,
        b"NOT" => How::Not,
        _ => return fail(SYNTAX),
    };
    let keys = &argv[3..];
    if how == How::Not && keys.len() != 1 {
        return fail("ERR BITOP NOT must be called with a single source key.");
    }
    let (mut sources, mut bytes) = (Vec::with_capacity(keys.len()), 0);
    for key in keys {
        let value = store.find_kind(key, Kind::String)?.map_or(Bytes::new(), |meta| meta.value);
        bytes += value.len();
        if bytes > STRINGS_BYTES_MAX {
            return fail(format!("ERR BITOP reads at most {STRINGS_BYTES_MAX} bytes of strings; name fewer keys"));
        }
        sources.push(value);
    }
    count_bytes(&store.moment, bytes);
    let result = combine(how, &sources);
    let old = store.find(&argv[2])?;
    let length = result.len();
    match old {
        Some(old) if length == 0 => store.remove(&argv[2], &old),
        None if length == 0 => {}
        old => put(store, &argv[2], old, result.into(), 0),
    }
    Ok(integer(length))
}

/// As long as the longest; the others are followed by zeros.
fn combine(how: How, sources: &[Bytes]) -> Vec<u8> {
    let length = sources.iter().map(Bytes::len).max().unwrap_or(0);
    let mut result = sources.first().map_or(Vec::new(), |first| grown(first, length));
    if how == How::Not {
        result.iter_mut().for_each(|byte| *byte = !*byte);
    }
    for other in sources.iter().skip(1) {
        let (both, beyond) = result.split_at_mut(other.len());
        for (byte, other) in both.iter_mut().zip(other) {
            match how {
                How::And => *byte &= other,
                How::Or => *byte |= other,
                How::Xor | How::Not => *byte ^= other,
            }
        }
        if how == How::And {
            beyond.fill(0);
        }
    }
    result
}
