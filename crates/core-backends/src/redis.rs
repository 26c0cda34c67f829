//! The `redis` backend: Redis commands as a replicated state machine (Hive paper, 2.7), above all
//! set-if-not-exists. A command is its words, as a client sends them; the reply is what Redis says,
//! texts of errors included (redis.io).
//!
//! Where it differs, because every member must come to the same bytes at any size: keys and members are at most
//! `KEY_BYTES_MAX` long; a reply is bounded (`REPLY_ELEMENTS_MAX`); sets, hashes and keys are listed in order; floats
//! are 64 bits wide; time is the cluster's own clock, so there is no EXAT; random commands are missing. A deleted
//! collection and a flushed database are swept by later writes, a bounded number of rows each (`store.rs`).
//!
//! Always: a command that is answered with an error changed nothing a client can see (twin in `tests.rs`).
//! Not here: RESP and connections (door-redis). Rows are drawn in docs/formats/backend-redis.md.

mod bits;
mod calls;
mod channels;
mod dump;
mod elements;
mod ends;
mod expiry;
mod geo;
mod hashes;
mod hyperloglog;
mod invariants;
mod keys;
mod lcs;
mod lists;
mod numbers;
mod overlay;
mod plain;
mod sets;
mod sort;
mod sorted;
mod store;
mod streams;
mod strings;
mod table;
#[cfg(test)]
pub(crate) mod tests;
mod work;

use crate::contract::{decode, ApplyContext, Backend, SpaceRead, SpaceWrite, Upkeep};
use crate::invariants::Checked;
use crate::reply::encode_reply;
use base_engine::EngineError;
use base_types::codec::{DecodeError, Encode, Reader, Writer};
use base_types::redis::{find, RedisCall};
use base_types::{ErrorCode, Refusal, SCAN_PAGE_BYTES_MAX, VALUE_BYTES_MAX};
use bytes::Bytes;
use store::{Moment, Store, View};
use table::{ReadRun, Run, WriteRun};
use work::Counted;

pub use base_types::action::RedisReply as Reply;
pub use calls::{size as reply_bytes, CALL_REPLY_BYTES_MAX};
pub use plain::{PlainAnswer, PlainAsk, PlainCommand, PLAIN_KEYS_MAX, PLAIN_TRIES_MAX};

/// The most words a command may have.
pub const ARGUMENTS_MAX: usize = 65_536;
/// The most elements of a reply; a command that would give more is an error.
pub const REPLY_ELEMENTS_MAX: usize = 100_000;
/// The most bytes of a reply.
pub const REPLY_BYTES_MAX: usize = SCAN_PAGE_BYTES_MAX;

/// The words of a command, its name first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Command(pub Vec<Bytes>);

/// A query is a command that only reads.
pub type Query = Command;

impl Encode for Command {
    fn encode(&self, out: &mut Writer) {
        out.varint(self.0.len() as u64);
        for word in &self.0 {
            out.bytes(word);
        }
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let count = input.count("redis words")?;
        if count > ARGUMENTS_MAX {
            return Err(DecodeError::TooLarge("redis words"));
        }
        Ok(Command((0..count).map(|_| input.bytes("redis word")).collect::<Result<_, _>>()?))
    }
}

/// Whether a command only reads (goes to `query`) or writes (to `validate` and `apply`); `None`:
/// there is no such command.
pub fn is_read(argv: &[Bytes]) -> Option<bool> {
    let run = table::run_of(find(argv.first()?)?)?;
    Some(matches!(run, Run::Read(_)))
}

/// The refusal of an unknown command.
pub fn unknown_command(argv: &[Bytes]) -> Refusal {
    Refusal::new(ErrorCode::UnknownCommand, error_of_unknown(argv))
}

/// What Redis says of a command that it does not know.
fn error_of_unknown(argv: &[Bytes]) -> String {
    let name = argv.first().map_or("", |word| std::str::from_utf8(word).unwrap_or("?"));
    let name: String = name.chars().take(128).collect();
    let mut text = format!("ERR unknown command '{name}', with args beginning with: ");
    for word in argv.iter().skip(1).take(10) {
        let word: String = String::from_utf8_lossy(&word[..word.len().min(64)]).into_owned();
        text.push_str(&format!("'{word}' "));
    }
    text
}

/// The backend, as the table has it.
pub(crate) struct Redis;

impl Backend for Redis {
    fn validate(&self, command: &Bytes) -> Result<(), Refusal> {
        validate(command)
    }

    fn apply(&self, at: ApplyContext, space: &mut dyn SpaceWrite, command: &Bytes) -> Result<Bytes, EngineError> {
        apply(at, space, command)
    }

    fn query(&self, cluster_time_ms: u64, space: &dyn SpaceRead, bytes: &Bytes) -> Result<Bytes, EngineError> {
        query(cluster_time_ms, space, bytes)
    }

    fn waits(&self, query: &Bytes) -> bool {
        calls::waits(query)
    }

    fn has_waiting_queries(&self) -> bool {
        true
    }

    fn next_query(&self, query: &Bytes, reply: &Bytes) -> Option<Bytes> {
        calls::next_query(query, reply)
    }

    fn upkeep(&self, space: &dyn SpaceRead) -> Result<Option<Upkeep>, EngineError> {
        calls::upkeep(space)
    }

    fn ends_between(&self, space: &dyn SpaceRead, query: &Bytes, times: (u64, u64)) -> Result<bool, EngineError> {
        ends::ends_between(space, query, times)
    }

    fn check_invariants(&self, space: &dyn SpaceRead) -> Checked {
        invariants::check(space)
    }
}

/// Refuses a command that could not be applied, before it reaches the log. The message is Redis's
/// own error text.
pub fn validate(command: &Bytes) -> Result<(), Refusal> {
    if RedisCall::is_call(command) {
        return calls::validate(&decode("redis call", command)?);
    }
    let command: Command = decode("redis command", command)?;
    check_write(&command.0).map(drop)
}

fn check_write(argv: &[Bytes]) -> Result<WriteRun, Refusal> {
    match check(argv)? {
        Run::Write(run) => Ok(run),
        Run::Read(_) => {
            Err(Refusal::new(ErrorCode::InvalidRequest, "ERR a command that only reads was sent as a write; query it"))
        }
    }
}

fn check_read(argv: &[Bytes]) -> Result<ReadRun, Refusal> {
    match check(argv)? {
        Run::Read(run) => Ok(run),
        Run::Write(_) => {
            Err(Refusal::new(ErrorCode::InvalidRequest, "ERR a command that writes was sent as a query; propose it"))
        }
    }
}

fn check(argv: &[Bytes]) -> Result<Run, Refusal> {
    let spec = argv.first().and_then(|name| find(name)).ok_or_else(|| unknown_command(argv))?;
    let run = table::run_of(spec).ok_or_else(|| unknown_command(argv))?;
    if !spec.takes(argv.len()) {
        return Err(Refusal::new(ErrorCode::Syntax, wrong_count(spec.name)));
    }
    if let Some(word) = argv.iter().find(|word| word.len() > VALUE_BYTES_MAX) {
        let message = format!("ERR a word is {} bytes long; at most {VALUE_BYTES_MAX} are taken", word.len());
        return Err(Refusal::new(ErrorCode::ValueTooLarge, message));
    }
    Ok(run)
}

/// Applies a command; the reply is `encode_reply` of a [`Reply`] (Redis errors among them) or refusal.
pub fn apply(at: ApplyContext, space: &mut dyn SpaceWrite, command: &Bytes) -> Result<Bytes, EngineError> {
    if RedisCall::is_call(command) {
        return Ok(encode_reply(&match decode::<RedisCall>("redis call", command) {
            Ok(call) => calls::apply(at, space, &call)?,
            Err(refusal) => Err(refusal),
        }));
    }
    let decoded = decode::<Command>("redis command", command);
    let reply = match decoded.and_then(|command| check_write(&command.0).map(|run| (run, command.0))) {
        Err(refusal) => Err(refusal),
        Ok((run, argv)) => {
            let mut store = Store::open(space, moment_of(at))?;
            store.select(0);
            let reply = reply_of(run(&mut store, &argv))?;
            store.finish()?;
            Ok(reply)
        }
    };
    Ok(encode_reply(&reply))
}

/// Answers a command that only reads; the reply is `encode_reply` of a [`Reply`] or refusal.
pub fn query(cluster_time_ms: u64, space: &dyn SpaceRead, query: &Bytes) -> Result<Bytes, EngineError> {
    if RedisCall::is_call(query) {
        return Ok(encode_reply(&match decode::<RedisCall>("redis call", query) {
            Ok(call) => calls::query(cluster_time_ms, space, &call)?,
            Err(refusal) => Err(refusal),
        }));
    }
    let decoded = decode::<Command>("redis query", query);
    let reply = match decoded.and_then(|command| check_read(&command.0).map(|run| (run, command.0))) {
        Err(refusal) => Err(refusal),
        Ok((run, argv)) => {
            let moment = Moment::new(cluster_time_ms, 0, cluster_time_ms);
            let counted = Counted::new(space, moment.work.clone());
            let view = View::open(&counted, moment)?;
            Ok(calls::read_one(&counted, || run(&view, &argv))?)
        }
    };
    Ok(encode_reply(&reply))
}

/// An entry's moment: what it picks at random begins with its place in the log.
fn moment_of(at: ApplyContext) -> Moment {
    Moment::new(at.cluster_time_ms, 0, at.index.0 ^ (u64::from(at.position) << 48))
}

fn reply_of(done: Done) -> Result<Reply, EngineError> {
    match done {
        Ok(reply) => Ok(reply),
        Err(Fail::Redis(text)) => Ok(Reply::Error(text)),
        Err(Fail::Engine(error)) => Err(error),
    }
}

/// Why a command did not run to its end.
#[derive(Debug)]
enum Fail {
    /// Redis's own error, for the client.
    Redis(String),
    /// Damage: the replica stops.
    Engine(EngineError),
}

impl From<EngineError> for Fail {
    fn from(error: EngineError) -> Fail {
        Fail::Engine(error)
    }
}

type Done = Result<Reply, Fail>;

fn fail<T>(text: impl Into<String>) -> Result<T, Fail> {
    Err(Fail::Redis(text.into()))
}

const SYNTAX: &str = "ERR syntax error";
const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
const NOT_A_FLOAT: &str = "ERR value is not a valid float";
const WOULD_OVERFLOW: &str = "ERR increment or decrement would overflow";

fn wrong_count(name: &str) -> String {
    format!("ERR wrong number of arguments for '{name}' command")
}

fn integer(count: usize) -> Reply {
    Reply::Integer(count as i64)
}

/// Gathers an array within the bounds of a reply.
#[derive(Default)]
struct Gather {
    items: Vec<Reply>,
    bytes: usize,
    over: bool,
}

impl Gather {
    /// False: the reply is too large, stop.
    fn push(&mut self, value: &[u8]) -> bool {
        self.bytes += value.len();
        self.over = self.over || self.items.len() >= REPLY_ELEMENTS_MAX || self.bytes > REPLY_BYTES_MAX;
        if !self.over {
            self.items.push(Reply::Bulk(Bytes::copy_from_slice(value)));
        }
        !self.over
    }

    fn done(self) -> Done {
        if self.over {
            let (elements, bytes) = (REPLY_ELEMENTS_MAX, REPLY_BYTES_MAX);
            return fail(format!("ERR reply is larger than {elements} elements or {bytes} bytes; read it in parts"));
        }
        Ok(Reply::Array(self.items))
    }
}
