//! A database in memory for tests: the backend itself, on a map, with a log of one member.
//!
//! By design: it decides nothing by itself; what waits is evaluated after each change, as a member of a cluster does it.

use crate::database::{About, Database, Levels, Server, Session};
use crate::request::Parser;
use base_types::access::Caller;
use base_types::codec::Encode;
use base_types::redis::{RedisAnswer, RedisAsk, RedisCall};
use base_types::{ErrorCode, Generation, LogIndex, Refusal};
use bytes::Bytes;
use core_backends::testing::MapSpace;
use core_backends::{decode_reply, redis, ApplyContext};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::Mutex;
use tokio::sync::watch;

/// What has been written, and how often something was.
struct Inner {
    space: MapSpace,
    index: u64,
}

/// The database.
pub struct Memory {
    inner: Mutex<Inner>,
    changed: watch::Sender<u64>,
    /// Cluster time, in milliseconds.
    pub now: AtomicU64,
    random: AtomicU64,
    /// Calls that were made.
    pub calls: AtomicUsize,
    /// The password without which nobody comes in.
    pub password: Option<&'static str>,
    /// A key that nobody may name.
    pub forbidden: Mutex<Option<&'static [u8]>>,
    /// A call that names this key is refused for now.
    pub failing: Mutex<Option<&'static [u8]>>,
    /// A keyspace that never answers.
    pub silent: Mutex<Option<&'static str>>,
    /// Clients that came in count for nothing any more.
    pub revoked: AtomicBool,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory {
            inner: Mutex::new(Inner { space: MapSpace::default(), index: 0 }),
            changed: watch::channel(0).0,
            now: AtomicU64::new(1_000),
            random: AtomicU64::new(1),
            calls: AtomicUsize::new(0),
            password: None,
            forbidden: Mutex::new(None),
            failing: Mutex::new(None),
            silent: Mutex::new(None),
            revoked: AtomicBool::new(false),
        }
    }
}

fn session() -> Session {
    Session { caller: Caller::Anyone, user: "default".into(), keyspace: "redis".into() }
}

impl Memory {
    /// One that wants this password.
    pub fn with_password(password: &'static str) -> Memory {
        Memory { password: Some(password), ..Memory::default() }
    }

    fn run(&self, call: &RedisCall) -> Result<RedisAnswer, Refusal> {
        let Ok(mut inner) = self.inner.lock() else { return Err(Refusal::new(ErrorCode::Internal, "poisoned")) };
        let (bytes, now) = (call.to_bytes(), self.now.load(Ordering::Relaxed));
        let damage = |error| Refusal::new(ErrorCode::Internal, format!("{error:?}"));
        if call.read_only() {
            return decode_reply(redis::query(now, &inner.space, &bytes).map_err(damage)?);
        }
        redis::validate(&bytes)?;
        inner.index += 1;
        let (life, index) = (Generation(1), LogIndex(inner.index));
        let at = ApplyContext { life, index, position: 0, cluster_time_ms: now };
        let reply = redis::apply(at, &mut inner.space, &bytes).map_err(damage)?;
        self.changed.send_replace(inner.index);
        decode_reply(reply)
    }

    fn allowed(&self, call: &RedisCall) -> Result<(), Refusal> {
        let names = |key: &Mutex<Option<&'static [u8]>>| {
            let key = key.lock().ok().and_then(|key| *key);
            key.is_some_and(|key| {
                call.commands().iter().flat_map(|command| &command.words).any(|word| &word[..] == key)
            })
        };
        if names(&self.forbidden) {
            return Err(Refusal::new(ErrorCode::PermissionDenied, "not this key"));
        }
        if names(&self.failing) {
            return Err(Refusal::new(ErrorCode::ShuttingDown, "not now"));
        }
        Ok(())
    }
}

#[async_trait::async_trait]
impl Database for Memory {
    async fn call(&self, session: &Session, call: RedisCall, _: Levels) -> Result<RedisAnswer, Refusal> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.silent.lock().is_ok_and(|silent| *silent == Some(session.keyspace.as_str())) {
            return std::future::pending().await;
        }
        self.allowed(&call)?;
        // Between threads there would be a turn or two.
        tokio::task::yield_now().await;
        let waits = matches!(call.ask, RedisAsk::AwaitKeys { .. } | RedisAsk::Messages { .. });
        let mut changed = self.changed.subscribe();
        loop {
            changed.borrow_and_update();
            let answer = self.run(&call);
            let nothing = match (&call.ask, &answer) {
                (RedisAsk::AwaitKeys { keys }, Ok(RedisAnswer::Versions { versions })) => {
                    keys.iter().map(|key| key.version).eq(versions.iter().copied())
                }
                (RedisAsk::Messages { after }, Ok(RedisAnswer::Messages { messages, lost, .. })) => {
                    messages.is_empty() && !lost && *after != u64::MAX
                }
                _ => false,
            };
            if !waits || !nothing || changed.changed().await.is_err() {
                return answer;
            }
        }
    }

    async fn authenticate(&self, user: Option<&str>, password: &[u8]) -> Result<Session, Refusal> {
        match self.password {
            None => Err(Refusal::new(ErrorCode::AccessOff, "nobody is asked")),
            Some(known) if known.as_bytes() == password => {
                Ok(Session { user: user.unwrap_or("default").into(), ..session() })
            }
            Some(_) => Err(Refusal::new(ErrorCode::Unauthenticated, "wrong")),
        }
    }

    fn session(&self, _: Option<&str>) -> Option<Session> {
        self.password.is_none().then(session)
    }

    fn admits(&self, _: &Session) -> bool {
        !self.revoked.load(Ordering::Relaxed)
    }

    fn may_subscribe(&self, session: &Session) -> bool {
        self.admits(session)
    }

    async fn servers(&self, _: &Session) -> Result<Vec<Server>, Refusal> {
        let server = |node| Server {
            node,
            address: Some(("127.0.0.1".into(), 7200 + node as u16)),
            own: node == 1,
            leads: node == 2,
            member: true,
        };
        Ok((1..=3).map(server).collect())
    }

    fn about(&self) -> About {
        About { version: "0.0.0".into(), node: 1, uptime_s: 5, memory: 1, port: 7201 }
    }

    fn unix_ms(&self) -> u64 {
        1_700_000_000_000 + self.now.load(Ordering::Relaxed)
    }

    fn random(&self) -> u64 {
        self.random.fetch_add(1, Ordering::Relaxed)
    }
}

/// The commands in bytes that come in pieces of so many, and the error that ended them. `strict`: nobody has said who it is.
pub fn requests(bytes: &[u8], piece: usize, strict: bool) -> (Vec<Vec<Bytes>>, Option<String>) {
    let (mut parser, mut commands) = (Parser::default(), Vec::new());
    parser.set_strict(strict);
    for part in bytes.chunks(piece.max(1)) {
        parser.buffer().extend_from_slice(part);
        loop {
            match parser.next() {
                Ok(Some(words)) => commands.push(words),
                Ok(None) => break,
                Err(error) => return (commands, Some(error.0)),
            }
        }
    }
    (commands, None)
}
