//! TLS handshakes under way on one thread, shared out before they cost anything.
//!
//! Always: at most `bounds.all` at a time, of one source `bounds.one`; the others wait in the order of their own
//! source, and sources take turns, so that a flood of one keeps no other out.
//! Held by: `flood_of_one_source_keeps_no_other_waiting`.
//! Not here: how long a handshake or a wait may take.

use super::shares::{Bounds, Shares, Source};
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::rc::Rc;
use tokio::sync::oneshot;

/// The places.
pub struct Handshakes {
    bounds: Bounds,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    taken: Shares,
    waiting: HashMap<Source, VecDeque<oneshot::Sender<Handshake>>>,
    /// Sources with somebody waiting; the first has its turn next.
    turns: VecDeque<Source>,
}

/// A handshake, counted from before its first byte until it is over.
pub struct Handshake {
    of: Rc<Handshakes>,
    source: Source,
}

impl Handshakes {
    /// All places free.
    pub fn new(bounds: Bounds) -> Rc<Handshakes> {
        Rc::new(Handshakes { bounds, state: RefCell::default() })
    }

    /// A place, where there is one.
    pub fn begin(self: &Rc<Self>, from: IpAddr) -> Option<Handshake> {
        let source = Source::from(from);
        let begun = self.state.borrow_mut().taken.take(source, 1, self.bounds);
        begun.then(|| Handshake { of: self.clone(), source })
    }

    /// A place, as soon as it is this one's turn.
    pub async fn wait(self: &Rc<Self>, from: IpAddr) -> Option<Handshake> {
        let source = Source::from(from);
        let place = {
            let mut state = self.state.borrow_mut();
            if !state.waiting.contains_key(&source) && state.taken.take(source, 1, self.bounds) {
                return Some(Handshake { of: self.clone(), source });
            }
            let (sender, receiver) = oneshot::channel();
            let State { waiting, turns, .. } = &mut *state;
            let queue = waiting.entry(source).or_insert_with(|| {
                turns.push_back(source);
                VecDeque::new()
            });
            forget_gone(queue);
            queue.push_back(sender);
            receiver
        };
        self.hand_on();
        place.await.ok()
    }

    /// Hands free places on, in turns.
    fn hand_on(self: &Rc<Self>) {
        // At most `all / one` sources have their share, so few are passed over.
        let mut passed_over = 0;
        loop {
            let mut state = self.state.borrow_mut();
            if state.taken.total() >= self.bounds.all {
                return;
            }
            let Some(source) = state.turns.pop_front() else { return };
            let waits = state.waiting.get_mut(&source).is_some_and(|queue| {
                forget_gone(queue);
                !queue.is_empty()
            });
            if !waits {
                state.waiting.remove(&source);
                continue;
            }
            if !state.taken.take(source, 1, self.bounds) {
                state.turns.push_back(source);
                passed_over += 1;
                if passed_over >= state.turns.len() {
                    return;
                }
                continue;
            }
            let waiter = state.waiting.get_mut(&source).and_then(VecDeque::pop_front);
            state.turns.push_back(source);
            passed_over = 0;
            drop(state);
            if let Some(waiter) = waiter {
                // Who gave up this very moment gives the place back by dropping it.
                let _ = waiter.send(Handshake { of: self.clone(), source });
            }
        }
    }
}

/// Those that have given up: all wait as long, so they are the first.
fn forget_gone(queue: &mut VecDeque<oneshot::Sender<Handshake>>) {
    while queue.front().is_some_and(oneshot::Sender::is_closed) {
        queue.pop_front();
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        self.of.state.borrow_mut().taken.give(self.source, 1);
        self.of.hand_on();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn run(test: impl std::future::Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, test);
    }

    #[test]
    fn flood_of_one_source_keeps_no_other_waiting() {
        run(async {
            let places = Handshakes::new(Bounds { all: 6, one: 4 });
            let held: Vec<Handshake> = (0..4).map(|_| places.begin(address(1)).unwrap()).collect();
            assert!(places.begin(address(1)).is_none());
            let flood: Vec<_> = (0..100)
                .map(|_| {
                    let places = places.clone();
                    tokio::task::spawn_local(async move { places.wait(address(1)).await })
                })
                .collect();
            tokio::task::yield_now().await;
            let other = places.wait(address(2)).await.unwrap();
            let third = places.wait(address(3)).await.unwrap();
            assert!(places.begin(address(4)).is_none(), "all are taken");
            let (late, waited) = oneshot::channel();
            let of_late = places.clone();
            tokio::task::spawn_local(async move { drop(late.send(of_late.wait(address(4)).await)) });
            tokio::task::yield_now().await;
            drop(other);
            assert!(waited.await.unwrap().is_some(), "the flood has its share, so it is another's turn");
            drop((held, third));
            // Every place that is given back serves the next of the flood.
            for waiter in flood {
                drop(waiter.await.unwrap().unwrap());
            }
            let state = places.state.borrow();
            assert!(state.waiting.is_empty() && state.turns.is_empty() && state.taken.total() == 0);
        });
    }

    #[test]
    fn who_gives_up_is_passed_over() {
        run(async {
            let places = Handshakes::new(Bounds { all: 1, one: 1 });
            let first = places.begin(address(1)).unwrap();
            let gone = tokio::time::timeout(std::time::Duration::from_millis(5), places.wait(address(2))).await;
            assert!(gone.is_err());
            let own = places.clone();
            let waiting = tokio::task::spawn_local(async move { own.wait(address(3)).await.is_some() });
            tokio::task::yield_now().await;
            drop(first);
            assert!(waiting.await.unwrap());
        });
    }
}
