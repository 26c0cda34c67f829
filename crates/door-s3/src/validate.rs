//! What S3 takes: names, keys, tags, metadata, part numbers, settings. Pure; refusals carry S3's codes.
//!
//! Not here: policies (`access/policy.rs`), what a stored state forbids (the metadata service).

use base_types::s3::{
    CompletedPart, CorsRule, DefaultRetention, Expiration, LifecycleRule, ObjectHeaders, ObjectLockConfiguration,
    S3ErrorCode, Tag, BUCKET_TAGS_MAX, KEY_BYTES_MAX, OBJECT_TAGS_MAX, PART_NUMBER_MAX, USER_METADATA_BYTES_MAX,
};
use base_types::Refusal;
use std::net::Ipv4Addr;

/// The longest document (XML or a policy) of a call.
pub const DOCUMENT_BYTES_MAX: usize = 1 << 20;
/// The most rules of a lifecycle configuration.
pub const LIFECYCLE_RULES_MAX: usize = 1000;
/// The most rules for browsers.
pub const CORS_RULES_MAX: usize = 100;
/// The longest name of a rule.
pub const RULE_ID_BYTES_MAX: usize = 255;
/// The longest default retention: a hundred years.
const RETENTION_DAYS_MAX: u32 = 36_500;
const TAG_KEY_CHARACTERS_MAX: usize = 128;
const TAG_VALUE_CHARACTERS_MAX: usize = 256;
const DAY_MS: u64 = 24 * 3600 * 1000;

type Checked = Result<(), Refusal>;

fn refuse(code: S3ErrorCode, message: impl Into<String>) -> Checked {
    Err(code.because(message))
}

/// Whether a name can be a bucket's.
pub fn is_bucket_name(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    (3..=63).contains(&bytes.len())
        && bytes.iter().all(|&byte| legal(byte) || byte == b'-' || byte == b'.')
        && bytes.first().is_some_and(|&byte| legal(byte))
        && bytes.last().is_some_and(|&byte| legal(byte))
        && !name.contains("..")
        && name.parse::<Ipv4Addr>().is_err()
        && !["xn--", "sthree-", "amzn-s3-demo-"].iter().any(|prefix| name.starts_with(prefix))
        && !["-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3"].iter().any(|suffix| name.ends_with(suffix))
}

/// A bucket's name.
pub fn bucket_name(name: &str) -> Checked {
    if is_bucket_name(name) {
        return Ok(());
    }
    refuse(S3ErrorCode::InvalidBucketName, "The specified bucket is not valid")
}

/// The name of a bucket that is to be made. Those of before may have a dot beside a hyphen, which no certificate covers.
pub fn new_bucket_name(name: &str) -> Checked {
    match name.contains(".-") || name.contains("-.") {
        true => refuse(S3ErrorCode::InvalidBucketName, "The specified bucket is not valid"),
        false => bucket_name(name),
    }
}

/// An object's key: 1 to 1024 bytes of UTF-8.
pub fn key(key: &str) -> Checked {
    match key.len() {
        0 => refuse(S3ErrorCode::InvalidArgument, "the key is empty; give it 1 to 1024 bytes"),
        length if length > KEY_BYTES_MAX => {
            refuse(S3ErrorCode::KeyTooLongError, format!("the key has {length} bytes; give it at most {KEY_BYTES_MAX}"))
        }
        _ => Ok(()),
    }
}

/// A part's number.
pub fn part_number(number: i32) -> Result<u32, Refusal> {
    u32::try_from(number).ok().filter(|number| (1..=PART_NUMBER_MAX).contains(number)).ok_or_else(|| {
        S3ErrorCode::InvalidArgument.because("Part number must be an integer between 1 and 10000, inclusive")
    })
}

/// The parts a client completes an upload with.
pub fn completed_parts(parts: &[CompletedPart]) -> Checked {
    if parts.is_empty() || parts.len() > PART_NUMBER_MAX as usize {
        let message = format!("an upload is completed with 1 to {PART_NUMBER_MAX} parts, not {}", parts.len());
        return refuse(S3ErrorCode::MalformedXML, message);
    }
    if parts.windows(2).any(|pair| pair[0].part_number >= pair[1].part_number) {
        return Err(S3ErrorCode::InvalidPartOrder.into());
    }
    Ok(())
}

/// The tags of an object.
pub fn object_tags(tags: &[Tag]) -> Checked {
    if tags.len() > OBJECT_TAGS_MAX {
        return refuse(S3ErrorCode::InvalidTag, "Object tags cannot be greater than 10");
    }
    each_tag(tags)
}

/// The tags of a bucket.
pub fn bucket_tags(tags: &[Tag]) -> Checked {
    if tags.len() > BUCKET_TAGS_MAX {
        return refuse(S3ErrorCode::InvalidTag, "Bucket tag count cannot be greater than 50");
    }
    each_tag(tags)
}

fn each_tag(tags: &[Tag]) -> Checked {
    let legal = |text: &str| text.chars().all(|c| c.is_alphanumeric() || c.is_whitespace() || "+-=._:/@".contains(c));
    for (at, tag) in tags.iter().enumerate() {
        let length = tag.key.chars().count();
        if length == 0 || length > TAG_KEY_CHARACTERS_MAX || !legal(&tag.key) {
            return refuse(S3ErrorCode::InvalidTag, "The TagKey you have provided is invalid");
        }
        if tag.value.chars().count() > TAG_VALUE_CHARACTERS_MAX || !legal(&tag.value) {
            return refuse(S3ErrorCode::InvalidTag, "The TagValue you have provided is invalid");
        }
        if tag.key.starts_with("aws:") {
            return refuse(S3ErrorCode::InvalidTag, "System tags cannot be added/updated by requester");
        }
        if tags[..at].iter().any(|other| other.key == tag.key) {
            return refuse(S3ErrorCode::InvalidTag, "Cannot provide multiple Tags with the same key");
        }
    }
    Ok(())
}

/// The tags of an `x-amz-tagging` header: `a=1&b=2`, percent-encoded.
pub fn tagging_header(header: &str) -> Result<Vec<Tag>, Refusal> {
    let wrong =
        || S3ErrorCode::InvalidArgument.because("The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded");
    let pairs = header.split('&').filter(|pair| !pair.is_empty());
    let tags: Result<Vec<Tag>, Refusal> = pairs
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let decode = |text: &str| percent_decoded(text).ok_or_else(wrong);
            Ok(Tag { key: decode(key)?, value: decode(value)? })
        })
        .collect();
    let tags = tags?;
    object_tags(&tags)?;
    Ok(tags)
}

/// Undoes percent-encoding, `+` is a space; `None` where it is broken or no UTF-8.
pub fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut out = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || bytes.next().and_then(|byte| char::from(byte).to_digit(16));
                let (high, low) = (digit()?, digit()?);
                (high * 16 + low) as u8
            }
            other => other,
        });
    }
    String::from_utf8(out).ok()
}

/// The headers that are stored with an object.
pub fn headers(headers: &ObjectHeaders) -> Checked {
    let bytes: usize = headers.metadata.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > USER_METADATA_BYTES_MAX {
        let message = format!("the user metadata has {bytes} bytes; send at most {USER_METADATA_BYTES_MAX}");
        return refuse(S3ErrorCode::MetadataTooLarge, message);
    }
    if let Some(class) = &headers.storage_class {
        // There is one kind of storage; the others are refused, or a client would believe it pays less.
        if !matches!(class.as_str(), "STANDARD" | "REDUCED_REDUNDANCY") {
            return refuse(
                S3ErrorCode::InvalidStorageClass,
                format!("storage class {class} is not offered; use STANDARD"),
            );
        }
    }
    match &headers.server_side_encryption {
        Some(algorithm) => encryption_algorithm(algorithm),
        None => Ok(()),
    }
}

/// How a client asks for encryption at rest: refused whatever it asks for, until it is done.
pub fn encryption_algorithm(algorithm: &str) -> Checked {
    match algorithm {
        "AES256" | "aws:kms" | "aws:kms:dsse" => refuse(
            S3ErrorCode::NotImplemented,
            "server-side encryption is not offered; put without it, and encrypt before or on the nodes' disks",
        ),
        _ => refuse(S3ErrorCode::InvalidArgument, "The encryption method specified is not supported"),
    }
}

/// Rules for browsers.
pub fn cors(rules: &[CorsRule]) -> Checked {
    if rules.is_empty() || rules.len() > CORS_RULES_MAX {
        return refuse(
            S3ErrorCode::MalformedXML,
            format!("the number of CORS rules is out of bounds; send 1 to {CORS_RULES_MAX}"),
        );
    }
    for rule in rules {
        if rule.allowed_methods.is_empty() || rule.allowed_origins.is_empty() {
            return refuse(S3ErrorCode::MalformedXML, "a CORS rule lacks AllowedMethod or AllowedOrigin; add both");
        }
        if let Some(method) = rule
            .allowed_methods
            .iter()
            .find(|method| !["GET", "PUT", "HEAD", "POST", "DELETE"].contains(&method.as_str()))
        {
            let message = format!("Found unsupported HTTP method in CORS config. Unsupported method is {method}");
            return refuse(S3ErrorCode::InvalidRequest, message);
        }
        if let Some(origin) = rule.allowed_origins.iter().find(|origin| origin.matches('*').count() > 1) {
            return refuse(
                S3ErrorCode::InvalidRequest,
                format!("AllowedOrigin \"{origin}\" can not have more than one wildcard."),
            );
        }
        if let Some(header) = rule.allowed_headers.iter().find(|header| header.matches('*').count() > 1) {
            return refuse(
                S3ErrorCode::InvalidRequest,
                format!("AllowedHeader \"{header}\" can not have more than one wildcard."),
            );
        }
        if let Some(header) = rule.expose_headers.iter().find(|header| header.contains('*')) {
            let message = format!(
                "ExposeHeader \"{header}\" contains wildcard. We currently do not support wildcard for ExposeHeader."
            );
            return refuse(S3ErrorCode::InvalidRequest, message);
        }
        rule_id(rule.id.as_deref())?;
    }
    Ok(())
}

fn rule_id(id: Option<&str>) -> Checked {
    match id {
        Some(id) if id.len() > RULE_ID_BYTES_MAX => {
            refuse(S3ErrorCode::InvalidArgument, "ID length should not exceed allowed limit of 255")
        }
        _ => Ok(()),
    }
}

/// Lifecycle rules.
pub fn lifecycle(rules: &[LifecycleRule]) -> Checked {
    if rules.is_empty() || rules.len() > LIFECYCLE_RULES_MAX {
        return refuse(
            S3ErrorCode::MalformedXML,
            format!("the number of lifecycle rules is out of bounds; send 1 to {LIFECYCLE_RULES_MAX}"),
        );
    }
    for (at, rule) in rules.iter().enumerate() {
        rule_id(rule.id.as_deref())?;
        if rule.id.is_some() && rules[..at].iter().any(|other| other.id == rule.id) {
            return refuse(
                S3ErrorCode::InvalidArgument,
                "Rule ID must be unique. Found same ID for more than one rule",
            );
        }
        lifecycle_rule(rule)?;
    }
    Ok(())
}

fn lifecycle_rule(rule: &LifecycleRule) -> Checked {
    let invalid = |message: &str| refuse(S3ErrorCode::InvalidArgument, message);
    if let Some(expiration) = &rule.expiration {
        expiration_rule(expiration)?;
        let marker = expiration.expired_object_delete_marker.is_some();
        if marker && !rule.filter.tags.is_empty() {
            return refuse(
                S3ErrorCode::InvalidRequest,
                "ExpiredObjectDeleteMarker cannot be specified with tag based filters",
            );
        }
    }
    if let Some(noncurrent) = &rule.noncurrent_version_expiration {
        if noncurrent.noncurrent_days == 0 {
            return invalid("'NoncurrentDays' for NoncurrentVersionExpiration action must be a positive integer");
        }
        if noncurrent.newer_noncurrent_versions.is_some_and(|count| count == 0 || count > 100) {
            return invalid("'NewerNoncurrentVersions' must be between 1 and 100");
        }
    }
    match rule.abort_incomplete_multipart_upload_days {
        Some(0) => {
            return invalid(
                "'DaysAfterInitiation' for AbortIncompleteMultipartUpload action must be a positive integer",
            )
        }
        Some(_) if !rule.filter.tags.is_empty() => {
            return refuse(
                S3ErrorCode::InvalidRequest,
                "AbortIncompleteMultipartUpload cannot be specified with tag based filters",
            );
        }
        _ => {}
    }
    let nothing = rule.expiration.is_none()
        && rule.noncurrent_version_expiration.is_none()
        && rule.abort_incomplete_multipart_upload_days.is_none();
    if nothing {
        return refuse(S3ErrorCode::InvalidRequest, "At least one action needs to be specified in a rule");
    }
    let (above, below) = (rule.filter.object_size_greater_than, rule.filter.object_size_less_than);
    if matches!((above, below), (Some(above), Some(below)) if above.saturating_add(1) >= below) {
        return refuse(
            S3ErrorCode::InvalidRequest,
            "'ObjectSizeLessThan' has to be greater than 'ObjectSizeGreaterThan'",
        );
    }
    each_tag(&rule.filter.tags)
}

fn expiration_rule(expiration: &Expiration) -> Checked {
    let given =
        [expiration.days.is_some(), expiration.date_ms.is_some(), expiration.expired_object_delete_marker.is_some()];
    if given.iter().filter(|given| **given).count() != 1 {
        return refuse(S3ErrorCode::MalformedXML, "Expiration must have one of Days, Date, ExpiredObjectDeleteMarker");
    }
    if expiration.days == Some(0) {
        return refuse(S3ErrorCode::InvalidArgument, "'Days' for Expiration action must be a positive integer");
    }
    if expiration.date_ms.is_some_and(|date| date % DAY_MS != 0) {
        return refuse(S3ErrorCode::InvalidArgument, "'Date' must be at midnight GMT");
    }
    Ok(())
}

/// How a bucket locks objects.
pub fn object_lock(configuration: &ObjectLockConfiguration) -> Checked {
    if !configuration.enabled {
        return refuse(S3ErrorCode::MalformedXML, "ObjectLockEnabled must be Enabled");
    }
    match &configuration.default_retention {
        None => Ok(()),
        Some(DefaultRetention { days: Some(_), years: Some(_), .. })
        | Some(DefaultRetention { days: None, years: None, .. }) => {
            refuse(S3ErrorCode::MalformedXML, "DefaultRetention must have one of Days and Years")
        }
        Some(DefaultRetention { days, years, .. }) => {
            let days = days.or(years.map(|years| years.saturating_mul(365))).unwrap_or(0);
            if days == 0 {
                return refuse(
                    S3ErrorCode::InvalidArgument,
                    "Default retention period must be a positive integer value",
                );
            }
            if days > RETENTION_DAYS_MAX {
                return refuse(S3ErrorCode::InvalidArgument, "Default retention period too large");
            }
            Ok(())
        }
    }
}

/// The name of an account.
pub fn account(name: &str) -> Checked {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if (1..=64).contains(&name.len()) && name.bytes().all(legal) {
        return Ok(());
    }
    refuse(
        S3ErrorCode::InvalidArgument,
        "the account's name is not valid; give it 1 to 64 letters, digits, '-', '_' or '.'",
    )
}

#[cfg(test)]
mod tests;
