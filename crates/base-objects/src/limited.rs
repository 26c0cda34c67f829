//! A store behind limits: few requests at a time, a deadline each, retries, and a meter.
//!
//! What is done again: reads, listings, removals and writes that replace whatever is there. A write that
//! must be the first of its name is **not**: if its answer was lost, the second try would be told that the
//! name is taken, by itself. Who sends those knows how to find out (SlateDB by an id in the object's
//! attributes, the tail by reading what is there).
//!
//! Always: at most `concurrency` requests at a time; a try ends at the deadline; the number of tries is
//! bounded; bodies are read whole before a get is answered, so that a body that breaks off is read again.
//! Held by: `no_more_requests_at_a_time_than_said`, `a_store_that_stalls_ends_in_an_error_and_not_in_silence`.
//! Not here: which errors are for good (`failure.rs`).

use crate::failure::is_transient;
use crate::meter::{Kind, Meter};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The longest a try may take.
pub const REQUEST_DEADLINE: Duration = Duration::from_secs(30);
/// Names in one page of S3's listings: what a listing is counted by.
const LIST_PAGE: usize = 1000;
const STORE: &str = "limited";

/// How requests are limited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Requests at a time.
    pub concurrency: usize,
    /// The longest a try may take.
    pub deadline: Duration,
    /// Tries after the first.
    pub retries_max: u32,
    /// The pause before the second try; it doubles.
    pub pause_min: Duration,
    /// The longest pause.
    pub pause_max: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            concurrency: 32,
            deadline: REQUEST_DEADLINE,
            retries_max: 6,
            pause_min: Duration::from_millis(50),
            pause_max: Duration::from_secs(2),
        }
    }
}

#[derive(Debug)]
struct Shared {
    inner: Arc<dyn ObjectStore>,
    limits: Limits,
    permits: Arc<Semaphore>,
    meter: Arc<Meter>,
    /// Varies the pauses, so that requests that failed together do not come back together.
    turn: AtomicU64,
}

/// The store behind limits. Clones share them.
#[derive(Clone, Debug)]
pub struct Limited(Arc<Shared>);

impl Limited {
    /// Puts limits before a store.
    pub fn new(inner: Arc<dyn ObjectStore>, limits: Limits) -> Limited {
        let permits = Arc::new(Semaphore::new(limits.concurrency.max(1)));
        Limited(Arc::new(Shared { inner, limits, permits, meter: Arc::default(), turn: AtomicU64::new(0) }))
    }

    /// What was counted.
    pub fn meter(&self) -> Arc<Meter> {
        self.0.meter.clone()
    }
}

impl Shared {
    async fn permit(&self) -> Result<OwnedSemaphorePermit> {
        self.permits
            .clone()
            .acquire_owned()
            .await
            .map_err(|error| Error::Generic { store: STORE, source: Box::new(error) })
    }

    /// One try: a permit, a deadline, the meter.
    async fn one_try<T>(
        &self,
        kind: Kind,
        request: impl Future<Output = Result<T>>,
        bytes: impl Fn(&T) -> u64,
    ) -> Result<T> {
        let _permit = self.permit().await?;
        let begun = Instant::now();
        let answered = tokio::time::timeout(self.limits.deadline, request).await.unwrap_or_else(|_| {
            let source = format!("no answer within {:?}", self.limits.deadline).into();
            Err(Error::Generic { store: STORE, source })
        });
        let failed = answered.as_ref().err().is_some_and(|error| !is_answer(error));
        let carried = answered.as_ref().map_or(0, &bytes);
        self.meter.on_request(kind, begun.elapsed(), carried, failed);
        answered
    }

    /// Tries until it is answered for good, or tries are used up.
    async fn tries<T, F: Future<Output = Result<T>>>(
        &self,
        kind: Kind,
        request: impl Fn() -> F,
        bytes: impl Fn(&T) -> u64,
    ) -> Result<T> {
        let mut pause = self.limits.pause_min;
        for _ in 0..self.limits.retries_max {
            match self.one_try(kind, request(), &bytes).await {
                Err(error) if is_transient(&error) => {
                    self.meter.on_retry();
                    tokio::time::sleep(self.varied(pause)).await;
                    pause = (pause * 2).min(self.limits.pause_max);
                }
                answered => return answered,
            }
        }
        self.one_try(kind, request(), &bytes).await
    }

    /// Between half of a pause and all of it.
    fn varied(&self, pause: Duration) -> Duration {
        let turn = self.turn.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        pause / 2 + (pause / 2).mul_f64((turn >> 11) as f64 / (1u64 << 53) as f64)
    }
}

/// What a store says of an object is an answer, not a failure of it.
fn is_answer(error: &Error) -> bool {
    matches!(
        error,
        Error::NotFound { .. } | Error::AlreadyExists { .. } | Error::Precondition { .. } | Error::NotModified { .. }
    )
}

impl std::fmt::Display for Limited {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Limited({})", self.0.inner)
    }
}

/// Reads the body before it is answered.
async fn whole(store: &dyn ObjectStore, path: &Path, options: GetOptions) -> Result<(GetResult, u64)> {
    let head = options.head;
    let mut got = store.get_opts(path, options).await?;
    if head {
        return Ok((got, 0));
    }
    let length = got.range.end - got.range.start;
    let empty = GetResultPayload::Stream(stream::empty().boxed());
    let payload = std::mem::replace(&mut got.payload, empty);
    let (meta, range) = (got.meta.clone(), got.range.clone());
    let read = GetResult { payload, meta, range, attributes: Default::default(), extensions: Default::default() };
    let body: Bytes = read.bytes().await?;
    if body.len() as u64 != length {
        let source = format!("{path} broke off after {} of {length} bytes", body.len()).into();
        return Err(Error::Generic { store: STORE, source });
    }
    got.payload = GetResultPayload::Stream(stream::once(async move { Ok(body) }).boxed());
    Ok((got, length))
}

#[async_trait]
impl ObjectStore for Limited {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let (shared, length) = (&self.0, payload.content_length() as u64);
        let request = || shared.inner.put_opts(location, payload.clone(), options.clone());
        match options.mode {
            PutMode::Overwrite => shared.tries(Kind::Put, request, |_| length).await,
            _ => shared.one_try(Kind::Put, request(), |_| length).await,
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let request = || self.0.inner.put_multipart_opts(location, options.clone());
        let upload = self.0.tries(Kind::Put, request, |_| 0).await?;
        Ok(Box::new(Upload { shared: self.0.clone(), upload }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let request = || whole(&*self.0.inner, location, options.clone());
        Ok(self.0.tries(Kind::Get, request, |(_, length)| *length).await?.0)
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let (shared, concurrency) = (self.0.clone(), self.0.limits.concurrency.max(1));
        let removed = locations.map(move |location| {
            let shared = shared.clone();
            async move {
                let location = location?;
                let request = || {
                    let one = stream::once(std::future::ready(Ok(location.clone()))).boxed();
                    shared.inner.delete_stream(one).try_collect::<Vec<_>>()
                };
                shared.tries(Kind::Delete, request, |_| 0).await?;
                Ok(location)
            }
        });
        removed.buffered(concurrency).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (shared, prefix) = (self.0.clone(), prefix.cloned());
        pages(shared, move |inner| inner.list(prefix.as_ref()))
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        let (shared, prefix, offset) = (self.0.clone(), prefix.cloned(), offset.clone());
        pages(shared, move |inner| inner.list_with_offset(prefix.as_ref(), &offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.0.tries(Kind::List, || self.0.inner.list_with_delimiter(prefix), |_| 0).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.0.one_try(Kind::Put, self.0.inner.copy_opts(from, to, options), |()| 0).await
    }
}

/// A listing, read whole before it is answered: one that breaks off begins anew.
fn pages(
    shared: Arc<Shared>,
    list: impl Fn(&dyn ObjectStore) -> BoxStream<'static, Result<ObjectMeta>> + Send + Sync + 'static,
) -> BoxStream<'static, Result<ObjectMeta>> {
    let found = async move {
        let request = || list(&*shared.inner).try_collect::<Vec<_>>();
        let found = shared.tries(Kind::List, request, |_| 0).await?;
        // A listing of several pages was several requests.
        for _ in 0..found.len().saturating_sub(1) / LIST_PAGE {
            shared.meter.on_request(Kind::List, Duration::ZERO, 0, false);
        }
        Ok::<_, Error>(stream::iter(found.into_iter().map(Ok)))
    };
    found.into_stream().try_flatten().boxed()
}

/// An upload in parts. A part that fails fails the upload: the sender starts over.
#[derive(Debug)]
struct Upload {
    shared: Arc<Shared>,
    upload: Box<dyn MultipartUpload>,
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (shared, length) = (self.shared.clone(), data.content_length() as u64);
        let part = self.upload.put_part(data);
        async move { shared.one_try(Kind::Put, part, |()| length).await }.boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.shared.one_try(Kind::Put, self.upload.complete(), |_| 0).await
    }

    async fn abort(&mut self) -> Result<()> {
        self.shared.one_try(Kind::Delete, self.upload.abort(), |()| 0).await
    }
}
