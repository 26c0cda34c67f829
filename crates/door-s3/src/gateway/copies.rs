//! Copies: the source's bytes are read and received again, as an object or as a part.

use super::multipart::part_promise;
use super::objects::{asked_extras, read_call, refuse_customer_keys, refuse_marker, write_conditions};
use super::{Gateway, Opened};
use crate::convert::{self, set_checksums};
use crate::error::{because, code, to_s3};
use crate::upload::{open, receive, store_error, Promise, Received};
use crate::validate;
use base_types::s3::*;
use s3s::dto;
use s3s::{S3Request, S3Response, S3Result};
use std::ops::Range;

/// A source of a copy: bucket, key, version.
fn source_of(source: &dto::CopySource) -> S3Result<(&str, &str, Option<&str>)> {
    match source {
        dto::CopySource::Bucket { bucket, key, version_id } => Ok((bucket, key, version_id.as_deref())),
        _ => {
            Err(because(S3ErrorCode::NotImplemented, "access points are not offered as copy sources; name BUCKET/KEY"))
        }
    }
}

/// `bytes=0-9` of a source: both ends must be given and inside.
fn source_range(header: Option<&str>, size: u64) -> S3Result<Range<u64>> {
    let Some(header) = header else { return Ok(0..size) };
    let invalid = || {
        because(
            S3ErrorCode::InvalidArgument,
            "The x-amz-copy-source-range value must be of the form bytes=first-last where first and last are the zero-based offsets of the first and last bytes to copy",
        )
    };
    match dto::Range::parse(header) {
        Ok(dto::Range::Int { first, last: Some(last) }) if last < size => Ok(first..last + 1),
        Ok(dto::Range::Int { last: Some(_), .. }) => Err(because(
            S3ErrorCode::InvalidArgument,
            format!("Range specified is not valid for source object of size: {size}"),
        )),
        _ => Err(invalid()),
    }
}

impl Gateway {
    /// Reads the source for a caller who may, if its conditions hold.
    async fn source(
        &self,
        opened: &Opened,
        source: &dto::CopySource,
        conditions: &ReadConditions,
    ) -> S3Result<ObjectVersion> {
        let (bucket, key, version_id) = source_of(source)?;
        let bucket = self.bucket(&opened.who, bucket).await?;
        if opened.who.expected_source_owner.as_ref().is_some_and(|expected| *expected != bucket.owner.id) {
            return Err(code(S3ErrorCode::AccessDenied));
        }
        let found = self.version(&read_call(&opened.who, &bucket, key, version_id, true)).await?;
        if found.delete_marker {
            return Err(because(
                S3ErrorCode::InvalidRequest,
                "The source of a copy request may not specifically refer to a delete marker by version id.",
            ));
        }
        refuse_marker(&found)?;
        // A copy has no body to leave out: what would be 304 of a read is 412 here.
        conditions.check(&found.etag, found.last_modified_ms).map_err(|_| code(S3ErrorCode::PreconditionFailed))?;
        Ok(found)
    }

    /// Copies the bytes of a range.
    async fn copy_bytes(
        &self,
        found: &ObjectVersion,
        range: Range<u64>,
        promise: Promise,
        at: (&str, &str),
    ) -> S3Result<Received> {
        let data = found.data.clone().unwrap_or_default();
        let stream = open(&self.data, &data, found.size, range).await.map_err(store_error)?;
        receive(&self.data, stream, promise, PUT_BYTES_MAX, self.intent(at.0, at.1)).await
    }

    pub(super) async fn on_copy_object(
        &self,
        request: S3Request<dto::CopyObjectInput>,
    ) -> S3Result<S3Response<dto::CopyObjectOutput>> {
        let input = &request.input;
        let opened = self.open_key(&request, &input.bucket, &input.key, "s3:PutObject").await?;
        refuse_customer_keys!(input);
        let conditions = convert::read_conditions(
            input.copy_source_if_match.as_ref(),
            input.copy_source_if_none_match.as_ref(),
            input.copy_source_if_modified_since.as_ref(),
            input.copy_source_if_unmodified_since.as_ref(),
        );
        let found = self.source(&opened, &input.copy_source, &conditions).await?;
        if found.size > PUT_BYTES_MAX {
            return Err(because(
                S3ErrorCode::InvalidRequest,
                "The specified copy source is larger than the maximum allowable size for a copy source: 5368709120",
            ));
        }
        let new_headers = is_replace(input.metadata_directive.as_ref().map(|word| word.as_str()), "metadata")?;
        let new_tags = is_replace(input.tagging_directive.as_ref().map(|word| word.as_str()), "tagging")?;
        self.refuse_copy_onto_itself(input, new_headers, &found)?;
        let mut extras = self.extras(&opened, &input.key, asked_extras!(input)).await?;
        if !new_headers {
            let given = extras.headers.clone();
            extras.headers = found.headers.clone();
            // These are no metadata: they are said anew with each copy.
            extras.headers.storage_class = given.storage_class;
            extras.headers.server_side_encryption = given.server_side_encryption;
            extras.headers.website_redirect_location = given.website_redirect_location;
        }
        if !new_tags {
            extras.tags = found.tags.clone();
        }
        let algorithm = match input.checksum_algorithm.as_ref() {
            Some(word) => Some(convert::algorithm_of(word.as_str())?),
            None => crate::checksum::given(&found.checksums).first().copied(),
        };
        let promise = Promise { length: Some(found.size), algorithm, ..Promise::default() };
        let received = self.copy_bytes(&found, 0..found.size, promise, (&input.bucket, &input.key)).await?;
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
            conditions: target_conditions(&request.headers)?,
            data_expires_ms: received.expires_ms,
        };
        let put: PutObjectAnswer = self.commit(&opened.bucket, &received, call).await?;
        let mut result = dto::CopyObjectResult {
            e_tag: Some(convert::etag(&put.etag)),
            last_modified: Some(convert::timestamp(put.last_modified_ms)),
            checksum_type: convert::type_to_wire(put.checksums.checksum_type),
            ..Default::default()
        };
        set_checksums!(result, &put.checksums);
        Ok(S3Response::new(dto::CopyObjectOutput {
            copy_object_result: Some(result),
            copy_source_version_id: found.version_id,
            version_id: put.version_id,
            ..Default::default()
        }))
    }

    /// Copying an object onto itself must change something.
    fn refuse_copy_onto_itself(
        &self,
        input: &dto::CopyObjectInput,
        new_headers: bool,
        found: &ObjectVersion,
    ) -> S3Result<()> {
        let (bucket, key, version_id) = source_of(&input.copy_source)?;
        let itself = bucket == input.bucket && key == input.key && version_id.is_none();
        let class = input.storage_class.as_ref().map(|class| class.as_str());
        let changes = new_headers
            || class.is_some_and(|class| class != found.headers.storage_class.as_deref().unwrap_or("STANDARD"))
            || input.server_side_encryption.is_some()
            || input.website_redirect_location.is_some();
        if itself && !changes {
            return Err(because(
                S3ErrorCode::InvalidRequest,
                "This copy request is illegal because it is trying to copy an object to itself without changing the object's metadata, storage class, website redirect location or encryption attributes.",
            ));
        }
        Ok(())
    }

    pub(super) async fn on_upload_part_copy(
        &self,
        request: S3Request<dto::UploadPartCopyInput>,
    ) -> S3Result<S3Response<dto::UploadPartCopyOutput>> {
        let input = &request.input;
        let opened = self.open_key(&request, &input.bucket, &input.key, "s3:PutObject").await?;
        refuse_customer_keys!(input);
        let part_number = validate::part_number(input.part_number).map_err(to_s3)?;
        let conditions = convert::read_conditions(
            input.copy_source_if_match.as_ref(),
            input.copy_source_if_none_match.as_ref(),
            input.copy_source_if_modified_since.as_ref(),
            input.copy_source_if_unmodified_since.as_ref(),
        );
        let found = self.source(&opened, &input.copy_source, &conditions).await?;
        let range = source_range(input.copy_source_range.as_deref(), found.size)?;
        let upload = self.upload(&opened.bucket, &input.key, &input.upload_id).await?;
        let mut promise = part_promise(&upload);
        promise.length = Some(range.end - range.start);
        let received = self.copy_bytes(&found, range, promise, (&input.bucket, &input.key)).await?;
        let call = UploadPart {
            bucket: input.bucket.clone(),
            key: input.key.clone(),
            upload_id: input.upload_id.clone(),
            part_number,
            data: received.data.clone(),
            size: received.hashed.length,
            etag: received.hashed.etag(),
            checksums: received.hashed.checksums.clone(),
            data_expires_ms: received.expires_ms,
        };
        let part: PartUploaded = self.commit(&opened.bucket, &received, call).await?;
        let mut result = dto::CopyPartResult {
            e_tag: Some(convert::etag(&part.etag)),
            last_modified: Some(convert::timestamp(part.last_modified_ms)),
            ..Default::default()
        };
        set_checksums!(result, &received.hashed.checksums);
        Ok(S3Response::new(dto::UploadPartCopyOutput {
            copy_part_result: Some(result),
            copy_source_version_id: found.version_id,
            ..Default::default()
        }))
    }
}

/// The conditions on what is written over: younger than s3s' idea of a copy, so read from the headers.
fn target_conditions(headers: &hyper::HeaderMap) -> S3Result<WriteConditions> {
    let condition = |name: &str| {
        let header = headers.get(name);
        let parsed = header.map(|value| dto::ETagCondition::parse_http_header(value.as_bytes())).transpose();
        parsed.map_err(|_| because(S3ErrorCode::InvalidArgument, format!("{name} is neither an etag nor *")))
    };
    Ok(write_conditions(condition("if-match")?.as_ref(), condition("if-none-match")?.as_ref()))
}

fn is_replace(word: Option<&str>, what: &str) -> S3Result<bool> {
    match word {
        None | Some("COPY") => Ok(false),
        Some("REPLACE") => Ok(true),
        Some(_) => Err(because(S3ErrorCode::InvalidArgument, format!("Unknown {what} directive."))),
    }
}
