//! `node.toml`: what an operator sets for a node.
//!
//! Always: an unknown key, a value out of its range or a file others could read refuses the start with
//! the file, the line and the remedy; nothing is guessed. [`NodeFile`] is the file as written (and can
//! be written back by `hive dev`), [`Config`] is the file after every check.
//! Held by: `each_mistake_is_named_with_line_and_remedy`, `a_good_file_is_taken_and_written_back`.
//! Not here: the data directory (`data.rs`), what a certificate must say (`tls.rs`).

pub mod check;
mod etcd;
mod listeners;
mod oidc;
mod redis;
mod s3;
pub mod secrets;
pub mod template;
pub mod tls;
pub mod topology;

use base_types::NodeId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use crate::data::LANES_MAX;
pub use crate::engines::section::{EngineSection, LmdbSection, ObjectSection};
pub use check::check;
pub use oidc::{OidcSection, Place};
pub use s3::Proxies;
pub use tls::{ClientCertificates, TlsSection};
pub use topology::TopologyShard;

/// A larger file is no node.toml.
pub const CONFIG_BYTES_MAX: u64 = 1 << 20;
/// The most members a level-zero cluster may be configured with.
pub const MEMBERS_MAX: usize = 9;

/// Keys of 0.1 and what they are called now: an old one refuses the start and names the new one.
const RENAMED: &[(&str, &str)] = &[
    ("place", "location"),
    ("tuning.replace_after_ms", "tuning.node_dead_after_ms"),
    ("tuning.scrub_round_ms", "tuning.scrub_interval_ms"),
    ("tuning.log_stall_ms", "tuning.log_write_timeout_ms"),
    ("tuning.s3_split_writes", "tuning.s3_split_writes_per_second"),
    ("tuning.s3_split_load_percent", "tuning.s3_split_cpu_max_percent"),
];

/// Why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read {path} ({reason}); name a node.toml with --config")]
    Unreadable { path: String, reason: String },
    #[error("{path} has {bytes} bytes; make it at most {CONFIG_BYTES_MAX}, or name another file with --config")]
    Huge { path: String, bytes: u64 },
    #[error("{path} is not a node.toml: {reason}")]
    Syntax { path: String, reason: String },
    #[error("{path}: {what}; {remedy}")]
    Invalid { path: String, what: String, remedy: String },
}

/// The file as it is written.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeFile {
    /// This node's id, unique in the world and never given to another node.
    pub id: u64,
    /// The data directory, relative to the file.
    pub data: PathBuf,
    /// Clients' doors may be open beyond this machine, although they have no TLS or do not ask who is there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
    /// Core threads; all of the machine's cores where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<usize>,
    /// The machine's core that the first core thread is pinned to, the others after it. Absent: threads are pinned
    /// where there are as many as cores, and else left to the scheduler, for nodes may share the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_core: Option<usize>,
    /// Lanes of a new data directory; as many as core threads where absent. Fixed at its making.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lanes: Option<u16>,
    /// A static topology in the second paper's form, relative to the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<PathBuf>,
    pub world: WorldSection,
    pub region: RegionSection,
    pub location: LocationSection,
    pub http: HttpSection,
    pub peer: DoorSection,
    /// The S3 gateway; none where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3: Option<S3Section>,
    /// The etcd door; none where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd: Option<EtcdSection>,
    /// The Redis door; none where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redis: Option<RedisSection>,
    pub certificates: CertificatesSection,
    /// TLS of the client doors; they speak plain text where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsSection>,
    #[serde(default)]
    pub engine: EngineSection,
    #[serde(default)]
    pub access: AccessSection,
    #[serde(default)]
    pub limits: LimitsSection,
    #[serde(default)]
    pub tuning: TuningSection,
}

/// The world and the members of its cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorldSection {
    pub name: String,
    pub members: Vec<MemberSection>,
}

/// This node's region and the members of its cluster (none: the region has no cluster of its own).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegionSection {
    pub name: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<MemberSection>,
}

/// A member: a node's id and where its peer port is.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct MemberSection {
    pub id: u64,
    pub address: String,
}

/// Where the node stands in its region.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocationSection {
    pub az: String,
    pub rack: String,
    pub chassis: String,
}

/// The HTTP door.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpSection {
    /// `ip:port` to listen on.
    pub listen: String,
    /// `host:port` others use; `listen` where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advertise: Option<String>,
    /// Names clients reach this node by, beside `localhost`, IP addresses and what it advertises.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Proxies that begin each connection with a PROXY header (version 2): networks or addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proxies: Vec<String>,
}

/// A port.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DoorSection {
    /// `ip:port` to listen on.
    pub listen: String,
    /// `host:port` others use; `listen` where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advertise: Option<String>,
}

/// The S3 gateway.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct S3Section {
    /// `ip:port` to listen on.
    pub listen: String,
    /// The region buckets made here are in; the node's own where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Domains below which a bucket is a host; path style only where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<String>,
    /// Where objects over 64 KiB go, the same for all nodes: a directory that all of them see, or the URL of an object store.
    pub data: String,
    /// Threads beside the cores'; half as many as those where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// Proxies that begin each connection with a PROXY header (version 2): networks or addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proxies: Vec<String>,
    /// What the object store of a URL needs beside it (`aws_endpoint`, `aws_access_key_id`, …).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub data_options: BTreeMap<String, String>,
    /// New buckets are as AWS made them before April 2023: ACLs count, and public access is not blocked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub older_bucket_defaults: bool,
    /// Domains below which buckets are websites (`bucket.domain`), as browsers send them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub website_domains: Vec<String>,
}

/// The etcd door.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EtcdSection {
    /// `ip:port` to listen on.
    pub listen: String,
    /// The namespace of clients that name none by their user; `etcd` where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Addresses whose clients are in one namespace, whatever their user is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<NamedListenSection>,
    /// Threads beside the cores'; half as many as those where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// How long history is kept: `1h` or `30m` (etcd's mode periodic), or a number of revisions. All of it where absent. Alike on
    /// all nodes of a world.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_compaction: Option<String>,
    /// Proxies that begin each connection with a PROXY header (version 2): networks or addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proxies: Vec<String>,
}

/// The Redis door.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedisSection {
    /// `ip:port` to listen on.
    pub listen: String,
    /// The database (a keyspace of kind redis) of clients that pick none by their user; `redis` where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
    /// Addresses whose clients are in one database unless their user picks another.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub databases: Vec<NamedListenSection>,
    /// Threads beside the cores'; one where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// Proxies that begin each connection with a PROXY header (version 2): networks or addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proxies: Vec<String>,
}

/// A namespace or a database with an address of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedListenSection {
    /// Its name.
    pub name: String,
    /// `ip:port` to listen on.
    pub listen: String,
}

/// Files in PEM, relative to node.toml.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CertificatesSection {
    pub authority: PathBuf,
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Lists of nodes' certificates that count no more (CRLs of the authorities above).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revocations: Option<PathBuf>,
}

/// Who is asked who they are.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AccessSection {
    /// Every request needs a credential (docs/guides/access.md). Alike on all nodes of a world.
    pub required: bool,
    /// How long this node decides by its own copy of the directory of users when it does not hear from the world.
    pub stale_limit_hours: u64,
    /// A file with the keys that secrets of users' S3 keys are sealed with. Alike on all nodes of a world.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sealing_key_file: Option<PathBuf>,
    /// OIDC issuers whose tokens are believed. Alike on all nodes of a world.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub oidc: Vec<OidcSection>,
}

impl Default for AccessSection {
    fn default() -> Self {
        AccessSection { required: false, stale_limit_hours: 168, sealing_key_file: None, oidc: Vec::new() }
    }
}

/// Bounds of the doors.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsSection {
    /// The longest HTTP body.
    pub body_bytes_max: usize,
    /// Connections at a time at the HTTP door, over all cores; as many at the S3 door.
    pub connections_max: usize,
    /// Bytes of requests that are not whole yet, of all clients.
    pub unfinished_bytes_max: usize,
    /// How long a client may take for a request's head, and stay silent between two.
    pub header_timeout_ms: u64,
    /// How long a client may take for a request's body.
    pub body_timeout_ms: u64,
    /// Below this many free bytes on the data directory's disk, client writes are refused.
    pub disk_free_bytes_min: u64,
}

/// Times and sizes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TuningSection {
    pub tick_ms: u64,
    pub heartbeat_ticks: usize,
    /// What a follower promises its leader; after it members ask to lead in turn, two ticks apart.
    pub election_ticks: usize,
    pub quiesce_after_ticks: u32,
    /// Leaders answer strong reads by themselves while their lease lasts. Off where a machine may be held or its clock
    /// stop (docs/guides/clocks.md).
    pub read_leases: bool,
    pub flush_bytes: u64,
    pub flush_after_ms: u64,
    pub log_keep_bytes: u64,
    pub snapshot_chunk_bytes: usize,
    pub node_heartbeat_ms: u64,
    pub node_down_ms: u64,
    /// A node down for so long is gone for good: its replicas are recreated on others; zero: never.
    pub node_dead_after_ms: u64,
    /// What the scrub reads of each engine of a lane in a second; zero: there is no scrub.
    pub scrub_bytes_per_second: u64,
    /// A round of the scrub begins no sooner than so long behind the one before.
    pub scrub_interval_ms: u64,
    pub log_segment_bytes: u64,
    pub log_spare_segments: usize,
    pub log_segments_soft_max: usize,
    /// A log write that takes longer is taken for a failed one.
    pub log_write_timeout_ms: u64,
    /// A leader whose log write takes so many election timeouts hands leadership over; zero: never.
    pub log_stall_elections: u32,
    /// Requests that take longer are logged, with where their time went; zero: none.
    pub slow_request_ms: u64,
    /// The rule of clusters made for S3 metadata; an odd number of replicas, at most five, where empty. The same on all nodes.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub s3_rule: String,
    /// A shard of a bucket with more keys is split in three. The same on all nodes.
    pub s3_split_keys: u64,
    /// A shard that takes more writes a second for twenty seconds is split; zero: never. The same on all nodes.
    pub s3_split_writes_per_second: u64,
    /// A split by keys waits while so much of the leader's machine's CPU time is in use, until the shard has four times
    /// the keys; zero: it never waits.
    pub s3_split_cpu_max_percent: u32,
}

impl Default for LimitsSection {
    fn default() -> Self {
        LimitsSection {
            body_bytes_max: door_http::Limits::default().body_bytes_max,
            connections_max: 10_000,
            unfinished_bytes_max: 256 << 20,
            header_timeout_ms: 30_000,
            body_timeout_ms: 30_000,
            disk_free_bytes_min: 256 << 20,
        }
    }
}

impl Default for TuningSection {
    fn default() -> Self {
        let core = core_node::api::Tuning::default();
        TuningSection {
            tick_ms: core.tick_ms,
            heartbeat_ticks: core.heartbeat_ticks,
            election_ticks: core.election_ticks,
            quiesce_after_ticks: core.quiesce_after_ticks,
            read_leases: core.read_leases,
            flush_bytes: core.flush_bytes,
            flush_after_ms: core.flush_after_ms,
            log_keep_bytes: core.log_keep_bytes,
            snapshot_chunk_bytes: core.snapshot_chunk_bytes,
            node_heartbeat_ms: core.node_heartbeat_ms,
            node_down_ms: core.node_down_ms,
            node_dead_after_ms: core.replace_after_ms,
            scrub_bytes_per_second: core.scrub_bytes_per_second,
            scrub_interval_ms: core.scrub_round_ms,
            log_segment_bytes: core.log.segment_bytes,
            log_spare_segments: core.log.spare_segments,
            log_segments_soft_max: core.log.segments_soft_max,
            log_write_timeout_ms: core.log_stall_ms,
            log_stall_elections: core.log_stall_elections,
            slow_request_ms: core.slow_request_ms,
            s3_rule: String::new(),
            s3_split_keys: core_node::api::SPLIT_KEYS,
            s3_split_writes_per_second: core_node::api::SPLIT_WRITES,
            s3_split_cpu_max_percent: core_node::api::SPLIT_LOAD_PERCENT,
        }
    }
}

impl TuningSection {
    /// What the core is handed.
    pub fn to_core(&self) -> core_node::api::Tuning {
        core_node::api::Tuning {
            tick_ms: self.tick_ms,
            heartbeat_ticks: self.heartbeat_ticks,
            election_ticks: self.election_ticks,
            quiesce_after_ticks: self.quiesce_after_ticks,
            read_leases: self.read_leases,
            log_stall_elections: self.log_stall_elections,
            slow_request_ms: self.slow_request_ms,
            log_stall_ms: self.log_write_timeout_ms,
            flush_bytes: self.flush_bytes,
            flush_after_ms: self.flush_after_ms,
            log_keep_bytes: self.log_keep_bytes,
            snapshot_chunk_bytes: self.snapshot_chunk_bytes,
            node_heartbeat_ms: self.node_heartbeat_ms,
            node_down_ms: self.node_down_ms,
            replace_after_ms: self.node_dead_after_ms,
            scrub_bytes_per_second: self.scrub_bytes_per_second,
            scrub_round_ms: self.scrub_interval_ms,
            label_spaces: false,
            tail_engine: None,
            buggify_until: base_types::Tick(0),
            witness: None,
            keep: core_node::api::Keep::default(),
            request_ids: Default::default(),
            log: core_log::LogConfig {
                segment_bytes: self.log_segment_bytes,
                spare_segments: self.log_spare_segments,
                segments_soft_max: self.log_segments_soft_max,
                ..core_log::LogConfig::default()
            },
        }
    }
}

impl TuningSection {
    /// How S3 metadata is laid out, in a world of so many level-zero members, by a node with this gateway.
    pub fn s3(&self, members: usize, gateway: Option<&S3Config>) -> core_node::api::S3Config {
        let mut config = core_node::api::S3Config::for_world(members);
        if !self.s3_rule.is_empty() {
            config.rule.clone_from(&self.s3_rule);
        }
        config.split_keys = self.s3_split_keys;
        config.split_writes = self.s3_split_writes_per_second;
        config.split_load_percent = self.s3_split_cpu_max_percent;
        config.region = gateway.map(|gateway| gateway.region.clone());
        config
    }
}

/// A configuration that has passed every check; paths are absolute or relative to the process.
#[derive(Clone, Debug)]
pub struct Config {
    pub world: String,
    pub node: NodeId,
    /// Whether clients' doors may be open beyond this machine without TLS or authentication.
    pub insecure: bool,
    pub data: PathBuf,
    pub cores: usize,
    pub first_core: Option<usize>,
    pub lanes: u16,
    pub labels: core_placement::Labels,
    pub http_listen: std::net::SocketAddr,
    pub http_advertise: String,
    /// Names clients reach it by beside those it advertises.
    pub http_names: Vec<String>,
    /// Proxies of the HTTP door.
    pub http_proxies: Proxies,
    pub peer_listen: std::net::SocketAddr,
    pub peer_advertise: String,
    pub s3: Option<S3Config>,
    pub etcd: Option<EtcdConfig>,
    pub redis: Option<RedisConfig>,
    pub world_members: BTreeMap<NodeId, String>,
    pub region_members: BTreeMap<NodeId, String>,
    pub certificates: CertificatesSection,
    /// Of the client doors.
    pub tls: Option<TlsSection>,
    pub engine: EngineSection,
    pub limits: LimitsSection,
    pub access: AccessSection,
    pub tuning: TuningSection,
    /// Shards of a static topology; empty where none is named.
    pub topology: Vec<TopologyShard>,
}

/// The S3 gateway, checked.
#[derive(Clone, Debug)]
pub struct S3Config {
    pub listen: std::net::SocketAddr,
    pub region: String,
    pub domains: Vec<String>,
    pub data: S3Data,
    pub threads: usize,
    pub proxies: Proxies,
    pub older_bucket_defaults: bool,
    pub website_domains: Vec<String>,
}

/// How long history of namespaces is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AutoCompaction {
    /// So long after it was superseded.
    Periodic(std::time::Duration),
    /// So many revisions.
    Revisions(u64),
}

/// The etcd door, checked.
#[derive(Clone, Debug)]
pub struct EtcdConfig {
    /// Addresses, each with the namespace of clients that pick none; first the one for all.
    pub listeners: Vec<(std::net::SocketAddr, String)>,
    pub threads: usize,
    pub auto_compaction: Option<AutoCompaction>,
    pub proxies: Proxies,
}

/// The Redis door, checked.
#[derive(Clone, Debug)]
pub struct RedisConfig {
    /// Addresses, each with the database of clients that pick none; first the one for all.
    pub listeners: Vec<(std::net::SocketAddr, String)>,
    pub threads: usize,
    pub proxies: Proxies,
}

/// Where objects' data goes.
#[derive(Clone, Debug)]
pub enum S3Data {
    Directory(PathBuf),
    Url { url: String, options: BTreeMap<String, String> },
}

impl NodeFile {
    /// The file's text, as `hive dev` writes it.
    pub fn to_toml(&self) -> Result<String, String> {
        toml::to_string(self).map_err(|error| error.to_string())
    }

    /// Reads a file's text; the error names line and column.
    pub fn parse(path: &str, text: &str) -> Result<NodeFile, ConfigError> {
        toml::from_str(text).map_err(|error| match renamed_key(text) {
            Some((old, new)) => ConfigError::Invalid {
                path: path.into(),
                what: format!("{old} was renamed to {new}"),
                remedy: format!("write {new} in its place"),
            },
            None => ConfigError::Syntax { path: path.into(), reason: error.to_string().trim_end().into() },
        })
    }
}

/// The first key of 0.1 in a file, and its new name.
fn renamed_key(text: &str) -> Option<(&'static str, &'static str)> {
    let file: toml::Table = text.parse().ok()?;
    let is_there = |key: &str| match key.split_once('.') {
        Some((section, key)) => file.get(section).and_then(|section| section.get(key)).is_some(),
        None => file.contains_key(key),
    };
    RENAMED.iter().copied().find(|(old, _)| is_there(old))
}

impl Config {
    /// What the core is handed.
    pub fn core_tuning(&self) -> core_node::api::Tuning {
        let mut tuning = self.tuning.to_core();
        if self.engine.outlives_the_node() {
            tuning.label_spaces = true;
            tuning.flush_after_ms = tuning.flush_after_ms.min(self.engine.object.lag_ms);
            // Below the data directory it is lost with the node.
            tuning.tail_engine = (!self.engine.object.url.is_empty()).then(|| "object".into());
        }
        tuning
    }

    /// Reads, parses and checks `node.toml`.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let text = read_bounded(path)?;
        let file = NodeFile::parse(&path.display().to_string(), &text)?;
        check(path, &text, file)
    }
}

/// A text file of bounded size.
pub(crate) fn read_bounded(path: &Path) -> Result<String, ConfigError> {
    use std::io::Read;
    let name = path.display().to_string();
    let unreadable = |reason: String| ConfigError::Unreadable { path: name.clone(), reason };
    let file = std::fs::File::open(path).map_err(|error| unreadable(error.to_string()))?;
    let mut bytes = Vec::new();
    // One more byte than allowed: a device or a growing file has no honest length.
    file.take(CONFIG_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| unreadable(error.to_string()))?;
    if bytes.len() as u64 > CONFIG_BYTES_MAX {
        let bytes = std::fs::metadata(path).map(|data| data.len()).unwrap_or(0).max(bytes.len() as u64);
        return Err(ConfigError::Huge { path: name, bytes });
    }
    String::from_utf8(bytes).map_err(|error| ConfigError::Syntax {
        path: name,
        reason: format!("byte {} is not UTF-8", error.utf8_error().valid_up_to()),
    })
}

#[cfg(test)]
mod tests;
