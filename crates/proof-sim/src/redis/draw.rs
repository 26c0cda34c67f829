//! What clients of Redis databases ask next.
//!
//! ```text
//!   database 0   s… strings   c… counters that may expire   n… counters   h… hashes   z… sorted sets   w… watched   PAIR
//!   database 1   q… lists
//! ```
//!
//! Always: every value, element and message is written by one command; only transactions write PAIR, both keys of it.
//! Held by: `what_is_drawn_is_written_once`.
//! Not here: asking and answers (the parent).

use super::{command, text};
use crate::random::Random;
use base_types::redis::{KeyVersion, RedisCommand};
use bytes::Bytes;
use proof_check::redis::PAIR;

/// How long keys live.
const LIVES_MS: &[i64] = &[30, 300, 1_500, 4_000];
/// Where dates lie from the door's clock; the first has passed.
const DATES_MS: &[i64] = &[-5, 200, 1_500];
/// The most commands of one call: those of several connections of a door.
const COMMANDS_MAX: u64 = 4;
/// The database of lists.
const LISTS: u8 = 1;

/// A call to be made.
pub(super) enum Drawn {
    /// Commands, each for itself.
    Write(Vec<RedisCommand>),
    /// Commands that read, and whether of the leader.
    Read(Vec<RedisCommand>, bool),
    /// MULTI and EXEC.
    Transaction(Vec<RedisCommand>),
    /// WATCH.
    Watch(Vec<KeyVersion>),
    /// A pop that waits where it finds nothing.
    Pop(RedisCommand),
}

pub(super) fn draw(random: &mut Random, id: usize, keys: u64, unix_ms: u64) -> Drawn {
    match random.below(100) {
        0..=37 => {
            let count = random.between(1, COMMANDS_MAX);
            let mut commands: Vec<RedisCommand> =
                (0..count).map(|part| draw_write(random, id, part, keys, unix_ms)).collect();
            // A door gathers what several connections ask: some of it reads, and is answered by the entry.
            if random.per_mille(500) {
                commands.insert(random.below(count) as usize, draw_read(random, keys));
            }
            Drawn::Write(commands)
        }
        38..=61 => {
            let count = random.between(1, COMMANDS_MAX);
            let mut commands: Vec<RedisCommand> = (0..count).map(|_| draw_read(random, keys)).collect();
            if random.per_mille(400) {
                commands.extend(PAIR.map(|key| command(0, &["GET", text(key)])));
            }
            Drawn::Read(commands, !random.per_mille(200))
        }
        62..=69 => Drawn::Transaction(draw_commit(random, id, &[])),
        70..=81 => {
            let key = Bytes::from(format!("w{}", random.below(keys.min(2))));
            Drawn::Watch(vec![KeyVersion { database: 0, key, version: 0 }])
        }
        _ => {
            let key = format!("q{}", random.below(keys.min(2)));
            Drawn::Pop(match random.below(3) {
                0 => command(LISTS, &["BLPOP", &key, "0"]),
                1 => command(LISTS, &["BRPOP", &key, "0"]),
                _ => command(LISTS, &["LPOP", &key]),
            })
        }
    }
}

/// A look at keys that expire.
pub(super) fn draw_look(random: &mut Random, keys: u64) -> Drawn {
    let kinds = ["s", "c"].map(|kind| (kind, random.below(keys)));
    Drawn::Read(kinds.map(|(kind, number)| command(0, &["GET", &format!("{kind}{number}")])).to_vec(), true)
}

/// What a transaction writes: PAIR, and what it watches.
pub(super) fn draw_commit(random: &mut Random, id: usize, watched: &[KeyVersion]) -> Vec<RedisCommand> {
    let value = format!("{id}.pair");
    let mut commands: Vec<RedisCommand> = PAIR.iter().map(|key| command(0, &["SET", text(key), &value])).collect();
    for key in watched {
        commands.push(match random.below(5) {
            0 => command(key.database, &["DEL", text(&key.key)]),
            _ => command(key.database, &["SET", text(&key.key), &format!("{id}.watched")]),
        });
    }
    if random.per_mille(200) {
        commands.push(publication(random, id, COMMANDS_MAX));
    }
    commands
}

fn publication(random: &mut Random, id: usize, part: u64) -> RedisCommand {
    let channel = format!("news{}", random.below(2));
    command(0, &["PUBLISH", &channel, &format!("{id}.{part}")])
}

fn draw_write(random: &mut Random, id: usize, part: u64, keys: u64, unix_ms: u64) -> RedisCommand {
    let number = random.below(keys);
    let value = format!("{id}.{part}");
    let life = random.pick(LIVES_MS).to_string();
    match random.below(100) {
        0..=11 => command(0, &["SET", &format!("s{number}"), &value]),
        12..=21 => command(0, &["SET", &format!("s{number}"), &value, "PX", &life]),
        22..=31 => command(0, &["SET", &format!("s{number}"), &value, "NX", "PX", &life]),
        32..=34 => command(0, &["DEL", &format!("{}{number}", random.pick(&["s", "c", "h"]))]),
        35..=44 => command(0, &["INCR", &format!("c{number}")]),
        45..=54 => command(0, &["INCR", &format!("n{number}")]),
        55..=60 => command(0, &["HSET", &format!("h{number}"), &format!("f{}", random.below(3)), &value]),
        61..=66 => {
            let (score, member) = (random.below(5).to_string(), format!("m{}", random.below(6)));
            command(0, &["ZADD", &format!("z{number}"), &score, &member])
        }
        67..=78 => {
            let key = format!("{}{number}", random.pick(&["s", "c", "h", "z"]));
            match random.below(4) {
                0 => command(0, &["EXPIRE", &key, "1"]),
                1 => command(0, &["PERSIST", &key]),
                2 => {
                    let date = unix_ms as i64 + random.pick(DATES_MS);
                    command(0, &["PEXPIREAT", &key, &date.to_string()])
                }
                _ => command(0, &["PEXPIRE", &key, &life]),
            }
        }
        79..=92 => {
            let name = random.pick(&["LPUSH", "RPUSH"]);
            command(LISTS, &[name, &format!("q{}", number.min(1)), &value])
        }
        _ => publication(random, id, part),
    }
}

fn draw_read(random: &mut Random, keys: u64) -> RedisCommand {
    let number = random.below(keys);
    match random.below(12) {
        0..=2 => command(0, &["GET", &format!("s{number}")]),
        3 => command(0, &["GET", &format!("c{number}")]),
        4 => command(0, &["GET", &format!("n{number}")]),
        5 => command(0, &["HGET", &format!("h{number}"), &format!("f{}", random.below(3))]),
        6 => command(0, &["ZRANGE", &format!("z{number}"), "0", "-1"]),
        7..=8 => command(0, &["PTTL", &format!("{}{number}", random.pick(&["s", "c", "h", "z"]))]),
        9 => command(LISTS, &["LRANGE", &format!("q{}", number.min(1)), "0", "-1"]),
        10 => command(LISTS, &["LLEN", &format!("q{}", number.min(1))]),
        _ => command(0, &["GET", &format!("w{}", number.min(1))]),
    }
}

/// A look at all that clients may have written.
pub fn whole(keys: u64) -> Vec<RedisCommand> {
    let mut all: Vec<RedisCommand> = PAIR.iter().map(|key| command(0, &["GET", text(key)])).collect();
    for number in 0..keys {
        let gets = ["s", "c", "n", "w"].map(|kind| command(0, &["GET", &format!("{kind}{number}")]));
        all.extend(gets);
        all.extend((0..3).map(|field| command(0, &["HGET", &format!("h{number}"), &format!("f{field}")])));
        all.push(command(0, &["ZRANGE", &format!("z{number}"), "0", "-1"]));
        all.push(command(LISTS, &["LRANGE", &format!("q{number}"), "0", "-1"]));
    }
    all
}
