//! Uploads, one by one.

use super::*;
use crate::reply::decode_reply;
use crate::testing::MapSpace;
use base_types::LogIndex;

fn outcome(stamp: u64, null: bool) -> Completed {
    Completed { stamp, null, modified_ms: 5 }
}

struct Bed {
    space: MapSpace,
    now_ms: u64,
}

impl Bed {
    fn new() -> Bed {
        Bed { space: MapSpace::default(), now_ms: 1_000 }
    }

    fn tell(&mut self, command: Command) -> Result<Reply, Refusal> {
        let bytes = command.to_bytes();
        assert_eq!(Command::from_bytes(bytes.clone()).as_ref(), Ok(&command));
        validate(&bytes)?;
        let at = ApplyContext {
            life: base_types::Generation(1),
            index: LogIndex(1),
            position: 0,
            cluster_time_ms: self.now_ms,
        };
        let reply = apply(at, &mut self.space, &bytes).unwrap();
        crate::testing::check(base_types::BackendKind::Multipart, &self.space);
        assert!(self.space.rows.keys().all(|key| key.last() != Some(&1)), "a row ends in \\x01");
        decode_reply(reply)
    }

    fn ask(&self, question: Query) -> Result<Reply, Refusal> {
        decode_reply(query(self.now_ms, &self.space, &question.to_bytes()).unwrap())
    }

    fn create(&mut self, key: &str) -> u64 {
        let (document, initiator) = (Bytes::from_static(b"\x10\x01x"), Bytes::from_static(b"me"));
        let key = Bytes::copy_from_slice(key.as_bytes());
        let reply = self.tell(Command::Create { key, at_unix_ms: self.now_ms, document, initiator });
        let Ok(Reply::Upload { upload }) = reply else { panic!("{reply:?}") };
        upload.upload
    }

    fn part(&mut self, upload: u64, number: u32, size: u64, location: &str) -> Result<Option<Bytes>, &'static str> {
        let part = Part {
            number,
            etag: format!("{size:032x}"),
            size,
            at_unix_ms: self.now_ms,
            checksums: Bytes::new(),
            location: location.to_string().into(),
        };
        match self.tell(Command::PutPart { key: "k".into(), upload, part, inline: None, data_expires_ms: None }) {
            Ok(Reply::Part { replaced, .. }) => Ok(replaced),
            Err(refusal) => Err(refusal.code.as_str()),
            other => panic!("{other:?}"),
        }
    }

    fn complete(&mut self, upload: u64, parts: &[(u32, u64)]) -> Result<(Upload, Vec<Part>), &'static str> {
        let name = |(number, size): &(u32, u64)| PartName { number: *number, etag: format!("\"{size:032x}\"") };
        let parts = parts.iter().map(name).collect();
        match self.tell(Command::BeginComplete { key: "k".into(), upload, parts }) {
            Ok(Reply::Completion { upload, parts, .. }) => Ok((upload, parts)),
            Err(refusal) => Err(refusal.code.as_str()),
            other => panic!("{other:?}"),
        }
    }

    /// What is freed by now, taken off the queue.
    fn collect(&mut self) -> Vec<String> {
        while self.tell(Command::Collect { limit: 2 }).unwrap() != (Reply::Removed { more: false }) {}
        self.freed()
    }

    fn freed(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        loop {
            let Ok(Reply::Freed { rows, more }) = self.ask(Query::Freed { after: 0, limit: 2, aged_ms: 0 }) else {
                panic!()
            };
            let Some(until) = rows.last().map(|row| row.sequence) else { return all };
            let places = rows.into_iter().flat_map(|row| row.locations);
            all.extend(places.map(|place| String::from_utf8(place.to_vec()).unwrap()));
            let told = self.tell(Command::ForgetFreed { until });
            assert_eq!(told.unwrap(), Reply::Removed { more: false });
            assert!(
                more || self.ask(Query::Freed { after: 0, limit: 2, aged_ms: 0 })
                    == Ok(Reply::Freed { rows: vec![], more })
            );
        }
    }
}

const FULL: u64 = PART_BYTES_MIN;

#[test]
fn parts_come_in_any_order_and_over_each_other() {
    let mut bed = Bed::new();
    let upload = bed.create("k");
    assert_eq!(bed.part(upload, 3, 10, "three"), Ok(None));
    assert_eq!(bed.part(upload, 1, FULL, "one"), Ok(None));
    assert_eq!(bed.part(upload, 1, FULL + 1, "one again"), Ok(Some("one".into())));
    assert_eq!(bed.part(upload, 1, FULL + 1, "one again"), Ok(None), "its data is still needed");
    assert_eq!(bed.freed(), ["one"]);
    let list = |after, limit| match bed.ask(Query::ListParts { key: "k".into(), upload, after, limit }) {
        Ok(Reply::Parts { parts, more }) => (parts.iter().map(|part| part.number).collect::<Vec<_>>(), more),
        other => panic!("{other:?}"),
    };
    assert_eq!((list(0, 9), list(0, 1), list(1, 9)), ((vec![1, 3], false), (vec![1], true), (vec![3], false)));
    let Ok(Reply::Upload { upload: told }) = bed.ask(Query::Upload { key: "k".into(), upload }) else { panic!() };
    assert_eq!((told.parts, told.bytes), (2, FULL + 11));
}

#[test]
fn a_completion_is_checked_to_the_letter() {
    let mut bed = Bed::new();
    let upload = bed.create("k");
    for number in [1, 2, 4] {
        bed.part(upload, number, FULL, "x").unwrap();
    }
    bed.part(upload, 5, 7, "x").unwrap();
    for (parts, code) in [
        (&[][..], "MalformedXML"),
        (&[(2, FULL), (1, FULL)], "InvalidPartOrder"),
        (&[(1, FULL), (1, FULL)], "InvalidPartOrder"),
        (&[(1, FULL), (3, FULL)], "InvalidPart"),
        (&[(1, FULL + 1)], "InvalidPart"),
        (&[(5, 7), (6, FULL)], "EntityTooSmall"),
    ] {
        let _ = bed.part(upload, 6, FULL, "x");
        assert_eq!(bed.complete(upload, parts).unwrap_err(), code, "{parts:?}");
    }
    let (told, parts) = bed.complete(upload, &[(1, FULL), (4, FULL), (5, 7)]).unwrap();
    assert_eq!((told.size, parts.len()), (2 * FULL + 7, 3));
    assert!(told.etag.ends_with("-3") && told.etag.len() == 34);
    assert_eq!(bed.part(99, 1, 1, "x"), Err("NoSuchUpload"));
    assert_eq!(bed.part(upload, 0, 1, "x"), Err("InvalidArgument"));
    assert_eq!(bed.part(upload, 10_001, 1, "x"), Err("InvalidArgument"));
    assert_eq!(bed.part(upload, 1, PART_BYTES_MAX + 1, "x"), Err("EntityTooLarge"));
}

#[test]
fn a_completion_repeated_hears_the_same_until_it_is_forgotten() {
    let mut bed = Bed::new();
    let upload = bed.create("k");
    bed.part(upload, 1, 5, "used").unwrap();
    bed.part(upload, 2, 5, "unused").unwrap();
    let first = bed.complete(upload, &[(1, 5)]).unwrap();
    assert_eq!(bed.complete(upload, &[(1, 5)]).unwrap(), first);
    assert_eq!(bed.complete(upload, &[(2, 5)]).unwrap_err(), "Conflict");
    assert_eq!(bed.part(upload, 3, 5, "x"), Err("Conflict"));
    assert_eq!(bed.tell(Command::Abort { key: "k".into(), upload }).unwrap_err().code.as_str(), "Conflict");
    bed.tell(Command::Finish { key: "k".into(), upload, outcome: outcome(77, false) }).unwrap();
    // A late finish returns the first outcome.
    let reply = bed.tell(Command::Finish { key: "k".into(), upload, outcome: outcome(78, true) });
    assert!(matches!(
        reply,
        Ok(Reply::Upload {
            upload: Upload { outcome: Some(Completed { stamp: 77, null: false, modified_ms: 5 }), .. }
        })
    ));
    assert_eq!(bed.complete(upload, &[(1, 5)]).unwrap().0.outcome, Some(outcome(77, false)));
    assert!(bed.collect().is_empty(), "it is not due");
    assert_eq!(bed.ask(Query::Due { limit: 9 }), Ok(Reply::Due { uploads: vec![] }));
    bed.now_ms += CLOSED_KEEP_MS + 1;
    let due = Due { key: "k".into(), upload, attempts: 1 };
    assert_eq!(bed.ask(Query::Due { limit: 9 }), Ok(Reply::Due { uploads: vec![due] }));
    assert_eq!(bed.collect(), ["unused"]);
    assert_eq!(bed.complete(upload, &[(1, 5)]).unwrap_err(), "NoSuchUpload");
    assert_eq!(bed.space.rows.len(), 5, "only the counters are left");
}

#[test]
fn a_put_that_is_refused_opens_the_upload_again() {
    let mut bed = Bed::new();
    let upload = bed.create("k");
    bed.part(upload, 1, 5, "x").unwrap();
    bed.complete(upload, &[(1, 5)]).unwrap();
    let reopen = |attempt| Command::Reopen { key: "k".into(), upload, attempt };
    let state = |reply| match reply {
        Ok(Reply::Upload { upload }) => upload.state,
        other => panic!("{other:?}"),
    };
    assert_eq!(state(bed.tell(reopen(7))), UploadState::Completing, "another attempt's, that comes late");
    assert_eq!(state(bed.tell(reopen(1))), UploadState::Open);
    bed.part(upload, 2, 5, "y").unwrap();
    assert_eq!(bed.complete(upload, &[(2, 5)]).unwrap().0.chosen, [2]);
}

#[test]
fn an_abort_frees_all_data() {
    let mut bed = Bed::new();
    let upload = bed.create("k");
    for number in 1..6 {
        bed.part(upload, number, 5, &format!("at {number}")).unwrap();
    }
    bed.tell(Command::Abort { key: "k".into(), upload }).unwrap();
    bed.tell(Command::Abort { key: "k".into(), upload }).unwrap();
    assert_eq!(bed.part(upload, 1, 1, "x"), Err("NoSuchUpload"));
    assert_eq!(bed.ask(Query::Open).unwrap(), Reply::Open { uploads: 0, bytes: 0 });
    bed.now_ms += 1;
    assert_eq!(bed.collect(), ["at 1", "at 2", "at 3", "at 4", "at 5"]);
}

fn uploads(bed: &Bed, prefix: &str, delimiter: &str, marker: (&str, Option<u64>), limit: u32) -> (Vec<String>, bool) {
    let text = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    let (prefix, delimiter, key_marker) = (text(prefix), text(delimiter), text(marker.0));
    let query = Query::ListUploads { prefix, delimiter, key_marker, upload_marker: marker.1, limit };
    let Ok(Reply::Uploads { items, more }) = bed.ask(query) else { panic!() };
    let line = |item| match item {
        UploadItem::Upload { key, upload, .. } => format!("{}#{upload}", String::from_utf8(key.to_vec()).unwrap()),
        UploadItem::Prefix { prefix } => String::from_utf8(prefix.to_vec()).unwrap(),
    };
    (items.into_iter().map(line).collect(), more)
}

#[test]
fn uploads_are_listed_by_key_and_age() {
    let mut bed = Bed::new();
    for key in ["b", "a/1", "a/2", "a/1", "c", "b"] {
        bed.create(key);
    }
    bed.tell(Command::Abort { key: "c".into(), upload: 5 }).unwrap();
    let all = ["a/1#2", "a/1#4", "a/2#3", "b#1", "b#6"];
    assert_eq!(uploads(&bed, "", "", ("", None), 9), (all.map(String::from).to_vec(), false));
    assert_eq!(uploads(&bed, "", "/", ("", None), 9), (["a/", "b#1", "b#6"].map(String::from).to_vec(), false));
    assert_eq!(uploads(&bed, "", "/", ("a/", None), 1), (vec!["b#1".into()], true));
    assert_eq!(uploads(&bed, "", "", ("a/1", Some(2)), 2), (["a/1#4", "a/2#3"].map(String::from).to_vec(), true));
    assert_eq!(uploads(&bed, "a/", "/", ("a/1", None), 9), (vec!["a/2#3".into()], false));
    assert_eq!(uploads(&bed, "", "", ("", None), 0), (vec![], false));
}

#[test]
fn old_uploads_are_found_by_age() {
    let mut bed = Bed::new();
    for day in 0..4 {
        bed.now_ms = 1_000 + day * 100;
        bed.create("k");
    }
    let older = |before_unix_ms, after, limit| match bed.ask(Query::Older { before_unix_ms, after, limit }) {
        Ok(Reply::Uploads { items, more }) => (items.len(), more),
        other => panic!("{other:?}"),
    };
    assert_eq!((older(1_200, 0, 9), older(9_999, 0, 3), older(9_999, 3, 3)), ((2, false), (3, true), (1, false)));
}

#[test]
fn bytes_given_inline_come_with_the_completion() {
    let mut bed = Bed::new();
    let upload = bed.create("k");
    bed.part(upload, 1, FULL, "one").unwrap();
    let part = |at_unix_ms| Part {
        number: 2,
        etag: format!("{:032x}", 3),
        size: 3,
        at_unix_ms,
        checksums: Bytes::new(),
        location: Bytes::new(),
    };
    let put = |at, inline: &'static [u8]| {
        let (inline, data_expires_ms) = (Some(Bytes::from_static(inline)), Some(50));
        Command::PutPart { key: "k".into(), upload, part: part(at), inline, data_expires_ms }
    };
    assert_eq!(bed.tell(put(51, b"abc")).unwrap_err().code.as_str(), "RequestTimeout");
    bed.tell(put(50, b"abc")).unwrap();
    let names = [(1, FULL), (2, 3)].map(|(number, size)| PartName { number, etag: format!("{size:032x}") });
    let begin = Command::BeginComplete { key: "k".into(), upload, parts: names.to_vec() };
    for _ in 0..2 {
        let Ok(Reply::Completion { inline, parts, .. }) = bed.tell(begin.clone()) else { panic!() };
        assert_eq!((inline, parts.len()), (Some(Bytes::from_static(b"abc")), 2));
    }
    bed.tell(Command::Finish { key: "k".into(), upload, outcome: outcome(1, true) }).unwrap();
    bed.now_ms += CLOSED_KEEP_MS + 1;
    assert!(bed.collect().is_empty(), "the object has them");
    assert!(bed.space.rows.keys().all(|key| key[0] != b'd'));
}

#[test]
fn a_part_of_an_upload_that_may_become_an_object_names_its_place() {
    let mut bed = Bed::new();
    let ask = |bed: &Bed, after| {
        let locations = ["a", "b", "c", "d"].map(|place| Bytes::copy_from_slice(place.as_bytes())).to_vec();
        match bed.ask(Query::Names { key: "k".into(), after, locations }) {
            Ok(Reply::Named { locations, after: None }) => locations,
            other => panic!("{other:?}"),
        }
    };
    let uploads: Vec<u64> = (0..3).map(|_| bed.create("k")).collect();
    for (upload, place) in uploads.iter().zip(["a", "b", "c"]) {
        bed.part(*upload, 1, 5, place).unwrap();
    }
    bed.tell(Command::Abort { key: "k".into(), upload: uploads[1] }).unwrap();
    bed.complete(uploads[2], &[(1, 5)]).unwrap();
    assert_eq!(ask(&bed, None), ["a", "c"]);
    assert_eq!(ask(&bed, Some((uploads[0], 1))), ["c"]);
    bed.tell(Command::Finish { key: "k".into(), upload: uploads[2], outcome: outcome(1, true) }).unwrap();
    assert_eq!(ask(&bed, None), ["a"], "from now on the object names it");
}

#[test]
fn a_bucket_that_goes_frees_its_uploads() {
    let mut bed = Bed::new();
    assert_eq!(bed.tell(Command::AbortAll { limit: 9 }).unwrap_err().code.as_str(), "Conflict");
    let uploads: Vec<u64> = (0..4).map(|_| bed.create("k")).collect();
    for (at, upload) in uploads.iter().enumerate() {
        bed.part(*upload, 1, 5, &format!("used {at}")).unwrap();
        bed.part(*upload, 2, 5, &format!("unused {at}")).unwrap();
    }
    bed.complete(uploads[1], &[(1, 5)]).unwrap();
    bed.complete(uploads[2], &[(1, 5)]).unwrap();
    bed.tell(Command::Finish { key: "k".into(), upload: uploads[2], outcome: outcome(1, true) }).unwrap();
    bed.tell(Command::Close).unwrap();
    assert_eq!(bed.part(uploads[0], 3, 1, "x"), Err("BucketClosing"));
    bed.tell(Command::Unclose).unwrap();
    assert_eq!(bed.part(uploads[0], 3, 1, "x"), Ok(None));
    bed.tell(Command::Close).unwrap();
    while bed.tell(Command::AbortAll { limit: 2 }).unwrap() != (Reply::Removed { more: false }) {}
    let mut freed = bed.freed();
    freed.sort();
    let expected = ["unused 0", "unused 1", "unused 2", "unused 3", "used 0", "used 1", "used 3", "x"];
    assert_eq!(freed, expected, "all but what an object has");
}
