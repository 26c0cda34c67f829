//! Settings of a bucket that is served as a website, and of its access log.
//!
//! Always: an access log goes to a bucket of the same owner alone, where who asks for it may put objects himself.
//! Held by: `access_logs_go_where_their_owner_may_put` (scripts/s3/cases_sites.py).
//! Not here: serving (`website`), what a log says (`access_log`).

use super::Gateway;
use crate::error::{because, code};
use base_types::s3::*;
use s3s::dto;
use s3s::{S3Request, S3Response, S3Result};

/// The most redirects of a website.
const ROUTING_RULES_MAX: usize = 50;

fn malformed(message: &str) -> s3s::S3Error {
    because(S3ErrorCode::InvalidArgument, message)
}

impl Gateway {
    /// How a bucket is served, for who visits it.
    pub(crate) async fn website(&self, bucket: &str) -> S3Result<Website> {
        let bucket = self.bucket_as(base_types::access::Caller::Node, bucket).await?;
        bucket.info.website.ok_or_else(|| code(S3ErrorCode::NoSuchWebsiteConfiguration))
    }

    pub(super) async fn on_get_bucket_website(
        &self,
        request: S3Request<dto::GetBucketWebsiteInput>,
    ) -> S3Result<S3Response<dto::GetBucketWebsiteOutput>> {
        let bucket = self.open(&request, &request.input.bucket, "s3:GetBucketWebsite").await?.bucket;
        let site = bucket.info.website.ok_or_else(|| code(S3ErrorCode::NoSuchWebsiteConfiguration))?;
        let rules: Vec<dto::RoutingRule> = site.routing_rules.into_iter().map(rule_to_wire).collect();
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
        let website = site_of(request.input.website_configuration)?;
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
                let target = target_of(enabled)?;
                let refused = |message: &str| because(S3ErrorCode::InvalidTargetBucketForLogging, message);
                let there = self.bucket(&opened.who, &target.bucket).await;
                let there = there.map_err(|_| refused("The target bucket for logging does not exist"))?;
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

fn target_of(enabled: dto::LoggingEnabled) -> S3Result<LogTarget> {
    if enabled.target_grants.is_some_and(|grants| !grants.is_empty()) {
        let message = "TargetGrants are not offered: the log's objects are the target bucket's owner's; leave them out";
        return Err(because(S3ErrorCode::NotImplemented, message));
    }
    if enabled.target_object_key_format.is_some_and(|format| format.partitioned_prefix.is_some()) {
        let message = "PartitionedPrefix is not offered; use SimplePrefix, or leave TargetObjectKeyFormat out";
        return Err(because(S3ErrorCode::NotImplemented, message));
    }
    Ok(LogTarget { bucket: enabled.target_bucket, prefix: enabled.target_prefix })
}

fn site_of(wire: dto::WebsiteConfiguration) -> S3Result<Website> {
    let redirect_all = wire.redirect_all_requests_to;
    let others = wire.index_document.is_some() || wire.error_document.is_some() || wire.routing_rules.is_some();
    if redirect_all.is_some() && others {
        return Err(malformed("RedirectAllRequestsTo cannot be provided in conjunction with other Routing Rules."));
    }
    if let Some(all) = redirect_all {
        if all.host_name.is_empty() {
            return Err(malformed("The HostName of RedirectAllRequestsTo is empty; name a host"));
        }
        let protocol = protocol_of(all.protocol)?;
        let redirect_all = Some(RedirectAll { host_name: all.host_name, protocol });
        return Ok(Website { redirect_all, ..Website::default() });
    }
    let suffix = wire.index_document.map(|document| document.suffix);
    let suffix = suffix.ok_or_else(|| {
        malformed("A value for IndexDocument Suffix must be provided if RedirectAllRequestsTo is empty")
    })?;
    if suffix.is_empty() || suffix.contains('/') {
        return Err(malformed("The IndexDocument Suffix is not well formed"));
    }
    if wire.error_document.as_ref().is_some_and(|document| document.key.is_empty()) {
        return Err(malformed("The ErrorDocument Key is empty; name a key, or leave ErrorDocument out"));
    }
    let rules = wire.routing_rules.unwrap_or_default();
    if rules.len() > ROUTING_RULES_MAX {
        let message = format!("{} routing rules provided, the number of routing rules in a website configuration is limited to {ROUTING_RULES_MAX}.", rules.len());
        return Err(because(S3ErrorCode::InvalidRequest, message));
    }
    Ok(Website {
        redirect_all: None,
        index_suffix: Some(suffix),
        error_key: wire.error_document.map(|document| document.key),
        routing_rules: rules.into_iter().map(rule_of).collect::<S3Result<Vec<RoutingRule>>>()?,
    })
}

fn protocol_of(word: Option<dto::Protocol>) -> S3Result<Option<String>> {
    match word.as_ref().map(|word| word.as_str()) {
        None => Ok(None),
        Some(word @ ("http" | "https")) => Ok(Some(word.to_owned())),
        Some(_) => Err(malformed("Invalid protocol, protocol can be http or https. If not defined the protocol will be selected automatically.")),
    }
}

fn rule_of(wire: dto::RoutingRule) -> S3Result<RoutingRule> {
    let condition = wire.condition.unwrap_or_default();
    let status = |text: Option<String>, within: std::ops::Range<u16>, what: &str| {
        let number = text.as_deref().map(|text| text.parse::<u16>().ok().filter(|status| within.contains(status)));
        match number {
            Some(None) => Err(malformed(&format!("The provided {what} is not valid."))),
            Some(number) => Ok(number),
            None => Ok(None),
        }
    };
    let redirect = wire.redirect;
    if redirect.replace_key_with.is_some() && redirect.replace_key_prefix_with.is_some() {
        return Err(malformed("You can only define ReplaceKeyPrefix or ReplaceKey but not both."));
    }
    Ok(RoutingRule {
        key_prefix: condition.key_prefix_equals,
        http_error_code: status(condition.http_error_code_returned_equals, 400..600, "HTTP error code")?,
        host_name: redirect.host_name,
        protocol: protocol_of(redirect.protocol)?,
        http_redirect_code: status(redirect.http_redirect_code, 301..400, "HTTP redirect code")?,
        replace_key_prefix_with: redirect.replace_key_prefix_with,
        replace_key_with: redirect.replace_key_with,
    })
}

fn rule_to_wire(rule: RoutingRule) -> dto::RoutingRule {
    let condition = (rule.key_prefix.is_some() || rule.http_error_code.is_some()).then(|| dto::Condition {
        http_error_code_returned_equals: rule.http_error_code.map(|status| status.to_string()),
        key_prefix_equals: rule.key_prefix,
    });
    dto::RoutingRule {
        condition,
        redirect: dto::Redirect {
            host_name: rule.host_name,
            http_redirect_code: rule.http_redirect_code.map(|status| status.to_string()),
            protocol: rule.protocol.map(dto::Protocol::from),
            replace_key_prefix_with: rule.replace_key_prefix_with,
            replace_key_with: rule.replace_key_with,
        },
    }
}
