//! Makes a bucket: the two-step commit of its name (core-backends, bucket_names), and what a bucket is made of.
//!
//! ```text
//!   Begin ─▶ Note ─▶ View ─▶ Reserve · PutEntry · Account · Build · Commit · Activate (each, then View) ─▶ Clear
//!     account, name,  ▲ └──── what cannot be built is taken back at once (bucket_resolve.rs) ────┘
//!     region
//! ```
//!
//! Always: every step acts on what was just read. A note in the directory exists from before the first step until the
//! last, so that a sweep finds what a crash left. The account is read again after the entry was put and before anything
//! is built, for `DeleteAccount` looks the other way round.
//! Held by: `a_creation_that_stops_at_any_step_is_finished_or_taken_back`, `no_bucket_outlives_its_account`.
//! Not here: which step is next (bucket_names), taking back (bucket_resolve.rs).

use crate::accounts;
use crate::accounts::directory::{self, all_well, AccountRow, AccountState, WorkRow};
use crate::accounts::entries::{self, EntryDocument};
use crate::buckets::bucket_resolve::{Ending, Progress};
use crate::buckets::names;
use crate::clusters;
use crate::record::{write_record, BucketRecord, BucketState};
use crate::request::{done, map_write, reply, shard_write, Terms};
use crate::state::{PlanContext, S3Planner};
use crate::work::{planner, Work};
use base_types::action::Failure;
use base_types::codec::Encode;
use base_types::s3::{
    check_bucket_name, Acl, BucketInfo, CreateBucket, Grant, Grantee, ObjectLockConfiguration, Owner, Permission,
    PublicAccessBlock, S3Answer, S3ErrorCode, Versioning,
};
use base_types::{BackendKind, ClusterName, ErrorCode, ReadConsistency, Refusal};
use core_backends::bucket_names::{create_next, Claim, EntryState, Name, Step as Commit};
use core_backends::{allocator, metadata, shard, shard_reference};
use core_flow::rounds::{is_passing, one, only};
use core_flow::{Call, CallResult, Step};
use core_placement::{Location, Rule};

/// The number and epoch of a bucket's first shard, as `Initialize` gives them.
const FIRST_SHARD: u64 = 1;
const FIRST_EPOCH: u64 = 1;
/// The most steps of one creation; it needs eight.
const VIEWS_MAX: u32 = 200;
/// Entries of an account that are counted at a time.
const ENTRIES_AT_A_TIME: u32 = 1_000;
/// The fewest replicas of a bucket in one region, where the world's rule has as many.
const REPLICAS_MIN: usize = 3;
/// The region of AWS for what names none: tools send it to whomever they talk to.
const ANYWHERE: &str = "us-east-1";
/// The longest region that is looked for.
const REGION_BYTES_MAX: usize = 63;

/// The planner of the call.
pub(crate) fn create_bucket(call: CreateBucket, terms: &Terms) -> Box<S3Planner> {
    let request = terms.request_id.map(|id| format!("{:032x}", id.0));
    planner(
        "CreateBucket",
        Create {
            call,
            request,
            account: None,
            rule: String::new(),
            inside: Vec::new(),
            attempt: None,
            stage: Stage::Begin,
        },
    )
}

enum Stage {
    Begin,
    /// The cluster of names is being made.
    Names,
    /// The same request may have made it before.
    Mine(Claim),
    Note,
    View,
    /// A step was taken; it is looked at whatever it came to.
    Acted,
    Account,
    /// Its account's buckets are counted: so many so far.
    Count(u64),
    Clusters,
    Fill,
    /// It cannot be made for this reason.
    Ending(Box<Ending>, Failure),
    Clear,
    /// Another's is the name: the note goes, then this is the answer. Else every try would leave one to the sweeps.
    Refused(Failure),
}

/// One attempt, under an id of its own.
struct Attempt {
    claim: Claim,
    created_ms: u64,
    token_secret: (u64, u64),
    reserved: bool,
    account_checked: bool,
    built: bool,
    /// Some of it may have been built, or may yet be.
    doubtful: bool,
    /// Every step of it was answered: none can come late.
    certain: bool,
    /// How often it was looked at.
    views: u32,
}

struct Create {
    call: CreateBucket,
    request: Option<String>,
    account: Option<AccountRow>,
    rule: String,
    /// The rules that would keep it in the region it was asked for, the best first.
    inside: Vec<String>,
    attempt: Option<Attempt>,
    stage: Stage,
}

impl Work for Create {
    fn next(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Result<Step, Failure> {
        if answers.is_empty() {
            return match self.attempt {
                None => self.begin(context),
                Some(_) => self.view(),
            };
        }
        match core::mem::replace(&mut self.stage, Stage::Begin) {
            Stage::Begin => self.begun(context, answers),
            Stage::Names => {
                all_well(answers)?;
                self.begin(context)
            }
            Stage::Mine(claim) => self.is_mine(&claim, only(answers)),
            Stage::Note => {
                directory::changed(only(answers))?;
                self.view()
            }
            Stage::View => self.viewed(answers),
            // Whether its condition held is seen.
            Stage::Acted => match only(answers) {
                Err(failure) if failure.refusal.code == ErrorCode::UnknownCluster => {
                    Err(directory::no_such_account(&self.call.account).into())
                }
                Err(failure) => Err(failure),
                Ok(_) => self.view(),
            },
            Stage::Account => self.on_account(only(answers)),
            Stage::Count(before) => self.on_count(before, only(answers)),
            Stage::Clusters => self.on_clusters(answers),
            Stage::Fill => self.on_filled(answers),
            Stage::Ending(mut ending, why) => match ending.next(context, answers)? {
                Progress::Calls(calls) => {
                    self.stage = Stage::Ending(ending, why);
                    Ok(Step::Calls(calls))
                }
                Progress::Over | Progress::Wait => Err(why),
            },
            Stage::Clear => {
                directory::changed(only(answers))?;
                Ok(done(S3Answer::Done, None))
            }
            // Where the note stays, a sweep finds nothing of it and removes it.
            Stage::Refused(why) => Err(why),
        }
    }

    fn begin_again(&mut self) {
        self.stage = Stage::Begin;
        if let Some(attempt) = &mut self.attempt {
            attempt.certain = false;
        }
    }
}

impl Create {
    fn begin(&mut self, context: &mut PlanContext<'_>) -> Result<Step, Failure> {
        check_bucket_name(&self.call.bucket)?;
        directory::check_account(&self.call.account)?;
        let region = self.call.location_constraint.as_deref().filter(|region| !region.is_empty());
        self.rule = context.state.config.rule.clone();
        self.inside = region.map(|region| rules_in(&self.rule, region)).transpose()?.unwrap_or_default();
        let mut calls =
            vec![directory::get(directory::account_key(&self.call.account))?, names::ask(&self.call.bucket)?];
        if let Some(region) = region {
            calls.push(elect(&format!("size=1 location={region}")));
            calls.extend(self.inside.iter().map(|rule| elect(rule)));
        }
        self.stage = Stage::Begin;
        Ok(Step::Calls(calls))
    }

    fn begun(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Result<Step, Failure> {
        let mut answers = answers.into_iter();
        let mut next = || only(answers.next().into_iter().collect());
        let (account, name) = (next(), next());
        let Some((account, _)) = directory::account(account)? else {
            return Err(directory::no_such_account(&self.call.account).into());
        };
        if account.state == AccountState::Deleting {
            return Err(accounts::going(&self.call.account).into());
        }
        self.account = Some(account);
        let own = context.state.config.region.clone().unwrap_or_else(|| context.region.to_string());
        let region = match self.call.location_constraint.clone().filter(|region| !region.is_empty()) {
            None => own,
            Some(region) => {
                let any = next();
                let tried = self.inside.iter().map(|_| next()).collect();
                match placed_in(&region, any, tried)? {
                    Some(at) => {
                        self.rule = self.inside.swap_remove(at);
                        region
                    }
                    // The name that clients know this world by, or the one that they send to anybody: no node stands there, so it is the whole world.
                    None if region == own || region == ANYWHERE => own,
                    None => return Err(no_such_region(&region).into()),
                }
            }
        };
        let Some(name) = names::told(&self.call.bucket, name)? else {
            self.stage = Stage::Names;
            return Ok(one(names::make(&context.state.config.rule)?));
        };
        let id = u128::from(context.random.next()) << 64 | u128::from(context.random.next());
        let (bucket, account) = (self.call.bucket.clone(), self.call.account.clone());
        let claim = Claim { bucket, id, account, region };
        match name {
            Name::Owned(by) if by.account == claim.account => {
                self.stage = Stage::Mine(by);
                return Ok(one(entries::get(&claim.account, &claim.bucket)?));
            }
            Name::Free => {}
            taken => return self.refused(create_next(&claim, true, &taken, None, false), None),
        }
        let work = work_of(&claim);
        self.attempt = Some(Attempt {
            claim,
            created_ms: context.unix_ms,
            token_secret: (context.random.next(), context.random.next()),
            reserved: false,
            account_checked: false,
            built: false,
            doubtful: false,
            certain: true,
            views: 0,
        });
        self.stage = Stage::Note;
        Ok(one(directory::put(work.key(), directory::body(&work)?)?))
    }

    /// The account owns the name: by this very request, asked before?
    fn is_mine(&mut self, by: &Claim, result: CallResult) -> Result<Step, Failure> {
        let found = entries::got(result)?;
        match found {
            Some((_, entry)) if entry.id() == by.id && self.request.is_some() && entry.request == self.request => {
                Ok(done(S3Answer::Done, None))
            }
            found => {
                let me = Claim { id: 0, ..by.clone() };
                let entry = found.as_ref().map(|(_, entry)| entry);
                self.refused(create_next(&me, true, &Name::Owned(by.clone()), None, false), entry)
            }
        }
    }

    /// `entry`: the account's, where the name is its own.
    fn refused(&mut self, step: Commit, entry: Option<&EntryDocument>) -> Result<Step, Failure> {
        match step {
            Commit::Done(Err(refusal)) => Err(settled(refusal, entry).into()),
            _ => Err(S3ErrorCode::OperationAborted.because("the bucket is being created; try again").into()),
        }
    }

    fn view(&mut self) -> Result<Step, Failure> {
        let Some(Attempt { claim, views, .. }) = &mut self.attempt else { return Err(confused()) };
        *views += 1;
        if *views > VIEWS_MAX {
            let message =
                format!("bucket '{}' could not be created, because other requests change it; retry", claim.bucket);
            return Err(S3ErrorCode::OperationAborted.because(message).into());
        }
        self.stage = Stage::View;
        Ok(Step::Calls(vec![names::ask(&claim.bucket)?, entries::get(&claim.account, &claim.bucket)?]))
    }

    fn viewed(&mut self, answers: Vec<CallResult>) -> Result<Step, Failure> {
        let Some(attempt) = &mut self.attempt else { return Err(confused()) };
        let claim = attempt.claim.clone();
        let mut answers = answers.into_iter();
        let mut next = || only(answers.next().into_iter().collect());
        let name = names::told(&claim.bucket, next())?.unwrap_or(Name::Free);
        let entry = entries::got(next())?;
        let seen = entry.as_ref().map(|(_, document)| document.entry(0));
        self.stage = Stage::Acted;
        match create_next(&claim, attempt.reserved, &name, seen, attempt.built) {
            Commit::Name(command) => {
                attempt.reserved = true;
                Ok(one(names::tell(&command)?))
            }
            Commit::PutEntry => {
                let entry = EntryDocument::new(claim.id, &claim.region, attempt.created_ms, self.request.clone());
                Ok(one(entries::put(&claim.account, &claim.bucket, None, &entry)?))
            }
            Commit::Build if !attempt.account_checked => {
                self.stage = Stage::Account;
                Ok(one(directory::get(directory::account_key(&claim.account))?))
            }
            Commit::Build => self.build(),
            Commit::Mark(state) => mark(&claim, entry, state),
            Commit::Done(Ok(())) => {
                self.stage = Stage::Clear;
                Ok(one(directory::remove(vec![work_of(&claim).key()])?))
            }
            Commit::Done(Err(refusal)) => {
                let refusal = settled(refusal, entry.as_ref().map(|(_, document)| document));
                let ours = seen.is_some_and(|entry| entry.id == claim.id);
                if ours || !attempt.certain {
                    return Err(refusal.into());
                }
                self.stage = Stage::Refused(refusal.into());
                Ok(one(directory::remove(vec![work_of(&claim).key()])?))
            }
            Commit::DropCluster | Commit::DeleteEntry | Commit::WaitUntil(_) => Err(confused()),
        }
    }

    /// The account as it is after the entry was put: had it gone before, nobody would ever see that entry.
    fn on_account(&mut self, result: CallResult) -> Result<Step, Failure> {
        let now = directory::account(result)?.map(|(row, _)| row);
        let same = |now: &AccountRow| Some(now.life) == self.account.as_ref().map(|row| row.life);
        match now.filter(same).map(|row| row.state) {
            Some(AccountState::Active) => {
                self.stage = Stage::Count(0);
                Ok(one(entries::list(&self.call.account, "", None, ENTRIES_AT_A_TIME)?))
            }
            Some(AccountState::Deleting) => self.take_back(accounts::going(&self.call.account).into()),
            Some(AccountState::Gone) | None => self.take_back(directory::no_such_account(&self.call.account).into()),
        }
    }

    /// The entry is one of them already, so of several at once none passes unseen.
    fn on_count(&mut self, before: u64, result: CallResult) -> Result<Step, Failure> {
        let (page, more) = entries::listed(result)?;
        let count = before + page.len() as u64;
        let most = self.account.as_ref().map_or(u64::MAX, AccountRow::most_buckets);
        if count > most {
            let message = format!("account '{}' may own {most} buckets; delete some", self.call.account);
            return self.take_back(S3ErrorCode::TooManyBuckets.because(message).into());
        }
        if let Some((last, _)) = page.last().filter(|_| more) {
            let call = entries::list(&self.call.account, "", Some(last), ENTRIES_AT_A_TIME)?;
            self.stage = Stage::Count(count);
            return Ok(one(call));
        }
        if let Some(attempt) = &mut self.attempt {
            attempt.account_checked = true;
        }
        self.build()
    }

    fn build(&mut self) -> Result<Step, Failure> {
        let Some(attempt) = &self.attempt else { return Err(confused()) };
        self.stage = Stage::Clusters;
        let make = |cluster: ClusterName| Call::CreateCluster { cluster, rule: self.rule.clone() };
        let id = attempt.claim.id;
        Ok(Step::Calls(vec![make(clusters::bucket(id)?), make(clusters::shard(id, FIRST_SHARD)?)]))
    }

    fn on_clusters(&mut self, answers: Vec<CallResult>) -> Result<Step, Failure> {
        if let Err(failure) = all_well(answers) {
            return self.not_built(failure);
        }
        let Some(attempt) = &self.attempt else { return Err(confused()) };
        let id = attempt.claim.id;
        let terms = Terms { consistency: Some(base_types::WriteConsistency::Strong), ..Terms::default() };
        let first = shard::Command::Create { epoch: FIRST_EPOCH, range: shard::Range::default() };
        let request_id = base_types::RequestId::own(id);
        self.stage = Stage::Fill;
        Ok(Step::Calls(vec![
            write_record(id, None, &self.record(attempt), None)?,
            map_write(id, &shard_reference::Command::Initialize)?,
            shard_write(id, FIRST_SHARD, &first, &terms, request_id)?,
        ]))
    }

    fn on_filled(&mut self, answers: Vec<CallResult>) -> Result<Step, Failure> {
        let mut answers = answers.into_iter();
        let mut next = || only(answers.next().into_iter().collect());
        let done = [
            reply::<metadata::Reply>(next()).map(drop),
            reply::<shard_reference::Reply>(next()).map(drop),
            reply::<shard::Reply>(next()).map(drop),
        ];
        for result in done {
            match result {
                Ok(()) => {}
                // Only this attempt writes this record: it is ours.
                Err(failure) if failure.refusal.code == ErrorCode::ConditionFailed => {}
                Err(failure) => return self.not_built(failure),
            }
        }
        if let Some(attempt) = &mut self.attempt {
            attempt.built = true;
        }
        self.view()
    }

    /// What may pass is tried again; for the rest there will be no bucket.
    fn not_built(&mut self, failure: Failure) -> Result<Step, Failure> {
        if let Some(attempt) = &mut self.attempt {
            attempt.doubtful |= is_passing(&failure);
        }
        match is_passing(&failure) {
            true => Err(failure),
            false => self.take_back(failure),
        }
    }

    /// Takes back what was done, at once where nothing can come late, else as far as that goes.
    fn take_back(&mut self, why: Failure) -> Result<Step, Failure> {
        let Some(attempt) = &self.attempt else { return Err(why) };
        let mut ending = Ending::undo(attempt.claim.clone(), !attempt.doubtful);
        let calls = ending.view()?;
        self.stage = Stage::Ending(Box::new(ending), why);
        Ok(Step::Calls(calls))
    }

    /// A new bucket as AWS makes them: private, and closed to the public unless it is asked for open.
    fn record(&self, attempt: &Attempt) -> BucketRecord {
        let owner = self.account.as_ref().map_or_else(Owner::default, |row| row.owner(&self.call.account));
        let all = PublicAccessBlock {
            block_public_acls: true,
            ignore_public_acls: true,
            block_public_policy: true,
            restrict_public_buckets: true,
        };
        let lock = self.call.object_lock_enabled_for_bucket;
        let info = BucketInfo {
            bucket: self.call.bucket.clone(),
            acl: self.call.acl.clone().unwrap_or_else(|| private(owner.clone())),
            owner,
            creation_date_ms: attempt.created_ms,
            bucket_region: attempt.claim.region.clone(),
            versioning: lock.then_some(Versioning::Enabled),
            object_ownership: Some(self.call.object_ownership),
            public_access_block: (!self.call.open_to_public).then_some(all),
            object_lock: lock.then_some(ObjectLockConfiguration { enabled: true, default_retention: None }),
            encryption: None,
            ..BucketInfo::default()
        };
        BucketRecord {
            state: BucketState::Active,
            info,
            tags: None,
            lifecycle: None,
            rule: self.rule.clone(),
            token_secret: attempt.token_secret,
            closing: 0,
            revision: 1,
        }
    }
}

/// A bucket is its account's already only while it serves: not while it is being made or (perhaps) removed.
fn settled(refusal: Refusal, entry: Option<&EntryDocument>) -> Refusal {
    let serves = entry.is_some_and(|entry| entry.state() == EntryState::Active && entry.closing == 0);
    if refusal.code != ErrorCode::S3(S3ErrorCode::BucketAlreadyOwnedByYou) || serves {
        return refusal;
    }
    S3ErrorCode::OperationAborted.because("your bucket of this name is being created or removed; try again")
}

fn confused() -> Failure {
    S3ErrorCode::InternalError.because("the creation of a bucket lost its place").into()
}

/// Its note in the directory.
pub(crate) fn work_of(claim: &Claim) -> WorkRow {
    let Claim { bucket, id, account, region } = claim.clone();
    WorkRow { account, bucket, id: format!("{id:032x}"), region }
}

/// Puts an entry as it was seen into another state.
pub(crate) fn mark(claim: &Claim, seen: Option<(u64, EntryDocument)>, state: EntryState) -> Result<Step, Failure> {
    let (version, entry) = seen.ok_or_else(confused)?;
    Ok(one(entries::put(&claim.account, &claim.bucket, Some(version), &entry.with(state))?))
}

/// Only the owner.
fn private(owner: Owner) -> Acl {
    let grants = vec![Grant { grantee: Grantee::CanonicalUser(owner.id.clone()), permission: Permission::FullControl }];
    Acl { owner, grants }
}

/// The world's rule, but in one region: as many replicas, or fewer where fewer nodes stand there, by two and never
/// fewer than survive the loss of one.
fn rules_in(rule: &str, region: &str) -> Result<Vec<String>, Refusal> {
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if region.len() > REGION_BYTES_MAX || !region.bytes().all(legal) {
        let message = format!("'{}' is no region", region.escape_debug());
        return Err(S3ErrorCode::InvalidLocationConstraint.because(message));
    }
    let rule: Rule = rule.parse().map_err(Refusal::from)?;
    let inside = |size| {
        let location = Location::Region(region.to_string());
        Rule { size, location, repartition: Vec::new(), ..rule.clone() }.to_string()
    };
    let sizes = (rule.size.min(REPLICAS_MIN)..=rule.size).rev().step_by(2);
    Ok(sizes.map(inside).collect())
}

/// Asks who would be elected by a rule.
fn elect(rule: &str) -> Call {
    let query = allocator::Query::Elect { rule: rule.to_string(), exclude: Vec::new(), spread: 0 };
    Call::Read {
        cluster: ClusterName::world(),
        backend: BackendKind::Allocator,
        query: query.to_bytes(),
        consistency: Some(ReadConsistency::Strong),
    }
}

/// Which of a region's rules finds its nodes; `None`: no node stands there. Refused: too few do.
fn placed_in(region: &str, any: CallResult, tried: Vec<CallResult>) -> Result<Option<usize>, Failure> {
    let elected = |result: CallResult| reply::<allocator::Reply>(result).map(drop);
    let by_place =
        |failure: &Failure| failure.refusal.code.is_placement() || failure.refusal.code == ErrorCode::InvalidRule;
    match elected(any) {
        Ok(()) => {}
        Err(failure) if by_place(&failure) => return Ok(None),
        Err(failure) => return Err(failure),
    }
    let mut lacks = None;
    for (at, result) in tried.into_iter().enumerate() {
        match elected(result) {
            Ok(()) => return Ok(Some(at)),
            Err(failure) if by_place(&failure) => lacks = Some(failure.refusal.message),
            Err(failure) => return Err(failure),
        }
    }
    let lacks = lacks.unwrap_or_default();
    let message =
        format!("region '{region}' cannot hold a bucket: {lacks}; leave LocationConstraint out, or add nodes");
    Err(S3ErrorCode::IllegalLocationConstraintException.because(message).into())
}

fn no_such_region(region: &str) -> Refusal {
    S3ErrorCode::InvalidLocationConstraint.because(format!("region '{region}' is not there: no node stands in it"))
}
