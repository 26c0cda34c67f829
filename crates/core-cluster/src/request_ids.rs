//! Which requests have been applied: a retry finds its first answer here and applies nothing.
//!
//! Replicated like any other state: one row an entry in the cluster's space, kept for as long (cluster
//! time) as a duplicate could still arrive, and an index in memory, read back after a restart.
//!
//! Always: rows and index hold the same; what expires is a function of the entries' stamps alone, so
//! every member forgets the same ids at the same index.

use crate::overlay::{Overlay, View};
use base_engine::{Direction, EngineError};
use base_types::codec::{DecodeError, Encode, Reader, Writer};
use base_types::{LogIndex, RequestId, Term};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;

/// Rows live below this prefix in the cluster's space, then eight bytes of index, big-endian.
pub const ROW_PREFIX: &[u8] = b"\x00r";
const ROW_END: &[u8] = b"\x00s";
/// The most ids remembered. Beyond it the leader refuses writes until old ones expire.
pub const REQUEST_IDS_MAX: usize = 2_000_000;

/// How a request was answered the first time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Applied {
    pub index: LogIndex,
    pub term: Term,
    pub position: u32,
    pub reply: Bytes,
}

/// One entry's ids.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    pub term: Term,
    /// Cluster time after which the row is forgotten.
    pub expires_ms: u64,
    pub ids: Vec<(RequestId, u32, Bytes)>,
}

impl Encode for Row {
    fn encode(&self, out: &mut Writer) {
        out.varint(self.term.0).varint(self.expires_ms).varint(self.ids.len() as u64);
        for (id, position, reply) in &self.ids {
            out.u128(id.0).varint(u64::from(*position)).bytes(reply);
        }
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let term = Term(input.varint("term")?);
        let expires_ms = input.varint("expires")?;
        let count = input.count("ids")?;
        let mut ids = Vec::with_capacity(count.min(crate::entry::COMMANDS_PER_ENTRY_MAX));
        for _ in 0..count {
            let id = RequestId(input.u128("request id")?);
            let position = u32::try_from(input.varint("position")?).map_err(|_| DecodeError::TooLarge("position"))?;
            ids.push((id, position, input.bytes("reply")?));
        }
        Ok(Row { term, expires_ms, ids })
    }
}

/// The index in memory.
#[derive(Default, Debug)]
pub struct RequestIds {
    applied: BTreeMap<RequestId, Applied>,
    /// Rows in log order: index, expiry, ids.
    rows: VecDeque<(LogIndex, u64, Vec<RequestId>)>,
}

fn row_key(index: LogIndex) -> Bytes {
    let mut key = Vec::with_capacity(ROW_PREFIX.len() + 8);
    key.extend_from_slice(ROW_PREFIX);
    key.extend_from_slice(&index.0.to_be_bytes());
    Bytes::from(key)
}

impl RequestIds {
    /// Reads the rows back.
    pub fn load(view: View<'_>) -> Result<RequestIds, EngineError> {
        let mut ids = RequestIds::default();
        let mut damage = None;
        view.range_raw(ROW_PREFIX, Some(ROW_END), Direction::Forward, &mut |key, value| {
            let index = <[u8; 8]>::try_from(&key[ROW_PREFIX.len()..]).map(u64::from_be_bytes);
            match (index, Row::from_bytes(Bytes::copy_from_slice(value))) {
                (Ok(index), Ok(row)) => {
                    ids.insert(LogIndex(index), row);
                    ControlFlow::Continue(())
                }
                (_, result) => {
                    damage = Some(format!("request id row {key:02x?} does not decode: {:?}", result.err()));
                    ControlFlow::Break(())
                }
            }
        })?;
        damage.map_or(Ok(ids), |text| Err(EngineError::Corrupt(text)))
    }

    fn insert(&mut self, index: LogIndex, row: Row) {
        let mut ids = Vec::with_capacity(row.ids.len());
        for (id, position, reply) in row.ids {
            self.applied.insert(id, Applied { index, term: row.term, position, reply });
            ids.push(id);
        }
        self.rows.push_back((index, row.expires_ms, ids));
    }

    pub fn get(&self, id: RequestId) -> Option<&Applied> {
        self.applied.get(&id)
    }

    pub fn len(&self) -> usize {
        self.applied.len()
    }

    /// Remembers an entry's ids, durably with the overlay.
    pub fn remember(&mut self, index: LogIndex, row: Row, overlay: &mut Overlay) {
        if row.ids.is_empty() {
            return;
        }
        overlay.put_raw(row_key(index), row.to_bytes());
        self.insert(index, row);
    }

    /// Forgets rows that expired by the stamp of the entry being applied. Rows go in log order: one
    /// that expires late holds back the ones behind it, which only keeps ids longer.
    pub fn expire(&mut self, cluster_time_ms: u64, overlay: &mut Overlay) {
        while let Some((index, expires_ms, _)) = self.rows.front() {
            if *expires_ms > cluster_time_ms {
                break;
            }
            overlay.delete_raw(row_key(*index));
            let (_, _, ids) = self.rows.pop_front().expect("a front was seen");
            for id in ids {
                self.applied.remove(&id);
            }
        }
    }
}
