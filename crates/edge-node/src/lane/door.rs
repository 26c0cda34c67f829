//! A lane as the connections of its thread see it: events in, replies out.
//!
//! Always: single-threaded (Rc, no locks); the inbox is bounded by the requests in hand and by peers'
//! readers that wait for room.
//! Not here: other threads (they use the lane's mailbox).

use super::latency::Latency;
use super::tickets::{Tickets, REQUESTS_MAX};
use base_types::action::{Request, Response};
use base_types::{ErrorKind, LaneId, Refusal, Ticket};
use core_node::api::Event;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;
use tokio::sync::Notify;

/// Frames of peers that may wait for a turn; their connections are not read while more do.
const FRAMES_WAITING_MAX: usize = 16_384;

/// A lane's face on its own thread.
pub struct LaneDoor {
    pub lane: LaneId,
    pub tickets: Tickets,
    inbox: RefCell<VecDeque<Event>>,
    waker: Cell<Option<Waker>>,
    /// Mail of this lane waits for another: no new client request is taken.
    congested: Cell<bool>,
    closed: Cell<bool>,
    changed: Notify,
    latencies: RefCell<BTreeMap<&'static str, Latency>>,
}

impl LaneDoor {
    /// Of this lane.
    pub fn new(lane: LaneId) -> Rc<LaneDoor> {
        Rc::new(LaneDoor {
            lane,
            tickets: Tickets::default(),
            inbox: RefCell::default(),
            waker: Cell::new(None),
            congested: Cell::new(false),
            closed: Cell::new(false),
            changed: Notify::new(),
            latencies: RefCell::default(),
        })
    }

    /// An event for the next turn.
    pub fn push(&self, event: Event) {
        self.inbox.borrow_mut().push_back(event);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Waits while too many frames wait.
    pub async fn room(&self) {
        while self.inbox.borrow().len() >= FRAMES_WAITING_MAX && !self.closed.get() {
            self.changed.notified().await;
        }
    }

    /// Asks the core; its answer, or a refusal where it cannot be asked.
    pub async fn ask(self: Rc<Self>, mut request: Request) -> Response {
        crate::chance::draw_secrets(&mut request)?;
        while self.congested.get() && !self.closed.get() {
            self.changed.notified().await;
        }
        if self.closed.get() {
            let message = "this node is stopping; ask another";
            return Err(Refusal::new(ErrorKind::Unavailable, "ShuttingDown", message).into());
        }
        let Some(ticket) = self.tickets.take() else {
            let message = format!("{REQUESTS_MAX} requests are under way on this core; wait and retry");
            return Err(Refusal::new(ErrorKind::Overloaded, "Overloaded", message).into());
        };
        let (action, asked) = (request.action.name(), Instant::now());
        self.push(Event::Request { ticket, request });
        let response = Pending { door: &self, ticket, answered: false }.await;
        self.latencies.borrow_mut().entry(action).or_default().record(asked.elapsed());
        response
    }

    /// Whether events wait; wakes `context` when one comes.
    pub fn poll_events(&self, context: &mut Context<'_>) -> Poll<()> {
        if !self.inbox.borrow().is_empty() {
            return Poll::Ready(());
        }
        let waker = match self.waker.take() {
            Some(waker) if waker.will_wake(context.waker()) => waker,
            _ => context.waker().clone(),
        };
        self.waker.set(Some(waker));
        Poll::Pending
    }

    /// Moves up to `count` events into `batch`.
    pub fn take_events(&self, count: usize, batch: &mut Vec<Event>) {
        let mut inbox = self.inbox.borrow_mut();
        let was_full = inbox.len() >= FRAMES_WAITING_MAX;
        let count = count.min(inbox.len());
        batch.extend(inbox.drain(..count));
        if was_full {
            self.changed.notify_waiters();
        }
    }

    /// Whether new client requests wait.
    pub fn set_congested(&self, congested: bool) {
        if self.congested.replace(congested) && !congested {
            self.changed.notify_waiters();
        }
    }

    /// The lane has ended: whoever waits is told so.
    pub fn close(&self) {
        self.closed.set(true);
        self.changed.notify_waiters();
    }

    /// Latencies by action.
    pub fn latencies(&self) -> Vec<(&'static str, Latency)> {
        self.latencies.borrow().iter().map(|(action, latency)| (*action, latency.clone())).collect()
    }
}

/// A request under way. Dropped before its answer (the client went away): the core is told.
struct Pending<'a> {
    door: &'a LaneDoor,
    ticket: Ticket,
    answered: bool,
}

impl Future for Pending<'_> {
    type Output = Response;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Response> {
        let answer = self.door.tickets.poll(self.ticket, context);
        self.answered |= answer.is_ready();
        answer
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.door.push(Event::Cancel { ticket: self.ticket });
        }
        self.door.tickets.give_back(self.ticket);
    }
}
