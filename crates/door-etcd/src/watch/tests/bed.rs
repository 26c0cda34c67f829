//! A store that can be cut off, lag and deny; a client of the Watch service; short ways to write.

use crate::door::Door;
use crate::limits::Limits;
use crate::proto::etcdserverpb::watch_request::RequestUnion;
use crate::proto::etcdserverpb::{
    WatchCancelRequest, WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse,
};
use crate::store::{Member, Place, Session, Store};
use crate::testing::{MemoryStore, NAMESPACE};
use crate::watch::{Hubs, Settings, WatchService, Watching};
use base_types::access::{AccessAction, AccessAnswer, Caller};
use base_types::versioned::{Command, Operation, Position, Put, Query, Reply, Span, Transaction};
use base_types::{ErrorCode, ReadConsistency, Refusal};
use bytes::Bytes;
use futures::StreamExt as _;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::Status;

/// Longer than anything takes by the clock of a test, which leaps to the next timer.
const PATIENCE: Duration = Duration::from_secs(100);
/// After so long without a message there is none.
const SILENCE: Duration = Duration::from_secs(3);

/// The store in memory, with faults.
#[derive(Default)]
pub struct Faulty {
    pub inner: MemoryStore,
    /// Refuses every question.
    pub cut: AtomicBool,
    /// Refuses what needs the leader.
    pub leaderless: AtomicBool,
    /// Denies everybody but the node.
    pub denied: AtomicBool,
    /// Nobody's credential counts any more, but the node's.
    pub ended: AtomicBool,
    /// Eventual reads see nothing after this stamp, if it is not 0.
    pub lag_at: AtomicU64,
    /// The most changes of a page, if it is not 0.
    pub page_max: AtomicU32,
    /// Reads of changes by the node: of all keys, of others, and those that wanted former values.
    pub followed: AtomicU64,
    pub caught_up: AtomicU64,
    pub with_before: AtomicU64,
}

impl Faulty {
    fn count(&self, query: &Query, session: &Session) {
        let (Query::Changes { before, .. } | Query::Await { before, .. }) = query else { return };
        if session.caller == Caller::Node {
            let follower = matches!(query, Query::Await { .. });
            if follower { &self.followed } else { &self.caught_up }.fetch_add(1, Relaxed);
            self.with_before.fetch_add(u64::from(*before), Relaxed);
        }
    }

    fn fault(&self, session: &Session, level: ReadConsistency) -> Option<ErrorCode> {
        let leaderless = self.leaderless.load(Relaxed) && level == ReadConsistency::Strong;
        if self.cut.load(Relaxed) || leaderless {
            return Some(ErrorCode::NoLeader);
        }
        (self.denied.load(Relaxed) && session.caller != Caller::Node).then_some(ErrorCode::PermissionDenied)
    }
}

#[async_trait::async_trait]
impl Store for Faulty {
    async fn change(&self, session: &Session, command: Command) -> Result<(Reply, Place), Refusal> {
        self.inner.change(session, command).await
    }

    async fn ask(&self, session: &Session, query: Query, level: ReadConsistency) -> Result<(Reply, Place), Refusal> {
        self.count(&query, session);
        // A read takes its time, and others run meanwhile.
        tokio::time::sleep(Duration::from_micros(100)).await;
        if let Some(code) = self.fault(session, level) {
            return Err(Refusal::new(code, "as the test wanted"));
        }
        let (mut query, lag_at) = (query, self.lag_at.load(Relaxed));
        if let (Query::Changes { limit, .. } | Query::Await { limit, .. }, most @ 1..) =
            (&mut query, self.page_max.load(Relaxed))
        {
            *limit = if *limit == 0 { most } else { most.min(*limit) };
        }
        let after = match &query {
            Query::Changes { after, .. } | Query::Await { after, .. } => *after,
            _ => Position::default(),
        };
        let (mut reply, place) = self.inner.ask(session, query, level).await?;
        if let (Reply::Changes { changes, reached, .. }, true) = (&mut reply, lag_at > 0) {
            if level == ReadConsistency::Eventual {
                changes.retain(|change| change.at.stamp <= lag_at);
                *reached = (*reached).min(Position::end_of(lag_at)).max(after);
            }
        }
        if let (Reply::Info { info }, true, ReadConsistency::Eventual) = (&mut reply, lag_at > 0, level) {
            info.stamp = info.stamp.min(lag_at);
        }
        Ok((reply, place))
    }

    async fn authenticate(&self, user: &str, password: &str) -> Result<String, Refusal> {
        self.inner.authenticate(user, password).await
    }

    async fn session(&self, token: Option<&str>, certificate: Option<&str>) -> Result<Session, Refusal> {
        self.inner.session(token, certificate).await
    }

    fn standing(&self, session: &Session) -> Result<u64, Refusal> {
        let ended = self.ended.load(Relaxed) && session.caller != Caller::Node;
        match ended {
            true => Err(Refusal::new(ErrorCode::Unauthenticated, "as the test wanted")),
            false => Ok(u64::from(self.denied.load(Relaxed))),
        }
    }

    fn permits(&self, session: &Session, _query: &Query) -> Result<(), Refusal> {
        self.standing(session)?;
        match self.denied.load(Relaxed) && session.caller != Caller::Node {
            true => Err(Refusal::new(ErrorCode::PermissionDenied, "as the test wanted")),
            false => Ok(()),
        }
    }

    fn auth_required(&self) -> bool {
        self.inner.auth_required()
    }

    fn auth_revision(&self) -> u64 {
        self.inner.auth_revision()
    }

    async fn access(&self, session: &Session, call: AccessAction) -> Result<AccessAnswer, Refusal> {
        self.inner.access(session, call).await
    }

    async fn healthy(&self) -> Result<(), Refusal> {
        Ok(())
    }

    async fn members(&self, session: &Session) -> Result<(Vec<Member>, Place), Refusal> {
        self.inner.members(session).await
    }

    fn unix_ms(&self) -> u64 {
        self.inner.unix_ms()
    }

    fn random(&self) -> u64 {
        self.inner.random()
    }
}

pub fn session() -> Session {
    Session { caller: Caller::Anyone, namespace: NAMESPACE.into() }
}

pub fn put(key: &str, value: &str) -> Operation {
    let (key, value) = (Bytes::copy_from_slice(key.as_bytes()), Bytes::copy_from_slice(value.as_bytes()));
    Operation::Put(Put { key, value, lease: 0, previous: false, keep_value: false, keep_lease: false })
}

pub fn delete(key: &str) -> Operation {
    Operation::Delete { span: Span::One { key: Bytes::copy_from_slice(key.as_bytes()) }, previous: false }
}

/// A node with a door.
pub struct Bed {
    pub store: Arc<Faulty>,
    pub hubs: Arc<Hubs>,
    pub service: WatchService,
}

impl Bed {
    pub fn new() -> Bed {
        Bed::with(Settings::default())
    }

    pub fn with(settings: Settings) -> Bed {
        let store = Arc::new(Faulty::default());
        let hubs = Hubs::new(Door::new(store.clone(), Limits::default()), settings);
        Bed { store, service: WatchService::new(hubs.clone()), hubs }
    }

    /// Commits; gives the stamp.
    pub async fn commit(&self, then: Vec<Operation>) -> u64 {
        let transaction = Transaction { then, ..Transaction::default() };
        match self.store.change(&session(), Command::Commit { transaction }).await {
            Ok((Reply::Committed { stamp, .. }, _)) => stamp,
            other => panic!("{other:?}"),
        }
    }

    pub async fn put(&self, key: &str, value: &str) -> u64 {
        self.commit(vec![put(key, value)]).await
    }

    pub async fn compact(&self, stamp: u64) {
        self.store.change(&session(), Command::Compact { stamp }).await.unwrap();
        while let Ok((Reply::Collected { more: true, .. }, _)) =
            self.store.change(&session(), Command::Collect { limit: 100 }).await
        {}
    }

    pub fn client(&self) -> Client {
        self.client_as(Ok(session()), false)
    }

    pub fn client_as(&self, session: Result<Session, Status>, require_leader: bool) -> Client {
        let (requests, taken) = mpsc::unbounded_channel();
        let messages = self.service.open(session, require_leader, UnboundedReceiverStream::new(taken)).unwrap();
        Client { requests, messages }
    }
}

/// A client of the Watch service. It takes no messages but those that it is made to take.
pub struct Client {
    requests: mpsc::UnboundedSender<Result<WatchRequest, Status>>,
    messages: Watching,
}

pub fn on(key: &str) -> WatchCreateRequest {
    WatchCreateRequest { key: Bytes::copy_from_slice(key.as_bytes()), ..WatchCreateRequest::default() }
}

pub fn on_range(key: &str, end: &str) -> WatchCreateRequest {
    WatchCreateRequest { range_end: Bytes::copy_from_slice(end.as_bytes()), ..on(key) }
}

impl Client {
    pub fn send(&self, request: RequestUnion) {
        // A stream that has ended takes no requests.
        let _ = self.requests.send(Ok(WatchRequest { request_union: Some(request) }));
    }

    pub fn create(&self, request: WatchCreateRequest) {
        self.send(RequestUnion::CreateRequest(request));
    }

    pub fn cancel(&self, watch_id: i64) {
        self.send(RequestUnion::CancelRequest(WatchCancelRequest { watch_id }));
    }

    pub fn ask_progress(&self) {
        self.send(RequestUnion::ProgressRequest(WatchProgressRequest {}));
    }

    pub async fn next_or_end(&mut self) -> Result<WatchResponse, Status> {
        let next = tokio::time::timeout(PATIENCE, self.messages.next()).await.expect("there is no message");
        next.expect("the stream ended")
    }

    pub async fn next(&mut self) -> WatchResponse {
        self.next_or_end().await.unwrap()
    }

    /// A message that is there, or comes soon.
    pub async fn soon(&mut self) -> Option<WatchResponse> {
        self.soon_or_end().await.map(Result::unwrap)
    }

    pub async fn soon_or_end(&mut self) -> Option<Result<WatchResponse, Status>> {
        tokio::time::timeout(SILENCE, self.messages.next()).await.ok()?
    }

    /// Creates a watch and takes the answer.
    pub async fn created(&mut self, request: WatchCreateRequest) -> WatchResponse {
        self.create(request);
        let answer = self.next().await;
        assert!(answer.created && answer.events.is_empty(), "{answer:?}");
        answer
    }
}

/// A message's events, as text: `revision key=value`, `revision -key`, with `(was value)`.
pub fn shown(message: &WatchResponse) -> String {
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    let event = |event: &crate::proto::mvccpb::Event| {
        let kv = event.kv.as_ref().unwrap();
        let was = event.prev_kv.as_ref().map_or(String::new(), |was| format!(" (was {})", text(&was.value)));
        match event.r#type {
            0 => format!("{} {}={}{was}", kv.mod_revision, text(&kv.key), text(&kv.value)),
            _ => format!("{} -{}{was}", kv.mod_revision, text(&kv.key)),
        }
    };
    message.events.iter().map(event).collect::<Vec<_>>().join(", ")
}

pub fn revision_of(message: &WatchResponse) -> i64 {
    message.header.as_ref().unwrap().revision
}
