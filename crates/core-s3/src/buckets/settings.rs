//! What is read and changed of a bucket's record.
//!
//! ```text
//!   Get…      record (tags and lifecycle rules: read anew) ─▶ answer
//!   Put…      record ─▶ compare-and-set ─▶ ChangeWait ─▶ Done
//!               ▲             └─ another, or in doubt: read anew ─┘
//! ```
//!
//! Always: a change is answered only when no core can still use the record before it: then who hears that versioning
//! is on, or that a grant was taken away, may rely on it on whichever node. Tags and lifecycle rules need no such
//! wait: no call decides by them, background work takes them up when it comes by, and reading them asks the cluster.
//! Held by: `what_was_set_is_told_and_seen_by_every_core_at_once`, `changes_of_two_at_once_are_both_there_whatever_is_lost_or_late`.
//! Not here: who may (door-s3), what of it is legal beyond what others rely on (door-s3 says it in S3's words).

use crate::buckets::with_bucket::{no_such_bucket, with_bucket, BucketWork, Place, Trouble, TRIES_MAX};
use crate::record::{read_record, write_record, BucketRecord, BucketState};
use crate::request::no_encryption;
use crate::request::{done, reply, Terms};
use crate::state::cache::{Bucket, ChangeWait};
use crate::state::PlanContext;
use crate::Offered;
use base_types::s3::policy::PolicyShape;
use base_types::s3::*;
use base_types::{ErrorCode, Refusal};
use bytes::Bytes;
use core_backends::metadata::Reply;
use core_flow::rounds::{is_passing, one, only, pause};
use core_flow::{CallResult, Step};
use serde::Deserialize as _;
use std::collections::BTreeSet;

/// The longest policy.
const POLICY_BYTES_MAX: usize = 20 << 10;
/// The most rules for browsers, of lifecycle, and grants.
const CORS_RULES_MAX: usize = 100;
const LIFECYCLE_RULES_MAX: usize = 1_000;
const GRANTS_MAX: usize = 100;
/// The most redirects of a website.
const ROUTING_RULES_MAX: usize = 50;
/// The longest beginning of an access log's keys.
const LOG_PREFIX_BYTES_MAX: usize = 512;

/// The planner of a call, if it is one of these.
pub(crate) fn planner_for(call: S3Action, _terms: &Terms) -> Offered {
    let Some((bucket, kind)) = of_bucket(&call).map(|(bucket, kind)| (bucket.to_string(), kind)) else {
        return Err(call);
    };
    Ok(match kind {
        Kind::Read { anew } => with_bucket(Get { bucket, call, anew, asked: false }),
        Kind::Change { waits } => with_bucket(Put { bucket, call, waits, stage: Stage::Begin, after: None, tries: 0 }),
    })
}

/// How a call deals with the record.
#[derive(Clone, Copy)]
enum Kind {
    Read { anew: bool },
    Change { waits: bool },
}

/// Which bucket a call is about, and how, if it is one of these.
fn of_bucket(call: &S3Action) -> Option<(&str, Kind)> {
    use S3Action as A;
    const CACHED: Kind = Kind::Read { anew: false };
    const ANEW: Kind = Kind::Read { anew: true };
    const CHANGE: Kind = Kind::Change { waits: true };
    const LAZY: Kind = Kind::Change { waits: false };
    Some(match call {
        A::GetBucketVersioning(call) => (&call.bucket, CACHED),
        A::GetBucketAcl(call) => (&call.bucket, CACHED),
        A::GetBucketPolicy(call) => (&call.bucket, CACHED),
        A::GetBucketPolicyStatus(call) => (&call.bucket, CACHED),
        A::GetBucketCors(call) => (&call.bucket, CACHED),
        A::GetBucketOwnershipControls(call) => (&call.bucket, CACHED),
        A::GetPublicAccessBlock(call) => (&call.bucket, CACHED),
        A::GetObjectLockConfiguration(call) => (&call.bucket, CACHED),
        A::GetBucketEncryption(call) => (&call.bucket, CACHED),
        A::GetBucketQuota(call) => (&call.bucket, CACHED),
        A::GetBucketWebsite(call) => (&call.bucket, CACHED),
        A::GetBucketLogging(call) => (&call.bucket, CACHED),
        A::GetBucketLifecycleConfiguration(call) => (&call.bucket, ANEW),
        A::GetBucketTagging(call) => (&call.bucket, ANEW),
        A::PutBucketVersioning(call) => (&call.bucket, CHANGE),
        A::PutBucketAcl(call) => (&call.bucket, CHANGE),
        A::PutBucketPolicy(call) => (&call.bucket, CHANGE),
        A::DeleteBucketPolicy(call) => (&call.bucket, CHANGE),
        A::PutBucketCors(call) => (&call.bucket, CHANGE),
        A::DeleteBucketCors(call) => (&call.bucket, CHANGE),
        A::PutBucketOwnershipControls(call) => (&call.bucket, CHANGE),
        A::DeleteBucketOwnershipControls(call) => (&call.bucket, CHANGE),
        A::PutPublicAccessBlock(call) => (&call.bucket, CHANGE),
        A::DeletePublicAccessBlock(call) => (&call.bucket, CHANGE),
        A::PutObjectLockConfiguration(call) => (&call.bucket, CHANGE),
        A::PutBucketEncryption(call) => (&call.bucket, CHANGE),
        A::DeleteBucketEncryption(call) => (&call.bucket, CHANGE),
        A::PutBucketQuota(call) => (&call.bucket, CHANGE),
        A::DeleteBucketQuota(call) => (&call.bucket, CHANGE),
        A::PutBucketWebsite(call) => (&call.bucket, CHANGE),
        A::DeleteBucketWebsite(call) => (&call.bucket, CHANGE),
        A::PutBucketLogging(call) => (&call.bucket, CHANGE),
        A::PutBucketLifecycleConfiguration(call) => (&call.bucket, LAZY),
        A::DeleteBucketLifecycle(call) => (&call.bucket, LAZY),
        A::PutBucketTagging(call) => (&call.bucket, LAZY),
        A::DeleteBucketTagging(call) => (&call.bucket, LAZY),
        _ => return None,
    })
}

/// A record read anew, with its bytes.
fn record_read(name: &str, result: CallResult) -> Result<(BucketRecord, Bytes), Trouble> {
    let body = match reply::<Reply>(result)?.0 {
        Reply::Value { value } => value,
        _ => return Err(S3ErrorCode::InternalError.because("a bucket's record was answered otherwise").into()),
    };
    let body = body.ok_or_else(|| Trouble::Bucket(no_such_bucket(name).into()))?;
    let record = BucketRecord::from_body(&body)?;
    match record.state {
        BucketState::Active => Ok((record, body)),
        BucketState::Deleting => Err(Trouble::Bucket(no_such_bucket(name).into())),
    }
}

/// A question about the record.
struct Get {
    bucket: String,
    call: S3Action,
    anew: bool,
    asked: bool,
}

impl BucketWork for Get {
    fn name(&self) -> &'static str {
        self.call.name()
    }

    fn bucket(&self) -> &str {
        &self.bucket
    }

    fn needs_map(&self) -> bool {
        false
    }

    fn next(&mut self, _: &mut PlanContext<'_>, at: &Place, answers: Vec<CallResult>) -> Result<Step, Trouble> {
        if !self.anew {
            return Ok(done(answer(&self.call, &at.bucket.record)?, None));
        }
        if !self.asked || answers.is_empty() {
            self.asked = true;
            return Ok(one(read_record(at.bucket.id)?));
        }
        let (record, _) = record_read(&self.bucket, only(answers))?;
        Ok(done(answer(&self.call, &record)?, None))
    }
}

/// What a record answers to a question.
fn answer(call: &S3Action, record: &BucketRecord) -> Result<S3Answer, Refusal> {
    use S3Action as A;
    use S3ErrorCode as E;
    let info = record.info.clone();
    fn or<T>(found: Option<T>, code: S3ErrorCode) -> Result<T, Refusal> {
        found.ok_or_else(|| code.into())
    }
    Ok(match call {
        A::GetBucketVersioning(_) => BucketVersioning { status: info.versioning }.into(),
        A::GetBucketAcl(_) => AclAnswer { acl: info.acl }.into(),
        A::GetBucketPolicy(_) => BucketPolicy { policy: or(info.policy, E::NoSuchBucketPolicy)? }.into(),
        A::GetBucketPolicyStatus(_) => {
            let is_public = is_public(&or(info.policy, E::NoSuchBucketPolicy)?);
            BucketPolicyStatus { policy_status: PolicyStatus { is_public } }.into()
        }
        A::GetBucketCors(_) => BucketCors { cors_rules: or(info.cors_rules, E::NoSuchCORSConfiguration)? }.into(),
        A::GetBucketOwnershipControls(_) => {
            let object_ownership = or(info.object_ownership, E::OwnershipControlsNotFoundError)?;
            BucketOwnershipControls { object_ownership }.into()
        }
        A::GetPublicAccessBlock(_) => {
            let public_access_block = or(info.public_access_block, E::NoSuchPublicAccessBlockConfiguration)?;
            PublicAccessBlockAnswer { public_access_block }.into()
        }
        A::GetObjectLockConfiguration(_) => {
            ObjectLockAnswer { object_lock: or(info.object_lock, E::ObjectLockConfigurationNotFoundError)? }.into()
        }
        A::GetBucketEncryption(_) => {
            let encryption = or(info.encryption, E::ServerSideEncryptionConfigurationNotFoundError)?;
            BucketEncryption { encryption }.into()
        }
        A::GetBucketQuota(_) => BucketQuota { quota: or(info.quota, E::NoSuchBucketQuota)? }.into(),
        A::GetBucketWebsite(_) => BucketWebsite { website: or(info.website, E::NoSuchWebsiteConfiguration)? }.into(),
        A::GetBucketLogging(_) => BucketLogging { logging: info.logging }.into(),
        A::GetBucketLifecycleConfiguration(_) => {
            BucketLifecycle { rules: or(record.lifecycle.clone(), E::NoSuchLifecycleConfiguration)? }.into()
        }
        A::GetBucketTagging(_) => Tagging { tags: or(record.tags.clone(), E::NoSuchTagSet)? }.into(),
        other => return Err(E::InternalError.because(format!("{} is no question about a bucket", other.name()))),
    })
}

/// Of a policy that no gateway understands nobody is let in by it.
fn is_public(policy: &str) -> bool {
    let policy = serde_json::from_str(policy).and_then(|value: serde_json::Value| PolicyShape::deserialize(value));
    policy.is_ok_and(|policy| policy.is_public())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Begin,
    /// The record is read anew.
    Read,
    Set,
    Waiting(ChangeWait),
}

/// A change of the record.
struct Put {
    bucket: String,
    call: S3Action,
    waits: bool,
    stage: Stage,
    /// What was last set, in doubt perhaps.
    after: Option<Bytes>,
    tries: u32,
}

impl BucketWork for Put {
    fn name(&self) -> &'static str {
        self.call.name()
    }

    fn bucket(&self) -> &str {
        &self.bucket
    }

    fn needs_map(&self) -> bool {
        false
    }

    fn next(&mut self, context: &mut PlanContext<'_>, at: &Place, answers: Vec<CallResult>) -> Result<Step, Trouble> {
        match (self.stage, answers.is_empty()) {
            (Stage::Waiting(wait), _) => Ok(self.wait(wait)),
            (Stage::Begin, _) => {
                let Bucket { id, record, body, .. } = &*at.bucket;
                self.set(*id, record.clone(), body.clone())
            }
            // After a pause or other trouble the record is read first: what was set may be there.
            (Stage::Read | Stage::Set, true) => {
                self.stage = Stage::Read;
                Ok(one(read_record(at.bucket.id)?))
            }
            (Stage::Read, false) => {
                let (record, body) = record_read(&self.bucket, only(answers))?;
                if self.after.as_ref() == Some(&body) {
                    return Ok(self.changed(context));
                }
                self.set(at.bucket.id, record, body)
            }
            (Stage::Set, false) => self.on_set(context, only(answers)),
        }
    }
}

impl Put {
    fn set(&mut self, id: u128, record: BucketRecord, before: Bytes) -> Result<Step, Trouble> {
        let mut after = record;
        change(&self.call, &mut after)?;
        after.revision += 1;
        self.after = Some(after.to_body()?);
        self.stage = Stage::Set;
        Ok(one(write_record(id, Some(before), &after, None)?))
    }

    fn on_set(&mut self, context: &mut PlanContext<'_>, result: CallResult) -> Result<Step, Trouble> {
        let failure = match reply::<Reply>(result) {
            Ok(_) => return Ok(self.changed(context)),
            Err(failure) => failure,
        };
        let conflict = failure.refusal.code == ErrorCode::ConditionFailed;
        self.tries += 1;
        if !(conflict || is_passing(&failure)) || self.tries > TRIES_MAX {
            return Err(failure.into());
        }
        if conflict {
            // That it is another is known for sure: not ours.
            self.after = None;
        }
        context.state.cache.forget_record(&self.bucket);
        self.stage = Stage::Read;
        Ok(pause(context, self.tries))
    }

    fn changed(&mut self, context: &mut PlanContext<'_>) -> Step {
        context.state.cache.forget_record(&self.bucket);
        if !self.waits {
            return done(S3Answer::Done, None);
        }
        self.wait(ChangeWait::default())
    }

    fn wait(&mut self, mut wait: ChangeWait) -> Step {
        match wait.next() {
            Some(part) => {
                self.stage = Stage::Waiting(wait);
                part
            }
            None => done(S3Answer::Done, None),
        }
    }
}

/// Changes a record as a call wants it, or says why that cannot be.
fn change(call: &S3Action, record: &mut BucketRecord) -> Result<(), Refusal> {
    use S3Action as A;
    let info = &mut record.info;
    match call {
        A::PutBucketVersioning(call) => {
            if call.status == Versioning::Suspended && locks(info) {
                let message = "objects can be locked in this bucket, so its versioning cannot be suspended";
                return Err(S3ErrorCode::InvalidBucketState.because(message));
            }
            info.versioning = Some(call.status);
        }
        A::PutBucketAcl(call) => info.acl = checked_acl(info, &call.acl)?,
        A::PutBucketPolicy(call) => info.policy = Some(checked_policy(&call.policy)?),
        A::DeleteBucketPolicy(_) => info.policy = None,
        A::PutBucketCors(call) => {
            check_count("CORS rules", call.cors_rules.len(), CORS_RULES_MAX)?;
            info.cors_rules = Some(call.cors_rules.clone());
        }
        A::DeleteBucketCors(_) => info.cors_rules = None,
        A::PutBucketOwnershipControls(call) => {
            if call.object_ownership == ObjectOwnership::BucketOwnerEnforced && !owner_only(info, &info.acl) {
                let message = "the bucket's ACL gives rights to others; BucketOwnerEnforced takes no such ACL";
                return Err(S3ErrorCode::InvalidRequest.because(message));
            }
            info.object_ownership = Some(call.object_ownership);
        }
        A::DeleteBucketOwnershipControls(_) => info.object_ownership = None,
        A::PutPublicAccessBlock(call) => info.public_access_block = Some(call.public_access_block),
        A::DeletePublicAccessBlock(_) => info.public_access_block = None,
        A::PutObjectLockConfiguration(call) => info.object_lock = Some(checked_lock(info, &call.object_lock)?),
        A::PutBucketEncryption(_) => return Err(no_encryption()),
        A::DeleteBucketEncryption(_) => info.encryption = None,
        A::PutBucketQuota(call) => info.quota = Some(call.quota),
        A::DeleteBucketQuota(_) => info.quota = None,
        A::PutBucketWebsite(call) => info.website = Some(checked_website(&call.website)?),
        A::DeleteBucketWebsite(_) => info.website = None,
        A::PutBucketLogging(call) => info.logging = checked_target(call.logging.as_ref())?,
        A::PutBucketLifecycleConfiguration(call) => record.lifecycle = Some(checked_rules(&call.rules)?),
        A::DeleteBucketLifecycle(_) => record.lifecycle = None,
        A::PutBucketTagging(call) => record.tags = Some(checked_tags(&call.tags)?),
        A::DeleteBucketTagging(_) => record.tags = None,
        other => {
            let message = format!("{} changes nothing of a bucket", other.name());
            return Err(S3ErrorCode::InternalError.because(message));
        }
    }
    Ok(())
}

fn locks(info: &BucketInfo) -> bool {
    info.object_lock.as_ref().is_some_and(|lock| lock.enabled)
}

fn check_count(what: &str, count: usize, most: usize) -> Result<(), Refusal> {
    if (1..=most).contains(&count) {
        return Ok(());
    }
    Err(S3ErrorCode::MalformedXML.because(format!("there are {count} {what}; give 1 to {most}")))
}

fn owner_only(info: &BucketInfo, acl: &Acl) -> bool {
    acl.grants.iter().all(|grant| {
        let owner = matches!(&grant.grantee, Grantee::CanonicalUser(id) if *id == info.owner.id);
        owner && grant.permission == Permission::FullControl
    })
}

fn checked_acl(info: &BucketInfo, acl: &Acl) -> Result<Acl, Refusal> {
    if acl.owner.id != info.owner.id {
        let message = format!("the bucket is owned by '{}', and an ACL cannot change that", info.owner.id);
        return Err(S3ErrorCode::AccessDenied.because(message));
    }
    if acl.grants.len() > GRANTS_MAX {
        let message = format!("the ACL has {} grants; at most {GRANTS_MAX} are taken", acl.grants.len());
        return Err(S3ErrorCode::MalformedACLError.because(message));
    }
    let enforced = info.object_ownership == Some(ObjectOwnership::BucketOwnerEnforced);
    if enforced && !owner_only(info, acl) {
        return Err(S3ErrorCode::AccessControlListNotSupported.into());
    }
    Ok(acl.clone())
}

fn checked_policy(policy: &str) -> Result<String, Refusal> {
    if policy.len() > POLICY_BYTES_MAX {
        let message = format!("the policy has {} bytes; at most {POLICY_BYTES_MAX} are taken", policy.len());
        return Err(S3ErrorCode::MalformedPolicy.because(message));
    }
    match serde_json::from_str::<serde_json::Value>(policy) {
        Ok(serde_json::Value::Object(_)) => Ok(policy.to_string()),
        _ => Err(S3ErrorCode::MalformedPolicy.into()),
    }
}

/// Locks are switched on where versions are kept, and never off again.
fn checked_lock(info: &BucketInfo, lock: &ObjectLockConfiguration) -> Result<ObjectLockConfiguration, Refusal> {
    if !lock.enabled {
        return Err(S3ErrorCode::MalformedXML.because("object lock cannot be switched off; set enabled"));
    }
    if info.versioning != Some(Versioning::Enabled) {
        let message = "versioning must be Enabled on the bucket before its objects can be locked";
        return Err(S3ErrorCode::InvalidBucketState.because(message));
    }
    if let Some(retention) = &lock.default_retention {
        let given = [retention.days, retention.years];
        let one = given.iter().flatten().count() == 1 && !given.contains(&Some(0));
        if !one {
            let message = "a default retention has either days or years, and at least one";
            return Err(S3ErrorCode::MalformedXML.because(message));
        }
    }
    Ok(lock.clone())
}

fn checked_rules(rules: &[LifecycleRule]) -> Result<Vec<LifecycleRule>, Refusal> {
    check_count("lifecycle rules", rules.len(), LIFECYCLE_RULES_MAX)?;
    let named: Vec<&String> = rules.iter().filter_map(|rule| rule.id.as_ref()).collect();
    if named.iter().collect::<BTreeSet<_>>().len() < named.len() {
        return Err(S3ErrorCode::InvalidArgument.because("two lifecycle rules have the same id"));
    }
    Ok(rules.to_vec())
}

fn checked_website(website: &Website) -> Result<Website, Refusal> {
    if website.routing_rules.len() > ROUTING_RULES_MAX {
        let message = format!("there are {} routing rules; give {ROUTING_RULES_MAX}", website.routing_rules.len());
        return Err(S3ErrorCode::InvalidRequest.because(message));
    }
    let texts = website.routing_rules.iter().flat_map(|rule| {
        [&rule.key_prefix, &rule.host_name, &rule.protocol, &rule.replace_key_prefix_with, &rule.replace_key_with]
    });
    let mut texts = texts.chain([&website.index_suffix, &website.error_key]).flatten();
    if texts.any(|text| text.len() > KEY_BYTES_MAX) {
        let message = format!("a text of the website has more than {KEY_BYTES_MAX} bytes");
        return Err(S3ErrorCode::InvalidRequest.because(message));
    }
    Ok(website.clone())
}

fn checked_target(target: Option<&LogTarget>) -> Result<Option<LogTarget>, Refusal> {
    let Some(target) = target else { return Ok(None) };
    check_bucket_name(&target.bucket)?;
    if target.prefix.len() > LOG_PREFIX_BYTES_MAX {
        let message =
            format!("the prefix of the log has {} bytes; give it {LOG_PREFIX_BYTES_MAX}", target.prefix.len());
        return Err(S3ErrorCode::InvalidArgument.because(message));
    }
    Ok(Some(target.clone()))
}

fn checked_tags(tags: &[Tag]) -> Result<Vec<Tag>, Refusal> {
    if tags.len() > BUCKET_TAGS_MAX {
        let message = format!("the bucket was given {} tags; at most {BUCKET_TAGS_MAX} are taken", tags.len());
        return Err(S3ErrorCode::InvalidTag.because(message));
    }
    if tags.iter().map(|tag| &tag.key).collect::<BTreeSet<_>>().len() < tags.len() {
        return Err(S3ErrorCode::InvalidTag.because("two tags have the same key"));
    }
    Ok(tags.to_vec())
}
