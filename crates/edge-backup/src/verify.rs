//! A backup is read to its last byte, with all backups that it stands on, without a world.
//!
//! Always: a chain that is given back was read whole and fits its signed manifests. Held by: `truncated_part_is_refused`,
//! `missing_part_is_refused`, `increment_without_its_base_is_refused`.

use crate::journal;
use crate::manifest::{Manifest, Signed, FILE};
use crate::pace::Progress;
use crate::part::{self, PartRecord};
use crate::sign::Trusted;
use crate::BackupError;
use bytes::Bytes;
use std::path::{Path, PathBuf};

/// The most backups that stand on each other.
const CHAIN_MAX: usize = 1_000;
/// The most directories beside a backup that are searched for its base.
const SIBLINGS_MAX: usize = 10_000;

/// A backup, and those under it: the full one is the first.
pub struct Chain {
    pub(crate) layers: Vec<Signed>,
}

impl Chain {
    /// What the backup itself says.
    pub fn manifest(&self) -> &Manifest {
        &self.top().manifest
    }

    /// How many backups it has.
    pub fn count(&self) -> usize {
        self.layers.len()
    }

    pub(crate) fn top(&self) -> &Signed {
        self.layers.last().expect("a chain has a backup")
    }
}

/// Reads all of a backup and of its bases, which lie beside it or in `bases`.
pub fn verify(
    dir: &Path,
    bases: &[PathBuf],
    trusted: &Trusted,
    progress: &mut dyn FnMut(Progress),
) -> Result<Chain, BackupError> {
    let mut layers = vec![read(dir, trusted)?];
    while let Some(above) = layers.last().filter(|layer| layer.manifest.base.is_some()) {
        if layers.len() == CHAIN_MAX {
            return Err(BackupError::damaged(dir, format!("it stands on more than {CHAIN_MAX} backups")));
        }
        let base = find_base(above, bases, trusted)?;
        layers.push(base);
    }
    layers.reverse();
    let mut done = Progress { of: layers.iter().map(|layer| layer.manifest.entries).sum(), ..Progress::default() };
    for layer in &layers {
        check_parts(layer, &mut done, progress)?;
    }
    Ok(Chain { layers })
}

/// The manifest of a directory; one without may have an unfinished backup.
fn read(dir: &Path, trusted: &Trusted) -> Result<Signed, BackupError> {
    match (Manifest::read(dir, trusted), journal::keyspace_of(dir)) {
        (Err(BackupError::NoBackup { dir }), Some(keyspace)) => Err(BackupError::Unfinished { dir, keyspace }),
        (read, _) => read,
    }
}

/// Every part, their order, and the sums.
fn check_parts(signed: &Signed, done: &mut Progress, progress: &mut dyn FnMut(Progress)) -> Result<(), BackupError> {
    let (manifest, dir) = (&signed.manifest, &signed.dir);
    let mut last: Option<Bytes> = None;
    for (number, record) in (1u32..).zip(&manifest.parts) {
        let entries = part::read(dir, &signed.id, number, record)?;
        let (Some(first), Some(end)) = (entries.first(), entries.last()) else {
            return Err(BackupError::damaged(&dir.join(&record.file), "it is empty"));
        };
        if last.is_some_and(|last| last >= first.key) {
            return Err(BackupError::damaged(&dir.join(&record.file), "its keys are before those of an earlier part"));
        }
        last = Some(end.key.clone());
        done.entries += u64::from(record.entries);
        done.bytes += record.bytes;
        done.parts += 1;
        progress(*done);
    }
    let sum = |of: fn(&PartRecord) -> u64| manifest.parts.iter().map(of).sum::<u64>();
    let sums = (sum(|part| part.entries.into()), sum(|part| part.deletions.into()), sum(|part| part.bytes));
    if sums != (manifest.entries, manifest.deletions, manifest.bytes) {
        return Err(BackupError::damaged(&dir.join(FILE), "its sums are not those of its parts"));
    }
    match manifest.base.is_none() && manifest.deletions > 0 {
        true => Err(BackupError::damaged(&dir.join(FILE), "a full backup has deletions")),
        false => Ok(()),
    }
}

/// The backup that an increment names, by its name and its bytes.
fn find_base(above: &Signed, bases: &[PathBuf], trusted: &Trusted) -> Result<Signed, BackupError> {
    let wanted = above.manifest.base.as_ref().expect("the caller looked");
    let missing = || BackupError::BaseMissing { dir: above.dir.display().to_string(), base: wanted.backup.clone() };
    let is_it = |dir: &PathBuf| Manifest::peek(dir).is_ok_and(|manifest| manifest.backup == wanted.backup);
    let dir = bases.iter().cloned().chain(siblings(&above.dir)).find(is_it).ok_or_else(missing)?;
    let base = Manifest::read(&dir, trusted)?;
    let stamp = base.manifest.instant.as_ref().map(|instant| instant.stamp);
    if base.sha256 != wanted.manifest_sha256 || stamp != Some(wanted.stamp) {
        let what = format!("it is not what {} was made on", above.dir.display());
        return Err(BackupError::damaged(&dir.join(FILE), what));
    }
    Ok(base)
}

/// The directories beside one.
fn siblings(dir: &Path) -> Vec<PathBuf> {
    let parent = std::fs::canonicalize(dir).ok().and_then(|dir| dir.parent().map(Path::to_owned));
    let Some(found) = parent.and_then(|parent| std::fs::read_dir(parent).ok()) else { return Vec::new() };
    found.flatten().map(|entry| entry.path()).filter(|path| path.join(FILE).exists()).take(SIBLINGS_MAX).collect()
}
