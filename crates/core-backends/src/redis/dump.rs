//! DUMP and RESTORE: a key as bytes that can be kept, and given back under any name.
//!
//! ```text
//!   "HIVE"  form: u8  kind: u8  contents (dump/contents.rs)  xxh3 of all before: u64
//! ```
//!
//! Always: what RESTORE takes is a key that commands could have made; anything else changes nothing.
//! Held by: `a_dump_restores_the_same_key`, `a_damaged_dump_is_refused`.
//! By design: the form is Hive's own (docs/formats/redis-dump.md): a dump of Redis is refused as Redis refuses one of a version that it does
//! not know, and Redis refuses ours. A dump is a word of RESTORE, so it is [`VALUE_BYTES_MAX`] long at most.

pub(super) mod contents;

#[cfg(test)]
mod tests;

use super::expiry::Unit;
use super::numbers::{integer_of, parse_integer};
use super::store::{check_name, Kind, Store, View};
use super::table::{read, write, Entry};
use super::{fail, Done, Fail, Reply, SYNTAX};
use base_types::codec::{Reader, Writer};
use base_types::VALUE_BYTES_MAX;
use bytes::Bytes;
use contents::Contents;

/// What this file answers.
pub(super) const COMMANDS: &[Entry] = &[read("dump", dump), write("restore", restore)];

const MARK: &[u8] = b"HIVE";
const FORM: u8 = 1;
/// The length of mark, form and kind.
const HEAD_BYTES: usize = 6;
/// The length of the checksum.
const TAIL_BYTES: usize = 8;

const WRONG_PAYLOAD: &str = "ERR DUMP payload version or checksum are wrong";
const BAD_CONTENTS: &str = "ERR Bad data format";

fn dump(view: &View<'_>, argv: &[Bytes]) -> Done {
    let Some(meta) = view.find(&argv[1])? else { return Ok(Reply::Nil) };
    let mut out = Writer::with_capacity(64 + meta.value.len());
    out.raw(MARK).u8(FORM).u8(meta.kind as u8);
    Contents::read(view, &argv[1], &meta)?.encode(&mut out);
    let mut payload = out.into_vec();
    let sum = xxhash_rust::xxh3::xxh3_64(&payload);
    payload.extend_from_slice(&sum.to_le_bytes());
    if payload.len() > VALUE_BYTES_MAX {
        return too_large();
    }
    Ok(Reply::Bulk(payload.into()))
}

fn too_large<T>() -> Result<T, Fail> {
    fail(format!("ERR the key is too large for a dump, which has at most {VALUE_BYTES_MAX} bytes; copy it in parts"))
}

/// What is in a payload that was not damaged on its way.
fn open(payload: &Bytes) -> Result<Contents, Fail> {
    let Some(end) = payload.len().checked_sub(TAIL_BYTES).filter(|end| *end >= HEAD_BYTES) else {
        return fail(WRONG_PAYLOAD);
    };
    let sum = xxhash_rust::xxh3::xxh3_64(&payload[..end]);
    if !payload.starts_with(MARK) || payload[MARK.len()] != FORM || payload[end..] != sum.to_le_bytes() {
        return fail(WRONG_PAYLOAD);
    }
    let kind = Kind::ALL.into_iter().find(|kind| *kind as u8 == payload[HEAD_BYTES - 1]);
    let contents = kind.and_then(|kind| Contents::decode(kind, Reader::new(payload.slice(HEAD_BYTES..end))));
    contents.map_or_else(|| fail(BAD_CONTENTS), Ok)
}

#[derive(Default)]
struct Options {
    replace: bool,
    date: bool,
}

/// IDLETIME and FREQ are checked and have no effect: it is not kept when and how often a key is read.
fn options(words: &[Bytes]) -> Result<Options, Fail> {
    let (mut options, mut used, mut words) = (Options::default(), None, words.iter());
    while let Some(word) = words.next() {
        let word = word.to_ascii_uppercase();
        match &word[..] {
            b"REPLACE" => options.replace = true,
            b"ABSTTL" => options.date = true,
            b"IDLETIME" | b"FREQ" if used.as_ref().is_none_or(|used| *used == word) => {
                let Some(value) = words.next() else { return fail(SYNTAX) };
                let value = parse_integer(value)?;
                if word[..] == *b"FREQ" && !(0..=255).contains(&value) {
                    return fail("ERR Invalid FREQ value, must be >= 0 and <= 255");
                }
                if value < 0 {
                    return fail("ERR Invalid IDLETIME value, must be >= 0");
                }
                used = Some(word);
            }
            _ => return fail(SYNTAX),
        }
    }
    Ok(options)
}

fn restore(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let options = options(&argv[4..])?;
    check_name("key", &argv[1])?;
    let old = store.find(&argv[1])?;
    if old.is_some() && !options.replace {
        return fail("BUSYKEY Target key name already exists.");
    }
    let expires_ms = match integer_of(&argv[2]) {
        Some(0) => 0,
        Some(ttl) if ttl < 0 => return fail("ERR Invalid TTL value, must be >= 0"),
        _ => {
            let unit = if options.date { Unit::DATE_MILLISECONDS } else { Unit::MILLISECONDS };
            unit.of_set("restore", &store.moment, &argv[2])?
        }
    };
    let contents = open(&argv[3])?;
    if let Some(old) = old {
        store.remove(&argv[1], &old);
    }
    // A date that has passed: the key is not there.
    if expires_ms == 0 || expires_ms > store.now() {
        contents.write(store, &argv[1])?;
        if let (true, Some(mut meta)) = (expires_ms != 0, store.find(&argv[1])?) {
            meta.expires_ms = expires_ms;
            store.save(&argv[1], &meta);
        }
    }
    Ok(Reply::Ok)
}
