//! Mutual TLS between peers: what a node shows, whom it trusts, how it checks who is there.
//!
//! Always: TLS 1.3, both sides show a certificate of the world's authority that is valid now, for both
//! uses, and names `node-<id>.<world>.hive` and no other node; nothing is resumed, so every connection checks again; none
//! outlives the certificates it was made with; a certificate that a list in use revokes makes no connection in either direction, and
//! the connections that it made end when the list is taken up (`peers::tests::revoked_node_is_let_in_by_nobody`).
//! Changed files are taken up for new connections; files that do not fit together are left aside.
//! Held by: `certificate_of_several_nodes_is_refused`, `changed_files_are_taken_up_and_bad_ones_left_aside_while_connections_continue`.
//! Not here: sockets and the peers' own handshake (`peers`), the client doors (`doors`).

pub mod doors;
mod revoked;
mod watched;

pub use doors::{Doors, Shown};
pub use revoked::{CertificateId, Revoked};
pub use watched::Watched;

use crate::ca::node_name;
use crate::config::{CertificatesSection, Config};
use base_types::NodeId;
use rustls::client::danger::ServerCertVerifier;
use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Certificates in one file at most; a longer chain is a mistake.
const CERTIFICATES_MAX: usize = 32;

/// Why a connection ends with its certificates.
const EXPIRED: &str = "its certificate, or the one this node had when it was made, has expired";
const REVOKED: &str = "its certificate was revoked";

/// How often the clock is looked at for a certificate's end.
const CLOCK_LOOK: Duration = Duration::from_secs(30);

/// Before its end a certificate of client doors is reported, or in the last third of its time where that is shorter.
const EXPIRY_WARNING_SECONDS: i64 = 30 * 24 * 3_600;

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
    revoked: Revoked,
    /// From when until when this node's certificate is valid, seconds since 1970; of a chain, the narrowest.
    pub valid: (i64, i64),
}

impl Identity {
    /// Reads the files and checks that they fit together and name this node.
    pub fn load(files: &CertificatesSection, world: &str, node: NodeId) -> Result<Identity, TlsError> {
        install_provider();
        let authorities = certificates(&files.authority)?;
        let list = files.revocations.as_deref();
        let revoked = list.map(|file| Revoked::load(file, &authorities, "certificates.authority"));
        let revoked = revoked.transpose()?.unwrap_or_default();
        let mut roots = RootCertStore::empty();
        for authority in authorities {
            roots.add(authority).map_err(|error| unusable(&files.authority, &error))?;
        }
        let roots = Arc::new(roots);
        let chain = certificates(&files.certificate)?;
        // An authority without a list has revoked none.
        let verifier = WebPkiServerVerifier::builder(roots.clone())
            .with_crls(revoked.lists.iter().cloned())
            .allow_unknown_revocation_status()
            .build()
            .map_err(|error| unusable(list.unwrap_or(&files.authority), &error))?;
        let client_verifier = WebPkiClientVerifier::builder(roots)
            .with_crls(revoked.lists.iter().cloned())
            .allow_unknown_revocation_status()
            .build()
            .map_err(|error| unusable(list.unwrap_or(&files.authority), &error))?;
        let versions = &[&rustls::version::TLS13];
        let mut server = ServerConfig::builder_with_protocol_versions(versions)
            .with_client_cert_verifier(client_verifier)
            .with_single_cert(chain.clone(), read_key(&files.key)?)
            .map_err(|error| unusable(&files.certificate, &error))?;
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        let mut client = ClientConfig::builder_with_protocol_versions(versions)
            .with_webpki_verifier(verifier.clone())
            .with_client_auth_cert(chain.clone(), read_key(&files.key)?)
            .map_err(|error| unusable(&files.certificate, &error))?;
        client.resumption = rustls::client::Resumption::disabled();
        let valid = validity(&files.certificate)?;
        let (server, client) = (Arc::new(server), Arc::new(client));
        let identity = Identity { server, client, verifier, world: world.into(), revoked, valid };
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
    /// issued for clients only is no peer's), revoked by no list, and names this node of our world and no other. Answers how long
    /// a connection with it may last: no longer than its certificates, and ours.
    pub fn check(&self, chain: &[CertificateDer<'_>], node: NodeId) -> Result<Lasting, String> {
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
        let ids = chain.iter().map(|certificate| CertificateId::of(certificate)).collect::<Result<_, _>>()?;
        Ok(Lasting { until, ids })
    }
}

/// How long a connection between nodes may last.
#[derive(Clone, Debug)]
pub struct Lasting {
    /// Seconds since 1970.
    until: i64,
    /// No longer than until one of these is revoked: the other's chain.
    ids: Vec<CertificateId>,
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

/// Between nodes.
pub type Identities = Watched<Identity>;

impl Watched<Identity> {
    /// Reads the files; an error refuses the start.
    pub fn load(files: &CertificatesSection, world: &str, node: NodeId) -> Result<Identities, TlsError> {
        let mut watched = vec![files.certificate.clone(), files.key.clone(), files.authority.clone()];
        watched.extend(files.revocations.clone());
        let (files, world) = (files.clone(), world.to_owned());
        Watched::begin(watched, move |_| Identity::load(&files, &world, node))
    }

    /// Ends when a connection may last no longer; why.
    pub async fn over(&self, lasting: Lasting) -> &'static str {
        let mut loads = self.loads();
        let revoked = async {
            loop {
                let revoked = &self.current().revoked;
                if lasting.ids.iter().any(|id| revoked.has(id)) {
                    return;
                }
                if loads.changed().await.is_err() {
                    return std::future::pending().await;
                }
            }
        };
        tokio::select! {
            () = revoked => REVOKED,
            () = expired(lasting.until) => EXPIRED,
        }
    }
}

/// All certificates of a node.
#[derive(Clone)]
pub struct Certificates {
    pub peers: Arc<Identities>,
    /// Of the client doors, where they speak TLS.
    pub clients: Option<Arc<Doors>>,
}

/// A certificate at a glance, for `/ready` and `/metrics`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateState {
    /// `peer` or `client`.
    pub door: &'static str,
    /// Seconds since 1970.
    pub begins: i64,
    pub expires: i64,
    /// Why files that have changed are not in use.
    pub problem: Option<String>,
}

impl Certificates {
    /// Reads the files of a configuration; an error refuses the start.
    pub fn load(config: &Config) -> Result<Certificates, TlsError> {
        let peers = Arc::new(Identities::load(&config.certificates, &config.world, config.node)?);
        let doors = config.tls.as_ref().map(|files| Doors::load(files, &config.world)).transpose()?;
        Ok(Certificates { peers, clients: doors.map(Arc::new) })
    }

    /// Takes up files that have changed.
    pub fn reload_if_changed(&self) {
        self.peers.reload_if_changed();
        self.clients.iter().for_each(|doors| doors.reload_if_changed());
    }

    /// Takes all files up, as the operator asks.
    pub fn reload(&self) {
        self.peers.reload();
        self.clients.iter().for_each(|doors| doors.reload());
    }

    /// Each door's.
    pub fn states(&self) -> Vec<CertificateState> {
        let state = |door, (begins, expires): (i64, i64), problem| CertificateState { door, begins, expires, problem };
        let peers = state("peer", self.peers.current().valid, self.peers.problem());
        let clients = self.clients.iter().map(|doors| state("client", doors.current().valid, doors.problem()));
        [peers].into_iter().chain(clients).collect()
    }

    /// What `/ready` calls degraded, beside the peers' own expiry, which the core reports.
    pub fn reasons(&self, now: i64) -> Vec<String> {
        self.states().iter().flat_map(|state| state.reasons(now)).collect()
    }
}

impl CertificateState {
    fn reasons(&self, now: i64) -> Vec<String> {
        let door = self.door;
        let changed = self.problem.as_ref().map(|problem| {
            format!("changed certificate files of the {door} ports are not in use, the ones before are: {problem}; put files that fit in place, or send SIGHUP once they do")
        });
        let remedy = "issue one with `hive ca issue --server`, or get one of your authority, and put it in place of the files that [tls] names";
        let left = self.expires - now;
        let warning = EXPIRY_WARNING_SECONDS.min((self.expires - self.begins) / 3);
        let expiry = match self.door {
            "peer" => None,
            _ if left < 0 => Some(format!(
                "the certificate of the {door} ports expired {} h ago, and clients refuse it; {remedy}",
                -left / 3_600
            )),
            _ if now < self.begins => Some(format!(
                "the certificate of the {door} ports is not valid yet; {remedy}, or correct this machine's clock"
            )),
            _ if left <= warning => {
                Some(format!("the certificate of the {door} ports expires in {} h; {remedy}", left / 3_600))
            }
            _ => None,
        };
        changed.into_iter().chain(expiry).collect()
    }
}

pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
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

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| unusable(path, &error))
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

/// The cryptography of this process; installed once, by the first caller.
pub(crate) fn install_provider() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

#[cfg(test)]
mod tests;
