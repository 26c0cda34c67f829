//! A bucket's settings: ACL, policy, CORS, lifecycle, tags, versioning, ownership, public access block,
//! object lock, encryption.

use super::buckets::ownership_of;
use super::{refuse_blocked_acl, Gateway};
use crate::access::{acls_count, Policy};
use crate::convert::{self, asked_acl};
use crate::error::{because, code, to_s3};
use crate::validate;
use base_types::s3::*;
use s3s::dto;
use s3s::{S3Request, S3Response, S3Result};

/// A call that removes a setting: who may, and what the metadata service is asked.
macro_rules! delete_setting {
    ($($on:ident $input:ident $output:ident $right:literal $call:ident;)*) => {
        impl Gateway {
            $(pub(super) async fn $on(
                &self,
                request: S3Request<dto::$input>,
            ) -> S3Result<S3Response<dto::$output>> {
                let bucket = self.open(&request, &request.input.bucket, $right).await?.bucket;
                self.tell_of(&bucket, $call { bucket: request.input.bucket }).await?;
                self.rules.forget(&bucket.bucket);
                Ok(S3Response::new(dto::$output::default()))
            })*
        }
    };
}

delete_setting! {
    on_delete_bucket_cors DeleteBucketCorsInput DeleteBucketCorsOutput "s3:PutBucketCORS" DeleteBucketCors;
    on_delete_bucket_encryption DeleteBucketEncryptionInput DeleteBucketEncryptionOutput "s3:PutEncryptionConfiguration" DeleteBucketEncryption;
    on_delete_bucket_lifecycle DeleteBucketLifecycleInput DeleteBucketLifecycleOutput "s3:PutLifecycleConfiguration" DeleteBucketLifecycle;
    on_delete_bucket_ownership_controls DeleteBucketOwnershipControlsInput DeleteBucketOwnershipControlsOutput "s3:PutBucketOwnershipControls" DeleteBucketOwnershipControls;
    on_delete_bucket_policy DeleteBucketPolicyInput DeleteBucketPolicyOutput "s3:DeleteBucketPolicy" DeleteBucketPolicy;
    on_delete_bucket_tagging DeleteBucketTaggingInput DeleteBucketTaggingOutput "s3:PutBucketTagging" DeleteBucketTagging;
    on_delete_public_access_block DeletePublicAccessBlockInput DeletePublicAccessBlockOutput "s3:PutBucketPublicAccessBlock" DeletePublicAccessBlock;
}

impl Gateway {
    pub(super) async fn on_get_bucket_acl(
        &self,
        request: S3Request<dto::GetBucketAclInput>,
    ) -> S3Result<S3Response<dto::GetBucketAclOutput>> {
        let acl = self.open(&request, &request.input.bucket, "s3:GetBucketAcl").await?.bucket.info.acl;
        Ok(S3Response::new(dto::GetBucketAclOutput {
            grants: Some(convert::grants_to_wire(&acl, &self.grantees().names(&acl).await)),
            owner: Some(convert::owner_to_wire(&acl.owner)),
        }))
    }

    pub(super) async fn on_put_bucket_acl(
        &self,
        request: S3Request<dto::PutBucketAclInput>,
    ) -> S3Result<S3Response<dto::PutBucketAclOutput>> {
        let bucket = self.open(&request, &request.input.bucket, "s3:PutBucketAcl").await?.bucket;
        let asked = asked_acl!(request.input, with_write);
        let input = request.input;
        let acl = match input.access_control_policy {
            Some(_) if asked.is_given() => return Err(code(S3ErrorCode::UnexpectedContent)),
            Some(policy) => convert::acl_of(policy, &bucket.owner)?,
            None if asked.is_given() => asked.build(bucket.owner.clone(), &bucket.owner.id)?,
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
        self.tell_of(&bucket, PutBucketAcl { bucket: input.bucket, acl }).await?;
        Ok(S3Response::new(dto::PutBucketAclOutput::default()))
    }

    pub(super) async fn on_get_bucket_policy(
        &self,
        request: S3Request<dto::GetBucketPolicyInput>,
    ) -> S3Result<S3Response<dto::GetBucketPolicyOutput>> {
        let bucket = self.open(&request, &request.input.bucket, "s3:GetBucketPolicy").await?.bucket;
        let policy = bucket.info.policy.ok_or_else(|| code(S3ErrorCode::NoSuchBucketPolicy))?;
        Ok(S3Response::new(dto::GetBucketPolicyOutput { policy: Some(policy) }))
    }

    pub(super) async fn on_get_bucket_policy_status(
        &self,
        request: S3Request<dto::GetBucketPolicyStatusInput>,
    ) -> S3Result<S3Response<dto::GetBucketPolicyStatusOutput>> {
        let bucket = self.open(&request, &request.input.bucket, "s3:GetBucketPolicyStatus").await?.bucket;
        let policy = bucket.policy.as_deref().ok_or_else(|| code(S3ErrorCode::NoSuchBucketPolicy))?;
        let is_public = Policy::parse(policy, &bucket.bucket).is_ok_and(|policy| policy.is_public());
        let policy_status = Some(dto::PolicyStatus { is_public: Some(is_public) });
        Ok(S3Response::new(dto::GetBucketPolicyStatusOutput { policy_status }))
    }

    pub(super) async fn on_put_bucket_policy(
        &self,
        request: S3Request<dto::PutBucketPolicyInput>,
    ) -> S3Result<S3Response<dto::PutBucketPolicyOutput>> {
        let bucket = self.open(&request, &request.input.bucket, "s3:PutBucketPolicy").await?.bucket;
        let policy = Policy::parse(&request.input.policy, &bucket.bucket).map_err(to_s3)?;
        if policy.is_public() && bucket.public_access_block.unwrap_or_default().block_public_policy {
            return Err(because(S3ErrorCode::AccessDenied, "the bucket's public access block refuses public policies; send another policy, or change the block first"));
        }
        self.tell_of(&bucket, PutBucketPolicy { bucket: request.input.bucket, policy: request.input.policy }).await?;
        Ok(S3Response::new(dto::PutBucketPolicyOutput::default()))
    }

    pub(super) async fn on_get_bucket_cors(
        &self,
        request: S3Request<dto::GetBucketCorsInput>,
    ) -> S3Result<S3Response<dto::GetBucketCorsOutput>> {
        let bucket = self.open(&request, &request.input.bucket, "s3:GetBucketCORS").await?.bucket;
        let rules = bucket.info.cors_rules.ok_or_else(|| code(S3ErrorCode::NoSuchCORSConfiguration))?;
        let filled = |list: Vec<String>| (!list.is_empty()).then_some(list);
        let wire = |rule: CorsRule| dto::CORSRule {
            allowed_headers: filled(rule.allowed_headers),
            allowed_methods: rule.allowed_methods,
            allowed_origins: rule.allowed_origins,
            expose_headers: filled(rule.expose_headers),
            id: rule.id,
            max_age_seconds: rule.max_age_seconds.and_then(|age| i32::try_from(age).ok()),
        };
        let cors_rules = Some(rules.into_iter().map(wire).collect());
        Ok(S3Response::new(dto::GetBucketCorsOutput { cors_rules }))
    }

    pub(super) async fn on_put_bucket_cors(
        &self,
        request: S3Request<dto::PutBucketCorsInput>,
    ) -> S3Result<S3Response<dto::PutBucketCorsOutput>> {
        let bucket = self.open(&request, &request.input.bucket, "s3:PutBucketCORS").await?.bucket;
        let ours = |rule: dto::CORSRule| CorsRule {
            id: rule.id,
            allowed_methods: rule.allowed_methods,
            allowed_origins: rule.allowed_origins,
            allowed_headers: rule.allowed_headers.unwrap_or_default(),
            expose_headers: rule.expose_headers.unwrap_or_default(),
            max_age_seconds: rule.max_age_seconds.and_then(|age| u32::try_from(age).ok()),
        };
        let cors_rules: Vec<CorsRule> = request.input.cors_configuration.cors_rules.into_iter().map(ours).collect();
        validate::cors(&cors_rules).map_err(to_s3)?;
        self.tell_of(&bucket, PutBucketCors { bucket: request.input.bucket, cors_rules }).await?;
        Ok(S3Response::new(dto::PutBucketCorsOutput::default()))
    }

    pub(super) async fn on_get_bucket_tagging(
        &self,
        request: S3Request<dto::GetBucketTaggingInput>,
    ) -> S3Result<S3Response<dto::GetBucketTaggingOutput>> {
        let bucket = self.open(&request, &request.input.bucket, "s3:GetBucketTagging").await?.bucket;
        let found: Tagging = self.ask_of(&bucket, GetBucketTagging { bucket: request.input.bucket }).await?;
        Ok(S3Response::new(dto::GetBucketTaggingOutput { tag_set: convert::tags_to_wire(found.tags) }))
    }

    pub(super) async fn on_put_bucket_tagging(
        &self,
        request: S3Request<dto::PutBucketTaggingInput>,
    ) -> S3Result<S3Response<dto::PutBucketTaggingOutput>> {
        let bucket = self.open(&request, &request.input.bucket, "s3:PutBucketTagging").await?.bucket;
        let tags = convert::tags_of(request.input.tagging.tag_set)?;
        validate::bucket_tags(&tags).map_err(to_s3)?;
        self.tell_of(&bucket, PutBucketTagging { bucket: request.input.bucket, tags }).await?;
        Ok(S3Response::new(dto::PutBucketTaggingOutput::default()))
    }

    pub(super) async fn on_get_bucket_versioning(
        &self,
        request: S3Request<dto::GetBucketVersioningInput>,
    ) -> S3Result<S3Response<dto::GetBucketVersioningOutput>> {
        let bucket = self.open(&request, &request.input.bucket, "s3:GetBucketVersioning").await?.bucket;
        let status = bucket.versioning.map(|status| {
            dto::BucketVersioningStatus::from_static(match status {
                Versioning::Enabled => dto::BucketVersioningStatus::ENABLED,
                Versioning::Suspended => dto::BucketVersioningStatus::SUSPENDED,
            })
        });
        Ok(S3Response::new(dto::GetBucketVersioningOutput { mfa_delete: None, status }))
    }

    pub(super) async fn on_put_bucket_versioning(
        &self,
        request: S3Request<dto::PutBucketVersioningInput>,
    ) -> S3Result<S3Response<dto::PutBucketVersioningOutput>> {
        let bucket = self.open(&request, &request.input.bucket, "s3:PutBucketVersioning").await?.bucket;
        let configuration = &request.input.versioning_configuration;
        if configuration.mfa_delete.as_ref().is_some_and(|mfa| mfa.as_str() == "Enabled") {
            return Err(because(S3ErrorCode::NotImplemented, "MFA delete is not offered; leave MfaDelete out"));
        }
        let status = match configuration.status.as_ref().map(|status| status.as_str()) {
            Some("Enabled") => Versioning::Enabled,
            Some("Suspended") => Versioning::Suspended,
            _ => {
                return Err(because(
                    S3ErrorCode::MalformedXML,
                    "the versioning configuration must have a Status of Enabled or Suspended",
                ))
            }
        };
        if status == Versioning::Suspended && bucket.object_lock.as_ref().is_some_and(|lock| lock.enabled) {
            return Err(because(
                S3ErrorCode::InvalidBucketState,
                "An Object Lock configuration is present on this bucket, so the versioning state cannot be changed.",
            ));
        }
        self.tell_of(&bucket, PutBucketVersioning { bucket: request.input.bucket, status }).await?;
        Ok(S3Response::new(dto::PutBucketVersioningOutput::default()))
    }

    pub(super) async fn on_get_bucket_ownership_controls(
        &self,
        request: S3Request<dto::GetBucketOwnershipControlsInput>,
    ) -> S3Result<S3Response<dto::GetBucketOwnershipControlsOutput>> {
        let bucket = self.open(&request, &request.input.bucket, "s3:GetBucketOwnershipControls").await?.bucket;
        let ownership = bucket.object_ownership.ok_or_else(|| code(S3ErrorCode::OwnershipControlsNotFoundError))?;
        let word = match ownership {
            ObjectOwnership::BucketOwnerEnforced => dto::ObjectOwnership::BUCKET_OWNER_ENFORCED,
            ObjectOwnership::BucketOwnerPreferred => dto::ObjectOwnership::BUCKET_OWNER_PREFERRED,
            ObjectOwnership::ObjectWriter => dto::ObjectOwnership::OBJECT_WRITER,
        };
        let rules = vec![dto::OwnershipControlsRule { object_ownership: dto::ObjectOwnership::from_static(word) }];
        let ownership_controls = Some(dto::OwnershipControls { rules });
        Ok(S3Response::new(dto::GetBucketOwnershipControlsOutput { ownership_controls }))
    }

    pub(super) async fn on_put_bucket_ownership_controls(
        &self,
        request: S3Request<dto::PutBucketOwnershipControlsInput>,
    ) -> S3Result<S3Response<dto::PutBucketOwnershipControlsOutput>> {
        let bucket = self.open(&request, &request.input.bucket, "s3:PutBucketOwnershipControls").await?.bucket;
        let [rule] = &request.input.ownership_controls.rules[..] else {
            return Err(because(S3ErrorCode::MalformedXML, "there must be exactly one ownership controls rule"));
        };
        let object_ownership =
            ownership_of(rule.object_ownership.as_str()).map_err(|_| code(S3ErrorCode::MalformedXML))?;
        let open_acl = !crate::access::acl::is_owner_only(&bucket.acl, &bucket.owner.id);
        if object_ownership == ObjectOwnership::BucketOwnerEnforced && open_acl {
            return Err(because(
                S3ErrorCode::InvalidRequest,
                "Bucket cannot have ACLs set with ObjectOwnership's BucketOwnerEnforced setting",
            ));
        }
        self.tell_of(&bucket, PutBucketOwnershipControls { bucket: request.input.bucket, object_ownership }).await?;
        Ok(S3Response::new(dto::PutBucketOwnershipControlsOutput::default()))
    }

    pub(super) async fn on_get_public_access_block(
        &self,
        request: S3Request<dto::GetPublicAccessBlockInput>,
    ) -> S3Result<S3Response<dto::GetPublicAccessBlockOutput>> {
        let bucket = self.open(&request, &request.input.bucket, "s3:GetBucketPublicAccessBlock").await?.bucket;
        let block =
            bucket.public_access_block.ok_or_else(|| code(S3ErrorCode::NoSuchPublicAccessBlockConfiguration))?;
        let public_access_block_configuration = Some(dto::PublicAccessBlockConfiguration {
            block_public_acls: Some(block.block_public_acls),
            block_public_policy: Some(block.block_public_policy),
            ignore_public_acls: Some(block.ignore_public_acls),
            restrict_public_buckets: Some(block.restrict_public_buckets),
        });
        Ok(S3Response::new(dto::GetPublicAccessBlockOutput { public_access_block_configuration }))
    }

    pub(super) async fn on_put_public_access_block(
        &self,
        request: S3Request<dto::PutPublicAccessBlockInput>,
    ) -> S3Result<S3Response<dto::PutPublicAccessBlockOutput>> {
        let bucket = self.open(&request, &request.input.bucket, "s3:PutBucketPublicAccessBlock").await?.bucket;
        let asked = &request.input.public_access_block_configuration;
        let public_access_block = PublicAccessBlock {
            block_public_acls: asked.block_public_acls.unwrap_or(false),
            ignore_public_acls: asked.ignore_public_acls.unwrap_or(false),
            block_public_policy: asked.block_public_policy.unwrap_or(false),
            restrict_public_buckets: asked.restrict_public_buckets.unwrap_or(false),
        };
        self.tell_of(&bucket, PutPublicAccessBlock { bucket: request.input.bucket, public_access_block }).await?;
        Ok(S3Response::new(dto::PutPublicAccessBlockOutput::default()))
    }

    pub(super) async fn on_get_object_lock_configuration(
        &self,
        request: S3Request<dto::GetObjectLockConfigurationInput>,
    ) -> S3Result<S3Response<dto::GetObjectLockConfigurationOutput>> {
        let bucket = self.open(&request, &request.input.bucket, "s3:GetBucketObjectLockConfiguration").await?.bucket;
        let lock = bucket.info.object_lock.ok_or_else(|| code(S3ErrorCode::ObjectLockConfigurationNotFoundError))?;
        let rule = lock.default_retention.map(|default| dto::ObjectLockRule {
            default_retention: Some(dto::DefaultRetention {
                days: default.days.and_then(|days| i32::try_from(days).ok()),
                mode: Some(dto::ObjectLockRetentionMode::from_static(convert::mode_word(default.mode))),
                years: default.years.and_then(|years| i32::try_from(years).ok()),
            }),
        });
        let enabled = dto::ObjectLockEnabled::from_static(dto::ObjectLockEnabled::ENABLED);
        let configuration = dto::ObjectLockConfiguration { object_lock_enabled: Some(enabled), rule };
        Ok(S3Response::new(dto::GetObjectLockConfigurationOutput { object_lock_configuration: Some(configuration) }))
    }

    pub(super) async fn on_put_object_lock_configuration(
        &self,
        request: S3Request<dto::PutObjectLockConfigurationInput>,
    ) -> S3Result<S3Response<dto::PutObjectLockConfigurationOutput>> {
        let bucket = self.open(&request, &request.input.bucket, "s3:PutBucketObjectLockConfiguration").await?.bucket;
        let asked = request.input.object_lock_configuration.ok_or_else(|| code(S3ErrorCode::MalformedXML))?;
        let default = asked.rule.and_then(|rule| rule.default_retention);
        let positive = |number: Option<i32>| number.map(|number| u32::try_from(number).unwrap_or(0));
        let default_retention = match default {
            None => None,
            Some(default) => Some(DefaultRetention {
                mode: match default.mode.as_ref().map(|mode| mode.as_str()) {
                    Some("GOVERNANCE") => RetentionMode::Governance,
                    Some("COMPLIANCE") => RetentionMode::Compliance,
                    _ => return Err(code(S3ErrorCode::MalformedXML)),
                },
                days: positive(default.days),
                years: positive(default.years),
            }),
        };
        let enabled = asked.object_lock_enabled.is_some_and(|enabled| enabled.as_str() == "Enabled");
        let object_lock = ObjectLockConfiguration { enabled, default_retention };
        validate::object_lock(&object_lock).map_err(to_s3)?;
        if bucket.versioning != Some(Versioning::Enabled) {
            return Err(because(
                S3ErrorCode::InvalidBucketState,
                "Versioning must be 'Enabled' on the bucket to apply a Object Lock configuration",
            ));
        }
        self.tell_of(&bucket, PutObjectLockConfiguration { bucket: request.input.bucket, object_lock }).await?;
        Ok(S3Response::new(dto::PutObjectLockConfigurationOutput::default()))
    }

    pub(super) async fn on_get_bucket_encryption(
        &self,
        request: S3Request<dto::GetBucketEncryptionInput>,
    ) -> S3Result<S3Response<dto::GetBucketEncryptionOutput>> {
        let bucket = self.open(&request, &request.input.bucket, "s3:GetEncryptionConfiguration").await?.bucket;
        let encryption =
            bucket.info.encryption.ok_or_else(|| code(S3ErrorCode::ServerSideEncryptionConfigurationNotFoundError))?;
        let rule = dto::ServerSideEncryptionRule {
            apply_server_side_encryption_by_default: Some(dto::ServerSideEncryptionByDefault {
                kms_master_key_id: None,
                sse_algorithm: dto::ServerSideEncryption::from(encryption.sse_algorithm),
            }),
            bucket_key_enabled: Some(encryption.bucket_key_enabled),
        };
        let configuration = dto::ServerSideEncryptionConfiguration { rules: vec![rule] };
        Ok(S3Response::new(dto::GetBucketEncryptionOutput {
            server_side_encryption_configuration: Some(configuration),
        }))
    }

    pub(super) async fn on_put_bucket_encryption(
        &self,
        request: S3Request<dto::PutBucketEncryptionInput>,
    ) -> S3Result<S3Response<dto::PutBucketEncryptionOutput>> {
        let bucket = self.open(&request, &request.input.bucket, "s3:PutEncryptionConfiguration").await?.bucket;
        let rules = request.input.server_side_encryption_configuration.rules;
        let [rule] = &rules[..] else { return Err(code(S3ErrorCode::MalformedXML)) };
        let by_default = rule.apply_server_side_encryption_by_default.as_ref();
        let by_default = by_default.ok_or_else(|| code(S3ErrorCode::MalformedXML))?;
        validate::encryption_algorithm(by_default.sse_algorithm.as_str()).map_err(to_s3)?;
        let encryption = Encryption {
            sse_algorithm: by_default.sse_algorithm.as_str().to_owned(),
            bucket_key_enabled: rule.bucket_key_enabled.unwrap_or(false),
        };
        self.tell_of(&bucket, PutBucketEncryption { bucket: request.input.bucket, encryption }).await?;
        Ok(S3Response::new(dto::PutBucketEncryptionOutput::default()))
    }

    pub(super) async fn on_get_bucket_lifecycle_configuration(
        &self,
        request: S3Request<dto::GetBucketLifecycleConfigurationInput>,
    ) -> S3Result<S3Response<dto::GetBucketLifecycleConfigurationOutput>> {
        let bucket = self.open(&request, &request.input.bucket, "s3:GetLifecycleConfiguration").await?.bucket;
        let found: BucketLifecycle =
            self.ask_of(&bucket, GetBucketLifecycleConfiguration { bucket: request.input.bucket }).await?;
        let rules = Some(found.rules.into_iter().map(rule_to_wire).collect());
        Ok(S3Response::new(dto::GetBucketLifecycleConfigurationOutput { rules, ..Default::default() }))
    }

    pub(super) async fn on_put_bucket_lifecycle_configuration(
        &self,
        request: S3Request<dto::PutBucketLifecycleConfigurationInput>,
    ) -> S3Result<S3Response<dto::PutBucketLifecycleConfigurationOutput>> {
        let bucket = self.open(&request, &request.input.bucket, "s3:PutLifecycleConfiguration").await?.bucket;
        let configuration = request.input.lifecycle_configuration.ok_or_else(|| code(S3ErrorCode::MalformedXML))?;
        let rules = configuration.rules.into_iter().map(rule_of).collect::<S3Result<Vec<LifecycleRule>>>()?;
        validate::lifecycle(&rules).map_err(to_s3)?;
        self.rules.forget(&bucket.bucket);
        self.tell_of(&bucket, PutBucketLifecycleConfiguration { bucket: request.input.bucket, rules }).await?;
        self.rules.forget(&bucket.bucket);
        Ok(S3Response::new(dto::PutBucketLifecycleConfigurationOutput::default()))
    }
}

/// The name of a rule that came without.
fn rule_id() -> String {
    format!("rule-{}", crate::stamp::RequestId::new().as_str())
}

/// A day count as we have it; what is no such count becomes 0, which `validate` refuses.
fn days(number: Option<i32>) -> u32 {
    number.and_then(|number| u32::try_from(number).ok()).unwrap_or(0)
}

fn rule_of(rule: dto::LifecycleRule) -> S3Result<LifecycleRule> {
    let moves = rule.transitions.is_some_and(|list| !list.is_empty())
        || rule.noncurrent_version_transitions.is_some_and(|list| !list.is_empty());
    if moves {
        return Err(because(
            S3ErrorCode::NotImplemented,
            "transitions are not offered, for there is one storage class; leave them out",
        ));
    }
    let enabled = match rule.status.as_str() {
        "Enabled" => true,
        "Disabled" => false,
        _ => return Err(code(S3ErrorCode::MalformedXML)),
    };
    if rule.filter.is_some() && rule.prefix.is_some() {
        return Err(because(S3ErrorCode::MalformedXML, "a rule has both Filter and Prefix; send one"));
    }
    if rule.filter.is_none() && rule.prefix.is_none() {
        return Err(because(S3ErrorCode::MalformedXML, "a rule has no Filter; add one"));
    }
    let filter = match rule.filter {
        Some(filter) => filter_of(filter)?,
        None => LifecycleFilter { prefix: rule.prefix.clone(), ..LifecycleFilter::default() },
    };
    Ok(LifecycleRule {
        id: Some(rule.id.filter(|id| !id.is_empty()).unwrap_or_else(rule_id)),
        prefix_beside: rule.prefix.is_some(),
        enabled,
        filter,
        expiration: rule.expiration.map(|expiration| Expiration {
            days: expiration.days.map(|number| days(Some(number))),
            date_ms: expiration.date.as_ref().map(crate::times::millis),
            expired_object_delete_marker: expiration.expired_object_delete_marker,
        }),
        noncurrent_version_expiration: rule.noncurrent_version_expiration.map(|noncurrent| NoncurrentExpiration {
            noncurrent_days: days(noncurrent.noncurrent_days),
            newer_noncurrent_versions: noncurrent.newer_noncurrent_versions.map(|count| days(Some(count))),
        }),
        abort_incomplete_multipart_upload_days: rule
            .abort_incomplete_multipart_upload
            .map(|abort| days(abort.days_after_initiation)),
    })
}

fn filter_of(filter: dto::LifecycleRuleFilter) -> S3Result<LifecycleFilter> {
    let size = |bytes: Option<i64>| bytes.map(|bytes| u64::try_from(bytes).unwrap_or(0));
    let given = [
        filter.and.is_some(),
        filter.prefix.is_some(),
        filter.tag.is_some(),
        filter.object_size_greater_than.is_some(),
        filter.object_size_less_than.is_some(),
    ];
    if given.iter().filter(|given| **given).count() > 1 {
        return Err(because(S3ErrorCode::MalformedXML, "a Filter has several conditions; put them into And"));
    }
    if let Some(and) = filter.and {
        return Ok(LifecycleFilter {
            prefix: and.prefix,
            tags: convert::tags_of(and.tags.unwrap_or_default())?,
            object_size_greater_than: size(and.object_size_greater_than),
            object_size_less_than: size(and.object_size_less_than),
        });
    }
    Ok(LifecycleFilter {
        prefix: filter.prefix,
        tags: convert::tags_of(filter.tag.into_iter().collect())?,
        object_size_greater_than: size(filter.object_size_greater_than),
        object_size_less_than: size(filter.object_size_less_than),
    })
}

fn rule_to_wire(rule: LifecycleRule) -> dto::LifecycleRule {
    let signed = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
    let long = |bytes: Option<u64>| bytes.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
    let LifecycleFilter { prefix, tags, object_size_greater_than, object_size_less_than } = rule.filter;
    let beside = rule.prefix_beside.then(|| prefix.clone().unwrap_or_default());
    let (above, below) = (long(object_size_greater_than), long(object_size_less_than));
    let conditions =
        usize::from(prefix.is_some()) + tags.len() + usize::from(above.is_some()) + usize::from(below.is_some());
    let mut tags = convert::tags_to_wire(tags);
    let filter = if conditions > 1 {
        dto::LifecycleRuleFilter {
            and: Some(dto::LifecycleRuleAndOperator {
                object_size_greater_than: above,
                object_size_less_than: below,
                prefix,
                tags: (!tags.is_empty()).then_some(tags),
            }),
            ..Default::default()
        }
    } else {
        let prefix = if conditions == 0 { Some(String::new()) } else { prefix };
        dto::LifecycleRuleFilter {
            and: None,
            object_size_greater_than: above,
            object_size_less_than: below,
            prefix,
            tag: tags.pop(),
        }
    };
    let status = if rule.enabled { dto::ExpirationStatus::ENABLED } else { dto::ExpirationStatus::DISABLED };
    dto::LifecycleRule {
        abort_incomplete_multipart_upload: rule
            .abort_incomplete_multipart_upload_days
            .map(|days| dto::AbortIncompleteMultipartUpload { days_after_initiation: Some(signed(days)) }),
        expiration: rule.expiration.map(|expiration| dto::LifecycleExpiration {
            date: expiration.date_ms.map(convert::timestamp),
            days: expiration.days.map(signed),
            expired_object_delete_marker: expiration.expired_object_delete_marker,
        }),
        filter: (!rule.prefix_beside).then_some(filter),
        id: rule.id,
        noncurrent_version_expiration: rule.noncurrent_version_expiration.map(|noncurrent| {
            dto::NoncurrentVersionExpiration {
                newer_noncurrent_versions: noncurrent.newer_noncurrent_versions.map(signed),
                noncurrent_days: Some(signed(noncurrent.noncurrent_days)),
            }
        }),
        noncurrent_version_transitions: None,
        prefix: beside,
        status: dto::ExpirationStatus::from_static(status),
        transitions: None,
    }
}
