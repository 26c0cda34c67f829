//! Ranges: pages of the store until the answer is whole, then what etcd does after its own read: sorting, the limit, the count.
//!
//! Always: all pages are of one stamp. An answer is whole or refused: nothing is left out without `more`. Work is bounded by
//! [`ANSWER_BYTES_MAX`], [`SORT_ROWS_MAX`] and the number of pages.
//! Not here: ranges within transactions are one read each, with the same options ([`read_of`], [`finish`]).

use super::rows;
use super::span::{rest_of, span_of};
use crate::door::Door;
use crate::limits::{ANSWER_BYTES_MAX, SORT_ROWS_MAX};
use crate::proto::etcdserverpb as pb;
use crate::proto::etcdserverpb::range_request::{SortOrder, SortTarget};
use crate::revision::to_stamp;
use crate::status::{unexpected, COMPACTED, EMPTY_KEY, INVALID_SORT_OPTION};
use crate::store::{Place, Session};
use base_types::versioned::{Filter, Page, Pair, Query, Read, Reply, PAGE_ROWS_MAX};
use base_types::ReadConsistency;
use std::pin::Pin;
use tonic::{Code, Status};

/// The stream of `RangeStream`.
pub type Stream = Pin<Box<dyn futures::Stream<Item = Result<pb::RangeStreamResponse, Status>> + Send>>;

/// How often a range of the newest begins again because a compaction overtook it.
const OVERTAKEN_MAX: usize = 4;
/// Pages of one answer. Each brings rows or counts 20,000 keys.
const PAGES_MAX: usize = 50_000;
/// What a row takes in an answer beside key and value, about.
const ROW_BYTES: usize = 48;

/// Refuses what is no range.
pub(super) fn check(request: &pb::RangeRequest) -> Result<(), Status> {
    if request.key.is_empty() {
        return Err(EMPTY_KEY.into());
    }
    let known = SortOrder::try_from(request.sort_order).is_ok() && SortTarget::try_from(request.sort_target).is_ok();
    if !known {
        return Err(INVALID_SORT_OPTION.into());
    }
    Ok(())
}

/// What the whole answer is sorted by; none: by keys, as it is read.
fn sorting(request: &pb::RangeRequest) -> Option<(SortTarget, bool)> {
    let (target, order) = (request.sort_target(), request.sort_order());
    let descending = order == SortOrder::Descend;
    (descending || target != SortTarget::Key).then_some((target, descending))
}

/// The most rows that are read: all, where the answer is sorted first.
pub(super) fn rows_wanted(request: &pb::RangeRequest) -> Option<usize> {
    let limit = usize::try_from(request.limit).ok().filter(|limit| *limit > 0)?;
    sorting(request).is_none().then_some(limit)
}

/// The read that a range is, but for its limit.
pub(super) fn read_of(request: &pb::RangeRequest) -> Read {
    let most = |revision: i64| if revision == 0 { 0 } else { to_stamp(revision) };
    let mut filter = Filter {
        modified_min: to_stamp(request.min_mod_revision),
        modified_max: most(request.max_mod_revision),
        created_min: to_stamp(request.min_create_revision),
        created_max: most(request.max_create_revision),
    };
    // No row is that old. In the store's filter 0 is no bound, so what nothing fits is said by a bound that nothing reaches.
    if [request.max_mod_revision, request.max_create_revision].iter().any(|most| *most != 0 && to_stamp(*most) == 0) {
        filter.modified_min = u64::MAX;
    }
    let by_value = sorting(request).is_some_and(|(target, _)| target == SortTarget::Value);
    Read {
        span: span_of(&request.key, &request.range_end),
        at: to_stamp(request.revision),
        limit: 0,
        keys_only: request.keys_only && !by_value,
        count: false,
        count_only: request.count_only,
        filter,
    }
}

/// Answers a range.
pub(super) async fn answer(
    door: &Door,
    session: &Session,
    request: &pb::RangeRequest,
) -> Result<pb::RangeResponse, Status> {
    let level = if request.serializable { ReadConsistency::Eventual } else { ReadConsistency::Strong };
    let (found, place) = gather(door, session, request, level).await?;
    let stamp = if request.revision > 0 {
        // The header has the newest revision. Who may not look at the whole gets the newest that is known.
        let newest = door.describe(session, level).await.map_or(0, |(info, _)| info.stamp);
        newest.max(found.stamp)
    } else {
        found.stamp
    };
    let header = door.header(session, place, stamp);
    let mut response = finish(request, found.rows, found.more, found.count);
    response.header = Some(header);
    Ok(response)
}

struct Found {
    stamp: u64,
    rows: Vec<Pair>,
    more: bool,
    count: u64,
}

async fn page(
    door: &Door,
    session: &Session,
    read: Read,
    level: ReadConsistency,
) -> Result<(u64, Page, Place), Status> {
    match door.ask(session, Query::Read { read, pin: 0 }, level).await? {
        (Reply::Page { stamp, page }, place) => Ok((stamp, page, place)),
        _ => Err(unexpected("Read")),
    }
}

async fn gather(
    door: &Door,
    session: &Session,
    request: &pb::RangeRequest,
    level: ReadConsistency,
) -> Result<(Found, Place), Status> {
    let mut overtaken = 0;
    loop {
        match gather_once(door, session, request, level).await {
            // A compaction went past the stamp between two pages: a range of the newest has not promised that stamp to anybody.
            Err(status) if status.message() == COMPACTED.text && request.revision <= 0 && overtaken < OVERTAKEN_MAX => {
                overtaken += 1;
            }
            other => return other,
        }
    }
}

async fn gather_once(
    door: &Door,
    session: &Session,
    request: &pb::RangeRequest,
    level: ReadConsistency,
) -> Result<(Found, Place), Status> {
    let wanted = rows_wanted(request);
    let next_limit = |have: usize| wanted.map_or(0, |wanted| (wanted - have).min(PAGE_ROWS_MAX as usize) as u32);
    let first = Read { limit: next_limit(0), count: wanted.is_some(), ..read_of(request) };
    let (stamp, page, place) = self::page(door, session, first.clone(), level).await?;
    let rows_max = if sorting(request).is_some() { SORT_ROWS_MAX } else { usize::MAX };
    let mut room = Room { bytes: ANSWER_BYTES_MAX, rows: rows_max };
    let Page { rows, next, mut count, counted_to } = page;
    let mut found = Found { stamp, rows: Vec::new(), more: false, count: 0 };
    room.take(&rows)?;
    found.rows = rows;
    let mut left = next;
    for _ in 0..PAGES_MAX {
        if request.count_only || wanted.is_some_and(|wanted| found.rows.len() >= wanted) {
            break;
        }
        let Some(next) = left.take() else { break };
        let limit = next_limit(found.rows.len());
        let read = Read { span: rest_of(&first.span, next), at: stamp, limit, count: false, ..first.clone() };
        let (_, page, _) = self::page(door, session, read, level).await?;
        room.take(&page.rows)?;
        found.rows.extend(page.rows);
        left = page.next;
        if wanted.is_none() {
            count += page.count;
        }
    }
    found.more = left.is_some();
    let uncounted = if wanted.is_some() || request.count_only { counted_to } else { None };
    found.count = count + rest_count(door, session, &first, stamp, uncounted, level).await?;
    Ok((found, place))
}

/// Counts on from where a page's count ended.
async fn rest_count(
    door: &Door,
    session: &Session,
    first: &Read,
    stamp: u64,
    mut from: Option<bytes::Bytes>,
    level: ReadConsistency,
) -> Result<u64, Status> {
    let mut total = 0u64;
    for _ in 0..PAGES_MAX {
        let Some(next) = from.take() else { return Ok(total) };
        let read = Read { span: rest_of(&first.span, next), at: stamp, count_only: true, ..first.clone() };
        let (_, page, _) = page(door, session, read, level).await?;
        total = total.saturating_add(page.count);
        from = page.counted_to;
    }
    Err(too_large("keys to count"))
}

/// What an answer may still hold.
struct Room {
    bytes: usize,
    /// Rows; those of an answer that is not sorted are bounded by their bytes.
    rows: usize,
}

impl Room {
    fn take(&mut self, rows: &[Pair]) -> Result<(), Status> {
        let bytes: usize = rows.iter().map(|pair| pair.key.len() + pair.row.value.len() + ROW_BYTES).sum();
        match self.bytes.checked_sub(bytes) {
            Some(left) => self.bytes = left,
            None => return Err(too_large("bytes")),
        }
        match self.rows.checked_sub(rows.len()) {
            Some(left) => self.rows = left,
            None => return Err(too_many_to_sort()),
        }
        Ok(())
    }
}

fn too_many_to_sort() -> Status {
    Status::new(
        Code::ResourceExhausted,
        format!(
            "etcdserver: too many requests: hive sorts at most {SORT_ROWS_MAX} keys of a range; ask for a smaller one"
        ),
    )
}

fn too_large(what: &str) -> Status {
    Status::new(
        Code::ResourceExhausted,
        format!(
            "grpc: trying to send message larger than max ({what} of the range vs. {ANSWER_BYTES_MAX}); \
             give a limit and page by keys, or ask for keys or the count only"
        ),
    )
}

/// Sorts, cuts and counts as etcd does.
pub(super) fn finish(request: &pb::RangeRequest, mut rows: Vec<Pair>, mut more: bool, count: u64) -> pb::RangeResponse {
    if let Some((target, descending)) = sorting(request) {
        sort(&mut rows, target, descending);
    }
    if let Some(limit) = usize::try_from(request.limit).ok().filter(|limit| *limit > 0) {
        if rows.len() > limit {
            rows.truncate(limit);
            more = true;
        }
    }
    let mut kvs: Vec<_> = rows.into_iter().map(rows::pair).collect();
    if request.keys_only {
        kvs.iter_mut().for_each(|kv| kv.value = Default::default());
    }
    pb::RangeResponse { header: None, kvs, more: more && !request.count_only, count: rows::count(count) }
}

fn sort(rows: &mut [Pair], target: SortTarget, descending: bool) {
    let order = |one: &Pair, other: &Pair| match target {
        SortTarget::Key => one.key.cmp(&other.key),
        SortTarget::Version => one.row.version.cmp(&other.row.version),
        SortTarget::Create => one.row.created.cmp(&other.row.created),
        SortTarget::Mod => one.row.modified.cmp(&other.row.modified),
        SortTarget::Value => one.row.value.cmp(&other.row.value),
    };
    rows.sort_by(|one, other| if descending { order(other, one) } else { order(one, other) });
}
