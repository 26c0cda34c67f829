//! One watch for this crate's own use: what elections and locks wait on.
//!
//! Always: as a client's watch; it ends when it is dropped.

use super::board::{Ended, Taken};
use super::catch_up::{catch_up, Caught};
use super::hub::{Hub, Hubs};
use super::mailbox::Mailbox;
use super::revision::{Batch, Wanted};
use super::spans::WatcherId;
use super::BATCH_BYTES;
use base_types::versioned::Span;
use std::sync::Arc;

/// A watch of a span.
pub(crate) struct Single {
    hub: Arc<Hub>,
    mailbox: Arc<Mailbox>,
    id: WatcherId,
}

impl Single {
    /// Watches a span from after a stamp that the namespace has reached.
    pub fn after(hubs: &Hubs, namespace: &str, span: Span, from: u64) -> Single {
        let (hub, mailbox) = (hubs.of(namespace), Arc::<Mailbox>::default());
        let wanted = Arc::new(Wanted { span, puts: true, deletes: true, before: false });
        let id = hub.add(wanted, from, from, mailbox.clone());
        Single { hub, mailbox, id }
    }

    /// The next events.
    pub async fn next(&mut self) -> Result<Batch, Ended> {
        loop {
            while let Some(id) = self.mailbox.pop() {
                match self.hub.take(id, BATCH_BYTES) {
                    Taken::Nothing => (),
                    Taken::Batch(batch) => return Ok(batch),
                    Taken::Ended(why) => return Err(why),
                    Taken::Behind => {
                        if let Caught::Batch(batch) = catch_up(self.hub.clone(), id).await {
                            self.hub.list(id);
                            return Ok(batch);
                        }
                    }
                }
            }
            self.mailbox.rung().await;
        }
    }
}

impl Drop for Single {
    fn drop(&mut self) {
        self.hub.remove(self.id);
    }
}
