//! OIDC: whom the issuers of node.toml vouch for.
//!
//! ```text
//!   thread `hive-oidc`: discovery, keys (fetch.rs) ──▶ Issuer.keys ◀── a request with an unknown key asks for newer ones
//!   Bearer <JWT> ──▶ token.rs: peek at `iss` ──▶ Issuer ──▶ signature, audience, times ──▶ Claims ──▶ OidcUser
//! ```
//!
//! ```text
//!   token.rs   one token: what it must be      keys.rs   an issuer's keys, and signatures by ring
//!   fetch.rs   two documents over HTTPS      kept.rs   the keys on disk, for a start without the issuer
//! ```
//!
//! Always: before a signature is checked, work is bounded by [`token::TOKEN_BYTES_MAX`] and nothing grows; an issuer is asked at most
//! once in [`FETCH_EVERY_MIN`], whatever clients send; keys count for [`KEYS_LIMIT`] after the issuer last gave them, across restarts
//! (`tests::kept_keys_are_no_younger`), and no log line has more than [`REASON_BYTES_MAX`] bytes of what it said.
//! Not here: groups and roles (base-access), the settings' checks (config/oidc.rs).
//! Why: docs/decisions/0074-oidc-groups-are-rows-of-the-directory.md.

mod fetch;
pub mod kept;
pub mod keys;
pub mod token;

use super::AccessHub;
use crate::config::OidcSection;
use crate::monitor::unix_ms;
use arc_swap::ArcSwap;
use base_access::account_of_oidc;
use base_types::access::{Caller, OidcUser};
use base_types::{ErrorCode, Refusal};
use fetch::Fetched;
use kept::{Given, Kept};
use keys::KeySet;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;
use token::{Claims, Wrong};
use tokio::sync::{watch, Notify};

/// An issuer's keys are fetched again so often.
const FETCH_EVERY: Duration = Duration::from_secs(600);
/// And at most so often, also where tokens name keys that nobody knows, and where the issuer does not answer.
pub const FETCH_EVERY_MIN: Duration = Duration::from_secs(10);
/// How long keys count that the issuer gave last.
pub const KEYS_LIMIT: Duration = Duration::from_secs(24 * 3_600);
/// How long a request with an unknown key waits for newer ones.
const NEWER_KEYS_WAIT: Duration = Duration::from_secs(2);
/// The most of an issuer's own words in a log line.
pub const REASON_BYTES_MAX: usize = 512;

/// Those of node.toml.
#[derive(Default)]
pub struct Issuers {
    list: Vec<Arc<Issuer>>,
    kept: Arc<Kept>,
}

/// One of them.
pub struct Issuer {
    section: OidcSection,
    keys: ArcSwap<KeySet>,
    /// When it last gave keys, Unix milliseconds; zero: never.
    given_ms: AtomicU64,
    /// When it was last asked, and answered or not.
    asked_ms: AtomicU64,
    wanted: Notify,
    /// How often it was asked.
    asked: watch::Sender<u64>,
}

/// Somebody that an issuer vouches for, by its groups of this moment.
#[derive(Clone, Debug)]
pub struct Vouched {
    pub issuer: String,
    pub claims: Claims,
    pub user: OidcUser,
}

impl Issuers {
    /// Of these sections, with the keys that are kept in the data directory; the warning says why there are none, where a file is there.
    pub fn open(sections: &[OidcSection], data: &Path) -> (Issuers, Option<String>) {
        if sections.is_empty() {
            return (Issuers::default(), None);
        }
        let names: Vec<&str> = sections.iter().map(|section| section.issuer.as_str()).collect();
        let (kept, mut warning) = Kept::open(data, &names);
        let now_ms = unix_ms();
        let issuer = |section: &OidcSection| {
            let given = kept.of(&section.issuer);
            let parsed = given.as_ref().map(|given| KeySet::parse(given.document.as_bytes()));
            let (keys, given_ms) = match (parsed, given) {
                (Some(Ok(keys)), Some(given)) => (keys, given.given_ms.min(now_ms)),
                (Some(Err(reason)), _) => {
                    let reason = bounded(&reason);
                    warning = Some(format!("{}: the keys of {} are not read: {reason}", kept::FILE, section.issuer));
                    (KeySet::default(), 0)
                }
                _ => (KeySet::default(), 0),
            };
            Arc::new(Issuer {
                section: section.clone(),
                keys: ArcSwap::from_pointee(keys),
                given_ms: AtomicU64::new(given_ms),
                asked_ms: AtomicU64::new(0),
                wanted: Notify::new(),
                asked: watch::Sender::new(0),
            })
        };
        let list = sections.iter().map(issuer).collect();
        (Issuers { list, kept: Arc::new(kept) }, warning)
    }

    /// Whether this node believes no issuer.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether this node believes this issuer.
    pub fn knows(&self, issuer: &str) -> bool {
        self.list.iter().any(|own| own.section.issuer == issuer)
    }

    /// What its tokens for this world have as `aud`.
    pub fn audience_of(&self, issuer: &str) -> String {
        let own = self.list.iter().find(|own| own.section.issuer == issuer);
        own.map_or(String::new(), |own| own.section.audience.clone())
    }

    /// What a token says, once all of it is checked.
    async fn claims(&self, text: &str) -> Result<(&Issuer, Claims), Wrong> {
        let named = token::issuer_of(text)?;
        let issuer = self.list.iter().find(|own| own.section.issuer == named).ok_or(Wrong::Issuer)?;
        let mut claims = issuer.check(text);
        if claims == Err(Wrong::UnknownKey) && issuer.newer_keys().await {
            claims = issuer.check(text);
        }
        Ok((&**issuer, claims?))
    }

    /// Keeps the keys fresh until `stop` is true.
    pub fn run(hub: &AccessHub, mut stop: watch::Receiver<bool>) {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                tracing::error!(%error, "the thread that fetches keys of OIDC issuers could not start, so this node gets no new keys: restart this node");
                return;
            }
        };
        runtime.block_on(async {
            for issuer in &hub.issuers.list {
                tokio::spawn(issuer.clone().keep_fresh(hub.issuers.kept.clone()));
            }
            let _ = stop.wait_for(|stop| *stop).await;
        });
    }
}

impl Issuer {
    fn check(&self, text: &str) -> Result<Claims, Wrong> {
        let keys = self.keys.load();
        let now_ms = unix_ms();
        let given_ms = self.given_ms.load(Ordering::Relaxed);
        if given_ms == 0 {
            return Err(Wrong::UnknownKey);
        }
        if now_ms.saturating_sub(given_ms) > KEYS_LIMIT.as_millis() as u64 {
            return Err(Wrong::Unreachable);
        }
        token::check(text, &keys, &self.section, now_ms / 1_000)
    }

    /// Asks for newer keys and waits a moment for them. Whether the issuer was asked.
    async fn newer_keys(&self) -> bool {
        let mut asked = self.asked.subscribe();
        asked.mark_unchanged();
        let since = unix_ms().saturating_sub(self.asked_ms.load(Ordering::Relaxed));
        self.wanted.notify_one();
        if since < FETCH_EVERY_MIN.as_millis() as u64 {
            // It was asked a moment ago: what it did not have then, nobody waits for.
            return false;
        }
        matches!(tokio::time::timeout(NEWER_KEYS_WAIT, asked.changed()).await, Ok(Ok(())))
    }

    async fn keep_fresh(self: Arc<Issuer>, kept: Arc<Kept>) {
        let mut silent = false;
        loop {
            let fetched = fetch::keys(&self.section).await;
            self.note(fetched, &kept, &mut silent);
            tokio::time::sleep(FETCH_EVERY_MIN).await;
            if !silent {
                let _ = tokio::time::timeout(FETCH_EVERY - FETCH_EVERY_MIN, self.wanted.notified()).await;
            }
        }
    }

    fn note(&self, fetched: Result<Fetched, String>, kept: &Kept, silent: &mut bool) {
        let (issuer, now_ms) = (&self.section.issuer, unix_ms());
        match fetched {
            Ok(Fetched { keys, document }) => {
                if std::mem::take(silent) {
                    tracing::info!(issuer, "the OIDC issuer gives keys again");
                }
                self.keys.store(Arc::new(keys));
                self.given_ms.store(now_ms, Ordering::Relaxed);
                if let Err(error) = kept.keep(issuer, Given { given_ms: now_ms, document }) {
                    tracing::error!(%error, file = kept::FILE, "the keys of OIDC issuers cannot be written: after a restart this node takes no token of theirs until they answer; make room on the disk");
                }
            }
            Err(reason) if !std::mem::replace(silent, true) => {
                let hours = KEYS_LIMIT.as_secs() / 3_600;
                tracing::warn!(issuer, reason = bounded(&reason), "the OIDC issuer gives no keys; this node checks its tokens by the last keys for {hours} h: check the issuer, the network and access.oidc of node.toml");
            }
            Err(_) => {}
        }
        self.asked_ms.store(now_ms, Ordering::Relaxed);
        self.asked.send_modify(|asked| *asked += 1);
    }
}

/// The beginning of a text that others wrote, on one line.
pub fn bounded(text: &str) -> String {
    let mut shown = String::new();
    for character in text.chars().flat_map(char::escape_debug) {
        if shown.len() + character.len_utf8() > REASON_BYTES_MAX {
            return shown + "…";
        }
        shown.push(character);
    }
    shown
}

impl AccessHub {
    /// Who a token of an issuer is of.
    pub async fn vouched(&self, text: &str) -> Result<Vouched, Wrong> {
        let (issuer, claims) = self.issuers.claims(text).await?;
        let issuer = issuer.section.issuer.clone();
        let groups = self.directory().groups_of(&issuer, claims.groups.iter().map(String::as_str));
        let user = OidcUser {
            name: format!("oidc:{}", claims.name),
            account: account_of_oidc(&issuer, &claims.subject),
            groups,
            expires_ms: claims.expires_ms,
        };
        Ok(Vouched { issuer, claims, user })
    }

    /// The caller of a request with such a token.
    pub(super) async fn oidc(&self, text: &str) -> Result<Caller, Refusal> {
        let vouched = self.vouched(text).await;
        let vouched = vouched.map_err(|wrong| Refusal::new(ErrorCode::Unauthenticated, wrong.to_string()))?;
        self.check_age(unix_ms())?;
        Ok(Caller::Oidc { user: Arc::new(vouched.user), decided_at: None })
    }
}

#[cfg(test)]
mod tests;
