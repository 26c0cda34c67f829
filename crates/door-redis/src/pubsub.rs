//! Publish and subscribe: one follower of each keyspace's messages on this thread, while anybody subscribes.
//!
//! ```text
//!   PUBLISH (any node) ─entry─▶ the keyspace's cluster ◀─Messages{after}─ follower ─▶ mailboxes of subscribers
//! ```
//! Always: a subscriber gets each message once and in the order of the cluster's log, from the moment its subscription was confirmed; one
//! that does not read is disconnected when its mailbox is full, never skipped over in silence.
//! Held by: `messages_come_in_order_to_all_who_subscribe`, `a_subscriber_that_does_not_read_is_disconnected`.
//! Not here: who may subscribe (the database decides when the first question is asked).

mod hub;
#[cfg(test)]
mod tests;

pub use hub::{Hubs, Kind, Subscriptions};

use base_types::redis::RedisReply;
use bytes::Bytes;

/// What a subscriber is sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Push {
    /// The kind: `message`, `pmessage`, `smessage`.
    pub kind: &'static str,
    /// The pattern that matched.
    pub pattern: Option<Bytes>,
    /// The channel.
    pub channel: Bytes,
    /// What was published.
    pub message: Bytes,
}

impl Push {
    /// Its parts, as they are written.
    pub fn items(&self) -> Vec<RedisReply> {
        let mut items = vec![RedisReply::Bulk(Bytes::from_static(self.kind.as_bytes()))];
        items.extend(self.pattern.clone().map(RedisReply::Bulk));
        items.push(RedisReply::Bulk(self.channel.clone()));
        items.push(RedisReply::Bulk(self.message.clone()));
        items
    }
}
