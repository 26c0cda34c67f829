//! What lies between replicas and disks: overlays, the engines' jobs, the watch over the log's writes, records of
//! destroyed clusters, and replicas restored from an engine alone.
//!
//! Not here: what a replica applies and flushes (`replica/`), the log itself (core-log), engines (engine-*).

pub mod engine_jobs;
pub mod interner;
pub mod log_stall;
pub mod overlay;
pub mod restore;
pub mod tombstones;
