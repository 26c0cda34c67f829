//! The S3 calls that touch metadata, carried out (Hive paper, 2.5-2.9 and 3).
//!
//! ```text
//!   world     redis@bucket-names       name ─▶ bucket id, account          (two-step commit)
//!             metadata@s3-accounts     accounts and access keys
//!   account   reference@account-<a>    its buckets: entries of creation and deletion
//!   bucket    metadata/shard_reference/multipart@bucket-<id>   record, map of shards, uploads
//!   shard     shard@<id>-<number>      objects
//! ```
//!
//! Each call is a planner. Those on a bucket are `BucketWork` (buckets/with_bucket.rs): they are handed the bucket's
//! record and map, and say when what they were handed proved stale.
//!
//! ```text
//!   clusters.rs, record.rs   names of clusters, a bucket's record         config.rs   how metadata is laid out
//!   state/                   what one core keeps between calls            request.rs, work.rs   what calls have in common
//!   accounts/                accounts, access keys, entries of buckets
//!   buckets/                 made, found, changed, removed; recovery of what was left; garbage of data
//!   objects/                 put, got, deleted; quotas
//!   listing/                 pages, tokens, snapshots, counts
//!   uploads/                 uploads in parts                             copies/     from one object to another
//!   reshard/                 splits and merges of shards
//! ```
//!
//! Always: a cached record is at most `RECORD_AGE_MAX` (state/cache.rs) old and every change of one is answered only
//! when no core can still use the one before; a cached map costs one more round where it is stale, for shards
//! check the epoch; a client's request id is the same at a cluster until that has definitely refused it.
//! Held by: `caches_do_not_outlive_a_bucket`, `a_stale_map_is_read_again`, `a_put_asked_again_after_splits_and_merges_is_found_done`.
//! Not here: what a command does to a shard, map or upload (core-backends), names and signatures (door-s3).
//! Why it is done so: docs/decisions/0014-s3-metadata-rows.md.

mod accounts;
mod buckets;
mod clusters;
mod config;
mod copies;
mod listing;
mod objects;
mod record;
mod request;
mod reshard;
mod state;
mod uploads;
mod work;

#[cfg(test)]
mod tests;

pub use buckets::bucket_recovery::sweep_buckets;
pub use buckets::check_owner::check_owner;
pub use buckets::with_bucket::SHARDS_MAX;
pub use clusters::{is_reserved, kept, Kept};
pub use config::{S3Config, FREED_AGE_MS, SPLIT_KEYS, SPLIT_LOAD_PERCENT, SPLIT_WRITES};
pub use request::Terms;
pub use reshard::maintenance::{look_at_bucket, look_at_shard};
pub use reshard::retired_shards::remove_retired;
pub use reshard::runner::run_flow;
pub use state::cache::{BUCKETS_MAX, ENTRIES_MAX};
pub use state::counters::{BlockedHistogram, ReshardCounters};
pub use state::{PlanContext, S3Planner, S3State};
pub use uploads::sweep::{follow_up, sweep};

use base_types::s3::{S3Action, S3ErrorCode};
use base_types::Refusal;

/// A call handed on by a part that does not know it, or the planner of one that does.
pub(crate) type Offered = Result<Box<S3Planner>, S3Action>;

/// The planner of a call.
pub fn planner_for(call: S3Action, terms: &Terms) -> Result<Box<S3Planner>, Refusal> {
    let parts = [
        objects::planner_for,
        copies::planner_for,
        listing::planner_for,
        uploads::planner_for,
        buckets::planner_for,
        buckets::settings::planner_for,
        accounts::planner_for,
        buckets::garbage::planner_for,
        reshard::describe_shards::planner_for,
    ];
    let mut offered: Offered = Err(call);
    for part in parts {
        offered = offered.or_else(|call| part(call, terms));
    }
    offered.map_err(|call| {
        S3ErrorCode::NotImplemented.because(format!("{} is not carried out by this version of Hive", call.name()))
    })
}
