//! Whose S3 access key signed a request, by this node's own copy of the directory.
//!
//! Always: the copy is asked, not the world, so that the loss of its majority stops no client who was known
//! (`tests::keys_are_opened_by_the_own_copy`); a key that was revoked, has expired or whose user is disabled is refused as soon as
//! the copy has that.
//! Not here: the signature (s3s), rows of S3 accounts' keys (door-s3 asks the world for them; their secrets are opened here), what the
//! user may do (door-s3).

use super::sealing::{Bound, Sealing};
use super::AccessHub;
use crate::monitor::unix_ms;
use base_access::{account_of, credential_of};
use base_types::access::Caller;
use base_types::s3::{AccessKey, Owner, S3ErrorCode, SealedSecret};
use base_types::Refusal;
use door_s3::{DirectoryUser, KnownKeys, Signer};

fn invalid(message: &str) -> Refusal {
    S3ErrorCode::InvalidAccessKeyId.because(message)
}

#[async_trait::async_trait]
impl KnownKeys for AccessHub {
    async fn find(&self, access_key: &str) -> Result<Option<Signer>, Refusal> {
        let Some(credential) = credential_of(access_key).filter(|_| self.required()) else { return Ok(None) };
        let name = format!("s3key/{access_key}");
        if !self.directory().rows().contains_key(&name) {
            // It may have been made a moment ago, through another node.
            self.newer().await;
        }
        let directory = self.directory();
        if !directory.rows().contains_key(&name) {
            return Ok(None);
        }
        let row = directory
            .s3_key(access_key)
            .ok_or_else(|| invalid("The access key was revoked; make another one (hive key create)"))?;
        let now_ms = unix_ms();
        if self.is_stale(now_ms) {
            return Err(S3ErrorCode::ServiceUnavailable.because(
                "this node has not heard from the world's directory of users for longer than access.stale_limit_hours; ask another",
            ));
        }
        let identity = directory.identity(credential);
        let identity = identity.ok_or_else(|| invalid("The user of the access key is disabled or does not exist; enable it (hive user enable), or use another user's key"))?;
        if row.expires_ms.is_some_and(|expires_ms| expires_ms <= now_ms) {
            return Err(invalid("The access key has expired; make another one (hive key create)"));
        }
        let bound = Bound::User { access_key, user: &row.user.0, user_id: row.user.1 };
        let opened = self.sealing.open(&row.sealed_by, &row.sealed, &bound);
        let secret_key = opened.map_err(|refusal| S3ErrorCode::ServiceUnavailable.because(refusal.message))?;
        let owner = Owner { id: account_of(row.user.1), display_name: row.user.0.clone() };
        let asks_as = Caller::Identity { credential, decided_at: Some(directory.epoch()) };
        let user = DirectoryUser { identity: identity.clone(), asks_as, session_policy: None };
        Ok(Some(Signer { secret_key, owner, user: Some(user) }))
    }
}

/// Opens the secret of an S3 account's key, where it is sealed.
pub fn open_account_key(sealing: &Sealing, mut key: AccessKey) -> Result<AccessKey, Refusal> {
    let Some(SealedSecret { sealed_by, sealed }) = key.sealed.take() else { return Ok(key) };
    let bound = Bound::Account { access_key: &key.access_key, account: &key.account };
    key.secret_key = sealing
        .open(&sealed_by, &sealed, &bound)
        .map_err(|refusal| S3ErrorCode::ServiceUnavailable.because(refusal.message))?;
    Ok(key)
}

/// Seals the secret of an S3 account's key by the first sealing key.
pub fn seal_account_key(
    sealing: &Sealing,
    account: &str,
    access_key: &str,
    secret: &str,
) -> Result<SealedSecret, Refusal> {
    let (sealed_by, sealed) = sealing.seal(secret, &Bound::Account { access_key, account })?;
    Ok(SealedSecret { sealed_by, sealed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base_access::{access_key_of, Binding, Directory, Row, RowBody, S3KeyRow, UserRow};
    use base_types::ErrorCode;
    use std::sync::Arc;

    fn sealing(home: &std::path::Path) -> Sealing {
        let file = home.join("sealing");
        std::fs::write(&file, "00".repeat(32)).unwrap();
        Sealing::load(Some(&file)).unwrap()
    }

    fn directory(sealing: &Sealing, disabled: bool, expires_ms: Option<u64>) -> Directory {
        let access_key = access_key_of(8);
        let bound = Bound::User { access_key: &access_key, user: "ann", user_id: 7 };
        let (sealed_by, sealed) = sealing.seal("the secret", &bound).unwrap();
        let ann = UserRow {
            id: 7,
            service: false,
            tenant: None,
            roles: vec![Binding { role: "reader".into(), on: None }],
            password: None,
            disabled,
            namespace: None,
            created_ms: 0,
            requests: Default::default(),
        };
        let user = ("ann".to_string(), 7);
        let key = S3KeyRow { user, sealed_by, sealed, on: None, expires_ms, note: String::new(), created_ms: 0 };
        let row = |body| Row { epoch: 1, changed_ms: 0, body };
        let rows = [
            ("user/ann".to_string(), row(Some(RowBody::User(ann)))),
            (format!("s3key/{access_key}"), row(Some(RowBody::S3Key(key)))),
            (format!("s3key/{}", access_key_of(9)), row(None)),
        ];
        Directory::new(1, rows.into())
    }

    async fn found(with: Directory, sealing: Sealing, key: u64) -> Result<Option<Signer>, ErrorCode> {
        let data = tempfile::tempdir().unwrap();
        let section = crate::config::AccessSection { required: true, ..Default::default() };
        let (hub, mut keeper, _) = AccessHub::open(&section, data.path().into(), "w", &[], sealing);
        keeper.keep(Arc::new(with));
        hub.find(&access_key_of(key)).await.map_err(|refusal| refusal.code)
    }

    #[test]
    fn an_accounts_key_is_opened_where_it_is_sealed() {
        let home = tempfile::tempdir().unwrap();
        let own = sealing(home.path());
        let plain = AccessKey { access_key: "HIVE1".into(), account: "ann".into(), ..AccessKey::default() };
        let plain = AccessKey { secret_key: "the secret".into(), ..plain };
        assert_eq!(open_account_key(&own, plain.clone()), Ok(plain.clone()), "kept in plain text");
        let sealed = seal_account_key(&own, "ann", "HIVE1", "the secret").unwrap();
        let kept = AccessKey { secret_key: String::new(), sealed: Some(sealed), ..plain.clone() };
        assert_eq!(open_account_key(&own, kept.clone()), Ok(plain));
        let moved = AccessKey { account: "bob".into(), ..kept.clone() };
        for shut in [open_account_key(&own, moved), open_account_key(&Sealing::default(), kept)] {
            assert_eq!(shut.unwrap_err().code, ErrorCode::S3(S3ErrorCode::ServiceUnavailable));
        }
    }

    #[tokio::test]
    async fn keys_are_opened_by_the_own_copy() {
        let home = tempfile::tempdir().unwrap();
        let own = || sealing(home.path());
        let signer = found(directory(&own(), false, None), own(), 8).await.unwrap().unwrap();
        assert_eq!((signer.secret_key.as_str(), signer.owner.id.as_str()), ("the secret", "user-0000000000000007"));
        assert!(!format!("{signer:?}").contains("the secret"));
        assert!(found(directory(&own(), false, None), own(), 10).await.unwrap().is_none());
        let invalid = Err(ErrorCode::S3(S3ErrorCode::InvalidAccessKeyId));
        let code = |found: Result<Option<Signer>, ErrorCode>| found.map(|_| ());
        assert_eq!(code(found(directory(&own(), false, None), own(), 9).await), invalid, "revoked");
        assert_eq!(code(found(directory(&own(), true, None), own(), 8).await), invalid, "disabled");
        assert_eq!(code(found(directory(&own(), false, Some(1)), own(), 8).await), invalid, "expired");
        let shut = found(directory(&own(), false, None), Sealing::default(), 8).await;
        assert_eq!(code(shut), Err(ErrorCode::S3(S3ErrorCode::ServiceUnavailable)), "no sealing key");
    }
}
