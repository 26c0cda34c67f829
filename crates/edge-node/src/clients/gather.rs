//! A connection's answers, gathered until its turn ends, then written by one system call.
//!
//! ```text
//!   hyper: poll ─▶ frame, frame, … ─▶ Gather (≤ GATHER_BYTES_MAX) ─end of the poll─▶ one write
//! ```
//! h2 flushes after each frame of some hundred bytes, so an answer alone would cost two writes, and ten answers twenty.
//! Always: nothing is given to a stream out of order; what waits is bounded, and a full buffer makes hyper wait; the task that polls the
//! connection does it by [`drive`], which writes at the end of each poll; an end of the stream comes after all bytes (tests below).
//! Not here: patience with slow clients (`stream.rs`, under this).

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{ready, Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The most bytes that wait.
const GATHER_BYTES_MAX: usize = 64 << 10;
/// What an idle connection may keep of its buffer.
const KEPT_BYTES: usize = 8 << 10;

struct Waiting<S> {
    stream: S,
    bytes: Vec<u8>,
    written: usize,
}

impl<S: AsyncWrite + Unpin> Waiting<S> {
    fn poll_write_out(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.bytes.len() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, &self.bytes[self.written..]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += written;
        }
        self.written = 0;
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        Pin::new(&mut self.stream).poll_flush(context)
    }

    /// Takes as much of a piece as there is room for.
    fn take(&mut self, piece: &[u8]) -> usize {
        let taken = piece.len().min(GATHER_BYTES_MAX.saturating_sub(self.bytes.len()));
        self.bytes.extend_from_slice(&piece[..taken]);
        taken
    }

    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.bytes.len() < GATHER_BYTES_MAX {
            return Poll::Ready(Ok(()));
        }
        self.poll_write_out(context)
    }
}

/// The stream as hyper has it.
pub struct Gather<S>(Rc<RefCell<Waiting<S>>>);

/// The same, for who polls the connection.
pub struct Gathered<S>(Rc<RefCell<Waiting<S>>>);

/// Around a stream.
pub fn gather<S>(stream: S) -> (Gather<S>, Gathered<S>) {
    let waiting = Rc::new(RefCell::new(Waiting { stream, bytes: Vec::new(), written: 0 }));
    (Gather(waiting.clone()), Gathered(waiting))
}

/// Polls a connection, then writes what it has gathered. `Ready`: the connection has ended, or nothing can be written any more.
pub fn drive<S, C>(connection: Pin<&mut C>, out: &Gathered<S>, context: &mut Context<'_>) -> Poll<()>
where
    S: AsyncWrite + Unpin,
    C: Future,
{
    let polled = connection.poll(context).map(drop);
    match out.0.borrow_mut().poll_write_out(context) {
        Poll::Ready(Err(_)) => Poll::Ready(()),
        Poll::Ready(Ok(())) | Poll::Pending => polled,
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gather<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.borrow_mut().stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gather<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut waiting = self.0.borrow_mut();
        ready!(waiting.poll_room(context))?;
        Poll::Ready(Ok(waiting.take(bytes)))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut waiting = self.0.borrow_mut();
        ready!(waiting.poll_room(context))?;
        // A piece that does not fit whole ends it: those after it come in a later call.
        let mut taken = 0;
        for piece in pieces {
            let part = waiting.take(piece);
            taken += part;
            if part < piece.len() {
                break;
            }
        }
        Poll::Ready(Ok(taken))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// [`drive`] writes.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut waiting = self.0.borrow_mut();
        ready!(waiting.poll_write_out(context))?;
        Pin::new(&mut waiting.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[tokio::test]
    async fn what_is_written_comes_in_order_and_before_the_end() {
        let (near, mut far) = tokio::io::duplex(1_000);
        let (mut gather, gathered) = gather(near);
        let sent: Vec<u8> = (0..300_000u32).map(|n| (n % 251) as u8).collect();
        let copy = sent.clone();
        let writes = async move {
            for piece in copy.chunks(777) {
                gather.write_all(piece).await.unwrap();
                gather.flush().await.unwrap();
            }
            gather.shutdown().await.unwrap();
        };
        let mut writes = Box::pin(writes);
        let driven = poll_fn(|context| drive(writes.as_mut(), &gathered, context));
        let mut got = Vec::new();
        let (read, ()) = tokio::join!(far.read_to_end(&mut got), driven);
        read.unwrap();
        assert!(got == sent, "{} bytes of {}", got.len(), sent.len());
    }

    #[tokio::test]
    async fn a_client_that_takes_nothing_makes_hyper_wait() {
        let (near, _far) = tokio::io::duplex(1_000);
        let (mut gather, gathered) = gather(near);
        let mut taken = 0;
        let mut writes = Box::pin(async {
            loop {
                taken += gather.write(&[7; 5_000]).await.unwrap();
            }
        });
        for _ in 0..100 {
            let driven: Poll<()> = poll_fn(|context| Poll::Ready(drive(writes.as_mut(), &gathered, context))).await;
            assert_eq!(driven, Poll::Pending);
        }
        drop(writes);
        assert!((GATHER_BYTES_MAX..=2 * GATHER_BYTES_MAX).contains(&taken), "{taken}");
    }

    #[tokio::test]
    async fn a_stream_that_takes_no_more_ends_the_connection() {
        let (near, far) = tokio::io::duplex(1_000);
        let (mut gather, gathered) = gather(near);
        drop(far);
        let mut writes = Box::pin(async move {
            gather.write_all(b"answer").await.unwrap();
            std::future::pending::<()>().await;
        });
        poll_fn(|context| drive(writes.as_mut(), &gathered, context)).await;
    }
}
