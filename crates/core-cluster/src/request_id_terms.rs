//! How long and how many request ids are remembered.
//!
//! Not here: the ids (`replica/request_ids.rs`). Why: decisions 0005 and 0030.

use base_types::mutant::{planted, Mutant};
use base_types::{RequestId, DEADLINE_MAX, REQUEST_ID_WINDOW};

/// The most ids remembered in a queue. Beyond it the leader refuses writes with new ids until old ones expire; no id is
/// forgotten early.
pub const REQUEST_IDS_MAX: usize = 2_000_000;
/// A forwarded write whose route's clock lies further behind than this is refused (it was long under way).
pub const ROUTE_BEHIND_MS_MAX: u64 = 3_000;
/// A route's clock further ahead than this must be rebased.
pub const ROUTE_AHEAD_MS_MAX: u64 = 3_000;
/// How long clients' request ids are kept, and how many. The same on all nodes, but for worlds of the simulator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestIdTerms {
    /// A repetition that is sent within so long after the first try applies nothing.
    pub window_ms: u64,
    /// The longest that a repetition may be under way.
    pub deadline_ms: u64,
    /// The most ids of nodes, and of clients, that a cluster remembers; beyond it writes are refused `Overloaded`.
    pub held_max: usize,
}

impl Default for RequestIdTerms {
    fn default() -> RequestIdTerms {
        RequestIdTerms {
            window_ms: REQUEST_ID_WINDOW.as_millis() as u64,
            deadline_ms: DEADLINE_MAX.as_millis() as u64,
            held_max: REQUEST_IDS_MAX,
        }
    }
}

/// A shard that took over keys is narrowed only when no request carried out before can be repeated any more.
const _: () = assert!(
    keep_ms_of(REQUEST_ID_WINDOW.as_millis() as u64 + DEADLINE_MAX.as_millis() as u64)
        < core_backends::shard::NARROW_AFTER_MS
);

/// For how long, where the latest repetition is sent so long after the first try.
const fn keep_ms_of(latest_ms: u64) -> u64 {
    (latest_ms + ROUTE_BEHIND_MS_MAX + ROUTE_AHEAD_MS_MAX) * 11 / 10 + 1_000
}

impl RequestIdTerms {
    /// How long an id must be remembered: as late as a repetition of it can still be taken. Nobody repeats a node's own
    /// after its request's deadline. A tenth for clocks, a second for what was not thought of.
    pub fn keep_ms(&self, id: RequestId, remaining_ms: u64) -> u64 {
        let clients = id.is_clients() && !planted(Mutant::RequestIdForgottenEarly);
        let latest_ms = if clients { self.window_ms + self.deadline_ms.max(remaining_ms) } else { remaining_ms };
        keep_ms_of(latest_ms)
    }
}

/// By so much less than it should be a request may be remembered and yet be answered at once: a retry within one deadline.
pub const KEEP_LESS_MS_MAX: u64 = 1_000;
