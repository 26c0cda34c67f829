//! One connection: commands come, replies go, in order.
//!
//! ```text
//!   bytes ─Parser─▶ commands of the database ─ in runs ─▶ Gatherer ─▶ replies     all replies of a turn: one write
//!                   commands of the door     ─ one by one, between the runs
//! ```
//! Always: replies come in the order of the commands; a command begins after all before it have been answered; what is held of a connection
//! is bounded by `limits.rs`; a protocol error is the connection's last answer.
//! Held by: `replies_come_in_the_order_of_the_commands`, `a_broken_frame_ends_the_connection`.
//! Not here: what is known of the client and how the database is reached (`connection.rs`), what commands of the door do (`commands/`),
//! MULTI (`transaction.rs`), waiting (`waiting.rs`).

mod transaction;
mod waiting;

use crate::commands::{self, Said};
use crate::connection::{Client, Connection};
use crate::door::Door;
use crate::error::{unknown_command, wrong_count, NO_AUTH};
use crate::gather::bytes_of;
use crate::limits::*;
use crate::reply;
use crate::request::{Parser, Words};
use base_types::redis::{find, CommandSpec, RedisCommand, RedisReply, Use};
use bytes::BytesMut;
use std::rc::Rc;
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;

/// Bytes of replies that are written before the next command begins.
const OUT_BYTES_MAX: usize = 1 << 20;

/// The connection has ended, or is to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ended;

/// A connection and its bytes.
struct Conversation<S> {
    connection: Connection,
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

/// Who hears of a connection's bytes: the node, which counts those of unfinished commands.
pub trait Settles {
    /// What has come so far were whole commands, but for the last read.
    fn settled(&self);
}

/// Answers a client until it leaves, the connection is to end, or the node stops. `certificate`: the user that the client has shown one of.
pub async fn serve<S>(
    door: Rc<Door>,
    stream: S,
    address: String,
    certificate: Option<String>,
    bytes: &dyn Settles,
    stop: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    door.metrics.connected();
    let client = Client::new(&door, address, certificate);
    let connection = Connection { door, client };
    let mut conversation = Conversation { connection, stream, parser: Parser::default(), out: BytesMut::new() };
    let _: Result<(), Ended> = conversation.run(bytes, stop).await;
    conversation.leave().await;
}

impl<S: AsyncRead + AsyncWrite + Unpin> Conversation<S> {
    async fn run(&mut self, bytes: &dyn Settles, mut stop: watch::Receiver<bool>) -> Result<(), Ended> {
        let shown = self.connection.client.entry.shown.clone();
        loop {
            let more = self.turn(bytes).await?;
            self.write_out().await?;
            if self.connection.client.closing || shown.killed.get() || *stop.borrow() {
                return Ok(());
            }
            if more {
                tokio::task::yield_now().await;
                continue;
            }
            self.parser.make_room();
            tokio::select! {
                biased;
                read = self.stream.read_buf(self.parser.buffer()) => match read {
                    Ok(0) | Err(_) => return Err(Ended),
                    Ok(_) => {}
                },
                Some(push) = self.connection.client.pushes.recv() => self.push(&push.items()),
                () = shown.wake.notified() => {}
                _ = stop.wait_for(|stop| *stop) => return Ok(()),
            }
            while let Ok(push) = self.connection.client.pushes.try_recv() {
                self.push(&push.items());
            }
        }
    }

    /// Carries out what has come, up to a bound. True: there is more.
    async fn turn(&mut self, unfinished: &dyn Settles) -> Result<bool, Ended> {
        self.connection.expire();
        let (mut run, mut bytes) = (Vec::new(), 0);
        for taken in 0..PIPELINE_MAX {
            self.parser.set_strict(self.connection.client.session.is_none());
            let words = match self.parser.next() {
                Ok(Some(words)) => words,
                Ok(None) => {
                    if taken > 0 {
                        unfinished.settled();
                    }
                    self.finish(&mut run).await?;
                    return Ok(false);
                }
                Err(error) => {
                    self.finish(&mut run).await?;
                    self.answer(&RedisReply::Error(error.0));
                    self.connection.client.closing = true;
                    return Ok(false);
                }
            };
            match self.step(words) {
                Step::Run(command) => {
                    let size = bytes_of(&command);
                    // A call has a bound, too: a long command begins another.
                    if bytes + size > PIPELINE_BYTES_MAX {
                        self.finish(&mut run).await?;
                        bytes = 0;
                    }
                    bytes += size;
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
                    self.connection.door.metrics.count(Some(spec), failed, began.elapsed());
                }
            }
            if self.connection.client.closing {
                break;
            }
        }
        unfinished.settled();
        self.finish(&mut run).await?;
        Ok(true)
    }

    /// Carries out a command that is not simply sent to the database.
    async fn carry_out(&mut self, spec: &'static CommandSpec, words: Words) -> Result<(), Ended> {
        let of = &mut self.connection;
        let said = match spec.name {
            "multi" | "exec" | "discard" | "watch" | "unwatch" => {
                vec![Said::Reply(transaction::on_transaction(of, spec.name, words).await)]
            }
            _ if spec.how != Use::Door => vec![Said::Reply(self.wait(spec, words).await?)],
            _ => commands::carry_out(of, spec, words).await,
        };
        for said in said {
            match said {
                Said::Reply(reply) => self.answer(&reply),
                Said::Push(items) => self.push_reply(&items),
            }
        }
        Ok(())
    }

    /// What is to be done with a command.
    fn step(&mut self, words: Words) -> Step {
        let Some(spec) = words.first().and_then(|name| find(name)) else {
            self.connection.client.fail_queue();
            self.connection.door.metrics.count(None, true, std::time::Duration::ZERO);
            return Step::Reply(unknown_command(&words));
        };
        let shown = &self.connection.client.entry.shown;
        shown.command.set(spec.name);
        shown.active.set(Instant::now());
        if !spec.takes(words.len()) {
            self.connection.client.fail_queue();
            return Step::Reply(wrong_count(spec.name));
        }
        if self.connection.client.session.is_none() && !matches!(spec.name, "auth" | "hello" | "quit" | "reset") {
            return Step::Reply(RedisReply::Error(NO_AUTH.into()));
        }
        if let Some(refused) = self.connection.client.refuse_while_subscribed(spec) {
            return Step::Reply(refused);
        }
        if self.connection.client.multi.is_some()
            && !matches!(spec.name, "exec" | "discard" | "multi" | "watch" | "quit" | "reset")
        {
            if let Some(refused) = commands::never_done(spec.name) {
                self.connection.client.fail_queue();
                return Step::Reply(refused);
            }
            return Step::Reply(self.connection.client.queue(spec, words));
        }
        let waits = spec.blocking && (!spec.name.starts_with("xread") || waiting::has_block(&words));
        match spec.how {
            Use::Read | Use::Write if !waits => {
                Step::Run(RedisCommand { database: self.connection.client.database, words })
            }
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
        let published = self.connection.published(&commands);
        let began = Instant::now();
        let mut replies = self.connection.submit(commands).await;
        published.add_to(&mut replies);
        let took = began.elapsed();
        for (spec, reply) in specs.into_iter().zip(replies) {
            self.connection.door.metrics.count(spec, matches!(reply, RedisReply::Error(_)), took);
            self.answer(&reply);
            if self.out.len() > OUT_BYTES_MAX {
                self.write_out().await?;
            }
        }
        Ok(())
    }

    /// Appends a reply, unless the client wants none.
    fn answer(&mut self, reply: &RedisReply) {
        if !self.connection.client.is_silent() {
            reply::write(&mut self.out, self.connection.protocol(), reply);
        }
    }

    /// Appends what the client did not ask for.
    fn push(&mut self, items: &[RedisReply]) {
        reply::push(&mut self.out, self.connection.protocol(), items);
    }

    /// Appends a reply in the form of a push, as confirmations of subscriptions are: who wants no replies gets them, as in Redis.
    fn push_reply(&mut self, items: &[RedisReply]) {
        let _counted = self.connection.client.is_silent();
        self.push(items);
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
        self.connection.client.leave(&self.connection.door);
        let _ = self.stream.shutdown().await;
    }
}
