//! HyperLogLog: PFADD, PFCOUNT and PFMERGE count what is distinct, within about 0.81 %. A sketch is a string, as in Redis.
//!
//! Always: a sketch means the same here and in Redis: SET, GET and APPEND carry it from one to the other; each count is the one that Redis gives.
//! Held by: `sketches_of_redis_are_read`, `counts_are_those_of_redis`.
//! By design: a count that Redis left in a sketch is given as it is; PFCOUNT is a read here, and leaves none.
//! Not here: the bytes of a sketch and the estimate (`hyperloglog/sketch.rs`).

mod sketch;

use super::store::{Kind, Meta, Store, View};
use super::strings::{count_bytes, edit, STRINGS_BYTES_MAX};
use super::table::{read, write, Entry};
use super::{fail, integer, Done, Fail, Reply};
use bytes::Bytes;
use sketch::{Damage, Sketch};

/// What this file answers.
pub(super) const COMMANDS: &[Entry] = &[write("pfadd", pfadd), read("pfcount", pfcount), write("pfmerge", pfmerge)];

impl From<Damage> for Fail {
    fn from(damage: Damage) -> Fail {
        Fail::Redis(match damage {
            Damage::NoSketch => "WRONGTYPE Key is not a valid HyperLogLog string value.".into(),
            Damage::Registers => "INVALIDOBJ Corrupted HLL object detected".into(),
        })
    }
}

fn value_of(meta: Option<&Meta>) -> Option<&Bytes> {
    meta.map(|meta| &meta.value)
}

fn pfadd(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let old = store.find_kind(&argv[1], Kind::String)?;
    let mut sketch = value_of(old.as_ref()).map_or(Ok(Sketch::default()), |value| Sketch::read(value))?;
    count_bytes(&store.moment, sketch::REGISTERS);
    let mut changed = old.is_none();
    for element in &argv[2..] {
        changed |= sketch.add(element);
    }
    if changed {
        edit(store, &argv[1], old, sketch.write());
    }
    Ok(integer(changed.into()))
}

fn pfcount(view: &View<'_>, argv: &[Bytes]) -> Done {
    if let [_, key] = argv {
        let Some(meta) = view.find_kind(key, Kind::String)? else { return Ok(integer(0)) };
        if let Some(count) = Sketch::kept_count(&meta.value)? {
            return Ok(Reply::Integer(count as i64));
        }
    }
    let mut all = Sketch::default();
    let mut room = Room::default();
    for key in &argv[1..] {
        if let Some(meta) = view.find_kind(key, Kind::String)? {
            room.take("PFCOUNT", &meta.value)?;
            all.merge(&Sketch::read(&meta.value)?);
        }
    }
    count_bytes(&view.moment, room.bytes + sketch::REGISTERS);
    Ok(Reply::Integer(all.estimate() as i64))
}

fn pfmerge(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let old = store.find_kind(&argv[1], Kind::String)?;
    let mut all = value_of(old.as_ref()).map_or(Ok(Sketch::default()), |value| Sketch::read(value))?;
    let mut room = Room::default();
    for key in &argv[2..] {
        if let Some(meta) = store.find_kind(key, Kind::String)? {
            room.take("PFMERGE", &meta.value)?;
            all.merge(&Sketch::read(&meta.value)?);
        }
    }
    count_bytes(&store.moment, room.bytes + sketch::REGISTERS);
    all.forget_count();
    edit(store, &argv[1], old, all.write());
    Ok(Reply::Ok)
}

/// What one command has read.
#[derive(Default)]
struct Room {
    bytes: usize,
}

impl Room {
    /// A sketch counts as many bytes as it has registers, however few it is written with: that is its work.
    fn take(&mut self, name: &str, value: &Bytes) -> Result<(), Fail> {
        self.bytes += value.len().max(sketch::REGISTERS);
        if self.bytes > STRINGS_BYTES_MAX {
            let most = STRINGS_BYTES_MAX / sketch::REGISTERS;
            return fail(format!("ERR {name} reads at most {most} keys; name fewer keys"));
        }
        Ok(())
    }
}
