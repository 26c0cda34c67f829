//! Objects put, read, changed and deleted.

use super::bed::{self, body, delete, get, put, put_call, Old, BUCKET};
use super::world::{Running, World};
use base_types::s3::*;
use base_types::BackendKind;
use bytes::Bytes;
use core_flow::Call;

fn versioned(seed: u64) -> World {
    let mut world = bed::world(seed);
    bed::set(&mut world, |info| info.versioning = Some(Versioning::Enabled));
    world
}

#[test]
fn encryption_that_is_not_done_is_refused() {
    let mut world = bed::world(1);
    let mut call = put_call("secret", "bytes");
    call.headers.server_side_encryption = Some("AES256".into());
    let refused = world.ask::<PutObjectAnswer>(call).unwrap_err();
    assert_eq!(refused.code.as_str(), "NotImplemented");
    assert!(get(&mut world, "secret").is_err(), "nothing was put");
}

#[test]
fn an_object_comes_back_with_all_that_was_said_of_it() {
    let mut world = bed::world(1);
    let mut call = put_call("a/ü", "bytes");
    let text = |text: &str| Some(text.to_owned());
    call.headers = ObjectHeaders {
        content_type: text("text/plain"),
        content_encoding: text("gzip"),
        content_language: text("fr"),
        content_disposition: text("inline"),
        cache_control: text("no-cache"),
        expires: text("Thu, 01 Dec 1994 16:00:00 GMT"),
        website_redirect_location: text("/b"),
        storage_class: text("GLACIER"),
        server_side_encryption: None,
        metadata: [("one".to_owned(), "1".to_owned()), ("ü".to_owned(), String::new())].into(),
    };
    call.checksums.sha256 = text("c2hh");
    call.checksums.crc32 = text("Y3Jj");
    call.checksums.checksum_type = Some(ChecksumType::FullObject);
    call.tags = vec![Tag { key: "k".into(), value: "v".into() }];
    let owner = Owner { id: "ben".into(), display_name: "Ben".into() };
    let grants = vec![Grant { grantee: Grantee::AllUsers, permission: Permission::Read }];
    call.acl = Some(Acl { owner, grants });
    let answer: PutObjectAnswer = world.ask(call.clone()).unwrap();
    assert_eq!((&answer.etag, answer.version_id.clone(), answer.size), (&call.etag, None, 5));
    let found = get(&mut world, "a/ü").unwrap();
    assert_eq!(body(&found), "bytes");
    let expected = ObjectVersion {
        key: call.key.clone(),
        last_modified_ms: answer.last_modified_ms,
        size: 5,
        etag: call.etag,
        checksums: call.checksums,
        headers: call.headers,
        tags: call.tags,
        acl: call.acl.unwrap(),
        data: found.data.clone(),
        ..ObjectVersion::default()
    };
    assert_eq!(found, expected);
    let head: ObjectVersion =
        world.ask(HeadObject { bucket: BUCKET.into(), key: call.key, ..HeadObject::default() }).unwrap();
    assert_eq!(head, ObjectVersion { data: None, ..expected });
}

#[test]
fn what_is_usual_is_not_written_and_comes_back_all_the_same() {
    let mut world = bed::world(2);
    let mut call = put_call("k", "");
    let owner = Owner { id: "ann".into(), display_name: "Ann".into() };
    let grants = vec![Grant { grantee: Grantee::CanonicalUser("ann".into()), permission: Permission::FullControl }];
    call.acl = Some(Acl { owner: owner.clone(), grants: grants.clone() });
    call.headers.storage_class = Some("STANDARD".into());
    world.call(call).unwrap();
    let found = get(&mut world, "k").unwrap();
    assert_eq!((found.acl.grants, found.acl.owner.id, found.headers.storage_class), (grants, owner.id, None));
    assert_eq!(found.data, Some(Data::Inline(Bytes::new())));
    let (found, _) = one_row(&mut world);
    assert!(found < 64, "{found} bytes for an empty object");
}

/// How long the only version's row is, and how many rows there are.
fn one_row(world: &mut World) -> (usize, usize) {
    let rows: Vec<_> = world.spaces.iter().filter(|((name, _), _)| name.as_str().starts_with("shard@")).collect();
    let space = rows[0].1;
    let mut longest = 0;
    let mut count = 0;
    core_backends::SpaceRead::range(
        space,
        base_engine::KeyRange { start: b"v", end: Some(b"w") },
        base_engine::Direction::Forward,
        &mut |key, row| {
            (longest, count) = (longest.max(key.len() + row.len()), count + 1);
            core::ops::ControlFlow::Continue(())
        },
    )
    .unwrap();
    (longest, count)
}

#[test]
fn the_warm_path_is_one_call() {
    let mut world = bed::world(3);
    put(&mut world, "a", "1");
    let before = world.calls;
    put(&mut world, "a", "2");
    assert_eq!(body(&get(&mut world, "a").unwrap()), "2");
    delete(&mut world, "a", None);
    assert_eq!(world.calls - before, 3);
    assert_eq!(get(&mut world, "a").unwrap_err().code.as_str(), "NoSuchKey");
}

#[test]
fn calls_of_a_bucket_in_use_never_wait_for_its_record() {
    let mut world = bed::world(3);
    put(&mut world, "a", "1");
    let (mut rounds, before) = (0, world.calls);
    for _ in 0..20 {
        world.now_ms += 200;
        let mut running = world.begin(0, put_call("a", "1")).unwrap();
        world.step(&mut running);
        // Whatever is asked beside, the put is asked at once.
        let first = running.queue.front().map(|(_, call)| call);
        let is_put = |call: &Call| matches!(call, Call::Write { cluster, .. } if cluster.has(BackendKind::Shard));
        rounds += usize::from(first.is_some_and(is_put));
        world.finish(&mut running).unwrap();
    }
    assert_eq!(rounds, 20);
    let refreshed = world.calls - before - 20;
    assert!((5..=8).contains(&refreshed), "{refreshed} times in four seconds");
    // One that is not used grows old, and is read before it is used.
    world.now_ms += 1_001;
    let before = world.calls;
    put(&mut world, "a", "1");
    assert_eq!(world.calls - before, 2);
}

#[test]
fn a_map_that_comes_late_is_not_taken_for_another_bucket_s() {
    let mut world = bed::world(3);
    put(&mut world, "a", "1");
    let id = bed::id(&mut world);
    world.states[0].cache.forget_map(id);
    let mut running = world.begin(0, put_call("a", "1")).unwrap();
    world.step(&mut running);
    world.states[0].cache.learn_id(BUCKET, id + 1);
    world.step(&mut running);
    assert!(world.states[0].cache.map(id + 1).is_none() && world.states[0].cache.map(id).is_some());
}

#[test]
fn versions_are_kept_marked_and_removed() {
    let mut world = bed::world(4);
    put(&mut world, "k", "null");
    bed::set(&mut world, |info| info.versioning = Some(Versioning::Enabled));
    let one = put(&mut world, "k", "one").version_id.unwrap();
    let two = put(&mut world, "k", "two").version_id.unwrap();
    assert!(one < two && one.len() == 20);
    let read = |world: &mut World, version: &str| -> Result<ObjectVersion, base_types::Refusal> {
        let version_id = Some(version.to_owned());
        world.ask(GetObject { bucket: BUCKET.into(), key: "k".into(), version_id, ..GetObject::default() })
    };
    for (version, expected) in [(&one[..], "one"), (&two, "two"), ("null", "null")] {
        let found = read(&mut world, version).unwrap();
        assert_eq!((body(&found), found.version_id.as_deref()), (expected, Some(version)));
    }
    let marker = delete(&mut world, "k", None);
    assert!(marker.delete_marker);
    let marker = marker.version_id.unwrap();
    assert_eq!(get(&mut world, "k").unwrap_err().code.as_str(), "NoSuchKey");
    assert!(read(&mut world, &marker).unwrap().delete_marker);
    assert_eq!(read(&mut world, "nonsense").unwrap_err().code.as_str(), "NoSuchVersion");
    assert_eq!(read(&mut world, &VersionStamp(7).text()).unwrap_err().code.as_str(), "NoSuchVersion");
    let gone = delete(&mut world, "k", Some(&marker));
    assert_eq!((gone.delete_marker, gone.version_id), (true, Some(marker)));
    assert_eq!(body(&get(&mut world, "k").unwrap()), "two");
    assert!(!delete(&mut world, "k", Some(&two)).delete_marker);
    assert_eq!(body(&get(&mut world, "k").unwrap()), "one");
    bed::set(&mut world, |info| info.versioning = Some(Versioning::Suspended));
    assert_eq!(put(&mut world, "k", "new null").version_id.as_deref(), Some("null"));
    assert_eq!(body(&read(&mut world, "null").unwrap()), "new null");
}

#[test]
fn conditions_hold_or_refuse() {
    let mut world = bed::world(5);
    let text = |text: &str| Some(text.to_owned());
    let write = |if_match: Option<&str>, if_none_match: Option<&str>| WriteConditions {
        if_match: if_match.map(str::to_owned),
        if_none_match: if_none_match.map(str::to_owned),
        ..WriteConditions::default()
    };
    let first = etag::hex(&etag::md5(b"1"));
    let quoted = format!("\"{first}\"");
    let table: [(&str, WriteConditions, &str); 9] = [
        ("absent", write(Some("*"), None), "NoSuchKey"),
        ("absent", write(Some("x"), None), "NoSuchKey"),
        ("absent", write(None, Some("*")), ""),
        ("there", write(None, Some("*")), "PreconditionFailed"),
        ("there", write(None, Some(&first)), "PreconditionFailed"),
        ("there", write(Some("x"), None), "PreconditionFailed"),
        ("there", write(Some(&quoted), None), ""),
        ("there", write(Some("*"), None), ""),
        ("there", write(None, Some("x")), ""),
    ];
    for (key, conditions, expected) in table {
        delete(&mut world, "absent", None);
        put(&mut world, "there", "1");
        let call = PutObject { conditions: conditions.clone(), ..put_call(key, "1") };
        let code = world.call(call).map_or_else(|refusal| refusal.code.as_str(), |_| "");
        assert_eq!(code, expected, "put of {key} under {conditions:?}");
        let (bucket, key) = (BUCKET.to_owned(), key.to_owned());
        let call = DeleteObject { bucket, key, conditions: conditions.clone(), ..DeleteObject::default() };
        put(&mut world, "there", "1");
        delete(&mut world, "absent", None);
        let code = world.call(call).map_or_else(|refusal| refusal.code.as_str(), |_| "");
        assert_eq!(code, expected, "delete under {conditions:?}");
    }
    put(&mut world, "k", "1");
    let reads = [
        (ReadConditions { if_match: text("x"), ..Default::default() }, "PreconditionFailed"),
        (ReadConditions { if_none_match: text(&first), ..Default::default() }, "NotModified"),
        (ReadConditions { if_modified_since_ms: Some(u64::MAX), ..Default::default() }, "NotModified"),
        (ReadConditions { if_unmodified_since_ms: Some(0), ..Default::default() }, "PreconditionFailed"),
        (ReadConditions { if_match: text(&first), if_unmodified_since_ms: Some(0), ..Default::default() }, ""),
    ];
    for (conditions, expected) in reads {
        let call = GetObject { bucket: BUCKET.into(), key: "k".into(), version_id: None, conditions };
        assert_eq!(world.call(call.clone()).map_or_else(|refusal| refusal.code.as_str(), |_| ""), expected, "{call:?}");
    }
}

#[test]
fn tags_acls_and_locks_are_changed_one_by_one() {
    let mut world = versioned(6);
    let id = put(&mut world, "k", "1").version_id;
    let (bucket, key) = (BUCKET.to_owned(), "k".to_owned());
    macro_rules! of_k {
        ($call:ident { $($field:ident: $value:expr),* }) => {
            $call { bucket: bucket.clone(), key: key.clone(), version_id: None, $($field: $value),* }
        };
    }
    let tags = vec![Tag { key: "a".into(), value: "b".into() }];
    let changed: VersionChanged = world.ask(of_k!(PutObjectTagging { tags: tags.clone() })).unwrap();
    assert_eq!(changed.version_id, id);
    let found: ObjectTagging = world.ask(of_k!(GetObjectTagging {})).unwrap();
    assert_eq!((found.tags, found.version_id), (tags.clone(), id));
    let twice = [tags.clone(), tags].concat();
    assert_eq!(world.call(of_k!(PutObjectTagging { tags: twice })).unwrap_err().code.as_str(), "InvalidTag");
    world.call(of_k!(DeleteObjectTagging {})).unwrap();
    assert_eq!(world.ask::<ObjectTagging>(of_k!(GetObjectTagging {})).unwrap().tags, []);

    let owner = Owner { id: "cy".into(), display_name: String::new() };
    let acl = Acl { owner, grants: vec![] };
    world.call(of_k!(PutObjectAcl { acl: acl.clone() })).unwrap();
    assert_eq!(world.ask::<AclAnswer>(of_k!(GetObjectAcl {})).unwrap().acl, acl);

    assert_eq!(world.call(of_k!(PutObjectLegalHold { legal_hold: true })).unwrap_err().code.as_str(), "InvalidRequest");
    bed::set(&mut world, |info| {
        info.object_lock = Some(ObjectLockConfiguration { enabled: true, default_retention: None });
    });
    world.call(of_k!(PutObjectLegalHold { legal_hold: true })).unwrap();
    assert!(world.ask::<LegalHold>(of_k!(GetObjectLegalHold {})).unwrap().legal_hold);
    assert_eq!(world.call(of_k!(GetObjectRetention {})).unwrap_err().code.as_str(), "NoSuchObjectLockConfiguration");
    let retention = Some(Retention { mode: RetentionMode::Governance, retain_until_ms: u64::MAX / 2 });
    let bypass_governance_retention = false;
    world
        .call(of_k!(PutObjectRetention {
            retention: retention,
            bypass_governance_retention: bypass_governance_retention
        }))
        .unwrap();
    let found: RetentionAnswer = world.ask(of_k!(GetObjectRetention {})).unwrap();
    assert_eq!(Some(found.retention), retention);
    let version_id = get(&mut world, "k").unwrap().version_id;
    let remove = DeleteObject { bucket: bucket.clone(), key: key.clone(), version_id, ..DeleteObject::default() };
    assert_eq!(world.call(remove).unwrap_err().code.as_str(), "AccessDenied");
    assert_eq!(
        world
            .call(of_k!(PutObjectRetention {
                retention: None,
                bypass_governance_retention: bypass_governance_retention
            }))
            .unwrap_err()
            .code
            .as_str(),
        "AccessDenied"
    );
    assert_eq!(world.call(of_k!(RestoreObject { days: None })).unwrap_err().code.as_str(), "InvalidObjectState");
    assert_eq!(world.call(of_k!(GetObjectAttributes {})).map(|_| ()), Ok(()));
}

#[test]
fn a_bucket_s_default_retention_is_put_on() {
    let mut world = versioned(7);
    let default_retention = Some(DefaultRetention { mode: RetentionMode::Compliance, days: Some(1), years: None });
    bed::set(&mut world, |info| info.object_lock = Some(ObjectLockConfiguration { enabled: true, default_retention }));
    let at = put(&mut world, "k", "1").last_modified_ms;
    let retention = get(&mut world, "k").unwrap().retention.unwrap();
    assert_eq!((retention.mode, retention.retain_until_ms), (RetentionMode::Compliance, at + 24 * 3600 * 1000));
}

#[test]
fn a_stale_map_is_read_again() {
    for old in [Old::Refuses, Old::Gone] {
        let mut world = bed::world(8);
        for key in ["a", "g", "p"] {
            put(&mut world, key, key);
        }
        let ids: Vec<_> = ["a", "g", "p"].map(|key| get(&mut world, key).unwrap()).to_vec();
        bed::split(&mut world, &["g", "p"], old);
        for (key, before) in ["a", "g", "p"].iter().zip(ids) {
            assert_eq!(get(&mut world, key).unwrap(), before, "behind the split");
        }
        for key in ["b", "h", "q"] {
            put(&mut world, key, "new");
            assert_eq!(body(&get(&mut world, key).unwrap()), "new");
        }
        // On another core that knows the old map only by its cache.
        let call = PutObject { conditions: WriteConditions::default(), ..put_call("z", "1") };
        world.call_on(1, call).unwrap();
    }
}

#[test]
fn many_are_deleted_in_the_order_asked_over_shards_and_splits() {
    let mut world = versioned(9);
    let keys = ["m", "a", "z", "g", "a", "absent"];
    for key in keys {
        put(&mut world, key, key);
    }
    bed::split(&mut world, &["g", "p"], Old::Refuses);
    let objects = |keys: &[&str]| {
        let one = |key: &&str| ObjectToDelete { key: (*key).to_owned(), ..ObjectToDelete::default() };
        keys.iter().map(one).collect::<Vec<_>>()
    };
    let mut asked = objects(&keys);
    asked[2].conditions.if_match = Some("another".into());
    asked[3].version_id = Some("nonsense".into());
    asked[5].version_id = Some("null".into());
    let call = DeleteObjects { bucket: BUCKET.into(), objects: asked.clone(), bypass_governance_retention: false };
    let found: DeleteObjectsAnswer = world.ask(call.clone()).unwrap();
    let told: Vec<_> = found.results.iter().map(|one| (&one.key[..], one.code.as_deref().unwrap_or(""))).collect();
    let wanted = [("m", ""), ("a", ""), ("z", "PreconditionFailed"), ("g", "NoSuchVersion"), ("a", ""), ("absent", "")];
    assert_eq!(told, wanted);
    assert!(found.results[0].deleted.as_ref().unwrap().delete_marker);
    assert_eq!(get(&mut world, "a").unwrap_err().code.as_str(), "NoSuchKey");
    assert_eq!(body(&get(&mut world, "g").unwrap()), "g");
    let many = DeleteObjects { objects: objects(&["x"; 1001]), ..call };
    assert_eq!(world.call(many).unwrap_err().code.as_str(), "MalformedXML");
}

#[test]
fn a_copy_has_the_bytes_and_what_is_not_said_anew() {
    let mut world = bed::world(10);
    let mut call = put_call("from", "bytes");
    call.headers.content_type = Some("text/plain".into());
    call.tags = vec![Tag { key: "a".into(), value: "b".into() }];
    world.call(call).unwrap();
    let source = CopySource { bucket: BUCKET.into(), key: "from".into(), version_id: None };
    let copy = CopyObject { bucket: BUCKET.into(), key: "to".into(), copy_source: source, ..CopyObject::default() };
    world.call(copy.clone()).unwrap();
    let (from, to) = (get(&mut world, "from").unwrap(), get(&mut world, "to").unwrap());
    assert_eq!((&to.data, &to.headers, &to.tags, &to.etag), (&from.data, &from.headers, &from.tags, &from.etag));
    world.call(CopyObject { tags: Some(vec![]), ..copy.clone() }).unwrap();
    assert_eq!(get(&mut world, "to").unwrap().tags, []);
    let onto_itself = CopyObject { key: "from".into(), ..copy.clone() };
    assert_eq!(world.call(onto_itself).unwrap_err().code.as_str(), "InvalidRequest");
    let stale = ReadConditions { if_none_match: Some("*".into()), ..ReadConditions::default() };
    let refused = CopyObject { copy_source_conditions: stale, ..copy.clone() };
    assert_eq!(world.call(refused).unwrap_err().code.as_str(), "PreconditionFailed");
    world.call(PutObject { data: Data::Location("far".into()), ..put_call("from", "12345") }).unwrap();
    assert_eq!(world.call(copy.clone()).unwrap_err().code.as_str(), "InvalidRequest");
    world.call(CopyObject { location: Some("copied".into()), ..copy }).unwrap();
    assert_eq!(get(&mut world, "to").unwrap().data, Some(Data::Location("copied".into())));
}

#[test]
fn calls_that_make_no_sense_are_refused() {
    let mut world = bed::world(11);
    let put = || put_call("k", "bytes");
    let past = PutObject { data_expires_ms: Some(1), data: Data::Location("x".into()), ..put() };
    let table: Vec<(S3Action, &str)> = vec![
        (PutObject { bucket: "absent".into(), ..put() }.into(), "NoSuchBucket"),
        (PutObject { key: String::new(), ..put() }.into(), "EmptyKey"),
        (PutObject { key: "k".repeat(1025), ..put() }.into(), "KeyTooLongError"),
        (PutObject { size: 4, ..put() }.into(), "InvalidRequest"),
        (PutObject { legal_hold: true, ..put() }.into(), "InvalidRequest"),
        (PutObject { data: Data::Location(String::new()), ..put() }.into(), "InvalidRequest"),
        (past.into(), "RequestTimeout"),
    ];
    for (call, code) in table {
        assert_eq!(world.call(call.clone()).unwrap_err().code.as_str(), code, "{call:?}");
    }
}

#[test]
fn a_quota_is_kept_by_exact_counts_over_shards() {
    let mut world = bed::world(12);
    for key in ["a", "g", "p"] {
        put(&mut world, key, "1234");
    }
    bed::split(&mut world, &["g", "p"], Old::Refuses);
    let quota = |bytes_max, keys_max| Some(Quota { bytes_max, keys_max });
    let code = |world: &mut World, key: &str, body: &str| {
        world.call(put_call(key, body)).map_or_else(|refusal| refusal.code.as_str(), |_| "")
    };
    bed::set(&mut world, |info| info.quota = quota(Some(20), None));
    assert_eq!(code(&mut world, "z", "123456789"), "QuotaExceeded");
    assert_eq!(code(&mut world, "z", "12345678"), "");
    assert_eq!(code(&mut world, "y", "1"), "QuotaExceeded");
    delete(&mut world, "a", None);
    assert_eq!(code(&mut world, "y", "1234"), "");
    bed::set(&mut world, |info| info.quota = quota(None, Some(4)));
    assert_eq!(code(&mut world, "new", ""), "QuotaExceeded");
    assert_eq!(code(&mut world, "y", "another of it"), "");
    // Far from it, most puts are one call all the same.
    bed::set(&mut world, |info| info.quota = quota(Some(1 << 30), Some(10_000)));
    put(&mut world, "b", "1");
    let before = world.calls;
    for number in 0..10 {
        put(&mut world, &format!("b{number}"), "1");
    }
    assert_eq!(world.calls - before, 10);
}

#[test]
fn puts_one_after_the_other_do_not_pass_a_quota() {
    for versioning in [None, Some(Versioning::Enabled)] {
        let mut world = bed::world(13);
        bed::set(&mut world, |info| {
            (info.versioning, info.quota) = (versioning, Some(Quota { bytes_max: Some(100), keys_max: Some(20) }))
        });
        let mut taken = 0;
        for number in 0..100 {
            let call = put_call(&format!("k{}", number % 40), "1234567");
            match world.call_on(number % 3, call) {
                Ok(_) => taken += 1,
                Err(refusal) => assert_eq!(refusal.code.as_str(), "QuotaExceeded"),
            }
        }
        assert_eq!(taken, 14);
    }
}

/// All that begin have counted before any of them puts: only the shard can tell which of them is too much.
#[test]
fn puts_at_the_same_time_do_not_pass_a_quota() {
    for (seed, quota) in [
        (14, Quota { bytes_max: None, keys_max: Some(10) }),
        (15, Quota { bytes_max: Some(70), keys_max: None }),
        (16, Quota { bytes_max: Some(70), keys_max: Some(11) }),
        // Far from its end when they begin: puts by leave are held to it, too.
        (17, Quota { bytes_max: None, keys_max: Some(192) }),
    ] {
        let mut world = bed::world(seed);
        bed::set(&mut world, |info| info.quota = Some(quota));
        let puts = 40 + quota.keys_max.unwrap_or(0) as usize;
        let mut all: Vec<Running> = (0..puts)
            .map(|number| world.begin(number % 3, put_call(&format!("k{number:03}"), "1234567")).unwrap())
            .collect();
        world.race(&mut all);
        let taken = all.iter().filter(|running| running.code().is_empty()).count() as u64;
        assert!(all.iter().all(|running| ["", "QuotaExceeded"].contains(&running.code())));
        let most = quota.keys_max.unwrap_or(u64::MAX).min(quota.bytes_max.unwrap_or(u64::MAX) / 7);
        assert_eq!(taken, most, "{quota:?}");
        // Over what is there as much may be put as before.
        let again = all.iter().position(|running| running.code().is_empty()).unwrap();
        if quota.bytes_max.is_none() {
            put(&mut world, &format!("k{again:03}"), "another");
        }
    }
}

/// Many wait while a shard is switched; each was counted for when there was room for one more.
#[test]
fn puts_that_were_counted_before_a_split_pass_a_quota_by_little() {
    let mut world = bed::world(18);
    for key in ["a", "g", "p"] {
        put(&mut world, key, "1234");
    }
    bed::set(&mut world, |info| info.quota = Some(Quota { bytes_max: None, keys_max: Some(4) }));
    let mut all: Vec<Running> = (0..30)
        .map(|number| world.begin(0, put_call(&format!("{}{number}", ["b", "h", "q"][number % 3]), "1")).unwrap())
        .collect();
    for running in &mut all {
        while !running.queue.iter().any(|(_, call)| matches!(call, Call::Write { .. })) {
            world.step(running);
        }
    }
    bed::split(&mut world, &["g", "p"], Old::Refuses);
    world.race(&mut all);
    assert!(all.iter().all(|running| ["", "QuotaExceeded"].contains(&running.code())));
    let taken = all.iter().filter(|running| running.code().is_empty()).count();
    // One was left, and there are three shards.
    assert!((1..=3).contains(&taken), "{taken}");
}

#[test]
fn puts_at_the_same_time_into_several_shards_pass_a_quota_by_little() {
    for seed in 0..20 {
        let mut world = bed::world(seed);
        for key in ["a", "g", "p"] {
            put(&mut world, key, "1234");
        }
        bed::split(&mut world, &["g", "p"], Old::Refuses);
        bed::set(&mut world, |info| info.quota = Some(Quota { bytes_max: None, keys_max: Some(5) }));
        let keys = (0..30).map(|number| format!("{}{number}", ["b", "h", "q"][number % 3]));
        let mut all: Vec<Running> =
            keys.enumerate().map(|(at, key)| world.begin(at % 3, put_call(&key, "1")).unwrap()).collect();
        world.race(&mut all);
        let taken = all.iter().filter(|running| running.code().is_empty()).count();
        // Two were left, and there are three shards.
        assert!((2..=6).contains(&taken), "seed {seed}: {taken}");
    }
}

#[test]
fn a_shard_that_stands_still_is_waited_for_briefly() {
    let mut longest = 0;
    for seed in 0..50 {
        let mut world = bed::world(seed);
        put(&mut world, "k", "1");
        let lease_ms = 1 + (seed as u32 * 7) % 30;
        bed::tell_shard(&mut world, 1, &core_backends::shard::Command::Freeze { epoch: 1, lease_ms });
        let before = world.now_ms;
        put(&mut world, "k", "2");
        longest = longest.max((world.now_ms - before).saturating_sub(u64::from(lease_ms)));
    }
    assert!(longest <= 32, "{longest} ms longer than the freeze");
}
