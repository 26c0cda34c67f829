//! What a batch comes down to: of each key the last operation, in key order.
//!
//! Sorted, so that a B-tree visits each page once and a log-structured engine gets a run.
//!
//! Always: `each` gives every key at most once, ascending, values sealed.
//! Not here: how an engine writes them.

use super::format::{self, SEAL_BYTES};
use crate::{BatchOperation, EngineError, WriteBatch};
use base_types::{LogIndex, SpaceId};
use std::collections::BTreeMap;

/// Takes a key and its sealed value; `None`: it goes.
pub type Change<'v> = &'v mut dyn FnMut(&[u8], Option<&[u8]>) -> Result<(), EngineError>;

/// A key of a space and its new value; `None`: it goes.
type Pair<'a> = (SpaceId, &'a [u8], Option<&'a [u8]>);

/// One atomic change.
#[derive(Default, Debug)]
pub struct Changes<'a> {
    pairs: Vec<Pair<'a>>,
    durable: BTreeMap<SpaceId, LogIndex>,
    marker: Vec<(&'static [u8], Vec<u8>)>,
}

impl<'a> Changes<'a> {
    /// Of a batch.
    pub fn of(batch: &'a WriteBatch) -> Changes<'a> {
        let mut changes = Changes { pairs: Vec::with_capacity(batch.operations.len()), ..Changes::default() };
        for operation in &batch.operations {
            match operation {
                BatchOperation::Put { space, key, value } => changes.pairs.push((*space, key, Some(value))),
                BatchOperation::Delete { space, key } => changes.pairs.push((*space, key, None)),
                BatchOperation::Durable { space, index } => {
                    changes.durable.insert(*space, *index);
                }
            }
        }
        // Last wins: reversed, a stable sort puts the last operation on a key first, and `dedup` keeps it.
        changes.pairs.reverse();
        changes.pairs.sort_by(|left, right| (left.0, left.1).cmp(&(right.0, right.1)));
        changes.pairs.dedup_by(|later, first| (later.0, later.1) == (first.0, first.1));
        changes
    }

    /// Some keys of a space (ascending) that go, and its durable index if they are its last.
    pub fn dropping(space: SpaceId, keys: &'a [Vec<u8>], with_index: bool) -> Changes<'a> {
        let durable = with_index.then_some((space, LogIndex(0)));
        Changes {
            pairs: keys.iter().map(|key| (space, &key[..], None)).collect(),
            durable: durable.into_iter().collect(),
            marker: Vec::new(),
        }
    }

    /// The marker of a directory just made.
    pub fn marker(identity: &str) -> Changes<'static> {
        let marker = vec![
            (format::VERSION_KEY, format::FORMAT_VERSION.to_le_bytes().to_vec()),
            (format::IDENTITY_KEY, identity.as_bytes().to_vec()),
        ];
        Changes { marker, ..Changes::default() }
    }

    /// Keys set.
    pub fn puts(&self) -> u64 {
        self.pairs.iter().filter(|(_, _, value)| value.is_some()).count() as u64
    }

    /// Bytes of keys and values, as stored.
    pub fn bytes(&self) -> u64 {
        let pair = |(_, key, value): &Pair<'_>| {
            format::PREFIX_BYTES + key.len() + value.map_or(0, |value| value.len() + SEAL_BYTES)
        };
        let pairs: usize = self.pairs.iter().map(pair).sum();
        pairs as u64 + self.durable.len() as u64 * (format::PREFIX_BYTES + 8 + SEAL_BYTES) as u64
    }

    /// Visits every change, keys ascending. An index of zero is none.
    pub fn each(&self, change: Change<'_>) -> Result<(), EngineError> {
        let mut value = Vec::new();
        for (space, index) in &self.durable {
            let key = format::durable_key(*space);
            format::write_sealed(&mut value, &key, &index.0.to_le_bytes());
            change(&key, (index.0 != 0).then_some(&value[..]))?;
        }
        for (key, text) in &self.marker {
            format::write_sealed(&mut value, key, text);
            change(key, Some(&value))?;
        }
        let mut key = Vec::new();
        for (space, short_key, plain) in &self.pairs {
            format::write_pair_key(&mut key, *space, short_key);
            if let Some(plain) = plain {
                format::write_sealed(&mut value, &key, plain);
            }
            change(&key, plain.map(|_| &value[..]))?;
        }
        Ok(())
    }
}
