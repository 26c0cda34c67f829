//! What a bucket and its shards need from time to time, found by looking at them: splits and merges planned,
//! flows and retired shards found, closed uploads collected, freed data handed on, old snapshots forgotten.
//!
//! Always: a look may be cut short or come twice; it ends well if nothing is left to come back for, else with
//! the refusal `NotReady`. Splitting goes by rows (versions and markers), of which one shard should not have many, and
//! by writes; a shard that only grows at its end is narrowed instead (decision 0021).
//! Held by: `a_large_shard_of_a_busy_machine_is_looked_at_until_it_is_split`, `a_busy_shard_is_split_where_its_writes_part_and_merges_when_it_is_quiet`.
//! Not here: when it is looked (core-node, s3_scheduler.rs), how a flow is run (runner.rs), the removal of retired shards (retired_shards.rs).

use crate::buckets::garbage::{HandOn, Queue};
use crate::listing::snapshot;
use crate::record::{read_record, BucketRecord, BucketState};
use crate::request::{ended, map_read, map_write, multipart_read, odd, reply, shard_ask, shard_tell};
use crate::reshard::runner::seen;
use crate::state::cache::ShardMap;
use crate::state::{PlanContext, S3Planner, S3State};
use base_types::action::Failure;
use base_types::{ErrorCode, ErrorKind, Refusal};
use bytes::Bytes;
use core_backends::shard::{self, Cut, ShardInfo, ShardState};
use core_backends::shard_reference::flow::Seen;
use core_backends::shard_reference::{Command, Entry, Query, Reply, SOURCES_MAX, TARGETS_MAX};
use core_backends::{metadata, multipart};
use core_flow::rounds::{one, only, InRounds, Rounds};
use core_flow::{Call, CallResult, Step};

/// A split makes so many of one, at least.
const SPLIT_PARTS: u32 = 3;
/// A shard that was split late makes more, so that each has at most three quarters of the rows it should have: else the
/// new ones would be too large at once.
const PART_ROWS_QUARTERS: u64 = 3;
/// Neighbours merge if they have less than this part of a shard's rows together.
const MERGE_PART: u64 = 4;
/// …and less than this part of the writes that a shard should take.
const MERGE_WRITES_PART: u64 = 2;
/// Entries that a merge looks at: one before the shard, the shard, and those after it.
const NEIGHBOURS: usize = SOURCES_MAX;
/// Rounds of one look; what is left the next one finds.
const ROUNDS_MAX: u32 = 2_000;

/// Looks at a shard.
pub fn look_at_shard(id: u128, number: u64) -> Box<S3Planner> {
    let state = OfShard::Describe;
    Box::new(InRounds::new(ShardLook { id, number, state, watch: false }))
}

/// Looks at a bucket's map and uploads.
pub fn look_at_bucket(id: u128) -> Box<S3Planner> {
    let state = OfBucket::Overview;
    Box::new(InRounds::new(BucketLook { id, state, watch: false, rounds: 0, uploads: false }))
}

/// A key before `start`, with no shard beginning between the two (but for one in a billion; then the shard
/// before is not found, and nothing is lost by that).
fn just_before(start: &[u8]) -> Bytes {
    let mut before = start.to_vec();
    match before.pop() {
        None | Some(0) => {}
        Some(last) => before.extend_from_slice(&[last - 1, 0xf4, 0xf4]),
    }
    before.into()
}

/// How many shards are made of one with so many rows.
fn split_parts(rows: u64, split_keys: u64) -> u32 {
    let parts = rows.saturating_mul(4).div_ceil(split_keys.saturating_mul(PART_ROWS_QUARTERS).max(1));
    u32::try_from(parts).unwrap_or(u32::MAX).clamp(SPLIT_PARTS, TARGETS_MAX as u32)
}

/// The end of a look.
fn end(watch: bool) -> Step {
    if !watch {
        return ended();
    }
    let message = "something here is not ready yet and is looked at again";
    Step::Done(Err(Refusal::new(ErrorCode::NotReady, message).into()))
}

enum OfShard {
    Describe,
    HandOn(HandOn),
    Cuts(Entry),
    Map(ShardInfo),
    /// Neighbours described, and the place of the shard among them.
    Neighbours(Vec<Entry>, usize),
    /// It doubles its writes, at this epoch: is there a flow that wants it?
    Doubling(u64),
    /// It has been told not to.
    Undoubled,
    Planned,
}

struct ShardLook {
    id: u128,
    number: u64,
    state: OfShard,
    watch: bool,
}

impl Rounds<S3State> for ShardLook {
    fn name(&self) -> &'static str {
        "upkeep of a shard"
    }

    fn next(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Step {
        match self.step(context, answers) {
            Ok(step) => step,
            Err(failure) => Step::Done(Err(failure)),
        }
    }
}

impl ShardLook {
    fn step(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Result<Step, Failure> {
        if answers.is_empty() {
            return Ok(one(shard_ask(self.id, self.number, &shard::Query::Describe)?));
        }
        match core::mem::replace(&mut self.state, OfShard::Describe) {
            OfShard::Describe => match seen(only(answers))? {
                Seen::Shard(info) => self.look(context, *info),
                _ => Ok(end(self.watch)),
            },
            OfShard::HandOn(hand_on) => self.hand_on(context, hand_on, answers),
            OfShard::Cuts(entry) => self.split(entry, only(answers)),
            OfShard::Map(info) => self.neighbours(context, &info, only(answers)),
            OfShard::Neighbours(entries, own) => self.merge(context, &entries, own, answers),
            OfShard::Doubling(epoch) => self.undouble(epoch, only(answers)),
            OfShard::Undoubled => reply::<shard::Reply>(only(answers)).map(|_| end(true)),
            OfShard::Planned => match reply::<Reply>(only(answers)) {
                // Another look was first, or the map has changed.
                Err(failure) if failure.refusal.kind() == ErrorKind::Conflict => Ok(end(self.watch)),
                told => told.map(|_| end(self.watch)),
            },
        }
    }

    fn look(&mut self, context: &mut PlanContext<'_>, info: ShardInfo) -> Result<Step, Failure> {
        // Looked at once more behind the hand-over; what is too young then waits.
        if info.freed_rows > 0 && !self.watch {
            self.watch = true;
            let hand_on = HandOn::new(self.id, Queue::Shard(self.number), context.state.config.freed_age_ms);
            return self.hand_on(context, hand_on, Vec::new());
        }
        self.watch = info.freed_rows > 0;
        let rows = info.totals.rows();
        if info.state == ShardState::Splitting {
            self.state = OfShard::Doubling(info.epoch);
            return Ok(one(map_read(self.id, &Query::Map { start: info.range.start, limit: 1 })?));
        }
        if info.state != ShardState::Serving {
            return Ok(end(self.watch));
        }
        let config = &context.state.config;
        let busy_from = config.split_load_percent.saturating_mul(10);
        let busy = busy_from > 0 && context.machine_load >= busy_from;
        if let Some(cut) = info.growth.wants(&info.totals, config.split_keys, config.split_writes, busy) {
            return self.cut(info, cut, config.split_keys);
        }
        let whole = info.range == shard::Range::default();
        if whole || rows >= config.split_keys / MERGE_PART {
            // One that waits for its machine is looked at again though nothing changes here.
            return Ok(end(self.watch || busy && rows > config.split_keys));
        }
        if info.growth.young && config.split_writes > 0 {
            // Else what was split for its load would merge before that is seen.
            return Ok(end(true));
        }
        let start = just_before(&info.range.start);
        self.state = OfShard::Map(info);
        // The page begins with the neighbour before this shard.
        Ok(one(map_read(self.id, &Query::Map { start, limit: NEIGHBOURS as u32 })?))
    }

    /// A runner that did not know that its flow had ended may have begun the split once more, and nothing else would
    /// ever end that: no flow is planned for a shard that does not simply serve.
    fn undouble(&mut self, epoch: u64, answer: CallResult) -> Result<Step, Failure> {
        let (Reply::Entries { entries, .. }, _) = reply(answer)? else { return Err(odd("a bucket's map")) };
        let own = entries.first().filter(|entry| (entry.shard, entry.epoch) == (self.number, epoch));
        if own.is_none_or(|entry| entry.flow.is_some()) {
            return Ok(end(self.watch));
        }
        self.state = OfShard::Undoubled;
        Ok(one(shard_tell(self.id, self.number, &shard::Command::AbortSplit { epoch })?))
    }

    fn cut(&mut self, info: ShardInfo, cut: Cut, split_keys: u64) -> Result<Step, Failure> {
        let epoch = info.epoch;
        let query = match cut {
            Cut::Narrow => {
                self.state = OfShard::Planned;
                return Ok(one(map_write(self.id, &Command::PlanNarrow { source: (self.number, epoch) })?));
            }
            Cut::Rows => {
                let parts = split_parts(info.totals.rows(), split_keys);
                shard::Query::CutPoints { epoch, parts, by_rows: true }
            }
            Cut::Load => shard::Query::LoadCuts { epoch, parts: SPLIT_PARTS },
        };
        self.state = OfShard::Cuts(Entry { shard: self.number, epoch, range: info.range, flow: None });
        Ok(one(shard_ask(self.id, self.number, &query)?))
    }

    fn hand_on(
        &mut self,
        context: &mut PlanContext<'_>,
        mut hand_on: HandOn,
        answers: Vec<CallResult>,
    ) -> Result<Step, Failure> {
        match hand_on.next(context, answers)? {
            Some(calls) => {
                self.state = OfShard::HandOn(hand_on);
                Ok(Step::Calls(calls))
            }
            None => Ok(one(shard_ask(self.id, self.number, &shard::Query::Describe)?)),
        }
    }

    fn split(&mut self, entry: Entry, answer: CallResult) -> Result<Step, Failure> {
        let (shard::Reply::CutPoints { keys }, _) = reply(answer)? else { return Err(odd("a shard")) };
        if keys.is_empty() {
            return Ok(end(self.watch)); // One key has it all, or nobody can tell.
        }
        self.plan(vec![(entry.shard, entry.epoch)], keys)
    }

    fn plan(&mut self, sources: Vec<(u64, u64)>, cuts: Vec<Bytes>) -> Result<Step, Failure> {
        self.state = OfShard::Planned;
        Ok(one(map_write(self.id, &Command::Plan { sources, cuts })?))
    }

    /// It and its neighbours are described.
    fn neighbours(
        &mut self,
        _context: &mut PlanContext<'_>,
        info: &ShardInfo,
        answer: CallResult,
    ) -> Result<Step, Failure> {
        let (Reply::Entries { entries, .. }, _) = reply(answer)? else { return Err(odd("a bucket's map")) };
        let own = entries.iter().position(|entry| entry.shard == self.number && entry.epoch == info.epoch);
        let Some(own) = own.filter(|_| entries.len() > 1) else { return Ok(end(self.watch)) };
        if entries[own].flow.is_some() {
            return Ok(end(self.watch));
        }
        let asks: Result<Vec<Call>, Refusal> =
            entries.iter().map(|entry| shard_ask(self.id, entry.shard, &shard::Query::Describe)).collect();
        self.state = OfShard::Neighbours(entries, own);
        Ok(Step::Calls(asks?))
    }

    /// The neighbour before it, and as many after it as stay small together.
    fn merge(
        &mut self,
        context: &mut PlanContext<'_>,
        entries: &[Entry],
        own: usize,
        answers: Vec<CallResult>,
    ) -> Result<Step, Failure> {
        let any_load = context.state.config.split_writes == 0;
        let known = |info: &ShardInfo| any_load || !info.growth.young;
        let free = |(entry, answer): (&Entry, CallResult)| match seen(answer) {
            Ok(Seen::Shard(info)) if info.state == ShardState::Serving && entry.flow.is_none() && known(&info) => {
                Some((entry.shard, entry.epoch, info.totals.rows(), u64::from(info.growth.writes_per_s)))
            }
            _ => None,
        };
        let infos: Vec<Option<(u64, u64, u64, u64)>> = entries.iter().zip(answers).map(free).collect();
        let most = context.state.config.split_keys / MERGE_PART;
        let busy = match context.state.config.split_writes {
            0 => u64::MAX,
            writes => writes / MERGE_WRITES_PART,
        };
        let from = |first: usize| {
            let (mut sum, mut load, mut sources) = (0u64, 0u64, Vec::new());
            for (shard, epoch, rows, writes) in infos.iter().skip(first).map_while(|info| *info) {
                (sum, load) = (sum.saturating_add(rows), load.saturating_add(writes));
                if sum >= most || load > busy {
                    break;
                }
                sources.push((shard, epoch));
            }
            sources
        };
        let with_it = |first: usize, sources: &Vec<(u64, u64)>| first + sources.len() > own && sources.len() > 1;
        let best = (own.saturating_sub(1)..=own).map(|first| (first, from(first)));
        match best.into_iter().find(|(first, sources)| with_it(*first, sources)) {
            Some((_, sources)) => self.plan(sources, Vec::new()),
            None => Ok(end(self.watch)),
        }
    }
}

enum OfBucket {
    Overview,
    HandOn(HandOn),
    /// Pins of snapshots whose time is over are taken back…
    Pins(Vec<(u128, ShardMap)>),
    /// …and their rows go.
    Snapshots,
}

struct BucketLook {
    id: u128,
    state: OfBucket,
    watch: bool,
    rounds: u32,
    uploads: bool,
}

/// Whether a bucket's map is just being made, or is gone.
fn is_absent(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::NotReady | ErrorCode::NoShardMap | ErrorCode::UnknownCluster)
}

impl Rounds<S3State> for BucketLook {
    fn name(&self) -> &'static str {
        "upkeep of a bucket"
    }

    fn next(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Step {
        self.rounds += 1;
        if self.rounds > ROUNDS_MAX {
            return end(true);
        }
        match self.step(context, answers) {
            Ok(step) => step,
            Err(failure) => Step::Done(Err(failure)),
        }
    }
}

impl BucketLook {
    fn step(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Result<Step, Failure> {
        if answers.is_empty() {
            let retired = Query::Retired { after: 0, limit: 1 };
            return Ok(Step::Calls(vec![
                map_read(self.id, &Query::Flows)?,
                map_read(self.id, &retired)?,
                multipart_read(self.id, &multipart::Query::Upkeep)?,
                snapshot::list(self.id)?,
                read_record(self.id)?,
            ]));
        }
        match core::mem::replace(&mut self.state, OfBucket::Overview) {
            OfBucket::Overview => self.overview(context, answers),
            OfBucket::Pins(over) => {
                let rows = snapshot::unpinned_all(self.id, &over, &answers)?;
                if rows.is_empty() {
                    return self.uploads(context);
                }
                self.state = OfBucket::Snapshots;
                Ok(Step::Calls(rows))
            }
            OfBucket::Snapshots => self.uploads(context),
            OfBucket::HandOn(hand_on) => self.hand_on(context, hand_on, answers),
        }
    }

    fn overview(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Result<Step, Failure> {
        let mut answers = answers.into_iter();
        let mut answer = || answers.next().unwrap_or_else(|| Err(odd("a bucket")));
        let flows = match reply(answer()) {
            Ok((Reply::Flows { flows }, _)) => flows,
            Ok(_) => return Err(odd("a bucket's map")),
            Err(failure) if is_absent(failure.refusal.code) => return Ok(end(false)),
            Err(failure) => return Err(failure),
        };
        let (Reply::Retired { shards: retired, .. }, _) = reply(answer())? else { return Err(odd("a bucket's map")) };
        let (multipart::Reply::Upkeep { due, waiting, freed_rows }, _) = reply(answer())? else {
            return Err(odd("a bucket's uploads"));
        };
        let (snapshots, over) = snapshot::old(context.unix_ms, answer())?;
        if due {
            let (metadata::Reply::Value { value }, _) = reply(answer())? else { return Err(odd("a bucket's record")) };
            let record = value.map(|body| BucketRecord::from_body(&body)).transpose()?;
            // A bucket that is going ends its uploads by itself.
            let record = record.filter(|record| record.state == BucketState::Active);
            context.state.findings.uploads.extend(record.map(|record| record.info.bucket));
        }
        self.watch =
            !retired.is_empty() || !flows.is_empty() || waiting || freed_rows > 0 || snapshots || !over.is_empty();
        context.state.findings.flows.extend(flows.iter().map(|flow| (self.id, flow.flow)));
        if !retired.is_empty() {
            context.state.findings.retired.push(self.id);
        }
        self.uploads = freed_rows > 0;
        if over.is_empty() {
            return self.uploads(context);
        }
        let calls = snapshot::unpin_all(self.id, &over)?;
        self.state = OfBucket::Pins(over);
        Ok(Step::Calls(calls))
    }

    /// What uploads freed is handed on.
    fn uploads(&mut self, context: &mut PlanContext<'_>) -> Result<Step, Failure> {
        if !core::mem::take(&mut self.uploads) {
            return Ok(end(self.watch));
        }
        let hand_on = HandOn::new(self.id, Queue::Uploads, context.state.config.freed_age_ms);
        self.hand_on(context, hand_on, Vec::new())
    }

    fn hand_on(
        &mut self,
        context: &mut PlanContext<'_>,
        mut hand_on: HandOn,
        answers: Vec<CallResult>,
    ) -> Result<Step, Failure> {
        match hand_on.next(context, answers)? {
            Some(calls) => {
                self.state = OfBucket::HandOn(hand_on);
                Ok(Step::Calls(calls))
            }
            None => Ok(end(self.watch)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::split_parts;

    #[test]
    fn what_is_split_late_makes_more_than_three() {
        let parts = |rows| split_parts(rows, 40_000);
        assert_eq!([40_001, 90_000, 90_001, 160_001, 1_000_000].map(parts), [3, 3, 4, 6, 8]);
        assert_eq!([9, 18, 19, 33].map(|rows| split_parts(rows, 8)), [3, 3, 4, 6]);
        assert_eq!((split_parts(u64::MAX, 1), split_parts(5, 0)), (8, 8));
    }
}
