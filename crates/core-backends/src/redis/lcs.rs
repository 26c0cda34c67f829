//! LCS: the longest common subsequence of two strings.
//!
//! By design: the table has a cell for each pair of bytes, [`CELLS_MAX`] at most; longer strings are refused.

use super::numbers::parse_integer;
use super::store::{Kind, View};
use super::{fail, integer, Done, Reply, SYNTAX};
use bytes::Bytes;

/// The most cells.
const CELLS_MAX: usize = 16 << 20;

#[derive(Default)]
struct Options {
    length: bool,
    places: bool,
    least: usize,
    lengths: bool,
}

fn options(words: &[Bytes]) -> Result<Options, super::Fail> {
    let (mut options, mut words) = (Options::default(), words.iter());
    while let Some(word) = words.next() {
        match &word.to_ascii_uppercase()[..] {
            b"LEN" => options.length = true,
            b"IDX" => options.places = true,
            b"WITHMATCHLEN" => options.lengths = true,
            b"MINMATCHLEN" => {
                let Some(least) = words.next() else { return fail(SYNTAX) };
                options.least = usize::try_from(parse_integer(least)?).unwrap_or(0);
            }
            _ => return fail(SYNTAX),
        }
    }
    if options.length && options.places {
        return fail("ERR If you want both the length and indexes, please just use IDX.");
    }
    Ok(options)
}

pub(super) fn lcs(view: &View<'_>, argv: &[Bytes]) -> Done {
    let options = options(&argv[3..])?;
    let mut values = Vec::with_capacity(2);
    for key in &argv[1..3] {
        match view.find(key)? {
            Some(meta) if meta.kind != Kind::String => {
                return fail("ERR The specified keys must contain string values")
            }
            Some(meta) => values.push(meta.value),
            None => values.push(Bytes::new()),
        }
    }
    let (a, b) = (&values[0], &values[1]);
    if (a.len() + 1).saturating_mul(b.len() + 1) > CELLS_MAX {
        return fail("ERR String too long for LCS");
    }
    let width = b.len() + 1;
    let mut table = vec![0u32; (a.len() + 1) * width];
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            table[i * width + j] = if a[i - 1] == b[j - 1] {
                table[(i - 1) * width + j - 1] + 1
            } else {
                table[(i - 1) * width + j].max(table[i * width + j - 1])
            };
        }
    }
    let length = table[a.len() * width + b.len()] as usize;
    if options.length {
        return Ok(integer(length));
    }
    let (text, runs) = walk_back(a, b, &table, length);
    if !options.places {
        return Ok(Reply::Bulk(text.into()));
    }
    let range = |from: usize, to: usize| Reply::Array(vec![integer(from), integer(to)]);
    let shown = runs.into_iter().filter(|run| run.2 >= options.least.max(1)).map(|(i, j, count)| {
        let mut items = vec![range(i, i + count - 1), range(j, j + count - 1)];
        items.extend(options.lengths.then(|| integer(count)));
        Reply::Array(items)
    });
    let word = |text: &'static str| Reply::Bulk(Bytes::from_static(text.as_bytes()));
    Ok(Reply::Map(vec![(word("matches"), Reply::Array(shown.collect())), (word("len"), integer(length))]))
}

/// The subsequence, and where it lies in both: starts and lengths, the last first.
fn walk_back(a: &[u8], b: &[u8], table: &[u32], length: usize) -> (Vec<u8>, Vec<(usize, usize, usize)>) {
    let width = b.len() + 1;
    let (mut text, mut runs) = (vec![0; length], Vec::<(usize, usize, usize)>::new());
    let (mut i, mut j, mut at) = (a.len(), b.len(), length);
    while at > 0 {
        if a[i - 1] == b[j - 1] {
            at -= 1;
            text[at] = a[i - 1];
            match runs.last_mut() {
                Some((x, y, count)) if *x == i && *y == j => (*x, *y, *count) = (i - 1, j - 1, *count + 1),
                _ => runs.push((i - 1, j - 1, 1)),
            }
            i -= 1;
            j -= 1;
        } else if table[(i - 1) * width + j] > table[i * width + j - 1] {
            i -= 1;
        } else {
            j -= 1;
        }
    }
    (text, runs)
}
