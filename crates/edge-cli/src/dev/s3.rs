//! The local world's S3 account and access key: drawn once, kept beside the data, recreated at every start.
//!
//! Always: the same keys as long as the data is kept; the file is its owner's only.
//! Held by: `keys_are_drawn_once_and_kept_from_others`.

use super::write_whole;
use crate::failure::Failure;
use base_types::s3::S3ErrorCode;
use hive_client::{Client, ClientError, ErrorCode};
use serde_json::{json, Value};
use std::io::Read;
use std::path::Path;
use std::time::Duration;

/// Whose the key is.
pub const ACCOUNT: &str = "dev";
/// How long making them may take: their clusters are made with them.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Letters of keys: 32 and 64 of them, so that a random byte picks one evenly.
const UPPER: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const ALL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789ab";

/// An access key.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Keys {
    pub access_key: String,
    pub secret_key: String,
}

impl Keys {
    /// Those of an earlier start, or new ones, which are written down first.
    pub fn load_or_draw(data: &Path) -> Result<Keys, Failure> {
        let path = data.join("s3-keys.json");
        let failed = |reason: String| Failure::refused(format!("{}: {reason}", path.display()));
        match std::fs::read(&path) {
            Ok(bytes) => {
                let value: Value = serde_json::from_slice(&bytes).map_err(|error| failed(error.to_string()))?;
                let text = |name: &str| value[name].as_str().map(str::to_owned);
                let keys = text("access_key").zip(text("secret_key"));
                let (access_key, secret_key) = keys.ok_or_else(|| failed("has no keys; delete it".into()))?;
                Ok(Keys { access_key, secret_key })
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let keys = Keys { access_key: format!("HIVE{}", draw(16, UPPER)?), secret_key: draw(40, ALL)? };
                let text = format!("{}\n", json!({"access_key": keys.access_key, "secret_key": keys.secret_key}));
                write_whole(&path, text.as_bytes(), 0o600)?;
                Ok(keys)
            }
            Err(error) => Err(failed(error.to_string())),
        }
    }

    /// Makes the account and the key, where they are not there yet.
    pub async fn make(&self, client: &Client) -> Result<(), Failure> {
        let deadline = TIMEOUT.as_millis() as u64;
        let account = json!({
            "action": "CreateAccount", "account": ACCOUNT, "display_name": "hive dev", "deadline_ms": deadline,
        });
        let key = json!({
            "action": "CreateAccessKey", "account": ACCOUNT, "access_key": self.access_key,
            "secret_key": self.secret_key, "deadline_ms": deadline,
        });
        for body in [account, key] {
            match client.action(body).await {
                // There already, from an earlier start.
                Ok(_) | Err(ClientError::Refused { status: 409, .. }) => {}
                Err(error) if error.code() == Some(ErrorCode::S3(S3ErrorCode::NotImplemented)) => {
                    eprintln!("no S3 account is made: {error}");
                }
                Err(error) => {
                    let failure = Failure::from(error);
                    let message = format!("the S3 account '{ACCOUNT}' could not be made: {}", failure.message);
                    return Err(Failure { message, ..failure });
                }
            }
        }
        Ok(())
    }
}

fn draw(count: usize, letters: &[u8]) -> Result<String, Failure> {
    let failed = |error: std::io::Error| Failure::refused(format!("no random numbers: {error}"));
    let mut bytes = vec![0u8; count];
    std::fs::File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes)).map_err(failed)?;
    Ok(bytes.iter().map(|byte| char::from(letters[usize::from(*byte) % letters.len()])).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn keys_are_drawn_once_and_kept_from_others() {
        let data = tempfile::tempdir().unwrap();
        let keys = Keys::load_or_draw(data.path()).unwrap();
        assert_eq!((keys.access_key.len(), keys.secret_key.len()), (20, 40));
        assert_eq!(Keys::load_or_draw(data.path()).unwrap(), keys);
        let path = data.path().join("s3-keys.json");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::write(&path, "{}").unwrap();
        assert!(Keys::load_or_draw(data.path()).unwrap_err().message.contains("delete it"));
    }
}
