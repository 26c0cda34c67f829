//! Memory of requests that have come halfway, on the whole node.

use super::shares::{Bounds, Shares, Source};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of unfinished heads and bodies.
#[derive(Debug)]
pub struct Bytes {
    shares: Mutex<Shares>,
    bounds: Bounds,
}

/// What one request holds; given back when this is dropped.
#[derive(Debug)]
pub struct HeldBytes {
    of: Arc<Bytes>,
    source: Source,
    held: usize,
}

impl Bytes {
    /// At most so many.
    pub fn new(max: usize) -> Arc<Bytes> {
        Arc::new(Bytes { shares: Mutex::default(), bounds: Bounds::leaving_a_quarter(max) })
    }

    /// A holder that holds nothing yet.
    pub fn holder(self: &Arc<Self>, from: IpAddr) -> HeldBytes {
        HeldBytes { of: self.clone(), source: from.into(), held: 0 }
    }

    /// How many are held.
    pub fn held(&self) -> usize {
        self.lock().total()
    }

    fn lock(&self) -> MutexGuard<'_, Shares> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner) // Counts are whole between two statements.
    }
}

impl HeldBytes {
    /// Holds so many more; `false`, and no more than before, where there is no room.
    #[must_use]
    pub fn grow(&mut self, bytes: usize) -> bool {
        let grown = self.of.lock().take(self.source, bytes, self.of.bounds);
        if grown {
            self.held += bytes;
        }
        grown
    }

    /// Gives everything back.
    pub fn release(&mut self) {
        if self.held > 0 {
            self.of.lock().give(self.source, std::mem::take(&mut self.held));
        }
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.release();
    }
}
