//! `bit`: numbers as 32 bits.
//!
//! By design: as the library BitOp does it; a number beyond 32 bits loses those above.

use super::{add, float, integer, text, Given};
use mlua::{Lua, Table, Value};

fn bits(value: Option<&Value>, at: usize, name: &str) -> Result<u32, String> {
    let number = float(value.unwrap_or(&Value::Nil), at, name)?;
    // What is not finite has no bits; beyond 2^53 there are no odd numbers anyway.
    Ok(number.round_ties_even().rem_euclid(4_294_967_296.0) as u64 as u32)
}

fn given(bits: u32) -> Given {
    Ok(vec![Value::Number(f64::from(bits as i32))])
}

pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let bit = lua.create_table()?;
    add(lua, &bit, "tobit", |_, all| given(bits(all.first(), 1, "tobit")?))?;
    add(lua, &bit, "bnot", |_, all| given(!bits(all.first(), 1, "bnot")?))?;
    add(lua, &bit, "bswap", |_, all| given(bits(all.first(), 1, "bswap")?.swap_bytes()))?;
    for (name, join) in [
        ("band", (|one, other| one & other) as fn(u32, u32) -> u32),
        ("bor", |one, other| one | other),
        ("bxor", |one, other| one ^ other),
    ] {
        add(lua, &bit, name, move |_, all| {
            let first = bits(all.first(), 1, name)?;
            let rest = (2..).zip(all.iter().skip(1));
            let all = rest.map(|(at, value)| bits(Some(value), at, name)).collect::<Result<Vec<_>, _>>()?;
            given(all.into_iter().fold(first, join))
        })?;
    }
    for (name, turn) in [
        ("lshift", (|value, by| value << by) as fn(u32, u32) -> u32),
        ("rshift", |value, by| value >> by),
        ("arshift", |value, by| (value as i32 >> by) as u32),
        ("rol", u32::rotate_left),
        ("ror", u32::rotate_right),
    ] {
        add(lua, &bit, name, move |_, all| given(turn(bits(all.first(), 1, name)?, bits(all.get(1), 2, name)? & 31)))?;
    }
    add(lua, &bit, "tohex", |lua, all| {
        let value = bits(all.first(), 1, "tohex")?;
        let digits = all.get(1).map_or(Ok(8), |digits| integer(digits, 2, "tohex"))?;
        let shown = usize::try_from(digits.unsigned_abs().min(8)).unwrap_or(8);
        let hex = if digits < 0 { format!("{value:08X}") } else { format!("{value:08x}") };
        Ok(vec![text(lua, &hex.as_bytes()[8 - shown..])?])
    })?;
    Ok(bit)
}
