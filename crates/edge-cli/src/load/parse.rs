//! One line of a load file to a key and a value: TSV, or JSON where it begins with `{`.

use crate::text::unescape;
use base64::Engine as _;
use serde_json::Value;

/// The longest line: the largest value, every byte of it escaped.
pub const LINE_BYTES_MAX: usize = 8 << 20;

/// A key and its value.
#[derive(Debug, PartialEq, Eq)]
pub struct Record {
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

/// Reads a line; `None` where it is empty.
pub fn line(line: &[u8]) -> Result<Option<Record>, String> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() {
        return Ok(None);
    }
    let record = if line.starts_with(b"{") { json(line)? } else { tsv(line)? };
    if record.key.is_empty() {
        return Err("the key is empty; give it at least one byte".into());
    }
    Ok(Some(record))
}

fn tsv(line: &[u8]) -> Result<Record, String> {
    let at = line
        .iter()
        .position(|byte| *byte == b'\t')
        .ok_or("there is no tab between key and value; write key, tab, value")?;
    let (key, value) = (&line[..at], &line[at + 1..]);
    if value.contains(&b'\t') {
        return Err("there is a second tab; write a tab in a value as \\t".into());
    }
    Ok(Record { key: unescape(key)?, value: unescape(value)? })
}

fn json(line: &[u8]) -> Result<Record, String> {
    let value: Value = serde_json::from_slice(line).map_err(|error| format!("not JSON: {error}"))?;
    let fields = value.as_object().ok_or("the line is no JSON object; write {\"key\":…,\"value\":…}")?;
    if let Some(name) =
        fields.keys().find(|name| !["key", "key_base64", "value", "value_base64"].contains(&name.as_str()))
    {
        return Err(format!("unknown field '{name}'; known are key, value, key_base64, value_base64"));
    }
    Ok(Record { key: field(&value, "key")?, value: field(&value, "value")? })
}

fn field(value: &Value, name: &str) -> Result<Vec<u8>, String> {
    let encoded = &value[format!("{name}_base64").as_str()];
    match (&value[name], encoded) {
        (Value::String(text), Value::Null) => Ok(text.clone().into_bytes()),
        (Value::Null, Value::String(text)) => base64::engine::general_purpose::STANDARD
            .decode(text)
            .map_err(|error| format!("'{name}_base64' is not base64 ({error}); encode its bytes again")),
        (Value::Null, Value::Null) => Err(format!("field '{name}' is missing; add it")),
        _ => Err(format!("give '{name}' as a string, or '{name}_base64'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(key: &[u8], value: &[u8]) -> Result<Option<Record>, String> {
        Ok(Some(Record { key: key.to_vec(), value: value.to_vec() }))
    }

    #[test]
    fn both_forms_are_read() {
        assert_eq!(line(b"k\tv\\t\\x00\r\n"), record(b"k", b"v\t\0"));
        assert_eq!(line(b"k\t\n"), record(b"k", b""));
        assert_eq!(line(b"k\xff\tv\xff\n"), record(b"k\xff", b"v\xff"));
        assert_eq!(line(br#"{"key":"k","value":"v\n"}"#), record(b"k", b"v\n"));
        assert_eq!(line(br#"{"key_base64":"/w==","value_base64":""}"#), record(b"\xff", b""));
        assert_eq!(line(b"\n"), Ok(None));
    }

    #[test]
    fn wrong_lines_say_why() {
        let cases: [(&[u8], &str); 9] = [
            (b"no tab", "no tab"),
            (b"a\tb\tc", "second tab"),
            (b"\tv", "the key is empty; give it at least one byte"),
            (b"k\t\\q", "unknown escape"),
            (b"{\"key\":\"k\"}", "'value' is missing"),
            (b"{\"key\":\"k\",\"value\":1}", "as a string"),
            (b"{\"key\":\"k\",\"value\":\"v\",\"ttl\":1}", "unknown field 'ttl'"),
            (b"{\"key\":", "not JSON"),
            (b"{\"key_base64\":\"%\",\"value\":\"\"}", "not base64"),
        ];
        for (text, word) in cases {
            let error = line(text).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
