//! The host of one lane: gathers events, lets the core step, carries out its effects.
//!
//! ```text
//!  connections of this thread ──▶ inbox (LaneDoor) ─┐
//!  disk, engine, other lanes  ──▶ mailbox (bounded) ┼─▶ turn: step… finish_turn ─▶ effects in order
//!  the clock                  ──▶ next_wake ────────┘
//! ```
//!
//! By design: effects are carried out in the order given; events of one turn are bounded; a mailbox that
//! is full is back-pressure (mail waits, and no new client request is taken until it has gone), never
//! loss. A panic, `Effect::Halt` or a dead helper thread ends the lane, and with it the process.
//! Not here: sockets (http, peers), what the events mean (core-node).

mod changes;
pub mod door;
pub mod engine;
pub mod latency;
mod slow;
pub mod tickets;

use crate::clock::Clock;
use crate::disk::LogWriter;
use crate::drain::Drain;
use crate::machine::{Machine, Metric};
use crate::mailbox::{Outgoing, Receiver};
use crate::memory::QuietMemory;
use crate::peers::PeerSet;
use base_types::{FormatLevel, LaneId, Tick};
use core_cluster::api::BusyCluster;
use core_node::api::{Directory, Effect, Effects, Event, Mail, NoteLevel};
use door::LaneDoor;
use engine::EngineThread;
use latency::Latency;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::watch;

/// Events of one turn; the rest waits for the next.
pub const EVENTS_PER_TURN_MAX: usize = 4096;
/// Events that may wait in a lane's mailbox.
pub const MAILBOX_EVENTS_MAX: usize = 8192;
/// Mail kept back while another lane's mailbox is full; more means that lane hangs.
pub const MAIL_KEPT_MAX: usize = 65_536;
/// How soon mail kept back is tried again.
const MAIL_RETRY: Duration = Duration::from_millis(1);
/// How often the lane's numbers are laid out for `/metrics`.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// How often a drained lane counts what it has yet to hand over.
const COUNT_EVERY: Duration = Duration::from_millis(20);

/// Clusters that `/metrics` names, the busiest of the node: never one series a cluster.
pub const BUSIEST_SHOWN: usize = 10;

/// A lane's numbers, as `/metrics` of any thread may read them.
#[derive(Clone, Default)]
pub struct LaneReport {
    pub metrics: Vec<Metric>,
    pub requests: Vec<(&'static str, Latency)>,
    pub log_sync: Latency,
    /// Writes of applied changes to engines.
    pub engine_write: Latency,
    /// The clusters led here that committed most in the last period.
    pub busiest: Vec<BusyCluster>,
    pub turn_events: u64,
    pub turns: u64,
    pub requests_waiting: u64,
    pub peer_bytes_sent: u64,
    pub peer_frames_sent: u64,
    pub peer_frames_dropped: u64,
}

/// Everything a lane is made of.
pub struct LaneHost {
    pub door: Rc<LaneDoor>,
    pub machine: Box<dyn Machine>,
    pub mailbox: Receiver<Event>,
    /// To the mailboxes of all lanes of this node, by lane.
    pub outgoing: Outgoing<Event>,
    pub log: LogWriter,
    pub engine: EngineThread,
    pub peers: Rc<PeerSet>,
    /// The node's data directory.
    pub data: std::path::PathBuf,
    pub clock: Clock,
    pub report: Arc<Mutex<LaneReport>>,
    /// Notes which batch of the log is durable.
    pub note_reached: Box<dyn Fn(u64)>,
    /// Keeps which life of the world the node's data is of, and the later one it has heard of.
    pub keep_incarnation: Box<dyn Fn(u64, u64) -> Result<(), String>>,
    /// Keeps the world's format level.
    pub keep_level: Box<dyn Fn(FormatLevel) -> Result<(), String>>,
    /// Keeps the directory of users.
    pub keep_directory: Box<dyn Fn(Arc<Directory>) -> Result<(), String>>,
    /// Whether the node is drained.
    pub drain: Arc<Drain>,
    pub state: LaneState,
}

/// What changes from turn to turn.
#[derive(Default)]
pub struct LaneState {
    batch: Vec<Event>,
    effects: Effects,
    reported: Tick,
    log_sync: Latency,
    turns: u64,
    turn_events: u64,
    memory: QuietMemory,
    drained: bool,
    /// While the node is drained: when what is left to hand over was counted, and whether it is to be counted again.
    counted: Tick,
    count_again: bool,
    fatal: Option<String>,
}

impl LaneHost {
    /// Runs until told to stop; the error ends the process.
    pub async fn run(mut self, first: Effects, mut stop: watch::Receiver<bool>) -> Result<(), String> {
        self.state.effects = first;
        self.carry_out_guarded();
        let mut sleep = std::pin::pin!(tokio::time::sleep(Duration::ZERO));
        let result = loop {
            if let Some(reason) = self.state.fatal.take() {
                break Err(reason);
            }
            sleep.as_mut().reset(self.clock.instant(self.next_wake()));
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => break Ok(()),
                () = std::future::poll_fn(|context| self.poll_events(context)) => {}
                () = sleep.as_mut() => {}
            }
            self.turn();
            // Lets every connection that is ready bring its events: they share the next turn.
            tokio::task::yield_now().await;
        };
        self.door.close();
        // A helper that waits for room in the mailbox must not wait for ever.
        self.mailbox.close();
        self.log.stop();
        self.engine.stop();
        (self.note_reached)(self.machine.durable_batch());
        result
    }

    fn poll_events(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mail = self.mailbox.poll_take(context, &mut self.state.batch, EVENTS_PER_TURN_MAX);
        let local = self.door.poll_events(context);
        if mail.is_ready() || local.is_ready() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    fn next_wake(&self) -> Tick {
        let mut wake = self.machine.next_wake();
        if self.outgoing.is_congested() {
            wake = wake.min(self.clock.now() + MAIL_RETRY);
        }
        if self.state.count_again {
            wake = wake.min(self.state.counted + COUNT_EVERY);
        }
        wake
    }

    /// One turn. A panic of the core is caught here: its state is not to be trusted any more.
    fn turn(&mut self) {
        let room = EVENTS_PER_TURN_MAX.saturating_sub(self.state.batch.len());
        self.door.take_events(room, &mut self.state.batch);
        let now = self.clock.now();
        self.state.turns += 1;
        self.state.turn_events += self.state.batch.len() as u64;
        let stepped = catch_unwind(AssertUnwindSafe(|| self.step_all(now)));
        if let Err(panic) = stepped {
            self.state.fatal = Some(format!("lane {} panicked: {}", self.door.lane, panic_text(&*panic)));
            return;
        }
        self.carry_out_guarded();
        if now.since(self.state.reported) >= REPORT_EVERY {
            self.state.reported = now;
            (self.note_reached)(self.machine.durable_batch());
            self.state.memory.period(self.state.turn_events);
            self.lay_out_report();
        }
    }

    fn step_all(&mut self, now: Tick) {
        let drained = self.drain.is_on();
        if drained != self.state.drained {
            self.state.drained = drained;
            self.machine.step(now, Event::Drained { drained }, &mut self.state.effects);
        }
        self.state.count_again |= drained && !self.state.batch.is_empty();
        let mut batch = std::mem::take(&mut self.state.batch);
        for event in batch.drain(..) {
            if let Event::LogWritten { .. } = event {
                if let Some(since) = self.log.write_since.take() {
                    self.state.log_sync.record(now.since(since));
                }
            }
            self.machine.step(now, event, &mut self.state.effects);
        }
        // Keeps its room for the next turn.
        self.state.batch = batch;
        if self.machine.next_wake() <= now {
            self.machine.step(now, Event::Timer, &mut self.state.effects);
        }
        self.machine.finish_turn(now, &mut self.state.effects);
        if drained && now.since(self.state.counted) >= COUNT_EVERY {
            self.state.counted = now;
            let due = self.machine.hand_overs_due();
            self.state.count_again = due > 0;
            self.drain.report(usize::from(self.door.lane.0), due);
        }
    }

    fn carry_out_guarded(&mut self) {
        self.outgoing.send_kept();
        let mut list = std::mem::take(&mut self.state.effects.list);
        for effect in list.drain(..) {
            if let Err(reason) = self.carry_out(effect) {
                self.state.fatal.get_or_insert(reason);
                break;
            }
        }
        self.state.effects.list = list;
        self.peers.flush();
        self.door.set_congested(self.outgoing.is_congested());
    }

    fn carry_out(&mut self, effect: Effect) -> Result<(), String> {
        match effect {
            Effect::Send { to, lane, frame } => self.peers.send(to, lane, frame),
            Effect::Mail { to, mail } => return self.send_mail(to, mail),
            Effect::Drained { drained } => self.drain.set(drained),
            Effect::Spent { ticket, spent } => self.door.tickets.tell_spent(ticket, spent),
            Effect::Reply { ticket, response } => self.door.tickets.answer(ticket, response),
            Effect::Log(action) => return self.log.submit(self.clock.now(), action),
            Effect::Engine(job) => return self.engine.submit(job),
            Effect::Address { node, address } => self.peers.connect(node, address),
            Effect::Forget { node } => self.peers.forget(node),
            Effect::Remember { announcements } => {
                // Members change seldom, so the core may wait for this one write.
                if let Err(error) = crate::remembered::write(&self.data, &announcements) {
                    tracing::warn!(%error, "hive-members.json cannot be written: after a restart this node asks the configured members");
                }
            }
            Effect::Directory { directory } => return (self.keep_directory)(directory),
            Effect::Incarnation { own, superseded_by } => return (self.keep_incarnation)(own, superseded_by),
            Effect::FormatLevel { level } => return (self.keep_level)(level),
            Effect::Change(change) => changes::log(&change),
            Effect::Note { level, text } => note(self.door.lane, level, &text),
            Effect::Halt { reason } => return Err(reason),
        }
        Ok(())
    }

    fn send_mail(&mut self, to: LaneId, mail: Mail) -> Result<(), String> {
        let letter = Event::Mail { from: self.door.lane, mail };
        if to == self.door.lane {
            self.door.push(letter);
            return Ok(());
        }
        if usize::from(to.0) >= self.outgoing.mates() {
            return Err(format!("lane {} wrote to lane {to}, which this node does not have", self.door.lane));
        }
        match self.outgoing.send(usize::from(to.0), letter) {
            true => Ok(()),
            false => Err(format!("lane {to} has not taken its mail; {MAIL_KEPT_MAX} letters wait")),
        }
    }

    fn lay_out_report(&mut self) {
        let mut metrics = Vec::new();
        self.machine.metrics(&mut metrics);
        let traffic = self.peers.traffic();
        let report = LaneReport {
            metrics,
            requests: self.door.latencies(),
            log_sync: self.state.log_sync.clone(),
            engine_write: self.engine.writes(),
            busiest: self.machine.busiest(BUSIEST_SHOWN),
            turn_events: self.state.turn_events,
            turns: self.state.turns,
            requests_waiting: self.door.tickets.in_use() as u64,
            peer_bytes_sent: traffic.bytes_sent,
            peer_frames_sent: traffic.frames_sent,
            peer_frames_dropped: traffic.frames_dropped,
        };
        if let Ok(mut shared) = self.report.lock() {
            *shared = report;
        }
    }
}

fn note(lane: LaneId, level: NoteLevel, text: &str) {
    match level {
        NoteLevel::Info => tracing::info!(lane = lane.0, "{text}"),
        NoteLevel::Warning => tracing::warn!(lane = lane.0, "{text}"),
        NoteLevel::Error => tracing::error!(lane = lane.0, "{text}"),
    }
}

/// What a panic said.
pub fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_string())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".into())
}
