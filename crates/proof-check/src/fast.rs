//! Replays everything in the order the replies name, (index, position) in each cluster and
//! generation, against a plain model: O(n log n), so it sees every operation of every run.
//!
//! The state of a key is the set of values it can have. A settled write makes it one value; an
//! observation must be one of the set, or the value of a *ghost* (a write of unknown outcome or weak
//! level, which has no place in the order and may land once, anywhere after it began).
//!
//! Always: no false alarm, whatever ghosts did; real-time order is checked among strong operations.
//! Held by: `takes_a_good_history`, `rejects_a_stale_read_a_lost_write_and_a_broken_order`.
//! Not here: places whose keys move between clusters (`blackbox` has them).

use crate::history::{page_covers, History, Observed, Operation, Place, Record, Time};
use crate::Violation;
use base_types::OrderedAt;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// What the replay came to.
#[derive(Default, Debug)]
pub struct Report {
    /// Broken promises.
    pub violations: Vec<Violation>,
    /// Operations that had a place in the order.
    pub replayed: u64,
}

type Life = (Place, u64, u32);

/// Replays the history.
pub fn check(history: &History) -> Report {
    let mut report = Report::default();
    let ghosts = Ghosts::gather(history);
    let mut lives: BTreeMap<Life, Vec<(OrderedAt, &Record)>> = BTreeMap::new();
    for record in &history.records {
        // A place's end is ordered where clusters are listed, not among its keys.
        let Some(at) = record.at.filter(|_| record.operation != Operation::Clear) else { continue };
        let placed =
            record.is_settled_write() || (!record.is_write() && record.is_strong() && record.observed.is_some());
        if placed && !history.moving.contains(&record.place) {
            lives.entry((record.place, at.cluster.0, at.generation.0)).or_default().push((at, record));
        }
    }
    for ((place, _, _), mut placed) in lives {
        placed.sort_by_key(|(at, record)| (at.index, at.position, record.id));
        report.replayed += placed.len() as u64;
        check_order(&placed, &mut report.violations);
        let mut replay = Replay { place, ghosts: &ghosts, keys: BTreeMap::new(), used: BTreeSet::new() };
        for (_, record) in &placed {
            if let Err(message) = replay.apply(record) {
                report.violations.push(Violation::new("fast", message, vec![record.id]));
            }
        }
    }
    report
}

/// No two writes share a place; none that began after another had ended is ordered before it.
fn check_order(placed: &[(OrderedAt, &Record)], violations: &mut Vec<Violation>) {
    let mut latest_before: Option<(Time, u64)> = None;
    let mut from = 0;
    while from < placed.len() {
        let place = (placed[from].0.index, placed[from].0.position);
        let to = from + placed[from..].iter().take_while(|(at, _)| (at.index, at.position) == place).count();
        let group = &placed[from..to];
        let writes: Vec<&Record> = group.iter().map(|(_, record)| *record).filter(|record| record.is_write()).collect();
        if writes.len() > 1 {
            let ids = writes.iter().map(|record| record.id).collect();
            violations.push(Violation::new("fast", format!("two writes were told the same place {place:?}"), ids));
        }
        for (at, record) in group {
            if let Some((invoked, earlier)) = latest_before.filter(|(invoked, _)| record.returned_or_never() < *invoked)
            {
                violations.push(Violation::new(
                    "fast",
                    format!(
                        "real-time order broken: an operation that ended at {} is ordered at {at:?}, behind one that began at {invoked}",
                        record.returned_or_never()
                    ),
                    vec![earlier, record.id],
                ));
            }
        }
        for (_, record) in group {
            if latest_before.is_none_or(|(invoked, _)| invoked < record.invoked) {
                latest_before = Some((record.invoked, record.id));
            }
        }
        from = to;
    }
}

/// Writes without a place in the order, by key and value.
struct Ghosts<'a> {
    puts: BTreeMap<(Place, &'a Bytes, &'a Bytes), &'a Record>,
    /// When the earliest ghost that removes the key began.
    deletes: BTreeMap<(Place, &'a Bytes), Time>,
    counters: BTreeMap<(Place, &'a Bytes), Vec<Time>>,
}

impl<'a> Ghosts<'a> {
    fn gather(history: &'a History) -> Ghosts<'a> {
        let mut ghosts = Ghosts { puts: BTreeMap::new(), deletes: BTreeMap::new(), counters: BTreeMap::new() };
        // A settled write whose reply names no place is a ghost to the replay: it happened, but where?
        let placeless = |record: &Record| record.is_settled_write() && record.at.is_none();
        for record in history.records.iter().filter(|record| record.is_ghost() || placeless(record)) {
            for (key, value) in record.effects() {
                match value {
                    Some(value) => drop(ghosts.puts.insert((record.place, key, value), record)),
                    None => {
                        let earliest = ghosts.deletes.entry((record.place, key)).or_insert(record.invoked);
                        *earliest = (*earliest).min(record.invoked);
                    }
                }
            }
            if let Operation::Increment { key } = &record.operation {
                ghosts.counters.entry((record.place, key)).or_default().push(record.invoked);
            }
        }
        ghosts
    }
}

struct Replay<'a> {
    place: Place,
    ghosts: &'a Ghosts<'a>,
    /// The values a key can have now; a key not named is absent.
    keys: BTreeMap<&'a Bytes, Option<&'a Bytes>>,
    /// Ghosts that were seen: they have landed and cannot land again.
    used: BTreeSet<u64>,
}

impl<'a> Replay<'a> {
    fn apply(&mut self, record: &'a Record) -> Result<(), String> {
        match (&record.operation, record.observed.as_ref()) {
            (Operation::Get { key }, Some(Observed::Value(value))) => self.observe(record, key, value.as_ref()),
            (Operation::Scan { keys_only, .. }, Some(Observed::Page { entries, next })) => {
                self.observe_page(record, entries, next.as_ref(), *keys_only)
            }
            (Operation::Delete { key }, Some(Observed::Deleted(existed))) => {
                let result = existed.map_or(Ok(()), |existed| self.observe_presence(record, key, existed));
                self.keys.insert(key, None);
                result
            }
            (Operation::CompareAndSet { key, expected, value }, _) => {
                let result = self.observe(record, key, expected.as_ref());
                self.keys.insert(key, value.as_ref());
                result
            }
            (Operation::Increment { .. } | Operation::ReadCounter { .. } | Operation::Clear, _) => Ok(()),
            _ => {
                for (key, value) in record.effects() {
                    self.keys.insert(key, value);
                }
                Ok(())
            }
        }
    }

    /// The key had exactly this value at this place of the order.
    fn observe(&mut self, record: &Record, key: &'a Bytes, value: Option<&'a Bytes>) -> Result<(), String> {
        let current = self.keys.get(key).copied().flatten();
        if current == value {
            return Ok(());
        }
        let explained = match value {
            Some(value) => match self.ghosts.puts.get(&(self.place, key, value)) {
                Some(ghost) => ghost.invoked <= record.returned_or_never() && self.used.insert(ghost_key(ghost, key)),
                None => false,
            },
            None => self
                .ghosts
                .deletes
                .get(&(self.place, key))
                .is_some_and(|invoked| *invoked <= record.returned_or_never()),
        };
        self.keys.insert(key, value);
        match explained {
            true => Ok(()),
            false => Err(format!("at {:?} {key:?} showed {value:?}, but by the order it is {current:?}", record.at)),
        }
    }

    fn observe_presence(&mut self, record: &Record, key: &'a Bytes, present: bool) -> Result<(), String> {
        let current = self.keys.get(key).copied().flatten();
        if current.is_some() == present {
            return Ok(());
        }
        let returned = record.returned_or_never();
        let explained = if present {
            self.ghosts
                .puts
                .range((self.place, key, &Bytes::new())..)
                .take_while(|((place, of, _), _)| (*place, *of) == (self.place, key))
                .any(|(_, ghost)| ghost.invoked <= returned && !self.used.contains(&ghost_key(ghost, key)))
        } else {
            self.ghosts.deletes.get(&(self.place, key)).is_some_and(|invoked| *invoked <= returned)
        };
        match explained {
            true => Ok(()),
            false => Err(format!("at {:?} {key:?} existed: {present}, but by the order it is {current:?}", record.at)),
        }
    }

    fn observe_page(
        &mut self,
        record: &'a Record,
        entries: &'a [(Bytes, Bytes)],
        next: Option<&Bytes>,
        keys_only: bool,
    ) -> Result<(), String> {
        let mut listed = BTreeSet::new();
        for (key, value) in entries {
            listed.insert(key);
            match keys_only {
                true => self.observe_presence(record, key, true)?,
                false => self.observe(record, key, Some(value))?,
            }
        }
        let absent: Vec<&'a Bytes> = self
            .keys
            .iter()
            .filter(|(key, value)| {
                value.is_some() && !listed.contains(*key) && page_covers(&record.operation, next, key)
            })
            .map(|(key, _)| *key)
            .collect();
        absent.into_iter().try_for_each(|key| self.observe(record, key, None))
    }
}

/// A ghost batch lands on each of its keys once: the pair is what can be used up.
fn ghost_key(ghost: &Record, key: &Bytes) -> u64 {
    let position = ghost.effects().iter().position(|(of, _)| *of == key).unwrap_or(0) as u64;
    ghost.id * 4096 + position
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::testing::*;
    use base_types::WriteConsistency;

    fn violations(records: Vec<Record>) -> usize {
        check(&history(records)).violations.len()
    }

    #[test]
    fn takes_a_good_history() {
        assert_eq!(
            violations(vec![
                at(1, 1, 0, put(0, 5, "k", "a")),
                at(1, 1, 1, put(0, 5, "j", "b")),
                at(1, 1, u32::MAX, get(6, 7, "k", Some("a"))),
                at(1, 2, 0, swap(7, 9, "k", Some("a"), "c", true)),
                at(1, 2, u32::MAX, scan(9, 10, &[("j", "b"), ("k", "c")])),
                at(1, 3, 0, delete(10, 11, "j", true)),
                at(1, 3, u32::MAX, scan(12, 13, &[("k", "c")])),
            ]),
            0
        );
    }

    #[test]
    fn rejects_a_stale_read_a_lost_write_and_a_broken_order() {
        let first = at(1, 1, 0, put(0, 1, "k", "a"));
        let second = at(1, 2, 0, put(2, 3, "k", "b"));
        // The write of index 2 is missing at index 2.
        assert_eq!(violations(vec![first.clone(), second.clone(), at(1, 2, u32::MAX, get(4, 5, "k", Some("a")))]), 1);
        // A read that began after the second write had ended is ordered before it.
        assert_eq!(violations(vec![first.clone(), second.clone(), at(1, 1, u32::MAX, get(4, 5, "k", Some("a")))]), 1);
        // Two writes in one place.
        assert_eq!(violations(vec![first.clone(), at(1, 1, 0, put(0, 1, "j", "x"))]), 1);
        // A scan that forgets a key.
        assert_eq!(violations(vec![first.clone(), at(1, 2, u32::MAX, scan(4, 5, &[]))]), 1);
        // A compare-and-set whose condition did not hold.
        assert_eq!(violations(vec![first, at(1, 2, 0, swap(4, 5, "k", Some("z"), "c", true))]), 1);
    }

    #[test]
    fn ghosts_land_at_most_once() {
        let ghost = unknown(put(0, 1, "k", "g"));
        let seen = |index| at(1, index, u32::MAX, get(10 * index, 10 * index + 1, "k", Some("g")));
        let over = at(1, 5, 0, put(30, 31, "k", "b"));
        assert_eq!(violations(vec![ghost.clone(), seen(2), over.clone()]), 0);
        assert_eq!(violations(vec![ghost.clone(), over.clone(), seen(6)]), 0);
        assert_eq!(violations(vec![ghost, seen(2), over, seen(6)]), 1);
        let hopeful = weak(WriteConsistency::Hopeful, at(1, 4, 0, put(0, 1, "k", "h")));
        assert_eq!(violations(vec![hopeful, at(2, 4, u32::MAX, get(5, 6, "k", None))]), 0);
    }
}
