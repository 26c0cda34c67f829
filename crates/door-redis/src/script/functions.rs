//! Libraries of functions: FUNCTION LOAD and its like change them, FCALL finds in them what it calls.
//!
//! ```text
//!   FUNCTION LOAD ─▶ Lua runs the library: names of its functions ─▶ Transaction { watched: [the hash], HSET library } ─ aborted ─▶ again
//!   FCALL         ─▶ remembered here, or read ─▶ the run watches the hash (`attempt.rs`): what ran is what was kept at that moment
//! ```
//! Always: a library is kept whole or not at all; no two have a function of the same name; a call that began with a library that others
//! have changed meanwhile does nothing and begins again; what is kept is bounded, so that a dump of all can be given back.
//! Held by: `functions_are_known_at_every_door_at_once`, `two_libraries_do_not_share_a_function`, `libraries_are_dumped_and_restored`.
//! Not here: FUNCTION's words (`commands/function.rs`), Lua (`lua/`), who may change a library (base-access, `needs/redis.rs`).
//! Why they are kept so: docs/decisions/0137.

use crate::connection::Connection;
use crate::database::{Levels, Session};
use crate::error::{error, of_refusal};
use crate::lua::kept::{Libraries, Library};
use crate::lua::limits::{
    KEPT_BYTES_EACH_MAX, LIBRARIES_BYTES_MAX, LIBRARIES_MAX, LIBRARY_NAME_BYTES_MAX, LIBRARY_TIME_MAX,
    SCRIPTS_WAITING_MAX, SCRIPT_PAUSE_US, SCRIPT_RUNS_MAX,
};
use crate::lua::machine::{self, Registered, Stop};
use crate::lua::{digest_of, pool};
use base_types::codec::{Reader, Writer};
use base_types::redis::{RedisAnswer, RedisAsk, RedisCall, RedisCommand, RedisReply, LIBRARIES_KEY, SCRIPTS_DATABASE};
use base_types::wire::Wire;
use base_types::{ErrorCode, Refusal};
use bytes::Bytes;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// What a dump begins with, and its form (docs/formats/redis-dump.md).
const DUMP_MARK: &[u8] = b"HIVEFN";
const DUMP_FORM: u8 = 1;
/// The length of a dump's checksum.
const DIGEST_BYTES: usize = 20;
const WRONG_PAYLOAD: &str = "ERR DUMP payload version or checksum are wrong";
const WRONG_NAME: &str =
    "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long";

/// What RESTORE does with libraries that are there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Policy {
    Flush,
    Append,
    Replace,
}

/// What adds these libraries. `Err`: what is wrong with that.
fn adding(libraries: &Libraries, new: &[Library], policy: Policy) -> Result<Vec<RedisCommand>, RedisReply> {
    let named = |name: &str| libraries.all.iter().any(|library| library.name == name);
    if let (Policy::Append, Some(known)) = (policy, new.iter().find(|library| named(&library.name))) {
        return Err(error(format!("ERR Library {} already exists", known.name)));
    }
    let replaced = |own: &&Library| policy == Policy::Flush || new.iter().any(|other| other.name == own.name);
    let mut after: Vec<&Library> = libraries.all.iter().filter(|own| !replaced(own)).collect();
    for library in new {
        let taken = |function: &&Registered| after.iter().any(|own| own.has(&function.name));
        if let Some(function) = library.functions.iter().find(taken) {
            return Err(error(format!("ERR Function {} already exists", function.name)));
        }
        if after.iter().any(|own| own.name == library.name) {
            return Err(error(format!("ERR Library '{}' already exists", library.name)));
        }
        after.push(library);
    }
    // With the descriptions of their functions, whose length a library chooses.
    let bytes: usize = after.iter().map(|library| library.encode().len()).sum();
    if after.len() > LIBRARIES_MAX || bytes > LIBRARIES_BYTES_MAX {
        return Err(error(format!(
            "OOM a keyspace has at most {LIBRARIES_MAX} libraries of {LIBRARIES_BYTES_MAX} bytes together; delete one"
        )));
    }
    let mut commands = Vec::with_capacity(new.len() + 1);
    if policy == Policy::Flush {
        commands.push(command(&[b"DEL", LIBRARIES_KEY]));
    }
    let add = |library: &Library| command(&[b"HSET", LIBRARIES_KEY, library.name.as_bytes(), &library.encode()]);
    commands.extend(new.iter().map(add));
    Ok(commands)
}

fn command(words: &[&[u8]]) -> RedisCommand {
    let words = words.iter().map(|word| Bytes::copy_from_slice(word)).collect();
    RedisCommand { database: SCRIPTS_DATABASE, words }
}

async fn ask(of: &Connection, session: &Session, ask: RedisAsk) -> Result<RedisAnswer, Refusal> {
    let database = &of.door.database;
    database.call(session, RedisCall { unix_ms: database.unix_ms(), seed: 0, ask }, Levels::default()).await
}

fn damaged(what: impl std::fmt::Display) -> Refusal {
    Refusal::new(ErrorCode::Internal, format!("libraries of functions could not be read ({what}); report it"))
}

/// The libraries as they are.
pub(crate) async fn fetch(of: &Connection, session: &Session) -> Result<Rc<Libraries>, Refusal> {
    let commands = vec![command(&[b"HGETALL", LIBRARIES_KEY])];
    let asked = ask(of, session, RedisAsk::Try { watched: Vec::new(), seen: Vec::new(), commands }).await?;
    let RedisAnswer::Tried { mut replies, keys } = asked else { return Err(damaged("another answer")) };
    let (Some(RedisReply::Map(pairs)), Some(key)) = (replies.pop(), keys.first()) else {
        return Err(damaged("another reply"));
    };
    let mut all = Vec::with_capacity(pairs.len());
    for pair in &pairs {
        let (RedisReply::Bulk(name), RedisReply::Bulk(value)) = pair else { return Err(damaged("no texts")) };
        all.push(Library::decode(name, value).map_err(damaged)?);
    }
    all.sort_by(|one, other| one.name.cmp(&other.name));
    let libraries = Rc::new(Libraries { version: key.version, all });
    of.door.scripts.libraries.put(&session.keyspace, &libraries);
    Ok(libraries)
}

/// The libraries as this thread remembers them, and what runs one of them must watch it.
pub(crate) async fn recall(of: &Connection, session: &Session) -> Result<Rc<Libraries>, Refusal> {
    match of.door.scripts.libraries.get(&session.keyspace) {
        Some(libraries) => Ok(libraries),
        None => fetch(of, session).await,
    }
}

/// Changes the libraries by what `plan` says of those that are there, and nothing between.
async fn change(
    of: &Connection,
    session: &Session,
    plan: impl Fn(&Libraries) -> Result<Vec<RedisCommand>, RedisReply>,
) -> Result<(), RedisReply> {
    for _ in 0..SCRIPT_RUNS_MAX {
        let libraries = fetch(of, session).await.map_err(|refusal| of_refusal(&refusal, false))?;
        let commands = plan(&libraries)?;
        let asked = RedisAsk::Transaction { watched: vec![libraries.watched()], commands };
        match ask(of, session, asked).await {
            Ok(RedisAnswer::Replies { replies }) => {
                of.door.scripts.libraries.forget(&session.keyspace);
                let failed = replies.into_iter().find(|reply| matches!(reply, RedisReply::Error(_)));
                return failed.map_or(Ok(()), Err);
            }
            Ok(RedisAnswer::Aborted) => {}
            Ok(_) => return Err(of_refusal(&damaged("another answer"), true)),
            Err(refusal) => return Err(of_refusal(&refusal, true)),
        }
        tokio::time::sleep(Duration::from_micros(of.door.database.random() % SCRIPT_PAUSE_US)).await;
    }
    Err(error("TRYAGAIN others changed the libraries each time; nothing was changed"))
}

/// The name that the first line of a library gives it.
fn name_of(source: &[u8]) -> Result<String, RedisReply> {
    let Some(line) = source.strip_prefix(b"#!") else { return Err(error("ERR Missing library metadata")) };
    let Some(end) = line.iter().position(|byte| *byte == b'\n') else {
        return Err(error("ERR Invalid library metadata"));
    };
    let line = String::from_utf8_lossy(&line[..end]).into_owned();
    let mut parts = line.split_whitespace();
    let engine = parts.next().unwrap_or_default();
    if !engine.eq_ignore_ascii_case("lua") {
        return Err(error(format!("ERR Engine '{engine}' not found")));
    }
    let mut name = None;
    for part in parts {
        let Some(given) = part.strip_prefix("name=") else {
            return Err(error(format!("ERR Invalid metadata value given: {part}")));
        };
        if given.is_empty()
            || given.len() > LIBRARY_NAME_BYTES_MAX
            || !given.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        {
            return Err(error(WRONG_NAME));
        }
        if name.replace(given.to_owned()).is_some() {
            return Err(error("ERR Invalid metadata value, name argument was given multiple times"));
        }
    }
    name.ok_or_else(|| error("ERR Library name was not given"))
}

/// A library out of its source: Lua runs it to learn its functions.
async fn library_of(source: &Bytes) -> Result<Library, RedisReply> {
    let name = name_of(source)?;
    if source.len() > KEPT_BYTES_EACH_MAX {
        return Err(error(format!(
            "ERR the library has {} bytes; at most {KEPT_BYTES_EACH_MAX} are kept",
            source.len()
        )));
    }
    // A copy of its own: the words of a command share the bytes of others.
    let mut library = Library { name, functions: Vec::new(), source: Bytes::copy_from_slice(source) };
    let (sender, registered) = oneshot::channel();
    let body = library.body();
    let job = move || {
        let stop = Arc::new(Stop::new(Instant::now() + LIBRARY_TIME_MAX));
        drop(sender.send(machine::register(body, &stop)));
    };
    if !pool::submit(Box::new(job)) {
        return Err(error(format!("BUSY {SCRIPTS_WAITING_MAX} scripts wait for this node; try again later")));
    }
    match registered.await {
        Ok(Ok(functions)) => library.functions = functions,
        Ok(Err(message)) => return Err(error(format!("ERR {message}"))),
        Err(_) => return Err(error("ERR the library ended without an answer; report it")),
    }
    Ok(library)
}

/// FUNCTION LOAD: gives the library's name.
pub(crate) async fn load(of: &Connection, session: &Session, source: &Bytes, replace: bool) -> RedisReply {
    let library = match library_of(source).await {
        Ok(library) => library,
        Err(refused) => return refused,
    };
    let policy = if replace { Policy::Replace } else { Policy::Append };
    let name = RedisReply::Bulk(library.name.clone().into());
    let new = [library];
    let plan = |libraries: &Libraries| match libraries.all.iter().any(|own| own.name == new[0].name) {
        // Redis writes it otherwise than for RESTORE.
        true if !replace => Err(error(format!("ERR Library '{}' already exists", new[0].name))),
        _ => adding(libraries, &new, policy),
    };
    change(of, session, plan).await.map_or_else(|refused| refused, |()| name)
}

/// FUNCTION DELETE.
pub(crate) async fn delete(of: &Connection, session: &Session, name: &Bytes) -> RedisReply {
    let plan = |libraries: &Libraries| {
        let known = libraries.all.iter().any(|library| library.name.as_bytes() == name);
        let remove = || vec![command(&[b"HDEL", LIBRARIES_KEY, name])];
        if known {
            Ok(remove())
        } else {
            Err(error("ERR Library not found"))
        }
    };
    change(of, session, plan).await.map_or_else(|refused| refused, |()| RedisReply::Ok)
}

/// FUNCTION FLUSH.
pub(crate) async fn flush(of: &Connection, session: &Session) -> RedisReply {
    let plan = |_: &Libraries| Ok(vec![command(&[b"DEL", LIBRARIES_KEY])]);
    change(of, session, plan).await.map_or_else(|refused| refused, |()| RedisReply::Ok)
}

/// FUNCTION DUMP: all of them as bytes that can be kept.
pub(crate) fn dump(libraries: &Libraries) -> Bytes {
    let mut out = Writer::with_capacity(libraries.bytes() + 64);
    out.raw(DUMP_MARK).u8(DUMP_FORM).varint(libraries.all.len() as u64);
    for library in &libraries.all {
        out.bytes(&library.source);
    }
    let mut payload = out.into_vec();
    let sum = digest_of(&payload);
    payload.extend_from_slice(&sum);
    payload.into()
}

/// The sources in a dump that was not damaged on its way.
fn sources_of(payload: &Bytes) -> Option<Vec<Bytes>> {
    let end = payload.len().checked_sub(DIGEST_BYTES)?;
    if digest_of(&payload[..end])[..] != payload[end..] {
        return None;
    }
    let rest = payload.slice(..end);
    let mut input = Reader::new(rest.strip_prefix(DUMP_MARK).map(|body| rest.slice_ref(body))?);
    if input.u8("form of a dump").ok()? != DUMP_FORM {
        return None;
    }
    let sources = Vec::take(&mut input).ok()?;
    input.end().ok().map(|()| sources)
}

/// FUNCTION RESTORE: all of a dump, or nothing.
pub(crate) async fn restore(of: &Connection, session: &Session, payload: &Bytes, policy: Policy) -> RedisReply {
    let Some(sources) = sources_of(payload) else { return error(WRONG_PAYLOAD) };
    if sources.len() > LIBRARIES_MAX {
        return error(format!("ERR the dump has {} libraries; at most {LIBRARIES_MAX} are kept", sources.len()));
    }
    let mut new = Vec::with_capacity(sources.len());
    for source in &sources {
        match library_of(source).await {
            Ok(library) => new.push(library),
            Err(refused) => return refused,
        }
    }
    change(of, session, |libraries| adding(libraries, &new, policy))
        .await
        .map_or_else(|refused| refused, |()| RedisReply::Ok)
}
