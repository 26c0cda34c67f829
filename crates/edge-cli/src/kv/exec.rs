//! `hive kv exec FILE`: one command a line, in order, each waited for.
//!
//! `put k v` (v is the rest of the line), `get k`, `del k`; `\t \n \r \\ \xNN` are escapes; empty
//! lines and lines that begin with `#` are skipped. Always: every line is read before the first is
//! run, so that a misspelt one changes nothing; the exit code is that of the worst line.

use super::act;
use crate::arguments::KvCommon;
use crate::failure::Failure;
use crate::output::client;
use crate::text::{escape, unescape};
use serde_json::{json, Value};
use std::io::Read;
use std::path::Path;

/// The longest file; longer ones are for `hive load`.
const FILE_BYTES_MAX: u64 = 64 << 20;

#[derive(Debug, PartialEq)]
enum Line {
    Put(Vec<u8>, Vec<u8>),
    Get(Vec<u8>),
    Del(Vec<u8>),
}

/// Runs the commands of a file.
pub async fn run(file: &Path, common: &KvCommon) -> Result<(), Failure> {
    let lines = parse(&read(file)?).map_err(|error| Failure::usage(format!("{}: {error}", file.display())))?;
    let client = client(&common.world, &common.levels)?;
    let mut worst = 0;
    for (number, line) in lines {
        let (action, key, value) = match &line {
            Line::Put(key, value) => ("KvPut", key, Some(&value[..])),
            Line::Get(key) => ("KvGet", key, None),
            Line::Del(key) => ("KvDelete", key, None),
        };
        match act(&client, common, action, key, value).await {
            Ok(answer) if common.world.json => println!("{answer}"),
            Ok(answer) => println!("{}", told(&line, &answer)),
            Err(failure) => {
                eprintln!("hive: line {number}: {}", failure.message);
                worst = worst.max(failure.code);
            }
        }
    }
    if worst == 0 {
        return Ok(());
    }
    Err(Failure { code: worst, message: String::new() })
}

fn told(line: &Line, answer: &Value) -> String {
    match line {
        Line::Put(..) => "ok".into(),
        Line::Del(_) if answer["existed"] == true => "deleted".into(),
        Line::Del(_) => "was not there".into(),
        Line::Get(_) => match hive_client::bytes_field(answer, "value") {
            Some(value) => escape(&value),
            None => json!(null).to_string(),
        },
    }
}

fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    let failed = |error: std::io::Error| Failure::usage(format!("{}: {error}", file.display()));
    let mut bytes = Vec::new();
    let source: Box<dyn Read> = match file.to_str() {
        Some("-") => Box::new(std::io::stdin()),
        _ => Box::new(std::fs::File::open(file).map_err(failed)?),
    };
    source.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(Failure::usage(format!(
            "{} is longer than {FILE_BYTES_MAX} bytes; use `hive load`",
            file.display()
        )));
    }
    Ok(bytes)
}

fn parse(text: &[u8]) -> Result<Vec<(usize, Line)>, String> {
    let mut out = Vec::new();
    for (at, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.trim_ascii().is_empty() || line.starts_with(b"#") {
            continue;
        }
        out.push((at + 1, parse_line(line).map_err(|error| format!("line {}: {error}", at + 1))?));
    }
    Ok(out)
}

fn parse_line(line: &[u8]) -> Result<Line, String> {
    let mut words = line.trim_ascii_start().splitn(2, |byte| *byte == b' ');
    let command = words.next().unwrap_or_default();
    let rest = words.next().unwrap_or_default();
    let mut parts = rest.splitn(2, |byte| *byte == b' ');
    let key = unescape(parts.next().unwrap_or_default())?;
    if key.is_empty() {
        return Err("a key is missing; write put k v, get k or del k".into());
    }
    match (command, parts.next()) {
        (b"put", Some(value)) => Ok(Line::Put(key, unescape(value)?)),
        (b"put", None) => Err("put needs a value behind the key".into()),
        (b"get", None) => Ok(Line::Get(key)),
        (b"del", None) => Ok(Line::Del(key)),
        (b"get" | b"del", Some(_)) => Err("something follows the key; write a space in a key as \\x20".into()),
        (other, _) => Err(format!("unknown command '{}'; known are put, get, del", escape(other))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let lines = parse(b"# all\nput k a b\\n\n\nget \\x20k\r\ndel k").unwrap();
        let expected = vec![
            (2, Line::Put(b"k".to_vec(), b"a b\n".to_vec())),
            (4, Line::Get(b" k".to_vec())),
            (5, Line::Del(b"k".to_vec())),
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn wrong_lines_name_their_number() {
        for (text, word) in [
            ("get a\nputt k v", "line 2: unknown command 'putt'"),
            ("put k", "line 1: put needs"),
            ("get a b", "follows"),
            ("del", "missing"),
        ] {
            let error = parse(text.as_bytes()).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
