//! What the etcd door needs of a store: calls on keys with versions, and who asks. The node is one; tests have one in memory.
//!
//! Always: every call ends (the store has deadlines); a change whose outcome is unknown says so and is never repeated here.

use base_types::access::{AccessAction, AccessAnswer, Caller};
use base_types::versioned::{Command, Query, Reply};
use base_types::{ReadConsistency, Refusal};

/// Somebody who came in by the door: who it is, and which namespace it works in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Session {
    /// Who. The store decides what it may do.
    pub caller: Caller,
    /// The namespace (a versioned keyspace) that its requests are about.
    pub namespace: String,
}

/// Where an answer comes from: the fields of etcd's response header that the reply itself does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// The cluster's id.
    pub cluster: u64,
    /// The node that answers clients here.
    pub member: u64,
    /// The term of the cluster's leader.
    pub term: u64,
    /// The index in the cluster's log.
    pub index: u64,
}

/// A node, as its answers to Cluster and Maintenance calls show it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Its id.
    pub id: u64,
    /// What it is called.
    pub name: String,
    /// Where etcd clients reach it: `http://…` or `https://…`. Empty where that is not known.
    pub client_urls: Vec<String>,
    /// Where its peers reach it.
    pub peer_urls: Vec<String>,
    /// Whether it leads the namespace's cluster.
    pub leads: bool,
}

/// Carries out what the door was asked.
#[async_trait::async_trait]
pub trait Store: Send + Sync + 'static {
    /// A change of a namespace: applied once, or refused, or its outcome is unknown (the refusal says which).
    async fn change(&self, session: &Session, command: Command) -> Result<(Reply, Place), Refusal>;

    /// A question to a namespace.
    async fn ask(&self, session: &Session, query: Query, level: ReadConsistency) -> Result<(Reply, Place), Refusal>;

    /// Who has this name and password. A bearer token of Hive's may stand for the password. Gives a token that
    /// [`Store::session`] takes, for a limited time. `AccessOff` where nobody is asked who they are, unless the name picks a namespace.
    async fn authenticate(&self, user: &str, password: &str) -> Result<String, Refusal>;

    /// Whose a request is: by its token (`None`: it has none, and `certificate` may name a user). Refused where the world asks
    /// everybody who they are and this says nothing.
    async fn session(&self, token: Option<&str>, certificate: Option<&str>) -> Result<Session, Refusal>;

    /// Of which epoch of the directory of users the store decides by; refused where the session does not count any more: its user can be
    /// disabled since, its token revoked or expired. At once.
    fn standing(&self, session: &Session) -> Result<u64, Refusal>;

    /// Refused where the session may not ask this (any more), as far as is known here. At once.
    fn permits(&self, session: &Session, query: &Query) -> Result<(), Refusal>;

    /// Whether callers must say who they are.
    fn auth_required(&self) -> bool;

    /// Grows with each change of users, roles and permissions that this node knows of.
    fn auth_revision(&self) -> u64;

    /// A call on users and roles.
    async fn access(&self, session: &Session, call: AccessAction) -> Result<AccessAnswer, Refusal>;

    /// The nodes that serve the namespace's cluster, or all nodes where it is not known.
    async fn members(&self, session: &Session) -> Result<(Vec<Member>, Place), Refusal>;

    /// Whether the node answers requests of this door: refused where it does not, with what is missing. For `/health`, which anybody may ask.
    async fn healthy(&self) -> Result<(), Refusal>;

    /// The bytes that the node's engines take, and how many of them are used: of all namespaces together. Zero where not yet measured.
    fn sizes(&self) -> (u64, u64) {
        (0, 0)
    }

    /// An empty file without a name, for what does not fit into memory. Refused by a store without a disk.
    fn spool(&self) -> std::io::Result<std::fs::File> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    /// Unix time now, in milliseconds: for leases' numbers and the times of progress reports.
    fn unix_ms(&self) -> u64;

    /// A number that nobody can guess and that hardly occurs twice: leases, watches, lock keys.
    fn random(&self) -> u64;
}
