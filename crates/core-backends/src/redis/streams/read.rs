//! XRANGE, XREVRANGE and XREAD, and what XREAD and XREADGROUP have in common.
//!
//! By design: XREAD gives as many entries as a reply takes, as if COUNT had said so: who reads on from the last one misses none. BLOCK is
//! checked and otherwise for the door, which retries when a key has changed.

use super::super::numbers::{integer_of, parse_integer};
use super::super::store::View;
use super::super::{fail, Done, Fail, Reply, SYNTAX};
use super::entries::{entry_reply, too_large, Room};
use super::ids::{parse_end, parse_start, parse_strict, Id};
use super::rows::Stream;
use base_engine::Direction;
use bytes::Bytes;

pub(super) fn xrange(view: &View<'_>, argv: &[Bytes]) -> Done {
    range(view, argv, Direction::Forward)
}

pub(super) fn xrevrange(view: &View<'_>, argv: &[Bytes]) -> Done {
    range(view, argv, Direction::Backward)
}

fn range(view: &View<'_>, argv: &[Bytes], direction: Direction) -> Done {
    let (from, to) = if direction == Direction::Forward { (&argv[2], &argv[3]) } else { (&argv[3], &argv[2]) };
    let interval = (parse_start(from)?, parse_end(to)?);
    let mut wanted = None;
    for pair in argv[4..].chunks(2) {
        match pair {
            [word, count] if word.eq_ignore_ascii_case(b"COUNT") => {
                wanted = Some(u64::try_from(parse_integer(count)?).unwrap_or(0));
            }
            _ => return fail(SYNTAX),
        }
    }
    let Some(stream) = Stream::find(view, &argv[1])? else { return Ok(Reply::Array(Vec::new())) };
    if wanted == Some(0) {
        return Ok(Reply::NilArray);
    }
    let found = stream.entries(view.space, interval, direction, wanted.unwrap_or(u64::MAX), &mut Room::new())?;
    if found.more {
        return too_large();
    }
    Ok(Reply::Array(found.entries.into_iter().map(entry_reply).collect()))
}

/// XREAD's words, and XREADGROUP's.
pub(super) struct Asked<'w> {
    pub group: Option<(&'w Bytes, &'w Bytes)>,
    /// `u64::MAX`: all.
    pub count: u64,
    pub no_ack: bool,
    /// Keys, and the word that says from where on.
    pub streams: Vec<(&'w Bytes, &'w Bytes)>,
}

pub(super) fn asked<'w>(argv: &'w [Bytes], for_group: bool) -> Result<Asked<'w>, Fail> {
    let mut asked = Asked { group: None, count: u64::MAX, no_ack: false, streams: Vec::new() };
    let mut at = 1;
    let mut listed = false;
    while let (Some(word), false) = (argv.get(at), listed) {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        let rest = argv.get(at + 1..).unwrap_or_default();
        at += match rest {
            [timeout, ..] if is("BLOCK") => check_timeout(timeout).map(|()| 2)?,
            [count, ..] if is("COUNT") => {
                // Zero and below: all.
                asked.count = u64::try_from(parse_integer(count)?).ok().filter(|count| *count > 0).unwrap_or(u64::MAX);
                2
            }
            [_, ..] if is("STREAMS") => {
                asked.streams = listed_streams(rest)?;
                listed = true;
                1
            }
            [group, consumer, ..] if is("GROUP") => {
                only_for_group("GROUP", for_group)?;
                asked.group = Some((group, consumer));
                3
            }
            _ if is("NOACK") => {
                only_for_group("NOACK", for_group)?;
                asked.no_ack = true;
                1
            }
            _ => return fail(SYNTAX),
        };
    }
    if !listed {
        return fail(SYNTAX);
    }
    if for_group && asked.group.is_none() {
        return fail("ERR Missing GROUP option for XREADGROUP");
    }
    Ok(asked)
}

fn only_for_group(option: &str, for_group: bool) -> Result<(), Fail> {
    if for_group {
        return Ok(());
    }
    fail(format!("ERR The {option} option is only supported by XREADGROUP. You called XREAD instead."))
}

fn listed_streams(words: &[Bytes]) -> Result<Vec<(&Bytes, &Bytes)>, Fail> {
    if !words.len().is_multiple_of(2) {
        return fail("ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.");
    }
    let (keys, ids) = words.split_at(words.len() / 2);
    Ok(keys.iter().zip(ids).collect())
}

fn check_timeout(word: &[u8]) -> Result<(), Fail> {
    match integer_of(word) {
        None => fail("ERR timeout is not an integer or out of range"),
        Some(timeout) if timeout < 0 => fail("ERR timeout is negative"),
        Some(_) => Ok(()),
    }
}

pub(super) fn xread(view: &View<'_>, argv: &[Bytes]) -> Done {
    let asked = asked(argv, false)?;
    let mut wanted = Vec::with_capacity(asked.streams.len());
    for (key, from) in &asked.streams {
        let stream = Stream::find(view, key)?;
        let after = match &from[..] {
            b"$" => stream.as_ref().map_or(Id::MIN, |stream| stream.last),
            b">" => return fail(
                "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.",
            ),
            id => parse_strict(id, 0)?,
        };
        wanted.push((*key, stream, after));
    }
    let (mut replies, mut room) = (Vec::new(), Room::new());
    for (key, stream, after) in wanted {
        let (Some(stream), Some(first)) = (stream, after.next()) else { continue };
        let interval = (first, Id::MAX);
        let found = stream.entries(view.space, interval, Direction::Forward, asked.count, &mut room)?;
        if !found.entries.is_empty() {
            let entries = found.entries.into_iter().map(entry_reply).collect();
            replies.push((Reply::Bulk(key.clone()), Reply::Array(entries)));
        }
    }
    Ok(if replies.is_empty() { Reply::NilArray } else { Reply::Streams(replies) })
}
