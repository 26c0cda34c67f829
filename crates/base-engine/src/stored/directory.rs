//! Whose a directory is, judged before anything in it is opened.
//!
//!   ENGINE   two lines of text: which engine and format, and whose data it is
//!   LOCK     held (flock) by the engine that has it open
//!
//!   empty ──"… being made"──▶ the engine makes its files ──"… format 1"──▶ ready
//!
//! A crash in between leaves "being made", and what lies there is made again from nothing: it was never
//! acknowledged to anybody. Files without `ENGINE` are somebody else's.
//!
//! Always: a directory that is refused keeps every byte it had; `ENGINE` changes whole or not at all.
//! Held by: `directories_of_others_are_refused_untouched`, `a_making_cut_short_is_made_again`.
//! Not here: the marker inside the engine's files (`mod.rs`).

use super::failure::path_failure;
use super::format::FORMAT_VERSION;
use crate::EngineError;
use std::fs::{self, File, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// Says whose directory it is.
pub const ENGINE_FILE: &str = "ENGINE";
const ENGINE_FILE_NEW: &str = "ENGINE.new";
/// Held while it is open.
pub const LOCK_FILE: &str = "LOCK";
/// `lost+found`: the directory may be a mount point.
const FILES_ALLOWED: [&str; 4] = [ENGINE_FILE, ENGINE_FILE_NEW, LOCK_FILE, "lost+found"];
/// An `ENGINE` file longer than this is not ours.
const ENGINE_FILE_BYTES_MAX: u64 = 4096;
const BEING_MADE: &str = "being made";

/// A directory that is ours, locked.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    engine: &'static str,
    files: &'static [&'static str],
    identity: String,
    made: bool,
    _lock: File,
}

impl Directory {
    /// Takes a directory of `engine`, whose own files (or directories) have the names `files`; the
    /// first is always there once the directory is made. `identity`: whose data it is; empty: not compared.
    pub fn take(
        path: &Path,
        engine: &'static str,
        files: &'static [&'static str],
        identity: &str,
    ) -> Result<Directory, EngineError> {
        fs::create_dir_all(path).map_err(|error| path_failure(path, &error))?;
        let found = refuse_foreign_files(path, engine, files)?;
        let made = match read_engine_file(path, engine)? {
            Some((made, owner)) => {
                check_identity(path, &owner, identity)?;
                made
            }
            None if found => {
                return Err(EngineError::WrongFormat(format!(
                    "{} holds files named like those of engine {engine}, but no {ENGINE_FILE}; it belongs to another program, give the engine an empty directory",
                    path.display()
                )))
            }
            None => false,
        };
        if made && !path.join(files[0]).exists() {
            return Err(EngineError::Corrupt(format!(
                "{} is missing, but {ENGINE_FILE} says it was made; rebuild the replica",
                path.join(files[0]).display()
            )));
        }
        let lock = lock(path, engine)?;
        let identity = escaped(identity);
        let directory = Directory { path: path.to_path_buf(), engine, files, identity, made, _lock: lock };
        if !made {
            directory.write_engine_file(BEING_MADE)?;
            directory.remove_unfinished()?;
        }
        Ok(directory)
    }

    /// Whether it was made before.
    pub fn is_made(&self) -> bool {
        self.made
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Says that the engine's files are whole. Called when they are synced.
    pub fn finish(&mut self) -> Result<(), EngineError> {
        if !self.made {
            sync_directory(&self.path)?;
            self.write_engine_file("")?;
            self.made = true;
        }
        Ok(())
    }

    fn remove_unfinished(&self) -> Result<(), EngineError> {
        for name in self.files {
            let path = self.path.join(name);
            let removed = match path.is_dir() {
                true => fs::remove_dir_all(&path),
                false => fs::remove_file(&path),
            };
            match removed {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(path_failure(&path, &error));
                }
                _ => {}
            }
        }
        sync_directory(&self.path)
    }

    /// Whole or not at all.
    fn write_engine_file(&self, state: &str) -> Result<(), EngineError> {
        let (new, path) = (self.path.join(ENGINE_FILE_NEW), self.path.join(ENGINE_FILE));
        let line = format!("{} {state}", engine_line(self.engine, FORMAT_VERSION));
        let text = format!("{}\nidentity {}\n", line.trim_end(), self.identity);
        let written = File::create(&new).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        written.and_then(|()| fs::rename(&new, &path)).map_err(|error| path_failure(&path, &error))?;
        sync_directory(&self.path)
    }
}

fn engine_line(engine: &str, version: u32) -> String {
    format!("hive engine {engine} format {version}")
}

/// Whether any of the engine's own files is there.
fn refuse_foreign_files(path: &Path, engine: &str, files: &[&str]) -> Result<bool, EngineError> {
    let mut found = false;
    for entry in fs::read_dir(path).map_err(|error| path_failure(path, &error))? {
        let name = entry.map_err(|error| path_failure(path, &error))?.file_name();
        let own = files.iter().any(|file| name == *file);
        found |= own;
        if !own && !FILES_ALLOWED.iter().any(|allowed| name == *allowed) {
            return Err(EngineError::WrongFormat(format!(
                "{} holds {name:?}, which is no file of engine {engine}; give the engine a directory of its own",
                path.display()
            )));
        }
    }
    Ok(found)
}

/// Identities as they stand in the file: one line, whatever they hold.
fn escaped(identity: &str) -> String {
    identity.escape_default().to_string()
}

fn check_identity(directory: &Path, owner: &str, wanted: &str) -> Result<(), EngineError> {
    if wanted.is_empty() || owner == escaped(wanted) {
        return Ok(());
    }
    Err(EngineError::WrongFormat(format!(
        "{} belongs to \"{owner}\", not to \"{}\"; restore the right directory or give an empty one",
        directory.display(),
        escaped(wanted)
    )))
}

/// Whether the engine's files were made whole, and whose they are; `None` without an `ENGINE` file,
/// an error if it names something else.
fn read_engine_file(directory: &Path, engine: &str) -> Result<Option<(bool, String)>, EngineError> {
    let path = directory.join(ENGINE_FILE);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(path_failure(&path, &error)),
    };
    let mut text = Vec::new();
    file.take(ENGINE_FILE_BYTES_MAX).read_to_end(&mut text).map_err(|error| path_failure(&path, &error))?;
    let text = String::from_utf8_lossy(&text);
    let mut lines = text.lines();
    let line = lines.next().unwrap_or_default();
    let owner = lines.next().and_then(|line| line.strip_prefix("identity ")).unwrap_or_default().to_string();
    let rest = line.strip_prefix(&format!("hive engine {engine} format ")).map(str::trim_end);
    let (number, state) = rest.map_or(("", ""), |rest| rest.split_once(' ').unwrap_or((rest, "")));
    match number.parse::<u32>() {
        Ok(version) if version > FORMAT_VERSION => Err(newer_format(directory, engine, version, FORMAT_VERSION)),
        Ok(FORMAT_VERSION) if state.is_empty() => Ok(Some((true, owner))),
        Ok(FORMAT_VERSION) if state == BEING_MADE => Ok(Some((false, owner))),
        _ => Err(EngineError::WrongFormat(format!(
            "{} says \"{}\", not \"{}\"; the directory belongs to something else, give the engine one of its own",
            path.display(),
            line.escape_debug(),
            engine_line(engine, FORMAT_VERSION)
        ))),
    }
}

/// The refusal of a format of a later release.
pub fn newer_format(directory: &Path, engine: &str, version: u32, newest: u32) -> EngineError {
    EngineError::WrongFormat(format!(
        "{} has {engine} engine format {version}, this program reads up to {newest}; start it with the newer release",
        directory.display()
    ))
}

fn lock(directory: &Path, engine: &str) -> Result<File, EngineError> {
    let path = directory.join(LOCK_FILE);
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(|error| path_failure(&path, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(EngineError::Io(format!(
            "{} is open in another {engine} engine; stop that process, or name another directory",
            directory.display()
        ))),
        Err(TryLockError::Error(error)) => Err(path_failure(&path, &error)),
    }
}

/// Makes the names in a directory durable.
pub fn sync_directory(directory: &Path) -> Result<(), EngineError> {
    File::open(directory).and_then(|handle| handle.sync_all()).map_err(|error| path_failure(directory, &error))
}
