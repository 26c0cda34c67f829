//! What is the same for keys of every kind: DEL, RENAME, COPY, TYPE, SCAN and theirs.
//!
//! By design: a key that moves keeps its elements where they are; a copy has elements of its own, a bounded number.
//! Not here: expiry (`expiry.rs`).

use super::numbers::{integer_of, parse_integer};
use super::store::{check_name, Kind, Meta, Store, View};
use super::table::{read, write, Entry};
use super::{fail, integer, Done, Fail, Gather, Reply, NOT_AN_INTEGER, REPLY_BYTES_MAX, SYNTAX};
use base_types::redis::matches;
use base_types::redis::DATABASES;
use bytes::Bytes;

/// What this file answers.
pub(super) const COMMANDS: &[Entry] = &[
    write("del", del),
    write("unlink", del),
    read("exists", exists),
    read("type", type_),
    read("dbsize", dbsize),
    write("flushdb", flushdb),
    write("flushall", flushall),
    write("swapdb", swapdb),
    read("scan", scan),
    read("keys", keys),
    read("randomkey", randomkey),
    read("touch", exists),
    read("object", object),
    write("rename", rename),
    write("renamenx", renamenx),
    write("copy", copy),
    write("move", move_),
];

const NO_SUCH_KEY: &str = "ERR no such key";
const SAME_OBJECT: &str = "ERR source and destination objects are the same";
/// RANDOMKEY reads a database of so many keys whole.
const RANDOM_WHOLE: u64 = 1_024;
/// Else so many keys.
const RANDOM_SAMPLE: usize = 32;
/// And looks so often for one that has not expired.
const RANDOM_ROUNDS: usize = 4;
/// Keys one SCAN looks at where COUNT is absent.
const SCAN_COUNT_DEFAULT: usize = 10;
/// Keys one SCAN looks at at most.
const SCAN_COUNT_MAX: usize = 10_000;

pub(super) fn del(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    argv[1..].iter().try_for_each(|key| super::store::check_name("key", key))?;
    let mut removed = 0;
    for key in &argv[1..] {
        if let Some(meta) = store.find(key)? {
            store.remove(key, &meta);
            removed += 1;
        }
    }
    Ok(integer(removed))
}

pub(super) fn exists(view: &View<'_>, argv: &[Bytes]) -> Done {
    let mut there = 0;
    for key in &argv[1..] {
        there += usize::from(view.find(key)?.is_some());
    }
    Ok(integer(there))
}

pub(super) fn type_(view: &View<'_>, argv: &[Bytes]) -> Done {
    let name = view.find(&argv[1])?.map_or("none", |meta| meta.kind.name());
    Ok(Reply::Status(name.into()))
}

/// As in Redis, keys that have expired but are not swept yet count.
pub(super) fn dbsize(view: &View<'_>, _argv: &[Bytes]) -> Done {
    Ok(Reply::Integer(view.keys() as i64))
}

fn check_flush(argv: &[Bytes]) -> Result<(), Fail> {
    let known = |word: &Bytes| word.eq_ignore_ascii_case(b"ASYNC") || word.eq_ignore_ascii_case(b"SYNC");
    if argv.len() > 2 || !argv[1..].iter().all(known) {
        return fail(SYNTAX);
    }
    Ok(())
}

pub(super) fn flushdb(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    check_flush(argv)?;
    store.flush()?;
    Ok(Reply::Ok)
}

fn flushall(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    check_flush(argv)?;
    for database in 0..DATABASES {
        store.within(database, |store| store.flush())?;
    }
    Ok(Reply::Ok)
}

fn swapdb(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let number = |word: &Bytes, which: &str| match integer_of(word) {
        Some(number) => u8::try_from(number)
            .ok()
            .filter(|number| *number < DATABASES)
            .ok_or_else(|| Fail::Redis("ERR DB index is out of range".into())),
        None => fail(format!("ERR invalid {which} DB index")),
    };
    let (one, other) = (number(&argv[1], "first")?, number(&argv[2], "second")?);
    store.swap(one, other);
    Ok(Reply::Ok)
}

#[derive(Default)]
struct ScanOptions {
    pattern: Option<Bytes>,
    kind: Option<Bytes>,
    count: Option<usize>,
}

/// The cursor is the sequence of the last key looked at. Clients want a number, and this one stays right while keys are
/// added or removed. A key that exists throughout the scan is returned once.
pub(super) fn scan(view: &View<'_>, argv: &[Bytes]) -> Done {
    let cursor = std::str::from_utf8(&argv[1]).ok().and_then(|text| text.parse::<u64>().ok());
    let Some(cursor) = cursor else { return fail("ERR invalid cursor") };
    let options = scan_options(&argv[2..])?;
    let (walked, more) = view.walk(cursor, options.count.unwrap_or(SCAN_COUNT_DEFAULT))?;
    let (mut told, mut bytes, mut reached, mut early) = (Vec::new(), 0, 0, false);
    for (sequence, key) in walked {
        bytes += key.len();
        if bytes > REPLY_BYTES_MAX {
            early = true;
            break;
        }
        reached = sequence;
        if options.pattern.as_ref().is_some_and(|pattern| !matches(pattern, &key)) {
            continue;
        }
        let Some(meta) = view.find(&key)? else { continue };
        if options.kind.as_ref().is_none_or(|kind| kind.eq_ignore_ascii_case(meta.kind.name().as_bytes())) {
            told.push(Reply::Bulk(key));
        }
    }
    let next = if more || early { reached } else { 0 };
    Ok(Reply::Array(vec![Reply::Bulk(next.to_string().into()), Reply::Array(told)]))
}

fn scan_options(words: &[Bytes]) -> Result<ScanOptions, Fail> {
    let mut options = ScanOptions::default();
    for pair in words.chunks(2) {
        let [word, value] = pair else { return fail(SYNTAX) };
        match &word.to_ascii_uppercase()[..] {
            b"MATCH" => options.pattern = Some(value.clone()),
            b"TYPE" => options.kind = Some(value.clone()),
            b"COUNT" => {
                let count = parse_integer(value)?;
                if count < 1 {
                    return fail(SYNTAX);
                }
                let Ok(count) = usize::try_from(count) else { return fail(NOT_AN_INTEGER) };
                options.count = Some(count.min(SCAN_COUNT_MAX));
            }
            _ => return fail(SYNTAX),
        }
    }
    Ok(options)
}

/// All keys that match, within the bound of a reply.
fn keys(view: &View<'_>, argv: &[Bytes]) -> Done {
    let (mut out, mut after) = (Gather::default(), 0);
    loop {
        let (walked, more) = view.walk(after, SCAN_COUNT_MAX)?;
        for (sequence, key) in walked {
            after = sequence;
            if matches(&argv[1], &key) && view.find(&key)?.is_some() && !out.push(&key) {
                return out.done();
            }
        }
        if !more {
            return out.done();
        }
    }
}

/// One of the keys. A database of few keys gives each as often; one of many picks a place, and one of the keys that follow.
fn randomkey(view: &View<'_>, _argv: &[Bytes]) -> Done {
    for round in 0..RANDOM_ROUNDS {
        let from = if view.keys() <= RANDOM_WHOLE || round > 0 { 0 } else { view.moment.below(view.last_sequence()) };
        let limit = if view.keys() <= RANDOM_WHOLE { RANDOM_WHOLE as usize } else { RANDOM_SAMPLE };
        let (walked, _) = view.walk(from, limit)?;
        let mut there = Vec::new();
        for (_, key) in walked {
            if view.find(&key)?.is_some() {
                there.push(key);
            }
        }
        if !there.is_empty() {
            let at = view.moment.below(there.len() as u64) as usize;
            return Ok(Reply::Bulk(there.swap_remove(at)));
        }
    }
    Ok(Reply::Nil)
}

fn rename(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    check_name("key", &argv[2])?;
    let Some(meta) = store.find(&argv[1])? else { return fail(NO_SUCH_KEY) };
    if argv[1] != argv[2] {
        if let Some(old) = store.find(&argv[2])? {
            store.remove(&argv[2], &old);
        }
        store.take_out(&argv[1], &meta);
        store.put_in(&argv[2], meta);
    }
    Ok(Reply::Ok)
}

fn renamenx(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    check_name("key", &argv[2])?;
    let Some(meta) = store.find(&argv[1])? else { return fail(NO_SUCH_KEY) };
    if store.find(&argv[2])?.is_some() {
        return Ok(integer(0));
    }
    store.take_out(&argv[1], &meta);
    store.put_in(&argv[2], meta);
    Ok(integer(1))
}

fn database_of(word: &[u8]) -> Result<u8, Fail> {
    match integer_of(word) {
        None => fail(NOT_AN_INTEGER),
        Some(number) => match u8::try_from(number).ok().filter(|number| *number < DATABASES) {
            Some(number) => Ok(number),
            None => fail("ERR DB index is out of range"),
        },
    }
}

fn move_(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let target = database_of(&argv[2])?;
    if target == store.database() {
        return fail(SAME_OBJECT);
    }
    let Some(meta) = store.find(&argv[1])? else { return Ok(integer(0)) };
    if store.within(target, |store| store.find(&argv[1]))?.is_some() {
        return Ok(integer(0));
    }
    store.take_out(&argv[1], &meta);
    store.within(target, |store| store.put_in(&argv[1], meta));
    Ok(integer(1))
}

fn copy(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    check_name("key", &argv[2])?;
    let (mut target, mut replace) = (store.database(), false);
    let mut rest = argv[3..].iter();
    while let Some(word) = rest.next() {
        match (&word.to_ascii_uppercase()[..], rest.as_slice().first()) {
            (b"REPLACE", _) => replace = true,
            (b"DB", Some(number)) => {
                target = database_of(number)?;
                rest.next();
            }
            _ => return fail(SYNTAX),
        }
    }
    if target == store.database() && argv[1] == argv[2] {
        return fail(SAME_OBJECT);
    }
    let Some(meta) = store.find(&argv[1])? else { return Ok(integer(0)) };
    let old = store.within(target, |store| store.find(&argv[2]))?;
    if old.is_some() && !replace {
        return Ok(integer(0));
    }
    let rows = store.rows_of(&meta)?;
    store.within(target, |store| {
        if let Some(old) = old {
            store.remove(&argv[2], &old);
        }
        let fresh = store.new_key(&argv[2], meta.kind);
        store.copy_rows(rows, &fresh);
        store.save(&argv[2], &meta.as_copy(&fresh));
    });
    Ok(integer(1))
}

/// OBJECT ENCODING says what Redis would have chosen for such a key; nothing here depends on it.
fn object(view: &View<'_>, argv: &[Bytes]) -> Done {
    let sub = argv[1].to_ascii_uppercase();
    match (&sub[..], argv.len()) {
        (b"HELP", 2) => Ok(Reply::Array(vec![Reply::Status("OBJECT ENCODING|REFCOUNT|IDLETIME|FREQ <key>".into())])),
        (b"ENCODING" | b"REFCOUNT" | b"IDLETIME" | b"FREQ", 3) => {
            let Some(meta) = view.find(&argv[2])? else { return Ok(Reply::Nil) };
            match &sub[..] {
                b"ENCODING" => Ok(Reply::Bulk(Bytes::from_static(encoding(view, &meta)?.as_bytes()))),
                b"REFCOUNT" => Ok(integer(1)),
                b"IDLETIME" => fail("ERR it is not kept when a key was last read"),
                _ => fail("ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust."),
            }
        }
        _ => fail(format!(
            "ERR Unknown subcommand or wrong number of arguments for '{}'. Try OBJECT HELP.",
            String::from_utf8_lossy(&argv[1][..argv[1].len().min(64)])
        )),
    }
}

/// By Redis' default thresholds.
fn encoding(view: &View<'_>, meta: &Meta) -> Result<&'static str, Fail> {
    let small = |most: u64, longest: usize| {
        Ok::<_, Fail>(meta.count <= most && view.longest_name(meta, most as usize + 1)? <= longest)
    };
    Ok(match meta.kind {
        Kind::String if meta.value.len() <= 20 && integer_of(&meta.value).is_some() => "int",
        Kind::String if meta.value.len() <= 44 => "embstr",
        Kind::String => "raw",
        Kind::List => "quicklist",
        Kind::Stream => "stream",
        Kind::Hash if small(128, 64)? => "listpack",
        Kind::Hash => "hashtable",
        Kind::Set if meta.count <= 512 && view.all_names(meta, 513, |name| integer_of(name).is_some())? => "intset",
        Kind::Set => "hashtable",
        Kind::Sorted if small(128, 64)? => "listpack",
        Kind::Sorted => "skiplist",
    })
}
