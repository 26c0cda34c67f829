//! Ranges of sorted sets: by rank, by score, by name.

use super::super::numbers::{clip, float_of, from_sortable, parse_integer, sortable};
use super::super::store::{check_name, Kind, Meta, Store, View, ORDER_AT};
use super::super::{fail, integer, Done, Fail, Reply, REPLY_BYTES_MAX, REPLY_ELEMENTS_MAX, SYNTAX};
use super::{put_whole, remove_all, reply_of, score_of};
use crate::contract::SpaceRead;
use crate::rows::{prefix_end, successor};
use base_engine::{Direction, EngineError, KeyRange};
use bytes::Bytes;
use std::ops::ControlFlow;

const MIN_OR_MAX: &str = "ERR min or max is not a float";
const NOT_A_NAME: &str = "ERR min or max not valid string range item";

/// What a range is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum By {
    #[default]
    Rank,
    Score,
    Name,
}

/// A range, as its words say it, the lower bound first.
enum Span {
    Ranks(i64, i64),
    /// The first score inside, and the first behind.
    Scores(u64, u64),
    Names(Name, Name),
}

/// A bound of names.
enum Name {
    First,
    Last,
    Included(Bytes),
    Excluded(Bytes),
}

impl Name {
    fn parse(word: &Bytes) -> Result<Name, Fail> {
        match word.split_first() {
            Some((b'-', [])) => Ok(Name::First),
            Some((b'+', [])) => Ok(Name::Last),
            Some((b'[', _)) => Ok(Name::Included(word.slice(1..))),
            Some((b'(', _)) => Ok(Name::Excluded(word.slice(1..))),
            _ => fail(NOT_A_NAME),
        }
    }
}

/// `(1.5` excludes, `1.5` includes. As the first sortable score inside (low) or behind (high).
fn score_bound(text: &[u8], low: bool) -> Result<u64, Fail> {
    let (excluded, number) = match text {
        [b'(', number @ ..] => (true, number),
        number => (false, number),
    };
    let Some(score) = float_of(number) else { return fail(MIN_OR_MAX) };
    // No sortable score is u64::MAX: that would be a NaN.
    Ok(sortable(score) + u64::from(excluded == low))
}

fn span(by: By, low: &Bytes, high: &Bytes) -> Result<Span, Fail> {
    Ok(match by {
        By::Rank => Span::Ranks(parse_integer(low)?, parse_integer(high)?),
        By::Score => Span::Scores(score_bound(low, true)?, score_bound(high, false)?),
        By::Name => Span::Names(Name::parse(low)?, Name::parse(high)?),
    })
}

/// Rows from one to before another, in the order of scores and names.
struct Rows {
    start: Bytes,
    end: Option<Bytes>,
}

impl Rows {
    fn all(meta: &Meta) -> Rows {
        let start = meta.order(0, &[]);
        let end = prefix_end(&start[..ORDER_AT - 8]).map(Bytes::from);
        Rows { start, end }
    }

    fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }

    /// By score or name; `None`: it has none.
    fn of(space: &dyn SpaceRead, meta: &Meta, span: &Span) -> Result<Option<Rows>, EngineError> {
        let rows = match span {
            Span::Ranks(..) => Rows::all(meta),
            Span::Scores(from, to) => Rows { start: meta.order(*from, &[]), end: Some(meta.order(*to, &[])) },
            Span::Names(low, high) => {
                // Names are compared among members of one score, as Redis requires it: that of the first.
                let Some(score) = first_score(space, meta)? else { return Ok(None) };
                let start = match low {
                    Name::First => meta.order(score, &[]),
                    Name::Last => return Ok(None),
                    Name::Included(name) => meta.order(score, name),
                    Name::Excluded(name) => successor(&meta.order(score, name)).into(),
                };
                let end = match high {
                    Name::First => return Ok(None),
                    Name::Last => prefix_end(&meta.order(score, &[])).map(Bytes::from),
                    Name::Included(name) => Some(successor(&meta.order(score, name)).into()),
                    Name::Excluded(name) => Some(meta.order(score, name)),
                };
                Rows { start, end }
            }
        };
        Ok((!rows.is_empty()).then_some(rows))
    }

    fn visit(
        &self,
        space: &dyn SpaceRead,
        reverse: bool,
        mut each: impl FnMut(&[u8], f64) -> ControlFlow<()>,
    ) -> Result<(), EngineError> {
        let direction = if reverse { Direction::Backward } else { Direction::Forward };
        let range = KeyRange { start: &self.start, end: self.end.as_deref() };
        space.range(range, direction, &mut |row, _| {
            let score = row.get(ORDER_AT - 8..ORDER_AT).and_then(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes);
            each(row.get(ORDER_AT..).unwrap_or_default(), from_sortable(score.unwrap_or_default()))
        })
    }

    fn count(&self, space: &dyn SpaceRead) -> Result<usize, EngineError> {
        let mut count = 0;
        self.visit(space, false, |_, _| {
            count += 1;
            ControlFlow::Continue(())
        })?;
        Ok(count)
    }

    /// Up to `count` after `skip`; too many for a reply are an error.
    fn take(&self, space: &dyn SpaceRead, reverse: bool, skip: u64, count: u64) -> Result<Vec<(Bytes, f64)>, Fail> {
        let (mut found, mut bytes, mut skip, mut over) = (Vec::new(), 0, skip, false);
        if count == 0 {
            return Ok(found);
        }
        self.visit(space, reverse, |member, score| {
            if skip > 0 {
                skip -= 1;
                return ControlFlow::Continue(());
            }
            bytes += member.len();
            over = found.len() >= REPLY_ELEMENTS_MAX || bytes > REPLY_BYTES_MAX;
            if over {
                return ControlFlow::Break(());
            }
            found.push((Bytes::copy_from_slice(member), score));
            if found.len() as u64 == count {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        if over {
            return fail(format!(
                "ERR reply is larger than {REPLY_ELEMENTS_MAX} elements or {REPLY_BYTES_MAX} bytes; read it in parts"
            ));
        }
        Ok(found)
    }
}

fn first_score(space: &dyn SpaceRead, meta: &Meta) -> Result<Option<u64>, EngineError> {
    let mut score = None;
    Rows::all(meta).visit(space, false, |_, found| {
        score = Some(sortable(found));
        ControlFlow::Break(())
    })?;
    Ok(score)
}

/// The members of a range in its order.
fn select(
    space: &dyn SpaceRead,
    meta: &Meta,
    span: &Span,
    reverse: bool,
    limit: Option<(i64, i64)>,
) -> Result<Vec<(Bytes, f64)>, Fail> {
    if let Span::Ranks(start, stop) = span {
        let Some((first, last)) = clip(*start, *stop, meta.count) else { return Ok(Vec::new()) };
        let (rows, behind, wanted) = (Rows::all(meta), meta.count - 1 - last, last - first + 1);
        // Walk from the nearer end; ranks before the range are passed over one by one.
        if first <= behind {
            return rows.take(space, reverse, first, wanted);
        }
        let mut found = rows.take(space, !reverse, behind, wanted)?;
        found.reverse();
        return Ok(found);
    }
    let (offset, count) = limit.unwrap_or((0, -1));
    let Ok(offset) = u64::try_from(offset) else { return Ok(Vec::new()) };
    // A negative count: all of them.
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    match Rows::of(space, meta, span)? {
        Some(rows) => rows.take(space, reverse, offset, count),
        None => Ok(Vec::new()),
    }
}

/// What ZRANGE and its like were asked for.
#[derive(Default)]
struct Asked {
    by: By,
    reverse: bool,
    scores: bool,
    limit: Option<(i64, i64)>,
}

/// Which of the words a command of this family knows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    /// ZRANGE and ZRANGESTORE: BYSCORE, BYLEX, REV.
    New,
    /// ZREVRANGE, ZRANGEBYSCORE …: what they are is in their names.
    Old,
}

fn asked(words: &[Bytes], family: Family, mut asked: Asked) -> Result<Asked, Fail> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match (&word.to_ascii_uppercase()[..], family) {
            (b"BYSCORE", Family::New) => asked.by = By::Score,
            (b"BYLEX", Family::New) => asked.by = By::Name,
            (b"REV", Family::New) => asked.reverse = true,
            (b"WITHSCORES", _) => asked.scores = true,
            (b"LIMIT", _) => match (words.next(), words.next()) {
                (Some(offset), Some(count)) => asked.limit = Some((parse_integer(offset)?, parse_integer(count)?)),
                _ => return fail(SYNTAX),
            },
            _ => return fail(SYNTAX),
        }
    }
    if asked.limit.is_some() && asked.by == By::Rank {
        return fail("ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX");
    }
    if asked.scores && asked.by == By::Name {
        return fail("ERR syntax error, WITHSCORES not supported in combination with BYLEX");
    }
    Ok(asked)
}

/// The bounds of a range; where it goes backwards, scores and names have the upper one first.
fn bounds(asked: &Asked, first: &Bytes, second: &Bytes) -> Result<Span, Fail> {
    if asked.reverse && asked.by != By::Rank {
        span(asked.by, second, first)
    } else {
        span(asked.by, first, second)
    }
}

fn answer(view: &View<'_>, argv: &[Bytes], asked: &Asked) -> Done {
    let span = bounds(asked, &argv[2], &argv[3])?;
    let Some(meta) = view.find_kind(&argv[1], Kind::Sorted)? else { return Ok(reply_of(Vec::new(), asked.scores)) };
    Ok(reply_of(select(view.space, &meta, &span, asked.reverse, asked.limit)?, asked.scores))
}

pub(in super::super) fn zrange(view: &View<'_>, argv: &[Bytes]) -> Done {
    answer(view, argv, &asked(&argv[4..], Family::New, Asked::default())?)
}

pub(in super::super) fn zrevrange(view: &View<'_>, argv: &[Bytes]) -> Done {
    let asked = asked(&argv[4..], Family::Old, Asked { reverse: true, ..Asked::default() })?;
    answer(view, argv, &asked)
}

pub(in super::super) fn zrangebyscore(view: &View<'_>, argv: &[Bytes]) -> Done {
    answer(view, argv, &asked(&argv[4..], Family::Old, Asked { by: By::Score, ..Asked::default() })?)
}

pub(in super::super) fn zrevrangebyscore(view: &View<'_>, argv: &[Bytes]) -> Done {
    let by = Asked { by: By::Score, reverse: true, ..Asked::default() };
    answer(view, argv, &asked(&argv[4..], Family::Old, by)?)
}

pub(in super::super) fn zrangebylex(view: &View<'_>, argv: &[Bytes]) -> Done {
    answer(view, argv, &asked(&argv[4..], Family::Old, Asked { by: By::Name, ..Asked::default() })?)
}

pub(in super::super) fn zrevrangebylex(view: &View<'_>, argv: &[Bytes]) -> Done {
    let by = Asked { by: By::Name, reverse: true, ..Asked::default() };
    answer(view, argv, &asked(&argv[4..], Family::Old, by)?)
}

pub(in super::super) fn zrangestore(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    check_name("key", &argv[1])?;
    let asked = asked(&argv[5..], Family::New, Asked::default())?;
    if asked.scores {
        return fail(SYNTAX);
    }
    let span = bounds(&asked, &argv[3], &argv[4])?;
    let found = match store.find_kind(&argv[2], Kind::Sorted)? {
        Some(meta) => select(&*store.space, &meta, &span, asked.reverse, asked.limit)?,
        None => Vec::new(),
    };
    put_whole(store, &argv[1], &found)
}

fn count(view: &View<'_>, argv: &[Bytes], by: By) -> Done {
    let span = span(by, &argv[2], &argv[3])?;
    let Some(meta) = view.find_kind(&argv[1], Kind::Sorted)? else { return Ok(integer(0)) };
    match Rows::of(view.space, &meta, &span)? {
        Some(rows) => Ok(integer(rows.count(view.space)?)),
        None => Ok(integer(0)),
    }
}

pub(in super::super) fn zcount(view: &View<'_>, argv: &[Bytes]) -> Done {
    count(view, argv, By::Score)
}

pub(in super::super) fn zlexcount(view: &View<'_>, argv: &[Bytes]) -> Done {
    count(view, argv, By::Name)
}

fn rank(view: &View<'_>, argv: &[Bytes], reverse: bool) -> Done {
    let Some(meta) = view.find_kind(&argv[1], Kind::Sorted)? else { return Ok(Reply::Nil) };
    let Some(row) = view.space.get(&meta.field(&argv[2]))? else { return Ok(Reply::Nil) };
    let end = meta.order(sortable(score_of(&row)?), &argv[2]);
    let before = Rows { end: Some(end), ..Rows::all(&meta) };
    let before = if before.is_empty() { 0 } else { before.count(view.space)? as u64 };
    Ok(Reply::Integer(if reverse { meta.count - 1 - before } else { before } as i64))
}

pub(in super::super) fn zrank(view: &View<'_>, argv: &[Bytes]) -> Done {
    rank(view, argv, false)
}

pub(in super::super) fn zrevrank(view: &View<'_>, argv: &[Bytes]) -> Done {
    rank(view, argv, true)
}

fn remove_range(store: &mut Store<'_>, argv: &[Bytes], by: By) -> Done {
    let span = span(by, &argv[2], &argv[3])?;
    let Some(mut meta) = store.find_kind(&argv[1], Kind::Sorted)? else { return Ok(integer(0)) };
    let found = select(&*store.space, &meta, &span, false, None)?;
    remove_all(store, &argv[1], &mut meta, &found);
    Ok(integer(found.len()))
}

pub(in super::super) fn zremrangebyrank(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    remove_range(store, argv, By::Rank)
}

pub(in super::super) fn zremrangebyscore(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    remove_range(store, argv, By::Score)
}

pub(in super::super) fn zremrangebylex(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    remove_range(store, argv, By::Name)
}

/// The first or last members of a set.
pub(super) fn ends(store: &Store<'_>, meta: &Meta, last: bool, count: u64) -> Result<Vec<(Bytes, f64)>, Fail> {
    Rows::all(meta).take(&*store.space, last, 0, count.min(REPLY_ELEMENTS_MAX as u64))
}

/// Visits members with scores from one to before another, in their order.
pub(in super::super) fn between(
    space: &dyn SpaceRead,
    meta: &Meta,
    from: f64,
    before: f64,
    each: impl FnMut(&[u8], f64) -> ControlFlow<()>,
) -> Result<(), EngineError> {
    match Rows::of(space, meta, &Span::Scores(sortable(from), sortable(before)))? {
        Some(rows) => rows.visit(space, false, each),
        None => Ok(()),
    }
}
