//! Websites and access logs of buckets between s3s' shapes and ours. Pure; what S3 does not take is refused with its code.
//!
//! Not here: the calls (`buckets`), serving (`website`), what a log says (`access_log`).

use crate::error::because;
use base_types::s3::{LogTarget, RedirectAll, RoutingRule, S3ErrorCode, Website};
use s3s::dto;
use s3s::S3Result;

/// The most redirects of a website.
const ROUTING_RULES_MAX: usize = 50;

fn malformed(message: &str) -> s3s::S3Error {
    because(S3ErrorCode::InvalidArgument, message)
}

pub(super) fn target_of(enabled: dto::LoggingEnabled) -> S3Result<LogTarget> {
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

pub(super) fn site_of(wire: dto::WebsiteConfiguration) -> S3Result<Website> {
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

pub(super) fn rule_to_wire(rule: RoutingRule) -> dto::RoutingRule {
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
