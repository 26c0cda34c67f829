//! What clients may use of this door.
//!
//! By design: every number has a default that a request meets before anybody is asked who it is.
//! Not here: connections, and streams of HTTP/2 (edge-node).

use std::time::Duration;

/// Limits of the door.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The bytes of a request's message; more is [`crate::status::REQUEST_TOO_LARGE`].
    pub request_bytes_max: usize,
    /// Operations, and conditions, of a transaction on one level; nested ones count toward those they lie in.
    pub txn_ops_max: usize,
    /// Requests and streams of one connection at a time.
    pub connection_requests_max: usize,
    /// Requests and streams of all connections at a time.
    pub requests_max: usize,
    /// How long a request that does not wait for others may take, its body included.
    pub call_time: Duration,
}

impl Default for Limits {
    /// As etcd: `--max-request-bytes`, `--max-txn-ops`. Times and counts are ours: etcd has none.
    fn default() -> Limits {
        Limits {
            request_bytes_max: 1_572_864,
            txn_ops_max: 128,
            connection_requests_max: 1_000,
            requests_max: 20_000,
            call_time: Duration::from_secs(30),
        }
    }
}

impl Limits {
    /// The most bytes that are read of a message: above the limit, so that what is a little too large gets etcd's text.
    pub fn decode_bytes_max(&self) -> usize {
        self.request_bytes_max.saturating_add(DECODE_BYTES_MORE)
    }
}

/// As etcd's `grpcOverheadBytes`.
const DECODE_BYTES_MORE: usize = 512 * 1024;
/// The most bytes of an answer's rows, all pages together. Beyond it a range is refused; etcd has no such bound.
pub const ANSWER_BYTES_MAX: usize = 64 << 20;
/// The most rows of an answer that is sorted before it is cut.
pub const SORT_ROWS_MAX: usize = 200_000;
/// Snapshots that a door makes at a time: each has files of gigabytes.
pub const SNAPSHOTS_MAX: usize = 1;
