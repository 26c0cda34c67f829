//! A hash of a namespace at a revision, to compare what endpoints hold.
//!
//! Always: equal data at one stamp give equal hashes on every node. It is not the hash that etcd would give: that is one of its files.
//! Not here: how replicas are compared for real (`hive ctl verify`).

use crate::door::Door;
use crate::status::unexpected;
use crate::store::Session;
use base_types::versioned::{Filter, Query, Read, Reply, Span};
use base_types::ReadConsistency;
use bytes::Bytes;
use tonic::Status;
use xxhash_rust::xxh3::Xxh3;

/// Pages of one hash: up to 4 MiB or 10,000 rows each.
const PAGES_MAX: usize = 10_000;

/// The hash of all rows at a stamp (0: the newest), and that stamp.
pub(crate) async fn hash_at(door: &Door, session: &Session, stamp: u64) -> Result<(u32, u64), Status> {
    let mut hash = Xxh3::new();
    let (mut at, mut start) = (stamp, Bytes::new());
    for _ in 0..PAGES_MAX {
        let read = Read {
            span: Span::From { start },
            at,
            limit: 0,
            keys_only: false,
            count: false,
            count_only: false,
            filter: Filter::default(),
        };
        let (reply, _) = door.ask(session, Query::Read { read, pin: 0 }, ReadConsistency::Eventual).await?;
        let Reply::Page { stamp, page } = reply else { return Err(unexpected("Read")) };
        at = stamp;
        for pair in page.rows {
            let row = pair.row;
            for number in [pair.key.len() as u64, row.created, row.modified, row.version, row.lease] {
                hash.update(&number.to_le_bytes());
            }
            hash.update(&pair.key);
            hash.update(&(row.value.len() as u64).to_le_bytes());
            hash.update(&row.value);
        }
        match page.next {
            Some(next) => start = next,
            None => return Ok((hash.digest() as u32, at)),
        }
    }
    Err(Status::resource_exhausted(
        "hive: the namespace is too large to be hashed by one request; use `hive ctl verify`",
    ))
}
