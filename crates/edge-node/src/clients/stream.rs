//! A client's connection: what it may keep waiting, and what of its unfinished heads counts against the node's memory.
//!
//! Always: an answer that is not taken in time ends the connection; bytes beyond `HEAD_FREE_BYTES` that come while no request is
//! being answered are held against the node's bound, and where there is no room, the connection ends.
//! Not here: bodies, which count for themselves while they are read.

use super::pace::Pace;
use super::HeldBytes;
use std::io;
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{ready, Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What a connection may send of a head without being counted: what is read at once anyway.
const HEAD_FREE_BYTES: usize = 8 << 10;

/// What has come of a head that is not whole yet.
pub struct Head {
    answering: AtomicBool,
    came: AtomicUsize,
    held: Mutex<HeldBytes>,
}

impl Head {
    /// Of a connection that has sent nothing yet.
    pub fn new(held: HeldBytes) -> Arc<Head> {
        Arc::new(Head { answering: AtomicBool::new(false), came: AtomicUsize::new(0), held: Mutex::new(held) })
    }

    /// The head is whole: what comes now is a body, or waits unread.
    pub fn begin(&self) {
        self.answering.store(true, Relaxed);
        if self.came.swap(0, Relaxed) > HEAD_FREE_BYTES {
            self.held.lock().unwrap_or_else(PoisonError::into_inner).release();
        }
    }

    /// The request has its answer.
    pub fn end(&self) {
        self.answering.store(false, Relaxed);
    }

    fn came(&self, bytes: usize) -> io::Result<()> {
        if self.answering.load(Relaxed) || bytes == 0 {
            return Ok(());
        }
        let before = self.came.fetch_add(bytes, Relaxed);
        let counted = (before + bytes).saturating_sub(HEAD_FREE_BYTES.max(before));
        if counted == 0 || self.held.lock().unwrap_or_else(PoisonError::into_inner).grow(counted) {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::OutOfMemory, "limits.unfinished_bytes_max is used up by unfinished requests"))
    }
}

/// A stream whose written bytes must be taken in time, and whose heads are counted.
pub struct ClientStream<S> {
    stream: S,
    pace: Pace,
    head: Arc<Head>,
}

impl<S> ClientStream<S> {
    /// Around a stream.
    pub fn new(stream: S, patience: Duration, head: Arc<Head>) -> ClientStream<S> {
        ClientStream { stream, pace: Pace::new(patience), head }
    }

    /// Passes a finished step on, and times one that waits.
    fn timed<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
        bytes: impl Fn(&T) -> usize,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(result) = &polled {
            self.pace.moved(result.as_ref().map_or(0, bytes));
            return polled;
        }
        ready!(self.pace.poll_wait(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not take its answer")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ClientStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, into))?;
        Poll::Ready(self.head.came(into.filled().len() - before))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ClientStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.timed(context, polled, |written| *written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.timed(context, polled, |written| *written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.timed(context, polled, |()| 0)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // With TLS an end is written too.
        let polled = Pin::new(&mut self.stream).poll_shutdown(context);
        self.timed(context, polled, |()| 0)
    }
}
