//! SORT: the elements of a list, set or sorted set, by themselves or by values of other keys.
//!
//! By design: elements are compared byte by byte (no locale). One SORT reads [`ELEMENTS_MAX`] elements and [`BYTES_MAX`] bytes at most, and
//! gives as much as a reply takes.

use super::elements::NAME_AT;
use super::numbers::parse_integer;
use super::store::{Kind, Meta, Store, View, ORDER_AT};
use super::table::{read, write, Entry};
use super::{fail, integer, Done, Fail, Reply, REPLY_BYTES_MAX, REPLY_ELEMENTS_MAX, SYNTAX, WRONG_TYPE};
use crate::rows::prefix_end;
use base_engine::{Direction, KeyRange};
use bytes::Bytes;
use std::cmp::Ordering;
use std::ops::ControlFlow;

/// Elements that one SORT reads at most.
const ELEMENTS_MAX: u64 = 100_000;
/// Bytes of elements, and of the values they are sorted by, at most.
const BYTES_MAX: usize = 16 << 20;
/// The length of tag and sequence in an element's row.
pub(super) const ELEMENT_AT: usize = 9;

/// What this file answers.
pub(super) const COMMANDS: &[Entry] = &[write("sort", sort), read("sort_ro", sort_ro)];

#[derive(Default)]
struct Options {
    descending: bool,
    alphabetic: bool,
    /// Where to begin, and how many; negative: all.
    limit: Option<(i64, i64)>,
    by: Option<Bytes>,
    get: Vec<Bytes>,
    store: Option<Bytes>,
}

fn options(words: &[Bytes], may_store: bool) -> Result<Options, Fail> {
    let mut options = Options::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().cloned().map_or_else(|| fail(SYNTAX), Ok);
        match &word.to_ascii_uppercase()[..] {
            b"ASC" => options.descending = false,
            b"DESC" => options.descending = true,
            b"ALPHA" => options.alphabetic = true,
            b"LIMIT" => {
                let (start, count) = (value()?, value()?);
                options.limit = Some((parse_integer(&start)?, parse_integer(&count)?));
            }
            b"BY" => options.by = Some(value()?),
            b"GET" => options.get.push(value()?),
            b"STORE" if may_store => options.store = Some(value()?),
            _ => return fail(SYNTAX),
        }
    }
    Ok(options)
}

impl Options {
    /// A pattern without `*` is the same for all: the order stays.
    fn keeps_order(&self, kind: Kind) -> bool {
        let kept = self.by.as_ref().is_some_and(|pattern| !pattern.contains(&b'*'));
        // What is stored must have an order; a set has none.
        kept && !(kind == Kind::Set && self.store.is_some())
    }

    /// Where the wanted elements begin among all, and how many they are.
    fn wanted(&self, count: u64) -> (u64, u64) {
        let Some((start, most)) = self.limit else { return (0, count) };
        let start = u64::try_from(start).unwrap_or(0).min(count);
        (start, u64::try_from(most).unwrap_or(count).min(count - start))
    }
}

fn sort_ro(view: &View<'_>, argv: &[Bytes]) -> Done {
    let options = options(&argv[2..], false)?;
    let found = sorted(view, &argv[1], &options)?;
    Ok(Reply::Array(found.into_iter().map(|value| value.map_or(Reply::Nil, Reply::Bulk)).collect()))
}

fn sort(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let options = options(&argv[2..], true)?;
    let found = sorted(&store.view(), &argv[1], &options)?;
    let Some(target) = &options.store else {
        return Ok(Reply::Array(found.into_iter().map(|value| value.map_or(Reply::Nil, Reply::Bulk)).collect()));
    };
    if let Some(old) = store.find(target)? {
        store.remove(target, &old);
    }
    let count = found.len();
    if count > 0 {
        let mut meta = store.new_key(target, Kind::List);
        // What is not there becomes an empty element, as in Redis.
        put_list(store, &mut meta, found.into_iter().map(Option::unwrap_or_default));
        store.save(target, &meta);
    }
    Ok(integer(count))
}

/// The elements of a list that is new.
pub(super) fn put_list(store: &mut Store<'_>, meta: &mut Meta, values: impl Iterator<Item = Bytes>) {
    for value in values {
        store.space.put(meta.element(&meta.head.wrapping_add(meta.count).to_be_bytes()), value);
        meta.count += 1;
    }
}

/// The elements in their new order, or what is got for them.
fn sorted(view: &View<'_>, key: &[u8], options: &Options) -> Result<Vec<Option<Bytes>>, Fail> {
    let Some(meta) = view.find(key)? else { return Ok(Vec::new()) };
    if !matches!(meta.kind, Kind::List | Kind::Set | Kind::Sorted) {
        return fail(WRONG_TYPE);
    }
    let (start, count) = options.wanted(meta.count);
    let mut room = Room::default();
    let elements = if options.keeps_order(meta.kind) {
        let backward = options.descending && meta.kind != Kind::Set;
        load(view, &meta, backward, (start, count), &mut room)?
    } else {
        let mut elements = load(view, &meta, false, (0, meta.count), &mut room)?;
        arrange(view, &mut elements, options, &mut room)?;
        elements.into_iter().skip(start as usize).take(count as usize).collect()
    };
    got(view, elements, &options.get)
}

/// What may still be read.
#[derive(Default)]
struct Room(usize);

impl Room {
    fn take(&mut self, bytes: usize) -> Result<(), Fail> {
        self.0 += bytes;
        if self.0 > BYTES_MAX {
            return fail(format!("ERR SORT would read more than {BYTES_MAX} bytes"));
        }
        Ok(())
    }
}

/// So many elements of a list, set or sorted set, after `skip` others, as they are ordered.
fn load(
    view: &View<'_>,
    meta: &Meta,
    backward: bool,
    (skip, count): (u64, u64),
    room: &mut Room,
) -> Result<Vec<Bytes>, Fail> {
    if skip + count > ELEMENTS_MAX {
        return fail(format!("ERR SORT would read {} elements; at most {ELEMENTS_MAX} are read", skip + count));
    }
    let (mut found, mut left, mut over) = (Vec::with_capacity(count as usize), skip, Ok(()));
    if count == 0 {
        return Ok(found);
    }
    let prefix = match meta.kind {
        Kind::Sorted => meta.order(0, &[]).slice(..ELEMENT_AT),
        _ => meta.elements(),
    };
    let end = prefix_end(&prefix);
    let direction = if backward { Direction::Backward } else { Direction::Forward };
    view.space.range(KeyRange { start: &prefix, end: end.as_deref() }, direction, &mut |row, value| {
        if left > 0 {
            left -= 1;
            return ControlFlow::Continue(());
        }
        let element = match meta.kind {
            Kind::Sorted => row.get(ORDER_AT..).unwrap_or_default(),
            Kind::Set => row.get(NAME_AT..).unwrap_or_default(),
            _ => value,
        };
        over = room.take(element.len());
        found.push(Bytes::copy_from_slice(element));
        if over.is_err() || found.len() as u64 == count {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    over.map(|()| found)
}

/// Brings elements into the order asked for.
fn arrange(view: &View<'_>, elements: &mut Vec<Bytes>, options: &Options, room: &mut Room) -> Result<(), Fail> {
    // A pattern without `*` orders a set that is stored by its members' text.
    let by = options.by.as_ref().filter(|pattern| pattern.contains(&b'*'));
    let alphabetic = options.alphabetic || (options.by.is_some() && by.is_none());
    let way = |order: Ordering| if options.descending { order.reverse() } else { order };
    let Some(pattern) = by else {
        if alphabetic {
            elements.sort_by(|one, other| way(one.cmp(other)));
            return Ok(());
        }
        let weigh = |element: Bytes| Ok((number(&element)?, element));
        return by_weight(elements, weigh, f64::total_cmp, way, true);
    };
    let mut value_of = |element: &Bytes| {
        let value = follow(view, pattern, element)?;
        room.take(value.as_ref().map_or(0, Bytes::len))?;
        Ok::<_, Fail>(value)
    };
    if alphabetic {
        // What has no value comes first.
        return by_weight(elements, |element| Ok((value_of(&element)?, element)), Option::cmp, way, false);
    }
    let weigh = |element: Bytes| {
        let weight = value_of(&element)?.map_or(Ok(0.0), |value| number(&value))?;
        Ok((weight, element))
    };
    by_weight(elements, weigh, f64::total_cmp, way, true)
}

/// Sorts by weights; those of equal weight by themselves, or as they were.
fn by_weight<W>(
    elements: &mut Vec<Bytes>,
    weigh: impl FnMut(Bytes) -> Result<(W, Bytes), Fail>,
    compare: fn(&W, &W) -> Ordering,
    way: impl Fn(Ordering) -> Ordering,
    then_by_text: bool,
) -> Result<(), Fail> {
    let mut weighed = std::mem::take(elements).into_iter().map(weigh).collect::<Result<Vec<_>, Fail>>()?;
    weighed.sort_by(|one, other| {
        let order = compare(&one.0, &other.0);
        way(if then_by_text { order.then_with(|| one.1.cmp(&other.1)) } else { order })
    });
    *elements = weighed.into_iter().map(|(_, element)| element).collect();
    Ok(())
}

/// A number as SORT takes it: an empty text is 0, blanks before it are allowed.
fn number(text: &[u8]) -> Result<f64, Fail> {
    let digits = std::str::from_utf8(text).ok().map(|text| text.trim_start_matches(|c: char| c.is_ascii_whitespace()));
    let value = match digits {
        Some("") if text.is_empty() => Some(0.0),
        Some(digits) => digits.parse::<f64>().ok(),
        None => None,
    };
    let too_great =
        |value: f64| value.is_infinite() && !text.to_ascii_lowercase().windows(3).any(|part| part == b"inf");
    match value {
        // Zero has one form, so that -0 is not before 0.
        Some(value) if !value.is_nan() && !too_great(value) => Ok(if value == 0.0 { 0.0 } else { value }),
        _ => fail("ERR One or more scores can't be converted into double"),
    }
}

/// What GET gives for each element, in the bounds of a reply.
fn got(view: &View<'_>, elements: Vec<Bytes>, patterns: &[Bytes]) -> Result<Vec<Option<Bytes>>, Fail> {
    let count = elements.len().saturating_mul(patterns.len().max(1));
    if count > REPLY_ELEMENTS_MAX {
        return too_large();
    }
    let (mut found, mut bytes) = (Vec::with_capacity(count), 0);
    for element in elements {
        if patterns.is_empty() {
            bytes += element.len();
            found.push(Some(element));
        } else {
            for pattern in patterns {
                let value = follow(view, pattern, &element)?;
                bytes += value.as_ref().map_or(0, Bytes::len);
                found.push(value);
                if bytes > REPLY_BYTES_MAX {
                    return too_large();
                }
            }
        }
    }
    if bytes > REPLY_BYTES_MAX {
        return too_large();
    }
    Ok(found)
}

fn too_large<T>() -> Result<T, Fail> {
    fail(format!(
        "ERR reply is larger than {REPLY_ELEMENTS_MAX} elements or {REPLY_BYTES_MAX} bytes; read it in parts (LIMIT)"
    ))
}

/// What a pattern of BY or GET means for an element: `#` the element; else the string whose key is the pattern with the element for its first
/// `*`; behind `->` a hash's field. None where there is no such value.
fn follow(view: &View<'_>, pattern: &[u8], element: &Bytes) -> Result<Option<Bytes>, Fail> {
    if pattern == b"#" {
        return Ok(Some(element.clone()));
    }
    let Some(star) = pattern.iter().position(|byte| *byte == b'*') else { return Ok(None) };
    let (before, after) = (&pattern[..star], &pattern[star + 1..]);
    let arrow = after.windows(2).position(|part| part == b"->").filter(|at| at + 2 < after.len());
    let (after, field) = match arrow {
        Some(at) => (&after[..at], Some(&after[at + 2..])),
        None => (after, None),
    };
    let key = [before, element, after].concat();
    if key.len() > base_types::KEY_BYTES_MAX {
        // No key has such a name.
        return Ok(None);
    }
    Ok(match (view.find(&key)?, field) {
        (Some(meta), None) if meta.kind == Kind::String => Some(meta.value),
        (Some(meta), Some(field)) if meta.kind == Kind::Hash => view.space.get(&meta.field(field))?,
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use crate::testing::MapSpace;

    /// Replies of Redis itself.
    #[test]
    fn sort_orders_as_redis_does() {
        let mut space = MapSpace::default();
        for line in include_str!("../../testdata/redis/sort.txt").lines().filter(|line| !line.starts_with('#')) {
            let (command, expected) = line.split_once(" -> ").unwrap();
            assert_eq!(run(&mut space, 1000, command), expected, "{command}");
        }
    }

    #[test]
    fn sort_reads_a_bounded_number_of_elements() {
        let mut space = MapSpace::default();
        for part in 0..=super::ELEMENTS_MAX / 10_000 {
            let values: Vec<String> = (0..10_000).map(|value| (value + part).to_string()).collect();
            run(&mut space, 1000, &format!("rpush l {}", values.join(" ")));
        }
        let refused = "ERR SORT would read 110000 elements; at most 100000 are read";
        assert_eq!(run(&mut space, 1000, "sort l limit 0 1"), refused);
        assert_eq!(run(&mut space, 1000, "sort l store l"), refused);
        assert_eq!(run(&mut space, 1000, "llen l"), "110000");
        assert_eq!(run(&mut space, 1000, "sort l by nosort desc limit 1 2"), "['10008' '10007']");
    }
}
