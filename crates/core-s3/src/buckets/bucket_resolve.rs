//! Takes back a creation, or goes through with a deletion, as the two-step commit says (core-backends,
//! bucket_names): the name released, the clusters dropped, the entry removed. Part of the calls that make and remove
//! buckets, and of the sweep.
//!
//! Always: every step may be repeated by several runners; clusters are dropped by the bucket's id, which never
//! comes back, and in the one life that was seen. What they are is asked of the world's own list, not of the
//! bucket's map, so that one made by a split that came late is found too.
//! Held by: `a_creation_that_stops_at_any_step_is_finished_or_taken_back`, `a_removal_that_stops_at_any_step_is_finished_or_taken_back`.
//! Not here: whether a bucket may go (delete.rs), when something counts as left behind (bucket_recovery.rs).

use crate::accounts::entries::{self, EntryDocument};
use crate::buckets::create::mark;
use crate::buckets::garbage::{HandOn, Queue};
use crate::buckets::names;
use crate::clusters;
use crate::request::{multipart_write, reply};
use crate::state::PlanContext;
use base_types::action::Failure;
use base_types::codec::Encode;
use base_types::s3::S3ErrorCode;
use base_types::{BackendKind, ClusterName, ErrorCode, Generation, ReadConsistency, Refusal};
use core_backends::bucket_names::{sweep_next, Claim, EntryState, Name, Step as Commit};
use core_backends::multipart;
use core_backends::reference::{ClusterState, Query, Reply};
use core_flow::rounds::only;
use core_flow::{Call, CallResult, Step};
use std::collections::BTreeSet;

/// Clusters dropped in one round.
const DROPS_AT_A_TIME: usize = 8;
/// Rows of uploads ended in one round.
const UPLOAD_ROWS_AT_A_TIME: u32 = 1_000;
/// The most rounds of one run: a bucket of [`crate::buckets::with_bucket::SHARDS_MAX`] shards, and more.
const ROUNDS_MAX: u32 = 30_000;
/// How often one run asks the name's owner to change it. A later run does what is left.
const NAME_TOLD_MAX: u32 = 4;

/// How long the entry has been as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Elapsed {
    /// Long enough: nothing of it can come late.
    Enough,
    /// A creation is taken back by its creator, but something of it may still come late.
    Doubtful,
    /// Seen at this version (zero: not there) for so many milliseconds.
    Seen { version: u64, millis: u64 },
}

/// How far it is.
pub(crate) enum Progress {
    Calls(Vec<Call>),
    /// Nothing is left to do at the entry.
    Over,
    /// The rest is to be done later.
    Wait,
}

/// What is awaited.
enum At {
    View,
    Act,
    /// Uploads are being ended.
    Uploads,
    /// What a cluster knows of freed data is being handed on.
    HandOn(HandOn, ClusterName),
}

/// See the file's header.
pub(crate) struct Ending {
    claim: Claim,
    elapsed: Elapsed,
    at: At,
    /// Every upload was ended.
    uploads_ended: bool,
    /// Clusters whose freed data was handed on: those may be dropped.
    handed_on: BTreeSet<ClusterName>,
    rounds: u32,
    name_told: u32,
    /// The bucket's clusters as last seen, those of shards first.
    pub clusters: Vec<(ClusterName, Generation)>,
    /// The entry as last seen, of whichever bucket of the name.
    pub entry: Option<(u64, EntryDocument)>,
}

impl Ending {
    pub fn new(claim: Claim, elapsed: Elapsed) -> Ending {
        Ending {
            claim,
            elapsed,
            at: At::View,
            uploads_ended: false,
            handed_on: BTreeSet::new(),
            rounds: 0,
            name_told: 0,
            clusters: Vec::new(),
            entry: None,
        }
    }

    /// A creator takes back what it did; `surely`: it has no call out.
    pub fn undo(claim: Claim, surely: bool) -> Ending {
        Ending::new(claim, if surely { Elapsed::Enough } else { Elapsed::Doubtful })
    }

    /// Looks at all three places.
    pub fn view(&mut self) -> Result<Vec<Call>, Failure> {
        self.rounds += 1;
        if self.rounds > ROUNDS_MAX {
            let message = format!("the removal of bucket '{}' does not come to an end; try again", self.claim.bucket);
            return Err(S3ErrorCode::ServiceUnavailable.because(message).into());
        }
        self.at = At::View;
        let Claim { bucket, account, id, .. } = &self.claim;
        Ok(vec![
            names::ask(bucket)?,
            entries::get(account, bucket)?,
            list(shards_prefix(*id)),
            list(clusters::bucket(*id)?.as_str().to_string()),
        ])
    }

    /// The next round. No answers: from the beginning.
    pub fn next(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Result<Progress, Failure> {
        if answers.is_empty() {
            return Ok(Progress::Calls(self.view()?));
        }
        match core::mem::replace(&mut self.at, At::Act) {
            At::View => self.viewed(context, answers),
            At::Act => {
                let gone = |failure: &Failure| failure.refusal.code == ErrorCode::UnknownCluster;
                match answers.into_iter().find_map(|answer| answer.err().filter(|failure| !gone(failure))) {
                    Some(failure) => Err(failure),
                    None => Ok(Progress::Calls(self.view()?)),
                }
            }
            At::HandOn(hand_on, cluster) => self.hand_on(context, hand_on, cluster, answers),
            At::Uploads => match reply::<multipart::Reply>(only(answers)) {
                Ok((multipart::Reply::Removed { more: true }, _)) => self.end_uploads(context),
                Err(failure) if failure.refusal.code != ErrorCode::UnknownCluster => Err(failure),
                _ => {
                    self.uploads_ended = true;
                    Ok(Progress::Calls(self.view()?))
                }
            },
        }
    }

    /// The next cluster that may not be dropped yet, and what is to be handed on there.
    fn queue(&self) -> Option<(ClusterName, Queue)> {
        let (cluster, _) = self.clusters.iter().find(|(cluster, _)| !self.handed_on.contains(cluster))?;
        let number = cluster.tail().rsplit_once('-').and_then(|(_, number)| number.parse().ok());
        let queue = if cluster.has(BackendKind::Shard) { Queue::Shard(number?) } else { Queue::Uploads };
        Some((cluster.clone(), queue))
    }

    /// Hands the places that deleted objects and ended uploads left in a data store to the process that removes them,
    /// before the only record of them is removed.
    fn hand_on(
        &mut self,
        context: &mut PlanContext<'_>,
        mut hand_on: HandOn,
        cluster: ClusterName,
        answers: Vec<CallResult>,
    ) -> Result<Progress, Failure> {
        match hand_on.next(context, answers) {
            Ok(Some(calls)) => {
                self.at = At::HandOn(hand_on, cluster);
                return Ok(Progress::Calls(calls));
            }
            // Dropped by another runner, who has done this; or never filled.
            Err(failure) if matches!(failure.refusal.code, ErrorCode::UnknownCluster | ErrorCode::WrongShard) => {}
            Err(failure) => return Err(failure),
            Ok(None) => {}
        }
        self.handed_on.insert(cluster);
        Ok(Progress::Calls(self.view()?))
    }

    /// The data of uploads that nobody will complete is freed.
    fn end_uploads(&mut self, context: &mut PlanContext<'_>) -> Result<Progress, Failure> {
        self.at = At::Uploads;
        let command = multipart::Command::AbortAll { limit: UPLOAD_ROWS_AT_A_TIME };
        Ok(Progress::Calls(vec![multipart_write(self.claim.id, &command, context.random.request_id())?]))
    }

    fn viewed(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Result<Progress, Failure> {
        self.at = At::Act;
        let mut answers = answers.into_iter();
        let mut next = || only(answers.next().into_iter().collect());
        let name = names::told(&self.claim.bucket, next())?.unwrap_or(Name::Free);
        self.entry = entries::got(next())?;
        self.clusters = listed(next())?;
        self.clusters.extend(listed(next())?);
        let seen = self.entry.as_ref().map(|(_, entry)| entry.entry(0));
        let step = sweep_next(&self.claim, self.now_ms(), &name, seen, !self.clusters.is_empty());
        let Claim { bucket, account, .. } = &self.claim;
        Ok(match step {
            // A name that stays the same after that many commands gets the next one only after a pause.
            Commit::Name(_) if self.name_told >= NAME_TOLD_MAX => Progress::Wait,
            Commit::Name(command) => {
                self.name_told += 1;
                Progress::Calls(vec![names::tell(&command)?])
            }
            Commit::Mark(state) => match mark(&self.claim, self.entry.clone(), state)? {
                Step::Calls(calls) => Progress::Calls(calls),
                _ => Progress::Wait,
            },
            Commit::DropCluster if self.is_removal() && !self.uploads_ended => return self.end_uploads(context),
            Commit::DropCluster => match self.queue().filter(|_| self.is_removal()) {
                Some((cluster, queue)) => {
                    let hand_on = HandOn::new(self.claim.id, queue, 0);
                    return self.hand_on(context, hand_on, cluster, Vec::new());
                }
                None => Progress::Calls(self.drops()),
            },
            Commit::DeleteEntry => match &self.entry {
                Some((version, _)) => Progress::Calls(vec![entries::delete(account, bucket, *version)?]),
                None => Progress::Over,
            },
            Commit::WaitUntil(_) => Progress::Wait,
            Commit::Done(_) | Commit::PutEntry | Commit::Build => Progress::Over,
        })
    }

    /// Whether the entry as last seen is the bucket's own.
    pub fn has_entry(&self) -> bool {
        self.entry.as_ref().is_some_and(|(_, entry)| entry.id() == self.claim.id)
    }

    /// Whether it is of a bucket that served.
    fn is_removal(&self) -> bool {
        self.entry.as_ref().is_some_and(|(_, entry)| entry.state() == EntryState::Deleting)
    }

    /// Drops some of the clusters; the bucket's own only when its shards are gone.
    pub fn drops(&self) -> Vec<Call> {
        let shards = self.clusters.len().saturating_sub(1);
        let most = if shards == 0 { 1 } else { DROPS_AT_A_TIME.min(shards) };
        let of_life = |(cluster, life): &(ClusterName, Generation)| Call::DeleteCluster {
            cluster: cluster.clone(),
            life: Some(*life),
        };
        self.clusters.iter().take(most).map(of_life).collect()
    }

    /// The time as the two-step commit counts it: the entry became what it is at zero.
    fn now_ms(&self) -> u64 {
        let Some((version, entry)) = &self.entry else { return 0 };
        match self.elapsed {
            Elapsed::Enough => u64::MAX,
            Elapsed::Doubtful if entry.state() == EntryState::Creating => u64::MAX,
            Elapsed::Seen { version: seen, millis } if seen == *version => millis,
            Elapsed::Doubtful | Elapsed::Seen { .. } => 0,
        }
    }
}

/// What the names of a bucket's shards begin with.
fn shards_prefix(id: u128) -> String {
    format!("shard@{id:032x}-")
}

/// Asks which clusters there are.
fn list(prefix: String) -> Call {
    let query = Query::List { prefix, start_after: None, limit: 4 * DROPS_AT_A_TIME as u32 };
    Call::Read {
        cluster: ClusterName::world(),
        backend: BackendKind::Reference,
        query: query.to_bytes(),
        consistency: Some(ReadConsistency::Strong),
    }
}

/// Those that are not being removed already.
fn listed(result: CallResult) -> Result<Vec<(ClusterName, Generation)>, Failure> {
    let Reply::Records { records, .. } = reply::<Reply>(result)?.0 else {
        let refusal: Refusal = S3ErrorCode::InternalError.because("the list of clusters was answered otherwise");
        return Err(refusal.into());
    };
    let there = records.into_iter().filter(|record| record.state != ClusterState::Deleting);
    Ok(there.map(|record| (record.name, record.generation)).collect())
}
