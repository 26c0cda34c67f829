//! Which requests have been applied: a retry finds its first answer here and applies nothing.
//!
//! Replicated like any other state: at most two rows an entry in the cluster's space, kept for as long (cluster
//! time) as a duplicate could still arrive, and in memory, read back after a restart:
//!
//! ```text
//!   short    oldest ▶ [ id reply, id reply ] [ id reply ] …  ◀ newest     nodes' own ids: until no node repeats them
//!   long     oldest ▶ [ id reply ] [ id reply ] …            ◀ newest     clients' ids: for the window they may rely on
//!   places   id ──▶ queue, number of the row, slot in it                  asked for every command: a hash table
//! ```
//!
//! Two queues, for what expires goes in front: one client's id would hold back the nodes' own of a minute.
//!
//! An id that was issued after an index has expired once a client's id that was applied behind that index is forgotten:
//! then it may have been applied itself. That is exact, whatever clocks did.
//!
//! Always: rows and places hold the same (`RequestIds::check_invariants`). Only the entries' stamps decide what expires, so
//! every member forgets the same ids at the same index (checker `states`). Places are never walked: their order differs.
//! Not here: how long ids are kept ([`RequestIdTerms`]; decisions 0005 and 0030).

use crate::request_id_terms::REQUEST_IDS_MAX;
use crate::storage::overlay::{Overlay, View};
use base_engine::{Direction, EngineError};
use base_types::codec::{DecodeError, Encode, Reader, Writer};
use base_types::holds;
use base_types::invariant::Broken;
use base_types::lookup::Lookup;
use base_types::mutant::{planted, Mutant};
use base_types::sizes::Sizes;
use base_types::{ClusterId, ErrorCode, Generation, LogIndex, Refusal, RequestId, RequestIdKind, Term};
use bytes::Bytes;
use core_backends::memory::{About, Carried, MemoryAsked, MemoryPage, Part, CARRIED_MAX, PAGE_IDS_MAX};
use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;

/// Rows live below this prefix in the cluster's space, then eight bytes of index, big-endian; of a long row one byte more.
/// The prefix alone: the last index of which a long row was forgotten.
pub const ROW_PREFIX: &[u8] = b"\x00r";
const ROW_END: &[u8] = b"\x00s";
/// Behind the index of a long row.
const LONG: u8 = 1;
/// The most bytes of replies and keys remembered; beyond it likewise, whatever the ids.
const REPLY_BYTES_MAX: usize = 256 << 20;
/// A queue may pass its bound so many times with what moved parts bring; then no more is taken until some expire.
const BROUGHT_TIMES_MAX: usize = 2;
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
    /// Of ids that were repeated: their slots, and the entry and its term that applied them, which answers tell.
    pub origins: Vec<(u32, LogIndex, Term)>,
}

impl Encode for Row {
    fn encode(&self, out: &mut Writer) {
        out.varint(self.term.0).varint(self.expires_ms).varint(self.ids.len() as u64);
        for (id, position, _, reply) in &self.ids {
            out.u128(id.0).varint(u64::from(*position)).bytes(reply);
        }
        // Left out where nothing can move, and nothing was repeated.
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

/// An entry's rows.
pub struct EntryRows {
    short: Row,
    long: Row,
}

/// The rows of the entry that is being applied.
pub struct RowBuilder {
    rows: EntryRows,
    /// Builds before entries of format 2 knew one queue.
    one_queue: bool,
    seen: BTreeMap<RequestId, Applied>,
    reply_bytes: usize,
}

impl RowBuilder {
    pub fn new(entry: &core_log::LogEntry, one_queue: bool) -> RowBuilder {
        let row = Row { term: entry.term, expires_ms: 0, ids: Vec::new(), origins: Vec::new() };
        let rows = EntryRows { short: row.clone(), long: row };
        RowBuilder { rows, one_queue, seen: BTreeMap::new(), reply_bytes: 0 }
    }

    fn row(&mut self, id: RequestId) -> &mut Row {
        match Kind::of(id) {
            Kind::Long if !self.one_queue => &mut self.rows.long,
            _ => &mut self.rows.short,
        }
    }

    pub fn get(&self, id: RequestId) -> Option<&Applied> {
        self.seen.get(&id)
    }

    /// A reply that no longer fits the row is remembered as one that was given and is gone.
    pub fn remember(&mut self, id: RequestId, applied: &Applied, expires_ms: u64) {
        let fits = self.reply_bytes + kept_bytes(&applied.about, &applied.reply) <= ROW_REPLY_BYTES_MAX;
        let reply = if fits { applied.reply.clone() } else { reply_gone() };
        self.reply_bytes += kept_bytes(&applied.about, &reply);
        let row = self.row(id);
        row.expires_ms = row.expires_ms.max(expires_ms);
        row.ids.push((id, applied.position, applied.about.clone(), reply.clone()));
        self.seen.insert(id, Applied { reply, ..applied.clone() });
    }

    /// The same for one that an earlier entry has applied.
    pub fn remember_again(&mut self, id: RequestId, applied: &Applied, expires_ms: u64) {
        let row = self.row(id);
        row.origins.push((row.ids.len() as u32, applied.index, applied.term));
        self.remember(id, applied, expires_ms);
    }

    pub fn finish(self) -> EntryRows {
        self.rows
    }
}

fn reply_gone() -> Bytes {
    let message = "the request was applied before; its reply was too large to be kept for a repetition";
    core_backends::encode_reply::<Gone>(&Err(Refusal::new(ErrorCode::OutcomeUnknown, message)))
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

/// The queue and the row of an id, by the row's number, and the slot in it.
type Place = (Kind, u64, u32);

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

    /// Unless a newer row holds it.
    fn remove(&mut self, id: RequestId, kind: Kind, row: u64) {
        let Some(table) = self.tables.get_mut(Places::at(id)) else { return };
        let told_here =
            |(of, held, _): &Place| (*of, *held) == (kind, row) || planted(Mutant::RepeatForgottenWithFirst);
        if table.get(&id).is_some_and(told_here) {
            table.remove(&id);
            self.len -= 1;
        }
        if self.len == 0 {
            self.tables = Vec::new();
        }
    }
}

/// Which queue an id is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Nodes' own; and all that builds before entries of format 2 applied.
    Short,
    Long,
}

impl Kind {
    fn of(id: RequestId) -> Kind {
        match id.is_clients() {
            true => Kind::Long,
            false => Kind::Short,
        }
    }

    fn other(self) -> Kind {
        match self {
            Kind::Short => Kind::Long,
            Kind::Long => Kind::Short,
        }
    }
}

/// Rows that expire one after the other.
#[derive(Default, Debug)]
struct Queue {
    /// In log order.
    rows: VecDeque<Kept>,
    /// The number of the first of them.
    first: u64,
    /// Ids of all rows: a repeated one counts each time.
    held: usize,
}

impl Queue {
    fn row(&self, number: u64) -> Option<&Kept> {
        self.rows.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }
}

/// What is remembered, in memory.
#[derive(Default, Debug)]
pub struct RequestIds {
    places: Places,
    short: Queue,
    long: Queue,
    reply_bytes: usize,
    /// The last index of which a long row was forgotten.
    forgotten: LogIndex,
}

fn row_key(index: LogIndex, kind: Kind) -> Bytes {
    let mut key = Vec::with_capacity(ROW_PREFIX.len() + 9);
    key.extend_from_slice(ROW_PREFIX);
    key.extend_from_slice(&index.0.to_be_bytes());
    if kind == Kind::Long {
        key.push(LONG);
    }
    Bytes::from(key)
}

/// The counterpart of [`row_key`], without the prefix.
fn place_of(suffix: &[u8]) -> Option<(LogIndex, Kind)> {
    let (index, kind) = match suffix {
        [index @ .., LONG] if index.len() == 8 => (index, Kind::Long),
        index => (index, Kind::Short),
    };
    Some((LogIndex(u64::from_be_bytes(index.try_into().ok()?)), kind))
}

impl RequestIds {
    /// Whether the running counts are those of the rows.
    ///
    /// # Errors
    /// What differs.
    pub fn check_invariants(&self) -> Result<(), Broken> {
        let mut bytes = 0;
        for (kind, queue) in [(Kind::Short, &self.short), (Kind::Long, &self.long)] {
            let held: usize = queue.rows.iter().map(|kept| kept.row.ids.len()).sum();
            holds!(held == queue.held, "rows hold {held} {kind:?} ids, and {} are counted", queue.held);
            for (at, kept) in queue.rows.iter().enumerate() {
                for (id, _, about, reply) in &kept.row.ids {
                    bytes += kept_bytes(about, reply);
                    let place = self.places.get(*id);
                    let newest = place.is_some_and(|(of, row, _)| of != kind || row >= queue.first + at as u64);
                    holds!(newest, "id {id:?} of row {} is found at {place:?}", kept.index);
                }
            }
        }
        holds!(bytes == self.reply_bytes, "replies have {bytes} bytes, and {} are counted", self.reply_bytes);
        Ok(())
    }

    /// One entry more than the bound: whether it is full is asked before an entry is made.
    pub fn sizes(&self, sizes: &mut Sizes) {
        let most = self.short.held.max(self.long.held);
        sizes.lasting("request ids, a replica", most, BROUGHT_TIMES_MAX * REQUEST_IDS_MAX + PAGE_IDS_MAX);
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
            let suffix = &key[ROW_PREFIX.len()..];
            if suffix.is_empty() {
                if let Ok(index) = <[u8; 8]>::try_from(value).map(u64::from_be_bytes) {
                    ids.forgotten = LogIndex(if planted(Mutant::ForgottenNotReadBack) { 0 } else { index });
                    return ControlFlow::Continue(());
                }
            }
            match (place_of(suffix), Row::from_bytes(Bytes::copy_from_slice(value))) {
                (Some((index, kind)), Ok(row)) => {
                    ids.insert(index, row, kind);
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

    fn queue(&self, kind: Kind) -> &Queue {
        match kind {
            Kind::Short => &self.short,
            Kind::Long => &self.long,
        }
    }

    fn insert(&mut self, index: LogIndex, row: Row, kind: Kind) {
        let queue = match kind {
            Kind::Short => &mut self.short,
            Kind::Long => &mut self.long,
        };
        let number = queue.first + queue.rows.len() as u64;
        queue.held += row.ids.len();
        for (slot, (id, _, about, reply)) in row.ids.iter().enumerate() {
            self.reply_bytes += kept_bytes(about, reply);
            self.places.insert(*id, (kind, number, slot as u32));
        }
        queue.rows.push_back(Kept { index, row });
    }

    pub fn get(&self, id: RequestId) -> Option<Applied> {
        let (kind, number, slot) = self.places.get(id)?;
        let kept = self.queue(kind).row(number)?;
        let (_, position, about, reply) = kept.row.ids.get(slot as usize)?;
        let origin = kept.row.origins.iter().find(|(of, ..)| *of == slot);
        let (index, term) = origin.map_or((kept.index, kept.row.term), |(_, index, term)| (*index, *term));
        let position = *position;
        Some(Applied { index, term, position, about: about.clone(), reply: reply.clone() })
    }

    /// Until which stamp it is surely remembered.
    pub fn kept_until(&self, id: RequestId) -> Option<u64> {
        let (kind, number, _) = self.places.get(id)?;
        Some(self.queue(kind).row(number)?.row.expires_ms)
    }

    /// Why an id that is not remembered must not be applied: it was issued at a position behind which something was
    /// forgotten, perhaps itself, or at one that says nothing of this cluster. `last` is the last index of the log so far.
    pub fn expired(
        &self,
        id: RequestId,
        cluster: ClusterId,
        generation: Generation,
        last: LogIndex,
    ) -> Option<Refusal> {
        let RequestIdKind::Issued(after) = id.kind() else { return None };
        let why = if !after.is_of(cluster, generation) {
            "the request id was issued by another cluster than the one that has the keys now"
        } else if after.index > last {
            "the request id was issued at a position that was never committed"
        } else if after.index < self.forgotten && !planted(Mutant::ExpiredIdApplied) {
            "the request id has expired: whether it was applied is forgotten"
        } else {
            return None;
        };
        let message = format!("{why}; read the key, and repeat the write under a new id if it is still wanted");
        Some(Refusal::new(ErrorCode::RequestIdExpired, message))
    }

    pub fn contains(&self, id: RequestId) -> bool {
        self.places.get(id).is_some()
    }

    pub fn len(&self) -> usize {
        self.places.len
    }

    /// When the first row and the last may be forgotten: at that stamp the first surely goes, and mostly all.
    pub fn all_expire_at(&self) -> Option<u64> {
        let ends = [&self.short, &self.long].map(|queue| [queue.rows.front(), queue.rows.back()]);
        ends.into_iter().flatten().flatten().map(|kept| kept.row.expires_ms).max()
    }

    /// What goes along when a part of the keys moves, from entries behind `asked.after`. A page ends after `CARRIED_MAX`
    /// ids or `PAGE_BYTES_MAX` bytes, or when it has looked at `LOOKED_AT_MAX`, always with a whole entry.
    pub fn carried(&self, asked: MemoryAsked, id_time_ms: u64, applied: LogIndex) -> MemoryPage {
        let mut page = MemoryPage { ids: Vec::new(), reached: asked.after, more: false };
        let (mut bytes, mut looked_at) = (0, 0);
        for (index, rows) in self.entries_after(asked.after) {
            let found: Vec<Carried> =
                rows.iter().flatten().flat_map(|row| going(row, asked.part, id_time_ms)).collect();
            let found_bytes: usize = found.iter().map(|carried| kept_bytes(&carried.about, &carried.reply)).sum();
            let full = page.ids.len() + found.len() > CARRIED_MAX || bytes + found_bytes > PAGE_BYTES_MAX;
            if looked_at >= LOOKED_AT_MAX || full && !page.ids.is_empty() {
                page.more = true;
                return page;
            }
            let looked: usize = rows.iter().flatten().map(|row| row.ids.len()).sum();
            (bytes, looked_at) = (bytes + found_bytes, looked_at + looked);
            page.reached = index.0;
            page.ids.extend(found);
        }
        page.reached = page.reached.max(applied.0);
        page
    }

    /// The rows of each entry after this index, in log order.
    fn entries_after(&self, after: u64) -> impl Iterator<Item = (LogIndex, [Option<&Row>; 2])> {
        let rest = |queue: &'_ Queue| queue.rows.partition_point(|kept| kept.index.0 <= after);
        let mut short = self.short.rows.range(rest(&self.short)..).peekable();
        let mut long = self.long.rows.range(rest(&self.long)..).peekable();
        core::iter::from_fn(move || {
            let index =
                short.peek().map(|kept| kept.index).into_iter().chain(long.peek().map(|kept| kept.index)).min()?;
            let row = |kept: &'_ Kept| kept.index == index;
            let rows = [short.next_if(|kept| row(kept)), long.next_if(|kept| row(kept))];
            Some((index, rows.map(|kept| kept.map(|kept| &kept.row))))
        })
    }

    /// Whether no more ids like this one can be remembered for now. What a moved part brings is under other ids than the
    /// command's own: far beyond its bound the other queue counts, too.
    pub fn is_full(&self, id: RequestId, held_max: usize) -> bool {
        let kind = Kind::of(id);
        let other = self.queue(kind.other()).held >= held_max.saturating_mul(BROUGHT_TIMES_MAX);
        self.queue(kind).held >= held_max || other || self.reply_bytes >= REPLY_BYTES_MAX
    }

    /// Remembers an entry's ids, durably with the overlay.
    pub fn remember(&mut self, index: LogIndex, rows: EntryRows, overlay: &mut Overlay) {
        for (row, kind) in [(rows.short, Kind::Short), (rows.long, Kind::Long)] {
            if !row.ids.is_empty() {
                overlay.put_raw(row_key(index, kind), row.to_bytes());
                self.insert(index, row, kind);
            }
        }
    }

    /// Forgets rows that expired by the stamp of the entry being applied. Rows of a queue go in log order: one
    /// that expires late holds back the later ones, which only keeps ids longer.
    pub fn expire(&mut self, id_time_ms: u64, overlay: &mut Overlay) {
        self.expire_in(Kind::Short, id_time_ms, overlay);
        if let Some(last) = self.expire_in(Kind::Long, id_time_ms, overlay) {
            self.forgotten = last;
            overlay.put_raw(Bytes::from_static(ROW_PREFIX), Bytes::copy_from_slice(&last.0.to_be_bytes()));
        }
    }

    /// The index of the last row that went.
    fn expire_in(&mut self, kind: Kind, id_time_ms: u64, overlay: &mut Overlay) -> Option<LogIndex> {
        let queue = match kind {
            Kind::Short => &mut self.short,
            Kind::Long => &mut self.long,
        };
        let mut last = None;
        while let Some(Kept { index, row }) = queue.rows.pop_front_if(|kept| kept.row.expires_ms <= id_time_ms) {
            overlay.delete_raw(row_key(index, kind));
            for (id, _, about, reply) in &row.ids {
                self.places.remove(*id, kind, queue.first);
                self.reply_bytes -= if planted(Mutant::RepliesCounted) { 0 } else { kept_bytes(about, reply) };
            }
            queue.held -= if planted(Mutant::ExpiredIdsCounted) { 0 } else { row.ids.len() };
            queue.first += 1;
            last = Some(index);
        }
        last
    }
}

/// What of a row goes along with a part of the keys.
fn going(row: &Row, part: Part, id_time_ms: u64) -> impl Iterator<Item = Carried> + '_ {
    let keep_ms = row.expires_ms.saturating_sub(id_time_ms);
    let going = row.ids.iter().filter(move |(_, _, about, _)| about.part.goes_with(part));
    going.map(move |(id, _, about, reply)| Carried { id: *id, keep_ms, about: about.clone(), reply: reply.clone() })
}
