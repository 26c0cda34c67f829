//! What is read and changed of one version beside its bytes: tags, ACL, legal hold, retention, restore.
//!
//! By design: a change is one command at the shard, under its check of locks; a delete marker has none of these.
//! Not here: whole versions (objects.rs).

use crate::objects::document::{
    changes, read_acl, read_legal_hold, read_retention, read_tags, read_version_id, set_acl, set_legal_hold,
    set_retention, tags_field, version_id, Found,
};
use crate::objects::single_shard::{other_reply, single_shard, Ask, ShardCall};
use crate::objects::{check_lock, found, key_bytes, Read};
use crate::request::Terms;
use crate::state::cache::Bucket;
use crate::state::PlanContext;
use crate::Offered;
use base_types::s3::{
    field, AclAnswer, BucketInfo, Document, LegalHold, ObjectTagging, RetentionAnswer, S3Action, S3Answer, S3ErrorCode,
    VersionChanged,
};
use base_types::Refusal;
use bytes::Bytes;
use core_backends::shard::{Command, Condition, Query, Reply};

/// The planner of a call, if it is one of these.
pub(crate) fn planner_for(call: S3Action, terms: &Terms) -> Offered {
    macro_rules! of_version {
        ($call:ident, $what:expr) => {{
            let what = $what;
            let call = *$call;
            let (bucket, key, version_id) = (call.bucket, call.key, call.version_id);
            Ok(single_shard(OfVersion { bucket, key, version_id, what }, terms))
        }};
    }
    match call {
        S3Action::GetObjectTagging(call) => of_version!(call, What::Tagging),
        S3Action::GetObjectAcl(call) => of_version!(call, What::Acl),
        S3Action::GetObjectLegalHold(call) => of_version!(call, What::LegalHold),
        S3Action::GetObjectRetention(call) => of_version!(call, What::Retention),
        S3Action::RestoreObject(call) => of_version!(call, What::Restore),
        S3Action::DeleteObjectTagging(call) => of_version!(call, What::Change(S3Action::from((*call).clone()))),
        S3Action::PutObjectTagging(call) => of_version!(call, What::Change(S3Action::from((*call).clone()))),
        S3Action::PutObjectAcl(call) => of_version!(call, What::Change(S3Action::from((*call).clone()))),
        S3Action::PutObjectLegalHold(call) => of_version!(call, What::Change(S3Action::from((*call).clone()))),
        S3Action::PutObjectRetention(call) => of_version!(call, What::Change(S3Action::from((*call).clone()))),
        other => Err(other),
    }
}

enum What {
    Tagging,
    Acl,
    LegalHold,
    Retention,
    Restore,
    /// One of the calls that change something.
    Change(S3Action),
}

struct OfVersion {
    bucket: String,
    key: String,
    version_id: Option<String>,
    what: What,
}

/// Fields, each set or removed.
type Changes = Vec<(u16, Option<Bytes>)>;

/// The fields a call sets, as they will be, and whether it passes over governance retention.
fn change(call: &S3Action, info: &BucketInfo) -> Result<(Changes, bool), Refusal> {
    let mut document = Document::new();
    Ok(match call {
        S3Action::PutObjectTagging(call) => (vec![(field::TAGS, tags_field(&call.tags)?)], false),
        S3Action::PutObjectAcl(call) => {
            set_acl(&mut document, info, Some(&call.acl))?;
            (changes(&[field::OWNER, field::ACL], &document), false)
        }
        S3Action::PutObjectLegalHold(call) => {
            check_lock(info)?;
            set_legal_hold(&mut document, call.legal_hold);
            (changes(&[field::LEGAL_HOLD], &document), false)
        }
        S3Action::PutObjectRetention(call) => {
            check_lock(info)?;
            set_retention(&mut document, call.retention);
            (changes(&[field::LOCK_MODE, field::LOCK_UNTIL], &document), call.bypass_governance_retention)
        }
        _ => (vec![(field::TAGS, None)], false),
    })
}

impl ShardCall for OfVersion {
    fn name(&self) -> &'static str {
        match &self.what {
            What::Tagging => "GetObjectTagging",
            What::Acl => "GetObjectAcl",
            What::LegalHold => "GetObjectLegalHold",
            What::Retention => "GetObjectRetention",
            What::Restore => "RestoreObject",
            What::Change(call) => call.name(),
        }
    }

    fn bucket(&self) -> &str {
        &self.bucket
    }

    fn key(&self) -> &str {
        &self.key
    }

    fn ask(&mut self, context: &mut PlanContext<'_>, bucket: &Bucket, epoch: u64) -> Result<Ask, Refusal> {
        let (key, version) = (key_bytes(&self.key), read_version_id(self.version_id.as_deref())?);
        let What::Change(call) = &self.what else {
            let condition = Condition::default();
            return Ok(Ask::Read(Query::Get { epoch, key, version, inline: false, condition }));
        };
        let (changes, bypass_governance) = change(call, &bucket.record.info)?;
        let (at_unix_ms, condition) = (context.unix_ms, Condition::default());
        Ok(Ask::Write(Command::Update { epoch, key, version, changes, at_unix_ms, bypass_governance, condition }))
    }

    fn answer(&mut self, bucket: &Bucket, reply: Reply) -> Result<S3Answer, Refusal> {
        let info = &bucket.record.info;
        if let What::Change(_) = self.what {
            let Reply::Updated { stamp, null } = reply else { return Err(other_reply()) };
            return Ok(VersionChanged { version_id: version_id(info, stamp, null) }.into());
        }
        match found(&self.key, reply)? {
            Read::Version(found) if !found.marker => tell(&self.what, info, &found),
            Read::Version(_) => Err(S3ErrorCode::MethodNotAllowed.because("the version is a delete marker")),
            Read::NotModified => Err(other_reply()),
        }
    }
}

/// What is asked of a version.
fn tell(what: &What, info: &BucketInfo, found: &Found) -> Result<S3Answer, Refusal> {
    let document = &found.document;
    match what {
        What::Acl => Ok(AclAnswer { acl: read_acl(document, info)? }.into()),
        What::LegalHold => {
            check_lock(info)?;
            Ok(LegalHold { legal_hold: read_legal_hold(document) }.into())
        }
        What::Retention => {
            check_lock(info)?;
            let retention = read_retention(document);
            let retention = retention.ok_or_else(|| Refusal::from(S3ErrorCode::NoSuchObjectLockConfiguration))?;
            Ok(RetentionAnswer { retention }.into())
        }
        What::Restore => {
            let message = "Restore is not allowed for the object's current storage class: Hive archives nothing";
            Err(S3ErrorCode::InvalidObjectState.because(message))
        }
        What::Tagging | What::Change(_) => {
            let version_id = version_id(info, found.stamp, found.null);
            Ok(ObjectTagging { version_id, tags: read_tags(document)? }.into())
        }
    }
}
