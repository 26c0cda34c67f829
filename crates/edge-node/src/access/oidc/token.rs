//! One token of an OIDC issuer: what it must be before it counts.
//!
//! Always: a token is refused before it is read if it has more than [`TOKEN_BYTES_MAX`] bytes; its algorithm is one of
//! [`keys::ALGORITHMS`], and the one of the key (`tests::algorithms_are_listed`); issuer, audience, end, begin and making are
//! checked, and a claim of another type than it must have refuses the token (`tests::claims_of_another_type_are_refused`).
//! Nothing here waits, logs or keeps anything.
//! Not here: where keys come from (fetch.rs), which groups give what (base-access).
//!
//! [`keys::ALGORITHMS`]: super::keys::ALGORITHMS

use super::keys::{self, KeySet};
use crate::config::OidcSection;
use serde::Deserialize;
use serde_json::{Map, Value};

/// The longest token.
pub const TOKEN_BYTES_MAX: usize = 16 << 10;
/// How far an issuer's clock may be from this node's, seconds.
pub const SKEW_S: u64 = 60;
/// The longest subject (OpenID Connect Core, 2).
pub const SUBJECT_BYTES_MAX: usize = 255;
/// The most groups of one token.
pub const GROUPS_MAX: usize = 1_000;
/// The longest name that messages show.
const NAME_CHARS_MAX: usize = 128;

/// What a token says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claims {
    pub subject: String,
    /// What messages call it.
    pub name: String,
    /// As the issuer calls them.
    pub groups: Vec<String>,
    pub expires_ms: u64,
}

/// Why a token counts for nothing. The texts hold nothing of the token but what an operator of the issuer has named.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Wrong {
    #[error("the token has more than {TOKEN_BYTES_MAX} bytes; let the issuer put fewer groups into it")]
    Long,
    #[error("the bearer token is neither one of Hive's (hive_ and 81 characters) nor a signed JWT with a known algorithm (RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, EdDSA)")]
    Malformed,
    #[error("no issuer of access.oidc in node.toml is the one that the token names (iss)")]
    Issuer,
    #[error("the token names a key (kid) that its issuer does not have, or the issuer has not given its keys yet; get another token, or retry after 10 s")]
    UnknownKey,
    #[error("this node has not reached the token's issuer for 24 h, and takes no token by older keys; check the issuer and the network")]
    Unreachable,
    #[error("the token's signature is not its issuer's")]
    Signature,
    #[error("the token is meant for somebody else: its aud is not the audience of access.oidc in node.toml")]
    Audience,
    #[error("the token has expired; get another one from its issuer")]
    Expired,
    #[error("the token is not valid yet (nbf or iat); check the clocks of this node and of the issuer")]
    Early,
    #[error("the token's claim {0} is absent or not what it must be")]
    Claim(String),
}

/// The issuer that a token names. Nobody has vouched for it yet.
pub fn issuer_of(text: &str) -> Result<String, Wrong> {
    #[derive(Deserialize)]
    struct Peek {
        iss: String,
    }
    if text.len() > TOKEN_BYTES_MAX {
        return Err(Wrong::Long);
    }
    keys::header_of(text)?;
    let peek = jsonwebtoken::dangerous::insecure_decode_claims::<Peek>(text);
    peek.map(|peek| peek.iss).map_err(|_| Wrong::Malformed)
}

/// Checks all of a token.
pub fn check(text: &str, keys: &KeySet, issuer: &OidcSection, now_s: u64) -> Result<Claims, Wrong> {
    if text.len() > TOKEN_BYTES_MAX {
        return Err(Wrong::Long);
    }
    let claims = keys.verify(text)?;
    if text_of(&claims, "iss")? != issuer.issuer {
        return Err(Wrong::Issuer);
    }
    check_audience(&claims, &issuer.audience)?;
    let expires_s = check_times(&claims, now_s)?;
    let subject = text_of(&claims, "sub")?;
    if !(1..=SUBJECT_BYTES_MAX).contains(&subject.len()) {
        return Err(Wrong::Claim("sub".into()));
    }
    let name = text_of(&claims, &issuer.username_claim)?;
    Ok(Claims {
        subject: subject.into(),
        name: name.chars().flat_map(char::escape_debug).take(NAME_CHARS_MAX).collect(),
        groups: groups_of(&claims, &issuer.groups_claim)?,
        expires_ms: expires_s.saturating_mul(1_000),
    })
}

fn text_of<'c>(claims: &'c Map<String, Value>, name: &str) -> Result<&'c str, Wrong> {
    claims.get(name).and_then(Value::as_str).ok_or_else(|| Wrong::Claim(name.into()))
}

fn check_audience(claims: &Map<String, Value>, audience: &str) -> Result<(), Wrong> {
    let is_own = match claims.get("aud") {
        Some(Value::String(one)) => one == audience,
        Some(Value::Array(all)) => all.iter().any(|one| one.as_str() == Some(audience)),
        _ => return Err(Wrong::Claim("aud".into())),
    };
    is_own.then_some(()).ok_or(Wrong::Audience)
}

/// When it ends, seconds since 1970.
fn check_times(claims: &Map<String, Value>, now_s: u64) -> Result<u64, Wrong> {
    let expires_s = time_of(claims, "exp")?.ok_or_else(|| Wrong::Claim("exp".into()))?;
    if expires_s.saturating_add(SKEW_S) <= now_s {
        return Err(Wrong::Expired);
    }
    for name in ["nbf", "iat"] {
        if time_of(claims, name)?.is_some_and(|begins_s| begins_s > now_s.saturating_add(SKEW_S)) {
            return Err(Wrong::Early);
        }
    }
    Ok(expires_s)
}

/// A time in seconds; parts of a second are dropped.
fn time_of(claims: &Map<String, Value>, name: &str) -> Result<Option<u64>, Wrong> {
    match claims.get(name) {
        None => Ok(None),
        Some(Value::Number(number)) => match (number.as_u64(), number.as_f64()) {
            (Some(seconds), _) => Ok(Some(seconds)),
            (None, Some(seconds)) if (0.0..1e15).contains(&seconds) => Ok(Some(seconds as u64)),
            _ => Err(Wrong::Claim(name.into())),
        },
        Some(_) => Err(Wrong::Claim(name.into())),
    }
}

/// A text, or a list of texts; none where the claim is absent.
fn groups_of(claims: &Map<String, Value>, name: &str) -> Result<Vec<String>, Wrong> {
    let wrong = || Wrong::Claim(name.into());
    match claims.get(name) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(one)) => Ok(vec![one.clone()]),
        Some(Value::Array(all)) if all.len() <= GROUPS_MAX => {
            all.iter().map(|one| one.as_str().map(String::from).ok_or_else(wrong)).collect()
        }
        Some(_) => Err(wrong()),
    }
}
