//! What a call of Redis needs: for each command the verbs read and write on its keys, by the table of commands.
//!
//! ```text
//!   GET a            read redis/D/a              SET a v            write redis/D/a
//!   INCR a           read and write (it shows what was there)       SINTERSTORE d a b   write d, read a, read b
//!   DBSIZE, SCAN     read redis/D                FLUSHDB, PUBLISH   write redis/D
//! ```
//! By design: what does not say its keys in the way of its table entry needs the whole database; a command that is not known, or that is the
//! door's, needs nothing, because the database answers it with an error. Databases 0 to 15 of a keyspace have the same rights. Deleting is
//! writing: nearly every command that writes can leave a key empty, which removes it.
//! Not here: scripts (the door runs them, and asks for each command that they call).

use super::{cluster, Need};
use crate::pattern::{Keys, Kind, Target};
use crate::verb::Verb::{self, Read, Write};
use base_types::action::KvTarget;
use base_types::redis::{
    find, CommandSpec, KeyVersion, Keys as Words, RedisAsk, RedisCall, Use, LIBRARIES_KEY, SCRIPTS_DATABASE,
};
use bytes::Bytes;

/// Of commands that write: those whose replies show nothing of the values that were there. All others need read, too. Sorted.
const SHOW_NOTHING: &[&str] = &[
    "append",
    "del",
    "expire",
    "expireat",
    "flushall",
    "flushdb",
    "geoadd",
    "hdel",
    "hmset",
    "hset",
    "hsetnx",
    "linsert",
    "lpush",
    "lpushx",
    "lrem",
    "lset",
    "ltrim",
    "mset",
    "msetnx",
    "persist",
    "pexpire",
    "pexpireat",
    "pfadd",
    "psetex",
    "publish",
    "restore",
    "rpush",
    "rpushx",
    "sadd",
    "set",
    "setex",
    "setnx",
    "setrange",
    "spublish",
    "srem",
    "unlink",
    "xack",
    "xadd",
    "xdel",
    "xgroup",
    "xsetid",
    "xtrim",
    "zadd",
    "zrem",
    "zremrangebylex",
    "zremrangebyrank",
    "zremrangebyscore",
];

/// The first key is written and the others are read.
const FIRST_IS_WRITTEN: &[&str] =
    &["bitop", "geosearchstore", "pfmerge", "sdiffstore", "sinterstore", "sunionstore", "zrangestore"];

/// Words that have a command show what was there after all: `SET k v GET`, `ZADD k INCR 1 m`.
const SHOWING: &[(&str, &[u8])] = &[("set", b"GET"), ("zadd", b"INCR")];

/// Commands by which a script is added to those that are kept.
const SCRIPT_WRITES: &[&str] = &["hset", "incrby"];

type Check<'c, 'a, E> = &'c mut dyn FnMut(Need<'a>) -> Result<(), E>;

/// Of plain words: `Action::Redis`.
pub(super) fn words<'a, E>(target: &'a KvTarget, words: &'a [Bytes], check: Check<'_, 'a, E>) -> Result<(), E> {
    match target {
        KvTarget::Cluster(name) => raw(check, cluster(name)),
        KvTarget::Keyspace(name) => command(name, words, check),
    }
}

/// Of a call of the door.
pub(super) fn call<'a, E>(target: &'a KvTarget, call: &'a RedisCall, check: Check<'_, 'a, E>) -> Result<(), E> {
    let name = match target {
        KvTarget::Cluster(name) => return raw(check, cluster(name)),
        KvTarget::Keyspace(name) => name,
    };
    let mut read_all = |keys: &'a [KeyVersion]| {
        keys.iter().try_for_each(|key| match key.database {
            SCRIPTS_DATABASE.. => check(Need { verb: Read, target: database(name, Keys::Any) }),
            _ => one(name, Read, &key.key, check),
        })
    };
    match &call.ask {
        RedisAsk::Versions { keys } | RedisAsk::AwaitKeys { keys } => return read_all(keys),
        RedisAsk::Transaction { watched, .. } | RedisAsk::Try { watched, .. } | RedisAsk::Script { watched, .. } => {
            read_all(watched)?;
        }
        RedisAsk::Commands { .. } => {}
        // Messages of all channels.
        RedisAsk::Messages { .. } => return whole(name, Read, check),
        // Refused from every client.
        RedisAsk::Sweep => return check(Need { verb: Write, target: database(name, Keys::Any) }),
    }
    call.commands().iter().try_for_each(|one| match one.database {
        SCRIPTS_DATABASE.. => script(name, &one.words, check),
        _ => command(name, &one.words, check),
    })
}

/// Of a cluster by its name: what lies there may be anybody's.
fn raw<'a, E>(check: Check<'_, 'a, E>, target: Target<'a>) -> Result<(), E> {
    check(Need { verb: Read, target })?;
    check(Need { verb: Write, target })
}

/// Where scripts are kept: who may read any key may use and add one, for what a script may do is asked of each of its commands. To remove
/// all of them needs all. So does every change of a library: its functions have a name that others call with rights of their own.
fn script<'a, E>(name: &'a str, words: &'a [Bytes], check: Check<'_, 'a, E>) -> Result<(), E> {
    let spec = words.first().and_then(|word| find(word));
    let adds =
        |spec: &CommandSpec| SCRIPT_WRITES.contains(&spec.name) && words.get(1).is_some_and(|key| key != LIBRARIES_KEY);
    if spec.is_some_and(|spec| spec.how == Use::Read || adds(spec)) {
        return check(Need { verb: Read, target: database(name, Keys::Any) });
    }
    whole(name, Write, check)
}

fn command<'a, E>(name: &'a str, words: &'a [Bytes], check: Check<'_, 'a, E>) -> Result<(), E> {
    let Some(spec) = words.first().and_then(|word| find(word)).filter(|spec| spec.how != Use::Door) else {
        return Ok(());
    };
    if reads_elsewhere(spec, words) {
        whole(name, Read, check)?;
    }
    let keys = spec.keys_of(words);
    let counted = match spec.keys {
        Words::None => return verbs_of(spec, words, 0).iter().try_for_each(|verb| whole(name, *verb, check)),
        Words::Words { .. } | Words::FirstAndStore => true,
        Words::Counted(_) | Words::AfterStreams => !keys.is_empty(),
        Words::FirstAndCounted(_) => keys.len() > 1,
    };
    if !counted {
        whole(name, Read, check)?;
        return if spec.how == Use::Write { whole(name, Write, check) } else { Ok(()) };
    }
    for (number, key) in keys.into_iter().enumerate() {
        verbs_of(spec, words, number).iter().try_for_each(|verb| one(name, *verb, key, check))?;
    }
    Ok(())
}

/// What is done to the key with this number (from 0).
fn verbs_of(spec: &CommandSpec, words: &[Bytes], number: usize) -> &'static [Verb] {
    let first_is_written = FIRST_IS_WRITTEN.contains(&spec.name) || matches!(spec.keys, Words::FirstAndCounted(_));
    match spec.how {
        Use::Read | Use::Door => &[Read],
        // SORT and GEORADIUS read the first; others are named behind STORE.
        Use::Write if spec.keys == Words::FirstAndStore => {
            if number == 0 {
                &[Read]
            } else {
                &[Write]
            }
        }
        Use::Write if first_is_written => {
            if number == 0 {
                &[Write]
            } else {
                &[Read]
            }
        }
        Use::Write if spec.name == "copy" => {
            if number == 0 {
                &[Read]
            } else {
                &[Write]
            }
        }
        Use::Write if SHOW_NOTHING.contains(&spec.name) && !shows(spec, words) => &[Write],
        Use::Write => &[Read, Write],
    }
}

fn shows(spec: &CommandSpec, words: &[Bytes]) -> bool {
    let word = SHOWING.iter().find(|(name, _)| *name == spec.name).map(|(_, word)| *word);
    word.is_some_and(|word| words.iter().skip(2).any(|own| own.eq_ignore_ascii_case(word)))
}

/// SORT's BY and GET make names of keys out of what is sorted.
fn reads_elsewhere(spec: &CommandSpec, words: &[Bytes]) -> bool {
    let names = |word: &Bytes| word.eq_ignore_ascii_case(b"BY") || word.eq_ignore_ascii_case(b"GET");
    matches!(spec.name, "sort" | "sort_ro")
        && words
            .windows(2)
            .skip(2)
            .any(|pair| matches!(pair, [word, pattern] if names(word) && pattern.contains(&b'*')))
}

fn database<'a>(name: &'a str, keys: Keys<'a>) -> Target<'a> {
    Target { kind: Kind::Redis, name: Some(name), keys }
}

fn one<'a, E>(name: &'a str, verb: Verb, key: &'a Bytes, check: Check<'_, 'a, E>) -> Result<(), E> {
    check(Need { verb, target: database(name, Keys::One(key)) })
}

fn whole<'a, E>(name: &'a str, verb: Verb, check: Check<'_, 'a, E>) -> Result<(), E> {
    check(Need { verb, target: database(name, Keys::ALL) })
}

#[cfg(test)]
mod tests;
