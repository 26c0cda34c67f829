//! An issuer's keys, and signatures by them: `jsonwebtoken` reads tokens and keys, `ring` checks signatures.
//!
//! Always: only public keys count, of kinds that [`ALGORITHMS`] names: a symmetric key in the document is passed over, so no
//! token is checked by a secret that everybody can read (`tests::symmetric_keys_are_passed_over`); a key's own `alg` is the only
//! one that it checks; an RSA key has at most [`MODULUS_BYTES_MAX`] bytes, which bounds the work of a check.
//! Not here: claims (token.rs).

use super::token::Wrong;
use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::signature::{self, Verifier};
use jsonwebtoken::{decode_header, Algorithm, DecodingKey, DecodingKeyKind, Header};
use ring::signature::{RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;
use serde_json::{Map, Value};

/// What tokens may be signed with. Never `none`, never a shared secret.
pub const ALGORITHMS: &[Algorithm] = &[
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];
/// The most keys of an issuer; those beyond are left out.
pub const KEYS_MAX: usize = 64;
/// The longest modulus of an RSA key: 4,096 bits.
const MODULUS_BYTES_MAX: usize = 512;
/// The longest public exponent.
const EXPONENT_BYTES_MAX: usize = 4;
/// The longest name of a key.
const KID_BYTES_MAX: usize = 512;

/// The keys that an issuer gave last.
#[derive(Default)]
pub struct KeySet {
    keys: Vec<Key>,
}

struct Key {
    kid: Option<String>,
    /// What it checks.
    algorithms: Vec<Algorithm>,
    key: DecodingKey,
}

/// The head of a token, if its algorithm is one of those.
pub(super) fn header_of(text: &str) -> Result<Header, Wrong> {
    let header = decode_header(text).map_err(|_| Wrong::Malformed)?;
    let kid_fits = header.kid.as_ref().is_none_or(|kid| kid.len() <= KID_BYTES_MAX);
    // What `crit` names changes what the token means, and nothing of that is known here.
    let plain = header.crit.is_none() && header.enc.is_none() && kid_fits;
    Some(header).filter(|header| plain && ALGORITHMS.contains(&header.alg)).ok_or(Wrong::Malformed)
}

impl KeySet {
    /// Out of an issuer's document.
    pub fn parse(document: &[u8]) -> Result<KeySet, String> {
        #[derive(Deserialize)]
        struct Document {
            keys: Vec<Value>,
        }
        let document: Document =
            serde_json::from_slice(document).map_err(|error| format!("the keys (jwks_uri) are no JSON: {error}"))?;
        let keys: Vec<Key> = document.keys.into_iter().filter_map(Key::parse).take(KEYS_MAX).collect();
        if keys.is_empty() {
            return Err("the keys (jwks_uri) have no public key for signatures of a known kind".into());
        }
        Ok(KeySet { keys })
    }

    /// The claims of a token that one of the keys has signed.
    pub(super) fn verify(&self, text: &str) -> Result<Map<String, Value>, Wrong> {
        install_provider();
        let header = header_of(text)?;
        let of_token =
            |key: &&Key| key.algorithms.contains(&header.alg) && (header.kid.is_none() || key.kid == header.kid);
        let mut found = self.keys.iter().filter(of_token);
        // Without a name there must be no choice.
        let key = match (found.next(), found.next()) {
            (Some(key), None) => key,
            _ => return Err(Wrong::UnknownKey),
        };
        // Claims are checked in token.rs, each with its own error.
        let (message, given) = text.rsplit_once('.').ok_or(Wrong::Malformed)?;
        match jsonwebtoken::crypto::verify(given, message.as_bytes(), &key.key, header.alg) {
            Ok(true) => {}
            Ok(false) => return Err(Wrong::Signature),
            Err(_) => return Err(Wrong::Malformed),
        }
        jsonwebtoken::dangerous::insecure_decode_claims(text).map_err(|_| Wrong::Malformed)
    }
}

impl Key {
    /// `None`: not a public key for signatures, or of a kind that nobody here knows.
    fn parse(value: Value) -> Option<Key> {
        let jwk: Jwk = serde_json::from_value(value).ok()?;
        let signs = jwk.common.public_key_use.as_ref().is_none_or(|used| *used == PublicKeyUse::Signature);
        let kid = jwk.common.key_id.clone();
        if !signs || kid.as_ref().is_some_and(|kid| kid.len() > KID_BYTES_MAX) {
            return None;
        }
        let mut algorithms = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => ALGORITHMS[..6].to_vec(),
            AlgorithmParameters::EllipticCurve(ec) if ec.curve == EllipticCurve::P256 => vec![Algorithm::ES256],
            AlgorithmParameters::EllipticCurve(ec) if ec.curve == EllipticCurve::P384 => vec![Algorithm::ES384],
            AlgorithmParameters::OctetKeyPair(pair) if pair.curve == EllipticCurve::Ed25519 => vec![Algorithm::EdDSA],
            _ => return None,
        };
        if let Some(only) = jwk.common.key_algorithm {
            let only: Algorithm = only.to_string().parse().ok()?;
            algorithms.retain(|algorithm| *algorithm == only);
        }
        let key = DecodingKey::from_jwk(&jwk).ok()?;
        if let DecodingKeyKind::RsaModulusExponent { n, e } = key.kind() {
            if n.len() > MODULUS_BYTES_MAX || e.len() > EXPONENT_BYTES_MAX {
                return None;
            }
        }
        (!algorithms.is_empty()).then_some(Key { kid, algorithms, key })
    }
}

/// Signatures by ring, which the node has for TLS.
static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(ErrorKind::InvalidAlgorithm.into()),
    verifier_factory: |algorithm, key| Ok(Box::new(ByRing { algorithm: *algorithm, key: key.clone() })),
    key_utils: KeyUtils::new_unimplemented(),
};

fn install_provider() {
    // The first call of the process installs it, and the others find it.
    let _ = PROVIDER.install_default();
}

struct ByRing {
    algorithm: Algorithm,
    key: DecodingKey,
}

impl JwtVerifier for ByRing {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Verifier<Vec<u8>> for ByRing {
    fn verify(&self, message: &[u8], given: &Vec<u8>) -> Result<(), signature::Error> {
        self.verify_by_ring(message, given).ok_or_else(signature::Error::new)
    }
}

impl ByRing {
    fn verify_by_ring(&self, message: &[u8], given: &[u8]) -> Option<()> {
        use ring::signature as by;
        let rsa = |parameters| {
            let DecodingKeyKind::RsaModulusExponent { n, e } = self.key.kind() else { return None };
            // ring wants numbers without leading zeros, which some issuers send.
            let trim = |bytes: &[u8]| bytes.iter().copied().skip_while(|byte| *byte == 0).collect::<Vec<u8>>();
            RsaPublicKeyComponents { n: trim(n), e: trim(e) }.verify(parameters, message, given).ok()
        };
        let raw = |algorithm: &'static dyn by::VerificationAlgorithm| {
            let DecodingKeyKind::SecretOrDer(point) = self.key.kind() else { return None };
            UnparsedPublicKey::new(algorithm, point).verify(message, given).ok()
        };
        match self.algorithm {
            Algorithm::RS256 => rsa(&by::RSA_PKCS1_2048_8192_SHA256),
            Algorithm::RS384 => rsa(&by::RSA_PKCS1_2048_8192_SHA384),
            Algorithm::RS512 => rsa(&by::RSA_PKCS1_2048_8192_SHA512),
            Algorithm::PS256 => rsa(&by::RSA_PSS_2048_8192_SHA256),
            Algorithm::PS384 => rsa(&by::RSA_PSS_2048_8192_SHA384),
            Algorithm::PS512 => rsa(&by::RSA_PSS_2048_8192_SHA512),
            Algorithm::ES256 => raw(&by::ECDSA_P256_SHA256_FIXED),
            Algorithm::ES384 => raw(&by::ECDSA_P384_SHA384_FIXED),
            Algorithm::EdDSA => raw(&by::ED25519),
            _ => None,
        }
    }
}
