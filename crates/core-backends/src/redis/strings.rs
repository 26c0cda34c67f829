//! Strings: GET, SET and theirs.

use super::expiry::Unit;
use super::lcs::lcs;
use super::numbers::{clip, float_of, integer_of, parse_float, parse_integer, plain_float_text};
use super::store::{Kind, Meta, Moment, Store, View};
use super::table::{read, write, Entry};
use super::{
    fail, integer, wrong_count, Done, Fail, Reply, NOT_AN_INTEGER, NOT_A_FLOAT, REPLY_BYTES_MAX, SYNTAX, WOULD_OVERFLOW,
};
use base_types::VALUE_BYTES_MAX;
use bytes::Bytes;

/// What this file answers.
pub(super) const COMMANDS: &[Entry] = &[
    read("get", get),
    write("set", set),
    write("setnx", setnx),
    write("setex", setex),
    write("psetex", psetex),
    write("getset", getset),
    write("getdel", getdel),
    write("getex", getex),
    read("substr", getrange),
    read("lcs", lcs),
    read("mget", mget),
    write("mset", mset),
    write("msetnx", msetnx),
    write("append", append),
    read("strlen", strlen),
    read("getrange", getrange),
    write("setrange", setrange),
    write("incr", incr),
    write("decr", decr),
    write("incrby", incrby),
    write("decrby", decrby),
    write("incrbyfloat", incrbyfloat),
    write("delex", delex),
];

/// What one command reads of strings, all of them together (BITOP, PFCOUNT, PFMERGE), at most.
pub(super) const STRINGS_BYTES_MAX: usize = 4 * REPLY_BYTES_MAX;
/// So many bytes of a string that is read through are as much work as looking at a row.
const BYTES_A_ROW: usize = 256;

const TOO_LONG: &str = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";

fn value_of(meta: Option<Meta>) -> Reply {
    meta.map_or(Reply::Nil, |meta| Reply::Bulk(meta.value))
}

/// Counts a string that is read through as work.
pub(super) fn count_bytes(moment: &Moment, bytes: usize) {
    moment.work.add((bytes / BYTES_A_ROW) as u64);
}

/// Makes the key a string with this value, whatever it was.
pub(super) fn put(store: &mut Store<'_>, key: &[u8], old: Option<Meta>, value: Bytes, expires_ms: u64) {
    let mut meta = match old {
        Some(meta) if meta.kind == Kind::String => meta,
        Some(other) => {
            store.remove(key, &other);
            store.new_key(key, Kind::String)
        }
        None => store.new_key(key, Kind::String),
    };
    (meta.value, meta.expires_ms) = (value, expires_ms);
    store.save(key, &meta);
}

/// As `put`, keeping the expiry.
pub(super) fn edit(store: &mut Store<'_>, key: &[u8], old: Option<Meta>, value: Bytes) {
    let expires_ms = old.as_ref().map_or(0, |meta| meta.expires_ms);
    put(store, key, old, value, expires_ms);
}

pub(super) fn get(view: &View<'_>, argv: &[Bytes]) -> Done {
    Ok(value_of(view.find_kind(&argv[1], Kind::String)?))
}

#[derive(Default)]
struct SetOptions {
    if_absent: bool,
    if_present: bool,
    get: bool,
    keep: bool,
    /// Only if the value is this one (Redis 8.4).
    if_equal: Option<Bytes>,
    /// Cluster time.
    expires_ms: Option<u64>,
}

fn set_options(moment: &Moment, words: &[Bytes]) -> Result<SetOptions, Fail> {
    let mut options = SetOptions::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let word = word.to_ascii_uppercase();
        match &word[..] {
            b"NX" if !options.if_present && options.if_equal.is_none() => options.if_absent = true,
            b"XX" if !options.if_absent && options.if_equal.is_none() => options.if_present = true,
            b"IFEQ" if !options.if_absent && !options.if_present && options.if_equal.is_none() => {
                let Some(value) = words.next() else { return fail(SYNTAX) };
                options.if_equal = Some(value.clone());
            }
            b"GET" => options.get = true,
            b"KEEPTTL" if options.expires_ms.is_none() => options.keep = true,
            b"EX" | b"PX" | b"EXAT" | b"PXAT" if options.expires_ms.is_none() && !options.keep => {
                let Some(amount) = words.next() else { return fail(SYNTAX) };
                options.expires_ms = Some(unit_of(&word).of_set("set", moment, amount)?);
            }
            _ => return fail(SYNTAX),
        }
    }
    Ok(options)
}

fn unit_of(word: &[u8]) -> Unit {
    match word {
        b"EX" => Unit::SECONDS,
        b"PX" => Unit::MILLISECONDS,
        b"EXAT" => Unit::DATE_SECONDS,
        _ => Unit::DATE_MILLISECONDS,
    }
}

pub(super) fn set(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let options = set_options(&store.moment, &argv[3..])?;
    let old = store.find(&argv[1])?;
    let compared = options.get || options.if_equal.is_some();
    if compared && old.as_ref().is_some_and(|meta| meta.kind != Kind::String) {
        return fail(super::WRONG_TYPE);
    }
    let told = if options.get { value_of(old.clone()) } else { Reply::Nil };
    let other = options.if_equal.is_some() && options.if_equal != old.as_ref().map(|meta| meta.value.clone());
    if other || (options.if_absent && old.is_some()) || (options.if_present && old.is_none()) {
        return Ok(told);
    }
    let kept = if options.keep { old.as_ref().map_or(0, |meta| meta.expires_ms) } else { 0 };
    put(store, &argv[1], old, argv[2].clone(), options.expires_ms.unwrap_or(kept));
    Ok(if options.get { told } else { Reply::Ok })
}

/// `DELEX key [IFEQ value]` (Redis 8.4): removes a key, if its value is this one.
pub(super) fn delex(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let wanted = match &argv[2..] {
        [] => None,
        [test, value] if test.eq_ignore_ascii_case(b"IFEQ") => Some(value),
        _ => return fail(SYNTAX),
    };
    let old = match wanted {
        Some(_) => store.find_kind(&argv[1], Kind::String)?,
        None => store.find(&argv[1])?,
    };
    match old {
        Some(meta) if wanted.is_none_or(|wanted| meta.value == *wanted) => {
            store.remove(&argv[1], &meta);
            Ok(integer(1))
        }
        _ => Ok(integer(0)),
    }
}

pub(super) fn setnx(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    if store.find(&argv[1])?.is_some() {
        return Ok(integer(0));
    }
    put(store, &argv[1], None, argv[2].clone(), 0);
    Ok(integer(1))
}

pub(super) fn setex(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    set_expiring("setex", Unit::SECONDS, store, argv)
}

pub(super) fn psetex(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    set_expiring("psetex", Unit::MILLISECONDS, store, argv)
}

fn set_expiring(name: &str, unit: Unit, store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let expires_ms = unit.of_set(name, &store.moment, &argv[2])?;
    let old = store.find(&argv[1])?;
    put(store, &argv[1], old, argv[3].clone(), expires_ms);
    Ok(Reply::Ok)
}

pub(super) fn getset(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let old = store.find_kind(&argv[1], Kind::String)?;
    let told = value_of(old.clone());
    put(store, &argv[1], old, argv[2].clone(), 0);
    Ok(told)
}

pub(super) fn getdel(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let old = store.find_kind(&argv[1], Kind::String)?;
    if let Some(meta) = &old {
        store.remove(&argv[1], meta);
    }
    Ok(value_of(old))
}

fn getex(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let word = argv.get(2).map(|word| word.to_ascii_uppercase());
    let expires_ms = match (word.as_deref(), &argv[2..]) {
        (None, _) => None,
        (Some(b"PERSIST"), [_]) => Some(0),
        (Some(unit @ (b"EX" | b"PX" | b"EXAT" | b"PXAT")), [_, amount]) => {
            Some(unit_of(unit).of_set("getex", &store.moment, amount)?)
        }
        _ => return fail(SYNTAX),
    };
    let Some(mut meta) = store.find_kind(&argv[1], Kind::String)? else { return Ok(Reply::Nil) };
    let told = Reply::Bulk(meta.value.clone());
    match expires_ms {
        Some(expires_ms) if expires_ms != 0 && expires_ms <= store.now() => store.remove(&argv[1], &meta),
        Some(expires_ms) if expires_ms != meta.expires_ms => {
            meta.expires_ms = expires_ms;
            store.save(&argv[1], &meta);
        }
        _ => {}
    }
    Ok(told)
}

pub(super) fn mget(view: &View<'_>, argv: &[Bytes]) -> Done {
    let (mut values, mut bytes) = (Vec::with_capacity(argv.len() - 1), 0);
    for key in &argv[1..] {
        let value = value_of(view.find(key)?.filter(|meta| meta.kind == Kind::String));
        if let Reply::Bulk(value) = &value {
            bytes += value.len();
        }
        if bytes > REPLY_BYTES_MAX {
            return fail(format!("ERR reply is larger than {REPLY_BYTES_MAX} bytes; ask for fewer keys"));
        }
        values.push(value);
    }
    Ok(Reply::Array(values))
}

pub(super) fn mset(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    check_pairs("mset", argv)?;
    for pair in argv[1..].chunks_exact(2) {
        let old = store.find(&pair[0])?;
        put(store, &pair[0], old, pair[1].clone(), 0);
    }
    Ok(Reply::Ok)
}

pub(super) fn msetnx(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    check_pairs("msetnx", argv)?;
    for pair in argv[1..].chunks_exact(2) {
        if store.find(&pair[0])?.is_some() {
            return Ok(integer(0));
        }
    }
    for pair in argv[1..].chunks_exact(2) {
        // The same key twice: the later value wins, as in Redis.
        let old = store.find(&pair[0])?;
        put(store, &pair[0], old, pair[1].clone(), 0);
    }
    Ok(integer(1))
}

fn check_pairs(name: &str, argv: &[Bytes]) -> Result<(), Fail> {
    if argv.len().is_multiple_of(2) {
        return fail(wrong_count(name));
    }
    // All names before the first write: an error must leave nothing done.
    argv[1..].chunks_exact(2).try_for_each(|pair| super::store::check_name("key", &pair[0]))
}

pub(super) fn append(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let old = store.find_kind(&argv[1], Kind::String)?;
    let mut value = old.as_ref().map_or(Vec::new(), |meta| meta.value.to_vec());
    if value.len() + argv[2].len() > VALUE_BYTES_MAX {
        return fail(TOO_LONG);
    }
    value.extend_from_slice(&argv[2]);
    let length = value.len();
    edit(store, &argv[1], old, value.into());
    Ok(integer(length))
}

pub(super) fn strlen(view: &View<'_>, argv: &[Bytes]) -> Done {
    Ok(integer(view.find_kind(&argv[1], Kind::String)?.map_or(0, |meta| meta.value.len())))
}

pub(super) fn getrange(view: &View<'_>, argv: &[Bytes]) -> Done {
    let (start, stop) = (parse_integer(&argv[2])?, parse_integer(&argv[3])?);
    let value = view.find_kind(&argv[1], Kind::String)?.map_or(Bytes::new(), |meta| meta.value);
    if start < 0 && stop < 0 && start > stop {
        return Ok(Reply::Bulk(Bytes::new()));
    }
    // Unlike lists, a string's `stop` before its start is its first byte.
    let stop = if stop < 0 { stop.saturating_add(value.len() as i64).max(0) } else { stop };
    Ok(Reply::Bulk(match clip(start, stop, value.len() as u64) {
        Some((from, to)) => value.slice(from as usize..=to as usize),
        None => Bytes::new(),
    }))
}

pub(super) fn setrange(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let offset = parse_integer(&argv[2])?;
    let Ok(offset) = usize::try_from(offset) else { return fail("ERR offset is out of range") };
    let old = store.find_kind(&argv[1], Kind::String)?;
    let mut value = old.as_ref().map_or(Vec::new(), |meta| meta.value.to_vec());
    if argv[3].is_empty() {
        return Ok(integer(value.len()));
    }
    let end = match offset.checked_add(argv[3].len()) {
        Some(end) if end <= VALUE_BYTES_MAX => end,
        _ => return fail(TOO_LONG),
    };
    if value.len() < end {
        value.resize(end, 0);
    }
    value[offset..end].copy_from_slice(&argv[3]);
    let length = value.len();
    edit(store, &argv[1], old, value.into());
    Ok(integer(length))
}

pub(super) fn incr(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    add(store, &argv[1], 1)
}

pub(super) fn decr(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    add(store, &argv[1], -1)
}

pub(super) fn incrby(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let amount = parse_integer(&argv[2])?;
    add(store, &argv[1], amount)
}

pub(super) fn decrby(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    match parse_integer(&argv[2])?.checked_neg() {
        Some(amount) => add(store, &argv[1], amount),
        None => fail("ERR decrement would overflow"),
    }
}

fn add(store: &mut Store<'_>, key: &[u8], amount: i64) -> Done {
    let old = store.find_kind(key, Kind::String)?;
    let value = match &old {
        None => 0,
        Some(meta) => match integer_of(&meta.value) {
            Some(value) => value,
            None => return fail(NOT_AN_INTEGER),
        },
    };
    let Some(sum) = value.checked_add(amount) else { return fail(WOULD_OVERFLOW) };
    edit(store, key, old, sum.to_string().into());
    Ok(Reply::Integer(sum))
}

pub(super) fn incrbyfloat(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let amount = parse_float(&argv[2])?;
    let old = store.find_kind(&argv[1], Kind::String)?;
    let value = match &old {
        None => 0.0,
        Some(meta) => match float_of(&meta.value) {
            Some(value) => value,
            None => return fail(NOT_A_FLOAT),
        },
    };
    let sum = value + amount;
    if !sum.is_finite() {
        return fail("ERR increment would produce NaN or Infinity");
    }
    let text = Bytes::from(plain_float_text(sum));
    edit(store, &argv[1], old, text.clone());
    Ok(Reply::Bulk(text))
}
