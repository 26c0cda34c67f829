//! Backups of keyspaces: made, listed, verified and restored through the HTTP JSON API.
//!
//! ```text
//!   create.rs   world ── pages.rs ──▶ part.rs ──▶ journal.rs … manifest.rs, signed (sign.rs), last
//!   restore.rs  verify.rs ──▶ content.rs, merged over increments ── compared with the target ──▶ batches
//! ```
//!
//! A directory holds one backup. What it is, byte by byte: docs/formats/backup.md. Why it is so: docs/decisions/0110.
//!
//! Always: a directory without `manifest.json` is no whole backup; nothing is written to a world before every part was read and fits
//! the signed manifest. Held by: `unfinished_backup_is_refused`, `restore_writes_nothing_from_a_damaged_backup`.
//! Not here: the command line (edge-cli), buckets and their objects.
#![deny(missing_docs)]

mod content;
mod create;
mod depot;
mod entry;
mod error;
mod files;
mod increment;
mod journal;
mod keyspace;
mod list;
mod manifest;
mod pace;
mod pages;
mod part;
mod restore;
mod sign;
mod store;
mod verify;

#[cfg(test)]
mod tests;

pub use create::{create, CreateOptions, Created};
pub use depot::Depot;
pub use error::BackupError;
pub use list::{list, Listed, State};
pub use manifest::{Instant, Manifest, FORMAT};
pub use pace::Progress;
pub use restore::{restore, Place, RestoreOptions, Restored};
pub use sign::{Signer, Trusted};
pub use store::Store;
pub use verify::{verify, Chain};
