//! A bucket's settings: set, read, refused, and changed by two at once.

use super::buckets::{account, create};
use super::world::World;
use base_types::s3::*;

fn world() -> World {
    let mut world = World::new(1);
    account(&mut world, "ann");
    world.call(create("photos", "ann")).unwrap();
    world
}

fn bucket() -> String {
    "photos".into()
}

fn tag(key: &str) -> Tag {
    Tag { key: key.into(), value: "v".into() }
}

fn refused(world: &mut World, call: impl Into<S3Action>) -> &'static str {
    world.call(call).unwrap_err().code.as_str()
}

#[test]
fn what_was_never_set_is_refused_by_its_own_code() {
    let mut world = world();
    let cases: Vec<(S3Action, &str)> = vec![
        (GetBucketPolicy { bucket: bucket() }.into(), "NoSuchBucketPolicy"),
        (GetBucketPolicyStatus { bucket: bucket() }.into(), "NoSuchBucketPolicy"),
        (GetBucketPolicyStatus { bucket: "other".into() }.into(), "NoSuchBucket"),
        (GetBucketCors { bucket: bucket() }.into(), "NoSuchCORSConfiguration"),
        (GetBucketLifecycleConfiguration { bucket: bucket() }.into(), "NoSuchLifecycleConfiguration"),
        (GetBucketTagging { bucket: bucket() }.into(), "NoSuchTagSet"),
        (GetObjectLockConfiguration { bucket: bucket() }.into(), "ObjectLockConfigurationNotFoundError"),
        (GetBucketQuota { bucket: bucket() }.into(), "NoSuchBucketQuota"),
        (GetBucketTagging { bucket: "other".into() }.into(), "NoSuchBucket"),
    ];
    for (call, code) in cases {
        assert_eq!(refused(&mut world, call), code);
    }
    for call in [
        S3Action::from(DeletePublicAccessBlock { bucket: bucket() }),
        DeleteBucketOwnershipControls { bucket: bucket() }.into(),
        DeleteBucketEncryption { bucket: bucket() }.into(),
        DeleteBucketPolicy { bucket: bucket() }.into(),
    ] {
        assert_eq!(world.call(call), Ok(S3Answer::Done));
    }
    let gone = GetPublicAccessBlock { bucket: bucket() };
    assert_eq!(refused(&mut world, gone), "NoSuchPublicAccessBlockConfiguration");
    let gone = GetBucketOwnershipControls { bucket: bucket() };
    assert_eq!(refused(&mut world, gone), "OwnershipControlsNotFoundError");
    let encryption = Encryption { sse_algorithm: "AES256".into(), bucket_key_enabled: false };
    let put = PutBucketEncryption { bucket: bucket(), encryption };
    assert_eq!(refused(&mut world, put), "NotImplemented");
    let gone = GetBucketEncryption { bucket: bucket() };
    assert_eq!(refused(&mut world, gone), "ServerSideEncryptionConfigurationNotFoundError");
}

#[test]
fn what_was_set_is_told_and_seen_by_every_core_at_once() {
    let mut world = world();
    for core in 0..3 {
        world.call_on(core, HeadBucket { bucket: bucket() }).unwrap();
    }
    world.call(PutBucketVersioning { bucket: bucket(), status: Versioning::Enabled }).unwrap();
    for core in 0..3 {
        let told = world.call_on(core, GetBucketVersioning { bucket: bucket() }).unwrap();
        assert_eq!(told, BucketVersioning { status: Some(Versioning::Enabled) }.into(), "core {core}");
    }
    world.call(PutBucketTagging { bucket: bucket(), tags: vec![tag("a")] }).unwrap();
    for core in 0..3 {
        let told = world.call_on(core, GetBucketTagging { bucket: bucket() }).unwrap();
        assert_eq!(told, Tagging { tags: vec![tag("a")] }.into(), "core {core}");
    }
    let quota = Quota { bytes_max: Some(1), keys_max: None };
    world.call(PutBucketQuota { bucket: bucket(), quota }).unwrap();
    assert_eq!(world.call(GetBucketQuota { bucket: bucket() }), Ok(BucketQuota { quota }.into()));
    world.call(PutBucketPolicy { bucket: bucket(), policy: r#"{"Version":"2012-10-17"}"#.into() }).unwrap();
    let info: BucketInfo = world.ask(HeadBucket { bucket: bucket() }).unwrap();
    assert!(info.policy.is_some() && info.quota == Some(quota));
}

#[test]
fn whether_a_policy_is_public_is_told() {
    let mut world = world();
    let all = r#"{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::photos/*"}"#;
    let ben = all.replace(r#""*","Action"#, r#"{"AWS":"ben"},"Action"#);
    let table = [
        (format!(r#"{{"Version":"2012-10-17","Statement":{all}}}"#), true),
        (format!(r#"{{"Version":"2012-10-17","Statement":[{ben},{all}]}}"#), true),
        (format!(r#"{{"Version":"2012-10-17","Statement":[{ben}]}}"#), false),
        // No gateway understands these, so they let nobody in.
        (r#"{"Version":"2012-10-17"}"#.into(), false),
        (r#"{"Statement":7}"#.into(), false),
        (r#"{"Statement":[{"Effect":"Allow","Principal":7}]}"#.into(), false),
    ];
    for (policy, is_public) in table {
        world.call(PutBucketPolicy { bucket: bucket(), policy: policy.clone() }).unwrap();
        let told = world.call(GetBucketPolicyStatus { bucket: bucket() });
        assert_eq!(told, Ok(BucketPolicyStatus { policy_status: PolicyStatus { is_public } }.into()), "{policy}");
    }
}

#[test]
fn rules_that_others_rely_on_are_kept() {
    let mut world = world();
    let lock = |enabled| ObjectLockConfiguration { enabled, default_retention: None };
    let put_lock = |enabled| PutObjectLockConfiguration { bucket: bucket(), object_lock: lock(enabled) };
    let versioning = |status| PutBucketVersioning { bucket: bucket(), status };
    assert_eq!(refused(&mut world, put_lock(true)), "InvalidBucketState");
    world.call(versioning(Versioning::Enabled)).unwrap();
    assert_eq!(refused(&mut world, put_lock(false)), "MalformedXML");
    world.call(put_lock(true)).unwrap();
    assert_eq!(refused(&mut world, versioning(Versioning::Suspended)), "InvalidBucketState");

    let owner = Owner { id: "ann".into(), display_name: "ann".into() };
    let open =
        Acl { owner: owner.clone(), grants: vec![Grant { grantee: Grantee::AllUsers, permission: Permission::Read }] };
    let acl = |acl: &Acl| PutBucketAcl { bucket: bucket(), acl: acl.clone() };
    let ownership = |object_ownership| PutBucketOwnershipControls { bucket: bucket(), object_ownership };
    assert_eq!(refused(&mut world, acl(&open)), "AccessControlListNotSupported");
    world.call(ownership(ObjectOwnership::ObjectWriter)).unwrap();
    world.call(acl(&open)).unwrap();
    assert_eq!(refused(&mut world, ownership(ObjectOwnership::BucketOwnerEnforced)), "InvalidRequest");
    let stolen = Acl { owner: Owner { id: "bob".into(), ..owner }, ..open };
    assert_eq!(refused(&mut world, acl(&stolen)), "AccessDenied");

    let tags = |keys: &[&str]| PutBucketTagging { bucket: bucket(), tags: keys.iter().map(|key| tag(key)).collect() };
    assert_eq!(refused(&mut world, tags(&["a", "a"])), "InvalidTag");
    let many: Vec<String> = (0..=BUCKET_TAGS_MAX).map(|at| at.to_string()).collect();
    let many: Vec<&str> = many.iter().map(|key| &key[..]).collect();
    assert_eq!(refused(&mut world, tags(&many)), "InvalidTag");
    let cors = PutBucketCors { bucket: bucket(), cors_rules: Vec::new() };
    assert_eq!(refused(&mut world, cors), "MalformedXML");
    let policy = PutBucketPolicy { bucket: bucket(), policy: "[]".into() };
    assert_eq!(refused(&mut world, policy), "MalformedPolicy");
    let rules = PutBucketLifecycleConfiguration { bucket: bucket(), rules: Vec::new() };
    assert_eq!(refused(&mut world, rules), "MalformedXML");
}

#[test]
fn a_change_that_comes_late_is_not_taken_for_a_new_one() {
    for seed in 0..20 {
        let mut world = World::new(seed);
        account(&mut world, "ann");
        world.call(create("photos", "ann")).unwrap();
        let versioning = |status| PutBucketVersioning { bucket: bucket(), status };
        world.call(versioning(Versioning::Enabled)).unwrap();
        let mut late = world.begin(1, versioning(Versioning::Suspended)).unwrap();
        world.late = 1_000;
        while world.late_writes() == 0 {
            world.step(&mut late);
        }
        world.late = 0;
        world.run(&mut late);
        assert_eq!(late.code(), "");
        world.call(versioning(Versioning::Enabled)).unwrap();
        world.settle();
        world.now_ms += 2_000;
        let told = world.call(GetBucketVersioning { bucket: bucket() });
        assert_eq!(told, Ok(BucketVersioning { status: Some(Versioning::Enabled) }.into()), "seed {seed}");
    }
}

#[test]
fn changes_of_two_at_once_are_both_there_whatever_is_lost_or_late() {
    for seed in 0..30 {
        let mut world = World::new(seed);
        account(&mut world, "ann");
        world.call(create("photos", "ann")).unwrap();
        (world.lost, world.late) = if seed % 3 == 0 { (0, 0) } else { (100, 100) };
        let quota = Quota { bytes_max: Some(7), keys_max: None };
        let policy = r#"{"Version":"2012-10-17"}"#.to_string();
        let mut all = vec![
            world.begin(0, PutBucketQuota { bucket: bucket(), quota }).unwrap(),
            world.begin(1, PutBucketPolicy { bucket: bucket(), policy }).unwrap(),
            world.begin(2, PutBucketTagging { bucket: bucket(), tags: vec![tag("a")] }).unwrap(),
        ];
        world.race(&mut all);
        assert!(all.iter().all(|one| one.code().is_empty()), "seed {seed}");
        (world.lost, world.late) = (0, 0);
        world.settle();
        world.now_ms += 2_000;
        let info: BucketInfo = world.ask(HeadBucket { bucket: bucket() }).unwrap();
        assert!(info.quota == Some(quota) && info.policy.is_some(), "seed {seed}");
        world.call(GetBucketTagging { bucket: bucket() }).unwrap();
    }
}
