//! SUBSCRIBE and its like, PUBSUB.

use super::{bulk, upper};
use crate::conversation::{Conversation, Ended};
use crate::error::{of_refusal, unknown_subcommand};
use crate::pubsub::{Hubs, Subscriptions};
use crate::request::Words;
use base_types::redis::{matches, RedisReply};
use bytes::Bytes;
use std::rc::Rc;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::pubsub::Kind;

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

impl<S: AsyncRead + AsyncWrite + Unpin> Conversation<S> {
    pub(super) async fn on_subscribe(&mut self, name: &'static str, words: Words) -> Result<(), Ended> {
        let Some(session) = self.session() else { return Err(Ended) };
        let (kind, hubs): (Kind, Rc<Hubs>) = (kind_of(name), self.door.hubs.clone());
        for channel in words.into_iter().skip(1) {
            let shown = self.client.entry.shown.clone();
            let way = (
                self.client.sender.clone(),
                Rc::new({
                    let shown = shown.clone();
                    move || shown.kill()
                }) as Rc<dyn Fn()>,
            );
            let to = (kind, channel.clone());
            if let Err(refusal) = hubs.subscribe(&session, shown.id, to, &mut self.client.subscriptions, way).await {
                self.answer(&of_refusal(&refusal, false));
                continue;
            }
            self.confirm(name, kind, RedisReply::Bulk(channel));
        }
        Ok(())
    }

    pub(super) fn on_unsubscribe(&mut self, name: &'static str, words: Words) -> Result<(), Ended> {
        let (kind, hubs) = (kind_of(name), self.door.hubs.clone());
        let own = &self.client.subscriptions;
        let all = || match kind {
            Kind::Channel => own.channels.iter().cloned().collect::<Vec<Bytes>>(),
            Kind::Pattern => own.patterns.iter().cloned().collect(),
            Kind::Shard => own.shard.iter().cloned().collect(),
        };
        let named: Vec<Bytes> = if words.len() > 1 { words.into_iter().skip(1).collect() } else { all() };
        if named.is_empty() {
            self.confirm(name, kind, RedisReply::Nil);
        }
        for channel in named {
            hubs.unsubscribe(self.client.entry.shown.id, (kind, &channel), &mut self.client.subscriptions);
            self.confirm(name, kind, RedisReply::Bulk(channel));
        }
        Ok(())
    }

    fn confirm(&mut self, name: &'static str, kind: Kind, channel: RedisReply) {
        let own = &self.client.subscriptions;
        self.client.entry.shown.subscriptions.set((own.channels.len(), own.patterns.len()));
        let items = [bulk(name), channel, count(own, kind)];
        self.push_items(&items);
    }

    /// Of this thread of this node's door.
    pub(super) fn on_pubsub(&self, words: &Words) -> RedisReply {
        let Some(session) = self.session() else { return RedisReply::Array(Vec::new()) };
        let of = |kind| self.door.hubs.channels(&session.keyspace, kind);
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
}
