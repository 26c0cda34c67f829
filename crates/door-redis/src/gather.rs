//! Commands of all connections of a thread, gathered into few calls: one entry of the log, and one round between threads, for all that
//! came in one turn.
//!
//! ```text
//!   connections ─submit─▶ reads  ─┬─ ≤ CALLS_UNDER_WAY calls of ≤ CALL_COMMANDS commands ─▶ Database
//!                        writes ─┘     what comes meanwhile goes with the next
//! ```
//! Always: a call has commands of one caller, keyspace and level, reads and writes apart; what one connection submits stays together and in
//! its order; what is wrong with one command, or not allowed, is that command's error alone; a keyspace that does not answer delays nobody
//! else's commands.
//! Held by: `commands_of_many_connections_go_in_few_calls`, `a_refusal_is_of_one_command`, `a_keyspace_that_does_not_answer_delays_no_other`,
//! `what_a_call_did_not_reach_goes_with_the_next`.
//! Not here: the order of a connection's own commands (it waits for one submission before the next).

use crate::database::{Database, Levels, Session};
use crate::error::{error, of_refusal};
use crate::limits::{CALLS_UNDER_WAY, CALL_BYTES, CALL_COMMANDS};
use base_types::redis::{RedisAnswer, RedisAsk, RedisCall, RedisCommand, RedisReply};
use base_types::{ErrorCode, ErrorKind, Refusal};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::{oneshot, Notify};

struct Submission {
    session: Rc<Session>,
    levels: Levels,
    commands: Vec<RedisCommand>,
    bytes: usize,
    answer: oneshot::Sender<Vec<RedisReply>>,
}

/// Whose commands may go together.
type Group = (Rc<Session>, Levels);

#[derive(Default)]
struct Queue {
    waiting: RefCell<VecDeque<Submission>>,
    /// The groups of the calls that are under way.
    under_way: RefCell<Vec<Group>>,
}

impl Queue {
    fn has_room(&self, session: &Session, levels: Levels) -> bool {
        let same = |group: &&Group| group.1 == levels && *group.0 == *session;
        self.under_way.borrow().iter().filter(same).count() < CALLS_UNDER_WAY
    }

    fn ended(&self, session: &Session, levels: Levels) {
        let mut under_way = self.under_way.borrow_mut();
        if let Some(at) = under_way.iter().position(|group| group.1 == levels && *group.0 == *session) {
            under_way.swap_remove(at);
        }
    }
}

/// The gatherer of a thread.
pub struct Gatherer {
    database: Arc<dyn Database>,
    reads: Queue,
    writes: Queue,
    wake: Notify,
}

/// About what a command takes in a call.
pub fn bytes_of(command: &RedisCommand) -> usize {
    command.words.iter().map(|word| word.len() + 4).sum::<usize>() + 4
}

impl Gatherer {
    /// Of a thread; [`Gatherer::run`] must run on it.
    pub fn new(database: Arc<dyn Database>) -> Rc<Gatherer> {
        let (reads, writes) = (Queue::default(), Queue::default());
        Rc::new(Gatherer { database, reads, writes, wake: Notify::new() })
    }

    /// Has commands carried out, in their order; a reply for each. They are bounded by the connection that submits them.
    pub async fn submit(&self, session: &Rc<Session>, levels: Levels, commands: Vec<RedisCommand>) -> Vec<RedisReply> {
        let (answer, answered) = oneshot::channel();
        let (count, writes) = (commands.len(), commands.iter().any(RedisCommand::writes));
        let bytes = commands.iter().map(bytes_of).sum();
        let submission = Submission { session: session.clone(), levels, commands, bytes, answer };
        self.queue(writes).waiting.borrow_mut().push_back(submission);
        self.wake.notify_one();
        let gone = || Refusal::new(ErrorCode::ShuttingDown, "the door is closing; connect to another node");
        answered.await.unwrap_or_else(|_| vec![of_refusal(&gone(), writes); count])
    }

    /// Sends what was submitted, until the thread ends.
    pub async fn run(self: Rc<Self>) {
        loop {
            self.wake.notified().await;
            // The other connections whose commands have come are polled first.
            tokio::task::yield_now().await;
            for writes in [true, false] {
                while let Some(group) = self.next(writes) {
                    tokio::task::spawn_local(self.clone().send(group, writes));
                }
            }
        }
    }

    fn queue(&self, writes: bool) -> &Queue {
        if writes {
            &self.writes
        } else {
            &self.reads
        }
    }

    /// What goes next: the first whose group has room for one more call, and all of its group that fit.
    fn next(&self, writes: bool) -> Option<Vec<Submission>> {
        let queue = self.queue(writes);
        let mut waiting = queue.waiting.borrow_mut();
        let at = waiting.iter().position(|one| queue.has_room(&one.session, one.levels))?;
        let first = waiting.remove(at)?;
        let (mut commands, mut bytes) = (first.commands.len(), first.bytes);
        let mut group = vec![first];
        let mut others = VecDeque::with_capacity(waiting.len());
        while let Some(other) = waiting.pop_front() {
            let fits = commands + other.commands.len() <= CALL_COMMANDS && bytes + other.bytes <= CALL_BYTES;
            if fits && other.levels == group[0].levels && other.session == group[0].session {
                commands += other.commands.len();
                bytes += other.bytes;
                group.push(other);
            } else {
                others.push_back(other);
            }
        }
        *waiting = others;
        queue.under_way.borrow_mut().push((group[0].session.clone(), group[0].levels));
        Some(group)
    }

    async fn send(self: Rc<Self>, mut group: Vec<Submission>, writes: bool) {
        let (session, levels) = (group[0].session.clone(), group[0].levels);
        let counts: Vec<usize> = group.iter().map(|submission| submission.commands.len()).collect();
        let commands = group.iter_mut().flat_map(|submission| std::mem::take(&mut submission.commands)).collect();
        let mut replies = self.carry(&session, levels, commands).await.into_iter();
        for (submission, count) in group.into_iter().zip(counts) {
            // A connection that has ended meanwhile wants no answer.
            let _ = submission.answer.send(replies.by_ref().take(count).collect());
        }
        self.queue(writes).ended(&session, levels);
        self.wake.notify_one();
    }

    /// A reply for each command. What a call did not reach goes with the next. Where a call is not allowed, nothing of it was done: it is
    /// sent in halves, until those that are not allowed stand alone.
    async fn carry(&self, session: &Session, levels: Levels, mut commands: Vec<RedisCommand>) -> Vec<RedisReply> {
        let all = commands.len();
        let mut replies = Vec::with_capacity(all);
        // The next part is the last.
        let mut parts: Vec<_> = std::iter::once(0..all).collect();
        while let Some(part) = parts.pop() {
            let asked = if all == 1 { std::mem::take(&mut commands) } else { commands[part.clone()].to_vec() };
            let writes = asked.iter().any(RedisCommand::writes);
            match self.ask(session, levels, asked).await {
                Ok(more) => {
                    let reached = part.start + more.len();
                    if reached < part.end {
                        parts.push(reached..part.end);
                    }
                    replies.extend(more);
                }
                Err(refusal) if refusal.kind() == ErrorKind::Forbidden && part.len() > 1 => {
                    let middle = part.start + part.len() / 2;
                    parts.extend([middle..part.end, part.start..middle]);
                }
                Err(refusal) if refusal.kind() == ErrorKind::Forbidden => replies.push(of_refusal(&refusal, writes)),
                Err(refusal) => {
                    replies.extend(part.map(|_| of_refusal(&refusal, writes)));
                    // The same would be said of the others, each after its deadline.
                    replies.resize_with(all, not_reached);
                    break;
                }
            }
        }
        replies
    }

    /// The replies of the commands that were carried out: the first ones, at least one.
    async fn ask(
        &self,
        session: &Session,
        levels: Levels,
        commands: Vec<RedisCommand>,
    ) -> Result<Vec<RedisReply>, Refusal> {
        let count = commands.len();
        let ask = RedisAsk::Commands { commands };
        let call = RedisCall { unix_ms: self.database.unix_ms(), seed: self.database.random(), ask };
        match self.database.call(session, call, levels).await? {
            RedisAnswer::Replies { replies } if (1..=count).contains(&replies.len()) => Ok(replies),
            _ => Err(Refusal::new(ErrorCode::Internal, "commands were answered by something else; report it")),
        }
    }
}

/// What is said of a command that was not sent, because one before it failed.
fn not_reached() -> RedisReply {
    error("TRYAGAIN the command was not carried out: one before it was refused by the database's cluster")
}

/// The refusal where there is no session.
pub fn no_session() -> Refusal {
    Refusal::new(ErrorCode::Unauthenticated, crate::error::NO_AUTH)
}

#[cfg(test)]
mod tests;
