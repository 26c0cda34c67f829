//! The connections of a thread's door: what `CLIENT LIST` shows of them, and how one is ended or woken from outside.
//!
//! By design: numbers are of the whole process and never given twice; a connection is in the table while it lives.
//! Not here: what a connection does.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tokio::sync::Notify;

/// The last number that a connection was given.
static LAST: AtomicU64 = AtomicU64::new(0);

/// Why a client stops waiting for a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unblock {
    /// As when the time runs out.
    Timeout,
    /// With an error.
    Error,
}

/// What others see of a connection, and do to it.
#[derive(Debug)]
pub struct Shown {
    /// Its number.
    pub id: u64,
    /// The client's address.
    pub address: String,
    /// Since when.
    pub began: Instant,
    /// What `CLIENT SETNAME` gave it.
    pub name: RefCell<Vec<u8>>,
    /// Who.
    pub user: RefCell<String>,
    /// The database.
    pub database: Cell<u8>,
    /// When it last asked.
    pub active: Cell<Instant>,
    /// What it last asked.
    pub command: Cell<&'static str>,
    /// 2 or 3.
    pub protocol: Cell<u8>,
    /// Channels and patterns.
    pub subscriptions: Cell<(usize, usize)>,
    /// Commands that MULTI has queued, while there is one.
    pub queued: Cell<Option<usize>>,
    /// Whether it waits for a key.
    pub blocked: Cell<bool>,
    /// It is to end.
    pub killed: Cell<bool>,
    /// What ends its waiting.
    pub unblock: Cell<Option<Unblock>>,
    /// Wakes it for `killed` and `unblock`.
    pub wake: Notify,
}

impl Shown {
    /// Ends the connection, once it is polled.
    pub fn kill(&self) {
        self.killed.set(true);
        self.wake.notify_one();
    }

    /// Ends its waiting; false: it does not wait.
    pub fn end_waiting(&self, how: Unblock) -> bool {
        if self.blocked.get() {
            self.unblock.set(Some(how));
            self.wake.notify_one();
        }
        self.blocked.get()
    }

    /// As `CLIENT LIST` has it.
    pub fn line(&self) -> String {
        let flags = match (self.queued.get(), self.blocked.get(), self.subscriptions.get()) {
            (Some(_), ..) => "x",
            (_, true, _) => "b",
            (_, _, (0, 0)) => "N",
            _ => "P",
        };
        let (channels, patterns) = self.subscriptions.get();
        format!(
            "id={} addr={} laddr= fd=0 name={} age={} idle={} flags={flags} db={} sub={channels} psub={patterns} ssub=0 multi={} cmd={} user={} resp={}",
            self.id,
            self.address,
            String::from_utf8_lossy(&self.name.borrow()),
            self.began.elapsed().as_secs(),
            self.active.get().elapsed().as_secs(),
            self.database.get(),
            self.queued.get().map_or(-1, |queued| queued as i64),
            self.command.get(),
            self.user.borrow(),
            self.protocol.get(),
        )
    }
}

/// All connections of a thread.
#[derive(Debug, Default)]
pub struct Clients(RefCell<BTreeMap<u64, Rc<Shown>>>);

/// A connection's place in the table; it ends with this.
#[derive(Debug)]
pub struct Entry {
    clients: Rc<Clients>,
    /// What is shown of it.
    pub shown: Rc<Shown>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.clients.0.borrow_mut().remove(&self.shown.id);
    }
}

impl Clients {
    /// A new connection.
    pub fn enter(self: &Rc<Self>, address: String) -> Entry {
        let now = Instant::now();
        let shown = Rc::new(Shown {
            id: LAST.fetch_add(1, Ordering::Relaxed) + 1,
            address,
            began: now,
            name: RefCell::default(),
            user: RefCell::new("default".into()),
            database: Cell::new(0),
            active: Cell::new(now),
            command: Cell::new("NULL"),
            protocol: Cell::new(2),
            subscriptions: Cell::new((0, 0)),
            queued: Cell::new(None),
            blocked: Cell::new(false),
            killed: Cell::new(false),
            unblock: Cell::new(None),
            wake: Notify::new(),
        });
        self.0.borrow_mut().insert(shown.id, shown.clone());
        Entry { clients: self.clone(), shown }
    }

    /// All, by number.
    pub fn all(&self) -> Vec<Rc<Shown>> {
        self.0.borrow().values().cloned().collect()
    }

    /// One.
    pub fn get(&self, id: u64) -> Option<Rc<Shown>> {
        self.0.borrow().get(&id).cloned()
    }

    /// How many there are, and how many of them wait for a key.
    pub fn counts(&self) -> (usize, usize) {
        let all = self.0.borrow();
        (all.len(), all.values().filter(|shown| shown.blocked.get()).count())
    }
}
