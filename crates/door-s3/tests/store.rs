//! The contract of data stores, held by each; and what a crash at each step of a put leaves.

use base_types::s3::{CreateBucket, Data, DeleteObject, PutObject, UploadPart};
use bytes::Bytes;
use door_s3::metadata::tell;
use door_s3::store::{DataStore, Intent, LocalStore, ObjectsStore, StoreError, CHUNK_BYTES};
use door_s3::sweep::{drain_freed, sweep, Swept, SLACK_MS};
use door_s3::testing::MemoryMetadata;
use futures::TryStreamExt as _;
use std::path::Path;
use std::sync::Arc;

const EXPIRES_MS: u64 = 1_000;
/// A sweep at this time collects what expired.
const LATER_MS: u64 = EXPIRES_MS + SLACK_MS + 1;

fn intent() -> Intent {
    Intent { bucket: "bucket".into(), key: "key".into(), expires_ms: EXPIRES_MS }
}

fn body() -> Bytes {
    (0..3 * CHUNK_BYTES + 17).map(|at| (at % 251) as u8).collect::<Vec<u8>>().into()
}

async fn put(store: &dyn DataStore) -> String {
    let mut writer = store.begin(intent()).await.unwrap();
    let location = writer.location().to_owned();
    for piece in body().chunks(70_000) {
        writer.write(Bytes::copy_from_slice(piece)).await.unwrap();
    }
    writer.finish().await.unwrap();
    location
}

async fn read(store: &dyn DataStore, location: &str, range: std::ops::Range<u64>) -> Result<Vec<u8>, StoreError> {
    let pieces: Vec<Bytes> = store.read(location, body().len() as u64, range).await?.try_collect().await?;
    Ok(pieces.concat())
}

async fn is_there(store: &dyn DataStore, location: &str) -> bool {
    read(store, location, 0..1).await.is_ok()
}

/// What every store keeps to.
async fn contract(store: &dyn DataStore) {
    let location = put(store).await;
    let whole = body();
    for range in [0..whole.len(), 0..1, 5..70_001, whole.len() - 3..whole.len(), CHUNK_BYTES..2 * CHUNK_BYTES] {
        let got = read(store, &location, range.start as u64..range.end as u64).await.unwrap();
        assert_eq!(got, whole[range.clone()], "{range:?}");
    }
    assert_eq!(store.intents(None, 10).await.unwrap(), vec![(location.clone(), intent())]);
    assert!(store.intents(Some(&location), 10).await.unwrap().is_empty());
    store.settle(&location).await.unwrap();
    store.settle(&location).await.unwrap();
    assert!(store.intents(None, 10).await.unwrap().is_empty());
    assert!(is_there(store, &location).await, "settled data stays");
    let length = whole.len() as u64 + 1;
    assert!(matches!(store.read(&location, length, 0..1).await, Err(StoreError::Damaged { .. })));
    store.remove(&location).await.unwrap();
    store.remove(&location).await.unwrap();
    assert!(matches!(store.read(&location, 1, 0..1).await, Err(StoreError::Missing(_))));
    assert!(store.owns(&location));
    let other = format!("{}{}", if location.starts_with('0') { "1" } else { "0" }, &location[1..]);
    assert!(!store.owns(&other));
    let told = store.remove(&other).await.unwrap_err();
    assert!(matches!(told, StoreError::OtherStore { .. }) && told.to_string().contains("[s3]"), "{told}");
    for bad in ["", "../../etc/passwd", "ABCD", "01234567-0123456789abcdef0123456789abcde/", "é"] {
        assert!(matches!(store.read(bad, 1, 0..1).await, Err(StoreError::BadName(_))), "{bad}");
        assert!(matches!(store.remove(bad).await, Err(StoreError::BadName(_))), "{bad}");
    }
    let mut writer = store.begin(intent()).await.unwrap();
    writer.write(body()).await.unwrap();
    writer.abandon().await;
    assert!(store.intents(None, 10).await.unwrap().is_empty(), "what is abandoned leaves nothing");
}

#[tokio::test]
async fn local_keeps_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    contract(&LocalStore::open(folder.path()).unwrap()).await;
    assert_eq!(files(folder.path()), vec!["store-id"], "nothing is left behind");
}

#[tokio::test]
async fn other_stores_keep_the_contract() {
    let memory = Arc::new(object_store::memory::InMemory::new());
    let store = ObjectsStore::open(memory.clone()).await.unwrap();
    contract(&store).await;
    let location = put(&store).await;
    assert!(ObjectsStore::open(memory).await.unwrap().owns(&location), "the id is kept");
}

#[tokio::test]
async fn a_folder_is_shared_and_swept_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let open = |_| LocalStore::open(folder.path()).unwrap();
    let stores: Vec<LocalStore> = std::thread::scope(|scope| {
        [1, 2, 3, 4].map(|n| scope.spawn(move || open(n))).map(|t| t.join().unwrap()).into()
    });
    let location = put(&stores[0]).await;
    for store in &stores {
        assert!(store.owns(&location) && is_there(store, &location).await);
    }
    let held = stores[1].begin_sweep().await.unwrap().expect("nobody else sweeps");
    assert!(stores[2].begin_sweep().await.unwrap().is_none());
    drop(held);
    assert!(stores[2].begin_sweep().await.unwrap().is_some());
}

#[tokio::test]
async fn what_another_store_gave_is_left_alone() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (store, other) = (LocalStore::open(folder.path()).unwrap(), LocalStore::open(elsewhere.path()).unwrap());
    let metadata = bucket().await;
    let foreign = killed_put(&other, &metadata, Killed::AfterSettling).await;
    killed_put(&store, &metadata, Killed::AfterSettling).await;
    killed_put(&store, &metadata, Killed::AfterSettling).await;
    assert!(matches!(read(&store, &foreign, 0..1).await, Err(StoreError::OtherStore { .. })));
    assert_eq!(drain_freed(&metadata, &store).await.unwrap(), 1, "its own");
    assert!(is_there(&other, &foreign).await);
    assert_eq!(drain_freed(&metadata, &other).await.unwrap(), 1);
    assert!(!is_there(&other, &foreign).await);
}

fn files(folder: &Path) -> Vec<String> {
    let mut out = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => out.push(path.strip_prefix(folder).unwrap().display().to_string()),
            }
        }
    }
    out.sort();
    out
}

async fn bucket() -> MemoryMetadata {
    let metadata = MemoryMetadata::new("here");
    metadata.set_now_ms(1);
    metadata.add_account("ann", "key", "secret");
    let call = CreateBucket { bucket: "bucket".into(), account: "ann".into(), ..CreateBucket::default() };
    tell(&metadata, call).await.unwrap();
    metadata
}

fn named(location: &str) -> PutObject {
    PutObject {
        bucket: "bucket".into(),
        key: "key".into(),
        data: Data::Location(location.into()),
        size: body().len() as u64,
        etag: "e".into(),
        data_expires_ms: Some(EXPIRES_MS),
        ..PutObject::default()
    }
}

/// Where a put is killed.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Killed {
    AfterIntent,
    WhileWriting,
    AfterWriting,
    AfterNaming,
    AfterSettling,
}

/// Puts as the gateway does, up to where it is killed; answers the name it had begun.
async fn killed_put(store: &dyn DataStore, metadata: &MemoryMetadata, killed: Killed) -> String {
    let mut writer = store.begin(intent()).await.unwrap();
    let location = writer.location().to_owned();
    if killed == Killed::AfterIntent {
        return location;
    }
    writer.write(body()).await.unwrap();
    if killed == Killed::WhileWriting {
        return location;
    }
    writer.finish().await.unwrap();
    if killed == Killed::AfterWriting {
        return location;
    }
    tell(metadata, named(&location)).await.unwrap();
    if killed == Killed::AfterSettling {
        store.settle(&location).await.unwrap();
    }
    location
}

#[tokio::test]
async fn a_crash_at_each_step_leaves_no_orphan_and_loses_nothing() {
    for (killed, kept) in [
        (Killed::AfterIntent, false),
        (Killed::WhileWriting, false),
        (Killed::AfterWriting, false),
        (Killed::AfterNaming, true),
        (Killed::AfterSettling, true),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let metadata = bucket().await;
        let store = LocalStore::open(folder.path()).unwrap();
        let location = killed_put(&store, &metadata, killed).await;
        drop(store);
        let store = LocalStore::open(folder.path()).unwrap();
        let early = sweep(&metadata, &store, EXPIRES_MS).await.unwrap();
        assert_eq!(early, Swept::default(), "{killed:?}: what has not expired may still come");
        let swept = sweep(&metadata, &store, LATER_MS).await.unwrap();
        let (settled, orphans) = match killed {
            Killed::AfterNaming => (1, 0),
            Killed::AfterSettling => (0, 0),
            _ => (0, 1),
        };
        assert_eq!(swept, Swept { settled, orphans, freed: 0 }, "{killed:?}");
        assert_eq!(is_there(&store, &location).await, kept, "{killed:?}");
        let left = if kept { 2 } else { 1 };
        assert_eq!(files(folder.path()).len(), left, "{killed:?}: {:?}", files(folder.path()));
        assert_eq!(sweep(&metadata, &store, LATER_MS).await.unwrap(), Swept::default(), "{killed:?} again");
    }
}

#[tokio::test]
async fn a_name_that_comes_behind_its_intent_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let metadata = bucket().await;
    let store = LocalStore::open(folder.path()).unwrap();
    let location = killed_put(&store, &metadata, Killed::AfterWriting).await;
    metadata.set_now_ms(EXPIRES_MS + 1);
    assert_eq!(tell(&metadata, named(&location)).await.unwrap_err().code.as_str(), "RequestTimeout");
    let part = UploadPart { bucket: "bucket".into(), data_expires_ms: Some(EXPIRES_MS), ..UploadPart::default() };
    assert_eq!(tell(&metadata, part).await.unwrap_err().code.as_str(), "RequestTimeout");
    assert_eq!(sweep(&metadata, &store, LATER_MS).await.unwrap().orphans, 1);
}

#[tokio::test]
async fn what_deletes_and_overwrites_free_is_collected_even_after_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let metadata = bucket().await;
    let store = LocalStore::open(folder.path()).unwrap();
    let first = killed_put(&store, &metadata, Killed::AfterSettling).await;
    let second = killed_put(&store, &metadata, Killed::AfterSettling).await;
    assert!(is_there(&store, &first).await, "freed, not yet collected: a reader may have it open");
    assert_eq!(drain_freed(&metadata, &store).await.unwrap(), 1);
    assert!(!is_there(&store, &first).await && is_there(&store, &second).await);
    let delete = DeleteObject { bucket: "bucket".into(), key: "key".into(), ..DeleteObject::default() };
    tell(&metadata, delete).await.unwrap();
    // The bytes are removed, and the gateway is killed before it says so: the next one does both again.
    store.remove(&second).await.unwrap();
    assert_eq!(drain_freed(&metadata, &store).await.unwrap(), 1);
    assert_eq!(drain_freed(&metadata, &store).await.unwrap(), 0);
    assert_eq!(files(folder.path()), vec!["store-id"]);
}
