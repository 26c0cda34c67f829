//! What a backup that is not whole yet consists of: a line for its beginning, then a line for each finished part. It is what lets
//! a stopped backup continue; with the manifest it goes.
//!
//! Always: after [`Journal::resume`] the directory has the parts of the journal, each as it was written, and no other. Held by:
//! `stale_parts_are_removed`, `resume_drops_a_damaged_part_and_all_later`.

use crate::files::{read_whole, sync_folder, write_whole, TEMPORARY};
use crate::keyspace::Keyspace;
use crate::manifest::{self, Base, Instant, FORMAT};
use crate::part::{self, PartRecord};
use crate::BackupError;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The file.
pub const FILE: &str = "unfinished.jsonl";
const JOURNAL_BYTES_MAX: u64 = 512 << 20;

/// How a backup began.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Beginning {
    pub format: u64,
    pub backup: String,
    pub world: String,
    pub keyspace: Keyspace,
    pub instant: Option<Instant>,
    /// The pin that keeps the instant readable; 0: none.
    pub pin: u64,
    pub base: Option<Base>,
    pub started_ms: u64,
}

/// A backup under way.
pub struct Journal {
    dir: PathBuf,
    file: File,
    pub beginning: Beginning,
    pub parts: Vec<PartRecord>,
}

/// Of which keyspace a directory has an unfinished backup.
pub fn keyspace_of(dir: &Path) -> Option<String> {
    Some(read(dir).ok()??.0.keyspace.name)
}

/// What the journal of a directory says; a line that a crash cut off does not count.
pub fn read(dir: &Path) -> Result<Option<(Beginning, Vec<PartRecord>)>, BackupError> {
    let path = dir.join(FILE);
    if !path.exists() {
        return Ok(None);
    }
    let bytes = read_whole(&path, JOURNAL_BYTES_MAX)?;
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    let Some(beginning) = lines.next().and_then(|line| serde_json::from_slice::<Beginning>(line).ok()) else {
        return Ok(None);
    };
    let parts = lines.map_while(|line| serde_json::from_slice(line).ok()).collect();
    Ok(Some((beginning, parts)))
}

impl Journal {
    /// Begins a backup: what an earlier attempt left in the directory goes first.
    pub fn begin(dir: &Path, beginning: Beginning) -> Result<Journal, BackupError> {
        remove_parts(dir, 0)?;
        Journal::write(dir, beginning, Vec::new())
    }

    /// Continues one: parts that are as they were written stay, up to the first that is not; all others go.
    pub fn resume(dir: &Path, beginning: Beginning, parts: Vec<PartRecord>) -> Result<Journal, BackupError> {
        let id = manifest::id_of(&beginning.backup);
        let id = id.ok_or_else(|| BackupError::damaged(&dir.join(FILE), "'backup' is not 32 digits in hex"))?;
        let is_whole = |(number, record): &(u32, PartRecord)| part::read(dir, &id, *number, record).is_ok();
        let kept: Vec<_> = (1u32..).zip(parts).take_while(is_whole).map(|(_, record)| record).collect();
        remove_parts(dir, kept.len() as u32)?;
        Journal::write(dir, beginning, kept)
    }

    fn write(dir: &Path, beginning: Beginning, parts: Vec<PartRecord>) -> Result<Journal, BackupError> {
        assert_eq!(beginning.format, FORMAT);
        let mut text = line(&beginning);
        parts.iter().for_each(|part| text.push_str(&line(part)));
        let path = dir.join(FILE);
        write_whole(&path, text.as_bytes())?;
        let file = OpenOptions::new().append(true).open(&path).map_err(|error| BackupError::file(&path, error))?;
        Ok(Journal { dir: dir.to_owned(), file, beginning, parts })
    }

    /// Remembers a part, which is durable already.
    pub fn add(&mut self, part: PartRecord) -> Result<(), BackupError> {
        let written = self.file.write_all(line(&part).as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(|error| BackupError::file(&self.dir.join(FILE), error))?;
        self.parts.push(part);
        Ok(())
    }

    /// The manifest is there: the journal goes.
    pub fn end(self) -> Result<(), BackupError> {
        let path = self.dir.join(FILE);
        fs::remove_file(&path).map_err(|error| BackupError::file(&path, error))?;
        sync_folder(&self.dir)
    }
}

fn line<T: Serialize>(value: &T) -> String {
    format!("{}\n", serde_json::to_string(value).expect("only names and numbers"))
}

/// Removes the parts after one, a signature without a manifest, and what was not written to its end.
fn remove_parts(dir: &Path, kept: u32) -> Result<(), BackupError> {
    assert!(!dir.join(manifest::FILE).exists(), "a whole backup is never touched");
    let failed = |error| BackupError::file(dir, error);
    for found in fs::read_dir(dir).map_err(failed)? {
        let found = found.map_err(failed)?;
        let name = found.file_name().to_string_lossy().into_owned();
        let stale = part::number_of(&name).is_some_and(|number| number > kept || number == 0);
        if stale || is_ours(&name) && name.ends_with(TEMPORARY) || name == manifest::SIGNATURE_FILE {
            fs::remove_file(found.path()).map_err(|error| BackupError::file(&found.path(), error))?;
        }
    }
    sync_folder(dir)
}

/// Whether a file of a backup has this name.
pub fn is_ours(name: &str) -> bool {
    let name = name.strip_suffix(TEMPORARY).unwrap_or(name);
    part::number_of(name).is_some() || [FILE, manifest::FILE, manifest::SIGNATURE_FILE].contains(&name)
}
