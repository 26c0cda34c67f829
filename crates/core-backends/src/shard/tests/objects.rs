//! Versions, markers, conditions, locks and attributes, one by one.

use super::bed::*;
use crate::contract::ApplyContext;
use crate::reply::decode_reply;
use crate::shard::*;
use base_types::codec::Encode as _;
use base_types::s3::{encode_parts, field, Document, StoredPart, Version, VersionStamp, INLINE_BYTES_MAX};
use base_types::{BackendKind, ErrorKind, LogIndex, Refusal, RequestId};
use bytes::Bytes;
use std::collections::BTreeMap;

fn code<T>(result: Result<T, Refusal>) -> &'static str {
    result.err().map_or("done", |refusal| refusal.code.as_str())
}

fn one_of(etag: &str) -> Option<EtagTest> {
    Some(EtagTest::OneOf { etags: vec![etag.into()] })
}

fn put_if(bed: &mut Bed, key: &str, size: u64, condition: Condition) -> &'static str {
    let step = PutStep { condition, ..bed.put_step(key, Versioning::Enabled, size) };
    code(bed.tell(Command::Put { step }))
}

#[test]
pub fn conditional_puts_see_the_current_version_alone() {
    let mut bed = Bed::serving();
    let fresh = || Condition { if_none_match: Some(EtagTest::Any), ..Condition::default() };
    let wants = |etag| Condition { if_match: one_of(etag), ..Condition::default() };
    assert_eq!(put_if(&mut bed, "k", 1, wants("e1")), "NoSuchKey");
    assert_eq!(put_if(&mut bed, "k", 1, fresh()), "done");
    assert_eq!(put_if(&mut bed, "k", 2, fresh()), "PreconditionFailed");
    assert_eq!(put_if(&mut bed, "k", 2, wants("\"e1\"")), "done");
    assert_eq!(put_if(&mut bed, "k", 3, wants("e1")), "PreconditionFailed");
    // A marker is in front: for a condition nothing is there.
    bed.delete("k", Versioning::Enabled, Version::Current).unwrap();
    assert_eq!(put_if(&mut bed, "k", 4, wants("e2")), "NoSuchKey");
    assert_eq!(put_if(&mut bed, "k", 4, fresh()), "done");
}

#[test]
pub fn conditional_deletes() {
    let mut bed = Bed::serving();
    bed.put("k", Versioning::Unversioned, 1).unwrap();
    let mut delete = |key: &str, if_match| {
        let condition = Condition { if_match, ..Condition::default() };
        let step = DeleteStep { key: key.to_string().into(), version: Version::Current, condition };
        let terms = bed.terms(Versioning::Unversioned);
        code(bed.tell(Command::Delete { terms, step }))
    };
    assert_eq!(delete("k", one_of("other")), "PreconditionFailed");
    assert_eq!((delete("none", one_of("x")), delete("none", Some(EtagTest::Any))), ("NoSuchKey", "NoSuchKey"));
    assert_eq!((delete("k", one_of("e1")), delete("k", None)), ("done", "done"));
}

#[test]
pub fn a_token_puts_once() {
    let mut bed = Bed::serving();
    let step = PutStep { once: Some(99), ..bed.put_step("k", Versioning::Enabled, 1) };
    let first = bed.tell(Command::Put { step: step.clone() }).unwrap();
    bed.put("k", Versioning::Enabled, 2).unwrap();
    assert_eq!(bed.tell(Command::Put { step: step.clone() }).unwrap(), first);
    assert_eq!(bed.count("", None).versions, 2);
    bed.tell(Command::Forget { epoch: 1, key: "k".into(), token: 99 }).unwrap();
    assert_ne!(bed.tell(Command::Put { step }).unwrap(), first);
}

#[test]
pub fn a_refusal_under_a_token_is_for_good() {
    let mut bed = Bed::serving();
    bed.put("k", Versioning::Enabled, 1).unwrap();
    let absent = Condition { if_none_match: Some(EtagTest::Any), ..Condition::default() };
    let refused = PutStep { once: Some(7), condition: absent, ..bed.put_step("k", Versioning::Enabled, 2) };
    let late = PutStep { once: Some(7), ..bed.put_step("k", Versioning::Enabled, 2) };
    let first = bed.tell(Command::Put { step: refused }).unwrap();
    let Reply::PutRefused { refusal } = &first else { panic!("{first:?}") };
    assert_eq!(refusal.code.as_str(), "PreconditionFailed");
    assert_eq!(bed.tell(Command::Put { step: late.clone() }).unwrap(), first);
    let next = PutStep { once: Some(8), ..late };
    assert!(matches!(bed.tell(Command::Put { step: next }), Ok(Reply::Put { .. })));
}

#[test]
pub fn versions_are_stamped_upwards_even_if_clocks_are_not() {
    let mut bed = Bed::serving();
    bed.now_ms = 5_000;
    let late = bed.put("k", Versioning::Enabled, 1).unwrap();
    bed.now_ms = 10;
    let later = bed.put("k", Versioning::Enabled, 2).unwrap();
    assert!(later > late);
    let ahead = PutStep { at_unix_ms: u64::MAX, ..bed.put_step("k", Versioning::Enabled, 3) };
    bed.tell(Command::Put { step: ahead }).unwrap();
    let after_all = bed.put("k", Versioning::Enabled, 4).unwrap();
    let Ok(Reply::Object { stamp, .. }) = bed.get("k", Version::Current) else { panic!() };
    assert_eq!(stamp, after_all);
}

#[test]
pub fn a_marker_is_told_apart_from_nothing() {
    let mut bed = Bed::serving();
    let object = bed.put("k", Versioning::Enabled, 3).unwrap();
    let Deleted::Marked { stamp: marker, .. } = bed.delete("k", Versioning::Enabled, Version::Current).unwrap() else {
        panic!()
    };
    assert!(matches!(bed.get("k", Version::Current), Ok(Reply::Marker { latest: true, .. })));
    assert!(matches!(bed.get("k", Version::Stamp(marker)), Ok(Reply::Marker { latest: false, .. })));
    assert!(matches!(bed.get("k", Version::Stamp(object)), Ok(Reply::Object { latest: false, inline: Some(_), .. })));
    assert_eq!(code(bed.get("k", Version::Null)), "NoSuchVersion");
    assert_eq!(code(bed.get("k", Version::Stamp(VersionStamp(5)))), "NoSuchVersion");
    assert_eq!(code(bed.get("l", Version::Current)), "NoSuchKey");
    // The marker goes, the object is back.
    bed.delete("k", Versioning::Enabled, Version::Stamp(marker)).unwrap();
    let Ok(Reply::Object { stamp, latest: true, .. }) = bed.get("k", Version::Current) else { panic!() };
    assert_eq!(stamp, object);
    assert_eq!(bed.page(bed.listing("", ""), false).unwrap().0.len(), 1);
}

#[test]
pub fn the_null_version_stays_when_versioning_is_switched_on() {
    let mut bed = Bed::serving();
    bed.put("k", Versioning::Unversioned, 1).unwrap();
    bed.put("k", Versioning::Enabled, 2).unwrap();
    let size = |reply| match reply {
        Ok(Reply::Object { document, .. }) => Document::decode(document).unwrap().number(field::SIZE).unwrap(),
        other => panic!("{other:?}"),
    };
    assert_eq!((size(bed.get("k", Version::Null)), size(bed.get("k", Version::Current))), (1, 2));
    // Suspended: the null version is written over, and is the newest now.
    bed.put("k", Versioning::Suspended, 3).unwrap();
    assert_eq!((size(bed.get("k", Version::Null)), size(bed.get("k", Version::Current))), (3, 3));
    assert_eq!(bed.count("", None).versions, 2);
    bed.delete("k", Versioning::Suspended, Version::Null).unwrap();
    assert_eq!(size(bed.get("k", Version::Current)), 2);
}

#[test]
pub fn many_deletes_have_an_outcome_each() {
    let mut bed = Bed::serving();
    bed.put("a", Versioning::Unversioned, 1).unwrap();
    let step = |key: &'static str, if_match| DeleteStep {
        key: key.into(),
        version: Version::Current,
        condition: Condition { if_match, ..Condition::default() },
    };
    let steps = vec![step("a", one_of("wrong")), step("a", None), step("b", None)];
    let terms = bed.terms(Versioning::Unversioned);
    let Ok(Reply::DeletedMany { outcomes }) = bed.tell(Command::DeleteMany { terms, steps }) else { panic!() };
    let codes: Vec<_> =
        outcomes.iter().map(|outcome| outcome.as_ref().err().map(|refusal| refusal.code.as_str())).collect();
    assert_eq!(codes, [Some("PreconditionFailed"), None, None]);
    assert!(matches!(outcomes[1..], [Ok(Deleted::Removed { .. }), Ok(Deleted::Nothing)]));
}

/// As a cluster does: what was done is remembered, and what is remembered is not done once more.
fn tell_each(bed: &mut Bed, memory: &mut BTreeMap<RequestId, Bytes>, ids: &[u128]) -> Vec<Result<Deleted, Refusal>> {
    let step = |id: &u128| DeleteStep {
        key: if *id == 9 { "locked".into() } else { format!("k{id}").into() },
        version: Version::Current,
        condition: Condition { if_match: (*id == 9).then(|| one_of("wrong").unwrap()), ..Condition::default() },
    };
    let steps = ids.iter().map(step).collect();
    let terms = bed.terms(Versioning::Enabled);
    let command = Command::DeleteEach { terms, steps, ids: ids.to_vec() }.to_bytes();
    validate(&command).unwrap();
    let known = |id| memory.get(&id).cloned();
    let at = ApplyContext {
        life: base_types::Generation(1),
        index: LogIndex(1_000),
        position: 0,
        cluster_time_ms: bed.now_ms,
    };
    let reply = crate::apply_once(BackendKind::Shard, at, &mut bed.space, &command, &known).unwrap();
    bed.now_ms += 1;
    for brought in crate::memory_brought(BackendKind::Shard, &command, &reply, 30_000) {
        assert_eq!((brought.keep_ms, brought.about.part), (30_000, crate::memory::Part::OBJECTS));
        assert!(brought.about.bytes() > 0, "whose key it is goes along");
        memory.entry(brought.id).or_insert(brought.reply);
    }
    match decode_reply(reply).unwrap() {
        Reply::DeletedMany { outcomes } => outcomes,
        other => panic!("{other:?}"),
    }
}

#[test]
pub fn each_of_many_deletes_is_done_once_in_any_company() {
    let (mut bed, mut memory) = (Bed::serving(), BTreeMap::new());
    for key in ["k1", "k2", "locked"] {
        bed.put(key, Versioning::Enabled, 1).unwrap();
    }
    let first = tell_each(&mut bed, &mut memory, &[1, 2, 9]);
    assert!(matches!(first[..], [Ok(Deleted::Marked { .. }), Ok(Deleted::Marked { .. }), Err(_)]), "{first:?}");
    assert_eq!(bed.count("", None).markers, 2);
    // All of them, some, some with others: a repeated delete returns its first result, a new one is carried out.
    assert_eq!(tell_each(&mut bed, &mut memory, &[1, 2, 9]), first);
    assert_eq!(tell_each(&mut bed, &mut memory, &[9, 2]), [first[2].clone(), first[1].clone()]);
    assert_eq!(bed.count("", None).markers, 2);
    let mixed = tell_each(&mut bed, &mut memory, &[3, 1, 4]);
    assert_eq!(mixed[1], first[0]);
    assert!(matches!((&mixed[0], &mixed[2]), (Ok(Deleted::Marked { .. }), Ok(Deleted::Marked { .. }))), "{mixed:?}");
    assert_eq!(bed.count("", None).markers, 4);
    // What is remembered of one is what a delete of its own would have answered.
    let reply: Reply = decode_reply(memory[&RequestId(1)].clone()).unwrap();
    assert_eq!(reply, Reply::Deleted { deleted: first[0].clone().unwrap() });
}

#[test]
pub fn deletes_of_another_epoch_are_refused_whatever_is_remembered_of_some() {
    let (mut bed, mut memory) = (Bed::serving(), BTreeMap::new());
    tell_each(&mut bed, &mut memory, &[1]);
    let terms = DeleteTerms { epoch: 7, ..bed.terms(Versioning::Enabled) };
    let step =
        |key: &'static str| DeleteStep { key: key.into(), version: Version::Current, condition: Condition::default() };
    let command = Command::DeleteEach { terms, steps: vec![step("k1"), step("k2")], ids: vec![1, 2] }.to_bytes();
    let known = |id| memory.get(&id).cloned();
    let at = ApplyContext {
        life: base_types::Generation(1),
        index: LogIndex(1_001),
        position: 0,
        cluster_time_ms: bed.now_ms,
    };
    let reply = crate::apply_once(BackendKind::Shard, at, &mut bed.space, &command, &known).unwrap();
    assert_eq!(decode_reply::<Reply>(reply.clone()).unwrap_err().code.as_str(), "WrongShard");
    assert!(crate::memory_brought(BackendKind::Shard, &command, &reply, 1).is_empty());
    let odd = Command::DeleteEach { terms: bed.terms(Versioning::Enabled), steps: vec![step("k1")], ids: vec![] };
    assert_eq!(validate(&odd.to_bytes()).unwrap_err().code.as_str(), "CorruptCommand");
}

fn set(bed: &mut Bed, changes: &[(u16, Option<&'static str>)], until: Option<u64>, bypass: bool) -> &'static str {
    let mut number = Document::new();
    number.set_number(field::LOCK_UNTIL, until.unwrap_or(0));
    let mut changes: Vec<_> = changes.iter().map(|(id, text)| (*id, text.map(Bytes::from))).collect();
    if until.is_some() {
        changes.push((field::LOCK_UNTIL, number.get(field::LOCK_UNTIL).cloned()));
    }
    code(bed.tell(Command::Update {
        epoch: 1,
        key: "k".into(),
        version: Version::Current,
        changes,
        at_unix_ms: bed.now_ms,
        bypass_governance: bypass,
        condition: Condition::default(),
    }))
}

fn remove(bed: &mut Bed, stamp: VersionStamp, bypass_governance: bool) -> &'static str {
    let terms = DeleteTerms { bypass_governance, ..bed.terms(Versioning::Enabled) };
    let step = DeleteStep { key: "k".into(), version: Version::Stamp(stamp), condition: Condition::default() };
    code(bed.tell(Command::Delete { terms, step }))
}

#[test]
pub fn locks_keep_versions_but_not_from_being_hidden() {
    let mut bed = Bed::serving();
    let stamp = bed.put("k", Versioning::Enabled, 1).unwrap();
    assert_eq!(set(&mut bed, &[(field::LEGAL_HOLD, Some("ON"))], None, false), "done");
    assert_eq!(remove(&mut bed, stamp, true), "AccessDenied", "nothing passes over a legal hold");
    assert_eq!(set(&mut bed, &[(field::LEGAL_HOLD, Some("OFF"))], None, false), "done");
    let until = bed.now_ms + 100;
    assert_eq!(set(&mut bed, &[(field::LOCK_MODE, Some("GOVERNANCE"))], Some(until), false), "done");
    assert_eq!(set(&mut bed, &[], Some(until - 50), false), "AccessDenied");
    assert_eq!(set(&mut bed, &[], Some(until + 50), false), "done");
    assert_eq!(remove(&mut bed, stamp, false), "AccessDenied");
    assert_eq!(set(&mut bed, &[(field::LOCK_MODE, Some("COMPLIANCE"))], Some(until + 50), false), "done");
    assert_eq!(set(&mut bed, &[(field::LOCK_MODE, Some("GOVERNANCE"))], Some(until + 50), true), "AccessDenied");
    assert_eq!(remove(&mut bed, stamp, true), "AccessDenied", "compliance binds everybody");
    bed.delete("k", Versioning::Enabled, Version::Current).unwrap();
    bed.now_ms = until + 50;
    assert_eq!(remove(&mut bed, stamp, false), "done");
}

#[test]
pub fn a_second_factor_is_for_versions() {
    let mut bed = Bed::serving();
    let stamp = bed.put("k", Versioning::Enabled, 1).unwrap();
    let terms = DeleteTerms { mfa_missing: true, ..bed.terms(Versioning::Enabled) };
    let step = |version| DeleteStep { key: "k".into(), version, condition: Condition::default() };
    let told = |bed: &mut Bed, version| code(bed.tell(Command::Delete { terms: terms.clone(), step: step(version) }));
    assert_eq!(told(&mut bed, Version::Stamp(stamp)), "AccessDenied");
    assert_eq!(told(&mut bed, Version::Current), "done");
}

#[test]
pub fn attributes_change_what_is_read_and_listed() {
    let mut bed = Bed::serving();
    bed.put("k", Versioning::Unversioned, 1).unwrap();
    assert_eq!(set(&mut bed, &[(field::STORAGE_CLASS, Some("GLACIER")), (field::TAGS, None)], None, false), "done");
    let (items, _) = bed.page(bed.listing("", ""), false).unwrap();
    let Item::Object { fields, .. } = &items[0] else { panic!() };
    assert_eq!(Document::decode(fields.clone()).unwrap().text(field::STORAGE_CLASS), Some("GLACIER"));
    let Ok(Reply::Object { document, .. }) = bed.get("k", Version::Current) else { panic!() };
    assert!(Document::decode(document).unwrap().get(field::TAGS).is_none());
    bed.delete("k", Versioning::Enabled, Version::Current).unwrap();
    assert_eq!(set(&mut bed, &[(field::TAGS, None)], None, false), "MethodNotAllowed");
}

#[test]
pub fn reads_with_conditions() {
    let mut bed = Bed::serving();
    bed.put("k", Versioning::Unversioned, 1).unwrap();
    let get = |condition| {
        bed.ask(Query::Get { epoch: 1, key: "k".into(), version: Version::Current, inline: false, condition })
    };
    let known = Condition { if_none_match: one_of("e1"), ..Condition::default() };
    assert!(matches!(get(known), Ok(Reply::NotModified { .. })));
    assert_eq!(code(get(Condition { if_match: one_of("e2"), ..Condition::default() })), "PreconditionFailed");
}

#[test]
pub fn bad_input_is_refused_before_the_log() {
    let mut bed = Bed::serving();
    for (step, wanted) in [
        (bed.put_step("", Versioning::Enabled, 1), "EmptyKey"),
        (bed.put_step(&"x".repeat(1025), Versioning::Enabled, 1), "KeyTooLongError"),
        (PutStep { key: Bytes::from_static(&[0xff]), ..bed.put_step("k", Versioning::Enabled, 1) }, "InvalidURI"),
        (PutStep { document: "x".into(), ..bed.put_step("k", Versioning::Enabled, 1) }, "CorruptCommand"),
        (
            PutStep { inline: Some(vec![0; INLINE_BYTES_MAX + 1].into()), ..bed.put_step("k", Versioning::Enabled, 1) },
            "BodyTooLarge",
        ),
    ] {
        assert_eq!(code(bed.tell(Command::Put { step })), wanted);
    }
    let refusal = Bed::blank().put("k", Versioning::Enabled, 1).unwrap_err();
    assert_eq!((refusal.code.as_str(), refusal.kind()), ("WrongShard", ErrorKind::Conflict));
    let listing = Listing { prefix: Bytes::from_static(&[0xc0]), ..bed.listing("", "") };
    assert_eq!(code(bed.page(listing, false)), "InvalidField");
}

/// What is written must be readable again, or every member would stop.
#[test]
pub fn documents_stay_within_what_can_be_read() {
    let mut bed = Bed::serving();
    let mut document = Document::new();
    document.set(field::PARTS, Some(vec![0; (1 << 20) - 20].into()));
    let step = PutStep { document: document.encode(), ..bed.put_step("k", Versioning::Enabled, 1) };
    assert_eq!(code(bed.tell(Command::Put { step })), "BodyTooLarge");
    bed.put("k", Versioning::Enabled, 1).unwrap();
    let owner = Some(vec![0; 2_000_000].into());
    let terms = DeleteTerms { owner, ..bed.terms(Versioning::Enabled) };
    let step = DeleteStep { key: "k".into(), version: Version::Current, condition: Condition::default() };
    assert_eq!(code(bed.tell(Command::Delete { terms, step })), "BodyTooLarge");
    let many: Vec<_> = (200..320).map(|id| (id, Some("x"))).collect();
    assert_eq!(set(&mut bed, &many, None, false), "done");
    let more: Vec<_> = (400..527).map(|id| (id, Some("x"))).collect();
    assert_eq!((set(&mut bed, &more, None, false), set(&mut bed, &more[..2], None, false)), ("done", "done"));
    let end: Vec<_> = (600..620).map(|id| (id, Some("x"))).collect();
    assert_eq!(set(&mut bed, &end, None, false), "MetadataTooLarge");
    assert!(bed.get("k", Version::Current).is_ok());
}

/// The longest key there is, all of zeros, with the longest rows around it.
#[test]
pub fn the_longest_key_fits_an_engine() {
    let mut bed = Bed::serving();
    let key = "\0".repeat(1024);
    bed.tell(Command::PinPrepare { epoch: 1, pin: 1, freeze_ms: 0, keep_ms: 1000 }).unwrap();
    bed.tell(Command::PinCommit { pin: 1 }).unwrap();
    bed.put(&key, Versioning::Enabled, 0).unwrap();
    let step = PutStep { once: Some(1), ..bed.put_step(&key, Versioning::Enabled, 3) };
    bed.tell(Command::Put { step }).unwrap();
    let longest = bed.space.rows.keys().map(Bytes::len).max().unwrap();
    // One byte more names the backend.
    assert!(longest < base_engine::ENGINE_KEY_BYTES_MAX, "{longest}");
    assert_eq!(bed.walk(bed.listing("", ""), true, 1).len(), 2);
}

fn located(bed: &Bed, key: &str, versioning: Versioning, places: &[&str]) -> PutStep {
    let mut document = Document::new();
    document.set(field::LOCATION, places.first().map(|place| Bytes::copy_from_slice(place.as_bytes())));
    let part = |(at, place): (usize, &&str)| StoredPart {
        number: at as u32 + 1,
        location: place.to_string(),
        ..StoredPart::default()
    };
    let parts: Vec<_> = places.iter().skip(1).enumerate().map(part).collect();
    document.set(field::PARTS, (!parts.is_empty()).then(|| encode_parts(&parts)));
    PutStep { document: document.encode(), inline: None, ..bed.put_step(key, versioning, 1) }
}

fn freed(bed: &mut Bed) -> Vec<String> {
    let Ok(Reply::Freed { rows, more: false }) = bed.ask(Query::Freed { after: 0, limit: 100, aged_ms: 0 }) else {
        panic!()
    };
    assert_eq!(bed.info().freed_rows, rows.len() as u64);
    let until = rows.last().map_or(0, |row| row.sequence);
    let places = rows.into_iter().flat_map(|row| row.locations);
    let places = places.map(|place| String::from_utf8(place.to_vec()).unwrap()).collect();
    bed.tell(Command::ForgetFreed { until }).unwrap();
    assert_eq!(bed.info().freed_rows, 0);
    places
}

#[test]
pub fn what_nothing_names_any_more_is_queued_by_what_frees_it() {
    use Versioning::*;
    let mut bed = Bed::serving();
    let put = |bed: &mut Bed, key: &str, versioning, places: &[&str]| {
        let step = located(bed, key, versioning, places);
        match bed.tell(Command::Put { step }) {
            Ok(Reply::Put { stamp, .. }) => stamp,
            other => panic!("{other:?}"),
        }
    };
    put(&mut bed, "k", Unversioned, &["one"]);
    put(&mut bed, "k", Unversioned, &["two", "part 1", "part 2"]);
    let young = Query::Freed { after: 0, limit: 9, aged_ms: 1 };
    assert_eq!(bed.ask(young), Ok(Reply::Freed { rows: vec![], more: true }));
    assert_eq!(freed(&mut bed), ["one"]);
    // The same bytes again, as a retry has them, are still needed.
    put(&mut bed, "k", Unversioned, &["two", "part 2"]);
    assert_eq!(freed(&mut bed), ["part 1"]);
    let kept = put(&mut bed, "k", Enabled, &["three"]);
    bed.delete("k", Suspended, Version::Current).unwrap();
    assert_eq!(freed(&mut bed), ["two", "part 2"], "the marker takes the null version's place");
    put(&mut bed, "k", Suspended, &["four"]);
    bed.delete("k", Enabled, Version::Stamp(kept)).unwrap();
    assert_eq!(freed(&mut bed), ["three"]);
    let changes = vec![(field::LOCATION, None)];
    let (key, version, condition) = (Bytes::from_static(b"k"), Version::Current, Condition::default());
    let at_unix_ms = bed.now_ms;
    bed.tell(Command::Update { epoch: 1, key, version, changes, at_unix_ms, bypass_governance: false, condition })
        .unwrap();
    assert_eq!(freed(&mut bed), ["four"]);
    // A place that came by an update, where the put had none, is known to be there.
    put(&mut bed, "late", Unversioned, &[]);
    let changes = vec![(field::LOCATION, Some(Bytes::from_static(b"five")))];
    let (key, condition) = (Bytes::from_static(b"late"), Condition::default());
    bed.tell(Command::Update { epoch: 1, key, version, changes, at_unix_ms, bypass_governance: false, condition })
        .unwrap();
    put(&mut bed, "late", Unversioned, &[]);
    assert_eq!(freed(&mut bed), ["five"]);
    let parts = Some(Bytes::from_static(b"no parts"));
    let mut document = Document::new();
    document.set(field::PARTS, parts);
    let step = PutStep { document: document.encode(), ..bed.put_step("k", Enabled, 1) };
    assert_eq!(code(bed.tell(Command::Put { step })), "CorruptCommand");
}

#[test]
pub fn any_version_names_its_places() {
    let mut bed = Bed::serving();
    for places in [&["a"][..], &["b", "c"], &["d"]] {
        let step = located(&bed, "k", Versioning::Enabled, places);
        bed.tell(Command::Put { step }).unwrap();
    }
    let names = |asked: &[&str]| {
        let locations = asked.iter().map(|place| Bytes::copy_from_slice(place.as_bytes())).collect();
        match bed.ask(Query::Names { epoch: 1, key: "k".into(), after: None, locations }) {
            Ok(Reply::Named { locations, after: None }) => locations,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(names(&["a", "x", "c"]), ["c", "a"]);
    assert!(names(&["x"]).is_empty());
}

#[test]
pub fn a_put_behind_its_intent_is_refused() {
    let mut bed = Bed::serving();
    let at = bed.now_ms;
    let step = |expires| PutStep { data_expires_ms: Some(expires), ..bed.put_step("k", Versioning::Enabled, 1) };
    let (late, in_time) = (step(at - 1), step(at));
    assert_eq!(code(bed.tell(Command::Put { step: late })), "RequestTimeout");
    assert_eq!(code(bed.tell(Command::Put { step: in_time })), "done");
}

#[test]
pub fn only_an_empty_shard_closes_and_it_can_open_again() {
    let mut bed = Bed::serving();
    bed.put("k", Versioning::Enabled, 1).unwrap();
    let close = Command::Close { epoch: 1 };
    assert_eq!(code(bed.tell(close.clone())), "BucketNotEmpty");
    let Deleted::Marked { stamp, .. } = bed.delete("k", Versioning::Enabled, Version::Current).unwrap() else {
        panic!()
    };
    let Ok(Reply::Page { items, .. }) = bed.ask(Query::ListVersions { listing: bed.listing("", "") }) else { panic!() };
    assert_eq!((items.len(), code(bed.tell(close.clone()))), (2, "BucketNotEmpty"));
    for item in items {
        let Item::Version { stamp, .. } = item else { panic!() };
        bed.delete("k", Versioning::Enabled, Version::Stamp(stamp)).unwrap();
    }
    assert!(stamp.0 > 0);
    for _ in 0..2 {
        assert_eq!(code(bed.tell(close.clone())), "done");
    }
    assert_eq!(bed.put("k", Versioning::Enabled, 1).unwrap_err().code.as_str(), "BucketClosing");
    assert_eq!(code(bed.get("k", Version::Current)), "BucketClosing");
    let targets = vec![Peer { shard: 2, epoch: 2, range: Range::default() }];
    assert!(bed.tell(Command::BeginSplit { epoch: 1, targets }).is_err());
    bed.epoch = 2;
    assert_eq!(bed.put("k", Versioning::Enabled, 1).unwrap_err().code.as_str(), "WrongShard");
    bed.epoch = 1;
    for _ in 0..2 {
        assert_eq!(code(bed.tell(Command::Reopen { epoch: 1 })), "done");
    }
    bed.put("k", Versioning::Enabled, 1).unwrap();
}

#[test]
pub fn a_put_is_held_to_its_bounds_by_what_is_there_at_that_command() {
    let mut bed = Bed::serving();
    let keys = |keys_max| Bounds { keys_max: Some(keys_max), bytes_max: None };
    let bytes = |bytes_max| Bounds { keys_max: None, bytes_max: Some(bytes_max) };
    let put = |bed: &mut Bed, key: &str, versioning, bounds| {
        let step = bed.put_step(key, versioning, 7);
        code(bed.tell(Command::PutWithin { step, bounds }))
    };
    use Versioning::{Enabled, Unversioned};
    assert_eq!(put(&mut bed, "a", Unversioned, keys(0)), "QuotaExceeded");
    assert_eq!(put(&mut bed, "a", Unversioned, keys(1)), "done");
    assert_eq!(put(&mut bed, "b", Unversioned, keys(1)), "QuotaExceeded");
    // Over what is there no key is made, be it a version more.
    assert_eq!(put(&mut bed, "a", Unversioned, keys(1)), "done");
    assert_eq!(put(&mut bed, "a", Enabled, keys(0)), "done");
    assert_eq!(put(&mut bed, "b", Unversioned, bytes(20)), "QuotaExceeded");
    assert_eq!(put(&mut bed, "b", Unversioned, bytes(21)), "done");
    // A key whose newest version is a marker is none: to put it makes one.
    bed.delete("a", Enabled, Version::Current).unwrap();
    assert_eq!(put(&mut bed, "a", Enabled, keys(1)), "QuotaExceeded");
    assert_eq!(put(&mut bed, "a", Enabled, Bounds::default()), "done");
    // A repeated put under a token returns its first result, although its bounds have changed.
    let step = PutStep { once: Some(5), ..bed.put_step("c", Enabled, 1) };
    assert_eq!(code(bed.tell(Command::PutWithin { step: step.clone(), bounds: keys(3) })), "done");
    assert_eq!(code(bed.tell(Command::PutWithin { step, bounds: keys(0) })), "done");
    let step = PutStep { once: Some(6), ..bed.put_step("d", Enabled, 1) };
    let refused = Command::PutWithin { step, bounds: keys(3) };
    for _ in 0..2 {
        assert!(
            matches!(bed.tell(refused.clone()), Ok(Reply::PutRefused { refusal }) if refusal.code.as_str() == "QuotaExceeded")
        );
    }
    let other_epoch = PutStep { epoch: 9, ..bed.put_step("e", Enabled, 1) };
    assert_eq!(code(bed.tell(Command::PutWithin { step: other_epoch, bounds: keys(0) })), "WrongShard");
}

/// A prefix of the command gives the key at the same place as the whole command does.
#[test]
fn a_command_on_one_object_is_placed_at_its_key() {
    use crate::about_of;
    use crate::memory::{About, Part};
    let mut bed = Bed::blank();
    bed.epoch = 1 << 40;
    let (key, long) = (Bytes::from_static(b"dir/key"), "k".repeat(900));
    let step = |key: &str| bed.put_step(key, Versioning::Enabled, 3);
    let of_delete =
        |key: &Bytes| DeleteStep { key: key.clone(), version: Version::Current, condition: Condition::default() };
    let terms = DeleteTerms { owner: Some("ann".into()), ..bed.terms(Versioning::Enabled) };
    let update = Command::Update {
        epoch: 300,
        key: key.clone(),
        version: Version::Current,
        changes: vec![(24, None)],
        at_unix_ms: 5,
        bypass_governance: false,
        condition: Condition::default(),
    };
    let table = [
        (Command::Put { step: step("dir/key") }, About::object(&key)),
        (Command::Put { step: step(&long) }, About::object(long.as_bytes())),
        (Command::PutWithin { step: step("dir/key"), bounds: Bounds::default() }, About::object(&key)),
        (Command::Delete { terms: terms.clone(), step: of_delete(&key) }, About::object(&key)),
        (update, About::object(&key)),
        (Command::Forget { epoch: 9, key: key.clone(), token: 7 }, About::object(&key)),
        (Command::DeleteMany { terms: terms.clone(), steps: vec![of_delete(&key)] }, Part::OBJECTS.into()),
        (Command::DeleteEach { terms, steps: vec![of_delete(&key)], ids: vec![4] }, Part::OBJECTS.into()),
        (Command::Freeze { epoch: 1, lease_ms: 5 }, Part::WHOLE.into()),
    ];
    for (command, place) in table {
        assert_eq!(about_of(BackendKind::Shard, &command.to_bytes()), place, "{command:?}");
    }
    // What does not decode is applied as a refusal; it must not stop anybody here.
    for cut in [&[1][..], &[2, 7], &[4, 0x80], &[5, 1, 200]] {
        assert_eq!(about_of(BackendKind::Shard, &Bytes::copy_from_slice(cut)), Part::OBJECTS.into());
    }
}
