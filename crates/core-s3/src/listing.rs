//! Listings of objects and versions.
//!
//! Always: a page holds at most [`MAX_KEYS_MAX`] lines, and says exactly whether there are more. `max_keys` 0 returns
//! nothing and asks no shard. A token continues where its page ended, whatever became of the shards since. The markers
//! of a walk over a snapshot are tokens, and continue it whether or not the client asks for the snapshot again. A page
//! of a snapshot with a marker that is no token is refused: pages of one instant each would be no snapshot, and nobody
//! would see it.
//! Held by: `pages_of_every_size_show_what_the_model_shows`, `a_marker_that_is_none_of_a_snapshots_is_refused`.
//! Not here: the walk over shards (walk.rs), lines (lines.rs), counts (counts.rs).

pub(crate) mod counts;
pub(crate) mod lines;
pub(crate) mod snapshot;
pub(crate) mod token;
pub(crate) mod walk;

use crate::buckets::with_bucket::{with_bucket, BucketWork, Place, Trouble};
use crate::clusters;
use crate::listing::lines::{key_text, object_entry, version_entry, Encoding};
use crate::listing::snapshot::{Instant, Progress};
use crate::listing::token::{Behind, Bound, Token};
use crate::listing::walk::Walk;
use crate::objects::document::{read_version_marker, version_text};
use crate::request::{done, done_at, Terms};
use crate::state::cache::{Bucket, ShardMap};
use crate::state::{PlanContext, S3Planner};
use crate::Offered;
use base_types::s3::{
    ListObjectVersions, ListObjects, ListObjectsV2, ObjectPage, S3Action, S3Answer, S3ErrorCode, Version, VersionPage,
    MAX_KEYS_MAX,
};
use base_types::Refusal;
use bytes::Bytes;
use core_backends::shard::{Item, ListStart};
use core_flow::rounds::one;
use core_flow::{CallResult, Step};
use std::sync::Arc;

/// The planner of a call, if it is one of these.
pub(crate) fn planner_for(call: S3Action, terms: &Terms) -> Offered {
    let call = match call {
        S3Action::ListObjects(call) => List::Objects(call),
        S3Action::ListObjectsV2(call) => List::ObjectsV2(call),
        S3Action::ListObjectVersions(call) => List::Versions(call),
        other => return counts::planner_for(other, terms),
    };
    Ok(with_bucket(Listing { call, terms: *terms, under_way: None }))
}

enum List {
    Objects(Box<ListObjects>),
    ObjectsV2(Box<ListObjectsV2>),
    Versions(Box<ListObjectVersions>),
}

struct Listing {
    call: List,
    terms: Terms,
    under_way: Option<UnderWay>,
}

/// A listing that has begun.
struct UnderWay {
    /// The bucket's number; a recreated bucket of the same name has another.
    bucket: u128,
    walk: Walk,
    /// Lines of the page.
    max: usize,
    encoding: Encoding,
    pin: Option<u128>,
    /// The snapshot it reads is made or looked for.
    instant: Option<Instant>,
    /// The snapshot's shards; else those of the bucket's map as it is.
    map: Option<Arc<ShardMap>>,
    /// This call makes the snapshot, and no token names it yet.
    fresh: bool,
    /// The answer, while it is written down how long its snapshot is kept, or that is given back.
    answer: Option<Step>,
    /// The answer has a token: it is only told when its snapshot is kept.
    keeps: bool,
    /// Its pins are being taken back; then its row.
    gives_back: bool,
    /// That is what is being written.
    row_goes: bool,
}

fn or_empty(text: &Option<String>) -> &str {
    text.as_deref().unwrap_or_default()
}

/// Behind a marker; an empty one is none.
fn behind_key(marker: &str) -> ListStart {
    match marker {
        "" => ListStart::Beginning,
        marker => ListStart::After { key: Bytes::copy_from_slice(marker.as_bytes()) },
    }
}

impl List {
    fn name(&self) -> &'static str {
        match self {
            List::Objects(_) => "ListObjects",
            List::ObjectsV2(_) => "ListObjectsV2",
            List::Versions(_) => "ListObjectVersions",
        }
    }

    fn bucket(&self) -> &str {
        match self {
            List::Objects(call) => &call.bucket,
            List::ObjectsV2(call) => &call.bucket,
            List::Versions(call) => &call.bucket,
        }
    }

    /// Prefix, delimiter, lines, encoding.
    fn terms(&self) -> (&str, &str, Option<u32>, Option<&str>) {
        match self {
            List::Objects(call) => {
                (&call.prefix, or_empty(&call.delimiter), call.max_keys, call.encoding_type.as_deref())
            }
            List::ObjectsV2(call) => {
                (&call.prefix, or_empty(&call.delimiter), call.max_keys, call.encoding_type.as_deref())
            }
            List::Versions(call) => {
                (&call.prefix, or_empty(&call.delimiter), call.max_keys, call.encoding_type.as_deref())
            }
        }
    }

    fn bound(&self) -> Bound<'_> {
        let (prefix, delimiter, ..) = self.terms();
        Bound { call: self.name(), prefix, delimiter }
    }

    /// Whether all pages show one instant.
    fn snapshot(&self) -> bool {
        match self {
            List::Objects(call) => call.snapshot,
            List::ObjectsV2(call) => call.snapshot,
            List::Versions(call) => call.snapshot,
        }
    }

    /// Where it begins, and the snapshot it reads.
    fn start(&self, bucket: &Bucket) -> Result<(ListStart, Option<u128>), Refusal> {
        let marker = match self {
            List::Objects(call) => or_empty(&call.marker),
            List::ObjectsV2(call) => match &call.continuation_token {
                None => return Ok((behind_key(or_empty(&call.start_after)), None)),
                Some(text) => return behind_token(token::read(bucket, &self.bound(), text)?),
            },
            List::Versions(call) => or_empty(&call.key_marker),
        };
        let token = Some(marker).filter(|marker| !marker.is_empty());
        let token = token.and_then(|marker| token::open(bucket, &self.bound(), marker));
        let alone = !matches!(self, List::Versions(call) if !or_empty(&call.version_id_marker).is_empty());
        match (token, self) {
            (Some(token), _) if alone => behind_token(token),
            _ if self.snapshot() && !(marker.is_empty() && alone) => {
                let message = "in a snapshot a marker must be what the page before told as the next one, alone; \
                               a walk begins without a marker";
                Err(S3ErrorCode::InvalidArgument.because(message))
            }
            (_, List::Versions(call)) => Ok((versions_start(call)?, None)),
            _ => Ok((behind_key(marker), None)),
        }
    }
}

/// Where a token continues.
fn behind_token(Token { behind, pin }: Token) -> Result<(ListStart, Option<u128>), Refusal> {
    let start = match behind {
        Behind::Key(key) => ListStart::After { key: key.into() },
        Behind::Prefix(prefix) => ListStart::AfterPrefix { prefix: prefix.into() },
        Behind::Version { key, version } => {
            ListStart::AfterVersion { key: key.into(), version: read_version_marker(&version)? }
        }
    };
    Ok((start, pin))
}

fn versions_start(call: &ListObjectVersions) -> Result<ListStart, Refusal> {
    let (key, version) = (or_empty(&call.key_marker), or_empty(&call.version_id_marker));
    match (key, version) {
        ("", "") => Ok(ListStart::Beginning),
        ("", _) => {
            let message = "A version-id marker cannot be specified without a key marker.";
            Err(S3ErrorCode::InvalidArgument.because(message))
        }
        (key, "") => Ok(behind_key(key)),
        (key, version) => {
            let version: Version = read_version_marker(version)?;
            Ok(ListStart::AfterVersion { key: Bytes::copy_from_slice(key.as_bytes()), version })
        }
    }
}

impl BucketWork for Listing {
    fn name(&self) -> &'static str {
        self.call.name()
    }

    fn bucket(&self) -> &str {
        self.call.bucket()
    }

    fn next(
        &mut self,
        context: &mut PlanContext<'_>,
        at: &Place,
        mut answers: Vec<CallResult>,
    ) -> Result<Step, Trouble> {
        if self.under_way.as_ref().is_none_or(|under_way| under_way.bucket != at.bucket.id) {
            self.under_way = Some(self.begin(&at.bucket)?);
        }
        let Some(under_way) = &mut self.under_way else { return Ok(done(S3Answer::Done, None)) };
        if core::mem::take(&mut under_way.gives_back) {
            let pinned = under_way.pin.zip(under_way.map.as_ref());
            let row = pinned.map(|(pin, map)| snapshot::unpinned(at.bucket.id, pin, map, &answers)).transpose()?;
            if let Some(row) = row.flatten() {
                under_way.row_goes = true;
                return Ok(one(row));
            }
        }
        if let Some(answer) = under_way.answer.take() {
            return match answers.into_iter().find_map(Result::err).filter(|_| under_way.keeps) {
                Some(failure) => Err(Trouble::Failed(failure)),
                None => {
                    under_way.fresh &= !(under_way.keeps || under_way.row_goes);
                    Ok(answer)
                }
            };
        }
        if let Some(instant) = &mut under_way.instant {
            match instant.next(context, at, core::mem::take(&mut answers))? {
                Progress::Step(step) => return Ok(step),
                Progress::Ready(found) => {
                    (under_way.pin, under_way.map) = (Some(found.pin), Some(found.map.clone()));
                    under_way.instant = None;
                }
            }
        }
        under_way.walk.take(answers).map_err(|trouble| under_way.trouble(trouble))?;
        if under_way.walk.is_done() {
            return self.end(context, at);
        }
        let place = under_way.map.clone().map(|map| Place { bucket: at.bucket.clone(), map });
        Ok(under_way.walk.ask(place.as_ref().unwrap_or(at), &self.terms, under_way.pin)?)
    }

    /// A snapshot of this call's that no token names.
    fn cleanup(&mut self) -> Option<Box<S3Planner>> {
        let under_way = self.under_way.take().filter(|under_way| under_way.fresh)?;
        match (&under_way.instant, under_way.pin.zip(under_way.map)) {
            (Some(instant), _) => instant.cleanup(under_way.bucket),
            (None, Some((pin, map))) => Some(snapshot::give_back(under_way.bucket, pin, map)),
            (None, None) => None,
        }
    }
}

impl UnderWay {
    /// A shard that a snapshot reads does not come back: only the snapshot can have ended.
    fn trouble(&self, trouble: Trouble) -> Trouble {
        match trouble {
            Trouble::Map(failure) | Trouble::Bucket(failure) if self.pin.is_some() => snapshot::pinned_trouble(failure),
            other => other,
        }
    }
}

impl Listing {
    fn begin(&self, bucket: &Bucket) -> Result<UnderWay, Refusal> {
        let (prefix, delimiter, max, encoding) = self.call.terms();
        let encoding = Encoding::read(encoding)?;
        let max = max.unwrap_or(MAX_KEYS_MAX).min(MAX_KEYS_MAX) as usize;
        let (start, pin) = self.call.start(bucket)?;
        // One line more than the page holds shows whether there are more.
        let wanted = if max == 0 { 0 } else { max + 1 };
        let versions = matches!(self.call, List::Versions(_));
        let walk = Walk::new(versions, prefix, delimiter, start, wanted)?;
        let fresh = self.call.snapshot() && pin.is_none() && max > 0;
        let instant = pin.map(Instant::find).or_else(|| fresh.then(Instant::make));
        Ok(UnderWay {
            bucket: bucket.id,
            walk,
            max,
            encoding,
            pin,
            instant,
            map: None,
            fresh,
            answer: None,
            keeps: false,
            gives_back: false,
            row_goes: false,
        })
    }

    /// The page is complete. A new snapshot that this page shows to its end is given back, for no token names it. One
    /// that continues is kept before its first token leaves. One whose walk ends here expires soon.
    fn end(&mut self, context: &PlanContext<'_>, at: &Place) -> Result<Step, Trouble> {
        let Some(mut under_way) = self.under_way.take() else { return Ok(done(S3Answer::Done, None)) };
        let items = core::mem::take(&mut under_way.walk.items);
        let last = under_way.max > 0 && items.len() <= under_way.max;
        let answer = self.finish(&at.bucket, &under_way, items)?;
        let Some((pin, map)) = under_way.pin.zip(under_way.map.clone()) else { return Ok(answer) };
        let (id, now_ms) = (at.bucket.id, context.unix_ms);
        under_way.gives_back = under_way.fresh && last;
        let calls = match (under_way.fresh, last) {
            (true, true) => snapshot::unpin(id, pin, &map)?,
            (true, false) => vec![snapshot::keep(id, now_ms, pin, &map)?],
            (false, true) => vec![snapshot::keep_ended(id, now_ms, pin, &map)?],
            (false, false) => return Ok(answer),
        };
        (under_way.answer, under_way.keeps) = (Some(answer), under_way.fresh && !last);
        self.under_way = Some(under_way);
        Ok(Step::Calls(calls))
    }

    fn finish(&self, bucket: &Bucket, under_way: &UnderWay, mut items: Vec<Item>) -> Result<Step, Refusal> {
        let (level, at) = (under_way.walk.level, under_way.walk.at);
        let more = items.len() > under_way.max;
        items.truncate(under_way.max);
        let answer: S3Answer = match &self.call {
            List::Versions(_) => self.version_page(bucket, &items, more, under_way)?.into(),
            List::Objects(_) => self.object_page(bucket, &items, more, under_way, true)?.into(),
            List::ObjectsV2(call) => self.object_page(bucket, &items, more, under_way, call.fetch_owner)?.into(),
        };
        Ok(match at {
            None => done(answer, None),
            Some((at, shard)) => done_at(answer, at, level, Some(clusters::shard(bucket.id, shard)?)),
        })
    }

    fn object_page(
        &self,
        bucket: &Bucket,
        items: &[Item],
        more: bool,
        under_way: &UnderWay,
        with_owner: bool,
    ) -> Result<ObjectPage, Refusal> {
        let encoding = under_way.encoding;
        let mut page = ObjectPage {
            contents: Vec::with_capacity(items.len()),
            key_count: u32::try_from(items.len()).unwrap_or(u32::MAX),
            is_truncated: more,
            ..ObjectPage::default()
        };
        for item in items {
            match item {
                Item::Object { key, fields, .. } => {
                    page.contents.push(object_entry(&bucket.record.info, key, fields, with_owner, encoding)?);
                }
                Item::Prefix { prefix } => page.common_prefixes.push(encoding.text(key_text(prefix)?)),
                Item::Version { .. } => return Err(crate::objects::single_shard::other_reply()),
            }
        }
        let Some(last) = items.last().filter(|_| more) else { return Ok(page) };
        let behind = match last {
            Item::Object { key, .. } | Item::Version { key, .. } => Behind::Key(key_text(key)?.to_owned()),
            Item::Prefix { prefix } => Behind::Prefix(key_text(prefix)?.to_owned()),
        };
        match (&self.call, under_way.pin) {
            (List::ObjectsV2(_), pin) => {
                page.next_continuation_token = Some(self.token(bucket, behind, pin));
            }
            (_, Some(pin)) => page.next_marker = Some(self.token(bucket, behind, Some(pin))),
            (_, None) => page.next_marker = Some(encoding.text(behind.key())),
        }
        Ok(page)
    }

    /// The text of a token of this listing.
    fn token(&self, bucket: &Bucket, behind: Behind, pin: Option<u128>) -> String {
        token::write(bucket, &self.call.bound(), &Token { behind, pin })
    }

    fn version_page(
        &self,
        bucket: &Bucket,
        items: &[Item],
        more: bool,
        under_way: &UnderWay,
    ) -> Result<VersionPage, Refusal> {
        let encoding = under_way.encoding;
        let mut page = VersionPage { is_truncated: more, ..VersionPage::default() };
        for item in items {
            match item {
                Item::Prefix { prefix } => page.common_prefixes.push(encoding.text(key_text(prefix)?)),
                item => page.versions.extend(version_entry(&bucket.record.info, item, encoding)?),
            }
        }
        let behind = match items.last().filter(|_| more) {
            Some(Item::Version { key, stamp, null, .. }) => {
                Behind::Version { key: key_text(key)?.to_owned(), version: version_text(*stamp, *null) }
            }
            Some(Item::Prefix { prefix }) => Behind::Prefix(key_text(prefix)?.to_owned()),
            _ => return Ok(page),
        };
        if let Some(pin) = under_way.pin {
            page.next_key_marker = Some(self.token(bucket, behind, Some(pin)));
            return Ok(page);
        }
        page.next_key_marker = Some(encoding.text(behind.key()));
        if let Behind::Version { version, .. } = behind {
            page.next_version_id_marker = Some(version);
        }
        Ok(page)
    }
}
