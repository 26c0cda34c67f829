//! Buckets made, found, listed and removed: by several at once, after crashes at every step, with stale caches.

use super::world::{Running, World};
use crate::accounts::directory::{self, WORK_PREFIX};
use crate::buckets::bucket_recovery::sweep_buckets;
use crate::buckets::check_owner::check_owner;
use crate::buckets::names;
use crate::clusters;
use crate::planner_for;
use crate::request::Terms;
use base_types::codec::Encode;
use base_types::s3::*;
use base_types::BackendKind;
use bytes::Bytes;
use core_backends::bucket_names::{Name, SWEEP_AFTER_MS};
use core_backends::shard::{Command, Condition, PutStep, Reply, Versioning as Kept};
use std::collections::BTreeSet;

pub(super) fn account(world: &mut World, name: &str) {
    world.call(CreateAccount { account: name.into(), ..CreateAccount::default() }).unwrap();
}

pub(super) fn create(name: &str, account: &str) -> CreateBucket {
    CreateBucket { bucket: name.into(), account: account.into(), ..CreateBucket::default() }
}

fn head(name: &str) -> HeadBucket {
    HeadBucket { bucket: name.into() }
}

fn delete(name: &str) -> DeleteBucket {
    DeleteBucket { bucket: name.into(), ..DeleteBucket::default() }
}

fn code<T>(result: Result<T, base_types::Refusal>) -> &'static str {
    result.err().map_or("", |refusal| refusal.code.as_str())
}

/// Who owns a name.
fn owner(world: &World, bucket: &str) -> Option<(String, u128)> {
    let call = names::ask(bucket).unwrap();
    let core_flow::Call::Read { cluster, backend, query, .. } = call else { panic!("{call:?}") };
    match names::told(bucket, world.read(&cluster, backend, &query)).unwrap() {
        Some(Name::Owned(claim)) => Some((claim.account, claim.id)),
        Some(Name::Pending(claim)) => panic!("a reservation is stuck: {claim:?}"),
        Some(Name::Free) | None => None,
    }
}

/// Puts an object as a client's call would that began long ago.
fn put(world: &mut World, id: u128, key: &'static str) -> &'static str {
    let mut document = Document::new();
    document.set_number(field::SIZE, 1).set(field::ETAG, Some(Bytes::from_static(b"e")));
    let step = PutStep {
        epoch: 1,
        key: Bytes::from_static(key.as_bytes()),
        versioning: Kept::Unversioned,
        at_unix_ms: world.now_ms,
        document: document.encode(),
        inline: None,
        condition: Condition::default(),
        once: None,
        data_expires_ms: None,
    };
    let command = Command::Put { step }.to_bytes();
    let shard = clusters::shard(id, 1).unwrap();
    match world.write(&shard, BackendKind::Shard, &command, None) {
        Ok(reply) => code(core_backends::decode_reply::<Reply>(reply.backend().0)),
        Err(failure) => failure.refusal.code.as_str(),
    }
}

/// Sweeps until nothing can be left: what is late arrives, what is young grows old.
fn sweep(world: &mut World) {
    (world.lost, world.late) = (0, 0);
    world.settle();
    for _ in 0..6 {
        world.now_ms += SWEEP_AFTER_MS + 1_000;
        let mut running = Running::new(0, sweep_buckets());
        world.run(&mut running);
        assert_eq!(running.code(), "");
    }
}

/// Every name is free or belongs to a bucket that is whole and listed; nothing else is left anywhere.
fn check(world: &World, buckets: &[&str]) {
    let mut expected = BTreeSet::new();
    for bucket in buckets {
        let Some((_, id)) = owner(world, bucket) else { continue };
        expected.insert(clusters::bucket(id).unwrap().as_str().to_string());
        expected.insert(clusters::shard(id, 1).unwrap().as_str().to_string());
    }
    let fixed = |name: &String| name.contains("account") || name.contains("bucket-names");
    let there: BTreeSet<String> = world.clusters().into_iter().filter(|name| !fixed(name)).collect();
    assert_eq!(there, expected, "clusters without a bucket, or buckets without a cluster");
    let call = directory::scan(WORK_PREFIX, 10).unwrap();
    let core_flow::Call::Read { cluster, backend, query, .. } = call else { panic!("{call:?}") };
    let (notes, _) = directory::scanned(world.read(&cluster, backend, &query)).unwrap();
    assert_eq!(notes, [], "notes are left");
}

fn listed(world: &mut World, account: &str) -> Vec<String> {
    let page: Buckets = world.ask(ListBuckets { account: account.into(), ..ListBuckets::default() }).unwrap();
    page.buckets.into_iter().map(|bucket| bucket.name).collect()
}

#[test]
fn a_bucket_is_closed_to_the_public_unless_it_is_asked_for_open() {
    let mut world = World::new(5);
    account(&mut world, "ann");
    for (name, open_to_public) in [("closed", false), ("open-one", true)] {
        world.call(CreateBucket { open_to_public, ..create(name, "ann") }).unwrap();
        let info = BucketInfo::try_from(world.call(head(name)).unwrap()).unwrap();
        assert_eq!(info.public_access_block.is_none(), open_to_public);
    }
}

#[test]
fn a_bucket_of_another_stays_where_its_owner_is_named() {
    let mut world = World::new(41);
    account(&mut world, "ann");
    world.call(create("photos", "ann")).unwrap();
    let of = |owner: &str| DeleteBucket { expected_bucket_owner: Some(owner.into()), ..delete("photos") };
    assert_eq!(code(world.call(of("ben"))), "AccessDenied");
    assert_eq!(owner(&world, "photos").map(|(account, _)| account), Some("ann".to_owned()));
    world.call(of("ann")).unwrap();
    assert_eq!(owner(&world, "photos"), None);
}

#[test]
fn a_bucket_is_made_found_listed_and_removed() {
    let mut world = World::new(1);
    assert_eq!(code(world.call(create("photos", "ann"))), "NoSuchAccount");
    assert_eq!(code(world.call(head("photos"))), "NoSuchBucket");
    account(&mut world, "ann");
    account(&mut world, "bob");
    world.call(create("photos", "ann")).unwrap();
    let info: BucketInfo = world.ask(head("photos")).unwrap();
    assert_eq!((&info.owner.id[..], &info.bucket_region[..], info.versioning), ("ann", "fr-par", None));
    assert_eq!(info.public_access_block.map(|block| block.restrict_public_buckets), Some(true));
    assert_eq!(code(world.call(create("photos", "ann"))), "BucketAlreadyOwnedByYou");
    assert_eq!(code(world.call(create("photos", "bob"))), "BucketAlreadyExists");
    assert_eq!(code(world.call(create("No", "ann"))), "InvalidBucketName");
    assert_eq!((listed(&mut world, "ann"), listed(&mut world, "bob")), (vec!["photos".to_string()], vec![]));
    assert_eq!(code(world.call(DeleteAccount { account: "ann".into() })), "AccountProblem");
    world.call(delete("photos")).unwrap();
    assert_eq!(code(world.call(delete("photos"))), "NoSuchBucket");
    assert_eq!(listed(&mut world, "ann"), Vec::<String>::new());
    world.call(create("photos", "bob")).unwrap();
    sweep(&mut world);
    check(&world, &["photos"]);
}

#[test]
fn a_creation_asked_for_twice_under_one_request_id_is_one() {
    let mut world = World::new(2);
    account(&mut world, "ann");
    let terms =
        crate::request::Terms { request_id: Some(base_types::RequestId(77)), ..crate::request::Terms::default() };
    for _ in 0..2 {
        let mut running = Running::new(0, crate::planner_for(create("photos", "ann").into(), &terms).unwrap());
        world.run(&mut running);
        assert_eq!(running.code(), "");
    }
}

#[test]
fn regions_that_are_none_or_too_small_are_refused_before_anything_is_done() {
    let mut world = World::new(3);
    account(&mut world, "ann");
    let within = |region: &str| CreateBucket { location_constraint: Some(region.into()), ..create("photos", "ann") };
    assert_eq!(code(world.call(within("mars"))), "InvalidLocationConstraint");
    assert_eq!(code(world.call(within("a size=9"))), "InvalidLocationConstraint");
    assert_eq!(code(world.call(within("nl-ams"))), "IllegalLocationConstraintException");
    world.call(within("fr-par")).unwrap();
    let location: BucketLocation = world.ask(GetBucketLocation { bucket: "photos".into() }).unwrap();
    assert_eq!(location.location_constraint, "fr-par");
    let id = owner(&world, "photos").unwrap().1;
    let rule = world.record(&clusters::shard(id, 1).unwrap()).unwrap().rule;
    assert!(rule.contains("location=fr-par"), "{rule}");
}

#[test]
fn a_bucket_has_as_many_replicas_as_its_region_holds() {
    let mut world = World::new(3);
    account(&mut world, "ann");
    world.call(create("first", "ann")).unwrap();
    world.config.rule = "size=5 location=world".into();
    let within =
        |name: &str, region: &str| CreateBucket { location_constraint: Some(region.into()), ..create(name, "ann") };
    world.call(within("photos", "fr-par")).unwrap();
    let id = owner(&world, "photos").unwrap().1;
    let rule = world.record(&clusters::shard(id, 1).unwrap()).unwrap().rule;
    assert!(rule.contains("size=3") && rule.contains("location=fr-par"), "{rule}");
}

#[test]
fn a_name_of_the_whole_world_is_no_region() {
    let mut world = World::new(3);
    account(&mut world, "ann");
    world.config.region = Some("everywhere".into());
    for (name, region) in [("photos", "everywhere"), ("films", "us-east-1")] {
        world.call(CreateBucket { location_constraint: Some(region.into()), ..create(name, "ann") }).unwrap();
        let location: BucketLocation = world.ask(GetBucketLocation { bucket: name.into() }).unwrap();
        assert_eq!(location.location_constraint, "everywhere");
        let id = owner(&world, name).unwrap().1;
        let rule = world.record(&clusters::shard(id, 1).unwrap()).unwrap().rule;
        assert!(!rule.contains("location=us") && !rule.contains("location=every"), "{rule}");
    }
}

#[test]
fn lists_come_in_pages_by_prefix() {
    let mut world = World::new(4);
    account(&mut world, "ann");
    for name in ["a-1", "a-2", "a-3", "b-1"] {
        world.call(create(name, "ann")).unwrap();
    }
    let mut call =
        ListBuckets { account: "ann".into(), prefix: "a-".into(), max_buckets: Some(2), ..ListBuckets::default() };
    let page: Buckets = world.ask(call.clone()).unwrap();
    assert_eq!(page.buckets.iter().map(|bucket| &bucket.name[..]).collect::<Vec<_>>(), ["a-1", "a-2"]);
    call.continuation_token = page.continuation_token;
    let page: Buckets = world.ask(call).unwrap();
    assert_eq!(page.buckets.iter().map(|bucket| &bucket.name[..]).collect::<Vec<_>>(), ["a-3"]);
    assert_eq!(page.continuation_token, None);
}

#[test]
fn of_many_creators_at_once_one_gets_the_name_whatever_is_lost_or_late() {
    let (mut made, mut lost) = (0, 0);
    for seed in 0..40 {
        let mut world = World::new(seed);
        account(&mut world, "ann");
        account(&mut world, "bob");
        (world.lost, world.late) = if seed % 4 == 0 { (0, 0) } else { (30, 20) };
        let mut all: Vec<Running> =
            (0..4).map(|at| world.begin(at % 3, create("photos", ["ann", "bob"][at % 2])).unwrap()).collect();
        world.race(&mut all);
        let told: Vec<&str> = all.iter().map(Running::code).collect();
        let won = told.iter().filter(|code| code.is_empty()).count();
        assert!(won <= 1, "seed {seed}: {told:?}");
        sweep(&mut world);
        let owned = owner(&world, "photos");
        assert!(won == 0 || owned.is_some(), "seed {seed}: {told:?}");
        check(&world, &["photos"]);
        (made, lost) = (made + won, lost + usize::from(owned.is_none()));
        for (at, name) in ["ann", "bob"].iter().enumerate() {
            let own = owned.as_ref().is_some_and(|(by, _)| by == name);
            assert_eq!(listed(&mut world, name).len(), usize::from(own), "seed {seed} {at}");
        }
    }
    assert!(made > 25, "{made} made, {lost} with none at all");
}

#[test]
fn a_creation_that_stops_at_any_step_is_finished_or_taken_back() {
    let (mut finished, mut back) = (0, 0);
    for steps in 1.. {
        let mut world = World::new(steps);
        account(&mut world, "ann");
        account(&mut world, "bob");
        let mut running = world.begin(1, create("photos", "ann")).unwrap();
        for _ in 0..steps {
            world.step(&mut running);
        }
        sweep(&mut world);
        check(&world, &["photos"]);
        match owner(&world, "photos") {
            Some((by, _)) => {
                finished += 1;
                assert_eq!((&by[..], listed(&mut world, "ann").len()), ("ann", 1));
                world.call(delete("photos")).unwrap();
            }
            None => back += 1,
        }
        world.call(create("photos", "bob")).unwrap();
        if running.response.is_some() {
            break;
        }
    }
    assert!(finished > 2 && back > 10, "{finished} finished, {back} taken back");
}

#[test]
fn what_is_under_way_is_left_alone_by_the_sweep() {
    for seed in 0..20 {
        let mut world = World::new(seed);
        account(&mut world, "ann");
        world.call(create("films", "ann")).unwrap();
        let mut all = [world.begin(1, create("photos", "ann")).unwrap(), world.begin(2, delete("films")).unwrap()];
        while all.iter().any(|one| one.response.is_none()) {
            for one in &mut all {
                world.step(one);
                if one.waits_until().is_some() {
                    world.now_ms += 100;
                }
            }
            let mut running = Running::new(0, sweep_buckets());
            world.run(&mut running);
        }
        assert_eq!(all.each_ref().map(Running::code), [""; 2], "seed {seed}");
        sweep(&mut world);
        check(&world, &["photos", "films"]);
        assert_eq!(listed(&mut world, "ann"), ["photos"], "seed {seed}");
    }
}

#[test]
fn a_removal_whose_claim_was_taken_over_removes_nothing() {
    let mut aborted = 0;
    for steps in 1.. {
        let mut world = World::new(steps);
        account(&mut world, "ann");
        world.call(create("photos", "ann")).unwrap();
        let id = owner(&world, "photos").unwrap().1;
        let mut running = world.begin(1, delete("photos")).unwrap();
        for _ in 0..steps {
            if running.waits_until().is_some() {
                world.now_ms += 2_000;
            }
            world.step(&mut running);
        }
        sweep(&mut world);
        let came = put(&mut world, id, "a");
        world.run(&mut running);
        if came.is_empty() {
            aborted += 1;
            assert!(!running.code().is_empty(), "after {steps} steps");
            assert!(owner(&world, "photos").is_some(), "after {steps} steps");
            assert_eq!(listed(&mut world, "ann"), ["photos"], "after {steps} steps");
            let object = HeadObject { bucket: "photos".into(), key: "a".into(), ..HeadObject::default() };
            world.call_on(2, object).unwrap();
            assert_eq!(put(&mut world, id, "b"), "", "after {steps} steps");
        } else {
            break;
        }
    }
    assert!(aborted > 8, "{aborted} aborted");
}

#[test]
fn a_removal_that_stops_at_any_step_is_finished_or_taken_back() {
    let (mut gone, mut kept) = (0, 0);
    for steps in 1.. {
        let mut world = World::new(steps);
        account(&mut world, "ann");
        world.call(create("photos", "ann")).unwrap();
        let id = owner(&world, "photos").unwrap().1;
        let mut running = world.begin(1, delete("photos")).unwrap();
        for _ in 0..steps {
            if running.waits_until().is_some() {
                world.now_ms += 2_000;
            }
            world.step(&mut running);
        }
        sweep(&mut world);
        check(&world, &["photos"]);
        match owner(&world, "photos") {
            Some((_, same)) => {
                kept += 1;
                assert_eq!((same, put(&mut world, id, "a")), (id, ""), "it serves after {steps} steps");
                world.call(head("photos")).unwrap();
                assert_eq!(code(world.call(delete("photos"))), "BucketNotEmpty");
            }
            None => {
                gone += 1;
                world.call(create("photos", "ann")).unwrap();
            }
        }
        if running.response.is_some() {
            break;
        }
    }
    assert!(gone > 4 && kept > 8, "{gone} gone, {kept} kept");
}

#[test]
fn a_put_that_was_under_way_keeps_the_bucket_or_is_refused() {
    let (mut kept, mut refused) = (0, 0);
    for steps in 1.. {
        let mut world = World::new(steps);
        account(&mut world, "ann");
        world.call(create("photos", "ann")).unwrap();
        let id = owner(&world, "photos").unwrap().1;
        let mut running = world.begin(1, delete("photos")).unwrap();
        for _ in 0..steps {
            if running.waits_until().is_some() {
                world.now_ms += 2_000;
            }
            world.step(&mut running);
        }
        if running.response.is_some() {
            break;
        }
        let came = put(&mut world, id, "late");
        world.run(&mut running);
        match came {
            "" => {
                kept += 1;
                assert_eq!(running.code(), "BucketNotEmpty", "after {steps} steps");
                assert_eq!(put(&mut world, id, "another"), "");
                world.call(head("photos")).unwrap();
                world
                    .call(CreateAccount {
                        account: "ann".into(),
                        display_name: "Ann".into(),
                        ..CreateAccount::default()
                    })
                    .unwrap();
                let page: Buckets = world.ask(ListBuckets { account: "ann".into(), ..ListBuckets::default() }).unwrap();
                assert_eq!((page.buckets.len(), &page.owner.display_name[..]), (1, "Ann"));
            }
            refusal => {
                refused += 1;
                assert!(["BucketClosing", "UnknownCluster"].contains(&refusal), "{refusal}");
                assert_eq!(running.code(), "", "after {steps} steps");
            }
        }
    }
    assert!(kept > 5 && refused > 5, "{kept} kept, {refused} refused");
}

#[test]
fn an_upload_under_way_does_not_keep_a_bucket_and_goes_on_in_one_that_stays() {
    let mut world = World::new(5);
    account(&mut world, "ann");
    world.call(create("photos", "ann")).unwrap();
    let begin = || CreateMultipartUpload { bucket: "photos".into(), key: "big".into(), ..Default::default() };
    world.call(begin()).unwrap();
    let id = owner(&world, "photos").unwrap().1;
    let mut running = world.begin(1, delete("photos")).unwrap();
    while running.waits_until().is_none() {
        world.step(&mut running);
    }
    assert_eq!(put(&mut world, id, "late"), "");
    world.run(&mut running);
    assert_eq!(running.code(), "BucketNotEmpty");
    world.call(begin()).unwrap();
    world.call(DeleteObject { bucket: "photos".into(), key: "late".into(), ..Default::default() }).unwrap();
    world.call(delete("photos")).unwrap();
    sweep(&mut world);
    check(&world, &["photos"]);
}

/// Makes a bucket whose object was deleted and whose upload nobody ends, both with bytes in a data store.
fn with_freed_data(world: &mut World) {
    account(world, "ann");
    world.call(create("photos", "ann")).unwrap();
    let (bucket, etag) = ("photos".to_string(), etag::hex(&etag::md5(b"x")));
    let data = |place: &str| Data::Location(place.into());
    let size = PART_BYTES_MIN;
    let object = PutObject {
        bucket: bucket.clone(),
        key: "a".into(),
        data: data("of the object"),
        size,
        etag: etag.clone(),
        ..Default::default()
    };
    world.call(object).unwrap();
    world.call(DeleteObject { bucket: bucket.clone(), key: "a".into(), ..Default::default() }).unwrap();
    let begun = CreateMultipartUpload { bucket: bucket.clone(), key: "b".into(), ..Default::default() };
    let upload: UploadCreated = world.ask(begun).unwrap();
    let part = UploadPart {
        bucket,
        key: "b".into(),
        upload_id: upload.upload_id,
        part_number: 1,
        data: data("of the part"),
        size,
        etag,
        ..Default::default()
    };
    world.call(part).unwrap();
}

#[test]
fn bytes_of_a_bucket_that_goes_are_told_to_who_removes_them_wherever_it_stops() {
    for steps in 1.. {
        let mut world = World::new(steps);
        with_freed_data(&mut world);
        let mut running = world.begin(1, delete("photos")).unwrap();
        for _ in 0..steps {
            if running.waits_until().is_some() {
                world.now_ms += 2_000;
            }
            world.step(&mut running);
        }
        sweep(&mut world);
        if owner(&world, "photos").is_some() {
            world.call(delete("photos")).unwrap();
        }
        let freed: Locations = world.ask(ListFreedData { max: 10 }).unwrap();
        assert_eq!(freed.locations.iter().collect::<BTreeSet<_>>().len(), 2, "after {steps} steps: {freed:?}");
        if running.response.is_some() {
            assert_eq!(running.code(), "");
            break;
        }
    }
}

#[test]
fn two_removals_and_a_creation_at_once_leave_nothing_half() {
    let mut codes = BTreeSet::new();
    for seed in 0..30 {
        let mut world = World::new(seed);
        account(&mut world, "ann");
        world.call(create("photos", "ann")).unwrap();
        (world.lost, world.late) = if seed % 3 == 0 { (0, 0) } else { (20, 20) };
        let mut all = vec![
            world.begin(0, delete("photos")).unwrap(),
            world.begin(1, delete("photos")).unwrap(),
            world.begin(2, create("photos", "ann")).unwrap(),
        ];
        world.race(&mut all);
        codes.extend(all.iter().map(Running::code));
        sweep(&mut world);
        check(&world, &["photos"]);
        if let Some((_, id)) = owner(&world, "photos") {
            assert_eq!(put(&mut world, id, "a"), "", "seed {seed}");
        }
    }
    assert!(codes.contains("") && codes.contains("OperationAborted"), "{codes:?}");
}

#[test]
fn caches_do_not_outlive_a_bucket() {
    let mut world = World::new(9);
    account(&mut world, "ann");
    account(&mut world, "bob");
    world.call(create("photos", "ann")).unwrap();
    world.call_on(1, head("photos")).unwrap();
    world.call_on(2, head("photos")).unwrap();
    world.call(delete("photos")).unwrap();
    assert_eq!(code(world.call_on(1, head("photos"))), "NoSuchBucket");
    world.call(create("photos", "bob")).unwrap();
    for core in 0..3 {
        let answer = world.call_on(core, head("photos")).unwrap();
        let info = BucketInfo::try_from(answer).unwrap();
        assert_eq!(info.owner.id, "bob", "core {core}");
    }
}

/// A call that was let through by the rights of `owner`'s bucket.
fn meant_for(core: usize, call: impl Into<S3Action>, owner: &str) -> Running {
    let planner = planner_for(call.into(), &Terms::default()).unwrap();
    Running::new(core, check_owner(planner, Some(owner.into())))
}

fn calls_on(bucket: &str) -> Vec<S3Action> {
    let bucket = || bucket.to_owned();
    let object = |key: &str| PutObject { bucket: bucket(), key: key.into(), etag: "e".into(), ..PutObject::default() };
    let source = CopySource { bucket: "source".into(), key: "k".into(), version_id: None };
    vec![
        object("put").into(),
        CopyObject { bucket: bucket(), key: "copy".into(), copy_source: source, ..CopyObject::default() }.into(),
        CreateMultipartUpload { bucket: bucket(), key: "parts".into(), ..CreateMultipartUpload::default() }.into(),
        DeleteObjects {
            bucket: bucket(),
            objects: vec![ObjectToDelete { key: "put".into(), ..Default::default() }],
            bypass_governance_retention: false,
        }
        .into(),
        PutBucketVersioning { bucket: bucket(), status: Versioning::Enabled }.into(),
        PutBucketTagging { bucket: bucket(), tags: vec![Tag { key: "a".into(), value: "b".into() }] }.into(),
        GetBucketTagging { bucket: bucket() }.into(),
        ListObjectsV2 { bucket: bucket(), ..ListObjectsV2::default() }.into(),
        CountObjects { bucket: bucket(), ..CountObjects::default() }.into(),
        head("photos").into(),
    ]
}

/// A bucket is removed and its name taken by another between the rounds of a call, or before it begins: as an upload of
/// hours comes to its end.
#[test]
fn what_was_meant_for_the_bucket_of_one_account_never_reaches_another_s() {
    for (seed, call) in (60..).zip(calls_on("photos")) {
        for steps in 0..8 {
            let mut world = World::new(seed);
            ["ann", "bob", "eve"].iter().for_each(|name| account(&mut world, name));
            world.call(create("photos", "ann")).unwrap();
            world.call(create("source", "eve")).unwrap();
            let object =
                PutObject { bucket: "source".into(), key: "k".into(), etag: "e".into(), ..PutObject::default() };
            world.call(object).unwrap();
            let mut running = meant_for(1, call.clone(), "ann");
            (0..steps).for_each(|_| world.step(&mut running));
            if running.response.is_some() {
                // It was done while the bucket was ann's.
                assert!(["", "NoSuchTagSet"].contains(&running.code()), "{call:?}: {}", running.code());
                continue;
            }
            if !code(world.call(delete("photos"))).is_empty() {
                continue;
            }
            world.call(create("photos", "bob")).unwrap();
            world.run(&mut running);
            assert_eq!(running.code(), "AccessDenied", "{call:?} behind {steps} steps");
            let info: BucketInfo = world.ask(head("photos")).unwrap();
            assert_eq!((&info.owner.id[..], info.versioning), ("bob", None));
            assert_eq!(code(world.call(GetBucketTagging { bucket: "photos".into() })), "NoSuchTagSet");
            let count: ObjectCount =
                world.ask(CountObjects { bucket: "photos".into(), ..CountObjects::default() }).unwrap();
            assert_eq!(count, ObjectCount::default());
            let mut own = meant_for(2, call.clone(), "bob");
            world.run(&mut own);
            assert!(["", "NoSuchTagSet"].contains(&own.code()), "{call:?}: {}", own.code());
        }
    }
}

#[test]
fn an_account_owns_as_many_buckets_as_it_may_and_a_refused_one_leaves_nothing() {
    let mut world = World::new(80);
    let allow = |world: &mut World, most| {
        let call = CreateAccount { account: "ann".into(), buckets_max: Some(most), ..CreateAccount::default() };
        world.call(call).unwrap();
    };
    allow(&mut world, 2);
    world.call(create("one-bucket", "ann")).unwrap();
    world.call(create("two-buckets", "ann")).unwrap();
    let before = world.clusters();
    assert_eq!(code(world.call(create("three-buckets", "ann"))), "TooManyBuckets");
    assert_eq!((owner(&world, "three-buckets"), world.clusters()), (None, before));
    world.call(delete("one-bucket")).unwrap();
    world.call(create("three-buckets", "ann")).unwrap();
    // Named again without a number it keeps what it has.
    world.call(CreateAccount { account: "ann".into(), ..CreateAccount::default() }).unwrap();
    assert_eq!(code(world.call(create("four-buckets", "ann"))), "TooManyBuckets");
    allow(&mut world, 3);
    world.call(create("four-buckets", "ann")).unwrap();
}
