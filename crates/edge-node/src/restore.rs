//! A data directory made of what an object store holds: `hive restore`.
//!
//! ```text
//!  <place>/<lane's engine>   spaces, each with a label         <data>.restoring/lane-n/lmdb, log
//!     │ opened as its writer: the old node, should it live,       │ everything synced
//!     │ fails at its next write there                             │
//!     └──────────── rows copied, one member, an empty log ────────┴─rename─▶ <data>
//! ```
//!
//! By design: the place keeps what it holds; a directory appears under its name whole or not at all; one that
//! is there is refused. Every cluster found continues alone from the index that was in the store; other nodes
//! join it as new members. The world gets a greater incarnation: nodes of the old one are refused, and stop serving when they hear
//! of it (decision 0036).
//! Not here: what keeps the place up to date (core-cluster flushes into it).

use crate::data::{write_out, DataDirectory, Origin, FORMAT};
use crate::engines::section::EngineSection;
use base_engine::{export, Engine, WriteBatch};
use base_types::{ClusterId, DiskId, LaneId, LogIndex, NodeId, SpaceId};
use core_cluster::restore::{Found, Home, RestoredReplica};
use core_log::{Log, LogConfig};
use core_node::api::log_identity;
use edge_disk::files::sync_directory;
use edge_disk::LogDirectory;
pub use engine_object::Held;
use engine_object::ObjectConfig;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The engine the data goes to.
const ENGINE: &str = "lmdb";
/// Bytes copied in one transaction.
const COPIED_BYTES: usize = 4 << 20;

/// What is to be made, and where from.
#[derive(Clone, Debug)]
pub struct Plan {
    /// `engine.object.url` of the node that is lost.
    pub from: String,
    /// Its `engine.object.options`.
    pub options: BTreeMap<String, String>,
    /// Whose data, where the place holds that of several.
    pub which: Which,
    /// The directory to make.
    pub data: PathBuf,
}

/// Whose data of a place.
#[derive(Clone, Copy, Debug, Default)]
pub struct Which {
    /// Which node's.
    pub node: Option<NodeId>,
    /// Which of its disks', where it had several.
    pub disk: Option<DiskId>,
}

/// A cluster that continues.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Restored {
    pub name: String,
    pub cluster: ClusterId,
    pub index: LogIndex,
    pub pairs: u64,
}

/// What was made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    pub world: String,
    pub node: NodeId,
    pub clusters: Vec<Restored>,
    /// Spaces that held nothing whole.
    pub unfinished: u64,
}

/// Whose data a place holds.
pub fn look(from: &str, options: &BTreeMap<String, String>) -> Result<Vec<(Origin, Held)>, String> {
    let held = engine_object::held(from, options).map_err(|error| error.to_string())?;
    let mut found: Vec<(Origin, Held)> =
        held.into_iter().filter_map(|held| Some((Origin::read(&held.note)?, held))).collect();
    found.sort();
    Ok(found)
}

/// Makes the directory. `progress` gets what is being done.
pub fn restore(plan: &Plan, progress: &mut dyn FnMut(&str)) -> Result<Report, String> {
    let shown = plan.data.display();
    if plan.data.exists() {
        return Err(format!("{shown} is there already; name a directory that is not, or move it away"));
    }
    let lanes = choose(&plan.from, plan.which, look(&plan.from, &plan.options)?)?;
    let Some((origin, _)) = lanes.first().cloned() else {
        return Err(format!("{} holds no node's data; name engine.object.url of the node that is lost", plan.from));
    };
    if let Some((other, _)) = lanes.iter().find(|(origin, _)| origin.format != FORMAT) {
        let found = other.format;
        return Err(format!(
            "{} holds data of format {found}, this build reads only {FORMAT}; restore it with the build that wrote it",
            plan.from
        ));
    }
    let making = plan.data.with_extension("restoring");
    let io = |error: std::io::Error| format!("{}: {error}", making.display());
    if making.exists() {
        // What an attempt that was cut short left; nobody relies on it.
        std::fs::remove_dir_all(&making).map_err(io)?;
    }
    let mut report = Report { world: origin.world.clone(), node: origin.node, clusters: Vec::new(), unfinished: 0 };
    let directory = DataDirectory::open(&making, &origin.world, origin.node, origin.lanes);
    let directory = directory.map_err(|error| error.to_string())?;
    let before = lanes.iter().map(|(origin, _)| origin.incarnation).max().unwrap_or(0);
    directory.set_incarnation(next_incarnation(before), 0).map_err(|error| error.to_string())?;
    for (origin, held) in &lanes {
        progress(&format!("lane {} from {}", origin.lane, held.url));
        restore_lane(&directory, origin, held, &mut report, progress)?;
    }
    drop(directory);
    std::fs::rename(&making, &plan.data).map_err(io)?;
    match plan.data.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_directory(parent).map_err(io)?,
        _ => {}
    }
    Ok(report)
}

/// A life of the world that none had before: the time, so that two restores of one archive differ as well.
fn next_incarnation(before: u64) -> u64 {
    crate::monitor::unix_ms().max(before + 1)
}

/// The lanes of one disk of one node.
pub(crate) fn choose(from: &str, which: Which, found: Vec<(Origin, Held)>) -> Result<Vec<(Origin, Held)>, String> {
    let wanted = |origin: &Origin| {
        which.node.is_none_or(|node| node == origin.node) && which.disk.is_none_or(|disk| disk == origin.disk)
    };
    let chosen: Vec<(Origin, Held)> = found.into_iter().filter(|(origin, _)| wanted(origin)).collect();
    let mut whose: Vec<String> =
        chosen.iter().map(|(origin, _)| format!("node {} disk {}", origin.node, origin.disk)).collect();
    whose.dedup();
    match whose.len() {
        0 | 1 => Ok(chosen),
        _ => Err(format!("{from} holds the data of several: {}; say which with --node and --disk", whose.join(", "))),
    }
}

fn restore_lane(
    directory: &DataDirectory,
    origin: &Origin,
    held: &Held,
    report: &mut Report,
    progress: &mut dyn FnMut(&str),
) -> Result<(), String> {
    let failed = |error: base_engine::EngineError| error.to_string();
    let marks = directory.lane(origin.lane).join("restored-from");
    let source = engine_object::open_held(&marks, held, &ObjectConfig::default()).map_err(failed)?;
    let identity = format!("{} disk {} lane {}", origin.world, directory.disk, origin.lane);
    let engines = crate::engines::open(&directory.lane(origin.lane), &identity, "", &EngineSection::default())?;
    let target = engines.iter().find(|engine| engine.name() == ENGINE).cloned();
    let target = target.ok_or_else(|| format!("this build has no engine {ENGINE}"))?;
    let reborn = latest(&source, directory, report).map_err(failed)?;
    for (space, replica) in reborn.values() {
        progress(&format!("cluster {} at index {}", replica.name(), replica.applied()));
        let pairs = copy(&source, *space, &*target, replica).map_err(failed)?;
        let (cluster, ..) = replica.order();
        report.clusters.push(Restored {
            name: replica.name().to_string(),
            cluster: ClusterId(cluster),
            index: replica.applied(),
            pairs,
        });
    }
    let identity = log_identity(&origin.world, directory.disk, LaneId(origin.lane));
    write_log(&directory.log(origin.lane), identity, reborn.values().map(|(_, replica)| replica))?;
    drop(source);
    std::fs::remove_dir_all(&marks).map_err(|error| format!("{}: {error}", marks.display()))
}

/// Of each cluster its latest whole space, and what becomes of it.
fn latest(
    source: &dyn Engine,
    directory: &DataDirectory,
    report: &mut Report,
) -> Result<BTreeMap<u64, (SpaceId, RestoredReplica)>, base_engine::EngineError> {
    let mut found: BTreeMap<u64, (SpaceId, RestoredReplica)> = BTreeMap::new();
    for space in source.spaces()? {
        let home = Home { node: report.node, disk: directory.disk, engine: ENGINE.into(), space };
        let Found::Replica(replica) = RestoredReplica::read(source, space, home)? else {
            report.unfinished += 1;
            continue;
        };
        let (cluster, ..) = replica.order();
        if found.get(&cluster).is_none_or(|(_, other)| other.order() < replica.order()) {
            found.insert(cluster, (space, *replica));
        }
    }
    Ok(found)
}

/// Copies the rows; what the space says of itself comes last, with the index.
fn copy(
    source: &dyn Engine,
    space: SpaceId,
    target: &dyn Engine,
    replica: &RestoredReplica,
) -> Result<u64, base_engine::EngineError> {
    let snapshot = source.snapshot()?;
    let (mut after, mut pairs) = (None, 0);
    loop {
        let chunk = export(&*snapshot, space, after.as_deref(), COPIED_BYTES)?;
        pairs += chunk.pairs.len() as u64;
        let mut batch: WriteBatch = chunk.batch(space);
        if chunk.done {
            batch.operations.extend(replica.rows());
        }
        target.write(&batch)?;
        if chunk.done {
            return Ok(pairs);
        }
        after = chunk.last_key().cloned();
    }
}

/// The replicas' records in the log, which has just begun; synced.
fn write_log<'a>(
    path: &Path,
    identity: u64,
    replicas: impl Iterator<Item = &'a RestoredReplica>,
) -> Result<(), String> {
    let config = LogConfig::default();
    let (mut log, _) =
        Log::recover(&mut LogDirectory::new(path), config.clone(), identity).map_err(|error| error.to_string())?;
    replicas.for_each(|replica| replica.stage(&mut log));
    write_out(&mut log, path, &config)
}
