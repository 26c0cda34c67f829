//! Objects and their versions put, read and deleted: one call to one shard each.
//!
//! Always: versioning and defaults are those of the bucket's record as the core knows it, at most
//! [`crate::state::cache::RECORD_AGE_MAX`] old; what is put later than its intent in the data store ends is refused.
//! Held by: `old_records_and_older_maps_are_not_used`, `a_put_behind_its_intent_is_refused`.
//! Not here: what is changed of a version (versions.rs), many deleted at once (delete_many.rs), copies (copies.rs).

pub(crate) mod conditions;
pub(crate) mod counted;
pub(crate) mod delete_many;
pub(crate) mod document;
pub(crate) mod quota;
pub(crate) mod single_shard;
pub(crate) mod versions;

use crate::objects::conditions::{of_read, of_write};
use crate::objects::document::{
    object_version, read_version_id, set_content, set_extras, version_id, version_text, Content, Extras, Found,
};
use crate::objects::single_shard::{other_reply, single_shard, Ask, ShardCall};
use crate::request::Terms;
use crate::state::cache::Bucket;
use crate::state::{PlanContext, S3Planner};
use crate::Offered;
use base_types::s3::{
    BucketInfo, DeleteObject, DeleteObjectAnswer, Document, GetObject, GetObjectAttributes, HeadObject, PutObject,
    PutObjectAnswer, ReadConditions, Retention, S3Action, S3Answer, S3ErrorCode, Version,
};
use base_types::Refusal;
use bytes::Bytes;
use core_backends::shard::{Command, DeleteStep, DeleteTerms, Deleted, PutStep, Query, Reply};

/// The planner of a call, if it is one of these.
pub(crate) fn planner_for(call: S3Action, terms: &Terms) -> Offered {
    Ok(match call {
        S3Action::PutObject(call) => single_shard(Put { call }, terms),
        S3Action::GetObject(call) => single_shard(Get::from(*call), terms),
        S3Action::HeadObject(call) => single_shard(Get::from(*call), terms),
        S3Action::GetObjectAttributes(call) => single_shard(Get::from(*call), terms),
        S3Action::DeleteObject(call) => single_shard(Delete { call }, terms),
        other => return versions::planner_for(other, terms).or_else(|other| delete_many::planner_for(other, terms)),
    })
}

/// The planner of a read.
pub(crate) fn get(call: GetObject, terms: &Terms) -> Box<S3Planner> {
    single_shard(Get::from(call), terms)
}

/// Refuses locks where the bucket knows none.
pub(crate) fn check_lock(info: &BucketInfo) -> Result<(), Refusal> {
    if info.object_lock.as_ref().is_some_and(|lock| lock.enabled) {
        return Ok(());
    }
    Err(S3ErrorCode::InvalidRequest.because("Bucket is missing Object Lock Configuration"))
}

/// The retention of what is put now: the one asked for, else the bucket's default.
pub(crate) fn retention(info: &BucketInfo, asked: Option<Retention>, now_ms: u64) -> Option<Retention> {
    let default = info.object_lock.as_ref().and_then(|lock| lock.default_retention.as_ref());
    asked.or_else(|| default.map(|default| default.from(now_ms)))
}

pub(crate) struct Put {
    pub call: Box<PutObject>,
}

impl ShardCall for Put {
    fn name(&self) -> &'static str {
        "PutObject"
    }

    fn bucket(&self) -> &str {
        &self.call.bucket
    }

    fn key(&self) -> &str {
        &self.call.key
    }

    fn ask(&mut self, context: &mut PlanContext<'_>, bucket: &Bucket, epoch: u64) -> Result<Ask, Refusal> {
        let (call, info) = (&self.call, &bucket.record.info);
        if call.retention.is_some() || call.legal_hold {
            check_lock(info)?;
        }
        let mut document = Document::new();
        let extras = Extras {
            headers: &call.headers,
            tags: &call.tags,
            acl: call.acl.as_ref(),
            retention: retention(info, call.retention, context.unix_ms),
            legal_hold: call.legal_hold,
        };
        set_extras(&mut document, info, &extras)?;
        let content = Content { size: call.size, etag: &call.etag, checksums: &call.checksums, data: &call.data };
        let inline = set_content(&mut document, &content)?;
        let step = PutStep {
            epoch,
            key: key_bytes(&call.key),
            versioning: bucket.record.versioning(),
            at_unix_ms: context.unix_ms,
            document: document.encode(),
            inline,
            condition: of_write(&call.conditions),
            once: None,
            data_expires_ms: call.data_expires_ms,
        };
        Ok(Ask::Write(Command::Put { step }))
    }

    fn adds(&self) -> Option<u64> {
        Some(self.call.size)
    }

    fn answer(&mut self, bucket: &Bucket, reply: Reply) -> Result<S3Answer, Refusal> {
        let Reply::Put { stamp, null, modified_ms } = reply else { return Err(other_reply()) };
        Ok(PutObjectAnswer {
            etag: self.call.etag.clone(),
            version_id: version_id(&bucket.record.info, stamp, null),
            // That of the put that was carried out, which may have been an earlier try.
            last_modified_ms: modified_ms,
            size: self.call.size,
            checksums: self.call.checksums.clone(),
        }
        .into())
    }
}

pub(crate) fn key_bytes(key: &str) -> Bytes {
    Bytes::copy_from_slice(key.as_bytes())
}

/// Reads of a whole version.
struct Get {
    name: &'static str,
    bucket: String,
    key: String,
    version_id: Option<String>,
    conditions: ReadConditions,
    with_data: bool,
}

impl From<GetObject> for Get {
    fn from(call: GetObject) -> Get {
        let GetObject { bucket, key, version_id, conditions } = call;
        Get { name: "GetObject", bucket, key, version_id, conditions, with_data: true }
    }
}

impl From<HeadObject> for Get {
    fn from(call: HeadObject) -> Get {
        let HeadObject { bucket, key, version_id, conditions } = call;
        Get { name: "HeadObject", bucket, key, version_id, conditions, with_data: false }
    }
}

impl From<GetObjectAttributes> for Get {
    fn from(call: GetObjectAttributes) -> Get {
        let GetObjectAttributes { bucket, key, version_id } = call;
        let conditions = ReadConditions::default();
        Get { name: "GetObjectAttributes", bucket, key, version_id, conditions, with_data: false }
    }
}

impl ShardCall for Get {
    fn name(&self) -> &'static str {
        self.name
    }

    fn bucket(&self) -> &str {
        &self.bucket
    }

    fn key(&self) -> &str {
        &self.key
    }

    fn ask(&mut self, _: &mut PlanContext<'_>, _: &Bucket, epoch: u64) -> Result<Ask, Refusal> {
        Ok(Ask::Read(Query::Get {
            epoch,
            key: key_bytes(&self.key),
            version: read_version_id(self.version_id.as_deref())?,
            inline: self.with_data,
            condition: of_read(&self.conditions),
        }))
    }

    fn answer(&mut self, bucket: &Bucket, reply: Reply) -> Result<S3Answer, Refusal> {
        let found = match found(&self.key, reply)? {
            Read::Version(found) => found,
            Read::NotModified => return Err(S3ErrorCode::NotModified.into()),
        };
        Ok(object_version(&self.key, &bucket.record.info, found, self.with_data)?.into())
    }
}

/// What a read of a version found.
pub(crate) enum Read {
    Version(Found),
    NotModified,
}

/// What a shard's reply to `Get` means; a marker that is the newest version is no object.
pub(crate) fn found(key: &str, reply: Reply) -> Result<Read, Refusal> {
    Ok(Read::Version(match reply {
        Reply::Object { stamp, null, document, inline, .. } => Found::decode(stamp, null, false, document, inline)?,
        Reply::Marker { latest: true, .. } => {
            return Err(S3ErrorCode::NoSuchKey.because(format!("the key '{key}' does not exist: it was deleted")));
        }
        Reply::Marker { stamp, null, document, .. } => Found::decode(stamp, null, true, document, None)?,
        Reply::NotModified { .. } => return Ok(Read::NotModified),
        _ => return Err(other_reply()),
    }))
}

struct Delete {
    call: Box<DeleteObject>,
}

/// What the deletes of one call share.
pub(crate) fn delete_terms(
    context: &PlanContext<'_>,
    bucket: &Bucket,
    epoch: u64,
    bypass_governance: bool,
) -> DeleteTerms {
    DeleteTerms {
        epoch,
        versioning: bucket.record.versioning(),
        at_unix_ms: context.unix_ms,
        bypass_governance,
        mfa_missing: false,
        owner: None,
    }
}

/// What became of a delete.
pub(crate) fn deleted(version_id: Option<&str>, deleted: &Deleted) -> DeleteObjectAnswer {
    match (deleted, version_id) {
        (Deleted::Marked { stamp, null }, _) => {
            DeleteObjectAnswer { delete_marker: true, version_id: Some(version_text(*stamp, *null)) }
        }
        (Deleted::Removed { marker, .. }, Some(id)) => {
            DeleteObjectAnswer { delete_marker: *marker, version_id: Some(id.to_owned()) }
        }
        (Deleted::Nothing, Some(id)) => DeleteObjectAnswer { delete_marker: false, version_id: Some(id.to_owned()) },
        (Deleted::Removed { .. } | Deleted::Nothing, None) => DeleteObjectAnswer::default(),
    }
}

impl ShardCall for Delete {
    fn name(&self) -> &'static str {
        "DeleteObject"
    }

    fn bucket(&self) -> &str {
        &self.call.bucket
    }

    fn key(&self) -> &str {
        &self.call.key
    }

    fn ask(&mut self, context: &mut PlanContext<'_>, bucket: &Bucket, epoch: u64) -> Result<Ask, Refusal> {
        let call = &self.call;
        let version: Version = read_version_id(call.version_id.as_deref())?;
        let step = DeleteStep { key: key_bytes(&call.key), version, condition: of_write(&call.conditions) };
        let terms = delete_terms(context, bucket, epoch, call.bypass_governance_retention);
        Ok(Ask::Write(Command::Delete { terms, step }))
    }

    fn answer(&mut self, _: &Bucket, reply: Reply) -> Result<S3Answer, Refusal> {
        let Reply::Deleted { deleted: outcome } = reply else { return Err(other_reply()) };
        Ok(deleted(self.call.version_id.as_deref(), &outcome).into())
    }
}
