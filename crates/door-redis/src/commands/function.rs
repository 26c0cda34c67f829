//! FUNCTION: the libraries that are kept, and the functions that run.
//!
//! Not here: FCALL (`script.rs`), where libraries are kept (`script/functions.rs`).

use super::{bulk, text, upper};
use crate::connection::Connection;
use crate::database::Session;
use crate::error::{error, of_refusal, unknown_subcommand, wrong_count, NO_AUTH};
use crate::lua::kept::Library;
use crate::request::Words;
use crate::script::functions::{self, Policy};
use base_types::redis::{matches, RedisReply};
use bytes::Bytes;

/// Carries out FUNCTION.
pub(super) async fn on_function(of: &Connection, words: &Words) -> RedisReply {
    let Some(session) = of.session() else { return error(NO_AUTH) };
    match (upper(words, 1).as_str(), words.len()) {
        ("LOAD", 3..) => load(of, &session, &words[2..]).await,
        ("DELETE", 3) => functions::delete(of, &session, &words[2]).await,
        ("FLUSH", 2 | 3) if words.len() == 2 || matches!(upper(words, 2).as_str(), "SYNC" | "ASYNC") => {
            functions::flush(of, &session).await
        }
        ("FLUSH", 3) => error("ERR FUNCTION FLUSH only supports SYNC|ASYNC option"),
        ("LIST", _) => list(of, &session, &words[2..]).await,
        ("STATS", 2) => stats(of, &session).await,
        ("DUMP", 2) => match functions::fetch(of, &session).await {
            Ok(libraries) => bulk(functions::dump(&libraries)),
            Err(refusal) => of_refusal(&refusal, false),
        },
        ("RESTORE", 3 | 4) => restore(of, &session, words).await,
        ("KILL", 2) if of.door.scripts.kill(&session, true) => RedisReply::Ok,
        ("KILL", 2) => error("NOTBUSY No scripts in execution right now."),
        ("HELP", 2) => help(),
        (own @ ("FLUSH" | "RESTORE"), 4..) => error(format!(
            "ERR unknown subcommand or wrong number of arguments for '{}'. Try FUNCTION HELP.",
            own.to_ascii_lowercase()
        )),
        ("LOAD" | "DELETE" | "FLUSH" | "STATS" | "DUMP" | "RESTORE" | "KILL", _) => {
            wrong_count(&format!("function|{}", upper(words, 1).to_ascii_lowercase()))
        }
        _ => unknown_subcommand("FUNCTION", words.get(1).map_or(&[], |word| &word[..])),
    }
}

async fn load(of: &Connection, session: &Session, words: &[Bytes]) -> RedisReply {
    let Some((source, options)) = words.split_last() else { return wrong_count("function|load") };
    if let Some(other) = options.iter().find(|word| !word.eq_ignore_ascii_case(b"REPLACE")) {
        return error(format!("ERR Unknown option given: {}", String::from_utf8_lossy(other)));
    }
    functions::load(of, session, source, !options.is_empty()).await
}

async fn restore(of: &Connection, session: &Session, words: &Words) -> RedisReply {
    let policy = match upper(words, 3).as_str() {
        "" | "APPEND" => Policy::Append,
        "FLUSH" => Policy::Flush,
        "REPLACE" => Policy::Replace,
        _ => return error("ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE."),
    };
    functions::restore(of, session, &words[2], policy).await
}

async fn list(of: &Connection, session: &Session, options: &[Bytes]) -> RedisReply {
    let (mut pattern, mut code) = (None, false);
    let mut words = options.iter();
    while let Some(word) = words.next() {
        match &word.to_ascii_uppercase()[..] {
            b"WITHCODE" if !code => code = true,
            b"LIBRARYNAME" if pattern.is_none() => match words.next() {
                Some(given) => pattern = Some(given),
                None => return error("ERR library name argument was not given"),
            },
            _ => return error(format!("ERR Unknown argument {}", String::from_utf8_lossy(word))),
        }
    }
    let libraries = match functions::fetch(of, session).await {
        Ok(libraries) => libraries,
        Err(refusal) => return of_refusal(&refusal, false),
    };
    let chosen = |library: &&Library| pattern.is_none_or(|pattern| matches(pattern, library.name.as_bytes()));
    RedisReply::Array(libraries.all.iter().filter(chosen).map(|library| listed(library, code)).collect())
}

fn listed(library: &Library, code: bool) -> RedisReply {
    let functions = library.functions.iter().map(|function| {
        let flags = function.flags.iter().map(|flag| RedisReply::Status(flag.clone())).collect();
        RedisReply::Map(vec![
            (bulk("name"), text(&function.name)),
            (bulk("description"), function.description.clone().map_or(RedisReply::Nil, RedisReply::Bulk)),
            (bulk("flags"), RedisReply::Set(flags)),
        ])
    });
    let mut pairs = vec![
        (bulk("library_name"), text(&library.name)),
        (bulk("engine"), bulk("LUA")),
        (bulk("functions"), RedisReply::Array(functions.collect())),
    ];
    if code {
        pairs.push((bulk("library_code"), RedisReply::Bulk(library.source.clone())));
    }
    RedisReply::Map(pairs)
}

async fn stats(of: &Connection, session: &Session) -> RedisReply {
    let libraries = match functions::fetch(of, session).await {
        Ok(libraries) => libraries,
        Err(refusal) => return of_refusal(&refusal, false),
    };
    let count = |count: usize| RedisReply::Integer(i64::try_from(count).unwrap_or(i64::MAX));
    let functions = libraries.all.iter().map(|library| library.functions.len()).sum();
    let running = of.door.scripts.running_function(session).map_or(RedisReply::Nil, |(words, took)| {
        let name = words.get(1).cloned().unwrap_or_default();
        RedisReply::Map(vec![
            (bulk("name"), RedisReply::Bulk(name)),
            (bulk("command"), RedisReply::Array(words.into_iter().map(RedisReply::Bulk).collect())),
            (bulk("duration_ms"), RedisReply::Integer(i64::try_from(took.as_millis()).unwrap_or(i64::MAX))),
        ])
    });
    let lua = RedisReply::Map(vec![
        (bulk("libraries_count"), count(libraries.all.len())),
        (bulk("functions_count"), count(functions)),
    ]);
    RedisReply::Map(vec![
        (bulk("running_script"), running),
        (bulk("engines"), RedisReply::Map(vec![(bulk("LUA"), lua)])),
    ])
}

fn help() -> RedisReply {
    let lines = [
        "FUNCTION <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "DELETE <library>",
        "    Remove a library and its functions.",
        "DUMP",
        "    All libraries as bytes that RESTORE takes.",
        "FLUSH [ASYNC|SYNC]",
        "    Remove all libraries of the keyspace.",
        "KILL",
        "    Stop the user's own functions.",
        "LIST [LIBRARYNAME <pattern>] [WITHCODE]",
        "    The libraries, their functions and, where asked for, their code.",
        "LOAD [REPLACE] <library>",
        "    Keep a library, so that FCALL finds its functions.",
        "RESTORE <dump> [FLUSH|APPEND|REPLACE]",
        "    Keep the libraries of a dump.",
        "STATS",
        "    What runs, and how many libraries and functions there are.",
    ];
    RedisReply::Array(lines.iter().map(|line| RedisReply::Status((*line).into())).collect())
}
