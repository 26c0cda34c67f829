//! Nothing is invented, and a definite failure never appears: every value anybody ever read, at any
//! level, was written to that key by an operation that had begun and did not definitely fail.
//!
//! Not here: whether the value was the right one (`fast`, `blackbox`).

use crate::history::{Ending, History, Observed, Operation, Place, Record, Time};
use crate::Violation;
use bytes::Bytes;
use std::collections::BTreeMap;

/// Checks every read of the history.
pub fn check(history: &History) -> Vec<Violation> {
    let mut writers: BTreeMap<(Place, &Bytes, &Bytes), &Record> = BTreeMap::new();
    for record in history.records.iter().filter(|record| record.is_write()) {
        for (key, value) in record.effects() {
            if let Some(value) = value {
                writers.insert((record.place, key, value), record);
            }
        }
    }
    let mut violations = Vec::new();
    for record in &history.records {
        for (key, value) in seen(record) {
            violations.extend(check_seen(&writers, record, key, value));
        }
    }
    violations
}

/// The pairs an answer showed.
fn seen(record: &Record) -> Vec<(&Bytes, &Bytes)> {
    match (&record.operation, &record.observed) {
        (Operation::Get { key }, Some(Observed::Value(Some(value)))) => vec![(key, value)],
        (Operation::Scan { keys_only: false, .. }, Some(Observed::Page { entries, .. })) => {
            entries.iter().map(|(key, value)| (key, value)).collect()
        }
        _ => Vec::new(),
    }
}

fn check_seen(
    writers: &BTreeMap<(Place, &Bytes, &Bytes), &Record>,
    reader: &Record,
    key: &Bytes,
    value: &Bytes,
) -> Option<Violation> {
    let returned: Time = reader.returned_or_never();
    match writers.get(&(reader.place, key, value)) {
        None => {
            Some(Violation::new("values", format!("{key:?} showed {value:?}, which nobody wrote"), vec![reader.id]))
        }
        Some(writer) if writer.ending == Ending::Failed || writer.observed == Some(Observed::ConditionFailed) => {
            Some(Violation::new(
                "values",
                format!("{key:?} showed {value:?}, whose write was answered as definitely not done"),
                vec![writer.id, reader.id],
            ))
        }
        Some(writer) if writer.invoked > returned => Some(Violation::new(
            "values",
            format!("{key:?} showed {value:?} before it was written"),
            vec![writer.id, reader.id],
        )),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::testing::*;

    #[test]
    fn rejects_invented_failed_and_future_values() {
        assert_eq!(check(&history(vec![put(0, 1, "k", "a"), get(2, 3, "k", Some("a"))])), vec![]);
        assert_eq!(check(&history(vec![get(2, 3, "k", Some("a"))])).len(), 1);
        assert_eq!(check(&history(vec![failed(put(0, 1, "k", "a")), get(2, 3, "k", Some("a"))])).len(), 1);
        assert_eq!(check(&history(vec![put(7, 9, "k", "a"), get(2, 3, "k", Some("a"))])).len(), 1);
        assert_eq!(check(&history(vec![unknown(put(0, 1, "k", "a")), get(2, 3, "k", Some("a"))])), vec![]);
    }
}
