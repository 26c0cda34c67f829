//! Uploads in several parts.

use super::objects::{
    announced, asked_extras, empty_body, named_algorithm, promised_length, promised_md5, refuse_customer_keys,
    refuse_other_checksums, write_conditions,
};
use super::{Bucket, Gateway, Opened};
use crate::access::Denied;
use crate::checksum;
use crate::convert::{self, checksums_of, set_checksums};
use crate::error::{because, code, to_s3};
use crate::upload::{receive, Promise};
use crate::validate;
use base_types::s3::*;
use s3s::dto;
use s3s::{S3Request, S3Response, S3Result};

/// Parts of one page.
const PAGE_PARTS: u32 = 1000;
/// Pages that hold all parts an upload can have, and one to see the end.
const PAGES_MAX: u32 = PART_NUMBER_MAX / PAGE_PARTS + 1;

/// What an upload's checksum is over where it is not said.
fn default_type(algorithm: ChecksumAlgorithm) -> ChecksumType {
    match algorithm {
        ChecksumAlgorithm::Crc64nvme => ChecksumType::FullObject,
        _ => ChecksumType::Composite,
    }
}

/// The checksum a part must carry.
pub(super) fn part_promise(upload: &UploadEntry) -> Promise {
    Promise { algorithm: upload.checksum_algorithm, ..Promise::default() }
}

impl Gateway {
    /// Opens a bucket for a call on an upload. Where nothing allows or denies the call itself, who may put the key may
    /// make it on what he began.
    pub(super) async fn open_upload<T>(
        &self,
        request: &S3Request<T>,
        (bucket, key, upload_id): (&str, &str, &str),
        action: &str,
    ) -> S3Result<Opened> {
        let who = self.who(request).await?;
        let bucket = self.bucket(&who, bucket).await?;
        who.expect_owner(&bucket)?;
        validate::key(key).map_err(to_s3)?;
        let denied = || code(S3ErrorCode::AccessDenied);
        match (who.judged(&bucket, action, Some(key)), who.caller.account()) {
            (Ok(()), _) => {}
            (Err(Denied::NotAllowed), Some(account)) => {
                who.authorize(&bucket, "s3:PutObject", Some(key), None)?;
                let upload = self.upload(&bucket, key, upload_id).await?;
                upload.initiator.filter(|initiator| initiator.id == account).ok_or_else(denied)?;
            }
            (Err(_), _) => return Err(denied()),
        }
        Ok(Opened { who, bucket })
    }

    /// An upload that is under way.
    pub(super) async fn upload(&self, bucket: &Bucket, key: &str, upload_id: &str) -> S3Result<UploadEntry> {
        let call = ListParts {
            bucket: bucket.bucket.clone(),
            key: key.to_owned(),
            upload_id: upload_id.to_owned(),
            max_parts: Some(0),
            part_number_marker: None,
        };
        Ok(self.ask_of::<Parts>(bucket, call).await?.upload)
    }

    pub(super) async fn on_create_multipart_upload(
        &self,
        request: S3Request<dto::CreateMultipartUploadInput>,
    ) -> S3Result<S3Response<dto::CreateMultipartUploadOutput>> {
        let input = &request.input;
        let opened = self.open_key(&request, &input.bucket, &input.key, "s3:PutObject").await?;
        refuse_customer_keys!(input);
        let extras = self.extras(&opened, &input.key, asked_extras!(input)).await?;
        let algorithm = named_algorithm(input.checksum_algorithm.as_ref())?;
        let kind = input.checksum_type.as_ref().map(|word| convert::type_of(word.as_str())).transpose()?;
        let kind = match (algorithm, kind) {
            (None, Some(_)) => {
                return Err(because(
                    S3ErrorCode::InvalidRequest,
                    "The x-amz-checksum-type header can only be used with the x-amz-checksum-algorithm header.",
                ))
            }
            (Some(ChecksumAlgorithm::Sha1 | ChecksumAlgorithm::Sha256), Some(ChecksumType::FullObject))
            | (Some(ChecksumAlgorithm::Crc64nvme), Some(ChecksumType::Composite)) => {
                return Err(because(
                    S3ErrorCode::InvalidRequest,
                    "The checksum type cannot be used with this checksum algorithm.",
                ))
            }
            (algorithm, kind) => kind.or(algorithm.map(default_type)),
        };
        let encryption = extras.headers.server_side_encryption.clone();
        let call = CreateMultipartUpload {
            bucket: input.bucket.clone(),
            key: input.key.clone(),
            headers: extras.headers,
            tags: extras.tags,
            acl: Some(extras.acl),
            retention: extras.retention,
            legal_hold: extras.legal_hold,
            checksum_algorithm: algorithm,
            checksum_type: kind,
            initiator: opened.who.owner.clone(),
        };
        let created: UploadCreated = self.ask_of(&opened.bucket, call).await?;
        Ok(S3Response::new(dto::CreateMultipartUploadOutput {
            bucket: Some(request.input.bucket),
            key: Some(request.input.key),
            upload_id: Some(created.upload_id),
            checksum_algorithm: algorithm
                .map(|algorithm| dto::ChecksumAlgorithm::from_static(convert::algorithm_word(algorithm))),
            checksum_type: convert::type_to_wire(kind),
            server_side_encryption: encryption.map(dto::ServerSideEncryption::from),
            ..Default::default()
        }))
    }

    pub(super) async fn on_upload_part(
        &self,
        mut request: S3Request<dto::UploadPartInput>,
    ) -> S3Result<S3Response<dto::UploadPartOutput>> {
        let key = &request.input.key;
        let Opened { bucket, .. } = self.open_key(&request, &request.input.bucket, key, "s3:PutObject").await?;
        refuse_other_checksums(&request.headers)?;
        let body = request.input.body.take().unwrap_or_else(empty_body);
        let trailers = request.trailing_headers.take();
        let input = &request.input;
        refuse_customer_keys!(input);
        let part_number = validate::part_number(input.part_number).map_err(to_s3)?;
        let upload = self.upload(&bucket, &input.key, &input.upload_id).await?;
        let promise = Promise {
            length: Some(promised_length(&request.headers, input.content_length)?),
            md5: promised_md5(&request.headers, input.content_md5.as_ref())?,
            checksums: checksums_of!(input),
            trailers,
            trailing: announced(&request.headers),
            ..part_promise(&upload)
        };
        refuse_other_algorithm(&upload, &promise)?;
        let intent = self.intent(&input.bucket, &input.key);
        let received = receive(&self.data, body, promise, PUT_BYTES_MAX, intent).await?;
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
        let part: PartUploaded = self.commit(&bucket, &received, call).await?;
        let mut output = dto::UploadPartOutput { e_tag: Some(convert::etag(&part.etag)), ..Default::default() };
        set_checksums!(output, &received.hashed.checksums);
        Ok(S3Response::new(output))
    }

    pub(super) async fn on_complete_multipart_upload(
        &self,
        request: S3Request<dto::CompleteMultipartUploadInput>,
    ) -> S3Result<S3Response<dto::CompleteMultipartUploadOutput>> {
        let input = &request.input;
        let Opened { bucket, .. } = self.open_key(&request, &input.bucket, &input.key, "s3:PutObject").await?;
        refuse_customer_keys!(input);
        let named = input.multipart_upload.as_ref().and_then(|upload| upload.parts.as_ref());
        let named = named.ok_or_else(|| code(S3ErrorCode::MalformedXML))?;
        let parts = named.iter().map(completed_part).collect::<S3Result<Vec<CompletedPart>>>()?;
        validate::completed_parts(&parts).map_err(to_s3)?;
        let conditions = write_conditions(input.if_match.as_ref(), input.if_none_match.as_ref());
        let promised = checksums_of!(input);
        checksum::well_formed(&promised).map_err(to_s3)?;
        let known = self.all_parts(&bucket, &input.key, &input.upload_id).await?;
        let checksums = match &known {
            Some((upload, known)) => joined_checksums(upload, known, &parts, &promised)?,
            // Completed already, or aborted: the metadata service knows which.
            None => promised,
        };
        let mpu_object_size = input.mpu_object_size.and_then(|size| u64::try_from(size).ok());
        let call = CompleteMultipartUpload {
            bucket: input.bucket.clone(),
            key: input.key.clone(),
            upload_id: input.upload_id.clone(),
            parts,
            checksums,
            mpu_object_size,
            conditions,
        };
        let put: PutObjectAnswer = self.ask_of(&bucket, call).await?;
        let mut output = dto::CompleteMultipartUploadOutput {
            location: Some(format!("/{}/{}", request.input.bucket, encode_url(&request.input.key))),
            bucket: Some(request.input.bucket),
            key: Some(request.input.key),
            e_tag: Some(convert::etag(&put.etag)),
            version_id: put.version_id,
            checksum_type: convert::type_to_wire(put.checksums.checksum_type),
            ..Default::default()
        };
        set_checksums!(output, &put.checksums);
        Ok(S3Response::new(output))
    }

    /// All parts of an upload; `None` where it is not under way.
    async fn all_parts(
        &self,
        bucket: &Bucket,
        key: &str,
        upload_id: &str,
    ) -> S3Result<Option<(UploadEntry, Vec<PartEntry>)>> {
        let mut marker = None;
        let mut parts = Vec::new();
        for _ in 0..PAGES_MAX {
            let call = ListParts {
                bucket: bucket.bucket.clone(),
                key: key.to_owned(),
                upload_id: upload_id.to_owned(),
                max_parts: Some(PAGE_PARTS),
                part_number_marker: marker,
            };
            let page: Parts = match self.ask_of(bucket, call).await {
                Ok(page) => page,
                Err(error) if error.code().as_str() == S3ErrorCode::NoSuchUpload.name() => return Ok(None),
                Err(error) => return Err(error),
            };
            parts.extend(page.parts);
            if !page.is_truncated {
                return Ok(Some((page.upload, parts)));
            }
            marker = page.next_part_number_marker;
        }
        Err(because(S3ErrorCode::InternalError, "the list of parts has no end"))
    }

    pub(super) async fn on_abort_multipart_upload(
        &self,
        request: S3Request<dto::AbortMultipartUploadInput>,
    ) -> S3Result<S3Response<dto::AbortMultipartUploadOutput>> {
        let input = &request.input;
        let at = (&*input.bucket, &*input.key, &*input.upload_id);
        let Opened { bucket, .. } = self.open_upload(&request, at, "s3:AbortMultipartUpload").await?;
        let input = request.input;
        let call = AbortMultipartUpload {
            bucket: input.bucket,
            key: input.key,
            upload_id: input.upload_id,
            if_match_initiated_time_ms: input.if_match_initiated_time.as_ref().map(crate::times::millis),
        };
        self.tell_of(&bucket, call).await?;
        let mut response = S3Response::new(dto::AbortMultipartUploadOutput::default());
        response.status = Some(hyper::StatusCode::NO_CONTENT);
        Ok(response)
    }
}

fn completed_part(part: &dto::CompletedPart) -> S3Result<CompletedPart> {
    let (Some(number), Some(etag)) = (part.part_number, &part.e_tag) else {
        return Err(code(S3ErrorCode::MalformedXML));
    };
    Ok(CompletedPart {
        part_number: validate::part_number(number).map_err(to_s3)?,
        etag: etag.value().to_owned(),
        checksums: checksums_of!(part),
    })
}

/// A part of another algorithm than the upload's could never be joined with the others.
fn refuse_other_algorithm(upload: &UploadEntry, promise: &Promise) -> S3Result<()> {
    let Some(wanted) = upload.checksum_algorithm else { return Ok(()) };
    let mut given = checksum::given(&promise.checksums);
    given.extend(&promise.trailing);
    match given.iter().find(|algorithm| **algorithm != wanted) {
        None => Ok(()),
        Some(other) => {
            let (wanted, other) = (convert::algorithm_word(wanted), convert::algorithm_word(*other));
            let message = format!(
                "Checksum Type mismatch occurred, expected checksum Type: {}, actual checksum Type: {}",
                wanted.to_ascii_lowercase(),
                other.to_ascii_lowercase()
            );
            Err(because(S3ErrorCode::InvalidRequest, message))
        }
    }
}

/// The checksum of the whole out of the parts', checked against what the client promises.
fn joined_checksums(
    upload: &UploadEntry,
    known: &[PartEntry],
    parts: &[CompletedPart],
    promised: &Checksums,
) -> S3Result<Checksums> {
    let chosen = chosen_parts(known, parts)?;
    let mut out = Checksums::default();
    // Without a word of the client the parts have the API's default, and so has the whole.
    let algorithm = upload.checksum_algorithm.unwrap_or(ChecksumAlgorithm::Crc64nvme);
    let kind = upload.checksum_type.unwrap_or_else(|| default_type(algorithm));
    if let Some(joined) = checksum::of_parts(algorithm, kind, &chosen) {
        *out.slot(algorithm) = Some(joined);
        out.checksum_type = Some(kind);
    }
    for algorithm in checksum::given(promised) {
        let matches = match (promised.get(algorithm), out.get(algorithm)) {
            // A client may leave the number of parts off.
            (Some(promised), Some(found)) => promised == found || found.split('-').next() == Some(promised.as_str()),
            _ => false,
        };
        if !matches {
            return Err(code(S3ErrorCode::BadDigest));
        }
    }
    Ok(out)
}

/// The uploaded parts that the client names, each as it names it.
fn chosen_parts(known: &[PartEntry], parts: &[CompletedPart]) -> S3Result<Vec<PartData>> {
    let invalid = || {
        because(
            S3ErrorCode::InvalidPart,
            "One or more of the specified parts could not be found.  The part may not have been uploaded, or the specified entity tag may not match the part's entity tag.",
        )
    };
    let mut chosen = Vec::with_capacity(parts.len());
    for part in parts {
        let found = known.binary_search_by_key(&part.part_number, |known| known.part_number).ok();
        let found = found.map(|at| &known[at]).filter(|known| known.etag == part.etag).ok_or_else(invalid)?;
        for algorithm in checksum::given(&part.checksums) {
            if part.checksums.get(algorithm) != found.checksums.get(algorithm) {
                return Err(invalid());
            }
        }
        chosen.push(PartData {
            part_number: found.part_number,
            size: found.size,
            etag: found.etag.clone(),
            checksums: found.checksums.clone(),
            data: Data::default(),
        });
    }
    Ok(chosen)
}
