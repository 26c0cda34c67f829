//! Which entries a stream loses to MAXLEN and MINID.
//!
//! By design: `~` removes whole blocks of [`BLOCK_ENTRIES`], counted from the first entry there ever was, as Redis does with its
//! nodes of 100 entries; so what is left after XADD with `MAXLEN ~` is as much as there. Deletes within a block do not move its end.

use super::super::numbers::parse_integer;
use super::super::store::Store;
use super::super::{fail, Fail, SYNTAX};
use super::ids::{parse_strict, Id};
use super::rows::Stream;
use crate::contract::SpaceRead;
use base_engine::EngineError;
use bytes::Bytes;

/// Entries that `~` removes or keeps together.
pub(super) const BLOCK_ENTRIES: u64 = 100;
/// Entries that `~` removes at most where no LIMIT is given.
const LIMIT_DEFAULT: u64 = 100 * BLOCK_ENTRIES;
/// Entries that one command removes at most.
const TRIM_ENTRIES_MAX: u64 = 100_000;
/// Entries that are looked at together.
const PAGE_ENTRIES: usize = 512;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Keep {
    /// This many, the last ones.
    Last(u64),
    /// Those from an id on.
    From(Id),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Trim {
    keep: Keep,
    /// `~`, and how many entries it removes at most.
    blocks: Option<u64>,
}

#[derive(Default)]
pub(super) struct Options {
    pub no_new: bool,
    pub trim: Option<Trim>,
}

/// The options of XADD and XTRIM, and which word follows them.
pub(super) fn options(argv: &[Bytes], xadd: bool) -> Result<(Options, usize), Fail> {
    let (mut no_new, mut keep, mut limit, mut roughly) = (false, None, None, false);
    let mut at = 2;
    while let Some(word) = argv.get(at) {
        let value = argv.get(at + 1);
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        match value {
            Some(value) if is("MAXLEN") || is("MINID") => {
                if keep.is_some() {
                    return fail("ERR syntax error, MAXLEN and MINID options at the same time are not compatible");
                }
                let marked = matches!(&value[..], b"~" | b"=") && argv.len() > at + 2;
                roughly = marked && &value[..] == b"~";
                at += 1 + usize::from(marked);
                keep = Some(parse_keep(is("MAXLEN"), argv.get(at).unwrap_or(value))?);
            }
            Some(value) if is("LIMIT") => {
                let Ok(count) = u64::try_from(parse_integer(value)?) else {
                    return fail("ERR The LIMIT argument must be >= 0.");
                };
                limit = Some(count);
                at += 1;
            }
            _ if xadd && is("NOMKSTREAM") => no_new = true,
            _ if xadd => break,
            _ => return fail(SYNTAX),
        }
        at += 1;
    }
    // What stands here must be an id; Redis says so before anything else.
    if let (true, Some(word)) = (xadd, argv.get(at)) {
        super::ids::parse_new(word)?;
    }
    check(keep, limit, roughly, xadd)?;
    let blocks = roughly.then_some(match limit {
        None => LIMIT_DEFAULT,
        Some(0) => TRIM_ENTRIES_MAX,
        Some(limit) => limit.min(TRIM_ENTRIES_MAX),
    });
    Ok((Options { no_new, trim: keep.map(|keep| Trim { keep, blocks }) }, at))
}

fn parse_keep(by_length: bool, value: &[u8]) -> Result<Keep, Fail> {
    if !by_length {
        return Ok(Keep::From(parse_strict(value, 0)?));
    }
    match u64::try_from(parse_integer(value)?) {
        Ok(length) => Ok(Keep::Last(length)),
        Err(_) => fail("ERR The MAXLEN argument must be >= 0."),
    }
}

fn check(keep: Option<Keep>, limit: Option<u64>, roughly: bool, xadd: bool) -> Result<(), Fail> {
    if keep.is_none() && limit.is_some_and(|limit| limit > 0) {
        return fail("ERR syntax error, LIMIT cannot be used without specifying a trimming strategy");
    }
    if keep.is_none() && !xadd {
        return fail("ERR syntax error, XTRIM must be called with a trimming strategy");
    }
    if limit.is_some() && !roughly {
        return fail("ERR syntax error, LIMIT cannot be used without the special ~ option");
    }
    Ok(())
}

impl Trim {
    pub fn nothing() -> Trim {
        Trim { keep: Keep::From(Id::MIN), blocks: None }
    }

    /// Refuses to remove more than a command may; `more`: entries that are added before.
    pub fn check(&self, space: &dyn SpaceRead, stream: Option<&Stream>, more: u64) -> Result<(), Fail> {
        let Some(stream) = stream else { return Ok(()) };
        let length = stream.len() + more;
        if self.blocks.is_some() || length <= TRIM_ENTRIES_MAX {
            return Ok(());
        }
        let over = match self.keep {
            Keep::Last(kept) => length.saturating_sub(kept) > TRIM_ENTRIES_MAX,
            Keep::From(id) => {
                let first = stream.first_ids(space, TRIM_ENTRIES_MAX as usize + 1)?;
                first.get(TRIM_ENTRIES_MAX as usize).is_some_and(|last| *last < id)
            }
        };
        if over {
            return fail(format!(
                "ERR more than {TRIM_ENTRIES_MAX} entries would be removed; trim in parts (XTRIM with ~ and LIMIT)"
            ));
        }
        Ok(())
    }

    /// Returns how many it removed.
    pub fn carry_out(&self, store: &mut Store<'_>, stream: &mut Stream) -> Result<usize, EngineError> {
        match self.blocks {
            Some(limit) => self.by_blocks(limit, store, stream),
            None => self.one_by_one(store, stream),
        }
    }

    fn one_by_one(&self, store: &mut Store<'_>, stream: &mut Stream) -> Result<usize, EngineError> {
        let mut removed = 0;
        loop {
            let page = match self.keep {
                Keep::Last(kept) => stream.len().saturating_sub(kept).min(PAGE_ENTRIES as u64) as usize,
                Keep::From(_) => PAGE_ENTRIES,
            };
            let mut ids = stream.first_ids(&*store.space, page)?;
            if let Keep::From(first) = self.keep {
                ids.retain(|id| *id < first);
            }
            if ids.is_empty() {
                return Ok(removed);
            }
            removed += ids.len();
            ids.into_iter().for_each(|id| stream.delete_entry(store, id));
        }
    }

    fn by_blocks(&self, limit: u64, store: &mut Store<'_>, stream: &mut Stream) -> Result<usize, EngineError> {
        let mut removed = 0;
        loop {
            // The first block may have lost its beginning.
            let gone = stream.added.saturating_sub(stream.len()) % BLOCK_ENTRIES;
            let block = (BLOCK_ENTRIES - gone).min(stream.len());
            let kept = stream.len() - block;
            if block == 0 || removed + block > limit || matches!(self.keep, Keep::Last(wanted) if kept < wanted) {
                return Ok(removed as usize);
            }
            let ids = stream.first_ids(&*store.space, block as usize)?;
            if matches!(self.keep, Keep::From(first) if ids.last().is_none_or(|last| *last >= first)) {
                return Ok(removed as usize);
            }
            removed += block;
            ids.into_iter().for_each(|id| stream.delete_entry(store, id));
        }
    }
}
