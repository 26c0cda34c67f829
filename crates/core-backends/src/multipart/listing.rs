//! Listings of uploads and parts.
//!
//! Always: uploads come by key and then in the order they began; a common prefix is passed over by one seek
//! (`tests.rs`; mutant `PartsPageRepeats`).

use super::command::{Due, Query, Reply, UploadItem, UploadState, UPLOADS_PAGE_MAX};
use super::{decode_part, decode_upload, keys, load, Outcome};
use crate::contract::SpaceRead;
use crate::rows::{page, prefix_end};
use crate::s3_key::{close, lower, raise};
use base_engine::{Direction, EngineError, KeyRange};
use base_types::mutant::{planted, Mutant};
use bytes::Bytes;
use core::ops::ControlFlow;

/// The most parts (and uploads) looked at for one question of names.
const NAMES_PARTS_MAX: usize = 4096;

/// The bytes after which a page of uploads ends early: what one was begun with may be large.
const PAGE_BYTES_MAX: usize = 4 << 20;

/// Answers one query.
pub(super) fn answer(now_ms: u64, space: &dyn SpaceRead, query: Query) -> Outcome {
    match query {
        Query::Upload { key, upload } => Ok(load(space, &key, upload)?.map(|upload| Reply::Upload { upload })),
        Query::ListParts { key, upload, after, limit } => list_parts(space, &key, upload, after, limit),
        Query::ListUploads { prefix, delimiter, key_marker, upload_marker, limit } => {
            let start = start_of(&prefix, &delimiter, &key_marker, upload_marker);
            list_uploads(space, &prefix, &delimiter, start, limit)
        }
        Query::Older { before_unix_ms, after, limit } => older(space, before_unix_ms, after, limit),
        Query::Freed { after, limit, aged_ms } => {
            let (rows, more) =
                crate::freed::list(space, super::freed_queue(space)?, after, limit, now_ms.checked_sub(aged_ms))?;
            Ok(Ok(Reply::Freed { rows, more }))
        }
        Query::Upkeep => upkeep(now_ms, space),
        Query::Names { key, after, locations } => names(space, &key, after, &locations),
        Query::Due { limit } => due(now_ms, space, limit),
        Query::Open => Ok(Ok(Reply::Open {
            uploads: crate::rows::number(space, &[keys::OPEN])?,
            bytes: crate::rows::number(space, &[keys::HELD])?,
        })),
    }
}

fn list_parts(space: &dyn SpaceRead, key: &[u8], upload: u64, after: u32, limit: u32) -> Outcome {
    match load(space, key, upload)? {
        Ok(found) if found.state == UploadState::Open || found.state == UploadState::Completing => {}
        Ok(_) => return Ok(Err(super::no_such_upload())),
        Err(refusal) => return Ok(Err(refusal)),
    }
    let limit = limit.min(UPLOADS_PAGE_MAX) as usize;
    if limit == 0 {
        return Ok(Ok(Reply::Parts { parts: Vec::new(), more: false }));
    }
    let (_, end) = keys::parts_of(upload);
    let start = keys::part(upload, after.saturating_add(u32::from(!planted(Mutant::PartsPageRepeats))));
    let (rows, more) = page(space, &start, Some(&end), Direction::Forward, limit)?;
    let parts: Result<Vec<_>, EngineError> = rows.into_iter().map(|(_, row)| decode_part(row)).collect();
    Ok(Ok(Reply::Parts { parts: parts?, more }))
}

/// A marker that is itself a common prefix passes over all of it, as in a listing of objects.
fn start_of(prefix: &[u8], delimiter: &[u8], key_marker: &[u8], upload_marker: Option<u64>) -> Bytes {
    if key_marker.is_empty() {
        return Bytes::new();
    }
    if let Some(upload) = upload_marker {
        return crate::rows::successor(&keys::upload(key_marker, upload)).into();
    }
    let raised = raise(key_marker);
    let whole = raised.starts_with(&raise(prefix))
        && common(&raised, prefix.len(), &raise(delimiter)).is_some_and(|common| common.len() == raised.len());
    if whole {
        return behind(&raised);
    }
    let mut end = close(key_marker);
    if let Some(last) = end.last_mut() {
        *last = 1;
    }
    [&[keys::UPLOAD], &end[..]].concat().into()
}

fn behind(raised: &[u8]) -> Bytes {
    let tagged = [&[keys::UPLOAD], raised].concat();
    prefix_end(&tagged).unwrap_or_else(|| vec![keys::UPLOAD + 1]).into()
}

fn common<'k>(raised: &'k [u8], prefix: usize, delimiter: &[u8]) -> Option<&'k [u8]> {
    if delimiter.is_empty() {
        return None;
    }
    let at = raised.get(prefix..)?.windows(delimiter.len()).position(|window| window == delimiter)?;
    Some(&raised[..prefix + at + delimiter.len()])
}

fn list_uploads(space: &dyn SpaceRead, prefix: &[u8], delimiter: &[u8], start: Bytes, limit: u32) -> Outcome {
    let (raised, delimiter) = (raise(prefix), raise(delimiter));
    let tagged = [&[keys::UPLOAD], &raised[..]].concat();
    let end = prefix_end(&tagged).unwrap_or_else(|| vec![keys::UPLOAD + 1]);
    let mut start = Bytes::from(tagged).max(start);
    let limit = limit.min(UPLOADS_PAGE_MAX) as usize;
    let (mut items, mut more, mut bytes) = (Vec::new(), false, 0);
    while limit > 0 && start[..] < end[..] {
        let (mut skip, mut damage) = (None, None);
        space.range(KeyRange { start: &start, end: Some(&end) }, Direction::Forward, &mut |row_key, row| {
            let closed = keys::closed_of(row_key);
            let found = decode_upload(Bytes::copy_from_slice(row));
            let (closed, found) = match (closed, found) {
                (Ok(closed), Ok(found)) => (closed, found),
                (Err(error), _) | (_, Err(error)) => {
                    damage = Some(error);
                    return ControlFlow::Break(());
                }
            };
            if found.state != UploadState::Open && found.state != UploadState::Completing {
                return ControlFlow::Continue(());
            }
            if items.len() == limit || bytes >= PAGE_BYTES_MAX {
                more = true;
                return ControlFlow::Break(());
            }
            if let Some(common) = common(&closed[..closed.len() - 1], raised.len(), &delimiter) {
                items.push(UploadItem::Prefix { prefix: lower(common) });
                skip = Some(behind(common));
                return ControlFlow::Break(());
            }
            bytes += row.len();
            items.push(UploadItem::Upload {
                key: found.key,
                upload: found.upload,
                at_unix_ms: found.at_unix_ms,
                document: found.document,
                initiator: found.initiator,
            });
            ControlFlow::Continue(())
        })?;
        if let Some(error) = damage {
            return Err(error);
        }
        let Some(next) = skip else { break };
        start = next;
    }
    Ok(Ok(Reply::Uploads { items, more }))
}

fn upkeep(now_ms: u64, space: &dyn SpaceRead) -> Outcome {
    let any = |end: &[u8]| -> Result<bool, EngineError> {
        let (rows, _) = page(space, &[keys::CLOSED], Some(end), Direction::Forward, 1)?;
        Ok(!rows.is_empty())
    };
    let (due, waiting) = (any(&keys::closed(now_ms, u64::MAX))?, any(&[keys::CLOSED + 1])?);
    Ok(Ok(Reply::Upkeep { due, waiting, freed_rows: crate::rows::number(space, &[keys::FREED_COUNT])? }))
}

/// Which of `locations` are those of a part of an upload of the key that may still become an object.
fn names(space: &dyn SpaceRead, key: &[u8], after: Option<(u64, u32)>, locations: &[Bytes]) -> Outcome {
    let (mut found, mut left, mut last) = (Vec::new(), NAMES_PARTS_MAX, None);
    let first = keys::upload(key, after.map_or(0, |(upload, _)| upload));
    let (uploads, more) = page(space, &first, Some(&keys::upload(key, u64::MAX)), Direction::Forward, NAMES_PARTS_MAX)?;
    for (_, row) in uploads {
        let upload = decode_upload(row)?;
        if left == 0 {
            return Ok(Ok(Reply::Named { locations: found, after: Some((upload.upload, 0)) }));
        }
        last = Some((upload.upload, u32::MAX));
        if upload.state != UploadState::Open && upload.state != UploadState::Completing {
            continue;
        }
        let begun = after.filter(|(of, _)| *of == upload.upload).map_or(0, |(_, part)| part);
        let (_, end) = keys::parts_of(upload.upload);
        let start = keys::part(upload.upload, begun.saturating_add(1));
        let (parts, rest) = page(space, &start, Some(&end), Direction::Forward, left)?;
        left -= parts.len();
        let mut number = begun;
        for (_, part) in parts {
            let part = decode_part(part)?;
            number = part.number;
            crate::freed::named(locations, &[part.location], &mut found);
        }
        if rest {
            return Ok(Ok(Reply::Named { locations: found, after: Some((upload.upload, number)) }));
        }
    }
    Ok(Ok(Reply::Named { locations: found, after: last.filter(|_| more) }))
}

/// Closed uploads in the order `Collect` takes them.
fn due(now_ms: u64, space: &dyn SpaceRead, limit: u32) -> Outcome {
    let limit = limit.clamp(1, UPLOADS_PAGE_MAX) as usize;
    let end = keys::closed(now_ms, u64::MAX);
    let (rows, _) = page(space, &[keys::CLOSED], Some(&end), Direction::Forward, limit)?;
    let mut uploads = Vec::with_capacity(rows.len());
    for (row_key, key) in rows {
        let upload = crate::rows::key_number(&row_key, 9)?;
        let attempts = load(space, &key, upload)?.map_or(0, |upload| upload.attempts);
        uploads.push(Due { key, upload, attempts });
    }
    Ok(Ok(Reply::Due { uploads }))
}

/// By number, which is the order they began in; the clocks of routers may differ a little.
fn older(space: &dyn SpaceRead, before_unix_ms: u64, after: u64, limit: u32) -> Outcome {
    let limit = limit.clamp(1, UPLOADS_PAGE_MAX) as usize;
    let start = keys::by_age(after.saturating_add(1));
    let (rows, more) = page(space, &start, Some(&[keys::AGE + 1]), Direction::Forward, limit)?;
    let mut items = Vec::new();
    for (row_key, key) in rows {
        let upload = crate::rows::key_number(&row_key, 1)?;
        let Ok(found) = load(space, &key, upload)? else { continue };
        if found.at_unix_ms >= before_unix_ms {
            return Ok(Ok(Reply::Uploads { items, more: false }));
        }
        items.push(UploadItem::Upload {
            key: found.key,
            upload,
            at_unix_ms: found.at_unix_ms,
            document: found.document,
            initiator: found.initiator,
        });
    }
    Ok(Ok(Reply::Uploads { items, more }))
}
