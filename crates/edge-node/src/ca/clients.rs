//! The clients' authority: certificates of the client doors, and of users. It is another authority than the peers'.
//!
//! ```text
//! <dir>/world, ca.pem, ca.key     as the peers' authority has them
//! <dir>/clients                   says that this authority is the clients'
//! <dir>/server-<name>.pem, .key   what a node shows at its client doors; fit for serving only
//! <dir>/user-<name>.pem, .key     what a user shows there; names spiffe://<world>/user/<name>, fit for clients only
//! <dir>/crl.pem                   which certificates count no more: signed by the authority, for `tls.client_revocations`
//! ```
//!
//! Always: this authority issues nothing that a peer accepts, and the peers' authority nothing that is a user; a user's
//! certificate names exactly one user of one world; what is revoked stays so (`tests::what_is_revoked_stays_revoked`).
//! Not here: what a user may do; the check of a chain (rustls, `tls::doors`).

use super::{
    check_days, civil, is_nodes, key_to, open, read, seconds_now, set_validity, write_file, CaError, Issued,
    AUTHORITY_DAYS,
};
use base_types::NodeId;
use rcgen::{
    CertificateParams, CertificateRevocationListParams, DnType, ExtendedKeyUsagePurpose, KeyIdMethod, KeyPair,
    KeyUsagePurpose, RevokedCertParams, SanType, SerialNumber,
};
use std::path::{Path, PathBuf};
use x509_parser::pem::Pem;
use x509_parser::prelude::{CertificateRevocationList, FromDer, X509Certificate};

/// The file that makes a directory the clients' authority's.
const MARKER: &str = "clients";
/// The longest name of a user or a server certificate; users' names are as long in the directory.
pub const NAME_BYTES_MAX: usize = 128;
/// So much of a URI is repeated in a refusal.
const SHOWN_CHARS_MAX: usize = 160;

/// The list of certificates that count no more.
const LIST: &str = "crl.pem";
/// How many it takes; a node reads at most 1 MiB.
const REVOKED_MAX: usize = 10_000;
/// What ends a list in its file.
const LIST_END: &str = "-----END X509 CRL-----";
/// The longest serial number of a certificate (RFC 5280), with the byte of its sign.
const SERIAL_BYTES_MAX: usize = 21;

/// What is to be revoked.
#[derive(Clone, Debug)]
pub enum Revoke {
    /// The certificate in this file.
    File(PathBuf),
    /// The one of this serial number, in hexadecimal digits with or without colons, as `hive ca show --json` has it.
    Serial(String),
}

/// What was revoked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revocation {
    pub list: PathBuf,
    pub serial: String,
    /// How many the list has now.
    pub revoked: usize,
    /// It was on the list before.
    pub before: bool,
}

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

/// Puts a certificate on the authority's list. An earlier authority's list, of before a rotation, stays in the file.
pub fn revoke(directory: &Path, what: &Revoke) -> Result<Revocation, CaError> {
    let (_, issuer) = open(directory)?;
    if !is_here(directory) {
        return Err(CaError::Peers { path: directory.display().to_string() });
    }
    let authority = first_certificate(&directory.join("ca.pem"))?;
    let authority = authority.subject;
    let serial = serial_of(what, &authority)?;
    let list = directory.join(LIST);
    let mut known = Known::read(&list, &authority)?;
    let before = known.entries.iter().any(|entry| entry.serial_number.as_ref() == serial);
    let today = seconds_now() / 86_400;
    let date = |days: i64| {
        let (year, month, day) = civil(days);
        rcgen::date_time_ymd(year, month, day)
    };
    if !before {
        if known.entries.len() >= REVOKED_MAX {
            let remedy = "make a new authority (`hive ca rotate`) and issue certificates again; the earlier one's list goes with it";
            return Err(CaError::Invalid { what: "list", value: format!("{REVOKED_MAX} certificates long"), remedy });
        }
        known.entries.push(RevokedCertParams {
            serial_number: SerialNumber::from_slice(&serial),
            revocation_time: date(today),
            reason_code: None,
            invalidity_date: None,
        });
    }
    let revoked = known.entries.len();
    let params = CertificateRevocationListParams {
        this_update: date(today),
        // No node looks at it: a list of yesterday is better than none.
        next_update: date(today + i64::from(AUTHORITY_DAYS)),
        crl_number: SerialNumber::from(known.number + 1),
        issuing_distribution_point: None,
        revoked_certs: known.entries,
        key_identifier_method: KeyIdMethod::Sha256,
    };
    let text = params.signed_by(&issuer)?.pem()? + &known.of_earlier;
    write_file(&list, &text, 0o644)?;
    let serial = serial.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":");
    Ok(Revocation { list, serial, revoked, before })
}

/// A certificate's names and number, as they are encoded.
struct Encoded {
    subject: Vec<u8>,
    issuer: Vec<u8>,
    serial: Vec<u8>,
}

fn first_certificate(path: &Path) -> Result<Encoded, CaError> {
    let text = read(path)?;
    let crypto = |reason: String| CaError::Crypto(format!("{}: {reason}", path.display()));
    let pem = Pem::iter_from_buffer(text.as_bytes()).next().ok_or_else(|| crypto("no certificate in it".into()))?;
    let pem = pem.map_err(|error| crypto(error.to_string()))?;
    let (_, parsed) = X509Certificate::from_der(&pem.contents).map_err(|error| crypto(error.to_string()))?;
    Ok(Encoded {
        subject: parsed.subject().as_raw().to_vec(),
        issuer: parsed.issuer().as_raw().to_vec(),
        serial: parsed.raw_serial().to_vec(),
    })
}

fn serial_of(what: &Revoke, authority: &[u8]) -> Result<Vec<u8>, CaError> {
    match what {
        Revoke::File(path) => {
            let found = first_certificate(path)?;
            if found.issuer == authority {
                return Ok(found.serial);
            }
            let remedy = "it is not of the authority that issues now; if it is of the one before `hive ca rotate`, take that out of tls.client_authority";
            Err(CaError::Invalid { what: "certificate", value: path.display().to_string(), remedy })
        }
        Revoke::Serial(text) => {
            let digits: String = text.chars().filter(|digit| *digit != ':').collect();
            let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
            let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(byte).collect();
            bytes.filter(|bytes| (1..=SERIAL_BYTES_MAX).contains(&bytes.len())).ok_or_else(|| CaError::Invalid {
                what: "serial",
                value: text.chars().take(SHOWN_CHARS_MAX).collect(),
                remedy: "write it as `hive ca show --json` does: pairs of hexadecimal digits",
            })
        }
    }
}

/// What is in the file.
#[derive(Default)]
struct Known {
    number: u64,
    entries: Vec<RevokedCertParams>,
    /// The list of the authority before, as it is.
    of_earlier: String,
}

impl Known {
    fn read(path: &Path, authority: &[u8]) -> Result<Known, CaError> {
        let mut own = Known::default();
        if !path.exists() {
            return Ok(own);
        }
        let text = read(path)?;
        for block in text.split_inclusive(LIST_END).filter(|block| block.contains(LIST_END)) {
            let wrong = |reason: String| CaError::Crypto(format!("{}: {reason}", path.display()));
            let pem = Pem::iter_from_buffer(block.as_bytes()).next().ok_or_else(|| wrong("no list in it".into()))?;
            let pem = pem.map_err(|error| wrong(error.to_string()))?;
            let (_, list) =
                CertificateRevocationList::from_der(&pem.contents).map_err(|error| wrong(error.to_string()))?;
            if list.issuer().as_raw() != authority {
                if own.of_earlier.is_empty() {
                    own.of_earlier = format!("{}\n", block.trim());
                }
                continue;
            }
            own.number = list.crl_number().and_then(|number| u64::try_from(number.clone()).ok()).unwrap_or(0);
            own.entries.extend(list.iter_revoked_certificates().map(|entry| RevokedCertParams {
                serial_number: SerialNumber::from_slice(entry.raw_serial()),
                revocation_time: entry.revocation_date.to_datetime(),
                reason_code: None,
                invalidity_date: None,
            }));
        }
        Ok(own)
    }
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
    fn what_is_revoked_stays_revoked() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path();
        init(dir, "dev").unwrap();
        let file = |user: &str| Revoke::File(issue_user(dir, user, 30).unwrap().certificate);
        let ann = file("ann");
        let first = revoke(dir, &ann).unwrap();
        assert_eq!((first.revoked, first.before), (1, false));
        assert_eq!(revoke(dir, &ann).unwrap(), Revocation { before: true, ..first.clone() });
        // The file of a name has its newest certificate; an earlier one goes by its number.
        let second = revoke(dir, &file("ann")).unwrap();
        assert!(second.revoked == 2 && second.serial != first.serial);
        assert!(revoke(dir, &Revoke::Serial(first.serial.to_uppercase())).unwrap().before);
        let bob = file("bob");
        ca::rotate(dir).unwrap();
        let error = revoke(dir, &bob).unwrap_err().to_string();
        assert!(error.contains("hive ca rotate"), "{error}");
        assert_eq!(revoke(dir, &file("bob")).unwrap().revoked, 1, "the new authority's first");
        let text = std::fs::read_to_string(dir.join(LIST)).unwrap();
        assert_eq!(text.matches(LIST_END).count(), 2, "the list of before stays");
        ca::rotate(dir).unwrap();
        assert_eq!(revoke(dir, &file("bob")).unwrap().revoked, 1);
        assert_eq!(
            std::fs::read_to_string(dir.join(LIST)).unwrap().matches(LIST_END).count(),
            2,
            "and no more than one"
        );
        for bad in ["", "x", "abc", "zz", &"ab".repeat(30), "é"] {
            let error = revoke(dir, &Revoke::Serial(bad.into())).unwrap_err().to_string();
            assert!(error.contains("hexadecimal"), "{bad}: {error}");
        }
        std::fs::write(dir.join(LIST), format!("-----BEGIN X509 CRL-----\nAAAA\n{LIST_END}\n")).unwrap();
        assert!(revoke(dir, &file("bob")).is_err(), "what cannot be read is not written over");
        let peers = tempfile::tempdir().unwrap();
        ca::init(peers.path(), "dev").unwrap();
        assert!(revoke(peers.path(), &bob).unwrap_err().to_string().contains("hive ca init --clients"));
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
