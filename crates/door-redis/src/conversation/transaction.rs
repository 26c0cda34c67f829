//! MULTI, EXEC, DISCARD, WATCH, UNWATCH.
//!
//! Always: what EXEC has for the database is one call: all of it and nothing between, or nothing where a watched key has changed.
//! Held by: `a_transaction_is_one_call`, `a_watched_key_that_changes_aborts`.
//! Not here: transactions with scripts in them (`script.rs`), which are one call, too; commands of the door that were queued among the others: they are answered in their place, and are no part of the call.

use crate::commands;
use crate::connection::Connection;
use crate::error::{error, of_refusal};
use crate::limits::WATCHED_MAX;
use crate::request::Words;
use base_types::redis::{CommandSpec, KeyVersion, RedisAnswer, RedisAsk, RedisCommand, RedisReply, Use};

/// Carries out one of these commands.
pub(super) async fn on_transaction(of: &mut Connection, name: &str, words: Words) -> RedisReply {
    let within = of.client.multi.is_some();
    match name {
        "multi" if within => error("ERR MULTI calls can not be nested"),
        "multi" => {
            of.client.begin_multi();
            RedisReply::Ok
        }
        "discard" if !within => error("ERR DISCARD without MULTI"),
        "discard" => {
            of.client.end_multi();
            RedisReply::Ok
        }
        "watch" if within => error("ERR WATCH inside MULTI is not allowed"),
        "watch" => watch(of, words).await,
        "unwatch" => {
            of.client.watched.clear();
            RedisReply::Ok
        }
        _ => exec(of).await,
    }
}

async fn watch(of: &mut Connection, words: Words) -> RedisReply {
    let (database, watched) = (of.client.database, &of.client.watched);
    let is_new = |key: &bytes::Bytes| !watched.iter().any(|known| known.database == database && known.key == *key);
    let mut keys: Vec<KeyVersion> =
        words.into_iter().skip(1).filter(is_new).map(|key| KeyVersion { database, key, version: 0 }).collect();
    if watched.len() + keys.len() > WATCHED_MAX {
        return error(format!("ERR a connection watches at most {WATCHED_MAX} keys"));
    }
    match of.call(RedisAsk::Versions { keys: keys.clone() }).await {
        Ok(RedisAnswer::Versions { versions }) if versions.len() == keys.len() => {
            for (key, version) in keys.iter_mut().zip(versions) {
                key.version = version;
            }
            of.client.watched.extend(keys);
            RedisReply::Ok
        }
        Ok(_) => error("ERR versions were answered by something else; report it"),
        Err(refusal) => of_refusal(&refusal, false),
    }
}

async fn exec(of: &mut Connection) -> RedisReply {
    let watched = std::mem::take(&mut of.client.watched);
    let Some(queued) = of.client.end_multi() else { return error("ERR EXEC without MULTI") };
    if queued.failed {
        return error("EXECABORT Transaction discarded because of previous errors.");
    }
    let replies = match carry_out(of, watched, &queued.commands).await {
        Ok(replies) => replies,
        Err(reply) => return reply,
    };
    let (mut replies, mut all) = (replies.into_iter(), Vec::with_capacity(queued.commands.len()));
    for (spec, _, words) in queued.commands {
        all.push(match is_own(spec) {
            true => commands::reply_to(of, spec, words).await,
            false => replies.next().unwrap_or_else(|| error("ERR a reply is missing; report it")),
        });
    }
    RedisReply::Array(all)
}

/// Whether the door answers a command by itself, and not as a part of the transaction.
fn is_own(spec: &CommandSpec) -> bool {
    #[cfg(feature = "scripts")]
    if crate::script::runs_script(spec) {
        return false;
    }
    spec.how == Use::Door
}

/// Does what is not the door's own, all at once; `Err`: what is replied instead of the replies.
async fn carry_out(
    of: &Connection,
    watched: Vec<KeyVersion>,
    queued: &[(&'static CommandSpec, u8, Words)],
) -> Result<Vec<RedisReply>, RedisReply> {
    #[cfg(feature = "scripts")]
    if crate::script::has_scripts(queued) {
        return crate::script::on_exec(of, watched, queued).await;
    }
    let commands: Vec<RedisCommand> = queued
        .iter()
        .filter(|(spec, ..)| spec.how != Use::Door)
        .map(|(_, database, words)| RedisCommand { database: *database, words: words.clone() })
        .collect();
    let (writes, published) = (commands.iter().any(RedisCommand::writes), of.published(&commands));
    match of.call(RedisAsk::Transaction { watched, commands }).await {
        Ok(RedisAnswer::Replies { mut replies }) => {
            published.add_to(&mut replies);
            Ok(replies)
        }
        Ok(RedisAnswer::Aborted) => Err(RedisReply::NilArray),
        Ok(_) => Err(error("ERR a transaction was answered by something else; report it")),
        Err(refusal) => Err(of_refusal(&refusal, writes)),
    }
}
