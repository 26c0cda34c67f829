//! One simulated node: its cores, their disks and engines, its clock, and what is armed against it.
//!
//! Not here: the queue of what comes next (`world`), what goes wrong when (`faults`).

use crate::clock::Clock;
use crate::disk::SimDisk;
use crate::machine::Machine;
use base_types::{DiskId, FormatLevel, NodeId, Ticket};
use core_cluster::api::EngineJob;
use core_node::api::Event;
use core_placement::Labels;
use engine_memory::{MemoryEngine, MemoryImage};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// A core's inbox beyond this is a bug of the core (or of the simulator).
pub const INBOX_EVENTS_MAX: usize = 200_000;

/// Images of a disk that are kept; they share what did not change.
const IMAGES_MAX: usize = 12;

/// Events that wait for a core's turn.
///
/// Where turns take time, those of its own node come first, then those of peers, then those of clients, as a host has it
/// (edge-node, `lane.rs` and `lane/door.rs`); of what peers sent a bounded part waits, and the oldest goes (`peers/link.rs`);
/// a request whose client went away before its turn is taken out. Where turns take none, what waits is met in the order it
/// came: the host's own orders are among those that are drawn then.
pub struct Inbox {
    ranks: [VecDeque<Event>; RANKS],
    /// Frames that may wait, where turns take time.
    frames_max: Option<usize>,
    /// Requests that wait and are still wanted, where turns take time.
    wanted: BTreeSet<Ticket>,
    /// Events met so far.
    met: usize,
}

/// Own node, peers, clients.
const RANKS: usize = 3;
/// However much else waits, one event of so many is a client's.
const CLIENTS_SHARE: usize = 8;
/// Frames that wait are worth so much time of the core at most: 16,384 of a host's at 20 µs.
const FRAMES_WAITING_US_MAX: u64 = 330_000;

impl Inbox {
    /// Of a core whose events take so long.
    pub fn new(event_us: u64) -> Inbox {
        let frames_max = FRAMES_WAITING_US_MAX.checked_div(event_us).map(|count| count as usize);
        Inbox { ranks: Default::default(), frames_max, wanted: BTreeSet::new(), met: 0 }
    }

    pub fn push(&mut self, event: Event) {
        let Some(frames_max) = self.frames_max else { return self.ranks[0].push_back(event) };
        let rank = match &event {
            Event::Cancel { ticket } if self.wanted.remove(ticket) => return,
            Event::Cancel { .. } => 2,
            Event::Request { ticket, .. } => {
                self.wanted.insert(*ticket);
                2
            }
            Event::Frame { .. } => {
                if self.ranks[1].len() >= frames_max {
                    self.ranks[1].pop_front();
                }
                1
            }
            _ => 0,
        };
        self.ranks[rank].push_back(event);
    }

    pub fn pop(&mut self) -> Option<Event> {
        loop {
            self.met += 1;
            let client = if self.met.is_multiple_of(CLIENTS_SHARE) { self.ranks[RANKS - 1].pop_front() } else { None };
            let event = client.or_else(|| self.ranks.iter_mut().find_map(VecDeque::pop_front))?;
            match &event {
                Event::Request { ticket, .. } if self.frames_max.is_some() && !self.wanted.remove(ticket) => {}
                _ => return Some(event),
            }
        }
    }

    pub fn len(&self) -> usize {
        self.ranks.iter().map(VecDeque::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn clear(&mut self) {
        self.ranks.iter_mut().for_each(VecDeque::clear);
        self.wanted.clear();
    }
}

/// One core of a node and what belongs to it.
pub struct LaneHost {
    pub machine: Option<Box<dyn Machine>>,
    pub inbox: Inbox,
    /// A turn is in the queue.
    pub turn_due: bool,
    /// The core is at work on its last turn until then, where turns take time.
    pub busy_until: u64,
    /// The true time of the wake that is in the queue; `u64::MAX`: none.
    pub wake_at: u64,
    pub disk: SimDisk,
    pub engine: Arc<MemoryEngine>,
    /// When the last mail this core sent arrives: a host keeps the order of what one core sends.
    pub mailed_until: u64,
    pub jobs: VecDeque<EngineJob>,
    pub job_running: Option<EngineJob>,
}

impl LaneHost {
    /// A core whose events take so long.
    pub fn new(event_us: u64) -> LaneHost {
        LaneHost {
            machine: None,
            inbox: Inbox::new(event_us),
            turn_due: false,
            busy_until: 0,
            wake_at: u64::MAX,
            disk: SimDisk::default(),
            engine: Arc::new(MemoryEngine::new()),
            mailed_until: 0,
            jobs: VecDeque::new(),
            job_running: None,
        }
    }
}

/// A death that waits for its moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Armed {
    /// In the next turn, after so many effects.
    InTurn { effects: usize, down_us: u64 },
    /// So long after a turn in which a term changed.
    AtVote { after_us: u64, down_us: u64 },
}

/// What a disk held at one moment.
pub struct DiskImage {
    pub taken_at: u64,
    pub disk: DiskId,
    pub level: FormatLevel,
    pub lanes: Vec<(SimDisk, MemoryImage)>,
}

/// One node.
pub struct Node {
    pub id: NodeId,
    pub labels: Labels,
    pub disk_id: DiskId,
    /// Raised by every start and every death: what was meant for an earlier life is not delivered.
    pub life: u64,
    pub running: bool,
    /// Since when it is down.
    pub down_since: u64,
    /// Stopped until then.
    pub paused_until: u64,
    /// When it was last paused or its clock bent: its clients cannot expect answers in time.
    pub disturbed_at: u64,
    pub clock: Clock,
    /// How far its wall clock is off.
    pub wall_off_ms: i64,
    pub lanes: Vec<LaneHost>,
    /// When each core ends the turn it is in. Fewer than lanes: those share a core by turns.
    pub cores: Vec<u64>,
    pub armed: Option<Armed>,
    pub stalled_until: u64,
    /// Since when no write has ended, while it is stalled.
    pub stalled_since: u64,
    /// Every log write takes up to so much longer.
    pub slow_disk_us: u64,
    /// It lost its disk.
    pub wiped: bool,
    /// The log on its present disk rotted, or that disk lied about what it wrote.
    pub disk_lied: bool,
    /// Bytes of its present disk were destroyed: it may refuse to start or stop by itself. Errors, stalls and want of room
    /// destroy nothing.
    pub disk_suspect: bool,
    /// In this life a write failed or stalled: the node may stop by itself.
    pub disk_failed: bool,
    pub images: VecDeque<DiskImage>,
    /// Down until somebody (a hazard's end, or healing) starts it.
    pub held_down: u32,
    /// The world's format level as it has kept it, as durable as its disk; and the greatest that its program serves.
    pub level: FormatLevel,
    pub level_max: FormatLevel,
    /// Its program served more before its last start.
    pub rolled_back: bool,
    /// Who the members of the level 0 clusters are, as it was last told to remember; as durable as its disk.
    pub remembered: Vec<core_node::api::Announcement>,
    /// The directory of users that it keeps.
    pub directory: std::sync::Arc<core_node::api::Directory>,
}

impl Node {
    /// Whether a lane may have its turn now: none of its core's other lanes has one. Otherwise when.
    pub fn take_core(&mut self, lane: usize, now: u64, turn_us: u64) -> Result<(), u64> {
        if self.cores.len() >= self.lanes.len() {
            return Ok(());
        }
        let core = lane % self.cores.len().max(1);
        match self.cores.get_mut(core) {
            Some(busy_until) if *busy_until > now => Err(*busy_until),
            Some(busy_until) => {
                *busy_until = now + turn_us;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Everything its disk holds, now.
    pub fn take_image(&mut self, now: u64) {
        let lanes = self
            .lanes
            .iter()
            .map(|lane| {
                let disk =
                    SimDisk { segments: lane.disk.segments.clone(), reached: lane.disk.reached, ..SimDisk::default() };
                (disk, lane.engine.image())
            })
            .collect();
        self.images.push_back(DiskImage { taken_at: now, disk: self.disk_id, level: self.level, lanes });
        if self.images.len() > IMAGES_MAX {
            self.images.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base_types::action::{Action, Request};
    use base_types::Tick;
    use bytes::Bytes;
    use std::time::Duration;

    fn request(number: u64) -> Event {
        let request = Request {
            action: Action::Status,
            consistency: None,
            read_consistency: None,
            deadline: Duration::from_secs(1),
            request_id: None,
            after: None,
            expected_bucket_owner: None,
            caller: base_types::access::Caller::Anyone,
        };
        Event::Request { ticket: Ticket(number), asked: Tick(0), request }
    }

    fn frame(number: u64) -> Event {
        Event::Frame { from: NodeId(number), frame: Bytes::new() }
    }

    fn met(inbox: &mut Inbox) -> Vec<String> {
        let name = |event: Event| match event {
            Event::Request { ticket, .. } => format!("request {}", ticket.0),
            Event::Cancel { ticket } => format!("cancel {}", ticket.0),
            Event::Frame { from, .. } => format!("frame {}", from.0),
            _ => "own".to_string(),
        };
        std::iter::from_fn(|| inbox.pop()).map(name).collect()
    }

    #[test]
    fn busy_core_meets_own_events_then_peers_then_clients() {
        let mut inbox = Inbox::new(100_000);
        let cancel = |number| Event::Cancel { ticket: Ticket(number) };
        let events =
            [request(1), request(2), cancel(1), cancel(7), frame(1), frame(2), frame(3), frame(4), Event::Timer];
        events.into_iter().for_each(|event| inbox.push(event));
        let all = ["own", "frame 2", "frame 3", "frame 4", "request 2", "cancel 7"];
        assert_eq!(met(&mut inbox), all, "the oldest frame goes where three are all that may wait");
        let mut inbox = Inbox::new(0);
        [request(1), frame(1), cancel(1), Event::Timer].into_iter().for_each(|event| inbox.push(event));
        assert_eq!(met(&mut inbox), ["request 1", "frame 1", "cancel 1", "own"]);
    }
}
