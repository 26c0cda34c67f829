//! A node's cores as the doors on threads of their own see them: requests go over as letters, answers come back.
//!
//! ```text
//!   hive-s3-i, hive-etcd-i: Cores::ask ─letter─▶ a core's thread: carry ─▶ LaneDoor::ask ─▶ the answer
//!         ▲ each to who waits ─── Answers of the thread ◀── all of a core's turn, one wake ───┘
//! ```
//! By design: requests under way are bounded ([`CALLS_MAX`]), and those that wait for one core's thread ([`LETTERS_WAITING_MAX`]); every
//! request has a deadline, so every one ends; one whose client went away is cancelled at the core. Answers that wait are of requests under way,
//! so they are as bounded.
//! Not here: retries (the core routes until the deadline).

use crate::lane::door::LaneDoor;
use crate::mailbox::{mailbox, Refused, Sender};
use base_types::action::{Request, Response};
use base_types::{ErrorCode, Refusal};
use std::cell::OnceCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot, OwnedSemaphorePermit, Semaphore};

/// Requests that may be under way at a time, over all cores and doors.
pub const CALLS_MAX: usize = 8192;
/// Requests that may wait for one core's thread to take them.
pub const LETTERS_WAITING_MAX: usize = 1024;

/// A request on its way to a core.
pub struct Letter {
    request: Request,
    answer: oneshot::Sender<Response>,
    /// Where the answer goes, if its thread gathers answers.
    answers: Option<Answers>,
    /// Its place among [`CALLS_MAX`].
    _place: OwnedSemaphorePermit,
}

/// Answers on their way back to a thread. Without it each answer would wake its thread for itself, and tokio would run what it wakes
/// one by one: an answer, the connection's write, the next answer.
type Answers = Sender<(oneshot::Sender<Response>, Response)>;

thread_local! {
    static ANSWERS: OnceCell<Answers> = const { OnceCell::new() };
}

/// From now on answers to what this thread asks come all together. It has a `LocalSet`, on which its work runs to the thread's end.
pub fn gather_answers() {
    ANSWERS.with(|answers| {
        answers.get_or_init(|| {
            let (answers, mut came) = mailbox(CALLS_MAX);
            tokio::task::spawn_local(async move {
                let mut taken: Vec<(oneshot::Sender<Response>, Response)> = Vec::new();
                loop {
                    poll_fn(|context| came.poll_take(context, &mut taken, CALLS_MAX)).await;
                    for (to, response) in taken.drain(..) {
                        // Who waited may be gone.
                        let _ = to.send(response);
                    }
                }
            });
            answers
        });
    });
}

/// By way of the thread's other answers, where it gathers them.
fn give(answers: Option<Answers>, to: oneshot::Sender<Response>, response: Response) {
    let sent = match answers {
        Some(answers) => answers.try_send((to, response)),
        None => Err(Refused::Closed((to, response))),
    };
    if let Err(Refused::Full((to, response)) | Refused::Closed((to, response))) = sent {
        let _ = to.send(response);
    }
}

/// There are too many requests: this one was not begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Busy;

impl Busy {
    /// What a client should know.
    pub fn message() -> String {
        format!("{CALLS_MAX} calls are under way on this node; wait and retry")
    }
}

/// The node's cores.
pub struct Cores {
    senders: Vec<mpsc::Sender<Letter>>,
    next: AtomicUsize,
    places: Arc<Semaphore>,
}

impl Cores {
    /// Over these threads.
    pub fn new(senders: Vec<mpsc::Sender<Letter>>) -> Cores {
        Cores { senders, next: AtomicUsize::new(0), places: Arc::new(Semaphore::new(CALLS_MAX)) }
    }

    /// Asks a core; each in turn. `write`: what is lost on the way may have been done.
    pub async fn ask(&self, request: Request, write: bool) -> Result<Response, Busy> {
        let place = self.places.clone().try_acquire_owned().map_err(|_| Busy)?;
        let (answer, answered) = oneshot::channel();
        let answers = ANSWERS.with(|answers| answers.get().cloned());
        let letter = Letter { request, answer, answers, _place: place };
        let core = self.next.fetch_add(1, Ordering::Relaxed) % self.senders.len();
        let stopping = || Refusal::new(ErrorCode::ShuttingDown, "this node is stopping; ask another");
        match self.senders[core].try_send(letter) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => return Err(Busy),
            Err(mpsc::error::TrySendError::Closed(_)) => return Ok(Err(stopping().into())),
        }
        // The core's thread ended with the request in hand: a write may have been ordered before.
        let lost = |write: bool| match write {
            true => Refusal::new(
                ErrorCode::OutcomeUnknown,
                "this node stopped while the call was under way; read to see whether it was done",
            ),
            false => stopping(),
        };
        Ok(answered.await.unwrap_or_else(|_| Err(lost(write).into())))
    }
}

/// Hands letters to the lanes of a core's thread, on that thread, until no door is left.
pub async fn carry(mut letters: mpsc::Receiver<Letter>, doors: Vec<Rc<LaneDoor>>) {
    let mut turn = doors.iter().cycle();
    while let Some(letter) = letters.recv().await {
        let Some(door) = turn.next().cloned() else { return };
        tokio::task::spawn_local(async move {
            let Letter { request, mut answer, answers, _place } = letter;
            let response = tokio::select! {
                biased;
                // Nobody waits any more: dropping the question lets the core know.
                () = answer.closed() => return,
                response = door.ask(request) => response,
            };
            give(answers, answer, response);
        });
    }
}
