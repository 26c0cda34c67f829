//! Replies of the database as values of Lua, and values of Lua as replies.
//!
//! ```text
//!   integer ⇄ number    bulk ⇄ string    array ⇄ table    status ⇄ { ok }    error ⇄ { err }    nil ⇄ false
//!   after redis.setresp(3): map ⇄ { map }    set ⇄ { set }    double ⇄ { double }    nil ⇄ nil
//! ```
//! By design: as Redis does it; what has no form in RESP2 is flattened as the door flattens it for clients.
//! Not here: numbers as texts of JSON (`libraries/`).

use super::limits::{SCRIPT_REPLY_BYTES_MAX, SCRIPT_REPLY_DEPTH_MAX};
use base_types::redis::RedisReply;
use bytes::Bytes;
use mlua::{Lua, LuaString, Table, Value};

/// What a script gets for a reply. `three`: it has asked for RESP3.
pub(crate) fn to_lua(lua: &Lua, reply: &RedisReply, three: bool) -> mlua::Result<Value> {
    let one = |reply| to_lua(lua, reply, three);
    let single = |name: &str, value: Value| -> mlua::Result<Value> {
        let table = lua.create_table_with_capacity(0, 1)?;
        table.raw_set(name, value)?;
        Ok(Value::Table(table))
    };
    let text = |text: &[u8]| lua.create_string(text).map(Value::String);
    match reply {
        RedisReply::Ok => single("ok", text(b"OK")?),
        RedisReply::Status(status) => single("ok", text(status.as_bytes())?),
        RedisReply::Error(error) => single("err", text(error.as_bytes())?),
        RedisReply::Nil | RedisReply::NilArray if three => Ok(Value::Nil),
        RedisReply::Nil | RedisReply::NilArray => Ok(Value::Boolean(false)),
        RedisReply::Integer(value) => Ok(Value::Number(*value as f64)),
        RedisReply::Bulk(bytes) => text(bytes),
        RedisReply::Double(bytes) if three => {
            let number = std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()).unwrap_or(f64::NAN);
            single("double", Value::Number(number))
        }
        RedisReply::Double(bytes) => text(bytes),
        RedisReply::Set(items) if three => {
            let set = lua.create_table_with_capacity(0, items.len())?;
            for item in items {
                set.raw_set(one(item)?, true)?;
            }
            single("set", Value::Table(set))
        }
        RedisReply::Array(items) | RedisReply::Set(items) => list(lua, items.iter().map(one)),
        RedisReply::Map(pairs) | RedisReply::Streams(pairs) if three => {
            let map = lua.create_table_with_capacity(0, pairs.len())?;
            for (key, value) in pairs {
                map.raw_set(one(key)?, one(value)?)?;
            }
            single("map", Value::Table(map))
        }
        RedisReply::Pairs(pairs) if three => nested(lua, pairs, three),
        RedisReply::Streams(pairs) => nested(lua, pairs, three),
        RedisReply::Map(pairs) | RedisReply::Pairs(pairs) => {
            list(lua, pairs.iter().flat_map(|(left, right)| [one(left), one(right)]))
        }
    }
}

fn list(lua: &Lua, items: impl Iterator<Item = mlua::Result<Value>>) -> mlua::Result<Value> {
    let table = lua.create_table()?;
    for (place, item) in (1_i64..).zip(items) {
        table.raw_set(place, item?)?;
    }
    Ok(Value::Table(table))
}

fn nested(lua: &Lua, pairs: &[(RedisReply, RedisReply)], three: bool) -> mlua::Result<Value> {
    list(
        lua,
        pairs.iter().map(|(left, right)| list(lua, [to_lua(lua, left, three), to_lua(lua, right, three)].into_iter())),
    )
}

/// A word of a command.
pub(crate) fn word_of(value: &Value) -> Option<Bytes> {
    match value {
        Value::String(text) => Some(Bytes::copy_from_slice(&text.as_bytes())),
        Value::Integer(value) => Some(value.to_string().into()),
        Value::Number(value) => Some(number(*value, 17).into()),
        _ => None,
    }
}

/// A reply out of what a script gives. `Err`: it has no form as a reply.
pub(crate) fn from_lua(value: &Value) -> Result<RedisReply, String> {
    let mut bytes = 0;
    reply_of(value, SCRIPT_REPLY_DEPTH_MAX, &mut bytes)
}

fn reply_of(value: &Value, depth: usize, bytes: &mut usize) -> Result<RedisReply, String> {
    *bytes += 8;
    if let Value::String(text) = value {
        *bytes += text.as_bytes().len();
    }
    if *bytes > SCRIPT_REPLY_BYTES_MAX {
        return Err(format!("the script's reply has more than {SCRIPT_REPLY_BYTES_MAX} bytes"));
    }
    Ok(match value {
        Value::Integer(value) => RedisReply::Integer(*value),
        Value::Number(value) => RedisReply::Integer(*value as i64),
        Value::String(text) => RedisReply::Bulk(Bytes::copy_from_slice(&text.as_bytes())),
        Value::Boolean(true) => RedisReply::Integer(1),
        Value::Table(table) => match depth.checked_sub(1) {
            Some(depth) => table_of(table, depth, bytes)?,
            None => return Err("reached lua stack limit".into()),
        },
        _ => RedisReply::Nil,
    })
}

fn table_of(table: &Table, depth: usize, bytes: &mut usize) -> Result<RedisReply, String> {
    let field = |name: &str| table.raw_get::<Value>(name).unwrap_or(Value::Nil);
    let line = |text: &LuaString| text.to_string_lossy();
    if let Value::String(text) = field("err") {
        let text = line(&text);
        return Ok(RedisReply::Error(text.strip_prefix('-').map(str::to_owned).unwrap_or(text)));
    }
    if let Value::String(text) = field("ok") {
        return Ok(RedisReply::Status(line(&text)));
    }
    if let Value::Number(value) = field("double") {
        return Ok(RedisReply::Double(number(value, 17).into()));
    }
    if let Value::Integer(value) = field("double") {
        return Ok(RedisReply::Double(value.to_string().into()));
    }
    if let Value::Table(map) = field("map") {
        let pair = |pair: mlua::Result<(Value, Value)>| {
            let (key, value) = pair.map_err(|error| error.to_string())?;
            Ok((reply_of(&key, depth, bytes)?, reply_of(&value, depth, bytes)?))
        };
        return map.pairs::<Value, Value>().map(pair).collect::<Result<_, String>>().map(RedisReply::Map);
    }
    if let Value::Table(set) = field("set") {
        let key = |pair: mlua::Result<(Value, Value)>| {
            let (key, _) = pair.map_err(|error| error.to_string())?;
            reply_of(&key, depth, bytes)
        };
        return set.pairs::<Value, Value>().map(key).collect::<Result<_, String>>().map(RedisReply::Set);
    }
    if let Value::String(text) = field("big_number") {
        return Ok(RedisReply::Bulk(Bytes::copy_from_slice(&text.as_bytes())));
    }
    if let Value::Table(verbatim) = field("verbatim_string") {
        let text = verbatim.raw_get::<LuaString>("string").map_err(|error| error.to_string())?;
        return Ok(RedisReply::Bulk(Bytes::copy_from_slice(&text.as_bytes())));
    }
    let mut items = Vec::new();
    for place in 1_i64.. {
        match table.raw_get::<Value>(place).unwrap_or(Value::Nil) {
            Value::Nil => break,
            item => items.push(reply_of(&item, depth, bytes)?),
        }
    }
    Ok(RedisReply::Array(items))
}

/// A number as C's `%.{digits}g` writes it, or shorter where that says the same.
pub(crate) fn number(value: f64, digits: usize) -> String {
    if value.is_nan() {
        return "nan".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf".into() } else { "-inf".into() };
    }
    if value == value.trunc() && value.abs() < 1e15 {
        return format!("{}", value as i64);
    }
    let shortest = format!("{value:e}");
    let rounded = format!("{value:.*e}", digits.saturating_sub(1));
    let chosen = if shortest.len() <= rounded.len() { shortest } else { rounded };
    let (mantissa, exponent) = chosen.split_once('e').unwrap_or((&chosen, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let figures: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let figures = figures.trim_end_matches('0');
    let figures = if figures.is_empty() { "0" } else { figures };
    if exponent < -5 || exponent >= digits as i32 {
        let (first, rest) = figures.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        let mark = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{first}{point}{rest}e{mark}{:02}", exponent.abs());
    }
    let point = exponent + 1;
    if point <= 0 {
        return format!("{sign}0.{}{figures}", "0".repeat(point.unsigned_abs() as usize));
    }
    let point = point.unsigned_abs() as usize;
    if figures.len() <= point {
        return format!("{sign}{figures}{}", "0".repeat(point - figures.len()));
    }
    let (whole, part) = figures.split_at(point);
    format!("{sign}{whole}.{part}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_c_writes_them() {
        for (value, digits, wanted) in [
            (0.0, 17, "0"),
            (3.0, 17, "3"),
            (-3.5, 17, "-3.5"),
            (0.1, 17, "0.1"),
            (1e300, 17, "1e+300"),
            (1.5e-7, 17, "1.5e-07"),
            (0.00012, 17, "0.00012"),
            (123456789012345680.0, 17, "1.2345678901234568e+17"),
            (12345678901234567.0, 17, "12345678901234568"),
            (1.0 / 3.0, 14, "0.33333333333333"),
            (2.0 / 3.0 * 1e14, 14, "66666666666667"),
            (1e14 + 0.5, 14, "1e+14"),
            (f64::INFINITY, 14, "inf"),
        ] {
            assert_eq!(number(value, digits), wanted);
        }
    }
}
