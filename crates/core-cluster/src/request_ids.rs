//! Which requests have been applied: a retry finds its first answer here and applies nothing.
//!
//! Replicated like any other state: one row an entry in the cluster's space, kept for as long (cluster
//! time) as a duplicate could still arrive, and in memory, read back after a restart:
//!
//! ```text
//!   rows     oldest ▶ [ id reply, id reply ] [ id reply ] …  ◀ newest     a queue: what expires goes in front
//!   places   id ──▶ number of the row, slot in it                         asked for every command: a hash table
//! ```
//!
//! Always: rows and places hold the same; what expires is a function of the entries' stamps alone, so
//! every member forgets the same ids at the same index. Places are never walked: their order is no member's business.

use crate::overlay::{Overlay, View};
use base_engine::{Direction, EngineError};
use base_types::codec::{DecodeError, Encode, Reader, Writer};
use base_types::lookup::Lookup;
use base_types::sizes::Sizes;
use base_types::{ErrorKind, LogIndex, Refusal, RequestId, Term};
use bytes::Bytes;
use core_backends::memory::{About, Carried, MemoryAsked, MemoryPage, Part, CARRIED_MAX, PAGE_IDS_MAX};
use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;

/// Rows live below this prefix in the cluster's space, then eight bytes of index, big-endian.
pub const ROW_PREFIX: &[u8] = b"\x00r";
const ROW_END: &[u8] = b"\x00s";
/// The most ids remembered. Beyond it the leader refuses writes until old ones expire.
const REQUEST_IDS_MAX: usize = 2_000_000;
/// The most bytes of replies and keys remembered; beyond it likewise.
const REPLY_BYTES_MAX: usize = 256 << 20;
/// The most bytes of replies and keys one row keeps: a row is one value of the engine.
pub const ROW_REPLY_BYTES_MAX: usize = 8 << 20;

/// Tables that places are spread over, so that one that grows moves a part of them only: a turn waits for it.
const TABLES: usize = 64;

/// Where a page of ids for another cluster ends.
const PAGE_BYTES_MAX: usize = 1 << 20;
const LOOKED_AT_MAX: usize = 16 << 10;

/// How a request was answered the first time.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Applied {
    pub index: LogIndex,
    pub term: Term,
    pub position: u32,
    /// The part of the keys it was about, and which key: it goes along when that moves to another cluster.
    pub about: About,
    pub reply: Bytes,
}

/// What it takes to keep a reply, and what it is about.
fn kept_bytes(about: &About, reply: &Bytes) -> usize {
    reply.len() + about.bytes()
}

/// An id, its position in the entry, what it was about, and the reply.
pub type RowId = (RequestId, u32, About, Bytes);

/// One entry's ids.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    pub term: Term,
    /// Cluster time after which the row is forgotten.
    pub expires_ms: u64,
    pub ids: Vec<RowId>,
    /// Of ids that were asked again: their slots, and the entry and its term that applied them, which answers tell.
    pub origins: Vec<(u32, LogIndex, Term)>,
}

impl Encode for Row {
    fn encode(&self, out: &mut Writer) {
        out.varint(self.term.0).varint(self.expires_ms).varint(self.ids.len() as u64);
        for (id, position, _, reply) in &self.ids {
            out.u128(id.0).varint(u64::from(*position)).bytes(reply);
        }
        // Left out where nothing can move, and nothing was asked again.
        if self.ids.iter().any(|(_, _, about, _)| about.part != Part::WHOLE) || !self.origins.is_empty() {
            self.ids.iter().for_each(|(_, _, about, _)| about.encode_short(out));
        }
        if !self.origins.is_empty() {
            out.varint(self.origins.len() as u64);
            for (slot, index, term) in &self.origins {
                out.varint(u64::from(*slot)).varint(index.0).varint(term.0);
            }
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
            ids.push((id, position, About::default(), input.bytes("reply")?));
        }
        if input.remaining() > 0 {
            for (_, _, about, _) in &mut ids {
                *about = About::decode_short(input)?;
            }
        }
        let mut origins = Vec::new();
        if input.remaining() > 0 {
            let count = input.count("origins")?;
            if count > ids.len() {
                return Err(DecodeError::TooLarge("origins"));
            }
            for _ in 0..count {
                let slot = u32::try_from(input.varint("slot")?).map_err(|_| DecodeError::TooLarge("slot"))?;
                origins.push((slot, LogIndex(input.varint("index")?), Term(input.varint("term")?)));
            }
        }
        Ok(Row { term, expires_ms, ids, origins })
    }
}

/// The row of the entry that is being applied.
pub struct RowBuilder {
    row: Row,
    seen: BTreeMap<RequestId, Applied>,
    reply_bytes: usize,
}

impl RowBuilder {
    pub fn new(entry: &core_log::LogEntry) -> RowBuilder {
        let row = Row { term: entry.term, expires_ms: 0, ids: Vec::new(), origins: Vec::new() };
        RowBuilder { row, seen: BTreeMap::new(), reply_bytes: 0 }
    }

    pub fn get(&self, id: RequestId) -> Option<&Applied> {
        self.seen.get(&id)
    }

    /// A reply that no longer fits the row is remembered as one that was given and is gone.
    pub fn remember(&mut self, id: RequestId, applied: &Applied, expires_ms: u64) {
        self.row.expires_ms = self.row.expires_ms.max(expires_ms);
        let fits = self.reply_bytes + kept_bytes(&applied.about, &applied.reply) <= ROW_REPLY_BYTES_MAX;
        let reply = if fits { applied.reply.clone() } else { reply_gone() };
        self.reply_bytes += kept_bytes(&applied.about, &reply);
        self.row.ids.push((id, applied.position, applied.about.clone(), reply.clone()));
        self.seen.insert(id, Applied { reply, ..applied.clone() });
    }

    /// The same for one that an earlier entry has applied.
    pub fn remember_again(&mut self, id: RequestId, applied: &Applied, expires_ms: u64) {
        self.row.origins.push((self.row.ids.len() as u32, applied.index, applied.term));
        self.remember(id, applied, expires_ms);
    }

    pub fn finish(self) -> Row {
        self.row
    }
}

fn reply_gone() -> Bytes {
    let message = "the request was applied before; its reply was too large to be kept for a repetition";
    core_backends::encode_reply::<Gone>(&Err(Refusal::new(ErrorKind::Unknown, "OutcomeUnknown", message)))
}

struct Gone;

impl Encode for Gone {
    fn encode(&self, _out: &mut Writer) {}
    fn decode(_input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Gone)
    }
}

/// An entry's ids, in memory.
#[derive(Debug)]
struct Kept {
    index: LogIndex,
    row: Row,
}

/// The row of an id, by its number, and the slot in it.
type Place = (u64, u32);

/// Which rows hold which ids. Hashed with keys of this process, since clients choose ids.
#[derive(Default, Debug)]
struct Places {
    /// None while nothing is remembered: most clusters are idle.
    tables: Vec<Lookup<RequestId, Place>>,
    len: usize,
}

impl Places {
    fn at(id: RequestId) -> usize {
        id.0 as usize % TABLES
    }

    fn get(&self, id: RequestId) -> Option<Place> {
        self.tables.get(Places::at(id))?.get(&id).copied()
    }

    fn insert(&mut self, id: RequestId, place: Place) {
        if self.tables.is_empty() {
            self.tables.resize_with(TABLES, Lookup::default);
        }
        self.len += usize::from(self.tables[Places::at(id)].insert(id, place).is_none());
    }

    /// Unless a newer row tells of it.
    fn remove(&mut self, id: RequestId, row: u64) {
        let Some(table) = self.tables.get_mut(Places::at(id)) else { return };
        if table.get(&id).is_some_and(|(held, _)| *held == row) {
            table.remove(&id);
            self.len -= 1;
        }
        if self.len == 0 {
            self.tables = Vec::new();
        }
    }
}

/// What is remembered, in memory.
#[derive(Default, Debug)]
pub struct RequestIds {
    places: Places,
    /// In log order.
    rows: VecDeque<Kept>,
    /// The number of the first of them.
    first: u64,
    reply_bytes: usize,
    /// Ids of all rows: of one that was asked again, each time.
    held: usize,
}

fn row_key(index: LogIndex) -> Bytes {
    let mut key = Vec::with_capacity(ROW_PREFIX.len() + 8);
    key.extend_from_slice(ROW_PREFIX);
    key.extend_from_slice(&index.0.to_be_bytes());
    Bytes::from(key)
}

impl RequestIds {
    /// One entry more than the bound: whether it is full is asked before an entry is made.
    pub fn sizes(&self, sizes: &mut Sizes) {
        sizes.lasting("request ids, a replica", self.held, REQUEST_IDS_MAX + PAGE_IDS_MAX);
        sizes.lasting(
            "bytes of remembered replies, a replica",
            self.reply_bytes,
            REPLY_BYTES_MAX + ROW_REPLY_BYTES_MAX,
        );
    }

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
        let number = self.first + self.rows.len() as u64;
        self.held += row.ids.len();
        for (slot, (id, _, about, reply)) in row.ids.iter().enumerate() {
            self.reply_bytes += kept_bytes(about, reply);
            self.places.insert(*id, (number, slot as u32));
        }
        self.rows.push_back(Kept { index, row });
    }

    pub fn get(&self, id: RequestId) -> Option<Applied> {
        let (number, slot) = self.places.get(id)?;
        let kept = self.rows.get(usize::try_from(number.checked_sub(self.first)?).ok()?)?;
        let (_, position, about, reply) = kept.row.ids.get(slot as usize)?;
        let origin = kept.row.origins.iter().find(|(of, ..)| *of == slot);
        let (index, term) = origin.map_or((kept.index, kept.row.term), |(_, index, term)| (*index, *term));
        let position = *position;
        Some(Applied { index, term, position, about: about.clone(), reply: reply.clone() })
    }

    /// Until which stamp it is surely remembered.
    pub fn kept_until(&self, id: RequestId) -> Option<u64> {
        let (number, _) = self.places.get(id)?;
        let kept = self.rows.get(usize::try_from(number.checked_sub(self.first)?).ok()?)?;
        Some(kept.row.expires_ms)
    }

    pub fn contains(&self, id: RequestId) -> bool {
        self.places.get(id).is_some()
    }

    pub fn len(&self) -> usize {
        self.places.len
    }

    /// When the first row and the last may be forgotten: at that stamp the first surely goes, and mostly all.
    pub fn all_expire_at(&self) -> Option<u64> {
        let (first, last) = (self.rows.front()?, self.rows.back()?);
        Some(first.row.expires_ms.max(last.row.expires_ms))
    }

    /// What goes along when a part of the keys moves, from entries behind `asked.after`. A page ends after `CARRIED_MAX`
    /// ids or `PAGE_BYTES_MAX` bytes, or when it has looked at `LOOKED_AT_MAX`, always with a whole entry.
    pub fn carried(&self, asked: MemoryAsked, id_time_ms: u64, applied: LogIndex) -> MemoryPage {
        let mut page = MemoryPage { ids: Vec::new(), reached: asked.after, more: false };
        let (mut bytes, mut looked_at) = (0, 0);
        let first = self.rows.partition_point(|kept| kept.index.0 <= asked.after);
        for Kept { index, row } in self.rows.range(first..) {
            let keep_ms = row.expires_ms.saturating_sub(id_time_ms);
            let going = row.ids.iter().filter(|(_, _, about, _)| about.part.goes_with(asked.part));
            let found: Vec<Carried> = going
                .map(|(id, _, about, reply)| Carried { id: *id, keep_ms, about: about.clone(), reply: reply.clone() })
                .collect();
            let found_bytes: usize = found.iter().map(|carried| kept_bytes(&carried.about, &carried.reply)).sum();
            let full = page.ids.len() + found.len() > CARRIED_MAX || bytes + found_bytes > PAGE_BYTES_MAX;
            if looked_at >= LOOKED_AT_MAX || full && !page.ids.is_empty() {
                page.more = true;
                return page;
            }
            (bytes, looked_at) = (bytes + found_bytes, looked_at + row.ids.len());
            page.reached = index.0;
            page.ids.extend(found);
        }
        page.reached = page.reached.max(applied.0);
        page
    }

    /// Whether no more can be remembered for now.
    pub fn is_full(&self) -> bool {
        self.held >= REQUEST_IDS_MAX || self.reply_bytes >= REPLY_BYTES_MAX
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
        while let Some(Kept { index, row }) = self.rows.front() {
            if row.expires_ms > cluster_time_ms {
                break;
            }
            overlay.delete_raw(row_key(*index));
            for (id, _, about, reply) in &row.ids {
                self.places.remove(*id, self.first);
                self.reply_bytes -= kept_bytes(about, reply);
            }
            self.held -= row.ids.len();
            self.rows.pop_front();
            self.first += 1;
        }
    }
}
