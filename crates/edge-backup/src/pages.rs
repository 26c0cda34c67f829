//! Keys of a world in order, page by page; the next page is read while the last one is used.
//!
//! By design: one page lies ahead, so memory holds two pages, at most 4 MiB of keys and values each.

use crate::entry::Entry;
use crate::pace::wall_ms;
use crate::store::{ask, Store};
use crate::BackupError;
use bytes::Bytes;
use hive_client::{bytes_field, put_bytes};
use serde_json::{Map, Value};
use std::collections::VecDeque;
use tokio::task::JoinHandle;

/// The most keys of a page; 4 MiB end it before that.
const PAGE_LIMIT: u32 = 10_000;

/// Which keys.
#[derive(Clone, Default)]
pub struct Query {
    pub keyspace: String,
    /// At a stamp (0: the newest), with versions and leases; none: a plain keyspace.
    pub at: Option<u64>,
    /// The pin that keeps the stamp readable; 0: none.
    pub pin: u64,
    /// Only keys put at this stamp or later; 0: all.
    pub modified_min: u64,
    /// Values are left out: entries have empty ones.
    pub keys_only: bool,
    pub prefix: Bytes,
    /// Only keys after this one.
    pub after: Option<Bytes>,
}

impl Query {
    fn action(&self) -> Value {
        let mut body = Map::new();
        body.insert("action".into(), "KvScan".into());
        body.insert("keyspace".into(), self.keyspace.clone().into());
        body.insert("read_consistency".into(), "strong".into());
        body.insert("limit".into(), PAGE_LIMIT.into());
        put_bytes(&mut body, "prefix", &self.prefix);
        if let Some(after) = &self.after {
            put_bytes(&mut body, "start_after", after);
        }
        if self.keys_only {
            body.insert("keys_only".into(), true.into());
        }
        if let Some(at) = self.at {
            for (name, number) in [("at", at), ("pin", self.pin), ("modified_min", self.modified_min)] {
                body.insert(name.into(), number.into());
            }
        }
        body.into()
    }
}

/// A page, and when it was asked for and answered.
struct Page {
    entries: VecDeque<Entry>,
    next: Option<Bytes>,
    window: (u64, u64),
}

/// A walk over keys.
pub struct Rows<S> {
    store: S,
    query: Query,
    ahead: Option<JoinHandle<Result<Page, BackupError>>>,
    page: VecDeque<Entry>,
    window: (u64, u64),
    done: bool,
}

impl<S: Store> Rows<S> {
    pub fn new(store: &S, query: Query) -> Rows<S> {
        Rows { store: store.clone(), query, ahead: None, page: VecDeque::new(), window: (0, 0), done: false }
    }

    /// The next key, which stays the next.
    pub async fn peek(&mut self) -> Result<Option<&Entry>, BackupError> {
        while self.page.is_empty() && !self.done {
            self.turn().await?;
        }
        Ok(self.page.front())
    }

    pub async fn next(&mut self) -> Result<Option<Entry>, BackupError> {
        self.peek().await?;
        Ok(self.page.pop_front())
    }

    /// When the page of the last key was asked for and answered.
    pub fn window(&self) -> (u64, u64) {
        self.window
    }

    async fn turn(&mut self) -> Result<(), BackupError> {
        let asked = self.ahead.take().unwrap_or_else(|| read(&self.store, &self.query));
        // A task ends without its answer only if the process is going down.
        let page =
            asked.await.map_err(|error| BackupError::file("KvScan".as_ref(), std::io::Error::other(error)))??;
        self.query.after = page.next.clone();
        self.done = page.next.is_none();
        self.ahead = page.next.map(|_| read(&self.store, &self.query));
        (self.page, self.window) = (page.entries, page.window);
        Ok(())
    }
}

impl<S> Drop for Rows<S> {
    fn drop(&mut self) {
        if let Some(ahead) = &self.ahead {
            ahead.abort();
        }
    }
}

fn read<S: Store>(store: &S, query: &Query) -> JoinHandle<Result<Page, BackupError>> {
    let (store, body) = (store.clone(), query.action());
    tokio::spawn(async move {
        let asked_ms = wall_ms();
        let answer = ask(&store, body).await?;
        let missing = |field| BackupError::Answer { action: "KvScan".into(), field };
        let items = answer["entries"].as_array().ok_or_else(|| missing("entries"))?;
        let entries = items.iter().map(|item| entry_of(item).ok_or_else(|| missing("key")));
        let entries = entries.collect::<Result<_, _>>()?;
        Ok(Page { entries, next: bytes_field(&answer, "next"), window: (asked_ms, wall_ms()) })
    })
}

fn entry_of(item: &Value) -> Option<Entry> {
    Some(Entry {
        key: bytes_field(item, "key")?,
        modified: item["modified"].as_u64().unwrap_or(0),
        lease: item["lease"].as_u64().unwrap_or(0),
        value: Some(bytes_field(item, "value").unwrap_or_default()),
    })
}
