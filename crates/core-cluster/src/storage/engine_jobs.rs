//! The jobs of engines' threads: flushes, chunks of snapshots, spaces to drop, parts of a scrub.
//!
//! One job of an engine is out at a time.
//!
//! ```text
//!   urgent   flushes, chunks of snapshots, layers to free     in order; first
//!   lazy     spaces to drop, chunk by chunk; parts of a scrub   one after URGENT_IN_A_ROW_MAX urgent ones
//! ```
//!
//! Always: a space is never dropped before a write that was queued earlier (mutant `DropsOvertakeWrites`). A flush that
//! failed for lack of space is repeated unchanged, and writes are refused meanwhile; any other failure ends the lane.
//! Not here: what a flush writes (`replica/flush.rs`), who carries jobs out (the host).

use crate::api::{EngineAnswer, EngineJob, EngineWork, Flush, Layer};
use base_engine::{EngineError, VerifiedPart, WriteBatch};
use base_types::mutant::{planted, Mutant};
use base_types::sizes::Sizes;
use base_types::{ClusterId, SpaceId, Tick};
use bytes::Bytes;
use core_raft::SnapshotPoint;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Jobs of one engine, most of them spaces to drop. A flush is one job, a snapshot that arrives is another. With so many
/// spaces to drop a lane creates no replicas and takes no snapshots ([`Jobs::is_crowded`]); no drop is left out.
pub const ENGINE_JOBS_MAX: usize = 10_000;
/// Pairs removed in one step when a space is dropped.
const DROP_PAIRS: usize = 2_000;
/// Layers with fewer pairs are let go of at once: a job takes longer.
const FORGET_PAIRS_MIN: usize = 256;
/// So many urgent jobs go out in a row while lazy ones wait; then one lazy job. So a flush waits for two chunks of drops
/// at most, and drops make headway under endless flushes.
const URGENT_IN_A_ROW_MAX: u32 = 4;
/// A flush that found the disk full is repeated after this long.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Whom a finished job concerns.
#[derive(Clone, Debug)]
pub enum JobTarget {
    /// The overlays of these clusters: cluster, its space then, what is durable now.
    Flush(Vec<(ClusterId, SpaceId, SnapshotPoint)>),
    Staging {
        cluster: ClusterId,
        snapshot: u64,
    },
    Drop,
    /// Layers that were written.
    Forget,
    /// A part of a scrub.
    Verify,
}

impl JobTarget {
    fn writes_to(&self, space: SpaceId) -> bool {
        matches!(self, JobTarget::Flush(points) if points.iter().any(|(_, flushed, _)| *flushed == space))
    }
}

struct Job {
    number: u64,
    target: JobTarget,
    work: EngineWork,
}

#[derive(Default)]
struct Queue {
    out: Option<Job>,
    urgent: VecDeque<Job>,
    lazy: VecDeque<Job>,
    /// Urgent jobs that went out since a lazy one did.
    in_a_row: u32,
    /// A flush that found no room, and when it is tried again. What makes room may go before it.
    starved: Option<(Tick, Job)>,
    flushing: bool,
}

impl Queue {
    /// The next job to go out. While a flush waits for room, the others pass it: drops first, since they make room, but
    /// for those of spaces it would write to again.
    fn take(&mut self, now: Tick) -> Option<Job> {
        if let Some((_, job)) = self.starved.take_if(|(at, _)| *at <= now) {
            return Some(job);
        }
        let lazy = self.next_lazy();
        let its_turn = self.in_a_row >= URGENT_IN_A_ROW_MAX || self.starved.is_some() || self.urgent.is_empty();
        if let Some(at) = lazy.filter(|_| its_turn) {
            self.in_a_row = 0;
            return self.lazy.remove(at);
        }
        self.in_a_row += u32::from(!self.urgent.is_empty());
        self.urgent.pop_front()
    }

    /// The first lazy job that may go: no older write waits that could be for the same space.
    fn next_lazy(&self) -> Option<usize> {
        let oldest_write = self.urgent.front().map_or(u64::MAX, |job| job.number);
        let may_go = |job: &Job| match (&self.starved, &job.work) {
            _ if job.number > oldest_write && !planted(Mutant::DropsOvertakeWrites) => false,
            (Some((_, flush)), EngineWork::DropSpace { space, .. }) => !flush.target.writes_to(*space),
            _ => true,
        };
        self.lazy.iter().position(may_go)
    }

    fn len(&self) -> usize {
        self.urgent.len() + self.lazy.len() + usize::from(self.out.is_some()) + usize::from(self.starved.is_some())
    }
}

/// The jobs of a lane, one queue an engine.
#[derive(Default)]
pub struct Jobs {
    queues: BTreeMap<String, Queue>,
    next: u64,
}

/// A job that ended.
pub struct Ended {
    pub target: JobTarget,
    pub written: bool,
    /// Of a scrub: the engine's name, and what was found.
    pub verified: Option<(String, Result<VerifiedPart, EngineError>)>,
}

impl Ended {
    fn new(target: JobTarget, written: bool) -> Ended {
        Ended { target, written, verified: None }
    }
}

impl Jobs {
    pub fn sizes(&self, sizes: &mut Sizes) {
        for queue in self.queues.values() {
            sizes.passing("engine jobs, an engine", queue.len(), ENGINE_JOBS_MAX);
        }
    }

    /// Whether an engine has so many spaces to drop that no new ones should be made. None is ever left out: so the queue
    /// is bounded by this and the spaces that there were when it was reached.
    pub fn is_crowded(&self) -> bool {
        self.queues.values().any(|queue| queue.lazy.len() >= ENGINE_JOBS_MAX)
    }

    fn push(&mut self, engine: &str, target: JobTarget, work: EngineWork) {
        self.next += 1;
        let number = self.next;
        let queue = self.queues.entry(engine.to_string()).or_default();
        let job = Job { number, target, work };
        match &job.work {
            _ if planted(Mutant::FlushWaitsForDrops) => queue.urgent.push_back(job),
            EngineWork::DropSpace { .. } => queue.lazy.push_back(job),
            // One at a time, and it is paced (scrub.rs): it need not wait for every space that is dropped.
            EngineWork::Verify { .. } => queue.lazy.push_front(job),
            _ => queue.urgent.push_back(job),
        }
    }

    pub fn write(&mut self, engine: &str, target: JobTarget, batch: WriteBatch) {
        self.push(engine, target, EngineWork::Write(Arc::new(batch)));
    }

    pub fn drop_space(&mut self, engine: &str, space: SpaceId) {
        self.push(engine, JobTarget::Drop, EngineWork::DropSpace { space, limit: DROP_PAIRS });
    }

    pub fn verify(&mut self, engine: &str, after: Bytes) {
        self.push(engine, JobTarget::Verify, EngineWork::Verify { after });
    }

    pub fn is_flushing(&self, engine: &str) -> bool {
        self.queues.get(engine).is_some_and(|queue| queue.flushing)
    }

    /// Whether any engine has a flush out.
    pub fn is_any_flushing(&self) -> bool {
        self.queues.values().any(|queue| queue.flushing)
    }

    /// Lets go of layers that are written, on the engine's thread where that takes long.
    pub fn forget(&mut self, engine: &str, layers: Vec<Arc<Layer>>) {
        if layers.iter().map(|layer| layer.len()).sum::<usize>() >= FORGET_PAIRS_MIN {
            self.push(engine, JobTarget::Forget, EngineWork::Forget(layers));
        }
    }

    pub fn flush(&mut self, engine: &str, target: JobTarget, flush: Flush) {
        self.push(engine, target, EngineWork::Flush(Arc::new(flush)));
        self.queues.get_mut(engine).expect("just pushed").flushing = true;
    }

    /// The next job of each engine that is free.
    pub fn poll(&mut self, now: Tick, out: &mut Vec<EngineJob>) {
        for (engine, queue) in &mut self.queues {
            if queue.out.is_some() {
                continue;
            }
            if let Some(mut job) = queue.take(now) {
                let work = match &mut job.work {
                    // The holder of the last of them pays for freeing it.
                    EngineWork::Forget(layers) => EngineWork::Forget(std::mem::take(layers)),
                    work => work.clone(),
                };
                out.push(EngineJob { job: job.number, engine: engine.clone(), work });
                queue.out = Some(job);
            }
        }
    }

    pub fn next_wake(&self) -> Tick {
        let starved = self.queues.values().filter_map(|queue| queue.starved.as_ref());
        starved.map(|(at, _)| *at).min().unwrap_or(Tick::NEVER)
    }

    /// A job came back. `Err`: the engine failed in a way that cannot be gone on from.
    pub fn on_done(
        &mut self,
        now: Tick,
        number: u64,
        result: Result<EngineAnswer, EngineError>,
    ) -> Result<Option<Ended>, (String, EngineError)> {
        let found = self.queues.iter_mut().find(|(_, q)| q.out.as_ref().is_some_and(|job| job.number == number));
        let Some((engine, queue)) = found else { return Ok(None) };
        let job = queue.out.take().expect("found by it");
        if matches!(job.target, JobTarget::Verify) {
            // Whatever is wrong: the engine continues to serve what is not damaged.
            let found = result.map(|answer| match answer {
                EngineAnswer::Verified(part) => part,
                _ => VerifiedPart::default(),
            });
            return Ok(Some(Ended { verified: Some((engine.clone(), found)), ..Ended::new(job.target, true) }));
        }
        match result {
            Ok(answer) => {
                if matches!(job.target, JobTarget::Flush(_)) {
                    queue.flushing = false;
                }
                if let (JobTarget::Drop, EngineAnswer::More) = (&job.target, answer) {
                    match planted(Mutant::FlushWaitsForDrops) {
                        true => queue.urgent.push_back(job),
                        false => queue.lazy.push_back(job),
                    }
                    return Ok(None);
                }
                Ok(Some(Ended::new(job.target, true)))
            }
            Err(EngineError::Full(_)) if matches!(job.target, JobTarget::Flush(_)) => {
                queue.starved = Some((now + RETRY_AFTER, job));
                Ok(None)
            }
            // What is damaged beyond being dropped is left: no replica reads it, and the scrub reports it.
            Err(EngineError::Corrupt(_)) if matches!(job.target, JobTarget::Drop) => {
                Ok(Some(Ended::new(job.target, false)))
            }
            Err(EngineError::Full(_)) => Ok(Some(Ended::new(job.target, false))),
            Err(error) => Err((engine.clone(), error)),
        }
    }

    /// Whether a flush waits for room.
    pub fn is_starved(&self) -> bool {
        self.queues.values().any(|queue| queue.starved.is_some())
    }
}

#[cfg(test)]
pub(crate) mod tests;
