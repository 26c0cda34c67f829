//! `cjson`: tables as JSON and JSON as tables.
//!
//! By design: as the library lua-cjson does it with its settings as they come: an empty table is an object, a table whose keys are 1 to n is
//! an array, numbers have 14 digits, null is `cjson.null`. Texts are bytes: what is not UTF-8 stays as it is. A parser of our own, for
//! texts of scripts are bytes, and depth has a bound.
//! Not here: settings other than `encode_sparse_array`, `encode_max_depth` and their like, which are taken and change nothing.

use super::{add, bytes_of, text};
use crate::lua::limits::{SCRIPT_REPLY_BYTES_MAX, SCRIPT_TEXT_DEPTH_MAX};
use crate::lua::values::number;
use mlua::{Lua, LuaString, Table, Value};

/// A table with gaps is an array as long as this, or where half of it is there.
const SPARSE_SAFE: usize = 10;
const SPARSE_RATIO: usize = 2;
/// What lua-cjson writes of a number.
const DIGITS: usize = 14;

pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let cjson = lua.create_table()?;
    add(lua, &cjson, "encode", |lua, all| {
        let [value] = all else { return Err("bad argument #1 to 'encode' (expected 1 argument)".into()) };
        let mut out = Vec::new();
        encode(&mut out, value, 0)?;
        Ok(vec![text(lua, &out)?])
    })?;
    add(lua, &cjson, "decode", |lua, all| {
        let [value] = all else { return Err("bad argument #1 to 'decode' (expected 1 argument)".into()) };
        let bytes = bytes_of(value, 1, "decode")?;
        let mut input = Input { bytes: &bytes, at: 0 };
        let value = input.value(lua, 0)?;
        input.blanks();
        match input.peek() {
            None => Ok(vec![value]),
            Some(_) => Err(input.wrong("the end")),
        }
    })?;
    for setting in ["encode_sparse_array", "encode_max_depth", "decode_max_depth", "encode_number_precision"] {
        add(lua, &cjson, setting, |_, all| Ok(all.to_vec()))?;
    }
    for setting in
        ["encode_keep_buffer", "encode_invalid_numbers", "decode_invalid_numbers", "decode_array_with_array_mt"]
    {
        add(lua, &cjson, setting, |_, all| Ok(all.to_vec()))?;
    }
    cjson.raw_set("null", Value::NULL)?;
    cjson.raw_set("_NAME", "cjson")?;
    cjson.raw_set("_VERSION", "2.1.0")?;
    Ok(cjson)
}

/// What a table is in JSON.
enum Form {
    /// With so many places.
    Array(usize),
    Object,
}

fn form(table: &Table) -> Result<Form, String> {
    let (mut most, mut count) = (0, 0);
    for pair in table.pairs::<Value, Value>() {
        let (key, _) = pair.map_err(|error| error.to_string())?;
        let place = match key {
            Value::Integer(place) => place as f64,
            Value::Number(place) => place,
            _ => return Ok(Form::Object),
        };
        if place < 1.0 || place != place.trunc() || place > 1e9 {
            return Ok(Form::Object);
        }
        most = most.max(place as usize);
        count += 1;
    }
    if count == 0 {
        return Ok(Form::Object);
    }
    if most > SPARSE_SAFE && most > count * SPARSE_RATIO {
        return Err("Cannot serialise table: excessively sparse array".into());
    }
    Ok(Form::Array(most))
}

fn encode(out: &mut Vec<u8>, value: &Value, depth: usize) -> Result<(), String> {
    if out.len() > SCRIPT_REPLY_BYTES_MAX {
        return Err("Cannot serialise: the text is too long".into());
    }
    match value {
        Value::Nil => out.extend_from_slice(b"null"),
        Value::LightUserData(own) if own.0.is_null() => out.extend_from_slice(b"null"),
        Value::Boolean(true) => out.extend_from_slice(b"true"),
        Value::Boolean(false) => out.extend_from_slice(b"false"),
        Value::Integer(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Value::Number(value) if value.is_finite() => out.extend_from_slice(number(*value, DIGITS).as_bytes()),
        Value::Number(_) => return Err("Cannot serialise number: must not be NaN or Inf".into()),
        Value::String(text) => quote(out, &text.as_bytes()),
        Value::Table(_) if depth >= SCRIPT_TEXT_DEPTH_MAX => {
            return Err(format!("Cannot serialise, excessive depth ({})", depth + 1));
        }
        Value::Table(table) => return encode_table(out, table, depth + 1),
        other => return Err(format!("Cannot serialise {}: type not supported", other.type_name())),
    }
    Ok(())
}

fn encode_table(out: &mut Vec<u8>, table: &Table, depth: usize) -> Result<(), String> {
    if let Form::Array(places) = form(table)? {
        for place in 1..=places {
            out.push(if place == 1 { b'[' } else { b',' });
            let item = table.raw_get::<Value>(place as i64).unwrap_or(Value::Nil);
            encode(out, &item, depth)?;
        }
        out.push(b']');
        return Ok(());
    }
    out.push(b'{');
    let mut first = true;
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair.map_err(|error| error.to_string())?;
        if !std::mem::take(&mut first) {
            out.push(b',');
        }
        match &key {
            Value::String(name) => quote(out, &name.as_bytes()),
            Value::Integer(name) => quote(out, name.to_string().as_bytes()),
            Value::Number(name) => quote(out, number(*name, DIGITS).as_bytes()),
            _ => return Err("Cannot serialise table: table key must be a number or string".into()),
        }
        out.push(b':');
        encode(out, &value, depth)?;
    }
    out.push(b'}');
    Ok(())
}

fn quote(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    for byte in bytes {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'/' => out.extend_from_slice(b"\\/"),
            0x08 => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0..=0x1f | 0x7f => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(*byte),
        }
    }
    out.push(b'"');
}

/// A text that is being read.
struct Input<'t> {
    bytes: &'t [u8],
    at: usize,
}

impl Input<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn wrong(&self, wanted: &str) -> String {
        let found = match self.peek() {
            None => "T_END",
            Some(b'"') => "T_STRING",
            Some(b'{') => "T_OBJ_BEGIN",
            Some(b'}') => "T_OBJ_END",
            Some(b'[') => "T_ARR_BEGIN",
            Some(b']') => "T_ARR_END",
            Some(b',') => "T_COMMA",
            Some(b':') => "T_COLON",
            Some(b'0'..=b'9' | b'-') => "T_NUMBER",
            Some(_) => "invalid token",
        };
        format!("Expected {wanted} but found {found} at character {}", self.at + 1)
    }

    fn take(&mut self, word: &[u8]) -> bool {
        let is = self.bytes.get(self.at..).is_some_and(|rest| rest.starts_with(word));
        if is {
            self.at += word.len();
        }
        is
    }

    fn value(&mut self, lua: &Lua, depth: usize) -> Result<Value, String> {
        self.blanks();
        match self.peek() {
            Some(b'{' | b'[') if depth >= SCRIPT_TEXT_DEPTH_MAX => {
                Err(format!("Found too many nested data structures ({})", depth + 1))
            }
            Some(b'{') => self.object(lua, depth + 1),
            Some(b'[') => self.array(lua, depth + 1),
            Some(b'"') => self.string(lua).map(Value::String),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ if self.take(b"null") => Ok(Value::NULL),
            _ if self.take(b"true") => Ok(Value::Boolean(true)),
            _ if self.take(b"false") => Ok(Value::Boolean(false)),
            _ => Err(self.wrong("value")),
        }
    }

    fn array(&mut self, lua: &Lua, depth: usize) -> Result<Value, String> {
        let table = lua.create_table().map_err(no_memory)?;
        self.at += 1;
        self.blanks();
        if self.take(b"]") {
            return Ok(Value::Table(table));
        }
        for place in 1_i64.. {
            let item = self.value(lua, depth)?;
            table.raw_set(place, item).map_err(no_memory)?;
            self.blanks();
            if self.take(b"]") {
                break;
            }
            if !self.take(b",") {
                return Err(self.wrong("comma or array end"));
            }
        }
        Ok(Value::Table(table))
    }

    fn object(&mut self, lua: &Lua, depth: usize) -> Result<Value, String> {
        let table = lua.create_table().map_err(no_memory)?;
        self.at += 1;
        self.blanks();
        if self.take(b"}") {
            return Ok(Value::Table(table));
        }
        loop {
            self.blanks();
            if self.peek() != Some(b'"') {
                return Err(self.wrong("object key string"));
            }
            let key = self.string(lua)?;
            self.blanks();
            if !self.take(b":") {
                return Err(self.wrong("colon"));
            }
            let value = self.value(lua, depth)?;
            table.raw_set(key, value).map_err(no_memory)?;
            self.blanks();
            if self.take(b"}") {
                return Ok(Value::Table(table));
            }
            if !self.take(b",") {
                return Err(self.wrong("comma or object end"));
            }
        }
    }

    fn number(&mut self) -> Result<Value, String> {
        let begun = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')) {
            self.at += 1;
        }
        let text = std::str::from_utf8(&self.bytes[begun..self.at]).unwrap_or_default();
        match text.parse() {
            Ok(number) => Ok(Value::Number(number)),
            Err(_) => {
                self.at = begun;
                Err(format!("Expected value but found invalid number at character {}", begun + 1))
            }
        }
    }

    fn string(&mut self, lua: &Lua) -> Result<LuaString, String> {
        let begun = self.at;
        self.at += 1;
        let mut out = Vec::new();
        loop {
            match self.peek() {
                None => {
                    return Err(format!(
                        "Expected value but found unexpected end of string at character {}",
                        self.at + 1
                    ));
                }
                Some(b'"') => break,
                Some(b'\\') => self.escape(&mut out)?,
                Some(0..=0x1f) => {
                    return Err(format!("Expected value but found invalid token at character {}", begun + 1));
                }
                Some(byte) => {
                    out.push(byte);
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        lua.create_string(&out).map_err(no_memory)
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        let wrong = |at| Err(format!("Expected value but found invalid escape code at character {}", at + 1));
        let begun = self.at;
        self.at += 2;
        out.push(match self.bytes.get(begun + 1) {
            Some(byte @ (b'"' | b'\\' | b'/')) => *byte,
            Some(b'b') => 0x08,
            Some(b'f') => 0x0c,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => {
                let Some(first) = self.unit() else { return wrong(begun) };
                let code = match first {
                    0xd800..=0xdbff => {
                        let low = if self.take(b"\\u") { self.unit() } else { None };
                        let Some(low @ 0xdc00..=0xdfff) = low else { return wrong(begun) };
                        0x10000 + ((first - 0xd800) << 10) + (low - 0xdc00)
                    }
                    code => code,
                };
                let Some(letter) = char::from_u32(code) else { return wrong(begun) };
                out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            _ => return wrong(begun),
        });
        Ok(())
    }

    /// Four hexadecimal digits.
    fn unit(&mut self) -> Option<u32> {
        let digits = std::str::from_utf8(self.bytes.get(self.at..self.at + 4)?).ok()?;
        let unit =
            digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok())??;
        self.at += 4;
        Some(unit)
    }
}

fn no_memory<E>(_: E) -> String {
    crate::lua::machine::NO_MEMORY.into()
}
