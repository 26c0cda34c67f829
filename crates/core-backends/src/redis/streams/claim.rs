//! XCLAIM and XAUTOCLAIM: pending entries change hands.
//!
//! By design: what does not fit a reply is not claimed, as if it had not been idle for long enough. XAUTOCLAIM's cursor then says where to continue.

use super::super::numbers::integer_of;
use super::super::store::Store;
use super::super::{fail, Done, Fail, Reply, SYNTAX};
use super::entries::{entry_reply, Room};
use super::ids::{parse_start, parse_strict, Id};
use super::members::{check_names, find_group, Change, Pending};
use super::rows::Stream;
use super::wall_ms;
use base_engine::EngineError;
use bytes::Bytes;

/// Entries that one XAUTOCLAIM claims where COUNT is absent.
const COUNT_DEFAULT: u64 = 100;
/// Entries that one XAUTOCLAIM claims at most.
const COUNT_MAX: u64 = 10_000;
/// So many times COUNT are looked at at most.
const ATTEMPTS: u64 = 10;
/// Pending entries that are looked at together.
const PAGE_ENTRIES: usize = 256;

#[derive(Default)]
struct Options {
    ids: Vec<Id>,
    delivered_ms: Option<i64>,
    count: Option<i64>,
    force: bool,
    just_ids: bool,
    last: Id,
}

fn number(word: &[u8], what: &str) -> Result<i64, Fail> {
    integer_of(word).map_or_else(|| fail(format!("ERR Invalid {what} argument for XCLAIM")), Ok)
}

fn options(words: &[Bytes], now: u64) -> Result<Options, Fail> {
    let mut options = Options::default();
    let mut words = words.iter().peekable();
    while let Some(id) = words.peek().and_then(|word| parse_strict(word, 0).ok()) {
        options.ids.push(id);
        words.next();
    }
    while let Some(word) = words.next() {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        match words.peek() {
            _ if is("FORCE") => options.force = true,
            _ if is("JUSTID") => options.just_ids = true,
            Some(value) if is("IDLE") => {
                let idle = number(value, "IDLE option")?;
                options.delivered_ms = Some(i64::try_from(now).unwrap_or(i64::MAX).saturating_sub(idle));
                words.next();
            }
            Some(value) if is("TIME") => {
                options.delivered_ms = Some(number(value, "TIME option")?);
                words.next();
            }
            Some(value) if is("RETRYCOUNT") => {
                options.count = Some(number(value, "RETRYCOUNT option")?).filter(|count| *count >= 0);
                words.next();
            }
            Some(value) if is("LASTID") => {
                options.last = parse_strict(value, 0)?;
                words.next();
            }
            _ => return fail(format!("ERR Unrecognized XCLAIM option '{}'", super::entries::shown(word))),
        }
    }
    Ok(options)
}

/// Opens a group that is there.
fn open(store: &mut Store<'_>, argv: &[Bytes]) -> Result<Change, Fail> {
    let (stream, _): (Stream, _) = find_group(&store.view(), &argv[1], &argv[2], "")?;
    match Change::open(store, stream, &argv[2])? {
        Some(change) => Ok(change),
        None => fail("ERR no such group"),
    }
}

pub(super) fn xclaim(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let now = wall_ms(&store.moment);
    let mut change = open(store, argv)?;
    let idle_ms = u64::try_from(number(&argv[4], "min-idle-time")?).unwrap_or(0);
    let options = options(&argv[5..], now)?;
    check_names(&argv[2], &argv[3])?;
    let mut claimer = Claimer { name: &argv[3], now, number: None };
    change.group.last = change.group.last.max(options.last);
    // A time that is not there yet, or before all times, is taken as now.
    let delivered_ms =
        options.delivered_ms.and_then(|ms| u64::try_from(ms).ok()).filter(|ms| *ms <= now).unwrap_or(now);
    let (mut told, mut room) = (Vec::new(), Room::new());
    for id in &options.ids {
        let old = change.pending(store, *id)?;
        let Some(words) = change.stream.entry(&*store.space, *id)? else {
            if let Some(old) = old {
                change.release(store, *id, old)?;
            }
            continue;
        };
        let late = old.is_some_and(|old| old.idle_ms(now) < idle_ms);
        if late || (old.is_none() && !options.force) || !fits(&mut room, options.just_ids, &words) {
            continue;
        }
        // As in Redis, an entry that FORCE makes pending begins with one delivery.
        let before = old.map_or(1, |old| old.count);
        let count = options.count.unwrap_or(before.saturating_add(i64::from(!options.just_ids)));
        let consumer = claimer.number(&mut change, store)?;
        change.assign(store, *id, old, Pending { consumer, delivered_ms, count })?;
        told.push(claimed(*id, words, options.just_ids));
    }
    change.close(store, &argv[1])?;
    Ok(Reply::Array(told))
}

/// Who claims: made only if there is something to claim, as in Redis.
struct Claimer<'w> {
    name: &'w Bytes,
    now: u64,
    number: Option<u64>,
}

impl Claimer<'_> {
    fn number(&mut self, change: &mut Change, store: &mut Store<'_>) -> Result<u64, EngineError> {
        let number = match self.number {
            Some(number) => number,
            None => change.consumer(store, self.name, self.now)?.0,
        };
        self.number = Some(number);
        Ok(number)
    }
}

fn fits(room: &mut Room, just_ids: bool, words: &[Bytes]) -> bool {
    if just_ids {
        room.take(1, 0)
    } else {
        room.take_entry(words)
    }
}

fn claimed(id: Id, words: Vec<Bytes>, just_ids: bool) -> Reply {
    if just_ids {
        id.reply()
    } else {
        entry_reply((id, words))
    }
}

struct Auto {
    idle_ms: u64,
    start: Id,
    count: u64,
    just_ids: bool,
}

fn auto_options(argv: &[Bytes]) -> Result<Auto, Fail> {
    let Some(idle_ms) = integer_of(&argv[4]) else {
        return fail("ERR Invalid min-idle-time argument for XAUTOCLAIM");
    };
    let start = parse_start(&argv[5])?;
    let mut auto = Auto { idle_ms: u64::try_from(idle_ms).unwrap_or(0), start, count: COUNT_DEFAULT, just_ids: false };
    let mut words = argv[6..].iter();
    while let Some(word) = words.next() {
        if word.eq_ignore_ascii_case(b"JUSTID") {
            auto.just_ids = true;
            continue;
        }
        match words.next() {
            Some(count) if word.eq_ignore_ascii_case(b"COUNT") => {
                auto.count = match integer_of(count).and_then(|count| u64::try_from(count).ok()) {
                    Some(count) if (1..=i64::MAX as u64 / 16).contains(&count) => count.min(COUNT_MAX),
                    _ => return fail("ERR COUNT must be > 0"),
                };
            }
            _ => return fail(SYNTAX),
        }
    }
    Ok(auto)
}

/// What XAUTOCLAIM has found so far.
#[derive(Default)]
struct Found {
    claimed: Vec<Reply>,
    deleted: Vec<Reply>,
    looked_at: u64,
}

pub(super) fn xautoclaim(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let auto = auto_options(argv)?;
    let mut change = open(store, argv)?;
    check_names(&argv[2], &argv[3])?;
    let mut claimer = Claimer { name: &argv[3], now: wall_ms(&store.moment), number: None };
    let mut found = Found::default();
    let next = walk(&mut change, store, &auto, &mut claimer, &mut found)?;
    change.close(store, &argv[1])?;
    Ok(Reply::Array(vec![next.reply(), Reply::Array(found.claimed), Reply::Array(found.deleted)]))
}

/// Returns where to continue; the least id: all were looked at.
fn walk(
    change: &mut Change,
    store: &mut Store<'_>,
    auto: &Auto,
    claimer: &mut Claimer<'_>,
    found: &mut Found,
) -> Result<Id, EngineError> {
    let (mut from, mut room) = (auto.start, Room::new());
    loop {
        let page =
            change.stream.pending_ids(&*store.space, change.group.number, None, (from, Id::MAX), PAGE_ENTRIES)?;
        for id in &page {
            let full = (found.claimed.len() + found.deleted.len()) as u64 >= auto.count;
            if full
                || found.looked_at >= auto.count * ATTEMPTS
                || !take(change, store, auto, claimer, *id, (found, &mut room))?
            {
                return Ok(*id);
            }
            found.looked_at += 1;
        }
        match page.last().and_then(|last| last.next()).filter(|_| page.len() == PAGE_ENTRIES) {
            Some(next) => from = next,
            None => return Ok(Id::MIN),
        }
    }
}

/// Claims an entry, if it is to be. False: the reply cannot take it.
fn take(
    change: &mut Change,
    store: &mut Store<'_>,
    auto: &Auto,
    claimer: &mut Claimer<'_>,
    id: Id,
    (found, room): (&mut Found, &mut Room),
) -> Result<bool, EngineError> {
    let Some(old) = change.pending(store, id)? else { return Ok(true) };
    let Some(words) = change.stream.entry(&*store.space, id)? else {
        if !room.take(1, 0) {
            return Ok(false);
        }
        change.release(store, id, old)?;
        found.deleted.push(id.reply());
        return Ok(true);
    };
    if old.idle_ms(claimer.now) < auto.idle_ms {
        return Ok(true);
    }
    if !fits(room, auto.just_ids, &words) {
        return Ok(false);
    }
    let count = old.count.saturating_add(i64::from(!auto.just_ids));
    let consumer = claimer.number(change, store)?;
    change.assign(store, id, Some(old), Pending { consumer, delivered_ms: claimer.now, count })?;
    found.claimed.push(claimed(id, words, auto.just_ids));
    Ok(true)
}
