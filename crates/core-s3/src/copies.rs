//! Copies of objects, and of ranges of objects as parts: the source is read, then put.
//!
//! Always: bytes are copied here where they are inline; else the caller has copied them and names where they are
//! now, for no two versions name the same place in a data store.
//! Held by: `a_copy_has_the_bytes_and_what_is_not_said_anew`.
//! Not here: the copying of bytes in a data store (door-s3).

pub(crate) mod chain;

use crate::buckets::check_owner::of_anyone;
use crate::copies::chain::chain;
use crate::objects;
use crate::objects::single_shard::single_shard;
use crate::objects::Put;
use crate::request::Terms;
use crate::state::S3Planner;
use crate::uploads;
use crate::Offered;
use base_types::action::Failure;
use base_types::s3::{
    etag, Checksums, CopyObject, CopySource, Data, GetObject, ObjectVersion, PutObject, ReadConditions, S3Action,
    S3ErrorCode, UploadPart, UploadPartCopy,
};
use base_types::Refusal;

/// The planner of a call, if it is one of these.
pub(crate) fn planner_for(call: S3Action, terms: &Terms) -> Offered {
    let terms = *terms;
    match call {
        S3Action::CopyObject(call) => {
            let source = read_source(&call.copy_source, &terms);
            let put = move |found| Ok(single_shard(Put { call: Box::new(copy_of(*call, found)?) }, &terms));
            Ok(after_source("CopyObject", source, Box::new(put)))
        }
        S3Action::UploadPartCopy(call) => {
            let source = read_source(&call.copy_source, &terms);
            let put = move |found| Ok(uploads::upload_part(Box::new(part_of(*call, found)?), &terms));
            Ok(after_source("UploadPartCopy", source, Box::new(put)))
        }
        other => Err(other),
    }
}

fn read_source(source: &CopySource, terms: &Terms) -> Box<S3Planner> {
    let CopySource { bucket, key, version_id } = source.clone();
    objects::get(GetObject { bucket, key, version_id, conditions: ReadConditions::default() }, terms)
}

type OnSource = Box<dyn FnOnce(ObjectVersion) -> Result<Box<S3Planner>, Refusal> + Send>;

fn after_source(name: &'static str, source: Box<S3Planner>, then: OnSource) -> Box<S3Planner> {
    let on_answer = move |answer| {
        let found = ObjectVersion::try_from(answer);
        let found = found.map_err(|_| S3ErrorCode::InternalError.because("a read was answered otherwise"))?;
        if found.delete_marker {
            let message = "The source of a copy request may not specifically refer to a delete marker by version id.";
            return Err(Failure::from(S3ErrorCode::InvalidRequest.because(message)));
        }
        then(found).map_err(Failure::from)
    };
    chain(name, of_anyone(source), Box::new(on_answer))
}

/// Refuses a source that is not as it must be; what would be `NotModified` of a read is a failure here.
fn check_source(conditions: &ReadConditions, found: &ObjectVersion) -> Result<(), Refusal> {
    let checked = conditions.check(&found.etag, found.last_modified_ms);
    checked.map_err(|_| S3ErrorCode::PreconditionFailed.because("the source is not as the conditions want it"))
}

/// Where the copy's bytes are.
fn data_of(found: Option<Data>, location: Option<String>) -> Result<Data, Refusal> {
    match (location, found) {
        (Some(location), _) => Ok(Data::Location(location)),
        (None, Some(Data::Inline(bytes))) => Ok(Data::Inline(bytes)),
        (None, _) => {
            let message = "the source's bytes are in a data store; copy them there and give the copy's location";
            Err(S3ErrorCode::InvalidRequest.because(message))
        }
    }
}

fn copy_of(call: CopyObject, found: ObjectVersion) -> Result<PutObject, Refusal> {
    check_source(&call.copy_source_conditions, &found)?;
    let onto_itself = call.copy_source.bucket == call.bucket && call.copy_source.key == call.key;
    let same = call.headers.is_none() && call.tags.is_none() && call.acl.is_none();
    if onto_itself && same && call.copy_source.version_id.is_none() {
        let message = "This copy request is illegal because it is trying to copy an object to itself without changing the object's metadata, storage class, website redirect location or encryption attributes.";
        return Err(S3ErrorCode::InvalidRequest.because(message));
    }
    Ok(PutObject {
        bucket: call.bucket,
        key: call.key,
        data: data_of(found.data, call.location)?,
        size: found.size,
        etag: found.etag,
        checksums: found.checksums,
        headers: call.headers.unwrap_or(found.headers),
        tags: call.tags.unwrap_or(found.tags),
        acl: call.acl,
        retention: call.retention,
        legal_hold: call.legal_hold,
        conditions: call.conditions,
        data_expires_ms: None,
    })
}

/// First byte, and the one behind the last.
fn range_of(range: Option<(u64, u64)>, size: u64) -> Result<(u64, u64), Refusal> {
    match range {
        None => Ok((0, size)),
        Some((first, last)) if first <= last && last < size => Ok((first, last + 1)),
        Some((first, last)) => {
            let message =
                format!("Range specified is not valid for source object of size: {size} (bytes {first} to {last})");
            Err(S3ErrorCode::InvalidRange.because(message))
        }
    }
}

fn part_of(call: UploadPartCopy, found: ObjectVersion) -> Result<UploadPart, Refusal> {
    let (first, end) = range_of(call.copy_source_range, found.size)?;
    let whole = (first, end) == (0, found.size);
    let data = match data_of(found.data, call.location)? {
        Data::Inline(bytes) => Data::Inline(bytes.slice(first as usize..(end as usize).min(bytes.len()))),
        data => data,
    };
    let etag = match &data {
        Data::Inline(bytes) => etag::hex(&etag::md5(bytes)),
        _ if whole && !found.etag.contains('-') => found.etag,
        // Nobody has hashed these bytes; what is needed is a name that changes with them.
        _ => etag::hex(&etag::md5(format!("{} {first}-{end}", found.etag).as_bytes())),
    };
    Ok(UploadPart {
        bucket: call.bucket,
        key: call.key,
        upload_id: call.upload_id,
        part_number: call.part_number,
        data,
        size: end - first,
        etag,
        checksums: if whole { found.checksums } else { Checksums::default() },
        data_expires_ms: None,
    })
}
