//! A client's connection: what it may keep waiting, and what of its unfinished heads counts against the node's memory.
//!
//! Always: an answer that is not taken in time ends the connection; bytes beyond `HEAD_FREE_BYTES` that come while no request is
//! being answered are held against the node's bound, and where there is no room, the connection ends. After some bytes in
//! either direction (`turn_bytes`) the other connections of the thread have a turn (`tests::nobody_keeps_the_thread`).
//! Not here: bodies, which count for themselves while they are read.

use super::pace::Pace;
use super::HeldBytes;
use std::cell::Cell;
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
/// What all connections of a thread that have more to move do move, until each has had its turn: a millisecond or two. A client
/// whose bytes are always there, or always taken, would keep the thread for tens of milliseconds (scripts/neighbours.py).
const ROUND_BYTES: usize = 4 << 20;
/// The share of one of them at least: less is all system calls.
const TURN_BYTES_MIN: usize = 8 << 10;
/// And at most.
const TURN_BYTES_MAX: usize = 256 << 10;

thread_local! {
    /// Connections of this thread that have more to move and wait for their next turn.
    static WAITING: Cell<usize> = const { Cell::new(0) };
}

fn turn_bytes() -> usize {
    (ROUND_BYTES / WAITING.get().max(1)).clamp(TURN_BYTES_MIN, TURN_BYTES_MAX)
}

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
    /// Bytes moved in this turn.
    turn: usize,
    /// It is one of those that wait for their next turn.
    waits: bool,
}

impl<S> Drop for ClientStream<S> {
    fn drop(&mut self) {
        self.begin_turn();
    }
}

impl<S> ClientStream<S> {
    /// Around a stream.
    pub fn new(stream: S, patience: Duration, head: Arc<Head>) -> ClientStream<S> {
        ClientStream { stream, pace: Pace::new(patience), head, turn: 0, waits: false }
    }

    fn begin_turn(&mut self) {
        if std::mem::take(&mut self.waits) {
            WAITING.set(WAITING.get().saturating_sub(1));
        }
    }

    /// How much may be moved now; `None`: the others have a turn first, and this one is woken after them.
    fn allowance(&mut self, context: &Context<'_>) -> Option<usize> {
        self.begin_turn();
        let left = turn_bytes().saturating_sub(self.turn);
        if left > 0 {
            return Some(left);
        }
        self.turn = 0;
        self.waits = true;
        WAITING.set(WAITING.get() + 1);
        context.waker().wake_by_ref();
        None
    }

    /// Passes a finished step on, and times one that waits.
    fn timed<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
        bytes: impl Fn(&T) -> usize,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(result) = &polled {
            let moved = result.as_ref().map_or(0, bytes);
            self.pace.moved(moved);
            self.turn += moved;
            return polled;
        }
        self.turn = 0;
        ready!(self.pace.poll_wait(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not take its answer")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ClientStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.allowance(context).is_none() {
            return Poll::Pending;
        }
        let before = into.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, into))?;
        let came = into.filled().len() - before;
        self.turn += came;
        Poll::Ready(self.head.came(came))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ClientStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Some(allowance) = self.allowance(context) else { return Poll::Pending };
        let bytes = &bytes[..bytes.len().min(allowance)];
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.timed(context, polled, |written| *written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let Some(allowance) = self.allowance(context) else { return Poll::Pending };
        let mut room = allowance;
        let fits = |piece: &&io::IoSlice<'_>| {
            let fits = piece.len() <= room;
            room = room.saturating_sub(piece.len());
            fits
        };
        let whole = pieces.iter().take_while(fits).count();
        let polled = match pieces.first() {
            Some(first) if whole == 0 => Pin::new(&mut self.stream).poll_write(context, &first[..allowance]),
            _ => Pin::new(&mut self.stream).poll_write_vectored(context, &pieces[..whole]),
        };
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    /// A stream that always takes and always has bytes.
    struct Eager;

    impl AsyncRead for Eager {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            into.put_slice(&vec![7; into.remaining()]);
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for Eager {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_write_vectored(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            pieces: &[io::IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(pieces.iter().map(|piece| piece.len()).sum()))
        }

        fn is_write_vectored(&self) -> bool {
            true
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    fn stream() -> ClientStream<Eager> {
        let room = crate::clients::Room::new(8, 1 << 20);
        let head = Head::new(room.unfinished.holder([127, 0, 0, 1].into()));
        head.begin();
        ClientStream::new(Eager, Duration::from_secs(1), head)
    }

    /// How often a work waits until it is done.
    async fn waits(work: impl std::future::Future<Output = io::Result<()>>) -> usize {
        let (mut work, mut waits) = (std::pin::pin!(work), 0);
        poll_fn(|context| {
            let polled = work.as_mut().poll(context);
            waits += usize::from(polled.is_pending());
            polled
        })
        .await
        .unwrap();
        waits
    }

    #[tokio::test]
    async fn nobody_keeps_the_thread() {
        let large = vec![7; 16 * TURN_BYTES_MAX];
        assert_eq!(waits(async { stream().write_all(&large).await }).await, 15);
        // With others that wait, a turn is shorter; those that are gone do not count.
        WAITING.set(ROUND_BYTES / TURN_BYTES_MAX * 2);
        assert_eq!(waits(async { stream().write_all(&large).await }).await, 31);
        WAITING.set(usize::MAX - 1);
        assert_eq!(turn_bytes(), TURN_BYTES_MIN);
        WAITING.set(0);
        let mut read = stream();
        let pieces = async {
            for _ in 0..64 {
                read.read_exact(&mut vec![0; TURN_BYTES_MAX / 4]).await?;
            }
            Ok(())
        };
        assert_eq!(waits(pieces).await, 15);
        let pieces = || (0..16).map(|_| io::IoSlice::new(&large[..TURN_BYTES_MAX / 2])).collect::<Vec<_>>();
        let mut vectored = stream();
        let mut written = 0;
        let several = poll_fn(|context| loop {
            let pieces = pieces();
            written += ready!(Pin::new(&mut vectored).poll_write_vectored(context, &pieces))?;
            if written >= 8 * TURN_BYTES_MAX {
                return Poll::Ready(Ok(()));
            }
        });
        assert_eq!(waits(several).await, 7);
        let small = vec![7; TURN_BYTES_MAX / 4];
        assert_eq!(waits(async { stream().write_all(&small).await }).await, 0);
    }
}
