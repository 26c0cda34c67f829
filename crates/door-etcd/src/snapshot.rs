//! A snapshot of a namespace as a file of etcd's own storage, which `etcdutl snapshot restore` makes an etcd of.
//!
//! ```text
//!   rows at one stamp, by key ─▶ sort.rs: by revision ─▶ bolt.rs: buckets key, lease, meta, … ─▶ the file in parts, its SHA-256 last
//! ```
//! Always: it holds the keys of one stamp with their values, revisions, versions and leases, and is compacted at that stamp: no history, and
//! no deleted keys. Its files have no name, so nothing is left of them. One is made at a time; memory does not grow with it.
//! Held by: `a_snapshot_has_all_keys_by_revision_and_the_leases`, `one_is_made_at_a_time_and_a_refusal_ends_it`.
//! Not here: users and roles, which are the world's; what else etcd keeps (restore makes its members).

pub(crate) mod bolt;
mod sort;

use crate::door::Door;
use crate::kv::rows;
use crate::proto::etcdserverpb::{ResponseHeader, SnapshotResponse};
use crate::proto::mvccpb::KeyValue;
use crate::proto::ETCD_VERSION;
use crate::revision::of_stamp;
use crate::status::{unexpected, TOO_MANY_REQUESTS};
use crate::store::{Place, Session};
use base_types::access::Caller;
use base_types::versioned::{Command, Filter, Query, Read, Reply, Span, PAGE_ROWS_MAX};
use base_types::ReadConsistency;
use bolt::BoltFile;
use bytes::Bytes;
use prost::Message;
use sha2::{Digest, Sha256};
use sort::{Sorted, Sorter};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;
use tonic::Status;

/// The most bytes of rows: the quota of an etcd that is given none. On the disk they take about twice as much while the file is made.
const ROWS_BYTES_MAX: u64 = 2 << 30;
/// The most leases.
const LEASES_MAX: usize = 1_000_000;
/// How long history is kept for a snapshot that is being read, and how often that is renewed.
const PIN_MS: u64 = 900_000;
const PAGES_A_PIN: usize = 64;
/// What a part of the file has.
const PART_BYTES: usize = 256 << 10;
/// The buckets of etcd without pairs, with those that have some, in the order of their names.
const BUCKETS: [&str; 10] =
    ["alarm", "auth", "authRoles", "authUsers", "cluster", "key", "lease", "members", "members_removed", "meta"];
/// How long a lease lives that ended while the snapshot was made: its keys are in it, and are to end, too.
const ENDED_TTL_S: i64 = 2;

/// What `Snapshot` answers.
pub(crate) type Stream = Pin<Box<dyn futures::Stream<Item = Result<SnapshotResponse, Status>> + Send>>;

/// A lease as etcd keeps it (leasepb.Lease).
#[derive(Clone, PartialEq, Message)]
struct LeaseRow {
    #[prost(int64, tag = "1")]
    id: i64,
    #[prost(int64, tag = "2")]
    ttl: i64,
}

/// The snapshot of a namespace, for who may read all of it.
pub(crate) async fn stream(door: Arc<Door>, session: Session) -> Result<Stream, Status> {
    // Refused here, before anything is made, where the session may not read.
    read(&door, &session, 0, 0, Bytes::new(), 1).await?;
    let Ok(place) = door.snapshots.clone().try_acquire_owned() else { return Err(TOO_MANY_REQUESTS.into()) };
    let begin = State::Begin(door, session, place);
    Ok(Box::pin(futures::stream::try_unfold(begin, State::next)))
}

enum State {
    Begin(Arc<Door>, Session, OwnedSemaphorePermit),
    Sending(Sending),
    Ended,
}

struct Sending {
    file: Arc<File>,
    sent: u64,
    length: u64,
    sum: Sha256,
    header: ResponseHeader,
    _place: OwnedSemaphorePermit,
}

impl State {
    async fn next(self) -> Result<Option<(SnapshotResponse, State)>, Status> {
        let sending = match self {
            State::Ended => return Ok(None),
            State::Sending(sending) => sending,
            State::Begin(door, session, place) => {
                let (file, length, header) = make(&door, &session).await?;
                Sending { file: Arc::new(file), sent: 0, length, sum: Sha256::new(), header, _place: place }
            }
        };
        sending.part().await.map(Some)
    }
}

impl Sending {
    /// The next part; after the last the file's sum, as etcd's clients want it.
    async fn part(mut self) -> Result<(SnapshotResponse, State), Status> {
        let remaining = self.length - self.sent;
        let header = Some(self.header);
        let response = |blob: Vec<u8>, remaining_bytes| SnapshotResponse {
            header,
            remaining_bytes,
            blob: blob.into(),
            version: ETCD_VERSION.into(),
        };
        if remaining == 0 {
            return Ok((response(self.sum.finalize().to_vec(), 0), State::Ended));
        }
        let (file, at) = (self.file.clone(), self.sent);
        let mut part = vec![0; usize::try_from(remaining).unwrap_or(usize::MAX).min(PART_BYTES)];
        let part = beside(move || file.read_exact_at(&mut part, at).map(|()| part)).await?;
        self.sum.update(&part);
        self.sent += part.len() as u64;
        Ok((response(part, self.length - self.sent), State::Sending(self)))
    }
}

/// Does what waits for a disk on a thread of its own.
async fn beside<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> Result<T, Status> {
    let done = tokio::task::spawn_blocking(work).await.map_err(|error| Status::internal(format!("hive: {error}")))?;
    done.map_err(|error| disk(&error))
}

fn disk(error: &io::Error) -> Status {
    let text = format!("hive: the snapshot's file cannot be made in the node's data directory: {error}; make room there, or ask another node");
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Status::resource_exhausted(text),
        _ => Status::internal(text),
    }
}

/// A page of all keys at a stamp.
async fn read(
    door: &Door,
    session: &Session,
    at: u64,
    pin: u64,
    start: Bytes,
    limit: u32,
) -> Result<(u64, base_types::versioned::Page, Place), Status> {
    let span = Span::From { start };
    let (keys_only, count, count_only, filter) = (false, false, false, Filter::default());
    let read = Read { span, at, limit, keys_only, count, count_only, filter };
    // A member that is late may not have the pin yet.
    match door.ask(session, Query::Read { read, pin }, ReadConsistency::Strong).await? {
        (Reply::Page { stamp, page }, place) => Ok((stamp, page, place)),
        _ => Err(unexpected("Read")),
    }
}

/// Makes the file; it, its length, and the header of its stamp.
async fn make(door: &Door, session: &Session) -> Result<(File, u64, ResponseHeader), Status> {
    let own = Session { caller: Caller::Node, namespace: session.namespace.clone() };
    // Zero is no number of a pin.
    let pin = door.store.random().max(1);
    let made = make_pinned(door, session, &own, pin).await;
    // It ends by itself where this fails.
    let _ = door.change(&own, Command::Unpin { pin }).await;
    made
}

async fn make_pinned(
    door: &Door,
    session: &Session,
    own: &Session,
    pin: u64,
) -> Result<(File, u64, ResponseHeader), Status> {
    let spool = || door.store.spool().map_err(|error| disk(&error));
    let stamp = keep(door, own, pin).await?;
    let (mut sorter, mut start, mut bytes) = (Sorter::begin(spool()?), Bytes::new(), 0_u64);
    let mut named = BTreeMap::<i64, i64>::new();
    let mut pages = 0_usize;
    let at = loop {
        let (_, page, place) = read(door, session, stamp, pin, start, 0).await?;
        pages += 1;
        let rows: Vec<KeyValue> = page.rows.into_iter().map(rows::pair).collect();
        bytes = rows.iter().fold(bytes, |bytes, row| bytes.saturating_add(row.encoded_len() as u64));
        named.extend(rows.iter().filter(|row| row.lease != 0).map(|row| (row.lease, ENDED_TTL_S)));
        if bytes > ROWS_BYTES_MAX || named.len() > LEASES_MAX {
            return Err(too_large());
        }
        sorter = beside(move || {
            rows.iter().try_for_each(|row| sorter.add(row.mod_revision as u64, row.encode_to_vec()))?;
            Ok(sorter)
        })
        .await?;
        let Some(next) = page.next else { break place };
        start = next;
        if pages.is_multiple_of(PAGES_A_PIN) {
            keep(door, own, pin).await?;
        }
    };
    leases(door, session, &mut named).await?;
    let (file, length) = {
        let file = spool()?;
        beside(move || write(file, sorter.sorted()?, named, stamp)).await?
    };
    Ok((file, length, door.header(session, at, stamp)))
}

fn too_large() -> Status {
    Status::resource_exhausted(
        "hive: the namespace has more than a snapshot holds (2 GiB of rows, 1,000,000 leases); read the range from \\0 to \\0 at one \
         revision with a limit, page by page",
    )
}

/// Keeps the history that the snapshot is read from, or renews that; its stamp.
async fn keep(door: &Door, own: &Session, pin: u64) -> Result<u64, Status> {
    match door.change(own, Command::Pin { pin, stamp: 0, keep_ms: PIN_MS }).await? {
        (Reply::Pinned { stamp, .. }, _) => Ok(stamp),
        _ => Err(unexpected("Pin")),
    }
}

/// The times to live of the leases that are there now, beside those that rows name.
async fn leases(door: &Door, session: &Session, found: &mut BTreeMap<i64, i64>) -> Result<(), Status> {
    let mut after = 0;
    loop {
        let query = Query::Leases { after, limit: PAGE_ROWS_MAX };
        let (reply, _) = door.ask(session, query, ReadConsistency::Strong).await?;
        let Reply::Leases { leases, more } = reply else { return Err(unexpected("Leases")) };
        let seconds = |ms: u64| i64::try_from(ms.div_ceil(1_000)).unwrap_or(i64::MAX).max(1);
        found.extend(leases.iter().map(|lease| (lease.lease as i64, seconds(lease.ttl_ms))));
        if found.len() > LEASES_MAX {
            return Err(too_large());
        }
        match leases.last().filter(|_| more) {
            Some(last) => after = last.lease,
            None => return Ok(()),
        }
    }
}

/// A revision as etcd's keys have it.
fn revision_key(main: u64, sub: u64) -> Vec<u8> {
    [&main.to_be_bytes()[..], b"_", &sub.to_be_bytes()].concat()
}

/// Writes the buckets.
fn write(file: File, mut sorted: Sorted, leases: BTreeMap<i64, i64>, stamp: u64) -> io::Result<(File, u64)> {
    let mut file = BoltFile::begin(file)?;
    for name in BUCKETS {
        let mut bucket = file.begin_bucket(name);
        match name {
            "key" => {
                let (mut last, mut sub) = (0, 0);
                while let Some((main, row)) = sorted.next()? {
                    sub = if main == last { sub + 1 } else { 0 };
                    last = main;
                    file.put(&mut bucket, revision_key(main, sub), row)?;
                }
            }
            "lease" => {
                // Their order is that of the bytes: a number below 0 comes last.
                let by_bytes: BTreeMap<u64, i64> = leases.iter().map(|(id, ttl)| (*id as u64, *ttl)).collect();
                for (id, ttl) in by_bytes {
                    let row = LeaseRow { id: id as i64, ttl };
                    file.put(&mut bucket, id.to_be_bytes().to_vec(), row.encode_to_vec())?;
                }
            }
            "meta" => {
                let compacted = revision_key(of_stamp(stamp) as u64, 0);
                let first = 1_u64.to_be_bytes().to_vec();
                file.put(&mut bucket, b"consistent_index".to_vec(), first.clone())?;
                // The revision of the whole, also where its last change was a delete.
                file.put(&mut bucket, b"finishedCompactRev".to_vec(), compacted.clone())?;
                file.put(&mut bucket, b"scheduledCompactRev".to_vec(), compacted)?;
                file.put(&mut bucket, b"storageVersion".to_vec(), ETCD_VERSION.into())?;
                file.put(&mut bucket, b"term".to_vec(), first)?;
            }
            _ => {}
        }
        file.end_bucket(bucket)?;
    }
    file.end()
}

#[cfg(test)]
mod tests {
    use super::bolt::tests::Reader;
    use super::*;
    use crate::limits::Limits;
    use crate::testing::{MemoryStore, NAMESPACE};
    use base_types::versioned::{Operation, Put, Transaction};
    use base_types::ErrorCode;
    use futures::TryStreamExt;
    use std::io::Write;

    fn bed() -> (Arc<MemoryStore>, Arc<Door>, Session) {
        let store = Arc::new(MemoryStore::default());
        let door = Door::new(store.clone(), Limits::default());
        (store, door, Session { caller: Caller::Anyone, namespace: NAMESPACE.into() })
    }

    async fn commit(door: &Door, session: &Session, puts: &[(&str, &str, u64)]) {
        let put = |(key, value, lease): &(&str, &str, u64)| {
            let (key, value) = (Bytes::copy_from_slice(key.as_bytes()), Bytes::copy_from_slice(value.as_bytes()));
            Operation::Put(Put { key, value, lease: *lease, previous: false, keep_value: false, keep_lease: false })
        };
        let transaction = Transaction { then: puts.iter().map(put).collect(), ..Transaction::default() };
        door.change(session, Command::Commit { transaction }).await.unwrap();
    }

    /// The file that a client gets, after its sum was compared.
    async fn taken(door: &Arc<Door>, session: &Session) -> File {
        let parts: Vec<SnapshotResponse> =
            stream(door.clone(), session.clone()).await.unwrap().try_collect().await.unwrap();
        let (sum, parts) = parts.split_last().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        let mut whole = Sha256::new();
        for part in parts {
            whole.update(&part.blob);
            file.write_all(&part.blob).unwrap();
        }
        assert_eq!(&whole.finalize()[..], &sum.blob[..]);
        assert_eq!((sum.remaining_bytes, parts.last().unwrap().remaining_bytes), (0, 0));
        assert_eq!(file.metadata().unwrap().len() % 512, 0, "etcd's clients find the sum by it");
        file
    }

    #[tokio::test]
    async fn a_snapshot_has_all_keys_by_revision_and_the_leases() {
        let (_store, door, session) = bed();
        door.change(&session, Command::LeaseGrant { lease: 77, ttl_ms: 60_000 }).await.unwrap();
        commit(&door, &session, &[("z", "first", 0)]).await;
        commit(&door, &session, &[("b", "1", 77), ("a", "2", 0)]).await;
        commit(&door, &session, &[("z", "second", 0)]).await;
        commit(&door, &session, &[("gone", "x", 0)]).await;
        let span = Span::One { key: "gone".into() };
        let transaction =
            Transaction { then: vec![Operation::Delete { span, previous: false }], ..Transaction::default() };
        door.change(&session, Command::Commit { transaction }).await.unwrap();
        let (newest, _) = door.describe(&session, ReadConsistency::Strong).await.unwrap();

        let buckets = Reader::open(taken(&door, &session).await).buckets();
        assert_eq!(buckets.keys().map(String::as_str).collect::<Vec<_>>(), BUCKETS);
        let mut keys = Vec::new();
        for (place, row) in &buckets["key"] {
            let row = KeyValue::decode(&row[..]).unwrap();
            assert_eq!((&place[..8], place[8]), (&row.mod_revision.to_be_bytes()[..], b'_'));
            keys.push((row.key.clone(), row.value.clone(), row.version, row.lease, place[16]));
        }
        let row = |key: &'static str, value: &'static str, version, lease, sub| {
            (Bytes::from(key), Bytes::from(value), version, lease, sub)
        };
        assert_eq!(keys, [row("a", "2", 1, 0, 0), row("b", "1", 1, 77, 1), row("z", "second", 2, 0, 0)]);
        let lease = LeaseRow { id: 77, ttl: 60 };
        assert_eq!(buckets["lease"], [(77_u64.to_be_bytes().to_vec(), lease.encode_to_vec())]);
        let compacted = revision_key(newest.stamp, 0);
        assert!(buckets["meta"].contains(&(b"finishedCompactRev".to_vec(), compacted)), "the delete counts");
        assert_eq!(door.describe(&session, ReadConsistency::Strong).await.unwrap().0.pins, 0);
    }

    #[tokio::test]
    async fn many_keys_and_none_are_whole_files() {
        let (_store, door, session) = bed();
        assert_eq!(Reader::open(taken(&door, &session).await).buckets()["key"], []);
        let value = "v".repeat(300);
        for n in 0..30 {
            let keys: Vec<String> = (0..100).map(|k| format!("{:03}/{n}", (k * 7) % 100)).collect();
            let puts: Vec<_> = keys.iter().map(|key| (&key[..], &value[..], 0)).collect();
            commit(&door, &session, &puts).await;
        }
        assert_eq!(Reader::open(taken(&door, &session).await).buckets()["key"].len(), 3_000);
    }

    #[tokio::test]
    async fn one_is_made_at_a_time_and_a_refusal_ends_it() {
        let (store, door, session) = bed();
        commit(&door, &session, &[("a", "1", 0)]).await;
        let open = stream(door.clone(), session.clone()).await.unwrap();
        let second = stream(door.clone(), session.clone()).await.err().unwrap();
        assert_eq!(second.message(), TOO_MANY_REQUESTS.text);
        store.refuse_next(ErrorCode::NoLeader);
        let ended = open.try_collect::<Vec<_>>().await.unwrap_err();
        assert_eq!(ended.message(), "etcdserver: no leader");
        taken(&door, &session).await;
        store.refuse_next(ErrorCode::PermissionDenied);
        let refused = stream(door.clone(), session.clone()).await.err().unwrap();
        assert_eq!(refused.message(), "etcdserver: permission denied");
    }
}
