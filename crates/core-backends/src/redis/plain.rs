//! Redis commands on a plain keyspace: a database of strings whose keys JSON clients read and write, too.
//!
//! ```text
//!   begin ──▶ PlainAsk (get, put, delete, swap …) ──the keyspace──▶ PlainAnswer ──next──▶ … ──▶ Done(reply)
//!                          a command that changes a key: get ─▶ run here on the value ─▶ compare-and-set, again where another came first
//! ```
//! Always: a command that changes a key has the effect of one change at one moment, for its compare-and-set holds what it read; a command
//! that cannot be carried out changes nothing.
//! Held by: `a_change_by_somebody_else_is_seen`, `what_a_plain_keyspace_cannot_hold_changes_nothing`.
//! By design: the commands run as in a redis database, on a space in memory that holds the keys they name. Not carried out is what a plain
//! keyspace cannot hold (other types, expiry) or do at one moment (a change of one key that reads others, transactions). MGET reads its keys
//! one by one and DEL removes them one by one, as a proxy before a Redis Cluster does.
//! Not here: the keyspace itself, and who may do what (edge-node sends each ask as an action of the client's own).

use super::overlay::Overlay;
use super::store::{Kind, Moment, Store};
use super::{error_of_unknown, wrong_count, Fail, Reply};
use crate::contract::SpaceRead;
use base_engine::{Direction, EngineError, KeyRange, Visit};
use base_types::redis::{find, matches, CommandSpec, Group, RedisCommand, Use};
use base_types::BATCH_OPERATIONS_MAX;
use bytes::Bytes;

/// A command tries its compare-and-set at most so often.
pub const PLAIN_TRIES_MAX: u32 = 64;
/// KEYS, DBSIZE and RANDOMKEY look at so many keys at most, and a command names so many.
pub const PLAIN_KEYS_MAX: usize = 100_000;

/// Generic commands that a plain keyspace has; of strings, bitmaps and HyperLogLogs it has all.
const GENERIC: &[&str] = &[
    "dbsize",
    "del",
    "dump",
    "exists",
    "expiretime",
    "keys",
    "object",
    "persist",
    "pexpiretime",
    "pttl",
    "randomkey",
    "restore",
    "touch",
    "ttl",
    "type",
    "unlink",
];

/// What the keyspace is asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PlainAsk {
    /// The values of these keys. Answered by `Values`, in their order.
    Get(Vec<Bytes>),
    /// Answered by `Done`.
    Put { key: Bytes, value: Bytes },
    /// All at one moment, or none. Answered by `Done` or `Crosses`.
    PutAll(Vec<(Bytes, Bytes)>),
    /// Answered by `Deleted`.
    Delete(Bytes),
    /// Puts or removes, where the key still has this value. Answered by `Swapped`.
    Swap { key: Bytes, expected: Option<Bytes>, value: Option<Bytes> },
    /// Keys in order behind this one. Answered by `Keys`.
    Keys { after: Option<Bytes> },
    /// It has ended so.
    Done(Reply),
}

/// What it answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PlainAnswer {
    Values(Vec<Option<Bytes>>),
    Done,
    Crosses,
    Deleted(bool),
    Swapped(bool),
    Keys { keys: Vec<Bytes>, more: bool },
}

/// A command on its way.
pub struct PlainCommand {
    words: Vec<Bytes>,
    keys: Vec<Bytes>,
    unix_ms: u64,
    seed: u64,
    state: State,
}

enum State {
    /// A put or a batch of puts is out: this is the reply.
    Put,
    Delete {
        removed: i64,
        next: usize,
    },
    Run {
        tries: u32,
    },
    Swap {
        tries: u32,
        reply: Reply,
    },
    Keys {
        found: Vec<Reply>,
        seen: usize,
    },
}

/// A key's value after a command, where it is another.
type Change = (usize, Option<Bytes>);

impl PlainCommand {
    /// What a command asks first. `unix_ms`, `seed`: as in a call of the door.
    pub fn begin(command: RedisCommand, unix_ms: u64, seed: u64) -> (PlainCommand, PlainAsk) {
        let RedisCommand { database, words } = command;
        let spec = words.first().and_then(|word| find(word));
        let keys = spec.map(|spec| spec.keys_of(&words).into_iter().cloned().collect()).unwrap_or_default();
        let mut own = PlainCommand { words, keys, unix_ms, seed, state: State::Run { tries: 0 } };
        let ask = match own.check(spec, database) {
            Err(refused) => PlainAsk::Done(Reply::Error(refused)),
            Ok(spec) => own.first(spec),
        };
        (own, ask)
    }

    fn check(&self, spec: Option<&'static CommandSpec>, database: u8) -> Result<&'static CommandSpec, String> {
        let spec = spec.filter(|spec| spec.how != Use::Door).ok_or_else(|| error_of_unknown(&self.words))?;
        if !spec.takes(self.words.len()) {
            return Err(wrong_count(spec.name));
        }
        if database != 0 {
            return Err("ERR this database is a plain keyspace, which has number 0 only".into());
        }
        let of_strings = matches!(spec.group, Group::String | Group::Bitmap | Group::HyperLogLog);
        if !of_strings && !GENERIC.contains(&spec.name) {
            return Err(not_here(spec.name));
        }
        let one_by_one = matches!(spec.name, "mset" | "del" | "unlink");
        if spec.how == Use::Write && self.keys.len() > 1 && !one_by_one {
            let name = spec.name.to_ascii_uppercase();
            return Err(format!("ERR {name} of several keys is not one change in a plain keyspace; make a keyspace with kind=redis for it"));
        }
        let most = if spec.name == "mset" { BATCH_OPERATIONS_MAX } else { PLAIN_KEYS_MAX };
        match self.keys.len() > most {
            true => Err(format!("ERR {} keys; at most {most} are taken", self.keys.len())),
            false => Ok(spec),
        }
    }

    fn first(&mut self, spec: &CommandSpec) -> PlainAsk {
        match (spec.name, &self.words[..]) {
            // Whatever is there: nothing needs to be read.
            ("set", [_, key, value]) => {
                self.state = State::Put;
                PlainAsk::Put { key: key.clone(), value: value.clone() }
            }
            ("mset", [_, pairs @ ..]) if pairs.len() % 2 == 0 => {
                self.state = State::Put;
                PlainAsk::PutAll(pairs.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect())
            }
            ("del" | "unlink", _) => self.delete(0, 0),
            ("keys" | "dbsize" | "randomkey", _) => {
                self.state = State::Keys { found: Vec::new(), seen: 0 };
                PlainAsk::Keys { after: None }
            }
            _ => PlainAsk::Get(self.keys.clone()),
        }
    }

    /// What it asks next. An answer to another question than the last one ends it with an error.
    pub fn next(&mut self, answer: PlainAnswer) -> PlainAsk {
        match (std::mem::replace(&mut self.state, State::Put), answer) {
            (State::Put, PlainAnswer::Done) => PlainAsk::Done(Reply::Ok),
            (State::Put, PlainAnswer::Crosses) => {
                PlainAsk::Done(Reply::Error("CROSSSLOT Keys in request don't hash to the same slot".into()))
            }
            (State::Delete { removed, next }, PlainAnswer::Deleted(existed)) => {
                self.delete(removed + i64::from(existed), next)
            }
            (State::Run { tries }, PlainAnswer::Values(values)) => self.run(tries, values),
            (State::Swap { reply, .. }, PlainAnswer::Swapped(true)) => PlainAsk::Done(reply),
            (State::Swap { tries, .. }, PlainAnswer::Swapped(false)) if tries >= PLAIN_TRIES_MAX => {
                PlainAsk::Done(Reply::Error("ERR the key is changed too often by others; try again".into()))
            }
            (State::Swap { tries, .. }, PlainAnswer::Swapped(false)) => {
                self.state = State::Run { tries };
                PlainAsk::Get(self.keys.clone())
            }
            (State::Keys { found, seen }, PlainAnswer::Keys { keys, more }) => self.matching(found, seen, keys, more),
            _ => PlainAsk::Done(Reply::Error("ERR a plain keyspace answered another question; report it".into())),
        }
    }

    fn delete(&mut self, removed: i64, at: usize) -> PlainAsk {
        let Some(key) = self.keys.get(at).cloned() else { return PlainAsk::Done(Reply::Integer(removed)) };
        self.state = State::Delete { removed, next: at + 1 };
        PlainAsk::Delete(key)
    }

    fn matching(&mut self, mut found: Vec<Reply>, seen: usize, keys: Vec<Bytes>, more: bool) -> PlainAsk {
        let (seen, last) = (seen + keys.len(), keys.last().cloned());
        // DBSIZE and RANDOMKEY have no pattern.
        let pattern = self.words.get(1).cloned().unwrap_or_else(|| Bytes::from_static(b"*"));
        found.extend(keys.into_iter().filter(|key| matches(&pattern, key)).map(Reply::Bulk));
        match (more, last) {
            (true, Some(_)) if seen > PLAIN_KEYS_MAX => PlainAsk::Done(Reply::Error(format!(
                "ERR the keyspace has more than {PLAIN_KEYS_MAX} keys, too many to look at in one command; ask KvScan for pages"
            ))),
            (true, Some(last)) => {
                self.state = State::Keys { found, seen };
                PlainAsk::Keys { after: Some(last) }
            }
            _ => PlainAsk::Done(self.of_all(found)),
        }
    }

    /// The reply of a command that has looked at all keys.
    fn of_all(&self, mut found: Vec<Reply>) -> Reply {
        match self.words.first() {
            Some(name) if name.eq_ignore_ascii_case(b"dbsize") => {
                Reply::Integer(i64::try_from(found.len()).unwrap_or(i64::MAX))
            }
            Some(name) if name.eq_ignore_ascii_case(b"randomkey") => match found.len() as u64 {
                0 => Reply::Nil,
                count => found.swap_remove((self.seed % count) as usize),
            },
            _ => Reply::Array(found),
        }
    }

    /// Runs it on what was read.
    fn run(&mut self, tries: u32, values: Vec<Option<Bytes>>) -> PlainAsk {
        let moment = Moment::new(1, self.unix_ms, self.seed);
        let ran = run_on(moment, &self.keys, &values, &self.words);
        let (reply, mut changes) = match ran {
            Ok(ran) => ran,
            Err(Fail::Redis(error)) => return PlainAsk::Done(Reply::Error(error)),
            Err(Fail::Engine(error)) => return PlainAsk::Done(Reply::Error(format!("ERR {error}"))),
        };
        let Some((at, value)) = changes.pop() else { return PlainAsk::Done(reply) };
        let (Some(key), Some(expected)) = (self.keys.get(at).cloned(), values.into_iter().nth(at)) else {
            return PlainAsk::Done(Reply::Error("ERR a command changed a key that it does not name; report it".into()));
        };
        self.state = State::Swap { tries: tries + 1, reply };
        PlainAsk::Swap { key, expected, value }
    }
}

fn not_here(name: &str) -> String {
    let name = name.to_ascii_uppercase();
    format!("ERR {name} is not for a plain keyspace, which holds strings without expiry; make a keyspace with kind=redis for it")
}

/// The reply of a command in a database that holds these values, and what it changes.
fn run_on(
    moment: Moment,
    keys: &[Bytes],
    values: &[Option<Bytes>],
    words: &[Bytes],
) -> Result<(Reply, Vec<Change>), Fail> {
    let mut space = Overlay::new(&Nothing);
    let mut store = Store::open(&mut space, moment)?;
    store.select(0);
    for (key, value) in keys.iter().zip(values) {
        let Some(value) = value else { continue };
        let mut meta = store.find_or_new(key, Kind::String)?;
        meta.value = value.clone();
        store.save(key, &meta);
    }
    let command = RedisCommand { database: 0, words: words.to_vec() };
    let reply = super::calls::run_one(&mut store, &command)?;
    let mut changes = Vec::new();
    for (at, (key, value)) in keys.iter().zip(values).enumerate() {
        let now = match store.find(key)? {
            None => None,
            Some(meta) if meta.kind == Kind::String && meta.expires_ms == 0 => Some(meta.value),
            Some(_) => {
                let name = words.first().map(|name| String::from_utf8_lossy(name).into_owned()).unwrap_or_default();
                return Err(Fail::Redis(not_here(&name)));
            }
        };
        if now != *value {
            changes.push((at, now));
        }
    }
    Ok((reply, changes))
}

/// A space without rows.
struct Nothing;

impl SpaceRead for Nothing {
    fn get(&self, _: &[u8]) -> Result<Option<Bytes>, EngineError> {
        Ok(None)
    }

    fn range(&self, _: KeyRange<'_>, _: Direction, _: Visit<'_>) -> Result<(), EngineError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
