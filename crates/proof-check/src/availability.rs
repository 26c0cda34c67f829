//! Availability: the standard schedule of faults, and what the records of a run under it come to.
//!
//! `hive bench availability` carries the schedule out on processes, `proof-sim availability` in virtual time; both are
//! reckoned here, so that their figures mean the same.
//!
//! By design: pure functions. Not here: doing it.

pub mod schedule;
pub mod tally;
