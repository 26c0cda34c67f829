//! What a backup that is not whole yet consists of: a line for its beginning, then a line for each finished part. It is what lets
//! a stopped backup continue; with the manifest it goes.
//!
//! Always: after [`Journal::resume`] the directory has the parts of the journal, each as it was written, and no other. Held by:
//! `stale_parts_are_removed`, `resume_drops_a_damaged_part_and_all_later`.

use crate::depot::Depot;
use crate::files::TEMPORARY;
use crate::keyspace::Keyspace;
use crate::manifest::{self, Base, Instant, FORMAT};
use crate::part::{self, PartRecord};
use crate::BackupError;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant as Moment};

/// The file.
pub const FILE: &str = "unfinished.jsonl";
const JOURNAL_BYTES_MAX: u64 = 512 << 20;
/// An object is not appended to: there the journal is written again after this time. Parts since then are made again after a crash.
const OBJECT_PAUSE: Duration = Duration::from_secs(10);

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
    dir: Depot,
    kept: Kept,
    pub beginning: Beginning,
    pub parts: Vec<PartRecord>,
}

/// How a journal grows.
enum Kept {
    /// Line by line.
    Appended(File),
    /// As a whole; written last at this moment.
    #[cfg_attr(not(feature = "object-store"), allow(dead_code))]
    Rewritten(Moment),
}

/// Of which keyspace a directory has an unfinished backup.
pub async fn keyspace_of(dir: &Depot) -> Option<String> {
    Some(read(dir).await.ok()??.0.keyspace.name)
}

/// What the journal of a directory says; a line that a crash cut off does not count.
pub async fn read(dir: &Depot) -> Result<Option<(Beginning, Vec<PartRecord>)>, BackupError> {
    let Some(bytes) = dir.get(FILE, JOURNAL_BYTES_MAX).await? else { return Ok(None) };
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    let Some(beginning) = lines.next().and_then(|line| serde_json::from_slice::<Beginning>(line).ok()) else {
        return Ok(None);
    };
    let parts = lines.map_while(|line| serde_json::from_slice(line).ok()).collect();
    Ok(Some((beginning, parts)))
}

impl Journal {
    /// Begins a backup: what an earlier attempt left in the directory goes first.
    pub async fn begin(dir: &Depot, beginning: Beginning) -> Result<Journal, BackupError> {
        remove_parts(dir, 0).await?;
        Journal::write(dir, beginning, Vec::new()).await
    }

    /// Continues one: parts that are as they were written stay, up to the first that is not; all others go.
    pub async fn resume(dir: &Depot, beginning: Beginning, parts: Vec<PartRecord>) -> Result<Journal, BackupError> {
        let id = manifest::id_of(&beginning.backup);
        let id = id.ok_or_else(|| BackupError::damaged(dir.file(FILE), "'backup' is not 32 digits in hex"))?;
        let mut kept = Vec::new();
        for (number, record) in (1u32..).zip(parts) {
            if part::read(dir, &id, number, &record).await.is_err() {
                break;
            }
            kept.push(record);
        }
        remove_parts(dir, kept.len() as u32).await?;
        Journal::write(dir, beginning, kept).await
    }

    async fn write(dir: &Depot, beginning: Beginning, parts: Vec<PartRecord>) -> Result<Journal, BackupError> {
        assert_eq!(beginning.format, FORMAT);
        dir.put(FILE, text(&beginning, &parts)).await?;
        let kept = match dir {
            Depot::Directory(path) => Kept::Appended(append_to(&path.join(FILE))?),
            #[cfg(feature = "object-store")]
            Depot::Objects(_) => Kept::Rewritten(Moment::now()),
        };
        Ok(Journal { dir: dir.clone(), kept, beginning, parts })
    }

    /// Remembers a part, which is durable already.
    pub async fn add(&mut self, part: PartRecord) -> Result<(), BackupError> {
        self.parts.push(part);
        match &mut self.kept {
            Kept::Appended(file) => {
                let last = self.parts.last().map(line).unwrap_or_default();
                let written = file.write_all(last.as_bytes()).and_then(|()| file.sync_data());
                written.map_err(|reason| BackupError::File { path: self.dir.file(FILE), reason })
            }
            Kept::Rewritten(last) if last.elapsed() < OBJECT_PAUSE => Ok(()),
            Kept::Rewritten(last) => {
                *last = Moment::now();
                self.dir.put(FILE, text(&self.beginning, &self.parts)).await
            }
        }
    }

    /// The manifest is there: the journal goes.
    pub async fn end(self) -> Result<(), BackupError> {
        self.dir.remove(FILE).await
    }
}

fn append_to(path: &Path) -> Result<File, BackupError> {
    OpenOptions::new().append(true).open(path).map_err(|error| BackupError::file(path, error))
}

fn text(beginning: &Beginning, parts: &[PartRecord]) -> Vec<u8> {
    let lines = std::iter::once(line(beginning)).chain(parts.iter().map(line));
    lines.collect::<String>().into_bytes()
}

fn line<T: Serialize>(value: &T) -> String {
    format!("{}\n", serde_json::to_string(value).expect("only names and numbers"))
}

/// Removes the parts after one, a signature without a manifest, and what was not written to its end.
async fn remove_parts(dir: &Depot, kept: u32) -> Result<(), BackupError> {
    assert!(!dir.has(manifest::FILE).await?, "a whole backup is never touched");
    for name in dir.names().await? {
        let stale = part::number_of(&name).is_some_and(|number| number > kept || number == 0);
        if stale || is_ours(&name) && name.ends_with(TEMPORARY) || name == manifest::SIGNATURE_FILE {
            dir.remove(&name).await?;
        }
    }
    Ok(())
}

/// Whether a file of a backup has this name.
pub fn is_ours(name: &str) -> bool {
    let name = name.strip_suffix(TEMPORARY).unwrap_or(name);
    part::number_of(name).is_some() || [FILE, manifest::FILE, manifest::SIGNATURE_FILE].contains(&name)
}
