//! A bounded mailbox: many senders on any thread, one receiver (a lane).
//!
//! ```text
//!  try_send ── full ──▶ back to the caller        ┌─────────────┐
//!  send, send_blocking ── full ──▶ wait in line ─▶│ letters ≤ n │─ poll_take ─▶ a turn's events
//!                                                 └─────────────┘
//! ```
//!
//! By design: a letter accepted is taken once, unless the receiver closes; letters of one sender keep
//! their order; never more than the bound wait; those who wait for room are served in the order of
//! asking, nobody overtakes the line; closing wakes everybody. One lock, held for a few moves; wakers
//! are called outside it.
//! Not here: what a full mailbox means (lane.rs), single-threaded doors (lane/door.rs).
//! Proved by: `tests/mailbox_model.rs`, this file under shuttle's scheduler. Why not tokio's channel:
//! its code cannot run there, and a turn here takes all its letters under one lock.

use super::sync::{thread, Arc, Mutex, MutexGuard};
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::{pin, Pin};
use std::task::{Context, Poll, Wake, Waker};

/// Why a letter was not taken; it comes back.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused<T> {
    /// No room just now, or others wait in line for it.
    Full(T),
    /// The receiver has ended.
    Closed(T),
}

struct Letters<T> {
    list: VecDeque<T>,
    bound: usize,
    closed: bool,
    /// The receiver, while it waits.
    receiver: Option<Waker>,
    /// The line of those who wait for room, by the number they drew.
    line: BTreeMap<u64, Waker>,
    next_number: u64,
}

impl<T> Letters<T> {
    fn has_room(&self) -> bool {
        self.list.len() < self.bound
    }

    /// The first in line, if there is room for it.
    fn next_in_line(&self) -> Option<Waker> {
        self.line.values().next().filter(|_| self.has_room() || self.closed).cloned()
    }
}

struct Shared<T>(Mutex<Letters<T>>);

impl<T> Shared<T> {
    /// Nothing in here panics while it holds the lock: a poisoned one is as good as new.
    fn lock(&self) -> MutexGuard<'_, Letters<T>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Makes a mailbox in which at most `bound` letters wait.
pub fn mailbox<T>(bound: usize) -> (Sender<T>, Receiver<T>) {
    assert!(bound > 0, "a mailbox holds at least one letter");
    let letters =
        Letters { list: VecDeque::new(), bound, closed: false, receiver: None, line: BTreeMap::new(), next_number: 0 };
    let shared = Arc::new(Shared(Mutex::new(letters)));
    (Sender { shared: shared.clone() }, Receiver { shared })
}

/// One of many senders.
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Sender { shared: self.shared.clone() }
    }
}

impl<T> Sender<T> {
    /// Sends if there is room and nobody waits for it.
    pub fn try_send(&self, letter: T) -> Result<(), Refused<T>> {
        let mut letters = self.shared.lock();
        if letters.closed {
            return Err(Refused::Closed(letter));
        }
        if !letters.has_room() || !letters.line.is_empty() {
            return Err(Refused::Full(letter));
        }
        letters.list.push_back(letter);
        let receiver = letters.receiver.take();
        drop(letters);
        wake(receiver);
        Ok(())
    }

    /// Sends when it is this sender's turn; the letter comes back where the receiver has ended.
    pub fn send(&self, letter: T) -> Sending<'_, T> {
        Sending { shared: &self.shared, letter: Some(letter), number: None }
    }

    /// As `send`, for threads.
    pub fn send_blocking(&self, letter: T) -> Result<(), T>
    where
        T: Unpin,
    {
        block_on(self.send(letter))
    }
}

/// A letter on its way; dropped before its end, it leaves the line.
pub struct Sending<'a, T> {
    shared: &'a Shared<T>,
    letter: Option<T>,
    number: Option<u64>,
}

impl<T: Unpin> Future for Sending<'_, T> {
    type Output = Result<(), T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let mut letters = this.shared.lock();
        let Some(letter) = this.letter.take() else { return Poll::Pending };
        if letters.closed {
            return Poll::Ready(Err(letter));
        }
        let first = match this.number {
            None => letters.line.is_empty(),
            Some(number) => letters.line.keys().next() == Some(&number),
        };
        if !first || !letters.has_room() {
            this.letter = Some(letter);
            let number = *this.number.get_or_insert_with(|| {
                letters.next_number += 1;
                letters.next_number
            });
            letters.line.insert(number, context.waker().clone());
            return Poll::Pending;
        }
        letters.list.push_back(letter);
        if let Some(number) = this.number.take() {
            letters.line.remove(&number);
        }
        let (receiver, next) = (letters.receiver.take(), letters.next_in_line());
        drop(letters);
        wake(receiver);
        wake(next);
        Poll::Ready(Ok(()))
    }
}

impl<T> Drop for Sending<'_, T> {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let mut letters = self.shared.lock();
        letters.line.remove(&number);
        // It may have been its turn: the next is woken instead.
        let next = letters.next_in_line();
        drop(letters);
        wake(next);
    }
}

/// The one receiver.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Receiver<T> {
    /// Takes up to `count` letters; ready with none where the mailbox is closed.
    pub fn poll_take(&mut self, context: &mut Context<'_>, into: &mut Vec<T>, count: usize) -> Poll<()> {
        let mut letters = self.shared.lock();
        if letters.list.is_empty() {
            if letters.closed {
                return Poll::Ready(());
            }
            if !letters.receiver.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
                letters.receiver = Some(context.waker().clone());
            }
            return Poll::Pending;
        }
        let count = count.min(letters.list.len());
        into.extend(letters.list.drain(..count));
        let next = letters.next_in_line();
        drop(letters);
        wake(next);
        Poll::Ready(())
    }

    /// Nothing is taken any more: what waits is dropped, those who wait learn it.
    pub fn close(&mut self) {
        let mut letters = self.shared.lock();
        letters.closed = true;
        let (list, line) = (std::mem::take(&mut letters.list), std::mem::take(&mut letters.line));
        drop(letters);
        drop(list);
        line.into_values().for_each(Waker::wake);
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.close();
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(std::sync::Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        thread::park();
    }
}

/// Letters of one lane to its mates, kept in order while a mailbox is full.
pub struct Outgoing<T> {
    mates: Vec<Sender<T>>,
    kept: VecDeque<(usize, T)>,
    kept_max: usize,
}

impl<T> Outgoing<T> {
    /// To these mates; at most `kept_max` letters are kept back.
    pub fn new(mates: Vec<Sender<T>>, kept_max: usize) -> Outgoing<T> {
        Outgoing { mates, kept: VecDeque::new(), kept_max }
    }

    /// How many mates there are.
    pub fn mates(&self) -> usize {
        self.mates.len()
    }

    /// Whether letters are kept back.
    pub fn is_congested(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Sends, behind all that is kept back. False: more is kept back than may be, the mate hangs.
    pub fn send(&mut self, to: usize, letter: T) -> bool {
        self.kept.push_back((to, letter));
        self.send_kept();
        self.kept.len() <= self.kept_max
    }

    /// In order, as far as there is room. A mate that has ended is written to no more.
    pub fn send_kept(&mut self) {
        while let Some((to, letter)) = self.kept.pop_front() {
            if let Err(Refused::Full(letter)) = self.mates[to].try_send(letter) {
                self.kept.push_front((to, letter));
                return;
            }
        }
    }
}
