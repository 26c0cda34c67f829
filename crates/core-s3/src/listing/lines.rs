//! Lines of listings as the S3 API has them.
//!
//! By design: a line costs its texts and nothing else: fields are read in place.
//! Not here: which lines (listing.rs).

use crate::objects::document::{read_algorithm, read_checksum_type, read_owner, version_text};
use base_types::s3::document::each_field;
use base_types::s3::{
    encode_url, field, BucketInfo, ChecksumAlgorithm, ChecksumType, ObjectEntry, Owner, S3ErrorCode, VersionEntry,
};
use base_types::Refusal;
use bytes::Bytes;
use core_backends::shard::Item;

/// How keys are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Encoding {
    Plain,
    Url,
}

impl Encoding {
    pub(crate) fn read(text: Option<&str>) -> Result<Encoding, Refusal> {
        match text {
            None => Ok(Encoding::Plain),
            Some("url") => Ok(Encoding::Url),
            Some(_) => Err(S3ErrorCode::InvalidArgument.because("Invalid Encoding Method specified in Request")),
        }
    }

    pub(crate) fn text(self, text: &str) -> String {
        match self {
            Encoding::Plain => text.to_owned(),
            Encoding::Url => encode_url(text),
        }
    }
}

/// The part of a document that a listing returns.
#[derive(Default)]
pub(crate) struct Listed<'a> {
    etag: &'a str,
    size: u64,
    modified_ms: u64,
    storage_class: Option<&'a str>,
    owner: Option<&'a str>,
    algorithm: Option<ChecksumAlgorithm>,
    checksum_type: Option<ChecksumType>,
}

impl Listed<'_> {
    pub(crate) fn read(fields: &[u8]) -> Listed<'_> {
        let mut found = Listed::default();
        each_field(fields, |id, value| {
            let text = || core::str::from_utf8(value).ok();
            match id {
                field::ETAG => found.etag = text().unwrap_or_default(),
                field::SIZE => found.size = base_types::s3::document::read_number(value).unwrap_or(0),
                field::MODIFIED => found.modified_ms = base_types::s3::document::read_number(value).unwrap_or(0),
                field::STORAGE_CLASS => found.storage_class = text(),
                field::OWNER => found.owner = text(),
                field::CHECKSUM_ALGORITHM => found.algorithm = read_algorithm(value),
                field::CHECKSUM_TYPE => found.checksum_type = read_checksum_type(value),
                _ => {}
            }
        });
        found
    }

    fn owner(&self, info: &BucketInfo) -> Owner {
        self.owner.map_or_else(|| info.owner.clone(), read_owner)
    }
}

/// A key out of a row.
pub(crate) fn key_text(key: &Bytes) -> Result<&str, Refusal> {
    core::str::from_utf8(key).map_err(|_| S3ErrorCode::InternalError.because("a key in a shard is not UTF-8"))
}

/// A line of a listing of objects.
pub(crate) fn object_entry(
    info: &BucketInfo,
    key: &Bytes,
    fields: &Bytes,
    with_owner: bool,
    encoding: Encoding,
) -> Result<ObjectEntry, Refusal> {
    let listed = Listed::read(fields);
    Ok(ObjectEntry {
        key: encoding.text(key_text(key)?),
        last_modified_ms: listed.modified_ms,
        etag: listed.etag.to_owned(),
        size: listed.size,
        storage_class: listed.storage_class.map(str::to_owned),
        owner: with_owner.then(|| listed.owner(info)),
        checksum_algorithm: listed.algorithm,
        checksum_type: listed.checksum_type,
    })
}

/// A line of a listing of versions; `None`: the item is another.
pub(crate) fn version_entry(
    info: &BucketInfo,
    item: &Item,
    encoding: Encoding,
) -> Result<Option<VersionEntry>, Refusal> {
    let Item::Version { key, stamp, null, marker, latest, fields } = item else { return Ok(None) };
    let listed = Listed::read(fields);
    Ok(Some(VersionEntry {
        key: encoding.text(key_text(key)?),
        version_id: version_text(*stamp, *null),
        is_latest: *latest,
        delete_marker: *marker,
        last_modified_ms: listed.modified_ms,
        etag: listed.etag.to_owned(),
        size: listed.size,
        storage_class: listed.storage_class.map(str::to_owned),
        owner: Some(listed.owner(info)),
        checksum_algorithm: listed.algorithm,
        checksum_type: listed.checksum_type,
    }))
}
