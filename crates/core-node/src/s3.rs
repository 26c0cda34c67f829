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
//! Each call is a planner. Those on a bucket are [`on_bucket::BucketWork`]: they are handed the bucket's
//! record and map, and say when what they were handed proved stale.
//!
//! Always: a cached record is at most [`cache::RECORD_AGE_MAX`] old and every change of one is answered only
//! when no core can still use the one before; a cached map costs one more round where it is stale, for shards
//! check the epoch; a client's request id is the same at a cluster until that has definitely refused it.
//! Not here: what a command does to a shard, map or upload (core-backends), names and signatures (door-s3).
//! Why it is done so: docs/decisions/0014-s3-metadata-rows.md.

pub(crate) mod abort;
pub(crate) mod accounts;
pub(crate) mod buckets;
pub mod cache;
pub(crate) mod calm;
pub(crate) mod carry;
pub(crate) mod chain;
pub(crate) mod clusters;
pub(crate) mod complete;
pub(crate) mod conditions;
pub(crate) mod copies;
pub(crate) mod counts;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod delete_many;
pub(crate) mod describe_shards;
pub(crate) mod directory;
pub(crate) mod document;
pub(crate) mod ending;
pub(crate) mod entries;
pub(crate) mod freed;
pub(crate) mod keeper;
pub(crate) mod leftovers;
pub(crate) mod lines;
pub(crate) mod list;
pub(crate) mod multipart;
pub(crate) mod names;
pub(crate) mod objects;
pub(crate) mod of_owner;
pub(crate) mod on_bucket;
pub(crate) mod one_shard;
pub(crate) mod quota;
pub(crate) mod record;
pub(crate) mod request;
pub mod reshard;
pub(crate) mod settings;
pub(crate) mod snapshot;
pub(crate) mod standstill;
pub mod state;
pub(crate) mod sweep;
pub(crate) mod tidy;
pub(crate) mod token;
pub(crate) mod upkeep;
pub(crate) mod upload_id;
pub(crate) mod versions;
pub(crate) mod walk;
pub(crate) mod work;

#[cfg(test)]
pub(crate) mod tests;

use crate::s3::state::S3Planner;
use base_types::s3::{S3Action, S3ErrorCode};
use base_types::Refusal;
use request::Terms;

/// A call handed on by a part that does not know it, or the planner of one that does.
pub(crate) type Offered = Result<Box<S3Planner>, S3Action>;

/// The planner of a call.
pub(crate) fn planner_for(call: S3Action, terms: &Terms) -> Result<Box<S3Planner>, Refusal> {
    let parts = [
        objects::planner_for,
        list::planner_for,
        multipart::planner_for,
        buckets::planner_for,
        settings::planner_for,
        accounts::planner_for,
        freed::planner_for,
        describe_shards::planner_for,
    ];
    let mut offered: Offered = Err(call);
    for part in parts {
        offered = offered.or_else(|call| part(call, terms));
    }
    offered.map_err(|call| {
        S3ErrorCode::NotImplemented.because(format!("{} is not carried out by this version of Hive", call.name()))
    })
}
