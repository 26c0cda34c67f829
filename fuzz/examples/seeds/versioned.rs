//! Seeds of the versioned backend: transactions, history, leases; with rows from outside in front, too.

use super::backends::{damaged, life, text};
use crate::Seeds;
use bytes::Bytes;
use core_backends::versioned::{
    Check, Command, Condition, Filter, Operation, Position, Put, Query, Read, Relation, Span, Transaction,
};

fn put(key: &'static str, value: &'static str, lease: u64) -> Operation {
    let (key, value) = (text(key), text(value));
    Operation::Put(Put { key, value, lease, previous: true, keep_value: false, keep_lease: false })
}

fn all() -> Span {
    Span::From { start: Bytes::new() }
}

fn read(at: u64) -> Read {
    Read { span: all(), at, limit: 2, keys_only: false, count: true, count_only: false, filter: Filter::default() }
}

fn commit(conditions: Vec<Condition>, then: Vec<Operation>, otherwise: Vec<Operation>) -> Command {
    Command::Commit { transaction: Transaction { conditions, then, otherwise } }
}

fn condition(check: Check) -> Condition {
    Condition { span: Span::One { key: text("a") }, check }
}

fn keys() -> Vec<Command> {
    let range = Span::Range { start: text("a"), end: text("b\0") };
    let nested = Transaction {
        conditions: vec![condition(Check::UnchangedSince { stamp: 1 })],
        then: vec![put("c", "3", 0)],
        otherwise: vec![Operation::Read(read(1))],
    };
    let is_one = condition(Check::Value { relation: Relation::Equal, value: text("1") });
    vec![
        commit(Vec::new(), vec![put("a", "1", 0), put("a\0", "z", 0)], Vec::new()),
        commit(vec![is_one], vec![put("a", "2", 0), Operation::Nested(nested)], vec![put("b", "never", 0)]),
        commit(
            vec![condition(Check::Version { relation: Relation::Greater, number: 1 })],
            vec![Operation::Delete { span: range, previous: true }, Operation::Read(read(0))],
            Vec::new(),
        ),
        Command::Pin { pin: 1, stamp: 1, keep_ms: 500 },
        Command::Compact { stamp: 2 },
        Command::Collect { limit: 1 },
        Command::Unpin { pin: 1 },
        Command::Collect { limit: 10 },
        Command::Close { stamp: 40 },
        commit(Vec::new(), vec![put("a", "late", 0)], Vec::new()),
    ]
}

fn leases() -> Vec<Command> {
    vec![
        Command::LeaseGrant { lease: 7, ttl_ms: 60_000 },
        Command::LeaseGrant { lease: 8, ttl_ms: 10 },
        commit(Vec::new(), vec![put("a", "1", 7), put("b", "2", 7), put("c", "3", 8)], Vec::new()),
        Command::LeaseKeepAlive { leases: vec![7, 9] },
        Command::LeaseRevoke { lease: 7, limit: 1 },
        Command::LeaseExpire { limit: 1 },
        Command::LeaseExpire { limit: 9 },
    ]
}

pub fn add(seeds: &mut Seeds) {
    let after = Position { stamp: 1, sub: 0 };
    let questions = vec![
        Query::Read { read: read(0), pin: 0 },
        Query::Read { read: read(1), pin: 1 },
        Query::Changes { span: all(), after, limit: 2, before: true, pin: 0 },
        Query::Describe,
        Query::Lease { lease: 7, keys_after: Some(text("a")), limit: 9 },
        Query::Leases { after: 0, limit: 9 },
        Query::StampAt { time_ms: 1_000 },
    ];
    for length in [1, 2, 3, 6, 10] {
        seeds.add("backend_versioned", life(&keys()[..length], &questions));
    }
    for length in [3, 5, 7] {
        seeds.add("backend_versioned", life(&leases()[..length], &questions));
    }
    // A state at its end, a row of history that the index does not know, an index row without history.
    for row in [
        &b"\x01m\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\0\0\0\0\0\0\0\0\0\0\0"[..],
        b"\x0dh\0\0\0\0\0\0\0\x01\0\0\0\x01\x01\x01\x01a\0",
        b"\x0cia\0\0\0\0\0\0\0\0\0\x05\0\0\0\0",
    ] {
        seeds.add("backend_versioned", damaged(&life(&keys(), &questions), row));
    }
}
