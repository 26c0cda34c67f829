//! A store that is slow, fails, stalls, or loses power where a test says.
//!
//! Always: what it answers with an error did not happen, unless `lose_answers` says that it did.
//! Not here: bytes that rot (tests change the store beneath).

use async_trait::async_trait;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// What goes wrong. All can be changed while it is used.
#[derive(Default, Debug)]
pub struct Faults {
    /// Added to every request.
    pub latency_ms: AtomicU64,
    /// Every n-th request fails before it is sent; zero: none.
    pub fail_every: AtomicU64,
    /// Every n-th write happens and its answer is lost; zero: none.
    pub lose_answers: AtomicU64,
    /// Writes (and removals) that still happen before the power is gone; `u64::MAX` after `new`.
    pub writes_left: AtomicU64,
    /// While set, nothing is answered at all.
    pub stalled: AtomicBool,
    requests: AtomicU64,
    writes: AtomicU64,
}

impl Faults {
    /// Writes and removals that happened.
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::SeqCst)
    }
}

/// The store with faults. Clones share them.
#[derive(Clone, Debug)]
pub struct Faulty {
    inner: Arc<dyn ObjectStore>,
    faults: Arc<Faults>,
}

fn fault(what: &str) -> Error {
    Error::Generic { store: "faulty", source: what.to_string().into() }
}

impl Faulty {
    /// Puts faults (none yet) before a store.
    pub fn new(inner: Arc<dyn ObjectStore>) -> Faulty {
        let faults = Faults { writes_left: AtomicU64::new(u64::MAX), ..Faults::default() };
        Faulty { inner, faults: Arc::new(faults) }
    }

    /// To change them.
    pub fn faults(&self) -> Arc<Faults> {
        self.faults.clone()
    }

    async fn before(&self) -> Result<()> {
        let latency = self.faults.latency_ms.load(Ordering::SeqCst);
        if latency > 0 {
            tokio::time::sleep(Duration::from_millis(latency)).await;
        }
        while self.faults.stalled.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let request = self.faults.requests.fetch_add(1, Ordering::SeqCst) + 1;
        let every = self.faults.fail_every.load(Ordering::SeqCst);
        match every > 0 && request.is_multiple_of(every) {
            true => Err(fault("503 Slow Down, by the test")),
            false => Ok(()),
        }
    }

    async fn before_write(&self) -> Result<()> {
        self.before().await?;
        let left = self.faults.writes_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if left.is_err() {
            return Err(fault("the power is gone, by the test"));
        }
        self.faults.writes.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn after_write<T>(&self, done: Result<T>) -> Result<T> {
        let every = self.faults.lose_answers.load(Ordering::SeqCst);
        match done.is_ok() && every > 0 && self.faults.writes().is_multiple_of(every) {
            true => Err(fault("the answer was lost, by the test")),
            false => done,
        }
    }
}

impl std::fmt::Display for Faulty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Faulty({})", self.inner)
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.before_write().await?;
        let done = self.inner.put_opts(location, payload, options).await;
        self.after_write(done)
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.before().await?;
        let upload = self.inner.put_multipart_opts(location, options).await?;
        Ok(Box::new(FaultyUpload { faulty: self.clone(), upload }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.before().await?;
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let own = self.clone();
        let removed = locations.and_then(move |location| {
            let own = own.clone();
            async move {
                own.before_write().await?;
                let one = stream::once(std::future::ready(Ok(location.clone()))).boxed();
                own.inner.delete_stream(one).try_collect::<Vec<_>>().await?;
                Ok(location)
            }
        });
        removed.boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (own, prefix) = (self.clone(), prefix.cloned());
        let begun = async move {
            own.before().await?;
            Ok::<_, Error>(own.inner.list(prefix.as_ref()))
        };
        stream::once(begun).try_flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.before().await?;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.before_write().await?;
        self.inner.copy_opts(from, to, options).await
    }
}

#[derive(Debug)]
struct FaultyUpload {
    faulty: Faulty,
    upload: Box<dyn MultipartUpload>,
}

#[async_trait]
impl MultipartUpload for FaultyUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (faulty, part) = (self.faulty.clone(), self.upload.put_part(data));
        Box::pin(async move {
            faulty.before().await?;
            part.await
        })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.faulty.before_write().await?;
        self.upload.complete().await
    }

    async fn abort(&mut self) -> Result<()> {
        self.upload.abort().await
    }
}
