//! The `shard` backend: the objects of a range of a bucket's keys (Hive paper, 2.7), with listings,
//! exact counts, snapshots, and what splits and merges need.
//!
//! Always: a command or query with another epoch, or a key outside of the range, is refused
//! `WrongShard` and changes nothing (mutant `ShardStaleEpochAccepted`); each change and all that follows from it (counts, history, feed,
//! digests) is one batch; the same commands give the same rows on every member (checker `states`).
//! Not here: which shard has which keys (`shard_reference`), object data beyond 64 KiB (a data store),
//! uploads (`multipart`), who may do what (the gateway). Rows: docs/formats/s3-rows.md. Why: decision 0014.

mod command;
mod condition;
pub(crate) mod each;
mod growth;
mod history;
mod index;
mod invariants;
mod keys;
mod list;
mod objects;
mod reshard;
mod state;
#[cfg(test)]
pub(crate) mod tests;
mod work;

pub use crate::contract::NARROW_AFTER_MS;
use crate::invariants::Checked;
pub use command::{
    Bounds, Command, Condition, DeleteStep, DeleteTerms, Deleted, EtagTest, ImportCursor, Item, ListStart, Listing,
    Peer, PinInfo, PutStep, Query, Range, RangeDigest, Reply, ShardInfo, ShardState, Totals, Versioning, CUT_PARTS_MAX,
    DELETE_KEYS_MAX, DELIMITER_BYTES_MAX, FREEZE_MS_MAX, LIST_BYTES_MAX, LIST_ITEMS_MAX, NAMES_MAX, PEERS_MAX,
    PINS_MAX, PIN_MS_MAX, STEP_BYTES_MAX, STEP_ROWS_MAX,
};
pub use growth::{Cut, GrowthInfo, LATE_SPLIT_TIMES, LOAD_WINDOW_MS};

pub use keys::fuzz_keys;

use crate::contract::{decode, ApplyContext, Backend, Known, SpaceRead, SpaceWrite};
use crate::memory::{About, Carried, MemoryAsked, MemoryPage, Part, CARRIED_MAX};
use crate::reply::{encode_reply, is_refusal};
use base_engine::EngineError;
use base_types::codec::{Encode as _, Reader};
use base_types::s3::document::{DOCUMENT_BYTES_MAX, DOCUMENT_FIELDS_MAX};
use base_types::s3::{check_key, decode_parts, field, Document, Version, INLINE_BYTES_MAX};
use base_types::{ErrorCode, Refusal, KEY_BYTES_MAX};
use bytes::Bytes;
use condition::{check_read, Found, Verdict};
use history::AsOf;
use objects::{admit, Outcome};
use state::{wrong_shard, Shard, SERVING};
use work::Work;

/// Whether a row of a key table belongs to a key of the range. A row that belongs to no key passes: the shard that
/// receives it refuses it.
pub(crate) fn row_lies_in(key: &[u8], range: &Range) -> bool {
    keys::closed_of(key).map_or(true, |closed| range.holds(&keys::client_key(closed)))
}

/// The longest name of an owner.
const OWNER_BYTES_MAX: usize = 1024;
/// What a document that is put leaves room for.
const DOCUMENT_ROOM_BYTES: usize = 1024;

/// The backend, as the table has it.
pub(crate) struct Objects;

impl Backend for Objects {
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

    fn apply_once(
        &self,
        at: ApplyContext,
        space: &mut dyn SpaceWrite,
        command: &Bytes,
        known: Known<'_>,
    ) -> Result<Bytes, EngineError> {
        each::apply(at, space, command, known)
    }

    fn about_of(&self, command: &Bytes) -> About {
        about_of(command)
    }

    fn memory_asked(&self, query: &Bytes) -> Option<MemoryAsked> {
        memory_asked(query)
    }

    fn tell_memory(&self, page: MemoryPage) -> Bytes {
        encode_reply(&Ok(Reply::Remembered { page }))
    }

    fn memory_brought(&self, command: &Bytes, reply: &Bytes, keep_ms: u64) -> Vec<Carried> {
        if is_refusal(reply) {
            return Vec::new();
        }
        memory_brought(command, reply, keep_ms)
    }
}

/// Refuses a command that could not be applied, before it reaches the log.
pub fn validate(command: &Bytes) -> Result<(), Refusal> {
    parse(command).map(drop)
}

/// Decodes a command and refuses what could not be applied.
pub(crate) fn parse(command: &Bytes) -> Result<Command, Refusal> {
    let command = decode("shard command", command)?;
    check(&command)?;
    Ok(command)
}

/// Applies a command; the reply is `encode_reply` of a [`Reply`] or refusal.
pub fn apply(at: ApplyContext, space: &mut dyn SpaceWrite, command: &Bytes) -> Result<Bytes, EngineError> {
    let reply = match parse(command) {
        Ok(command) => run(at, space, command)?,
        Err(refusal) => Err(refusal),
    };
    Ok(encode_reply(&reply))
}

/// Answers a query; the reply is `encode_reply` of a [`Reply`] or refusal.
pub fn query(cluster_time_ms: u64, space: &dyn SpaceRead, query: &Bytes) -> Result<Bytes, EngineError> {
    let query: Result<Query, Refusal> = decode("shard query", query).and_then(|query| {
        check_query(&query)?;
        Ok(query)
    });
    let reply = match query {
        Ok(query) => answer(cluster_time_ms, space, query)?,
        Err(refusal) => Err(refusal),
    };
    Ok(encode_reply(&reply))
}

/// What a command is about: clients' commands are about objects, all others about the shard as it stands here. Where one
/// is about several objects, none is named.
fn about_of(command: &Bytes) -> About {
    let known = command.first().filter(|first| command::OF_CLIENTS.contains(first));
    let Some(first) = known else { return Part::WHOLE.into() };
    let key = match *first {
        command::DELETE => match Command::from_bytes(command.clone()) {
            Ok(Command::Delete { step, .. }) => Some(step.key),
            _ => None,
        },
        first if command::KEY_BEHIND_EPOCH.contains(&first) => key_behind_epoch(command),
        _ => None,
    };
    key.filter(|key| !key.is_empty()).map_or(Part::OBJECTS.into(), |key| About::object(&key))
}

/// The key of commands that begin with an epoch and a key, without reading on.
fn key_behind_epoch(command: &Bytes) -> Option<Bytes> {
    let mut input = Reader::new(command.slice(1..));
    input.varint("epoch").ok()?;
    input.bytes("key").ok()
}

/// The memory a query asks for.
fn memory_asked(query: &Bytes) -> Option<MemoryAsked> {
    query.first().filter(|first| **first == command::REMEMBERED)?;
    match decode("shard query", query) {
        Ok(Query::Remembered { after }) => Some(MemoryAsked { part: Part::OBJECTS, after }),
        _ => None,
    }
}

/// The memory a command brings; what it did itself is kept for `keep_ms`.
fn memory_brought(command: &Bytes, reply: &Bytes, keep_ms: u64) -> Vec<Carried> {
    match command.first() {
        Some(&command::REMEMBER) => match decode("shard command", command) {
            Ok(Command::Remember { ids, .. }) => ids,
            _ => Vec::new(),
        },
        Some(&command::DELETE_EACH) => each::remembered(command, reply, keep_ms),
        _ => Vec::new(),
    }
}

fn check(command: &Command) -> Result<(), Refusal> {
    match command {
        Command::Put { step } | Command::PutWithin { step, .. } => {
            check_key(&step.key)?;
            check_document(&step.document)?;
            match &step.inline {
                Some(inline) if inline.len() > INLINE_BYTES_MAX => {
                    Err(too_large("inline data", inline.len(), INLINE_BYTES_MAX))
                }
                _ => Ok(()),
            }
        }
        Command::Delete { terms, step } => {
            check_owner(terms)?;
            check_key(&step.key)
        }
        Command::DeleteMany { terms, steps } => check_deletes(terms, steps),
        Command::DeleteEach { terms, steps, ids } => {
            check_deletes(terms, steps)?;
            if ids.len() == steps.len() {
                return Ok(());
            }
            let message = format!("{} keys to delete have {} request ids; each needs one", steps.len(), ids.len());
            Err(Refusal::new(ErrorCode::CorruptCommand, message))
        }
        Command::Update { key, changes, .. } => {
            check_count("changed fields", changes.len(), DOCUMENT_FIELDS_MAX / 2)?;
            let parts = changes.iter().filter(|(id, _)| *id == field::PARTS);
            parts.filter_map(|(_, parts)| parts.as_ref()).try_for_each(check_parts)?;
            check_key(key)
        }
        Command::Forget { key, .. } => check_key(key),
        Command::Create { range, .. } => check_range(range),
        Command::PrepareImport { range, sources: peers, .. } => {
            check_range(range)?;
            check_peers(peers)
        }
        Command::BeginSplit { targets, .. } => check_peers(targets),
        Command::Import { rows, .. } => check_count("rows of an import", rows.len(), STEP_ROWS_MAX as usize),
        Command::CutOver { digests, .. } => check_count("digests", digests.len(), PEERS_MAX),
        Command::Remember { ids, .. } => check_count("remembered requests", ids.len(), CARRIED_MAX),
        _ => Ok(()),
    }
}

fn check_deletes(terms: &DeleteTerms, steps: &[DeleteStep]) -> Result<(), Refusal> {
    check_owner(terms)?;
    check_count("keys of a delete", steps.len(), DELETE_KEYS_MAX)?;
    steps.iter().try_for_each(|step| check_key(&step.key))
}

/// A marker's document holds it, and a document that could not be read again would stop every member.
fn check_owner(terms: &DeleteTerms) -> Result<(), Refusal> {
    match &terms.owner {
        Some(owner) if owner.len() > OWNER_BYTES_MAX => Err(too_large("the owner", owner.len(), OWNER_BYTES_MAX)),
        _ => Ok(()),
    }
}

fn check_document(document: &Bytes) -> Result<(), Refusal> {
    // The time is added here.
    let most = DOCUMENT_BYTES_MAX - DOCUMENT_ROOM_BYTES;
    if document.len() > most {
        return Err(too_large("the object's document", document.len(), most));
    }
    let decoded: Document = objects::decode_document(document)?;
    decoded.get(field::PARTS).map_or(Ok(()), check_parts)?;
    check_count("fields of a document", decoded.fields().len(), DOCUMENT_FIELDS_MAX / 2)
}

/// The places in it must be found again when the version goes.
fn check_parts(parts: &Bytes) -> Result<(), Refusal> {
    let decoded = decode_parts(parts.clone());
    let message = |error| format!("the parts of the object's document do not decode: {error}");
    decoded.map(|_| ()).map_err(|error| Refusal::new(ErrorCode::CorruptCommand, message(error)))
}

fn check_range(range: &Range) -> Result<(), Refusal> {
    let bounds = [Some(&range.start), range.end.as_ref()];
    bounds.into_iter().flatten().filter(|bound| !bound.is_empty()).try_for_each(|bound| check_bytes("bound", bound))?;
    if range.end.as_ref().is_some_and(|end| *end <= range.start) {
        return Err(Refusal::new(ErrorCode::Malformed, "the range of a shard is empty"));
    }
    Ok(())
}

fn check_peers(peers: &[Peer]) -> Result<(), Refusal> {
    check_count("peers of a shard", peers.len(), PEERS_MAX)?;
    peers.iter().try_for_each(|peer| check_range(&peer.range))
}

fn check_count(what: &str, count: usize, most: usize) -> Result<(), Refusal> {
    if count > most {
        return Err(Refusal::new(ErrorCode::LimitOutOfRange, format!("{count} {what}; at most {most} are taken")));
    }
    Ok(())
}

/// Prefixes, delimiters and bounds: UTF-8 no longer than a key, and possibly empty.
fn check_bytes(what: &str, bytes: &[u8]) -> Result<(), Refusal> {
    if bytes.len() > KEY_BYTES_MAX || std::str::from_utf8(bytes).is_err() {
        let message = format!("the {what} must be UTF-8 of at most {KEY_BYTES_MAX} bytes");
        return Err(Refusal::new(ErrorCode::InvalidField, message));
    }
    Ok(())
}

fn too_large(what: &str, bytes: usize, most: usize) -> Refusal {
    let message = format!("{what} is {bytes} bytes long; at most {most} are taken");
    Refusal::new(ErrorCode::BodyTooLarge, message)
}

fn check_query(query: &Query) -> Result<(), Refusal> {
    match query {
        Query::Get { key, .. } => check_key(key),
        Query::List { listing } | Query::ListVersions { listing } => {
            check_bytes("prefix", &listing.prefix)?;
            check_bytes("delimiter", &listing.delimiter)?;
            match &listing.start {
                ListStart::Beginning => Ok(()),
                ListStart::After { key: from }
                | ListStart::AfterPrefix { prefix: from }
                | ListStart::AfterVersion { key: from, .. } => check_bytes("marker", from),
            }
        }
        Query::Count { prefix, .. } => check_bytes("prefix", prefix),
        Query::CutPoints { parts, .. } | Query::LoadCuts { parts, .. } if *parts == 0 || *parts > CUT_PARTS_MAX => {
            Err(Refusal::new(ErrorCode::LimitOutOfRange, format!("parts is {parts}; give 1 to {CUT_PARTS_MAX}")))
        }
        Query::Export { range, .. } | Query::Feed { range, .. } => check_range(range),
        Query::Names { key, locations, .. } => {
            check_count("places", locations.len(), NAMES_MAX)?;
            check_key(key)
        }
        Query::CutPoints { .. }
        | Query::LoadCuts { .. }
        | Query::Describe
        | Query::Freed { .. }
        | Query::Remembered { .. } => Ok(()),
    }
}

/// Commands that make a shard where there is none.
fn begin(shard: Option<Shard>, command: &Command) -> Result<Shard, Refusal> {
    let made = match command {
        Command::Create { epoch, range } => Some((*epoch, Shard::new(ShardState::Serving, *epoch, range.clone()))),
        Command::PrepareImport { epoch, range, sources } => {
            Some((*epoch, reshard::importing(*epoch, range.clone(), sources.clone())))
        }
        _ => None,
    };
    match (shard, made) {
        (None, Some((_, made))) => Ok(made),
        // Only where all is gone may a later life begin.
        (Some(old), Some((epoch, made))) if old.state == ShardState::Dropped && old.epoch < epoch => {
            Ok(Shard { last_stamp: old.last_stamp, ..made })
        }
        // Repeated: it is there already.
        (Some(old), Some((epoch, made))) if old.epoch == epoch && old.range == made.range => Ok(old),
        (Some(old), None) => Ok(old),
        (None, None) => Err(wrong_shard(0, None)),
        (Some(old), Some((epoch, _))) => Err(wrong_shard(epoch, Some(&old))),
    }
}

/// How the record of a shard begins that serves and is not being split ([`ShardState`]).
const SERVING_BYTE: u8 = 1;

/// Refuses a client's write to a shard that is frozen or has given its keys up. While a split is cut over, hundreds of writes
/// a moment are retried, and each would take an entry of the log to be refused.
pub(crate) fn precheck(space: &dyn SpaceRead, now_ms: u64, command: &Command) -> Result<Option<Refusal>, EngineError> {
    let Some(row) = space.get(&[keys::STATE])? else { return Ok(None) };
    if row.first() == Some(&SERVING_BYTE) {
        return Ok(None);
    }
    let shard = Shard::decode_row(row)?;
    if shard.takes_writes(now_ms) {
        return Ok(None);
    }
    let written = |epoch: u64, keys: &mut dyn Iterator<Item = &Bytes>| shard.admits_write(epoch, now_ms, keys).err();
    Ok(match command {
        Command::Put { step } | Command::PutWithin { step, .. } => written(step.epoch, &mut [&step.key].into_iter()),
        Command::Delete { terms, step } => written(terms.epoch, &mut [&step.key].into_iter()),
        Command::DeleteMany { terms, steps } | Command::DeleteEach { terms, steps, .. } => {
            written(terms.epoch, &mut steps.iter().map(|step| &step.key))
        }
        Command::Update { epoch, key, .. } => written(*epoch, &mut [key].into_iter()),
        _ => None,
    })
}

fn run(at: ApplyContext, space: &mut dyn SpaceWrite, command: Command) -> Outcome<Reply> {
    let shard = admit!(begin(Shard::load(space)?, &command));
    let mut work = Work::new(space, shard, at);
    let reply = carry_out(&mut work, command)?;
    // A refusal has written nothing; only a broken freeze may have been found out on the way.
    if reply.is_ok() {
        work.finish()?;
    }
    Ok(reply)
}

fn carry_out(work: &mut Work<'_>, command: Command) -> Outcome<Reply> {
    let now = work.at.cluster_time_ms;
    let frees = |command: &Command| {
        use Command::{Delete, DeleteEach, DeleteMany, Put, PutWithin};
        matches!(command, Put { .. } | PutWithin { .. } | Delete { .. } | DeleteMany { .. } | DeleteEach { .. })
    };
    if frees(&command) {
        admit!(crate::freed::admit(work.shard.freed_rows));
    }
    match command {
        Command::Put { step } => put(work, step, &Bounds::default()),
        Command::PutWithin { step, bounds } => put(work, step, &bounds),
        Command::Delete { terms, step } => {
            admit!(work.shard.admit_write(terms.epoch, now, [&step.key].into_iter()));
            work.note(&step.key, false);
            Ok(objects::delete(work, &terms, &step)?.map(|deleted| Reply::Deleted { deleted }))
        }
        Command::DeleteMany { terms, steps } | Command::DeleteEach { terms, steps, .. } => {
            admit!(work.shard.admit_write(terms.epoch, now, steps.iter().map(|step| &step.key)));
            steps.iter().for_each(|step| work.note(&step.key, false));
            let outcomes: Result<_, EngineError> =
                steps.iter().map(|step| objects::delete(work, &terms, step)).collect();
            Ok(Ok(Reply::DeletedMany { outcomes: outcomes? }))
        }
        Command::Update { epoch, key, version, changes, at_unix_ms, bypass_governance, condition } => {
            admit!(work.shard.admit_write(epoch, now, [&key].into_iter()));
            work.note(&key, false);
            objects::update(work, objects::Update { key, version, changes, at_unix_ms, bypass_governance, condition })
        }
        Command::Forget { epoch, key, token } => {
            admit!(work.shard.admit_write(epoch, now, [&key].into_iter()));
            let row = keys::of_once(&crate::s3_key::close(&key), token);
            work.delete(row, work::Before::Unread)?;
            Ok(Ok(Reply::Done))
        }
        other => reshape(work, other),
    }
}

fn put(work: &mut Work<'_>, step: PutStep, bounds: &Bounds) -> Outcome<Reply> {
    admit!(work.shard.admit_write(step.epoch, work.at.cluster_time_ms, [&step.key].into_iter()));
    work.note(&step.key, true);
    objects::put(work, step, bounds)
}

/// Commands of flows.
fn reshape(work: &mut Work<'_>, command: Command) -> Outcome<Reply> {
    match command {
        Command::Import { epoch, source, expected, cursor, rows } => {
            admit!(work.shard.check(epoch, &[ShardState::Importing]));
            reshard::import(work, usize::from(source), &expected, cursor, rows)
        }
        Command::Activate { epoch, stamp_floor } => reshard::activate(work, epoch, stamp_floor),
        Command::BeginSplit { epoch, targets } => reshard::begin_split(work, epoch, targets),
        Command::AbortSplit { epoch } => reshard::abort_split(work, epoch),
        Command::Digest { epoch, limit } => reshard::digest(work, epoch, limit),
        Command::Freeze { epoch, lease_ms } => reshard::freeze(work, epoch, lease_ms),
        Command::Unfreeze { epoch } => reshard::unfreeze(work, epoch),
        Command::CutOver { epoch, feed, digests } => reshard::cut_over(work, epoch, feed, &digests),
        Command::Narrow { epoch, next } => reshard::narrow(work, epoch, next),
        Command::Drop { epoch, limit, force } => reshard::drop_rows(work, epoch, limit, force),
        Command::PinPrepare { epoch, pin, freeze_ms, keep_ms } => {
            reshard::pin_prepare(work, epoch, pin, freeze_ms, keep_ms)
        }
        Command::PinCommit { pin } => reshard::pin_commit(work, pin),
        Command::Unpin { pin } => reshard::unpin(work, pin),
        Command::Close { epoch } => reshard::close(work, epoch),
        Command::Reopen { epoch } => reshard::reopen(work, epoch),
        Command::ForgetFreed { until } => reshard::forget_freed(work, until),
        Command::Sweep { limit } => {
            let more = work.sweep(limit as usize)?;
            Ok(Ok(Reply::Dropped { more }))
        }
        // The cluster takes the ids. Here we only check that the shard may still receive any.
        Command::Remember { epoch, .. } => {
            admit!(work.shard.check(epoch, &[ShardState::Importing]));
            Ok(Ok(Reply::Shard { info: work.shard.info(work.at.cluster_time_ms, work.space.keep()) }))
        }
        _ => Ok(Ok(Reply::Shard { info: work.shard.info(work.at.cluster_time_ms, work.space.keep()) })),
    }
}

fn answer(now_ms: u64, space: &dyn SpaceRead, query: Query) -> Outcome<Reply> {
    let Some(shard) = Shard::load(space)? else { return Ok(Err(wrong_shard(0, None))) };
    match query {
        Query::Get { epoch, key, version, inline, condition } => {
            admit!(shard.admit_read(epoch, &key));
            get(space, &shard, &key, version, inline, &condition)
        }
        Query::List { listing } => list_at(now_ms, space, &shard, &listing, false),
        Query::ListVersions { listing } => list_at(now_ms, space, &shard, &listing, true),
        Query::Count { epoch, prefix, pin } => count_at(now_ms, space, &shard, epoch, &prefix, pin),
        Query::CutPoints { epoch, parts, by_rows } => {
            admit!(shard.check(epoch, SERVING));
            Ok(Ok(Reply::CutPoints { keys: cut_points(space, &shard, parts, by_rows)? }))
        }
        Query::LoadCuts { epoch, parts } => {
            admit!(shard.check(epoch, SERVING));
            let (rows, _) = crate::rows::page(
                space,
                &[keys::SAMPLE],
                Some(&[keys::SAMPLE + 1]),
                base_engine::Direction::Forward,
                growth::SAMPLES_MAX as usize,
            )?;
            let samples = rows.into_iter().map(|(_, key)| key).collect();
            Ok(Ok(Reply::CutPoints { keys: growth::load_cuts(samples, &shard.range, parts) }))
        }
        Query::Describe => Ok(Ok(Reply::Shard { info: shard.info(now_ms, space.keep()) })),
        Query::Export { epoch, range, after, bytes_max } => {
            admit!(shard.check(epoch, &[ShardState::Splitting]));
            let bytes_max = (bytes_max as usize).clamp(1, STEP_BYTES_MAX);
            let (rows, more) = reshard::key_rows(space, &range, &after, STEP_ROWS_MAX as usize, bytes_max)?;
            Ok(Ok(Reply::Rows { rows, more }))
        }
        Query::Freed { after, limit, aged_ms } => {
            let (rows, more) =
                crate::freed::list(space, shard.freed_queue(), after, limit, now_ms.checked_sub(aged_ms))?;
            Ok(Ok(Reply::Freed { rows, more }))
        }
        Query::Names { epoch, key, after, locations } => {
            admit!(shard.admit_read(epoch, &key));
            Ok(Ok(objects::names(space, &key, after, &locations)?))
        }
        Query::Remembered { .. } => {
            let message = "the cluster answers which request ids it remembers, not its shard";
            Ok(Err(Refusal::new(ErrorCode::Internal, message)))
        }
        Query::Feed { epoch, range, after, limit } => {
            admit!(shard.check(epoch, &[ShardState::Splitting]));
            Ok(Ok(reshard::feed(space, &range, after, limit, shard.feed)?))
        }
    }
}

/// The snapshot meant; a shard that is retired still answers for it.
fn pinned(now_ms: u64, shard: &Shard, epoch: u64, pin: u128) -> Result<(&state::Pin, Range), Refusal> {
    let Some(held) = shard.pins.iter().find(|held| held.pin == pin && held.stands() && held.expires_ms > now_ms) else {
        return Err(if shard.epoch == epoch { reshard::snapshot_expired() } else { wrong_shard(epoch, Some(shard)) });
    };
    match held.scope(shard.epoch, &shard.range) {
        (of, range) if of == epoch => Ok((held, range)),
        _ => Err(wrong_shard(epoch, Some(shard))),
    }
}

fn list_at(now_ms: u64, space: &dyn SpaceRead, shard: &Shard, listing: &Listing, versions: bool) -> Outcome<Reply> {
    let Some(pin) = listing.pin else {
        admit!(shard.check(listing.epoch, SERVING));
        return Ok(Ok(list::list(space, &shard.range, listing, versions)?));
    };
    let (pin, range) = admit!(pinned(now_ms, shard, listing.epoch, pin));
    let past = AsOf { space, ordinal: pin.ordinal };
    Ok(Ok(list::list(&past, &range, listing, versions)?))
}

fn count_at(
    now_ms: u64,
    space: &dyn SpaceRead,
    shard: &Shard,
    epoch: u64,
    prefix: &[u8],
    pin: Option<u128>,
) -> Outcome<Reply> {
    let Some(pin) = pin else {
        admit!(shard.check(epoch, SERVING));
        return Ok(Ok(Reply::Count { totals: index::count(space, shard.height, &shard.totals, prefix)? }));
    };
    let (pin, _) = admit!(pinned(now_ms, shard, epoch, pin));
    let past = AsOf { space, ordinal: pin.ordinal };
    Ok(Ok(Reply::Count { totals: index::count(&past, pin.height, &pin.totals, prefix)? }))
}

/// The keys that begin parts 2… of even size; fewer where there are not enough keys.
fn cut_points(space: &dyn SpaceRead, shard: &Shard, parts: u32, by_rows: bool) -> Result<Vec<Bytes>, EngineError> {
    let all = if by_rows { shard.totals.rows() } else { shard.totals.keys };
    let mut keys: Vec<Bytes> = Vec::new();
    for part in 1..u64::from(parts) {
        let rank = (u128::from(all) * u128::from(part) / u128::from(parts)) as u64;
        if rank == 0 || rank >= all {
            continue;
        }
        let key = index::key_at(space, shard.height, rank, by_rows)?;
        keys.extend(key.filter(|key| *key > shard.range.start && keys.last() != Some(key)));
    }
    Ok(keys)
}

fn get(
    space: &dyn SpaceRead,
    shard: &Shard,
    key: &[u8],
    version: Version,
    inline: bool,
    condition: &Condition,
) -> Outcome<Reply> {
    let key = objects::Key::load(space, shard.versioned, key)?;
    let found = admit!(objects::select(space, &key, version)?);
    let (stamp, null, document) = (found.stamp, found.is_null(), found.document());
    if found.is_marker() {
        return Ok(Ok(Reply::Marker { stamp, null, latest: version == Version::Current, document }));
    }
    if !condition.is_none() && admit!(check_read(condition, &Found::of(&document))) == Verdict::NotModified {
        return Ok(Ok(Reply::NotModified { stamp, null, document }));
    }
    let latest = key.current.as_ref().is_some_and(|current| current.stamp == stamp);
    let inline = match inline && found.flags & keys::FLAG_INLINE != 0 {
        true => space.get(&keys::of_version(keys::DATA, &key.closed, stamp))?,
        false => None,
    };
    Ok(Ok(Reply::Object { stamp, null, latest, document, inline }))
}
