//! `struct`: numbers and texts as the bytes of C structures.
//!
//! By design: formats are those of Roberto Ierusalimschy's library: `> < = !n` order and alignment; `b B h H l L T i I` integers, with a size
//! after `i` and `I`; `f d` floats; `s` a text that a zero ends, `c n` bytes, `x` a byte of padding. Native order is little-endian on all
//! machines.

use super::{add, bytes_of, float, integer, text, Given};
use crate::lua::limits::SCRIPT_REPLY_BYTES_MAX;
use mlua::{Lua, Table, Value};

/// The widest integer, and the widest alignment.
const WIDTH_MAX: usize = 8;
/// Values that one text gives at most.
const VALUES_MAX: usize = 7_000;

pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let own = lua.create_table()?;
    add(lua, &own, "pack", pack)?;
    add(lua, &own, "unpack", unpack)?;
    add(lua, &own, "size", |_, all| {
        let format = bytes_of(all.first().unwrap_or(&Value::Nil), 1, "size")?;
        let (mut items, mut at) = (Format::new(&format), 0_usize);
        while let Some(item) = items.next()? {
            if matches!(item.kind, Kind::Ended | Kind::Bytes(0)) {
                return Err("variable-size format in 'size'".into());
            }
            at = at.saturating_add(item.padding(at) + item.size);
        }
        Ok(vec![Value::Number(at as f64)])
    })?;
    Ok(own)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Integer {
        signed: bool,
    },
    Float,
    /// A text and a zero after it.
    Ended,
    /// So many; 0: as the value says.
    Bytes(usize),
    Padding,
}

struct Item {
    kind: Kind,
    size: usize,
    align: usize,
    big: bool,
}

impl Item {
    fn padding(&self, at: usize) -> usize {
        if self.align < 2 {
            return 0;
        }
        (self.align - at % self.align) % self.align
    }
}

struct Format<'f> {
    text: &'f [u8],
    at: usize,
    big: bool,
    align_max: usize,
}

impl<'f> Format<'f> {
    fn new(text: &'f [u8]) -> Format<'f> {
        Format { text, at: 0, big: false, align_max: 1 }
    }

    /// A number after a letter.
    fn number(&mut self) -> Result<Option<usize>, String> {
        let begun = self.at;
        while self.text.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        let digits = std::str::from_utf8(&self.text[begun..self.at]).unwrap_or_default();
        match digits.parse::<u32>() {
            _ if digits.is_empty() => Ok(None),
            Ok(number) if number as usize <= SCRIPT_REPLY_BYTES_MAX => Ok(Some(number as usize)),
            _ => Err("integral size overflow".into()),
        }
    }

    fn width(&mut self, usual: usize) -> Result<usize, String> {
        match self.number()?.unwrap_or(usual) {
            width @ 1..=WIDTH_MAX => Ok(width),
            width => Err(format!("integral size {width} is larger than limit of {WIDTH_MAX}")),
        }
    }

    fn next(&mut self) -> Result<Option<Item>, String> {
        while let Some(letter) = self.text.get(self.at).copied() {
            self.at += 1;
            let signed = letter.is_ascii_lowercase();
            let (kind, size) = match letter {
                b' ' => continue,
                b'>' | b'<' | b'=' => {
                    self.big = letter == b'>';
                    continue;
                }
                b'!' => {
                    let align = self.number()?.unwrap_or(WIDTH_MAX);
                    if !align.is_power_of_two() {
                        return Err("alignment is not a power of 2".into());
                    }
                    self.align_max = align;
                    continue;
                }
                b'b' | b'B' => (Kind::Integer { signed }, 1),
                b'h' | b'H' => (Kind::Integer { signed }, 2),
                b'l' | b'L' => (Kind::Integer { signed }, 8),
                b'T' => (Kind::Integer { signed: false }, 8),
                b'i' | b'I' => (Kind::Integer { signed }, self.width(4)?),
                b'f' => (Kind::Float, 4),
                b'd' => (Kind::Float, 8),
                b's' => (Kind::Ended, 0),
                b'x' => (Kind::Padding, 1),
                b'c' => {
                    let count = self.number()?.unwrap_or(1);
                    (Kind::Bytes(count), count)
                }
                other => return Err(format!("invalid format option '{}'", other.escape_ascii())),
            };
            let aligned = matches!(kind, Kind::Integer { .. } | Kind::Float);
            let align = if aligned { size.min(self.align_max) } else { 1 };
            let align = if align.is_power_of_two() { align } else { 1 };
            return Ok(Some(Item { kind, size, align, big: self.big }));
        }
        Ok(None)
    }
}

fn put(out: &mut Vec<u8>, little: &[u8], big: bool) {
    match big {
        true => out.extend(little.iter().rev()),
        false => out.extend_from_slice(little),
    }
}

fn pack(lua: &Lua, all: &[Value]) -> Given {
    let format = bytes_of(all.first().unwrap_or(&Value::Nil), 1, "pack")?;
    let (mut items, mut out, mut next) = (Format::new(&format), Vec::new(), 1);
    while let Some(item) = items.next()? {
        out.resize(out.len() + item.padding(out.len()), 0);
        if item.kind == Kind::Padding {
            out.push(0);
            continue;
        }
        let value = all.get(next).unwrap_or(&Value::Nil);
        next += 1;
        match item.kind {
            Kind::Integer { .. } => {
                let number = float(value, next, "pack")?;
                let bits = if number < 0.0 { number as i64 as u64 } else { number as u64 };
                put(&mut out, &bits.to_le_bytes()[..item.size], item.big);
            }
            Kind::Float if item.size == 4 => {
                put(&mut out, &(float(value, next, "pack")? as f32).to_le_bytes(), item.big);
            }
            Kind::Float => put(&mut out, &float(value, next, "pack")?.to_le_bytes(), item.big),
            Kind::Bytes(count) => {
                let bytes = bytes_of(value, next, "pack")?;
                let count = if count == 0 { bytes.len() } else { count };
                let taken =
                    bytes.get(..count).ok_or_else(|| format!("bad argument #{next} to 'pack' (string too short)"))?;
                out.extend_from_slice(taken);
            }
            _ => {
                out.extend_from_slice(&bytes_of(value, next, "pack")?);
                out.push(0);
            }
        }
        if out.len() > SCRIPT_REPLY_BYTES_MAX {
            return Err("the packed text is too long".into());
        }
    }
    Ok(vec![text(lua, &out)?])
}

fn unpack(lua: &Lua, all: &[Value]) -> Given {
    let format = bytes_of(all.first().unwrap_or(&Value::Nil), 1, "unpack")?;
    let bytes = bytes_of(all.get(1).unwrap_or(&Value::Nil), 2, "unpack")?;
    let from = all.get(2).map_or(Ok(1), |from| integer(from, 3, "unpack"))?;
    let mut at = usize::try_from(from - 1).map_err(|_| "offset must be 1 or greater".to_owned())?;
    let (mut items, mut values) = (Format::new(&format), Vec::new());
    while let Some(item) = items.next()? {
        at += item.padding(at);
        let short = || "data string too short".to_owned();
        let rest = bytes.get(at..).ok_or_else(short)?;
        let mut size = item.size;
        if item.kind == Kind::Bytes(0) {
            // How many, the value before has said.
            size = match values.pop() {
                Some(Value::Number(count)) if count >= 0.0 => count as usize,
                _ => return Err("format 'c0' needs a previous size".into()),
            };
        }
        if item.kind == Kind::Ended {
            let end = rest.iter().position(|byte| *byte == 0).ok_or("unfinished string in data")?;
            values.push(text(lua, &rest[..end])?);
            at += end + 1;
        } else {
            let taken = rest.get(..size).ok_or_else(short)?;
            at += size;
            values.extend(value_of(lua, &item, taken)?);
        }
        if values.len() > VALUES_MAX {
            return Err("too many results to unpack".into());
        }
    }
    values.push(Value::Number((at + 1) as f64));
    Ok(values)
}

fn value_of(lua: &Lua, item: &Item, bytes: &[u8]) -> Result<Option<Value>, String> {
    let mut little = [0; 8];
    let number = matches!(item.kind, Kind::Integer { .. } | Kind::Float);
    if number {
        for (place, byte) in little.iter_mut().zip(bytes) {
            *place = *byte;
        }
        if item.big {
            little[..item.size].reverse();
        }
    }
    let raw = u64::from_le_bytes(little);
    Ok(Some(match item.kind {
        Kind::Integer { signed: true } => {
            let unused = 64 - 8 * item.size as u32;
            Value::Number(((raw << unused) as i64 >> unused) as f64)
        }
        Kind::Integer { .. } => Value::Number(raw as f64),
        Kind::Float if item.size == 4 => Value::Number(f64::from(f32::from_bits(raw as u32))),
        Kind::Float => Value::Number(f64::from_bits(raw)),
        Kind::Bytes(_) => text(lua, bytes)?,
        _ => return Ok(None),
    }))
}
