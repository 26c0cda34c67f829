//! The lengths of a lane's queues and tables beside their bounds, for whoever proves that none grows
//! without end.
//!
//! Always: reading changes nothing.
//! Not here: what enforces a bound (each file its own: writes and reads are refused, appends dropped).

use crate::meta::MEMBERS_MAX;
use crate::replica::Replica;
use crate::shared::{Shared, OVERLAY_BYTES_MIN, STAGED_BATCHES_MAX};
use crate::snapshot::SENDERS_MAX;
use crate::writes::PENDING_WRITES_MAX;
use base_types::sizes::Sizes;

/// Jobs of one engine: spaces to drop, mostly. A flush is one job, a snapshot coming in one more. With so many spaces to
/// drop a lane makes no new replicas and takes no snapshots ([`Shared::is_crowded`]); none that is to go is forgotten.
pub const ENGINE_JOBS_MAX: usize = 10_000;
/// Readies that wait for the log; each stages at least a record, and staged bytes are bounded.
const READIES_UNSYNCED_MAX: usize = 65_536;
/// What the events of one turn may add before pressure is looked at again.
const TURN_BYTES: usize = 4 << 20;
/// Followers drop appends at this many times the bound of an unpressed lane (`Shared::is_pressed`).
const PRESSED_TIMES_MAX: usize = 8;

impl Shared {
    pub fn sizes(&self, sizes: &mut Sizes) {
        let overlay = (self.config.flush_bytes.max(OVERLAY_BYTES_MIN) as usize).saturating_mul(PRESSED_TIMES_MAX);
        let staged = self.config.log.batch_bytes_max * STAGED_BATCHES_MAX as usize * PRESSED_TIMES_MAX;
        sizes.lasting("overlay bytes, a lane", self.statistics.overlay_bytes as usize, overlay + TURN_BYTES);
        sizes.passing("log bytes staged, a lane", self.log.borrow().staged_bytes() as usize, staged + TURN_BYTES);
        sizes.passing("readies waiting for the log, a lane", self.awaiting_sync.len(), READIES_UNSYNCED_MAX);
        sizes.passing("spaces to drop, a lane", self.drops.len(), ENGINE_JOBS_MAX);
        sizes.passing("snapshots going out, a lane", self.snapshot_senders, SENDERS_MAX);
        self.jobs.sizes(sizes);
    }
}

impl Replica {
    pub fn sizes(&self, sizes: &mut Sizes) {
        let proposed: usize = self.proposed.iter().map(|proposed| proposed.writes.len()).sum();
        // Counted twice: by the counter that guards the bound, and one by one.
        let held = self.staged.len() + proposed + self.absolute.len();
        sizes.passing("writes waiting, a replica", held.max(self.pending_writes), PENDING_WRITES_MAX);
        sizes.lasting("replicas heard from, a replica", self.heard_from.len(), MEMBERS_MAX);
        self.tail_sizes(sizes);
        self.senders.values().for_each(|sender| sender.sizes(sizes));
        self.incoming.iter().for_each(|incoming| incoming.sizes(sizes));
        self.mending.iter().for_each(|mending| mending.sizes(sizes));
        self.verification.iter().for_each(|run| run.sizes(sizes));
        self.reads.sizes(sizes);
        self.admin.sizes(sizes);
        self.request_ids.sizes(sizes);
    }
}
