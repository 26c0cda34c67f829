//! When keys expire: the EXPIRE family, TTL and its like.
//!
//! By design: a key expires by the cluster's time. A date is as far from it as it is from the clock of the door that was asked.
//! Not here: the removal of what has expired (`store.rs`).

use super::numbers::parse_integer;
use super::store::{Moment, Store, View};
use super::table::{read, write, Entry};
use super::{fail, integer, Done, Fail, Reply};
use bytes::Bytes;

/// What this file answers.
pub(super) const COMMANDS: &[Entry] = &[
    write("expire", expire),
    write("pexpire", pexpire),
    write("expireat", expireat),
    write("pexpireat", pexpireat),
    write("persist", persist),
    read("ttl", ttl),
    read("pttl", pttl),
    read("expiretime", expiretime),
    read("pexpiretime", pexpiretime),
];

fn expire(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    set_expiry("expire", Unit::SECONDS, store, argv)
}

fn pexpire(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    set_expiry("pexpire", Unit::MILLISECONDS, store, argv)
}

fn expireat(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    set_expiry("expireat", Unit::DATE_SECONDS, store, argv)
}

fn pexpireat(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    set_expiry("pexpireat", Unit::DATE_MILLISECONDS, store, argv)
}

/// How a time is named: how many milliseconds one is, and whether it is a date.
#[derive(Clone, Copy)]
pub(super) struct Unit {
    ms: i64,
    date: bool,
}

impl Unit {
    pub const SECONDS: Unit = Unit { ms: 1000, date: false };
    pub const MILLISECONDS: Unit = Unit { ms: 1, date: false };
    pub const DATE_SECONDS: Unit = Unit { ms: 1000, date: true };
    pub const DATE_MILLISECONDS: Unit = Unit { ms: 1, date: true };

    /// The cluster's time that `amount` means; none: it is out of range.
    fn cluster_ms(self, moment: &Moment, amount: i64) -> Result<Option<i64>, Fail> {
        let now = i64::try_from(moment.now).unwrap_or(i64::MAX);
        let unix = i64::try_from(moment.unix_ms).unwrap_or(i64::MAX);
        let Some(ms) = amount.checked_mul(self.ms) else { return Ok(None) };
        if !self.date {
            // What PEXPIRETIME says of it must be a number, too.
            return Ok(ms.checked_add(now.max(unix)).and(ms.checked_add(now)));
        }
        if moment.unix_ms == 0 {
            return fail(
                "ERR dates are taken from clients of the Redis door, whose clock they are of; give a duration",
            );
        }
        // The farthest past there is has passed.
        Ok(Some(ms.saturating_sub(unix).saturating_add(now)))
    }

    /// As above, of SET and its like: only positive amounts are taken. What has passed is now.
    pub fn of_set(self, command: &str, moment: &Moment, amount: &[u8]) -> Result<u64, Fail> {
        let amount = parse_integer(amount)?;
        let at = if amount > 0 { self.cluster_ms(moment, amount)? } else { None };
        // i64 as Redis has it, so that PTTL can always tell it.
        match at {
            Some(at) => Ok(u64::try_from(at).unwrap_or(0).max(1)),
            None => fail(format!("ERR invalid expire time in '{command}' command")),
        }
    }
}

fn set_expiry(name: &str, unit: Unit, store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let amount = parse_integer(&argv[2])?;
    let condition = Condition::parse(&argv[3..])?;
    let now = i64::try_from(store.now()).unwrap_or(i64::MAX);
    let Some(at) = unit.cluster_ms(&store.moment, amount)? else {
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

fn persist(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    match store.find(&argv[1])? {
        Some(mut meta) if meta.expires_ms != 0 => {
            meta.expires_ms = 0;
            store.save(&argv[1], &meta);
            Ok(integer(1))
        }
        _ => Ok(integer(0)),
    }
}

fn ttl(view: &View<'_>, argv: &[Bytes]) -> Done {
    let left = left_ms(view, &argv[1])?;
    Ok(Reply::Integer(if left < 0 { left } else { left.saturating_add(500) / 1000 }))
}

fn pttl(view: &View<'_>, argv: &[Bytes]) -> Done {
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

fn expiretime(view: &View<'_>, argv: &[Bytes]) -> Done {
    let at = date_ms(view, &argv[1])?;
    Ok(Reply::Integer(if at < 0 { at } else { at.saturating_add(500) / 1000 }))
}

fn pexpiretime(view: &View<'_>, argv: &[Bytes]) -> Done {
    Ok(Reply::Integer(date_ms(view, &argv[1])?))
}

/// As `left_ms`, by the door's clock.
fn date_ms(view: &View<'_>, key: &[u8]) -> Result<i64, Fail> {
    let left = left_ms(view, key)?;
    let unix = i64::try_from(view.moment.unix_ms).unwrap_or(i64::MAX);
    Ok(if left < 0 { left } else { left.saturating_add(unix) })
}
