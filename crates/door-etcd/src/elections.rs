//! Elections and locks: etcd's v3election and v3lock services, on transactions, leases and watches.
//!
//! ```text
//!   prefix/lease-in-hex   one key for each that waits, attached to its lease; the one created first leads, or has the lock
//!   Campaign, Lock ─▶ put the key if it is not there ─▶ wait until nothing older is left ─▶ answer
//! ```
//! Always: who comes next is decided by creation revisions, so by the cluster's log. A key goes with its lease, with `Resign` or
//! `Unlock`, or with a call that is given up while it waits. A call whose own key is gone does not answer that it has won.
//! Held by: `leadership_passes_on_in_order`, `campaigns_that_are_given_up_leave_the_queue`, `candidate_whose_lease_ends_while_it_waits_does_not_lead`.
//! Not here: leases' ends (edge-node proposes them).

mod election;
mod lock;
mod queue;
#[cfg(test)]
mod tests;

pub use election::ElectionService;
pub use lock::LockService;
