//! Which backups lie in a directory, and what they are; parts are not read.

use crate::journal;
use crate::manifest::{self, Manifest};
use crate::sign::Trusted;
use crate::BackupError;
use std::path::{Path, PathBuf};

/// The most backups a listing looks at.
const LISTED_MAX: usize = 10_000;

/// What a directory holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum State {
    /// A whole backup with a good signature; its parts are as good as `verify` finds them.
    Whole,
    /// A backup that was not finished: of this keyspace, with so many parts.
    Unfinished {
        /// The keyspace.
        keyspace: String,
        /// Finished parts.
        parts: usize,
    },
    /// A manifest that is not believed, and why.
    Refused(String),
}

/// A directory with a backup.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Where.
    pub dir: PathBuf,
    /// What it is.
    pub state: State,
    /// What its manifest says, if it can be read.
    pub manifest: Option<Manifest>,
}

/// The backup in a directory, or those in the directories under it, by name.
pub fn list(dir: &Path, trusted: &Trusted) -> Result<Vec<Listed>, BackupError> {
    if let Some(own) = look(dir, trusted) {
        return Ok(vec![own]);
    }
    let failed = |error| BackupError::file(dir, error);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failed)?.take(LISTED_MAX) {
        found.extend(look(&entry.map_err(failed)?.path(), trusted));
    }
    found.sort_by(|one, other| one.dir.cmp(&other.dir));
    Ok(found)
}

fn look(dir: &Path, trusted: &Trusted) -> Option<Listed> {
    if dir.join(manifest::FILE).exists() {
        let state = match Manifest::read(dir, trusted) {
            Ok(_) => State::Whole,
            Err(error) => State::Refused(error.to_string()),
        };
        return Some(Listed { dir: dir.to_owned(), state, manifest: Manifest::peek(dir).ok() });
    }
    let (beginning, parts) = journal::read(dir).ok()??;
    let state = State::Unfinished { keyspace: beginning.keyspace.name, parts: parts.len() };
    Some(Listed { dir: dir.to_owned(), state, manifest: None })
}
