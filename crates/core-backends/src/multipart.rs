//! The `multipart` backend: uploads of a bucket in parts (Hive paper, 2.7).
//!
//! ```text
//!   Create          BeginComplete              Finish
//!  ───────▶ Open ◀───────────────▶ Completing ────────▶ Completed ──Collect──▶ (nothing)
//!             │         Reopen                                                    ▲
//!             └──Abort──▶ Aborted ──Collect───────────────────────────────────────┘
//! ```
//!
//! A completion is three steps of a flow: `BeginComplete` here fixes the parts and their ETag, a `Put` at the shard
//! with the upload's number as its once-token, `Finish` here. After a crash, another node repeats these steps. The
//! token makes the middle one happen once. Then the token is forgotten at the shard.
//!
//! Always: an upload that is completing changes in nothing but its end, so repeated completions agree
//! (`tests.rs`); every location that no object refers to is queued (`freed.rs`) by the command that takes away its part (mutants
//! `PartSentAgainLost`, `CollectedThoughNamed`; counts: `invariants.rs`).
//! Not here: data, the shard's put, lifecycle rules (flows). Rows: docs/formats/s3-rows.md.

mod command;
mod invariants;
mod keys;
mod listing;
#[cfg(test)]
mod tests;

pub use command::{
    token, Command, Completed, Due, Part, PartName, Query, Reply, Upload, UploadItem, UploadState, OBJECT_BYTES_MAX,
    PARTS_MAX, PART_BYTES_MAX, PART_BYTES_MIN, PART_DETAIL_BYTES_MAX, UPLOADS_PAGE_MAX,
};

pub use crate::contract::CLOSED_KEEP_MS;
use crate::contract::{corrupt_row, decode, ApplyContext, Backend, SpaceRead, SpaceWrite};
use crate::freed;
use crate::invariants::Checked;
use crate::reply::encode_reply;
use crate::rows::{number, page, set_number};
use base_engine::{Direction, EngineError};
use base_types::codec::Encode;
use base_types::mutant::{planted, Mutant};
use base_types::s3::check_key;
use base_types::s3::document::DOCUMENT_BYTES_MAX;
use base_types::s3::etag::{etag_matches, multipart_etag};
use base_types::s3::S3ErrorCode;
use base_types::s3::INLINE_BYTES_MAX;
use base_types::{ErrorCode, Refusal, KEY_BYTES_MAX};
use bytes::Bytes;

/// The longest name of an upload's initiator.
const INITIATOR_BYTES_MAX: usize = 1024;
/// The most rows one `Collect` removes.
const COLLECT_ROWS_MAX: u32 = 4096;

type Outcome = Result<Result<Reply, Refusal>, EngineError>;

/// Gives a refusal back as the reply.
macro_rules! admit {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(refusal) => return Ok(Err(refusal)),
        }
    };
}

/// The backend, as the table has it.
pub(crate) struct Uploads;

impl Backend for Uploads {
    fn validate(&self, command: &Bytes) -> Result<(), Refusal> {
        validate(command)
    }

    fn apply(&self, at: ApplyContext, space: &mut dyn SpaceWrite, command: &Bytes) -> Result<Bytes, EngineError> {
        apply(at, space, command)
    }

    fn query(&self, cluster_time_ms: u64, space: &dyn SpaceRead, bytes: &Bytes) -> Result<Bytes, EngineError> {
        query(cluster_time_ms, space, bytes)
    }

    fn check_invariants(&self, space: &dyn SpaceRead) -> Checked {
        invariants::check(space)
    }
}

/// Refuses a command that could not be applied, before it reaches the log.
pub fn validate(command: &Bytes) -> Result<(), Refusal> {
    check(&decode("multipart command", command)?)
}

/// Applies a command; the reply is `encode_reply` of a [`Reply`] or refusal.
pub fn apply(at: ApplyContext, space: &mut dyn SpaceWrite, command: &Bytes) -> Result<Bytes, EngineError> {
    let command: Result<Command, Refusal> = decode("multipart command", command).and_then(|command| {
        check(&command)?;
        Ok(command)
    });
    let reply = match command {
        Ok(command) => run(at.cluster_time_ms, space, command)?,
        Err(refusal) => Err(refusal),
    };
    Ok(encode_reply(&reply))
}

/// Answers a query; the reply is `encode_reply` of a [`Reply`] or refusal.
pub fn query(cluster_time_ms: u64, space: &dyn SpaceRead, query: &Bytes) -> Result<Bytes, EngineError> {
    let query: Result<Query, Refusal> = decode("multipart query", query).and_then(|query| {
        check_query(&query)?;
        Ok(query)
    });
    let reply = match query {
        Ok(query) => listing::answer(cluster_time_ms, space, query)?,
        Err(refusal) => Err(refusal),
    };
    Ok(encode_reply(&reply))
}

fn check(command: &Command) -> Result<(), Refusal> {
    match command {
        Command::Create { key, document, initiator, .. } => {
            check_key(key)?;
            check_size("the object's document", document.len(), DOCUMENT_BYTES_MAX / 2)?;
            check_size("the initiator", initiator.len(), INITIATOR_BYTES_MAX)
        }
        Command::PutPart { key, part, inline, .. } => {
            check_key(key)?;
            check_size("inline data", inline.as_ref().map_or(0, Bytes::len), INLINE_BYTES_MAX)?;
            check_part(part)
        }
        Command::BeginComplete { key, parts, .. } => {
            check_key(key)?;
            check_names(parts)
        }
        Command::Finish { key, .. } | Command::Reopen { key, .. } | Command::Abort { key, .. } => check_key(key),
        Command::Collect { .. } | Command::AbortAll { .. } | Command::ForgetFreed { .. } => Ok(()),
        Command::Close | Command::Unclose => Ok(()),
    }
}

fn check_query(query: &Query) -> Result<(), Refusal> {
    match query {
        Query::Upload { key, .. } | Query::ListParts { key, .. } => check_key(key),
        Query::ListUploads { prefix, delimiter, key_marker, .. } => {
            let sound = |text: &Bytes| text.len() <= KEY_BYTES_MAX && std::str::from_utf8(text).is_ok();
            if [prefix, delimiter, key_marker].into_iter().all(sound) {
                return Ok(());
            }
            let message = format!("prefix, delimiter and marker must be UTF-8 of at most {KEY_BYTES_MAX} bytes");
            Err(Refusal::new(ErrorCode::InvalidField, message))
        }
        Query::Names { key, locations, .. } => {
            if locations.len() > crate::shard::NAMES_MAX {
                let message = format!("{} places; at most {} are taken", locations.len(), crate::shard::NAMES_MAX);
                return Err(Refusal::new(ErrorCode::LimitOutOfRange, message));
            }
            check_key(key)
        }
        Query::Older { .. } | Query::Open | Query::Freed { .. } | Query::Due { .. } | Query::Upkeep => Ok(()),
    }
}

fn check_size(what: &str, bytes: usize, most: usize) -> Result<(), Refusal> {
    if bytes > most {
        let message = format!("{what} is {bytes} bytes long; at most {most} are taken");
        return Err(Refusal::new(ErrorCode::BodyTooLarge, message));
    }
    Ok(())
}

fn check_part(part: &Part) -> Result<(), Refusal> {
    if part.number == 0 || part.number > PARTS_MAX {
        let message = format!("part number {} is not within 1 and {PARTS_MAX}", part.number);
        return Err(S3ErrorCode::InvalidArgument.because(message));
    }
    if part.size > PART_BYTES_MAX {
        let message = format!("part {} has {} bytes; at most {PART_BYTES_MAX} are taken", part.number, part.size);
        return Err(S3ErrorCode::EntityTooLarge.because(message));
    }
    check_size(
        "a part's ETag, checksums and location",
        part.etag.len() + part.checksums.len() + part.location.len(),
        PART_DETAIL_BYTES_MAX,
    )
}

/// The list of a completion: not empty, ascending, not too long.
fn check_names(parts: &[PartName]) -> Result<(), Refusal> {
    if parts.is_empty() || parts.len() > PARTS_MAX as usize {
        let message = format!("a completion names {} parts; give 1 to {PARTS_MAX}", parts.len());
        return Err(S3ErrorCode::MalformedXML.because(message));
    }
    if parts.windows(2).any(|pair| pair[0].number >= pair[1].number) {
        return Err(S3ErrorCode::InvalidPartOrder.because("the parts are not in ascending order; sort them by number"));
    }
    Ok(())
}

pub(crate) fn no_such_upload() -> Refusal {
    let message = "the upload does not exist; its id may be wrong, or it was aborted or completed";
    S3ErrorCode::NoSuchUpload.because(message)
}

fn decode_upload(row: Bytes) -> Result<Upload, EngineError> {
    Upload::from_bytes(row).map_err(|error| corrupt_row("an upload", error))
}

fn decode_part(row: Bytes) -> Result<Part, EngineError> {
    Part::from_bytes(row).map_err(|error| corrupt_row("an upload's part", error))
}

fn load(space: &dyn SpaceRead, key: &[u8], upload: u64) -> Result<Result<Upload, Refusal>, EngineError> {
    match space.get(&keys::upload(key, upload))? {
        Some(row) => decode_upload(row).map(Ok),
        None => Ok(Err(no_such_upload())),
    }
}

fn store(space: &mut dyn SpaceWrite, upload: &Upload) {
    space.put(keys::upload(&upload.key, upload.upload), upload.to_bytes());
}

/// What the parts of open uploads hold together changes by what one of them holds: quotas count it.
fn hold(space: &mut dyn SpaceWrite, before: u64, after: u64) -> Result<(), EngineError> {
    let held = number(space, &[keys::HELD])?.saturating_sub(before).saturating_add(after);
    set_number(space, Bytes::from_static(&[keys::HELD]), held);
    Ok(())
}

/// Refuses what adds to uploads while the bucket is being deleted, or while nobody collects what is freed.
fn admit_more(space: &dyn SpaceRead) -> Outcome {
    if space.get(&[keys::BARRED])?.is_some() {
        let message = "the bucket is being deleted; retry to see what came of it";
        return Ok(Err(Refusal::new(ErrorCode::BucketClosing, message)));
    }
    Ok(freed::admit(number(space, &[keys::FREED_COUNT])?).map(|()| Reply::Done))
}

/// What waits to be collected.
fn freed_queue(space: &dyn SpaceRead) -> Result<freed::Queue, EngineError> {
    let (last, rows) = (number(space, &[keys::FREED_LAST])?, number(space, &[keys::FREED_COUNT])?);
    Ok(freed::Queue { tag: keys::FREED, last, rows })
}

/// Queues places that nothing names any more.
fn free(now_ms: u64, space: &mut dyn SpaceWrite, mut locations: Vec<Bytes>) -> Result<(), EngineError> {
    locations.retain(|location| !location.is_empty());
    if locations.is_empty() || planted(Mutant::FreedDataLost) {
        return Ok(());
    }
    let sequence = number(space, &[keys::FREED_LAST])? + 1;
    let rows = number(space, &[keys::FREED_COUNT])? + 1;
    set_number(space, Bytes::from_static(&[keys::FREED_LAST]), sequence);
    set_number(space, Bytes::from_static(&[keys::FREED_COUNT]), rows);
    freed::push(space, keys::FREED, sequence, now_ms, &locations);
    Ok(())
}

fn run(now_ms: u64, space: &mut dyn SpaceWrite, command: Command) -> Outcome {
    let adds = Command::is_adding(&command);
    if adds {
        admit!(admit_more(space)?);
    }
    match command {
        Command::Create { key, at_unix_ms, document, initiator } => create(space, key, at_unix_ms, document, initiator),
        Command::PutPart { key, upload, part, inline, data_expires_ms } => {
            let upload = admit!(load(space, &key, upload)?);
            if data_expires_ms.is_some_and(|expires_ms| part.at_unix_ms > expires_ms) {
                let message = "the part's bytes took too long to arrive and may have been collected; send them again";
                return Ok(Err(S3ErrorCode::RequestTimeout.because(message)));
            }
            put_part(now_ms, space, upload, part, inline)
        }
        Command::BeginComplete { key, upload, parts } => {
            let upload = admit!(load(space, &key, upload)?);
            begin_complete(space, upload, &parts)
        }
        Command::Finish { key, upload, outcome } => {
            let mut upload = admit!(load(space, &key, upload)?);
            if upload.state == UploadState::Completing {
                upload.outcome = Some(outcome);
                let until_ms = now_ms.saturating_add(space.keep().closed_ms);
                close(space, &mut upload, UploadState::Completed, until_ms)?;
            }
            Ok(Ok(Reply::Upload { upload }))
        }
        Command::Reopen { key, upload, attempt } => {
            let mut upload = admit!(load(space, &key, upload)?);
            // One that comes late must not open what is being put by a later attempt.
            if upload.state == UploadState::Completing && upload.attempts == attempt {
                upload.state = UploadState::Open;
                (upload.chosen, upload.etag, upload.size) = (Vec::new(), String::new(), 0);
                store(space, &upload);
            }
            Ok(Ok(Reply::Upload { upload }))
        }
        Command::Abort { key, upload } => {
            let mut upload = admit!(load(space, &key, upload)?);
            match upload.state {
                UploadState::Open => {
                    // A put of an attempt that was refused may still be under way: its token must outlive it.
                    let keep_ms = if upload.attempts > 0 { space.keep().closed_ms } else { 0 };
                    close(space, &mut upload, UploadState::Aborted, now_ms.saturating_add(keep_ms))?;
                }
                UploadState::Aborted => {}
                UploadState::Completing => return Ok(Err(completing())),
                UploadState::Completed => return Ok(Err(no_such_upload())),
            }
            Ok(Ok(Reply::Done))
        }
        Command::Collect { limit } => collect(now_ms, now_ms, space, limit.clamp(1, COLLECT_ROWS_MAX) as usize),
        other => deletion(now_ms, space, other),
    }
}

/// Commands of a bucket's deletion and of the collector.
fn deletion(now_ms: u64, space: &mut dyn SpaceWrite, command: Command) -> Outcome {
    match command {
        Command::Close => space.put(Bytes::from_static(&[keys::BARRED]), Bytes::new()),
        Command::Unclose => space.delete(Bytes::from_static(&[keys::BARRED])),
        Command::AbortAll { limit } => return abort_all(now_ms, space, limit.clamp(1, COLLECT_ROWS_MAX) as usize),
        Command::ForgetFreed { until } => {
            let queue = freed_queue(space)?;
            let (count, more) = freed::forget(space, queue, until)?;
            set_number(space, Bytes::from_static(&[keys::FREED_COUNT]), queue.rows.saturating_sub(count));
            return Ok(Ok(Reply::Removed { more }));
        }
        _ => {}
    }
    Ok(Ok(Reply::Done))
}

/// Ends every upload, and then collects all of them, due or not.
fn abort_all(now_ms: u64, space: &mut dyn SpaceWrite, limit: usize) -> Outcome {
    if space.get(&[keys::BARRED])?.is_none() {
        let message = "the uploads of a bucket that is not being deleted are not ended all at once; close them first";
        return Ok(Err(Refusal::new(ErrorCode::Conflict, message)));
    }
    let (open, _) = page(space, &[keys::AGE], Some(&[keys::AGE + 1]), Direction::Forward, limit)?;
    if open.is_empty() {
        return collect(now_ms, u64::MAX - 1, space, limit);
    }
    for (row, key) in open {
        match load(space, &key, crate::rows::key_number(&row, 1)?)? {
            Ok(mut upload) => close(space, &mut upload, UploadState::Aborted, now_ms)?,
            Err(_) => space.delete(row),
        }
    }
    Ok(Ok(Reply::Removed { more: true }))
}

fn completing() -> Refusal {
    let message = "the upload is being completed; wait for the outcome";
    Refusal::new(ErrorCode::Conflict, message)
}

fn create(space: &mut dyn SpaceWrite, key: Bytes, at_unix_ms: u64, document: Bytes, initiator: Bytes) -> Outcome {
    let last = number(space, &[keys::LAST])? + 1;
    set_number(space, Bytes::from_static(&[keys::LAST]), last);
    let open = number(space, &[keys::OPEN])? + 1;
    set_number(space, Bytes::from_static(&[keys::OPEN]), open);
    space.put(keys::by_age(last), key.clone());
    let upload = Upload {
        upload: last,
        key,
        state: UploadState::Open,
        at_unix_ms,
        document,
        initiator,
        parts: 0,
        bytes: 0,
        attempts: 0,
        chosen: Vec::new(),
        etag: String::new(),
        size: 0,
        outcome: None,
        forget_ms: 0,
    };
    store(space, &upload);
    Ok(Ok(Reply::Upload { upload }))
}

fn put_part(now_ms: u64, space: &mut dyn SpaceWrite, mut upload: Upload, part: Part, inline: Option<Bytes>) -> Outcome {
    match upload.state {
        UploadState::Open => {}
        UploadState::Completing => return Ok(Err(completing())),
        UploadState::Completed | UploadState::Aborted => return Ok(Err(no_such_upload())),
    }
    let row = keys::part(upload.upload, part.number);
    let replaced = space.get(&row)?.map(decode_part).transpose()?;
    upload.parts += u32::from(replaced.is_none());
    let before = upload.bytes;
    let bytes = upload.bytes.saturating_sub(replaced.as_ref().map_or(0, |part| part.size));
    upload.bytes = bytes.saturating_add(part.size);
    hold(space, before, upload.bytes)?;
    // A part sent again under the same place needs its data still.
    let replaced =
        replaced.map(|old| old.location).filter(|old| *old != part.location && !planted(Mutant::PartSentAgainLost));
    free(now_ms, space, replaced.iter().cloned().collect())?;
    let at_unix_ms = part.at_unix_ms;
    space.put(row, part.to_bytes());
    match inline {
        Some(inline) => space.put(keys::inline(upload.upload, part.number), inline),
        None => space.delete(keys::inline(upload.upload, part.number)),
    }
    store(space, &upload);
    Ok(Ok(Reply::Part { replaced, at_unix_ms }))
}

fn begin_complete(space: &mut dyn SpaceWrite, mut upload: Upload, names: &[PartName]) -> Outcome {
    match upload.state {
        UploadState::Open => {}
        // Repeated: the parts are chosen, whatever is named now must be the same.
        UploadState::Completing | UploadState::Completed => {
            let same = upload.chosen.iter().copied().eq(names.iter().map(|name| name.number));
            if !same {
                return Ok(Err(if upload.state == UploadState::Completing { completing() } else { no_such_upload() }));
            }
            return completion(space, upload);
        }
        UploadState::Aborted => return Ok(Err(no_such_upload())),
    }
    let mut parts = Vec::with_capacity(names.len());
    for (at, name) in names.iter().enumerate() {
        let part = space.get(&keys::part(upload.upload, name.number))?.map(decode_part).transpose()?;
        let Some(part) = part.filter(|part| etag_matches(&name.etag, &part.etag)) else {
            let message = format!("part {} is not there, or has another ETag than {}", name.number, name.etag);
            return Ok(Err(S3ErrorCode::InvalidPart.because(message)));
        };
        if part.size < PART_BYTES_MIN && at + 1 < names.len() {
            let message = format!(
                "part {} has {} bytes; every part but the last has at least {PART_BYTES_MIN}",
                part.number, part.size
            );
            return Ok(Err(S3ErrorCode::EntityTooSmall.because(message)));
        }
        parts.push(part);
    }
    let size = parts.iter().fold(0u64, |sum, part| sum.saturating_add(part.size));
    if size > OBJECT_BYTES_MAX {
        let message = format!("the object would have {size} bytes; at most {OBJECT_BYTES_MAX} are taken");
        return Ok(Err(S3ErrorCode::EntityTooLarge.because(message)));
    }
    upload.state = UploadState::Completing;
    upload.attempts = upload.attempts.saturating_add(1);
    upload.chosen = parts.iter().map(|part| part.number).collect();
    upload.etag = multipart_etag(parts.iter().map(|part| part.etag.as_str()));
    upload.size = size;
    store(space, &upload);
    completion(space, upload)
}

/// All that the object's put needs.
fn completion(space: &dyn SpaceRead, upload: Upload) -> Outcome {
    let parts = chosen_parts(space, &upload)?;
    let last = parts.last().filter(|part| part.location.is_empty());
    let inline = last.map(|part| space.get(&keys::inline(upload.upload, part.number))).transpose()?.flatten();
    Ok(Ok(Reply::Completion { upload, parts, inline }))
}

/// The chosen parts that are still there: none, once a completed upload is being collected.
fn chosen_parts(space: &dyn SpaceRead, upload: &Upload) -> Result<Vec<Part>, EngineError> {
    let mut parts = Vec::with_capacity(upload.chosen.len());
    for number in &upload.chosen {
        parts.extend(space.get(&keys::part(upload.upload, *number))?.map(decode_part).transpose()?);
    }
    Ok(parts)
}

fn close(
    space: &mut dyn SpaceWrite,
    upload: &mut Upload,
    state: UploadState,
    forget_ms: u64,
) -> Result<(), EngineError> {
    let open = number(space, &[keys::OPEN])?.saturating_sub(1);
    set_number(space, Bytes::from_static(&[keys::OPEN]), open);
    space.delete(keys::by_age(upload.upload));
    space.put(keys::closed(forget_ms, upload.upload), upload.key.clone());
    hold(space, upload.bytes, 0)?;
    upload.state = state;
    upload.forget_ms = forget_ms;
    store(space, upload);
    Ok(())
}

/// Removes what is due. Places of parts that the object does not use are freed; those it uses are not.
fn collect(now_ms: u64, due_ms: u64, space: &mut dyn SpaceWrite, limit: usize) -> Outcome {
    let (due, _) = page(space, &[keys::CLOSED], Some(&keys::closed(due_ms, u64::MAX)), Direction::Forward, 1)?;
    let Some((row, key)) = due.into_iter().next() else {
        return Ok(Ok(Reply::Removed { more: false }));
    };
    let number = crate::rows::key_number(&row, 9)?;
    let Ok(upload) = load(space, &key, number)? else {
        space.delete(row);
        return Ok(Ok(Reply::Removed { more: true }));
    };
    let (start, end) = keys::parts_of(number);
    let (parts, more) = page(space, &start, Some(&end), Direction::Forward, limit)?;
    let mut locations = Vec::new();
    for (part_row, part) in parts {
        let part = decode_part(part)?;
        let used = upload.state == UploadState::Completed && upload.chosen.binary_search(&part.number).is_ok();
        if !used || planted(Mutant::CollectedThoughNamed) {
            locations.push(part.location);
        }
        space.delete(keys::inline(number, part.number));
        space.delete(part_row);
    }
    free(now_ms, space, locations)?;
    if !more {
        space.delete(row);
        space.delete(keys::upload(&key, number));
    }
    Ok(Ok(Reply::Removed { more: true }))
}
