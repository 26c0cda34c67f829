//! Geo: places as members of a sorted set, whose scores are cells of the map (`geo/cells.rs`), the same as in Redis.
//!
//! Not here: searches (`geo/search.rs`).

mod cells;
mod search;

use super::numbers::float_of;
use super::sorted::{add, score_of, AddOptions};
use super::store::{check_name, Kind, Meta, Store, View};
use super::table::{read, write, Entry};
use super::{fail, Done, Fail, Reply, NOT_A_FLOAT, SYNTAX};
use crate::contract::SpaceRead;
use bytes::Bytes;
use cells::Place;

/// What this room answers.
pub(super) const COMMANDS: &[Entry] = &[
    write("geoadd", geoadd),
    read("geodist", geodist),
    read("geohash", geohash),
    read("geopos", geopos),
    read("geosearch", search::geosearch),
    write("geosearchstore", search::geosearchstore),
    write("georadius", search::georadius),
    read("georadius_ro", search::georadius_ro),
    write("georadiusbymember", search::georadiusbymember),
    read("georadiusbymember_ro", search::georadiusbymember_ro),
];

/// Longitude and latitude, as two words say them.
fn place_of(longitude: &[u8], latitude: &[u8]) -> Result<Place, Fail> {
    let (Some(longitude), Some(latitude)) = (float_of(longitude), float_of(latitude)) else { return fail(NOT_A_FLOAT) };
    let place = Place { longitude, latitude };
    if !place.is_on_the_map() {
        return fail(format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}"));
    }
    Ok(place)
}

/// How many metres a unit has.
fn unit_of(word: &[u8]) -> Result<f64, Fail> {
    match &word.to_ascii_lowercase()[..] {
        b"m" => Ok(1.0),
        b"km" => Ok(1000.0),
        b"ft" => Ok(0.3048),
        b"mi" => Ok(1609.34),
        _ => fail("ERR unsupported unit provided. please use M, KM, FT, MI"),
    }
}

/// Where a member is; `None`: it is not there.
fn find_place(space: &dyn SpaceRead, meta: Option<&Meta>, member: &[u8]) -> Result<Option<Place>, Fail> {
    let Some(meta) = meta else { return Ok(None) };
    let row = space.get(&meta.field(member))?;
    Ok(row.map(|row| score_of(&row)).transpose()?.map(Place::of_score))
}

fn geoadd(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let (mut options, mut words) = (AddOptions::default(), &argv[2..]);
    while let Some((word, rest)) = words.split_first() {
        match &word.to_ascii_uppercase()[..] {
            b"NX" => options.if_absent = true,
            b"XX" => options.if_present = true,
            b"CH" => options.changed = true,
            _ => break,
        }
        words = rest;
    }
    if words.is_empty() || !words.len().is_multiple_of(3) || options.if_absent && options.if_present {
        return fail(SYNTAX);
    }
    let mut scores = Vec::with_capacity(words.len() / 3);
    for place in words.chunks_exact(3) {
        let score = place_of(&place[0], &place[1])?.score();
        check_name("member", &place[2])?;
        scores.push((score, &place[2]));
    }
    add(store, &argv[1], &options, &scores)
}

fn distance_text(metres: f64, unit: f64) -> Reply {
    Reply::Bulk(format!("{:.4}", metres / unit).into())
}

fn geodist(view: &View<'_>, argv: &[Bytes]) -> Done {
    let unit = match &argv[4..] {
        [] => 1.0,
        [unit] => unit_of(unit)?,
        _ => return fail(SYNTAX),
    };
    let meta = view.find_kind(&argv[1], Kind::Sorted)?;
    let place = |member: &[u8]| find_place(view.space, meta.as_ref(), member);
    Ok(match (place(&argv[2])?, place(&argv[3])?) {
        (Some(from), Some(to)) => distance_text(from.distance(to), unit),
        _ => Reply::Nil,
    })
}

/// One reply for each member, where it is there.
fn each(view: &View<'_>, argv: &[Bytes], absent: &Reply, reply: impl Fn(Place) -> Reply) -> Done {
    let meta = view.find_kind(&argv[1], Kind::Sorted)?;
    let one = |member: &Bytes| Ok(find_place(view.space, meta.as_ref(), member)?.map_or(absent.clone(), &reply));
    Ok(Reply::Array(argv[2..].iter().map(one).collect::<Result<_, Fail>>()?))
}

fn geohash(view: &View<'_>, argv: &[Bytes]) -> Done {
    each(view, argv, &Reply::Nil, |place| Reply::Bulk(place.text().into()))
}

fn geopos(view: &View<'_>, argv: &[Bytes]) -> Done {
    each(view, argv, &Reply::NilArray, coordinates)
}

fn coordinates(place: Place) -> Reply {
    Reply::Array([place.longitude, place.latitude].map(degrees).into())
}

/// Seventeen digits behind the point, without the zeros at their end.
fn degrees(value: f64) -> Reply {
    let text = format!("{value:.17}");
    Reply::Double(text.trim_end_matches('0').trim_end_matches('.').to_string().into())
}
