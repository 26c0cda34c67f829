//! The command line, as clap reads it. Its words are a promise (CONTRACT: commands): each file of the folder has one group of
//! commands, and testdata/help.txt has the help of every one.

mod backup;
mod bench;
mod ca;
mod cluster;
mod config;
mod ctl;
mod dev;
mod keyspace;
mod kv;
mod namespace;
mod node;
mod object_store;
mod s3;
mod simple_kv;
#[cfg(test)]
mod tests;
pub mod top;
pub mod users;
mod world;

pub use backup::{BackupCommand, BackupCreate, BackupRestore, SignKey, Trust};
pub use bench::BenchArguments;
pub use ca::CaCommand;
pub use cluster::{ClusterCommand, EngineMove, LevelZeroCommand, LevelZeroMembersCommand, MembersCommand};
pub use config::ConfigCommand;
pub use ctl::{CtlCommand, RebalanceCommand, RecoverCommand, UpgradeCommand};
pub use dev::{DevArguments, NodeArguments};
pub use keyspace::KeyspaceCommand;
pub use kv::{ExecArguments, KvCommand, KvCommon, LoadArguments};
pub use namespace::NamespaceCommand;
pub use node::{NodeCommand, NodeFlow};
pub use object_store::{AttachArguments, RestoreArguments};
pub use s3::{AccountCommand, BucketCommand, KeyCommand, S3Command};
pub use simple_kv::SimpleKvArguments;
pub use world::{Levels, TlsFiles, World};

use clap::{Parser, Subcommand};

/// Everything behind the word `hive`.
#[derive(Parser, Debug)]
#[command(name = "hive", version, about = "Hive, a globally distributed key-value store", propagate_version = true)]
#[command(arg_required_else_help = true, args_conflicts_with_subcommands = true)]
pub struct Arguments {
    /// Say which engines this binary has, also after --version
    #[arg(long)]
    pub engines: bool,
    /// Print the engines as JSON
    #[arg(long, requires = "engines")]
    pub json: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Start a local world of several nodes and stay in the foreground
    Dev(DevArguments),
    /// Run one node
    Node(NodeArguments),
    /// Run one node as "A Simple Distributed Key-Value Store in Go" does: also as hive -db-location DIR -http-address ADDRESS …
    SimpleKv(SimpleKvArguments),
    /// The file node.toml: write a complete one, check one
    #[command(subcommand)]
    Config(ConfigCommand),
    /// The world's certificate authority
    #[command(subcommand)]
    Ca(CaCommand),
    /// Look at the world and change it
    #[command(subcommand)]
    Ctl(CtlCommand),
    /// Users and services: who may do what
    #[command(subcommand)]
    User(users::UserCommand),
    /// Roles: named lists of what may be done
    #[command(subcommand)]
    Role(users::RoleCommand),
    /// Groups of an OIDC issuer's users, and their roles
    #[command(subcommand)]
    Group(users::GroupCommand),
    /// Bearer tokens of users
    #[command(subcommand)]
    Token(users::TokenCommand),
    /// Tenants: users that reach only what is theirs
    #[command(subcommand)]
    Tenant(users::TenantCommand),
    /// S3 access keys of users; those of S3 accounts: hive ctl s3 key
    #[command(subcommand)]
    Key(users::S3KeyCommand),
    /// Watch the world in a terminal: nodes, rates, times, alarms
    Top(top::TopArguments),
    /// Read and write keys
    #[command(subcommand)]
    Kv(KvCommand),
    /// Load many keys from a file (TSV or JSON lines)
    Load(LoadArguments),
    /// Back up keyspaces into directories, and restore them
    #[command(subcommand)]
    Backup(BackupCommand),
    /// Measure
    Bench(BenchArguments),
    /// Make a node's data directory from an object store (engine object), after all nodes were lost
    #[command(hide = cfg!(not(feature = "engine-object")))]
    Restore(RestoreArguments),
    /// Read a world from an object store without writing to it, and answer KvGet and KvScan by HTTP
    #[command(hide = cfg!(not(feature = "engine-object")))]
    Attach(AttachArguments),
    /// Write a manual page for each command
    Man {
        /// The directory to write into, for example /usr/local/share/man/man1
        #[arg(long, value_name = "DIR")]
        out: std::path::PathBuf,
    },
    /// Print the completions of a shell
    Completions { shell: clap_complete::Shell },
}
