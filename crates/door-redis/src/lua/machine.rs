//! A script in a Lua state of its own, within bounds of time and memory.
//!
//! ```text
//!   source, KEYS, ARGV ─▶ Lua 5.1 ─ redis.call ─▶ `Calls`, which waits for the database          ─▶ a reply
//! ```
//! Always: a script reaches nothing but what it is given: no files, no modules, no other script's state; when its time or its memory is
//! over, or somebody stops it, it ends, and `pcall` does not keep it.
//! Held by: `a_script_has_no_way_out`, `a_script_that_does_not_end_is_stopped`, `a_script_that_wants_too_much_memory_is_stopped`.
//! By design: a state is made for each run (some 50 µs), so nothing of one run can be seen by another user's.
//! Weaker: a single pattern match of `string.find` cannot be stopped; its client is answered in time, and its thread is back when it ends.
//! Not here: what a command does (`attempt.rs`), Lua's side of the functions (`prelude.lua`).

use super::libraries;
use super::limits::{SCRIPT_INSTRUCTIONS, SCRIPT_MEMORY_BYTES_MAX};
use super::share::{places, Place};
use super::values::{from_lua, to_lua, word_of};
use crate::request::Words;
use base_types::redis::RedisReply;
use base_types::wire_struct;
use bytes::Bytes;
use mlua::chunk::ChunkMode;
use mlua::{Error, Function, HookTriggers, Lua, LuaOptions, LuaString, MultiValue, StdLib, Table, Value, VmState};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::Arc;
use std::time::Instant;

/// What Lua calls a script, for its errors.
const SCRIPT_CHUNK: &str = "@user_script";
/// And a library.
const LIBRARY_CHUNK: &str = "@user_function";
/// What Lua says where there is no more memory.
pub(crate) const NO_MEMORY: &str = "not enough memory";
/// How far up the stack the script's own line is looked for.
const FRAMES_MAX: usize = 64;
const PRELUDE: &str = include_str!("prelude.lua");

/// Why a script is to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Why {
    /// It is not.
    Runs = 0,
    /// SCRIPT KILL.
    Killed = 1,
    /// Nobody waits for its reply any more.
    Left = 2,
    /// Its time is over.
    TimeOver = 3,
}

/// By which a running script is stopped from outside.
#[derive(Debug)]
pub(crate) struct Stop {
    why: AtomicU8,
    until: Instant,
}

impl Stop {
    pub fn new(until: Instant) -> Stop {
        Stop { why: AtomicU8::new(Why::Runs as u8), until }
    }

    pub fn set(&self, why: Why) {
        let _ = self.why.compare_exchange(Why::Runs as u8, why as u8, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub fn why(&self) -> Why {
        match self.why.load(Ordering::Relaxed) {
            0 if Instant::now() < self.until => Why::Runs,
            1 => Why::Killed,
            2 => Why::Left,
            _ => Why::TimeOver,
        }
    }
}

/// A script and what it is given.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub source: Bytes,
    /// The digest of its source, in hexadecimal; of a library's: the function that is called.
    pub name: String,
    /// The source is a library.
    pub library: bool,
    pub keys: Vec<Bytes>,
    pub arguments: Vec<Bytes>,
}

/// Carries out commands of a script. `None`: the script is cut.
pub(crate) type Calls = Box<dyn Fn(Words) -> Option<RedisReply>>;

/// What a script came to.
#[derive(Debug)]
pub(crate) enum Ended {
    /// What it replies. An error that it ran into is one too: what it did before stays done.
    Reply(RedisReply),
    /// It was stopped: what it did is not done.
    Stopped(Why),
    /// It wanted more memory than there is for it: what it did is not done.
    Memory,
}

/// What the functions of a run share.
struct Run {
    stop: Arc<Stop>,
    place: Place,
    /// `redis.setresp`.
    three: Cell<bool>,
}

impl Script {
    fn chunk(&self) -> &'static str {
        if self.library {
            LIBRARY_CHUNK
        } else {
            SCRIPT_CHUNK
        }
    }
}

wire_struct! {
    /// A function as its library registers it, and as it is kept (docs/formats/backend-redis.md).
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Registered {
        pub name: String,
        pub description: Option<Bytes>,
        pub flags: Vec<String>,
    }
}

/// Runs a script to its end.
pub(crate) fn run(script: &Script, stop: &Arc<Stop>, calls: Calls) -> Ended {
    let run = Rc::new(Run { stop: stop.clone(), place: Place::wait(places()), three: Cell::new(false) });
    let ended = start(script, &run, calls);
    match (stop.why(), ended) {
        (Why::Runs, Ok(reply)) => Ended::Reply(reply),
        (Why::Runs, Err(Error::MemoryError(_))) => Ended::Memory,
        (Why::Runs, Err(error)) => {
            Ended::Reply(RedisReply::Error(format!("ERR the script could not be run: {}", first_line(&error))))
        }
        (why, _) => Ended::Stopped(why),
    }
}

/// Whether a source is Lua. `Err`: what Redis says where it is not.
pub(crate) fn compile(source: &[u8]) -> Result<(), String> {
    let lua = Lua::new_with(StdLib::NONE, LuaOptions::new()).map_err(|error| first_line(&error))?;
    let _ = lua.set_memory_limit(SCRIPT_MEMORY_BYTES_MAX);
    load(&lua, source, SCRIPT_CHUNK, None).map(drop)
}

/// The functions of a library. `Err`: what Redis says where it has none, or is no library.
pub(crate) fn register(source: Bytes, stop: &Arc<Stop>) -> Result<Vec<Registered>, String> {
    let library = Script { source, name: String::new(), library: true, keys: Vec::new(), arguments: Vec::new() };
    let run = Rc::new(Run { stop: stop.clone(), place: Place::wait(places()), three: Cell::new(false) });
    let registered = registered_by(&library, &run);
    match (stop.why(), registered) {
        (Why::Runs, Ok(registered)) => registered,
        (Why::Runs, Err(Error::MemoryError(_))) => Err("Error registering functions: not enough memory".into()),
        (Why::Runs, Err(error)) => Err(format!("Error registering functions: {}", first_line(&error))),
        _ => Err("Error registering functions: FUNCTION LOAD timeout".into()),
    }
}

fn registered_by(library: &Script, run: &Rc<Run>) -> mlua::Result<Result<Vec<Registered>, String>> {
    let lua = Lua::new_with(StdLib::TABLE | StdLib::STRING | StdLib::MATH, LuaOptions::new())?;
    lua.set_memory_limit(SCRIPT_MEMORY_BYTES_MAX)?;
    let made = prepare(&lua, library, run, Box::new(|_| None))?;
    let function = match load(&lua, &library.source, library.chunk(), Some(made.environment)) {
        Ok(function) => function,
        Err(message) => return Ok(Err(format!("Error compiling function: {message}"))),
    };
    watch_over(&lua, run.clone())?;
    let (done, value): (bool, Value) = made.guarded.call(function)?;
    lua.remove_global_hook();
    if !done {
        let (error, _) = problem_of(&value)?;
        return Ok(Err(format!("Error registering functions: {}", error.strip_prefix("ERR ").unwrap_or(&error))));
    }
    let one = |table: mlua::Result<Table>| {
        let table = table?;
        let flags = table.raw_get::<Vec<String>>("flags")?;
        let description = table.raw_get::<Option<LuaString>>("description")?;
        let description = description.map(|text| Bytes::copy_from_slice(&text.as_bytes()));
        Ok(Registered { name: table.raw_get("name")?, description, flags })
    };
    let all = made.registered.sequence_values::<Table>().map(one).collect::<mlua::Result<Vec<_>>>()?;
    Ok(if all.is_empty() { Err("No functions registered".into()) } else { Ok(all) })
}

fn first_line(error: &Error) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

/// Text only: what is compiled already could do anything to the process.
fn load(lua: &Lua, source: &[u8], name: &str, environment: Option<Table>) -> Result<Function, String> {
    let mut chunk = lua.load(source).set_name(name).set_mode(ChunkMode::Text);
    if let Some(environment) = environment {
        chunk = chunk.set_environment(environment);
    }
    chunk.into_function().map_err(|error| match error {
        Error::SyntaxError { message, .. } => message,
        other => first_line(&other),
    })
}

fn start(script: &Script, run: &Rc<Run>, calls: Calls) -> mlua::Result<RedisReply> {
    let lua = Lua::new_with(StdLib::TABLE | StdLib::STRING | StdLib::MATH, LuaOptions::new())?;
    lua.set_memory_limit(SCRIPT_MEMORY_BYTES_MAX)?;
    let made = prepare(&lua, script, run, calls)?;
    let function = match load(&lua, &script.source, script.chunk(), Some(made.environment)) {
        Ok(function) => function,
        Err(message) => {
            return Ok(RedisReply::Error(format!("ERR Error compiling script (new function): {message}")));
        }
    };
    watch_over(&lua, run.clone())?;
    let (mut done, mut value): (bool, Value) = made.guarded.call(function)?;
    if done && script.library {
        // It has registered its functions, as when it was loaded.
        match made.called.call::<Option<Function>>(script.name.as_str())? {
            Some(function) => (done, value) = made.guarded.call(function)?,
            None => return Ok(RedisReply::Error("ERR Function not found".into())),
        }
    }
    lua.remove_global_hook();
    Ok(match (done, value) {
        (true, value) => from_lua(&value).unwrap_or_else(|message| RedisReply::Error(format!("ERR {message}"))),
        (false, value) => failed(script, &value)?,
    })
}

/// What the prelude makes.
struct Prepared {
    environment: Table,
    guarded: Function,
    registered: Table,
    called: Function,
}

fn prepare(lua: &Lua, script: &Script, run: &Rc<Run>, calls: Calls) -> mlua::Result<Prepared> {
    let given = functions(lua, script, run, calls)?;
    let (environment, guarded, registered, called) =
        lua.load(PRELUDE).set_name("@prelude").set_mode(ChunkMode::Text).call(given)?;
    Ok(Prepared { environment, guarded, registered, called })
}

/// What Redis says of an error that no `pcall` of the script has caught.
fn failed(script: &Script, value: &Value) -> mlua::Result<RedisReply> {
    let (error, line) = problem_of(value)?;
    let place = line.map_or(String::new(), |line| format!(", on {}:{line}.", script.chunk()));
    Ok(RedisReply::Error(format!("{error} script: {}{place}", script.name)))
}

/// An error that the prelude describes, and the script's line.
fn problem_of(value: &Value) -> mlua::Result<(String, Option<i64>)> {
    let (error, line) = match value {
        Value::Table(table) => {
            let text = table.raw_get::<LuaString>("err").map(|text| text.to_string_lossy());
            (text.unwrap_or_else(|_| "ERR unknown error".into()), table.raw_get::<i64>("line").ok())
        }
        // It was not described: there was no memory for that.
        other => (format!("ERR {}", other.to_string().unwrap_or_default()), None),
    };
    if error.ends_with(NO_MEMORY) {
        return Err(Error::MemoryError(error));
    }
    Ok((error, line))
}

/// Ends the script when it is to end: from then on every instruction fails, so that no `pcall` keeps it.
fn watch_over(lua: &Lua, run: Rc<Run>) -> mlua::Result<()> {
    let triggers = HookTriggers::new().every_nth_instruction(SCRIPT_INSTRUCTIONS);
    lua.set_global_hook(triggers, move |lua, _| {
        run.place.share();
        if run.stop.why() == Why::Runs {
            return Ok(VmState::Continue);
        }
        let stopped = || Error::RuntimeError("the script is stopped".into());
        lua.set_global_hook(HookTriggers::new().every_nth_instruction(1), move |_, _| Err(stopped()))?;
        Err(stopped())
    })
}

/// The line of the script that runs. A call whose value the script returns leaves no trace of the line that it was made from (a tail call).
fn line(lua: &Lua, chunk: &str, only: bool) -> Option<usize> {
    let found = (0..FRAMES_MAX).find_map(|level| {
        lua.inspect_stack(level, |frame| {
            let own = frame.source().source.is_some_and(|source| source == chunk);
            own.then(|| frame.current_line()).flatten()
        })
        .flatten()
    });
    found.or(only.then_some(1))
}

/// The arguments of the prelude, in its order.
fn functions(lua: &Lua, script: &Script, run: &Rc<Run>, calls: Calls) -> mlua::Result<MultiValue> {
    let list = |words: &[Bytes]| {
        lua.create_sequence_from(words.iter().map(|word| lua.create_string(word)).collect::<mlua::Result<Vec<_>>>()?)
    };
    let of = run.clone();
    let call = lua.create_function(move |lua, words: MultiValue| {
        let reply = match words_of(&words) {
            Ok(words) => of.place.without(|| calls(words)).ok_or_else(|| {
                of.stop.set(Why::Left);
                Error::RuntimeError("the script is cut".into())
            })?,
            Err(message) => RedisReply::Error(message),
        };
        to_lua(lua, &reply, of.three.get())
    })?;
    let of = run.clone();
    let speak = lua.create_function(move |_, three: bool| {
        of.three.set(three);
        Ok(())
    })?;
    let load = lua.create_function(|lua, (source, name, environment): (LuaString, Option<LuaString>, Table)| {
        let name = name.map_or_else(|| "=(load)".into(), |name| name.to_string_lossy());
        Ok(match load(lua, &source.as_bytes(), &name, Some(environment)) {
            Ok(function) => (Value::Function(function), Value::Nil),
            Err(message) => (Value::Nil, Value::String(lua.create_string(message)?)),
        })
    })?;
    let only = !script.source.trim_ascii_end().contains(&b'\n');
    let chunk = script.chunk();
    let line = lua.create_function(move |lua, ()| Ok(line(lua, chunk, only)))?;
    let values = [
        Value::Table(list(&script.keys)?),
        Value::Table(list(&script.arguments)?),
        Value::Function(call),
        Value::Function(speak),
        Value::Function(load),
        Value::Function(line),
        Value::Table(libraries::all(lua)?),
        Value::String(lua.create_string(chunk.trim_start_matches('@'))?),
        Value::Boolean(script.library),
    ];
    Ok(values.into_iter().collect())
}

fn words_of(values: &MultiValue) -> Result<Words, String> {
    if values.is_empty() {
        return Err("ERR Please specify at least one argument for this redis.call() call".into());
    }
    if values.len() > base_types::redis::COMMAND_WORDS_MAX {
        return Err("ERR too many words in a command".into());
    }
    let word = |value| {
        word_of(value).ok_or_else(|| "ERR Lua redis lib command arguments must be strings or integers".to_owned())
    };
    values.iter().map(word).collect()
}

#[cfg(test)]
mod tests;
