//! Opening a store: its directory, its cores' engines and logs, and their threads.
//!
//! ```text
//!   a core   owner (pinned): mailbox ─▶ log     segments: made, recycled, removed     flusher: memory ─▶ engine
//! ```
//!
//! Always: a store that is refused is left as it was; a thread that panics latches the store.
//! Held by: `other_directories_are_refused_untouched`.
//! Not here: what the threads do (`owner.rs`, `flusher.rs`, edge-disk).

use crate::core::{Core, Shared};
use crate::directory::Directory;
use crate::error::OpenError;
use crate::flusher::{self, Job};
use crate::journal::{self, Journal};
use crate::options::{Options, CORES_MAX, SEGMENT_BYTES_MIN};
use crate::owner::{Event, Owner, State, QUEUED_MAX};
use crate::{engines, recovery};
use base_engine::{Engine, EngineError};
use core_log::LogError;
use edge_disk::segments::Segments;
use edge_disk::writer::Writer;
use edge_disk::{LogDirectory, Report};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::Arc;
use std::thread::JoinHandle;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// An open store.
pub struct Opened {
    pub engine: String,
    pub shared: Arc<Shared>,
    pub threads: Vec<JoinHandle<()>>,
    pub notes: Vec<String>,
}

/// Opens a store, or makes it.
pub fn open(path: &Path, options: Options) -> Result<Opened, OpenError> {
    check(&options)?;
    let directory = Directory::open(path, &options)?;
    let name = directory.path.display().to_string();
    let mut parts = Vec::new();
    let mut notes = Vec::new();
    let mut lost = false;
    for core in 0..directory.marker.cores {
        let (engine, journal, findings) = open_core(&directory, core, &options)?;
        notes.extend(findings.0);
        lost |= findings.1;
        parts.push((engine, journal));
    }
    if lost && !options.accept_damage {
        let found = notes.join("; ");
        let reason = format!("{found}; restore it from a copy, or open it with `accept_damage` and lose what rotted");
        return Err(OpenError::Corrupt { path: name, reason });
    }
    let (engines, mut journals): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
    let (durable, last) = replay(&name, &mut journals, &engines)?;
    let cores = engines.iter().zip(&durable).enumerate();
    let cores = cores.map(|(number, (engine, durable))| Core::new(number as u16, engine.clone(), *durable)).collect();
    let engine = directory.marker.engine.clone();
    let logs = (0..directory.marker.cores).map(|core| directory.log(core)).collect();
    let shared = Arc::new(Shared::new(directory, options, cores, last));
    let threads = start(logs, &shared, journals)?;
    Ok(Opened { engine, shared, threads, notes })
}

fn check(options: &Options) -> Result<(), OpenError> {
    let invalid = |reason: String| Err(OpenError::Invalid(reason));
    if options.cores.is_some_and(|cores| cores == 0 || cores > CORES_MAX) {
        return invalid(format!("a store has 1 to {CORES_MAX} cores"));
    }
    if options.segment_bytes < SEGMENT_BYTES_MIN || options.segment_bytes > 64 << 20 {
        return invalid(format!("segment_bytes is {SEGMENT_BYTES_MIN} to {}", 64 << 20));
    }
    Ok(())
}

type CoreParts = (Arc<dyn Engine>, Journal, (Vec<String>, bool));

fn open_core(directory: &Directory, core: u16, options: &Options) -> Result<CoreParts, OpenError> {
    let (path, marker) = (directory.path.display().to_string(), &directory.marker);
    let engine_failed = |source: EngineError| OpenError::Engine { path: path.clone(), core, source };
    let engine_path = directory.engine(core);
    let made = edge_disk::files::make_directory(&engine_path);
    made.map_err(|error| OpenError::Io { path: engine_path.display().to_string(), reason: error.to_string() })?;
    let identity = format!("store {:016x} core {core}", marker.store);
    let engine = engines::open(&marker.engine, &engine_path, identity, options).map_err(engine_failed)?;
    let share = options.memory_bytes_max / u64::from(marker.cores);
    let config = journal::config(options.segment_bytes, share);
    let log_identity = xxh3_64_with_seed(&core.to_le_bytes(), marker.store);
    let mut disk = LogDirectory::new(&directory.log(core));
    let (journal, report) =
        Journal::recover(&mut disk, config, log_identity).map_err(|error| log_failed(&path, core, error))?;
    let held = engine.durable_index(flusher::SPACE).map_err(engine_failed)?;
    let gone = match (held.0 > 0, report.batches > 0, journal.was_cut()) {
        (true, false, _) => Some("log segments are"),
        (false, _, true) => Some("engine's files are"),
        _ => None,
    };
    if let Some(gone) = gone {
        let reason =
            format!("core {core}: the {gone} gone, and with them acknowledged writes; restore the store from a copy");
        return Err(OpenError::Corrupt { path, reason });
    }
    Ok((engine, journal, recovery::findings(core, &report)))
}

fn log_failed(path: &str, core: u16, error: LogError) -> OpenError {
    match error {
        LogError::WrongFormat(reason) => OpenError::Corrupt {
            path: path.into(),
            reason: format!("log of core {core}: {reason}; put the store's own files back, or use a newer build"),
        },
        other => OpenError::Io { path: format!("{path}/core-{core}/log"), reason: other.to_string() },
    }
}

/// Up to which number each engine holds everything, and the last number.
fn replay(path: &str, journals: &mut [Journal], engines: &[Arc<dyn Engine>]) -> Result<(Vec<u64>, u64), OpenError> {
    let failed = |core: u16, source: EngineError| OpenError::Engine { path: path.into(), core, source };
    let indexes = || -> Result<Vec<u64>, OpenError> {
        let of = |(core, engine): (usize, &Arc<dyn Engine>)| {
            engine.durable_index(flusher::SPACE).map(|index| index.0).map_err(|error| failed(core as u16, error))
        };
        engines.iter().enumerate().map(of).collect()
    };
    let replay = recovery::replay(journals, &indexes()?).map_err(|error| OpenError::Corrupt {
        path: path.into(),
        reason: format!("a log entry is no write of a store: {error}; use a newer build"),
    })?;
    let last = recovery::finish(replay, journals, engines).map_err(|(core, error)| failed(core, error))?;
    Ok((indexes()?, last))
}

/// Starts the threads of every core; those already started end if one cannot be.
fn start(logs: Vec<PathBuf>, shared: &Arc<Shared>, journals: Vec<Journal>) -> Result<Vec<JoinHandle<()>>, OpenError> {
    let mut threads = Vec::new();
    for (core, (journal, log)) in journals.into_iter().zip(logs).enumerate() {
        if let Err(error) = start_core(&log, shared, core, journal, &mut threads) {
            shared.closed.store(true, Ordering::Release);
            shared.stopping.store(true, Ordering::Release);
            shared.cores.iter().for_each(|core| core.bell.ring(true));
            threads.into_iter().for_each(|thread| drop(thread.join()));
            let path = shared.path.display().to_string();
            return Err(OpenError::Io { path, reason: format!("threads: {error}") });
        }
    }
    Ok(threads)
}

fn start_core(
    path: &Path,
    shared: &Arc<Shared>,
    core: usize,
    journal: Journal,
    threads: &mut Vec<JoinHandle<()>>,
) -> std::io::Result<()> {
    let (tell, events) = sync_channel(2 * QUEUED_MAX);
    let (segments, segment_queue) = sync_channel(QUEUED_MAX);
    let (flusher, flush_queue) = sync_channel(QUEUED_MAX);
    let mut maker = Segments::new(path, shared.options.segment_bytes);
    let report = reporter(shared, core, tell.clone());
    threads.push(spawn(shared, format!("hive-{core}-seg"), move || maker.run(segment_queue, &report))?);
    let flushing = shared.clone();
    threads.push(spawn(shared, format!("hive-{core}-eng"), move || flush_all(&flushing, core, &flush_queue, &tell))?);
    let writer = Writer::new(path, true);
    let (pinned, owned) = (shared.options.pin, shared.clone());
    let run = move || {
        if pinned {
            pin(core, owned.cores.len());
        }
        Owner { shared: owned, core, journal, writer, segments, flusher, events, state: State::default() }.run();
    };
    threads.push(spawn(shared, format!("hive-{core}"), run)?);
    Ok(())
}

fn reporter(shared: &Arc<Shared>, core: usize, tell: SyncSender<Event>) -> Report {
    let shared = shared.clone();
    Box::new(move |event| {
        // An owner that has ended hears nothing any more.
        let _ = tell.send(Event::Disk(event));
        shared.cores[core].bell.ring(true);
    })
}

fn flush_all(shared: &Shared, core: usize, queue: &Receiver<Job>, tell: &SyncSender<Event>) {
    while let Ok(job) = queue.recv() {
        let job = match job {
            Job::Flush(job) => job,
            Job::Free(view) => {
                drop(view);
                continue;
            }
        };
        let result = flusher::flush(shared, core, &job);
        let _ = tell.send(Event::Engine(result));
        shared.cores[core].bell.ring(true);
    }
}

fn spawn(shared: &Arc<Shared>, name: String, work: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    let shared = shared.clone();
    let told = name.clone();
    std::thread::Builder::new().name(name).spawn(move || {
        if catch_unwind(AssertUnwindSafe(work)).is_err() {
            shared.fail(format!("thread {told} panicked; this is a bug, please report it"));
        }
    })
}

/// To a processor of its own where there is one for each.
fn pin(core: usize, cores: usize) {
    let Some(processors) = core_affinity::get_core_ids() else { return };
    if cores > 1 && cores <= processors.len() {
        core_affinity::set_for_current(processors[core]);
    }
}
