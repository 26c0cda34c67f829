//! Comparisons of transactions as conditions of the store.
//!
//! Numbers of etcd are signed; a condition compares unsigned ones. What none can be equal to becomes a condition that always or never
//! holds.
//!
//! Always: for every row and for an absent key, the condition holds where etcd's comparison does (`tests::every_number`).

use super::span::span_of;
use crate::proto::etcdserverpb as pb;
use crate::proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use base_types::versioned::{Check, Condition, Relation};
use tonic::Status;

/// What a comparison asks for.
pub(super) fn condition(compare: &pb::Compare) -> Result<Condition, Status> {
    let unknown = |what: &str, number: i32| {
        Status::invalid_argument(format!("hive: a comparison has the unknown {what} {number}; use one of rpc.proto"))
    };
    let result = CompareResult::try_from(compare.result).map_err(|_| unknown("result", compare.result))?;
    let target = CompareTarget::try_from(compare.target).map_err(|_| unknown("target", compare.target))?;
    let relation = match result {
        CompareResult::Equal => Relation::Equal,
        CompareResult::NotEqual => Relation::NotEqual,
        CompareResult::Less => Relation::Less,
        CompareResult::Greater => Relation::Greater,
    };
    // As etcd: a field of another target counts as absent, which is zero.
    let union = compare.target_union.as_ref();
    let check = match target {
        CompareTarget::Version => {
            let wanted = if let Some(TargetUnion::Version(wanted)) = union { *wanted } else { 0 };
            number(relation, wanted, |relation, number| Check::Version { relation, number })
        }
        CompareTarget::Create => {
            let wanted = if let Some(TargetUnion::CreateRevision(wanted)) = union { *wanted } else { 0 };
            number(relation, wanted, |relation, stamp| Check::Created { relation, stamp })
        }
        CompareTarget::Mod => {
            let wanted = if let Some(TargetUnion::ModRevision(wanted)) = union { *wanted } else { 0 };
            number(relation, wanted, |relation, stamp| Check::Modified { relation, stamp })
        }
        CompareTarget::Lease => {
            let wanted = if let Some(TargetUnion::Lease(wanted)) = union { *wanted } else { 0 };
            lease(relation, wanted)
        }
        CompareTarget::Value => {
            let value = if let Some(TargetUnion::Value(value)) = union { value.clone() } else { Default::default() };
            Check::Value { relation, value }
        }
    };
    Ok(Condition { span: span_of(&compare.key, &compare.range_end), check })
}

/// Holds always, or never: no key has had so many puts.
fn constant(holds: bool) -> Check {
    Check::Version { relation: if holds { Relation::NotEqual } else { Relation::Equal }, number: u64::MAX }
}

fn number(relation: Relation, wanted: i64, check: impl Fn(Relation, u64) -> Check) -> Check {
    match u64::try_from(wanted) {
        Ok(wanted) => check(relation, wanted),
        Err(_) => constant(matches!(relation, Relation::NotEqual | Relation::Greater)),
    }
}

/// Leases keep the bits of their numbers, so only equality means the same for negative ones.
fn lease(relation: Relation, wanted: i64) -> Check {
    match relation {
        Relation::Equal | Relation::NotEqual => Check::Lease { relation, lease: wanted as u64 },
        Relation::Less | Relation::Greater => {
            number(relation, wanted, |relation, lease| Check::Lease { relation, lease })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::revision::of_row;

    fn holds(check: &Check, stamp: u64) -> bool {
        match check {
            Check::Version { relation, number } => relation.holds(&1, number),
            Check::Modified { relation, stamp: wanted } => relation.holds(&stamp, wanted),
            _ => panic!("no check of a revision: {check:?}"),
        }
    }

    #[test]
    fn every_number() {
        use std::cmp::Ordering::{Equal, Greater, Less};
        for stamp in 0..6u64 {
            for wanted in -2..8i64 {
                let order = of_row(stamp).cmp(&wanted);
                let cases = [
                    (CompareResult::Equal, order == Equal),
                    (CompareResult::NotEqual, order != Equal),
                    (CompareResult::Less, order == Less),
                    (CompareResult::Greater, order == Greater),
                ];
                for (result, expected) in cases {
                    let compare = pb::Compare {
                        result: result as i32,
                        target: CompareTarget::Mod as i32,
                        key: "k".into(),
                        target_union: Some(TargetUnion::ModRevision(wanted)),
                        ..Default::default()
                    };
                    let condition = condition(&compare).unwrap();
                    assert_eq!(holds(&condition.check, stamp), expected, "stamp {stamp} {result:?} {wanted}");
                }
            }
        }
    }
}
