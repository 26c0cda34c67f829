//! Which backups lie in a directory, and what they are; parts are not read.

use crate::depot::Depot;
use crate::journal;
use crate::manifest::{self, Manifest};
use crate::sign::Trusted;
use crate::BackupError;

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
    pub dir: String,
    /// What it is.
    pub state: State,
    /// What its manifest says, if it can be read.
    pub manifest: Option<Manifest>,
}

/// The backup in a directory, or those in the directories under it, by name.
pub async fn list(dir: &Depot, trusted: &Trusted) -> Result<Vec<Listed>, BackupError> {
    if let Some(own) = look(dir, trusted).await? {
        return Ok(vec![own]);
    }
    let mut found = Vec::new();
    for child in dir.children().await? {
        found.extend(look(&child, trusted).await?);
    }
    Ok(found)
}

async fn look(dir: &Depot, trusted: &Trusted) -> Result<Option<Listed>, BackupError> {
    if dir.has(manifest::FILE).await? {
        let state = match Manifest::read(dir, trusted).await {
            Ok(_) => State::Whole,
            Err(error) => State::Refused(error.to_string()),
        };
        return Ok(Some(Listed { dir: dir.shown(), state, manifest: Manifest::peek(dir).await.ok() }));
    }
    let Some((beginning, parts)) = journal::read(dir).await? else { return Ok(None) };
    let state = State::Unfinished { keyspace: beginning.keyspace.name, parts: parts.len() };
    Ok(Some(Listed { dir: dir.shown(), state, manifest: None }))
}
