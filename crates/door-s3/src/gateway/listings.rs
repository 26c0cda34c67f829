//! Listings: objects (both versions of the API), versions, uploads, parts.
//!
//! By design: who asks for a snapshot by [`SNAPSHOT`] gets one, and learns so by the same header in the answer; where there
//! is none to be had the call is refused, never quietly answered without.

use super::{Gateway, Opened};
use crate::convert::{self, owner_to_wire, timestamp};
use crate::document::is_odd;
use crate::error::{because, to_s3};
use crate::validate;
use base_types::s3::*;
use hyper::header::{HeaderName, HeaderValue};
use s3s::dto;
use s3s::{S3Request, S3Response, S3Result};

/// A header or a query parameter, `true` or `false`: all pages of this walk show one instant.
const SNAPSHOT: HeaderName = HeaderName::from_static("x-hive-snapshot");

/// Whether a request asks for a snapshot.
fn asks_snapshot<T>(request: &S3Request<T>) -> S3Result<bool> {
    let in_headers = request.headers.get_all(&SNAPSHOT).iter().map(HeaderValue::as_bytes);
    let pairs = request.uri.query().unwrap_or("").split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let in_query = pairs.filter(|(name, _)| *name == SNAPSHOT.as_str()).map(|(_, value)| value.as_bytes());
    let mut asked = None;
    for word in in_headers.chain(in_query) {
        let word = match word {
            b"true" => true,
            b"false" => false,
            _ => {
                return Err(because(
                    S3ErrorCode::InvalidArgument,
                    "x-hive-snapshot is neither true nor false; send one of them",
                ))
            }
        };
        if asked.is_some_and(|before| before != word) {
            return Err(because(
                S3ErrorCode::InvalidArgument,
                "x-hive-snapshot is given twice, and not the same; send it once",
            ));
        }
        asked = Some(word);
    }
    Ok(asked.unwrap_or(false))
}

/// Of lists that have no snapshot.
fn refuse_snapshot<T>(request: &S3Request<T>) -> S3Result<()> {
    match asks_snapshot(request)? {
        true => Err(because(
            S3ErrorCode::NotImplemented,
            "x-hive-snapshot is for lists of objects and of their versions; leave it out of other calls",
        )),
        false => Ok(()),
    }
}

/// An answer that says whether it is of a snapshot that was asked for.
fn answer<T>(output: T, snapshot: bool) -> S3Result<S3Response<T>> {
    let mut response = S3Response::new(output);
    if snapshot {
        response.headers.insert(SNAPSHOT, HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// How keys are written into a listing: as they are, or percent-encoded.
#[derive(Clone, Copy)]
struct Encoding {
    url: bool,
}

impl Encoding {
    fn of(asked: Option<&dto::EncodingType>) -> S3Result<Encoding> {
        match asked.map(|word| word.as_str()) {
            None => Ok(Encoding { url: false }),
            Some("url") => Ok(Encoding { url: true }),
            Some(_) => Err(because(S3ErrorCode::InvalidArgument, "Invalid Encoding Method specified in Request")),
        }
    }

    /// As asked, and where XML has no way to write one of these: encoded unasked, and the answer says so.
    fn fit<'a>(self, keys: impl Iterator<Item = &'a String>, more: &[&'a Option<String>]) -> Encoding {
        let mut texts = keys.chain(more.iter().copied().flatten());
        Encoding { url: self.url || texts.any(|text| text.contains(is_odd)) }
    }

    fn named(self) -> Option<dto::EncodingType> {
        self.url.then(|| dto::EncodingType::from_static(dto::EncodingType::URL))
    }

    fn text(self, text: String) -> String {
        if self.url {
            encode_url(&text)
        } else {
            text
        }
    }

    fn prefixes(self, prefixes: Vec<String>) -> Option<Vec<dto::CommonPrefix>> {
        let prefix = |prefix: String| dto::CommonPrefix { prefix: Some(self.text(prefix)) };
        (!prefixes.is_empty()).then(|| prefixes.into_iter().map(prefix).collect())
    }
}

/// How many entries are asked for: 1000 at most, and none is a page too.
fn page_size(asked: Option<i32>, name: &str) -> S3Result<u32> {
    match asked {
        None => Ok(MAX_KEYS_MAX),
        Some(number) => match u32::try_from(number) {
            Ok(number) => Ok(number.min(MAX_KEYS_MAX)),
            Err(_) => {
                let message = format!("Argument {name} must be an integer between 0 and 2147483647");
                Err(because(S3ErrorCode::InvalidArgument, message))
            }
        },
    }
}

fn shown(number: u32) -> Option<i32> {
    i32::try_from(number).ok()
}

fn long(number: u64) -> Option<i64> {
    i64::try_from(number).ok()
}

fn object_to_wire(entry: ObjectEntry, encoding: Encoding, with_owner: bool) -> dto::Object {
    dto::Object {
        checksum_algorithm: convert::algorithms_to_wire(entry.checksum_algorithm),
        checksum_type: convert::type_to_wire(entry.checksum_type),
        e_tag: Some(convert::etag(&entry.etag)),
        key: Some(encoding.text(entry.key)),
        last_modified: Some(timestamp(entry.last_modified_ms)),
        owner: entry.owner.as_ref().filter(|_| with_owner).map(owner_to_wire),
        restore_status: None,
        size: long(entry.size),
        storage_class: Some(entry.storage_class.unwrap_or_else(|| "STANDARD".to_owned()).into()),
    }
}

impl Gateway {
    pub(super) async fn on_list_objects(
        &self,
        request: S3Request<dto::ListObjectsInput>,
    ) -> S3Result<S3Response<dto::ListObjectsOutput>> {
        let Opened { bucket, .. } = self.open(&request, &request.input.bucket, "s3:ListBucket").await?;
        let snapshot = asks_snapshot(&request)?;
        let input = request.input;
        let encoding = Encoding::of(input.encoding_type.as_ref())?;
        let max_keys = page_size(input.max_keys, "maxKeys")?;
        let call = ListObjects {
            bucket: input.bucket.clone(),
            prefix: input.prefix.clone().unwrap_or_default(),
            delimiter: input.delimiter.clone().filter(|delimiter| !delimiter.is_empty()),
            marker: input.marker.clone(),
            max_keys: Some(max_keys),
            encoding_type: None,
            snapshot,
        };
        let page: ObjectPage = self.ask_of(&bucket, call).await?;
        let keys = page.contents.iter().map(|entry| &entry.key).chain(&page.common_prefixes);
        let encoding = encoding.fit(keys, &[&input.prefix, &input.delimiter, &input.marker, &page.next_marker]);
        let text = |text: String| encoding.text(text);
        let prefix = input.prefix.unwrap_or_default();
        // The first version of the API gives the next marker only where a delimiter groups keys; of a snapshot it is
        // more than the last key, and told too.
        let more_than_key = page.next_marker.as_ref() != page.contents.last().map(|entry| &entry.key);
        let told = page.is_truncated && (input.delimiter.is_some() || more_than_key);
        let next_marker = page.next_marker.filter(|_| told).map(text);
        let contents: Vec<dto::Object> =
            page.contents.into_iter().map(|entry| object_to_wire(entry, encoding, true)).collect();
        let output = dto::ListObjectsOutput {
            name: Some(input.bucket),
            // As it came: clients of this version do not decode it.
            prefix: Some(if prefix.contains(is_odd) { text(prefix) } else { prefix }),
            marker: Some(text(input.marker.unwrap_or_default())),
            max_keys: shown(max_keys),
            is_truncated: Some(page.is_truncated),
            contents: Some(contents),
            common_prefixes: encoding.prefixes(page.common_prefixes),
            delimiter: input.delimiter.map(text),
            next_marker,
            encoding_type: encoding.named(),
            request_charged: None,
        };
        answer(output, snapshot)
    }

    pub(super) async fn on_list_objects_v2(
        &self,
        request: S3Request<dto::ListObjectsV2Input>,
    ) -> S3Result<S3Response<dto::ListObjectsV2Output>> {
        let Opened { bucket, .. } = self.open(&request, &request.input.bucket, "s3:ListBucket").await?;
        let snapshot = asks_snapshot(&request)?;
        let input = request.input;
        let encoding = Encoding::of(input.encoding_type.as_ref())?;
        let max_keys = page_size(input.max_keys, "max-keys")?;
        if input.continuation_token.as_deref() == Some("") {
            return Err(because(S3ErrorCode::InvalidArgument, "The continuation token provided is incorrect"));
        }
        let with_owner = input.fetch_owner.unwrap_or(false);
        let call = ListObjectsV2 {
            bucket: input.bucket.clone(),
            prefix: input.prefix.clone().unwrap_or_default(),
            delimiter: input.delimiter.clone().filter(|delimiter| !delimiter.is_empty()),
            start_after: input.start_after.clone(),
            continuation_token: input.continuation_token.clone(),
            max_keys: Some(max_keys),
            fetch_owner: with_owner,
            encoding_type: None,
            snapshot,
        };
        let page: ObjectPage = self.ask_of(&bucket, call).await?;
        let keys = page.contents.iter().map(|entry| &entry.key).chain(&page.common_prefixes);
        let encoding = encoding.fit(keys, &[&input.prefix, &input.delimiter, &input.start_after]);
        let text = |text: String| encoding.text(text);
        let contents: Vec<dto::Object> =
            page.contents.into_iter().map(|entry| object_to_wire(entry, encoding, with_owner)).collect();
        let output = dto::ListObjectsV2Output {
            name: Some(input.bucket),
            prefix: Some(text(input.prefix.unwrap_or_default())),
            max_keys: shown(max_keys),
            key_count: shown(page.key_count),
            continuation_token: input.continuation_token,
            is_truncated: Some(page.is_truncated),
            next_continuation_token: page.next_continuation_token,
            contents: Some(contents),
            common_prefixes: encoding.prefixes(page.common_prefixes),
            delimiter: input.delimiter.map(text),
            encoding_type: encoding.named(),
            start_after: input.start_after.map(text),
            request_charged: None,
        };
        answer(output, snapshot)
    }

    pub(super) async fn on_list_object_versions(
        &self,
        request: S3Request<dto::ListObjectVersionsInput>,
    ) -> S3Result<S3Response<dto::ListObjectVersionsOutput>> {
        let Opened { bucket, .. } = self.open(&request, &request.input.bucket, "s3:ListBucketVersions").await?;
        let snapshot = asks_snapshot(&request)?;
        let input = request.input;
        let encoding = Encoding::of(input.encoding_type.as_ref())?;
        let max_keys = page_size(input.max_keys, "maxKeys")?;
        let named = |marker: &Option<String>| marker.clone().filter(|marker| !marker.is_empty());
        let (key_marker, version_id_marker) = (named(&input.key_marker), named(&input.version_id_marker));
        if version_id_marker.is_some() && key_marker.is_none() {
            return Err(because(
                S3ErrorCode::InvalidArgument,
                "A version-id marker cannot be specified without a key marker.",
            ));
        }
        let call = ListObjectVersions {
            bucket: input.bucket.clone(),
            prefix: input.prefix.clone().unwrap_or_default(),
            delimiter: input.delimiter.clone().filter(|delimiter| !delimiter.is_empty()),
            key_marker,
            version_id_marker,
            max_keys: Some(max_keys),
            encoding_type: None,
            snapshot,
        };
        let page: VersionPage = self.ask_of(&bucket, call).await?;
        let keys = page.versions.iter().map(|entry| &entry.key).chain(&page.common_prefixes);
        let more = [&input.prefix, &input.delimiter, &input.key_marker, &page.next_key_marker];
        let encoding = encoding.fit(keys, &more);
        let text = |text: String| encoding.text(text);
        let (markers, versions): (Vec<_>, Vec<_>) = page.versions.into_iter().partition(|entry| entry.delete_marker);
        let marker = |entry: VersionEntry| dto::DeleteMarkerEntry {
            is_latest: Some(entry.is_latest),
            key: Some(text(entry.key)),
            last_modified: Some(timestamp(entry.last_modified_ms)),
            owner: entry.owner.as_ref().map(owner_to_wire),
            version_id: Some(entry.version_id),
        };
        let version = |entry: VersionEntry| dto::ObjectVersion {
            checksum_algorithm: convert::algorithms_to_wire(entry.checksum_algorithm),
            checksum_type: convert::type_to_wire(entry.checksum_type),
            e_tag: Some(convert::etag(&entry.etag)),
            is_latest: Some(entry.is_latest),
            key: Some(text(entry.key)),
            last_modified: Some(timestamp(entry.last_modified_ms)),
            owner: entry.owner.as_ref().map(owner_to_wire),
            restore_status: None,
            size: long(entry.size),
            storage_class: Some(entry.storage_class.unwrap_or_else(|| "STANDARD".to_owned()).into()),
            version_id: Some(entry.version_id),
        };
        let output = dto::ListObjectVersionsOutput {
            common_prefixes: encoding.prefixes(page.common_prefixes),
            delete_markers: (!markers.is_empty()).then(|| markers.into_iter().map(marker).collect()),
            delimiter: input.delimiter.map(text),
            encoding_type: encoding.named(),
            is_truncated: Some(page.is_truncated),
            key_marker: Some(text(input.key_marker.unwrap_or_default())),
            max_keys: shown(max_keys),
            name: Some(input.bucket),
            next_key_marker: page.next_key_marker.map(text),
            next_version_id_marker: page.next_version_id_marker,
            prefix: Some(text(input.prefix.unwrap_or_default())),
            request_charged: None,
            version_id_marker: input.version_id_marker,
            versions: (!versions.is_empty()).then(|| versions.into_iter().map(version).collect()),
        };
        answer(output, snapshot)
    }

    pub(super) async fn on_list_multipart_uploads(
        &self,
        request: S3Request<dto::ListMultipartUploadsInput>,
    ) -> S3Result<S3Response<dto::ListMultipartUploadsOutput>> {
        let Opened { bucket, .. } = self.open(&request, &request.input.bucket, "s3:ListBucketMultipartUploads").await?;
        refuse_snapshot(&request)?;
        let input = request.input;
        let encoding = Encoding::of(input.encoding_type.as_ref())?;
        let max_uploads = page_size(input.max_uploads, "max-uploads")?;
        let call = ListMultipartUploads {
            bucket: input.bucket.clone(),
            prefix: input.prefix.clone().unwrap_or_default(),
            delimiter: input.delimiter.clone().filter(|delimiter| !delimiter.is_empty()),
            key_marker: input.key_marker.clone().filter(|marker| !marker.is_empty()),
            upload_id_marker: input.upload_id_marker.clone().filter(|marker| !marker.is_empty()),
            max_uploads: Some(max_uploads),
            encoding_type: None,
        };
        let page: Uploads = self.ask_of(&bucket, call).await?;
        let keys = page.uploads.iter().map(|entry| &entry.key).chain(&page.common_prefixes);
        let more = [&input.prefix, &input.delimiter, &input.key_marker, &page.next_key_marker];
        let encoding = encoding.fit(keys, &more);
        let text = |text: String| encoding.text(text);
        let upload = |entry: UploadEntry| dto::MultipartUpload {
            checksum_algorithm: entry
                .checksum_algorithm
                .map(|algorithm| dto::ChecksumAlgorithm::from_static(convert::algorithm_word(algorithm))),
            checksum_type: convert::type_to_wire(entry.checksum_type),
            initiated: Some(timestamp(entry.initiated_ms)),
            initiator: entry
                .initiator
                .map(|owner| dto::Initiator { display_name: Some(owner.display_name), id: Some(owner.id) }),
            key: Some(text(entry.key)),
            owner: entry.owner.as_ref().map(owner_to_wire),
            storage_class: Some(entry.storage_class.unwrap_or_else(|| "STANDARD".to_owned()).into()),
            upload_id: Some(entry.upload_id),
        };
        Ok(S3Response::new(dto::ListMultipartUploadsOutput {
            bucket: Some(input.bucket),
            common_prefixes: encoding.prefixes(page.common_prefixes),
            delimiter: input.delimiter.map(text),
            encoding_type: encoding.named(),
            is_truncated: Some(page.is_truncated),
            key_marker: Some(text(input.key_marker.unwrap_or_default())),
            max_uploads: shown(max_uploads),
            next_key_marker: page.next_key_marker.map(text),
            next_upload_id_marker: page.next_upload_id_marker,
            prefix: Some(text(input.prefix.unwrap_or_default())),
            request_charged: None,
            upload_id_marker: Some(input.upload_id_marker.unwrap_or_default()),
            uploads: Some(page.uploads.into_iter().map(upload).collect()),
        }))
    }

    pub(super) async fn on_list_parts(
        &self,
        request: S3Request<dto::ListPartsInput>,
    ) -> S3Result<S3Response<dto::ListPartsOutput>> {
        let input = &request.input;
        let at = (&*input.bucket, &*input.key, &*input.upload_id);
        let Opened { bucket, .. } = self.open_upload(&request, at, "s3:ListMultipartUploadParts").await?;
        refuse_snapshot(&request)?;
        let input = request.input;
        validate::key(&input.key).map_err(to_s3)?;
        let max_parts = page_size(input.max_parts, "max-parts")?;
        let marker = input.part_number_marker.map(|marker| u32::try_from(marker).unwrap_or(0));
        let call = ListParts {
            bucket: input.bucket.clone(),
            key: input.key.clone(),
            upload_id: input.upload_id.clone(),
            max_parts: Some(max_parts),
            part_number_marker: marker,
        };
        let page: Parts = self.ask_of(&bucket, call).await?;
        let part = |part: PartEntry| {
            let mut wire = dto::Part {
                e_tag: Some(convert::etag(&part.etag)),
                last_modified: Some(timestamp(part.last_modified_ms)),
                part_number: i32::try_from(part.part_number).ok(),
                size: long(part.size),
                ..Default::default()
            };
            convert::set_checksums!(wire, &part.checksums);
            wire
        };
        let upload = page.upload;
        Ok(S3Response::new(dto::ListPartsOutput {
            bucket: Some(input.bucket),
            checksum_algorithm: upload
                .checksum_algorithm
                .map(|algorithm| dto::ChecksumAlgorithm::from_static(convert::algorithm_word(algorithm))),
            checksum_type: convert::type_to_wire(upload.checksum_type),
            initiator: upload
                .initiator
                .map(|owner| dto::Initiator { display_name: Some(owner.display_name), id: Some(owner.id) }),
            is_truncated: Some(page.is_truncated),
            key: Some(input.key),
            max_parts: shown(max_parts),
            next_part_number_marker: page.next_part_number_marker.and_then(shown),
            owner: upload.owner.as_ref().map(owner_to_wire),
            part_number_marker: Some(marker.and_then(shown).unwrap_or(0)),
            parts: Some(page.parts.into_iter().map(part).collect()),
            storage_class: Some(upload.storage_class.unwrap_or_else(|| "STANDARD".to_owned()).into()),
            upload_id: Some(input.upload_id),
            ..Default::default()
        }))
    }
}
