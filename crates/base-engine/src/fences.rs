//! Fences: how an engine proves that a key is not there (decision 0038).
//!
//! A seal proves that a pair is what was written. It cannot show that a pair is missing; a flipped bit in a stored key, or
//! in what a B-tree finds keys by, makes a pair missing. So the keys of a space are divided into short runs, each with a
//! sealed fence. A miss is believed when the keys of its run add up to what the fence says.
//!
//! ```text
//!   space 7     ""        "kiwi"          "pear"                 the space's end
//!   fences      ├── 16 keys ──┼── 21 keys ───┼────── 4 keys ───────┤     each: start, end, keys, sum of their hashes
//!   roll        7: has fences, has a durable index                      one sealed list of all spaces
//! ```
//!
//! A fence says from where to where it holds, so that one found by a wrong way is not taken for the right one. A space
//! without fences is empty if the roll says so. Overwriting a pair changes no fence.
//!
//! Always: what is damaged stays refused until the space is dropped: no change of a fence makes wrong keys right.
//! Held by: `the_damage_stays`, `a_walk_is_in_order_or_refused`.
//! Not here: where fences lie and how they are sealed (engines); what a value is worth (seals).

use crate::{Direction, EngineError, KeyRange};
use base_types::mutant::{planted, Mutant};
use base_types::SpaceId;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use xxhash_rust::xxh3::xxh3_64;

/// A run with more keys is divided.
pub const FENCE_KEYS_MAX: u32 = 32;
/// Into runs of so many.
pub const FENCE_KEYS: usize = 16;
/// Flags, number of keys, sum.
const HEAD_BYTES: usize = 1 + 4 + 8;
const HAS_END: u8 = 1;
const IS_LOST: u8 = 2;
/// A space's number and flags, in the roll.
const ROLL_ENTRY_BYTES: usize = 8 + 1;
const HAS_FENCES: u8 = 1;
const HAS_INDEX: u8 = 2;

/// Keys, added up in any order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    keys: u32,
    sum: u64,
}

impl Tally {
    fn add(&mut self, key: &[u8]) {
        self.keys = self.keys.wrapping_add(1);
        self.sum = self.sum.wrapping_add(xxh3_64(key));
    }

    fn remove(&mut self, key: &[u8]) {
        self.keys = self.keys.wrapping_sub(1);
        self.sum = self.sum.wrapping_sub(xxh3_64(key));
    }
}

/// What is known of the keys of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fence {
    start: Vec<u8>,
    /// `None`: the space's end.
    end: Option<Vec<u8>>,
    tally: Tally,
    /// Its keys did not add up when it was to be divided: nothing in it is proved ever again.
    lost: bool,
}

impl Fence {
    /// The first key it may hold.
    pub fn start(&self) -> &[u8] {
        &self.start
    }

    fn holds(&self, key: &[u8]) -> bool {
        *self.start <= *key && self.end.as_deref().is_none_or(|end| key < end)
    }

    /// Whether no part of a range that ends there lies after it.
    fn reaches(&self, end: Option<&[u8]>) -> bool {
        match (self.end.as_deref(), end) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(own), Some(end)) => own >= end,
        }
    }

    fn check(&self, space: SpaceId, found: Tally) -> Result<(), EngineError> {
        if (self.lost || found != self.tally) && !planted(Mutant::AbsenceUnsealed) {
            return Err(broken(space, &self.start, "some key of it is lost or was turned into another"));
        }
        Ok(())
    }

    /// What is stored under its start, before it is sealed.
    pub fn encode(&self) -> Vec<u8> {
        let end = self.end.as_deref().unwrap_or_default();
        let mut out = Vec::with_capacity(HEAD_BYTES + end.len());
        out.push(u8::from(self.end.is_some()) * HAS_END + u8::from(self.lost) * IS_LOST);
        out.extend_from_slice(&self.tally.keys.to_le_bytes());
        out.extend_from_slice(&self.tally.sum.to_le_bytes());
        out.extend_from_slice(end);
        out
    }

    /// Of what was stored, when its seal has been tried.
    pub fn decode(start: &[u8], stored: &[u8]) -> Result<Fence, EngineError> {
        let refused = || EngineError::Corrupt(format!("the fence at key {} does not decode", start.escape_ascii()));
        let (head, end) = stored.split_first_chunk::<HEAD_BYTES>().ok_or_else(refused)?;
        let (flags, rest) = (head[0], &head[1..]);
        let (keys, sum) = rest.split_first_chunk::<4>().ok_or_else(refused)?;
        let sum: [u8; 8] = sum.try_into().map_err(|_| refused())?;
        if flags & !(HAS_END | IS_LOST) != 0 || (flags & HAS_END == 0 && !end.is_empty()) {
            return Err(refused());
        }
        Ok(Fence {
            start: start.to_vec(),
            end: (flags & HAS_END != 0).then(|| end.to_vec()),
            tally: Tally { keys: u32::from_le_bytes(*keys), sum: u64::from_le_bytes(sum) },
            lost: flags & IS_LOST != 0,
        })
    }
}

/// Which spaces there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roll(BTreeMap<SpaceId, u8>);

impl Roll {
    /// What is stored, before it is sealed.
    pub fn encode(&self) -> Vec<u8> {
        self.0.iter().flat_map(|(space, flags)| space.0.to_be_bytes().into_iter().chain([*flags])).collect()
    }

    /// Of what was stored, when its seal has been tried.
    pub fn decode(stored: &[u8]) -> Result<Roll, EngineError> {
        let entries = stored.chunks(ROLL_ENTRY_BYTES).map(|entry| {
            let (space, flags) = entry.split_first_chunk::<8>()?;
            Some((SpaceId(u64::from_be_bytes(*space)), *flags.first()?))
        });
        let roll: Option<BTreeMap<SpaceId, u8>> = entries.collect();
        roll.map(Roll).ok_or_else(|| EngineError::Corrupt("the roll of spaces does not decode".into()))
    }

    /// Every space with pairs or a durable index.
    pub fn spaces(&self) -> Vec<SpaceId> {
        self.0.keys().copied().collect()
    }

    /// Whether the space has pairs.
    pub fn has_fences(&self, space: SpaceId) -> bool {
        self.has(space, HAS_FENCES)
    }

    /// Whether the space has a durable index.
    pub fn has_index(&self, space: SpaceId) -> bool {
        self.has(space, HAS_INDEX)
    }

    /// Pairs come into a space that had none, or its last one goes.
    pub fn set_fences(&mut self, space: SpaceId, there: bool) {
        self.set(space, HAS_FENCES, there);
    }

    /// A durable index comes or goes.
    pub fn set_index(&mut self, space: SpaceId, there: bool) {
        self.set(space, HAS_INDEX, there);
    }

    /// A space is dropped.
    pub fn remove(&mut self, space: SpaceId) {
        self.0.remove(&space);
    }

    fn has(&self, space: SpaceId, flag: u8) -> bool {
        self.0.get(&space).is_some_and(|flags| flags & flag != 0)
    }

    fn set(&mut self, space: SpaceId, flag: u8, there: bool) {
        let flags = self.0.entry(space).or_default();
        *flags = if there { *flags | flag } else { *flags & !flag };
        if *flags == 0 {
            self.0.remove(&space);
        }
    }
}

/// Sees pairs as stored, keys without the space; breaks, continues, or fails.
pub type PairVisit<'v> = &'v mut dyn FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, EngineError>;

/// What is proved: one instant of an engine, as found, right or wrong.
pub trait FencedView {
    /// The last fence of the space that starts below `key` (`at_too`: or at it); `None`: the last of all.
    fn fence_below(&self, space: SpaceId, key: Option<&[u8]>, at_too: bool) -> Result<Option<Fence>, EngineError>;

    /// Visits the pairs of a range.
    fn pairs(
        &self,
        space: SpaceId,
        range: KeyRange<'_>,
        direction: Direction,
        visit: PairVisit<'_>,
    ) -> Result<(), EngineError>;

    /// The roll.
    fn roll(&self) -> Result<Roll, EngineError>;
}

fn broken(space: SpaceId, key: &[u8], what: &str) -> EngineError {
    EngineError::Corrupt(format!(
        "the keys of space {} from {} on cannot be proved: {what}; rebuild the replica from a peer",
        space.0,
        key.escape_ascii()
    ))
}

/// The fence around a key. `None`: the space is proved to be empty.
fn around(view: &impl FencedView, space: SpaceId, key: &[u8]) -> Result<Option<Fence>, EngineError> {
    match view.fence_below(space, Some(key), true)? {
        Some(fence) if fence.holds(key) => Ok(Some(fence)),
        None if !view.roll()?.has_fences(space) => Ok(None),
        _ => Err(broken(space, key, "its fence is lost")),
    }
}

/// Keys as a walk meets them. A key that a damaged branch sent astray may lie in its own run, which then adds up, and among
/// the wrong neighbours.
struct Order {
    last: Vec<u8>,
    any: bool,
    direction: Direction,
}

impl Order {
    fn new(direction: Direction) -> Order {
        Order { last: Vec::new(), any: false, direction }
    }

    fn step(&mut self, space: SpaceId, key: &[u8]) -> Result<(), EngineError> {
        let follows = match self.direction {
            Direction::Forward => *self.last < *key,
            Direction::Backward => *key < *self.last,
        };
        if self.any && !follows {
            return Err(broken(space, key, "its keys are out of order"));
        }
        self.any = true;
        self.last.clear();
        self.last.extend_from_slice(key);
        Ok(())
    }
}

/// Whether a key that was not found is not there: an error where that cannot be told.
pub fn prove_absent(view: &impl FencedView, space: SpaceId, key: &[u8]) -> Result<(), EngineError> {
    let Some(fence) = around(view, space, key)? else { return Ok(()) };
    let mut tally = Tally::default();
    let run = KeyRange { start: &fence.start, end: fence.end.as_deref() };
    let mut met = false;
    view.pairs(space, run, Direction::Forward, &mut |found, _| {
        tally.add(found);
        met |= found == key;
        Ok(ControlFlow::Continue(()))
    })?;
    if met {
        return Err(broken(space, key, "a key is met in a walk and not found by itself"));
    }
    fence.check(space, tally)
}

/// Whether a durable index that was not found is not there.
pub fn prove_no_index(view: &impl FencedView, space: SpaceId) -> Result<(), EngineError> {
    match view.roll()?.has_index(space) {
        false => Ok(()),
        true => Err(EngineError::Corrupt(format!(
            "the durable index of space {} is lost; rebuild the replica from a peer",
            space.0
        ))),
    }
}

/// Visits a range and proves that nothing of it was left out. Each run is proved when its last pair has been met, also
/// where `visit` breaks before: what was visited counts only if this returns `Ok`.
pub fn range(
    view: &impl FencedView,
    space: SpaceId,
    range: KeyRange<'_>,
    direction: Direction,
    visit: PairVisit<'_>,
) -> Result<(), EngineError> {
    if range.end.is_some_and(|end| end <= range.start) {
        return Ok(());
    }
    match direction {
        Direction::Forward => forward(view, space, range, visit),
        Direction::Backward => backward(view, space, range, visit),
    }
}

fn forward(
    view: &impl FencedView,
    space: SpaceId,
    range: KeyRange<'_>,
    visit: PairVisit<'_>,
) -> Result<(), EngineError> {
    let Some(mut fence) = around(view, space, range.start)? else { return Ok(()) };
    let (mut tally, mut done, mut over) = (Tally::default(), false, false);
    let next = |fence: &Fence| -> Result<Fence, EngineError> {
        let start = fence.end.as_deref().unwrap_or_default();
        let next = view.fence_below(space, Some(start), true)?.filter(|next| *next.start == *start);
        next.ok_or_else(|| broken(space, start, "its fence is lost"))
    };
    let first = fence.start.clone();
    let mut order = Order::new(Direction::Forward);
    view.pairs(space, KeyRange { start: &first, end: None }, Direction::Forward, &mut |key, stored| {
        order.step(space, key)?;
        if *key < *fence.start {
            return Err(broken(space, key, "its keys are out of order"));
        }
        while !fence.holds(key) {
            fence.check(space, tally)?;
            if done || fence.reaches(range.end) {
                over = true;
                return Ok(ControlFlow::Break(()));
            }
            (fence, tally) = (next(&fence)?, Tally::default());
        }
        tally.add(key);
        if !done && key >= range.start && range.end.is_none_or(|end| key < end) {
            done = visit(key, stored)?.is_break();
        }
        Ok(ControlFlow::Continue(()))
    })?;
    while !over {
        fence.check(space, tally)?;
        over = done || fence.reaches(range.end);
        if !over {
            (fence, tally) = (next(&fence)?, Tally::default());
        }
    }
    Ok(())
}

fn backward(
    view: &impl FencedView,
    space: SpaceId,
    range: KeyRange<'_>,
    visit: PairVisit<'_>,
) -> Result<(), EngineError> {
    let lost = |key: &[u8]| broken(space, key, "its fence is lost");
    let mut fence = match view.fence_below(space, range.end, false)? {
        Some(fence) if fence.reaches(range.end) => fence,
        None if !view.roll()?.has_fences(space) => return Ok(()),
        _ => return Err(lost(range.start)),
    };
    let (mut tally, mut done, mut over) = (Tally::default(), false, false);
    let next = |fence: &Fence| -> Result<Fence, EngineError> {
        let next = view.fence_below(space, Some(&fence.start), false)?;
        next.filter(|next| next.end.as_deref() == Some(&fence.start)).ok_or_else(|| lost(&fence.start))
    };
    let last = fence.end.clone();
    let whole = KeyRange { start: &[], end: last.as_deref() };
    let mut order = Order::new(Direction::Backward);
    view.pairs(space, whole, Direction::Backward, &mut |key, stored| {
        order.step(space, key)?;
        while *key < *fence.start {
            fence.check(space, tally)?;
            if done || *fence.start <= *range.start {
                over = true;
                return Ok(ControlFlow::Break(()));
            }
            (fence, tally) = (next(&fence)?, Tally::default());
        }
        if !fence.holds(key) {
            return Err(broken(space, key, "its keys are out of order"));
        }
        tally.add(key);
        if !done && key >= range.start && range.end.is_none_or(|end| key < end) {
            done = visit(key, stored)?.is_break();
        }
        Ok(ControlFlow::Continue(()))
    })?;
    while !over {
        fence.check(space, tally)?;
        over = done || *fence.start <= *range.start;
        if !over {
            (fence, tally) = (next(&fence)?, Tally::default());
        }
    }
    Ok(())
}

/// A key that comes, or goes. Overwritten ones are no change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyChange<'a> {
    /// In this space.
    pub space: SpaceId,
    /// The key.
    pub key: &'a [u8],
    /// It was not there and will be, or the other way.
    pub added: bool,
}

/// What a write has to change of fences and roll.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Fences by space and start, in order; `None`: it goes.
    pub fences: Vec<(SpaceId, Vec<u8>, Option<Fence>)>,
    /// The new roll, if it is another.
    pub roll: Option<Roll>,
}

/// What becomes of fences by changes of keys (ascending by space and key) and of durable indexes (whether one is
/// there afterwards). `applied`: the view's pairs are those behind the changes, not before them. Damage stays where it is.
pub fn plan(
    view: &impl FencedView,
    changes: &[KeyChange<'_>],
    indexes: impl IntoIterator<Item = (SpaceId, bool)>,
    applied: bool,
) -> Result<Plan, EngineError> {
    let mut plan = Plan::default();
    // A damaged roll stays as it is; opening the engine recreates it.
    let before = match view.roll() {
        Err(EngineError::Corrupt(_)) => None,
        roll => Some(roll?),
    };
    let mut roll = before.clone().unwrap_or_default();
    let mut left = changes;
    while let Some(first) = left.first() {
        let fence = match around(view, first.space, first.key) {
            Ok(None) if !first.added => None,
            Ok(None) => {
                roll.set_fences(first.space, true);
                Some(Fence::default())
            }
            Err(EngineError::Corrupt(_)) => None,
            fence => fence?,
        };
        let Some(fence) = fence else {
            left = &left[1..];
            continue;
        };
        let count = left.iter().take_while(|one| one.space == first.space && fence.holds(one.key)).count();
        let (group, rest) = left.split_at(count);
        change_run(view, fence, group, applied, &mut plan, &mut roll)?;
        left = rest;
    }
    for (space, there) in indexes {
        roll.set_index(space, there);
    }
    plan.roll = before.filter(|before| *before != roll).map(|_| roll);
    Ok(plan)
}

fn change_run(
    view: &impl FencedView,
    mut fence: Fence,
    group: &[KeyChange<'_>],
    applied: bool,
    plan: &mut Plan,
    roll: &mut Roll,
) -> Result<(), EngineError> {
    let Some(space) = group.first().map(|one| one.space) else { return Ok(()) };
    for change in group {
        match change.added {
            true => fence.tally.add(change.key),
            false => fence.tally.remove(change.key),
        }
    }
    if fence.tally.keys > FENCE_KEYS_MAX && !fence.lost {
        match divided(space, &fence, &keys_behind(view, &fence, group, applied)?) {
            Some(pieces) => {
                plan.fences.extend(pieces.into_iter().map(|piece| (space, piece.start.clone(), Some(piece))));
                return Ok(());
            }
            None => fence.lost = true,
        }
    }
    if fence.tally != Tally::default() || fence.lost {
        plan.fences.push((space, fence.start.clone(), Some(fence)));
    } else if !fence.start.is_empty() {
        join_before(view, space, fence, plan)?;
    } else {
        plan.fences.push((space, Vec::new(), Some(fence)));
    }
    // Of a space without pairs nothing stays.
    let is_empty = |fence: &Fence| fence.end.is_none() && fence.tally == Tally::default() && !fence.lost;
    if let Some((_, start, last)) = plan.fences.iter_mut().rev().find(|(_, _, fence)| fence.is_some()) {
        if start.is_empty() && last.as_ref().is_some_and(is_empty) {
            *last = None;
            roll.set_fences(space, false);
        }
    }
    Ok(())
}

/// An empty run becomes part of the one before it, if that is there.
fn join_before(view: &impl FencedView, space: SpaceId, fence: Fence, plan: &mut Plan) -> Result<(), EngineError> {
    let is_before = |one: &Fence| one.end.as_deref() == Some(&fence.start[..]);
    if let Some((of, _, Some(before))) = plan.fences.iter_mut().rev().find(|(_, _, fence)| fence.is_some()) {
        if *of == space && is_before(before) {
            before.end = fence.end;
            plan.fences.push((space, fence.start, None));
            return Ok(());
        }
    }
    match view.fence_below(space, Some(&fence.start), false) {
        Ok(Some(before)) if is_before(&before) => {
            let joined = Fence { end: fence.end, ..before };
            plan.fences.push((space, joined.start.clone(), Some(joined)));
            plan.fences.push((space, fence.start, None));
        }
        Ok(_) | Err(EngineError::Corrupt(_)) => plan.fences.push((space, fence.start.clone(), Some(fence))),
        Err(error) => return Err(error),
    }
    Ok(())
}

/// The keys of a run behind the changes, ascending.
fn keys_behind(
    view: &impl FencedView,
    fence: &Fence,
    group: &[KeyChange<'_>],
    applied: bool,
) -> Result<Vec<Vec<u8>>, EngineError> {
    let Some(space) = group.first().map(|one| one.space) else { return Ok(Vec::new()) };
    let mut keys = Vec::new();
    let run = KeyRange { start: &fence.start, end: fence.end.as_deref() };
    view.pairs(space, run, Direction::Forward, &mut |key, _| {
        keys.push(key.to_vec());
        Ok(ControlFlow::Continue(()))
    })?;
    if !applied {
        keys.retain(|key| group.binary_search_by(|one| one.key.cmp(key)).map_or(true, |at| group[at].added));
        keys.extend(group.iter().filter(|one| one.added).map(|one| one.key.to_vec()));
        keys.sort_unstable();
    }
    Ok(keys)
}

/// The pieces of a run with these keys; `None`: they are not the keys that its fence knows.
fn divided(space: SpaceId, fence: &Fence, keys: &[Vec<u8>]) -> Option<Vec<Fence>> {
    let mut tally = Tally::default();
    keys.iter().for_each(|key| tally.add(key));
    fence.check(space, tally).ok()?;
    let chunks: Vec<&[Vec<u8>]> = keys.chunks(FENCE_KEYS).collect();
    let mut pieces: Vec<Fence> = Vec::with_capacity(chunks.len());
    for (at, chunk) in chunks.iter().enumerate() {
        let mut piece = Fence { start: fence.start.clone(), end: fence.end.clone(), ..Fence::default() };
        chunk.iter().for_each(|key| piece.tally.add(key));
        if let Some(before) = at.checked_sub(1).and_then(|before| chunks[before].last()) {
            piece.start = boundary(before, chunk.first()?);
            pieces.last_mut()?.end = Some(piece.start.clone());
        }
        pieces.push(piece);
    }
    Some(pieces)
}

/// The shortest key above `before` and not above `next`.
fn boundary(before: &[u8], next: &[u8]) -> Vec<u8> {
    let shared = before.iter().zip(next).take_while(|(left, right)| left == right).count();
    next[..next.len().min(shared + 1)].to_vec()
}

/// Fences for pairs that have none yet: those of a whole space, found as they are.
pub fn of_space(view: &impl FencedView, space: SpaceId) -> Result<Vec<Fence>, EngineError> {
    let mut fences = vec![Fence::default()];
    let mut last: Vec<u8> = Vec::new();
    view.pairs(space, KeyRange::ALL, Direction::Forward, &mut |key, _| {
        if fences.last().is_none_or(|fence| fence.tally.keys as usize >= FENCE_KEYS) {
            let start = boundary(&last, key);
            if let Some(before) = fences.last_mut() {
                before.end = Some(start.clone());
            }
            fences.push(Fence { start, ..Fence::default() });
        }
        fences.iter_mut().next_back().into_iter().for_each(|fence| fence.tally.add(key));
        key.clone_into(&mut last);
        Ok(ControlFlow::Continue(()))
    })?;
    fences.retain(|fence| fence.tally != Tally::default());
    Ok(fences)
}

#[cfg(test)]
mod tests;
