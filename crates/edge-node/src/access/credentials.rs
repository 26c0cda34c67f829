//! From a request's head to who asks.
//!
//! ```text
//!   Authorization: Bearer hive_…      a token
//!   Authorization: Bearer …           a token of an OIDC issuer (oidc.rs)
//!   Authorization: Basic user:secret  a password, or a token of that user
//!   a client certificate              the user that it names (tls.rs has verified it)
//! ```
//!
//! Always: before a credential is proved, work is constant: one hash, one look into a table; a password has a queue of its own
//! (passwords.rs). A header that says something wrong is refused, never ignored.
//! Held by: `credentials_are_proved`, `expired_tokens_count_for_nothing`.
//! Not here: what they may do (the core decides).

use super::AccessHub;
use base64::Engine as _;
use base_access::Token;
use base_types::access::Caller;
use base_types::{ErrorCode, Refusal};
use hyper::header::{HeaderValue, AUTHORIZATION};
use hyper::HeaderMap;

/// What a client that gave nothing, or nothing that counts, reads.
pub const CHALLENGE: &str = "Bearer realm=\"hive\", Basic realm=\"hive\"";
/// The longest `Authorization` that is looked at, but for tokens of OIDC issuers.
const HEADER_BYTES_MAX: usize = 4_096;
/// What tokens of Hive's begin with.
const OWN_MARK: &str = "hive_";

fn refuse(message: &str) -> Refusal {
    Refusal::new(ErrorCode::Unauthenticated, message)
}

impl AccessHub {
    /// Who asks. `certificate`: the user that a verified client certificate names.
    pub async fn caller(&self, headers: &HeaderMap, certificate: Option<&str>) -> Result<Caller, Refusal> {
        if !self.required() {
            return Ok(Caller::Anyone);
        }
        let mut given = headers.get_all(AUTHORIZATION).iter();
        let (first, second) = (given.next(), given.next());
        if second.is_some() {
            return Err(refuse("the request has two Authorization headers; send one"));
        }
        let long = || {
            refuse("the Authorization header is not printable text of at most 4,096 bytes; send `Bearer` and a token")
        };
        let Some(header) = first else {
            return match certificate {
                Some(user) => self.user_of_certificate(user),
                None => Ok(Caller::Anyone),
            };
        };
        let text = header.to_str().ok().ok_or_else(long)?;
        let (scheme, rest) = text.split_once(' ').unwrap_or((text, ""));
        let rest = rest.trim();
        let bearer = scheme.eq_ignore_ascii_case("bearer");
        if bearer && !self.issuers.is_empty() && !rest.starts_with(OWN_MARK) {
            return self.oidc(rest).await;
        }
        if text.len() > HEADER_BYTES_MAX {
            return Err(long());
        }
        if bearer {
            let token = Token::parse(rest);
            let token = token.ok_or_else(|| {
                refuse("the bearer token is no token of Hive's: it begins with hive_ and has 86 characters; send one that `hive token create` printed")
            })?;
            return self.token(&token).await;
        }
        if scheme.eq_ignore_ascii_case("basic") {
            return self.basic(rest).await;
        }
        Err(refuse("the Authorization header is neither Bearer with a token nor Basic with a user and a password; send one of them"))
    }

    /// The user that a verified client certificate names.
    pub(crate) fn user_of_certificate(&self, user: &str) -> Result<Caller, Refusal> {
        match self.directory().user(user) {
            Some(row) => self.let_in(row.id),
            None => Err(refuse("the client certificate names a user that does not exist; `hive user create` makes it")),
        }
    }

    /// By a bearer token alone: of Hive's own, or what an OIDC issuer gave. For doors that have no headers.
    pub async fn bearer(&self, token: &str) -> Result<Caller, Refusal> {
        let value = HeaderValue::try_from(format!("Bearer {token}"));
        let mut headers = HeaderMap::new();
        headers.insert(
            AUTHORIZATION,
            value.map_err(|_| refuse("the token is no printable text; send one that `hive token create` printed"))?,
        );
        self.caller(&headers, None).await
    }

    async fn token(&self, token: &Token) -> Result<Caller, Refusal> {
        if !self.directory().proves(token) {
            // It may have been made a moment ago, through another node.
            let known = self.directory().identity(token.id).is_some();
            if known || !self.newer().await || !self.directory().proves(token) {
                return Err(refuse(
                    "the token counts for nothing: it was revoked, it has expired, or it is another world's; make another one (`hive token create`)",
                ));
            }
        }
        self.let_in(token.id)
    }

    async fn basic(&self, encoded: &str) -> Result<Caller, Refusal> {
        let wrong = || refuse("the user or the password is wrong; check both, or use a token (`hive token create`)");
        let decoded = base64::engine::general_purpose::STANDARD.decode(encoded).ok();
        let decoded = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
        let decoded = decoded.ok_or_else(|| {
            refuse("the Authorization header's Basic part is no base64 of user:password; encode it again")
        })?;
        let (user, password) = decoded.split_once(':').ok_or_else(wrong)?;
        self.password(user, password).await
    }

    /// A user by its password, or by a token of its own in the place of one: for clients that know only passwords.
    pub async fn password(&self, user: &str, password: &str) -> Result<Caller, Refusal> {
        let wrong = || refuse("the user or the password is wrong; check both, or use a token (`hive token create`)");
        if let Some(token) = Token::parse(password) {
            let caller = self.token(&token).await?;
            let directory = self.directory();
            let own = directory.identity(token.id).is_some_and(|identity| &*identity.user == user);
            return if own { Ok(caller) } else { Err(wrong()) };
        }
        let known = self.directory().user(user).and_then(|row| Some((row.id, row.password.clone()?)));
        let hash = known.as_ref().map(|(_, hash)| hash.as_str());
        match (self.passwords.verify(password, hash).await?, &known) {
            (true, Some((id, _))) => self.let_in(*id),
            _ => Err(wrong()),
        }
    }

    /// Refuses to let anybody in by a copy that is too old.
    pub(super) fn check_age(&self, now_ms: u64) -> Result<(), Refusal> {
        if self.is_stale(now_ms) {
            let hours = now_ms.saturating_sub(self.confirmed_ms()) / 3_600_000;
            let message = format!(
                "this node last heard from the world's directory of users {hours} hours ago, which is longer than access.stale_limit_hours; ask another node, or mend the world's clusters (`hive ctl status`)"
            );
            return Err(Refusal::new(ErrorCode::DirectoryStale, message));
        }
        Ok(())
    }

    /// A credential that is proved, if it still counts.
    fn let_in(&self, credential: u64) -> Result<Caller, Refusal> {
        let now_ms = crate::monitor::unix_ms();
        self.check_age(now_ms)?;
        let directory = self.directory();
        let identity = directory.identity(credential);
        let identity = identity.ok_or_else(|| refuse("the user is disabled or does not exist any more; enable it (`hive user enable`), or ask as another user"))?;
        if identity.expires_ms.is_some_and(|expires_ms| expires_ms <= now_ms) {
            return Err(refuse("the token has expired; make another one (`hive token create`)"));
        }
        Ok(Caller::Identity { credential, decided_at: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{AccessHub, Keeper};
    use base_access::{Binding, Directory, Row, RowBody, TokenRow, UserRow};
    use std::collections::BTreeMap;
    use std::sync::Arc;

    fn section(required: bool) -> crate::config::AccessSection {
        crate::config::AccessSection { required, ..Default::default() }
    }

    fn hub(home: &std::path::Path, required: bool) -> (Arc<AccessHub>, Keeper) {
        let (hub, keeper, warning) = AccessHub::open(&section(required), home.into(), "w", &[], Default::default());
        assert_eq!(warning, None);
        (hub, keeper)
    }

    fn rows(password: Option<String>, expires_ms: Option<u64>) -> (Token, BTreeMap<String, Row>) {
        let token = Token::new(77, [5; 32]);
        let alice = UserRow {
            id: 7,
            service: false,
            tenant: None,
            roles: vec![Binding { role: "reader".into(), on: None }],
            password,
            disabled: false,
            namespace: None,
            created_ms: 0,
            requests: Default::default(),
        };
        let own = TokenRow {
            user: ("alice".into(), 7),
            hash: token.hash().to_string(),
            on: None,
            expires_ms,
            note: String::new(),
            created_ms: 0,
        };
        let row = |body| Row { epoch: 1, changed_ms: 0, body: Some(body) };
        let name = format!("token/{:016x}", token.id);
        (token, [("user/alice".to_string(), row(RowBody::User(alice))), (name, row(RowBody::Token(own)))].into())
    }

    fn headers(value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, value.parse().unwrap());
        headers
    }

    async fn code(hub: &AccessHub, value: &str) -> Result<Caller, ErrorCode> {
        hub.caller(&headers(value), None).await.map_err(|refusal| refusal.code)
    }

    const ALICE: Caller = Caller::Identity { credential: 7, decided_at: None };
    const TOKEN: Caller = Caller::Identity { credential: 77, decided_at: None };

    #[tokio::test]
    async fn credentials_are_proved() {
        let home = tempfile::tempdir().unwrap();
        let (hub, mut keeper) = hub(home.path(), true);
        let hash = hub.passwords.hash("a long password".into()).await.unwrap();
        let (token, rows) = rows(Some(hash), None);
        keeper.keep(Arc::new(Directory::new(1, rows)));
        let text = token.reveal();
        assert_eq!(code(&hub, &format!("Bearer {text}")).await, Ok(TOKEN));
        assert_eq!(code(&hub, &format!("bearer {text}")).await, Ok(TOKEN));
        let basic = |user: &str, password: &str| {
            format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}")))
        };
        assert_eq!(code(&hub, &basic("alice", "a long password")).await, Ok(ALICE));
        assert_eq!(code(&hub, &basic("alice", &text)).await, Ok(TOKEN));
        let no = Err(ErrorCode::Unauthenticated);
        assert_eq!(code(&hub, &basic("bob", &text)).await, no);
        assert_eq!(code(&hub, &basic("alice", "a wrong password")).await, no);
        assert_eq!(code(&hub, &basic("bob", "a long password")).await, no);
        for bad in ["", "Bearer", "Bearer x", "Basic", "Basic !!", "Digest x", "hive_1"] {
            assert_eq!(code(&hub, bad).await, no, "{bad}");
        }
        assert_eq!(code(&hub, &format!("Bearer {}", Token::new(77, [6; 32]).reveal())).await, no);
        assert_eq!(hub.caller(&HeaderMap::new(), None).await.map_err(|r| r.code), Ok(Caller::Anyone));
        assert_eq!(hub.caller(&HeaderMap::new(), Some("alice")).await.map_err(|r| r.code), Ok(ALICE));
        assert_eq!(hub.caller(&HeaderMap::new(), Some("bob")).await.map_err(|r| r.code), no);
        let mut twice = headers(&format!("Bearer {text}"));
        twice.append(AUTHORIZATION, "Bearer x".parse().unwrap());
        assert_eq!(hub.caller(&twice, None).await.map_err(|r| r.code), no);
    }

    #[tokio::test]
    async fn expired_tokens_count_for_nothing() {
        let home = tempfile::tempdir().unwrap();
        let (hub, mut keeper) = hub(home.path(), true);
        let (token, rows) = rows(None, Some(crate::monitor::unix_ms() - 1));
        keeper.keep(Arc::new(Directory::new(1, rows)));
        assert_eq!(code(&hub, &format!("Bearer {}", token.reveal())).await, Err(ErrorCode::Unauthenticated));
    }

    #[tokio::test]
    async fn an_old_copy_lets_nobody_in() {
        let home = tempfile::tempdir().unwrap();
        let (token, rows) = rows(None, None);
        let days = |days: u64| crate::monitor::unix_ms() - days * 86_400_000;
        for (age, expected) in [(6, Ok(TOKEN)), (8, Err(ErrorCode::DirectoryStale))] {
            crate::access::file::write(home.path(), "w", &Directory::new(1, rows.clone()), days(age)).unwrap();
            let (hub, _keeper) = hub(home.path(), true);
            assert_eq!(code(&hub, &format!("Bearer {}", token.reveal())).await, expected);
        }
    }

    #[test]
    fn silence_of_the_world_is_said() {
        let home = tempfile::tempdir().unwrap();
        let (_, rows) = rows(None, None);
        let now_ms = crate::monitor::unix_ms();
        for (age_s, said) in [(30, false), (90, true)] {
            let confirmed_ms = now_ms - age_s * 1_000;
            crate::access::file::write(home.path(), "w", &Directory::new(1, rows.clone()), confirmed_ms).unwrap();
            let (closed, _keeper) = hub(home.path(), true);
            assert_eq!(closed.age(now_ms).unwrap().as_secs(), age_s);
            assert_eq!(closed.reasons(now_ms).is_some_and(|reason| reason.contains(" 90 s ago")), said);
            let (open, _keeper) = hub(home.path(), false);
            assert_eq!((open.age(now_ms), open.reasons(now_ms)), (None, None));
        }
    }

    #[tokio::test]
    async fn an_open_world_asks_nobody() {
        let home = tempfile::tempdir().unwrap();
        let (hub, _keeper) = hub(home.path(), false);
        assert_eq!(code(&hub, "Bearer x").await, Ok(Caller::Anyone));
    }
}
