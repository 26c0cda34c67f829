//! A log line as one JSON object: `timestamp`, `level`, `target`, `message`, and the event's fields beside them.
//!
//! Always: the line is a whole object of at most `LINE_BYTES_MAX` bytes: a long value is cut, and `cut` counts the bytes left out;
//! a field that has no room at all is dropped and counted too. Numbers and truth values stay such.
//! Held by: `a_line_of_json_is_one_object`.

use super::LINE_BYTES_MAX;
use serde_json::{Map, Number, Value};
use std::fmt::{self, Debug, Write};
use tracing::field::{Field, Visit};
use tracing::Event;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

/// For time, level, target, counts and braces.
const HEAD_BYTES: usize = 512;
/// The names of the line's own fields; an event's field of such a name gets an underscore.
const OWN: [&str; 5] = ["timestamp", "level", "target", "suppressed", "cut"];

/// The line, its end included.
pub fn line(event: &Event<'_>, suppressed: u64) -> String {
    let mut fields = Fields { map: Map::new(), room: LINE_BYTES_MAX - HEAD_BYTES, cut: 0 };
    let mut time = String::new();
    // Writing to a string cannot fail; without a clock the line has no time.
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    fields.map.insert("timestamp".into(), time.into());
    fields.map.insert("level".into(), event.metadata().level().as_str().into());
    fields.map.insert("target".into(), event.metadata().target().into());
    event.record(&mut fields);
    if suppressed > 0 {
        fields.map.insert("suppressed".into(), suppressed.into());
    }
    if fields.cut > 0 {
        fields.map.insert("cut".into(), fields.cut.into());
    }
    let mut text = Value::Object(fields.map).to_string();
    text.push('\n');
    text
}

struct Fields {
    map: Map<String, Value>,
    /// Bytes of encoded fields that still fit.
    room: usize,
    cut: usize,
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        let mut name = field.name().to_owned();
        if OWN.contains(&field.name()) {
            name.push('_');
        }
        // Quotes, colon, comma.
        let bytes = name.len() + value.to_string().len() + 4;
        match self.room.checked_sub(bytes) {
            Some(room) => {
                self.room = room;
                self.map.insert(name, value);
            }
            None => self.cut += bytes,
        }
    }

    fn put_text(&mut self, field: &Field, text: impl FnOnce(&mut Bounded) -> fmt::Result) {
        let mut bounded =
            Bounded { text: String::new(), room: self.room.saturating_sub(field.name().len() + 8), cut: 0 };
        // A `Debug` that fails has written what it could.
        let _ = text(&mut bounded);
        self.cut += bounded.cut;
        self.put(field, bounded.text.into());
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, Number::from_f64(value).map_or(Value::Null, Value::Number));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put_text(field, |out| out.write_str(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put_text(field, |out| write!(out, "{value:?}"));
    }
}

/// Keeps what fits, counted as JSON writes it, and counts the rest.
struct Bounded {
    text: String,
    room: usize,
    cut: usize,
}

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            let bytes = match character {
                '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
                control if control < ' ' => 6,
                other => other.len_utf8(),
            };
            if self.cut > 0 || bytes > self.room {
                self.cut += character.len_utf8();
            } else {
                self.room -= bytes;
                self.text.push(character);
            }
        }
        Ok(())
    }
}
