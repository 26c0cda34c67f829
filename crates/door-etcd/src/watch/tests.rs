//! Watches on a store in memory: what clients are sent, message by message, and against a model.

mod bed;
mod catch_up;
mod crowd;
mod messages;
mod model;
#[cfg(feature = "mutants")]
mod mutants;
