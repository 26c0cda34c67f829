//! TLS to nodes: whom a client trusts, what it shows of itself, and what a failure means for people.
//!
//! Always: a node's certificate is of the authorities given, valid now, and names the host of the endpoint; no other
//! authority is trusted. Held by: `names_authorities_and_times_are_checked`. Not here: connections (transport.rs).

use crate::ClientError;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{AlertDescription, CertificateError, ClientConfig, RootCertStore};
use std::error::Error;
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_rustls::TlsConnector;

/// What connections by TLS are made with. Cheap to clone.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ClientConfig>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// Of files in PEM: the authorities that are trusted, and a certificate and key of one's own where the node wants one.
    pub fn from_files(authority: &Path, own: Option<(&Path, &Path)>) -> Result<Tls, ClientError> {
        // Of several callers one installs it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut roots = RootCertStore::empty();
        for certificate in certificates(authority)? {
            roots.add(certificate).map_err(|error| unusable(authority, &error))?;
        }
        let builder = ClientConfig::builder().with_root_certificates(roots);
        let mut config = match own {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(key, &error))?;
                builder
                    .with_client_auth_cert(certificates(certificate)?, secret)
                    .map_err(|error| unusable(certificate, &error))?
            }
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Tls { config: Arc::new(config) })
    }

    /// Speaks TLS on a connection to `host`. `Err` says what to do.
    pub async fn connect(&self, host: &str, stream: TcpStream) -> Result<TlsStream<TcpStream>, TlsFailure> {
        let name = ServerName::try_from(host.trim_start_matches('[').trim_end_matches(']').to_owned());
        let name =
            name.map_err(|error| TlsFailure { lasting: true, reason: format!("'{host}' is no host: {error}") })?;
        let connecting = TlsConnector::from(self.config.clone()).connect(name, stream).await;
        connecting.map_err(|error| explain(&error, host))
    }
}

/// Why there is no TLS connection.
#[derive(Clone, Debug)]
pub struct TlsFailure {
    /// Trying again changes nothing.
    pub lasting: bool,
    /// For people, with what to do.
    pub reason: String,
}

/// What a failure means, where it is of TLS.
pub(crate) fn explain(error: &(dyn Error + 'static), host: &str) -> TlsFailure {
    let lasting = |reason: String| TlsFailure { lasting: true, reason };
    match tls_error(error) {
        Some(rustls::Error::InvalidCertificate(problem)) => lasting(explain_certificate(problem, host)),
        Some(rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType)) => {
            lasting("it does not speak TLS; write http:// instead of https://, if nobody else can listen on the way".into())
        }
        Some(rustls::Error::AlertReceived(alert)) if is_about_certificates(*alert) => lasting(format!(
            "the node refuses the client certificate ({alert:?}); show one that its clients' authority issued and that has not expired (`hive ca issue --user`)"
        )),
        Some(other) => TlsFailure { lasting: false, reason: format!("TLS: {other}") },
        None => TlsFailure { lasting: false, reason: error.to_string() },
    }
}

fn explain_certificate(problem: &CertificateError, host: &str) -> String {
    match problem {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => format!(
            "the node's certificate does not name {host}; ask it under a name that it has, or issue one with `hive ca issue --server … --address {host}`"
        ),
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "the node's certificate is not of the authority given; name the file of the right one (--ca or HIVE_CA)".into()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the node's certificate has expired; issue one with `hive ca issue --server` and replace the files of the node's [tls]".into()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the node's certificate is not valid yet; compare the clocks of both machines".into()
        }
        other => format!("the node's certificate is refused: {other}"),
    }
}

/// Alerts of a handshake only: the node has seen nothing of a request.
fn is_about_certificates(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
            | AlertDescription::DecryptError
            | AlertDescription::CertificateRequired
    )
}

/// The TLS error in a chain of errors; an I/O error wraps it without being its source.
fn tls_error<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e rustls::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<rustls::Error>() {
            return Some(found);
        }
        let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        next = match inner {
            Some(inner) => Some(inner as &(dyn Error + 'static)),
            None => error.source(),
        };
    }
    None
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ClientError> {
    let read = CertificateDer::pem_file_iter(path).map_err(|error| unusable(path, &error))?;
    let found: Vec<_> = read.collect::<Result<_, _>>().map_err(|error| unusable(path, &error))?;
    if found.is_empty() {
        return Err(unusable(path, &"no certificate in it"));
    }
    Ok(found)
}

fn unusable(path: &Path, reason: &dyn Display) -> ClientError {
    ClientError::Certificates { path: path.display().to_string(), reason: reason.to_string() }
}

#[cfg(test)]
mod tests;
