use super::*;
use base_types::s3::{Grant, Owner};

fn owner(id: &str) -> Owner {
    Owner { id: id.into(), display_name: id.into() }
}

fn bucket() -> BucketInfo {
    BucketInfo {
        bucket: "bucket".into(),
        owner: owner("ann"),
        acl: acl::private(owner("ann")),
        object_ownership: Some(ObjectOwnership::ObjectWriter),
        ..BucketInfo::default()
    }
}

fn ask(bucket: &BucketInfo, caller: &str, action: &str, object: Option<&Acl>) -> Result<(), Denied> {
    let caller = if caller.is_empty() { Caller::Anonymous } else { Caller::Account(caller.into()) };
    let key = object.map(|_| "key").or(action.contains("Object").then_some("key"));
    let context = Context::default();
    let policy = policy_of(bucket);
    decide(&Asked {
        caller: &caller,
        action,
        bucket,
        policy: policy.as_ref(),
        key,
        object_acl: object,
        context: &context,
    })
}

fn with(mut acl: Acl, grantee: Grantee, permission: Permission) -> Acl {
    acl.grants.push(Grant { grantee, permission });
    acl
}

#[test]
fn the_owner_may_and_others_may_not() {
    let bucket = bucket();
    let own = acl::private(owner("ann"));
    for action in ["s3:ListBucket", "s3:PutObject", "s3:DeleteObject", "s3:PutBucketPolicy", "s3:DeleteBucket"] {
        assert_eq!(ask(&bucket, "ann", action, None), Ok(()), "{action}");
        assert_eq!(ask(&bucket, "bob", action, None), Err(Denied::NotAllowed), "{action}");
        assert_eq!(ask(&bucket, "", action, None), Err(Denied::NotAllowed), "{action}");
    }
    assert_eq!(ask(&bucket, "ann", "s3:GetObject", Some(&own)), Ok(()));
    assert_eq!(ask(&bucket, "", "s3:GetObject", Some(&own)), Err(Denied::NotAllowed));
}

#[test]
fn acls_of_buckets() {
    let table = [
        (Permission::Read, "s3:ListBucket", true),
        (Permission::Read, "s3:PutObject", false),
        (Permission::Read, "s3:GetObject", false),
        (Permission::Write, "s3:PutObject", true),
        (Permission::Write, "s3:DeleteObject", true),
        (Permission::Write, "s3:ListBucket", false),
        (Permission::ReadAcp, "s3:GetBucketAcl", true),
        (Permission::WriteAcp, "s3:PutBucketAcl", true),
        (Permission::WriteAcp, "s3:PutBucketPolicy", false),
        (Permission::FullControl, "s3:ListBucketVersions", true),
        (Permission::FullControl, "s3:DeleteBucket", false),
    ];
    for (permission, action, allowed) in table {
        let mut bucket = bucket();
        bucket.acl = with(bucket.acl, Grantee::CanonicalUser("bob".into()), permission);
        assert_eq!(ask(&bucket, "bob", action, None).is_ok(), allowed, "{permission:?} {action}");
        assert!(ask(&bucket, "eve", action, None).is_err(), "{permission:?} {action} for another");
        bucket.object_ownership = Some(ObjectOwnership::BucketOwnerEnforced);
        assert!(ask(&bucket, "bob", action, None).is_err(), "ACLs do not count: {permission:?} {action}");
    }
}

#[test]
fn acls_of_objects_and_groups() {
    let mut bucket = bucket();
    let public = with(acl::private(owner("ann")), Grantee::AllUsers, Permission::Read);
    let signed = with(acl::private(owner("ann")), Grantee::AuthenticatedUsers, Permission::Read);
    assert_eq!(ask(&bucket, "", "s3:GetObject", Some(&public)), Ok(()));
    assert_eq!(ask(&bucket, "", "s3:GetObjectAcl", Some(&public)), Err(Denied::NotAllowed));
    assert_eq!(ask(&bucket, "", "s3:GetObject", Some(&signed)), Err(Denied::NotAllowed));
    assert_eq!(ask(&bucket, "bob", "s3:GetObject", Some(&signed)), Ok(()));
    bucket.public_access_block = Some(PublicAccessBlock { ignore_public_acls: true, ..Default::default() });
    assert_eq!(ask(&bucket, "", "s3:GetObject", Some(&public)), Err(Denied::NotAllowed));
    assert_eq!(ask(&bucket, "bob", "s3:GetObject", Some(&signed)), Err(Denied::NotAllowed));
}

#[test]
fn an_object_of_another_is_his() {
    let mut bucket = bucket();
    let bobs = acl::private(owner("bob"));
    assert_eq!(ask(&bucket, "ann", "s3:GetObject", Some(&bobs)), Err(Denied::NotAllowed));
    assert_eq!(ask(&bucket, "ann", "s3:DeleteObject", Some(&bobs)), Ok(()));
    assert_eq!(ask(&bucket, "bob", "s3:GetObject", Some(&bobs)), Ok(()));
    assert_eq!(ask(&bucket, "bob", "s3:PutObjectAcl", Some(&bobs)), Ok(()));
    assert_eq!(ask(&bucket, "bob", "s3:DeleteObject", Some(&bobs)), Err(Denied::NotAllowed));
    let shared = acl::canned("bucket-owner-full-control", owner("bob"), "ann").unwrap();
    assert_eq!(ask(&bucket, "ann", "s3:GetObject", Some(&shared)), Ok(()));
    // The bucket's policy gives nothing of it away.
    bucket.policy = Some(allow("*", "s3:GetObject"));
    assert_eq!(ask(&bucket, "eve", "s3:GetObject", Some(&bobs)), Err(Denied::NotAllowed));
    bucket.object_ownership = Some(ObjectOwnership::BucketOwnerEnforced);
    assert_eq!(ask(&bucket, "ann", "s3:GetObject", Some(&bobs)), Ok(()));
    assert_eq!(ask(&bucket, "eve", "s3:GetObject", Some(&bobs)), Ok(()));
}

fn statement(effect: &str, account: &str, action: &str) -> String {
    format!(
        r#"{{"Effect":"{effect}","Principal":{{"AWS":"{account}"}},"Action":"{action}","Resource":["arn:aws:s3:::bucket","arn:aws:s3:::bucket/*"]}}"#
    )
}

fn allow(account: &str, action: &str) -> String {
    format!(r#"{{"Version":"2012-10-17","Statement":{}}}"#, statement("Allow", account, action))
}

#[test]
fn policies_over_owner_and_acls() {
    let mut bucket = bucket();
    let own = acl::private(owner("ann"));
    bucket.policy = Some(allow("bob", "s3:GetObject"));
    assert_eq!(ask(&bucket, "bob", "s3:GetObject", Some(&own)), Ok(()));
    assert_eq!(ask(&bucket, "bob", "s3:PutObject", None), Err(Denied::NotAllowed));
    let deny = format!(r#"{{"Version":"2012-10-17","Statement":{}}}"#, statement("Deny", "*", "s3:*"));
    bucket.policy = Some(deny);
    assert_eq!(ask(&bucket, "ann", "s3:GetObject", Some(&own)), Err(Denied::ByPolicy), "a deny meets the owner too");
    assert_eq!(ask(&bucket, "ann", "s3:DeleteBucketPolicy", None), Ok(()), "who must be able to mend it");
    assert_eq!(ask(&bucket, "bob", "s3:DeleteBucketPolicy", None), Err(Denied::ByPolicy));
    bucket.policy = Some("{ damaged".into());
    assert_eq!(ask(&bucket, "ann", "s3:GetObject", Some(&own)), Ok(()));
    bucket.acl = with(bucket.acl, Grantee::AllUsers, Permission::Read);
    assert_eq!(ask(&bucket, "bob", "s3:ListBucket", None), Err(Denied::ByPolicy), "unreadable: only the owner");
}

#[test]
fn a_public_policy_can_be_restricted() {
    let mut bucket = bucket();
    let own = acl::private(owner("ann"));
    bucket.policy = Some(allow("*", "s3:GetObject"));
    assert_eq!(ask(&bucket, "", "s3:GetObject", Some(&own)), Ok(()));
    bucket.public_access_block = Some(PublicAccessBlock { restrict_public_buckets: true, ..Default::default() });
    assert_eq!(ask(&bucket, "", "s3:GetObject", Some(&own)), Err(Denied::PublicBlocked));
    assert_eq!(ask(&bucket, "ann", "s3:GetObject", Some(&own)), Ok(()));
}

#[test]
fn canned_acls_and_grant_headers() {
    let public = acl::canned("public-read", owner("ann"), "ann").unwrap();
    assert!(acl::is_public(&public) && !acl::is_owner_only(&public, "ann"));
    assert!(acl::is_owner_only(&acl::canned("bucket-owner-full-control", owner("ann"), "ann").unwrap(), "ann"));
    assert_eq!(acl::canned("open", owner("ann"), "ann").unwrap_err().code.as_str(), "InvalidArgument");
    let header = r#"id="bob", uri="http://acs.amazonaws.com/groups/global/AllUsers""#;
    let grants = acl::grants(header, Permission::Read).unwrap();
    assert_eq!(grants[0].grantee, Grantee::CanonicalUser("bob".into()));
    assert_eq!(grants[1].grantee, Grantee::AllUsers);
    assert_eq!(
        acl::grants(r#"emailAddress="a@b""#, Permission::Read).unwrap_err().code.as_str(),
        "UnresolvableGrantByEmailAddress"
    );
    assert_eq!(acl::grants("bob", Permission::Read).unwrap_err().code.as_str(), "InvalidArgument");
}

fn user(account: &str, rules: &[(&str, &str)], within: Option<&str>) -> Caller {
    let rule =
        |(verbs, on): &(&str, &str)| base_access::Rule { verbs: verbs.parse().unwrap(), on: on.parse().unwrap() };
    let identity = Identity {
        user: "una".into(),
        tenant: None,
        rules: rules.iter().map(rule).collect(),
        within: within.map(|on| [on.parse().unwrap()].into()),
        changed_at: 1,
        expires_ms: None,
    };
    Caller::User(account.into(), Box::new(identity))
}

fn ask_as(caller: &Caller, bucket: &BucketInfo, action: &str, key: Option<&str>, prefix: &str) -> Result<(), Denied> {
    let (mut context, policy) = (Context::default(), policy_of(bucket));
    context.set("s3:prefix", prefix);
    context.set("aws:username", "una");
    let policy = policy.as_ref();
    decide(&Asked { caller, action, bucket, policy, key, object_acl: None, context: &context })
}

#[test]
fn roles_give_without_a_policy() {
    let mut bucket = bucket();
    let una = user("user-1", &[("read,list", "bucket/bucket/logs/"), ("write", "bucket/bucket/in/")], None);
    let no = Err(Denied::NotAllowed);
    assert_eq!(ask_as(&una, &bucket, "s3:GetObject", Some("logs/a"), ""), Ok(()));
    assert_eq!(ask_as(&una, &bucket, "s3:GetObject", Some("in/a"), ""), no);
    assert_eq!(ask_as(&una, &bucket, "s3:PutObject", Some("in/a"), ""), Ok(()));
    assert_eq!(ask_as(&una, &bucket, "s3:DeleteObject", Some("in/a"), ""), no);
    assert_eq!(ask_as(&una, &bucket, "s3:ListBucket", None, "logs/2024"), Ok(()));
    assert_eq!(ask_as(&una, &bucket, "s3:ListBucket", None, "lo"), no);
    assert_eq!(ask_as(&una, &bucket, "s3:GetBucketPolicy", None, "logs/"), no);
    assert!(might_allow(&una, "s3:PutObject", &bucket) && !might_allow(&una, "s3:DeleteObject", &bucket));
    // An explicit deny wins over any role.
    let deny = format!(r#"{{"Version":"2012-10-17","Statement":{}}}"#, statement("Deny", "*", "s3:GetObject"));
    bucket.policy = Some(deny);
    assert_eq!(ask_as(&una, &bucket, "s3:GetObject", Some("logs/a"), ""), Err(Denied::ByPolicy));
    // Nobody's role is worth anything in another bucket.
    let other = user("user-1", &[("all", "bucket/other")], None);
    assert_eq!(ask_as(&other, &bucket, "s3:PutObject", Some("in/a"), ""), no);
}

#[test]
fn a_keys_bounds_narrow_every_reason() {
    let mut bucket = bucket();
    let out = Err(Denied::OutOfBounds);
    let by_role = user("user-1", &[("all", "bucket/bucket/logs/")], Some("bucket/bucket/logs/"));
    assert_eq!(ask_as(&by_role, &bucket, "s3:GetObject", Some("logs/a"), ""), Ok(()));
    assert_eq!(ask_as(&by_role, &bucket, "s3:GetObject", Some("in/a"), ""), out);
    let owner = user("ann", &[], Some("bucket/bucket/logs/"));
    assert_eq!(ask_as(&owner, &bucket, "s3:GetObject", Some("logs/a"), ""), Ok(()));
    assert_eq!(ask_as(&owner, &bucket, "s3:GetObject", Some("in/a"), ""), out);
    assert_eq!(ask_as(&owner, &bucket, "s3:PutBucketPolicy", None, ""), out, "not even its policy");
    bucket.policy = Some(allow("user-1", "s3:GetObject"));
    let by_policy = user("user-1", &[], Some("bucket/bucket/logs/"));
    assert_eq!(ask_as(&by_policy, &bucket, "s3:GetObject", Some("logs/a"), ""), Ok(()));
    assert_eq!(ask_as(&by_policy, &bucket, "s3:GetObject", Some("in/a"), ""), out);
    assert!(reaches(&by_policy, "bucket") && !reaches(&by_policy, "other"));
    assert!(reaches(&Caller::Account("ann".into()), "other"));
}

#[test]
fn a_bucket_is_seen_by_who_has_a_part_of_it() {
    let mut bucket = bucket();
    let head = |caller: &Caller, bucket: &BucketInfo| {
        let (context, policy) = (Context::default(), policy_of(bucket));
        let action = "s3:ListBucket";
        decide_head(&Asked {
            caller,
            action,
            bucket,
            policy: policy.as_ref(),
            key: None,
            object_acl: None,
            context: &context,
        })
    };
    let writer = user("user-1", &[("write", "bucket/bucket/in/")], None);
    let bounded = user("user-1", &[("all", "bucket/bucket")], Some("bucket/bucket/in/"));
    let elsewhere = user("user-1", &[("all", "*")], Some("bucket/other/"));
    let nobody = user("user-1", &[("write", "bucket/other/")], None);
    assert_eq!(ask_as(&writer, &bucket, "s3:ListBucket", None, ""), Err(Denied::NotAllowed), "no more than that");
    assert_eq!((head(&writer, &bucket), head(&bounded, &bucket)), (Ok(()), Ok(())));
    assert_eq!(head(&elsewhere, &bucket), Err(Denied::OutOfBounds));
    assert_eq!(head(&nobody, &bucket), Err(Denied::NotAllowed));
    assert_eq!(head(&Caller::Account("bob".into()), &bucket), Err(Denied::NotAllowed));
    assert_eq!(head(&Caller::Anonymous, &bucket), Err(Denied::NotAllowed));
    let deny = format!(r#"{{"Version":"2012-10-17","Statement":{}}}"#, statement("Deny", "*", "s3:ListBucket"));
    bucket.policy = Some(deny);
    for caller in [&writer, &bounded] {
        assert_eq!(head(caller, &bucket), Err(Denied::ByPolicy));
    }
}

#[test]
fn a_bucket_is_made_by_who_may_configure_it() {
    let may = |caller: &Caller, bucket: &str| may_create(caller, bucket, &Context::default());
    assert!(may(&user("user-1", &[("configure", "bucket/shop-*")], None), "shop-a"));
    assert!(!may(&user("user-1", &[("configure", "bucket/shop-*")], None), "other"));
    assert!(!may(&user("user-1", &[("read,list,write,delete", "bucket/shop-*")], None), "shop-a"));
    assert!(may(&Caller::Account("ann".into()), "other"));
}

/// A session of that user with these statements.
fn session(of: Caller, statements: &str) -> Caller {
    let Caller::User(account, identity) = of else { panic!("no user") };
    let text = format!(r#"{{"Version":"2012-10-17","Statement":[{statements}]}}"#);
    let policy = Policy::of_session(&serde_json::from_str(&text).unwrap()).unwrap();
    Caller::Bounded(account, identity, Arc::new(policy))
}

fn part(effect: &str, action: &str, resource: &str) -> String {
    format!(r#"{{"Effect":"{effect}","Action":"{action}","Resource":"{resource}"}}"#)
}

#[test]
pub(super) fn a_sessions_policy_bounds_every_reason() {
    let mut bucket = bucket();
    let no = Err(Denied::BySession);
    let reads = part("Allow", "s3:GetObject", "arn:aws:s3:::bucket/${aws:username}/*");
    // By a role, by ownership, by the bucket's policy.
    let roles = session(user("user-1", &[("all", "*")], None), &reads);
    let owner = session(user("ann", &[], None), &reads);
    let by_policy = session(user("user-2", &[], None), &reads);
    bucket.policy = Some(allow("user-2", "s3:*"));
    for caller in [&roles, &owner, &by_policy] {
        assert_eq!(ask_as(caller, &bucket, "s3:GetObject", Some("una/a"), ""), Ok(()), "{caller:?}");
        for (action, key) in [("s3:GetObject", "bob/a"), ("s3:PutObject", "una/a"), ("s3:DeleteObject", "una/a")] {
            assert_eq!(ask_as(caller, &bucket, action, Some(key), ""), no, "{action} {key} {caller:?}");
        }
        assert_eq!(ask_as(caller, &bucket, "s3:ListBucket", None, "una/"), no);
        assert_eq!(ask_as(caller, &bucket, "s3:DeleteBucketPolicy", None, ""), no, "not even the owner's way out");
        assert!(might_allow(caller, "s3:GetObject", &bucket) && !might_allow(caller, "s3:PutObject", &bucket));
        assert!(!may_create(caller, "bucket", &Context::default()) && !may_list_buckets(caller, &Context::default()));
    }
    // It gives nothing by itself, and an ACL for everybody is no way around it.
    let nobody = session(user("user-3", &[], None), &part("Allow", "s3:*", "*"));
    assert_eq!(ask_as(&nobody, &bucket, "s3:GetObject", Some("una/a"), ""), Err(Denied::NotAllowed));
    bucket.policy = None;
    bucket.acl = with(bucket.acl, Grantee::AllUsers, Permission::Read);
    assert_eq!(ask_as(&nobody, &bucket, "s3:ListBucket", None, ""), Ok(()));
    assert_eq!(ask_as(&roles, &bucket, "s3:ListBucket", None, ""), no);
}

#[test]
fn a_sessions_policy_denies_and_names_buckets() {
    let bucket = bucket();
    let all = || user("user-1", &[("all", "*")], None);
    let statements = [
        part("Allow", "s3:*", "*"),
        part("Deny", "s3:DeleteObject", "arn:aws:s3:::bucket/*"),
        part("Deny", "s3:CreateBucket", "arn:aws:s3:::shop-*"),
    ];
    let most = session(all(), &statements.join(","));
    assert_eq!(ask_as(&most, &bucket, "s3:PutObject", Some("a"), ""), Ok(()));
    assert_eq!(ask_as(&most, &bucket, "s3:DeleteObject", Some("a"), ""), Err(Denied::BySession));
    let context = Context::default();
    assert!(may_create(&most, "other", &context) && !may_create(&most, "shop-a", &context));
    assert!(may_list_buckets(&most, &context));
    let lists = session(all(), &part("Allow", "s3:ListAllMyBuckets", "arn:aws:s3:::*"));
    assert!(may_list_buckets(&lists, &context) && !may_create(&lists, "other", &context));
    // A condition counts for calls without a bucket, too.
    let from =
        r#"{"Effect":"Allow","Action":"s3:*","Resource":"*","Condition":{"IpAddress":{"aws:SourceIp":"10.0.0.0/8"}}}"#;
    let near = session(all(), from);
    let mut there = Context::default();
    there.set("aws:SourceIp", "10.1.2.3");
    for (context, may) in [(&context, false), (&there, true)] {
        assert_eq!((may_create(&near, "b", context), may_list_buckets(&near, context)), (may, may));
    }
}

#[test]
fn a_sessions_policy_and_its_bounds_decide_head() {
    let bucket = bucket();
    let (context, action) = (Context::default(), "s3:ListBucket");
    let head = |caller: &Caller| {
        decide_head(&Asked {
            caller,
            action,
            bucket: &bucket,
            policy: None,
            key: None,
            object_acl: None,
            context: &context,
        })
    };
    for (within, inner) in [(None, Ok(())), (Some("bucket/bucket/in/"), Ok(()))] {
        let own = || user("user-1", &[("all", "bucket/bucket/in/")], within);
        assert_eq!(head(&session(own(), &part("Allow", action, "arn:aws:s3:::bucket"))), inner);
        assert_eq!(head(&session(own(), &part("Allow", "s3:PutObject", "*"))), Err(Denied::BySession));
    }
}

#[test]
fn a_decision_has_one_budget() {
    // Close to all the steps of a decision.
    let slow = format!("arn:aws:s3:::bucket/*{}b", "a".repeat(400));
    let key = "a".repeat(1_000);
    let statements = [part("Allow", "s3:*", "*"), part("Allow", "s3:*", &slow)].join(",");
    let plain = || user("user-1", &[("all", "*")], None);
    let bounded = session(plain(), &statements);
    let mut bucket = bucket();
    assert_eq!(ask_as(&bounded, &bucket, "s3:GetObject", Some(&key), ""), Ok(()));
    let deny = statement("Deny", "*", "s3:GetObject").replace("arn:aws:s3:::bucket/*", &slow);
    assert!(deny.contains(&slow), "{deny}");
    bucket.policy = Some(format!(r#"{{"Version":"2012-10-17","Statement":{deny}}}"#));
    assert_eq!(ask_as(&plain(), &bucket, "s3:GetObject", Some(&key), ""), Ok(()));
    assert_eq!(ask_as(&bounded, &bucket, "s3:GetObject", Some(&key), ""), Err(Denied::TooCostly));
}
