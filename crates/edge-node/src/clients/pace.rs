//! Patience with a client that is slow: a body must keep coming, an answer must be taken.
//!
//! Always: time is counted only while the other side is waited for, so a call that takes long costs nobody anything; patience
//! that was used up comes back at `RATE_MIN`, so a byte now and then does not keep a connection.
//! Held by: `a_byte_now_and_then_uses_patience_up`.
//! Not here: the time for a request's head (hyper's own).

use super::HeldBytes;
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{ready, Context, Poll};
use std::time::Duration;
use tokio::time::{sleep, Instant, Sleep};

/// Bytes a second that a client must send or take, once its patience is used up.
pub const RATE_MIN: u64 = 4 << 10;

/// How long one side may still keep the other waiting.
pub struct Pace {
    patience: Duration,
    left: Duration,
    since: Option<Instant>,
    /// Made at the first wait: most requests and answers never wait.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Pace {
    /// With all patience left.
    pub fn new(patience: Duration) -> Pace {
        Pace { patience, left: patience, since: None, timer: None }
    }

    /// So many bytes have moved.
    pub fn moved(&mut self, bytes: usize) {
        if let Some(since) = self.since.take() {
            self.left = self.left.saturating_sub(since.elapsed());
        }
        if self.left < self.patience {
            let earned = Duration::from_micros((bytes as u64).saturating_mul(1_000_000) / RATE_MIN);
            self.left = self.left.saturating_add(earned).min(self.patience);
        }
    }

    /// Nothing moves: ready once the patience is used up.
    pub fn poll_wait(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.since.is_none() {
            let now = Instant::now();
            self.since = Some(now);
            match &mut self.timer {
                Some(timer) => timer.as_mut().reset(now + self.left),
                None => self.timer = Some(Box::pin(sleep(self.left))),
            }
        }
        match &mut self.timer {
            Some(timer) => timer.as_mut().poll(context),
            None => Poll::Ready(()),
        }
    }
}

/// A body whose pieces must come in time, and what it counts for until all of them have.
pub struct BodyLimit {
    body: Incoming,
    pace: Pace,
    held: Option<HeldBytes>,
}

impl BodyLimit {
    /// Around a body.
    pub fn new(body: Incoming, patience: Duration, held: HeldBytes) -> BodyLimit {
        BodyLimit { body, pace: Pace::new(patience), held: Some(held) }
    }
}

impl Body for BodyLimit {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            let bytes = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref().map(Bytes::len));
            self.pace.moved(bytes.unwrap_or(0));
            if self.body.is_end_stream() {
                self.held = None;
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(io::Error::other)));
        }
        ready!(self.pace.poll_wait(context));
        let message = format!(
            "no byte of the body came for {} ms, or too few: at least {RATE_MIN} a second must come",
            self.pace.patience.as_millis()
        );
        Poll::Ready(Some(Err(io::Error::new(io::ErrorKind::TimedOut, message))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    #[test]
    fn a_byte_now_and_then_uses_patience_up() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let mut context = Context::from_waker(Waker::noop());
            let mut pace = Pace::new(Duration::from_millis(90));
            let mut rounds = 0;
            while pace.poll_wait(&mut context).is_pending() {
                rounds += 1;
                assert!(rounds < 20, "a byte now and then keeps it waiting");
                tokio::time::sleep(Duration::from_millis(20)).await;
                if pace.poll_wait(&mut context).is_ready() {
                    break;
                }
                pace.moved(1);
            }
            let mut pace = Pace::new(Duration::from_millis(90));
            for _ in 0..10 {
                assert!(pace.poll_wait(&mut context).is_pending());
                tokio::time::sleep(Duration::from_millis(20)).await;
                pace.moved(64 << 10);
                assert_eq!(pace.left, pace.patience);
            }
        });
    }
}
