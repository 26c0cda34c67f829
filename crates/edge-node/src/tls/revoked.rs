//! Lists of revoked certificates (CRLs), of the clients' authorities and of the peers'.
//!
//! Always: a file is taken whole or not at all, and each of its lists is of an authority that is believed, or a mistake
//! would revoke nothing and look as if it did; rustls checks a list's signature when it judges a certificate by it, and refuses who
//! shows it where it is wrong. That a list is older than it says is no reason to pass over it.
//! Held by: `a_revoked_certificate_ends_its_connections`.
//! Not here: how lists are made (`ca::revoke`), connections that are open (tls.rs, doors.rs).

use super::{unusable, TlsError};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use std::collections::HashSet;
use std::path::Path;
use x509_parser::prelude::{CertificateRevocationList, FromDer, X509Certificate};

/// Lists in one file at most; an authority has one.
const LISTS_MAX: usize = 32;

/// Which certificate: its authority's name and its number there, as they are encoded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CertificateId {
    issuer: Vec<u8>,
    serial: Vec<u8>,
}

impl CertificateId {
    /// Of a certificate.
    pub fn of(certificate: &[u8]) -> Result<CertificateId, String> {
        let (_, parsed) = X509Certificate::from_der(certificate).map_err(|error| error.to_string())?;
        Ok(CertificateId { issuer: parsed.issuer().as_raw().to_vec(), serial: parsed.raw_serial().to_vec() })
    }
}

/// What is revoked.
#[derive(Default)]
pub struct Revoked {
    /// For rustls.
    pub lists: Vec<CertificateRevocationListDer<'static>>,
    ids: HashSet<CertificateId>,
}

impl Revoked {
    /// Reads the lists of these authorities, which a setting names.
    pub fn load(path: &Path, authorities: &[CertificateDer<'_>], setting: &str) -> Result<Revoked, TlsError> {
        let wrong = |reason: &str| unusable(path, &format!("{reason}; make a list with `hive ca revoke`"));
        let text = crate::config::read_bounded(path).map_err(|error| unusable(path, &error))?;
        let mut own = Revoked::default();
        for list in CertificateRevocationListDer::pem_slice_iter(text.as_bytes()).take(LISTS_MAX + 1) {
            let list = list.map_err(|error| unusable(path, &error))?;
            let (_, parsed) = CertificateRevocationList::from_der(&list).map_err(|error| wrong(&error.to_string()))?;
            let issuer = parsed.issuer().as_raw();
            let of_one = |authority: &CertificateDer<'_>| {
                X509Certificate::from_der(authority).is_ok_and(|(_, parsed)| parsed.subject().as_raw() == issuer)
            };
            if !authorities.iter().any(of_one) {
                return Err(wrong(&format!("it has a list of an authority that {setting} does not have")));
            }
            let id = |serial: &[u8]| CertificateId { issuer: issuer.to_vec(), serial: serial.to_vec() };
            own.ids.extend(parsed.iter_revoked_certificates().map(|entry| id(entry.raw_serial())));
            own.lists.push(list.clone());
        }
        match own.lists.len() {
            0 => Err(wrong("no list of revoked certificates in it")),
            1..=LISTS_MAX => Ok(own),
            _ => Err(wrong("more lists than there can be authorities")),
        }
    }

    /// Whether a list has this certificate.
    pub fn has(&self, id: &CertificateId) -> bool {
        self.ids.contains(id)
    }
}
