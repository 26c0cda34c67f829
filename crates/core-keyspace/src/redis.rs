//! Keyspaces of the kind `redis`: databases of the Redis door, each with one partition in one cluster (decision 0092).
//!
//! ```text
//!   Action::Redis (plain words)    ──▶ the words, in database 0     ──▶ Redis' own reply
//!   Action::RedisCall              ──▶ the call                     ──▶ RedisAnswer
//! ```
//! By design: only these two actions reach such a keyspace. A key there may be a list or a set, which KvGet could not show; the refusal of
//! other actions says what to use. What changes nothing goes as a query, at the level asked for; all else is a command, an entry of the log.
//! Not here: what a command does (core-backends, redis/), the protocol (door-redis).

use crate::payload::Payload;
use base_types::action::{Action, ActionResult};
use base_types::codec::Encode;
use base_types::redis::{RedisAnswer, RedisAsk, RedisCall};
use base_types::{ErrorCode, Refusal, COMMAND_BYTES_MAX};
use bytes::Bytes;
use core_backends::redis;

/// What a cluster's `redis` backend is asked for an action. `name`: the keyspace's or the cluster's, for messages.
pub fn redis_payload(action: &Action, name: &str) -> Result<Payload, Refusal> {
    match action {
        Action::Redis { command, .. } => words_payload(command),
        Action::RedisCall { call, .. } => call_payload(call),
        other => {
            let message = format!(
                "keyspace '{name}' is a redis database, which {} does not reach; use the action Redis or the Redis door",
                other.name()
            );
            Err(Refusal::new(ErrorCode::InvalidKeyspace, message))
        }
    }
}

/// Refuses what only a cluster's leader proposes, by itself.
pub fn refuse_sweep(call: &RedisCall) -> Result<(), Refusal> {
    if call.ask == RedisAsk::Sweep {
        let message =
            "keys expire by themselves: only a cluster's leader proposes their removal; use DEL to remove one";
        return Err(Refusal::new(ErrorCode::UnknownAction, message));
    }
    Ok(())
}

/// The refusal of Redis commands in a keyspace that is no redis database.
pub(crate) fn no_commands(keyspace: &str, kind: &str) -> Refusal {
    let message = format!(
        "keyspace '{keyspace}' is {kind}: it takes no Redis commands; make a keyspace with kind=redis for them"
    );
    Refusal::new(ErrorCode::InvalidKeyspace, message)
}

fn words_payload(words: &[Bytes]) -> Result<Payload, Refusal> {
    let Some(read) = redis::is_read(words) else {
        let word = words.first().map_or(String::new(), |word| word.escape_ascii().to_string());
        let message = format!("redis command '{word}' is not known here; use one that docs/guides/api/redis.md lists");
        return Err(Refusal::new(ErrorCode::UnknownCommand, message));
    };
    let bytes = redis::Command(words.to_vec()).to_bytes();
    match read {
        true => Ok(Payload::Read(bytes)),
        false => written(bytes),
    }
}

fn call_payload(call: &RedisCall) -> Result<Payload, Refusal> {
    refuse_sweep(call)?;
    call.check()?;
    match call.read_only() {
        true => Ok(Payload::Read(call.to_bytes())),
        false => written(call.to_bytes()),
    }
}

fn written(command: Bytes) -> Result<Payload, Refusal> {
    if command.len() > COMMAND_BYTES_MAX {
        let message = format!("ERR the command is {} bytes long; at most {COMMAND_BYTES_MAX} are taken", command.len());
        return Err(Refusal::new(ErrorCode::BodyTooLarge, message));
    }
    Ok(Payload::Write(command))
}

/// What the backend's reply means to the client that asked for this action.
pub fn read_redis_reply(action: &Action, reply: Bytes) -> Result<ActionResult, Refusal> {
    match action {
        Action::RedisCall { .. } => core_backends::decode_reply::<RedisAnswer>(reply).map(ActionResult::RedisCall),
        _ => core_backends::decode_reply(reply).map(|reply| ActionResult::Redis { reply }),
    }
}
