//! The one place through which requests to an object store go.
//!
//! ```text
//!  engine-object, durable tail ─▶ Limited ─▶ a store: S3 (or compatible), a directory, memory
//!                                   │ few at a time, a deadline each, retries with growing pauses
//!                                   └ Meter: requests by kind, bytes, failures, latency
//! ```
//!
//! Always: no request without a deadline; only requests that may be done twice are done again here; what
//! a store refuses for good (rights, credentials, a missing bucket) is refused at once, with the remedy.
//! Held by: `a_store_that_stalls_ends_in_an_error_and_not_in_silence`, `what_may_be_done_twice_is_tried_again_and_counted`, `a_write_that_must_be_the_first_is_tried_once`, `refusals_name_the_remedy`.
//! Not here: what the objects mean (engine-object, edge-node's tail).
#![deny(missing_docs)]
// It speaks to the outside; the wall these lints build is around core-*.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod failure;
#[cfg(any(test, feature = "faults"))]
pub mod faults;
pub mod limited;
pub mod meter;
pub mod place;
pub mod probe;

pub use failure::ObjectsError;
pub use limited::{Limited, Limits};
pub use meter::{Counts, Kind, Meter};
pub use object_store;
pub use place::Place;

#[cfg(test)]
mod tests;
