//! Calls on a bucket: its record and map are found, in the cache or by asking, before the call's own work
//! begins, and again where the work says that they proved stale.
//!
//! ```text
//!   name ─▶ id ─▶ record ─▶ map ─▶ work ─▶ answer
//!    ▲                       ▲       │
//!    └── Trouble::Bucket ────┴───────┘ Trouble::Map · Trouble::Again (a pause)
//! ```
//!
//! Always: `work` receives a record that is young enough and, if it needs one, the whole map. After trouble it is entered
//! without answers and sends what its stage needs once more, at most [`TRIES_MAX`] times. While a shard is frozen, or its keys
//! are moving, one call at a time retries (cutover_gate.rs); one call of a core at a time reads a map. A record past half of
//! its age is refreshed beside the calls of the next work that uses it, so that calls of a bucket in use never wait for it.
//! Not here: what calls do.

use crate::buckets::names;
use crate::record::{read_record, BucketRecord, BucketState};
use crate::request::{map_read, reply};
use crate::state::cache::{Bucket, ShardMap};
use crate::state::cutover_gate::HELD_MAX;
use crate::state::{PlanContext, S3Planner, S3State};
use base_types::action::Failure;
use base_types::s3::S3ErrorCode;
use base_types::{ErrorCode, Refusal, Routing, Tick};
use bytes::Bytes;
use core::time::Duration;
use core_backends::bucket_names::Name;
use core_backends::metadata;
use core_backends::shard_reference::{Entry, Query, Reply, MAP_PAGE_MAX};
use core_flow::rounds::{one, only, InRounds, Rounds};
use core_flow::{CallResult, Step};
use std::sync::Arc;

/// Troubles of one call after which it gives up; its deadline usually ends it before.
pub(crate) const TRIES_MAX: u32 = 100;
/// Half of the first pause, doubled for each further one up to the second. It is short because most pauses wait for a
/// shard that is frozen for some round trips of a cut-over, and clients feel all of it.
const PAUSE_MS_MIN: u64 = 2;
const PAUSE_MS_MAX: u64 = 500;
/// A call that waits for another call's answer looks for that answer this often, or a little less.
const HELD_PAUSE: Duration = Duration::from_millis(2);
const HELD_JITTER_MICROS: u64 = 2_000;
/// Shards of one bucket beyond which its map is not read.
pub const SHARDS_MAX: usize = 100_000;

/// What a call works with.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub bucket: Arc<Bucket>,
    /// Empty where the work said it needs none.
    pub map: Arc<ShardMap>,
}

/// What went wrong.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The map is stale (`WrongShard`, or a shard's cluster that is gone).
    Map(Failure),
    /// The bucket is gone, or another one has its name (its cluster is gone).
    Bucket(Failure),
    /// It may pass: the same again after a pause.
    Again(Failure),
    /// It is the answer.
    Failed(Failure),
}

impl From<Failure> for Trouble {
    /// What a failure of a call to a shard, map or upload means.
    #[deny(clippy::wildcard_enum_match_arm)] // A new way of routing must be thought of here.
    fn from(failure: Failure) -> Trouble {
        match failure.refusal.code.routing() {
            Routing::ShardMoved => Trouble::Map(failure),
            Routing::ClusterGone => Trouble::Bucket(failure),
            Routing::ShardSwitching => Trouble::Again(failure),
            // The router has retried what it may; the deadline is the bound.
            Routing::Answer | Routing::ClusterReplaced => Trouble::Failed(failure),
            // A bucket has no partitions.
            Routing::PartitionSwitching | Routing::PartitionMoved => Trouble::Failed(failure),
        }
    }
}

impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Trouble {
        Trouble::Failed(refusal.into())
    }
}

/// A call on a bucket.
pub(crate) trait BucketWork: Send {
    /// For notes and metrics: the call's name.
    fn name(&self) -> &'static str;
    /// Which bucket.
    fn bucket(&self) -> &str;
    /// Whether the map must be known.
    fn needs_map(&self) -> bool {
        true
    }
    /// The next round. There are no answers at the start, after a `Step::Wait` and after trouble; then the work sends
    /// what its stage needs. A bucket that is being deleted is never handed in.
    fn next(&mut self, context: &mut PlanContext<'_>, at: &Place, answers: Vec<CallResult>) -> Result<Step, Trouble>;
    /// As of a [`Planner`].
    fn cleanup(&mut self) -> Option<Box<S3Planner>> {
        None
    }
}

/// Makes a planner of a call on a bucket.
pub(crate) fn with_bucket<W: BucketWork + 'static>(work: W) -> Box<S3Planner> {
    let rounds = WithBucket {
        work,
        asked: Asked::Nothing,
        place: None,
        tries: 0,
        refused: None,
        waits_for: None,
        held: 0,
        asked_nearby: false,
        looked_up: false,
        refresh: None,
    };
    Box::new(InRounds::new(rounds))
}

enum Asked {
    Nothing,
    /// Whichever member of the names' cluster is near.
    NameNearby,
    Name,
    /// When, and of which id.
    Record(Tick, u128),
    /// Of which id; the entries read so far, of this version.
    Map(u128, u64, Vec<Entry>),
    Work,
}

struct WithBucket<W> {
    work: W,
    asked: Asked,
    place: Option<Place>,
    tries: u32,
    /// How often on end it was refused with this code.
    refused: Option<(ErrorCode, u32)>,
    /// The bucket some shard of which refused it last, for a moment, as it seems.
    waits_for: Option<u128>,
    /// Pauses on end since it asked something.
    held: u32,
    /// A member of the names' cluster was asked for the name: once a call, for it may be late.
    asked_nearby: bool,
    /// The name's leader was asked for it since the last trouble with the bucket.
    looked_up: bool,
    /// The last of the calls out reads the record anew: since when, and of which id.
    refresh: Option<(Tick, u128)>,
}

impl<W: BucketWork> Rounds<S3State> for WithBucket<W> {
    fn name(&self) -> &'static str {
        self.work.name()
    }

    fn next(&mut self, context: &mut PlanContext<'_>, mut answers: Vec<CallResult>) -> Step {
        let asked = core::mem::replace(&mut self.asked, Asked::Nothing);
        if let Some((sent, id)) = self.refresh.take() {
            if let Some(result) = answers.pop() {
                self.on_refresh(context, sent, id, result);
            }
        }
        let step = match (asked, answers.is_empty()) {
            (Asked::Work, false) => self.enter(context, answers).inspect(|_| self.on_news(context)),
            (_, true) | (Asked::Nothing, _) => match self.held_back(context) {
                Some(pause) => Ok(held(context, pause)),
                None => self.go(context),
            },
            (Asked::NameNearby, _) => self.on_name_nearby(context, only(answers)),
            (Asked::Name, _) => self.on_name(context, only(answers)),
            (Asked::Record(sent, id), _) => self.on_record(context, sent, id, only(answers)),
            (Asked::Map(id, version, entries), _) => self.on_map(context, id, version, entries, only(answers)),
        };
        step.unwrap_or_else(|trouble| self.trouble(context, trouble))
    }

    fn cleanup(&mut self) -> Option<Box<S3Planner>> {
        self.work.cleanup()
    }
}

impl<W: BucketWork> WithBucket<W> {
    /// Asks for what is not known yet; then runs the work.
    fn go(&mut self, context: &mut PlanContext<'_>) -> Result<Step, Trouble> {
        let name = self.work.bucket();
        let Some(bucket) = context.state.cache.bucket(name, context.now) else {
            let Some(id) = context.state.cache.id_of(name) else {
                let nearby = !core::mem::replace(&mut self.asked_nearby, true);
                self.asked = if nearby { Asked::NameNearby } else { Asked::Name };
                return Ok(one(if nearby { names::ask_nearby(name)? } else { names::ask(name)? }));
            };
            self.asked = Asked::Record(context.now, id);
            return Ok(one(read_record(id)?));
        };
        let map = match context.state.cache.map(bucket.id) {
            Some(map) => map,
            None if !self.work.needs_map() => Arc::new(ShardMap { version: 0, entries: Vec::new() }),
            None if !context.state.cache.claim_map(bucket.id, context.now) && self.may_wait() => {
                return Ok(held(context, HELD_PAUSE))
            }
            None => {
                self.asked = Asked::Map(bucket.id, 0, Vec::new());
                let query = Query::Map { start: Bytes::new(), limit: MAP_PAGE_MAX };
                return Ok(one(map_read(bucket.id, &query)?));
            }
        };
        self.place = Some(Place { bucket, map });
        self.enter(context, Vec::new())
    }

    fn enter(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Result<Step, Trouble> {
        let Some(place) = self.place.clone() else { return self.go(context) };
        refuse_other_owner(context, self.work.bucket(), &place.bucket)?;
        self.asked = Asked::Work;
        self.held = 0;
        let mut step = self.work.next(context, &place, answers)?;
        if let Step::Calls(calls) = &mut step {
            if context.state.cache.claim_refresh(self.work.bucket(), context.now) {
                calls.push(read_record(place.bucket.id)?);
                self.refresh = Some((context.now, place.bucket.id));
            }
        }
        Ok(step)
    }

    /// How long it pauses at least, while another call asks what it would.
    fn held_back(&mut self, context: &mut PlanContext<'_>) -> Option<Duration> {
        let pause = context.state.cutover_gate.pause(self.waits_for?, context.now)?;
        self.may_wait().then_some(pause)
    }

    /// Whether it may pause once more for what another call asks.
    fn may_wait(&mut self) -> bool {
        self.held += 1;
        self.held <= HELD_MAX
    }

    /// The call got another answer than a shard's refusal for the moment: other calls may, too.
    fn on_news(&mut self, context: &mut PlanContext<'_>) {
        if let Some(id) = self.waits_for.take() {
            context.state.cutover_gate.on_news(id);
        }
    }

    /// A record read ahead of need. If that read failed, the call that needs the record repeats it.
    fn on_refresh(&mut self, context: &mut PlanContext<'_>, sent: Tick, id: u128, result: CallResult) {
        let name = self.work.bucket();
        if let Ok(Some(bucket)) = record_of(id, sent, result) {
            // Unless another bucket has the name by now.
            if context.state.cache.id_of(name) == Some(id) {
                context.state.cache.learn_bucket(name, Arc::new(bucket));
            }
        }
    }

    /// An id is taken for now, as a remembered one is: the bucket's own cluster says whether it is still there. Only the
    /// names' leader says that there is no such bucket.
    fn on_name_nearby(&mut self, context: &mut PlanContext<'_>, result: CallResult) -> Result<Step, Trouble> {
        if let Ok(Some(id)) = name_read(self.work.bucket(), result) {
            context.state.cache.learn_id(self.work.bucket(), id);
        }
        self.go(context)
    }

    fn on_name(&mut self, context: &mut PlanContext<'_>, result: CallResult) -> Result<Step, Trouble> {
        self.looked_up = true;
        let name = self.work.bucket();
        let id = name_read(name, result)?.ok_or_else(|| Trouble::from(no_such_bucket(name)))?;
        context.state.cache.learn_id(name, id);
        self.asked = Asked::Record(context.now, id);
        Ok(one(read_record(id)?))
    }

    fn on_record(
        &mut self,
        context: &mut PlanContext<'_>,
        sent: Tick,
        id: u128,
        result: CallResult,
    ) -> Result<Step, Trouble> {
        let name = self.work.bucket();
        match record_of(id, sent, result)? {
            Some(bucket) => {
                context.state.cache.learn_bucket(name, Arc::new(bucket));
                // A read that took longer than a record may be old is repeated.
                self.go(context)
            }
            None => Err(Trouble::Bucket(no_such_bucket(name).into())),
        }
    }

    fn on_map(
        &mut self,
        context: &mut PlanContext<'_>,
        id: u128,
        version: u64,
        mut entries: Vec<Entry>,
        result: CallResult,
    ) -> Result<Step, Trouble> {
        let (found, _): (Reply, _) = reply(result)?;
        let Reply::Entries { version: now, entries: page, more } = found else {
            return Err(S3ErrorCode::InternalError.because("a bucket's map was answered otherwise").into());
        };
        if entries.is_empty() || version == now {
            entries.extend(page);
        } else {
            return self.go(context); // It was switched between two pages.
        }
        if entries.len() > SHARDS_MAX {
            let message = format!("the bucket has more than {SHARDS_MAX} shards");
            return Err(S3ErrorCode::InternalError.because(message).into());
        }
        let behind = entries.last().and_then(|last| last.range.end.clone()).filter(|_| more);
        if let Some(start) = behind {
            self.asked = Asked::Map(id, now, entries);
            return Ok(one(map_read(id, &Query::Map { start, limit: MAP_PAGE_MAX })?));
        }
        // The answer belongs to the bucket asked, even if another has its name by now.
        context.state.learn_map(id, Arc::new(ShardMap { version: now, entries }));
        self.go(context)
    }

    fn trouble(&mut self, context: &mut PlanContext<'_>, trouble: Trouble) -> Step {
        self.tries += 1;
        let name = self.work.bucket();
        let failure = match trouble {
            Trouble::Failed(failure) => {
                self.on_news(context);
                return Step::Done(Err(failure));
            }
            Trouble::Map(failure) => {
                match &self.place {
                    Some(place) => context.state.cache.forget_stale_map(place.bucket.id, place.map.version),
                    None => {
                        context.state.cache.id_of(name).into_iter().for_each(|id| context.state.cache.forget_map(id))
                    }
                }
                if failure.refusal.code == ErrorCode::UnknownCluster {
                    // The whole bucket may be gone: its record says so.
                    context.state.cache.forget_record(name);
                }
                failure
            }
            Trouble::Bucket(_) if self.looked_up && self.tries > 2 => {
                return Step::Done(Err(no_such_bucket(name).into()));
            }
            Trouble::Bucket(failure) => {
                context.state.cache.forget_bucket(name);
                failure
            }
            Trouble::Again(failure) => failure,
        };
        let place = self.place.take();
        if self.tries > TRIES_MAX {
            return Step::Done(Err(failure));
        }
        let code = failure.refusal.code;
        let times = self.refused.filter(|(last, _)| *last == code).map_or(1, |(_, times)| times + 1);
        self.refused = Some((code, times));
        // A refusal that differs from the last one is news: a shard that was frozen now redirects.
        if times == 1 && code != ErrorCode::ShardFrozen {
            return self.go(context).unwrap_or_else(|trouble| self.trouble(context, trouble));
        }
        let Some(place) = place.filter(|_| matches!(code, ErrorCode::ShardFrozen | ErrorCode::WrongShard)) else {
            self.on_news(context);
            return brief_pause(context, times);
        };
        context.state.cutover_gate.on_refused(place.bucket.id, place.map.version, context.now);
        self.waits_for = Some(place.bucket.id);
        held(context, HELD_PAUSE)
    }
}

/// Refuses a bucket that is another's than the caller thinks. A bucket's id has one owner for good, and all that a work
/// asks goes to the id it is handed: so nothing is done to a bucket that got the name meanwhile.
fn refuse_other_owner(context: &PlanContext<'_>, name: &str, bucket: &Bucket) -> Result<(), Refusal> {
    match &context.state.expected_owner {
        Some(expected) if **expected != *bucket.record.info.owner.id => Err(not_of_expected_owner(name)),
        _ => Ok(()),
    }
}

/// The bucket is another's than it is expected to be.
pub(crate) fn not_of_expected_owner(name: &str) -> Refusal {
    let message = format!("bucket '{name}' is not of the account that expected_bucket_owner names");
    S3ErrorCode::AccessDenied.because(message)
}

/// A jittered pause behind the same refusal for the n-th time (from 1).
fn brief_pause(context: &mut PlanContext<'_>, times: u32) -> Step {
    let most = PAUSE_MS_MIN.saturating_mul(1 << times.min(16)).min(PAUSE_MS_MAX);
    Step::Wait(Duration::from_millis(most / 2 + context.random.below(most / 2 + 1)))
}

/// The pause of a call that waits for another call's answer.
fn held(context: &mut PlanContext<'_>, least: Duration) -> Step {
    Step::Wait(least + Duration::from_micros(context.random.below(HELD_JITTER_MICROS)))
}

/// A bucket by its record as it was read; `None` where it is gone, or going.
fn record_of(id: u128, sent: Tick, result: CallResult) -> Result<Option<Bucket>, Trouble> {
    let (found, _): (metadata::Reply, _) = reply(result)?;
    let metadata::Reply::Value { value } = found else {
        return Err(S3ErrorCode::InternalError.because("a bucket's record was answered otherwise").into());
    };
    let Some(body) = value else { return Ok(None) };
    let record = BucketRecord::from_body(&body)?;
    let active = record.state == BucketState::Active;
    Ok(active.then_some(Bucket { id, record, body, read_at: sent }))
}

/// The id of the bucket that owns a name; `None` too where no bucket was ever made.
fn name_read(name: &str, result: CallResult) -> Result<Option<u128>, Trouble> {
    match names::told(name, result).map_err(Trouble::Failed)? {
        Some(Name::Owned(claim)) => Ok(Some(claim.id)),
        Some(Name::Free | Name::Pending(_)) | None => Ok(None),
    }
}

/// There is no such bucket.
pub(crate) fn no_such_bucket(name: &str) -> Refusal {
    S3ErrorCode::NoSuchBucket.because(format!("bucket '{name}' does not exist"))
}
