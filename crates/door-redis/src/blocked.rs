//! Clients of a thread that wait for a key, in the order in which they came.
//!
//! ```text
//!   key ─▶ first (asks the database, tries)  second (waits for its turn)  …
//! ```
//! Always: of clients that wait for the same key here, only the first tries to take from it; who leaves wakes who is first then.
//! Held by: `who_came_first_is_served_first`.
//! Not here: clients of other nodes, which try at the same time: the database gives an element once.

use crate::limits::BLOCKED_MAX;
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use tokio::sync::Notify;

/// A key, of a keyspace's database.
type Place = (Rc<str>, u8, Bytes);

/// The clients that wait for one key: numbers, and how each is woken.
type Line = VecDeque<(u64, Rc<Notify>)>;

/// All that wait.
#[derive(Default)]
pub struct Blocked {
    queues: RefCell<HashMap<Place, Line>>,
    last: Cell<u64>,
    waiting: Cell<usize>,
}

/// A client's place in the queues of its keys; it leaves them when this ends.
pub struct Ticket {
    blocked: Rc<Blocked>,
    number: u64,
    places: Vec<Place>,
    /// Told when it is first for one of its keys.
    pub turn: Rc<Notify>,
}

impl Blocked {
    /// The last place for each of these keys; `None`: too many wait.
    pub fn enter(self: &Rc<Self>, keyspace: &str, database: u8, keys: &[Bytes]) -> Option<Ticket> {
        if self.waiting.get() >= BLOCKED_MAX {
            return None;
        }
        self.waiting.set(self.waiting.get() + 1);
        self.last.set(self.last.get() + 1);
        let (number, turn, keyspace) = (self.last.get(), Rc::new(Notify::new()), Rc::from(keyspace));
        let mut places: Vec<Place> = keys.iter().map(|key| (Rc::clone(&keyspace), database, key.clone())).collect();
        places.sort();
        places.dedup();
        let mut queues = self.queues.borrow_mut();
        for place in &places {
            queues.entry(place.clone()).or_default().push_back((number, turn.clone()));
        }
        drop(queues);
        Some(Ticket { blocked: self.clone(), number, places, turn })
    }
}

impl Ticket {
    /// Whether it is first for this key.
    pub fn is_first(&self, key: &Bytes) -> bool {
        let Some(place) = self.places.iter().find(|place| place.2 == *key) else { return false };
        let queues = self.blocked.queues.borrow();
        queues.get(place).and_then(|queue| queue.front()).is_some_and(|(number, _)| *number == self.number)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.blocked.waiting.set(self.blocked.waiting.get() - 1);
        let mut queues = self.blocked.queues.borrow_mut();
        for place in &self.places {
            let Some(queue) = queues.get_mut(place) else { continue };
            let was_first = queue.front().is_some_and(|(number, _)| *number == self.number);
            queue.retain(|(number, _)| *number != self.number);
            match queue.front() {
                None => drop(queues.remove(place)),
                Some((_, turn)) if was_first => turn.notify_one(),
                Some(_) => {}
            }
        }
    }
}
