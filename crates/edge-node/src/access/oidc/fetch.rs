//! An issuer's two documents: discovery, and the keys that it names.
//!
//! By design: HTTPS, by the section's authority or the system's; plain HTTP from this machine alone. No redirect is followed, no document
//! has more than [`DOCUMENT_BYTES_MAX`] bytes, and both together take at most [`FETCH_TIME_MAX`]. The discovery document must name
//! the issuer that it was asked for (OpenID Connect Discovery, 4.3).
//! Not here: when (oidc.rs), what a key is (keys.rs).

use super::keys::KeySet;
use crate::config::{OidcSection, Place};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::header::{ACCEPT, HOST, USER_AGENT};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use serde::Deserialize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The longest document.
pub const DOCUMENT_BYTES_MAX: usize = 256 << 10;
/// Both documents.
const FETCH_TIME_MAX: Duration = Duration::from_secs(10);
/// The longest head of an answer.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// What is below the issuer (OpenID Connect Discovery, 4).
const DISCOVERY: &str = "/.well-known/openid-configuration";

#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}

/// What an issuer gave.
pub struct Fetched {
    pub keys: KeySet,
    /// As it wrote them.
    pub document: String,
}

/// The keys of an issuer, asked now.
pub async fn keys(section: &OidcSection) -> Result<Fetched, String> {
    let fetched = tokio::time::timeout(FETCH_TIME_MAX, keys_of(section)).await;
    fetched.unwrap_or_else(|_| Err(format!("no answer within {} s", FETCH_TIME_MAX.as_secs())))
}

async fn keys_of(section: &OidcSection) -> Result<Fetched, String> {
    let tls = Arc::new(client(section.ca.as_deref())?);
    let url = format!("{}{DISCOVERY}", section.issuer.trim_end_matches('/'));
    let document = get(&url, &tls).await.map_err(|error| format!("{url}: {error}"))?;
    let discovery: Discovery =
        serde_json::from_slice(&document).map_err(|error| format!("{url} is no discovery document: {error}"))?;
    if discovery.issuer != section.issuer {
        return Err(format!("{url} is of the issuer {}, and access.oidc names {}", discovery.issuer, section.issuer));
    }
    Place::of(&discovery.jwks_uri).map_err(|error| format!("jwks_uri {}: {error}", discovery.jwks_uri))?;
    let document = get(&discovery.jwks_uri, &tls).await.map_err(|error| format!("{}: {error}", discovery.jwks_uri))?;
    let keys = KeySet::parse(&document)?;
    // JSON that was read is UTF-8.
    Ok(Fetched { keys, document: String::from_utf8_lossy(&document).into_owned() })
}

/// Whom to believe.
fn client(ca: Option<&Path>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(ca) => {
            for authority in crate::tls::certificates(ca).map_err(|error| error.to_string())? {
                roots.add(authority).map_err(|error| format!("{}: {error}", ca.display()))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    crate::tls::install_provider();
    Ok(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth())
}

async fn get(url: &str, tls: &Arc<ClientConfig>) -> Result<Bytes, String> {
    let Place { host, port, tls: speaks_tls, uri } = Place::of(url)?;
    let stream = TcpStream::connect((host.as_str(), port)).await.map_err(|error| error.to_string())?;
    if !speaks_tls {
        return ask(stream, &uri).await;
    }
    let name = ServerName::try_from(host).map_err(|error| error.to_string())?;
    let stream = TlsConnector::from(tls.clone()).connect(name, stream).await.map_err(|error| error.to_string())?;
    ask(stream, &uri).await
}

async fn ask(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, uri: &Uri) -> Result<Bytes, String> {
    let handshake =
        hyper::client::conn::http1::Builder::new().max_buf_size(HEAD_BYTES_MAX).handshake(TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.map_err(|error| error.to_string())?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::get(path)
        .header(HOST, uri.authority().map_or("", |authority| authority.as_str()))
        .header(ACCEPT, "application/json")
        .header(USER_AGENT, "hive")
        .body(Empty::<Bytes>::new())
        .map_err(|error| error.to_string())?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
        if response.status() != hyper::StatusCode::OK {
            return Err(format!("the answer is {}, not 200", response.status().as_u16()));
        }
        let body = Limited::new(response.into_body(), DOCUMENT_BYTES_MAX).collect().await;
        body.map(|body| body.to_bytes()).map_err(|error| error.to_string())
    };
    // The connection ends with the answer, or when the time is over.
    tokio::pin!(connection);
    tokio::pin!(answer);
    let mut open = true;
    loop {
        tokio::select! {
            biased;
            answered = &mut answer => return answered,
            _ = &mut connection, if open => open = false,
        }
    }
}
