//! Sessions of STS: sealed tokens that any node opens.
//!
//! ```text
//!   HVT1.<sealing key's id>.<base64url: nonce (12) ++ ChaCha20-Poly1305 of JSON ++ tag (16)>
//!   JSON: the access key, the secret, issuer, subject, name, groups' ids, role, session's name, end
//!   HVT2: the same with a policy
//! ```
//!
//! Always: a token that was changed does not open, nor one that another kind of sealing made (`tests::a_changed_token_does_not_open`);
//! what a session may do is looked up at each use, and once none of its groups exists, or the issuer is believed no more, or it has
//! ended, it counts for nothing (`tests::a_session_ends_with_its_groups`); a policy goes with its session everywhere, and a build that
//! knows no policies opens no session that has one: the mark is another (`tests::a_policy_stays_with_its_session`).
//! Not here: forms and XML (door-s3), issuers' tokens (oidc.rs).
//! Why: docs/decisions/0075-sts-sessions-are-sealed-tokens.md.

use super::oidc::token::Wrong;
use super::AccessHub;
use crate::chance;
use crate::monitor::unix_ms;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::Engine as _;
use base_access::account_of_oidc;
use base_types::access::{Caller, OidcUser};
use base_types::s3::{Owner, S3ErrorCode};
use base_types::Refusal;
use door_s3::access::Policy;
use door_s3::sts::form::{Assume, POLICY_TOO_LARGE};
use door_s3::sts::{Fault, Issued, Opened, SessionName, Sessions, SESSION_MARK, SESSION_TOKEN_BYTES_MAX};
use door_s3::{DirectoryUser, Signer};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What session tokens begin with, their format, and what the sealed bytes are bound to, so that nothing else that was sealed passes
/// for them: without a policy, and with one.
const FORMATS: [(&str, &[u8]); 2] = [("HVT1", b"hive sts session 1"), ("HVT2", b"hive sts session 2")];

/// What is sealed.
#[derive(Serialize, Deserialize)]
struct Session {
    access_key: String,
    secret_key: String,
    issuer: String,
    subject: String,
    name: String,
    groups: Vec<u64>,
    role: String,
    session: String,
    expires_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    policy: Option<serde_json::Value>,
}

impl Session {
    /// Its mark, and what it is bound to.
    fn format(&self) -> (&'static str, &'static [u8]) {
        FORMATS[usize::from(self.policy.is_some())]
    }
}

fn no_token(message: &str) -> Refusal {
    S3ErrorCode::InvalidToken.because(message)
}

/// STS's code for why an issuer's token counts for nothing.
fn fault_of(wrong: &Wrong) -> Fault {
    let code = match wrong {
        Wrong::Expired => "ExpiredTokenException",
        Wrong::Unreachable => "IDPCommunicationError",
        _ => "InvalidIdentityToken",
    };
    Fault::new(code, 400, wrong.to_string())
}

fn unavailable(message: impl Into<String>) -> Fault {
    Fault::new("ServiceUnavailable", 503, message)
}

/// Refuses a session whose token no node would read.
fn check_length(session: &Session, token: &str) -> Result<(), Fault> {
    if token.len() <= SESSION_TOKEN_BYTES_MAX {
        return Ok(());
    }
    let (code, what) = match session.policy {
        Some(_) => (POLICY_TOO_LARGE, "send a shorter Policy"),
        None => ("InvalidIdentityToken", "the issuer's names for the user and its groups are too long"),
    };
    let bytes = token.len();
    Err(Fault::new(
        code,
        400,
        format!("the session's token has {bytes} of at most {SESSION_TOKEN_BYTES_MAX} bytes: {what}"),
    ))
}

#[async_trait::async_trait]
impl Sessions for AccessHub {
    async fn assume(&self, asked: Assume) -> Result<Issued, Fault> {
        if self.issuers.is_empty() {
            return door_s3::sts::NoSessions.assume(asked).await;
        }
        let vouched = self.vouched(&asked.token).await.map_err(|wrong| fault_of(&wrong))?;
        let now_ms = unix_ms();
        self.check_age(now_ms).map_err(|refusal| unavailable(refusal.message))?;
        let denied = |message: String| Fault::new("AccessDenied", 403, message);
        let directory = self.directory();
        let mut groups = vouched.user.groups;
        if let Some(group) = &asked.group {
            let id = directory.group(group).map(|row| row.id);
            groups.retain(|own| Some(*own) == id);
        }
        if groups.is_empty() {
            let which = asked.group.as_ref().map_or("in no group of the directory".to_owned(), |group| {
                format!("not in the group {}", super::oidc::bounded(group))
            });
            return Err(denied(format!("Not authorized to perform sts:AssumeRoleWithWebIdentity: the token's user is {which} (`hive group list`)")));
        }
        let no_random =
            |error: std::io::Error| unavailable(format!("the operating system gives no random numbers: {error}"));
        let account = vouched.user.account;
        let session = Session {
            access_key: format!("{SESSION_MARK}{:016X}", chance::draw().map_err(no_random)?),
            secret_key: chance::secret_key().map_err(no_random)?,
            issuer: vouched.issuer,
            subject: vouched.claims.subject,
            name: vouched.user.name,
            groups,
            role: asked.group.unwrap_or_else(|| "*".into()),
            session: asked.name,
            expires_ms: now_ms.saturating_add(asked.duration_s.saturating_mul(1_000)),
            policy: asked.policy,
        };
        let session_token = self.seal_session(&session).map_err(|refusal| unavailable(refusal.message))?;
        check_length(&session, &session_token)?;
        Ok(Issued {
            access_key: session.access_key,
            secret_key: session.secret_key,
            session_token,
            expires_ms: session.expires_ms,
            who: SessionName { account, role: session.role, name: session.session },
            subject: session.subject,
            audience: self.issuers.audience_of(&session.issuer),
            provider: session.issuer,
        })
    }

    fn open(&self, session_token: &str) -> Result<Opened, Refusal> {
        let session = self.open_session(session_token)?;
        let now_ms = unix_ms();
        if session.expires_ms <= now_ms {
            return Err(S3ErrorCode::ExpiredToken
                .because("The session has ended; begin another one (AssumeRoleWithWebIdentity)"));
        }
        if !self.issuers.knows(&session.issuer) {
            return Err(no_token("This node does not believe the session's issuer (any more)"));
        }
        self.check_age(now_ms).map_err(|refusal| S3ErrorCode::ServiceUnavailable.because(refusal.message))?;
        let account = account_of_oidc(&session.issuer, &session.subject);
        let user = OidcUser {
            name: session.name.clone(),
            account: account.clone(),
            groups: session.groups,
            expires_ms: session.expires_ms,
        };
        let directory = self.directory();
        let identity = directory
            .oidc_identity(&user)
            .ok_or_else(|| no_token("The groups of the session do not exist any more"))?;
        let owner = Owner { id: account.clone(), display_name: session.name };
        let asks_as = Caller::Oidc { user: Arc::new(user), decided_at: Some(directory.epoch()) };
        let policy = session.policy.as_ref().map(Policy::of_session).transpose();
        // A later build's, which this one does not understand.
        let policy = policy.map_err(|_| no_token("This node does not understand the session's policy"))?;
        let user = DirectoryUser { identity, asks_as, session_policy: policy.map(Arc::new) };
        Ok(Opened {
            access_key: session.access_key,
            signer: Signer { secret_key: session.secret_key, owner, user: Some(user) },
            who: SessionName { account, role: session.role, name: session.session },
        })
    }
}

impl AccessHub {
    fn seal_session(&self, session: &Session) -> Result<String, Refusal> {
        let plain = serde_json::to_vec(session).map_err(|_| no_token("a session cannot be written"))?;
        let (mark, binding) = session.format();
        let (id, sealed) = self.sealing.seal_bytes(plain, binding)?;
        Ok(format!("{mark}.{id}.{}", URL_SAFE_NO_PAD.encode(sealed)))
    }

    fn open_session(&self, token: &str) -> Result<Session, Refusal> {
        let malformed = || no_token("The session token is malformed, or of another world");
        let mut parts = token.split('.');
        let (mark, id, sealed) = (parts.next(), parts.next(), parts.next());
        let format = FORMATS.into_iter().find(|(known, _)| mark == Some(*known));
        let (Some((mark, binding)), None) = (format, parts.next()) else { return Err(malformed()) };
        let sealed = URL_SAFE_NO_PAD.decode(sealed.unwrap_or("")).map_err(|_| malformed())?;
        let plain = self.sealing.open_bytes(id.unwrap_or(""), sealed, binding).ok_or_else(malformed)?;
        let session: Session = serde_json::from_slice(&plain).map_err(|_| malformed())?;
        (session.format().0 == mark).then_some(session).ok_or_else(malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::sealing::{Bound, Sealing};
    use crate::config::{AccessSection, OidcSection};
    use base_access::{Binding, Directory, GroupRow, Row, RowBody};

    const ISSUER: &str = "https://corp.example";

    fn hub(home: &std::path::Path, ids: &[u64], issuers: bool) -> Arc<AccessHub> {
        let file = home.join("sealing");
        std::fs::write(&file, "00".repeat(32)).unwrap();
        let section: OidcSection =
            serde_json::from_value(serde_json::json!({"issuer": ISSUER, "audience": "hive"})).unwrap();
        let oidc = if issuers { vec![section] } else { Vec::new() };
        let access = AccessSection { required: true, oidc, ..Default::default() };
        let row = |id: &u64| {
            let roles = vec![Binding { role: "writer".into(), on: "bucket/b".parse().ok() }];
            let group = GroupRow {
                id: *id,
                issuer: ISSUER.into(),
                claim: "g".into(),
                tenant: None,
                roles,
                created_ms: 0,
                requests: Default::default(),
            };
            (format!("group/g{id}"), Row { epoch: 1, changed_ms: 0, body: Some(RowBody::Group(group)) })
        };
        let directory = Directory::new(1, ids.iter().map(row).collect());
        crate::access::file::write(home, "w", &directory, unix_ms()).unwrap();
        AccessHub::open(&access, home.into(), "w", &[], Sealing::load(Some(&file)).unwrap()).0
    }

    fn session(expires_ms: u64) -> Session {
        Session {
            access_key: "HIVT0000000000000001".into(),
            secret_key: "the secret".into(),
            issuer: ISSUER.into(),
            subject: "ann".into(),
            name: "oidc:ann".into(),
            groups: vec![11, 12],
            role: "*".into(),
            session: "ci".into(),
            expires_ms,
            policy: None,
        }
    }

    fn policy(resource: &str) -> serde_json::Value {
        let statement = serde_json::json!({"Effect": "Allow", "Action": "s3:GetObject", "Resource": resource});
        serde_json::json!({"Version": "2012-10-17", "Statement": [statement]})
    }

    #[test]
    fn a_policy_stays_with_its_session() {
        let home = tempfile::tempdir().unwrap();
        let own = hub(home.path(), &[11], true);
        let policy = policy("arn:aws:s3:::b/*");
        let bounded = Session { policy: Some(policy.clone()), ..session(unix_ms() + 60_000) };
        let token = own.seal_session(&bounded).unwrap();
        let found = own.open(&token).unwrap().signer.user.and_then(|user| user.session_policy);
        assert_eq!(found.as_deref(), Policy::of_session(&policy).ok().as_ref());
        // An earlier build takes `HVT1` alone, and would pass over the policy.
        let rest = token.strip_prefix("HVT2.").unwrap();
        assert_eq!(code(own.open(&format!("HVT1.{rest}"))), Err("InvalidToken"));
        // Sealed as the other kind: nobody makes such.
        for (made, format) in [(&bounded, FORMATS[0]), (&session(unix_ms() + 60_000), FORMATS[1])] {
            let (id, sealed) = own.sealing.seal_bytes(serde_json::to_vec(made).unwrap(), format.1).unwrap();
            let token = format!("{}.{id}.{}", format.0, URL_SAFE_NO_PAD.encode(sealed));
            assert_eq!(code(own.open(&token)), Err("InvalidToken"));
        }
        // A policy of a later build's language.
        let later =
            Session { policy: Some(serde_json::json!({"Version": "2030-01-01"})), ..session(unix_ms() + 60_000) };
        assert_eq!(code(own.open(&own.seal_session(&later).unwrap())), Err("InvalidToken"));
    }

    #[test]
    fn a_session_that_no_node_would_read_is_not_made() {
        let home = tempfile::tempdir().unwrap();
        let own = hub(home.path(), &[11], true);
        let made = |policy: Option<serde_json::Value>, subject: usize| {
            let session = Session { policy, subject: "s".repeat(subject), ..session(1) };
            check_length(&session, &own.seal_session(&session).unwrap()).map_err(|fault| fault.code)
        };
        let longest = policy(&format!("arn:aws:s3:::{}", "é".repeat(1_900)));
        assert_eq!(made(Some(longest.clone()), 255), Ok(()), "what AWS takes fits");
        assert_eq!(made(Some(longest), 6_000), Err("PackedPolicyTooLarge"));
        assert_eq!(made(None, 9_000), Err("InvalidIdentityToken"));
    }

    fn code(opened: Result<Opened, Refusal>) -> Result<String, &'static str> {
        let code = |refusal: Refusal| refusal.code.s3().map_or("other", |code| code.name());
        opened.map(|own| own.signer.secret_key).map_err(code)
    }

    #[test]
    fn a_session_ends_with_its_groups() {
        let home = tempfile::tempdir().unwrap();
        let own = hub(home.path(), &[11, 99], true);
        let token = own.seal_session(&session(unix_ms() + 60_000)).unwrap();
        let opened = own.open(&token).unwrap();
        assert_eq!(opened.signer.owner.id, account_of_oidc(ISSUER, "ann"));
        assert_eq!((opened.access_key.as_str(), opened.who.name.as_str()), ("HIVT0000000000000001", "ci"));
        assert_eq!(opened.signer.user.as_ref().map(|user| user.identity.rules.len()), Some(1));
        assert!(!format!("{opened:?}").contains("the secret"));
        let ended = own.seal_session(&session(unix_ms() - 1)).unwrap();
        assert_eq!(code(own.open(&ended)), Err("ExpiredToken"));
        assert_eq!(code(hub(home.path(), &[12], true).open(&token)), Ok("the secret".into()), "another node");
        assert_eq!(code(hub(home.path(), &[99], true).open(&token)), Err("InvalidToken"), "no group is left");
        assert_eq!(code(hub(home.path(), &[11], false).open(&token)), Err("InvalidToken"), "no issuer is believed");
    }

    #[test]
    fn a_changed_token_does_not_open() {
        let home = tempfile::tempdir().unwrap();
        let own = hub(home.path(), &[11], true);
        let token = own.seal_session(&session(unix_ms() + 60_000)).unwrap();
        assert!(token.len() < door_s3::sts::SESSION_TOKEN_BYTES_MAX / 4, "{}", token.len());
        for at in (0..token.len()).step_by(5) {
            let mut bytes = token.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            assert_eq!(code(own.open(&changed)), Err("InvalidToken"), "byte {at}");
        }
        for bad in
            ["", ".", "..", "HVT1", "HVT1..", "HVT1.x.y", &format!("{token}."), &token[..token.len() - 4], "é.é.é"]
        {
            assert_eq!(code(own.open(bad)), Err("InvalidToken"), "{bad}");
        }
        // A sealed secret of a key is no session, though the same key sealed it.
        let bound = Bound::User { access_key: "HIVK1", user: "ann", user_id: 7 };
        let (id, sealed) = own.sealing.seal("{}", &bound).unwrap();
        let sealed = URL_SAFE_NO_PAD.encode(base64::engine::general_purpose::STANDARD.decode(sealed).unwrap());
        assert_eq!(code(own.open(&format!("HVT1.{id}.{sealed}"))), Err("InvalidToken"));
    }

    #[tokio::test]
    async fn no_issuer_and_no_sealing_key_are_said() {
        let home = tempfile::tempdir().unwrap();
        let asked =
            |token: &str| Assume { token: token.into(), group: None, name: "ci".into(), duration_s: 900, policy: None };
        let fault = hub(home.path(), &[11], false).assume(asked("x")).await.err().unwrap();
        assert!(fault.message.contains("[[access.oidc]]"), "{}", fault.message);
        let fault = hub(home.path(), &[11], true).assume(asked("a.b.c")).await.err().unwrap();
        assert_eq!((fault.code, fault.status), ("InvalidIdentityToken", 400));
    }
}
