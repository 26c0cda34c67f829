//! Whose key signed a request. s3s checks the signature; here are the secrets: of users out of the node's own copy of the world's
//! directory, of S3 accounts out of metadata.
//!
//! Always: a user's key is asked for at each request, and is refused as soon as the copy says so; an account's counts for [`KEY_TTL`]
//! after the world has confirmed it, so a removed key stops working within that time at every node that reaches the world. One that is
//! in use is confirmed beside its requests, which do not wait for it. Where the world does not
//! answer, a key that it confirmed less than [`Keys::with_stale_limit`] ago counts on, so that the loss of its majority stops no
//! client of before. At most [`KEYS_MAX`] are remembered, in memory only: a node that starts without the world knows no account's
//! key. No secret is in `Debug`.
//! Held by: `a_key_in_use_is_confirmed_beside_its_requests`, `a_known_key_counts_without_the_world`.
//! Not here: the directory (edge-node), what a user may do (`access.rs`).

pub mod session;

use crate::access::Policy;
use crate::error::to_s3;
use crate::metadata::{ask, MetadataService};
use base_access::Identity;
use base_types::s3::{AccessKey, GetAccessKey, Owner, S3ErrorCode};
use base_types::{ErrorCode, ErrorKind, Refusal};
use s3s::auth::{S3Auth, SecretKey};
use s3s::S3Result;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long an account's key counts after the world has confirmed it: revocation takes 2 s in all.
pub const KEY_TTL: Duration = Duration::from_millis(1_500);
/// After so long it is confirmed again, beside the requests that use it.
const CONFIRM_AFTER: Duration = Duration::from_millis(750);
/// After so long a world that did not answer gets the next question; requests do not wait for it meanwhile.
const SILENCE_PAUSE: Duration = Duration::from_millis(750);
/// How long the world may take to confirm a key that is known.
const CONFIRM_WAIT: Duration = Duration::from_secs(1);
/// How long an account's key counts without the world where nothing else is set.
const STALE_LIMIT: Duration = Duration::from_secs(168 * 3600);
/// How many keys are remembered.
pub const KEYS_MAX: usize = 10_000;

/// A user of the world's directory, as its S3 key shows it.
#[derive(Clone, Debug)]
pub struct DirectoryUser {
    /// Who it is, and what its roles give with this key.
    pub identity: Identity,
    /// As what the core is asked: decided by the gateway, at the directory's epoch of this.
    pub asks_as: base_types::access::Caller,
    /// What bounds it more, where the key is a session's with a policy.
    pub session_policy: Option<Arc<Policy>>,
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
    known: Arc<Mutex<HashMap<String, Known>>>,
    stale_limit: Duration,
}

/// An account's key as the world last confirmed it.
#[derive(Clone)]
struct Known {
    key: AccessKey,
    confirmed: Instant,
    /// Until then the world is not asked.
    ask_after: Instant,
    /// The world did not answer when it was asked last.
    silent: bool,
}

impl Keys {
    /// Of accounts alone, over a metadata service.
    pub fn new(metadata: Arc<dyn MetadataService>) -> Keys {
        Keys { users: Arc::new(NoUsers), metadata, known: Arc::default(), stale_limit: STALE_LIMIT }
    }

    /// And of these users.
    pub fn with_users(self, users: Arc<dyn KnownKeys>) -> Keys {
        Keys { users, ..self }
    }

    /// An account's key counts for so long without the world.
    pub fn with_stale_limit(self, stale_limit: Duration) -> Keys {
        Keys { stale_limit, ..self }
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
        let known = self.known().get(access_key).cloned();
        let now = Instant::now();
        if let Some(known) = known.as_ref().filter(|known| now < known.ask_after) {
            return Ok(known.key.clone());
        }
        let usable = known.filter(|known| now.duration_since(known.confirmed) < self.stale_limit);
        if let Some(known) = usable.clone().filter(|known| known.silent || now < known.confirmed + KEY_TTL) {
            self.confirm_beside(known.clone());
            return Ok(known.key);
        }
        self.confirm(access_key, usable, now).await
    }

    /// Has a key confirmed, once, while its requests are served by what is known of it.
    fn confirm_beside(&self, known: Known) {
        let (own, now) = (self.clone(), Instant::now());
        // Others that use it meanwhile do not ask, too.
        self.remember(Known { ask_after: now + CONFIRM_WAIT, ..known.clone() });
        tokio::spawn(async move {
            // What came of it is remembered.
            let access_key = known.key.access_key.clone();
            let _ = own.confirm(&access_key, Some(known), now).await;
        });
    }

    /// Asks the world for a key.
    async fn confirm(&self, access_key: &str, usable: Option<Known>, now: Instant) -> S3Result<AccessKey> {
        let asked = ask(&*self.metadata, GetAccessKey { access_key: access_key.to_owned() });
        let answer: Result<AccessKey, Refusal> = match usable {
            None => asked.await,
            Some(Known { key, confirmed, .. }) => match tokio::time::timeout(CONFIRM_WAIT, asked).await {
                Ok(answer) if !answer.as_ref().is_err_and(says_nothing) => answer,
                _ => {
                    let ask_after = Instant::now() + SILENCE_PAUSE;
                    self.remember(Known { key: key.clone(), confirmed, ask_after, silent: true });
                    return Ok(key);
                }
            },
        };
        let key = answer.map_err(|refusal| {
            let unknown = refusal.code == ErrorCode::S3(S3ErrorCode::NoSuchAccessKey);
            if unknown {
                self.known().remove(access_key);
            }
            to_s3(if unknown { S3ErrorCode::InvalidAccessKeyId.into() } else { refusal })
        })?;
        self.remember(Known { key: key.clone(), confirmed: now, ask_after: now + CONFIRM_AFTER, silent: false });
        Ok(key)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, own: Known) {
        let mut known = self.known();
        if known.len() >= KEYS_MAX {
            known.clear();
        }
        known.insert(own.key.access_key.clone(), own);
    }
}

/// Whether a refusal says nothing of the key: the world could not be asked.
fn says_nothing(refusal: &Refusal) -> bool {
    matches!(refusal.kind(), ErrorKind::Unavailable | ErrorKind::Overloaded | ErrorKind::Unknown)
}

#[async_trait::async_trait]
impl S3Auth for Keys {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        Ok(SecretKey::from(self.signer(access_key).await?.secret_key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::OnBehalf;
    use crate::testing::MemoryMetadata;
    use base_types::s3::{S3Action, S3Answer};

    /// A world that answers, does not, or says that it cannot.
    struct World {
        rows: MemoryMetadata,
        state: Mutex<State>,
    }

    #[derive(Clone, Copy)]
    enum State {
        Answers,
        Silent,
        Refuses(ErrorCode),
    }

    #[async_trait::async_trait]
    impl MetadataService for World {
        async fn call(&self, action: S3Action, behalf: OnBehalf<'_>) -> Result<S3Answer, Refusal> {
            let state = *self.state.lock().unwrap();
            match state {
                State::Answers => self.rows.call(action, behalf).await,
                State::Silent => std::future::pending().await,
                State::Refuses(code) => Err(Refusal::new(code, "as the test says")),
            }
        }
    }

    fn keys(stale_limit: Duration) -> (Arc<World>, Keys) {
        let rows = MemoryMetadata::new("r");
        rows.add_account("ann", "AKEY", "a-secret");
        let world = Arc::new(World { rows, state: Mutex::new(State::Answers) });
        (world.clone(), Keys::new(world).with_stale_limit(stale_limit))
    }

    fn is(world: &World, state: State) {
        *world.state.lock().unwrap() = state;
    }

    /// The time has passed after which the world must answer.
    fn forget_when(keys: &Keys) {
        let past = Instant::now() - KEY_TTL;
        keys.known()
            .values_mut()
            .for_each(|known| (known.confirmed, known.ask_after, known.silent) = (past, past, false));
    }

    async fn code(keys: &Keys, access_key: &str) -> String {
        let found = keys.signer(access_key).await;
        found.map_or_else(|error| error.code().as_str().to_owned(), |signer| signer.secret_key)
    }

    #[tokio::test]
    async fn a_known_key_counts_without_the_world() {
        let (world, keys) = keys(STALE_LIMIT);
        assert_eq!(code(&keys, "AKEY").await, "a-secret");
        let gone = [State::Silent, State::Refuses(ErrorCode::NoLeader), State::Refuses(ErrorCode::OutcomeUnknown)];
        for state in gone {
            is(&world, state);
            forget_when(&keys);
            assert_eq!(code(&keys, "AKEY").await, "a-secret");
        }
        is(&world, State::Refuses(ErrorCode::NoLeader));
        assert_eq!(code(&keys, "BKEY").await, "ServiceUnavailable", "one that nobody confirmed");
        // No request asks it at once: each would wait.
        is(&world, State::Silent);
        let asked = Instant::now();
        assert_eq!(code(&keys, "AKEY").await, "a-secret");
        assert!(asked.elapsed() < CONFIRM_WAIT, "{:?}", asked.elapsed());
        // The world is back, and the key was revoked meanwhile.
        is(&world, State::Refuses(ErrorCode::S3(S3ErrorCode::NoSuchAccessKey)));
        forget_when(&keys);
        assert_eq!(code(&keys, "AKEY").await, "InvalidAccessKeyId");
        is(&world, State::Refuses(ErrorCode::NoLeader));
        assert_eq!(code(&keys, "AKEY").await, "ServiceUnavailable", "it does not come back");
    }

    #[tokio::test]
    async fn a_key_counts_no_longer_than_its_limit() {
        let (world, keys) = keys(Duration::ZERO);
        assert_eq!(code(&keys, "AKEY").await, "a-secret");
        is(&world, State::Refuses(ErrorCode::NoLeader));
        assert_eq!(code(&keys, "AKEY").await, "a-secret", "within the time that it is remembered");
        forget_when(&keys);
        assert_eq!(code(&keys, "AKEY").await, "ServiceUnavailable");
    }

    /// Requests wait for the world neither while it answers nor while it is silent, and a removed key goes all the same.
    #[tokio::test]
    async fn a_key_in_use_is_confirmed_beside_its_requests() {
        let due = |keys: &Keys| keys.known().values_mut().for_each(|known| known.ask_after = known.confirmed);
        let (world, keys) = keys(STALE_LIMIT);
        assert_eq!(code(&keys, "AKEY").await, "a-secret");
        is(&world, State::Silent);
        due(&keys);
        for _ in 0..3 {
            let asked = Instant::now();
            assert_eq!(code(&keys, "AKEY").await, "a-secret");
            assert!(asked.elapsed() < CONFIRM_WAIT / 2, "{:?}", asked.elapsed());
        }
        tokio::time::sleep(CONFIRM_WAIT + Duration::from_millis(200)).await;
        assert!(keys.known()["AKEY"].silent);
        // The world answers again, and the key is gone: the request that has it asked is served, the next is not.
        is(&world, State::Refuses(ErrorCode::S3(S3ErrorCode::NoSuchAccessKey)));
        due(&keys);
        assert_eq!(code(&keys, "AKEY").await, "a-secret");
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(code(&keys, "AKEY").await, "InvalidAccessKeyId");
    }
}
