//! Every command: its name, how many words it takes (negative: at least), and what runs it.

use super::{hashes, keys, lists, sets, sorted, strings, ReadRun, WriteRun};

#[derive(Clone, Copy)]
pub(super) enum Run {
    Read(ReadRun),
    Write(WriteRun),
}

#[derive(Clone, Copy)]
pub(super) struct Spec {
    pub name: &'static str,
    /// As Redis counts: the name is a word; negative means "at least".
    arity: i32,
    pub run: Run,
}

impl Spec {
    pub fn takes(&self, words: usize) -> bool {
        let wanted = self.arity.unsigned_abs() as usize;
        if self.arity < 0 {
            words >= wanted
        } else {
            words == wanted
        }
    }
}

const fn read(name: &'static str, arity: i32, run: ReadRun) -> Spec {
    Spec { name, arity, run: Run::Read(run) }
}

const fn write(name: &'static str, arity: i32, run: WriteRun) -> Spec {
    Spec { name, arity, run: Run::Write(run) }
}

pub(super) const TABLE: &[Spec] = &[
    read("get", 2, strings::get),
    write("set", -3, strings::set),
    write("setnx", 3, strings::setnx),
    write("setex", 4, strings::setex),
    write("psetex", 4, strings::psetex),
    write("getset", 3, strings::getset),
    write("getdel", 2, strings::getdel),
    read("mget", -2, strings::mget),
    write("mset", -3, strings::mset),
    write("msetnx", -3, strings::msetnx),
    write("append", 3, strings::append),
    read("strlen", 2, strings::strlen),
    read("getrange", 4, strings::getrange),
    write("setrange", 4, strings::setrange),
    write("incr", 2, strings::incr),
    write("decr", 2, strings::decr),
    write("incrby", 3, strings::incrby),
    write("decrby", 3, strings::decrby),
    write("incrbyfloat", 3, strings::incrbyfloat),
    write("del", -2, keys::del),
    write("delex", -2, strings::delex),
    write("unlink", -2, keys::del),
    read("exists", -2, keys::exists),
    write("expire", -3, keys::expire),
    write("pexpire", -3, keys::pexpire),
    write("persist", 2, keys::persist),
    read("ttl", 2, keys::ttl),
    read("pttl", 2, keys::pttl),
    read("type", 2, keys::type_),
    read("dbsize", 1, keys::dbsize),
    write("flushdb", -1, keys::flushdb),
    read("scan", -2, keys::scan),
    write("hset", -4, hashes::hset),
    write("hmset", -4, hashes::hmset),
    write("hsetnx", 4, hashes::hsetnx),
    read("hget", 3, hashes::hget),
    read("hmget", -3, hashes::hmget),
    write("hdel", -3, hashes::hdel),
    read("hlen", 2, hashes::hlen),
    read("hgetall", 2, hashes::hgetall),
    read("hkeys", 2, hashes::hkeys),
    read("hvals", 2, hashes::hvals),
    read("hexists", 3, hashes::hexists),
    write("hincrby", 4, hashes::hincrby),
    write("lpush", -3, lists::lpush),
    write("rpush", -3, lists::rpush),
    write("lpop", -2, lists::lpop),
    write("rpop", -2, lists::rpop),
    read("llen", 2, lists::llen),
    read("lrange", 4, lists::lrange),
    read("lindex", 3, lists::lindex),
    write("sadd", -3, sets::sadd),
    write("srem", -3, sets::srem),
    read("smembers", 2, sets::smembers),
    read("sismember", 3, sets::sismember),
    read("scard", 2, sets::scard),
    write("zadd", -4, sorted::zadd),
    write("zrem", -3, sorted::zrem),
    read("zscore", 3, sorted::zscore),
    read("zrange", -4, sorted::zrange),
    read("zrangebyscore", -4, sorted::zrangebyscore),
    read("zcard", 2, sorted::zcard),
    write("zincrby", 4, sorted::zincrby),
];

/// Names are compared without regard to case.
pub(super) fn find(name: &[u8]) -> Option<&'static Spec> {
    TABLE.iter().find(|spec| spec.name.as_bytes().eq_ignore_ascii_case(name))
}
