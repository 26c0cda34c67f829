//! Who made a backup: Ed25519 over the bytes of its manifest (docs/decisions/0110).
//!
//! Keys are PEM files as OpenSSL writes and reads them. A key is named by its fingerprint: the first 16 bytes of the SHA-256 of the public key.
//!
//! Always: a manifest counts only if a trusted key signed these very bytes. Held by: `changed_manifest_or_signature_is_refused`,
//! `foreign_signature_is_refused`.

use crate::files::{hex, read_whole};
use crate::BackupError;
use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use ring::digest::{digest, SHA256};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair, UnparsedPublicKey, ED25519};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// A key in PKCS #8: this, then 32 bytes of seed (RFC 8410).
const PRIVATE_HEAD: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
/// A public key in its own form: this, then 32 bytes.
const PUBLIC_HEAD: [u8; 12] = [0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];
const SEED_BYTES: usize = 32;
const PRIVATE: &str = "PRIVATE KEY";
const PUBLIC: &str = "PUBLIC KEY";
/// The longest file of keys.
const KEYS_BYTES_MAX: u64 = 64 << 10;

/// Random bytes.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // The system's randomness fails only where there is none at all.
    SystemRandom::new().fill(&mut bytes).expect("the system gives random bytes");
    bytes
}

/// Signs backups.
pub struct Signer {
    pair: Ed25519KeyPair,
}

impl Signer {
    /// The key in a file; where the file is absent, a new key, and that it is new.
    pub fn open_or_make(path: &Path) -> Result<(Signer, bool), BackupError> {
        if path.exists() {
            return Ok((Signer::open(path)?, false));
        }
        let failed = |error| BackupError::file(path, error);
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        let der = [&PRIVATE_HEAD[..], &random::<SEED_BYTES>()].concat();
        let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let written =
            opened.and_then(|mut file| file.write_all(pem(PRIVATE, &der).as_bytes()).and_then(|()| file.sync_all()));
        written.map_err(failed)?;
        Ok((Signer::open(path)?, true))
    }

    fn open(path: &Path) -> Result<Signer, BackupError> {
        let text = read_whole(path, KEYS_BYTES_MAX)?;
        let der = blocks(&String::from_utf8_lossy(&text), PRIVATE).into_iter().next();
        let pair = der.and_then(|der| Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der).ok());
        let unusable = || key_error(path, "no Ed25519 private key in PEM; leave the file out, and one is made");
        Ok(Signer { pair: pair.ok_or_else(unusable)? })
    }

    /// The signature of these bytes.
    pub fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        self.pair.sign(bytes).as_ref().to_vec()
    }

    /// What its public key is called.
    pub fn fingerprint(&self) -> String {
        fingerprint(self.pair.public_key().as_ref())
    }

    /// Its public key, in PEM.
    pub fn public_pem(&self) -> String {
        pem(PUBLIC, &[&PUBLIC_HEAD[..], self.pair.public_key().as_ref()].concat())
    }

    /// Trusts what it signs itself.
    pub fn trusted(&self) -> Trusted {
        Trusted { keys: vec![self.pair.public_key().as_ref().to_vec()] }
    }
}

/// Whose backups are believed.
#[derive(Clone, Default)]
pub struct Trusted {
    keys: Vec<Vec<u8>>,
}

impl Trusted {
    /// All keys of a file; a private key's public one counts.
    pub fn from_file(path: &Path) -> Result<Trusted, BackupError> {
        let text = String::from_utf8_lossy(&read_whole(path, KEYS_BYTES_MAX)?).into_owned();
        let own = match blocks(&text, PRIVATE).is_empty() {
            true => Trusted::default(),
            false => Signer::open(path)?.trusted(),
        };
        let public = blocks(&text, PUBLIC).into_iter();
        let public = public.filter_map(|der| der.strip_prefix(&PUBLIC_HEAD[..]).map(<[u8]>::to_vec));
        let keys: Vec<_> = own.keys.into_iter().chain(public.filter(|key| key.len() == SEED_BYTES)).collect();
        match keys.is_empty() {
            true => Err(key_error(path, "no Ed25519 public key in PEM; write one with: hive backup key")),
            false => Ok(Trusted { keys }),
        }
    }

    /// Those of both.
    pub fn and(mut self, other: Trusted) -> Trusted {
        self.keys.extend(other.keys);
        self
    }

    /// Whether a trusted key signed these bytes.
    pub fn has_signed(&self, bytes: &[u8], signature: &[u8]) -> bool {
        self.keys.iter().any(|key| UnparsedPublicKey::new(&ED25519, key).verify(bytes, signature).is_ok())
    }

    /// Whether a key of this name is trusted.
    pub fn knows(&self, name: &str) -> bool {
        self.keys.iter().any(|key| fingerprint(key) == name)
    }
}

fn fingerprint(key: &[u8]) -> String {
    hex(&digest(&SHA256, key).as_ref()[..16])
}

fn key_error(path: &Path, reason: &str) -> BackupError {
    BackupError::Key { path: path.display().to_string(), reason: reason.into() }
}

fn pem(kind: &str, der: &[u8]) -> String {
    format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", STANDARD.encode(der))
}

/// What lies between the lines of each block of a kind.
fn blocks(text: &str, kind: &str) -> Vec<Vec<u8>> {
    let (begin, end) = (format!("-----BEGIN {kind}-----"), format!("-----END {kind}-----"));
    let bodies = text.split(&begin).skip(1).filter_map(|rest| rest.split(&end).next());
    bodies.filter_map(|body| STANDARD.decode(body.split_whitespace().collect::<String>()).ok()).collect()
}
