//! Lua: what a script runs in, without a connection and without a database.
//!
//! ```text
//!   source, KEYS, ARGV ─▶ a thread (`pool.rs`) ─▶ a state of Lua (`machine.rs`) with its libraries ─▶ values and replies (`values.rs`)
//! ```
//! By design: `redis.call` is a function that the caller gives.
//! Not here: what it does (`script/`).

pub(crate) mod kept;
mod libraries;
pub(crate) mod limits;
pub(crate) mod machine;
pub(crate) mod pool;
mod share;
mod turns;
mod values;

pub(crate) use libraries::{digest_of, sha1_of};

use crate::database::Session;
use crate::request::Words;
use bytes::Bytes;
use limits::{REMEMBERED_BYTES_MAX, REMEMBERED_FOR};
use machine::{Stop, Why};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// What the scripts of a thread share.
#[derive(Default)]
pub(crate) struct Scripts {
    pub remembered: Remembered,
    pub libraries: kept::RememberedLibraries,
    pub turns: Rc<turns::Turns>,
    running: RefCell<Vec<Running>>,
}

/// A script that runs.
struct Running {
    session: Rc<Session>,
    stop: Weak<Stop>,
    since: Instant,
    /// FCALL's words, where it is a function.
    function: Option<Words>,
}

impl Scripts {
    /// A script begins to run for a user. `function`: the words of FCALL.
    pub fn began(&self, session: &Rc<Session>, stop: &Arc<Stop>, function: Option<Words>) {
        let mut running = self.running.borrow_mut();
        running.retain(|own| own.stop.strong_count() > 0);
        let (session, stop) = (session.clone(), Arc::downgrade(stop));
        running.push(Running { session, stop, since: Instant::now(), function });
    }

    /// Stops a user's scripts in its keyspace, or its functions; false: none runs.
    pub fn kill(&self, session: &Session, functions: bool) -> bool {
        let running = self.running.borrow();
        let own = running.iter().filter(|own| *own.session == *session && own.function.is_some() == functions);
        let stops = own.filter_map(|own| own.stop.upgrade()).filter(|stop| stop.why() == Why::Runs);
        stops.map(|stop| stop.set(Why::Killed)).count() > 0
    }

    /// The function that has run the longest for a user in its keyspace: FCALL's words, and for how long.
    pub fn running_function(&self, session: &Session) -> Option<(Words, Duration)> {
        let running = self.running.borrow();
        let own = running.iter().filter(|own| *own.session == *session && own.stop.strong_count() > 0);
        own.filter_map(|own| Some((own.function.clone()?, own.since.elapsed()))).max_by_key(|(_, took)| *took)
    }
}

/// A keyspace and the name of a script.
type Place = (String, String);

/// What a thread of the door remembers.
#[derive(Default)]
pub(crate) struct Remembered {
    sources: RefCell<HashMap<Place, (Instant, Bytes)>>,
}

impl Remembered {
    pub fn get(&self, place: &Place) -> Option<Bytes> {
        let sources = self.sources.borrow();
        let (since, source) = sources.get(place)?;
        (since.elapsed() < REMEMBERED_FOR).then(|| source.clone())
    }

    pub fn put(&self, place: Place, source: &Bytes) {
        let mut sources = self.sources.borrow_mut();
        let bytes: usize = sources.values().map(|(_, source)| source.len() + 128).sum();
        if bytes + source.len() > REMEMBERED_BYTES_MAX {
            sources.clear();
        }
        // A copy of its own: the words of a command share the bytes of others.
        sources.insert(place, (Instant::now(), Bytes::copy_from_slice(source)));
    }

    pub fn forget(&self, keyspace: &str) {
        self.sources.borrow_mut().retain(|(own, _), _| own != keyspace);
    }
}
