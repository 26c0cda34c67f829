//! What an engine does not hold yet: versions of keys in an ordered map that any thread reads and
//! writes without locks.
//!
//! A key's versions lie behind one another, the newest first; a delete is a version without a value.
//!
//! Always: a version, once there, does not change; the newest up to a number is found by one look-up.
//! Held by: `a_key_is_read_as_of_a_number`, `walks_skip_what_came_later`.
//! Not here: when a memory is given to the engine (`core.rs`).

use bytes::Bytes;
use crossbeam_skiplist::SkipMap;
use std::borrow::Borrow;
use std::cmp::Ordering as Order;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// After each of so many bytes the owner looks whether it should write.
const LOOK_BYTES: u64 = 4 << 20;
/// What a version costs beside its bytes: the map's node and two references.
pub const VERSION_BYTES: u64 = 160;

/// A version's place in the map. The key's first bytes lie beside it, so that most comparisons do not have
/// to follow the reference to the rest.
struct Version {
    prefix: u64,
    key: Bytes,
    number: u64,
}

/// A place without owning a key, for look-ups.
struct Place<'k> {
    prefix: u64,
    key: &'k [u8],
    number: u64,
}

impl<'k> Place<'k> {
    fn new(key: &'k [u8], number: u64) -> Place<'k> {
        Place { prefix: prefix(key), key, number }
    }
}

/// The first bytes of a key as a number that orders as they do (shorter keys: filled with zeros).
fn prefix(key: &[u8]) -> u64 {
    let mut first = [0; 8];
    let length = key.len().min(first.len());
    first[..length].copy_from_slice(&key[..length]);
    u64::from_be_bytes(first)
}

/// Both kinds of place, compared alike.
trait Placed {
    fn place(&self) -> (u64, &[u8], u64);
}

impl Placed for Version {
    fn place(&self) -> (u64, &[u8], u64) {
        (self.prefix, &self.key, self.number)
    }
}

impl Placed for Place<'_> {
    fn place(&self) -> (u64, &[u8], u64) {
        (self.prefix, self.key, self.number)
    }
}

impl<'p> PartialEq for dyn Placed + 'p {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Order::Equal
    }
}

impl<'p> Eq for dyn Placed + 'p {}

impl<'p> PartialOrd for dyn Placed + 'p {
    fn partial_cmp(&self, other: &Self) -> Option<Order> {
        Some(self.cmp(other))
    }
}

impl<'p> Ord for dyn Placed + 'p {
    /// By key, then the newest first.
    fn cmp(&self, other: &Self) -> Order {
        let ((prefix, key, number), (other_prefix, other_key, other_number)) = (self.place(), other.place());
        prefix.cmp(&other_prefix).then_with(|| key.cmp(other_key)).then(other_number.cmp(&number))
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Order::Equal
    }
}

impl Eq for Version {}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Order> {
        Some(self.cmp(other))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Order {
        (self as &dyn Placed).cmp(other as &dyn Placed)
    }
}

impl<'p> Borrow<dyn Placed + 'p> for Version {
    fn borrow(&self) -> &(dyn Placed + 'p) {
        self
    }
}

/// See the file's head.
#[derive(Default)]
pub struct Memory {
    map: SkipMap<Version, Option<Bytes>>,
    bytes: AtomicU64,
    mixed: AtomicBool,
}

/// A key and its value at some instant; `None`: deleted.
pub type Found = (Bytes, Option<Bytes>);

impl Memory {
    /// A new version of a key. The key must not have one of this number yet.
    pub fn put(&self, key: Bytes, number: u64, value: Option<Bytes>) {
        self.map.insert(Version { prefix: prefix(&key), key, number }, value);
    }

    /// Counts what was put; whether the owner should look, as it should after so many bytes.
    pub fn grow(&self, bytes: u64) -> bool {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        before / LOOK_BYTES != (before + bytes) / LOOK_BYTES
    }

    /// Marks it as holding a part of a batch over several cores.
    pub fn mix(&self) {
        self.mixed.store(true, Ordering::Release);
    }

    /// Whether it holds a part of a batch over several cores.
    pub fn is_mixed(&self) -> bool {
        self.mixed.load(Ordering::Acquire)
    }

    /// What was counted.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether nothing was ever put.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// The newest version up to `number`: `None` where there is none, `Some(None)` for a delete.
    pub fn get(&self, key: &[u8], number: u64) -> Option<Option<Bytes>> {
        // Most gets of a store that is read and not written: a look at a counter, not into the map. A writer that put
        // something counted it before that returned.
        if self.map.is_empty() {
            return None;
        }
        let place = Place::new(key, number);
        let entry = self.map.lower_bound(Bound::Included(&place as &dyn Placed))?;
        (entry.key().key == key).then(|| entry.value().clone())
    }

    /// The first key behind `after` (at it, if `included`) with a version up to `number`.
    pub fn next(&self, after: &[u8], included: bool, number: u64) -> Option<Found> {
        // Behind its oldest version, or at its newest.
        // (The number 0 is never given out.)
        let place = Place::new(after, if included { u64::MAX } else { 0 });
        let mut entry = self.map.lower_bound(Bound::Included(&place as &dyn Placed))?;
        loop {
            if entry.key().number <= number {
                return Some((entry.key().key.clone(), entry.value().clone()));
            }
            let key = entry.key().key.clone();
            let place = Place::new(&key, number);
            entry = self.map.lower_bound(Bound::Included(&place as &dyn Placed))?;
        }
    }

    /// The last key before `before` (`None`: of all) with a version up to `number`.
    pub fn previous(&self, before: Option<&[u8]>, number: u64) -> Option<Found> {
        let mut bound: Option<Bytes> = before.map(Bytes::copy_from_slice);
        loop {
            let oldest = match &bound {
                Some(key) => {
                    let place = Place::new(key, u64::MAX);
                    self.map.upper_bound(Bound::Excluded(&place as &dyn Placed))?
                }
                None => self.map.back()?,
            };
            let key = oldest.key().key.clone();
            if let Some(value) = self.get(&key, number) {
                return Some((key, value));
            }
            bound = Some(key);
        }
    }

    /// Each key with its newest version, in order.
    pub fn newest(&self) -> impl Iterator<Item = Found> + '_ {
        let mut last: Option<Bytes> = None;
        self.map.iter().filter_map(move |entry| {
            let key = &entry.key().key;
            if last.as_ref() == Some(key) {
                return None;
            }
            last = Some(key.clone());
            Some((key.clone(), entry.value().clone()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    fn memory() -> Memory {
        let memory = Memory::default();
        for (key, number, value) in
            [("b", 2, Some("b2")), ("a", 1, Some("a1")), ("b", 5, None), ("c", 6, Some("c6")), ("b", 7, Some("b7"))]
        {
            memory.put(bytes(key), number, value.map(bytes));
        }
        memory
    }

    #[test]
    fn a_key_is_read_as_of_a_number() {
        let memory = memory();
        assert_eq!(memory.get(b"b", 1), None);
        assert_eq!(memory.get(b"b", 4), Some(Some(bytes("b2"))));
        assert_eq!(memory.get(b"b", 5), Some(None));
        assert_eq!(memory.get(b"b", u64::MAX), Some(Some(bytes("b7"))));
        assert_eq!(memory.get(b"bb", u64::MAX), None);
        assert_eq!(memory.get(b"", u64::MAX), None);
    }

    #[test]
    fn walks_skip_what_came_later() {
        let memory = memory();
        let walk = |number| {
            let (mut out, mut at, mut included) = (Vec::new(), Bytes::new(), true);
            while let Some((key, value)) = memory.next(&at, included, number) {
                out.push((key.clone(), value));
                (at, included) = (key, false);
            }
            out
        };
        let back = |number| {
            let (mut out, mut at) = (Vec::new(), None::<Bytes>);
            while let Some((key, value)) = memory.previous(at.as_deref(), number) {
                out.push((key.clone(), value));
                at = Some(key);
            }
            out.reverse();
            out
        };
        let all =
            vec![(bytes("a"), Some(bytes("a1"))), (bytes("b"), Some(bytes("b7"))), (bytes("c"), Some(bytes("c6")))];
        assert_eq!((walk(9), back(9)), (all.clone(), all.clone()));
        assert_eq!(walk(5), [(bytes("a"), Some(bytes("a1"))), (bytes("b"), None)]);
        assert_eq!(back(5), walk(5));
        assert_eq!(walk(0), []);
        assert_eq!(back(1), walk(1));
        assert_eq!(memory.newest().collect::<Vec<_>>(), all);
    }
}
