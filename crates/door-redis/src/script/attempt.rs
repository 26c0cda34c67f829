//! One run of a script, as the database sees it: what it has read and done so far, tried command by command, and then done at once.
//!
//! ```text
//!   redis.call ─▶ Try { watched, seen, steps + this one } ─ Tried ─▶ a read of keys: their versions are watched from now on
//!                                                        │          all else: one step more
//!                                                        └ Aborted ▶ Cut::Conflict: the script is run again
//!   the end    ─▶ Script { watched, seen, steps }          nothing to send where no step writes
//! ```
//! Always: what the script saw is what it would have seen had it run alone at the moment of its last call, or of its commit; a run that
//! ends otherwise has changed nothing.
//! Held by: `scripts_at_the_same_time_lose_nothing`, `a_script_sees_one_moment`, `a_script_that_is_cut_changes_nothing`.
//! Not here: Lua (`lua/`), how often a script is run (`script.rs`). Why it is done so: docs/decisions/0094.

use crate::connection::Connection;
use crate::database::{Levels, Session};
use crate::door::Door;
use crate::error::{error, of_refusal};
use crate::gather::bytes_of;
use crate::lua::limits::{SCRIPT_STEPS_BYTES_MAX, SCRIPT_STEPS_MAX};
use crate::request::Words;
use base_types::redis::{
    find, CommandSpec, KeyVersion, Keys, RedisAnswer, RedisAsk, RedisCall, RedisCommand, RedisReply, Use,
    CALL_KEYS_MAX, DATABASES,
};
use base_types::{ErrorKind, ReadConsistency, Refusal, WriteConsistency};
use bytes::Bytes;
use std::rc::Rc;

/// Why a run ends before its script does.
#[derive(Debug)]
pub(crate) enum Cut {
    /// What it has seen has changed.
    Conflict,
    /// The client is answered with this.
    Answer(RedisReply),
}

/// A run.
pub(super) struct Attempt {
    door: Rc<Door>,
    session: Rc<Session>,
    levels: Levels,
    /// What its next command is about.
    pub database: u8,
    /// The time is the same for all of its commands, and so is where picks at random begin.
    unix_ms: u64,
    seed: u64,
    /// What must have its versions to the end.
    pub watched: Vec<KeyVersion>,
    steps: Vec<RedisCommand>,
    /// What the script saw of each step.
    seen: Vec<u64>,
    bytes: usize,
    writes: bool,
    /// The database has been asked, so that what is watched was as it was.
    asked: bool,
    /// It may not write.
    pub read_only: bool,
    /// Replies that are certain but for errors are given before the database is asked. Not where that has failed before.
    pub predicts: bool,
}

impl Attempt {
    pub fn new(of: &Connection, session: Rc<Session>) -> Attempt {
        let write = match of.client.levels.write {
            // Whether it was done is known only when it is applied.
            WriteConsistency::Hopeful | WriteConsistency::Eventual => WriteConsistency::Strong,
            level => level,
        };
        Attempt {
            door: of.door.clone(),
            session,
            levels: Levels { read: ReadConsistency::Strong, write },
            database: of.client.database,
            unix_ms: of.door.database.unix_ms(),
            seed: of.door.database.random(),
            watched: Vec::new(),
            steps: Vec::new(),
            seen: Vec::new(),
            bytes: 0,
            writes: false,
            asked: false,
            read_only: false,
            predicts: true,
        }
    }

    /// Carries out a command of the script. What is wrong with it is an error among replies.
    pub async fn call(&mut self, words: Words) -> Result<RedisReply, Cut> {
        let Some(spec) = words.first().and_then(|name| find(name)) else {
            return Ok(error("ERR Unknown Redis command called from script"));
        };
        if !spec.takes(words.len()) {
            return Ok(error("ERR Wrong number of args calling Redis command from script"));
        }
        if spec.how == Use::Door {
            return Ok(self.own(spec, &words));
        }
        if spec.how == Use::Write && self.read_only {
            return Ok(error("ERR Write commands are not allowed from read-only scripts."));
        }
        let command = RedisCommand { database: self.database, words };
        self.check_room(&command)?;
        let added = self.published(spec, &command.words);
        if let Some(reply) = self.prediction(spec, &command.words) {
            self.step(command, &reply);
            return Ok(with_receivers(reply, added));
        }
        let mut commands = self.steps.clone();
        commands.push(command.clone());
        let ask = RedisAsk::Try { watched: self.watched.clone(), seen: self.seen.clone(), commands };
        match self.ask(ask).await {
            Ok(RedisAnswer::Tried { mut replies, keys }) => {
                self.asked = true;
                let Some(reply) = replies.pop() else { return Err(unexpected()) };
                if is_step(spec, &command.words) {
                    self.step(command, &reply);
                } else {
                    self.watch(keys)?;
                }
                Ok(with_receivers(reply, added))
            }
            Ok(RedisAnswer::Aborted) => Err(Cut::Conflict),
            Ok(_) => Err(unexpected()),
            Err(refusal) if refusal.kind() == ErrorKind::Forbidden => Ok(of_refusal(&refusal, false)),
            Err(refusal) => Err(Cut::Answer(of_refusal(&refusal, false))),
        }
    }

    /// Does what the script has done, all of it and nothing between.
    pub async fn commit(self) -> Result<(), Cut> {
        let (watched, seen, commands) = (self.watched.clone(), self.seen.clone(), self.steps.clone());
        let ask = match self.writes {
            true => RedisAsk::Script { watched, seen, commands },
            // The last try was about all that it has seen.
            false if self.asked || watched.is_empty() => return Ok(()),
            false => RedisAsk::Try { watched, seen, commands },
        };
        match self.ask(ask).await {
            Ok(RedisAnswer::Replies { .. } | RedisAnswer::Tried { .. }) => Ok(()),
            Ok(RedisAnswer::Aborted) => Err(Cut::Conflict),
            Ok(_) => Err(unexpected()),
            Err(refusal) => Err(Cut::Answer(of_refusal(&refusal, true))),
        }
    }

    async fn ask(&self, ask: RedisAsk) -> Result<RedisAnswer, Refusal> {
        let call = RedisCall { unix_ms: self.unix_ms, seed: self.seed, ask };
        self.door.database.call(&self.session, call, self.levels).await
    }

    /// Cuts the script where one command more is too much, whatever it is: it goes to the leader with all steps before it.
    fn check_room(&self, command: &RedisCommand) -> Result<(), Cut> {
        if self.steps.len() >= SCRIPT_STEPS_MAX || self.bytes + bytes_of(command) > SCRIPT_STEPS_BYTES_MAX {
            return Err(Cut::Answer(error(format!(
                "ERR a script does at most {SCRIPT_STEPS_MAX} commands that write, of {SCRIPT_STEPS_BYTES_MAX} bytes together; it has changed nothing"
            ))));
        }
        Ok(())
    }

    fn step(&mut self, command: RedisCommand, reply: &RedisReply) {
        self.bytes += bytes_of(&command);
        self.writes |= command.writes();
        self.steps.push(command);
        self.seen.push(reply.digest());
    }

    /// What runs must be kept like this to the end: the next call says whether it is, or the commit.
    pub fn watch_library(&mut self, key: KeyVersion) -> Result<(), Cut> {
        self.asked = false;
        self.watch(vec![key])
    }

    fn watch(&mut self, keys: Vec<KeyVersion>) -> Result<(), Cut> {
        for key in keys {
            let known = self.watched.iter().any(|own| own.database == key.database && own.key == key.key);
            if !known {
                self.watched.push(key);
            }
        }
        if self.watched.len() > CALL_KEYS_MAX {
            let message = format!("ERR a script reads at most {CALL_KEYS_MAX} keys; it has changed nothing");
            return Err(Cut::Answer(error(message)));
        }
        Ok(())
    }

    /// A reply that is certain unless there is an error, which the next try, or the commit, would find.
    fn prediction(&self, spec: &CommandSpec, words: &[Bytes]) -> Option<RedisReply> {
        match (spec.name, words.len()) {
            _ if !self.predicts => None,
            ("set", 3) | ("setex" | "psetex", _) => Some(RedisReply::Ok),
            ("mset", count) if count % 2 == 1 => Some(RedisReply::Ok),
            ("publish" | "spublish", _) => Some(RedisReply::Integer(0)),
            _ => None,
        }
    }

    /// Subscribers here of what a command publishes.
    fn published(&self, spec: &CommandSpec, words: &[Bytes]) -> i64 {
        match (spec.name, words.get(1)) {
            ("publish" | "spublish", Some(channel)) => {
                let sharded = spec.name == "spublish";
                let receivers = self.door.hubs.receivers(&self.session.keyspace, channel, sharded);
                i64::try_from(receivers).unwrap_or(i64::MAX)
            }
            _ => 0,
        }
    }

    /// What the door says itself.
    fn own(&mut self, spec: &CommandSpec, words: &[Bytes]) -> RedisReply {
        let bulk = |text: String| RedisReply::Bulk(text.into());
        match (spec.name, words.get(1)) {
            ("ping", None) => RedisReply::Status("PONG".into()),
            ("ping" | "echo", Some(word)) => RedisReply::Bulk(word.clone()),
            ("time", _) => RedisReply::Array(vec![
                bulk((self.unix_ms / 1000).to_string()),
                bulk((self.unix_ms % 1000 * 1000).to_string()),
            ]),
            ("lastsave", _) => RedisReply::Integer(i64::try_from(self.unix_ms / 1000).unwrap_or(i64::MAX)),
            ("select", Some(word)) => {
                let number = std::str::from_utf8(word).ok().and_then(|word| word.parse::<u8>().ok());
                match number.filter(|number| *number < DATABASES) {
                    Some(number) => {
                        self.database = number;
                        RedisReply::Ok
                    }
                    None => error("ERR DB index is out of range"),
                }
            }
            _ => error("ERR This Redis command is not allowed from script"),
        }
    }
}

/// What must be done again to see it again. All else are reads of keys, whose versions say that they would reply the same.
fn is_step(spec: &CommandSpec, words: &[Bytes]) -> bool {
    let picks = matches!(spec.name, "srandmember" | "hrandfield" | "zrandmember");
    // SORT's BY and GET read keys that it does not name.
    let elsewhere = spec.name == "sort_ro" && words.len() > 2;
    spec.how == Use::Write || spec.keys == Keys::None || picks || elsewhere
}

fn with_receivers(reply: RedisReply, receivers: i64) -> RedisReply {
    match reply {
        RedisReply::Integer(count) => RedisReply::Integer(count.saturating_add(receivers)),
        reply => reply,
    }
}

fn unexpected() -> Cut {
    Cut::Answer(error("ERR a script was answered by something else; report it"))
}
