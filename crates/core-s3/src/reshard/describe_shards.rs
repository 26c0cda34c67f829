//! The shards of a bucket: what a person looks at before and after a split.
//!
//! Always: all shards of a page are those of one version of the map; each describes a moment of its own.
//! Held by: `shards_are_told_in_order_without_gap_and_hold_all_keys`.
//! Not here: counts that must be exact together (counts.rs), what a shard does about its size (maintenance.rs).

use crate::buckets::with_bucket::{with_bucket, BucketWork, Place, Trouble};
use crate::clusters;
use crate::listing::lines::key_text;
use crate::objects::single_shard::{other_reply, read_trouble};
use crate::request::{done, reply, shard_read, Terms};
use crate::state::PlanContext;
use crate::Offered;
use base_types::action::Failure;
use base_types::s3::{DescribeShards, S3Action, ShardEntry, Shards};
use base_types::{ErrorCode, OrderedAt, Refusal};
use bytes::Bytes;
use core_backends::shard::{Query, Range, Reply, ShardInfo, ShardState};
use core_backends::shard_reference::Entry;
use core_flow::{Call, CallResult, Step};

/// The most shards of one page, all asked at once.
const PAGE_MAX: u32 = 1_000;

/// The planner of the call, if it is this one.
pub(crate) fn planner_for(call: S3Action, terms: &Terms) -> Offered {
    match call {
        S3Action::DescribeShards(call) => Ok(with_bucket(Describe { call, terms: *terms, asked: None })),
        other => Err(other),
    }
}

/// The page that was asked for.
struct Asked {
    entries: Vec<Entry>,
    next: Option<Bytes>,
}

struct Describe {
    call: Box<DescribeShards>,
    terms: Terms,
    asked: Option<Asked>,
}

impl BucketWork for Describe {
    fn name(&self) -> &'static str {
        "DescribeShards"
    }

    fn bucket(&self) -> &str {
        &self.call.bucket
    }

    fn next(&mut self, _: &mut PlanContext<'_>, at: &Place, answers: Vec<CallResult>) -> Result<Step, Trouble> {
        match self.asked.take().filter(|_| !answers.is_empty()) {
            Some(asked) => self.told(at, asked, answers),
            None => Ok(self.ask(at)?),
        }
    }
}

impl Describe {
    fn ask(&mut self, at: &Place) -> Result<Step, Refusal> {
        let start = Bytes::from(self.call.continuation_token.clone().unwrap_or_default());
        let page = self.call.max_shards.unwrap_or(PAGE_MAX).clamp(1, PAGE_MAX) as usize;
        let mut entries: Vec<Entry> = at.map.shards_in(&Range { start, end: None }).take(page + 1).cloned().collect();
        let next = entries.get(page).map(|next| next.range.start.clone());
        entries.truncate(page);
        let id = at.bucket.id;
        let ask = |entry: &Entry| shard_read(id, entry.shard, &Query::Describe, &self.terms);
        let calls: Result<Vec<Call>, Refusal> = entries.iter().map(ask).collect();
        self.asked = Some(Asked { entries, next });
        Ok(Step::Calls(calls?))
    }

    fn told(&self, at: &Place, asked: Asked, answers: Vec<CallResult>) -> Result<Step, Trouble> {
        let mut shards = Vec::with_capacity(asked.entries.len());
        let mut ordered: Option<OrderedAt> = None;
        for (entry, answer) in asked.entries.iter().zip(answers) {
            match reply::<Reply>(answer) {
                Ok((Reply::Shard { info }, _)) if has_changed(entry, &info) => {
                    return Err(read_trouble(changed(entry)))
                }
                Ok((Reply::Shard { info }, at_shard)) => {
                    shards.push(told(at.bucket.id, entry, &info)?);
                    ordered = Some(at_shard);
                }
                Ok(_) => return Err(other_reply().into()),
                Err(failure) => return Err(read_trouble(failure)),
            }
        }
        let next = asked.next.as_ref().map(|next| key_text(next).map(str::to_owned));
        Ok(done(Shards { shards, continuation_token: next.transpose()? }, ordered))
    }
}

/// Whether the map is older than what the shard is now.
fn has_changed(entry: &Entry, info: &ShardInfo) -> bool {
    info.epoch != entry.epoch || matches!(info.state, ShardState::Retired | ShardState::Dropped)
}

/// The map must be read anew.
fn changed(entry: &Entry) -> Failure {
    let message = format!("shard {} no longer serves epoch {}", entry.shard, entry.epoch);
    Refusal::new(ErrorCode::WrongShard, message).into()
}

fn told(id: u128, entry: &Entry, info: &ShardInfo) -> Result<ShardEntry, Refusal> {
    Ok(ShardEntry {
        cluster: clusters::shard(id, entry.shard)?.as_str().to_owned(),
        epoch: entry.epoch,
        start: key_text(&entry.range.start)?.to_owned(),
        end: entry.range.end.as_ref().map(|end| key_text(end).map(str::to_owned)).transpose()?,
        state: state_text(info.state).to_owned(),
        keys: info.totals.keys,
        versions: info.totals.rows(),
        bytes: info.totals.bytes,
        snapshots: u32::try_from(info.pins.len()).unwrap_or(u32::MAX),
    })
}

/// As the API shows it (docs/guides/api/listings.md).
fn state_text(state: ShardState) -> &'static str {
    match state {
        ShardState::Serving => "serving",
        ShardState::Splitting => "splitting",
        ShardState::Importing => "importing",
        ShardState::Retired => "retired",
        ShardState::Dropped => "dropped",
        ShardState::Closed => "closed",
    }
}
