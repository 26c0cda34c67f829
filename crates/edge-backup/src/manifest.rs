//! The manifest: what a backup is, and every part of it. It is written last, after its signature.
//!
//! Always: a manifest is read only if its format is known and a trusted key signed its bytes. Held by: `newer_format_is_refused`,
//! `changed_manifest_or_signature_is_refused`, `foreign_signature_is_refused`.

use crate::depot::Depot;
use crate::files::{hex, sha256};
use crate::keyspace::Keyspace;
use crate::part::{BackupId, PartRecord};
use crate::sign::{Signer, Trusted};
use crate::BackupError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The format that this program writes; it reads no later one.
pub const FORMAT: u64 = 1;
/// The manifest of a whole backup.
pub const FILE: &str = "manifest.json";
/// The signature of the manifest's bytes: 64 bytes of Ed25519.
pub const SIGNATURE_FILE: &str = "manifest.sig";
/// The longest manifest: 1,000,000 parts.
const MANIFEST_BYTES_MAX: u64 = 512 << 20;
const SIGNATURE_BYTES_MAX: u64 = 1 << 10;

/// The one instant of a backup: a stamp of one cluster in one of its lives.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Instant {
    pub stamp: u64,
    /// The cluster's clock when the instant was pinned.
    pub time_ms: u64,
    pub cluster: String,
    pub id: u64,
    pub generation: u64,
}

/// The backup that an increment continues.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Base {
    pub backup: String,
    pub stamp: u64,
    pub manifest_sha256: String,
}

/// All of it; docs/formats/backup.md says what each field means.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Manifest {
    pub format: u64,
    pub backup: String,
    pub world: String,
    pub keyspace: Keyspace,
    pub instant: Option<Instant>,
    pub started_ms: u64,
    pub finished_ms: u64,
    pub base: Option<Base>,
    pub entries: u64,
    pub deletions: u64,
    pub bytes: u64,
    pub parts: Vec<PartRecord>,
    pub signer: String,
}

/// A manifest that is believed, with its directory.
#[derive(Clone)]
pub struct Signed {
    pub dir: Depot,
    pub id: BackupId,
    pub manifest: Manifest,
    /// Of the manifest's bytes.
    pub sha256: String,
}

impl Manifest {
    /// Makes the backup whole: the signature, then the manifest.
    pub async fn write(&self, dir: &Depot, signer: &Signer) -> Result<(), BackupError> {
        let mut bytes = serde_json::to_vec_pretty(self).expect("a manifest has only names and numbers");
        bytes.push(b'\n');
        dir.put(SIGNATURE_FILE, signer.sign(&bytes)).await?;
        dir.put(FILE, bytes).await
    }

    /// Reads it without believing it: for listings.
    pub async fn peek(dir: &Depot) -> Result<Manifest, BackupError> {
        Ok(parse(dir).await?.1)
    }

    /// Reads and believes it.
    pub async fn read(dir: &Depot, trusted: &Trusted) -> Result<Signed, BackupError> {
        let (bytes, manifest) = parse(dir).await?;
        let shown = dir.shown();
        let signature = dir.get(SIGNATURE_FILE, SIGNATURE_BYTES_MAX).await?;
        let missing = || BackupError::damaged(dir.file(SIGNATURE_FILE), "it is missing");
        if !trusted.has_signed(&bytes, &signature.ok_or_else(missing)?) {
            return Err(match trusted.knows(&manifest.signer) {
                true => BackupError::WrongSignature { dir: shown },
                false => BackupError::ForeignSignature { dir: shown, signer: manifest.signer },
            });
        }
        let id = id_of(&manifest.backup);
        let id = id.ok_or_else(|| BackupError::damaged(dir.file(FILE), "'backup' is not 32 digits in hex"))?;
        Ok(Signed { dir: dir.clone(), id, sha256: sha256(&bytes), manifest })
    }
}

/// The bytes of a manifest, and what they say.
async fn parse(dir: &Depot) -> Result<(Vec<u8>, Manifest), BackupError> {
    let Some(bytes) = dir.get(FILE, MANIFEST_BYTES_MAX).await? else {
        return Err(BackupError::NoBackup { dir: dir.shown() });
    };
    let damaged =
        |error: serde_json::Error| BackupError::damaged(dir.file(FILE), format!("it is no manifest: {error}"));
    let value: Value = serde_json::from_slice(&bytes).map_err(damaged)?;
    // Before all else: a newer format may have other fields and other signatures.
    let found = value["format"].as_u64().unwrap_or(0);
    if found > FORMAT {
        return Err(BackupError::Newer { path: dir.file(FILE), found, known: FORMAT });
    }
    let manifest = serde_json::from_value(value).map_err(damaged)?;
    Ok((bytes, manifest))
}

/// A backup's name as the manifest writes it.
pub fn id_text(id: &BackupId) -> String {
    hex(id)
}

/// And back.
pub fn id_of(text: &str) -> Option<BackupId> {
    let number = u128::from_str_radix(text, 16).ok().filter(|_| text.len() == 32)?;
    Some(number.to_be_bytes())
}
