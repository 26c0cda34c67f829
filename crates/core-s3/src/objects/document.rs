//! What the S3 API says of a version, and its document (base-types, `s3/document.rs`).
//!
//! Always: what is not said is not written, so that small objects have small documents: the storage class
//! `STANDARD`, the bucket's owner, the ACL that gives all to the owner alone. What was written comes back as it was.
//! Held by: `what_is_usual_is_not_written_and_comes_back_all_the_same`.
//! Not here: when a version was put (the shard sets it), what its bytes are (data stores, inline rows).

use crate::request::no_encryption;
use base_types::s3::{
    encode_parts, field, Acl, BucketInfo, ChecksumAlgorithm, ChecksumType, Checksums, Data, Document, Grant, Grantee,
    ObjectHeaders, ObjectVersion, Owner, PartData, Permission, Retention, RetentionMode, S3ErrorCode, StoredPart, Tag,
    Version, VersionStamp, NULL_VERSION, OBJECT_TAGS_MAX, USER_METADATA_BYTES_MAX,
};
use base_types::Refusal;
use bytes::Bytes;
use core_backends::multipart::{Part, Upload};
use serde::de::DeserializeOwned;
use serde::Serialize;

/// The storage class that is not written.
const STANDARD: &str = "STANDARD";
/// Stands between an owner's id and the name shown.
const OWNER_SEPARATOR: char = '\n';

/// What is put with an object beside its bytes.
pub(crate) struct Extras<'a> {
    pub headers: &'a ObjectHeaders,
    pub tags: &'a [Tag],
    pub acl: Option<&'a Acl>,
    pub retention: Option<Retention>,
    pub legal_hold: bool,
}

fn text(value: &str) -> Bytes {
    Bytes::copy_from_slice(value.as_bytes())
}

fn damaged(what: &str) -> Refusal {
    S3ErrorCode::InternalError.because(format!("{what} of the version cannot be read (written by a newer Hive?)"))
}

fn to_json<T: Serialize + ?Sized>(value: &T) -> Result<Bytes, Refusal> {
    let bytes = serde_json::to_vec(value);
    bytes
        .map(Bytes::from)
        .map_err(|error| S3ErrorCode::InternalError.because(format!("a field cannot be kept: {error}")))
}

fn from_json<T: DeserializeOwned>(document: &Document, id: u16, what: &str) -> Result<Option<T>, Refusal> {
    document.get(id).map(|bytes| serde_json::from_slice(bytes)).transpose().map_err(|_| damaged(what))
}

/// The headers that are kept as texts, with their fields.
fn texts(headers: &ObjectHeaders) -> [(u16, &Option<String>); 8] {
    [
        (field::STORAGE_CLASS, &headers.storage_class),
        (field::CONTENT_TYPE, &headers.content_type),
        (field::CACHE_CONTROL, &headers.cache_control),
        (field::CONTENT_DISPOSITION, &headers.content_disposition),
        (field::CONTENT_ENCODING, &headers.content_encoding),
        (field::CONTENT_LANGUAGE, &headers.content_language),
        (field::EXPIRES, &headers.expires),
        (field::WEBSITE_REDIRECT, &headers.website_redirect_location),
    ]
}

fn read_headers(document: &Document) -> Result<ObjectHeaders, Refusal> {
    let text = |id: u16| document.text(id).map(str::to_owned);
    Ok(ObjectHeaders {
        content_type: text(field::CONTENT_TYPE),
        content_encoding: text(field::CONTENT_ENCODING),
        content_language: text(field::CONTENT_LANGUAGE),
        content_disposition: text(field::CONTENT_DISPOSITION),
        cache_control: text(field::CACHE_CONTROL),
        expires: text(field::EXPIRES),
        website_redirect_location: text(field::WEBSITE_REDIRECT),
        storage_class: text(field::STORAGE_CLASS),
        // Earlier builds kept what a client had asked for, and encrypted nothing.
        server_side_encryption: None,
        metadata: from_json(document, field::USER_METADATA, "the user metadata")?.unwrap_or_default(),
    })
}

/// Writes what is put with an object. `info` is its bucket's.
pub(crate) fn set_extras(document: &mut Document, info: &BucketInfo, extras: &Extras<'_>) -> Result<(), Refusal> {
    if extras.headers.server_side_encryption.is_some() {
        return Err(no_encryption());
    }
    for (id, value) in texts(extras.headers) {
        let value = value.as_deref().filter(|value| !(id == field::STORAGE_CLASS && *value == STANDARD));
        if let Some(value) = value {
            document.set(id, Some(text(value)));
        }
    }
    let metadata = &extras.headers.metadata;
    let bytes: usize = metadata.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > USER_METADATA_BYTES_MAX {
        let message = format!("the user metadata has {bytes} bytes; at most {USER_METADATA_BYTES_MAX} are taken");
        return Err(S3ErrorCode::MetadataTooLarge.because(message));
    }
    if !metadata.is_empty() {
        document.set(field::USER_METADATA, Some(to_json(metadata)?));
    }
    document.set(field::TAGS, tags_field(extras.tags)?);
    set_acl(document, info, extras.acl)?;
    set_retention(document, extras.retention);
    set_legal_hold(document, extras.legal_hold);
    Ok(())
}

/// Tags as a field; none are not written.
pub(crate) fn tags_field(tags: &[Tag]) -> Result<Option<Bytes>, Refusal> {
    if tags.is_empty() {
        return Ok(None);
    }
    if tags.len() > OBJECT_TAGS_MAX {
        let message = format!("{} tags; an object has at most {OBJECT_TAGS_MAX}", tags.len());
        return Err(S3ErrorCode::InvalidTag.because(message));
    }
    if (1..tags.len()).any(|at| tags[..at].iter().any(|tag| tag.key == tags[at].key)) {
        return Err(S3ErrorCode::InvalidTag.because("Cannot provide multiple Tags with the same key"));
    }
    to_json(tags).map(Some)
}

pub(crate) fn read_tags(document: &Document) -> Result<Vec<Tag>, Refusal> {
    Ok(from_json(document, field::TAGS, "the tags")?.unwrap_or_default())
}

fn is_private(acl: &Acl) -> bool {
    matches!(&acl.grants[..], [Grant { grantee: Grantee::CanonicalUser(id), permission: Permission::FullControl }] if *id == acl.owner.id)
}

fn private(owner: Owner) -> Acl {
    let grants = vec![Grant { grantee: Grantee::CanonicalUser(owner.id.clone()), permission: Permission::FullControl }];
    Acl { owner, grants }
}

/// Writes owner and grants; absent: the bucket's owner alone.
pub(crate) fn set_acl(document: &mut Document, info: &BucketInfo, acl: Option<&Acl>) -> Result<(), Refusal> {
    let owner = match acl.map(|acl| &acl.owner).filter(|owner| owner.id != info.owner.id) {
        Some(owner) => Some(owner_text(owner)?),
        None => None,
    };
    let grants = acl.filter(|acl| !is_private(acl)).map(|acl| to_json(&acl.grants)).transpose()?;
    document.set(field::OWNER, owner).set(field::ACL, grants);
    Ok(())
}

pub(crate) fn read_acl(document: &Document, info: &BucketInfo) -> Result<Acl, Refusal> {
    let owner = document.text(field::OWNER).map_or_else(|| info.owner.clone(), read_owner);
    Ok(match from_json(document, field::ACL, "the ACL")? {
        Some(grants) => Acl { owner, grants },
        None => private(owner),
    })
}

/// An owner as a field.
pub(crate) fn owner_text(owner: &Owner) -> Result<Bytes, Refusal> {
    if owner.id.contains(OWNER_SEPARATOR) {
        return Err(S3ErrorCode::InvalidArgument.because("an owner's id has a line break; give an account's id"));
    }
    if owner.display_name.is_empty() {
        return Ok(text(&owner.id));
    }
    Ok(format!("{}{OWNER_SEPARATOR}{}", owner.id, owner.display_name).into())
}

pub(crate) fn read_owner(field: &str) -> Owner {
    let (id, name) = field.split_once(OWNER_SEPARATOR).unwrap_or((field, ""));
    Owner { id: id.to_owned(), display_name: name.to_owned() }
}

/// The fields of a retention.
pub(crate) fn set_retention(document: &mut Document, retention: Option<Retention>) {
    let mode = retention.map(|retention| match retention.mode {
        RetentionMode::Governance => Bytes::from_static(b"GOVERNANCE"),
        RetentionMode::Compliance => Bytes::from_static(b"COMPLIANCE"),
    });
    document.set(field::LOCK_MODE, mode).set(field::LOCK_UNTIL, None);
    if let Some(retention) = retention {
        document.set_number(field::LOCK_UNTIL, retention.retain_until_ms);
    }
}

pub(crate) fn read_retention(document: &Document) -> Option<Retention> {
    let mode = match document.text(field::LOCK_MODE)? {
        "COMPLIANCE" => RetentionMode::Compliance,
        _ => RetentionMode::Governance,
    };
    Some(Retention { mode, retain_until_ms: document.number(field::LOCK_UNTIL)? })
}

pub(crate) fn set_legal_hold(document: &mut Document, legal_hold: bool) {
    document.set(field::LEGAL_HOLD, legal_hold.then(|| Bytes::from_static(b"ON")));
}

pub(crate) fn read_legal_hold(document: &Document) -> bool {
    document.text(field::LEGAL_HOLD) == Some("ON")
}

/// The fields in which a document differs from its former self: `Update` carries them.
pub(crate) fn changes(ids: &[u16], document: &Document) -> Vec<(u16, Option<Bytes>)> {
    ids.iter().map(|id| (*id, document.get(*id).cloned())).collect()
}

pub(crate) fn algorithm_word(algorithm: ChecksumAlgorithm) -> &'static str {
    match algorithm {
        ChecksumAlgorithm::Crc32 => "CRC32",
        ChecksumAlgorithm::Crc32c => "CRC32C",
        ChecksumAlgorithm::Crc64nvme => "CRC64NVME",
        ChecksumAlgorithm::Sha1 => "SHA1",
        ChecksumAlgorithm::Sha256 => "SHA256",
    }
}

pub(crate) fn read_algorithm(word: &[u8]) -> Option<ChecksumAlgorithm> {
    ChecksumAlgorithm::ALL.into_iter().find(|algorithm| algorithm_word(*algorithm).as_bytes() == word)
}

pub(crate) fn checksum_type_word(kind: ChecksumType) -> &'static str {
    match kind {
        ChecksumType::FullObject => "FULL_OBJECT",
        ChecksumType::Composite => "COMPOSITE",
    }
}

pub(crate) fn read_checksum_type(word: &[u8]) -> Option<ChecksumType> {
    [ChecksumType::FullObject, ChecksumType::Composite]
        .into_iter()
        .find(|kind| checksum_type_word(*kind).as_bytes() == word)
}

/// `CRC32=<base64>,SHA1=<base64>`.
pub(crate) fn checksums_text(checksums: &Checksums) -> String {
    let mut out = String::new();
    for algorithm in ChecksumAlgorithm::ALL {
        if let Some(value) = checksums.get(algorithm) {
            let comma = if out.is_empty() { "" } else { "," };
            out.extend([comma, algorithm_word(algorithm), "=", value]);
        }
    }
    out
}

/// From [`checksums_text`]; what is not understood is passed over.
pub(crate) fn read_checksums(text: &[u8]) -> Checksums {
    let mut out = Checksums::default();
    for one in core::str::from_utf8(text).unwrap_or_default().split(',') {
        let Some((word, value)) = one.split_once('=') else { continue };
        if let Some(algorithm) = read_algorithm(word.as_bytes()) {
            *out.slot(algorithm) = Some(value.to_owned());
        }
    }
    out
}

fn set_checksums(document: &mut Document, checksums: &Checksums) {
    let first = ChecksumAlgorithm::ALL.into_iter().find(|algorithm| checksums.get(*algorithm).is_some());
    let Some(first) = first else { return };
    document.set(field::CHECKSUM_ALGORITHM, Some(Bytes::from_static(algorithm_word(first).as_bytes())));
    let kind = checksums.checksum_type.map(|kind| Bytes::from_static(checksum_type_word(kind).as_bytes()));
    document.set(field::CHECKSUM_TYPE, kind);
    document.set(field::CHECKSUM, Some(checksums_text(checksums).into()));
}

/// What an object is made of.
pub(crate) struct Content<'a> {
    pub size: u64,
    pub etag: &'a str,
    pub checksums: &'a Checksums,
    pub data: &'a Data,
}

/// Writes what an object's bytes are; gives back those that are kept inline.
pub(crate) fn set_content(document: &mut Document, content: &Content<'_>) -> Result<Option<Bytes>, Refusal> {
    document.set(field::ETAG, Some(text(content.etag))).set_number(field::SIZE, content.size);
    set_checksums(document, content.checksums);
    match content.data {
        Data::Inline(bytes) => {
            check_inline(bytes, content.size)?;
            Ok((!bytes.is_empty()).then(|| bytes.clone()))
        }
        Data::Location(location) => {
            document.set(field::LOCATION, Some(text(check_location(location)?)));
            Ok(None)
        }
        Data::Parts(parts) => set_parts(document, parts),
    }
}

/// Refuses a size that is not that of the bytes.
pub(crate) fn check_inline(bytes: &Bytes, size: u64) -> Result<(), Refusal> {
    if bytes.len() as u64 == size {
        return Ok(());
    }
    let message = format!("size is {size}, but {} bytes came inline; leave size away or mend it", bytes.len());
    Err(S3ErrorCode::InvalidRequest.because(message))
}

pub(crate) fn check_location(location: &str) -> Result<&str, Refusal> {
    if location.is_empty() {
        return Err(S3ErrorCode::InvalidRequest.because("the location is empty; name where the bytes are"));
    }
    Ok(location)
}

/// Parts, of which the last may be inline.
fn set_parts(document: &mut Document, parts: &[PartData]) -> Result<Option<Bytes>, Refusal> {
    let mut stored = Vec::with_capacity(parts.len());
    let mut inline = None;
    for (at, part) in parts.iter().enumerate() {
        let location = match &part.data {
            Data::Location(location) => check_location(location)?.to_owned(),
            Data::Inline(bytes) if at + 1 == parts.len() => {
                check_inline(bytes, part.size)?;
                inline = (!bytes.is_empty()).then(|| bytes.clone());
                String::new()
            }
            Data::Inline(_) => {
                return Err(S3ErrorCode::InvalidRequest.because("only the last part's bytes may be inline"));
            }
            Data::Parts(_) => return Err(S3ErrorCode::InvalidRequest.because("a part does not consist of parts")),
        };
        let checksums = checksums_text(&part.checksums).into();
        let (number, size) = (part.part_number, part.size);
        stored.push(StoredPart { number, size, etag: part.etag.clone(), checksums, location });
    }
    document.set(field::PARTS, Some(encode_parts(&stored)));
    Ok(inline)
}

/// Writes what the chosen parts of an upload come to.
pub(crate) fn set_parts_of(
    document: &mut Document,
    upload: &Upload,
    parts: &[Part],
    checksums: &Checksums,
) -> Result<(), Refusal> {
    let mut stored = Vec::with_capacity(parts.len());
    for part in parts {
        let location = core::str::from_utf8(&part.location).map_err(|_| damaged("the place of a part"))?.to_owned();
        let (number, size, etag) = (part.number, part.size, part.etag.clone());
        stored.push(StoredPart { number, size, etag, checksums: part.checksums.clone(), location });
    }
    document.set(field::ETAG, Some(text(&upload.etag))).set_number(field::SIZE, upload.size);
    // The upload told what its parts were to carry; the object has what it has.
    document.set(field::CHECKSUM_ALGORITHM, None).set(field::CHECKSUM_TYPE, None);
    set_checksums(document, checksums);
    document.set(field::PARTS, Some(encode_parts(&stored)));
    Ok(())
}

/// A version as a shard returns it.
pub(crate) struct Found {
    pub stamp: VersionStamp,
    pub null: bool,
    pub marker: bool,
    pub document: Document,
    pub inline: Option<Bytes>,
}

impl Found {
    pub(crate) fn decode(
        stamp: VersionStamp,
        null: bool,
        marker: bool,
        document: Bytes,
        inline: Option<Bytes>,
    ) -> Result<Found, Refusal> {
        let document = Document::decode(document).map_err(|_| damaged("the document"))?;
        Ok(Found { stamp, null, marker, document, inline })
    }
}

/// The id shown of a version; none where the bucket never kept versions.
pub(crate) fn version_id(info: &BucketInfo, stamp: VersionStamp, null: bool) -> Option<String> {
    info.versioning.map(|_| version_text(stamp, null))
}

pub(crate) fn version_text(stamp: VersionStamp, null: bool) -> String {
    if null {
        NULL_VERSION.to_owned()
    } else {
        stamp.text()
    }
}

/// The version a client names; what is no version id names none that there is.
pub(crate) fn read_version_id(version_id: Option<&str>) -> Result<Version, Refusal> {
    let Some(version_id) = version_id else { return Ok(Version::Current) };
    Version::parse(version_id).ok_or_else(|| S3ErrorCode::NoSuchVersion.into())
}

/// The version that a listing continues behind.
pub(crate) fn read_version_marker(marker: &str) -> Result<Version, Refusal> {
    Version::parse(marker).ok_or_else(|| S3ErrorCode::InvalidArgument.because("Invalid version id specified"))
}

/// The whole of a version. `with_data`: with its bytes, or where they are; else only its parts, where it has some.
pub(crate) fn object_version(
    key: &str,
    info: &BucketInfo,
    found: Found,
    with_data: bool,
) -> Result<ObjectVersion, Refusal> {
    let document = &found.document;
    let parts = document.parts().map_err(|_| damaged("the parts"))?;
    let parts_count = document.get(field::PARTS).map(|_| u32::try_from(parts.len()).unwrap_or(u32::MAX));
    let mut checksums = document.get(field::CHECKSUM).map(|text| read_checksums(text)).unwrap_or_default();
    checksums.checksum_type = document.get(field::CHECKSUM_TYPE).and_then(|word| read_checksum_type(word));
    let data = match document.text(field::LOCATION) {
        _ if parts_count.is_some() => Some(Data::Parts(part_data(parts, found.inline))),
        Some(location) => Some(Data::Location(location.to_owned())),
        None => Some(Data::Inline(found.inline.unwrap_or_default())),
    };
    Ok(ObjectVersion {
        key: key.to_owned(),
        version_id: version_id(info, found.stamp, found.null),
        delete_marker: found.marker,
        last_modified_ms: document.number(field::MODIFIED).unwrap_or(0),
        size: document.number(field::SIZE).unwrap_or(0),
        etag: document.text(field::ETAG).unwrap_or_default().to_owned(),
        checksums,
        parts_count,
        headers: read_headers(document)?,
        tags: read_tags(document)?,
        acl: read_acl(document, info)?,
        retention: read_retention(document),
        legal_hold: read_legal_hold(document),
        data: data.filter(|_| !found.marker && (with_data || parts_count.is_some())),
    })
}

fn part_data(parts: Vec<StoredPart>, inline: Option<Bytes>) -> Vec<PartData> {
    let mut inline = inline.unwrap_or_default();
    let one = |part: StoredPart| PartData {
        part_number: part.number,
        size: part.size,
        etag: part.etag,
        checksums: read_checksums(&part.checksums),
        data: match part.location.is_empty() {
            true => Data::Inline(core::mem::take(&mut inline)),
            false => Data::Location(part.location),
        },
    };
    parts.into_iter().map(one).collect()
}
