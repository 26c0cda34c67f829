//! Fences and roll in the environment: how absence is proved here (`base_engine::fences`).
//!
//! Always: fences change in the transaction that changes the keys they are of; what is found damaged stays damaged.
//! Held by: `the_damage_stays`, `a_flipped_key_is_never_absence`.
//! Not here: what a fence proves (base-engine), making environments (`open.rs`).

use crate::environment::Environment;
use crate::failure::lmdb_failure;
use crate::format;
use crate::View;
use base_engine::fences::{self, Fence, FencedView, PairVisit, Plan, Roll};
use base_engine::{Direction, EngineError, KeyRange};
use base_types::SpaceId;
use heed::{AnyTls, RoTxn, RwTxn};
use std::ops::Bound;

impl FencedView for View<'_> {
    fn fence_below(&self, space: SpaceId, key: Option<&[u8]>, at_too: bool) -> Result<Option<Fence>, EngineError> {
        let database = &self.environment.fences;
        let bound = match key {
            Some(key) => Some(format::pair_key(space, key)),
            None => format::space_end(space).map(|end| end.to_vec()),
        };
        let found = match bound {
            Some(bound) if at_too => database.get_lower_than_or_equal_to(self.reader, &bound),
            Some(bound) => database.get_lower_than(self.reader, &bound),
            None => database.last(self.reader),
        };
        let found = found.map_err(|error| lmdb_failure("reading a fence", error))?;
        let Some((whole_key, stored)) = found else { return Ok(None) };
        match whole_key.strip_prefix(&space.0.to_be_bytes()) {
            Some(start) => Fence::decode(start, format::unseal(whole_key, stored)?).map(Some),
            None => Ok(None),
        }
    }

    fn pairs(
        &self,
        space: SpaceId,
        range: KeyRange<'_>,
        direction: Direction,
        visit: PairVisit<'_>,
    ) -> Result<(), EngineError> {
        let failed = |error: heed::Error| lmdb_failure("reading a range", error);
        let start = format::pair_key(space, range.start);
        let end = match range.end {
            Some(end) => Some(format::pair_key(space, end)),
            None => format::space_end(space).map(|end| end.to_vec()),
        };
        let bounds =
            (Bound::Included(&start[..]), end.as_ref().map_or(Bound::Unbounded, |end| Bound::Excluded(&end[..])));
        let mut each = |pair: heed::Result<(&[u8], &[u8])>| -> Result<bool, EngineError> {
            let (whole_key, stored) = pair.map_err(failed)?;
            Ok(visit(whole_key.get(format::SPACE_BYTES..).unwrap_or_default(), stored)?.is_continue())
        };
        let spaces = &self.environment.spaces;
        if direction == Direction::Forward {
            for pair in spaces.range(self.reader, &bounds).map_err(failed)? {
                if !each(pair)? {
                    return Ok(());
                }
            }
        } else {
            for pair in spaces.rev_range(self.reader, &bounds).map_err(failed)? {
                if !each(pair)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn roll(&self) -> Result<Roll, EngineError> {
        let stored = self.environment.meta.get(self.reader, format::ROLL_KEY);
        match stored.map_err(|error| lmdb_failure("reading the roll of spaces", error))? {
            Some(stored) => Roll::decode(format::unseal(format::ROLL_KEY, stored)?),
            None => Err(EngineError::Corrupt("the roll of spaces is lost; open the engine again".into())),
        }
    }
}

/// Writes what a plan says.
pub fn apply(environment: &Environment, transaction: &mut RwTxn<'_>, plan: &Plan) -> Result<(), EngineError> {
    let failed = |error: heed::Error| lmdb_failure("writing fences", error);
    let mut whole_key = Vec::new();
    for (space, start, fence) in &plan.fences {
        format::write_pair_key(&mut whole_key, *space, start);
        match fence {
            Some(fence) => {
                let sealed = format::sealed(&whole_key, &fence.encode());
                environment.fences.put(transaction, &whole_key, &sealed).map_err(failed)?;
            }
            None => drop(environment.fences.delete(transaction, &whole_key).map_err(failed)?),
        }
    }
    plan.roll.as_ref().map_or(Ok(()), |roll| put_roll(environment, transaction, roll))
}

/// Writes the roll.
pub fn put_roll(environment: &Environment, transaction: &mut RwTxn<'_>, roll: &Roll) -> Result<(), EngineError> {
    let sealed = format::sealed(format::ROLL_KEY, &roll.encode());
    let put = environment.meta.put(transaction, format::ROLL_KEY, &sealed);
    put.map_err(|error| lmdb_failure("writing the roll of spaces", error))
}

/// The roll of an environment that has none, or a damaged one: one seek a space, and a walk over the durable indexes.
pub fn found_roll(environment: &Environment, reader: &RoTxn<'_, AnyTls>) -> Result<Roll, EngineError> {
    let failed = |error: heed::Error| lmdb_failure("listing spaces", error);
    let mut roll = Roll::default();
    for database in [&environment.spaces, &environment.fences] {
        let mut next = Some(SpaceId(0));
        while let Some(space) = next {
            let pair = database.get_greater_than_or_equal_to(reader, &space.0.to_be_bytes()).map_err(failed)?;
            let Some((key, _)) = pair else { break };
            let space = format::space_of(key)?;
            roll.set_fences(space, true);
            next = space.0.checked_add(1).map(SpaceId);
        }
    }
    for pair in environment.meta.prefix_iter(reader, &[format::DURABLE_TAG]).map_err(failed)? {
        roll.set_index(format::durable_space(pair.map_err(failed)?.0)?, true);
    }
    Ok(roll)
}

/// Fences for all that an environment without them holds, and its roll.
pub fn make_all(environment: &Environment, transaction: &mut RwTxn<'_>) -> Result<(), EngineError> {
    let failed = |error: heed::Error| lmdb_failure("making fences", error);
    environment.fences.clear(transaction).map_err(failed)?;
    let roll = found_roll(environment, transaction)?;
    for space in roll.spaces() {
        let made = fences::of_space(&View { environment, reader: transaction }, space)?;
        let plan = Plan {
            fences: made.into_iter().map(|fence| (space, fence.start().to_vec(), Some(fence))).collect(),
            roll: None,
        };
        apply(environment, transaction, &plan)?;
    }
    put_roll(environment, transaction, &roll)
}
