//! Whose key signed a request. s3s checks the signature; here are the secrets, out of metadata.
//!
//! Always: a key is asked for again after [`KEY_TTL`], so a removed key stops working everywhere within
//! that time; at most [`KEYS_MAX`] are remembered.

use crate::error::to_s3;
use crate::metadata::{ask, MetadataService};
use base_types::s3::{AccessKey, GetAccessKey, S3ErrorCode};
use base_types::ErrorCode;
use s3s::auth::{S3Auth, SecretKey};
use s3s::S3Result;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a key is remembered.
pub const KEY_TTL: Duration = Duration::from_secs(10);
/// How many keys are remembered.
pub const KEYS_MAX: usize = 10_000;

/// The keys of a metadata service.
#[derive(Clone)]
pub struct Keys {
    metadata: Arc<dyn MetadataService>,
    known: Arc<Mutex<HashMap<String, (AccessKey, Instant)>>>,
}

impl Keys {
    /// Over a metadata service.
    pub fn new(metadata: Arc<dyn MetadataService>) -> Keys {
        Keys { metadata, known: Arc::default() }
    }

    /// The key of this name.
    pub async fn get(&self, access_key: &str) -> S3Result<AccessKey> {
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
        Ok(SecretKey::from(self.get(access_key).await?.secret_key))
    }
}
