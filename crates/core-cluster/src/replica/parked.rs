//! Reads that wait for a change: a member keeps them until one is applied, so that nobody polls.
//!
//! ```text
//!   read ──nothing yet──▶ kept ──a change is applied──▶ read once more ──▶ answered, or kept on from there
//!                          └──its time is over──▶ read once more ──▶ answered, perhaps with nothing
//! ```
//!
//! Whether a read waits, and what it asks next, its backend says (`Backend::waits`, `next_query`). Any member keeps reads, by what
//! it has applied; a read at level strong is kept after its round. Kept reads wake no cluster and hold none awake: their end is an
//! alarm of the lane. A leader announces the commit of what they may wait for, so that other members apply it at once and not with the
//! next heartbeat.
//!
//! Always: a read that may be kept is answered, never refused, whatever is kept already: beyond a bound at once. No change that was
//! applied is passed over (mutant `ParkedReadSkipsChange`), and none waits for the read's end (mutant `ParkedReadForgotten`).
//! Not here: how long a router waits for the answer (core-node, `router.rs`). Why: decision 0080.

use crate::api::PARK_MAX;
use crate::context::LaneContext;
use crate::replica::reads::WaitingRead;
use crate::replica::Replica;
use base_types::mutant::{planted, Mutant};
use base_types::sizes::Sizes;
use base_types::{BackendKind, ReadConsistency, Tick};
use bytes::Bytes;
use std::time::Duration;

/// What is kept of a read's deadline for its answer's way.
const PARK_MARGIN: Duration = Duration::from_millis(50);
/// Reads that one replica keeps. Each is read once more after each turn that changed its space, so a door keeps one for many
/// watchers.
const PARKED_READS_MAX: usize = 256;
/// Longer queries are not kept.
const PARKED_QUERY_BYTES_MAX: usize = 4_096;

struct ParkedRead {
    /// Its query continues from what was there when it was last looked at.
    read: WaitingRead,
    level: ReadConsistency,
    until: Tick,
}

/// What a replica keeps.
#[derive(Default)]
pub struct Parked {
    reads: Vec<ParkedRead>,
}

impl Parked {
    /// When the first of them is over.
    pub fn first_end(&self) -> Tick {
        self.reads.iter().map(|kept| kept.until).min().unwrap_or(Tick::NEVER)
    }

    pub fn sizes(&self, sizes: &mut Sizes) {
        sizes.passing("reads kept, a replica", self.reads.len(), PARKED_READS_MAX);
    }
}

/// Keeps a read that was given nothing. Gives it back if it is to be answered now.
pub fn park(
    replica: &mut Replica,
    now: Tick,
    read: WaitingRead,
    level: ReadConsistency,
    reply: &Bytes,
) -> Option<WaitingRead> {
    if !core_backends::waits(read.backend, &read.query) {
        return Some(read);
    }
    let until = (now + PARK_MAX).min(Tick(read.deadline.0.saturating_sub(PARK_MARGIN.as_micros() as u64)));
    keep(replica, now, ParkedRead { read, level, until }, reply)
}

fn keep(replica: &mut Replica, now: Tick, mut kept: ParkedRead, reply: &Bytes) -> Option<WaitingRead> {
    let reads = &mut replica.parked.reads;
    if now >= kept.until || reads.len() >= PARKED_READS_MAX || kept.read.query.len() > PARKED_QUERY_BYTES_MAX {
        return Some(kept.read);
    }
    match core_backends::next_query(kept.read.backend, &kept.read.query, reply) {
        Some(query) => {
            kept.read.query = query;
            reads.push(kept);
            None
        }
        None => Some(kept.read),
    }
}

/// Looks at the reads that a change may serve, and at those whose time is over. `changed`: the spaces, a bit for each backend.
pub fn wake(replica: &mut Replica, lane: &mut LaneContext, now: Tick, changed: u16) {
    if replica.parked.reads.is_empty() {
        return;
    }
    let changed = if planted(Mutant::ParkedReadForgotten) { 0 } else { changed };
    let woken = |kept: &mut ParkedRead| kept.until <= now || changed & 1 << kept.read.backend as u8 != 0;
    let woken: Vec<ParkedRead> = replica.parked.reads.extract_if(.., woken).collect();
    for kept in woken {
        let answer = replica.read_now(now, &kept.read);
        let (read, level) = match &answer {
            Ok(reply) => {
                let level = kept.level;
                match keep(replica, now, kept, reply) {
                    Some(read) => (read, level),
                    None => continue,
                }
            }
            Err(_) => (kept.read, kept.level),
        };
        replica.complete_read(lane, now, &read, level, answer);
    }
}

/// Whether reads may wait, at whatever member, for what has changed. `changed`: the spaces, a bit for each backend.
pub fn may_wait_for(changed: u16) -> bool {
    changed != 0
        && BackendKind::ALL
            .into_iter()
            .any(|backend| changed & 1 << backend as u8 != 0 && core_backends::has_waiting_queries(backend))
}

/// The replica is given up: another member has what they wait for.
pub fn fail(replica: &mut Replica, lane: &mut LaneContext) {
    for kept in std::mem::take(&mut replica.parked.reads) {
        let outcome = replica.quarantine_outcome(lane).unwrap_or_else(|| replica.not_leader());
        kept.read.complete(lane, outcome);
    }
}
