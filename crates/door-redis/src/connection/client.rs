//! What a connection has said of itself and for itself: who it is, its database, its levels, what it watches and has queued.
//!
//! By design: plain state, changed by the connection's own commands only.

use crate::clients::Entry;
use crate::database::{Levels, Session};
use crate::door::Door;
use crate::limits::*;
use crate::pubsub::{Push, Subscriptions};
use crate::reply::Protocol;
use crate::request::Words;
use base_types::redis::{CommandSpec, Group, KeyVersion, RedisReply, Use, DATABASES};
use std::rc::Rc;
use tokio::sync::mpsc;

/// Whether the client wants replies (`CLIENT REPLY`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Silence {
    /// It does.
    #[default]
    No,
    /// Not of so many more.
    Skip(u8),
    /// Of none.
    Off,
}

/// What MULTI has queued.
#[derive(Debug, Default)]
pub struct Queued {
    /// Each with the database that it is about.
    pub commands: Vec<(&'static CommandSpec, u8, Words)>,
    bytes: usize,
    /// One was wrong: EXEC does nothing.
    pub failed: bool,
    /// Where SELECT has led.
    database: u8,
}

/// The client of a connection.
pub struct Client {
    /// In the table of connections.
    pub entry: Entry,
    /// Who; none: it must say so.
    pub session: Option<Rc<Session>>,
    /// The user of the certificate that it has shown.
    pub certificate: Option<String>,
    pub protocol: Protocol,
    pub database: u8,
    pub levels: Levels,
    pub multi: Option<Queued>,
    pub watched: Vec<KeyVersion>,
    pub silence: Silence,
    pub subscriptions: Subscriptions,
    /// Where messages for it come from; `sender` is given to the hub.
    pub pushes: mpsc::Receiver<Push>,
    pub sender: mpsc::Sender<Push>,
    /// The connection ends once its replies are written.
    pub closing: bool,
}

impl Client {
    /// As each connection begins.
    pub fn new(door: &Rc<Door>, address: String, certificate: Option<String>) -> Client {
        let (sender, pushes) = mpsc::channel(MESSAGES_WAITING_MAX);
        let session = door.database.session(certificate.as_deref()).map(Rc::new);
        let entry = door.clients.enter(address);
        if let Some(session) = &session {
            entry.shown.user.replace(session.user.clone());
        }
        Client {
            entry,
            session,
            certificate,
            protocol: Protocol::default(),
            database: 0,
            levels: door.levels,
            multi: None,
            watched: Vec::new(),
            silence: Silence::No,
            subscriptions: Subscriptions::default(),
            pushes,
            sender,
            closing: false,
        }
    }

    /// Who it is from now on.
    pub fn enter_as(&mut self, session: Session) {
        self.entry.shown.user.replace(session.user.clone());
        self.session = Some(Rc::new(session));
    }

    pub fn select(&mut self, database: u8) {
        self.database = database;
        self.entry.shown.database.set(database);
    }

    pub fn speak(&mut self, protocol: Protocol) {
        self.protocol = protocol;
        self.entry.shown.protocol.set(if protocol == Protocol::Three { 3 } else { 2 });
    }

    /// Whether a reply is left out; one that was to be skipped is.
    pub fn is_silent(&mut self) -> bool {
        let silent = self.silence != Silence::No;
        if let Silence::Skip(left) = self.silence {
            self.silence = if left > 1 { Silence::Skip(left - 1) } else { Silence::No };
        }
        silent
    }

    /// Leaves out the reply to this command and to the next.
    pub fn skip_next(&mut self) {
        if self.silence != Silence::Off {
            self.silence = Silence::Skip(2);
        }
    }

    /// A command was wrong: what is queued will not be carried out.
    pub fn fail_queue(&mut self) {
        if let Some(queued) = &mut self.multi {
            queued.failed = true;
        }
    }

    pub fn begin_multi(&mut self) {
        self.multi = Some(Queued { database: self.database, ..Queued::default() });
        self.entry.shown.queued.set(Some(0));
    }

    pub fn end_multi(&mut self) -> Option<Queued> {
        self.watched.clear();
        self.entry.shown.queued.set(None);
        self.multi.take()
    }

    /// Queues a command of MULTI.
    pub fn queue(&mut self, spec: &'static CommandSpec, words: Words) -> RedisReply {
        let Some(queued) = &mut self.multi else { return RedisReply::Error("ERR EXEC without MULTI".into()) };
        // Their confirmations are no replies, and what follows them in RESP2 is no transaction's.
        if spec.group == Group::PubSub && spec.how == Use::Door && spec.name != "pubsub" {
            queued.failed = true;
            return RedisReply::Error(format!("ERR {} is not allowed in transactions", spec.name));
        }
        queued.bytes += words.iter().map(|word| word.len() + 8).sum::<usize>();
        if queued.commands.len() >= QUEUED_MAX || queued.bytes > QUEUED_BYTES_MAX {
            queued.failed = true;
            return RedisReply::Error(format!(
                "ERR a transaction has at most {QUEUED_MAX} commands of {QUEUED_BYTES_MAX} bytes together"
            ));
        }
        if spec.name == "select" {
            let number =
                words.get(1).and_then(|word| std::str::from_utf8(word).ok()).and_then(|word| word.parse().ok());
            queued.database = number.filter(|number| *number < DATABASES).unwrap_or(queued.database);
        }
        queued.commands.push((spec, queued.database, words));
        self.entry.shown.queued.set(Some(queued.commands.len()));
        RedisReply::Status("QUEUED".into())
    }

    /// A subscriber that speaks RESP2 may do little else.
    pub fn refuse_while_subscribed(&self, spec: &CommandSpec) -> Option<RedisReply> {
        if self.protocol == Protocol::Three || self.subscriptions.count() == 0 {
            return None;
        }
        let may = [
            "subscribe",
            "psubscribe",
            "ssubscribe",
            "unsubscribe",
            "punsubscribe",
            "sunsubscribe",
            "ping",
            "quit",
            "reset",
        ];
        (!may.contains(&spec.name)).then(|| {
            RedisReply::Error(format!(
                "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
                spec.name
            ))
        })
    }

    /// As RESET leaves it: like a new connection.
    pub fn reset(&mut self, door: &Rc<Door>) {
        self.leave(door);
        self.end_multi();
        self.session = door.database.session(self.certificate.as_deref()).map(Rc::new);
        let user = self.session.as_ref().map_or("default".to_owned(), |session| session.user.clone());
        self.entry.shown.user.replace(user);
        self.entry.shown.name.replace(Vec::new());
        self.speak(Protocol::Two);
        self.select(0);
        (self.levels, self.silence) = (door.levels, Silence::No);
    }

    /// Ends its subscriptions.
    pub fn leave(&mut self, door: &Rc<Door>) {
        door.hubs.leave(self.entry.shown.id, &mut self.subscriptions);
        self.entry.shown.subscriptions.set((0, 0));
    }
}
