//! BITFIELD: integers of 1 to 64 bits anywhere in a string, the highest bit first.
//!
//! Always: an integer that is read or stored is within what its type can have.
//! Held by: `integers_in_strings_keep_their_range`.
//! By design: numbers are reckoned in 128 bits, where nothing overflows, and then brought into the type's range.

use super::super::numbers::{integer_of, parse_integer};
use super::super::store::{Kind, Store, View};
use super::super::strings::{count_bytes, edit};
use super::super::table::{read, write, Entry};
use super::super::{fail, Done, Fail, Reply, SYNTAX};
use super::{grown, is_set, mask_of, BAD_OFFSET, READ_BYTES_MAX};
use base_types::VALUE_BYTES_MAX;
use bytes::Bytes;

/// What this file answers.
pub(in super::super) const COMMANDS: &[Entry] = &[write("bitfield", bitfield), read("bitfield_ro", bitfield_ro)];

const BAD_TYPE: &str =
    "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.";

/// What becomes of a number that its type cannot have.
#[derive(Clone, Copy)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

/// `i16`, `u8`.
#[derive(Clone, Copy)]
struct Type {
    signed: bool,
    bits: usize,
}

impl Type {
    fn parse(word: &[u8]) -> Result<Type, Fail> {
        let (signed, bits_max, digits) = match word {
            [b'i', digits @ ..] => (true, 64, digits),
            [b'u', digits @ ..] => (false, 63, digits),
            _ => return fail(BAD_TYPE),
        };
        match integer_of(digits).and_then(|bits| usize::try_from(bits).ok()) {
            Some(bits) if (1..=bits_max).contains(&bits) => Ok(Type { signed, bits }),
            _ => fail(BAD_TYPE),
        }
    }

    fn least(self) -> i128 {
        if self.signed {
            -(1 << (self.bits - 1))
        } else {
            0
        }
    }

    fn greatest(self) -> i128 {
        self.least() + (1 << self.bits) - 1
    }

    /// The number with these lowest bits.
    fn wrap(self, value: i128) -> i128 {
        let low = value & ((1 << self.bits) - 1);
        if low > self.greatest() {
            low - (1 << self.bits)
        } else {
            low
        }
    }

    /// `None`: the type cannot have this number, and is not to have another.
    fn fit(self, value: i128, overflow: Overflow) -> Option<i128> {
        let (least, greatest) = (self.least(), self.greatest());
        match overflow {
            _ if (least..=greatest).contains(&value) => Some(value),
            Overflow::Wrap => Some(self.wrap(value)),
            Overflow::Saturate => Some(value.clamp(least, greatest)),
            Overflow::Fail => None,
        }
    }
}

enum Change {
    Set,
    Add,
}

/// One of the numbers that a command names.
struct Operation {
    of: Type,
    offset: usize,
    /// What is done to it beside reading it.
    change: Option<(Change, i64, Overflow)>,
}

impl Operation {
    /// Behind its last bit.
    fn end(&self) -> usize {
        self.offset + self.of.bits
    }

    fn value(&self, string: &[u8]) -> i128 {
        let bits = self.offset..self.end();
        self.of.wrap(bits.fold(0, |value, bit| value << 1 | i128::from(is_set(string, bit))))
    }

    /// Carries it out in a string that is long enough; a read in any.
    fn run(&self, string: &mut [u8]) -> Reply {
        let old = self.value(string);
        let Some((change, given, overflow)) = &self.change else { return number(old) };
        let wanted = match change {
            // A negative number for an unsigned one is a great one, as in Redis.
            Change::Set if !self.of.signed => i128::from(*given as u64),
            Change::Set => i128::from(*given),
            Change::Add => old + i128::from(*given),
        };
        let Some(new) = self.of.fit(wanted, *overflow) else { return Reply::Nil };
        for (place, bit) in (self.offset..self.end()).rev().enumerate() {
            if let Some(byte) = string.get_mut(bit / 8) {
                *byte = if new >> place & 1 == 1 { *byte | mask_of(bit) } else { *byte & !mask_of(bit) };
            }
        }
        number(if matches!(change, Change::Set) { old } else { new })
    }
}

/// Every type's numbers are among those of a reply.
fn number(value: i128) -> Reply {
    Reply::Integer(value as i64)
}

/// `#3`: the fourth number of this type.
fn offset_of(word: &[u8], of: Type, bytes_max: usize) -> Result<usize, Fail> {
    let offset = match word {
        [b'#', place @ ..] => integer_of(place).and_then(|place| place.checked_mul(of.bits as i64)),
        word => integer_of(word),
    };
    let offset = offset.and_then(|offset| usize::try_from(offset).ok());
    match offset {
        Some(offset) if offset / 8 < READ_BYTES_MAX && (offset + of.bits - 1) / 8 < bytes_max => Ok(offset),
        _ => fail(BAD_OFFSET),
    }
}

fn operations(words: &[Bytes]) -> Result<Vec<Operation>, Fail> {
    let (mut found, mut overflow, mut rest) = (Vec::new(), Overflow::Wrap, words);
    while let Some((name, behind)) = rest.split_first() {
        let name = name.to_ascii_uppercase();
        rest = match (&name[..], behind) {
            (b"OVERFLOW", [how, behind @ ..]) => {
                overflow = match &how.to_ascii_uppercase()[..] {
                    b"WRAP" => Overflow::Wrap,
                    b"SAT" => Overflow::Saturate,
                    b"FAIL" => Overflow::Fail,
                    _ => return fail("ERR Invalid OVERFLOW type specified"),
                };
                behind
            }
            (b"GET", [of, offset, behind @ ..]) => {
                let of = Type::parse(of)?;
                // What is read may end behind the last byte that can be: zeros.
                let offset = offset_of(offset, of, usize::MAX)?;
                found.push(Operation { of, offset, change: None });
                behind
            }
            (b"SET" | b"INCRBY", [of, offset, given, behind @ ..]) => {
                let of = Type::parse(of)?;
                let offset = offset_of(offset, of, VALUE_BYTES_MAX)?;
                let change = if name[..] == *b"SET" { Change::Set } else { Change::Add };
                found.push(Operation { of, offset, change: Some((change, parse_integer(given)?, overflow)) });
                behind
            }
            _ => return fail(SYNTAX),
        };
    }
    Ok(found)
}

fn bitfield(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let operations = operations(&argv[2..])?;
    let old = store.find_kind(&argv[1], Kind::String)?;
    let known = old.as_ref().map_or(Bytes::new(), |meta| meta.value.clone());
    let written = operations.iter().filter(|operation| operation.change.is_some());
    // As in Redis, a string grows for what is to be written, even if none of it then is.
    let bytes = written.map(|operation| operation.end().div_ceil(8)).max().unwrap_or(0);
    let mut value = grown(&known, bytes);
    count_bytes(&store.moment, value.len());
    let replies = operations.iter().map(|operation| operation.run(&mut value)).collect();
    if value[..] != known[..] {
        edit(store, &argv[1], old, value.into());
    }
    Ok(Reply::Array(replies))
}

fn bitfield_ro(view: &View<'_>, argv: &[Bytes]) -> Done {
    let operations = operations(&argv[2..])?;
    if operations.iter().any(|operation| operation.change.is_some()) {
        return fail("ERR BITFIELD_RO only supports the GET subcommand");
    }
    let value = view.find_kind(&argv[1], Kind::String)?.map_or(Bytes::new(), |meta| meta.value);
    Ok(Reply::Array(operations.iter().map(|operation| number(operation.value(&value))).collect()))
}
