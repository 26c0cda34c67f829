//! Which watchers of a stream have something for it.
//!
//! Always: a watcher is named at most once at a time (the board sees to that), so a mailbox is no longer than its stream has watches.

use super::spans::WatcherId;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use tokio::sync::Notify;

/// The mailbox of a stream.
#[derive(Default)]
pub(crate) struct Mailbox {
    ready: Mutex<VecDeque<WatcherId>>,
    bell: Notify,
}

impl Mailbox {
    pub(super) fn put(&self, id: WatcherId) {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).push_back(id);
        self.bell.notify_one();
    }

    /// The watcher that has waited longest.
    pub(super) fn pop(&self) -> Option<WatcherId> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Waits until something was put in since the last wait.
    pub(super) async fn rung(&self) {
        self.bell.notified().await;
    }
}
