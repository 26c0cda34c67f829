//! GEOSEARCH, GEORADIUS and theirs: members within a circle or a box.
//!
//! Always: a search keeps as many members as a reply may have, and one that writes looks at [`LOOKED_MAX`] at most; beyond it is an error.
//! Held by: `searches_are_bounded`.
//! By design: words are looked at in Redis' order, so that of several mistakes the same one is reported. GEORADIUS is a write, because it may
//! store; GEORADIUS_RO and GEOSEARCH are reads.

use super::super::numbers::{float_of, parse_integer};
use super::super::sorted::{put_whole, range::between};
use super::super::store::{check_name, Kind, Meta, Store, View};
use super::super::{fail, Done, Fail, Reply, REPLY_BYTES_MAX, REPLY_ELEMENTS_MAX, SYNTAX};
use super::cells::{Area, Place, Shape};
use super::{coordinates, distance_text, find_place, place_of, unit_of};
use crate::contract::SpaceRead;
use bytes::Bytes;
use std::ops::ControlFlow;

/// Members that a search which writes looks at, at most.
const LOOKED_MAX: u64 = 100_000;
/// What a member takes in a reply beside its name, about; and with distance, score and coordinates.
const PLAIN_BYTES: usize = 8;
const DETAILS_BYTES: usize = 96;

/// Which command it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    Search,
    SearchStore,
    Radius { stores: bool },
    RadiusByMember { stores: bool },
}

impl Family {
    fn is_search(self) -> bool {
        matches!(self, Family::Search | Family::SearchStore)
    }

    fn may_store(self) -> bool {
        matches!(self, Family::Radius { stores: true } | Family::RadiusByMember { stores: true })
    }
}

/// The sorted set that is searched.
struct Source<'s> {
    space: &'s dyn SpaceRead,
    meta: Option<Meta>,
}

impl Source<'_> {
    /// Where a member is; of a set that is not there that does not matter.
    fn centre(&self, member: &[u8]) -> Result<Option<Place>, Fail> {
        match find_place(self.space, self.meta.as_ref(), member)? {
            None if self.meta.is_some() => fail("ERR could not decode requested zset member"),
            found => Ok(found),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Nearest,
    Farthest,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Member,
    Place,
}

/// What is stored, and where.
struct Target<'w> {
    key: &'w Bytes,
    distances: bool,
}

#[derive(Default)]
struct Asked<'w> {
    centre: Option<Place>,
    /// What the centre was named by; where it is is unknown of a member of a set that is not there.
    centred: Option<By>,
    shape: Option<Shape>,
    unit: f64,
    distances: bool,
    scores: bool,
    coordinates: bool,
    any: bool,
    count: Option<u64>,
    order: Option<Order>,
    target: Option<Target<'w>>,
}

fn length_of(word: &[u8], name: &str) -> Result<f64, Fail> {
    float_of(word).map_or_else(|| fail(format!("ERR need numeric {name}")), Ok)
}

impl<'w> Asked<'w> {
    fn circle(&mut self, radius: &[u8], unit: &[u8]) -> Result<(), Fail> {
        let radius = length_of(radius, "radius")?;
        if radius < 0.0 {
            return fail("ERR radius cannot be negative");
        }
        self.unit = unit_of(unit)?;
        self.shape = Some(Shape::Circle { radius: radius * self.unit });
        Ok(())
    }

    fn rectangle(&mut self, width: &[u8], height: &[u8], unit: &[u8]) -> Result<(), Fail> {
        let (width, height) = (length_of(width, "width")?, length_of(height, "height")?);
        if width < 0.0 || height < 0.0 {
            return fail("ERR height or width cannot be negative");
        }
        self.unit = unit_of(unit)?;
        self.shape = Some(Shape::Box { width: width * self.unit, height: height * self.unit });
        Ok(())
    }

    /// The words that say where and how far, of commands that have them at fixed places. Gives the rest.
    fn fixed(&mut self, source: &Source<'_>, argv: &'w [Bytes], family: Family) -> Result<&'w [Bytes], Fail> {
        match family {
            Family::Search => Ok(&argv[2..]),
            Family::SearchStore => {
                self.target = Some(Target { key: &argv[1], distances: false });
                Ok(&argv[3..])
            }
            Family::Radius { .. } => {
                self.centre = Some(place_of(&argv[2], &argv[3])?);
                self.circle(&argv[4], &argv[5])?;
                Ok(&argv[6..])
            }
            Family::RadiusByMember { .. } => {
                // As in Redis: nothing is looked at where there is nothing to search.
                if source.meta.is_some() {
                    self.centre = source.centre(&argv[2])?;
                    self.circle(&argv[3], &argv[4])?;
                }
                Ok(&argv[5..])
            }
        }
    }

    /// One option and its words. Gives the rest.
    fn option(
        &mut self,
        source: &Source<'_>,
        name: &[u8],
        rest: &'w [Bytes],
        family: Family,
    ) -> Result<&'w [Bytes], Fail> {
        let search = family.is_search();
        match (name, rest) {
            (b"WITHDIST", _) => self.distances = true,
            (b"WITHHASH", _) => self.scores = true,
            (b"WITHCOORD", _) => self.coordinates = true,
            (b"ANY", _) => self.any = true,
            (b"ASC", _) => self.order = Some(Order::Nearest),
            (b"DESC", _) => self.order = Some(Order::Farthest),
            (b"COUNT", [count, rest @ ..]) => {
                self.count = u64::try_from(parse_integer(count)?).ok();
                if self.count.is_none_or(|count| count == 0) {
                    return fail("ERR COUNT must be > 0");
                }
                return Ok(rest);
            }
            (b"STORE" | b"STOREDIST", [key, rest @ ..]) if family.may_store() => {
                self.target = Some(Target { key, distances: name == b"STOREDIST" });
                return Ok(rest);
            }
            (b"STOREDIST", _) if family == Family::SearchStore => {
                self.target = self.target.take().map(|target| Target { distances: true, ..target });
            }
            (b"FROMMEMBER", [member, rest @ ..]) if search && self.centred != Some(By::Place) => {
                (self.centre, self.centred) = (source.centre(member)?, Some(By::Member));
                return Ok(rest);
            }
            (b"FROMLONLAT", [longitude, latitude, rest @ ..]) if search && self.centred != Some(By::Member) => {
                (self.centre, self.centred) = (Some(place_of(longitude, latitude)?), Some(By::Place));
                return Ok(rest);
            }
            (b"BYRADIUS", [radius, unit, rest @ ..]) if search && !self.is_box() => {
                self.circle(radius, unit)?;
                return Ok(rest);
            }
            (b"BYBOX", [width, height, unit, rest @ ..]) if search && !self.is_circle() => {
                self.rectangle(width, height, unit)?;
                return Ok(rest);
            }
            _ => return fail(SYNTAX),
        }
        Ok(rest)
    }

    /// Whether more than names is wanted.
    fn has_details(&self) -> bool {
        self.distances || self.scores || self.coordinates
    }

    fn is_box(&self) -> bool {
        matches!(self.shape, Some(Shape::Box { .. }))
    }

    fn is_circle(&self) -> bool {
        matches!(self.shape, Some(Shape::Circle { .. }))
    }

    fn check(&self, name: &[u8], family: Family) -> Result<(), Fail> {
        if self.target.is_some() && self.has_details() {
            let what = if family.is_search() { "GEOSEARCHSTORE" } else { "STORE option in GEORADIUS" };
            return fail(format!("ERR {what} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"));
        }
        let name = String::from_utf8_lossy(name);
        if family.is_search() && self.centred.is_none() {
            return fail(format!("ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for {name}"));
        }
        if family.is_search() && self.shape.is_none() {
            return fail(format!("ERR exactly one of BYRADIUS and BYBOX can be specified for {name}"));
        }
        if self.any && self.count.is_none() {
            return fail("ERR the ANY argument requires COUNT argument");
        }
        Ok(())
    }
}

fn asked<'w>(source: &Source<'_>, argv: &'w [Bytes], family: Family) -> Result<Asked<'w>, Fail> {
    let mut asked = Asked::default();
    let mut rest = asked.fixed(source, argv, family)?;
    while let Some((name, behind)) = rest.split_first() {
        rest = asked.option(source, &name.to_ascii_uppercase(), behind, family)?;
    }
    asked.check(&argv[0], family)?;
    // The nearest are meant where none are to be left out at random.
    if asked.count.is_some() && !asked.any {
        asked.order = asked.order.or(Some(Order::Nearest));
    }
    Ok(asked)
}

/// A member within the area.
struct Hit {
    member: Bytes,
    score: f64,
    place: Place,
    /// In metres.
    distance: f64,
}

fn sort(hits: &mut [Hit], order: Option<Order>) {
    match order {
        Some(Order::Nearest) => hits.sort_by(|one, other| one.distance.total_cmp(&other.distance)),
        Some(Order::Farthest) => hits.sort_by(|one, other| other.distance.total_cmp(&one.distance)),
        None => {}
    }
}

/// Gathers hits, no more than are wanted and some.
struct Hits<'a> {
    asked: &'a Asked<'a>,
    found: Vec<Hit>,
    bytes: usize,
    looked: u64,
    looked_max: u64,
    over: Option<String>,
}

impl Hits<'_> {
    fn wanted(&self) -> usize {
        self.asked.count.and_then(|count| usize::try_from(count).ok()).unwrap_or(usize::MAX)
    }

    /// About what a hit takes in the reply.
    fn bytes_of(&self, member: &[u8]) -> usize {
        member.len() + if self.asked.has_details() { DETAILS_BYTES } else { PLAIN_BYTES }
    }

    /// Whether to continue.
    fn look(&mut self, area: &Area, member: &[u8], score: f64) -> ControlFlow<()> {
        self.looked += 1;
        if self.looked > self.looked_max {
            let most = self.looked_max;
            self.over = Some(format!("ERR a search that may store looks at {most} members at most; use GEOSEARCH"));
            return ControlFlow::Break(());
        }
        let place = Place::of_score(score);
        let Some(distance) = area.distance(place) else { return ControlFlow::Continue(()) };
        self.bytes += self.bytes_of(member);
        self.found.push(Hit { member: Bytes::copy_from_slice(member), score, place, distance });
        if self.asked.any && self.found.len() >= self.wanted() {
            return ControlFlow::Break(());
        }
        if self.found.len() > REPLY_ELEMENTS_MAX || self.bytes > 2 * REPLY_BYTES_MAX {
            self.keep_wanted();
        }
        if self.over.is_some() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    /// Sorts, and leaves out what is not wanted.
    fn keep_wanted(&mut self) {
        sort(&mut self.found, self.asked.order);
        self.found.truncate(self.wanted());
        self.bytes = self.found.iter().map(|hit| self.bytes_of(&hit.member)).sum();
        if self.found.len() > REPLY_ELEMENTS_MAX || self.bytes > REPLY_BYTES_MAX {
            self.over = Some(format!(
                "ERR reply is larger than {REPLY_ELEMENTS_MAX} elements or {REPLY_BYTES_MAX} bytes; use COUNT"
            ));
        }
    }
}

fn find(source: &Source<'_>, asked: &Asked<'_>, looked_max: u64) -> Result<Vec<Hit>, Fail> {
    let (Some(meta), Some(centre), Some(shape)) = (&source.meta, asked.centre, asked.shape) else {
        return Ok(Vec::new());
    };
    let area = Area { centre, shape };
    let mut hits = Hits { asked, found: Vec::new(), bytes: 0, looked: 0, looked_max, over: None };
    for cell in area.cells() {
        let (from, before) = cell.scores();
        let mut flow = ControlFlow::Continue(());
        between(source.space, meta, from, before, |member, score| {
            flow = hits.look(&area, member, score);
            flow
        })?;
        if flow.is_break() {
            break;
        }
    }
    hits.keep_wanted();
    match hits.over {
        Some(text) => fail(text),
        None => Ok(hits.found),
    }
}

fn reply_of(hits: Vec<Hit>, asked: &Asked<'_>) -> Reply {
    let one = |hit: Hit| {
        if !asked.has_details() {
            return Reply::Bulk(hit.member);
        }
        let mut parts = vec![Reply::Bulk(hit.member)];
        parts.extend(asked.distances.then(|| distance_text(hit.distance, asked.unit)));
        parts.extend(asked.scores.then_some(Reply::Integer(hit.score as i64)));
        parts.extend(asked.coordinates.then(|| coordinates(hit.place)));
        Reply::Array(parts)
    };
    Reply::Array(hits.into_iter().map(one).collect())
}

fn read(view: &View<'_>, argv: &[Bytes], family: Family) -> Done {
    let source = Source { space: view.space, meta: view.find_kind(&argv[1], Kind::Sorted)? };
    let asked = asked(&source, argv, family)?;
    Ok(reply_of(find(&source, &asked, u64::MAX)?, &asked))
}

fn write(store: &mut Store<'_>, argv: &[Bytes], family: Family) -> Done {
    let searched = if family == Family::SearchStore { &argv[2] } else { &argv[1] };
    let meta = store.find_kind(searched, Kind::Sorted)?;
    let source = Source { space: &*store.space, meta };
    let asked = asked(&source, argv, family)?;
    if let Some(target) = &asked.target {
        check_name("key", target.key)?;
    }
    let hits = find(&source, &asked, LOOKED_MAX)?;
    let Some(target) = &asked.target else { return Ok(reply_of(hits, &asked)) };
    let score = |hit: &Hit| if target.distances { hit.distance / asked.unit } else { hit.score };
    let members: Vec<(Bytes, f64)> = hits.iter().map(|hit| (hit.member.clone(), score(hit))).collect();
    put_whole(store, target.key, &members)
}

pub(super) fn geosearch(view: &View<'_>, argv: &[Bytes]) -> Done {
    read(view, argv, Family::Search)
}

pub(super) fn geosearchstore(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    write(store, argv, Family::SearchStore)
}

pub(super) fn georadius(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    write(store, argv, Family::Radius { stores: true })
}

pub(super) fn georadius_ro(view: &View<'_>, argv: &[Bytes]) -> Done {
    read(view, argv, Family::Radius { stores: false })
}

pub(super) fn georadiusbymember(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    write(store, argv, Family::RadiusByMember { stores: true })
}

pub(super) fn georadiusbymember_ro(view: &View<'_>, argv: &[Bytes]) -> Done {
    read(view, argv, Family::RadiusByMember { stores: false })
}
