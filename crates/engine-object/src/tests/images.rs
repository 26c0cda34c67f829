//! A store in memory that keeps what it was before each write: what a machine that lost power between two
//! objects leaves behind. An object is there whole or not at all; that is what such stores promise.

use super::{ObjectFactory, A};
use async_trait::async_trait;
use base_engine::conformance::{batch, durable, put, EngineFactory, Model};
use base_engine::Engine;
use base_objects::object_store::memory::InMemory;
use base_objects::object_store::path::Path;
use base_objects::object_store::*;
use futures_util::stream::BoxStream;
use std::sync::{Arc, Mutex};

/// The store; clones are the same one.
#[derive(Clone, Debug)]
pub struct Recorder {
    inner: Arc<InMemory>,
    before: Arc<Mutex<Option<Vec<InMemory>>>>,
}

impl Recorder {
    pub fn new(inner: InMemory) -> Recorder {
        Recorder { inner: Arc::new(inner), before: Arc::default() }
    }

    /// Another store with the same objects.
    pub fn copy(&self) -> Recorder {
        Recorder::new(self.inner.fork())
    }

    /// Begins to keep what was before each write.
    pub fn record(&self) {
        *self.before.lock().unwrap() = Some(Vec::new());
    }

    /// Ends it; what was kept.
    pub fn recorded(&self) -> Vec<Recorder> {
        self.before.lock().unwrap().take().unwrap_or_default().into_iter().map(Recorder::new).collect()
    }

    fn on_write(&self) {
        if let Some(kept) = self.before.lock().unwrap().as_mut() {
            kept.push(self.inner.fork());
        }
    }
}

impl std::fmt::Display for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("recorder")
    }
}

#[async_trait]
impl ObjectStore for Recorder {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.on_write();
        self.inner.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(&self, p: &Path, o: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.on_write();
        self.inner.put_multipart_opts(p, o).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(path, options).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.on_write();
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.on_write();
        self.inner.copy_opts(from, to, options).await
    }
}

/// Killed at each object while a table is written out behind many commits.
#[test]
fn a_kill_at_any_object_leaves_every_commit() {
    let factory = ObjectFactory::new(16 << 20, false);
    let engine = factory.open();
    let mut model = Model::default();
    for round in 0..5 {
        let one = batch([put(A, format!("{round}"), vec![round as u8; 3000]), durable(A, round + 1)]);
        engine.write(&one).unwrap();
        model.apply(&one);
    }
    let store = factory.store_of(&engine);
    store.record();
    engine.store().write_out().unwrap();
    let images = store.recorded();
    assert!(images.len() >= 2, "a table and a manifest: {}", images.len());
    for (at, image) in images.into_iter().enumerate() {
        let opened = factory.open_on(image).unwrap();
        model.assert_shown_by(&opened, &[A], &format!("killed before object {at}"));
    }
}

/// Making a place writes many objects: after a kill at each of them, the place opens or is made again.
#[test]
fn a_kill_while_a_place_is_made_is_made_good() {
    let factory = ObjectFactory::new(16 << 20, false);
    let store = Recorder::new(InMemory::new());
    store.record();
    drop(factory.open_on(store.clone()).unwrap());
    for image in store.recorded() {
        let engine = factory.open_on(image).unwrap();
        engine.write(&batch([put(A, "on", "it goes")])).unwrap();
        assert_eq!(engine.verify().unwrap(), 1);
    }
}
