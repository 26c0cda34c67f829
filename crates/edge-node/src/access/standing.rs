//! Whether somebody who was let in still is: for connections and streams that live longer than the request that let them in.
//!
//! ```text
//!   AUTH, a watch, a subscription ── let in once ──▶ … hours … ── each command, message or second ──▶ still(), may()
//! ```
//! Always: a credential that was revoked, disabled or has expired is refused, and so is everybody by a copy that is too old.
//! Held by: `who_was_let_in_is_looked_at_again`, `what_an_issuer_vouches_for_ends_with_its_token`.
//! Not here: how a credential is proved (credentials.rs); requests, which the core decides.

use super::AccessHub;
use crate::monitor::unix_ms;
use base_access::decide;
use base_types::access::Caller;
use base_types::action::Action;
use base_types::{ErrorCode, Refusal};

fn ended() -> Refusal {
    Refusal::new(
        ErrorCode::Unauthenticated,
        "the credential that opened this counts for nothing any more; authenticate again",
    )
}

impl AccessHub {
    /// Refused where a caller who was let in earlier counts for nothing any more.
    pub fn still(&self, caller: &Caller) -> Result<(), Refusal> {
        self.still_at(caller, unix_ms())
    }

    fn still_at(&self, caller: &Caller, now_ms: u64) -> Result<(), Refusal> {
        if !self.required() {
            return Ok(());
        }
        let expires_ms = match caller {
            Caller::Node => return Ok(()),
            Caller::Anyone => return Err(ended()),
            Caller::Identity { credential, .. } => self.directory().identity(*credential).ok_or_else(ended)?.expires_ms,
            Caller::Oidc { user, .. } => Some(user.expires_ms),
        };
        self.check_age(now_ms)?;
        match expires_ms {
            Some(expires_ms) if expires_ms <= now_ms => Err(ended()),
            _ => Ok(()),
        }
    }

    /// The same, and whether the caller may do this by the node's own copy, as a core would decide it.
    pub fn may(&self, caller: &Caller, action: &Action) -> Result<(), Refusal> {
        self.still(caller)?;
        if !self.required() || *caller == Caller::Node {
            return Ok(());
        }
        let directory = self.directory();
        let identity = directory.resolve(caller).ok_or_else(ended)?;
        decide(&identity, action)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Keeper;
    use base_access::{Binding, Directory, Row, RowBody, Token, TokenRow, UserRow};
    use base_types::access::OidcUser;
    use base_types::action::KvTarget;
    use std::sync::Arc;

    const ALICE: Caller = Caller::Identity { credential: 7, decided_at: None };
    const TOKEN: Caller = Caller::Identity { credential: 77, decided_at: None };

    fn hub(home: &std::path::Path) -> (Arc<AccessHub>, Keeper) {
        let section = crate::config::AccessSection { required: true, ..Default::default() };
        let (hub, keeper, warning) = AccessHub::open(&section, home.into(), "w", &[], Default::default());
        assert_eq!(warning, None);
        (hub, keeper)
    }

    /// Alice with a role, and a token of hers.
    fn directory(epoch: u64, role: &str, disabled: bool, expires_ms: Option<u64>) -> Arc<Directory> {
        let alice = UserRow {
            id: 7,
            service: false,
            tenant: None,
            roles: vec![Binding { role: role.into(), on: None }],
            password: None,
            disabled,
            namespace: None,
            created_ms: 0,
            requests: Default::default(),
        };
        let hash = Token::new(77, [5; 32]).hash().to_string();
        let (user, note) = (("alice".into(), 7), String::new());
        let token = TokenRow { user, hash, on: None, expires_ms, note, created_ms: 0 };
        let row = |body| Row { epoch, changed_ms: 0, body: Some(body) };
        let token_row = (format!("token/{:016x}", 77), row(RowBody::Token(token)));
        Arc::new(Directory::new(epoch, [("user/alice".to_string(), row(RowBody::User(alice))), token_row].into()))
    }

    fn get() -> Action {
        Action::KvGet { target: KvTarget::Keyspace("a".into()), key: "k".into() }
    }

    #[test]
    fn who_was_let_in_is_looked_at_again() {
        let home = tempfile::tempdir().unwrap();
        let (hub, mut keeper) = hub(home.path());
        let now = unix_ms();
        keeper.keep(directory(1, "reader", false, Some(now + 60_000)));
        for caller in [ALICE, TOKEN, Caller::Node] {
            assert_eq!(hub.may(&caller, &get()), Ok(()), "{caller:?}");
        }
        let code = |refused: Result<(), Refusal>| refused.unwrap_err().code;
        assert_eq!(code(hub.still(&Caller::Anyone)), ErrorCode::Unauthenticated);
        // The token's end comes; its user has others.
        assert_eq!(code(hub.still_at(&TOKEN, now + 60_000)), ErrorCode::Unauthenticated);
        assert_eq!(hub.still_at(&ALICE, now + 60_000), Ok(()));
        // The world is not heard of for too long.
        assert_eq!(code(hub.still_at(&ALICE, now + 1_000 * 3_600_000)), ErrorCode::DirectoryStale);
        keeper.keep(directory(2, "auditor", false, None));
        assert_eq!((hub.still(&TOKEN), code(hub.may(&TOKEN, &get()))), (Ok(()), ErrorCode::PermissionDenied));
        keeper.keep(directory(3, "reader", true, None));
        for caller in [ALICE, TOKEN] {
            assert_eq!(code(hub.still(&caller)), ErrorCode::Unauthenticated, "{caller:?}");
        }
    }

    #[test]
    fn what_an_issuer_vouches_for_ends_with_its_token() {
        let home = tempfile::tempdir().unwrap();
        let (hub, mut keeper) = hub(home.path());
        keeper.keep(directory(1, "reader", false, None));
        let now = unix_ms();
        let user = |expires_ms| {
            let user = OidcUser { name: "oidc:ann".into(), account: "oidc-1".into(), groups: Vec::new(), expires_ms };
            Caller::Oidc { user: Arc::new(user), decided_at: None }
        };
        assert_eq!(hub.still_at(&user(now + 1), now), Ok(()));
        assert!(hub.still_at(&user(now), now).is_err());
        assert!(hub.may(&user(now + 60_000), &get()).is_err(), "no group of the directory gives anything");
    }
}
