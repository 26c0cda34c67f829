//! Scripts: EVAL, EVALSHA, FCALL, their `_RO` forms, also within MULTI, and SCRIPT.
//!
//! ```text
//!   client ─ EVAL ─▶ connection's task ── script ──▶ a thread with Lua (`pool.rs`, `machine.rs`)
//!                        │   ◀── redis.call, one at a time ──┘
//!                        ├─ tries it: nothing is changed (`attempt.rs`) ─▶ Database
//!                        └─ at the end: all that it did, at once, if it would see the same; else it is run again
//! ```
//! Always: of a script all is done or nothing, and nobody sees a part; how long, how large and how often it runs is bounded (`limits.rs`);
//! each of its commands needs the rights that it needs of a client.
//! Held by: `scripts_at_the_same_time_lose_nothing`, `a_script_that_is_cut_changes_nothing`, `a_script_may_do_what_its_user_may`,
//! `scripts_are_part_of_a_transaction`.
//! By design: what a script did before it ran into an error stays done, as in Redis; what was stopped (time, memory, SCRIPT KILL) is not.
//! Not here: what a command does. Why scripts do not run in the database: docs/decisions/0094.

mod attempt;
pub(crate) mod functions;
pub(crate) mod kept;

use crate::connection::Connection;
use crate::database::Session;
use crate::error::{error, of_refusal, NO_AUTH};
use crate::lua::kept::Libraries;
use crate::lua::limits::*;
use crate::lua::machine::{self, Ended, Script, Stop, Why};
use crate::lua::{pool, sha1_of};
use crate::request::Words;
use attempt::{Attempt, Cut};
use base_types::redis::{CommandSpec, KeyVersion, RedisAnswer, RedisAsk, RedisReply, Use};
use base_types::Refusal;
use bytes::Bytes;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// What EVAL or its like wants.
struct Wanted {
    script: Script,
    read_only: bool,
    /// To be kept, where it came with its source.
    source: Option<Bytes>,
    /// Where it is a function: the libraries among which it was found.
    called: Option<Called>,
}

struct Called {
    /// FCALL's words.
    words: Words,
    libraries: KeyVersion,
}

/// Carries out EVAL and its like.
pub(crate) async fn on_eval(of: &Connection, name: &str, words: &Words) -> RedisReply {
    let Some(session) = of.session() else { return error(NO_AUTH) };
    let wanted = match wanted(of, &session, name, words).await {
        Ok(wanted) => wanted,
        Err(refused) => return refused,
    };
    let kept = wanted.source.clone().map(|source| (wanted.script.name.clone(), source));
    let reply = run(of, &session, wanted);
    match &kept {
        // What could not be kept is sent again by clients.
        Some((name, source)) => futures::future::join(reply, kept::keep(of, &session, name, source)).await.0,
        None => reply.await,
    }
}

async fn wanted(of: &Connection, session: &Session, name: &str, words: &Words) -> Result<Wanted, RedisReply> {
    if name.starts_with("fcall") {
        return function(of, session, words, functions::recall(of, session).await).await;
    }
    let (keys, arguments) = keys_and_arguments(words, "ERR value is not an integer or out of range")?;
    let by_name = name.starts_with("evalsha");
    let (name_of, source) = if by_name {
        let named = String::from_utf8_lossy(&words[1]).to_ascii_lowercase();
        let found = kept::find(of, session, &named).await.map_err(|refusal| of_refusal(&refusal, false))?;
        (named, found.ok_or_else(|| error("NOSCRIPT No matching script. Please use EVAL."))?)
    } else {
        (sha1_of(&words[1]), words[1].clone())
    };
    let (flags, body) = split_flags(&source)?;
    let by_reader = name.ends_with("_ro");
    if by_reader && flags.is_some_and(|flags| !flags.no_writes) {
        return Err(error("ERR Can not execute a script with write flag using *_ro command."));
    }
    let read_only = by_reader || flags.is_some_and(|flags| flags.no_writes);
    let script = Script { source: body, name: name_of, library: false, keys, arguments };
    Ok(Wanted { script, read_only, source: (!by_name).then_some(source), called: None })
}

/// What FCALL wants of these libraries, or of those that others have loaded meanwhile.
async fn function(
    of: &Connection,
    session: &Session,
    words: &Words,
    libraries: Result<Rc<Libraries>, Refusal>,
) -> Result<Wanted, RedisReply> {
    let (keys, arguments) = keys_and_arguments(words, "ERR Bad number of keys provided")?;
    let name = String::from_utf8_lossy(&words[1]).into_owned();
    let refused = |refusal: Refusal| of_refusal(&refusal, false);
    let mut libraries = libraries.map_err(refused)?;
    if libraries.function(&name).is_none() {
        libraries = functions::fetch(of, session).await.map_err(refused)?;
    }
    let (library, function) = libraries.function(&name).ok_or_else(|| error("ERR Function not found"))?;
    let read_only = function.flags.iter().any(|flag| flag == "no-writes");
    if !read_only && words[0].to_ascii_lowercase().ends_with(b"_ro") {
        return Err(error("ERR Can not execute a script with write flag using *_ro command."));
    }
    let script = Script { source: library.body(), name: function.name.clone(), library: true, keys, arguments };
    let called = Called { words: words.clone(), libraries: libraries.watched() };
    Ok(Wanted { script, read_only, source: None, called: Some(called) })
}

impl Wanted {
    /// Looks a function up again: its library may be what others have changed.
    async fn renew(&mut self, of: &Connection, session: &Session) -> Result<(), RedisReply> {
        if let Some(called) = &self.called {
            *self = function(of, session, &called.words, functions::fetch(of, session).await).await?;
        }
        Ok(())
    }
}

fn keys_and_arguments(words: &Words, no_number: &str) -> Result<(Vec<Bytes>, Vec<Bytes>), RedisReply> {
    let count = words.get(2).and_then(|word| std::str::from_utf8(word).ok()?.parse::<i64>().ok());
    let Some(count) = count else { return Err(error(no_number)) };
    let Ok(count) = usize::try_from(count) else { return Err(error("ERR Number of keys can't be negative")) };
    if count > words.len() - 3 {
        return Err(error("ERR Number of keys can't be greater than number of args"));
    }
    let (keys, arguments) = words[3..].split_at(count);
    Ok((keys.to_vec(), arguments.to_vec()))
}

/// What the first line of a script says of it.
#[derive(Clone, Copy, Default)]
struct Flags {
    no_writes: bool,
}

/// `#!lua flags=…`, and what follows, its lines counted as before. `None`: there is no such line.
fn split_flags(source: &Bytes) -> Result<(Option<Flags>, Bytes), RedisReply> {
    if !source.starts_with(b"#!") {
        return Ok((None, source.clone()));
    }
    let end = source.iter().position(|byte| *byte == b'\n').unwrap_or(source.len());
    let line = String::from_utf8_lossy(&source[2..end]).into_owned();
    let mut parts = line.split_whitespace();
    match parts.next() {
        Some("lua") => {}
        other => return Err(error(format!("ERR Unexpected engine in script shebang: {}", other.unwrap_or_default()))),
    }
    let mut flags = Flags::default();
    for part in parts {
        let Some(named) = part.strip_prefix("flags=") else {
            return Err(error(format!("ERR Unknown lua shebang option: {part}")));
        };
        for flag in named.split(',').filter(|flag| !flag.is_empty()) {
            match flag {
                "no-writes" => flags.no_writes = true,
                "allow-oom" | "allow-stale" | "no-cluster" | "allow-cross-slot-keys" => {}
                other => return Err(error(format!("ERR Unexpected flag in script shebang: {other}"))),
            }
        }
    }
    Ok((Some(flags), source.slice(end..)))
}

/// How often something has been run, because others changed what it saw.
struct Runs {
    number: u32,
    begun: Instant,
    pause_us: u64,
}

impl Runs {
    fn new() -> Runs {
        Runs { number: 0, begun: Instant::now(), pause_us: SCRIPT_PAUSE_US }
    }

    /// The next run, as far as it is known what it will be.
    fn attempt(&self, of: &Connection, session: &Rc<Session>) -> Attempt {
        let mut attempt = Attempt::new(of, session.clone());
        attempt.predicts = self.number == 0;
        attempt
    }

    /// Waits a little before the next. `Err`: there is none.
    async fn pause(&mut self, of: &Connection) -> Result<(), RedisReply> {
        self.number += 1;
        if self.number >= SCRIPT_RUNS_MAX || self.begun.elapsed() > SCRIPT_RUNS_TIME_MAX {
            let message = "TRYAGAIN others changed what the script reads while it ran, each time it was run; it has changed nothing";
            return Err(error(message));
        }
        tokio::time::sleep(Duration::from_micros(of.door.database.random() % self.pause_us)).await;
        self.pause_us = (self.pause_us * 2).min(SCRIPT_PAUSE_US_MAX);
        Ok(())
    }
}

/// Runs a script until what it did is done, or it cannot be.
async fn run(of: &Connection, session: &Rc<Session>, mut wanted: Wanted) -> RedisReply {
    let _turn = match wanted.read_only {
        true => None,
        false => Some(of.door.scripts.turns.take(session, of.client.database, &wanted.script.keys).await),
    };
    let mut runs = Runs::new();
    loop {
        let mut attempt = runs.attempt(of, session);
        let until = Instant::now() + SCRIPT_TIME_MAX;
        let ended = match once(of, session, &wanted, &mut attempt, until).await {
            Ok(reply) => attempt.commit().await.map(|()| reply),
            cut => cut,
        };
        match ended {
            Ok(reply) | Err(Cut::Answer(reply)) => return reply,
            Err(Cut::Conflict) => {}
        }
        if let Err(refused) = runs.pause(of).await {
            return refused;
        }
        if let Err(refused) = wanted.renew(of, session).await {
            return refused;
        }
    }
}

/// What MULTI has queued: a command, the database it is about, its words.
type Queued = (&'static CommandSpec, u8, Words);

/// Whether one of these runs a script, so that EXEC is [`on_exec`].
pub(crate) fn has_scripts(queued: &[Queued]) -> bool {
    queued.iter().any(|(spec, ..)| runs_script(spec))
}

/// Whether a command is answered by a script.
pub(crate) fn runs_script(spec: &CommandSpec) -> bool {
    matches!(spec.name, "eval" | "evalsha" | "eval_ro" | "evalsha_ro" | "fcall" | "fcall_ro")
}

/// EXEC of a transaction with scripts in it: all of it is run like a script. Gives the replies of what is not the door's own; `Err`: what is
/// replied instead of all of them.
pub(crate) async fn on_exec(
    of: &Connection,
    watched: Vec<KeyVersion>,
    queued: &[Queued],
) -> Result<Vec<RedisReply>, RedisReply> {
    let Some(session) = of.session() else { return Err(error(NO_AUTH)) };
    let mut scripts = Vec::with_capacity(queued.len());
    for (spec, _, words) in queued {
        scripts.push(match runs_script(spec) {
            true => Some(wanted(of, &session, spec.name, words).await),
            false => None,
        });
    }
    let keys: Vec<Bytes> = scripts.iter().flatten().flatten().flat_map(|wanted| wanted.script.keys.clone()).collect();
    let turn = of.door.scripts.turns.take(&session, of.client.database, &keys).await;
    let mut runs = Runs::new();
    let replies = loop {
        let mut attempt = runs.attempt(of, &session);
        attempt.watched.clone_from(&watched);
        match transaction(of, &session, queued, &scripts, attempt).await {
            Ok(replies) => break replies,
            Err(Cut::Answer(reply)) => return Err(reply),
            Err(Cut::Conflict) => {}
        }
        // What the client watches ends it; what the scripts saw does not.
        match of.call(RedisAsk::Versions { keys: watched.clone() }).await {
            Ok(RedisAnswer::Versions { versions })
                if watched.iter().map(|key| key.version).eq(versions.iter().copied()) => {}
            Ok(_) => return Err(RedisReply::NilArray),
            Err(refusal) => return Err(of_refusal(&refusal, false)),
        }
        runs.pause(of).await?;
        for script in scripts.iter_mut().flatten() {
            let renewed = match script {
                Ok(wanted) => wanted.renew(of, &session).await,
                Err(_) => Ok(()),
            };
            if let Err(refused) = renewed {
                *script = Err(refused);
            }
        }
    };
    drop(turn);
    for wanted in scripts.iter().flatten().flatten() {
        if let Some(source) = &wanted.source {
            let _ = kept::keep(of, &session, &wanted.script.name, source).await;
        }
    }
    Ok(replies)
}

/// Runs and does all of a transaction. Gives the replies of what is not the door's own.
async fn transaction(
    of: &Connection,
    session: &Rc<Session>,
    queued: &[Queued],
    scripts: &[Option<Result<Wanted, RedisReply>>],
    mut attempt: Attempt,
) -> Result<Vec<RedisReply>, Cut> {
    let until = Instant::now() + SCRIPT_TIME_MAX;
    let mut replies = Vec::with_capacity(queued.len());
    for ((spec, database, words), script) in queued.iter().zip(scripts) {
        attempt.database = *database;
        replies.push(match script {
            Some(Ok(wanted)) => once(of, session, wanted, &mut attempt, until).await?,
            Some(Err(refused)) => refused.clone(),
            None if spec.how == Use::Door => continue,
            None => attempt.call(words.clone()).await?,
        });
    }
    attempt.commit().await?;
    Ok(replies)
}

/// What a script's thread says to the task of its connection.
enum Said {
    Call { words: Words, answer: oneshot::Sender<RedisReply> },
    Ended(Ended),
}

/// Stops a script of which nobody waits for the reply.
struct Leaves(Arc<Stop>);

impl Drop for Leaves {
    fn drop(&mut self) {
        self.0.set(Why::Left);
    }
}

/// Runs a script once. What it did is in the attempt, to be done or not.
async fn once(
    of: &Connection,
    session: &Rc<Session>,
    wanted: &Wanted,
    attempt: &mut Attempt,
    until: Instant,
) -> Result<RedisReply, Cut> {
    let answer = |text: String| Err(Cut::Answer(error(text)));
    let script = &wanted.script;
    if let Some(called) = &wanted.called {
        attempt.watch_library(called.libraries.clone())?;
    }
    let stop = Arc::new(Stop::new(until));
    let (sender, mut said) = mpsc::channel(1);
    if !pool::submit(job(script.clone(), stop.clone(), sender)) {
        return answer(format!("BUSY {SCRIPTS_WAITING_MAX} scripts wait for this node; try again later"));
    }
    attempt.read_only = wanted.read_only;
    of.door.scripts.began(session, &stop, wanted.called.as_ref().map(|called| called.words.clone()));
    let leaves = Leaves(stop.clone());
    let talk = async {
        loop {
            match said.recv().await {
                Some(Said::Call { words, answer }) => {
                    let reply = attempt.call(words).await?;
                    // A script that was stopped meanwhile wants none.
                    let _ = answer.send(reply);
                }
                Some(Said::Ended(ended)) => return Ok(ended),
                None => return Err(Cut::Answer(error("ERR the script ended without a reply; report it"))),
            }
        }
    };
    let ended = match tokio::time::timeout_at((until + SCRIPT_TIME_GRACE).into(), talk).await {
        Ok(ended) => ended?,
        Err(_) => Ended::Stopped(Why::TimeOver),
    };
    drop(leaves);
    attempt.read_only = false;
    match ended {
        Ended::Reply(reply) => Ok(reply),
        Ended::Memory => answer(format!(
            "ERR the script needs more than {SCRIPT_MEMORY_BYTES_MAX} bytes of memory; it has changed nothing"
        )),
        Ended::Stopped(Why::Killed) => {
            answer(format!("ERR Script killed by user with SCRIPT KILL. script: {}", script.name))
        }
        Ended::Stopped(_) => answer(format!(
            "ERR the script ran longer than {} ms and was stopped; it has changed nothing",
            SCRIPT_TIME_MAX.as_millis()
        )),
    }
}

fn job(script: Script, stop: Arc<Stop>, sender: mpsc::Sender<Said>) -> pool::Job {
    Box::new(move || {
        let calls = sender.clone();
        let calls = Box::new(move |words| {
            let (answer, answered) = oneshot::channel();
            calls.blocking_send(Said::Call { words, answer }).ok()?;
            answered.blocking_recv().ok()
        });
        let ended = machine::run(&script, &stop, calls);
        let _ = sender.blocking_send(Said::Ended(ended));
    })
}

/// Keeps a script without running it; gives its name.
pub(crate) async fn load(of: &Connection, session: &Session, source: &Bytes) -> RedisReply {
    let body = match split_flags(source) {
        Ok((_, body)) => body,
        Err(refused) => return refused,
    };
    if source.len() > KEPT_BYTES_EACH_MAX {
        return error(format!("ERR the script has {} bytes; at most {KEPT_BYTES_EACH_MAX} are kept", source.len()));
    }
    let (sender, compiled) = oneshot::channel();
    let job = move || drop(sender.send(machine::compile(&body)));
    if !pool::submit(Box::new(job)) {
        return error("BUSY too many scripts wait for this node; try again later");
    }
    match compiled.await {
        Ok(Ok(())) => {}
        Ok(Err(message)) => return error(format!("ERR Error compiling script (new function): {message}")),
        Err(_) => return error("ERR the script could not be compiled; report it"),
    }
    let name = sha1_of(source);
    match kept::keep(of, session, &name, source).await {
        Ok(()) => RedisReply::Bulk(name.into()),
        Err(refusal) => of_refusal(&refusal, true),
    }
}
