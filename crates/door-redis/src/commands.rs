//! The commands that the door carries out by itself.
//!
//! ```text
//!   commands that touch the connection's stream (waiting, subscriptions, EXEC) ─▶ carry_out     all others: one reply ─▶ reply_to
//! ```
//! Always: what is not carried out says so; nothing is echoed as done that was not.
//! Held by: `what_is_not_done_says_so`.

mod acl;
mod clients;
mod cluster;
mod config;
mod connection;
mod hive;
mod info;
mod server;
mod subscribe;
mod table;

use crate::conversation::{Conversation, Ended};
use crate::error::{error, unknown_command};
use crate::request::Words;
use base_types::redis::{CommandSpec, RedisReply, Use};
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};

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

/// Why a command of Redis' is none of Hive's.
fn not_offered(name: &str) -> RedisReply {
    let why = match name {
        "bgsave" | "save" | "bgrewriteaof" => "every acknowledged write is on disk; there is nothing to save",
        "replicaof" | "slaveof" | "failover" => "replicas are placed by the keyspace's rule; see `hive ctl`",
        "psync" | "sync" | "replconf" => "replicas do not speak Redis' replication protocol",
        "shutdown" => "stop the node by its supervisor",
        "monitor" => "use /metrics, or HIVE_LOG=debug",
        "module" => "there are no modules",
        "function" | "fcall" | "fcall_ro" => "functions are not offered; use EVAL",
        "migrate" | "restore-asking" => "keys are not moved by clients",
        _ => "it is not offered here",
    };
    error(format!("ERR {}: {why}", name.to_ascii_uppercase()))
}

impl<S: AsyncRead + AsyncWrite + Unpin> Conversation<S> {
    /// Carries out a command that is not simply sent to the database.
    pub(crate) async fn carry_out(&mut self, spec: &'static CommandSpec, words: Words) -> Result<(), Ended> {
        match spec.name {
            "multi" | "exec" | "discard" | "watch" | "unwatch" => self.on_transaction(spec.name, words).await,
            "subscribe" | "psubscribe" | "ssubscribe" => self.on_subscribe(spec.name, words).await,
            "unsubscribe" | "punsubscribe" | "sunsubscribe" => self.on_unsubscribe(spec.name, words),
            "quit" => {
                self.answer(&RedisReply::Ok);
                self.client.closing = true;
                Ok(())
            }
            "ping" if self.client.subscriptions.count() > 0 && self.protocol() == crate::reply::Protocol::Two => {
                let word = words.get(1).cloned().unwrap_or_default();
                self.answer(&RedisReply::Array(vec![bulk("pong"), bulk(word)]));
                Ok(())
            }
            _ if spec.how != Use::Door => self.wait(spec, words).await,
            _ => {
                let reply = self.reply_to(spec, words).await;
                self.answer(&reply);
                Ok(())
            }
        }
    }

    /// As [`Self::carry_out`], among the commands of EXEC.
    pub(crate) async fn in_transaction(&mut self, spec: &'static CommandSpec, words: Words) -> RedisReply {
        self.reply_to(spec, words).await
    }

    async fn reply_to(&mut self, spec: &'static CommandSpec, words: Words) -> RedisReply {
        match spec.name {
            "auth" => self.on_auth(words).await,
            "hello" => self.on_hello(words).await,
            "select" => self.on_select(&words),
            "reset" => {
                let door = self.door.clone();
                self.client.reset(&door);
                RedisReply::Status("RESET".into())
            }
            "ping" => match words.len() {
                1 => RedisReply::Status("PONG".into()),
                2 => bulk(words.get(1).cloned().unwrap_or_default()),
                _ => crate::error::wrong_count("ping"),
            },
            "echo" => bulk(words.get(1).cloned().unwrap_or_default()),
            "client" => self.on_client(&words),
            "command" => table::on_command(&words),
            "config" => config::on_config(&words),
            "info" => self.on_info(&words).await,
            "time" => self.on_time(),
            "role" => self.on_role().await,
            "wait" => self.on_wait(&words).await,
            "lastsave" => RedisReply::Integer(self.seconds()),
            "lolwut" => text(format!("Hive {}\n", self.door.database.about().version)),
            "memory" => self.on_memory(&words).await,
            "debug" => self.on_debug(&words).await,
            "slowlog" | "latency" => server::on_empty_log(spec.name, &words),
            "readonly" | "readwrite" | "asking" => self.on_routing(spec.name),
            "cluster" => self.on_cluster(&words).await,
            "acl" => self.on_acl(&words),
            "hive" => self.on_hive(words).await,
            "pubsub" => self.on_pubsub(&words),
            "eval" | "evalsha" | "eval_ro" | "evalsha_ro" | "script" => {
                error("ERR scripts are not offered by this build; use MULTI and WATCH")
            }
            "unsubscribe" | "subscribe" | "psubscribe" => unknown_command(&words),
            name => not_offered(name),
        }
    }
}
