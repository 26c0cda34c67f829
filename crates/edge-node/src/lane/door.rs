//! A lane as the connections of its thread see it: events in, replies out.
//!
//! Always: single-threaded (Rc, no locks); what waits is bounded by the requests in hand and by peers' readers that wait for
//! room. Peers come before clients in a turn (decision 0047): what was begun, and who leads, does not wait for what has not
//! begun. Clients get a part of each turn all the same.
//! Held by: `peers_come_before_clients_each_in_order`, `clients_keep_their_part_of_a_turn`.
//! Not here: other threads (they use the lane's mailbox).

use super::latency::Latency;
use super::slow;
use super::tickets::{Tickets, REQUESTS_MAX};
use crate::clock::Clock;
use base_types::action::{Request, Response};
use base_types::{ErrorCode, LaneId, Refusal, Tick, Ticket};
use core_node::api::{Event, Spent};
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
/// This part of a turn is the clients' however many frames wait: an eighth.
const CLIENTS_SHARE: usize = 8;

/// Clients' requests that wait for a turn, and that they went away after theirs.
#[derive(Default)]
struct Waiting {
    /// `None`: its client went away before its turn. Begins with none of those.
    events: VecDeque<Option<Event>>,
    /// The number of the first.
    first: u64,
}

impl Waiting {
    /// Its number.
    fn push(&mut self, event: Event) -> u64 {
        self.events.push_back(Some(event));
        self.first + self.events.len() as u64 - 1
    }

    /// Takes a request out, with the memory it holds. `false`: its turn has been.
    fn withdraw(&mut self, number: u64) -> bool {
        let Some(at) = number.checked_sub(self.first) else { return false };
        let Some(event) = self.events.get_mut(at as usize) else { return false };
        *event = None;
        self.trim();
        true
    }

    fn pop(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        self.first += 1;
        self.trim();
        event
    }

    fn trim(&mut self) {
        while let Some(None) = self.events.front() {
            self.events.pop_front();
            self.first += 1;
        }
    }
}

/// A lane's face on its own thread.
pub struct LaneDoor {
    pub lane: LaneId,
    clock: Clock,
    pub tickets: Tickets,
    /// From peers, and from this thread itself.
    frames: RefCell<VecDeque<Event>>,
    requests: RefCell<Waiting>,
    waker: Cell<Option<Waker>>,
    /// Mail of this lane waits for another: no new client request is taken.
    congested: Cell<bool>,
    closed: Cell<bool>,
    changed: Notify,
    latencies: RefCell<BTreeMap<&'static str, Latency>>,
}

impl LaneDoor {
    /// Of this lane.
    pub fn new(lane: LaneId, clock: Clock) -> Rc<LaneDoor> {
        Rc::new(LaneDoor {
            lane,
            clock,
            tickets: Tickets::default(),
            frames: RefCell::default(),
            requests: RefCell::default(),
            waker: Cell::new(None),
            congested: Cell::new(false),
            closed: Cell::new(false),
            changed: Notify::new(),
            latencies: RefCell::default(),
        })
    }

    /// An event for the next turn.
    pub fn push(&self, event: Event) {
        self.frames.borrow_mut().push_back(event);
        self.wake();
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Waits while too many frames wait.
    pub async fn room(&self) {
        while self.frames.borrow().len() >= FRAMES_WAITING_MAX && !self.closed.get() {
            self.changed.notified().await;
        }
    }

    /// Asks the core; its answer, or a refusal where it cannot be asked.
    pub async fn ask(self: Rc<Self>, mut request: Request) -> Response {
        crate::chance::draw_secrets(&mut request)?;
        // What it waits for from here on counts.
        let asked = self.clock.now();
        while self.congested.get() && !self.closed.get() {
            self.changed.notified().await;
        }
        if self.closed.get() {
            let message = "this node is stopping; ask another";
            return Err(Refusal::new(ErrorCode::ShuttingDown, message).into());
        }
        // Places of clients that went away are counted with the others, until their turn comes.
        let ticket = self.tickets.take().filter(|ticket| {
            let has_room = self.requests.borrow().events.len() < REQUESTS_MAX;
            if !has_room {
                self.tickets.give_back(*ticket);
            }
            has_room
        });
        let Some(ticket) = ticket else {
            let message = format!("{REQUESTS_MAX} requests are under way on this core; back off and retry");
            return Err(Refusal::new(ErrorCode::Overloaded, message).into());
        };
        let (action, begun) = (request.action.name(), Instant::now());
        let number = self.requests.borrow_mut().push(Event::Request { ticket, asked, request });
        self.wake();
        let response = Pending { door: &self, ticket, number, asked: (action, asked), answered: false }.await;
        self.latencies.borrow_mut().entry(action).or_default().record(begun.elapsed());
        response
    }

    /// Whether events wait; wakes `context` when one comes.
    pub fn poll_events(&self, context: &mut Context<'_>) -> Poll<()> {
        if !self.frames.borrow().is_empty() || !self.requests.borrow().events.is_empty() {
            return Poll::Ready(());
        }
        let waker = match self.waker.take() {
            Some(waker) if waker.will_wake(context.waker()) => waker,
            _ => context.waker().clone(),
        };
        self.waker.set(Some(waker));
        Poll::Pending
    }

    /// Moves up to `count` events into `batch`: frames first.
    pub fn take_events(&self, count: usize, batch: &mut Vec<Event>) {
        let (mut frames, mut requests) = (self.frames.borrow_mut(), self.requests.borrow_mut());
        let was_full = frames.len() >= FRAMES_WAITING_MAX;
        let kept = requests.events.len().min(count / CLIENTS_SHARE);
        let first = frames.len().min(count - kept);
        batch.extend(frames.drain(..first));
        batch.extend(std::iter::from_fn(|| requests.pop()).take(count - first));
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

    /// The lane has ended: those who wait learn it.
    pub fn close(&self) {
        self.closed.set(true);
        self.changed.notify_waiters();
    }

    /// Latencies by action.
    pub fn latencies(&self) -> Vec<(&'static str, Latency)> {
        self.latencies.borrow().iter().map(|(action, latency)| (*action, latency.clone())).collect()
    }
}

/// A request under way. Dropped before its answer (the client went away): the core never sees it, or gets a `Cancel`.
struct Pending<'a> {
    door: &'a LaneDoor,
    ticket: Ticket,
    /// Its place among those that wait.
    number: u64,
    /// What, and since when.
    asked: (&'static str, Tick),
    answered: bool,
}

impl Future for Pending<'_> {
    type Output = Response;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Response> {
        let answer = self.door.tickets.poll(self.ticket, context);
        self.answered |= answer.is_ready();
        if let (Poll::Ready(response), Some(spent)) = (&answer, self.take_spent_if(answer.is_ready())) {
            let (action, since) = self.asked;
            slow::log(action, self.door.clock.now().since(since), &spent, response);
        }
        answer
    }
}

impl Pending<'_> {
    fn take_spent_if(&self, answered: bool) -> Option<Box<Spent>> {
        answered.then(|| self.door.tickets.take_spent(self.ticket)).flatten()
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if !self.answered {
            let mut requests = self.door.requests.borrow_mut();
            if !requests.withdraw(self.number) {
                requests.push(Event::Cancel { ticket: self.ticket });
                drop(requests);
                self.door.wake();
            }
        }
        self.door.tickets.give_back(self.ticket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base_types::action::Action;
    use base_types::NodeId;
    use bytes::Bytes;
    use std::time::Duration;

    fn numbers(batch: &[Event]) -> Vec<u64> {
        let number = |event: &Event| match event {
            Event::Frame { from, .. } => from.0,
            Event::Cancel { ticket } => 100 + ticket.0,
            other => panic!("{other:?}"),
        };
        batch.iter().map(number).collect()
    }

    fn door(frames: u64, requests: u64) -> Rc<LaneDoor> {
        let door = LaneDoor::new(LaneId(0), Clock::start());
        (0..requests).for_each(|number| {
            door.requests.borrow_mut().push(Event::Cancel { ticket: Ticket(number) });
        });
        (0..frames).for_each(|number| door.push(Event::Frame { from: NodeId(number), frame: Bytes::new() }));
        door
    }

    #[test]
    fn peers_come_before_clients_each_in_order() {
        let mut batch = Vec::new();
        door(3, 4).take_events(6, &mut batch);
        assert_eq!(numbers(&batch), [0, 1, 2, 100, 101, 102]);
    }

    #[test]
    fn clients_keep_their_part_of_a_turn() {
        let (door, mut batch) = (door(100, 100), Vec::new());
        door.take_events(16, &mut batch);
        assert_eq!(numbers(&batch), (0..14).chain([100, 101]).collect::<Vec<_>>());
        batch.clear();
        door.take_events(184, &mut batch);
        assert_eq!(batch.len(), 184, "none is left out");
        batch.clear();
        door.take_events(16, &mut batch);
        assert!(batch.is_empty(), "none is there twice");
    }

    fn status() -> Request {
        Request {
            action: Action::Status,
            consistency: None,
            read_consistency: None,
            deadline: Duration::from_secs(1),
            request_id: None,
            after: None,
            expected_bucket_owner: None,
            caller: base_types::access::Caller::Node,
        }
    }

    /// A request that a client waits for; dropped, the client has gone away.
    fn asks(door: &Rc<LaneDoor>) -> Pin<Box<dyn Future<Output = Response>>> {
        let mut asked = Box::pin(door.clone().ask(status()));
        let _ = asked.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        asked
    }

    #[test]
    fn request_withdrawn_before_its_turn_leaves_nothing() {
        let (door, mut batch) = (door(0, 0), Vec::new());
        let mut clients: Vec<_> = (0..4).map(|_| asks(&door)).collect();
        // One in the middle, then the first.
        drop(clients.remove(1));
        drop(clients.remove(0));
        assert_eq!(door.requests.borrow().events.len(), 2, "both places are free again");
        drop(clients.remove(1));
        door.take_events(1, &mut batch);
        assert!(matches!(batch[..], [Event::Request { .. }]));
        batch.clear();
        door.take_events(9, &mut batch);
        assert!(batch.is_empty(), "{batch:?}");
        drop(clients);
        door.take_events(9, &mut batch);
        assert!(matches!(batch[..], [Event::Cancel { .. }]), "its turn has been: the core hears of it");
        assert_eq!(door.tickets.in_use(), 0);
    }

    #[test]
    fn places_of_withdrawn_requests_are_bounded() {
        let door = door(0, 0);
        let waits = asks(&door);
        for _ in 1..REQUESTS_MAX {
            drop(asks(&door));
        }
        assert_eq!(door.requests.borrow().events.len(), REQUESTS_MAX);
        match Box::pin(door.clone().ask(status())).as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Err(failure)) => assert_eq!(failure.refusal.code.as_str(), "Overloaded"),
            other => panic!("{other:?}"),
        }
        assert_eq!(door.tickets.in_use(), 1, "a refusal gives its ticket back");
        drop(waits);
        assert!(door.requests.borrow().events.is_empty());
    }
}
