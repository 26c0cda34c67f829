//! The map as cells: where a place lies among scores, how far two places are apart, and which cells cover an area.
//!
//! ```text
//!   a cell of step n    column and row, n bits each, of 2^n × 2^n equal parts of the map in degrees
//!   a score             the bits of both at step 26: row 0, column 0, row 1 … from the lowest bit on
//! ```
//! So the places within a cell have scores from one number to before another. An area is covered by the cell that its centre is in and the
//! eight around it; a step is chosen at which these are large enough.
//!
//! Always: a place within an area is in one of its cells, and cells of an area do not overlap.
//! Held by: `places_within_an_area_are_in_its_cells`.
//! By design: sine, cosine and arc sine are the crate `libm`'s: the machine's own may round otherwise on another member. Cells are those that
//! Redis searches, in its order: who asks for no order sees it, and ANY depends on it.

use std::f64::consts::PI;

/// Bits of column and row in a score.
const STEP_MAX: u32 = 26;
/// Metres.
const EARTH_RADIUS: f64 = 6_372_797.560_856;
/// Half of the map's width at the equator, in metres.
const HALF_WIDTH: f64 = 20_037_726.37;
const DEGREE: f64 = PI / 180.0;

/// Degrees from one to another.
#[derive(Clone, Copy)]
struct Span {
    first: f64,
    last: f64,
}

const LONGITUDES: Span = Span { first: -180.0, last: 180.0 };
/// What a square map of the world shows (EPSG:3857).
const LATITUDES: Span = Span { first: -85.051_128_78, last: 85.051_128_78 };
/// Of geohashes as text.
const ALL_LATITUDES: Span = Span { first: -90.0, last: 90.0 };

impl Span {
    fn holds(self, at: f64) -> bool {
        (self.first..=self.last).contains(&at)
    }

    /// Which of 2^step parts; the very last place is one part too far, as in Redis.
    fn part(self, at: f64, step: u32) -> u32 {
        let share = (at - self.first) / (self.last - self.first);
        (share * parts(step)) as u32
    }

    /// From where to where a part reaches.
    fn edges(self, part: u32, step: u32) -> (f64, f64) {
        let edge = |part: f64| self.first + part / parts(step) * (self.last - self.first);
        (edge(f64::from(part)), edge(f64::from(part) + 1.0))
    }
}

fn parts(step: u32) -> f64 {
    (1_u64 << step) as f64
}

/// A place, in degrees.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Place {
    pub longitude: f64,
    pub latitude: f64,
}

impl Place {
    pub fn is_on_the_map(self) -> bool {
        LONGITUDES.holds(self.longitude) && LATITUDES.holds(self.latitude)
    }

    pub fn score(self) -> f64 {
        Cell::of(self, STEP_MAX).bits() as f64
    }

    /// The middle of the smallest cell. Any score has one, whatever it was made for.
    pub fn of_score(score: f64) -> Place {
        let bits = whole(score);
        let cell = Cell { column: gather(bits >> 1), row: gather(bits), step: STEP_MAX };
        let middle = |(first, last): (f64, f64), of: Span| ((first + last) / 2.0).clamp(of.first, of.last);
        Place { longitude: middle(cell.longitudes(), LONGITUDES), latitude: middle(cell.latitudes(), LATITUDES) }
    }

    /// The geohash that everybody knows: 50 bits, and a letter for two more that is always the same.
    pub fn text(self) -> String {
        const LETTERS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
        let column = LONGITUDES.part(self.longitude, STEP_MAX);
        let bits = Cell { column, row: ALL_LATITUDES.part(self.latitude, STEP_MAX), step: STEP_MAX }.bits();
        let letter = |place: u32| LETTERS[(bits >> (47 - 5 * place) & 31) as usize] as char;
        (0..10).map(letter).chain(['0']).collect()
    }

    /// In metres, on a sphere (haversine).
    pub fn distance(self, to: Place) -> f64 {
        let across = libm::sin((to.longitude * DEGREE - self.longitude * DEGREE) / 2.0);
        if across == 0.0 {
            return self.distance_north(to);
        }
        let (from, onto) = (self.latitude * DEGREE, to.latitude * DEGREE);
        let along = libm::sin((onto - from) / 2.0);
        let chord = along * along + libm::cos(from) * libm::cos(onto) * across * across;
        2.0 * EARTH_RADIUS * libm::asin(chord.sqrt())
    }

    /// Between both latitudes.
    fn distance_north(self, to: Place) -> f64 {
        EARTH_RADIUS * (to.latitude * DEGREE - self.latitude * DEGREE).abs()
    }
}

/// A score as the whole number that Redis takes it for.
fn whole(score: f64) -> u64 {
    if score < parts(63) {
        score as i64 as u64
    } else if score < parts(63) * 2.0 {
        score as u64
    } else {
        0
    }
}

/// Every other bit.
fn gather(bits: u64) -> u32 {
    let mut bits = bits & 0x5555_5555_5555_5555;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0x0000_0000_ffff_ffff),
    ] {
        bits = (bits | bits >> shift) & mask;
    }
    bits as u32
}

/// The inverse of `gather`.
fn spread(part: u32) -> u64 {
    let mut bits = u64::from(part);
    for (shift, mask) in [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555),
    ] {
        bits = (bits | bits << shift) & mask;
    }
    bits
}

/// A part of the map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cell {
    column: u32,
    row: u32,
    step: u32,
}

impl Cell {
    fn of(place: Place, step: u32) -> Cell {
        Cell { column: LONGITUDES.part(place.longitude, step), row: LATITUDES.part(place.latitude, step), step }
    }

    fn bits(self) -> u64 {
        spread(self.column) << 1 | spread(self.row)
    }

    /// The scores within: from one to before another.
    pub fn scores(self) -> (f64, f64) {
        let shift = 2 * (STEP_MAX - self.step);
        ((self.bits() << shift) as f64, ((self.bits() + 1) << shift) as f64)
    }

    fn longitudes(self) -> (f64, f64) {
        LONGITUDES.edges(self.column, self.step)
    }

    fn latitudes(self) -> (f64, f64) {
        LATITUDES.edges(self.row, self.step)
    }

    /// So many columns east and rows north; the map goes around.
    fn beside(self, east: i32, north: i32) -> Cell {
        let last = (1 << self.step) - 1;
        let moved = |part: u32, by: i32| if by == 0 { part } else { part.wrapping_add_signed(by) & last };
        Cell { column: moved(self.column, east), row: moved(self.row, north), step: self.step }
    }
}

/// What is searched around a centre; lengths in metres.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    Circle { radius: f64 },
    Box { width: f64, height: f64 },
}

/// The centre, and what is searched around it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub centre: Place,
    pub shape: Shape,
}

/// Where the cells around another lie, in Redis' order: columns east, rows north.
const AROUND: [(i32, i32); 9] = [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];

impl Area {
    /// How far a place is from the centre; `None`: it is not within the area.
    pub fn distance(&self, place: Place) -> Option<f64> {
        match self.shape {
            Shape::Circle { radius } => Some(self.centre.distance(place)).filter(|distance| *distance <= radius),
            Shape::Box { width, height } => {
                if self.centre.distance_north(place) > height / 2.0 {
                    return None;
                }
                let level = Place { longitude: self.centre.longitude, latitude: place.latitude };
                (place.distance(level) <= width / 2.0).then(|| self.centre.distance(place))
            }
        }
    }

    /// The farthest that a place within it can be.
    fn reach(&self) -> f64 {
        match self.shape {
            Shape::Circle { radius } => radius,
            Shape::Box { width, height } => {
                let (width, height) = (width / 2.0, height / 2.0);
                (width * width + height * height).sqrt()
            }
        }
    }

    /// Longitudes and latitudes that it reaches over.
    fn edges(&self) -> (Span, Span) {
        let (width, height) = match self.shape {
            Shape::Circle { radius } => (radius, radius),
            Shape::Box { width, height } => (width / 2.0, height / 2.0),
        };
        let Place { longitude, latitude } = self.centre;
        let north = height / EARTH_RADIUS / DEGREE;
        // Degrees are shorter near the poles: the edge that is nearer to one counts.
        let edge = if latitude < 0.0 { latitude - north } else { latitude + north };
        let east = width / EARTH_RADIUS / libm::cos(edge * DEGREE) / DEGREE;
        (
            Span { first: longitude - east, last: longitude + east },
            Span { first: latitude - north, last: latitude + north },
        )
    }

    /// A step at which a cell is about as large as the area.
    fn step(&self) -> u32 {
        let (mut reach, mut step) = (self.reach(), 1);
        if reach == 0.0 {
            return STEP_MAX;
        }
        while reach < HALF_WIDTH && step < STEP_MAX + 4 {
            reach *= 2.0;
            step += 1;
        }
        let north = self.centre.latitude.abs();
        let larger = 2 + u32::from(north > 66.0) + u32::from(north > 80.0);
        step.saturating_sub(larger).clamp(1, STEP_MAX)
    }

    /// The cells that may have places within the area.
    pub fn cells(&self) -> Vec<Cell> {
        let (longitudes, latitudes) = self.edges();
        let mut middle = Cell::of(self.centre, self.step());
        let is_covered = middle.beside(0, 1).latitudes().1 >= latitudes.last
            && middle.beside(0, -1).latitudes().0 <= latitudes.first
            && middle.beside(1, 0).longitudes().1 >= longitudes.last
            && middle.beside(-1, 0).longitudes().0 <= longitudes.first;
        if !is_covered && middle.step > 1 {
            middle = Cell::of(self.centre, middle.step - 1);
        }
        let ((west, east), (south, north)) = (middle.longitudes(), middle.latitudes());
        // Where the middle one reaches beyond the area, nothing on that side is needed.
        let is_needed = |(column, row): &(i32, i32)| {
            middle.step < 2
                || !(*row < 0 && south < latitudes.first
                    || *row > 0 && north > latitudes.last
                    || *column < 0 && west < longitudes.first
                    || *column > 0 && east > longitudes.last)
        };
        let mut cells: Vec<Cell> = Vec::with_capacity(AROUND.len());
        for (column, row) in AROUND.iter().filter(|at| is_needed(at)) {
            let cell = middle.beside(*column, *row);
            // East and west of two columns is the same one.
            if !cells.contains(&cell) {
                cells.push(cell);
            }
        }
        cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(state: &mut u64) -> f64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 11) as f64 / parts(53)
    }

    fn place(state: &mut u64) -> Place {
        Place { longitude: draw(state) * 360.0 - 180.0, latitude: draw(state) * 160.0 - 80.0 }
    }

    #[test]
    fn a_score_gives_its_place_back() {
        let mut state = 1;
        for _ in 0..1000 {
            let place = place(&mut state);
            let back = Place::of_score(place.score());
            assert!(place.distance(back) < 0.6, "{place:?} {back:?}");
            assert_eq!(back.score(), place.score());
        }
        assert_eq!(gather(spread(0xdead_beef)), 0xdead_beef);
    }

    #[test]
    fn places_within_an_area_are_in_its_cells() {
        let (mut state, mut within) = (7, 0);
        for _ in 0..2000 {
            let centre = place(&mut state);
            let size = 10.0 * libm::pow(2.0, draw(&mut state) * 17.0);
            let shape = match size as u64 % 2 {
                0 => Shape::Circle { radius: size },
                _ => Shape::Box { width: size, height: size * 2.0 * draw(&mut state) },
            };
            let area = Area { centre, shape };
            let cells = area.cells();
            for (at, cell) in cells.iter().enumerate() {
                let apart = |other: &Cell| other.scores().1 <= cell.scores().0 || cell.scores().1 <= other.scores().0;
                assert!(cells[..at].iter().all(apart), "{area:?}");
            }
            // Near the edge of the map an area is cut, as in Redis.
            let (longitudes, latitudes) = area.edges();
            if !LONGITUDES.holds(longitudes.first) || !LONGITUDES.holds(longitudes.last) {
                continue;
            }
            for _ in 0..20 {
                let at = |span: Span, share: f64| span.first + share * (span.last - span.first);
                let (east, north) = (draw(&mut state), draw(&mut state));
                let near = Place { longitude: at(longitudes, east), latitude: at(latitudes, north) };
                let near = Place::of_score(if near.is_on_the_map() { near.score() } else { centre.score() });
                if area.distance(near).is_some() {
                    within += 1;
                    let holds = |cell: &Cell| (cell.scores().0..cell.scores().1).contains(&near.score());
                    assert!(cells.iter().any(holds), "{near:?} is in no cell of {area:?}");
                }
            }
        }
        assert!(within > 10_000, "{within}");
    }
}
