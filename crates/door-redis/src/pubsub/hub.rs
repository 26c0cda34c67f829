//! Who subscribes to what, and the followers.
//!
//! Always: who may not read a keyspace's messages any more hears none that comes half a second later (`a_revoked_subscriber_hears_nothing_more`).

use super::Push;
use crate::database::{Database, Levels, Session};
use crate::limits::{SUBSCRIBER_RECHECK, SUBSCRIPTIONS_MAX};
use base_types::access::Caller;
use base_types::redis::{matches, RedisAnswer, RedisAsk, RedisCall, RedisMessage};
use base_types::{ErrorCode, ReadConsistency, Refusal, WriteConsistency};
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// The pause after a question that was refused.
const PAUSE: Duration = Duration::from_millis(200);
/// Followers read what their own node has: messages come in the log's order everywhere.
const LEVELS: Levels = Levels { read: ReadConsistency::Eventual, write: WriteConsistency::Strong };

/// What a connection subscribes to.
#[derive(Debug, Default)]
pub struct Subscriptions {
    /// Of which keyspace; the first subscription says so.
    keyspace: Option<String>,
    /// Channels.
    pub channels: BTreeSet<Bytes>,
    /// Patterns.
    pub patterns: BTreeSet<Bytes>,
    /// Channels of SSUBSCRIBE.
    pub shard: BTreeSet<Bytes>,
}

impl Subscriptions {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.channels.len() + self.patterns.len() + self.shard.len()
    }

    /// Those of a kind.
    pub fn of(&self, kind: Kind) -> &BTreeSet<Bytes> {
        match kind {
            Kind::Channel => &self.channels,
            Kind::Pattern => &self.patterns,
            Kind::Shard => &self.shard,
        }
    }

    fn of_mut(&mut self, kind: Kind) -> &mut BTreeSet<Bytes> {
        match kind {
            Kind::Channel => &mut self.channels,
            Kind::Pattern => &mut self.patterns,
            Kind::Shard => &mut self.shard,
        }
    }
}

/// Which kind of subscription.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// SUBSCRIBE.
    Channel,
    /// PSUBSCRIBE.
    Pattern,
    /// SSUBSCRIBE.
    Shard,
}

/// Ends a connection whose mailbox is full, or whose client may not read messages any more.
type End = Rc<dyn Fn()>;

struct Subscriber {
    sender: mpsc::Sender<Push>,
    end: End,
    /// Who, as of its last SUBSCRIBE, and when it was looked whether it may still hear.
    session: Session,
    checked: Cell<Instant>,
}

impl Subscriber {
    /// Whether it may hear a message that comes now.
    fn may_hear(&self, database: &dyn Database) -> bool {
        if self.checked.get().elapsed() < SUBSCRIBER_RECHECK {
            return true;
        }
        let may = database.may_subscribe(&self.session);
        if may {
            self.checked.set(Instant::now());
        }
        may
    }
}

/// A keyspace's subscribers.
#[derive(Default)]
struct Hub {
    channels: HashMap<Bytes, BTreeSet<u64>>,
    shard: HashMap<Bytes, BTreeSet<u64>>,
    patterns: HashMap<Bytes, BTreeSet<u64>>,
    subscribers: HashMap<u64, Subscriber>,
    /// Its follower runs.
    followed: bool,
}

impl Hub {
    fn table(&mut self, kind: Kind) -> &mut HashMap<Bytes, BTreeSet<u64>> {
        match kind {
            Kind::Channel => &mut self.channels,
            Kind::Pattern => &mut self.patterns,
            Kind::Shard => &mut self.shard,
        }
    }

    fn deliver(&self, database: &dyn Database, message: &RedisMessage) {
        let RedisMessage { channel, message, sharded, .. } = message;
        let push = |kind, pattern: Option<&Bytes>| Push {
            kind,
            pattern: pattern.cloned(),
            channel: channel.clone(),
            message: message.clone(),
        };
        let (table, kind) = if *sharded { (&self.shard, "smessage") } else { (&self.channels, "message") };
        for id in table.get(channel).into_iter().flatten() {
            self.send(database, *id, push(kind, None));
        }
        if *sharded {
            return;
        }
        for (pattern, ids) in self.patterns.iter().filter(|(pattern, _)| matches(pattern, channel)) {
            for id in ids {
                self.send(database, *id, push("pmessage", Some(pattern)));
            }
        }
    }

    fn send(&self, database: &dyn Database, id: u64, push: Push) {
        let Some(subscriber) = self.subscribers.get(&id) else { return };
        if !subscriber.may_hear(database) || subscriber.sender.try_send(push).is_err() {
            (subscriber.end)();
        }
    }
}

/// The hubs of a thread, by keyspace.
pub struct Hubs {
    database: Arc<dyn Database>,
    hubs: RefCell<HashMap<String, Hub>>,
}

impl Hubs {
    /// Of a thread.
    pub fn new(database: Arc<dyn Database>) -> Rc<Hubs> {
        Rc::new(Hubs { database, hubs: RefCell::default() })
    }

    /// Subscribes a connection; messages that are published after this has returned come to `sender`. Refused where the session may not
    /// read the keyspace's messages.
    pub async fn subscribe(
        self: &Rc<Self>,
        session: &Session,
        id: u64,
        to: (Kind, Bytes),
        own: &mut Subscriptions,
        way: (mpsc::Sender<Push>, End),
    ) -> Result<(), Refusal> {
        if own.count() >= SUBSCRIPTIONS_MAX {
            let message = format!("ERR a connection has at most {SUBSCRIPTIONS_MAX} subscriptions");
            return Err(Refusal::new(ErrorCode::InvalidRequest, message));
        }
        if own.count() > 0 && own.keyspace.as_ref() != Some(&session.keyspace) {
            let message = "ERR the connection subscribes in another database's keyspace; unsubscribe there first";
            return Err(Refusal::new(ErrorCode::InvalidRequest, message));
        }
        // The first question is the caller's own: whether it may, and where the messages are.
        let end = if own.count() == 0 { Some(self.end_of(session).await?) } else { None };
        own.keyspace = Some(session.keyspace.clone());
        let (kind, name) = to;
        own.of_mut(kind).insert(name.clone());
        let mut hubs = self.hubs.borrow_mut();
        let hub = hubs.entry(session.keyspace.clone()).or_default();
        hub.table(kind).entry(name).or_default().insert(id);
        let subscriber =
            Subscriber { sender: way.0, end: way.1, session: session.clone(), checked: Cell::new(Instant::now()) };
        hub.subscribers.insert(id, subscriber);
        // Who subscribes already has a follower.
        if let (Some(after), false) = (end, hub.followed) {
            hub.followed = true;
            tokio::task::spawn_local(self.clone().follow(session.keyspace.clone(), after));
        }
        Ok(())
    }

    /// Ends a subscription.
    pub fn unsubscribe(&self, id: u64, from: (Kind, &Bytes), own: &mut Subscriptions) {
        let (kind, name) = from;
        own.of_mut(kind).remove(name);
        let mut hubs = self.hubs.borrow_mut();
        let Some(hub) = own.keyspace.as_ref().and_then(|keyspace| hubs.get_mut(keyspace)) else { return };
        let table = hub.table(kind);
        if let Some(ids) = table.get_mut(name) {
            ids.remove(&id);
            if ids.is_empty() {
                table.remove(name);
            }
        }
        if own.count() == 0 {
            hub.subscribers.remove(&id);
        }
    }

    /// Ends all of a connection's subscriptions.
    pub fn leave(&self, id: u64, own: &mut Subscriptions) {
        for kind in [Kind::Channel, Kind::Pattern, Kind::Shard] {
            let names: Vec<Bytes> = own.of(kind).iter().cloned().collect();
            for name in names {
                self.unsubscribe(id, (kind, &name), own);
            }
        }
        own.keyspace = None;
    }

    /// How many subscriptions of this thread a message on a channel reaches; `sharded`: of SPUBLISH.
    pub fn receivers(&self, keyspace: &str, channel: &Bytes, sharded: bool) -> usize {
        let hubs = self.hubs.borrow();
        let Some(hub) = hubs.get(keyspace) else { return 0 };
        let table = if sharded { &hub.shard } else { &hub.channels };
        let direct = table.get(channel).map_or(0, BTreeSet::len);
        let matching = hub.patterns.iter().filter(|(pattern, _)| !sharded && matches(pattern, channel));
        direct + matching.map(|(_, ids)| ids.len()).sum::<usize>()
    }

    /// The channels of a kind that have subscribers here, with how many.
    pub fn channels(&self, keyspace: &str, kind: Kind) -> Vec<(Bytes, usize)> {
        let mut hubs = self.hubs.borrow_mut();
        let Some(hub) = hubs.get_mut(keyspace) else { return Vec::new() };
        let mut all: Vec<_> = hub.table(kind).iter().map(|(name, ids)| (name.clone(), ids.len())).collect();
        all.sort();
        all
    }

    async fn end_of(&self, session: &Session) -> Result<u64, Refusal> {
        let (_, reached, _) = self.ask(session, u64::MAX, Levels { read: ReadConsistency::Strong, ..LEVELS }).await?;
        Ok(reached)
    }

    async fn ask(
        &self,
        session: &Session,
        after: u64,
        levels: Levels,
    ) -> Result<(Vec<RedisMessage>, u64, bool), Refusal> {
        let call = RedisCall { unix_ms: self.database.unix_ms(), seed: 0, ask: RedisAsk::Messages { after } };
        match self.database.call(session, call, levels).await? {
            RedisAnswer::Messages { messages, reached, lost } => Ok((messages, reached, lost)),
            _ => Err(Refusal::new(ErrorCode::Internal, "messages were answered by something else; report it")),
        }
    }

    /// Reads a keyspace's messages while anybody subscribes.
    async fn follow(self: Rc<Self>, keyspace: String, mut after: u64) {
        let session = Session { caller: Caller::Node, user: String::new(), keyspace: keyspace.clone() };
        loop {
            let asked = self.ask(&session, after, LEVELS).await;
            {
                let mut hubs = self.hubs.borrow_mut();
                let Some(hub) = hubs.get_mut(&keyspace) else { return };
                if hub.subscribers.is_empty() {
                    hubs.remove(&keyspace);
                    return;
                }
                match &asked {
                    Ok((messages, _, false)) => {
                        for message in messages {
                            hub.deliver(&*self.database, message);
                            after = message.number;
                        }
                    }
                    // Messages were removed before they were read here: who subscribes must not believe that there were none.
                    Ok((_, reached, true)) => {
                        after = *reached;
                        hub.subscribers.values().for_each(|subscriber| (subscriber.end)());
                    }
                    Err(_) => {}
                }
            }
            if asked.is_err() {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}
