//! Ranges of etcd and spans of the store.
//!
//! Always: the three forms of etcd: no end is one key, the end `\0` is all keys from `key` on, else `key` to `end`, exclusive.

use base_types::versioned::Span;
use bytes::Bytes;

/// The end that means "all from the key on".
const ALL: &[u8] = &[0];

/// The span of a key and a `range_end`.
pub fn span_of(key: &Bytes, range_end: &Bytes) -> Span {
    match &range_end[..] {
        [] => Span::One { key: key.clone() },
        ALL => Span::From { start: key.clone() },
        _ => Span::Range { start: key.clone(), end: range_end.clone() },
    }
}

/// What is left of a span from a key on, which a page gave as the next.
pub(super) fn rest_of(span: &Span, next: Bytes) -> Span {
    match span {
        Span::One { .. } => Span::One { key: next },
        Span::Range { end, .. } => Span::Range { start: next, end: end.clone() },
        Span::From { .. } => Span::From { start: next },
    }
}

/// Whether a span holds a key.
pub(super) fn holds(span: &Span, key: &[u8]) -> bool {
    match span {
        Span::One { key: own } => own == key,
        Span::Range { start, end } => key >= &start[..] && key < &end[..],
        Span::From { start } => key >= &start[..],
    }
}
