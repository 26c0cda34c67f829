//! Which certificates of an authority count no more: its list (CRL), which nodes read.
//!
//! ```text
//! <dir>/crl.pem   signed by the authority; the clients' for `tls.client_revocations`, the peers' for `certificates.revocations`
//! ```
//!
//! Always: what is revoked stays so (`tests::what_is_revoked_stays_revoked`); a list of before a rotation stays in the file.
//! Not here: who is refused by a list (rustls, `tls`).
//! Why: docs/decisions/0087-revoked-certificates-are-a-list-in-a-file.md.

use super::{midnight, open, read, seconds_now, write_file, CaError, AUTHORITY_DAYS};
use rcgen::{CertificateRevocationListParams, KeyIdMethod, RevokedCertParams, SerialNumber};
use std::path::{Path, PathBuf};
use x509_parser::pem::Pem;
use x509_parser::prelude::{CertificateRevocationList, FromDer, X509Certificate};

/// So much of what was given is repeated in a refusal.
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

/// Puts a certificate on the authority's list. An earlier authority's list, of before a rotation, stays in the file.
pub fn revoke(directory: &Path, what: &Revoke) -> Result<Revocation, CaError> {
    let (_, issuer) = open(directory)?;
    let authority = first_certificate(&directory.join("ca.pem"))?;
    let authority = authority.subject;
    let serial = serial_of(what, &authority)?;
    let list = directory.join(LIST);
    let mut known = Known::read(&list, &authority)?;
    let before = known.entries.iter().any(|entry| entry.serial_number.as_ref() == serial);
    let today = seconds_now() / 86_400;
    if !before {
        if known.entries.len() >= REVOKED_MAX {
            let remedy = "make a new authority (`hive ca rotate`) and issue certificates again; the earlier one's list goes with it";
            return Err(CaError::Invalid { what: "list", value: format!("{REVOKED_MAX} certificates long"), remedy });
        }
        known.entries.push(RevokedCertParams {
            serial_number: SerialNumber::from_slice(&serial),
            revocation_time: midnight(today),
            reason_code: None,
            invalidity_date: None,
        });
    }
    let revoked = known.entries.len();
    let params = CertificateRevocationListParams {
        this_update: midnight(today),
        // No node looks at it: a list of yesterday is better than none.
        next_update: midnight(today + i64::from(AUTHORITY_DAYS)),
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
            let remedy = "it is not of the authority that issues now; if it is of the one before `hive ca rotate`, take that out of the file that the nodes trust";
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
    use crate::ca::{self, clients};

    #[test]
    fn what_is_revoked_stays_revoked() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path();
        clients::init(dir, "dev").unwrap();
        let file = |user: &str| Revoke::File(clients::issue_user(dir, user, 30).unwrap().certificate);
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
        assert!(revoke(&dir.join("nowhere"), &bob).unwrap_err().to_string().contains("hive ca init"));
    }

    #[test]
    fn certificate_of_a_node_is_revoked_by_its_authority() {
        let home = tempfile::tempdir().unwrap();
        let (peers, users) = (home.path().join("ca"), home.path().join("clients"));
        ca::init(&peers, "dev").unwrap();
        clients::init(&users, "dev").unwrap();
        let node = Revoke::File(ca::issue(&peers, base_types::NodeId(2), &[], 30).unwrap().certificate);
        assert_eq!(revoke(&peers, &node).unwrap().revoked, 1);
        let error = revoke(&users, &node).unwrap_err().to_string();
        assert!(error.contains("not of the authority"), "{error}");
    }
}
