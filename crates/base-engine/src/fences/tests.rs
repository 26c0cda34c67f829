//! What a walk over a damaged tree may show: its keys in any order, some lost, some of elsewhere.

use super::*;

const SPACE: SpaceId = SpaceId(7);

/// A tree that shows its pairs in the order they are listed in, with fences made of the right keys.
struct Tree {
    shown: Vec<&'static [u8]>,
    fences: Vec<Fence>,
}

impl Tree {
    fn of(keys: &[&'static [u8]], shown: &[&'static [u8]]) -> Tree {
        let mut fence = Fence::default();
        keys.iter().for_each(|key| fence.tally.add(key));
        Tree { shown: shown.to_vec(), fences: vec![fence] }
    }

    fn walk(&self, direction: Direction) -> Result<Vec<Vec<u8>>, EngineError> {
        let mut seen = Vec::new();
        range(self, SPACE, KeyRange::ALL, direction, &mut |key, _| {
            seen.push(key.to_vec());
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(seen)
    }
}

impl FencedView for Tree {
    fn fence_below(&self, _: SpaceId, key: Option<&[u8]>, at_too: bool) -> Result<Option<Fence>, EngineError> {
        let below = |fence: &&Fence| key.is_none_or(|key| *fence.start < *key || at_too && *fence.start == *key);
        Ok(self.fences.iter().rev().find(below).cloned())
    }

    fn pairs(
        &self,
        _: SpaceId,
        range: KeyRange<'_>,
        direction: Direction,
        visit: PairVisit<'_>,
    ) -> Result<(), EngineError> {
        let mut shown: Vec<&[u8]> = self.shown.clone();
        if direction == Direction::Backward {
            shown.reverse();
        }
        for key in shown.into_iter().filter(|key| *key >= range.start && range.end.is_none_or(|end| *key < end)) {
            if visit(key, b"value")?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn roll(&self) -> Result<Roll, EngineError> {
        let mut roll = Roll::default();
        roll.set_fences(SPACE, true);
        Ok(roll)
    }
}

#[test]
fn a_walk_is_in_order_or_refused() {
    let keys: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
    for direction in [Direction::Forward, Direction::Backward] {
        let right = Tree::of(&keys, &keys).walk(direction).unwrap();
        assert_eq!(right.len(), keys.len());
        // All keys are there, and add up: one lies among the wrong neighbours.
        for shown in [[b"a", b"c", b"b", b"d"], [b"b", b"c", b"d", b"a"]] {
            let shown = shown.map(|key| &key[..]);
            let found = Tree::of(&keys, &shown).walk(direction);
            assert!(matches!(&found, Err(EngineError::Corrupt(why)) if why.contains("out of order")), "{found:?}");
        }
        // One twice, another lost: no order shows it, the sum does.
        let found = Tree::of(&keys, &[b"a", b"b", b"d"]).walk(direction);
        assert!(matches!(found, Err(EngineError::Corrupt(_))), "{found:?}");
        let found = Tree::of(&keys, &[b"a", b"b", b"b", b"d"]).walk(direction);
        assert!(matches!(&found, Err(EngineError::Corrupt(why)) if why.contains("out of order")), "{found:?}");
    }
}
