//! What clients of clusters that keep versions ask next.
//!
//! Always: every value is put by one call. Not here: asking and answers (the parent).

use super::{put_of, whole, Client, Known};
use base_types::action::{Action, BatchStep, KvTarget};
use base_types::versioned::{Check, Command, Condition, Operation, Query, Relation, Span, Transaction, VersionedCall};
use bytes::Bytes;

/// Lives of leases.
const TTLS_MS: &[u64] = &[600, 2_000, 6_000];
/// Leases of one client at a time.
const LEASES_MAX: usize = 3;
/// A compaction leaves so many stamps at least.
const COMPACT_KEEPS: u64 = 10;
/// Where there are two doors, so many calls in a thousand come by the plain one.
pub(super) const BOTH_DOORS_PLAIN: u64 = 450;
/// So many of the others have to do with pins.
pub(super) const PINNED: u64 = 60;
/// Pins of one client at a time, and how long they hold.
const CLIENT_PINS_MAX: usize = 2;
const PIN_KEEPS_MS: &[u64] = &[2_000, 5_000];

/// A client pins the newest stamp, reads at it while others compact it, and lets go.
pub(super) fn draw_pinned(this: &mut Client, client: usize) -> VersionedCall {
    this.made += 1;
    let held = (!this.pins.is_empty()).then(|| *this.more.pick(&this.pins));
    match held {
        Some((pin, _)) if this.more.per_mille(150) => VersionedCall::Change(Command::Unpin { pin }),
        Some((pin, stamp)) if this.pins.len() >= CLIENT_PINS_MAX || this.more.per_mille(700) => match whole(stamp) {
            VersionedCall::Ask(Query::Read { read, .. }) => VersionedCall::Ask(Query::Read { read, pin }),
            other => other,
        },
        _ => {
            let pin = 1 + client as u64 * 1_000_000 + this.made;
            VersionedCall::Change(Command::Pin { pin, stamp: 0, keep_ms: *this.more.pick(PIN_KEEPS_MS) })
        }
    }
}

/// A call by the plain door, and whether of the leader.
pub(super) fn draw_plain(
    this: &mut Client,
    client: usize,
    known: &Known,
    keys: u64,
    target: KvTarget,
) -> (Action, bool) {
    this.made += 1;
    let random = &mut this.more;
    let key = Bytes::from(format!("k{}", random.below(keys)));
    let value = |part: u64| Bytes::from(format!("{client}.{}.{part}", this.made));
    let strong = !random.per_mille(150);
    let was = known.rows.get(&key).map(|row| row.value.clone());
    match random.below(100) {
        0..=24 => (Action::KvPut { target, key, value: value(0) }, true),
        25..=52 => (Action::KvGet { target, key }, strong),
        53..=66 => {
            let prefix = Bytes::from(*random.pick(&["k", "o", ""]));
            let (start_after, end) = (random.per_mille(300).then_some(key), None);
            let limit = *random.pick(&[1, 3, 100]);
            (Action::KvScan { target, prefix, start_after, end, limit, reverse: false, keys_only: false }, strong)
        }
        67..=74 => (Action::KvDelete { target, key }, true),
        75..=79 => {
            let other = Bytes::from(format!("o{}", random.below(keys)));
            let put = |key: &Bytes, part| BatchStep::Put { key: key.clone(), value: value(part) };
            let gone = BatchStep::Delete { key: key.clone() };
            let steps =
                if random.per_mille(300) { vec![gone, put(&other, 1)] } else { vec![put(&key, 0), put(&other, 1)] };
            (Action::KvBatch { target, steps }, true)
        }
        _ => {
            let expected = if random.per_mille(850) { was } else { None };
            let new = (expected.is_none() || !random.per_mille(150)).then(|| value(0));
            (Action::KvCompareAndSet { target, key, expected, value: new }, true)
        }
    }
}

/// What a writer asks next, and whether of the leader.
pub(super) fn draw_call(this: &mut Client, client: usize, known: &Known, keys: u64) -> (VersionedCall, bool) {
    this.made += 1;
    let random = &mut this.random;
    let key = Bytes::from(format!("k{}", random.below(keys)));
    let value = |part: u64| format!("{client}.{}.{part}", this.made);
    let transact = |conditions, then, otherwise| {
        (VersionedCall::Change(Command::Commit { transaction: Transaction { conditions, then, otherwise } }), true)
    };
    let lease = if this.leases.is_empty() || random.per_mille(500) { 0 } else { *random.pick(&this.leases) };
    match random.below(100) {
        0..=29 => {
            let other = Bytes::from(format!("o{}", random.below(keys)));
            let then = [put_of(&key, value(0), lease, true), put_of(&other, value(1), 0, false)];
            transact(vec![], then[..1 + random.below(2) as usize].to_vec(), vec![])
        }
        30..=39 => transact(vec![], vec![Operation::Delete { span: Span::One { key }, previous: false }], vec![]),
        40..=54 => {
            let check = match known.rows.get(&key) {
                Some(row) if random.per_mille(500) => {
                    Check::Modified { relation: Relation::Equal, stamp: row.modified }
                }
                Some(row) if random.per_mille(500) => {
                    Check::Value { relation: Relation::Equal, value: row.value.clone() }
                }
                Some(_) => Check::UnchangedSince { stamp: known.stamp.max(known.compacted) },
                None => Check::Version { relation: Relation::Equal, number: 0 },
            };
            let conditions = vec![Condition { span: Span::One { key: key.clone() }, check }];
            let VersionedCall::Ask(Query::Read { read, .. }) = whole(0) else { return (whole(0), true) };
            transact(conditions, vec![put_of(&key, value(0), lease, true)], vec![Operation::Read(read)])
        }
        55..=66 => (whole(0), true),
        67..=78 => {
            let at = random.between(known.compacted.saturating_sub(3).max(1), known.stamp.max(1) + 1);
            (whole(at), random.per_mille(500))
        }
        79..=85 if this.leases.len() < LEASES_MAX => {
            let (lease, ttl_ms) = (1 + client as u64 * 1_000_000 + this.made, *random.pick(TTLS_MS));
            (VersionedCall::Change(Command::LeaseGrant { lease, ttl_ms }), true)
        }
        86..=93 if !this.leases.is_empty() => {
            (VersionedCall::Change(Command::LeaseKeepAlive { leases: this.leases.clone() }), true)
        }
        94..=95 if !this.leases.is_empty() => {
            let lease = *random.pick(&this.leases);
            (VersionedCall::Change(Command::LeaseRevoke { lease, limit: 1 + random.below(4) as u32 * 100 }), true)
        }
        96..=99 if known.stamp > known.compacted + COMPACT_KEEPS => {
            let stamp = known.stamp - COMPACT_KEEPS;
            (VersionedCall::Change(Command::Compact { stamp }), true)
        }
        _ => (whole(0), true),
    }
}
