//! Uploads in parts: to their end, interrupted at every step, raced by others, swept.

use super::bed::{self, body, get, put, Old, BUCKET};
use super::world::{Running, World};
use crate::clusters;
use crate::uploads::sweep;
use base_types::s3::*;
use base_types::{BackendKind, Refusal};
use bytes::Bytes;
use core_backends::multipart::{Query, Reply, CLOSED_KEEP_MS};
use core_backends::shard;

const FULL: u64 = PART_BYTES_MIN;

fn create(world: &mut World, key: &str) -> String {
    let call = CreateMultipartUpload { bucket: BUCKET.into(), key: key.into(), ..CreateMultipartUpload::default() };
    world.ask::<UploadCreated>(call).unwrap().upload_id
}

fn part_call(key: &str, upload_id: &str, part_number: u32, location: &str) -> UploadPart {
    UploadPart {
        bucket: BUCKET.into(),
        key: key.into(),
        upload_id: upload_id.into(),
        part_number,
        data: Data::Location(location.into()),
        size: FULL,
        etag: etag::hex(&etag::md5(location.as_bytes())),
        ..UploadPart::default()
    }
}

fn part(world: &mut World, key: &str, upload_id: &str, part_number: u32, location: &str) {
    world.call(part_call(key, upload_id, part_number, location)).unwrap();
}

fn complete_call(key: &str, upload_id: &str, parts: &[(u32, &str)]) -> CompleteMultipartUpload {
    let one = |(part_number, location): &(u32, &str)| CompletedPart {
        part_number: *part_number,
        etag: etag::hex(&etag::md5(location.as_bytes())),
        checksums: Checksums::default(),
    };
    CompleteMultipartUpload {
        bucket: BUCKET.into(),
        key: key.into(),
        upload_id: upload_id.into(),
        parts: parts.iter().map(one).collect(),
        ..CompleteMultipartUpload::default()
    }
}

fn abort_call(key: &str, upload_id: &str) -> AbortMultipartUpload {
    AbortMultipartUpload {
        bucket: BUCKET.into(),
        key: key.into(),
        upload_id: upload_id.into(),
        if_match_initiated_time_ms: None,
    }
}

/// Places that wait to be removed.
fn freed(world: &mut World) -> Vec<String> {
    let cluster = clusters::bucket(bed::id(world)).unwrap();
    match world.look(&cluster, BackendKind::Multipart, &Query::Freed { after: 0, limit: 200, aged_ms: 0 }).unwrap() {
        Reply::Freed { rows, .. } => {
            let places = rows.into_iter().flat_map(|row| row.locations);
            places.map(|place| String::from_utf8(place.to_vec()).unwrap()).collect()
        }
        other => panic!("{other:?}"),
    }
}

fn versions(world: &mut World, key: &str) -> Vec<VersionEntry> {
    let call = ListObjectVersions { bucket: BUCKET.into(), prefix: key.into(), ..ListObjectVersions::default() };
    world.ask::<VersionPage>(call).unwrap().versions
}

/// A world that keeps versions, so that nothing put twice goes unseen.
fn world(seed: u64) -> World {
    let mut world = bed::world(seed);
    bed::set(&mut world, |info| info.versioning = Some(Versioning::Enabled));
    world
}

#[test]
fn an_upload_becomes_an_object_of_its_parts() {
    let mut world = bed::world(1);
    let headers = ObjectHeaders { content_type: Some("video/mp4".into()), ..ObjectHeaders::default() };
    let created: UploadCreated = world
        .ask(CreateMultipartUpload {
            bucket: BUCKET.into(),
            key: "k".into(),
            headers: headers.clone(),
            checksum_algorithm: Some(ChecksumAlgorithm::Crc32),
            checksum_type: Some(ChecksumType::Composite),
            ..CreateMultipartUpload::default()
        })
        .unwrap();
    let id = created.upload_id;
    part(&mut world, "k", &id, 1, "one");
    part(&mut world, "k", &id, 3, "wrong");
    part(&mut world, "k", &id, 3, "three");
    assert_eq!(freed(&mut world), ["wrong"]);
    let last = Bytes::from_static(b"the last");
    let checksums = Checksums { crc32: Some("AAAAAA==".into()), ..Checksums::default() };
    let (data, size) = (Data::Inline(last.clone()), last.len() as u64);
    world.call(UploadPart { data, size, checksums: checksums.clone(), ..part_call("k", &id, 9, "last") }).unwrap();
    let list = ListParts { bucket: BUCKET.into(), key: "k".into(), upload_id: id.clone(), ..ListParts::default() };
    let page: Parts = world.ask(ListParts { max_parts: Some(2), ..list.clone() }).unwrap();
    assert_eq!((page.parts.len(), page.is_truncated, page.next_part_number_marker), (2, true, Some(3)));
    assert_eq!(page.upload.checksum_algorithm, Some(ChecksumAlgorithm::Crc32));
    let page: Parts = world.ask(ListParts { part_number_marker: Some(3), ..list.clone() }).unwrap();
    assert_eq!((&page.parts[0].checksums, page.is_truncated), (&checksums, false));
    let page: Parts = world.ask(ListParts { max_parts: Some(0), ..list.clone() }).unwrap();
    assert_eq!((page.parts.len(), &page.upload.upload_id), (0, &id));

    let whole =
        Checksums { crc32: Some("x-3".into()), checksum_type: Some(ChecksumType::Composite), ..Default::default() };
    let mut call = complete_call("k", &id, &[(1, "one"), (3, "three"), (9, "last")]);
    call.checksums = whole.clone();
    let answer: PutObjectAnswer = world.ask(call.clone()).unwrap();
    assert_eq!((answer.size, answer.etag.ends_with("-3")), (2 * FULL + 8, true));
    assert_eq!(world.ask::<PutObjectAnswer>(call).unwrap(), answer, "said again");
    let found = get(&mut world, "k").unwrap();
    assert_eq!((&found.headers, &found.checksums, found.parts_count), (&headers, &whole, Some(3)));
    let Some(Data::Parts(parts)) = &found.data else { panic!("{found:?}") };
    let places: Vec<_> = parts.iter().map(|part| (part.part_number, part.data.clone())).collect();
    let wanted = [(1, Data::Location("one".into())), (3, Data::Location("three".into())), (9, Data::Inline(last))];
    assert_eq!(places, wanted);
    assert_eq!(parts[2].checksums, checksums);
    let head: ObjectVersion =
        world.ask(HeadObject { bucket: BUCKET.into(), key: "k".into(), ..HeadObject::default() }).unwrap();
    assert!(matches!(head.data, Some(Data::Parts(parts)) if parts.len() == 3));
    assert_eq!(world.call(list).unwrap_err().code.as_str(), "NoSuchUpload");
}

#[test]
fn uploads_are_listed_by_key_and_then_by_age() {
    let mut world = bed::world(2);
    let mut ids = Vec::new();
    for key in ["b", "a/1", "a/2", "b", "c"] {
        ids.push((key, create(&mut world, key)));
    }
    world.call(abort_call("c", &ids[4].1)).unwrap();
    ids.sort();
    ids.pop();
    let call = ListMultipartUploads { bucket: BUCKET.into(), ..ListMultipartUploads::default() };
    let mut paged = ListMultipartUploads { max_uploads: Some(1), ..call.clone() };
    let mut found = Vec::new();
    loop {
        let page: Uploads = world.ask(paged.clone()).unwrap();
        found.extend(page.uploads.into_iter().map(|entry| (entry.key, entry.upload_id)));
        (paged.key_marker, paged.upload_id_marker) = (page.next_key_marker, page.next_upload_id_marker);
        if !page.is_truncated {
            break;
        }
    }
    assert_eq!(found, ids.iter().map(|(key, id)| ((*key).to_owned(), id.clone())).collect::<Vec<_>>());
    let grouped: Uploads = world.ask(ListMultipartUploads { delimiter: Some("/".into()), ..call.clone() }).unwrap();
    assert_eq!((grouped.uploads.len(), &grouped.common_prefixes[..]), (2, &["a/".to_owned()][..]));
    assert_eq!(grouped.uploads[0].owner.as_ref().unwrap().id, "ann");
    let wrong = ListMultipartUploads { key_marker: Some("b".into()), upload_id_marker: Some("x".into()), ..call };
    assert_eq!(world.call(wrong).unwrap_err().code.as_str(), "InvalidArgument");
}

#[test]
fn what_is_no_upload_or_no_part_is_refused() {
    let mut world = bed::world(3);
    let id = create(&mut world, "k");
    part(&mut world, "k", &id, 1, "one");
    let inline = Data::Inline(Bytes::from_static(b"x"));
    let parts = |parts: &[(u32, &str)]| -> S3Action { complete_call("k", &id, parts).into() };
    let sized = CompleteMultipartUpload { mpu_object_size: Some(1), ..complete_call("k", &id, &[(1, "one")]) };
    let mut summed = complete_call("k", &id, &[(1, "one")]);
    summed.parts[0].checksums.sha1 = Some("other".into());
    let table: Vec<(S3Action, &str)> = vec![
        (part_call("k", "nonsense", 1, "x").into(), "NoSuchUpload"),
        (part_call("other", &id, 1, "x").into(), "NoSuchUpload"),
        (part_call("k", &id, 0, "x").into(), "InvalidArgument"),
        (part_call("k", &id, 10_001, "x").into(), "InvalidArgument"),
        (UploadPart { data: inline, ..part_call("k", &id, 1, "x") }.into(), "InvalidRequest"),
        (UploadPart { size: PUT_BYTES_MAX + 1, ..part_call("k", &id, 1, "x") }.into(), "EntityTooLarge"),
        (UploadPart { data_expires_ms: Some(1), ..part_call("k", &id, 1, "x") }.into(), "RequestTimeout"),
        (parts(&[]), "MalformedXML"),
        (parts(&[(2, "two"), (1, "one")]), "InvalidPartOrder"),
        (parts(&[(1, "other")]), "InvalidPart"),
        (parts(&[(1, "one"), (2, "two")]), "InvalidPart"),
        (sized.into(), "InvalidRequest"),
        (summed.into(), "InvalidPart"),
        (
            AbortMultipartUpload { if_match_initiated_time_ms: Some(1), ..abort_call("k", &id) }.into(),
            "PreconditionFailed",
        ),
    ];
    for (call, code) in table {
        assert_eq!(world.call(call.clone()).unwrap_err().code.as_str(), code, "{call:?}");
    }
    world.call(complete_call("k", &id, &[(1, "one")])).unwrap();
    assert_eq!(world.call(abort_call("k", &id)).unwrap_err().code.as_str(), "NoSuchUpload");
    assert!(freed(&mut world).is_empty());
}

#[test]
fn a_condition_that_does_not_hold_leaves_the_upload_open() {
    let mut world = world(4);
    put(&mut world, "k", "there");
    let id = create(&mut world, "k");
    part(&mut world, "k", &id, 1, "one");
    let mut call = complete_call("k", &id, &[(1, "one")]);
    call.conditions.if_none_match = Some("*".into());
    assert_eq!(world.call(call.clone()).unwrap_err().code.as_str(), "PreconditionFailed");
    part(&mut world, "k", &id, 2, "two");
    assert_eq!(world.call(call).unwrap_err().code.as_str(), "PreconditionFailed");
    world.call(complete_call("k", &id, &[(1, "one"), (2, "two")])).unwrap();
    assert_eq!(versions(&mut world, "k").len(), 2);
    assert_eq!(get(&mut world, "k").unwrap().parts_count, Some(2));
}

#[test]
fn a_quota_that_would_be_exceeded_leaves_the_upload_open() {
    let mut world = world(14);
    let id = create(&mut world, "k");
    part(&mut world, "k", &id, 1, "one");
    part(&mut world, "k", &id, 2, "two");
    let quota = |bytes_max| Some(Quota { bytes_max: Some(bytes_max), keys_max: None });
    bed::set(&mut world, |info| info.quota = quota(FULL));
    let both = complete_call("k", &id, &[(1, "one"), (2, "two")]);
    assert_eq!(world.call(both).unwrap_err().code.as_str(), "QuotaExceeded");
    world.call(complete_call("k", &id, &[(2, "two")])).unwrap();
    assert_eq!(versions(&mut world, "k").len(), 1);
}

#[test]
fn parts_of_open_uploads_count_against_a_quota() {
    let mut world = world(15);
    let id = create(&mut world, "k");
    part(&mut world, "k", &id, 1, "one");
    let quota = |bytes_max| Some(Quota { bytes_max: Some(bytes_max), keys_max: Some(1) });
    bed::set(&mut world, |info| info.quota = quota(FULL + FULL / 2));
    assert_eq!(world.call(part_call("k", &id, 2, "two")).unwrap_err().code.as_str(), "QuotaExceeded");
    let object = || PutObject {
        bucket: BUCKET.into(),
        key: "other".into(),
        data: Data::Location("elsewhere".into()),
        size: FULL,
        etag: "e".into(),
        ..PutObject::default()
    };
    assert_eq!(world.call(object()).unwrap_err().code.as_str(), "QuotaExceeded");
    world.call(abort_call("k", &id)).unwrap();
    world.call(object()).unwrap();
    let id = create(&mut world, "k");
    assert_eq!(world.call(part_call("k", &id, 1, "one")).unwrap_err().code.as_str(), "QuotaExceeded");
}

/// Runs a call for so many steps and leaves it.
fn leave_after(world: &mut World, core: usize, call: impl Into<S3Action>, steps: u32) -> Running {
    let mut running = world.begin(core, call).unwrap();
    for _ in 0..steps {
        if running.response.is_none() {
            world.step(&mut running);
        }
    }
    running
}

#[test]
fn a_completion_left_at_any_step_is_ended_by_the_next() {
    for steps in 0..14 {
        for split in [false, true] {
            let mut world = world(5);
            let id = create(&mut world, "k");
            part(&mut world, "k", &id, 1, "one");
            let call = complete_call("k", &id, &[(1, "one")]);
            let mut first = leave_after(&mut world, 1, call.clone(), steps);
            if split {
                bed::split(&mut world, &["c"], Old::Gone);
            }
            let answer: PutObjectAnswer = world.ask(call).unwrap();
            // The delayed one continues at last, gets the same answers and does the same.
            let late = world.finish(&mut first).unwrap();
            assert_eq!(PutObjectAnswer::try_from(late).unwrap(), answer, "after {steps} steps");
            assert_eq!(versions(&mut world, "k").len(), 1, "after {steps} steps");
            assert!(freed(&mut world).is_empty());
        }
    }
}

#[test]
fn an_upload_left_completing_can_be_aborted_and_then_nothing_puts_it() {
    for steps in 0..14 {
        let mut world = world(6);
        let id = create(&mut world, "k");
        part(&mut world, "k", &id, 1, "one");
        let mut first = leave_after(&mut world, 1, complete_call("k", &id, &[(1, "one")]), steps);
        let aborted = world.call(abort_call("k", &id));
        let late = world.finish(&mut first);
        let there = versions(&mut world, "k").len();
        world.now_ms += CLOSED_KEEP_MS + 1;
        sweep_now(&mut world, "k", &id);
        assert_eq!(aborted.is_ok(), late.is_err(), "after {steps} steps: {aborted:?} {late:?}");
        assert_eq!(there, usize::from(late.is_ok()), "after {steps} steps");
        assert_eq!(freed(&mut world).is_empty(), late.is_ok(), "after {steps} steps");
    }
}

/// What follows an upload's end in the background.
fn sweep_now(world: &mut World, key: &str, id: &str) {
    let planner = sweep::follow_up(&abort_call(key, id).into()).unwrap();
    let mut running = Running::new(0, planner);
    for _ in 0..1_000 {
        if running.response.is_some() {
            return;
        }
        world.step(&mut running);
        world.now_ms += 1;
    }
    panic!("a sweep does not end");
}

/// Tokens that shards keep.
fn tokens(world: &World) -> usize {
    let mut count = 0;
    for ((name, _), space) in &world.spaces {
        if name.as_str().starts_with("shard@") {
            let range = base_engine::KeyRange { start: b"o", end: Some(b"p") };
            core_backends::SpaceRead::range(space, range, base_engine::Direction::Forward, &mut |_, _| {
                count += 1;
                core::ops::ControlFlow::Continue(())
            })
            .unwrap();
        }
    }
    count
}

#[test]
fn what_an_upload_leaves_is_swept_in_time_and_not_before() {
    let mut world = world(7);
    for key in ["a", "b", "z"] {
        let id = create(&mut world, key);
        part(&mut world, key, &id, 1, &format!("{key}1"));
        part(&mut world, key, &id, 2, &format!("{key}2"));
        let mut refused = complete_call(key, &id, &[(1, &format!("{key}1"))]);
        refused.conditions.if_match = Some("*".into());
        assert_eq!(world.call(refused).unwrap_err().code.as_str(), "NoSuchKey");
        if key == "b" {
            world.call(abort_call(key, &id)).unwrap();
        } else {
            world.call(complete_call(key, &id, &[(1, &format!("{key}1"))])).unwrap();
        }
    }
    bed::split(&mut world, &["c"], Old::Gone);
    sweep_now(&mut world, "a", "");
    assert_eq!((freed(&mut world).len(), tokens(&world)), (0, 5));
    world.now_ms += CLOSED_KEEP_MS + 1;
    sweep_now(&mut world, "a", "");
    let mut places = freed(&mut world);
    places.sort();
    assert_eq!((places, tokens(&world)), (["a2", "b1", "b2", "z2"].map(String::from).to_vec(), 0));
    let cluster = clusters::bucket(bed::id(&mut world)).unwrap();
    let due: Reply = world.look(&cluster, BackendKind::Multipart, &Query::Due { limit: 9 }).unwrap();
    assert_eq!(due, Reply::Due { uploads: vec![] });
}

/// Repeats a call until its outcome is known, as a client does.
fn until_known(world: &mut World, core: usize, call: &S3Action) -> Result<S3Answer, Refusal> {
    for _ in 0..200 {
        match world.call_on(core, call.clone()) {
            Err(refusal) if refusal.kind().retryable() => continue,
            outcome => return outcome,
        }
    }
    panic!("{} does not come to an end", call.name());
}

#[test]
fn completions_and_aborts_race_under_lost_and_late_answers() {
    let mut won = [0, 0];
    for seed in 0..150 {
        let mut world = world(seed);
        let id = create(&mut world, "k");
        part(&mut world, "k", &id, 1, "one");
        part(&mut world, "k", &id, 2, "two");
        (world.lost, world.late) = (100, 100);
        let mut conditional = complete_call("k", &id, &[(1, "one")]);
        conditional.conditions.if_none_match = Some("*".into());
        let calls: [S3Action; 4] = [
            conditional.into(),
            complete_call("k", &id, &[(1, "one")]).into(),
            complete_call("k", &id, &[(1, "one"), (2, "two")]).into(),
            abort_call("k", &id).into(),
        ];
        let taken = 2 + world.random.below(3) as usize;
        let mut all: Vec<Running> =
            calls.iter().take(taken).enumerate().map(|(at, call)| world.begin(at % 3, call.clone()).unwrap()).collect();
        world.race(&mut all);
        let aborted = until_known(&mut world, 1, &calls[3]);
        (world.lost, world.late) = (0, 0);
        world.settle();
        let there = versions(&mut world, "k").len();
        assert!(there <= 1, "seed {seed}: {there} versions of one upload");
        assert_eq!(aborted.is_ok(), there == 0, "seed {seed}: {aborted:?}");
        won[there] += 1;
        world.now_ms += CLOSED_KEEP_MS + 1;
        sweep_now(&mut world, "k", &id);
        let free = freed(&mut world);
        let used = match get(&mut world, "k").ok().and_then(|found| found.data) {
            Some(data) => data.locations().into_iter().map(str::to_owned).collect(),
            None => Vec::new(),
        };
        let mut places = [free, used].concat();
        places.sort();
        assert_eq!(places, ["one", "two"], "seed {seed}: each place is used or freed, never both");
        let told = all.iter().filter(|one| one.code().is_empty()).count();
        assert!(there == 1 || told <= 1, "seed {seed}: {told} say that it went well");
    }
    assert!(won[0] > 10 && won[1] > 10, "{won:?}");
}

#[test]
fn a_put_repeated_under_its_id_is_one() {
    let mut world = world(8);
    let terms = crate::request::Terms { request_id: Some(base_types::RequestId(7)), ..Default::default() };
    let mut told = Vec::new();
    for (core, split) in [(0, false), (1, false), (2, true), (0, false)] {
        world.now_ms += 1_000;
        if split {
            bed::tell_shard(&mut world, 1, &shard::Command::Freeze { epoch: 1, lease_ms: 5 });
        }
        let call = bed::put_call("k", "1");
        let mut running = Running::new(core, crate::planner_for(call.into(), &terms).unwrap());
        told.push(PutObjectAnswer::try_from(world.finish(&mut running).unwrap()).unwrap());
    }
    assert_eq!(versions(&mut world, "k").len(), 1);
    let found = get(&mut world, "k").unwrap();
    assert_eq!(body(&found), "1");
    assert!(told.iter().all(|again| *again == told[0]), "{told:?}");
    assert_eq!((told[0].last_modified_ms, &told[0].version_id), (found.last_modified_ms, &found.version_id));
}

#[test]
fn a_completion_over_an_object_tells_its_own_time() {
    let mut world = bed::world(10);
    let first = put(&mut world, "k", "0").last_modified_ms;
    world.now_ms += 5_000;
    let id = create(&mut world, "k");
    part(&mut world, "k", &id, 1, "one");
    let call = complete_call("k", &id, &[(1, "one")]);
    let answer: PutObjectAnswer = world.ask(call.clone()).unwrap();
    world.now_ms += 5_000;
    let again: PutObjectAnswer = world.ask(call).unwrap();
    let found = get(&mut world, "k").unwrap();
    assert!(answer.last_modified_ms >= first + 5_000, "{answer:?} behind {first}");
    assert_eq!((again, found.last_modified_ms), (answer.clone(), answer.last_modified_ms));
}

#[test]
fn a_part_is_copied_from_a_range() {
    let mut world = bed::world(9);
    put(&mut world, "from", "0123456789");
    let id = create(&mut world, "to");
    let copy_source = CopySource { bucket: BUCKET.into(), key: "from".into(), version_id: None };
    let call = UploadPartCopy {
        bucket: BUCKET.into(),
        key: "to".into(),
        upload_id: id.clone(),
        part_number: 1,
        copy_source,
        copy_source_range: Some((2, 5)),
        location: None,
    };
    let copied: PartUploaded = world.ask(call.clone()).unwrap();
    assert_eq!(copied.etag, etag::hex(&etag::md5(b"2345")));
    for range in [(5, 10), (6, 5)] {
        let wrong = UploadPartCopy { copy_source_range: Some(range), ..call.clone() };
        assert_eq!(world.call(wrong).unwrap_err().code.as_str(), "InvalidRange");
    }
    world.call(complete_call("to", &id, &[(1, "2345")])).unwrap();
    let found = get(&mut world, "to").unwrap();
    let Some(Data::Parts(parts)) = &found.data else { panic!("{found:?}") };
    assert_eq!(parts[0].data, Data::Inline(Bytes::from_static(b"2345")));
}
