//! Streams and their consumer groups.
//!
//! ```text
//!   XADD ──▶ entry ──XREADGROUP──▶ pending with a consumer ──XACK──▶ done
//!                                   ▲     │ XCLAIM, XAUTOCLAIM
//!                                   └─────┘
//! ```
//!
//! By design: ids of `*` and idle times go by the door's wall clock, since clients compare them with theirs. An id is greater than all before it
//! whatever that clock says. Names of groups and consumers are parts of rows' keys, so they are at most `KEY_BYTES_MAX` long. What
//! Redis bounds by memory is bounded by constants of these files; a write that would be beyond is refused or does a part (docs/formats/backend-redis.md).
//! Not here: waiting (BLOCK), which is the door's.

mod add;
mod claim;
mod deliver;
mod dump;
mod entries;
mod groups;
mod ids;
mod info;
mod members;
mod pending;
mod read;
mod rows;
mod trim;

#[cfg(test)]
mod tests;

pub(super) use dump::Whole;

use super::store::Moment;
use super::table::{read, write, Entry};

/// What these files answer.
pub(super) const COMMANDS: &[Entry] = &[
    write("xadd", add::xadd),
    write("xtrim", add::xtrim),
    write("xdel", add::xdel),
    read("xlen", add::xlen),
    write("xsetid", add::xsetid),
    read("xrange", read::xrange),
    read("xrevrange", read::xrevrange),
    read("xread", read::xread),
    write("xgroup", groups::xgroup),
    write("xreadgroup", deliver::xreadgroup),
    write("xack", deliver::xack),
    read("xpending", pending::xpending),
    write("xclaim", claim::xclaim),
    write("xautoclaim", claim::xautoclaim),
    read("xinfo", info::xinfo),
];

/// The door's wall clock; where no door asks, the cluster's.
fn wall_ms(moment: &Moment) -> u64 {
    match moment.unix_ms {
        0 => moment.now,
        unix_ms => unix_ms,
    }
}
