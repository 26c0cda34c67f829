//! Whose key signed a request. s3s checks the signature; here are the secrets: of users out of the node's own copy of the world's
//! directory, of S3 accounts out of metadata.
//!
//! Always: a user's key is asked for at each request, and is refused as soon as the copy says so; an account's is asked for again
//! after [`KEY_TTL`], so a removed key stops working everywhere within that time; at most [`KEYS_MAX`] are remembered; no secret is
//! in `Debug`.
//! Not here: the directory (edge-node), what a user may do (`access.rs`).

pub mod session;

use crate::error::to_s3;
use crate::metadata::{ask, MetadataService};
use base_access::Identity;
use base_types::s3::{AccessKey, GetAccessKey, Owner, S3ErrorCode};
use base_types::{ErrorCode, Refusal};
use s3s::auth::{S3Auth, SecretKey};
use s3s::S3Result;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long an account's key is remembered.
pub const KEY_TTL: Duration = Duration::from_secs(10);
/// How many keys are remembered.
pub const KEYS_MAX: usize = 10_000;

/// A user of the world's directory, as its S3 key shows it.
#[derive(Clone, Debug)]
pub struct DirectoryUser {
    /// Who it is, and what its roles give with this key.
    pub identity: Identity,
    /// The key's id in the directory.
    pub credential: u64,
    /// The directory's epoch that this is of.
    pub epoch: u64,
}

/// Who has an access key.
#[derive(Clone)]
pub struct Signer {
    /// The secret half.
    pub secret_key: String,
    /// The account: what owns buckets and objects.
    pub owner: Owner,
    /// The user, where it is not an S3 account's key.
    pub user: Option<DirectoryUser>,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signer").field("owner", &self.owner).field("user", &self.user).finish_non_exhaustive()
    }
}

/// Knows the S3 keys of users.
#[async_trait::async_trait]
pub trait KnownKeys: Send + Sync + 'static {
    /// Whose key this is; `None`: no user's; a refusal: one that counts for nothing, or cannot be opened.
    async fn find(&self, access_key: &str) -> Result<Option<Signer>, Refusal>;
}

/// A gateway without a directory of users.
struct NoUsers;

#[async_trait::async_trait]
impl KnownKeys for NoUsers {
    async fn find(&self, _: &str) -> Result<Option<Signer>, Refusal> {
        Ok(None)
    }
}

/// All keys.
#[derive(Clone)]
pub struct Keys {
    users: Arc<dyn KnownKeys>,
    metadata: Arc<dyn MetadataService>,
    known: Arc<Mutex<HashMap<String, (AccessKey, Instant)>>>,
}

impl Keys {
    /// Of accounts alone, over a metadata service.
    pub fn new(metadata: Arc<dyn MetadataService>) -> Keys {
        Keys { users: Arc::new(NoUsers), metadata, known: Arc::default() }
    }

    /// And of these users.
    pub fn with_users(self, users: Arc<dyn KnownKeys>) -> Keys {
        Keys { users, ..self }
    }

    /// Who has this key.
    pub async fn signer(&self, access_key: &str) -> S3Result<Signer> {
        if let Some(signer) = session::signer(access_key)? {
            return Ok(signer);
        }
        if let Some(signer) = self.users.find(access_key).await.map_err(to_s3)? {
            return Ok(signer);
        }
        let key = self.of_account(access_key).await?;
        let owner = Owner { id: key.account, display_name: key.display_name };
        Ok(Signer { secret_key: key.secret_key, owner, user: None })
    }

    async fn of_account(&self, access_key: &str) -> S3Result<AccessKey> {
        {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((key, since)) = known.get(access_key) {
                if since.elapsed() < KEY_TTL {
                    return Ok(key.clone());
                }
            }
        }
        let asked = GetAccessKey { access_key: access_key.to_owned() };
        let key: AccessKey = ask(&*self.metadata, asked).await.map_err(|refusal| {
            let unknown = refusal.code == ErrorCode::S3(S3ErrorCode::NoSuchAccessKey);
            to_s3(if unknown { S3ErrorCode::InvalidAccessKeyId.into() } else { refusal })
        })?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KEYS_MAX {
            known.clear();
        }
        known.insert(access_key.to_owned(), (key.clone(), Instant::now()));
        Ok(key)
    }
}

#[async_trait::async_trait]
impl S3Auth for Keys {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        Ok(SecretKey::from(self.signer(access_key).await?.secret_key))
    }
}
