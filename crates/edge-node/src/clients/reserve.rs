//! Connections kept for operators: `/health`, `/ready`, `/metrics` and administration are answered while clients' connections
//! take all the room there is.
//!
//! Always: a newcomer gets a place unless all are being answered; the one that makes way has waited longest, of the source that
//! has the most; one source is answered `ANSWERED_PER_SOURCE_MAX` times at a time.
//! Held by: `the_flood_makes_way_and_not_the_others`, `those_that_are_answered_stay`.
//! Not here: which requests are an operator's (`http::routes`).

use super::shares::Source;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Places.
pub const PLACES_MAX: usize = 64;
/// Of them, answered at a time for one source.
pub const ANSWERED_PER_SOURCE_MAX: usize = 16;
/// How long a head, a body or a taker of an answer may keep such a place waiting.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// The places, on all threads.
#[derive(Debug, Default)]
pub struct Reserve {
    slots: Mutex<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    next: u64,
    /// The one that came first is first.
    taken: Vec<Slot>,
}

#[derive(Debug)]
struct Slot {
    id: u64,
    source: Source,
    answered: bool,
    leave: Arc<Notify>,
}

/// A place, given back when this is dropped.
#[derive(Debug)]
pub struct Place {
    of: Arc<Reserve>,
    id: u64,
    source: Source,
    leave: Arc<Notify>,
}

impl Reserve {
    /// All places free.
    pub fn new() -> Arc<Reserve> {
        Arc::default()
    }

    /// A place; where all are taken, that of a connection whose request has not come yet.
    pub fn enter(self: &Arc<Self>, from: IpAddr) -> Option<Place> {
        let source = Source::from(from);
        let mut slots = self.lock();
        if slots.taken.len() >= PLACES_MAX {
            let oldest = slots.who_makes_way()?;
            slots.taken.remove(oldest).leave.notify_one();
        }
        let (id, leave) = (slots.next, Arc::new(Notify::new()));
        slots.next += 1;
        slots.taken.push(Slot { id, source, answered: false, leave: leave.clone() });
        Some(Place { of: self.clone(), id, source, leave })
    }

    /// How many are taken.
    pub fn open(&self) -> usize {
        self.lock().taken.len()
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner) // Every change is one statement.
    }
}

impl Slots {
    fn who_makes_way(&self) -> Option<usize> {
        let waiting = |slot: &&Slot| !slot.answered;
        let of = |source: Source| self.taken.iter().filter(waiting).filter(|slot| slot.source == source).count();
        let most = self.taken.iter().filter(waiting).map(|slot| of(slot.source)).max()?;
        self.taken.iter().position(|slot| waiting(&slot) && of(slot.source) == most)
    }
}

impl Place {
    /// Its request has come and is answered from now on; `false` where its source has its share of that.
    #[must_use]
    pub fn answer(&self) -> bool {
        let mut slots = self.of.lock();
        let answered = slots.taken.iter().filter(|slot| slot.answered && slot.source == self.source).count();
        let Some(own) = slots.taken.iter_mut().find(|slot| slot.id == self.id) else { return false };
        own.answered = answered < ANSWERED_PER_SOURCE_MAX;
        own.answered
    }

    /// Ends when the place is another's.
    pub async fn lost(&self) {
        self.leave.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.of.lock().taken.retain(|slot| slot.id != self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOOD: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    #[test]
    fn the_flood_makes_way_and_not_the_others() {
        let reserve = Reserve::new();
        let early = reserve.enter(OTHER).unwrap();
        let flood: Vec<Place> = (0..PLACES_MAX * 3).filter_map(|_| reserve.enter(FLOOD)).collect();
        assert_eq!((flood.len(), reserve.open()), (PLACES_MAX * 3, PLACES_MAX));
        assert!(early.answer(), "it was there first and kept its place");
        let late = reserve.enter(OTHER).unwrap();
        assert!(late.answer());
        let answered = flood.iter().filter(|place| place.answer()).count();
        assert_eq!(answered, ANSWERED_PER_SOURCE_MAX);
        drop((early, late, flood));
        assert_eq!(reserve.open(), 0);
    }

    #[test]
    fn those_that_are_answered_stay() {
        let reserve = Reserve::new();
        let source = |number: usize| IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 1, number as u8));
        let answered: Vec<Place> = (0..PLACES_MAX).map(|at| reserve.enter(source(at / 16)).unwrap()).collect();
        assert!(answered.iter().all(Place::answer));
        assert!(reserve.enter(OTHER).is_none());
    }
}
