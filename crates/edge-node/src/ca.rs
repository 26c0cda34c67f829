//! The world's own certificate authority: a directory that `hive ca` works in.
//!
//! ```text
//! <dir>/world            the world's name
//! <dir>/ca.pem           certificates nodes trust: the current authority first, after a rotation also the one before
//! <dir>/ca.key           0600; who has it can join the world
//! <dir>/node-<id>.pem    issued; its name node-<id>.<world>.hive is the node's identity
//! <dir>/node-<id>.key    0600
//! <dir>/crl.pem          which certificates count no more (`revocations`), where some do not
//! ```
//!
//! Always: a key file is made with mode 0600 and never overwritten by `init`; files appear whole (rename).
//! Not here: the authority of clients (`clients`), the use of certificates (`tls.rs`).

pub mod clients;
mod revocations;

pub use clients::CertificateName;
pub use revocations::{revoke, Revocation, Revoke};

use base_types::NodeId;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use time::OffsetDateTime;

/// How long an authority lasts.
pub const AUTHORITY_DAYS: u32 = 3650;
/// How long a node's certificate lasts where nothing else is asked for.
pub const NODE_DAYS_DEFAULT: u32 = 397;
/// The longest a node's certificate may last.
pub const NODE_DAYS_MAX: u32 = 3650;

/// Below it are the names of nodes, and nothing else.
const NODES_DOMAIN: &str = "hive";
/// So much of a name is repeated in a refusal.
const NAME_SHOWN_CHARS_MAX: usize = 80;

/// Why the authority refuses.
#[derive(Debug, thiserror::Error)]
pub enum CaError {
    #[error("{path}: {reason}")]
    Io { path: String, reason: String },
    #[error("{path} already has an authority; issue from it, rotate it, or name an empty directory")]
    Exists { path: String },
    #[error("{path} has no authority; make one with `hive ca init`")]
    Absent { path: String },
    #[error("{path} is the clients' authority, whose certificates no peer accepts; name the peers' authority")]
    Clients { path: String },
    #[error("{path} is the peers' authority; make one for clients with `hive ca init --clients`, and issue from that")]
    Peers { path: String },
    #[error("{what} is {value:?}; {remedy}")]
    Invalid { what: &'static str, value: String, remedy: &'static str },
    #[error("certificate work failed: {0}")]
    Crypto(String),
}

impl From<rcgen::Error> for CaError {
    fn from(error: rcgen::Error) -> CaError {
        CaError::Crypto(error.to_string())
    }
}

/// Where an issued certificate and its key are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    pub authority: PathBuf,
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// A certificate at a glance.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct CertificateInfo {
    pub file: String,
    pub subject: String,
    pub names: Vec<String>,
    /// Seconds since 1970.
    pub not_before: i64,
    pub not_after: i64,
    pub serial: String,
    pub authority: bool,
    pub expired: bool,
}

/// The name in a node's certificate: its identity.
pub fn node_name(world: &str, node: NodeId) -> String {
    format!("node-{node}.{world}.{NODES_DOMAIN}")
}

/// Makes an authority for a world.
pub fn init(directory: &Path, world: &str) -> Result<(), CaError> {
    init_as(directory, world, None)
}

/// As [`init`]; a `marker` says whose authority it is.
fn init_as(directory: &Path, world: &str, marker: Option<&str>) -> Result<(), CaError> {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if world.is_empty()
        || world.len() > 63
        || !world.chars().all(legal)
        || world.starts_with('-')
        || world.ends_with('-')
    {
        return Err(CaError::Invalid {
            what: "world",
            value: world.into(),
            remedy: "use 1 to 63 lower-case letters, digits and hyphens, no hyphen at either end",
        });
    }
    if directory.join("ca.key").exists() || directory.join("ca.pem").exists() {
        return Err(CaError::Exists { path: directory.display().to_string() });
    }
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|error| io(directory, &error))?;
    let (certificate, key) = make_authority(world)?;
    write_file(&directory.join("world"), world, 0o644)?;
    if let Some(marker) = marker {
        write_file(&directory.join(marker), "", 0o644)?;
    }
    write_file(&directory.join("ca.key"), &key, 0o600)?;
    write_file(&directory.join("ca.pem"), &certificate, 0o644)
}

/// Issues (or renews) a node's certificate; `addresses` are hosts or IPs people may check it by.
pub fn issue(directory: &Path, node: NodeId, addresses: &[String], days: u32) -> Result<Issued, CaError> {
    if node.0 == 0 {
        return Err(CaError::Invalid { what: "node id", value: "0".into(), remedy: "give an id of at least 1" });
    }
    check_days(days)?;
    if clients::is_here(directory) {
        return Err(CaError::Clients { path: directory.display().to_string() });
    }
    if let Some(nodes) = addresses.iter().find(|address| is_nodes(address)) {
        let remedy = "a certificate names exactly one node, by its id; give IP addresses and host names here";
        return Err(CaError::Invalid { what: "address", value: nodes.clone(), remedy });
    }
    let (world, issuer) = open(directory)?;
    let mut names = vec![node_name(&world, node)];
    names.extend(addresses.iter().cloned());
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, node_name(&world, node));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    // A node is both ends of peers' connections.
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    set_validity(&mut params, days);
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &issuer)?;
    let issued = Issued {
        authority: directory.join("ca.pem"),
        certificate: directory.join(format!("node-{node}.pem")),
        key: directory.join(format!("node-{node}.key")),
    };
    // The key first: a running node that reloads a certificate without its key would fail.
    key_to(&issued.key, &key)?;
    write_file(&issued.certificate, &certificate.pem(), 0o644)?;
    Ok(issued)
}

fn check_days(days: u32) -> Result<(), CaError> {
    match days {
        1..=NODE_DAYS_MAX => Ok(()),
        _ => Err(CaError::Invalid { what: "days", value: days.to_string(), remedy: "use 1 to 3650" }),
    }
}

fn key_to(path: &Path, key: &KeyPair) -> Result<(), CaError> {
    write_file(path, &key.serialize_pem(), 0o600)
}

/// What is in the directory: authorities first, then what they issued.
pub fn show(directory: &Path) -> Result<Vec<CertificateInfo>, CaError> {
    if !directory.join("ca.pem").exists() {
        return Err(CaError::Absent { path: directory.display().to_string() });
    }
    let mut found = inspect(&directory.join("ca.pem"))?;
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory)
        .map_err(|error| io(directory, &error))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
            ["node-", "server-", "user-"].iter().any(|kind| name.starts_with(kind)) && name.ends_with(".pem")
        })
        .collect();
    paths.sort();
    for path in paths {
        found.extend(inspect(&path)?);
    }
    Ok(found)
}

/// Makes a new authority that issues from now on; nodes that are handed the new `ca.pem` trust both,
/// so certificates can be renewed one node after the other. The next rotation forgets the older one.
pub fn rotate(directory: &Path) -> Result<(), CaError> {
    let (world, _) = open(directory)?;
    let trusted = read(&directory.join("ca.pem"))?;
    let (certificate, key) = make_authority(&world)?;
    let end = "-----END CERTIFICATE-----";
    let newest = trusted.find(end).map(|at| &trusted[..at + end.len()]).unwrap_or(&trusted);
    write_file(&directory.join("ca.pem"), &format!("{certificate}{newest}\n"), 0o644)?;
    write_file(&directory.join("ca.key"), &key, 0o600)
}

fn make_authority(world: &str) -> Result<(String, String), CaError> {
    let mut params = CertificateParams::new(Vec::new())?;
    // The number keeps the names of a rotated authority and its successor apart.
    let number = crate::chance::draw().map_err(|error| CaError::Crypto(error.to_string()))?;
    params.distinguished_name.push(DnType::CommonName, format!("hive {world} authority {number:016x}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_validity(&mut params, AUTHORITY_DAYS);
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

fn open(directory: &Path) -> Result<(String, Issuer<'static, KeyPair>), CaError> {
    if !directory.join("ca.key").exists() {
        return Err(CaError::Absent { path: directory.display().to_string() });
    }
    let world = read(&directory.join("world"))?.trim().to_string();
    let key = KeyPair::from_pem(&read(&directory.join("ca.key"))?)?;
    let issuer = Issuer::from_ca_cert_pem(&read(&directory.join("ca.pem"))?, key)?;
    Ok((world, issuer))
}

/// The certificates of a PEM file.
pub fn inspect(path: &Path) -> Result<Vec<CertificateInfo>, CaError> {
    use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};
    let text = read(path)?;
    let now = seconds_now();
    let mut found = Vec::new();
    for pem in x509_parser::pem::Pem::iter_from_buffer(text.as_bytes()) {
        let pem = pem.map_err(|error| CaError::Crypto(format!("{}: {error}", path.display())))?;
        let (_, certificate) = X509Certificate::from_der(&pem.contents)
            .map_err(|error| CaError::Crypto(format!("{}: {error}", path.display())))?;
        let alternative = certificate.subject_alternative_name().ok().flatten();
        let names = alternative.iter().flat_map(|names| &names.value.general_names).map(|name| match name {
            GeneralName::DNSName(name) | GeneralName::URI(name) => (*name).to_string(),
            GeneralName::IPAddress([a, b, c, d]) => format!("{a}.{b}.{c}.{d}"),
            other => other.to_string(),
        });
        found.push(CertificateInfo {
            file: path.display().to_string(),
            subject: certificate.subject().to_string(),
            names: names.collect(),
            not_before: certificate.validity().not_before.timestamp(),
            not_after: certificate.validity().not_after.timestamp(),
            serial: certificate.raw_serial_as_string(),
            authority: certificate.is_ca(),
            expired: certificate.validity().not_after.timestamp() < now,
        });
    }
    if found.is_empty() {
        return Err(CaError::Crypto(format!("{} holds no certificate", path.display())));
    }
    Ok(found)
}

/// Whether a certificate names this node, and no other of any world.
pub fn names_only(certificate: &[u8], expected: &str) -> Result<(), String> {
    use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|error| error.to_string())?;
    let names = parsed.subject_alternative_name().map_err(|error| error.to_string())?;
    let mut found = false;
    for name in names.iter().flat_map(|names| &names.value.general_names) {
        let GeneralName::DNSName(name) = name else { continue };
        if name.eq_ignore_ascii_case(expected) {
            found = true;
        } else if is_nodes(name) {
            let name: String = name.chars().take(NAME_SHOWN_CHARS_MAX).collect();
            return Err(format!("it names {name:?} as well, and a certificate names exactly one node"));
        }
    }
    if found {
        Ok(())
    } else {
        Err(format!("it does not name {expected}"))
    }
}

/// Until when a certificate is valid, seconds since 1970.
pub fn not_after(certificate: &[u8]) -> Result<i64, String> {
    use x509_parser::prelude::{FromDer, X509Certificate};
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|error| error.to_string())?;
    Ok(parsed.validity().not_after.timestamp())
}

/// Whether a name is below the domain that nodes' names are of; a wildcard there would name many.
fn is_nodes(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    name == NODES_DOMAIN || name.ends_with(&format!(".{NODES_DOMAIN}"))
}

fn seconds_now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

/// From yesterday (clocks differ) for `days` days, in whole UTC days.
fn set_validity(params: &mut CertificateParams, days: u32) {
    let today = seconds_now() / 86_400;
    params.not_before = midnight(today - 1);
    params.not_after = midnight(today + i64::from(days));
}

/// The begin of a day in UTC, in days since 1970; the calendar's last where it has no such day.
fn midnight(day: i64) -> OffsetDateTime {
    let begin = OffsetDateTime::from_unix_timestamp(day.saturating_mul(86_400));
    begin.unwrap_or(OffsetDateTime::new_utc(time::Date::MAX, time::Time::MIDNIGHT))
}

fn io(path: &Path, error: &std::io::Error) -> CaError {
    CaError::Io { path: path.display().to_string(), reason: error.to_string() }
}

fn read(path: &Path) -> Result<String, CaError> {
    use crate::config::ConfigError;
    let io = |reason: String| CaError::Io { path: path.display().to_string(), reason };
    crate::config::read_bounded(path).map_err(|error| match error {
        ConfigError::Unreadable { reason, .. } => io(format!("cannot be read ({reason}); name a file that is there")),
        ConfigError::Huge { bytes, .. } => io(format!("has {bytes} bytes, which no certificate or key has")),
        other => io(other.to_string()),
    })
}

/// Appears whole and synced, with this mode.
fn write_file(path: &Path, text: &str, mode: u32) -> Result<(), CaError> {
    let new = path.with_extension("new");
    let _ = std::fs::remove_file(&new);
    let written = std::fs::File::options().write(true).create_new(true).mode(mode).open(&new).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&new, path)
    });
    written.map_err(|error| io(path, &error))
}

#[cfg(test)]
mod tests;
