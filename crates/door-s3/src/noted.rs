//! What the gateway finds out about a request while it answers it, for the access log of the request's bucket.
//!
//! By design: it is the task's alone, as a session is (`auth::session`), so that no call has to hand it on.
//! Not here: what a log says (`access_log`).

use base_types::s3::{BucketInfo, LogTarget};
use std::cell::RefCell;
use std::future::Future;

/// What the gateway finds out about a request while it answers it.
#[derive(Default)]
pub(crate) struct Noted {
    opened: bool,
    /// The bucket with a log, its owner, and where the log goes.
    pub(crate) bucket: Option<(String, String, LogTarget)>,
    /// The account that asks.
    pub(crate) requester: Option<String>,
}

tokio::task_local! {
    static NOTED: RefCell<Noted>;
}

/// The gateway opened a bucket. The first is the one that the request is of.
pub(crate) fn note_bucket(info: &BucketInfo) {
    let _ = NOTED.try_with(|noted| {
        let mut noted = noted.borrow_mut();
        if !std::mem::replace(&mut noted.opened, true) {
            let to = info.logging.clone();
            noted.bucket = to.map(|to| (info.bucket.clone(), info.owner.id.clone(), to));
        }
    });
}

/// The gateway knows who asks.
pub(crate) fn note_requester(account: Option<&str>) {
    let _ = NOTED.try_with(|noted| noted.borrow_mut().requester = account.map(str::to_owned));
}

/// Answers a request, and gives what was noted of it.
pub(crate) async fn within<T>(answer: impl Future<Output = T>) -> (T, Noted) {
    let scoped = async move {
        let answer = answer.await;
        (answer, NOTED.with(RefCell::take))
    };
    NOTED.scope(RefCell::default(), scoped).await
}
