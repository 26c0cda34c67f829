//! The sources of scripts, by their digests: in the keyspace's cluster, so that EVALSHA finds at every node what EVAL or SCRIPT LOAD brought to one.
//!
//! ```text
//!   EVAL, SCRIPT LOAD ─▶ remembered here ─▶ hash `scripts` in a database that no client reaches ─▶ EVALSHA at another node
//! ```
//! Always: what is remembered and what is kept is bounded; a flush reaches other threads and nodes within `REMEMBERED_FOR`.
//! Held by: `a_script_is_known_at_every_door`, `flushed_scripts_are_forgotten`.
//! By design: a script that is dropped, because there are too many, is no loss: clients send it again (NOSCRIPT).
//! Not here: what a script does; who may use the hash (base-access, `needs/redis.rs`).

use crate::connection::Connection;
use crate::database::{Levels, Session};
use crate::lua::limits::{KEPT_BYTES_EACH_MAX, KEPT_BYTES_MAX, KEPT_COUNT_MAX};
use crate::lua::sha1_of;
use base_types::access::Caller;
use base_types::redis::{RedisAnswer, RedisAsk, RedisCall, RedisCommand, RedisReply, SCRIPTS_DATABASE};
use base_types::{ErrorCode, Refusal};
use bytes::Bytes;

const SCRIPTS: &str = "scripts";
/// How many bytes all of them have had.
const BYTES: &str = "bytes";

fn command(words: &[&[u8]]) -> RedisCommand {
    let words = words.iter().map(|word| Bytes::copy_from_slice(word)).collect();
    RedisCommand { database: SCRIPTS_DATABASE, words }
}

async fn run(of: &Connection, session: &Session, commands: Vec<RedisCommand>) -> Result<Vec<RedisReply>, Refusal> {
    let database = &of.door.database;
    let count = commands.len();
    let call = RedisCall {
        unix_ms: database.unix_ms(),
        seed: 0,
        ask: RedisAsk::Transaction { watched: Vec::new(), commands },
    };
    match database.call(session, call, Levels::default()).await? {
        RedisAnswer::Replies { replies } if replies.len() == count => Ok(replies),
        _ => Err(Refusal::new(ErrorCode::Internal, "sources of scripts were answered by something else; report it")),
    }
}

/// A script's source. `None`: it is not known.
pub(crate) async fn find(of: &Connection, session: &Session, name: &str) -> Result<Option<Bytes>, Refusal> {
    let place = (session.keyspace.clone(), name.to_owned());
    if let Some(source) = of.door.scripts.remembered.get(&place) {
        return Ok(Some(source));
    }
    let asked = command(&[b"HGET", SCRIPTS.as_bytes(), name.as_bytes()]);
    match run(of, session, vec![asked]).await?.pop() {
        // Checked twice: under another's name it would run with the rights of the client that calls it.
        Some(RedisReply::Bulk(source)) if sha1_of(&source) == name => {
            of.door.scripts.remembered.put(place, &source);
            Ok(Some(source))
        }
        _ => Ok(None),
    }
}

/// Which of these are known.
pub(crate) async fn known(of: &Connection, session: &Session, names: &[String]) -> Result<Vec<RedisReply>, Refusal> {
    let asked = names.iter().map(|name| command(&[b"HEXISTS", SCRIPTS.as_bytes(), name.as_bytes()])).collect();
    run(of, session, asked).await
}

/// Keeps a script, where it is not known yet.
pub(crate) async fn keep(of: &Connection, session: &Session, name: &str, source: &Bytes) -> Result<(), Refusal> {
    let place = (session.keyspace.clone(), name.to_owned());
    if source.len() > KEPT_BYTES_EACH_MAX || of.door.scripts.remembered.get(&place).is_some() {
        return Ok(());
    }
    let known = known(of, session, &[name.to_owned()]).await?;
    if known.first() != Some(&RedisReply::Integer(1)) {
        make_room(of, session, source.len()).await?;
        let length = source.len().to_string();
        let add = command(&[b"HSET", SCRIPTS.as_bytes(), name.as_bytes(), source]);
        let count = command(&[b"INCRBY", BYTES.as_bytes(), length.as_bytes()]);
        run(of, session, vec![add, count]).await?;
    }
    of.door.scripts.remembered.put(place, source);
    Ok(())
}

/// Drops all, where there are too many.
async fn make_room(of: &Connection, session: &Session, more: usize) -> Result<(), Refusal> {
    let asked = vec![command(&[b"HLEN", SCRIPTS.as_bytes()]), command(&[b"GET", BYTES.as_bytes()])];
    let replies = run(of, session, asked).await?;
    let number = |reply: Option<&RedisReply>| match reply {
        Some(RedisReply::Integer(number)) => *number,
        Some(RedisReply::Bulk(text)) => std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or(0),
        _ => 0_i64,
    };
    let (count, bytes) = (number(replies.first()), number(replies.get(1)));
    if count < KEPT_COUNT_MAX && bytes + more as i64 <= KEPT_BYTES_MAX {
        return Ok(());
    }
    // The node's own doing: who adds one need not be allowed to drop them.
    flush(of, &Session { caller: Caller::Node, ..session.clone() }).await
}

/// Drops all.
pub(crate) async fn flush(of: &Connection, session: &Session) -> Result<(), Refusal> {
    let asked = command(&[b"DEL", SCRIPTS.as_bytes(), BYTES.as_bytes()]);
    run(of, session, vec![asked]).await?;
    of.door.scripts.remembered.forget(&session.keyspace);
    Ok(())
}
