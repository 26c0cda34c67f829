//! The hub of a namespace: its board, and the follower that reads the namespace while somebody watches it.
//!
//! ```text
//!   stream, stream, … ─ add, take ─▶ Hub ◀─ publish ─ follower ◀─ Changes, all keys ─ Store
//! ```
//! Always: the follower begins with the first watcher and ends when the last is gone. The lock is held for a page at the
//! longest and never across a wait.
//! Not here: what a watcher is due (`board.rs`), how the store is read (`follower.rs`, `catch_up.rs`).

use super::board::{Board, Ended, Step, Taken, Unfit};
use super::follower;
use super::mailbox::Mailbox;
use super::pages::{Pages, Whole};
use super::revision::Wanted;
use super::shared::SharedReads;
use super::spans::WatcherId;
use super::{Settings, CATCH_UPS_MAX};
use crate::door::Door;
use crate::store::{Place, Session};
use base_types::access::Caller;
use base_types::versioned::{Info, Query, Reply};
use base_types::{ErrorCode, ReadConsistency, Refusal};
use futures::future::{BoxFuture, FutureExt as _, Shared};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::sync::{watch, Notify, Semaphore};
use tokio::task::AbortHandle;

/// The hub of a namespace.
pub(crate) struct Hub {
    pub(super) door: Arc<Door>,
    /// As whom the follower reads: the node. Each watch is checked as its own session when it is made, and now and then.
    pub(super) node: Session,
    pub(super) settings: Settings,
    state: Mutex<State>,
    /// How far changes were published.
    position: watch::Sender<u64>,
    /// Whether the cluster has a leader, as far as streams that must know have had it looked up.
    pub(super) leader: watch::Sender<bool>,
    /// Rung when the first watcher comes that wants former values.
    pub(super) before_wanted: Notify,
    /// Reads of watchers that catch up, of all namespaces.
    pub(super) catch_ups: Arc<Semaphore>,
    /// The next read of "now", which has not begun.
    next_now: Mutex<Option<Now>>,
    /// One such read is under way at a time; meanwhile others gather for the next.
    now_turn: Semaphore,
    /// Reads that watchers share where many catch up.
    pub(super) shared: SharedReads,
}

/// A strong read of the namespace's state that several wait for; `None`: its task ended early, with the node.
type Now = Shared<BoxFuture<'static, Option<Result<(Info, Place), Refusal>>>>;

struct State {
    board: Board,
    place: Place,
    follower: Option<AbortHandle>,
}

/// What a hub holds, for tests and metrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Figures {
    /// Namespaces that are followed.
    pub hubs: usize,
    /// Watchers.
    pub watchers: usize,
    /// Those that catch up, or are stalled.
    pub behind: usize,
    /// Revisions that wait in watchers' queues.
    pub queued: usize,
    /// Bytes of recent changes, of references to them, and of pages that late watchers share.
    pub recent_bytes: usize,
    /// How often a watcher fell behind.
    pub stalls: u64,
}

impl Hub {
    fn new(door: Arc<Door>, namespace: &str, settings: Settings, catch_ups: Arc<Semaphore>) -> Hub {
        let board = Board::new(&settings, door.store.random());
        let node = Session { caller: Caller::Node, namespace: namespace.to_string() };
        let state = Mutex::new(State { board, place: Place::default(), follower: None });
        let (position, leader) = (watch::Sender::new(0), watch::Sender::new(true));
        let (before_wanted, shared) = (Notify::new(), SharedReads::default());
        let (next_now, now_turn) = (Mutex::default(), Semaphore::new(1));
        Hub { door, node, settings, state, position, leader, before_wanted, catch_ups, shared, next_now, now_turn }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new watcher of what comes after `from`. `now` is a stamp that the namespace had reached after the watch was asked for.
    pub fn add(self: &Arc<Self>, wanted: Arc<Wanted>, from: u64, now: u64, mailbox: Arc<Mailbox>) -> WatcherId {
        let mut state = self.state();
        if state.follower.is_none() {
            state.board.restart(now);
            self.position.send_replace(now);
            state.follower = Some(tokio::spawn(follower::follow(self.clone())).abort_handle());
        }
        let wanted_before = state.board.wants_before();
        let id = state.board.add(wanted, from, mailbox);
        if state.board.wants_before() && !wanted_before {
            self.before_wanted.notify_one();
        }
        id
    }

    pub fn remove(&self, id: WatcherId) {
        let mut state = self.state();
        state.board.remove(id);
        state.rest();
    }

    pub(super) fn take(&self, id: WatcherId, bytes: usize) -> Taken {
        let mut state = self.state();
        let taken = state.board.take(id, bytes);
        state.rest();
        taken
    }

    pub(super) fn step(&self, id: WatcherId) -> Step {
        self.state().board.step(id)
    }

    pub(super) fn advance(&self, id: WatcherId, up_to: u64) {
        self.state().board.advance(id, up_to);
    }

    pub(super) fn list(&self, id: WatcherId) {
        self.state().board.list(id);
    }

    pub(super) fn end(&self, id: WatcherId, why: Ended) {
        self.state().board.end(id, why);
    }

    pub(super) fn end_all(&self, why: &Ended) {
        self.state().board.end_all(why);
    }

    pub(super) fn caught_up(&self, ids: impl Iterator<Item = WatcherId>) -> Option<u64> {
        self.state().board.caught_up(ids)
    }

    pub(super) fn wants_before(&self) -> bool {
        self.state().board.wants_before()
    }

    /// For reading on from where the board is.
    pub(super) fn pages(&self) -> Pages {
        let state = self.state();
        Pages::after(state.board.position(), state.board.wants_before())
    }

    pub(super) fn publish(&self, whole: Whole, place: Place) -> Result<(), Unfit> {
        let mut state = self.state();
        state.place = place;
        state.board.publish(whole)?;
        self.moved(&state);
        Ok(())
    }

    pub(super) fn lapse(&self, to: u64) {
        let mut state = self.state();
        state.board.lapse(to);
        self.moved(&state);
    }

    fn moved(&self, state: &State) {
        let position = state.board.position();
        self.position.send_if_modified(|known| std::mem::replace(known, position) != position);
    }

    /// The position as it moves.
    pub(super) fn positions(&self) -> watch::Receiver<u64> {
        self.position.subscribe()
    }

    /// Where the last page came from.
    pub(super) fn place(&self) -> Place {
        self.state().place
    }

    pub(super) fn note_place(&self, place: Place) {
        self.state().place = place;
    }

    /// The state of the namespace at its leader, by a read that begins after this was called. Those who ask meanwhile share the
    /// next read, so thousands of new watches cost the leader a few reads.
    pub(super) async fn now(self: &Arc<Self>) -> Result<(Info, Place), Refusal> {
        let read = self.next_now().get_or_insert_with(|| self.read_now()).clone();
        read.await.unwrap_or_else(|| Err(Refusal::new(ErrorCode::ShuttingDown, "this node is stopping; ask another")))
    }

    fn next_now(&self) -> MutexGuard<'_, Option<Now>> {
        self.next_now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A task of its own, so that none of those who wait can hold up the others.
    fn read_now(self: &Arc<Self>) -> Now {
        let hub = self.clone();
        let read = tokio::spawn(async move {
            let _turn = hub.now_turn.acquire().await;
            // From here on it may be too old for those who come.
            hub.next_now().take();
            hub.describe(ReadConsistency::Strong).await
        });
        read.map(Result::ok).boxed().shared()
    }

    /// The state of the namespace, as the node reads it.
    pub(super) async fn describe(&self, level: ReadConsistency) -> Result<(Info, Place), Refusal> {
        match self.door.store.ask(&self.node, Query::Describe, level).await? {
            (Reply::Info { info }, place) => Ok((info, place)),
            _ => Err(Refusal::new(ErrorCode::Internal, "the store's answer is not one to Describe; report this bug")),
        }
    }
}

impl State {
    /// Stops the follower when nobody watches.
    fn rest(&mut self) {
        if self.board.watchers() == 0 {
            if let Some(follower) = self.follower.take() {
                follower.abort();
            }
        }
    }
}

/// The hubs of all namespaces that are watched.
pub struct Hubs {
    door: Arc<Door>,
    settings: Settings,
    /// Streams and followers hold the hubs.
    hubs: Mutex<HashMap<String, Weak<Hub>>>,
    catch_ups: Arc<Semaphore>,
    /// Looks whether sessions may still watch what they watch.
    pub(super) checks: Arc<Semaphore>,
    /// Room for streams.
    pub(super) streams: Arc<Semaphore>,
}

impl Hubs {
    /// No hub yet.
    pub fn new(door: Arc<Door>, settings: Settings) -> Arc<Hubs> {
        Arc::new(Hubs {
            door,
            settings,
            hubs: Mutex::default(),
            catch_ups: Arc::new(Semaphore::new(CATCH_UPS_MAX)),
            checks: Arc::new(Semaphore::new(super::CHECKS_MAX)),
            streams: Arc::new(Semaphore::new(super::STREAMS_MAX)),
        })
    }

    /// The door that these are of.
    pub fn door(&self) -> &Arc<Door> {
        &self.door
    }

    /// The hub of a namespace.
    pub(crate) fn of(&self, namespace: &str) -> Arc<Hub> {
        let mut hubs = self.hubs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hub) = hubs.get(namespace).and_then(Weak::upgrade) {
            return hub;
        }
        hubs.retain(|_, hub| hub.strong_count() > 0);
        let hub = Arc::new(Hub::new(self.door.clone(), namespace, self.settings, self.catch_ups.clone()));
        hubs.insert(namespace.to_string(), Arc::downgrade(&hub));
        hub
    }

    /// What they hold together.
    pub fn figures(&self) -> Figures {
        let hubs: Vec<_> = {
            let hubs = self.hubs.lock().unwrap_or_else(PoisonError::into_inner);
            hubs.values().filter_map(Weak::upgrade).collect()
        };
        hubs.iter().fold(Figures::default(), |sum, hub| {
            let state = hub.state();
            let (recent_bytes, queued, behind, stalls) = state.board.figures();
            Figures {
                hubs: sum.hubs + usize::from(state.follower.is_some()),
                watchers: sum.watchers + state.board.watchers(),
                behind: sum.behind + behind,
                queued: sum.queued + queued,
                recent_bytes: sum.recent_bytes + recent_bytes + hub.shared.bytes(),
                stalls: sum.stalls + stalls,
            }
        })
    }
}
