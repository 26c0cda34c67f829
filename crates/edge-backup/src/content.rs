//! What a chain of backups (a full one, then increments) holds at its end, in the order of keys.
//!
//! Always: of a key that several hold, the latest counts, and a key that it deleted is not there. Held by:
//! `chain_gives_the_last_of_each_key`.

use crate::entry::Entry;
use crate::manifest::Signed;
use crate::part::{self, PartRecord};
use crate::BackupError;
use bytes::Bytes;
use std::collections::VecDeque;

/// The entries of one backup; one part is in memory.
struct Layer {
    signed: Signed,
    next_part: usize,
    entries: VecDeque<Entry>,
}

/// A walk over what the chain holds.
pub struct Content {
    layers: Vec<Layer>,
    prefix: Bytes,
    after: Option<Bytes>,
    head: Option<Entry>,
}

impl Content {
    /// The full backup is the first of the chain. `after`: only keys after this one.
    pub fn new(chain: &[Signed], prefix: Bytes, after: Option<Bytes>) -> Content {
        let layer = |signed: &Signed| Layer { signed: signed.clone(), next_part: 0, entries: VecDeque::new() };
        Content { layers: chain.iter().map(layer).collect(), prefix, after, head: None }
    }

    /// The next key, which stays the next.
    pub async fn peek(&mut self) -> Result<Option<&Entry>, BackupError> {
        while self.head.is_none() {
            let Some(newest) = self.step().await? else { return Ok(None) };
            self.head = Some(newest).filter(|entry| entry.value.is_some());
        }
        Ok(self.head.as_ref())
    }

    pub async fn next(&mut self) -> Result<Option<Entry>, BackupError> {
        self.peek().await?;
        Ok(self.head.take())
    }

    /// The newest entry of the least key; those under it are passed over.
    async fn step(&mut self) -> Result<Option<Entry>, BackupError> {
        let mut least: Option<Bytes> = None;
        for layer in &mut self.layers {
            if let Some(entry) = layer.front(&self.prefix, self.after.as_ref()).await? {
                least = Some(least.map_or(entry.key.clone(), |least| least.min(entry.key.clone())));
            }
        }
        let Some(least) = least else { return Ok(None) };
        let holders = self.layers.iter_mut().filter(|layer| layer.entries.front().is_some_and(|own| own.key == least));
        Ok(holders.filter_map(|layer| layer.entries.pop_front()).last())
    }
}

impl Layer {
    async fn front(&mut self, prefix: &Bytes, after: Option<&Bytes>) -> Result<Option<&Entry>, BackupError> {
        while self.entries.is_empty() {
            let Some(record) = self.signed.manifest.parts.get(self.next_part) else { return Ok(None) };
            self.next_part += 1;
            if !may_hold(record, prefix, after) {
                continue;
            }
            let found = part::read(&self.signed.dir, &self.signed.id, self.next_part as u32, record).await?;
            let is_wanted =
                |entry: &Entry| entry.key.starts_with(prefix) && after.is_none_or(|after| entry.key > after);
            self.entries = found.into_iter().filter(is_wanted).collect();
        }
        Ok(self.entries.front())
    }
}

fn may_hold(record: &PartRecord, prefix: &Bytes, after: Option<&Bytes>) -> bool {
    let (Some(first), Some(last)) = (record.first.bytes(), record.last.bytes()) else { return true };
    let reaches = last >= *prefix && after.is_none_or(|after| last > *after);
    reaches && (first <= *prefix || first.starts_with(prefix))
}
