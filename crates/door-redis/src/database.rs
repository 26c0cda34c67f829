//! What the Redis door needs of a node: calls to a database's cluster, and who asks. The node is one; tests have one in memory.
//!
//! By design: every call ends (the node has deadlines). A change whose outcome is unknown says so, and is never repeated here.

use base_types::access::Caller;
use base_types::redis::{RedisAnswer, RedisCall};
use base_types::{ReadConsistency, Refusal, WriteConsistency};

/// Somebody who came in by the door: who it is, and whose databases it works in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Session {
    /// Who. The node decides what it may do.
    pub caller: Caller,
    /// As whom it is known to `ACL WHOAMI` and `CLIENT LIST`.
    pub user: String,
    /// The keyspace of kind `redis` that its requests are about.
    pub keyspace: String,
}

/// How far a write must have come before it is answered, and who may answer a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Levels {
    /// Of reads.
    pub read: ReadConsistency,
    /// Of writes.
    pub write: WriteConsistency,
}

/// A node that serves Redis clients.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Server {
    /// Its number in the world.
    pub node: u64,
    /// Where clients reach its Redis door: a host and a port. None where that is not known.
    pub address: Option<(String, u16)>,
    /// Whether it is this node.
    pub own: bool,
    /// Whether it leads the cluster of the session's keyspace.
    pub leads: bool,
    /// Whether it has a replica of it.
    pub member: bool,
}

/// What INFO says of the node.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct About {
    /// Hive's version.
    pub version: String,
    /// The node's number in the world.
    pub node: u64,
    /// Since the node started, in seconds.
    pub uptime_s: u64,
    /// The process's memory, in bytes; 0 where it is not known.
    pub memory: u64,
    /// The port of the door.
    pub port: u16,
}

/// Carries out what the door was asked.
#[async_trait::async_trait]
pub trait Database: Send + Sync + 'static {
    /// A call to the cluster of the session's keyspace: carried out, or refused, or its outcome is unknown (the refusal says which).
    async fn call(&self, session: &Session, call: RedisCall, levels: Levels) -> Result<RedisAnswer, Refusal>;

    /// Who has this name and password. Without a name the password is a bearer token of Hive's, which may also stand for the password.
    async fn authenticate(&self, user: Option<&str>, password: &[u8]) -> Result<Session, Refusal>;

    /// Who a client is before it says so: by its certificate, or anybody where the node asks nobody. `None`: it must say who it is.
    fn session(&self, certificate: Option<&str>) -> Option<Session>;

    /// Whether a session that was let in still counts: its user can be disabled since, its token revoked or expired. At once.
    fn admits(&self, session: &Session) -> bool;

    /// Whether it may still read the messages of its keyspace, which come to subscribers without another question. At once.
    fn may_subscribe(&self, session: &Session) -> bool;

    /// The nodes of the world, and what they are to the session's keyspace.
    async fn servers(&self, session: &Session) -> Result<Vec<Server>, Refusal>;

    /// What INFO says.
    fn about(&self) -> About;

    /// Unix time now, in milliseconds.
    fn unix_ms(&self) -> u64;

    /// A number that hardly occurs twice.
    fn random(&self) -> u64;
}
