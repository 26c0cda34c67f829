//! CLIENT: connections of this thread of the door.

use super::connection::set_name;
use super::{bulk, number, text, upper};
use crate::clients::Unblock;
use crate::connection::{Connection, Silence};
use crate::error::{error, unknown_subcommand, wrong_count};
use crate::request::Words;
use base_types::redis::RedisReply;

/// What CLIENT HELP says.
const HELP: &[&str] = &[
    "CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GETNAME",
    "SETNAME <name>",
    "ID",
    "INFO",
    "LIST [TYPE normal|pubsub] [ID id ...]",
    "KILL <ip:port> | ID <id> | ADDR <ip:port> | USER <name> | SKIPME yes|no",
    "REPLY ON|OFF|SKIP",
    "UNBLOCK <id> [TIMEOUT|ERROR]",
    "NO-EVICT ON|OFF",
    "GETREDIR",
    "HELP",
];

pub(super) fn on_client(of: &mut Connection, words: &Words) -> RedisReply {
    let shown = of.client.entry.shown.clone();
    match (upper(words, 1).as_str(), words.len()) {
        ("ID", 2) => RedisReply::Integer(i64::try_from(shown.id).unwrap_or(i64::MAX)),
        ("GETNAME", 2) => {
            let name = shown.name.borrow().clone();
            if name.is_empty() {
                RedisReply::Nil
            } else {
                bulk(name)
            }
        }
        ("SETNAME", 3) => match words.get(2).and_then(|name| set_name(of, &name.clone())) {
            None => RedisReply::Ok,
            Some(refused) => refused,
        },
        // A library's name and version: kept by nobody here, and asked for by nobody.
        ("INFO", 2) => text(format!("{}\n", shown.line())),
        ("LIST", _) => list_clients(of, words),
        ("KILL", 3..) => kill_clients(of, words),
        ("REPLY", 3) => match upper(words, 2).as_str() {
            "ON" => {
                of.client.silence = Silence::No;
                RedisReply::Ok
            }
            "OFF" => {
                of.client.silence = Silence::Off;
                RedisReply::Ok
            }
            "SKIP" => {
                // This reply is left out, and the next: `is_silent` takes one away for this one.
                of.client.skip_next();
                RedisReply::Ok
            }
            _ => error("ERR syntax error"),
        },
        ("UNBLOCK", 3 | 4) => unblock(of, words),
        ("NO-EVICT", 3) => match upper(words, 2).as_str() {
            // Nobody is evicted here.
            "ON" | "OFF" => RedisReply::Ok,
            _ => error("ERR syntax error"),
        },
        ("GETREDIR", 2) => RedisReply::Integer(-1),
        ("TRACKINGINFO", 2) => RedisReply::Map(vec![
            (bulk("flags"), RedisReply::Set(vec![bulk("off")])),
            (bulk("redirect"), RedisReply::Integer(-1)),
            (bulk("prefixes"), RedisReply::Array(Vec::new())),
        ]),
        ("TRACKING", 3..) => match upper(words, 2).as_str() {
            "OFF" => RedisReply::Ok,
            _ => error("ERR client-side caching is not offered"),
        },
        ("PAUSE" | "UNPAUSE", _) => error("ERR CLIENT PAUSE is not offered: writes go to a cluster of nodes"),
        ("HELP", 2) => RedisReply::Array(HELP.iter().map(|line| RedisReply::Status((*line).into())).collect()),
        ("ID" | "GETNAME" | "SETNAME" | "INFO" | "KILL" | "REPLY" | "UNBLOCK" | "NO-EVICT" | "GETREDIR", _) => {
            wrong_count(&format!("client|{}", upper(words, 1).to_ascii_lowercase()))
        }
        _ => unknown_subcommand("CLIENT", words.get(1).map_or(&[], |word| &word[..])),
    }
}

fn list_clients(of: &Connection, words: &Words) -> RedisReply {
    let all = of.door.clients.all();
    let chosen: Vec<_> = match (upper(words, 2).as_str(), words.len()) {
        (_, 2) => all,
        ("TYPE", 4) => match upper(words, 3).as_str() {
            "NORMAL" => all.into_iter().filter(|shown| shown.subscriptions.get() == (0, 0)).collect(),
            "PUBSUB" => all.into_iter().filter(|shown| shown.subscriptions.get() != (0, 0)).collect(),
            "MASTER" | "REPLICA" | "SLAVE" => Vec::new(),
            _ => return error(format!("ERR Unknown client type '{}'", upper(words, 3).to_ascii_lowercase())),
        },
        ("ID", 4..) => {
            let mut ids = Vec::new();
            for word in &words[3..] {
                let Some(id) = number::<u64>(Some(word)) else { return error("ERR Invalid client ID") };
                ids.push(id);
            }
            all.into_iter().filter(|shown| ids.contains(&shown.id)).collect()
        }
        _ => return error("ERR syntax error"),
    };
    text(chosen.iter().map(|shown| shown.line() + "\n").collect::<String>())
}

/// Kinds of clients that Redis knows; here there are none that replicate.
const TYPES: &[&[u8]] = &[b"normal", b"pubsub", b"master", b"replica", b"slave"];

fn kill_clients(of: &Connection, words: &Words) -> RedisReply {
    let own = of.client.entry.shown.id;
    if let [_, _, address] = &words[..] {
        let found = of.door.clients.all().into_iter().find(|shown| shown.address.as_bytes() == &address[..]);
        return match found {
            Some(shown) => {
                shown.kill();
                RedisReply::Ok
            }
            None => error("ERR No such client"),
        };
    }
    let (mut skip_own, mut chosen) = (true, of.door.clients.all());
    for pair in words[2..].chunks(2) {
        let [word, value] = pair else { return error("ERR syntax error") };
        match &word.to_ascii_uppercase()[..] {
            b"ID" => {
                let Some(id) = number::<u64>(Some(value)).filter(|id| *id > 0) else {
                    return error("ERR client-id should be greater than 0");
                };
                chosen.retain(|shown| shown.id == id);
            }
            b"ADDR" => chosen.retain(|shown| shown.address.as_bytes() == &value[..]),
            b"USER" => chosen.retain(|shown| shown.user.borrow().as_bytes() == &value[..]),
            b"SKIPME" => match &value.to_ascii_lowercase()[..] {
                b"yes" => skip_own = true,
                b"no" => skip_own = false,
                _ => return error("ERR syntax error"),
            },
            b"TYPE" if !TYPES.iter().any(|name| value.eq_ignore_ascii_case(name)) => {
                let shown = String::from_utf8_lossy(&value[..value.len().min(64)]).into_owned();
                return error(format!("ERR Unknown client type '{shown}'"));
            }
            b"TYPE" => chosen.retain(|shown| {
                value.eq_ignore_ascii_case(if shown.subscriptions.get() == (0, 0) { b"normal" } else { b"pubsub" })
            }),
            _ => return error("ERR syntax error"),
        }
    }
    chosen.retain(|shown| !skip_own || shown.id != own);
    chosen.iter().for_each(|shown| shown.kill());
    RedisReply::Integer(i64::try_from(chosen.len()).unwrap_or(i64::MAX))
}

fn unblock(of: &Connection, words: &Words) -> RedisReply {
    let how = match upper(words, 3).as_str() {
        "" | "TIMEOUT" => Unblock::Timeout,
        "ERROR" => Unblock::Error,
        _ => return error("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"),
    };
    let Some(id) = number::<u64>(words.get(2)) else { return error("ERR value is not an integer or out of range") };
    RedisReply::Integer(i64::from(of.door.clients.get(id).is_some_and(|shown| shown.end_waiting(how))))
}
