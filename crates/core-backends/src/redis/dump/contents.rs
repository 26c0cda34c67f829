//! What a dump says of a key of each kind.
//!
//! By design: contents are checked when they are decoded, since a client that can write a key can write a payload; rows are never taken as they come.
//! Not here: streams (`streams/dump.rs`).

use super::super::elements::NAME_AT;
use super::super::numbers::{from_sortable, sortable};
use super::super::sort::{put_list, ELEMENT_AT};
use super::super::sorted::place_new;
use super::super::store::{Kind, Meta, Store, View, ORDER_AT};
use super::super::streams::Whole;
use super::super::Fail;
use super::too_large;
use crate::rows::{key_number, prefix_end};
use base_engine::{Direction, EngineError, KeyRange};
use base_types::codec::{DecodeError, Reader, Writer};
use base_types::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Elements of a key that is dumped or restored at most: each is a row or two.
pub(in super::super) const ELEMENTS_MAX: usize = 100_000;

pub(super) enum Contents {
    String(Bytes),
    List(Vec<Bytes>),
    Set(Vec<Bytes>),
    Hash(Vec<(Bytes, Bytes)>),
    /// Members, and their scores in the order of the numbers they are (`sortable`).
    Sorted(Vec<(Bytes, u64)>),
    Stream(Whole),
}

impl Contents {
    pub fn read(view: &View<'_>, key: &[u8], meta: &Meta) -> Result<Contents, Fail> {
        if meta.count > ELEMENTS_MAX as u64 {
            return too_large();
        }
        let named = |at: usize, row: &[u8]| Bytes::copy_from_slice(row.get(at..).unwrap_or_default());
        Ok(match meta.kind {
            Kind::String => Contents::String(meta.value.clone()),
            Kind::List => Contents::List(rows(view, &meta.elements(), |_, value| Ok(Bytes::copy_from_slice(value)))?),
            Kind::Set => Contents::Set(rows(view, &meta.elements(), |row, _| Ok(named(NAME_AT, row)))?),
            Kind::Hash => {
                let pair = |row: &[u8], value: &[u8]| Ok((named(NAME_AT, row), Bytes::copy_from_slice(value)));
                Contents::Hash(rows(view, &meta.elements(), pair)?)
            }
            Kind::Sorted => {
                let prefix = meta.order(0, &[]).slice(..ELEMENT_AT);
                let pair = |row: &[u8], _: &[u8]| Ok((named(ORDER_AT, row), key_number(row, ELEMENT_AT)?));
                Contents::Sorted(rows(view, &prefix, pair)?)
            }
            Kind::Stream => match Whole::read(view, key, ELEMENTS_MAX)? {
                Some(whole) => Contents::Stream(whole),
                None => return too_large(),
            },
        })
    }

    pub fn encode(&self, out: &mut Writer) {
        match self {
            Contents::String(value) => {
                out.raw(value);
            }
            Contents::List(values) | Contents::Set(values) => {
                out.varint(values.len() as u64);
                for value in values {
                    out.bytes(value);
                }
            }
            Contents::Hash(fields) => {
                out.varint(fields.len() as u64);
                for (name, value) in fields {
                    out.bytes(name).bytes(value);
                }
            }
            Contents::Sorted(members) => {
                out.varint(members.len() as u64);
                for (member, score) in members {
                    out.bytes(member).u64(*score);
                }
            }
            Contents::Stream(whole) => whole.encode(out),
        }
    }

    /// `None`: no key can have these contents.
    pub fn decode(kind: Kind, mut input: Reader) -> Option<Contents> {
        let contents = match kind {
            Kind::String => Contents::String(input.rest()),
            Kind::List => Contents::List(some(&mut input, |input| input.bytes("element"))?),
            Kind::Set => {
                let members = some(&mut input, |input| input.bytes("member"))?;
                are_names(members.iter()).then_some(Contents::Set(members))?
            }
            Kind::Hash => {
                let fields = some(&mut input, |input| Ok((input.bytes("field")?, input.bytes("value")?)))?;
                are_names(fields.iter().map(|(name, _)| name)).then_some(Contents::Hash(fields))?
            }
            Kind::Sorted => {
                let members = some(&mut input, |input| Ok((input.bytes("member")?, input.u64("score")?)))?;
                let numbers = members.iter().all(|(_, score)| is_score(*score));
                (numbers && are_names(members.iter().map(|(name, _)| name))).then_some(Contents::Sorted(members))?
            }
            Kind::Stream => Contents::Stream(Whole::decode(&mut input, ELEMENTS_MAX)?),
        };
        input.end().ok().map(|()| contents)
    }

    /// Makes the key, which is not there.
    pub fn write(self, store: &mut Store<'_>, key: &[u8]) -> Result<(), EngineError> {
        let kind = match &self {
            Contents::String(_) => Kind::String,
            Contents::List(_) => Kind::List,
            Contents::Set(_) => Kind::Set,
            Contents::Hash(_) => Kind::Hash,
            Contents::Sorted(_) => Kind::Sorted,
            Contents::Stream(_) => Kind::Stream,
        };
        if let Contents::Stream(whole) = self {
            return whole.write(store, key);
        }
        let mut meta = store.new_key(key, kind);
        match self {
            Contents::String(value) => meta.value = value,
            Contents::List(values) => put_list(store, &mut meta, values.into_iter()),
            Contents::Set(members) => {
                put_fields(store, &mut meta, members.into_iter().map(|member| (member, Bytes::new())))
            }
            Contents::Hash(fields) => put_fields(store, &mut meta, fields.into_iter()),
            Contents::Sorted(members) => {
                members.iter().for_each(|(member, score)| place_new(store, &mut meta, member, from_sortable(*score)))
            }
            Contents::Stream(_) => {}
        }
        store.save(key, &meta);
        Ok(())
    }
}

fn put_fields(store: &mut Store<'_>, meta: &mut Meta, fields: impl Iterator<Item = (Bytes, Bytes)>) {
    for (name, value) in fields {
        store.space.put(meta.field(&name), value);
        meta.count += 1;
    }
}

/// What is made of each row under a prefix; too many bytes are an error before they are read.
fn rows<T>(
    view: &View<'_>,
    prefix: &[u8],
    item: impl Fn(&[u8], &[u8]) -> Result<T, EngineError>,
) -> Result<Vec<T>, Fail> {
    let (mut found, mut bytes, mut damage) = (Vec::new(), 0, None);
    let end = prefix_end(prefix);
    view.space.range(KeyRange { start: prefix, end: end.as_deref() }, Direction::Forward, &mut |row, value| {
        bytes += (row.len() - prefix.len()) + value.len();
        match item(row, value) {
            Ok(item) if bytes <= 2 * VALUE_BYTES_MAX && found.len() < ELEMENTS_MAX => found.push(item),
            Ok(_) => return ControlFlow::Break(()),
            Err(error) => {
                damage = Some(error);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    })?;
    if let Some(error) = damage {
        return Err(error.into());
    }
    // Rows have more than is dumped of them, so that bound is a wide one; the payload's own is exact.
    if bytes > 2 * VALUE_BYTES_MAX {
        return too_large();
    }
    Ok(found)
}

/// At least one thing, and not too many.
fn some<T>(input: &mut Reader, read: impl Fn(&mut Reader) -> Result<T, DecodeError>) -> Option<Vec<T>> {
    let count = input.count("elements").ok().filter(|count| (1..=ELEMENTS_MAX).contains(count))?;
    (0..count).map(|_| read(input)).collect::<Result<_, _>>().ok()
}

/// Whether these can be fields or members: not too long, none twice.
pub(in super::super) fn are_names<'n>(mut names: impl Iterator<Item = &'n Bytes>) -> bool {
    let mut seen = BTreeSet::new();
    names.all(|name| name.len() <= KEY_BYTES_MAX && seen.insert(name))
}

/// Whether this is the number of a score, in the one form that it has.
fn is_score(number: u64) -> bool {
    let score = from_sortable(number);
    !score.is_nan() && sortable(if score == 0.0 { 0.0 } else { score }) == number
}
