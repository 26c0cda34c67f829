//! The commands of Redis 7: how many words each takes, whether it reads or writes, and which of its words are keys.
//!
//! By design: one table for the core, the door and who decides about access; sorted by name (`the_table_is_sorted`).
//! Not here: what a command does (`redis/` in core-backends; door-redis for [`Use::Door`]).

use alloc::vec::Vec;
use bytes::Bytes;

/// Who carries a command out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// The database, without an entry of the log.
    Read,
    /// The database, by an entry of the log.
    Write,
    /// The door: it is about the connection, the node, or makes calls of its own.
    Door,
}

/// Which words are keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keys {
    None,
    /// From `first` to `last` (negative: from the end, -1 is the last word), every `step`th.
    Words {
        first: usize,
        last: isize,
        step: usize,
    },
    /// The word with this number says how many follow it.
    Counted(usize),
    /// The first word after the name, and a count as in `Counted`.
    FirstAndCounted(usize),
    /// The first word after the name, and the one after `STORE` or `STOREDIST`.
    FirstAndStore,
    /// The first half of what follows `STREAMS`.
    AfterStreams,
}

/// What a command is about, as Redis' documentation groups them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    String,
    Bitmap,
    Generic,
    Hash,
    List,
    Set,
    SortedSet,
    Stream,
    HyperLogLog,
    Geo,
    Server,
    PubSub,
    Transactions,
    Scripting,
    Connection,
    Cluster,
    /// Hive's own.
    Hive,
}

/// What is known of a command before it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommandSpec {
    /// In lower case.
    pub name: &'static str,
    /// As Redis counts: the name is a word; negative means "at least".
    pub arity: i32,
    pub how: Use,
    pub keys: Keys,
    pub group: Group,
    /// It takes the same time whatever there is.
    pub fast: bool,
    /// A client may wait for it.
    pub blocking: bool,
}

impl CommandSpec {
    /// Whether it takes so many words, its name counted.
    pub fn takes(&self, words: usize) -> bool {
        let wanted = self.arity.unsigned_abs() as usize;
        if self.arity < 0 {
            words >= wanted
        } else {
            words == wanted
        }
    }

    /// The keys among a command's words. What does not fit (a count beyond the words) gives none: the command itself says what is wrong.
    pub fn keys_of<'w>(&self, words: &'w [Bytes]) -> Vec<&'w Bytes> {
        match self.keys {
            Keys::None => Vec::new(),
            Keys::Words { first, last, step } => {
                let last = if last < 0 { words.len().checked_add_signed(last) } else { Some(last.unsigned_abs()) };
                let end = last.map_or(0, |last| last.saturating_add(1)).min(words.len());
                words.get(first..end).unwrap_or_default().iter().step_by(step).collect()
            }
            Keys::Counted(at) => counted(words, at),
            Keys::FirstAndCounted(at) => words.get(1).into_iter().chain(counted(words, at)).collect(),
            Keys::FirstAndStore => {
                let stored = words.windows(2).skip(2).filter(|pair| is_store(&pair[0])).map(|pair| &pair[1]);
                words.get(1).into_iter().chain(stored).collect()
            }
            Keys::AfterStreams => {
                let rest = behind_streams(words);
                rest.iter().take(rest.len() / 2).collect()
            }
        }
    }
}

/// What follows `STREAMS`: the word itself, not a group or a consumer of that name.
fn behind_streams(words: &[Bytes]) -> &[Bytes] {
    let mut at = 1;
    while let Some(word) = words.get(at) {
        let is = |name: &[u8]| word.eq_ignore_ascii_case(name);
        at += match () {
            () if is(b"STREAMS") => return words.get(at + 1..).unwrap_or_default(),
            () if is(b"GROUP") => 3,
            () if is(b"COUNT") || is(b"BLOCK") => 2,
            () => 1,
        };
    }
    &[]
}

fn is_store(word: &Bytes) -> bool {
    word.eq_ignore_ascii_case(b"STORE") || word.eq_ignore_ascii_case(b"STOREDIST")
}

fn counted(words: &[Bytes], at: usize) -> Vec<&Bytes> {
    let count = words.get(at).and_then(|word| core::str::from_utf8(word).ok()).and_then(|word| word.parse().ok());
    let end = count.and_then(|count: usize| count.checked_add(at + 1));
    end.and_then(|end| words.get(at + 1..end)).unwrap_or_default().iter().collect()
}

/// Names are compared without regard to case.
pub fn find(name: &[u8]) -> Option<&'static CommandSpec> {
    let found = COMMANDS.binary_search_by(|spec| {
        let wanted = name.iter().map(u8::to_ascii_lowercase);
        spec.name.bytes().cmp(wanted)
    });
    found.ok().and_then(|at| COMMANDS.get(at))
}

const fn c(
    name: &'static str,
    arity: i32,
    how: Use,
    keys: Keys,
    group: Group,
    fast: bool,
    blocking: bool,
) -> CommandSpec {
    CommandSpec { name, arity, how, keys, group, fast, blocking }
}

/// All of them, by name.
#[rustfmt::skip]
pub const COMMANDS: &[CommandSpec] = &[
    c("acl", -2, Use::Door, Keys::None, Group::Server, false, false),
    c("append", 3, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::String, true, false),
    c("asking", 1, Use::Door, Keys::None, Group::Cluster, true, false),
    c("auth", -2, Use::Door, Keys::None, Group::Connection, true, false),
    c("bgrewriteaof", 1, Use::Door, Keys::None, Group::Server, false, false),
    c("bgsave", -1, Use::Door, Keys::None, Group::Server, false, false),
    c("bitcount", -2, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::Bitmap, false, false),
    c("bitfield", -2, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::Bitmap, false, false),
    c("bitfield_ro", -2, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::Bitmap, true, false),
    c("bitop", -4, Use::Write, Keys::Words { first: 2, last: -1, step: 1 }, Group::Bitmap, false, false),
    c("bitpos", -3, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::Bitmap, false, false),
    c("blmove", 6, Use::Write, Keys::Words { first: 1, last: 2, step: 1 }, Group::List, false, true),
    c("blmpop", -5, Use::Write, Keys::Counted(2), Group::List, false, true),
    c("blpop", -3, Use::Write, Keys::Words { first: 1, last: -2, step: 1 }, Group::List, false, true),
    c("brpop", -3, Use::Write, Keys::Words { first: 1, last: -2, step: 1 }, Group::List, false, true),
    c("brpoplpush", 4, Use::Write, Keys::Words { first: 1, last: 2, step: 1 }, Group::List, false, true),
    c("bzmpop", -5, Use::Write, Keys::Counted(2), Group::SortedSet, false, true),
    c("bzpopmax", -3, Use::Write, Keys::Words { first: 1, last: -2, step: 1 }, Group::SortedSet, true, true),
    c("bzpopmin", -3, Use::Write, Keys::Words { first: 1, last: -2, step: 1 }, Group::SortedSet, true, true),
    c("client", -2, Use::Door, Keys::None, Group::Connection, false, false),
    c("cluster", -2, Use::Door, Keys::None, Group::Cluster, false, false),
    c("command", -1, Use::Door, Keys::None, Group::Server, false, false),
    c("config", -2, Use::Door, Keys::None, Group::Server, false, false),
    c("copy", -3, Use::Write, Keys::Words { first: 1, last: 2, step: 1 }, Group::Generic, false, false),
    c("dbsize", 1, Use::Read, Keys::None, Group::Server, true, false),
    c("debug", -2, Use::Door, Keys::None, Group::Server, false, false),
    c("decr", 2, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::String, true, false),
    c("decrby", 3, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::String, true, false),
    c("del", -2, Use::Write, Keys::Words { first: 1, last: -1, step: 1 }, Group::Generic, false, false),
    c("delex", -2, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::String, true, false),
    c("discard", 1, Use::Door, Keys::None, Group::Transactions, true, false),
    c("dump", 2, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::Generic, false, false),
    c("echo", 2, Use::Door, Keys::None, Group::Connection, true, false),
    c("eval", -3, Use::Door, Keys::Counted(2), Group::Scripting, false, false),
    c("eval_ro", -3, Use::Door, Keys::Counted(2), Group::Scripting, false, false),
    c("evalsha", -3, Use::Door, Keys::Counted(2), Group::Scripting, false, false),
    c("evalsha_ro", -3, Use::Door, Keys::Counted(2), Group::Scripting, false, false),
    c("exec", 1, Use::Door, Keys::None, Group::Transactions, false, false),
    c("exists", -2, Use::Read, Keys::Words { first: 1, last: -1, step: 1 }, Group::Generic, true, false),
    c("expire", -3, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::Generic, true, false),
    c("expireat", -3, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::Generic, true, false),
    c("expiretime", 2, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::Generic, true, false),
    c("failover", -1, Use::Door, Keys::None, Group::Server, false, false),
    c("fcall", -3, Use::Door, Keys::Counted(2), Group::Scripting, false, false),
    c("fcall_ro", -3, Use::Door, Keys::Counted(2), Group::Scripting, false, false),
    c("flushall", -1, Use::Write, Keys::None, Group::Server, false, false),
    c("flushdb", -1, Use::Write, Keys::None, Group::Server, false, false),
    c("function", -2, Use::Door, Keys::None, Group::Scripting, false, false),
    c("geoadd", -5, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::Geo, false, false),
    c("geodist", -4, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::Geo, false, false),
    c("geohash", -2, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::Geo, false, false),
    c("geopos", -2, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::Geo, false, false),
    c("georadius", -6, Use::Write, Keys::FirstAndStore, Group::Geo, false, false),
    c("georadius_ro", -6, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::Geo, false, false),
    c("georadiusbymember", -5, Use::Write, Keys::FirstAndStore, Group::Geo, false, false),
    c("georadiusbymember_ro", -5, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::Geo, false, false),
    c("geosearch", -7, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::Geo, false, false),
    c("geosearchstore", -8, Use::Write, Keys::Words { first: 1, last: 2, step: 1 }, Group::Geo, false, false),
    c("get", 2, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::String, true, false),
    c("getbit", 3, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::Bitmap, true, false),
    c("getdel", 2, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::String, true, false),
    c("getex", -2, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::String, true, false),
    c("getrange", 4, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::String, false, false),
    c("getset", 3, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::String, true, false),
    c("hdel", -3, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::Hash, true, false),
    c("hello", -1, Use::Door, Keys::None, Group::Connection, true, false),
    c("hexists", 3, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::Hash, true, false),
    c("hget", 3, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::Hash, true, false),
    c("hgetall", 2, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::Hash, false, false),
    c("hincrby", 4, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::Hash, true, false),
    c("hincrbyfloat", 4, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::Hash, true, false),
    c("hive", -2, Use::Door, Keys::None, Group::Hive, false, false),
    c("hkeys", 2, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::Hash, false, false),
    c("hlen", 2, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::Hash, true, false),
    c("hmget", -3, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::Hash, true, false),
    c("hmset", -4, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::Hash, true, false),
    c("hrandfield", -2, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::Hash, false, false),
    c("hscan", -3, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::Hash, false, false),
    c("hset", -4, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::Hash, true, false),
    c("hsetnx", 4, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::Hash, true, false),
    c("hstrlen", 3, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::Hash, true, false),
    c("hvals", 2, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::Hash, false, false),
    c("incr", 2, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::String, true, false),
    c("incrby", 3, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::String, true, false),
    c("incrbyfloat", 3, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::String, true, false),
    c("info", -1, Use::Door, Keys::None, Group::Server, false, false),
    c("keys", 2, Use::Read, Keys::None, Group::Generic, false, false),
    c("lastsave", 1, Use::Door, Keys::None, Group::Server, true, false),
    c("latency", -2, Use::Door, Keys::None, Group::Server, false, false),
    c("lcs", -3, Use::Read, Keys::Words { first: 1, last: 2, step: 1 }, Group::String, false, false),
    c("lindex", 3, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::List, false, false),
    c("linsert", 5, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::List, false, false),
    c("llen", 2, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::List, true, false),
    c("lmove", 5, Use::Write, Keys::Words { first: 1, last: 2, step: 1 }, Group::List, false, false),
    c("lmpop", -4, Use::Write, Keys::Counted(1), Group::List, false, false),
    c("lolwut", -1, Use::Door, Keys::None, Group::Server, true, false),
    c("lpop", -2, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::List, true, false),
    c("lpos", -3, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::List, false, false),
    c("lpush", -3, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::List, true, false),
    c("lpushx", -3, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::List, true, false),
    c("lrange", 4, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::List, false, false),
    c("lrem", 4, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::List, false, false),
    c("lset", 4, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::List, false, false),
    c("ltrim", 4, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::List, false, false),
    c("memory", -2, Use::Door, Keys::None, Group::Server, false, false),
    c("mget", -2, Use::Read, Keys::Words { first: 1, last: -1, step: 1 }, Group::String, true, false),
    c("migrate", -6, Use::Door, Keys::None, Group::Cluster, false, false),
    c("module", -2, Use::Door, Keys::None, Group::Server, false, false),
    c("monitor", 1, Use::Door, Keys::None, Group::Server, false, false),
    c("move", 3, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::Generic, true, false),
    c("mset", -3, Use::Write, Keys::Words { first: 1, last: -1, step: 2 }, Group::String, false, false),
    c("msetnx", -3, Use::Write, Keys::Words { first: 1, last: -1, step: 2 }, Group::String, false, false),
    c("multi", 1, Use::Door, Keys::None, Group::Transactions, true, false),
    c("object", -2, Use::Read, Keys::Words { first: 2, last: 2, step: 1 }, Group::Generic, false, false),
    c("persist", 2, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::Generic, true, false),
    c("pexpire", -3, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::Generic, true, false),
    c("pexpireat", -3, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::Generic, true, false),
    c("pexpiretime", 2, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::Generic, true, false),
    c("pfadd", -2, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::HyperLogLog, true, false),
    c("pfcount", -2, Use::Read, Keys::Words { first: 1, last: -1, step: 1 }, Group::HyperLogLog, false, false),
    c("pfdebug", 3, Use::Write, Keys::Words { first: 2, last: 2, step: 1 }, Group::HyperLogLog, false, false),
    c("pfmerge", -2, Use::Write, Keys::Words { first: 1, last: -1, step: 1 }, Group::HyperLogLog, false, false),
    c("pfselftest", 1, Use::Read, Keys::None, Group::HyperLogLog, false, false),
    c("ping", -1, Use::Door, Keys::None, Group::Connection, true, false),
    c("psetex", 4, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::String, false, false),
    c("psubscribe", -2, Use::Door, Keys::None, Group::PubSub, false, false),
    c("psync", -3, Use::Door, Keys::None, Group::Server, false, false),
    c("pttl", 2, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::Generic, true, false),
    c("publish", 3, Use::Write, Keys::None, Group::PubSub, true, false),
    c("pubsub", -2, Use::Door, Keys::None, Group::PubSub, false, false),
    c("punsubscribe", -1, Use::Door, Keys::None, Group::PubSub, false, false),
    c("quit", -1, Use::Door, Keys::None, Group::Connection, true, false),
    c("randomkey", 1, Use::Read, Keys::None, Group::Generic, false, false),
    c("readonly", 1, Use::Door, Keys::None, Group::Cluster, true, false),
    c("readwrite", 1, Use::Door, Keys::None, Group::Cluster, true, false),
    c("rename", 3, Use::Write, Keys::Words { first: 1, last: 2, step: 1 }, Group::Generic, false, false),
    c("renamenx", 3, Use::Write, Keys::Words { first: 1, last: 2, step: 1 }, Group::Generic, true, false),
    c("replconf", -1, Use::Door, Keys::None, Group::Server, false, false),
    c("replicaof", 3, Use::Door, Keys::None, Group::Server, false, false),
    c("reset", 1, Use::Door, Keys::None, Group::Connection, true, false),
    c("restore", -4, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::Generic, false, false),
    c("restore-asking", -4, Use::Door, Keys::Words { first: 1, last: 1, step: 1 }, Group::Cluster, false, false),
    c("role", 1, Use::Door, Keys::None, Group::Server, true, false),
    c("rpop", -2, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::List, true, false),
    c("rpoplpush", 3, Use::Write, Keys::Words { first: 1, last: 2, step: 1 }, Group::List, false, false),
    c("rpush", -3, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::List, true, false),
    c("rpushx", -3, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::List, true, false),
    c("sadd", -3, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::Set, true, false),
    c("save", 1, Use::Door, Keys::None, Group::Server, false, false),
    c("scan", -2, Use::Read, Keys::None, Group::Generic, false, false),
    c("scard", 2, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::Set, true, false),
    c("script", -2, Use::Door, Keys::None, Group::Scripting, false, false),
    c("sdiff", -2, Use::Read, Keys::Words { first: 1, last: -1, step: 1 }, Group::Set, false, false),
    c("sdiffstore", -3, Use::Write, Keys::Words { first: 1, last: -1, step: 1 }, Group::Set, false, false),
    c("select", 2, Use::Door, Keys::None, Group::Connection, true, false),
    c("set", -3, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::String, false, false),
    c("setbit", 4, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::Bitmap, false, false),
    c("setex", 4, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::String, false, false),
    c("setnx", 3, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::String, true, false),
    c("setrange", 4, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::String, false, false),
    c("shutdown", -1, Use::Door, Keys::None, Group::Server, false, false),
    c("sinter", -2, Use::Read, Keys::Words { first: 1, last: -1, step: 1 }, Group::Set, false, false),
    c("sintercard", -3, Use::Read, Keys::Counted(1), Group::Set, false, false),
    c("sinterstore", -3, Use::Write, Keys::Words { first: 1, last: -1, step: 1 }, Group::Set, false, false),
    c("sismember", 3, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::Set, true, false),
    c("slaveof", 3, Use::Door, Keys::None, Group::Server, false, false),
    c("slowlog", -2, Use::Door, Keys::None, Group::Server, false, false),
    c("smembers", 2, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::Set, false, false),
    c("smismember", -3, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::Set, true, false),
    c("smove", 4, Use::Write, Keys::Words { first: 1, last: 2, step: 1 }, Group::Set, true, false),
    c("sort", -2, Use::Write, Keys::FirstAndStore, Group::Generic, false, false),
    c("sort_ro", -2, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::Generic, false, false),
    c("spop", -2, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::Set, true, false),
    c("spublish", 3, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::PubSub, true, false),
    c("srandmember", -2, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::Set, false, false),
    c("srem", -3, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::Set, true, false),
    c("sscan", -3, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::Set, false, false),
    c("ssubscribe", -2, Use::Door, Keys::Words { first: 1, last: -1, step: 1 }, Group::PubSub, false, false),
    c("strlen", 2, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::String, true, false),
    c("subscribe", -2, Use::Door, Keys::None, Group::PubSub, false, false),
    c("substr", 4, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::String, false, false),
    c("sunion", -2, Use::Read, Keys::Words { first: 1, last: -1, step: 1 }, Group::Set, false, false),
    c("sunionstore", -3, Use::Write, Keys::Words { first: 1, last: -1, step: 1 }, Group::Set, false, false),
    c("sunsubscribe", -1, Use::Door, Keys::Words { first: 1, last: -1, step: 1 }, Group::PubSub, false, false),
    c("swapdb", 3, Use::Write, Keys::None, Group::Server, true, false),
    c("sync", 1, Use::Door, Keys::None, Group::Server, false, false),
    c("time", 1, Use::Door, Keys::None, Group::Server, true, false),
    c("touch", -2, Use::Read, Keys::Words { first: 1, last: -1, step: 1 }, Group::Generic, true, false),
    c("ttl", 2, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::Generic, true, false),
    c("type", 2, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::Generic, true, false),
    c("unlink", -2, Use::Write, Keys::Words { first: 1, last: -1, step: 1 }, Group::Generic, true, false),
    c("unsubscribe", -1, Use::Door, Keys::None, Group::PubSub, false, false),
    c("unwatch", 1, Use::Door, Keys::None, Group::Transactions, true, false),
    c("wait", 3, Use::Door, Keys::None, Group::Connection, false, true),
    c("watch", -2, Use::Door, Keys::Words { first: 1, last: -1, step: 1 }, Group::Transactions, true, false),
    c("xack", -4, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::Stream, true, false),
    c("xadd", -5, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::Stream, true, false),
    c("xautoclaim", -6, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::Stream, true, false),
    c("xclaim", -6, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::Stream, true, false),
    c("xdel", -3, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::Stream, true, false),
    c("xgroup", -2, Use::Write, Keys::Words { first: 2, last: 2, step: 1 }, Group::Stream, false, false),
    c("xinfo", -2, Use::Read, Keys::Words { first: 2, last: 2, step: 1 }, Group::Stream, false, false),
    c("xlen", 2, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::Stream, true, false),
    c("xpending", -3, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::Stream, false, false),
    c("xrange", -4, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::Stream, false, false),
    c("xread", -4, Use::Read, Keys::AfterStreams, Group::Stream, false, true),
    c("xreadgroup", -7, Use::Write, Keys::AfterStreams, Group::Stream, false, true),
    c("xrevrange", -4, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::Stream, false, false),
    c("xsetid", -3, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::Stream, true, false),
    c("xtrim", -4, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::Stream, false, false),
    c("zadd", -4, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::SortedSet, true, false),
    c("zcard", 2, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::SortedSet, true, false),
    c("zcount", 4, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::SortedSet, true, false),
    c("zdiff", -3, Use::Read, Keys::Counted(1), Group::SortedSet, false, false),
    c("zdiffstore", -4, Use::Write, Keys::FirstAndCounted(2), Group::SortedSet, false, false),
    c("zincrby", 4, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::SortedSet, true, false),
    c("zinter", -3, Use::Read, Keys::Counted(1), Group::SortedSet, false, false),
    c("zintercard", -3, Use::Read, Keys::Counted(1), Group::SortedSet, false, false),
    c("zinterstore", -4, Use::Write, Keys::FirstAndCounted(2), Group::SortedSet, false, false),
    c("zlexcount", 4, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::SortedSet, true, false),
    c("zmpop", -4, Use::Write, Keys::Counted(1), Group::SortedSet, false, false),
    c("zmscore", -3, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::SortedSet, true, false),
    c("zpopmax", -2, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::SortedSet, true, false),
    c("zpopmin", -2, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::SortedSet, true, false),
    c("zrandmember", -2, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::SortedSet, false, false),
    c("zrange", -4, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::SortedSet, false, false),
    c("zrangebylex", -4, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::SortedSet, false, false),
    c("zrangebyscore", -4, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::SortedSet, false, false),
    c("zrangestore", -5, Use::Write, Keys::Words { first: 1, last: 2, step: 1 }, Group::SortedSet, false, false),
    c("zrank", 3, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::SortedSet, true, false),
    c("zrem", -3, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::SortedSet, true, false),
    c("zremrangebylex", 4, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::SortedSet, false, false),
    c("zremrangebyrank", 4, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::SortedSet, false, false),
    c("zremrangebyscore", 4, Use::Write, Keys::Words { first: 1, last: 1, step: 1 }, Group::SortedSet, false, false),
    c("zrevrange", -4, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::SortedSet, false, false),
    c("zrevrangebylex", -4, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::SortedSet, false, false),
    c("zrevrangebyscore", -4, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::SortedSet, false, false),
    c("zrevrank", 3, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::SortedSet, true, false),
    c("zscan", -3, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::SortedSet, false, false),
    c("zscore", 3, Use::Read, Keys::Words { first: 1, last: 1, step: 1 }, Group::SortedSet, true, false),
    c("zunion", -3, Use::Read, Keys::Counted(1), Group::SortedSet, false, false),
    c("zunionstore", -4, Use::Write, Keys::FirstAndCounted(2), Group::SortedSet, false, false),
];
