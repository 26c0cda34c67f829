//! HIVE: what Redis has no command for. `HIVE CONSISTENCY [read [write]]` for the connection, `HIVE CONSISTENCY level COMMAND …` for one.

use super::{text, upper};
use crate::connection::Connection;
use crate::database::Levels;
use crate::error::{error, unknown_subcommand};
use crate::request::Words;
use base_types::redis::{find, RedisReply, Use};
use base_types::{ReadConsistency, WriteConsistency};
use bytes::Bytes;

fn read_level(word: &Bytes) -> Option<ReadConsistency> {
    std::str::from_utf8(word).ok()?.to_ascii_lowercase().parse().ok()
}

fn write_level(word: &Bytes) -> Option<WriteConsistency> {
    std::str::from_utf8(word).ok()?.to_ascii_lowercase().parse().ok()
}

const LEVELS: &str = "ERR a level of reads is eventual or strong; of writes hopeful, eventual, strong, absolute or s3";

pub(super) async fn on_hive(of: &mut Connection, words: Words) -> RedisReply {
    if upper(&words, 1) != "CONSISTENCY" {
        return unknown_subcommand("HIVE", words.get(1).map_or(&[], |word| &word[..]));
    }
    match &words[2..] {
        [] => {
            let Levels { read, write } = of.client.levels;
            RedisReply::Array(vec![text(read.to_string()), text(write.to_string())])
        }
        [level] => set_levels(of, read_level(level), write_level(level)),
        [read, write] if find(write).is_none() => match (read_level(read), write_level(write)) {
            (Some(read), Some(write)) => set_levels(of, Some(read), Some(write)),
            _ => error(LEVELS),
        },
        [level, command @ ..] => once(of, level, command).await,
    }
}

fn set_levels(of: &mut Connection, read: Option<ReadConsistency>, write: Option<WriteConsistency>) -> RedisReply {
    if read.is_none() && write.is_none() {
        return error(LEVELS);
    }
    of.client.levels.read = read.unwrap_or(of.client.levels.read);
    of.client.levels.write = write.unwrap_or(of.client.levels.write);
    RedisReply::Ok
}

/// One command at a level.
async fn once(of: &mut Connection, level: &Bytes, command: &[Bytes]) -> RedisReply {
    let Some(spec) = command.first().and_then(|name| find(name)) else {
        return crate::error::unknown_command(command);
    };
    let before = of.client.levels;
    match spec.how {
        Use::Read => match read_level(level) {
            Some(read) => of.client.levels.read = read,
            None => return error("ERR a level of reads is eventual or strong"),
        },
        Use::Write => match write_level(level) {
            Some(write) => of.client.levels.write = write,
            None => return error("ERR a level of writes is hopeful, eventual, strong, absolute or s3"),
        },
        Use::Door => return error("ERR only commands of the database have a level"),
    }
    let reply = of.submit_one(command.to_vec()).await;
    of.client.levels = before;
    reply
}
