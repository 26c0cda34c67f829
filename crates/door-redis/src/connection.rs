//! A connection without its bytes: its client, and the way to the database.
//!
//! By design: what the door asks for by itself goes the same way as the client's own commands, as the same caller.
//! Not here: bytes, and what waits for them (`conversation/`).

mod client;

pub use client::{Client, Silence};

use crate::database::Session;
use crate::door::Door;
use crate::error::{error, of_refusal};
use crate::gather::no_session;
use crate::reply::Protocol;
use crate::request::Words;
use base_types::redis::{RedisAnswer, RedisAsk, RedisCall, RedisCommand, RedisReply};
use base_types::Refusal;
use std::rc::Rc;

/// A connection.
pub(crate) struct Connection {
    pub door: Rc<Door>,
    pub client: Client,
}

/// How many subscribers of this thread get what some commands publish: places among the commands, and counts.
pub(crate) struct Published(Vec<(usize, i64)>);

impl Published {
    /// The database does not know of subscribers: its reply is 0.
    pub fn add_to(&self, replies: &mut [RedisReply]) {
        for (at, receivers) in &self.0 {
            if let Some(RedisReply::Integer(count)) = replies.get_mut(*at) {
                *count += receivers;
            }
        }
    }
}

impl Connection {
    pub fn session(&self) -> Option<Rc<Session>> {
        self.client.session.clone()
    }

    /// Forgets who the client is where that counts for nothing any more: it may do as little as before it said so.
    pub fn expire(&mut self) {
        let ended = self.client.session.as_ref().is_some_and(|session| !self.door.database.admits(session));
        if ended {
            self.client.leave(&self.door);
            self.client.end_multi();
            self.client.session = None;
        }
    }

    pub fn protocol(&self) -> Protocol {
        self.client.protocol
    }

    /// A call of its own, not gathered with others.
    pub async fn call(&self, ask: RedisAsk) -> Result<RedisAnswer, Refusal> {
        let session = self.session().ok_or_else(no_session)?;
        let database = &self.door.database;
        let call = RedisCall { unix_ms: database.unix_ms(), seed: database.random(), ask };
        database.call(&session, call, self.client.levels).await
    }

    /// Has commands carried out, together with those of other connections. A reply for each.
    pub async fn submit(&self, commands: Vec<RedisCommand>) -> Vec<RedisReply> {
        match self.session() {
            Some(session) => self.door.gatherer.submit(&session, self.client.levels, commands).await,
            None => vec![of_refusal(&no_session(), false); commands.len()],
        }
    }

    /// One command, in the connection's database.
    pub async fn submit_one(&self, words: Words) -> RedisReply {
        let command = RedisCommand { database: self.client.database, words };
        let missing = || error("ERR a reply is missing; report it");
        self.submit(vec![command]).await.into_iter().next().unwrap_or_else(missing)
    }

    pub fn published(&self, commands: &[RedisCommand]) -> Published {
        let mut all = Vec::new();
        let Some(session) = &self.client.session else { return Published(all) };
        for (at, command) in commands.iter().enumerate() {
            let name = command.spec().map(|spec| spec.name);
            if let (Some(channel), Some(name @ ("publish" | "spublish"))) = (command.words.get(1), name) {
                let receivers = self.door.hubs.receivers(&session.keyspace, channel, name == "spublish");
                all.push((at, i64::try_from(receivers).unwrap_or(i64::MAX)));
            }
        }
        Published(all)
    }
}
