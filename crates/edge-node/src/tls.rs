//! Mutual TLS between peers: what a node shows, whom it trusts, how it checks who is there.
//!
//! Always: TLS 1.3, both sides show a certificate of the world's authority that is valid now, for both
//! uses, and names `node-<id>.<world>.hive` and no other node; nothing is resumed, so every connection checks again; none
//! outlives the certificates it was made with.
//! Changed files are taken up for new connections; files that do not fit together are left aside.
//! Not here: sockets and the peers' own handshake (`peers`).

use crate::ca::node_name;
use crate::config::CertificatesSection;
use arc_swap::ArcSwap;
use base_types::NodeId;
use rustls::client::danger::ServerCertVerifier;
use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Certificates in one file at most; a longer chain is a mistake.
const CERTIFICATES_MAX: usize = 32;

/// How often the clock is looked at for a certificate's end.
const CLOCK_LOOK: Duration = Duration::from_secs(30);

/// Why certificates are refused.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{path}: {reason}; issue certificates with `hive ca issue`")]
    Unusable { path: String, reason: String },
    #[error(
        "certificate {path} does not name {expected} alone: {reason}; issue one for this node with `hive ca issue`"
    )]
    NotOurs { path: String, expected: String, reason: String },
}

/// Everything a connection needs.
pub struct Identity {
    pub server: Arc<ServerConfig>,
    pub client: Arc<ClientConfig>,
    verifier: Arc<WebPkiServerVerifier>,
    world: String,
    /// From when until when this node's certificate is valid, seconds since 1970; of a chain, the narrowest.
    pub valid: (i64, i64),
}

impl Identity {
    /// Reads the three files and checks that they fit together and name this node.
    pub fn load(files: &CertificatesSection, world: &str, node: NodeId) -> Result<Identity, TlsError> {
        install_provider();
        let mut roots = RootCertStore::empty();
        for authority in certificates(&files.authority)? {
            roots.add(authority).map_err(|error| unusable(&files.authority, &error))?;
        }
        let roots = Arc::new(roots);
        let chain = certificates(&files.certificate)?;
        let key = || PrivateKeyDer::from_pem_file(&files.key).map_err(|error| unusable(&files.key, &error));
        let verifier =
            WebPkiServerVerifier::builder(roots.clone()).build().map_err(|error| unusable(&files.authority, &error))?;
        let client_verifier =
            WebPkiClientVerifier::builder(roots.clone()).build().map_err(|error| unusable(&files.authority, &error))?;
        let versions = &[&rustls::version::TLS13];
        let mut server = ServerConfig::builder_with_protocol_versions(versions)
            .with_client_cert_verifier(client_verifier)
            .with_single_cert(chain.clone(), key()?)
            .map_err(|error| unusable(&files.certificate, &error))?;
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        let mut client = ClientConfig::builder_with_protocol_versions(versions)
            .with_root_certificates(roots)
            .with_client_auth_cert(chain.clone(), key()?)
            .map_err(|error| unusable(&files.certificate, &error))?;
        client.resumption = rustls::client::Resumption::disabled();
        let valid = validity(&files.certificate)?;
        let identity =
            Identity { server: Arc::new(server), client: Arc::new(client), verifier, world: world.into(), valid };
        identity.check(&chain, node).map_err(|reason| TlsError::NotOurs {
            path: files.certificate.display().to_string(),
            expected: node_name(world, node),
            reason,
        })?;
        Ok(identity)
    }

    /// The name a peer's certificate must carry.
    pub fn name_of(&self, node: NodeId) -> Result<ServerName<'static>, String> {
        ServerName::try_from(node_name(&self.world, node)).map_err(|error| error.to_string())
    }

    /// Whether a chain is of our authority, valid now, fit for serving as well (a certificate that was
    /// issued for clients only is no peer's), and names this node of our world and no other. Answers until when a
    /// connection with it may last, seconds since 1970: no longer than its certificates, and ours.
    pub fn check(&self, chain: &[CertificateDer<'_>], node: NodeId) -> Result<i64, String> {
        let Some((own, intermediates)) = chain.split_first() else { return Err("no certificate was shown".into()) };
        let name = self.name_of(node)?;
        self.verifier
            .verify_server_cert(own, intermediates, &name, &[], UnixTime::now())
            .map_err(|error| error.to_string())?;
        crate::ca::names_only(own, &node_name(&self.world, node))?;
        let mut until = self.valid.1;
        for certificate in chain {
            until = until.min(crate::ca::not_after(certificate)?);
        }
        Ok(until)
    }
}

/// Ends once this moment, seconds since 1970, has passed. The clock may be set meanwhile, so it is looked at now and then.
pub async fn expired(until: i64) {
    loop {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let end = Duration::from_secs(u64::try_from(until).unwrap_or(0).saturating_add(1));
        let left = end.saturating_sub(now);
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(CLOCK_LOOK)).await;
    }
}

/// The identity in use, exchanged when its files change.
pub struct Identities {
    current: ArcSwap<Identity>,
    files: CertificatesSection,
    world: String,
    node: NodeId,
    seen: std::sync::Mutex<Vec<Option<SystemTime>>>,
}

impl Identities {
    /// Loads them; an error refuses the start.
    pub fn load(files: &CertificatesSection, world: &str, node: NodeId) -> Result<Identities, TlsError> {
        let seen = std::sync::Mutex::new(stamps(files));
        let current = ArcSwap::from_pointee(Identity::load(files, world, node)?);
        Ok(Identities { current, files: files.clone(), world: world.into(), node, seen })
    }

    /// For the next connection.
    pub fn current(&self) -> Arc<Identity> {
        self.current.load_full()
    }

    /// Looks whether the files have changed and takes them up. Called now and then by one thread.
    pub fn reload_if_changed(&self) {
        let stamps = stamps(&self.files);
        let Ok(mut seen) = self.seen.lock() else { return };
        if *seen == stamps {
            return;
        }
        // Remembered whether they fit or not: a file half renewed is told once, not every few seconds.
        *seen = stamps;
        match Identity::load(&self.files, &self.world, self.node) {
            Ok(identity) => {
                self.current.store(Arc::new(identity));
                tracing::info!(certificate = %self.files.certificate.display(), "certificates have changed and are in use for new connections");
            }
            Err(error) => tracing::warn!(%error, "changed certificates are left aside; the ones before stay in use"),
        }
    }
}

fn stamps(files: &CertificatesSection) -> Vec<Option<SystemTime>> {
    let stamp = |path: &PathBuf| std::fs::metadata(path).and_then(|data| data.modified()).ok();
    vec![stamp(&files.authority), stamp(&files.certificate), stamp(&files.key)]
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = crate::config::read_bounded(path)
        .map_err(|error| TlsError::Unusable { path: path.display().to_string(), reason: error.to_string() })?;
    let mut found = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(text.as_bytes()).take(CERTIFICATES_MAX) {
        found.push(certificate.map_err(|error| unusable(path, &error))?);
    }
    if found.is_empty() {
        return Err(TlsError::Unusable { path: path.display().to_string(), reason: "no certificate in it".into() });
    }
    Ok(found)
}

fn validity(path: &Path) -> Result<(i64, i64), TlsError> {
    let found = crate::ca::inspect(path).map_err(|error| unusable(path, &error))?;
    let begins = found.iter().map(|certificate| certificate.not_before).max();
    let ends = found.iter().map(|certificate| certificate.not_after).min();
    Ok((begins.unwrap_or(0), ends.unwrap_or(0)))
}

fn unusable(path: &Path, error: &dyn std::fmt::Display) -> TlsError {
    TlsError::Unusable { path: path.display().to_string(), reason: error.to_string() }
}

/// The cryptography of this process; installed once, whoever comes first.
fn install_provider() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}
