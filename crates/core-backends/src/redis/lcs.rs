//! LCS: the longest text that two strings have in common, in this order but not in one piece.
//!
//! By design: it takes as many steps as the product of both lengths, so that is bounded by [`STEPS_MAX`]. Of each step one bit is kept, and
//! none where only the length is asked for.

use super::numbers::parse_integer;
use super::store::{Kind, View};
use super::{fail, Done, Fail, Reply, SYNTAX};
use bytes::Bytes;

/// Steps of one LCS at most; it keeps an eighth as many bytes.
const STEPS_MAX: usize = 1 << 24;
/// Steps that are as much work as looking at a row.
const STEPS_A_ROW: u64 = 64;

#[derive(Default)]
struct Options {
    length: bool,
    ranges: bool,
    range_lengths: bool,
    shortest: i64,
}

fn options(words: &[Bytes]) -> Result<Options, Fail> {
    let mut options = Options::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match &word.to_ascii_uppercase()[..] {
            b"LEN" => options.length = true,
            b"IDX" => options.ranges = true,
            b"WITHMATCHLEN" => options.range_lengths = true,
            b"MINMATCHLEN" => {
                let Some(length) = words.next() else { return fail(SYNTAX) };
                options.shortest = parse_integer(length)?;
            }
            _ => return fail(SYNTAX),
        }
    }
    if options.length && options.ranges {
        return fail("ERR If you want both the length and indexes, please just use IDX.");
    }
    Ok(options)
}

fn text_of(view: &View<'_>, key: &[u8]) -> Result<Bytes, Fail> {
    match view.find(key)? {
        None => Ok(Bytes::new()),
        Some(meta) if meta.kind == Kind::String => Ok(meta.value),
        Some(_) => fail("ERR The specified keys must contain string values"),
    }
}

pub(super) fn lcs(view: &View<'_>, argv: &[Bytes]) -> Done {
    let (one, other) = (text_of(view, &argv[1])?, text_of(view, &argv[2])?);
    let options = options(&argv[3..])?;
    if one.len().saturating_mul(other.len()) > STEPS_MAX {
        return fail(format!(
            "ERR strings of {} and {} bytes are too long for LCS: the product of both lengths is at most {STEPS_MAX}",
            one.len(),
            other.len()
        ));
    }
    view.moment.work.add((one.len() * other.len()) as u64 / STEPS_A_ROW);
    if options.length {
        return Ok(Reply::Integer(compare(&one, &other, &mut |_, _| ()).into()));
    }
    let common = common(&one, &other);
    if options.ranges {
        return Ok(ranges_reply(&common, &options));
    }
    Ok(Reply::Bulk(common.iter().filter_map(|(at, _)| one.get(*at).copied()).collect()))
}

/// The length in common. `turn` is called with the place of each pair of bytes that differ, and whether to look for the rest of the common
/// text before it in the first string (else in the second).
fn compare(one: &[u8], other: &[u8], turn: &mut dyn FnMut(usize, bool)) -> u32 {
    // How much the first string, up to the byte above and up to this one, has in common with each start of the second.
    let mut above = vec![0u32; other.len()];
    for (row, byte) in one.iter().enumerate() {
        let (mut before, mut corner) = (0, 0);
        for (column, (wanted, cell)) in other.iter().zip(&mut above).enumerate() {
            let up = *cell;
            if byte == wanted {
                *cell = corner + 1;
            } else {
                turn(row * other.len() + column, up > before);
                *cell = up.max(before);
            }
            (corner, before) = (up, *cell);
        }
    }
    above.last().copied().unwrap_or(0)
}

/// The places of the common bytes in both strings, from first to last.
fn common(one: &[u8], other: &[u8]) -> Vec<(usize, usize)> {
    let mut turns = vec![0u64; (one.len() * other.len()).div_ceil(64)];
    let length = compare(one, other, &mut |cell, first| {
        if let Some(word) = turns.get_mut(cell / 64) {
            *word |= u64::from(first) << (cell % 64);
        }
    });
    let mut found = Vec::with_capacity(length as usize);
    let (mut row, mut column) = (one.len(), other.len());
    while row > 0 && column > 0 {
        if one.get(row - 1) == other.get(column - 1) {
            (row, column) = (row - 1, column - 1);
            found.push((row, column));
            continue;
        }
        let cell = (row - 1) * other.len() + column - 1;
        match turns.get(cell / 64).is_some_and(|word| word >> (cell % 64) & 1 == 1) {
            true => row -= 1,
            false => column -= 1,
        }
    }
    found.reverse();
    found
}

/// Pieces that lie together in both strings, the last first, as Redis gives them.
fn ranges_reply(common: &[(usize, usize)], options: &Options) -> Reply {
    let together = |a: &(usize, usize), b: &(usize, usize)| a.0 + 1 == b.0 && a.1 + 1 == b.1;
    let mut told = Vec::new();
    for piece in common.chunk_by(together).rev() {
        let (Some(first), Some(last)) = (piece.first(), piece.last()) else { continue };
        let length = piece.len() as i64;
        if length < options.shortest {
            continue;
        }
        let range = |from: usize, to: usize| Reply::Array(vec![Reply::Integer(from as i64), Reply::Integer(to as i64)]);
        let mut parts = vec![range(first.0, last.0), range(first.1, last.1)];
        if options.range_lengths {
            parts.push(Reply::Integer(length));
        }
        told.push(Reply::Array(parts));
    }
    let name = |text: &'static str| Reply::Bulk(Bytes::from_static(text.as_bytes()));
    Reply::Map(vec![(name("matches"), Reply::Array(told)), (name("len"), Reply::Integer(common.len() as i64))])
}
