//! `hive backup`: keyspaces into directories and back.

use super::World;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// The key that signs.
#[derive(Args, Debug, Clone, Default)]
pub struct SignKey {
    /// The Ed25519 private key that signs backups, in PEM; made if it is absent. Default: ~/.config/hive/backup.key
    #[arg(long, env = "HIVE_BACKUP_KEY", value_name = "FILE")]
    pub sign_key: Option<PathBuf>,
}

/// Whose backups are believed.
#[derive(Args, Debug, Clone, Default)]
pub struct Trust {
    /// Public keys of signers, in PEM, as `hive backup key` prints them; the key of --sign-key is trusted too
    #[arg(long, value_name = "FILE")]
    pub trust: Vec<PathBuf>,
    #[command(flatten)]
    pub own: SignKey,
}

#[derive(Subcommand, Debug)]
pub enum BackupCommand {
    /// Back up a keyspace into a directory; run it again after it was stopped, and it continues
    ///
    /// A versioned keyspace is backed up as it was at one instant, which a pin keeps readable while writes continue. A plain keyspace
    /// has no instant over its clusters: each part holds its keys as they were when the part was read, and the manifest has the times.
    Create(BackupCreate),
    /// List the backups in a directory, without reading their parts
    List {
        /// A backup, or a directory of backups; or the URL of one
        dir: String,
        #[command(flatten)]
        trust: Trust,
        /// JSON for machines instead of text
        #[arg(long)]
        json: bool,
    },
    /// Read all of a backup and compare it with its signed manifest; no world is needed
    Verify {
        /// The backup: a directory, or a URL
        dir: String,
        /// Where a backup that it continues lies, if not beside it
        #[arg(long, value_name = "DIR")]
        base: Vec<String>,
        #[command(flatten)]
        trust: Trust,
        /// JSON for machines instead of text
        #[arg(long)]
        json: bool,
    },
    /// Verify a backup, then restore it beside (--as) or over (--in-place) what is there
    ///
    /// Nothing is written before all of the backup was read and fits its signature. A restore is many commits: who reads meanwhile sees
    /// some of them. Stamps and versions of keys start from 1 again. Run it again after it was stopped: with --as add --resume.
    Restore(BackupRestore),
    /// Print the public key that verifies this machine's backups
    Key {
        #[command(flatten)]
        key: SignKey,
    },
}

#[derive(Args, Debug)]
pub struct BackupCreate {
    /// The directory that becomes the backup: empty, absent, or with an unfinished backup; or a URL (s3://BUCKET/PREFIX) of such a place,
    /// with credentials from the environment (AWS_ACCESS_KEY_ID, …)
    pub dir: String,
    /// The keyspace, of the kind versioned or plain
    #[arg(long)]
    pub keyspace: String,
    /// Only what changed since this backup (of a versioned keyspace); restoring needs both
    #[arg(long, value_name = "DIR")]
    pub base: Option<String>,
    /// At most so many MB of keys and values a second; by default as fast as it can be
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub rate: Option<u32>,
    /// How long the instant stays readable after the command was stopped, for the next run to continue
    #[arg(long, value_name = "MINUTES", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=1440))]
    pub keep: u32,
    #[command(flatten)]
    pub key: SignKey,
    #[command(flatten)]
    pub world: World,
}

#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("place").required(true).args(["beside", "in_place"]))]
pub struct BackupRestore {
    /// The backup: a directory, or a URL
    pub dir: String,
    /// Restore into a new keyspace of this name
    #[arg(id = "beside", long = "as", value_name = "KEYSPACE")]
    pub beside: Option<String>,
    /// Make the keyspace that was backed up, or the one named, what it was: later keys are deleted
    #[arg(long, value_name = "KEYSPACE", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub in_place: Option<String>,
    /// Only keys that begin with this; others are left alone
    #[arg(long, default_value = "")]
    pub prefix: String,
    /// The new keyspace's rule; by default that of the backup
    #[arg(long, requires = "beside")]
    pub rule: Option<String>,
    /// Continue a stopped restore: the keyspace of --as is there already
    #[arg(long, requires = "beside")]
    pub resume: bool,
    /// Restore keys that had a lease, too, as keys without one; by default keys with a lease are left out and left alone
    #[arg(long)]
    pub leased: bool,
    /// Where a backup that this one continues lies, if not beside it
    #[arg(long, value_name = "DIR")]
    pub base: Vec<String>,
    /// At most so many MB of keys and values a second; by default as fast as it can be
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub rate: Option<u32>,
    /// Do not ask before an --in-place restore
    #[arg(long)]
    pub yes: bool,
    #[command(flatten)]
    pub trust: Trust,
    #[command(flatten)]
    pub world: World,
}
