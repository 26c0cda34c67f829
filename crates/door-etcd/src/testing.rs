//! A store in memory for tests: the real backend on a map for each namespace, one "node", a clock that tests turn.
//!
//! Always: commands and queries mean what they mean in a cluster: they are validated, applied and answered by core-backends.
//! Not here: what Hive's directory of users does; `testing/users.rs` has the little of it that tests need.

mod users;

use crate::store::{Member, Place, Session, Store};
use base_types::access::{AccessAction, AccessAnswer, Caller};
use base_types::codec::Encode as _;
use base_types::versioned::{Command, Query, Reply};
use base_types::{BackendKind, ErrorCode, Generation, LogIndex, ReadConsistency, Refusal};
use core_backends::testing::MapSpace;
use core_backends::{decode_reply, ApplyContext};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use users::Users;

/// Where the clock of a new store stands.
const BEGIN_MS: u64 = 1_700_000_000_000;
/// The namespace of who names none.
pub const NAMESPACE: &str = "default";

/// The store. A token `ns=NAME` picks a namespace; one of `authenticate` is its user's, in the namespace `default`.
pub struct MemoryStore {
    spaces: Mutex<HashMap<String, (MapSpace, u64)>>,
    users: Mutex<Users>,
    clock_ms: AtomicU64,
    drawn: AtomicU64,
    asked: AtomicU64,
    refusals: Mutex<VecDeque<Refusal>>,
    remade: AtomicU64,
    engines_bytes: AtomicU64,
    denied: AtomicBool,
    required: bool,
}

impl Default for MemoryStore {
    fn default() -> MemoryStore {
        MemoryStore::new(false)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemoryStore {
    /// An empty store; `required`: callers must say who they are, and there is a user `root` with the password `root`.
    pub fn new(required: bool) -> MemoryStore {
        MemoryStore {
            spaces: Mutex::default(),
            users: Mutex::new(if required { Users::with_root() } else { Users::default() }),
            clock_ms: AtomicU64::new(BEGIN_MS),
            drawn: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            refusals: Mutex::default(),
            remade: AtomicU64::new(0),
            engines_bytes: AtomicU64::new(0),
            denied: AtomicBool::new(false),
            required,
        }
    }

    /// Turns the clock on. Leases whose time is over end at the next [`Command::LeaseExpire`].
    pub fn pass_ms(&self, ms: u64) {
        self.clock_ms.fetch_add(ms, Ordering::Relaxed);
    }

    /// Refuses the next call; several wait in line.
    pub fn refuse_next(&self, code: ErrorCode) {
        lock(&self.refusals).push_back(Refusal::new(code, "as the test wanted"));
    }

    /// Takes everybody's rights, for what is looked at once more.
    pub fn deny(&self) {
        self.denied.store(true, Ordering::Relaxed);
    }

    /// How many questions were asked.
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// What the engines take from now on; half of it is in use.
    pub fn take_bytes(&self, bytes: u64) {
        self.engines_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Deletes a namespace and makes it again: all of it is in another cluster.
    pub fn remake(&self, namespace: &str) {
        lock(&self.spaces).remove(namespace);
        self.remade.fetch_add(1, Ordering::Relaxed);
    }

    fn place(&self, index: u64) -> Place {
        Place { cluster: 7 + self.remade.load(Ordering::Relaxed), member: 1, term: 3, index }
    }

    fn begin(&self) -> Result<(), Refusal> {
        lock(&self.refusals).pop_front().map_or(Ok(()), Err)
    }
}

fn damage(error: impl std::fmt::Display) -> Refusal {
    Refusal::new(ErrorCode::Internal, error.to_string())
}

#[async_trait::async_trait]
impl Store for MemoryStore {
    async fn change(&self, session: &Session, command: Command) -> Result<(Reply, Place), Refusal> {
        self.begin()?;
        let mut spaces = lock(&self.spaces);
        let (space, index) = spaces.entry(session.namespace.clone()).or_default();
        let bytes = command.to_bytes();
        core_backends::validate(BackendKind::Versioned, &bytes)?;
        *index += 1;
        let at = ApplyContext {
            life: Generation(1),
            index: LogIndex(*index),
            position: 0,
            cluster_time_ms: self.clock_ms.load(Ordering::Relaxed),
        };
        let reply = core_backends::apply(BackendKind::Versioned, at, space, &bytes).map_err(damage)?;
        Ok((decode_reply(reply)?, self.place(*index)))
    }

    async fn ask(&self, session: &Session, query: Query, _level: ReadConsistency) -> Result<(Reply, Place), Refusal> {
        self.begin()?;
        self.asked.fetch_add(1, Ordering::Relaxed);
        let mut spaces = lock(&self.spaces);
        let (space, index) = spaces.entry(session.namespace.clone()).or_default();
        let now_ms = self.clock_ms.load(Ordering::Relaxed);
        let reply = core_backends::query(BackendKind::Versioned, now_ms, space, &query.to_bytes()).map_err(damage)?;
        Ok((decode_reply(reply)?, self.place(*index)))
    }

    async fn authenticate(&self, user: &str, password: &str) -> Result<String, Refusal> {
        self.begin()?;
        match user.split_once('@') {
            _ if self.required => lock(&self.users).token(user, password),
            Some((_, namespace)) => Ok(format!("ns={namespace}")),
            None => Err(Refusal::new(ErrorCode::AccessOff, "nobody is asked here who they are")),
        }
    }

    async fn session(&self, token: Option<&str>, certificate: Option<&str>) -> Result<Session, Refusal> {
        let whole = |caller: Caller, namespace: &str| Session { caller, namespace: namespace.to_string() };
        let namespace = token.and_then(|token| token.strip_prefix("ns="));
        if !self.required {
            return Ok(whole(Caller::Anyone, namespace.unwrap_or(NAMESPACE)));
        }
        let users = lock(&self.users);
        let known = match (token, certificate) {
            (Some(token), _) => users.of_token(token),
            (None, Some(user)) => users.of_certificate(user),
            (None, None) => None,
        };
        match known {
            Some(credential) => Ok(whole(Caller::Identity { credential, decided_at: None }, NAMESPACE)),
            None => Err(Refusal::new(ErrorCode::Unauthenticated, "no credential that counts; authenticate")),
        }
    }

    fn standing(&self, _session: &Session) -> Result<u64, Refusal> {
        Ok(0)
    }

    fn permits(&self, _session: &Session, _query: &Query) -> Result<(), Refusal> {
        match self.denied.load(Ordering::Relaxed) {
            true => Err(Refusal::new(ErrorCode::PermissionDenied, "as the test wanted")),
            false => Ok(()),
        }
    }

    fn auth_required(&self) -> bool {
        self.required
    }

    fn auth_revision(&self) -> u64 {
        lock(&self.users).revision()
    }

    async fn access(&self, _session: &Session, call: AccessAction) -> Result<AccessAnswer, Refusal> {
        self.begin()?;
        lock(&self.users).call(call)
    }

    async fn healthy(&self) -> Result<(), Refusal> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.begin()
    }

    async fn members(&self, _session: &Session) -> Result<(Vec<Member>, Place), Refusal> {
        self.begin()?;
        let member = |id: u64| Member {
            id,
            name: format!("node-{id}"),
            client_urls: vec![format!("http://127.0.0.1:{}", 2378 + id)],
            peer_urls: vec![format!("http://127.0.0.1:{}", 7400 + id)],
            leads: id == 1,
        };
        Ok(((1..=3).map(member).collect(), self.place(0)))
    }

    fn sizes(&self) -> (u64, u64) {
        (self.engines_bytes.load(Ordering::Relaxed), self.engines_bytes.load(Ordering::Relaxed) / 2)
    }

    fn spool(&self) -> std::io::Result<std::fs::File> {
        tempfile::tempfile()
    }

    fn unix_ms(&self) -> u64 {
        self.clock_ms.load(Ordering::Relaxed)
    }

    fn random(&self) -> u64 {
        // Spread over all bits, as the real one is; never the same twice.
        self.drawn.fetch_add(1, Ordering::Relaxed).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}
