//! How many connections a door has open.

use super::shares::{Bounds, Shares, Source};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The connections of one door, on all threads.
#[derive(Debug)]
pub struct Connections {
    shares: Mutex<Shares>,
    bounds: Bounds,
}

/// A connection, counted while this lives.
#[derive(Debug)]
pub struct Connection {
    of: Arc<Connections>,
    source: Source,
}

impl Connections {
    /// Room for so many.
    pub fn new(max: usize) -> Arc<Connections> {
        Arc::new(Connections { shares: Mutex::default(), bounds: Bounds::leaving_a_quarter(max) })
    }

    /// Counts a connection; `None` where there is no room, or its source has its share.
    pub fn admit(self: &Arc<Self>, from: IpAddr) -> Option<Connection> {
        let source = Source::from(from);
        let admitted = self.lock().take(source, 1, self.bounds);
        admitted.then(|| Connection { of: self.clone(), source })
    }

    /// How many are open.
    pub fn open(&self) -> usize {
        self.lock().total()
    }

    /// The most there may be.
    pub fn max(&self) -> usize {
        self.bounds.all
    }

    fn lock(&self) -> MutexGuard<'_, Shares> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner) // Counts are whole between two statements.
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.of.lock().give(self.source, 1);
    }
}
