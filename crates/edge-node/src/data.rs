//! The data directory: whose it is, who has it open, and how it is laid out.
//!
//! ```text
//! <data>/hive-node.json      {"format":3,"level":1,"world":"dev","node":1,"disk":…,"lanes":2,"logs":[17,12],"incarnation":0,"superseded_by":0}
//! <data>/hive-node.lock      held (flock) by the process that has it open
//! <data>/hive-members.json   who the members of the world's and the region's cluster are (remembered.rs)
//! <data>/lane-<n>/log/<segment, 16 hex digits>.seg
//! <data>/lane-<n>/log/reserve        a prewritten segment for the day the disk is full
//! <data>/lane-<n>/<engine>/
//! ```
//!
//! Always: a directory of another world, another node, another format or a level that this build does not serve is refused and left as it is;
//! the disk id is drawn when the directory is made and lost with it, so that a node that lost its disk
//! is known by its new one. Each lane's log is begun when the directory is made, and a lane whose log is gone is refused:
//! it would vote without its memory. Names become durable (directory synced) before anything relies on them.
//! Held by: `what_belongs_to_another_is_refused_and_left_alone`, `level_is_kept_and_only_rises`.
//! Not here: what the log and the engines keep in their files; what belongs together: docs/formats/data-directory.md.

mod logs;

#[cfg(feature = "engine-object")]
pub(crate) use logs::write_out;

use crate::chance;
use base_types::format_level::{remedy, since, BUILD_VERSION, LEVEL_MAX, LEVEL_MIN};
use base_types::{DiskId, FormatLevel, LaneId, NodeId};
use core_node::api::log_identity;
pub use edge_disk::files::{lock as lock_file, make_directory};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The format this build writes and the only one it reads: it stands for all that lies in the directory, the rows of
/// backends included, which carry no number of their own. Before 2, shards of buckets had other records and puts
/// other replies (docs/formats/s3-rows.md); before 3, nodes had no format level. What changes from now on has a format level
/// of its own (decision 0070), and this number stays.
pub const FORMAT: u32 = 3;
/// The most lanes a data directory may be made with.
pub const LANES_MAX: u16 = 256;
/// What the process that has the directory open holds.
const LOCK: &str = "hive-node.lock";
/// A longer marker is none.
const MARKER_BYTES_MAX: u64 = 64 << 10;

/// Why a data directory is refused.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    #[error("data directory {path}: {reason}")]
    Io { path: String, reason: String },
    #[error("data directory {path} is in use by another process; stop it, or name another directory")]
    InUse { path: String },
    #[error("data directory {path} is not empty and has no hive-node.json; name an empty directory or a node's own")]
    Foreign { path: String },
    #[error("data directory {path} has lanes and no hive-node.json, which says whose they are; put that very file back, or move the directory away and let the node come back with an empty one")]
    IdentityGone { path: String },
    #[error("data directory {path}: {file} {found}, but hive-node.json says that the log there has begun; mount or put back the log that was there. If it is lost, move the whole data directory away and start the node with an empty one: the other members fill it again. Without its log a node has forgotten its votes")]
    LogGone { path: String, file: String, found: String },
    #[error("data directory {path} holds {file}, but hive-node.json names {lanes} lanes; put the hive-node.json of this directory back, or move away what is not this node's")]
    SurplusLane { path: String, file: String, lanes: u16 },
    #[error("data directory {path} has a damaged hive-node.json ({reason}); restore it from a backup, or move the directory away and let the node come back blank")]
    Damaged { path: String, reason: String },
    #[error("data directory {path} has format {found}, this build knows up to {FORMAT}; start a newer build")]
    NewerFormat { path: String, found: u32 },
    #[error("data directory {path} has format {found}, this build reads only {FORMAT}; start the build that wrote it, or make a new world with this one and copy what clients can read")]
    OlderFormat { path: String, found: u32 },
    #[error("data directory {path} is of a world at format level {found}, this build ({BUILD_VERSION}) serves {LEVEL_MIN} to {LEVEL_MAX}; {remedy}")]
    NewerLevel { path: String, found: FormatLevel, remedy: String },
    #[error("data directory {path} is of a world at format level {found}, this build ({BUILD_VERSION}) serves {LEVEL_MIN} to {LEVEL_MAX}; start a build that serves {found} and {LEVEL_MIN}, and run `hive ctl upgrade finalize` with it first")]
    OlderLevel { path: String, found: FormatLevel },
    #[error("data directory {path} belongs to world {found:?}, not {expected:?}; correct world.name or data")]
    OtherWorld { path: String, found: String, expected: String },
    #[error("data directory {path} belongs to node {found}, not {expected}; correct id or data")]
    OtherNode { path: String, found: u64, expected: u64 },
}

/// The marker file. Unknown fields are let through: only `format` says whether we may read it.
#[derive(Serialize, Deserialize, Clone, Debug)]
struct Marker {
    format: u32,
    /// The world's format level, and the version that brought it, where that is known here.
    level: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    level_since: Option<String>,
    world: String,
    node: u64,
    disk: u64,
    lanes: u16,
    /// A batch that each lane's log had reached, a minute old at most while the node runs (decision 0141); empty: the logs have not
    /// all begun, and nothing has run here. Absent in directories made before this was written down: there the logs have begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    logs: Option<Vec<u64>>,
    /// Which life of the world the data is of: zero the first, or a blank node's (decision 0036).
    #[serde(default)]
    incarnation: u64,
    /// A later life that this node has heard of: it serves nothing.
    #[serde(default)]
    superseded_by: u64,
}

impl Marker {
    fn is_being_made(&self) -> bool {
        self.logs.as_ref().is_some_and(Vec::is_empty)
    }
}

/// An open data directory; the lock lives as long as this.
#[derive(Debug)]
pub struct DataDirectory {
    pub path: PathBuf,
    pub disk: DiskId,
    pub lanes: u16,
    /// Made just now: this node remembers nothing.
    pub fresh: bool,
    /// Never held while the disk works: lanes take it.
    marker: Mutex<Marker>,
    /// Held by who writes the marker, so that a later one is never overtaken by an earlier; and what it last said of the logs.
    writing: Mutex<Option<Vec<u64>>>,
    _lock: File,
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DataDirectory {
    /// Opens the directory, or makes it with `lanes` lanes.
    pub fn open(path: &Path, world: &str, node: NodeId, lanes: u16) -> Result<DataDirectory, DataError> {
        let io = |error: std::io::Error| DataError::Io { path: path.display().to_string(), reason: error.to_string() };
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(io)?;
        // Looked at before the lock file is made, so that a refused directory stays untouched.
        let marker = inspect(path, world, node)?;
        let lock = lock(path)?;
        if marker.is_none() && read_marker(path)?.is_some() {
            // The holder of the lock meanwhile has made it.
            return Err(DataError::InUse { path: path.display().to_string() });
        }
        // Only now that it is known to be ours.
        crate::private::close(path, 0o077);
        let fresh = marker.is_none();
        let mut marker = match marker {
            Some(marker) => marker,
            None => {
                let disk = chance::draw().map_err(io)?;
                let marker = Marker {
                    format: FORMAT,
                    level: LEVEL_MIN.0,
                    level_since: since(LEVEL_MIN).map(Into::into),
                    world: world.into(),
                    node: node.0,
                    disk,
                    lanes,
                    logs: Some(Vec::new()),
                    incarnation: 0,
                    superseded_by: 0,
                };
                write_marker(path, &marker).map_err(io)?;
                marker
            }
        };
        begin_logs(path, &mut marker)?;
        let (disk, lanes) = (DiskId(marker.disk), marker.lanes);
        let writing = Mutex::new(marker.logs.clone());
        Ok(DataDirectory { path: path.into(), disk, lanes, fresh, marker: Mutex::new(marker), writing, _lock: lock })
    }

    /// The batch that a lane's log must have at least.
    pub fn log_reached(&self, lane: u16) -> u64 {
        let marker = held(&self.marker);
        marker.logs.as_ref().and_then(|logs| logs.get(usize::from(lane))).copied().unwrap_or(1)
    }

    /// What a lane's log has reached; durable by `write_reached`.
    pub fn note_reached(&self, lane: u16, batch: u64) {
        let mut marker = held(&self.marker);
        if let Some(reached) = marker.logs.as_mut().and_then(|logs| logs.get_mut(usize::from(lane))) {
            *reached = batch.max(*reached);
        }
    }

    /// Writes down what the logs have reached, if they have grown: an older copy of one is then known as such.
    pub fn write_reached(&self) -> std::io::Result<()> {
        let mut written = held(&self.writing);
        let marker = held(&self.marker).clone();
        if *written == marker.logs {
            return Ok(());
        }
        write_marker(&self.path, &marker)?;
        *written = marker.logs;
        Ok(())
    }

    /// Which life of the world the data is of.
    pub fn incarnation(&self) -> u64 {
        held(&self.marker).incarnation
    }

    /// The later life of the world that this node has heard of; zero: none.
    pub fn superseded_by(&self) -> u64 {
        held(&self.marker).superseded_by
    }

    /// Keeps which life of the world the data is of; durable when this returns. What recreates a world (a restore, a recovery)
    /// gives it a greater one: members of the earlier lives are refused by it, and stop when they hear of it.
    pub fn set_incarnation(&self, incarnation: u64, superseded_by: u64) -> Result<(), DataError> {
        self.rewrite(|marker| {
            (marker.incarnation, marker.superseded_by) = (incarnation, superseded_by);
            true
        })
    }

    /// The world's format level, as this node has kept it.
    pub fn level(&self) -> FormatLevel {
        FormatLevel(held(&self.marker).level)
    }

    /// Keeps the world's format level; durable when this returns. It only rises, and may be one that this build does not serve:
    /// the next start then refuses by itself.
    pub fn raise_level(&self, level: FormatLevel) -> Result<(), DataError> {
        self.rewrite(|marker| {
            let rises = level.0 > marker.level;
            if rises {
                (marker.level, marker.level_since) = (level.0, since(level).map(Into::into));
            }
            rises
        })
    }

    /// Changes the marker, if `change` says that it has; durable when this returns, also what another thread was about to write.
    fn rewrite(&self, change: impl FnOnce(&mut Marker) -> bool) -> Result<(), DataError> {
        let mut written = held(&self.writing);
        let (changed, marker) = {
            let mut marker = held(&self.marker);
            (change(&mut marker), marker.clone())
        };
        if !changed {
            return Ok(());
        }
        write_marker(&self.path, &marker)
            .map_err(|error| DataError::Io { path: self.path.display().to_string(), reason: error.to_string() })?;
        *written = marker.logs;
        Ok(())
    }

    /// Where a lane's log segments are.
    pub fn log(&self, lane: u16) -> PathBuf {
        self.path.join(format!("lane-{lane}/log"))
    }

    /// Where a lane's engines are, each in a directory of its name.
    pub fn lane(&self, lane: u16) -> PathBuf {
        self.path.join(format!("lane-{lane}"))
    }
}

/// Whether the directory would be refused, touching nothing; and whether another process has it now. One that is not there yet is
/// fine.
pub fn check(path: &Path, world: &str, node: NodeId) -> Result<bool, DataError> {
    if !path.exists() {
        return Ok(false);
    }
    inspect(path, world, node)?;
    if !path.join(LOCK).exists() {
        return Ok(false);
    }
    match lock(path) {
        Ok(_) => Ok(false),
        Err(DataError::InUse { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}

/// The marker of a directory that this node may open; `None` for an empty one.
fn inspect(path: &Path, world: &str, node: NodeId) -> Result<Option<Marker>, DataError> {
    let marker = read_marker(path)?;
    match &marker {
        Some(marker) => {
            accept(path, marker, world, node)?;
            logs::check_lanes(path, marker.lanes)?;
            match marker.is_being_made() {
                true => logs::check_unused(path, marker.lanes)?,
                false => logs::check_begun(path, marker.lanes)?,
            }
        }
        None => check_empty(path)?,
    }
    Ok(marker)
}

/// Where a lane's data was made: what `hive restore` needs of a directory that is lost.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Origin {
    pub world: String,
    pub node: NodeId,
    pub disk: DiskId,
    pub lane: u16,
    pub lanes: u16,
    /// Of the data directory, and so of what was copied out of it.
    pub format: u32,
    /// The life of the world.
    pub incarnation: u64,
}

impl Origin {
    /// As a line.
    pub fn note(&self) -> String {
        let Origin { world, node, disk, lane, lanes, format, incarnation } = self;
        let life = if *incarnation == 0 { String::new() } else { format!(" incarnation={incarnation}") };
        format!("world={world} node={node} disk={disk} lane={lane} lanes={lanes} format={format}{life}")
    }

    /// Of a line.
    pub fn read(note: &str) -> Option<Origin> {
        let mut words = note.split(' ');
        let mut word = |name: &str| words.next()?.strip_prefix(name)?.strip_prefix('=');
        let origin = Origin {
            world: word("world")?.into(),
            node: NodeId(word("node")?.parse().ok()?),
            disk: DiskId(word("disk")?.parse().ok()?),
            lane: word("lane")?.parse().ok()?,
            lanes: word("lanes")?.parse().ok()?,
            // The first did not say so.
            format: word("format").map_or(Some(1), |format| format.parse().ok())?,
            incarnation: word("incarnation").map_or(Some(0), |life| life.parse().ok())?,
        };
        (origin.lane < origin.lanes && origin.lanes <= LANES_MAX).then_some(origin)
    }
}

fn read_marker(path: &Path) -> Result<Option<Marker>, DataError> {
    use std::io::Read;
    let name = path.display().to_string();
    let file = match File::open(path.join("hive-node.json")) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(DataError::Io { path: name, reason: format!("hive-node.json: {error}") }),
    };
    let mut text = Vec::new();
    file.take(MARKER_BYTES_MAX)
        .read_to_end(&mut text)
        .map_err(|error| DataError::Io { path: name.clone(), reason: format!("hive-node.json: {error}") })?;
    // The format first, by itself: a newer one may mean anything by the rest.
    #[derive(Deserialize)]
    struct OnlyFormat {
        format: u32,
        level: Option<u16>,
        level_since: Option<String>,
    }
    let damaged = |error: serde_json::Error| DataError::Damaged { path: name.clone(), reason: error.to_string() };
    let OnlyFormat { format, level, level_since } = serde_json::from_slice(&text).map_err(damaged)?;
    if format > FORMAT {
        return Err(DataError::NewerFormat { path: name, found: format });
    }
    if format < FORMAT {
        return Err(DataError::OlderFormat { path: name, found: format });
    }
    match level.map(FormatLevel) {
        Some(found) if found > LEVEL_MAX => {
            return Err(DataError::NewerLevel { path: name, found, remedy: remedy(found, level_since.as_deref()) })
        }
        Some(found) if found < LEVEL_MIN => return Err(DataError::OlderLevel { path: name, found }),
        _ => {}
    }
    let marker: Marker = serde_json::from_slice(&text).map_err(damaged)?;
    if marker.lanes == 0 || marker.lanes > LANES_MAX || marker.disk == 0 {
        return Err(DataError::Damaged { path: name, reason: "lanes or disk is out of range".into() });
    }
    let logs = marker.logs.as_ref().map_or(0, Vec::len);
    if logs != 0 && (logs != usize::from(marker.lanes) || marker.logs.iter().flatten().any(|batch| *batch == 0)) {
        let reason = format!("logs names {logs} batches for {} lanes, or batch 0", marker.lanes);
        return Err(DataError::Damaged { path: name, reason });
    }
    Ok(Some(marker))
}

/// Every lane has its log, and the marker says so.
fn begin_logs(path: &Path, marker: &mut Marker) -> Result<(), DataError> {
    let io = |reason: String| DataError::Io { path: path.display().to_string(), reason };
    if marker.is_being_made() {
        for lane in 0..marker.lanes {
            let identity = log_identity(&marker.world, DiskId(marker.disk), LaneId(lane));
            logs::begin(&path.join(format!("lane-{lane}")), identity).map_err(io)?;
        }
    } else if marker.logs.is_some() {
        return Ok(());
    }
    marker.logs = Some(vec![1; usize::from(marker.lanes)]);
    write_marker(path, marker).map_err(|error| io(format!("hive-node.json: {error}")))
}

fn accept(path: &Path, marker: &Marker, world: &str, node: NodeId) -> Result<(), DataError> {
    let path = path.display().to_string();
    if marker.world != world {
        return Err(DataError::OtherWorld { path, found: marker.world.clone(), expected: world.into() });
    }
    if marker.node != node.0 {
        return Err(DataError::OtherNode { path, found: marker.node, expected: node.0 });
    }
    Ok(())
}

/// Nothing but what a start cut short before its marker may have left.
fn check_empty(path: &Path) -> Result<(), DataError> {
    let shown = || path.display().to_string();
    let io = |error: std::io::Error| DataError::Io { path: shown(), reason: error.to_string() };
    let names: std::io::Result<Vec<_>> =
        std::fs::read_dir(path).map_err(io)?.map(|entry| entry.map(|entry| entry.file_name())).collect();
    let names = names.map_err(io)?;
    // Lanes first, whatever the order of names: the directory is a node's, and its other files are no strangers'.
    if names.iter().any(|name| name.to_str().is_some_and(|name| name.starts_with("lane-"))) {
        return Err(DataError::IdentityGone { path: shown() });
    }
    match names.iter().all(|name| [LOCK, "hive-node.json.new", "lost+found"].iter().any(|ours| name == *ours)) {
        true => Ok(()),
        false => Err(DataError::Foreign { path: shown() }),
    }
}

fn lock(path: &Path) -> Result<File, DataError> {
    let name = path.display().to_string();
    match edge_disk::files::lock(&path.join(LOCK)) {
        Ok(Some(file)) => Ok(file),
        Ok(None) => Err(DataError::InUse { path: name }),
        Err(error) => Err(DataError::Io { path: name, reason: format!("hive-node.lock: {error}") }),
    }
}

fn write_marker(path: &Path, marker: &Marker) -> std::io::Result<()> {
    let mut text = serde_json::to_vec(marker)?;
    text.push(b'\n');
    edge_disk::files::write_whole(path, "hive-node.json", &text)
}

#[cfg(test)]
mod tests;
