//! A drained node: it leads nothing that another member could lead. An operator drains it, or it is about to stop.
//!
//! ```text
//!  DrainNode ─▶ a core's Effect::Drained ┐
//!  the node stops ───────────────────────┴─▶ flag ─▶ each lane, at its next turn: Event::Drained ─▶ hands over
//!                                                    each lane, while it hands over: how much is left
//! ```
//!
//! By design: the flag lives as long as the process, so a node that starts again is not drained; every lane reads the flag, and
//! a letter only wakes it, so a full mailbox loses nothing.
//! Not here: who hands over what to whom (core-cluster, replica/exchange.rs).

use crate::mailbox::Sender;
use core_node::api::Event;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a node that stops waits for its leaders to be taken over.
pub const HAND_OVER_MAX: Duration = Duration::from_secs(5);
/// And how long without any being taken over: who could take over is gone, or stops as well.
const HAND_OVER_STILL_MAX: Duration = Duration::from_millis(600);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A lane that has not counted yet.
const UNKNOWN: u32 = u32::MAX;

/// Whether the node is drained, and how far.
pub struct Drain {
    by_operator: AtomicBool,
    stopping: AtomicBool,
    lanes: Vec<Sender<Event>>,
    /// Of each lane: clusters it has yet to hand over.
    due: Vec<AtomicU32>,
}

impl Drain {
    /// Of a node with these lanes' mailboxes.
    pub fn new(lanes: Vec<Sender<Event>>) -> Drain {
        let due = lanes.iter().map(|_| AtomicU32::new(UNKNOWN)).collect();
        Drain { by_operator: false.into(), stopping: false.into(), lanes, due }
    }

    /// An operator drains the node, or ends that.
    pub fn set(&self, drained: bool) {
        if self.by_operator.swap(drained, Ordering::SeqCst) != drained {
            tracing::info!(drained, "an operator drains this node, or ends that");
            self.wake();
        }
    }

    fn wake(&self) {
        self.due.iter().for_each(|due| due.store(UNKNOWN, Ordering::SeqCst));
        for lane in &self.lanes {
            // A full mailbox has a turn before it anyway.
            let _ = lane.try_send(Event::Timer);
        }
    }

    /// Whether the lanes are to lead nothing.
    pub fn is_on(&self) -> bool {
        self.is_drained() || self.stopping.load(Ordering::SeqCst)
    }

    /// Whether an operator drained the node.
    pub fn is_drained(&self) -> bool {
        self.by_operator.load(Ordering::SeqCst)
    }

    /// A lane has counted what it has yet to hand over.
    pub fn report(&self, lane: usize, due: usize) {
        let due = u32::try_from(due).unwrap_or(UNKNOWN - 1).min(UNKNOWN - 1);
        self.due[lane].store(due, Ordering::SeqCst);
    }

    /// Of all lanes; `None` while one has not counted since the node was drained.
    pub fn hand_overs_due(&self) -> Option<u32> {
        let counted = self.due.iter().map(|due| due.load(Ordering::SeqCst));
        counted.map(|due| (due != UNKNOWN).then_some(due)).try_fold(0u32, |sum, due| Some(sum.saturating_add(due?)))
    }

    /// What the status says of it.
    pub fn warning(&self, node: u64) -> Option<String> {
        self.is_drained().then(|| {
            format!("this node is drained: it leads nothing that others can lead, until `hive ctl node undrain {node}` or its restart")
        })
    }

    /// The node is about to stop: returns when others lead what they can, or `ended` or time says that they will not.
    pub fn hand_over(&self, ended: impl Fn() -> bool) {
        self.stopping.store(true, Ordering::SeqCst);
        self.wake();
        let begun = Instant::now();
        let (mut due, mut changed) = (None, begun);
        while !ended() && begun.elapsed() < HAND_OVER_MAX && changed.elapsed() < HAND_OVER_STILL_MAX {
            let now = self.hand_overs_due();
            if now == Some(0) {
                return;
            }
            if now != due {
                (due, changed) = (now, Instant::now());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        let clusters = due.map_or("unknown".into(), |due| due.to_string());
        tracing::warn!(clusters, "this node stops and still leads: other members elect a leader without it");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mailbox::mailbox;

    #[test]
    fn what_is_due_is_unknown_until_every_lane_has_counted() {
        let (lanes, _mailboxes): (Vec<_>, Vec<_>) = (0..2).map(|_| mailbox(1)).unzip();
        let drain = Drain::new(lanes);
        drain.set(true);
        assert!(drain.is_on() && drain.warning(3).is_some());
        drain.report(0, 2);
        assert_eq!(drain.hand_overs_due(), None);
        drain.report(1, 3);
        assert_eq!(drain.hand_overs_due(), Some(5));
        // What was counted before is not what is due after the next change.
        drain.set(false);
        assert_eq!((drain.hand_overs_due(), drain.is_on(), drain.warning(3)), (None, false, None));
    }

    #[test]
    fn a_node_that_stops_waits_for_its_leaders_and_not_for_ever() {
        let (lanes, _mailboxes): (Vec<_>, Vec<_>) = (0..1).map(|_| mailbox(8)).unzip();
        let drain = Drain::new(lanes);
        std::thread::scope(|scope| {
            let stops = scope.spawn(|| drain.hand_over(|| false));
            while !drain.is_on() {
                std::thread::yield_now();
            }
            drain.report(0, 1);
            assert!(!stops.is_finished());
            drain.report(0, 0);
            stops.join().unwrap();
        });
        // Nobody takes over: it ends all the same.
        drain.report(0, 1);
        let begun = Instant::now();
        drain.hand_over(|| false);
        assert!(begun.elapsed() < HAND_OVER_MAX);
        assert!(!drain.is_drained());
    }
}
