//! `[tls]`: what client doors show, and whom of their clients they believe.
//!
//! Always: one section for all client doors; without it they speak plain text. Paths are checked, contents are not: the node
//! reads the files when it starts (`tls::doors`).
//! Not here: certificates between nodes (`[certificates]`).

use super::check::{check_key_mode, Checker};
use super::{ConfigError, NodeFile};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Files in PEM, relative to node.toml.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsSection {
    /// The chain shown to clients, the node's own certificate first.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Whose certificates are users'; clients are asked for none where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_authority: Option<PathBuf>,
    /// Lists of users' certificates that count no more (CRLs of the authorities above).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_revocations: Option<PathBuf>,
    /// Of the JSON door; `optional` where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_certificates: Option<ClientCertificates>,
    /// Of the S3 door, whose requests are signed besides; `optional` where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3_client_certificates: Option<ClientCertificates>,
}

/// What is asked of clients, where there is an authority of theirs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientCertificates {
    /// A client may show one.
    #[default]
    Optional,
    /// A client that shows none is answered `/health` and `/ready` only.
    Required,
}

impl TlsSection {
    /// Whether a client of the JSON door must show a certificate.
    pub fn requires_certificates(&self) -> bool {
        self.client_authority.is_some() && self.client_certificates == Some(ClientCertificates::Required)
    }

    /// Whether a client of the S3 door must.
    pub fn requires_s3_certificates(&self) -> bool {
        self.client_authority.is_some() && self.s3_client_certificates == Some(ClientCertificates::Required)
    }
}

/// The section with its paths resolved, where there is one.
pub(super) fn check(checker: &Checker<'_>, file: &NodeFile) -> Result<Option<TlsSection>, ConfigError> {
    let Some(mut section) = file.tls.clone() else { return Ok(None) };
    let asked = [
        ("client_certificates", section.client_certificates),
        ("s3_client_certificates", section.s3_client_certificates),
    ];
    if let Some((key, _)) = asked.iter().find(|(_, asked)| asked.is_some() && section.client_authority.is_none()) {
        let line = checker.line(&format!("{key} ="), 0);
        return checker.refuse(
            format!("{line}tls.{key} is set, and tls.client_authority is absent"),
            "set client_authority to the ca.pem whose users are believed (`hive ca init --clients` makes one), or remove the setting",
        );
    }
    if section.client_revocations.is_some() && section.client_authority.is_none() {
        let line = checker.line("client_revocations =", 0);
        return checker.refuse(
            format!("{line}tls.client_revocations is set, and tls.client_authority is absent"),
            "set client_authority to the ca.pem whose certificates the list revokes, or remove the setting",
        );
    }
    if section.key == file.certificates.key {
        return checker.refuse(
            format!("tls.key and certificates.key are the same file {}", section.key.display()),
            "issue a certificate for client doors with `hive ca issue --server`: clients and peers have an authority each",
        );
    }
    section.certificate = checker.resolve(&section.certificate);
    section.key = checker.resolve(&section.key);
    section.client_authority = section.client_authority.map(|path| checker.resolve(&path));
    section.client_revocations = section.client_revocations.map(|path| checker.resolve(&path));
    check_key_mode(checker, "tls.key", &section.key)?;
    Ok(Some(section))
}

/// Whether a door knows who asks: the S3 door by signatures, the JSON door by credentials (`access.required`), or by certificates
/// where it requires them.
pub(super) fn authenticates(file: &NodeFile, door: &str) -> bool {
    door == "s3" || file.access.required || file.tls.as_ref().is_some_and(TlsSection::requires_certificates)
}

/// What a door to clients lacks that is open beyond this machine; nothing where it has both TLS and authentication.
pub(super) fn lacks(file: &NodeFile, door: &str) -> Option<&'static str> {
    match (file.tls.is_some(), authenticates(file, door)) {
        (true, true) => None,
        (true, false) => Some("no authentication"),
        (false, true) => Some("no TLS"),
        (false, false) => Some("neither TLS nor authentication"),
    }
}
