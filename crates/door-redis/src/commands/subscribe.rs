//! SUBSCRIBE and its like, PUBSUB.

use super::{bulk, upper, Said};
use crate::clients::Shown;
use crate::connection::Connection;
use crate::error::{error, of_refusal, unknown_subcommand, NO_AUTH};
use crate::pubsub::{Kind, Subscriptions};
use crate::request::Words;
use base_types::redis::{matches, RedisReply};
use bytes::Bytes;
use std::rc::Rc;

fn kind_of(name: &str) -> Kind {
    match name {
        "psubscribe" | "punsubscribe" => Kind::Pattern,
        "ssubscribe" | "sunsubscribe" => Kind::Shard,
        _ => Kind::Channel,
    }
}

/// Confirmations count channels and patterns together, and shards' channels apart, as Redis does.
fn count(own: &Subscriptions, kind: Kind) -> RedisReply {
    let count = if kind == Kind::Shard { own.shard.len() } else { own.channels.len() + own.patterns.len() };
    RedisReply::Integer(i64::try_from(count).unwrap_or(i64::MAX))
}

pub(super) async fn on_subscribe(of: &mut Connection, name: &'static str, words: Words) -> Vec<Said> {
    let Some(session) = of.session() else { return vec![Said::Reply(error(NO_AUTH))] };
    let (kind, hubs) = (kind_of(name), of.door.hubs.clone());
    let mut said = Vec::with_capacity(words.len() - 1);
    for channel in words.into_iter().skip(1) {
        let shown = of.client.entry.shown.clone();
        let way = (of.client.sender.clone(), ending(&shown));
        let to = (kind, channel.clone());
        said.push(match hubs.subscribe(&session, shown.id, to, &mut of.client.subscriptions, way).await {
            Ok(()) => confirm(of, name, kind, RedisReply::Bulk(channel)),
            Err(refusal) => Said::Reply(of_refusal(&refusal, false)),
        });
    }
    said
}

/// What ends a subscriber that does not read.
fn ending(shown: &Rc<Shown>) -> Rc<dyn Fn()> {
    let shown = shown.clone();
    Rc::new(move || shown.kill())
}

pub(super) fn on_unsubscribe(of: &mut Connection, name: &'static str, words: Words) -> Vec<Said> {
    let (kind, hubs) = (kind_of(name), of.door.hubs.clone());
    let own = &of.client.subscriptions;
    let named: Vec<Bytes> = match words.len() {
        1 => own.of(kind).iter().cloned().collect(),
        _ => words.into_iter().skip(1).collect(),
    };
    if named.is_empty() {
        return vec![confirm(of, name, kind, RedisReply::Nil)];
    }
    let mut said = Vec::with_capacity(named.len());
    for channel in named {
        hubs.unsubscribe(of.client.entry.shown.id, (kind, &channel), &mut of.client.subscriptions);
        said.push(confirm(of, name, kind, RedisReply::Bulk(channel)));
    }
    said
}

fn confirm(of: &Connection, name: &'static str, kind: Kind, channel: RedisReply) -> Said {
    let own = &of.client.subscriptions;
    of.client.entry.shown.subscriptions.set((own.channels.len(), own.patterns.len()));
    Said::Push(vec![bulk(name), channel, count(own, kind)])
}

/// Of this thread of this node's door.
pub(super) fn on_pubsub(of: &Connection, words: &Words) -> RedisReply {
    let Some(session) = of.session() else { return RedisReply::Array(Vec::new()) };
    let of = |kind| of.door.hubs.channels(&session.keyspace, kind);
    let listed = |kind, pattern: Option<&Bytes>| {
        let chosen = of(kind).into_iter().filter(|(name, _)| pattern.is_none_or(|pattern| matches(pattern, name)));
        RedisReply::Array(chosen.map(|(name, _)| RedisReply::Bulk(name)).collect())
    };
    let numbers = |kind| {
        let all = of(kind);
        let number = |name: &Bytes| all.iter().find(|(known, _)| known == name).map_or(0, |(_, count)| *count);
        let pair = |name: &Bytes| {
            let count = i64::try_from(number(name)).unwrap_or(i64::MAX);
            [RedisReply::Bulk(name.clone()), RedisReply::Integer(count)]
        };
        RedisReply::Array(words.iter().skip(2).flat_map(pair).collect())
    };
    match (upper(words, 1).as_str(), words.len()) {
        ("CHANNELS", 2 | 3) => listed(Kind::Channel, words.get(2)),
        ("SHARDCHANNELS", 2 | 3) => listed(Kind::Shard, words.get(2)),
        ("NUMSUB", 2..) => numbers(Kind::Channel),
        ("SHARDNUMSUB", 2..) => numbers(Kind::Shard),
        ("NUMPAT", 2) => RedisReply::Integer(i64::try_from(of(Kind::Pattern).len()).unwrap_or(i64::MAX)),
        _ => unknown_subcommand("PUBSUB", words.get(1).map_or(&[], |word| &word[..])),
    }
}
