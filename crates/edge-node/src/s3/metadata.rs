//! The node as the gateway's metadata service: a call becomes a request to one of this node's cores, on
//! the path the HTTP door's requests take.
//!
//! Always: calls under way are bounded ([`CALLS_MAX`]); every call has a deadline, so every call ends; a
//! call whose client went away is cancelled at the core.
//! The secret of an account's key is opened here, on its way to the gateway; JSON answers show no sealed one.
//! Not here: retries (the core routes until the deadline; S3 clients retry what the answer calls temporary).

use crate::access::s3_keys::open_account_key;
use crate::access::AccessHub;
use crate::lane::door::LaneDoor;
use base_types::action::{Action, ActionResult, Request, Response};
use base_types::s3::{S3Action, S3Answer, S3ErrorCode};
use base_types::{ErrorCode, ReadConsistency, Refusal, WriteConsistency};
use door_s3::metadata::OnBehalf;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, OwnedSemaphorePermit, Semaphore};

/// Calls of the gateway that may be under way at a time, over all cores.
pub const CALLS_MAX: usize = 8192;
/// Calls that may wait for one core's thread to take them.
pub const LETTERS_WAITING_MAX: usize = 1024;
/// How long a call may take: less than clients wait for an answer (boto3: 60 s), longer than an election.
pub const DEADLINE: Duration = Duration::from_secs(25);

/// A call on its way to a core.
pub struct Letter {
    request: Request,
    answer: oneshot::Sender<Response>,
    /// Its place among [`CALLS_MAX`].
    _place: OwnedSemaphorePermit,
}

/// The node's cores as a metadata service.
pub struct NodeMetadata {
    cores: Vec<mpsc::Sender<Letter>>,
    next: AtomicUsize,
    places: Arc<Semaphore>,
    access: Arc<AccessHub>,
}

impl NodeMetadata {
    /// Over these cores.
    pub fn new(cores: Vec<mpsc::Sender<Letter>>, access: Arc<AccessHub>) -> NodeMetadata {
        NodeMetadata { cores, next: AtomicUsize::new(0), places: Arc::new(Semaphore::new(CALLS_MAX)), access }
    }

    /// Asks a core for any action; each in turn. A call on a bucket: of this owner's alone, where one is named.
    pub async fn ask(&self, action: Action, write: bool, behalf: OnBehalf<'_>) -> Response {
        let request = Request {
            action,
            consistency: write.then_some(WriteConsistency::Strong),
            read_consistency: (!write).then_some(ReadConsistency::Strong),
            deadline: DEADLINE,
            request_id: None,
            after: None,
            expected_bucket_owner: behalf.owner.map(str::to_owned),
            caller: behalf.caller,
        };
        let overloaded = || {
            let message = format!("{CALLS_MAX} calls are under way on this node; wait and retry");
            S3ErrorCode::SlowDown.because(message)
        };
        let place = self.places.clone().try_acquire_owned().map_err(|_| overloaded())?;
        let (answer, answered) = oneshot::channel();
        let letter = Letter { request, answer, _place: place };
        let core = self.next.fetch_add(1, Ordering::Relaxed) % self.cores.len();
        let stopping = || Refusal::new(ErrorCode::ShuttingDown, "this node is stopping; ask another");
        match self.cores[core].try_send(letter) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => return Err(overloaded().into()),
            Err(mpsc::error::TrySendError::Closed(_)) => return Err(stopping().into()),
        }
        // The core's thread ended with the call in hand: a write may have been ordered before.
        let lost = |write: bool| match write {
            true => Refusal::new(
                ErrorCode::OutcomeUnknown,
                "this node stopped while the call was under way; read to see whether it was done",
            ),
            false => stopping(),
        };
        answered.await.unwrap_or_else(|_| Err(lost(write).into()))
    }
}

#[async_trait::async_trait]
impl door_s3::metadata::MetadataService for NodeMetadata {
    async fn call(&self, action: S3Action, behalf: OnBehalf<'_>) -> Result<S3Answer, Refusal> {
        let (name, write) = (action.name(), !action.read_only());
        match self.ask(Action::S3(action), write, behalf).await {
            Ok(answer) => match answer.result {
                ActionResult::S3(S3Answer::AccessKey(key)) => Ok(open_account_key(&self.access.sealing, *key)?.into()),
                ActionResult::S3(answer) => Ok(answer),
                ActionResult::Done => Ok(S3Answer::Done),
                _ => Err(S3ErrorCode::InternalError.because(format!("{name} was answered with another call's answer"))),
            },
            Err(failure) => Err(failure.refusal),
        }
    }
}

/// Hands letters to the lanes of a core's thread, on that thread, until no gateway is left.
pub async fn carry(mut letters: mpsc::Receiver<Letter>, doors: Vec<Rc<LaneDoor>>) {
    let mut turn = doors.iter().cycle();
    while let Some(letter) = letters.recv().await {
        let Some(door) = turn.next().cloned() else { return };
        tokio::task::spawn_local(async move {
            let Letter { request, mut answer, _place } = letter;
            let response = tokio::select! {
                biased;
                // Nobody waits any more: dropping the question lets the core know.
                () = answer.closed() => return,
                response = door.ask(request) => response,
            };
            let _ = answer.send(response);
        });
    }
}
