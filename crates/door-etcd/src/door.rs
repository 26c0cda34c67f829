//! What all services of the door share: the store, who asks, and the header of answers.
//!
//! Always: the revision in a header is that of the answer's own snapshot or commit, never a later one: clients watch from there on, and
//! take it for the revision of what they wrote. Answers without a stamp (leases, members) have the last that was seen.
//! Not here: the services.

use crate::limits::{Limits, SNAPSHOTS_MAX};
use crate::proto::etcdserverpb::ResponseHeader;
use crate::revision;
use crate::status::{of_refusal, unexpected, EtcdError, INVALID_AUTH_TOKEN, USER_EMPTY};
use crate::store::{Place, Session, Store};
use base_types::versioned::{Command, Info, Query, Reply};
use base_types::{ErrorKind, ReadConsistency, Refusal};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;
use tonic::Status;

/// Namespaces whose last stamp is remembered; beyond it one is forgotten, and asked for again.
const KNOWN_MAX: usize = 65_536;

/// Who a client's certificate names: edge-node puts it into a request's extensions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CertificateUser(pub String);

/// The door.
pub struct Door {
    /// The data.
    pub store: Arc<dyn Store>,
    /// What clients may use.
    pub limits: Limits,
    /// Room for snapshots that are being made.
    pub(crate) snapshots: Arc<Semaphore>,
    /// The last stamp that was seen of each namespace, and of which cluster.
    stamps: Mutex<HashMap<String, (u64, u64)>>,
}

impl Door {
    /// A door to a store.
    pub fn new(store: Arc<dyn Store>, limits: Limits) -> Arc<Door> {
        Arc::new(Door { store, limits, snapshots: Arc::new(Semaphore::new(SNAPSHOTS_MAX)), stamps: Mutex::default() })
    }

    /// Whose a request is.
    pub async fn session<T>(&self, request: &tonic::Request<T>) -> Result<Session, Status> {
        let metadata = request.metadata();
        let named = |name: &str| metadata.get(name).map(|value| value.to_str().map_err(|_| INVALID_AUTH_TOKEN));
        let token = named("token").or_else(|| named("authorization")).transpose()?;
        let token = token.map(|token| token.strip_prefix("Bearer ").unwrap_or(token)).filter(|token| !token.is_empty());
        let certificate = request.extensions().get::<CertificateUser>().map(|user| user.0.as_str());
        self.store.session(token, certificate).await.map_err(|refusal| match refusal.kind() {
            ErrorKind::Unauthenticated if token.is_none() => with_message(USER_EMPTY, &refusal),
            _ => of_refusal(&refusal),
        })
    }

    /// A change.
    pub async fn change(&self, session: &Session, command: Command) -> Result<(Reply, Place), Status> {
        self.store.change(session, command).await.map_err(|refusal| of_refusal(&refusal))
    }

    /// A question.
    pub async fn ask(&self, session: &Session, query: Query, level: ReadConsistency) -> Result<(Reply, Place), Status> {
        self.store.ask(session, query, level).await.map_err(|refusal| of_refusal(&refusal))
    }

    /// The state of the namespace.
    pub async fn describe(&self, session: &Session, level: ReadConsistency) -> Result<(Info, Place), Status> {
        match self.ask(session, Query::Describe, level).await? {
            (Reply::Info { info }, place) => Ok((info, place)),
            _ => Err(unexpected("Describe")),
        }
    }

    /// The header of an answer at a stamp: of its snapshot, or of its commit.
    pub fn header(&self, session: &Session, place: Place, stamp: u64) -> ResponseHeader {
        self.note(session, place.cluster, stamp);
        header(place, stamp)
    }

    /// The header of an answer that has no stamp: the last one seen here. The store is asked where none was.
    pub async fn header_without_stamp(&self, session: &Session, place: Place) -> ResponseHeader {
        let mut known = self.note(session, place.cluster, 0);
        if known == 0 {
            // Somebody may hold a lease here without the right to look at the whole: then the header says the least there is.
            if let Ok((info, at)) = self.describe(session, ReadConsistency::Eventual).await {
                known = self.note(session, at.cluster, info.stamp);
            }
        }
        header(place, known)
    }

    /// Remembers a stamp of a cluster; the last one that was seen of it. Ids of clusters rise, and 0 is none: whatever was seen counts.
    fn note(&self, session: &Session, cluster: u64, stamp: u64) -> u64 {
        let mut stamps = self.stamps.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, known)) = stamps.get_mut(&session.namespace) {
            if cluster > *of && stamp != 0 {
                (*of, *known) = (cluster, stamp);
            } else if cluster == *of || cluster == 0 {
                *known = stamp.max(*known);
                return *known;
            }
            return stamp;
        }
        if stamp != 0 {
            if stamps.len() >= KNOWN_MAX {
                let forgotten = stamps.keys().next().cloned();
                forgotten.map(|namespace| stamps.remove(&namespace));
            }
            stamps.insert(session.namespace.clone(), (cluster, stamp));
        }
        stamp
    }
}

fn header(place: Place, stamp: u64) -> ResponseHeader {
    let Place { cluster, member, term, .. } = place;
    ResponseHeader { cluster_id: cluster, member_id: member, revision: revision::of_stamp(stamp), raft_term: term }
}

/// An error of etcd's with what Hive says of it.
pub fn with_message(error: EtcdError, refusal: &Refusal) -> Status {
    let metadata = of_refusal(refusal).metadata().clone();
    Status::with_metadata(error.code, error.text, metadata)
}
