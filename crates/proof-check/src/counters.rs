//! A request id applies at most once: every acknowledged increment of a counter gave another number,
//! and the counter never counts more than were asked for or less than were acknowledged.
//!
//! Not here: the order of increments (`blackbox`).

use crate::history::{Ending, History, Observed, Operation, Place, Record, Time};
use crate::Violation;
use bytes::Bytes;
use std::collections::BTreeMap;

/// Checks every counter that was never cleared.
pub fn check(history: &History) -> Vec<Violation> {
    let cleared = |place: Place| {
        history.records.iter().any(|record| record.operation == Operation::Clear && record.place == place)
    };
    let mut counters: BTreeMap<(Place, &Bytes), Vec<&Record>> = BTreeMap::new();
    for record in &history.records {
        if let Operation::Increment { key } | Operation::ReadCounter { key } = &record.operation {
            counters.entry((record.place, key)).or_default().push(record);
        }
    }
    counters
        .into_iter()
        .filter(|((place, _), _)| !cleared(*place))
        .flat_map(|((_, key), records)| check_counter(key, &records))
        .collect()
}

fn check_counter(key: &Bytes, records: &[&Record]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut given: BTreeMap<i64, u64> = BTreeMap::new();
    for record in records {
        let Some(Observed::Integer(value)) = record.observed else { continue };
        if record.is_write() && record.is_strong() {
            if let Some(other) = given.insert(value, record.id) {
                let message = format!("counter {key:?} gave {value} to two requests");
                violations.push(Violation::new("counters", message, vec![other, record.id]));
            }
        }
        let returned = record.returned_or_never();
        let asked = records.iter().filter(|other| may_count(other, returned)).count() as i64;
        if value > asked {
            let message = format!("counter {key:?} showed {value}, but only {asked} increments had been asked for: one applied twice, or a definite failure applied");
            violations.push(Violation::new("counters", message, vec![record.id]));
        }
        let acknowledged = records
            .iter()
            .filter(|other| other.is_settled_write() && other.returned_or_never() < record.invoked)
            .count() as i64;
        if record.is_strong() && value < acknowledged {
            let message =
                format!("counter {key:?} showed {value} after {acknowledged} increments had been acknowledged");
            violations.push(Violation::new("counters", message, vec![record.id]));
        }
    }
    violations
}

fn may_count(record: &Record, until: Time) -> bool {
    record.is_write() && record.ending != Ending::Failed && record.invoked <= until
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::testing::*;

    #[test]
    fn rejects_double_applies_lost_increments_and_failures_that_count() {
        let good = vec![
            increment(0, 1, "n", 1),
            unknown(increment(2, 3, "n", 0)),
            increment(4, 5, "n", 3),
            read_counter(6, 7, "n", 3),
        ];
        assert_eq!(check(&history(good)), vec![]);
        assert_eq!(check(&history(vec![increment(0, 1, "n", 1), read_counter(2, 3, "n", 2)])).len(), 1);
        assert_eq!(check(&history(vec![increment(0, 1, "n", 1), increment(0, 1, "n", 1)])).len(), 1);
        assert_eq!(check(&history(vec![increment(0, 1, "n", 1), read_counter(2, 3, "n", 0)])).len(), 1);
        assert_eq!(check(&history(vec![failed(increment(0, 1, "n", 1)), read_counter(2, 3, "n", 1)])).len(), 1);
    }
}
