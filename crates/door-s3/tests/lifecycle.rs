//! Lifecycle rules over a metadata service in memory: what goes, what stays, and when.

use base_types::s3::*;
use door_s3::lifecycle::{Done, Walk, DAY_MS};
use door_s3::metadata::{ask, tell};
use door_s3::testing::MemoryMetadata;
use std::time::Duration;

/// Some day, at noon.
const NOON_MS: u64 = 20_000 * DAY_MS + DAY_MS / 2;
/// The midnight after it.
const MIDNIGHT_MS: u64 = 20_001 * DAY_MS;

async fn bucket(versioned: bool) -> MemoryMetadata {
    let metadata = MemoryMetadata::new("here");
    metadata.set_now_ms(NOON_MS);
    metadata.add_account("ann", "key", "secret");
    let call = CreateBucket { bucket: "bucket".into(), account: "ann".into(), ..CreateBucket::default() };
    tell(&metadata, call).await.unwrap();
    if versioned {
        let call = PutBucketVersioning { bucket: "bucket".into(), status: Versioning::Enabled };
        tell(&metadata, call).await.unwrap();
    }
    metadata
}

async fn put(metadata: &MemoryMetadata, key: &str, etag: &str, size: u64, tags: &[(&str, &str)]) {
    let tag = |(key, value): &(&str, &str)| Tag { key: (*key).into(), value: (*value).into() };
    let put = PutObject {
        bucket: "bucket".into(),
        key: key.into(),
        etag: etag.into(),
        size,
        tags: tags.iter().map(tag).collect(),
        ..PutObject::default()
    };
    tell(metadata, put).await.unwrap();
}

async fn left(metadata: &MemoryMetadata) -> Vec<String> {
    let list = ListObjectVersions { bucket: "bucket".into(), ..ListObjectVersions::default() };
    let page: VersionPage = ask(metadata, list).await.unwrap();
    let word = |entry: &VersionEntry| if entry.delete_marker { format!("{}!", entry.key) } else { entry.key.clone() };
    page.versions.iter().map(word).collect()
}

async fn walk(metadata: &MemoryMetadata, rules: &[LifecycleRule], now_ms: u64) -> Done {
    let walk = Walk { metadata, bucket: "bucket", rules, now_ms, pace: Duration::ZERO };
    walk.run().await.unwrap()
}

fn rule(prefix: Option<&str>) -> LifecycleRule {
    let filter = LifecycleFilter { prefix: prefix.map(str::to_owned), ..LifecycleFilter::default() };
    LifecycleRule { enabled: true, filter, ..LifecycleRule::default() }
}

fn after_days(days: u32) -> Option<Expiration> {
    Some(Expiration { days: Some(days), ..Expiration::default() })
}

#[tokio::test]
async fn objects_expire_at_the_midnight_behind_their_days() {
    let metadata = bucket(false).await;
    for key in ["a/1", "a/2", "b"] {
        put(&metadata, key, "e", 5, &[]).await;
    }
    let rules = [LifecycleRule { expiration: after_days(2), ..rule(Some("a/")) }];
    let due = MIDNIGHT_MS + 2 * DAY_MS;
    assert_eq!(walk(&metadata, &rules, due - 1).await, Done::default());
    let off = [LifecycleRule { enabled: false, ..rules[0].clone() }];
    assert_eq!(walk(&metadata, &off, due).await, Done::default());
    assert_eq!(walk(&metadata, &rules, due).await, Done { expired: 2, ..Done::default() });
    assert_eq!(left(&metadata).await, ["b"]);
    let date = Expiration { date_ms: Some(MIDNIGHT_MS), ..Expiration::default() };
    let rules = [LifecycleRule { expiration: Some(date), ..rule(None) }];
    assert_eq!(walk(&metadata, &rules, MIDNIGHT_MS).await.expired, 1);
}

#[tokio::test]
async fn filters_by_size_and_tags_are_kept_to() {
    let metadata = bucket(false).await;
    put(&metadata, "small", "e", 5, &[("keep", "no")]).await;
    put(&metadata, "large", "e", 500, &[("keep", "no"), ("x", "y")]).await;
    put(&metadata, "other", "e", 500, &[]).await;
    let mut only = rule(None);
    only.expiration = after_days(1);
    only.filter.object_size_greater_than = Some(5);
    only.filter.tags = vec![Tag { key: "keep".into(), value: "no".into() }];
    assert_eq!(walk(&metadata, &[only], MIDNIGHT_MS + DAY_MS).await.expired, 1);
    assert_eq!(left(&metadata).await, ["other", "small"]);
}

#[tokio::test]
async fn old_versions_go_but_the_newest_of_them_and_lonely_markers_go_last() {
    let metadata = bucket(true).await;
    for etag in ["1", "2", "3", "4"] {
        put(&metadata, "k", etag, 5, &[]).await;
    }
    let old = |newer| Some(NoncurrentExpiration { noncurrent_days: 1, newer_noncurrent_versions: newer });
    let late = MIDNIGHT_MS + DAY_MS;
    let keep_two = [LifecycleRule { noncurrent_version_expiration: old(Some(2)), ..rule(None) }];
    assert_eq!(walk(&metadata, &keep_two, late).await, Done { versions: 1, ..Done::default() });
    assert_eq!(left(&metadata).await, ["k", "k", "k"]);
    let markers = Expiration { expired_object_delete_marker: Some(true), ..Expiration::default() };
    let lonely = LifecycleRule { expiration: Some(markers), ..rule(None) };
    let delete = DeleteObject { bucket: "bucket".into(), key: "k".into(), ..DeleteObject::default() };
    tell(&metadata, delete).await.unwrap();
    assert_eq!(
        walk(&metadata, std::slice::from_ref(&lonely), late).await,
        Done::default(),
        "there are versions below it"
    );
    let none = [LifecycleRule { noncurrent_version_expiration: old(None), ..rule(None) }, lonely];
    assert_eq!(walk(&metadata, &none, late).await.versions, 3);
    assert_eq!(left(&metadata).await, ["k!"]);
    assert_eq!(walk(&metadata, &none, late).await, Done { markers: 1, ..Done::default() });
    assert!(left(&metadata).await.is_empty());
}

#[tokio::test]
async fn in_a_versioned_bucket_expiry_lays_a_marker_and_locks_hold() {
    let metadata = bucket(true).await;
    put(&metadata, "k", "1", 5, &[]).await;
    let rules = [LifecycleRule { expiration: after_days(1), ..rule(None) }];
    assert_eq!(walk(&metadata, &rules, MIDNIGHT_MS + DAY_MS).await.expired, 1);
    assert_eq!(left(&metadata).await, ["k!", "k"]);
}

#[tokio::test]
async fn uploads_that_are_never_completed_are_aborted() {
    let metadata = bucket(false).await;
    for key in ["a", "b"] {
        let begin = CreateMultipartUpload { bucket: "bucket".into(), key: key.into(), ..Default::default() };
        tell(&metadata, begin).await.unwrap();
    }
    let rules = [LifecycleRule { abort_incomplete_multipart_upload_days: Some(3), ..rule(Some("a")) }];
    assert_eq!(walk(&metadata, &rules, MIDNIGHT_MS + 3 * DAY_MS - 1).await, Done::default());
    assert_eq!(walk(&metadata, &rules, MIDNIGHT_MS + 3 * DAY_MS).await, Done { uploads: 1, ..Done::default() });
    let list = ListMultipartUploads { bucket: "bucket".into(), ..ListMultipartUploads::default() };
    let page: Uploads = ask(&metadata, list).await.unwrap();
    assert_eq!(page.uploads.len(), 1);
}
