//! The queue of those that wait for one name: keys below a prefix, by creation.
//!
//! Always: each waits for the youngest key that is older than its own, so one release wakes one. A wait reads again before it ends.
//! Held by: `leadership_passes_on_in_order`.
//! Not here: what the first of the queue is called (`election.rs`, `lock.rs`).

use crate::door::Door;
use crate::status::{of_refusal, unexpected, LEASE_NOT_FOUND};
use crate::store::{Place, Session};
use crate::watch::{Hubs, Single};
use base_types::versioned::{
    Check, Command, Committed, Condition, Filter, Operation, Outcome, Page, Pair, Put, Query, Read, Relation, Reply,
    Row, Span, Transaction,
};
use base_types::{ErrorCode, ReadConsistency, Refusal};
use bytes::Bytes;
use std::pin::pin;
use std::sync::Arc;
use tonic::Status;

/// The time to live of a lease that is granted where a call gives none: a session's of etcd's clients.
const SESSION_MS: u64 = 60_000;
/// Numbers that are drawn for one lease.
const DRAWS_MAX: u32 = 8;
/// Pages of keys below one prefix that are looked at.
const PAGES_MAX: usize = 1_000;

/// A name's queue, for one session.
#[derive(Clone)]
pub(super) struct Queue {
    pub hubs: Arc<Hubs>,
    pub session: Session,
    /// The name and a slash.
    pub prefix: Bytes,
}

/// A place in the queue.
pub(super) struct Entry {
    pub key: Bytes,
    pub created: u64,
    /// The key, if it was there before.
    pub found: Option<Row>,
    /// Of the commit.
    pub stamp: u64,
}

/// Takes a key out of its queue when a call is given up.
pub(super) struct Withdrawal {
    queue: Queue,
    key: Bytes,
    created: u64,
    armed: bool,
}

impl Withdrawal {
    pub fn new(queue: &Queue, entry: &Entry) -> Withdrawal {
        Withdrawal { queue: queue.clone(), key: entry.key.clone(), created: entry.created, armed: true }
    }

    /// The call has succeeded: the key stays.
    pub fn disarm(&mut self) {
        self.armed = false;
    }
}

impl Drop for Withdrawal {
    fn drop(&mut self) {
        if self.armed {
            let (queue, key, created) = (self.queue.clone(), self.key.clone(), self.created);
            // Where this fails, the key goes with its lease.
            tokio::spawn(async move { queue.leave(key, created).await.map(drop) });
        }
    }
}

impl Queue {
    pub fn new(hubs: &Arc<Hubs>, session: Session, name: &[u8]) -> Queue {
        Queue { hubs: hubs.clone(), session, prefix: [name, b"/"].concat().into() }
    }

    /// All keys of the queue.
    pub fn span(&self) -> Span {
        Span::Range { start: self.prefix.clone(), end: end_of(&self.prefix) }
    }

    fn door(&self) -> &Door {
        self.hubs.door()
    }

    /// The lease of a call: the one it names, or a new one.
    pub async fn lease(&self, named: i64) -> Result<u64, Status> {
        if named != 0 {
            return Ok(named as u64);
        }
        let mut refused = Status::from(LEASE_NOT_FOUND);
        for _ in 0..DRAWS_MAX {
            let lease = (self.door().store.random() & i64::MAX as u64).max(1);
            match self.door().store.change(&self.session, Command::LeaseGrant { lease, ttl_ms: SESSION_MS }).await {
                Ok(_) => return Ok(lease),
                Err(refusal) if refusal.code == ErrorCode::LeaseExists => refused = of_refusal(&refusal),
                Err(refusal) => return Err(of_refusal(&refusal)),
            }
        }
        Err(refused)
    }

    /// Puts the key of a lease if it is not there.
    pub async fn enter(&self, lease: u64, value: Bytes) -> Result<Entry, Status> {
        // As Go prints a signed number.
        let signed = lease as i64;
        let hex = format!("{}{:x}", if signed < 0 { "-" } else { "" }, signed.unsigned_abs());
        let key = Bytes::from([&self.prefix[..], hex.as_bytes()].concat());
        let read = Operation::Read(read(Span::One { key: key.clone() }, None));
        let transaction = Transaction {
            conditions: vec![created(&key, 0)],
            then: vec![put(&key, value, lease)],
            otherwise: vec![read],
        };
        let (stamp, committed, _) = self.commit(transaction).await?;
        if committed.succeeded {
            return Ok(Entry { key, created: stamp, found: None, stamp });
        }
        let Some(Outcome::Page(page)) = committed.results.into_iter().next() else { return Err(unexpected("Commit")) };
        let row = page.rows.into_iter().next().ok_or_else(|| unexpected("Commit"))?.row;
        Ok(Entry { key, created: row.created, found: Some(row), stamp })
    }

    /// Deletes a key that was created at a stamp.
    pub async fn leave(&self, key: Bytes, at: u64) -> Result<(u64, Place), Status> {
        let conditions = vec![created(&key, at)];
        let then = vec![Operation::Delete { span: Span::One { key }, previous: false }];
        let (stamp, _, place) = self.commit(Transaction { conditions, then, otherwise: Vec::new() }).await?;
        Ok((stamp, place))
    }

    /// Puts another value under a key that was created at a stamp; whether it was there.
    pub async fn change(&self, key: &Bytes, at: u64, value: Bytes, lease: u64) -> Result<(bool, u64, Place), Status> {
        let (conditions, then) = (vec![created(key, at)], vec![put(key, value, lease)]);
        let (stamp, committed, place) = self.commit(Transaction { conditions, then, otherwise: Vec::new() }).await?;
        Ok((committed.succeeded, stamp, place))
    }

    async fn commit(&self, transaction: Transaction) -> Result<(u64, Committed, Place), Status> {
        match self.door().change(&self.session, Command::Commit { transaction }).await? {
            (Reply::Committed { stamp, committed, .. }, place) => Ok((stamp, committed, place)),
            _ => Err(unexpected("Commit")),
        }
    }

    /// Waits until no older key is left. `None`: the own key is gone, so there is nothing to wait for. Else a stamp at which it was
    /// there and the oldest.
    pub async fn wait(&self, entry: &Entry) -> Result<Option<(u64, Place)>, Status> {
        let own = Span::One { key: entry.key.clone() };
        let mut mine = Single::after(&self.hubs, &self.session.namespace, own, entry.stamp);
        let mut lost = pin!(deleted(&mut mine));
        loop {
            let (stamp, place, older) = self.youngest_before(entry).await?;
            let Some(older) = older else { return Ok(None) };
            let Some(older) = older else { return Ok(Some((stamp, place))) };
            let mut other = Single::after(&self.hubs, &self.session.namespace, Span::One { key: older }, stamp);
            tokio::select! {
                ended = deleted(&mut other) => ended?,
                ended = &mut lost => {
                    ended?;
                    return Ok(None);
                }
            }
        }
    }

    /// The youngest key that is older than an entry; `None`: the entry is not there.
    async fn youngest_before(&self, entry: &Entry) -> Result<(u64, Place, Option<Option<Bytes>>), Status> {
        let (mut own, mut youngest) = (false, None::<Pair>);
        let (stamp, place) = self
            .each(entry.created, true, |pair| {
                own |= pair.key == entry.key && pair.row.created == entry.created;
                let older = pair.row.created < entry.created;
                if older && youngest.as_ref().is_none_or(|known| known.row.created < pair.row.created) {
                    youngest = Some(pair);
                }
            })
            .await?;
        Ok((stamp, place, own.then(|| youngest.map(|pair| pair.key))))
    }

    /// The first of the queue.
    pub async fn first(&self) -> Result<(u64, Place, Option<Pair>), Status> {
        let mut first = None::<Pair>;
        let (stamp, place) = self
            .each(0, false, |pair| {
                if first.as_ref().is_none_or(|known| pair.row.created < known.row.created) {
                    first = Some(pair);
                }
            })
            .await?;
        Ok((stamp, place, first))
    }

    /// Reads the queue at one stamp: keys that were created up to `created_max` (0: all).
    async fn each(&self, created_max: u64, keys_only: bool, mut see: impl FnMut(Pair)) -> Result<(u64, Place), Status> {
        let end = end_of(&self.prefix);
        let (mut start, mut at) = (self.prefix.clone(), 0);
        for _ in 0..PAGES_MAX {
            let filter = Filter { created_max, ..Filter::default() };
            let span = Span::Range { start, end: end.clone() };
            let read = Read { at, keys_only, ..read(span, Some(filter)) };
            let answer = self.door().ask(&self.session, Query::Read { read, pin: 0 }, ReadConsistency::Strong).await?;
            let (Reply::Page { stamp, page: Page { rows, next, .. } }, place) = answer else {
                return Err(unexpected("Read"));
            };
            at = stamp;
            rows.into_iter().for_each(&mut see);
            match next {
                Some(next) => start = next,
                None => return Ok((stamp, place)),
            }
        }
        let message = "more keys wait for this name than are looked at; use several names";
        Err(of_refusal(&Refusal::new(ErrorCode::Overloaded, message)))
    }
}

/// The end of the keys that begin with a prefix, which ends with a slash.
fn end_of(prefix: &Bytes) -> Bytes {
    let mut end = prefix.to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end.into()
}

fn created(key: &Bytes, stamp: u64) -> Condition {
    let check = Check::Created { relation: Relation::Equal, stamp };
    Condition { span: Span::One { key: key.clone() }, check }
}

fn put(key: &Bytes, value: Bytes, lease: u64) -> Operation {
    let key = key.clone();
    Operation::Put(Put { key, value, lease, previous: false, keep_value: false, keep_lease: false })
}

fn read(span: Span, filter: Option<Filter>) -> Read {
    let filter = filter.unwrap_or_default();
    Read { span, at: 0, limit: 0, keys_only: false, count: false, count_only: false, filter }
}

/// Waits until a key is deleted; or until that cannot be seen any more, and must be looked up.
async fn deleted(watch: &mut Single) -> Result<(), Status> {
    loop {
        match watch.next().await {
            Ok(batch) if batch.changes().any(|change| change.after.is_none()) => return Ok(()),
            Ok(_) => (),
            Err(ended) => return if ended.is_compacted() { Ok(()) } else { Err(gone()) },
        }
    }
}

pub(super) fn gone() -> Status {
    Status::not_found("hive: the namespace was deleted")
}
