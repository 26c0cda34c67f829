//! Where the nodes of a local world stand: labels, ports, directories, configuration, certificates.
//!
//! ```text
//! <data>/hive-dev.json      marks the directory as ours, so that --fresh deletes nothing else
//! <data>/hive-dev.lock      held (flock) by the `hive dev` that runs on it
//! <data>/ca/                the world's authority and the certificates it issued
//! <data>/ca-clients/        with --secure: the authority of client doors and users
//! <data>/sealing-keys       with --secure: what secrets of S3 keys are sealed with
//! <data>/node-<i>/          node.toml, node.log, data/
//! <data>/s3-data/           objects over 64 KiB, of all nodes: they share one disk
//! <data>/s3-keys.json       the account and access key made at the first start
//! ```

use super::s3::Keys;
use super::write_whole;
use crate::arguments::DevArguments;
use crate::failure::Failure;
use base_types::NodeId;
use edge_node::ca;
use edge_node::config::{
    AccessSection, CertificatesSection, DoorSection, EngineSection, EtcdSection, HttpSection, LimitsSection,
    LocationSection, MemberSection, NodeFile, OidcSection, RedisSection, RegionSection, S3Section, TlsSection,
    TuningSection, WorldSection,
};
use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

/// The name of every local world.
const WORLD: &str = "dev";
/// The region of buckets made at any node's gateway.
pub const REGION: &str = "fr-par";
/// Below it buckets are websites: a browser looks for hosts below `localhost` on its own machine.
pub const WEBSITES: &str = "s3-website.localhost";
/// What marks a data directory as made by `hive dev`.
const MARKER: &str = "hive-dev.json";
/// What the process that has the directory holds.
const LOCK: &str = "hive-dev.lock";
/// Regions and zones of the first five nodes; more go round.
const PLACES: [(&str, &str); 5] = [
    ("fr-par", "fr-par-1"),
    ("fr-par", "fr-par-2"),
    ("fr-par", "fr-par-3"),
    ("nl-ams", "nl-ams-1"),
    ("pl-waw", "pl-waw-1"),
];

/// A whole world.
pub struct Plan {
    pub world: &'static str,
    pub data: PathBuf,
    pub base_port: u16,
    pub places: Vec<Place>,
    engine: String,
    cores: usize,
    s3_split_keys: u64,
    older_bucket_defaults: bool,
    s3_split_cpu_max_percent: u32,
    s3_data: String,
    pub secure: bool,
    oidc: Vec<OidcSection>,
    /// Known once the data directory is written.
    pub keys: Keys,
}

/// One node.
#[derive(Clone, Debug)]
pub struct Place {
    pub id: u64,
    pub region: &'static str,
    pub az: &'static str,
    pub rack: String,
    pub chassis: String,
    pub directory: PathBuf,
    http_port: u16,
    s3_port: u16,
    etcd_port: u16,
    redis_port: u16,
    peer_port: u16,
}

impl Place {
    fn new(id: u16, base_port: u16, data: &Path) -> Place {
        let (region, az) = PLACES[usize::from(id - 1) % PLACES.len()];
        Place {
            id: id.into(),
            region,
            az,
            rack: format!("{az}-rack-{id}"),
            chassis: format!("{az}-chassis-{id}"),
            directory: data.join(format!("node-{id}")),
            http_port: base_port + 100 + id,
            s3_port: base_port + 400 + id,
            etcd_port: base_port + 300 + id,
            redis_port: base_port + 200 + id,
            peer_port: base_port + 600 + id,
        }
    }

    /// The HTTP door's `host:port`.
    pub fn http(&self) -> String {
        format!("127.0.0.1:{}", self.http_port)
    }

    /// The S3 gateway's `host:port`.
    pub fn s3(&self) -> String {
        format!("127.0.0.1:{}", self.s3_port)
    }

    /// The etcd door's `host:port`.
    pub fn etcd(&self) -> String {
        format!("127.0.0.1:{}", self.etcd_port)
    }

    /// The Redis door's `host:port`.
    pub fn redis(&self) -> String {
        format!("127.0.0.1:{}", self.redis_port)
    }

    /// The Redis door's port.
    pub fn redis_port(&self) -> u16 {
        self.redis_port
    }

    /// The peer door's `host:port`.
    pub fn peer(&self) -> String {
        format!("127.0.0.1:{}", self.peer_port)
    }

    /// The node's configuration file.
    pub fn config(&self) -> PathBuf {
        self.directory.join("node.toml")
    }

    fn member(&self) -> MemberSection {
        MemberSection { id: self.id, address: self.peer() }
    }
}

impl Plan {
    /// Lays out a world; nothing is written yet.
    pub fn new(arguments: &DevArguments) -> Result<Plan, Failure> {
        let data = std::path::absolute(&arguments.data)
            .map_err(|error| Failure::usage(format!("{}: {error}", arguments.data.display())))?;
        let places = (1..=arguments.nodes).map(|id| Place::new(id, arguments.base_port, &data)).collect();
        let (engine, cores) = (arguments.engine.clone(), usize::from(arguments.cores));
        let (base_port, s3_split_keys) = (arguments.base_port, arguments.s3_split_keys);
        let s3_split_cpu_max_percent = arguments.s3_split_cpu_max_percent;
        let s3_data = match &arguments.s3_data {
            None => data.join("s3-data").display().to_string(),
            Some(url) if url.contains("://") => url.clone(),
            Some(path) => std::path::absolute(path)
                .map_err(|error| Failure::usage(format!("{path}: {error}")))?
                .display()
                .to_string(),
        };
        let keys = Keys::default();
        Ok(Plan {
            world: WORLD,
            data,
            base_port,
            places,
            engine,
            cores,
            s3_split_keys,
            older_bucket_defaults: arguments.older_bucket_defaults,
            s3_split_cpu_max_percent,
            s3_data,
            secure: arguments.secure,
            oidc: arguments
                .oidc_issuer
                .iter()
                .map(|issuer| OidcSection::new(issuer, &arguments.oidc_audience))
                .collect(),
            keys,
        })
    }

    /// Refuses ports that something else has, before anything is started.
    pub fn check_ports(&self) -> Result<(), Failure> {
        for place in &self.places {
            for address in [place.http(), place.s3(), place.etcd(), place.redis(), place.peer()] {
                if let Err(error) = TcpListener::bind(&address) {
                    let message = format!("{address} cannot be used ({error}); is another `hive dev` running? name other ports with --base-port");
                    return Err(Failure::refused(message));
                }
            }
        }
        Ok(())
    }

    /// Writes directories, certificates and configurations; what is there and still fits is kept.
    pub fn write(&self) -> Result<(), Failure> {
        make_directory(&self.data)?;
        write_whole(&self.data.join(MARKER), format!("{{\"world\":\"{}\"}}\n", self.world).as_bytes(), 0o644)?;
        let authority = self.data.join("ca");
        if !authority.join("ca.pem").exists() {
            ca::init(&authority, self.world).map_err(|error| Failure::refused(error.to_string()))?;
        }
        self.make_sealing_keys()?;
        for place in &self.places {
            make_directory(&place.directory)?;
            let id = NodeId(place.id);
            if !authority.join(format!("node-{id}.pem")).exists() {
                let addresses = ["127.0.0.1".to_owned(), "localhost".to_owned()];
                ca::issue(&authority, id, &addresses, ca::NODE_DAYS_DEFAULT)
                    .map_err(|error| Failure::refused(error.to_string()))?;
            }
            if self.secure {
                let addresses = vec!["127.0.0.1".to_owned(), "localhost".to_owned(), "*.localhost".to_owned()];
                ca::clients::prepare(&self.clients(), self.world, &[(id, addresses)], ca::NODE_DAYS_DEFAULT)
                    .map_err(|error| Failure::refused(error.to_string()))?;
            }
            let text =
                self.node_file(place).to_toml().map_err(|error| Failure::refused(format!("node.toml: {error}")))?;
            write_whole(&place.config(), text.as_bytes(), 0o600)?;
        }
        Ok(())
    }

    /// The keys that secrets of users' S3 keys are sealed with.
    fn sealing_keys(&self) -> PathBuf {
        self.data.join("sealing-keys")
    }

    /// Makes them once: what they have sealed, no others open.
    fn make_sealing_keys(&self) -> Result<(), Failure> {
        let file = self.sealing_keys();
        if !self.secure || file.exists() {
            return Ok(());
        }
        let failed = |error: std::io::Error| Failure::refused(format!("{}: {error}", file.display()));
        let text = format!("{}\n", edge_node::access::sealing::draw().map_err(failed)?);
        write_whole(&file, text.as_bytes(), 0o600)
    }

    /// Where the authority of clients is.
    fn clients(&self) -> PathBuf {
        self.data.join("ca-clients")
    }

    /// The authority that clients trust.
    pub fn clients_authority(&self) -> PathBuf {
        self.clients().join("ca.pem")
    }

    /// `http://` or `https://` and an address.
    pub fn url(&self, address: &str) -> String {
        format!("{}://{address}", if self.secure { "https" } else { "http" })
    }

    /// `redis://` or `rediss://` and the address of a node's Redis door, as its clients write it.
    pub fn redis_url(&self, place: &Place) -> String {
        format!("{}://{}", if self.secure { "rediss" } else { "redis" }, place.redis())
    }

    /// The file with the world's root token, where a node has made it.
    pub fn root_token_file(&self) -> Option<PathBuf> {
        let file = |place: &Place| place.directory.join("data").join(edge_node::access::root::FILE);
        self.places.iter().map(file).find(|file| file.exists())
    }

    /// The world's root token.
    pub fn root_token(&self) -> Option<String> {
        let text = std::fs::read_to_string(self.root_token_file()?).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    fn tls(&self, place: &Place) -> TlsSection {
        let file = |ending: &str| self.clients().join(format!("server-{}.{ending}", NodeId(place.id)));
        TlsSection {
            certificate: file("pem"),
            key: file("key"),
            client_authority: Some(self.clients_authority()),
            client_revocations: None,
            client_certificates: None,
            s3_client_certificates: None,
        }
    }

    fn node_file(&self, place: &Place) -> NodeFile {
        let authority = self.data.join("ca");
        let same_region = self.places.iter().filter(|other| other.region == place.region);
        NodeFile {
            id: place.id,
            data: "data".into(),
            insecure: false,
            cores: Some(self.cores),
            first_core: None,
            lanes: None,
            topology: None,
            world: WorldSection { name: self.world.into(), members: first(self.places.iter()) },
            region: RegionSection { name: place.region.into(), members: first(same_region) },
            location: LocationSection { az: place.az.into(), rack: place.rack.clone(), chassis: place.chassis.clone() },
            http: HttpSection { listen: place.http(), advertise: None, names: Vec::new(), proxies: Vec::new() },
            peer: DoorSection { listen: place.peer(), advertise: None },
            s3: Some(S3Section {
                listen: place.s3(),
                // One endpoint each, but one region for clients: what they make is wherever the rule puts it.
                region: Some(REGION.into()),
                domains: vec!["localhost".into(), format!("localhost:{}", place.s3_port)],
                data: self.s3_data.clone(),
                threads: None,
                proxies: Vec::new(),
                data_options: Default::default(),
                older_bucket_defaults: self.older_bucket_defaults,
                website_domains: vec![WEBSITES.into(), format!("{WEBSITES}:{}", place.s3_port)],
            }),
            etcd: Some(EtcdSection {
                listen: place.etcd(),
                namespace: None,
                namespaces: Vec::new(),
                threads: None,
                auto_compaction: None,
                proxies: Vec::new(),
            }),
            redis: Some(RedisSection {
                listen: place.redis(),
                database: None,
                databases: Vec::new(),
                threads: None,
                proxies: Vec::new(),
            }),
            certificates: CertificatesSection {
                authority: authority.join("ca.pem"),
                certificate: authority.join(format!("node-{}.pem", place.id)),
                key: authority.join(format!("node-{}.key", place.id)),
                revocations: None,
            },
            tls: self.secure.then(|| self.tls(place)),
            engine: EngineSection { default: self.engine.clone(), ..EngineSection::default() },
            access: AccessSection {
                required: self.secure,
                sealing_key_file: self.secure.then(|| self.sealing_keys()),
                oidc: self.oidc.clone(),
                ..AccessSection::default()
            },
            limits: LimitsSection::default(),
            tuning: TuningSection {
                s3_split_keys: self.s3_split_keys,
                s3_split_cpu_max_percent: self.s3_split_cpu_max_percent,
                ..TuningSection::default()
            },
        }
    }
}

/// The members of a level-zero cluster: an odd number of the first nodes, at most five.
fn first<'p>(places: impl Iterator<Item = &'p Place>) -> Vec<MemberSection> {
    let all: Vec<MemberSection> = places.map(Place::member).collect();
    let count = match all.len() {
        0..=2 => all.len().min(1),
        3 | 4 => 3,
        _ => 5,
    };
    all.into_iter().take(count).collect()
}

/// A directory only its owner may write.
fn make_directory(path: &Path) -> Result<(), Failure> {
    use std::os::unix::fs::DirBuilderExt;
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| Failure::refused(format!("{}: {error}", path.display())))
}

/// Takes the directory for this process, as long as the file lives.
pub fn lock(data: &Path) -> Result<File, Failure> {
    let failed = |error: std::io::Error| Failure::refused(format!("{}: {error}", data.display()));
    make_directory(data)?;
    match edge_node::data::lock_file(&data.join(LOCK)).map_err(failed)? {
        Some(file) => Ok(file),
        None => {
            let message = format!(
                "{} is in use by another `hive dev`; stop that one, or name another directory with --data (and other ports with --base-port)",
                data.display()
            );
            Err(Failure::refused(message))
        }
    }
}

/// Refuses a directory with anything in it that `hive dev` did not make.
pub fn check_ours(data: &Path) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::refused(format!("{}: {error}", data.display()));
    if !data.exists() || data.join(MARKER).exists() {
        return Ok(());
    }
    for entry in std::fs::read_dir(data).map_err(failed)? {
        if entry.map_err(failed)?.file_name() != LOCK {
            let message = format!(
                "{} was not made by `hive dev`, so --fresh does not delete it; name another directory with --data",
                data.display()
            );
            return Err(Failure::usage(message));
        }
    }
    Ok(())
}

/// Deletes an earlier world but for its lock, and refuses to delete anything else.
pub fn clear(data: &Path) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::refused(format!("{}: {error}", data.display()));
    if !data.exists() {
        return Ok(());
    }
    check_ours(data)?;
    for entry in std::fs::read_dir(data).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_name() == LOCK || entry.file_name() == MARKER {
            continue;
        }
        match entry.file_type().map_err(failed)?.is_dir() {
            true => std::fs::remove_dir_all(entry.path()).map_err(failed)?,
            false => std::fs::remove_file(entry.path()).map_err(failed)?,
        }
    }
    // Last, so that what is left of a deletion cut short is still known for ours.
    match std::fs::remove_file(data.join(MARKER)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edge_node::config::Config;

    fn plan(nodes: u16, data: &Path) -> Plan {
        Plan::new(&arguments(nodes, data)).unwrap()
    }

    fn arguments(nodes: u16, data: &Path) -> DevArguments {
        DevArguments {
            secure: false,
            oidc_issuer: None,
            oidc_audience: "hive".into(),
            nodes,
            data: data.to_owned(),
            base_port: 7000,
            engine: "lmdb".into(),
            cores: 1,
            s3_split_keys: 40_000,
            older_bucket_defaults: false,
            s3_split_cpu_max_percent: 90,
            s3_data: None,
            ready_file: None,
            fresh: false,
            no_restart: false,
            json: false,
        }
    }

    #[test]
    fn five_nodes_stand_as_the_contract_says() {
        let directory = tempfile::tempdir().unwrap();
        let plan = plan(5, directory.path());
        let regions: Vec<&str> = plan.places.iter().map(|place| place.region).collect();
        assert_eq!(regions, ["fr-par", "fr-par", "fr-par", "nl-ams", "pl-waw"]);
        assert_eq!((plan.places[4].http(), plan.places[0].peer()), ("127.0.0.1:7105".into(), "127.0.0.1:7601".into()));
        assert_eq!(plan.places[2].s3(), "127.0.0.1:7403");
        assert_eq!(plan.node_file(&plan.places[3]).region.members.len(), 1);
        assert_eq!(plan.node_file(&plan.places[0]).world.members.len(), 5);
    }

    #[test]
    fn what_is_written_is_a_valid_configuration() {
        let directory = tempfile::tempdir().unwrap();
        let plan = plan(7, &directory.path().join("world"));
        plan.write().unwrap();
        for place in &plan.places {
            let config = Config::load(&place.config()).unwrap();
            assert_eq!(config.node, NodeId(place.id));
        }
        let before = std::fs::read(plan.data.join("ca/node-1.pem")).unwrap();
        plan.write().unwrap();
        assert_eq!(before, std::fs::read(plan.data.join("ca/node-1.pem")).unwrap(), "certificates are kept");
    }

    #[test]
    fn what_is_written_is_its_owners() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let plan = plan(1, &directory.path().join("world"));
        make_directory(&plan.places[0].directory).unwrap();
        std::fs::write(plan.places[0].config().with_extension("toml.new"), "left by somebody").unwrap();
        plan.write().unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&plan.places[0].config()), mode(&plan.data)), (0o600, 0o700));
    }

    #[test]
    fn fresh_deletes_only_what_dev_made() {
        let directory = tempfile::tempdir().unwrap();
        let foreign = directory.path().join("home");
        std::fs::create_dir(&foreign).unwrap();
        std::fs::write(foreign.join("letter.txt"), "dear").unwrap();
        assert!(clear(&foreign).is_err());
        assert!(foreign.join("letter.txt").exists());
        let ours = directory.path().join("world");
        plan(1, &ours).write().unwrap();
        clear(&ours).unwrap();
        assert_eq!(std::fs::read_dir(&ours).unwrap().count(), 0);
        clear(&ours).unwrap();
    }

    #[test]
    fn a_second_world_on_the_same_data_writes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let ours = directory.path().join("world");
        let held = lock(&ours).unwrap();
        plan(1, &ours).write().unwrap();
        let before = std::fs::read(ours.join("node-1/node.toml")).unwrap();
        let mut other = arguments(1, &ours);
        (other.base_port, other.fresh) = (9000, true);
        let refused = crate::dev::run(other).unwrap_err();
        assert!(refused.message.contains("is in use by another `hive dev`"), "{}", refused.message);
        assert_eq!(std::fs::read(ours.join("node-1/node.toml")).unwrap(), before);
        // With --fresh, too, it is taken by one at a time.
        clear(&ours).unwrap();
        assert!(lock(&ours).is_err());
        drop(held);
        lock(&ours).unwrap();
    }
}
