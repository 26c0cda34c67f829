//! A node started with the flags of the second paper, a key-value store in Go:
//!
//! ```text
//!   hive -db-location DIR -http-address IP:PORT -shard NAME [-replica] -config-file FILE [-db-type ENGINE]
//!     FILE ─▶ who is in the world: masters by index, then replicas: node 1, 2, …
//!     <FILE>.ca/              the authority of the world's nodes, made by the node that starts first
//!     <DIR>/topology.yaml     FILE as it was at the first start
//!     <DIR>/node.toml         written at the first start, then the operator's; data/ beside it
//! ```
//!
//! Always: a flag means what the paper says, or the start is refused with what to do; a file that has changed since the
//! first start is refused, because it no longer decides anything.
//! Held by: `the_papers_line_becomes_a_node`, `what_cannot_be_kept_is_refused_with_what_to_do`.
//! Not here: what a topology becomes (core-keyspace, edge-node), the plain routes (door-http).

use crate::arguments::SimpleKvArguments;
use crate::dev::write_whole;
use crate::failure::Failure;
use base_types::NodeId;
use edge_node::ca;
use edge_node::config::{
    topology, AccessSection, CertificatesSection, Config, ConfigError, DoorSection, EngineSection, HttpSection,
    LimitsSection, LocationSection, MemberSection, NodeFile, RegionSection, TopologyShard, TuningSection, WorldSection,
};
use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The paper's flags.
const FLAGS: [&str; 6] = ["db-location", "http-address", "shard", "replica", "config-file", "db-type"];
/// The world of such nodes.
const WORLD: &str = "simple-kv";
/// A node's peer port is its HTTP port and this.
const PEER_PORT_BEHIND: u16 = 10_000;
/// How long another node's making of the authority is waited for.
const AUTHORITY_WAIT_MAX: Duration = Duration::from_secs(10);
/// Where a node that these flags cannot start is described.
const BY_HAND: &str = "write a node.toml with topology = \"…\" instead (docs/guides/operations/configure.md)";

/// The process's arguments as clap is to read them: the paper's line, whose first word is one of its flags, becomes
/// `hive simple-kv` with two hyphens each.
pub fn without_go(line: Vec<OsString>) -> Vec<OsString> {
    let is_flag = |word: &OsString| flag(word).is_some();
    if !line.get(1).is_some_and(is_flag) {
        return line;
    }
    let mut words = line.into_iter();
    let mut out: Vec<OsString> = words.next().into_iter().collect();
    out.push("simple-kv".into());
    out.extend(words.map(|word| flag(&word).map_or_else(|| word.clone(), |flag| format!("--{flag}").into())));
    out
}

/// The word without its hyphens, if it is one of the paper's flags, as Go reads them: `-shard`, `--shard`, `-shard=a`.
fn flag(word: &OsStr) -> Option<&str> {
    let word = word.to_str()?.strip_prefix('-')?;
    let word = word.strip_prefix('-').unwrap_or(word);
    let name = word.split_once('=').map_or(word, |(name, _)| name);
    FLAGS.contains(&name).then_some(word)
}

/// Prepares the node at its first start, and runs it.
pub fn run(arguments: &SimpleKvArguments) -> Result<(), Failure> {
    let shards = topology::load(&arguments.config_file).map_err(|error| of_file(&error))?;
    let plan = Plan::new(arguments, &shards)?;
    let config = plan.home.join("node.toml");
    if config.exists() {
        plan.check_kept(&config, &shards)?;
    } else {
        plan.write(&arguments.config_file)?;
    }
    println!(
        "shard {}: node {} of {} of world {WORLD}, http://{}; its settings are in {}",
        arguments.shard,
        plan.id,
        plan.addresses.len(),
        plan.own(),
        config.display()
    );
    crate::node::run(&crate::arguments::NodeArguments { config, check: false })
}

/// Why the config file is refused; it is no node.toml.
fn of_file(error: &ConfigError) -> Failure {
    Failure::usage(match error {
        ConfigError::Unreadable { path, reason } => {
            format!("cannot read {path} ({reason}); name the file with the shards with -config-file")
        }
        ConfigError::Syntax { path, reason } => {
            format!("{path} has no shards as the paper writes them: {reason}; write one YAML document for each Shard")
        }
        other => other.to_string(),
    })
}

/// A node of the file.
struct Plan {
    home: PathBuf,
    /// Of every node; a node's id is its place, from 1.
    addresses: Vec<SocketAddr>,
    id: u64,
    engine: String,
    authority: PathBuf,
}

impl Plan {
    fn new(arguments: &SimpleKvArguments, shards: &[TopologyShard]) -> Result<Plan, Failure> {
        let absolute = |path: &Path| {
            std::path::absolute(path).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
        };
        let home = absolute(&arguments.db_location)?;
        if home.is_file() {
            let message = format!(
                "-db-location {} is a file; name a directory: Hive keeps a log and an engine's files",
                home.display()
            );
            return Err(Failure::usage(message));
        }
        let addresses = addresses(shards)?;
        let own = own_address(arguments, shards)?;
        let id = addresses.iter().position(|address| *address == own).map_or(0, |place| place as u64 + 1);
        let mut authority = absolute(&arguments.config_file)?.into_os_string();
        authority.push(".ca");
        Ok(Plan { home, addresses, id, engine: engine(&arguments.db_type)?, authority: authority.into() })
    }

    fn address(&self, id: u64) -> SocketAddr {
        self.addresses[id as usize - 1]
    }

    fn own(&self) -> SocketAddr {
        self.address(self.id)
    }

    /// Later starts: the directory is this node's, and the file as it was.
    fn check_kept(&self, config: &Path, shards: &[TopologyShard]) -> Result<(), Failure> {
        let kept = Config::load(config).map_err(|error| Failure::usage(error.to_string()))?;
        let home = self.home.display();
        if kept.topology != shards {
            return Err(Failure::usage(format!(
                "the config file is another than at the first start ({home}/topology.yaml), and no longer decides anything; put that one back, and change the number of shards online: hive ctl keyspace reshard default N"
            )));
        }
        if kept.node != NodeId(self.id) || kept.http_listen != self.own() {
            return Err(Failure::usage(format!(
                "{home} is the data of node {} at {}; give this node -db-location another directory",
                kept.node, kept.http_listen
            )));
        }
        if kept.engine.default != self.engine {
            return Err(Failure::usage(format!(
                "-db-type is {}, and {home} was made with {}; move its data online (hive ctl keyspace set-engine default {}), then set engine.default in node.toml",
                self.engine, kept.engine.default, self.engine
            )));
        }
        Ok(())
    }

    /// Writes what the node needs; node.toml last, so that a start cut short is done again.
    fn write(&self, config_file: &Path) -> Result<(), Failure> {
        let failed = |path: &Path, error: std::io::Error| Failure::refused(format!("{}: {error}", path.display()));
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.home);
        made.map_err(|error| failed(&self.home, error))?;
        let text = std::fs::read(config_file).map_err(|error| failed(config_file, error))?;
        write_whole(&self.home.join("topology.yaml"), &text, 0o600)?;
        self.certify()?;
        let text = self.node_file().to_toml().map_err(|error| Failure::refused(format!("node.toml: {error}")))?;
        write_whole(&self.home.join("node.toml"), text.as_bytes(), 0o600)
    }

    /// The node's certificate, of the authority beside the file; made by one node at a time.
    fn certify(&self) -> Result<(), Failure> {
        let mut lock = self.authority.clone().into_os_string();
        lock.push(".lock");
        let lock = PathBuf::from(lock);
        let begun = Instant::now();
        let _held = loop {
            let taken = edge_node::data::lock_file(&lock);
            match taken.map_err(|error| Failure::refused(format!("{}: {error}", lock.display())))? {
                Some(held) => break held,
                None if begun.elapsed() > AUTHORITY_WAIT_MAX => {
                    let message = format!("{} has been held by another node for long; retry", lock.display());
                    return Err(Failure::unavailable(message));
                }
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        let refused = |error: ca::CaError| Failure::refused(error.to_string());
        if !self.authority.join("ca.pem").exists() {
            ca::init(&self.authority, WORLD).map_err(refused)?;
        }
        let addresses = [self.own().ip().to_string(), "localhost".to_owned()];
        ca::issue(&self.authority, NodeId(self.id), &addresses, ca::NODE_DAYS_DEFAULT).map_err(refused)?;
        Ok(())
    }

    fn member(&self, id: u64) -> MemberSection {
        MemberSection { id, address: peer(self.address(id)).to_string() }
    }

    fn node_file(&self) -> NodeFile {
        // Level zero: an odd number of the first nodes, at most five.
        let members = match self.addresses.len() {
            0..=2 => 1,
            3 | 4 => 3,
            _ => 5,
        };
        let of_authority = |ending: &str| self.authority.join(format!("node-{}.{ending}", self.id));
        NodeFile {
            id: self.id,
            data: "data".into(),
            insecure: false,
            cores: Some(1),
            first_core: None,
            lanes: None,
            topology: Some("topology.yaml".into()),
            world: WorldSection { name: WORLD.into(), members: (1..=members).map(|id| self.member(id)).collect() },
            region: RegionSection { name: "local".into(), members: Vec::new() },
            location: LocationSection { az: "1".into(), rack: "1".into(), chassis: format!("node-{}", self.id) },
            http: HttpSection {
                listen: self.own().to_string(),
                advertise: None,
                names: Vec::new(),
                proxies: Vec::new(),
            },
            peer: DoorSection { listen: peer(self.own()).to_string(), advertise: None },
            s3: None,
            etcd: None,
            redis: None,
            certificates: CertificatesSection {
                authority: self.authority.join("ca.pem"),
                certificate: of_authority("pem"),
                key: of_authority("key"),
                revocations: None,
            },
            tls: None,
            engine: EngineSection { default: self.engine.clone(), ..EngineSection::default() },
            access: AccessSection::default(),
            limits: LimitsSection::default(),
            tuning: TuningSection::default(),
        }
    }
}

/// Where other nodes reach one.
fn peer(http: SocketAddr) -> SocketAddr {
    // `addresses` has refused ports that are too large.
    SocketAddr::new(http.ip(), http.port().saturating_add(PEER_PORT_BEHIND))
}

/// Every node's address, each once: the masters by index, then the replicas.
fn addresses(shards: &[TopologyShard]) -> Result<Vec<SocketAddr>, Failure> {
    let mut out = Vec::new();
    let masters = shards.iter().map(|shard| &shard.address);
    for text in masters.chain(shards.iter().flat_map(|shard| &shard.replicas)) {
        let Ok(address) = text.parse::<SocketAddr>() else {
            return Err(Failure::usage(format!(
                "the config file has the address {text:?}; write ip:port, or {BY_HAND}"
            )));
        };
        if !address.ip().to_canonical().is_loopback() {
            return Err(Failure::usage(format!(
                "the config file has the address {text}, which other machines reach: there the doors need TLS, and each node a certificate that was made by hand; {BY_HAND}"
            )));
        }
        if address.port() == 0 || address.port() > u16::MAX - PEER_PORT_BEHIND {
            let most = u16::MAX - PEER_PORT_BEHIND;
            return Err(Failure::usage(format!(
                "the config file has the address {text}, and nodes speak to each other at that port and {PEER_PORT_BEHIND}; use ports of 1 to {most}, or {BY_HAND}"
            )));
        }
        if !out.contains(&address) {
            out.push(address);
        }
    }
    if let Some(taken) = out.iter().find(|address| out.contains(&peer(**address))) {
        let at = peer(*taken);
        return Err(Failure::usage(format!(
            "{taken} speaks to other nodes at {at}, which is a node's own address in the config file; use another port"
        )));
    }
    Ok(out)
}

/// The address of this node, which the file must have in the place that the flags name.
fn own_address(arguments: &SimpleKvArguments, shards: &[TopologyShard]) -> Result<SocketAddr, Failure> {
    let name = &arguments.shard;
    let Some(shard) = shards.iter().find(|shard| shard.name == *name) else {
        let names: Vec<&str> = shards.iter().map(|shard| shard.name.as_str()).collect();
        return Err(Failure::usage(format!(
            "the config file has no shard {name:?}; -shard is one of {}",
            names.join(", ")
        )));
    };
    let address = &arguments.http_address;
    let there: Vec<&String> = match arguments.replica {
        true => shard.replicas.iter().collect(),
        false => vec![&shard.address],
    };
    if !there.contains(&address) {
        let what = if arguments.replica { "a replica" } else { "the master" };
        let addresses = there.iter().map(|address| address.as_str()).collect::<Vec<_>>().join(", ");
        let known = if addresses.is_empty() { "no replica".to_owned() } else { addresses };
        return Err(Failure::usage(format!(
            "the config file does not have {address} as {what} of shard {name}, but {known}; correct -http-address, -shard or -replica"
        )));
    }
    address.parse().map_err(|_| Failure::usage(format!("-http-address is {address:?}; write ip:port")))
}

/// The engine of a `-db-type`.
fn engine(db_type: &str) -> Result<String, Failure> {
    let engine = match db_type.to_ascii_lowercase().as_str() {
        "bolt" | "boltdb" => "lmdb".to_owned(),
        "badger" | "badgerdb" => "fjall".to_owned(),
        other => other.to_owned(),
    };
    match edge_node::engines::NAMES.contains(&engine.as_str()) {
        true => Ok(engine),
        false => Err(Failure::usage(format!(
            "-db-type is {db_type:?}, and this binary has no such engine; {}",
            edge_node::engines::remedy(&engine)
        ))),
    }
}

#[cfg(test)]
mod tests;
