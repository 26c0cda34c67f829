//! A store's directory: whose it is, who has it open, how it is laid out.
//!
//! ```text
//! <store>/hive-store.json      {"format":1,"store":…,"cores":2,"engine":"lmdb"}
//! <store>/hive-store.lock      held (flock) by the process that has it open
//! <store>/core-<n>/log/<segment, 16 hex digits>.seg, reserve
//! <store>/core-<n>/<engine>/
//! ```
//!
//! Always: a directory of anything else is refused and left as it is. The marker is written last, so
//! a store that has one has had all its directories: one that lacks them has lost data.
//! Held by: `other_directories_are_refused_untouched`, `lost_files_are_noticed`.
//! Not here: what the log and the engines keep in their files.

use crate::error::OpenError;
use crate::options::{Options, CORES_MAX};
use edge_disk::files;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The format this build writes and the newest it reads.
pub const FORMAT: u64 = 1;
/// The file that makes a directory a store's.
const MARKER: &str = "hive-store.json";
const LOCK: &str = "hive-store.lock";
/// A longer marker is none.
const MARKER_BYTES_MAX: u64 = 4 << 10;

/// What was fixed when the store was made.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Marker {
    pub format: u64,
    /// A random number: part of every checksum of its logs.
    pub store: u64,
    pub cores: u16,
    pub engine: String,
}

/// An open directory; the lock lives as long as this.
#[derive(Debug)]
pub struct Directory {
    pub path: PathBuf,
    pub marker: Marker,
    _lock: File,
}

impl Directory {
    /// Opens the directory, or makes it.
    pub fn open(path: &Path, options: &Options) -> Result<Directory, OpenError> {
        // Looked at before the lock file is made, so that a refused directory stays untouched.
        let marker = match read_marker(path)? {
            Some(marker) => Some(accept(path, marker, options)?),
            None => {
                blank(path, options)?;
                None
            }
        };
        if marker.is_none() {
            let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
            made.map_err(|error| io(path, "", &error))?;
        }
        let lock = files::lock(&path.join(LOCK)).map_err(|error| io(path, LOCK, &error))?;
        let lock = lock.ok_or_else(|| OpenError::InUse { path: path.display().to_string() })?;
        // The holder of the lock may just have made it.
        let marker = match (marker, read_marker(path)?) {
            (Some(marker), _) => marker,
            (None, Some(marker)) => accept(path, marker, options)?,
            (None, None) => make(path, options)?,
        };
        let directory = Directory { path: path.into(), marker, _lock: lock };
        directory.check_cores()?;
        Ok(directory)
    }

    /// Where a core's log segments are.
    pub fn log(&self, core: u16) -> PathBuf {
        self.path.join(format!("core-{core}/log"))
    }

    /// Where a core's engine is.
    pub fn engine(&self, core: u16) -> PathBuf {
        self.path.join(format!("core-{core}")).join(&self.marker.engine)
    }

    fn check_cores(&self) -> Result<(), OpenError> {
        for core in 0..self.marker.cores {
            if !self.log(core).is_dir() {
                let path = self.path.display().to_string();
                let reason =
                    format!("core-{core}/log is gone, and with it that core's last writes; restore it from a copy");
                return Err(OpenError::Corrupt { path, reason });
            }
        }
        Ok(())
    }
}

fn io(path: &Path, name: &str, error: &std::io::Error) -> OpenError {
    OpenError::Io { path: path.join(name).display().to_string(), reason: error.to_string() }
}

fn read_marker(path: &Path) -> Result<Option<Marker>, OpenError> {
    let file = match File::open(path.join(MARKER)) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io(path, MARKER, &error)),
    };
    let mut text = Vec::new();
    file.take(MARKER_BYTES_MAX).read_to_end(&mut text).map_err(|error| io(path, MARKER, &error))?;
    // The format first, by itself: a newer one may mean anything by the rest.
    #[derive(Deserialize)]
    struct OnlyFormat {
        format: u64,
    }
    let name = || path.display().to_string();
    let damaged = |reason: String| OpenError::Corrupt {
        path: name(),
        reason: format!("{MARKER}: {reason}; restore the file from a copy of the store"),
    };
    let OnlyFormat { format } = serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
    if format > FORMAT {
        return Err(OpenError::NewerFormat { path: name(), found: format, known: FORMAT });
    }
    let marker: Marker = serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
    if marker.cores == 0 || marker.cores > CORES_MAX {
        return Err(damaged(format!("{} cores are out of range", marker.cores)));
    }
    Ok(Some(marker))
}

fn accept(path: &Path, marker: Marker, options: &Options) -> Result<Marker, OpenError> {
    let differs = |what, found: String, asked: String| OpenError::Differs {
        path: path.display().to_string(),
        what,
        found,
        asked,
    };
    if let Some(cores) = options.cores.filter(|cores| *cores != marker.cores) {
        return Err(differs("cores =", marker.cores.to_string(), cores.to_string()));
    }
    if let Some(engine) = options.engine.as_ref().filter(|engine| **engine != marker.engine) {
        return Err(differs("engine =", marker.engine, engine.clone()));
    }
    crate::engines::check(&marker.engine)?;
    Ok(marker)
}

/// Refuses a directory that is not empty, or is not there and is not to be made.
fn blank(path: &Path, options: &Options) -> Result<(), OpenError> {
    if let Some(engine) = &options.engine {
        crate::engines::check(engine)?;
    }
    let missing = || OpenError::Missing { path: path.display().to_string() };
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && options.create => return Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(missing()),
        Err(error) => return Err(io(path, "", &error)),
    };
    // What a start cut short before its marker may have left is no data.
    let ours = |name: &str| {
        let empty_core = name.starts_with("core-") && is_unused(&path.join(name));
        empty_core || [LOCK, "hive-store.json.new", "lost+found"].contains(&name)
    };
    for entry in entries {
        let name = entry.map_err(|error| io(path, "", &error))?.file_name().to_string_lossy().into_owned();
        if !ours(&name) {
            return Err(OpenError::Foreign { path: path.display().to_string(), found: name });
        }
    }
    if options.create {
        Ok(())
    } else {
        Err(missing())
    }
}

/// A core's directory before anything was written: nothing but an empty `log`.
fn is_unused(core: &Path) -> bool {
    let Ok(mut entries) = std::fs::read_dir(core) else { return false };
    entries.all(|entry| {
        entry.is_ok_and(|entry| {
            entry.file_name() == "log" && std::fs::read_dir(entry.path()).is_ok_and(|mut inner| inner.next().is_none())
        })
    })
}

fn make(path: &Path, options: &Options) -> Result<Marker, OpenError> {
    let cores = options.cores.unwrap_or_else(|| {
        let there = std::thread::available_parallelism().map_or(1, |count| count.get());
        there.min(usize::from(CORES_MAX)) as u16
    });
    let mut random = [0u8; 8];
    let drawn = File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut random));
    drawn.map_err(|error| io(Path::new("/dev/urandom"), "", &error))?;
    for core in 0..cores {
        let log = path.join(format!("core-{core}"));
        let made = files::make_directory(&log).and_then(|()| files::make_directory(&log.join("log")));
        made.map_err(|error| io(&log, "", &error))?;
    }
    let engine = options.engine.clone().unwrap_or_else(|| crate::engines::DEFAULT.into());
    let marker = Marker { format: FORMAT, store: u64::from_le_bytes(random), cores, engine };
    let mut text = serde_json::to_vec(&marker).map_err(|error| io(path, MARKER, &error.into()))?;
    text.push(b'\n');
    files::write_whole(path, MARKER, &text).map_err(|error| io(path, MARKER, &error))?;
    Ok(marker)
}

#[cfg(test)]
mod tests;
