//! Uploads in parts: begun, added to, listed. They live in the bucket's own cluster, so no shard is asked.
//!
//! Always: a part's bytes are inline or have a place in the data store; what it replaces is freed by the very
//! command (core-backends, multipart).
//! Held by: `an_abort_frees_all_data`.
//! Not here: how an upload ends (complete.rs, abort.rs), parts copied (copies.rs).

pub(crate) mod abort;
pub(crate) mod complete;
pub(crate) mod sweep;
pub(crate) mod upload_id;

use crate::buckets::with_bucket::{with_bucket, BucketWork, Place, Trouble};
use crate::clusters;
use crate::listing::lines::{key_text, Encoding};
use crate::objects::document::{
    algorithm_word, check_inline, check_location, checksum_type_word, checksums_text, owner_text, read_algorithm,
    read_checksum_type, read_checksums, read_owner, set_extras, Extras,
};
use crate::objects::quota::Guard;
use crate::objects::single_shard::shard_trouble;
use crate::objects::{check_lock, key_bytes};
use crate::request::{done_at, multipart_read, multipart_write, other_reply_of_uploads, reply, RequestIds, Terms};
use crate::state::cache::Bucket;
use crate::state::leave::Adds;
use crate::state::{PlanContext, S3Planner};
use crate::Offered;
use base_types::s3::{
    field, BucketInfo, CreateMultipartUpload, Data, Document, ListMultipartUploads, ListParts, Owner, PartEntry,
    PartUploaded, Parts, S3Action, S3Answer, S3ErrorCode, UploadCreated, UploadEntry, UploadPart, Uploads,
    KEY_BYTES_MAX, MAX_KEYS_MAX,
};
use base_types::{ErrorCode, OrderedAt, Refusal};
use bytes::Bytes;
use core_backends::multipart::{Command, Part, Query, Reply, Upload, UploadItem};
use core_flow::{CallResult, Step};

/// The planner of a call, if it is one of these.
pub(crate) fn planner_for(call: S3Action, terms: &Terms) -> Offered {
    Ok(match call {
        S3Action::CreateMultipartUpload(call) => at_uploads(Create(call), terms),
        S3Action::UploadPart(call) => upload_part(call, terms),
        S3Action::ListParts(call) => at_uploads(PartsOf(call), terms),
        S3Action::ListMultipartUploads(call) => at_uploads(UploadsOf(call), terms),
        S3Action::CompleteMultipartUpload(call) => complete::planner(call, terms),
        S3Action::AbortMultipartUpload(call) => abort::planner(call, terms),
        other => return Err(other),
    })
}

/// The planner of a part.
pub(crate) fn upload_part(call: Box<UploadPart>, terms: &Terms) -> Box<S3Planner> {
    at_uploads(PutPart { call }, terms)
}

/// What a bucket's uploads are asked.
enum Ask {
    Write(Command),
    Read(Vec<Query>),
}

/// A call that is one round at a bucket's uploads.
trait UploadsCall: Send {
    fn name(&self) -> &'static str;
    fn bucket(&self) -> &str;
    fn ask(&mut self, context: &mut PlanContext<'_>, bucket: &Bucket) -> Result<Ask, Refusal>;
    /// How many bytes it adds to what uploads hold; `None`: it puts nothing.
    fn adds(&self) -> Option<u64> {
        None
    }
    fn answer(&mut self, bucket: &Bucket, replies: Vec<Reply>) -> Result<S3Answer, Refusal>;
}

fn at_uploads<C: UploadsCall + 'static>(call: C, terms: &Terms) -> Box<S3Planner> {
    with_bucket(AtUploads { call, ids: RequestIds::new(terms), guard: Guard::default() })
}

struct AtUploads<C> {
    call: C,
    ids: RequestIds,
    /// Of the bucket's quota.
    guard: Guard,
}

impl<C: UploadsCall> BucketWork for AtUploads<C> {
    fn name(&self) -> &'static str {
        self.call.name()
    }

    fn bucket(&self) -> &str {
        self.call.bucket()
    }

    /// For the count that a quota asks for.
    fn needs_map(&self) -> bool {
        self.call.adds().is_some()
    }

    fn next(
        &mut self,
        context: &mut PlanContext<'_>,
        at: &Place,
        mut answers: Vec<CallResult>,
    ) -> Result<Step, Trouble> {
        let id = at.bucket.id;
        if let Some(bytes) = self.call.adds() {
            let adds = Adds { key: None, bytes, instead_of: 0 };
            if let Some(step) = self.guard.next(context, at, adds, &mut answers)? {
                return Ok(step);
            }
        }
        if answers.is_empty() {
            let calls = match self.call.ask(context, &at.bucket)? {
                Ask::Read(queries) => queries.iter().map(|query| multipart_read(id, query)).collect(),
                Ask::Write(command) => {
                    let request_id = self.ids.id(context, 0);
                    multipart_write(id, &command, request_id).map(|call| vec![call])
                }
            };
            return Ok(Step::Calls(calls?));
        }
        let mut ordered: Option<OrderedAt> = None;
        let mut replies = Vec::with_capacity(answers.len());
        for result in answers {
            let (told, at) = reply::<Reply>(result).map_err(|failure| uploads_trouble(id, failure))?;
            ordered = Some(at);
            replies.push(told);
        }
        let answer = self.call.answer(&at.bucket, replies)?;
        let ordered = ordered.ok_or_else(other_reply_of_uploads)?;
        Ok(done_at(answer, ordered, None, Some(clusters::bucket(id)?)))
    }
}

/// What a failure of a bucket's uploads means.
pub(crate) fn uploads_trouble(id: u128, failure: base_types::action::Failure) -> Trouble {
    if failure.refusal.code == ErrorCode::UnknownCluster {
        return Trouble::Bucket(failure);
    }
    // The record, read again, shows what became of the bucket.
    if failure.refusal.code == ErrorCode::BucketClosing {
        return Trouble::Again(failure);
    }
    match clusters::bucket(id) {
        Ok(cluster) => shard_trouble(Some(&cluster), failure),
        Err(refusal) => refusal.into(),
    }
}

/// The upload a client names.
pub(crate) fn upload_of(bucket: u128, id: &str) -> Result<u64, Refusal> {
    upload_id::parse(bucket, id).ok_or_else(|| {
        let message = "the upload does not exist; its id may be wrong, or it was aborted or completed";
        S3ErrorCode::NoSuchUpload.because(message)
    })
}

struct Create(Box<CreateMultipartUpload>);

impl UploadsCall for Create {
    fn name(&self) -> &'static str {
        "CreateMultipartUpload"
    }

    fn bucket(&self) -> &str {
        &self.0.bucket
    }

    fn ask(&mut self, context: &mut PlanContext<'_>, bucket: &Bucket) -> Result<Ask, Refusal> {
        let (call, info) = (&self.0, &bucket.record.info);
        if call.retention.is_some() || call.legal_hold {
            check_lock(info)?;
        }
        let mut document = Document::new();
        let extras = Extras {
            headers: &call.headers,
            tags: &call.tags,
            acl: call.acl.as_ref(),
            retention: call.retention,
            legal_hold: call.legal_hold,
        };
        set_extras(&mut document, info, &extras)?;
        let word = |word: &'static str| Bytes::from_static(word.as_bytes());
        document.set(field::CHECKSUM_ALGORITHM, call.checksum_algorithm.map(algorithm_word).map(word));
        document.set(field::CHECKSUM_TYPE, call.checksum_type.map(checksum_type_word).map(word));
        Ok(Ask::Write(Command::Create {
            key: key_bytes(&call.key),
            at_unix_ms: context.unix_ms,
            document: document.encode(),
            initiator: call.initiator.as_ref().map(owner_text).transpose()?.unwrap_or_default(),
        }))
    }

    fn answer(&mut self, bucket: &Bucket, replies: Vec<Reply>) -> Result<S3Answer, Refusal> {
        let [Reply::Upload { upload }] = &replies[..] else { return Err(other_reply_of_uploads()) };
        Ok(UploadCreated { upload_id: upload_id::text(bucket.id, upload.upload) }.into())
    }
}

struct PutPart {
    call: Box<UploadPart>,
}

impl UploadsCall for PutPart {
    fn name(&self) -> &'static str {
        "UploadPart"
    }

    fn bucket(&self) -> &str {
        &self.call.bucket
    }

    fn adds(&self) -> Option<u64> {
        Some(self.call.size)
    }

    fn ask(&mut self, context: &mut PlanContext<'_>, bucket: &Bucket) -> Result<Ask, Refusal> {
        let call = &self.call;
        let (location, inline) = match &call.data {
            Data::Inline(bytes) => {
                check_inline(bytes, call.size)?;
                (Bytes::new(), Some(bytes.clone()))
            }
            Data::Location(location) => (key_bytes(check_location(location)?), None),
            Data::Parts(_) => return Err(S3ErrorCode::InvalidRequest.because("a part does not consist of parts")),
        };
        let part = Part {
            number: call.part_number,
            etag: call.etag.clone(),
            size: call.size,
            at_unix_ms: context.unix_ms,
            checksums: checksums_text(&call.checksums).into(),
            location,
        };
        Ok(Ask::Write(Command::PutPart {
            key: key_bytes(&call.key),
            upload: upload_of(bucket.id, &call.upload_id)?,
            part,
            inline,
            data_expires_ms: call.data_expires_ms,
        }))
    }

    fn answer(&mut self, _: &Bucket, replies: Vec<Reply>) -> Result<S3Answer, Refusal> {
        let [Reply::Part { at_unix_ms, .. }] = &replies[..] else { return Err(other_reply_of_uploads()) };
        // That of the part that was taken, which may have been an earlier try's.
        Ok(PartUploaded { etag: self.call.etag.clone(), last_modified_ms: *at_unix_ms }.into())
    }
}

/// An upload as listings tell it.
fn entry(
    bucket: &Bucket,
    key: String,
    (upload, initiated_ms): (u64, u64),
    document: &Bytes,
    initiator: &Bytes,
) -> Result<UploadEntry, Refusal> {
    let info: &BucketInfo = &bucket.record.info;
    let document = Document::decode(document.clone());
    let document = document.map_err(|_| S3ErrorCode::InternalError.because("an upload's document cannot be read"))?;
    let owner = document.text(field::OWNER).map_or_else(|| info.owner.clone(), read_owner);
    let initiator: Option<Owner> = core::str::from_utf8(initiator).ok().filter(|text| !text.is_empty()).map(read_owner);
    Ok(UploadEntry {
        key,
        upload_id: upload_id::text(bucket.id, upload),
        initiated_ms,
        initiator,
        owner: Some(owner),
        storage_class: document.text(field::STORAGE_CLASS).map(str::to_owned),
        checksum_algorithm: document.get(field::CHECKSUM_ALGORITHM).and_then(|word| read_algorithm(word)),
        checksum_type: document.get(field::CHECKSUM_TYPE).and_then(|word| read_checksum_type(word)),
    })
}

struct PartsOf(Box<ListParts>);

impl UploadsCall for PartsOf {
    fn name(&self) -> &'static str {
        "ListParts"
    }

    fn bucket(&self) -> &str {
        &self.0.bucket
    }

    fn ask(&mut self, _: &mut PlanContext<'_>, bucket: &Bucket) -> Result<Ask, Refusal> {
        let (key, upload) = (key_bytes(&self.0.key), upload_of(bucket.id, &self.0.upload_id)?);
        let limit = self.0.max_parts.unwrap_or(MAX_KEYS_MAX).min(MAX_KEYS_MAX);
        let after = self.0.part_number_marker.unwrap_or(0);
        Ok(Ask::Read(vec![Query::ListParts { key: key.clone(), upload, after, limit }, Query::Upload { key, upload }]))
    }

    fn answer(&mut self, bucket: &Bucket, replies: Vec<Reply>) -> Result<S3Answer, Refusal> {
        let [Reply::Parts { parts, more }, Reply::Upload { upload }] = &replies[..] else {
            return Err(other_reply_of_uploads());
        };
        let Upload { upload, at_unix_ms, document, initiator, .. } = upload;
        let one = |part: &Part| PartEntry {
            part_number: part.number,
            last_modified_ms: part.at_unix_ms,
            etag: part.etag.clone(),
            size: part.size,
            checksums: read_checksums(&part.checksums),
        };
        Ok(Parts {
            parts: parts.iter().map(one).collect(),
            is_truncated: *more,
            next_part_number_marker: parts.last().map(|part| part.number),
            upload: entry(bucket, self.0.key.clone(), (*upload, *at_unix_ms), document, initiator)?,
        }
        .into())
    }
}

struct UploadsOf(Box<ListMultipartUploads>);

impl UploadsCall for UploadsOf {
    fn name(&self) -> &'static str {
        "ListMultipartUploads"
    }

    fn bucket(&self) -> &str {
        &self.0.bucket
    }

    fn ask(&mut self, _: &mut PlanContext<'_>, bucket: &Bucket) -> Result<Ask, Refusal> {
        let call = &self.0;
        Encoding::read(call.encoding_type.as_deref())?;
        let text = |text: Option<&str>| key_bytes(text.unwrap_or_default());
        let (delimiter, key_marker) = (text(call.delimiter.as_deref()), text(call.key_marker.as_deref()));
        if [call.prefix.len(), delimiter.len(), key_marker.len()].iter().any(|bytes| *bytes > KEY_BYTES_MAX) {
            let message = format!("a prefix, delimiter or marker has more than {KEY_BYTES_MAX} bytes");
            return Err(S3ErrorCode::KeyTooLongError.because(message));
        }
        let upload_marker = match call.upload_id_marker.as_deref().filter(|id| !id.is_empty()) {
            // In S3 an upload id marker without a key marker has no effect.
            Some(id) if !key_marker.is_empty() => Some(
                upload_id::parse(bucket.id, id)
                    .ok_or_else(|| S3ErrorCode::InvalidArgument.because("Invalid uploadId marker"))?,
            ),
            _ => None,
        };
        let limit = call.max_uploads.unwrap_or(MAX_KEYS_MAX).min(MAX_KEYS_MAX);
        let prefix = key_bytes(&call.prefix);
        Ok(Ask::Read(vec![Query::ListUploads { prefix, delimiter, key_marker, upload_marker, limit }]))
    }

    fn answer(&mut self, bucket: &Bucket, replies: Vec<Reply>) -> Result<S3Answer, Refusal> {
        let [Reply::Uploads { items, more }] = &replies[..] else { return Err(other_reply_of_uploads()) };
        let encoding = Encoding::read(self.0.encoding_type.as_deref())?;
        let mut page = Uploads { is_truncated: *more, ..Uploads::default() };
        for item in items {
            match item {
                UploadItem::Prefix { prefix } => page.common_prefixes.push(encoding.text(key_text(prefix)?)),
                UploadItem::Upload { key, upload, at_unix_ms, document, initiator } => {
                    let key = encoding.text(key_text(key)?);
                    page.uploads.push(entry(bucket, key, (*upload, *at_unix_ms), document, initiator)?);
                }
            }
        }
        match items.last().filter(|_| *more) {
            Some(UploadItem::Prefix { prefix }) => page.next_key_marker = Some(encoding.text(key_text(prefix)?)),
            Some(UploadItem::Upload { key, upload, .. }) => {
                page.next_key_marker = Some(encoding.text(key_text(key)?));
                page.next_upload_id_marker = Some(upload_id::text(bucket.id, *upload));
            }
            None => {}
        }
        Ok(page.into())
    }
}
