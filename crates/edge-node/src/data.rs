//! The data directory: whose it is, who has it open, and how it is laid out.
//!
//! ```text
//! <data>/hive-node.json      {"format":2,"world":"dev","node":1,"disk":…,"lanes":2}
//! <data>/hive-node.lock      held (flock) by the process that has it open
//! <data>/lane-<n>/log/<segment, 16 hex digits>.seg
//! <data>/lane-<n>/log/reserve        a prewritten segment for the day the disk is full
//! <data>/lane-<n>/<engine>/
//! ```
//!
//! Always: a directory of another world, another node or another format is refused and left as it is;
//! the disk id is drawn when the directory is made and lost with it, so that a node that lost its disk
//! is known by its new one. Names become durable (directory synced) before anything relies on them.
//! Not here: what the log and the engines keep in their files.

use crate::chance;
use base_types::{DiskId, NodeId};
pub use edge_disk::files::make_directory;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The format this build writes and the only one it reads: it stands for all that lies in the directory, the rows of
/// backends included, which carry no number of their own. Before 2, shards of buckets had other records and puts
/// other replies (docs/formats/s3-rows.md).
pub const FORMAT: u32 = 2;
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
    #[error("data directory {path} has a damaged hive-node.json ({reason}); restore it from a backup, or move the directory away and let the node come back blank")]
    Damaged { path: String, reason: String },
    #[error("data directory {path} has format {found}, this build knows up to {FORMAT}; start a newer build")]
    NewerFormat { path: String, found: u32 },
    #[error("data directory {path} has format {found}, this build reads only {FORMAT}; start the build that wrote it, or make a new world with this one and copy what clients can read")]
    OlderFormat { path: String, found: u32 },
    #[error("data directory {path} belongs to world {found:?}, not {expected:?}; correct world.name or data")]
    OtherWorld { path: String, found: String, expected: String },
    #[error("data directory {path} belongs to node {found}, not {expected}; correct id or data")]
    OtherNode { path: String, found: u64, expected: u64 },
}

/// The marker file. Unknown fields are let through: only `format` says whether we may read it.
#[derive(Serialize, Deserialize)]
struct Marker {
    format: u32,
    world: String,
    node: u64,
    disk: u64,
    lanes: u16,
}

/// An open data directory; the lock lives as long as this.
#[derive(Debug)]
pub struct DataDirectory {
    pub path: PathBuf,
    pub disk: DiskId,
    pub lanes: u16,
    /// Made just now: this node remembers nothing.
    pub fresh: bool,
    _lock: File,
}

impl DataDirectory {
    /// Opens the directory, or makes it with `lanes` lanes.
    pub fn open(path: &Path, world: &str, node: NodeId, lanes: u16) -> Result<DataDirectory, DataError> {
        let io = |error: std::io::Error| DataError::Io { path: path.display().to_string(), reason: error.to_string() };
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(io)?;
        // Looked at before the lock file is made, so that a refused directory stays untouched.
        let marker = read_marker(path)?;
        if let Some(marker) = &marker {
            accept(path, marker, world, node)?;
        } else if has_foreign_files(path).map_err(io)? {
            return Err(DataError::Foreign { path: path.display().to_string() });
        }
        let lock = lock(path)?;
        let fresh = marker.is_none();
        let marker = match marker {
            Some(marker) => marker,
            None => {
                let disk = chance::draw().map_err(io)?;
                let marker = Marker { format: FORMAT, world: world.into(), node: node.0, disk, lanes };
                write_marker(path, &marker).map_err(io)?;
                marker
            }
        };
        for lane in 0..marker.lanes {
            make_directory(&path.join(format!("lane-{lane}"))).map_err(io)?;
            make_directory(&path.join(format!("lane-{lane}/log"))).map_err(io)?;
        }
        Ok(DataDirectory { path: path.into(), disk: DiskId(marker.disk), lanes: marker.lanes, fresh, _lock: lock })
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
}

impl Origin {
    /// As a line.
    pub fn note(&self) -> String {
        let Origin { world, node, disk, lane, lanes, format } = self;
        format!("world={world} node={node} disk={disk} lane={lane} lanes={lanes} format={format}")
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
        };
        (origin.lane < origin.lanes && origin.lanes <= crate::config::LANES_MAX).then_some(origin)
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
    }
    let damaged = |error: serde_json::Error| DataError::Damaged { path: name.clone(), reason: error.to_string() };
    let OnlyFormat { format } = serde_json::from_slice(&text).map_err(damaged)?;
    if format > FORMAT {
        return Err(DataError::NewerFormat { path: name, found: format });
    }
    if format < FORMAT {
        return Err(DataError::OlderFormat { path: name, found: format });
    }
    let marker: Marker = serde_json::from_slice(&text).map_err(damaged)?;
    if marker.lanes == 0 || marker.lanes > crate::config::LANES_MAX || marker.disk == 0 {
        return Err(DataError::Damaged { path: name, reason: "lanes or disk is out of range".into() });
    }
    Ok(Some(marker))
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

/// Anything but what a start cut short before its marker may have left.
fn has_foreign_files(path: &Path) -> std::io::Result<bool> {
    for entry in std::fs::read_dir(path)? {
        let name = entry?.file_name();
        if !["hive-node.lock", "hive-node.json.new", "lost+found"].iter().any(|ours| name == *ours) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn lock(path: &Path) -> Result<File, DataError> {
    let name = path.display().to_string();
    match edge_disk::files::lock(&path.join("hive-node.lock")) {
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
