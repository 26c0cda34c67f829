//! Calls on buckets as such, and on what they are to the world: websites, with access logs.
//!
//! Always: an access log goes to a bucket of the same owner alone, where the account that asks for it may put objects.
//! Held by: `access_logs_go_where_their_owner_may_put`.

use super::{refuse_blocked_acl, sites, Gateway, Who};
use crate::access::{may_create, may_list_buckets, reaches};
use crate::convert::{asked_acl, owner_to_wire, timestamp};
use crate::error::{because, code, to_s3};
use crate::validate;
use base_types::s3::{
    Buckets, CreateAccount, CreateBucket, DeleteBucket, DeleteBucketWebsite, ListBuckets, ObjectOwnership, Owner,
    PublicAccessBlock, PutBucketLogging, PutBucketWebsite, S3ErrorCode,
};
use s3s::dto;
use s3s::{S3Request, S3Response, S3Result};

/// The most buckets of one page.
const MAX_BUCKETS_MAX: i32 = 10_000;

/// Who owns what others put, by its S3 word.
pub(super) fn ownership_of(word: &str) -> S3Result<ObjectOwnership> {
    match word {
        "BucketOwnerEnforced" => Ok(ObjectOwnership::BucketOwnerEnforced),
        "BucketOwnerPreferred" => Ok(ObjectOwnership::BucketOwnerPreferred),
        "ObjectWriter" => Ok(ObjectOwnership::ObjectWriter),
        _ => Err(because(S3ErrorCode::InvalidArgument, "Invalid x-amz-object-ownership header")),
    }
}

impl Gateway {
    pub(super) async fn on_create_bucket(
        &self,
        request: S3Request<dto::CreateBucketInput>,
    ) -> S3Result<S3Response<dto::CreateBucketOutput>> {
        let who = self.who(&request).await?;
        let owner = who.owner.clone().filter(|_| may_create(&who.caller, &request.input.bucket, &who.context));
        let owner = owner.ok_or_else(|| code(S3ErrorCode::AccessDenied))?;
        let asked = asked_acl!(request.input, with_write);
        let input = request.input;
        validate::new_bucket_name(&input.bucket).map_err(to_s3)?;
        let constraint = input.create_bucket_configuration.and_then(|configuration| configuration.location_constraint);
        // A wish for a place, which the metadata service grants or refuses.
        let location_constraint = constraint.map(|word| word.as_str().to_owned()).filter(|region| !region.is_empty());
        let older = self.older_bucket_defaults;
        let by_default = if older { ObjectOwnership::ObjectWriter } else { ObjectOwnership::default() };
        let object_ownership =
            input.object_ownership.map(|word| ownership_of(word.as_str())).transpose()?.unwrap_or(by_default);
        let acl = asked.is_given().then(|| asked.build(owner.clone(), &owner.id)).transpose()?;
        if let Some(acl) = &acl {
            let owner_only = crate::access::acl::is_owner_only(acl, &owner.id);
            if object_ownership == ObjectOwnership::BucketOwnerEnforced && !owner_only {
                return Err(because(
                    S3ErrorCode::InvalidRequest,
                    "Bucket cannot have ACLs set with ObjectOwnership's BucketOwnerEnforced setting",
                ));
            }
            // A new bucket is closed to the public, as AWS makes them; that is opened first.
            let closed = PublicAccessBlock { block_public_acls: !older, ..PublicAccessBlock::default() };
            let info = base_types::s3::BucketInfo { public_access_block: Some(closed), ..Default::default() };
            refuse_blocked_acl(&info, acl)?;
        }
        let location = format!("/{}", input.bucket);
        let create = CreateBucket {
            bucket: input.bucket,
            account: owner.id.clone(),
            location_constraint,
            acl,
            object_lock_enabled_for_bucket: input.object_lock_enabled_for_bucket.unwrap_or(false),
            object_ownership,
            open_to_public: older,
        };
        let user = who.caller.identity().map(|_| owner);
        self.create(&who, create, user).await?;
        Ok(S3Response::new(dto::CreateBucketOutput { location: Some(location) }))
    }

    /// A user's account is made with its first bucket.
    async fn create(&self, who: &Who, call: CreateBucket, user: Option<Owner>) -> S3Result<()> {
        let first = self.metadata.call(call.clone().into(), who.behalf()).await.map(|_| ());
        match (first, user) {
            (Err(refusal), Some(owner)) if refusal.code.s3() == Some(S3ErrorCode::NoSuchAccount) => {
                let account =
                    CreateAccount { account: owner.id, display_name: owner.display_name, ..CreateAccount::default() };
                self.tell(who, account).await?;
                self.tell(who, call).await
            }
            (done, _) => done.map_err(to_s3),
        }
    }

    pub(super) async fn on_delete_bucket(
        &self,
        request: S3Request<dto::DeleteBucketInput>,
    ) -> S3Result<S3Response<dto::DeleteBucketOutput>> {
        let opened = self.open(&request, &request.input.bucket, "s3:DeleteBucket").await?;
        // It may be another's by the time the core removes it.
        let expected_bucket_owner = Some(opened.bucket.owner.id.clone());
        self.tell(&opened.who, DeleteBucket { bucket: request.input.bucket, expected_bucket_owner }).await?;
        Ok(S3Response::new(dto::DeleteBucketOutput::default()))
    }

    pub(super) async fn on_head_bucket(
        &self,
        request: S3Request<dto::HeadBucketInput>,
    ) -> S3Result<S3Response<dto::HeadBucketOutput>> {
        let who = self.who(&request).await?;
        let bucket = self.bucket(&who, &request.input.bucket).await?;
        who.expect_owner(&bucket)?;
        who.authorize_head(&bucket)?;
        let output = dto::HeadBucketOutput { bucket_region: Some(bucket.info.bucket_region), ..Default::default() };
        Ok(S3Response::new(output))
    }

    pub(super) async fn on_get_bucket_location(
        &self,
        request: S3Request<dto::GetBucketLocationInput>,
    ) -> S3Result<S3Response<dto::GetBucketLocationOutput>> {
        let opened = self.open(&request, &request.input.bucket, "s3:GetBucketLocation").await?;
        let region = opened.bucket.info.bucket_region;
        // The oldest region has no name here, and clients know it.
        let location_constraint = (region != "us-east-1").then(|| dto::BucketLocationConstraint::from(region));
        Ok(S3Response::new(dto::GetBucketLocationOutput { location_constraint }))
    }

    pub(super) async fn on_list_buckets(
        &self,
        request: S3Request<dto::ListBucketsInput>,
    ) -> S3Result<S3Response<dto::ListBucketsOutput>> {
        let who = self.who(&request).await?;
        let owner = who.owner.clone().filter(|_| may_list_buckets(&who.caller, &who.context));
        let owner = owner.ok_or_else(|| code(S3ErrorCode::AccessDenied))?;
        let input = request.input;
        let max_buckets = match input.max_buckets {
            Some(max) if !(1..=MAX_BUCKETS_MAX).contains(&max) => return Err(code(S3ErrorCode::InvalidArgument)),
            max => max.and_then(|max| u32::try_from(max).ok()),
        };
        let call = ListBuckets {
            account: owner.id,
            prefix: input.prefix.clone().unwrap_or_default(),
            max_buckets,
            continuation_token: input.continuation_token,
        };
        let page: Buckets = self.ask(&who, call).await?;
        let bucket = |entry: base_types::s3::BucketEntry| dto::Bucket {
            bucket_region: Some(entry.bucket_region),
            creation_date: Some(timestamp(entry.creation_date_ms)),
            name: Some(entry.name),
        };
        // A page of a key with bounds may have fewer, or none: the token continues it.
        let shown = page.buckets.into_iter().filter(|entry| reaches(&who.caller, &entry.name));
        Ok(S3Response::new(dto::ListBucketsOutput {
            owner: Some(owner_to_wire(&page.owner)),
            buckets: Some(shown.map(bucket).collect()),
            continuation_token: page.continuation_token,
            prefix: input.prefix,
        }))
    }

    pub(super) async fn on_get_bucket_website(
        &self,
        request: S3Request<dto::GetBucketWebsiteInput>,
    ) -> S3Result<S3Response<dto::GetBucketWebsiteOutput>> {
        let bucket = self.open(&request, &request.input.bucket, "s3:GetBucketWebsite").await?.bucket;
        let site = bucket.info.website.ok_or_else(|| code(S3ErrorCode::NoSuchWebsiteConfiguration))?;
        let rules: Vec<dto::RoutingRule> = site.routing_rules.into_iter().map(sites::rule_to_wire).collect();
        Ok(S3Response::new(dto::GetBucketWebsiteOutput {
            error_document: site.error_key.map(|key| dto::ErrorDocument { key }),
            index_document: site.index_suffix.map(|suffix| dto::IndexDocument { suffix }),
            redirect_all_requests_to: site.redirect_all.map(|all| dto::RedirectAllRequestsTo {
                host_name: all.host_name,
                protocol: all.protocol.map(dto::Protocol::from),
            }),
            routing_rules: (!rules.is_empty()).then_some(rules),
        }))
    }

    pub(super) async fn on_put_bucket_website(
        &self,
        request: S3Request<dto::PutBucketWebsiteInput>,
    ) -> S3Result<S3Response<dto::PutBucketWebsiteOutput>> {
        let bucket = self.open(&request, &request.input.bucket, "s3:PutBucketWebsite").await?.bucket;
        let website = sites::site_of(request.input.website_configuration)?;
        self.tell_of(&bucket, PutBucketWebsite { bucket: request.input.bucket, website }).await?;
        Ok(S3Response::new(dto::PutBucketWebsiteOutput::default()))
    }

    pub(super) async fn on_delete_bucket_website(
        &self,
        request: S3Request<dto::DeleteBucketWebsiteInput>,
    ) -> S3Result<S3Response<dto::DeleteBucketWebsiteOutput>> {
        let bucket = self.open(&request, &request.input.bucket, "s3:DeleteBucketWebsite").await?.bucket;
        self.tell_of(&bucket, DeleteBucketWebsite { bucket: request.input.bucket }).await?;
        let mut response = S3Response::new(dto::DeleteBucketWebsiteOutput::default());
        response.status = Some(hyper::StatusCode::NO_CONTENT);
        Ok(response)
    }

    pub(super) async fn on_get_bucket_logging(
        &self,
        request: S3Request<dto::GetBucketLoggingInput>,
    ) -> S3Result<S3Response<dto::GetBucketLoggingOutput>> {
        let bucket = self.open(&request, &request.input.bucket, "s3:GetBucketLogging").await?.bucket;
        let logging_enabled = bucket.info.logging.map(|to| dto::LoggingEnabled {
            target_bucket: to.bucket,
            target_prefix: to.prefix,
            target_grants: None,
            target_object_key_format: None,
        });
        Ok(S3Response::new(dto::GetBucketLoggingOutput { logging_enabled }))
    }

    pub(super) async fn on_put_bucket_logging(
        &self,
        request: S3Request<dto::PutBucketLoggingInput>,
    ) -> S3Result<S3Response<dto::PutBucketLoggingOutput>> {
        let opened = self.open(&request, &request.input.bucket, "s3:PutBucketLogging").await?;
        let bucket = opened.bucket;
        let logging = match request.input.bucket_logging_status.logging_enabled {
            None => None,
            Some(enabled) => {
                let target = sites::target_of(enabled)?;
                let refused = |message: &str| because(S3ErrorCode::InvalidTargetBucketForLogging, message);
                let there = self.bucket(&opened.who, &target.bucket).await;
                let there = there.map_err(|error| match error.code() {
                    s3s::S3ErrorCode::NoSuchBucket | s3s::S3ErrorCode::InvalidBucketName => {
                        refused("The target bucket for logging does not exist")
                    }
                    _ => error,
                })?;
                if there.owner.id != bucket.owner.id {
                    return Err(refused(
                        "The owner for the bucket to be logged and the target bucket must be the same.",
                    ));
                }
                // One of the keys that the log will have.
                let key = format!("{}2026-01-01-00-00-00-0123456789ABCDEF", target.prefix);
                opened.who.authorize(&there, "s3:PutObject", Some(&key), None)?;
                Some(target)
            }
        };
        self.tell_of(&bucket, PutBucketLogging { bucket: request.input.bucket, logging }).await?;
        Ok(S3Response::new(dto::PutBucketLoggingOutput::default()))
    }
}
