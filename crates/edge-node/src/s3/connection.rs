//! A client's connection with patience: a body must go on coming, an answer must go on being taken.
//!
//! Always: silence of the other side, and only that, is timed: a call that takes long is not.
//! Not here: the time for a request's head (hyper's own).

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{ready, Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{sleep, Instant, Sleep};

/// A body whose next piece must come in time.
pub struct BodyLimit {
    body: Incoming,
    patience: Duration,
    /// Running while a piece is waited for.
    timer: Option<Pin<Box<Sleep>>>,
}

impl BodyLimit {
    /// Around a body.
    pub fn new(body: Incoming, patience: Duration) -> BodyLimit {
        BodyLimit { body, patience, timer: None }
    }
}

impl Body for BodyLimit {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(frame) = polled {
            self.timer = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(io::Error::other)));
        }
        let patience = self.patience;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(timer.as_mut().poll(context));
        let message = format!("no byte of the body came for {} ms", patience.as_millis());
        Poll::Ready(Some(Err(io::Error::new(io::ErrorKind::TimedOut, message))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream whose written bytes must be taken in time.
pub struct SteadyWrites<S> {
    stream: S,
    patience: Duration,
    timer: Pin<Box<Sleep>>,
    waiting: bool,
}

impl<S> SteadyWrites<S> {
    /// Around a stream.
    pub fn new(stream: S, patience: Duration) -> SteadyWrites<S> {
        SteadyWrites { stream, patience, timer: Box::pin(sleep(patience)), waiting: false }
    }

    /// Passes a finished step on, and times one that waits.
    fn timed<T>(&mut self, context: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.waiting = false;
            return polled;
        }
        if !self.waiting {
            self.waiting = true;
            self.timer.as_mut().reset(Instant::now() + self.patience);
        }
        ready!(self.timer.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not take its answer")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for SteadyWrites<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for SteadyWrites<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.timed(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.timed(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.timed(context, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
