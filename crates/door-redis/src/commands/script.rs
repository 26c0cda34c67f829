//! SCRIPT: the scripts that are kept, and those that run.
//!
//! Not here: EVAL and its like, where scripts are kept (`script/`).

use super::upper;
use crate::connection::Connection;
use crate::error::{error, of_refusal, unknown_subcommand, wrong_count, NO_AUTH};
use crate::lua::limits::NAMED_MAX;
use crate::request::Words;
use crate::script::{self, kept};
use base_types::redis::RedisReply;

/// Carries out SCRIPT.
pub(super) async fn on_script(of: &Connection, words: &Words) -> RedisReply {
    let Some(session) = of.session() else { return error(NO_AUTH) };
    match (upper(words, 1).as_str(), words.len()) {
        ("LOAD", 3) => script::load(of, &session, &words[2]).await,
        ("EXISTS", 3..) if words.len() - 2 > NAMED_MAX => {
            error(format!("ERR at most {NAMED_MAX} scripts are looked for"))
        }
        ("EXISTS", 3..) => {
            let names: Vec<String> =
                words[2..].iter().map(|name| String::from_utf8_lossy(name).to_ascii_lowercase()).collect();
            kept::known(of, &session, &names)
                .await
                .map_or_else(|refusal| of_refusal(&refusal, false), RedisReply::Array)
        }
        ("FLUSH", 2 | 3) if words.len() == 2 || matches!(upper(words, 2).as_str(), "SYNC" | "ASYNC") => {
            kept::flush(of, &session).await.map_or_else(|refusal| of_refusal(&refusal, true), |()| RedisReply::Ok)
        }
        ("FLUSH", 3) => error("ERR SCRIPT FLUSH only support SYNC|ASYNC option"),
        ("KILL", 2) if of.door.scripts.kill(&session, false) => RedisReply::Ok,
        ("KILL", 2) => error("NOTBUSY No scripts in execution right now."),
        ("DEBUG", 3) if upper(words, 2) == "NO" => RedisReply::Ok,
        ("DEBUG", 3) => error("ERR SCRIPT DEBUG is not offered"),
        ("HELP", 2) => help(),
        ("LOAD" | "EXISTS" | "FLUSH" | "KILL" | "DEBUG", _) => {
            wrong_count(&format!("script|{}", upper(words, 1).to_ascii_lowercase()))
        }
        _ => unknown_subcommand("SCRIPT", words.get(1).map_or(&[], |word| &word[..])),
    }
}

fn help() -> RedisReply {
    let lines = [
        "SCRIPT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "EXISTS <sha1> [<sha1> ...]",
        "    Which of the scripts are known in this database's keyspace.",
        "FLUSH [ASYNC|SYNC]",
        "    Forget them all.",
        "KILL",
        "    Stop the user's own scripts.",
        "LOAD <script>",
        "    Keep a script for EVALSHA without running it.",
    ];
    RedisReply::Array(lines.iter().map(|line| RedisReply::Status((*line).into())).collect())
}
