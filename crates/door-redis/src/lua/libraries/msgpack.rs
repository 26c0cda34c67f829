//! `cmsgpack`: values as MessagePack and back.
//!
//! By design: as the library lua-cmsgpack does it: whole numbers become integers, others floats; a table whose keys are 1 to n becomes an
//! array; what has no form (functions) becomes nil; `unpack` gives all values that a text has.
//! Not here: extension types, which the library does not have either.

use super::{add, bytes_of, integer, text, Given};
use crate::lua::limits::SCRIPT_REPLY_BYTES_MAX;
use mlua::{Lua, Table, Value};

/// How deep tables lie in each other; below that is nil, as in the library.
const DEPTH_MAX: usize = 16;
/// Values that one text gives at most: Lua has room for some thousands.
const VALUES_MAX: usize = 7_000;

pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let own = lua.create_table()?;
    add(lua, &own, "pack", |lua, all| {
        if all.is_empty() {
            return Err("bad argument #0 to 'pack' (MessagePack pack needs input.)".into());
        }
        let mut out = Vec::new();
        all.iter().try_for_each(|value| pack(&mut out, value, 0))?;
        Ok(vec![text(lua, &out)?])
    })?;
    add(lua, &own, "unpack", |lua, all| {
        let bytes = bytes_of(all.first().unwrap_or(&Value::Nil), 1, "unpack")?;
        unpack(lua, &bytes, 0, VALUES_MAX).map(|(values, _)| values)
    })?;
    add(lua, &own, "unpack_one", |lua, all| {
        let bytes = bytes_of(all.first().unwrap_or(&Value::Nil), 1, "unpack_one")?;
        some(lua, &bytes, 1, all.get(1))
    })?;
    add(lua, &own, "unpack_limit", |lua, all| {
        let bytes = bytes_of(all.first().unwrap_or(&Value::Nil), 1, "unpack_limit")?;
        let most = integer(all.get(1).unwrap_or(&Value::Nil), 2, "unpack_limit")?;
        some(lua, &bytes, usize::try_from(most).unwrap_or(0).min(VALUES_MAX), all.get(2))
    })?;
    Ok(own)
}

/// So many values from a place on, after the place where the next is: -1 at the end.
fn some(lua: &Lua, bytes: &[u8], most: usize, from: Option<&Value>) -> Given {
    let from = from.map_or(Ok(0), |from| integer(from, 3, "unpack"))?;
    let from = usize::try_from(from).ok().filter(|from| *from <= bytes.len());
    let Some(from) = from else { return Err("Start offset is beyond the input".into()) };
    let (values, end) = unpack(lua, bytes, from, most)?;
    let next = if end >= bytes.len() { -1.0 } else { end as f64 };
    Ok(std::iter::once(Value::Number(next)).chain(values).collect())
}

fn head(out: &mut Vec<u8>, count: usize, short: Option<(u8, usize)>, marks: [Option<u8>; 3]) -> Result<(), String> {
    if let Some((mark, _)) = short.filter(|(_, most)| count <= *most) {
        out.push(mark | count as u8);
        return Ok(());
    }
    match (u8::try_from(count), u16::try_from(count), u32::try_from(count), marks) {
        (Ok(count), _, _, [Some(mark), ..]) => out.extend_from_slice(&[mark, count]),
        (_, Ok(count), _, [_, Some(mark), _]) => {
            out.push(mark);
            out.extend_from_slice(&count.to_be_bytes());
        }
        (_, _, Ok(count), [_, _, Some(mark)]) => {
            out.push(mark);
            out.extend_from_slice(&count.to_be_bytes());
        }
        _ => return Err("too long for MessagePack".into()),
    }
    Ok(())
}

fn pack(out: &mut Vec<u8>, value: &Value, depth: usize) -> Result<(), String> {
    if out.len() > SCRIPT_REPLY_BYTES_MAX {
        return Err("the packed text is too long".into());
    }
    match value {
        Value::Boolean(own) => out.push(if *own { 0xc3 } else { 0xc2 }),
        Value::Integer(own) => pack_integer(out, *own),
        Value::Number(own) if *own == own.trunc() && own.abs() < 9.2e18 => pack_integer(out, *own as i64),
        Value::Number(own) if f64::from(*own as f32) == *own => {
            out.push(0xca);
            out.extend_from_slice(&(*own as f32).to_be_bytes());
        }
        Value::Number(own) => {
            out.push(0xcb);
            out.extend_from_slice(&own.to_be_bytes());
        }
        Value::String(own) => {
            head(out, own.as_bytes().len(), Some((0xa0, 31)), [Some(0xd9), Some(0xda), Some(0xdb)])?;
            out.extend_from_slice(&own.as_bytes());
        }
        Value::Table(own) if depth < DEPTH_MAX => return pack_table(out, own, depth + 1),
        _ => out.push(0xc0),
    }
    Ok(())
}

fn pack_integer(out: &mut Vec<u8>, value: i64) {
    match value {
        0..=127 => out.push(value as u8),
        -32..=-1 => out.push(value as i8 as u8),
        128..=255 => out.extend_from_slice(&[0xcc, value as u8]),
        256..=0xffff => {
            out.push(0xcd);
            out.extend_from_slice(&(value as u16).to_be_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            out.push(0xce);
            out.extend_from_slice(&(value as u32).to_be_bytes());
        }
        0x1_0000_0000.. => {
            out.push(0xcf);
            out.extend_from_slice(&(value as u64).to_be_bytes());
        }
        -128..=-33 => out.extend_from_slice(&[0xd0, value as i8 as u8]),
        -0x8000..=-129 => {
            out.push(0xd1);
            out.extend_from_slice(&(value as i16).to_be_bytes());
        }
        -0x8000_0000..=-0x8001 => {
            out.push(0xd2);
            out.extend_from_slice(&(value as i32).to_be_bytes());
        }
        _ => {
            out.push(0xd3);
            out.extend_from_slice(&value.to_be_bytes());
        }
    }
}

fn pack_table(out: &mut Vec<u8>, table: &Table, depth: usize) -> Result<(), String> {
    let pairs = table.pairs::<Value, Value>().collect::<mlua::Result<Vec<_>>>().map_err(|error| error.to_string())?;
    let places = table.raw_len();
    let is_place = |key: &Value| match key {
        Value::Integer(place) => (1..=places as i64).contains(place),
        Value::Number(place) => *place >= 1.0 && *place <= places as f64 && *place == place.trunc(),
        _ => false,
    };
    if pairs.len() == places && pairs.iter().all(|(key, _)| is_place(key)) {
        head(out, places, Some((0x90, 15)), [None, Some(0xdc), Some(0xdd)])?;
        return (1..=places as i64)
            .try_for_each(|place| pack(out, &table.raw_get::<Value>(place).unwrap_or(Value::Nil), depth));
    }
    head(out, pairs.len(), Some((0x80, 15)), [None, Some(0xde), Some(0xdf)])?;
    pairs.iter().try_for_each(|(key, value)| {
        pack(out, key, depth)?;
        pack(out, value, depth)
    })
}

fn unpack(lua: &Lua, bytes: &[u8], from: usize, most: usize) -> Result<(Vec<Value>, usize), String> {
    let mut input = Input { bytes, at: from };
    let mut values = Vec::new();
    while input.at < bytes.len() && values.len() < most {
        values.push(input.value(lua, 0)?);
    }
    Ok((values, input.at))
}

struct Input<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Input<'b> {
    fn take(&mut self, count: usize) -> Result<&'b [u8], String> {
        let end = self.at.checked_add(count);
        let taken = end.and_then(|end| self.bytes.get(self.at..end)).ok_or("Missing bytes in input.")?;
        self.at += count;
        Ok(taken)
    }

    fn unsigned(&mut self, bytes: usize) -> Result<u64, String> {
        Ok(self.take(bytes)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn signed(&mut self, bytes: usize) -> Result<Value, String> {
        let unused = 64 - 8 * bytes as u32;
        let value = (self.unsigned(bytes)? << unused) as i64 >> unused;
        Ok(Value::Number(value as f64))
    }

    fn count(&mut self, bytes: usize) -> Result<usize, String> {
        usize::try_from(self.unsigned(bytes)?).map_err(|_| "Missing bytes in input.".into())
    }

    fn value(&mut self, lua: &Lua, depth: usize) -> Result<Value, String> {
        if depth > crate::lua::limits::SCRIPT_REPLY_DEPTH_MAX {
            return Err("Bad data format in input.".into());
        }
        let mark = self.take(1)?[0];
        let number = |value: u64| Ok(Value::Number(value as f64));
        match mark {
            0..=0x7f => number(u64::from(mark)),
            0xe0..=0xff => Ok(Value::Number(f64::from(mark as i8))),
            0x80..=0x8f => self.map(lua, usize::from(mark & 15), depth),
            0x90..=0x9f => self.array(lua, usize::from(mark & 15), depth),
            0xa0..=0xbf => text(lua, self.take(usize::from(mark & 31))?),
            0xc0 => Ok(Value::Nil),
            0xc2 | 0xc3 => Ok(Value::Boolean(mark == 0xc3)),
            0xca => {
                let bits = self.unsigned(4)? as u32;
                Ok(Value::Number(f64::from(f32::from_bits(bits))))
            }
            0xcb => Ok(Value::Number(f64::from_bits(self.unsigned(8)?))),
            0xcc..=0xcf => self.unsigned(1 << (mark - 0xcc)).and_then(number),
            0xd0..=0xd3 => self.signed(1 << (mark - 0xd0)),
            0xc4..=0xc6 | 0xd9..=0xdb => {
                let size = if mark < 0xd0 { mark - 0xc4 } else { mark - 0xd9 };
                let count = self.count(1 << size)?;
                text(lua, self.take(count)?)
            }
            0xdc | 0xdd => {
                let count = self.count(2 << (mark - 0xdc))?;
                self.array(lua, count, depth)
            }
            0xde | 0xdf => {
                let count = self.count(2 << (mark - 0xde))?;
                self.map(lua, count, depth)
            }
            _ => Err("Bad data format in input.".into()),
        }
    }

    fn array(&mut self, lua: &Lua, count: usize, depth: usize) -> Result<Value, String> {
        let table = lua.create_table().map_err(|error| error.to_string())?;
        for place in 1..=count as i64 {
            let item = self.value(lua, depth + 1)?;
            table.raw_set(place, item).map_err(|error| error.to_string())?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, lua: &Lua, count: usize, depth: usize) -> Result<Value, String> {
        let table = lua.create_table().map_err(|error| error.to_string())?;
        for _ in 0..count {
            let (key, value) = (self.value(lua, depth + 1)?, self.value(lua, depth + 1)?);
            // A key that is nil, or no number, has no place in a table.
            table.raw_set(key, value).map_err(|_| "Bad data format in input.".to_owned())?;
        }
        Ok(Value::Table(table))
    }
}
