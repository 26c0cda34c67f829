//! Between s3s' shapes and ours. Pure; what S3 does not take is refused with its code.

use crate::access::acl;
use crate::error::{because, code, to_s3};
use crate::times::millis;
use base_types::s3::{
    Acl, ChecksumAlgorithm, ChecksumType, Checksums, Grant, Grantee, ObjectHeaders, Owner, Permission, ReadConditions,
    Retention, RetentionMode, S3ErrorCode, Tag,
};
use s3s::dto;
use s3s::S3Result;
use std::time::{Duration, UNIX_EPOCH};

/// From milliseconds since 1970.
pub fn timestamp(millis: u64) -> dto::Timestamp {
    dto::Timestamp::from(UNIX_EPOCH + Duration::from_millis(millis))
}

/// With quotes on the wire.
pub fn etag(etag: &str) -> dto::ETag {
    dto::ETag::Strong(etag.to_owned())
}

/// A condition as our actions have it: the bare etag or `*`.
pub fn condition(condition: &dto::ETagCondition) -> String {
    match condition {
        dto::ETagCondition::Any => "*".to_owned(),
        dto::ETagCondition::ETag(etag) => etag.value().to_owned(),
    }
}

/// The four conditions of a read, or of the source of a copy.
pub fn read_conditions(
    if_match: Option<&dto::ETagCondition>,
    if_none_match: Option<&dto::ETagCondition>,
    if_modified_since: Option<&dto::Timestamp>,
    if_unmodified_since: Option<&dto::Timestamp>,
) -> ReadConditions {
    ReadConditions {
        if_match: if_match.map(condition),
        if_none_match: if_none_match.map(condition),
        if_modified_since_ms: if_modified_since.map(millis),
        if_unmodified_since_ms: if_unmodified_since.map(millis),
    }
}

/// The checksums of an input: the fields have the same names everywhere.
macro_rules! checksums_of {
    ($input:expr) => {
        base_types::s3::Checksums {
            crc32: $input.checksum_crc32.clone(),
            crc32c: $input.checksum_crc32c.clone(),
            crc64nvme: $input.checksum_crc64nvme.clone(),
            sha1: $input.checksum_sha1.clone(),
            sha256: $input.checksum_sha256.clone(),
            checksum_type: None,
        }
    };
}

/// Sets the checksums of an output.
macro_rules! set_checksums {
    ($output:expr, $checksums:expr) => {{
        let checksums = $checksums;
        $output.checksum_crc32 = checksums.crc32.clone();
        $output.checksum_crc32c = checksums.crc32c.clone();
        $output.checksum_crc64nvme = checksums.crc64nvme.clone();
        $output.checksum_sha1 = checksums.sha1.clone();
        $output.checksum_sha256 = checksums.sha256.clone();
    }};
}

/// The stored headers of an input that has the usual fields.
macro_rules! headers_of {
    ($input:expr) => {
        $crate::convert::object_headers(
            [
                $input.content_type.as_ref().map(|value| value.to_string()),
                $input.content_encoding.as_ref().map(|value| value.to_string()),
                $input.content_language.as_ref().map(|value| value.to_string()),
                $input.content_disposition.as_ref().map(|value| value.to_string()),
                $input.cache_control.as_ref().map(|value| value.to_string()),
                $input.expires.as_ref().map($crate::convert::http_date),
                $input.website_redirect_location.as_ref().map(|value| value.to_string()),
                $input.storage_class.as_ref().map(|value| value.as_str().to_owned()),
                $input.server_side_encryption.as_ref().map(|value| value.as_str().to_owned()),
            ],
            $input.metadata.as_ref(),
        )
    };
}

/// The ACL a request asks for, from its canned name and its grant headers.
macro_rules! asked_acl {
    ($input:expr) => {
        $crate::convert::AskedAcl {
            canned: $input.acl.as_ref().map(|acl| acl.as_str().to_owned()),
            grants: [
                ($input.grant_full_control.clone(), base_types::s3::Permission::FullControl),
                ($input.grant_read.clone(), base_types::s3::Permission::Read),
                ($input.grant_read_acp.clone(), base_types::s3::Permission::ReadAcp),
                ($input.grant_write_acp.clone(), base_types::s3::Permission::WriteAcp),
                (None, base_types::s3::Permission::Write),
            ],
        }
    };
    ($input:expr, with_write) => {{
        let mut asked = asked_acl!($input);
        asked.grants[4].0 = $input.grant_write.clone();
        asked
    }};
}
pub(crate) use {asked_acl, checksums_of, headers_of, set_checksums};

/// Collects stored headers; an argument for each, in the order of [`ObjectHeaders`].
pub fn object_headers(values: [Option<String>; 9], metadata: Option<&dto::Metadata>) -> ObjectHeaders {
    let [content_type, content_encoding, content_language, content_disposition, cache_control, expires, website_redirect_location, storage_class, server_side_encryption] =
        values;
    let lower = |(name, value): (&String, &String)| (name.to_ascii_lowercase(), value.clone());
    ObjectHeaders {
        content_type,
        content_encoding: content_encoding.and_then(without_aws_chunked),
        content_language,
        content_disposition,
        cache_control,
        expires,
        website_redirect_location,
        storage_class: storage_class.filter(|class| class != "STANDARD"),
        server_side_encryption,
        metadata: metadata.map(|metadata| metadata.iter().map(lower).collect()).unwrap_or_default(),
    }
}

/// `aws-chunked` is how the bytes travelled, not how they are.
fn without_aws_chunked(encoding: String) -> Option<String> {
    let kept: Vec<&str> =
        encoding.split(',').map(str::trim).filter(|part| !part.is_empty() && *part != "aws-chunked").collect();
    (!kept.is_empty()).then(|| kept.join(","))
}

/// A time as HTTP writes it.
pub fn http_date(time: &dto::Timestamp) -> String {
    let mut out = Vec::new();
    match time.format(dto::TimestampFormat::HttpDate, &mut out) {
        Ok(()) => String::from_utf8(out).unwrap_or_default(),
        Err(_) => String::new(),
    }
}

/// An ACL as a request asks for it.
pub struct AskedAcl {
    /// `x-amz-acl`.
    pub canned: Option<String>,
    /// `x-amz-grant-…`.
    pub grants: [(Option<String>, Permission); 5],
}

impl AskedAcl {
    /// Whether it asks for anything.
    pub fn is_given(&self) -> bool {
        self.canned.is_some() || self.grants.iter().any(|(header, _)| header.is_some())
    }

    /// What it comes to.
    pub fn build(&self, owner: Owner, bucket_owner: &str) -> S3Result<Acl> {
        let granted = self.grants.iter().any(|(header, _)| header.is_some());
        match &self.canned {
            Some(_) if granted => Err(because(
                S3ErrorCode::InvalidRequest,
                "Specifying both Canned ACLs and Header Grants is not allowed",
            )),
            Some(name) => acl::canned(name, owner, bucket_owner).map_err(to_s3),
            None if granted => {
                let mut grants = Vec::new();
                for (header, permission) in &self.grants {
                    if let Some(header) = header {
                        grants.extend(acl::grants(header, *permission).map_err(to_s3)?);
                    }
                }
                Ok(Acl { owner, grants })
            }
            None => Ok(acl::private(owner)),
        }
    }
}

/// An ACL out of the XML of `PutBucketAcl` and `PutObjectAcl`.
pub fn acl_of(policy: dto::AccessControlPolicy, owner: &Owner) -> S3Result<Acl> {
    let malformed = || code(S3ErrorCode::MalformedACLError);
    if policy.owner.and_then(|owner| owner.id).is_some_and(|id| id != owner.id) {
        return Err(code(S3ErrorCode::AccessDenied));
    }
    let grants = policy.grants.unwrap_or_default();
    if grants.len() > acl::GRANTS_MAX {
        return Err(malformed());
    }
    let grants = grants.into_iter().map(|grant| {
        let (Some(grantee), Some(permission)) = (grant.grantee, grant.permission) else { return Err(malformed()) };
        let grantee = match (grantee.id, grantee.uri) {
            (Some(id), None) if !id.is_empty() => Grantee::CanonicalUser(id),
            (None, Some(uri)) => acl::group(&uri).map_err(to_s3)?,
            (None, None) if grantee.email_address.is_some() => {
                return Err(code(S3ErrorCode::UnresolvableGrantByEmailAddress))
            }
            _ => return Err(malformed()),
        };
        let permission = match permission.as_str() {
            "READ" => Permission::Read,
            "WRITE" => Permission::Write,
            "READ_ACP" => Permission::ReadAcp,
            "WRITE_ACP" => Permission::WriteAcp,
            "FULL_CONTROL" => Permission::FullControl,
            _ => return Err(malformed()),
        };
        Ok(Grant { grantee, permission })
    });
    Ok(Acl { owner: owner.clone(), grants: grants.collect::<S3Result<Vec<Grant>>>()? })
}

/// What accounts are called, by their ids.
pub type DisplayNames = std::collections::BTreeMap<String, String>;

/// The grants of an ACL for the wire.
pub fn grants_to_wire(acl: &Acl, names: &DisplayNames) -> Vec<dto::Grant> {
    let wire = |grant: &Grant| {
        let (kind, id, uri) = match &grant.grantee {
            Grantee::CanonicalUser(id) => (dto::Type::CANONICAL_USER, Some(id.clone()), None),
            other => (dto::Type::GROUP, None, acl::group_uri(other).map(str::to_owned)),
        };
        let display_name = id.as_ref().and_then(|id| names.get(id)).cloned();
        let grantee = dto::Grantee { display_name, email_address: None, id, type_: dto::Type::from_static(kind), uri };
        let permission = match grant.permission {
            Permission::Read => dto::Permission::READ,
            Permission::Write => dto::Permission::WRITE,
            Permission::ReadAcp => dto::Permission::READ_ACP,
            Permission::WriteAcp => dto::Permission::WRITE_ACP,
            Permission::FullControl => dto::Permission::FULL_CONTROL,
        };
        dto::Grant { grantee: Some(grantee), permission: Some(dto::Permission::from_static(permission)) }
    };
    acl.grants.iter().map(wire).collect()
}

/// An owner for the wire.
pub fn owner_to_wire(owner: &Owner) -> dto::Owner {
    dto::Owner { display_name: Some(owner.display_name.clone()), id: Some(owner.id.clone()) }
}

/// Tags out of XML.
pub fn tags_of(tags: Vec<dto::Tag>) -> S3Result<Vec<Tag>> {
    let tag = |tag: dto::Tag| match (tag.key, tag.value) {
        (Some(key), Some(value)) => Ok(Tag { key, value }),
        _ => Err(code(S3ErrorCode::MalformedXML)),
    };
    tags.into_iter().map(tag).collect()
}

/// Tags for the wire.
pub fn tags_to_wire(tags: Vec<Tag>) -> Vec<dto::Tag> {
    tags.into_iter().map(|tag| dto::Tag { key: Some(tag.key), value: Some(tag.value) }).collect()
}

/// Mode and end of a retention: both or none.
pub fn retention_of(mode: Option<&str>, until: Option<&dto::Timestamp>) -> S3Result<Option<Retention>> {
    let mode = match mode {
        None => None,
        Some("GOVERNANCE") => Some(RetentionMode::Governance),
        Some("COMPLIANCE") => Some(RetentionMode::Compliance),
        Some(_) => return Err(because(S3ErrorCode::InvalidArgument, "Unknown wormMode directive")),
    };
    match (mode, until) {
        (None, None) => Ok(None),
        (Some(mode), Some(until)) => Ok(Some(Retention { mode, retain_until_ms: millis(until) })),
        _ => Err(because(
            S3ErrorCode::InvalidArgument,
            "x-amz-object-lock-retain-until-date and x-amz-object-lock-mode must both be supplied",
        )),
    }
}

/// The S3 word of a mode.
pub fn mode_word(mode: RetentionMode) -> &'static str {
    match mode {
        RetentionMode::Governance => "GOVERNANCE",
        RetentionMode::Compliance => "COMPLIANCE",
    }
}

/// `ON` or `OFF`.
pub fn legal_hold_of(status: Option<&str>) -> S3Result<bool> {
    match status {
        None | Some("OFF") => Ok(false),
        Some("ON") => Ok(true),
        Some(_) => Err(because(S3ErrorCode::InvalidArgument, "Legal Hold must be either of 'ON' or 'OFF'")),
    }
}

/// An algorithm by its S3 word; some clients write it small.
pub fn algorithm_of(word: &str) -> S3Result<ChecksumAlgorithm> {
    let found =
        ChecksumAlgorithm::ALL.into_iter().find(|algorithm| algorithm_word(*algorithm).eq_ignore_ascii_case(word));
    found.ok_or_else(|| because(S3ErrorCode::InvalidRequest, "Checksum algorithm provided is unsupported"))
}

/// The S3 word of an algorithm.
pub fn algorithm_word(algorithm: ChecksumAlgorithm) -> &'static str {
    match algorithm {
        ChecksumAlgorithm::Crc32 => "CRC32",
        ChecksumAlgorithm::Crc32c => "CRC32C",
        ChecksumAlgorithm::Crc64nvme => "CRC64NVME",
        ChecksumAlgorithm::Sha1 => "SHA1",
        ChecksumAlgorithm::Sha256 => "SHA256",
    }
}

/// A type by its S3 word.
pub fn type_of(word: &str) -> S3Result<ChecksumType> {
    match word {
        "FULL_OBJECT" => Ok(ChecksumType::FullObject),
        "COMPOSITE" => Ok(ChecksumType::Composite),
        _ => Err(because(S3ErrorCode::InvalidRequest, "Value for x-amz-checksum-type header is invalid.")),
    }
}

/// A type for the wire.
pub fn type_to_wire(kind: Option<ChecksumType>) -> Option<dto::ChecksumType> {
    kind.map(|kind| {
        dto::ChecksumType::from_static(match kind {
            ChecksumType::FullObject => dto::ChecksumType::FULL_OBJECT,
            ChecksumType::Composite => dto::ChecksumType::COMPOSITE,
        })
    })
}

/// The algorithms of an entry for the wire.
pub fn algorithms_to_wire(algorithm: Option<ChecksumAlgorithm>) -> Option<Vec<dto::ChecksumAlgorithm>> {
    algorithm.map(|algorithm| vec![dto::ChecksumAlgorithm::from_static(algorithm_word(algorithm))])
}

/// Checksums that came as trailers, behind the bytes.
pub fn checksums_of_trailers(headers: &hyper::HeaderMap, into: &mut Checksums) {
    for algorithm in ChecksumAlgorithm::ALL {
        let name = format!("x-amz-checksum-{}", crate::checksum::header_name(algorithm));
        if let Some(value) = headers.get(name.as_str()).and_then(|value| value.to_str().ok()) {
            *into.slot(algorithm) = Some(value.to_owned());
        }
    }
}
