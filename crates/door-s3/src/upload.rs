//! Bytes of a request into metadata or the data store, hashed on their way.
//!
//! By design: at most [`INLINE_BYTES_MAX`] and one piece of a body are in memory; what was begun and is not
//! kept is abandoned, and what not even that reaches, the sweep collects.

use crate::checksum::{given, verify, well_formed, Hashed, Hasher};
use crate::convert::checksums_of_trailers;
use crate::error::{because, code, to_s3};
use crate::store::{DataStore, DataStream, DataWriter, Intent, StoreError};
use base64::Engine as _;
use base_types::s3::{ChecksumAlgorithm, Checksums, Data, S3ErrorCode, INLINE_BYTES_MAX};
use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt as _};
use s3s::{S3Error, S3Result, TrailingHeaders};
use std::sync::Arc;

/// Bytes that are hashed before others on this thread have a turn: some 60 µs. A client whose bytes are always
/// there would keep the thread for tens of milliseconds.
const TURN_BYTES_MAX: usize = 32 << 10;

/// Where a request may promise an MD5 beside `Content-MD5`, in its head or behind its bytes.
pub const CHECKSUM_MD5: &str = "x-amz-checksum-md5";

/// What a request says of its bytes before they come.
#[derive(Default)]
pub struct Promise {
    /// How many.
    pub length: Option<u64>,
    /// How many at least.
    pub bytes_min: u64,
    /// Their MD5 in base64.
    pub md5: Option<String>,
    /// Their checksums.
    pub checksums: Checksums,
    /// The algorithm that is to be computed where none is promised.
    pub algorithm: Option<ChecksumAlgorithm>,
    /// Where checksums may come behind the bytes.
    pub trailers: Option<TrailingHeaders>,
    /// The checksums the client says will come so.
    pub trailing: Vec<ChecksumAlgorithm>,
}

/// Bytes that are kept.
pub struct Received {
    /// They, or where they are.
    pub data: Data,
    /// What they came to.
    pub hashed: Hashed,
    /// When the metadata service must have them at the latest.
    pub expires_ms: Option<u64>,
}

/// Takes a body. `intent` is registered where it is too large to be inline.
pub async fn receive<S, E>(
    store: &Arc<dyn DataStore>,
    body: S,
    promise: Promise,
    bytes_max: u64,
    intent: Intent,
) -> S3Result<Received>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
    E: std::fmt::Display,
{
    if promise.length.is_some_and(|length| length > bytes_max) {
        return Err(code(S3ErrorCode::EntityTooLarge));
    }
    let promised_md5 = promise.md5.as_deref().map(md5_of).transpose()?;
    well_formed(&promise.checksums).map_err(to_s3)?;
    let mut hasher = Hasher::new(&algorithms(&promise));
    let expires_ms = intent.expires_ms;
    let mut sink = Sink { store, intent: Some(intent), small: BytesMut::new(), large: None };
    let taken = take_all(body, &mut hasher, &mut sink, bytes_max).await;
    let hashed = hasher.finish();
    let checked = taken.and_then(|()| check(&promise, promised_md5, &hashed));
    if let Err(error) = checked {
        sink.abandon().await;
        return Err(error);
    }
    let data = sink.finish().await.map_err(store_error)?;
    let expires_ms = matches!(data, Data::Location(_)).then_some(expires_ms);
    Ok(Received { data, hashed, expires_ms })
}

/// Which algorithms are computed: those promised, or the asked one, or the API's default.
fn algorithms(promise: &Promise) -> Vec<ChecksumAlgorithm> {
    let mut out = given(&promise.checksums);
    out.extend(promise.trailing.iter().filter(|algorithm| !out.contains(algorithm)).copied().collect::<Vec<_>>());
    if out.is_empty() {
        out.push(promise.algorithm.unwrap_or(ChecksumAlgorithm::Crc64nvme));
    }
    out
}

async fn take_all<S, E>(mut body: S, hasher: &mut Hasher, sink: &mut Sink<'_>, bytes_max: u64) -> S3Result<()>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
    E: std::fmt::Display,
{
    let (mut left, mut turn) = (bytes_max, 0);
    while let Some(piece) = body.next().await {
        let piece = piece.map_err(|error| body_error(&error))?;
        left = left.checked_sub(piece.len() as u64).ok_or_else(|| code(S3ErrorCode::EntityTooLarge))?;
        for part in piece.chunks(TURN_BYTES_MAX) {
            hasher.update(part);
            turn += part.len();
            if turn >= TURN_BYTES_MAX {
                turn = 0;
                tokio::task::yield_now().await;
            }
        }
        sink.write(piece).await.map_err(store_error)?;
    }
    Ok(())
}

fn check(promise: &Promise, md5: Option<[u8; 16]>, hashed: &Hashed) -> S3Result<()> {
    if promise.length.is_some_and(|length| length != hashed.length) {
        return Err(code(S3ErrorCode::IncompleteBody));
    }
    if hashed.length < promise.bytes_min {
        return Err(code(S3ErrorCode::EntityTooSmall));
    }
    if md5.is_some_and(|md5| md5 != hashed.md5) {
        return Err(code(S3ErrorCode::BadDigest));
    }
    let mut promised = promise.checksums.clone();
    if let Some(trailers) = &promise.trailers {
        trailers.read(|headers| checksums_of_trailers(headers, &mut promised));
        let text = |headers: &hyper::HeaderMap| headers.get(CHECKSUM_MD5).map(|value| value.as_bytes().to_vec());
        if let Some(text) = trailers.read(text).flatten() {
            if md5_of(&String::from_utf8_lossy(&text))? != hashed.md5 {
                return Err(code(S3ErrorCode::BadDigest));
            }
        }
    }
    let missing = promise.trailing.iter().find(|algorithm| promised.get(**algorithm).is_none());
    if missing.is_some() {
        return Err(because(
            S3ErrorCode::InvalidRequest,
            "The trailer that x-amz-trailer announced did not come; send it",
        ));
    }
    well_formed(&promised).map_err(to_s3)?;
    verify(&promised, &hashed.checksums).map_err(to_s3)
}

fn md5_of(header: &str) -> S3Result<[u8; 16]> {
    let decoded = base64::engine::general_purpose::STANDARD.decode(header).ok();
    decoded.and_then(|bytes| <[u8; 16]>::try_from(bytes).ok()).ok_or_else(|| code(S3ErrorCode::InvalidDigest))
}

/// A body that broke off. s3s keeps the types of these to itself; their texts are distinguished here.
fn body_error(error: &dyn std::fmt::Display) -> S3Error {
    let text = error.to_string();
    let found = [
        ("SignatureMismatch", S3ErrorCode::SignatureDoesNotMatch),
        ("Sha256Mismatch", S3ErrorCode::XAmzContentSHA256Mismatch),
        ("Incomplete", S3ErrorCode::IncompleteBody),
        ("LengthMismatch", S3ErrorCode::IncompleteBody),
        ("FormatError", S3ErrorCode::InvalidRequest),
        ("TooLarge", S3ErrorCode::InvalidRequest),
    ];
    match found.into_iter().find(|(word, _)| text.contains(word)) {
        Some((_, found)) => code(found),
        None => because(S3ErrorCode::IncompleteBody, format!("the body broke off ({text}); send it again")),
    }
}

/// What a failing data store is to a client.
pub fn store_error(error: StoreError) -> S3Error {
    because(
        S3ErrorCode::InternalError,
        format!("the data store failed ({error}); retry, and look at the node's log if that lasts"),
    )
}

/// Small until it is large.
struct Sink<'s> {
    store: &'s Arc<dyn DataStore>,
    intent: Option<Intent>,
    small: BytesMut,
    large: Option<Box<dyn DataWriter>>,
}

impl Sink<'_> {
    async fn write(&mut self, piece: Bytes) -> Result<(), StoreError> {
        if let Some(writer) = &mut self.large {
            return writer.write(piece).await;
        }
        if self.small.len() + piece.len() <= INLINE_BYTES_MAX {
            self.small.extend_from_slice(&piece);
            return Ok(());
        }
        let Some(intent) = self.intent.take() else { return Ok(()) };
        let writer = self.large.insert(self.store.begin(intent).await?);
        let small = std::mem::take(&mut self.small).freeze();
        if !small.is_empty() {
            writer.write(small).await?;
        }
        writer.write(piece).await
    }

    async fn finish(self) -> Result<Data, StoreError> {
        match self.large {
            None => Ok(Data::Inline(self.small.freeze())),
            Some(writer) => {
                let location = writer.location().to_owned();
                writer.finish().await?;
                Ok(Data::Location(location))
            }
        }
    }

    async fn abandon(self) {
        if let Some(writer) = self.large {
            writer.abandon().await;
        }
    }
}

/// The bytes of a version, or a range of them, as a stream. `length` is the version's.
pub async fn open(
    store: &Arc<dyn DataStore>,
    data: &Data,
    length: u64,
    range: std::ops::Range<u64>,
) -> Result<DataStream, StoreError> {
    match data {
        Data::Inline(bytes) => {
            let within = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
            let piece = bytes.slice(within(range.start)..within(range.end));
            Ok(Box::pin(futures::stream::iter((!piece.is_empty()).then_some(Ok(piece)))))
        }
        Data::Location(location) if range.is_empty() => {
            let _ = location;
            Ok(Box::pin(futures::stream::empty()))
        }
        Data::Location(location) => store.read(location, length, range).await,
        Data::Parts(parts) => {
            let mut start = 0u64;
            let mut wanted = Vec::new();
            for part in parts {
                let end = start + part.size;
                let (from, to) = (range.start.max(start), range.end.min(end));
                if from < to {
                    wanted.push((part.data.clone(), part.size, from - start..to - start));
                }
                start = end;
            }
            open_all(store, wanted).await
        }
    }
}

/// The first piece is opened now, so that what is gone is reported before the status; the others when they
/// are reached.
async fn open_all(
    store: &Arc<dyn DataStore>,
    wanted: Vec<(Data, u64, std::ops::Range<u64>)>,
) -> Result<DataStream, StoreError> {
    let mut wanted = wanted.into_iter();
    let Some((data, length, range)) = wanted.next() else { return Ok(Box::pin(futures::stream::empty())) };
    let first = open_one(store.clone(), data, length, range).await?;
    let store = store.clone();
    let rest = futures::stream::iter(wanted)
        .then(move |(data, length, range)| open_one(store.clone(), data, length, range))
        .flat_map(|opened| match opened {
            Ok(stream) => stream,
            Err(error) => Box::pin(futures::stream::iter([Err(error)])) as DataStream,
        });
    Ok(Box::pin(first.chain(rest)))
}

async fn open_one(
    store: Arc<dyn DataStore>,
    data: Data,
    length: u64,
    range: std::ops::Range<u64>,
) -> Result<DataStream, StoreError> {
    // A part's data is never parts again: no recursion.
    match &data {
        Data::Parts(_) => Err(StoreError::BadName("parts within parts".to_owned())),
        Data::Inline(bytes) => {
            let within = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
            let piece = bytes.slice(within(range.start)..within(range.end));
            Ok(Box::pin(futures::stream::iter([Ok(piece)])))
        }
        Data::Location(location) => store.read(location, length, range).await,
    }
}
