//! Finds and lists buckets. create.rs makes them, delete.rs removes them.

pub(crate) mod bucket_recovery;
pub(crate) mod bucket_resolve;
pub(crate) mod check_owner;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod garbage;
pub(crate) mod names;
pub(crate) mod settings;
pub(crate) mod with_bucket;

use crate::accounts::directory;
use crate::accounts::entries::{self, EntryDocument};
use crate::buckets::create::create_bucket;
use crate::buckets::delete::delete_bucket;
use crate::buckets::with_bucket::{with_bucket, BucketWork, Place, Trouble};
use crate::request::{done, Terms};
use crate::state::PlanContext;
use crate::work::{planner, Work};
use crate::Offered;
use base_types::action::Failure;
use base_types::s3::{BucketEntry, BucketLocation, Buckets, ListBuckets, Owner, S3Action, S3ErrorCode};
use core_backends::bucket_names::EntryState;
use core_flow::rounds::{one, only};
use core_flow::{CallResult, Step};

/// The most buckets of one answer.
const BUCKETS_PAGE_MAX: u32 = 10_000;
/// Entries asked for at a time.
const ENTRIES_AT_A_TIME: u32 = 1_000;

/// The planner of a call, if it is one of these.
pub(crate) fn planner_for(call: S3Action, terms: &Terms) -> Offered {
    Ok(match call {
        S3Action::CreateBucket(call) => create_bucket(*call, terms),
        S3Action::DeleteBucket(call) => delete_bucket(*call),
        S3Action::ListBuckets(call) => {
            planner("ListBuckets", List { call: *call, owner: None, found: Vec::new(), after: None })
        }
        S3Action::HeadBucket(call) => with_bucket(Look { bucket: call.bucket, name: "HeadBucket" }),
        S3Action::GetBucketLocation(call) => with_bucket(Look { bucket: call.bucket, name: "GetBucketLocation" }),
        other => return Err(other),
    })
}

/// Answers with what the record says.
struct Look {
    bucket: String,
    name: &'static str,
}

impl BucketWork for Look {
    fn name(&self) -> &'static str {
        self.name
    }

    fn bucket(&self) -> &str {
        &self.bucket
    }

    fn needs_map(&self) -> bool {
        false
    }

    fn next(&mut self, _: &mut PlanContext<'_>, at: &Place, _: Vec<CallResult>) -> Result<Step, Trouble> {
        let info = at.bucket.record.info.clone();
        Ok(match self.name {
            "HeadBucket" => done(info, None),
            _ => done(BucketLocation { location_constraint: info.bucket_region }, None),
        })
    }
}

/// Lists an account's buckets: its entries, those that are or once were being made left out.
struct List {
    call: ListBuckets,
    owner: Option<Owner>,
    found: Vec<BucketEntry>,
    after: Option<String>,
}

impl List {
    fn most(&self) -> usize {
        self.call.max_buckets.unwrap_or(BUCKETS_PAGE_MAX).clamp(1, BUCKETS_PAGE_MAX) as usize
    }

    fn page(&self) -> Result<Step, Failure> {
        let after = self.after.as_deref().or(self.call.continuation_token.as_deref());
        let limit = ENTRIES_AT_A_TIME.min(self.most() as u32 + 1);
        Ok(one(entries::list(&self.call.account, &self.call.prefix, after, limit)?))
    }

    fn end(&mut self, more: bool) -> Step {
        let buckets = core::mem::take(&mut self.found);
        let continuation_token = buckets.last().filter(|_| more).map(|last| last.name.clone());
        done(Buckets { owner: self.owner.take().unwrap_or_default(), buckets, continuation_token }, None)
    }
}

fn entry_of((name, entry): (String, EntryDocument)) -> Option<BucketEntry> {
    let shown = entry.state() == EntryState::Active;
    shown.then_some(BucketEntry { name, creation_date_ms: entry.created_ms, bucket_region: entry.region })
}

impl Work for List {
    fn next(&mut self, _: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Result<Step, Failure> {
        if answers.is_empty() {
            directory::check_account(&self.call.account)?;
            if self.call.max_buckets == Some(0) {
                return Err(S3ErrorCode::InvalidArgument.because("max_buckets is 0; ask for at least one").into());
            }
            return Ok(one(directory::get(directory::account_key(&self.call.account))?));
        }
        if self.owner.is_none() {
            let Some((account, _)) = directory::account(only(answers))? else {
                return Err(directory::no_such_account(&self.call.account).into());
            };
            self.owner = Some(account.owner(&self.call.account));
            return self.page();
        }
        let (page, more) = entries::listed(only(answers))?;
        self.after = page.last().map(|(name, _)| name.clone());
        for found in page.into_iter().filter_map(entry_of) {
            if self.found.len() == self.most() {
                return Ok(self.end(true));
            }
            self.found.push(found);
        }
        match more {
            true => self.page(),
            false => Ok(self.end(false)),
        }
    }

    fn begin_again(&mut self) {
        (self.owner, self.after) = (None, None);
        self.found.clear();
    }
}
