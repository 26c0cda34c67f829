//! What an increment holds: keys that were put after the stamp of its base, and keys of the base that are gone.
//!
//! ```text
//!   changed: KvScan, modified after the base ──┐
//!   base: the chain's keys ──┬─ not present ───┴─▶ in the order of keys
//!   present: KvScan, keys only ─┘
//! ```
//!
//! By design: no history is read. It would have to be kept from one backup to the next, and compactions remove it.

use crate::content::Content;
use crate::entry::Entry;
use crate::manifest::Signed;
use crate::pages::{Query, Rows};
use crate::store::Store;
use crate::BackupError;
use bytes::Bytes;

/// A walk over changes.
pub struct Since<S> {
    changed: Rows<S>,
    present: Rows<S>,
    base: Content,
    gone: Option<Entry>,
}

impl<S: Store> Since<S> {
    /// `query`: of all keys at the instant.
    pub fn new(store: &S, query: &Query, base: &[Signed], base_stamp: u64) -> Since<S> {
        let changed = Query { modified_min: base_stamp + 1, ..query.clone() };
        let present = Query { keys_only: true, ..query.clone() };
        Since {
            changed: Rows::new(store, changed),
            present: Rows::new(store, present),
            base: Content::new(base, Bytes::new(), query.after.clone()),
            gone: None,
        }
    }

    pub async fn next(&mut self) -> Result<Option<Entry>, BackupError> {
        if self.gone.is_none() {
            self.gone = self.next_gone().await?;
        }
        let changed = self.changed.peek().await?.map(|entry| &entry.key);
        match (&self.gone, changed) {
            (Some(gone), Some(changed)) if *changed < gone.key => self.changed.next().await,
            (Some(_), _) => Ok(self.gone.take()),
            (None, _) => self.changed.next().await,
        }
    }

    pub fn window(&self) -> (u64, u64) {
        let (present, changed) = (self.present.window(), self.changed.window());
        (present.0.min(changed.0), present.1.max(changed.1))
    }

    /// The next key of the base that is not there any more.
    async fn next_gone(&mut self) -> Result<Option<Entry>, BackupError> {
        while let Some(held) = self.base.next().await? {
            while self.present.peek().await?.is_some_and(|present| present.key < held.key) {
                self.present.next().await?;
            }
            if self.present.peek().await?.is_none_or(|present| present.key != held.key) {
                return Ok(Some(Entry::deleted(held.key)));
            }
        }
        Ok(None)
    }
}
