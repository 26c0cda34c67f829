//! Listings: objects from the current rows, versions from the version rows.
//!
//! A listing returns a common prefix once and then seeks to the first key after the prefix. So a page costs steps and
//! seeks in proportion to its lines, however many keys lie below a prefix. Objects are listed from rows of their own,
//! so a page reads neither old versions nor delete markers nor data.
//!
//! Always: items come in byte order, none twice; `more` exactly if something follows in this shard
//! (model in `tests/`; mutants `PrefixSkipEatsKey`, `ListSkipsBoundary`).
//! Not here: shards one after the other, tokens, XML (core-s3, door-s3).

use super::command::{Item, ListStart, Listing, Range, Reply, LIST_BYTES_MAX, LIST_ITEMS_MAX};
use super::keys::{self, Current, CURRENT, FLAG_MARKER, FLAG_NULL, VERSION};
use crate::contract::SpaceRead;
use crate::rows::{prefix_end, successor};
use crate::s3_key::{close, lower, raise};
use base_engine::{Direction, EngineError, KeyRange};
use base_types::mutant::{planted, Mutant};
use base_types::s3::document::list_fields_bytes;
use base_types::s3::{Version, VersionStamp};
use bytes::Bytes;
use core::ops::ControlFlow;

/// What a walk knows.
struct Walk<'a> {
    table: u8,
    /// Raised, as rows hold them.
    prefix: Vec<u8>,
    delimiter: Vec<u8>,
    start: Vec<u8>,
    end: Vec<u8>,
    limit: usize,
    space: &'a dyn SpaceRead,
    /// The key of the row before, closed: its later rows are older versions.
    last_key: Vec<u8>,
}

/// What became of one step of a walk.
enum Step {
    /// Nothing is left.
    End,
    /// The page is full and something follows.
    Full,
    /// Continue after a common prefix.
    Skip(Vec<u8>),
}

/// The common prefix a raised key falls under: as far as the first delimiter behind the prefix.
fn common<'k>(key: &'k [u8], prefix: usize, delimiter: &[u8]) -> Option<&'k [u8]> {
    let rest = key.get(prefix..)?;
    let at = match delimiter {
        [] => None,
        [one] => rest.iter().position(|byte| byte == one),
        many => rest.windows(many.len()).position(|window| window == many),
    }?;
    Some(&key[..prefix + at + delimiter.len()])
}

impl<'a> Walk<'a> {
    /// `None`: nothing of this shard can be listed.
    fn new(
        space: &'a dyn SpaceRead,
        table: u8,
        range: &Range,
        listing: &Listing,
    ) -> Result<Option<Walk<'a>>, EngineError> {
        let (prefix, delimiter) = (raise(&listing.prefix), raise(&listing.delimiter));
        let tagged = [&[table][..], &prefix].concat();
        let mut start = tagged.clone().max(keys::bound(table, &range.start).to_vec());
        if planted(Mutant::ListSkipsBoundary) && !range.start.is_empty() {
            start = start.max(keys::versions_of(table, &close(&range.start)).1);
        }
        let mut last_key = Vec::new();
        let from = match &listing.start {
            ListStart::Beginning => None,
            ListStart::After { key } => {
                let raised = raise(key);
                let whole = raised.starts_with(&prefix) && common(&raised, prefix.len(), &delimiter) == Some(&raised);
                if whole {
                    Some(behind_prefix(table, &raised))
                } else {
                    Some(keys::versions_of(table, &close(key)).1)
                }
            }
            ListStart::AfterPrefix { prefix } => Some(behind_prefix(table, &raise(prefix))),
            ListStart::AfterVersion { key, version } => {
                let (from, within) = behind_version(space, table, key, *version)?;
                last_key = if within { close(key) } else { last_key };
                Some(from)
            }
        };
        start = start.max(from.unwrap_or_default());
        let mut end = prefix_end(&tagged).unwrap_or_else(|| vec![table + 1]);
        if let Some(bound) = &range.end {
            end = end.min(keys::bound(table, bound).to_vec());
        }
        let limit = listing.limit.min(LIST_ITEMS_MAX) as usize;
        Ok((start < end).then_some(Walk { table, prefix, delimiter, start, end, limit, space, last_key }))
    }

    /// Walks until a common prefix, the page's end, or the range's.
    fn step(&mut self, page: &mut Page) -> Result<Step, EngineError> {
        let mut step = Step::End;
        let mut damage = None;
        let range = KeyRange { start: &self.start, end: Some(&self.end) };
        let (table, prefix, delimiter, limit) = (self.table, self.prefix.len(), &self.delimiter, self.limit);
        let last_key = &mut self.last_key;
        self.space.range(range, Direction::Forward, &mut |row_key, row| {
            if page.is_full(limit) {
                step = Step::Full;
                return ControlFlow::Break(());
            }
            let closed = match keys::closed_of(row_key) {
                Ok(closed) => closed,
                Err(error) => {
                    damage = Some(error);
                    return ControlFlow::Break(());
                }
            };
            if let Some(common) = common(&closed[..closed.len() - 1], prefix, delimiter) {
                page.add(Item::Prefix { prefix: lower(common) }, common.len());
                step = Step::Skip(behind_prefix(table, common));
                return ControlFlow::Break(());
            }
            match item(table, row_key, closed, row, last_key) {
                Ok(item) => page.add(item, row_key.len() + row.len().min(256)),
                Err(error) => damage = Some(error),
            }
            if damage.is_some() {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        damage.map_or(Ok(step), Err)
    }
}

/// The first row behind everything with a raised prefix.
fn behind_prefix(table: u8, raised: &[u8]) -> Vec<u8> {
    let mut tagged = [&[table][..], raised].concat();
    if planted(Mutant::PrefixSkipEatsKey) {
        // The last byte becomes the greatest possible one: the skip then also passes over the first keys after the
        // prefix.
        tagged.push(0xff);
        if let Some(last) = tagged.iter_mut().rev().nth(1) {
            *last = last.saturating_add(1);
        }
        return tagged;
    }
    prefix_end(&tagged).unwrap_or_else(|| vec![table + 1])
}

/// The first row after a version, and whether a newer version of its key precedes that row. A removed null version
/// leaves no place: the listing repeats its key rather than lose it.
fn behind_version(
    space: &dyn SpaceRead,
    table: u8,
    key: &Bytes,
    version: Version,
) -> Result<(Vec<u8>, bool), EngineError> {
    let closed = close(key);
    let stamp = match version {
        Version::Stamp(stamp) => Some(stamp),
        Version::Null => null_stamp(space, &closed)?,
        Version::Current => return Ok((keys::versions_of(table, &closed).1, false)),
    };
    let first = keys::of_key(table, &closed);
    let Some(stamp) = stamp else { return Ok((first.to_vec(), false)) };
    let from = successor(&keys::of_version(table, &closed, stamp));
    let mut newer = false;
    space.range(KeyRange { start: &first, end: Some(&from) }, Direction::Forward, &mut |_, _| {
        newer = true;
        ControlFlow::Break(())
    })?;
    Ok((from, newer))
}

/// The null version, found among the versions: null rows are not part of snapshots.
fn null_stamp(space: &dyn SpaceRead, closed: &[u8]) -> Result<Option<VersionStamp>, EngineError> {
    let (start, end) = keys::versions_of(VERSION, closed);
    let (mut found, mut damage) = (None, None);
    space.range(KeyRange { start: &start, end: Some(&end) }, Direction::Forward, &mut |key, row| {
        match (keys::flags_of(row), keys::stamp_of(key, closed.len())) {
            (Ok(flags), Ok(stamp)) if flags & FLAG_NULL != 0 => found = Some(stamp),
            (Ok(_), Ok(_)) => return ControlFlow::Continue(()),
            (Err(error), _) | (_, Err(error)) => damage = Some(error),
        }
        ControlFlow::Break(())
    })?;
    damage.map_or(Ok(found), Err)
}

fn item(table: u8, row_key: &[u8], closed: &[u8], row: &[u8], last_key: &mut Vec<u8>) -> Result<Item, EngineError> {
    let key = keys::client_key(closed);
    if table == CURRENT {
        let current = Current::decode(Bytes::copy_from_slice(row))?;
        return Ok(Item::Object { key, stamp: current.stamp, null: current.is_null(), fields: current.fields });
    }
    let flags = keys::flags_of(row)?;
    let latest = last_key[..] != *closed;
    if latest {
        last_key.clear();
        last_key.extend_from_slice(closed);
    }
    Ok(Item::Version {
        key,
        stamp: keys::stamp_of(row_key, closed.len())?,
        null: flags & FLAG_NULL != 0,
        marker: flags & FLAG_MARKER != 0,
        latest,
        fields: Bytes::copy_from_slice(&row[1..1 + list_fields_bytes(&row[1..])]),
    })
}

#[derive(Default)]
struct Page {
    items: Vec<Item>,
    bytes: usize,
}

impl Page {
    fn is_full(&self, limit: usize) -> bool {
        self.items.len() >= limit || self.bytes >= LIST_BYTES_MAX
    }

    fn add(&mut self, item: Item, bytes: usize) {
        self.items.push(item);
        self.bytes += bytes;
    }
}

/// A page of objects or (`versions`) of versions and markers. `range` is the shard's.
pub(super) fn list(
    space: &dyn SpaceRead,
    range: &Range,
    listing: &Listing,
    versions: bool,
) -> Result<Reply, EngineError> {
    let table = if versions { VERSION } else { CURRENT };
    let mut page = Page::default();
    // S3: a page of nothing is whole.
    if listing.limit == 0 {
        return Ok(Reply::Page { items: page.items, more: false });
    }
    let Some(mut walk) = Walk::new(space, table, range, listing)? else {
        return Ok(Reply::Page { items: page.items, more: false });
    };
    let more = loop {
        match walk.step(&mut page)? {
            Step::End => break false,
            Step::Full => break true,
            Step::Skip(start) if start < walk.end => walk.start = start,
            Step::Skip(_) => break false,
        }
    };
    Ok(Reply::Page { items: page.items, more })
}
