//! XADD, XTRIM, XDEL, XSETID and XLEN: what changes a stream's entries.

use super::super::numbers::parse_integer;
use super::super::store::{Store, View};
use super::super::{fail, integer, wrong_count, Done, Fail, Reply, SYNTAX};
use super::entries::entry_value;
use super::ids::{parse_all, parse_new, parse_strict, Id, NewId};
use super::rows::Stream;
use super::trim::{options, Trim};
use super::wall_ms;
use base_types::VALUE_BYTES_MAX;
use bytes::Bytes;

pub(super) fn xadd(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let (options, at) = options(argv, true)?;
    let id = parse_new(argv.get(at).map_or(b"", |word| word))?;
    let words = argv.get(at + 1..).unwrap_or_default();
    if words.is_empty() || !words.len().is_multiple_of(2) {
        return fail(wrong_count("xadd"));
    }
    if id == NewId::Exactly(Id::MIN) {
        return fail("ERR The ID specified in XADD must be greater than 0-0");
    }
    if entry_value(words).len() > VALUE_BYTES_MAX {
        return fail(format!(
            "ERR Elements are too large to be stored; an entry takes at most {VALUE_BYTES_MAX} bytes"
        ));
    }
    let old = Stream::open(store, &argv[1])?;
    if old.is_none() && options.no_new {
        return Ok(Reply::Nil);
    }
    let id = new_id(id, old.as_ref().map_or(Id::MIN, |stream| stream.last), wall_ms(&store.moment))?;
    if let Some(trim) = &options.trim {
        trim.check(&*store.space, old.as_ref(), 1)?;
    }
    let mut stream = match old {
        Some(stream) => stream,
        None => Stream::create(store, &argv[1]),
    };
    stream.put_entry(store, id, words);
    if let Some(trim) = &options.trim {
        trim.carry_out(store, &mut stream)?;
    }
    stream.save(store, &argv[1])?;
    Ok(id.reply())
}

/// The id of the next entry after `last`.
fn new_id(wanted: NewId, last: Id, now_ms: u64) -> Result<Id, Fail> {
    if last == Id::MAX {
        return fail("ERR The stream has exhausted the last possible ID, unable to add more items");
    }
    let id = match wanted {
        NewId::Now if now_ms > last.ms => Some(Id { ms: now_ms, seq: 0 }),
        NewId::Now => last.next(),
        NewId::In(ms) if ms == last.ms => match last.seq.checked_add(1) {
            Some(seq) => Some(Id { ms, seq }),
            // What Redis 7.0 says of this, though size is not what is wrong.
            None => return fail("ERR Elements are too large to be stored"),
        },
        NewId::In(ms) => Some(Id { ms, seq: 0 }),
        NewId::Exactly(id) => Some(id),
    };
    match id {
        Some(id) if id > last => Ok(id),
        _ => fail("ERR The ID specified in XADD is equal or smaller than the target stream top item"),
    }
}

pub(super) fn xtrim(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let (options, _) = options(argv, false)?;
    let Some(mut stream) = Stream::open(store, &argv[1])? else { return Ok(integer(0)) };
    let trim = options.trim.unwrap_or_else(Trim::nothing);
    trim.check(&*store.space, Some(&stream), 0)?;
    let removed = trim.carry_out(store, &mut stream)?;
    if removed > 0 {
        stream.save(store, &argv[1])?;
    }
    Ok(integer(removed))
}

pub(super) fn xdel(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let Some(mut stream) = Stream::open(store, &argv[1])? else { return Ok(integer(0)) };
    let mut removed = 0;
    for id in parse_all(&argv[2..])? {
        if stream.has_entry(&*store.space, id)? {
            stream.delete_entry(store, id);
            stream.deleted = stream.deleted.max(id);
            removed += 1;
        }
    }
    if removed > 0 {
        stream.save(store, &argv[1])?;
    }
    Ok(integer(removed))
}

pub(super) fn xlen(view: &View<'_>, argv: &[Bytes]) -> Done {
    Ok(integer(Stream::find(view, &argv[1])?.map_or(0, |stream| stream.len() as usize)))
}

pub(super) fn xsetid(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let id = parse_strict(&argv[2], 0)?;
    let (mut added, mut deleted) = (None, None);
    for pair in argv[3..].chunks(2) {
        let [word, value] = pair else { return fail(SYNTAX) };
        if word.eq_ignore_ascii_case(b"ENTRIESADDED") {
            let Ok(count) = u64::try_from(parse_integer(value)?) else {
                return fail("ERR entries_added must be positive");
            };
            added = Some(count);
        } else if word.eq_ignore_ascii_case(b"MAXDELETEDID") {
            deleted = Some(parse_strict(value, 0)?);
            if deleted > Some(id) {
                return fail("ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id");
            }
        } else {
            return fail(SYNTAX);
        }
    }
    let Some(mut stream) = Stream::open(store, &argv[1])? else { return fail("ERR no such key") };
    if stream.len() > 0 && id < stream.top(&*store.space)? {
        return fail("ERR The ID specified in XSETID is smaller than the target stream top item");
    }
    if stream.len() > 0 && added.is_some_and(|added| added < stream.len()) {
        return fail("ERR The entries_added specified in XSETID is smaller than the target stream length");
    }
    stream.last = id;
    stream.added = added.unwrap_or(stream.added);
    stream.deleted = deleted.filter(|deleted| *deleted != Id::MIN).unwrap_or(stream.deleted);
    stream.save(store, &argv[1])?;
    Ok(Reply::Ok)
}
