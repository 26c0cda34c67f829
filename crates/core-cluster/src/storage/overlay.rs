//! The ordered in-memory layer in front of the engine: what is applied and not yet written out.
//!
//!   reads:  active ─▶ frozen (being written) ─▶ engine
//!
//! Always: the bytes counted are those held (`invariants.rs`, mutant `FlushedCounted`). Applying changes only `active`;
//! `frozen` stays until the engine has it durably (mutant `OverlayLost`), and a deletion is a tombstone until then (mutant
//! `DeleteLostInFlush`). Keys start with the backend's byte.
//! Not here: when to freeze (flush.rs).

use crate::api::Layer;
use base_engine::{Direction, Engine, EngineError, KeyRange, Visit};
use base_types::mutant::{planted, Mutant};
use base_types::SpaceId;
use bytes::Bytes;
use core_backends::{Keep, SpaceRead, SpaceWrite};
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bytes counted for a pair beside its key and value.
const PAIR_OVERHEAD_BYTES: u64 = 96;
/// Damaged keys that are remembered until somebody takes them: the others are met again.
const DAMAGE_SEEN_MAX: usize = 256;
/// Pairs that are looked at for the one that made a range fail.
const LOOKED_AT_MAX: usize = 16_384;
/// And after that pair, for more.
const LOOKED_AT_BEHIND: usize = 1_000;

/// A key with its new value, or (`None`) its tombstone.
type Pair<'a> = (&'a Bytes, &'a Option<Bytes>);

/// The layers of one replica.
#[derive(Default, Debug)]
pub struct Overlay {
    active: Layer,
    /// LaneContext with the engine's thread, which writes it out.
    frozen: Option<Arc<Layer>>,
    active_bytes: u64,
    frozen_bytes: u64,
    /// What an entry has changed so far, to be taken back if it cannot be applied to its end: each key with
    /// what `active` held, and its bytes before.
    undo: Option<(Vec<Change>, u64)>,
    /// A hash of what the entry has changed so far, in its order (chain.rs).
    changes: u64,
    /// Keys of which the engine has said that they are damaged, since somebody last took them.
    damage_seen: RefCell<BTreeSet<Bytes>>,
    /// The engine has said since then that keys of a range are lost: which ones, it cannot tell.
    loss_seen: Cell<bool>,
    /// How long the state machines keep what they keep.
    keep: Keep,
}

/// A key, and what the layer held of it.
type Change = (Bytes, Option<Option<Bytes>>);

impl Overlay {
    pub fn bytes(&self) -> u64 {
        self.active_bytes + self.frozen_bytes
    }

    /// The same, counted again.
    pub fn walked_bytes(&self) -> u64 {
        let pair = |(key, value): Pair| {
            key.len() as u64 + value.as_ref().map_or(0, |value| value.len() as u64) + PAIR_OVERHEAD_BYTES
        };
        self.active.iter().chain(self.frozen.iter().flat_map(|frozen| frozen.iter())).map(pair).sum()
    }

    pub fn is_frozen(&self) -> bool {
        self.frozen.is_some()
    }

    /// Moves the active layer aside to be written out, and gives it.
    pub fn freeze(&mut self) -> Arc<Layer> {
        assert!(self.frozen.is_none(), "a layer is being written already");
        self.frozen_bytes = std::mem::take(&mut self.active_bytes);
        self.frozen.insert(Arc::new(std::mem::take(&mut self.active))).clone()
    }

    /// The frozen layer is durable in the engine: it is handed out, to be let go of where nobody waits.
    pub fn thaw(&mut self) -> Option<Arc<Layer>> {
        if planted(Mutant::OverlayLost) {
            self.active.clear();
            self.active_bytes = 0;
        }
        if !planted(Mutant::FlushedCounted) {
            self.frozen_bytes = 0;
        }
        self.frozen.take()
    }

    /// Empty, for state machines that keep things so long.
    pub fn new(keep: Keep) -> Overlay {
        Overlay { keep, ..Overlay::default() }
    }

    /// Everything is replaced (a snapshot was installed).
    pub fn clear(&mut self) {
        *self = Overlay::new(self.keep);
    }

    /// Changes from here on can be taken back.
    pub fn begin(&mut self) {
        self.undo = Some((Vec::new(), self.active_bytes));
        self.changes = 0;
    }

    /// They stay. Gives the hash of all of them.
    pub fn commit(&mut self) -> u64 {
        self.undo = None;
        self.changes
    }

    /// They are taken back.
    pub fn roll_back(&mut self) {
        let Some((changes, bytes)) = self.undo.take() else { return };
        let mut changes = changes;
        if !planted(Mutant::RollBackForwards) {
            changes.reverse();
        }
        for (key, old) in changes {
            match old {
                Some(value) => drop(self.active.insert(key, value)),
                None => drop(self.active.remove(&key)),
            }
        }
        self.active_bytes = bytes;
    }

    /// The engine says that this key is damaged.
    pub fn see_damage(&self, key: &[u8]) {
        let mut seen = self.damage_seen.borrow_mut();
        if seen.len() < DAMAGE_SEEN_MAX {
            seen.insert(Bytes::copy_from_slice(key));
        }
    }

    /// Whether any key that was seen to be damaged is so.
    pub fn has_seen_damage(&self, is: impl Fn(&Bytes) -> bool) -> bool {
        self.damage_seen.borrow().iter().any(is)
    }

    /// What was seen since this was last asked.
    pub fn take_damage_seen(&self) -> BTreeSet<Bytes> {
        self.damage_seen.take()
    }

    /// Whether the engine has said that keys are lost.
    pub fn has_seen_loss(&self) -> bool {
        self.loss_seen.get()
    }

    /// The same, since this was last asked.
    pub fn take_loss_seen(&self) -> bool {
        self.loss_seen.take()
    }

    /// Reads what is only checked: the damage that it meets is not noted, and nothing follows from it.
    pub fn unnoted<T>(&self, read: impl FnOnce() -> T) -> T {
        let (seen, lost) = (self.damage_seen.borrow().clone(), self.loss_seen.get());
        let done = read();
        self.damage_seen.replace(seen);
        self.loss_seen.set(lost);
        done
    }

    /// Whether a key is here, or its tombstone: the engine's value of it counts no more.
    pub fn holds(&self, key: &[u8]) -> bool {
        self.lookup(key).is_some()
    }

    fn set(&mut self, key: Bytes, value: Option<Bytes>) {
        if self.undo.is_some() {
            self.changes = changed(self.changes, &key, value.as_deref());
        }
        let added = key.len() as u64 + value.as_ref().map_or(0, |value| value.len() as u64) + PAIR_OVERHEAD_BYTES;
        let key_bytes = key.len() as u64;
        self.active_bytes += added;
        let undone = self.undo.as_ref().map(|_| key.clone());
        let old = self.active.insert(key, value);
        if let Some(old) = &old {
            let removed = key_bytes + old.as_ref().map_or(0, |old| old.len() as u64) + PAIR_OVERHEAD_BYTES;
            self.active_bytes = self.active_bytes.saturating_sub(removed);
        }
        if let (Some(key), Some((changes, _))) = (undone, self.undo.as_mut()) {
            changes.push((key, old));
        }
    }

    fn lookup(&self, key: &[u8]) -> Option<&Option<Bytes>> {
        self.active.get(key).or_else(|| self.frozen.as_ref().and_then(|frozen| frozen.get(key)))
    }
}

/// The hash of an entry's changes with one more change.
fn changed(changes: u64, key: &[u8], value: Option<&[u8]>) -> u64 {
    let keyed = xxh3_64_with_seed(key, changes);
    value.map_or(!keyed, |value| xxh3_64_with_seed(value, keyed))
}

/// The whole space of a replica, read through its overlay.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub overlay: &'a Overlay,
    pub engine: &'a dyn Engine,
    pub space: SpaceId,
}

/// What an overlay range yields: key, and value or tombstone; nearer layers first decided.
struct LayerWalk<'a> {
    sources: [std::iter::Peekable<Box<dyn Iterator<Item = Pair<'a>> + 'a>>; 2],
    direction: Direction,
}

impl<'a> LayerWalk<'a> {
    fn new(overlay: &'a Overlay, start: &[u8], end: Option<&[u8]>, direction: Direction) -> LayerWalk<'a> {
        let walk = |layer: Option<&'a Layer>| {
            let iterator: Box<dyn Iterator<Item = Pair<'a>> + 'a> = match layer {
                Some(layer) if end.is_none_or(|end| start < end) => {
                    let range =
                        layer.range::<[u8], _>((Bound::Included(start), end.map_or(Bound::Unbounded, Bound::Excluded)));
                    match direction {
                        Direction::Forward => Box::new(range),
                        Direction::Backward => Box::new(range.rev()),
                    }
                }
                _ => Box::new(std::iter::empty()),
            };
            iterator.peekable()
        };
        let frozen = if planted(Mutant::ScanSkipsOverlay) { None } else { overlay.frozen.as_deref() };
        LayerWalk { sources: [walk(Some(&overlay.active)), walk(frozen)], direction }
    }

    /// How two keys follow each other in the walk's direction.
    fn order(&self, left: &[u8], right: &[u8]) -> Ordering {
        match self.direction {
            Direction::Forward => left.cmp(right),
            Direction::Backward => right.cmp(left),
        }
    }

    fn peek(&mut self) -> Option<&'a Bytes> {
        let first = self.sources[0].peek().map(|(key, _)| *key);
        let second = self.sources[1].peek().map(|(key, _)| *key);
        match (first, second) {
            (Some(a), Some(b)) => Some(if self.order(b, a) == Ordering::Less { b } else { a }),
            (one, other) => one.or(other),
        }
    }

    fn next(&mut self) -> Option<(&'a Bytes, &'a Option<Bytes>)> {
        let key = self.peek()?;
        let nearer = self.sources[0].next_if(|(candidate, _)| *candidate == key);
        let farther = self.sources[1].next_if(|(candidate, _)| *candidate == key);
        nearer.or(farther)
    }
}

impl View<'_> {
    /// A key of the whole space (backend byte in front).
    pub fn get_raw(&self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        match self.overlay.lookup(key) {
            Some(value) => Ok(value.clone()),
            None => self.engine.get(self.space, key).inspect_err(|error| {
                if matches!(error, EngineError::Corrupt(_)) {
                    self.overlay.see_damage(key);
                }
            }),
        }
    }

    /// A range could not be read: the first damaged pairs in it are noted, if they are what it was.
    pub fn look_for_damage(&self, start: &[u8], end: Option<&[u8]>) {
        let (mut left, mut found) = (LOOKED_AT_MAX, false);
        // A second failure is the first one again; damage without keys means that keys are lost.
        let walked = self.engine.walk(self.space, KeyRange { start, end }, &mut |key, value| {
            left -= 1;
            if value.is_none() {
                self.overlay.see_damage(key);
            }
            if value.is_none() && !std::mem::replace(&mut found, true) {
                left = left.min(LOOKED_AT_BEHIND);
            }
            if left == 0 {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        if matches!(walked, Err(EngineError::Corrupt(_))) {
            self.overlay.loss_seen.set(true);
        }
    }

    /// A range of the whole space: engine and overlay merged.
    pub fn range_raw(
        &self,
        start: &[u8],
        end: Option<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), EngineError> {
        let mut layers = LayerWalk::new(self.overlay, start, end, direction);
        let mut stopped = false;
        let mut on_engine = |key: &[u8], value: &[u8]| {
            // Each pair of the engine meets the nearest of the layers once.
            let flow = loop {
                let order = layers.peek().map_or(Ordering::Greater, |near| layers.order(near, key));
                if order == Ordering::Greater {
                    break visit(key, value);
                }
                let (near, new) = layers.next().expect("peeked");
                let flow = new.as_ref().map_or(ControlFlow::Continue(()), |new| visit(near, new));
                if order == Ordering::Equal || flow.is_break() {
                    break flow;
                }
            };
            stopped = flow.is_break();
            flow
        };
        let read = self.engine.range(self.space, KeyRange { start, end }, direction, &mut on_engine);
        if matches!(read, Err(EngineError::Corrupt(_))) {
            self.look_for_damage(start, end);
        }
        read?;
        if stopped {
            return Ok(());
        }
        while let Some((key, value)) = layers.next() {
            if let Some(value) = value {
                if visit(key, value).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

fn prefixed(backend: u8, key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(key.len() + 1);
    out.push(backend);
    out.extend_from_slice(key);
    out
}

fn backend_range(
    view: &View<'_>,
    backend: u8,
    range: KeyRange<'_>,
    direction: Direction,
    visit: Visit<'_>,
) -> Result<(), EngineError> {
    let start = prefixed(backend, range.start);
    let end = range.end.map_or_else(|| vec![backend + 1], |end| prefixed(backend, end));
    view.range_raw(&start, Some(&end), direction, &mut |key, value| visit(&key[1..], value))
}

/// One backend's part of the space, to be read.
pub struct BackendView<'a> {
    pub view: View<'a>,
    pub backend: u8,
}

impl SpaceRead for BackendView<'_> {
    fn keep(&self) -> Keep {
        self.view.overlay.keep
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.view.get_raw(&prefixed(self.backend, key))
    }

    fn range(&self, range: KeyRange<'_>, direction: Direction, visit: Visit<'_>) -> Result<(), EngineError> {
        backend_range(&self.view, self.backend, range, direction, visit)
    }
}

/// One backend's part of the space, to be changed by applying.
pub struct BackendSpace<'a> {
    pub overlay: &'a mut Overlay,
    pub engine: &'a dyn Engine,
    pub space: SpaceId,
    pub backend: u8,
}

impl BackendSpace<'_> {
    fn view(&self) -> View<'_> {
        View { overlay: self.overlay, engine: self.engine, space: self.space }
    }
}

impl SpaceRead for BackendSpace<'_> {
    fn keep(&self) -> Keep {
        self.overlay.keep
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.view().get_raw(&prefixed(self.backend, key))
    }

    fn range(&self, range: KeyRange<'_>, direction: Direction, visit: Visit<'_>) -> Result<(), EngineError> {
        backend_range(&self.view(), self.backend, range, direction, visit)
    }
}

impl SpaceWrite for BackendSpace<'_> {
    fn put(&mut self, key: Bytes, value: Bytes) {
        self.overlay.set(Bytes::from(prefixed(self.backend, &key)), Some(value));
    }

    fn delete(&mut self, key: Bytes) {
        self.overlay.set(Bytes::from(prefixed(self.backend, &key)), None);
    }
}

impl Overlay {
    /// Sets a key of the whole space.
    pub fn put_raw(&mut self, key: Bytes, value: Bytes) {
        self.set(key, Some(value));
    }

    /// Removes a key of the whole space.
    pub fn delete_raw(&mut self, key: Bytes) {
        self.set(key, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_a_change_counts() {
        let base = changed(0, b"key", Some(b"value"));
        for other in [
            changed(0, b"keyv", Some(b"alue")),
            changed(0, b"key", None),
            changed(0, b"key", Some(b"")),
            changed(1, b"key", Some(b"value")),
        ] {
            assert_ne!(other, base);
        }
        assert_ne!(changed(0, b"key", None), changed(0, b"key", Some(b"")));
    }

    /// `cargo test --release -p core-cluster --lib cost_of_a_change -- --ignored --nocapture`
    #[test]
    #[ignore = "measures"]
    fn cost_of_a_change() {
        for bytes in [16, 128, 1024] {
            let (key, value, rounds) = ([7; 32], vec![9; bytes], 2_000_000_u64);
            let begun = std::time::Instant::now();
            let last = (0..rounds).fold(0, |changes, _| changed(changes, &key, Some(&value)));
            println!("{bytes} bytes: {:.1} ns a put ({last:x})", begun.elapsed().as_nanos() as f64 / rounds as f64);
        }
    }
}
