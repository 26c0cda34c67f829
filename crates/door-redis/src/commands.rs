//! The commands that the door carries out by itself.
//!
//! ```text
//!   subscriptions: several confirmations ─▶ carry_out        all others: one reply ─▶ reply_to        what waits ─▶ conversation/waiting.rs
//! ```
//! Always: what is not carried out says so; nothing is echoed as done that was not.
//! Held by: `what_is_not_done_says_so`.

mod acl;
mod clients;
mod cluster;
mod config;
mod connection;
mod docs;
#[cfg(feature = "scripts")]
mod function;
mod hive;
mod info;
#[cfg(feature = "scripts")]
mod script;
mod server;
mod subscribe;
mod table;

use crate::connection::Connection;
use crate::error::error;
use crate::request::Words;
use base_types::redis::{CommandSpec, RedisReply};
use bytes::Bytes;

/// A bulk string.
pub(crate) fn bulk(text: impl Into<Bytes>) -> RedisReply {
    RedisReply::Bulk(text.into())
}

/// A bulk string of our own text.
pub(crate) fn text(text: impl Into<String>) -> RedisReply {
    RedisReply::Bulk(text.into().into())
}

/// A second word in upper case, for matches.
pub(crate) fn upper(words: &Words, at: usize) -> String {
    words.get(at).map(|word| String::from_utf8_lossy(word).to_ascii_uppercase()).unwrap_or_default()
}

/// A word as a number.
pub(crate) fn number<T: std::str::FromStr>(word: Option<&Bytes>) -> Option<T> {
    std::str::from_utf8(word?).ok()?.parse().ok()
}

/// Why a command of Redis' is none of Hive's, where it never is.
fn why_not(name: &str) -> Option<&'static str> {
    Some(match name {
        "bgsave" | "save" | "bgrewriteaof" => "every acknowledged write is on disk; there is nothing to save",
        "replicaof" | "slaveof" | "failover" => "replicas are placed by the keyspace's rule; see `hive ctl`",
        "psync" | "sync" | "replconf" => "replicas do not speak Redis' replication protocol",
        "shutdown" => "stop the node by its supervisor",
        "monitor" => "use /metrics, or HIVE_LOG=debug",
        "module" => "there are no modules",
        "migrate" | "restore-asking" => "keys are not moved by clients",
        _ => return None,
    })
}

/// The refusal of a command that is never carried out. MULTI gives it at once, and not when everything is to be done.
pub(crate) fn never_done(name: &str) -> Option<RedisReply> {
    why_not(name).map(|_| not_offered(name))
}

fn not_offered(name: &str) -> RedisReply {
    let why = why_not(name).unwrap_or("it is not offered here");
    error(format!("ERR {}: {why}", name.to_ascii_uppercase()))
}

/// What the client gets that is not one plain reply.
pub(crate) enum Said {
    Reply(RedisReply),
    /// Confirmations of subscriptions: pushes in RESP3.
    Push(Vec<RedisReply>),
}

/// Carries out a command that needs no more than what is known of the connection.
pub(crate) async fn carry_out(of: &mut Connection, spec: &'static CommandSpec, words: Words) -> Vec<Said> {
    match spec.name {
        "subscribe" | "psubscribe" | "ssubscribe" => return subscribe::on_subscribe(of, spec.name, words).await,
        "unsubscribe" | "punsubscribe" | "sunsubscribe" => return subscribe::on_unsubscribe(of, spec.name, words),
        "quit" => of.client.closing = true,
        _ => {}
    }
    vec![Said::Reply(reply_to(of, spec, words).await)]
}

/// The reply of a command that has one.
pub(crate) async fn reply_to(of: &mut Connection, spec: &'static CommandSpec, words: Words) -> RedisReply {
    match spec.name {
        "auth" => connection::on_auth(of, words).await,
        "hello" => connection::on_hello(of, words).await,
        "select" => connection::on_select(of, &words),
        "quit" => RedisReply::Ok,
        "reset" => {
            of.client.reset(&of.door);
            RedisReply::Status("RESET".into())
        }
        "ping" => connection::on_ping(of, &words),
        "echo" => bulk(words.get(1).cloned().unwrap_or_default()),
        "client" => clients::on_client(of, &words),
        "command" => table::on_command(&words),
        "config" => config::on_config(&words),
        "info" => info::on_info(of, &words).await,
        "time" => server::on_time(of),
        "role" => server::on_role(),
        "wait" => server::on_wait(of, &words).await,
        "lastsave" => RedisReply::Integer(server::seconds(of)),
        "lolwut" => text(format!("Hive {}\n", of.door.database.about().version)),
        "memory" => server::on_memory(of, &words).await,
        "debug" => server::on_debug(&words).await,
        "slowlog" | "latency" => server::on_empty_log(spec.name, &words),
        "readonly" | "readwrite" | "asking" => cluster::on_routing(of, spec.name),
        "cluster" => cluster::on_cluster(of, &words).await,
        "acl" => acl::on_acl(of, &words),
        "hive" => hive::on_hive(of, words).await,
        "pubsub" => subscribe::on_pubsub(of, &words),
        #[cfg(feature = "scripts")]
        "eval" | "evalsha" | "eval_ro" | "evalsha_ro" | "fcall" | "fcall_ro" => {
            crate::script::on_eval(of, spec.name, &words).await
        }
        #[cfg(feature = "scripts")]
        "function" => function::on_function(of, &words).await,
        #[cfg(feature = "scripts")]
        "script" => script::on_script(of, &words).await,
        #[cfg(not(feature = "scripts"))]
        "eval" | "evalsha" | "eval_ro" | "evalsha_ro" | "script" | "fcall" | "fcall_ro" | "function" => {
            error("ERR scripts are not offered by this build; use MULTI and WATCH")
        }
        name => not_offered(name),
    }
}
