//! Bytes in data stores that nothing names any more: shards and uploads hand their places on, gateways receive them.
//!
//! ```text
//!   shard, uploads: queue of the command that freed it ──HandOn──▶ accounts' cluster: `freed/<hash>` ──▶ gateway
//!                     ForgetFreed only after it                      ForgetFreedData only after the removal
//! ```
//!
//! So the list outlives the bucket, and a gateway asks one cluster however many buckets there are.
//!
//! Always: a place is in one of the two lists until a gateway has removed its bytes; it may be in both.
//! Held by: `every_place_of_what_was_overwritten_or_deleted_is_told_until_it_is_forgotten`.
//! Not here: what frees a place (core-backends, garbage.rs), the bytes (door-s3).

use crate::buckets::with_bucket::{with_bucket, BucketWork, Place, Trouble};
use crate::clusters;
use crate::request::{done, multipart_read, odd, reply, shard_read, Terms};
use crate::state::{PlanContext, S3State};
use crate::Offered;
use base_types::action::{BatchStep, Failure};
use base_types::codec::Encode;
use base_types::s3::{Locations, LookupData, S3Action, S3Answer, S3ErrorCode, VersionStamp};
use base_types::{BackendKind, ErrorCode, ReadConsistency, Refusal, WriteConsistency, BATCH_OPERATIONS_MAX};
use bytes::Bytes;
use core_backends::freed::{Freed, FREED_PAGE_MAX};
use core_backends::metadata::{self, ScanScopes, ScopedStep};
use core_backends::{multipart, shard};
use core_flow::rounds::{one, only, pause, InRounds, Rounds};
use core_flow::{Call, CallResult, Step};

/// The most places one call lists or forgets.
const LOCATIONS_MAX: usize = 1_000;
/// The bytes after which a list ends early.
const LIST_BYTES_MAX: u32 = 1 << 20;
/// Failures of one call after which it gives up; its deadline usually ends it before.
const TRIES_MAX: u32 = 20;
/// What the rows begin with in the accounts' cluster; the hash of the place stands behind.
const PREFIX: &[u8] = b"freed/";

/// The planner of a call, if it is one of these.
pub(crate) fn planner_for(call: S3Action, terms: &Terms) -> Offered {
    match call {
        S3Action::LookupData(call) => {
            Ok(with_bucket(Lookup { call: *call, terms: *terms, named: Vec::new(), asked: Asking::Uploads(None) }))
        }
        S3Action::ListFreedData(call) => Ok(Box::new(InRounds::new(List { max: call.max, tries: 0 }))),
        S3Action::ForgetFreedData(call) => {
            let locations = call.locations.into_iter().map(Bytes::from).collect();
            Ok(Box::new(InRounds::new(Forget { locations, tries: 0 })))
        }
        other => Err(other),
    }
}

fn row(location: &[u8]) -> Bytes {
    let hash = xxhash_rust::xxh3::xxh3_128(location);
    [PREFIX, format!("{hash:032x}").as_bytes()].concat().into()
}

fn batch(steps: Vec<BatchStep>) -> Result<Call, Refusal> {
    let steps = steps.into_iter().map(|step| ScopedStep { scope: None, step }).collect();
    Ok(Call::Write {
        cluster: clusters::accounts()?,
        backend: BackendKind::Metadata,
        command: metadata::Command::Batch { steps }.to_bytes(),
        consistency: Some(WriteConsistency::Strong),
        request_id: None,
    })
}

/// Whose queue is handed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Queue {
    Shard(u64),
    Uploads,
}

enum Handing {
    Nothing,
    Listed,
    /// The rows as far as this sequence.
    Handed(u64),
    /// The accounts' cluster is made; then all begins again.
    Made,
    Forgotten,
}

/// Hands on what a queue holds: part of a planner, which makes its calls and gives it their answers.
pub(crate) struct HandOn {
    id: u128,
    queue: Queue,
    aged_ms: u64,
    state: Handing,
}

impl HandOn {
    pub(crate) fn new(id: u128, queue: Queue, aged_ms: u64) -> HandOn {
        HandOn { id, queue, aged_ms, state: Handing::Nothing }
    }

    /// The next calls; `None`: nothing that is old enough is left. No answers: it begins (again).
    pub(crate) fn next(
        &mut self,
        context: &PlanContext<'_>,
        answers: Vec<CallResult>,
    ) -> Result<Option<Vec<Call>>, Failure> {
        let state = core::mem::replace(&mut self.state, Handing::Nothing);
        if answers.is_empty() {
            return self.list();
        }
        match state {
            Handing::Nothing | Handing::Forgotten | Handing::Made => {
                for answer in answers {
                    match answer {
                        Err(failure) if failure.refusal.code != ErrorCode::ClusterExists => return Err(failure),
                        _ => {}
                    }
                }
                self.list()
            }
            Handing::Listed => self.hand(self.rows(only(answers))?),
            Handing::Handed(until) => {
                for answer in answers {
                    match reply::<metadata::Reply>(answer) {
                        Err(failure) if failure.refusal.code == ErrorCode::UnknownCluster => {
                            return self.make(context).map(Some)
                        }
                        told => drop(told?),
                    }
                }
                self.state = Handing::Forgotten;
                Ok(Some(vec![self.tell(until)?]))
            }
        }
    }

    fn list(&mut self) -> Result<Option<Vec<Call>>, Failure> {
        self.state = Handing::Listed;
        let (after, limit, aged_ms) = (0, FREED_PAGE_MAX, self.aged_ms);
        let strong = Terms { read_consistency: Some(ReadConsistency::Strong), ..Terms::default() };
        Ok(Some(vec![match self.queue {
            Queue::Shard(number) => {
                shard_read(self.id, number, &shard::Query::Freed { after, limit, aged_ms }, &strong)?
            }
            Queue::Uploads => multipart_read(self.id, &multipart::Query::Freed { after, limit, aged_ms })?,
        }]))
    }

    fn rows(&self, answer: CallResult) -> Result<Vec<Freed>, Failure> {
        match self.queue {
            Queue::Shard(_) => match reply(answer)? {
                (shard::Reply::Freed { rows, .. }, _) => Ok(rows),
                _ => Err(odd("a shard")),
            },
            Queue::Uploads => match reply(answer)? {
                (multipart::Reply::Freed { rows, .. }, _) => Ok(rows),
                _ => Err(odd("a bucket's uploads")),
            },
        }
    }

    fn hand(&mut self, rows: Vec<Freed>) -> Result<Option<Vec<Call>>, Failure> {
        let Some(until) = rows.last().map(|last| last.sequence) else { return Ok(None) };
        let places: Vec<Bytes> = rows.into_iter().flat_map(|row| row.locations).collect();
        let put = |place: &Bytes| BatchStep::Put { key: row(place), value: place.clone() };
        let calls = places.chunks(BATCH_OPERATIONS_MAX).map(|some| batch(some.iter().map(put).collect()));
        self.state = Handing::Handed(until);
        Ok(Some(calls.collect::<Result<_, _>>()?))
    }

    fn make(&mut self, context: &PlanContext<'_>) -> Result<Vec<Call>, Failure> {
        self.state = Handing::Made;
        Ok(vec![Call::CreateCluster { cluster: clusters::accounts()?, rule: context.state.config.rule.clone() }])
    }

    fn tell(&self, until: u64) -> Result<Call, Refusal> {
        let (cluster, backend, command) = match self.queue {
            Queue::Shard(number) => {
                let command = shard::Command::ForgetFreed { until }.to_bytes();
                (clusters::shard(self.id, number)?, BackendKind::Shard, command)
            }
            Queue::Uploads => {
                let command = multipart::Command::ForgetFreed { until }.to_bytes();
                (clusters::bucket(self.id)?, BackendKind::Multipart, command)
            }
        };
        let consistency = Some(WriteConsistency::Strong);
        Ok(Call::Write { cluster, backend, command, consistency, request_id: None })
    }
}

/// `ListFreedData`.
struct List {
    max: u32,
    tries: u32,
}

impl Rounds<S3State> for List {
    fn name(&self) -> &'static str {
        "ListFreedData"
    }

    fn next(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Step {
        if answers.is_empty() {
            let call = self.ask();
            return call.map_or_else(|refusal| Step::Done(Err(refusal.into())), one);
        }
        match reply(only(answers)) {
            Ok((metadata::Reply::Page { entries, .. }, at)) => {
                let places = entries.into_iter().filter_map(|(_, place)| String::from_utf8(place.to_vec()).ok());
                done(Locations { locations: places.collect() }, Some(at))
            }
            Ok(_) => Step::Done(Err(odd("the accounts' cluster"))),
            Err(failure) if failure.refusal.code == ErrorCode::UnknownCluster => done(Locations::default(), None),
            Err(failure) => again(context, &mut self.tries, failure),
        }
    }
}

impl List {
    fn ask(&self) -> Result<Call, Refusal> {
        let end: Vec<u8> = [&PREFIX[..PREFIX.len() - 1], &[PREFIX[PREFIX.len() - 1] + 1]].concat();
        let query = metadata::Query::Scan {
            scopes: ScanScopes::Plain,
            start: Bytes::from_static(PREFIX),
            end: Some(end.into()),
            reverse: false,
            limit: self.max.clamp(1, LOCATIONS_MAX as u32),
            bytes_max: LIST_BYTES_MAX,
            keys_only: false,
        };
        Ok(Call::Read {
            cluster: clusters::accounts()?,
            backend: BackendKind::Metadata,
            query: query.to_bytes(),
            consistency: Some(ReadConsistency::Strong),
        })
    }
}

/// `ForgetFreedData`.
struct Forget {
    locations: Vec<Bytes>,
    tries: u32,
}

impl Rounds<S3State> for Forget {
    fn name(&self) -> &'static str {
        "ForgetFreedData"
    }

    fn next(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Step {
        if answers.is_empty() {
            if self.locations.is_empty() {
                return done(S3Answer::Done, None);
            }
            return self.ask().unwrap_or_else(|refusal| Step::Done(Err(refusal.into())));
        }
        let mut at = None;
        for answer in answers {
            match reply::<metadata::Reply>(answer) {
                Ok((_, ordered)) => at = Some(ordered),
                Err(failure) if failure.refusal.code == ErrorCode::UnknownCluster => {}
                Err(failure) => return again(context, &mut self.tries, failure),
            }
        }
        done(S3Answer::Done, at)
    }
}

impl Forget {
    fn ask(&self) -> Result<Step, Refusal> {
        if self.locations.len() > LOCATIONS_MAX {
            let message = format!("{} locations; at most {LOCATIONS_MAX} are taken", self.locations.len());
            return Err(S3ErrorCode::InvalidArgument.because(message));
        }
        let delete = |place: &Bytes| BatchStep::Delete { key: row(place) };
        let calls = self.locations.chunks(BATCH_OPERATIONS_MAX).map(|some| batch(some.iter().map(delete).collect()));
        Ok(Step::Calls(calls.collect::<Result<_, _>>()?))
    }
}

fn again(context: &mut PlanContext<'_>, tries: &mut u32, failure: Failure) -> Step {
    *tries += 1;
    if !failure.refusal.kind().retryable() || *tries > TRIES_MAX {
        return Step::Done(Err(failure));
    }
    pause(context, *tries)
}

/// Whom `LookupData` asks: uploads before objects, for a completion puts the object before it ends the upload.
enum Asking {
    Uploads(Option<(u64, u32)>),
    Versions(Option<VersionStamp>),
}

/// `LookupData`.
struct Lookup {
    call: LookupData,
    terms: Terms,
    named: Vec<Bytes>,
    asked: Asking,
}

impl BucketWork for Lookup {
    fn name(&self) -> &'static str {
        "LookupData"
    }

    fn bucket(&self) -> &str {
        &self.call.bucket
    }

    fn next(&mut self, _context: &mut PlanContext<'_>, at: &Place, answers: Vec<CallResult>) -> Result<Step, Trouble> {
        if answers.is_empty() {
            return self.ask(at);
        }
        match self.asked {
            Asking::Uploads(_) => match reply(only(answers))? {
                (multipart::Reply::Named { locations, after }, _) => {
                    self.named.extend(locations);
                    self.asked = after.map_or(Asking::Versions(None), |after| Asking::Uploads(Some(after)));
                }
                _ => return Err(odd("a bucket's uploads").into()),
            },
            Asking::Versions(_) => match reply(only(answers))? {
                (shard::Reply::Named { locations, after }, ordered) => {
                    self.named.extend(locations);
                    let Some(after) = after else {
                        let named = |place: &String| self.named.iter().any(|named| named[..] == *place.as_bytes());
                        let locations = self.call.locations.iter().filter(|place| named(place)).cloned().collect();
                        return Ok(done(Locations { locations }, Some(ordered)));
                    };
                    self.asked = Asking::Versions(Some(after));
                }
                _ => return Err(odd("a shard").into()),
            },
        }
        self.ask(at)
    }
}

impl Lookup {
    fn ask(&self, at: &Place) -> Result<Step, Trouble> {
        if self.call.locations.len() > shard::NAMES_MAX {
            let message = format!("{} locations; at most {} are taken", self.call.locations.len(), shard::NAMES_MAX);
            return Err(S3ErrorCode::InvalidArgument.because(message).into());
        }
        let key = Bytes::copy_from_slice(self.call.key.as_bytes());
        let locations = self.call.locations.iter().map(|place| Bytes::copy_from_slice(place.as_bytes())).collect();
        Ok(one(match self.asked {
            Asking::Uploads(after) => multipart_read(at.bucket.id, &multipart::Query::Names { key, after, locations })?,
            Asking::Versions(after) => {
                let entry = at.map.shard_of(&key).ok_or_else(|| odd("a bucket's map"))?;
                let query = shard::Query::Names { epoch: entry.epoch, key, after, locations };
                let strong = Terms { read_consistency: Some(ReadConsistency::Strong), ..self.terms };
                shard_read(at.bucket.id, entry.shard, &query, &strong)?
            }
        }))
    }
}
