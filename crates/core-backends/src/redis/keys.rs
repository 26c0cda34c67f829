//! What is the same for keys of every kind: DEL, expiry, TYPE, SCAN and theirs.

use super::numbers::{integer_of, parse_integer};
use super::store::{Store, View};
use super::table::{read, write, Entry};
use super::{fail, integer, Done, Fail, Reply, NOT_AN_INTEGER, REPLY_BYTES_MAX, SYNTAX};
use base_types::redis::matches;
use base_types::redis::DATABASES;
use bytes::Bytes;

/// What this file answers.
pub(super) const COMMANDS: &[Entry] = &[
    write("del", del),
    write("unlink", del),
    read("exists", exists),
    write("expire", expire),
    write("pexpire", pexpire),
    write("persist", persist),
    read("ttl", ttl),
    read("pttl", pttl),
    read("type", type_),
    read("dbsize", dbsize),
    write("flushdb", flushdb),
    write("flushall", flushall),
    write("swapdb", swapdb),
    read("scan", scan),
];

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

pub(super) fn expire(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    set_expiry("expire", 1000, store, argv)
}

pub(super) fn pexpire(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    set_expiry("pexpire", 1, store, argv)
}

fn set_expiry(name: &str, unit_ms: i64, store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let amount = parse_integer(&argv[2])?;
    let condition = Condition::parse(&argv[3..])?;
    let now = i64::try_from(store.now()).unwrap_or(i64::MAX);
    let Some(at) = amount.checked_mul(unit_ms).and_then(|ms| ms.checked_add(now)) else {
        return fail(format!("ERR invalid expire time in '{name}' command"));
    };
    let Some(mut meta) = store.find(&argv[1])? else { return Ok(integer(0)) };
    if !condition.holds(meta.expires_ms, at) {
        return Ok(integer(0));
    }
    if at <= now {
        store.remove(&argv[1], &meta);
    } else {
        meta.expires_ms = at as u64;
        store.save(&argv[1], &meta);
    }
    Ok(integer(1))
}

#[derive(Default)]
struct Condition {
    none: bool,
    some: bool,
    later: bool,
    earlier: bool,
}

impl Condition {
    fn parse(words: &[Bytes]) -> Result<Condition, Fail> {
        let mut condition = Condition::default();
        for word in words {
            match &word.to_ascii_uppercase()[..] {
                b"NX" => condition.none = true,
                b"XX" => condition.some = true,
                b"GT" => condition.later = true,
                b"LT" => condition.earlier = true,
                _ => {
                    return fail(format!(
                        "ERR Unsupported option {}",
                        String::from_utf8_lossy(&word[..word.len().min(64)])
                    ))
                }
            }
        }
        if condition.none && (condition.some || condition.later || condition.earlier) {
            return fail("ERR NX and XX, GT or LT options at the same time are not compatible");
        }
        if condition.later && condition.earlier {
            return fail("ERR GT and LT options at the same time are not compatible");
        }
        Ok(condition)
    }

    /// No expiry counts as one that never comes.
    fn holds(&self, old: u64, new: i64) -> bool {
        let before = if old == 0 { i64::MAX } else { old as i64 };
        !((self.none && old != 0)
            || (self.some && old == 0)
            || (self.later && (old == 0 || new <= before))
            || (self.earlier && new >= before))
    }
}

pub(super) fn persist(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    match store.find(&argv[1])? {
        Some(mut meta) if meta.expires_ms != 0 => {
            meta.expires_ms = 0;
            store.save(&argv[1], &meta);
            Ok(integer(1))
        }
        _ => Ok(integer(0)),
    }
}

pub(super) fn ttl(view: &View<'_>, argv: &[Bytes]) -> Done {
    let left = left_ms(view, &argv[1])?;
    Ok(Reply::Integer(if left < 0 { left } else { left.saturating_add(500) / 1000 }))
}

pub(super) fn pttl(view: &View<'_>, argv: &[Bytes]) -> Done {
    Ok(Reply::Integer(left_ms(view, &argv[1])?))
}

/// -2: no key; -1: it does not expire.
fn left_ms(view: &View<'_>, key: &[u8]) -> Result<i64, Fail> {
    Ok(match view.find(key)? {
        None => -2,
        Some(meta) if meta.expires_ms == 0 => -1,
        Some(meta) => (meta.expires_ms - view.now()) as i64,
    })
}

pub(super) fn type_(view: &View<'_>, argv: &[Bytes]) -> Done {
    let name = view.find(&argv[1])?.map_or("none", |meta| meta.kind.name());
    Ok(Reply::Bulk(Bytes::from_static(name.as_bytes())))
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
