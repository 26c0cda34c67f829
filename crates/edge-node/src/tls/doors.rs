//! TLS of the client doors: what they show, and which users' certificates they believe.
//!
//! Always: TLS 1.2 or later, HTTP/1.1 and for gRPC HTTP/2; a certificate that a client shows is verified against the clients' authority or ends the
//! handshake, and so does one that a list in use revokes; a connection that was made with a certificate ends once a list that is taken
//! up revokes it (`tests::a_revoked_certificate_ends_its_connections`). Nothing is resumed, so every connection is verified with the
//! files of its moment.
//! Not here: sockets (`clients::entrance`), what a user may do, between nodes (`tls`).

use super::revoked::Revoked;
use super::{certificates, install_provider, read_key, unusable, validity, CertificateId, TlsError, Watched};
use crate::ca::CertificateName;
use crate::config::TlsSection;
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// What doors of HTTP/1.1 offer.
const ALPN: &[u8] = b"http/1.1";
/// What doors offer that speak gRPC, too.
const ALPN_HTTP2: &[u8] = b"h2";

/// What new connections of client doors are served with.
pub struct DoorIdentity {
    pub server: Arc<ServerConfig>,
    /// The same of doors that speak HTTP/2, too.
    pub server_http2: Arc<ServerConfig>,
    /// From when until when the certificate shown is valid, seconds since 1970; of a chain, the narrowest.
    pub valid: (i64, i64),
    own: CertificateDer<'static>,
    world: String,
    revoked: Revoked,
}

/// Of all client doors of a node.
pub type Doors = Watched<DoorIdentity>;

/// What a client has shown of itself by TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Shown {
    /// No certificate.
    #[default]
    Nothing,
    /// A user's, valid until then (seconds since 1970).
    User { name: CertificateName, until: i64, id: CertificateId },
    /// One of the clients' authority that is no user's, and why.
    NoUser(String),
}

impl Shown {
    /// The user.
    pub fn name(&self) -> Option<&CertificateName> {
        match self {
            Shown::User { name, .. } => Some(name),
            _ => None,
        }
    }

    /// Why a request of this client is refused, where users' certificates are required or not.
    pub fn refusal(&self, required: bool) -> Option<String> {
        match self {
            Shown::NoUser(reason) => Some(format!(
                "the client certificate is of the clients' authority and names no user: {reason}; issue one with `hive ca issue --user`"
            )),
            Shown::Nothing if required => Some(
                "this port answers clients that show a user's certificate: send one (hive: --cert and --key; `hive ca issue --user` makes it)".into(),
            ),
            _ => None,
        }
    }
}

impl DoorIdentity {
    /// Reads the files and checks that they fit together. At a start an expired certificate is used, for the node has other work
    /// than its clients' and they see for themselves; while another is in use, it is refused.
    pub fn load(files: &TlsSection, world: &str, in_use: Option<&DoorIdentity>) -> Result<DoorIdentity, TlsError> {
        install_provider();
        let builder = ServerConfig::builder();
        let (builder, revoked) = match &files.client_authority {
            None => (builder.with_no_client_auth(), Revoked::default()),
            Some(path) => {
                let (verifier, revoked) = verifier_of_clients(path, files.client_revocations.as_deref())?;
                (builder.with_client_cert_verifier(verifier), revoked)
            }
        };
        let chain = certificates(&files.certificate)?;
        let own = chain[0].clone(); // There is one, or the file was refused.
        let mut server = builder
            .with_single_cert(chain, read_key(&files.key)?)
            .map_err(|error| unusable(&files.certificate, &error))?;
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        server.alpn_protocols = vec![ALPN.to_vec()];
        let mut http2 = server.clone();
        http2.alpn_protocols.insert(0, ALPN_HTTP2.to_vec());
        let valid = validity(&files.certificate)?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
        if in_use.is_some() && !(valid.0..=valid.1).contains(&now) {
            let reason = "it has expired or is not valid yet";
            return Err(TlsError::Unusable { path: files.certificate.display().to_string(), reason: reason.into() });
        }
        Ok(DoorIdentity {
            server: Arc::new(server),
            server_http2: Arc::new(http2),
            valid,
            own,
            world: world.into(),
            revoked,
        })
    }

    /// Whether clients that ask this host find it in the certificate.
    pub fn names(&self, host: &str) -> bool {
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let (Ok(parsed), Ok(name)) = (ParsedCertificate::try_from(&self.own), ServerName::try_from(host)) else {
            return false;
        };
        verify_server_name(&parsed, &name).is_ok()
    }

    /// What a client has shown in a handshake that is over.
    pub fn shown(&self, session: &ServerConnection) -> Shown {
        let Some((own, rest)) = session.peer_certificates().and_then(<[_]>::split_first) else { return Shown::Nothing };
        let named = CertificateName::of_certificate(own, &self.world).and_then(|name| {
            let mut until = crate::ca::not_after(own)?;
            for certificate in rest {
                until = until.min(crate::ca::not_after(certificate)?);
            }
            Ok(Shown::User { name, until, id: CertificateId::of(own)? })
        });
        named.unwrap_or_else(Shown::NoUser)
    }
}

/// Whose certificates are users', but for those that a list revokes. An authority without a list has revoked none.
fn verifier_of_clients(
    path: &Path,
    revocations: Option<&Path>,
) -> Result<(Arc<dyn ClientCertVerifier>, Revoked), TlsError> {
    let authorities = certificates(path)?;
    let revoked = revocations
        .map(|file| Revoked::load(file, &authorities, "tls.client_authority"))
        .transpose()?
        .unwrap_or_default();
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority).map_err(|error| unusable(path, &error))?;
    }
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots))
        .allow_unauthenticated()
        .with_crls(revoked.lists.iter().cloned())
        .allow_unknown_revocation_status()
        .build();
    Ok((verifier.map_err(|error| unusable(revocations.unwrap_or(path), &error))?, revoked))
}

impl Watched<DoorIdentity> {
    /// Ends once a list that is in use has this certificate.
    pub async fn revokes(&self, id: &CertificateId) {
        let mut loads = self.loads();
        loop {
            if self.current().revoked.has(id) {
                return;
            }
            if loads.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Reads the files; an error refuses the start.
    pub fn load(files: &TlsSection, world: &str) -> Result<Doors, TlsError> {
        let mut watched = vec![files.certificate.clone(), files.key.clone()];
        watched.extend(files.client_authority.clone());
        watched.extend(files.client_revocations.clone());
        let (files, world) = (files.clone(), world.to_owned());
        Watched::begin(watched, move |in_use| DoorIdentity::load(&files, &world, in_use))
    }
}
