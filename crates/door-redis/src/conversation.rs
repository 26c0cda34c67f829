//! One connection: commands come, replies go, in order.
//!
//! ```text
//!   bytes ─Parser─▶ commands of the database ─ in runs ─▶ Gatherer ─▶ replies     all replies of a turn: one write
//!                   commands of the door     ─ one by one, between the runs
//! ```
//! Always: replies come in the order of the commands; a command begins after all before it have been answered; what is held of a connection
//! is bounded by `limits.rs`; a protocol error is the connection's last answer.
//! Held by: `replies_come_in_the_order_of_the_commands`, `a_broken_frame_ends_the_connection`.
//! Not here: what commands of the door do (`commands/`), MULTI (`transaction.rs`), waiting (`waiting.rs`).

mod client;
mod transaction;
mod waiting;

pub use client::{Client, Silence};

use crate::database::Session;
use crate::door::Door;
use crate::error::{of_refusal, unknown_command, wrong_count, NO_AUTH};
use crate::gather::bytes_of;
use crate::limits::*;
use crate::pubsub::Push;
use crate::reply::{self, Protocol};
use crate::request::{Parser, Words};
use base_types::redis::{find, CommandSpec, RedisCommand, RedisReply, Use};
use bytes::BytesMut;
use std::rc::Rc;
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;

/// Bytes of replies that are written before the next command begins.
const OUT_BYTES_MAX: usize = 1 << 20;
/// What an idle connection keeps of its buffers.
const KEPT_BYTES: usize = 4 << 10;

/// The connection has ended, or is to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ended;

/// A connection.
pub(crate) struct Conversation<S> {
    pub door: Rc<Door>,
    pub client: Client,
    stream: S,
    parser: Parser,
    out: BytesMut,
}

/// What is done with a command.
enum Step {
    /// It goes to the database with those around it.
    Run(RedisCommand),
    /// It is answered with this.
    Reply(RedisReply),
    /// The door carries it out.
    Do(&'static CommandSpec, Words),
}

/// Answers a client until it leaves, the connection is to end, or the node stops. `certificate`: the user that the client has shown one of.
pub async fn serve<S>(
    door: Rc<Door>,
    stream: S,
    address: String,
    certificate: Option<String>,
    stop: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    door.metrics.connected();
    let client = Client::new(&door, address, certificate);
    let mut conversation = Conversation { door, client, stream, parser: Parser::default(), out: BytesMut::new() };
    let _: Result<(), Ended> = conversation.run(stop).await;
    conversation.leave().await;
}

impl<S: AsyncRead + AsyncWrite + Unpin> Conversation<S> {
    async fn run(&mut self, mut stop: watch::Receiver<bool>) -> Result<(), Ended> {
        loop {
            let more = self.turn().await?;
            self.write_out().await?;
            if self.client.closing || *stop.borrow() {
                return Ok(());
            }
            if more {
                tokio::task::yield_now().await;
                continue;
            }
            let shown = self.client.entry.shown.clone();
            let buffer = self.parser.buffer();
            buffer.reserve(KEPT_BYTES);
            tokio::select! {
                biased;
                read = self.stream.read_buf(buffer) => match read {
                    Ok(0) | Err(_) => return Err(Ended),
                    Ok(_) => {}
                },
                Some(push) = self.client.pushes.recv() => self.push(&push),
                () = shown.wake.notified() => if shown.killed.get() { return Err(Ended) },
                _ = stop.wait_for(|stop| *stop) => return Ok(()),
            }
            while let Ok(push) = self.client.pushes.try_recv() {
                self.push(&push);
            }
        }
    }

    /// Carries out what has come, up to a bound. True: there is more.
    async fn turn(&mut self) -> Result<bool, Ended> {
        let (mut run, mut bytes, mut taken) = (Vec::new(), 0, 0);
        while taken < PIPELINE_MAX && !self.client.closing {
            self.parser.set_strict(self.client.session.is_none());
            let words = match self.parser.next() {
                Ok(Some(words)) => words,
                Ok(None) => {
                    self.finish(&mut run).await?;
                    return Ok(false);
                }
                Err(error) => {
                    self.finish(&mut run).await?;
                    self.answer(&RedisReply::Error(error.0));
                    self.client.closing = true;
                    return Ok(false);
                }
            };
            taken += 1;
            match self.step(words) {
                Step::Run(command) => {
                    bytes += bytes_of(&command);
                    run.push(command);
                }
                Step::Reply(reply) => {
                    self.finish(&mut run).await?;
                    self.answer(&reply);
                }
                Step::Do(spec, words) => {
                    self.finish(&mut run).await?;
                    let began = Instant::now();
                    let before = self.out.len();
                    self.carry_out(spec, words).await?;
                    let failed = self.out.get(before) == Some(&b'-');
                    self.door.metrics.count(Some(spec), failed, began.elapsed());
                }
            }
            if bytes > PIPELINE_BYTES_MAX {
                break;
            }
        }
        self.finish(&mut run).await?;
        Ok(true)
    }

    /// What is to be done with a command.
    fn step(&mut self, words: Words) -> Step {
        let Some(spec) = words.first().and_then(|name| find(name)) else {
            self.client.fail_queue();
            self.door.metrics.count(None, true, std::time::Duration::ZERO);
            return Step::Reply(unknown_command(&words));
        };
        let shown = &self.client.entry.shown;
        shown.command.set(spec.name);
        shown.active.set(Instant::now());
        if !spec.takes(words.len()) {
            self.client.fail_queue();
            return Step::Reply(wrong_count(spec.name));
        }
        if self.client.session.is_none() && !matches!(spec.name, "auth" | "hello" | "quit" | "reset") {
            return Step::Reply(RedisReply::Error(NO_AUTH.into()));
        }
        if let Some(refused) = self.client.refuse_while_subscribed(spec) {
            return Step::Reply(refused);
        }
        if self.client.multi.is_some()
            && !matches!(spec.name, "exec" | "discard" | "multi" | "watch" | "quit" | "reset")
        {
            return Step::Reply(self.client.queue(spec, words));
        }
        let waits = spec.blocking && (!spec.name.starts_with("xread") || waiting::has_block(&words));
        match spec.how {
            Use::Read | Use::Write if !waits => Step::Run(RedisCommand { database: self.client.database, words }),
            _ => Step::Do(spec, words),
        }
    }

    /// Has the run carried out, and answers its commands.
    async fn finish(&mut self, run: &mut Vec<RedisCommand>) -> Result<(), Ended> {
        if run.is_empty() {
            return Ok(());
        }
        let commands = std::mem::take(run);
        let specs: Vec<Option<&'static CommandSpec>> = commands.iter().map(RedisCommand::spec).collect();
        let published = self.published(&commands);
        let began = Instant::now();
        let writes = commands.iter().any(RedisCommand::writes);
        let done = match self.client.session.clone() {
            Some(session) => self.door.gatherer.submit(&session, self.client.levels, commands).await,
            None => Err(crate::gather::no_session()),
        };
        let took = began.elapsed();
        match done {
            Ok(replies) => {
                for (at, (spec, mut reply)) in specs.into_iter().zip(replies).enumerate() {
                    self.door.metrics.count(spec, matches!(reply, RedisReply::Error(_)), took);
                    if let (Some(here), RedisReply::Integer(count)) = (published.get(&at), &mut reply) {
                        *count += i64::try_from(*here).unwrap_or(0);
                    }
                    self.answer(&reply);
                    if self.out.len() > OUT_BYTES_MAX {
                        self.write_out().await?;
                    }
                }
            }
            Err(refusal) => {
                let reply = of_refusal(&refusal, writes);
                for spec in specs {
                    self.door.metrics.count(spec, true, took);
                    self.answer(&reply);
                }
            }
        }
        Ok(())
    }

    /// How many subscribers here get what these commands publish, by the command's place.
    fn published(&self, commands: &[RedisCommand]) -> std::collections::BTreeMap<usize, usize> {
        let Some(session) = &self.client.session else { return Default::default() };
        let mut all = std::collections::BTreeMap::new();
        for (at, command) in commands.iter().enumerate() {
            let name = command.spec().map(|spec| spec.name);
            if let (Some(channel), Some(name @ ("publish" | "spublish"))) = (command.words.get(1), name) {
                all.insert(at, self.door.hubs.receivers(&session.keyspace, channel, name == "spublish"));
            }
        }
        all
    }

    /// Appends a reply, unless the client wants none.
    pub fn answer(&mut self, reply: &RedisReply) {
        if self.client.is_silent() {
            return;
        }
        reply::write(&mut self.out, self.client.protocol, reply);
    }

    /// Appends what the client did not ask for.
    pub fn push(&mut self, push: &Push) {
        reply::push(&mut self.out, self.client.protocol, &push.items());
    }

    /// Appends a reply that is a push, as confirmations of subscriptions are.
    pub fn push_items(&mut self, items: &[RedisReply]) {
        if !self.client.is_silent() {
            reply::push(&mut self.out, self.client.protocol, items);
        }
    }

    async fn write_out(&mut self) -> Result<(), Ended> {
        if self.out.is_empty() {
            return Ok(());
        }
        let written = self.stream.write_all(&self.out).await;
        self.out.clear();
        if self.out.capacity() > OUT_BYTES_MAX {
            self.out = BytesMut::new();
        }
        written.map_err(|_| Ended)
    }

    async fn leave(&mut self) {
        self.client.leave(&self.door);
        let _ = self.stream.shutdown().await;
    }

    /// Has one command carried out that the door asks for, in the connection's database.
    pub async fn attempt_one(&self, words: Words) -> RedisReply {
        let missing = || RedisReply::Error("ERR a reply is missing; report it".into());
        self.attempt_in(vec![(self.client.database, words)]).await.into_iter().next().unwrap_or_else(missing)
    }

    /// Has commands carried out that the door asks for. A refusal is a reply to each.
    pub async fn attempt_in(&self, commands: Vec<(u8, Words)>) -> Vec<RedisReply> {
        let count = commands.len();
        let commands: Vec<RedisCommand> =
            commands.into_iter().map(|(database, words)| RedisCommand { database, words }).collect();
        let done = match self.session() {
            Some(session) => self.door.gatherer.submit(&session, self.client.levels, commands).await,
            None => Err(crate::gather::no_session()),
        };
        done.unwrap_or_else(|refusal| vec![of_refusal(&refusal, true); count])
    }

    pub fn session(&self) -> Option<Rc<Session>> {
        self.client.session.clone()
    }

    pub fn protocol(&self) -> Protocol {
        self.client.protocol
    }
}
