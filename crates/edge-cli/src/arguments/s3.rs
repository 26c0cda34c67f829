//! `hive ctl s3` and `hive ctl bucket`: accounts, their keys and buckets.

use super::World;
use clap::Subcommand;
use std::path::PathBuf;

#[derive(Subcommand, Debug)]
pub enum S3Command {
    /// Accounts
    #[command(subcommand)]
    Account(AccountCommand),
    /// Access keys
    #[command(subcommand)]
    Key(KeyCommand),
}

#[derive(Subcommand, Debug)]
pub enum AccountCommand {
    /// Make an account
    Create {
        account: String,
        /// Its display name; by default the account's name
        #[arg(long)]
        display_name: Option<String>,
        #[command(flatten)]
        world: World,
    },
    /// Accounts by name
    List {
        #[command(flatten)]
        world: World,
    },
    /// Remove an account that owns no bucket
    Delete {
        account: String,
        #[command(flatten)]
        world: World,
    },
}

#[derive(Subcommand, Debug)]
pub enum KeyCommand {
    /// Make an access key; Hive draws the halves that you do not give, and shows the secret only now
    Create {
        account: String,
        #[arg(long, requires = "secret")]
        access_key: Option<String>,
        /// The file that holds the secret half; `-` is standard input
        #[arg(long, requires = "access_key", group = "secret")]
        secret_key_file: Option<PathBuf>,
        /// Refused: every user of the machine can read a process's arguments
        #[arg(long, hide = true, group = "secret")]
        secret_key: Option<String>,
        #[command(flatten)]
        world: World,
    },
    /// List an account's access keys
    List {
        account: String,
        #[command(flatten)]
        world: World,
    },
    /// Seal secrets of one account or of all that are in plain text, or sealed by an earlier sealing key
    Seal {
        account: Option<String>,
        #[command(flatten)]
        world: World,
    },
    /// Remove an access key; gateways refuse it within two seconds
    Delete {
        access_key: String,
        #[command(flatten)]
        world: World,
    },
}

#[derive(Subcommand, Debug)]
pub enum BucketCommand {
    /// List an account's buckets
    List {
        account: String,
        #[command(flatten)]
        world: World,
    },
    /// A bucket's settings
    Describe {
        bucket: String,
        #[command(flatten)]
        world: World,
    },
    /// Exactly how many keys, versions and bytes
    Count {
        bucket: String,
        /// Only keys that begin with this
        #[arg(long, default_value = "")]
        prefix: String,
        #[command(flatten)]
        world: World,
    },
    /// Show, set or remove what a bucket may hold
    Quota {
        bucket: String,
        /// Versions and parts together
        #[arg(long)]
        bytes: Option<u64>,
        /// Keys that have a current version
        #[arg(long)]
        keys: Option<u64>,
        /// Remove the quota
        #[arg(long, conflicts_with_all = ["bytes", "keys"])]
        none: bool,
        #[command(flatten)]
        world: World,
    },
}
