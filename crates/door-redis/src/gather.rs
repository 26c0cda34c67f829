//! Commands of all connections of a thread, gathered into few calls: one entry of the log, and one round between threads, for all that
//! came in one turn.
//!
//! ```text
//!   connections ─submit─▶ reads  ─┬─ ≤ CALLS_UNDER_WAY calls of ≤ CALL_COMMANDS commands ─▶ Database
//!                        writes ─┘     what comes meanwhile goes with the next
//! ```
//! Always: a call has commands of one caller, keyspace and level, reads and writes apart; what one connection submits stays together and in
//! its order; where a call is refused for the rights of its caller, each connection's commands are asked for alone.
//! Held by: `commands_of_many_connections_go_in_few_calls`, `a_refusal_is_of_one_connection`.
//! Not here: the order of a connection's own commands (it waits for one submission before the next).

use crate::database::{Database, Levels, Session};
use crate::limits::{CALLS_UNDER_WAY, CALL_BYTES, CALL_COMMANDS};
use base_types::redis::{RedisAnswer, RedisAsk, RedisCall, RedisCommand, RedisReply};
use base_types::{ErrorCode, ErrorKind, Refusal};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::{oneshot, Notify};

/// What a submission comes to: a reply for each command, or a refusal of all.
pub type Gathered = Result<Vec<RedisReply>, Refusal>;

struct Submission {
    session: Rc<Session>,
    levels: Levels,
    commands: Vec<RedisCommand>,
    bytes: usize,
    answer: oneshot::Sender<Gathered>,
}

#[derive(Default)]
struct Queue {
    waiting: RefCell<VecDeque<Submission>>,
    under_way: Cell<usize>,
}

/// The gatherer of a thread.
pub struct Gatherer {
    database: Arc<dyn Database>,
    reads: Queue,
    writes: Queue,
    wake: Notify,
    calls: Cell<u64>,
}

/// About what a command takes in a call.
pub fn bytes_of(command: &RedisCommand) -> usize {
    command.words.iter().map(|word| word.len() + 4).sum::<usize>() + 4
}

impl Gatherer {
    /// Of a thread; [`Gatherer::run`] must run on it.
    pub fn new(database: Arc<dyn Database>) -> Rc<Gatherer> {
        let (reads, writes) = (Queue::default(), Queue::default());
        Rc::new(Gatherer { database, reads, writes, wake: Notify::new(), calls: Cell::new(0) })
    }

    /// How many calls were made.
    pub fn calls(&self) -> u64 {
        self.calls.get()
    }

    /// Has commands carried out, in their order. They are bounded by who submits them.
    pub async fn submit(&self, session: &Rc<Session>, levels: Levels, commands: Vec<RedisCommand>) -> Gathered {
        let (answer, answered) = oneshot::channel();
        let queue = if commands.iter().any(RedisCommand::writes) { &self.writes } else { &self.reads };
        let bytes = commands.iter().map(bytes_of).sum();
        let submission = Submission { session: session.clone(), levels, commands, bytes, answer };
        queue.waiting.borrow_mut().push_back(submission);
        self.wake.notify_one();
        let gone = || Refusal::new(ErrorCode::ShuttingDown, "the door is closing; connect to another node");
        answered.await.unwrap_or_else(|_| Err(gone()))
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

    /// What goes next, if there is room for one more call.
    fn next(&self, writes: bool) -> Option<Vec<Submission>> {
        let queue = self.queue(writes);
        if queue.under_way.get() >= CALLS_UNDER_WAY {
            return None;
        }
        let mut waiting = queue.waiting.borrow_mut();
        let first = waiting.pop_front()?;
        let (mut commands, mut bytes) = (first.commands.len(), first.bytes);
        let mut group = vec![first];
        let mut others = VecDeque::new();
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
        queue.under_way.set(queue.under_way.get() + 1);
        Some(group)
    }

    async fn send(self: Rc<Self>, group: Vec<Submission>, writes: bool) {
        self.carry(group).await;
        let queue = self.queue(writes);
        queue.under_way.set(queue.under_way.get() - 1);
        self.wake.notify_one();
    }

    async fn carry(&self, mut group: Vec<Submission>) {
        let (session, levels) = (group[0].session.clone(), group[0].levels);
        let counts: Vec<usize> = group.iter().map(|submission| submission.commands.len()).collect();
        let alone = group.len() == 1;
        // Kept where each may have to be asked for alone.
        let all: Vec<RedisCommand> = if alone {
            std::mem::take(&mut group[0].commands)
        } else {
            group.iter().flat_map(|submission| submission.commands.iter().cloned()).collect()
        };
        match self.ask(&session, levels, all).await {
            Ok(replies) => {
                let mut replies = replies.into_iter();
                for (submission, count) in group.into_iter().zip(counts) {
                    let _ = submission.answer.send(Ok(replies.by_ref().take(count).collect()));
                }
            }
            Err(refusal) if !alone && refusal.kind() == ErrorKind::Forbidden => {
                for submission in group {
                    let answer = self.ask(&session, levels, submission.commands).await;
                    let _ = submission.answer.send(answer);
                }
            }
            Err(refusal) => {
                for submission in group {
                    let _ = submission.answer.send(Err(refusal.clone()));
                }
            }
        }
    }

    async fn ask(&self, session: &Session, levels: Levels, commands: Vec<RedisCommand>) -> Gathered {
        self.calls.set(self.calls.get() + 1);
        let count = commands.len();
        let ask = RedisAsk::Commands { commands };
        let call = RedisCall { unix_ms: self.database.unix_ms(), seed: self.database.random(), ask };
        match self.database.call(session, call, levels).await? {
            RedisAnswer::Replies { replies } if replies.len() == count => Ok(replies),
            _ => Err(Refusal::new(ErrorCode::Internal, "commands were answered by something else; report it")),
        }
    }
}

/// The refusal where there is no session.
pub fn no_session() -> Refusal {
    Refusal::new(ErrorCode::Unauthenticated, crate::error::NO_AUTH)
}

#[cfg(test)]
mod tests;
