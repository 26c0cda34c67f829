//! The thread beside a lane that writes its engines, and scrubs them.
//!
//! Always: jobs are done in the order given, one at a time; each is answered once; where CPU is short, the thread gets a third of
//! what a core gets that wants it too: what it writes is in the log already, and nobody waits for it.
//! Held by: `it_is_nicer_than_who_started_it`.
//! Not here: what is written and when (core-cluster).

use crate::lane::latency::Latency;
use base_engine::{Engine, EngineError};
use core_cluster::api::{EngineJob, EngineWork};
use core_node::api::Event;
use std::collections::BTreeMap;
use std::sync::mpsc::{sync_channel, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Jobs that may wait; the lane has one out for each engine, so a full queue is a bug.
const JOBS_QUEUED_MAX: usize = 1024;

/// How much nicer the thread is than those that clients wait for: a third of their weight (docs/figures.md). With 10, a ninth, it
/// does not keep up beside other busy programs: overlays fill, and writes are refused.
const NICENESS: i32 = 5;

/// Called with an engine that cannot be written because it is damaged, and what was found: before the lane hears of it.
pub type Damaged = Box<dyn Fn(&str, &str) + Send>;

/// The lane's end of the thread.
pub struct EngineThread {
    queue: Option<SyncSender<EngineJob>>,
    /// How long writes took.
    writes: Arc<Mutex<Latency>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl EngineThread {
    /// Starts it.
    pub fn start(
        name: &str,
        engines: &[Arc<dyn Engine>],
        report: crate::disk::Report,
        damaged: Damaged,
        spawn: impl Fn(String, Box<dyn FnOnce() + Send>) -> std::io::Result<std::thread::JoinHandle<()>>,
    ) -> std::io::Result<EngineThread> {
        let (queue, jobs) = sync_channel::<EngineJob>(JOBS_QUEUED_MAX);
        let engines: BTreeMap<&'static str, Arc<dyn Engine>> =
            engines.iter().map(|engine| (engine.name(), engine.clone())).collect();
        let writes = Arc::new(Mutex::new(Latency::default()));
        let counted = writes.clone();
        let work = move || {
            // SAFETY: changes nothing but the calling thread's own weight; to be nicer is refused to nobody.
            unsafe { libc::nice(NICENESS) };
            while let Ok(job) = jobs.recv() {
                let begun = Instant::now();
                let result = match engines.get(job.engine.as_str()) {
                    Some(engine) => job.work.carry_out(engine.as_ref()),
                    None => Err(EngineError::Io(format!("this node has no engine {:?}", job.engine))),
                };
                let writes = matches!(job.work, EngineWork::Write(_) | EngineWork::Flush(_));
                if writes {
                    counted.lock().unwrap_or_else(PoisonError::into_inner).record(begun.elapsed());
                }
                if let (true, Err(EngineError::Corrupt(found))) = (writes, &result) {
                    damaged(&job.engine, found);
                }
                report(Event::EngineDone { job: job.job, result });
            }
        };
        let thread = spawn(format!("{name}-eng"), Box::new(work))?;
        Ok(EngineThread { queue: Some(queue), writes, thread: Some(thread) })
    }

    /// How long writes took, their syncs included.
    pub fn writes(&self) -> Latency {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Hands a job over.
    pub fn submit(&mut self, job: EngineJob) -> Result<(), String> {
        let Some(queue) = &self.queue else { return Err("the engine's thread has been stopped".into()) };
        queue.try_send(job).map_err(|error| match error {
            TrySendError::Full(_) => format!("more than {JOBS_QUEUED_MAX} jobs wait for the engine"),
            TrySendError::Disconnected(_) => "the engine's thread has ended".into(),
        })
    }

    /// Finishes what was handed over and ends the thread.
    pub fn stop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A panic in it has been reported by its spawner.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine_memory::MemoryEngine;

    #[test]
    fn it_is_nicer_than_who_started_it() {
        // SAFETY: reads the calling thread's own weight.
        let niceness = || unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        let own = niceness();
        let (told, heard) = sync_channel(1);
        let report: crate::disk::Report = Box::new(move |_| told.send(niceness()).unwrap());
        let engines: Vec<Arc<dyn Engine>> = vec![Arc::new(MemoryEngine::new())];
        let spawn = |name, work| std::thread::Builder::new().name(name).spawn(work);
        let mut thread = EngineThread::start("test", &engines, report, Box::new(|_, _| ()), spawn).unwrap();
        thread.submit(EngineJob { job: 1, engine: "memory".into(), work: EngineWork::Forget(Vec::new()) }).unwrap();
        assert_eq!(heard.recv().unwrap(), (own + NICENESS).min(19));
        thread.stop();
        assert_eq!(niceness(), own, "and it alone");
    }
}
