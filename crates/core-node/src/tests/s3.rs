//! Accounts and buckets on whole cores.

use super::*;
use base_types::s3::*;

fn s3(world: &mut World, node: u64, call: impl Into<S3Action>) -> Result<S3Answer, &'static str> {
    match world.act(node, Action::S3(call.into())) {
        Ok(answer) => match answer.result {
            ActionResult::S3(answer) => Ok(answer),
            other => panic!("{other:?}"),
        },
        Err(failure) => Err(failure.refusal.code.as_str()),
    }
}

fn create(account: &str) -> CreateBucket {
    CreateBucket { bucket: "photos".into(), account: account.into(), ..CreateBucket::default() }
}

fn head() -> HeadBucket {
    HeadBucket { bucket: "photos".into() }
}

#[test]
fn a_bucket_is_made_on_one_node_and_found_and_removed_on_others() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par"], 3, 2);
    world.ready();
    for account in ["ann", "bob"] {
        s3(&mut world, 1, CreateAccount { account: account.into(), ..CreateAccount::default() }).unwrap();
    }
    let (access_key, secret_key) = (Some("AKEY".into()), Some("a-secret".into()));
    let key = CreateAccessKey { account: "ann".into(), access_key, secret_key, sealed: None };
    let made = s3(&mut world, 2, key).unwrap();
    assert_eq!(s3(&mut world, 3, GetAccessKey { access_key: "AKEY".into() }), Ok(made));
    assert_eq!(s3(&mut world, 1, head()), Err("NoSuchBucket"));
    s3(&mut world, 1, create("ann")).unwrap();
    for node in 1..=3 {
        let info = BucketInfo::try_from(s3(&mut world, node, head()).unwrap()).unwrap();
        assert_eq!(info.owner.id, "ann");
    }
    assert_eq!(s3(&mut world, 2, create("bob")), Err("BucketAlreadyExists"));
    let versioning = PutBucketVersioning { bucket: "photos".into(), status: Versioning::Enabled };
    s3(&mut world, 3, versioning).unwrap();
    let told = s3(&mut world, 1, GetBucketVersioning { bucket: "photos".into() });
    assert_eq!(told, Ok(BucketVersioning { status: Some(Versioning::Enabled) }.into()));
    s3(&mut world, 3, DeleteBucket { bucket: "photos".into(), ..DeleteBucket::default() }).unwrap();
    assert_eq!(s3(&mut world, 1, head()), Err("NoSuchBucket"));
    s3(&mut world, 2, create("bob")).unwrap();
    for node in 1..=3 {
        let info = BucketInfo::try_from(s3(&mut world, node, head()).unwrap()).unwrap();
        assert_eq!((&info.owner.id[..], info.versioning), ("bob", None));
    }
}

#[test]
fn objects_and_uploads_are_the_same_at_every_node() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par"], 3, 2);
    world.ready();
    s3(&mut world, 1, CreateAccount { account: "ann".into(), ..CreateAccount::default() }).unwrap();
    s3(&mut world, 1, create("ann")).unwrap();
    let (bucket, key) = ("photos".to_owned(), "a/b".to_owned());
    let body = bytes::Bytes::from_static(b"bytes");
    let put = PutObject {
        bucket: bucket.clone(),
        key: key.clone(),
        data: Data::Inline(body.clone()),
        size: 5,
        etag: "e".into(),
        ..PutObject::default()
    };
    for node in 1..=3 {
        s3(&mut world, node, PutObject { key: format!("a/{node}"), ..put.clone() }).unwrap();
    }
    let get = |key: &str| GetObject { bucket: bucket.clone(), key: key.into(), ..GetObject::default() };
    let found = ObjectVersion::try_from(s3(&mut world, 3, get("a/1")).unwrap()).unwrap();
    assert_eq!(found.data, Some(Data::Inline(body.clone())));
    let list = ListObjectsV2 { bucket: bucket.clone(), max_keys: Some(2), ..ListObjectsV2::default() };
    let page = ObjectPage::try_from(s3(&mut world, 1, list.clone()).unwrap()).unwrap();
    let next = ListObjectsV2 { continuation_token: page.next_continuation_token, ..list };
    let page = ObjectPage::try_from(s3(&mut world, 2, next).unwrap()).unwrap();
    assert_eq!((&page.contents[0].key[..], page.is_truncated), ("a/3", false));

    let begin = CreateMultipartUpload { bucket: bucket.clone(), key: key.clone(), ..CreateMultipartUpload::default() };
    let upload_id = UploadCreated::try_from(s3(&mut world, 1, begin).unwrap()).unwrap().upload_id;
    let part = UploadPart {
        bucket: bucket.clone(),
        key: key.clone(),
        upload_id: upload_id.clone(),
        part_number: 1,
        data: Data::Inline(body),
        size: 5,
        etag: "e".into(),
        ..UploadPart::default()
    };
    s3(&mut world, 2, part).unwrap();
    let parts = vec![CompletedPart { part_number: 1, etag: "e".into(), ..CompletedPart::default() }];
    let end = CompleteMultipartUpload { bucket: bucket.clone(), key, upload_id, parts, ..Default::default() };
    let answer = s3(&mut world, 3, end.clone()).unwrap();
    assert_eq!(s3(&mut world, 1, end), Ok(answer));
    let found = ObjectVersion::try_from(s3(&mut world, 2, get("a/b")).unwrap()).unwrap();
    assert_eq!((found.parts_count, found.size), (Some(1), 5));
    let count = s3(&mut world, 1, CountObjects { bucket, prefix: "a/".into(), snapshot: false });
    assert_eq!(count, Ok(ObjectCount { keys: 4, versions: 4, bytes: 20 }.into()));
}
