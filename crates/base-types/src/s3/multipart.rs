//! Uploads in several parts.

use super::{
    Acl, ChecksumAlgorithm, ChecksumType, Checksums, CopySource, Data, ObjectHeaders, Owner, Retention, Tag,
    WriteConditions,
};
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// Begins an upload; what the object will be is said here.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateMultipartUpload {
    /// The bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// What is given back with the object as it came.
    #[serde(default)]
    pub headers: ObjectHeaders,
    /// Its tags.
    #[serde(default)]
    pub tags: Vec<Tag>,
    /// Its owner and who else may touch it.
    pub acl: Option<Acl>,
    /// How long it may not be deleted.
    pub retention: Option<Retention>,
    /// Whether it may not be deleted at all.
    #[serde(default)]
    pub legal_hold: bool,
    /// The checksum every part will carry.
    pub checksum_algorithm: Option<ChecksumAlgorithm>,
    /// What the object's checksum is over.
    pub checksum_type: Option<ChecksumType>,
    /// Who uploads.
    pub initiator: Option<Owner>,
}

/// The answer of [`CreateMultipartUpload`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UploadCreated {
    /// Opaque.
    pub upload_id: String,
}

/// Keeps a part; one with the same number before is replaced.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UploadPart {
    /// The bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// Which upload.
    pub upload_id: String,
    /// 1 to [`super::PART_NUMBER_MAX`].
    pub part_number: u32,
    /// The bytes, or where they are; never `Parts`.
    #[serde(default)]
    pub data: Data,
    /// How many bytes. (The JSON door fills this and the MD5 in where the bytes are inline.)
    #[serde(default)]
    pub size: u64,
    /// Their MD5, hexadecimal, without quotes.
    #[serde(default)]
    pub etag: String,
    /// Their checksums, already verified.
    #[serde(default)]
    pub checksums: Checksums,
    /// As `PutObject`'s.
    pub data_expires_ms: Option<u64>,
}

/// As [`UploadPart`] from a range of a version whose bytes are inline, or were copied to `location`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UploadPartCopy {
    /// The bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// Which upload.
    pub upload_id: String,
    /// 1 to [`super::PART_NUMBER_MAX`].
    pub part_number: u32,
    /// What to copy.
    pub copy_source: CopySource,
    /// First and last byte; all where absent.
    pub copy_source_range: Option<(u64, u64)>,
    /// Where the caller has copied the bytes; needed where the source's are not inline.
    pub location: Option<String>,
}

/// The answer of [`UploadPart`] and [`UploadPartCopy`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartUploaded {
    /// The part's MD5.
    pub etag: String,
    /// When.
    pub last_modified_ms: u64,
}

/// Makes the parts an object.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompleteMultipartUpload {
    /// The bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// Which upload.
    pub upload_id: String,
    /// Which parts, ascending.
    pub parts: Vec<CompletedPart>,
    /// The whole object's checksums, which the caller has computed from those of the parts it names.
    #[serde(default)]
    pub checksums: Checksums,
    /// The whole object's length, to be checked.
    pub mpu_object_size: Option<u64>,
    /// What must hold for it to happen.
    #[serde(default)]
    pub conditions: WriteConditions,
}

/// A part as the client names it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompletedPart {
    /// Its number.
    pub part_number: u32,
    /// Its MD5, without quotes.
    pub etag: String,
    /// Its checksums, to be checked where given.
    #[serde(default)]
    pub checksums: Checksums,
}

/// Ends an upload without an object; its parts' bytes are freed.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AbortMultipartUpload {
    /// The bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// Which upload.
    pub upload_id: String,
    /// Only where the upload was begun at this time.
    pub if_match_initiated_time_ms: Option<u64>,
}

/// The parts of an upload.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListParts {
    /// The bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// Which upload.
    pub upload_id: String,
    /// How many at most; 1000 where absent.
    pub max_parts: Option<u32>,
    /// Only parts with a higher number.
    pub part_number_marker: Option<u32>,
}

/// The answer of [`ListParts`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parts {
    /// By number.
    pub parts: Vec<PartEntry>,
    /// There are more.
    pub is_truncated: bool,
    /// The last one's number.
    pub next_part_number_marker: Option<u32>,
    /// As [`UploadEntry`]'s.
    pub upload: UploadEntry,
}

/// A part in a list.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartEntry {
    /// Its number.
    pub part_number: u32,
    /// When it was uploaded.
    pub last_modified_ms: u64,
    /// Its MD5.
    pub etag: String,
    /// How many bytes.
    pub size: u64,
    /// Its checksums.
    #[serde(default)]
    pub checksums: Checksums,
}

/// The uploads of a bucket that are under way, by key, then by when they were begun.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListMultipartUploads {
    /// The bucket.
    pub bucket: String,
    /// Only keys that begin so.
    #[serde(default)]
    pub prefix: String,
    /// Keys are grouped up to this behind the prefix.
    pub delimiter: Option<String>,
    /// Where the last page ended.
    pub key_marker: Option<String>,
    /// With `key_marker`: which upload of that key.
    pub upload_id_marker: Option<String>,
    /// How many at most; 1000 where absent.
    pub max_uploads: Option<u32>,
    /// `url`: keys in the answer are percent-encoded.
    pub encoding_type: Option<String>,
}

/// The answer of [`ListMultipartUploads`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Uploads {
    /// The uploads.
    pub uploads: Vec<UploadEntry>,
    /// The groups.
    pub common_prefixes: Vec<String>,
    /// There are more.
    pub is_truncated: bool,
    /// The next page's `key_marker`.
    pub next_key_marker: Option<String>,
    /// The next page's `upload_id_marker`.
    pub next_upload_id_marker: Option<String>,
}

/// An upload in a list.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct UploadEntry {
    pub key: String,
    pub upload_id: String,
    pub initiated_ms: u64,
    pub initiator: Option<Owner>,
    pub owner: Option<Owner>,
    pub storage_class: Option<String>,
    pub checksum_algorithm: Option<ChecksumAlgorithm>,
    pub checksum_type: Option<ChecksumType>,
}
