//! The client against tiny servers that speak TLS, or do not.

use super::Tls;
use crate::{Client, ClientError, Options};
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// An authority in a directory, with what it issues.
struct Authority {
    home: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Authority {
        let home = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        std::fs::write(home.path().join("ca.pem"), &pem).unwrap();
        Authority { home, issuer: Issuer::from_ca_cert_pem(&pem, key).unwrap() }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn issue(&self, name: &str, purpose: ExtendedKeyUsagePurpose, year: i32) {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.extended_key_usages = vec![purpose];
        (params.not_before, params.not_after) = (rcgen::date_time_ymd(2020, 1, 1), rcgen::date_time_ymd(year, 1, 1));
        let key = KeyPair::generate().unwrap();
        std::fs::write(self.file(&format!("{name}.pem")), params.signed_by(&key, &self.issuer).unwrap().pem()).unwrap();
        std::fs::write(self.file(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }

    fn tls(&self, own: Option<&str>) -> Tls {
        let own = own.map(|name| (self.file(&format!("{name}.pem")), self.file(&format!("{name}.key"))));
        let own = own.as_ref().map(|(certificate, key)| (certificate.as_path(), key.as_path()));
        Tls::from_files(&self.file("ca.pem"), own).unwrap()
    }

    /// Serves one answer for ever; the port.
    async fn serve(&self, name: &str, asks: bool) -> u16 {
        let chain = CertificateDer::pem_file_iter(self.file(&format!("{name}.pem"))).unwrap().map(Result::unwrap);
        let key = PrivateKeyDer::from_pem_file(self.file(&format!("{name}.key"))).unwrap();
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = ServerConfig::builder();
        let builder = if asks {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_file(self.file("ca.pem")).unwrap()).unwrap();
            builder.with_client_cert_verifier(WebPkiClientVerifier::builder(Arc::new(roots)).build().unwrap())
        } else {
            builder.with_no_client_auth()
        };
        let acceptor = TlsAcceptor::from(Arc::new(builder.with_single_cert(chain.collect(), key).unwrap()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let Ok(mut stream) = acceptor.accept(stream).await else { return };
                    let mut bytes = [0; 4096];
                    while stream.read(&mut bytes).await.is_ok_and(|count| count > 0) {
                        let answer = r#"{"ok":true,"found":true,"value":"v"}"#;
                        let answer = format!("HTTP/1.1 200 X\r\ncontent-length: {}\r\n\r\n{answer}", answer.len());
                        stream.write_all(answer.as_bytes()).await.unwrap();
                    }
                });
            }
        });
        port
    }
}

/// What a get comes to; a failure that stays must not use the deadline up.
async fn get(endpoint: &str, tls: &Tls) -> Result<String, ClientError> {
    let options = Options { deadline: Some(Duration::from_secs(20)), ..Options::default() };
    let began = Instant::now();
    let found = Client::with_tls(&[endpoint], tls).unwrap().with_options(options).get("default", b"k").await;
    assert!(began.elapsed() < Duration::from_secs(10), "{found:?} after {:?}", began.elapsed());
    found.map(|value| String::from_utf8_lossy(&value.unwrap()).into_owned())
}

fn told(found: Result<String, ClientError>) -> String {
    let error = found.unwrap_err();
    assert!(matches!(error, ClientError::Tls { .. }) && error.exit_code() == 1, "{error}");
    error.to_string()
}

const SERVER: ExtendedKeyUsagePurpose = ExtendedKeyUsagePurpose::ServerAuth;

#[tokio::test]
async fn names_authorities_and_times_are_checked() {
    let authority = Authority::new();
    authority.issue("server", SERVER, 2100);
    authority.issue("old", SERVER, 2021);
    let (port, old) = (authority.serve("server", false).await, authority.serve("old", false).await);
    let tls = authority.tls(None);
    assert_eq!(get(&format!("https://localhost:{port}"), &tls).await.unwrap(), "v");
    assert_eq!(get(&format!("localhost:{port}/"), &tls).await.unwrap(), "v", "without a scheme it is https");
    let wrong = told(get(&format!("https://127.0.0.1:{port}"), &tls).await);
    assert!(wrong.contains("does not name 127.0.0.1") && wrong.contains("--address 127.0.0.1"), "{wrong}");
    let foreign = told(get(&format!("https://localhost:{port}"), &Authority::new().tls(None)).await);
    assert!(foreign.contains("--ca or HIVE_CA"), "{foreign}");
    let expired = told(get(&format!("https://localhost:{old}"), &tls).await);
    assert!(expired.contains("has expired"), "{expired}");
}

#[tokio::test]
async fn certificate_that_is_wanted_is_shown_or_its_refusal_is_explained() {
    let authority = Authority::new();
    authority.issue("server", SERVER, 2100);
    authority.issue("user", ExtendedKeyUsagePurpose::ClientAuth, 2100);
    authority.issue("old", ExtendedKeyUsagePurpose::ClientAuth, 2021);
    let endpoint = format!("https://localhost:{}", authority.serve("server", true).await);
    assert_eq!(get(&endpoint, &authority.tls(Some("user"))).await.unwrap(), "v");
    for own in [None, Some("old")] {
        let refused = told(get(&endpoint, &authority.tls(own)).await);
        assert!(refused.contains("refuses the client certificate"), "{refused}");
    }
}

#[tokio::test]
async fn port_without_tls_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await;
            let _ = stream.read(&mut [0; 4096]).await;
        }
    });
    let plain = told(get(&endpoint, &Authority::new().tls(None)).await);
    assert!(plain.contains("does not speak TLS; write http://"), "{plain}");
}

#[test]
fn files_and_endpoints_that_do_not_fit_are_named() {
    let authority = Authority::new();
    let error = Client::new(&["https://localhost:1"]).err().unwrap();
    assert!(error.to_string().contains("--ca or HIVE_CA") && error.exit_code() == 2, "{error}");
    assert!(Tls::from_files(&authority.file("none.pem"), None).is_err());
    std::fs::write(authority.file("empty.pem"), "nothing").unwrap();
    let empty = Tls::from_files(&authority.file("empty.pem"), None).err().unwrap().to_string();
    assert!(empty.contains("no certificate in it"), "{empty}");
    authority.issue("one", SERVER, 2100);
    authority.issue("two", SERVER, 2100);
    let (one, two) = (authority.file("one.pem"), authority.file("two.key"));
    assert!(Tls::from_files(&authority.file("ca.pem"), Some((&one, &two))).is_err(), "another's key");
}
