//! One watch stream: its requests in, its messages out, and its watches.
//!
//! ```text
//!   requests ─▶ admit (permission, where is now) ─▶ created ┐
//!   mailbox ─ take ─▶ batch, or behind ─▶ catch up ─▶ batch ┼─▶ some messages, when the client has room
//!   progress: asked for, or by the clock ───────────────────┘
//! ```
//! Always: a watch's `created` goes before its events, and its events before a progress message that covers them. Messages are made
//! when the client takes some, so a client that takes nothing holds [`MESSAGES_BYTES`] of them, and at most [`CATCH_UPS_A_STREAM`] batches.
//! Not here: what is due to whom (`board.rs`), the texts of messages (`wire.rs`).

use super::board::Taken;
use super::catch_up::{catch_up, Caught};
use super::hub::{Hub, Hubs};
use super::mailbox::Mailbox;
use super::revision::{Batch, Wanted};
use super::spans::WatcherId;
use super::wire::{self, Asked, DUPLICATE_ID, NO_WATCH};
use super::{admission, Settings, BATCH_BYTES, FRAGMENT_BYTES, WATCHES_A_STREAM_MAX};
use crate::proto::etcdserverpb::watch_request::RequestUnion;
use crate::proto::etcdserverpb::{WatchRequest, WatchResponse};
use crate::revision;
use crate::status::{NO_LEADER, TOO_MANY_REQUESTS};
use crate::store::{Place, Session};
use base_types::mutant::{planted, Mutant};
use futures::future::BoxFuture;
use futures::stream::{FuturesOrdered, FuturesUnordered, Stream, StreamExt as _};
use prost::Message as _;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::time::{interval_at, Instant, Interval, MissedTickBehavior};
use tonic::Status;

/// Watches of one stream that catch up at a time; the others wait in line.
const CATCH_UPS_A_STREAM: usize = 2;
/// Requests of one stream for new watches that are being looked at.
const ADMISSIONS_A_STREAM: usize = 32;
/// Messages about watches, not events, that wait; then no more requests are read.
const CONTROL_MAX: usize = 128;

/// Messages are sent together until they have so many bytes: one more wake of the connection costs more than a message of a few hundred.
const MESSAGES_BYTES: usize = 32 << 10;
/// And as many at most.
const MESSAGES_MAX: usize = 256;

/// What a stream sends.
pub(super) type Outgoing = mpsc::Sender<Result<Vec<WatchResponse>, Status>>;

struct Watch {
    hub_id: WatcherId,
    wanted: Arc<Wanted>,
    fragment: bool,
    /// Whether it gets progress messages by the clock.
    progress: bool,
    /// Whether it was sent events since the last tick of that clock.
    lively: bool,
}

/// A stream of watches.
pub(super) struct WatchStream {
    hubs: Arc<Hubs>,
    hub: Arc<Hub>,
    /// As whom it watches; or why nothing it asks for is allowed.
    session: Result<Session, Status>,
    out: Outgoing,
    mailbox: Arc<Mailbox>,
    watches: HashMap<i64, Watch>,
    ids: HashMap<WatcherId, i64>,
    next_id: i64,
    admissions: FuturesOrdered<BoxFuture<'static, admission::Outcome>>,
    /// A request that waits until those before it are admitted.
    held: Option<RequestUnion>,
    control: VecDeque<WatchResponse>,
    /// The rest of a batch in fragments.
    fragments: VecDeque<WatchResponse>,
    catching: FuturesUnordered<BoxFuture<'static, (WatcherId, Caught)>>,
    waiting: VecDeque<WatcherId>,
    caught: VecDeque<(WatcherId, Batch)>,
    /// Whether the client asked how far its watches are.
    progress_asked: bool,
    /// The epoch of the directory by which its watches were last looked at again.
    checked_at: Option<u64>,
}

/// Why a stream ends.
enum End {
    /// Its client is gone.
    Client,
    Error(Status),
}

impl WatchStream {
    pub fn new(hubs: Arc<Hubs>, hub: Arc<Hub>, session: Result<Session, Status>, out: Outgoing) -> WatchStream {
        let checked_at = session.as_ref().ok().and_then(|session| hubs.door().store.standing(session).ok());
        WatchStream {
            hubs,
            hub,
            session,
            out,
            mailbox: Arc::default(),
            watches: HashMap::new(),
            ids: HashMap::new(),
            next_id: 0,
            admissions: FuturesOrdered::new(),
            held: None,
            control: VecDeque::new(),
            fragments: VecDeque::new(),
            catching: FuturesUnordered::new(),
            waiting: VecDeque::new(),
            caught: VecDeque::new(),
            progress_asked: false,
            checked_at,
        }
    }

    /// Serves the stream until its client is gone.
    pub async fn run<R>(mut self, requests: R, require_leader: bool)
    where
        R: Stream<Item = Result<WatchRequest, Status>> + Send + Unpin,
    {
        let end = self.serve(requests, require_leader).await;
        // Reads that it shares with other streams must not wait for its client.
        let out = self.out.clone();
        drop(self);
        if let End::Error(status) = end {
            // The client may be gone by now.
            let _ = out.send(Err(status)).await;
        }
    }

    async fn serve<R>(&mut self, mut requests: R, require_leader: bool) -> End
    where
        R: Stream<Item = Result<WatchRequest, Status>> + Send + Unpin,
    {
        let mut leader = None;
        if require_leader && self.session.is_ok() {
            if self.hub.now().await.is_err() {
                return End::Error(NO_LEADER.into());
            }
            self.hub.leader.send_replace(true);
            leader = Some(self.hub.leader.subscribe());
        }
        let Settings { progress_every, recheck_every, .. } = self.hub.settings;
        let jitter = self.hub.door.store.random() % 100;
        let mut progress = ticks(progress_every + progress_every * jitter as u32 / 1_000);
        let mut recheck = ticks(recheck_every);
        let mut checking: Option<BoxFuture<'static, Vec<(i64, String)>>> = None;
        let (mut positions, mut reading) = (self.hub.positions(), true);
        let out = self.out.clone();
        loop {
            self.go_on();
            let due = self.progress_due();
            let room =
                self.held.is_none() && self.admissions.len() < ADMISSIONS_A_STREAM && self.control.len() < CONTROL_MAX;
            let something = due.is_some() || self.has_something();
            tokio::select! {
                () = out.closed() => return End::Client,
                request = requests.next(), if reading && room => match request {
                    Some(Ok(request)) => self.held = request.request_union,
                    Some(Err(_)) => return End::Client,
                    // It sends no more; its watches continue.
                    None => reading = false,
                },
                Some(outcome) = self.admissions.next(), if !self.admissions.is_empty() => {
                    if let Err(status) = self.admitted(outcome) {
                        return End::Error(status);
                    }
                }
                permit = out.reserve(), if something => {
                    let Ok(permit) = permit else { return End::Client };
                    let messages = self.next_messages(due);
                    if !messages.is_empty() {
                        permit.send(Ok(messages));
                    }
                }
                Some((id, caught)) = self.catching.next(), if !self.catching.is_empty() => {
                    if let Caught::Batch(batch) = caught {
                        self.caught.push_back((id, batch));
                    }
                }
                () = self.mailbox.rung() => (),
                _ = positions.changed(), if self.progress_asked => (),
                _ = progress.tick() => self.tick_progress(),
                _ = recheck.tick(), if checking.is_none() && !self.watches.is_empty() => checking = self.recheck(),
                denied = option(&mut checking) => {
                    checking = None;
                    let denied = denied.into_iter().filter(|_| !planted(Mutant::WatchDeniedStays));
                    denied.for_each(|(id, reason)| self.cancel(id, reason));
                }
                () = lost(&mut leader) => return End::Error(NO_LEADER.into()),
            }
        }
    }

    /// Does what needs no waiting: the held request, and catch-ups that have room.
    fn go_on(&mut self) {
        match self.held.take() {
            Some(RequestUnion::CreateRequest(request)) => match (wire::asked(request), self.session.clone()) {
                (Ok(asked), Ok(session)) => {
                    let admission = admission::admit(self.hubs.clone(), self.hub.clone(), session, asked);
                    self.admissions.push_back(Box::pin(admission));
                }
                (Err(reason), _) => self.refuse(reason),
                (_, Err(status)) => self.refuse(wire::reason(&status)),
            },
            // What was asked for before is answered before.
            held @ Some(_) if !self.admissions.is_empty() => self.held = held,
            Some(RequestUnion::CancelRequest(request)) => self.cancel(request.watch_id, String::new()),
            // Without a watch there is nothing to report, as with etcd.
            Some(RequestUnion::ProgressRequest(_)) => self.progress_asked |= !self.watches.is_empty(),
            None => (),
        }
        while self.catching.len() + self.caught.len() < CATCH_UPS_A_STREAM {
            let Some(id) = self.waiting.pop_front() else { return };
            let work = catch_up(self.hub.clone(), id);
            self.catching.push(Box::pin(async move { (id, work.await) }));
        }
    }

    fn here(&self) -> (Place, u64) {
        (self.hub.place(), *self.hub.positions().borrow())
    }

    fn refuse(&mut self, reason: String) {
        self.admissions.push_back(Box::pin(std::future::ready(admission::Outcome::Refused(reason))));
    }

    /// A watch was looked at: it begins, or it is answered why not. An error ends the stream.
    fn admitted(&mut self, outcome: admission::Outcome) -> Result<(), Status> {
        let (asked, info, place) = match outcome {
            admission::Outcome::Admitted { asked, info, place } => (asked, info, place),
            admission::Outcome::Failed(status) => return Err(status),
            admission::Outcome::Refused(reason) => {
                let (place, stamp) = self.here();
                self.control.push_back(wire::not_created(place, stamp, reason));
                return Ok(());
            }
        };
        self.hub.note_place(place);
        let refused = match self.draw_id(asked.id) {
            Ok(id) => {
                self.begin(id, asked, info.stamp, info.compacted, place);
                return Ok(());
            }
            Err(reason) => reason,
        };
        self.control.push_back(wire::not_created(place, info.stamp, refused));
        Ok(())
    }

    fn draw_id(&mut self, asked: i64) -> Result<i64, String> {
        if self.watches.len() >= WATCHES_A_STREAM_MAX {
            return Err(wire::reason(&TOO_MANY_REQUESTS.into()));
        }
        if asked != 0 {
            let taken = self.watches.contains_key(&asked);
            return if taken { Err(DUPLICATE_ID.into()) } else { Ok(asked) };
        }
        while self.watches.contains_key(&self.next_id) {
            self.next_id += 1;
        }
        self.next_id += 1;
        Ok(self.next_id - 1)
    }

    fn begin(&mut self, id: i64, asked: Asked, now: u64, compacted: u64, place: Place) {
        let Asked { wanted, start, progress, fragment, .. } = asked;
        let before = u64::from(!planted(Mutant::WatchStartSkipped));
        let from = if start == 0 { now } else { revision::to_stamp(start).saturating_sub(before) };
        self.control.push_back(wire::created(place, now, id));
        // As etcd: what was committed at the compacted revision itself can be watched.
        if from.saturating_add(1) < compacted {
            let ended = super::board::Ended::Compacted(compacted);
            self.control.push_back(wire::ended(place, now, id, &ended));
            return;
        }
        let wanted = Arc::new(wanted);
        let hub_id = self.hub.add(wanted.clone(), from, now, self.mailbox.clone());
        self.ids.insert(hub_id, id);
        self.watches.insert(id, Watch { hub_id, wanted, fragment, progress, lively: false });
    }

    /// Ends a watch, if there is one of this id, and says so.
    fn cancel(&mut self, id: i64, reason: String) {
        if self.drop_watch(id).is_some() {
            let (place, stamp) = self.here();
            self.control.push_back(wire::cancelled(place, stamp, id, reason));
        }
    }

    fn drop_watch(&mut self, id: i64) -> Option<Watch> {
        let watch = self.watches.remove(&id)?;
        self.ids.remove(&watch.hub_id);
        self.hub.remove(watch.hub_id);
        // What it was due is no longer sent.
        self.fragments.retain(|message| message.watch_id != id);
        self.caught.retain(|(hub_id, _)| *hub_id != watch.hub_id);
        Some(watch)
    }

    fn has_something(&self) -> bool {
        !(self.control.is_empty() && self.fragments.is_empty() && self.caught.is_empty() && self.mailbox.is_empty())
    }

    /// The next messages, for a client that has room for them.
    fn next_messages(&mut self, progress: Option<u64>) -> Vec<WatchResponse> {
        let (mut messages, mut bytes) = (Vec::new(), 0);
        while messages.len() < MESSAGES_MAX && bytes < MESSAGES_BYTES {
            let Some(message) = self.next_message(progress) else { break };
            bytes += message.encoded_len();
            messages.push(message);
        }
        messages
    }

    /// The next message.
    fn next_message(&mut self, progress: Option<u64>) -> Option<WatchResponse> {
        if let Some(message) = self.fragments.pop_front().or_else(|| self.control.pop_front()) {
            return Some(message);
        }
        if let Some((id, batch)) = self.caught.pop_front() {
            self.hub.list(id);
            return self.message_of(id, &batch);
        }
        // Each id is named once, so this looks at each watch once at the most.
        while let Some(id) = self.mailbox.pop() {
            match self.hub.take(id, BATCH_BYTES) {
                Taken::Nothing => (),
                Taken::Behind => {
                    self.waiting.push_back(id);
                    self.go_on();
                }
                Taken::Ended(why) => {
                    if let Some(watch_id) = self.ids.remove(&id) {
                        self.watches.remove(&watch_id);
                        let (place, stamp) = self.here();
                        return Some(wire::ended(place, stamp, watch_id, &why));
                    }
                }
                Taken::Batch(batch) => return self.message_of(id, &batch),
            }
        }
        let stamp = progress.filter(|_| self.progress_due().is_some())?;
        self.progress_asked = false;
        Some(wire::progress(self.hub.place(), stamp, NO_WATCH))
    }

    fn message_of(&mut self, id: WatcherId, batch: &Batch) -> Option<WatchResponse> {
        let watch_id = *self.ids.get(&id)?;
        let watch = self.watches.get_mut(&watch_id)?;
        watch.lively = true;
        let fragment = watch.fragment.then_some(FRAGMENT_BYTES);
        self.fragments.extend(wire::events(self.hub.place(), watch_id, watch.wanted.before, batch, fragment));
        self.fragments.pop_front()
    }

    /// How far all watches of this stream are, if the client asked and everything up to there was sent.
    fn progress_due(&self) -> Option<u64> {
        let sent = !self.has_something() && self.catching.is_empty() && self.waiting.is_empty();
        let asked = self.progress_asked && sent && !self.watches.is_empty();
        asked.then(|| self.hub.caught_up(self.ids.keys().copied())).flatten()
    }

    /// The clock of progress messages: watches that had no events lately learn how far they are.
    fn tick_progress(&mut self) {
        if self.has_something() {
            return; // The client does not keep up; it does not want to hear that nothing has happened.
        }
        let place = self.hub.place();
        for (id, watch) in &mut self.watches {
            let quiet = watch.progress && !std::mem::replace(&mut watch.lively, false);
            if let Some(stamp) = quiet.then(|| self.hub.caught_up([watch.hub_id].into_iter())).flatten() {
                self.control.push_back(wire::progress(place, stamp, *id));
            }
        }
    }

    /// Looks again whether the session may watch what it watches: each time for its credential, and for its watches where the directory
    /// of users has changed since.
    fn recheck(&mut self) -> Option<BoxFuture<'static, Vec<(i64, String)>>> {
        let session = self.session.clone().ok()?;
        let standing = self.hubs.door().store.standing(&session).ok();
        if standing.is_some() && standing == self.checked_at {
            return None;
        }
        self.checked_at = standing;
        let watches = self.watches.iter().map(|(id, watch)| (*id, watch.wanted.clone())).collect();
        Some(Box::pin(admission::recheck(self.hubs.clone(), session, watches)))
    }
}

impl Drop for WatchStream {
    fn drop(&mut self) {
        self.watches.values().for_each(|watch| self.hub.remove(watch.hub_id));
    }
}

fn ticks(every: std::time::Duration) -> Interval {
    let mut ticks = interval_at(Instant::now() + every, every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Waits for what may not be there.
async fn option<T>(future: &mut Option<BoxFuture<'static, T>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// Waits until the cluster has no leader.
async fn lost(leader: &mut Option<tokio::sync::watch::Receiver<bool>>) {
    if let Some(leader) = leader {
        if leader.wait_for(|leads| !leads).await.is_ok() {
            return;
        }
    }
    std::future::pending().await
}
