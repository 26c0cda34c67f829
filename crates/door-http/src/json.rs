//! JSON in: one pass over the body into a small borrowing tree; JSON out: text and bytes.
//!
//! Always: strings without escapes are borrowed from the body; depth, values and fields are bounded;
//! a key given twice is refused (`serde_json::Value` would keep the last and say nothing).
//! Held by: `refuses_hostile_bodies`, `borrows_what_needs_no_unescaping`.

use base_types::{ErrorCode, Refusal};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::fmt;

/// How deep arrays and objects may nest. The deepest request (a batch) needs 3.
pub const DEPTH_MAX: u8 = 8;
/// How many values a body may hold, counted over all depths: a full batch needs about 4,100.
pub const VALUES_MAX: usize = 1 << 17;
/// How many fields one object may have: user metadata of S3 is the widest (2 KiB of short names).
pub const FIELDS_MAX: usize = 256;

/// A JSON value that borrows from the body where it can.
#[derive(Clone, PartialEq, Debug)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A whole number from 0.
    Unsigned(u64),
    /// Any other number.
    Number(f64),
    /// A string.
    Text(Cow<'a, str>),
    /// An array.
    List(Vec<Value<'a>>),
    /// An object, in its own order.
    Object(Vec<(Cow<'a, str>, Value<'a>)>),
}

impl Value<'_> {
    /// What it is, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Unsigned(_) => "a whole number",
            Value::Number(_) => "a number that is negative, fractional or too large",
            Value::Text(_) => "a string",
            Value::List(_) => "a list",
            Value::Object(_) => "an object",
        }
    }
}

/// What one parse shares over all depths: its budget, and the refusal a serde error cannot carry.
struct Parse {
    values_left: Cell<usize>,
    refusal: RefCell<Option<Refusal>>,
}

impl Parse {
    fn refuse<E: serde::de::Error>(&self, code: ErrorCode, message: String) -> E {
        *self.refusal.borrow_mut() = Some(Refusal::new(code, message));
        E::custom("refused")
    }
}

/// Reads a whole body.
pub fn parse(body: &[u8]) -> Result<Value<'_>, Refusal> {
    let shared = Parse { values_left: Cell::new(VALUES_MAX), refusal: RefCell::new(None) };
    let mut reader = serde_json::Deserializer::from_slice(body);
    let parsed = ValueSeed { shared: &shared, depth: 0 }.deserialize(&mut reader);
    let parsed = parsed.and_then(|value| reader.end().map(|()| value));
    parsed.map_err(|error| {
        let (line, column) = (error.line(), error.column());
        match shared.refusal.take() {
            Some(refusal) => {
                Refusal { message: format!("{} (line {line} column {column})", refusal.message), ..refusal }
            }
            None => Refusal::new(ErrorCode::MalformedJson, format!("the body is not JSON: {error}")),
        }
    })
}

#[derive(Clone, Copy)]
struct ValueSeed<'p> {
    shared: &'p Parse,
    depth: u8,
}

impl<'p> ValueSeed<'p> {
    fn deeper<E: serde::de::Error>(self) -> Result<ValueSeed<'p>, E> {
        if self.depth >= DEPTH_MAX {
            let message = format!("the body nests deeper than {DEPTH_MAX} levels; send a flatter one");
            return Err(self.shared.refuse(ErrorCode::MalformedJson, message));
        }
        Ok(ValueSeed { shared: self.shared, depth: self.depth + 1 })
    }
}

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = Value<'de>;
    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value<'de>, D::Error> {
        let Some(left) = self.shared.values_left.get().checked_sub(1) else {
            let message = format!("the body holds more than {VALUES_MAX} values; send several requests");
            return Err(self.shared.refuse(ErrorCode::InvalidRequest, message));
        };
        self.shared.values_left.set(left);
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_> {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }
    fn visit_unit<E>(self) -> Result<Value<'de>, E> {
        Ok(Value::Null)
    }
    fn visit_bool<E>(self, value: bool) -> Result<Value<'de>, E> {
        Ok(Value::Bool(value))
    }
    fn visit_u64<E>(self, value: u64) -> Result<Value<'de>, E> {
        Ok(Value::Unsigned(value))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Value<'de>, E> {
        Ok(u64::try_from(value).map_or(Value::Number(value as f64), Value::Unsigned))
    }
    fn visit_f64<E>(self, value: f64) -> Result<Value<'de>, E> {
        Ok(Value::Number(value))
    }
    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Value<'de>, E> {
        Ok(Value::Text(Cow::Borrowed(value)))
    }
    fn visit_str<E>(self, value: &str) -> Result<Value<'de>, E> {
        Ok(Value::Text(Cow::Owned(value.to_owned())))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value<'de>, A::Error> {
        let item = self.deeper()?;
        let mut out = Vec::new();
        while let Some(value) = list.next_element_seed(item)? {
            out.push(value);
        }
        Ok(Value::List(out))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value<'de>, A::Error> {
        let item = self.deeper()?;
        // Room ahead only for the outermost: a body of many empty objects must stay cheap.
        let room = if self.depth == 0 { 8 } else { 0 };
        let mut out: Vec<(Cow<'de, str>, Value<'de>)> = Vec::with_capacity(room);
        while let Some(name) = map.next_key_seed(NameSeed)? {
            if out.iter().any(|(known, _)| *known == name) {
                return Err(self.shared.refuse(
                    ErrorCode::DuplicateField,
                    format!("field '{}' is given twice; give it once", clip(&name)),
                ));
            }
            if out.len() == FIELDS_MAX {
                return Err(self.shared.refuse(
                    ErrorCode::InvalidRequest,
                    format!("an object has more than {FIELDS_MAX} fields; send fewer"),
                ));
            }
            out.push((name, map.next_value_seed(item)?));
        }
        Ok(Value::Object(out))
    }
}

/// A field's name, borrowed where it has no escapes.
struct NameSeed;

impl<'de> DeserializeSeed<'de> for NameSeed {
    type Value = Cow<'de, str>;
    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Cow<'de, str>, D::Error> {
        reader.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for NameSeed {
    type Value = Cow<'de, str>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field name")
    }
    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Borrowed(value))
    }
    fn visit_str<E>(self, value: &str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(value.to_owned()))
    }
}

/// The most characters of a client's own text that a message repeats.
const CLIP_CHARACTERS: usize = 64;

/// A client's text as a message repeats it: short, and without control characters.
pub fn clip(text: &str) -> String {
    let mut out: String =
        text.chars().take(CLIP_CHARACTERS).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(CLIP_CHARACTERS).is_some() {
        out.push('…');
    }
    out
}

/// Writes a JSON string.
pub fn write_text(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    out.push(b'"');
    let mut start = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&bytes[start..at]);
        start = at + 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            control => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(control >> 4)]);
                out.push(HEX[usize::from(control & 15)]);
            }
        }
    }
    out.extend_from_slice(&bytes[start..]);
    out.push(b'"');
}

/// Writes a number.
pub fn write_number(value: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Writes `,"name":"text"`, or `,"name_base64":"…"` where the bytes are no UTF-8.
pub fn write_bytes_field(name: &str, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    match core::str::from_utf8(bytes) {
        Ok(text) => {
            out.extend_from_slice(b"\":");
            write_text(text, out);
        }
        Err(_) => {
            out.extend_from_slice(b"_base64\":");
            write_base64(bytes, out);
        }
    }
}

/// Writes a JSON string of base64.
pub fn write_base64(bytes: &[u8], out: &mut Vec<u8>) {
    use base64::Engine as _;
    out.push(b'"');
    out.extend_from_slice(base64::engine::general_purpose::STANDARD.encode(bytes).as_bytes());
    out.push(b'"');
}

/// Writes `,"name":` and the value.
pub(crate) fn field(out: &mut Vec<u8>, name: &str, value: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    value(out);
}

pub(crate) fn boolean(value: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(if value { b"true" } else { b"false" });
}

pub(crate) fn optional<T>(value: Option<T>, out: &mut Vec<u8>, write: impl FnOnce(T, &mut Vec<u8>)) {
    match value {
        Some(value) => write(value, out),
        None => out.extend_from_slice(b"null"),
    }
}

pub(crate) fn list<T>(items: &[T], out: &mut Vec<u8>, write: impl Fn(&T, &mut Vec<u8>)) {
    out.push(b'[');
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write(item, out);
    }
    out.push(b']');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(body: &[u8]) -> Refusal {
        parse(body).expect_err("must be refused")
    }

    #[test]
    fn borrows_what_needs_no_unescaping() {
        let value = parse(br#"{"key":"plain","value":"es\"caped"}"#).unwrap();
        let Value::Object(fields) = value else { panic!("an object") };
        assert!(matches!(&fields[0].1, Value::Text(Cow::Borrowed("plain"))));
        assert!(matches!(&fields[1].1, Value::Text(Cow::Owned(text)) if text == "es\"caped"));
    }

    #[test]
    fn refuses_hostile_bodies() {
        assert_eq!(refusal(b"{\"a\":1,\"a\":2}").code.as_str(), "DuplicateField");
        assert_eq!(refusal(&vec![b'['; 1_000_000]).code.as_str(), "MalformedJson");
        assert_eq!(refusal(b"{\"a\":NaN}").code.as_str(), "MalformedJson");
        assert_eq!(refusal(b"{\"a\":\"\xff\"}").code.as_str(), "MalformedJson");
        assert_eq!(refusal(b"{} x").code.as_str(), "MalformedJson");
        assert_eq!(refusal(b"").code.as_str(), "MalformedJson");
        assert_eq!(refusal(format!("[{}1]", "1,".repeat(VALUES_MAX)).as_bytes()).code.as_str(), "InvalidRequest");
        assert!(refusal(b"{\n  \"a\": }").message.contains("line 2 column 8"), "{}", refusal(b"{\n  \"a\": }").message);
    }

    #[test]
    fn text_is_escaped_as_serde_json_does() {
        let text: String = (0u8..128).map(char::from).chain("äß€🦀\u{7f}".chars()).collect();
        let mut out = Vec::new();
        write_text(&text, &mut out);
        assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
    }

    #[test]
    fn messages_repeat_little_of_the_clients_text() {
        assert_eq!(clip(&"x".repeat(100)).chars().count(), CLIP_CHARACTERS + 1);
        assert_eq!(clip("a\nb"), "a\u{fffd}b");
    }
}
