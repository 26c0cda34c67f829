//! The shard backend against a plain model, and one by one.

pub mod bed;
mod cost;
mod listing;
pub mod model;
#[cfg(feature = "mutants")]
mod mutants;
pub mod narrow;
mod objects;
mod snapshot;
mod split;
mod wild;
