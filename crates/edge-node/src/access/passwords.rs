//! Passwords: argon2id, a few at a time, so that guesses cannot use up the node.
//!
//! Always: at most [`AT_ONCE`] are computed at a time and [`WAITING_MAX`] wait, before authentication too
//! (`tests::guesses_are_bounded`); an unknown user costs what a known one does; right ones are remembered for a while by a hash
//! that no other process can make.
//! Not here: who a user is (credentials.rs).

use argon2::password_hash::{rand_core::OsRng, PasswordHash, PasswordHasher, PasswordVerifier, SaltString};
use argon2::Argon2;
use base_types::{ErrorCode, Refusal};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Computed at a time on the whole node: each takes 19 MiB and some tens of milliseconds.
pub const AT_ONCE: usize = 2;
/// Waiting at a time.
pub const WAITING_MAX: usize = 64;
/// The longest password.
pub const PASSWORD_BYTES_MAX: usize = 1_024;
/// The shortest.
pub const PASSWORD_BYTES_MIN: usize = 12;
/// A right one is remembered so long…
const REMEMBERED: Duration = Duration::from_secs(300);
/// …and so many of them.
const REMEMBERED_MAX: usize = 10_000;

/// A hash of no password: for users that do not exist.
static NOBODY: LazyLock<String> = LazyLock::new(|| hash_now("nobody has this password").unwrap_or_default());

/// The node's one place where passwords are computed.
pub struct Passwords {
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
    /// Keys that this process alone knows, twice 64 bits.
    keys: (RandomState, RandomState),
    right: Mutex<HashMap<u128, Instant>>,
}

impl Default for Passwords {
    fn default() -> Passwords {
        Passwords {
            places: Arc::new(Semaphore::new(AT_ONCE)),
            waiting: AtomicUsize::new(0),
            keys: (RandomState::new(), RandomState::new()),
            right: Mutex::new(HashMap::new()),
        }
    }
}

fn hash_now(password: &str) -> Result<String, Refusal> {
    let salt = SaltString::generate(&mut OsRng);
    let hash = Argon2::default().hash_password(password.as_bytes(), &salt);
    let refuse = |error| Refusal::new(ErrorCode::Internal, format!("a password cannot be hashed: {error}"));
    Ok(hash.map_err(refuse)?.to_string())
}

fn verify_now(password: &str, hash: &str) -> bool {
    let Ok(hash) = PasswordHash::new(hash) else { return false };
    Argon2::default().verify_password(password.as_bytes(), &hash).is_ok()
}

/// One that waits, counted.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Passwords {
    async fn compute<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refusal> {
        let waiting = self.waiting.fetch_add(1, Ordering::Relaxed);
        let _counted = Waiting(&self.waiting);
        let busy =
            || Refusal::new(ErrorCode::Overloaded, "too many passwords are being checked; retry, or use a token");
        if waiting >= WAITING_MAX {
            return Err(busy());
        }
        let place = self.places.clone().acquire_owned().await.map_err(|_| busy())?;
        let done = tokio::task::spawn_blocking(move || {
            let _place = place;
            work()
        });
        done.await.map_err(|error| Refusal::new(ErrorCode::Internal, format!("a password was not checked: {error}")))
    }

    /// What the directory keeps of a new password.
    pub async fn hash(&self, password: String) -> Result<String, Refusal> {
        if !(PASSWORD_BYTES_MIN..=PASSWORD_BYTES_MAX).contains(&password.len()) {
            let message = format!(
                "the password is too short or too long; give {PASSWORD_BYTES_MIN} to {PASSWORD_BYTES_MAX} bytes"
            );
            return Err(Refusal::new(ErrorCode::InvalidField, message));
        }
        self.compute(move || hash_now(&password)).await?
    }

    /// Whether the password is the one of this hash; `None`: of nobody, which takes as long.
    pub async fn verify(&self, password: &str, hash: Option<&str>) -> Result<bool, Refusal> {
        if password.len() > PASSWORD_BYTES_MAX {
            return Ok(false);
        }
        let key = self.key(password, hash.unwrap_or(""));
        if hash.is_some() && self.is_right(key) {
            return Ok(true);
        }
        let (text, known) = (password.to_string(), hash.is_some());
        let hash = hash.map_or_else(|| NOBODY.clone(), String::from);
        let right = self.compute(move || verify_now(&text, &hash)).await? && known;
        if right {
            self.remember(key);
        }
        Ok(right)
    }

    fn key(&self, password: &str, hash: &str) -> u128 {
        let part = |keys: &RandomState| u128::from(keys.hash_one((password, hash)));
        part(&self.keys.0) << 64 | part(&self.keys.1)
    }

    fn is_right(&self, key: u128) -> bool {
        let Ok(right) = self.right.lock() else { return false };
        right.get(&key).is_some_and(|since| since.elapsed() < REMEMBERED)
    }

    fn remember(&self, key: u128) {
        let Ok(mut right) = self.right.lock() else { return };
        if right.len() >= REMEMBERED_MAX {
            right.retain(|_, since| since.elapsed() < REMEMBERED);
        }
        if right.len() < REMEMBERED_MAX {
            right.insert(key, Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn right_and_wrong_passwords() {
        let passwords = Passwords::default();
        let hash = passwords.hash("a long password".into()).await.unwrap();
        assert!(hash.starts_with("$argon2id$"), "{hash}");
        assert!(passwords.verify("a long password", Some(&hash)).await.unwrap());
        assert!(passwords.verify("a long password", Some(&hash)).await.unwrap());
        assert!(!passwords.verify("a long Password", Some(&hash)).await.unwrap());
        assert!(!passwords.verify("nobody has this password", None).await.unwrap());
        assert!(!passwords.verify("x", Some("no hash")).await.unwrap());
        assert_eq!(passwords.hash("short".into()).await.unwrap_err().code, ErrorCode::InvalidField);
    }

    #[tokio::test]
    async fn guesses_are_bounded() {
        let passwords = Arc::new(Passwords::default());
        let held = passwords.places.clone().acquire_many_owned(AT_ONCE as u32).await.unwrap();
        let tasks: Vec<_> = (0..2 * WAITING_MAX)
            .map(|number| {
                let passwords = passwords.clone();
                tokio::spawn(async move { passwords.verify(&format!("guess {number}"), None).await })
            })
            .collect();
        while passwords.waiting.load(Ordering::Relaxed) < WAITING_MAX {
            tokio::task::yield_now().await;
        }
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        let refused = tasks.iter().filter(|task| task.is_finished()).count();
        assert_eq!(refused, WAITING_MAX, "those that found no place to wait");
        tasks.iter().for_each(|task| task.abort());
        drop(held);
    }
}
