//! A walk over the shards of a bucket in the order of keys, until there are items enough.
//!
//! ```text
//!   keys      ····[ shard ][ shard ][ shard ][ shard ]····
//!   done so far ──────▶│◀─ asked at once: as many as seem to be needed ─▶│
//! ```
//!
//! Always: only shards that can hold an answer are asked, in order; items come in order and none twice, also a common
//! prefix that reaches over several shards; what was found before a shard was split in between stays found, for
//! the place reached is a key, not a shard.
//! Held by: `only_the_shards_that_can_hold_the_answer_are_asked`, `pages_of_every_size_show_what_the_model_shows`.
//! Not here: what the items mean (listing.rs), where it begins (token.rs, markers).

use crate::buckets::with_bucket::{Place, Trouble};
use crate::objects::single_shard::{other_reply, read_trouble};
use crate::request::{level_of, reply, shard_read, Terms};
use base_types::action::Level;
use base_types::mutant::{planted, Mutant};
use base_types::s3::{S3ErrorCode, Version, KEY_BYTES_MAX};
use base_types::{OrderedAt, Refusal};
use bytes::Bytes;
use core_backends::shard::{Item, ListStart, Listing, Query, Reply};
use core_flow::{CallResult, Step};

/// The most shards asked at once.
const SHARDS_AT_ONCE_MAX: usize = 16;
/// For each shard that has told all it has, so many are asked ahead: with small shards a page needs few rounds, and a
/// wrong guess costs few answers that nobody wants. With a delimiter one: a common prefix may reach over the next ones.
const AHEAD: usize = 3;

/// The first text behind all that begin so; `None` where there is none.
pub(crate) fn prefix_end(prefix: &[u8]) -> Option<Bytes> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return Some(end.into());
        }
    }
    None
}

/// A walk.
#[derive(Debug)]
pub(crate) struct Walk {
    pub versions: bool,
    pub prefix: Bytes,
    pub delimiter: Bytes,
    /// Behind what the next item is.
    start: ListStart,
    /// No key below it is left.
    bound: Bytes,
    end: Option<Bytes>,
    /// Items that are enough.
    wanted: usize,
    pub items: Vec<Item>,
    /// Those asked now, each with the end of its range.
    asked: Vec<(u64, Option<Bytes>)>,
    /// Shards that have told all they have.
    shards_done: usize,
    pub level: Option<Level>,
    /// Where the last shard that told something stood, and which it was.
    pub at: Option<(OrderedAt, u64)>,
}

impl Walk {
    pub(crate) fn new(
        versions: bool,
        prefix: &str,
        delimiter: &str,
        start: ListStart,
        wanted: usize,
    ) -> Result<Walk, Refusal> {
        for text in [prefix, delimiter] {
            if text.len() > KEY_BYTES_MAX {
                let message =
                    format!("a prefix or delimiter of {} bytes; at most {KEY_BYTES_MAX} are taken", text.len());
                return Err(S3ErrorCode::KeyTooLongError.because(message));
            }
        }
        let prefix = Bytes::copy_from_slice(prefix.as_bytes());
        let mut walk = Walk {
            versions,
            bound: prefix.clone(),
            end: prefix_end(&prefix),
            delimiter: Bytes::copy_from_slice(delimiter.as_bytes()),
            prefix,
            start: ListStart::Beginning,
            wanted,
            items: Vec::new(),
            asked: Vec::new(),
            shards_done: 0,
            level: None,
            at: None,
        };
        walk.continue_after(start);
        Ok(walk)
    }

    /// Nothing up to there is left.
    fn continue_after(&mut self, start: ListStart) {
        match &start {
            ListStart::Beginning => {}
            ListStart::After { key } | ListStart::AfterVersion { key, .. } => {
                self.bound = self.bound.clone().max(key.clone());
            }
            ListStart::AfterPrefix { prefix } => match prefix_end(prefix) {
                Some(behind) => self.bound = self.bound.clone().max(behind),
                None => self.end = Some(self.bound.clone()),
            },
        }
        self.start = start;
    }

    /// Whether there are items enough, or no more of them.
    pub(crate) fn is_done(&self) -> bool {
        self.items.len() >= self.wanted || self.end.as_ref().is_some_and(|end| self.bound >= *end)
    }

    /// Asks the next shards.
    pub(crate) fn ask(&mut self, at: &Place, terms: &Terms, pin: Option<u128>) -> Result<Step, Refusal> {
        let left = self.wanted.saturating_sub(self.items.len());
        // As many as would do if they were like those before, the fewer the less is known of them.
        let ahead = if self.delimiter.is_empty() { AHEAD } else { 1 };
        let likely = (left * self.shards_done).div_ceil(self.items.len().max(1)).max(1);
        let count = likely.min((ahead * self.shards_done).max(1)).min(SHARDS_AT_ONCE_MAX);
        let first = at.map.place_of(&self.bound);
        let before_end = |start: &Bytes| self.end.as_ref().is_none_or(|end| start < end);
        let entries = at.map.entries.iter().skip(first).take(count).filter(|entry| before_end(&entry.range.start));
        let mut calls = Vec::with_capacity(count);
        let mut asked = Vec::with_capacity(count);
        for entry in entries {
            let listing = Listing {
                epoch: entry.epoch,
                prefix: self.prefix.clone(),
                delimiter: self.delimiter.clone(),
                start: self.start.clone(),
                limit: u32::try_from(left).unwrap_or(u32::MAX),
                pin,
            };
            let query = if self.versions { Query::ListVersions { listing } } else { Query::List { listing } };
            calls.push(shard_read(at.bucket.id, entry.shard, &query, terms)?);
            asked.push((entry.shard, entry.range.end.clone()));
        }
        if calls.is_empty() {
            return Err(S3ErrorCode::InternalError.because("the bucket's map has no shard for a part of its keys"));
        }
        self.asked = asked;
        Ok(Step::Calls(calls))
    }

    /// Takes in what the shards told, as far as it is of use.
    pub(crate) fn take(&mut self, answers: Vec<CallResult>) -> Result<(), Trouble> {
        for ((shard, end), result) in core::mem::take(&mut self.asked).into_iter().zip(answers) {
            if self.is_done() {
                break;
            }
            let level = level_of(&result);
            let (items, more) = match reply::<Reply>(result) {
                Ok((Reply::Page { items, more }, at)) => {
                    (self.level, self.at) = (level, Some((at, shard)));
                    (items, more)
                }
                Ok(_) => return Err(other_reply().into()),
                Err(failure) => return Err(read_trouble(failure)),
            };
            if more && items.is_empty() {
                return Err(S3ErrorCode::InternalError
                    .because("a shard returned an empty page and says that more follows")
                    .into());
            }
            self.add(items);
            if more && !planted(Mutant::PageGoesOn) {
                break; // The page ended by its bytes, or is full: the same shard continues.
            }
            self.shards_done += 1;
            match end {
                Some(end) => self.bound = self.bound.clone().max(end),
                None => self.end = Some(self.bound.clone()),
            }
        }
        Ok(())
    }

    fn add(&mut self, items: Vec<Item>) {
        for item in items {
            // A common prefix that began in the shard before.
            let repeated = matches!((&item, self.items.last()), (Item::Prefix { prefix }, Some(Item::Prefix { prefix: last })) if prefix == last);
            if !repeated {
                self.items.push(item);
            }
        }
        if let Some(behind) = self.items.last().map(behind) {
            self.continue_after(behind);
        }
    }
}

/// Where a walk continues after an item.
fn behind(item: &Item) -> ListStart {
    match item {
        Item::Object { key, .. } => ListStart::After { key: key.clone() },
        Item::Version { key, stamp, .. } => {
            ListStart::AfterVersion { key: key.clone(), version: Version::Stamp(*stamp) }
        }
        Item::Prefix { prefix } => ListStart::AfterPrefix { prefix: prefix.clone() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behind_a_prefix_is_the_next_text() {
        assert_eq!(prefix_end(b"a/"), Some(Bytes::from_static(b"a0")));
        assert_eq!(prefix_end(b"a\xff\xff"), Some(Bytes::from_static(b"b")));
        assert_eq!((prefix_end(b""), prefix_end(b"\xff")), (None, None));
    }
}
