//! Exact counts, and keys that cut a bucket into even parts.
//!
//! Always: a count is the sum of what each shard has at one moment of its own, or (`snapshot`) all at one instant; where
//! a shard proves to be split or merged in between, all are counted anew, so nothing is counted twice or left out.
//! Not here: how a shard counts (core-backends, shard/index.rs).

use crate::buckets::with_bucket::{with_bucket, BucketWork, Place, Trouble};
use crate::listing::lines::key_text;
use crate::listing::snapshot::{self, Instant, Progress};
use crate::listing::walk::prefix_end;
use crate::objects::counted::{Counted, SHARDS_AT_ONCE_MAX};
use crate::objects::single_shard::{other_reply, read_trouble};
use crate::request::{reply, shard_read, Terms};
use crate::state::cache::Snapshot;
use crate::state::{PlanContext, S3Planner};
use crate::Offered;
use base_types::s3::{CountObjects, CutPoints, Cuts, ObjectCount, S3Action, S3ErrorCode, KEY_BYTES_MAX};
use base_types::Refusal;
use bytes::Bytes;
use core_backends::shard::{Query, Range, Reply, Totals, CUT_PARTS_MAX};
use core_backends::shard_reference::Entry;
use core_flow::rounds::one;
use core_flow::{Call, CallResult, Step};
use std::sync::Arc;

/// Into how many pieces a shard is cut for one part of the bucket that begins in it: a cut is off by one of
/// them at most.
const PIECES_PER_PART: u64 = 16;

/// The planner of a call, if it is one of these.
pub(crate) fn planner_for(call: S3Action, terms: &Terms) -> Offered {
    let terms = *terms;
    match call {
        S3Action::CountObjects(call) => Ok(with_bucket(Count {
            call,
            terms,
            counted: Counted::default(),
            bucket: 0,
            instant: None,
            snapshot: None,
            answer: None,
            gives_back: false,
            row_goes: false,
        })),
        S3Action::CutPoints(call) => Ok(with_bucket(Cut { call, terms, counted: Counted::default(), pieces: None })),
        other => Err(other),
    }
}

struct Count {
    call: Box<CountObjects>,
    terms: Terms,
    counted: Counted,
    /// In this bucket…
    bucket: u128,
    /// …the instant that is counted is being made…
    instant: Option<Instant>,
    /// …and stands.
    snapshot: Option<Arc<Snapshot>>,
    /// While the snapshot is given back.
    answer: Option<Step>,
    /// Its pins are being taken back; then its row.
    gives_back: bool,
    /// That is what is being written.
    row_goes: bool,
}

impl BucketWork for Count {
    fn name(&self) -> &'static str {
        "CountObjects"
    }

    fn bucket(&self) -> &str {
        &self.call.bucket
    }

    fn next(
        &mut self,
        context: &mut PlanContext<'_>,
        at: &Place,
        mut answers: Vec<CallResult>,
    ) -> Result<Step, Trouble> {
        if core::mem::take(&mut self.gives_back) {
            let found = self.snapshot.as_ref();
            let row =
                found.map(|found| snapshot::unpinned(at.bucket.id, found.pin, &found.map, &answers)).transpose()?;
            if let Some(row) = row.flatten() {
                self.row_goes = true;
                return Ok(one(row));
            }
        }
        if let Some(answer) = self.answer.take() {
            if self.row_goes {
                (self.snapshot, self.instant) = (None, None);
            }
            return Ok(answer);
        }
        if self.call.prefix.len() > KEY_BYTES_MAX {
            let message = format!("a prefix of {} bytes; at most {KEY_BYTES_MAX} are taken", self.call.prefix.len());
            return Err(S3ErrorCode::KeyTooLongError.because(message).into());
        }
        if self.call.snapshot && self.snapshot.is_none() {
            self.bucket = at.bucket.id;
            let instant = self.instant.get_or_insert_with(Instant::make);
            match instant.next(context, at, core::mem::take(&mut answers))? {
                Progress::Step(step) => return Ok(step),
                Progress::Ready(found) => self.snapshot = Some(found),
            }
        }
        let pinned = |trouble| match trouble {
            Trouble::Map(failure) | Trouble::Bucket(failure) => snapshot::pinned_trouble(failure),
            other => other,
        };
        let pin = self.snapshot.as_ref().map(|snapshot| snapshot.pin);
        self.counted.take(answers).map_err(|trouble| if pin.is_some() { pinned(trouble) } else { trouble })?;
        let prefix = Bytes::copy_from_slice(self.call.prefix.as_bytes());
        let range = Range { start: prefix.clone(), end: prefix_end(&prefix) };
        let map = self.snapshot.as_ref().map_or_else(|| at.map.clone(), |snapshot| snapshot.map.clone());
        let place = Place { bucket: at.bucket.clone(), map };
        if let Some(step) = self.counted.ask(&place, &range, &prefix, &self.terms, pin)? {
            return Ok(step);
        }
        let all = self.counted.sum();
        let count = ObjectCount { keys: all.keys, versions: all.rows(), bytes: all.bytes };
        let answer = self.counted.done(at.bucket.id, count)?;
        let Some(found) = self.snapshot.as_ref() else { return Ok(answer) };
        let calls = snapshot::unpin(at.bucket.id, found.pin, &found.map)?;
        (self.answer, self.gives_back) = (Some(answer), true);
        Ok(Step::Calls(calls))
    }

    /// Its snapshot, where it could not give it back itself.
    fn cleanup(&mut self) -> Option<Box<S3Planner>> {
        match (self.snapshot.take(), &self.instant) {
            (Some(found), _) => Some(snapshot::give_back(self.bucket, found.pin, found.map.clone())),
            (None, instant) => instant.as_ref()?.cleanup(self.bucket),
        }
    }
}

struct Cut {
    call: Box<CutPoints>,
    terms: Terms,
    counted: Counted,
    /// Once the shards in which parts begin are known.
    pieces: Option<Pieces>,
}

/// The cuts, some still to be asked for.
struct Pieces {
    keys: Vec<Bytes>,
    /// The shards to be asked, each with its cuts.
    wanted: Vec<(Entry, Within)>,
    /// So many of them have told.
    told: usize,
}

/// Where within a shard cuts lie.
struct Within {
    /// Its keys.
    keys: u64,
    /// Keys of it before each cut.
    ranks: Vec<u64>,
}

impl Within {
    /// Into how many pieces it is cut.
    fn pieces(&self) -> u32 {
        let wanted = (self.ranks.len() as u64 + 1).saturating_mul(PIECES_PER_PART);
        u32::try_from(wanted.min(self.keys)).unwrap_or(u32::MAX).clamp(1, CUT_PARTS_MAX)
    }

    /// The cuts next to the ranks, out of the keys that begin pieces 2….
    fn choose(&self, keys: &[Bytes]) -> Vec<Bytes> {
        let pieces = keys.len() as u128 + 1;
        let nearest = |rank: &u64| {
            let piece = (u128::from(*rank) * pieces + u128::from(self.keys) / 2) / u128::from(self.keys.max(1));
            keys.get((piece as usize).saturating_sub(1).min(keys.len().saturating_sub(1))).cloned()
        };
        self.ranks.iter().filter_map(nearest).collect()
    }
}

impl BucketWork for Cut {
    fn name(&self) -> &'static str {
        "CutPoints"
    }

    fn bucket(&self) -> &str {
        &self.call.bucket
    }

    fn next(&mut self, _: &mut PlanContext<'_>, at: &Place, answers: Vec<CallResult>) -> Result<Step, Trouble> {
        if self.call.parts == 0 || self.call.parts > CUT_PARTS_MAX {
            let message = format!("parts is {}; give 1 to {CUT_PARTS_MAX}", self.call.parts);
            return Err(S3ErrorCode::InvalidArgument.because(message).into());
        }
        match &mut self.pieces {
            None => self.counted.take(answers)?,
            Some(_) if !self.counted.is_of(at) => self.pieces = None,
            Some(pieces) => pieces.take(answers)?,
        }
        if self.pieces.is_none() {
            if let Some(step) = self.counted.ask(at, &Range::default(), &Bytes::new(), &self.terms, None)? {
                return Ok(step);
            }
            self.pieces = Some(plan_cuts(&at.map.entries, &self.counted.totals, self.call.parts));
        }
        let Some(pieces) = &mut self.pieces else { return Err(other_reply().into()) };
        if let Some(step) = pieces.ask(at.bucket.id, &self.terms)? {
            return Ok(step);
        }
        let mut keys = core::mem::take(&mut pieces.keys);
        keys.sort();
        keys.dedup();
        let keys: Result<Vec<String>, Refusal> = keys.iter().map(|key| key_text(key).map(str::to_owned)).collect();
        Ok(self.counted.done(at.bucket.id, Cuts { keys: keys? })?)
    }
}

/// Where the parts begin: at a shard's beginning, or within it.
fn plan_cuts(entries: &[Entry], totals: &[Totals], parts: u32) -> Pieces {
    let all: u64 = totals.iter().map(|totals| totals.keys).sum();
    let rank_of = |part: u32| (u128::from(all) * u128::from(part) / u128::from(parts)) as u64;
    let ranks: Vec<u64> = (1..parts).map(rank_of).filter(|rank| (1..all).contains(rank)).collect();
    let mut pieces = Pieces { keys: Vec::new(), wanted: Vec::new(), told: 0 };
    let mut before = 0;
    for (entry, totals) in entries.iter().zip(totals) {
        let within =
            ranks.iter().filter(|rank| (before..before + totals.keys).contains(rank)).map(|rank| rank - before);
        let (begins, ranks): (Vec<u64>, Vec<u64>) = within.partition(|rank| *rank == 0);
        if !begins.is_empty() && !entry.range.start.is_empty() {
            pieces.keys.push(entry.range.start.clone());
        }
        if !ranks.is_empty() {
            pieces.wanted.push((entry.clone(), Within { keys: totals.keys, ranks }));
        }
        before += totals.keys;
    }
    pieces
}

impl Pieces {
    fn ask(&mut self, id: u128, terms: &Terms) -> Result<Option<Step>, Refusal> {
        let left = self.wanted.iter().skip(self.told).take(SHARDS_AT_ONCE_MAX);
        let calls: Result<Vec<Call>, Refusal> = left
            .map(|(entry, within)| {
                let query = Query::CutPoints { epoch: entry.epoch, parts: within.pieces(), by_rows: false };
                shard_read(id, entry.shard, &query, terms)
            })
            .collect();
        let calls = calls?;
        Ok((!calls.is_empty()).then_some(Step::Calls(calls)))
    }

    fn take(&mut self, answers: Vec<CallResult>) -> Result<(), Trouble> {
        for result in answers {
            match reply::<Reply>(result) {
                Ok((Reply::CutPoints { keys }, _)) => {
                    if let Some((_, within)) = self.wanted.get(self.told) {
                        self.keys.extend(within.choose(&keys));
                    }
                    self.told += 1;
                }
                Ok(_) => return Err(other_reply().into()),
                Err(failure) => return Err(read_trouble(failure)),
            }
        }
        Ok(())
    }
}
