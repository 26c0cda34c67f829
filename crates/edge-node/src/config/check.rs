//! The checks a parsed `node.toml` must pass.
//!
//! Always: pure but for looking at the named files' modes; the first finding is reported with its line.
//! Held by: `each_mistake_is_named_with_line_and_remedy`.
//! Not here: syntax (toml reports line and column itself), whether a certificate is valid (`tls.rs`).

use super::{Config, ConfigError, MemberSection, NodeFile, LANES_MAX, MEMBERS_MAX};
use base_types::NodeId;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The longest label or name.
const LABEL_BYTES_MAX: usize = 63;
/// The most names of the HTTP door.
const HTTP_NAMES_MAX: usize = 64;
/// The longest name of a host.
const HOST_BYTES_MAX: usize = 253;

/// One file under check: knows how to say where.
pub(super) struct Checker<'a> {
    pub(super) path: &'a Path,
    pub(super) text: &'a str,
}

impl Checker<'_> {
    pub(super) fn path(&self) -> &Path {
        self.path
    }

    pub(super) fn refuse<T>(&self, what: String, remedy: &str) -> Result<T, ConfigError> {
        Err(ConfigError::Invalid { path: self.path.display().to_string(), what, remedy: remedy.into() })
    }

    /// `line 7: `, the `nth` line (from 0) that holds `needle` outside comments; empty where none does.
    pub(super) fn line(&self, needle: &str, nth: usize) -> String {
        let code = |line: &str| line.split('#').next().unwrap_or("").to_string();
        let mut found = self.text.lines().enumerate().filter(|(_, line)| code(line).contains(needle));
        found.nth(nth).map(|(index, _)| format!("line {}: ", index + 1)).unwrap_or_default()
    }

    /// A path relative to the file's directory.
    pub(super) fn resolve(&self, path: &Path) -> PathBuf {
        match self.path.parent() {
            Some(parent) if path.is_relative() => parent.join(path),
            _ => path.to_path_buf(),
        }
    }
}

/// Turns a parsed file into a checked configuration.
pub fn check(path: &Path, text: &str, file: NodeFile) -> Result<Config, ConfigError> {
    let checker = Checker { path, text };
    check_names(&checker, &file)?;
    let world_members = check_members(&checker, "world", &file.world.members)?;
    let region_members = check_members(&checker, "region", &file.region.members)?;
    if world_members.is_empty() {
        return checker.refuse(
            "[world] has no members".into(),
            "list each member of the world cluster as [[world.members]] with id and address",
        );
    }
    let http_listen = check_listen(&checker, "http", &file.http.listen)?;
    let peer_listen = check_listen(&checker, "peer", &file.peer.listen)?;
    if http_listen == peer_listen && http_listen.port() != 0 {
        return checker
            .refuse(format!("http and peer both listen on {http_listen}"), "give each door a port of its own");
    }
    let s3 = super::s3::check(&checker, &file, &[http_listen, peer_listen])?;
    let mut taken = vec![http_listen, peer_listen];
    taken.extend(s3.as_ref().map(|s3| s3.listen));
    let etcd = super::etcd::check(&checker, &file, &mut taken)?;
    let redis = super::redis::check(&checker, &file, &mut taken)?;
    let http_advertise = check_advertise(&checker, "http", &file.http.listen, file.http.advertise.as_deref())?;
    let peer_advertise = check_advertise(&checker, "peer", &file.peer.listen, file.peer.advertise.as_deref())?;
    let mut doors = vec![("http", Some(http_listen)), ("s3", s3.as_ref().map(|s3| s3.listen))];
    doors.extend(etcd.iter().flat_map(|etcd| &etcd.listeners).map(|(address, _)| ("etcd", Some(*address))));
    doors.extend(redis.iter().flat_map(|redis| &redis.listeners).map(|(address, _)| ("redis", Some(*address))));
    check_open(&checker, &file, &doors)?;
    check_http_names(&checker, &file.http.names)?;
    let http_proxies = super::s3::check_proxies(&checker, "http", &file.http.proxies)?;
    check_own_address(&checker, &file, &world_members, &region_members, &peer_advertise)?;
    super::secrets::check(&checker, &file)?;
    let (cores, lanes) = check_cores(&checker, &file)?;
    check_ranges(&checker, &file)?;
    let mut certificates = file.certificates.clone();
    certificates.authority = checker.resolve(&certificates.authority);
    certificates.certificate = checker.resolve(&certificates.certificate);
    certificates.key = checker.resolve(&certificates.key);
    certificates.revocations = certificates.revocations.map(|path| checker.resolve(&path));
    check_key_mode(&checker, "certificates.key", &certificates.key)?;
    let tls = super::tls::check(&checker, &file)?;
    let mut access = file.access;
    access.sealing_key_file = access.sealing_key_file.map(|keys| checker.resolve(&keys));
    if let Some(keys) = &access.sealing_key_file {
        check_secret_file(
            &checker,
            "access.sealing_key_file",
            keys,
            "make one with `openssl rand -hex 32`, the same on every node",
        )?;
    }
    super::oidc::check(&checker, &mut access)?;
    let data = checker.resolve(&file.data);
    check_data_mode(&checker, &data)?;
    let topology = match &file.topology {
        Some(topology) => super::topology::load(&checker.resolve(topology))?,
        None => Vec::new(),
    };
    Ok(Config {
        world: file.world.name,
        node: NodeId(file.id),
        insecure: file.insecure,
        data,
        cores,
        first_core: file.first_core,
        lanes,
        labels: core_placement::Labels {
            region: file.region.name,
            az: file.location.az,
            rack: file.location.rack,
            chassis: file.location.chassis,
        },
        http_listen,
        http_advertise,
        http_names: file.http.names,
        http_proxies,
        peer_listen,
        peer_advertise,
        s3,
        etcd,
        redis,
        world_members,
        region_members,
        certificates,
        tls,
        engine: file.engine,
        limits: file.limits,
        access,
        tuning: file.tuning,
        topology,
    })
}

/// Names become parts of certificates' DNS names and of rules, so they are DNS labels.
fn check_names(checker: &Checker<'_>, file: &NodeFile) -> Result<(), ConfigError> {
    let dns = |text: &str| {
        let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !text.is_empty()
            && text.len() <= LABEL_BYTES_MAX
            && text.chars().all(legal)
            && !text.starts_with('-')
            && !text.ends_with('-')
    };
    for (what, key, text) in [("world", "name", &file.world.name), ("region", "name", &file.region.name)] {
        if !dns(text) {
            let line = checker.line(&format!("{key} = \"{text}\""), 0);
            return checker.refuse(
                format!("{line}{what}.name is {text:?}"),
                "use 1 to 63 lower-case letters, digits and hyphens, no hyphen at either end",
            );
        }
    }
    for (what, text) in [("az", &file.location.az), ("rack", &file.location.rack), ("chassis", &file.location.chassis)]
    {
        let legal = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if text.is_empty() || text.len() > LABEL_BYTES_MAX || !text.chars().all(legal) {
            let line = checker.line(&format!("{what} ="), 0);
            return checker.refuse(
                format!("{line}location.{what} is {text:?}"),
                "use 1 to 63 letters, digits, hyphens, underscores and dots",
            );
        }
    }
    if file.id == 0 {
        return checker.refuse(format!("{}id is 0", checker.line("id = 0", 0)), "give an id of at least 1");
    }
    Ok(())
}

fn check_members(
    checker: &Checker<'_>,
    section: &str,
    members: &[MemberSection],
) -> Result<BTreeMap<NodeId, String>, ConfigError> {
    if members.len() > MEMBERS_MAX {
        return checker.refuse(
            format!("[{section}] has {} members", members.len()),
            "list at most 9; other nodes join without being listed",
        );
    }
    let mut seen: BTreeMap<NodeId, String> = BTreeMap::new();
    for (index, member) in members.iter().enumerate() {
        let mut line = checker.line(&format!("[[{section}.members]]"), index);
        if line.is_empty() {
            // Members in one line, as `hive config init` writes them.
            line = checker.line(&format!("\"{}\"", member.address), 0);
        }
        if member.id == 0 {
            return checker.refuse(format!("{line}member of [{section}] has id 0"), "give an id of at least 1");
        }
        if !address_is_legal(&member.address) {
            return checker.refuse(
                format!("{line}node {} in {section}.members has the address {:?}", member.id, member.address),
                "write host:port with a port from 1 to 65535",
            );
        }
        if let Some((other, _)) = seen.iter().find(|(_, address)| **address == member.address) {
            return checker.refuse(
                format!(
                    "{line}nodes {other} and {} in {section}.members have the same address {}",
                    member.id, member.address
                ),
                "give every node a peer address of its own",
            );
        }
        if seen.insert(NodeId(member.id), member.address.clone()).is_some() {
            return checker.refuse(
                format!("{line}node id {} is used twice in {section}.members", member.id),
                "give every node an id of its own",
            );
        }
    }
    Ok(seen)
}

/// `host:port`, the host not empty, the port not 0.
fn address_is_legal(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let host_is_legal = !host.is_empty()
        && host.len() <= HOST_BYTES_MAX
        && host.chars().all(|c| c.is_ascii_alphanumeric() || "-._[]:".contains(c));
    host_is_legal && port.parse::<u16>().is_ok_and(|port| port != 0)
}

pub(super) fn check_listen(checker: &Checker<'_>, door: &str, text: &str) -> Result<SocketAddr, ConfigError> {
    text.parse().or_else(|_| {
        let line = checker.line(&format!("listen = \"{text}\""), 0);
        checker.refuse(
            format!("{line}{door}.listen is {text:?}"),
            "write ip:port, for example 127.0.0.1:7101 or [::]:7101",
        )
    })
}

fn check_advertise(
    checker: &Checker<'_>,
    door: &str,
    listen: &str,
    advertise: Option<&str>,
) -> Result<String, ConfigError> {
    let Some(text) = advertise else {
        let address = check_listen(checker, door, listen)?;
        if address.ip().is_unspecified() {
            return checker.refuse(
                format!("{door}.listen is {address}, which nobody else can connect to, and {door}.advertise is absent"),
                "set advertise to the host:port other nodes and clients reach this node at",
            );
        }
        return Ok(listen.to_owned());
    };
    if !address_is_legal(text) {
        let line = checker.line(&format!("advertise = \"{text}\""), 0);
        return checker
            .refuse(format!("{line}{door}.advertise is {text:?}"), "write host:port with a port from 1 to 65535");
    }
    Ok(text.to_owned())
}

/// A door to clients that others reach has TLS and asks who is there, or its operator says that it need not. Peers' has both.
fn check_open(checker: &Checker<'_>, file: &NodeFile, doors: &[(&str, Option<SocketAddr>)]) -> Result<(), ConfigError> {
    if file.insecure {
        return Ok(());
    }
    let beyond = |listen: &SocketAddr| !listen.ip().to_canonical().is_loopback();
    for (door, listen) in doors {
        let Some(listen) = listen.filter(beyond) else { continue };
        let Some(lacks) = super::tls::lacks(file, door) else { continue };
        let line = checker.line(&format!("listen = \"{listen}\""), 0);
        return checker.refuse(
            format!("{line}{door}.listen is {listen}, which other machines reach, and this door has {lacks}"),
            "write [tls] with certificate and key (docs/guides/operations/tls.md) and [access] with required = true (docs/guides/access.md); or listen on 127.0.0.1 behind a proxy that has both; or, on a network where everybody may read and change everything, write insecure = true at the top of the file",
        );
    }
    Ok(())
}

/// Names of hosts, without ports: a client's `Host` is compared with them.
fn check_http_names(checker: &Checker<'_>, names: &[String]) -> Result<(), ConfigError> {
    if names.len() > HTTP_NAMES_MAX {
        return checker.refuse(format!("http.names has {} names", names.len()), "list at most 64");
    }
    for name in names {
        let legal = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let edges = !name.starts_with(['.', '-']) && !name.ends_with(['.', '-']);
        if name.is_empty() || name.len() > HOST_BYTES_MAX || !name.chars().all(legal) || !edges {
            let line = checker.line(&format!("\"{name}\""), 0);
            let remedy = "write the name of a host as clients use it, without a port, for example hive.example.org";
            return checker.refuse(format!("{line}http.names has {name:?}"), remedy);
        }
    }
    Ok(())
}

/// A member that is listed under another address than it advertises would never be found; an address
/// of ours under another id is a copied file.
fn check_own_address(
    checker: &Checker<'_>,
    file: &NodeFile,
    world: &BTreeMap<NodeId, String>,
    region: &BTreeMap<NodeId, String>,
    advertise: &str,
) -> Result<(), ConfigError> {
    for (section, members) in [("world", world), ("region", region)] {
        for (id, address) in members {
            let line = checker.line(&format!("address = \"{address}\""), 0);
            if id.0 == file.id && address != advertise {
                return checker.refuse(
                    format!("{line}{section}.members lists this node {id} at {address}, but it advertises {advertise}"),
                    "make peer.advertise (or peer.listen) and the member's address equal",
                );
            }
            if id.0 != file.id && address == advertise {
                return checker.refuse(
                    format!(
                        "{line}{section}.members lists this node's address {address} as node {id}, but id is {}",
                        file.id
                    ),
                    "correct id, or the member's address",
                );
            }
        }
    }
    Ok(())
}

fn check_cores(checker: &Checker<'_>, file: &NodeFile) -> Result<(usize, u16), ConfigError> {
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    let cores = file.cores.unwrap_or(available);
    if cores == 0 || cores > usize::from(LANES_MAX) {
        return checker.refuse(
            format!("{}cores is {cores}", checker.line("cores =", 0)),
            "use 1 to 256, or leave it out for all cores",
        );
    }
    if let Some(first) = file.first_core.filter(|first| first.saturating_add(cores) > available) {
        return checker.refuse(
            format!("{}first_core is {first}, and this machine has {available} cores", checker.line("first_core =", 0)),
            &format!(
                "{cores} core threads need as many cores from first_core on: lower it or `cores`, or leave it out"
            ),
        );
    }
    let lanes = file.lanes.unwrap_or(cores as u16);
    if lanes == 0 || lanes > LANES_MAX {
        return checker
            .refuse(format!("{}lanes is {lanes}", checker.line("lanes =", 0)), "use 1 to 256, or leave it out");
    }
    Ok((cores, lanes))
}

fn check_ranges(checker: &Checker<'_>, file: &NodeFile) -> Result<(), ConfigError> {
    if !crate::engines::NAMES.contains(&file.engine.default.as_str()) {
        let line = checker.line("default =", 0);
        let remedy = crate::engines::remedy(&file.engine.default);
        return checker.refuse(format!("{line}engine.default is {:?}", file.engine.default), &remedy);
    }
    if let Err((found, remedy)) = crate::engines::check_providers(&file.engine.metahive_providers) {
        let line = checker.line("metahive_providers =", 0);
        return checker.refuse(format!("{line}engine.metahive_providers names {found}"), &remedy);
    }
    if let Err((found, remedy)) = crate::engines::check_place(&file.engine.object.url) {
        let line = checker.line("url =", 0);
        return checker.refuse(format!("{line}engine.object.url is {found}"), &remedy);
    }
    let (limits, tuning) = (&file.limits, &file.tuning);
    let ranges: [(&str, u64, u64, u64); 29] = [
        ("lag_ms", file.engine.object.lag_ms, 10, 3_600_000),
        ("cache_bytes", file.engine.cache_bytes, 1 << 20, 1 << 40),
        ("file_bytes_max", file.engine.file_bytes_max, 0, 1 << 46),
        ("map_bytes_max", file.engine.lmdb.map_bytes_max, 1 << 20, 1 << 46),
        ("body_bytes_max", limits.body_bytes_max as u64, 1 << 10, 64 << 20),
        ("connections_max", limits.connections_max as u64, 1, 1_000_000),
        ("unfinished_bytes_max", limits.unfinished_bytes_max as u64, 2 * limits.body_bytes_max as u64, 1 << 40),
        ("header_timeout_ms", limits.header_timeout_ms, 10, 3_600_000),
        ("body_timeout_ms", limits.body_timeout_ms, 10, 3_600_000),
        ("tick_ms", tuning.tick_ms, 1, 10_000),
        ("heartbeat_ticks", tuning.heartbeat_ticks as u64, 1, 1_000),
        ("election_ticks", tuning.election_ticks as u64, tuning.heartbeat_ticks as u64 + 1, 10_000),
        ("quiesce_after_ticks", u64::from(tuning.quiesce_after_ticks), 1, 1_000_000),
        ("flush_bytes", tuning.flush_bytes, 4 << 10, 1 << 34),
        ("flush_after_ms", tuning.flush_after_ms, 1, 3_600_000),
        ("snapshot_chunk_bytes", tuning.snapshot_chunk_bytes as u64, 1 << 10, 4 << 20),
        ("node_heartbeat_ms", tuning.node_heartbeat_ms, 10, 60_000),
        ("node_down_ms", tuning.node_down_ms, tuning.node_heartbeat_ms + 1, 3_600_000),
        ("node_dead_after_ms", tuning.node_dead_after_ms, 0, 30 * 24 * 3_600_000),
        ("scrub_bytes_per_second", tuning.scrub_bytes_per_second, 0, 1 << 34),
        ("scrub_interval_ms", tuning.scrub_interval_ms, 1_000, 30 * 24 * 3_600_000),
        ("log_segment_bytes", tuning.log_segment_bytes, 8 << 20, core_log::SEGMENT_BYTES_MAX),
        ("log_spare_segments", tuning.log_spare_segments as u64, 1, 64),
        ("log_write_timeout_ms", tuning.log_write_timeout_ms, 100, 600_000),
        ("log_stall_elections", u64::from(tuning.log_stall_elections), 0, 1_000),
        ("slow_request_ms", tuning.slow_request_ms, 0, 600_000),
        ("s3_split_keys", tuning.s3_split_keys, 8, 10_000_000),
        ("s3_split_writes_per_second", tuning.s3_split_writes_per_second, 0, 1_000_000),
        ("s3_split_cpu_max_percent", u64::from(tuning.s3_split_cpu_max_percent), 0, 100),
    ];
    for (key, value, low, high) in ranges {
        if value < low || value > high {
            let line = checker.line(&format!("{key} ="), 0);
            return checker.refuse(format!("{line}{key} is {value}"), &format!("use {low} to {high}"));
        }
    }
    if let Err(error) = tuning.s3_rule.parse::<core_placement::Rule>() {
        if !tuning.s3_rule.is_empty() {
            let line = checker.line("s3_rule =", 0);
            let remedy = "write a rule, for example \"size=3 location=world failure_domain=az\"";
            return checker.refuse(format!("{line}s3_rule is {:?}: {error}", tuning.s3_rule), remedy);
        }
    }
    if tuning.log_segment_bytes % core_log::BLOCK_BYTES as u64 != 0 {
        let line = checker.line("log_segment_bytes =", 0);
        return checker
            .refuse(format!("{line}log_segment_bytes is {}", tuning.log_segment_bytes), "use a multiple of 4096");
    }
    Ok(())
}

pub(super) fn check_key_mode(checker: &Checker<'_>, setting: &str, key: &Path) -> Result<(), ConfigError> {
    check_secret_file(checker, setting, key, "issue one with `hive ca issue`, or correct the path")
}

/// A file that only its owner may reach.
fn check_secret_file(checker: &Checker<'_>, setting: &str, key: &Path, remedy: &str) -> Result<(), ConfigError> {
    let data = match std::fs::metadata(key) {
        Ok(data) => data,
        Err(error) => return checker.refuse(format!("{setting} {}: {error}", key.display()), remedy),
    };
    let mode = data.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return checker.refuse(
            format!("the key file {} has mode {mode:04o}: others than its owner can reach it", key.display()),
            &format!("run `chmod 600 {}`", key.display()),
        );
    }
    Ok(())
}

fn check_data_mode(checker: &Checker<'_>, data: &Path) -> Result<(), ConfigError> {
    // A directory that is not there yet is made with mode 0700.
    let Ok(found) = std::fs::metadata(data) else { return Ok(()) };
    if !found.is_dir() {
        return checker.refuse(
            format!("data {} is not a directory", data.display()),
            "name a directory, or one that is yet to be made",
        );
    }
    let mode = found.permissions().mode() & 0o777;
    if mode & 0o022 != 0 {
        return checker.refuse(
            format!("the data directory {} has mode {mode:04o}: others than its owner can write to it", data.display()),
            &format!("run `chmod go-w {}`", data.display()),
        );
    }
    Ok(())
}
