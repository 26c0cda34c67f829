//! Removes an empty bucket.
//!
//! ```text
//!   Name ─▶ Peek ─▶ Note ─▶ Claim ─▶ Bar ─▶ (wait) ─▶ Map ─▶ Shards ─▶ Seal ─▶ the ending (bucket_resolve.rs)
//!            │                                         └── not empty ──┴─▶ Reopen ─▶ Unbar ─▶ Release
//!            └─▶ BucketNotEmpty, nothing touched
//! ```
//!
//! * *Claim* writes a number of our own into the entry: one removal of a bucket at a time.
//! * *Bar* makes the record `Deleting`; a wait later no core begins a call by the record before.
//! * *Map* bars splits, merges and uploads, *Shards* closes each shard that holds nothing: calls begun before find it closed.
//! * *Seal* makes the entry `Deleting`, if it is still ours. From then on the removal can only finish, by any node that
//!   looks.
//!
//! Always: a bucket with a version, a marker or a client that may still put one is not removed; one that stays serves
//! again, by us or, where we stopped, by the sweep (bucket_recovery.rs), which waits until nothing of ours can come late.
//! Held by: `a_put_that_was_under_way_keeps_the_bucket_or_is_refused`, `a_removal_that_stops_at_any_step_is_finished_or_taken_back`.
//! Not here: uploads under way, which do not keep a bucket (as with AWS): the ending ends them.

use crate::accounts::directory;
use crate::accounts::entries::{self, EntryDocument};
use crate::buckets::bucket_resolve::{Elapsed, Ending, Progress};
use crate::buckets::create::{mark, work_of};
use crate::buckets::names;
use crate::buckets::with_bucket::{no_such_bucket, not_of_expected_owner};
use crate::record::{read_record, write_record, BucketRecord, BucketState};
use crate::request::{done, map_read, map_write, multipart_write, reply, shard_read, shard_write, Terms};
use crate::state::cache::ChangeWait;
use crate::state::{PlanContext, S3Planner};
use crate::work::{planner, Work};
use base_types::action::Failure;
use base_types::s3::{DeleteBucket, S3Answer, S3ErrorCode};
use base_types::{ErrorCode, ReadConsistency, Refusal, WriteConsistency};
use bytes::Bytes;
use core::time::Duration;
use core_backends::bucket_names::{Claim, EntryState, Name};
use core_backends::shard_reference::{Entry, MAP_PAGE_MAX};
use core_backends::{metadata, multipart, shard, shard_reference};
use core_flow::rounds::{one, only};
use core_flow::{CallResult, Step};

/// Shards asked or told in one round.
const SHARDS_AT_A_TIME: usize = 100;
/// A removal with less time than this could leave the bucket barred until the sweep comes by.
const TIME_MIN: Duration = Duration::from_millis(3_000);

/// The planner of the call.
pub(crate) fn delete_bucket(call: DeleteBucket) -> Box<S3Planner> {
    planner("DeleteBucket", Delete::new(call))
}

enum Stage {
    Name,
    /// Shards are counted behind this place of the map.
    Peek(Vec<Entry>),
    Count(Vec<Entry>),
    Note,
    Claim,
    Record,
    Bar,
    Waiting(ChangeWait),
    CloseMap,
    Map(Vec<Entry>),
    Close {
        shards: Vec<Entry>,
        told: usize,
    },
    Look,
    Seal,
    Ending(Box<Ending>),
    Reopen(Box<Reopening>),
}

struct Delete {
    bucket: String,
    expected_owner: Option<String>,
    claim: Option<Claim>,
    /// Ours, in entry and record.
    closing: u64,
    /// It was sealed: the removal can only finish.
    sealed: bool,
    /// Why it stays, once that is known: then we close nothing any more, for a reopening may come late.
    stays: Option<Failure>,
    stage: Stage,
}

fn confused() -> Failure {
    S3ErrorCode::InternalError.because("the removal of a bucket lost its place").into()
}

fn aborted(bucket: &str) -> Failure {
    let message = format!("bucket '{bucket}' is being removed by somebody else; try again");
    S3ErrorCode::OperationAborted.because(message).into()
}

fn not_empty(bucket: &str) -> Failure {
    S3ErrorCode::BucketNotEmpty
        .because(format!("bucket '{bucket}' is not empty; delete its objects, versions and markers first"))
        .into()
}

fn terms() -> Terms {
    Terms {
        consistency: Some(WriteConsistency::Strong),
        read_consistency: Some(ReadConsistency::Strong),
        request_id: None,
    }
}

/// Asks for a page of a bucket's map.
fn map_page(id: u128, known: &[Entry]) -> Result<Step, Failure> {
    let start = known.last().and_then(|last| last.range.end.clone()).unwrap_or_default();
    Ok(one(map_read(id, &shard_reference::Query::Map { start, limit: MAP_PAGE_MAX })?))
}

/// Adds a page; whether there is more.
fn add_page(known: &mut Vec<Entry>, result: CallResult) -> Result<bool, Failure> {
    match reply::<shard_reference::Reply>(result)?.0 {
        shard_reference::Reply::Entries { entries, more, .. } => {
            known.extend(entries);
            Ok(more)
        }
        _ => Err(confused()),
    }
}

/// Whether the map and the uploads both did what they were told.
fn map_and_uploads(answers: Vec<CallResult>) -> Result<(), Failure> {
    let mut answers = answers.into_iter();
    let mut next = || only(answers.next().into_iter().collect());
    reply::<shard_reference::Reply>(next())?;
    reply::<multipart::Reply>(next())?;
    Ok(())
}

/// Sends a command to some shards.
fn tell_shards(
    context: &mut PlanContext<'_>,
    id: u128,
    shards: &[Entry],
    command: impl Fn(&Entry) -> shard::Command,
) -> Result<Step, Failure> {
    let tell = |entry: &Entry| {
        let request_id = context.random.request_id();
        shard_write(id, entry.shard, &command(entry), &terms(), request_id)
    };
    let calls: Result<Vec<_>, Refusal> = shards.iter().take(SHARDS_AT_A_TIME).map(tell).collect();
    Ok(Step::Calls(calls?))
}

/// Writes the record anew.
fn set_record(
    id: u128,
    before: Bytes,
    record: BucketRecord,
    state: BucketState,
    closing: u64,
) -> Result<Step, Failure> {
    let after = BucketRecord { state, closing, revision: record.revision + 1, ..record };
    Ok(one(write_record(id, Some(before), &after, None)?))
}

/// The record as it is; `None`: its cluster is gone.
fn record_of(result: CallResult) -> Result<Option<(BucketRecord, Bytes)>, Failure> {
    match reply::<metadata::Reply>(result) {
        Ok((metadata::Reply::Value { value: Some(body) }, _)) => Ok(Some((BucketRecord::from_body(&body)?, body))),
        Ok((metadata::Reply::Value { value: None }, _)) => Ok(None),
        Ok(_) => Err(confused()),
        Err(failure) if failure.refusal.code == ErrorCode::UnknownCluster => Ok(None),
        Err(failure) => Err(failure),
    }
}

impl Work for Delete {
    fn next(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Result<Step, Failure> {
        let stage = core::mem::replace(&mut self.stage, Stage::Name);
        match stage {
            Stage::Waiting(wait) => self.waited(context, wait),
            _ if answers.is_empty() => self.begin(context),
            Stage::Name => self.named(only(answers)),
            Stage::Peek(known) => self.peeked(known, only(answers)),
            Stage::Count(shards) => self.counted(shards, answers),
            Stage::Note => self.noted(context, answers),
            Stage::Claim => self.claimed(only(answers)),
            Stage::Record => self.on_record(context, only(answers)),
            Stage::Bar => self.barred(context, only(answers)),
            Stage::CloseMap => {
                map_and_uploads(answers)?;
                self.map(Vec::new())
            }
            Stage::Map(known) => self.on_map(context, known, only(answers)),
            Stage::Close { shards, told } => self.closed(context, shards, told, answers),
            Stage::Look => self.looked(context, only(answers)),
            Stage::Seal => match entries::written(only(answers))? {
                Some(_) => self.end(),
                None => self.reopen(context, aborted(&self.bucket)),
            },
            Stage::Ending(mut ending) => match ending.next(context, answers)? {
                Progress::Calls(calls) => {
                    self.stage = Stage::Ending(ending);
                    Ok(Step::Calls(calls))
                }
                Progress::Over | Progress::Wait => {
                    context.state.cache.forget_bucket(&self.bucket);
                    Ok(done(S3Answer::Done, None))
                }
            },
            Stage::Reopen(mut reopening) => match reopening.next(context, answers)? {
                None => Err(self.stays.clone().unwrap_or_else(confused)),
                Some(step) => {
                    self.stage = Stage::Reopen(reopening);
                    Ok(step)
                }
            },
        }
    }

    fn begin_again(&mut self) {
        self.stage = Stage::Name;
    }
}

impl Delete {
    fn new(call: DeleteBucket) -> Delete {
        let DeleteBucket { bucket, expected_bucket_owner: expected_owner } = call;
        Delete { bucket, expected_owner, claim: None, closing: 0, sealed: false, stays: None, stage: Stage::Name }
    }

    fn id(&self) -> Result<u128, Failure> {
        self.claim.as_ref().map(|claim| claim.id).ok_or_else(confused)
    }

    fn begin(&mut self, context: &mut PlanContext<'_>) -> Result<Step, Failure> {
        while self.closing == 0 {
            self.closing = context.random.next();
        }
        if self.sealed {
            return self.end();
        }
        if let Some(why) = self.stays.clone() {
            return self.reopen(context, why);
        }
        if context.deadline.since(context.now) < TIME_MIN && self.claim.is_none() {
            let message = format!("DeleteBucket needs time; allow a deadline_ms of {} or more", TIME_MIN.as_millis());
            return Err(Refusal::new(ErrorCode::InvalidRequest, message).into());
        }
        self.stage = Stage::Name;
        Ok(one(names::ask(&self.bucket)?))
    }

    fn named(&mut self, result: CallResult) -> Result<Step, Failure> {
        let name = names::told(&self.bucket, result)?;
        match (name, &self.claim) {
            (Some(Name::Owned(claim)), None)
                if self.expected_owner.as_ref().is_some_and(|own| *own != claim.account) =>
            {
                Err(not_of_expected_owner(&self.bucket).into())
            }
            (Some(Name::Owned(claim)), None) => {
                let id = claim.id;
                self.claim = Some(claim);
                self.stage = Stage::Peek(Vec::new());
                map_page(id, &[])
            }
            // Begun before: what was claimed is gone on with.
            (Some(Name::Owned(by)), Some(claim)) if by.id == claim.id => self.note(),
            (_, Some(_)) => Ok(done(S3Answer::Done, None)), // Gone meanwhile: that is what was wanted.
            (_, None) => Err(no_such_bucket(&self.bucket).into()),
        }
    }

    /// Shards are counted before anything is touched: that a bucket is not empty is no news to its clients.
    fn peeked(&mut self, mut known: Vec<Entry>, result: CallResult) -> Result<Step, Failure> {
        match add_page(&mut known, result) {
            Ok(true) => {
                let step = map_page(self.id()?, &known);
                self.stage = Stage::Peek(known);
                step
            }
            Ok(false) => self.count(known),
            Err(failure) if failure.refusal.code == ErrorCode::UnknownCluster => self.note(),
            Err(failure) => Err(failure),
        }
    }

    fn count(&mut self, shards: Vec<Entry>) -> Result<Step, Failure> {
        if shards.is_empty() {
            return self.note();
        }
        let id = self.id()?;
        let count = |entry: &Entry| {
            let query = shard::Query::Count { epoch: entry.epoch, prefix: Bytes::new(), pin: None };
            shard_read(id, entry.shard, &query, &terms())
        };
        let calls: Result<Vec<_>, Refusal> = shards.iter().take(SHARDS_AT_A_TIME).map(count).collect();
        self.stage = Stage::Count(shards);
        Ok(Step::Calls(calls?))
    }

    fn counted(&mut self, mut shards: Vec<Entry>, answers: Vec<CallResult>) -> Result<Step, Failure> {
        let counted = answers.len();
        for answer in answers {
            match reply::<shard::Reply>(answer) {
                Ok((shard::Reply::Count { totals }, _)) if totals.rows() > 0 => return Err(not_empty(&self.bucket)),
                Ok(_) => {}
                // Closed, or split since: what counts is found out below.
                Err(failure)
                    if matches!(
                        failure.refusal.code,
                        ErrorCode::BucketClosing | ErrorCode::WrongShard | ErrorCode::UnknownCluster
                    ) => {}
                Err(failure) => return Err(failure),
            }
        }
        self.count(shards.split_off(counted.min(shards.len())))
    }

    fn note(&mut self) -> Result<Step, Failure> {
        let Some(claim) = &self.claim else { return Err(confused()) };
        let work = work_of(claim);
        self.stage = Stage::Note;
        let note = directory::put(work.key(), directory::body(&work)?)?;
        Ok(Step::Calls(vec![note, entries::get(&claim.account, &claim.bucket)?]))
    }

    fn noted(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Result<Step, Failure> {
        let mut answers = answers.into_iter();
        let mut next = || only(answers.next().into_iter().collect());
        directory::changed(next())?;
        let Some(claim) = &self.claim else { return Err(confused()) };
        let Some((version, entry)) = entries::got(next())?.filter(|(_, entry)| entry.id() == claim.id) else {
            return Err(no_such_bucket(&self.bucket).into());
        };
        match entry.state() {
            EntryState::Deleting => self.end(),
            EntryState::Active | EntryState::Creating if entry.closing == 0 => {
                // Its name is owned, so it was made: only the last word may be missing.
                let ours = entry.with(EntryState::Active).claimed(self.closing);
                let call = entries::put(&claim.account, &claim.bucket, Some(version), &ours)?;
                self.stage = Stage::Claim;
                Ok(one(call))
            }
            EntryState::Active if entry.closing == self.closing => self.record(context),
            EntryState::Active => Err(aborted(&self.bucket)),
            EntryState::Creating | EntryState::Undoing => Err(no_such_bucket(&self.bucket).into()),
        }
    }

    fn claimed(&mut self, result: CallResult) -> Result<Step, Failure> {
        match entries::written(result)? {
            Some(_) => {
                self.stage = Stage::Record;
                Ok(one(read_record(self.id()?)?))
            }
            None => Err(aborted(&self.bucket)),
        }
    }

    fn record(&mut self, _: &mut PlanContext<'_>) -> Result<Step, Failure> {
        self.stage = Stage::Record;
        Ok(one(read_record(self.id()?)?))
    }

    fn on_record(&mut self, context: &mut PlanContext<'_>, result: CallResult) -> Result<Step, Failure> {
        let Some((record, body)) = record_of(result)? else { return Err(no_such_bucket(&self.bucket).into()) };
        if record.state == BucketState::Deleting && record.closing == self.closing {
            return self.wait(context);
        }
        self.stage = Stage::Bar;
        set_record(self.id()?, body, record, BucketState::Deleting, self.closing)
    }

    fn barred(&mut self, context: &mut PlanContext<'_>, result: CallResult) -> Result<Step, Failure> {
        match reply::<metadata::Reply>(result) {
            Ok(_) => self.wait(context),
            // A setting was changed meanwhile.
            Err(failure) if failure.refusal.code == ErrorCode::ConditionFailed => self.record(context),
            Err(failure) => Err(failure),
        }
    }

    fn wait(&mut self, context: &mut PlanContext<'_>) -> Result<Step, Failure> {
        context.state.cache.forget_record(&self.bucket);
        self.waited(context, ChangeWait::default())
    }

    fn waited(&mut self, context: &mut PlanContext<'_>, mut wait: ChangeWait) -> Result<Step, Failure> {
        match wait.next() {
            Some(part) => {
                self.stage = Stage::Waiting(wait);
                Ok(part)
            }
            None => self.close_map(context),
        }
    }

    fn close_map(&mut self, context: &mut PlanContext<'_>) -> Result<Step, Failure> {
        let id = self.id()?;
        self.stage = Stage::CloseMap;
        let uploads = multipart_write(id, &multipart::Command::Close, context.random.request_id())?;
        Ok(Step::Calls(vec![map_write(id, &shard_reference::Command::Close)?, uploads]))
    }

    fn map(&mut self, known: Vec<Entry>) -> Result<Step, Failure> {
        let step = map_page(self.id()?, &known);
        self.stage = Stage::Map(known);
        step
    }

    fn on_map(
        &mut self,
        context: &mut PlanContext<'_>,
        mut known: Vec<Entry>,
        result: CallResult,
    ) -> Result<Step, Failure> {
        match add_page(&mut known, result)? {
            true => self.map(known),
            false => self.close(context, known, 0),
        }
    }

    fn close(&mut self, context: &mut PlanContext<'_>, shards: Vec<Entry>, told: usize) -> Result<Step, Failure> {
        if told >= shards.len() {
            let Some(claim) = &self.claim else { return Err(confused()) };
            self.stage = Stage::Look;
            return Ok(one(entries::get(&claim.account, &claim.bucket)?));
        }
        let step =
            tell_shards(context, self.id()?, &shards[told..], |entry| shard::Command::Close { epoch: entry.epoch });
        self.stage = Stage::Close { shards, told };
        step
    }

    fn closed(
        &mut self,
        context: &mut PlanContext<'_>,
        shards: Vec<Entry>,
        told: usize,
        answers: Vec<CallResult>,
    ) -> Result<Step, Failure> {
        let told = told + answers.len();
        for answer in answers {
            match reply::<shard::Reply>(answer) {
                Ok(_) => {}
                Err(failure) if failure.refusal.code == ErrorCode::S3(S3ErrorCode::BucketNotEmpty) => {
                    return self.reopen(context, not_empty(&self.bucket));
                }
                Err(failure) => return Err(failure),
            }
        }
        self.close(context, shards, told)
    }

    /// The bucket stays, for this reason. It serves again before the client gets the refusal.
    fn reopen(&mut self, context: &mut PlanContext<'_>, why: Failure) -> Result<Step, Failure> {
        let Some(claim) = self.claim.clone() else { return Err(confused()) };
        self.stays = Some(why.clone());
        let mut reopening = Reopening::new(claim, self.closing, false);
        let Some(step) = reopening.next(context, Vec::new())? else { return Err(why) };
        self.stage = Stage::Reopen(Box::new(reopening));
        Ok(step)
    }

    fn looked(&mut self, context: &mut PlanContext<'_>, result: CallResult) -> Result<Step, Failure> {
        let Some(claim) = &self.claim else { return Err(confused()) };
        match entries::got(result)? {
            Some((version, entry)) if entry.id() == claim.id && entry.closing == self.closing => {
                let claim = claim.clone();
                self.stage = Stage::Seal;
                mark(&claim, Some((version, entry)), EntryState::Deleting)
            }
            // The claim was taken over, which is done only to those that seem dead: what we did since is undone.
            _ => self.reopen(context, aborted(&self.bucket)),
        }
    }

    fn end(&mut self) -> Result<Step, Failure> {
        let Some(claim) = self.claim.clone() else { return Err(confused()) };
        self.sealed = true;
        let mut ending = Ending::new(claim, Elapsed::Enough);
        let calls = ending.view()?;
        self.stage = Stage::Ending(Box::new(ending));
        Ok(Step::Calls(calls))
    }
}

enum Reopen {
    Entry,
    Take,
    Map(Vec<Entry>),
    Shards { shards: Vec<Entry>, told: usize },
    OpenMap,
    Record,
    Unbar,
    Release,
}

/// Makes a bucket serve again whose removal was begun and is not sealed.
///
/// Only while the entry is claimed by this removal or by the sweep. The sweep takes the claim over, and this bars the
/// seal of the removal that had the claim, if that one still runs. The claim is given back only when every answer is
/// definite, so that no command of ours reopens what a later removal has closed.
pub(crate) struct Reopening {
    claim: Claim,
    /// The number the entry is claimed by.
    closing: u64,
    /// Takes the claim from the removal that has it.
    takes_over: bool,
    entry: Option<(u64, EntryDocument)>,
    stage: Reopen,
}

impl Reopening {
    pub fn new(claim: Claim, closing: u64, takes_over: bool) -> Reopening {
        Reopening { claim, closing, takes_over, entry: None, stage: Reopen::Entry }
    }

    /// The next round; `None`: it serves, or it is not ours to reopen. No answers: from the beginning.
    pub fn next(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Result<Option<Step>, Failure> {
        let id = self.claim.id;
        if answers.is_empty() {
            self.stage = Reopen::Entry;
            return Ok(Some(one(entries::get(&self.claim.account, &self.claim.bucket)?)));
        }
        match core::mem::replace(&mut self.stage, Reopen::Entry) {
            Reopen::Entry => self.found(entries::got(only(answers))?),
            Reopen::Take => match (entries::written(only(answers))?, &mut self.entry) {
                (Some(now), Some((version, _))) => {
                    *version = now;
                    self.map(Vec::new())
                }
                _ => Ok(None),
            },
            Reopen::Map(mut known) => match add_page(&mut known, only(answers))? {
                true => self.map(known),
                false => self.shards(context, known, 0),
            },
            Reopen::Shards { shards, told } => {
                let told = told + answers.len();
                answers.into_iter().try_for_each(|answer| reply::<shard::Reply>(answer).map(drop))?;
                self.shards(context, shards, told)
            }
            Reopen::OpenMap => {
                map_and_uploads(answers)?;
                self.stage = Reopen::Record;
                Ok(Some(one(read_record(id)?)))
            }
            Reopen::Record => match record_of(only(answers))? {
                Some((record, body)) if record.state == BucketState::Deleting => {
                    self.stage = Reopen::Unbar;
                    set_record(id, body, record, BucketState::Active, 0).map(Some)
                }
                _ => self.release(),
            },
            Reopen::Unbar => match reply::<metadata::Reply>(only(answers)) {
                Ok(_) => {
                    context.state.cache.forget_record(&self.claim.bucket);
                    self.release()
                }
                Err(failure) if failure.refusal.code == ErrorCode::ConditionFailed => {
                    self.stage = Reopen::Record;
                    Ok(Some(one(read_record(id)?)))
                }
                Err(failure) => Err(failure),
            },
            Reopen::Release => {
                entries::written(only(answers))?;
                Ok(None)
            }
        }
    }

    fn found(&mut self, found: Option<(u64, EntryDocument)>) -> Result<Option<Step>, Failure> {
        let Some((version, entry)) = found.filter(|(_, entry)| entry.id() == self.claim.id) else { return Ok(None) };
        if entry.state() != EntryState::Active {
            return Ok(None);
        }
        if entry.closing == self.closing {
            self.entry = Some((version, entry));
            return self.map(Vec::new());
        }
        if entry.closing != 0 && !self.takes_over {
            return Ok(None); // Another's now, who undoes or ends what we did.
        }
        let entry = entry.claimed(self.closing);
        let call = entries::put(&self.claim.account, &self.claim.bucket, Some(version), &entry)?;
        self.stage = Reopen::Take;
        self.entry = Some((version, entry));
        Ok(Some(one(call)))
    }

    fn map(&mut self, known: Vec<Entry>) -> Result<Option<Step>, Failure> {
        let step = map_page(self.claim.id, &known)?;
        self.stage = Reopen::Map(known);
        Ok(Some(step))
    }

    fn shards(
        &mut self,
        context: &mut PlanContext<'_>,
        shards: Vec<Entry>,
        told: usize,
    ) -> Result<Option<Step>, Failure> {
        if told >= shards.len() {
            self.stage = Reopen::OpenMap;
            let id = self.claim.id;
            let uploads = multipart_write(id, &multipart::Command::Unclose, context.random.request_id())?;
            return Ok(Some(Step::Calls(vec![map_write(id, &shard_reference::Command::Reopen)?, uploads])));
        }
        let command = |entry: &Entry| shard::Command::Reopen { epoch: entry.epoch };
        let step = tell_shards(context, self.claim.id, &shards[told..], command)?;
        self.stage = Reopen::Shards { shards, told };
        Ok(Some(step))
    }

    /// The entry is claimed by nobody any more.
    fn release(&mut self) -> Result<Option<Step>, Failure> {
        let Some((version, entry)) = self.entry.take() else { return Ok(None) };
        self.stage = Reopen::Release;
        Ok(Some(one(entries::put(&self.claim.account, &self.claim.bucket, Some(version), &entry.claimed(0))?)))
    }
}
