//! Tokens of the etcd door: what `Authenticate` gives, and what the calls after it show.
//!
//! ```text
//!   HVE1.<sealing key's id>.<base64url: nonce (12) ++ ChaCha20-Poly1305 of JSON ++ tag (16)>
//!   JSON: the credential, the namespace, the end
//! ```
//! Always: a token says who and where, and nothing of what is allowed: that is looked up at each use, so a user that is revoked has lost
//! its tokens, too (`tests::a_token_names_a_credential_and_a_namespace`). One that was changed does not open
//! (`tests::what_is_none_or_was_changed_does_not_open`).
//! Where the node has a sealing key (`access.sealing_key_file`) its tokens are good at every node with that key; else the key is
//! drawn at start, and another node answers "invalid auth token", upon which etcd's clients authenticate again.

use crate::access::sealing::Sealing;
use crate::access::AccessHub;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::Engine as _;
use base_types::Refusal;
use serde::{Deserialize, Serialize};

/// What tokens begin with: their format.
const MARK: &str = "HVE1";
/// What the sealed bytes are bound to, so that nothing else that was sealed passes for them.
const BINDING: &[u8] = b"hive etcd token 1";
/// How long a token counts: as long as etcd's own.
pub const TOKEN_TTL_MS: u64 = 300_000;

/// What is sealed.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct Told {
    /// The credential that was proved; none in a world that asks nobody.
    pub credential: Option<u64>,
    /// The namespace that was picked by the user's name.
    pub namespace: Option<String>,
    /// From when it counts for nothing, Unix milliseconds.
    pub expires_ms: u64,
}

/// Makes tokens and opens them.
pub struct Tokens {
    /// Of this process, where the node has no sealing key.
    own: Sealing,
}

impl Tokens {
    /// With a key of this process.
    pub fn new() -> Result<Tokens, String> {
        let line = crate::access::sealing::draw().map_err(|error| format!("no random numbers: {error}"))?;
        Ok(Tokens { own: Sealing::parse(&line)? })
    }

    fn sealing<'a>(&'a self, access: &'a AccessHub) -> &'a Sealing {
        match access.sealing.seals() {
            true => &access.sealing,
            false => &self.own,
        }
    }

    /// A token.
    pub fn seal(&self, access: &AccessHub, told: &Told) -> Result<String, Refusal> {
        let plain = serde_json::to_vec(told).unwrap_or_default(); // Numbers and a text.
        let (id, sealed) = self.sealing(access).seal_bytes(plain, BINDING)?;
        Ok(format!("{MARK}.{id}.{}", URL_SAFE_NO_PAD.encode(sealed)))
    }

    /// What a token says; `None`: it is none of ours, was changed, or has ended.
    pub fn open(&self, access: &AccessHub, token: &str, now_ms: u64) -> Option<Told> {
        let mut parts = token.split('.');
        let (mark, id, sealed) = (parts.next()?, parts.next()?, parts.next()?);
        if mark != MARK || parts.next().is_some() {
            return None;
        }
        let sealed = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let plain = self.sealing(access).open_bytes(id, sealed, BINDING)?;
        let told: Told = serde_json::from_slice(&plain).ok()?;
        (told.expires_ms > now_ms).then_some(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::AccessSection;
    use std::sync::Arc;

    fn hub(home: &std::path::Path) -> Arc<AccessHub> {
        AccessHub::open(&AccessSection::default(), home.into(), "w", &[], Default::default()).0
    }

    #[test]
    fn a_token_names_a_credential_and_a_namespace() {
        let home = tempfile::tempdir().unwrap();
        let (access, tokens) = (hub(home.path()), Tokens::new().unwrap());
        let told = Told { credential: Some(7), namespace: Some("team".into()), expires_ms: 1_000 };
        let token = tokens.seal(&access, &told).unwrap();
        assert_eq!(tokens.open(&access, &token, 999), Some(told));
        assert_eq!(tokens.open(&access, &token, 1_000), None, "it has expired");
        assert!(!token.contains("team"), "it is sealed");
    }

    #[test]
    fn what_is_none_or_was_changed_does_not_open() {
        let home = tempfile::tempdir().unwrap();
        let (access, tokens) = (hub(home.path()), Tokens::new().unwrap());
        let told = Told { credential: Some(7), namespace: None, expires_ms: 1_000 };
        let token = tokens.seal(&access, &told).unwrap();
        for at in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            // The last character of base64 may have bits that say nothing: another one is taken far from it.
            changed[at] = if changed[at] == b'A' { b'q' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(tokens.open(&access, &changed, 1), None, "changed at {at}");
        }
        for none in ["", "HVE1", "HVE1..", "HVE1.0.0", &token[1..], &format!("{token}.x"), &token[..token.len() - 4]] {
            assert_eq!(tokens.open(&access, none, 1), None, "{none}");
        }
        // Another process' key.
        assert_eq!(Tokens::new().unwrap().open(&access, &token, 1), None);
    }
}
