//! Fences and roll in a raw store: how absence is proved there ([`crate::fences`]).
//!
//! Always: fences are written in the commit that changes the keys they are of.
//! Held by: `an_engine_without_fences_gets_them`, `a_flipped_key_is_never_absence`.
//! Not here: what a fence proves (`fences.rs`), which engines have them (`RawStore::FENCED`).

use super::changes::Changes;
use super::{first_key, format, RawStore, RawView};
use crate::fences::{self, Fence, FencedView, KeyChange, PairVisit, Plan, Roll};
use crate::{Direction, EngineError, KeyRange};
use base_types::SpaceId;
use std::ops::ControlFlow;

/// A raw view, to be proved.
pub struct Fenced<'a, V>(pub &'a V);

impl<V: RawView> FencedView for Fenced<'_, V> {
    fn fence_below(&self, space: SpaceId, key: Option<&[u8]>, at_too: bool) -> Result<Option<Fence>, EngineError> {
        let end = match key {
            // The first key behind `key` itself.
            Some(key) if at_too => [&format::fence_key(space, key)[..], &[0]].concat(),
            Some(key) => format::fence_key(space, key),
            None => format::fences_end(space),
        };
        let start = format::fence_key(space, &[]);
        let mut found = None;
        if start < end {
            self.0.range(&start, &end, Direction::Backward, &mut |whole_key, stored| {
                let start = whole_key.get(format::PREFIX_BYTES..).unwrap_or_default();
                found = Some(Fence::decode(start, format::unseal(whole_key, stored)?)?);
                Ok(ControlFlow::Break(()))
            })?;
        }
        Ok(found)
    }

    fn pairs(
        &self,
        space: SpaceId,
        range: KeyRange<'_>,
        direction: Direction,
        visit: PairVisit<'_>,
    ) -> Result<(), EngineError> {
        let start = format::pair_key(space, range.start);
        let end = range.end.map_or_else(|| format::space_end(space), |end| format::pair_key(space, end));
        if end <= start {
            return Ok(());
        }
        self.0.range(&start, &end, direction, &mut |whole_key, stored| {
            visit(whole_key.get(format::PREFIX_BYTES..).unwrap_or_default(), stored)
        })
    }

    fn roll(&self) -> Result<Roll, EngineError> {
        match self.0.get(format::ROLL_KEY)? {
            Some(stored) => Roll::decode(format::unseal(format::ROLL_KEY, &stored)?),
            None => Err(EngineError::Corrupt("the roll of spaces is lost; open the engine again".into())),
        }
    }
}

/// What the changes, about to be made to what the view shows, change of fences.
pub fn plan(view: &impl RawView, changes: &Changes<'_>) -> Result<Plan, EngineError> {
    let mut whole_key = Vec::new();
    let mut changed = Vec::new();
    for (space, key, added) in changes.keys() {
        format::write_pair_key(&mut whole_key, space, key);
        if view.get(&whole_key)?.is_some() != added {
            changed.push(KeyChange { space, key, added });
        }
    }
    fences::plan(&Fenced(view), &changed, changes.indexes(), false)
}

/// The whole keys of a space's fences.
pub fn keys_of(view: &impl RawView, start: &[u8], end: &[u8]) -> Result<Vec<Vec<u8>>, EngineError> {
    let mut keys = Vec::new();
    view.range(start, end, Direction::Forward, &mut |key, _| {
        keys.push(key.to_vec());
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(keys)
}

/// The roll of a store that has none, or a damaged one, by what is found.
fn found_roll(view: &impl RawView) -> Result<Roll, EngineError> {
    let mut roll = Roll::default();
    for tag in [format::DURABLE_TAG, format::PAIR_TAG, format::FENCE_TAG] {
        let mut start = vec![tag];
        while let Some(key) = first_key(view, &start, tag)? {
            let space = format::space_of(&key)?;
            match tag {
                format::DURABLE_TAG => roll.set_index(space, true),
                _ => roll.set_fences(space, true),
            }
            let Some(next) = space.0.checked_add(1) else { break };
            start = [&[tag][..], &next.to_be_bytes()].concat();
        }
    }
    Ok(roll)
}

/// Fences for all that a store of the version before them holds: all is read once. Cut short, it is begun again.
pub fn make_all<S: RawStore>(store: &S) -> Result<(), EngineError> {
    let view = store.view()?;
    let old = keys_of(&view, &[format::FENCE_TAG], &[format::FENCE_TAG + 1])?;
    if !old.is_empty() {
        store.commit(&Changes::default().without_fences(old, None))?;
    }
    let roll = found_roll(&view)?;
    for space in roll.spaces() {
        let made = fences::of_space(&Fenced(&view), space)?;
        let fences = made.into_iter().map(|fence| (space, fence.start().to_vec(), Some(fence))).collect();
        store.commit(&Changes::default().with_fences(Plan { fences, roll: None }))?;
    }
    drop(view);
    let roll = Plan { fences: Vec::new(), roll: Some(roll) };
    store.commit(&Changes::version(format::FENCED_VERSION).with_fences(roll))
}

/// A damaged roll is made of what is found: it only says which spaces are not empty.
pub fn repair_roll<S: RawStore>(store: &S) -> Result<(), EngineError> {
    let view = store.view()?;
    match Fenced(&view).roll() {
        Err(EngineError::Corrupt(_)) => {}
        other => return other.map(drop),
    }
    let roll = Plan { fences: Vec::new(), roll: Some(found_roll(&view)?) };
    drop(view);
    store.commit(&Changes::default().with_fences(roll))
}
