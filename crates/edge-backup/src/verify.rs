//! A backup is read to its last byte, with all backups that it stands on, without a world.
//!
//! Always: a chain that is given back was read whole and fits its signed manifests. Held by: `truncated_part_is_refused`,
//! `missing_part_is_refused`, `increment_without_its_base_is_refused`.

use crate::depot::Depot;
use crate::journal;
use crate::manifest::{Manifest, Signed, FILE};
use crate::pace::Progress;
use crate::part::{self, PartRecord};
use crate::sign::Trusted;
use crate::BackupError;
use bytes::Bytes;

/// The most backups that stand on each other.
const CHAIN_MAX: usize = 1_000;

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
pub async fn verify(
    dir: &Depot,
    bases: &[Depot],
    trusted: &Trusted,
    progress: &mut dyn FnMut(Progress),
) -> Result<Chain, BackupError> {
    let mut layers = vec![read(dir, trusted).await?];
    while let Some(above) = layers.last().filter(|layer| layer.manifest.base.is_some()) {
        if layers.len() == CHAIN_MAX {
            return Err(BackupError::damaged(dir.shown(), format!("it stands on more than {CHAIN_MAX} backups")));
        }
        let base = find_base(above, bases, trusted).await?;
        layers.push(base);
    }
    layers.reverse();
    let mut done = Progress { of: layers.iter().map(|layer| layer.manifest.entries).sum(), ..Progress::default() };
    for layer in &layers {
        check_parts(layer, &mut done, progress).await?;
    }
    Ok(Chain { layers })
}

/// The manifest of a directory; one without may have an unfinished backup.
async fn read(dir: &Depot, trusted: &Trusted) -> Result<Signed, BackupError> {
    match (Manifest::read(dir, trusted).await, journal::keyspace_of(dir).await) {
        (Err(BackupError::NoBackup { dir }), Some(keyspace)) => Err(BackupError::Unfinished { dir, keyspace }),
        (read, _) => read,
    }
}

/// Every part, their order, and the sums.
async fn check_parts(
    signed: &Signed,
    done: &mut Progress,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), BackupError> {
    let (manifest, dir) = (&signed.manifest, &signed.dir);
    let mut last: Option<Bytes> = None;
    for (number, record) in (1u32..).zip(&manifest.parts) {
        let entries = part::read(dir, &signed.id, number, record).await?;
        let (Some(first), Some(end)) = (entries.first(), entries.last()) else {
            return Err(BackupError::damaged(dir.file(&record.file), "it is empty"));
        };
        if last.is_some_and(|last| last >= first.key) {
            return Err(BackupError::damaged(dir.file(&record.file), "its keys are before those of an earlier part"));
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
        return Err(BackupError::damaged(dir.file(FILE), "its sums are not those of its parts"));
    }
    match manifest.base.is_none() && manifest.deletions > 0 {
        true => Err(BackupError::damaged(dir.file(FILE), "a full backup has deletions")),
        false => Ok(()),
    }
}

/// The backup that an increment names, by its name and its bytes.
async fn find_base(above: &Signed, bases: &[Depot], trusted: &Trusted) -> Result<Signed, BackupError> {
    let wanted = above.manifest.base.as_ref().expect("the caller looked");
    for dir in bases.iter().cloned().chain(above.dir.siblings().await?) {
        if !Manifest::peek(&dir).await.is_ok_and(|manifest| manifest.backup == wanted.backup) {
            continue;
        }
        let base = Manifest::read(&dir, trusted).await?;
        let stamp = base.manifest.instant.as_ref().map(|instant| instant.stamp);
        if base.sha256 != wanted.manifest_sha256 || stamp != Some(wanted.stamp) {
            let what = format!("it is not what {} was made on", above.dir.shown());
            return Err(BackupError::damaged(dir.file(FILE), what));
        }
        return Ok(base);
    }
    Err(BackupError::BaseMissing { dir: above.dir.shown(), base: wanted.backup.clone() })
}
