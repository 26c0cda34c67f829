//! Limits, retries and deadlines on a paused clock; places as people write them.

use crate::faults::Faulty;
use crate::probe::{only_new, probe};
use crate::{Kind, Limited, Limits, ObjectsError, Place};
use futures_util::TryStreamExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

fn faulty() -> (Faulty, Limited) {
    let faulty = Faulty::new(Arc::new(InMemory::new()));
    let limited = Limited::new(Arc::new(faulty.clone()), Limits::default());
    (faulty, limited)
}

#[tokio::test(start_paused = true)]
async fn what_may_be_done_twice_is_tried_again_and_counted() {
    let (faulty, store) = faulty();
    faulty.faults().fail_every.store(2, Ordering::SeqCst);
    for i in 0..10 {
        store.put(&Path::from(format!("a/{i}")), "value".into()).await.unwrap();
        assert_eq!(store.get(&Path::from(format!("a/{i}"))).await.unwrap().bytes().await.unwrap(), "value");
    }
    assert_eq!(store.list(None).try_collect::<Vec<_>>().await.unwrap().len(), 10);
    store.delete(&Path::from("a/0")).await.unwrap();
    let meter = store.meter();
    assert!(meter.retries() >= 10, "{}", meter.summary());
    assert_eq!(meter.counts(Kind::Put).bytes, 50);
    assert_eq!(meter.counts(Kind::Get).bytes, 50);
    assert_eq!(meter.counts(Kind::Put).requests, 10 + meter.counts(Kind::Put).failures);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_must_be_the_first_is_tried_once() {
    let (faulty, store) = faulty();
    faulty.faults().lose_answers.store(1, Ordering::SeqCst);
    let lost = store.put_opts(&Path::from("one"), "mine".into(), only_new()).await;
    assert!(matches!(lost, Err(Error::Generic { .. })), "an unknown outcome stays unknown: {lost:?}");
    assert_eq!(faulty.faults().writes(), 1);
    faulty.faults().lose_answers.store(0, Ordering::SeqCst);
    let second = store.put_opts(&Path::from("one"), "other".into(), only_new()).await;
    assert!(matches!(second, Err(Error::AlreadyExists { .. })), "{second:?}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_stalls_ends_in_an_error_and_not_in_silence() {
    let (faulty, store) = faulty();
    faulty.faults().stalled.store(true, Ordering::SeqCst);
    let begun = tokio::time::Instant::now();
    let error = store.get(&Path::from("x")).await.unwrap_err();
    assert!(error.to_string().contains("no answer within"), "{error}");
    let limits = Limits::default();
    let longest = (limits.deadline + limits.pause_max) * (limits.retries_max + 1);
    assert!(begun.elapsed() >= limits.deadline * (limits.retries_max + 1) && begun.elapsed() <= longest);
}

#[tokio::test(start_paused = true)]
async fn no_more_requests_at_a_time_than_said() {
    let faulty = Faulty::new(Arc::new(InMemory::new()));
    faulty.faults().latency_ms.store(100, Ordering::SeqCst);
    let limits = Limits { concurrency: 4, ..Limits::default() };
    let store = Limited::new(Arc::new(faulty), limits);
    let begun = tokio::time::Instant::now();
    let requests = (0..20).map(|i| {
        let store = store.clone();
        tokio::spawn(async move { store.put(&Path::from(format!("{i}")), "v".into()).await.unwrap() })
    });
    for request in requests.collect::<Vec<_>>() {
        request.await.unwrap();
    }
    assert!(begun.elapsed() >= Duration::from_millis(500), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_probe_passes_memory_and_a_directory_and_leaves_nothing() {
    let memory = Place::parse("memory:").unwrap().open(&BTreeMap::new()).unwrap();
    probe(&*memory, "memory:", "1").await.unwrap();
    let home = tempfile::tempdir().unwrap();
    let url = format!("file://{}", home.path().display());
    let place = Place::parse(&url).unwrap().below("deeper");
    let directory = place.open(&BTreeMap::new()).unwrap();
    probe(&*directory, &url, "1").await.unwrap();
    assert_eq!(std::fs::read_dir(home.path().join("deeper")).unwrap().count(), 0);
}

/// A store that does not know conditions: it writes over what is there.
#[tokio::test]
async fn a_store_without_conditions_is_refused() {
    let refused = probe(&careless::Careless(InMemory::new()), "somewhere", "1").await.unwrap_err();
    assert!(matches!(&refused, ObjectsError::Refused(text) if text.contains("If-None-Match")), "{refused}");
}

#[test]
fn places_are_read_and_written() {
    for url in ["s3://bucket/a/b", "file:///tmp/x", "memory:"] {
        assert_eq!(Place::parse(url).unwrap().to_string(), url);
    }
    assert_eq!(Place::parse("s3://bucket").unwrap().below("x").to_string(), "s3://bucket/x");
    let wrong = ["", "s3://", "s3:///x", "s3://b/../c", "file://relative", "http://x", "s3://b c/x", "file:///a\0b"];
    for url in wrong {
        assert!(matches!(Place::parse(url), Err(ObjectsError::Invalid(_))), "{url:?}");
    }
    let options = BTreeMap::from([("colour".to_string(), "red".to_string())]);
    for url in ["s3://bucket", "file:///tmp", "memory:"] {
        let error = Place::parse(url).unwrap().open(&options).unwrap_err();
        assert!(error.to_string().contains("colour"), "{error}");
    }
}

/// S3's answers, as `object_store` words them, with what to do.
#[test]
fn refusals_name_the_remedy() {
    let generic = |text: &str| Error::Generic { store: "S3", source: text.to_string().into() };
    let cases = [
        (generic("404: <Code>NoSuchBucket</Code>"), "make the bucket"),
        (generic("403: <Code>InvalidAccessKeyId</Code>"), "right access key"),
        (Error::PermissionDenied { path: "x".into(), source: "AccessDenied".into() }, "rights"),
        (generic("connection refused"), "check the endpoint"),
    ];
    for (error, remedy) in cases {
        let told = crate::failure::explain("listing objects", "s3://b/", &error);
        assert!(told.to_string().contains(remedy), "{told}");
        let waits = matches!(told, ObjectsError::Unavailable(_));
        assert_eq!(waits, crate::failure::is_transient(&error), "{told}");
    }
}

mod careless {
    use async_trait::async_trait;
    use futures_util::stream::BoxStream;
    use object_store::memory::InMemory;
    use object_store::path::Path;
    use object_store::*;

    #[derive(Debug)]
    pub struct Careless(pub InMemory);

    impl std::fmt::Display for Careless {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("careless")
        }
    }

    #[async_trait]
    impl ObjectStore for Careless {
        async fn put_opts(&self, path: &Path, payload: PutPayload, _options: PutOptions) -> Result<PutResult> {
            self.0.put_opts(path, payload, PutOptions::default()).await
        }
        async fn put_multipart_opts(&self, p: &Path, o: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
            self.0.put_multipart_opts(p, o).await
        }
        async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
            self.0.get_opts(path, options).await
        }
        fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
            self.0.delete_stream(paths)
        }
        fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
            self.0.list(prefix)
        }
        async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
            self.0.list_with_delimiter(prefix).await
        }
        async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
            self.0.copy_opts(from, to, options).await
        }
    }
}
