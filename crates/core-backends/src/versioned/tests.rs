//! The versioned backend against a plain model, and one by one.

pub mod bed;
pub mod bounds;
pub mod history;
pub mod leases;
pub mod model;
#[cfg(feature = "mutants")]
pub mod mutants;
pub mod transactions;
