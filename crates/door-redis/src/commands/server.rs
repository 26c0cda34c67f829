//! TIME, ROLE, WAIT, MEMORY, DEBUG, SLOWLOG, LATENCY: the server as a client of one server sees it.

use super::{bulk, number, text, upper};
use crate::connection::Connection;
use crate::error::{error, of_refusal, unknown_subcommand};
use crate::request::Words;
use base_types::redis::RedisReply;
use bytes::Bytes;
use std::time::Duration;

/// The longest DEBUG SLEEP, in seconds.
const SLEEP_S_MAX: f64 = 10.0;

/// A log that has nothing: nothing is written into it here.
pub(super) fn on_empty_log(name: &str, words: &Words) -> RedisReply {
    match (name, upper(words, 1).as_str()) {
        ("slowlog", "GET") | ("latency", "LATEST" | "HISTORY" | "DOCTOR") => RedisReply::Array(Vec::new()),
        ("slowlog", "LEN") | ("latency", "RESET") => RedisReply::Integer(0),
        ("slowlog", "RESET") => RedisReply::Ok,
        _ => unknown_subcommand(&name.to_ascii_uppercase(), words.get(1).map_or(&[], |word| &word[..])),
    }
}

pub(super) fn seconds(of: &Connection) -> i64 {
    i64::try_from(of.door.database.unix_ms() / 1000).unwrap_or(i64::MAX)
}

pub(super) fn on_time(of: &Connection) -> RedisReply {
    let ms = of.door.database.unix_ms();
    RedisReply::Array(vec![text((ms / 1000).to_string()), text((ms % 1000 * 1000).to_string())])
}

/// To its clients every node is a master: all take writes.
pub(super) fn on_role() -> RedisReply {
    RedisReply::Array(vec![bulk("master"), RedisReply::Integer(0), RedisReply::Array(Vec::new())])
}

/// WAIT: a write that was answered at level `strong` is on a majority, at `absolute` on every member.
pub(super) async fn on_wait(of: &Connection, words: &Words) -> RedisReply {
    let (wanted, ms) = (number::<i64>(words.get(1)), number::<i64>(words.get(2)));
    let (Some(_), Some(ms)) = (wanted, ms) else { return error("ERR value is not an integer or out of range") };
    if ms < 0 {
        return error("ERR timeout is negative");
    }
    let Some(session) = of.session() else { return error(crate::error::NO_AUTH) };
    let servers = match of.door.database.servers(&session).await {
        Ok(servers) => servers,
        Err(refusal) => return of_refusal(&refusal, false),
    };
    let others = servers.iter().filter(|server| server.member).count().saturating_sub(1);
    use base_types::WriteConsistency as Write;
    let hold = match of.client.levels.write {
        Write::Hopeful | Write::Eventual => 0,
        Write::Strong | Write::S3 => others.div_ceil(2),
        Write::Absolute => others,
    };
    RedisReply::Integer(i64::try_from(hold).unwrap_or(i64::MAX))
}

pub(super) async fn on_memory(of: &Connection, words: &Words) -> RedisReply {
    match (upper(words, 1).as_str(), words.get(2)) {
        ("USAGE", Some(key)) => {
            // What a dump of it takes is what we can say of a key.
            match of.submit_one(vec![Bytes::from_static(b"DUMP"), key.clone()]).await {
                RedisReply::Bulk(dump) => RedisReply::Integer(i64::try_from(dump.len()).unwrap_or(i64::MAX)),
                other => other,
            }
        }
        ("DOCTOR", None) => text("Hive keeps its data on disk; see /metrics for its memory."),
        ("HELP", None) => RedisReply::Array(vec![RedisReply::Status("MEMORY USAGE <key> [SAMPLES <count>]".into())]),
        _ => unknown_subcommand("MEMORY", words.get(1).map_or(&[], |word| &word[..])),
    }
}

pub(super) async fn on_debug(words: &Words) -> RedisReply {
    match (upper(words, 1).as_str(), words.get(2)) {
        ("SLEEP", Some(seconds)) => {
            let seconds = number::<f64>(Some(seconds)).filter(|seconds| (0.0..=SLEEP_S_MAX).contains(seconds));
            let Some(seconds) = seconds else { return error("ERR DEBUG SLEEP takes 0 to 10 seconds") };
            // Of this connection alone: the others are not delayed.
            tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
            RedisReply::Ok
        }
        (what, _) => error(format!("ERR DEBUG {what} is not offered")),
    }
}
