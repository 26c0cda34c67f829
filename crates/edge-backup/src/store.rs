//! The world as this crate sees it: something that answers actions.
//!
//! Here are retries beyond those of the client: a backup of an hour outlives an election.

use crate::files::hex;
use crate::sign::random;
use crate::BackupError;
use hive_client::{Client, ClientError};
use serde_json::Value;
use std::future::Future;
use std::time::{Duration, Instant};

/// How long one action is retried.
const RETRY_FOR: Duration = Duration::from_secs(60);
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Answers actions of the HTTP JSON API.
pub trait Store: Clone + Send + Sync + 'static {
    /// Asks once, with the retries that a client makes itself.
    fn ask(&self, body: Value) -> impl Future<Output = Result<Value, ClientError>> + Send;
}

impl Store for Client {
    async fn ask(&self, body: Value) -> Result<Value, ClientError> {
        self.action(body).await
    }
}

/// Asks until there is a definite answer, or for a minute. All attempts have one request id, so that a write applies once.
pub async fn ask<S: Store>(store: &S, mut body: Value) -> Result<Value, BackupError> {
    body["request_id"] = format!("backup-{}", hex(&random::<12>())).into();
    let start = Instant::now();
    loop {
        match store.ask(body.clone()).await {
            Ok(answer) => return Ok(answer),
            Err(error) if may_pass(&error) && start.elapsed() < RETRY_FOR => tokio::time::sleep(RETRY_PAUSE).await,
            Err(error) => return Err(error.into()),
        }
    }
}

fn may_pass(error: &ClientError) -> bool {
    match error {
        ClientError::Refused { retryable, .. } => *retryable,
        ClientError::Unavailable { .. } | ClientError::Unknown { .. } => true,
        _ => false,
    }
}

/// Whether the world refused with this code.
pub fn is_refused(error: &BackupError, wanted: hive_client::ErrorCode) -> bool {
    matches!(error, BackupError::Client(error) if error.code() == Some(wanted))
}
