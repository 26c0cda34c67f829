//! What the Redis door asks of a database's cluster, and what it is answered, with their byte forms (docs/formats/backend-redis.md).
//!
//! ```text
//!   RedisCall { unix_ms, ask } ──▶ RedisAnswer           plain words (JSON, names of buckets) ──▶ RedisReply, in database 0
//! ```
//!
//! By design: a call begins with a zero, where plain words have their number, which is never zero; so one space takes both. Counts are
//! bounded by constants here and checked when a call is decoded (`check`).
//! Not here: what a command does (`redis/` in core-backends), RESP (door-redis).

#![allow(missing_docs)] // Fields whose names say all there is; docs/formats/backend-redis.md has each.

mod commands;
mod glob;
mod reply;

pub use commands::{find, CommandSpec, Group, Keys, Use, COMMANDS};
pub use glob::matches;
pub use reply::{RedisReply, REDIS_REPLY_DEPTH_MAX};

use crate::codec::{DecodeError, Encode, Reader, Writer};
use crate::wire::Wire;
use crate::{wire_enum, wire_struct, ErrorCode, Refusal};
use alloc::format;
use alloc::vec::Vec;
use bytes::Bytes;

/// Databases of a cluster, as `SELECT` numbers them from 0.
pub const DATABASES: u8 = 16;
/// Where the door keeps the sources of scripts: behind those that SELECT reaches. Only the node itself reads and writes there.
pub const SCRIPTS_DATABASE: u8 = DATABASES;
/// The hash there with the libraries of functions. Who changes a function changes what other users run, so it has stricter rights than scripts.
pub const LIBRARIES_KEY: &[u8] = b"functions";
/// The most commands of one call.
pub const CALL_COMMANDS_MAX: usize = 4_096;
/// The most words that a command may have.
pub const COMMAND_WORDS_MAX: usize = 65_536;
/// The most keys that one call watches or asks versions of.
pub const CALL_KEYS_MAX: usize = 1_024;
/// What a call begins with; plain words have at least one word.
const MARK: u8 = 0;
/// The version of the form that follows.
const FORM: u8 = 1;

wire_struct! {
    /// A command in a database: its words as the client sent them, the name first.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct RedisCommand {
        pub database: u8,
        pub words: Vec<Bytes>,
    }
}

wire_struct! {
    /// A key, and the version that it had when somebody looked. 0: it was not there.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct KeyVersion {
        pub database: u8,
        pub key: Bytes,
        pub version: u64,
    }
}

wire_struct! {
    /// What was published on a channel.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct RedisMessage {
        pub number: u64,
        /// By SPUBLISH: for who said SSUBSCRIBE, and nobody else.
        pub sharded: bool,
        pub channel: Bytes,
        pub message: Bytes,
    }
}

wire_enum! {
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum RedisAsk {
        /// Commands one after the other, each for itself: one that fails does not hinder the next. Answered by `Replies`.
        1 => Commands { commands: Vec<RedisCommand> },
        /// EXEC: all commands and nothing between them, if every watched key still has its version. Answered by `Replies` or `Aborted`.
        2 => Transaction { watched: Vec<KeyVersion>, commands: Vec<RedisCommand> },
        /// The versions of keys; the `version` given is ignored. Answered by `Versions`.
        3 => Versions { keys: Vec<KeyVersion> },
        /// As `Versions`, but the member keeps the read until a key has another version than given, or for some seconds.
        4 => AwaitKeys { keys: Vec<KeyVersion> },
        /// Runs commands as `Script` would, and changes nothing: what the script has done so far, and what it does next, which `seen` does
        /// not reach. Answered by `Tried` or `Aborted`.
        5 => Try { watched: Vec<KeyVersion>, seen: Vec<u64>, commands: Vec<RedisCommand> },
        /// Messages with numbers above `after`; the member keeps the read until there is one, or for some seconds. Answered by `Messages`.
        6 => Messages { after: u64 },
        /// Removes what has expired. Proposed by leaders only.
        7 => Sweep,
        /// What a script did, of which the door has run it: all commands and nothing between them, if every watched key has its version and
        /// every command replies what the script saw (`RedisReply::digest`, in order). Picks at random begin with the call's seed. Answered by
        /// `Replies` or `Aborted`.
        8 => Script { watched: Vec<KeyVersion>, seen: Vec<u64>, commands: Vec<RedisCommand> },
    }
}

wire_enum! {
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum RedisAnswer {
        /// One for each command.
        1 => Replies { replies: Vec<RedisReply> },
        /// A watched key has changed, or a script would see another reply; nothing was done.
        2 => Aborted,
        /// In the order of the question. 0: the key is not there.
        3 => Versions { versions: Vec<u64> },
        /// Of the commands that `seen` did not reach. `keys`: those that they name, as they were before all commands.
        4 => Tried { replies: Vec<RedisReply>, keys: Vec<KeyVersion> },
        /// `reached`: the number of the last message there is. `lost`: some after the number asked for are kept no more.
        5 => Messages { messages: Vec<RedisMessage>, reached: u64, lost: bool },
        6 => Swept { keys: u32 },
    }
}

/// A call of the door.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RedisCall {
    /// The door's wall clock, for commands that name dates or ask for the time (EXAT, EXPIRETIME, ids of streams). A date is as many
    /// milliseconds of the cluster's time away as it is of this clock.
    pub unix_ms: u64,
    /// What queries that pick at random begin with. Writes that pick take their place in the log instead.
    pub seed: u64,
    pub ask: RedisAsk,
}

impl Encode for RedisCall {
    fn encode(&self, out: &mut Writer) {
        out.u8(MARK).u8(FORM).u64(self.unix_ms).u64(self.seed);
        self.ask.put(out);
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        if input.u8("mark of a redis call")? != MARK {
            return Err(DecodeError::Unknown("mark of a redis call"));
        }
        if input.u8("form of a redis call")? != FORM {
            return Err(DecodeError::Unknown("form of a redis call"));
        }
        let (unix_ms, seed) = (input.u64("time of a redis call")?, input.u64("seed of a redis call")?);
        Ok(RedisCall { unix_ms, seed, ask: RedisAsk::take(input)? })
    }
}

impl RedisCall {
    /// Whether bytes are a call, and no plain words: read off the first. (A zero alone is no words at all.)
    pub fn is_call(bytes: &[u8]) -> bool {
        bytes.first() == Some(&MARK) && bytes.len() > 1
    }

    /// The commands that it has.
    pub fn commands(&self) -> &[RedisCommand] {
        match &self.ask {
            RedisAsk::Commands { commands }
            | RedisAsk::Transaction { commands, .. }
            | RedisAsk::Try { commands, .. }
            | RedisAsk::Script { commands, .. } => commands,
            _ => &[],
        }
    }

    /// Whether it changes nothing, so that it needs no entry of the log. A command that is not known changes nothing.
    pub fn read_only(&self) -> bool {
        match &self.ask {
            RedisAsk::Commands { commands } | RedisAsk::Transaction { commands, .. } => {
                !commands.iter().any(RedisCommand::writes)
            }
            RedisAsk::Versions { .. }
            | RedisAsk::AwaitKeys { .. }
            | RedisAsk::Try { .. }
            | RedisAsk::Messages { .. } => true,
            RedisAsk::Sweep | RedisAsk::Script { .. } => false,
        }
    }

    /// Refuses what is beyond a bound.
    pub fn check(&self) -> Result<(), Refusal> {
        let refuse = |message| Err(Refusal::new(ErrorCode::InvalidRequest, message));
        let commands = self.commands();
        if commands.len() > CALL_COMMANDS_MAX {
            return refuse(format!("ERR {} commands in one call; at most {CALL_COMMANDS_MAX}", commands.len()));
        }
        if let Some(command) = commands.iter().find(|command| command.words.len() > COMMAND_WORDS_MAX) {
            return refuse(format!("ERR a command has {} words; at most {COMMAND_WORDS_MAX}", command.words.len()));
        }
        let keys = match &self.ask {
            RedisAsk::Transaction { watched: keys, .. }
            | RedisAsk::Try { watched: keys, .. }
            | RedisAsk::Script { watched: keys, .. }
            | RedisAsk::Versions { keys }
            | RedisAsk::AwaitKeys { keys } => &keys[..],
            _ => &[],
        };
        if keys.len() > CALL_KEYS_MAX {
            return refuse(format!("ERR {} watched keys in one call; at most {CALL_KEYS_MAX}", keys.len()));
        }
        let databases = commands.iter().map(|command| command.database).chain(keys.iter().map(|key| key.database));
        if databases.clone().any(|database| database > SCRIPTS_DATABASE) {
            return refuse("ERR DB index is out of range".into());
        }
        if let RedisAsk::Try { seen, .. } | RedisAsk::Script { seen, .. } = &self.ask {
            if seen.len() > commands.len() {
                return refuse(format!("ERR {} replies were seen of {} commands", seen.len(), commands.len()));
            }
        }
        Ok(())
    }
}

impl RedisCommand {
    /// What is known of it.
    pub fn spec(&self) -> Option<&'static CommandSpec> {
        find(self.words.first()?)
    }

    /// Whether it needs an entry of the log.
    pub fn writes(&self) -> bool {
        self.spec().is_some_and(|spec| spec.how == Use::Write)
    }

    /// Its keys.
    pub fn keys(&self) -> Vec<&Bytes> {
        self.spec().map(|spec| spec.keys_of(&self.words)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
