//! Uploads in several parts.

use super::objects::check_conditions;
use super::{Answered, State, Upload};
use crate::checksum::etag_of_parts;
use base_types::s3::*;
use base_types::Refusal;

impl State {
    pub(super) fn create_upload(&mut self, call: CreateMultipartUpload) -> Answered {
        let number = self.next();
        let now_ms = self.now_ms;
        let bucket = self.bucket(&call.bucket)?;
        let upload_id = format!("upload{number:020x}");
        let owner = call.acl.as_ref().map_or_else(|| bucket.info.owner.clone(), |acl| acl.owner.clone());
        let entry = UploadEntry {
            key: call.key.clone(),
            upload_id: upload_id.clone(),
            initiated_ms: now_ms,
            initiator: call.initiator.clone(),
            owner: Some(owner),
            storage_class: call.headers.storage_class.clone(),
            checksum_algorithm: call.checksum_algorithm,
            checksum_type: call.checksum_type,
        };
        let upload = Upload { entry, begun: call.clone(), parts: Default::default() };
        bucket.uploads.insert((call.key, upload_id.clone()), upload);
        Ok(UploadCreated { upload_id }.into())
    }

    fn upload(&mut self, bucket: &str, key: &str, upload_id: &str) -> Result<&mut Upload, Refusal> {
        let bucket = self.bucket(bucket)?;
        let found = bucket.uploads.get_mut(&(key.to_owned(), upload_id.to_owned()));
        found.ok_or_else(|| S3ErrorCode::NoSuchUpload.into())
    }

    pub(super) fn upload_part(&mut self, call: UploadPart) -> Answered {
        let now_ms = self.now_ms;
        if call.data_expires_ms.is_some_and(|expires| expires < now_ms) {
            return Err(S3ErrorCode::RequestTimeout.because("the data took too long to come; put it again"));
        }
        let upload = self.upload(&call.bucket, &call.key, &call.upload_id)?;
        let part = PartData {
            part_number: call.part_number,
            size: call.size,
            etag: call.etag.clone(),
            checksums: call.checksums,
            data: call.data,
        };
        let replaced = upload.parts.insert(call.part_number, (part, now_ms));
        self.free(replaced.map(|(part, _)| part.data).as_ref());
        Ok(PartUploaded { etag: call.etag, last_modified_ms: now_ms }.into())
    }

    pub(super) fn complete_upload(&mut self, call: CompleteMultipartUpload) -> Answered {
        let now_ms = self.now_ms;
        if let Some(done) = self.bucket(&call.bucket)?.completed.get(&call.upload_id) {
            return Ok(done.clone().into());
        }
        let id = (call.key.clone(), call.upload_id.clone());
        let upload = self.upload(&call.bucket, &call.key, &call.upload_id)?;
        let parts = chosen(upload, &call.parts)?;
        let size = parts.iter().map(|part| part.size).sum();
        if call.mpu_object_size.is_some_and(|promised| promised != size) {
            let message = format!("the parts have {size} bytes, not as many as x-amz-mp-object-size says");
            return Err(S3ErrorCode::InvalidRequest.because(message));
        }
        check_conditions(self.bucket(&call.bucket)?, &call.key, &call.conditions)?;
        let bucket = self.bucket(&call.bucket)?;
        let owner = bucket.info.owner.clone();
        let Some(upload) = bucket.uploads.remove(&id) else { return Err(S3ErrorCode::NoSuchUpload.into()) };
        let version = ObjectVersion {
            key: call.key,
            version_id: None,
            delete_marker: false,
            last_modified_ms: now_ms,
            size,
            etag: etag_of_parts(parts.iter().map(|part| part.etag.as_str())),
            checksums: call.checksums,
            parts_count: u32::try_from(parts.len()).ok(),
            headers: upload.begun.headers,
            tags: upload.begun.tags,
            acl: upload.begun.acl.unwrap_or_else(|| crate::access::acl::private(owner)),
            retention: upload.begun.retention,
            legal_hold: upload.begun.legal_hold,
            data: Some(Data::Parts(parts.clone())),
        };
        let answer = self.add_version(&call.bucket, version)?;
        for (number, (part, _)) in &upload.parts {
            if !parts.iter().any(|kept| kept.part_number == *number) {
                self.free(Some(&part.data));
            }
        }
        self.bucket(&call.bucket)?.completed.insert(call.upload_id, answer.clone());
        Ok(answer.into())
    }

    pub(super) fn abort_upload(&mut self, call: AbortMultipartUpload) -> Answered {
        let upload = self.upload(&call.bucket, &call.key, &call.upload_id)?;
        let initiated = upload.entry.initiated_ms / 1000;
        if call.if_match_initiated_time_ms.is_some_and(|wanted| wanted / 1000 != initiated) {
            return Err(S3ErrorCode::PreconditionFailed.into());
        }
        let removed = self.bucket(&call.bucket)?.uploads.remove(&(call.key, call.upload_id));
        for (part, _) in removed.into_iter().flat_map(|upload| upload.parts.into_values()) {
            self.free(Some(&part.data));
        }
        Ok(S3Answer::Done)
    }

    pub(super) fn list_parts(&mut self, call: ListParts) -> Answered {
        let upload = self.upload(&call.bucket, &call.key, &call.upload_id)?;
        let marker = call.part_number_marker.unwrap_or(0);
        let max = call.max_parts.unwrap_or(MAX_KEYS_MAX).min(MAX_KEYS_MAX) as usize;
        let entry = |(part, last_modified_ms): &(PartData, u64)| PartEntry {
            part_number: part.part_number,
            last_modified_ms: *last_modified_ms,
            etag: part.etag.clone(),
            size: part.size,
            checksums: part.checksums.clone(),
        };
        let parts: Vec<PartEntry> = upload.parts.range(marker + 1..).take(max).map(|(_, part)| entry(part)).collect();
        let more = max > 0 && upload.parts.range(marker + 1..).nth(max).is_some();
        let next = parts.last().map(|part| part.part_number);
        Ok(Parts { parts, is_truncated: more, next_part_number_marker: next, upload: upload.entry.clone() }.into())
    }
}

/// The parts that a client names, in its order, each as it was uploaded.
fn chosen(upload: &Upload, named: &[CompletedPart]) -> Result<Vec<PartData>, Refusal> {
    let mut parts: Vec<PartData> = Vec::with_capacity(named.len());
    for (at, wanted) in named.iter().enumerate() {
        let found = upload.parts.get(&wanted.part_number).filter(|(part, _)| part.etag == wanted.etag);
        let (part, _) = found.ok_or_else(|| Refusal::from(S3ErrorCode::InvalidPart))?;
        if parts.last().is_some_and(|last| last.part_number >= part.part_number) {
            return Err(S3ErrorCode::InvalidPartOrder.into());
        }
        if at + 1 < named.len() && part.size < PART_BYTES_MIN {
            return Err(S3ErrorCode::EntityTooSmall.into());
        }
        parts.push(part.clone());
    }
    Ok(parts)
}
