//! AUTH, HELLO, SELECT: who a client is, and how it speaks.

use super::{bulk, number, text, upper};
use crate::connection::Connection;
use crate::error::{error, of_refusal, wrong_count, WRONG_PASS};
use crate::reply::Protocol;
use crate::request::Words;
use base_types::redis::{RedisReply, DATABASES};
use base_types::{ErrorCode, ErrorKind, Refusal};
use bytes::Bytes;

fn of_login(refusal: &Refusal) -> RedisReply {
    match (refusal.code, refusal.kind()) {
        (ErrorCode::AccessOff, _) => error(
            "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
        ),
        (_, ErrorKind::Unauthenticated | ErrorKind::Forbidden) => error(WRONG_PASS),
        _ => of_refusal(refusal, false),
    }
}

async fn login(of: &mut Connection, user: Option<&Bytes>, password: &Bytes) -> Result<(), RedisReply> {
    let name = match user.map(|user| std::str::from_utf8(user)) {
        Some(Err(_)) => return Err(error(WRONG_PASS)),
        // What Redis calls its first user: the password says who it is.
        Some(Ok("default")) | None => None,
        Some(Ok(name)) => Some(name),
    };
    match of.door.database.authenticate(name, password).await {
        Ok(session) => {
            of.client.enter_as(session);
            Ok(())
        }
        Err(refusal) => Err(of_login(&refusal)),
    }
}

pub(super) async fn on_auth(of: &mut Connection, words: Words) -> RedisReply {
    let (user, password) = match &words[..] {
        [_, password] => (None, password),
        [_, user, password] => (Some(user), password),
        _ => return error("ERR syntax error"),
    };
    login(of, user, password).await.map_or_else(|refused| refused, |()| RedisReply::Ok)
}

pub(super) async fn on_hello(of: &mut Connection, words: Words) -> RedisReply {
    let protocol = match words.get(1) {
        None => of.protocol(),
        Some(word) => match number::<i64>(Some(word)) {
            None => return error("ERR Protocol version is not an integer or out of range"),
            Some(2) => Protocol::Two,
            Some(3) => Protocol::Three,
            Some(_) => return error("NOPROTO unsupported protocol version"),
        },
    };
    let (mut at, mut name) = (2, None);
    while at < words.len() {
        match (upper(&words, at).as_str(), words.get(at + 1), words.get(at + 2)) {
            ("AUTH", Some(user), Some(password)) => {
                if let Err(refused) = login(of, Some(user), password).await {
                    return refused;
                }
                at += 3;
            }
            ("SETNAME", Some(given), _) => {
                name = Some(given.clone());
                at += 2;
            }
            _ => {
                return error(format!("ERR Syntax error in HELLO option '{}'", upper(&words, at).to_ascii_lowercase()))
            }
        }
    }
    if of.client.session.is_none() {
        return error("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time");
    }
    if let Some(refused) = name.and_then(|name| set_name(of, &name)) {
        return refused;
    }
    of.client.speak(protocol);
    let about = of.door.database.about();
    let proto = if protocol == Protocol::Three { 3 } else { 2 };
    RedisReply::Map(vec![
        (bulk("server"), bulk("redis")),
        (bulk("version"), bulk(crate::REDIS_VERSION)),
        (bulk("proto"), RedisReply::Integer(proto)),
        (bulk("id"), RedisReply::Integer(i64::try_from(of.client.entry.shown.id).unwrap_or(0))),
        (bulk("mode"), bulk("standalone")),
        (bulk("role"), bulk("master")),
        (bulk("modules"), RedisReply::Array(Vec::new())),
        (bulk("hive_version"), text(about.version)),
    ])
}

/// `None`: done.
pub(super) fn set_name(of: &mut Connection, name: &Bytes) -> Option<RedisReply> {
    if name.iter().any(|byte| !(b'!'..=b'~').contains(byte)) {
        return Some(error("ERR Client names cannot contain spaces, newlines or special characters."));
    }
    if name.len() > 256 {
        return Some(error("ERR Client names have at most 256 characters."));
    }
    of.client.entry.shown.name.replace(name.to_vec());
    None
}

pub(super) fn on_select(of: &mut Connection, words: &Words) -> RedisReply {
    match number::<i64>(words.get(1)) {
        None => error("ERR value is not an integer or out of range"),
        Some(database) => match u8::try_from(database).ok().filter(|database| *database < DATABASES) {
            None => error("ERR DB index is out of range"),
            Some(database) => {
                of.client.select(database);
                RedisReply::Ok
            }
        },
    }
}

/// PING: a subscriber that speaks RESP2 gets an array, as its messages are.
pub(super) fn on_ping(of: &Connection, words: &Words) -> RedisReply {
    let word = words.get(1).cloned();
    let subscribed = of.client.subscriptions.count() > 0 && of.protocol() == Protocol::Two;
    match (words.len(), subscribed) {
        (1 | 2, true) => RedisReply::Array(vec![bulk("pong"), bulk(word.unwrap_or_default())]),
        (1, false) => RedisReply::Status("PONG".into()),
        (2, false) => bulk(word.unwrap_or_default()),
        _ => wrong_count("ping"),
    }
}
