//! `KvWatch`: changes of keys as they are made, one JSON object a line, until the client goes away.
//!
//! ```text
//!   Describe (where no position is given) ─▶ Await ─changes─▶ {"at":"7.0","key":…} …  ─none─▶ {"reached":"7"} ─▶ Await …
//! ```
//! Always: every change after the position comes once and in order, whichever members answer (`Reply::Changes::reached` is what is
//! asked after next); a client that takes no bytes is read for no more ([`LINES_WAITING_MAX`]), and cut off as with any answer.
//! Nothing is given to whom may not watch it any more (`open_doors` of scripts/secure_world.py).
//! What ends the stream is its last line, as an error of any action is written.
//! Not here: the etcd door's watches, which share one reader of a namespace (door-etcd).

use super::routes::{refused, respond, Answered, JSON};
use super::HttpDoor;
use crate::access::AccessHub;
use crate::lane::door::LaneDoor;
use base_types::action::{Action, ActionResult, Answer, KvTarget, Request};
use base_types::versioned::{Change, Position, Query, Reply, VersionedCall};
use base_types::{ErrorCode, ErrorKind, ReadConsistency, Refusal};
use bytes::Bytes;
use door_http::{write_change, write_error, HttpError};
use hyper::body::{Body, Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc;

/// Watches at a time, of one core's thread.
const WATCHES_MAX: usize = 1_000;
/// Pieces of an answer that wait for the client, each of one page of changes.
const LINES_WAITING_MAX: usize = 2;
/// How long one question may take: longer than a member waits for a change.
const DEADLINE: Duration = Duration::from_secs(20);
/// The pause after a question that no member answered.
const PAUSE: Duration = Duration::from_millis(500);

/// The body of an answer: whole, or in lines as they come.
pub enum AnswerBody {
    Whole(Option<Bytes>),
    Lines(mpsc::Receiver<Bytes>),
}

impl From<Vec<u8>> for AnswerBody {
    fn from(body: Vec<u8>) -> AnswerBody {
        AnswerBody::Whole(Some(body.into()).filter(|body: &Bytes| !body.is_empty()))
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            AnswerBody::Whole(body) => Poll::Ready(body.take().map(|body| Ok(Frame::data(body)))),
            AnswerBody::Lines(lines) => lines.poll_recv(context).map(|line| line.map(|line| Ok(Frame::data(line)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, AnswerBody::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            AnswerBody::Whole(body) => SizeHint::with_exact(body.as_ref().map_or(0, |body| body.len() as u64)),
            AnswerBody::Lines(_) => SizeHint::default(),
        }
    }
}

/// What a watch asks.
pub struct Watch {
    target: KvTarget,
    query: Query,
    request: Request,
}

impl Watch {
    /// Of a request; any other one comes back.
    pub fn of(request: Request) -> Result<Watch, Box<Request>> {
        let Action::Versioned { target, call } = &request.action else { return Err(Box::new(request)) };
        match &**call {
            VersionedCall::Ask(query @ Query::Await { .. }) => {
                Ok(Watch { target: target.clone(), query: query.clone(), request })
            }
            _ => Err(Box::new(request)),
        }
    }

    async fn ask(&self, door: &Rc<LaneDoor>, query: Query, level: ReadConsistency) -> Result<Reply, Refusal> {
        let request = Request {
            action: Action::Versioned { target: self.target.clone(), call: Box::new(VersionedCall::Ask(query)) },
            consistency: None,
            read_consistency: Some(level),
            deadline: DEADLINE,
            request_id: None,
            after: None,
            expected_bucket_owner: None,
            caller: self.request.caller.clone(),
        };
        match door.clone().ask(request).await {
            Ok(Answer { result: ActionResult::Versioned(reply), .. }) => Ok(*reply),
            Ok(_) => Err(Refusal::new(ErrorCode::Internal, "a watch was answered by something else; report it")),
            Err(failure) => Err(failure.refusal),
        }
    }

    /// Where it begins: where the client says, or now.
    async fn begin(&mut self, door: &Rc<LaneDoor>) -> Result<Position, Refusal> {
        let Query::Await { after, .. } = &mut self.query else { return Ok(Position::default()) };
        if *after != door_http::WATCH_FROM_NOW {
            return Ok(*after);
        }
        match self.ask(door, Query::Describe, ReadConsistency::Strong).await? {
            Reply::Info { info } => Ok(Position::end_of(info.stamp)),
            _ => Err(Refusal::new(ErrorCode::Internal, "a description was answered by something else; report it")),
        }
    }

    /// The question after a position.
    fn after(&self, position: Position) -> Query {
        let mut query = self.query.clone();
        if let Query::Await { after, .. } = &mut query {
            *after = position;
        }
        query
    }

    /// Refused where the client may not watch this any more. The core looked when the question came, which was up to [`DEADLINE`] ago.
    fn still_may(&self, access: &AccessHub, reached: Position) -> Result<(), Refusal> {
        let call = Box::new(VersionedCall::Ask(self.after(reached)));
        access.may(&self.request.caller, &Action::Versioned { target: self.target.clone(), call })
    }

    /// Gives lines until the client is gone or the watch has to end.
    async fn run(mut self, door: Rc<LaneDoor>, access: Arc<AccessHub>, lines: mpsc::Sender<Bytes>) {
        let mut reached = match self.begin(&door).await {
            Ok(reached) => reached,
            Err(refusal) => return drop(lines.send(last_line(&refusal)).await),
        };
        while !lines.is_closed() {
            let asked = tokio::select! {
                biased;
                () = lines.closed() => return,
                asked = self.ask(&door, self.after(reached), ReadConsistency::Eventual) => asked,
            };
            if let Err(refusal) = self.still_may(&access, reached) {
                return drop(lines.send(last_line(&refusal)).await);
            }
            let text = match asked {
                // A member that lags gives what was given already: nothing.
                Ok(Reply::Changes { reached: here, .. }) if here < reached => {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
                Ok(Reply::Changes { changes, reached: here, .. }) => {
                    reached = here;
                    lines_of(&changes, here)
                }
                Err(refusal) if matches!(refusal.kind(), ErrorKind::Unavailable | ErrorKind::Overloaded) => {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
                Ok(_) => return,
                Err(refusal) => return drop(lines.send(last_line(&refusal)).await),
            };
            if lines.send(text).await.is_err() {
                return;
            }
        }
    }
}

/// The changes, or where the watch stands, so that a client that hears nothing knows that it is connected.
fn lines_of(changes: &[Change], reached: Position) -> Bytes {
    let mut out = Vec::new();
    for change in changes {
        write_change(change, &mut out);
        out.push(b'\n');
    }
    if changes.is_empty() {
        door_http::write_reached(reached, &mut out);
        out.push(b'\n');
    }
    out.into()
}

fn last_line(refusal: &Refusal) -> Bytes {
    let (_, mut body) = write_error(&HttpError::new(refusal.clone()));
    body.push(b'\n');
    body.into()
}

/// Answers with the lines of a watch. What is refused at once is an error like any other action's.
pub async fn answer(own: &HttpDoor, door: Rc<LaneDoor>, watch: Watch) -> Answered {
    let Some(place) = own.state.watches.take(WATCHES_MAX) else {
        let message = format!("{WATCHES_MAX} watches are open on this thread; watch through another node, or end some");
        return refused(&HttpError::new(Refusal::new(ErrorCode::Overloaded, message)));
    };
    let (lines, given) = mpsc::channel(LINES_WAITING_MAX);
    let access = own.access.clone();
    tokio::task::spawn_local(async move {
        let _place = place;
        watch.run(door, access, lines).await;
    });
    let mut answer = respond(200, JSON, Vec::new());
    *answer.body_mut() = AnswerBody::Lines(given);
    answer
        .headers_mut()
        .insert(hyper::header::CONTENT_TYPE, hyper::header::HeaderValue::from_static("application/x-ndjson"));
    answer
}

/// How many there are.
#[derive(Clone, Default)]
pub struct Watches(Rc<std::cell::Cell<usize>>);

/// One of them; given back when it is dropped.
pub struct WatchPlace(Watches);

impl Watches {
    fn take(&self, most: usize) -> Option<WatchPlace> {
        (self.0.get() < most).then(|| {
            self.0.set(self.0.get() + 1);
            WatchPlace(self.clone())
        })
    }
}

impl Drop for WatchPlace {
    fn drop(&mut self) {
        let count = &self.0 .0;
        count.set(count.get().saturating_sub(1));
    }
}
