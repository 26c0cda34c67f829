//! A twin of a Redis database: the few commands that simulated clients send, and what each must answer.
//!
//! The cluster's time is known where a call was answered, for each call asks for it. Of a call whose answer was lost it lies between
//! its neighbours'. So a key's end may lie between two times, and a command may come where nobody can say whether the key is there.
//! Then the twin does not know what the key is, until a command says so by itself.
//!
//! By design: nothing of the backend is used here, so that one mistake is not made twice.
//! Not here: which command came when (the parent).

use base_types::redis::{RedisCommand, RedisReply};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};

/// A key of a database.
pub type Place = (u8, Bytes);

/// When a call was carried out, by the cluster's time in milliseconds: not before `low`, and not after `high`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moment {
    pub low: u64,
    pub high: u64,
    /// The door's clock.
    pub unix_ms: u64,
}

impl Moment {
    fn plus(&self, ms: u64) -> (u64, u64) {
        (self.low + ms, self.high + ms)
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Value {
    Text(Bytes),
    Hash(BTreeMap<Bytes, Bytes>),
    List(VecDeque<Bytes>),
    Sorted(BTreeMap<Bytes, i64>),
    /// Nobody knows what it is, nor whether it is there.
    Unknown,
}

#[derive(Clone, Debug)]
struct Item {
    value: Value,
    /// It expires not before the first, and has by the second.
    expires: Option<(u64, u64)>,
    /// The calls that have been carried out with its last change.
    changed: usize,
}

/// All databases, and what was published.
#[derive(Default)]
pub struct Twin {
    items: BTreeMap<Place, Item>,
    pub published: Vec<(Bytes, Bytes)>,
    /// Which calls changed a key, by the number of calls carried out before them.
    pub changes: BTreeMap<Place, Vec<usize>>,
}

fn integer(number: usize) -> Option<RedisReply> {
    Some(RedisReply::Integer(number as i64))
}

fn number_of(word: &Bytes) -> i64 {
    std::str::from_utf8(word).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn bulk(value: Option<Bytes>) -> Option<RedisReply> {
    Some(value.map_or(RedisReply::Nil, RedisReply::Bulk))
}

impl Twin {
    /// Whether a key is there. None: nobody knows.
    fn holds(&self, key: &Place, at: &Moment) -> Option<bool> {
        let Some(item) = self.items.get(key) else { return Some(false) };
        match item.expires {
            Some((_, last)) if last <= at.low => Some(false),
            Some((first, _)) if first <= at.high => None,
            _ if item.value == Value::Unknown => None,
            _ => Some(true),
        }
    }

    /// Of a key that expires: the number of calls with its last change, and whether it has expired. None: nobody knows, or it does not.
    pub fn ended(&self, key: &Place, at: &Moment) -> Option<(usize, bool)> {
        let item = self.items.get(key).filter(|item| item.value != Value::Unknown)?;
        let (first, last) = item.expires?;
        (last <= at.low || first > at.high).then_some((item.changed, last <= at.low))
    }

    /// The number of calls with its last change; 0: it is not there. None: nobody knows.
    pub fn changed(&self, key: &Place, at: &Moment) -> Option<usize> {
        self.holds(key, at).map(|there| if there { self.items[key].changed } else { 0 })
    }

    /// Carries out one command of the call before which so many were carried out. Gives its reply. None: nobody knows.
    pub fn run(&mut self, command: &RedisCommand, at: &Moment, before: usize) -> Option<RedisReply> {
        let words = &command.words;
        let name = words.first().map(|name| name.to_ascii_lowercase()).unwrap_or_default();
        if name == b"publish" {
            self.published.push((words[1].clone(), words[2].clone()));
            return integer(0);
        }
        let key = (command.database, words.get(1).cloned().unwrap_or_default());
        match self.read(&name, words, &key, at) {
            Read::Reply(reply) => reply,
            Read::Writes => self.write(&name, words, key, at, before),
        }
    }

    fn read(&self, name: &[u8], words: &[Bytes], key: &Place, at: &Moment) -> Read {
        let known = self.holds(key, at);
        let item = self.items.get(key).filter(|_| known == Some(true));
        let value = item.map(|item| &item.value);
        let reply = match (name, value) {
            (b"get", Some(Value::Text(text))) => bulk(Some(text.clone())),
            (b"hget", Some(Value::Hash(fields))) => bulk(fields.get(&words[2]).cloned()),
            (b"llen", Some(Value::List(list))) => integer(list.len()),
            (b"lrange", Some(Value::List(list))) => {
                Some(RedisReply::Array(list.iter().cloned().map(RedisReply::Bulk).collect()))
            }
            (b"zrange", Some(Value::Sorted(members))) => {
                let mut all: Vec<_> = members.iter().map(|(member, score)| (*score, member.clone())).collect();
                all.sort();
                Some(RedisReply::Array(all.into_iter().map(|(_, member)| RedisReply::Bulk(member)).collect()))
            }
            (b"pttl", Some(_)) => match item.and_then(|item| item.expires) {
                None => Some(RedisReply::Integer(-1)),
                Some((first, last)) if first == last && at.low == at.high => {
                    Some(RedisReply::Integer((first - at.low) as i64))
                }
                Some(_) => None,
            },
            (b"get" | b"hget", None) => bulk(None),
            (b"llen", None) => integer(0),
            (b"lrange" | b"zrange", None) => Some(RedisReply::Array(Vec::new())),
            (b"pttl", None) => Some(RedisReply::Integer(-2)),
            _ => return Read::Writes,
        };
        Read::Reply(reply.filter(|_| known.is_some()))
    }

    fn write(&mut self, name: &[u8], words: &[Bytes], key: Place, at: &Moment, before: usize) -> Option<RedisReply> {
        let known = self.holds(&key, at);
        if known == Some(false) {
            self.items.remove(&key);
        }
        let sets = name == b"set" && !words.iter().any(|word| &word[..] == b"NX");
        if known.is_none() && !sets && name != b"del" {
            // Whatever it did, it may have done it to nothing.
            self.change(key.clone(), Value::Unknown, None, before);
            return None;
        }
        let old = self.items.get(&key).cloned();
        match name {
            b"set" => self.set(words, key, at, before),
            b"del" => {
                if let Some(item) = self.items.remove(&key) {
                    self.changes.entry(key).or_default().push(before);
                    return if item.value == Value::Unknown || known.is_none() { None } else { integer(1) };
                }
                integer(0)
            }
            b"expire" | b"pexpire" | b"pexpireat" | b"persist" => self.expire(name, words, key, at, before),
            _ => {
                let expires = old.as_ref().and_then(|item| item.expires);
                let (value, reply) = changed(name, words, old.map(|item| item.value))?;
                match value {
                    Some(value) => self.change(key, value, expires, before),
                    None if self.items.remove(&key).is_some() => self.changes.entry(key).or_default().push(before),
                    None => {}
                }
                Some(reply)
            }
        }
    }

    fn set(&mut self, words: &[Bytes], key: Place, at: &Moment, before: usize) -> Option<RedisReply> {
        let (mut ends, mut absent, mut rest) = (None, false, words[3..].iter());
        while let Some(word) = rest.next() {
            match &word[..] {
                b"NX" => absent = true,
                b"PX" => ends = rest.next().map(|ms| at.plus(number_of(ms).unsigned_abs())),
                _ => return None,
            }
        }
        if absent && self.items.contains_key(&key) {
            return Some(RedisReply::Nil);
        }
        self.change(key, Value::Text(words[2].clone()), ends, before);
        Some(RedisReply::Ok)
    }

    fn expire(&mut self, name: &[u8], words: &[Bytes], key: Place, at: &Moment, before: usize) -> Option<RedisReply> {
        let Some(item) = self.items.get(&key).cloned() else { return integer(0) };
        if item.value == Value::Unknown {
            return None;
        }
        let ends = match name {
            b"persist" if item.expires.is_none() => return integer(0),
            b"persist" => None,
            b"expire" => Some(at.plus(number_of(&words[2]).unsigned_abs() * 1_000)),
            b"pexpire" => Some(at.plus(number_of(&words[2]).unsigned_abs())),
            _ => {
                let left = number_of(&words[2]) - at.unix_ms as i64;
                if left <= 0 {
                    self.items.remove(&key);
                    self.changes.entry(key).or_default().push(before);
                    return integer(1);
                }
                Some(at.plus(left as u64))
            }
        };
        self.change(key, item.value, ends, before);
        integer(1)
    }

    fn change(&mut self, key: Place, value: Value, expires: Option<(u64, u64)>, before: usize) {
        self.changes.entry(key.clone()).or_default().push(before);
        self.items.insert(key, Item { value, expires, changed: before + 1 });
    }
}

enum Read {
    Reply(Option<RedisReply>),
    /// The command writes.
    Writes,
}

/// What a command makes of a value, and its reply. None: the twin does not know the command, or the value is of another kind.
fn changed(name: &[u8], words: &[Bytes], old: Option<Value>) -> Option<(Option<Value>, RedisReply)> {
    let some = |value, reply| Some((Some(value), reply));
    match (name, old) {
        (b"incr", old) => {
            let was = match old {
                None => 0,
                Some(Value::Text(text)) => number_of(&text),
                Some(_) => return None,
            };
            some(Value::Text(Bytes::from((was + 1).to_string())), RedisReply::Integer(was + 1))
        }
        (b"hset", old) => {
            let mut fields = match old {
                None => BTreeMap::new(),
                Some(Value::Hash(fields)) => fields,
                Some(_) => return None,
            };
            let fresh = fields.insert(words[2].clone(), words[3].clone()).is_none();
            some(Value::Hash(fields), RedisReply::Integer(i64::from(fresh)))
        }
        (b"zadd", old) => {
            let mut members = match old {
                None => BTreeMap::new(),
                Some(Value::Sorted(members)) => members,
                Some(_) => return None,
            };
            let fresh = members.insert(words[3].clone(), number_of(&words[2])).is_none();
            some(Value::Sorted(members), RedisReply::Integer(i64::from(fresh)))
        }
        (b"lpush" | b"rpush", old) => {
            let mut list = match old {
                None => VecDeque::new(),
                Some(Value::List(list)) => list,
                Some(_) => return None,
            };
            if name == b"lpush" {
                list.push_front(words[2].clone());
            } else {
                list.push_back(words[2].clone());
            }
            let count = list.len() as i64;
            some(Value::List(list), RedisReply::Integer(count))
        }
        (b"lpop" | b"rpop", None) => Some((None, RedisReply::Nil)),
        (b"blpop" | b"brpop", None) => Some((None, RedisReply::NilArray)),
        (b"lpop" | b"blpop" | b"rpop" | b"brpop", Some(Value::List(mut list))) => {
            let taken = if name.ends_with(b"lpop") { list.pop_front() } else { list.pop_back() }?;
            let reply = match name.starts_with(b"b") {
                true => RedisReply::Array(vec![RedisReply::Bulk(words[1].clone()), RedisReply::Bulk(taken)]),
                false => RedisReply::Bulk(taken),
            };
            Some(((!list.is_empty()).then_some(Value::List(list)), reply))
        }
        _ => None,
    }
}
