//! The command line, as clap reads it. Its words are a promise (CONTRACT: commands).

pub mod users;

use crate::failure::Failure;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Where a local world's nodes listen.
const ENDPOINTS_DEFAULT: &str =
    "http://127.0.0.1:7101,http://127.0.0.1:7102,http://127.0.0.1:7103,http://127.0.0.1:7104,http://127.0.0.1:7105";

/// Everything behind the word `hive`.
#[derive(Parser, Debug)]
#[command(name = "hive", version, about = "Hive, a globally distributed key-value store", propagate_version = true)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Start a local world of several nodes and stay in the foreground
    Dev(DevArguments),
    /// Run one node
    Node(NodeArguments),
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
    /// Bearer tokens of users
    #[command(subcommand)]
    Token(users::TokenCommand),
    /// Tenants: users that reach only what is theirs
    #[command(subcommand)]
    Tenant(users::TenantCommand),
    /// S3 access keys of users; those of S3 accounts: hive ctl s3 key
    #[command(subcommand)]
    Key(users::S3KeyCommand),
    /// Read and write keys
    #[command(subcommand)]
    Kv(KvCommand),
    /// Load many keys from a file (TSV or JSON lines)
    Load(LoadArguments),
    /// Measure
    Bench(BenchArguments),
    /// Make a node's data directory out of what an object store holds (engine object), after all nodes were lost
    Restore(RestoreArguments),
    /// Read a world out of an object store without writing there, and answer KvGet and KvScan by HTTP
    Attach(AttachArguments),
    /// Print the completions of a shell
    Completions { shell: clap_complete::Shell },
}

#[derive(Args, Debug, Clone)]
pub struct DevArguments {
    /// How many nodes
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=99))]
    pub nodes: u16,
    /// Where everything is kept
    #[arg(long, default_value = "hive-data")]
    pub data: PathBuf,
    /// Node i's HTTP port is this plus 100 plus i, its S3 port plus 400, its peer port plus 600
    #[arg(long, default_value_t = 7000, value_parser = clap::value_parser!(u16).range(1..=64000))]
    pub base_port: u16,
    /// The engine of rules that name none: lmdb, redb, fjall, sqlite, rocksdb or memory
    #[arg(long, default_value = "lmdb")]
    pub engine: String,
    /// Core threads of each node
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub cores: u16,
    /// Keys of a bucket's shard beyond which it is split in three
    #[arg(long, default_value_t = 40_000, value_parser = clap::value_parser!(u64).range(8..=10_000_000))]
    pub s3_split_keys: u64,
    /// Per cent of the machine's CPU time in use from which on a split by keys waits; 0: it never waits
    #[arg(long, default_value_t = 90, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub s3_split_cpu_max_percent: u32,
    /// Where objects over 64 KiB go: a directory, or the URL of an object store (s3://bucket/prefix; its keys by
    /// AWS_ACCESS_KEY_ID and the like); a directory beside the nodes' where absent
    #[arg(long)]
    pub s3_data: Option<String>,
    /// Write ports and process ids here once every door serves
    #[arg(long)]
    pub ready_file: Option<PathBuf>,
    /// Delete what an earlier world left in the data directory
    #[arg(long)]
    pub fresh: bool,
    /// As in production: every door speaks TLS and wants to know who asks; the ready file has root's token and the
    /// authority of the certificates
    #[arg(long)]
    pub secure: bool,
    /// Leave a node that died dead
    #[arg(long)]
    pub no_restart: bool,
    /// Print the ready file's JSON instead of text
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct NodeArguments {
    /// The node's configuration
    #[arg(long)]
    pub config: PathBuf,
    /// Only check what could refuse the start: configuration, data directory, certificates, ports
    #[arg(long)]
    pub check: bool,
}

/// What an object store holds of a node.
#[derive(Args, Debug)]
pub struct HeldPlace {
    /// The node's engine.object.url
    #[arg(long)]
    pub from: String,
    /// An option of the store as NAME=VALUE (endpoint, region, access_key_id, …); repeat it for more
    #[arg(long = "option", value_parser = name_and_value)]
    pub options: Vec<(String, String)>,
    /// Whose data, where there is that of several nodes
    #[arg(long)]
    pub node: Option<u64>,
    /// Which of its disks, where it had several
    #[arg(long)]
    pub disk: Option<u64>,
}

impl HeldPlace {
    /// Refuses options that everybody would read.
    pub fn check(&self) -> Result<(), Failure> {
        match self.options.iter().find(|(name, _)| edge_node::config::secrets::is_secret(name)) {
            Some((name, _)) => Err(Failure::usage(format!("every user of the machine can read a process's arguments: leave {name} to the environment (AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN)"))),
            None => Ok(()),
        }
    }
}

#[cfg(feature = "engine-object")]
impl HeldPlace {
    /// Whose data.
    pub fn which(&self) -> edge_node::rebirth::Which {
        edge_node::rebirth::Which { node: self.node.map(base_types::NodeId), disk: self.disk.map(base_types::DiskId) }
    }
}

#[derive(Args, Debug)]
pub struct AttachArguments {
    #[command(flatten)]
    pub place: HeldPlace,
    /// Where clients are answered; without it, only what is there is printed
    #[arg(long)]
    pub listen: Option<std::net::SocketAddr>,
    /// Listen beyond this machine, although everybody there may then read everything
    #[arg(long, requires = "listen")]
    pub insecure: bool,
    /// How often the store is asked for what has come
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(100..=120_000))]
    pub follow_ms: u64,
}

#[derive(Args, Debug)]
pub struct RestoreArguments {
    #[command(flatten)]
    pub place: HeldPlace,
    /// The data directory to make
    #[arg(long)]
    pub data: Option<PathBuf>,
    /// Only tell whose data is there
    #[arg(long)]
    pub list: bool,
    #[arg(long)]
    pub json: bool,
}

fn name_and_value(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.to_string(), value.to_string()))
}

#[derive(Subcommand, Debug)]
pub enum CaCommand {
    /// Make a new authority for a world
    Init {
        /// Where its certificate and key go
        #[arg(long)]
        dir: PathBuf,
        /// The world's name
        #[arg(long)]
        world: String,
        /// Make the authority of clients: of the certificates of client doors and of users
        #[arg(long)]
        clients: bool,
        #[arg(long)]
        json: bool,
    },
    /// Issue a certificate: a node's, or from the authority of clients that of a client door or of a user
    #[command(group = clap::ArgGroup::new("whose").required(true).args(["node", "server", "user"]))]
    Issue {
        /// The authority's directory
        #[arg(long)]
        dir: PathBuf,
        /// The node's id
        #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
        node: Option<u64>,
        /// A name for the certificate of client doors, for example the node's id; --address says what it certifies
        #[arg(long, requires = "addresses")]
        server: Option<String>,
        /// The user's name
        #[arg(long, conflicts_with = "addresses")]
        user: Option<String>,
        /// Names or addresses others reach the node by; for --server also *.DOMAIN
        #[arg(long = "address", value_delimiter = ',')]
        addresses: Vec<String>,
        /// How long it is valid
        #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=3650))]
        days: u32,
        #[arg(long)]
        json: bool,
    },
    /// Show the authority and what it issued
    Show {
        #[arg(long)]
        dir: PathBuf,
        #[arg(long)]
        json: bool,
    },
    /// Make a new authority key; nodes trust the old one too until it expires
    Rotate {
        #[arg(long)]
        dir: PathBuf,
        #[arg(long)]
        json: bool,
    },
}

/// Files in PEM for https:// endpoints.
#[derive(Args, Debug, Clone, Default)]
pub struct TlsFiles {
    /// The authorities whose certificates are trusted (https:// endpoints)
    #[arg(long = "ca", env = "HIVE_CA", value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// A user's certificate, shown to the node; with --key
    #[arg(id = "tls_cert", long = "cert", env = "HIVE_CERT", value_name = "FILE", requires = "tls_key")]
    pub cert: Option<PathBuf>,
    /// The key of that certificate
    #[arg(id = "tls_key", long = "key", env = "HIVE_KEY", value_name = "FILE", requires = "tls_cert")]
    pub key: Option<PathBuf>,
}

impl TlsFiles {
    /// What they hold; nothing where none is named.
    pub fn read(&self) -> Result<Option<hive_client::Tls>, Failure> {
        let own = self.cert.as_deref().zip(self.key.as_deref());
        match (&self.ca, own) {
            (Some(ca), own) => Ok(Some(hive_client::Tls::from_files(ca, own)?)),
            (None, None) => Ok(None),
            (None, Some(_)) => {
                Err(Failure::usage("--cert and --key need --ca: the authority whose nodes may see the certificate"))
            }
        }
    }
}

/// How to reach a world.
#[derive(Args, Debug, Clone)]
pub struct World {
    /// HTTP endpoints, tried in turn
    #[arg(long = "endpoint", env = "HIVE_ENDPOINT", value_delimiter = ',', default_value = ENDPOINTS_DEFAULT, hide_default_value = true)]
    pub endpoints: Vec<String>,
    #[command(flatten)]
    pub tls: TlsFiles,
    /// A file with the bearer token to show; the token itself can be in the environment (HIVE_TOKEN)
    #[arg(long, env = "HIVE_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,
    /// How long to try
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u64).range(1..=30_000))]
    pub deadline_ms: u64,
    /// JSON for machines instead of text
    #[arg(long)]
    pub json: bool,
}

/// Levels of a request.
#[derive(Args, Debug, Clone, Default)]
pub struct Levels {
    /// hopeful, eventual, strong, absolute or s3 (in a bucket); the cluster's default where absent
    #[arg(long, value_parser = ["hopeful", "eventual", "strong", "absolute", "s3"])]
    pub consistency: Option<String>,
    /// strong or eventual; the cluster's default where absent
    #[arg(long, value_parser = ["strong", "eventual"])]
    pub read_consistency: Option<String>,
}

/// What the key-value commands share.
#[derive(Args, Debug, Clone)]
pub struct KvCommon {
    #[arg(long, default_value = "default")]
    pub keyspace: String,
    #[command(flatten)]
    pub levels: Levels,
    #[command(flatten)]
    pub world: World,
}

#[derive(Subcommand, Debug)]
pub enum KvCommand {
    /// Set a key
    Put {
        key: String,
        /// The value; `-` reads it from standard input
        #[arg(allow_hyphen_values = true)]
        value: String,
        /// Apply it once: give the id that an unknown outcome printed, within 60 s of the first try
        #[arg(long, value_name = "ID")]
        request_id: Option<String>,
        #[command(flatten)]
        common: KvCommon,
    },
    /// Print a key's value; exit code 1 where it is absent
    Get {
        key: String,
        /// Nothing older than this position, ID.GENERATION.INDEX of an earlier answer's `at` (--json prints it)
        #[arg(long, value_name = "POSITION")]
        after: Option<String>,
        #[command(flatten)]
        common: KvCommon,
    },
    /// Remove a key
    Del {
        key: String,
        /// Apply it once: give the id that an unknown outcome printed, within 60 s of the first try
        #[arg(long, value_name = "ID")]
        request_id: Option<String>,
        #[command(flatten)]
        common: KvCommon,
    },
    /// List keys and values in order, one a line, as `hive load` reads them
    Scan {
        /// Only keys that begin with this
        #[arg(long, default_value = "")]
        prefix: String,
        /// Only keys behind this
        #[arg(long)]
        start_after: Option<String>,
        /// Only keys before this
        #[arg(long)]
        end: Option<String>,
        /// At most so many; all where absent
        #[arg(long)]
        limit: Option<u64>,
        /// From the last key up
        #[arg(long)]
        reverse: bool,
        /// Without values
        #[arg(long)]
        keys_only: bool,
        #[command(flatten)]
        common: KvCommon,
    },
    /// Run the commands of a file, one a line: put k v / get k / del k / scan [prefix [limit]]; `-` is standard input
    Exec(ExecArguments),
}

#[derive(Args, Debug, Clone)]
pub struct ExecArguments {
    pub file: PathBuf,
    /// Run them on the embedded store in this directory (made if need be), not on a world
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
    /// On a store: writes are on the disk within a second, not when they are answered
    #[arg(long, requires = "store")]
    pub weak: bool,
    #[command(flatten)]
    pub common: KvCommon,
}

#[derive(Args, Debug, Clone)]
pub struct LoadArguments {
    /// TSV (key, tab, value; \t \n \r \\ \xNN escaped) or JSON lines ({"key":…,"value":…}, or *_base64); `-` is standard input
    pub file: PathBuf,
    #[arg(long)]
    pub keyspace: String,
    /// Writes under way at a time
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub parallel: u16,
    /// Continue after this line, as an earlier run's report says
    #[arg(long, default_value_t = 0)]
    pub skip_lines: u64,
    /// Write the report here too, as JSON
    #[arg(long)]
    pub report: Option<PathBuf>,
    #[command(flatten)]
    pub levels: Levels,
    #[command(flatten)]
    pub world: World,
}

/// `hive ctl upgrade`: the world's format level.
#[derive(Subcommand, Debug)]
pub enum UpgradeCommand {
    /// The level of the world, of each node's program, and what stands in the way of the next
    Status {
        #[command(flatten)]
        world: World,
    },
    /// Raise the world's formats once every node runs the new version; no older version can come back
    Finalize {
        #[command(flatten)]
        world: World,
    },
}

#[derive(Subcommand, Debug)]
pub enum CtlCommand {
    /// Whether the world is well, and what to look at if not
    Status {
        #[command(flatten)]
        world: World,
    },
    /// Regions, zones, racks, chassis and nodes, as a tree
    Topology {
        #[command(flatten)]
        world: World,
    },
    /// The nodes
    Nodes {
        #[command(flatten)]
        world: World,
    },
    /// Take a node out of service: its replicas move to others under their rules
    Decommission {
        node: u64,
        /// Return once it has begun; run it again to see how far it is
        #[arg(long)]
        no_wait: bool,
        #[command(flatten)]
        world: World,
    },
    /// Take a node back into service
    Recommission {
        node: u64,
        #[command(flatten)]
        world: World,
    },
    /// Strike a node off the list that is gone for good: stopped, and emptied before
    Forget {
        node: u64,
        #[command(flatten)]
        world: World,
    },
    /// Which formats the world writes, and what an upgrade of them waits for
    #[command(subcommand)]
    Upgrade(UpgradeCommand),
    /// The clusters
    Clusters {
        /// Only names that begin with this
        #[arg(long, default_value = "")]
        prefix: String,
        #[command(flatten)]
        world: World,
    },
    /// One cluster
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// The world's own cluster: which nodes are its members
    #[command(subcommand)]
    World(LevelZeroCommand),
    /// A region's own cluster: which nodes are its members
    Region {
        /// The region
        region: String,
        #[command(subcommand)]
        command: LevelZeroCommand,
    },
    /// A cluster whose majority is gone for good: what its survivors hold, and a new life on the best of them; without a
    /// name, the clusters that were recovered
    Recover(RecoverCommand),
    /// Check every pair of a cluster's replicas and compare them; exit code 1 where they are not whole and the same
    Verify {
        /// The cluster
        name: String,
        #[command(flatten)]
        world: World,
    },
    /// What the scrub has read on each node, and which pairs it found damaged
    Integrity {
        #[command(flatten)]
        world: World,
    },
    /// Keyspaces
    #[command(subcommand)]
    Keyspace(KeyspaceCommand),
    /// Accounts and access keys of the S3 gateway
    #[command(subcommand)]
    S3(S3Command),
    /// The shards of a bucket: their ranges of keys, clusters and sizes
    Shards {
        bucket: String,
        #[command(flatten)]
        world: World,
    },
    /// Buckets
    #[command(subcommand)]
    Bucket(BucketCommand),
}

#[derive(Args, Debug, Clone)]
pub struct RecoverCommand {
    /// The cluster
    pub name: Option<String>,
    /// The cluster's name again: begin its new life, and lose what no survivor holds
    #[arg(long, value_name = "NAME", conflicts_with = "discard", requires_all = ["name", "from"])]
    pub confirm: Option<String>,
    /// The survivor that the survey called best: nothing is changed if another one is by now
    #[arg(long, value_name = "NODE", requires = "confirm")]
    pub from: Option<u64>,
    /// Remove what the life before left on this node, once the new life serves
    #[arg(long, value_name = "NODE", requires = "name")]
    pub discard: Option<u64>,
    #[command(flatten)]
    pub world: World,
}

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
        /// Its name for people; the account's own where absent
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
    /// Make an access key; both halves are drawn where they are not given, and the secret is shown only now
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
    /// Remove an access key; gateways that know it forget it within ten seconds
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

#[derive(Subcommand, Debug)]
pub enum ClusterCommand {
    /// Create a cluster
    Create {
        /// backend/backend@anything
        name: String,
        /// For example "size=5 location=fr-par failure_domain=az"
        #[arg(long)]
        rule: String,
        #[command(flatten)]
        world: World,
    },
    /// Delete a cluster and its data
    Delete {
        name: String,
        #[command(flatten)]
        world: World,
    },
    /// Members, leader and progress
    Show {
        name: String,
        #[command(flatten)]
        world: World,
    },
    /// Members: list, add, remove
    #[command(subcommand)]
    Members(MembersCommand),
    /// Put a node's replica on another node
    Move {
        name: String,
        /// The node it is on
        #[arg(long)]
        from: u64,
        /// The node it goes to; the best one by the rule where absent
        #[arg(long)]
        to: Option<u64>,
        #[command(flatten)]
        world: World,
    },
    /// Hand leadership to a node
    Transfer {
        name: String,
        node: u64,
        #[command(flatten)]
        world: World,
    },
    /// Skip an entry that no member can apply (the cluster is quarantined at it): its writes are lost
    Skip {
        name: String,
        /// The entry, as the warning names it
        index: u64,
        #[command(flatten)]
        world: World,
    },
    /// Keep it in another engine: its replicas are recreated in it one by one, online
    SetEngine(EngineMove),
    /// Change the default levels
    SetConsistency {
        name: String,
        #[command(flatten)]
        levels: Levels,
        #[command(flatten)]
        world: World,
    },
}

#[derive(Subcommand, Debug)]
pub enum LevelZeroCommand {
    /// Members: list, add, remove, replace; one change at a time
    #[command(subcommand)]
    Members(LevelZeroMembersCommand),
}

#[derive(Subcommand, Debug)]
pub enum LevelZeroMembersCommand {
    /// List the members
    List {
        #[command(flatten)]
        world: World,
    },
    /// Add a node: learner, snapshot, voter
    Add {
        node: u64,
        #[command(flatten)]
        world: World,
    },
    /// Remove a member; a majority of the others must be up
    Remove {
        node: u64,
        #[command(flatten)]
        world: World,
    },
    /// Put another node in a member's place
    Replace {
        /// The member that goes
        from: u64,
        /// The node that takes its place
        to: u64,
        #[command(flatten)]
        world: World,
    },
}

#[derive(Subcommand, Debug)]
pub enum MembersCommand {
    /// List the members
    List {
        name: String,
        #[command(flatten)]
        world: World,
    },
    /// Add a node: learner, snapshot, voter
    Add {
        name: String,
        node: u64,
        #[command(flatten)]
        world: World,
    },
    /// Remove a node's replica
    Remove {
        name: String,
        node: u64,
        #[command(flatten)]
        world: World,
    },
}

/// What is to move to which engine.
#[derive(Args, Debug)]
pub struct EngineMove {
    pub name: String,
    /// lmdb, redb, fjall, sqlite, rocksdb, object or memory
    pub engine: String,
    /// Return at once; `hive ctl cluster show`, of each cluster that moves, shows how far it is
    #[arg(long)]
    pub no_wait: bool,
    #[command(flatten)]
    pub world: World,
}

#[derive(Subcommand, Debug)]
pub enum KeyspaceCommand {
    /// Create a keyspace
    Create {
        name: String,
        /// For example "size=5 location=world failure_domain=chassis"
        #[arg(long)]
        rule: String,
        /// By what keys are spread
        #[arg(long, default_value = "hash", value_parser = ["hash", "range"])]
        partition: String,
        /// Virtual partitions; fixed for the keyspace's life
        #[arg(long, default_value_t = 16)]
        partitions: u16,
        /// Clusters the partitions are spread over
        #[arg(long, default_value_t = 1)]
        clusters: u16,
        /// Lower bounds of partitions 1… (range only)
        #[arg(long = "split-key", value_delimiter = ',')]
        split_keys: Vec<String>,
        /// lmdb, redb, fjall, sqlite, rocksdb or memory; the nodes' default where absent
        #[arg(long)]
        engine: Option<String>,
        #[command(flatten)]
        world: World,
    },
    /// Partitions, owners and a running reshard
    Show {
        name: String,
        #[command(flatten)]
        world: World,
    },
    /// List the keyspaces
    List {
        #[command(flatten)]
        world: World,
    },
    /// Delete a keyspace and its data
    Delete {
        name: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        world: World,
    },
    /// Keep all its clusters in another engine: their replicas are recreated in it one by one, online
    SetEngine(EngineMove),
    /// Spread the partitions over another number of clusters, online
    Reshard {
        name: String,
        clusters: u16,
        /// Wait until it is done
        #[arg(long)]
        wait: bool,
        #[command(flatten)]
        world: World,
    },
}

#[derive(Args, Debug, Clone)]
pub struct BenchArguments {
    /// kv-put, kv-get, levels, failover, simple-kv, s3-object-put, s3-object-get, listing, bucket, split, embedded,
    /// availability, overload, larger-than-memory, or all (without bucket and the last three)
    #[arg(value_parser = [
        "kv-put", "kv-get", "levels", "failover", "simple-kv", "s3-object-put", "s3-object-get", "listing", "bucket",
        "split", "embedded", "availability", "overload", "larger-than-memory", "all",
    ])]
    pub workload: String,
    /// Measure this world; a fresh one is started where absent
    #[arg(long = "endpoint", value_delimiter = ',')]
    pub endpoints: Vec<String>,
    #[command(flatten)]
    pub tls: TlsFiles,
    /// The ready file of the world at --endpoint: its process ids give CPU time, and failover a leader to kill
    #[arg(long)]
    pub ready_file: Option<PathBuf>,
    /// Connections, each with one request at a time
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub clients: u32,
    /// How long each run takes
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: u64,
    /// Stop a run after so many operations instead
    #[arg(long)]
    pub operations: Option<u64>,
    /// The size of a value
    #[arg(long, default_value_t = 2048, value_parser = clap::value_parser!(u32).range(0..=1_048_576))]
    pub value_bytes: u32,
    /// Keys written and read
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub keys: u64,
    /// How often each measurement is repeated
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub runs: u32,
    /// Where report.json and report.html go
    #[arg(long, default_value = "target/bench")]
    pub out: PathBuf,
    /// Nodes of a world started for the measurement
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=99))]
    pub nodes: u16,
    /// simple-kv: measure these engines, each in a world of one node (comma-separated)
    #[arg(long = "engine", value_delimiter = ',')]
    pub engines: Vec<String>,
    /// listing: over buckets of about so many shards (comma-separated)
    #[arg(long, value_delimiter = ',', default_values_t = [1u64, 100], value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub shards: Vec<u64>,
    /// Keys in no order, so that shards are split by rows; else they only grow (listing and split: always in no order)
    #[arg(long)]
    pub spread: bool,
    /// S3 workloads: rows above which a world started for the measurement splits a shard
    #[arg(long, value_parser = clap::value_parser!(u64).range(8..))]
    pub split_keys: Option<u64>,
    /// split: the part of the full rate, in percent, that continues while shards are split
    #[arg(long, default_value_t = 70, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub load_percent: u32,
    /// embedded: on so many cores (comma-separated); 1 to all there are where absent
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=256))]
    pub cores: Vec<u16>,
    /// availability: how long; the standard schedule's faults of a day fill 60, shorter runs have fewer of them.
    /// larger-than-memory: how long keys are overwritten
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=1_440))]
    pub minutes: u64,
    /// availability: the order of the faults, and whom they meet
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// availability: operations a second of each level
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub rate: u32,
    /// larger-than-memory: what all nodes together may use, page cache included (needs a control group)
    #[arg(long, default_value_t = 2_048, value_parser = clap::value_parser!(u64).range(64..=1_048_576))]
    pub memory_mib: u64,
    /// availability: measure this under the same faults, too
    #[arg(long, value_parser = ["etcd"])]
    pub beside: Option<String>,
    /// Ports of a world started for the measurement, as in `hive dev`
    #[arg(long, default_value_t = 17000)]
    pub base_port: u16,
    /// Print the report's JSON
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    fn parse(line: &str) -> Result<Arguments, clap::Error> {
        Arguments::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_contracts_commands_parse() {
        for line in [
            "hive dev --nodes 5 --data d --base-port 7000 --engine lmdb --ready-file f --fresh --no-restart",
            "hive node --config node.toml",
            "hive ca init --dir ca --world w",
            "hive ca issue --dir ca --node 3 --address 10.0.0.1,node3 --days 30",
            "hive ca show --dir ca --json",
            "hive ca rotate --dir ca",
            "hive ctl status --json",
            "hive ctl topology --endpoint http://a:1 --endpoint http://b:2",
            "hive ctl nodes",
            "hive ctl clusters --prefix redis@",
            "hive ctl cluster create redis@x --rule size=3",
            "hive ctl cluster delete redis@x",
            "hive ctl cluster show redis@x",
            "hive ctl cluster members list redis@x",
            "hive ctl cluster members add redis@x 3",
            "hive ctl cluster members remove redis@x 3",
            "hive ctl cluster transfer redis@x 3",
            "hive ctl cluster set-engine redis@x redb",
            "hive ctl keyspace set-engine k redb --no-wait",
            "hive ctl cluster set-consistency redis@x --consistency eventual --read-consistency eventual",
            "hive ctl keyspace create k --rule size=3 --partition range --partitions 8 --clusters 2 --split-key g,p --engine lmdb",
            "hive ctl keyspace reshard k 4 --wait",
            "hive ctl keyspace list",
            "hive ctl s3 account create ann --display-name Ann",
            "hive ctl s3 account delete ann",
            "hive ctl s3 key create ann --access-key a --secret-key-file -",
            "hive ctl s3 key list ann --json",
            "hive ctl s3 key delete AK",
            "hive ctl bucket list ann",
            "hive ctl bucket describe b",
            "hive ctl bucket count b --prefix p/",
            "hive ctl bucket quota b --bytes 1000 --keys 10",
            "hive ctl bucket quota b --none",
            "hive kv put k v --keyspace default --consistency strong",
            "hive kv put k -v",
            "hive kv get k --read-consistency eventual",
            "hive kv del k",
            "hive kv scan --prefix p --limit 5 --reverse",
            "hive kv exec - --json",
            "hive kv exec f --store dir --weak",
            "hive load --keyspace k data.tsv",
            "hive bench kv-put --endpoint http://a:1 --clients 8 --seconds 2 --json",
            "hive bench all --out target/bench",
            "hive bench listing --shards 1,100,1000",
            "hive bench bucket --keys 10000000 --value-bytes 100 --nodes 3 --clients 256",
            "hive bench s3-object-put --spread --split-keys 5000",
            "hive bench availability --minutes 5 --seed 7 --beside etcd --rate 50",
            "hive bench overload --seconds 120 --clients 256",
            "hive bench larger-than-memory --memory-mib 512 --minutes 10 --engine lmdb",
            "hive bench embedded --cores 1,2 --value-bytes 100",
            "hive completions bash",
        ] {
            if let Err(error) = parse(line) {
                panic!("{line}: {error}");
            }
        }
    }

    #[test]
    fn wrong_lines_are_usage_errors() {
        for line in [
            "hive",
            "hive kv put k",
            "hive kv put k v --consistency stronk",
            "hive dev --nodes 0",
            "hive ctl s3 key create ann --access-key a",
            "hive ctl s3 key create ann --secret-key-file f",
            "hive ctl bucket quota b --none --keys 1",
            "hive bench none",
            "hive kv exec f --weak",
            "hive load f",
        ] {
            assert_eq!(parse(line).expect_err(line).exit_code(), 2, "{line}");
        }
    }

    #[test]
    fn secrets_in_arguments_are_refused_and_not_repeated() {
        for (line, advice) in [
            ("hive ctl s3 key create ann --secret-key canary", "--secret-key-file"),
            ("hive ctl s3 key create ann --access-key a --secret-key canary", "--secret-key-file"),
            ("hive attach --from s3://b/p --option aws_session_token=canary", "environment"),
            ("hive restore --list --from s3://b/p --option secret_access_key=canary", "environment"),
        ] {
            let refused = crate::run(parse(line).unwrap()).expect_err(line);
            assert_eq!(refused.code, 2);
            let text = refused.message;
            assert!(text.contains("every user of the machine") && text.contains(advice), "{text}");
            assert!(!text.contains("canary"), "{text}");
        }
    }

    #[test]
    fn endpoints_are_five_by_default() {
        let Command::Ctl(CtlCommand::Nodes { world }) = parse("hive ctl nodes").unwrap().command else { panic!() };
        assert!(std::env::var_os("HIVE_ENDPOINT").is_some() || world.endpoints.len() == 5);
    }
}
