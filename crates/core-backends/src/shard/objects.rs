//! Versions put, deleted and changed, as S3 has it.
//!
//! Always: at most one of a key's versions is null. The current row exactly exists while the newest version is an
//! object, and describes that version. A null row exactly exists while the null version is another one (model in
//! `tests/`; mutant `MarkerHidesWrongVersion`). A refused command has written nothing.
//! Not here: epochs and ranges (`state.rs`), what follows a changed row (`work.rs`).

use super::command::{
    Bounds, DeleteStep, DeleteTerms, Deleted, PutStep, Reply, Totals, Versioning, NAMES_VERSIONS_MAX,
};
use super::condition::{check_write, Found};
use super::keys::{
    self, Current, CURRENT, DATA, FLAG_INLINE, FLAG_LOCK, FLAG_MARKER, FLAG_NULL, FLAG_PLACELESS, NULL, VERSION,
};
use super::work::{Before, Work};
use crate::contract::{corrupt_row, SpaceRead};
use crate::rows::{page, successor};
use crate::s3_key::close;
use base_engine::{Direction, EngineError, KeyRange};
use base_types::codec::Encode;
use base_types::mutant::{planted, Mutant};
use base_types::s3::document::{list_fields_bytes, DOCUMENT_BYTES_MAX, DOCUMENT_FIELDS_MAX};
use base_types::s3::S3ErrorCode;
use base_types::s3::{field, locations_of, Document, Version, VersionStamp};
use base_types::{ErrorCode, Refusal};
use bytes::Bytes;
use core::ops::ControlFlow;

/// A refusal is a reply; an engine's error stops the replica.
pub(super) type Outcome<T> = Result<Result<T, Refusal>, EngineError>;

/// Gives a refusal back as the reply.
macro_rules! admit {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(refusal) => return Ok(Err(refusal)),
        }
    };
}
pub(super) use admit;

/// A stamp is Unix milliseconds and a count of so many bits.
const STAMP_COUNT_BITS: u32 = 16;

/// A key as it stands.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub closed: Vec<u8>,
    /// The current row.
    current_row: Option<Bytes>,
    /// The newest version where it is an object.
    pub current: Option<Current>,
    /// The null row.
    null_row: Option<Bytes>,
    /// The null version.
    pub null: Option<VersionStamp>,
}

/// A version row.
#[derive(Clone, Debug)]
pub(super) struct VersionRow {
    pub stamp: VersionStamp,
    pub flags: u8,
    pub row: Bytes,
}

impl VersionRow {
    pub fn document(&self) -> Bytes {
        self.row.slice(1..)
    }
    pub fn is_marker(&self) -> bool {
        self.flags & FLAG_MARKER != 0
    }
    pub fn is_null(&self) -> bool {
        self.flags & FLAG_NULL != 0
    }
}

impl Key {
    /// Reads it. `versioned`: some key of the shard may have more than a current null version.
    pub fn load(space: &dyn SpaceRead, versioned: bool, key: &[u8]) -> Result<Key, EngineError> {
        let closed = close(key);
        let current_row = space.get(&keys::of_key(CURRENT, &closed))?;
        let current = current_row.clone().map(Current::decode).transpose()?;
        let current_null = current.as_ref().filter(|current| current.is_null()).map(|current| current.stamp);
        let look = versioned && current_null.is_none();
        let null_row = if look { space.get(&keys::of_key(NULL, &closed))? } else { None };
        let null = match &null_row {
            Some(row) => Some(decode_stamp(row)?),
            None => current_null,
        };
        Ok(Key { closed, current_row, current, null_row, null })
    }

    pub fn version(&self, space: &dyn SpaceRead, stamp: VersionStamp) -> Result<Option<VersionRow>, EngineError> {
        match space.get(&keys::of_version(VERSION, &self.closed, stamp))? {
            Some(row) => Ok(Some(VersionRow { stamp, flags: keys::flags_of(&row)?, row })),
            None => Ok(None),
        }
    }

    /// The newest version, marker or not: one seek.
    pub fn newest(&self, space: &dyn SpaceRead) -> Result<Option<VersionRow>, EngineError> {
        let (start, end) = keys::versions_of(VERSION, &self.closed);
        let mut found = None;
        space.range(KeyRange { start: &start, end: Some(&end) }, Direction::Forward, &mut |key, row| {
            found = Some((Bytes::copy_from_slice(key), Bytes::copy_from_slice(row)));
            ControlFlow::Break(())
        })?;
        let Some((key, row)) = found else { return Ok(None) };
        let stamp = keys::stamp_of(&key, self.closed.len())?;
        Ok(Some(VersionRow { stamp, flags: keys::flags_of(&row)?, row }))
    }

    /// Brings current and null row in line with what the versions now are.
    fn settle(
        &self,
        work: &mut Work<'_>,
        current: Option<Current>,
        null: Option<VersionStamp>,
    ) -> Result<(), EngineError> {
        let told = current.as_ref().is_some_and(Current::is_null);
        set_row(work, keys::of_key(CURRENT, &self.closed), &self.current_row, current.map(|current| current.encode()))?;
        let null = null.filter(|_| !told).map(|stamp| Bytes::copy_from_slice(&stamp.0.to_be_bytes()));
        set_row(work, keys::of_key(NULL, &self.closed), &self.null_row, null)
    }

    fn found(&self) -> Option<Found> {
        self.current.as_ref().map(|current| Found::of(&current.fields))
    }
}

fn decode_stamp(row: &Bytes) -> Result<VersionStamp, EngineError> {
    let stamp = row.as_ref().try_into().map(|bytes| VersionStamp(u64::from_be_bytes(bytes)));
    stamp.map_err(|_| EngineError::Corrupt(format!("a stamp's row is {} bytes long; expected 8", row.len())))
}

fn set_row(work: &mut Work<'_>, key: Bytes, before: &Option<Bytes>, after: Option<Bytes>) -> Result<(), EngineError> {
    let was = before.clone().map_or(Before::Absent, Before::Was);
    match after {
        Some(after) if before.as_ref() == Some(&after) => Ok(()),
        Some(after) => work.put(key, after, was),
        None if before.is_some() => work.delete(key, was),
        None => Ok(()),
    }
}

/// The current row of a version.
fn current_of(stamp: VersionStamp, flags: u8, document: &Bytes) -> Current {
    Current { flags, stamp, fields: document.slice(..list_fields_bytes(document)) }
}

/// The next stamp: the caller's clock where it is ahead, else one more than the last. Order within a
/// bucket hangs on the last stamp alone, which a split or merge takes along.
fn next_stamp(work: &mut Work<'_>, at_unix_ms: u64) -> VersionStamp {
    let clock = at_unix_ms.min(u64::MAX >> (STAMP_COUNT_BITS + 1)) << STAMP_COUNT_BITS;
    work.shard.last_stamp = clock.max(work.shard.last_stamp.saturating_add(1));
    VersionStamp(work.shard.last_stamp)
}

/// The flags that a document alone decides.
fn document_flags(document: &Document) -> u8 {
    let locked = document.get(field::LOCK_MODE).is_some() || document.get(field::LEGAL_HOLD).is_some();
    let placeless = document.get(field::LOCATION).is_none() && document.get(field::PARTS).is_none();
    let flag = |is: bool, flag| if is { flag } else { 0 };
    flag(locked, FLAG_LOCK) | flag(placeless, FLAG_PLACELESS)
}

/// Begins the row of a token whose put was refused; no stamp begins so.
const REFUSED: u8 = 0xff;
/// The row of one whose put was carried out: stamp, whether it is null, time.
const ONCE_BYTES: usize = 17;

/// `Put`. Under a token the outcome is kept, be it a refusal: who puts again later, with the same conditions or
/// others, hears the same, so an upload may be opened again without a late put of it coming to pass.
pub(super) fn put(work: &mut Work<'_>, step: PutStep, bounds: &Bounds) -> Outcome<Reply> {
    let Some(token) = step.once else { return put_now(work, step, bounds) };
    let once = keys::of_once(&close(&step.key), token);
    if let Some(row) = work.space.get(&once)? {
        return decode_once(&row).map(Ok);
    }
    let reply = put_now(work, step, bounds)?;
    match reply {
        Ok(Reply::Put { stamp, null, modified_ms }) => {
            let row = [&stamp.0.to_be_bytes()[..], &[u8::from(null)], &modified_ms.to_be_bytes()].concat();
            work.put(once, row.into(), Before::Absent)?;
        }
        Err(refusal) if !refusal.kind().retryable() => {
            let row = [&[REFUSED][..], &refusal.to_bytes()].concat();
            work.put(once, row.into(), Before::Absent)?;
            return Ok(Ok(Reply::PutRefused { refusal }));
        }
        _ => {}
    }
    Ok(reply)
}

/// What came of a put under a token.
pub(super) fn decode_once(row: &Bytes) -> Result<Reply, EngineError> {
    if row.first() == Some(&REFUSED) {
        let refusal = Refusal::from_bytes(row.slice(1..)).map_err(|error| corrupt_row("a token's refusal", error))?;
        return Ok(Reply::PutRefused { refusal });
    }
    if row.len() != ONCE_BYTES {
        return Err(EngineError::Corrupt(format!("a token's row is {} bytes long; expected {ONCE_BYTES}", row.len())));
    }
    let stamp = decode_stamp(&row.slice(..8))?;
    Ok(Reply::Put { stamp, null: row[8] == 1, modified_ms: decode_stamp(&row.slice(9..))?.0 })
}

fn put_now(work: &mut Work<'_>, step: PutStep, bounds: &Bounds) -> Outcome<Reply> {
    let key = Key::load(work.space, work.shard.versioned, &step.key)?;
    // A sweep of the data store may have taken the bytes by then.
    if step.data_expires_ms.is_some_and(|expires_ms| step.at_unix_ms > expires_ms) {
        let message = "the object's bytes took too long to arrive and may have been collected; send them again";
        return Ok(Err(S3ErrorCode::RequestTimeout.because(message)));
    }
    admit!(check_write(&step.condition, key.found().as_ref(), &step.key));
    let mut document = admit!(decode_document(&step.document));
    admit!(check_bounds(work, bounds, &key, document.number(field::SIZE).unwrap_or(0)));
    document.set_number(field::MODIFIED, step.at_unix_ms);
    let null = step.versioning != Versioning::Enabled;
    let mut flags = document_flags(&document);
    flags |= if null { FLAG_NULL } else { 0 } | if step.inline.is_some() { FLAG_INLINE } else { 0 };
    if null {
        admit!(check_null_free(work.space, &key, step.at_unix_ms)?);
    }
    work.shard.versioned |= step.versioning != Versioning::Unversioned;
    let stamp = put_version(work, &key, step.at_unix_ms, flags, document.encode(), step.inline)?;
    Ok(Ok(Reply::Put { stamp, null, modified_ms: step.at_unix_ms }))
}

/// A put is refused by which the shard would hold more than it may. Counted is what it holds at this very command, so
/// of any number of puts at one time none passes; what is put over something counts as if that stayed.
fn check_bounds(work: &Work<'_>, bounds: &Bounds, key: &Key, size: u64) -> Result<(), Refusal> {
    let (held, makes_key) = (&work.shard.totals, key.current.is_none());
    let too_many = bounds.keys_max.filter(|max| makes_key && held.keys >= *max);
    if too_many.is_some() && !planted(Mutant::QuotaPassedAtOnce) {
        let message = "the bucket has as many keys as its quota allows; delete some, or raise it";
        return Err(S3ErrorCode::QuotaExceeded.because(message));
    }
    if bounds.bytes_max.is_some_and(|max| held.bytes.saturating_add(size) > max) {
        let message =
            "the bucket and its open uploads hold as much as its quota allows; delete or abort some, or raise it";
        return Err(S3ErrorCode::QuotaExceeded.because(message));
    }
    Ok(())
}

pub(super) fn decode_document(bytes: &Bytes) -> Result<Document, Refusal> {
    Document::decode(bytes.clone()).map_err(|error| {
        Refusal::new(ErrorCode::CorruptCommand, format!("the object's document does not decode: {error}"))
    })
}

/// A null version is about to be put over the one there is, which must not be locked.
fn check_null_free(space: &dyn SpaceRead, key: &Key, now_ms: u64) -> Outcome<()> {
    let Some(stamp) = key.null else { return Ok(Ok(())) };
    if key.current.as_ref().is_some_and(|current| current.stamp == stamp && current.flags & FLAG_LOCK == 0) {
        return Ok(Ok(()));
    }
    match key.version(space, stamp)? {
        Some(version) => check_unlocked(&version, now_ms, false),
        None => Ok(Ok(())),
    }
}

/// Puts an object's version in front; a null one in the place of the null version there is.
fn put_version(
    work: &mut Work<'_>,
    key: &Key,
    at_unix_ms: u64,
    flags: u8,
    document: Bytes,
    inline: Option<Bytes>,
) -> Result<VersionStamp, EngineError> {
    let null = flags & FLAG_NULL != 0;
    let in_place = key.current.as_ref().filter(|current| null && current.is_null());
    let (stamp, before, had_inline) = match in_place {
        // The null version is the newest already: its row is written over, no row comes or goes.
        Some(current) => {
            let before = written_over(work, key, current, &document)?;
            (current.stamp, before, current.flags & FLAG_INLINE != 0)
        }
        None => {
            if let Some(stamp) = key.null.filter(|_| null) {
                remove_rows(work, key, stamp, Some(&document))?;
            }
            (next_stamp(work, at_unix_ms), Before::Absent, false)
        }
    };
    match inline {
        Some(inline) => {
            let before = if had_inline { UNCOUNTED } else { Before::Absent };
            work.put(keys::of_version(DATA, &key.closed, stamp), inline, before)?;
        }
        None if had_inline => work.delete(keys::of_version(DATA, &key.closed, stamp), UNCOUNTED)?,
        None => {}
    }
    let row = keys::version_row(flags, &document);
    work.put(keys::of_version(VERSION, &key.closed, stamp), row, before)?;
    let null_now = if null { Some(stamp) } else { key.null };
    key.settle(work, Some(current_of(stamp, flags, &document)), null_now)?;
    Ok(stamp)
}

/// A row that exists and that no count includes: inline data, where the flags say so.
const UNCOUNTED: Before = Before::Counted(Totals { keys: 0, versions: 0, markers: 0, bytes: 0, current_bytes: 0 });

/// The current version's row before `document` overwrites it. The current row holds what that version counts and
/// whether it names bytes of a data store, so the version's row is mostly not read.
fn written_over(work: &mut Work<'_>, key: &Key, current: &Current, document: &Bytes) -> Result<Before, EngineError> {
    if current.flags & FLAG_PLACELESS != 0 {
        return Ok(Before::Counted(current.version_weight()));
    }
    let before = work.space.get(&keys::of_version(VERSION, &key.closed, current.stamp))?;
    if let Some(before) = before.as_ref().filter(|before| !before.is_empty()) {
        work.free(&before.slice(1..), Some(document))?;
    }
    Ok(before.map_or(Before::Absent, Before::Was))
}

/// Removes a version's rows, and nothing else. `after`: the document that comes in its place.
fn remove_rows(work: &mut Work<'_>, key: &Key, stamp: VersionStamp, after: Option<&Bytes>) -> Result<(), EngineError> {
    let version = keys::of_version(VERSION, &key.closed, stamp);
    let Some(row) = work.space.get(&version)? else { return Ok(()) };
    if keys::flags_of(&row)? & FLAG_INLINE != 0 {
        work.delete(keys::of_version(DATA, &key.closed, stamp), UNCOUNTED)?;
    }
    work.free(&row.slice(1..), after)?;
    work.delete(version, Before::Was(row))
}

/// `Delete`.
pub(super) fn delete(work: &mut Work<'_>, terms: &DeleteTerms, step: &DeleteStep) -> Outcome<Deleted> {
    let key = Key::load(work.space, work.shard.versioned, &step.key)?;
    admit!(check_write(&step.condition, key.found().as_ref(), &step.key));
    let stamp = match step.version {
        Version::Current if terms.versioning == Versioning::Enabled => {
            return Ok(Ok(put_marker(work, &key, terms, false)?));
        }
        Version::Current if terms.versioning == Versioning::Suspended => {
            admit!(check_null_free(work.space, &key, terms.at_unix_ms)?);
            return Ok(Ok(put_marker(work, &key, terms, true)?));
        }
        Version::Current | Version::Null => key.null,
        Version::Stamp(stamp) => Some(stamp),
    };
    let version = stamp.map(|stamp| key.version(work.space, stamp)).transpose()?.flatten();
    let named_null = matches!(step.version, Version::Stamp(_));
    let Some(version) = version.filter(|version| !(named_null && version.is_null())) else {
        return Ok(Ok(Deleted::Nothing));
    };
    if terms.mfa_missing && step.version != Version::Current {
        let message = "removing a version of this bucket needs a second factor (MFA); give one";
        return Ok(Err(S3ErrorCode::AccessDenied.because(message)));
    }
    admit!(check_unlocked(&version, terms.at_unix_ms, terms.bypass_governance)?);
    remove_version(work, &key, &version)?;
    Ok(Ok(Deleted::Removed { stamp: version.stamp, null: version.is_null(), marker: version.is_marker() }))
}

fn put_marker(work: &mut Work<'_>, key: &Key, terms: &DeleteTerms, null: bool) -> Result<Deleted, EngineError> {
    work.shard.versioned = true;
    if let Some(stamp) = key.null.filter(|_| null) {
        remove_rows(work, key, stamp, None)?;
    }
    let stamp = next_stamp(work, terms.at_unix_ms);
    let mut document = Document::new();
    document.set_number(field::MODIFIED, terms.at_unix_ms).set(field::OWNER, terms.owner.clone());
    let flags = FLAG_MARKER | if null { FLAG_NULL } else { 0 };
    let row = keys::version_row(flags, &document.encode());
    work.put(keys::of_version(VERSION, &key.closed, stamp), row, Before::Absent)?;
    key.settle(work, None, if null { Some(stamp) } else { key.null })?;
    Ok(Deleted::Marked { stamp, null })
}

/// Removes a version; where it was the newest, the next one takes its place.
fn remove_version(work: &mut Work<'_>, key: &Key, version: &VersionRow) -> Result<(), EngineError> {
    remove_rows(work, key, version.stamp, None)?;
    let null = key.null.filter(|stamp| *stamp != version.stamp);
    let was_current = key.current.as_ref().is_some_and(|current| current.stamp == version.stamp);
    let current = match &key.current {
        Some(current) if !was_current => Some(current.clone()),
        _ if planted(Mutant::MarkerHidesWrongVersion) && version.is_marker() => None,
        // A shard that never had versions has none to bring forward.
        _ if !work.shard.versioned => None,
        _ => {
            let newest = key.newest(work.space)?.filter(|newest| !newest.is_marker());
            newest.map(|newest| current_of(newest.stamp, newest.flags, &newest.document()))
        }
    };
    key.settle(work, current, null)
}

/// Refuses where a legal hold or a retention keeps a version.
fn check_unlocked(version: &VersionRow, now_ms: u64, bypass_governance: bool) -> Outcome<()> {
    if version.flags & FLAG_LOCK == 0 {
        return Ok(Ok(()));
    }
    let document = Document::decode(version.document()).map_err(|error| corrupt_row("a version's document", error))?;
    let retained = document.number(field::LOCK_UNTIL).is_some_and(|until| until > now_ms);
    let governance = document.text(field::LOCK_MODE) == Some("GOVERNANCE");
    let why = if document.text(field::LEGAL_HOLD) == Some("ON") {
        "it is under a legal hold; lift that first"
    } else if retained && !governance {
        "it is retained in compliance mode; wait until that ends"
    } else if retained && !bypass_governance {
        "it is retained in governance mode; wait until that ends, or bypass it if you may"
    } else {
        return Ok(Ok(()));
    };
    Ok(Err(S3ErrorCode::AccessDenied.because(format!("the version is locked: {why}"))))
}

/// What `Update` carries.
pub(super) struct Update {
    pub key: Bytes,
    pub version: Version,
    pub changes: Vec<(u16, Option<Bytes>)>,
    pub at_unix_ms: u64,
    pub bypass_governance: bool,
    pub condition: super::command::Condition,
}

/// `Update`.
pub(super) fn update(work: &mut Work<'_>, update: Update) -> Outcome<Reply> {
    let key = Key::load(work.space, work.shard.versioned, &update.key)?;
    let version = admit!(select(work.space, &key, update.version)?);
    if version.is_marker() {
        return Ok(Err(method_not_allowed()));
    }
    admit!(check_write(&update.condition, Some(&Found::of(&version.document())), &update.key));
    let mut document =
        Document::decode(version.document()).map_err(|error| corrupt_row("a version's document", error))?;
    let before = document.clone();
    for (id, value) in update.changes {
        document.set(id, value);
    }
    admit!(check_retention(&before, &document, update.at_unix_ms, update.bypass_governance));
    let flags = version.flags & !(FLAG_LOCK | FLAG_PLACELESS) | document_flags(&document);
    let encoded = document.encode();
    if encoded.len() > DOCUMENT_BYTES_MAX || document.fields().len() > DOCUMENT_FIELDS_MAX {
        let message =
            format!("the object's document would have {} bytes and {} fields", encoded.len(), document.fields().len());
        return Ok(Err(S3ErrorCode::MetadataTooLarge.because(message)));
    }
    work.free(&version.document(), Some(&encoded))?;
    let row = keys::version_row(flags, &encoded);
    work.put(keys::of_version(VERSION, &key.closed, version.stamp), row, Before::Was(version.row.clone()))?;
    if key.current.as_ref().is_some_and(|current| current.stamp == version.stamp) {
        key.settle(work, Some(current_of(version.stamp, flags, &encoded)), key.null)?;
    }
    Ok(Ok(Reply::Updated { stamp: version.stamp, null: version.is_null() }))
}

/// Retention may be made longer; shorter or other only once it is over, or in governance mode with leave.
fn check_retention(before: &Document, after: &Document, now_ms: u64, bypass: bool) -> Result<(), Refusal> {
    let until = |document: &Document| document.number(field::LOCK_UNTIL).unwrap_or(0);
    let same_mode = before.text(field::LOCK_MODE) == after.text(field::LOCK_MODE);
    let over = until(before) <= now_ms || before.get(field::LOCK_MODE).is_none();
    let governance = before.text(field::LOCK_MODE) == Some("GOVERNANCE");
    if over || (same_mode && until(after) >= until(before)) || (governance && bypass) {
        return Ok(());
    }
    let stricter = governance && after.text(field::LOCK_MODE) == Some("COMPLIANCE") && until(after) >= until(before);
    if stricter {
        return Ok(());
    }
    let message = "the version's retention may not be shortened; wait until it ends, or bypass governance mode";
    Err(S3ErrorCode::AccessDenied.because(message))
}

pub(super) fn method_not_allowed() -> Refusal {
    let message = "the version is a delete marker, which has no attributes; name an object's version";
    S3ErrorCode::MethodNotAllowed.because(message)
}

/// The version meant, a marker or not; a refusal where there is none.
pub(super) fn select(space: &dyn SpaceRead, key: &Key, version: Version) -> Outcome<VersionRow> {
    let found = match version {
        Version::Current => match &key.current {
            Some(current) => key.version(space, current.stamp)?,
            None => key.newest(space)?,
        },
        Version::Null => key.null.map(|stamp| key.version(space, stamp)).transpose()?.flatten(),
        // The null version has no id of its own.
        Version::Stamp(stamp) => key.version(space, stamp)?.filter(|version| !version.is_null()),
    };
    Ok(found.ok_or_else(|| match version {
        Version::Current => S3ErrorCode::NoSuchKey.because("the key does not exist"),
        _ => S3ErrorCode::NoSuchVersion.because("the key has no such version"),
    }))
}

/// Which of `locations` the versions of a key name, newest first behind `after`.
pub(super) fn names(
    space: &dyn SpaceRead,
    key: &[u8],
    after: Option<VersionStamp>,
    locations: &[Bytes],
) -> Result<Reply, EngineError> {
    let closed = close(key);
    let (first, end) = keys::versions_of(VERSION, &closed);
    let start = after.map_or(first.to_vec(), |after| successor(&keys::of_version(VERSION, &closed, after)));
    let (rows, more) = page(space, &start, Some(&end), Direction::Forward, NAMES_VERSIONS_MAX)?;
    let (mut found, mut last) = (Vec::new(), None);
    for (row_key, row) in rows {
        let places = locations_of(&row.slice(1.min(row.len())..));
        crate::freed::named(locations, &places.map_err(|error| corrupt_row("a document", error))?, &mut found);
        last = Some(keys::stamp_of(&row_key, closed.len())?);
        if found.len() == locations.len() {
            return Ok(Reply::Named { locations: found, after: None });
        }
    }
    Ok(Reply::Named { locations: found, after: last.filter(|_| more) })
}
