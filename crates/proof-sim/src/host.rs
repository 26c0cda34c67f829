//! One simulated node: its cores, their disks and engines, its clock, and what is armed against it.
//!
//! Not here: the queue of what comes next (`world`), what goes wrong when (`faults`).

use crate::clock::Clock;
use crate::disk::SimDisk;
use crate::machine::Machine;
use base_types::{DiskId, NodeId};
use core_cluster::api::EngineJob;
use core_node::api::Event;
use core_placement::Labels;
use engine_memory::{MemoryEngine, MemoryImage};
use std::collections::VecDeque;
use std::sync::Arc;

/// A core's inbox beyond this is a bug of the core (or of the simulator).
pub const INBOX_EVENTS_MAX: usize = 200_000;

/// Images of a disk that are kept; they share what did not change.
const IMAGES_MAX: usize = 12;

/// One core of a node and what belongs to it.
pub struct LaneHost {
    pub machine: Option<Box<dyn Machine>>,
    pub inbox: VecDeque<Event>,
    /// A turn is in the queue.
    pub turn_due: bool,
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
    pub fn new() -> LaneHost {
        LaneHost {
            machine: None,
            inbox: VecDeque::new(),
            turn_due: false,
            wake_at: u64::MAX,
            disk: SimDisk::default(),
            engine: Arc::new(MemoryEngine::new()),
            mailed_until: 0,
            jobs: VecDeque::new(),
            job_running: None,
        }
    }
}

impl Default for LaneHost {
    fn default() -> Self {
        LaneHost::new()
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
    /// In this life a write was told to have failed or stalled: it may stop by itself.
    pub disk_failed: bool,
    pub images: VecDeque<DiskImage>,
    /// Down until somebody (a hazard's end, or healing) starts it.
    pub held_down: u32,
    /// Who the members of the level 0 clusters are, as it was last told to remember; as durable as its disk.
    pub remembered: Vec<core_node::api::Announcement>,
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
        self.images.push_back(DiskImage { taken_at: now, disk: self.disk_id, lanes });
        if self.images.len() > IMAGES_MAX {
            self.images.pop_front();
        }
    }
}
