//! Clients of buckets: what they ask, what answers tell, and whether a snapshot shows one instant.
//!
//! An object is a value: its bytes, its ETag and the history's value are the same 32 digits, so the checkers of
//! keys judge buckets as well: each key linearizable, listings (scans) ordered, whole and without doubles.
//! Few keys and a split at eight: shards split and merge under the clients; and some put keys that only grow, so
//! that shards are narrowed.
//!
//! Always: every value is written once. Not here: retries and history (`load`), what is right (proof-check).

use crate::random::Random;
use crate::s3_upload::value_of_parts;
use base_types::action::{Action, Level};
use base_types::s3::{
    Data, DeleteObject, DeleteObjects, GetObject, ListObjectsV2, ObjectToDelete, PutObject, S3Action, S3Answer,
    S3ErrorCode, WriteConditions,
};
use base_types::{ErrorCode, ReadConsistency, WriteConsistency};
use bytes::Bytes;
use proof_check::{Ending, History, Observed, Operation, Place, Record, Violation};
use std::collections::BTreeMap;

/// Places of buckets begin here, far behind those of clusters.
const FIRST_PLACE: u32 = 1 << 20;
/// Keys that clients of a bucket share.
const KEYS: u64 = 40;
/// The most keys of its own that a client of growing keys puts; after them it repeats the last.
const GROWN_MAX: u64 = 100;
/// The account whose the buckets are.
pub const ACCOUNT: &str = "simulated";
/// More than there are keys.
pub const ALL_KEYS: u32 = 1_000;

/// Where a bucket's keys are in the history.
pub fn place_of(bucket: usize) -> Place {
    Place(FIRST_PLACE + bucket as u32)
}

/// One of the keys that clients of a bucket share.
pub fn key(random: &mut Random) -> Bytes {
    let number = random.below(KEYS);
    // Under a few prefixes, and more at the end than elsewhere.
    Bytes::from(format!("{}/{number:02}", number * number / (KEYS * KEYS / 4)))
}

/// A key behind all that were put before, near enough: of one client they grow, of several they lie side by side.
fn grown(random: &mut Random, client: usize, written: u64) -> Bytes {
    let number = written.min(GROWN_MAX).saturating_sub(if random.per_mille(700) { 0 } else { random.below(8) });
    Bytes::from(format!("grown/{number:03}/{client}"))
}

/// A value that nobody else writes, and the ETag it has.
pub fn value(client: usize, written: u64) -> Bytes {
    Bytes::from(format!("{client:08x}{written:024x}"))
}

/// What a client asks next of a bucket, and whether it is a snapshot.
pub fn draw(
    random: &mut Random,
    client: usize,
    written: u64,
    bucket: usize,
    growing: bool,
) -> (Place, Operation, Level, bool) {
    let key = if growing { grown(random, client, written) } else { key(random) };
    let write = Level::Write(WriteConsistency::Strong);
    let read = Level::Read(ReadConsistency::Strong);
    let value = value(client, written);
    // Times of many deletes follow those of many puts.
    let deleting = !growing && written / 24 % 2 == 1;
    let (operation, level, instant) = match random.below(100) {
        0..=29 if !deleting => (Operation::Put { key, value }, write, false),
        0..=29 => (Operation::Delete { key }, write, false),
        30..=39 => (Operation::Put { key, value }, write, false),
        40..=49 => (Operation::CompareAndSet { key, expected: None, value: Some(value) }, write, false),
        50..=59 if growing && random.per_mille(700) => (Operation::Put { key, value }, write, false),
        50..=59 => (Operation::Delete { key }, write, false),
        60..=79 => (Operation::Get { key }, read, false),
        draw => {
            let instant = draw >= 94;
            let start_after = (!instant && random.per_mille(500)).then_some(key);
            let limit = if instant { ALL_KEYS } else { *random.pick(&[1, 3, 9, ALL_KEYS]) };
            (listing(start_after, limit), read, instant)
        }
    };
    (place_of(bucket), operation, level, instant)
}

/// A listing in the words of the history.
pub fn listing(start_after: Option<Bytes>, limit: u32) -> Operation {
    Operation::Scan { prefix: Bytes::new(), start_after, end: None, limit, reverse: false, keys_only: false }
}

fn text(bytes: &Bytes) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether a delete of this key is one of many.
fn in_company(key: &Bytes) -> bool {
    key.last().is_some_and(|last| last.is_multiple_of(2))
}

/// What is deleted with it: a key in front of all, that nobody puts. The first shard has it, so that splits part the two.
/// (Behind all it would keep shards from being narrowed.)
fn companion(key: &Bytes) -> String {
    format!("!{}", key.last().map_or('-', |last| char::from(*last)))
}

/// The call that carries an operation out.
pub fn action_of(operation: &Operation, bucket: &str, instant: bool) -> Option<Action> {
    let bucket = bucket.to_string();
    let put = |key: &Bytes, value: &Bytes, conditions: WriteConditions| PutObject {
        bucket: bucket.clone(),
        key: text(key),
        data: Data::Inline(value.clone()),
        size: value.len() as u64,
        etag: text(value),
        conditions,
        ..PutObject::default()
    };
    let call: S3Action = match operation {
        Operation::Put { key, value } => put(key, value, WriteConditions::default()).into(),
        Operation::CompareAndSet { key, value: Some(value), .. } => {
            put(key, value, WriteConditions { if_none_match: Some("*".to_string()), ..WriteConditions::default() })
                .into()
        }
        Operation::Get { key } => GetObject { bucket, key: text(key), ..GetObject::default() }.into(),
        Operation::Delete { key } if in_company(key) => {
            let one = |key: String| ObjectToDelete { key, ..ObjectToDelete::default() };
            let objects = vec![one(companion(key)), one(text(key))];
            DeleteObjects { bucket, objects, bypass_governance_retention: false }.into()
        }
        Operation::Delete { key } => DeleteObject { bucket, key: text(key), ..DeleteObject::default() }.into(),
        Operation::Scan { start_after, limit, .. } => ListObjectsV2 {
            bucket,
            start_after: start_after.as_ref().map(text),
            max_keys: Some(*limit),
            snapshot: instant,
            ..ListObjectsV2::default()
        }
        .into(),
        _ => return None,
    };
    Some(Action::S3(call))
}

/// What a client observes by an answer.
pub fn observe(answer: &S3Answer) -> Option<Observed> {
    let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    Some(match answer {
        S3Answer::PutObjectAnswer(_) => Observed::Done,
        S3Answer::DeleteObjectAnswer(_) => Observed::Deleted(None),
        S3Answer::DeleteObjectsAnswer(_) if !is_partly_done(answer) => Observed::Deleted(None),
        S3Answer::ObjectVersion(version) => Observed::Value(match &version.data {
            Some(Data::Inline(data)) if data[..] == *version.etag.as_bytes() => Some(data.clone()),
            Some(parts @ Data::Parts(_)) if value_of_parts(&version.etag, parts).is_some() => {
                Some(bytes(&version.etag))
            }
            other => Some(Bytes::from(format!("{other:?} with ETag {}", version.etag))),
        }),
        S3Answer::ObjectPage(page) => Observed::Page {
            entries: page.contents.iter().map(|entry| (bytes(&entry.key), bytes(&entry.etag))).collect(),
            next: page.contents.last().filter(|_| page.is_truncated).map(|last| bytes(&last.key)),
        },
        _ => return None,
    })
}

/// Whether some of several deletes ended without an answer of its own: the client retries the call.
pub fn is_partly_done(answer: &S3Answer) -> bool {
    matches!(answer, S3Answer::DeleteObjectsAnswer(told) if told.results.iter().any(|result| result.deleted.is_none()))
}

/// What a client observes by a refusal that is an answer: an object does not exist, a condition does not hold.
pub fn observe_refusal(operation: &Operation, code: ErrorCode) -> Option<Observed> {
    match (operation, code.s3()) {
        (Operation::Get { .. }, Some(S3ErrorCode::NoSuchKey)) => Some(Observed::Value(None)),
        (Operation::CompareAndSet { .. }, Some(S3ErrorCode::PreconditionFailed)) => Some(Observed::ConditionFailed),
        _ => None,
    }
}

/// Whether a refusal shows that something is broken, for any client.
pub fn is_broken(code: ErrorCode) -> bool {
    let own = matches!(code, ErrorCode::Internal | ErrorCode::CorruptDocument | ErrorCode::Other(_));
    let command = matches!(code, ErrorCode::CorruptCommand | ErrorCode::Malformed);
    own || command || matches!(code.s3(), Some(S3ErrorCode::NoSuchBucket | S3ErrorCode::InternalError))
}

/// Every snapshot shows one instant: no value it shows was begun behind the end of a write that it does not show.
pub fn check_instants(history: &History, instants: &[u64]) -> Vec<Violation> {
    let writes = writes_of(history);
    let instants = instants.iter().filter_map(|id| history.records.get(*id as usize));
    instants.filter_map(|record| check_instant(record, &writes)).collect()
}

type Writes<'a> = BTreeMap<(Place, &'a Bytes), Vec<&'a Record>>;

/// A moment, and the operation that makes it.
type Moment = Option<(u64, u64)>;

fn writes_of(history: &History) -> Writes<'_> {
    let mut writes = Writes::new();
    for record in &history.records {
        for (key, _) in record.effects() {
            writes.entry((record.place, key)).or_default().push(record);
        }
    }
    writes
}

fn check_instant(record: &Record, writes: &Writes<'_>) -> Option<Violation> {
    let (Some(Observed::Page { entries, .. }), Ending::Ok) = (&record.observed, record.ending) else { return None };
    // The instant lies behind the latest beginning, and before the earliest end of what is not seen yet.
    let (mut latest_begin, mut earliest_end): (Moment, Moment) = (None, None);
    for (key, shown) in entries {
        let Some(of_key) = writes.get(&(record.place, key)) else { continue };
        let wrote = |write: &&&Record| write.effects().iter().any(|(_, value)| value.as_ref() == Some(&shown));
        let Some(shown) = of_key.iter().find(wrote) else { continue };
        latest_begin = latest_begin.max(Some((shown.invoked, shown.id)));
        let Some(done) = shown.returned.filter(|_| shown.ending == Ending::Ok) else { continue };
        let later = of_key.iter().filter(|write| write.is_settled_write() && write.invoked > done);
        let ends = later.filter_map(|write| write.returned.map(|returned| (returned, write.id)));
        for end in ends {
            earliest_end = Some(earliest_end.map_or(end, |earliest: (u64, u64)| earliest.min(end)));
        }
    }
    let ((begin, shown), (end, unseen)) = (latest_begin?, earliest_end?);
    (end < begin).then(|| {
        let message = format!(
            "a snapshot shows what operation {shown} began to write at {begin}, but not operation {unseen}, which ended at {end}"
        );
        Violation::new("instant", message, vec![record.id, shown, unseen])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base_types::RequestId;

    fn put(id: u64, key: &'static [u8], value: &'static [u8], invoked: u64, returned: u64) -> Record {
        let (key, value) = (Bytes::from_static(key), Bytes::from_static(value));
        Record {
            id,
            client: 0,
            place: place_of(0),
            operation: Operation::Put { key, value },
            request_id: RequestId(1),
            level: Level::Write(WriteConsistency::Strong),
            invoked,
            returned: Some(returned),
            ending: Ending::Ok,
            observed: Some(Observed::Done),
            at: None,
        }
    }

    #[test]
    fn an_effect_without_its_cause_is_no_instant() {
        let mut records = vec![put(0, b"a", b"1", 0, 1), put(1, b"a", b"2", 2, 3), put(2, b"b", b"3", 4, 5)];
        for (shown, broken) in [(&b"1"[..], true), (b"2", false)] {
            let entry = |key: &'static [u8], value: &[u8]| (Bytes::from_static(key), Bytes::copy_from_slice(value));
            let page = Observed::Page { entries: vec![entry(b"a", shown), entry(b"b", b"3")], next: None };
            let operation = listing(None, ALL_KEYS);
            let level = Level::Read(ReadConsistency::Strong);
            let page = Record { id: 3, operation, level, observed: Some(page), ..put(3, b"", b"", 0, 9) };
            records.truncate(3);
            records.push(page);
            let history = History { records: records.clone(), moving: vec![place_of(0)] };
            assert_eq!(!check_instants(&history, &[3]).is_empty(), broken);
        }
    }
}
