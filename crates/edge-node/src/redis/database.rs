//! The node as the Redis door's database: a call becomes a request to one of this node's cores, as the caller whom the door let in.
//!
//! ```text
//!   AUTH token                 ─▶ a bearer token of Hive's or of an OIDC issuer        database of the listener
//!   AUTH ann password          ─▶ a user's password, or a token of that user           database of the listener
//!   AUTH ann@team password     ─▶ the same, database "team", unless there is a user of this whole name
//! ```
//! By design: what a caller may do is the core's to say (`Caller` goes with each request), and whether its credential still counts is looked
//! at before each (`access/standing.rs`); a call is sent once, with an id of its own, so the core's repeats apply once.
//! Not here: the protocol (door-redis).

use super::kinds::Kinds;
use super::DOOR_PREFIX;
use crate::access::AccessHub;
use crate::chance;
use crate::cores::{Busy, Cores};
use crate::monitor::{process_usage, unix_ms};
use base_types::access::Caller;
use base_types::action::{Action, ActionResult, Answer, KeyspaceKind, KvTarget, NodeInfo, Request};
use base_types::redis::{RedisAnswer, RedisAsk, RedisCall, RedisReply};
use base_types::{ErrorCode, NodeId, ReadConsistency, Refusal};
use door_redis::{About, Database, Levels, Server, Session};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a call may take: longer than an election, and than a read waits for a change (`RedisAsk::AwaitKeys`).
const DEADLINE: Duration = Duration::from_secs(20);
/// What parts a user from the database that it asks for.
const DATABASE_MARK: char = '@';
/// Who has not said who it is, where nobody is asked; also the name under which a bearer token alone comes.
const DEFAULT_USER: &str = "default";

/// The node's cores as a database; of one listener.
pub struct NodeDatabase {
    pub cores: Arc<Cores>,
    pub access: Arc<AccessHub>,
    pub node: NodeId,
    /// Of clients that pick none by their user.
    pub keyspace: String,
    /// Where this node's clients reach it.
    pub url: String,
    /// The listener's own address.
    pub address: SocketAddr,
    pub started: Instant,
    pub kinds: Kinds,
}

impl NodeDatabase {
    pub(super) async fn ask(&self, request: Request, write: bool) -> Result<Answer, Refusal> {
        match self.cores.ask(request, write).await {
            Ok(response) => response.map_err(|failure| failure.refusal),
            Err(Busy) => Err(Refusal::new(ErrorCode::Overloaded, Busy::message())),
        }
    }

    /// A question of this node's own.
    async fn look(&self, action: Action, level: ReadConsistency) -> Result<ActionResult, Refusal> {
        let request = Request { read_consistency: Some(level), ..request(action, Caller::Node) };
        self.ask(request, false).await.map(|answer| answer.result)
    }

    /// Whether a keyspace is plain: a database of strings (plain.rs). Where that cannot be learned, its cluster says what is wrong.
    async fn is_plain(&self, keyspace: &str) -> bool {
        if let Some(known) = self.kinds.is_plain(keyspace) {
            return known;
        }
        // Its kind is no secret of a user's; what is done there is the user's own action.
        let about = Action::DescribeKeyspace { keyspace: keyspace.to_owned() };
        let Ok(ActionResult::Keyspace(info)) = self.look(about, ReadConsistency::Strong).await else { return false };
        let plain = info.kind == KeyspaceKind::Plain;
        self.kinds.learn(keyspace, plain);
        plain
    }

    /// A call to a keyspace of the kind `redis`.
    async fn on_redis(&self, session: &Session, call: RedisCall, levels: Levels) -> Result<RedisAnswer, Refusal> {
        let (write, commands) = (!call.read_only(), call.commands().len());
        let target = KvTarget::Keyspace(session.keyspace.clone());
        let action = Action::RedisCall { target, call: Box::new(call) };
        let request = Request {
            consistency: write.then_some(levels.write),
            read_consistency: (!write).then_some(levels.read),
            ..request(action, session.caller.clone())
        };
        match self.ask(request, write).await?.result {
            ActionResult::RedisCall(answer) => Ok(answer),
            // Answered before it was applied, as its level wants: there are no replies yet.
            ActionResult::Done => Ok(RedisAnswer::Replies { replies: vec![RedisReply::Ok; commands] }),
            _ => Err(unexpected()),
        }
    }

    fn session_of(&self, caller: Caller, keyspace: Option<String>) -> Session {
        let known = match &caller {
            Caller::Identity { credential, .. } => {
                self.access.directory().identity(*credential).map(|own| own.user.to_string())
            }
            _ => None,
        };
        let user = known.unwrap_or_else(|| DEFAULT_USER.into());
        Session { caller, user, keyspace: keyspace.unwrap_or_else(|| self.keyspace.clone()) }
    }

    /// A user's name, and the database that it picks. Names of users may have the mark in them: who exists by the whole name is meant.
    fn picked<'u>(&self, user: &'u str) -> Result<(&'u str, Option<String>), Refusal> {
        let whole = self.access.directory().user(user).is_some();
        let Some((name, keyspace)) = user.rsplit_once(DATABASE_MARK).filter(|_| !whole) else {
            return Ok((user, None));
        };
        core_keyspace::validate_name(keyspace)?;
        Ok((name, Some(keyspace.to_owned())))
    }
}

pub(super) fn request(action: Action, caller: Caller) -> Request {
    Request {
        action,
        consistency: None,
        read_consistency: None,
        deadline: DEADLINE,
        request_id: None,
        after: None,
        expected_bucket_owner: None,
        caller,
    }
}

fn unexpected() -> Refusal {
    Refusal::new(ErrorCode::Internal, "a call of redis was answered by something else; report it")
}

/// As Redis says it to who authenticates where nobody is asked.
fn access_off() -> Refusal {
    let message = "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?";
    Refusal::new(ErrorCode::AccessOff, message)
}

/// Where clients of the same database reach a node.
fn address_of(doors: &[(String, String)], keyspace: &str) -> Option<(String, u16)> {
    let of_database = |name: &str| name.strip_prefix(DOOR_PREFIX) == Some(keyspace);
    doors.iter().find(|(name, _)| of_database(name)).and_then(|(_, url)| host_and_port(url))
}

/// Out of `redis://HOST:PORT`.
fn host_and_port(url: &str) -> Option<(String, u16)> {
    let (_, address) = url.split_once("://")?;
    let (host, port) = address.rsplit_once(':')?;
    Some((host.trim_matches(['[', ']']).to_owned(), port.parse().ok()?))
}

#[async_trait::async_trait]
impl Database for NodeDatabase {
    async fn call(&self, session: &Session, call: RedisCall, levels: Levels) -> Result<RedisAnswer, Refusal> {
        // A connection lives longer than what opened it.
        self.access.still(&session.caller)?;
        let answer = match self.is_plain(&session.keyspace).await {
            true => self.on_plain(session, call, levels).await,
            false => self.on_redis(session, call, levels).await,
        };
        if answer.as_ref().is_err_and(|refusal| refusal.code == ErrorCode::InvalidKeyspace) {
            self.kinds.forget(&session.keyspace);
        }
        answer
    }

    async fn authenticate(&self, user: Option<&str>, password: &[u8]) -> Result<Session, Refusal> {
        let wrong = || Refusal::new(ErrorCode::Unauthenticated, "the user or the password is wrong");
        let (name, keyspace) = match user.filter(|user| *user != DEFAULT_USER) {
            Some(user) => self.picked(user).map(|(name, keyspace)| (Some(name), keyspace))?,
            None => (None, None),
        };
        if !self.access.required() {
            // A database can be picked all the same.
            return keyspace.map(|keyspace| self.session_of(Caller::Anyone, Some(keyspace))).ok_or_else(access_off);
        }
        let password = std::str::from_utf8(password).map_err(|_| wrong())?;
        let caller = match name {
            Some(name) => self.access.password(name, password).await?,
            None => self.access.bearer(password).await?,
        };
        match caller {
            Caller::Identity { .. } => Ok(self.session_of(caller, keyspace)),
            _ => Err(wrong()),
        }
    }

    fn session(&self, certificate: Option<&str>) -> Option<Session> {
        let caller = match (self.access.required(), certificate) {
            (false, _) => Caller::Anyone,
            (true, Some(user)) => self.access.user_of_certificate(user).ok()?,
            (true, None) => return None,
        };
        Some(self.session_of(caller, None))
    }

    fn admits(&self, session: &Session) -> bool {
        self.access.still(&session.caller).is_ok()
    }

    fn may_subscribe(&self, session: &Session) -> bool {
        let target = KvTarget::Keyspace(session.keyspace.clone());
        let call = RedisCall { unix_ms: 0, seed: 0, ask: RedisAsk::Messages { after: u64::MAX } };
        self.access.may(&session.caller, &Action::RedisCall { target, call: Box::new(call) }).is_ok()
    }

    async fn servers(&self, session: &Session) -> Result<Vec<Server>, Refusal> {
        // Whose database it is has been looked at; who serves it is no secret of the user's.
        let about = Action::DescribeKeyspace { keyspace: session.keyspace.clone() };
        let ActionResult::Keyspace(keyspace) = self.look(about, ReadConsistency::Strong).await? else {
            return Ok(Vec::new());
        };
        let Some(name) = keyspace.owners.first().cloned() else { return Ok(Vec::new()) };
        let described = self.look(Action::DescribeCluster { name }, ReadConsistency::Strong).await?;
        let ActionResult::Cluster(cluster) = described else { return Ok(Vec::new()) };
        let listed = self.look(Action::ListNodes, ReadConsistency::Eventual).await?;
        let ActionResult::Nodes { nodes } = listed else { return Ok(Vec::new()) };
        let server = |known: &NodeInfo| Server {
            node: known.node.0,
            address: match known.node == self.node {
                true => host_and_port(&self.url),
                false => address_of(&known.doors, &self.keyspace),
            },
            own: known.node == self.node,
            leads: cluster.leader == Some(known.node),
            member: cluster.members.iter().any(|member| member.node == known.node),
        };
        Ok(nodes.iter().filter(|known| known.up || known.node == self.node).map(server).collect())
    }

    fn about(&self) -> About {
        About {
            version: env!("CARGO_PKG_VERSION").into(),
            node: self.node.0,
            uptime_s: self.started.elapsed().as_secs(),
            memory: process_usage().resident_bytes,
            port: self.address.port(),
        }
    }

    fn unix_ms(&self) -> u64 {
        unix_ms()
    }

    fn random(&self) -> u64 {
        // The operating system refuses only where nothing else works either.
        chance::draw().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_the_same_database() {
        let door = |name: &str, url: &str| (name.to_string(), url.to_string());
        let doors = [
            door("etcd/redis", "http://a:1"),
            door("redis/redis", "redis://a:2"),
            door("redis/team", "rediss://[::1]:3"),
        ];
        assert_eq!(address_of(&doors, "redis"), Some(("a".into(), 2)));
        assert_eq!(address_of(&doors, "team"), Some(("::1".into(), 3)));
        assert_eq!(address_of(&doors, "tea"), None);
    }
}
