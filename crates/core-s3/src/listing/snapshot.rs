//! One instant of a whole bucket: a pin in every shard, and a row in the bucket's cluster that names the shards.
//!
//! ```text
//!   map ─▶ row `snapshot/<pin>` ─▶ PinPrepare everywhere (writes wait) ─▶ PinCommit everywhere (writes resume)
//!    ▲                                  │ refused                              │ refused: a write came between
//!    └──────────────────────────────────┴──── Unpin everywhere, a new pin ◀────┘
//! ```
//!
//! If every shard has prepared, and none took a write until it committed, there was a moment at which all were frozen:
//! after the last `PinPrepare`, before the first `PinCommit`. The row holds the map of that moment. So a walk reads the
//! very shards it began with, whatever was split since; those are kept until their pins end.
//!
//! Always: no client learns of a pin that is not complete everywhere; a snapshot that has ended is refused
//! `SnapshotExpired`. No pin exists without a row: the row is written first, for a short time, and [`keep`] prolongs it
//! before a token leaves. So the bucket's maintenance soon removes what a failed maker or a finished walk left, and a
//! shard's few places for pins become free. A row is removed only after the answers to its unpins, never at the same
//! time.
//!
//! A maker may have too little time. The write of the row shows how long a round takes. A maker with less than twice
//! that time (for `PinPrepare` and `PinCommit`) is refused before it pins anything: writes would wait for nothing. If
//! its deadline comes all the same, or its call fails, the node gives the pins back afterwards ([`give_back`]).
//! Maintenance covers a node that died, or calls that were lost. A pin that is prepared after its `Unpin` never
//! completes, for nobody commits it: the shard drops it at the first write or pin after its freeze.
//! Not here: history (core-backends, shard/history.rs), listings (listing.rs), retired shards (reshard/maintenance.rs).

use crate::buckets::with_bucket::{Place, Trouble};
use crate::clusters;
use crate::request::{done, odd, reply, shard_tell};
use crate::state::cache::{ShardMap, Snapshot};
use crate::state::{PlanContext, S3Planner, S3State};
use base_types::action::Failure;
use base_types::codec::{DecodeError, Encode, Reader, Writer};
use base_types::s3::{S3Answer, S3ErrorCode};
use base_types::{BackendKind, ErrorCode, ReadConsistency, Refusal, Tick, WriteConsistency, VALUE_BYTES_MAX};
use bytes::Bytes;
use core::time::Duration;
use core_backends::metadata::{Command, Query, Reply, ScanScopes};
use core_backends::shard;
use core_backends::shard_reference::Entry;
use core_flow::rounds::{one, only, pause, InRounds, Rounds};
use core_flow::{Call, CallResult, Step};
use std::sync::Arc;

/// How long a walk may take: its pins hold so long.
pub(crate) const SNAPSHOT_KEEP_MS: u64 = 90 * 60 * 1000;
/// How long writes wait for a snapshot that its maker does not end; never longer than its maker has time.
const FREEZE_MS: u32 = 3_000;
/// Pins tried for one snapshot.
const TRIES_MAX: u32 = 12;
/// A round that took longer met an accident, as an election: it does not tell what the next one takes.
const ROUND_MAX: Duration = Duration::from_millis(500);
/// Shards told at a time.
const CALLS_AT_ONCE: usize = 512;
/// How much longer than the pins its row is kept, for clocks that do not run alike.
const ROW_KEEP_MS: u64 = 60 * 60 * 1000;
/// How long a snapshot is kept that no token names yet: one being made or read for the first time.
pub(crate) const UNTOLD_KEEP_MS: u64 = 60 * 1000;
/// …and one whose last page was sent, for that answer may be lost on its way. Short: its pins' places are few.
const ENDED_KEEP_MS: u64 = 10 * 1000;
/// Rows of snapshots looked at in one look: more than a shard has places for pins.
const ROWS_PAGE: u32 = 256;
const _: () = assert!(ROWS_PAGE as usize > shard::PINS_MAX);
const PREFIX: &[u8] = b"snapshot/";
/// The row's form.
const FORMAT: u8 = 1;

/// How far it is.
#[allow(clippy::large_enum_variant)] // It lives from one return to the next match.
pub(crate) enum Progress {
    Step(Step),
    Ready(Arc<Snapshot>),
}

/// The snapshot of a token is no more.
pub(crate) fn expired() -> Refusal {
    S3ErrorCode::SnapshotExpired.because("the snapshot that this listing reads has ended; begin the listing again")
}

/// What a failure of a shard that is asked for a pin means: a shard that is no longer there had it last.
pub(crate) fn pinned_trouble(failure: Failure) -> Trouble {
    let gone = matches!(failure.refusal.code, ErrorCode::WrongShard | ErrorCode::UnknownCluster);
    Trouble::Failed(if gone { expired().into() } else { failure })
}

/// Takes the pins of a snapshot back that nobody will read (any more): those that its row names first, so many.
/// The row goes when they were answered: [`unpinned`].
pub(crate) fn unpin(id: u128, pin: u128, map: &ShardMap) -> Result<Vec<Call>, Refusal> {
    let some = map.entries.iter().take(CALLS_AT_ONCE);
    some.map(|entry| shard_tell(id, entry.shard, &shard::Command::Unpin { pin })).collect()
}

/// What becomes of the row behind [`unpin`]: it goes, or names the shards that were not told yet. None: a shard
/// did not answer, so it stays, for maintenance to try again.
pub(crate) fn unpinned(id: u128, pin: u128, map: &ShardMap, answers: &[CallResult]) -> Result<Option<Call>, Refusal> {
    // A shard that is gone took its pin along.
    let gone = |failure: &Failure| matches!(failure.refusal.code, ErrorCode::WrongShard | ErrorCode::UnknownCluster);
    if answers.iter().any(|answer| answer.as_ref().err().is_some_and(|failure| !gone(failure))) {
        return Ok(None);
    }
    let rest = map.entries.get(answers.len()..).unwrap_or_default();
    if rest.is_empty() {
        return write(id, &Command::Delete { scope: None, key: row(pin) }).map(Some);
    }
    note(id, 0, pin, &ShardMap { version: map.version, entries: rest.to_vec() }).map(Some)
}

/// A token of this snapshot is about to be told: its row is kept as long as a walk may take.
pub(crate) fn keep(id: u128, unix_ms: u64, pin: u128, map: &ShardMap) -> Result<Call, Refusal> {
    note(id, unix_ms.saturating_add(SNAPSHOT_KEEP_MS + ROW_KEEP_MS), pin, map)
}

/// The walk over this snapshot has come to its end.
pub(crate) fn keep_ended(id: u128, unix_ms: u64, pin: u128, map: &ShardMap) -> Result<Call, Refusal> {
    note(id, unix_ms.saturating_add(ENDED_KEEP_MS), pin, map)
}

fn note(id: u128, until_ms: u64, pin: u128, map: &ShardMap) -> Result<Call, Refusal> {
    write(id, &Command::Put { scope: None, key: row(pin), value: encode(until_ms, map) })
}

/// Takes a snapshot back that no token names, behind its maker: its pins, then its row.
pub(crate) fn give_back(id: u128, pin: u128, map: Arc<ShardMap>) -> Box<S3Planner> {
    Box::new(InRounds::new(GivingBack { id, pin, map, stage: Back::Pins }))
}

enum Back {
    Pins,
    Unpinned,
    Row,
}

struct GivingBack {
    id: u128,
    pin: u128,
    /// The shards that may be pinned.
    map: Arc<ShardMap>,
    stage: Back,
}

impl GivingBack {
    /// `None`: there is nothing more to do, or maintenance will do it.
    fn step(&mut self, answers: &[CallResult]) -> Result<Option<Step>, Refusal> {
        match self.stage {
            Back::Pins if !self.map.entries.is_empty() => {
                self.stage = Back::Unpinned;
                Ok(Some(Step::Calls(unpin(self.id, self.pin, &self.map)?)))
            }
            Back::Pins | Back::Unpinned => {
                self.stage = Back::Row;
                Ok(unpinned(self.id, self.pin, &self.map, answers)?.map(one))
            }
            Back::Row => Ok(None),
        }
    }
}

impl Rounds<S3State> for GivingBack {
    fn name(&self) -> &'static str {
        "giving a snapshot back"
    }

    fn next(&mut self, _: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Step {
        match self.step(&answers) {
            Ok(step) => step.unwrap_or_else(|| done(S3Answer::Done, None)),
            Err(refusal) => Step::Done(Err(refusal.into())),
        }
    }
}

enum State {
    /// Ask for the row of this pin.
    Find(u128),
    Begin,
    /// Its row is written.
    Noting,
    Preparing(usize),
    Committing(usize),
    /// Pins are taken back; then this.
    TakingBack(usize, Box<Failure>),
}

/// Makes a snapshot, or finds one: part of a call on a bucket, which gives it answers until it is ready.
pub(crate) struct Instant {
    state: State,
    pin: u128,
    map: Arc<ShardMap>,
    tries: u32,
    /// When its row was asked to be written.
    noted_at: Tick,
    left: Left,
}

/// What a maker has made that is to be taken back if its pin is never told.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Left {
    Nothing,
    Row,
    RowAndPins,
}

impl Instant {
    /// A new one.
    pub(crate) fn make() -> Instant {
        Instant::with(State::Begin)
    }

    /// The one of a token.
    pub(crate) fn find(pin: u128) -> Instant {
        Instant::with(State::Find(pin))
    }

    fn with(state: State) -> Instant {
        let map = Arc::new(ShardMap { version: 0, entries: Vec::new() });
        Instant { state, pin: 0, map, tries: 0, noted_at: Tick::default(), left: Left::Nothing }
    }

    /// Takes back what its maker leaves that goes no further.
    pub(crate) fn cleanup(&self, id: u128) -> Option<Box<S3Planner>> {
        match self.left {
            Left::Nothing => None,
            Left::Row => {
                let nowhere = ShardMap { version: self.map.version, entries: Vec::new() };
                Some(give_back(id, self.pin, Arc::new(nowhere)))
            }
            Left::RowAndPins => Some(give_back(id, self.pin, self.map.clone())),
        }
    }

    /// The next step. No answers: it begins (again), with the map of `at`.
    pub(crate) fn next(
        &mut self,
        context: &mut PlanContext<'_>,
        at: &Place,
        answers: Vec<CallResult>,
    ) -> Result<Progress, Trouble> {
        let id = at.bucket.id;
        let state = core::mem::replace(&mut self.state, State::Begin);
        match (state, answers.is_empty()) {
            (State::Find(pin), true) => self.look(context, id, pin),
            (State::Find(pin), false) => self.found(context, id, pin, only(answers)),
            (State::Begin, _) | (_, true) => self.begin(context, at),
            (State::Noting, _) => {
                let _: (Reply, _) = reply(only(answers))?;
                self.check_time(context)?;
                self.prepare(context, id, 0)
            }
            (State::Preparing(told), _) => self.prepared(context, id, told, answers),
            (State::Committing(told), _) => self.committed(context, id, told, answers),
            (State::TakingBack(told, why), _) => self.taken_back(context, id, told, *why),
        }
    }

    fn look(&mut self, context: &mut PlanContext<'_>, id: u128, pin: u128) -> Result<Progress, Trouble> {
        if let Some(known) = context.state.cache.snapshot(id, pin) {
            return Ok(Progress::Ready(known));
        }
        self.state = State::Find(pin);
        let query = Query::Get { scope: None, key: row(pin) };
        Ok(Progress::Step(one(read(id, &query)?)))
    }

    fn found(
        &mut self,
        context: &mut PlanContext<'_>,
        id: u128,
        pin: u128,
        answer: CallResult,
    ) -> Result<Progress, Trouble> {
        let (Reply::Value { value }, _) = reply(answer)? else { return Err(odd("a bucket's cluster").into()) };
        let Some(body) = value else { return Err(expired().into()) };
        let (_, map) = decode(body).map_err(|error| {
            let message = format!("a snapshot's row does not decode (a newer Hive's?): {error}");
            Refusal::new(ErrorCode::Internal, message)
        })?;
        (self.pin, self.map) = (pin, Arc::new(map));
        Ok(Progress::Ready(self.ready(context, id)))
    }

    fn ready(&self, context: &mut PlanContext<'_>, id: u128) -> Arc<Snapshot> {
        let snapshot = Arc::new(Snapshot { pin: self.pin, map: self.map.clone() });
        context.state.cache.learn_snapshot(id, snapshot.clone());
        snapshot
    }

    fn begin(&mut self, context: &mut PlanContext<'_>, at: &Place) -> Result<Progress, Trouble> {
        self.map = at.map.clone();
        // Zero is no pin: tokens without one have it.
        self.pin = context.random.request_id().0.max(1);
        if encode(0, &self.map).len() > VALUE_BYTES_MAX {
            let message = format!("the bucket's map of {} shards is too large for a snapshot", self.map.entries.len());
            return Err(S3ErrorCode::SnapshotTooLarge.because(message).into());
        }
        self.state = State::Noting;
        (self.noted_at, self.left) = (context.now, Left::Row);
        let until_ms = context.unix_ms.saturating_add(UNTOLD_KEEP_MS);
        Ok(Progress::Step(one(note(at.bucket.id, until_ms, self.pin, &self.map)?)))
    }

    /// Refuses who surely has no time for a snapshot. Sure is only that the shards take two rounds and that a round takes
    /// about as long as this one: shards may be nearer than the bucket's cluster, so nothing is added for the page.
    fn check_time(&self, context: &PlanContext<'_>) -> Result<(), Refusal> {
        let shards = self.map.entries.len();
        let rounds = u32::try_from(2 * shards.div_ceil(CALLS_AT_ONCE)).unwrap_or(u32::MAX);
        let needed = context.now.since(self.noted_at).min(ROUND_MAX).saturating_mul(rounds);
        let left = context.deadline.since(context.now);
        if left >= needed {
            return Ok(());
        }
        let message = format!(
            "a snapshot of {shards} shards takes {} ms more at least, the deadline leaves {} ms, and nothing was pinned; \
             allow a longer deadline_ms, or list without a snapshot",
            needed.as_millis(),
            left.as_millis()
        );
        Err(Refusal::new(ErrorCode::DeadlineExceeded, message))
    }

    fn tell(&self, id: u128, from: usize, command: impl Fn(&Entry) -> shard::Command) -> Result<Progress, Trouble> {
        let some = self.map.entries.iter().skip(from).take(CALLS_AT_ONCE);
        let calls: Result<Vec<Call>, Refusal> =
            some.map(|entry| shard_tell(id, entry.shard, &command(entry))).collect();
        Ok(Progress::Step(Step::Calls(calls?)))
    }

    fn prepare(&mut self, context: &PlanContext<'_>, id: u128, from: usize) -> Result<Progress, Trouble> {
        (self.state, self.left) = (State::Preparing(from), Left::RowAndPins);
        let pin = self.pin;
        let left = context.deadline.since(context.now).as_millis();
        let freeze_ms = u32::try_from(left).unwrap_or(FREEZE_MS).clamp(1, FREEZE_MS);
        self.tell(id, from, |entry| shard::Command::PinPrepare {
            epoch: entry.epoch,
            pin,
            freeze_ms,
            keep_ms: SNAPSHOT_KEEP_MS,
        })
    }

    fn prepared(
        &mut self,
        context: &PlanContext<'_>,
        id: u128,
        told: usize,
        answers: Vec<CallResult>,
    ) -> Result<Progress, Trouble> {
        let next = told + answers.len();
        if let Some(why) = first_failure(answers) {
            return self.take_back(id, 0, why);
        }
        if next < self.map.entries.len() {
            return self.prepare(context, id, next);
        }
        self.commit(id, 0)
    }

    fn commit(&mut self, id: u128, from: usize) -> Result<Progress, Trouble> {
        self.state = State::Committing(from);
        let pin = self.pin;
        self.tell(id, from, |_| shard::Command::PinCommit { pin })
    }

    fn committed(
        &mut self,
        context: &mut PlanContext<'_>,
        id: u128,
        told: usize,
        answers: Vec<CallResult>,
    ) -> Result<Progress, Trouble> {
        let next = told + answers.len();
        if let Some(why) = first_failure(answers) {
            return self.take_back(id, 0, why);
        }
        if next < self.map.entries.len() {
            return self.commit(id, next);
        }
        Ok(Progress::Ready(self.ready(context, id)))
    }

    /// Not everywhere: so nowhere. What cannot be told now ends by itself.
    fn take_back(&mut self, id: u128, from: usize, why: Failure) -> Result<Progress, Trouble> {
        self.state = State::TakingBack(from, Box::new(why));
        let pin = self.pin;
        self.tell(id, from, |_| shard::Command::Unpin { pin })
    }

    fn taken_back(
        &mut self,
        context: &mut PlanContext<'_>,
        id: u128,
        told: usize,
        why: Failure,
    ) -> Result<Progress, Trouble> {
        if told + CALLS_AT_ONCE < self.map.entries.len() {
            return self.take_back(id, told + CALLS_AT_ONCE, why);
        }
        self.tries += 1;
        // The map it began with is of no use; the bucket's wrapper reads it again.
        let stale = matches!(why.refusal.code, ErrorCode::WrongShard | ErrorCode::UnknownCluster);
        if stale && self.tries <= TRIES_MAX {
            return Err(Trouble::Map(why));
        }
        let passing = why.refusal.code == ErrorCode::S3(S3ErrorCode::SnapshotExpired) || why.refusal.kind().retryable();
        if passing && self.tries <= TRIES_MAX {
            return Ok(Progress::Step(pause(context, self.tries.min(5))));
        }
        Err(Trouble::Failed(why))
    }
}

fn first_failure(answers: Vec<CallResult>) -> Option<Failure> {
    answers.into_iter().find_map(|answer| reply::<shard::Reply>(answer).err())
}

fn row(pin: u128) -> Bytes {
    [PREFIX, format!("{pin:032x}").as_bytes()].concat().into()
}

fn pin_of(row: &Bytes) -> Option<u128> {
    let digits = row.strip_prefix(PREFIX)?;
    u128::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok()
}

fn encode(until_ms: u64, map: &ShardMap) -> Bytes {
    let mut out = Writer::new();
    out.u8(FORMAT).u64(until_ms).varint(map.version).varint(map.entries.len() as u64);
    map.entries.iter().for_each(|entry| entry.encode(&mut out));
    out.finish()
}

fn decode(body: Bytes) -> Result<(u64, ShardMap), DecodeError> {
    let mut input = Reader::new(body);
    let format = input.u8("format")?;
    if format != FORMAT {
        return Err(DecodeError::version("snapshot row", format, FORMAT));
    }
    let (until_ms, version) = (input.u64("time")?, input.varint("version")?);
    let count = input.count("entries")?;
    let entries: Result<Vec<Entry>, DecodeError> = (0..count).map(|_| Entry::decode(&mut input)).collect();
    Ok((until_ms, ShardMap { version, entries: entries? }))
}

fn read(id: u128, query: &Query) -> Result<Call, Refusal> {
    Ok(Call::Read {
        cluster: clusters::bucket(id)?,
        backend: BackendKind::Metadata,
        query: query.to_bytes(),
        consistency: Some(ReadConsistency::Strong),
    })
}

fn write(id: u128, command: &Command) -> Result<Call, Refusal> {
    Ok(Call::Write {
        cluster: clusters::bucket(id)?,
        backend: BackendKind::Metadata,
        command: command.to_bytes(),
        consistency: Some(WriteConsistency::Strong),
        request_id: None,
    })
}

/// Asks for rows of snapshots.
pub(crate) fn list(id: u128) -> Result<Call, Refusal> {
    let end: Vec<u8> = [&PREFIX[..PREFIX.len() - 1], &[PREFIX[PREFIX.len() - 1] + 1]].concat();
    read(
        id,
        &Query::Scan {
            scopes: ScanScopes::Plain,
            start: Bytes::from_static(PREFIX),
            end: Some(end.into()),
            reverse: false,
            limit: ROWS_PAGE,
            bytes_max: VALUE_BYTES_MAX as u32,
            keys_only: false,
        },
    )
}

/// Of what `list` was answered: whether any snapshot stays, and those whose time is over (so many as can be ended at
/// once).
pub(crate) fn old(unix_ms: u64, answer: CallResult) -> Result<(bool, Vec<(u128, ShardMap)>), Failure> {
    let (Reply::Page { entries, more, .. }, _) = reply(answer)? else { return Err(odd("a bucket's cluster")) };
    let (mut stays, mut over, mut calls) = (more, Vec::new(), 0);
    for (key, body) in entries {
        match (pin_of(&key), decode(body)) {
            (Some(pin), Ok((until_ms, map))) if until_ms < unix_ms && calls < CALLS_AT_ONCE => {
                calls += map.entries.len();
                over.push((pin, map));
            }
            // A newer Hive's are a newer Hive's business.
            _ => stays = true,
        }
    }
    Ok((stays, over))
}

/// Takes the pins of all these back.
pub(crate) fn unpin_all(id: u128, over: &[(u128, ShardMap)]) -> Result<Vec<Call>, Refusal> {
    let calls: Result<Vec<Vec<Call>>, Refusal> = over.iter().map(|(pin, map)| unpin(id, *pin, map)).collect();
    Ok(calls?.into_iter().flatten().collect())
}

/// The same as [`unpinned`], for all of them: the rows that change.
pub(crate) fn unpinned_all(id: u128, over: &[(u128, ShardMap)], answers: &[CallResult]) -> Result<Vec<Call>, Refusal> {
    let (mut rows, mut answers) = (Vec::new(), answers);
    for (pin, map) in over {
        let Some((own, rest)) = answers.split_at_checked(map.entries.len().min(CALLS_AT_ONCE)) else { break };
        rows.extend(unpinned(id, *pin, map, own)?);
        answers = rest;
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core_backends::shard::Range;

    #[test]
    fn a_row_comes_back_and_rubbish_is_refused() {
        let range = Range { start: "a".into(), end: None };
        let map = ShardMap { version: 3, entries: vec![Entry { shard: 7, epoch: 2, range, flow: None }] };
        assert_eq!(decode(encode(5, &map)).unwrap(), (5, map));
        assert_eq!(pin_of(&row(0xabc)), Some(0xabc));
        assert!(decode(Bytes::from_static(&[2])).is_err() && decode(Bytes::from_static(&[1, 0, 0])).is_err());
    }

    #[test]
    fn a_row_goes_when_every_shard_has_answered_and_names_those_that_were_not_told() {
        let entry = |shard| Entry { shard, epoch: 1, range: Range { start: Bytes::new(), end: None }, flow: None };
        let map = |count: u64| ShardMap { version: 1, entries: (0..count).map(entry).collect() };
        let failed = |code| Err(Refusal::new(code, "").into());
        let told = |call: Option<Call>| match call {
            Some(Call::Write { command, .. }) => Some(Command::from_bytes(command).unwrap()),
            _ => None,
        };
        let gone = || failed(ErrorCode::UnknownCluster);
        let answers = |count: usize| -> Vec<CallResult> { (0..count).map(|_| gone()).collect() };
        assert!(unpinned(1, 2, &map(2), &[gone(), failed(ErrorCode::DeadlineExceeded)]).unwrap().is_none());
        let deleted = told(unpinned(1, 2, &map(2), &answers(2)).unwrap());
        assert_eq!(deleted, Some(Command::Delete { scope: None, key: row(2) }));
        assert_eq!(unpin(1, 2, &map(CALLS_AT_ONCE as u64 + 3)).unwrap().len(), CALLS_AT_ONCE);
        let rest = told(unpinned(1, 2, &map(CALLS_AT_ONCE as u64 + 3), &answers(CALLS_AT_ONCE)).unwrap());
        let Some(Command::Put { value, .. }) = rest else { panic!("{rest:?}") };
        let (until_ms, left) = decode(value).unwrap();
        assert_eq!((until_ms, left.entries.len()), (0, 3));
    }
}
