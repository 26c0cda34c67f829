//! Why a backup was not made, not believed or not restored: each line says what to do.

use hive_client::ClientError;
use std::path::Path;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say what the fields are.
pub enum BackupError {
    /// The world refused or did not answer.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// An answer that lacks what it must have.
    #[error("the answer to {action} has no {field}; is this node of another version?")]
    Answer { action: String, field: &'static str },
    #[error("{path}: {reason}")]
    File { path: String, reason: std::io::Error },
    #[error("{path} is damaged: {what}; take another backup, this one is not restored")]
    Damaged { path: String, what: String },
    #[error("{path} has format {found}, and this program knows formats up to {known}; use the hive that wrote it, or a newer one")]
    Newer { path: String, found: u64, known: u64 },
    #[error(
        "{dir}: the manifest does not fit its signature: one of them was changed after signing; take another backup"
    )]
    WrongSignature { dir: String },
    #[error(
        "{dir} was signed by {signer}, which nobody here trusts; if you do, name its public key with --trust FILE"
    )]
    ForeignSignature { dir: String, signer: String },
    #[error("{dir} holds an unfinished backup; finish it: hive backup create {dir} --keyspace {keyspace}")]
    Unfinished { dir: String, keyspace: String },
    #[error("{dir} holds no backup; name the directory that `hive backup create` filled")]
    NoBackup { dir: String },
    #[error("{dir} holds {what}; name an empty directory, or one that is not there yet")]
    Occupied { dir: String, what: String },
    #[error("{place}: {reason}")]
    Place { place: String, reason: String },
    #[error("{path}: {reason}")]
    Key { path: String, reason: String },
    #[error("keyspace {keyspace} is of the kind {kind}, which cannot be backed up; kinds that can: versioned, plain")]
    Kind { keyspace: String, kind: String },
    #[error("the instant of this backup is gone: {why}; run the same command again, it begins a new backup")]
    InstantLost { why: String },
    #[error("increments are of versioned keyspaces, and {keyspace} is {kind}; leave --base out")]
    NoIncrement { keyspace: String, kind: String },
    #[error("{dir} is no base for this backup: {why}; take a full backup (without --base)")]
    UnfitBase { dir: String, why: String },
    #[error("{dir} needs the backup {base}, which is not beside it; name its directory with --base")]
    BaseMissing { dir: String, base: String },
    #[error("keyspace {keyspace} is there and holds keys; take another name, continue a stopped restore with --resume, or restore over it with --in-place")]
    TargetTaken { keyspace: String },
    #[error("keyspace {keyspace} is {found}, and the backup is of a {wanted} one; name another with --as")]
    TargetKind { keyspace: String, found: String, wanted: String },
}

impl BackupError {
    pub(crate) fn file(path: &Path, reason: std::io::Error) -> BackupError {
        BackupError::File { path: path.display().to_string(), reason }
    }

    pub(crate) fn damaged(path: impl Into<String>, what: impl Into<String>) -> BackupError {
        BackupError::Damaged { path: path.into(), what: what.into() }
    }

    /// What a command-line tool exits with.
    pub fn exit_code(&self) -> u8 {
        match self {
            BackupError::Client(error) => error.exit_code(),
            BackupError::Key { .. } | BackupError::Place { .. } => 2,
            _ => 1,
        }
    }
}
