//! How a shard grows, and how often it is written: this distinguishes a hot tail from growth everywhere, and a busy
//! shard from a quiet one.
//!
//! Keys that only grow (times, counters) put every new key behind all others. Such a shard is not split, which would
//! copy it again and again: it is *narrowed*. It gives up the keys behind the greatest one that it was ever told to
//! write, where it holds nothing, and an empty shard takes those (`reshard.rs`, `narrow`; decision 0021).
//!
//! Always: no write of a key after [`Growth::top`] was ever applied here, so no such key has a row, a stamp, a token or
//! a remembered request (mutants `NarrowForgetsImported`, `NarrowCutsGreatestKey`). All of it is a function of the commands and the cluster's time.
//! Not here: who looks and plans (core-s3, reshard/maintenance.rs), the rows of sampled keys (`keys.rs`).

use super::command::{Range, Totals};
use crate::contract::Keep;
use crate::rows::successor;
use crate::wire::wire_struct;
use base_types::mutant::{planted, Mutant};
use base_types::KEY_BYTES_MAX;
use bytes::Bytes;

/// Writes are counted over windows of this length.
pub const LOAD_WINDOW_MS: u64 = 10_000;
/// Of so many writes, the key of one is kept as a sample…
pub const SAMPLE_EVERY: u64 = 16;
/// …and so many samples are kept.
pub const SAMPLES_MAX: u64 = 31;
/// With fewer samples nothing is said about where the load lies.
pub const SAMPLES_MIN: usize = 12;
/// A shard that is merely large waits while its leader's machine is busy, until it has so many times the rows it should
/// have: a split costs more than it spares there (docs/figures.md), and what it parts grows no more urgent by the hour.
pub const LATE_SPLIT_TIMES: u64 = 4;

wire_struct! {
    /// Part of the shard's record.
    #[derive(Clone, PartialEq, Eq, Debug, Default)]
    pub struct Growth {
        /// The greatest key that a write was carried out for, here or where the rows came from. Empty: none.
        pub top: Bytes,
        /// Rows there were when the shard was made or last narrowed…
        pub settled: u64,
        /// …and puts of keys behind all others since.
        pub appended: u64,
        /// Cluster time at which rows of others were taken over; zero: never.
        pub imported_ms: u64,
        /// Writes ever, and in the window that began then.
        pub writes: u64,
        pub window_ms: u64,
        pub window_writes: u64,
        /// Writes a second in the last full window, and in the one before.
        pub last: u64,
        pub before: u64,
    }
}

wire_struct! {
    /// What a shard reports of its growth.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct GrowthInfo {
        pub settled: u64,
        pub appended: u64,
        /// It could be narrowed: there are keys behind all that were written.
        pub narrows: bool,
        /// It took over rows of others not long ago: what load it has is not known yet.
        pub young: bool,
        /// The least writes a second of the last two windows.
        pub writes_per_s: u32,
    }
}

/// Why a shard should be cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// It holds too many rows.
    Rows,
    /// It takes too many writes.
    Load,
    /// What is new comes at its end: an empty shard takes the keys behind.
    Narrow,
}

impl GrowthInfo {
    /// What is to be done with a shard of these rows; `split_rows`: the most it should have, `split_writes`: the
    /// most writes a second it should take; `busy`: its leader's machine has no CPU to spare.
    pub fn wants(&self, totals: &Totals, split_rows: u64, split_writes: u64, busy: bool) -> Option<Cut> {
        let rows = totals.rows();
        let grown = rows.saturating_sub(self.settled);
        let appends = self.appended.saturating_mul(4) >= grown.saturating_mul(3);
        // A little early, for it grows on while it is cut.
        let ripe = rows.saturating_mul(4) >= split_rows.saturating_mul(3) && grown.saturating_mul(4) >= split_rows;
        if self.narrows && appends && ripe {
            return Some(Cut::Narrow);
        }
        let late = rows > split_rows.saturating_mul(LATE_SPLIT_TIMES);
        if rows > self.rows_max(split_rows) && (late || !busy) {
            return Some(Cut::Rows);
        }
        // Where all is appended, no cut through what is there parts the load.
        let loaded = split_writes > 0 && u64::from(self.writes_per_s) > split_writes && rows >= split_rows / 64;
        (loaded && !(appends && grown > 0)).then_some(Cut::Load)
    }

    /// A shard that was narrowed too late, for it grew fast, is left alone until it grows otherwise.
    fn rows_max(&self, split_rows: u64) -> u64 {
        match self.settled <= split_rows.saturating_mul(2) {
            true => split_rows.max(self.settled.saturating_add(split_rows / 4)),
            false => split_rows,
        }
    }
}

impl Growth {
    /// A write of this key is carried out. Returns the place its key has among the samples, if it is one.
    pub fn note(&mut self, key: &Bytes, puts: bool, now_ms: u64) -> Option<u64> {
        if *key > self.top {
            self.top = key.clone();
            self.appended = self.appended.saturating_add(u64::from(puts));
        }
        let elapsed = now_ms.saturating_sub(self.window_ms);
        if elapsed >= LOAD_WINDOW_MS {
            (self.before, self.last) = (self.last, rate(self.window_writes, elapsed));
            (self.window_ms, self.window_writes) = (now_ms, 0);
        }
        self.window_writes = self.window_writes.saturating_add(1);
        self.writes = self.writes.wrapping_add(1);
        self.writes.is_multiple_of(SAMPLE_EVERY).then_some(self.writes / SAMPLE_EVERY % SAMPLES_MAX)
    }

    /// A row of this key came from another shard.
    pub fn imported(&mut self, key: &Bytes) {
        if *key > self.top && !planted(Mutant::NarrowForgetsImported) {
            self.top = key.clone();
        }
    }

    /// The shard begins to serve with rows of others, or begins anew behind a cut.
    pub fn settle(&mut self, rows: u64) {
        (self.settled, self.appended) = (rows, 0);
    }

    /// The first key behind all that were written, where it lies inside of the range and is a key.
    pub fn cut(&self, range: &Range, now_ms: u64, keep: Keep) -> Option<Bytes> {
        if self.top.is_empty() || self.top.len() >= KEY_BYTES_MAX || self.is_younger(keep.narrow_after_ms, now_ms) {
            return None;
        }
        let cut: Bytes = match planted(Mutant::NarrowCutsGreatestKey) {
            true => self.top.clone(),
            false => successor(&self.top).into(),
        };
        (cut > range.start && range.holds(&cut)).then_some(cut)
    }

    fn is_younger(&self, ms: u64, now_ms: u64) -> bool {
        self.imported_ms > 0 && now_ms < self.imported_ms.saturating_add(ms)
    }

    pub fn info(&self, range: &Range, now_ms: u64, keep: Keep) -> GrowthInfo {
        let elapsed = now_ms.saturating_sub(self.window_ms);
        let full = elapsed >= LOAD_WINDOW_MS;
        let least = if full { self.last.min(rate(self.window_writes, elapsed)) } else { self.before.min(self.last) };
        GrowthInfo {
            settled: self.settled,
            appended: self.appended,
            narrows: self.cut(range, now_ms, keep).is_some(),
            young: self.is_younger(2 * LOAD_WINDOW_MS, now_ms),
            writes_per_s: u32::try_from(least).unwrap_or(u32::MAX),
        }
    }
}

fn rate(writes: u64, ms: u64) -> u64 {
    writes.saturating_mul(1000) / ms.max(1)
}

/// Keys of samples that part the load in `parts`: none where one key has most of it.
pub(super) fn load_cuts(mut samples: Vec<Bytes>, range: &Range, parts: u32) -> Vec<Bytes> {
    samples.retain(|key| range.holds(key) && *key > range.start);
    if samples.len() < SAMPLES_MIN {
        return Vec::new();
    }
    samples.sort();
    let mut cuts: Vec<Bytes> = Vec::new();
    for part in 1..parts as usize {
        let key = &samples[samples.len() * part / parts as usize];
        // What comes before it must be worth a shard.
        let before = samples.partition_point(|sample| sample < key);
        if before * 8 >= samples.len() && cuts.last() != Some(key) {
            cuts.push(key.clone());
        }
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(rows: u64) -> Totals {
        Totals { keys: rows, versions: rows, ..Totals::default() }
    }

    fn info(settled: u64, appended: u64, writes_per_s: u32) -> GrowthInfo {
        GrowthInfo { settled, appended, narrows: true, young: false, writes_per_s }
    }

    #[test]
    fn a_tail_is_narrowed_and_left_alone_behind() {
        let wants = |info: GrowthInfo, rows| info.wants(&totals(rows), 40_000, 5_000, false);
        assert_eq!(wants(info(0, 30_000, 0), 29_999), None);
        assert_eq!(wants(info(0, 30_000, 0), 30_000), Some(Cut::Narrow));
        // Two thirds of what is new came elsewhere.
        assert_eq!(wants(info(0, 10_000, 0), 30_000), None);
        assert_eq!(wants(info(0, 10_000, 0), 40_001), Some(Cut::Rows));
        // Narrowed late.
        let late = GrowthInfo { narrows: false, ..info(55_000, 0, 0) };
        assert_eq!((wants(late, 65_000), wants(late, 65_001)), (None, Some(Cut::Rows)));
        assert_eq!(wants(GrowthInfo { settled: 90_000, ..late }, 90_000), Some(Cut::Rows));
    }

    #[test]
    fn what_is_merely_large_waits_for_a_quiet_machine_up_to_a_bound() {
        let wants = |info: GrowthInfo, rows, busy| info.wants(&totals(rows), 40_000, 5_000, busy);
        let spread = info(0, 10_000, 0);
        assert_eq!((wants(spread, 40_001, true), wants(spread, 40_001, false)), (None, Some(Cut::Rows)));
        assert_eq!((wants(spread, 160_000, true), wants(spread, 160_001, true)), (None, Some(Cut::Rows)));
        // What is cheap, and what takes load away, does not wait.
        assert_eq!(wants(info(0, 40_000, 0), 40_000, true), Some(Cut::Narrow));
        assert_eq!(wants(info(0, 10_000, 6_000), 40_001, true), Some(Cut::Load));
    }

    #[test]
    fn a_busy_shard_is_split_unless_all_of_it_is_appended() {
        let wants = |info: GrowthInfo, most| info.wants(&totals(10_000), 40_000, most, true);
        assert_eq!(wants(info(10_000, 0, 6_000), 5_000), Some(Cut::Load));
        assert_eq!(wants(info(10_000, 0, 6_000), 0), None);
        assert_eq!(wants(info(10_000, 0, 5_000), 5_000), None);
        assert_eq!(wants(info(0, 9_000, 6_000), 5_000), None);
        assert_eq!(wants(info(0, 1_000, 6_000), 5_000), Some(Cut::Load));
    }

    #[test]
    fn rates_are_of_two_windows_and_fade() {
        let (mut growth, range) = (Growth::default(), Range::default());
        let key = Bytes::from_static(b"k");
        for at in 0..25_000u64 {
            growth.note(&key, true, 1_000_000 + at);
        }
        assert_eq!(growth.info(&range, 1_025_000, Keep::default()).writes_per_s, 1_000);
        assert_eq!(growth.info(&range, 1_090_000, Keep::default()).writes_per_s, 71);
        growth.note(&key, true, 2_000_000);
        growth.note(&key, true, 2_010_000);
        assert_eq!(growth.info(&range, 2_010_000, Keep::default()).writes_per_s, 0);
        assert_eq!((growth.appended, growth.writes), (1, 25_002));
    }

    #[test]
    fn cuts_by_load_lie_where_the_writes_are() {
        let keys = |text: &str| text.chars().map(|key| Bytes::from(key.to_string())).collect::<Vec<_>>();
        let range = Range::default();
        assert_eq!(load_cuts(keys("abcdefghijkl"), &range, 3), keys("ei"));
        assert_eq!(load_cuts(keys("zzzzazzzzzzzzzz"), &range, 3), keys(""), "one key has it all");
        assert_eq!(load_cuts(keys("aaaaaaaaabbbbbbbbb"), &range, 3), keys("b"));
        assert_eq!(load_cuts(keys("abc"), &range, 3), keys(""));
    }
}
