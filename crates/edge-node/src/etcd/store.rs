//! The node as the etcd door's store: a call becomes a request to one of this node's cores, as the caller whom the door let in.
//!
//! ```text
//!   user "ann@team"       ─▶ namespace "team", unless there is a user of this whole name     token: credential, namespace, end
//!   a listener of its own ─▶ that listener's namespace
//!   user "ann"            ─▶ the namespace that the directory has for ann, else that of the first listener
//! ```
//! Always: what a caller may do is the core's to say (`Caller` goes with each request); a change is sent once, with an id of its own, so
//! the core's repeats apply once.
//! Not here: the protocol (door-etcd).

use super::tokens::{Tokens, Told, TOKEN_TTL_MS};
use crate::access::AccessHub;
use crate::chance;
use crate::cores::{Busy, Cores};
use crate::engines::sizes::EngineSizes;
use crate::http::secrets::prepare;
use crate::monitor::unix_ms;
use base_types::access::{AccessAction, AccessAnswer, Caller};
use base_types::action::{Action, ActionResult, Answer, KeyspaceInfo, KvTarget, NodeInfo, Request};
use base_types::versioned::{Command, Query, Reply, VersionedCall};
use base_types::{ErrorCode, NodeId, ReadConsistency, Refusal, WriteConsistency};
use door_etcd::store::{Member, Place, Session, Store};
use hyper::HeaderMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How long a call may take: longer than an election, and than a long poll (`Query::Await`) waits.
const DEADLINE: Duration = Duration::from_secs(20);
/// What parts a user from the namespace that it asks for.
const NAMESPACE_MARK: char = '@';

/// The node's cores as a store; of one listener.
pub struct NodeStore {
    pub cores: Arc<Cores>,
    pub access: Arc<AccessHub>,
    pub tokens: Arc<Tokens>,
    pub node: NodeId,
    /// Of clients that pick none by their user.
    pub namespace: String,
    /// Whether clients pick the namespace by coming to this listener; else a user's own namespace comes before it.
    pub picked: bool,
    /// Where this node's clients reach it.
    pub url: String,
    /// The node's data directory.
    pub data: PathBuf,
    /// What the node's engines take.
    pub sizes: Arc<EngineSizes>,
}

impl NodeStore {
    async fn act(&self, action: Action, level: ReadConsistency, caller: Caller) -> Result<Answer, Refusal> {
        let write = match &action {
            Action::Versioned { call, .. } => !call.read_only(),
            Action::Access(call) => !call.read_only(),
            _ => false,
        };
        let mut request = Request {
            action,
            consistency: write.then_some(WriteConsistency::Strong),
            read_consistency: (!write).then_some(level),
            deadline: DEADLINE,
            request_id: None,
            after: None,
            expected_bucket_owner: None,
            caller,
        };
        // Passwords are hashed here. Nothing that is shown once is asked for at this door.
        prepare(&self.access, &mut request).await?;
        match self.cores.ask(request, write).await {
            Ok(response) => response.map_err(|failure| failure.refusal),
            Err(Busy) => Err(Refusal::new(ErrorCode::Overloaded, Busy::message())),
        }
    }

    async fn call(
        &self,
        session: &Session,
        call: VersionedCall,
        level: ReadConsistency,
    ) -> Result<(Reply, Place), Refusal> {
        // A stream lives longer than what opened it, and a token of this door longer than the one of Hive's that it stands for.
        self.access.still(&session.caller)?;
        let target = KvTarget::Keyspace(session.namespace.clone());
        let action = Action::Versioned { target, call: Box::new(call) };
        let answer = self.act(action, level, session.caller.clone()).await?;
        let mut place = Place { member: self.node.0, ..Place::default() };
        if let Some(at) = &answer.at {
            place = Place { cluster: at.cluster.0, term: at.term.0, index: at.index.0, ..place };
        }
        match answer.result {
            ActionResult::Versioned(reply) => Ok((*reply, place)),
            _ => Err(Refusal::new(ErrorCode::Internal, "a call on versions was answered by something else; report it")),
        }
    }

    /// All keyspaces of the world, for this node's own work.
    pub async fn keyspaces(&self) -> Result<Vec<KeyspaceInfo>, Refusal> {
        let listed = self.act(Action::ListKeyspaces, ReadConsistency::Strong, Caller::Node).await?;
        match listed.result {
            ActionResult::Keyspaces { keyspaces } => Ok(keyspaces),
            _ => {
                Err(Refusal::new(ErrorCode::Internal, "a list of keyspaces was answered by something else; report it"))
            }
        }
    }
}

/// Where clients of a listener's namespace reach it at another node. A listener of another namespace is none: who names no namespace
/// would be in the other one there.
fn urls_of(doors: &[(String, String)], namespace: &str) -> Vec<String> {
    let of_namespace = |name: &str| name.strip_prefix(super::DOOR_PREFIX) == Some(namespace);
    doors.iter().filter(|(name, _)| of_namespace(name)).map(|(_, url)| url.clone()).collect()
}

/// The namespace of a client: picked by its user's name or by its listener, else the user's own, else the listener's.
fn namespace_for(by_name: Option<String>, (listeners, picked): (&str, bool), own: Option<String>) -> String {
    by_name.or(own.filter(|_| !picked)).unwrap_or_else(|| listeners.to_string())
}

fn no_token() -> Refusal {
    Refusal::new(ErrorCode::Unauthenticated, "the token counts for nothing here; authenticate again")
}

fn access_off() -> Refusal {
    Refusal::new(
        ErrorCode::AccessOff,
        "this world asks nobody who they are; leave out the user, or pick a namespace: USER@NAMESPACE",
    )
}

#[async_trait::async_trait]
impl Store for NodeStore {
    async fn change(&self, session: &Session, command: Command) -> Result<(Reply, Place), Refusal> {
        self.call(session, VersionedCall::Change(command), ReadConsistency::Strong).await
    }

    async fn ask(&self, session: &Session, query: Query, level: ReadConsistency) -> Result<(Reply, Place), Refusal> {
        self.call(session, VersionedCall::Ask(query), level).await
    }

    async fn authenticate(&self, user: &str, password: &str) -> Result<String, Refusal> {
        // Names of users may have the mark in them: who exists by the whole name is meant.
        let whole = self.access.directory().user(user).is_some();
        let (name, namespace) = match user.rsplit_once(NAMESPACE_MARK).filter(|_| !whole) {
            Some((name, namespace)) => (name, Some(namespace.to_owned())),
            None => (user, None),
        };
        if let Some(namespace) = &namespace {
            core_keyspace::validate_name(namespace)?;
        }
        let credential = match self.access.required() {
            false if namespace.is_none() => return Err(access_off()),
            false => None,
            true => match self.access.password(name, password).await? {
                Caller::Identity { credential, .. } => Some(credential),
                _ => return Err(no_token()),
            },
        };
        let told = Told { credential, namespace, expires_ms: unix_ms().saturating_add(TOKEN_TTL_MS) };
        self.tokens.seal(&self.access, &told)
    }

    async fn session(&self, token: Option<&str>, certificate: Option<&str>) -> Result<Session, Refusal> {
        let told = token.and_then(|token| self.tokens.open(&self.access, token, unix_ms()));
        let by_name = told.as_ref().and_then(|told| told.namespace.clone());
        let caller = match (self.access.required(), told, token) {
            (false, ..) => Caller::Anyone,
            (true, Some(Told { credential: Some(credential), .. }), _) => {
                Caller::Identity { credential, decided_at: None }
            }
            // It was made while the world asked nobody.
            (true, Some(Told { credential: None, .. }), _) => return Err(no_token()),
            (true, None, Some(token)) => self.access.bearer(token).await?,
            (true, None, None) => self.access.caller(&HeaderMap::new(), certificate).await?,
        };
        if self.access.required() && caller == Caller::Anyone {
            let message = "this node wants to know who asks: give a user and a password or token (etcdctl --user)";
            return Err(Refusal::new(ErrorCode::Unauthenticated, message));
        }
        let own = self.access.directory().namespace_of(&caller);
        let namespace = namespace_for(by_name, (&self.namespace, self.picked), own);
        Ok(Session { caller, namespace })
    }

    fn standing(&self, session: &Session) -> Result<u64, Refusal> {
        self.access.still(&session.caller).map(|()| self.access.directory().epoch())
    }

    fn permits(&self, session: &Session, query: &Query) -> Result<(), Refusal> {
        let target = KvTarget::Keyspace(session.namespace.clone());
        let action = Action::Versioned { target, call: Box::new(VersionedCall::Ask(query.clone())) };
        self.access.may(&session.caller, &action)
    }

    fn auth_revision(&self) -> u64 {
        self.access.directory().epoch()
    }

    fn auth_required(&self) -> bool {
        self.access.required()
    }

    async fn access(&self, session: &Session, call: AccessAction) -> Result<AccessAnswer, Refusal> {
        let answer = self.act(Action::Access(call), ReadConsistency::Strong, session.caller.clone()).await?;
        match answer.result {
            ActionResult::Access(answer) => Ok(answer),
            ActionResult::Done => Ok(AccessAnswer::Done),
            _ => Err(Refusal::new(ErrorCode::Internal, "a call on users was answered by something else; report it")),
        }
    }

    async fn members(&self, session: &Session) -> Result<(Vec<Member>, Place), Refusal> {
        let mut place = Place { member: self.node.0, ..Place::default() };
        // Whose namespace it is has been looked at; who serves it is no secret of the user's.
        let about = Action::DescribeKeyspace { keyspace: session.namespace.clone() };
        let about = self.act(about, ReadConsistency::Strong, Caller::Node).await?;
        let ActionResult::Keyspace(keyspace) = about.result else { return Ok((Vec::new(), place)) };
        let Some(name) = keyspace.owners.first().cloned() else { return Ok((Vec::new(), place)) };
        let described = self.act(Action::DescribeCluster { name }, ReadConsistency::Strong, Caller::Node).await?;
        let ActionResult::Cluster(cluster) = described.result else { return Ok((Vec::new(), place)) };
        (place.cluster, place.term, place.index) = (cluster.cluster.0, cluster.term.0, cluster.applied.0);
        let listed = self.act(Action::ListNodes, ReadConsistency::Eventual, Caller::Node).await?;
        let ActionResult::Nodes { nodes } = listed.result else { return Ok((Vec::new(), place)) };
        let known = |node| nodes.iter().find(|known: &&NodeInfo| known.node == node);
        let urls = |node| known(node).map(|known| urls_of(&known.doors, &self.namespace)).unwrap_or_default();
        let member = |node: NodeId| Member {
            id: node.0,
            name: format!("node-{}", node.0),
            client_urls: if node == self.node { vec![self.url.clone()] } else { urls(node) },
            peer_urls: known(node).map(|known| format!("https://{}", known.peer_address)).into_iter().collect(),
            leads: cluster.leader == Some(node),
        };
        let mut members: Vec<Member> = cluster.members.iter().map(|known| member(known.node)).collect();
        // The node that is asked serves the namespace, with a replica of it or without one.
        if !members.iter().any(|known| known.id == self.node.0) {
            members.push(member(self.node));
        }
        Ok((members, place))
    }

    /// As etcd's: whether the listener's namespace answers a linearizable read through this node.
    async fn healthy(&self) -> Result<(), Refusal> {
        let session = Session { caller: Caller::Node, namespace: self.namespace.clone() };
        self.ask(&session, Query::Describe, ReadConsistency::Strong).await.map(drop)
    }

    fn sizes(&self) -> (u64, u64) {
        self.sizes.last()
    }

    fn spool(&self) -> std::io::Result<std::fs::File> {
        tempfile::tempfile_in(&self.data)
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
    fn what_a_client_picks_comes_before_its_own_namespace() {
        let found = |by_name: Option<&str>, picked, own: Option<&str>| {
            namespace_for(by_name.map(String::from), ("listeners", picked), own.map(String::from))
        };
        assert_eq!(found(None, false, None), "listeners");
        assert_eq!(found(None, false, Some("own")), "own");
        assert_eq!(found(None, true, Some("own")), "listeners");
        assert_eq!(found(Some("named"), false, Some("own")), "named");
        assert_eq!(found(Some("named"), true, Some("own")), "named");
    }

    #[test]
    fn urls_are_those_of_the_same_namespace() {
        let door = |name: &str, url: &str| (name.to_string(), url.to_string());
        let doors = [door("etcd/etcd", "http://a:1"), door("etcd/team", "http://a:2"), door("other/team", "x")];
        assert_eq!(urls_of(&doors, "team"), ["http://a:2"]);
        assert_eq!(urls_of(&doors, "etcd"), ["http://a:1"]);
        assert_eq!(urls_of(&doors, "tea"), Vec::<String>::new());
    }
}
