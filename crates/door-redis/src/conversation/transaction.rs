//! MULTI, EXEC, DISCARD, WATCH, UNWATCH.
//!
//! Always: what EXEC has for the database is one call: all of it and nothing between, or nothing where a watched key has changed.
//! Held by: `a_transaction_is_one_call`, `a_watched_key_that_changes_aborts`.
//! Not here: commands of the door that were queued among the others: they are answered in their place, and are no part of the call.

use super::{Conversation, Ended};
use crate::error::{error, of_refusal};
use crate::limits::WATCHED_MAX;
use crate::request::Words;
use base_types::redis::{KeyVersion, RedisAnswer, RedisAsk, RedisCall, RedisCommand, RedisReply, Use};
use base_types::Refusal;
use tokio::io::{AsyncRead, AsyncWrite};

impl<S: AsyncRead + AsyncWrite + Unpin> Conversation<S> {
    /// A call of its own, not gathered with others.
    pub async fn call(&self, ask: RedisAsk) -> Result<RedisAnswer, Refusal> {
        let Some(session) = self.session() else { return Err(crate::gather::no_session()) };
        let database = &self.door.database;
        let call = RedisCall { unix_ms: database.unix_ms(), seed: database.random(), ask };
        database.call(&session, call, self.client.levels).await
    }

    pub(crate) async fn on_transaction(&mut self, name: &str, words: Words) -> Result<(), Ended> {
        let reply = match name {
            "multi" if self.client.multi.is_some() => error("ERR MULTI calls can not be nested"),
            "multi" => {
                self.client.begin_multi();
                RedisReply::Ok
            }
            "discard" if self.client.multi.is_none() => error("ERR DISCARD without MULTI"),
            "discard" => {
                self.client.end_multi();
                RedisReply::Ok
            }
            "watch" if self.client.multi.is_some() => error("ERR WATCH inside MULTI is not allowed"),
            "watch" => self.watch(words).await,
            "unwatch" => {
                self.client.watched.clear();
                RedisReply::Ok
            }
            _ => return self.exec().await,
        };
        self.answer(&reply);
        Ok(())
    }

    async fn watch(&mut self, words: Words) -> RedisReply {
        let (database, watched) = (self.client.database, &self.client.watched);
        let is_new = |key: &bytes::Bytes| !watched.iter().any(|known| known.database == database && known.key == *key);
        let mut keys: Vec<KeyVersion> =
            words.into_iter().skip(1).filter(is_new).map(|key| KeyVersion { database, key, version: 0 }).collect();
        if self.client.watched.len() + keys.len() > WATCHED_MAX {
            return error(format!("ERR a connection watches at most {WATCHED_MAX} keys"));
        }
        match self.call(RedisAsk::Versions { keys: keys.clone() }).await {
            Ok(RedisAnswer::Versions { versions }) if versions.len() == keys.len() => {
                for (key, version) in keys.iter_mut().zip(versions) {
                    key.version = version;
                }
                self.client.watched.extend(keys);
                RedisReply::Ok
            }
            Ok(_) => error("ERR versions were answered by something else; report it"),
            Err(refusal) => of_refusal(&refusal, false),
        }
    }

    async fn exec(&mut self) -> Result<(), Ended> {
        if self.client.multi.is_none() {
            self.answer(&error("ERR EXEC without MULTI"));
            return Ok(());
        }
        let watched = std::mem::take(&mut self.client.watched);
        let Some(queued) = self.client.end_multi() else { return Ok(()) };
        if queued.failed {
            self.answer(&error("EXECABORT Transaction discarded because of previous errors."));
            return Ok(());
        }
        let for_database = |how: Use| how != Use::Door;
        let commands: Vec<RedisCommand> = queued
            .commands
            .iter()
            .filter(|(spec, ..)| for_database(spec.how))
            .map(|(_, database, words)| RedisCommand { database: *database, words: words.clone() })
            .collect();
        let writes = commands.iter().any(RedisCommand::writes);
        let replies = match self.call(RedisAsk::Transaction { watched, commands }).await {
            Ok(RedisAnswer::Replies { replies }) => replies,
            Ok(RedisAnswer::Aborted) => {
                self.answer(&RedisReply::NilArray);
                return Ok(());
            }
            Ok(_) => {
                self.answer(&error("ERR a transaction was answered by something else; report it"));
                return Ok(());
            }
            Err(refusal) => {
                self.answer(&of_refusal(&refusal, writes));
                return Ok(());
            }
        };
        let (mut replies, mut all) = (replies.into_iter(), Vec::with_capacity(queued.commands.len()));
        for (spec, _, words) in queued.commands {
            all.push(match spec.how {
                Use::Door => self.in_transaction(spec, words).await,
                _ => replies.next().unwrap_or_else(|| error("ERR a reply is missing; report it")),
            });
        }
        self.answer(&RedisReply::Array(all));
        Ok(())
    }
}
