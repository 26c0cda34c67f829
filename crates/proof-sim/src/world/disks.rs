//! When the writes of logs and engines end.
//!
//! Always: one action of a log and one job of an engine are under way at a time.
//! Not here: what a crash leaves (`disk`).

use super::{Due, World};
use crate::disk::Finished;
use crate::host::LaneHost;
use base_engine::EngineError;
use core_cluster::api::{EngineAnswer, EngineWork};
use core_log::LogAction;
use core_node::api::Event;
use proof_check::Violation;

impl World {
    pub(super) fn kick_disk(&mut self, node: usize, lane: usize) {
        let (now, life) = (self.now, self.nodes[node].life);
        let stalled = self.nodes[node].stalled_until;
        let Some(action) = self.nodes[node].lanes[lane].disk.begin() else { return };
        let (stalls, is_write) = (stalled > now, matches!(action, LogAction::Write { .. }));
        let takes = match action {
            LogAction::Write { .. } => {
                let slow = self.nodes[node].slow_disk_us;
                self.random.disk.between(60, 400) + if slow > 0 { self.random.disk.below(slow) } else { 0 }
            }
            LogAction::Prepare { .. } => self.random.disk.between(500, 4_000),
            LogAction::Remove { .. } => 50,
        };
        let at = (now + takes).max(stalled);
        self.schedule(at, Due::DiskDone { node, lane, life });
        if stalls {
            self.note_stall(node, lane, at, is_write);
        }
    }

    /// A fault on a disk ended: operations that waited for it continue.
    pub fn kick_disks(&mut self, node: usize) {
        for lane in 0..self.nodes[node].lanes.len() {
            if self.nodes[node].running {
                self.kick_disk(node, lane);
            }
        }
    }

    pub(super) fn disk_done(&mut self, node: usize, lane: usize, life: u64) {
        if !self.is_alive(node, life) {
            return;
        }
        let segment_bytes = self.plan.tuning.segment_bytes;
        let disk = &mut self.nodes[node].lanes[lane].disk;
        let finished = disk.finish(segment_bytes, &mut self.random.disk);
        if matches!(finished, Some(Finished::Failed(_) | Finished::Unprepared(_))) {
            disk.queue.clear();
        }
        let event = match finished {
            Some(Finished::Written(batch)) => Some(Event::LogWritten { batch }),
            Some(Finished::Ready(segment)) => Some(Event::LogSegmentReady { segment }),
            Some(Finished::NoRoom(segment)) => {
                self.probe("segment_without_room");
                Some(Event::LogSegmentFailed { segment })
            }
            Some(Finished::Failed(message)) => Some(Event::LogFailed { message }),
            Some(Finished::Unprepared(message)) => {
                let told = format!("node {}: {message}", self.nodes[node].id);
                self.violate(Violation::new("disk", told, vec![]));
                Some(Event::LogFailed { message })
            }
            Some(Finished::Removed) | None => None,
        };
        if let Some(event) = event {
            self.nodes[node].disk_failed |= matches!(event, Event::LogFailed { .. });
            self.post(node, lane, event);
        }
        self.kick_disk(node, lane);
    }

    pub(super) fn kick_engine(&mut self, node: usize, lane: usize) {
        let life = self.nodes[node].life;
        let host = &mut self.nodes[node].lanes[lane];
        if host.job_running.is_none() {
            host.job_running = host.jobs.pop_front();
            if host.job_running.is_some() {
                let at = self.now + self.random.disk.between(100, 5_000);
                self.schedule(at, Due::JobDone { node, lane, life });
            }
        }
    }

    pub(super) fn job_done(&mut self, node: usize, lane: usize, life: u64) {
        if !self.is_alive(node, life) {
            return;
        }
        let host = &mut self.nodes[node].lanes[lane];
        let Some(job) = host.job_running.take() else { return };
        let result = run_job(host, &job.work);
        self.nodes[node].disk_failed |= result.is_err();
        self.note_kept(node, lane);
        self.post(node, lane, Event::EngineDone { job: job.job, result });
        self.kick_engine(node, lane);
    }
}

pub(super) fn run_job(host: &LaneHost, work: &EngineWork) -> Result<EngineAnswer, EngineError> {
    work.carry_out(&*host.engine)
}
