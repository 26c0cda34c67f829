//! Put, get, head and delete.

use super::expiry::Subject;
use super::{now_ms, with_headers, Bucket, Gateway, Opened, VersionCall, Who};
use crate::convert::{self, checksums_of, set_checksums, AskedAcl};
use crate::error::{because, code, to_s3};
use crate::form::Upload;
use crate::upload::{open, receive, store_error, Promise};
use crate::validate;
use base_types::s3::*;
use futures::StreamExt as _;
use s3s::dto::{self, StreamingBlob};
use s3s::{S3Request, S3Response, S3Result, TrailingHeaders};
use std::ops::{Range, RangeInclusive};

/// What an object is put with beside its bytes.
pub(super) struct Extras {
    pub headers: ObjectHeaders,
    pub tags: Vec<Tag>,
    pub acl: Acl,
    pub retention: Option<Retention>,
    pub legal_hold: bool,
}

/// What a request says of those, as it came.
pub(super) struct AskedExtras<'a> {
    pub headers: ObjectHeaders,
    pub tagging: Option<&'a str>,
    pub acl: AskedAcl,
    pub lock_mode: Option<&'a str>,
    pub lock_until: Option<&'a dto::Timestamp>,
    pub legal_hold: Option<&'a str>,
}

/// The extras of an input that has the usual fields.
macro_rules! asked_extras {
    ($input:expr) => {
        $crate::gateway::objects::AskedExtras {
            headers: $crate::convert::headers_of!($input),
            tagging: $input.tagging.as_deref(),
            acl: $crate::convert::asked_acl!($input),
            lock_mode: $input.object_lock_mode.as_ref().map(|mode| mode.as_str()),
            lock_until: $input.object_lock_retain_until_date.as_ref(),
            legal_hold: $input.object_lock_legal_hold_status.as_ref().map(|status| status.as_str()),
        }
    };
}
pub(super) use asked_extras;

/// Keys of customers are not kept anywhere: refused, or a client would believe its object encrypted.
macro_rules! refuse_customer_keys {
    ($input:expr) => {
        if $input.sse_customer_algorithm.is_some() || $input.sse_customer_key.is_some() {
            return Err($crate::error::because(
                base_types::s3::S3ErrorCode::NotImplemented,
                "server-side encryption with customer-provided keys is not offered; leave its headers out",
            ));
        }
    };
}
pub(super) use refuse_customer_keys;

/// Sets what `GetObject` and `HeadObject` tell of a version alike.
macro_rules! set_version_headers {
    ($output:expr, $found:expr) => {{
        let found: &ObjectVersion = $found;
        let headers = &found.headers;
        $output.e_tag = Some(convert::etag(&found.etag));
        $output.last_modified = Some(convert::timestamp(found.last_modified_ms));
        $output.version_id = found.version_id.clone();
        $output.content_type = Some(headers.content_type.clone().unwrap_or_else(|| "binary/octet-stream".to_owned()));
        $output.content_encoding = headers.content_encoding.clone();
        $output.content_language = headers.content_language.clone();
        $output.content_disposition = headers.content_disposition.clone();
        $output.cache_control = headers.cache_control.clone();
        $output.expires = headers
            .expires
            .as_deref()
            .and_then(|text| dto::Timestamp::parse(dto::TimestampFormat::HttpDate, text).ok());
        $output.website_redirect_location = headers.website_redirect_location.clone();
        $output.storage_class = headers.storage_class.clone().map(dto::StorageClass::from);
        $output.server_side_encryption = headers.server_side_encryption.clone().map(dto::ServerSideEncryption::from);
        $output.metadata = (!headers.metadata.is_empty())
            .then(|| headers.metadata.iter().map(|(name, value)| (name.clone(), value.clone())).collect());
        $output.object_lock_mode =
            found.retention.map(|retention| dto::ObjectLockMode::from_static(convert::mode_word(retention.mode)));
        $output.object_lock_retain_until_date =
            found.retention.map(|retention| convert::timestamp(retention.retain_until_ms));
        $output.object_lock_legal_hold_status =
            found.legal_hold.then(|| dto::ObjectLockLegalHoldStatus::from_static(dto::ObjectLockLegalHoldStatus::ON));
    }};
}
/// The checksums that `x-amz-trailer` announces.
pub(super) fn announced(headers: &hyper::HeaderMap) -> Vec<ChecksumAlgorithm> {
    let Some(names) = headers.get("x-amz-trailer").and_then(|value| value.to_str().ok()) else { return Vec::new() };
    let named = |algorithm: &ChecksumAlgorithm| {
        let header = format!("x-amz-checksum-{}", crate::checksum::header_name(*algorithm));
        names.split(',').any(|name| name.trim().eq_ignore_ascii_case(&header))
    };
    ChecksumAlgorithm::ALL.into_iter().filter(named).collect()
}

/// How many bytes will come; refused where nobody knows.
pub(super) fn promised_length(headers: &hyper::HeaderMap, content_length: Option<i64>) -> S3Result<u64> {
    let decoded = headers.get("x-amz-decoded-content-length").and_then(|value| value.to_str().ok()?.parse().ok());
    let length = decoded.or_else(|| content_length.and_then(|length| u64::try_from(length).ok()));
    length.ok_or_else(|| code(S3ErrorCode::MissingContentLength))
}

/// The algorithm a request names without its value. `MD5` is none of those that are kept: every body's is computed
/// anyway, and is its etag.
pub(super) fn named_algorithm(algorithm: Option<&dto::ChecksumAlgorithm>) -> S3Result<Option<ChecksumAlgorithm>> {
    let named = algorithm.filter(|word| !word.as_str().eq_ignore_ascii_case("MD5"));
    named.map(|word| convert::algorithm_of(word.as_str())).transpose()
}

/// The MD5 that a request promises, by either of its headers.
pub(super) fn promised_md5(headers: &hyper::HeaderMap, content_md5: Option<&String>) -> S3Result<Option<String>> {
    let checksum = headers.get(crate::upload::CHECKSUM_MD5).and_then(|value| value.to_str().ok());
    match (content_md5, checksum) {
        (Some(one), Some(other)) if one != other => Err(code(S3ErrorCode::BadDigest)),
        (one, other) => Ok(one.map(String::as_str).or(other).map(str::to_owned)),
    }
}

/// Refuses checksums that would be passed over: of algorithms that are not offered.
pub(super) fn refuse_other_checksums(headers: &hyper::HeaderMap) -> S3Result<()> {
    const OTHER: [&str; 4] = ["algorithm", "type", "mode", "md5"];
    let known = |name: &str| {
        OTHER.contains(&name) || ChecksumAlgorithm::ALL.iter().any(|known| crate::checksum::header_name(*known) == name)
    };
    let trailers = headers.get("x-amz-trailer").and_then(|value| value.to_str().ok()).unwrap_or("");
    let trailers = trailers.split(',').map(|name| name.trim().to_ascii_lowercase());
    let mut names = headers.keys().map(|name| name.as_str().to_owned()).chain(trailers);
    match names.find(|name| name.strip_prefix("x-amz-checksum-").is_some_and(|kind| !known(kind))) {
        None => Ok(()),
        Some(name) => {
            let message =
                format!("{name} is of an algorithm that is not offered; docs/guides/s3.md lists those that are");
            Err(because(S3ErrorCode::InvalidRequest, message))
        }
    }
}

/// The conditions of a write on the current version: that it has an etag or has it not, that there is one or is none.
pub(super) fn write_conditions(
    if_match: Option<&dto::ETagCondition>,
    if_none_match: Option<&dto::ETagCondition>,
) -> WriteConditions {
    WriteConditions {
        if_match: if_match.map(convert::condition),
        if_none_match: if_none_match.map(convert::condition),
        ..WriteConditions::default()
    }
}

impl Gateway {
    /// Checks what a new object is put with, and that the caller may put it so.
    pub(super) async fn extras(&self, opened: &Opened, key: &str, asked: AskedExtras<'_>) -> S3Result<Extras> {
        validate::headers(&asked.headers).map_err(to_s3)?;
        let tags = asked.tagging.map(validate::tagging_header).transpose().map_err(to_s3)?.unwrap_or_default();
        let retention = convert::retention_of(asked.lock_mode, asked.lock_until)?;
        let legal_hold = convert::legal_hold_of(asked.legal_hold)?;
        let rights = [
            (asked.acl.is_given() && crate::access::acls_count(&opened.bucket), "s3:PutObjectAcl"),
            (!tags.is_empty(), "s3:PutObjectTagging"),
            (retention.is_some(), "s3:PutObjectRetention"),
            (legal_hold, "s3:PutObjectLegalHold"),
        ];
        for (wanted, right) in rights {
            // Who may put an object owns it, and may say who else touches it.
            let owns = right == "s3:PutObjectAcl" && opened.who.owner.is_some();
            if wanted && !owns {
                opened.who.authorize(&opened.bucket, right, Some(key), None)?;
            }
        }
        if (retention.is_some() || legal_hold) && !opened.bucket.object_lock.as_ref().is_some_and(|lock| lock.enabled) {
            return Err(because(S3ErrorCode::InvalidRequest, "Bucket is missing Object Lock Configuration"));
        }
        if retention.is_some_and(|retention| retention.retain_until_ms <= now_ms()) {
            return Err(because(S3ErrorCode::InvalidArgument, "The retain until date must be in the future!"));
        }
        let acl = self.new_object_acl(opened, &asked.acl)?;
        self.grantees().check(&acl).await?;
        Ok(Extras { headers: asked.headers, tags, acl, retention, legal_hold })
    }

    pub(super) async fn on_put_object(
        &self,
        mut request: S3Request<dto::PutObjectInput>,
    ) -> S3Result<S3Response<dto::PutObjectOutput>> {
        let opened = self.open_key(&request, &request.input.bucket, &request.input.key, "s3:PutObject").await?;
        refuse_other_checksums(&request.headers)?;
        let body = request.input.body.take();
        let trailers: Option<TrailingHeaders> = request.trailing_headers.take();
        let input = &request.input;
        refuse_customer_keys!(input);
        if input.write_offset_bytes.is_some() {
            return Err(because(
                S3ErrorCode::NotImplemented,
                "appending to an object is not offered; put the whole object",
            ));
        }
        let extras = self.extras(&opened, &input.key, asked_extras!(input)).await?;
        let conditions = write_conditions(input.if_match.as_ref(), input.if_none_match.as_ref());
        let by_form = request.extensions.get::<Upload>().map(|upload| upload.length.clone());
        let length = match &by_form {
            None => Some(promised_length(&request.headers, input.content_length)?),
            Some(_) => None,
        };
        let (bytes_min, bytes_max) = by_form.map_or((0, PUT_BYTES_MAX), RangeInclusive::into_inner);
        let promise = Promise {
            length,
            bytes_min,
            md5: promised_md5(&request.headers, input.content_md5.as_ref())?,
            checksums: checksums_of!(input),
            algorithm: named_algorithm(input.checksum_algorithm.as_ref())?,
            trailers,
            trailing: announced(&request.headers),
        };
        let intent = self.intent(&input.bucket, &input.key);
        let body = body.unwrap_or_else(empty_body);
        let received = receive(&self.data, body, promise, bytes_max, intent).await?;
        let call = PutObject {
            bucket: input.bucket.clone(),
            key: input.key.clone(),
            data: received.data.clone(),
            size: received.hashed.length,
            etag: received.hashed.etag(),
            checksums: received.hashed.checksums.clone(),
            headers: extras.headers,
            tags: extras.tags,
            acl: Some(extras.acl),
            retention: extras.retention,
            legal_hold: extras.legal_hold,
            conditions,
            data_expires_ms: received.expires_ms,
        };
        let encryption = call.headers.server_side_encryption.clone();
        let tags = call.tags.clone();
        let put: PutObjectAnswer = self.commit(&opened.bucket, &received, call).await?;
        let subject =
            Subject { key: &input.key, size: received.hashed.length, tags: &tags, last_modified_ms: now_ms() };
        let mut output = dto::PutObjectOutput {
            expiration: self.rules.expiration(&*self.metadata, &opened.bucket, subject).await,
            e_tag: Some(convert::etag(&put.etag)),
            version_id: put.version_id,
            checksum_type: convert::type_to_wire(put.checksums.checksum_type),
            server_side_encryption: encryption.map(dto::ServerSideEncryption::from),
            ..Default::default()
        };
        set_checksums!(output, &put.checksums);
        Ok(S3Response::new(output))
    }

    pub(super) async fn on_get_object(
        &self,
        request: S3Request<dto::GetObjectInput>,
    ) -> S3Result<S3Response<dto::GetObjectOutput>> {
        let who = self.who(&request).await?;
        let input = &request.input;
        refuse_customer_keys!(input);
        let overrides = input.response_content_type.is_some()
            || input.response_content_disposition.is_some()
            || input.response_cache_control.is_some()
            || input.response_content_encoding.is_some()
            || input.response_content_language.is_some()
            || input.response_expires.is_some();
        if overrides && who.owner.is_none() {
            return Err(because(
                S3ErrorCode::InvalidRequest,
                "Request specific response headers cannot be used for anonymous GET requests.",
            ));
        }
        let bucket = self.bucket(&who, &input.bucket).await?;
        who.expect_owner(&bucket)?;
        // Between reading where the bytes are and opening them they can be replaced and removed: look again.
        let mut again = true;
        loop {
            let found = self.version(&read_call(&who, &bucket, &input.key, input.version_id.as_deref(), true)).await?;
            refuse_marker(&found)?;
            check_read(&conditions_of(input), &found)?;
            let asked = AskedRange { range: input.range, part_number: input.part_number };
            let ranged = asked.resolve(&found)?;
            let data = found.data.clone().unwrap_or_default();
            match open(&self.data, &data, found.size, ranged.bytes.clone()).await {
                Ok(stream) => {
                    let left = ranged.bytes.end - ranged.bytes.start;
                    let stream = stream.map(|piece| piece.map_err(std::io::Error::other));
                    let body = StreamingBlob::wrap(sync_wrapper::SyncStream::new(stream));
                    let enabled = input.checksum_mode.is_some();
                    let mut output = get_output(&found, &ranged, body, left, enabled);
                    if input.version_id.is_none() {
                        output.expiration = self.rules.expiration(&*self.metadata, &bucket, subject_of(&found)).await;
                    }
                    let mut response = S3Response::new(output);
                    if ranged.partial {
                        response.status = Some(hyper::StatusCode::PARTIAL_CONTENT);
                    }
                    return Ok(response);
                }
                Err(crate::store::StoreError::Missing(_)) if again => again = false,
                Err(error) => return Err(store_error(error)),
            }
        }
    }

    pub(super) async fn on_head_object(
        &self,
        request: S3Request<dto::HeadObjectInput>,
    ) -> S3Result<S3Response<dto::HeadObjectOutput>> {
        let who = self.who(&request).await?;
        let input = &request.input;
        refuse_customer_keys!(input);
        let bucket = self.bucket(&who, &input.bucket).await?;
        who.expect_owner(&bucket)?;
        let found = self.version(&read_call(&who, &bucket, &input.key, input.version_id.as_deref(), false)).await?;
        refuse_marker(&found)?;
        check_read(&conditions_of(input), &found)?;
        let asked = AskedRange { range: input.range, part_number: input.part_number };
        let ranged = asked.resolve(&found)?;
        let mut output = dto::HeadObjectOutput {
            accept_ranges: Some("bytes".to_owned()),
            content_length: i64::try_from(ranged.bytes.end - ranged.bytes.start).ok(),
            content_range: ranged.content_range(found.size),
            parts_count: ranged.parts_count,
            checksum_type: input
                .checksum_mode
                .as_ref()
                .and_then(|_| convert::type_to_wire(found.checksums.checksum_type)),
            ..Default::default()
        };
        set_version_headers!(output, &found);
        if input.checksum_mode.is_some() {
            set_checksums!(output, ranged.checksums(&found));
        }
        if input.version_id.is_none() {
            output.expiration = self.rules.expiration(&*self.metadata, &bucket, subject_of(&found)).await;
        }
        let mut response = S3Response::new(output);
        if !found.tags.is_empty() {
            // s3s has no such field in this answer.
            response.headers.insert("x-amz-tagging-count", found.tags.len().into());
        }
        if ranged.partial {
            response.status = Some(hyper::StatusCode::PARTIAL_CONTENT);
        }
        Ok(response)
    }

    pub(super) async fn on_delete_object(
        &self,
        request: S3Request<dto::DeleteObjectInput>,
    ) -> S3Result<S3Response<dto::DeleteObjectOutput>> {
        let input = &request.input;
        let right = if input.version_id.is_some() { "s3:DeleteObjectVersion" } else { "s3:DeleteObject" };
        let opened = self.open_key(&request, &input.bucket, &input.key, right).await?;
        let bypass = input.bypass_governance_retention.unwrap_or(false);
        if bypass {
            opened.who.authorize(&opened.bucket, "s3:BypassGovernanceRetention", Some(&input.key), None)?;
        }
        let call = DeleteObject {
            bucket: input.bucket.clone(),
            key: input.key.clone(),
            version_id: input.version_id.clone(),
            bypass_governance_retention: bypass,
            conditions: WriteConditions {
                if_match: input.if_match.as_ref().map(convert::condition),
                if_none_match: None,
                if_match_last_modified_ms: input.if_match_last_modified_time.as_ref().map(crate::times::millis),
                if_match_size: input.if_match_size.and_then(|size| u64::try_from(size).ok()),
            },
        };
        let deleted: DeleteObjectAnswer = self.ask_of(&opened.bucket, call).await?;
        let mut response = S3Response::new(dto::DeleteObjectOutput {
            delete_marker: deleted.delete_marker.then_some(true),
            version_id: deleted.version_id,
            request_charged: None,
        });
        response.status = Some(hyper::StatusCode::NO_CONTENT);
        Ok(response)
    }

    pub(super) async fn on_delete_objects(
        &self,
        request: S3Request<dto::DeleteObjectsInput>,
    ) -> S3Result<S3Response<dto::DeleteObjectsOutput>> {
        let who = self.who(&request).await?;
        let input = request.input;
        let bucket = self.bucket(&who, &input.bucket).await?;
        who.expect_owner(&bucket)?;
        let objects = input.delete.objects;
        if objects.is_empty() || objects.len() > DELETE_OBJECTS_MAX {
            let message = format!(
                "the request does not name 1 to {DELETE_OBJECTS_MAX} objects but {}; send several requests",
                objects.len()
            );
            return Err(because(S3ErrorCode::MalformedXML, message));
        }
        let bypass = input.bypass_governance_retention.unwrap_or(false);
        let (mut allowed, mut results) = (Vec::new(), Vec::new());
        for object in objects {
            if bucket.policy.is_some() {
                // A decision by a policy can take a good part of a millisecond: others have their turn between two.
                tokio::task::yield_now().await;
            }
            match may_delete(&who, &bucket, &object, bypass) {
                Ok(()) => allowed.push(to_delete(object)),
                Err(error) => results.push(DeleteResult {
                    key: object.key,
                    version_id: object.version_id,
                    deleted: None,
                    code: Some(error.code().as_str().to_owned()),
                    message: error.message().map(str::to_owned),
                }),
            }
        }
        if !allowed.is_empty() {
            let call = DeleteObjects { bucket: input.bucket, objects: allowed, bypass_governance_retention: bypass };
            let answer: DeleteObjectsAnswer = self.ask_of(&bucket, call).await?;
            results.extend(answer.results);
        }
        Ok(S3Response::new(deletes_to_wire(results, input.delete.quiet.unwrap_or(false))))
    }
}

pub(super) fn empty_body() -> StreamingBlob {
    StreamingBlob::wrap(futures::stream::empty::<Result<bytes::Bytes, std::io::Error>>())
}

pub(super) fn read_call<'a>(
    who: &'a Who,
    bucket: &'a Bucket,
    key: &'a str,
    version_id: Option<&'a str>,
    with_data: bool,
) -> VersionCall<'a> {
    VersionCall { who, bucket, key, version_id, action: "s3:GetObject", versioned: "s3:GetObjectVersion", with_data }
}

/// A delete marker that was asked for by its id has nothing to read.
pub(super) fn refuse_marker(found: &ObjectVersion) -> S3Result<()> {
    if !found.delete_marker {
        return Ok(());
    }
    let mut error = code(S3ErrorCode::MethodNotAllowed);
    let mut headers = hyper::HeaderMap::new();
    headers.insert("x-amz-delete-marker", hyper::header::HeaderValue::from_static("true"));
    headers.insert(hyper::header::ALLOW, hyper::header::HeaderValue::from_static("DELETE"));
    error.set_headers(headers);
    Err(error)
}

fn may_delete(who: &Who, bucket: &BucketInfo, object: &dto::ObjectIdentifier, bypass: bool) -> S3Result<()> {
    validate::key(&object.key).map_err(to_s3)?;
    let right = if object.version_id.is_some() { "s3:DeleteObjectVersion" } else { "s3:DeleteObject" };
    who.authorize(bucket, right, Some(&object.key), None)?;
    if bypass {
        who.authorize(bucket, "s3:BypassGovernanceRetention", Some(&object.key), None)?;
    }
    Ok(())
}

fn to_delete(object: dto::ObjectIdentifier) -> ObjectToDelete {
    ObjectToDelete {
        key: object.key,
        version_id: object.version_id,
        conditions: WriteConditions {
            if_match: object.e_tag.map(|etag| etag.value().to_owned()),
            if_none_match: None,
            if_match_last_modified_ms: object.last_modified_time.as_ref().map(crate::times::millis),
            if_match_size: object.size.and_then(|size| u64::try_from(size).ok()),
        },
    }
}

fn deletes_to_wire(results: Vec<DeleteResult>, quiet: bool) -> dto::DeleteObjectsOutput {
    let (mut deleted, mut errors) = (Vec::new(), Vec::new());
    for result in results {
        match result.deleted {
            None => errors.push(dto::Error {
                code: result.code,
                key: Some(result.key),
                message: result.message,
                version_id: result.version_id,
            }),
            Some(_) if quiet => {}
            Some(done) => deleted.push(dto::DeletedObject {
                delete_marker: done.delete_marker.then_some(true),
                delete_marker_version_id: done.version_id.filter(|_| done.delete_marker),
                key: Some(result.key),
                version_id: result.version_id,
            }),
        }
    }
    dto::DeleteObjectsOutput { deleted: Some(deleted), errors: Some(errors), request_charged: None }
}

/// The conditions of a read: `GetObject` and `HeadObject` have the same fields.
trait Conditional {
    fn conditions(&self) -> ReadConditions;
}

macro_rules! conditional {
    ($($input:ident)*) => {
        $(impl Conditional for dto::$input {
            fn conditions(&self) -> ReadConditions {
                convert::read_conditions(
                    self.if_match.as_ref(),
                    self.if_none_match.as_ref(),
                    self.if_modified_since.as_ref(),
                    self.if_unmodified_since.as_ref(),
                )
            }
        })*
    };
}
conditional!(GetObjectInput HeadObjectInput);

fn conditions_of(input: &impl Conditional) -> ReadConditions {
    input.conditions()
}

/// A version as rules of lifecycle look at it.
pub(super) fn subject_of(found: &ObjectVersion) -> Subject<'_> {
    Subject { key: &found.key, size: found.size, tags: &found.tags, last_modified_ms: found.last_modified_ms }
}

/// Whether a version is to be read; who has it already learns which it is.
fn check_read(conditions: &ReadConditions, found: &ObjectVersion) -> S3Result<()> {
    conditions.check(&found.etag, found.last_modified_ms).map_err(|refused| {
        if refused != S3ErrorCode::NotModified {
            return code(refused);
        }
        let mut headers = vec![
            ("etag", format!("\"{}\"", found.etag)),
            ("last-modified", convert::http_date(&convert::timestamp(found.last_modified_ms))),
        ];
        headers.extend(found.version_id.clone().map(|id| ("x-amz-version-id", id)));
        with_headers(code(refused), &headers)
    })
}

/// Which bytes are asked for.
pub(super) struct AskedRange {
    pub range: Option<dto::Range>,
    pub part_number: Option<i32>,
}

/// Which bytes are given.
pub(super) struct Ranged {
    pub bytes: Range<u64>,
    /// Less than all was asked for, even if that is all there is.
    pub partial: bool,
    pub parts_count: Option<i32>,
    /// The checksums of these bytes, where they are known.
    checksums: Known,
}

/// Which checksums are those of the bytes that are given.
enum Known {
    OfWhole,
    OfPart(Checksums),
    None,
}

impl AskedRange {
    pub(super) fn resolve(&self, found: &ObjectVersion) -> S3Result<Ranged> {
        let parts_count = found.parts_count.and_then(|count| i32::try_from(count).ok());
        match (self.range, self.part_number) {
            (Some(_), Some(_)) => Err(because(
                S3ErrorCode::InvalidRequest,
                "Cannot specify both Range header and partNumber query parameter",
            )),
            (None, None) => {
                Ok(Ranged { bytes: 0..found.size, partial: false, parts_count: None, checksums: Known::OfWhole })
            }
            (Some(range), None) => {
                let unmet = |_| {
                    let size = [("content-range", format!("bytes */{}", found.size))];
                    with_headers(code(S3ErrorCode::InvalidRange), &size)
                };
                let bytes = range.check(found.size).map_err(unmet)?;
                Ok(Ranged { bytes, partial: true, parts_count: None, checksums: Known::None })
            }
            (None, Some(number)) => {
                let number = validate::part_number(number).map_err(to_s3)?;
                let (bytes, checksums) = part_range(found, number)
                    .ok_or_else(|| because(S3ErrorCode::InvalidRange, "The requested partnumber is not satisfiable"))?;
                Ok(Ranged { bytes, partial: true, parts_count, checksums })
            }
        }
    }
}

impl Ranged {
    fn checksums<'a>(&'a self, found: &'a ObjectVersion) -> &'a Checksums {
        const NONE: &Checksums =
            &Checksums { crc32: None, crc32c: None, crc64nvme: None, sha1: None, sha256: None, checksum_type: None };
        match &self.checksums {
            Known::OfWhole => &found.checksums,
            Known::OfPart(checksums) => checksums,
            Known::None => NONE,
        }
    }

    fn content_range(&self, size: u64) -> Option<String> {
        (self.partial && !self.bytes.is_empty())
            .then(|| format!("bytes {}-{}/{size}", self.bytes.start, self.bytes.end - 1))
    }
}

/// The bytes of a part, counted as it was completed; an object put at once is its own part 1.
fn part_range(found: &ObjectVersion, number: u32) -> Option<(Range<u64>, Known)> {
    let Some(Data::Parts(parts)) = &found.data else {
        return (number == 1).then_some((0..found.size, Known::OfWhole));
    };
    let mut start = 0;
    for part in parts {
        if part.part_number == number {
            return Some((start..start + part.size, Known::OfPart(part.checksums.clone())));
        }
        start += part.size;
    }
    None
}

fn get_output(
    found: &ObjectVersion,
    ranged: &Ranged,
    body: StreamingBlob,
    length: u64,
    checksums: bool,
) -> dto::GetObjectOutput {
    let mut output = dto::GetObjectOutput {
        accept_ranges: Some("bytes".to_owned()),
        body: Some(body),
        content_length: i64::try_from(length).ok(),
        content_range: ranged.content_range(found.size),
        parts_count: ranged.parts_count,
        tag_count: (!found.tags.is_empty()).then(|| i32::try_from(found.tags.len()).unwrap_or(i32::MAX)),
        ..Default::default()
    };
    set_version_headers!(output, found);
    if checksums {
        set_checksums!(output, ranged.checksums(found));
    }
    if checksums && !matches!(ranged.checksums, Known::None) {
        output.checksum_type = convert::type_to_wire(found.checksums.checksum_type);
    }
    output
}
