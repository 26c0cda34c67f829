//! The shard's own record, and what each command must find in it.
//!
//! ```text
//!            Create                BeginSplit               CutOver
//!  (nothing) ───────▶ Serving ────────────────▶ Splitting ──────────▶ Retired ──Drop──▶ Dropped
//!      │                 ▲ ▲ ◀──── AbortSplit ──────┘ (frozen or not)                      ▲
//!      │ PrepareImport   │ └──Activate──┐                                                  │
//!      └───────────────▶ Importing ─────┘───────────────────────Drop──────────────────────┘
//! ```
//!
//! Serving → Serving, narrower and of the next epoch (`Narrow`): what was behind its keys is another's.
//! Serving ⇄ Closed (`Close`, `Reopen`): empty, while the bucket is being deleted.
//!
//! Always: an epoch given up never serves again (mutants `ShardStaleEpochAccepted`, `GivenAwayTaken`); a freeze is a promise for a time, and what relies on
//! it (`CutOver`, `PinCommit`) finds out whether it was kept (mutant `PinCommitsPastWrite`).
//! Not here: rows (`work.rs`).

use super::command::{ImportCursor, Peer, PinInfo, Range, RangeDigest, ShardInfo, ShardState, Totals};
use super::growth::Growth;
use super::keys;
use crate::contract::{corrupt_row, Keep, SpaceRead};
use crate::freed::Queue;
use crate::wire::wire_struct;
use base_engine::EngineError;
use base_types::codec::Encode;
use base_types::mutant::{planted, Mutant};
use base_types::{ErrorCode, Refusal};
use bytes::Bytes;

wire_struct! {
    /// A snapshot that is pinned, with what of this record it must remember.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Pin {
        pub pin: u128,
        /// Its place in the order of pins; history rows name it.
        pub ordinal: u32,
        pub expires_ms: u64,
        /// Until when writes wait for it; zero once it stands.
        pub frozen_until_ms: u64,
        pub totals: Totals,
        pub height: u8,
        /// The epoch and the end of the range the snapshot knows, where the shard was narrowed since.
        pub of: Option<(u64, Option<Bytes>)>,
    }
}

wire_struct! {
    /// Sums over the rows of each peer's range, as far as `cursor`.
    #[derive(Clone, PartialEq, Eq, Debug, Default)]
    pub struct Digest {
        pub cursor: Bytes,
        pub done: bool,
        pub sums: Vec<RangeDigest>,
    }
}

wire_struct! {
    /// A row of the feed: the rows that a write changed, at most [`super::work::FEED_NAMES_MAX`].
    #[derive(Clone, PartialEq, Eq, Debug, Default)]
    pub struct Changed {
        pub rows: Vec<Bytes>,
    }
}

wire_struct! {
    /// The record.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Shard {
        pub state: ShardState,
        pub epoch: u64,
        pub range: Range,
        /// The greatest version stamp given or taken over.
        pub last_stamp: u64,
        /// Some key may have more than a current null version.
        pub versioned: bool,
        pub totals: Totals,
        /// Levels of the count index, and nodes of the uppermost.
        pub height: u8,
        pub top_nodes: u32,
        pub frozen_until_ms: u64,
        pub feed: u64,
        pub peers: Vec<Peer>,
        /// A shard that imports has one for each source. Another has none, or one that says how far rows that nobody needs
        /// are removed ([`Shard::removal`]).
        pub cursors: Vec<ImportCursor>,
        pub digest: Option<Digest>,
        pub pins: Vec<Pin>,
        pub next_pin: u32,
        pub history_rows: u64,
        /// Where the removal of unneeded history stands.
        pub sweep: Option<Bytes>,
        /// The last sequence of freed data, and how many rows of it wait.
        pub freed: u64,
        pub freed_rows: u64,
        pub growth: Growth,
    }
}

/// The most rows of doubled writes a split may leave behind, one for each write mostly, which names some four; beyond it
/// the split is given up.
pub const FEED_ROWS_MAX: u64 = 1 << 20;

impl Digest {
    /// Whether a row of this key is in it, if it is there.
    pub fn holds(&self, key: &[u8]) -> bool {
        self.done || key <= &self.cursor[..]
    }
}

impl Pin {
    /// Both halves are done: no write came between them.
    pub fn stands(&self) -> bool {
        self.frozen_until_ms == 0
    }

    /// What the snapshot's map says of a shard that is now of this epoch and range.
    pub fn scope(&self, epoch: u64, range: &Range) -> (u64, Range) {
        match &self.of {
            None => (epoch, range.clone()),
            Some((epoch, end)) => (*epoch, Range { start: range.start.clone(), end: end.clone() }),
        }
    }
}

impl Shard {
    /// How far rows are removed, of a shard that imports nothing: the last raw key of a shard that is dropped, the last
    /// sequence of a feed that is swept. Without it each step would begin at the start, and pass all that the steps
    /// before it have deleted.
    pub fn removal(&mut self) -> &mut ImportCursor {
        self.cursors.resize_with(1, ImportCursor::default);
        &mut self.cursors[0]
    }

    /// What waits to be collected.
    pub fn freed_queue(&self) -> Queue {
        Queue { tag: keys::FREED, last: self.freed, rows: self.freed_rows }
    }

    pub fn new(state: ShardState, epoch: u64, range: Range) -> Shard {
        Shard {
            state,
            epoch,
            range,
            last_stamp: 0,
            versioned: false,
            totals: Totals::default(),
            height: 1,
            top_nodes: 1,
            frozen_until_ms: 0,
            feed: 0,
            peers: Vec::new(),
            cursors: Vec::new(),
            digest: None,
            pins: Vec::new(),
            next_pin: 1,
            history_rows: 0,
            sweep: None,
            freed: 0,
            freed_rows: 0,
            growth: Growth::default(),
        }
    }

    pub fn load(space: &dyn SpaceRead) -> Result<Option<Shard>, EngineError> {
        space.get(&[keys::STATE])?.map(Shard::decode_row).transpose()
    }

    pub fn decode_row(row: Bytes) -> Result<Shard, EngineError> {
        Shard::from_bytes(row).map_err(|error| corrupt_row("a shard's record", error))
    }

    /// Whether writes are taken now, those of the right epoch and keys.
    pub fn takes_writes(&self, now_ms: u64) -> bool {
        self.is_in(SERVING) && self.stands_still_until() <= now_ms
    }

    fn is_in(&self, states: &[ShardState]) -> bool {
        let given_away = self.state == ShardState::Retired && states == SERVING;
        states.contains(&self.state) || given_away && planted(Mutant::GivenAwayTaken)
    }

    /// Whether its rows go, a part at a time: they are not what is counted any more.
    pub fn is_being_dropped(&self) -> bool {
        let begun = self.cursors.first().is_some_and(|cursor| !cursor.after.is_empty());
        self.state == ShardState::Dropped || (self.state == ShardState::Retired && begun)
    }

    /// Whether a split's writes are doubled now.
    pub fn doubles(&self) -> bool {
        self.state == ShardState::Splitting
    }

    /// The place in the order of snapshots under which changes are remembered now: that of the last one
    /// made, even if it has ended, for under an earlier one a row may have been remembered already.
    pub fn newest_pin(&self) -> Option<u32> {
        (!self.pins.is_empty()).then(|| self.next_pin.saturating_sub(1))
    }

    /// Refuses what is not for this epoch; `states`: where the command belongs.
    pub fn check(&self, epoch: u64, states: &[ShardState]) -> Result<(), Refusal> {
        let stale = self.epoch != epoch && !planted(Mutant::ShardStaleEpochAccepted);
        if !stale && self.state == ShardState::Closed && !states.contains(&self.state) {
            let message = "the bucket is being deleted; retry to see what came of it";
            return Err(Refusal::new(ErrorCode::BucketClosing, message));
        }
        if stale || !self.is_in(states) {
            return Err(wrong_shard(epoch, Some(self)));
        }
        Ok(())
    }

    /// Whether a client's write of these keys is taken: its epoch, its range, and no freeze. A freeze
    /// whose time is over is broken by it, with all that waited for it.
    pub fn admit_write<'k>(
        &mut self,
        epoch: u64,
        now_ms: u64,
        keys: impl Iterator<Item = &'k Bytes>,
    ) -> Result<(), Refusal> {
        if self.admits_write(epoch, now_ms, keys)? > 0 {
            self.end_freeze();
            if !planted(Mutant::PinCommitsPastWrite) {
                self.drop_pins(Pin::stands);
            }
        }
        Ok(())
    }

    /// Ends the freeze. What a runner has learned during the freeze is out of date, even if no row changes. A sequence
    /// of the feed marks this; no row has that sequence.
    pub fn end_freeze(&mut self) {
        if self.frozen_until_ms > 0 && self.doubles() {
            self.feed += 1;
        }
        self.frozen_until_ms = 0;
    }

    /// As [`Shard::admit_write`], and changes nothing. Returns until when an expired freeze lasted.
    pub fn admits_write<'k>(
        &self,
        epoch: u64,
        now_ms: u64,
        keys: impl Iterator<Item = &'k Bytes>,
    ) -> Result<u64, Refusal> {
        self.check(epoch, SERVING)?;
        for key in keys {
            if !self.range.holds(key) {
                return Err(out_of_range(epoch, &self.range));
            }
        }
        let until = self.stands_still_until();
        if until > now_ms {
            let message = format!("the shard is frozen for {} ms at most; retry", until - now_ms);
            return Err(Refusal::new(ErrorCode::ShardFrozen, message));
        }
        Ok(until)
    }

    /// Until when writes wait at most, for a cut-over or for a snapshot being prepared.
    fn stands_still_until(&self) -> u64 {
        self.pins.iter().map(|pin| pin.frozen_until_ms).fold(self.frozen_until_ms, u64::max)
    }

    /// Whether a client's read of a key is answered here.
    pub fn admit_read(&self, epoch: u64, key: &[u8]) -> Result<(), Refusal> {
        self.check(epoch, SERVING)?;
        if !self.range.holds(key) {
            return Err(out_of_range(epoch, &self.range));
        }
        Ok(())
    }

    /// Keeps some pins; history that none needs is swept from the beginning again.
    pub fn drop_pins(&mut self, keep: impl Fn(&Pin) -> bool) {
        let before = self.pins.len();
        self.pins.retain(keep);
        if self.pins.len() < before && self.history_rows > 0 {
            self.sweep = Some(Bytes::new());
        }
    }

    pub fn info(&self, now_ms: u64, keep: Keep) -> ShardInfo {
        let pin_info = |pin: &Pin| PinInfo { pin: pin.pin, expires_ms: pin.expires_ms, committed: pin.stands() };
        ShardInfo {
            state: self.state,
            epoch: self.epoch,
            range: self.range.clone(),
            totals: self.totals,
            peers: self.peers.clone(),
            cursors: self.cursors.clone(),
            feed: self.feed,
            last_stamp: self.last_stamp,
            frozen: self.stands_still_until() > now_ms,
            digests: self.digest.as_ref().filter(|digest| digest.done).map(|digest| digest.sums.clone()),
            pins: self.pins.iter().filter(|pin| pin.expires_ms > now_ms).map(pin_info).collect(),
            history_rows: self.history_rows,
            freed_rows: self.freed_rows,
            growth: self.growth.info(&self.range, now_ms, keep),
        }
    }
}

/// States in which clients are served.
pub const SERVING: &[ShardState] = &[ShardState::Serving, ShardState::Splitting];

/// The redirect: the map that led here is out of date.
pub fn wrong_shard(epoch: u64, shard: Option<&Shard>) -> Refusal {
    let here = match shard {
        None => "nothing is here".to_string(),
        Some(shard) => format!("it is {:?} at epoch {} here", shard.state, shard.epoch),
    };
    let message = format!("the shard does not serve epoch {epoch}: {here}; read the bucket's map again and retry");
    Refusal::new(ErrorCode::WrongShard, message)
}

fn out_of_range(epoch: u64, range: &Range) -> Refusal {
    let end = range.end.as_ref().map_or_else(|| "the end".to_string(), |end| format!("{:?}", end));
    let message = format!(
        "the key is outside of the shard at epoch {epoch}, {:?} to {end}; read the bucket's map again and retry",
        range.start
    );
    Refusal::new(ErrorCode::WrongShard, message)
}
