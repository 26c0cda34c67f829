//! `hive kv exec FILE`: one command a line, in order, each waited for; on a world, or on the directory of
//! an embedded store.
//!
//! `put k v` (v is the rest of the line), `get k`, `del k` (or `delete k`), `scan [prefix [limit]]`;
//! `\t \n \r \\ \xNN` are escapes; empty lines and lines that begin with `#` are skipped. Always: every
//! line is read before the first is run, so that a misspelt one changes nothing; the exit code is that of
//! the worst line.
//! Held by: `wrong_lines_name_their_number`, `lines_are_read`.
//! Not here: the store itself (edge-embedded, `store.rs` runs the commands on it).

mod store;

use super::{act, fields};
use crate::arguments::{ExecArguments, KvCommon};
use crate::failure::Failure;
use crate::output::{client, failed};
use crate::text::{escape, unescape};
use bytes::Bytes;
use hive_client::{put_bytes, Client, Scan};
use serde_json::{json, Map, Value};
use std::io::Read;
use std::path::Path;

/// The longest file; longer ones are for `hive load`.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Keys of a scan that names no limit, and the most one may name: its answer is held in memory.
const SCAN_LIMIT: u32 = 1_000;

#[derive(Debug, PartialEq)]
enum Line {
    Put(Vec<u8>, Vec<u8>),
    Get(Vec<u8>),
    Del(Vec<u8>),
    Scan(Vec<u8>, u32),
}

/// What a line came to: JSON for machines, text for people.
struct Told {
    json: Value,
    text: String,
}

/// Runs the commands of a file.
pub async fn run(arguments: &ExecArguments) -> Result<(), Failure> {
    let file = &arguments.file;
    let lines = parse(&read(file)?).map_err(|error| Failure::usage(format!("{}: {error}", file.display())))?;
    if let Some(directory) = &arguments.store {
        return store::run(directory, arguments, lines);
    }
    let common = &arguments.common;
    let client = client(&common.world, &common.levels)?;
    let mut worst = 0;
    for (number, line) in lines {
        let told = on_world(&client, common, &line).await;
        say(number, told, common.world.json, &mut worst);
    }
    ended(worst)
}

/// Prints what a line came to, or why it did not; the worst code is kept.
fn say(number: usize, told: Result<Told, Failure>, json: bool, worst: &mut u8) {
    match told {
        Ok(told) if json => println!("{}", told.json),
        Ok(told) if told.text.is_empty() => {}
        Ok(told) => println!("{}", told.text),
        Err(failure) => {
            eprintln!("hive: line {number}: {}", failure.message);
            *worst = failure.code.max(*worst);
        }
    }
}

fn ended(worst: u8) -> Result<(), Failure> {
    match worst {
        0 => Ok(()),
        code => Err(Failure { code, message: String::new() }),
    }
}

async fn on_world(client: &Client, common: &KvCommon, line: &Line) -> Result<Told, Failure> {
    let (action, key, value) = match line {
        Line::Put(key, value) => ("KvPut", key, Some(&value[..])),
        Line::Get(key) => ("KvGet", key, None),
        Line::Del(key) => ("KvDelete", key, None),
        Line::Scan(prefix, limit) => return scan(client, common, prefix, *limit).await,
    };
    let json = act(client, common, action, fields(common, key, value, None)).await?;
    let text = match line {
        Line::Get(_) => got(hive_client::bytes_field(&json, "value").as_deref()),
        Line::Del(_) if json["existed"] == true => "deleted".into(),
        Line::Del(_) => "was not there".into(),
        _ => "ok".into(),
    };
    Ok(Told { json, text })
}

/// Up to `limit` pairs; a world may answer fewer at once, where their values are long.
async fn scan(client: &Client, common: &KvCommon, prefix: &[u8], limit: u32) -> Result<Told, Failure> {
    let mut what = Scan { prefix: Bytes::copy_from_slice(prefix), ..Scan::default() };
    let (mut pairs, mut left) = (Vec::new(), limit);
    while left > 0 {
        what.limit = Some(left);
        let page = client.scan(&common.keyspace, &what).await.map_err(|error| failed(common.world.json, error))?;
        left = left.saturating_sub(page.entries.len() as u32);
        pairs.extend(page.entries.into_iter().map(|entry| (entry.key, entry.value)));
        match page.next {
            Some(next) => what.start_after = Some(next),
            None => break,
        }
    }
    pairs.truncate(limit as usize);
    Ok(scanned(pairs.into_iter()))
}

/// A value as people see it; `null` where there is none.
fn got(value: Option<&[u8]>) -> String {
    value.map_or_else(|| json!(null).to_string(), escape)
}

/// Pairs, one a line, as `hive load` reads them.
fn scanned(pairs: impl Iterator<Item = (Bytes, Bytes)>) -> Told {
    let (mut entries, mut lines) = (Vec::new(), Vec::new());
    for (key, value) in pairs {
        let mut entry = Map::new();
        put_bytes(&mut entry, "key", &key);
        put_bytes(&mut entry, "value", &value);
        entries.push(Value::from(entry));
        lines.push(format!("{}\t{}", escape(&key), escape(&value)));
    }
    Told { json: json!({"ok": true, "entries": entries}), text: lines.join("\n") }
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
            "{} is longer than {FILE_BYTES_MAX} bytes; load it with `hive load`",
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
    let second = parts.next();
    if command == b"scan" {
        let limit = second.map_or(Ok(SCAN_LIMIT), |text| limit_of(text.trim_ascii()))?;
        return Ok(Line::Scan(key, limit));
    }
    if key.is_empty() {
        return Err("there is no key; write put k v, get k, del k or scan [prefix [limit]]".into());
    }
    match (command, second) {
        (b"put", Some(value)) => Ok(Line::Put(key, unescape(value)?)),
        (b"put", None) => Err("put has no value after the key; write put k v".into()),
        (b"get", None) => Ok(Line::Get(key)),
        (b"del" | b"delete", None) => Ok(Line::Del(key)),
        (b"get" | b"del" | b"delete", Some(_)) => {
            Err("something follows the key; write a space in a key as \\x20".into())
        }
        (other, _) => Err(format!("unknown command '{}'; known are put, get, del, scan", escape(other))),
    }
}

fn limit_of(text: &[u8]) -> Result<u32, String> {
    let limit = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    let limit = limit.filter(|limit| (1..=SCAN_LIMIT).contains(limit));
    limit.ok_or_else(|| format!("'{}' is no limit; write a number from 1 to {SCAN_LIMIT}", escape(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let lines = parse(b"# all\nput k a b\\n\n\nget \\x20k\r\ndel k\ndelete k\nscan\nscan p 5").unwrap();
        let expected = vec![
            (2, Line::Put(b"k".to_vec(), b"a b\n".to_vec())),
            (4, Line::Get(b" k".to_vec())),
            (5, Line::Del(b"k".to_vec())),
            (6, Line::Del(b"k".to_vec())),
            (7, Line::Scan(Vec::new(), SCAN_LIMIT)),
            (8, Line::Scan(b"p".to_vec(), 5)),
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn wrong_lines_name_their_number() {
        for (text, word) in [
            ("get a\nputt k v", "line 2: unknown command 'putt'"),
            ("put k", "line 1: put has no value"),
            ("get a b", "follows"),
            ("del", "there is no key"),
            ("scan p none", "no limit"),
            ("scan p 0", "no limit"),
        ] {
            let error = parse(text.as_bytes()).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
