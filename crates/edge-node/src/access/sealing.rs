//! Sealing keys: what the secrets of S3 keys are sealed with before they are in any row, and opened with to check a signature.
//!
//! ```text
//!   file: a key a line, 64 hexadecimal digits     the first one seals, all of them open
//!   sealed: base64 of nonce (12) ++ ChaCha20-Poly1305(secret) ++ tag (16), bound to the access key and whose it is
//!   nonce: random for a user's key; of an account's key the beginning of HMAC-SHA256(binding, secret), so that the same call
//!          made twice seals the same bytes (decision 0076). The same nonce means the same secret in the same place
//! ```
//!
//! Always: a sealed secret that was moved to another access key, another user or another account does not open
//! (`tests::a_sealed_secret_stays_where_it_is`); no key or secret is in `Debug`.
//! Not here: the rows (base-access, core-s3), who may make keys (the core decides).

use base64::engine::general_purpose::STANDARD;
use base64::Engine as _;
use base_types::{ErrorCode, Refusal};
use ring::aead::{Aad, LessSafeKey, Nonce, UnboundKey, CHACHA20_POLY1305, NONCE_LEN};
use ring::hmac;
use std::path::Path;

/// The environment variable with the keys, where no file is named.
pub const VARIABLE: &str = "HIVE_SEALING_KEYS";
/// The most keys of a node.
pub const KEYS_MAX: usize = 16;
/// Digits of a key.
const KEY_DIGITS: usize = 64;
/// A longer file is none.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// The keys of a node; none is legal.
#[derive(Default)]
pub struct Sealing {
    keys: Vec<SealingKey>,
}

struct SealingKey {
    id: String,
    key: LessSafeKey,
    /// Makes nonces of accounts' secrets.
    nonces: hmac::Key,
}

/// What a secret is bound to.
#[derive(Clone, Copy)]
pub enum Bound<'a> {
    /// Of a user of the directory.
    User { access_key: &'a str, user: &'a str, user_id: u64 },
    /// Of an S3 account. An account's name is given once.
    Account { access_key: &'a str, account: &'a str },
}

impl<'a> Bound<'a> {
    fn access_key(&self) -> &'a str {
        match self {
            Bound::User { access_key, .. } | Bound::Account { access_key, .. } => access_key,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        match self {
            Bound::User { access_key, user, user_id } => {
                format!("hive s3key 1\0{access_key}\0{user}\0{user_id:016x}").into_bytes()
            }
            Bound::Account { access_key, account } => {
                format!("hive s3account key 1\0{access_key}\0{account}").into_bytes()
            }
        }
    }
}

impl std::fmt::Debug for Sealing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|key| &key.id)).finish()
    }
}

impl Sealing {
    /// Out of the file that is named, or else the environment.
    pub fn load(file: Option<&Path>) -> Result<Sealing, String> {
        let Some(file) = file else {
            let text = std::env::var(VARIABLE).unwrap_or_default();
            return Sealing::parse(&text.replace(',', "\n")).map_err(|error| format!("{VARIABLE}: {error}"));
        };
        let shown = file.display();
        let remedy = "make one with `openssl rand -hex 32`, mode 0600, the same on every node of the world";
        let read = || {
            use std::io::Read;
            let mut text = String::new();
            std::fs::File::open(file)?.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
            Ok(text)
        };
        let text =
            read().map_err(|error: std::io::Error| format!("access.sealing_key_file {shown}: {error}; {remedy}"))?;
        let own = Sealing::parse(&text).map_err(|error| format!("access.sealing_key_file {shown}: {error}"))?;
        if own.keys.is_empty() {
            return Err(format!("access.sealing_key_file {shown} has no key; {remedy}"));
        }
        Ok(own)
    }

    /// Out of lines, each a key.
    pub(crate) fn parse(text: &str) -> Result<Sealing, String> {
        let lines = text.lines().map(str::trim).enumerate();
        let mut keys = Vec::new();
        for (at, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            if keys.len() >= KEYS_MAX {
                return Err(format!(
                    "more than {KEYS_MAX} keys; remove those that no row names (`hive key list --json`)"
                ));
            }
            let bytes = from_hexadecimal(line)
                .ok_or_else(|| format!("line {} is no key of {KEY_DIGITS} hexadecimal digits", at + 1))?;
            let key = UnboundKey::new(&CHACHA20_POLY1305, &bytes).map_err(|_| "a key cannot be used".to_string())?;
            let nonces = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &bytes), b"hive sealing nonces");
            let nonces = hmac::Key::new(hmac::HMAC_SHA256, nonces.as_ref());
            keys.push(SealingKey { id: id_of(&bytes), key: LessSafeKey::new(key), nonces });
        }
        Ok(Sealing { keys })
    }

    /// Whether secrets sealed by that key can be opened.
    pub fn opens(&self, id: &str) -> bool {
        self.keys.iter().any(|key| key.id == id)
    }

    /// Whether there is a key to seal by.
    pub fn seals(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Seals a secret: the key's id, and the sealed text.
    pub fn seal(&self, secret: &str, bound: &Bound<'_>) -> Result<(String, String), Refusal> {
        let SealingKey { id, key, nonces } =
            self.keys.first().ok_or_else(|| none("the secret of an S3 key cannot be sealed on this node"))?;
        let nonce = match bound {
            Bound::User { .. } => drawn_nonce()?,
            Bound::Account { .. } => nonce_of(nonces, secret, bound),
        };
        let mut sealed = secret.as_bytes().to_vec();
        let done =
            key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(bound.bytes()), &mut sealed);
        done.map_err(|_| Refusal::new(ErrorCode::Internal, "a secret cannot be sealed"))?;
        Ok((id.clone(), STANDARD.encode([&nonce[..], &sealed].concat())))
    }

    /// Seals any bytes, bound to a text: the key's id, and nonce and sealed bytes.
    pub fn seal_bytes(&self, mut plain: Vec<u8>, binding: &[u8]) -> Result<(String, Vec<u8>), Refusal> {
        let SealingKey { id, key, .. } =
            self.keys.first().ok_or_else(|| none("sessions (STS) cannot be made on this node"))?;
        let mut nonce = [0; NONCE_LEN];
        crate::chance::fill(&mut nonce).map_err(|error| {
            Refusal::new(ErrorCode::NotReady, format!("the operating system gives no random numbers: {error}"))
        })?;
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(binding), &mut plain)
            .map_err(|_| Refusal::new(ErrorCode::Internal, "a session cannot be sealed"))?;
        Ok((id.clone(), [&nonce[..], &plain].concat()))
    }

    /// Opens what `seal_bytes` sealed; `None`: another key or text, or changed.
    pub fn open_bytes(&self, id: &str, mut sealed: Vec<u8>, binding: &[u8]) -> Option<Vec<u8>> {
        let key = self.keys.iter().find(|key| key.id == id).map(|key| &key.key)?;
        let (nonce, rest) = sealed.split_first_chunk_mut::<NONCE_LEN>()?;
        let opened = key.open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(binding), rest);
        opened.ok().map(|plain| plain.to_vec())
    }

    /// Opens a sealed secret.
    pub fn open(&self, id: &str, sealed: &str, bound: &Bound<'_>) -> Result<String, Refusal> {
        let key = self.keys.iter().find(|key| key.id == id).map(|key| &key.key);
        let key = key
            .ok_or_else(|| none(&format!("the secret of S3 key {} was sealed by the key {id}", bound.access_key())))?;
        let damaged = || {
            let message = format!("the sealed secret of S3 key {} does not open; make another key", bound.access_key());
            Refusal::new(ErrorCode::Internal, message)
        };
        let bytes = STANDARD.decode(sealed).map_err(|_| damaged())?;
        let (nonce, rest) = bytes.split_first_chunk::<NONCE_LEN>().ok_or_else(damaged)?;
        let mut rest = rest.to_vec();
        let opened = key.open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(bound.bytes()), &mut rest);
        let opened = opened.map_err(|_| damaged())?;
        String::from_utf8(opened.to_vec()).map_err(|_| damaged())
    }
}

fn drawn_nonce() -> Result<[u8; NONCE_LEN], Refusal> {
    let mut nonce = [0; NONCE_LEN];
    crate::chance::fill(&mut nonce).map_err(|error| {
        let message = format!("the operating system gives no random numbers for a secret: {error}");
        Refusal::new(ErrorCode::NotReady, message)
    })?;
    Ok(nonce)
}

/// The binding has no zero byte but between its parts and is of a known count of them, so nothing else gives the same bytes.
fn nonce_of(nonces: &hmac::Key, secret: &str, bound: &Bound<'_>) -> [u8; NONCE_LEN] {
    let tag = hmac::sign(nonces, &[&bound.bytes()[..], &[0], secret.as_bytes()].concat());
    let mut nonce = [0; NONCE_LEN];
    nonce.iter_mut().zip(tag.as_ref()).for_each(|(own, byte)| *own = *byte);
    nonce
}

/// A new key, as a line of the file.
pub fn draw() -> std::io::Result<String> {
    let mut bytes = [0; KEY_DIGITS / 2];
    crate::chance::fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn none(what: &str) -> Refusal {
    let message = format!(
        "{what}, and this node does not have it: name a file with the world's sealing keys in access.sealing_key_file of its node.toml (or {VARIABLE}), and restart it"
    );
    Refusal::new(ErrorCode::NoSealingKey, message)
}

/// Names a key without telling it.
fn id_of(key: &[u8; 32]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, &[&b"hive sealing key id\0"[..], key].concat());
    digest.as_ref().iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

fn from_hexadecimal(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != KEY_DIGITS || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    const TWO: &str = "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    const ANN: Bound<'static> = Bound::User { access_key: "HIVK01", user: "ann", user_id: 7 };
    const ACCOUNT: Bound<'static> = Bound::Account { access_key: "HIVE01", account: "ann" };

    #[test]
    fn a_sealed_secret_stays_where_it_is() {
        let own = Sealing::parse(ONE).unwrap();
        let (id, sealed) = own.seal("secret", &ANN).unwrap();
        assert_eq!(own.open(&id, &sealed, &ANN).unwrap(), "secret");
        assert_ne!(own.seal("secret", &ANN).unwrap().1, sealed, "a nonce is drawn each time");
        let user = |access_key, user, user_id| Bound::User { access_key, user, user_id };
        let others = [user("HIVK02", "ann", 7), user("HIVK01", "bob", 7), user("HIVK01", "ann", 8), ACCOUNT];
        for other in others {
            assert!(own.open(&id, &sealed, &other).is_err());
        }
        for bad in ["", "!", "AAAA", &sealed[..sealed.len() - 4], &sealed.replace(&sealed[20..24], "AAAA")] {
            assert!(own.open(&id, bad, &ANN).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_accounts_secret_seals_to_the_same_bytes() {
        let own = Sealing::parse(ONE).unwrap();
        let (id, sealed) = own.seal("secret", &ACCOUNT).unwrap();
        assert_eq!(own.seal("secret", &ACCOUNT).unwrap().1, sealed);
        assert_eq!(own.open(&id, &sealed, &ACCOUNT).unwrap(), "secret");
        let account = |access_key, account| Bound::Account { access_key, account };
        for other in [account("HIVE02", "ann"), account("HIVE01", "bob"), ANN] {
            assert!(own.open(&id, &sealed, &other).is_err());
            assert_ne!(own.seal("secret", &other).unwrap().1[..16], sealed[..16], "no nonce twice");
        }
        assert_ne!(own.seal("secrets", &ACCOUNT).unwrap().1[..16], sealed[..16]);
        assert_ne!(Sealing::parse(TWO).unwrap().seal("secret", &ACCOUNT).unwrap().1[..16], sealed[..16]);
    }

    #[test]
    fn the_first_key_seals_and_all_open() {
        let old = Sealing::parse(ONE).unwrap();
        let (id, sealed) = old.seal("secret", &ANN).unwrap();
        let both = Sealing::parse(&format!("# the new one\n{TWO}\n\n{ONE}\n")).unwrap();
        assert_eq!(both.open(&id, &sealed, &ANN).unwrap(), "secret");
        let (new, _) = both.seal("secret", &ANN).unwrap();
        assert!(new != id && both.opens(&new) && !old.opens(&new));
        let refusal = Sealing::parse(TWO).unwrap().open(&id, &sealed, &ANN).unwrap_err();
        assert_eq!(refusal.code, ErrorCode::NoSealingKey);
        assert_eq!(Sealing::default().seal("s", &ANN).unwrap_err().code, ErrorCode::NoSealingKey);
        assert!(!format!("{both:?}").contains("0102"));
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for bad in ["00", &ONE[1..], &ONE.replace('a', "g"), &format!("{ONE}\n").repeat(KEYS_MAX + 1)] {
            assert!(Sealing::parse(bad).is_err(), "{bad}");
        }
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("keys");
        assert!(Sealing::load(Some(&file)).unwrap_err().contains("openssl rand -hex 32"));
        std::fs::write(&file, "# none\n").unwrap();
        assert!(Sealing::load(Some(&file)).unwrap_err().contains("has no key"));
        std::fs::write(&file, ONE).unwrap();
        assert!(Sealing::load(Some(&file)).is_ok());
    }
}
