//! The calls on objects and their versions.
//!
//! A version is named by its `version_id`; absent means the current one. [`super::NULL_VERSION`] names
//! the one that was put while the bucket kept no versions.

use super::{Acl, Checksums, Data, ObjectHeaders, Retention, Tag};
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// What must hold of the current version for a write to happen.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteConditions {
    /// Its etag, or `*` for any: there must be one.
    pub if_match: Option<String>,
    /// `*`: there must be none.
    pub if_none_match: Option<String>,
    /// It was put at this time (`DeleteObject` only).
    pub if_match_last_modified_ms: Option<u64>,
    /// It has this length (`DeleteObject` only).
    pub if_match_size: Option<u64>,
}

/// What must hold of a version for it to be read or copied.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadConditions {
    /// One of these etags, or `*`; else `PreconditionFailed`.
    pub if_match: Option<String>,
    /// None of these etags; else `NotModified`.
    pub if_none_match: Option<String>,
    /// Put behind this time; else `NotModified`.
    pub if_modified_since_ms: Option<u64>,
    /// Not put behind this time; else `PreconditionFailed`.
    pub if_unmodified_since_ms: Option<u64>,
}

/// Puts an object whose bytes are inline or already in a data store.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PutObject {
    /// The bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// The bytes, or where they are.
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
    /// What is given back with the object as it came.
    #[serde(default)]
    pub headers: ObjectHeaders,
    /// Its tags.
    #[serde(default)]
    pub tags: Vec<Tag>,
    /// Its owner and who else may touch it; the bucket's owner alone where absent.
    pub acl: Option<Acl>,
    /// How long it may not be deleted; the bucket's default where absent.
    pub retention: Option<Retention>,
    /// Whether it may not be deleted at all.
    #[serde(default)]
    pub legal_hold: bool,
    /// What must hold for it to happen.
    #[serde(default)]
    pub conditions: WriteConditions,
    /// The data store's intent ends then: a put that is ordered later is refused (`RequestTimeout`).
    pub data_expires_ms: Option<u64>,
}

/// The answer of [`PutObject`], [`super::CompleteMultipartUpload`] and [`CopyObject`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PutObjectAnswer {
    /// As shown to clients, without quotes.
    pub etag: String,
    /// Absent where the bucket never kept versions.
    pub version_id: Option<String>,
    /// When it was put.
    pub last_modified_ms: u64,
    /// How many bytes.
    pub size: u64,
    /// The checksums it was put with.
    #[serde(flatten)]
    pub checksums: Checksums,
}

/// Reads a version with its bytes, or where they are.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetObject {
    /// The bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// Which version.
    pub version_id: Option<String>,
    /// What must hold of it.
    #[serde(default)]
    pub conditions: ReadConditions,
}

/// As [`GetObject`], without the bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeadObject {
    /// The bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// Which version.
    pub version_id: Option<String>,
    /// What must hold of it.
    #[serde(default)]
    pub conditions: ReadConditions,
}

/// A version: the answer of [`GetObject`], [`HeadObject`] and [`GetObjectAttributes`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ObjectVersion {
    /// The key.
    pub key: String,
    /// Absent where the bucket never kept versions.
    pub version_id: Option<String>,
    /// Never in an answer of a read without a version id: that is `NoSuchKey`.
    #[serde(default)]
    pub delete_marker: bool,
    /// When it was put.
    pub last_modified_ms: u64,
    /// How many bytes.
    pub size: u64,
    /// As shown to clients, without quotes; `<md5 of md5s>-<parts>` for several parts.
    pub etag: String,
    /// Its checksums.
    #[serde(flatten)]
    pub checksums: Checksums,
    /// How many parts it was uploaded in; absent where at once.
    pub parts_count: Option<u32>,
    /// What is given back as it came.
    #[serde(flatten)]
    pub headers: ObjectHeaders,
    /// Its tags.
    #[serde(default)]
    pub tags: Vec<Tag>,
    /// Its owner and who may touch it.
    #[serde(default)]
    pub acl: Acl,
    /// How long it may not be deleted.
    pub retention: Option<Retention>,
    /// Whether it may not be deleted at all.
    #[serde(default)]
    pub legal_hold: bool,
    /// Bytes or places; of `HeadObject` and `GetObjectAttributes` absent, but with parts where there are.
    #[serde(flatten)]
    pub data: Option<Data>,
}

/// Removes a version, or lays a delete marker over the key.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteObject {
    /// The bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// Which version; a delete marker is laid (in a bucket that keeps versions) where absent.
    pub version_id: Option<String>,
    /// Delete in spite of a governance retention (the caller has the right).
    #[serde(default)]
    pub bypass_governance_retention: bool,
    /// What must hold for it to happen.
    #[serde(default)]
    pub conditions: WriteConditions,
}

/// The answer of [`DeleteObject`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteObjectAnswer {
    /// A delete marker was laid, or one was removed.
    pub delete_marker: bool,
    /// Of the marker that was laid, or the version that was removed.
    pub version_id: Option<String>,
}

/// Removes many; each on its own.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteObjects {
    /// The bucket.
    pub bucket: String,
    /// At most [`super::DELETE_OBJECTS_MAX`].
    pub objects: Vec<ObjectToDelete>,
    /// Delete in spite of a governance retention.
    #[serde(default)]
    pub bypass_governance_retention: bool,
}

/// One of many to remove.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectToDelete {
    /// The key.
    pub key: String,
    /// Which version.
    pub version_id: Option<String>,
    /// What must hold for it to happen.
    #[serde(default)]
    pub conditions: WriteConditions,
}

/// The answer of [`DeleteObjects`], in the order asked.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteObjectsAnswer {
    /// One for each.
    pub results: Vec<DeleteResult>,
}

/// What became of one.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteResult {
    /// The key.
    pub key: String,
    /// The version that was asked for.
    pub version_id: Option<String>,
    /// What was done; absent where it was refused.
    pub deleted: Option<DeleteObjectAnswer>,
    /// The S3 error code, where it was refused.
    pub code: Option<String>,
    /// And why.
    pub message: Option<String>,
}

/// Which version is copied.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopySource {
    /// Its bucket.
    pub bucket: String,
    /// Its key.
    pub key: String,
    /// Which version.
    pub version_id: Option<String>,
}

/// Copies a version whose bytes are inline, or whose bytes the caller has copied to `location`.
/// (A gateway that copies bytes itself uses [`GetObject`] and [`PutObject`].)
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopyObject {
    /// The bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// What to copy.
    pub copy_source: CopySource,
    /// What must hold of the source.
    #[serde(default)]
    pub copy_source_conditions: ReadConditions,
    /// Where the caller has copied the bytes; needed where the source's are not inline.
    pub location: Option<String>,
    /// New headers; the source's where absent.
    pub headers: Option<ObjectHeaders>,
    /// New tags; the source's where absent.
    pub tags: Option<Vec<Tag>>,
    /// As [`PutObject`]'s; never the source's.
    pub acl: Option<Acl>,
    /// As [`PutObject`]'s.
    pub retention: Option<Retention>,
    /// As [`PutObject`]'s.
    #[serde(default)]
    pub legal_hold: bool,
    /// As [`PutObject`]'s.
    #[serde(default)]
    pub conditions: WriteConditions,
}

macro_rules! of_version {
    ($($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $type:ty),* };)*) => {
        $($(#[$meta])*
        #[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            /// The bucket.
            pub bucket: String,
            /// The key.
            pub key: String,
            /// Which version.
            pub version_id: Option<String>,
            $($(#[$field_meta])* pub $field: $type,)*
        })*
    };
}

of_version! {
    /// A version's length, checksums, parts and storage class.
    GetObjectAttributes {};
    /// A version's tags.
    GetObjectTagging {};
    /// Replaces a version's tags.
    PutObjectTagging {
        /// All of them.
        tags: Vec<Tag>
    };
    /// Removes a version's tags.
    DeleteObjectTagging {};
    /// A version's ACL.
    GetObjectAcl {};
    /// Replaces a version's ACL.
    PutObjectAcl {
        /// The whole of it.
        acl: Acl
    };
    /// Whether a version is on legal hold.
    GetObjectLegalHold {};
    /// Puts a version on legal hold, or ends it.
    PutObjectLegalHold {
        /// Whether it is.
        legal_hold: bool
    };
    /// A version's retention.
    GetObjectRetention {};
    /// Changes a version's retention; `None` ends it.
    PutObjectRetention {
        /// The new one.
        retention: Option<Retention>,
        /// Shorten in spite of governance mode (the caller has the right).
        #[serde(default)]
        bypass_governance_retention: bool
    };
    /// Brings back an archived version; Hive archives none, so it is refused (`InvalidObjectState`).
    RestoreObject {
        /// For how long.
        days: Option<u32>
    };
}

/// The answer of the calls that change one thing of a version.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionChanged {
    /// Which version it was.
    pub version_id: Option<String>,
}

/// The answer of [`GetObjectTagging`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectTagging {
    /// Which version it was.
    pub version_id: Option<String>,
    /// Its tags.
    pub tags: Vec<Tag>,
}

/// The answer of [`GetObjectLegalHold`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LegalHold {
    /// Whether it is.
    pub legal_hold: bool,
}

/// The answer of [`GetObjectRetention`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetentionAnswer {
    /// Which.
    pub retention: Retention,
}
