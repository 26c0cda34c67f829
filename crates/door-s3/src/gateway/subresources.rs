//! What can be read and changed of a version beside its bytes: attributes, tags, ACL, retention, legal
//! hold, restore.

use super::context::{for_legal_hold, for_retention, for_tags};
use super::objects::{read_call, refuse_customer_keys, refuse_marker};
use super::{now_ms, refuse_blocked_acl, Bucket, Gateway, VersionCall, Who};
use crate::access::acls_count;
use crate::convert::{self, asked_acl, set_checksums};
use crate::error::{because, code, to_s3};
use crate::validate;
use base_types::s3::*;
use s3s::dto;
use s3s::{S3Request, S3Response, S3Result};

/// Parts of one page of `GetObjectAttributes`.
const PARTS_MAX: i32 = 1000;

impl Gateway {
    /// The version a call is about, for a caller with the right to do that to it.
    async fn subject<T>(
        &self,
        request: &S3Request<T>,
        at: (&str, &str, Option<&str>),
        rights: (&str, &str),
    ) -> S3Result<(Bucket, ObjectVersion)> {
        self.subject_for(&self.who(request).await?, at, rights).await
    }

    /// As `subject`, of a caller whose context already says what the call's document asks for.
    async fn subject_for(
        &self,
        who: &Who,
        at: (&str, &str, Option<&str>),
        rights: (&str, &str),
    ) -> S3Result<(Bucket, ObjectVersion)> {
        let (bucket, key, version_id) = at;
        let bucket = self.bucket(who, bucket).await?;
        who.expect_owner(&bucket)?;
        let (action, versioned) = rights;
        let call = VersionCall { who, bucket: &bucket, key, version_id, action, versioned, with_data: false };
        let found = self.version(&call).await?;
        refuse_marker(&found)?;
        Ok((bucket, found))
    }

    pub(super) async fn on_get_object_attributes(
        &self,
        request: S3Request<dto::GetObjectAttributesInput>,
    ) -> S3Result<S3Response<dto::GetObjectAttributesOutput>> {
        let input = &request.input;
        refuse_customer_keys!(input);
        let at = (&*input.bucket, &*input.key, input.version_id.as_deref());
        let rights = ("s3:GetObjectAttributes", "s3:GetObjectVersionAttributes");
        let (_, found) = self.subject(&request, at, rights).await?;
        // Clients send one header with commas, which s3s takes for one attribute.
        let asked = || input.object_attributes.iter().flat_map(|attribute| attribute.as_str().split(','));
        let wanted = |name: &str| asked().any(|attribute| attribute.trim() == name);
        let checksum = wanted("Checksum").then(|| {
            let mut checksum = dto::Checksum {
                checksum_type: convert::type_to_wire(found.checksums.checksum_type),
                ..Default::default()
            };
            set_checksums!(checksum, &found.checksums);
            checksum
        });
        let parts = wanted("ObjectParts").then(|| attribute_parts(input, &found)).flatten();
        Ok(S3Response::new(dto::GetObjectAttributesOutput {
            checksum,
            e_tag: wanted("ETag").then(|| convert::etag(&found.etag)),
            last_modified: Some(convert::timestamp(found.last_modified_ms)),
            object_parts: parts,
            object_size: wanted("ObjectSize").then(|| i64::try_from(found.size).unwrap_or(i64::MAX)),
            storage_class: wanted("StorageClass")
                .then(|| found.headers.storage_class.clone().unwrap_or_else(|| "STANDARD".to_owned()).into()),
            version_id: found.version_id,
            ..Default::default()
        }))
    }

    pub(super) async fn on_get_object_tagging(
        &self,
        request: S3Request<dto::GetObjectTaggingInput>,
    ) -> S3Result<S3Response<dto::GetObjectTaggingOutput>> {
        let input = &request.input;
        let at = (&*input.bucket, &*input.key, input.version_id.as_deref());
        let (_, found) = self.subject(&request, at, ("s3:GetObjectTagging", "s3:GetObjectVersionTagging")).await?;
        Ok(S3Response::new(dto::GetObjectTaggingOutput {
            tag_set: convert::tags_to_wire(found.tags),
            version_id: found.version_id,
        }))
    }

    pub(super) async fn on_put_object_tagging(
        &self,
        request: S3Request<dto::PutObjectTaggingInput>,
    ) -> S3Result<S3Response<dto::PutObjectTaggingOutput>> {
        let input = &request.input;
        let at = (&*input.bucket, &*input.key, input.version_id.as_deref());
        let rights = ("s3:PutObjectTagging", "s3:PutObjectVersionTagging");
        let tags = convert::tags_of(input.tagging.tag_set.clone())?;
        validate::object_tags(&tags).map_err(to_s3)?;
        let mut who = self.who(&request).await?;
        for_tags(&mut who.context, &tags);
        let (bucket, _) = self.subject_for(&who, at, rights).await?;
        let call = PutObjectTagging {
            bucket: request.input.bucket,
            key: request.input.key,
            version_id: request.input.version_id,
            tags,
        };
        let changed: VersionChanged = self.ask_of(&bucket, call).await?;
        Ok(S3Response::new(dto::PutObjectTaggingOutput { version_id: changed.version_id }))
    }

    pub(super) async fn on_delete_object_tagging(
        &self,
        request: S3Request<dto::DeleteObjectTaggingInput>,
    ) -> S3Result<S3Response<dto::DeleteObjectTaggingOutput>> {
        let input = &request.input;
        let at = (&*input.bucket, &*input.key, input.version_id.as_deref());
        let rights = ("s3:DeleteObjectTagging", "s3:DeleteObjectVersionTagging");
        let (bucket, _) = self.subject(&request, at, rights).await?;
        let input = request.input;
        let call = DeleteObjectTagging { bucket: input.bucket, key: input.key, version_id: input.version_id };
        let changed: VersionChanged = self.ask_of(&bucket, call).await?;
        let mut response = S3Response::new(dto::DeleteObjectTaggingOutput { version_id: changed.version_id });
        response.status = Some(hyper::StatusCode::NO_CONTENT);
        Ok(response)
    }

    pub(super) async fn on_get_object_acl(
        &self,
        request: S3Request<dto::GetObjectAclInput>,
    ) -> S3Result<S3Response<dto::GetObjectAclOutput>> {
        let input = &request.input;
        let at = (&*input.bucket, &*input.key, input.version_id.as_deref());
        let (_, found) = self.subject(&request, at, ("s3:GetObjectAcl", "s3:GetObjectVersionAcl")).await?;
        Ok(S3Response::new(dto::GetObjectAclOutput {
            grants: Some(convert::grants_to_wire(&found.acl, &self.grantees().names(&found.acl).await)),
            owner: Some(convert::owner_to_wire(&found.acl.owner)),
            request_charged: None,
        }))
    }

    pub(super) async fn on_put_object_acl(
        &self,
        request: S3Request<dto::PutObjectAclInput>,
    ) -> S3Result<S3Response<dto::PutObjectAclOutput>> {
        let input = &request.input;
        let at = (&*input.bucket, &*input.key, input.version_id.as_deref());
        let (bucket, found) = self.subject(&request, at, ("s3:PutObjectAcl", "s3:PutObjectVersionAcl")).await?;
        let asked = asked_acl!(request.input, with_write);
        let input = request.input;
        let owner = found.acl.owner;
        let acl = match input.access_control_policy {
            Some(_) if asked.is_given() => return Err(code(S3ErrorCode::UnexpectedContent)),
            Some(policy) => convert::acl_of(policy, &owner)?,
            None if asked.is_given() => asked.build(owner, &bucket.owner.id)?,
            None => {
                return Err(because(
                    S3ErrorCode::MissingSecurityHeader,
                    "the request carries no ACL; send one in its body or in its headers",
                ))
            }
        };
        if !acls_count(&bucket) && !crate::access::acl::is_owner_only(&acl, &bucket.owner.id) {
            return Err(code(S3ErrorCode::AccessControlListNotSupported));
        }
        refuse_blocked_acl(&bucket, &acl)?;
        self.grantees().check(&acl).await?;
        let call = PutObjectAcl { bucket: input.bucket, key: input.key, version_id: input.version_id, acl };
        let _: VersionChanged = self.ask_of(&bucket, call).await?;
        Ok(S3Response::new(dto::PutObjectAclOutput::default()))
    }

    pub(super) async fn on_get_object_legal_hold(
        &self,
        request: S3Request<dto::GetObjectLegalHoldInput>,
    ) -> S3Result<S3Response<dto::GetObjectLegalHoldOutput>> {
        let input = &request.input;
        let at = (&*input.bucket, &*input.key, input.version_id.as_deref());
        let (bucket, found) = self.subject(&request, at, ("s3:GetObjectLegalHold", "s3:GetObjectLegalHold")).await?;
        needs_lock(&bucket)?;
        let word =
            if found.legal_hold { dto::ObjectLockLegalHoldStatus::ON } else { dto::ObjectLockLegalHoldStatus::OFF };
        let status = Some(dto::ObjectLockLegalHoldStatus::from_static(word));
        let legal_hold = Some(dto::ObjectLockLegalHold { status });
        Ok(S3Response::new(dto::GetObjectLegalHoldOutput { legal_hold }))
    }

    pub(super) async fn on_put_object_legal_hold(
        &self,
        request: S3Request<dto::PutObjectLegalHoldInput>,
    ) -> S3Result<S3Response<dto::PutObjectLegalHoldOutput>> {
        let input = &request.input;
        let at = (&*input.bucket, &*input.key, input.version_id.as_deref());
        let status = input.legal_hold.as_ref().and_then(|hold| hold.status.as_ref());
        let status = status.ok_or_else(|| code(S3ErrorCode::MalformedXML))?;
        let legal_hold = convert::legal_hold_of(Some(status.as_str())).map_err(|_| code(S3ErrorCode::MalformedXML))?;
        let mut who = self.who(&request).await?;
        for_legal_hold(&mut who.context, legal_hold);
        let (bucket, _) = self.subject_for(&who, at, ("s3:PutObjectLegalHold", "s3:PutObjectLegalHold")).await?;
        needs_lock(&bucket)?;
        let input = request.input;
        let call =
            PutObjectLegalHold { bucket: input.bucket, key: input.key, version_id: input.version_id, legal_hold };
        let _: VersionChanged = self.ask_of(&bucket, call).await?;
        Ok(S3Response::new(dto::PutObjectLegalHoldOutput::default()))
    }

    pub(super) async fn on_get_object_retention(
        &self,
        request: S3Request<dto::GetObjectRetentionInput>,
    ) -> S3Result<S3Response<dto::GetObjectRetentionOutput>> {
        let input = &request.input;
        let at = (&*input.bucket, &*input.key, input.version_id.as_deref());
        let (bucket, found) = self.subject(&request, at, ("s3:GetObjectRetention", "s3:GetObjectRetention")).await?;
        needs_lock(&bucket)?;
        let kept = found.retention.ok_or_else(|| code(S3ErrorCode::NoSuchObjectLockConfiguration))?;
        let retention = Some(dto::ObjectLockRetention {
            mode: Some(dto::ObjectLockRetentionMode::from_static(convert::mode_word(kept.mode))),
            retain_until_date: Some(convert::timestamp(kept.retain_until_ms)),
        });
        Ok(S3Response::new(dto::GetObjectRetentionOutput { retention }))
    }

    pub(super) async fn on_put_object_retention(
        &self,
        request: S3Request<dto::PutObjectRetentionInput>,
    ) -> S3Result<S3Response<dto::PutObjectRetentionOutput>> {
        let input = &request.input;
        let at = (&*input.bucket, &*input.key, input.version_id.as_deref());
        let asked = input.retention.clone().unwrap_or_default();
        let mode = asked.mode.as_ref().map(|mode| mode.as_str());
        let retention = convert::retention_of(mode, asked.retain_until_date.as_ref())
            .map_err(|_| code(S3ErrorCode::MalformedXML))?;
        let mut who = self.who(&request).await?;
        for_retention(&mut who.context, retention);
        let rights = ("s3:PutObjectRetention", "s3:PutObjectRetention");
        let (bucket, found) = self.subject_for(&who, at, rights).await?;
        needs_lock(&bucket)?;
        let bypass = input.bypass_governance_retention.unwrap_or(false);
        if bypass {
            who.authorize(&bucket, "s3:BypassGovernanceRetention", Some(&input.key), None)?;
        }
        let input = request.input;
        let became = |mode| retention.is_some_and(|retention| retention.mode == mode);
        let governed = found
            .retention
            .is_some_and(|kept| kept.mode == RetentionMode::Governance && kept.retain_until_ms > now_ms());
        if governed && became(RetentionMode::Compliance) && !bypass {
            let message = "the version is locked in governance mode; send x-amz-bypass-governance-retention: true";
            return Err(because(S3ErrorCode::AccessDenied, message));
        }
        if retention.is_some_and(|retention| retention.retain_until_ms <= now_ms()) {
            return Err(because(S3ErrorCode::InvalidArgument, "The retain until date must be in the future!"));
        }
        let call = PutObjectRetention {
            bucket: input.bucket,
            key: input.key,
            version_id: input.version_id,
            retention,
            bypass_governance_retention: bypass,
        };
        let _: VersionChanged = self.ask_of(&bucket, call).await?;
        Ok(S3Response::new(dto::PutObjectRetentionOutput::default()))
    }

    pub(super) async fn on_restore_object(
        &self,
        request: S3Request<dto::RestoreObjectInput>,
    ) -> S3Result<S3Response<dto::RestoreObjectOutput>> {
        let input = &request.input;
        let who = self.who(&request).await?;
        let bucket = self.bucket(&who, &input.bucket).await?;
        who.expect_owner(&bucket)?;
        who.authorize(&bucket, "s3:RestoreObject", Some(&input.key), None)?;
        self.version(&read_call(&who, &bucket, &input.key, input.version_id.as_deref(), false)).await?;
        Err(because(S3ErrorCode::InvalidObjectState, "Restore is not allowed for the object's current storage class"))
    }
}

fn needs_lock(bucket: &BucketInfo) -> S3Result<()> {
    if bucket.object_lock.as_ref().is_some_and(|lock| lock.enabled) {
        return Ok(());
    }
    Err(because(S3ErrorCode::InvalidRequest, "Bucket is missing Object Lock Configuration"))
}

/// The parts of an object that was uploaded in some.
fn attribute_parts(
    input: &dto::GetObjectAttributesInput,
    found: &ObjectVersion,
) -> Option<dto::GetObjectAttributesParts> {
    let Some(Data::Parts(parts)) = &found.data else { return None };
    let max = input.max_parts.filter(|max| (0..=PARTS_MAX).contains(max)).unwrap_or(PARTS_MAX);
    let marker = input.part_number_marker.unwrap_or(0);
    let behind = |part: &&PartData| i64::from(part.part_number) > i64::from(marker);
    let left = parts.iter().filter(behind).count();
    let page: Vec<dto::ObjectPart> =
        parts.iter().filter(behind).take(usize::try_from(max).unwrap_or(0)).map(part_to_wire).collect();
    Some(dto::GetObjectAttributesParts {
        is_truncated: Some(left > page.len()),
        max_parts: Some(max),
        next_part_number_marker: page.last().and_then(|part| part.part_number),
        part_number_marker: Some(marker),
        total_parts_count: i32::try_from(parts.len()).ok(),
        parts: Some(page),
    })
}

fn part_to_wire(part: &PartData) -> dto::ObjectPart {
    let mut wire = dto::ObjectPart {
        part_number: i32::try_from(part.part_number).ok(),
        size: i64::try_from(part.size).ok(),
        ..Default::default()
    };
    set_checksums!(wire, &part.checksums);
    wire
}
