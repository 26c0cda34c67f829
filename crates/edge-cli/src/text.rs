//! Bytes as one line of text: `\t \n \r \\ \xNN` escaped, everything else as it is. What `hive kv
//! scan` prints, `hive load` and `hive kv exec` read.

/// Writes bytes so that they fit one field of a line.
pub fn escape(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => out.push_str("\\\\"),
                '\t' => out.push_str("\\t"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                control if control.is_control() => {
                    let mut buffer = [0; 4];
                    for byte in control.encode_utf8(&mut buffer).bytes() {
                        out.push_str(&format!("\\x{byte:02x}"));
                    }
                }
                other => out.push(other),
            }
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}

/// Reads what [`escape`] writes.
pub fn unescape(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.iter().copied();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        out.push(match rest.next() {
            Some(b't') => b'\t',
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b'\\') => b'\\',
            Some(b'x') => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                match (digit(rest.next()), digit(rest.next())) {
                    (Some(high), Some(low)) => (high << 4 | low) as u8,
                    _ => return Err("'\\x' needs two hex digits after it".into()),
                }
            }
            Some(other) => {
                return Err(format!(
                    "unknown escape '\\{}'; known are \\t \\n \\r \\\\ \\xNN",
                    char::from(other).escape_default()
                ))
            }
            None => return Err("a '\\' ends the line; write '\\\\'".into()),
        });
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_comes_back() {
        let all: Vec<u8> = (0..=255).chain("grün\u{85}".bytes()).collect();
        let text = escape(&all);
        assert!(!text.contains('\n') && !text.contains('\t'));
        assert_eq!(unescape(text.as_bytes()).unwrap(), all);
    }

    #[test]
    fn broken_escapes_are_refused() {
        for text in ["\\", "\\q", "\\x", "\\x1", "\\xzz"] {
            assert!(unescape(text.as_bytes()).is_err(), "{text}");
        }
    }
}
