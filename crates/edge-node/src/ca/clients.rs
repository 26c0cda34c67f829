//! The clients' authority: certificates of the client doors, and of users. It is another authority than the peers'.
//!
//! ```text
//! <dir>/world, ca.pem, ca.key     as the peers' authority has them
//! <dir>/clients                   says that this authority is the clients'
//! <dir>/server-<name>.pem, .key   what a node shows at its client doors; fit for serving only
//! <dir>/user-<name>.pem, .key     what a user shows there; names spiffe://<world>/user/<name>, fit for clients only
//! ```
//!
//! By design: this authority issues nothing that a peer accepts, and the peers' authority nothing that is a user; a user's
//! certificate names exactly one user of one world.
//! Not here: what a user may do; what is revoked (`revocations`); the check of a chain (rustls, `tls::doors`).

use super::{check_days, is_nodes, key_to, open, set_validity, write_file, CaError, Issued};
use base_types::NodeId;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, SanType};
use std::path::Path;

/// The file that makes a directory the clients' authority's.
const MARKER: &str = "clients";
/// The longest name of a user or a server certificate; users' names are as long in the directory.
pub const NAME_BYTES_MAX: usize = 128;
/// So much of a URI is repeated in a refusal.
const SHOWN_CHARS_MAX: usize = 160;

/// A user's name that a verified certificate carries.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CertificateName(String);

impl CertificateName {
    /// The user's name.
    pub fn user(&self) -> &str {
        &self.0
    }

    /// Reads the name out of a certificate whose chain has been verified. `Err` says what the certificate lacks.
    pub fn of_certificate(certificate: &[u8], world: &str) -> Result<CertificateName, String> {
        use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};
        let (_, parsed) = X509Certificate::from_der(certificate).map_err(|error| error.to_string())?;
        let names = parsed.subject_alternative_name().map_err(|error| error.to_string())?;
        let mut uris = names.iter().flat_map(|names| &names.value.general_names).filter_map(|name| match name {
            GeneralName::URI(uri) => Some(*uri),
            _ => None,
        });
        match (uris.next(), uris.next()) {
            (Some(uri), None) => CertificateName::of_uri(uri, world),
            (None, _) => Err(format!("it has no URI; a user's certificate has spiffe://{world}/user/<name>")),
            (Some(_), Some(_)) => Err("it has several URIs; a user's certificate has exactly one".into()),
        }
    }

    /// Reads `spiffe://<world>/user/<name>`.
    pub fn of_uri(uri: &str, world: &str) -> Result<CertificateName, String> {
        let name = uri.strip_prefix("spiffe://").and_then(|rest| rest.split_once("/user/"));
        match name {
            Some((domain, name)) if domain == world && name_is_legal(name) => Ok(CertificateName(name.into())),
            _ => {
                let shown: String = uri.chars().take(SHOWN_CHARS_MAX).flat_map(char::escape_default).collect();
                Err(format!("its URI is {shown}; a user of this world has spiffe://{world}/user/<name>"))
            }
        }
    }
}

/// The URI of a user's certificate.
pub fn user_uri(world: &str, user: &str) -> String {
    format!("spiffe://{world}/user/{user}")
}

fn name_is_legal(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"._-@+".contains(&byte);
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(legal)
}

/// Whether a directory holds a clients' authority.
pub fn is_here(directory: &Path) -> bool {
    directory.join(MARKER).exists()
}

/// Makes a clients' authority for a world.
pub fn init(directory: &Path, world: &str) -> Result<(), CaError> {
    super::init_as(directory, world, Some(MARKER))
}

/// Issues (or renews) a certificate for the client doors of a node. `addresses` are the host names and IP addresses clients
/// use; a name may begin with `*.`.
pub fn issue_server(directory: &Path, name: &str, addresses: &[String], days: u32) -> Result<Issued, CaError> {
    if addresses.is_empty() {
        let remedy = "give the host names and IP addresses clients use: they compare these with the certificate";
        return Err(CaError::Invalid { what: "address", value: String::new(), remedy });
    }
    if let Some(node) = addresses.iter().find(|address| is_nodes(address)) {
        let remedy = "names below hive are nodes' among themselves; give host names and IP addresses here";
        return Err(CaError::Invalid { what: "address", value: node.clone(), remedy });
    }
    let mut params = CertificateParams::new(addresses.to_vec())?;
    params.distinguished_name.push(DnType::CommonName, addresses[0].clone());
    issue(directory, &format!("server-{name}"), name, params, ExtendedKeyUsagePurpose::ServerAuth, days)
}

/// Issues (or renews) a user's certificate.
pub fn issue_user(directory: &Path, user: &str, days: u32) -> Result<Issued, CaError> {
    let (world, _) = open(directory)?;
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, user);
    if name_is_legal(user) {
        params.subject_alt_names = vec![SanType::URI(user_uri(&world, user).try_into()?)];
    }
    issue(directory, &format!("user-{user}"), user, params, ExtendedKeyUsagePurpose::ClientAuth, days)
}

/// Makes a clients' authority where there is none, and for each node that has none a certificate of its client doors; in the
/// order of `nodes`. What is there is kept.
pub fn prepare(
    directory: &Path,
    world: &str,
    nodes: &[(NodeId, Vec<String>)],
    days: u32,
) -> Result<Vec<Issued>, CaError> {
    if !directory.join("ca.pem").exists() {
        init(directory, world)?;
    }
    let certificate = |(node, addresses): &(NodeId, Vec<String>)| {
        let name = node.to_string();
        let known = issued(directory, &format!("server-{name}"));
        match known.certificate.exists() && known.key.exists() {
            true => Ok(known),
            false => issue_server(directory, &name, addresses, days),
        }
    };
    nodes.iter().map(certificate).collect()
}

fn issued(directory: &Path, stem: &str) -> Issued {
    let file = |ending: &str| directory.join(format!("{stem}.{ending}"));
    Issued { authority: directory.join("ca.pem"), certificate: file("pem"), key: file("key") }
}

fn issue(
    directory: &Path,
    stem: &str,
    name: &str,
    mut params: CertificateParams,
    purpose: ExtendedKeyUsagePurpose,
    days: u32,
) -> Result<Issued, CaError> {
    if !name_is_legal(name) {
        let remedy = "use 1 to 128 letters, digits, '.', '_', '-', '@' and '+'";
        return Err(CaError::Invalid { what: "name", value: name.chars().take(SHOWN_CHARS_MAX).collect(), remedy });
    }
    check_days(days)?;
    let (_, issuer) = open(directory)?;
    if !is_here(directory) {
        return Err(CaError::Peers { path: directory.display().to_string() });
    }
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![purpose];
    params.use_authority_key_identifier_extension = true;
    set_validity(&mut params, days);
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &issuer)?;
    let issued = issued(directory, stem);
    // The key first: a running node would refuse a certificate whose key is not there yet.
    key_to(&issued.key, &key)?;
    write_file(&issued.certificate, &certificate.pem(), 0o644)?;
    Ok(issued)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ca;

    fn first_of(path: &Path) -> ca::CertificateInfo {
        ca::inspect(path).unwrap().remove(0)
    }

    #[test]
    fn clients_authority_issues_for_doors_and_users_only() {
        let home = tempfile::tempdir().unwrap();
        let (clients, peers) = (home.path().join("clients"), home.path().join("ca"));
        init(&clients, "dev").unwrap();
        ca::init(&peers, "dev").unwrap();
        let names = ["127.0.0.1".to_owned(), "*.s3.example".to_owned()];
        let server = issue_server(&clients, "1", &names, 30).unwrap();
        assert_eq!(first_of(&server.certificate).names, ["127.0.0.1", "*.s3.example"]);
        let user = issue_user(&clients, "ann@example", 30).unwrap();
        assert_eq!(first_of(&user.certificate).names, ["spiffe://dev/user/ann@example"]);
        assert_eq!(ca::show(&clients).unwrap().len(), 3);
        let refused = |made: Result<Issued, CaError>| made.unwrap_err().to_string();
        assert!(refused(ca::issue(&clients, NodeId(1), &[], 1)).contains("is the clients' authority"));
        assert!(refused(issue_user(&peers, "ann", 1)).contains("hive ca init --clients"));
        assert!(refused(issue_server(&peers, "1", &names, 1)).contains("hive ca init --clients"));
        assert!(refused(issue_user(&clients, "a/b", 1)).contains("use 1 to 128 letters"));
        assert!(refused(issue_server(&clients, "1", &[], 1)).contains("host names and IP addresses"));
        assert!(refused(issue_server(&clients, "1", &["node-2.dev.hive".into()], 1)).contains("among themselves"));
        ca::rotate(&clients).unwrap();
        assert!(is_here(&clients));
    }

    #[test]
    fn what_is_prepared_is_kept() {
        let home = tempfile::tempdir().unwrap();
        let nodes = [1, 2].map(|id| (NodeId(id), vec!["localhost".to_owned()]));
        let first = prepare(home.path(), "dev", &nodes[..1], 30).unwrap();
        let key = std::fs::read(&first[0].key).unwrap();
        let both = prepare(home.path(), "dev", &nodes, 30).unwrap();
        assert!(both.len() == 2 && both[0] == first[0] && std::fs::read(&first[0].key).unwrap() == key);
    }

    #[test]
    fn user_is_read_from_one_uri_of_the_world() {
        let read = |uri: &str| CertificateName::of_uri(uri, "dev");
        assert_eq!(read("spiffe://dev/user/ann").unwrap().user(), "ann");
        let wrong = [
            "spiffe://other/user/ann",
            "spiffe://dev/user/",
            "spiffe://dev/user/a/b",
            "spiffe://dev/node/1",
            "https://dev/user/ann",
            "spiffe://dev/user/ann%40x",
            "spiffe://dev/user/ann\n",
            "",
        ];
        for uri in wrong {
            assert!(read(uri).unwrap_err().contains("spiffe://dev/user/<name>"), "{uri}");
        }
        let long = format!("spiffe://dev/user/{}", "x".repeat(5_000));
        assert!(read(&long).unwrap_err().len() < 400);
        assert!(CertificateName::of_certificate(b"none", "dev").is_err());
    }
}
