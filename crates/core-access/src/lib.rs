//! The directory of users, roles, tokens and tenants: rows of one small cluster, and a copy on every node.
//!
//! ```text
//!   AccessAction ──▶ edit.rs (pure: rows in, rows out) ──▶ change.rs: one BatchIf on the head row
//!                                                            │ epoch + 1
//!   each node: sync.rs reads the head twice a second ──▶ Directory ──▶ durable at the host ──▶ every core decides by it
//! ```
//!
//! ```text
//!   store.rs    the rows and the calls on them       change.rs   commits an edit, then waits for the node's own copy
//!   edit.rs     what each call changes               read.rs     lists, from the node's own copy once it is as new as the head
//!   sync.rs     brings the node's copy up to date    family.rs   what a core keeps for these planners
//!   shown.rs    rows as people read them
//! ```
//!
//! Always: the directory changes by one conditional batch on its head row, so there is one order of changes and an epoch for each
//! (`tests::two_edits_at_once_are_ordered`); an edit is computed from a copy of exactly the head's epoch.
//! Not here: the decision (base-access), when a sync begins (core-node), the durable copy (edge-node).
//! Why: docs/decisions/0072-one-decision-for-every-door.md.

mod change;
mod edit;
mod family;
mod read;
mod shown;
mod store;
mod sync;
#[cfg(test)]
mod tests;

pub use family::{AccessPlanner, AccessState};
pub use store::{ACCESS_CLUSTER, ROWS_MAX};

use base_types::access::{AccessAction, Caller};
use core_flow::rounds::InRounds;

/// What stands behind the `@` of the directory's cluster; clients may not make such.
pub const RESERVED: &str = "access";

/// The planner of a call. `by`: who asks; the way in of last resort asks as the node itself. `rule`: what the
/// directory's cluster is made by.
pub fn planner_for(call: AccessAction, by: Caller, rule: &str) -> Box<AccessPlanner> {
    if call.read_only() {
        return Box::new(InRounds::new(read::Read::new(call, by)));
    }
    Box::new(InRounds::new(change::Change::new(call, by, rule.to_string())))
}

/// Says whether the node's copy is behind the head ([`AccessState::behind`]): one read.
pub fn look() -> Box<AccessPlanner> {
    Box::new(InRounds::new(sync::Sync::look()))
}

/// Brings the node's copy up to date.
pub fn sync() -> Box<AccessPlanner> {
    Box::new(InRounds::new(sync::Sync::default()))
}
