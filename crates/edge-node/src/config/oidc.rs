//! `[[access.oidc]]`: the issuers whose tokens are believed.
//!
//! By design: an issuer is an HTTPS URL, or one of this machine; each is named once.
//! Not here: which of an issuer's groups may do what: rows of the directory (docs/decisions/0074).

use super::check::Checker;
use super::{AccessSection, ConfigError};
use hyper::Uri;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The most issuers.
const ISSUERS_MAX: usize = 8;
/// The longest text of a setting.
const TEXT_BYTES_MAX: usize = base_access::CLAIM_BYTES_MAX;

/// An issuer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OidcSection {
    /// As its tokens name it (`iss`); its discovery document is below.
    pub issuer: String,
    /// What its tokens for this world have as `aud`.
    pub audience: String,
    /// The claim that names a user's groups: a list of texts, or one text.
    #[serde(default = "groups")]
    pub groups_claim: String,
    /// The claim that names a user in messages. Rights and accounts hang on `sub`, whatever this is.
    #[serde(default = "sub")]
    pub username_claim: String,
    /// Authorities in PEM that its certificate is of, relative to node.toml; the system's where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
}

impl OidcSection {
    /// With the usual claims, and the system's authorities.
    pub fn new(issuer: &str, audience: &str) -> OidcSection {
        OidcSection {
            issuer: issuer.into(),
            audience: audience.into(),
            groups_claim: groups(),
            username_claim: sub(),
            ca: None,
        }
    }
}

fn groups() -> String {
    "groups".into()
}

fn sub() -> String {
    "sub".into()
}

/// Checks the issuers, and resolves their paths.
pub(super) fn check(checker: &Checker<'_>, access: &mut AccessSection) -> Result<(), ConfigError> {
    if !access.oidc.is_empty() && !access.required {
        return checker.refuse(
            "[[access.oidc]] names an issuer, and access.required is false".into(),
            "set required = true in [access] on every node of the world, or remove the issuer",
        );
    }
    if access.oidc.len() > ISSUERS_MAX {
        return checker
            .refuse(format!("access.oidc has {} issuers", access.oidc.len()), &format!("name at most {ISSUERS_MAX}"));
    }
    for at in 0..access.oidc.len() {
        let issuer = &access.oidc[at].issuer;
        let line = checker.line(&format!("issuer = \"{issuer}\""), 0);
        let wrong = Place::of(issuer)
            .err()
            .or_else(|| issuer.contains(['?', '#']).then(|| "an issuer has neither query nor fragment".into()));
        if let Some(wrong) = wrong {
            return checker.refuse(
                format!("{line}access.oidc.issuer {issuer:?}: {wrong}"),
                "write it as its tokens have it (iss)",
            );
        }
        if access.oidc[..at].iter().any(|earlier| earlier.issuer == *issuer) {
            return checker.refuse(format!("{line}access.oidc names {issuer} twice"), "name each issuer once");
        }
        let own = &access.oidc[at];
        let texts = [
            ("issuer", &own.issuer),
            ("audience", &own.audience),
            ("groups_claim", &own.groups_claim),
            ("username_claim", &own.username_claim),
        ];
        if let Some((key, text)) = texts.iter().find(|(_, text)| !(1..=TEXT_BYTES_MAX).contains(&text.len())) {
            return checker.refuse(
                format!("access.oidc.{key} of {issuer} has {} bytes", text.len()),
                &format!("write 1 to {TEXT_BYTES_MAX} bytes"),
            );
        }
        let ca = access.oidc[at].ca.take().map(|ca| checker.resolve(&ca));
        access.oidc[at].ca = ca;
    }
    Ok(())
}

/// Where a document of an issuer is: HTTPS, or plain HTTP on this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    pub host: String,
    pub port: u16,
    pub tls: bool,
    pub uri: Uri,
}

impl Place {
    /// Out of a URL.
    pub fn of(url: &str) -> Result<Place, String> {
        let uri: Uri = url.parse().map_err(|error| format!("no URL: {error}"))?;
        let host = uri.host().unwrap_or("").trim_matches(['[', ']']).to_string();
        let local = host == "localhost" || host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback());
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") if local => false,
            _ => return Err("an https:// URL is needed (http:// from this machine alone)".into()),
        };
        let named = uri.authority().is_some_and(|authority| !authority.as_str().contains('@'));
        if host.is_empty() || !named {
            return Err("a URL with a host and without a user is needed".into());
        }
        let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
        Ok(Place { host, port, tls, uri })
    }
}
