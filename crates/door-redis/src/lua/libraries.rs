//! The libraries that scripts have beside Lua's own: Redis' functions that need no database, `cjson`, `bit`, `math.random`.
//!
//! Always: a function here gives `true` and its values, or `false` and a message, and raises nothing (`prelude.lua` does); what it makes
//! is bounded.
//! Held by: `libraries_say_what_is_wrong`.
//! Not here: `redis.call` (`machine.rs`), what needs no more than Lua (`prelude.lua`).

mod bits;
mod json;
mod msgpack;
mod packed;

use mlua::{Lua, LuaString, MultiValue, Table, Value};
use sha1::{Digest, Sha1};
use std::cell::Cell;
use std::time::Instant;

/// The version that `redis.REDIS_VERSION` names: 7.0.15.
const VERSION_NUMBER: u32 = 0x0007_000f;

/// What a function gives: values, or what is wrong with its arguments.
type Given = Result<Vec<Value>, String>;

/// A function as the prelude wants it.
fn add(lua: &Lua, table: &Table, name: &str, run: impl Fn(&Lua, &[Value]) -> Given + 'static) -> mlua::Result<()> {
    let function = lua.create_function(move |lua, arguments: MultiValue| {
        let arguments = arguments.into_vec();
        Ok(match run(lua, &arguments) {
            Ok(values) => std::iter::once(Value::Boolean(true)).chain(values).collect::<MultiValue>(),
            Err(message) => [Value::Boolean(false), Value::String(lua.create_string(message)?)].into_iter().collect(),
        })
    })?;
    table.raw_set(name, function)
}

/// All of them, by name.
pub(crate) fn all(lua: &Lua) -> mlua::Result<Table> {
    let all = lua.create_table()?;
    all.raw_set("redis", redis(lua)?)?;
    all.raw_set("math", random(lua)?)?;
    all.raw_set("os", clock(lua)?)?;
    all.raw_set("bit", bits::library(lua)?)?;
    all.raw_set("cjson", json::library(lua)?)?;
    all.raw_set("cmsgpack", msgpack::library(lua)?)?;
    all.raw_set("struct", packed::library(lua)?)?;
    Ok(all)
}

/// The digest by which a script is named.
pub(crate) fn sha1_of(text: &[u8]) -> String {
    digest_of(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The same as bytes.
pub(crate) fn digest_of(text: &[u8]) -> [u8; 20] {
    Sha1::digest(text).into()
}

fn redis(lua: &Lua) -> mlua::Result<Table> {
    let redis = lua.create_table()?;
    add(lua, &redis, "sha1hex", |lua, arguments| match arguments {
        [one] => Ok(vec![text(lua, sha1_of(&bytes_of(one, 1, "sha1hex")?).as_bytes())?]),
        _ => Err("wrong number of arguments".into()),
    })?;
    redis.raw_set("REDIS_VERSION", crate::REDIS_VERSION)?;
    redis.raw_set("REDIS_VERSION_NUM", VERSION_NUMBER)?;
    Ok(redis)
}

/// The same sequence in each run, as Redis has it: 48 bits, as POSIX' `lrand48` steps them.
fn random(lua: &Lua) -> mlua::Result<Table> {
    const MASK: u64 = (1 << 48) - 1;
    let math = lua.create_table()?;
    let begun = |seed: i64| ((seed as u64 & 0xffff_ffff) << 16) | 0x330e;
    let state = std::rc::Rc::new(Cell::new(begun(0)));
    let own = state.clone();
    add(lua, &math, "random", move |_, arguments| {
        let next = own.get().wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB) & MASK;
        own.set(next);
        let part = (next >> 17) as f64 / f64::from(1_u32 << 31);
        let limits: Vec<i64> =
            (1..).zip(arguments).map(|(at, value)| integer(value, at, "random")).collect::<Result<_, _>>()?;
        let (from, to) = match limits[..] {
            [] => return Ok(vec![Value::Number(part)]),
            [to] if to >= 1 => (1, to),
            [_] => return Err("bad argument #1 to 'random' (interval is empty)".into()),
            [from, to] if from <= to => (from, to),
            [_, _] => return Err("bad argument #2 to 'random' (interval is empty)".into()),
            _ => return Err("wrong number of arguments".into()),
        };
        Ok(vec![Value::Number((part * (to as f64 - from as f64 + 1.0)).floor() + from as f64)])
    })?;
    add(lua, &math, "randomseed", move |_, arguments| {
        state.set(begun(integer(arguments.first().unwrap_or(&Value::Nil), 1, "randomseed")?));
        Ok(Vec::new())
    })?;
    Ok(math)
}

fn clock(lua: &Lua) -> mlua::Result<Table> {
    let os = lua.create_table()?;
    let begun = Instant::now();
    add(lua, &os, "clock", move |_, _| Ok(vec![Value::Number(begun.elapsed().as_secs_f64())]))?;
    Ok(os)
}

/// A text for Lua. `Err`: there is no memory for it.
fn text(lua: &Lua, bytes: &[u8]) -> Result<Value, String> {
    lua.create_string(bytes).map(Value::String).map_err(|_| super::machine::NO_MEMORY.into())
}

/// A text or a number, as Lua takes both for texts.
fn bytes_of(value: &Value, at: usize, name: &str) -> Result<Vec<u8>, String> {
    match super::values::word_of(value) {
        Some(bytes) => Ok(bytes.to_vec()),
        None => Err(bad(at, name, "string", value)),
    }
}

fn float(value: &Value, at: usize, name: &str) -> Result<f64, String> {
    let parsed = |text: &LuaString| text.to_string_lossy().trim().parse().ok();
    let number = match value {
        Value::Integer(value) => Some(*value as f64),
        Value::Number(value) => Some(*value),
        Value::String(text) => parsed(text),
        _ => None,
    };
    number.ok_or_else(|| bad(at, name, "number", value))
}

fn integer(value: &Value, at: usize, name: &str) -> Result<i64, String> {
    float(value, at, name).map(|number| number as i64)
}

fn bad(at: usize, name: &str, wanted: &str, value: &Value) -> String {
    let is = if value.is_nil() { "no value" } else { value.type_name() };
    format!("bad argument #{at} to '{name}' ({wanted} expected, got {is})")
}
