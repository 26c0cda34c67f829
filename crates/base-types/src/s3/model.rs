//! What several calls share: owners, ACLs, tags, checksums, locks, where an object's bytes are.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// An account as the S3 API shows it: the canonical user id and a name.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Owner {
    /// The canonical user id; in Hive the account's own name.
    pub id: String,
    /// For people.
    #[serde(default)]
    pub display_name: String,
}

/// Whom a grant is for.
#[derive(Clone, PartialEq, Eq, Debug, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grantee {
    /// One account, by canonical user id.
    CanonicalUser(String),
    /// Everybody, signed or not.
    AllUsers,
    /// Everybody with a valid signature.
    AuthenticatedUsers,
    /// The service that would deliver access logs (kept, never used).
    LogDelivery,
}

/// What a grant allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[allow(missing_docs)]
pub enum Permission {
    Read,
    Write,
    ReadAcp,
    WriteAcp,
    FullControl,
}

/// One line of an ACL.
#[derive(Clone, PartialEq, Eq, Debug, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// Whom it is for.
    pub grantee: Grantee,
    /// What it allows.
    pub permission: Permission,
}

/// An access control list.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Acl {
    /// Who owns the thing; always has full control.
    pub owner: Owner,
    /// What others (and the owner, written out) may do.
    #[serde(default)]
    pub grants: Vec<Grant>,
}

/// A tag of a bucket or object.
#[derive(Clone, PartialEq, Eq, Debug, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tag {
    /// The tag's name.
    pub key: String,
    /// Its value.
    pub value: String,
}

/// Checksums in base64, as the S3 API writes them.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Checksums {
    #[serde(rename = "checksum_crc32")]
    pub crc32: Option<String>,
    #[serde(rename = "checksum_crc32c")]
    pub crc32c: Option<String>,
    #[serde(rename = "checksum_crc64nvme")]
    pub crc64nvme: Option<String>,
    #[serde(rename = "checksum_sha1")]
    pub sha1: Option<String>,
    #[serde(rename = "checksum_sha256")]
    pub sha256: Option<String>,
    /// Over the whole object, or over the checksums of its parts.
    pub checksum_type: Option<ChecksumType>,
}

impl Checksums {
    /// The one of an algorithm.
    pub fn get(&self, algorithm: ChecksumAlgorithm) -> Option<&String> {
        match algorithm {
            ChecksumAlgorithm::Crc32 => self.crc32.as_ref(),
            ChecksumAlgorithm::Crc32c => self.crc32c.as_ref(),
            ChecksumAlgorithm::Crc64nvme => self.crc64nvme.as_ref(),
            ChecksumAlgorithm::Sha1 => self.sha1.as_ref(),
            ChecksumAlgorithm::Sha256 => self.sha256.as_ref(),
        }
    }

    /// The place of an algorithm's.
    pub fn slot(&mut self, algorithm: ChecksumAlgorithm) -> &mut Option<String> {
        match algorithm {
            ChecksumAlgorithm::Crc32 => &mut self.crc32,
            ChecksumAlgorithm::Crc32c => &mut self.crc32c,
            ChecksumAlgorithm::Crc64nvme => &mut self.crc64nvme,
            ChecksumAlgorithm::Sha1 => &mut self.sha1,
            ChecksumAlgorithm::Sha256 => &mut self.sha256,
        }
    }
}

/// How a checksum is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[allow(missing_docs)]
pub enum ChecksumAlgorithm {
    Crc32,
    Crc32c,
    Crc64nvme,
    Sha1,
    Sha256,
}

impl ChecksumAlgorithm {
    /// All there are.
    pub const ALL: [ChecksumAlgorithm; 5] = [
        ChecksumAlgorithm::Crc32,
        ChecksumAlgorithm::Crc32c,
        ChecksumAlgorithm::Crc64nvme,
        ChecksumAlgorithm::Sha1,
        ChecksumAlgorithm::Sha256,
    ];
}

/// What a checksum of an object of several parts is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ChecksumType {
    /// The object's bytes.
    FullObject,
    /// The parts' checksums.
    Composite,
}

/// How long an object may not be deleted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retention {
    /// Whether anybody may shorten it.
    pub mode: RetentionMode,
    /// Until when.
    pub retain_until_ms: u64,
}

/// Whether a retention may be shortened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum RetentionMode {
    /// By those with the right to bypass it.
    Governance,
    /// By nobody.
    Compliance,
}

/// Where an object's or a part's bytes are.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Data {
    /// Here; at most [`super::INLINE_BYTES_MAX`].
    #[serde(rename = "body_base64", with = "base64_bytes")]
    Inline(Bytes),
    /// In a data store, under a name that only that store understands.
    Location(String),
    /// In order, each with its own length and place (objects of several parts).
    Parts(Vec<PartData>),
}

impl Default for Data {
    fn default() -> Data {
        Data::Inline(Bytes::new())
    }
}

/// One part of an object's bytes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartData {
    /// The number it was uploaded under.
    pub part_number: u32,
    /// Its length.
    pub size: u64,
    /// The MD5 of its bytes, hexadecimal, without quotes.
    pub etag: String,
    /// Its checksums.
    #[serde(default)]
    pub checksums: Checksums,
    /// Never `Parts`.
    pub data: Data,
}

impl Data {
    /// The names of a data store it consists of.
    pub fn locations(&self) -> Vec<&str> {
        match self {
            Data::Inline(_) => Vec::new(),
            Data::Location(location) => alloc::vec![location.as_str()],
            Data::Parts(parts) => parts.iter().flat_map(|part| part.data.locations()).collect(),
        }
    }
}

/// The headers that are stored with an object and given back as they came.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct ObjectHeaders {
    pub content_type: Option<String>,
    pub content_encoding: Option<String>,
    pub content_language: Option<String>,
    pub content_disposition: Option<String>,
    pub cache_control: Option<String>,
    pub expires: Option<String>,
    pub website_redirect_location: Option<String>,
    pub storage_class: Option<String>,
    pub server_side_encryption: Option<String>,
    /// The `x-amz-meta-…` headers, names in lower case without that prefix.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
}

/// Bytes as base64 text, on both ways.
pub(crate) mod base64_bytes {
    use alloc::string::String;
    use base64::engine::general_purpose::STANDARD;
    use base64::Engine as _;
    use bytes::Bytes;
    use core::fmt;
    use serde::{de, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(bytes: &Bytes, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(&STANDARD.encode(bytes))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Bytes, D::Error> {
        input.deserialize_str(Base64)
    }

    struct Base64;

    impl de::Visitor<'_> for Base64 {
        type Value = Bytes;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("base64 text")
        }
        fn visit_str<E: de::Error>(self, text: &str) -> Result<Bytes, E> {
            let decoded = STANDARD
                .decode(text)
                .map_err(|error| E::custom(alloc::format!("is no base64 ({error}); encode its bytes again")))?;
            Ok(decoded.into())
        }
        fn visit_string<E: de::Error>(self, text: String) -> Result<Bytes, E> {
            self.visit_str(&text)
        }
    }
}
