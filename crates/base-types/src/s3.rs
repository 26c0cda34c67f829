//! The S3 calls that touch metadata, as data: one struct a call with the S3 API's own names in
//! snake_case, its answer, and the S3 error codes.
//!
//!   door-http: `{"action":"PutObject","bucket":…}` ⇄ [`S3Action`]      [`S3Answer`] ⇄ JSON
//!   door-s3:   `PUT /bucket/key`                   ⇄ [`S3Action`]      [`S3Answer`] ⇄ XML, headers
//!
//! In JSON the groups of fields that requests share (`data`, `headers`, `conditions`, `checksums`) lie
//! flat beside the others, as in the S3 API: door-http lifts them in, answers flatten them out.
//!
//! Always: plain data; a field that nobody knows is refused when it is read (`deny_unknown_fields`).
//! Times are milliseconds since 1970 (cluster time). Objects' bytes are not here: small ones travel
//! inline ([`Data::Inline`]), of others only the opaque `location` is kept.
//! Not here: what a call does (core-*), who may make it and whether names are legal (door-s3).

mod account;
mod action;
mod bucket;
mod conditions;
mod data;
pub mod document;
mod error;
pub mod etag;
mod list;
mod model;
mod multipart;
pub mod names;
mod object;
mod parts;
pub mod policy;
mod settings;
pub mod version;

pub use account::*;
pub use action::*;
pub use bucket::*;
pub use data::*;
pub use document::{field, Document};
pub use error::*;
pub use list::*;
pub use model::*;
pub use multipart::*;
pub use names::{check_bucket_name, check_key};
pub use object::*;
pub use parts::{decode_parts, encode_parts, locations_of, StoredPart};
pub use settings::*;
pub use version::{Version, VersionStamp};

/// The most bytes of an object that Hive keeps itself; larger ones go to a data store.
pub const INLINE_BYTES_MAX: usize = 64 << 10;
/// The longest key.
pub const KEY_BYTES_MAX: usize = 1024;
/// The most entries of one page of a listing.
pub const MAX_KEYS_MAX: u32 = 1000;
/// The most keys of one `DeleteObjects`.
pub const DELETE_OBJECTS_MAX: usize = 1000;
/// The highest part number, and the most parts of an upload.
pub const PART_NUMBER_MAX: u32 = 10_000;
/// The least bytes of a part that is not the last.
pub const PART_BYTES_MIN: u64 = 5 << 20;
/// The most bytes of one part, and of one object put at once.
pub const PUT_BYTES_MAX: u64 = 5 << 30;
/// The most bytes of an object (of many parts).
pub const OBJECT_BYTES_MAX: u64 = 5 << 40;
/// The most bytes of user metadata, names and values together.
pub const USER_METADATA_BYTES_MAX: usize = 2 << 10;
/// The most tags of an object.
pub const OBJECT_TAGS_MAX: usize = 10;
/// The most tags of a bucket.
pub const BUCKET_TAGS_MAX: usize = 50;
/// The version id of an object that was put while its bucket was not versioned.
pub const NULL_VERSION: &str = "null";

#[cfg(test)]
mod tests;
