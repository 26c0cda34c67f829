//! What a batch comes down to: of each key the last operation, in key order.
//!
//! Sorted, so that a B-tree visits each page once and a log-structured engine gets a run.
//!
//! Always: `each` gives every key at most once, ascending, values sealed.
//! Not here: how an engine writes them.

use super::format::{self, SEAL_BYTES};
use crate::fences::{Fence, Plan, Roll};
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
    /// Whole keys behind those of pairs, ascending.
    more: Vec<(Vec<u8>, Option<Vec<u8>>)>,
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
            ..Changes::default()
        }
    }

    /// The marker of a directory just made.
    pub fn marker(identity: &str) -> Changes<'static> {
        let mut changes = Changes::version(format::FORMAT_VERSION);
        changes.marker.push((format::IDENTITY_KEY, identity.as_bytes().to_vec()));
        changes
    }

    /// The same of an engine with fences.
    pub fn fenced_marker(identity: &str) -> Changes<'static> {
        let mut changes = Changes::version(format::FENCED_VERSION);
        changes.marker.push((format::IDENTITY_KEY, identity.as_bytes().to_vec()));
        changes.more.push((format::ROLL_KEY.to_vec(), Some(Roll::default().encode())));
        changes
    }

    /// A format's version, written anew.
    pub fn version(version: u32) -> Changes<'static> {
        Changes { marker: vec![(format::VERSION_KEY, version.to_le_bytes().to_vec())], ..Changes::default() }
    }

    /// With these fences and this roll.
    pub fn with_fences(mut self, plan: Plan) -> Changes<'a> {
        self.more.extend(plan.roll.map(|roll| (format::ROLL_KEY.to_vec(), Some(roll.encode()))));
        let fences = plan.fences.into_iter();
        let whole = |(space, start, fence): (SpaceId, Vec<u8>, Option<Fence>)| {
            (format::fence_key(space, &start), fence.map(|fence| fence.encode()))
        };
        self.more.extend(fences.map(whole));
        self
    }

    /// Without these fences (whole keys, ascending), but with this roll.
    pub fn without_fences(mut self, whole_keys: Vec<Vec<u8>>, roll: Option<Roll>) -> Changes<'a> {
        self.more.extend(roll.map(|roll| (format::ROLL_KEY.to_vec(), Some(roll.encode()))));
        self.more.extend(whole_keys.into_iter().map(|key| (key, None)));
        self
    }

    /// Keys set or removed, ascending, with whether they are set.
    pub fn keys(&self) -> impl Iterator<Item = (SpaceId, &'a [u8], bool)> + '_ {
        self.pairs.iter().map(|(space, key, value)| (*space, *key, value.is_some()))
    }

    /// Spaces whose durable index is set, or (false) removed.
    pub fn indexes(&self) -> impl Iterator<Item = (SpaceId, bool)> + '_ {
        self.durable.iter().map(|(space, index)| (*space, index.0 != 0))
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
        for (key, plain) in &self.more {
            if let Some(plain) = plain {
                format::write_sealed(&mut value, key, plain);
            }
            change(key, plain.as_ref().map(|_| &value[..]))?;
        }
        Ok(())
    }
}
